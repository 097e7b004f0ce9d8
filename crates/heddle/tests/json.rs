//! The page about JSON (`docs/json.md`) names each key that a command prints.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::docs::page;
use crate::live::{may_run, up};
use crate::program::Desk;

/// What has nearly everything that rows may be of.
const NETWORK: &str = "\
name: lab
nodes:
  h1: host
  h2: { kind: host, programs: { web: python3 -m http.server 80 } }
  h3: host
  h4: host
  lb1: host
  s1: switch
  s2: switch
  s3: switch
links:
  - { between: [h1, s1], rate: 100Mbit, delay: 1ms, back: { delay: 2ms } }
  - { between: [h2, s1] }
  - { between: [h3, s2] }
  - { between: [lb1, s1] }
  - { between: [s1, s2] }
  - { between: [h4, s3] }
  - { between: [h4, s3] }
  - { between: [s3, s2] }
bonds: [{ between: [h4, s3], mode: balance-rr }]
switches: { s1: { rstp: {}, ports: { h1: { storm-control: 1000/s }, h2: { trunks: [0, 5] } } }, s2: { rstp: {} } }
flows: { s2: ['priority=10,arp,actions=normal', 'udp,tp_dst=9999,actions=meter:1,normal', 'ip,actions=ct(commit),normal', 'actions=normal'] }
meters: { s2: ['meter=1 kbps band=type=drop rate=1000'] }
groups: { s2: ['group_id=1,type=select,bucket=output:1'] }
services:
  web: { address: '10.1.0.80:80', servers: [h2, h3] }
  bal: { address: '10.1.0.81:80', servers: [h2, h3], at: [lb1], forward: full-nat }
names: { www.example.net: { address: 10.1.0.53, sites: { near: { service: web } } } }
functions: { count: { kind: counter } }
chains: { all: { from: h1, to: h3, functions: [count] } }
";

const EXPERIMENTS: &str = "\
name: lab
topology: { leaf-spine: { leaves: 2, spines: 2, hosts-per-leaf: 1 } }
links: { rate: 20Mbit, delay: 1ms, queue: 20 }
experiments:
  a: { traffic: { pattern: stride(1) }, warm-up: 100ms, for: 300ms, repeat: 2, vary: { spread: [single, ecmp] }, time-series: 100ms, expect: { goodput-mean: '>= 1 Mbit/s' } }
  u: { traffic: { pattern: stride(1), transport: udp, rate: 100pps }, warm-up: 100ms, for: 300ms }
  t: { traffic: { pattern: stride(1), transfers: { size: 20kB, every: 50ms } }, warm-up: 100ms, for: 500ms }
";

/// The keys that the page has of a command, in the section whose heading names it.
fn keys_on_the_page(command: &str) -> BTreeSet<String> {
    let page = page("json.md");
    let is_meant = |section: &&str| {
        let heading = section.lines().next().unwrap_or_default();
        heading.split('`').any(|name| name == command)
    };
    let section = page.split("\n### ").skip(1).find(is_meant).unwrap_or_else(|| panic!("no section of `{command}`"));
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// All keys of a value with those above them, `a.b`.
fn keys(value: &Value, above: &str, all: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
                keys(value, &path, all);
                all.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| keys(item, above, all)),
        _ => {}
    }
}

/// Whether a key is on the page by itself, below a `*`, or above one that is.
fn is_on(page: &BTreeSet<String>, key: &str) -> bool {
    page.iter().any(|known| {
        let below = known.strip_suffix('*').is_some_and(|start| key.starts_with(start));
        below || known == key || known.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'))
    })
}

/// Holds what was printed, a value or a value a line, against a section of the page.
pub fn hold(command: &str, printed: &str) {
    let lines =
        || printed.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")));
    let values: Vec<Value> = serde_json::from_str(printed).map_or_else(|_| lines().collect(), |value| vec![value]);
    let (page, mut printed) = (keys_on_the_page(command), BTreeSet::new());
    for value in &values {
        keys(value, "", &mut printed);
    }
    assert!(!printed.is_empty(), "`{command}` has printed nothing");
    let missing: Vec<&String> = printed.iter().filter(|key| !is_on(&page, key)).collect();
    assert!(missing.is_empty(), "docs/json.md has not of `{command}`: {missing:?}");
    let odd: Vec<&String> = printed.iter().filter(|key| key.contains('_') && !is_named_by_the_file(key)).collect();
    assert!(odd.is_empty(), "`{command}`: {odd:?}");
}

/// Whether the last part of a key is an axis or another name of the file's.
fn is_named_by_the_file(key: &str) -> bool {
    key.contains("labels.") || key.contains("lost.")
}

