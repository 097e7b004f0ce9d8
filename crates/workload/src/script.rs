//! How clients and whoever drives them talk.

use machine::nanos::{Span, Time};
use store::protocol::{Answer, Error, RequestBody};

/// What a client does next.
#[derive(Clone, Debug)]
pub enum Next {
    /// It asks, and is told by [`Script::answered`].
    Ask {
        /// Index of the target that it asks.
        target: usize,
        /// What.
        body: RequestBody,
        /// Its answer comes by then at the latest.
        timeout: Span,
    },
    /// It is asked again at this time.
    Until(Time),
    /// It is asked again when another client has an answer.
    Wait,
    /// It has nothing more to do.
    Done,
}

/// What clients do. Times are those of the driver's clock.
pub trait Script {
    /// A client has nothing to do. `client` counts from 0.
    fn next(&mut self, client: usize, now: Time) -> Next;

    /// A client has the answer to what it asked last.
    fn answered(&mut self, client: usize, now: Time, result: Result<Answer, Error>);

    /// Whether to leave what is under way, and end. It is asked again and again, also while no answer comes.
    fn is_left(&mut self, _now: Time) -> bool {
        false
    }
}
