//! Good files: the examples, the templates, their schema, and what is read from them.
#![allow(clippy::format_collect, clippy::format_push_string, reason = "texts of tests are short")]

use std::path::{Path, PathBuf};

use fabric::{
    Bound, DriverKind, Experiment, Fabric, LinkSetting, Metric, Pattern, Source, Template, Traffic, parse, template,
};
use link::LinkSpec;
use machine::Span;
use topology::{LinkId, NodeKind, Rerouting};
use transport::{ReceiveWindow, TransportKind};
use vswitch::Spread;

use crate::schema::violations;

fn read(text: &str) -> Fabric {
    let source = Source { name: "dir/net.fabric.yaml".to_owned(), text: text.to_owned() };
    parse(&source).unwrap_or_else(|error| panic!("{:?}", miette::Report::new(error)))
}

/// All example files, also those of the papers.
#[allow(clippy::disallowed_methods, reason = "the examples are files")]
fn examples() -> Vec<PathBuf> {
    fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).expect("the examples are there") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.to_string_lossy().ends_with(".fabric.yaml") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fabrics"), &mut found);
    found.sort();
    assert!(found.len() >= 6, "{found:?}");
    found
}

#[allow(clippy::disallowed_methods, reason = "the examples are files")]
fn text(path: &Path) -> String {
    std::fs::read_to_string(path).expect("readable")
}

/// What hosts do in an experiment.
fn traffic(experiment: &Experiment) -> &Traffic {
    experiment.work.traffic().expect("traffic")
}

#[test]
fn streams_are_read_and_varied() {
    let file = |traffic: &str, vary: &str| {
        format!(
            "topology: {{ fat-tree: {{ k: 4 }} }}\nlinks: {{ rate: 1Gbit }}\n\
             experiments: {{ a: {{ traffic: {{ pattern: permutation{traffic} }}, vary: {{ {vary} }} }} }}\n"
        )
    };
    let of = |text: &str| -> Vec<u32> {
        assert_eq!(violations(text), [""; 0]);
        let cases = read(text).experiments[0].cases();
        cases.iter().map(|case| case.work.traffic().expect("traffic").streams).collect()
    };
    assert_eq!(of(&file("", "window: [20]")), [1]);
    assert_eq!(of(&file(", streams: 128", "window: [20]")), [128]);
    assert_eq!(of(&file(", streams: 2", "streams: [1, 5, 20]")), [1, 5, 20]);
    for wrong in [0, 129] {
        let text = file(&format!(", streams: {wrong}"), "window: [20]");
        assert!(!violations(&text).is_empty(), "{wrong}");
        let source = Source { name: "net.fabric.yaml".to_owned(), text };
        let error = parse(&source).unwrap_err();
        let problem = &error.problems()[0];
        assert_eq!(
            (problem.line, format!("{} {}", problem.message, problem.hint).contains("128")),
            (3, true),
            "{problem:?}"
        );
    }
}

#[test]
fn streams_count_towards_the_most_flows() {
    let text = "topology: { fat-tree: { k: 12 } }\nlinks: { rate: 1Gbit }\n\
                experiments: { a: { traffic: { pattern: all-to-all }, vary: { streams: [1, 5] } } }\n";
    // 432 hosts: 186,192 flows, five times that are fewer than a million.
    assert_eq!(read(text).experiments[0].cases().len(), 2);
    let source = Source { name: "net.fabric.yaml".to_owned(), text: text.replace("[1, 5]", "[1, 6]") };
    let problems = parse(&source).unwrap_err();
    let first = &problems.problems()[0];
    assert_eq!(first.message, "6 streams a pair make 1117152 flows, more than 1000000");
    assert_eq!(first.line, 3);
}

#[test]
fn headers_may_count_what_ethernet_adds_on_the_wire() {
    let file = |header: &str| {
        format!(
            "topology: {{ fat-tree: {{ k: 4 }} }}\nlinks: {{ rate: 1Gbit }}\n\
             experiments: {{ a: {{ traffic: {{ pattern: permutation, segment: 1448B{header} }} }} }}\n"
        )
    };
    let bytes = |header: &str| traffic(&read(&file(header)).experiments[0]).transport.header_bytes;
    assert_eq!((bytes(""), bytes(", header: 90B")), (66, 90));
    let source = Source { name: "net.fabric.yaml".to_owned(), text: file(", header: 91B") };
    assert!(parse(&source).unwrap_err().problems()[0].message.contains("is 1539 B, more than a frame of 1538 B"));
}

