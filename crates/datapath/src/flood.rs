//! What is for everybody: broadcast, multicast, announcements.
//!
//! Each switch, and each host that forwards, passes it on by the ports of a tree that spans the network, but for the one by which it came: so it comes to each host once, crosses
//! each link once at most, and does not go round. When routes change, what is on its way by the old tree is lost: parts of a graph change one after the
//! other. How much of it there may be is bounded where it comes in (storm control: [`StormControl`]).

use std::sync::Arc;

use machine::{Rebase, Span, Time};
use topology::{NetPort, NodeId};
use vswitch::spread::FlowHash;
use vswitch::{FLOOD, Forwarding, is_for_bridges};

use crate::driver::{Driver, Loss};
use crate::graph::{Graph, Moment, Tables};

/// How often it is counted anew what has passed.
const INTERVAL: Span = Span::from_ms(100);

/// Copies that all which one host says to everybody may become within a tenth of a second: in a network of two hosts that are 8,192 packets.
const COPIES: u32 = 1 << 14;
/// What a host may send to everybody within a tenth of a second, however large the network.
const LEAST: u32 = 8;

/// How many packets have passed within the present interval.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passed {
    since: Time,
    packets: u32,
}

impl Passed {
    /// Whether one more may pass, of so many in an interval; it is counted.
    pub(crate) fn take(&mut self, now: Time, interval: Span, allowed: u32) -> bool {
        if now.since(self.since) >= interval {
            *self = Self { since: now, packets: 0 };
        }
        self.packets = self.packets.saturating_add(1);
        self.packets <= allowed
    }
}

/// Storm control: how much has passed in the present tenth of a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct StormControl(Passed);

impl StormControl {
    /// Whether one more may pass, of so many; it is counted.
    pub fn take(&mut self, now: Time, allowed: u32) -> bool {
        self.0.take(now, INTERVAL, allowed)
    }
}

impl Rebase for Passed {
    fn rebase(&mut self, by: Span) {
        let Self { since, packets: _ } = self;
        since.rebase(by);
    }
}

impl Rebase for StormControl {
    fn rebase(&mut self, by: Span) {
        let Self(passed) = self;
        passed.rebase(by);
    }
}

/// How many packets for everybody a host may send within a tenth of a second, in a network of so many hosts.
pub fn storm_limit(hosts: u32) -> u32 {
    (COPIES / hosts.max(1)).max(LEAST)
}

impl<P> Graph<P> {
    /// Passes on what has come to a switch, or a host that forwards, by `from` and is for everybody.
    #[cold]
    pub(crate) fn flood<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (node, from): (NodeId, NetPort),
        mut packet: P,
    ) {
        let tables = moment.tables;
        self.stamp_flood(tables, driver, from, &mut packet);
        if is_for_bridges(driver.destination(&packet)) {
            // For this switch, which takes no notice.
            return driver.free(packet);
        }
        if driver.forwarding(&packet) != self.flooding() {
            // Links have changed meanwhile. By two trees it could go round, or come twice.
            driver.count(Loss::Cut);
            return driver.free(packet);
        }
        let is_host = tables.map.is_host(node);
        if is_host && let Some(copy) = driver.copy(&packet) {
            driver.deliver(moment.now, from, copy);
        }
        let routes = Arc::clone(&self.routes);
        let ports = routes.tree(node).iter().map(|port| tables.map.port(node, *port));
        // Functions of chains are no hosts to whom anybody says anything.
        let is_function = |port: NetPort| tables.steering.is_function_port(tables.map.far_node(port));
        let ports = ports.filter(|port| *port != from && !is_function(*port));
        self.put_each(driver, ports, packet, |graph, driver, port, packet| {
            // A host has chosen already.
            if is_host {
                graph.put_on(moment, driver, port, packet);
            } else {
                graph.put(moment, driver, port, packet);
            }
        });
    }

    /// How what is for everybody is forwarded by the tree of now.
    pub(crate) const fn flooding(&self) -> Forwarding {
        Forwarding { to: FLOOD, hash: FlowHash(self.generation) }
    }

    /// What a host says to everybody goes by the tree of now. A multi-homed host has done that itself.
    pub(crate) fn stamp_flood<D: Driver<Packet = P>>(
        &self,
        tables: &Tables,
        driver: &mut D,
        from: NetPort,
        packet: &mut P,
    ) {
        let far = tables.map.taker(tables.map.far(from));
        if driver.forwarding(packet).to == FLOOD && tables.map.is_host(far.node()) && !far.is_of_multi_homed() {
            driver.set_forwarding(packet, self.flooding());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_off_and_let_through_again() {
        let mut allowance = StormControl::default();
        let at = |ms: u64| Time::ZERO + Span::from_ms(ms);
        let passed = (0..2 * LEAST).filter(|_| allowance.take(at(500), LEAST)).count();
        assert_eq!(passed, LEAST as usize);
        assert!(!allowance.take(at(599), LEAST));
        assert!(allowance.take(at(600), LEAST));
    }

    #[test]
    fn a_large_network_hears_less_of_each_host() {
        assert_eq!([1, 2, 1_000, 27_648].map(storm_limit), [16_384, 8_192, 16, 8]);
    }
}
