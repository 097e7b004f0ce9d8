//! Connections that come and go: what is read, and what is refused.

use fabric::{Fabric, Metric, Source, Statistic, Transfers};
use machine::Span;

fn file(experiment: &str) -> String {
    let experiment = experiment.replace('\n', "\n    ");
    format!(
        "nodes: {{ h1: host, h2: host, s1: switch }}\nlinks: [{{ between: [h1, s1] }}, {{ between: [h2, s1] }}]\n\
         experiments:\n  a:\n    {experiment}\n"
    )
}

fn parse(text: &str) -> Result<Fabric, fabric::Error> {
    fabric::parse(&Source { name: "net.fabric.yaml".to_owned(), text: text.to_owned() })
}

/// The first problem: its message and its hint.
fn problem(text: &str) -> (String, String) {
    let error = parse(text).err().unwrap_or_else(|| panic!("accepted:\n{text}"));
    let problem = &error.problems()[0];
    (problem.message.clone(), problem.hint.clone())
}

#[test]
fn transfers_have_a_size_and_an_interval() {
    let fabric = parse(&file(
        "traffic: { pattern: { pairs: [[h1, h2]] }, transfers: { size: 20kB, every: 2ms } }
vary: { transfers.size: [1B, 1000MB], transfers.every: [1ms, 1s], transport: [linux, reno] }
expect: { completion-mean: \"<= 20 ms\", completion-p99: \"<= 1 s\", unfinished: \"<= 0\" }
report: [completion-p50, completion-max]",
    ))
    .unwrap_or_else(|error| panic!("{error:?}"));
    let experiment = &fabric.experiments[0];
    let transfers = experiment.work.traffic().expect("traffic").transfers;
    assert_eq!(transfers, Some(Transfers { size_bytes: 20_000, every: Span::from_ms(2) }));
    let of = |case: &fabric::Case| case.work.traffic().and_then(|traffic| traffic.transfers).expect("transfers");
    let cases: Vec<_> = experiment.cases().iter().map(of).map(|it| (it.size_bytes, it.every)).collect();
    assert_eq!(cases.len(), 8);
    assert!(cases.contains(&(1, Span::from_secs(1))) && cases.contains(&(1_000_000_000, Span::from_ms(1))));
    let of_means = Metric::Completion(Statistic::Mean);
    assert_eq!(experiment.expect[0].metric, of_means);
    assert_eq!(of_means.word(), "completion-mean");
}

#[test]
fn what_cannot_be_is_refused() {
    let transfers = "transfers: { size: 20kB, every: 2ms }";
    for (experiment, message) in [
        (format!("traffic: {{ pattern: random, transport: udp, {transfers} }}"), "`udp` has no connections"),
        (format!("traffic: {{ pattern: random, {transfers} }}\nvary: {{ transport: [linux, udp] }}"), "`udp` has no"),
        (format!("traffic: {{ pattern: random, streams: 2, {transfers} }}"), "not in several streams"),
        (format!("traffic: {{ pattern: random, {transfers} }}\nvary: {{ streams: [1, 2] }}"), "not in several streams"),
        (format!("traffic: {{ pattern: random, rate: 1 kpps, {transfers} }}"), "TCP sends as fast"),
        ("traffic: { pattern: random, transfers: { size: 0B, every: 2ms } }".to_owned(), "from 1 to"),
        ("traffic: { pattern: random, transfers: { size: 1001MB, every: 2ms } }".to_owned(), "from 1 to"),
        ("traffic: { pattern: random, transfers: { size: 1kB, every: 0 } }".to_owned(), "can't be zero"),
        ("traffic: { pattern: random, transfers: { size: 1kB } }".to_owned(), "`every` is missing"),
        ("traffic: { pattern: random, transfers: { size: 1kB, every: 1us } }".to_owned(), "more than 100000"),
        (
            "traffic: { pattern: random, transfers: { size: 1kB, every: 1s } }\nvary: { transfers.every: [1s, 1us] }"
                .to_owned(),
            "are 2000000 in a run",
        ),
        ("traffic: { pattern: random }\nvary: { transfers.size: [1kB] }".to_owned(), "the traffic has none"),
        ("traffic: { pattern: random }\nexpect: { unfinished: \"<= 2\" }".to_owned(), "is of transfers"),
    ] {
        let (said, hint) = problem(&file(&experiment));
        assert!(said.contains(message) && !hint.is_empty(), "{experiment}: {said}");
    }
}
