//! What bonds did in a run: how the load fell on the members, and what order on arrival cost.
//!
//! The members' shares are of the measured time. Order on arrival is counted by the bond itself: simulated from its start on, so
//! the warm-up is in it; live only the longest wait is, and may be that of an earlier run with the same bond.

use bond::reorder::Counters;
use fabric::{DriverKind, Fabric};
use live::control::BondState;
use machine::Span;
use serde::{Deserialize, Serialize};
use topology::{BondEnd, BondEndId, Direction, NodeId};

use crate::record::{LinkRecord, Record};
use crate::results::ExperimentResult;

/// Ends that sent less than this share of what the busiest one sent are left out of tables: they carried ACKs.
const SHOWN_FROM: f64 = 0.2;

/// What one end of a bond sent in a run, and how it put in order what came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BondRecord {
    /// The node at this end.
    pub node: String,
    /// The node at the other end.
    pub to: String,
    /// The bond's name at this end.
    pub name: String,
    /// Bytes that this end sent over each member while it was measured.
    pub bytes: Vec<u64>,
    /// Order on arrival at this end, where it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderRecord>,
}

/// What order on arrival did at one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OrderRecord {
    /// Frames that came.
    pub offered: u64,
    /// Frames that had to wait.
    pub held: u64,
    /// What a frame waited on average, those included that did not wait; seconds.
    pub hold_mean_seconds: f64,
    /// The longest wait, seconds.
    pub hold_max_seconds: f64,
    /// Gaps that were given up.
    pub given_up: u64,
}

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
    let name = |node: NodeId| topology.nodes[node].name.clone();
    let sent = |direction: Direction| links.get(usize::from(direction)).map_or(0, |record| record.bytes);
    let of = |(id, end): (BondEndId, &BondEnd)| BondRecord {
        node: name(end.node),
        to: name(topology.bonds[end.partner].node),
        name: end.name.clone(),
        bytes: topology.members(id).map(sent).collect(),
        order: order(id),
    };
    topology.bonds.iter_enumerated().map(of).collect()
}

/// What one direction of a bond did in a case: means over the runs, but the longest wait and the sum of the gaps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BondResult {
    /// Who drove the runs.
    pub driver: DriverKind,
    /// The sending node.
    pub from: String,
    /// The receiving node.
    pub to: String,
    /// The bond's name at the sending end.
    pub name: String,
    /// How much of what was sent went over each member, 0 to 1; nothing if nothing was sent.
    pub shares: Vec<f64>,
    /// Bytes sent a run.
    pub bytes: f64,
    /// Order on arrival at the receiving end: per run on average, but `hold_max_seconds` and `given_up` over all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderRecord>,
}

/// Sums up the runs of a case by one driver.
pub(crate) fn results<'a>(driver: DriverKind, runs: impl Iterator<Item = &'a Record>) -> Vec<BondResult> {
    let runs: Vec<&Record> = runs.collect();
    let ends = runs.iter().map(|run| run.bonds.len()).min().unwrap_or(0);
    let direction = |end: usize| {
        let BondRecord { node, to, name, .. } = &runs[0].bonds[end];
        // Both ends of a bond follow each other.
        let orders = runs.iter().map(|run| run.bonds.get(end ^ 1)?.order).collect::<Option<Vec<_>>>();
        let bytes: Vec<&[u64]> = runs.iter().map(|run| run.bonds[end].bytes.as_slice()).collect();
        let all = bytes.iter().copied().flatten().sum::<u64>() as f64;
        let of_member = |member: usize| bytes.iter().filter_map(|run| run.get(member)).sum::<u64>() as f64 / all;
        let members = if all > 0.0 { bytes[0].len() } else { 0 };
        BondResult {
            driver,
            from: node.clone(),
            to: to.clone(),
            name: name.clone(),
            shares: (0..members).map(of_member).collect(),
            bytes: all / runs.len() as f64,
            order: orders.map(|orders| together(&orders)),
        }
    };
    (0..ends).map(direction).collect()
}

fn together(orders: &[OrderRecord]) -> OrderRecord {
    let runs = orders.len().max(1);
    let mean = |of: fn(&OrderRecord) -> u64| orders.iter().map(of).sum::<u64>() / runs as u64;
    OrderRecord {
        offered: mean(|order| order.offered),
        held: mean(|order| order.held),
        hold_mean_seconds: orders.iter().map(|order| order.hold_mean_seconds).sum::<f64>() / runs as f64,
        hold_max_seconds: orders.iter().map(|order| order.hold_max_seconds).fold(0.0, f64::max),
        given_up: orders.iter().map(|order| order.given_up).sum(),
    }
}

/// From this column on they are figures.
const FIGURES: usize = 3;
/// From this column on they are about order on arrival.
const ORDER: usize = 4;
/// All headings.
const HEADINGS: [&str; 8] = [
    "case",
    "driver",
    "bond",
    "share of each member (%)",
    "held (%)",
    "mean wait (us)",
    "longest wait (us)",
    "gaps given up",
];

