//! Other servers: what is on its way to them, how far away they are, whether they live, and what they lead.

use machine::ServerId;
use machine::nanos::{Span, Time};
use placement::ShardId;
use tree::bounded::Entries;

use super::{DISK_BACKLOG_MAX, Output, Server};
use crate::budget::{Kind, Owner};
use crate::effects::{Asker, Effects, Miss};
use crate::group::Group;
use crate::message::{COMMAND_ENTRIES_MAX, RaftMessage};
use crate::peer::{Ask, ENVELOPE_BYTES, Echo, Envelope, Item, Leads, PeerAnswer};
use crate::protocol::{Consistency, Error};
use crate::status::Refused;

use super::meta_leader::Verdict;
use super::operations::{Origin, Route, Task, elsewhere};
use super::peer_table::{ENTRY_BYTES_MAX, ITEM_BYTES_MAX, patience};

/// What a read of another server, or what it asks of leases, is taken to cost.
const REMOTE_BYTES: usize = 4 << 10;

/// A server is reminded of its removal so often: with the reminder comes the map, which may be large.
const REMINDED_APART: Span = Span::from_ms(500);

/// For how long an operation of another server is worth anything.
const REMOTE_DEADLINE: Span = Span::from_secs(2);

impl Server {
    pub(super) fn live_peers(&self, now: Time) -> Vec<ServerId> {
        self.peers.live(now, patience(self.schedule.timeout.current()))
    }

    pub(super) fn peer_said(&mut self, now: Time, from: ServerId, envelope: Envelope) {
        if !self.log.is_ready() || from == self.config.server {
            return;
        }
        let peer = self.peers.all.entry(from).or_default();
        let before = peer.promise.map(|(promise, _)| promise);
        let promise = peer.note_promise(now, envelope.promise);
        if before != Some(promise) {
            for group in self.groups.values_mut() {
                group.note_promise(from, promise);
            }
        }
        peer.heard = Some(now);
        peer.stamp = Some((envelope.stamp, now));
        // An answer to what was sent before a restart measures nothing, and says nothing of who lives now.
        if let Some(Echo { stamp: sent, delay }) =
            envelope.echo.filter(|echo| (self.schedule.opened()..=now).contains(&echo.stamp))
        {
            let round_trip = now.since(sent + delay);
            peer.round_trip = Some(round_trip);
            peer.answered = peer.answered.max(Some(sent));
            // What was on its way while this server stood still says nothing of the network.
            if sent >= self.schedule.stalled() {
                self.schedule.timeout.sample(now, from, round_trip + self.disk.latency());
            }
        }
        for item in envelope.items {
            self.take_item(now, from, item);
        }
    }

    fn take_item(&mut self, now: Time, from: ServerId, item: Item) {
        match item {
            Item::Raft { group, message } => self.raft_said(now, from, group, message),
            Item::Ask { id, group, ask } => self.asked(now, (from, id), group, ask),
            Item::Answer { id, group, answer } => self.server_answered(now, id, (from, group), answer),
            Item::Snapshot(chunk) => {
                if !self.may_fill(from, chunk.group) {
                    self.counters.refuse(Refused::Snapshot);
                    let refused = Item::SnapshotTaken { transfer: chunk.transfer, next: 0, refused: true };
                    self.peers.push(from, refused);
                    return;
                }
                let mut out = Vec::new();
                let received = self.snapshots.receive(now, from, chunk, self.config.snapshot_bytes_max, &mut out);
                match received {
                    Ok(Some(received)) => self.snapshot_arrived(received),
                    Ok(None) => {}
                    Err(why) => self.counters.refuse(why),
                }
                self.push_all(out);
            }
            Item::SnapshotTaken { transfer, next, refused } => {
                let mut out = Vec::new();
                let ended = self.snapshots.taken(now, (from, transfer), (next, refused), &mut out);
                self.push_all(out);
                if let Some((shard, to, arrived)) = ended
                    && let Some(group) = self.groups.get_mut(&shard)
                {
                    group.report_snapshot(to, arrived);
                    self.agenda.add(shard);
                }
            }
            Item::Leads(leads) => self.note_leads(now, from, leads),
            Item::Leaving { group } => self.say_no_member(from, group),
            Item::NoMember { group, index, map, sealed } => self.no_member(now, from, (group, index), map, sealed),
            Item::Rpc(message) => self.rpc_said(now, from, message),
            Item::Secret(secret) => self.secret_proposed(from, secret),
            Item::SecretKept(digest) => self.greeting.note_kept(from, digest),
        }
    }

