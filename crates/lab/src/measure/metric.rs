//! Metrics of a record, and how they are called.

use fabric::{DriverKind, Metric, Operation, SizeClass, Statistic, Traffic, Work};
use transport::delay::Delays;
use transport::paced::Outcome;
use transport::transfers;

use crate::measure::cluster_record::ClusterRecord;
use crate::measure::record::{FlowRecord, Record};
use crate::measure::statistics;

/// The metric's value in one run; `None` where the driver cannot know it.
///
/// The reordering extent is the largest since the flow's start in live runs, since the end of the warm-up in simulated
/// ones. Everything else is of the measured time.
pub fn metric_value(record: &Record, metric: Metric) -> Option<f64> {
    let goodputs = || record.flows.iter().map(|flow| flow.goodput_bps);
    match metric {
        Metric::GoodputMean => statistics::mean(&goodputs().collect::<Vec<_>>()),
        Metric::GoodputMin => goodputs().min_by(f64::total_cmp),
        Metric::GoodputMax => goodputs().max_by(f64::total_cmp),
        Metric::GoodputSum => Some(goodputs().sum()),
        Metric::Fairness => statistics::jain(&goodputs().collect::<Vec<_>>()),
        Metric::Retransmits => total(record, |flow| Some(flow.retransmits)),
        Metric::FastRetransmits => total(record, |flow| flow.fast_retransmits),
        Metric::Timeouts => total(record, |flow| flow.timeouts),
        Metric::Reordered => record.reordered.map(|n| n as f64).or_else(|| total(record, |flow| flow.reordered)),
        Metric::ReorderExtent => record
            .reorder_extent
            .map(f64::from)
            .or_else(|| record.flows.iter().map(|flow| flow.reorder_extent).max().flatten().map(f64::from)),
        Metric::Drops => Some(record.links.iter().map(|link| link.drops).sum::<u64>() as f64),
        Metric::QueueMean => record.links.iter().filter_map(|link| link.queue_mean).reduce(|sum, mean| sum + mean),
        Metric::Marks => Some(record.links.iter().map(|link| link.marks).sum::<u64>() as f64),
        Metric::LinkLosses => Some(record.links.iter().map(|link| link.losses).sum::<u64>() as f64),
        Metric::LinkDuplicates => Some(record.links.iter().map(|link| link.duplicates).sum::<u64>() as f64),
        Metric::LinkCorruptions => Some(record.links.iter().map(|link| link.corruptions).sum::<u64>() as f64),
        Metric::LinkOvertakes => Some(record.links.iter().map(|link| link.overtakes).sum::<u64>() as f64),
        Metric::Delay(statistic) => delay(&delays(record)?, statistic),
        Metric::RoundTrip(statistic) => statistics::of(&round_trips(record), statistic),
        Metric::Lost => datagrams(record, |outcome| outcome.lost as f64).map(|all| all.sum()),
        Metric::Duplicates => datagrams(record, |outcome| outcome.duplicates as f64).map(|all| all.sum()),
        Metric::LongestGap => datagrams(record, |outcome| outcome.longest_gap.as_secs_f64())?.max_by(f64::total_cmp),
        Metric::UtilisationMean => {
            let trunks: Vec<f64> =
                record.links.iter().filter(|link| link.trunk).filter_map(|link| link.utilisation).collect();
            statistics::mean(&trunks)
        }
        Metric::UtilisationMax => record.links.iter().filter_map(|link| link.utilisation).max_by(f64::total_cmp),
        Metric::Completion(statistic) => statistics::of(&completion_times(record), statistic),
        Metric::CompletionOf(class, statistic) => statistics::of(&completion_times_of(record, class), statistic),
        Metric::Unfinished => transfers(record, |outcome| outcome.unfinished as f64).map(|all| all.sum()),
        Metric::RequestRate => record.requests.as_ref().map(|did| did.per_second),
        Metric::Response(statistic) => Some(record.requests.as_ref()?.latency?.statistic(statistic)),
        Metric::Failed if record.requests.is_some() => record.requests.as_ref().map(|did| did.failed() as f64),
        Metric::Latency(..)
        | Metric::Throughput(_)
        | Metric::LostWrites
        | Metric::Failed
        | Metric::Linearizable
        | Metric::UnavailableMax
        | Metric::ResidentMax => record.cluster.as_ref().and_then(|cluster| cluster_value(cluster, metric)),
    }
}

