//! Outcomes of recent writes, so that a retried one is applied once.
//!
//! A client numbers its writes within a session, and says with each which outcomes it will never ask for again
//! (*acknowledged*: all sequences below). Chapter 6.3 of Ongaro's dissertation *Consensus: Bridging Theory and Practice*.
//! One session and one run of sequences may serve all shards, since a transaction is of one shard.
//!
//! The table is a function of the log alone: least recently used is judged by log index.

use std::collections::VecDeque;
use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::{Committed, LeaseId, Location, Outcome, Path, Refusal};

/// The most outcomes that are kept a session; more are forgotten, oldest first.
pub const MAX_OUTCOMES: usize = 1_024;
/// The most sessions; more are expired, least recently used first.
pub const MAX_SESSIONS: usize = 4_096;
/// Of how many expired sessions it is still known how far they came, so that a retry is not taken for a new write.
pub const MAX_EXPIRED: usize = 65_536;

/// Of how many outcomes another shard is told when data move there, newest sessions first. Of other sessions it is told how far they came:
/// a write of theirs that is repeated there is not applied again, and its outcome not known.
pub const MAX_EXPORTED_OUTCOMES: usize = 65_536;

/// A client's session. The client chooses it at random, or is given it; it must be unique in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub u64);

/// What is to be done with a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Apply it, then call [`Sessions::finish`].
    New,
    /// It was applied before, with this outcome; where something exists or is missing it names the root in place of the path.
    Repeat(Outcome),
    /// It may have been applied before; nobody knows any more.
    Forgotten,
}

/// An outcome in 16 bytes: there may be millions, and a client can have as many refusals as it likes. Where something exists or is
/// missing is not kept: the write that is sent again says it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stored {
    Committed(u64),
    ConditionFailed(u32, u64),
    ConditionFailedAbsent(u32),
    Exists,
    Missing,
    Full,
    NoLease(LeaseId),
    Refused(Box<Refusal>),
}

const _: () = assert!(size_of::<Stored>() == 16);

impl From<Outcome> for Stored {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Ok(committed) => Stored::Committed(committed.revision),
            Err(Refusal::ConditionFailed { index, actual: Some(tag) }) => Stored::ConditionFailed(index, tag),
            Err(Refusal::ConditionFailed { index, actual: None }) => Stored::ConditionFailedAbsent(index),
            Err(Refusal::Exists { .. }) => Stored::Exists,
            Err(Refusal::Missing { .. }) => Stored::Missing,
            Err(Refusal::Full) => Stored::Full,
            Err(Refusal::NoLease { lease }) => Stored::NoLease(lease),
            Err(refusal) => Stored::Refused(Box::new(refusal)),
        }
    }
}

impl From<&Stored> for Outcome {
    fn from(stored: &Stored) -> Self {
        match stored {
            Stored::Committed(revision) => Ok(Committed { revision: *revision }),
            Stored::ConditionFailed(index, tag) => Err(Refusal::ConditionFailed { index: *index, actual: Some(*tag) }),
            Stored::ConditionFailedAbsent(index) => Err(Refusal::ConditionFailed { index: *index, actual: None }),
            Stored::Exists => Err(Refusal::Exists { at: Location::config(Path::root()) }),
            Stored::Missing => Err(Refusal::Missing { at: Location::config(Path::root()) }),
            Stored::Full => Err(Refusal::Full),
            Stored::NoLease(lease) => Err(Refusal::NoLease { lease: *lease }),
            Stored::Refused(refusal) => Err((**refusal).clone()),
        }
    }
}

/// One session of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Session {
    /// Sequences below are new to nobody: acknowledged, or their outcomes were forgotten.
    floor: u64,
    /// Index of the last command that used it.
    used: u64,
    /// Outcomes by sequence, ascending.
    outcomes: VecDeque<(u64, Stored)>,
}

impl Session {
    fn raise_floor(&mut self, floor: u64) {
        self.floor = self.floor.max(floor);
    }

    fn acknowledge(&mut self, acknowledged: u64) {
        self.raise_floor(acknowledged);
        while self.outcomes.front().is_some_and(|(sequence, _)| *sequence < acknowledged) {
            self.outcomes.pop_front();
        }
    }

