//! A replica of one group: what Raft says and wants, in the order in which it wants it.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;

use machine::nanos::{Span, Time};
use machine::{Rng, ServerId};
use placement::ShardId;
use raft::eraftpb::{Entry, HardState};
use raft::{RawNode, StateRole};

use super::failure::{Failure, text_of};
use super::held::Commits;
use super::limits::Limits;
use super::promises::Promises;
use super::proposals::Proposals;
use super::timers::Timers;
use super::unsynced::Unsynced;
use crate::config::{Config, ELECTION_TICKS, HEARTBEAT_TICKS};
use crate::content::Content;
use crate::effects::{Asker, Effects, Miss};
use crate::expiry::Expiry;
use crate::lease::Lease;
use crate::message::{MemberChange, Members, RaftMessage, SnapshotMeta, entry_kind};
use crate::peer::PeerAnswer;
use crate::planted::{Bug, Planted};
use crate::status::{Counters, GroupStatus, RaftRole};
use crate::storage::Storage;

/// raft-rs never campaigns by itself: its randomness is not seeded. [`Group::tick`] does.
const NEVER_TICKS: usize = 1 << 20;

/// Proposals of one group, and reads of it, that wait at most; whoever comes later tries again.
pub(super) const WAITING_MAX: usize = 65_536;

/// Bytes of entries in one message, if it has more than one.
pub(super) const APPEND_BYTES_MAX: usize = 1 << 20;

/// Whatever voters say of how long they wait, a leader sends them heartbeats no closer together.
const BEATS_APART: Span = Span::from_ms(5);

/// A replica of one group.
pub(crate) struct Group {
    pub(crate) id: ShardId,
    pub(super) me: ServerId,
    pub(super) raw: RawNode<Storage>,
    pub(crate) content: Content,
    pub(crate) lease: Lease,
    /// The time of leases of data.
    pub(crate) expiry: Expiry,
    pub(super) promises: Promises,
    pub(super) proposals: Proposals,
    pub(super) commits: Commits,
    pub(super) timers: Timers,
    pub(super) unsynced: Unsynced,
    /// The bytes of log when the last snapshot on the disk was made.
    pub(crate) snapshot_index: u64,
    /// A snapshot on the disk that Raft knows of and may take.
    pub(super) received: Option<(Content, wal::SnapshotMark)>,
    pub(super) planted: Planted,
    /// Term, leader and role last reported as changed.
    pub(super) reported: (u64, u64, StateRole),
    /// Requests since the last report, by the server they came in at.
    pub(crate) load: BTreeMap<ServerId, u64>,
    pub(super) seal: Seal,
    /// Of a leader: who was needed when it was elected, or when members were sealed last.
    pub(super) needed: Vec<u64>,
    /// Bytes of all entries that were applied since the start.
    pub(crate) written_bytes: u64,
    pub(super) limits: Limits,
    /// When it last sent heartbeats beside those of Raft's clock.
    pub(super) beaten: Time,
    /// What this replica had acknowledged before it was emptied: the last index of it.
    pub(super) floor: u64,
    /// The term and the index in which this replica last had the log say whether the data may grow.
    pub(crate) growth_asked: Option<(u64, u64)>,
    /// The same of the protocol's version.
    pub(crate) protocol_asked: Option<(u64, u64)>,
    /// Why it has stopped: nothing is done with it any more.
    pub(super) failure: Option<Failure>,
}

/// Whether a majority of the present members knows by its disks that they are the members.
///
/// raft-rs goes by the members that were applied last, and a server that restarts may have forgotten that the last change
/// was committed: it then needs votes of those whom the change removed. So nobody who was removed may forget its log before
/// the change is sealed: before an entry that was proposed after the change was applied is committed. Whoever acknowledged
/// that entry wrote the commit index that came with it in the same batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seal {
    Open,
    Proposed(u64),
    Sealed,
}

