//! Clients that watch: they must hear of every change, in order, once; or hear that some are missing.
//!
//! The events of a watcher are held against what other clients were answered for their writes, and against the data at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use machine::ServerId;
use machine::nanos::Span;
use placement::ShardId;
use store::ClientId;
use store::protocol::{Answer, ClientMessage, Request, RequestBody, ServerMessage, WatchEvents};
use tree::{EventKind, Location, Path};

use super::clients::Finally;
use super::core::{Core, Event, client_of};
use super::data;
use super::mirror::Mirror;
use super::report::Finding;
use crate::linearizability::entry::{Action, Change, Leaf, Output};
use crate::linearizability::{Operation, Outcome, entry};

/// The first of them among the numbers of clients.
const FIRST: u32 = 20;
/// How long a watcher waits for the answer to its request before it goes elsewhere.
const PATIENCE: Span = Span::from_ms(800);

/// All watchers.
pub struct Watchers {
    all: BTreeMap<u32, Watcher>,
    counts: (u64, u64),
}

struct Watcher {
    number: u32,
    at: Location,
    connection: Option<(ClientId, ServerId)>,
    /// Requests so far, and which of them was the watch.
    requests: u64,
    sequence: u64,
    is_watching: bool,
    /// The revision of each shard up to which it was sent everything.
    from: BTreeMap<ShardId, u64>,
    /// Tags of values that it has seen.
    seen: BTreeSet<(Path, u64)>,
    /// What it knows of the data.
    mirror: Mirror,
    /// It has heard that events up to this revision may be missing, everywhere and below some paths.
    excused: u64,
    excused_below: Vec<(Path, u64)>,
    alarm: u64,
}

impl Watchers {
    /// As many as the scenario has, each of a module.
    pub fn new(core: &mut Core) -> Self {
        let mut all = BTreeMap::new();
        for number in FIRST..FIRST + core.scenario.watchers {
            let watcher = Watcher {
                number,
                at: data::container(number),
                connection: None,
                requests: 0,
                sequence: 0,
                is_watching: false,
                from: BTreeMap::new(),
                seen: BTreeSet::new(),
                mirror: Mirror::default(),
                excused: 0,
                excused_below: Vec::new(),
                alarm: 0,
            };
            all.insert(number, watcher);
            core.after(Span::from_ms(500), Event::Wake(number, 0));
        }
        Self { all, counts: (0, 0) }
    }

    /// Whether this is one of them.
    pub fn has(&self, number: u32) -> bool {
        self.all.contains_key(&number)
    }

    /// Events that were sent, and how often some were said to be missing.
    pub const fn counts(&self) -> (u64, u64) {
        self.counts
    }

    /// Whether all of them are connected and have been answered.
    pub fn are_watching(&self, core: &Core) -> bool {
        let is_open = |watcher: &Watcher| watcher.connection.is_some_and(|(connection, _)| core.is_open(connection));
        let has_all = |watcher: &Watcher| {
            (watcher.is_watching && watcher.mirror.is_complete() && is_open(watcher))
                || !somebody_holds_all(core, &watcher.at.path)
        };
        self.all.values().all(has_all)
    }

    /// A watcher's time has come: if it is not watching, it tries another server.
    pub fn wake(&mut self, core: &mut Core, number: u32, alarm: u64) {
        let Some(watcher) = self.all.get_mut(&number) else { return };
        if watcher.alarm == alarm && !watcher.is_watching {
            watcher.subscribe(core);
        } else if watcher.alarm == alarm {
            watcher.read(core);
        }
    }

    /// The stream broke.
    pub fn stream_ended(&mut self, core: &mut Core, connection: ClientId) {
        let Some(watcher) = self.all.get_mut(&client_of(connection)) else { return };
        if watcher.connection.is_some_and(|(current, _)| current == connection) {
            watcher.is_watching = false;
            watcher.subscribe(core);
        }
    }

