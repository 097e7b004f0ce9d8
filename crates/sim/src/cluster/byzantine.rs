//! A server that lies: what it says to others is changed, repeated and made up on its way out.
//!
//! It knows the protocol and what others have sent to it. Who sends a message cannot be forged (the transport binds that), and what the
//! server itself does stays honest: so its own clients, and its replicas, are judged like all others.
//!
//! | [`Lies`] | what is demanded |
//! |---|---|
//! | `Bounded` | all that is demanded without it: such lies may cost time, never data or a server |
//! | `Any` | no server panics, stops or loses a replica: a voter that lies about votes and logs can break Raft's promises |

use std::collections::{BTreeMap, VecDeque};

use machine::nanos::{Span, Time};
use machine::{Rng, ServerId};
use placement::ShardId;
use store::message::{Kind, LogEntry, Members, RaftMessage, SnapshotMeta};
use store::peer::{Ask, Echo, Envelope, Item, Leads, PeerAnswer};
use store::snapshots::Chunk;

/// What a liar says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lies {
    /// What a server can tell to be false, or can do without believing.
    Bounded,
    /// Anything that the protocol has words for.
    Any,
}

/// Messages that are kept to be repeated.
const KEPT_MAX: usize = 64;

/// One envelope in so many is left as it is.
const HONEST_ONE_IN: u32 = 3;

/// The liar's way out.
#[derive(Debug)]
pub struct Byzantine {
    /// Who it is.
    pub server: ServerId,
    lies: Lies,
    until: Time,
    rng: Rng,
    /// Term and last index that were seen of each group.
    seen: BTreeMap<ShardId, (u64, u64)>,
    /// By receiver: a heartbeat to another says of this one what its leader does not know.
    kept: BTreeMap<ServerId, VecDeque<Item>>,
    /// Numbers of others' questions and transfers.
    numbers: VecDeque<u64>,
    /// How many lies it has sent.
    pub lies_sent: u64,
}

/// The longest time that can be sent over the wire, which has picoseconds.
const LONGEST: Span = Span::from_ns(u64::MAX / 1_000);

impl Byzantine {
    /// It lies from one second after the start until `active` is over.
    pub fn new(server: ServerId, lies: Lies, active: Span, rng: Rng) -> Self {
        let until = Time::ZERO + active;
        let seen = BTreeMap::from([(ShardId::META, (1, 1)), (ShardId::DEFAULT, (1, 1))]);
        let (kept, numbers) = (BTreeMap::new(), VecDeque::new());
        Self { server, lies, until, rng, seen, kept, numbers, lies_sent: 0 }
    }

    /// What comes to it.
    pub fn observe(&mut self, envelope: &Envelope) {
        for item in &envelope.items {
            match item {
                Item::Raft { group, message } => self.note(*group, message),
                Item::Ask { id, .. } => self.number(*id),
                Item::Snapshot(chunk) => self.number(chunk.transfer),
                _ => {}
            }
        }
    }

    fn note(&mut self, group: ShardId, message: &RaftMessage) {
        let seen = self.seen.entry(group).or_default();
        seen.0 = seen.0.max(message.term);
        let last = message.index + message.entries.len() as u64;
        if last < 1 << 32 {
            seen.1 = seen.1.max(last);
        }
    }

    fn number(&mut self, number: u64) {
        self.numbers.push_back(number);
        self.numbers.truncate(KEPT_MAX);
    }

    /// What it says to a server in place of this.
    pub fn speak(&mut self, now: Time, to: ServerId, mut envelope: Envelope) -> Envelope {
        if now < Time::ZERO + Span::from_secs(1) || now >= self.until || self.rng.below(HONEST_ONE_IN) == 0 {
            return envelope;
        }
        let mut items = Vec::new();
        for item in std::mem::take(&mut envelope.items) {
            if let Item::Raft { group, message } = &item {
                self.note(*group, message);
            }
            let kept = self.kept.entry(to).or_default();
            if kept.len() >= KEPT_MAX {
                kept.pop_front();
            }
            kept.push_back(item.clone());
            match self.rng.below(8) {
                0 => self.lies_sent += 1,
                1 | 2 => {
                    let changed = self.changed(item.clone());
                    items.push(changed);
                    if self.lies == Lies::Bounded || self.rng.below(2) == 0 {
                        items.push(item);
                    }
                }
                _ => items.push(item),
            }
        }
        for _ in 0..self.rng.below(6) {
            let forged = self.forged();
            items.push(forged);
        }
        let from = if self.lies == Lies::Any { ServerId(1 + u64::from(self.rng.below(5))) } else { to };
        if self.rng.below(4) == 0
            && let Some(kept) = self.kept.get(&from).filter(|kept| !kept.is_empty())
        {
            // Something of long ago: it was true then, and Raft takes care of what is late.
            let old = kept[self.rng.below(kept.len() as u32) as usize].clone();
            items.push(old);
        }
        envelope.items = items;
        match self.rng.below(10) {
            0 => envelope.promise = Span::ZERO,
            1 => envelope.echo = Some(Echo { stamp: Time::ZERO, delay: Span::ZERO }),
            2 => envelope.echo = Some(Echo { stamp: now, delay: LONGEST }),
            3 => envelope.stamp = Time::NEVER,
            _ => {}
        }
        envelope
    }

