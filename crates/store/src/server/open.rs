//! A server's beginning.

use std::collections::{BTreeMap, BTreeSet};

use machine::nanos::Time;
use machine::{Rng, ServerId};
use placement::{ElectionTimeout, ShardId};
use tree::bounded::Entries;

use super::absent::Absent;
use super::agenda::Agenda;
use super::broker::Calls;
use super::disk::Disk;
use super::gate::Gate;
use super::meta_leader::MetaLeader;
use super::operations::Operations;
use super::outbox::Outbox;
use super::peer_table::Peers;
use super::read_meter::ReadMeter;
use super::replicas::{CHANGE_OF_MEMBERS, FOUNDED, FOUNDING, found, raft_hard_state};
use super::schedule::Schedule;
use super::view::MapView;
use super::watch_table::Watches;
use super::{Output, Server};
use crate::config::{Config, LEASE_MAX};
use crate::content::{Builder, Content};
use crate::message::check::{INDEX_MAX, TERM_MAX, is_entry};
use crate::message::{Members, SnapshotMeta, raft_entry};
use crate::protocol::VERSION_MIN;
use crate::snapshots::Snapshots;
use crate::status::Counters;
use crate::storage::Storage;

/// Why a server cannot start. Nothing on the disk was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The log or a snapshot.
    #[error(transparent)]
    Log(#[from] wal::Error),
    /// A snapshot file cannot be got from the disk.
    #[error("{file}: the snapshot of shard {shard} cannot be read: {reason}. hint: is the folder complete?")]
    Snapshot {
        /// The name of the file.
        file: String,
        /// The shard that it is of.
        shard: ShardId,
        /// What is wrong.
        reason: String,
    },
    /// A replica that was to be emptied is the only one of its shard.
    #[error(
        "shard {0}: this is its only replica, which nobody could fill again. Nothing was changed. hint: start without \
         --rebuild; if the replica cannot be read, restore a backup into a new cluster"
    )]
    OnlyReplica(ShardId),
}

/// The first server of a cluster, or several that begin together and know each other.
#[derive(Clone, Debug)]
pub struct Founding {
    /// The cluster's number.
    pub cluster: u64,
    /// Name and address, by number; numbers count from 1.
    pub servers: BTreeMap<ServerId, (String, String)>,
    /// How modules are spread over shards.
    pub strategy: placement::Strategy,
    /// The version of the protocol that all of them speak, and everybody who joins.
    pub protocol: u32,
    /// The digest of the secret by which they know each other, if the driver has them prove one.
    pub secret: Option<[u8; 32]>,
}

impl Founding {
    /// Writes what the cluster begins with into this server's log, which must be empty and identified.
    pub fn write(&self, log: &mut wal::Log) {
        let members = Members::founders(self.servers.keys().copied());
        for shard in [ShardId::META, ShardId::DEFAULT] {
            found(log, shard, members.clone());
        }
        let mut entries = Vec::new();
        let mut push = |command: &placement::Command| {
            let index = 2 + entries.len() as u64;
            entries.push(wal::Entry { index, term: 1, data: command.encode().into(), ..wal::Entry::default() });
        };
        for (id, (name, address)) in &self.servers {
            let (name, address) = (name.clone(), address.clone());
            push(&placement::Command::AddServer { name, address, metrics: None, nonce: id.0 });
        }
        push(&placement::Command::SetStrategy { strategy: self.strategy });
        if self.protocol > VERSION_MIN {
            let servers = self.servers.keys().copied().collect();
            push(&placement::Command::RaiseProtocol { to: self.protocol, servers, secret: self.secret });
        }
        let commit = 1 + entries.len() as u64;
        // Committed from the start: every founder has the same entries.
        log.append(ShardId::META.0, &entries).expect("a new log takes a few entries");
        log.hard_state(ShardId::META.0, wal::HardState { commit, ..FOUNDED });
    }
}

