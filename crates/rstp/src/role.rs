//! When ports forward, by their roles: port role transitions (17.29).
//!
//! A designated port asks the other end (*proposal*). Whoever hears that at his root port has all his designated ports stop, and then agrees: nothing behind
//! him goes round then. So the cut moves away from the root, bridge by bridge, as fast as frames do. Nobody who agrees: the timer.
//!
//! ```text
//!   designated:  discarding --proposal--> ... --agreement, or edge, or timer--> learning --the same--> forwarding
//!        ^                                                                                                 |
//!        +------------- sync, re-root, dispute; beyond the standard: what it announces gets worse ---------+
//! ```
//!
//! The last arrow holds this: along every link that forwards, who is designated knows a better path to the root than who is not, so links that forward make no
//! circle. The standard lets such a port go on until somebody proposes, who may be cut off by the same loss.

use machine::{Span, Time};

use crate::bridge::Bridge;
use crate::port::{Port, Role};
use crate::vector::span;

/// Which of the root's times is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delay {
    /// Between two BPDUs.
    Hello,
    /// How old information may get.
    MaxAge,
    /// The standard's `FwdDelay`.
    Forward,
    /// The standard's `forwardDelay`: as long as BPDUs take, if RSTP is spoken. Here only where nobody is heard: a bridge that is heard agrees, or knows why not.
    Transition,
}

impl Bridge {
    /// One of the times that the root says.
    pub(crate) fn delay(&self, port: usize, delay: Delay) -> Span {
        let own = &self.ports[port];
        let times = own.designated_times;
        span(match delay {
            Delay::Hello => times.hello_time,
            Delay::MaxAge => times.max_age,
            Delay::Transition if own.send_rstp && !own.has_heard => times.hello_time,
            Delay::Transition | Delay::Forward => times.forward_delay,
        })
    }

    /// Runs the machine by a step; whether it did anything.
    pub(crate) fn change_role(&mut self, now: Time, port: usize) -> bool {
        let own = &self.ports[port];
        if !own.is_selected() {
            return false;
        }
        if own.role != own.selected_role {
            self.take_role(now, port);
            return true;
        }
        match own.role {
            Role::Disabled => self.ports[port].rest(),
            Role::Alternate | Role::Backup => self.agree(port) || self.ports[port].rest(),
            Role::Root => self.agree(port) || self.run_root(now, port),
            Role::Designated => self.run_designated(now, port),
        }
    }

    fn take_role(&mut self, now: Time, port: usize) {
        let delays = [Delay::MaxAge, Delay::Transition, Delay::Forward, Delay::Hello];
        let [max_age, transition, forward, hello] = delays.map(|delay| self.delay(port, delay));
        let own = &mut self.ports[port];
        // Timers that were held at their full value run from now on.
        match own.role {
            Role::Disabled => own.timers.forward_delay = now + max_age,
            Role::Alternate => own.timers.forward_delay = now + transition,
            Role::Backup => {
                own.timers.forward_delay = now + transition;
                own.timers.recent_backup = now + hello * 2;
            }
            Role::Root => own.timers.recent_root = now + forward,
            Role::Designated => {}
        }
        own.role = own.selected_role;
        match own.role {
            Role::Disabled | Role::Alternate | Role::Backup => (own.learn, own.forward) = (false, false),
            Role::Root => {}
            Role::Designated => {
                // Nobody has agreed to what it announces now.
                if own.forward && own.can_agree() && !own.agreed {
                    (own.sync, own.synced) = (true, false);
                }
            }
        }
    }

    /// Whether nothing goes on behind any other port to which nobody has agreed (17.20.3).
    fn are_others_synced(&self, port: usize) -> bool {
        self.ports.iter().enumerate().all(|(number, other)| {
            number == port
                || other.is_selected()
                    && other.role == other.selected_role
                    && (other.role == Role::Root || other.synced)
        })
    }

    /// Hears a proposal, and agrees once all others are synced. Of root, alternate and backup ports.
    fn agree(&mut self, port: usize) -> bool {
        let (own, is_synced) = (&self.ports[port], self.are_others_synced(port));
        if is_synced && !own.agree || own.proposed && own.agree {
            let own = &mut self.ports[port];
            (own.proposed, own.agree, own.new_info) = (false, true, true);
            own.sync &= own.role != Role::Root;
            return true;
        }
        if own.proposed {
            self.ports.iter_mut().for_each(|other| other.sync = true);
            self.ports[port].proposed = false;
            return true;
        }
        false
    }

    fn run_root(&mut self, now: Time, port: usize) -> bool {
        let are_others_retired = self
            .ports
            .iter()
            .enumerate()
            .all(|(number, other)| number == port || other.role != Role::Root && now >= other.timers.recent_root);
        let transition = self.delay(port, Delay::Transition);
        let own = &mut self.ports[port];
        if !own.forward && !own.re_root {
            self.ports.iter_mut().for_each(|other| other.re_root = true);
            return true;
        }
        if own.forward && own.re_root {
            own.re_root = false;
            return true;
        }
        let may = now >= own.timers.forward_delay || are_others_retired && now >= own.timers.recent_backup;
        may && own.go_on(now, transition)
    }

    fn run_designated(&mut self, now: Time, port: usize) -> bool {
        let (transition, edge_delay) = (self.delay(port, Delay::Transition), self.edge_delay(port));
        let own = &mut self.ports[port];
        if !own.forward && !own.agreed && !own.proposing && !own.oper_edge {
            (own.proposing, own.new_info) = (true, true);
            own.timers.edge_delay = now + edge_delay;
            return true;
        }
        let is_still = !own.learning && !own.forwarding;
        if (is_still || own.agreed || own.oper_edge) && !own.synced || own.sync && own.synced {
            own.timers.recent_root = Time::ZERO;
            (own.synced, own.sync) = (true, false);
            return true;
        }
        let is_retired = now >= own.timers.recent_root;
        if is_retired && own.re_root {
            own.re_root = false;
            return true;
        }
        let must_stop = own.sync && !own.synced || own.re_root && !is_retired || own.disputed;
        if must_stop && !own.oper_edge && (own.learn || own.forward) {
            (own.learn, own.forward, own.disputed) = (false, false, false);
            own.timers.forward_delay = now + transition;
            return true;
        }
        let may = now >= own.timers.forward_delay || own.agreed || own.oper_edge;
        may && (is_retired || !own.re_root) && !own.sync && now >= own.timers.loopback && own.go_on(now, transition)
    }
}

impl Port {
    /// Keeps still. Whether that is new.
    fn rest(&mut self) -> bool {
        let is_still = !self.learning && !self.forwarding;
        if !is_still || self.synced && !self.sync && !self.re_root {
            return false;
        }
        (self.synced, self.sync, self.re_root) = (true, false, false);
        self.timers.recent_root = Time::ZERO;
        true
    }

    /// Goes on from discarding to learning, from learning to forwarding.
    fn go_on(&mut self, now: Time, transition: Span) -> bool {
        match (self.learn, self.forward) {
            (false, _) => {
                self.learn = true;
                self.timers.forward_delay = now + transition;
            }
            (true, false) => {
                self.forward = true;
                self.timers.forward_delay = now;
                if self.role == Role::Designated {
                    self.agreed = self.send_rstp;
                }
            }
            (true, true) => return false,
        }
        true
    }
}
