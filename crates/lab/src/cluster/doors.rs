//! Through which nodes the load goes in.

use fabric::{ClusterLoad, Role};
use live::cluster::Door;
use machine::Span;
use store::client::ClientConfig;

use super::nodes::Nodes;

/// While things go wrong, clients don't wait longer than this for a node that may have stopped.
const ATTEMPT_UNDER_FAULTS: Span = Span::from_ms(200);
/// Nor do they pause longer between attempts.
const BACKOFF_UNDER_FAULTS: Span = Span::from_ms(20);

/// One door where one node is asked, else one for each node. Where things go wrong, a door leads to the other nodes if its
/// own does not answer.
pub(super) fn of(nodes: &Nodes, load: &ClusterLoad, leader: usize) -> Vec<Door> {
    let calm = load.faults.is_empty();
    let mut client = ClientConfig { go_to_leader: load.at == Role::Leader, ..ClientConfig::default() };
    if !calm {
        client.attempt_timeout = ATTEMPT_UNDER_FAULTS;
        client.backoff_max = BACKOFF_UNDER_FAULTS;
    }
    let count = nodes.count();
    let from = |first: usize| (0..count).map(move |step| (first + step) % count);
    let door = |first: usize| {
        let strict = calm && load.at != Role::Leader;
        let numbers = from(first).take(if strict { 1 } else { count });
        Door { endpoints: numbers.map(|number| nodes.address(number).to_owned()).collect(), client: client.clone() }
    };
    match load.at {
        Role::Leader => vec![door(leader)],
        Role::Follower => vec![door((leader + 1) % count)],
        Role::Any => (0..count).map(door).collect(),
    }
}
