//! What a group's log produces: the map of shards and servers in group 0, data in all others.

use std::collections::BTreeMap;

use placement::{Map, ShardId};
use tree::{Command, History, Past, SnapshotBuilder, SnapshotReader, State};

use crate::effects::Effects;
use crate::peer::PeerAnswer;

/// Bytes of a snapshot's chunk, about.
pub(crate) const CHUNK_BYTES: usize = 128 << 10;

/// Of so many moves, the newest, it is known how much they have brought. Far fewer are under way at a time.
const ARRIVALS_MAX: usize = 256;

/// The state machine of a group.
pub(crate) enum Content {
    /// The content of group 0.
    Meta(Map),
    /// The content of a shard of data.
    Data {
        /// The data of the shard.
        state: State,
        /// Recent changes, for watches that begin in the past.
        history: History,
        /// What recent changes replaced, for reads of old revisions.
        past: Past,
        /// Bytes that each move has brought here, as far as this process has seen it: what came by a snapshot is not in it.
        arrived: BTreeMap<u64, u64>,
    },
}

/// What an entry of the log did.
pub(crate) enum Outcome {
    Data(tree::Outcome),
    Meta(Result<placement::Effect, placement::Refusal>),
}

impl Outcome {
    pub(crate) fn into_answer(self) -> PeerAnswer {
        match self {
            Self::Data(outcome) => PeerAnswer::Outcome(outcome),
            Self::Meta(outcome) => PeerAnswer::Placed(outcome),
        }
    }
}

impl Content {
    /// The content before the first entry.
    pub(crate) fn empty(group: ShardId) -> Self {
        if group == ShardId::META { Self::Meta(Map::new()) } else { Self::data(State::new()) }
    }

    fn data(state: State) -> Self {
        let history = History::new(tree::watch::HISTORY_EVENTS, state.tree.revision());
        let past = Past::new(tree::past::PAST_CHANGES, state.tree.revision());
        Self::Data { state, history, past, arrived: BTreeMap::new() }
    }

    /// Applies an entry. Replicas that have the same log come to the same content.
    ///
    /// # Errors
    /// Why the entry is no command. Servers check what they are sent: it was written by a program of another version, and to go
    /// on without it would make the replicas differ.
    pub(crate) fn apply(
        &mut self,
        index: u64,
        data: &[u8],
        group: ShardId,
        effects: &mut Effects,
    ) -> Result<Outcome, String> {
        Ok(match self {
            Self::Meta(map) => {
                let command = placement::Command::decode(data).map_err(|error| error.to_string())?;
                let outcome = map.apply(index, command);
                if let Ok(effect) = &outcome {
                    effects.placed.push(effect.clone());
                    effects.changed.push(group);
                }
                Outcome::Meta(outcome)
            }
            Self::Data { state, history, past, arrived } => {
                let command = Command::decode(data).map_err(|error| error.to_string())?;
                let bytes_before = state.tree.bytes();
                let outcome = state.apply_with_past(index, &command, &mut |event, before| {
                    past.push(&event, before);
                    effects.events.push((group, event.clone()));
                    history.push(event);
                });
                if let Command::Import { move_id, .. } = command {
                    // A move that begins anew takes away what it had brought.
                    let bytes = arrived.entry(move_id).or_default();
                    *bytes = (*bytes + state.tree.bytes() as u64).saturating_sub(bytes_before as u64);
                    if arrived.len() > ARRIVALS_MAX {
                        arrived.pop_first();
                    }
                }
                Outcome::Data(outcome)
            }
        })
    }

    /// The content as it is now, in chunks; taking it costs nothing, and later changes don't show in it.
    pub(crate) fn reader(&self) -> Reader {
        match self {
            Self::Meta(map) => Reader::Meta(Some(map.encode())),
            Self::Data { state, .. } => Reader::Data(Box::new(state.snapshot())),
        }
    }

    pub(crate) fn map(&self) -> Option<&Map> {
        if let Self::Meta(map) = self { Some(map) } else { None }
    }

    pub(crate) fn state(&self) -> Option<&State> {
        if let Self::Data { state, .. } = self { Some(state) } else { None }
    }

    /// The data and what recent changes of it replaced.
    pub(crate) fn data_and_past(&self) -> Option<(&State, &Past)> {
        if let Self::Data { state, past, .. } = self { Some((state, past)) } else { None }
    }

    pub(crate) fn entries(&self) -> u64 {
        self.state().map_or(0, |state| state.tree.len() as u64)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.state().map_or(0, |state| state.tree.bytes() as u64)
    }

    /// The moves that take data away from here, as long as the data are still here.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = u64> {
        self.state().into_iter().flat_map(|state| state.frozen.values().map(|mark| mark.number))
    }

    /// Bytes that a move has brought here, about.
    pub(crate) fn arrived_bytes(&self, move_id: u64) -> u64 {
        if let Self::Data { arrived, .. } = self { arrived.get(&move_id).copied().unwrap_or(0) } else { 0 }
    }

    pub(crate) fn revision(&self) -> u64 {
        match self {
            Self::Meta(map) => map.version(),
            Self::Data { state, .. } => state.tree.revision(),
        }
    }

    /// A number that is the same for the same content.
    pub(crate) fn digest(&self, cache: &mut tree::DigestCache) -> u64 {
        match self {
            Self::Meta(map) => {
                let bytes = map.encode();
                let word = |part: &[u8]| part.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
                bytes.chunks(8).map(word).fold(bytes.len() as u64, |sum, word| machine::mix(sum ^ word))
            }
            Self::Data { state, .. } => state.digest_with(cache),
        }
    }
}

/// Content on its way out.
pub(crate) enum Reader {
    Meta(Option<Vec<u8>>),
    Data(Box<SnapshotReader>),
}

impl Reader {
    /// The next chunk; none after the last. There is at least one.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        match self {
            Self::Meta(bytes) => bytes.take(),
            Self::Data(reader) => reader.next(CHUNK_BYTES),
        }
    }
}

/// Content on its way in.
pub(crate) enum Builder {
    Meta(Option<Box<Map>>),
    Data(Box<SnapshotBuilder>),
}

impl Builder {
    pub(crate) fn new(group: ShardId) -> Self {
        if group == ShardId::META { Self::Meta(None) } else { Self::Data(Box::new(SnapshotBuilder::new())) }
    }

    /// Takes a chunk.
    ///
    /// # Errors
    /// Why it is none.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> Result<(), String> {
        match self {
            Self::Meta(map) if map.is_none() => {
                *map = Some(Box::new(Map::decode(chunk).map_err(|error| error.to_string())?));
                Ok(())
            }
            Self::Meta(_) => Err("something follows the map".into()),
            Self::Data(builder) => builder.push(chunk).map_err(|error| error.to_string()),
        }
    }

    /// All chunks are there.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn finish(self) -> Result<Content, String> {
        match self {
            Self::Meta(map) => map.map(|map| Content::Meta(*map)).ok_or_else(|| "it is empty".into()),
            Self::Data(builder) => Ok(Content::data(builder.finish().map_err(|error| error.to_string())?)),
        }
    }
}