    /// Something has come for a watcher.
    pub fn receive(&mut self, core: &mut Core, connection: ClientId, message: ServerMessage) {
        let Some(watcher) = self.all.get_mut(&client_of(connection)) else { return };
        if watcher.connection.is_none_or(|(current, _)| current != connection) {
            return;
        }
        match message {
            ServerMessage::Response(response) if response.sequence == watcher.sequence => match response.result {
                Ok(Answer::Watching { from }) => watcher.begins(core, from),
                Ok(_) => core.found(Finding::Surprise(format!("watcher {} got a strange answer", watcher.number))),
                Err(error) => {
                    core.note(|| format!("watcher is told that it cannot watch there: {error}"));
                    watcher.is_watching = false;
                    watcher.try_later(core);
                }
            },
            ServerMessage::Response(response) if watcher.mirror.is_reading(response.sequence) => {
                if watcher.mirror.answered(response.sequence, response.result) {
                    watcher.read(core);
                } else {
                    watcher.try_later(core);
                }
            }
            ServerMessage::Watched(events) if events.watch == watcher.sequence => {
                self.counts.0 += events.events.len() as u64;
                self.counts.1 += u64::from(events.skipped);
                watcher.watched(core, events);
            }
            _ => {}
        }
    }

    /// Holds their events against what clients did. Every operation must have returned long ago.
    pub fn check(&self, core: &mut Core, history: &[Operation<entry::Input, Output>], finally: &Finally) {
        // Who can watch nowhere has heard so, and has nothing to complain of.
        for watcher in self.all.values().filter(|watcher| watcher.is_watching) {
            watcher.check_writes(core, history);
            watcher.check_data(core, finally);
        }
    }
}

impl Watcher {
    fn subscribe(&mut self, core: &mut Core) {
        if let Some((old, _)) = self.connection.take() {
            core.break_stream(old);
        }
        self.is_watching = false;
        let members = core.members();
        let server = members[core.rng.below(members.len() as u32) as usize];
        let connection = core.connect_stream(self.number, server);
        self.connection = Some((connection, server));
        self.mirror.stop_reading();
        self.requests += 1;
        self.sequence = self.requests;
        let body = RequestBody::Watch { at: self.at.clone(), from: self.from.clone() };
        let (session, sequence) = (u64::from(self.number), self.sequence);
        let request = Request { session, sequence, acknowledged: sequence, timeout_ms: 1_000, body };
        let (number, from) = (self.number, self.from.clone());
        core.note(|| format!("watcher {number} asks server {server}, from {from:?}"));
        core.to_server(connection, server, ClientMessage::Request(request));
        self.set_alarm(core, PATIENCE);
    }

    fn set_alarm(&mut self, core: &mut Core, after: Span) {
        self.alarm += 1;
        core.after(after, Event::Wake(self.number, self.alarm));
    }

    fn try_later(&mut self, core: &mut Core) {
        let pause = core.between_ms(20, 200);
        self.set_alarm(core, pause);
    }

    fn begins(&mut self, core: &mut Core, from: BTreeMap<ShardId, u64>) {
        let number = self.number;
        core.note(|| format!("watcher {number} watches from {from:?}"));
        self.is_watching = true;
        for (shard, revision) in from {
            if let std::collections::btree_map::Entry::Vacant(new) = self.from.entry(shard) {
                new.insert(revision);
                self.excused = self.excused.max(revision);
                self.mirror.read_again(&self.at, core.scenario.entries);
            }
        }
        self.read(core);
    }

    /// Reads what has to be read again.
    fn read(&mut self, core: &mut Core) {
        let Some((connection, server)) = self.connection.filter(|_| self.is_watching) else { return };
        let Some(body) = self.mirror.ask(self.requests + 1) else { return };
        self.requests += 1;
        let (session, sequence) = (u64::from(self.number), self.requests);
        let request = Request { session, sequence, acknowledged: sequence, timeout_ms: 1_500, body };
        core.to_server(connection, server, ClientMessage::Request(request));
    }

