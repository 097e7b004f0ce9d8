//! The retransmission timeout (RFC 6298), from timestamps (RFC 7323), so that a retransmission's round trip counts as well.

use machine::Span;

/// The first timeout, before any round trip was measured (RFC 6298, 2.1).
const FIRST: Span = Span::from_secs(1);
/// The longest timeout (RFC 6298, 2.5: at least 60 s).
const LONGEST: Span = Span::from_secs(60);
/// Clock granularity `G`.
const GRANULARITY: Span = Span::from_ms(1);

/// Estimates the round-trip time, and says how long to wait for an acknowledgement.
#[derive(Clone, Debug)]
pub struct Rto {
    // All in picoseconds.
    least: u64,
    /// Smoothed round-trip time; zero before the first sample.
    srtt: u64,
    rttvar: u64,
    timeout: u64,
}

impl Rto {
    /// No round trip has been measured; the timeout is never below `least`.
    pub fn new(least: Span) -> Self {
        let least = least.min(LONGEST).as_ps();
        Self { least, srtt: 0, rttvar: 0, timeout: FIRST.as_ps().max(least) }
    }

    /// A round trip was measured (RFC 6298, 2.2 and 2.3). This also takes back what [`Rto::back_off`] did (5.7).
    #[inline]
    pub fn sample(&mut self, rtt: Span) {
        let rtt = rtt.as_ps().min(LONGEST.as_ps()).max(1);
        if self.srtt == 0 {
            self.srtt = rtt;
            self.rttvar = rtt / 2;
        } else {
            // beta = 1/4, alpha = 1/8.
            self.rttvar = self.rttvar - self.rttvar / 4 + self.srtt.abs_diff(rtt) / 4;
            self.srtt = self.srtt - self.srtt / 8 + rtt / 8;
        }
        let rto = self.srtt + (4 * self.rttvar).max(GRANULARITY.as_ps());
        self.timeout = rto.max(self.least).min(LONGEST.as_ps());
    }

    /// A timeout passed: the next one takes twice as long (RFC 6298, 5.5).
    pub fn back_off(&mut self) {
        self.timeout = (self.timeout * 2).min(LONGEST.as_ps());
    }

    /// The smoothed round-trip time; `None` before the first one was measured.
    pub const fn smoothed(&self) -> Option<Span> {
        if self.srtt == 0 { None } else { Some(Span::from_ps(self.srtt)) }
    }

    /// How long to wait.
    #[inline]
    pub const fn get(&self) -> Span {
        Span::from_ps(self.timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_of_rfc_6298() {
        let mut rto = Rto::new(Span::from_ms(200));
        assert_eq!(rto.get(), Span::from_secs(1));
        // RTO = R + 4 * R/2.
        rto.sample(Span::from_ms(100));
        assert_eq!(rto.get(), Span::from_ms(300));
        // RTTVAR = 3/4 * 50 + 1/4 * 100 = 62.5; SRTT = 7/8 * 100 + 1/8 * 200 = 112.5.
        rto.sample(Span::from_ms(200));
        assert_eq!(rto.get(), Span::from_us(362_500));
        rto.back_off();
        rto.back_off();
        assert_eq!(rto.get(), Span::from_ms(1_450));
        for _ in 0..10 {
            rto.back_off();
        }
        assert_eq!(rto.get(), Span::from_secs(60));
    }

    #[test]
    fn a_short_path_waits_the_least() {
        let mut rto = Rto::new(Span::from_ms(200));
        for _ in 0..100 {
            rto.sample(Span::from_us(650));
        }
        assert_eq!(rto.get(), Span::from_ms(200));
        // Without a floor, the clock's granularity is one.
        let mut rto = Rto::new(Span::ZERO);
        for _ in 0..100 {
            rto.sample(Span::from_us(800));
        }
        assert_eq!(rto.get(), Span::from_us(1_800));
    }
}
