use crate::import::import;
use crate::parse;
use crate::source::Source;

/// The links and hosts of the file that is made of a graph, and what is said.
fn imported(kind: &str, inside: &str) -> (Vec<String>, String) {
    let names = ["bw", "bandwidth", "delay", "latency", "loss", "ip", "mac", "type", "weight", "color", "LinkLabel"];
    let keys: Vec<String> = names.iter().map(|name| format!("<key id=\"{name}\" attr.name=\"{name}\"/>")).collect();
    let keys = keys.concat();
    let text = format!("<graphml>{keys}<graph edgedefault=\"{kind}\">\n{inside}</graph></graphml>");
    let made = import(&Source { name: "x.graphml".to_owned(), text }).unwrap();
    let file = Source { name: "made".to_owned(), text: made.text.clone() };
    parse(&file).unwrap_or_else(|error| panic!("{}\n{error:?}", made.text));
    let lines = made.text.lines().filter(|line| line.contains("between") || line.contains("kind: host"));
    let notes: Vec<String> = made.notes.iter().map(|note| format!("{}: {}", note.kind.words(), note.message)).collect();
    (lines.map(|line| line.trim().to_owned()).collect(), notes.join("\n"))
}

fn data(all: &[(&str, &str)]) -> String {
    all.iter().map(|(key, value)| format!("<data key=\"{key}\">{value}</data>")).collect::<Vec<_>>().concat()
}

fn node(id: &str, all: &[(&str, &str)]) -> String {
    format!("<node id=\"{id}\">{}</node>\n", data(all))
}

fn edge(a: &str, b: &str, all: &[(&str, &str)]) -> String {
    format!("<edge source=\"{a}\" target=\"{b}\">{}</edge>\n", data(all))
}

/// All but the label and the rate with a unit was left out without a word.
#[test]
fn attributes_that_networkx_writes_are_taken_or_said() {
    let inside = [
        node("a", &[("type", "host"), ("ip", "10.0.0.7/24"), ("mac", "02:00:00:00:00:07"), ("color", "red")]),
        node("b", &[("type", "host"), ("ip", "here"), ("mac", "there")]),
        node("s", &[("ip", "10.0.0.9")]),
        edge("a", "s", &[("bw", "10"), ("latency", "5ms"), ("loss", "2"), ("weight", "3")]),
        edge("s", "b", &[("bandwidth", "100"), ("delay", "7"), ("loss", "0.01"), ("weight", "4")]),
        edge("s", "a", &[("bw", "20.0"), ("latency", "5ms"), ("loss", "0.5%")]),
    ];
    let (lines, notes) = imported("directed", &inside.concat());
    let expected = [
        "a: { kind: host, ipv4: \"10.0.0.7/24\", mac: \"02:00:00:00:00:07\" }",
        "- { between: [a, s], rate: 10Mbit, delay: 5ms, loss: 2%, back: { rate: 20Mbit, loss: 0.5% } }",
        "- { between: [s, b] }",
    ];
    assert_eq!(lines, expected, "{notes}");
    for expected in [
        "left out: `weight` of edges",
        "left out: `color` of nodes",
        "left out: addresses of nodes that are switches: a host's `type` is `host`, or it has no `type` and one link (s)",
        "left out: rates whose unit is not known (100)",
        "left out: delays whose unit is not known (7)",
        "left out: losses that are no share from 0% to 100%, or do not say of what (0.01)",
        "left out: addresses of hosts that are none, as `10.0.0.1/24` is (here)",
        "left out: MAC addresses of hosts that are none of a device (there)",
        "converted: `bw` of edges is in Mbit/s, as Mininet has it (10, 20.0; also in line 7)",
    ] {
        assert!(notes.contains(expected), "{expected}\n{notes}");
    }
}

/// Graphs of networkx often have addresses and no types: they had no hosts but those that each switch was given.
#[test]
fn nodes_with_an_address_and_one_link_are_hosts_and_routers_are_said() {
    let inside = [
        node("a", &[("ip", "10.0.0.1/24")]),
        node("b", &[("ip", "10.0.0.2/24"), ("type", "switch")]),
        node("r", &[("ip", "10.0.0.3/24"), ("type", "Router")]),
        edge("a", "r", &[]),
        edge("r", "a", &[]),
        edge("b", "r", &[]),
    ];
    let (lines, notes) = imported("directed", &inside.concat());
    assert_eq!(lines[0], "a: { kind: host, ipv4: \"10.0.0.1/24\" }", "{notes}");
    for expected in [
        "converted: a node without a `type`, with an address and one link, is a host (a)",
        "left out: routers are switches, which forward frames along shortest paths and route nothing; between subnets, write",
    ] {
        assert!(notes.contains(expected), "{expected}\n{notes}");
    }
}

#[test]
fn labels_of_the_topology_zoo_are_rates_or_said() {
    let inside = [
        node("a", &[]),
        node("b", &[]),
        node("c", &[]),
        edge("a", "b", &[("LinkLabel", "OC-48c")]),
        edge("b", "c", &[("LinkLabel", "2x10 Gbps")]),
        edge("a", "c", &[("LinkLabel", "GE")]),
        // No link is so fast.
        edge("a", "c", &[("LinkSpeedRaw", "1e300")]),
    ];
    let (lines, notes) = imported("undirected", &inside.concat());
    let expected =
        ["- { between: [a, b], rate: 2.48832Gbit }", "- { between: [b, c] }", "- { between: [a, c], rate: 1Gbit }"];
    assert_eq!((&lines[..3], &*lines[3]), (&expected.map(str::to_owned)[..], "- { between: [a, c] }"), "{notes}");
    for expected in [
        "converted: rates of edges that only a `LinkLabel` says (GE is 1Gbit, OC-48c is 2.48832Gbit; also in line 7)",
        "left out: `LinkSpeedRaw` of edges",
        "left out: `LinkLabel` of edges, where it is not certain what rate it says (2x10 Gbps)",
    ] {
        assert!(notes.contains(expected), "{expected}\n{notes}");
    }
}
