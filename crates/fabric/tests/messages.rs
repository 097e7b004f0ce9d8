//! Every message that a wrong file can draw, as the user sees it (without colours).
#![allow(clippy::format_collect, clippy::format_push_string, reason = "texts of tests are short")]

use fabric::{Source, parse};
use miette::{GraphicalReportHandler, GraphicalTheme};

/// The messages that a file draws.
fn messages(text: &str) -> String {
    let source = Source { name: "net.fabric.yaml".to_owned(), text: text.to_owned() };
    let error = parse(&source).expect_err("the file is wrong");
    assert!(!error.problems().is_empty());
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor()).with_width(120);
    let mut out = String::new();
    handler.render_report(&mut out, &error).expect("writing to a string");
    // Trailing blanks are of no use to anybody, and editors remove them from snapshots.
    out.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The messages of several files, each under its title.
fn all(files: &[(&str, &str)]) -> String {
    files.iter().map(|(title, text)| format!("######## {title}\n{}\n", messages(text))).collect()
}

/// A sound network for files that are wrong elsewhere.
fn with_network(rest: &str) -> String {
    format!("topology: {{ leaf-spine: {{ leaves: 2, spines: 2, hosts-per-leaf: 2 }} }}\n{rest}")
}

/// The messages about experiments on a sound network.
fn all_with_network(files: &[(&str, &str)]) -> String {
    files.iter().map(|(title, text)| format!("######## {title}\n{}\n", messages(&with_network(text)))).collect()
}

#[test]
fn yaml() {
    insta::assert_snapshot!(all(&[
        ("empty", ""),
        ("not a map", "- fat-tree"),
        ("a tab", "topology:\n\tfat-tree: { k: 4 }\n"),
        ("a tab for a space", "links: {\trate:\t1Gbit }\nnodes:\n  -\th1\n"),
        ("an open bracket", "topology: { fat-tree: { k: 4 }\nlinks: { rate: 1Gbit }\n"),
        ("an open bracket of a list", "nodes: [a, b\nlinks: 4\n"),
        ("an open bracket at the end", "topology: {\n"),
        ("the wrong bracket", "topology: { fat-tree: { k: 4 ]\n"),
        ("a bracket too many", "name: x\n}\n"),
        ("a missing comma", "links: { rate: 1Gbit \"x\" }\n"),
        ("indented too deep", "topology:\n  fat-tree: { k: 4 }\n   seed: 3\n"),
        ("indented as nothing above", "experiments:\n a:\n   traffic: { pattern: random }\n  for: 1s\n"),
        ("a map below a value", "topology: 3\n  x: 1\n"),
        ("no space after a colon", "name:abc\ntopology: 1\n"),
        ("two colons", "description: a: b\n"),
        ("an item in a map", "name: x\n- a\n"),
        ("a map after a list", "- a\nname: x\n"),
        ("no colon", "name: x\ntopology\nseed: 4\n"),
        ("an open quote", "name: \"abc\nlinks: { rate: 1Gbit }\n"),
        ("an open single quote", "name: 'it''s\n"),
        ("text after quotes", "name: \"a\" b\n"),
        ("an escape", "description: \"a \\q b\"\n"),
        ("an unquoted sign", "name: @x\n"),
        ("an anchor and an alias", "name: &a *a\n"),
        ("a key twice", "topology: { fat-tree: { k: 4 } }\nspread: ecmp\nspread: single\n"),
        ("a key twice in a line", "links: { rate: 1Gbit, rate: 2Gbit }\n"),
        ("a name twice", "nodes:\n  h1: host\n  s1: switch\n  h1: host\n"),
        ("two documents", "name: a\n---\nname: b\n"),
        ("an unknown anchor", "topology: { fat-tree: *tree }\n"),
        ("a tag", "name: !secret x\n"),
        ("nested too deeply", &format!("name: {}{}\n", "[".repeat(40), "]".repeat(40))),
    ]));
}

