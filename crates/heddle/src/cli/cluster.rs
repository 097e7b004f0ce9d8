//! `heddle cluster`: clients of the controllers.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use tree::Path;

/// Certificates of one end of a connection.
#[derive(Debug, Args)]
pub struct Tls {
    /// Our certificate (PEM)
    #[arg(long = "tls-cert", value_name = "FILE", requires_all = ["key", "authority"], value_hint = ValueHint::FilePath)]
    pub certificate: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long = "tls-key", value_name = "FILE", requires = "certificate", value_hint = ValueHint::FilePath)]
    pub key: Option<PathBuf>,
    /// The authority that signs all certificates of the cluster (PEM)
    #[arg(long = "tls-ca", value_name = "FILE", requires = "certificate", value_hint = ValueHint::FilePath)]
    pub authority: Option<PathBuf>,
}

impl Tls {
    /// The three files, if they were given.
    pub fn files(&self) -> Option<node::TlsFiles> {
        Some(node::TlsFiles {
            certificate: self.certificate.clone()?,
            key: self.key.clone()?,
            authority: self.authority.clone()?,
        })
    }
}

/// How to reach the cluster.
#[derive(Debug)]
#[allow(clippy::struct_field_names, reason = "it is what the option is called")]
pub struct Endpoints {
    /// Controllers of the cluster; one is enough to find the others.
    pub endpoints: Vec<String>,
    /// The certificate that this client shows.
    pub tls: Tls,
    /// Where our token is.
    pub token_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Bench {
    /// Which servers to ask
    #[arg(long, value_enum, default_value_t = BenchTarget::Leader)]
    pub at: BenchTarget,
    /// Requests of each operation, in each repetition
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub requests: u64,
    /// How often the whole is repeated
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// Bytes of a value
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(..=1_048_576))]
    pub value_bytes: u32,
    /// Clients at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: u32,
    /// What to measure, in this order
    #[arg(
        long,
        value_enum,
        value_name = "OPERATION",
        value_delimiter = ',',
        default_value = "create,read,update,delete"
    )]
    pub operations: Vec<BenchOperation>,
    /// The processes of the endpoints, in their order; for `election`, which kills one of them
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub pids: Vec<i32>,
    /// Where it is written: a path without values, or the default one, which is emptied first
    #[arg(long, value_name = "PATH", default_value = BENCH_PREFIX)]
    pub prefix: Path,
}

/// Where `bench` writes by default. Nobody else has a reason to.
pub const BENCH_PREFIX: &str = "/heddle-bench:load";

/// Which servers a bench asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchTarget {
    /// The shard's leader
    Leader,
    /// Another server that holds the shard
    Follower,
    /// All servers, a client each in turn
    Any,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchOperation {
    /// Write a car that is not there
    Create,
    /// Read a car, linearizably
    Read,
    /// Read a car from whatever the asked server has
    StaleRead,
    /// Write a car that is there
    Update,
    /// Take a car away
    Delete,
    /// Call a routed RPC that writes
    Rpc,
    /// Kill the leader and take the time to the first write elsewhere; stands alone and needs --pids
    Election,
}

#[derive(Debug, Args)]
pub struct CheckPerf {
    /// How much is written
    #[arg(long, value_enum, default_value_t = CheckLoad::S)]
    pub load: CheckLoad,
    /// How long, as in 30s or 2m
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = super::actions::duration)]
    pub duration: std::time::Duration,
    /// Where it is written: a path without values, or the default one, which is emptied first
    #[arg(long, value_name = "PATH", default_value = CHECK_PREFIX)]
    pub prefix: Path,
    /// No progress bar
    #[arg(short, long)]
    pub quiet: bool,
}

/// Where `check perf` writes by default. Nobody else has a reason to.
pub const CHECK_PREFIX: &str = "/heddle-check:perf";

/// How much `check perf` writes: the loads of `etcdctl check perf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckLoad {
    /// 50 clients, 150 writes a second
    S,
    /// 200 clients, 1,000 writes a second
    M,
    /// 500 clients, 8,000 writes a second
    L,
    /// 1,000 clients, 15,000 writes a second
    Xl,
}
