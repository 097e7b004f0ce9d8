//! What a server says of itself and of the cluster: for `heddle cluster status` and `/metrics`.

use std::collections::BTreeMap;

use machine::ServerId;
use machine::nanos::Span;
use placement::{Map, ShardId};
use serde::{Deserialize, Serialize};

/// One server's view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The cluster's number.
    pub cluster: u64,
    /// Who says this.
    pub server: ServerId,
    /// The replicated map, as far as this server has it.
    pub map: Map,
    /// The leader of each shard, as far as is known here.
    pub leaders: BTreeMap<ShardId, ServerId>,
    /// The replicas on this server.
    pub groups: Vec<GroupStatus>,
    /// Other servers, as seen from here.
    pub peers: Vec<PeerStatus>,
    /// The election timeout now, in microseconds.
    pub election_timeout_us: u64,
    /// Counters since the start.
    pub counters: Counters,
    /// RPCs on offer, by server: name and path.
    pub offers: BTreeMap<ServerId, Vec<(String, Option<String>)>>,
    /// The version of its program.
    pub version: String,
}

/// What a server takes on its disk, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskStatus {
    /// Of the log's segments, zeros that were written ahead included.
    pub log_bytes: u64,
    /// How many segments these are.
    pub log_segments: u64,
    /// Of snapshots; those on their way to the disk are not counted.
    pub snapshot_bytes: u64,
    /// Bytes of the log's entries in memory.
    pub log_memory_bytes: u64,
    /// Bytes of the data in memory, about.
    pub content_bytes: u64,
    /// What can be given back is being given back.
    pub is_defragmenting: bool,
}

/// A replica's part in its Raft group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RaftRole {
    /// It follows a leader.
    Follower,
    /// It asks whether it would be elected.
    PreCandidate,
    /// It asks for votes.
    Candidate,
    /// It leads the group.
    Leader,
    /// It follows and has no vote.
    Learner,
}

/// A replica of a shard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupStatus {
    /// The shard, which is also the number of the Raft group.
    pub shard: ShardId,
    /// The role of the replica in its group.
    pub role: RaftRole,
    /// The Raft term.
    pub term: u64,
    /// The leader it knows.
    pub leader: Option<ServerId>,
    /// The highest index that is committed.
    pub commit: u64,
    /// The highest index that is applied.
    pub applied: u64,
    /// The first index that is still in the log.
    pub first: u64,
    /// The index of the last entry.
    pub last: u64,
    /// The servers that vote. While members change, those who voted before, as they are still needed: at the leader until it is certain that a
    /// majority knows of the change, elsewhere until this replica knows of its end.
    pub voters: Vec<ServerId>,
    /// The other members: they learn without a vote, or are about to vote.
    pub learners: Vec<ServerId>,
    /// Entries of data.
    pub entries: u64,
    /// Bytes of data, about.
    pub bytes: u64,
    /// The data's revision.
    pub revision: u64,
    /// Whether reads are served by a lease now.
    pub lease: bool,
}

/// What this server knows of another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// The number of the server.
    pub server: ServerId,
    /// Heard from it lately.
    pub live: bool,
    /// Smoothed round trip in microseconds, if measured.
    pub round_trip_us: Option<u64>,
}

/// Why a message of a peer was refused before Raft saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refused {
    /// A term that is too large, that rises faster than elections do, or that contradicts another in the message.
    Term,
    /// An index beyond all logs, or beyond this one's end where it speaks of this one.
    Index,
    /// Fields that no server fills in this way.
    Form,
    /// An entry that is no command and no change of members.
    Entry,
    /// Members that no group can have.
    Members,
    /// The sender may not send this: it is not the leader, or no voter of the group.
    Rights,
    /// It asks for a vote while the voter's promise to a leader holds.
    Early,
    /// An answer to something that it was not asked.
    Unasked,
    /// More of the same than is of use.
    Flood,
    /// A part of a snapshot that does not fit, or is too much.
    Snapshot,
    /// What it says it leads cannot be, or where it is.
    Leads,
    /// It says that this server is out of a group, and nobody else does.
    Membership,
}

