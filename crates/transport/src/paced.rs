//! Numbered datagrams at an even pace, and what became of them: how fail-over is measured.
//!
//! Datagram n is due n intervals after the start, whatever happened to those before it: a sender that was late catches up. So the
//! number of a datagram says when it was sent, and the receiver needs no other clock than its own.

use std::ops::Range;

use machine::{Control, Span, Step, Time};
use serde::{Deserialize, Serialize};

use crate::seen::{Arrival, Seen};

/// How long senders go on after the measured time, so that what was sent at its end is followed by something.
pub const TAIL: Span = Span::from_ms(200);

/// When datagram `number` is due after the start.
///
/// # Panics
/// If the rate is zero.
pub fn due(rate_pps: u64, number: u64) -> Span {
    let ps = u128::from(number) * 1_000_000_000_000 / u128::from(rate_pps);
    Span::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
}

/// The first datagram that is due so long after the start, or later.
pub fn first_after(rate_pps: u64, time: Span) -> u64 {
    let number = (u128::from(time.as_ps()) * u128::from(rate_pps)).div_ceil(1_000_000_000_000);
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// What can happen to a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The application begins to send.
    Start,
}

/// A sender that sends one datagram after the other.
#[derive(Clone, Debug)]
pub struct Sender {
    rate_pps: u64,
    start: Option<Time>,
    next: u64,
}

impl Sender {
    /// A sender that has not started. A rate of zero counts as one.
    pub fn new(rate_pps: u64) -> Self {
        Self { rate_pps: rate_pps.max(1), start: None, next: 0 }
    }

    /// Datagrams sent so far.
    pub const fn sent(&self) -> u64 {
        self.next
    }
}

impl Control for Sender {
    type Input = Input;
    /// The datagram's number.
    type Output = u64;

    fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Start => self.start = self.start.or(Some(now)),
        }
    }

    fn poll(&mut self, now: Time) -> Step<u64> {
        let Some(start) = self.start else { return Step::Wait(Time::NEVER) };
        let due = start + due(self.rate_pps, self.next);
        if due > now {
            return Step::Wait(due);
        }
        let number = self.next;
        self.next += 1;
        Step::Do(number)
    }
}

/// What became of the datagrams that were sent in the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Outcome {
    /// How many that were.
    pub sent: u64,
    /// How many of them never came.
    pub lost: u64,
    /// Copies of what had come already.
    pub duplicates: u64,
    /// Those that came after one that was sent later (RFC 4737, type-P-reordered).
    pub reordered: u64,
    /// The longest time between two arrivals of something new. If nothing came any more, up to the end of the measured time.
    #[serde(rename = "longest-gap-ps", alias = "longest-gap")]
    pub longest_gap: Span,
}

/// A receiver that knows which datagrams are measured.
#[derive(Clone, Debug)]
pub struct Receiver {
    rate_pps: u64,
    measured: Range<u64>,
    seen: Seen,
    /// When something new came last.
    last: Option<Time>,
    /// Something has come that was sent after the measured time.
    closed: bool,
    arrived: u64,
    outcome: Outcome,
}

impl Receiver {
    /// A receiver for datagrams that come at this rate, of which those with numbers in `measured` count. A rate of zero counts as one.
    pub fn new(rate_pps: u64, measured: Range<u64>) -> Self {
        Self {
            rate_pps: rate_pps.max(1),
            measured,
            seen: Seen::new(),
            last: None,
            closed: false,
            arrived: 0,
            outcome: Outcome::default(),
        }
    }

    /// Datagram `number` has come.
    pub fn receive(&mut self, now: Time, number: u64) {
        let is_measured = self.measured.contains(&number);
        let arrival = self.seen.note(number);
        if arrival == Arrival::Again {
            self.outcome.duplicates += u64::from(is_measured);
            return;
        }
        self.arrived += u64::from(is_measured);
        self.outcome.reordered += u64::from(is_measured && arrival == Arrival::Late);
        if number >= self.measured.start && !self.closed {
            let gap = match self.last {
                Some(last) => now.since(last),
                None => self.between(self.measured.start, number),
            };
            self.outcome.longest_gap = self.outcome.longest_gap.max(gap);
            self.closed = number >= self.measured.end;
        }
        self.last = Some(now);
    }

    /// Whether something that was sent after the measured time has come.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Those of the measured time that came.
    pub const fn arrived(&self) -> u64 {
        self.arrived
    }

    /// What has become of the datagrams, if nothing comes any more.
    pub fn outcome(&self) -> Outcome {
        let sent = self.measured.end.saturating_sub(self.measured.start);
        let mut longest_gap = self.outcome.longest_gap;
        if !self.closed {
            let from = self.seen.highest().unwrap_or(0).max(self.measured.start);
            longest_gap = longest_gap.max(self.between(from, self.measured.end));
        }
        Outcome { sent, lost: sent.saturating_sub(self.arrived), longest_gap, ..self.outcome }
    }

