//! Paths that packets have taken, so that those which follow them need not ask at each hop: a flow cache, as switches in software have.
//!
//! What is decided alike for all packets of a kind, and takes no time, is decided once: where a packet comes in for host `to` with a hash, all hops up to that
//! host, or up to the next bond, are written down, and packets after it are only counted here. What they count is added to the ports and switches when somebody asks
//! ([`Graph::add_up_paths`]). When something changes that paths depend on (a carrier, routes) all are forgotten.
//!
//! A bond ends a path: it chooses a member for each packet anew ([`Graph::depart_burst`]), and behind it another path begins. So what a bond decides by is never
//! remembered, and paths outlive what happens to members in it.
//!
//! A path has no pipeline, no rate, no delay, no turn of `packet-scatter`, no egress of another part of the graph, and none that is observed. All other packets go from hop
//! to hop ([`Graph::depart`]).

use topology::{BondEndId, NetPort, NodeId};
use vswitch::{FLOOD, Forwarding, Spread};

use crate::driver::Driver;
use crate::ends::Role;
use crate::graph::{EgressKind, Graph, Moment, Tables};
use crate::map::Map;

/// How many paths are kept: a power of two. A network of 1,024 hosts that one host sends to needs as many.
const SLOTS: usize = 1 << 13;

/// So many are found out a burst: who sends each packet to somebody else, or from another port, pays little more than if there were none.
pub(crate) const LEARNED_MAX: u32 = 8;

/// Longer paths are not kept. A fat-tree's have six hops.
const HOPS_MAX: usize = 16;

/// The paths of one graph. Nothing is allocated before the first one is found.
#[derive(Debug, Default)]
pub struct Paths {
    slots: Box<[Slot]>,
}

/// One path, and what has taken it since it was counted last. What each packet needs stands in one line of the processor's cache.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Slot {
    key: Key,
    exit: Exit,
    /// Whether a packet has found it since another one wanted its place.
    is_wanted: bool,
    /// Whose packets are counted: those of the key, or of the one before it was forgotten.
    to: NodeId,
    packets: u64,
    bytes: u64,
    /// The ports that packets leave from, in order; where a bond is one of them, that of its first member. Empty: there is no path here.
    hops: Box<[NetPort]>,
}

/// The ports that packets leave from on a path, in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hops {
    ports: [NetPort; HOPS_MAX],
    count: u8,
}

impl Hops {
    /// Adds one; `None`: the path is too long.
    fn push(&mut self, port: NetPort) -> Option<()> {
        *self.ports.get_mut(usize::from(self.count))? = port;
        self.count += 1;
        Some(())
    }

    /// All of them.
    pub(crate) fn ports(&self) -> &[NetPort] {
        &self.ports[..usize::from(self.count)]
    }
}

/// Where a path ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// At a host, which it comes to by this port.
    Host(NetPort),
    /// At this end of a bond.
    Bond(BondEndId),
}

/// Where a path begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin(u32);

impl Origin {
    /// With this bit it is behind an end of a bond. There are fewer ports than that.
    const BEHIND_BOND: u32 = 1 << 31;

    /// Packets depart by this port.
    pub(crate) const fn port(port: NetPort) -> Self {
        Self(port.0)
    }

    /// Packets have come through a bond to this end of it, at a switch.
    pub(crate) const fn behind(end: BondEndId) -> Self {
        Self(end.0 | Self::BEHIND_BOND)
    }

    /// The end of the bond, or else the port.
    pub(crate) const fn place(self) -> Result<BondEndId, NetPort> {
        if self.0 & Self::BEHIND_BOND == 0 { Err(NetPort(self.0)) } else { Ok(BondEndId(self.0 & !Self::BEHIND_BOND)) }
    }
}

/// Which packets take a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    from: Origin,
    to: NodeId,
    /// Zero where no switch asks for it.
    hash: u64,
}

impl Key {
    /// No packet's: what is for everybody has no path.
    const NONE: Self = Self { from: Origin(u32::MAX), to: FLOOD, hash: 0 };

    #[inline]
    pub(crate) fn new(spread: Spread, from: Origin, forwarding: Forwarding) -> Self {
        let hash = if spread == Spread::Ecmp { forwarding.hash.0 } else { 0 };
        Self { from, to: forwarding.to, hash }
    }

    /// Where it may stand: in one of two neighbours.
    #[inline]
    fn slot(self) -> usize {
        let bits = u64::from(self.to.0) ^ u64::from(self.from.0) << 32 ^ self.hash;
        (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOTS.trailing_zeros())) as usize
    }
}

impl Slot {
    fn free() -> Self {
        let (key, exit, to) = (Key::NONE, Exit::Host(NetPort(0)), FLOOD);
        Self { key, exit, is_wanted: false, to, packets: 0, bytes: 0, hops: Box::default() }
    }
}

impl Paths {
    /// Counts a packet of so many bytes on its path, if it has one: where that ends.
    #[inline]
    pub(crate) fn take(&mut self, key: Key, bytes: u32) -> Option<Exit> {
        let at = key.slot();
        let slots = self.slots.get_mut(at & !1..(at & !1) + 2)?;
        let slot = if slots[at & 1].key == key { &mut slots[at & 1] } else { &mut slots[at & 1 ^ 1] };
        if slot.key != key {
            return None;
        }
        slot.packets += 1;
        slot.bytes += u64::from(bytes);
        slot.is_wanted = true;
        Some(slot.exit)
    }

    /// Nothing is known any more. What has been counted is kept.
    pub(crate) fn forget(&mut self) {
        for slot in &mut self.slots {
            (slot.key, slot.is_wanted) = (Key::NONE, false);
        }
    }