impl Refused {
    /// All of them, with a word for each.
    pub const ALL: [(Self, &'static str); 12] = [
        (Self::Term, "term"),
        (Self::Index, "index"),
        (Self::Form, "form"),
        (Self::Entry, "entry"),
        (Self::Members, "members"),
        (Self::Rights, "rights"),
        (Self::Early, "early"),
        (Self::Unasked, "unasked"),
        (Self::Flood, "flood"),
        (Self::Snapshot, "snapshot"),
        (Self::Leads, "leads"),
        (Self::Membership, "membership"),
    ];
}

/// How many messages of peers were refused, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusedCounts([u64; Refused::ALL.len()]);

impl RefusedCounts {
    /// Counts one more.
    pub fn note(&mut self, why: Refused) {
        self.0[why as usize] += 1;
    }

    /// How many for this reason.
    pub fn of(&self, why: Refused) -> u64 {
        self.0[why as usize]
    }

    /// Adds those of another process.
    pub fn add(&mut self, more: &Self) {
        for (sum, more) in self.0.iter_mut().zip(more.0) {
            *sum += more;
        }
    }
}

/// A replica that has stopped, while the others of its server go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoppedReplica {
    /// The shard that it is of.
    pub shard: ShardId,
    /// The last index that it had applied.
    pub applied: u64,
    /// What is wrong, and what to do.
    pub reason: String,
}

/// What a server has to be able to do before it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadyCheck {
    /// A leader is known of each shard that has a replica here, and of meta.
    Leader,
    /// Replicas here have applied what is committed, but for a little.
    Replicas,
    /// No replica here has stopped.
    Stopped,
    /// The disk takes writes.
    Disk,
    /// The data may grow.
    Quota,
}

impl ReadyCheck {
    /// All of them, in their order.
    pub const ALL: [Self; 5] = [Self::Leader, Self::Replicas, Self::Stopped, Self::Disk, Self::Quota];

    /// Its name in `/readyz`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Replicas => "replicas",
            Self::Stopped => "stopped",
            Self::Disk => "disk",
            Self::Quota => "quota",
        }
    }
}

/// What keeps a server from being ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unready {
    /// The check that failed.
    pub check: ReadyCheck,
    /// What is wrong, and what to do.
    pub reason: String,
}

/// Counters since the server's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Requests of clients.
    pub requests: u64,
    /// Those of them that were forwarded to another server.
    pub forwarded: u64,
    /// Writes proposed here.
    pub proposals: u64,
    /// Log entries applied, all groups.
    pub applied: u64,
    /// Reads served by a lease.
    pub lease_reads: u64,
    /// Reads served by a round of read index.
    pub index_reads: u64,
    /// Stale reads that were answered.
    pub stale_reads: u64,
    /// Elections begun here.
    pub campaigns: u64,
    /// Elections won here.
    pub elected: u64,
    /// Log batches written.
    pub log_writes: u64,
    /// Bytes of these.
    pub log_bytes: u64,
    /// Snapshots written to the disk.
    pub snapshots_written: u64,
    /// Snapshots sent to other servers.
    pub snapshots_sent: u64,
    /// Requests refused since too many were waiting.
    pub busy: u64,
    /// Requests that ran out of time.
    pub timeouts: u64,
    /// Watch events that were delivered.
    pub watch_events: u64,
    /// Watches that had to skip.
    pub watch_skips: u64,
    /// Messages of peers that made no sense, and were dropped.
    pub malformed: u64,
    /// Requests refused since their user may not do that, or is nobody. Not in what clients get: version 1 does not know it.
    #[serde(skip)]
    pub denied: u64,
    /// Requests of connections whose token was worth nothing.
    #[serde(skip)]
    pub bad_tokens: u64,
    /// Of `malformed`, by reason; not sent to clients, whose encoding does not know them.
    #[serde(skip)]
    pub refused: RefusedCounts,
    /// Committed changes of members that were not possible, and changed nothing.
    #[serde(skip)]
    pub changes_refused: u64,
    /// Items for other servers that were too many at once, and were dropped.
    #[serde(skip)]
    pub items_dropped: u64,
    /// Replicas that stopped because something in this program panicked.
    #[serde(skip)]
    pub panics: u64,
}

impl Counters {
    /// A peer's message was refused.
    pub(crate) fn refuse(&mut self, why: Refused) {
        self.malformed += 1;
        self.refused.note(why);
    }
}

/// How a server is: what [`Status`] has no room for, as its form is that of version 1 of the protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Who says this.
    pub server: ServerId,
    /// Why its disk takes no writes, if it does not.
    pub disk: Option<String>,
    /// How long writes to the log took, each with its sync, since the start.
    pub log_writes: Latencies,
    /// Refusals by client, most frequent first. The driver adds them, as it knows who is at the other end of a connection.
    pub refusals: Vec<RefusalCount>,
    /// Refusals of those whom the list has no room for.
    pub other_refusals: u64,
}

