use std::time::Instant;

use fabric::{DriverKind, Metric};
use machine::Span;

use super::{ComparedLink, ComparedMetric, DriverComparison};
use crate::Options;
use crate::error::Error;
use crate::measure::record::{FlowRecord, LinkRecord, Record};
use crate::measure::time_series::{FlowSeries, LinkSeries, TimeSeries};
use crate::plan::{PlannedRun, plan};
use crate::results::{Means, Quantity, Results};
use crate::testing::{environment, experiment, tree};

const BOTH: [DriverKind; 2] = [DriverKind::Live, DriverKind::Sim];

/// What a run saw of its one flow and the link that it takes.
#[derive(Clone, Copy)]
struct Seen {
    goodput_bps: f64,
    retransmits: u64,
    reordered: Option<u64>,
    drops: u64,
    queue: f64,
}

const SEEN: Seen = Seen { goodput_bps: 50e6, retransmits: 100, reordered: Some(200), drops: 300, queue: 20.0 };

fn flow(to: &str, seen: Seen) -> FlowRecord {
    FlowRecord {
        retransmits: seen.retransmits,
        reordered: seen.reordered,
        ..FlowRecord::new("h1".to_owned(), to.to_owned(), seen.goodput_bps)
    }
}

fn link(to: &str, drops: u64, utilisation: Option<f64>) -> LinkRecord {
    let (from, to) = ("h1".to_owned(), to.to_owned());
    LinkRecord {
        from,
        to,
        trunk: false,
        packets: 1_000,
        bytes: 1_000_000,
        drops,
        marks: 0,
        cut: 0,
        losses: 0,
        duplicates: 0,
        corruptions: 0,
        overtakes: 0,
        utilisation,
        queue_mean: None,
    }
}

fn seen(run: &PlannedRun, seen: Seen) -> Record {
    let link = LinkRecord { queue_mean: Some(seen.queue), ..link("s1", seen.drops, Some(0.5)) };
    Record { flows: vec![flow("h2", seen)], links: vec![link], ..run.record(1.0) }
}

/// Experiments of these names with one case and three repeats; runs of which there is no record did not take place.
fn results(names: &[&str], drivers: &[DriverKind], record: impl Fn(&PlannedRun) -> Option<Record>) -> Results {
    let mut fabric = tree(1, 1, 2, false);
    for name in names {
        let mut experiment = experiment(0.0);
        (*name).clone_into(&mut experiment.name);
        experiment.duration = Span::from_secs(1);
        experiment.vary.clear();
        experiment.expect.clear();
        fabric.experiments.push(experiment);
    }
    let plan = plan(&fabric, &Options { drivers: drivers.to_vec(), ..Options::default() }).unwrap();
    let measured = plan.runs.iter().filter_map(|run| Some((record(run)?, run.timing(Instant::now()))));
    let measured = measured.collect();
    Results::new(&fabric, &plan, measured, environment())
}

/// One experiment, of which each driver sees the same in all repeats.
fn both(live: Seen, sim: Seen) -> Results {
    results(&["a"], &BOTH, |run| Some(seen(run, if run.driver == DriverKind::Live { live } else { sim })))
}

fn metric(comparison: &DriverComparison, metric: Metric) -> ComparedMetric {
    let metrics = &comparison.experiments[0].cases[0].metrics;
    *metrics.iter().find(|compared| compared.metric == metric).unwrap()
}

/// The metrics outside their tolerance.
fn outside(live: Seen, sim: Seen) -> Vec<Metric> {
    let results = both(live, sim);
    let comparison = results.compare_drivers(&[]).unwrap();
    let metrics = &comparison.experiments[0].cases[0].metrics;
    let outside: Vec<Metric> = metrics.iter().filter(|one| one.within == Some(false)).map(|one| one.metric).collect();
    assert_eq!((comparison.judged, comparison.within), (5, 5 - outside.len()));
    assert_eq!(comparison.passed(), outside.is_empty());
    outside
}

