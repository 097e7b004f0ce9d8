//! What a server is to be.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use workload::service::ServerSpec;

use crate::server::Limits;

/// What a request does with its memory for its duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It computes on it, for that much time of a processor: the more requests share the processors, the longer each takes.
    #[default]
    Busy,
    /// It holds it, as one does that waits for a disk or another server.
    Sleep,
}

/// Where an agent takes reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushTo {
    /// At this address.
    Tcp(SocketAddr),
    /// At this Unix socket.
    Unix(PathBuf),
}

/// A server.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Where it listens.
    pub listen: Vec<SocketAddr>,
    /// Which requests it works on, and what goes wrong.
    pub server: ServerSpec,
    /// What requests do.
    pub mode: Mode,
    /// Threads that work: the processors, usually.
    pub threads: usize,
    /// Bytes of the page `/`, and of what `/work` answers.
    pub body_bytes: u64,
    /// Whether there is a web tree.
    pub has_tree: bool,
    /// Whether answers have a load report.
    pub reports: bool,
    /// An agent that is given a load report, and how often.
    pub push: Option<(PushTo, Duration)>,
    /// How much clients may take.
    pub limits: Limits,
    /// Where randomness starts.
    pub seed: u64,
}
