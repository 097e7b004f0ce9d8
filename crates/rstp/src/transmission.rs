//! What a port says, and how often: port transmit (17.26).

use machine::{Span, Time};
use wire::{BPDU_FRAME, BpduFlags, BpduKind, BpduRepr, BpduRole};

use crate::bridge::{Bridge, Output};
use crate::port::{Port, Role};
use crate::role::Delay;

/// So many BPDUs beyond the hold count may ask for an agreement, or agree: who waits for that waits with all behind him. With the standard's count of 6, those are as many as it
/// allows anybody.
const HANDSHAKES: u8 = 4;

impl Bridge {
    /// Sends what is new, or due.
    pub(crate) fn transmit(&mut self, now: Time, port: usize) {
        let (hello, hold) = (self.delay(port, Delay::Hello), self.config.transmit_hold_count);
        let own = &mut self.ports[port];
        if !own.is_enabled() || !own.is_selected() {
            return;
        }
        own.count_down(now);
        if now >= own.timers.hello {
            own.timers.hello = now + hello;
            let says_change = own.role == Role::Root && now < own.timers.topology_change;
            own.new_info |= own.role == Role::Designated || says_change;
        }
        let is_handshake = if own.role == Role::Designated { own.proposing } else { own.agree };
        let hold = if is_handshake { hold.saturating_add(HANDSHAKES) } else { hold };
        if !own.new_info || own.transmitted >= hold {
            return;
        }
        let Some(bpdu) = own.bpdu(now) else { return };
        own.new_info = false;
        own.tc_ack &= bpdu.kind == BpduKind::Tcn;
        if own.transmitted == 0 {
            own.timers.transmit = now + Span::from_secs(1);
        }
        own.transmitted += 1;
        own.counters.sent += 1;
        own.has_sent(now);
        let mut frame = [0; BPDU_FRAME];
        bpdu.emit(self.config.address, &mut frame);
        self.want(Output::Send { port, frame });
    }
}

impl Port {
    /// Each second one more BPDU may be sent (`txCount`).
    fn count_down(&mut self, now: Time) {
        while self.transmitted > 0 && now >= self.timers.transmit {
            self.transmitted -= 1;
            self.timers.transmit += Span::from_secs(1);
        }
    }

    /// What it has to say, if that can be said in the version that is spoken.
    fn bpdu(&self, now: Time) -> Option<BpduRepr> {
        let changes = now < self.timers.topology_change;
        let (kind, flags) = if self.send_rstp {
            let role = match self.role {
                Role::Disabled => return None,
                Role::Root => BpduRole::Root,
                Role::Designated => BpduRole::Designated,
                Role::Alternate | Role::Backup => BpduRole::AlternateBackup,
            };
            let flags = BpduFlags::default()
                .with_role(role)
                .with(BpduFlags::PROPOSAL, self.proposing && self.role == Role::Designated)
                .with(BpduFlags::AGREEMENT, self.agree && self.role != Role::Designated)
                .with(BpduFlags::LEARNING, self.learning)
                .with(BpduFlags::FORWARDING, self.forwarding);
            (BpduKind::Rst, flags)
        } else {
            match self.role {
                Role::Designated => {
                    let flags = BpduFlags::default().with(BpduFlags::TOPOLOGY_CHANGE_ACK, self.tc_ack);
                    (BpduKind::Config, flags)
                }
                Role::Root => return Some(BpduRepr::TCN),
                Role::Disabled | Role::Alternate | Role::Backup => return None,
            }
        };
        Some(BpduRepr {
            kind,
            flags: flags.with(BpduFlags::TOPOLOGY_CHANGE, changes),
            root: self.designated.root,
            root_path_cost: self.designated.cost,
            bridge: self.designated.bridge,
            port: self.designated.port,
            message_age: self.designated_times.message_age,
            max_age: self.designated_times.max_age,
            hello_time: self.designated_times.hello_time,
            forward_delay: self.designated_times.forward_delay,
        })
    }
}