#[test]
fn devices() {
    let network = |node: &str, links: &str| {
        format!("nodes: {{ h1: host, {node}, s1: switch }}\nlinks:\n  - between: [h1, s1]\n{links}")
    };
    let one = "  - between: [g, s1]\n";
    insta::assert_snapshot!(all(&[
        ("of a switch", &network("s2: { kind: switch, devices: [tap0] }", "  - between: [s2, s1]\n")),
        ("too few", &network("g: { kind: host, devices: [] }", one)),
        ("too many", &network("g: { kind: host, devices: [tap0, tap1] }", one)),
        (
            "twice",
            &network(
                "g: { kind: host, devices: [tap0] }, g2: { kind: host, devices: [tap0] }",
                &format!("{one}  - between: [g2, s1]\n")
            )
        ),
        ("no bond", &network("g: { kind: host, devices: [tap0, tap1] }", &format!("{one}{one}"))),
        ("no name of one", &network("g: { kind: host, devices: [\"a/b\"] }", one)),
        ("a short null device", &network("g: { kind: host, devices: [\"null:7\"] }", one)),
        ("a capture of no file", &network("g: { kind: host, devices: [\"pcap:speed=max\"] }", one)),
        ("an option that captures don't have", &network("g: { kind: host, devices: [\"pcap:in.pcap,loop=2\"] }", one)),
        (
            "a capture that is written twice",
            &network(
                "g: { kind: host, devices: [\"pcap:tx=a.pcap\"] }, g2: { kind: host, devices: [\"pcap:rx=b.pcap,tx=a.pcap\"] }",
                &format!("{one}  - between: [g2, s1]\n")
            )
        ),
        ("not a list", &network("g: { kind: host, devices: tap0 }", one)),
    ]));
}

#[test]
fn a_bomb_of_aliases() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..10 {
        let item = format!("*a{}", i - 1);
        text += &format!("a{i}: &a{i} [{}]\n", [item.as_str(); 10].join(", "));
    }
    insta::assert_snapshot!(messages(&text));
}

#[test]
fn a_text_that_is_too_long() {
    let text = format!("name: x\n{}", "# nothing\n".repeat(110_000));
    let source = Source { name: "net.fabric.yaml".to_owned(), text };
    let error = parse(&source).expect_err("too long");
    insta::assert_snapshot!(error.problems()[0], @"the file has 1100008 bytes, more than 1048576");
}

#[test]
fn a_line_that_is_too_long() {
    insta::assert_snapshot!(messages(&format!("name: x\ndescription: {}\n", "µ".repeat(100_000))));
}

#[test]
fn more_problems_than_anyone_reads() {
    let text: String = (0..200).map(|i| format!("what{i}: x\n")).collect();
    let source = Source { name: "net.fabric.yaml".to_owned(), text };
    let error = parse(&source).expect_err("unknown keys");
    insta::assert_snapshot!(error, @"net.fabric.yaml has 201 problems; the first 50:");
    assert_eq!(error.problems().len(), 50);
}

#[test]
fn keys_and_names() {
    insta::assert_snapshot!(all(&[
        ("no network", "name: x\n"),
        ("an unknown key, nearly known", "topologgy: { fat-tree: { k: 4 } }\n"),
        ("an unknown key, far from all", "topology: { fat-tree: { k: 4, radius: 4 } }\n"),
        ("a key without value", "topology:\nname: x\n"),
        ("a bad name", "name: my net\ntopology: { fat-tree: { k: 4 } }\n"),
        ("a name that is a list", "name: [x]\ntopology: { fat-tree: { k: 4 } }\n"),
        ("experiments that are a list", "topology: { fat-tree: { k: 4 } }\nexperiments: [a]\n"),
        ("a description that is a map", "description: { a: b }\ntopology: { fat-tree: { k: 4 } }\n"),
        (
            "a description that is too long",
            &format!("topology: {{ fat-tree: {{ k: 4 }} }}\ndescription: >\n{}", "  word word word\n".repeat(200)),
        ),
        ("mtu and seed out of range", "topology: { fat-tree: { k: 4 } }\nmtu: 576\nseed: -1\n"),
        (
            "numbers beyond 64 bits",
            "topology: { fat-tree: { k: 99999999999999999999 } }\nseed: 99_999_999_999_999_999_999\n",
        ),
        ("an unknown spread", "topology: { fat-tree: { k: 4 } }\nspread: packet_scater\n"),
        ("a spread that is a list", "topology: { fat-tree: { k: 4 } }\nspread: [ecmp]\n"),
        ("unknown routes", "topology: { fat-tree: { k: 4 } }\nroutes: fixd\n"),
        ("routes that are a list", "topology: { fat-tree: { k: 4 } }\nroutes: [fixed]\n"),
        (
            "all at once",
            "name: x\ntopologgy: 3\ntopology: { fat-tree: { k: 5 } }\nlinks: { rate: 1Gib }\nspread: flowlet\n\
             experiments: { a: { traffic: { pattern: strid(1) }, for: 0s } }\n",
        ),
    ]));
}