#[test]
fn each_metric_has_its_tolerance() {
    assert_eq!(outside(SEEN, SEEN), []);
    let goodput = |goodput_bps| Seen { goodput_bps, ..SEEN };
    assert_eq!(outside(goodput(52.4e6), SEEN), []);
    assert_eq!(outside(goodput(47.4e6), SEEN), [Metric::GoodputMean]);
    let retransmits = |retransmits| Seen { retransmits, ..SEEN };
    assert_eq!(outside(retransmits(129), SEEN), []);
    assert_eq!(outside(retransmits(131), SEEN), [Metric::Retransmits]);
    let reordered = |reordered| Seen { reordered: Some(reordered), ..SEEN };
    assert_eq!(outside(reordered(259), SEEN), []);
    assert_eq!(outside(reordered(139), SEEN), [Metric::Reordered]);
    let drops = |drops| Seen { drops, ..SEEN };
    assert_eq!(outside(drops(211), SEEN), []);
    assert_eq!(outside(drops(391), SEEN), [Metric::Drops]);
    let queue = |queue| Seen { queue, ..SEEN };
    assert_eq!(outside(queue(23.9), SEEN), []);
    assert_eq!(outside(queue(15.9), SEEN), [Metric::QueueMean]);
}

#[test]
fn what_a_file_asks_for_is_judged() {
    let mut fabric = tree(1, 1, 2, false);
    let mut experiment = experiment(0.0);
    experiment.duration = Span::from_secs(1);
    experiment.vary.clear();
    experiment.expect.clear();
    experiment.report = vec![Metric::GoodputMax, Metric::ReorderExtent, Metric::GoodputMean];
    fabric.experiments.push(experiment);
    let plan = plan(&fabric, &Options { drivers: BOTH.to_vec(), ..Options::default() }).unwrap();
    let record = |run: &PlannedRun| {
        let goodput_bps = if run.driver == DriverKind::Live { 60e6 } else { 50e6 };
        let mut record = seen(run, Seen { goodput_bps, ..SEEN });
        // Only one driver knows how far segments were reordered.
        record.flows[0].reorder_extent = (run.driver == DriverKind::Sim).then_some(3);
        record
    };
    let measured = plan.runs.iter().map(|run| (record(run), run.timing(Instant::now()))).collect();
    let results = Results::new(&fabric, &plan, measured, environment());
    let comparison = results.compare_drivers(&[]).unwrap();
    let most = metric(&comparison, Metric::GoodputMax);
    assert_eq!((most.within, most.tolerance.map(|it| it.relative)), (Some(false), Some(0.1)));
    assert_eq!(metric(&comparison, Metric::ReorderExtent).within, None);
    assert_eq!((comparison.judged, comparison.within, comparison.unjudged), (6, 4, 1));
    let table = comparison.table_within(140);
    assert!(
        table.ends_with("\n4 of 6 within tolerance; 1 not judged, since only one driver has measured it\n"),
        "{table}"
    );
}

#[test]
fn means_of_zero_are_held_against_the_absolute_tolerance() {
    let none = Seen { goodput_bps: 0.0, retransmits: 0, reordered: Some(0), drops: 0, queue: 0.0 };
    let few = Seen { goodput_bps: 0.0, retransmits: 10, reordered: Some(10), drops: 10, queue: 1.0 };
    let more = Seen { goodput_bps: 1.0, retransmits: 11, reordered: Some(11), drops: 11, queue: 1.1 };
    assert_eq!(outside(none, none), []);
    assert_eq!(outside(few, none), []);
    assert_eq!(outside(none, few), []);
    let all = [Metric::GoodputMean, Metric::Retransmits, Metric::Reordered, Metric::Drops, Metric::QueueMean];
    assert_eq!(outside(more, none), all);
    assert_eq!(outside(none, more), all);
    let results = both(more, none);
    let difference = metric(&results.compare_drivers(&[]).unwrap(), Metric::Drops).difference.unwrap();
    assert_eq!((difference.mean, difference.relative), (11.0, None), "nothing is a per cent of zero");
}

