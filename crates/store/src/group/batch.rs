//! Proposals, and their group commit: while one batch of them is under way, those that come wait for it, and go together.
//!
//! A batch costs every server a message, a write and a flush, however much is in it; so the more clients there are, the less one of
//! them costs (decision 38). A proposal that is alone never waits. A batch is under way until it is committed; where the others are far away or slow, for
//! as long as two writes to this server's own disk take, and a tenth of a second at most: to wait longer saves little.

use bytes::Bytes;
use machine::nanos::Time;
use placement::ShardId;
use raft::eraftpb::{Entry, Message, MessageType};

use super::proposals::{counted, give_up};
use super::replica::{APPEND_BYTES_MAX, Group, WAITING_MAX};
use crate::effects::{Asker, Effects, Miss};

impl Group {
    /// Has something put into the log, with the next batch.
    pub(crate) fn propose(&mut self, data: Bytes, asker: Asker) -> Result<(), Miss> {
        if !self.is_leader() || self.failure.is_some() {
            return Err(Miss::NotLeader);
        }
        if self.proposals.logged.len() + self.proposals.waiting.len() >= WAITING_MAX {
            return Err(Miss::NotNow);
        }
        if self.id == ShardId::META {
            // Little is said there, and who judges what was said goes by the log's end (`server/removal.rs`).
            return self.append(vec![(data, asker)]).map_err(|_| Miss::NotNow);
        }
        self.proposals.waiting.push((data, asker));
        Ok(())
    }

    /// Puts something of the group's own into the log; gives its index.
    pub(crate) fn propose_own(&mut self, data: Bytes) -> Result<u64, Miss> {
        if !self.is_leader() || self.failure.is_some() {
            return Err(Miss::NotLeader);
        }
        self.append(vec![(data, Asker::Nobody)]).map_err(|_| Miss::NotNow)?;
        Ok(self.last_index())
    }

    /// Has the log of a data shard say what only its leader knows, if this replica leads; gives whether it did. `asked`: when it last did, by its term and
    /// the entry's index; until that is applied, or another term begins, it does not say it again.
    pub(crate) fn say(&mut self, asked: fn(&mut Self) -> &mut Option<(u64, u64)>, command: &tree::Command) -> bool {
        let (term, applied) = (self.term(), self.applied());
        let is_asked = asked(self).is_some_and(|(asked, index)| asked == term && applied < index);
        if !self.is_leader() || is_asked {
            return false;
        }
        // If it is not taken, it is tried again.
        let Ok(index) = self.propose_own(command.encode().into()) else { return false };
        *asked(self) = Some((term, index));
        true
    }

    /// When proposals that wait go at the latest; `None` if none wait.
    pub(super) fn batch_due(&self) -> Option<Time> {
        (!self.proposals.waiting.is_empty()).then_some(self.proposals.due)
    }

    /// The next batch, if there is one and none is under way.
    pub(super) fn propose_waiting(&mut self, now: Time, effects: &mut Effects) {
        if self.proposals.waiting.is_empty() || self.failure.is_some() {
            return;
        }
        if !self.is_leader() {
            return self.refuse_waiting(Miss::NotLeader, effects);
        }
        if self.raw.raft.raft_log.committed < self.proposals.last && now < self.proposals.due {
            return;
        }
        let mut waiting = std::mem::take(&mut self.proposals.waiting).into_iter().peekable();
        while waiting.peek().is_some() {
            let mut bytes = 0;
            // The first one whatever its size.
            let part = std::iter::from_fn(|| {
                let fits = |(data, _): &(Bytes, Asker)| bytes == 0 || bytes + data.len() <= APPEND_BYTES_MAX;
                waiting.next_if(fits).inspect(|(data, _)| bytes += data.len().max(1))
            });
            if let Err(refused) = self.append(part.collect()) {
                give_up(refused, Miss::NotNow, effects);
            }
        }
        self.proposals.last = self.last_index();
        self.proposals.due = now + self.proposals.patience;
    }

    /// Entries at the log's end, which cost Raft one step; they are given back if it takes none now.
    fn append(&mut self, part: Vec<(Bytes, Asker)>) -> Result<(), Vec<(Bytes, Asker)>> {
        // As `RawNode::propose` does it, which copies.
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgPropose);
        message.from = self.me.0;
        let entries: Vec<Entry> =
            part.iter().map(|(data, _)| Entry { data: data.clone(), ..Entry::default() }).collect();
        message.set_entries(entries.into());
        if !self.guard(|group| group.raw.raft.step(message).is_ok()) {
            return Err(part);
        }
        let (term, next) = (self.term(), self.last_index() + 1);
        for (index, (data, asker)) in (next - part.len() as u64..).zip(part) {
            self.proposals.note(index, term, asker, counted(&data, asker));
        }
        Ok(())
    }

    /// Those who wait for a batch hear that there will be none.
    pub(super) fn refuse_waiting(&mut self, why: Miss, effects: &mut Effects) {
        self.proposals.last = 0;
        give_up(std::mem::take(&mut self.proposals.waiting), why, effects);
    }

    /// Bytes of proposals that wait, or are in the log and not applied.
    pub(crate) fn proposed_bytes(&self) -> usize {
        self.proposals.bytes()
    }
}
