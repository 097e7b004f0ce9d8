//! For how long servers refuse to elect another leader once they have heard theirs; a leader's lease is built on that, and its heartbeats
//! keep it up.

use std::collections::BTreeMap;

use machine::ServerId;
use machine::nanos::Span;

use crate::config::{Config, Reads};
use crate::message::Members;
use crate::planted::{Bug, Planted};

/// What each server has promised, this one included.
#[derive(Debug)]
pub(super) struct Promises {
    own: ServerId,
    reads: Reads,
    known: BTreeMap<ServerId, Span>,
}

impl Promises {
    /// Those of this server.
    pub(super) fn new(config: &Config) -> Self {
        Self { own: config.server, reads: config.reads, known: BTreeMap::from([(config.server, config.promise())]) }
    }

    /// What another server promises.
    pub(super) fn note(&mut self, server: ServerId, promise: Span) {
        self.known.insert(server, promise);
    }

    /// How long a lease is by what all who vote now have promised; none if one of them is not known to promise anything.
    pub(super) fn lease(&self, members: &Members, planted: Planted) -> Option<Span> {
        if planted.has(Bug::LeaseOfOwnTimeout) {
            return self.reads.lease_without_bound(self.known[&self.own]);
        }
        let promised = voters(members).map(|id| self.known.get(&id).copied()).min()??;
        self.reads.lease(promised)
    }

    /// The shortest that another voter is known to promise.
    pub(super) fn shortest_of_others(&self, members: &Members) -> Option<Span> {
        voters(members).filter(|id| *id != self.own).filter_map(|id| self.known.get(&id)).min().copied()
    }
}

fn voters(members: &Members) -> impl Iterator<Item = ServerId> {
    members.voters.iter().chain(&members.voters_outgoing).copied().map(ServerId)
}
