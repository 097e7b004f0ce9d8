//! What is known of this server's own removal.

use std::collections::BTreeMap;

use machine::ServerId;

/// What is known of this server's own removal.
#[derive(Debug, Default)]
pub(super) struct Departure {
    /// It is removed from the cluster, and perhaps still needed by some groups.
    pub leaving: bool,
    /// Not even meta counts on it any more, though its own log doesn't say so.
    pub out_of_meta: bool,
    /// Those who say that it is out of meta, and the map that each of them gave last.
    pub(super) witnesses: BTreeMap<ServerId, Vec<u8>>,
}
