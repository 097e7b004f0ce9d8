//! Messages as fast as credit for them comes back: a load that fills what carries it and is not dropped before it gets there.
//!
//! On a network card a socket's buffer is the brake of UDP: a packet counts until it has left. Linux's TAP takes that count
//! away as soon as a packet is queued for the program behind it (`skb_orphan` in `tun_net_xmit`), so a sender would run as
//! fast as its processor does, and most of it would be dropped there. Here the receiver says which messages have come, and a sender has
//! no more than a *window* of them under way. What holds it back is what it was to measure: the slowest link.
//!
//! Credit is cumulative and names the highest message that came, so what is lost on the way costs no credit once something later comes.
//! If nothing comes for a retransmission timeout's time (RFC 6298), all that is under way counts as lost. Nothing is sent again.
//!
//! Simulated hosts fill a network by the same machines.

use std::collections::VecDeque;
use std::ops::Range;

use machine::{Control, Span, Step, Time};

use crate::rto::Rto;
use crate::seen::{Arrival, Seen};
use crate::udp::FRAGMENTS;

/// Packets that may be under way at most: half of what a TAP's ring holds in live networks, since credit may be late.
const PACKETS: u32 = 2_048;
/// Bytes of a frame with credit: two numbers behind the headers of Ethernet, IPv4 and UDP.
pub const CREDIT_BYTES: u32 = 16 + 42;
/// The most messages under way.
pub const WINDOW_MAX: u32 = 4_096;
/// The least time after which messages under way count as lost: far longer than programs wait for their turn, since what was only late
/// would then be under way twice and overflow what a window fits into. Linux's TCP waits as long.
const PATIENCE: Span = Span::from_ms(200);
/// How far the next message may be ahead of what came, where several windows were lost in between.
const FARTHEST: u64 = 16 * WINDOW_MAX as u64;
/// Credit is sent so many times a window.
const CREDITS_A_WINDOW: u32 = 8;

/// Messages of a stream that are under way where so many streams leave one host or come to one: together they fit into the shortest queue, so that the
/// hosts' own links drop none of them. One at least: of very many streams some may be dropped, and of those that meet in the middle of a network.
/// `queues`: of all links, in packets.
pub fn window(queues: impl IntoIterator<Item = u32>, streams_a_host: u32) -> u32 {
    let messages = queues.into_iter().fold(PACKETS, u32::min) / FRAGMENTS;
    (messages / streams_a_host.max(1)).clamp(1, WINDOW_MAX)
}

/// What can happen to a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The application begins to send.
    Start,
    /// All messages before this number have come, or will not come any more.
    Credit(u64),
}

/// A sender that always has another message.
#[derive(Clone, Debug)]
pub struct Sender {
    started: bool,
    window: u64,
    /// The next message.
    next: u64,
    /// Messages before this one are not under way any more.
    credited: u64,
    /// When those that are were sent.
    sent_at: VecDeque<Time>,
    rto: Rto,
    /// When they count as lost.
    deadline: Time,
}

impl Sender {
    /// A sender that has not started, with so many messages under way: one at least, [`WINDOW_MAX`] at most.
    pub fn new(window: u32) -> Self {
        let window = window.clamp(1, WINDOW_MAX);
        let sent_at = VecDeque::with_capacity(window as usize);
        let rto = Rto::new(PATIENCE);
        Self { started: false, window: window.into(), next: 0, credited: 0, sent_at, rto, deadline: Time::NEVER }
    }

    /// Messages sent so far.
    pub const fn sent(&self) -> u64 {
        self.next
    }

    fn credit(&mut self, now: Time, number: u64) {
        // Credit for what was never sent is somebody else's; old credit says nothing new.
        if number <= self.credited || number > self.next {
            return;
        }
        let mut last = None;
        for _ in self.credited..number {
            last = self.sent_at.pop_front();
        }
        if let Some(sent_at) = last {
            self.rto.sample(now.since(sent_at));
        }
        self.credited = number;
        self.deadline = now + self.rto.get();
    }
}

