//! What is committed becomes content and members. Nothing in a log makes this panic: what cannot be applied stops the replica.

use raft::eraftpb::{Entry, EntryType};

use super::replica::{Group, Seal};
use crate::content::Outcome;
use crate::effects::{Effects, Miss};
use crate::message::{Members, SnapshotMeta, parse_change};
use crate::status::Counters;

impl Group {
    pub(super) fn apply(&mut self, entries: Vec<Entry>, counters: &mut Counters, effects: &mut Effects) {
        let Some(last) = entries.last().map(|entry| entry.index) else { return };
        for entry in entries {
            if entry.index <= self.applied() {
                continue;
            }
            counters.applied += 1;
            self.written_bytes += entry.data.len() as u64;
            let applied = SnapshotMeta { index: entry.index, term: entry.term, ..self.storage().applied().clone() };
            let done = match entry.get_entry_type() {
                EntryType::EntryNormal => self.apply_command(&entry, applied, effects),
                EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => {
                    self.apply_change(&entry, applied, counters, effects)
                }
            };
            if let Err(why) = done {
                self.fail_at(entry.index, &why);
                return;
            }
        }
        self.raw.advance_apply_to(last);
        if matches!(self.seal, Seal::Proposed(index) if index <= last) {
            self.seal = Seal::Sealed;
            self.needed = self.members().needed().to_vec();
        }
        effects.applied.push(self.id);
    }

    fn apply_command(&mut self, entry: &Entry, applied: SnapshotMeta, effects: &mut Effects) -> Result<(), String> {
        let mut outcome = None;
        if !entry.data.is_empty() {
            outcome = Some(self.content.apply(entry.index, &entry.data, self.id, effects)?);
        }
        self.raw.mut_store().set_applied(applied);
        self.answer_asker(entry, outcome, effects);
        Ok(())
    }

    fn apply_change(
        &mut self,
        entry: &Entry,
        mut applied: SnapshotMeta,
        counters: &mut Counters,
        effects: &mut Effects,
    ) -> Result<(), String> {
        let change = parse_change(&entry.data).ok_or("it is no change of members")?;
        match self.raw.apply_conf_change(&change) {
            Ok(members) => applied.members = Members::of(&members),
            // Impossible with these members: every replica comes to the same, and changes nothing.
            Err(_) => counters.changes_refused += 1,
        }
        if self.is_leader() {
            for server in applied.members.joined(&self.storage().applied().members) {
                self.limits.note_joined(self.raw.raft.term, server);
            }
        }
        self.seal = Seal::Open;
        let votes = applied.members.votes(self.me);
        self.raw.mut_store().set_applied(applied);
        if self.is_leader() && !votes {
            // raft-rs would lead on and look for its own progress, which is gone. The others elect.
            let term = self.raw.raft.term;
            self.raw.raft.become_follower(term, 0);
        }
        effects.changed.push(self.id);
        Ok(())
    }

    fn answer_asker(&mut self, entry: &Entry, outcome: Option<Outcome>, effects: &mut Effects) {
        let Some((term, asker)) = self.proposals.applied(entry.index, effects) else { return };
        let answer = match outcome {
            Some(outcome) if term == entry.term => Ok(outcome.into_answer()),
            _ => Err(Miss::NotLeader),
        };
        effects.answers.push((asker, answer));
    }
}
