//! Explicit congestion notification (RFC 3168): what queues on the way mark, a receiver says so until it hears that the window was made smaller, and a sender
//! makes it smaller once a round trip.
//!
//! ```text
//!   sender                                queue, receiver
//!   ECT data ---------------------------> CE
//!            <-------------------- ECE ACK      (all, until CWR)
//!   CWR data (state.rs: `Cwr`) ---------> ACK
//! ```
//!
//! Only data that is sent for the first time can be marked, as the kernel has it: acknowledgements and what is sent again are not ECT. With DCTCP all is.

use super::dctcp::Echo;
use crate::segment::Ecn;
use crate::sysctl::Settings;

/// The side of a sender.
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that may be so, and several may be")]
#[derive(Clone, Debug)]
pub(super) struct Sending {
    asks: bool,
    /// All that it sends can be marked (DCTCP).
    marks_all: bool,
    /// Both ends know what marks are.
    is_on: bool,
    /// The next new segment says that the window is smaller (`TCP_ECN_QUEUE_CWR`).
    says_reduced: bool,
}

impl Sending {
    pub const fn new(settings: &Settings) -> Self {
        let marks_all = settings.congestion_control.needs_ecn();
        Self { asks: settings.asks_for_ecn(), marks_all, is_on: false, says_reduced: false }
    }

    /// The connection stands from the beginning.
    pub const fn assume(&mut self) {
        self.is_on = self.asks;
    }

    /// What a SYN says: a second one asks for nothing, since it may be that why the first had no answer (`tcp_ecn_fallback`).
    pub const fn syn(&self, sent: u32) -> Ecn {
        Ecn::SETUP.only_if(self.asks && sent == 0).and(Ecn::ECT.only_if(self.marks_all))
    }

    pub const fn on_answer(&mut self, answer: Ecn) {
        self.is_on = self.asks && answer.has(Ecn::ECE) && !answer.has(Ecn::CWR);
    }

    /// Both ends know what marks are.
    pub const fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether an acknowledgement says that there were marks.
    pub const fn is_congested(&self, ack: Ecn) -> bool {
        self.is_on && ack.has(Ecn::ECE)
    }

    /// The window begins to get smaller.
    pub const fn reduced(&mut self) {
        self.says_reduced = self.is_on;
    }

    /// That is taken back.
    pub const fn undone(&mut self) {
        self.says_reduced = false;
    }

    /// What a segment says that leaves now (`tcp_ecn_send`).
    pub const fn segment(&mut self, is_new: bool) -> Ecn {
        if !self.is_on || !is_new {
            return Ecn::ECT.only_if(self.is_on && self.marks_all);
        }
        let reduced = core::mem::replace(&mut self.says_reduced, false);
        Ecn::ECT.and(Ecn::CWR.only_if(reduced))
    }
}

/// The side of a receiver.
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that may be so, and several may be")]
#[derive(Clone, Debug)]
pub(super) struct Receiving {
    grants: bool,
    is_on: bool,
    /// Acknowledgements say that there were marks (`TCP_ECN_DEMAND_CWR`).
    says_congested: bool,
    /// Something was ECT.
    seen: bool,
    /// With DCTCP.
    echo: Option<Echo>,
}

/// What data are acknowledged by, as far as their marks say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Check {
    /// The next acknowledgements are quick.
    pub quick: bool,
    /// What comes before is acknowledged by itself, if that is due yet: up to here, and with these marks.
    pub before: Option<(u64, Ecn)>,
}

impl Receiving {
    pub const fn new(settings: &Settings) -> Self {
        let asks = settings.asks_for_ecn();
        let echo = if settings.congestion_control.needs_ecn() { Some(Echo::NEW) } else { None };
        Self { grants: settings.grants_ecn(), is_on: asks, says_congested: false, seen: false, echo }
    }

    pub const fn on_syn(&mut self, syn: Ecn) {
        self.is_on = self.grants && syn.has(Ecn::SETUP);
    }

    /// What the answer to a SYN says.
    pub const fn answer(&self) -> Ecn {
        Ecn::ECE.only_if(self.is_on).and(self.capable())
    }

    /// With DCTCP acknowledgements can be marked as well.
    const fn capable(&self) -> Ecn {
        Ecn::ECT.only_if(self.is_on && self.echo.is_some())
    }

