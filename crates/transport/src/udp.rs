//! UDP as a load: messages of several fragments, as fast as a socket buffer lets them leave.
//!
//! A message is cut into IP fragments of [`crate::TransportSpec::segment_bytes`]; one that is lost makes the whole message
//! worthless. The sender writes the next message when what has not left the host yet is less than its socket buffer, as
//! Linux's `sock_alloc_send_skb` does: so the link's rate is the only brake, and nothing is dropped in the host itself.

use machine::{Control, Step, Time};

/// Fragments of a message: 11 of 1,460 bytes are the 16,060 bytes that netperf's `UDP_STREAM` was run with in published
/// measurements of bonded links.
pub const FRAGMENTS: u32 = 11;

/// Messages of which fragments may be missing at a receiver while later ones complete; what is older is given up. Linux keeps
/// 4 MiB of fragments (`ipfrag_high_thresh`), some 250 such messages.
pub const REASSEMBLED_MAX: usize = 256;

/// One IP fragment of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Number of the message, from 0.
    pub message: u64,
    /// Its number among the [`FRAGMENTS`].
    pub index: u32,
}

impl Fragment {
    /// As one number: fragments of a flow in the order in which they were sent.
    pub const fn number(self) -> u64 {
        self.message * FRAGMENTS as u64 + self.index as u64
    }

    /// The reverse of [`Fragment::number`].
    pub const fn of(number: u64) -> Self {
        Self { message: number / FRAGMENTS as u64, index: (number % FRAGMENTS as u64) as u32 }
    }
}

/// What can happen to a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The application begins to send.
    Start,
    /// A fragment has left the host, or was dropped in it: its buffer is free.
    Left,
}

/// A sender that always has another message.
#[derive(Clone, Debug)]
pub struct Sender {
    started: bool,
    /// Fragments that fit into the socket buffer.
    buffer: u32,
    /// Fragments that have not left yet.
    waiting: u32,
    /// The next one to send.
    next: u64,
}

impl Sender {
    /// A sender that has not started; its socket buffer has room for so many fragments, at least for one.
    pub fn new(buffer: u32) -> Self {
        Self { started: false, buffer: buffer.max(1), waiting: 0, next: 0 }
    }

    /// Fragments sent so far.
    pub const fn sent(&self) -> u64 {
        self.next
    }
}

impl Control for Sender {
    type Input = Input;
    type Output = Fragment;

    fn handle(&mut self, _: Time, input: Input) {
        match input {
            Input::Start => self.started = true,
            Input::Left => self.waiting -= 1,
        }
    }

    fn poll(&mut self, _: Time) -> Step<Fragment> {
        let fragment = Fragment::of(self.next);
        // A message goes whole once it has begun: the write that brought it has returned.
        if !self.started || (fragment.index == 0 && self.waiting >= self.buffer) {
            return Step::Wait(Time::NEVER);
        }
        self.next += 1;
        self.waiting += 1;
        Step::Do(fragment)
    }
}

/// Puts messages together and counts those that are complete.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// The oldest message that may still be completed.
    first: u64,
    /// Bits of the fragments that have come, of `first` and those after it, by message modulo its length.
    partial: Box<[u16; REASSEMBLED_MAX]>,
    complete: u64,
}

/// All bits of a message.
const WHOLE: u16 = (1 << FRAGMENTS) - 1;

impl Default for Receiver {
    fn default() -> Self {
        Self { first: 0, partial: Box::new([0; REASSEMBLED_MAX]), complete: 0 }
    }
}

impl Receiver {
    /// A fragment has come.
    #[inline]
    pub fn receive(&mut self, fragment: Fragment) {
        let ahead = fragment.message.saturating_sub(self.first);
        if fragment.message < self.first {
            return;
        }
        let window = REASSEMBLED_MAX as u64;
        if ahead >= window {
            self.forget((ahead - window + 1).min(window));
            self.first = fragment.message + 1 - window;
        }
        let bits = &mut self.partial[(fragment.message % window) as usize];
        let before = *bits;
        *bits |= 1 << fragment.index;
        self.complete += u64::from(*bits == WHOLE && before != WHOLE);
    }

    /// Gives up the oldest `count` messages.
    fn forget(&mut self, count: u64) {
        for message in self.first..self.first + count {
            self.partial[(message % REASSEMBLED_MAX as u64) as usize] = 0;
        }
    }

    /// Messages that were put together.
    pub const fn complete(&self) -> u64 {
        self.complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_sender_fills_its_buffer_and_goes_on_when_fragments_leave() {
        let mut sender = Sender::new(11);
        assert_eq!(sender.poll(Time::ZERO), Step::Wait(Time::NEVER));
        sender.handle(Time::ZERO, Input::Start);
        let burst = |sender: &mut Sender| {
            std::iter::from_fn(|| match sender.poll(Time::ZERO) {
                Step::Do(fragment) => Some(fragment.number()),
                Step::Wait(_) => None,
            })
            .collect::<Vec<_>>()
        };
        assert_eq!(burst(&mut sender), (0..11).collect::<Vec<_>>());
        sender.handle(Time::ZERO, Input::Left);
        assert_eq!(burst(&mut sender), (11..22).collect::<Vec<_>>());
        for _ in 0..10 {
            sender.handle(Time::ZERO, Input::Left);
            assert!(burst(&mut sender).is_empty());
        }
        sender.handle(Time::ZERO, Input::Left);
        assert_eq!(burst(&mut sender).len(), 11);
    }

    #[test]
    fn a_message_without_one_fragment_is_worth_nothing() {
        let mut receiver = Receiver::default();
        for number in (0..1_000 * u64::from(FRAGMENTS)).filter(|number| number % 22 != 5) {
            receiver.receive(Fragment::of(number));
        }
        assert_eq!(receiver.complete(), 500);
    }

    proptest! {
        #[test]
        fn order_and_repeats_do_not_matter(mut numbers in Just((0..40 * u64::from(FRAGMENTS)).collect::<Vec<_>>()).prop_shuffle()) {
            let again = numbers[..100].to_vec();
            numbers.extend(again);
            let mut receiver = Receiver::default();
            for number in numbers {
                receiver.receive(Fragment::of(number));
            }
            prop_assert_eq!(receiver.complete(), 40);
        }

        #[test]
        fn any_numbers_are_taken(numbers in proptest::collection::vec(0..u64::MAX / 2, 0..200)) {
            let mut receiver = Receiver::default();
            for number in numbers {
                receiver.receive(Fragment::of(number));
            }
        }
    }
}