/// What controllers know of themselves; runs of traffic know nothing of it.
fn cluster_value(cluster: &ClusterRecord, metric: Metric) -> Option<f64> {
    match metric {
        Metric::Latency(operation, statistic) => cluster.operation(operation)?.latencies.statistic(statistic),
        Metric::Throughput(operation) => {
            let record = cluster.operation(operation)?;
            (record.seconds > 0.0).then(|| record.latencies.count as f64 / record.seconds)
        }
        Metric::LostWrites => cluster.lost_writes.map(|lost| lost as f64),
        Metric::Failed => Some(cluster.failed as f64),
        Metric::Linearizable => cluster.linearizable.map(|is| f64::from(u8::from(is))),
        Metric::UnavailableMax => cluster.unavailable_max_seconds,
        Metric::ResidentMax => cluster.resident_max_bytes.map(|bytes| bytes as f64),
        _ => None,
    }
}

/// How long the packets of all flows took; `None` where that is not known of any.
pub(crate) fn delays(record: &Record) -> Option<Delays> {
    record.flows.iter().filter_map(|flow| flow.delays.clone()).reduce(|mut sum, delays| {
        sum.add(&delays);
        sum
    })
}

/// A statistic of that, seconds.
fn delay(delays: &Delays, statistic: Statistic) -> Option<f64> {
    match statistic {
        Statistic::Min => delays.min(),
        Statistic::Mean => delays.mean(),
        Statistic::P50 => delays.quantile(0.5),
        Statistic::P90 => delays.quantile(0.9),
        Statistic::P99 => delays.quantile(0.99),
        Statistic::P999 => delays.quantile(0.999),
        Statistic::Max => delays.max(),
    }
}

/// The smoothed round-trip times of all flows at the end of each step, seconds.
fn round_trips(record: &Record) -> Vec<f64> {
    let flows = record.time_series.iter().flat_map(|series| &series.flows);
    flows.flat_map(|flow| &flow.rtt_us).filter(|us| **us > 0).map(|us| *us as f64 * 1e-6).collect()
}

/// Something of each flow of a constant rate; `None` if there is none.
fn datagrams(record: &Record, of: impl Fn(&Outcome) -> f64) -> Option<impl Iterator<Item = f64>> {
    let all: Vec<f64> = record.flows.iter().filter_map(|flow| flow.datagrams.as_ref()).map(of).collect();
    (!all.is_empty()).then(|| all.into_iter())
}

/// Something of each pair whose connections come and go; `None` if there is none.
fn transfers(record: &Record, of: impl Fn(&transfers::Outcome) -> f64) -> Option<impl Iterator<Item = f64>> {
    let all: Vec<f64> = record.flows.iter().filter_map(|flow| flow.transfers.as_ref()).map(of).collect();
    (!all.is_empty()).then(|| all.into_iter())
}

/// How long the transfers of all pairs took that ended, seconds.
pub(crate) fn completion_times(record: &Record) -> Vec<f64> {
    let transfers = record.flows.iter().filter_map(|flow| flow.transfers.as_ref());
    transfers.flat_map(|outcome| &outcome.times_ns).map(|ns| *ns as f64 * 1e-9).collect()
}