    /// Whether the sender says that its window is smaller, which is acknowledged at once (`tcp_ecn_accept_cwr`).
    pub const fn hears_reduced(&mut self, segment: Ecn) -> bool {
        let reduced = self.is_on && segment.has(Ecn::CWR);
        if reduced {
            self.says_congested = false;
        }
        reduced
    }

    /// Data within the window has come; behind it `next` is expected. Acknowledgements are quick after the first mark, and after what is sent again
    /// (`tcp_data_ecn_check`).
    pub const fn check(&mut self, segment: Ecn, next: u64) -> Check {
        let mut check = Check { quick: false, before: None };
        if !self.is_on {
            return check;
        }
        let (is_capable, is_marked) = (segment.has(Ecn::ECT), segment.has(Ecn::CE));
        if !is_capable {
            check.quick = self.seen;
            return check;
        }
        self.seen = true;
        if let Some(echo) = &mut self.echo {
            if let Some(before) = echo.check(is_marked, next) {
                check.before = Some((before, Ecn::ECT.and(Ecn::ECE.only_if(!is_marked))));
            }
            self.says_congested = is_marked;
        } else {
            check.quick = is_marked && !self.says_congested;
            self.says_congested |= is_marked;
        }
        check
    }

    /// What an acknowledgement says.
    pub const fn ack(&self) -> Ecn {
        Ecn::ECE.only_if(self.says_congested).and(self.capable())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysctl::CongestionControl;

    fn ends(ecn: u32) -> (Sending, Receiving) {
        let settings = Settings { ecn, ..Settings::default() };
        (Sending::new(&settings), Receiving::new(&settings))
    }

    #[test]
    fn it_is_used_if_one_asks_and_the_other_grants() {
        for (asked, granted, expected) in [(1, 1, true), (1, 2, true), (1, 0, false), (2, 2, false), (0, 1, false)] {
            let (mut sender, mut receiver) = (ends(asked).0, ends(granted).1);
            receiver.on_syn(sender.syn(0));
            sender.on_answer(receiver.answer());
            assert_eq!((sender.is_on, receiver.is_on), (expected, expected), "{asked} and {granted}");
        }
    }

    #[test]
    fn a_second_syn_does_without() {
        let (mut sender, mut receiver) = ends(1);
        receiver.on_syn(sender.syn(1));
        sender.on_answer(receiver.answer());
        assert_eq!(sender.segment(true), Ecn::NONE);
    }

    #[test]
    fn marks_are_echoed_until_the_window_is_smaller() {
        let (mut sender, mut receiver) = ends(1);
        sender.assume();
        let mut data = sender.segment(true);
        assert!(data.mark() && receiver.check(data, 1).quick, "the first mark is acknowledged soon");
        assert!(!receiver.check(Ecn::ECT, 2).quick && !receiver.check(data, 3).quick);
        assert!(sender.is_congested(receiver.ack()));
        sender.reduced();
        assert_eq!(sender.segment(false), Ecn::NONE, "what is sent again says nothing");
        let data = sender.segment(true);
        assert!(receiver.hears_reduced(data) && !receiver.check(data, 4).quick);
        assert_eq!((receiver.ack(), sender.segment(true)), (Ecn::NONE, Ecn::ECT));
        assert!(receiver.check(Ecn::NONE, 5).quick, "it was sent again");
    }

    #[test]
    fn with_dctcp_each_change_is_said_and_all_can_be_marked() {
        let settings = Settings { congestion_control: CongestionControl::Dctcp, ecn: 0, ..Settings::default() };
        let (mut sender, mut receiver) = (Sending::new(&settings), Receiving::new(&settings));
        receiver.on_syn(sender.syn(0));
        sender.on_answer(receiver.answer());
        assert!(sender.syn(1).has(Ecn::ECT) && sender.segment(false) == Ecn::ECT && receiver.ack() == Ecn::ECT);
        let marked = Ecn::ECT.and(Ecn::CE);
        assert_eq!(receiver.check(Ecn::ECT, 1).before, None);
        assert_eq!(receiver.check(marked, 2).before, Some((1, Ecn::ECT)));
        assert_eq!((receiver.check(marked, 3).before, receiver.ack()), (None, Ecn::ECT.and(Ecn::ECE)));
        assert_eq!(receiver.check(Ecn::ECT, 4).before, Some((3, Ecn::ECT.and(Ecn::ECE))));
    }

    #[test]
    fn what_is_not_capable_is_not_marked() {
        let mut data = Ecn::NONE;
        assert!(!data.mark() && data == Ecn::NONE);
    }
}
