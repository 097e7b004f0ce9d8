//! A bond whose clock is set back.

use machine::{Rebase, Span};

use super::Bond;

impl Rebase for Bond {
    fn rebase(&mut self, by: Span) {
        let Self {
            config: _,
            table: _,
            turn: _,
            active: _,
            is_probing: _,
            balance,
            rng: _,
            members,
            order: _,
            mac: _,
            device_mac: _,
            tlb,
            alb,
            monitor,
            own: _,
            memberships,
            force_primary: _,
            distributing: _,
            collecting: _,
            has_carrier: _,
            announcements_left: _,
            announce_at,
            teach_at,
            actions: _,
            actions_dropped: _,
        } = self;
        balance.rebase(by);
        members.rebase(by);
        tlb.rebase(by);
        alb.rebase(by);
        monitor.rebase(by);
        memberships.rebase(by);
        announce_at.rebase(by);
        teach_at.rebase(by);
    }
}
