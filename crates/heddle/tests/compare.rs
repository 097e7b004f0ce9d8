//! `heddle compare` on folders of results: what is in them is made of a simulated run, so that nothing has to be run live.

use serde_json::{Value, json};

use crate::program::Desk;

const FILE: &str = "\
topology: { leaf-spine: { leaves: 2, spines: 2, hosts-per-leaf: 2 } }
links: { rate: 100Mbit, delay: 100us, queue: 50 }
experiments:
  a: { traffic: { pattern: stride(2) }, warm-up: 100ms, for: 300ms, repeat: 2 }
  b: { traffic: { pattern: stride(1) }, warm-up: 100ms, for: 300ms }
";

/// The results of a simulated run of `FILE`, in `results/lab`.
fn simulated() -> Desk {
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", FILE);
    desk.expect(0, &["run", "lab.fabric.yaml", "--sim", "--quiet"]);
    desk
}

/// Makes live runs of the simulated ones, whose goodput is `factor` times theirs in experiment `a`.
fn add_live_runs(desk: &Desk, factor: f64) {
    let mut samples = desk.read("results/lab/samples.jsonl");
    let simulated: Vec<Value> =
        samples.lines().map(|line| serde_json::from_str(line).expect("a record a line")).collect();
    let scale = |value: &mut Value, experiment: &Value| {
        let factor = if experiment == "a" { factor } else { 1.0 };
        *value = json!(value.as_f64().expect("a number") * factor);
    };
    for mut record in simulated {
        let experiment = record["experiment"].clone();
        record["driver"] = json!("live");
        for flow in record["flows"].as_array_mut().expect("flows") {
            scale(&mut flow["goodput_bps"], &experiment);
        }
        samples += &record.to_string();
        samples.push('\n');
    }
    desk.write("results/lab/samples.jsonl", &samples);
    let mut summary: Value = serde_json::from_str(&desk.read("results/lab/summary.json")).expect("JSON");
    summary["drivers"] = json!(["live", "sim"]);
    for experiment in summary["experiments"].as_array_mut().expect("experiments") {
        let name = experiment["name"].clone();
        for cell in experiment["cases"][0]["cells"].as_array_mut().expect("cells") {
            cell["live"] = cell["sim"].clone();
            if cell["metric"] == "goodput-mean" {
                scale(&mut cell["live"]["mean"], &name);
            }
        }
    }
    desk.write("results/lab/summary.json", &summary.to_string());
}

#[test]
fn results_within_tolerance_are_status_0_and_others_1() {
    let desk = simulated();
    add_live_runs(&desk, 1.04);
    let (table, stderr) = desk.expect(0, &["compare", "results/lab"]);
    assert!(table.ends_with("\n10 of 10 within tolerance\n") && !table.contains(" NO"), "{table}");
    assert!(table.contains("flows that differ most") && !table.contains("links that differ most"), "{table}");
    assert!(!stderr.contains("Report"), "nothing was written: {stderr}");

    let desk = simulated();
    add_live_runs(&desk, 0.9);
    let (table, _) = desk.expect(1, &["compare", "results/lab"]);
    assert!(table.ends_with("\n9 of 10 within tolerance\n") && table.contains("−10.0 %"), "{table}");
    let (table, _) = desk.expect(0, &["compare", "results/lab", "--experiment", "b"]);
    assert!(table.ends_with("\n5 of 5 within tolerance\n"), "{table}");
    // The report says the same.
    desk.expect(0, &["report", "results/lab"]);
    let page = desk.read("results/lab/report.html");
    assert!(page.contains("Live against simulated") && page.contains("9 of 10 within tolerance"));
}

#[test]
fn the_comparison_comes_as_json_and_csv() {
    let desk = simulated();
    add_live_runs(&desk, 0.9);
    let (text, _) = desk.expect(1, &["compare", "results/lab", "-o", "json"]);
    let comparison: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&comparison["within"], &comparison["judged"]), (&json!(9), &json!(10)));
    let goodput = &comparison["experiments"][0]["cases"][0]["metrics"][0];
    assert_eq!((&goodput["metric"], &goodput["within"]), (&json!("goodput-mean"), &json!(false)));
    assert_eq!(comparison["flows"].as_array().map(Vec::len), Some(4), "those of `a`");
    let (text, _) = desk.expect(1, &["compare", "results/lab", "-o", "csv"]);
    let line = text.lines().find(|line| line.starts_with("a,all,goodput-mean,2,")).expect("a line");
    assert!(line.ends_with(",false"), "{line}");
}

#[test]
fn what_can_not_be_compared_is_status_2_with_a_hint() {
    let desk = simulated();
    let (_, stderr) = desk.expect(2, &["compare", "results/lab"]);
    assert!(stderr.contains("no case ran both live and simulated") && stderr.contains("without --sim"), "{stderr}");
    add_live_runs(&desk, 1.0);
    let (_, stderr) = desk.expect(2, &["compare", "results/lab", "-e", "c"]);
    assert!(stderr.contains("\"c\"") && stderr.contains("it has a, b"), "{stderr}");
    let (_, stderr) = desk.expect(2, &["compare", "results/lab", "--seed", "3"]);
    assert!(stderr.contains("--seed") && stderr.contains("nothing is run") && stderr.contains("leave the option"));
    let (_, stderr) = desk.expect(2, &["compare", "results"]);
    assert!(stderr.contains("summary.json") && stderr.contains("heddle run"), "{stderr}");
    let (_, stderr) = desk.expect(2, &["compare", "nowhere.fabric.yaml"]);
    assert!(stderr.contains("nowhere.fabric.yaml") && stderr.contains("heddle new"), "{stderr}");
}