    /// Adds an outcome; one that is there stays.
    fn insert(&mut self, sequence: u64, outcome: Stored) {
        match self.outcomes.binary_search_by_key(&sequence, |(known, _)| *known) {
            Ok(_) => return,
            Err(at) => self.outcomes.insert(at, (sequence, outcome)),
        }
        while self.outcomes.len() > MAX_OUTCOMES {
            let (dropped, _) = self.outcomes.pop_front().expect("there are too many");
            self.raise_floor(dropped.saturating_add(1));
        }
    }

    /// What of it must be remembered when its outcomes are forgotten.
    fn expire(&self) -> Expired {
        let next = self.outcomes.back().map_or(0, |(last, _)| last.saturating_add(1));
        Expired { floor: self.floor.max(next), used: self.used }
    }
}

/// What is left of a session whose outcomes were forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Expired {
    floor: u64,
    used: u64,
}

/// A session as it is written into snapshots, and sent along when data moves to another shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// The session that it is of.
    pub id: SessionId,
    /// Index of the last command that used it, in the log that it comes from.
    pub used: u64,
    /// Sequences below without an outcome are forgotten.
    pub floor: u64,
    /// Whether it has expired: only its floor is known.
    pub expired: bool,
    /// What became of the other sequences, ascending.
    pub outcomes: Vec<(u64, Outcome)>,
}

/// The exactly-once table of a shard. A clone shares its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sessions {
    live: OrdMap<SessionId, Arc<Session>>,
    expired: OrdMap<SessionId, Expired>,
}

impl Sessions {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many sessions have not expired.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Says what is to be done with write `sequence`, which the command at log index `index` asks for.
    ///
    /// Outcomes of sequences below `acknowledged` are forgotten on this occasion.
    pub fn begin(&mut self, session: SessionId, sequence: u64, acknowledged: u64, index: u64) -> Begin {
        let found = self.touch(session, index);
        found.acknowledge(acknowledged);
        let begin = match found.outcomes.binary_search_by_key(&sequence, |(known, _)| *known) {
            Ok(at) => Begin::Repeat((&found.outcomes[at].1).into()),
            Err(_) if sequence < found.floor => Begin::Forgotten,
            Err(_) => Begin::New,
        };
        self.expire_surplus();
        begin
    }

    /// Keeps the outcome of a write that [`Sessions::begin`] called new.
    pub fn finish(&mut self, session: SessionId, sequence: u64, outcome: Outcome) {
        // A session that just began is the most recently used: it cannot have expired.
        let found = self.live.get_mut(&session).expect("a write begins before it is finished");
        Arc::make_mut(found).insert(sequence, outcome.into());
    }