    fn watched(&mut self, core: &mut Core, batch: WatchEvents) {
        let number = self.number;
        core.note(|| format!("watcher {number} is told {}", brief(&batch)));
        let from = self.from.get(&batch.shard).copied().unwrap_or(0);
        if batch.skipped {
            self.excused = self.excused.max(batch.revision);
            self.mirror.read_again(&self.at, core.scenario.entries);
        }
        let mut newest = 0;
        for event in batch.events {
            // What is above the batch's revision is the beginning of one revision that goes on in the next batch.
            let is_cut = newest > batch.revision;
            let in_order = event.revision > from && event.revision >= newest && (!is_cut || event.revision == newest);
            match event.kind {
                EventKind::Reset => {
                    self.mirror.read_again(&event.at, core.scenario.entries);
                    self.excused_below.push((event.at.path, event.revision));
                    continue;
                }
                EventKind::Put { etag, .. } => {
                    self.seen.insert((event.at.path.clone(), etag));
                    self.mirror.note(event.at.path, event.revision, Some(etag));
                }
                EventKind::Deleted => {
                    self.mirror.note(event.at.path, event.revision, None);
                }
            }
            newest = newest.max(event.revision);
            if !in_order {
                core.found(Finding::Repeated(format!(
                    "watcher {number} was told of revision {} of shard {} after {from}",
                    event.revision, batch.shard
                )));
            }
        }
        self.from.insert(batch.shard, batch.revision);
        self.read(core);
    }

    /// Up to which revision events of a path may be missing.
    fn excused(&self, path: &Path) -> u64 {
        let below = self.excused_below.iter().filter(|(prefix, _)| prefix.contains(path) || path.contains(prefix));
        below.map(|(_, revision)| *revision).max().unwrap_or(0).max(self.excused)
    }

    /// Every write that was answered must have come as an event.
    fn check_writes(&self, core: &mut Core, history: &[Operation<entry::Input, Output>]) {
        for operation in history {
            let Outcome::Returned { output: Output::Written { revision }, .. } = operation.outcome else { continue };
            let Action::Write { change, .. } = operation.input.action else { continue };
            let leaves: &[Leaf] = match change {
                Change::Create(leaf, _) | Change::Put(leaf, _) | Change::Replace(leaf, _) => &[leaf],
                Change::PutBoth { .. } => &[Leaf::A, Leaf::B],
                Change::Delete | Change::Remove => &[],
            };
            for at in leaves.iter().map(|leaf| data::leaf(operation.input.entry, *leaf)) {
                let concerns = self.at.contains(&at) && revision > self.excused(&at.path);
                if concerns && !self.seen.contains(&(at.path.clone(), revision)) {
                    let path = &at.path;
                    core.found(Finding::Missed(format!(
                        "watcher {} was not told that {path} was written at revision {revision}",
                        self.number
                    )));
                }
            }
        }
    }

    /// What it knows must be what is there.
    fn check_data(&self, core: &mut Core, finally: &Finally) {
        for ((number, leaf), found) in finally {
            let path = data::leaf(*number, *leaf).path;
            let known = self.mirror.tag(&path);
            if self.at.path.contains(&path) && known != *found {
                let number = self.number;
                core.found(Finding::Missed(format!(
                    "watcher {number}, who read again whenever it had to, knows that {path} has tag {known:?}; it has {found:?}"
                )));
            }
        }
    }
}

/// A batch of events on one line.
fn brief(batch: &WatchEvents) -> String {
    let mut text = format!("shard {} revision {} skipped {}", batch.shard, batch.revision, batch.skipped);
    for event in &batch.events {
        let kind = match event.kind {
            EventKind::Put { .. } => "put",
            EventKind::Deleted => "deleted",
            EventKind::Reset => "reset",
        };
        let _ = write!(text, ", {} {kind} {}", event.revision, event.at.path);
    }
    text
}

/// Whether one server has replicas of all shards below a path: only such a one takes a watch of all of it.
fn somebody_holds_all(core: &Core, path: &Path) -> bool {
    let Some(map) = core.map() else { return true };
    let shards = map.shards_under(path);
    map.members().keys().any(|id| shards.iter().all(|shard| map.desired_replicas(*shard).contains(*id)))
}
