//! The replicas on this server: made and removed as the map says, their members changed one step at a time, their content
//! written to the disk in the background.

use std::collections::{BTreeMap, BTreeSet};

use machine::ServerId;
use machine::nanos::{Span, Time};
use placement::{Map, ShardId, membership};

use super::disk::Job;
use super::schedule::UPKEEP;
use super::{DISK_BACKLOG_MAX, Output, Server, Stop};
use crate::budget::{Kind, Owner};
use crate::content::Content;
use crate::effects::Effects;
use crate::group::{Group, Opening};
use crate::message::{MemberChange, Members, RaftMessage, SnapshotMeta};
use crate::peer::{Item, Leads};
use crate::snapshots::Received;
use crate::status::{Refused, StoppedReplica};
use crate::storage::Storage;

/// A replica may lack so many entries and still count as caught up.
const LAG: u64 = 256;

/// An empty replica that has heard no leader for so many ticks is not waited for.
const STRAY_TICKS: u32 = 5 * crate::config::ELECTION_TICKS as u32;

/// Writes of snapshots have numbers of their own.
const SNAPSHOT_WRITES: u64 = 1 << 63;

/// Chunks of a snapshot in one write.
const CHUNKS_A_WRITE: usize = 4;

/// The kind of an entry that changes a group's members.
pub(super) const CHANGE_OF_MEMBERS: u8 = 1;

/// The entry that begins a new group's log and names its first members; Raft never sees it.
pub(super) const FOUNDING: u8 = 2;

impl Server {
    /// The map as the replica of meta here has it now.
    pub(super) fn adopt_map(&mut self, now: Time) {
        let Some(map) = self.groups.get(&ShardId::META).and_then(|group| group.content.map()) else { return };
        // A server that has left may have heard of a map that its own replica will never reach.
        if map.version() > self.view.map().version() {
            self.follow_map(now, map.clone(), true);
        }
    }

    /// `is_sure`: by this server's own log, or by two that say the same. What one says takes no replica away.
    pub(super) fn follow_map(&mut self, now: Time, map: Map, is_sure: bool) {
        self.departure.map_of_one = !is_sure;
        self.view.follow(map);
        self.adopt_members(now);
        self.make_founded_replicas();
        self.access_changed(now);
        self.reroute_watches();
        // After a restart the map may be older than the groups: what it has never heard of is not gone.
        let known = self.view.map().next_shard();
        let is_gone = |id: &&ShardId| is_sure && **id < known && !self.view.map().shards().contains_key(id);
        let gone: Vec<ShardId> = self.groups.keys().filter(is_gone).copied().collect();
        let stopped: Vec<ShardId> = self.absent.halted.keys().filter(is_gone).copied().collect();
        for shard in gone {
            self.remove_replica(shard);
        }
        for shard in stopped {
            self.log.remove_group(shard.0);
            self.absent.halted.remove(&shard);
        }
        self.end_watches();
        self.operations.wake();
        self.operations_due(now);
        self.retry_idle(now);
    }

    fn adopt_members(&mut self, now: Time) {
        let me = self.config.server;
        if !self.view.map().members().contains_key(&me) {
            self.departure.leaving = self.groups.get(&ShardId::META).is_some_and(|meta| meta.applied() > 0);
        }
        self.adopt_addresses();
        self.schedule.timeout.set_voters(self.view.map().members().len());
        self.rpc_members(now);
    }

    /// The members' addresses; and of those who have left, while they are in a group here: they must hear that they have.
    pub(super) fn adopt_addresses(&mut self) {
        let me = self.config.server;
        let mut addresses: BTreeMap<ServerId, String> = self.peers.addresses().clone();
        addresses.retain(|id, _| self.groups.values().any(|group| group.members().has(*id)));
        addresses.extend(self.peers.strangers());
        addresses.extend(self.view.map().members().values().map(|member| (member.id, member.address.clone())));
        if self.peers.set_addresses(addresses) {
            let others = self.peers.addresses().iter().filter(|(id, _)| **id != me);
            let others = others.map(|(id, address)| (*id, address.clone())).collect();
            self.outbox.push(Output::Peers(others));
        }
    }