#[test]
fn quantities() {
    let link = |text: &str| format!("topology: {{ fat-tree: {{ k: 4 }} }}\nlinks: {{ {text} }}\n");
    let files: Vec<(&str, String)> = [
        ("rate: fast", "a rate that is no number"),
        ("rate: 1Gib", "a rate with an unknown unit"),
        ("rate: 125 MB/s", "a rate in bytes"),
        ("rate: 10G", "a rate of half a unit"),
        ("delay: 5 msec", "a delay with another's unit"),
        ("rate: 1000", "a rate without a unit"),
        ("rate: 0Mbit", "a rate of zero"),
        ("rate: 101Tbit", "a rate beyond the fastest"),
        ("rate: 0.5bit", "a rate that is too fine"),
        ("rate: [1Gbit]", "a rate that is a list"),
        ("delay: 50", "a delay without a unit"),
        ("delay: 1h", "a delay with an unknown unit"),
        ("delay: 11s", "a delay that is too long"),
        ("rate: 1Gbit, queue: 0", "a queue of zero"),
        ("rate: 1Gbit, queue: 2000000", "a queue that is too long"),
        ("rate: 1Gbit, queue: 1.5", "a queue that is no whole number"),
        ("queue: 10", "a queue without a rate"),
        ("rate: 1Gbit, hosts: { quue: 3 }", "an unknown key of a class"),
        ("hosts: { rate: 1Gbit }, switches: { queue: 10 }", "a queue without a rate in one class"),
    ]
    .map(|(text, title)| (title, link(text)))
    .into();
    let files: Vec<(&str, &str)> = files.iter().map(|(title, text)| (*title, text.as_str())).collect();
    insta::assert_snapshot!(all(&files));
}

#[test]
fn topologies() {
    insta::assert_snapshot!(all(&[
        ("k odd", "topology: { fat-tree: { k: 5 } }\n"),
        ("k too small", "topology: { fat-tree: { k: 0 } }\n"),
        ("k too large", "topology: { fat-tree: { k: 66 } }\n"),
        ("k missing", "topology: { fat-tree: {} }\n"),
        ("k not a number", "topology: { fat-tree: { k: four } }\n"),
        ("an unknown topology", "topology: { fattree: { k: 4 } }\n"),
        ("no topology in it", "topology: fat-tree\n"),
        (
            "two topologies",
            "topology: { fat-tree: { k: 4 }, leaf-spine: { leaves: 1, spines: 1, hosts-per-leaf: 1 } }\n"
        ),
        ("too many leaves, no spines", "topology: { leaf-spine: { leaves: 5000, spines: 0, hosts-per-leaf: 1 } }\n"),
        ("too many hosts", "topology: { leaf-spine: { leaves: 4096, spines: 4, hosts-per-leaf: 200 } }\n"),
        ("a BCube with too many ports", "topology: { bcube: { n: 65, k: 10 } }\n"),
        ("a BCube that is too large", "topology: { bcube: { n: 64, k: 3 } }\n"),
        ("a BCube's switches", "topology: { bcube: { n: 4, k: 1 } }\nlinks: { switches: { rate: 1Gbit } }\n"),
        ("both forms", "topology: { fat-tree: { k: 4 } }\nnodes: { h1: host }\n"),
        (
            "keys of the other form",
            "topology: { fat-tree: { k: 4 } }\nlink-defaults: { rate: 1Gbit }\nlinks:\n  - between: [h1, e1]\n",
        ),
        (
            "keys of the other form, the other way round",
            "nodes: { h1: host, s1: switch }\nhosts: { h1: { ipv4: 10.0.0.9 } }\nlinks: { rate: 1Gbit }\n",
        ),
    ]));
}

