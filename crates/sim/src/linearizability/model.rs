//! The sequential specification that histories are checked against.

use std::fmt::Display;
use std::hash::Hash;

/// What a single copy of the data would do.
pub trait Model {
    /// What the history is cut by: operations on different keys have nothing to do with each other.
    type Key: Ord + Clone + Display;
    /// All that the model remembers of one key.
    type State: Clone + Eq + Hash;
    /// What a client asks for. Two calls of unknown outcome and equal inputs may stand for each other.
    type Input: Display + PartialEq;
    /// The answer that it gets.
    type Output: Display;

    /// The key that an operation is about.
    fn key(&self, input: &Self::Input) -> Self::Key;

    /// The state before the first operation.
    fn initial(&self, key: &Self::Key) -> Self::State;

    /// The state after an operation, or nothing if the operation cannot have this output in this state. An output of
    /// `None` is one that nobody learnt: then the operation does what it would do.
    fn step(&self, state: &Self::State, input: &Self::Input, output: Option<&Self::Output>) -> Option<Self::State>;

    /// Whether an operation with this output changes nothing, whatever the state is.
    fn has_no_effect(&self, input: &Self::Input, output: Option<&Self::Output>) -> bool;

    /// A number that puts operations with such outputs into the only order in which they can fit, as a revision does; no
    /// two operations of a key may share one. It only makes the search faster.
    fn place(&self, _input: &Self::Input, _output: &Self::Output) -> Option<u64> {
        None
    }
}
