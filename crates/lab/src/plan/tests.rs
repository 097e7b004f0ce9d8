use fabric::LinkSetting;
use vswitch::Spread;

use super::*;
use crate::testing::{experiment, tree};

fn fabric() -> Fabric {
    let mut fabric = tree(2, 2, 2, true);
    fabric.experiments = vec![experiment(20e6)];
    fabric
}

fn both() -> Options {
    Options { drivers: vec![DriverKind::Live, DriverKind::Sim], ..Options::default() }
}

#[test]
fn cases_take_turns_within_a_repetition() {
    let plan = plan(&fabric(), &both()).unwrap();
    assert_eq!(plan.runs.len(), 2 * 3 * 4);
    let live: Vec<_> =
        plan.runs.iter().filter(|run| run.driver == DriverKind::Live).map(|r| (r.repeat, r.at.1)).collect();
    assert_eq!(live[..5], [(1, 0), (1, 1), (1, 2), (1, 3), (2, 0)]);
    assert!(plan.runs[..12].iter().all(|run| run.driver == DriverKind::Sim), "simulated runs come first");
}

#[test]
fn runs_that_may_be_left_out_are_marked() {
    let mut fabric = fabric();
    assert_eq!(plan(&fabric, &both()).unwrap().runs_in_words(), "24 runs");
    fabric.experiments[0].repeat = 30;
    fabric.experiments[0].until = Some(fabric::Until { share: 0.05, of: None, at_least: 5 });
    let plan = plan(&fabric, &Options::default()).unwrap();
    assert_eq!(plan.runs_in_words(), "20 to 120 runs");
    let table = plan.table();
    assert!(table.contains("5 to 30") && table.contains("0.8 s to 4.5 s"), "{table}");
    let optional = plan.runs.iter().filter(|run| run.is_optional).map(|run| run.repeat).min();
    assert_eq!(optional, Some(6));
    let json = serde_json::to_value(&plan.runs).unwrap();
    assert_eq!((json[0].get("optional"), &json[119]["optional"]), (None, &true.into()));
}

/// The plan said of live runs what only simulated ones do.
#[test]
fn live_runs_of_tcp_take_whole_seconds() {
    let text = "topology: { tree: { depth: 1, fanout: 2 } }\nlinks: { rate: 100Mbit, delay: 1ms }\nexperiments:\n  \
                short: { traffic: { pattern: stride(1), transport: TRANSPORT }, warm-up: 200ms, for: FOR }\n";
    let of = |transport: &str, lasts: &str| {
        let text = text.replace("TRANSPORT", transport).replace("FOR", lasts);
        let fabric = fabric::parse(&fabric::Source { name: "x".to_owned(), text }).unwrap();
        let plan = plan(&fabric, &both()).unwrap();
        let seconds = |driver| plan.runs.iter().find(|run| run.driver == driver).unwrap().seconds;
        (seconds(DriverKind::Live), seconds(DriverKind::Sim), plan.time_in_words(), plan.table())
    };
    let said = "short: live TCP warms up for 1 s and is measured for 1 s: iperf3 takes whole seconds";
    let (live, sim, together, table) = of("reno", "500ms");
    assert_eq!((live, sim, together.as_str()), (2.0, 0.7, "2.0 s live, 0.7 s simulated"));
    assert_eq!(table.matches(said).count(), 1, "{table}");
    let (live, sim, _, table) = of("udp", "500ms");
    assert_eq!((live, sim), (0.7, 0.7));
    assert!(!table.contains("iperf3"), "{table}");
}

#[test]
fn what_is_compared_has_the_same_pairs() {
    let fabric = fabric();
    let plan = plan(&fabric, &both()).unwrap();
    let seed = |driver, pattern: &str, spread: &str, repeat| {
        let is = |run: &&PlannedRun| {
            run.driver == driver
                && run.repeat == repeat
                && run.labels.get("pattern") == Some(pattern)
                && run.labels.get("spread") == Some(spread)
        };
        plan.runs.iter().find(is).unwrap().seed
    };
    let (live, sim) = (DriverKind::Live, DriverKind::Sim);
    let staggered = "staggered(0.5, 0.3)";
    assert_eq!(seed(live, staggered, "single", 2), seed(sim, staggered, "single", 2));
    assert_eq!(seed(sim, staggered, "single", 2), seed(sim, staggered, "packet-scatter", 2));
    assert_ne!(seed(sim, staggered, "single", 1), seed(sim, staggered, "single", 2));
    assert_ne!(seed(sim, staggered, "single", 1), seed(sim, "stride(1)", "single", 1));
}