    /// What lies between the sending of two datagrams; nothing if the second is not the later one.
    fn between(&self, first: u64, second: u64) -> Span {
        let span = due(self.rate_pps, second).as_ps().saturating_sub(due(self.rate_pps, first).as_ps());
        Span::from_ps(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The datagrams that a sender hands out up to `end`, with their times.
    fn sent(rate: u64, start: Time, end: Time) -> Vec<(Time, u64)> {
        let mut sender = Sender::new(rate);
        let mut all = Vec::new();
        assert_eq!(sender.poll(Time::ZERO), Step::Wait(Time::NEVER));
        sender.handle(start, Input::Start);
        let mut now = start;
        loop {
            match sender.poll(now) {
                Step::Do(number) => all.push((now, number)),
                Step::Wait(until) if until < end => now = until,
                Step::Wait(_) => return all,
            }
        }
    }

    #[test]
    fn the_pace_does_not_drift() {
        let all = sent(3, Time::from_ns(7), Time::ZERO + Span::from_secs(10));
        assert_eq!(all.len(), 30);
        assert_eq!(all[3].0, Time::from_ns(1_000_000_007));
        assert_eq!(all[29].0, Time::from_ns(7) + due(3, 29));
        // A sender that was held up catches up.
        let mut sender = Sender::new(10_000);
        sender.handle(Time::ZERO, Input::Start);
        let late = Time::from_ns(1_000_000);
        let burst = std::iter::from_fn(|| match sender.poll(late) {
            Step::Do(number) => Some(number),
            Step::Wait(_) => None,
        });
        assert_eq!(burst.collect::<Vec<_>>(), (0..=10).collect::<Vec<_>>());
    }

    #[test]
    fn numbers_and_times_belong_together() {
        for rate in [1, 3, 7, 10_000, 999_983] {
            for number in [0, 1, 2, 1_000, 123_456] {
                assert_eq!(first_after(rate, due(rate, number) + Span::from_ps(1)), number + 1, "{rate} {number}");
            }
        }
        assert_eq!(first_after(10_000, Span::from_secs(1)), 10_000);
    }

    #[test]
    fn loss_duplicates_order_and_gaps_are_seen() {
        let mut receiver = Receiver::new(10_000, 100..1_100);
        for (time, number) in sent(10_000, Time::ZERO, Time::ZERO + Span::from_ms(120)) {
            let at = time + Span::from_us(30);
            match number {
                // Lost: two of the measured ones in a row, and one before. 700 comes late.
                50 | 500 | 501 | 700 => {}
                701 => {
                    receiver.receive(at, 701);
                    receiver.receive(at, 700);
                }
                // Before the measured time nothing counts.
                60 | 800 => {
                    receiver.receive(at, number);
                    receiver.receive(at, number);
                }
                number => receiver.receive(at, number),
            }
        }
        let expected = Outcome { sent: 1_000, lost: 2, duplicates: 1, reordered: 1, longest_gap: Span::from_us(300) };
        assert!(receiver.is_closed());
        assert_eq!(receiver.outcome(), expected);
    }

    #[test]
    fn silence_to_the_end_is_a_gap() {
        let mut receiver = Receiver::new(1_000, 0..1_000);
        assert_eq!(receiver.outcome().longest_gap, Span::from_secs(1));
        for number in 0..250 {
            receiver.receive(Time::ZERO + Span::from_ms(number), number);
        }
        let outcome = receiver.outcome();
        assert_eq!((outcome.lost, outcome.longest_gap), (750, Span::from_ms(751)));
        // Silence at the beginning is one, too.
        let mut receiver = Receiver::new(1_000, 0..1_000);
        (400..1_001).for_each(|number| receiver.receive(Time::ZERO + Span::from_ms(number), number));
        let outcome = receiver.outcome();
        assert_eq!((outcome.lost, outcome.longest_gap), (400, Span::from_ms(400)));
    }

    proptest! {
        #[test]
        fn whatever_order_they_come_in_each_is_counted_once(
            mut numbers in Just((0..2_000_u64).collect::<Vec<_>>()).prop_shuffle(), again in 0_usize..500, lost in 0_usize..500,
        ) {
            let copies = numbers[..again].to_vec();
            numbers.truncate(2_000 - lost);
            let copies: Vec<u64> = copies.into_iter().filter(|copy| numbers.contains(copy)).collect();
            let mut receiver = Receiver::new(10_000, 0..2_000);
            for (at, number) in numbers.iter().chain(&copies).enumerate() {
                receiver.receive(Time::from_ns(at as u64), *number);
            }
            let outcome = receiver.outcome();
            prop_assert_eq!((outcome.lost, outcome.duplicates), (lost as u64, copies.len() as u64));
        }

        #[test]
        fn any_numbers_are_taken(numbers in proptest::collection::vec(any::<u64>(), 0..200), rate: u64, measured: Range<u64>) {
            let mut receiver = Receiver::new(rate, measured);
            for (at, number) in numbers.into_iter().enumerate() {
                receiver.receive(Time::from_ns(at as u64), number);
            }
            let outcome = receiver.outcome();
            prop_assert!(outcome.lost <= outcome.sent);
        }
    }
}