/// What bonds did, for a table: a row for each direction that carried data.
#[derive(Debug)]
pub(crate) struct BondTable {
    pub headings: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
    /// From this column on they are figures.
    pub figures: usize,
}

impl BondTable {
    /// The table of an experiment, without columns that say nothing; `None` without bonds.
    pub fn of(experiment: &ExperimentResult) -> Option<Self> {
        let all = || experiment.cases.iter().flat_map(|case| &case.bonds);
        let first = all().next()?.driver;
        let both = all().any(|bond| bond.driver != first);
        let in_order = all().any(|bond| bond.order.is_some());
        let columns = (0..HEADINGS.len()).filter(|&at| (both || at != 1) && (in_order || at < ORDER));
        let columns: Vec<usize> = columns.collect();
        let choose = |row: [String; 8]| columns.iter().map(|&at| row[at].clone()).collect();
        Some(Self {
            headings: columns.iter().map(|&at| HEADINGS[at]).collect(),
            rows: rows(experiment).into_iter().map(choose).collect(),
            figures: columns.iter().filter(|at| **at < FIGURES).count(),
        })
    }
}

/// A row for each direction that carried data.
fn rows(experiment: &ExperimentResult) -> Vec<[String; 8]> {
    let mut rows = Vec::new();
    for case in &experiment.cases {
        let most = case.bonds.iter().map(|bond| bond.bytes).fold(0.0, f64::max);
        for bond in case.bonds.iter().filter(|bond| bond.bytes > 0.0 && bond.bytes >= SHOWN_FROM * most) {
            let [held, mean, longest, given_up] = bond.order.map_or_else(Default::default, order_cells);
            rows.push([
                case.labels.to_string(),
                crate::plan::driver_name(bond.driver).to_owned(),
                format!("{} > {}", bond.from, bond.to),
                shares(&bond.shares),
                held,
                mean,
                longest,
                given_up,
            ]);
        }
    }
    rows
}

fn shares(shares: &[f64]) -> String {
    shares.iter().map(|share| format!("{:.1}", share * 100.0)).collect::<Vec<_>>().join(" / ")
}

fn order_cells(order: OrderRecord) -> [String; 4] {
    let held = order.held as f64 / (order.offered as f64).max(1.0);
    [
        format!("{:.1}", held * 100.0),
        format!("{:.1}", order.hold_mean_seconds * 1e6),
        format!("{:.1}", order.hold_max_seconds * 1e6),
        order.given_up.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::empty_record;

    fn end(node: &str, to: &str, bytes: &[u64], order: Option<OrderRecord>) -> BondRecord {
        BondRecord { node: node.to_owned(), to: to.to_owned(), name: "bond0".to_owned(), bytes: bytes.to_vec(), order }
    }

    fn run(bytes: [u64; 2], longest: f64) -> Record {
        let order = OrderRecord {
            offered: 100,
            held: 40,
            hold_mean_seconds: longest / 4.0,
            hold_max_seconds: longest,
            given_up: 1,
        };
        let bonds = vec![end("h1", "s1", &bytes, None), end("s1", "h1", &[1, 0], Some(order))];
        Record { bonds, ..empty_record() }
    }

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

    #[test]
    fn runs_are_summed_up_by_direction() {
        let runs = [run([300, 100], 1e-3), run([100, 300], 3e-3)];
        let results = results(DriverKind::Sim, runs.iter());
        assert_eq!(results.len(), 2);
        assert_eq!((results[0].from.as_str(), results[0].to.as_str()), ("h1", "s1"));
        assert_eq!((results[0].shares.as_slice(), results[0].bytes), ([0.5, 0.5].as_slice(), 400.0));
        let order = results[0].order.expect("what h1 sends is put in order at s1");
        assert_eq!((order.held, order.hold_max_seconds, order.given_up), (40, 3e-3, 2));
        assert!((order.hold_mean_seconds - 0.5e-3).abs() < 1e-12);
        assert_eq!(results[1].order, None, "h1 does not put in order");
    }

    #[test]
    fn nothing_sent_has_no_shares() {
        let results = results(DriverKind::Sim, [run([0, 0], 0.0)].iter());
        assert!(results[0].shares.is_empty());
        assert!(super::results(DriverKind::Sim, [].into_iter()).is_empty());
    }

    #[test]
    fn shares_and_waits_in_short() {
        assert_eq!(shares(&[0.5, 0.499_96]), "50.0 / 50.0");
        let order =
            OrderRecord { offered: 8, held: 2, hold_mean_seconds: 12.34e-6, hold_max_seconds: 1.5e-4, given_up: 3 };
        assert_eq!(order_cells(order), ["25.0", "12.3", "150.0", "3"]);
    }
}