/// The same of the transfers of a class. Where all have one size, none are of any class.
pub(crate) fn completion_times_of(record: &Record, class: SizeClass) -> Vec<f64> {
    let transfers = record.flows.iter().filter_map(|flow| flow.transfers.as_ref());
    let sized = transfers.flat_map(|outcome| outcome.sizes_bytes.iter().zip(&outcome.times_ns));
    sized.filter(|(bytes, _)| SizeClass::of(**bytes) == class).map(|(_, ns)| *ns as f64 * 1e-9).collect()
}

/// The sum over the flows; `None` if it is unknown of any.
fn total(record: &Record, of: impl Fn(&FlowRecord) -> Option<u64>) -> Option<f64> {
    record.flows.iter().map(of).sum::<Option<u64>>().map(|n| n as f64)
}

/// Whether runs of `driver` can know the metric at all: a real TCP does not show from outside why it sent again, and
/// simulated controllers share one process.
pub(crate) const fn is_known_to(metric: Metric, driver: DriverKind) -> bool {
    !matches!(
        (metric, driver),
        (Metric::FastRetransmits | Metric::Timeouts, DriverKind::Live) | (Metric::ResidentMax, DriverKind::Sim)
    )
}

/// What people call it.
pub fn metric_name(metric: Metric) -> &'static str {
    match metric {
        Metric::GoodputMean => "goodput, mean",
        Metric::GoodputMin => "goodput, slowest flow",
        Metric::GoodputMax => "goodput, fastest flow",
        Metric::GoodputSum => "goodput, sum",
        Metric::Fairness => "fairness (Jain)",
        Metric::Retransmits => "retransmits",
        Metric::FastRetransmits => "fast retransmits",
        Metric::Timeouts => "timeouts",
        Metric::Reordered => "reordered segments",
        Metric::ReorderExtent => "reordering extent",
        Metric::Drops => "drops",
        Metric::QueueMean => "packets in queues, mean",
        Metric::Marks => "marks",
        Metric::LinkLosses => "packets lost on links",
        Metric::LinkDuplicates => "packets duplicated by links",
        Metric::LinkCorruptions => "packets corrupted by links",
        Metric::LinkOvertakes => "packets that overtook others on links",
        Metric::Delay(Statistic::Min) => "one-way delay, least",
        Metric::Delay(Statistic::Mean) => "one-way delay, mean",
        Metric::Delay(Statistic::P50) => "one-way delay, median",
        Metric::Delay(Statistic::P90) => "one-way delay, p90",
        Metric::Delay(Statistic::P99) => "one-way delay, p99",
        Metric::Delay(Statistic::P999) => "one-way delay, p99.9",
        Metric::Delay(Statistic::Max) => "one-way delay, longest",
        Metric::RoundTrip(Statistic::Min) => "round-trip time, least",
        Metric::RoundTrip(Statistic::Mean) => "round-trip time, mean",
        Metric::RoundTrip(Statistic::P50) => "round-trip time, median",
        Metric::RoundTrip(Statistic::P90) => "round-trip time, p90",
        Metric::RoundTrip(Statistic::P99) => "round-trip time, p99",
        Metric::RoundTrip(Statistic::P999) => "round-trip time, p99.9",
        Metric::RoundTrip(Statistic::Max) => "round-trip time, longest",
        Metric::Lost => "lost datagrams",
        Metric::Duplicates => "duplicates",
        Metric::LongestGap => "longest gap",
        Metric::UtilisationMean => "trunk utilisation, mean",
        Metric::UtilisationMax => "busiest link",
        Metric::LostWrites => "lost writes",
        Metric::Failed => "failed requests",
        Metric::UnavailableMax => "longest time without a write",
        Metric::ResidentMax => "resident memory, largest node",
        Metric::Linearizable => "linearizable (1: yes)",
        Metric::Completion(Statistic::Min) => "completion time, least",
        Metric::Completion(Statistic::Mean) => "completion time, mean",
        Metric::Completion(Statistic::P50) => "completion time, median",
        Metric::Completion(Statistic::P90) => "completion time, p90",
        Metric::Completion(Statistic::P99) => "completion time, p99",
        Metric::Completion(Statistic::P999) => "completion time, p99.9",
        Metric::Completion(Statistic::Max) => "completion time, longest",
        Metric::CompletionOf(class, statistic) => class_name(class, statistic),
        Metric::Unfinished => "unfinished transfers",
        Metric::RequestRate => "requests a second",
        Metric::Response(Statistic::Min) => "response time, least",
        Metric::Response(Statistic::Mean) => "response time, mean",
        Metric::Response(Statistic::P50) => "response time, median",
        Metric::Response(Statistic::P90) => "response time, p90",
        Metric::Response(Statistic::P99) => "response time, p99",
        Metric::Response(Statistic::P999) => "response time, p99.9",
        Metric::Response(Statistic::Max) => "response time, longest",
        Metric::Latency(..) | Metric::Throughput(_) => metric.word(),
    }
}

