//! The controllers, and what experiments ask of them.

use machine::Span;
use serde::{Deserialize, Serialize};

/// The cluster of controllers above the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Controllers {
    /// How many processes: n1, n2, ... In the file and here, nodes count from 1.
    pub nodes: u32,
    /// How long a follower waits for its leader before it stands for election.
    pub election: ElectionTimeout,
    /// Whether a candidate asks first whether it would be elected (pre-vote), and leaves the leader alone if not.
    pub pre_vote: bool,
    /// How long messages take between simulated controllers. `None`: as long as in a quiet network of 1 Gbit/s.
    pub delay: Option<MessageDelay>,
    /// How the data tree is cut.
    pub shards: ShardPlan,
    /// Whether they talk over TLS, also to clients.
    pub tls: bool,
}

/// How long a message takes from one simulated controller to another, processing included. What is above the least is
/// distributed exponentially.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageDelay {
    /// The least.
    pub min: Span,
    /// The mean; not below the least.
    pub mean: Span,
}

/// How long a follower waits for its leader before it stands for election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ElectionTimeout {
    /// Always this long, give or take a random part.
    Fixed(Span),
    /// It follows the measured round trip, within bounds.
    Measured {
        /// Never shorter.
        min: Span,
        /// Never longer.
        max: Span,
    },
}

impl Default for ElectionTimeout {
    fn default() -> Self {
        Self::Measured { min: Span::from_ms(100), max: Span::from_secs(10) }
    }
}

/// How the data tree is cut into shards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShardPlan {
    /// All data in the shard `default`.
    #[default]
    Single,
    /// A shard for each module.
    Distributed,
    /// These; what none of them claims is in `default`.
    List(Vec<ShardSpec>),
}

/// One shard of a [`ShardPlan::List`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardSpec {
    /// Unique in its list. `default` stands for the shard of what no other one claims, and has neither modules nor prefixes.
    pub name: String,
    /// YANG modules that are wholly in it.
    pub modules: Vec<String>,
    /// Subtrees that are in it, like `/car:cars/car-entry=17`. They go before modules, longer ones before shorter ones.
    pub prefixes: Vec<String>,
    /// Which nodes hold it.
    pub replicas: Replicas,
}

/// Which nodes hold a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replicas {
    /// Every node.
    #[default]
    All,
    /// So many, chosen by the cluster.
    Count(u32),
    /// These, from 1, in rising order.
    Nodes(Vec<u32>),
}

impl Replicas {
    /// How many nodes the cluster needs at least for this.
    pub fn needs_nodes(&self) -> u32 {
        match self {
            Self::All => 1,
            Self::Count(count) => *count,
            Self::Nodes(nodes) => nodes.iter().copied().max().unwrap_or(1),
        }
    }
}

impl ShardPlan {
    /// How many nodes the cluster needs at least for all shards.
    pub fn needs_nodes(&self) -> u32 {
        match self {
            Self::Single | Self::Distributed => 1,
            Self::List(shards) => shards.iter().map(|shard| shard.replicas.needs_nodes()).max().unwrap_or(1),
        }
    }
}

/// What is asked of the controllers, and the faults that are injected meanwhile.
///
/// A run goes through `operations` in their order, `requests` times each. It ends when that is done, [`crate::Experiment::duration`]
/// is over, and the last fault is over; until then the load goes around again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClusterLoad {
    /// Without repetition. `Operation::Election` stands alone.
    pub operations: Vec<Operation>,
    /// How often each operation is asked in a run, by all clients together; of elections, how often the victim is killed.
    pub requests: u32,
    /// How many clients ask at once. Each waits for its answer before it asks again.
    pub clients: u32,
    /// Who is asked.
    pub at: Role,
    /// Bytes of each value.
    pub value_bytes: u32,
    /// Who is killed, in elections.
    pub victim: Target,
    /// When an election is over.
    pub until: ElectionEnd,
    /// In the order of their times.
    pub faults: Vec<Fault>,
}

impl ClusterLoad {
    /// Whether it measures elections and nothing else.
    pub fn is_election(&self) -> bool {
        self.operations == [Operation::Election]
    }