#[test]
fn repetitions_that_form_no_pairs_are_compared_by_their_means() {
    let paired = both(Seen { drops: 330, ..SEEN }, SEEN);
    let drops = metric(&paired.compare_drivers(&[]).unwrap(), Metric::Drops);
    assert_eq!(drops.difference.unwrap().interval, Some(0.0));
    let unequal = results(&["a"], &BOTH, |run| {
        let drops = if run.driver == DriverKind::Live { 330 } else { 299 + u64::from(run.repeat) / 2 };
        (run.driver == DriverKind::Sim || run.repeat == 1).then(|| seen(run, Seen { drops, ..SEEN }))
    });
    let comparison = unequal.compare_drivers(&[]).unwrap();
    let drops = metric(&comparison, Metric::Drops);
    assert_eq!((drops.live.unwrap().n, drops.sim.unwrap().n, drops.within), (1, 3, Some(true)));
    let difference = drops.difference.unwrap();
    assert!((difference.mean - (330.0 - 899.0 / 3.0)).abs() < 1e-9 && difference.interval.is_none());
    assert!((difference.relative.unwrap() - difference.mean / (899.0 / 3.0)).abs() < 1e-12);
    assert_eq!(comparison.links[0].drops, Means { live: 330.0, sim: 899.0 / 3.0 });
}

#[test]
fn what_one_driver_did_not_measure_is_shown_and_not_judged() {
    let results = both(Seen { reordered: None, ..SEEN }, SEEN);
    let comparison = results.compare_drivers(&[]).unwrap();
    let reordered = metric(&comparison, Metric::Reordered);
    assert!(reordered.live.is_none() && reordered.sim.is_some() && reordered.difference.is_none());
    assert_eq!((reordered.within, comparison.judged, comparison.within), (None, 4, 4));
    let all = &comparison.experiments[0].cases[0].metrics;
    assert!(all.iter().all(|one| one.metric != Metric::Timeouts), "no live run can know them");
    assert!(all.iter().all(|one| one.metric != Metric::Fairness), "neither has it a tolerance, nor is it shown");
}

#[test]
fn without_runs_of_both_drivers_there_is_nothing_to_compare() {
    let one_driver = results(&["a"], &[DriverKind::Sim], |run| Some(seen(run, SEEN)));
    let error = one_driver.compare_drivers(&[]).unwrap_err();
    assert_eq!(error.to_string(), "tree: nothing to compare, since no case ran both live and simulated");
    assert!(error.hint().unwrap().contains("without --sim and --live"));
    let unknown = both(SEEN, SEEN);
    let error = unknown.compare_drivers(&["b".to_owned()]).unwrap_err();
    assert!(matches!(error, Error::UnknownExperiment { .. }) && error.to_string().contains("it has a"), "{error}");
}

/// Live runs that warm up for longer were judged against simulated ones without a word.
#[test]
fn live_times_that_are_others_stand_below_the_table() {
    let mut results = both(SEEN, SEEN);
    let said = |results: &Results| results.compare_drivers(&[]).unwrap().table_within(140);
    let experiment = &mut results.experiments[0];
    (experiment.live_seconds, experiment.live_warm_up_seconds) = (None, None);
    assert!(!said(&results).contains("iperf3"));
    let experiment = &mut results.experiments[0];
    (experiment.seconds, experiment.warm_up_seconds, experiment.live_warm_up_seconds) = (2.0, 0.2, Some(1.0));
    let table = said(&results);
    let expected = "  live TCP warms up for 1 s and is measured for 2 s: iperf3 takes whole seconds\n  simulated runs warm up for 0.2 s and last 2 s\n";
    assert!(table.contains(expected), "{table}");
}

#[test]
fn experiments_of_one_driver_are_named_and_not_compared() {
    let mut results = results(&["a", "b"], &BOTH, |run| {
        (run.experiment == "a" || run.driver == DriverKind::Sim).then(|| seen(run, SEEN))
    });
    results.experiments[1].not_live = vec![0];
    let comparison = results.compare_drivers(&[]).unwrap();
    assert_eq!((comparison.judged, comparison.within), (5, 5));
    let one_sided = &comparison.experiments[1];
    assert!(one_sided.cases.is_empty() && one_sided.left_out.len() == 1);
    let table = comparison.table_within(140);
    assert!(table.contains(&format!("  not compared: {}", one_sided.left_out[0])), "{table}");
    assert!(table.ends_with("\n5 of 5 within tolerance\n"), "{table}");
    let error = results.compare_drivers(&["b".to_owned()]).unwrap_err();
    assert!(error.to_string().ends_with(&format!("simulated: {}", one_sided.left_out[0])), "{error}");
    assert!(error.hint().unwrap().contains("both drivers"));
    let only = results.compare_drivers(&["a".to_owned()]).unwrap();
    assert_eq!(only.experiments.len(), 1);
}

