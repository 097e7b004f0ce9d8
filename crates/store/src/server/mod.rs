//! A server of the cluster: its replicas, its peers, its clients, its disk.
//!
//! It is a [`machine::Control`] with one liberty: several inputs may be handled before it is polled. Whatever they bring
//! about leaves together: one envelope a peer, one write for all groups.
//!
//! | module | what of a server it is |
//! |---|---|
//! | `io` | inputs and outputs |
//! | `open` | its beginning: founding a cluster, joining one, recovery from the disk |
//! | `requests` | what clients ask, made into operations |
//! | `operations` | the table of what is being carried out |
//! | `drive` | carrying it out: at the local replica, or by asking the leader |
//! | `greeting` | who may speak as a peer, which version is spoken, on which secret the cluster agrees |
//! | `peers` | other servers: envelopes, round trips, who is alive, who leads what |
//! | `replicas` | local replicas: made and removed as the map says, members changed, snapshots written |
//! | `absent` | replicas that are not running here |
//! | `reclaim` | the log kept short, in memory and on the disk |
//! | `removal` | whether a server may be taken out of the cluster |
//! | `trust` | what another server's word is worth |
//! | `upkeep` | what the leader of meta does for all: moves of prefixes, placement of leaders |
//! | `leasing` | leases of data, at their shard's leader |
//! | `watches` | clients that are notified of changes |
//! | `places` | who may have how many of the operations, calls and watches |
//! | `memory` | what is held for clients and peers, and what is said when that is too much |
//! | `backups` | content that is kept while it is backed up |
//! | `calls` | the RPC registry and broker |
//! | `alarms`, `readiness` | what somebody should look at, and what keeps it from serving |
//! | `access` | who may ask for what |

mod absent;
mod access;
mod alarms;
mod backups;
mod calls;
mod drive;
mod greeting;
mod io;
mod leasing;
mod memory;
mod open;
mod operations;
mod peers;
mod places;
mod readiness;
mod reclaim;
mod removal;
mod replicas;
mod requests;
mod trust;
mod upkeep;
mod watches;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use machine::nanos::{Span, Step, Time};
use machine::{Control, Nano, Rng, ServerId};
use placement::{ElectionTimeout, Leadership, Map, Mover, ShardId};

pub use access::Caller;
pub use greeting::Membership;
pub use io::{About, ClientId, Input, Output, RequestId, Stop};
pub use open::{Founding, OpenError};
pub use places::{Party, Places};

use crate::budget::{Budget, Kind, Owner};
use crate::config::{Config, ELECTION_TICKS, HEARTBEAT_TICKS};
use crate::group::{Effects, Group};
use crate::planted::Bug;
use crate::snapshots::Snapshots;
use crate::status::{Counters, GroupStatus, PeerStatus, Status, StoppedReplica};
use absent::Absent;
use access::Gate;
use backups::Backup;
use calls::Calls;
use io::Asked;
use memory::Pressure;
use operations::Operations;
use peers::Peers;
use reclaim::Reclaim;
use replicas::Disk;
use watches::Watches;

/// What waits for nothing in particular is looked at so often.
const UPKEEP: Span = Span::from_ms(50);

/// A server asks to be called every [`UPKEEP`]: after so long it must have stood still.
const STALL: Span = Span::from_ms(150);

/// A server that has more entries than this still to apply is not ready.
const READY_LAG: u64 = 10_000;

/// Bytes that may wait for the disk before clients are asked to come back later.
const DISK_BACKLOG_MAX: usize = 16 << 20;

