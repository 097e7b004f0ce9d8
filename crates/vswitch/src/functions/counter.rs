//! `counter`: packets and bytes by protocol.

use machine::{Rebase, Span, Time};
use wire::{EthernetPacket, Ipv4Packet, Ipv6Packet, ethertype, protocol};

use super::service_function::{FunctionCount, PassingPacket, ServiceFunction, Verdict, nonzero};
use crate::field::Field;

/// What is counted apart, in the order in which it is shown.
const NAMES: [&str; 6] = ["tcp", "udp", "icmp", "other IP", "arp", "other"];

/// Counts what passes.
#[derive(Debug, Default)]
pub struct Counter {
    /// Packets and bytes, by [`NAMES`].
    counted: [(u64, u64); NAMES.len()],
}

/// The place in [`NAMES`] of a packet.
#[inline]
fn kind_of(headers: &[u8]) -> usize {
    const OTHER: usize = NAMES.len() - 1;
    let Ok(ethernet) = EthernetPacket::new_checked(headers) else { return OTHER };
    let protocol = match ethernet.ethertype() {
        ethertype::IPV4 => Ipv4Packet::new_checked(ethernet.payload()).map(|packet| packet.protocol()).ok(),
        ethertype::IPV6 => {
            let packet = Ipv6Packet::new_checked(ethernet.payload());
            packet.ok().and_then(|packet| Some(packet.upper_layer().ok()?.protocol))
        }
        ethertype::ARP => return 4,
        _ => None,
    };
    match protocol {
        Some(protocol::TCP) => 0,
        Some(protocol::UDP) => 1,
        Some(protocol::ICMP | protocol::ICMPV6) => 2,
        Some(_) => 3,
        None => OTHER,
    }
}

impl ServiceFunction for Counter {
    #[inline]
    fn process(&mut self, _: Time, packet: &PassingPacket<'_>, _: &mut Vec<Field>) -> Verdict {
        let (packets, bytes) = &mut self.counted[kind_of(packet.headers)];
        *packets += 1;
        *bytes += u64::from(packet.bytes);
        Verdict::Pass
    }

    fn counts(&self) -> Vec<FunctionCount> {
        let count = |(name, (packets, bytes)): (&&str, &(u64, u64))| FunctionCount {
            bytes: Some(*bytes),
            ..FunctionCount::new(*name, *packets)
        };
        nonzero(NAMES.iter().zip(&self.counted).map(count))
    }
}

impl Rebase for Counter {
    fn rebase(&mut self, _: Span) {
        let Self { counted: _ } = self;
    }
}
