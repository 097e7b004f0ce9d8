//! Raft's messages in this crate's own encoding, checked before raft-rs sees them.
//!
//! raft-rs brings protobuf's, whose version 2 recurses without a bound on unknown groups (RUSTSEC-2024-0437) and costs a
//! second encoding inside the envelope; what comes from a socket is parsed by postcard only.

pub(crate) mod change;
pub(crate) mod check;

use std::fmt;

use bytes::Bytes;
use machine::ServerId;
use raft::eraftpb::{
    ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState, Entry, EntryType, Message,
    MessageType,
};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

pub(crate) use change::parse as parse_change;

/// Entries of one append at most. raft-rs and [`RaftMessage::absorb`] join them up to a megabyte of protobuf: sixteen bytes each.
pub(crate) const ENTRIES_MAX: usize = 65_536;

/// Entries of lists and maps in all commands of one append, or in one command that is to be proposed. An append has a megabyte, of which a
/// condition takes four bytes at least; or it is of one command, which has fewer: a client's has 2,048 conditions and changes, a part of
/// a move 256 KiB.
pub(crate) const COMMAND_ENTRIES_MAX: usize = 262_144;

/// What raft-rs puts into a request for a vote that a leader's hand-over asked for.
const TRANSFER: &[u8] = b"CampaignTransfer";

/// A message of a Raft group. Fields as in Raft's papers and raft-rs; what they may hold is checked where it is received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaftMessage {
    /// What it is.
    pub kind: Kind,
    /// The sender's term; of a pre-vote the one that it would stand in.
    pub term: u64,
    /// The term of the entry at `index`.
    pub log_term: u64,
    /// The entry before `entries`; the last one of a candidate; the last one that a follower has.
    pub index: u64,
    /// Entries of the log, one after the other.
    #[serde(deserialize_with = "bounded_entries")]
    pub entries: Vec<LogEntry>,
    /// What the sender knows to be committed.
    pub commit: u64,
    /// The term of that entry, in what candidates send and get.
    pub commit_term: u64,
    /// Raft has this field; it is not used here.
    pub request_snapshot: u64,
    /// It is a refusal.
    pub reject: bool,
    /// The entry that a follower would take instead.
    pub reject_hint: u64,
    /// The number of a round of reads, or that the leader asked a candidate to stand.
    pub context: Bytes,
    /// Raft has this field; it is not used here.
    pub priority: i64,
    /// What the snapshot is of that this message ends.
    pub snapshot: Option<SnapshotMeta>,
}

/// Refuses a list that is too long by what it says of itself, before there is any entry.
fn bounded_entries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<LogEntry>, D::Error> {
    struct Bounded;

    impl<'de> Visitor<'de> for Bounded {
        type Value = Vec<LogEntry>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {ENTRIES_MAX} entries of a log")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<LogEntry>, A::Error> {
            let claimed = items.size_hint().unwrap_or_default();
            if claimed > ENTRIES_MAX {
                let text = format!("an append of {claimed} entries: at most {ENTRIES_MAX} are sent in one");
                return Err(A::Error::custom(text));
            }
            let mut entries = Vec::with_capacity(claimed);
            while let Some(entry) = items.next_element()? {
                entries.push(entry);
            }
            Ok(entries)
        }
    }

    deserializer.deserialize_seq(Bounded)
}

/// What one server may say to another; raft-rs's local messages are not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "they are Raft's")]
pub enum Kind {
    Append,
    AppendResponse,
    RequestVote,
    RequestVoteResponse,
    Snapshot,
    Heartbeat,
    HeartbeatResponse,
    TimeoutNow,
    RequestPreVote,
    RequestPreVoteResponse,
}

