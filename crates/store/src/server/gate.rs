//! What is known of callers, and requests that wait to be checked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use machine::nanos::Time;

use super::io::{Asked, Caller};
use crate::id::{ClientId, RequestId};
use crate::protocol::Request;

/// A request that waits.
pub(super) struct Parked {
    pub(super) number: u64,
    pub(super) client: ClientId,
    pub(super) id: RequestId,
    pub(super) request: Request,
    pub(super) came: Time,
    pub(super) deadline: Time,
    /// What it holds of the budget.
    pub(super) bytes: usize,
}

/// What is known of callers, and requests that wait.
#[derive(Default)]
pub(super) struct Gate {
    pub(super) callers: BTreeMap<ClientId, Caller>,
    pub(super) hosts: BTreeMap<ClientId, Arc<str>>,
    pub(super) parked: VecDeque<Parked>,
    /// Numbers requests in the order in which they came.
    pub(super) next: u64,
    /// A question is under way: asked when, for requests up to which number.
    pub(super) asking: Option<(Time, u64)>,
    /// The map was as new as this moment.
    pub(super) confirmed: Time,
    /// The map's roles and users as they were looked at last.
    pub(super) revision: u64,
    /// When the next token of a caller expires, in seconds since 1970.
    pub(super) expiry_s: Option<u64>,
    /// Counted as [`Server::rights_judged`] says.
    pub(super) judged: u64,
    /// Clients that say nothing more, and read.
    pub(super) silent: BTreeSet<ClientId>,
    /// Seconds since 1970, at a moment.
    pub(super) wall: Option<(Time, u64)>,
}

impl Gate {
    pub(super) fn len(&self) -> usize {
        self.parked.len()
    }

    pub(super) fn called_from(&mut self, client: ClientId, host: &str) {
        self.hosts.insert(client, host.into());
    }

    pub(super) fn is_server(&self, client: ClientId) -> bool {
        self.callers.get(&client) == Some(&Caller::Server)
    }

    pub(super) fn now_s(&self, now: Time) -> Option<u64> {
        self.wall.map(|(at, seconds)| seconds + now.since(at).as_ns() / 1_000_000_000)
    }
}

impl Parked {
    pub(super) fn asked(&self) -> Asked {
        Asked { sequence: self.request.sequence, id: self.id }
    }
}
