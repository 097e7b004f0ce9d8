//! `nat`: connections that the chain's `from` begins seem to come from other addresses, and ports of an address lead to hosts (RFC 3022).

use machine::{Rebase, Span, Time};
use wire::{EthernetPacket, ethertype, protocol};

use super::connections::{connections, count_of};
use super::service_function::{Course, FunctionCount, PassingPacket, ServiceFunction, Verdict, nonzero};
use crate::conntrack::{Conntrack, NatRange, Request, Segment, Translate, TranslatedEnd, Tuple, ct_state};
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
    /// Packets in which something was written.
    translated: u64,
    /// Packets to an address of the function that no connection has and no port leads on from.
    unsolicited: u64,
    /// Packets that belong to no connection and begin none; or no address and port is left for theirs.
    invalid: u64,
    /// Fragments, which do not say what they belong to, and IP packets that are malformed.
    fragments: u64,
    /// Connections that could not be kept.
    full: u64,
}

impl Nat {
    /// `seed` is where the hashes of its connections start.
    pub fn new(rules: &NatRules, seed: u64) -> Self {
        Self {
            rules: rules.clone(),
            conntrack: connections(seed),
            translated: 0,
            unsolicited: 0,
            invalid: 0,
            fragments: 0,
            full: 0,
        }
    }

    fn process_ip(&mut self, now: Time, course: Course, segment: &Segment, fields: &mut Vec<Field>) -> Verdict {
        let tuple = &segment.tuple;
        let range = self.rules.range_for(course, tuple);
        let translates = range.map_or(Translate::Existing, Translate::New);
        let request = Request { zone: 0, commit: range.is_some(), force: false, mark: None, translate: translates };
        let tracked = self.conntrack.process(now, segment, &request);
        let is_invalid = tracked.state & ct_state::INVALID != 0;
        let lost = if !tracked.is_kept && self.rules.owns(tuple.is_ipv6, tuple.dst) && range.is_none() {
            &mut self.unsolicited
        } else if is_invalid && range.is_some() {
            &mut self.invalid
        } else if !tracked.is_kept && range.is_some() {
            &mut self.full
        } else {
            translate(segment, &tracked, |field| fields.push(field));
            self.translated += u64::from(!fields.is_empty());
            return Verdict::Pass;
        };
        *lost += 1;
        Verdict::Drop
    }
}

impl ServiceFunction for Nat {
    fn process(&mut self, now: Time, packet: &PassingPacket<'_>, fields: &mut Vec<Field>) -> Verdict {
        let Ok(ethernet) = EthernetPacket::new_checked(packet.headers) else { return Verdict::Pass };
        let is_ipv6 = match ethernet.ethertype() {
            ethertype::IPV4 => false,
            ethertype::IPV6 => true,
            _ => return Verdict::Pass,
        };
        if let Some(segment) = Segment::parse(is_ipv6, ethernet.payload()) {
            return self.process_ip(now, packet.course, &segment, fields);
        }
        self.fragments += 1;
        Verdict::Drop
    }

    fn counts(&self) -> Vec<FunctionCount> {
        nonzero([
            count_of(&self.conntrack),
            FunctionCount::new("translated", self.translated),
            FunctionCount::new("unsolicited", self.unsolicited),
            FunctionCount::new("invalid", self.invalid),
            FunctionCount::new("fragments", self.fragments),
            FunctionCount::new("no room for connections", self.full),
        ])
    }
}

impl Rebase for Nat {
    fn rebase(&mut self, by: Span) {
        let Self { rules: _, conntrack, translated: _, unsolicited: _, invalid: _, fragments: _, full: _ } = self;
        conntrack.rebase(by);
    }
}
