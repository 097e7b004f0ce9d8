//! What clients ask of a service's servers, and what its servers do with it, as machines: without sockets, clock or threads.
//!
//! | module | what of it |
//! |---|---|
//! | `quantity` | times, sizes, shares and rates as text |
//! | `distribution` | how sizes and durations vary |
//! | `tree` | the web tree's pages |
//! | `target` | what a request asks for, as the path of an HTTP request |
//! | `mix` | the seven workloads |
//! | `generator` | the clients: when each request begins, closed and open loop |
//! | `measured` | what came of the requests |
//! | `admission` | a server: what it works on, what waits, what it refuses, and its faults |
//!
//! `heddle load` and `heddle serve` are drivers of [`Generator`] and [`Server`]; a simulator is another.

mod admission;
mod distribution;
mod generator;
mod logarithm;
mod measured;
mod mix;
pub mod quantity;
mod target;
mod tree;

pub use admission::{Action, Faults, Refusal, Server, ServerCounts, ServerSpec, WithoutMemory};
pub use distribution::{Distribution, VALUE_MAX};
pub use generator::{Arrivals, Finished, Generator, GeneratorSpec, SLOTS_MAX, Start};
pub use measured::{Failure, FailureCounts, Latencies, Measured, Outcome, SECONDS_MAX, Second};
pub use mix::{Requests, Workload, WorkloadSpec};
pub use quantity::Share;
pub use target::{DURATION_MAX, SIZE_MAX, Target, TargetError};
pub use tree::{DIRECTORIES_MAX, Page};
