//! What bonds did in the runs of a case, together.

use fabric::DriverKind;
use serde::{Deserialize, Serialize};

use crate::measure::record::{BondRecord, OrderRecord, Record};

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
}
