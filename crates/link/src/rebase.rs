//! A link whose clock is set back.

use machine::{Rebase, Span};

use crate::{Link, Rare};

impl Rebase for Link {
    fn rebase(&mut self, by: Span) {
        let Self {
            idle_at,
            byte_ps: _,
            starts,
            packets: _,
            bytes: _,
            delay: _,
            earliest,
            busy: _,
            waits_ps: _,
            queue_max: _,
            queue_peak: _,
            overhead_bytes: _,
            marks_from: _,
            rare,
        } = self;
        let Rare {
            spec: _,
            cut: _,
            drops: _,
            marks: _,
            lost: _,
            waits_ps: _,
            handed_over,
            last: _,
            seed: _,
            impairments,
        } = &mut **rare;
        idle_at.rebase(by);
        earliest.rebase(by);
        starts.rebase(by);
        handed_over.rebase(by);
        if let Some(impairments) = impairments {
            impairments.rebase(by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkSpec, Verdict};
    use machine::{Rng, Time};

    #[test]
    fn a_link_that_was_busy_for_213_days_still_counts() {
        let mut link = Link::new(LinkSpec { rate_bps: Some(1_000_000_000), ..LinkSpec::default() }, 0);
        link.busy = Span::from_ps(u64::MAX);
        let before = link.counters(Time::ZERO);
        link.offer(Time::ZERO, 1_000);
        assert_eq!(link.counters(Time::ZERO).busy.wrapping_sub(before.busy), Span::from_us(8));
        let mut sum = before;
        sum.add(&link.counters(Time::ZERO));
        assert_eq!(sum.busy.wrapping_sub(before.busy), Span::from_ps(8_000_000 - 1));
    }

    /// Whatever happens to a link, it goes on alike by a clock that is set back meanwhile.
    #[test]
    fn a_link_does_not_see_that_its_clock_is_set_back() {
        for (seed, rate_bps) in
            [(1, None), (2, Some(10_000_000)), (3, Some(999_999_937)), (4, Some(10_000_000)), (5, Some(10_000_000))]
        {
            let mut rng = Rng::new(seed);
            let shaped = LinkSpec { rate_bps, delay: Span::from_us(300), queue_packets: Some(5), ..LinkSpec::UNSHAPED };
            let coalesce_ns = if seed == 4 { 125_000 } else { 0 };
            let ecn_packets = std::num::NonZeroU32::new(2);
            let (loss_ppb, jitter_ns) = if seed == 5 { (20_000_000, 200_000) } else { (0, 0) };
            let spec = LinkSpec { overhead_bytes: 24, coalesce_ns, ecn_packets, loss_ppb, jitter_ns, ..shaped };
            let (mut link, mut same) = (Link::new(spec, seed), Link::new(spec, seed));
            let mut now = Time::ZERO + Span::from_secs(10);
            let mut back = Span::ZERO;
            for step in 0..20_000 {
                now += Span::from_ns(u64::from(rng.below(3_000_000)));
                if rng.below(12) == 0 && now - (Time::ZERO + back) > Span::from_secs(1) {
                    let by = Span::from_us(u64::from(rng.below(500_000)));
                    link.rebase(by);
                    back = back + by;
                }
                let shown = Time::ZERO + (now - (Time::ZERO + back));
                match rng.below(20) {
                    0 => {
                        link.cut(shown);
                        same.cut(now);
                    }
                    1 => [&mut link, &mut same].into_iter().for_each(Link::heal),
                    2 => {
                        let other = LinkSpec { delay: Span::from_us(u64::from(rng.below(900))), ..spec };
                        link.reconfigure(shown, other);
                        same.reconfigure(now, other);
                    }
                    _ => {}
                }
                let bytes = 40 + rng.below(1_460);
                let verdict = match link.offer(shown, bytes) {
                    Verdict::Arrives(at) => Verdict::Arrives(at + back),
                    Verdict::Marks(at) => Verdict::Marks(at + back),
                    other => other,
                };
                assert_eq!(verdict, same.offer(now, bytes), "step {step} of seed {seed}");
            }
            let shown = Time::ZERO + (now - (Time::ZERO + back));
            assert_eq!(link.counters(shown), same.counters(now));
        }
    }
}