#[test]
fn nodes_and_links() {
    insta::assert_snapshot!(all(&[
        ("a link to nowhere, nearly a node", "nodes: { h1: host, leaf: switch }\nlinks: [ { between: [h1, laef] } ]\n"),
        ("a link to nowhere", "nodes: { h1: host, leaf: switch }\nlinks: [ { between: [h1, spine] } ]\n"),
        (
            "a link to itself",
            "nodes: { h1: host, s1: switch }\nlinks: [ { between: [h1, s1] }, { between: [s1, s1] } ]\n"
        ),
        ("a link with one end", "nodes: { h1: host, s1: switch }\nlinks: [ { between: [h1] } ]\n"),
        ("a link without ends", "nodes: { h1: host, s1: switch }\nlinks: [ { rate: 1Gbit } ]\n"),
        ("no links", "nodes: { h1: host, s1: switch }\n"),
        (
            "nothing to forward",
            "nodes: { h1: { kind: host, forward: true }, s1: { kind: switch, forward: true } }\nlinks: [ { between: [h1, s1] } ]\n",
        ),
        (
            "two parts, and a host at both that does not forward",
            "nodes: { h1: host, h2: host, h3: host, s1: switch, s2: switch }\nlinks: [ { between: [h1, s1] }, { between: [h2, s1] }, { between: [h2, s2] }, { between: [h3, s2] } ]\n",
        ),
        (
            "a network that falls apart",
            "nodes: { h1: host, h2: host, s1: switch, s2: switch }\nlinks: [ { between: [h1, s1] }, { between: [h2, s2] } ]\n",
        ),
        ("a switch on its own", "nodes: { h1: host, s1: switch, s2: switch }\nlinks: [ { between: [h1, s1] } ]\n",),
        ("no host", "nodes: { s1: switch, s2: switch }\nlinks: [ { between: [s1, s2] } ]\n"),
        ("an unknown kind", "nodes: { h1: hots }\n"),
        ("a node without kind", "nodes: { h1: { ipv4: 10.0.0.7 } }\n"),
        ("a node that is nothing", "nodes:\n  h1:\n"),
        (
            "what the kind of node doesn't have",
            "nodes: { h1: { kind: host, tier: 1 }, s1: { kind: switch, ipv4: 10.0.0.7 } }\nlinks: [ { between: [h1, s1] } ]\n",
        ),
        (
            "a queue without a rate",
            "nodes: { h1: host, s1: switch }\nlink-defaults: { queue: 10 }\nlinks: [ { between: [h1, s1], queue: 7 } ]\n",
        ),
    ]));
}

#[test]
fn a_new_file_with_a_bad_name() {
    let error = fabric::template("x\nseed: 4", fabric::Template::Explicit).expect_err("not a name");
    insta::assert_snapshot!(error.problems()[0], @"`x` can't be a name");
}

#[test]
fn bounds_of_networks() {
    let switches: String = (0..8_001).map(|i| format!("  s{i}: switch\n")).collect();
    let links: String = "  - between: [s0, s1]\n".repeat(5_000);
    let hosts: String = (0..8_000).map(|i| format!("  h{i}: host\n")).collect();
    let homes: String = (0..8_000).map(|i| format!("  - between: [h{i}, h{}]\n", (i + 1) % 8_000)).collect();
    let homes = format!("{homes}  - between: [h0, s0]\n");
    let files = [
        ("too many switches", format!("nodes:\n  h1: host\n{switches}")),
        ("too many ports", format!("nodes:\n  h1: host\n  s0: switch\n  s1: switch\nlinks:\n{links}")),
        ("too many hosts with several links", format!("nodes:\n  s0: switch\n{hosts}links:\n{homes}")),
    ];
    for (title, text) in files {
        let source = Source { name: "net.fabric.yaml".to_owned(), text };
        let error = parse(&source).expect_err("beyond a bound");
        insta::assert_snapshot!(title.replace(' ', "_"), &error.problems()[0]);
    }
}