    /// The sessions behind `after`, expired ones too, by their ids.
    pub(crate) fn records(&self, after: Option<SessionId>) -> impl Iterator<Item = SessionRecord> + '_ {
        use core::ops::Bound::{Excluded, Unbounded};
        let bounds = (after.map_or(Unbounded, Excluded), Unbounded);
        let mut live = self.live.range(bounds).peekable();
        let mut expired = self.expired.range(bounds).peekable();
        core::iter::from_fn(move || {
            let live_is_next = match (live.peek(), expired.peek()) {
                (Some((live, _)), Some((expired, _))) => live < expired,
                (Some(_), None) => true,
                (None, _) => false,
            };
            if live_is_next {
                live.next().map(|(id, session)| record(*id, session))
            } else {
                let (&id, &Expired { floor, used }) = expired.next()?;
                Some(SessionRecord { id, used, floor, expired: true, outcomes: Vec::new() })
            }
        })
    }

    /// The same for another shard: no more outcomes than [`MAX_EXPORTED_OUTCOMES`], those of the sessions that were used last.
    pub(crate) fn exported(&self, after: Option<SessionId>) -> impl Iterator<Item = SessionRecord> + '_ {
        let oldest = self.oldest_exported();
        self.records(after).map(move |record| {
            if record.expired || (record.used, record.id) >= oldest {
                return record;
            }
            let next = record.outcomes.last().map_or(0, |(last, _)| last.saturating_add(1));
            SessionRecord { floor: record.floor.max(next), expired: true, outcomes: Vec::new(), ..record }
        })
    }

    /// The session from which on, in the order of their use, all outcomes are within the bound.
    fn oldest_exported(&self) -> (u64, SessionId) {
        let mut sessions: Vec<_> =
            self.live.iter().map(|(id, session)| ((session.used, *id), session.outcomes.len())).collect();
        sessions.sort_unstable();
        let (mut outcomes, mut oldest) = (0, (u64::MAX, SessionId(u64::MAX)));
        for (session, count) in sessions.into_iter().rev() {
            outcomes += count;
            if outcomes > MAX_EXPORTED_OUTCOMES {
                return oldest;
            }
            oldest = session;
        }
        (0, SessionId(0))
    }

    /// Puts a record of a snapshot of this very table back.
    pub(crate) fn restore(&mut self, record: SessionRecord) {
        let SessionRecord { id, used, floor, expired, outcomes } = record;
        if expired {
            self.expired.insert(id, Expired { floor, used });
            return;
        }
        let mut session = Session { floor, used, outcomes: VecDeque::with_capacity(outcomes.len()) };
        for (sequence, outcome) in outcomes {
            session.insert(sequence, outcome.into());
        }
        self.live.insert(id, Arc::new(session));
    }

    /// Takes in what another shard knows, so that a write that was done there is not done here again. Doing it again
    /// changes nothing.
    pub(crate) fn import(&mut self, records: &[SessionRecord], index: u64) {
        for record in records {
            if record.expired && !self.live.contains_key(&record.id) {
                let known = self.expired.get(&record.id).map_or(0, |expired| expired.floor);
                self.expired.insert(record.id, Expired { floor: known.max(record.floor), used: index });
            } else {
                let session = self.touch(record.id, index);
                session.raise_floor(record.floor);
                for (sequence, outcome) in &record.outcomes {
                    session.insert(*sequence, outcome.clone().into());
                }
            }
        }
        self.expire_surplus();
    }

    /// Mixes all content into a digest.
    pub(crate) fn digest(&self, digest: &mut Digest) {
        for record in self.records(None) {
            digest.number(record.id.0);
            digest.number(record.used);
            digest.number(record.floor);
            digest.number(u64::from(record.expired));
            digest.number(record.outcomes.len() as u64);
            for (sequence, outcome) in &record.outcomes {
                digest.number(*sequence);
                match outcome {
                    Ok(committed) => digest.number(committed.revision),
                    Err(refusal) => digest.bytes(refusal.to_string().as_bytes()),
                }
            }
        }
    }

    /// The session, made if there is none, as most recently used.
    fn touch(&mut self, id: SessionId, index: u64) -> &mut Session {
        if !self.live.contains_key(&id) {
            let floor = self.expired.remove(&id).map_or(0, |expired| expired.floor);
            self.live.insert(id, Arc::new(Session { floor, ..Session::default() }));
        }
        let session = Arc::make_mut(self.live.get_mut(&id).expect("it was just made"));
        session.used = index;
        session
    }

    /// Keeps both tables within their bounds. A sixteenth goes at once, so that looking for the oldest costs little
    /// a session.
    fn expire_surplus(&mut self) {
        if self.live.len() > MAX_SESSIONS {
            let surplus = self.live.len() - MAX_SESSIONS * 15 / 16;
            for id in oldest(self.live.iter().map(|(id, session)| (session.used, *id)), surplus) {
                let session = self.live.remove(&id).expect("it was just seen");
                self.expired.insert(id, session.expire());
            }
        }
        if self.expired.len() > MAX_EXPIRED {
            let surplus = self.expired.len() - MAX_EXPIRED * 15 / 16;
            for id in oldest(self.expired.iter().map(|(id, expired)| (expired.used, *id)), surplus) {
                self.expired.remove(&id);
            }
        }
    }
}

fn record(id: SessionId, session: &Session) -> SessionRecord {
    let outcomes = session.outcomes.iter().map(|(sequence, stored)| (*sequence, stored.into())).collect();
    SessionRecord { id, used: session.used, floor: session.floor, expired: false, outcomes }
}

/// The `count` sessions that were used longest ago; of those used at the same time, the lower ids.
fn oldest(sessions: impl Iterator<Item = (u64, SessionId)>, count: usize) -> Vec<SessionId> {
    let mut sessions: Vec<_> = sessions.collect();
    sessions.sort_unstable();
    sessions.truncate(count);
    sessions.into_iter().map(|(_, id)| id).collect()
}
