//! What the fabric counted between two readings, each of one moment for all flows and links: the window that a live run measures.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fabric::Fabric;
use live::control::{Counters, FlowCounters, Loss};
use machine::Span;
use topology::NodeId;
use transport::delay::Delays;

use super::flow::LiveFlow;
use crate::measure::carried::{Delivery, Excess, Packet};
use crate::measure::record::LinkRecord;

/// Two readings of the counters of one network.
#[derive(Clone, Copy)]
pub(crate) struct Window<'a> {
    pub before: &'a Counters,
    pub after: &'a Counters,
}

impl Window<'_> {
    /// How long it was, by the network's clock.
    pub fn span(&self) -> Span {
        Span::from_ns(self.after.at.as_ns().saturating_sub(self.before.at.as_ns()))
    }

    /// Bytes of payload that were delivered of a flow.
    pub fn delivered(&self, flow: &LiveFlow) -> u64 {
        // The connection that iperf3 steers by has the same destination and hardly a segment.
        delivered(flow, self.after).saturating_sub(delivered(flow, self.before))
    }

    /// So many bytes a window, in bits a second.
    pub fn rate_bps(&self, bytes: u64) -> f64 {
        bytes as f64 * 8.0 / self.span().as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// The order in which a flow's segments came: late ones, and the largest extent since the flow's start. `None` if it has no segments.
    pub fn reordering(&self, flow: &LiveFlow) -> Option<(u64, u32)> {
        let seen = |counters| of(flow, counters).filter_map(|counted| counted.reordering);
        let sum = |counters| seen(counters).map(|seen| seen.reordered).sum::<u64>();
        let extent = seen(self.after).map(|seen| seen.extent_max).max()?;
        Some((sum(self.after).saturating_sub(sum(self.before)), extent))
    }

    /// How long a flow's packets took; `None` where links take no time.
    pub fn delays(&self, flow: &LiveFlow) -> Option<Delays> {
        let before: Vec<&FlowCounters> = of(flow, self.before).collect();
        let grown = of(flow, self.after).filter_map(|after| {
            let delays = after.delays.as_ref()?;
            let before = before.iter().find(|before| before.from == after.from)?.delays.as_ref();
            Some(before.map_or_else(|| delays.clone(), |before| delays.since(before)))
        });
        let new = of(flow, self.after).filter(|after| before.iter().all(|before| before.from != after.from));
        grown.chain(new.filter_map(|after| after.delays.clone())).reduce(|mut sum, delays| {
            sum.add(&delays);
            sum
        })
    }

    /// Frames of flows that the fabric did not count.
    pub fn uncounted(&self) -> u64 {
        self.after.refused.unwatched_flows.saturating_sub(self.before.refused.unwatched_flows)
    }

    /// Packets that went nowhere and no link has counted, by the name of the reason.
    pub fn lost(&self) -> BTreeMap<String, u64> {
        let (mut before, mut after) = (self.before.refused, self.after.refused);
        let grown = |loss| (loss, (*after.of(loss)).saturating_sub(*before.of(loss)));
        let lost = Loss::ALL.map(grown).into_iter().filter(|(_, lost)| *lost > 0);
        lost.map(|(loss, lost)| (loss.name().to_owned(), lost)).collect()
    }

    /// Packets that got lost in the machine: no link counted them, and none was down that leads to their host.
    pub fn lost_outside_links(&self) -> u64 {
        lost_outside_links(self.after).saturating_sub(lost_outside_links(self.before))
    }

    /// Holds what was delivered to each host against what its links can have carried. `incomplete`: bytes of datagrams of which a part may have come
    /// to a host before.
    pub fn check(
        &self,
        fabric: &Fabric,
        links: &[LinkRecord],
        (flows, packet): (Vec<(NodeId, u64)>, Packet),
        incomplete: u64,
    ) -> Result<(), Excess> {
        let resequenced = |host: NodeId| {
            let name = &fabric.topology.nodes[host].name;
            let ends = self.after.bonds.iter().filter(|bond| bond.node == *name);
            ends.filter_map(|bond| bond.reordering).map(|did| u64::from(did.waiting_peak)).sum()
        };
        let workers = self.after.workers.len();
        let rings = if workers > 1 { workers * live::RING_FRAMES } else { 0 };
        let taken_late = self.after.workers.iter().map(|worker| worker.taken_late_max).max().unwrap_or_default();
        // What a worker did between the others' moment and its own.
        let spread = self.before.spread + self.after.spread;
        let delivery = Delivery {
            fabric,
            links,
            window: self.span(),
            flows,
            packet,
            late: taken_late + Span::from_ns(spread.as_ns()),
            between_threads: rings as u64 * u64::from(packet.bytes),
            incomplete,
            resequenced: &resequenced,
        };
        delivery.check()
    }
}

