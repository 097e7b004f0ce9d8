//! The server itself: what it is made of, and what it does with each input.

use std::collections::BTreeMap;

use machine::nanos::{Span, Step, Time};
use machine::{Control, Nano, Rng, ServerId};
use placement::{Map, ShardId};

use super::absent::Absent;
use super::agenda::Agenda;
use super::backup::Backup;
use super::broker::Calls;
use super::departure::Departure;
use super::disk::Disk;
use super::gate::Gate;
use super::io::{Input, Output, Stop};
use super::membership::Greeting;
use super::meta_leader::MetaLeader;
use super::operations::Operations;
use super::outbox::Outbox;
use super::peer_table::Peers;
use super::read_meter::ReadMeter;
use super::schedule::{Schedule, UPKEEP};
use super::view::MapView;
use super::watch_table::Watches;
use crate::budget::{Budget, Kind, Owner};
use crate::config::Config;
use crate::effects::Effects;
use crate::group::Group;
use crate::id::ClientId;
use crate::planted::Bug;
use crate::snapshots::Snapshots;
use crate::status::{Counters, GroupStatus, PeerStatus, Status, StoppedReplica};

/// Bytes that may wait for the disk before clients are asked to come back later.
pub(super) const DISK_BACKLOG_MAX: usize = 16 << 20;

/// A server of the store, as a machine.
pub struct Server {
    pub(super) config: Config,
    pub(super) rng: Rng,
    pub(super) log: wal::Log,
    pub(super) groups: BTreeMap<ShardId, Group>,
    pub(super) absent: Absent,
    pub(super) agenda: Agenda,
    pub(super) view: MapView,
    pub(super) peers: Peers,
    pub(super) schedule: Schedule,
    pub(super) greeting: Greeting,
    pub(super) operations: Operations,
    pub(super) gate: Gate,
    pub(super) budget: Budget,
    pub(super) reads: ReadMeter,
    pub(super) snapshots: Snapshots,
    pub(super) disk: Disk,
    pub(super) watches: Watches,
    /// The content that clients are backing up.
    pub(super) backups: BTreeMap<ClientId, Backup>,
    pub(super) calls: Calls,
    pub(super) meta: MetaLeader,
    pub(super) outbox: Outbox,
    pub(super) counters: Counters,
    /// The data here have reached the quota.
    pub(super) is_full: bool,
    pub(super) departure: Departure,
}

impl Control<Nano> for Server {
    type Input = Input;
    type Output = Output;

    fn handle(&mut self, now: Time, input: Input) {
        if self.outbox.is_stopped() {
            return;
        }
        self.note_time(now);
        self.catch_up(now);
        match input {
            Input::Peer { from, envelope } => self.peer_said(now, from, envelope),
            Input::PeerSpeaks { peer, version } => self.peers.note_version(peer, version),
            Input::SecretKept { from, digest } => self.secret_kept_here(from, digest),
            Input::Disowned(by) => self.greeting.disowned_by(by),
            Input::PeerLost(peer) => self.peer_lost(now, peer),
            Input::Client { client, id, message } => self.client_said(now, client, id, message),
            Input::ClientSilent(client) => self.client_silent(now, client),
            Input::Host { client, host } => self.gate.called_from(client, &host),
            Input::Caller { client, caller } => self.called_by(client, caller),
            Input::WallClock(seconds) => self.wall_clock(now, seconds),
            Input::ClientGone(client) => self.client_gone(now, client),
            Input::Waiting { client, bytes } => self.client_waits(client, bytes),
            Input::Held { kind, bytes } => self.budget.set(Owner::Server, kind, bytes),
            Input::Written(write) => self.written(now, write),
            Input::WriteFailed { write, error } => self.write_failed(now, write, error),
            Input::Tick => {}
        }
    }