/// How often a client was refused something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalCount {
    /// The host that it came from.
    pub host: String,
    /// Who: by certificate, as a user of that machine, or nothing that is known.
    pub client: String,
    /// What was refused.
    pub what: String,
    /// Why it was refused.
    pub reason: String,
    /// How often that happened.
    pub count: u64,
    /// The words of the last time.
    pub last: String,
}

/// Steps of a [`Latencies`] within a power of two.
const STEPS: u64 = 4;

/// Steps of all [`Latencies`]: up to 2^32 us, an hour and more.
const STEPS_MAX: usize = 32 * STEPS as usize;

/// How long something took, each time: counts in steps of a quarter at most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latencies {
    /// By step, up to the last one that has any.
    counts: Vec<u64>,
    /// All together, in microseconds.
    pub total_us: u64,
}

impl Latencies {
    /// Takes one in.
    pub fn add(&mut self, span: Span) {
        let us = span.as_ns() / 1_000;
        let step = Self::step(us);
        if self.counts.len() <= step {
            self.counts.resize(step + 1, 0);
        }
        self.counts[step] += 1;
        self.total_us = self.total_us.saturating_add(us);
    }

    /// The step of so many microseconds: the power of two, and the two bits behind its first.
    fn step(us: u64) -> usize {
        let us = us.max(STEPS);
        let power = u64::from(us.ilog2());
        let within = (us >> (power - 2)) & (STEPS - 1);
        (((power - 2) * STEPS + within) as usize).min(STEPS_MAX - 1)
    }

    /// The end of a step, in microseconds: what is in it took less.
    fn end_us(step: usize) -> u64 {
        let (power, within) = (step as u64 / STEPS, step as u64 % STEPS);
        (STEPS + within + 1) << power
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Ends of steps in microseconds, and how many took less than each.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts.iter().enumerate().scan(0_u64, |sum, (step, count)| {
            *sum = sum.saturating_add(*count);
            Some((Self::end_us(step), *sum))
        })
    }

    /// Of so many of a thousand it is known that they took less than this, in microseconds; `None` if there are none at all.
    pub fn quantile_us(&self, per_mille: u64) -> Option<u64> {
        let rank = (u128::from(self.count()) * u128::from(per_mille)).div_ceil(1_000).max(1);
        self.cumulative().find(|(_, count)| u128::from(*count) >= rank).map(|(end, _)| end)
    }

    /// Those that came after an earlier look. If the server has started anew meanwhile: all that it has.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |step: usize| earlier.counts.get(step).copied().unwrap_or_default();
        let counts: Option<Vec<u64>> =
            self.counts.iter().enumerate().map(|(step, count)| count.checked_sub(before(step))).collect();
        match (counts, self.total_us.checked_sub(earlier.total_us)) {
            (Some(counts), Some(total_us)) => Self { counts, total_us },
            _ => self.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_never_more_than_a_quarter_wide() {
        for us in (0..10_000).chain((13..45).map(|power| (1_u64 << power) - 1)).chain((13..32).map(|power| 1 << power))
        {
            let end = Latencies::end_us(Latencies::step(us));
            assert!(us < end || us >= 1 << 32, "{us} {end}");
            assert!(us < STEPS || end <= us + us.div_ceil(4).max(1), "{us} {end}");
        }
        assert_eq!(Latencies::step(u64::MAX), STEPS_MAX - 1);
    }

    #[test]
    fn quantiles_are_those_of_what_came_since() {
        let mut all = Latencies::default();
        assert_eq!((all.quantile_us(990), all.count()), (None, 0));
        all.add(Span::from_ms(100));
        let earlier = all.clone();
        for us in 1..=100_u64 {
            all.add(Span::from_ns(us * 1_000));
        }
        let since = all.since(&earlier);
        assert_eq!((since.count(), since.total_us), (100, 5_050));
        assert!(
            (50..=64).contains(&since.quantile_us(500).unwrap())
                && (99..=128).contains(&since.quantile_us(1_000).unwrap())
        );
        assert!(all.quantile_us(1_000).unwrap() > 100_000);
        // A server that has started anew.
        assert_eq!(earlier.since(&all), earlier);
    }
}
