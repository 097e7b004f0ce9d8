//! The whole controller cluster, simulated: servers with their clocks and disks, a network between them, clients, and
//! everything that may go wrong with each.
//!
//! ```text
//!   calendar --> Core: machines, network      clients, watchers --> history, answers, events
//!      ^           | run: store::Server            | ^                       |
//!      |           v                               v |                       v
//!      `---- messages, writes done, wake-ups <-----'-'         linearizability::check, findings
//!      `---- Nemesis: faults, changes of members and shards
//! ```
//!
//! [`run`] lets clients work while things go wrong, then ends all faults and asks for progress: each entry takes a write,
//! each move ends, all replicas of a shard hold the same. Meanwhile no term has two leaders, replicas that applied as much
//! hold the same, the history of each entry has an order, and watchers miss nothing.
//!
//! The same seed and scenario give the same [`Report`], byte for byte.

mod admin;
mod byzantine;
mod clients;
mod clocks;
mod core;
mod data;
mod disk;
pub mod election;
mod fault;
mod lockers;
mod mirror;
mod nemesis;
mod network;
mod node;
mod report;
mod scenario;
pub mod session;
mod sizes;
mod world;

mod watchers;

pub use byzantine::Lies;
pub use clocks::Clock;
pub use disk::Speed;
pub use fault::Kind;
pub use network::{Counters, Quality};
pub use report::{Elections, Finding, Operations, Report};
pub use scenario::Scenario;
pub use sizes::ServerSizes;

/// Simulates one cluster.
///
/// A panic of a server ends the run; it is among the [`Finding`]s.
pub fn run(seed: u64, scenario: &Scenario) -> Report {
    let whole = || world::World::new(seed, scenario).run();
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(whole)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        Report::of_panic(seed, scenario, text.unwrap_or_default())
    })
}