    fn poll(&mut self, now: Time) -> Step<Output> {
        if let Some(output) = self.outbox.pop() {
            return Step::Do(output);
        }
        if self.outbox.is_stopped() {
            return Step::Wait(Time::NEVER);
        }
        self.note_time(now);
        self.work(now);
        match self.outbox.pop() {
            Some(output) => Step::Do(output),
            None => Step::Wait(self.schedule.next().min(self.agenda.next_due())),
        }
    }
}

impl Server {
    /// The number of this server.
    pub fn id(&self) -> ServerId {
        self.config.server
    }

    /// A server that was not called for long stood still: stopped, swapped out, or on a machine that was.
    pub(super) fn note_time(&mut self, now: Time) {
        let Some(span) = self.schedule.note_call(now) else { return };
        for group in self.groups.values_mut() {
            group.expiry.stood_still(span);
        }
    }

    /// Everything that is due, and everything that follows from what came in.
    pub(super) fn work(&mut self, now: Time) {
        if !self.log.is_ready() {
            // What was recovered may not be on the disk yet: nothing is said before it is.
            self.take_writes(now);
            self.schedule.rest(now);
            return;
        }
        self.reads.begin_turn();
        self.tick(now);
        self.beat(now);
        if self.schedule.take_upkeep(now) {
            self.upkeep(now);
        }
        self.poll_rpc(now);
        self.agenda.wake(now);
        self.advance(now);
        if !self.is_full && self.config.quota_bytes.is_some_and(|quota| self.content_bytes() >= quota) {
            self.quota_due();
            self.advance(now);
        }
        self.disk.unlogged = 0;
        self.take_writes(now);
        self.flush_watches();
        self.flush_peers(now);
    }

    /// Ticks of before an input are not counted after it: a heartbeat would be thought older than it is, and what was promised
    /// with its answer be broken.
    pub(super) fn catch_up(&mut self, now: Time) {
        if self.schedule.is_tick_due(now) && self.log.is_ready() && !self.config.planted.has(Bug::TicksAfterInput) {
            self.tick(now);
        }
    }

    /// Raft's clock: as many ticks as are due. After a pause of a whole timeout none: what came meanwhile is to be heard first.
    pub(super) fn tick(&mut self, now: Time) {
        let is_pause_forgiven = !self.config.planted.has(Bug::TicksAfterInput);
        let is_locked_out = self.schedule.is_locked_out(now);
        for _ in 0..self.schedule.take_ticks(now, is_pause_forgiven) {
            for (id, group) in &mut self.groups {
                group.tick(now, is_locked_out, &mut self.rng, &mut self.counters);
                self.agenda.add(*id);
            }
        }
    }

    /// Heartbeats for voters that wait less long than this server would.
    pub(super) fn beat(&mut self, now: Time) {
        if !self.schedule.is_beat_due(now) {
            return;
        }
        let own = self.schedule.heartbeat();
        // Timeouts, voters and their promises may change meanwhile.
        let mut next = now + UPKEEP;
        for (id, group) in &mut self.groups {
            if group.beat_due(own).is_some_and(|due| now >= due) {
                group.beat(now);
                self.agenda.add(*id);
            }
            next = group.beat_due(own).map_or(next, |due| due.min(next));
        }
        self.schedule.beat_at(next);
    }

    /// Bytes that wait for the disk, or will.
    pub(super) fn backlog_bytes(&self) -> usize {
        self.log.backlog_bytes() + self.disk.unlogged
    }

    /// Lets all groups go on until they have nothing more to say.
    pub(super) fn advance(&mut self, now: Time) {
        while !self.agenda.is_empty() {
            let mut effects = Effects::default();
            for id in self.agenda.take() {
                let Some(group) = self.groups.get_mut(&id) else { continue };
                group.advance(now, &mut self.log, &mut self.counters, &mut effects);
                if group.waits_for_disk() {
                    self.agenda.add_unsynced(id);
                }
                if let Some(due) = group.due() {
                    self.agenda.add_later(id, due);
                }
            }
            self.carry_out(now, effects);
            self.sweep_failed(now);
        }
    }