#[test]
fn addresses() {
    let hosts = |text: &str| {
        format!("topology: {{ leaf-spine: {{ leaves: 2, spines: 2, hosts-per-leaf: 2 }} }}\nhosts:\n  {text}\n")
    };
    let files: Vec<(&str, String)> = [
        ("h1: { ipv4: 10.0.0.256 }", "not an IPv4 address"),
        ("h1: { ipv6: fd68::g }", "not an IPv6 address"),
        ("h1: { mac: 02:00:00:00:01 }", "not a MAC address"),
        ("h1: { ipv4: 192.168.0.1 }", "an IPv4 address elsewhere"),
        ("h1: { ipv4: 10.255.255.255 }", "the broadcast address"),
        ("h1: { ipv6: \"fd00::1\" }", "an IPv6 address elsewhere"),
        ("h1: { mac: \"01:00:5e:00:00:01\" }", "a group's MAC address"),
        ("h1: { ipv4: 10.0.1.2 }", "the address of another's position"),
        ("h1: { ipv4: 10.9.9.9 }\n  h2: { ipv4: 10.9.9.9 }", "one address for two"),
        ("h1: { mac: \"02:00:00:00:00:07\" }\n  h2: { mac: \"02:00:00:00:00:07\" }", "one MAC address for two"),
        ("h1: { ipv6: \"fd68:6564:646c::7\" }\n  h2: { ipv6: \"fd68:6564:646c:0::7\" }", "one IPv6 address for two"),
        ("h11: { ipv4: 10.9.9.9 }", "a host that doesn't exist"),
        ("leaf1: { ipv4: 10.9.9.9 }", "a switch among the hosts"),
    ]
    .map(|(text, title)| (title, hosts(text)))
    .into();
    let files: Vec<(&str, &str)> = files.iter().map(|(title, text)| (*title, text.as_str())).collect();
    insta::assert_snapshot!(all(&files));
}

#[test]
fn traffic() {
    let files: Vec<(&str, String)> = [
        ("pattern: strid(2)", "an unknown pattern"),
        ("pattern: stride", "a pattern without its argument"),
        ("pattern: random(3)", "a pattern with an argument that it doesn't take"),
        ("pattern: \"staggered(0.5)\"", "half of the arguments"),
        ("pattern: incast()", "an empty argument"),
        ("pattern: pairs", "pairs without pairs"),
        ("pattern: stride(0)", "a stride of zero"),
        ("pattern: stride(4)", "a stride beyond the hosts"),
        ("pattern: incast(4)", "an incast of more than the others"),
        ("pattern: stride(two)", "a stride that is no number"),
        ("pattern: staggered(0.5, 0.3)", "a comma between braces"),
        ("pattern: \"staggered(0.5, 0.6)\"", "probabilities above one"),
        ("pattern: \"staggered(-1, 0.6)\"", "a negative probability"),
        ("pattern: [random]", "a list of patterns"),
        ("pattern: { pairs: [] }", "no pairs"),
        ("pattern: { pairs: [[h1, h9]] }", "a pair with a host that doesn't exist"),
        ("pattern: { pairs: [[h1, leaf1]] }", "a pair with a switch"),
        ("pattern: { pairs: [[h1, h1]] }", "a pair of one host"),
        ("pattern: { pairs: [[h1, h2, h3]] }", "a pair of three"),
        ("window: 10", "no pattern"),
        ("pattern: random, transport: cubic", "an unknown transport"),
        ("pattern: random, transport: sack, congestion-control: cubic", "a congestion control without Linux's TCP"),
        ("pattern: random, transport: udp, congestion-control: cubic", "a congestion control without TCP"),
        ("pattern: random, transport: linux, congestion-control: vegas", "an unknown congestion control"),
        ("pattern: random, transport: sack, sysctl: { tcp_dsack: 0 }", "a sysctl without Linux's TCP"),
        ("pattern: random, transport: linux, sysctl: { tcp_recovery: 0 }", "an unknown sysctl"),
        ("pattern: random, transport: linux, sysctl: { net.ipv4.tcp_dsak: 0 }", "a slip in a sysctl"),
        (
            "pattern: random, transport: linux, sysctl: { tcp_congestion_control: reno }",
            "a sysctl with a key of its own",
        ),
        ("pattern: random, transport: linux, sysctl: { tcp_early_retrans: 5 }", "a sysctl beyond its range"),
        ("pattern: random, transport: linux, sysctl: { tcp_reordering: 0 }", "a sysctl below its range"),
        ("pattern: random, transport: linux, sysctl: { tcp_dsack: off }", "a sysctl that is no number"),
        ("pattern: random, transport: linux, sysctl: {}", "no sysctl"),
        ("pattern: random, transport: linux, sysctl: [tcp_dsack]", "sysctls without values"),
        (
            "pattern: random, transport: linux, sysctl: { tcp_reordering: 4 }, duplicate-ack-threshold: 4",
            "a sysctl and another name of it",
        ),
        ("pattern: random, transport: linux, sysctl: { tcp_reordering: 301 }", "a sysctl beyond another one"),
        ("pattern: random, window: 0", "a window of zero"),
        ("pattern: random, window: automatic", "a window that is neither a number nor auto"),
        ("pattern: random, transport: sack, window: auto", "a window that finds itself without Linux's TCP"),
        ("pattern: random, delayed-ack: 1s", "a delayed ACK beyond RFC 1122"),
        ("pattern: random, delayed-ack: 0s", "a delayed ACK of zero"),
        ("pattern: random, segment: 1460B", "a segment that doesn't fit the MTU"),
        ("pattern: random, segment: big", "a segment that is no size"),
        ("pattern: random, rto-min: 0", "a timeout of zero"),
    ]
    .map(|(text, title)| (title, format!("experiments:\n  one:\n    traffic: {{ {text} }}\n")))
    .into();
    let files: Vec<(&str, &str)> = files.iter().map(|(title, text)| (*title, text.as_str())).collect();
    insta::assert_snapshot!(all_with_network(&files));
}

