//! Is a history of concurrent operations linearizable?
//!
//! A history is linearizable if each operation can be given one moment between its invocation and its return, so that
//! a single copy of the data, doing them one after another at those moments, gives the same results (Herlihy and Wing,
//! 1990). An operation whose outcome nobody learnt may have taken effect at any moment after its invocation, or never.
//!
//! ```text
//! history --by key--> calls --Search: Wing and Gong, Lowe's memo--> found an order | none | gave up
//!                                                                                   |
//!                                                             Counterexample: the few operations that contradict
//! ```
//!
//! [`check`] is generic over a [`Model`], the sequential specification; [`entry`] is that of one list entry of the
//! store. A history is cut by key first: linearizability is local (the same paper, theorem 1).
//!
//! Two events at one moment count as concurrent, so a driver that wants its order seen gives them distinct times.

mod counterexample;
pub mod entry;
mod hindsight;
mod history;
mod model;
mod search;
mod seen;

use std::collections::BTreeMap;
use std::fmt::{self, Display};

pub use counterexample::{Counterexample, Line};
pub use history::{History, Operation, Outcome, Ticket};
pub use model::Model;
use search::{Call, Search, SearchResult};

/// How much a check may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Steps of the model, for each key. A million take about a tenth of a second.
    pub steps_a_key: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps_a_key: 2_000_000 }
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<K> {
    /// There is an order that explains all results.
    Linearizable,
    /// There is none, for one key at least.
    Illegal(Counterexample<K>),
    /// The limit was reached for these keys; all others are linearizable.
    Unknown {
        /// The keys that could not be decided.
        keys: Vec<K>,
    },
}

impl<K> Verdict<K> {
    /// Whether an order was found for every key.
    pub const fn is_linearizable(&self) -> bool {
        matches!(self, Self::Linearizable)
    }
}

impl<K: Display> Display for Verdict<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linearizable => f.write_str("linearizable"),
            Self::Illegal(counterexample) => write!(f, "not linearizable: {counterexample}"),
            Self::Unknown { keys } => {
                f.write_str("not decided within the limit of steps:")?;
                keys.iter().try_for_each(|key| write!(f, " {key}"))
            }
        }
    }
}

/// A verdict and what it stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check<K> {
    /// What was found.
    pub verdict: Verdict<K>,
    /// Operations looked at.
    pub operations: u64,
    /// Keys that they fell into.
    pub keys: u64,
    /// Steps that the model took, those for the counterexample not counted.
    pub steps: u64,
}

/// Checks a history against a model. The same history gives the same answer, the same counterexample too.
///
/// The first key in order that is not linearizable is reported, even if others could not be decided.
pub fn check<M: Model>(model: &M, history: &[Operation<M::Input, M::Output>], limits: Limits) -> Check<M::Key> {
    let parts = partition(model, history);
    let (keys, mut steps, mut undecided) = (parts.len() as u64, 0, Vec::new());
    let mut illegal = None;
    for (key, calls) in parts {
        let mut search = Search::new(model, &key, &calls, limits.steps_a_key);
        let found = search.run();
        steps += search.steps();
        match found {
            SearchResult::Order => {}
            SearchResult::OutOfSteps => undecided.push(key),
            SearchResult::None => {
                illegal = Some(Counterexample::new(model, key, calls));
                break;
            }
        }
    }
    let verdict = match illegal {
        Some(counterexample) => Verdict::Illegal(counterexample),
        None if undecided.is_empty() => Verdict::Linearizable,
        None => Verdict::Unknown { keys: undecided },
    };
    Check { verdict, operations: history.len() as u64, keys, steps }
}

type CallsByKey<'a, M> = BTreeMap<<M as Model>::Key, Vec<Call<'a, M>>>;

/// The calls of each key in the order of the history. Reads of unknown outcome say nothing and are left out.
fn partition<'a, M: Model>(model: &M, history: &'a [Operation<M::Input, M::Output>]) -> CallsByKey<'a, M> {
    let mut parts = CallsByKey::<M>::new();
    for operation in history {
        let (returned, output) = match &operation.outcome {
            Outcome::Returned { at, output } => (Some(*at), Some(output)),
            Outcome::Unknown if model.has_no_effect(&operation.input, None) => continue,
            Outcome::Unknown => (None, None),
        };
        let call =
            Call { client: operation.client, invoked: operation.invoked, returned, input: &operation.input, output };
        parts.entry(model.key(&operation.input)).or_default().push(call);
    }
    parts
}
