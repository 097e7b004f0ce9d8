//! The next step of every prefix that is on its way.
//!
//! Whoever leads group 0 drives the moves. All that must survive him is in the map ([`Phase`]); what he keeps here are the
//! steps that he is at. A new leader starts with an empty [`Mover`] and repeats the step that was under way, which each
//! shard takes as done if it was.
//!
//! ```text
//!  Copying:  Freeze at `from` -> Copy to `to` -> propose MoveImported
//!  Imported: Finish = propose FinishMove
//!  Dropping: Drop at `from` -> propose MoveDropped
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::{Map, Move, MoveId, Phase};

/// So many moves are under way at a time. A prefix is frozen while it moves, so the others wait in service.
pub const MOVES_AT_ONCE: usize = 4;

/// What to do next for a move. Each can be repeated without harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Have `from` refuse reads and writes of the prefix but for `except`, by an entry of its log.
    Freeze(Move),
    /// Copy the prefix but for `except` from `from` to `to`, then propose
    /// [`MoveImported`](crate::Command::MoveImported).
    Copy(Move),
    /// Propose to finish the move, by [`FinishMove`](crate::Command::FinishMove).
    Finish(MoveId),
    /// Have `from` drop the prefix but for `except` and keep a mark that it has moved, then propose
    /// [`MoveDropped`](crate::Command::MoveDropped).
    Drop(Move),
}

impl Step {
    /// The move that this is a step of.
    pub fn id(&self) -> MoveId {
        match self {
            Self::Freeze(it) | Self::Copy(it) | Self::Drop(it) => it.id,
            Self::Finish(id) => *id,
        }
    }
}

/// The step that each of the first [`MOVES_AT_ONCE`] moves is at, given those whose prefix is known to be frozen.
pub fn next_step(map: &Map, frozen: &BTreeSet<MoveId>) -> Vec<Step> {
    let started = map.moves().values().filter(|it| it.phase != Phase::Queued);
    started
        .take(MOVES_AT_ONCE)
        .map(|it| match it.phase {
            Phase::Copying if frozen.contains(&it.id) => Step::Copy(it.clone()),
            Phase::Copying => Step::Freeze(it.clone()),
            Phase::Imported => Step::Finish(it.id),
            Phase::Dropping => Step::Drop(it.clone()),
            Phase::Queued => unreachable!("filtered above"),
        })
        .collect()
}

/// Hands out each step once, until it is done or has failed.
#[derive(Clone, Debug, Default)]
pub struct Mover {
    frozen: BTreeSet<MoveId>,
    under_way: BTreeMap<MoveId, Step>,
}

impl Mover {
    /// Nothing known yet: for a server that begins to lead group 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Steps to begin now. Call it after every change of the map, and after [`Mover::frozen`] and [`Mover::failed`].
    pub fn poll(&mut self, map: &Map) -> Vec<Step> {
        self.frozen.retain(|id| map.moves().contains_key(id));
        let mut steps = next_step(map, &self.frozen);
        // A step that the map has left behind was done by someone: its move is at another one.
        self.under_way.retain(|_, at| steps.contains(at));
        steps.retain(|step| !self.under_way.contains_key(&step.id()));
        self.under_way.extend(steps.iter().map(|step| (step.id(), step.clone())));
        steps
    }

    /// The shard has frozen the prefix. (That the other steps are done shows in the map.)
    pub fn frozen(&mut self, id: MoveId) {
        if matches!(self.under_way.get(&id), Some(Step::Freeze(_))) {
            self.under_way.remove(&id);
            self.frozen.insert(id);
        }
    }

    /// The step came to nothing, for instance because a leader changed: [`Mover::poll`] hands it out again.
    pub fn failed(&mut self, id: MoveId) {
        self.under_way.remove(&id);
    }
}
