//! A link that is changed while packets are under way.

use machine::{Span, Time};

use crate::LinkSpec;

/// How a change of a link moves the packets that wait in it: from [`Link::reconfigure`].
#[derive(Clone, Copy, Debug)]
pub struct Retiming {
    now: Time,
    /// What arrives until then has left the transmitter.
    on_the_way: Time,
    old: Pace,
    new: Pace,
}

/// What a link does to the time of a packet.
#[derive(Clone, Copy, Debug)]
struct Pace {
    rate_bps: Option<u64>,
    delay: Span,
    coalesce: Span,
}

impl From<LinkSpec> for Pace {
    fn from(spec: LinkSpec) -> Self {
        Self { rate_bps: spec.rate_bps, delay: spec.delay, coalesce: spec.coalesce() }
    }
}

impl Retiming {
    pub(crate) fn new(now: Time, on_the_way: Time, old: LinkSpec, new: LinkSpec) -> Self {
        Self { now, on_the_way, old: old.into(), new: new.into() }
    }

    /// When a packet arrives of which [`Link::offer`] said `at` before the change.
    #[must_use]
    pub fn arrival(&self, at: Time) -> Time {
        // What had left the transmitter is in the card by then, and goes when its time is over.
        let kept = self.on_the_way.max(self.now) + self.old.coalesce;
        if at <= kept {
            return at;
        }
        let on_link = self.old.delay.as_ps() + self.old.coalesce.as_ps();
        let left = Time::ZERO + Span::from_ps(at.as_ps().saturating_sub(on_link));
        (self.departure(left) + self.new.delay + self.new.coalesce).max(kept)
    }

    /// When the transmitter does what it would have done at `at`: what is left to send takes the new rate's time.
    pub(crate) fn departure(&self, at: Time) -> Time {
        if at <= self.now {
            return at;
        }
        let Some(new) = self.new.rate_bps else { return self.now };
        let old = self.old.rate_bps.unwrap_or(new);
        let left = (u128::from(at.since(self.now).as_ps()) * u128::from(old)).div_ceil(u128::from(new));
        self.now + Span::from_ps(u64::try_from(left).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Link, Verdict};

    fn arrival(verdict: Verdict) -> Time {
        match verdict {
            Verdict::Arrives(at) | Verdict::Marks(at) => at,
            other => panic!("the queue has room, and nothing is random: {other:?}"),
        }
    }

    #[test]
    fn a_shorter_delay_lets_no_packet_overtake() {
        for rate_bps in [None, Some(1_000_000_000)] {
            let far = LinkSpec { rate_bps, delay: Span::from_ms(10), queue_packets: Some(9), ..LinkSpec::UNSHAPED };
            let mut link = Link::new(far, 0);
            let before = arrival(link.offer(Time::ZERO, 1_000));
            let now = Time::from_ns(1_000_000);
            let retiming = link.reconfigure(now, LinkSpec { delay: Span::ZERO, ..far });
            assert_eq!(retiming.arrival(before), before, "it had left");
            assert_eq!(arrival(link.offer(now, 1_000)), before);
            // Later packets have the new delay alone.
            let later = Time::from_ns(20_000_000);
            assert!(arrival(link.offer(later, 1_000)).since(later) <= Span::from_us(8));
        }
    }

    #[test]
    fn what_waits_goes_on_at_the_new_rate() {
        let slow = LinkSpec {
            rate_bps: Some(10_000),
            delay: Span::from_us(50),
            queue_packets: Some(100),
            ..LinkSpec::UNSHAPED
        };
        let mut link = Link::new(slow, 0);
        // 1.2 s each: the last one would come after two minutes.
        let promised: Vec<_> = (0..100).map(|_| arrival(link.offer(Time::ZERO, 1_500))).collect();
        let now = Time::from_ns(1_800_000_000);
        let retiming = link.reconfigure(now, LinkSpec { rate_bps: Some(1_000_000_000), ..slow });
        let mut moved: Vec<_> = promised.iter().map(|&at| retiming.arrival(at)).collect();
        assert_eq!(moved[0], promised[0]);
        // Half of the second packet is left, then 98 whole ones, 12 us each.
        assert_eq!(moved[1], now + Span::from_us(6 + 50));
        assert_eq!(moved[99], now + Span::from_us(6 + 98 * 12 + 50));
        moved.push(arrival(link.offer(now, 1_500)));
        assert_eq!(moved[100], now + Span::from_us(6 + 99 * 12 + 50));
        assert!(moved.is_sorted());
        // The queue has drained by then.
        let later = now + Span::from_ms(2);
        assert_eq!(link.offer(later, 1_500), Verdict::Arrives(later + Span::from_us(12 + 50)));
    }

    #[test]
    fn arrivals_stay_in_order_whatever_changes() {
        let rates = [Some(10_000), None, Some(999_999_937), Some(1_000_000), Some(40_000_000_000)];
        let delays = [Span::from_ms(20), Span::ZERO, Span::from_us(7), Span::from_ms(3)];
        let cards = [0, 125_000, 2_000_000];
        let spec = |n: usize| LinkSpec {
            rate_bps: rates[n % 5],
            delay: delays[n % 4],
            queue_packets: Some(50),
            coalesce_ns: cards[n % 3],
            ..LinkSpec::UNSHAPED
        };
        let mut link = Link::new(spec(0), 0);
        let mut promised: Vec<Time> = Vec::new();
        let mut now = Time::ZERO;
        for n in 0..2_000 {
            now += Span::from_us(n * 7_919 % 1_013);
            if let Verdict::Arrives(at) = link.offer(now, 40 + (n % 1_460) as u32) {
                promised.push(at);
            }
            if n % 11 == 10 {
                let retiming = link.reconfigure(now, spec(n as usize / 11));
                for at in &mut promised {
                    *at = retiming.arrival(*at);
                }
            }
            assert!(promised.is_sorted(), "after packet {n}");
        }
    }
}