    /// The place for another path, unless both that stand there have been taken lately. What it has counted is to be added up first.
    fn place(&mut self, key: Key) -> Option<usize> {
        if self.slots.is_empty() {
            self.slots = vec![Slot::free(); SLOTS].into();
        }
        let at = key.slot();
        let candidates = [at, at ^ 1];
        let free = candidates.into_iter().find(|at| !self.slots[*at].is_wanted);
        if free.is_none() {
            // Who is taken until then stays.
            for at in candidates {
                self.slots[at].is_wanted = false;
            }
        }
        free
    }
}

impl<P> Graph<P> {
    /// Finds out the path of packets with this key, if there is a place for it.
    #[cold]
    #[inline(never)]
    pub(crate) fn learn<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        key: Key,
        forwarding: Forwarding,
    ) {
        if let Some((hops, exit)) = self.path(moment, driver, key.from, forwarding)
            && let Some(at) = self.paths.place(key)
        {
            self.add_up_slot(moment.tables, driver, at);
            let hops = hops.ports().into();
            self.paths.slots[at] = Slot { key, exit, is_wanted: true, to: key.to, packets: 0, bytes: 0, hops };
        }
    }

    /// The path of all packets like this one, if they have one, and where it ends.
    pub(crate) fn path<D: Driver<Packet = P>>(
        &self,
        moment: Moment<'_>,
        driver: &D,
        from: Origin,
        forwarding: Forwarding,
    ) -> Option<(Hops, Exit)> {
        let map = &moment.tables.map;
        let mut port = match from.place() {
            Ok(end) => self.next_hop(map, moment.tables.bonds[end].node, forwarding)?,
            // Whichever of its ports a multi-homed host departs by, its switch chooses.
            Err(port) if self.egress[port].kind == EgressKind::OfMultiHomed => {
                self.next_hop(map, map.node(port), forwarding)?
            }
            Err(port) => port,
        };
        let mut hops = Hops { ports: [NetPort(0); HOPS_MAX], count: 0 };
        loop {
            hops.push(port)?;
            let egress = &self.egress[port];
            match egress.kind {
                EgressKind::Single | EgressKind::OfMultiHomed => {}
                EgressKind::InBond => {
                    let end = map.bond(port)?;
                    return self.crosses_at_once(moment, driver, end).then_some((hops, Exit::Bond(end)));
                }
                EgressKind::Elsewhere | EgressKind::Observed => return None,
            }
            if egress.is_observed || !egress.link.takes_no_time(moment.now) || !driver.is_here(egress.far) {
                return None;
            }
            let (taker, far) = (map.taker(egress.far), egress.far);
            let node = taker.node();
            if taker.is_in_bond() {
                return None;
            }
            if map.is_host(node) && (forwarding.to == node || !map.forwards(node)) {
                return Some((hops, Exit::Host(far)));
            }
            port = self.next_hop(map, node, forwarding)?;
        }
    }

    /// The port that all packets like this one leave a switch by, also one in a multi-homed host.
    fn next_hop(&self, map: &Map, node: NodeId, forwarding: Forwarding) -> Option<NetPort> {
        let at = map.switch(node).or_else(|| map.host_switch(node))?;
        if self.pipelines.get(at).is_some_and(Option::is_some) {
            return None;
        }
        Some(map.port(node, self.switches[at].forward_always(&self.routes, forwarding)?))
    }

    /// Whether what leaves by a bond comes to its other end at once, and here, unless a member has no carrier.
    fn crosses_at_once<D: Driver<Packet = P>>(&self, moment: Moment<'_>, driver: &D, end: BondEndId) -> bool {
        let Moment { tables, now } = moment;
        let role = |end: BondEndId| self.ends[end].as_ref().map(|state| &state.role);
        let is_internal = matches!(role(end), Some(Role::Bonded(_) | Role::Learning(_)));
        is_internal
            && role(tables.bonds[end].partner).is_some()
            && tables.map.members(end).iter().map(|port| &self.egress[*port]).all(|egress| {
                let at_once = egress.link.takes_no_time(now) || !egress.is_up();
                egress.kind == EgressKind::InBond && !egress.is_observed && at_once && driver.is_here(egress.far)
            })
    }

    /// Adds what has been counted on paths to their ports and switches.
    pub fn add_up_paths<D: Driver<Packet = P>>(&mut self, tables: &Tables, driver: &mut D) {
        for at in 0..self.paths.slots.len() {
            self.add_up_slot(tables, driver, at);
        }
    }

    fn add_up_slot<D: Driver<Packet = P>>(&mut self, tables: &Tables, driver: &mut D, at: usize) {
        let Slot { to, packets, bytes, hops, .. } = &mut self.paths.slots[at];
        let (packets, bytes) = (std::mem::take(packets), std::mem::take(bytes));
        if packets == 0 {
            return;
        }
        let (to, hops) = (*to, std::mem::take(hops));
        self.count_on_path(tables, driver, (&hops, to), (packets, bytes));
        self.paths.slots[at].hops = hops;
    }

    /// Counts packets at the ports that they have left from on their way to a host, and at the switches that have those.
    pub(crate) fn count_on_path<D: Driver<Packet = P>>(
        &mut self,
        tables: &Tables,
        driver: &mut D,
        (hops, to): (&[NetPort], NodeId),
        (packets, bytes): (u64, u64),
    ) {
        for port in hops {
            let egress = &mut self.egress[*port];
            // The links of a bond have counted for themselves.
            if egress.kind != EgressKind::InBond {
                egress.link.count_passed(packets, bytes);
            }
            let node = tables.map.node(*port);
            if let Some(switch) = tables.map.switch(node).or_else(|| tables.map.host_switch(node)) {
                driver.forwarded(switch, to, packets);
            }
        }
    }
}
