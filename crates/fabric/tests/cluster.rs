//! The `controllers:` block and experiments that ask the controllers: what is read, and what is refused.
#![allow(clippy::format_collect, clippy::format_push_string, reason = "texts of tests are short")]

use fabric::{
    Bound, ClusterLoad, ElectionEnd, ElectionTimeout, Fabric, FaultAction, MessageDelay, Metric, Operation, Replicas,
    Role, ShardPlan, Source, Statistic, Target, parse,
};
use machine::Span;
use miette::{GraphicalReportHandler, GraphicalTheme};

use crate::schema::violations;

fn read(text: &str) -> Fabric {
    let source = Source { name: "dir/cluster.fabric.yaml".to_owned(), text: text.to_owned() };
    parse(&source).unwrap_or_else(|error| panic!("{:?}", miette::Report::new(error)))
}

fn load(fabric: &Fabric) -> &ClusterLoad {
    fabric.experiments[0].work.cluster().expect("asks the controllers")
}

/// The messages that files draw, each under its title.
fn messages(files: &[(&str, String)]) -> String {
    let mut all = String::new();
    for (title, text) in files {
        let source = Source { name: "net.fabric.yaml".to_owned(), text: text.clone() };
        let error = parse(&source).err().unwrap_or_else(|| panic!("accepted: {title}\n{text}"));
        assert!(error.problems().iter().all(|problem| !problem.hint.is_empty()), "{title}");
        let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor()).with_width(120);
        let mut out = String::new();
        handler.render_report(&mut out, &error).expect("writing to a string");
        all += &format!("######## {title}\n");
        all += &out.lines().map(|line| format!("{}\n", line.trim_end())).collect::<String>();
        all += "\n";
    }
    all
}

/// Everything that can be written.
const FULL: &str = "\
controllers:
  nodes: 3
  election-timeout: { min: 50ms, max: 2s }
  tls: true
  shards:
    - { name: default, replicas: 3 }
    - { name: car, modules: [car, people], replicas: [3, 1] }
    - { name: busy, prefixes: [/car:cars/car-entry=17], replicas: all }
experiments:
  crud:
    cluster:
      operations: [update, rpc]
      requests: 40
      clients: 8
      at: any
      value: 1KiB
      faults:
        - { at: 2s, kill: leader }
        - { at: 4s, restart: all }
        - { at: 1s, pause: 2, for: 500ms }
        - { at: 3s, partition: [[1], [3, 2]], for: 2s }
    repeat: 5
    report: [rpc-p99, update-rate]
    expect:
      update-mean: \"<= 1 ms\"
      rpc-rate: \">= 2 k/s\"
      lost-writes: \"<= 0\"
      failed: \"<= 10\"
      linearizable: yes
      unavailable-max: \"<= 3 s\"
      resident-max: \"<= 700 MB\"
";

#[test]
fn everything_that_can_be_written_is_read() {
    let fabric = read(FULL);
    assert_eq!(violations(FULL), [""; 0]);
    assert!(fabric.topology.nodes.is_empty() && fabric.topology.links.is_empty() && fabric.topology.hosts == 0);
    let controllers = fabric.controllers.as_ref().expect("controllers");
    assert_eq!((controllers.nodes, controllers.tls), (3, true));
    let measured = ElectionTimeout::Measured { min: Span::from_ms(50), max: Span::from_secs(2) };
    assert_eq!(controllers.election, measured);
    let ShardPlan::List(shards) = &controllers.shards else { panic!("a list: {:?}", controllers.shards) };
    let replicas: Vec<&Replicas> = shards.iter().map(|shard| &shard.replicas).collect();
    assert_eq!(replicas, [&Replicas::Count(3), &Replicas::Nodes(vec![1, 3]), &Replicas::All]);
    assert_eq!(
        (shards[1].modules.len(), shards[2].prefixes.as_slice()),
        (2, &["/car:cars/car-entry=17".to_owned()][..])
    );
    let load = load(&fabric);
    assert_eq!(load.operations, [Operation::Update, Operation::Rpc]);
    assert_eq!((load.requests, load.clients, load.at, load.value_bytes), (40, 8, Role::Any, 1_024));
}

