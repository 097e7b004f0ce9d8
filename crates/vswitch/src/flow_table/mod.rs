//! Flow tables with the semantics of `OpenFlow` 1.3, written as `ovs-ofctl` writes them.
//!
//! ```text
//! text -> Flow, Group -> FlowTables: packet -> first cache -> megaflows -> tables, entry by entry -> actions
//! ```
//!
//! A packet is known by its [`Key`](key::Key). What has been decided about it is cached with the bits that it depends on (`cache.rs`); what is not, goes through the
//! tables (`walk.rs`), each of which is searched by `classifier.rs`. A table is changed by one at a time, and nothing of the caches is wrong after that.

mod actions;
mod cache;
mod changes;
mod classifier;
mod context;
mod error;
mod explain;
mod flow;
mod frozen;
mod group;
mod group_counters;
mod key;
mod match_field;
mod matching;
mod meter;
mod ports;
mod question;
mod recirculation;
mod scan;
mod sweep;
mod tables;
mod tracking;
mod walk;

pub use actions::{FlowAction, Instructions};
pub use cache::CacheCounters;
pub use changes::{ChangeError, ChangeList, ChangeProgress, KnownFlow, TableChange, TablesSummary};
#[cfg(test)]
use classifier::Classifier;
pub use error::FlowError;
pub use explain::{ExplainedStep, Explanation};
pub use flow::{Flow, PRIORITY, Selection, parse_modification, parse_packet};
pub use group::{Bucket, Group, GroupKind};
pub use group_counters::GroupStatus;
pub use matching::Match;
pub use meter::{Band, BandKind, Meter, MeterStatus, MeterUnit};
pub use ports::Ports;
pub use tables::{EntryStatus, FlowTables};
pub use tracking::{TrackAction, nat_range};

#[cfg(test)]
mod tests;