#[test]
fn flows_that_differ_most_come_first_and_equal_ones_not_at_all() {
    let results = results(&["a"], &BOTH, |run| {
        let by = if run.driver == DriverKind::Live { 1.0 } else { 0.0 };
        let mut flows: Vec<FlowRecord> = (0..12)
            .map(|n| flow(&format!("h{n}"), Seen { goodput_bps: 50e6 + by * 1e6 * f64::from(n), ..SEEN }))
            .collect();
        // 90 more than 100 are three times the tolerance; 11 Mbit/s of 50 are more than four times.
        flows[3].retransmits += 90 * by as u64;
        Some(Record { flows, ..run.record(1.0) })
    });
    let comparison = results.compare_drivers(&[]).unwrap();
    let names: Vec<&str> = comparison.flows.iter().map(|flow| flow.to).collect();
    assert_eq!(names, ["h11", "h10", "h9", "h8", "h3", "h7", "h6", "h5", "h4", "h2"], "h0 does not differ, h1 least");
    let first = &comparison.flows[0];
    assert_eq!((first.experiment, first.from), ("a", "h1"));
    assert_eq!(first.goodput_bps, Means { live: 61e6, sim: 50e6 });
}

#[test]
fn flows_that_one_driver_had_alone_are_left_out() {
    let results = results(&["a"], &BOTH, |run| {
        let live = run.driver == DriverKind::Live;
        let others = flow(if live { "h8" } else { "h9" }, SEEN);
        let common = flow("h2", Seen { retransmits: u64::from(live), ..SEEN });
        Some(Record { flows: vec![others, common], ..run.record(1.0) })
    });
    let comparison = results.compare_drivers(&[]).unwrap();
    assert_eq!(comparison.flows.len(), 1);
    assert_eq!(comparison.flows[0].retransmits, Means { live: 1.0, sim: 0.0 });
}

#[test]
fn links_that_differ_most_are_named_by_their_ends_and_number() {
    let results = results(&["a"], &BOTH, |run| {
        let (more, drops) = if run.driver == DriverKind::Live { (0.2, 6) } else { (0.0, 0) };
        let links = vec![
            link("s1", 0, Some(0.9)),
            link("s1", drops, Some(0.5 + more)),
            // A hundred times as busy, but both are idle.
            link("s2", 0, Some(0.000_1 + more / 20.0)),
            link("s3", drops, None),
        ];
        Some(Record { links, ..run.record(1.0) })
    });
    let comparison = results.compare_drivers(&[]).unwrap();
    let name = |link: &ComparedLink<'_>| (link.to.to_owned(), link.number);
    let names: Vec<_> = comparison.links.iter().map(name).collect();
    assert_eq!(names, [("s1".to_owned(), Some(2)), ("s3".to_owned(), None), ("s2".to_owned(), None)]);
    let utilisation = comparison.links[0].utilisation.unwrap();
    assert!((utilisation.live - 0.7).abs() < 1e-12 && (utilisation.sim - 0.5).abs() < 1e-12);
    assert_eq!((comparison.links[1].utilisation, comparison.links[1].drops.live), (None, 6.0));
}