#[test]
fn every_example_parses_and_meets_the_schema() {
    for path in examples() {
        let text = text(&path);
        let fabric = read(&text);
        // Clients of services are programs.
        assert!(!fabric.experiments.is_empty() || !fabric.services.is_empty(), "{}", path.display());
        assert_eq!(violations(&text), [""; 0], "{}", path.display());
    }
}

#[test]
fn every_template_parses_and_meets_the_schema() {
    for kind in Template::ALL {
        let text = template("my-net.1", kind).expect("a name");
        let fabric = read(&text);
        assert_eq!((fabric.name.as_str(), fabric.experiments[0].cases().len()), ("my-net.1", 3), "{kind}");
        assert_eq!(violations(&text), [""; 0], "{kind}");
        assert_eq!(kind.word().parse(), Ok(kind));
    }
    assert!("ring".parse::<Template>().is_err());
    // A name that YAML takes for a number is still a name.
    assert_eq!(read(&template("1e3", Template::FatTree).expect("a name")).name, "1e3");
}

/// Each kind of device, and each of them with a mistake in it.
#[test]
fn the_schema_knows_the_devices_that_the_parser_knows() {
    let is_known = |device: &str| {
        let text = format!(
            "nodes: {{ h1: host, g: {{ kind: host, devices: ['{device}'] }} }}\nlinks: [ {{ between: [h1, g] }} ]\n"
        );
        let (is_read, is_within) = (parse(&Source { name: "x".to_owned(), text: text.clone() }), violations(&text));
        assert_eq!(is_read.is_ok(), is_within.is_empty(), "{device}: {is_read:?}, {is_within:?}");
        is_read.is_ok()
    };
    assert!(["eth0", "xdp:eth0", "null:", "null:64", "pcap:in.pcap"].into_iter().all(is_known));
    assert!(!["a b", "xdp:", "xdp:a/b", "null:x", "pcap:", "vdp:eth0"].into_iter().any(is_known));
}

#[test]
fn the_schema_refuses_what_the_parser_refuses() {
    let wrong = [
        "topology: { fat-tree: { k: 4 } }\ntopologgy: 1\n",
        "topology: { fat-tree: { k: 4, radius: 1 } }\n",
        "topology: { fat-tree: { k: 5 } }\n",
        "topology: { fat-tree: { k: 66 } }\n",
        "topology: { fat-tree: {} }\n",
        "topology: { fattree: { k: 4 } }\n",
        "topology: { fat-tree: { k: 4 } }\nlinks: { rate: 1Gib }\n",
        "topology: { fat-tree: { k: 4 } }\nlinks: { delay: 50 }\n",
        "topology: { fat-tree: { k: 4 } }\nspread: flowlet\n",
        "topology: { fat-tree: { k: 4 } }\nspread:\n",
        "topology: { fat-tree: { k: 4 } }\nroutes: static\n",
        "topology: { fat-tree: { k: 4 } }\nroutes:\n",
        "topology: { fat-tree: { k: 4 } }\nname: my net\n",
        "nodes: { h1: hots }\n",
        "nodes: { h1: { ipv4: 10.0.0.7 } }\n",
        "nodes: { h1: host }\nlinks: [ { between: [h1] } ]\n",
        "topology: { fat-tree: { k: 4 } }\nexperiments: { a: { for: 1s } }\n",
        "topology: { fat-tree: { k: 4 } }\nexperiments: { a: { traffic: { pattern: stride } } }\n",
        "topology: { fat-tree: { k: 4 } }\nexperiments: { a: { traffic: { pattern: random }, report: [goodput] } }\n",
        "topology: { fat-tree: { k: 4 } }\nexperiments: { a: { traffic: { pattern: random }, expect: { goodput: \"<= 1\" } } }\n",
        "topology: { fat-tree: { k: 4 } }\nexperiments: { a: { traffic: { pattern: random }, vary: { windows: [1] } } }\n",
    ];
    for text in wrong {
        assert_ne!(violations(text), [""; 0], "{text}");
        assert!(parse(&Source { name: "x".to_owned(), text: text.to_owned() }).is_err(), "{text}");
    }
}