    fn raft_said(&mut self, now: Time, from: ServerId, shard: ShardId, message: RaftMessage) {
        if message.snapshot().is_some() {
            // It comes behind its chunks, or not at all: there is nothing that Raft could install.
            self.counters.refuse(Refused::Snapshot);
            return;
        }
        if message.is_request_for_vote() && !self.groups.get(&shard).is_some_and(Group::may_vote) {
            // A replica that is empty was made by a message. It may have been here before, with a log that is gone: its vote
            // could elect somebody who lacks what that log had acknowledged. Nobody needs the vote: it is filled as a learner.
            return;
        }
        if message.is_campaign() {
            if self.schedule.is_locked_out(now) {
                return;
            }
            let Some(group) = self.groups.get(&shard) else { return };
            // The members here may be the older ones: then the candidate's log is longer, and it gets its vote.
            if !group.members().has(from) && message.candidate_index() <= group.applied() {
                self.say_no_member(from, shard);
                return;
            }
        }
        // A disk that cannot follow takes no more: what is not acknowledged is sent again.
        if self.backlog_bytes() > 2 * DISK_BACKLOG_MAX || !self.ensure_replica(shard) {
            return;
        }
        self.disk.unlogged += message.weight();
        if let Some(group) = self.groups.get_mut(&shard) {
            let desired = !group.members().votes(from) && self.view.map().desired_replicas(shard).contains(from);
            group.step(now, (from, message), desired, &mut self.counters);
            self.agenda.add(shard);
        }
    }

    fn say_no_member(&mut self, to: ServerId, shard: ShardId) {
        let Some(group) = self.groups.get(&shard) else { return };
        let sealed = group.is_sealed();
        // An empty replica knows of no members.
        if group.members().has(to) || group.applied() == 0 {
            return;
        }
        // Once until it is sent: the map may be large, and who asks has no right to it.
        if !self.peers.all.entry(to).or_default().out_of.insert(shard) {
            return;
        }
        let map = group.content.map().map(placement::Map::encode);
        self.peers.push(to, Item::NoMember { group: shard, index: group.applied(), map, sealed });
    }

    /// A server that was removed leads a shard: so it may have missed its removal, and know nobody any more whom it would ask.
    fn remind_of_removal(&mut self, now: Time, server: ServerId) {
        let peer = self.peers.all.entry(server).or_default();
        if peer.reminded.is_none_or(|at| now.since(at) >= REMINDED_APART) {
            peer.reminded = Some(now);
            self.say_no_member(server, ShardId::META);
        }
    }

    /// Whether another operation may begin for another server.
    fn may_start_for(&self, server: ServerId) -> bool {
        self.operations.len() < self.config.operations_max && self.budget.admits(Owner::Peer(server), REMOTE_BYTES)
    }

