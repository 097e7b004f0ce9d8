//! What an agent is to be.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::weight::WeightConfig;

/// Where the kernel's figures are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// `/proc`, or a folder that looks like it.
    pub proc: PathBuf,
    /// Only this process, with its children, in place of the whole machine: processors and memory are its own.
    pub process: Option<u32>,
    /// What is all the memory of that process, in bytes; the machine's, if nothing is said.
    pub memory_bytes: Option<u64>,
}

impl Default for Sources {
    fn default() -> Self {
        Self { proc: PathBuf::from("/proc"), process: None, memory_bytes: None }
    }
}

/// An agent.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Where `HAProxy`'s agent-check is answered.
    pub check: Vec<SocketAddr>,
    /// Where HTTP is served: `/load` and `/push`.
    pub http: Vec<SocketAddr>,
    /// Unix sockets where HTTP is served.
    pub sockets: Vec<PathBuf>,
    /// How often the kernel's figures are read.
    pub every: Duration,
    /// What an application has pushed is forgotten after this time.
    pub push_lasts: Duration,
    /// Where they are read.
    pub sources: Sources,
    /// How the answer to `HAProxy` follows from them.
    pub weight: WeightConfig,
}