#[test]
fn seeds_stay_the_same_for_ever() {
    assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8, "the published test vector");
    let plan = plan(&fabric(), &Options::default()).unwrap();
    assert_eq!(plan.runs[0].seed, 9_875_858_161_379_352_823, "the first seed of the test fabric");
    assert_eq!(plan.seed, 7);
}

#[test]
fn an_experiment_that_does_not_exist_is_named() {
    let options = Options { only: vec!["nosuch".to_owned()], ..Options::default() };
    let error = plan(&fabric(), &options).unwrap_err();
    assert_eq!(error.to_string(), "there is no experiment \"nosuch\" in tree; it has scatter");
    let mut empty = fabric();
    empty.experiments.clear();
    assert!(matches!(plan(&empty, &Options::default()), Err(Error::NoExperiments { .. })));
}

/// Controllers and nothing else.
fn controllers(experiments: &str) -> Fabric {
    let text = format!("controllers: {{ nodes: 3 }}\nexperiments:\n{experiments}");
    fabric::parse(&fabric::Source { name: "cluster".to_owned(), text }).unwrap()
}

fn live() -> Options {
    Options { drivers: vec![DriverKind::Live], ..Options::default() }
}

#[test]
fn controllers_are_asked_in_the_order_of_their_cases() {
    let fabric = controllers(
        "  crud: { cluster: { clients: 4 }, vary: { nodes: [1, 3], at: [leader, follower] }, repeat: 2 }\n",
    );
    let plan = plan(&fabric, &live()).unwrap();
    let order: Vec<String> = plan.runs.iter().map(|run| run.labels.to_string()).collect();
    // Who is asked varies fastest, so that a cluster serves both.
    let once = ["nodes 1, leader", "nodes 3, leader", "nodes 3, follower"];
    assert_eq!(order, [once, once].concat());
    assert!(plan.runs.iter().all(|run| run.flows == 4 && run.seconds > 0.0 && plan.asks_controllers(&fabric, run)));
    insta::assert_snapshot!(plan.table());
}

#[test]
fn elections_are_estimated_by_their_timeout() {
    let fabric = controllers(
        "  election: { cluster: { operations: [election], requests: 2 }, vary: { election-timeout: [10s, 1s] } }\n",
    );
    let plan = plan(&fabric, &live()).unwrap();
    assert_eq!(plan.runs.iter().map(|run| run.seconds).collect::<Vec<_>>(), [33.5, 6.5]);
}

#[test]
fn what_controllers_are_not_put_through_in_simulation_is_left_out() {
    let file = "  crud: { cluster: {} }\n  rpc: { cluster: { operations: [rpc] }, vary: { at: [leader, any] } }\n";
    let fabric = controllers(file);
    let only = |name: &str| Options { only: vec![name.to_owned()], ..Options::default() };
    let plan = super::plan(&fabric, &Options::default()).unwrap();
    assert_eq!(plan.runs.iter().map(|run| run.experiment.as_str()).collect::<Vec<_>>(), ["crud"]);
    assert!(plan.table().ends_with("any: not simulated: faults, routed RPCs and lists of shards are run live\n"));
    let error = super::plan(&fabric, &only("rpc")).unwrap_err();
    assert_eq!(error.to_string(), "experiment \"rpc\" (leader) cannot be simulated: routed RPCs are run live");
    assert_eq!(super::plan(&fabric, &both()).unwrap().runs.len(), 4);
}

