//! Prefixes go from shard to shard.
//!
//! What is at stake is that a prefix has one owner at any time and that what is copied is what changes hands. So moves
//! that overlap wait for each other, in the order of their numbers: as long as one is unfinished, nothing within or around
//! its prefix gets another owner, and its `except` stays true.

use std::collections::BTreeSet;

use super::{Map, Outcome};
use crate::{Effect, Move, MoveId, Phase, Prefix, Refusal, ShardId};

impl Map {
    /// The unfinished move of exactly this prefix that began last.
    pub(super) fn move_of(&self, prefix: &Prefix) -> Option<&Move> {
        self.moves.values().rev().find(|it| it.prefix == *prefix)
    }

    /// Refuses a prefix that is on its way already.
    pub(super) fn check_at_rest(&self, prefix: &Prefix) -> Result<(), Refusal> {
        match self.move_of(prefix) {
            None => Ok(()),
            Some(it) => Err(Refusal::Moving { prefix: prefix.to_string(), to: self.name_of(it.to), by: it.id }),
        }
    }

    pub(super) fn begin_move(&mut self, prefix: Prefix, to: ShardId) -> Result<Outcome, Refusal> {
        let shard = self.shard_in_use(to)?;
        if to == ShardId::META {
            return Err(Refusal::BuiltIn {
                id: to,
                name: shard.name.clone(),
                what: "for the map alone, and owns no data".to_owned(),
                hint: "move it to another shard".to_owned(),
            });
        }
        if let Some(it) = self.move_of(&prefix).filter(|it| it.to == to) {
            return Ok(Outcome::unchanged(Effect::Move(it.id)));
        }
        self.check_at_rest(&prefix)?;
        self.check_room(0, 1)?;
        let overlapping = self.moves.values().any(|it| it.prefix.overlaps(&prefix));
        if !overlapping && self.routes.of_prefix(&prefix) == to {
            return Ok(Outcome::unchanged(Effect::Unchanged));
        }
        let id = self.begin_moves([prefix], to)[0];
        Ok(Outcome::changed(Effect::Move(id)))
    }

    /// Begins to move `prefixes`; the caller has checked all that could be refused.
    pub(super) fn begin_moves(&mut self, prefixes: impl IntoIterator<Item = Prefix>, to: ShardId) -> Vec<MoveId> {
        let moves = prefixes.into_iter().map(|prefix| self.push_move(prefix, to, false)).collect();
        let gone = self.advance();
        assert!(gone.is_empty(), "a move that begins takes no shard away");
        moves
    }

    /// Puts a move at the end of the queue.
    pub(super) fn push_move(&mut self, prefix: Prefix, to: ShardId, back: bool) -> MoveId {
        let id = MoveId(self.next_move);
        self.next_move += 1;
        let from = self.routes.of_prefix(&prefix);
        self.moves.insert(id, Move { id, prefix, except: Vec::new(), from, to, phase: Phase::Queued, back });
        id
    }

    /// Starts every move whose turn has come, and removes shards that have nothing left. Returns the removed ones.
    pub(super) fn advance(&mut self) -> Vec<ShardId> {
        let queued = |it: &&Move| it.phase == Phase::Queued;
        let waiting: Vec<MoveId> = self.moves.values().filter(queued).map(|it| it.id).collect();
        for id in waiting {
            self.start_if_free(id);
        }
        self.remove_empty()
    }

    /// Settles where a queued move goes from and to, and starts it unless an earlier one overlaps it.
    fn start_if_free(&mut self, id: MoveId) {
        let it = &self.moves[&id];
        let from = self.routes.of_prefix(&it.prefix);
        let stays = |owner: &ShardId| !self.shards[owner].deleting;
        let around = || self.routes.around(&it.prefix).into_iter().find(stays).unwrap_or(ShardId::DEFAULT);
        let to = if it.back { around() } else { it.to };
        let free = !self.moves.range(..id).any(|(_, earlier)| earlier.prefix.overlaps(&it.prefix));
        if free && from == to {
            self.moves.remove(&id);
            return;
        }
        let except = if free { self.routes.inside(&it.prefix) } else { Vec::new() };
        let it = self.moves.get_mut(&id).expect("it was there a moment ago");
        (it.from, it.to, it.except) = (from, to, except);
        if free {
            it.phase = Phase::Copying;
        }
    }