    fn asked(&mut self, now: Time, (from, id): (ServerId, u64), shard: ShardId, ask: Ask) {
        let asker = Asker::There(from, shard, id);
        let mut effects = Effects::default();
        let bytes = if let Ask::Propose(data) | Ask::Force(data) = &ask { data.len() } else { 0 };
        let is_behind = self.backlog_bytes() > DISK_BACKLOG_MAX || !self.may_propose(bytes);
        let is_full = !self.may_start_for(from);
        if let Ask::Propose(data) = &ask
            && shard == ShardId::META
            && self.groups.get(&shard).is_some_and(Group::is_leader)
        {
            let answer = match self.judge_removal(now, data) {
                Verdict::Go => None,
                Verdict::Wait => Some(elsewhere(Miss::NotNow)),
                Verdict::Refuse(why) => Some(why),
            };
            if let Some(why) = answer {
                return self.answer_there(from, id, shard, Err(why));
            }
        }
        let taken = match (ask, self.groups.get_mut(&shard)) {
            (Ask::Read(_) | Ask::Lease(_), Some(_)) if is_full => Err(Miss::NotNow),
            (Ask::Read(read), Some(_)) => {
                let origin = Origin::There(from, id);
                let task = Task::Read(read, Consistency::Linearizable);
                self.start(now, origin, Route::Shard(shard), task, now + REMOTE_DEADLINE);
                Ok(())
            }
            (Ask::Lease(lease), Some(_)) => {
                let origin = Origin::There(from, id);
                self.start(now, origin, Route::Shard(shard), Task::Lease(lease), now + REMOTE_DEADLINE);
                Ok(())
            }
            (Ask::Propose(_) | Ask::Force(_), Some(_)) if is_behind => Err(Miss::NotNow),
            (Ask::Propose(data) | Ask::Force(data), Some(group)) => {
                self.disk.unlogged += data.len();
                if data.len() <= ENTRY_BYTES_MAX && is_command(shard, &data) {
                    *group.load.entry(from).or_default() += 1;
                    self.counters.proposals += 1;
                    group
                        .propose(data.into(), asker)
                        .inspect(|()| self.budget.add(Owner::Server, Kind::Proposals, bytes))
                } else {
                    self.counters.malformed += 1;
                    let answer = Err(Error::Invalid("that is no command for this shard".into()));
                    self.peers.push(from, Item::Answer { id, group: shard, answer });
                    Ok(())
                }
            }
            (Ask::ReadIndex, Some(group)) => {
                *group.load.entry(from).or_default() += 1;
                group.lease.used(now);
                group.read_index(now, asker, &mut self.counters, &mut effects);
                Ok(())
            }
            (Ask::MoveLeader(to), Some(group)) => group.transfer(to).map(|()| {
                effects.answers.push((asker, Ok(PeerAnswer::Done)));
            }),
            (_, None) => Err(Miss::NotLeader),
        };
        if let Err(miss) = taken {
            effects.answers.push((asker, Err(miss)));
        }
        self.agenda.add(shard);
        self.carry_out(now, effects);
    }

    fn note_leads(&mut self, now: Time, from: ServerId, leads: Leads) {
        let leads = self.believable_leads(from, leads);
        if !self.view.map().members().contains_key(&from) && self.peers.note_stranger(now, from, &leads.address) {
            self.adopt_addresses();
        }
        // For groups that are newer than its last word.
        if let Some((promise, _)) = self.peers.all.get(&from).and_then(|peer| peer.promise) {
            for group in self.groups.values_mut() {
                group.note_promise(from, promise);
            }
        }
        if !leads.terms.is_empty() && !self.view.map().members().contains_key(&from) {
            self.remind_of_removal(now, from);
        }
        // Whoever led and says so no more leads no more; one that is silent is forgotten in time.
        self.peers.leaders.retain(|shard, (_, leader)| *leader != from || leads.terms.contains_key(shard));
        let mut news = Vec::new();
        for (shard, term) in &leads.terms {
            if self.peers.note_leader(*shard, *term, from) {
                news.push(*shard);
                self.operations.ask_again(now, *shard, from);
            }
        }
        if let Some(peer) = self.peers.all.get_mut(&from) {
            let mut load = std::mem::take(&mut peer.leads.load);
            for (shard, origins) in &leads.load {
                let counts = load.entry(*shard).or_default();
                for (origin, count) in origins {
                    let sum = counts.entry(*origin).or_default();
                    *sum = sum.saturating_add(*count);
                }
            }
            peer.leads = Leads { load, ..leads };
        }
        if !news.is_empty() {
            self.retry_idle(now);
        }
    }

