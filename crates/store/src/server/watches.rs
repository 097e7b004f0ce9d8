//! Clients that are told of changes below a path.
//!
//! Events are those of the replica here, in the order of the shard's log. A watcher that comes back says which revision of
//! each shard it saw last, and gets what happened since, or is told that it has to read again.

use std::collections::{BTreeMap, BTreeSet};

use placement::ShardId;
use tree::{Event, Location};

use super::{ClientId, Output, Server};
use crate::content::Content;
use crate::protocol::{Error, Response, ServerMessage, WatchEvents};

#[derive(Debug)]
struct Watch {
    at: Location,
    /// By shard: events to be told.
    pending: BTreeMap<ShardId, Pending>,
}

#[derive(Debug, Default)]
struct Pending {
    events: Vec<Event>,
    skipped: bool,
    revision: u64,
    /// What the watcher has seen, perhaps at a replica that is further than this one.
    seen: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Watches {
    all: BTreeMap<(ClientId, u64), Watch>,
    /// Those that have something to be told.
    dirty: BTreeSet<(ClientId, u64)>,
}

impl Watches {
    pub(super) fn client_gone(&mut self, gone: ClientId) {
        self.all.retain(|(client, _), _| *client != gone);
    }

    /// How many a client has.
    pub(super) fn count(&self, client: ClientId) -> usize {
        self.all.range((client, 0)..=(client, u64::MAX)).count()
    }

    /// Whose they are.
    pub(super) fn clients(&self) -> impl Iterator<Item = ClientId> {
        self.all.keys().map(|(client, _)| *client)
    }

    /// Whose they are, their sequence, and what they watch.
    pub(super) fn watched(&self) -> Vec<(ClientId, u64, Location)> {
        self.all.iter().map(|((client, watch), entry)| (*client, *watch, entry.at.clone())).collect()
    }

    pub(super) fn end(&mut self, client: ClientId, watch: u64) {
        self.all.remove(&(client, watch));
    }
}

impl Server {
    /// Begins a watch; gives the revisions after which events will come.
    pub(super) fn begin_watch(
        &mut self,
        client: ClientId,
        sequence: u64,
        at: Location,
        shards: &[ShardId],
        from: &BTreeMap<ShardId, u64>,
    ) -> BTreeMap<ShardId, u64> {
        let mut pending = BTreeMap::new();
        let mut began = BTreeMap::new();
        for shard in shards {
            let Some(Content::Data { state, history, .. }) = self.groups.get(shard).map(|group| &group.content) else {
                continue;
            };
            let revision = state.tree.revision();
            let mut first = Pending { revision, ..Pending::default() };
            let since = match from.get(shard) {
                Some(seen) => {
                    match history.since(&at, *seen) {
                        Ok(events) => first.events = events,
                        Err(_) => first.skipped = true,
                    }
                    *seen
                }
                None if from.is_empty() => revision,
                None => {
                    // The shard is new to the watcher: something moved since.
                    first.skipped = true;
                    revision
                }
            };
            first.seen = since;
            first.revision = first.revision.max(since);
            began.insert(*shard, since);
            pending.insert(*shard, first);
        }
        self.watches.all.insert((client, sequence), Watch { at, pending });
        self.watches.dirty.insert((client, sequence));
        began
    }

    /// Replicas here have applied changes.
    pub(super) fn note_events(&mut self, events: Vec<(ShardId, Event)>) {
        if self.watches.all.is_empty() {
            return;
        }
        for (shard, event) in events {
            for (id, watch) in self.watches.all.iter_mut().filter(|(_, watch)| event.concerns(&watch.at)) {
                self.watches.dirty.insert(*id);
                let Some(pending) = watch.pending.get_mut(&shard) else { continue };
                if event.revision <= pending.seen && event.kind != tree::EventKind::Reset {
                    continue;
                }
                pending.revision = pending.revision.max(event.revision);
                pending.events.push(event.clone());
            }
        }
    }

    /// A replica took over a snapshot or went away, or the map sends the watched paths elsewhere: whoever watches must read
    /// again.
    pub(super) fn watches_lost(&mut self, shard: ShardId) {
        let revision = self.groups.get(&shard).map_or(0, |group| group.content.revision());
        for (id, watch) in &mut self.watches.all {
            if let Some(pending) = watch.pending.get_mut(&shard) {
                self.watches.dirty.insert(*id);
                pending.events.clear();
                pending.skipped = true;
                pending.revision = pending.revision.max(revision);
            }
        }
    }

    /// Ends the watches of what has no replica here any more: a second answer to the request says where there is one.
    pub(super) fn end_watches(&mut self) {
        let ended: Vec<(ClientId, u64, ShardId)> = (self.watches.all.iter())
            .filter_map(|((client, sequence), watch)| {
                let shard = self.map.shards_under(&watch.at.path).into_iter().find(|shard| !self.is_kept_up(*shard))?;
                Some((*client, *sequence, shard))
            })
            .collect();
        for (client, sequence, shard) in ended {
            self.watches.all.remove(&(client, sequence));
            let error = self.no_replica(shard);
            self.respond(client, Response { sequence, leader: None, result: Err(error) });
        }
    }

    /// What is answered when only a replica here would do.
    pub(super) fn no_replica(&self, shard: ShardId) -> Error {
        let holders = self.map.desired_replicas(shard).voters;
        let servers = holders.iter().filter_map(|id| self.peers.address(*id).cloned()).collect();
        Error::Elsewhere { reason: format!("this server has no replica of shard {shard}"), servers }
    }

    /// After the map changed: watches follow their paths to the shards that hold them now.
    pub(super) fn reroute_watches(&mut self) {
        for (id, watch) in &mut self.watches.all {
            let shards = self.map.shards_under(&watch.at.path);
            for shard in shards {
                let Some(group) = self.groups.get(&shard) else { continue };
                let revision = group.content.revision();
                watch.pending.entry(shard).or_insert_with(|| {
                    self.watches.dirty.insert(*id);
                    Pending { skipped: true, revision, ..Pending::default() }
                });
            }
        }
    }

    /// Tells what there is to tell.
    pub(super) fn flush_watches(&mut self) {
        for (client, watch) in std::mem::take(&mut self.watches.dirty) {
            let Some(entry) = self.watches.all.get_mut(&(client, watch)) else { continue };
            let news = |pending: &Pending| pending.skipped || !pending.events.is_empty();
            for (shard, pending) in entry.pending.iter_mut().filter(|(_, pending)| news(pending)) {
                let events = std::mem::take(&mut pending.events);
                let skipped = std::mem::take(&mut pending.skipped);
                self.counters.watch_events += events.len() as u64;
                self.counters.watch_skips += u64::from(skipped);
                let told = WatchEvents { watch, shard: *shard, revision: pending.revision, skipped, events };
                let message = ServerMessage::Watched(told);
                self.outputs.push_back(Output::Client { client, message });
            }
        }
    }
}
