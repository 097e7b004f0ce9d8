//! Links that go down and up in experiments, and datagrams at a constant rate: what is read, and what is refused.

use fabric::{Fabric, LinkFault, Metric, Source, parse};
use machine::Span;
use transport::TransportKind;

use crate::schema::violations;

/// h1 == s1 -- s2 -- h2, and h3 at s2: two members between h1 and s1.
const NETWORK: &str = "\
nodes: { h1: host, h2: host, h3: host, s1: switch, s2: switch }
link-defaults: { rate: 1Gbit, delay: 5us }
links:
  - between: [h1, s1]
  - between: [h2, s2]
  - between: [h3, s2]
  - between: [s1, s2]
  - between: [h1, s1]
bonds: [{ host: h1, mode: active-backup }]
experiments:
  failover:
    for: 3s
";

fn file(experiment: &str) -> String {
    format!("{NETWORK}    {}\n", experiment.replace('\n', "\n    "))
}

fn read(text: &str) -> Fabric {
    let source = Source { name: "failover.fabric.yaml".to_owned(), text: text.to_owned() };
    parse(&source).unwrap_or_else(|error| panic!("{:?}", miette::Report::new(error)))
}

/// The first problem: its message and its hint.
fn problem(text: &str) -> (String, String) {
    let source = Source { name: "failover.fabric.yaml".to_owned(), text: text.to_owned() };
    let error = parse(&source).err().unwrap_or_else(|| panic!("accepted:\n{text}"));
    let problem = &error.problems()[0];
    (problem.message.clone(), problem.hint.clone())
}

fn with_faults(faults: &str) -> String {
    file(&format!("traffic: {{ pattern: {{ pairs: [[h1, h2]] }}, faults: {faults} }}"))
}

#[test]
fn faults_name_links_by_their_ends_and_number() {
    let text = with_faults(
        "[ { at: 2s, up: [s1, h1] }, { at: 1s, down: [h1, s1, 1] }, { at: 0, down: [s1, s2] }, { at: 10ms, up: [s1, s2, 1] } ]",
    );
    let fabric = read(&text);
    assert_eq!(violations(&text), [""; 0]);
    let faults = &fabric.experiments[0].work.traffic().expect("traffic").faults;
    let (h1, s1, s2) =
        (fabric.topology.node("h1").unwrap(), fabric.topology.node("s1").unwrap(), fabric.topology.node("s2").unwrap());
    let fault = |at: u64, between, number, up| LinkFault { at: Span::from_ms(at), between, number, up };
    let expected = [
        fault(0, (s1, s2), None, false),
        fault(10, (s1, s2), Some(1), true),
        fault(1_000, (h1, s1), Some(1), false),
        fault(2_000, (s1, h1), None, true),
    ];
    assert_eq!(faults[..], expected, "in the order of their times");
    let members = fabric::find_links(&fabric.topology, "h1", "s1", None).unwrap();
    assert_eq!(faults[2].links(&fabric), [members[0]]);
    assert_eq!(faults[3].links(&fabric), members);
}

#[test]
fn each_mistake_in_a_fault_is_explained() {
    for (faults, message, hint) in [
        ("[{ at: 1s, down: [h9, s1] }]", "there is no node `h9`", "did you mean"),
        ("[{ at: 1s, down: [h1, s2] }]", "there is no link between `h1` and `s2`", "`h1` is linked to `s1`"),
        ("[{ at: 1s, down: [h1, s1, 3] }]", "have 2 links; there is no 3", "numbered from 1 to 2"),
        ("[{ at: 1s, down: [h1, s1, 0] }]", "from 1 to", "1 is the least"),
        ("[{ at: 1s, down: h1 }]", "expected the ends of a link", "[h1, s1]"),
        ("[{ at: 1s, down: [h1] }]", "expected two names", "[h1, s1, 2]"),
        ("[{ at: 3s, down: [h1, s1, 1] }]", "at 3s the run is over", "make `for:`"),
        ("[{ at: 1s, up: [h1, s1, 1] }]", "nothing has taken it down", "add `{ at: .., down"),
        ("[{ at: 1s, down: [h1, s1, 1] }, { at: 2s, down: [s1, h1, 1] }]", "down already at 2s", "let it come up"),
        ("[{ at: 1s, down: [h1, s1, 1], up: [h1, s1, 1] }]", "one of `down` or `up`", "one list entry for each"),
        ("[{ at: 1s }]", "one of `down` or `up`", "one list entry for each"),
        ("[{ down: [h1, s1, 1] }]", "`at` is missing", "add `at:`"),
        ("[{ at: 1s, down: [h1, s1] }]", "nobody reaches `h1` to the end", "no other way leads there"),
        ("[{ at: 1s, down: [s2, h2] }]", "nobody reaches `h2` to the end", "let the link come back"),
        ("[{ at: 1s, down: [s2, s1] }]", "nobody reaches", "no other way leads there"),
    ] {
        let (said, advice) = problem(&with_faults(faults));
        assert!(said.contains(message), "{faults}: {said}");
        assert!(advice.contains(hint), "{faults}: {advice}");
    }
    // A way that comes back is an outage to be measured.
    read(&with_faults("[{ at: 1s, down: [s2, s1] }, { at: 2s, up: [s1, s2] }]"));
}