    /// Shards whose first replicas include one here are begun as soon as the map has them.
    fn make_founded_replicas(&mut self) {
        let me = self.config.server;
        let founded: Vec<_> = (self.view.map().shards().values())
            .filter(|shard| shard.founders.contains(&me))
            .filter(|shard| !self.groups.contains_key(&shard.id) && !self.absent.removed.contains_key(&shard.id))
            .filter(|shard| !self.absent.halted.contains_key(&shard.id))
            .map(|shard| (shard.id, Members::founders(shard.founders.iter().copied())))
            .collect();
        for (shard, members) in founded {
            let first = members.voters.first() == Some(&me.0);
            self.found_replica(shard, members);
            if first && let Some(group) = self.groups.get_mut(&shard) {
                group.campaign();
            }
        }
    }

    /// Begins a group of which this server is a first member.
    pub(super) fn found_replica(&mut self, shard: ShardId, members: Members) {
        let start = found(&mut self.log, shard, members);
        let hard_state = raft_hard_state(FOUNDED);
        let storage = Storage::new(hard_state, start.clone(), (start.index, start.term), []);
        self.open_replica(shard, storage, Content::empty(shard), start, 0);
    }

    pub(super) fn open_replica(
        &mut self,
        shard: ShardId,
        storage: Storage,
        content: Content,
        start: SnapshotMeta,
        floor: u64,
    ) {
        let applied = start.index;
        let opening = Opening { id: shard, storage, content, start, floor };
        match Group::open(&self.config, opening, &mut self.rng) {
            Ok(mut group) => {
                // A group that was founded begins after its first entry, which no snapshot holds.
                group.snapshot_index = self.log.marked(shard.0);
                self.groups.insert(shard, group);
                self.absent.removed.remove(&shard);
                self.agenda.add(shard);
            }
            Err(reason) => self.note_stopped(shard, applied, &reason),
        }
    }

    /// A replica has stopped, or cannot begin. Its log stays as it is, and nothing touches it until somebody decides.
    pub(super) fn note_stopped(&mut self, shard: ShardId, applied: u64, reason: &str) {
        let name = self.view.map().shards().get(&shard).map_or_else(|| shard.to_string(), |shard| shard.name.clone());
        let reason = format!(
            "the replica of shard {name} on server {} has stopped: {reason}. The server's other replicas go on. hint: as long as a \
             majority of the shard's other replicas runs, start this server once with `--rebuild {shard}`: the replica is emptied \
             and filled again by its leader; else restore a backup into a new cluster",
            self.config.server
        );
        let stopped = StoppedReplica { shard, applied, reason };
        self.outbox.push(Output::ReplicaStopped(stopped.clone()));
        self.absent.halted.insert(shard, stopped);
    }

    /// Takes replicas that cannot go on out of everything.
    pub(super) fn sweep_failed(&mut self, now: Time) {
        let failed = |(id, group): (&ShardId, &Group)| Some((*id, group.failure()?.clone()));
        let failed: Vec<_> = self.groups.iter().filter_map(failed).collect();
        for (shard, failure) in failed {
            self.counters.panics += u64::from(failure.panicked);
            let Some(mut group) = self.groups.remove(&shard) else { continue };
            let mut effects = Effects::default();
            group.abandon(&mut effects);
            self.agenda.remove(shard);
            self.note_stopped(shard, group.applied(), &failure.reason);
            self.watches_lost(shard);
            self.end_watches();
            self.carry_out(now, effects);
        }
    }

    /// Whether there is a replica here, made empty if the map allows one: its leader will send it everything.
    pub(super) fn ensure_replica(&mut self, shard: ShardId) -> bool {
        if self.groups.contains_key(&shard) {
            return true;
        }
        if self.absent.halted.contains_key(&shard) {
            return false;
        }
        if shard != ShardId::META && !self.view.map().shards().contains_key(&shard) {
            return false;
        }
        let hard_state = self.absent.removed.get(&shard).copied().unwrap_or_default();
        let floor = hard_state.commit;
        let hard_state = wal::HardState { commit: 0, ..hard_state };
        let storage = Storage::new(raft_hard_state(hard_state), SnapshotMeta::default(), (0, 0), []);
        self.open_replica(shard, storage, Content::empty(shard), SnapshotMeta::default(), floor);
        self.groups.contains_key(&shard)
    }