#[test]
fn the_schema_is_draft_7_and_describes_every_key() {
    let schema = fabric::schema();
    assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
    for (key, property) in schema["properties"].as_object().expect("properties") {
        assert!(property["description"].as_str().is_some_and(|text| !text.is_empty()), "{key}");
    }
    insta::assert_json_snapshot!(schema);
}

#[test]
fn what_is_not_given_has_its_default() {
    let fabric = read("topology: { fat-tree: { k: 4 } }\nexperiments: { a: { traffic: { pattern: random } } }\n");
    assert_eq!((fabric.name.as_str(), fabric.mtu, fabric.seed, fabric.spread), ("net", 1_500, 1, Spread::Ecmp));
    assert_eq!(fabric.rerouting, Rerouting::Follow);
    assert!(!fabric.topology.is_shaped());
    let experiment = &fabric.experiments[0];
    assert_eq!((experiment.duration, experiment.warm_up, experiment.repeat), (Span::from_secs(1), Span::ZERO, 1));
    let transport = &traffic(experiment).transport;
    assert_eq!(transport.kind, TransportKind::Linux);
    assert_eq!((transport.window, transport.initial_window, transport.duplicate_ack_threshold), (256.into(), 10, 3));
    assert_eq!((transport.segment_bytes, transport.header_bytes), (1_448, 66));
    assert_eq!((transport.delayed_ack, transport.rto_min), (Some(Span::from_ms(40)), Span::from_ms(200)));
    assert_eq!(experiment.cases().len(), 1);
}

#[test]
fn cases_are_run_so_often_or_until_their_mean_is_known() {
    let text = |repeat: &str| {
        format!(
            "topology: {{ fat-tree: {{ k: 4 }} }}\nexperiments: {{ a: {{ traffic: {{ pattern: random }}, repeat: {repeat} }} }}\n"
        )
    };
    let of = |repeat: &str| {
        assert_eq!(violations(&text(repeat)), [""; 0], "{repeat}");
        let fabric = read(&text(repeat));
        (fabric.experiments[0].repeat, fabric.experiments[0].until)
    };
    assert_eq!((of("7"), of("0x10")), ((7, None), (16, None)));
    let (most, until) = of("{ until: 5 %, at-most: 30 }");
    let until = until.expect("a bound");
    assert_eq!((most, until.at_least, until.of), (30, 5, None));
    assert!((until.share - 0.05).abs() < 1e-12);
    let (most, until) = of("{ until: 2.5%, at-most: 4, of: fairness }");
    assert_eq!((most, until.map(|until| (until.at_least, until.of))), (4, Some((4, Some(Metric::Fairness)))));
    let (_, until) = of("{ until: 5 %, at-most: 30, at-least: 10 }");
    assert_eq!(until.map(|until| until.at_least), Some(10));
    for wrong in ["0", "{ until: 5 % }", "{ at-most: 5 }", "{ until: 5 %, at-most: 1 }", "{ until: fast, at-most: 5 }"]
    {
        assert_ne!(violations(&text(wrong)), [""; 0], "{wrong}");
        assert!(parse(&Source { name: "x".to_owned(), text: text(wrong) }).is_err(), "{wrong}");
    }
}

#[test]
fn units_are_read_as_people_write_them() {
    let network = |links: &str| format!("topology: {{ fat-tree: {{ k: 4 }} }}\nmtu: 0x5dc\nlinks: {{ {links} }}\n");
    for links in ["rate: 1Gbps, delay: 50us", "rate: 1 Gb/s, delay: 50 \u{b5}s", "rate: 1000Mb, delay: 50\u{3bc}s"] {
        let fabric = read(&network(links));
        let spec = fabric.topology.links[LinkId(0)].spec;
        assert_eq!((fabric.mtu, spec.rate_bps, spec.delay), (1_500, Some(1_000_000_000), Span::from_us(50)), "{links}");
        assert_eq!(violations(&network(links)), [""; 0], "{links}");
    }
}