#[test]
fn a_balancer_or_a_server_may_be_lost_for_good() {
    let text = "name: kill
nodes: { c: host, lb1: host, lb2: host, w1: host, w2: host, s1: switch }
links: [{ between: [c, s1] }, { between: [lb1, s1] }, { between: [lb2, s1] }, { between: [w1, s1] }, { between: [w2, s1] }]
services: { web: { address: 10.1.0.80:80, servers: [w1, w2], forward: full-nat, at: [lb1, lb2] } }
experiments:
  kill:
    traffic: { requests: { to: web, rate: 200/s, new-connections: true }, faults: [{ at: 500ms, down: [WHO, s1] }] }
    for: 1s
";
    for who in ["lb1", "w2"] {
        read(&text.replace("WHO", who));
    }
    let (said, _) = problem(&text.replace("WHO", "c"));
    assert!(said.contains("nobody reaches `c`"), "{said}");
}

#[test]
fn a_member_is_one_that_every_case_has() {
    let varied = |faults: &str| {
        file(&format!("traffic: {{ pattern: {{ pairs: [[h1, h2]] }}, faults: {faults} }}\nvary: {{ members: [1, 2] }}"))
    };
    let (said, _) = problem(&varied("[{ at: 1s, down: [h1, s1, 2] }]"));
    assert!(said.contains("`members: 1` there is no link 2"), "{said}");
    let (said, _) = problem(&varied("[{ at: 1s, down: [h1, s1, 1] }]"));
    assert!(said.contains("nobody reaches `h1`"), "the other member is not there in every case: {said}");
    read(&varied("[{ at: 1s, down: [h1, s1, 1] }, { at: 2s, up: [h1, s1, 1] }]"));
}

#[test]
fn datagrams_have_a_rate_and_metrics_of_their_own() {
    let text = file(
        "traffic: { pattern: { pairs: [[h1, h2]] }, transport: udp, rate: 10 kpps }
expect: { lost: \"<= 2\", longest-gap: \"<= 5 ms\", duplicates: \"<= 0\" }
published: { longest-gap: 70 ms }",
    );
    let fabric = read(&text);
    let experiment = &fabric.experiments[0];
    let traffic = experiment.work.traffic().expect("traffic");
    assert_eq!((traffic.rate_pps, traffic.transport.kind), (Some(10_000), TransportKind::Udp));
    let metrics: Vec<Metric> = experiment.expect.iter().map(|expectation| expectation.metric).collect();
    assert_eq!(metrics, [Metric::Lost, Metric::LongestGap, Metric::Duplicates]);
    assert!((experiment.published[0].value - 0.07).abs() < 1e-12);
    for (experiment, message) in [
        ("traffic: { pattern: random, rate: 10 kpps }", "TCP sends as fast"),
        ("traffic: { pattern: random, transport: udp, rate: 10 kpps, streams: 2 }", "one flow at a constant rate"),
        ("traffic: { pattern: random, transport: udp, rate: 0 pps }", "from 1 to"),
        ("traffic: { pattern: random, transport: udp, rate: 10 }", "has no unit"),
        ("traffic: { pattern: random, transport: udp, rate: 2 Mpps }", "from 1 to"),
        ("traffic: { pattern: random, rate: 1 kpps }\nvary: { transport: [udp, sack] }", "`sack` has no rate"),
        ("traffic: { pattern: random, transport: udp }\nexpect: { lost: \"<= 2\" }", "of datagrams at a constant rate"),
    ] {
        let (said, hint) = problem(&file(experiment));
        assert!(said.contains(message) && !hint.is_empty(), "{experiment}: {said}");
    }
}