const fn class_name(class: SizeClass, statistic: Statistic) -> &'static str {
    match (class, statistic) {
        (SizeClass::Short, Statistic::Min) => "completion time up to 100 kB, least",
        (SizeClass::Short, Statistic::Mean) => "completion time up to 100 kB, mean",
        (SizeClass::Short, Statistic::P50) => "completion time up to 100 kB, median",
        (SizeClass::Short, Statistic::P90) => "completion time up to 100 kB, p90",
        (SizeClass::Short, Statistic::P99) => "completion time up to 100 kB, p99",
        (SizeClass::Short, Statistic::P999) => "completion time up to 100 kB, p99.9",
        (SizeClass::Short, Statistic::Max) => "completion time up to 100 kB, longest",
        (SizeClass::Medium, Statistic::Min) => "completion time to 10 MB, least",
        (SizeClass::Medium, Statistic::Mean) => "completion time to 10 MB, mean",
        (SizeClass::Medium, Statistic::P50) => "completion time to 10 MB, median",
        (SizeClass::Medium, Statistic::P90) => "completion time to 10 MB, p90",
        (SizeClass::Medium, Statistic::P99) => "completion time to 10 MB, p99",
        (SizeClass::Medium, Statistic::P999) => "completion time to 10 MB, p99.9",
        (SizeClass::Medium, Statistic::Max) => "completion time to 10 MB, longest",
        (SizeClass::Long, Statistic::Min) => "completion time over 10 MB, least",
        (SizeClass::Long, Statistic::Mean) => "completion time over 10 MB, mean",
        (SizeClass::Long, Statistic::P50) => "completion time over 10 MB, median",
        (SizeClass::Long, Statistic::P90) => "completion time over 10 MB, p90",
        (SizeClass::Long, Statistic::P99) => "completion time over 10 MB, p99",
        (SizeClass::Long, Statistic::P999) => "completion time over 10 MB, p99.9",
        (SizeClass::Long, Statistic::Max) => "completion time over 10 MB, longest",
    }
}

/// What is shown of an experiment whose file names no metrics.
pub(crate) fn usual(work: &Work) -> Vec<Metric> {
    let load = match work {
        Work::Cluster(load) => load,
        Work::Traffic(traffic) if traffic.rate_pps.is_some() => return USUAL_AT_A_RATE.to_vec(),
        Work::Traffic(traffic) if traffic.transfers.is_some() => return usual_of_transfers(traffic),
        Work::Traffic(traffic) if traffic.requests.is_some() => return USUAL_OF_REQUESTS.to_vec(),
        Work::Traffic(_) => return USUAL.to_vec(),
    };
    let mut metrics: Vec<Metric> = Vec::new();
    for &operation in &load.operations {
        let last = if operation == Operation::Election { Statistic::Max } else { Statistic::P99 };
        metrics.extend([Statistic::Mean, last].map(|statistic| Metric::Latency(operation, statistic)));
    }
    metrics.push(Metric::Failed);
    if !load.faults.is_empty() {
        metrics.extend([Metric::LostWrites, Metric::Linearizable, Metric::UnavailableMax]);
    }
    metrics
}