#[test]
fn text_of_a_file_is_shown_and_not_obeyed() {
    let text = "topology: { fat-tree: { k: 4 } }\ndescription: \"\\e[31mred\\a\"\n\
                experiments: { a: { title: \"x\\e]0;y\\x9b\", traffic: { pattern: random } } }\n";
    let fabric = read(text);
    assert_eq!(fabric.description, "\\x1b[31mred\\x07");
    assert_eq!(fabric.experiments[0].title, "x\\x1b]0;y\\x9b");
}

#[test]
fn routes_follow_the_links_or_are_fixed_and_can_be_varied() {
    for (word, rerouting) in [("follow", Rerouting::Follow), ("fixed", Rerouting::Fixed)] {
        let text = format!("topology: {{ fat-tree: {{ k: 4 }} }}\nroutes: {word}\n");
        let fabric = read(&text);
        assert_eq!((fabric.rerouting, rerouting.name()), (rerouting, word));
        assert_eq!(serde_json::to_value(&fabric).expect("JSON")["routes"], word);
        assert_eq!(violations(&text), [""; 0]);
    }
    let text = "topology: { fat-tree: { k: 4 } }\nroutes: fixed\nexperiments:\n  a:\n    traffic: { pattern: random }\n    \
                vary: { routes: [fixed, follow], window: [20] }\n";
    assert_eq!(violations(text), [""; 0]);
    let fabric = read(text);
    let cases = fabric.experiments[0].cases();
    let varied: Vec<Rerouting> = cases.iter().map(|case| fabric.with(&case.overrides).rerouting).collect();
    assert_eq!(varied, [Rerouting::Fixed, Rerouting::Follow]);
}

#[test]
fn links_of_hosts_and_switches_can_differ() {
    let fabric = read(
        "topology: { leaf-spine: { leaves: 2, spines: 1, hosts-per-leaf: 1 } }\n\
         links: { rate: 1Gbit, delay: 50us, hosts: { queue: 7 }, switches: { rate: 2.5 Gbit/s, delay: 1.5ms } }\n",
    );
    let host = fabric.topology.links[LinkId(0)].spec;
    assert_eq!((host.rate_bps, host.delay, host.queue_packets), (Some(1_000_000_000), Span::from_us(50), Some(7)));
    let switch = fabric.topology.links[LinkId(2)].spec;
    let expected = (Some(2_500_000_000), Span::from_us(1_500), Some(1_000));
    assert_eq!((switch.rate_bps, switch.delay, switch.queue_packets), expected);
    assert_eq!(
        (fabric.topology.link_name(topology::LinkId(0)), fabric.topology.link_name(topology::LinkId(2))),
        ("h1-leaf1".into(), "leaf1-spine1".into())
    );
}

#[test]
fn directions_of_a_link_can_differ() {
    let text = "nodes: { h1: host, h2: host, s1: switch }\nlink-defaults: { delay: 5ms }\n\
                links:\n  - { between: [h1, s1], rate: 1Mbit, queue: 50, back: { rate: 10Mbit, loss: 1% } }\n  - between: [h2, s1]\n";
    assert_eq!(violations(text), [""; 0]);
    let fabric = read(text);
    let topology = &fabric.topology;
    let [h1, s1] = ["h1", "s1"].map(|name| topology.node(name).expect("it is there"));
    let [up, down] = [s1, h1].map(|to| topology.spec_towards(LinkId(0), to));
    assert_eq!((up.rate_bps, up.queue_packets, up.loss_ppb), (Some(1_000_000), Some(50), 0));
    assert_eq!((down.rate_bps, down.queue_packets, down.loss_ppb), (Some(10_000_000), Some(50), 10_000_000));
    assert_eq!((up.delay, down.delay), (Span::from_ms(5), Span::from_ms(5)));
    assert_eq!(topology.links[LinkId(1)].back, None);
    // What changes a link while it runs, or in a case, changes both.
    let change = fabric::LinkChange::parse(&["delay=1ms".to_owned()]).expect("it can be read");
    let changed = fabric::ChangedLink { a: "h1".to_owned(), b: "s1".to_owned(), number: 1, change };
    let changed = fabric.with_links(&[changed]).expect("it can be read");
    let specs: Vec<_> = changed.topology.links[LinkId(0)].specs().map(|spec| (spec.rate_bps, spec.delay)).collect();
    assert_eq!(specs, [(Some(1_000_000), Span::from_ms(1)), (Some(10_000_000), Span::from_ms(1))]);
    let wrong = "nodes: { h1: host, h2: host, s1: switch }\nlinks: [{ between: [h1, s1], back: { queue: 5 } }, { between: [h2, s1] }]\n";
    let error = parse(&Source { name: "x".to_owned(), text: wrong.to_owned() }).expect_err("a queue without a rate");
    assert!(error.problems()[0].message.starts_with("a queue without a rate"), "{error}");
}

