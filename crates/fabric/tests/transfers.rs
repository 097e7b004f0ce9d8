//! Connections that come and go: what is read, and what is refused.

use fabric::{Fabric, Metric, Source, Statistic, Transfers};
use machine::Span;
use transport::transfers::{Point, Sizes, WHOLE};

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
    let transfers = experiment.work.traffic().expect("traffic").transfers.clone();
    assert_eq!(transfers, Some(Transfers { size: Sizes::fixed(20_000), every: Span::from_ms(2) }));
    let of =
        |case: &fabric::Case| case.work.traffic().and_then(|traffic| traffic.transfers.clone()).expect("transfers");
    let cases: Vec<_> = experiment.cases().iter().map(of).map(|it| (it.size, it.every)).collect();
    assert_eq!(cases.len(), 8);
    assert!(
        cases.contains(&(Sizes::fixed(1), Span::from_secs(1)))
            && cases.contains(&(Sizes::fixed(1_000_000_000), Span::from_ms(1)))
    );
    let of_means = Metric::Completion(Statistic::Mean);
    assert_eq!(experiment.expect[0].metric, of_means);
    assert_eq!(of_means.word(), "completion-mean");
}

#[test]
fn sizes_are_drawn_from_what_the_file_says() {
    let fabric = parse(&file(
        "traffic: { pattern: random, transfers: { size: web-search, every: 2ms } }
vary: { transfers.size: [20kB, data-mining, { lognormal: { median: 20kB, sigma: 1.5 } }, { cdf: [[10kB, 0.5], [100kB, 90%], [1MB, 1]] }] }",
    ))
    .unwrap_or_else(|error| panic!("{error:?}"));
    let experiment = &fabric.experiments[0];
    let size = |work: &fabric::Work| work.traffic().and_then(|traffic| traffic.transfers.clone()).expect("them").size;
    assert_eq!(size(&experiment.work), Sizes::web_search());
    let sizes: Vec<Sizes> = experiment.cases().iter().map(|case| size(&case.work)).collect();
    let point = |bytes, share: u32| Point { bytes, share: share * (WHOLE / 10) };
    let points = vec![point(10_000, 5), point(100_000, 9), point(1_000_000, 10)];
    let expected = [
        Sizes::fixed(20_000),
        Sizes::data_mining(),
        Sizes::log_normal(20_000, 1_500),
        Sizes::from_points(points).expect("a distribution"),
    ];
    assert_eq!(sizes, expected);
    for (size, message) in [
        ("web-find", "no mix of sizes"),
        ("[1kB]", "expected a size like"),
        ("{}", "need a distribution"),
        ("{ cdf: [[1kB, 1]], lognormal: { median: 1kB, sigma: 1 } }", "one distribution"),
        ("{ lognormal: { median: 1kB } }", "`sigma` is missing"),
        ("{ lognormal: { median: 1kB, sigma: 5 } }", "from 0 to 4"),
        ("{ cdf: [] }", "needs a point"),
        ("{ cdf: [[1kB, 0.5]] }", "last share is not 1"),
        ("{ cdf: [[1kB, 1.5]] }", "a share from 0 to 1"),
        ("{ cdf: [[2kB, 0.5], [1kB, 1]] }", "smaller than the one before"),
        ("{ cdf: [[1kB, 0.5], [2kB, 0.4], [3kB, 1]] }", "smaller than the one before"),
        ("{ cdf: [[1kB, 0.5, 3], [3kB, 1]] }", "a point like"),
        ("{ cdf: [1kB] }", "a point like"),
        ("{ cdf: [[0B, 1]] }", "from 1 to"),
    ] {
        let experiment = format!("traffic: {{ pattern: random, transfers: {{ size: {size}, every: 1ms }} }}");
        let (said, hint) = problem(&file(&experiment));
        assert!(said.contains(message) && !hint.is_empty(), "{experiment}: {said}");
    }
    let (_, hint) = problem(&file("traffic: { pattern: random, transfers: { size: web-find, every: 1ms } }"));
    assert!(hint.contains("web-search"), "{hint}");
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