#[test]
fn delays_are_simulated_and_left_out_live() {
    let file = "  near: { cluster: {} }\n  far: { cluster: {}, vary: { delay: [{ min: 1ms, mean: 2ms }], at: [leader, any] } }\n  \
        leader: { cluster: { operations: [election], until: leader } }\n";
    let mut fabric = controllers(file);
    let only = |name: &str| Options { only: vec![name.to_owned()], ..live() };
    let together = plan(&fabric, &both()).unwrap();
    let by = |driver| together.runs.iter().filter(move |run| run.driver == driver);
    assert_eq!(by(DriverKind::Sim).map(|run| &run.experiment).collect::<Vec<_>>(), ["near", "far", "far", "leader"]);
    assert_eq!(by(DriverKind::Live).map(|run| &run.experiment).collect::<Vec<_>>(), ["near"]);
    let left_out = "delay min 1ms mean 2ms, any: not run live: `delay` and `until: leader` are simulated\n";
    assert!(together.table().contains(left_out), "{}", together.table());
    assert_eq!(plan(&fabric, &live()).unwrap().runs.len(), 1);
    let error = plan(&fabric, &only("far")).unwrap_err();
    assert!(
        error.to_string().starts_with("experiment \"far\" (delay min 1ms mean 2ms, leader) cannot run live: a `delay`"),
        "{error}"
    );
    let error = plan(&fabric, &only("leader")).unwrap_err();
    assert!(error.to_string().contains("cannot run live: `until: leader` is simulated"), "{error}");
    // The delay of the block is one of all experiments.
    let second = Span::from_secs(1);
    fabric.controllers.as_mut().unwrap().delay = Some(fabric::MessageDelay { min: second, mean: second });
    assert!(matches!(plan(&fabric, &only("near")), Err(Error::NotLive { .. })));
}

#[test]
fn what_only_live_runs_know_of_distant_controllers_is_an_error() {
    let file =
        "  far: { cluster: {}, vary: { delay: [{ min: 1ms, mean: 2ms }] }, expect: { resident-max: \"<= 1 MB\" } }\n";
    assert!(matches!(plan(&controllers(file), &both()), Err(Error::NotLive { .. })));
    let file = "  far: { cluster: { operations: [rpc] }, vary: { delay: [{ min: 1ms, mean: 2ms }] } }\n";
    let error = plan(&controllers(file), &both()).unwrap_err();
    assert!(error.to_string().contains("are simulated only, and faults, routed RPCs"), "{error}");
    assert!(matches!(plan(&controllers(file), &Options::default()), Err(Error::NotSimulated { .. })));
}

#[test]
fn partitions_under_tls_are_refused() {
    let mut fabric = controllers(
        "  parted: { cluster: { faults: [ { at: 1s, partition: [[1], [2, 3]], for: 1s } ] } }\n  plain: { cluster: {} }\n",
    );
    assert!(plan(&fabric, &live()).is_ok());
    fabric.controllers.as_mut().unwrap().tls = true;
    let error = plan(&fabric, &live()).unwrap_err();
    assert!(error.to_string().starts_with("experiment \"parted\" (all) cannot run live: "), "{error}");
    let only = Options { only: vec!["plain".to_owned()], ..live() };
    assert!(plan(&fabric, &only).is_ok());
}

#[test]
fn memory_of_simulated_controllers_cannot_be_expected() {
    let mut fabric = controllers("  crud: { cluster: {}, expect: { resident-max: \"<= 700 MB\" } }\n");
    assert!(plan(&fabric, &live()).is_ok());
    fabric.experiments[0].expect[0].driver = Some(DriverKind::Sim);
    let error = plan(&fabric, &both()).unwrap_err();
    assert!(
        error.to_string().ends_with("cannot be measured: sim runs do not know resident memory, largest node"),
        "{error}"
    );
    assert!(error.hint().unwrap().contains("driver: live"));
}

#[test]
fn an_expectation_of_no_case_is_an_error() {
    let mut fabric = fabric();
    fabric.experiments[0].expect[0].only = vec![("spread".to_owned(), "ecmp".to_owned())];
    let error = plan(&fabric, &Options::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 12: the expectation `>= 20 Mbit/s` of experiment \"scatter\" matches none of its cases"
    );
    assert!(error.hint().unwrap().contains("vary"));
}