    fn odd(&mut self, near: u64) -> u64 {
        match self.rng.below(8) {
            0 => 0,
            1 => u64::MAX,
            2 => u64::MAX - 1,
            3 => near.saturating_add(1),
            4 => near.saturating_sub(1),
            5 => 1 << self.rng.below(64),
            6 => near.saturating_add(u64::from(self.rng.below(1_000))),
            _ => self.rng.bits(),
        }
    }

    fn group(&mut self) -> ShardId {
        let groups: Vec<ShardId> = self.seen.keys().copied().collect();
        match self.rng.below(10) {
            0 => ShardId(self.rng.bits()),
            _ => groups[self.rng.below(groups.len() as u32) as usize],
        }
    }

    fn some_server(&mut self) -> u64 {
        if self.rng.below(4) == 0 { self.odd(4) } else { 1 + u64::from(self.rng.below(6)) }
    }

    /// A message with a field changed. Bounded lies change it so that nobody believes it.
    fn changed(&mut self, item: Item) -> Item {
        self.lies_sent += 1;
        let Item::Raft { group, mut message } = item else { return self.forged() };
        if self.lies == Lies::Bounded {
            match self.rng.below(8) {
                0 => message.term = u64::MAX - u64::from(self.rng.below(3)),
                1 => message.index = u64::MAX - u64::from(self.rng.below(3)),
                2 => message.request_snapshot = 1 + self.rng.bits() / 2,
                3 => message.priority = i64::MIN + i64::from(self.rng.below(9)),
                4 => message.context = self.rng.bits().to_le_bytes().repeat(3).into(),
                5 => message.log_term = message.term.saturating_add(1 + u64::from(self.rng.below(9))),
                6 => message.entries.push(self.garbage()),
                _ => message.reject_hint = u64::MAX,
            }
            return Item::Raft { group, message };
        }
        match self.rng.below(14) {
            0 => message.term = self.odd(message.term),
            1 => message.index = self.odd(message.index),
            2 => message.commit = self.odd(message.commit),
            3 => message.commit_term = self.odd(message.term),
            4 => message.log_term = self.odd(message.log_term),
            5 => message.reject = !message.reject,
            6 => message.reject_hint = self.odd(message.index),
            7 => message.context = self.rng.bits().to_le_bytes()[..self.rng.below(9) as usize].to_vec().into(),
            8 => message.entries.truncate(self.rng.below(2) as usize),
            9 => message.entries.push(self.garbage()),
            10 => {
                let term = self.odd(message.term);
                message.entries.iter_mut().for_each(|entry| entry.term = term);
            }
            11 => message.kind = self.kind(),
            12 => message.context = b"CampaignTransfer".to_vec().into(),
            _ => {
                if let Some(meta) = &mut message.snapshot {
                    meta.index = self.rng.bits();
                }
            }
        }
        Item::Raft { group, message }
    }

    fn kind(&mut self) -> Kind {
        const KINDS: [Kind; 10] = [
            Kind::Append,
            Kind::AppendResponse,
            Kind::RequestVote,
            Kind::RequestVoteResponse,
            Kind::Snapshot,
            Kind::Heartbeat,
            Kind::HeartbeatResponse,
            Kind::TimeoutNow,
            Kind::RequestPreVote,
            Kind::RequestPreVoteResponse,
        ];
        KINDS[self.rng.below(10) as usize]
    }

    fn garbage(&mut self) -> LogEntry {
        let data = self.rng.bits().to_le_bytes().repeat(self.rng.below(4) as usize + 1);
        let data = if self.rng.below(3) == 0 { vec![0x23; 10_000] } else { data };
        let (term, index) = (self.odd(3), self.odd(9));
        LogEntry { kind: self.rng.below(3) as u8, term, index, data: data.into(), context: bytes::Bytes::new() }
    }

    /// Something that its server never said.
    fn forged(&mut self) -> Item {
        self.lies_sent += 1;
        let group = self.group();
        match self.rng.below(12) {
            0..=3 => Item::Raft { group, message: self.forged_message(group) },
            4 => self.forged_answer(group),
            5 => Item::Snapshot(self.forged_chunk(group)),
            6 => {
                let transfer = self.some_number();
                Item::SnapshotTaken { transfer, next: self.rng.bits() as u32, refused: self.rng.below(2) == 0 }
            }
            7 => Item::Leads(self.forged_leads()),
            8 => Item::Leaving { group },
            9 => {
                let map = (self.rng.below(2) == 0).then(|| self.forged_map());
                Item::NoMember { group, index: self.odd(1 << 20), map, sealed: self.rng.below(2) == 0 }
            }
            10 => {
                let ask = match self.rng.below(3) {
                    0 => Ask::Propose(self.rng.bits().to_le_bytes().to_vec()),
                    1 => Ask::ReadIndex,
                    _ => Ask::MoveLeader(ServerId(self.some_server())),
                };
                Item::Ask { id: self.rng.bits(), group, ask }
            }
            _ => Item::Answer { id: self.some_number(), group, answer: Ok(PeerAnswer::Done) },
        }
    }

