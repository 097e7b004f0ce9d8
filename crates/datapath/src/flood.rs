//! What is for everybody: broadcast, multicast, announcements.
//!
//! Each switch, and each host that forwards, passes it on by the ports of a tree that spans the network, but for the one by which it came: so it comes to each host once, crosses
//! each link once at most, and does not go round. When routes change, what is on its way by the old tree is lost: parts of a graph change one after the
//! other. How much of it there may be is bounded where it comes in (storm control: [`StormControl`]).

use std::sync::Arc;

use machine::{Rebase, Span, Time};
use topology::{NetPort, NodeId};
use vswitch::port::StormLimit;
use vswitch::spread::FlowHash;
use vswitch::{FLOOD, Forwarding, is_for_bridges};
use wire::is_group;

use crate::driver::{Driver, Loss};
use crate::graph::{Graph, Moment, Tables};

/// How often it is counted anew what has passed.
const INTERVAL: Span = Span::from_ms(100);

/// A second in picoseconds.
const SECOND_PS: u64 = 1_000_000_000_000;

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

/// Storm control: how much has passed in the present tenth of a second, or, where the file gives a rate, by when as much may have passed as has.
#[derive(Clone, Copy, Debug, Default)]
pub struct StormControl {
    passed: Passed,
    due: Time,
}

impl StormControl {
    /// Whether one more may pass, of so many; it is counted.
    pub fn take(&mut self, now: Time, allowed: u32) -> bool {
        self.passed.take(now, INTERVAL, allowed)
    }

    /// Whether a frame of so many bytes may pass: so much a second, and of what was not used a tenth of a second's at once, but always one frame (a leaky bucket; ITU-T I.371,
    /// annex A).
    pub fn take_within(&mut self, now: Time, limit: StormLimit, bytes: u32) -> bool {
        let span = match limit {
            StormLimit::FramesPerSecond(rate) => SECOND_PS / rate.max(1),
            StormLimit::BitsPerSecond(rate) => {
                (u128::from(bytes) * 8 * u128::from(SECOND_PS) / u128::from(rate.max(1))) as u64
            }
        };
        let due = self.due.max(now);
        if due.since(now) > INTERVAL {
            return false;
        }
        self.due = due + Span::from_ps(span);
        true
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
        let Self { passed, due } = self;
        passed.rebase(by);
        due.rebase(by);
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
        packet: P,
    ) {
        let Some(packet) = self.admit_flood(moment, driver, from, packet) else { return };
        let tables = moment.tables;
        let is_host = tables.map.is_host(node);
        if is_host && let Some(copy) = driver.copy(&packet) {
            driver.deliver(moment.now, from, copy);
        }
        let routes = Arc::clone(&self.routes);
        let is_unknown = is_for_unknown(driver, &packet);
        let ports = routes.tree(node).iter().map(|port| tables.map.port(node, *port));
        let ports = ports.filter(|port| *port != from && is_flooded(tables, *port, is_unknown));
        self.put_each(driver, ports, packet, |graph, driver, port, packet| {
            // A host has chosen already.
            if is_host {
                graph.put_on(moment, driver, port, packet);
            } else {
                graph.put_forwarding(moment, driver, port, packet);
            }
        });
    }

    /// Takes what is for everybody, if it is to go on from here. It has come by `from`.
    pub(crate) fn admit_flood<D: Driver<Packet = P>>(
        &self,
        moment: Moment<'_>,
        driver: &mut D,
        from: NetPort,
        mut packet: P,
    ) -> Option<P> {
        self.stamp_flood(moment.tables, driver, from, &mut packet);
        if is_for_bridges(driver.destination(&packet)) {
            // For this switch, which takes no notice.
            driver.free(packet);
            return None;
        }
        if driver.forwarding(&packet) != self.flooding() {
            // Links have changed meanwhile. By two trees it could go round, or come twice.
            driver.count(Loss::Cut);
            driver.free(packet);
            return None;
        }
        Some(packet)
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

/// Whether what goes to everybody is for one station of which nobody knows where it is.
pub(crate) fn is_for_unknown<D: Driver>(driver: &D, packet: &D::Packet) -> bool {
    !is_group(driver.destination(packet))
}

/// Whether what goes to everybody leaves by a port: functions of chains are no hosts to whom anybody says anything, and a host all of whose addresses are
/// known has no other one. Nor does an end of a chain hear what is for nobody who is known: its sender may be at the other end, and it would go past the functions.
pub(crate) fn is_flooded(tables: &Tables, port: NetPort, is_unknown: bool) -> bool {
    let far = tables.map.far_node(port);
    let may_hear = || tables.ports.floods_unknown_to(far) && !tables.steering.is_receiver(far);
    let is_silent = is_unknown && tables.map.is_host(far) && !tables.map.forwards(far) && !may_hear();
    !is_silent && !tables.steering.is_function_port(far)
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
    fn what_a_file_allows_a_second_passes_evenly_and_at_once_a_tenth_of_it() {
        let second = |limit, bytes| {
            let mut control = StormControl::default();
            let frames = (0..100_000_u64).map(|frame| Time::ZERO + Span::from_us(10 * frame));
            frames.filter(|at| control.take_within(*at, limit, bytes)).count()
        };
        // A second's, and the tenth that was saved.
        assert_eq!(second(StormLimit::FramesPerSecond(1_000), 1_500), 1_100);
        // The second one a tenth of a second early.
        assert_eq!(second(StormLimit::FramesPerSecond(1), 60), 2);
        // 1,000 bytes take 8 ms.
        assert_eq!(second(StormLimit::BitsPerSecond(1_000_000), 1_000), 138);
        assert_eq!(second(StormLimit::BitsPerSecond(1), 64 << 10), 1);
        let mut control = StormControl::default();
        let burst = (0..1_000).filter(|_| control.take_within(Time::ZERO, StormLimit::FramesPerSecond(1_000), 60));
        assert_eq!(burst.count(), 101);
    }

    #[test]
    fn a_large_network_hears_less_of_each_host() {
        assert_eq!([1, 2, 1_000, 27_648].map(storm_limit), [16_384, 8_192, 16, 8]);
    }
}
