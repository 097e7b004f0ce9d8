//! DCTCP (RFC 8257) as `tcp_dctcp.c` has it: the window gets smaller by the share of what was marked, and grows as Reno's.

/// Shares are in 1/1024.
const ONE: u32 = 1_024;
/// A round trip's share counts for a sixteenth (`dctcp_shift_g`).
const GAIN_SHIFT: u32 = 4;

/// How much of what a sender sends is marked.
#[derive(Clone, Debug)]
pub(super) struct Dctcp {
    /// The share, smoothed. All of it at the beginning, so that the first mark halves the window.
    alpha: u32,
    /// The round trip ends when this segment is acknowledged.
    end: u64,
    /// What had been delivered, and what of it was marked, when it began.
    began: Delivered,
}

/// Segments that are known to have arrived, and how many of them by acknowledgements that said that there were marks. Both wrap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivered {
    pub all: u32,
    pub marked: u32,
}

impl Dctcp {
    pub const fn new() -> Self {
        // The kernel has counted the segment that opened the connection.
        Self { alpha: ONE, end: 0, began: Delivered { all: 1, marked: 0 } }
    }

    /// An acknowledgement came (`dctcp_update_alpha`).
    pub fn on_ack(&mut self, first: u64, next: u64, delivered: Delivered) {
        if first < self.end {
            return;
        }
        let all = delivered.all.wrapping_sub(self.began.all);
        let marked = delivered.marked.wrapping_sub(self.began.marked);
        if all > 0 {
            let decay = self.alpha >> GAIN_SHIFT;
            self.alpha -= if decay == 0 { self.alpha } else { decay };
            let share = u64::from(marked) * u64::from(ONE >> GAIN_SHIFT) / u64::from(all);
            self.alpha = (self.alpha + share as u32).min(ONE);
        }
        (self.end, self.began) = (next, delivered);
    }

    /// The threshold after a mark.
    pub fn ssthresh(&self, window: u32) -> u32 {
        let less = u64::from(window) * u64::from(self.alpha) / u64::from(2 * ONE);
        (window - less as u32).max(2)
    }
}

/// What a receiver says of marks: exactly which segments had one. Where that changes, what waits for an acknowledgement gets its own first
/// (RFC 8257, 3.2; `dctcp_ece_ack_update`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Echo {
    /// The last segment was marked.
    is_marked: bool,
    /// What was expected next behind it.
    next: u64,
}

impl Echo {
    pub const NEW: Self = Self { is_marked: false, next: 0 };

    /// Data have come; behind them `next` is expected. If this is the first, or the first no more, that is marked: up to where all were as before.
    pub const fn check(&mut self, is_marked: bool, next: u64) -> Option<u64> {
        let before = *self;
        *self = Self { is_marked, next };
        if before.is_marked == is_marked { None } else { Some(before.next) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_marks_is_smoothed_once_a_round_trip() {
        let mut dctcp = Dctcp::new();
        assert_eq!(dctcp.ssthresh(100), 50);
        let mut delivered = Delivered { all: 1, marked: 0 };
        for round in 0..100_u64 {
            delivered.all += 50;
            delivered.marked += 10;
            dctcp.on_ack(50 * round, 50 * round + 50, delivered);
            // What comes within the round says nothing by itself.
            dctcp.on_ack(50 * round + 20, 50 * round + 70, delivered);
        }
        // A fifth, give or take what whole numbers lose.
        assert!((190..=207).contains(&dctcp.alpha), "{}", dctcp.alpha);
        assert_eq!(dctcp.ssthresh(100), 90);
        for round in 100..300_u64 {
            delivered.all += 50;
            dctcp.on_ack(50 * round, 50 * round + 50, delivered);
        }
        assert_eq!((dctcp.alpha, dctcp.ssthresh(100)), (0, 100));
    }

    #[test]
    fn counts_wrap() {
        let mut dctcp = Dctcp { alpha: 0, end: 0, began: Delivered { all: u32::MAX - 9, marked: u32::MAX } };
        dctcp.on_ack(10, 20, Delivered { all: 10, marked: 19 });
        assert_eq!(dctcp.alpha, ONE >> GAIN_SHIFT, "all twenty were marked");
    }
}
