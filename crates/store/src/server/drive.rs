//! Carrying operations out: at the replica here if that is the leader, else by asking the leader.

use bytes::Bytes;
use machine::ServerId;
use machine::nanos::Time;
use placement::ShardId;
use tree::Path;

use super::memory::SHORT_ANSWER_BYTES;
use super::meta_leader::Verdict;
use super::operations::elsewhere;
use super::operations::{Operation, Origin, Purpose, Route, Stage, Task};
use super::peer_table::ENTRY_BYTES_MAX;
use super::{DISK_BACKLOG_MAX, Server};
use crate::budget::{Kind, Owner};
use crate::effects::{Asker, Effects, Miss};
use crate::group::Group;
use crate::peer::{Ask, Item, PeerAnswer};
use crate::planted::Bug;
use crate::protocol::{Answer, Consistency, Error, FRAME_MAX, Leader};
use crate::read::{Read, ReadResult};
use crate::server::ClientId;
use crate::status::Refused;

/// To look at a value costs as much as to copy so many bytes, about.
const VALUE_BYTES: usize = 64;

impl Server {
    /// Begins an operation.
    pub(super) fn start(&mut self, now: Time, origin: Origin, route: Route, task: Task, deadline: Time) -> u64 {
        let id = self.operations.add(origin, route, task, deadline);
        let operation = self.operations.get(id).expect("it was just added");
        self.budget.add(operation.owner(), Kind::Requests, operation.bytes());
        if let Owner::Client(client) = operation.owner() {
            self.operations.places.take(client, &self.party(client), 1);
        }
        self.drive(now, id);
        id
    }

    /// Ends an operation.
    pub(super) fn remove_operation(&mut self, id: u64) -> Option<Operation> {
        let operation = self.operations.remove(id)?;
        self.budget.give_back(operation.owner(), Kind::Requests, operation.bytes());
        Some(operation)
    }

    /// Tries again whatever could not be done before.
    pub(super) fn retry_idle(&mut self, now: Time) {
        for id in self.operations.idle.iter().copied().collect::<Vec<_>>() {
            self.drive(now, id);
        }
    }

    /// Goes on with an operation, as far as that is possible now.
    pub(super) fn drive(&mut self, now: Time, id: u64) {
        let Some(operation) = self.operations.get_mut(id) else { return };
        let shard = match &operation.route {
            Route::Shard(shard) => *shard,
            Route::Path(path) => self.view.map().route(path),
        };
        operation.shard = shard;
        let task = operation.task.clone();
        match task {
            Task::Propose(data) if self.is_held_up(now, id, shard, &data) => {}
            Task::Propose(data) => self.drive_proposal(now, id, shard, data, |data| Ask::Propose(data.into())),
            Task::Force(data) => self.drive_proposal(now, id, shard, data, |data| Ask::Force(data.into())),
            Task::Read(read, _) if read.listed().is_some_and(|path| self.is_spread(path)) => {
                let error = read.listed().map(|path| self.spans_shards(path)).expect("it lists a path");
                self.finish(now, id, Err(error));
            }
            Task::Read(read, Consistency::Stale) if self.has_replica(shard) => self.evaluate(now, id, shard, &read),
            Task::Read(read, _) => self.drive_read(now, id, shard, Some(read)),
            Task::Confirm => self.drive_read(now, id, shard, None),
            Task::Lease(ask) => self.drive_lease(now, id, shard, ask),
            Task::MoveLeader(to) => {
                let here = self.groups.get_mut(&shard).map(|group| group.transfer(to));
                match here {
                    Some(Ok(())) => {
                        self.agenda.add(shard);
                        self.finish(now, id, Ok(PeerAnswer::Done));
                    }
                    _ => self.ask_leader(now, id, shard, Ask::MoveLeader(to)),
                }
            }
        }
    }

    /// Whether a list would have to be gathered from several shards.
    fn is_spread(&self, path: &Path) -> bool {
        !self.config.planted.has(Bug::ListRootOnly) && self.view.map().shards_under(path).len() > 1
    }

