//! What hosts tell of their own accord about their addresses, where the host table does not speak for them: their bond is in balance-alb, or
//! in active-backup with `fail_over_mac: active`. Answers go from host to host like other frames; here is what goes to all.

use machine::{Span, Time};
use topology::{BondEndId, NodeId};
use vswitch::Forwarding;
use vswitch::neighbour::claim;
use vswitch::spread::FlowHash;

use crate::driver::{Driver, Loss, Tag};
use crate::graph::{Graph, Tables};

/// Announcements that are let through to all hosts within [`ALLOWED_IN`] of each end of a bond, lest a host flood the network: its IPv4 and
/// its IPv6 address four times. Each is copied to every host.
const ALLOWED: u32 = 8;
const ALLOWED_IN: Span = Span::from_ms(100);

/// How many announcements have passed in the present interval.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Allowance {
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

impl<P> Graph<P> {
    /// The host at the other end of a bond may have told everybody which address it has from here on: all hosts beyond this end get a copy,
    /// as from a switch that floods it.
    pub(crate) fn spread_announcement<D: Driver<Packet = P>>(
        &mut self,
        tables: &Tables,
        driver: &mut D,
        now: Time,
        end: BondEndId,
        packet: &P,
    ) {
        let (spec, host_table) = (&tables.bonds[end], &tables.host_table);
        let from = tables.bonds[spec.partner].node;
        let is_announcement = host_table.answers_itself(from)
            && driver
                .frame(packet)
                .and_then(|frame| claim(frame, host_table))
                .is_some_and(|claim| claim.is_announcement && claim.host == from);
        if !is_announcement {
            return;
        }
        if !self.end(end).announced.take(now) {
            return driver.count(Loss::Announcement);
        }
        let node = spec.node;
        let hosts = if tables.map.is_host(node) { node.0..node.0 + 1 } else { 0..tables.map.hosts() };
        for to in hosts.map(NodeId).filter(|to| *to != from) {
            let Some(mut copy) = driver.copy(packet) else { return };
            driver.set_tag(&mut copy, Tag::None);
            driver.set_forwarding(&mut copy, Forwarding { to, hash: FlowHash(0) });
            self.go_on(tables, driver, now, end, copy);
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
