//! How much may be written into the log about what somebody else can change at will: an end of a bond, a device's carrier.

use machine::{Rebase, Span, Time};

/// Lines of one thing in a minute. A bond of eight members that comes up, or loses all of them and has them back, needs half of them.
const LINES_MAX: u32 = 60;
const MINUTE: Span = Span::from_secs(60);

/// The lines about one thing in this minute, which begins with the first of them.
#[derive(Debug)]
pub struct LogQuota {
    until: Time,
    lines: u32,
    left_out: u64,
}

impl Default for LogQuota {
    fn default() -> Self {
        Self { until: Time::ZERO, lines: 0, left_out: 0 }
    }
}

impl LogQuota {
    /// Whether one more line may be written at `now`; it is counted if not.
    pub fn take(&mut self, now: Time) -> bool {
        if now >= self.until && self.left_out == 0 {
            (self.until, self.lines) = (now + MINUTE, 0);
        }
        let may = self.lines < LINES_MAX;
        if may {
            self.lines += 1;
        } else {
            self.left_out += 1;
        }
        may
    }

    /// When it is to be logged that lines were left out.
    pub const fn due(&self) -> Time {
        if self.left_out == 0 { Time::NEVER } else { self.until }
    }

    /// How many lines were left out in a minute that is over at `now`; they are reported once.
    pub fn take_left_out(&mut self, now: Time) -> Option<u64> {
        (now >= self.due()).then(|| std::mem::take(&mut self.left_out))
    }
}

impl Rebase for LogQuota {
    fn rebase(&mut self, by: Span) {
        let Self { until, lines: _, left_out: _ } = self;
        until.rebase(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn no_minute_has_more_lines_than_allowed_and_each_of_the_others_is_counted() {
        let mut quota = LogQuota::default();
        let (mut lines, mut reported) = (0, 0);
        for second in 0..600 {
            reported += quota.take_left_out(at(second)).unwrap_or(0);
            for _ in 0..32 {
                lines += u64::from(quota.take(at(second)));
            }
        }
        assert_eq!(lines, 600);
        assert_eq!(quota.due(), at(600));
        reported += quota.take_left_out(at(600)).unwrap_or(0);
        assert_eq!(lines + reported, 600 * 32);
        assert_eq!((quota.due(), quota.take_left_out(at(700))), (Time::NEVER, None));
    }

    #[test]
    fn who_says_little_is_heard_in_full() {
        let mut quota = LogQuota::default();
        assert!((0..1_000).all(|nth| quota.take(at(nth * 2)) && quota.take_left_out(at(nth * 2)).is_none()));
    }
}
