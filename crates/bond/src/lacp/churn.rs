//! Churn detection (6.4.17): an end that should come in sync, and does not.

use machine::{Rebase, Span, Time};

/// An end that is not in sync for so long churns (6.4.4, `Actor_Churn_Time` and `Partner_Churn_Time`).
pub const CHURN_TIME: Span = Span::from_secs(60);

/// Whether an end comes in sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChurnState {
    /// It is in sync.
    NoChurn,
    /// It is not, for less than [`CHURN_TIME`].
    Monitor,
    /// It is not, for longer.
    Churn,
}

/// The machine of one end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Churn {
    pub(super) state: ChurnState,
    timer: Time,
}

impl Churn {
    pub(super) fn new(now: Time) -> Self {
        Self { state: ChurnState::Monitor, timer: now + CHURN_TIME }
    }

    /// Follows the end's sync; true if churn was found just now. A port that is down is watched from when it comes up.
    pub(super) fn step(&mut self, now: Time, up: bool, in_sync: bool) -> bool {
        if !up {
            *self = Self { state: ChurnState::Monitor, timer: Time::NEVER };
            return false;
        }
        let before = self.state;
        match before {
            _ if in_sync => self.state = ChurnState::NoChurn,
            ChurnState::NoChurn => *self = Self::new(now),
            ChurnState::Monitor if self.timer == Time::NEVER => *self = Self::new(now),
            ChurnState::Monitor if now >= self.timer => self.state = ChurnState::Churn,
            ChurnState::Monitor | ChurnState::Churn => {}
        }
        self.state == ChurnState::Churn && before != ChurnState::Churn
    }

    pub(super) fn deadline(&self) -> Time {
        if self.state == ChurnState::Monitor { self.timer } else { Time::NEVER }
    }
}

impl Rebase for Churn {
    fn rebase(&mut self, by: Span) {
        let Self { state: _, timer } = self;
        timer.rebase(by);
    }
}
