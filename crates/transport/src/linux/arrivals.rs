//! What one acknowledgement says, as facts that later steps look at.

use machine::Time;

use super::queue::{Queue, Sent};
use super::stamp::Stamp;

/// What one acknowledgement says, as far as it was looked at.
#[expect(clippy::struct_excessive_bools, reason = "each is one sign, as the kernel's flags are")]
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    pub now: Time,
    /// The first segment without acknowledgement, before this one and by it.
    pub prior_first: u64,
    pub first: u64,
    pub echo: Stamp,
    /// The cumulative acknowledgement moves on: segments are acknowledged.
    pub advanced: bool,
    /// Segments beyond holes are news.
    pub selected: bool,
    /// The receiver has said anew how much it has room for (`FLAG_WIN_UPDATE`).
    pub updates_window: bool,
    /// The receiver says that there were marks (`FLAG_ECE`).
    pub congested: bool,
    /// Something came twice.
    pub duplicate: bool,
    /// What came twice is the probe.
    pub duplicate_is_probe: bool,
    /// A segment arrived that was sent before recovery and never again.
    pub original: bool,
    /// A segment that was sent again is acknowledged.
    pub resent: bool,
    /// A segment that was sent again is lost again.
    pub lost_again: bool,
    /// Segments that were found lost.
    pub lost: u32,
    pub set_timer: bool,
    /// Behind the highest that had arrived before.
    pub prior_highest: u64,
    /// The lowest segment that came late.
    pub late: u64,
    /// When the first of the segments beyond holes was sent, and the last of them.
    pub first_selected: Option<Time>,
    pub last_selected: Option<Time>,
    /// Of the segment that was sent last of those that arrive: when, which, and how much had been delivered then.
    pub latest: Option<(Time, u64, u32)>,
}

impl Arrivals {
    pub fn new(now: Time, first: u64, echo: Time, queue: &Queue) -> Self {
        Self {
            now,
            prior_first: queue.first(),
            first,
            echo: Stamp::of(echo),
            advanced: first > queue.first(),
            selected: false,
            updates_window: false,
            congested: false,
            duplicate: false,
            duplicate_is_probe: false,
            original: false,
            resent: false,
            lost_again: false,
            lost: 0,
            set_timer: false,
            prior_highest: queue.highest(),
            late: u64::MAX,
            first_selected: None,
            last_selected: None,
            latest: None,
        }
    }

    /// Whether there is a sign that not all is well (`tcp_ack_is_dubious`), whatever the state.
    pub const fn is_dubious(&self) -> bool {
        !(self.advanced || self.updates_window) || self.selected || self.duplicate || self.congested
    }

    /// How much had been delivered when the segment left that has arrived now.
    pub fn prior_delivered(&self) -> Option<u32> {
        self.latest.map(|(_, _, delivered)| delivered)
    }

    pub fn note_latest(&mut self, segment: u64, sent: &Sent) {
        if self.latest.is_none_or(|(at, latest, _)| (sent.at, segment) > (at, latest)) {
            self.latest = Some((sent.at, segment, sent.delivered));
        }
    }
}
