//! What somebody should look at, as long as it lasts.

use machine::ServerId;
use placement::ShardId;
use serde::{Deserialize, Serialize};

/// Bytes of data that a server may hold by default.
pub const DEFAULT_QUOTA_BYTES: u64 = 2 << 30;

/// The least that may be set: the largest transaction fits.
pub const MIN_QUOTA_BYTES: u64 = 16 << 20;

/// The alarm comes when so much of the quota is used, in percent.
pub const NEAR_PERCENT: u64 = 80;

/// Once the quota was reached, the data may grow again when they take less than this, in percent.
pub const LIFT_PERCENT: u64 = 95;

/// A number of bytes for people.
pub fn size_text(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{:.1} KiB", bytes as f64 / 1_024.0),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{:.2} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

/// What an alarm is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// The data take most of the quota.
    QuotaNear,
    /// The quota is reached: shards that the server leads refuse what would add to the data.
    QuotaReached,
    /// The disk takes no writes.
    Disk,
    /// A replica has stopped.
    ReplicaStopped,
    /// No leader of a shard is known.
    NoLeader,
    /// Another server is not heard.
    Silent,
}

impl Kind {
    /// Its name in tables and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::QuotaNear => "quota-near",
            Self::QuotaReached => "quota-reached",
            Self::Disk => "disk",
            Self::ReplicaStopped => "replica-stopped",
            Self::NoLeader => "no-leader",
            Self::Silent => "silent",
        }
    }
}

/// One alarm of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// What it is about.
    pub kind: Kind,
    /// The shard, if it is about one.
    pub shard: Option<ShardId>,
    /// The other server, if it is about one.
    pub server: Option<ServerId>,
    /// What is wrong, and what to do.
    pub text: String,
}

/// What a server has to say: all its alarms, and how much data it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarms {
    /// The alarms, in the order of their kinds.
    pub alarms: Vec<Alarm>,
    /// Bytes of data of all replicas, about.
    pub content_bytes: u64,
    /// Bytes that they may have, if there is a bound.
    pub quota_bytes: Option<u64>,
    /// The version of the protocol that all servers of the cluster speak, as far as this one knows.
    pub protocol: u32,
}
