//! When which destination is asked, and what has come of it: pure, the time is an argument.
//!
//! Destinations are asked one after the other, again and again (*passes*). Only a few questions wait for an answer at one time, so that no queue overflows; but
//! one that waits for long counts no more, so that the dead hold up nobody.

use std::collections::BTreeMap;

use machine::{Span, Step, Time};

/// How many questions wait for an answer at one time.
const WINDOW: usize = 4;

/// How long one counts as waiting. An answer still counts when it comes later.
const SLOT: Span = Span::from_ms(50);

/// What of the destinations is asked, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How often each is asked.
    pub count: u32,
    /// From the beginning of a pass to that of the next one, at least.
    pub interval: Span,
    /// How long the last answers are waited for.
    pub patience: Span,
}

/// What has come of one destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often it was asked.
    pub sent: u32,
    /// How often it has answered.
    pub received: u32,
    /// The shortest round-trip time.
    pub min: Span,
    /// The longest one.
    pub max: Span,
    /// All of them together.
    pub total: Span,
}

/// Who is asked when.
#[derive(Debug)]
pub struct Schedule {
    pace: Pace,
    tallies: Vec<Tally>,
    /// The next question: the number of its pass times that of the destinations, plus the destination.
    next: u32,
    pass_began: Time,
    last_sent: Time,
    /// Questions without an answer, by number: when they were sent.
    open: BTreeMap<u32, Time>,
}

impl Schedule {
    /// Asks so many destinations.
    pub fn new(destinations: usize, pace: Pace) -> Self {
        let tallies = vec![Tally::default(); destinations];
        Self { pace, tallies, next: 0, pass_began: Time::ZERO, last_sent: Time::ZERO, open: BTreeMap::new() }
    }

    /// The question to ask now, by number; or when to look again; `Wait(Time::NEVER)`: it is over.
    pub fn poll(&self, now: Time) -> Step<u32> {
        if u64::from(self.next) >= self.tallies.len() as u64 * u64::from(self.pace.count) {
            let end = self.last_sent + self.pace.patience;
            return Step::Wait(if self.open.is_empty() || now >= end { Time::NEVER } else { end });
        }
        let begins_pass = self.next > 0 && self.destination(self.next) == 0;
        if begins_pass && now < self.pass_began + self.pace.interval {
            return Step::Wait(self.pass_began + self.pace.interval);
        }
        let young = self.open.values().rev().take_while(|sent| now < **sent + SLOT);
        match young.take(WINDOW).enumerate().last() {
            Some((at, oldest)) if at + 1 == WINDOW => Step::Wait(*oldest + SLOT),
            _ => Step::Do(self.next),
        }
    }

    /// The question with this number was sent.
    pub fn sent(&mut self, now: Time, number: u32) {
        let destination = self.destination(number);
        if destination == 0 {
            self.pass_began = now;
        }
        self.tallies[destination].sent += 1;
        self.open.insert(number, now);
        self.last_sent = now;
        self.next = number + 1;
    }

    /// The question with this number was answered. It was asked, and not answered yet, or it counts for nothing.
    pub fn answered(&mut self, now: Time, number: u32) {
        let Some(sent) = self.open.remove(&number) else { return };
        let (rtt, destination) = (now.since(sent), self.destination(number));
        let tally = &mut self.tallies[destination];
        tally.min = if tally.received == 0 { rtt } else { tally.min.min(rtt) };
        tally.max = tally.max.max(rtt);
        tally.total = tally.total + rtt;
        tally.received += 1;
    }

    /// Somebody on the way says that there will be no answer to this question: its destination, if it waits for one.
    pub fn failed(&mut self, number: u32) -> Option<usize> {
        self.open.remove(&number).map(|_| self.destination(number))
    }

    /// The question without an answer whose number ends in these 16 bits; of several, the youngest.
    pub fn open_question(&self, low: u16) -> Option<u32> {
        self.open.keys().rev().copied().find(|number| *number as u16 == low)
    }

    /// Whom a question is for.
    pub fn destination(&self, number: u32) -> usize {
        number as usize % self.tallies.len().max(1)
    }

    /// What has come, by destination.
    pub fn tallies(&self) -> &[Tally] {
        &self.tallies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { count: 2, interval: Span::from_ms(200), patience: Span::from_secs(2) };

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    #[test]
    fn who_answers_is_asked_at_once_and_again_in_the_next_pass() {
        let mut schedule = Schedule::new(10, PACE);
        for number in 0..10 {
            assert_eq!(schedule.poll(at(1)), Step::Do(number));
            schedule.sent(at(1), number);
            schedule.answered(at(2), number);
        }
        assert_eq!(schedule.poll(at(2)), Step::Wait(at(201)));
        for number in 10..20 {
            assert_eq!(schedule.poll(at(201)), Step::Do(number));
            schedule.sent(at(201), number);
            schedule.answered(at(204), number);
        }
        assert_eq!(schedule.poll(at(204)), Step::Wait(Time::NEVER), "nobody is waited for");
        let [one, three] = [1, 3].map(Span::from_ms);
        let expected = Tally { sent: 2, received: 2, min: one, max: three, total: one + three };
        assert!(schedule.tallies().iter().all(|tally| *tally == expected), "{:?}", schedule.tallies());
    }

    #[test]
    fn the_dead_hold_up_nobody_for_long() {
        let mut schedule = Schedule::new(100, Pace { count: 1, ..PACE });
        let mut now = Time::ZERO;
        loop {
            match schedule.poll(now) {
                Step::Do(number) => schedule.sent(now, number),
                Step::Wait(Time::NEVER) => break,
                Step::Wait(until) => now = until,
            }
        }
        // 25 times four, 50 ms each; then the last ones have two seconds.
        assert_eq!(now, at(24 * 50 + 2_000));
        assert!(schedule.tallies().iter().all(|tally| (tally.sent, tally.received) == (1, 0)));
    }

    #[test]
    fn an_answer_counts_once_and_late_ones_count() {
        let mut schedule = Schedule::new(2, Pace { count: 1, ..PACE });
        schedule.sent(at(0), 0);
        schedule.sent(at(0), 1);
        schedule.answered(at(900), 0);
        schedule.answered(at(901), 0);
        schedule.answered(at(901), 7);
        assert_eq!(schedule.tallies()[0].received, 1);
        assert_eq!(schedule.open_question(1), Some(1));
        assert_eq!((schedule.failed(1), schedule.failed(1), schedule.open_question(1)), (Some(1), None, None));
        assert_eq!(schedule.poll(at(902)), Step::Wait(Time::NEVER));
    }
}