    pub(super) fn peer_lost(&mut self, now: Time, peer: ServerId) {
        self.peers.forget_connection(peer);
        self.greeting.forget(peer);
        for (id, group) in &mut self.groups {
            group.report_unreachable(peer);
            self.agenda.add(*id);
        }
        self.rpc_lost(now, peer);
    }

    pub(super) fn push_all(&mut self, items: Vec<(ServerId, Item)>) {
        for (to, item) in items {
            self.peers.push(to, item);
        }
    }

    /// Everything that has gathered, one envelope a peer.
    pub(super) fn flush_peers(&mut self, now: Time) {
        let promise = self.config.promise();
        for (to, peer) in &mut self.peers.all {
            peer.bytes = 0;
            peer.out_of.clear();
            if peer.items.is_empty() || !self.peers.addresses.contains_key(to) {
                // Nobody knows the address: the map will have it, and Raft repeats.
                peer.items.clear();
                continue;
            }
            let echo = peer.stamp.map(|(stamp, came)| Echo { stamp, delay: now.since(came) });
            for part in cut(std::mem::take(&mut peer.items), &mut self.counters.malformed) {
                let envelope = Envelope { stamp: now, echo, promise, items: part };
                self.outbox.push(Output::Peer { to: *to, envelope });
            }
        }
    }

    pub(super) fn answer_there(&mut self, to: ServerId, id: u64, group: ShardId, answer: Result<PeerAnswer, Error>) {
        self.peers.push(to, Item::Answer { id, group, answer });
    }
}

/// Items in parts that fit envelopes. What fits none is counted and left out, but for answers: whoever asked hears why.
fn cut(items: Vec<Item>, dropped: &mut u64) -> Vec<Vec<Item>> {
    let mut parts: Vec<Vec<Item>> = Vec::new();
    let mut weight = ENVELOPE_BYTES;
    for mut item in items {
        let mut more = item.weight();
        if more > ITEM_BYTES_MAX {
            *dropped += 1;
            let Item::Answer { id, group, .. } = item else { continue };
            item = Item::Answer { id, group, answer: Err(Error::TooLarge(more as u64)) };
            more = item.weight();
        }
        if let Some(part) = parts.last_mut().filter(|_| weight + more <= ENVELOPE_BYTES) {
            part.push(item);
        } else {
            weight = 0;
            parts.push(vec![item]);
        }
        weight += more;
    }
    parts
}

