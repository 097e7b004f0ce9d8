//! How long somebody waits in a queue for his turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use node::Releaser;

const WAITS: u8 = 0;
const HAS_COME: u8 = 1;
const IS_OVER: u8 = 2;

/// Leaving the queue takes so long at most; after it the lease ends by itself.
const GRACE: Duration = Duration::from_secs(1);

/// One who waits: either his turn comes, or he gives up, never both.
#[derive(Clone, Default)]
pub struct Wait(Arc<AtomicU8>);

impl Wait {
    /// Gives up after so long, if there is a bound, and leaves the queue; should that take long, `end` ends the process.
    pub fn begin(limit: Option<Duration>, releaser: Releaser, end: impl FnOnce() + Send + 'static) -> Self {
        let wait = Self::default();
        let Some(limit) = limit else { return wait };
        let it = wait.clone();
        thread::spawn(move || {
            thread::sleep(limit);
            if it.decide(IS_OVER) {
                releaser.release();
                thread::sleep(GRACE);
                end();
            }
        });
        wait
    }

    /// His turn has come; whether it still counts.
    pub fn has_come(&self) -> bool {
        self.decide(HAS_COME)
    }

    /// Whether he has given up.
    pub fn is_over(&self) -> bool {
        self.0.load(Ordering::Acquire) == IS_OVER
    }

    fn decide(&self, state: u8) -> bool {
        self.0.compare_exchange(WAITS, state, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_comes_too_late_does_not_count() {
        let wait = Wait::default();
        assert!(wait.has_come() && !wait.is_over());
        assert!(!wait.decide(IS_OVER));
        let wait = Wait::default();
        assert!(wait.decide(IS_OVER) && wait.is_over() && !wait.has_come());
    }
}