    /// Takes a replica away; its vote is kept.
    pub(super) fn remove_replica(&mut self, shard: ShardId) {
        let Some(group) = self.groups.remove(&shard) else { return };
        self.budget.give_back(Owner::Server, Kind::Proposals, group.proposed_bytes());
        self.log.hard_state(shard.0, group.hard_state());
        self.log.remove_group(shard.0);
        self.disk.snapshot_bytes.remove(&shard);
        self.absent.removed.insert(shard, group.hard_state());
        self.departure.forget_words(shard);
        self.agenda.remove(shard);
        self.watches_lost(shard);
        self.end_watches();
    }

    /// Replicas that a late message made, and that nobody will ever fill.
    pub(super) fn remove_strays(&mut self) {
        let me = self.config.server;
        let stray =
            |group: &Group| group.applied() == 0 && group.leaderless_ticks() > STRAY_TICKS && group.id != ShardId::META;
        let strays: Vec<ShardId> = (self.groups.values())
            .filter(|group| stray(group) && !self.view.map().desired_replicas(group.id).contains(me))
            .map(|group| group.id)
            .collect();
        for shard in strays {
            self.remove_replica(shard);
        }
    }

    /// Leaders, members or content of groups have changed.
    pub(super) fn groups_changed(&mut self, now: Time, changed: &[ShardId]) {
        for shard in changed {
            let Some(group) = self.groups.get(shard) else { continue };
            if let Some(leader) = group.leader()
                && self.peers.note_leader(*shard, group.term(), leader)
            {
                self.operations.ask_again(now, *shard, leader);
            }
        }
        self.adopt_addresses();
        self.end_watches();
        self.schedule.upkeep_by(now + Span::from_ms(1));
        self.schedule.beat_at(now);
        self.retry_idle(now);
    }

    /// Asks whether replicas that the map does not want here may go: the leader, and others who could bear it out.
    pub(super) fn ask_leave(&mut self) {
        let me = self.config.server;
        let unwanted = |group: &&Group| {
            !group.is_leader() && (self.departure.leaving || !self.view.map().desired_replicas(group.id).contains(me))
        };
        let unwanted: Vec<ShardId> = self.groups.values().filter(unwanted).map(|group| group.id).collect();
        for group in unwanted {
            let desired = self.view.map().desired_replicas(group);
            // With meta comes the map, which may be large: of others only when this one rests on a single word.
            let asks_all = group != ShardId::META || self.departure.map_of_one;
            let others = desired.voters.iter().chain(&desired.learners).copied().filter(|_| asks_all);
            let asked: BTreeSet<ServerId> = others.chain(self.leader_of(group)).filter(|id| *id != me).collect();
            for id in asked {
                self.peers.push(id, Item::Leaving { group });
            }
        }
    }

    /// A server that was removed hands over what it leads, goes on as a voter until each of its groups has done without it,
    /// and then stops.
    pub(super) fn leave(&mut self) {
        if !self.departure.leaving {
            return;
        }
        let me = self.config.server;
        for (shard, group) in &mut self.groups {
            if group.is_leader()
                && let Some(to) = Self::ready_to_lead(group).into_iter().find(|id| *id != me)
            {
                let _ = group.transfer(to);
                self.agenda.add(*shard);
            }
        }
        let needed = |group: &Group| group.applied() > 0 && !(group.id == ShardId::META && self.departure.out_of_meta);
        if !self.groups.values().any(needed) {
            self.stop(Stop::NoMember(me));
        }
    }

