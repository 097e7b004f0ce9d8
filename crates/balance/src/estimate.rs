//! What is learned of a server from its answers: how long it takes, and how fast it works.
//!
//! All in whole numbers: an exponential decay is halvings with a straight line between two of them, which is at most 6 % above the curve, and the same on every
//! machine.

use machine::{Rebase, Span, Time};

use crate::crowding::Crowding;

/// The share of a new sample in an average, as a power of two: an eighth.
const SAMPLE_SHIFT: u32 = 3;
/// The same in how far samples are from their average: a thirty-second.
const DEVIATION_SHIFT: u32 = 5;
/// Such a share of samples' mean deviation is how far their average may be from what it would be of many. For exponential ones the average of eight deviates by 0.35 of it, and few
/// are as even.
const DOUBT: u64 = 2;
/// What a failure costs at least: more than most servers need for an answer, so that those that fail fast don't seem to be fast.
const PENALTY_MIN: Span = Span::from_ms(100);
/// No failure and no silence costs more.
const PENALTY_MAX: Span = Span::from_secs(10);

/// What is left of `value` after `elapsed`, if half of it fades in each `half_life`.
pub(crate) fn faded(value: Span, elapsed: Span, half_life: Span) -> Span {
    /// Parts of a half-life that are told apart, as a power of two: so there is no division of 128 bits.
    const PART_BITS: u32 = 16;
    let half_life = half_life.as_ps().max(1);
    let (halvings, rest) = (elapsed.as_ps() / half_life, elapsed.as_ps() % half_life);
    if halvings >= u64::from(u64::BITS) {
        return Span::ZERO;
    }
    let value = value.as_ps() >> halvings;
    let parts = rest / (half_life >> PART_BITS).max(1);
    let lost = (u128::from(value / 2) * u128::from(parts)) >> PART_BITS;
    Span::from_ps(value.saturating_sub(lost as u64))
}

fn less(a: Span, b: Span) -> Span {
    Span::from_ps(a.as_ps().saturating_sub(b.as_ps()))
}

fn apart(a: Span, b: Span) -> Span {
    less(a.max(b), a.min(b))
}

/// What to take for a value of which there is so much doubt, beside others' mean: the value where it is far from that, the mean where it may be by chance. In between as much of the
/// difference as its square has of both squares (as an empirical Bayes estimator; James and Stein, 1961).
pub(crate) fn towards(mean: Span, value: Span, doubt: Span) -> Span {
    /// Parts of a difference, as a power of two.
    const PART_BITS: u32 = 16;
    /// Bits of both that are looked at: as many as let their squares, by parts, fit 64. So there is no division of 128 bits.
    const BITS: u32 = 23;
    let difference = apart(value, mean);
    let unused = (u64::BITS - difference.max(doubt).as_ps().leading_zeros()).saturating_sub(BITS);
    let square = |span: Span| (span.as_ps() >> unused).pow(2);
    let (of_difference, of_doubt) = (square(difference), square(doubt));
    if of_difference + of_doubt == 0 {
        return value;
    }
    let parts = (of_difference << PART_BITS) / (of_difference + of_doubt);
    let kept = Span::from_ps(((u128::from(difference.as_ps()) * u128::from(parts)) >> PART_BITS) as u64);
    if value >= mean { mean + kept } else { less(mean, kept) }
}

/// Moves an average towards a sample; the first samples count more, so that the first one does not stay for long.
fn average(mean: Span, sample: Span, samples: u64, shift: u32) -> Span {
    let share = (samples + 1).min(1 << shift);
    if sample >= mean { mean + less(sample, mean) / share } else { less(mean, less(mean, sample) / share) }
}

/// What answers say of one server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Estimates {
    /// Connections (or requests) that have had no answer.
    waiting: u32,
    /// Since when it has been at work on its next answer: the last one, or the moment at which something came to the idle server.
    busy_since: Time,
    /// Answers, or ends of connections where nobody says when answers come.
    samples: u64,
    answers: u64,
    /// From the beginning of a connection or a request to its answer, on average.
    latency: Span,
    /// From answer to answer while it is at work, on average: what one more connection in front costs. A server that works on several at once has
    /// a shorter one than it takes for each.
    service: Span,
    /// When `service` last changed.
    service_at: Time,
    /// How far from `service` those times are, on average.
    deviation: Span,
    /// Latency whose peaks count at once.
    peak: Span,
    peak_at: Time,
    /// How waiting goes with the crowd.
    pub crowding: Crowding,
}

impl Estimates {
    /// Something to answer has come.
    pub fn opened(&mut self, now: Time) {
        if self.waiting == 0 {
            self.busy_since = now;
        }
        self.crowding.arrived(now, self.waiting, self.latency);
        self.waiting += 1;
    }