#[test]
fn an_expectation_that_live_runs_cannot_know_is_an_error() {
    let mut fabric = fabric();
    fabric.experiments[0].expect[0].metric = fabric::Metric::Timeouts;
    assert!(plan(&fabric, &both()).is_ok(), "it is judged by the simulated runs");
    fabric.experiments[0].expect[0].driver = Some(DriverKind::Live);
    assert!(matches!(plan(&fabric, &both()), Err(Error::ExpectationCannotBeMeasured { line: 12, .. })));
}

#[test]
fn a_pattern_without_pairs_names_its_case() {
    let mut fabric = fabric();
    fabric.experiments[0].vary[0].values[0] =
        ("stride(8)".to_owned(), TrafficSetting::Pattern(fabric::Pattern::Stride(8)).into());
    let error = plan(&fabric, &Options::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "experiment \"scatter\" (stride(8), single): stride(8) among 8 hosts makes every host talk to itself"
    );
}

#[test]
fn the_plan_as_table_and_csv() {
    let mut fabric = fabric();
    fabric.experiments[0].vary.truncate(1);
    fabric.experiments[0].expect.clear();
    fabric.spread = Spread::Single;
    let plan = plan(&fabric, &both()).unwrap();
    insta::assert_snapshot!(plan.table());
    let csv = plan.csv();
    assert_eq!(csv.lines().count(), 13);
    assert!(csv.contains("scatter,\"staggered(0.5, 0.3)\",1,sim,"), "{csv}");
}

/// As `fabrics/unshaped.fabric.yaml`: a case of it with a delay can be simulated.
fn unshaped() -> Fabric {
    let mut fabric = fabric();
    for link in &mut fabric.topology.links {
        link.spec = link::LinkSpec::default();
    }
    let delays = [("0s", Span::ZERO), ("10us", Span::from_us(10))];
    let values = delays.map(|(text, delay)| (text.to_owned(), LinkSetting::Delay(delay).into())).to_vec();
    fabric.experiments[0].vary = vec![fabric::Axis { key: "links.delay".to_owned(), values }];
    fabric.experiments[0].expect[0].only.clear();
    fabric
}

#[test]
fn udp_runs_live_as_tcp_does() {
    let mut fabric = fabric();
    let kinds = [("udp", transport::TransportKind::Udp), ("sack", transport::TransportKind::Sack)];
    let values = kinds.map(|(text, kind)| (text.to_owned(), TrafficSetting::Transport(kind).into())).to_vec();
    fabric.experiments[0].vary = vec![fabric::Axis { key: "transport".to_owned(), values }];
    fabric.experiments[0].expect[0].only.clear();
    let both_drivers = plan(&fabric, &both()).unwrap();
    let cases = |driver| {
        let runs = both_drivers.runs.iter().filter(|run| run.driver == driver);
        runs.map(|run| run.at.1).collect::<Vec<_>>()
    };
    assert_eq!(cases(DriverKind::Sim), [0, 1, 0, 1, 0, 1]);
    assert_eq!(cases(DriverKind::Live), [0, 1, 0, 1, 0, 1]);
}

#[test]
fn a_host_behind_devices_is_simulated_only() {
    let mut fabric = fabric();
    let (id, _) = fabric.topology.hosts().next().unwrap();
    let node = &mut fabric.topology.nodes[id];
    node.devices = (0..node.ports.len()).map(|port| format!("tap{port}")).collect();
    fabric.experiments[0].expect.clear();
    let both_drivers = plan(&fabric, &both()).unwrap();
    assert!(both_drivers.runs.iter().all(|run| run.driver == DriverKind::Sim));
    let why = "not run live: a host behind devices of the machine takes part";
    assert!(both_drivers.table().contains(why), "{}", both_drivers.table());
    assert!(crate::testing::invented(&fabric, &both_drivers).table_within(200).contains(why));
    let live = Options { drivers: vec![DriverKind::Live], ..Options::default() };
    let error = plan(&fabric, &live).unwrap_err();
    assert!(error.to_string().contains("no iperf3 can be started in it"), "{error}");
}

