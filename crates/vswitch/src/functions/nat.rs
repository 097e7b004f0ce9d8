//! `nat`: connections that the chain's `from` begins seem to come from other addresses, and ports of an address lead to hosts (RFC 3022).

use machine::{Rebase, Span, Time};
use wire::{EthernetPacket, protocol};

use super::connections::{Content, connections, count_of};
use super::service_function::{Course, FunctionCount, PassingPacket, ServiceFunction, Verdict, nonzero};
use crate::conntrack::{
    Conntrack, NatRange, Refusal, Request, Segment, Tracked, Translate, TranslatedEnd, Tuple, ct_state,
};
use crate::field::Field;
use crate::translation::translate;

/// What is translated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NatRules {
    /// What the sources of connections become that the chain's `from` begins.
    pub source: Option<NatRange>,
    /// Ports that lead to hosts.
    pub forwards: Vec<PortForward>,
}

/// A port of an address that leads to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortForward {
    /// In which course connections to it are begun.
    pub course: Course,
    /// IP protocol: TCP or UDP.
    pub protocol: u8,
    /// The family of both addresses.
    pub is_ipv6: bool,
    /// The address that others connect to; an IPv4 address stands in the low 32 bits.
    pub address: u128,
    /// The port of it.
    pub port: u16,
    /// The host's address.
    pub to: u128,
    /// The host's port.
    pub to_port: u16,
}

impl PortForward {
    /// [`PortForward::protocol`] of TCP.
    pub const TCP: u8 = protocol::TCP;
    /// [`PortForward::protocol`] of UDP.
    pub const UDP: u8 = protocol::UDP;

    fn is_for(&self, course: Course, tuple: &Tuple) -> bool {
        (self.course, self.protocol, self.is_ipv6) == (course, tuple.protocol, tuple.is_ipv6)
            && (self.address, self.port) == (tuple.dst, tuple.dst_port)
    }

    const fn range(&self) -> NatRange {
        let ports = Some((self.to_port, self.to_port));
        NatRange { end: TranslatedEnd::Destination, is_ipv6: self.is_ipv6, addresses: (self.to, self.to), ports }
    }
}

impl NatRules {
    /// What a connection becomes that a packet begins.
    fn range_for(&self, course: Course, tuple: &Tuple) -> Option<NatRange> {
        let forward = self.forwards.iter().find(|forward| forward.is_for(course, tuple));
        let source = self.source.filter(|source| course == Course::Forward && source.is_for(tuple));
        forward.map(PortForward::range).or(source)
    }

    /// Whether nobody but this function is at an address.
    fn owns(&self, is_ipv6: bool, address: u128) -> bool {
        let has = |range: &NatRange| {
            let (first, last) = range.addresses;
            range.is_ipv6 == is_ipv6 && (first..=last).contains(&address)
        };
        self.source.as_ref().is_some_and(has)
            || self.forwards.iter().any(|it| (it.is_ipv6, it.address) == (is_ipv6, address))
    }
}

/// Translates addresses and ports.
#[derive(Debug)]
pub struct Nat {
    rules: NatRules,
    conntrack: Conntrack,
    /// By connection: the MAC address that its packets come from, where their source is translated. Answers go there, though nobody else knows that it has this IP address.
    stations: Vec<[u8; 6]>,
    /// Packets in which something was written.
    translated: u64,
    /// Packets to an address of the function that no connection has and no port leads on from.
    unsolicited: u64,
    /// Packets that belong to no connection and begin none.
    invalid: u64,
    /// Packets for whose connection no address and port is left.
    no_tuple: u64,
    /// Fragments, which do not say what they belong to, and IP packets that are malformed.
    fragments: u64,
    /// Frames with several tags: what is in them is not looked at.
    nested: u64,
    /// Packets for whose connection the table has no room.
    full: u64,
}

