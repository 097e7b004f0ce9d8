//! What is being carried out: for clients, for other servers, and for the cluster's own upkeep.
//!
//! ```text
//!          drive                told
//!   Idle ---------> Waiting ------------> done
//!    ^                 |  \ index
//!    |  miss, patience |   `----> Applying ---> done
//!    `-----------------'
//! ```
//!
//! An operation is tried until it is done or its time is over: repeating does no harm, since writes are done once a
//! (session, sequence) and everything else either is a read or comes to the same when it is done twice.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use machine::ServerId;
use machine::nanos::{Span, Time};
use placement::{MoveId, ShardId};
use tree::Path;

use super::{Asked, ClientId, Places};
use crate::effects::Miss;
use crate::peer::{LeaseAsk, PeerAnswer};
use crate::protocol::{Consistency, Error};
use crate::read::Read;

/// The party that an operation is carried out for.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    Client {
        client: ClientId,
        asked: Asked,
        timeout_ms: u32,
        /// What the answer is for.
        purpose: Purpose,
    },
    There(ServerId, u64),
    /// A step of a move.
    Move(MoveId, MoveStep),
    /// Requests that wait for a map that is new enough.
    Confirm,
    /// Whatever comes of it shows in the map.
    Upkeep,
}

/// How the answer to a client is made of what came of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Plain,
    Join,
    /// The first chunk; the content is kept for those that follow.
    Backup,
    /// The same, without what belongs to leases.
    BackupLasting,
}

/// A step of a move.
#[derive(Clone, Debug)]
pub(super) enum MoveStep {
    Freeze,
    ExportLeases,
    ImportLeases { next: Option<tree::LeaseId> },
    Export { number: u32 },
    Import { number: u32, next: Option<tree::Cursor> },
    Drop,
    Record,
}

/// Where it goes: data by path, since the path may move meanwhile.
#[derive(Clone, Debug)]
pub(super) enum Route {
    Shard(ShardId),
    Path(Path),
}

/// What is to be done.
#[derive(Clone, Debug)]
pub(super) enum Task {
    Propose(Bytes),
    /// A removal for meta, whatever becomes of shards that need the server.
    Force(Bytes),
    Read(Read, Consistency),
    MoveLeader(ServerId),
    Lease(LeaseAsk),
    /// Nothing but that the replica here has all that was answered before.
    Confirm,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is to be tried.
    Idle,
    /// Somebody was asked; if nothing is heard until then, it is tried again.
    Waiting(Time),
    /// It was refused since its data are being moved: not before then, or when the map changes.
    Paused(Time),
    /// The leader's disk has too much to write, or too much is not committed: not before then.
    Behind(Time),
    /// The replica here must have applied this index.
    Applying(u64),
}

/// An operation under way.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) origin: Origin,
    pub(super) route: Route,
    pub(super) task: Task,
    pub(super) deadline: Time,
    pub(super) stage: Stage,
    /// The shard it went to last.
    pub(super) shard: ShardId,
    /// The servers that were asked, and when, the last one first: nobody else answers for them.
    asked: VecDeque<(ServerId, Time)>,
}

/// So many of those that were asked may still answer.
const ASKED_MAX: usize = 4;

/// All operations under way.
#[derive(Debug)]
pub(super) struct Operations {
    all: BTreeMap<u64, Operation>,
    next: u64,
    /// To be tried as soon as something changes.
    pub(super) idle: BTreeSet<u64>,
    applying: BTreeMap<ShardId, BTreeSet<(u64, u64)>>,
    /// Which clients have them, and the requests that wait to be checked.
    pub(super) places: Places,
}

/// Between two attempts while data are being moved, or the disk is behind.
const MOVING_PAUSE: Span = Span::from_ms(20);

/// However often a server comes to lead a shard, an operation goes to it no closer together.
const ASKED_APART: Span = Span::from_ms(50);

/// How long a server that was asked may take before it is asked again.
const PATIENCE: Span = Span::from_ms(300);