#[test]
fn faults_are_in_the_order_of_their_times_and_runs_outlast_them() {
    let fabric = read(FULL);
    let faults = &load(&fabric).faults;
    let times: Vec<u64> = faults.iter().map(|fault| fault.at.as_ns() / 1_000_000_000).collect();
    assert_eq!(times, [1, 2, 3, 4]);
    assert_eq!(faults[0].action, FaultAction::Pause { target: Target::Node(2), duration: Span::from_ms(500) });
    assert_eq!(faults[1].action, FaultAction::Kill(Target::Leader));
    let groups = vec![vec![1], vec![2, 3]];
    assert_eq!(faults[2].action, FaultAction::Partition { groups, duration: Span::from_secs(2) });
    assert_eq!(faults[3].action, FaultAction::Restart(Target::All));
    assert_eq!(load(&fabric).faults_end(), Span::from_secs(5));
    assert_eq!(fabric.experiments[0].duration, Span::from_secs(5));
}

#[test]
fn claims_and_reports_are_in_the_metrics_units() {
    let fabric = read(FULL);
    let experiment = &fabric.experiments[0];
    let claims: Vec<(Metric, Bound)> = experiment.expect.iter().map(|claim| (claim.metric, claim.bound)).collect();
    assert_eq!(
        claims,
        [
            (Metric::Latency(Operation::Update, Statistic::Mean), Bound::AtMost(0.001)),
            (Metric::Throughput(Operation::Rpc), Bound::AtLeast(2_000.0)),
            (Metric::LostWrites, Bound::AtMost(0.0)),
            (Metric::Failed, Bound::AtMost(10.0)),
            (Metric::Linearizable, Bound::AtLeast(1.0)),
            (Metric::UnavailableMax, Bound::AtMost(3.0)),
            (Metric::ResidentMax, Bound::AtMost(700e6)),
        ]
    );
    let report = [Metric::Latency(Operation::Rpc, Statistic::P99), Metric::Throughput(Operation::Update)];
    assert_eq!(experiment.report, report);
}

#[test]
fn what_is_not_given_has_its_default() {
    let text = "controllers: {}\nexperiments: { a: { cluster: { at: leader } }, b: { cluster: { requests: 9 } } }\n";
    let fabric = read(text);
    assert_eq!(violations(text), [""; 0]);
    let controllers = fabric.controllers.as_ref().expect("controllers");
    assert_eq!((controllers.nodes, controllers.tls, &controllers.shards), (1, false, &ShardPlan::Single));
    let measured = ElectionTimeout::Measured { min: Span::from_ms(100), max: Span::from_secs(10) };
    assert_eq!(controllers.election, measured);
    assert_eq!((controllers.pre_vote, controllers.delay), (true, None));
    let load = load(&fabric);
    assert_eq!(load.until, ElectionEnd::Write);
    assert_eq!(load.operations, [Operation::Create, Operation::Read, Operation::Update, Operation::Delete]);
    assert_eq!((load.requests, load.clients, load.at, load.value_bytes), (500, 1, Role::Leader, 200));
    assert_eq!((fabric.experiments[0].duration, fabric.experiments[0].repeat), (Span::ZERO, 1));
    assert!(read("topology: { fat-tree: { k: 4 } }\n").controllers.is_none());
}

#[test]
fn elections_are_one_a_run_and_of_the_leader() {
    let fabric = read(
        "controllers: { nodes: 3 }\nexperiments:\n  election:\n    cluster: { operations: [election], kill: leader }\n    \
         vary: { election-timeout: [10s, 1s, 100ms, measured] }\n    expect: { election-max: \"<= 1 s\" }\n",
    );
    let load = load(&fabric);
    assert!(load.is_election());
    assert_eq!((load.requests, load.victim), (1, Target::Leader));
    let timeout = |case: &fabric::Case| fabric.with(&case.overrides).controllers.expect("controllers").election;
    let timeouts: Vec<_> = fabric.experiments[0].cases().iter().map(timeout).collect();
    assert_eq!(timeouts[1], ElectionTimeout::Fixed(Span::from_secs(1)));
    assert_eq!(timeouts[3], ElectionTimeout::default());
}

