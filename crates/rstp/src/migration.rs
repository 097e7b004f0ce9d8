//! Which version is spoken behind a port, and whether a bridge is there at all: port receive (17.23), protocol migration (17.24), bridge detection (17.25).

use machine::Time;
use wire::BpduKind;

use crate::bridge::Bridge;
use crate::port::MIGRATE_TIME;
use crate::role::Delay;

impl Bridge {
    /// A port has a link: RSTP is spoken until STP is heard.
    pub(crate) fn start_migration(&mut self, now: Time, port: usize) {
        let own = &mut self.ports[port];
        own.send_rstp = true;
        own.timers.migration = now + MIGRATE_TIME;
        own.timers.edge_delay = now + MIGRATE_TIME;
        own.timers.hello = now;
        own.timers.loopback = Time::ZERO;
        own.timers.quarantine = Time::ZERO;
        (own.has_spoken, own.has_heard, own.takes_back) = (false, false, false);
        (own.timers.transmit, own.transmitted) = (Time::ZERO, 0);
    }

    /// A BPDU has come in: a bridge is there, and speaks this version.
    pub(crate) fn note_version(&mut self, now: Time, port: usize, kind: BpduKind) {
        let own = &mut self.ports[port];
        (own.oper_edge, own.has_heard) = (false, true);
        own.timers.edge_delay = now + MIGRATE_TIME;
        let speaks_rstp = kind == BpduKind::Rst;
        // What was said before this bridge's own version could be heard says nothing about the other one.
        if now >= own.timers.migration && own.send_rstp != speaks_rstp {
            own.send_rstp = speaks_rstp;
            own.timers.migration = now + MIGRATE_TIME;
        }
    }

    /// A port has heard its own BPDU: its link leads back to it. It must not forward, whatever it is.
    pub(crate) fn hear_oneself(&mut self, now: Time, port: usize) {
        let hello = self.root_times.hello_time;
        let own = &mut self.ports[port];
        (own.oper_edge, own.has_heard) = (false, true);
        own.timers.edge_delay = now + MIGRATE_TIME;
        own.timers.loopback = now + crate::vector::span(hello) * 3;
        (own.disputed, own.agreed) = (true, false);
    }

    /// Nobody has ever answered: no bridge is there. One that was heard before, and is silent, may only have said too much lately (by the standard the port is an edge then).
    pub(crate) fn detect_edge(&mut self, now: Time, port: usize) -> bool {
        let own = &mut self.ports[port];
        let is_edge = own.is_enabled()
            && !own.oper_edge
            && !own.has_heard
            && own.config.auto_edge
            && own.send_rstp
            && own.proposing
            && now >= own.timers.edge_delay;
        own.oper_edge |= is_edge;
        is_edge
    }

    /// How long nobody may answer, until no bridge is there.
    pub(crate) fn edge_delay(&self, port: usize) -> machine::Span {
        if self.ports[port].config.point_to_point { MIGRATE_TIME } else { self.delay(port, Delay::MaxAge) }
    }
}
