//! A server's beginning.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use machine::{Rng, ServerId, Time};
use placement::{ElectionTimeout, Leadership, Map, Mover, ShardId, leadership};

use super::operations::Operations;
use super::peers::Peers;
use super::reclaim::Reclaim;
use super::replicas::{Disk, FOUNDED, FOUNDING, found, raft_hard_state};
use super::watches::Watches;
use super::{Output, Server};
use crate::config::{Config, LEASE_MAX};
use crate::content::{Builder, Content};
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
    /// A snapshot file that is whole, and yet cannot be read.
    #[error("{file}: the snapshot of shard {shard} cannot be read: {reason}. hint: was it written by a newer program?")]
    Snapshot {
        /// The file.
        file: String,
        /// Of which shard.
        shard: ShardId,
        /// What is wrong.
        reason: String,
    },
    /// The log of a group holds what this program doesn't know.
    #[error(
        "shard {0}: the log holds an entry of a kind that this program does not know; use the program that wrote it"
    )]
    Entry(ShardId),
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
        let deaf_until = if started_before { now + LEASE_MAX } else { now };
        let rpc = rpc::Rpc::new(config.server, config.incarnation, rpc::Config::default(), rng.fork(1));
        let mut operations = Operations::default();
        operations.start_at(rng.bits() >> 16);
        let mut server = Self {
            groups: BTreeMap::new(),
            removed: BTreeMap::new(),
            dirty: BTreeSet::new(),
            unsynced: BTreeSet::new(),
            map: Map::new(),
            wanted: BTreeSet::new(),
            peers: Peers::default(),
            timeout,
            seen: now,
            stalled: now,
            next_tick: now,
            next_upkeep: now,
            next_raise: now,
            deaf_until,
            operations,
            ensuring: BTreeMap::new(),
            unlogged: 0,
            snapshots: Snapshots::default(),
            disk: Disk::default(),
            reclaim: Reclaim::default(),
            watches: Watches::default(),
            backups: BTreeMap::new(),
            rpc,
            calls: BTreeMap::new(),
            next_call: 0,
            deliveries: BTreeMap::new(),
            mover: Mover::new(),
            leadership: Leadership::new(leadership::Config::default()),
            own_leads: crate::peer::Leads::default(),
            outputs: VecDeque::new(),
            counters: Counters::default(),
            address: members.get(&me).unwrap_or(&config.address).clone(),
            leaving: false,
            out_of_meta: false,
            stopped: false,
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
            self.outputs.push_back(Output::Peers(others));
        }
        self.advance(now);
        self.adopt_map(now);
        // Alone there is nobody to wait for.
        for group in self.groups.values_mut().filter(|group| group.members().voters == [self.config.server.0]) {
            group.campaign();
            self.dirty.insert(group.id);
        }
    }

    fn reopen(
        &mut self,
        shard: ShardId,
        group: wal::RecoveredGroup,
        folder: &impl wal::Folder,
    ) -> Result<(), OpenError> {
        if group.removed {
            self.removed.insert(shard, group.hard_state);
            return Ok(());
        }
        let mut truncated = (group.compacted.index, group.compacted.term);
        let mut entries = group.entries;
        let mut start = SnapshotMeta::default();
        if entries.first().is_some_and(|entry| entry.kind == FOUNDING) {
            let first = entries.remove(0);
            let members = postcard::from_bytes(&first.data).map_err(|_| OpenError::Entry(shard))?;
            start = SnapshotMeta { index: first.index, term: first.term, members };
            truncated = (first.index, first.term);
        }
        let mut content = Content::empty(shard);
        if let Some(mark) = &group.snapshot {
            self.disk.snapshot_bytes.insert(shard, mark.bytes);
            start = postcard::from_bytes(&mark.meta).map_err(|_| OpenError::Entry(shard))?;
            content = read_snapshot(shard, mark, folder)?;
        }
        if truncated.0 + entries.len() as u64 <= start.index {
            // Nothing in the log is newer than the snapshot.
            entries.clear();
            truncated = (start.index, start.term);
        }
        let mut hard_state = group.hard_state;
        hard_state.commit = hard_state.commit.max(start.index).min(truncated.0 + entries.len() as u64);
        let entries = entries
            .into_iter()
            .map(|entry| raft_entry(entry.kind, entry.index, entry.term, entry.data, entry.context))
            .collect::<Option<Vec<_>>>()
            .ok_or(OpenError::Entry(shard))?;
        let storage = Storage::new(raft_hard_state(hard_state), start.clone(), truncated, entries);
        self.open_replica(shard, storage, content, start);
        Ok(())
    }
}

fn read_snapshot(shard: ShardId, mark: &wal::SnapshotMark, folder: &impl wal::Folder) -> Result<Content, OpenError> {
    let unreadable = |reason: String| OpenError::Snapshot { file: mark.file.to_string(), shard, reason };
    let bytes = folder.read(&mark.file).map_err(|error| unreadable(error.to_string()))?;
    let mut builder = Builder::new(shard);
    for chunk in wal::SnapshotFile::read(shard.0, mark, &bytes)? {
        builder.push(chunk).map_err(unreadable)?;
    }
    builder.finish().map_err(unreadable)
}