const KINDS: [(Kind, MessageType); 10] = [
    (Kind::Append, MessageType::MsgAppend),
    (Kind::AppendResponse, MessageType::MsgAppendResponse),
    (Kind::RequestVote, MessageType::MsgRequestVote),
    (Kind::RequestVoteResponse, MessageType::MsgRequestVoteResponse),
    (Kind::Snapshot, MessageType::MsgSnapshot),
    (Kind::Heartbeat, MessageType::MsgHeartbeat),
    (Kind::HeartbeatResponse, MessageType::MsgHeartbeatResponse),
    (Kind::TimeoutNow, MessageType::MsgTimeoutNow),
    (Kind::RequestPreVote, MessageType::MsgRequestPreVote),
    (Kind::RequestPreVoteResponse, MessageType::MsgRequestPreVoteResponse),
];

/// What a follower answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    /// Entries, or a snapshot.
    Append,
    Heartbeat,
}

/// An entry of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// 0 a command or nothing, 1 a change of members.
    pub kind: u8,
    /// The term it was proposed in.
    pub term: u64,
    /// Where it stands.
    pub index: u64,
    /// The command that the entry holds.
    pub data: Bytes,
    /// Raft has this field; it is always empty here.
    pub context: Bytes,
}

/// What a snapshot is of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotMeta {
    /// The last index in it.
    pub index: u64,
    /// That entry's term.
    pub term: u64,
    /// The members as of that index.
    pub members: Members,
}

/// The members of a Raft group, as raft-rs's `ConfState`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    /// Those who vote (the incoming ones, while joint).
    pub voters: Vec<u64>,
    /// The servers that follow without a vote.
    pub learners: Vec<u64>,
    /// While joint: those who voted before.
    pub voters_outgoing: Vec<u64>,
    /// While joint: those who will be learners after.
    pub learners_next: Vec<u64>,
    /// While joint: whether Raft leaves that state by itself.
    pub auto_leave: bool,
}

impl Members {
    /// The members of a new group.
    pub fn founders(voters: impl IntoIterator<Item = ServerId>) -> Self {
        Self { voters: voters.into_iter().map(|id| id.0).collect(), ..Self::default() }
    }

    /// Whether the server is in the group in any way.
    pub fn has(&self, server: ServerId) -> bool {
        self.all().any(|id| id == server)
    }

    /// All members; some come twice while joint.
    pub(crate) fn all(&self) -> impl Iterator<Item = ServerId> {
        let lists = [&self.voters, &self.learners, &self.voters_outgoing, &self.learners_next];
        lists.into_iter().flatten().map(|id| ServerId(*id))
    }

    /// Those who can not be done without, a majority of them: while joint, those who voted before.
    pub(crate) fn needed(&self) -> &[u64] {
        if self.voters_outgoing.is_empty() { &self.voters } else { &self.voters_outgoing }
    }

    /// Those who are members here and were none among `before`.
    pub(crate) fn joined(&self, before: &Self) -> Vec<ServerId> {
        self.all().filter(|id| !before.has(*id)).collect()
    }

    /// Whether the server has a vote.
    pub fn votes(&self, server: ServerId) -> bool {
        self.voters.contains(&server.0) || self.voters_outgoing.contains(&server.0)
    }

    pub(crate) fn of(conf: &ConfState) -> Self {
        let sorted = |list: &[u64]| {
            let mut list = list.to_vec();
            list.sort_unstable();
            list
        };
        Self {
            voters: sorted(conf.get_voters()),
            learners: sorted(conf.get_learners()),
            voters_outgoing: sorted(conf.get_voters_outgoing()),
            learners_next: sorted(conf.get_learners_next()),
            auto_leave: conf.get_auto_leave(),
        }
    }

    pub(crate) fn to_conf(&self) -> ConfState {
        let mut conf = ConfState::default();
        conf.set_voters(self.voters.clone());
        conf.set_learners(self.learners.clone());
        conf.set_voters_outgoing(self.voters_outgoing.clone());
        conf.set_learners_next(self.learners_next.clone());
        conf.set_auto_leave(self.auto_leave);
        conf
    }
}

