//! A request's memory: taken, written to, and computed on.

use std::hint::black_box;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Words that are computed between two looks at the clock.
const PIECE: usize = 2_048;

/// The memory that a request takes.
#[derive(Debug)]
pub(super) struct Block(Vec<u64>);

impl Block {
    /// Takes so many bytes and writes to all of them, so that the kernel has to give them; nothing if it has none.
    pub fn take(bytes: u64) -> Option<Self> {
        let words = usize::try_from(bytes.div_ceil(8)).ok()?;
        let mut memory = Vec::new();
        memory.try_reserve_exact(words).ok()?;
        memory.resize(words, 0x9e37_79b9_7f4a_7c15);
        Some(Self(black_box(memory)))
    }

    /// Computes on it until so much time of a processor has passed. Time in which the thread did not run is not counted: where requests share a processor, each takes
    /// longer.
    pub fn compute(&mut self, for_: Duration) {
        let begin = thread_time();
        let mut own = [1_u64; PIECE];
        let mut from = 0;
        while thread_time().saturating_sub(begin) < for_ {
            let words = if self.0.is_empty() { &mut own[..] } else { &mut self.0[..] };
            let end = words.len().min(from + PIECE);
            mix(&mut words[from..end]);
            from = if end == words.len() { 0 } else { end };
        }
    }
}

/// Reads each word and writes another, which depends on all before it.
fn mix(words: &mut [u64]) {
    let mut sum = 0_u64;
    for word in &mut *words {
        sum = (sum ^ *word).rotate_left(23).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        *word = sum;
    }
    black_box(words);
}

/// Time that this thread has run.
fn thread_time() -> Duration {
    // It cannot fail: Linux has this clock.
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::MAX, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_taken_and_computed_on() {
        let mut block = Block::take(100_001).expect("there is so much");
        assert_eq!(block.0.len(), 12_501);
        let before = block.0.clone();
        let begin = thread_time();
        block.compute(Duration::from_millis(2));
        assert!(thread_time().saturating_sub(begin) >= Duration::from_millis(2));
        assert!(block.0.iter().zip(&before).all(|(now, then)| now != then), "all of it");
        assert!(Block::take(u64::MAX).is_none(), "there is not so much");
        Block::take(0).expect("nothing is always there").compute(Duration::from_micros(10));
    }
}