    /// One step towards the desired replicas, in every group that is led from here.
    pub(super) fn reconcile_members(&mut self, now: Time) {
        let me = self.config.server;
        let live: BTreeSet<ServerId> = self.live_peers(now).into_iter().chain([me]).collect();
        for (shard, group) in &mut self.groups {
            if !group.is_leader() {
                continue;
            }
            group.seal();
            self.agenda.add(*shard);
            let near: BTreeSet<ServerId> = group.caught_up(LAG).into_iter().filter(|id| live.contains(id)).collect();
            let present = configuration(group.members());
            let change = match membership::next(&self.view.map().desired_replicas(*shard), &present, &near, me) {
                membership::Next::Nothing | membership::Next::WaitFor(_) => continue,
                membership::Next::LeaveJoint => MemberChange::default(),
                membership::Next::AddLearners(servers) => {
                    MemberChange { learners: ids(&servers), ..MemberChange::default() }
                }
                membership::Next::ChangeVoters { promote, demote, remove } => {
                    MemberChange { voters: ids(&promote), learners: ids(&demote), removed: ids(&remove) }
                }
                membership::Next::TransferLeaderFirst { to } => {
                    let _ = group.transfer(to);
                    self.agenda.add(*shard);
                    continue;
                }
                membership::Next::RemoveLearners(servers) => {
                    MemberChange { removed: ids(&servers), ..MemberChange::default() }
                }
            };
            group.change_members(&change);
            self.agenda.add(*shard);
        }
    }

    /// Voters of each group led from here that could lead it as well.
    fn ready_to_lead(group: &Group) -> Vec<ServerId> {
        let voters = &group.members().voters;
        group.caught_up(LAG).into_iter().filter(|id| voters.contains(&id.0)).collect()
    }

    // The disk.

    /// Hands out what must be written, one log write and one snapshot write at a time.
    pub(super) fn take_writes(&mut self, now: Time) {
        let is_again = self.log.is_full();
        if self.disk.log_in_flight.is_none()
            && now >= self.disk.retry_at
            && let Some(write) = self.log.take_batch()
        {
            // A batch that found no room is what it was: what has gathered since is in the next one.
            for shard in self.agenda.unsynced().filter(|_| !is_again) {
                if let Some(group) = self.groups.get_mut(&shard) {
                    group.taken(write.id);
                }
            }
            self.counters.log_writes += 1;
            self.counters.log_bytes += write.bytes() as u64;
            self.disk.log_in_flight = Some((write.id, now));
            self.outbox.push(Output::Disk(write));
        }
        if self.disk.in_flight.is_none() {
            self.next_snapshot_write();
        }
    }

    fn next_snapshot_write(&mut self) {
        let mut operations = std::mem::take(&mut self.disk.aside);
        self.disk.aside_taken.extend(operations.iter().cloned());
        if let Some(job) = self.disk.jobs.front_mut()
            && !next_part(job, &mut operations)
        {
            // No content that commands have made comes to that. Without a snapshot the log is kept longer.
            self.counters.refuse(Refused::Snapshot);
            self.disk.jobs.pop_front();
        }
        if operations.is_empty() {
            return;
        }
        self.disk.writes += 1;
        let id = SNAPSHOT_WRITES | self.disk.writes;
        self.disk.in_flight = Some(id);
        self.outbox.push(Output::Disk(wal::Write::snapshot(id, operations)));
    }

    pub(super) fn written(&mut self, now: Time, write: u64) {
        if write & SNAPSHOT_WRITES != 0 {
            if self.disk.in_flight.take_if(|id| *id == write).is_some() {
                self.disk.aside_taken.clear();
                if self.disk.jobs.front().is_some_and(|job| job.mark.is_some()) {
                    let job = self.disk.jobs.pop_front().expect("it was just seen");
                    self.snapshot_written(now, job);
                }
            }
            return;
        }
        let Some((_, since)) = self.disk.log_in_flight.take_if(|(id, _)| *id == write) else { return };
        self.disk.latency = (self.disk.latency * 7 + now.since(since)) / 8;
        self.disk.log_latencies.add(now.since(since));
        self.disk.full = None;
        self.log.done(write);
        let mut effects = Effects::default();
        for shard in self.agenda.take_unsynced() {
            let Some(group) = self.groups.get_mut(&shard) else { continue };
            group.persisted(write, self.disk.latency, &mut effects);
            if group.waits_for_disk() {
                self.agenda.add_unsynced(shard);
            }
            self.agenda.add(shard);
        }
        self.carry_out(now, effects);
    }