/// A change of a group's members, as it stands in the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberChange {
    /// The servers that become voters.
    pub voters: Vec<u64>,
    /// The servers that become learners.
    pub learners: Vec<u64>,
    /// The servers that leave.
    pub removed: Vec<u64>,
}

impl MemberChange {
    /// As raft-rs wants it; no changes at all means: leave the joint state.
    pub(crate) fn to_raft(&self) -> ConfChangeV2 {
        let mut change = ConfChangeV2::default();
        let kinds = [
            (&self.voters, ConfChangeType::AddNode),
            (&self.learners, ConfChangeType::AddLearnerNode),
            (&self.removed, ConfChangeType::RemoveNode),
        ];
        for (list, kind) in kinds {
            for &id in list {
                let mut single = ConfChangeSingle::default();
                single.set_change_type(kind);
                single.set_node_id(id);
                change.mut_changes().push(single);
            }
        }
        change.set_transition(ConfChangeTransition::Auto);
        change
    }
}

impl RaftMessage {
    /// Takes what raft-rs wants to send. `None` for what never leaves a server.
    pub(crate) fn of(mut message: Message) -> Option<Self> {
        let kind = KINDS.into_iter().find(|(_, raft)| *raft == message.get_msg_type())?.0;
        let snapshot = (kind == Kind::Snapshot).then(|| {
            let meta = message.get_snapshot().get_metadata();
            SnapshotMeta { index: meta.index, term: meta.term, members: Members::of(meta.get_conf_state()) }
        });
        Some(Self {
            kind,
            term: message.term,
            log_term: message.log_term,
            index: message.index,
            entries: message.take_entries().into_iter().map(LogEntry::of).collect(),
            commit: message.commit,
            commit_term: message.commit_term,
            request_snapshot: message.request_snapshot,
            reject: message.reject,
            reject_hint: message.reject_hint,
            context: std::mem::take(&mut message.context),
            priority: message.priority,
            snapshot,
        })
    }

    /// As raft-rs wants it; [`RaftMessage::check`] has looked at it.
    pub(crate) fn into_raft(self, from: ServerId, to: ServerId) -> Option<Message> {
        let mut message = Message::default();
        message.set_msg_type(KINDS.into_iter().find(|(kind, _)| *kind == self.kind)?.1);
        message.from = from.0;
        message.to = to.0;
        message.term = self.term;
        message.log_term = self.log_term;
        message.index = self.index;
        message.set_entries(self.entries.into_iter().map(LogEntry::into_raft).collect::<Option<Vec<_>>>()?.into());
        message.commit = self.commit;
        message.commit_term = self.commit_term;
        message.request_snapshot = self.request_snapshot;
        message.reject = self.reject;
        message.reject_hint = self.reject_hint;
        message.context = self.context;
        message.priority = self.priority;
        if let Some(meta) = self.snapshot {
            let into = message.mut_snapshot().mut_metadata();
            into.index = meta.index;
            into.term = meta.term;
            into.set_conf_state(meta.members.to_conf());
        }
        Some(message)
    }

    /// What the snapshot is of that this message announces.
    pub fn snapshot(&self) -> Option<&SnapshotMeta> {
        self.snapshot.as_ref()
    }

    pub(crate) fn set_snapshot(&mut self, meta: SnapshotMeta) {
        self.snapshot = Some(meta);
    }

    /// A request for a vote or a pre-vote that no leader's hand-over asked for.
    pub(crate) fn is_campaign(&self) -> bool {
        matches!(self.kind, Kind::RequestVote | Kind::RequestPreVote) && self.context != TRANSFER
    }

    /// A request for a vote or a pre-vote.
    pub(crate) fn is_request_for_vote(&self) -> bool {
        matches!(self.kind, Kind::RequestVote | Kind::RequestPreVote)
    }

    /// The last index in the log of the candidate that asks for a vote.
    pub(crate) fn candidate_index(&self) -> u64 {
        self.index
    }

