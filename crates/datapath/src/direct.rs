//! What hosts say to each other, not to a service, and a driver carries by itself: conversations of some length, over paths on which nothing else is to be done.
//!
//! ```text
//!   a host's packet --> has it come sixteen times? --> path? --> driver: offload --> carried, in this direction
//!                                                                                     |  what has passed: Graph::count_offloaded
//!   SYN, FIN, RST come here all the same; with one of them, or after some silence: ---+--> withdrawn
//! ```
//!
//! Only what goes from the address that the file gives the one host to that of the other: nobody can take those, so a flow stays right as long as the network is as it is.

use topology::{NetPort, NodeId, TiVec};
use vswitch::FLOOD;
use vswitch::conntrack::Tuple;
use wire::{protocol, tcp_flags};

use crate::driver::Driver;
use crate::graph::{Graph, Moment};
use crate::offload::{ConnectionId, OffloadOutcome, OffloadedFlow};
use crate::paths::{Exit, Origin};
use crate::segment;

/// Conversations that are remembered: a power of two.
const PLACES: usize = 1 << 13;
/// Of these, one may stand in so many.
const WAYS: usize = 2;
/// One host's that are carried, at most: others have some left.
const SHARE: u32 = PLACES as u32 / 4;
/// A direction in which so many packets have come is worth it.
const LONG: u8 = 16;
/// After so many looks in a row at which nothing had passed, it is carried no more.
const SILENT: u8 = 3;

/// One direction of a conversation.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    tuple: Tuple,
    from: Option<NodeId>,
    /// How many of its packets have come here, modulo 256: what could not be carried is tried again then.
    packets: u8,
    /// Looks at which nothing had passed.
    silent: u8,
    is_carried: bool,
}

/// Those that are carried, or may be soon.
#[derive(Debug, Default)]
pub(crate) struct DirectFlows {
    /// Where hashes begin.
    seed: u64,
    /// Empty: nobody carries any.
    entries: Vec<Entry>,
    /// By host: how many of its own are carried.
    shares: TiVec<NodeId, u32>,
    /// Places of those that are not carried any more, as long as the driver has not heard of it.
    withdrawn: Vec<u32>,
}

impl DirectFlows {
    /// None is carried at present; whether a driver will from now on, which table hashes then from that number.
    fn set(&mut self, seed: Option<u64>) {
        let entries = seed.map_or_else(Vec::new, |_| vec![Entry::default(); PLACES]);
        *self = Self { seed: seed.unwrap_or_default(), entries, ..Self::default() };
    }

    /// A host's packet has come: the place of its conversation, if that is to be carried in this direction.
    fn consider(&mut self, from: NodeId, tuple: &Tuple, flags: u8) -> Option<u32> {
        let first = tuple.hash(self.seed, 0) as usize & (PLACES - WAYS);
        let ways = first..first + WAYS;
        let begins_or_ends =
            tuple.protocol == protocol::TCP && flags & (tcp_flags::SYN | tcp_flags::FIN | tcp_flags::RST) != 0;
        let is_same = |entry: &Entry| entry.from == Some(from) && entry.tuple == *tuple;
        let Some(at) = ways.clone().find(|at| is_same(&self.entries[*at])) else {
            let free = ways.filter(|at| !self.entries[*at].is_carried).min_by_key(|at| self.entries[*at].packets);
            if let Some(at) = free.filter(|_| !begins_or_ends) {
                self.entries[at] = Entry { tuple: *tuple, from: Some(from), packets: 1, ..Entry::default() };
            }
            return None;
        };
        if begins_or_ends {
            self.withdraw(at);
            self.entries[at] = Entry::default();
            return None;
        }
        let entry = &mut self.entries[at];
        entry.packets = entry.packets.wrapping_add(1);
        let is_due = entry.packets == LONG && !entry.is_carried;
        (is_due && self.share(from) < SHARE).then_some(at as u32)
    }

    fn share(&self, host: NodeId) -> u32 {
        self.shares.get(host).copied().unwrap_or(0)
    }

