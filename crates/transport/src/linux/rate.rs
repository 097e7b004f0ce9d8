//! At which rate segments are delivered: one sample an acknowledgement (`tcp_rate.c`; draft-cheng-iccrg-delivery-rate-estimation).
//!
//! A sample is what was delivered while the segment that is acknowledged was under way, over the time that this took: by the sending or by the acknowledging of
//! it, whichever was longer.

use machine::{Span, Time};

use super::queue::Sent;

/// Segments that have a place from the beginning.
const PLACES: usize = 64;

/// What was known when a segment was sent.
#[derive(Clone, Copy, Debug)]
struct Origin {
    /// When the segment was sent that had been acknowledged last, and when it had been.
    sent_at: Time,
    delivered_at: Time,
    /// How much had been delivered.
    delivered: u32,
    is_app_limited: bool,
    /// Its delivery has been counted.
    is_done: bool,
}

impl Origin {
    const UNUSED: Self =
        Self { sent_at: Time::ZERO, delivered_at: Time::ZERO, delivered: 0, is_app_limited: false, is_done: true };
}

/// What an acknowledgement says about the rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// How much had been delivered when the segment was sent, how much has been since, and over which time; `None`: nothing is known.
    pub interval: Option<Interval>,
    /// Whether the sender kept from sending for another reason than the network.
    pub is_app_limited: bool,
    /// Segments that the acknowledgement says have arrived, and that were found lost by it.
    pub acked: u32,
    pub lost: u32,
    /// What was in flight before it.
    pub prior_in_flight: u32,
    /// The round trip of the last of them.
    pub rtt: Option<Span>,
}

/// The time over which a sample was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub prior_delivered: u32,
    pub delivered: u32,
    pub span: Span,
}

/// What rates are measured with.
#[derive(Clone, Debug)]
pub(super) struct Rate {
    /// By the number of the segment.
    origins: Box<[Origin]>,
    /// When the segment was sent that is known to have arrived last (`first_tx_mstamp`), and when that was known (`delivered_mstamp`).
    sent_at: Time,
    pub delivered_at: Time,
    /// Until more than this is delivered, samples say nothing about the network.
    app_limited: Option<u32>,
    /// The segment that was sent last of those that this acknowledgement is for: how it was sent, when, and behind which segment.
    latest: Option<(Origin, Time, u64)>,
}

impl Rate {
    pub fn new(now: Time) -> Self {
        Self {
            origins: vec![Origin::UNUSED; PLACES].into(),
            sent_at: now,
            delivered_at: now,
            app_limited: None,
            latest: None,
        }
    }

    const fn place(&self, segment: u64) -> usize {
        (segment & (self.origins.len() as u64 - 1)) as usize
    }

    /// A segment is sent (`tcp_rate_skb_sent`). `first`: the first that is not acknowledged; `delivered`: how much has been; `idle`: nothing was in flight.
    pub fn on_sent(&mut self, now: Time, segment: u64, (first, delivered, idle): (u64, u32, bool)) {
        if idle {
            (self.sent_at, self.delivered_at) = (now, now);
        }
        while segment - first >= self.origins.len() as u64 {
            self.grow(first);
        }
        let place = self.place(segment);
        self.origins[place] = Origin {
            sent_at: self.sent_at,
            delivered_at: self.delivered_at,
            delivered,
            is_app_limited: self.app_limited.is_some(),
            is_done: false,
        };
    }

    #[cold]
    fn grow(&mut self, first: u64) {
        let old = core::mem::take(&mut self.origins);
        self.origins = vec![Origin::UNUSED; old.len() * 2].into();
        for segment in first..first + old.len() as u64 {
            let place = self.place(segment);
            self.origins[place] = old[(segment & (old.len() as u64 - 1)) as usize];
        }
    }

    /// A segment has arrived (`tcp_rate_skb_delivered`).
    pub fn on_delivered(&mut self, segment: u64, sent: &Sent) {
        let place = self.place(segment);
        let origin = self.origins[place];
        if origin.is_done {
            return;
        }
        self.origins[place].is_done = true;
        let is_later = |&(_, at, behind): &(Origin, Time, u64)| (sent.at, segment + 1) > (at, behind);
        if self.latest.as_ref().is_none_or(is_later) {
            self.latest = Some((origin, sent.at, segment + 1));
            self.sent_at = sent.at;
        }
    }

