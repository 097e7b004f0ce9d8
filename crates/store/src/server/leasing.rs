//! Leases of the data, at their shard's leader: kept alive, looked at, ended when their time is over.

use machine::nanos::Time;
use placement::{Map, Phase, ShardId};
use tree::{Command, LeaseId, Path, Refusal, SessionId, State};

use super::operations::{Origin, Purpose, Route, Task};
use super::{Asked, ClientId, Server};
use crate::effects::{Asker, Effects};
use crate::group::Group;
use crate::peer::{Ask, LeaseAsk, PeerAnswer};
use crate::protocol::{Answer, Error, LEASES_MAX, LeaseRequest, LeaseStatus};
use crate::read::ReadResult;

/// What of a list of leases goes into one answer, about: far less than a frame holds.
const LIST_BYTES: usize = 1 << 20;

impl Server {
    /// Refuses what servers of protocol version 1 don't understand, as long as there may be some.
    pub(super) fn check_upgraded(&self, what: &str) -> Result<(), Error> {
        if self.speaks_2() {
            return Ok(());
        }
        Err(not_upgraded(what))
    }

    /// Whether all servers know what came with version 2 of the protocol.
    pub(super) fn speaks_2(&self) -> bool {
        self.protocol() >= 2
    }

    pub(super) fn lease_request(
        &mut self,
        now: Time,
        (client, asked): (ClientId, Asked),
        (session, acknowledged, timeout_ms): (u64, u64, u32),
        request: LeaseRequest,
        deadline: Time,
    ) -> Result<(), Error> {
        self.check_upgraded("leases")?;
        let (session, sequence) = (SessionId(session), asked.sequence);
        let (route, task) = match request {
            LeaseRequest::Grant { lease, ttl_ms, home } => {
                let command = Command::Grant { session, sequence, acknowledged, lease, ttl_ms, home: home.clone() };
                (Route::Path(home), Task::Propose(command.encode().into()))
            }
            LeaseRequest::Revoke { lease, at } => {
                let command = Command::Revoke { session, sequence, acknowledged, lease, at: at.clone() };
                (Route::Path(at), Task::Propose(command.encode().into()))
            }
            LeaseRequest::KeepAlive { lease, at } => {
                (Route::Path(at.clone()), Task::Lease(LeaseAsk::KeepAlive { lease, at }))
            }
            LeaseRequest::Show { lease, at } => (Route::Path(at.clone()), Task::Lease(LeaseAsk::Show { lease, at })),
            LeaseRequest::List { shard, after } => {
                if shard == ShardId::META || !self.view.map().shards().contains_key(&shard) {
                    return Err(Error::Invalid(format!("there is no shard {shard} of data")));
                }
                (Route::Shard(shard), Task::Lease(LeaseAsk::List { after }))
            }
        };
        let origin = Origin::Client { client, asked, timeout_ms, purpose: Purpose::Plain };
        self.start(now, origin, route, task, deadline);
        Ok(())
    }

    /// Asks the leader, or has a majority confirm that it is this server.
    pub(super) fn drive_lease(&mut self, now: Time, id: u64, shard: ShardId, ask: LeaseAsk) {
        let Some(group) = self.groups.get_mut(&shard).filter(|group| group.is_leader()) else {
            self.ask_leader(now, id, shard, Ask::Lease(ask));
            return;
        };
        group.lease.used(now);
        let mut effects = Effects::default();
        self.operations.set_waiting(id, None);
        group.read_index(now, Asker::Here(id), &mut self.counters, &mut effects);
        self.agenda.add(shard);
        self.carry_out(now, effects);
    }

    /// A majority has confirmed that this server led the shard after the question came.
    pub(super) fn answer_lease(&mut self, now: Time, id: u64, shard: ShardId, ask: &LeaseAsk) {
        let Some(group) = self.groups.get_mut(&shard).filter(|group| group.counts_leases()) else {
            self.operations.set_idle(id);
            return;
        };
        group.follow_leases(now);
        let Some(answer) = group.lease_answer(now, ask) else {
            // It is being ended: what comes of that is known in a moment.
            self.operations.set_paused(id, now);
            return;
        };
        match answer {
            Ok(answer) => self.finish(now, id, Ok(PeerAnswer::Read(ReadResult::Answer(answer)))),
            Err(refusal) if refusal.is_retryable() => self.operations.set_paused(id, now),
            Err(refusal) => self.finish(now, id, Err(Error::Refused(refusal))),
        }
    }