#[test]
fn elections_can_be_without_pre_vote_and_between_distant_controllers() {
    let text = "controllers: { nodes: 3, pre-vote: false, delay: { min: 70ms, mean: 80ms } }\n\
        experiments:\n  far:\n    cluster: { operations: [election], until: leader }\n    \
        vary: { election-timeout: [100ms, measured], pre-vote: [false, true], delay: [{ min: 0, mean: 1ms }, { min: 2ms, mean: 2ms }] }\n    \
        expect: { election-max: { where: { pre-vote: true, delay: \"min: 0, mean: 1ms\" }, is: \"<= 1 s\" } }\n";
    assert_eq!(violations(text), [""; 0]);
    let fabric = read(text);
    let controllers = fabric.controllers.as_ref().expect("controllers");
    let far = MessageDelay { min: Span::from_ms(70), mean: Span::from_ms(80) };
    assert_eq!((controllers.pre_vote, controllers.delay), (false, Some(far)));
    assert_eq!(load(&fabric).until, ElectionEnd::Leader);
    let cases = fabric.experiments[0].cases();
    assert_eq!(cases.len(), 8);
    let of = |case: usize| {
        let changed = fabric.with(&cases[case].overrides).controllers.expect("controllers");
        (changed.pre_vote, changed.delay.map(|delay| (delay.min, delay.mean)))
    };
    assert_eq!(of(0), (false, Some((Span::ZERO, Span::from_ms(1)))));
    assert_eq!(of(7), (true, Some((Span::from_ms(2), Span::from_ms(2)))));
    assert_eq!(cases[7].labels[2], ("delay".to_owned(), "min: 2ms, mean: 2ms".to_owned()));
    // A case that sets neither keeps what the block says.
    assert_eq!(fabric.with(&fabric::Overrides::default()).controllers, fabric.controllers);
}

#[test]
fn cases_change_the_controllers_and_the_load() {
    let fabric = read(
        "controllers: { nodes: 3, shards: distributed }\nexperiments:\n  crud:\n    cluster: { operations: [create] }\n    \
         vary: { nodes: [1, 3, 5], shards: [single, distributed], at: [leader, follower], clients: [64], value: [1kB] }\n",
    );
    let cases = fabric.experiments[0].cases();
    // One node has no follower: 3 x 2 x 2 less 2.
    assert_eq!(cases.len(), 10);
    let last = cases.last().expect("there");
    let values: Vec<&str> = last.labels.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(values, ["5", "distributed", "follower", "64", "1kB"]);
    let load = last.work.cluster().expect("a load");
    assert_eq!((load.at, load.clients, load.value_bytes), (Role::Follower, 64, 1_000));
    let changed = fabric.with(&cases[0].overrides);
    let controllers = changed.controllers.as_ref().expect("controllers");
    assert_eq!((controllers.nodes, &controllers.shards), (1, &ShardPlan::Single));
    assert!(cases.iter().all(|case| {
        let role = case.work.cluster().map(|load| load.at);
        role != Some(Role::Follower) || case.overrides.nodes() != Some(1)
    }));
}

#[test]
fn a_file_can_have_a_network_and_controllers() {
    let fabric = read(
        "topology: { fat-tree: { k: 4 } }\ncontrollers: { nodes: 3 }\nexperiments:\n  a: { traffic: { pattern: random } }\n  \
         b: { cluster: { at: follower } }\n",
    );
    assert_eq!((fabric.topology.hosts, fabric.experiments.len()), (16, 2));
    assert!(fabric.experiments[0].work.traffic().is_some() && fabric.experiments[1].work.cluster().is_some());
    let json = serde_json::to_value(&fabric).expect("JSON");
    assert_eq!(json["experiments"][0]["traffic"]["pattern"], "random");
    assert_eq!(json["experiments"][1]["cluster"]["at"], "follower");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the file is what is tested")]
fn the_file_of_the_paper_has_all_four_tables() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fabrics/paper/1-controller-cluster.fabric.yaml");
    let fabric = read(&std::fs::read_to_string(path).expect("readable"));
    let cases: Vec<(&str, usize, u32)> =
        fabric.experiments.iter().map(|e| (e.name.as_str(), e.cases().len(), e.repeat)).collect();
    // Of a single node only its leader can be asked.
    assert_eq!(cases, [("roles", 3, 5), ("sizes", 8, 5), ("rpc", 4, 5), ("election", 5, 3), ("far-apart", 4, 10)]);
    let requests: Vec<u32> = fabric.experiments.iter().map(|e| e.work.cluster().expect("a load").requests).collect();
    assert_eq!(requests, [500, 500, 500, 1, 20]);
    // Three figures of four operations in three cases, four averages in six cases, four of the RPC, four elections, the last
    // of them once more.
    let published: Vec<usize> = fabric.experiments.iter().map(|e| e.published.len()).collect();
    assert_eq!(published, [36, 24, 4, 12, 3]);
}

