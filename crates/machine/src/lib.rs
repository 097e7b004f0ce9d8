//! What every state machine of Heddle is built from.
//!
//! *Time* is an argument ([`Time`], [`Span`]: whole picoseconds; controllers have [`nanos`]), *randomness* is an argument ([`Rng`], seeded), and there
//! are two shapes: [`Control`] for protocols and, for whatever a packet passes, a plain function over a burst. No crate
//! that stands on this one reads a clock or an unseeded random source, so the same code runs live and simulated.
#![forbid(unsafe_code)]

mod calendar;
pub mod nanos;
mod rebase;
mod rng;
mod server;
mod siphash;
mod time;

pub use calendar::Calendar;
pub use rebase::Rebase;
pub use rng::{Rng, mix};
pub use server::ServerId;
pub use siphash::siphash;
pub use time::{Nano, Pico, Unit};

/// A moment in a network, in picoseconds since the driver's start. It reaches 213 days: [`Rebase`] says how a driver goes on for longer.
pub type Time = time::Time<Pico>;

/// A length of time in a network, in picoseconds.
pub type Span = time::Span<Pico>;

/// A protocol as a state machine.
///
/// One rule: after every [`Control::handle`], call [`Control::poll`] until it returns [`Step::Wait`]; then come back at
/// the given time at the latest, or earlier with new input. `U` is what its clock counts.
pub trait Control<U: Unit = Pico> {
    /// What comes in: a message, a timer's expiry, a request.
    type Input;
    /// What goes out.
    type Output;

    /// Takes one input at `now`. Time never runs backwards between calls.
    fn handle(&mut self, now: time::Time<U>, input: Self::Input);

    /// The next thing to do.
    fn poll(&mut self, now: time::Time<U>) -> Step<Self::Output, U>;
}

/// What [`Control::poll`] asks of its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<O, U = Pico> {
    /// Carry this out, then poll again.
    Do(O),
    /// Nothing until this time ([`Time::NEVER`]: nothing until there is input).
    Wait(time::Time<U>),
}
