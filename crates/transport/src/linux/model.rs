//! What a sender has whose congestion control is a model of the path (BBR): rates of delivery, a pace, and the model. Others have none of it, and pay for none.

use machine::Span;

use super::bbr::Bbr;
use super::pacing::Pacing;
use super::rate::Rate;

/// The state of one sender.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub rate: Rate,
    pub pacing: Pacing,
    pub bbr: Bbr,
    /// The round trip of the last segment that this acknowledgement is for.
    pub rtt: Option<Span>,
    /// What was in flight before it.
    pub prior_in_flight: u32,
}

impl Model {
    /// An acknowledgement comes.
    pub const fn begin_ack(&mut self, in_flight: u32) {
        (self.rtt, self.prior_in_flight) = (None, in_flight);
    }

    pub const fn note_rtt(&mut self, rtt: Span) {
        self.rtt = Some(rtt);
    }
}
