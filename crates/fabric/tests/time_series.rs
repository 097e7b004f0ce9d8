//! The step in which runs are recorded: what is read, and what is refused.

use fabric::{Fabric, Source};
use machine::Span;

fn parse(experiment: &str) -> Result<Fabric, fabric::Error> {
    let text = format!(
        "nodes: {{ h1: host, h2: host, s1: switch }}\nlinks: [{{ between: [h1, s1] }}, {{ between: [h2, s1] }}]\n\
         controllers: {{ nodes: 3 }}\nexperiments:\n  a:\n    {experiment}\n"
    );
    fabric::parse(&Source { name: "net.fabric.yaml".to_owned(), text })
}

#[test]
fn a_step_is_as_long_as_what_is_measured_at_most() {
    let step = |experiment: &str| {
        parse(&format!("traffic: {{ pattern: random }}\n    {experiment}")).map(|it| it.experiments[0].time_series)
    };
    assert_eq!(step("time-series: 100ms").unwrap(), Some(Span::from_ms(100)));
    assert_eq!(step("for: 10ms\n    time-series: 10ms").unwrap(), Some(Span::from_ms(10)));
    assert_eq!(step("repeat: 2").unwrap(), None);
    for (experiment, message) in [
        ("time-series: 9ms", "9ms is less than 10ms"),
        ("time-series: 2s", "a step of 2s is longer than what is measured, 1s"),
        ("time-series: 0", "can't be zero"),
        ("for: 200s\n    time-series: 10ms", "more than 10000 steps"),
        ("time-series: often", "a time like"),
    ] {
        let error = step(experiment).expect_err(experiment);
        let problem = &error.problems()[0];
        assert!(problem.message.contains(message) && !problem.hint.is_empty(), "{experiment}: {}", problem.message);
    }
}

#[test]
fn what_is_recorded_is_bounded() {
    let text = "topology: { fat-tree: { k: 8 } }\nlinks: { rate: 1Gbit }\nexperiments:\n  a:\n    traffic: { pattern: all-to-all }\n    \
                for: 50s\n    time-series: 10ms\n";
    let error = fabric::parse(&Source { name: "net.fabric.yaml".to_owned(), text: text.to_owned() });
    let error = error.expect_err("16,256 flows in 5,000 steps");
    assert!(error.problems()[0].message.contains("16256 flows and 384 links"), "{error:?}");
}

#[test]
fn controllers_are_not_recorded() {
    let error = parse("cluster: { operations: [create] }\n    time-series: 100ms").expect_err("it was read");
    assert!(error.problems().iter().any(|problem| problem.message.contains("only traffic")), "{error:?}");
}
