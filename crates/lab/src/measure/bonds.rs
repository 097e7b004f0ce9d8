//! What bonds did in a run: how the load fell on the members, and what order on arrival cost.
//!
//! The members' shares are of the measured time. Order on arrival is counted by the bond itself: simulated from its start on, so
//! the warm-up is in it; live only the longest wait is, and may be that of an earlier run with the same bond.

use bond::reorder::Counters;
use fabric::Fabric;
use live::control::BondState;
use machine::Span;
use topology::{BondEnd, BondEndId, Direction};

use super::record::{BondRecord, LinkRecord, OrderRecord, node_name};

/// What an end did between two readings of its counters.
pub(crate) fn order_between(before: &Counters, after: &Counters) -> OrderRecord {
    let grown = |count: fn(&Counters) -> u64| count(after).saturating_sub(count(before));
    let offered = grown(|counters| counters.offered);
    let waited = Span::from_ps(after.hold_total_ps.saturating_sub(before.hold_total_ps) as u64);
    OrderRecord {
        offered,
        held: grown(|counters| counters.held),
        hold_mean_seconds: waited.as_secs_f64() / offered.max(1) as f64,
        hold_max_seconds: after.hold_max.as_secs_f64(),
        given_up: grown(|counters| counters.given_up.total()),
    }
}

/// What a simulated end says of itself.
pub(crate) fn order_of(outcome: &sim::BondOutcome) -> Option<OrderRecord> {
    outcome.reordering.map(|counters| order_between(&Counters::default(), &counters))
}

/// What the bond `name` of `node` did between two readings of all live ones.
pub(crate) fn order_live(node: &str, name: &str, before: &[BondState], after: &[BondState]) -> Option<OrderRecord> {
    let find = |states: &[BondState]| {
        states.iter().find(|state| state.node == node && state.name == name).and_then(|state| state.reordering)
    };
    find(after).map(|after| order_between(&find(before).unwrap_or_default(), &after))
}

/// The ends of a fabric's bonds, in its order; `links` are all its links' records.
pub(crate) fn records(
    fabric: &Fabric,
    links: &[LinkRecord],
    order: impl Fn(BondEndId) -> Option<OrderRecord>,
) -> Vec<BondRecord> {
    let topology = &fabric.topology;
    let sent = |direction: Direction| links.get(usize::from(direction)).map_or(0, |record| record.bytes);
    let of = |(id, end): (BondEndId, &BondEnd)| BondRecord {
        node: node_name(fabric, end.node),
        to: node_name(fabric, topology.bonds[end.partner].node),
        name: end.name.clone(),
        bytes: topology.members(id).map(sent).collect(),
        order: order(id),
    };
    topology.bonds.iter_enumerated().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_live_end_did_before_does_not_count() {
        let state = |offered: u64, wait_us: u64| BondState {
            node: "h2".to_owned(),
            name: "bond0".to_owned(),
            mode: "balance-rr".to_owned(),
            carrier: true,
            members: Vec::new(),
            accepted: 0,
            inactive: 0,
            reordering: Some(Counters {
                offered,
                held: offered / 2,
                hold_total_ps: u128::from(wait_us) * 1_000_000,
                hold_max: Span::from_us(90),
                ..Counters::default()
            }),
        };
        let other = BondState { node: "another".to_owned(), ..state(9, 9) };
        let (before, after) = ([other.clone(), state(100, 1_000)], [state(300, 5_000), other]);
        let order = order_live("h2", "bond0", &before, &after).expect("it puts in order");
        assert_eq!((order.offered, order.held), (200, 100));
        assert!((order.hold_mean_seconds - 20e-6).abs() < 1e-12, "{order:?}");
        assert_eq!(order_live("h2", "bond1", &before, &after), None);
        let off = [BondState { reordering: None, ..state(0, 0) }];
        assert_eq!(order_live("h2", "bond0", &before, &off), None, "order is off");
    }
}
