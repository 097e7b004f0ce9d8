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
    /// A SYN is to be sent; so many have been.
    Ask(u32),
    /// So many SYNs were sent.
    Asked(u32),
    /// The answer is to be answered.
    Answer,
}

impl Opening {
    /// The segment that is due, and when the next one will be.
    pub fn next(&mut self, now: Time, ecn: &mut Sending) -> Option<(Segment, Time)> {
        let (seq, ecn, then, until) = match *self {
            Self::Ask(sent) => {
                let doublings = sent.saturating_sub(PATIENT).min(DOUBLINGS);
                let patience = Span::from_ps(PATIENCE.as_ps() << doublings);
                (Segment::SYN, ecn.syn(sent), Self::Asked(sent.saturating_add(1)), timer(now, patience))
            }
            Self::Answer => (Segment::SYN_ANSWERED, ecn.segment(false), Self::Rest, Time::NEVER),
            Self::Rest | Self::Asked(_) => return None,
        };
        *self = then;
        Some((Segment { seq, stamp: now, ecn }, until))
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

    /// The round trip of the handshake.
    pub fn round_trip(self) -> Option<Span> {
        match self {
            Self::Measured(span) => Some(span),
            Self::Rest | Self::Answered(_) => None,
        }
    }
}
