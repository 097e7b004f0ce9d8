//! Paths that packets have taken, so that those which follow them need not ask at each hop: a flow cache, as switches in software have.
//!
//! What is decided alike for all packets of a kind, and takes no time, is decided once: where a packet comes in at `port` for host `to` with a hash, all
//! hops up to that host are written down, and packets after it are only counted here. What they count is added to the ports and switches when somebody asks
//! ([`Graph::add_up_paths`]). When something changes that paths depend on (a carrier, routes) all are forgotten.
//!
//! A path has no bond, no pipeline, no rate, no delay, no turn of `packet-scatter`, and no egress of another part of the graph. All other packets go from hop
//! to hop ([`Graph::depart`]).

use topology::{NetPort, NodeId};
use vswitch::{FLOOD, Forwarding, Spread};

use crate::driver::Driver;
use crate::graph::{EgressKind, Graph, Moment, Tables};

/// How many paths are kept: a power of two. A network of 1,024 hosts that one host sends to needs as many.
const SLOTS: usize = 1 << 13;

/// So many are found out a burst: who sends each packet to somebody else, or from another port, pays little more than if there were none.
const LEARNED_MAX: u32 = 8;

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
    /// Where it ends.
    arrival: NetPort,
    /// Whether a packet has found it since another one wanted its place.
    is_wanted: bool,
    /// Whose packets are counted: those of the key, or of the one before it was forgotten.
    to: NodeId,
    packets: u64,
    bytes: u64,
    /// The ports that packets leave from, in order. Empty: there is no path here.
    hops: Box<[NetPort]>,
}

/// Which packets take a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    from: NetPort,
    to: NodeId,
    /// Zero where no switch asks for it.
    hash: u64,
}

impl Key {
    /// No packet's: there is no such port.
    const NONE: Self = Self { from: NetPort(u32::MAX), to: FLOOD, hash: 0 };

    #[inline]
    fn new(spread: Spread, from: NetPort, forwarding: Forwarding) -> Self {
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
        let (key, arrival, to) = (Key::NONE, NetPort(0), FLOOD);
        Self { key, arrival, is_wanted: false, to, packets: 0, bytes: 0, hops: Box::default() }
    }
}

impl Paths {
    /// Counts a packet of so many bytes on its path, if it has one: the port where that ends.
    #[inline]
    fn take(&mut self, key: Key, bytes: u32) -> Option<NetPort> {
        let at = key.slot();
        let slots = self.slots.get_mut(at & !1..(at & !1) + 2)?;
        let slot = if slots[at & 1].key == key { &mut slots[at & 1] } else { &mut slots[at & 1 ^ 1] };
        if slot.key != key {
            return None;
        }
        slot.packets += 1;
        slot.bytes += u64::from(bytes);
        slot.is_wanted = true;
        Some(slot.arrival)
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
    /// [`Graph::depart`] of packets that leave one after the other by one port, in their order. Those whose paths are known go straight to their ends.
    #[inline]
    pub fn depart_burst<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        port: NetPort,
        packets: &mut Vec<P>,
    ) {
        let mut learned = 0;
        for packet in packets.drain(..) {
            let forwarding = driver.forwarding(&packet);
            let key = Key::new(self.spread, port, forwarding);
            if let Some(arrival) = self.paths.take(key, driver.bytes(&packet)) {
                driver.deliver(moment.now, arrival, packet);
                continue;
            }
            self.depart(moment, driver, port, packet);
            if learned < LEARNED_MAX && forwarding.to != FLOOD {
                learned += 1;
                self.learn(moment, driver, key, forwarding);
            }
        }
    }

    /// Finds out the path of packets with this key, if there is a place for it.
    #[cold]
    #[inline(never)]
    fn learn<D: Driver<Packet = P>>(&mut self, moment: Moment<'_>, driver: &mut D, key: Key, forwarding: Forwarding) {
        if let Some((hops, arrival)) = self.path(moment, driver, key.from, forwarding)
            && let Some(at) = self.paths.place(key)
        {
            self.add_up_slot(moment.tables, driver, at);
            self.paths.slots[at] = Slot { key, arrival, is_wanted: true, to: key.to, packets: 0, bytes: 0, hops };
        }
    }

    /// The path of all packets like this one, if they have one, and the port where it ends.
    fn path<D: Driver<Packet = P>>(
        &self,
        Moment { tables, now }: Moment<'_>,
        driver: &D,
        mut port: NetPort,
        forwarding: Forwarding,
    ) -> Option<(Box<[NetPort]>, NetPort)> {
        let mut hops = Vec::with_capacity(HOPS_MAX);
        while hops.len() < HOPS_MAX {
            let egress = &self.egress[port];
            if egress.kind != EgressKind::Single || !egress.link.takes_no_time(now) || !driver.is_here(egress.far) {
                return None;
            }
            hops.push(port);
            let taker = tables.map.taker(egress.far);
            if !taker.is_direct() {
                return None;
            }
            let Some(at) = tables.map.switch(taker.node()) else { return Some((hops.into(), egress.far)) };
            if self.pipelines.get(at).is_some_and(Option::is_some) {
                return None;
            }
            let out = self.switches[at].forward_always(&self.routes, forwarding)?;
            port = tables.map.port(taker.node(), out);
        }
        None
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
        for port in &**hops {
            let egress = &mut self.egress[*port];
            egress.link.count_passed(packets, bytes);
            if let Some(switch) = tables.map.switch(tables.map.node(*port)) {
                driver.forwarded(switch, *to, packets);
            }
        }
    }
}