    pub(super) fn write_failed(&mut self, now: Time, write: u64, error: wal::DiskError) {
        if write & SNAPSHOT_WRITES != 0 {
            // A snapshot saves space and time; without it the log is kept longer. The next attempt is made later.
            self.disk.in_flight = None;
            if let Some(job) = self.disk.jobs.pop_front() {
                self.disk.abort(job);
            }
            return;
        }
        self.disk.log_in_flight = None;
        self.disk.full = Some(error.to_string());
        match self.log.failed(write, error) {
            Ok(()) => {
                let mut alone = Vec::new();
                // Others can still write: they shall lead.
                for group in self.groups.values_mut().filter(|group| group.is_leader()) {
                    let others = group.caught_up(LAG).into_iter().find(|id| *id != self.config.server);
                    if let Some(to) = others {
                        let _ = group.transfer(to);
                        self.agenda.add(group.id);
                    } else {
                        alone.push(group.id);
                    }
                }
                self.disk.retry_at = now + UPKEEP;
                self.refuse_waiting(now, &alone);
                self.schedule.upkeep_at(now + UPKEEP);
            }
            Err(error) => self.stop(Stop::Log(error.to_string())),
        }
    }

    /// Says where the log is and how much room there is, for messages about its disk.
    pub fn set_disk_place(&mut self, place: String) {
        self.disk.place = place;
    }

    /// What waits for a write that found no room, in shards that nobody else can lead, is answered so: it need not wait for its end to hear
    /// of a majority. Sent again, it is carried out once.
    fn refuse_waiting(&mut self, now: Time, shards: &[ShardId]) {
        let Some(reason) = self.disk_refuses() else { return };
        let waiting: Vec<u64> = shards.iter().flat_map(|shard| self.operations.asked_here(*shard)).collect();
        for id in waiting {
            self.finish(now, id, Err(crate::protocol::Error::Disk(reason.clone())));
        }
    }

    /// Why no writes can be taken now, if so.
    pub(super) fn disk_refuses(&self) -> Option<String> {
        if let Some(error) = &self.disk.full {
            let (name, place) = (&self.config.name, &self.disk.place);
            let place = if place.is_empty() { "its data folder" } else { place };
            return Some(format!(
                "the disk of server {name} takes no writes: {error}; hint: make room for {place}: writes go on by themselves as soon \
                 as there is some"
            ));
        }
        if self.disk.reclaim.is_late {
            return Some("the server's disk is too slow to give back what the log does not need any more".into());
        }
        (self.backlog_bytes() > DISK_BACKLOG_MAX).then(|| "the server's disk is too slow for what is written".into())
    }

    // Snapshots.

    pub(super) fn send_snapshot(&mut self, now: Time, to: ServerId, shard: ShardId, mut message: RaftMessage) {
        let Some(group) = self.groups.get(&shard) else { return };
        // Raft named the index when it found that it needs one; by now there may be more.
        message.set_snapshot(group.snapshot_meta());
        let mut out = Vec::new();
        self.snapshots.send(now, (to, shard), group.content.reader(), message, &mut out);
        self.push_all(out);
    }

    pub(super) fn snapshot_arrived(&mut self, received: Received) {
        let Received { from, group: shard, message, meta, content } = received;
        if let Err(why) = message.check(shard) {
            self.counters.refuse(why);
            return;
        }
        let known = self.ensure_replica(shard);
        let news = self.groups.get(&shard).is_some_and(|group| group.applied() < meta.index);
        if !known || !news || self.disk.has_job_of(shard) {
            return;
        }
        let reader = content.reader();
        let writer = Some(self.log.snapshot_writer(shard.0, meta.index));
        let received = Some((from, message, content));
        self.disk.jobs.push_back(Job { shard, meta, reader, writer, mark: None, received });
    }

