//! What reads have cost.

/// Reads of old revisions that are answered before all else is looked at again; more are asked to come back.
pub(super) const PAST_READS_MAX: usize = 4;

/// What reads have cost.
#[derive(Debug, Default)]
pub(super) struct ReadMeter {
    /// Reads of old revisions since the last time that all else was looked at.
    pub(super) past: usize,
    /// Counted as [`Server::read_bytes`] says.
    pub(super) bytes: u64,
}

impl ReadMeter {
    /// All else has been looked at.
    pub(super) fn begin_turn(&mut self) {
        self.past = 0;
    }

    /// Whether one more read of an old revision may be answered in this turn.
    pub(super) fn take_past(&mut self) -> bool {
        self.past += 1;
        self.past <= PAST_READS_MAX
    }

    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }
}