impl Nat {
    /// `seed` is where the hashes of its connections start.
    pub fn new(rules: &NatRules, seed: u64) -> Self {
        let conntrack = connections(seed);
        Self {
            rules: rules.clone(),
            stations: vec![[0; 6]; if rules.source.is_some() { conntrack.capacity() } else { 0 }],
            conntrack,
            translated: 0,
            unsolicited: 0,
            invalid: 0,
            no_tuple: 0,
            fragments: 0,
            nested: 0,
            full: 0,
        }
    }

    fn process_ip(
        &mut self,
        now: Time,
        packet: &PassingPacket<'_>,
        segment: &Segment,
        fields: &mut Vec<Field>,
    ) -> Verdict {
        let tuple = &segment.tuple;
        let range = self.rules.range_for(packet.course, tuple);
        let is_unsolicited = range.is_none() && self.rules.owns(tuple.is_ipv6, tuple.dst);
        let translates = range.map_or(Translate::Existing, Translate::New);
        // What stays as it is is a connection as well: answers to it begin none that would be translated.
        self.conntrack.begin_for(packet.course.index());
        let request = Request { zone: 0, commit: !is_unsolicited, force: false, mark: None, translate: translates };
        let tracked = self.conntrack.process(now, segment, &request);
        let lost = match tracked.refusal {
            _ if tracked.is_kept => {
                self.write(packet, segment, &tracked, fields);
                return Verdict::Pass;
            }
            _ if is_unsolicited => &mut self.unsolicited,
            Some(Refusal::NoTuple) => &mut self.no_tuple,
            Some(Refusal::NoRoom) => &mut self.full,
            None if range.is_some() => &mut self.invalid,
            None => return Verdict::Pass,
        };
        *lost += 1;
        Verdict::Drop
    }

    /// Says what is written into a packet of a connection.
    fn write(&mut self, packet: &PassingPacket<'_>, segment: &Segment, tracked: &Tracked, fields: &mut Vec<Field>) {
        let is_reply = tracked.state & ct_state::REPLY != 0;
        if let Some(new) = tracked.tuple
            && let Some(station) = tracked.place.and_then(|place| self.stations.get_mut(place as usize))
            && let Ok(ethernet) = EthernetPacket::new_checked(packet.headers)
        {
            if !is_reply && new.src != segment.tuple.src {
                *station = ethernet.src();
            } else if is_reply && new.dst != segment.tuple.dst && *station != ethernet.dst() {
                // A host that is known has its own address written behind the IP address.
                fields.push(Field::EthDst(*station));
            }
        }
        translate(segment, tracked, |field| fields.push(field));
        self.translated += u64::from(!fields.is_empty());
    }
}

impl ServiceFunction for Nat {
    fn process(&mut self, now: Time, packet: &PassingPacket<'_>, fields: &mut Vec<Field>) -> Verdict {
        let unreadable = match Content::of(packet.headers) {
            Content::Ip(segment) => return self.process_ip(now, packet, &segment, fields),
            Content::NeighbourDiscovery | Content::Other => return Verdict::Pass,
            Content::Fragment => &mut self.fragments,
            Content::Nested => &mut self.nested,
        };
        *unreadable += 1;
        Verdict::Drop
    }

    fn counts(&self) -> Vec<FunctionCount> {
        nonzero([
            count_of(&self.conntrack),
            FunctionCount::new("translated", self.translated),
            FunctionCount::new("unsolicited", self.unsolicited),
            FunctionCount::new("invalid", self.invalid),
            FunctionCount::new("no address and port left", self.no_tuple),
            FunctionCount::new("fragments", self.fragments),
            FunctionCount::new("several tags", self.nested),
            FunctionCount::new("no room for connections", self.full),
        ])
    }
}

impl Rebase for Nat {
    fn rebase(&mut self, by: Span) {
        let Self {
            rules: _,
            conntrack,
            stations: _,
            translated: _,
            unsolicited: _,
            invalid: _,
            no_tuple: _,
            fragments: _,
            nested: _,
            full: _,
        } = self;
        conntrack.rebase(by);
    }
}