#[test]
fn figures_of_others_have_a_metric_cases_and_a_unit() {
    let file = |published: &str| {
        format!(
            "controllers: {{ nodes: 3 }}\nexperiments: {{ a: {{ cluster: {{ clients: 2 }}, vary: {{ at: [leader, follower] }}, published: {published} }} }}\n"
        )
    };
    let text = file("{ read-mean: 1.48 ms, read-rate: { where: { at: follower }, is: 20 k/s } }");
    assert_eq!(violations(&text), [""; 0]);
    let published = &read(&text).experiments[0].published;
    assert_eq!(published[0].metric, Metric::Latency(Operation::Read, Statistic::Mean));
    assert!((published[0].value - 0.00148).abs() < 1e-12 && published[0].only.is_empty());
    assert_eq!((published[1].value, &published[1].only[..]), (20e3, &[("at".to_owned(), "follower".to_owned())][..]));
    let wrong = [
        ("a claim", file("{ read-mean: \"<= 1.48 ms\" }")),
        ("no unit", file("{ read-mean: 1.48 }")),
        ("a case that is not", file("{ read-mean: { where: { at: edge }, is: 1 ms } }")),
        ("what is not measured", file("{ rpc-mean: 1 ms }")),
    ];
    insta::assert_snapshot!("published", messages(&wrong));
}

#[test]
fn metrics_are_words_in_json_and_back() {
    for metric in Metric::all() {
        let json = serde_json::to_string(&metric).expect("JSON");
        assert_eq!(json, format!("\"{}\"", metric.word()));
        assert_eq!(serde_json::from_str::<Metric>(&json).expect("a metric"), metric);
    }
    assert!(serde_json::from_str::<Metric>("\"goodput\"").is_err());
}

#[test]
fn the_schema_refuses_what_the_parser_refuses() {
    let wrong = [
        "controllers: { nodes: 10 }\n",
        "controllers: { nodes: 0 }\n",
        "controllers: { tls: yes please }\n",
        "controllers: { shards: many }\n",
        "controllers: { shards: [] }\n",
        "controllers: { shards: [ { name: a, prefixes: [car] } ] }\n",
        "controllers: { shards: [ { name: a, modules: [1car] } ] }\n",
        "controllers: { shards: [ { name: a, modules: [car], replicas: some } ] }\n",
        "controllers: { election-timeout: soon }\n",
        "controllers: { pre-vote: maybe }\n",
        "controllers: { delay: 80ms }\n",
        "controllers: { delay: { min: 80ms } }\n",
        "controllers: { delay: { min: 1ms, mean: 2ms, max: 3ms } }\n",
        "controllers: { nodes: 3 }\nexperiments: { a: { cluster: { operations: [election], until: peace } } }\n",
        "controllers: {}\nexperiments: { a: {} }\n",
        "controllers: {}\nexperiments: { a: { cluster: { at: edge } } }\n",
        "controllers: {}\nexperiments: { a: { cluster: { operations: [erase] } } }\n",
        "controllers: {}\nexperiments: { a: { cluster: { at: leader }, traffic: { pattern: random } } }\n",
        "controllers: {}\nexperiments: { a: { cluster: { faults: [ { at: 1s } ] } } }\n",
        "controllers: {}\nexperiments: { a: { cluster: { faults: [ { at: 1s, kill: all, restart: all } ] } } }\n",
        "controllers: {}\nexperiments: { a: { cluster: { faults: [ { at: 1s, partition: [[1]], for: 1s } ] } } }\n",
        "controllers: {}\nexperiments: { a: { cluster: { at: leader }, expect: { create-median: \"<= 1 s\" } } }\n",
    ];
    for text in wrong {
        assert_ne!(violations(text), [""; 0], "{text}");
        assert!(parse(&Source { name: "x".to_owned(), text: text.to_owned() }).is_err(), "{text}");
    }
}