#[test]
fn the_file_of_the_paper_says_what_the_paper_says() {
    let path =
        examples().into_iter().find(|path| path.ends_with("paper/3-fabric-multipath.fabric.yaml")).expect("there");
    let fabric = read(&text(&path));
    assert_eq!((fabric.topology.hosts, fabric.topology.nodes.len()), (16, 36));
    for link in &fabric.topology.links {
        assert_eq!(link.spec.rate_bps, Some(1_000_000_000));
        assert_eq!((link.spec.delay, link.spec.queue_packets), (Span::from_us(50), Some(250)));
    }
    let stride = &fabric.experiments[0];
    assert_eq!(traffic(stride).transport.kind, TransportKind::Reno);
    let transport = &traffic(stride).transport;
    assert_eq!((transport.segment_bytes, transport.header_bytes, transport.initial_window), (1_000, 40, 2));
    assert_eq!(transport.delayed_ack, None);
    let cases = stride.cases();
    assert_eq!(cases.len(), 16);
    let claim = &stride.expect[0];
    assert_eq!((claim.metric, claim.driver), (Metric::GoodputMean, Some(DriverKind::Sim)));
    let Bound::Within { of, by } = claim.bound else { panic!("{claim:?}") };
    assert!((of - 245.5e6).abs() < 1.0 && (by - 2.455e6).abs() < 1.0);
    let matching: Vec<_> =
        cases.iter().filter(|case| claim.only.iter().all(|label| case.labels.contains(label))).collect();
    let [case] = matching.as_slice() else { panic!("one case is meant") };
    assert_eq!(case.work.traffic().expect("traffic").pattern, Pattern::Stride(8));
    assert_eq!(
        (case.work.traffic().expect("traffic").transport.window, case.overrides.spread(&fabric)),
        (20.into(), Spread::PacketScatter)
    );
}

