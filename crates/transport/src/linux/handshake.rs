//! How a connection is opened: who asks ([`Opening`]), and who answers ([`Answering`]).
//!
//! ```text
//!   sender: SYN ------> receiver
//!           <--- ack 0, the receiver's clock starts
//!           answer ---> the receiver knows its round trip, once and for all: it sends nothing else that is answered
//!           data ----->
//! ```
//!
//! So acknowledgements are compressed by the round trip of a path as it was when the connection was opened, before its own data filled the queues.

use machine::{Span, Time};

use super::ecn::Sending;
use super::rtt::Rtt;
use super::stamp::Stamp;
use super::timer::timer;
use crate::Segment;

/// The first wait for an answer (`TCP_TIMEOUT_INIT`).
const PATIENCE: Span = Span::from_secs(1);
/// Waits that are no longer than the first (`tcp_syn_linear_timeouts`).
const PATIENT: u32 = 4;
/// The most doublings of the wait.
const DOUBLINGS: u32 = 6;

/// The side of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// It has not begun, or is over.
    Rest,
    /// A SYN is to be sent.
    Ask(Asked),
    /// A SYN was sent.
    Asked(Asked),
    /// The answer is to be answered.
    Answer,
}

/// What was sent so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// SYNs.
    syns: u32,
    /// When the first of them was.
    first: Time,
}

impl Asked {
    pub const NONE: Self = Self { syns: 0, first: Time::NEVER };

    /// Whether the window has to begin with one segment: two SYNs were lost, for this answers none but the last (`tcp_init_transfer`).
    pub fn lost_two(self, echo: Time) -> bool {
        self.syns > 2 && Stamp::of(echo) != Stamp::of(self.first)
    }
}

impl Opening {
    /// The segment that is due, and when the next one will be.
    pub fn next(&mut self, now: Time, ecn: &mut Sending) -> Option<(Segment, Time)> {
        let (seq, ecn, then, until) = match *self {
            Self::Ask(Asked { syns, first }) => {
                let doublings = syns.saturating_sub(PATIENT).min(DOUBLINGS);
                let patience = Span::from_ps(PATIENCE.as_ps() << doublings);
                let asked = Asked { syns: syns.saturating_add(1), first: first.min(now) };
                (Segment::SYN, ecn.syn(syns), Self::Asked(asked), timer(now, patience))
            }
            Self::Answer => (Segment::SYN_ANSWERED, ecn.segment(false), Self::Rest, Time::NEVER),
            Self::Rest | Self::Asked(_) => return None,
        };
        *self = then;
        Some((Segment { seq, stamp: now, push: false, ecn, echo: 0 }, until))
    }
}

/// The side of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answering {
    /// Nobody has asked.
    Rest,
    /// A SYN was answered then.
    Answered(Time),
    /// The round trip.
    Measured(Span),
}

impl Answering {
    /// Whether this segment was a part of the handshake, and if so, whether it is to be acknowledged. Data ends the handshake, too.
    pub fn take(&mut self, now: Time, segment: &Segment) -> Option<bool> {
        if segment.seq == Segment::SYN {
            let is_new = !matches!(self, Self::Measured(_));
            if is_new {
                *self = Self::Answered(now);
            }
            return Some(is_new);
        }
        if let Self::Answered(at) = *self {
            *self = Self::Measured(now.since(at));
        }
        (segment.seq == Segment::SYN_ANSWERED).then_some(false)
    }

    /// The timeout that follows from it, with this one as the least.
    pub fn timeout(self, least: Span) -> Span {
        let Some(round_trip) = self.round_trip() else { return least };
        let mut rtt = Rtt::new(least);
        rtt.sample(round_trip, 0, 0);
        rtt.timeout()
    }

    /// The round trip of the handshake.
    pub fn round_trip(self) -> Option<Span> {
        match self {
            Self::Measured(span) => Some(span),
            Self::Rest | Self::Answered(_) => None,
        }
    }
}