#[test]
fn streams_count_as_flows_in_the_plan() {
    let mut fabric = fabric();
    let before = plan(&fabric, &Options::default()).unwrap().runs[0].flows;
    let fabric::Work::Traffic(traffic) = &mut fabric.experiments[0].work else { unreachable!("it is traffic") };
    traffic.streams = 5;
    assert_eq!(plan(&fabric, &Options::default()).unwrap().runs[0].flows, 5 * before);
}

#[test]
fn what_would_stand_still_is_refused_or_left_to_live_runs() {
    let fabric = unshaped();
    let error = plan(&fabric, &Options::default()).unwrap_err();
    assert!(error.to_string().contains("(links.delay 0s) cannot be simulated: the flow h"), "{error}");
    assert_eq!(error.hint().unwrap(), "give the links a rate or a delay, or run it --live");
    let plan = plan(&fabric, &both()).unwrap();
    let cases = |driver| plan.runs.iter().filter(|run| run.driver == driver).map(|run| run.at.1).collect::<Vec<_>>();
    assert_eq!(cases(DriverKind::Sim), [1, 1, 1]);
    assert_eq!(cases(DriverKind::Live), [0, 1, 0, 1, 0, 1]);
    assert!(plan.table().ends_with("links.delay 0s: not simulated: links without rate and delay take no time\n"));
    let results = crate::testing::invented(&fabric, &plan);
    let left_out = "links.delay 0s: not simulated: links without rate and delay take no time";
    assert!(results.table_within(200).contains(left_out) && results.html().contains(left_out));
    assert_eq!(results.verdicts().count(), 3, "nothing is expected of what does not run");
    assert!(results.passed());
}

#[test]
fn an_expectation_of_what_stands_still_is_an_error() {
    let mut fabric = unshaped();
    fabric.experiments[0].expect[0].driver = Some(DriverKind::Sim);
    assert!(matches!(plan(&fabric, &both()), Err(Error::StandsStill { .. })));
    fabric.experiments[0].expect[0].only = vec![("links.delay".to_owned(), "10us".to_owned())];
    assert!(plan(&fabric, &both()).is_ok());
}

/// The first runs of the cases that are named so.
fn chosen(names: &[&str]) -> Result<Vec<String>, String> {
    let text = "topology: { leaf-spine: { leaves: 2, spines: 2, hosts-per-leaf: 2 } }\n\
                links: { rate: 10Mbit, delay: 1ms }\nexperiments:\n  \
                a: { traffic: { pattern: stride(2) }, vary: { spread: [single, ecmp], window: [2, 20] }, for: 1s }\n  \
                b: { traffic: { pattern: stride(2) }, for: 1s }\n";
    let source = fabric::Source { name: "net".to_owned(), text: text.to_owned() };
    let fabric = fabric::parse(&source).unwrap();
    let cases = names.iter().map(|&name| name.to_owned()).collect();
    let options = Options { cases, ..Options::default() };
    let plan = plan(&fabric, &options).map_err(|error| error.to_string())?;
    Ok(plan
        .runs
        .iter()
        .filter(|run| run.repeat == 1)
        .map(|run| format!("{}: {}", run.experiment, run.labels))
        .collect())
}

#[test]
fn cases_are_chosen_by_their_names_and_values() {
    assert_eq!(chosen(&[]).unwrap().len(), 5);
    assert_eq!(chosen(&["single, window 2"]).unwrap(), ["a: single, window 2"]);
    for name in ["window 2", "window=2", "window: 2", "2"] {
        assert_eq!(chosen(&[name]).unwrap(), ["a: single, window 2", "a: ecmp, window 2"], "{name}");
    }
    assert_eq!(chosen(&["ecmp"]).unwrap(), ["a: ecmp, window 2", "a: ecmp, window 20"]);
    assert_eq!(chosen(&["ecm"]).unwrap().len(), 2, "a part of a name");
    assert_eq!(chosen(&["all", "single, window 20"]).unwrap(), ["a: single, window 20", "b: all"]);
    let unknown = chosen(&["ecmp", "vlb"]).unwrap_err();
    assert!(unknown.contains("no case `vlb`; there are: single, window 2; "), "{unknown}");
}