/// Whether bytes of another server are what the shard's log may hold.
fn is_command(shard: ShardId, data: &[u8]) -> bool {
    let mut entries = Entries::at_most(COMMAND_ENTRIES_MAX);
    if shard == ShardId::META {
        // What only the leader of meta finds, it proposes itself.
        placement::Command::decode_bounded(data, &mut entries).is_ok_and(|command| {
            command.check().is_ok() && !matches!(command, placement::Command::RaiseProtocol { .. })
        })
    } else {
        match tree::Command::decode_bounded(data, &mut entries) {
            Ok(tree::Command::Write { transaction, .. }) => transaction.check().is_ok(),
            Ok(tree::Command::WriteOrElse { transaction, otherwise, .. }) => transaction.check_with(&otherwise).is_ok(),
            // Only the leader knows what time it is, how much it holds and what the map says, and it asks nobody.
            Ok(tree::Command::Expire { .. } | tree::Command::Growth { .. } | tree::Command::Protocol { .. })
            | Err(_) => false,
            Ok(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use machine::ServerId;
    use machine::nanos::{Span, Time};
    use placement::ShardId;
    use tree::{Location, Path, Refusal, SessionId, SessionRecord};

    use super::{Ask, Echo, Envelope, Error, ITEM_BYTES_MAX, Item, PeerAnswer, cut};
    use crate::protocol::{Answer, encode_frame};
    use crate::read::{Read, ReadResult};

    fn long_path() -> Path {
        Path::parse(&format!("/car:cars/car-entry={}", "x".repeat(900))).expect("a path")
    }

    fn call() -> Item {
        let attempt = rpc::AttemptId { incarnation: 1, sequence: 1 };
        let (name, input) = ("people:add".to_owned(), vec![7; 1 << 20].into());
        Item::Rpc(rpc::Message::Call { attempt, receiver: 1, name, path: None, input, timeout: Span::from_secs(1) })
    }

    fn answer(answer: PeerAnswer) -> Item {
        Item::Answer { id: u64::MAX, group: ShardId(u64::MAX), answer: Ok(answer) }
    }

    /// The outcomes of a session are refusals with paths: a chunk of a move takes each for 24 bytes.
    fn chunk_of_refusals() -> Item {
        let refusal = || Err(Refusal::Missing { at: Location::config(long_path()) });
        let outcomes = || (0..1_024).map(|sequence| (sequence, refusal())).collect();
        let record = |id| SessionRecord { id: SessionId(id), used: 1, floor: 0, expired: false, outcomes: outcomes() };
        let sessions = (0..10).map(record).collect();
        answer(PeerAnswer::Read(ReadResult::Exported(tree::Chunk {
            entries: Vec::new(),
            sessions,
            revision: 1,
            next: None,
        })))
    }

    fn fit(items: Vec<Item>) -> usize {
        let (count, mut dropped) = (items.len(), 0);
        let parts = cut(items, &mut dropped);
        assert_eq!((parts.iter().map(Vec::len).sum::<usize>(), dropped), (count, 0));
        for part in &parts {
            let items = part.clone();
            let weight: usize = items.iter().map(Item::weight).sum();
            let longest = Span::from_ns(u64::MAX);
            let echo = Some(Echo { stamp: Time::NEVER, delay: longest });
            let envelope = Envelope { stamp: Time::NEVER, echo, promise: longest, items };
            let mut frame = Vec::new();
            encode_frame(&envelope, &mut frame).expect("an envelope fits a frame");
            assert!(frame.len() < weight + 128, "{} bytes were taken for {weight}", frame.len());
        }
        parts.len()
    }

    #[test]
    fn envelopes_fit_frames_whatever_is_in_them() {
        assert!(fit((0..20).map(|_| call()).collect()) > 4);
        assert_eq!(fit((0..3).map(|_| chunk_of_refusals()).collect()), 3);
        let read = || Read::List { at: Location::config(long_path()), after: Some(long_path()), limit: 1 };
        let ask = |id| Item::Ask { id, group: ShardId(1), ask: Ask::Read(read()) };
        assert!(fit((0..20_000).map(ask).collect()) > 4);
        let entries = || (0..8).map(|_| (long_path(), 1, vec![7; (1 << 20) - 2_000])).collect();
        let list = || answer(PeerAnswer::Read(ReadResult::Answer(Answer::Values { entries: entries(), more: true })));
        assert_eq!(fit((0..4).map(|_| list()).collect()), 4);
        let small = |id| Item::Ask { id, group: ShardId(1), ask: Ask::MoveLeader(ServerId(id)) };
        assert_eq!(fit((0..1_000).map(small).chain([answer(PeerAnswer::Done)]).collect()), 1);
    }

    #[test]
    fn an_answer_that_fits_no_frame_says_so_and_holds_nothing_else_up() {
        let entries = vec![(long_path(), 1, vec![7; ITEM_BYTES_MAX])];
        let large = answer(PeerAnswer::Read(ReadResult::Answer(Answer::Values { entries, more: false })));
        let mut dropped = 0;
        let parts = cut(vec![call(), large, call()], &mut dropped);
        assert_eq!((parts.len(), parts[0].len(), dropped), (1, 3, 1));
        assert!(matches!(&parts[0][1], Item::Answer { answer: Err(Error::TooLarge(_)), .. }));
    }
}