/// What a group is opened with.
pub(crate) struct Opening {
    pub(crate) id: ShardId,
    pub(crate) storage: Storage,
    pub(crate) content: Content,
    pub(crate) start: SnapshotMeta,
    /// It has acknowledged entries up to this index, though it may not have them any more.
    pub(crate) floor: u64,
}

impl Group {
    /// Opens a replica.
    ///
    /// # Errors
    /// Why raft-rs cannot begin with this.
    pub(crate) fn open(config: &Config, opening: Opening, rng: &mut Rng) -> Result<Self, String> {
        let Opening { id, storage, content, start, floor } = opening;
        let logged = storage.hard_state().clone();
        let raft = raft::Config {
            id: config.server.0,
            election_tick: ELECTION_TICKS,
            min_election_tick: NEVER_TICKS,
            max_election_tick: NEVER_TICKS + 1,
            heartbeat_tick: HEARTBEAT_TICKS,
            applied: start.index,
            max_size_per_msg: APPEND_BYTES_MAX as u64,
            max_inflight_msgs: 256,
            check_quorum: true,
            pre_vote: config.pre_vote,
            max_uncommitted_size: 32 << 20,
            max_committed_size_per_ready: 4 << 20,
            ..raft::Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let begun = std::panic::catch_unwind(AssertUnwindSafe(|| RawNode::new(&raft, storage, &logger)));
        let raw = match begun {
            Ok(raw) => raw.map_err(|error| error.to_string())?,
            Err(panic) => return Err(text_of(panic.as_ref()).to_owned()),
        };
        let mut group = Self {
            id,
            me: config.server,
            raw,
            content,
            lease: Lease::new(),
            expiry: Expiry::default(),
            promises: Promises::new(config),
            proposals: Proposals::default(),
            commits: Commits::default(),
            timers: Timers::new(),
            unsynced: Unsynced::new(logged),
            snapshot_index: start.index,
            received: None,
            planted: config.planted,
            reported: (0, 0, StateRole::Follower),
            load: BTreeMap::new(),
            seal: Seal::Open,
            needed: Vec::new(),
            written_bytes: 0,
            limits: Limits::default(),
            beaten: Time::ZERO,
            floor,
            growth_asked: None,
            protocol_asked: None,
            failure: None,
        };
        group.reset_timer(rng);
        Ok(group)
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.raw.raft.state == StateRole::Leader
    }

    pub(crate) fn leader(&self) -> Option<ServerId> {
        Some(self.raw.raft.leader_id).filter(|id| *id != 0).map(ServerId)
    }

    pub(crate) fn term(&self) -> u64 {
        self.raw.raft.term
    }

    pub(crate) fn applied(&self) -> u64 {
        self.storage().applied().index
    }

    pub(crate) fn members(&self) -> &Members {
        &self.storage().applied().members
    }

    pub(crate) fn storage(&self) -> &Storage {
        self.raw.store()
    }

    /// The hard state as the log should keep it, when this replica is taken away.
    pub(crate) fn hard_state(&self) -> wal::HardState {
        self.to_wal(&self.raw.raft.hard_state())
    }

    /// A message that raft-rs may see.
    pub(super) fn step_admitted(&mut self, from: ServerId, mut message: RaftMessage) {
        if self.gives_no_way(from, &message) {
            return;
        }
        if self.is_early(&message) {
            self.timers.set_early(from, message);
            return;
        }
        message.limit_commit(self.raw.raft.raft_log.last_index());
        if let Some(message) = message.into_raft(from, self.me) {
            // An error means that the message is late: of a replica that left, or of a term that is over.
            let _ = self.raw.step(message);
        }
    }

    /// A snapshot has come as a whole and is on the disk. Gives its file back if Raft has no use for it.
    pub(crate) fn receive(
        &mut self,
        now: Time,
        (from, message): (ServerId, RaftMessage),
        snapshot: (Content, wal::SnapshotMark),
        log: &mut wal::Log,
        counters: &mut Counters,
        effects: &mut Effects,
    ) -> Option<wal::FileName> {
        self.received = Some(snapshot);
        self.step(now, (from, message), true, counters);
        self.advance(now, log, counters, effects);
        self.received.take().map(|(_, mark)| mark.file)
    }

    /// The index of the newest entry.
    pub(crate) fn last_index(&self) -> u64 {
        self.raw.raft.raft_log.last_index()
    }

    /// Seals the members, if this leader has not done so yet.
    pub(crate) fn seal(&mut self) {
        if self.seal == Seal::Open && self.is_leader() && self.raw.raft.commit_to_current_term() {
            // An entry without data: nothing is applied.
            if self.guard(|group| group.raw.propose(Vec::new(), Vec::new()).is_ok()) {
                self.seal = Seal::Proposed(self.raw.raft.raft_log.last_index());
            }
        }
    }

    /// Whether it leads members of which a majority knows that it belongs.
    pub(crate) fn is_sealed(&self) -> bool {
        self.is_leader() && self.seal == Seal::Sealed
    }

    /// Begins a change of members, if none is under way.
    pub(crate) fn change_members(&mut self, change: &MemberChange) {
        self.guard(|group| {
            let _ = group.raw.propose_conf_change(Vec::new(), change.to_raft());
        });
    }

    /// Hands the leadership over.
    pub(crate) fn transfer(&mut self, to: ServerId) -> Result<(), Miss> {
        if !self.is_leader() {
            return Err(Miss::NotLeader);
        }
        if to != self.me && self.members().voters.contains(&to.0) {
            self.guard(|group| group.raw.transfer_leader(to.0));
        }
        Ok(())
    }

    /// Reports to raft-rs how a snapshot that it wanted sent has ended.
    pub(crate) fn report_snapshot(&mut self, to: ServerId, sent: bool) {
        let status = if sent { raft::SnapshotStatus::Finish } else { raft::SnapshotStatus::Failure };
        self.guard(|group| group.raw.report_snapshot(to.0, status));
    }

    /// Messages to this server may have been lost.
    pub(crate) fn report_unreachable(&mut self, server: ServerId) {
        if self.is_leader() {
            self.guard(|group| group.raw.report_unreachable(server.0));
        }
    }

    /// Replicas that lack at most `lag` entries of what this leader has.
    pub(crate) fn caught_up(&self, lag: u64) -> Vec<ServerId> {
        let last = self.raw.raft.raft_log.last_index();
        let mut near: Vec<ServerId> = (self.raw.raft.prs().iter())
            .filter(|(_, progress)| progress.matched + lag >= last && progress.matched > 0)
            .map(|(id, _)| ServerId(*id))
            .collect();
        near.sort_unstable();
        near
    }

    /// Up to where a replica has told this leader that it knows the log to be committed; 0 of who is not in the group, or where this is no
    /// leader.
    pub(crate) fn known_committed(&self, server: ServerId) -> u64 {
        let raft = &self.raw.raft;
        match raft.prs().get(server.0) {
            Some(_) if !self.is_leader() => 0,
            Some(_) if server == self.me => raft.raft_log.committed,
            Some(progress) => progress.committed_index,
            None => 0,
        }
    }

    /// Which index must be applied to read everything that is committed now: answered as soon as it is certain that nobody
    /// else leads.
    pub(crate) fn read_index(&mut self, now: Time, asker: Asker, counters: &mut Counters, effects: &mut Effects) {
        if !self.is_leader() || self.failure.is_some() {
            effects.answers.push((asker, Err(Miss::NotLeader)));
            return;
        }
        if self.planted.has(Bug::ReadWithoutLease) {
            effects.answers.push((asker, Ok(PeerAnswer::Index(self.raw.raft.raft_log.committed))));
            return;
        }
        let term = self.term();
        if self.raw.raft.commit_to_current_term() && self.lease.holds(now, term) {
            counters.lease_reads += 1;
            effects.answers.push((asker, Ok(PeerAnswer::Index(self.raw.raft.raft_log.committed))));
            self.announce_to_askers(effects.answers.len() - 1, effects);
            return;
        }
        if self.lease.waiting() >= WAITING_MAX {
            effects.answers.push((asker, Err(Miss::NotNow)));
            return;
        }
        counters.index_reads += 1;
        self.lease.wait(asker);
        self.begin_read_round(now);
    }

    /// What another server promises.
    pub(crate) fn note_promise(&mut self, server: ServerId, promise: Span) {
        self.promises.note(server, promise);
    }

    /// By what all who vote now have promised.
    pub(super) fn lease_span(&self) -> Option<Span> {
        self.promises.lease(self.members(), self.planted)
    }

    /// When this leader is to be heard beside the heartbeats of Raft's clock, which come every `own`: voters wait by clocks of their
    /// own, whose ticks may be shorter, and hear it twice while they wait.
    pub(crate) fn beat_due(&self, own: Span) -> Option<Time> {
        let patience = self.promises.shortest_of_others(self.members())?;
        let half = (patience / 2).max(BEATS_APART);
        (self.is_leader() && !self.unsynced.is_installing() && half < own).then(|| self.beaten + half)
    }

    pub(super) fn begin_read_round(&mut self, now: Time) {
        // Before its first commit a leader doesn't know what is committed: the round begins with it.
        if self.raw.raft.commit_to_current_term()
            && let Some(context) = self.lease.begin_round(now)
        {
            self.guard(|group| group.raw.read_index(context));
        }
    }

    /// Everything that Raft has to say; the rest of what there is waits for the disk.
    pub(crate) fn advance(&mut self, now: Time, log: &mut wal::Log, counters: &mut Counters, effects: &mut Effects) {
        self.guard(|group| group.advance_guarded(now, log, counters, effects));
    }

    pub(super) fn advance_guarded(
        &mut self,
        now: Time,
        log: &mut wal::Log,
        counters: &mut Counters,
        effects: &mut Effects,
    ) {
        let before = effects.answers.len();
        loop {
            self.propose_waiting(now, effects);
            if !self.raw.has_ready() || self.failure.is_some() {
                break;
            }
            let mut ready = self.raw.ready();
            self.send(ready.take_messages(), effects);
            if !ready.snapshot().get_metadata().get_conf_state().get_voters().is_empty() {
                self.install(ready.snapshot().get_metadata(), log, effects);
            }
            let confirmed = ready.take_read_states();
            if !confirmed.is_empty() {
                self.lease.set_span(self.lease_span());
            }
            for state in confirmed {
                self.lease.confirmed(&state.request_ctx, state.index, self.raw.raft.term, effects);
            }
            let committed = ready.take_committed_entries();
            let wrote = self.persist(&mut ready, log);
            let messages = ready.take_persisted_messages();
            let number = ready.number();
            self.raw.advance_append_async(ready);
            self.await_disk(number, messages, wrote, effects);
            self.apply(committed, counters, effects);
            if self.is_leader() && self.lease.has_waiting() {
                self.begin_read_round(now);
            }
        }
        self.note_change(counters, effects);
        self.announce_to_askers(before, effects);
        self.announce_due(now, effects);
    }

    /// When it has something to do even if nothing happens: proposals that wait, or followers that are to hear what is committed.
    pub(crate) fn due(&self) -> Option<Time> {
        self.batch_due().into_iter().chain(self.commits.due()).min()
    }

    pub(super) fn note_change(&mut self, counters: &mut Counters, effects: &mut Effects) {
        effects.released_bytes += self.proposals.take_replaced_bytes();
        let now = (self.raw.raft.term, self.raw.raft.leader_id, self.raw.raft.state);
        if now == self.reported {
            return;
        }
        if self.reported.2 == StateRole::Leader {
            // Perhaps to lead again in a later term: what was asked in the old one is void all the same.
            self.lease.lost(effects);
            self.refuse_waiting(Miss::NotLeader, effects);
            self.commits.forget();
            let term = self.term();
            let leads = self.is_leader();
            self.proposals.give_up(|proposed| leads && proposed == term, effects);
        }
        counters.elected += u64::from(now.2 == StateRole::Leader);
        self.reported = now;
        self.seal = Seal::Open;
        self.needed = self.members().needed().to_vec();
        effects.changed.push(self.id);
    }

    /// Forgets log that the snapshot on the disk makes needless.
    pub(crate) fn release(&mut self, keep_bytes: u64, log: &mut wal::Log) {
        let marked = log.marked(self.id.0);
        let index = self.snapshot_index.min(marked).min(self.raw.store().index_keeping(keep_bytes));
        self.raw.mut_store().compact(index);
        // On the disk there may be more: the entry that began the group, or what a snapshot overtook.
        let (index, term) = self.raw.store().truncated();
        if index <= marked && log.held(self.id.0).is_some_and(|(first, last)| first <= index && index <= last) {
            log.compact(self.id.0, wal::Position { index, term });
        }
    }

    /// Writes all of its log again, at the end of the disk's.
    pub(crate) fn rewrite(&self, log: &mut wal::Log) {
        let entries: Vec<wal::Entry> = self.storage().all().map(to_wal_entry).collect();
        let ends = entries.first().zip(entries.last()).map(|(first, last)| (first.index, last.index));
        debug_assert_eq!(log.held(self.id.0), ends, "group {}", self.id);
        if log.held(self.id.0) == ends {
            log.rewrite(self.id.0, &entries);
        }
    }

    /// The state machine is this far: what a snapshot made now would be of.
    pub(crate) fn snapshot_meta(&self) -> SnapshotMeta {
        self.storage().applied().clone()
    }

    pub(crate) fn status(&self, now: Time) -> GroupStatus {
        let raft = &self.raw.raft;
        let ids = |list: &[u64]| list.iter().copied().map(ServerId).collect::<Vec<_>>();
        // Others may still need those who voted before a change, until the new members are sealed.
        let members = self.members();
        let voters = if self.is_leader() { &self.needed } else { members.needed() };
        GroupStatus {
            shard: self.id,
            role: match raft.state {
                StateRole::Leader => RaftRole::Leader,
                StateRole::Candidate => RaftRole::Candidate,
                StateRole::PreCandidate => RaftRole::PreCandidate,
                StateRole::Follower if members.learners.contains(&self.me.0) => RaftRole::Learner,
                StateRole::Follower => RaftRole::Follower,
            },
            term: raft.term,
            leader: self.leader(),
            commit: raft.raft_log.committed,
            applied: self.applied(),
            first: self.storage().first(),
            last: raft.raft_log.last_index(),
            voters: ids(voters),
            learners: members.all().filter(|id| !voters.contains(&id.0)).collect::<BTreeSet<_>>().into_iter().collect(),
            entries: self.content.entries(),
            bytes: self.content.bytes(),
            revision: self.content.revision(),
            lease: self.is_leader() && self.lease.holds(now, raft.term),
        }
    }

    /// What this replica had acknowledged stays written down until it has it again.
    pub(super) fn to_wal(&self, state: &HardState) -> wal::HardState {
        let commit = if self.applied() < self.floor { state.commit.max(self.floor) } else { state.commit };
        wal::HardState { term: state.term, vote: state.vote, commit }
    }

    /// Entries that are in the log and not applied, for tests of agreement.
    pub(crate) fn unapplied(&self) -> u64 {
        self.raw.raft.raft_log.last_index() - self.applied()
    }
}

pub(super) fn to_wal_entry(entry: &Entry) -> wal::Entry {
    wal::Entry {
        index: entry.index,
        term: entry.term,
        kind: entry_kind(entry),
        context: entry.context.clone(),
        data: entry.data.clone(),
    }
}
