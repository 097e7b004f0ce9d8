//! Round trips, and how long to wait for an acknowledgement.
//!
//! Linux differs from RFC 6298: `rttvar` is the greatest deviation of a window, not below the least timeout, so that the timeout is the round trip and at
//! least that much more; and a round trip that falls moves it less (`tcp_rtt_estimator`, `tcp_set_rto`).

use machine::Span;

use super::timer::JIFFY;

/// The first timeout, before any round trip was measured.
const FIRST: Span = Span::from_secs(1);
/// `TCP_RTO_MAX`.
const LONGEST: Span = Span::from_secs(120);

/// Estimates round trips. Times are in picoseconds.
#[derive(Clone, Debug)]
pub(super) struct Rtt {
    least: u64,
    smoothed: u64,
    deviation: u64,
    /// The greatest `deviation` since `window_end` was set.
    deviation_max: u64,
    variance: u64,
    /// `rtt_seq`: the window ends when this segment is acknowledged.
    window_end: u64,
    timeout: u64,
    shortest: u64,
}

impl Rtt {
    pub fn new(least: Span) -> Self {
        let least = least.as_ps().clamp(1, LONGEST.as_ps());
        Self {
            least,
            smoothed: 0,
            deviation: 0,
            deviation_max: 0,
            variance: 0,
            window_end: 0,
            timeout: FIRST.as_ps().max(least),
            shortest: u64::MAX,
        }
    }

    /// A round trip was measured, when `first` was the first segment without acknowledgement and `next` the next to be sent. This takes back what
    /// [`Rtt::back_off`] did.
    pub fn sample(&mut self, rtt: Span, first: u64, next: u64) {
        let rtt = rtt.as_ps().clamp(1, LONGEST.as_ps());
        if self.smoothed == 0 {
            self.smoothed = rtt;
            self.deviation = rtt / 2;
            self.variance = (2 * rtt).max(self.least);
            self.deviation_max = self.variance;
            self.window_end = next;
        } else {
            self.update(rtt, first, next);
        }
        // It is kept in ticks.
        self.timeout = (self.smoothed + self.variance).min(LONGEST.as_ps()).next_multiple_of(JIFFY.as_ps());
    }

    /// `deviation` stands for `mdev_us / 4`, the mean deviation itself; the kernel compares four times it.
    fn update(&mut self, rtt: u64, first: u64, next: u64) {
        let error = rtt.abs_diff(self.smoothed);
        let falls = rtt < self.smoothed;
        self.smoothed = self.smoothed - self.smoothed / 8 + rtt / 8;
        if error <= self.deviation {
            self.deviation -= (self.deviation - error) / 4;
        } else if falls {
            // An eighth of the usual gain: a path that gets shorter is no reason to wait longer.
            self.deviation += (error - self.deviation) / 32;
        } else {
            self.deviation += (error - self.deviation) / 4;
        }
        let deviation = 4 * self.deviation;
        if deviation > self.deviation_max {
            self.deviation_max = deviation;
            self.variance = self.variance.max(deviation);
        }
        if first > self.window_end {
            if self.deviation_max < self.variance {
                self.variance -= (self.variance - self.deviation_max) / 4;
            }
            self.window_end = next;
            self.deviation_max = self.least;
        }
    }

    /// A round trip for the shortest of all.
    pub fn note_shortest(&mut self, rtt: Span) {
        self.shortest = self.shortest.min(rtt.as_ps().max(1));
    }

    /// A timeout passed: the next takes twice as long.
    pub fn back_off(&mut self) {
        self.timeout = (self.timeout * 2).min(LONGEST.as_ps());
    }

    /// The retransmission timeout.
    pub const fn timeout(&self) -> Span {
        Span::from_ps(self.timeout)
    }

    /// The least timeout.
    pub const fn least(&self) -> Span {
        Span::from_ps(self.least)
    }

    /// The smoothed round trip; `None` before the first one.
    pub const fn smoothed(&self) -> Option<Span> {
        if self.smoothed == 0 { None } else { Some(Span::from_ps(self.smoothed)) }
    }

    /// The shortest round trip; very long before the first one.
    pub const fn shortest(&self) -> Span {
        Span::from_ps(self.shortest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_is_the_round_trip_and_the_least_timeout() {
        let mut rtt = Rtt::new(Span::from_ms(200));
        assert_eq!(rtt.timeout(), Span::from_secs(1));
        for n in 0..200 {
            rtt.sample(Span::from_us(800), n, n + 10);
        }
        assert_eq!(rtt.timeout(), Span::from_ms(204), "in whole ticks");
        rtt.back_off();
        assert_eq!(rtt.timeout(), Span::from_ms(408));
        rtt.sample(Span::from_us(800), 200, 210);
        assert_eq!(rtt.timeout(), Span::from_ms(204));
    }

    #[test]
    fn the_first_round_trip_counts_thrice() {
        let mut rtt = Rtt::new(Span::from_ms(200));
        rtt.sample(Span::from_ms(300), 0, 10);
        assert_eq!(rtt.timeout(), Span::from_ms(900));
    }

    #[test]
    fn a_round_trip_that_falls_moves_the_deviation_less() {
        let measured = || {
            let mut rtt = Rtt::new(Span::from_us(1));
            (0..400).for_each(|n| rtt.sample(Span::from_ms(100), n, n + 1));
            rtt
        };
        let (mut up, mut down) = (measured(), measured());
        up.sample(Span::from_ms(180), 400, 401);
        down.sample(Span::from_ms(20), 400, 401);
        assert!(up.deviation > 7 * down.deviation, "{up:?} {down:?}");
    }
}
