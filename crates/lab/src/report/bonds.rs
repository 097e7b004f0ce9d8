//! What bonds did, as a table: a row for each direction that carried data.

use crate::measure::record::OrderRecord;
use crate::results::ExperimentResult;

/// Ends that sent less than this share of what the busiest one sent are left out of tables: they carried ACKs.
const SHOWN_FROM: f64 = 0.2;

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
                bond.driver.word().to_owned(),
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

    #[test]
    fn shares_and_waits_in_short() {
        assert_eq!(shares(&[0.5, 0.499_96]), "50.0 / 50.0");
        let order =
            OrderRecord { offered: 8, held: 2, hold_mean_seconds: 12.34e-6, hold_max_seconds: 1.5e-4, given_up: 3 };
        assert_eq!(order_cells(order), ["25.0", "12.3", "150.0", "3"]);
    }
}