impl Server {
    /// Starts from what is on the disk.
    ///
    /// `members` are addresses known from joining, used until the map is there. `read` gives a snapshot file's bytes.
    ///
    /// # Errors
    /// [`OpenError`]; nothing was changed.
    pub fn open(
        config: Config,
        log: wal::Log,
        recovered: wal::Recovered,
        folder: &impl wal::Folder,
        members: BTreeMap<ServerId, String>,
        mut rng: Rng,
        now: Time,
    ) -> Result<Self, OpenError> {
        let me = config.server;
        let started_before = recovered.groups.values().any(|group| group.hard_state.term > 1);
        let mut timeout = ElectionTimeout::new(config.election);
        timeout.set_voters(1);
        // A vote or a heartbeat's answer given just before the stop may still hold up a leader's lease.
        let vote_lockout_until = if started_before { now + LEASE_MAX } else { now };
        let rpc = rpc::Rpc::new(config.server, config.incarnation, rpc::Config::default(), rng.fork(1));
        let mut operations = Operations::new(config.operations_max);
        operations.start_at(rng.bits() >> 16);
        let mut snapshots = Snapshots::default();
        snapshots.start_at(rng.fork(2).bits() >> 16);
        let mut server = Self {
            groups: BTreeMap::new(),
            absent: Absent::default(),
            agenda: Agenda::new(),
            view: MapView::new(me, members.get(&me).unwrap_or(&config.address).clone()),
            peers: Peers::default(),
            schedule: Schedule::new(timeout, now, vote_lockout_until),
            greeting: super::membership::Greeting::default(),
            operations,
            gate: Gate::default(),
            snapshots,
            disk: Disk::default(),
            watches: Watches::new(config.memory_bytes / super::memory::FOR_WATCHES),
            backups: BTreeMap::new(),
            budget: crate::budget::Budget::new(config.memory_bytes),
            reads: ReadMeter::default(),
            calls: Calls::new(rpc),
            meta: MetaLeader::new(),
            departure: super::departure::Departure::default(),
            outbox: Outbox::default(),
            counters: Counters::default(),
            is_full: false,
            rng,
            log,
            config,
        };
        for (id, group) in recovered.groups {
            server.reopen(ShardId(id), group, folder)?;
        }
        server.begin(members, now);
        Ok(server)
    }

    fn begin(&mut self, members: BTreeMap<ServerId, String>, now: Time) {
        if self.peers.set_addresses(members.clone()) {
            let others = members.into_iter().filter(|(id, _)| *id != self.config.server).collect();
            self.outbox.push(Output::Peers(others));
        }
        self.advance(now);
        self.adopt_map(now);
        // Alone there is nobody to wait for.
        for group in self.groups.values_mut().filter(|group| group.members().voters == [self.config.server.0]) {
            group.campaign();
            self.agenda.add(group.id);
        }
    }

    fn reopen(
        &mut self,
        shard: ShardId,
        group: wal::RecoveredGroup,
        folder: &impl wal::Folder,
    ) -> Result<(), OpenError> {
        if group.removed {
            self.absent.removed.insert(shard, group.hard_state);
            return Ok(());
        }
        let me = self.config.server;
        let is_only = self.config.rebuild.contains(&shard).then(|| is_only_replica(me, &group));
        if let Some(mark) = &group.snapshot {
            self.disk.snapshot_bytes.insert(shard, mark.bytes);
        }
        let floor = group.hard_state.commit;
        let applied = group.snapshot.as_ref().map_or(0, |mark| mark.index);
        match read_replica(shard, group, folder)? {
            Ok((storage, content, start)) => self.open_replica(shard, storage, content, start, floor),
            Err(reason) => self.note_stopped(shard, applied, &reason),
        }
        match is_only {
            Some(true) if self.absent.halted.contains_key(&shard) => return Err(OpenError::OnlyReplica(shard)),
            // One that is whole so far may still stop when it is applied.
            Some(false) => _ = self.absent.rebuild.insert(shard),
            Some(true) | None => {}
        }
        self.rebuild_stopped();
        Ok(())
    }

    /// Empties the replicas that have stopped and are to be filled again, each once.
    pub(super) fn rebuild_stopped(&mut self) {
        let is_due = |shard: &ShardId| self.absent.halted.contains_key(shard) && !self.disk.has_job_of(*shard);
        let due: Vec<ShardId> = self.absent.rebuild.iter().copied().filter(is_due).collect();
        for shard in due {
            self.absent.rebuild.remove(&shard);
            self.empty_replica(shard);
        }
    }

    /// The replicas that were emptied since the start, to be filled again by their leaders.
    pub fn emptied_replicas(&self) -> &BTreeSet<ShardId> {
        &self.absent.emptied
    }

    /// Lets go of what a stopped replica holds; its leader fills it again. It takes part in no election before it has what it had.
    pub(super) fn empty_replica(&mut self, shard: ShardId) {
        let wal::HardState { term, vote, commit } = self.log.hard_state_of(shard.0).unwrap_or_default();
        let last = self.log.held(shard.0).map_or(0, |(_, last)| last).max(self.log.marked(shard.0)).max(commit);
        // No election comes to such a term: it was never voted in.
        let (term, vote) = if term <= TERM_MAX { (term, vote) } else { (0, 0) };
        let hard_state = wal::HardState { term, vote, commit: last.min(INDEX_MAX) };
        self.log.hard_state(shard.0, hard_state);
        self.log.remove_group(shard.0);
        self.disk.snapshot_bytes.remove(&shard);
        self.absent.removed.insert(shard, hard_state);
        self.absent.halted.remove(&shard);
        self.outbox.take_back(|output| matches!(output, Output::ReplicaStopped(stopped) if stopped.shard == shard));
        self.absent.emptied.insert(shard);
    }
}

