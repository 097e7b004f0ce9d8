//! The next configuration change of a Raft group, on the way to its desired replicas.
//!
//! The order is the safe one of joint consensus (Ongaro, "Consensus: bridging theory and practice", 4.2 and 4.3): a new
//! server is a learner until it has caught up; then one change promotes it and takes others out; a leader that is not
//! wanted hands over before it goes. Always:
//!
//! - a configuration has a voter, and a majority of the next one is known to be there, or the change waits;
//! - as long as a wanted voter is missing, no more voters leave than come in the same change.

use std::collections::BTreeSet;

use machine::ServerId;

use crate::DesiredReplicas;

/// The configuration of a Raft group as its leader has applied it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Configuration {
    /// Voters; in a joint configuration those to come.
    pub voters: BTreeSet<ServerId>,
    /// In a joint configuration the voters so far; else empty.
    pub outgoing: BTreeSet<ServerId>,
    /// The servers that are learners.
    pub learners: BTreeSet<ServerId>,
    /// Voters that become learners when the joint configuration is left.
    pub learners_next: BTreeSet<ServerId>,
}

/// What the leader of a group should do next about its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The replicas are as desired.
    Nothing,
    /// Wait until these are there and have caught up.
    WaitFor(BTreeSet<ServerId>),
    /// Leave the joint configuration.
    LeaveJoint,
    /// Add these as learners, in one change.
    AddLearners(BTreeSet<ServerId>),
    /// Enter a joint configuration with all of this at once.
    ChangeVoters {
        /// Learners that become voters.
        promote: BTreeSet<ServerId>,
        /// Voters that become learners.
        demote: BTreeSet<ServerId>,
        /// Voters that leave.
        remove: BTreeSet<ServerId>,
    },
    /// The leader is not to stay a voter: let this one lead. It takes the next step.
    TransferLeaderFirst {
        /// A voter that stays and has caught up.
        to: ServerId,
    },
    /// Take these learners out, in one change.
    RemoveLearners(BTreeSet<ServerId>),
}

type Servers = BTreeSet<ServerId>;

/// The next step from `present` to `desired`.
///
/// `caught_up` are the servers that are alive and, as the leader knows, nearly at the end of its log; `leader` is the one
/// that asks. Without a desired voter nothing is to be done: a group with no home stays where it is.
pub fn next(desired: &DesiredReplicas, present: &Configuration, caught_up: &Servers, leader: ServerId) -> Next {
    if !present.outgoing.is_empty() {
        return Next::LeaveJoint;
    }
    if desired.voters.is_empty() {
        return Next::Nothing;
    }
    let wanted: Servers = desired.voters.union(&desired.learners).copied().collect();
    let here: Servers = present.voters.union(&present.learners).copied().collect();
    let new: Servers = wanted.difference(&here).copied().collect();
    if !new.is_empty() {
        return Next::AddLearners(new);
    }
    let promote: Servers =
        desired.voters.intersection(&present.learners).filter(|id| caught_up.contains(id)).copied().collect();
    let missing: Servers =
        desired.voters.iter().filter(|id| !present.voters.contains(id) && !promote.contains(id)).copied().collect();
    let unwanted: Servers = present.voters.difference(&desired.voters).copied().collect();
    let leaving = leaving(&unwanted, caught_up, leader, if missing.is_empty() { usize::MAX } else { promote.len() });
    if !promote.is_empty() || !leaving.is_empty() {
        return change(desired, present, caught_up, leader, promote, &leaving);
    }
    let surplus: Servers = present.learners.difference(&wanted).copied().collect();
    if !surplus.is_empty() {
        return Next::RemoveLearners(surplus);
    }
    if !missing.is_empty() {
        return Next::WaitFor(missing);
    }
    if unwanted.contains(&leader) {
        let ready = desired.voters.intersection(&present.voters).find(|id| caught_up.contains(id));
        return ready.map_or_else(|| Next::WaitFor(desired.voters.clone()), |&to| Next::TransferLeaderFirst { to });
    }
    Next::Nothing
}

/// At most `max` of the voters that are not wanted, but not the leader; the dead ones first.
fn leaving(unwanted: &Servers, caught_up: &Servers, leader: ServerId, max: usize) -> Servers {
    let mut leaving: Vec<ServerId> = unwanted.iter().copied().filter(|id| *id != leader).collect();
    leaving.sort_by_key(|id| (caught_up.contains(id), *id));
    leaving.into_iter().take(max).collect()
}

/// The joint change, or what it has to wait for.
fn change(
    desired: &DesiredReplicas,
    present: &Configuration,
    caught_up: &Servers,
    leader: ServerId,
    promote: Servers,
    leaving: &Servers,
) -> Next {
    let voters: Servers = present.voters.union(&promote).filter(|id| !leaving.contains(id)).copied().collect();
    let dead: Servers = voters.iter().filter(|id| **id != leader && !caught_up.contains(id)).copied().collect();
    if dead.len() * 2 >= voters.len() {
        // Whoever has caught up may come in any case; who is to leave is needed until the dead are back.
        let alone = Next::ChangeVoters { promote: promote.clone(), demote: Servers::new(), remove: Servers::new() };
        return if promote.is_empty() { Next::WaitFor(dead) } else { alone };
    }
    let (demote, remove) = leaving.iter().partition(|id| desired.learners.contains(id));
    Next::ChangeVoters { promote, demote, remove }
}