#[test]
fn controllers() {
    let shards = |list: &str| format!("shards: [ {list} ]");
    let blocks = [
        ("no value", String::new()),
        ("too many nodes", "nodes: 10".to_owned()),
        ("an unknown key", "node: 3".to_owned()),
        ("a timeout that is too short", "election-timeout: 1ms".to_owned()),
        ("a timeout without a unit", "election-timeout: 100".to_owned()),
        ("a timeout that is a list", "election-timeout: [1s]".to_owned()),
        ("bounds the wrong way round", "election-timeout: { min: 1s, max: 100ms }".to_owned()),
        ("bounds that are too low", "election-timeout: { min: 1ms }".to_owned()),
        ("a pre-vote that is neither", "pre-vote: perhaps".to_owned()),
        ("a delay that is one time", "delay: 80ms".to_owned()),
        ("a delay without a mean", "delay: { min: 70ms }".to_owned()),
        ("a mean below the least", "delay: { min: 80ms, mean: 70ms }".to_owned()),
        ("a mean of nothing", "delay: { min: 0, mean: 0 }".to_owned()),
        ("a delay beyond ten seconds", "delay: { min: 70ms, mean: 11s }".to_owned()),
        ("an unknown shard strategy", "shards: split".to_owned()),
        ("no shards", shards("")),
        ("a shard that claims nothing", shards("{ name: car }")),
        ("a shard without a name", shards("{ modules: [car] }")),
        ("a shard twice", shards("{ name: a, modules: [car] }, { name: a, modules: [people] }")),
        ("a module twice", shards("{ name: a, modules: [car] }, { name: b, modules: [car] }")),
        ("a prefix that is none", shards("{ name: a, prefixes: [car/cars] }")),
        ("a module that is none", shards("{ name: a, modules: [\"car cars\"] }")),
        ("the name of the meta shard", shards("{ name: meta, modules: [car] }")),
        ("a default with modules", shards("{ name: default, modules: [car] }")),
        ("more replicas than nodes", shards("{ name: a, modules: [car], replicas: [1, 3] }")),
        ("a replica twice", shards("{ name: a, modules: [car], replicas: [1, 1] }")),
        ("replicas that are a word", shards("{ name: a, modules: [car], replicas: most }")),
        ("tls with a certificate", "tls: cert.pem".to_owned()),
    ];
    let files = blocks.map(|(title, block)| {
        let value = if block.is_empty() { String::new() } else { format!(" {{ {block} }}") };
        (title, format!("controllers:{value}\nexperiments: {{ a: {{ cluster: {{ at: leader }} }} }}\n"))
    });
    insta::assert_snapshot!(messages(&files));
}

