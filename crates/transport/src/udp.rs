//! Messages of UDP in several fragments, and what becomes of them at their host.
//!
//! A message is cut into IP fragments of [`crate::TransportSpec::segment_bytes`]; one that is lost makes the whole message
//! worthless. How many messages are under way is what [`crate::credit`] says.
//!
//! What comes whole out of a network is not all that a program gets: Linux gives up a message of which the next fragment comes when
//! the host has had more than [`DISTANCE_MAX`] others of the same sender since the last one.

/// Fragments of a message: 11 of 1,460 bytes are the 16,060 bytes that netperf's `UDP_STREAM` was run with in published
/// measurements of bonded links.
pub const FRAGMENTS: u32 = 11;

/// Messages of which fragments may be missing at a receiver while later ones complete; what is older is given up. Linux keeps
/// 4 MiB of fragments (`ipfrag_high_thresh`), some 250 such messages.
pub const REASSEMBLED_MAX: usize = 256;

/// Other fragments of the same sender that may come between two of a message (`net.ipv4.ipfrag_max_dist`).
pub const DISTANCE_MAX: u32 = 64;

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

/// Puts messages together and counts those that are complete.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// The oldest message that may still be completed.
    first: u64,
    /// `first` and those after it, by message modulo its length.
    partial: Box<[Partial; REASSEMBLED_MAX]>,
    complete: u64,
}

/// A message of which fragments have come.
#[derive(Clone, Copy, Debug, Default)]
struct Partial {
    /// Bits of those that have come.
    came: u16,
    /// Bits of those that the kernel keeps.
    kept: u16,
    /// How many the host had had when the last one came.
    heard: u32,
}

/// All bits of a message.
const WHOLE: u16 = (1 << FRAGMENTS) - 1;

impl Default for Receiver {
    fn default() -> Self {
        Self { first: 0, partial: Box::new([Partial::default(); REASSEMBLED_MAX]), complete: 0 }
    }
}

impl Receiver {
    /// A fragment has come; `heard`: how many the host has had of this sender, this one among them, modulo 2^32. Returns the message that the program gets now.
    #[inline]
    pub fn receive(&mut self, fragment: Fragment, heard: u32) -> Option<u64> {
        let ahead = fragment.message.saturating_sub(self.first);
        if fragment.message < self.first {
            return None;
        }
        let window = REASSEMBLED_MAX as u64;
        if ahead >= window {
            self.forget((ahead - window + 1).min(window));
            self.first = fragment.message + 1 - window;
        }
        let bit = 1 << fragment.index;
        let partial = &mut self.partial[(fragment.message % window) as usize];
        let was_whole = partial.came == WHOLE;
        partial.came |= bit;
        self.complete += u64::from(partial.came == WHOLE && !was_whole);
        if partial.kept == WHOLE {
            return None;
        }
        // `ip_frag_too_far`: the kernel begins anew with this fragment.
        if heard.wrapping_sub(partial.heard) > DISTANCE_MAX {
            partial.kept = 0;
        }
        partial.kept |= bit;
        partial.heard = heard;
        (partial.kept == WHOLE).then_some(fragment.message)
    }

    /// Gives up the oldest `count` messages.
    fn forget(&mut self, count: u64) {
        for message in self.first..self.first + count {
            self.partial[(message % REASSEMBLED_MAX as u64) as usize] = Partial::default();
        }
    }

    /// Messages that came whole.
    pub const fn complete(&self) -> u64 {
        self.complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_without_one_fragment_is_worth_nothing() {
        let mut receiver = Receiver::default();
        for number in (0..1_000 * u64::from(FRAGMENTS)).filter(|number| number % 22 != 5) {
            receiver.receive(Fragment::of(number), number as u32);
        }
        assert_eq!(receiver.complete(), 500);
    }

    #[test]
    fn a_program_does_not_get_what_came_too_far_apart() {
        let last = FRAGMENTS - 1;
        for (others, gets) in [(0, true), (DISTANCE_MAX - 1, true), (DISTANCE_MAX, false), (u32::MAX / 2, false)] {
            let mut receiver = Receiver::default();
            // The counter wraps on the way.
            let begin = u32::MAX - 3;
            let receive = |receiver: &mut Receiver, index, after: u32| {
                receiver.receive(Fragment { message: 7, index }, begin.wrapping_add(after))
            };
            (0..last).for_each(|index| assert_eq!(receive(&mut receiver, index, index), None));
            let got = receive(&mut receiver, last, last + others);
            assert_eq!((got, receiver.complete()), (gets.then_some(7), 1), "{others} others in between");
            // All of it again, as over a bond in mode broadcast, is another message to no program that has it.
            let again = (0..FRAGMENTS).filter_map(|index| receive(&mut receiver, index, last + others + 1 + index));
            assert_eq!((again.count(), receiver.complete()), (usize::from(!gets), 1));
        }
    }

    proptest! {
        #[test]
        fn order_and_repeats_do_not_matter(mut numbers in Just((0..40 * u64::from(FRAGMENTS)).collect::<Vec<_>>()).prop_shuffle()) {
            let again = numbers[..100].to_vec();
            numbers.extend(again);
            let mut receiver = Receiver::default();
            for (heard, number) in numbers.into_iter().enumerate() {
                receiver.receive(Fragment::of(number), heard as u32);
            }
            prop_assert_eq!(receiver.complete(), 40);
        }

        #[test]
        fn any_numbers_are_taken(numbers in proptest::collection::vec(0..u64::MAX / 2, 0..200)) {
            let mut receiver = Receiver::default();
            for number in numbers {
                let _ = receiver.receive(Fragment::of(number), number as u32);
            }
        }
    }
}
