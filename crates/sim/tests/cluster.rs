//! The controller cluster in simulation: many seeds, each with its own scenario, and errors planted on purpose that must be found.
//!
//! `HEDDLE_SEEDS` says how many seeds (50 unless set). To replay a seed with all that happened in it:
//! `cargo run --release -p heddle-sim --example cluster -- SEED`.

use std::fmt::Write as _;

use machine::nanos::Span;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use sim::cluster::{Finding, Kind, Lies, Report, Scenario, run};
use store::Bug;

/// How many seeds, unless set.
const SEEDS: u64 = 50;

#[allow(clippy::disallowed_methods)]
fn seeds() -> u64 {
    let set = std::env::var("HEDDLE_SEEDS").ok();
    set.map_or(SEEDS, |text| text.parse().unwrap_or_else(|_| panic!("HEDDLE_SEEDS={text}: expected a number")))
}

/// Prints what was found and how to see it again.
fn complain(bad: &[Report]) -> String {
    let mut text = String::new();
    for report in bad.iter().take(5) {
        let seed = report.seed;
        let _ = writeln!(text, "{report}  replay: cargo run --release -p heddle-sim --example cluster -- {seed}");
    }
    format!("{} seeds failed:\n{text}", bad.len())
}

#[test]
fn nothing_that_goes_wrong_makes_the_cluster_wrong() {
    let seeds = seeds();
    let reports: Vec<Report> = (0..seeds).into_par_iter().map(|seed| run(seed, &Scenario::drawn(seed))).collect();
    let bad: Vec<Report> = reports.iter().filter(|report| !report.is_good()).cloned().collect();
    assert!(bad.is_empty(), "{}", complain(&bad));
    // A simulation in which nothing happens finds nothing.
    let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
    assert!(sum(|report| report.operations.checked) > 250 * seeds);
    assert!(sum(|report| report.operations.written) > 80 * seeds);
    assert!(sum(|report| report.operations.listed) > 5 * seeds && sum(|report| report.operations.spread) > seeds / 2);
    assert!(sum(Report::faults) > 5 * seeds);
    assert!(sum(|report| report.elections.won) > 4 * seeds);
    assert!(sum(|report| report.snapshots.1) > seeds / 2);
    if seeds >= SEEDS {
        for kind in Kind::ALL {
            assert!(reports.iter().any(|report| report.faults.contains_key(kind.name())), "no {}", kind.name());
        }
    }
}

/// Logs, segments and snapshots of the sizes that servers run with, and values to fill them.
#[test]
fn a_tenth_of_the_seeds_has_production_sizes() {
    let large = (0..1_000).filter(|seed| Scenario::drawn(*seed).large_values).collect::<Vec<_>>();
    assert!((60..150).contains(&large.len()), "{}", large.len());
    for seed in large.into_iter().take(3) {
        let scenario = Scenario::drawn(seed);
        assert_eq!(scenario.sizes.segment_bytes, wal::SEGMENT_BYTES);
        let report = run(seed, &scenario);
        assert!(report.is_good(), "{}", complain(&[report]));
        assert!(report.disk_bytes_max > 1 << 20, "{}", report.disk_bytes_max);
    }
}

#[test]
fn a_server_that_lies_harms_nobody_else() {
    let seeds = seeds() / 3;
    let reports: Vec<Report> = (0..seeds).into_par_iter().map(|seed| run(seed, &Scenario::hostile(seed))).collect();
    let bad: Vec<Report> = reports.iter().filter(|report| !report.is_good()).cloned().collect();
    assert!(bad.is_empty(), "with the word `hostile` behind the number: {}", complain(&bad));
    assert!(reports.iter().map(|report| report.lies).sum::<u64>() > 100 * seeds);
    assert!(reports.iter().map(|report| report.operations.checked).sum::<u64>() > 100 * seeds);
}

/// A seed that found something before half of the scenarios had few kinds of faults.
fn assert_healed(seed: u64, scenario: &Scenario) {
    let report = run(seed, scenario);
    assert!(report.is_good(), "{report}");
}

#[test]
fn a_learner_follows_the_leader_after_another_has_claimed_to_be_it() {
    assert_healed(3_409, &Scenario::with_all_kinds(3_409).with_liar(3_409));
}

#[test]
fn a_voter_that_others_need_is_not_talked_out_of_its_group() {
    assert_healed(51, &Scenario::with_all_kinds(51).with_liar(51));
}

#[test]
fn a_removed_server_runs_until_no_group_has_it() {
    assert_healed(37_274, &Scenario::with_all_kinds(37_274));
}

#[test]
fn a_removed_server_with_a_shard_for_itself_hears_of_it_before_the_next_is_removed() {
    for scenario in [Scenario::with_all_kinds(37_623), Scenario::with_all_kinds(37_623).with_liar(37_623)] {
        assert_healed(37_623, &scenario);
    }
}

#[test]
fn messages_of_a_liar_that_nobody_checks_stop_replicas() {
    let mut scenario = Scenario { lies: Some(Lies::Bounded), faults: (0, 3), ..Scenario::default() };
    scenario.configure = |config| config.planted = Bug::UncheckedPeers.into();
    must_be_found(&scenario, 40, |finding| matches!(finding, Finding::ReplicaStopped { .. }));
}

#[test]
fn the_same_seed_gives_the_same_report() {
    for seed in 0..3 {
        let scenario = Scenario { trace: true, ..Scenario::drawn(seed) };
        let (one, other) = (run(seed, &scenario), run(seed, &scenario));
        let first_difference = one.trace.iter().zip(&other.trace).find(|(one, other)| one != other);
        assert_eq!(first_difference, None, "seed {seed}");
        assert_eq!(format!("{one:?}"), format!("{other:?}"), "seed {seed}");
    }
}