    /// What groups have brought about.
    pub(super) fn carry_out(&mut self, now: Time, effects: Effects) {
        let Effects { items, released_bytes, answers, snapshots, events, changed, placed, applied } = effects;
        self.budget.give_back(Owner::Server, Kind::Proposals, released_bytes);
        for (to, item) in items {
            self.peers.push(to, item);
        }
        for (to, group, message) in snapshots {
            self.send_snapshot(now, to, group, message);
        }
        self.note_events(events);
        if !placed.is_empty() || changed.contains(&ShardId::META) {
            self.adopt_map(now);
        }
        for (asker, result) in answers {
            self.group_answered(now, asker, result);
        }
        for shard in applied {
            self.replica_applied(now, shard);
        }
        if !changed.is_empty() {
            self.groups_changed(now, &changed);
        }
    }

    /// Counters since the start.
    pub fn counters(&self) -> Counters {
        let mut counters = self.counters;
        counters.snapshots_sent = self.snapshots.sent;
        counters.items_dropped = self.peers.dropped;
        counters
    }

    /// The election timeout now.
    pub fn election_timeout(&self) -> Span {
        self.schedule.timeout.current()
    }

    /// The leader of a shard, as far as is known here.
    pub fn leader_of(&self, shard: ShardId) -> Option<ServerId> {
        // A replica that was left behind remembers an older leader than the one that others name.
        let here = self.groups.get(&shard).and_then(|group| Some((group.term(), group.leader()?)));
        here.max(self.peers.term_and_leader(shard)).map(|(_, leader)| leader)
    }

    /// A number for each replica here that is the same on every server that has applied as much: for tests of agreement.
    pub fn digests(&self) -> BTreeMap<ShardId, (u64, u64)> {
        self.digests_with(&mut tree::DigestCache::default())
    }

    /// The same, for a caller that asks again and again.
    pub fn digests_with(&self, cache: &mut tree::DigestCache) -> BTreeMap<ShardId, (u64, u64)> {
        self.groups.iter().map(|(id, group)| (*id, (group.applied(), group.content.digest(cache)))).collect()
    }

    /// Replicas here that have stopped, why, and what to do.
    pub fn stopped_replicas(&self) -> Vec<StoppedReplica> {
        self.absent.halted.values().cloned().collect()
    }

    /// The replicas here.
    pub fn replicas(&self, now: Time) -> Vec<GroupStatus> {
        self.groups.values().map(|group| group.status(now)).collect()
    }

    /// The map of shards and servers as far as it is known here.
    pub fn map(&self) -> &Map {
        self.view.map()
    }

    /// How it is, as far as it knows itself.
    pub fn health(&self) -> crate::status::Health {
        crate::status::Health {
            server: self.config.server,
            disk: self.disk_refuses(),
            log_writes: self.disk.log_latencies.clone(),
            refusals: Vec::new(),
            other_refusals: 0,
        }
    }

    /// Everything for a status page.
    pub fn status(&self, now: Time) -> Status {
        let shards = self.view.map().shards().keys().copied();
        let offers = self.calls.rpc.describe().into_iter().filter_map(|status| {
            let bucket = status.bucket?;
            let offers =
                bucket.offers.iter().map(|offer| (offer.name.clone(), offer.path.as_ref().map(ToString::to_string)));
            Some((status.server, offers.collect()))
        });
        Status {
            cluster: self.config.cluster,
            server: self.config.server,
            map: self.view.map().clone(),
            leaders: shards.filter_map(|shard| Some((shard, self.leader_of(shard)?))).collect(),
            groups: self.replicas(now),
            peers: self.peer_statuses(now),
            election_timeout_us: self.schedule.timeout.current().as_ns() / 1_000,
            counters: self.counters(),
            offers: offers.collect(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    pub(super) fn peer_statuses(&self, now: Time) -> Vec<PeerStatus> {
        self.peers.statuses(now, self.schedule.timeout.current())
    }

    pub(super) fn stop(&mut self, why: Stop) {
        self.outbox.stop(why);
    }
}