/// Where sizes differ, of those classes that can occur as well.
fn usual_of_transfers(traffic: &Traffic) -> Vec<Metric> {
    let sizes = traffic.transfers.as_ref().map(|transfers| &transfers.size);
    let drawn = sizes.filter(|sizes| sizes.all_the_same().is_none());
    let classes = SizeClass::ALL.into_iter().filter(|class| {
        drawn.is_some_and(|sizes| (SizeClass::of(sizes.smallest())..=SizeClass::of(sizes.largest())).contains(class))
    });
    let of_class = |class| [Statistic::Mean, Statistic::P99].map(|statistic| Metric::CompletionOf(class, statistic));
    USUAL_OF_TRANSFERS.into_iter().chain(classes.flat_map(of_class)).collect()
}

/// Of traffic.
const USUAL: [Metric; 5] =
    [Metric::GoodputMean, Metric::Retransmits, Metric::Reordered, Metric::Drops, Metric::UtilisationMean];

/// Of connections that come and go.
const USUAL_OF_TRANSFERS: [Metric; 5] = [
    Metric::Completion(Statistic::Mean),
    Metric::Completion(Statistic::P50),
    Metric::Completion(Statistic::P99),
    Metric::Completion(Statistic::Max),
    Metric::Unfinished,
];

/// Of requests to a service.
const USUAL_OF_REQUESTS: [Metric; 4] =
    [Metric::RequestRate, Metric::Response(Statistic::P50), Metric::Response(Statistic::P99), Metric::Failed];

