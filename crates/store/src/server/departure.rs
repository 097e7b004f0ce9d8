//! What is known of this server's own removal.

use std::collections::BTreeMap;

use machine::ServerId;
use machine::nanos::{Span, Time};
use placement::ShardId;

/// For so long a word counts that a server is out of a shard. Whoever may say so is asked again and again.
const WORD_KEPT: Span = Span::from_secs(10);

/// What is known of this server's own removal.
#[derive(Debug, Default)]
pub(super) struct Departure {
    /// It is removed from the cluster, and perhaps still needed by some groups.
    pub leaving: bool,
    /// Not even meta counts on it any more, though its own log doesn't say so.
    pub out_of_meta: bool,
    /// Those who say that it is out of meta, and the map that each of them gave last.
    pub(super) witnesses: BTreeMap<ServerId, Vec<u8>>,
    /// The map that is followed here is what a single witness said.
    pub(super) map_of_one: bool,
    /// Those who say that it is out of a shard: when they last did, and what they had applied.
    words: BTreeMap<ShardId, BTreeMap<ServerId, (Time, u64)>>,
}

impl Departure {
    /// A server says that this one is out of a shard. Gives how many say so now, of what is not `applied` here.
    pub(super) fn heard_out(
        &mut self,
        now: Time,
        from: ServerId,
        (shard, index): (ShardId, u64),
        applied: u64,
    ) -> usize {
        let words = self.words.entry(shard).or_default();
        words.insert(from, (now, index));
        words.retain(|_, (heard, index)| now.since(*heard) < WORD_KEPT && *index > applied);
        words.len()
    }

    /// The replica is gone, and what was said of it.
    pub(super) fn forget_words(&mut self, shard: ShardId) {
        self.words.remove(&shard);
    }
}
