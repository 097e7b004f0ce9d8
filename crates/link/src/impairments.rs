//! What is random about a link: packets are lost, come twice, are corrupted, overtake each other, and delays differ.

use machine::{Rebase, Rng, Span, Time};

use crate::verdict::Impaired;
use crate::{Counters, LinkSpec, Retiming};

/// [`LinkSpec::loss_ppb`] counts parts of so many packets.
const PPB: u32 = 1_000_000_000;

/// Draws for each packet of a link what happens to it.
#[derive(Clone, Debug)]
pub(crate) struct Impairments {
    rng: Rng,
    /// When the last packet arrives that the link has accepted: the next one does not overtake it.
    latest: Time,
    counted: Counted,
}

/// [`Counters::losses`], [`Counters::duplicates`], [`Counters::corruptions`], [`Counters::overtakes`].
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    losses: u64,
    duplicates: u64,
    corruptions: u64,
    overtakes: u64,
}

impl Impairments {
    /// Those of a link, if anything is random about it.
    pub(crate) fn of(spec: LinkSpec, seed: u64) -> Option<Box<Self>> {
        spec.is_random()
            .then(|| Box::new(Self { rng: Rng::new(seed), latest: Time::ZERO, counted: Counted::default() }))
    }

    /// The link does something else from now on: what was drawn is not drawn again.
    pub(crate) fn change(kept: &mut Option<Box<Self>>, spec: LinkSpec, seed: u64) {
        if kept.is_none() {
            *kept = Self::of(spec, seed);
        }
    }

    /// What happens to a packet that was sent at `sent` and would arrive at `arrives` if nothing were random, and not before `earliest`; `None` if it is lost.
    pub(crate) fn draw(
        &mut self,
        spec: LinkSpec,
        (sent, arrives, earliest): (Time, Time, Time),
        marks: bool,
    ) -> Option<Impaired> {
        if self.happens(spec.loss_ppb) {
            self.counted.losses += 1;
            return None;
        }
        let at = if self.happens(spec.reorder_ppb) {
            self.counted.overtakes += 1;
            sent
        } else {
            self.arrival(spec, sent, arrives).max(earliest)
        };
        let is_duplicated = self.happens(spec.duplicate_ppb);
        let flips = self.happens(spec.corrupt_ppb).then(|| self.rng.bits());
        self.counted.corruptions += u64::from(flips.is_some());
        Some(Impaired { at, marks, is_duplicated, flips })
    }

    /// Draws only where there is something to draw: what a seed gives a link does not depend on what the link never does.
    fn happens(&mut self, ppb: u32) -> bool {
        ppb > 0 && self.rng.below(PPB) < ppb
    }

    fn arrival(&mut self, spec: LinkSpec, sent: Time, arrives: Time) -> Time {
        let jitter = spec.jitter().as_ps();
        // From nothing to twice the jitter, of which the middle is none.
        let drawn = (u128::from(self.rng.bits()) * (2 * u128::from(jitter) + 1)) >> 64;
        let at = Time::from_ps((arrives + Span::from_ps(drawn as u64)).as_ps().saturating_sub(jitter)).max(sent);
        self.latest = self.latest.max(at);
        self.latest
    }

    pub(crate) const fn count_duplicate(&mut self) {
        self.counted.duplicates += 1;
    }

    /// Adds what has happened until now.
    pub(crate) const fn add_to(&self, counters: &mut Counters) {
        let Counted { losses, duplicates, corruptions, overtakes } = self.counted;
        counters.losses = losses;
        counters.duplicates = duplicates;
        counters.corruptions = corruptions;
        counters.overtakes = overtakes;
    }

    /// Counting starts anew.
    pub(crate) fn forget_counted(&mut self) {
        self.counted = Counted::default();
    }

    /// When the last packet arrives.
    pub(crate) const fn latest(&self) -> Time {
        self.latest
    }

    /// What is under way arrives at another time.
    pub(crate) fn retime(&mut self, retiming: &Retiming) {
        self.latest = retiming.arrival(self.latest);
    }

    /// The carrier was gone.
    pub(crate) const fn nothing_is_under_way(&mut self) {
        self.latest = Time::ZERO;
    }
}