    /// It is carried from now on.
    fn note_carried(&mut self, place: u32) {
        let entry = &mut self.entries[place as usize];
        (entry.is_carried, entry.silent) = (true, 0);
        let Some(host) = entry.from else { return };
        if self.shares.len() <= usize::from(host) {
            self.shares.raw.resize(usize::from(host) + 1, 0);
        }
        self.shares[host] += 1;
    }

    fn withdraw(&mut self, at: usize) {
        let entry = &mut self.entries[at];
        if std::mem::take(&mut entry.is_carried) {
            self.withdrawn.push(at as u32);
            if let Some(share) = entry.from.and_then(|host| self.shares.get_mut(host)) {
                *share -= 1;
            }
        }
    }

    /// Something has passed.
    fn note_passed(&mut self, place: u32, tuple: &Tuple) {
        if let Some(entry) = self.entries.get_mut(place as usize).filter(|entry| entry.tuple == *tuple) {
            entry.silent = 0;
        }
    }

    /// What has passed since the last look has been counted: who has been silent for long is carried no more.
    fn look(&mut self) {
        for at in 0..self.entries.len() {
            let entry = &mut self.entries[at];
            if entry.is_carried {
                entry.silent += 1;
                if entry.silent > SILENT {
                    self.withdraw(at);
                    self.entries[at] = Entry::default();
                }
            }
        }
    }
}

impl<P> Graph<P> {
    /// Whether a driver carries what hosts say to each other from now on: then where the hashes of places begin. Nothing is carried at present.
    pub fn set_direct(&mut self, seed: Option<u64>) {
        self.direct.set(seed);
    }

    /// Nothing is carried at present, though it may be soon.
    pub fn forget_direct(&mut self) {
        if !self.direct.entries.is_empty() {
            self.direct.set(Some(self.direct.seed));
        }
    }

    /// Whether [`Graph::consider_direct`] has something to do.
    #[inline]
    pub fn may_carry_direct(&self) -> bool {
        !self.direct.entries.is_empty()
    }

