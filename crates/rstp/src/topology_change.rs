//! Who is where changes when another port begins to forward: topology change (17.31).

use machine::{Span, Time};

use crate::bridge::{Bridge, Output};
use crate::port::{ChangeState, Port, Role};
use crate::role::Delay;

impl Bridge {
    /// Runs the machine by a step; whether it did anything.
    pub(crate) fn follow_topology(&mut self, now: Time, port: usize) -> bool {
        let own = &mut self.ports[port];
        let is_path = matches!(own.role, Role::Root | Role::Designated);
        match own.change {
            ChangeState::Inactive => {
                if own.learn {
                    own.change = ChangeState::Learning;
                    own.hear_no_change();
                }
                own.learn
            }
            ChangeState::Learning if is_path && own.forward && !own.oper_edge => {
                own.change = ChangeState::Active;
                self.topology_changes += 1;
                self.begin_change(now, port);
                self.propagate_to_others(port);
                self.ports[port].new_info = true;
                true
            }
            ChangeState::Learning if !is_path && !own.learn && !own.learning => {
                own.change = ChangeState::Inactive;
                own.timers.topology_change = Time::ZERO;
                own.tc_ack = false;
                self.want(Output::Flush { port });
                true
            }
            ChangeState::Learning => own.hear_no_change(),
            ChangeState::Active if !is_path || own.oper_edge => {
                own.change = ChangeState::Learning;
                own.hear_no_change();
                true
            }
            ChangeState::Active if own.received_tc || own.received_tcn => {
                let is_notified = std::mem::take(&mut own.received_tcn);
                own.received_tc = false;
                own.tc_ack |= is_notified && own.role == Role::Designated;
                if is_notified {
                    self.begin_change(now, port);
                }
                self.propagate_to_others(port);
                true
            }
            ChangeState::Active if own.tc_prop => {
                own.tc_prop = false;
                self.begin_change(now, port);
                self.want(Output::Flush { port });
                true
            }
            ChangeState::Active if own.received_tc_ack => {
                own.received_tc_ack = false;
                own.timers.topology_change = Time::ZERO;
                true
            }
            ChangeState::Active => false,
        }
    }

    /// BPDUs say for a while that the topology has changed (17.21.7).
    fn begin_change(&mut self, now: Time, port: usize) {
        let [hello, max_age, forward] =
            [Delay::Hello, Delay::MaxAge, Delay::Forward].map(|delay| self.delay(port, delay));
        let own = &mut self.ports[port];
        if now < own.timers.topology_change {
            return;
        }
        if own.send_rstp {
            own.timers.topology_change = now + hello + Span::from_secs(1);
            own.new_info = true;
        } else {
            own.timers.topology_change = now + max_age + forward;
        }
    }

    fn propagate_to_others(&mut self, port: usize) {
        for (_, other) in self.ports.iter_mut().enumerate().filter(|(number, _)| *number != port) {
            other.tc_prop = true;
        }
    }
}

impl Port {
    /// What is heard of changes has no meaning here. Whether anything was.
    fn hear_no_change(&mut self) -> bool {
        let had = self.received_tc || self.received_tcn || self.received_tc_ack || self.tc_prop;
        (self.received_tc, self.received_tcn, self.received_tc_ack, self.tc_prop) = (false, false, false, false);
        had
    }
}