    /// All that the acknowledgement says has been counted (`tcp_rate_gen`). Fills in what is known of the interval.
    pub fn finish(&mut self, now: Time, delivered: u32, shortest_rtt: Span, sample: &mut Sample) {
        if self.app_limited.is_some_and(|until| delivered.wrapping_sub(until).cast_signed() > 0) {
            self.app_limited = None;
        }
        if sample.acked > 0 {
            self.delivered_at = now;
        }
        let Some((origin, sent_at, _)) = self.latest.take() else { return };
        sample.is_app_limited = origin.is_app_limited;
        let span = sent_at.since(origin.sent_at).max(now.since(origin.delivered_at));
        // What came sooner than anything can answers an earlier copy.
        if span >= shortest_rtt {
            let prior_delivered = origin.delivered;
            sample.interval =
                Some(Interval { prior_delivered, delivered: delivered.wrapping_sub(prior_delivered), span });
        }
    }

    /// The sender keeps from sending for a reason of its own; so much is in flight.
    pub const fn limit_by_app(&mut self, delivered: u32, in_flight: u32) {
        self.app_limited = Some(delivered.wrapping_add(in_flight));
    }
}

/// The largest of the values of a window, by the three best candidates (Kathleen Nichols' filter, `lib/win_minmax.c`). Times are counts that wrap.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxFilter([(u32, u64); 3]);

impl MaxFilter {
    pub const fn get(&self) -> u64 {
        self.0[0].1
    }

    pub fn update(&mut self, window: u32, time: u32, value: u64) {
        let sample = (time, value);
        if value >= self.0[0].1 || time.wrapping_sub(self.0[2].0) > window {
            self.0 = [sample; 3];
            return;
        }
        if value >= self.0[1].1 {
            (self.0[1], self.0[2]) = (sample, sample);
        } else if value >= self.0[2].1 {
            self.0[2] = sample;
        }
        let age = time.wrapping_sub(self.0[0].0);
        if age > window {
            // The best is too old; so may the second be.
            for _ in 0..2 {
                if time.wrapping_sub(self.0[0].0) > window {
                    self.0 = [self.0[1], self.0[2], sample];
                }
            }
        } else if self.0[1].0 == self.0[0].0 && age > window / 4 {
            (self.0[1], self.0[2]) = (sample, sample);
        } else if self.0[2].0 == self.0[1].0 && age > window / 2 {
            self.0[2] = sample;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::queue::Queue;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    const NOTHING: Sample =
        Sample { interval: None, is_app_limited: false, acked: 1, lost: 0, prior_in_flight: 0, rtt: None };

    /// Ten segments, one a millisecond, each acknowledged after ten.
    #[test]
    fn what_is_delivered_in_a_round_trip_is_its_rate() {
        let (mut rate, mut queue) = (Rate::new(Time::ZERO), Queue::new());
        let mut delivered = 0;
        for n in 0..100_u64 {
            if n >= 10 {
                let segment = n - 10;
                rate.on_delivered(segment, queue.get(segment));
                queue.pop();
                delivered += 1;
                let mut sample = NOTHING;
                rate.finish(ms(n), delivered, Span::from_ms(10), &mut sample);
                let interval = sample.interval.unwrap();
                if n > 20 {
                    assert_eq!((interval.delivered, interval.span), (10, Span::from_ms(10)), "{n}");
                }
            }
            let idle = queue.len() == 0;
            let segment = queue.push(ms(n), delivered);
            rate.on_sent(ms(n), segment, (queue.first(), delivered, idle));
        }
    }

    #[test]
    fn what_comes_together_was_not_delivered_faster_than_it_was_sent() {
        let (mut rate, mut queue) = (Rate::new(Time::ZERO), Queue::new());
        for n in 0..200_u64 {
            let segment = queue.push(ms(n), 0);
            rate.on_sent(ms(n), segment, (0, 0, n == 0));
        }
        (0..200).for_each(|segment| rate.on_delivered(segment, queue.get(segment)));
        let mut sample = NOTHING;
        rate.finish(ms(209), 200, Span::from_ms(10), &mut sample);
        let span = Span::from_ms(209);
        assert_eq!(sample.interval, Some(Interval { prior_delivered: 0, delivered: 200, span }));
        let mut again = NOTHING;
        rate.on_delivered(3, queue.get(3));
        rate.finish(ms(210), 200, Span::from_ms(10), &mut again);
        assert_eq!(again.interval, None, "it was counted");
    }

    #[test]
    fn the_largest_of_the_window_is_kept() {
        let mut filter = MaxFilter::default();
        let mut values: Vec<u64> = Vec::new();
        let mut value = 17_u64;
        for time in 0..400_u32 {
            value = value * 1_103_515_245 % 1_000_003;
            values.push(value % 1_000);
            filter.update(10, time, value % 1_000);
            let window = &values[values.len().saturating_sub(11)..];
            let largest = *window.iter().max().unwrap();
            assert!(filter.get() <= largest && filter.get() * 3 >= largest, "{time}: {} of {largest}", filter.get());
        }
    }
}