/// Of traffic at a constant rate.
const USUAL_AT_A_RATE: [Metric; 4] = [Metric::Lost, Metric::LongestGap, Metric::Reordered, Metric::Duplicates];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::record::LinkRecord;
    use crate::testing::empty_record;

    fn flow(goodput_bps: f64, fast: Option<u64>, extent: Option<u32>) -> FlowRecord {
        FlowRecord {
            retransmits: 2,
            fast_retransmits: fast,
            reorder_extent: extent,
            ..FlowRecord::new("h1".into(), "h2".into(), goodput_bps)
        }
    }

    fn link(trunk: bool, utilisation: Option<f64>) -> LinkRecord {
        LinkRecord {
            from: "a".into(),
            to: "b".into(),
            trunk,
            packets: 1,
            bytes: 1,
            drops: 3,
            marks: 2,
            cut: 0,
            losses: 3,
            duplicates: 0,
            corruptions: 0,
            overtakes: 0,
            utilisation,
            queue_mean: utilisation.map(|share| 10.0 * share),
        }
    }

    fn record() -> Record {
        Record {
            flows: vec![flow(1e6, Some(1), Some(4)), flow(3e6, Some(2), None)],
            links: vec![link(true, Some(0.2)), link(true, Some(0.4)), link(false, Some(0.9)), link(true, None)],
            ..empty_record()
        }
    }

    #[test]
    fn values_come_from_flows_and_links() {
        let record = record();
        let value = |metric| metric_value(&record, metric);
        assert_eq!(value(Metric::GoodputMean), Some(2e6));
        assert_eq!(value(Metric::GoodputMin), Some(1e6));
        assert_eq!(value(Metric::GoodputMax), Some(3e6));
        assert_eq!(value(Metric::GoodputSum), Some(4e6));
        assert_eq!(value(Metric::Fairness), Some(0.8));
        assert_eq!(value(Metric::Retransmits), Some(4.0));
        assert_eq!(value(Metric::FastRetransmits), Some(3.0));
        assert_eq!(value(Metric::Drops), Some(12.0));
        assert!((value(Metric::UtilisationMean).unwrap() - 0.3).abs() < 1e-12, "only links between switches count");
        assert_eq!(value(Metric::UtilisationMax), Some(0.9));
        assert_eq!(value(Metric::ReorderExtent), Some(4.0));
        assert_eq!(value(Metric::QueueMean), Some(15.0), "all links together");
    }

    #[test]
    fn what_is_not_known_is_none_and_not_zero() {
        let mut record = record();
        assert_eq!(metric_value(&record, Metric::Timeouts), None);
        assert_eq!(metric_value(&record, Metric::Reordered), None);
        record.reordered = Some(7);
        assert_eq!(metric_value(&record, Metric::Reordered), Some(7.0));
        record.flows.clear();
        record.links.retain(|link| link.utilisation.is_none());
        assert_eq!(metric_value(&record, Metric::QueueMean), None, "nothing waits where there is no rate");
        assert_eq!(metric_value(&record, Metric::GoodputMean), None);
    }

    #[test]
    fn delays_are_those_of_the_packets_of_all_flows() {
        let mut record = record();
        let value = |record: &Record, statistic| metric_value(record, Metric::Delay(statistic));
        assert_eq!(value(&record, Statistic::Mean), None);
        let delays = |ms: &[u64]| {
            let mut meter = transport::delay::Meter::default();
            for ms in ms {
                meter.record(machine::Span::from_ms(*ms));
            }
            Some(meter.delays())
        };
        record.flows[0].delays = delays(&[1, 2]);
        assert_eq!(value(&record, Statistic::Mean), Some(0.0015));
        record.flows[1].delays = delays(&[9]);
        assert_eq!(value(&record, Statistic::Mean), Some(0.004));
        assert_eq!(value(&record, Statistic::Min), Some(0.001));
        assert_eq!(value(&record, Statistic::Max), Some(0.009));
        let half = value(&record, Statistic::P50).unwrap();
        assert!((0.0019..0.0022).contains(&half), "{half}");
    }

    #[test]
    fn completion_times_are_known_by_size_where_sizes_differ() {
        let mut record = record();
        let outcome = |sizes_bytes: Vec<u32>| transfers::Outcome {
            started: 3,
            unfinished: 0,
            times_ns: vec![1_000_000, 3_000_000, 8_000_000],
            sizes_bytes,
        };
        record.flows[0].transfers = Some(outcome(vec![100_000, 1, 100_001]));
        let mean = |record: &Record, class| metric_value(record, Metric::CompletionOf(class, Statistic::Mean));
        assert_eq!(mean(&record, SizeClass::Short), Some(0.002));
        assert_eq!(mean(&record, SizeClass::Medium), Some(0.008));
        assert_eq!(mean(&record, SizeClass::Long), None);
        record.flows[0].transfers = Some(outcome(Vec::new()));
        assert_eq!(mean(&record, SizeClass::Short), None);
    }

    #[test]
    fn completion_times_are_of_the_transfers_of_all_pairs() {
        let mut record = record();
        assert_eq!(metric_value(&record, Metric::Unfinished), None);
        let transfers = |times_ns: &[u64], unfinished| {
            let started = times_ns.len() as u64 + unfinished;
            Some(transfers::Outcome { started, unfinished, times_ns: times_ns.to_vec(), sizes_bytes: Vec::new() })
        };
        record.flows[0].transfers = transfers(&[1_000_000, 3_000_000], 1);
        record.flows[1].transfers = transfers(&[2_000_000], 2);
        let value = |statistic| metric_value(&record, Metric::Completion(statistic)).unwrap();
        for (statistic, ms) in
            [(Statistic::Mean, 2.0), (Statistic::P50, 2.0), (Statistic::P99, 2.98), (Statistic::Max, 3.0)]
        {
            assert!((value(statistic) * 1e3 - ms).abs() < 1e-9, "{statistic:?}");
        }
        assert_eq!(metric_value(&record, Metric::Unfinished), Some(3.0));
        record.flows[0].transfers = transfers(&[], 1);
        record.flows[1].transfers = transfers(&[], 1);
        assert_eq!(metric_value(&record, Metric::Completion(Statistic::Mean)), None, "none ended");
    }
}