impl Control for Sender {
    type Input = Input;
    /// The message's number.
    type Output = u64;

    fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Start => self.started = true,
            Input::Credit(number) => self.credit(now, number),
        }
    }

    fn poll(&mut self, now: Time) -> Step<u64> {
        if !self.started {
            return Step::Wait(Time::NEVER);
        }
        let is_full = self.next - self.credited >= self.window;
        if is_full && now < self.deadline {
            return Step::Wait(self.deadline);
        }
        if is_full {
            self.credited = self.next;
            self.sent_at.clear();
            self.rto.back_off();
        }
        if self.sent_at.is_empty() {
            self.deadline = now + self.rto.get();
        }
        let number = self.next;
        self.next += 1;
        self.sent_at.push_back(now);
        Step::Do(number)
    }
}

/// A receiver that counts what comes in a measured time, and gives credit.
#[derive(Clone, Debug)]
pub struct Receiver {
    measured: Range<Time>,
    seen: Seen,
    /// Messages from one credit to the next.
    every: u64,
    /// The last credit given.
    granted: u64,
    messages: u64,
    copies: u64,
}

impl Receiver {
    /// A receiver that counts from the one time up to the other, for a sender with that window.
    pub fn new(measured: Range<Time>, window: u32) -> Self {
        let every = u64::from((window / CREDITS_A_WINDOW).max(1));
        Self { measured, seen: Seen::new(), every, granted: 0, messages: 0, copies: 0 }
    }

    /// Message `number` has come. The credit to send back, if it is time. A number that no sender can have reached is somebody else's.
    pub fn receive(&mut self, now: Time, number: u64) -> Option<u64> {
        let next = self.seen.highest().map_or(0, |highest| highest + 1);
        if number >= next.saturating_add(FARTHEST) {
            return None;
        }
        let is_new = self.seen.note(number) != Arrival::Again;
        if self.measured.contains(&now) {
            self.messages += u64::from(is_new);
            self.copies += u64::from(!is_new);
        }
        let credit = self.seen.highest()?.saturating_add(1);
        let is_due = credit.saturating_sub(self.granted) >= self.every;
        is_due.then(|| {
            self.granted = credit;
            credit
        })
    }

    /// Messages that came in the measured time, each once.
    pub const fn messages(&self) -> u64 {
        self.messages
    }

