//! What a message of a peer must be before raft-rs sees it, whatever the replica's state; `group::check` looks at the rest.
//!
//! raft-rs believes its peers: of what it asserts, and of what overflows in it, decision 15 lists all that a message can reach.

use std::collections::BTreeSet;

use placement::ShardId;
use tree::bounded::Entries;

use super::{COMMAND_ENTRIES_MAX, Kind, LogEntry, Members, RaftMessage, SnapshotMeta, TRANSFER, change};
use crate::status::Refused;

/// No term is larger. Elections don't get there in the life of the sun, and [`crate::group`] bounds how fast a peer may raise one.
pub(crate) const TERM_MAX: u64 = 1 << 62;

/// No index of a log is larger.
pub(crate) const INDEX_MAX: u64 = 1 << 62;

/// Members of one group at most, of each kind.
const MEMBERS_MAX: usize = 1_024;

/// Longest context of a heartbeat: the number of a round of reads.
const ROUND_BYTES: usize = 8;

/// Whether a log may hold this entry: data that a command is made of, with no more entries of lists than are left, or a change of
/// members.
pub(crate) fn is_entry(group: ShardId, kind: u8, data: &[u8], entries: &mut Entries) -> bool {
    match kind {
        0 => data.is_empty() || is_command(group, data, entries),
        1 => change::parse(data).is_some(),
        _ => false,
    }
}

/// Whether these bytes are a command that the group's log may hold, with no more entries of lists than are left.
fn is_command(group: ShardId, data: &[u8], entries: &mut Entries) -> bool {
    if group == ShardId::META {
        placement::Command::decode_bounded(data, entries).is_ok()
    } else {
        tree::Command::decode_bounded(data, entries).is_ok()
    }
}

impl RaftMessage {
    /// Whether an honest server could have sent it, going by the message alone.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check(&self, group: ShardId) -> Result<(), Refused> {
        let numbers = [self.index, self.commit, self.reject_hint];
        if !(1..=TERM_MAX).contains(&self.term) || self.log_term > self.term || self.commit_term > self.term {
            return Err(Refused::Term);
        }
        if numbers.iter().any(|number| *number > INDEX_MAX) {
            return Err(Refused::Index);
        }
        // raft-rs says of entries that it has not got that they have term 0: an append would fit behind them.
        if self.kind == Kind::Append && (self.index == 0) != (self.log_term == 0) {
            return Err(Refused::Term);
        }
        // Never used here: snapshots are sent when the leader finds that one is needed, and nobody has a priority.
        let unused = self.request_snapshot == 0 && self.priority == 0;
        if !unused || !self.is_context() || (self.kind == Kind::Snapshot) != self.snapshot.is_some() {
            return Err(Refused::Form);
        }
        if let Some(meta) = &self.snapshot {
            self.check_snapshot(meta)?;
        }
        self.check_entries(group)
    }

    fn is_context(&self) -> bool {
        match self.kind {
            Kind::Heartbeat | Kind::HeartbeatResponse => self.context.len() <= ROUND_BYTES,
            Kind::RequestVote => self.context.is_empty() || self.context == TRANSFER,
            _ => self.context.is_empty(),
        }
    }

    fn check_snapshot(&self, meta: &SnapshotMeta) -> Result<(), Refused> {
        if meta.term == 0 || meta.term > self.term {
            return Err(Refused::Term);
        }
        if meta.index == 0 || meta.index > INDEX_MAX {
            return Err(Refused::Index);
        }
        if meta.members.are_sound() { Ok(()) } else { Err(Refused::Members) }
    }

    /// Entries follow what is before them, in index and in term, and are such as a log may hold.
    fn check_entries(&self, group: ShardId) -> Result<(), Refused> {
        if self.entries.is_empty() {
            return Ok(());
        }
        // Each group's log begins with an entry that is never sent: whoever lacks it gets a snapshot.
        if self.kind != Kind::Append || self.index == 0 {
            return Err(Refused::Form);
        }
        let mut term = self.log_term;
        for (entry, index) in self.entries.iter().zip(self.index + 1..) {
            if entry.index != index || index > INDEX_MAX {
                return Err(Refused::Index);
            }
            if entry.term < term || entry.term > self.term {
                return Err(Refused::Term);
            }
            term = entry.term;
        }
        let mut parts = Entries::at_most(COMMAND_ENTRIES_MAX);
        let sound = |entry: &LogEntry| entry.context.is_empty() && is_entry(group, entry.kind, &entry.data, &mut parts);
        if self.entries.iter().all(sound) { Ok(()) } else { Err(Refused::Entry) }
    }
}

