//! What a port knows of the root, by what it hears: port information (17.27).

use machine::{Span, Time};
use wire::{BpduFlags, BpduKind, BpduRepr, BpduRole};

use crate::bridge::Bridge;
use crate::port::{InfoIs, Port};
use crate::vector::{Times, Vector, span};

/// So long after it has taken something back a port believes no agreement: it may have been under way. On links that take more than half of it the standard's rule alone
/// holds.
const QUARANTINE: Span = Span::from_ms(10);

/// What a BPDU is, beside what is known (17.21.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Received {
    SuperiorDesignated,
    RepeatedDesignated,
    InferiorDesignated,
    /// From a root, alternate or backup port that knows nothing better.
    RootOrAlternate,
    Other,
}

impl Bridge {
    /// Runs the machine by a step; whether it did anything.
    pub(crate) fn update_information(&mut self, now: Time, port: usize) -> bool {
        let own = &mut self.ports[port];
        if !own.is_enabled() {
            own.received = None;
            if own.info_is == InfoIs::Disabled {
                return false;
            }
            (own.proposing, own.proposed, own.agree, own.agreed) = (false, false, false, false);
            own.oper_edge = false;
            own.forget_information(InfoIs::Disabled);
            return true;
        }
        own.end_quarantine(now);
        match own.info_is {
            InfoIs::Disabled => own.forget_information(InfoIs::Aged),
            _ if own.selected && own.update_info => own.take_over_designated(),
            InfoIs::Received if now >= own.timers.received_info && own.received.is_none() => {
                own.forget_information(InfoIs::Aged);
            }
            InfoIs::Received | InfoIs::Mine | InfoIs::Aged => {
                let Some(bpdu) = own.received.take() else { return false };
                own.hear(now, &bpdu);
            }
        }
        true
    }
}

impl Port {
    /// What it has to say has left.
    pub(crate) fn has_sent(&mut self, now: Time) {
        self.has_spoken = true;
        if std::mem::take(&mut self.takes_back) {
            self.timers.quarantine = now + QUARANTINE;
        }
    }

    /// The other end is asked again, now that what was under way has come.
    fn end_quarantine(&mut self, now: Time) {
        if self.timers.quarantine != Time::ZERO && now >= self.timers.quarantine {
            self.timers.quarantine = Time::ZERO;
            self.new_info |= self.proposing;
        }
    }

    /// Roles are to be selected anew, now that this is known.
    fn forget_information(&mut self, info_is: InfoIs) {
        self.info_is = info_is;
        (self.reselect, self.selected) = (true, false);
    }

    /// The port announces what this bridge knows.
    fn take_over_designated(&mut self) {
        (self.proposing, self.proposed) = (false, false);
        let is_worse = self.info_is != InfoIs::Mine || self.designated > self.priority;
        let had_agreed = self.agreed;
        self.agreed &= !is_worse;
        self.synced &= self.agreed;
        // Whoever agreed to better information may have let others forward that are no worse than this.
        self.sync |= is_worse && (had_agreed || self.forward) && self.can_agree();
        self.takes_back |= is_worse && self.has_spoken && self.can_agree();
        (self.priority, self.times) = (self.designated, self.designated_times);
        self.update_info = false;
        self.info_is = InfoIs::Mine;
        self.new_info = true;
    }

    fn hear(&mut self, now: Time, bpdu: &BpduRepr) {
        match self.compare(bpdu) {
            Received::SuperiorDesignated => {
                (self.agreed, self.proposing) = (false, false);
                self.record_proposal(bpdu);
                self.set_tc_flags(bpdu);
                let heard = Vector::of(bpdu);
                self.agree &= self.info_is == InfoIs::Received && heard <= self.priority;
                (self.priority, self.times) = (heard, Times::of(bpdu));
                self.restart_age(now);
                self.info_is = InfoIs::Received;
                (self.reselect, self.selected) = (true, false);
            }
            Received::RepeatedDesignated => {
                self.record_proposal(bpdu);
                self.set_tc_flags(bpdu);
                self.restart_age(now);
            }
            Received::InferiorDesignated => {
                // He has not heard this port; until he has, it does not forward by the timer alone.
                if self.send_rstp && !self.oper_edge && !self.forward {
                    let later = now + span(self.times.forward_delay);
                    self.timers.forward_delay = self.timers.forward_delay.max(later);
                }
                // Who is designated there and learns has not heard what this port says.
                if bpdu.kind == BpduKind::Rst && bpdu.flags.has(BpduFlags::LEARNING) {
                    (self.disputed, self.agreed) = (true, false);
                }
            }
            Received::RootOrAlternate => {
                // Who names another root has agreed to what this port said before, and may have heard something else since.
                let is_of_now = bpdu.root == self.priority.root && !self.takes_back && now >= self.timers.quarantine;
                self.agreed = self.can_agree() && is_of_now && bpdu.flags.has(BpduFlags::AGREEMENT);
                self.proposing &= !self.agreed;
                self.set_tc_flags(bpdu);
            }
            Received::Other => {
                if bpdu.kind == BpduKind::Tcn {
                    self.set_tc_flags(bpdu);
                }
            }
        }
    }

    fn compare(&self, bpdu: &BpduRepr) -> Received {
        let (heard, times) = (Vector::of(bpdu), Times::of(bpdu));
        let role = match bpdu.kind {
            BpduKind::Config => BpduRole::Designated,
            BpduKind::Tcn => BpduRole::Unknown,
            BpduKind::Rst => bpdu.flags.role(),
        };
        match role {
            BpduRole::Designated => {
                let is_same = heard == self.priority && times == self.times;
                if is_same && self.info_is == InfoIs::Received {
                    Received::RepeatedDesignated
                } else if self.priority.yields_to(&heard) {
                    Received::SuperiorDesignated
                } else {
                    Received::InferiorDesignated
                }
            }
            BpduRole::Root | BpduRole::AlternateBackup if heard >= self.priority => Received::RootOrAlternate,
            BpduRole::Root | BpduRole::AlternateBackup | BpduRole::Unknown => Received::Other,
        }
    }

    fn record_proposal(&mut self, bpdu: &BpduRepr) {
        self.proposed |= bpdu.kind == BpduKind::Rst && bpdu.flags.has(BpduFlags::PROPOSAL);
    }

    fn set_tc_flags(&mut self, bpdu: &BpduRepr) {
        match bpdu.kind {
            BpduKind::Tcn => self.received_tcn = true,
            BpduKind::Config | BpduKind::Rst => {
                self.received_tc |= bpdu.flags.has(BpduFlags::TOPOLOGY_CHANGE);
                let is_ack = bpdu.kind == BpduKind::Config && bpdu.flags.has(BpduFlags::TOPOLOGY_CHANGE_ACK);
                self.received_tc_ack |= is_ack;
            }
        }
    }

    /// What was heard is good for three BPDUs, unless it is too old already (17.21.23): a root that is lost is not spoken of for ever.
    fn restart_age(&mut self, now: Time) {
        let is_fresh = self.times.is_fresh();
        self.timers.received_info = if is_fresh { now + span(self.times.hello_time) * 3 } else { now };
    }
}