impl Rebase for Impairments {
    fn rebase(&mut self, by: Span) {
        let Self { rng: _, latest, counted: _ } = self;
        latest.rebase(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Link, Verdict};

    fn arrivals(link: &mut Link, packets: u64, gap: Span) -> Vec<Option<Time>> {
        let offer = |n| match link.offer(Time::ZERO + gap * n, 1_000) {
            Verdict::Arrives(at) => Some(at),
            Verdict::Dropped => None,
            Verdict::Marks(_) | Verdict::Impaired(_) => panic!("it marks none, and does nothing else"),
        };
        (0..packets).map(offer).collect()
    }

    const FAR: LinkSpec = LinkSpec { delay: Span::from_ms(1), ..LinkSpec::UNSHAPED };
    /// 8 us for 1,000 bytes.
    const GIGABIT: LinkSpec = LinkSpec { rate_bps: Some(1_000_000_000), queue_packets: Some(9), ..FAR };

    #[test]
    fn so_many_are_lost_and_counted_and_those_have_taken_their_time() {
        for spec in [FAR, GIGABIT] {
            let mut link = Link::new(LinkSpec { loss_ppb: 10_000_000, ..spec }, 7);
            let mut sound = Link::new(spec, 7);
            let gap = Span::from_us(5);
            let (lossy, all) = (arrivals(&mut link, 2, gap), arrivals(&mut sound, 2, gap));
            assert_eq!(lossy, all, "a lossy link is as fast as another");
            let lost = arrivals(&mut link, 100_000, Span::from_us(9)).iter().filter(|at| at.is_none()).count() as u64;
            assert!((900..1_100).contains(&lost), "{lost} of 1,000");
            arrivals(&mut sound, 100_000, Span::from_us(9));
            let (lossy, all) = (link.take_counters(Time::NEVER), sound.counters(Time::NEVER));
            assert_eq!((lossy.losses, lossy.drops), (lost, 0));
            assert_eq!((lossy.packets, lossy.bytes, lossy.busy), (all.packets, all.bytes, all.busy));
            assert_eq!(link.counters(Time::NEVER).losses, 0);
        }
        let mut none = Link::new(LinkSpec { loss_ppb: PPB, ..GIGABIT }, 1);
        assert!(arrivals(&mut none, 50, Span::from_us(9)).iter().all(Option::is_none));
    }

    #[test]
    fn a_seed_draws_the_same_and_another_something_else() {
        let spec = LinkSpec { loss_ppb: 500_000_000, jitter_ns: 1_000, ..FAR };
        let drawn = |seed| arrivals(&mut Link::new(spec, seed), 100, Span::from_us(5));
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        let link = Link::new(spec, 1);
        assert_ne!(arrivals(&mut link.twin(), 100, Span::from_us(5)), drawn(1), "a twin draws for itself");
    }

    #[test]
    fn delays_differ_by_the_jitter_at_most_and_none_overtakes() {
        for spec in [FAR, GIGABIT] {
            let mut link = Link::new(LinkSpec { jitter_ns: 400_000, ..spec }, 3);
            let gap = Span::from_ms(2);
            let alone: Vec<_> = arrivals(&mut link, 10_000, gap).into_iter().flatten().collect();
            let on_wire = spec.rate_bps.map_or(Span::ZERO, |_| Span::from_us(8));
            let delay = |n: usize| (alone[n] - (Time::ZERO + gap * n as u64 + on_wire)).as_ns();
            let mean = (0..10_000).map(delay).sum::<u64>() / 10_000;
            assert!((0..10_000).all(|n| (600_000..=1_400_000).contains(&delay(n))));
            assert!((0..10_000).any(|n| delay(n) < 610_000) && (0..10_000).any(|n| delay(n) > 1_390_000));
            assert!((990_000..1_010_000).contains(&mean), "{mean} ns on the mean");
            let close = arrivals(&mut Link::new(LinkSpec { jitter_ns: 400_000, ..spec }, 4), 5_000, Span::from_us(9));
            assert!(close.is_sorted());
        }
    }

    #[test]
    fn so_many_come_twice_are_corrupted_and_overtake_and_all_are_counted() {
        let spec = LinkSpec { duplicate_ppb: 10_000_000, corrupt_ppb: 20_000_000, reorder_ppb: 30_000_000, ..GIGABIT };
        let mut link = Link::new(spec, 7);
        let (mut duplicates, mut corruptions, mut overtakes) = (0, 0, 0);
        for n in 0..100_000 {
            let now = Time::ZERO + Span::from_us(18) * n;
            let (at, impaired) = match link.offer(now, 1_000) {
                Verdict::Arrives(at) => (at, None),
                Verdict::Impaired(impaired) => (impaired.at, Some(impaired)),
                verdict => panic!("{verdict:?}"),
            };
            overtakes += u64::from(at < now + Span::from_ms(1));
            let Some(Impaired { is_duplicated, flips, .. }) = impaired else { continue };
            corruptions += u64::from(flips.is_some());
            if is_duplicated {
                duplicates += 1;
                link.count_duplicate();
                assert!(!matches!(link.offer(now, 1_000), Verdict::Dropped), "there is room");
            }
        }
        let counters = link.take_counters(Time::NEVER);
        assert!((900..1_100).contains(&duplicates), "{duplicates} of 1,000");
        assert_eq!((counters.duplicates, counters.packets, counters.losses), (duplicates, 100_000 + duplicates, 0));
        assert!((1_900..2_200).contains(&counters.corruptions) && counters.corruptions >= corruptions);
        assert!((2_850..3_200).contains(&counters.overtakes) && counters.overtakes >= overtakes);
        let empty = link.counters(Time::NEVER);
        assert_eq!((empty.duplicates, empty.corruptions, empty.overtakes), (0, 0, 0));
    }

    #[test]
    fn what_a_link_never_does_takes_nothing_from_its_seed() {
        let lossy = LinkSpec { loss_ppb: 500_000_000, ..FAR };
        let drawn = |spec| arrivals(&mut Link::new(spec, 4), 100, Span::from_us(5));
        let all = drawn(LinkSpec { reorder_ppb: PPB, ..lossy });
        assert_eq!(drawn(lossy), drawn(lossy));
        let overtaken = all.iter().flatten().enumerate().filter(|(_, at)| at.as_ns() % 5_000 == 0).count();
        assert_eq!(overtaken, all.iter().flatten().count(), "none takes the delay");
    }

    #[test]
    fn what_waits_at_a_link_that_gets_faster_holds_up_nobody_behind_it() {
        let slow = LinkSpec { rate_bps: Some(10_000), loss_ppb: 1, queue_packets: Some(99), ..FAR };
        let mut link = Link::new(slow, 3);
        let promised = arrivals(&mut link, 90, Span::ZERO);
        let now = Time::ZERO + Span::from_ms(1);
        let retiming = link.reconfigure(now, LinkSpec { rate_bps: Some(1_000_000_000), ..slow });
        let last = promised.last().copied().flatten().map(|at| retiming.arrival(at)).expect("it is not lost");
        // 90 packets of 8 us, and the delay.
        assert!(last <= now + Span::from_ms(3), "{last:?}");
        let later = now + Span::from_ms(10);
        assert!(matches!(link.offer(later, 1_000), Verdict::Arrives(at) if at <= later + Span::from_ms(2)));
    }

    #[test]
    fn none_arrives_before_it_was_sent() {
        let mut link = Link::new(LinkSpec { jitter_ns: 5_000_000, ..GIGABIT }, 3);
        let gap = Span::from_ms(20);
        for (n, at) in arrivals(&mut link, 1_000, gap).into_iter().enumerate() {
            assert!(at >= Some(Time::ZERO + gap * n as u64 + Span::from_us(8)));
        }
    }

    #[test]
    fn a_link_that_gets_jitter_and_loses_it_keeps_the_order() {
        let mut link = Link::new(GIGABIT, 5);
        let mut promised: Vec<Time> = Vec::new();
        for n in 0..4_000_u64 {
            let now = Time::ZERO + Span::from_us(7 * n);
            if n % 50 == 49 {
                let jitter_ns = if n % 100 == 49 { 900_000 } else { 0 };
                let rate_bps = [Some(1_000_000_000), Some(100_000_000), None][n as usize / 50 % 3];
                let retiming = link.reconfigure(now, LinkSpec { rate_bps, jitter_ns, ..GIGABIT });
                for at in &mut promised {
                    *at = retiming.arrival(*at);
                }
            }
            if let Verdict::Arrives(at) = link.offer(now, 1_000) {
                promised.push(at);
            }
            assert!(promised.is_sorted(), "after packet {n}");
        }
        assert!(promised.len() > 1_000);
        link.cut(Time::ZERO + Span::from_secs(1));
        link.heal();
        let now = Time::ZERO + Span::from_secs(1);
        assert!(matches!(link.offer(now, 1_000), Verdict::Arrives(at) if at <= now + Span::from_ms(3)));
    }
}
