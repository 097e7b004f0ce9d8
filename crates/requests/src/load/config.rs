//! What a load is to be.

use std::net::{IpAddr, SocketAddr};

use machine::Span;
use workload::service::GeneratorSpec;

/// Which connections requests use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connections {
    /// Each client keeps its own.
    #[default]
    KeepAlive,
    /// Each request opens one, and closes it.
    New,
}

/// A load.
#[derive(Clone, Debug)]
pub struct LoadConfig {
    /// Whom to ask, in turn as connections are opened.
    pub targets: Vec<SocketAddr>,
    /// Where from, in turn as well; the kernel chooses if there are none.
    pub sources: Vec<IpAddr>,
    /// The name of the service, for the header `Host`; its address if there is none.
    pub host: Option<String>,
    /// This path in place of the workload's.
    pub path: Option<String>,
    /// Which connections.
    pub connections: Connections,
    /// What is asked when.
    pub generator: GeneratorSpec,
    /// A request that takes longer has failed, from when it did begin.
    pub timeout: Span,
    /// Where randomness starts.
    pub seed: u64,
}

/// How far a load is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Time since it began, warm-up included.
    pub passed: Span,
    /// How long it takes.
    pub whole: Span,
    /// For how much of the time passed there was nothing to do.
    pub waited: Span,
    /// Requests that were answered since the warm-up.
    pub done: u64,
    /// Those that failed.
    pub failed: u64,
    /// Requests under way.
    pub in_flight: u32,
}