    /// What had come is done without an answer, or is asked no more: a handshake is complete, a client has gone.
    pub fn withdrawn(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// It has begun to answer, `latency` after the connection or the request began.
    pub fn answered(&mut self, now: Time, latency: Span, half_life: Span) {
        self.answers += 1;
        self.observe(now, Some(latency), half_life);
    }

    /// A connection is over that went well. `left` are still open.
    pub fn completed(&mut self, now: Time, left: u32, half_life: Span) {
        // Where answers are seen, this one has been.
        if self.answers == 0 && self.waiting > 0 {
            self.observe(now, None, half_life);
        }
        self.waiting = self.waiting.min(left);
    }

    /// One that waited has been served.
    fn observe(&mut self, now: Time, latency: Option<Span>, half_life: Span) {
        let began = latency.map_or(Time::ZERO, |latency| Time::from_ps(now.as_ps().saturating_sub(latency.as_ps())));
        let worked = now.since(self.busy_since.max(began));
        if self.samples > 0 {
            let deviation = apart(worked, self.service);
            self.deviation = average(self.deviation, deviation, self.samples - 1, DEVIATION_SHIFT);
        }
        self.service = average(self.service, worked, self.samples, SAMPLE_SHIFT);
        self.service_at = now;
        if let Some(latency) = latency {
            self.crowding.answered(now, latency, half_life);
        }
        let latency = latency.unwrap_or(worked);
        self.latency = average(self.latency, latency, self.samples, SAMPLE_SHIFT);
        self.observe_peak(now, latency, half_life);
        self.samples += 1;
        self.busy_since = now;
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// A connection has failed: that counts as a slow answer, however fast it was. `left` are still open.
    pub fn failed(&mut self, now: Time, left: u32, half_life: Span) {
        let penalty = |value: Span| (value * 2).max(PENALTY_MIN).min(PENALTY_MAX);
        self.service = penalty(self.service);
        self.service_at = now;
        self.observe_peak(now, penalty(self.peak_now(now, half_life)), half_life);
        self.samples += 1;
        self.waiting = self.waiting.saturating_sub(1).min(left);
        self.busy_since = now;
    }

    /// A connection is over of which nothing is known. `left` are still open.
    pub fn expired(&mut self, left: u32) {
        self.waiting = self.waiting.min(left);
    }

    fn observe_peak(&mut self, now: Time, latency: Span, half_life: Span) {
        let elapsed = now.since(self.peak_at);
        self.peak =
            if latency >= self.peak { latency } else { latency + faded(less(self.peak, latency), elapsed, half_life) };
        self.peak_at = now;
    }

    /// The latency whose peaks count at once and then fade; nothing if there were no answers.
    pub fn peak(&self, now: Time, half_life: Span) -> Option<Span> {
        (self.samples > 0).then(|| self.peak_now(now, half_life))
    }

    fn peak_now(&self, now: Time, half_life: Span) -> Span {
        faded(self.peak, now.since(self.peak_at), half_life)
    }

    /// The average latency, for people; nothing if there were no answers.
    pub fn latency(&self) -> Option<Span> {
        (self.samples > 0).then_some(self.latency)
    }

    /// For how long it has been at work on its next answer. After a long while nobody knows whether it or its clients are silent, so it no longer is.
    fn worked(&self, now: Time) -> Option<Span> {
        (self.waiting > 0).then(|| now.since(self.busy_since)).filter(|&worked| worked < PENALTY_MAX)
    }

    /// The time from answer to answer. An answer that is late counts as much as it would if it came now, so a server that hangs gets slower from
    /// moment to moment.
    pub fn service(&self, now: Time) -> Option<Span> {
        let late = self.worked(now).map_or(Span::ZERO, |worked| less(worked, self.service));
        (self.samples > 0).then(|| self.service + late / (1 << SAMPLE_SHIFT))
    }

    /// The same, as it is believed after a while without work: what was learned fades towards `fastest`, so that a server that was slow is tried again.
    pub fn service_for(&self, now: Time, fastest: Span, half_life: Span) -> Option<Span> {
        let service = self.service(now)?;
        if self.worked(now).is_some() || service <= fastest {
            return Some(service);
        }
        Some(fastest + faded(less(service, fastest), now.since(self.service_at), half_life))
    }

    /// How far the time from answer to answer may be from what it is on a long average, by how samples differ.
    pub fn doubt(&self) -> Span {
        self.deviation / DOUBT
    }

    /// How long a request takes on average, as it is believed after a while without work, as [`Self::service_for`].
    pub fn latency_for(&self, now: Time, fastest: Span, half_life: Span) -> Option<Span> {
        let latency = self.crowding.latency()?;
        if self.worked(now).is_some() || latency <= fastest {
            return Some(latency);
        }
        Some(fastest + faded(less(latency, fastest), now.since(self.crowding.answered_at()), half_life))
    }
}

impl Rebase for Estimates {
    fn rebase(&mut self, by: Span) {
        let Self {
            waiting: _,
            busy_since,
            samples: _,
            answers: _,
            latency: _,
            service: _,
            service_at,
            deviation: _,
            peak: _,
            peak_at,
            crowding,
        } = self;
        crowding.rebase(by);
        busy_since.rebase(by);
        service_at.rebase(by);
        peak_at.rebase(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF_LIFE: Span = Span::from_secs(1);

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    #[test]
    fn half_fades_in_a_half_life() {
        let left = |ms| faded(Span::from_ms(80), Span::from_ms(ms), HALF_LIFE);
        assert_eq!([0, 500, 1_000, 2_000, 90_000].map(left), [80, 60, 40, 20, 0].map(Span::from_ms));
    }

    #[test]
    fn what_is_far_from_others_beside_its_doubt_is_believed() {
        let towards = |value, doubt| towards(Span::from_ms(4), Span::from_ms(value), Span::from_ms(doubt));
        assert_eq!([towards(10, 0), towards(2, 0), towards(4, 0)], [10, 2, 4].map(Span::from_ms));
        // As far as its doubt: half of it.
        assert_eq!([towards(10, 6), towards(2, 2)], [7, 3].map(Span::from_ms));
        assert_eq!(towards(4, 100), Span::from_ms(4));
        assert!(towards(10, 60) < Span::from_us(4_100), "it may be by chance");
    }

    #[test]
    fn samples_that_differ_leave_doubt() {
        let after = |times: [u64; 2]| {
            let (mut estimates, mut now) = (Estimates::default(), 0);
            for ms in times.into_iter().cycle().take(200) {
                estimates.opened(at(now));
                estimates.answered(at(now + ms), Span::from_ms(ms), HALF_LIFE);
                now += ms;
            }
            estimates.doubt()
        };
        assert_eq!(after([10, 10]), Span::ZERO);
        // Each is nine or ten away from a mean of ten.
        let doubt = after([1, 20]);
        assert!((Span::from_ms(4)..Span::from_ms(6)).contains(&doubt), "{doubt:?}");
    }

    #[test]
    fn the_service_time_of_a_queue_is_not_its_latency() {
        let mut estimates = Estimates::default();
        (0..4).for_each(|_| estimates.opened(at(0)));
        for n in 1..=4 {
            estimates.answered(at(10 * n), Span::from_ms(10 * n), HALF_LIFE);
        }
        assert_eq!(estimates.service(at(40)), Some(Span::from_ms(10)));
        assert_eq!(estimates.peak(at(40), HALF_LIFE), Some(Span::from_ms(40)));
        // Idle for a while, which is no work.
        estimates.opened(at(100));
        estimates.answered(at(110), Span::from_ms(10), HALF_LIFE);
        assert_eq!(estimates.service(at(110)), Some(Span::from_ms(10)));
    }

    #[test]
    fn without_answers_ends_of_connections_are_what_is_learned_from() {
        let mut estimates = Estimates::default();
        for n in 0..20 {
            estimates.opened(at(20 * n));
            estimates.completed(at(20 * n + 10), 0, HALF_LIFE);
        }
        assert_eq!(estimates.service(at(400)), Some(Span::from_ms(10)));
        // With them, ends say nothing more.
        let mut estimates = Estimates::default();
        for n in 0..20 {
            estimates.opened(at(20 * n));
            estimates.answered(at(20 * n + 1), Span::from_ms(1), HALF_LIFE);
            estimates.completed(at(20 * n + 10), 0, HALF_LIFE);
        }
        assert_eq!(estimates.service(at(400)), Some(Span::from_ms(1)));
    }

    #[test]
    fn an_answer_that_does_not_come_makes_slower_and_slower() {
        let mut estimates = Estimates::default();
        estimates.opened(at(0));
        estimates.answered(at(2), Span::from_ms(2), HALF_LIFE);
        estimates.opened(at(10));
        let service = |ms| estimates.service(at(ms)).unwrap();
        assert_eq!(service(12), Span::from_ms(2));
        assert_eq!(service(10 + 18), Span::from_ms(4));
        assert!(service(1_010) > Span::from_ms(100));
        // It is not held against it for ever: maybe its client asks nothing.
        assert!(service(9_000) > Span::from_secs(1));
        assert_eq!(service(10_010), Span::from_ms(2));
        // And not at all if the client is known to.
        estimates.withdrawn();
        assert_eq!(estimates.service(at(1_010)), Some(Span::from_ms(2)));
    }

    #[test]
    fn a_failure_is_slow_however_fast_it_was() {
        let mut estimates = Estimates::default();
        estimates.opened(at(0));
        estimates.answered(at(2), Span::from_ms(2), HALF_LIFE);
        estimates.opened(at(3));
        estimates.failed(at(3), 0, HALF_LIFE);
        assert_eq!(estimates.service(at(3)), Some(PENALTY_MIN));
        assert_eq!(estimates.peak(at(3), HALF_LIFE), Some(PENALTY_MIN));
        for _ in 0..20 {
            estimates.failed(at(3), 0, HALF_LIFE);
        }
        assert_eq!(estimates.service(at(3)), Some(PENALTY_MAX));
        // It is believed to be as fast as the fastest after long enough.
        let believed = |s| estimates.service_for(Time::ZERO + Span::from_secs(s), Span::from_ms(2), HALF_LIFE).unwrap();
        assert!(believed(4) > Span::from_ms(500) && believed(20) < Span::from_ms(3));
    }
}
