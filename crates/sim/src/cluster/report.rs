//! What came of a run.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use serde::Serialize;

use super::network;
use super::scenario::Scenario;

/// What came of a run. The same seed and scenario give the same report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Servers at the start.
    pub servers: u64,
    /// Simulated time in milliseconds.
    pub simulated_ms: u64,
    /// Events of the simulation.
    pub events: u64,
    /// What clients did.
    pub operations: Operations,
    /// What went wrong, by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Elections begun and won.
    pub elections: Elections,
    /// Reads served by a lease, and by a round of heartbeats.
    pub reads: (u64, u64),
    /// Snapshots written to disks and sent to other servers.
    pub snapshots: (u64, u64),
    /// Events sent to watchers, and how often these heard that some are missing.
    pub watches: (u64, u64),
    /// How often the lock was held, and lost without being given back.
    pub locks: (u64, u64),
    /// What the network did.
    pub network: network::Counters,
    /// Shards at the end.
    pub shards: u64,
    /// The most that a server's disk held beyond three times its content, in bytes.
    pub disk_bytes_max: u64,
    /// From the end of the last fault until everything worked and agreed, in milliseconds.
    pub recovered_ms: u64,
    /// Steps of the linearizability checker.
    pub steps: u64,
    /// What should not have happened: empty if all is well.
    pub findings: Vec<Finding>,
    /// Lies that were sent.
    #[serde(skip_serializing_if = "is_zero")]
    pub lies: u64,
    /// What happened, if the scenario asked for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What clients did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Operations {
    /// Reads and writes that were checked together.
    pub checked: u64,
    /// Writes that were done.
    pub written: u64,
    /// Writes whose condition did not hold.
    pub refused: u64,
    /// Linearizable reads that were answered.
    pub read: u64,
    /// Whose outcome nobody learnt.
    pub unknown: u64,
    /// Stale reads that were answered.
    pub stale: u64,
    /// Requests sent again.
    pub repeated: u64,
    /// Lists of all entries of a module that were answered: one read of each.
    pub listed: u64,
    /// Such lists that were refused, since the entries were in several shards.
    pub spread: u64,
    /// Writes that were refused since the quota was reached.
    pub full: u64,
}

/// Elections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Elections {
    /// Servers that stood.
    pub campaigns: u64,
    /// That won.
    pub won: u64,
}

/// Something that should not have happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Finding {
    /// The history of an entry has no order.
    NotLinearizable(String),
    /// The checker gave up.
    Undecided(String),
    /// A stale read gave what no client had written there.
    Invented(String),
    /// Two leaders of one shard in one term.
    TwoLeaders {
        /// The shard.
        shard: u64,
        /// The term.
        term: u64,
        /// The servers.
        servers: (u64, u64),
    },
    /// Two replicas that applied as much hold different data.
    Diverged {
        /// The shard.
        shard: u64,
        /// How much they applied.
        index: u64,
        /// One server that holds other data than one before.
        server: u64,
    },
    /// A replica has stopped.
    ReplicaStopped {
        /// Of which server.
        server: u64,
        /// Of which shard.
        shard: u64,
        /// What it says.
        reason: String,
    },
    /// A server believes a liar that it is no member any more.
    TalkedOut {
        /// Which.
        server: u64,
    },
    /// After all faults had ended, something still did not work at the end.
    NoProgress(String),
    /// A watcher missed an event, and did not hear of that.
    Missed(String),
    /// A watcher was sent something twice or out of order.
    Repeated(String),
    /// Two clients held one lock, or one wrote with a fencing token that was not valid any more.
    TwoHolders(String),
    /// A server held more for others than it may.
    OverBudget {
        /// Which.
        server: u64,
        /// How many bytes it may hold.
        limit: u64,
    },
    /// A server did not start from its own disk.
    DoesNotStart {
        /// Which.
        server: u64,
        /// Why.
        reason: String,
    },
    /// A server's disk holds more than the content and the log's limits account for.
    DiskGrows {
        /// Which.
        server: u64,
        /// What there is too much of, in bytes.
        what: String,
    },
    /// An error that a client had no reason to get.
    Surprise(String),
    /// A server panicked; nothing else is known of the run.
    Panicked(String),
}

impl Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLinearizable(text)
            | Self::Undecided(text)
            | Self::Invented(text)
            | Self::NoProgress(text)
            | Self::Missed(text)
            | Self::Repeated(text)
            | Self::TwoHolders(text)
            | Self::Surprise(text) => f.write_str(text),
            Self::Panicked(text) => write!(f, "a panic: {text}"),
            Self::TwoLeaders { shard, term, servers: (one, other) } => {
                write!(f, "servers {one} and {other} both lead shard {shard} in term {term}")
            }
            Self::Diverged { shard, index, server } => {
                write!(
                    f,
                    "server {server} has other data in shard {shard} at index {index} than another replica had there"
                )
            }
            Self::DiskGrows { server, what } => write!(f, "the disk of server {server} grows: {what}"),
            Self::ReplicaStopped { server, shard, reason } => {
                write!(f, "server {server}'s replica of shard {shard} has stopped: {reason}")
            }
            Self::TalkedOut { server } => write!(f, "server {server} believes a liar that it is no member"),
            Self::OverBudget { server, limit } => {
                write!(f, "server {server} held more than {limit} bytes for others")
            }
            Self::DoesNotStart { server, reason } => write!(f, "server {server} does not start: {reason}"),
        }
    }
}

impl Finding {
    /// Whether not even a voter that lies about votes and logs may bring it about.
    pub(super) const fn is_never_excused(&self) -> bool {
        matches!(
            self,
            Self::Panicked(_) | Self::ReplicaStopped { .. } | Self::TalkedOut { .. } | Self::DoesNotStart { .. }
        )
    }
}

impl Report {
    /// Of a run that ended in a panic.
    pub(super) fn of_panic(seed: u64, scenario: &Scenario, text: String) -> Self {
        Self { seed, servers: scenario.servers, findings: vec![Finding::Panicked(text)], ..Self::default() }
    }

    /// Whether nothing happened that should not have.
    pub fn is_good(&self) -> bool {
        self.findings.is_empty()
    }

    /// All faults.
    pub fn faults(&self) -> u64 {
        self.faults.values().sum()
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Operations { checked, written, read, refused, unknown, stale, repeated, listed, spread, full } =
            self.operations;
        writeln!(
            f,
            "seed {}: {} servers, {} ms simulated, {} events",
            self.seed, self.servers, self.simulated_ms, self.events
        )?;
        writeln!(
            f,
            "  operations {checked}: written {written}, read {read}, refused {refused}, no room {full}, unknown {unknown}; stale {stale}, sent again {repeated}; modules listed {listed}, not in one shard {spread}"
        )?;
        let faults = self.faults.iter().map(|(kind, count)| format!("{kind} {count}")).collect::<Vec<_>>().join(", ");
        writeln!(f, "  faults {}: {faults}", self.faults())?;
        writeln!(
            f,
            "  elections {}/{}, reads by lease {} by index {}, snapshots {} sent {}, shards {}, recovered in {} ms",
            self.elections.won,
            self.elections.campaigns,
            self.reads.0,
            self.reads.1,
            self.snapshots.0,
            self.snapshots.1,
            self.shards,
            self.recovered_ms
        )?;
        self.findings.iter().try_for_each(|finding| writeln!(f, "  FOUND {finding}"))
    }
}
