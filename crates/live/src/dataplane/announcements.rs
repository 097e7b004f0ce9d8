//! What hosts tell of their own accord about their addresses, where the host table does not speak for them: their bond is in balance-alb, or
//! in active-backup with `fail_over_mac: active`. Answers go from host to host like other frames; here is what goes to all, and what is
//! learned from it.

use machine::{Span, Time};
use topology::{BondEndId, NodeId};
use vswitch::Forwarding;
use vswitch::neighbour::claim;
use vswitch::spread::FlowHash;

use super::flight::{Bonded, Packet};
use super::poller::PortKey;
use super::pool::Frame;
use super::worker::Worker;
use crate::tap::VNET_HEADER;

/// Announcements that are let through to all hosts within [`ALLOWED_IN`] of each end of a bond, lest a host flood the network: its IPv4 and
/// its IPv6 address four times. Each is copied to every host.
const ALLOWED: u32 = 8;
const ALLOWED_IN: Span = Span::from_ms(100);

/// How many announcements have passed in the present interval.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowance {
    since: Time,
    passed: u32,
}

impl Allowance {
    /// Whether one more may pass; it is counted.
    fn take(&mut self, now: Time) -> bool {
        if now.since(self.since) >= ALLOWED_IN {
            *self = Self { since: now, passed: 0 };
        }
        self.passed += 1;
        self.passed <= ALLOWED
    }
}

impl Worker {
    /// Learns from what a host that is not made tells its peers which addresses it has.
    pub(super) fn learn_announced(&self, PortKey { host, device }: PortKey, frame: &Frame) {
        let (host, host_table) = (NodeId(host as u32), self.plan.host_table());
        if host_table.answers_itself(host)
            && let Some(claim) = claim(&frame.bytes()[VNET_HEADER..], host_table)
            && claim.host == host
        {
            host_table.learn(host, device, claim.mac);
        }
    }

    /// The host at the other end of a bond may have told everybody which address it has from here on: all hosts beyond this end get a copy,
    /// as from a switch that floods it.
    pub(super) fn spread_announcement(&mut self, now: Time, index: BondEndId, frame: &Frame) {
        let bonds = &self.plan.fabric().topology.bonds;
        let (node, from) = (bonds[index].node, bonds[bonds[index].partner].node);
        let host_table = self.plan.host_table();
        let is_announcement = host_table.answers_itself(from)
            && claim(&frame.bytes()[VNET_HEADER..], host_table)
                .is_some_and(|claim| claim.is_announcement && claim.host == from);
        if !is_announcement {
            return;
        }
        let place = self.parts.bonds[index].as_mut().expect("a worker owns the bonds of its nodes");
        if !place.announced.take(now) {
            self.parts.refused.multicast += 1;
            return;
        }
        let hosts =
            if self.plan.switch_index(node).is_some() { 0..self.plan.hosts() as u32 } else { node.0..node.0 + 1 };
        for to in hosts.map(NodeId).filter(|to| *to != from) {
            let Some(frame) = self.copy(frame) else { return };
            let forwarding = Forwarding { to, hash: FlowHash(0) };
            self.come_to(node, now, Packet { frame, forwarding, number: 0, bonded: Bonded::No });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_announcements_is_cut_off_and_let_through_again() {
        let mut allowance = Allowance::default();
        let at = |ms: u64| Time::ZERO + Span::from_ms(ms);
        let passed = (0..2 * ALLOWED).filter(|_| allowance.take(at(500))).count();
        assert_eq!(passed, ALLOWED as usize);
        assert!(!allowance.take(at(599)));
        assert!(allowance.take(at(600)));
    }
}