    /// How far the log of the candidate goes that asks for a pre-vote: the last entry's term and index.
    pub(crate) fn pre_candidate_log(&self) -> Option<(u64, u64)> {
        (self.kind == Kind::RequestPreVote).then_some((self.log_term, self.index))
    }

    /// Whether only a leader sends such a message.
    pub(crate) fn is_of_leader(&self) -> bool {
        matches!(self.kind, Kind::Append | Kind::Heartbeat | Kind::Snapshot)
    }

    /// Whether it asks the receiver to campaign at once: the sender hands over its leadership.
    pub(crate) fn is_hand_over(&self) -> bool {
        self.kind == Kind::TimeoutNow
    }

    /// Whether only a follower sends such a message, and only when it was asked.
    pub(crate) fn answers(&self) -> Option<Answers> {
        match self.kind {
            Kind::AppendResponse => Some(Answers::Append),
            Kind::HeartbeatResponse => Some(Answers::Heartbeat),
            _ => None,
        }
    }

    /// Up to where an answer says that the sender's log is as the leader's, if it says so.
    pub(crate) fn agrees_to(&self) -> Option<u64> {
        (self.kind == Kind::AppendResponse && !self.reject).then_some(self.index)
    }

    /// What the receiver will answer with one message, and the entry that it has then at least, unless it refuses.
    pub(crate) fn asks(&self) -> Option<(Answers, u64)> {
        match self.kind {
            Kind::Append => Some((Answers::Append, self.index)),
            Kind::Snapshot => Some((Answers::Append, self.snapshot().map_or(0, |meta| meta.index))),
            Kind::Heartbeat => Some((Answers::Heartbeat, 0)),
            _ => None,
        }
    }

    /// Whether a receiver whose term is lower takes over the message's term.
    pub(crate) fn raises_term(&self) -> bool {
        match self.kind {
            Kind::RequestPreVote => false,
            Kind::RequestPreVoteResponse => self.reject,
            _ => true,
        }
    }

    /// Whether it appends entries, none perhaps.
    pub(crate) fn is_append(&self) -> bool {
        self.kind == Kind::Append
    }

    /// The entry before those of an append: index and term.
    pub(crate) fn follows(&self) -> Option<(u64, u64)> {
        (self.kind == Kind::Append).then_some((self.index, self.log_term))
    }

    /// Cuts off the entries that one message has no room for, as a message that appends them behind the others.
    pub(crate) fn split_off(&mut self) -> Option<Self> {
        if self.entries.len() <= ENTRIES_MAX {
            return None;
        }
        let entries = self.entries.split_off(ENTRIES_MAX);
        let last = self.entries.last()?;
        let (index, log_term) = (last.index, last.term);
        Some(Self { entries, index, log_term, context: self.context.clone(), snapshot: None, ..*self })
    }

    /// Takes over what another message appends right behind this one, if it is so.
    pub(crate) fn absorb(&mut self, next: &mut Self) -> bool {
        let behind = self.entries.last().map_or((self.index, self.log_term), |entry| (entry.index, entry.term));
        let fits = self.entries.len() + next.entries.len() <= ENTRIES_MAX;
        let is_behind = fits && self.kind == Kind::Append && self.term == next.term && next.follows() == Some(behind);
        if is_behind {
            self.entries.append(&mut next.entries);
            self.commit = self.commit.max(next.commit);
        }
        is_behind
    }

    /// The highest index that a follower's answer speaks of.
    pub(crate) fn answered_index(&self) -> u64 {
        self.index.max(self.reject_hint)
    }

    /// Bytes of its entries on the wire, or a little more.
    pub(crate) fn weight(&self) -> usize {
        let entries: usize = self.entries.iter().map(|entry| entry.data.len() + entry.context.len() + 40).sum();
        self.context.len() + entries
    }

    /// The sender's term.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// A heartbeat's commit index is cut to what the receiver has: raft-rs takes a larger one for a broken log, while
    /// here it is a message that was late for a replica that has been made anew since.
    pub(crate) fn limit_commit(&mut self, last: u64) {
        if self.kind == Kind::Heartbeat {
            self.commit = self.commit.min(last);
        }
    }
}

