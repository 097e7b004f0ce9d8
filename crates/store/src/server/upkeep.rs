//! What is done now and then; most of it by whoever leads meta, for the whole cluster.

use std::collections::BTreeSet;

use machine::ServerId;
use machine::nanos::{Span, Time};
use placement::{MoveId, Mover, ShardId, leadership};
use tree::Command;

use super::Server;
use super::operations::{MoveStep, Origin, Route, Task};
use crate::group::Group;
use crate::peer::PeerAnswer;
use crate::protocol::{Consistency, Error};
use crate::read::{Read, ReadResult};

/// A step of a move is tried for so long before the move is taken up anew.
const STEP_TIMEOUT: Span = Span::from_secs(5);

impl Server {
    pub(super) fn upkeep(&mut self, now: Time) {
        self.rebuild_stopped();
        self.adopt_map(now);
        self.operations_due(now);
        self.protocol_due();
        self.leases_due(now);
        self.quota_due();
        self.access_due(now);
        self.weigh_backups(now);
        self.snapshots_due(now);
        self.reclaim(now);
        self.reconcile_members(now);
        self.peers.forget_silent_leaders(now, self.schedule.timeout.current());
        self.ask_leave();
        self.leave();
        self.believe_that_disowned();
        self.remove_strays();
        self.rpc_live(now);
        self.announce_leads();
        if self.groups.get(&ShardId::META).is_some_and(Group::is_leader) {
            self.raise_protocol(now);
            self.move_prefixes(now);
            self.place_leaders(now);
        } else {
            self.meta.mover = Mover::new();
        }
    }

    // Leaders.

    fn place_leaders(&mut self, now: Time) {
        let me = self.config.server;
        let live: BTreeSet<ServerId> = self.live_peers(now).into_iter().chain([me]).collect();
        let mut views = Vec::new();
        for shard in self.view.map().shards().keys().copied().collect::<Vec<_>>() {
            let leader = self.leader_of(shard).filter(|leader| live.contains(leader));
            let ready = self.ready_replicas(shard, leader).into_iter().filter(|id| live.contains(id)).collect();
            views.push(leadership::ShardView::new(self.view.map(), shard, leader, ready));
        }
        for (shard, origins) in self.peers.take_loads() {
            for (origin, count) in origins {
                self.meta.leadership.count(shard, origin, count);
            }
        }
        if !self.config.balance_leaders {
            views.retain(|view| view.pinned.is_some());
        }
        for transfer in self.meta.leadership.plan(now, &views) {
            let task = Task::MoveLeader(transfer.to);
            self.start(now, Origin::Upkeep, Route::Shard(transfer.shard), task, now + Span::from_secs(1));
        }
    }

    /// Voters of a shard that could lead it, as its leader says.
    pub(super) fn ready_replicas(&self, shard: ShardId, leader: Option<ServerId>) -> Vec<ServerId> {
        let leads = match leader {
            Some(leader) if leader == self.config.server => Some(self.peers.own_leads()),
            Some(leader) => self.peers.leads_of(leader),
            None => None,
        };
        leads.and_then(|leads| leads.ready.get(&shard).cloned()).unwrap_or_default()
    }

    // Moves.

    fn move_prefixes(&mut self, now: Time) {
        for step in self.meta.mover.poll(self.view.map()) {
            let id = step.id();
            let Some(it) = self.view.map().moves().get(&id) else { continue };
            let (from, to, prefix, except) = (it.from, it.to, it.territory(), it.except.clone());
            let move_id = id.0;
            let (step, shard, task) = match step {
                placement::Step::Freeze(_) => {
                    (MoveStep::Freeze, from, propose(&Command::Freeze { prefix, except, move_id }))
                }
                placement::Step::Copy(_) => {
                    if self.speaks_2() {
                        self.export_leases(now, id, None);
                    } else {
                        self.export(now, id, 0, None);
                    }
                    continue;
                }
                placement::Step::Finish(_) => {
                    let command = placement::Command::FinishMove { id };
                    (MoveStep::Record, ShardId::META, Task::Propose(command.encode().into()))
                }
                placement::Step::Drop(_) => {
                    (MoveStep::Drop, from, propose(&Command::Dropped { prefix, move_id, to: to.0 }))
                }
            };
            self.start(now, Origin::Move(id, step), Route::Shard(shard), task, now + STEP_TIMEOUT);
        }
    }