/// Bytes of payload that have been delivered of a flow so far.
pub(crate) fn delivered(flow: &LiveFlow, counters: &Counters) -> u64 {
    of(flow, counters).map(|counted| counted.delivered_bytes).sum()
}

/// Segments of a flow that have come late so far.
pub(crate) fn reordered(flow: &LiveFlow, counters: &Counters) -> u64 {
    of(flow, counters).filter_map(|counted| counted.reordering).map(|seen| seen.reordered).sum()
}

/// What was counted of a flow.
fn of<'a>(flow: &LiveFlow, counters: &'a Counters) -> impl Iterator<Item = &'a FlowCounters> {
    let to = flow.address.parse().ok().map(|address| SocketAddr::new(address, flow.port));
    counters.flows.iter().filter(move |counted| Some(counted.to) == to)
}

fn lost_outside_links(counters: &Counters) -> u64 {
    let refused = &counters.refused;
    let at_ports: u64 = counters.ports.iter().map(|port| port.traffic.drops).sum();
    refused.no_buffer + refused.buffer_share + refused.ring_full + refused.no_member + refused.malformed + at_ports
}

#[cfg(test)]
mod tests {
    use live::control::{PortCounters, PortTraffic, Refusals};
    use machine::nanos;
    use transport::reordering;

    use super::*;

    fn flow() -> LiveFlow {
        LiveFlow { from: "h1".to_owned(), to: "h2".to_owned(), address: "10.0.0.2".to_owned(), port: 6_000 }
    }

    fn counted(port: u16, delivered_bytes: u64, order: Option<(u64, u32)>) -> FlowCounters {
        let order = order.map(|(reordered, extent_max)| reordering::Counters { segments: 9, reordered, extent_max });
        FlowCounters {
            from: ([10, 0, 0, 1], 40_000).into(),
            to: ([10, 0, 0, 2], port).into(),
            delivered_bytes,
            reordering: order,
            delays: None,
        }
    }

    fn reading(ms: u64, flows: &[FlowCounters]) -> Counters {
        Counters { at: nanos::Span::from_ms(ms), flows: flows.to_vec(), ..Counters::default() }
    }

    #[test]
    fn a_flow_is_what_goes_to_its_own_port() {
        let before = reading(1_000, &[counted(6_000, 5_000, Some((5, 2)))]);
        let others = [counted(6_001, 99_999, Some((99, 99))), counted(6_000, 0, None)];
        let its = [counted(6_000, 9_000, Some((12, 4))), counted(6_000, 1_000, Some((1, 9)))];
        let after = reading(3_000, &[&its[..], &others].concat());
        let window = Window { before: &before, after: &after };
        assert_eq!((window.delivered(&flow()), window.reordering(&flow())), (5_000, Some((8, 9))));
        assert_eq!((window.span(), window.rate_bps(5_000)), (Span::from_secs(2), 20_000.0));
        let after = reading(3_000, &others);
        let window = Window { before: &before, after: &after };
        assert_eq!((window.delivered(&flow()), window.reordering(&flow())), (0, None), "nobody watched it");
    }

    #[test]
    fn losses_outside_links_are_those_of_buffers_rings_and_ports() {
        let refused = Refusals {
            unknown_destination: 1_000,
            storm_control: 1_000,
            malformed: 1,
            no_buffer: 2,
            buffer_share: 16,
            ring_full: 4,
            spoofed: 1_000,
            no_route: 1_000,
            looped: 1_000,
            dropped_by_flow: 1_000,
            dropped_by_meter: 1_000,
            dropped_by_function: 1_000,
            function_down: 1_000,
            stray: 1_000,
            vlan: 1_000,
            discarding: 1_000,
            service: 1_000,
            no_port: 1_000,
            checksum: 1_000,
            martian: 1_000,
            hop_limit: 1_000,
            tunnel_control: 1_000,
            no_member: 0,
            removed: 1_000,
            unwatched_flows: 1_000,
        };
        let traffic = PortTraffic { drops: 8, sent_packets: 1_000, ..Default::default() };
        let ports = vec![PortCounters { host: "h1".to_owned(), traffic, ..PortCounters::default() }; 2];
        let after = Counters { refused, ports, ..Counters::default() };
        let window = Window { before: &Counters::default(), after: &after };
        assert_eq!((window.lost_outside_links(), window.uncounted()), (39, 1_000));
        assert_eq!((window.lost()["dropped by a meter"], window.lost().len()), (1_000, 17), "{:?}", window.lost());
    }
}