/// A server of the store, as a machine.
pub struct Server {
    config: Config,
    rng: Rng,
    log: wal::Log,
    groups: BTreeMap<ShardId, Group>,
    absent: Absent,
    /// Groups that Raft may have something to say about.
    dirty: BTreeSet<ShardId>,
    /// Groups that wait for the disk.
    unsynced: BTreeSet<ShardId>,
    map: Map,
    /// The shards that have a replica here by the map.
    wanted: BTreeSet<ShardId>,
    peers: Peers,
    timeout: ElectionTimeout,
    /// When it started.
    opened: Time,
    /// Reads of old revisions since the last time that all else was looked at.
    past_reads: usize,
    /// Counted as [`Server::read_bytes`] says.
    read_bytes: u64,
    /// When it was called last, and when it was called again after it had stood still.
    seen: Time,
    stalled: Time,
    next_tick: Time,
    /// When it is asked which leaders are to be heard beside Raft's heartbeats.
    next_beat: Time,
    /// Groups that have something to do later though nothing happens, and when the first of them has.
    waiting: BTreeSet<ShardId>,
    next_due: Time,
    next_upkeep: Time,
    greeting: greeting::Greeting,
    /// Until then no vote is given: one that was given before the last stop may have been promised to a leader's lease.
    vote_lockout_until: Time,
    operations: Operations,
    /// Whose these are, and the requests that wait to be checked.
    places: Places,
    gate: Gate,
    budget: Budget,
    pressure: Pressure,
    ensuring: BTreeMap<String, Time>,
    /// Bytes that came in for logs since the log was last given anything: not in its backlog yet.
    unlogged: usize,
    snapshots: Snapshots,
    disk: Disk,
    reclaim: Reclaim,
    watches: Watches,
    /// Clients that say nothing more, and read.
    silent: BTreeSet<ClientId>,
    /// Whose they are, in bytes of memory without their events.
    watch_places: Places,
    /// The content that clients are backing up.
    backups: BTreeMap<ClientId, Backup>,
    rpc: rpc::Rpc,
    calls: Calls,
    mover: Mover,
    leadership: Leadership,
    own_leads: crate::peer::Leads,
    outputs: VecDeque<Output>,
    counters: Counters,
    /// The server's own, as the map had it last.
    address: String,
    /// The data here have reached the quota.
    is_full: bool,
    removals: removal::Questions,
    departure: trust::Departure,
    stopped: bool,
}

impl Control<Nano> for Server {
    type Input = Input;
    type Output = Output;

    fn handle(&mut self, now: Time, input: Input) {
        if self.stopped {
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
        if let Some(output) = self.outputs.pop_front() {
            return Step::Do(output);
        }
        if self.stopped {
            return Step::Wait(Time::NEVER);
        }
        self.note_time(now);
        self.work(now);
        match self.outputs.pop_front() {
            Some(output) => Step::Do(output),
            None => Step::Wait(self.next_tick.min(self.next_beat).min(self.next_due).min(self.next_upkeep)),
        }
    }
}

impl Server {
    /// The number of this server.
    pub fn id(&self) -> ServerId {
        self.config.server
    }

    /// A server that was not called for long stood still: stopped, swapped out, or on a machine that was.
    fn note_time(&mut self, now: Time) {
        let span = now.since(self.seen);
        if span > STALL {
            self.stalled = now;
            for group in self.groups.values_mut() {
                group.expiry.stood_still(span);
            }
        }
        self.seen = now;
    }

    /// Everything that is due, and everything that follows from what came in.
    fn work(&mut self, now: Time) {
        if !self.log.is_ready() {
            // What was recovered may not be on the disk yet: nothing is said before it is.
            self.take_writes(now);
            self.next_upkeep = now + UPKEEP;
            self.next_tick = self.next_upkeep;
            self.next_beat = self.next_upkeep;
            return;
        }
        self.past_reads = 0;
        self.tick(now);
        self.beat(now);
        if now >= self.next_upkeep {
            self.next_upkeep = now + UPKEEP;
            self.upkeep(now);
        }
        self.poll_rpc(now);
        if now >= self.next_due {
            self.next_due = Time::NEVER;
            self.dirty.append(&mut self.waiting);
        }
        self.advance(now);
        if !self.is_full && self.config.quota_bytes.is_some_and(|quota| self.content_bytes() >= quota) {
            self.quota_due();
            self.advance(now);
        }
        self.unlogged = 0;
        self.take_writes(now);
        self.flush_watches();
        self.flush_peers(now);
    }

