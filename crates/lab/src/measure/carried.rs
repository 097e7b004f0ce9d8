//! What holds in every run: no host is handed more payload than its links can have carried to it.
//!
//! A link with a rate transmits one packet after the other. So what comes out of it in a window of length W was transmitted in W, but for the
//! packet that was being transmitted when W began. And whatever its rate, what comes out of it in W was accepted in W, or was under way when W
//! began. Both bounds are held against what was delivered, host by host; a run that breaks one has measured nonsense, and is no result.

use fabric::Fabric;
use link::LinkSpec;
use machine::Span;
use topology::{Direction, NodeId};

use super::record::{LinkRecord, node_name};

/// Picoseconds a second, and bits a byte.
const PS_BITS: u128 = 8_000_000_000_000;

/// What was delivered in a measured window, and what is known of what carried it.
pub(crate) struct Delivery<'a> {
    /// With the links as they were in the run.
    pub fabric: &'a Fabric,
    /// Each link twice, in the fabric's order: what each direction accepted in the window.
    pub links: &'a [LinkRecord],
    /// How long the window was.
    pub window: Span,
    /// Of each flow: the host that it goes to, and the bytes of payload that came to it in the window, each once.
    pub flows: Vec<(NodeId, u64)>,
    /// The longest packet.
    pub packet: Packet,
    /// How much later than due a packet was handed to its host at most.
    pub late: Span,
    /// Bytes that threads may have been handing to each other when the window began.
    pub between_threads: u64,
    /// Bytes of payload that came to a host before the window and may count as delivered in it: datagrams of which parts are missing.
    pub incomplete: u64,
    /// Packets that waited at a host, at most: for others before them, where its bonds put arrivals in order; or for a core, where simulated hosts cost something.
    pub resequenced: &'a dyn Fn(NodeId) -> u64,
}

/// A packet as long as any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// Bytes of its payload.
    pub payload: u32,
    /// Its bytes on a link, without what the link adds to each.
    pub bytes: u32,
}

/// A host that was handed more than its links can have carried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{delivered} bytes of payload came to host {host} within {window}, but its links can have carried no more than {carried}: {links}"
)]
pub struct Excess {
    /// The host.
    pub host: String,
    /// Bytes of payload that came to it, each once.
    pub delivered: u64,
    /// How long that took.
    pub window: Span,
    /// The most that its links can have carried to it.
    pub carried: u64,
    /// What is known of each of them.
    pub links: String,
}

