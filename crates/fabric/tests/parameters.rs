//! Every parameter that the file declares is there in all its places: reader, schema with a description, axis, and an effect.

use std::collections::BTreeMap;

use fabric::{Fabric, LinkChange, Setting, Source, link_keys, parse};
use link::LinkSpec;
use serde_json::{Map, Value};

/// A network with a bond, links with a rate and links without; and controllers.
const NETWORK: &str = "topology: { leaf-spine: { leaves: 2, spines: 2, hosts-per-leaf: 2 } }\n\
                       links: { rate: 1Gbit, switches: { delay: 1us } }\n\
                       bonds: [{ between: [leaf1, spine1], members: 2 }]\n\
                       services: { web: { address: 10.1.0.80:80, servers: [h1, h2] } }\n\
                       controllers: { nodes: 3 }\n";
const TRAFFIC: &str = "traffic: { pattern: random }";
const LINUX: &str = "traffic: { pattern: random, transport: linux }";
const TRANSFERS: &str = "traffic: { pattern: random, transfers: { size: 1B, every: 1s } }";
const REQUESTS: &str = "traffic: { requests: { to: web } }";
const CLUSTER: &str = "cluster: { requests: 1 }";

/// Of each axis: what the experiment does, and two values.
const AXES: [(&str, &str, [&str; 2]); 42] = [
    ("spread", TRAFFIC, ["single", "ecmp"]),
    ("routes", TRAFFIC, ["follow", "fixed"]),
    ("shaping", TRAFFIC, ["true", "false"]),
    ("pattern", TRAFFIC, ["stride(1)", "{ pairs: [[h1, h2]] }"]),
    ("transport", TRAFFIC, ["reno", "sack"]),
    ("congestion-control", LINUX, ["cubic", "reno"]),
    ("sysctl", LINUX, ["{ tcp_dsack: 1 }", "{ tcp_dsack: 0, tcp_comp_sack_nr: 0 }"]),
    ("streams", TRAFFIC, ["1", "2"]),
    ("switched-by", TRAFFIC, ["heddle", "linux-bridge"]),
    ("window", TRAFFIC, ["20", "auto"]),
    ("initial-window", TRAFFIC, ["2", "10"]),
    ("duplicate-ack-threshold", TRAFFIC, ["3", "4"]),
    ("transfers.size", TRANSFERS, ["20kB", "1MB"]),
    ("transfers.every", TRANSFERS, ["1ms", "20ms"]),
    ("requests.workload", REQUESTS, ["vsvd", "web-tree"]),
    ("requests.clients", REQUESTS, ["1", "8"]),
    ("requests.rate", REQUESTS, ["10/s", "0.5/s"]),
    ("requests.new-connections", REQUESTS, ["true", "false"]),
    ("links.rate", TRAFFIC, ["1Gbit", "2Gbit"]),
    ("links.delay", TRAFFIC, ["0", "1ms"]),
    ("links.queue", TRAFFIC, ["10", "1000"]),
    ("links.ecn", TRAFFIC, ["10", "20"]),
    ("links.overhead", TRAFFIC, ["0", "24"]),
    ("links.coalesce", TRAFFIC, ["0", "125us"]),
    ("links.loss", TRAFFIC, ["0", "0.1%"]),
    ("links.jitter", TRAFFIC, ["0", "1ms"]),
    ("links.duplicate", TRAFFIC, ["0", "1%"]),
    ("links.corrupt", TRAFFIC, ["0", "0.01%"]),
    ("links.reorder", TRAFFIC, ["0", "2%"]),
    ("mode", TRAFFIC, ["balance-rr", "802.3ad"]),
    ("reorder", TRAFFIC, ["off", "{ buffer: 64 }"]),
    ("members", TRAFFIC, ["1", "2"]),
    ("services.scheduler", REQUESTS, ["lc", "learned"]),
    ("services.forward", REQUESTS, ["nat", "dr"]),
    ("nodes", CLUSTER, ["1", "3"]),
    ("election-timeout", CLUSTER, ["1s", "measured"]),
    ("pre-vote", CLUSTER, ["true", "false"]),
    ("delay", CLUSTER, ["{ min: 0, mean: 1ms }", "{ min: 1ms, mean: 1ms }"]),
    ("shards", CLUSTER, ["single", "distributed"]),
    ("clients", CLUSTER, ["1", "8"]),
    ("at", CLUSTER, ["leader", "any"]),
    ("value", CLUSTER, ["1kB", "200B"]),
];

/// A network with an experiment that varies this.
fn experiment(axis: &str, work: &str, [a, b]: [&str; 2]) -> String {
    // Other switches know no rates of links.
    let besides = if axis == "switched-by" { "      shaping: [false]\n" } else { "" };
    format!("{NETWORK}experiments:\n  a:\n    {work}\n    vary:\n      {axis}: [{a}, {b}]\n{besides}")
}

fn read(text: &str) -> Fabric {
    let source = Source { name: "net.fabric.yaml".to_owned(), text: text.to_owned() };
    parse(&source).unwrap_or_else(|error| panic!("{:?}", miette::Report::new(error)))
}

