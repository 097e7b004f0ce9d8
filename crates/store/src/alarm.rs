//! What somebody should look at, as one server sees it.

use std::fmt::{self, Display};

use machine::ServerId;
use placement::ShardId;
use serde::{Deserialize, Serialize};

/// What is the matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// A quota is used to four fifths.
    QuotaNear,
    /// A quota is used up: writes that grow are refused.
    QuotaFull,
    /// A disk takes no writes.
    DiskFailed,
    /// A disk is almost full.
    DiskLow,
    /// A server is not heard.
    Unreachable,
    /// A shard has no leader: no majority of its voters is up, or connected.
    NoLeader,
    /// What a server may hold for clients is used up: requests are refused for now.
    Overloaded,
    /// A replica has stopped.
    ReplicaStopped,
}

impl Kind {
    /// All of them, in order.
    pub const ALL: [Self; 8] = [
        Self::QuotaNear,
        Self::QuotaFull,
        Self::DiskFailed,
        Self::DiskLow,
        Self::Unreachable,
        Self::NoLeader,
        Self::Overloaded,
        Self::ReplicaStopped,
    ];

    /// Its name, as in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::QuotaNear => "quota-near",
            Self::QuotaFull => "quota-full",
            Self::DiskFailed => "disk-failed",
            Self::DiskLow => "disk-low",
            Self::Unreachable => "unreachable",
            Self::NoLeader => "no-leader",
            Self::Overloaded => "overloaded",
            Self::ReplicaStopped => "replica-stopped",
        }
    }
}

/// Something that is the matter now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Alarm {
    /// What.
    pub kind: Kind,
    /// With which server, if with one.
    pub server: Option<ServerId>,
    /// With which shard, if with one.
    pub shard: Option<ShardId>,
    /// In words, with what to do.
    pub text: String,
}

impl Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.text)
    }
}