    /// Ticks of before an input are not counted after it: a heartbeat would be thought older than it is, and what was promised
    /// with its answer be broken.
    fn catch_up(&mut self, now: Time) {
        if now >= self.next_tick && self.log.is_ready() && !self.config.planted.has(Bug::TicksAfterInput) {
            self.tick(now);
        }
    }

    /// Raft's clock: as many ticks as are due. After a pause of a whole timeout none: what came meanwhile is to be heard first.
    fn tick(&mut self, now: Time) {
        let tick = self.timeout.current() / ELECTION_TICKS as u64;
        let stood_still = now >= self.next_tick + tick * ELECTION_TICKS as u64;
        if stood_still && !self.config.planted.has(Bug::TicksAfterInput) {
            self.next_tick = now + tick;
            return;
        }
        let is_locked_out = now < self.vote_lockout_until;
        while now >= self.next_tick {
            self.next_tick += tick;
            for (id, group) in &mut self.groups {
                group.tick(now, is_locked_out, &mut self.rng, &mut self.counters);
                self.dirty.insert(*id);
            }
        }
    }

    /// Heartbeats for voters that wait less long than this server would.
    fn beat(&mut self, now: Time) {
        if now < self.next_beat {
            return;
        }
        let own = self.timeout.current() / ELECTION_TICKS as u64 * HEARTBEAT_TICKS as u64;
        // Timeouts, voters and their promises may change meanwhile.
        self.next_beat = now + UPKEEP;
        for (id, group) in &mut self.groups {
            if group.beat_due(own).is_some_and(|due| now >= due) {
                group.beat(now);
                self.dirty.insert(*id);
            }
            self.next_beat = group.beat_due(own).map_or(self.next_beat, |due| due.min(self.next_beat));
        }
    }

    /// Bytes that wait for the disk, or will.
    fn backlog_bytes(&self) -> usize {
        self.log.backlog_bytes() + self.unlogged
    }

    /// Lets all groups go on until they have nothing more to say.
    fn advance(&mut self, now: Time) {
        while !self.dirty.is_empty() {
            let mut effects = Effects::default();
            for id in std::mem::take(&mut self.dirty) {
                let Some(group) = self.groups.get_mut(&id) else { continue };
                group.advance(now, &mut self.log, &mut self.counters, &mut effects);
                if group.waits_for_disk() {
                    self.unsynced.insert(id);
                }
                if let Some(due) = group.due() {
                    self.waiting.insert(id);
                    self.next_due = self.next_due.min(due);
                }
            }
            self.carry_out(now, effects);
            self.sweep_failed(now);
        }
    }

    /// What groups have brought about.
    fn carry_out(&mut self, now: Time, effects: Effects) {
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
        self.timeout.current()
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
        &self.map
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
        let shards = self.map.shards().keys().copied();
        let offers = self.rpc.describe().into_iter().filter_map(|status| {
            let bucket = status.bucket?;
            let offers =
                bucket.offers.iter().map(|offer| (offer.name.clone(), offer.path.as_ref().map(ToString::to_string)));
            Some((status.server, offers.collect()))
        });
        Status {
            cluster: self.config.cluster,
            server: self.config.server,
            map: self.map.clone(),
            leaders: shards.filter_map(|shard| Some((shard, self.leader_of(shard)?))).collect(),
            groups: self.replicas(now),
            peers: self.peer_statuses(now),
            election_timeout_us: self.timeout.current().as_ns() / 1_000,
            counters: self.counters(),
            offers: offers.collect(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    fn peer_statuses(&self, now: Time) -> Vec<PeerStatus> {
        self.peers.statuses(now, self.timeout.current())
    }

    fn stop(&mut self, why: Stop) {
        self.outputs.push_back(Output::Stop(why));
        self.stopped = true;
    }
}
