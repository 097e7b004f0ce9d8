//! Bonds in a simulated run: what is recorded of them and shown, and streams that are measured together.

use crate::pair::run;
use fabric::{DriverKind, Metric, Source};
use lab::Options;

const EXPERIMENTS: &str = "
  tcp:
    traffic: { pattern: { pairs: [[h1, h2]] }, transport: sack, segment: 1448B, header: 90B }
    vary:
      reorder: [off, on]
      streams: [1, 4]
    warm-up: 100ms
    for: 200ms
    repeat: 2
    published: { goodput-sum: { where: { reorder: off, streams: 1 }, is: 94.1 Mbit/s } }
    expect: { goodput-sum: { where: { reorder: on }, is: '>= 185 Mbit/s' } }
    report: [goodput-sum, reordered]
  udp:
    traffic: { pattern: { pairs: [[h1, h2]] }, streams: 2, transport: udp, segment: 1460B, header: 59B }
    warm-up: 50ms
    for: 200ms
    expect: { goodput-sum: '>= 190 Mbit/s' }
";

#[test]
fn resequencing_gives_tcp_both_links_and_is_reported_with_its_cost() {
    let results = run(EXPERIMENTS);
    assert!(results.passed(), "{}", results.table_within(140));
    let tcp = &results.experiments[0];
    let goodput = |case: usize| tcp.cases[case].summary(Metric::GoodputSum, DriverKind::Sim).expect("measured").mean;
    // off, streams 1 against on, streams 1.
    assert!(goodput(0) < goodput(2) / 2.0, "{} and {}", goodput(0), goodput(2));

    let [off, on] = [0, 2].map(|case| &tcp.cases[case].bonds);
    assert_eq!(off.len(), 4, "both directions of both bonds");
    assert!(off.iter().all(|bond| bond.order.is_none()), "{off:?}");
    let last = on.iter().find(|bond| (bond.from.as_str(), bond.to.as_str()) == ("s1", "h2")).expect("a direction");
    assert!(last.shares.iter().all(|share| (0.45..0.55).contains(share)), "{last:?}");
    let order = last.order.expect("it is on");
    // What comes by the fast link waits for what comes 780 us later by the slow one, at least to make up for the difference.
    assert!(order.held * 3 > order.offered && order.hold_max_seconds >= 0.78e-3, "{order:?}");
    assert!(order.hold_max_seconds <= 2e-3, "the timeout of `on` is the most: {order:?}");
    assert!(order.hold_mean_seconds < order.hold_max_seconds);
}

#[test]
fn streams_of_a_pair_are_one_flow_of_the_record() {
    let results = run(EXPERIMENTS);
    let of = |streams: &str| results.records.iter().find(|record| record.labels.get("streams") == Some(streams));
    let (one, four) = (of("1").expect("a run"), of("4").expect("a run"));
    assert_eq!((one.flows.len(), four.flows.len()), (1, 1));
    let udp = results.records.last().expect("a run");
    assert_eq!((udp.experiment.as_str(), udp.flows.len()), ("udp", 1));
    assert!(udp.flows[0].goodput_bps > 190e6, "both streams are in it: {:?}", udp.flows);
}

#[test]
fn tables_and_the_report_show_bonds_and_what_others_measured() {
    let results = run(EXPERIMENTS);
    let table = results.table_within(160);
    let lines: Vec<&str> = table.lines().collect();
    let published = lines.iter().find(|line| line.trim_start().starts_with("off, streams 1")).expect("a row");
    assert!(published.contains("94.1"), "{published}");
    let row = lines.iter().rfind(|line| line.contains("on, streams 4") && line.contains("s1 > h2")).expect("a row");
    assert!(row.contains(" / ") && row.split_whitespace().count() == 13, "{row}");
    assert!(!table.contains("h2 > s1"), "ACKs are not worth a row");
    assert!(table.contains("messages of 16060 bytes in 1460-byte fragments"));

    let html = results.html();
    assert!(html.contains("<summary>Bonds</summary>") && html.contains("<td class=\"left\">s1 &gt; h2</td>"));
    let back: serde_json::Value = serde_json::from_str(&results.json()).expect("JSON");
    assert!(back["experiments"][0]["cases"][2]["bonds"][2]["order"]["hold-max-seconds"].as_f64() > Some(0.0));
}

const FAILOVER: &str = "
name: failover
nodes: { h1: host, h2: host, s1: switch }
link-defaults: { rate: 1Gbit, delay: 20us, queue: 1000 }
links:
  - between: [h1, s1]
  - between: [h2, s1]
bonds: [{ host: h1, members: 2 }, { host: h2, members: 2 }]
experiments:
  failover:
    traffic:
      pattern: { pairs: [[h1, h2]] }
      transport: udp
      rate: 10 kpps
      faults: [ { at: 50ms, down: [h1, s1, 1] }, { at: 100ms, up: [h1, s1, 1] }, { at: 150ms, down: [h1, s1, 2] } ]
    vary: { mode: [balance-rr, active-backup, balance-xor, balance-tlb, balance-alb] }
    for: 300ms
    repeat: 3
    published: { longest-gap: { where: { mode: active-backup }, is: 70 ms } }
    expect: { lost: '<= 2', longest-gap: '<= 5 ms', duplicates: '<= 0' }
  outage:
    traffic:
      pattern: { pairs: [[h1, h2]] }
      transport: udp
      rate: 1 kpps
      faults: [ { at: 50ms, down: [h1, s1] }, { at: 150ms, up: [h1, s1] } ]
    for: 300ms
    expect: { lost: 100 +- 1, longest-gap: 101 ms +- 2 ms }
";

#[test]
fn a_bond_loses_what_is_on_the_cable_and_a_pair_without_one_the_whole_outage() {
    let source = Source { name: "failover.fabric.yaml".to_owned(), text: FAILOVER.to_owned() };
    let fabric = fabric::parse(&source).expect("the file is right");
    let options = Options { drivers: vec![DriverKind::Sim], ..Options::default() };
    let results =
        lab::run(&source, &fabric, &options, &lab::Journal::in_memory()).expect("simulated runs don't fail").results;
    assert!(results.passed(), "{}", results.table_within(140));
    let table = results.table_within(140);
    assert!(table.contains("10000 datagrams a second in packets of 1514 bytes, 3 faults of links"), "{table}");
    assert!(table.contains("longest") && table.contains("published"), "{table}");
    // In the outage, the bond itself has no member left to send on.
    for record in results.records.iter().filter(|record| record.experiment == "failover") {
        let datagrams = record.flows[0].datagrams.expect("they are counted");
        let cut: u64 = record.links.iter().map(|link| link.cut).sum();
        assert!(cut >= datagrams.lost, "{cut} were on cables of {} lost", datagrams.lost);
    }
    let csv = results.csv();
    assert!(csv.lines().any(|line| line.contains(",longest-gap,")), "{csv}");
}