    /// When the last fault is over, since the start of the load.
    pub fn faults_end(&self) -> Span {
        self.faults.iter().map(Fault::end).max().unwrap_or(Span::ZERO)
    }

    /// The least cluster in which all of this can happen: the nodes that faults name, and for elections a majority that is
    /// left. (Who is asked is not among it: see [`Role::needs_nodes`].)
    pub fn needs_nodes(&self) -> u32 {
        /// The least cluster that outlives one node.
        const MAJORITY_LEFT: u32 = 3;
        let election = if self.is_election() { self.victim.needs_nodes().max(MAJORITY_LEFT) } else { 1 };
        let faults = self.faults.iter().map(|fault| fault.action.needs_nodes()).max().unwrap_or(1);
        election.max(faults)
    }
}

/// What is asked of the controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// A list entry that was not there.
    Create,
    /// A linearizable read of an entry.
    Read,
    /// An entry that is there gets another value.
    Update,
    /// An entry that is there goes.
    Delete,
    /// The routed RPC `add-person`.
    Rpc,
    /// From killing a node to the first write that succeeds afterwards.
    Election,
}

/// When an election is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElectionEnd {
    /// With the first write that is acknowledged.
    #[default]
    Write,
    /// When another node leads. Simulated only: whoever looks at processes sees it later than it is so.
    Leader,
}

/// Who is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The node that leads the shard.
    #[default]
    Leader,
    /// A node that doesn't.
    Follower,
    /// All nodes in turn.
    Any,
}

impl Role {
    /// The least cluster in which there is such a node.
    pub const fn needs_nodes(self) -> u32 {
        match self {
            Self::Leader | Self::Any => 1,
            Self::Follower => 2,
        }
    }
}

/// The target of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// The node that leads the shard of the load when it happens.
    Leader,
    /// A node that doesn't lead it.
    Follower,
    /// Every node.
    All,
    /// This one, from 1.
    Node(u32),
}

impl Target {
    /// The least cluster in which there is such a node.
    pub const fn needs_nodes(self) -> u32 {
        match self {
            Self::Leader | Self::All => 1,
            Self::Follower => 2,
            Self::Node(node) => node,
        }
    }
}

/// A fault that is injected into the controllers during a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// When, since the start of the load.
    pub at: Span,
    /// What.
    pub action: FaultAction,
}

impl Fault {
    /// When it is over. A node that was killed stays so until it is restarted.
    pub fn end(&self) -> Span {
        match &self.action {
            FaultAction::Kill(_) | FaultAction::Restart(_) => self.at,
            FaultAction::Pause { duration, .. } | FaultAction::Partition { duration, .. } => self.at + *duration,
        }
    }
}

/// What is done to them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultAction {
    /// SIGKILL.
    Kill(Target),
    /// Nodes that were killed start again, on the folder that they had. Only [`Target::All`] and [`Target::Node`].
    Restart(Target),
    /// SIGSTOP, then SIGCONT.
    Pause {
        /// Whom.
        target: Target,
        /// How long.
        duration: Span,
    },
    /// No message passes from one group to another. A node that is in no group keeps its connections.
    Partition {
        /// Nodes from 1, each in one group at most.
        groups: Vec<Vec<u32>>,
        /// How long.
        duration: Span,
    },
}

impl FaultAction {
    /// The least cluster in which this can happen.
    pub fn needs_nodes(&self) -> u32 {
        match self {
            Self::Kill(target) | Self::Restart(target) | Self::Pause { target, .. } => target.needs_nodes(),
            Self::Partition { groups, .. } => groups.iter().flatten().copied().max().unwrap_or(1),
        }
    }
}

/// A number about the latencies of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Statistic {
    /// The least.
    Min,
    /// The mean.
    Mean,
    /// Half are not above it.
    P50,
    /// 9 of 10 are not above it.
    P90,
    /// 99 of 100 are not above it.
    P99,
    /// 999 of 1,000 are not above it.
    P999,
    /// The most.
    Max,
}