#[test]
fn keys_of_files_and_results_are_on_the_page() {
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", NETWORK);
    desk.write("runs.fabric.yaml", EXPERIMENTS);
    desk.write("wrong.fabric.yaml", "topology: { fat-tree: { k: 3 } }\n");
    let run = ["run", "runs.fabric.yaml", "--sim", "--quiet", "--results"];
    for folder in ["a", "b"] {
        desk.expect(0, &[&run[..], &[folder]].concat());
    }
    for (status, command, args) in [
        (0, "heddle check", "check lab.fabric.yaml"),
        (0, "heddle check", "check runs.fabric.yaml"),
        (2, "heddle check", "check wrong.fabric.yaml"),
        (0, "heddle plan", "plan lab.fabric.yaml"),
        (0, "heddle plan", "plan runs.fabric.yaml"),
        (0, "heddle report", "report a"),
        (0, "heddle report --compare", "report --compare a b"),
        (0, "heddle new", "new other"),
        (0, "heddle graph", "graph lab.fabric.yaml"),
        (0, "heddle path", "path h1 web lab.fabric.yaml"),
        (0, "heddle show nodes", "show nodes lab.fabric.yaml"),
        (0, "heddle show links", "show links lab.fabric.yaml"),
        (0, "heddle show services", "show services lab.fabric.yaml"),
        (0, "heddle show names", "show names lab.fabric.yaml"),
        (0, "heddle show chains", "show chains lab.fabric.yaml"),
        (0, "heddle show programs", "show programs lab.fabric.yaml"),
        (0, "heddle capture", "capture h1 --sim runs.fabric.yaml -c 5"),
    ] {
        let args: Vec<&str> = args.split(' ').chain(["-o", "json"]).collect();
        hold(command, &desk.expect(status, &args).0);
    }
    let whole: Vec<&str> = run.iter().copied().chain(["c", "-o", "json"]).collect();
    hold("heddle run", &desk.expect(0, &whole).0);
    for file in ["samples.jsonl", "machine.json"] {
        hold(file, &desk.read(&format!("a/{file}")));
    }
    hold("summary.json", &desk.read("a/summary.json"));
    // Both say which commit the program is of, and so does the page.
    let (version, _) = desk.expect(0, &["--version"]);
    let version = version.trim().strip_prefix("heddle ").expect("its name");
    for file in ["machine.json", "summary.json"] {
        let value: Value = serde_json::from_str(&desk.read(&format!("a/{file}"))).expect("it is JSON");
        assert_eq!(value["version"], version, "{file}");
    }
    assert!(desk.read("a/report.html").contains(&format!("<dt>heddle</dt><dd>{version}</dd>")));
}

#[test]
fn keys_of_running_networks_are_on_the_page() {
    if !may_run() {
        return;
    }
    let guard = up(NETWORK);
    let desk = &guard.0;
    desk.expect(0, &["exec", "h3", "ping", "-4", "-c", "1", "-W", "60", "h4"]);
    for (command, args) in [
        ("heddle list", "list"),
        ("heddle show nodes", "show nodes"),
        ("heddle show links", "show links"),
        ("heddle show routes", "show routes"),
        ("heddle show flows", "show flows"),
        ("heddle show caches", "show caches"),
        ("heddle show connections", "show connections"),
        ("heddle show macs", "show macs"),
        ("heddle show rstp", "show rstp"),
        ("heddle show meters", "show meters"),
        ("heddle show bonds", "show bonds"),
        ("heddle show counters", "show counters"),
        ("heddle show services", "show services"),
        ("heddle show names", "show names"),
        ("heddle show chains", "show chains"),
        ("heddle show programs", "show programs"),
        ("heddle flow show", "flow show s2"),
        ("heddle flow add", "flow add s2 priority=5,icmp6,actions=drop"),
        ("heddle flow del", "flow del s2 icmp6"),
        ("heddle group show", "group show s2"),
        ("heddle meter show", "meter show s2"),
        ("heddle port show", "port show s1"),
        ("heddle link show", "link show h1 s1"),
        ("heddle link set", "link set h2 s1 delay=1ms"),
        ("heddle link down", "link down s2 s3"),
        ("heddle link up", "link up s2 s3"),
        ("heddle service", "service weight web h2 2"),
        ("heddle program", "program restart h2 web"),
        ("heddle flush macs", "flush macs"),
        ("heddle ping", "ping h1 h2 -W 60s"),
        ("heddle path", "path h1 web"),
        ("heddle trace", "trace s2 in_port=h3,tcp,nw_dst=h4,tp_dst=80"),
        ("heddle iperf", "iperf h1 h2 -t 1"),
        ("heddle up", "up lab.fabric.yaml"),
        ("heddle down", "down lab"),
    ] {
        let args: Vec<&str> = args.split(' ').chain(["-o", "json"]).collect();
        hold(command, &desk.expect(0, &args).0);
    }
}

#[test]
fn a_key_is_on_the_page_by_itself_or_with_what_is_around_it() {
    let page = ["labels.*", "a.b", "c"].map(str::to_owned).into();
    for key in ["labels", "labels.spread", "a", "a.b", "c"] {
        assert!(is_on(&page, key), "{key}");
    }
    for key in ["label", "a.c", "c.d", "b"] {
        assert!(!is_on(&page, key), "{key}");
    }
    assert!(keys_on_the_page("heddle list").contains("uptime-s"));
    assert!(!keys_on_the_page("heddle list").contains("kind"));
}