    /// What came in the measured time and had come before.
    pub const fn copies(&self) -> u64 {
        self.copies
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    fn burst(sender: &mut Sender, now: Time) -> Vec<u64> {
        std::iter::from_fn(|| match sender.poll(now) {
            Step::Do(number) => Some(number),
            Step::Wait(_) => None,
        })
        .collect()
    }

    #[test]
    fn no_more_than_a_window_is_under_way() {
        let mut sender = Sender::new(4);
        assert_eq!(sender.poll(Time::ZERO), Step::Wait(Time::NEVER));
        sender.handle(Time::ZERO, Input::Start);
        assert_eq!(burst(&mut sender, Time::ZERO), [0, 1, 2, 3]);
        sender.handle(ms(1), Input::Credit(3));
        assert_eq!(burst(&mut sender, ms(1)), [4, 5, 6]);
        // Old credit, and credit for what was never sent, are none.
        sender.handle(ms(2), Input::Credit(2));
        sender.handle(ms(2), Input::Credit(8));
        assert_eq!(burst(&mut sender, ms(2)), [0_u64; 0]);
        sender.handle(ms(2), Input::Credit(7));
        assert_eq!(burst(&mut sender, ms(2)), [7, 8, 9, 10]);
    }

    #[test]
    fn a_window_fits_into_the_shortest_queue_with_all_beside_it() {
        assert_eq!([1, 5, 22, 64].map(|streams| window([2_000, 250], streams)), [22, 4, 1, 1]);
        assert_eq!((window([], 1), window([1], 0)), (186, 1));
    }

    #[test]
    fn what_gets_no_credit_in_time_is_lost() {
        let mut sender = Sender::new(2);
        sender.handle(Time::ZERO, Input::Start);
        assert_eq!(burst(&mut sender, Time::ZERO), [0, 1]);
        // No round trip was measured yet: a second (RFC 6298, 2.1).
        assert_eq!(sender.poll(ms(999)), Step::Wait(ms(1_000)));
        assert_eq!(burst(&mut sender, ms(1_000)), [2, 3]);
        sender.handle(ms(1_001), Input::Credit(4));
        assert_eq!(burst(&mut sender, ms(1_001)), [4, 5]);
        assert_eq!(sender.poll(ms(1_001)), Step::Wait(ms(1_001) + PATIENCE));
    }

    #[test]
    fn the_measured_time_is_what_counts() {
        let mut receiver = Receiver::new(ms(10)..ms(20), 1);
        for (at, number) in [(9, 0), (10, 1), (12, 3), (13, 2), (14, 2), (19, 4), (20, 5)] {
            let highest = if number == 2 { 3 } else { number };
            let credit = receiver.receive(ms(at), number);
            assert_eq!(credit, (number != 2).then_some(highest + 1), "{number}");
        }
        assert_eq!((receiver.messages(), receiver.copies()), (4, 1));
    }

    #[test]
    fn a_number_out_of_reach_is_ignored() {
        let mut receiver = Receiver::new(ms(0)..ms(9), 8);
        for number in [u64::MAX, u64::MAX - 1, FARTHEST] {
            assert_eq!(receiver.receive(ms(1), number), None);
        }
        assert_eq!((receiver.receive(ms(1), 0), receiver.receive(ms(1), FARTHEST)), (Some(1), Some(FARTHEST + 1)));
        assert_eq!(receiver.messages(), 2);
    }

    #[test]
    fn credit_comes_some_times_a_window() {
        let mut receiver = Receiver::new(ms(0)..ms(9), 32);
        let credits: Vec<u64> = (0..16).filter_map(|number| receiver.receive(ms(1), number)).collect();
        assert_eq!(credits, [4, 8, 12, 16]);
    }

    proptest! {
        /// Whatever is lost, it goes on, and never has more than its window under way.
        #[test]
        fn losses_do_not_stop_it(lost in proptest::collection::vec(any::<bool>(), 400), window in 1_u32..40) {
            let mut sender = Sender::new(window);
            let mut receiver = Receiver::new(Time::ZERO..Time::NEVER, window);
            sender.handle(Time::ZERO, Input::Start);
            let (mut now, mut came) = (Time::ZERO, 0);
            while sender.sent() < 400 {
                match sender.poll(now) {
                    Step::Wait(until) => {
                        prop_assert!(until > now && until < Time::NEVER);
                        now = until;
                    }
                    Step::Do(number) => {
                        now += Span::from_us(10);
                        if !lost[number as usize] {
                            came += 1;
                            if let Some(credit) = receiver.receive(now, number) {
                                sender.handle(now, Input::Credit(credit));
                            }
                        }
                    }
                }
                prop_assert!(sender.sent_at.len() <= window as usize);
            }
            prop_assert_eq!(receiver.messages(), came);
        }

        #[test]
        fn any_numbers_are_taken(numbers in proptest::collection::vec(any::<u64>(), 0..200)) {
            let mut receiver = Receiver::new(Time::ZERO..Time::NEVER, 8);
            let mut sender = Sender::new(8);
            sender.handle(Time::ZERO, Input::Start);
            for number in numbers {
                let _ = receiver.receive(Time::ZERO, number);
                sender.handle(Time::ZERO, Input::Credit(number));
                let _ = sender.poll(Time::ZERO);
            }
        }
    }
}
