//! How bonds do.

use serde::{Deserialize, Serialize};

/// An end of a bond: how it is, and what it has done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BondState {
    /// The node that it is at.
    pub node: String,
    /// Its name there.
    pub name: String,
    /// The mode as in the file: `balance-rr`, ...
    pub mode: String,
    /// Whether it can be used at all.
    pub carrier: bool,
    /// The members, in the order of the file.
    pub members: Vec<MemberState>,
    /// Frames that were accepted.
    pub accepted: u64,
    /// Frames that were dropped since their member did not receive.
    pub inactive: u64,
    /// What resequencing did, where it is on.
    pub reordering: Option<bond::reorder::Counters>,
}

/// A member of a bond.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberState {
    /// The name of the member: `eth0`, ...
    pub name: String,
    /// The node that its link leads to.
    pub to: String,
    /// The state of its link: `up`, `down`, ...
    pub link: String,
    /// Whether the bond sends on it.
    pub sends: bool,
    /// How that was decided.
    pub why: String,
}
