//! How names do that lead to services.

use balance::names::NameCounters;
use serde::{Deserialize, Serialize};

/// A name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NameStatus {
    /// What it is.
    pub name: String,
    /// Addresses at which name servers are asked for it.
    pub asked_at: Vec<String>,
    /// For so many seconds an answer may be kept.
    pub ttl_s: u32,
    /// Its sites, in the order of the file.
    pub sites: Vec<SiteStatus>,
    /// What it has counted.
    #[serde(flatten)]
    pub counters: NameCounters,
}

/// A site of a name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SiteStatus {
    /// Its name.
    pub site: String,
    /// Its service.
    pub service: String,
    /// Its share among the others.
    pub weight: u32,
    /// Whether it gets somebody only when no other site can take them.
    pub is_backup: bool,
    /// Servers of the service that are to get connections.
    pub servers: u32,
    /// Further ones, which are drained.
    #[serde(default)]
    pub drained: u32,
    /// Those of the first kind that can.
    pub healthy: u32,
    /// How much of its capacity is in use, where that is known.
    pub load_percent: Option<u32>,
    /// Answers with its addresses.
    pub answers: u64,
}
