//! What a policer lets through: where two intervals between losses have the same rate, and a fifth is lost, that is the rate of the path
//! (`bbr_lt_bw_sampling`).

use machine::Time;

use super::units::{BW_UNIT, UNIT, bytes_per_second};

/// Round trips of an interval, and for how many its rate is used.
const ROUNDS_LEAST: u32 = 4;
const ROUNDS_MOST: u32 = 4 * ROUNDS_LEAST;
const ROUNDS_USED: u32 = 48;
/// In 1/256 of what was delivered.
const LOSSES: u64 = 50;
/// Rates are the same that are as near as an eighth, or as 500 bytes a second.
const NEAR: u64 = UNIT / 8;
const NEAR_BYTES: u64 = 4_000 / 8;

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    /// When something was delivered last.
    pub at: Time,
    pub delivered: u32,
    pub lost: u32,
}

/// The rate of a policer, if there is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct LongTerm {
    bw: u64,
    is_used: bool,
    is_sampling: bool,
    rounds: u32,
    began: Count,
}

impl LongTerm {
    /// Nothing is known.
    pub const fn new(began: Count) -> Self {
        Self { bw: 0, is_used: false, is_sampling: false, rounds: 0, began }
    }

    /// The rate, once there is one.
    pub const fn rate(&self) -> Option<u64> {
        if self.is_used { Some(self.bw) } else { None }
    }

    /// A round trip has passed in which the rate was used. Whether it is not used any longer.
    pub const fn grow_old(&mut self, count: Count) -> bool {
        self.rounds += 1;
        let is_over = self.rounds >= ROUNDS_USED;
        if is_over {
            *self = Self::new(count);
        }
        is_over
    }

    /// An acknowledgement came while there was no such rate. `losses`: something was lost by it.
    pub fn sample(
        &mut self,
        count: Count,
        round_start: bool,
        (is_app_limited, losses): (bool, bool),
        segment_bytes: u64,
    ) {
        if !self.is_sampling {
            // The policer's tokens are gone when it drops something.
            if !losses {
                return;
            }
            self.begin(count);
            self.is_sampling = true;
        }
        if is_app_limited {
            *self = Self::new(count);
            return;
        }
        self.rounds += u32::from(round_start);
        if self.rounds > ROUNDS_MOST {
            *self = Self::new(count);
        } else if self.rounds >= ROUNDS_LEAST && losses {
            self.end(count, segment_bytes);
        }
    }

    const fn begin(&mut self, count: Count) {
        (self.began, self.rounds) = (count, 0);
    }

    /// `bbr_lt_bw_interval_done`.
    fn end(&mut self, count: Count, segment_bytes: u64) {
        let lost = u64::from(count.lost.wrapping_sub(self.began.lost));
        let delivered = u64::from(count.delivered.wrapping_sub(self.began.delivered));
        let ms = |time: Time| time.as_ps() / 1_000_000_000;
        let ms = ms(count.at) - ms(self.began.at);
        if delivered == 0 || lost * UNIT < LOSSES * delivered || ms == 0 {
            return;
        }
        let bw = delivered * BW_UNIT / (ms * 1_000);
        let difference = bw.abs_diff(self.bw);
        let is_near =
            difference * UNIT <= NEAR * self.bw || bytes_per_second(difference, UNIT, segment_bytes) <= NEAR_BYTES;
        if self.bw > 0 && is_near {
            (self.bw, self.is_used, self.rounds) = (u64::midpoint(bw, self.bw), true, 0);
        } else {
            self.bw = bw;
            self.begin(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Span;

    /// A hundred segments each ten milliseconds, of which so many are lost.
    fn after(rounds: u32, lost: u32) -> LongTerm {
        let count =
            |n: u32| Count { at: Time::ZERO + Span::from_ms(10) * u64::from(n), delivered: 100 * n, lost: lost * n };
        let mut long_term = LongTerm::new(count(0));
        for n in 1..=rounds {
            if long_term.rate().is_none() {
                long_term.sample(count(n), true, (false, lost > 0), 1_000);
            }
        }
        long_term
    }

    #[test]
    fn two_intervals_with_the_same_rate_and_many_losses_are_a_policer() {
        assert_eq!(after(20, 10).rate(), None, "a tenth is not enough");
        assert_eq!(after(7, 30).rate(), None, "one interval");
        let rate = after(12, 30).rate().unwrap();
        assert_eq!(rate, 100 * BW_UNIT / 10_000);
    }

    #[test]
    fn it_is_forgotten_after_a_while() {
        let mut long_term = after(12, 30);
        let count = Count { at: Time::ZERO + Span::from_secs(1), delivered: 0, lost: 0 };
        let over: Vec<bool> = (0..60).map(|_| long_term.grow_old(count)).collect();
        assert_eq!(over.iter().filter(|over| **over).count(), 1);
        assert_eq!(long_term.rate(), None);
    }
}
