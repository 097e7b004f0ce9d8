//! A service as an experiment: one file, live and simulated.

use serde_json::Value;

use crate::live::{Guard, may_run};
use crate::program::Desk;

const FILE: &str = "\
nodes: { c1: host, c2: host, h1: host, h2: host, s1: switch }
link-defaults: { rate: 100Mbit, delay: 1ms, queue: 250 }
links: [{ between: [c1, s1] }, { between: [c2, s1] }, { between: [h1, s1] }, { between: [h2, s1] }]
services:
  web: { address: 10.1.0.80:80, servers: [h1, h2], agent: { port: 7777, every: 50ms } }
experiments:
  ask:
    traffic:
      requests:
        to: web
        workload: fsvd
        size: 64KiB
        duration: exp:5ms
        clients: 4
        new-connections: true
        servers: { at-a-time: 4, memory-limit: 16MiB }
        by-server: { h2: { slow: x2 } }
    vary: { services.scheduler: [lc, alc], services.forward: [nat, dr] }
    warm-up: 200ms
    for: 1s
    report: [requests-per-second, response-p50, response-p99, failed]
    expect: { failed: \"<= 0\", response-min: \">= 4 ms\", requests-per-second: \">= 1 /s\" }
";

/// Runs the file, and gives back the record of each run.
fn records(desk: &Desk, more: &[&str]) -> Vec<Value> {
    desk.write("ask.fabric.yaml", FILE);
    let (table, _) = desk.expect(0, &[&["run", "ask.fabric.yaml", "--quiet"], more].concat());
    assert!(table.contains("expectations are met"), "{table}");
    let samples = desk.read("results/ask/samples.jsonl");
    samples.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn clients_ask_a_simulated_service_with_each_scheduler_and_way_to_forward() {
    let desk = Desk::new();
    let records = records(&desk, &["--sim"]);
    assert_eq!(records.len(), 4);
    for record in &records {
        let did = &record["requests"];
        assert!(did["done"].as_u64() > Some(20) && did["latency"]["p99"].as_f64() > Some(0.004), "{record}");
        let answered: Vec<u64> =
            did["answered"].as_array().expect("both servers").iter().filter_map(Value::as_u64).collect();
        assert!(answered.len() == 2 && answered[0] > answered[1], "the second one is slower: {record}");
    }
    // The page says which scheduler to take.
    let page = desk.read("results/ask/report.html");
    assert!(page.contains("Which scheduler to take") && page.contains("<td class=\"left\">alc</td>"));
    // What carried the requests is not iperf3.
    let machine = desk.read("results/ask/machine.json");
    assert!(!machine.contains("iperf 3") && !page.contains("iperf 3"), "{machine}");
}

#[test]
fn one_file_asks_a_service_live_and_simulated() {
    if !may_run() {
        return;
    }
    let Guard(desk) = &Guard(Desk::new());
    let records = records(desk, &[]);
    let of = |driver: &str| records.iter().filter(|record| record["driver"] == driver).count();
    assert_eq!((of("live"), of("sim")), (4, 4));
    assert!(records.iter().all(|record| record["requests"]["done"].as_u64() > Some(0)), "{records:?}");
    // How far they lie apart is the machine's.
    let table = String::from_utf8(desk.heddle(&["compare", "results/ask", "--quiet"]).stdout).expect("UTF-8");
    assert!(table.contains("requests a second"), "{table}");
}