    fn export(&mut self, now: Time, id: MoveId, number: u32, after: Option<tree::Cursor>) {
        let Some(it) = self.view.map().moves().get(&id) else { return };
        let read = Read::Export { prefix: it.territory(), except: it.except.clone(), after };
        let task = Task::Read(read, Consistency::Linearizable);
        let route = Route::Shard(it.from);
        self.start(now, Origin::Move(id, MoveStep::Export { number }), route, task, now + STEP_TIMEOUT);
    }

    /// Leases go ahead of the values that they go with.
    fn export_leases(&mut self, now: Time, id: MoveId, after: Option<tree::LeaseId>) {
        let Some(it) = self.view.map().moves().get(&id) else { return };
        let read = Read::ExportLeases { prefix: it.territory(), except: it.except.clone(), after };
        let task = Task::Read(read, Consistency::Linearizable);
        let route = Route::Shard(it.from);
        self.start(now, Origin::Move(id, MoveStep::ExportLeases), route, task, now + STEP_TIMEOUT);
    }

    /// A step of a move has ended.
    pub(super) fn move_stepped(&mut self, now: Time, id: MoveId, step: MoveStep, answer: Result<PeerAnswer, Error>) {
        let Some(it) = self.view.map().moves().get(&id) else { return };
        let (to, prefix, except) = (it.to, it.territory(), it.except.clone());
        let record =
            |command: placement::Command| (MoveStep::Record, ShardId::META, Task::Propose(command.encode().into()));
        let next = match (step, answer) {
            (MoveStep::Freeze, Ok(PeerAnswer::Outcome(Ok(_)))) => {
                self.meta.mover.frozen(id);
                self.schedule.upkeep_at(now);
                return;
            }
            (MoveStep::ExportLeases, Ok(PeerAnswer::Read(ReadResult::Leases(chunk)))) => {
                let tree::LeaseChunk { leases, next } = chunk;
                if leases.is_empty() {
                    self.export(now, id, 0, None);
                    return;
                }
                let command = Command::ImportLeases { move_id: id.0, prefix, except, leases };
                (MoveStep::ImportLeases { next }, to, propose(&command))
            }
            (MoveStep::ImportLeases { next: Some(next) }, Ok(PeerAnswer::Outcome(Ok(_)))) => {
                self.export_leases(now, id, Some(next));
                return;
            }
            (MoveStep::ImportLeases { next: None }, Ok(PeerAnswer::Outcome(Ok(_)))) => {
                self.export(now, id, 0, None);
                return;
            }
            (MoveStep::Export { number }, Ok(PeerAnswer::Read(ReadResult::Exported(chunk)))) => {
                let tree::Chunk { entries, sessions, revision, next } = chunk;
                let last = next.is_none();
                let move_id = id.0;
                let command = Command::Import { move_id, prefix, except, number, entries, sessions, revision, last };
                (MoveStep::Import { number, next }, to, propose(&command))
            }
            (MoveStep::Import { number, next: Some(next) }, Ok(PeerAnswer::Outcome(Ok(_)))) => {
                self.export(now, id, number + 1, Some(next));
                return;
            }
            (MoveStep::Import { next: None, .. }, Ok(PeerAnswer::Outcome(Ok(_)))) => {
                record(placement::Command::MoveImported { id })
            }
            (MoveStep::Drop, Ok(PeerAnswer::Outcome(Ok(_)))) => record(placement::Command::MoveDropped { id }),
            (MoveStep::Record, Ok(PeerAnswer::Placed(Ok(_)))) => {
                self.schedule.upkeep_at(now);
                return;
            }
            _ => {
                // Whatever went wrong: the step is begun again, which comes to the same if it was done.
                self.meta.mover.failed(id);
                return;
            }
        };
        let (step, shard, task) = next;
        self.start(now, Origin::Move(id, step), Route::Shard(shard), task, now + STEP_TIMEOUT);
    }
}

fn propose(command: &Command) -> Task {
    Task::Propose(command.encode().into())
}
