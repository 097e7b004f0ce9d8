//! What was asked and answered: pure, the time is an argument.

use std::collections::{BTreeMap, VecDeque};

use machine::{Span, Time};

/// How long the next question waits for the answer to the last one. An answer still counts when it comes later.
pub const SLOT: Span = Span::from_ms(50);

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

/// One host's questions. They are numbered, whomever they are for.
#[derive(Debug)]
pub struct Asker {
    tallies: Vec<Tally>,
    next: u32,
    /// Questions without an answer, by number: whom they are for, and when they were sent.
    open: BTreeMap<u32, (usize, Time)>,
    last_sent: Time,
    /// Those that were asked last, and how many of them the kernel may remember.
    lately: VecDeque<usize>,
    remembered_max: usize,
}

impl Asker {
    /// For so many destinations, of which the kernel may remember so many at one time.
    pub fn new(destinations: usize, remembered_max: usize) -> Self {
        Self {
            tallies: vec![Tally::default(); destinations],
            next: 0,
            open: BTreeMap::new(),
            last_sent: Time::ZERO,
            lately: VecDeque::new(),
            remembered_max,
        }
    }

    /// A question to a destination is sent now: its number, and whom the kernel may forget before.
    pub fn ask(&mut self, now: Time, destination: usize) -> (u32, Option<usize>) {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.tallies[destination].sent += 1;
        self.open.insert(number, (destination, now));
        self.last_sent = now;
        self.lately.retain(|other| *other != destination);
        self.lately.push_back(destination);
        let forgotten = if self.lately.len() > self.remembered_max { self.lately.pop_front() } else { None };
        (number, forgotten)
    }

    /// The question with this number was answered. It was asked, and not answered yet, or it counts for nothing.
    pub fn answered(&mut self, now: Time, number: u32) {
        let Some((destination, sent)) = self.open.remove(&number) else { return };
        let rtt = now.since(sent);
        let tally = &mut self.tallies[destination];
        tally.min = if tally.received == 0 { rtt } else { tally.min.min(rtt) };
        tally.max = tally.max.max(rtt);
        tally.total = tally.total + rtt;
        tally.received += 1;
    }

    /// There will be no answer to this question: its destination, if it waits for one.
    pub fn failed(&mut self, number: u32) -> Option<usize> {
        self.open.remove(&number).map(|(destination, _)| destination)
    }

    /// The question without an answer whose number ends in these 16 bits; of several, the youngest.
    pub fn open_question(&self, low: u16) -> Option<u32> {
        self.open.keys().rev().copied().find(|number| *number as u16 == low)
    }

    /// Until when the next question has to wait for the answer to the last one; `None`: it has not.
    pub fn busy_until(&self, now: Time) -> Option<Time> {
        let is_open = self.next > 0 && self.open.contains_key(&(self.next - 1));
        let until = self.last_sent + SLOT;
        (is_open && now < until).then_some(until)
    }

    /// Until when answers are waited for when nothing more is asked; `None`: no longer.
    pub fn open_until(&self, now: Time, patience: Span) -> Option<Time> {
        let until = self.last_sent + patience;
        (!self.open.is_empty() && now < until).then_some(until)
    }

    /// Whom the kernel may forget when nothing more is asked: all of those that it still remembers, unless it has room for every destination.
    pub fn left_over(&self) -> impl Iterator<Item = usize> {
        let has_room = self.tallies.len() <= self.remembered_max;
        self.lately.iter().copied().filter(move |_| !has_room)
    }

    /// What has come, by destination.
    pub fn tallies(&self) -> &[Tally] {
        &self.tallies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    #[test]
    fn the_next_question_waits_for_an_answer_but_not_for_long() {
        let mut asker = Asker::new(2, 9);
        assert_eq!(asker.busy_until(at(0)), None);
        assert_eq!(asker.ask(at(0), 1), (0, None));
        assert_eq!(asker.busy_until(at(1)), Some(at(50)));
        assert_eq!(asker.busy_until(at(50)), None, "an answer that takes longer holds up nobody");
        assert_eq!(asker.ask(at(60), 0), (1, None));
        asker.answered(at(61), 1);
        assert_eq!(asker.busy_until(at(61)), None);
        assert_eq!(asker.open_until(at(61), Span::from_secs(2)), Some(at(2_060)));
        asker.answered(at(900), 0);
        assert_eq!(asker.open_until(at(901), Span::from_secs(2)), None);
        let expected =
            Tally { sent: 1, received: 1, min: Span::from_ms(900), max: Span::from_ms(900), total: Span::from_ms(900) };
        assert_eq!(asker.tallies()[1], expected);
    }

    #[test]
    fn an_answer_counts_once() {
        let mut asker = Asker::new(1, 9);
        for ms in [1, 2, 3] {
            asker.ask(at(0), 0);
            asker.answered(at(ms), (ms - 1) as u32);
            asker.answered(at(9), (ms - 1) as u32);
        }
        asker.answered(at(9), 77);
        let [one, two, three] = [1, 2, 3].map(Span::from_ms);
        assert_eq!(asker.tallies()[0], Tally { sent: 3, received: 3, min: one, max: three, total: one + two + three });
        asker.ask(at(10), 0);
        assert_eq!((asker.open_question(3), asker.open_question(2)), (Some(3), None));
        assert_eq!((asker.failed(3), asker.failed(3)), (Some(0), None));
    }

    #[test]
    fn those_that_were_asked_last_are_remembered() {
        let mut asker = Asker::new(4, 2);
        let forgotten = [0, 1, 1, 2, 3, 2].map(|destination| asker.ask(at(0), destination).1);
        assert_eq!(forgotten, [None, None, None, Some(0), Some(1), None]);
        assert_eq!(asker.left_over().collect::<Vec<_>>(), [3, 2]);
        let mut roomy = Asker::new(2, 2);
        roomy.ask(at(0), 0);
        assert_eq!(roomy.left_over().next(), None);
    }
}
