use crate::import::import_with;
use crate::parse;
use crate::source::Source;

/// The file that is made of nodes and links, without its head, and what is said.
fn imported(nodes: &str, links: &str, more: &str) -> (String, String) {
    let text = format!("{more}topology:\n  nodes:\n{nodes}  links:\n{links}");
    let source = Source { name: "x.clab.yml".to_owned(), text };
    let made = import_with(&source, None, &|path| (path == "hosts").then(String::new)).unwrap();
    let file = Source { name: "made".to_owned(), text: made.text.clone() };
    parse(&file).unwrap_or_else(|error| panic!("{}\n{error:?}", made.text));
    let notes: Vec<String> = made.notes.iter().map(|note| format!("{}: {}", note.kind.words(), note.message)).collect();
    (made.text.split_once("nodes:\n").unwrap().1.to_owned(), notes.join("\n"))
}

/// They were in neither the file nor the messages.
#[test]
fn addresses_of_links_ends_are_the_hosts() {
    let nodes = "    a: { kind: linux }\n    b: { kind: linux, exec: [ip addr add 10.0.2.7/24 dev eth2] }\n    s: { kind: bridge }\n";
    let links = "    - { type: veth, endpoints: [{ node: a, interface: eth1, mac: \"02:00:00:00:00:0A\", ipv4: 192.168.1.1/24, ipv6: \"fd00:1::1/64\" }, { node: b, interface: eth1, ipv4: 192.168.1.2/24, vars: { x: 1 } }] }\n    \
                 - { endpoints: [\"b:eth2\", \"s:e1\"], ipv4: [10.0.2.1/24, 10.0.2.2/24], labels: { x: y } }\n    \
                 - { type: veth, endpoints: [{ node: a, interface: eth2, mac: nothing, ipv4: 10.0.3.1 }, { node: s, interface: e2 }] }\n";
    let (made, notes) = imported(nodes, links, "");
    for expected in [
        "a: { kind: host, forward: true, interfaces: { 0: { ipv4: \"192.168.1.1/24\", ipv6: \"fd00:1::1/64\", mac: \"02:00:00:00:00:0a\" }, 1: {} } }",
        "b: { kind: host, forward: true, interfaces: { 0: { ipv4: \"192.168.1.2/24\" }, 1: { ipv4: \"10.0.2.1/24\", addresses: [\"10.0.2.7/24\"] } } }",
    ] {
        assert!(made.contains(expected), "{expected}\n{made}\n{notes}");
    }
    for expected in [
        "left out: addresses of switches' ends of links: switches have none (s)",
        "left out: `vars` of links' ends: nothing here stands for it (a-b)",
        "left out: `labels` of links: nothing here stands for it (b-s)",
        "mistake?: `mac: nothing` of `a:eth2`: it is no MAC address of a device",
        "mistake?: `ipv4: 10.0.3.1` of `a:eth2`: it is no address with a prefix",
    ] {
        assert!(notes.contains(expected), "{expected}\n{notes}");
    }
    // With one link, they are those of the host.
    let links = "    - { type: veth, endpoints: [{ node: a, interface: eth1, mac: \"02:00:00:00:00:0a\" }, { node: b, interface: eth1, ipv4: 10.0.1.2/24 }] }\n";
    let (made, notes) = imported("    a: { kind: linux }\n    b: { kind: linux }\n", links, "");
    assert!(
        made.starts_with(
            "  a: { kind: host, mac: \"02:00:00:00:00:0a\" }\n  b: { kind: host, ipv4: \"10.0.1.2/24\" }\n"
        ),
        "{made}"
    );
    assert_eq!(notes, "");
}

#[test]
fn the_mtu_of_all_links_is_the_networks() {
    let nodes = "    a: { kind: linux }\n    b: { kind: linux }\n    c: { kind: linux }\n";
    let link = |a: &str, b: &str, mtu: &str| format!("    - {{ endpoints: [\"{a}:e{b}\", \"{b}:e{a}\"]{mtu} }}\n");
    let of = |first: &str, second: &str| imported(nodes, &[link("a", "b", first), link("b", "c", second)].concat(), "");
    let (made, notes) = of(", mtu: 9000", ", mtu: 9000");
    assert!(made.ends_with("\nmtu: 9000\n") && !notes.contains("mtu"), "{made}\n{notes}");
    for (first, second, who) in [
        (", mtu: 9000", "", "(a-b)"),
        (", mtu: 9000", ", mtu: 1500", "(a-b, b-c; also in line 8)"),
        (", mtu: 100", ", mtu: 100", "(a-b, b-c; also in line 8)"),
    ] {
        let (made, notes) = of(first, second);
        assert!(!made.contains("mtu"), "{made}");
        let said = "left out: `mtu` of links: all of a network have one, `mtu: 9000` at the top level of the file";
        assert!(notes.contains(&format!("{said} {who}")), "{notes}");
    }
}

