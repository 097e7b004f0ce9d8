//! All equal-cost shortest paths, as next-hop sets.
//!
//! Hosts that hang on the same switch are reached alike, so tables are kept per *attachment* (that switch), not per
//! host: a fat-tree of k = 48 has 27,648 hosts but 1,152 attachments.

use crate::{Fabric, NodeId, PortId};

/// Next-hop sets of every switch towards every host.
#[derive(Clone, Debug, Default)]
pub struct Routes {}

impl Routes {
    /// Computes all equal-cost shortest paths. Every link costs the same.
    pub fn compute(_fabric: &Fabric) -> Self {
        Self {}
    }

    /// The ports of `at` on shortest paths to the host `to`, ascending. Empty only if `at` is `to`.
    pub fn next_hops(&self, _at: NodeId, _to: NodeId) -> &[PortId] {
        &[]
    }

    /// A small number that says which next-hop set of `at` leads to `to`: equal numbers at one node mean equal sets.
    /// Below [`Routes::groups`] of that node. Per-set state (a round-robin turn) is indexed by it.
    pub fn group(&self, _at: NodeId, _to: NodeId) -> u32 {
        0
    }

    /// How many next-hop sets `at` has.
    pub fn groups(&self, _at: NodeId) -> u32 {
        0
    }
}