    /// Whether there is a replica here that can be read.
    fn has_replica(&self, shard: ShardId) -> bool {
        self.is_kept_up(shard) || self.groups.get(&shard).is_some_and(Group::is_leader)
    }

    /// Whether there is a replica here that its leader goes on sending everything to, as far as is known.
    pub(super) fn is_kept_up(&self, shard: ShardId) -> bool {
        let member = |group: &Group| group.applied() > 0 && group.members().has(self.config.server);
        self.view.is_wanted(shard) && self.groups.get(&shard).is_some_and(member)
    }

    /// Whether this is a removal, at the leader of meta, that may not be proposed, or not yet.
    fn is_held_up(&mut self, now: Time, id: u64, shard: ShardId, data: &[u8]) -> bool {
        if shard != ShardId::META || !self.groups.get(&shard).is_some_and(Group::is_leader) {
            return false;
        }
        match self.judge_removal(now, data) {
            Verdict::Go => return false,
            Verdict::Wait => self.operations.set_behind(id, now),
            Verdict::Refuse(why) => self.finish(now, id, Err(why)),
        }
        true
    }

    fn drive_proposal(&mut self, now: Time, id: u64, shard: ShardId, data: Bytes, ask: fn(Bytes) -> Ask) {
        let (me, bytes) = (self.config.server, data.len());
        if bytes > ENTRY_BYTES_MAX {
            // It would fit no message to the other replicas, and hold up the log for ever.
            let text = format!(
                "it has {bytes} bytes, and an entry of the log {ENTRY_BYTES_MAX} at most: ask for less at once"
            );
            self.finish(now, id, Err(Error::Invalid(text)));
            return;
        }
        let is_behind = self.backlog_bytes() > DISK_BACKLOG_MAX || !self.may_propose(bytes);
        match self.groups.get_mut(&shard).filter(|group| group.is_leader()) {
            Some(_) if is_behind => self.operations.set_behind(id, now),
            Some(group) => {
                self.disk.unlogged += bytes;
                *group.load.entry(me).or_default() += 1;
                match group.propose(data, Asker::Here(id)) {
                    Ok(()) => {
                        self.counters.proposals += 1;
                        self.budget.add(Owner::Server, Kind::Proposals, bytes);
                        self.operations.set_waiting(id, None);
                    }
                    Err(_) => self.operations.set_idle(id),
                }
                self.agenda.add(shard);
            }
            None => self.ask_leader(now, id, shard, ask(data)),
        }
    }

    fn drive_read(&mut self, now: Time, id: u64, shard: ShardId, read: Option<Read>) {
        let me = self.config.server;
        if !self.has_replica(shard) {
            match read {
                Some(read) => self.ask_leader(now, id, shard, Ask::Read(read)),
                // Only a replica here can confirm that it is new enough.
                None => self.operations.set_idle(id),
            }
            return;
        }
        let group = self.groups.get_mut(&shard).expect("there is a replica");
        if !group.is_leader() {
            self.ask_leader(now, id, shard, Ask::ReadIndex);
            return;
        }
        *group.load.entry(me).or_default() += 1;
        group.lease.used(now);
        let mut effects = Effects::default();
        self.operations.set_waiting(id, None);
        group.read_index(now, Asker::Here(id), &mut self.counters, &mut effects);
        self.agenda.add(shard);
        self.carry_out(now, effects);
    }