/// Some keys were left out without a word, and others with words of other ones.
#[test]
fn each_key_that_is_left_out_is_named() {
    let nodes = "    a: { kind: linux, network-mode: none, labels: { x: y }, startup-delay: 10, stages: {}, cmd: sleep 5 }\n    b: { kind: linux }\n";
    let more = "prefix: x\nmgmt: { network: m }\n";
    let (_, notes) = imported(nodes, "    - { endpoints: [\"a:eth1\", \"b:eth1\"] }\n", more);
    for expected in [
        "left out: `prefix` of the file",
        "left out: `mgmt`: the management network",
        "left out: `network-mode` of nodes: a host has the links of the file and no other network",
        "left out: `labels` of nodes: nodes are known by their names alone (a)",
        "left out: `startup-delay` of nodes: all nodes are there at once",
        "left out: `stages` of nodes: nothing here stands for it (a)",
        "left out: `cmd` of nodes: `programs:` of a host",
    ] {
        assert!(notes.contains(expected), "{expected}\n{notes}");
    }
    assert!(!notes.contains("operating systems"), "{notes}");
}

/// One file that a host cannot have cost it its addresses, too.
#[test]
fn files_that_do_not_fit_cost_nothing_else() {
    let nodes = "    a: { kind: linux, binds: [hosts:/etc/hosts] }\n    b: { kind: linux }\n";
    let links = "    - { type: veth, endpoints: [{ node: a, interface: eth1, ipv4: 10.0.1.1/24 }, { node: b, interface: eth1 }] }\n";
    let (made, notes) = imported(nodes, links, "");
    assert!(made.contains("a: { kind: host, ipv4: \"10.0.1.1/24\" }"), "{made}\n{notes}");
    assert!(notes.contains("left out: of `a`, `files: "), "{notes}");
}

/// An image that a node has by its kind went without a word, and so did that hosts pass on frames.
#[test]
fn images_of_kinds_and_hosts_that_forward_are_said() {
    let nodes = "    a: { kind: linux }\n    b: { kind: linux, image: \"alpine\" }\n    c: { kind: linux }\n";
    let links = "    - { endpoints: [\"a:eth1\", \"b:eth1\"] }\n    - { endpoints: [\"b:eth2\", \"c:eth1\"] }\n  kinds: { linux: { image: debian } }\n";
    let (made, notes) = imported(nodes, links, "");
    assert!(made.contains("b: { kind: host, forward: true }"), "{made}");
    for expected in [
        "left out: images: hosts have this machine's programs, unless one has an `image` (a, b, c; also in line",
        "hosts have `forward: true`, as they have several links, and pass on what is for others: b",
    ] {
        assert!(notes.contains(expected), "{expected}\n{notes}");
    }
}

/// It had an address of 10.0.0.0/8 in the file that is made, and lost all of its interfaces by that.
#[test]
fn an_interface_without_an_address_costs_a_router_nothing() {
    let nodes = "    a: { kind: linux }\n    b: { kind: linux }\n    r: { kind: linux, image: frrouting/frr, exec: [ip addr add 10.0.1.254/24 dev eth1, ip addr add 10.0.2.254/24 dev eth2] }\n    c: { kind: linux, exec: [ip addr add 192.168.1.1/24 dev eth1] }\n";
    let link = |to: &str, at: u8| format!("    - {{ endpoints: [\"{to}:eth1\", \"r:eth{at}\"] }}\n");
    let nodes = nodes
        .replace("a: { kind: linux }", "a: { kind: linux, exec: [ip addr add 10.0.1.1/24 dev eth1] }")
        .replace("b: { kind: linux }", "b: { kind: linux, exec: [ip addr add 10.0.2.1/24 dev eth1] }");
    let (made, notes) = imported(&nodes, &[link("a", 1), link("b", 2), link("c", 3)].concat(), "");
    let interfaces = "interfaces: { 0: { ipv4: \"10.0.1.254/24\" }, 1: { ipv4: \"10.0.2.254/24\" }, 2: {} }";
    assert!(made.contains(interfaces), "{made}\n{notes}");
}