/// Whether it has the shard alone: nobody could fill it again.
fn is_only_replica(me: ServerId, group: &wal::RecoveredGroup) -> bool {
    let meta = group.snapshot.as_ref().and_then(|mark| postcard::from_bytes::<SnapshotMeta>(&mark.meta).ok());
    let founding = group.entries.first().filter(|entry| entry.kind == FOUNDING);
    let founders = founding.and_then(|entry| postcard::from_bytes::<Members>(&entry.data).ok());
    let members = meta.map(|meta| meta.members).or(founders).unwrap_or_default();
    let mut changes = group.entries.iter().filter(|entry| entry.kind == CHANGE_OF_MEMBERS);
    members.voters == [me.0] && changes.next().is_none()
}

/// What a replica begins with, or why it cannot.
type Replica = Result<(Storage, Content, SnapshotMeta), String>;

/// Makes a replica of what was recovered; whatever raft-rs would panic at, or could not be applied, is a reason not to.
fn read_replica(shard: ShardId, group: wal::RecoveredGroup, folder: &impl wal::Folder) -> Result<Replica, OpenError> {
    let mut content = Content::empty(shard);
    if let Some(mark) = &group.snapshot {
        content = match read_snapshot(shard, mark, folder)? {
            Ok(content) => content,
            Err(reason) => return Ok(Err(reason)),
        };
    }
    Ok(read_log(shard, group).map(|(storage, start)| (storage, content, start)))
}

fn read_log(shard: ShardId, group: wal::RecoveredGroup) -> Result<(Storage, SnapshotMeta), String> {
    let mut truncated = (group.compacted.index, group.compacted.term);
    let mut entries = group.entries;
    let mut start = SnapshotMeta::default();
    let unreadable = |what: &str| format!("{what} cannot be read: was it written by a newer program?");
    if entries.first().is_some_and(|entry| entry.kind == FOUNDING) {
        let first = entries.remove(0);
        let members = postcard::from_bytes(&first.data).map_err(|_| unreadable("the first entry of the log"))?;
        start = SnapshotMeta { index: first.index, term: first.term, members };
        truncated = (first.index, first.term);
    }
    if let Some(mark) = &group.snapshot {
        start = postcard::from_bytes(&mark.meta).map_err(|_| unreadable("what the snapshot is of"))?;
    }
    if truncated.0 + entries.len() as u64 <= start.index {
        // Nothing in the log is newer than the snapshot.
        entries.clear();
        truncated = (start.index, start.term);
    }
    let mut hard_state = group.hard_state;
    if start.index > 0 && !start.members.are_sound() {
        return Err("the log names members that no group can have".to_owned());
    }
    check_entries(shard, truncated, &entries, hard_state.term)?;
    hard_state.commit = hard_state.commit.max(start.index).min(truncated.0 + entries.len() as u64);
    let entries = entries
        .into_iter()
        .map(|entry| raft_entry(entry.kind, entry.index, entry.term, entry.data, entry.context))
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| unreadable("an entry of the log"))?;
    Ok((Storage::new(raft_hard_state(hard_state), start.clone(), truncated, entries), start))
}

/// The same as for entries that a peer sends.
fn check_entries(
    shard: ShardId,
    (index, mut term): (u64, u64),
    entries: &[wal::Entry],
    latest: u64,
) -> Result<(), String> {
    if latest > TERM_MAX {
        return Err(format!("it has reached term {latest}, which no election comes to"));
    }
    for (entry, index) in entries.iter().zip(index + 1..) {
        if entry.index != index || index > INDEX_MAX || entry.term < term || entry.term > TERM_MAX {
            return Err(format!("the log's entry {} of term {} does not follow the one before it", index, entry.term));
        }
        if !entry.context.is_empty() || !is_entry(shard, entry.kind, &entry.data, &mut Entries::unbounded()) {
            return Err(format!("the log's entry {index} is no command that this program knows"));
        }
        term = entry.term;
    }
    Ok(())
}

fn read_snapshot(
    shard: ShardId,
    mark: &wal::SnapshotMark,
    folder: &impl wal::Folder,
) -> Result<Result<Content, String>, OpenError> {
    let lost = |reason: String| OpenError::Snapshot { file: mark.file.to_string(), shard, reason };
    let bytes = folder.read(&mark.file).map_err(|error| lost(error.to_string()))?;
    let mut builder = Builder::new(shard);
    let unreadable = |reason| format!("its snapshot {} cannot be read: {reason}", mark.file);
    for chunk in wal::SnapshotFile::read(shard.0, mark, &bytes)? {
        if let Err(reason) = builder.push(chunk) {
            return Ok(Err(unreadable(reason)));
        }
    }
    Ok(builder.finish().map_err(unreadable))
}