    fn snapshot_written(&mut self, now: Time, job: Job) {
        let Job { shard, meta, mark, received, .. } = job;
        let mark = mark.expect("it is whole");
        let Some(group) = self.groups.get_mut(&shard) else { return self.disk.discard(mark.file) };
        self.counters.snapshots_written += 1;
        let bytes = mark.bytes;
        if let Some((from, message, content)) = received {
            let mut effects = Effects::default();
            let (log, counters) = (&mut self.log, &mut self.counters);
            let before = group.applied();
            match group.receive(now, (from, message), (content, mark), log, counters, &mut effects) {
                Some(unused) => self.disk.discard(unused),
                None => _ = self.disk.snapshot_bytes.insert(shard, bytes),
            }
            let jumped = group.applied() > before;
            self.agenda.add_unsynced(shard);
            self.agenda.add(shard);
            self.carry_out(now, effects);
            if jumped {
                self.watches_lost(shard);
            }
        } else if (group.snapshot_index + 1..=group.applied()).contains(&meta.index) {
            // A replica that was taken away meanwhile and made anew has not come to what this is of.
            group.snapshot_index = meta.index;
            self.log.snapshot(shard.0, mark, wal::Entries::Keep);
            self.disk.snapshot_bytes.insert(shard, bytes);
            self.release(shard);
        } else {
            self.disk.discard(mark.file);
        }
    }

    pub(super) fn snapshots_due(&mut self, now: Time) {
        let mut out = Vec::new();
        for (shard, to) in self.snapshots.tick(now, &mut out) {
            if let Some(group) = self.groups.get_mut(&shard) {
                group.report_snapshot(to, false);
            }
        }
        self.push_all(out);
    }

    /// Announces to all servers what is led from here.
    pub(super) fn announce_leads(&mut self) {
        let mut leads = Leads { address: self.view.address().to_owned(), ..Leads::default() };
        let mut load = Vec::new();
        for (shard, group) in &mut self.groups {
            if group.is_leader() {
                leads.terms.insert(*shard, group.term());
                load.push((*shard, std::mem::take(&mut group.load)));
            }
        }
        for (shard, counts) in load {
            let ready = self.groups.get(&shard).map(Self::ready_to_lead).unwrap_or_default();
            leads.ready.insert(shard, ready);
            leads.load.insert(shard, counts);
        }
        self.peers.announce(self.config.server, leads);
    }
}

/// What is next of a snapshot on its way to the disk; `false` if it cannot be written.
fn next_part(job: &mut Job, operations: &mut Vec<wal::Operation>) -> bool {
    let Some(writer) = &mut job.writer else { return true };
    for _ in 0..CHUNKS_A_WRITE {
        if let Some(chunk) = job.reader.next() {
            if !(1..=wal::CHUNK_BYTES_MAX).contains(&chunk.len()) {
                return false;
            }
            operations.extend(writer.chunk(&chunk));
            continue;
        }
        let writer = job.writer.take().expect("it was just used");
        let meta = postcard::to_stdvec(&job.meta).expect("a Vec takes everything");
        let (last, mark) = writer.finish(job.meta.term, meta.into());
        operations.extend(last);
        job.mark = Some(mark);
        return true;
    }
    true
}

/// The hard state of a group that begins.
pub(super) const FOUNDED: wal::HardState = wal::HardState { term: 1, vote: 0, commit: 1 };

/// Writes the first entry of a new group's log.
pub(super) fn found(log: &mut wal::Log, shard: ShardId, members: Members) -> SnapshotMeta {
    let data = postcard::to_stdvec(&members).expect("a Vec takes everything");
    let entry = wal::Entry { index: 1, term: 1, kind: FOUNDING, data: data.into(), ..wal::Entry::default() };
    log.append(shard.0, &[entry]).expect("a new group's log is short");
    log.hard_state(shard.0, FOUNDED);
    SnapshotMeta { index: 1, term: 1, members }
}

pub(super) fn raft_hard_state(state: wal::HardState) -> raft::eraftpb::HardState {
    let wal::HardState { term, vote, commit } = state;
    raft::eraftpb::HardState { term, vote, commit, ..Default::default() }
}

fn ids(servers: &BTreeSet<ServerId>) -> Vec<u64> {
    servers.iter().map(|id| id.0).collect()
}

fn configuration(members: &Members) -> membership::Configuration {
    let set = |list: &[u64]| list.iter().copied().map(ServerId).collect();
    membership::Configuration {
        voters: set(&members.voters),
        outgoing: set(&members.voters_outgoing),
        learners: set(&members.learners),
        learners_next: set(&members.learners_next),
    }
}