#[test]
fn cases_are_the_cross_product_with_the_first_axis_slowest() {
    let fabric = read(
        "topology: { fat-tree: { k: 4 } }\nlinks: { rate: 1Gbit, queue: 9 }\nexperiments:\n  a:\n    traffic: { pattern: random }\n    \
         vary: { links.queue: [5, 6], transport: [reno, sack], links.delay: [1ms], links.rate: [2Gbit] }\n",
    );
    let cases = fabric.experiments[0].cases();
    let labels: Vec<String> = cases
        .iter()
        .map(|case| case.labels.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(labels, ["5 reno 1ms 2Gbit", "5 sack 1ms 2Gbit", "6 reno 1ms 2Gbit", "6 sack 1ms 2Gbit"]);
    assert_eq!(cases[3].work.traffic().expect("traffic").transport.kind, TransportKind::Sack);
    let changed = fabric.with(&cases[3].overrides);
    for link in &changed.topology.links {
        assert_eq!(link.spec.queue_packets, Some(6));
        assert_eq!((link.spec.rate_bps, link.spec.delay), (Some(2_000_000_000), Span::from_ms(1)));
    }
    assert_eq!(fabric.with(&fabric::Overrides::default()), fabric);
}

#[test]
fn overrides_leave_links_without_a_rate_alone() {
    let fabric = read(
        "topology: { leaf-spine: { leaves: 2, spines: 1, hosts-per-leaf: 1 } }\nlinks: { switches: { rate: 1Gbit } }\n",
    );
    let overrides = fabric::Overrides::from([LinkSetting::Rate(7), LinkSetting::Queue(3), LinkSetting::Overhead(24)]);
    let changed = fabric.with(&overrides);
    let overhead = LinkSpec { overhead_bytes: 24, ..LinkSpec::UNSHAPED };
    assert_eq!(
        [0, 2].map(|link| changed.topology.links[LinkId(link)].spec),
        [LinkSpec::default(), LinkSpec { rate_bps: Some(7), queue_packets: Some(3), ..overhead }]
    );
}

#[test]
fn addresses_can_be_set_and_swapped() {
    let fabric = read(
        "topology: { fat-tree: { k: 2 } }\nhosts:\n  h1: { ipv4: 10.1.0.2, mac: \"02:00:0A:01:00:02\" }\n  h2: { ipv4: 10.0.0.2, mac: \"02:00:0a:00:00:02\" }\n",
    );
    let h1 = fabric.topology.address(fabric.topology.node("h1").expect("there")).expect("a host");
    assert_eq!((h1.ipv4.to_string(), h1.mac), ("10.1.0.2".to_owned(), [2, 0, 10, 1, 0, 2]));
    assert!(fabric.topology.address(fabric.topology.node("c1").expect("there")).is_none());
    assert!(fabric.topology.node("h3").is_none());
}

#[test]
fn addresses_are_unique_in_the_largest_networks() {
    let networks = [
        "topology: { fat-tree: { k: 64 } }".to_owned(),
        "topology: { leaf-spine: { leaves: 4096, spines: 1, hosts-per-leaf: 46 } }".to_owned(),
        "topology: { leaf-spine: { leaves: 760, spines: 1, hosts-per-leaf: 250 } }".to_owned(),
        {
            let hosts: String = (0..4_000).map(|i| format!("h{i}: host\n  ")).collect();
            let links: String = (0..4_000).map(|i| format!("  - {{ between: [h{i}, s] }}\n")).collect();
            format!("nodes:\n  {hosts}s: switch\nlinks:\n{links}")
        },
    ];
    for text in networks {
        let fabric = read(&text);
        let mut seen = std::collections::BTreeSet::new();
        for (_, node) in fabric.topology.hosts() {
            let NodeKind::Host(address) = &node.kind else { panic!("hosts come first") };
            assert!(seen.insert(address.mac.to_vec()), "{address:?}");
            assert!(seen.insert(address.ipv4.octets().to_vec()), "{address:?}");
            assert!(seen.insert(address.ipv6.octets().to_vec()), "{address:?}");
            assert_eq!((address.mac[0], address.ipv4_prefix, address.ipv6_prefix), (2, 8, 64));
            assert_eq!((address.ipv4.octets()[0], address.ipv6.segments()[0]), (10, 0xfd68));
        }
        assert_eq!(seen.len(), 3 * fabric.topology.hosts as usize);
    }
}

#[test]
fn anchors_and_merges_are_followed() {
    let fabric = read(
        "topology: { fat-tree: { k: 4 } }\nexperiments:\n  a:\n    traffic: &t { pattern: random, window: 20 }\n  b:\n    traffic: { <<: *t, window: 30 }\n  \
         c:\n    traffic: *t\n",
    );
    let windows: Vec<_> = fabric.experiments.iter().map(|e| traffic(e).transport.window).collect();
    assert_eq!(windows, [20, 30, 20].map(ReceiveWindow::Segments));
}

#[test]
fn one_claim_needs_no_list() {
    let text = "topology: { fat-tree: { k: 4 } }\nexperiments:\n  a:\n    traffic: { pattern: random }\n    expect:\n      \
                drops: { where: { driver: live }, is: \"<= 0\" }\n";
    let claim = &read(text).experiments[0].expect[0];
    assert_eq!((claim.driver, claim.bound, claim.line), (Some(DriverKind::Live), Bound::AtMost(0.0), 6));
    assert_eq!(violations(text), [""; 0]);
}

#[test]
fn pictures_have_every_tier_spread_from_left_to_right() {
    let fabric = read("topology: { leaf-spine: { leaves: 2, spines: 1, hosts-per-leaf: 2 } }\n");
    let places: Vec<u16> = fabric.topology.nodes.iter().map(|node| node.x_permille).collect();
    assert_eq!(places, [125, 375, 625, 875, 250, 750, 500]);
}