/// An error was planted: the first seed that finds what it leads to must come within so many. Without the error,
/// none of the seeds up to that one and a few more may find anything.
fn must_be_found(scenario: &Scenario, within: u64, is_it: fn(&Finding) -> bool) {
    must_be_found_from(0, scenario, within, is_it);
}

/// The same from a seed on that comes shortly before one which has found it: few do.
fn must_be_found_from(first: u64, scenario: &Scenario, within: u64, is_it: fn(&Finding) -> bool) {
    let finds = |seed: &u64, scenario: &Scenario| run(*seed, scenario).findings.iter().any(is_it);
    let found = (first..first + within).into_par_iter().find_first(|seed| finds(seed, scenario));
    let Some(found) = found else { panic!("none of {within} seeds found the planted error") };
    let without = Scenario { configure: |_| {}, drift_ppm_max: Scenario::default().drift_ppm_max, ..scenario.clone() };
    let without =
        Scenario { kinds: without.kinds.into_iter().filter(|kind| *kind != Kind::ClockBeyond).collect(), ..without };
    println!("found by seed {found}");
    let mistaken = (first..=found + 3).into_par_iter().find_first(|seed| finds(seed, &without));
    assert_eq!(mistaken, None, "this seed finds the same without the planted error");
}

#[test]
fn a_lock_has_one_holder_and_its_token_rises() {
    let scenario = Scenario { lockers: 4, ..Scenario::default() };
    let reports: Vec<Report> = (0..seeds() / 6).into_par_iter().map(|seed| run(seed, &scenario)).collect();
    let bad: Vec<Report> = reports.iter().filter(|report| !report.is_good()).cloned().collect();
    assert!(bad.is_empty(), "{}", complain(&bad));
    assert!(reports.iter().map(|report| report.locks.0).sum::<u64>() > 5 * reports.len() as u64);
}

/// What an error of the store leads to, as opposed to slowness.
fn is_wrong(finding: &Finding) -> bool {
    matches!(finding, Finding::NotLinearizable(_) | Finding::TwoLeaders { .. } | Finding::Diverged { .. })
}

/// What a stale read leads to.
fn is_stale(finding: &Finding) -> bool {
    matches!(finding, Finding::NotLinearizable(_))
}

fn planted(kinds: &[Kind], configure: fn(&mut store::Config)) -> Scenario {
    Scenario { kinds: kinds.to_vec(), faults: (12, 24), configure, ..Scenario::default() }
}

#[test]
fn a_vote_that_is_not_persisted_is_found() {
    let mut scenario = planted(&[Kind::Kill, Kind::Kill, Kind::Isolate, Kind::Blackout], |config| {
        config.planted = Bug::VoteNotPersisted.into();
    });
    scenario.servers = 5;
    scenario.election.fixed = Some(Span::from_ms(100));
    must_be_found(&scenario, 1_000, is_wrong);
}

#[test]
fn a_read_without_a_lease_is_found() {
    let scenario =
        planted(&[Kind::Isolate, Kind::Split, Kind::Pause], |config| config.planted = Bug::ReadWithoutLease.into());
    must_be_found(&scenario, 50, is_stale);
}

#[test]
fn an_acknowledgement_before_the_sync_is_found() {
    let scenario = planted(&[Kind::PowerLoss, Kind::Blackout, Kind::DiskStall], |config| {
        config.planted = Bug::AckBeforeSync.into();
    });
    must_be_found(&scenario, 50, is_wrong);
}

#[test]
fn a_lease_of_the_leaders_own_timeout_is_found() {
    let kinds = [Kind::MoveLeader, Kind::MoveLeader, Kind::Isolate, Kind::OneWay, Kind::Split];
    let mut scenario = planted(&kinds, |config| config.planted = Bug::LeaseOfOwnTimeout.into());
    scenario.elections_vary = true;
    must_be_found_from(68, &scenario, 500, is_stale);
}

#[test]
fn a_list_without_what_has_moved_is_found() {
    let kinds = [Kind::MovePrefix, Kind::MovePrefix, Kind::MovePrefix, Kind::CreateShard, Kind::Pause, Kind::CutPair];
    let mut scenario = planted(&kinds, |config| config.planted = Bug::ListRootOnly.into());
    (scenario.entries, scenario.faults, scenario.quality.late) = (4, (24, 40), Span::from_ms(900));
    must_be_found(&scenario, 100, is_stale);
}

#[test]
fn ticks_that_are_counted_after_an_input_are_found() {
    let mut scenario = planted(&[Kind::PauseAndCut], |config| config.planted = Bug::TicksAfterInput.into());
    scenario.election.fixed = Some(Span::from_ms(400));
    // Leaders have nothing to do, and no lease, until somebody wakes.
    (scenario.clients, scenario.entries, scenario.think) = (24, 1, Span::from_secs(20));
    (scenario.active, scenario.faults) = (Span::from_secs(20), (5, 9));
    // Three of 500 find it.
    must_be_found_from(335, &scenario, 500, is_stale);
}

/// Not an error of the store: its promise on reads by lease holds as long as clocks keep their bound, and no longer.
#[test]
fn a_lease_is_only_as_good_as_the_clocks() {
    let kinds = [Kind::ClockBeyond, Kind::ClockBeyond, Kind::Isolate, Kind::Split, Kind::OneWay];
    let mut scenario = planted(&kinds, |_| {});
    scenario.election.fixed = Some(Span::from_ms(150));
    (scenario.clients, scenario.entries, scenario.think) = (8, 2, Span::from_ms(10));
    must_be_found_from(75, &scenario, 1_000, is_stale);
}