    /// Asks the shard's leader, if it is known. What another server has asked is not passed on: two servers that take each
    /// other for the leader would send it to and fro, each time as something new with time of its own. Its server asks
    /// whoever leads. Only an index is asked for here, to read what is here.
    pub(super) fn ask_leader(&mut self, now: Time, id: u64, shard: ShardId, ask: Ask) {
        let origin = self.operations.get(id).map(|operation| &operation.origin);
        if matches!(origin, Some(Origin::There(..))) && ask != Ask::ReadIndex {
            return self.finish(now, id, Err(elsewhere(Miss::NotLeader)));
        }
        match self.leader_of(shard).filter(|leader| *leader != self.config.server) {
            Some(leader) => {
                self.counters.forwarded += 1;
                self.peers.push(leader, Item::Ask { id, group: shard, ask });
                self.operations.set_waiting(id, Some(now));
                self.operations.note_asked(now, id, leader);
            }
            None => self.operations.set_idle(id),
        }
    }

    /// A group here has answered.
    pub(super) fn group_answered(&mut self, now: Time, asker: Asker, result: Result<PeerAnswer, Miss>) {
        match (asker, result) {
            (Asker::Here(id), Ok(answer)) => self.go_on(now, id, Ok(answer)),
            (Asker::Here(id), Err(_)) => self.operations.set_idle(id),
            (Asker::Nobody, _) => {}
            (Asker::There(to, group, id), Ok(answer)) => self.answer_there(to, id, group, Ok(answer)),
            (Asker::There(to, group, id), Err(miss)) => self.answer_there(to, id, group, Err(elsewhere(miss))),
        }
    }

    /// Another server has answered.
    pub(super) fn server_answered(
        &mut self,
        now: Time,
        id: u64,
        (from, group): (ServerId, ShardId),
        answer: Result<PeerAnswer, Error>,
    ) {
        let Some(operation) = self.operations.get(id) else { return };
        if !operation.was_asked(from) || answer.as_ref().is_ok_and(|answer| !operation.is_answered_by(answer)) {
            self.counters.refuse(Refused::Unasked);
            return;
        }
        // A second answer, or to an earlier attempt: the first was enough.
        if !matches!(operation.stage, Stage::Waiting(until) if until != Time::NEVER) {
            return;
        }
        match answer {
            Err(error) if error.is_transient() => {
                if self.peers.leader_of(operation.shard) == Some(from) {
                    self.peers.forget_leader_of(operation.shard);
                }
                self.operations.set_idle(id);
            }
            // An index of another log: of the shard that held the path when it was asked first.
            Ok(PeerAnswer::Index(_)) if group != operation.shard => {}
            answer => self.go_on(now, id, answer),
        }
    }

    fn go_on(&mut self, now: Time, id: u64, answer: Result<PeerAnswer, Error>) {
        match answer {
            Ok(PeerAnswer::Index(index)) => {
                let Some(operation) = self.operations.get(id) else { return };
                let shard = operation.shard;
                if self.groups.get(&shard).is_some_and(|group| group.applied() >= index) {
                    self.evaluate_now(now, id, shard);
                } else {
                    self.operations.set_applying(id, index);
                }
            }
            Ok(PeerAnswer::Outcome(Err(refusal))) if refusal.is_retryable() => self.operations.set_paused(id, now),
            answer => self.finish(now, id, answer),
        }
    }

    /// The replica of a shard has applied more.
    pub(super) fn replica_applied(&mut self, now: Time, shard: ShardId) {
        let Some(group) = self.groups.get(&shard) else { return };
        for id in self.operations.applied(shard, group.applied()) {
            self.evaluate_now(now, id, shard);
        }
    }

    /// The replica here has all that the operation has to see.
    fn evaluate_now(&mut self, now: Time, id: u64, shard: ShardId) {
        match self.operations.get(id).map(|operation| operation.task.clone()) {
            Some(Task::Read(read, _)) => self.evaluate(now, id, shard, &read),
            Some(Task::Confirm) => self.finish(now, id, Ok(PeerAnswer::Done)),
            Some(Task::Lease(ask)) => self.answer_lease(now, id, shard, &ask),
            Some(Task::Propose(_) | Task::Force(_) | Task::MoveLeader(_)) | None => {}
        }
    }