impl Operations {
    /// None; clients may have so many.
    pub(super) fn new(max: usize) -> Self {
        let (all, idle, applying) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Self { all, next: 0, idle, applying, places: Places::new(max) }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Numbers go on after a restart where no late answer to an earlier one can be mistaken.
    pub(super) fn start_at(&mut self, number: u64) {
        self.next = number;
    }

    pub(super) fn add(&mut self, origin: Origin, route: Route, task: Task, deadline: Time) -> u64 {
        self.next += 1;
        let (stage, shard, asked) = (Stage::Idle, ShardId::DEFAULT, VecDeque::new());
        let operation = Operation { origin, route, task, deadline, stage, shard, asked };
        self.all.insert(self.next, operation);
        self.next
    }

    pub(super) fn get(&self, id: u64) -> Option<&Operation> {
        self.all.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut Operation> {
        self.all.get_mut(&id)
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Operation> {
        self.idle.remove(&id);
        let operation = self.all.remove(&id)?;
        if let Origin::Client { client, .. } = operation.origin {
            self.places.give_back(client, 1);
        }
        if let Stage::Applying(index) = operation.stage
            && let Some(waiting) = self.applying.get_mut(&operation.shard)
        {
            waiting.remove(&(index, id));
        }
        Some(operation)
    }

    /// It could not be done now.
    pub(super) fn set_idle(&mut self, id: u64) {
        if let Some(operation) = self.all.get_mut(&id) {
            operation.stage = Stage::Idle;
            self.idle.insert(id);
        }
    }

    /// Somebody was asked. What this very server was asked is always answered.
    pub(super) fn set_waiting(&mut self, id: u64, until: Option<Time>) {
        if let Some(operation) = self.all.get_mut(&id) {
            operation.stage = Stage::Waiting(until.map_or(Time::NEVER, |now| now + PATIENCE));
            self.idle.remove(&id);
        }
    }

    /// Another server was asked.
    pub(super) fn note_asked(&mut self, now: Time, id: u64, server: ServerId) {
        let Some(operation) = self.all.get_mut(&id) else { return };
        operation.asked.retain(|(asked, _)| *asked != server);
        operation.asked.truncate(ASKED_MAX - 1);
        operation.asked.push_front((server, now));
    }

    /// Those of clients of this server that it has asked itself, as the leader of this shard.
    pub(super) fn asked_here(&self, shard: ShardId) -> Vec<u64> {
        let is_here = |operation: &Operation| {
            let is_clients = matches!(operation.origin, Origin::Client { .. });
            operation.shard == shard && is_clients && matches!(operation.stage, Stage::Waiting(Time::NEVER))
        };
        self.all.iter().filter(|(_, operation)| is_here(operation)).map(|(id, _)| *id).collect()
    }

    /// Its data are on their way to another shard: each attempt is an entry in the log, so they are not made too often.
    pub(super) fn set_paused(&mut self, id: u64, now: Time) {
        if let Some(operation) = self.all.get_mut(&id) {
            operation.stage = Stage::Paused(now + MOVING_PAUSE);
            self.idle.remove(&id);
        }
    }

    /// This server leads, and its disk cannot follow: later.
    pub(super) fn set_behind(&mut self, id: u64, now: Time) {
        if let Some(operation) = self.all.get_mut(&id) {
            operation.stage = Stage::Behind(now + MOVING_PAUSE);
            self.idle.remove(&id);
        }
    }

    /// Where data are may have changed.
    pub(super) fn wake(&mut self) {
        for (id, operation) in &mut self.all {
            if matches!(operation.stage, Stage::Paused(_)) {
                operation.stage = Stage::Idle;
                self.idle.insert(*id);
            }
        }
    }

    /// Another leads the shard now: those that the one before was asked will hardly be answered by it.
    ///
    /// Not of a leader that was asked a moment ago. A server that says in turns that it leads and that it does not, or two that say so of the
    /// same term, would have each operation sent once more with each word: hundreds of times at once to who has stood still, and each time it
    /// is an entry in the log (seed 85739, hostile).
    pub(super) fn ask_again(&mut self, now: Time, shard: ShardId, leader: ServerId) {
        let asked = |operation: &Operation| matches!(operation.stage, Stage::Waiting(until) if until != Time::NEVER);
        let lately = |operation: &Operation| {
            operation.asked.iter().any(|(server, at)| *server == leader && now.since(*at) < ASKED_APART)
        };
        for (id, operation) in &mut self.all {
            if operation.shard == shard && asked(operation) && !lately(operation) {
                operation.stage = Stage::Idle;
                self.idle.insert(*id);
            }
        }
    }

    pub(super) fn set_applying(&mut self, id: u64, index: u64) {
        if let Some(operation) = self.all.get_mut(&id) {
            operation.stage = Stage::Applying(index);
            self.idle.remove(&id);
            self.applying.entry(operation.shard).or_default().insert((index, id));
        }
    }

    /// Those that waited for the replica of this shard to get here.
    pub(super) fn applied(&mut self, shard: ShardId, index: u64) -> Vec<u64> {
        let Some(waiting) = self.applying.get_mut(&shard) else { return Vec::new() };
        let later = waiting.split_off(&(index + 1, 0));
        std::mem::replace(waiting, later).into_iter().map(|(_, id)| id).collect()
    }

    /// Those that must be tried again, and those whose time is over.
    pub(super) fn due(&mut self, now: Time) -> (Vec<u64>, Vec<u64>) {
        let mut again: Vec<u64> = self.idle.iter().copied().collect();
        let mut over = Vec::new();
        for (id, operation) in &self.all {
            if operation.deadline <= now {
                over.push(*id);
            } else if matches!(operation.stage, Stage::Waiting(until) | Stage::Paused(until) | Stage::Behind(until) if until <= now)
            {
                again.push(*id);
            }
        }
        (again, over)
    }

    /// The operations of a client that has gone.
    pub(super) fn of_client(&self, gone: ClientId) -> Vec<u64> {
        let of = |origin: &Origin| matches!(origin, Origin::Client { client, .. } if *client == gone);
        self.all.iter().filter(|(_, operation)| of(&operation.origin)).map(|(id, _)| *id).collect()
    }
}

/// What another server is told whose request this one cannot take.
pub(super) fn elsewhere(miss: Miss) -> Error {
    let reason = match miss {
        Miss::NotLeader => "this server does not lead the shard",
        Miss::NotNow => "the leader takes nothing now",
    };
    Error::Elsewhere { reason: reason.into(), servers: Vec::new() }
}

impl Operation {
    /// Whether a server was asked, not long ago.
    pub(super) fn was_asked(&self, server: ServerId) -> bool {
        self.asked.iter().any(|(asked, _)| *asked == server)
    }

    /// The server that was asked last.
    pub(super) fn asked_last(&self) -> Option<ServerId> {
        self.asked.front().map(|(server, _)| *server)
    }

    /// Whether this can be the answer to what was asked.
    pub(super) fn is_answered_by(&self, answer: &PeerAnswer) -> bool {
        match (&self.task, answer) {
            (Task::Propose(_) | Task::Force(_), PeerAnswer::Placed(_)) => self.shard == ShardId::META,
            (Task::Propose(_), PeerAnswer::Outcome(_)) => self.shard != ShardId::META,
            (Task::Read(..), PeerAnswer::Read(_) | PeerAnswer::Index(_))
            | (Task::Lease(_), PeerAnswer::Read(_))
            | (Task::Confirm, PeerAnswer::Index(_))
            | (Task::MoveLeader(_), PeerAnswer::Done) => true,
            (
                Task::Propose(_)
                | Task::Force(_)
                | Task::Read(..)
                | Task::Lease(_)
                | Task::Confirm
                | Task::MoveLeader(_),
                _,
            ) => false,
        }
    }

    /// The error when its time is over.
    pub(super) fn timed_out(&self) -> Error {
        let timeout_ms = if let Origin::Client { timeout_ms, .. } = self.origin { timeout_ms } else { 0 };
        let shard = self.shard;
        let reason = match self.stage {
            Stage::Paused(_) => format!("its data are being moved from shard {shard} to another"),
            Stage::Behind(_) => {
                format!(
                    "the disks of the servers of shard {shard}, or a majority of them, are too slow for what is written"
                )
            }
            Stage::Idle => format!("shard {shard} has no leader that this server can reach"),
            Stage::Waiting(_) => {
                format!("the leader of shard {shard} did not answer: is a majority of its servers up?")
            }
            Stage::Applying(_) => format!("this server's replica of shard {shard} is too far behind"),
        };
        Error::Timeout { timeout_ms, reason }
    }
}