    /// Ends the leases whose time is over, in shards that this server leads.
    pub(super) fn leases_due(&mut self, now: Time) {
        for (shard, group) in &mut self.groups {
            if !group.counts_leases() {
                group.expiry.stop();
                continue;
            }
            group.follow_leases(now);
            if group.expire_leases(now, self.view.map()) {
                self.counters.proposals += 1;
                self.agenda.add(*shard);
            }
        }
    }
}

impl Group {
    /// Whether it leads, and knows all that leaders before it have done to leases.
    fn counts_leases(&self) -> bool {
        self.is_leader() && self.snapshot_meta().term == self.term() && self.content.state().is_some()
    }

    fn follow_leases(&mut self, now: Time) {
        let term = self.term();
        if let Some(state) = self.content.state() {
            self.expiry.follow(now, term, &state.leases);
        }
    }

    /// None: it cannot be said now.
    fn lease_answer(&mut self, now: Time, ask: &LeaseAsk) -> Option<Result<Answer, Refusal>> {
        let state = self.content.state()?;
        match ask {
            LeaseAsk::KeepAlive { lease, at } => {
                if let Err(refusal) = state.finds_lease(*lease, at) {
                    return Some(Err(refusal));
                }
                let found = state.leases.get(*lease)?;
                let kept = self.expiry.keep(now, *lease, found.ttl_ms);
                let parts = found.other_parts().cloned().collect();
                kept.then_some(Ok(Answer::Kept { ttl_ms: found.ttl_ms, parts }))
            }
            LeaseAsk::Show { lease, at } => {
                if let Err(refusal) = state.finds_lease(*lease, at) {
                    return Some(Err(refusal));
                }
                let leases = vec![self.lease_status(now, state, *lease)?];
                Some(Ok(Answer::Leases { leases, more: false }))
            }
            LeaseAsk::List { after } => Some(Ok(self.list_leases(now, state, *after))),
        }
    }

    fn list_leases(&self, now: Time, state: &State, after: Option<LeaseId>) -> Answer {
        let (mut leases, mut bytes) = (Vec::new(), 0);
        for (id, _) in state.leases.iter().filter(|(id, _)| after.is_none_or(|after| *id > after)) {
            if bytes >= LIST_BYTES || leases.len() >= LEASES_MAX {
                return Answer::Leases { leases, more: true };
            }
            if let Some(status) = self.lease_status(now, state, id) {
                bytes += 64 + status.values.iter().map(|at| at.path.as_str().len() + 8).sum::<usize>();
                leases.push(status);
            }
        }
        Answer::Leases { leases, more: false }
    }

    fn lease_status(&self, now: Time, state: &State, id: LeaseId) -> Option<LeaseStatus> {
        let lease = state.leases.get(id)?;
        Some(LeaseStatus {
            lease: id,
            ttl_ms: lease.ttl_ms,
            left_ms: self.expiry.left(now, id).as_ns() / 1_000_000,
            home: lease.home.clone(),
            values: lease.values.iter().cloned().collect(),
            parts: lease.other_parts().cloned().collect(),
        })
    }

    /// Proposes an end of those that are over; gives whether it did.
    fn expire_leases(&mut self, now: Time, map: &Map) -> bool {
        let (shard, applied) = (self.id, self.applied());
        let Some(state) = self.content.state() else { return false };
        let over = self.expiry.over(now, applied, |id| waits(state, map, shard, id));
        if over.is_empty() {
            return false;
        }
        let command = Command::Expire { leases: over.clone() };
        // If it is not taken, it is tried again, as they stay due.
        let Ok(index) = self.propose_own(command.encode().into()) else { return false };
        self.expiry.proposed(now, &over, index);
        true
    }
}

/// Whether a lease cannot be kept alive here by its keeper now, since its paths are between two shards.
fn waits(state: &State, map: &Map, shard: ShardId, id: LeaseId) -> bool {
    let Some(lease) = state.leases.get(id) else { return false };
    let is_here = |path: &Path| map.route(path) == shard;
    let arrives = |path: &Path| {
        let mut moves = map.moves().values().filter(|it| it.to == shard && it.phase < Phase::Dropping);
        moves.any(|it| it.territory().contains(path))
    };
    state.is_lease_at_rest(id).is_err()
        || (!lease.values.is_empty() && lease.place(is_here).is_none())
        || (!is_here(&lease.home) && arrives(&lease.home))
}

/// The error for what older servers of the cluster do not understand.
pub(super) fn not_upgraded(what: &str) -> Error {
    Error::Invalid(format!(
        "{what} are not known to all servers of the cluster yet; hint: upgrade all of them first, then try again"
    ))
}