    fn evaluate(&mut self, now: Time, id: u64, shard: ShardId, read: &Read) {
        if matches!(read, Read::GetAt { .. } | Read::ListAt { .. }) {
            // Each looks through all recent changes: many of them must not keep everybody else waiting.
            if !self.reads.take_past() {
                self.counters.busy += 1;
                let error = self.overloaded(now, "too many ask for old revisions at once");
                return self.finish(now, id, Err(error));
            }
        }
        if !self.has_room_to_read(id, shard, read) {
            let error = self.overloaded(now, "it holds as many answers as it may");
            return self.finish(now, id, Err(error));
        }
        let data = self.groups.get(&shard).and_then(|group| group.content.data_and_past());
        let found = data.map(|(state, past)| match read {
            Read::List { at, .. } if self.config.planted.has(Bug::ListRootOnly) => {
                state.serves(&at.path).map(|()| read.find(state, past))
            }
            read => read.evaluate(state, past),
        });
        match found {
            // The leader may have been up for longer than this server.
            Some(Ok(ReadResult::Compacted(_))) if self.may_ask_leader(id, shard) => {
                self.ask_leader(now, id, shard, Ask::Read(read.clone()));
            }
            Some(Ok(found)) => self.finish(now, id, Ok(PeerAnswer::Read(found))),
            Some(Err(refusal)) if refusal.is_retryable() => self.operations.set_paused(id, now),
            Some(Err(refusal)) => self.finish(now, id, Err(Error::Refused(refusal))),
            None => self.operations.set_idle(id),
        }
    }

    /// Whether whoever asked may have what a read finds: asked before it is copied, since to copy megabytes for nothing would keep
    /// everybody else waiting.
    fn has_room_to_read(&mut self, id: u64, shard: ShardId, read: &Read) -> bool {
        let Some(Operation { origin: Origin::Client { client, .. }, .. }) = self.operations.get(id) else {
            return true;
        };
        let owner = Owner::Client(*client);
        if self.budget.admits(owner, FRAME_MAX) {
            return true;
        }
        let Some(state) = self.groups.get(&shard).and_then(|group| group.content.state()) else { return true };
        let weight = read.weigh(state);
        let has_room = weight.bytes <= SHORT_ANSWER_BYTES || self.budget.admits(owner, weight.bytes);
        if !has_room {
            self.budget.note_refused(Kind::Answers);
            self.reads.add(weight.values * VALUE_BYTES);
        }
        has_room
    }

    /// Whether a read that must be fresh was answered by a replica that does not lead.
    fn may_ask_leader(&self, id: u64, shard: ShardId) -> bool {
        let fresh = |task: &Task| matches!(task, Task::Read(_, Consistency::Linearizable));
        self.operations.get(id).is_some_and(|operation| fresh(&operation.task))
            && self.groups.get(&shard).is_some_and(|group| !group.is_leader())
    }

    /// The operation is done: whoever wanted it gets the answer.
    pub(super) fn finish(&mut self, now: Time, id: u64, answer: Result<PeerAnswer, Error>) {
        let Some(operation) = self.remove_operation(id) else { return };
        match operation.origin {
            Origin::Client { client, asked, purpose, .. } => {
                let leader = self.leader_hint(operation.shard);
                let answer = self.begin_backup(now, client, operation.shard, purpose, answer);
                let result = answer.and_then(|answer| self.answer(purpose, operation.shard, answer));
                let result = self.fit_answer(now, client, result);
                self.respond(client, asked, leader, result);
            }
            Origin::There(to, there) => self.answer_there(to, there, operation.shard, answer),
            Origin::Move(id, step) => self.move_stepped(now, id, step, answer),
            Origin::Confirm => self.confirmed(now, &answer),
            Origin::Upkeep => {}
        }
    }