#[test]
fn traffic_among_too_few_or_too_many() {
    let few = "nodes: { h1: host, s1: switch }\nlinks: [ { between: [h1, s1] } ]\nexperiments: { a: { traffic: { pattern: random } } }\n";
    let many = "topology: { fat-tree: { k: 16 } }\nexperiments: { a: { traffic: { pattern: all-to-all } } }\n";
    insta::assert_snapshot!(all(&[("one host", few), ("too many for all-to-all", many)]));
}

#[test]
fn experiments() {
    let files: Vec<(&str, String)> = [
        ("for: 0s", "measured for no time"),
        ("for: 2000min", "measured for too long"),
        ("warm-up: 61min", "a warm-up that is too long"),
        ("repeat: 0", "no runs"),
        ("repeat: 1001", "too many runs"),
        ("repeat: [3]", "runs that are a list"),
        ("repeat: { until: 5 % }", "runs without a bound"),
        ("repeat: { until: 0 %, at-most: 30 }", "an interval of nothing"),
        ("repeat: { until: 5, at-most: 30 }", "a share without its sign"),
        ("repeat: { until: 5 %, at-most: 10, at-least: 20 }", "more runs at least than at most"),
        ("repeat: { until: 5 %, at-most: 30, of: create-mean }", "an interval of what is not measured"),
        ("fro: 1s", "an unknown key"),
        ("vary: { window: [] }", "an axis without values"),
        ("vary: { window: 20 }", "an axis that is no list"),
        ("vary: { window: [20, 20] }", "a value twice"),
        ("vary: { windows: [20] }", "an unknown axis"),
        ("vary: { spread: [single, double] }", "an unknown value"),
        ("vary: { links.rate: [1Gbit] }", "a rate for links without"),
        ("vary: { pattern: [stride(1), stride(9)] }", "a stride beyond the hosts"),
        ("report: [goodput]", "an unknown metric to report"),
        ("report: [drops, retransmits, drops]", "a metric twice"),
    ]
    .map(|(text, title)| (title, format!("experiments:\n  one:\n    traffic: {{ pattern: random }}\n    {text}\n")))
    .into();
    let files: Vec<(&str, &str)> = files.iter().map(|(title, text)| (*title, text.as_str())).collect();
    insta::assert_snapshot!(all_with_network(&files));
}

