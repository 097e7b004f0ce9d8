//! Watches: clients that are notified of changes below a path.
//!
//! Events are those of the replica here, in the order of the shard's log. A watcher that comes back says which revision of
//! each shard it saw last, and gets what happened since, or the notice that it has to read again.
//!
//! ```text
//!   applied --> pending, a queue a shard --cut--> messages, while the client reads --> the driver
//!                  `-- no room for more --> skipped: the watcher reads again
//! ```

use std::collections::BTreeMap;

use placement::ShardId;
use tree::{Event, EventKind, Location};

use super::memory::WATCH_ROOM;
use super::watch_table::{Pending, Watch, note, watch_bytes};
use super::{About, ClientId, Server};
use crate::budget::{Kind, Owner};
use crate::content::Content;
use crate::protocol::{Error, Response, ServerMessage, WatchEvents};

impl Server {
    pub(super) fn watches_gone(&mut self, gone: ClientId) {
        let of_client: Vec<u64> =
            self.watches.all.range((gone, 0)..=(gone, u64::MAX)).map(|((_, id), _)| *id).collect();
        for watch in of_client {
            self.end_watch(gone, watch);
        }
    }

    pub(super) fn end_watch(&mut self, client: ClientId, watch: u64) {
        self.take_watch(client, watch);
    }

    /// Ends a watch; of what session it was, and what it watched.
    fn take_watch(&mut self, client: ClientId, watch: u64) -> Option<(u64, Location)> {
        self.watches.dirty.remove(&(client, watch));
        let watch = self.watches.remove((client, watch))?;
        let events: usize = watch.pending.iter().map(|(_, pending)| pending.bytes).sum();
        self.budget.give_back(Owner::Client(client), Kind::Watches, watch.bytes + events);
        Some((watch.session, watch.at))
    }

    /// Ends a watch that may not go on: a second answer to its request says why.
    pub(super) fn break_watch(&mut self, client: ClientId, sequence: u64, error: Error) {
        let Some((session, at)) = self.take_watch(client, sequence) else { return };
        let response = Response { sequence, leader: None, result: Err(error) };
        self.send_to_client(client, ServerMessage::Response(response), About::EndOfWatch { session, at });
    }

    /// Whether a client may have one more watch, of a path in so many shards.
    pub(super) fn has_watch_room(&self, client: ClientId, at: &Location, shards: usize) -> bool {
        let bytes = watch_bytes(at, shards);
        self.watches.places.admits(client, &self.party(client), bytes)
            && self.budget.admits(Owner::Client(client), bytes)
    }

