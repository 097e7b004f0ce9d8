//! How much more than its rate says a path acknowledges at once, as WLANs and receivers that coalesce do (`bbr_update_ack_aggregation`).

use machine::Time;

use super::units::{BW_SHIFT, BW_UNIT, micros};

/// The most of the last five to ten round trips counts.
const ROUNDS: u32 = 5;
const MOST_SEGMENTS: u32 = 1 << 20;
const MOST_US: u64 = 100_000;

/// What was acknowledged beyond the rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aggregation {
    extra: [u32; 2],
    at: usize,
    rounds: u32,
    epoch: Time,
    acked: u32,
}

impl Aggregation {
    pub const fn new(now: Time) -> Self {
        Self { extra: [0; 2], at: 0, rounds: 0, epoch: now, acked: 0 }
    }

    /// So many segments were acknowledged `at` this time, on a path of this rate.
    pub fn update(&mut self, at: Time, acked: u32, (rate, window): (u64, u32), round_start: bool) {
        if round_start {
            self.rounds += 1;
            if self.rounds >= ROUNDS {
                self.rounds = 0;
                self.at = 1 - self.at;
                self.extra[self.at] = 0;
            }
        }
        let expected = (u128::from(rate) * u128::from(micros(at.since(self.epoch)))) >> BW_SHIFT;
        let mut expected = expected.min(u128::from(u32::MAX)) as u32;
        if self.acked <= expected || self.acked + acked >= MOST_SEGMENTS {
            (self.acked, self.epoch, expected) = (0, at, 0);
        }
        self.acked = (self.acked + acked).min(MOST_SEGMENTS - 1);
        let extra = self.acked.saturating_sub(expected).min(window);
        self.extra[self.at] = self.extra[self.at].max(extra);
    }

    /// Segments that the window is to be larger by (`bbr_ack_aggregation_cwnd`).
    pub fn allowance(&self, rate: u64) -> u32 {
        let most = u128::from(rate) * u128::from(MOST_US) / u128::from(BW_UNIT);
        u128::from(self.extra[0].max(self.extra[1])).min(most) as u32
    }
}