    fn some_number(&mut self) -> u64 {
        if self.numbers.is_empty() || self.rng.below(2) == 0 {
            return u64::from(self.rng.below(100));
        }
        self.numbers[self.rng.below(self.numbers.len() as u32) as usize]
    }

    fn forged_message(&mut self, group: ShardId) -> RaftMessage {
        let (term, last) = self.seen.get(&group).copied().unwrap_or((1, 1));
        let kind = self.kind();
        let snapshot = (kind == Kind::Snapshot).then(|| {
            let members = Members { voters: vec![self.some_server(), self.some_server()], ..Members::default() };
            SnapshotMeta { index: self.odd(last), term: self.odd(term), members }
        });
        let mut message = RaftMessage {
            kind,
            term: self.odd(term),
            log_term: self.odd(term),
            index: self.odd(last),
            entries: Vec::new(),
            commit: self.odd(last),
            commit_term: self.odd(term),
            request_snapshot: 0,
            reject: self.rng.below(2) == 0,
            reject_hint: self.odd(last),
            context: bytes::Bytes::new(),
            priority: 0,
            snapshot,
        };
        if self.lies == Lies::Any {
            if kind == Kind::Append {
                message.entries = (0..self.rng.below(3)).map(|_| self.garbage()).collect();
            }
            return message;
        }
        self.bounded(&mut message, (term, last));
        message
    }

    /// What is left of a lie when it may not say of the log, or of votes, what only the sender can know.
    fn bounded(&mut self, message: &mut RaftMessage, (term, last): (u64, u64)) {
        match message.kind {
            // A leader that nobody elected: with no entries and nothing committed it only costs an election.
            Kind::Heartbeat => {
                message.term = if self.rng.below(4) == 0 { term + 1 } else { message.term.max(1 << 40) };
                message.commit = 0;
            }
            Kind::Append => {
                message.commit = 0;
                message.entries = vec![self.garbage()];
                message.index = last;
            }
            // It asks for votes with a log that is worse than all others.
            Kind::RequestVote | Kind::RequestPreVote => (message.index, message.log_term, message.commit) = (0, 0, 0),
            // It grants nothing that it does not have.
            Kind::RequestVoteResponse | Kind::RequestPreVoteResponse => {
                (message.reject, message.commit) = (true, 0);
                message.term = term + u64::from(self.rng.below(2));
            }
            Kind::AppendResponse => {
                if !message.reject {
                    message.index = u64::MAX;
                }
            }
            Kind::HeartbeatResponse => message.context = bytes::Bytes::new(),
            // By a leader this would be a hand-over, which voids its lease.
            Kind::TimeoutNow => message.term = u64::MAX,
            Kind::Snapshot => {}
        }
    }

    fn forged_answer(&mut self, group: ShardId) -> Item {
        let id = if self.lies == Lies::Any { self.some_number() } else { self.rng.bits() };
        let answer = match self.rng.below(3) {
            0 => PeerAnswer::Index(self.odd(10)),
            1 => PeerAnswer::Placed(Ok(placement::Effect::Unchanged)),
            _ => PeerAnswer::Done,
        };
        Item::Answer { id, group, answer: Ok(answer) }
    }

    fn forged_chunk(&mut self, group: ShardId) -> Chunk {
        let number = if self.rng.below(2) == 0 { 0 } else { self.rng.below(3) };
        let bytes = vec![self.rng.bits() as u8; self.rng.below(64) as usize];
        let message = (self.rng.below(3) == 0).then(|| self.forged_message(group));
        Chunk { transfer: self.some_number(), group, number, bytes, message }
    }

    fn forged_leads(&mut self) -> Leads {
        let mut leads = Leads { address: "192.0.2.1:1".to_owned(), ..Leads::default() };
        for _ in 0..self.rng.below(20) {
            let (shard, server) = (self.group(), ServerId(self.some_server()));
            if self.lies == Lies::Any || !self.seen.contains_key(&shard) {
                leads.terms.insert(shard, self.odd(5));
            }
            leads.load.entry(shard).or_default().insert(server, self.odd(100));
            leads.ready.entry(shard).or_default().push(server);
        }
        leads
    }

    fn forged_map(&mut self) -> Vec<u8> {
        let mut map = placement::Map::new();
        for index in 1..=u64::from(self.rng.below(5)) {
            let name = format!("m{index}");
            let address = format!("192.0.2.{index}:1");
            let command = placement::Command::AddServer { name, address, metrics: None, nonce: index };
            map.apply(index, command).expect("it is a new server");
        }
        if self.rng.below(3) == 0 { self.rng.bits().to_le_bytes().to_vec() } else { map.encode() }
    }
}