    /// A host's packet comes in by this port, and it is known where it goes: the driver may carry those that follow.
    pub fn consider_direct<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        port: NetPort,
        packet: &P,
    ) {
        let Moment { tables, now } = moment;
        let (from, forwarding) = (tables.map.node(port), driver.forwarding(packet));
        let to = forwarding.to;
        if to == FLOOD || to == from || !tables.map.is_host(to) || !tables.steering.is_plain(from) {
            return;
        }
        let (source, destination) = (driver.source(packet), driver.destination(packet));
        if source != tables.host_table.mac(from) || destination != tables.host_table.mac(to) {
            return;
        }
        // What is a server's is looked at for its services.
        if self.services.is_server(from) || self.services.is_server(to) {
            return;
        }
        let Some(segment) = segment::parse(driver.headers(packet)).filter(|segment| segment.tuple.has_ports()) else {
            return;
        };
        let Some(place) = self.direct.consider(from, &segment.tuple, segment.tcp_flags) else { return };
        let Some((hops, Exit::Host(_))) = self.path(moment, driver, Origin::port(port), forwarding) else { return };
        let flow = OffloadedFlow {
            connection: ConnectionId::Direct(place),
            is_reply: false,
            tuple: segment.tuple,
            target: segment.tuple,
            from,
            to,
            mac: destination,
            only: Some((destination, source)),
            mark: 0,
            hops,
        };
        if driver.offload(now, &flow) == OffloadOutcome::Carried {
            self.direct.note_carried(place);
        }
    }

    /// So much has passed by a flow without being shown here: it is counted where it would have passed.
    pub fn count_offloaded<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        flow: &OffloadedFlow,
        (packets, bytes): (u64, u64),
    ) {
        self.count_on_path(moment.tables, driver, (flow.hops.ports(), flow.to), (packets, bytes));
        match flow.connection {
            ConnectionId::OfService(place) => self.services.count_offloaded(moment.now, place, flow, (packets, bytes)),
            ConnectionId::Direct(place) => self.direct.note_passed(place, &flow.tuple),
        }
    }

    /// All that has passed until now has been counted. To be called once in a while: what has been silent since the last but two is withdrawn.
    pub fn look_at_direct(&mut self) {
        self.direct.look();
    }

    /// What is carried no more, each once. Whoever carries it is to be asked after each burst.
    #[inline]
    pub fn take_withdrawn(&mut self) -> Option<ConnectionId> {
        let direct = self.direct.withdrawn.pop().map(ConnectionId::Direct);
        direct.or_else(|| self.services.take_withdrawn().map(ConnectionId::OfService))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: NodeId = NodeId(3);

    fn tuple(src_port: u16, protocol: u8) -> Tuple {
        Tuple { src: 0x0a00_0001, dst: 0x0a00_0002, src_port, dst_port: 5_201, protocol, is_ipv6: false }
    }

    fn flows() -> DirectFlows {
        let mut flows = DirectFlows::default();
        flows.set(Some(7));
        flows
    }

    /// The place of a conversation of which so many packets have come that it is to be carried.
    fn long(flows: &mut DirectFlows, from: NodeId, tuple: &Tuple) -> Option<u32> {
        (0..LONG).find_map(|_| flows.consider(from, tuple, tcp_flags::ACK))
    }

    #[test]
    fn long_conversations_are_carried_until_they_end() {
        for flag in [tcp_flags::SYN, tcp_flags::FIN | tcp_flags::ACK, tcp_flags::RST] {
            let (mut flows, of_tcp) = (flows(), tuple(40_000, protocol::TCP));
            assert_eq!(flows.consider(HOST, &of_tcp, tcp_flags::SYN), None);
            let place = long(&mut flows, HOST, &of_tcp).expect("sixteen have come");
            flows.note_carried(place);
            assert_eq!(flows.share(HOST), 1);
            assert_eq!(flows.consider(HOST, &of_tcp, flag), None);
            assert_eq!((flows.withdrawn.pop(), flows.withdrawn.pop(), flows.share(HOST)), (Some(place), None, 0));
            // Another one with the same ports begins anew.
            assert_eq!(flows.consider(HOST, &of_tcp, tcp_flags::ACK), None);
            assert!(long(&mut flows, HOST, &of_tcp).is_some());
        }
    }

    #[test]
    fn somebody_else_who_has_the_same_addresses_is_somebody_else() {
        let (mut flows, of_udp) = (flows(), tuple(40_000, protocol::UDP));
        let place = long(&mut flows, HOST, &of_udp).expect("sixteen have come");
        flows.note_carried(place);
        let others = long(&mut flows, NodeId(4), &of_udp);
        assert!(others.is_some_and(|other| other != place), "{others:?}");
        // For datagrams flags are none.
        assert_eq!(flows.consider(HOST, &of_udp, tcp_flags::FIN), None);
        assert_eq!(flows.withdrawn, []);
    }

    #[test]
    fn who_is_silent_is_carried_no_more() {
        let (mut flows, of_udp) = (flows(), tuple(40_000, protocol::UDP));
        let place = long(&mut flows, HOST, &of_udp).expect("sixteen have come");
        flows.note_carried(place);
        for _ in 0..10 {
            (0..SILENT).for_each(|_| flows.look());
            flows.note_passed(place, &of_udp);
        }
        assert_eq!(flows.withdrawn, []);
        (0..=SILENT).for_each(|_| flows.look());
        assert_eq!((flows.withdrawn.as_slice(), flows.share(HOST)), ([place].as_slice(), 0));
    }

    #[test]
    fn what_could_not_be_carried_is_tried_again() {
        let (mut flows, of_udp) = (flows(), tuple(40_000, protocol::UDP));
        let tries = (0..3 * 256).filter_map(|_| flows.consider(HOST, &of_udp, 0)).count();
        assert_eq!(tries, 3);
    }

    #[test]
    fn nobody_takes_all_places() {
        let mut flows = flows();
        let mut carry = |host: NodeId, port: u16| {
            let place = long(&mut flows, host, &tuple(port, protocol::UDP));
            place.inspect(|place| flows.note_carried(*place)).is_some()
        };
        let taken = (1..=u16::MAX).filter(|port| carry(HOST, *port)).count();
        assert_eq!(taken, SHARE as usize);
        let others = (60_000..60_100).filter(|port| carry(NodeId(4), *port)).count();
        assert!(others > 80, "{others}");
    }
}