impl Members {
    /// Whether raft-rs can take them over: it panics at all others.
    pub(crate) fn are_sound(&self) -> bool {
        let Self { voters, learners, voters_outgoing, learners_next, auto_leave } = self;
        let lists = [voters, learners, voters_outgoing, learners_next];
        let sets = lists.map(|list| list.iter().copied().collect::<BTreeSet<u64>>());
        let distinct = lists.iter().zip(&sets).all(|(list, set)| list.len() == set.len() && !set.contains(&0));
        if !distinct || voters.is_empty() || lists.iter().any(|list| list.len() > MEMBERS_MAX) {
            return false;
        }
        let [incoming, learning, outgoing, next] = sets;
        let joint = !outgoing.is_empty();
        learning.is_disjoint(&incoming)
            && learning.is_disjoint(&outgoing)
            && next.is_subset(&outgoing)
            && next.is_disjoint(&incoming)
            && (joint || !auto_leave)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use protobuf::Message as _;

    use super::*;
    use crate::message::MemberChange;

    fn message(kind: Kind) -> RaftMessage {
        let context = Bytes::new();
        let snapshot = (kind == Kind::Snapshot).then(|| {
            let members = Members { voters: vec![1, 2, 3], ..Members::default() };
            SnapshotMeta { index: 5, term: 3, members }
        });
        RaftMessage {
            kind,
            term: 4,
            log_term: 0,
            index: 0,
            entries: Vec::new(),
            commit: 0,
            commit_term: 0,
            request_snapshot: 0,
            reject: false,
            reject_hint: 0,
            context,
            priority: 0,
            snapshot,
        }
    }

    fn entry(index: u64, term: u64, kind: u8, data: Vec<u8>) -> LogEntry {
        LogEntry { kind, term, index, data: data.into(), context: Bytes::new() }
    }

    fn append(entries: Vec<LogEntry>) -> RaftMessage {
        RaftMessage { index: 7, log_term: 3, entries, ..message(Kind::Append) }
    }

    const SHARD: ShardId = ShardId::DEFAULT;

    #[test]
    fn what_servers_send_passes() {
        for (kind, _) in super::super::KINDS {
            assert_eq!(message(kind).check(SHARD), Ok(()), "{kind:?}");
        }
        let change = MemberChange { voters: vec![4], ..MemberChange::default() }.to_raft().write_to_bytes().unwrap();
        let command = tree::Command::Thaw { prefix: tree::Path::root(), move_id: 1 }.encode();
        let entries = vec![entry(8, 3, 0, Vec::new()), entry(9, 4, 1, change), entry(10, 4, 0, command)];
        assert_eq!(append(entries).check(SHARD), Ok(()));
    }

    #[test]
    fn numbers_beyond_all_logs_are_refused() {
        for (kind, _) in super::super::KINDS {
            for term in [0, TERM_MAX + 1, u64::MAX] {
                assert_eq!(RaftMessage { term, ..message(kind) }.check(SHARD), Err(Refused::Term), "{kind:?}");
            }
            for (log_term, commit_term) in [(5, 0), (0, 5), (u64::MAX, 0)] {
                let message = RaftMessage { log_term, commit_term, ..message(kind) };
                assert_eq!(message.check(SHARD), Err(Refused::Term), "{kind:?}");
            }
            let huge = u64::MAX;
            for (index, commit, reject_hint) in [(huge, 0, 0), (0, huge, 0), (0, 0, huge), (INDEX_MAX + 1, 0, 0)] {
                let message = RaftMessage { index, commit, reject_hint, ..message(kind) };
                assert_eq!(message.check(SHARD), Err(Refused::Index), "{kind:?}");
            }
        }
    }

    #[test]
    fn nothing_is_appended_behind_an_entry_without_a_term() {
        for (index, log_term) in [(100, 0), (0, 3)] {
            let message = RaftMessage { index, log_term, commit: 100, ..message(Kind::Append) };
            assert_eq!(message.check(SHARD), Err(Refused::Term));
        }
    }

    #[test]
    fn what_is_never_used_is_refused() {
        for (kind, _) in super::super::KINDS {
            let whole = message(kind);
            let bad = [
                RaftMessage { request_snapshot: 1, ..whole.clone() },
                RaftMessage { priority: -1, ..whole.clone() },
                RaftMessage { context: Bytes::from_static(b"nine bytes"), ..whole.clone() },
                RaftMessage {
                    snapshot: if kind == Kind::Snapshot { None } else { message(Kind::Snapshot).snapshot },
                    ..whole
                },
            ];
            for message in bad {
                assert_eq!(message.check(SHARD), Err(Refused::Form), "{message:?}");
            }
        }
    }

    #[test]
    fn entries_follow_each_other_and_are_commands() {
        let thaw = || tree::Command::Thaw { prefix: tree::Path::root(), move_id: 1 }.encode();
        let cases = [
            (vec![entry(9, 4, 0, thaw())], Refused::Index),
            (vec![entry(8, 4, 0, thaw()), entry(8, 4, 0, thaw())], Refused::Index),
            (vec![entry(8, 2, 0, thaw())], Refused::Term),
            (vec![entry(8, 4, 0, thaw()), entry(9, 3, 0, thaw())], Refused::Term),
            (vec![entry(8, 5, 0, thaw())], Refused::Term),
            (vec![entry(8, 4, 0, b"no command".to_vec())], Refused::Entry),
            (vec![entry(8, 4, 1, b"no change".to_vec())], Refused::Entry),
            (vec![entry(8, 4, 2, thaw())], Refused::Entry),
        ];
        for (entries, why) in cases {
            assert_eq!(append(entries.clone()).check(SHARD), Err(why), "{entries:?}");
        }
        let of_meta = append(vec![entry(8, 4, 0, thaw())]);
        assert_eq!(of_meta.check(ShardId::META), Err(Refused::Entry));
        let first = RaftMessage { index: 0, log_term: 0, ..append(vec![entry(1, 4, 0, thaw())]) };
        assert_eq!(first.check(SHARD), Err(Refused::Form));
        let elsewhere = RaftMessage { kind: Kind::Heartbeat, ..append(vec![entry(8, 4, 0, thaw())]) };
        assert_eq!(elsewhere.check(SHARD), Err(Refused::Form));
    }

    #[test]
    fn members_that_raft_cannot_take_over_are_refused() {
        let of = |voters: &[u64], learners: &[u64], outgoing: &[u64], next: &[u64], auto_leave| Members {
            voters: voters.to_vec(),
            learners: learners.to_vec(),
            voters_outgoing: outgoing.to_vec(),
            learners_next: next.to_vec(),
            auto_leave,
        };
        let good = [of(&[1], &[], &[], &[], false), of(&[1, 2], &[5], &[1, 3, 4], &[4], true)];
        let bad = [
            of(&[], &[1], &[], &[], false),
            of(&[0, 1], &[], &[], &[], false),
            of(&[1, 1], &[], &[], &[], false),
            of(&[1], &[1], &[], &[], false),
            of(&[1], &[2], &[2], &[], true),
            of(&[1], &[], &[2], &[3], true),
            of(&[1, 2], &[], &[2], &[2], true),
            of(&[1], &[], &[], &[2], false),
            of(&[1], &[], &[], &[], true),
            of(&(1..=MEMBERS_MAX as u64 + 1).collect::<Vec<_>>(), &[], &[], &[], false),
        ];
        for members in good {
            assert!(members.are_sound(), "{members:?}");
        }
        for members in bad {
            assert!(!members.are_sound(), "{members:?}");
            let mut message = message(Kind::Snapshot);
            message.set_snapshot(SnapshotMeta { index: 5, term: 3, members });
            assert_eq!(message.check(SHARD), Err(Refused::Members));
        }
        for (index, term, why) in
            [(0, 3, Refused::Index), (u64::MAX, 3, Refused::Index), (5, 0, Refused::Term), (5, 5, Refused::Term)]
        {
            let mut message = message(Kind::Snapshot);
            message.set_snapshot(SnapshotMeta { index, term, members: good_members() });
            assert_eq!(message.check(SHARD), Err(why));
        }
    }

    fn good_members() -> Members {
        Members { voters: vec![1, 2, 3], ..Members::default() }
    }
}