#[test]
fn bounds_of_experiments() {
    let range = |n: usize| (1..=n).map(|i| i.to_string()).collect::<Vec<_>>().join(", ");
    let vary = format!("{{ window: [{}], initial-window: [{}] }}", range(200), range(100));
    let pairs = vec!["[h1, h2]"; 5_000].join(",\n  ");
    let many = (0..201).map(|i| format!("  e{i}: {{ traffic: {{ pattern: random }} }}\n")).collect::<String>();
    let files = [
        ("too_many_cases", format!("experiments: {{ a: {{ traffic: {{ pattern: random }}, vary: {vary} }} }}\n")),
        (
            "too_many_pairs_in_all_cases",
            format!(
                "experiments: {{ a: {{ traffic: {{ pattern: {{ pairs: [{pairs}] }} }}, vary: {{ window: [{}] }} }} }}\n",
                range(2_001)
            ),
        ),
        (
            "too_many_pairs",
            format!(
                "experiments: {{ a: {{ traffic: {{ pattern: {{ pairs: [{}] }} }} }} }}\n",
                vec!["[h1,h2]"; 50_001].join(",\n ")
            ),
        ),
        ("too_many_values", format!("experiments: [{}]\n", vec!["1"; 300_000].join(",\n"))),
        ("too_many_experiments", format!("experiments:\n{many}")),
    ];
    for (title, text) in files {
        let source = Source { name: "net.fabric.yaml".to_owned(), text: with_network(&text) };
        let error = parse(&source).expect_err("beyond a bound");
        insta::assert_snapshot!(title, &error.problems()[0]);
    }
}

#[test]
fn claims_need_quotes() {
    let claim = |text: &str| format!("experiments:\n  one:\n    traffic: {{ pattern: random }}\n    {text}\n");
    let files = [
        ("in a line", claim("expect:\n      goodput-mean: >= 1 Mbit/s")),
        ("between brackets", claim("expect: { goodput-mean: >= 1 Mbit/s, drops: <= 0 }")),
        ("more than", claim("expect:\n      goodput-mean: > 1 Mbit/s # a lot")),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(title, text)| (*title, text.as_str())).collect();
    insta::assert_snapshot!(all_with_network(&files));
}

#[test]
fn names_that_reach_somebody_else() {
    let network =
        |nodes: &str, host: &str| format!("nodes: {{ {nodes}, s1: switch }}\nlinks: [ {{ between: [{host}, s1] }} ]\n");
    let files = [
        ("localhost", network("LocalHost: host", "LocalHost")),
        ("an address", network("10.0.0.1: host", "10.0.0.1")),
        ("an address in hexadecimal", network("0x7f000001: host", "0x7f000001")),
        ("a number", network("127: host", "127")),
        ("an IPv6 address", network("\"fe80::1\": host", "\"fe80::1\"")),
        ("another case", network("h1: host, H1: switch", "h1")),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(title, text)| (*title, text.as_str())).collect();
    insta::assert_snapshot!(all(&files));
}

#[test]
fn control_characters_are_written_out() {
    let shown = messages("topology: { fat-tree: { k: 4 } }\nspread: \"\u{1b}[31mred\u{7}\"\n\u{9b}x: 1\n");
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
    insta::assert_snapshot!(shown);
}

#[test]
fn long_lines_are_cut_around_what_is_wrong() {
    let many: Vec<String> = (1..=300).map(|i| format!("h{i}: host")).collect();
    let nodes = format!("nodes: {{ {}, x: hots, {} }}\n", many[..150].join(", "), many[150..].join(", "));
    insta::assert_snapshot!(messages(&nodes));
}

#[test]
fn expectations() {
    let files: Vec<(&str, String)> = [
        ("goodput: \">= 1 Gbit/s\"", "an unknown metric"),
        ("goodput-mean: \"> 1 Gbit/s\"", "an unknown comparison"),
        ("goodput-mean: \">= 1\"", "a rate without a unit"),
        ("fairness: \">= high\"", "a fraction that is no number"),
        ("drops: \"0\"", "a count without comparison"),
        ("drops: [ { where: { windw: 20 }, is: \"<= 0\" } ]", "an axis that isn't varied"),
        ("drops: [ { where: { window: 30 }, is: \"<= 0\" } ]", "a value that isn't among the axis's"),
        ("drops: [ { where: { driver: simulated }, is: \"<= 0\" } ]", "an unknown driver"),
        ("drops: [ { where: { window: 20 } } ]", "a claim that claims nothing"),
        ("drops: [ \"<= 0\" ]", "a list of bare claims"),
    ]
    .map(|(text, title)| {
        let experiment = "traffic: { pattern: random }\n    vary: { window: [20, 100] }";
        (title, format!("experiments:\n  one:\n    {experiment}\n    expect:\n      {text}\n"))
    })
    .into();
    let files: Vec<(&str, &str)> = files.iter().map(|(title, text)| (*title, text.as_str())).collect();
    insta::assert_snapshot!(all_with_network(&files));
}