#[test]
fn loads() {
    let experiments = [
        ("neither traffic nor cluster", "for: 1s"),
        ("both", "cluster: { at: leader }\n    traffic: { pattern: random }"),
        ("traffic without a network", "traffic: { pattern: random }"),
        ("an unknown operation", "cluster: { operations: [creat] }"),
        ("no operations", "cluster: { operations: [] }"),
        ("an operation twice", "cluster: { operations: [read, read] }"),
        ("an election besides others", "cluster: { operations: [read, election] }"),
        ("an election with faults", "cluster: { operations: [election], faults: [ { at: 1s, kill: leader } ] }"),
        ("an election without a majority left", "cluster: { operations: [election] }\n    vary: { nodes: [1, 3] }"),
        ("an election after all are killed", "cluster: { operations: [election], kill: all }"),
        ("a kill without an election", "cluster: { kill: leader }"),
        ("an end without an election", "cluster: { until: leader }"),
        ("a new leader while the old one lives", "cluster: { operations: [election], kill: follower, until: leader }"),
        (
            "a mean below the least among the values",
            "cluster: { at: leader }\n    vary: { delay: [{ min: 2s, mean: 1s }] }",
        ),
        ("no requests", "cluster: { requests: 0 }"),
        ("a value that is too long", "cluster: { value: 2MiB }"),
        ("nobody to ask", "cluster: { at: edge }"),
        ("no follower", "cluster: { at: follower }\n    vary: { nodes: [1] }"),
        ("no follower among the values", "cluster: { requests: 1 }\n    vary: { nodes: [1], at: [leader, follower] }"),
        ("an axis of traffic", "cluster: { at: leader }\n    vary: { window: [10] }"),
        ("a metric of traffic", "cluster: { at: leader }\n    expect: { drops: \"<= 0\" }"),
        ("a metric of another operation", "cluster: { operations: [read] }\n    report: [create-mean]"),
        ("a time without a unit", "cluster: { at: leader }\n    expect: { create-mean: \"<= 1\" }"),
        ("a rate without a unit", "cluster: { at: leader }\n    expect: { create-rate: \">= 500\" }"),
        ("a truth that is none", "cluster: { at: leader }\n    expect: { linearizable: maybe }"),
    ];
    let mut files: Vec<(&str, String)> = experiments
        .map(|(title, text)| (title, format!("controllers: {{ nodes: 3 }}\nexperiments:\n  one:\n    {text}\n")))
        .into();
    let network = "topology: { leaf-spine: { leaves: 2, spines: 1, hosts-per-leaf: 1 } }\n";
    let with_network = [
        ("no controllers", "cluster: { at: leader }"),
        ("traffic with an axis of the cluster", "traffic: { pattern: random }, vary: { nodes: [3] }"),
        ("traffic with a metric of the cluster", "traffic: { pattern: random }, report: [create-mean]"),
    ];
    files.extend(with_network.map(|(title, text)| (title, format!("{network}experiments: {{ a: {{ {text} }} }}\n"))));
    files.push(("links without a network", "controllers: { nodes: 3 }\nlinks: { rate: 1Gbit }\n".to_owned()));
    let replicas = "controllers: { nodes: 3, shards: [ { name: a, modules: [car], replicas: [1, 3] } ] }\n";
    let smaller =
        format!("{replicas}experiments:\n  a:\n    cluster: {{ at: leader }}\n    vary: {{ nodes: [3, 2] }}\n");
    files.push(("replicas that smaller clusters have not", smaller));
    insta::assert_snapshot!(messages(&files));
}

#[test]
fn faults() {
    let faults = [
        ("no time", "{ kill: leader }", ""),
        ("nothing happens", "{ at: 1s }", ""),
        ("two things happen", "{ at: 1s, kill: 1, pause: 2, for: 1s }", ""),
        ("an unknown target", "{ at: 1s, kill: everybody }", ""),
        ("a node that isn't there", "{ at: 1s, kill: 4 }", ""),
        ("a node that smaller clusters have not", "{ at: 1s, kill: 3 }", "\n    vary: { nodes: [2, 3] }"),
        ("a restart of the leader", "{ at: 1s, restart: leader }", ""),
        ("a kill with an end", "{ at: 1s, kill: leader, for: 1s }", ""),
        ("a pause without an end", "{ at: 1s, pause: leader }", ""),
        ("a partition of one side", "{ at: 1s, partition: [[1, 2]], for: 1s }", ""),
        ("a partition with an empty side", "{ at: 1s, partition: [[1], []], for: 1s }", ""),
        ("a node on both sides", "{ at: 1s, partition: [[1, 2], [2, 3]], for: 1s }", ""),
        ("a fault after the end", "{ at: 1s, pause: 1, for: 5s }", "\n    for: 3s"),
    ];
    let files = faults.map(|(title, fault, more)| {
        let load = format!("cluster:\n      faults:\n        - {fault}{more}");
        (title, format!("controllers: {{ nodes: 3 }}\nexperiments:\n  one:\n    {load}\n"))
    });
    insta::assert_snapshot!(messages(&files));
}