    /// Removes shards that were to be deleted and own nothing any more.
    fn remove_empty(&mut self) -> Vec<ShardId> {
        let busy: BTreeSet<ShardId> = self.moves.values().flat_map(|it| [it.from, it.to]).collect();
        let gone = self.shards.values().filter(|it| it.deleting && it.prefixes.is_empty() && !busy.contains(&it.id));
        let gone: Vec<ShardId> = gone.map(|it| it.id).collect();
        for id in &gone {
            self.shards.remove(id);
        }
        gone
    }

    /// The move at the step that is asked for, or the answer if there is nothing to do.
    fn at(&self, id: MoveId, expected: Phase, step: &str) -> Result<Option<&Move>, Refusal> {
        let Some(it) = self.moves.get(&id) else {
            // A move that is over has been through all steps.
            return if (1..self.next_move).contains(&id.0) { Ok(None) } else { Err(Refusal::NoSuchMove { id }) };
        };
        if it.phase > expected {
            return Ok(None);
        }
        if it.phase < expected {
            return Err(Refusal::OutOfOrder { id, phase: it.phase.to_string(), step: step.to_owned() });
        }
        Ok(Some(it))
    }

    fn set_phase(&mut self, id: MoveId, phase: Phase) -> Outcome {
        self.moves.get_mut(&id).expect("the caller has looked it up").phase = phase;
        Outcome::changed(Effect::Move(id))
    }

    pub(super) fn move_imported(&mut self, id: MoveId) -> Result<Outcome, Refusal> {
        match self.at(id, Phase::Copying, "imported")? {
            None => Ok(Outcome::unchanged(Effect::Unchanged)),
            Some(_) => Ok(self.set_phase(id, Phase::Imported)),
        }
    }

    pub(super) fn finish_move(&mut self, id: MoveId) -> Result<Outcome, Refusal> {
        let Some(it) = self.at(id, Phase::Imported, "finished")? else {
            return Ok(Outcome::unchanged(Effect::Unchanged));
        };
        let (prefix, from, to) = (it.prefix.clone(), it.from, it.to);
        assert_eq!(self.routes.of_prefix(&prefix), from, "nothing within a move changes hands but by it");
        self.shard_mut(from).prefixes.remove(&prefix);
        self.shard_mut(to).prefixes.insert(prefix.clone());
        self.reindex();
        self.merge(&prefix);
        let outcome = self.set_phase(id, Phase::Dropping);
        // Moves that wait show where they will go from, and that may have changed.
        let gone = self.advance();
        assert!(gone.is_empty(), "the old owner has yet to drop what it held");
        Ok(outcome)
    }

    /// Drops prefixes at or within `changed` whose surroundings have the same owner: they say nothing any more.
    fn merge(&mut self, changed: &Prefix) {
        let routes = self.routes.clone();
        for shard in self.shards.values_mut() {
            let id = shard.id;
            shard.prefixes.retain(|prefix| !changed.includes(prefix) || routes.around(prefix)[0] != id);
        }
        self.reindex();
    }

    fn shard_mut(&mut self, id: ShardId) -> &mut crate::Shard {
        self.shards.get_mut(&id).expect("a shard stays as long as a move needs it")
    }

    pub(super) fn move_dropped(&mut self, id: MoveId) -> Result<Outcome, Refusal> {
        if self.at(id, Phase::Dropping, "dropped")?.is_none() {
            return Ok(Outcome::unchanged(Effect::Unchanged));
        }
        self.moves.remove(&id);
        let gone = self.advance();
        Ok(Outcome::changed(if gone.is_empty() { Effect::Move(id) } else { Effect::ShardsGone(gone) }))
    }
}