    /// Begins a watch, for which there is room; gives the revisions after which events will come.
    pub(super) fn begin_watch(
        &mut self,
        (client, session, sequence): (ClientId, u64, u64),
        at: Location,
        shards: &[ShardId],
        from: &BTreeMap<ShardId, u64>,
    ) -> BTreeMap<ShardId, u64> {
        let bytes = watch_bytes(&at, shards.len());
        self.budget.add(Owner::Client(client), Kind::Watches, bytes);
        let mut pending = Vec::with_capacity(shards.len());
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
                        Ok(events) => note(&mut self.budget, client, &mut first, events),
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
            first.announced = if first.skipped { first.revision } else { since };
            began.insert(*shard, since);
            pending.push((*shard, first));
        }
        let party = self.party(client);
        self.watches.insert((client, sequence), &party, Watch { session, at, bytes, pending });
        self.watches.dirty.insert((client, sequence));
        began
    }

    /// Replicas here have applied changes.
    pub(super) fn note_events(&mut self, events: Vec<(ShardId, Event)>) {
        if self.watches.all.is_empty() {
            return;
        }
        for (shard, event) in events {
            for id in self.watches.concerned(&event) {
                self.watches.dirty.insert(id);
                let watch = self.watches.all.get_mut(&id);
                let Some(pending) = watch.and_then(|watch| watch.pending(shard)) else { continue };
                if event.revision <= pending.seen && event.kind != EventKind::Reset {
                    continue;
                }
                note(&mut self.budget, id.0, pending, [event.clone()]);
            }
        }
    }

    /// A replica took over a snapshot or went away, or the map sends the watched paths elsewhere: whoever watches must read
    /// again.
    pub(super) fn watches_lost(&mut self, shard: ShardId) {
        let revision = self.groups.get(&shard).map_or(0, |group| group.content.revision());
        for (id, watch) in &mut self.watches.all {
            if let Some(pending) = watch.pending(shard) {
                self.watches.dirty.insert(*id);
                let bytes = pending.skip(revision);
                self.budget.give_back(Owner::Client(id.0), Kind::Watches, bytes);
            }
        }
    }

    /// Ends the watches of what has no replica here any more: a second answer to the request says where there is one.
    pub(super) fn end_watches(&mut self) {
        let ended: Vec<(ClientId, u64, ShardId)> = (self.watches.all.iter())
            .filter_map(|((client, sequence), watch)| {
                let shard =
                    self.view.map().shards_under(&watch.at.path).into_iter().find(|shard| !self.is_kept_up(*shard))?;
                Some((*client, *sequence, shard))
            })
            .collect();
        for (client, sequence, shard) in ended {
            let error = self.no_replica(shard);
            self.break_watch(client, sequence, error);
        }
    }

    /// What is answered when only a replica here would do.
    pub(super) fn no_replica(&self, shard: ShardId) -> Error {
        let holders = self.view.map().desired_replicas(shard).voters;
        let servers = holders.iter().filter_map(|id| self.peers.address(*id).cloned()).collect();
        Error::Elsewhere { reason: format!("this server has no replica of shard {shard}"), servers }
    }

    /// After the map changed: watches follow their paths to the shards that hold them now.
    pub(super) fn reroute_watches(&mut self) {
        for (id, watch) in &mut self.watches.all {
            let shards = self.view.map().shards_under(&watch.at.path);
            for shard in shards {
                let Some(group) = self.groups.get(&shard) else { continue };
                let revision = group.content.revision();
                if watch.pending(shard).is_none() {
                    self.watches.dirty.insert(*id);
                    let first = Pending { skipped: true, revision, announced: revision, ..Pending::default() };
                    watch.pending.push((shard, first));
                }
            }
        }
    }

    /// Delivers what is new, as far as clients read it.
    pub(super) fn flush_watches(&mut self) {
        for (client, watch) in std::mem::take(&mut self.watches.dirty) {
            self.flush_watch(client, watch);
        }
    }

    /// A client has read: there may be room for more.
    pub(super) fn resume_watches(&mut self, client: ClientId) {
        let waiting = self.watches.dirty.range((client, 0)..=(client, u64::MAX)).map(|(_, watch)| *watch);
        for watch in waiting.collect::<Vec<_>>() {
            self.watches.dirty.remove(&(client, watch));
            self.flush_watch(client, watch);
        }
    }

    /// What does not fit waits, and the watch stays dirty.
    fn flush_watch(&mut self, client: ClientId, watch: u64) {
        let limit = self.config.watch_message_bytes;
        let owner = Owner::Client(client);
        while self.budget.of(owner, Kind::Answers) < WATCH_ROOM {
            let Some(entry) = self.watches.all.get_mut(&(client, watch)) else { return };
            let Some((shard, pending)) = entry.pending.iter_mut().find(|(_, pending)| pending.has_news()) else {
                return;
            };
            let before = pending.bytes;
            let (events, revision) = pending.cut(limit);
            let skipped = std::mem::take(&mut pending.skipped);
            self.budget.give_back(owner, Kind::Watches, before - pending.bytes);
            self.counters.watch_events += events.len() as u64;
            self.counters.watch_skips += u64::from(skipped);
            let news = WatchEvents { watch, shard: *shard, revision, skipped, events };
            self.send_to_client(client, ServerMessage::Watched(news), About::News);
        }
        self.watches.dirty.insert((client, watch));
    }
}