/// The keys of a section in the schema.
fn properties<'a>(schema: &'a Value, section: &str) -> &'a Map<String, Value> {
    let found = schema.pointer(&format!("/definitions/{section}/properties")).and_then(Value::as_object);
    found.unwrap_or_else(|| panic!("the schema has no section {section}"))
}

#[test]
fn each_value_of_each_axis_changes_what_runs() {
    let schema = fabric::schema();
    let declared: Vec<&str> = properties(&schema, "Vary").keys().map(String::as_str).collect();
    assert_eq!(declared, AXES.map(|(axis, ..)| axis), "each axis that is declared is tried here");
    for (axis, work, [a, b]) in AXES {
        let text = experiment(axis, work, [a, b]);
        let fabric = read(&text);
        let cases = fabric.experiments[0].cases();
        let [first, second] = cases.as_slice() else { panic!("{axis} has two cases") };
        assert_ne!(
            (fabric.with(&first.overrides), &first.work),
            (fabric.with(&second.overrides), &second.work),
            "{axis}"
        );
        // What a case sets, another process can be sent.
        let json = serde_json::to_string(&first.overrides).expect("JSON");
        assert_eq!(serde_json::from_str::<fabric::Overrides>(&json).expect("the same"), first.overrides, "{axis}");
    }
}

#[test]
fn each_setting_has_a_name_of_its_own() {
    let mut axes = BTreeMap::new();
    for (axis, work, [a, b]) in AXES {
        let text = experiment(axis, work, [a, b]);
        let settings = read(&text).experiments[0].vary[0].values.clone();
        let names = settings.iter().map(|(_, setting)| name(setting));
        for name in names {
            assert_eq!(*axes.entry(name.clone()).or_insert(axis), axis, "{name}");
        }
    }
    assert_eq!(axes.len(), AXES.len());
}

/// The name of a setting in JSON.
fn name(setting: &Setting) -> String {
    let json = serde_json::to_value(setting).expect("JSON");
    let [name] = json.as_object().expect("a map").keys().map(String::as_str).collect::<Vec<_>>()[..] else {
        panic!("{json} sets one thing")
    };
    name.to_owned()
}

#[test]
fn each_key_of_links_is_there_wherever_links_are_written() {
    let schema = fabric::schema();
    let of_links = properties(&schema, "LinkText");
    for (key, property) in of_links {
        for section in ["LinkClasses", "LinkEntry"] {
            assert_eq!(properties(&schema, section).get(key), Some(property), "{key} in {section}");
        }
        assert!(properties(&schema, "Vary").contains_key(&format!("links.{key}")), "{key}");
    }
    let varied = properties(&schema, "Vary").keys().filter(|key| key.starts_with("links."));
    assert_eq!(varied.count(), of_links.len());
}

#[test]
fn each_key_of_links_is_set_shown_and_taken_away_while_a_network_runs() {
    let change = |word: &str, spec: &LinkSpec| {
        let change = LinkChange::parse(&[word.to_owned()]).unwrap_or_else(|error| panic!("{word}: {error}"));
        change.of(&(*spec, None), true).unwrap_or_else(|error| panic!("{word}: {error}")).0
    };
    let with_rate = change("rate=1Mbit", &LinkSpec::default());
    let keys: Vec<&str> = LinkChange::KEYS.iter().map(|(key, _)| *key).collect();
    let axes: Vec<&str> = AXES.iter().filter_map(|(axis, ..)| axis.strip_prefix("links.")).collect();
    assert_eq!(keys, axes);
    for (key, (_, _, [_, value])) in keys.into_iter().zip(AXES.iter().filter(|(axis, ..)| axis.starts_with("links."))) {
        // What needs more than a rate.
        let sound = if key == "reorder" { change("delay=1ms", &with_rate) } else { with_rate };
        let changed = change(&format!("{key}={value}"), &sound);
        let shown = link_keys(&changed).into_iter().find(|(shown, _)| *shown == key);
        let (_, shown) = shown.unwrap_or_else(|| panic!("{key} is not shown"));
        assert_eq!(change(&format!("{key}={shown}"), &sound), changed, "what is shown is read again");
        let before = if key == "rate" { LinkSpec::default() } else { sound };
        assert_eq!(change(&format!("{key}=none"), &changed), before, "{key}");
    }
}

#[test]
fn each_key_of_each_section_is_described() {
    let schema = fabric::schema();
    let sections = schema["definitions"].as_object().expect("definitions");
    let mut keys = 0;
    for (section, definition) in sections.iter().chain([(&"the file".to_owned(), &schema)]) {
        // A choice (`fat-tree` or `leaf-spine`) describes the choices, not the keys in them.
        for (key, property) in definition["properties"].as_object().into_iter().flatten() {
            let description = property["description"].as_str().unwrap_or_default();
            assert!(description.ends_with('.'), "{section}.{key}: {description:?}");
            keys += 1;
        }
    }
    assert!(keys > 100, "{keys} keys");
}