#[test]
fn completion_times_are_held_against_each_other_by_their_ranks() {
    let took = |run: &PlannedRun, shift: u64| {
        let times_ns =
            (0..200).map(|n| 1_000_000 + 1_000 * ((n * 7_919 + u64::from(run.repeat)) % 200) + shift).collect();
        let transfers =
            Some(transport::transfers::Outcome { started: 201, unfinished: 1, times_ns, sizes_bytes: Vec::new() });
        let mut record = seen(run, SEEN);
        record.flows[0].transfers = transfers;
        record
    };
    for (shift, apart) in [(0, false), (30_000, true)] {
        let record = |run: &PlannedRun| Some(took(run, if run.driver == DriverKind::Live { shift } else { 0 }));
        let results = results(&["a"], &BOTH, record);
        let comparison = results.compare_drivers(&[]).unwrap();
        let test = comparison.experiments[0].cases[0].completion_times.expect("there are transfers");
        assert_eq!((test.a, test.b, test.p < 0.01, test.a_larger > 0.6), (600, 600, apart, apart), "{test:?}");
        let said = "completion times of 600 transfers live and 600 simulated: p = ";
        assert!(comparison.table_within(200).contains(said) && results.html().contains(said));
        let verdict = if apart { "(Mann-Whitney), apart at 1 %" } else { "(Mann-Whitney), not apart at 1 %" };
        assert!(comparison.table_within(200).contains(verdict));
    }
    assert_eq!(both(SEEN, SEEN).compare_drivers(&[]).unwrap().experiments[0].cases[0].completion_times, None);
}

/// A run in steps of a quarter of a second, whose one flow had so many Mbit/s in each, and whose link so long a queue.
fn in_steps(run: &PlannedRun, goodput: [u64; 4], queue: [f64; 4]) -> Record {
    let flow = FlowSeries {
        goodput_bps: goodput.map(|mbps| mbps * 1_000_000).to_vec(),
        cwnd: vec![10.0; 4],
        retransmits: vec![25; 4],
        reordered: vec![0, 0, 0, 200],
        ..FlowSeries::default()
    };
    let series = TimeSeries {
        step_seconds: 0.25,
        flows: vec![flow],
        links: vec![LinkSeries { queue: queue.to_vec(), marks: Vec::new() }],
    };
    Record { time_series: Some(Box::new(series)), ..seen(run, SEEN) }
}

#[test]
fn drivers_part_from_the_step_on_after_which_they_stay_apart() {
    let results = results(&["a"], &BOTH, |run| {
        Some(match run.driver {
            // Apart in the first step, together in the second, apart for good from the third on.
            DriverKind::Live => in_steps(run, [60, 40, 80, 80], [20.0; 4]),
            DriverKind::Sim => in_steps(run, [50; 4], [20.0, 20.0, 20.0, 22.0]),
        })
    });
    let comparison = results.compare_drivers(&[]).unwrap();
    let [parting] = &comparison.partings[..] else { panic!("{:?}", comparison.partings) };
    assert_eq!((parting.quantity, parting.from_seconds), (Quantity::Goodput, 0.5));
    assert_eq!(parting.means, Means { live: 65e6, sim: 50e6 });
    assert_eq!((parting.most_at.as_deref(), parting.most), (Some("h1 > h2"), Some(Means { live: 80e6, sim: 50e6 })));
    let table = comparison.table_within(200);
    assert!(table.contains("from when on live and simulated lie apart") && table.contains("0.50 s"), "{table}");
    let page = results.html();
    assert!(page.contains("<h3>Over time</h3>") && page.contains("<polyline class=\"course sim\""), "no drawing");
}

#[test]
fn what_is_late_only_at_the_end_parts_there() {
    let results = results(&["a"], &BOTH, |run| {
        let record = in_steps(run, [50; 4], [20.0; 4]);
        let mut series = record.time_series.clone().unwrap();
        if run.driver == DriverKind::Sim {
            series.flows[0].reordered = vec![0; 4];
        }
        Some(Record { time_series: Some(series), ..record })
    });
    let comparison = results.compare_drivers(&[]).unwrap();
    let [parting] = &comparison.partings[..] else { panic!("{:?}", comparison.partings) };
    assert_eq!((parting.quantity, parting.from_seconds), (Quantity::Reordered, 0.75));
    assert_eq!(parting.means, Means { live: 200.0, sim: 0.0 });
}

#[test]
fn runs_that_were_not_recorded_part_nowhere() {
    let results = both(SEEN, Seen { goodput_bps: 90e6, ..SEEN });
    let comparison = results.compare_drivers(&[]).unwrap();
    assert!(comparison.partings.is_empty() && !results.html().contains("Over time"));
}