    /// Keeps the content of which a client got the first chunk of a backup: the operation ends in the same call that read it.
    fn begin_backup(
        &mut self,
        now: Time,
        client: ClientId,
        shard: ShardId,
        purpose: Purpose,
        answer: Result<PeerAnswer, Error>,
    ) -> Result<PeerAnswer, Error> {
        let Ok(PeerAnswer::Read(ReadResult::Exported(mut chunk))) = answer else { return answer };
        let mut state = self.groups.get(&shard).and_then(|group| group.content.state()).cloned();
        if purpose == Purpose::BackupLasting {
            let lasting = state.map(|state| state.lasting()).ok_or_else(|| self.no_replica(shard))?;
            if let ReadResult::Exported(first) = Read::everything(None).find(&lasting, &tree::Past::new(0, 0)) {
                chunk = first;
            }
            state = Some(lasting);
        }
        if matches!(purpose, Purpose::Backup | Purpose::BackupLasting)
            && chunk.next.is_some()
            && let Some(state) = state
        {
            // The operation ends in the same call that read the chunk: this is the content it was read from.
            self.hold_backup(now, client, shard, state);
        }
        Ok(PeerAnswer::Read(ReadResult::Exported(chunk)))
    }

    fn answer(&self, purpose: Purpose, shard: ShardId, answer: PeerAnswer) -> Result<Answer, Error> {
        match answer {
            PeerAnswer::Outcome(outcome) => match outcome {
                Ok(committed) => Ok(Answer::Written { revision: committed.revision }),
                Err(tree::Refusal::Otherwise { revision, condition, actual }) => {
                    Ok(Answer::Otherwise { revision, condition, actual })
                }
                Err(refusal) => Err(Error::Refused(refusal)),
            },
            PeerAnswer::Placed(Err(refusal)) => Err(Error::Invalid(refusal.to_string())),
            PeerAnswer::Placed(Ok(effect)) if purpose == Purpose::Join => match effect {
                placement::Effect::Server(server) | placement::Effect::Replaced { new: server, .. } => {
                    let members = self.peers.addresses().clone();
                    Ok(Answer::Joined { cluster: self.config.cluster, server, members })
                }
                other => Err(Error::Invalid(format!("the join came to {other:?}"))),
            },
            PeerAnswer::Placed(Ok(effect)) => Ok(Answer::Placed(effect)),
            PeerAnswer::Read(ReadResult::Answer(answer)) => Ok(answer),
            PeerAnswer::Read(ReadResult::Exported(chunk)) => {
                Ok(Answer::Chunk { entries: chunk.entries, next: chunk.next })
            }
            PeerAnswer::Read(ReadResult::Compacted(tree::Compacted { oldest, newest })) => {
                Err(Error::Compacted { oldest, newest })
            }
            PeerAnswer::Read(ReadResult::Window(tree::Compacted { oldest, newest })) => {
                Ok(Answer::Window { shard, oldest, newest })
            }
            PeerAnswer::Done | PeerAnswer::Read(ReadResult::Leases(_)) | PeerAnswer::Index(_) => Ok(Answer::Done),
        }
    }

    pub(super) fn leader_hint(&self, shard: ShardId) -> Option<Leader> {
        let server = self.leader_of(shard)?;
        let address = self.view.map().members().get(&server)?.address.clone();
        Some(Leader { shard, server, address })
    }

    /// Whoever was asked last and has not answered may only say that it leads.
    fn distrust_silent(&mut self, now: Time, id: u64) {
        let Some(operation) = self.operations.get(id) else { return };
        let waited = matches!(operation.stage, Stage::Waiting(until) if until <= now);
        if waited && self.peers.leader_of(operation.shard) == operation.asked_last() {
            self.peers.forget_leader_of(operation.shard);
        }
    }

    /// Operations whose time has come, one way or the other.
    pub(super) fn operations_due(&mut self, now: Time) {
        let (again, over) = self.operations.due(now);
        for id in again {
            self.distrust_silent(now, id);
            self.drive(now, id);
        }
        for id in over {
            let Some(operation) = self.operations.get(id) else { continue };
            self.counters.timeouts += 1;
            let error = operation.timed_out();
            self.finish(now, id, Err(error));
        }
    }
}