impl LogEntry {
    fn of(entry: Entry) -> Self {
        Self {
            kind: entry_kind(&entry),
            term: entry.term,
            index: entry.index,
            data: entry.data,
            context: entry.context,
        }
    }

    fn into_raft(self) -> Option<Entry> {
        raft_entry(self.kind, self.index, self.term, self.data, self.context)
    }
}

/// An entry's kind as it is stored: 0 data, 1 a change of members.
pub(crate) fn entry_kind(entry: &Entry) -> u8 {
    match entry.get_entry_type() {
        EntryType::EntryNormal => 0,
        EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => 1,
    }
}

/// The reverse of [`entry_kind`].
pub(crate) fn raft_entry(kind: u8, index: u64, term: u64, data: Bytes, context: Bytes) -> Option<Entry> {
    let mut entry = Entry::default();
    entry.set_entry_type(match kind {
        0 => EntryType::EntryNormal,
        1 => EntryType::EntryConfChangeV2,
        _ => return None,
    });
    entry.index = index;
    entry.term = term;
    entry.data = data;
    entry.context = context;
    Some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(term: u64, (index, log_term): (u64, u64), terms: &[u64], commit: u64) -> RaftMessage {
        let entry = |(at, term): (usize, &u64)| Entry { index: index + 1 + at as u64, term: *term, ..Entry::default() };
        let mut message = Message { term, index, log_term, commit, ..Message::default() };
        message.set_msg_type(MessageType::MsgAppend);
        message.set_entries(terms.iter().enumerate().map(entry).collect::<Vec<_>>().into());
        RaftMessage::of(message).expect("servers send it")
    }

    #[test]
    fn appends_that_follow_each_other_become_one() {
        let mut one = append(3, (7, 2), &[], 5);
        assert!(one.absorb(&mut append(3, (7, 2), &[2, 3], 6)));
        assert!(one.absorb(&mut append(3, (9, 3), &[3], 7)));
        assert!(one.absorb(&mut append(3, (10, 3), &[], 10)));
        assert_eq!(one, append(3, (7, 2), &[2, 3, 3], 10));
    }

    #[test]
    fn an_append_has_no_more_entries_than_are_taken() {
        let whole = append(3, (7, 2), &vec![3; 2 * ENTRIES_MAX + 5], 8);
        let mut parts = vec![whole.clone()];
        while let Some(more) = parts.last_mut().and_then(RaftMessage::split_off) {
            parts.push(more);
        }
        assert_eq!(parts.iter().map(|part| part.entries.len()).collect::<Vec<_>>(), [ENTRIES_MAX, ENTRIES_MAX, 5]);
        assert_eq!(parts[1].follows(), Some((7 + ENTRIES_MAX as u64, 3)));
        let (first, rest) = parts.split_at_mut(1);
        assert!(!first[0].absorb(&mut rest[0]), "it would be too long again");
        let entries: Vec<LogEntry> = parts.iter().flat_map(|part| part.entries.clone()).collect();
        assert_eq!(entries, whole.entries);
    }

    #[test]
    fn other_messages_stay_as_they_are() {
        let first = append(3, (7, 2), &[3, 3], 6);
        let mut heartbeat = append(3, (9, 3), &[], 6);
        heartbeat.kind = Kind::Heartbeat;
        let others =
            [append(4, (9, 3), &[4], 6), append(3, (10, 3), &[3], 6), append(3, (9, 2), &[3], 6), heartbeat.clone()];
        for other in others {
            let (mut one, mut next) = (first.clone(), other.clone());
            assert!(!one.absorb(&mut next));
            assert_eq!((&one, &next), (&first, &other));
        }
        assert!(!heartbeat.clone().absorb(&mut append(3, (9, 3), &[3], 6)));
    }
}
