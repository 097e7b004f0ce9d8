//! What a terminal shows: nothing is wider than it, and where there is nothing, it says so.

use crate::first_hour::{has_script, on_a_terminal};
use crate::live::{may_run, up};
use crate::network_commands::json;
use crate::program::Desk;

/// Names and cases that fill lines, and an expectation that nothing can meet.
const WIDE: &str = "\
topology: { leaf-spine: { leaves: 2, spines: 2, hosts-per-leaf: 2 } }
links: { rate: 100Mbit, delay: 100us, queue: 50 }
experiments:
  an-experiment-with-a-rather-long-name:
    title: One that says at length what it is about, so that a line of eighty columns is too short for all of its words
    traffic: { transport: newreno }
    vary: { pattern: ['stride(1)', 'staggered(0.5, 0.3)'], spread: [single, packet-scatter-random], window: [20, 200] }
    for: 50ms
    repeat: 2
    expect: { goodput-mean: \">= 90 Gbit/s\" }
";

/// Two hosts in different subnets, and a router between them.
const ROUTED: &str = "\
nodes:
  h1: { kind: host, ipv4: 10.0.1.1/24, routes: [default via 10.0.1.254] }
  h2: { kind: host, ipv4: 10.0.2.1/24, routes: [default via 10.0.2.254] }
  r1: { kind: host, forward: true, interfaces: { s1: { ipv4: 10.0.1.254/24 }, s2: { ipv4: 10.0.2.254/24 } } }
  s1: switch
  s2: switch
links: [{ between: [h1, s1] }, { between: [r1, s1] }, { between: [r1, s2] }, { between: [h2, s2] }]
";

/// What a command shows on a terminal of so many columns, line by line, without what moves the cursor; and how it ends.
fn shown(desk: &Desk, columns: u16, line: &str) -> (Option<i32>, Vec<String>) {
    let rows = if columns == 0 { 0 } else { 24 };
    let output = on_a_terminal(desk, (columns, rows), line).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut plain = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            // A control sequence ends in a letter.
            '\u{1b}' => {
                let _ = chars.by_ref().find(char::is_ascii_alphabetic);
            }
            // What is drawn anew begins a line of its own.
            '\r' => plain.push('\n'),
            c => plain.push(c),
        }
    }
    (output.status.code(), plain.lines().map(str::to_owned).collect())
}

#[test]
fn plans_runs_and_reports_fit_into_80_columns() {
    if !has_script() {
        return;
    }
    let desk = Desk::new();
    desk.write("wide.fabric.yaml", WIDE);
    for (status, line) in [
        (0, "plan wide.fabric.yaml"),
        (1, "run wide.fabric.yaml --sim --results one"),
        (1, "run wide.fabric.yaml --sim --results other --seed 2"),
        (1, "report one"),
        (0, "report --compare one other"),
    ] {
        let (ended, lines) = shown(&desk, 80, line);
        let text = lines.join("\n");
        assert_eq!(ended, Some(status), "{line}: {text}");
        let wide = lines.iter().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{line}: {text}");
        let is_judged = line.starts_with("run") || line == "report one";
        assert_eq!(text.contains("  MISSED line 10: "), is_judged, "{line}: {text}");
    }
    // For a program a line stays one.
    let (said, _) = desk.expect(1, &["report", "one"]);
    assert!(said.lines().any(|line| line.starts_with("  MISSED line 10: ") && line.ends_with("bit/s")), "{said}");
    // However narrow it is, what can be broken is.
    let (_, lines) = shown(&desk, 40, "plan wide.fabric.yaml");
    assert!(lines.iter().all(|line| line.chars().count() <= 40), "{lines:#?}");
}

#[test]
fn what_there_is_none_of_is_said_in_a_line() {
    if !may_run() {
        return;
    }
    let guard =
        up("nodes: { h1: host, h2: host, s1: switch }\nlinks: [{ between: [h1, s1] }, { between: [h2, s1] }]\n");
    let desk = &guard.0;
    for topic in
        ["services", "chains", "programs", "flows", "caches", "connections", "rstp", "meters", "bonds", "names"]
    {
        let (said, on_stderr) = desk.expect(0, &["show", topic]);
        // What may be read as flows is none.
        let is_of_flows = ["flows", "connections", "meters"].contains(&topic);
        assert_eq!(said.is_empty(), is_of_flows, "{topic}: {said}");
        let said = said + &on_stderr;
        assert_eq!(said.lines().count(), 1, "{topic}: {said}");
        assert!(said.starts_with("No ") && said.contains('`'), "{topic}: {said}");
        let nothing = match topic {
            "services" => serde_json::json!({ "services": [], "servers": [], "balancers": [] }),
            _ => serde_json::json!([]),
        };
        assert_eq!(json(&desk.expect(0, &["show", topic, "-o", "json"]).0), nothing, "{topic}");
    }
    for topic in ["services", "chains", "programs", "names"] {
        let (said, _) = desk.expect(0, &["show", topic, "lab.fabric.yaml"]);
        assert!(said.starts_with("No ") && said.lines().count() == 1, "{topic}: {said}");
    }
}

#[test]
fn services_fit_into_40_columns_and_a_terminal_without_a_size() {
    if !may_run() || !has_script() {
        return;
    }
    let guard = up(&format!(
        "nodes: {{ {}, s1: switch }}\nlinks: [{}]\nservices: {{ web: {{ address: '10.1.0.80:80', servers: [{}] }} }}\n",
        (1..=20).map(|n| format!("h{n}: host")).collect::<Vec<_>>().join(", "),
        (1..=20).map(|n| format!("{{ between: [h{n}, s1] }}")).collect::<Vec<_>>().join(", "),
        (1..=20).map(|n| format!("h{n}")).collect::<Vec<_>>().join(", "),
    ));
    // 0 x 0 says nothing of its size.
    for (columns, at_most) in [(40, 40), (0, 80)] {
        let (ended, lines) = shown(&guard.0, columns, "show services");
        assert_eq!(ended, Some(0), "{lines:#?}");
        assert!(lines.iter().all(|line| line.chars().count() <= at_most), "{lines:#?}");
        assert!(lines.iter().any(|line| line.starts_with("web") && line.contains(" h20 ")), "{lines:#?}");
    }
}

#[test]
fn interfaces_of_a_host_are_no_hosts_and_go_by_their_devices() {
    if !may_run() {
        return;
    }
    let guard = up(ROUTED);
    let desk = &guard.0;
    let (checked, _) = desk.expect(0, &["check", "lab.fabric.yaml"]);
    assert!(checked.contains(": 3 hosts, 2 switches, 4 links, "), "{checked}");
    let listed = json(&desk.expect(0, &["list", "-o", "json"]).0);
    let counts = ["hosts", "switches", "links"].map(|key| listed[0][key].as_u64());
    assert_eq!(counts, [Some(3), Some(2), Some(4)], "{listed}");
    let (plan, _) = desk.expect(0, &["plan", "lab.fabric.yaml"]);
    assert!(plan.contains("nothing to change, 9 nodes and links kept"), "{plan}");
    let counters = json(&desk.expect(0, &["show", "counters", "-o", "json"]).0);
    let rows = counters.as_array().expect("rows");
    let ports: Vec<_> = rows.iter().filter(|row| row["from"] == "r1").filter_map(|row| row["to"].as_str()).collect();
    assert!(ports.contains(&"r1:eth0") && ports.contains(&"r1:eth1"), "{ports:?}");
    assert!(!counters.to_string().contains("eth1:eth0"), "{counters}");
}
