//! Which nodes the clients connect to.

use fabric::{ClusterLoad, Role};
use machine::nanos::Span;
use node::Target;
use store::client::ClientConfig;

use super::nodes::Nodes;

/// While things go wrong, clients don't wait longer than this for a node that may have stopped.
const ATTEMPT_UNDER_FAULTS: Span = Span::from_ms(200);
/// Nor do they pause longer between attempts.
const BACKOFF_UNDER_FAULTS: Span = Span::from_ms(20);

/// One target where one node is asked, else one for each node. While faults are injected, a target also has the other nodes, for when its
/// own does not answer.
pub(super) fn of(nodes: &Nodes, load: &ClusterLoad, leader: usize) -> Vec<Target> {
    let calm = load.faults.is_empty();
    let mut client = ClientConfig { go_to_leader: load.at == Role::Leader, ..ClientConfig::default() };
    if !calm {
        client.attempt_timeout = ATTEMPT_UNDER_FAULTS;
        client.backoff_max = BACKOFF_UNDER_FAULTS;
    }
    let count = nodes.count();
    let from = |first: usize| (0..count).map(move |step| (first + step) % count);
    let target = |first: usize| {
        let strict = calm && load.at != Role::Leader;
        let numbers = from(first).take(if strict { 1 } else { count });
        Target { endpoints: numbers.map(|number| nodes.address(number).to_owned()).collect(), client: client.clone() }
    };
    match load.at {
        Role::Leader => vec![target(leader)],
        Role::Follower => vec![target((leader + 1) % count)],
        Role::Any => (0..count).map(target).collect(),
    }
}