impl Delivery<'_> {
    /// Holds what was delivered to each host against what its links can have carried.
    pub(crate) fn check(&self) -> Result<(), Excess> {
        for host in self.fabric.topology.hosts().map(|(host, _)| host) {
            let delivered: u64 = self.flows.iter().filter(|(to, _)| *to == host).map(|(_, bytes)| bytes).sum();
            if let Some(carried) = self.carried_to(host).filter(|carried| delivered > *carried) {
                return Err(Excess {
                    host: node_name(self.fabric, host),
                    delivered,
                    window: self.window,
                    carried,
                    links: self.links_to(host),
                });
            }
        }
        Ok(())
    }

    /// The most payload that a host's links can have carried to it; `None` if one of them has no bound.
    fn carried_to(&self, host: NodeId) -> Option<u64> {
        let links = self.arriving(host).map(|(spec, record)| self.carried_by(&spec, record)).sum::<Option<u64>>()?;
        let waited = (self.resequenced)(host).saturating_mul(self.packet.payload.into());
        Some(links.saturating_add(waited).saturating_add(self.incomplete))
    }

    /// The directions of links that lead to a host.
    fn arriving(&self, host: NodeId) -> impl Iterator<Item = (LinkSpec, &LinkRecord)> {
        let ports = self.fabric.topology.nodes[host].ports.iter();
        ports.filter_map(|&(id, side)| {
            let direction = Direction::leaving(id, side.other());
            let spec = self.fabric.topology.links[id].spec_from(side.other());
            Some((spec, self.links.get(usize::from(direction))?))
        })
    }

    fn carried_by(&self, spec: &LinkSpec, record: &LinkRecord) -> Option<u64> {
        let packet = u64::from(self.packet.bytes);
        let Some(rate_bps) = spec.rate_bps else {
            // Without a rate, how much is under way is bounded only where that takes no time.
            let at_once = record.bytes + 2 * packet + self.between_threads;
            return (!spec.is_shaped()).then_some(at_once);
        };
        // What its host's card has collected was transmitted before, too, and what is later by jitter than what comes last.
        let late = self.late + spec.coalesce() + spec.jitter() * 2;
        let passes = |time: Span| u128::from(rate_bps) * u128::from(time.as_ps()) / PS_BITS;
        // Each packet carries at most this share of what it takes on the wire; and one more for each end of the window.
        let (payload, wire) = (u128::from(self.packet.payload), u128::from(self.packet.bytes + spec.overhead_bytes));
        let by_rate = passes(self.window + late) * payload / wire.max(1) + 2 * payload;
        let waiting = u64::from(spec.queue_packets.unwrap_or(u32::MAX)) + 3;
        let under_way = passes(spec.delay + late) + u128::from(waiting * packet);
        let by_count = u128::from(record.bytes) + under_way;
        Some(u64::try_from(by_rate.min(by_count)).unwrap_or(u64::MAX))
    }

    fn links_to(&self, host: NodeId) -> String {
        let one = |(spec, record): (LinkSpec, &LinkRecord)| {
            let rate = spec.rate_bps.map_or_else(|| "no rate".to_owned(), |rate| format!("{rate} bit/s"));
            format!("{} -> {} ({rate}) accepted {} bytes", record.from, record.to, record.bytes)
        };
        self.arriving(host).map(one).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    /// What comes to the first of two hosts within a second: over 100 Mbit/s with a queue of 100 packets and 50 us of delay, in packets of 1,000 bytes
    /// with 900 of payload.
    struct Case {
        fabric: Fabric,
        links: Vec<LinkRecord>,
        late: Span,
        resequenced: u64,
    }

    impl Case {
        /// The host's link accepted so many bytes.
        fn new(accepted: u64) -> Self {
            let fabric = tree(1, 1, 2, false);
            let record = |bytes| LinkRecord {
                from: "edge1".to_owned(),
                to: "h1".to_owned(),
                trunk: false,
                packets: bytes / 1_000,
                bytes,
                drops: 0,
                marks: 0,
                cut: 0,
                losses: 0,
                duplicates: 0,
                corruptions: 0,
                overtakes: 0,
                utilisation: None,
                queue_mean: None,
            };
            let mut links: Vec<LinkRecord> = (0..2 * fabric.topology.links.len()).map(|_| record(0)).collect();
            // The first link goes from the host to its switch; what comes goes the other way.
            links[1] = record(accepted);
            Self { fabric, links, late: Span::ZERO, resequenced: 0 }
        }

        fn check(&self, delivered: u64) -> Result<(), Excess> {
            // What goes to the other host, and that there are two flows, does not matter.
            let flows = vec![(NodeId(0), delivered / 2), (NodeId(1), 7), (NodeId(0), delivered - delivered / 2)];
            let delivery = Delivery {
                fabric: &self.fabric,
                links: &self.links,
                window: Span::from_secs(1),
                flows,
                packet: Packet { payload: 900, bytes: 1_000 },
                late: self.late,
                between_threads: 0,
                incomplete: 0,
                resequenced: &|host| if host == NodeId(0) { self.resequenced } else { 0 },
            };
            delivery.check()
        }

        /// The most that may be delivered.
        fn most(&self) -> u64 {
            let excess = self.check(u64::MAX / 4).expect_err("no link carries as much");
            assert_eq!(self.check(excess.carried), Ok(()));
            assert!(self.check(excess.carried + 1).is_err());
            excess.carried
        }
    }

    #[test]
    fn no_more_comes_than_a_link_transmits_and_one_packet_for_each_end_of_the_window() {
        let mut case = Case::new(u64::from(u32::MAX));
        assert_eq!(case.most(), 12_500_000 * 9 / 10 + 2 * 900);
        case.late = Span::from_ms(10);
        assert_eq!(case.most(), 12_625_000 * 9 / 10 + 2 * 900);
        case.late = Span::from_ms(4);
        case.fabric.topology.links[topology::LinkId(0)].spec.coalesce_ns = 6_000_000;
        assert_eq!(case.most(), 12_625_000 * 9 / 10 + 2 * 900, "the card waits as long as the machine does");
        case.resequenced = 20;
        assert_eq!(case.most(), 12_625_000 * 9 / 10 + 22 * 900);
        let mut case = Case::new(u64::from(u32::MAX));
        case.fabric.topology.links[topology::LinkId(0)].spec.overhead_bytes = 24;
        assert_eq!(case.most(), 12_500_000 * 900 / 1_024 + 2 * 900, "what framing takes carries nothing");
    }

    #[test]
    fn no_more_comes_than_a_link_accepted_and_what_was_under_way() {
        // 50 us are 625 bytes; a hundred packets wait, one is transmitted, and one more for each end of the window.
        assert_eq!(Case::new(0).most(), 103_000 + 625);
        assert_eq!(Case::new(1_000_000).most(), 1_103_625);
    }

    #[test]
    fn without_a_rate_what_was_accepted_is_the_bound_where_nothing_is_under_way() {
        let mut case = Case::new(5_000);
        case.fabric.topology.links[topology::LinkId(0)].spec = link::LinkSpec::UNSHAPED;
        assert_eq!(case.most(), 7_000);
        case.fabric.topology.links[topology::LinkId(0)].spec.delay = Span::from_ms(1);
        assert_eq!(case.check(u64::MAX / 4), Ok(()), "nobody knows how much is under way");
    }

    #[test]
    fn an_excess_names_the_host_and_the_figures() {
        let excess = Case::new(20_000_000).check(12_500_000).expect_err("it has no room for headers");
        assert_eq!(
            excess.to_string(),
            "12500000 bytes of payload came to host h1 within 1s, but its links can have carried no more than 11251800: \
             edge1 -> h1 (100000000 bit/s) accepted 20000000 bytes"
        );
    }
}
