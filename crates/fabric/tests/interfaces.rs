//! Hosts in several subnets, as the file has them.

use fabric::{Fabric, Source, parse};
use topology::HostAddress;

use crate::network::said;

fn source(text: &str) -> Source {
    Source { name: "net".to_owned(), text: text.to_owned() }
}

fn read(text: &str) -> Fabric {
    parse(&source(text)).unwrap_or_else(|error| panic!("{:?}", miette::Report::new(error)))
}

/// Two subnets and a router between them, of which this is said.
fn routed(h1: &str, r1: &str) -> String {
    format!(
        "nodes:\n  h1: {{ kind: host, {h1} }}\n  h2: {{ kind: host, ipv4: 10.0.2.1/24 }}\n  r1: {{ kind: host, {r1} }}\n  s1: switch\n  s2: switch\n\
         links:\n  - between: [h1, s1]\n  - between: [s1, r1]\n  - between: [r1, s2]\n  - between: [s2, h2]\n"
    )
}

const H1: &str = "ipv4: 10.0.1.1/24, routes: [default via 10.0.1.254]";
const R1: &str = "forward: true, interfaces: { s1: { ipv4: 10.0.1.254/24 }, s2: { ipv4: 10.0.2.254/24, addresses: [192.168.5.1/24] } }";

#[test]
fn each_link_of_a_router_has_addresses_of_its_own() {
    let fabric = read(&routed(H1, R1));
    let topology = &fabric.topology;
    let shown: Vec<String> = topology
        .addressed_hosts()
        .map(|(id, node)| {
            let address = topology.address(id).unwrap();
            format!("{} {}/{} {}/{}", node.name, address.ipv4, address.ipv4_prefix, address.ipv6, address.ipv6_prefix)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "h1 10.0.1.1/24 fd68:6564:646c:1::1:1/64",
            "h2 10.0.2.1/24 fd68:6564:646c:2::2:1/64",
            "r1 10.0.1.254/24 fd68:6564:646c:1::1:fe/64",
            "r1.eth1 10.0.2.254/24 fd68:6564:646c:2::2:fe/64",
        ]
    );
    assert_eq!(topology.end_host_count(), 3);
    assert!(fabric.setups["r1"].forwards && !topology.nodes[topology.node("r1").unwrap()].forwards);
    assert_eq!(fabric.setups["r1.eth1"].addresses[0].to_string(), "192.168.5.1/24");
    assert_eq!(fabric.setups["h1"].routes[0].to_string(), "default via 10.0.1.254");
    // Its links are found by its own name.
    for (a, b) in [("r1", "s2"), ("s2", "r1"), ("r1.eth1", "s2")] {
        assert_eq!(fabric::find_links(topology, a, b, None).unwrap().len(), 1, "{a} {b}");
    }
}

#[test]
fn routers_may_be_linked_to_each_other() {
    let fabric = read(
        "nodes:\n  h1: { kind: host, ipv4: 10.0.1.1/24 }\n  h2: { kind: host, ipv4: 10.0.2.1/24 }\n  \
         r1: { kind: host, interfaces: { h1: { ipv4: 10.0.1.254/24 }, r2: { ipv4: 10.0.12.1/30 } } }\n  \
         r2: { kind: host, interfaces: { h2: { ipv4: 10.0.2.254/24 }, r1: { ipv4: 10.0.12.2/30, addresses: [10.9.0.1/32] } } }\n\
         links:\n  - between: [h1, r1]\n  - between: [r1, r2]\n  - between: [r2, h2]\n",
    );
    let address = |name: &str| fabric.topology.address(fabric.topology.node(name).unwrap()).unwrap().ipv4.to_string();
    let shown = ["r1", "r1.eth1", "r2", "r2.eth1"].map(address);
    assert_eq!(shown, ["10.0.1.254", "10.0.12.1", "10.0.12.2", "10.0.2.254"]);
    assert_eq!(fabric.setups["r2"].addresses[0].to_string(), "10.9.0.1/32");
}

#[test]
fn hosts_of_a_topology_have_subnets_and_routes_too() {
    let fabric = read(
        "topology: { single: { hosts: 3 } }\nhosts:\n  h1: { ipv4: 192.168.1.1/24, addresses: [192.168.2.1/24] }\n  h2: { ipv4: 192.168.1.2/24, ipv6: fd01::2/64, routes: ['fd02::/64 via fd01::1', 10.0.0.0/8 dev eth0] }\n",
    );
    let address = |name: &str| fabric.topology.address(fabric.topology.node(name).unwrap()).unwrap().clone();
    assert_eq!((address("h1").ipv4_prefix, address("h2").ipv6.to_string()), (24, "fd01::2".to_owned()));
    assert_eq!(address("h1").ipv6.segments()[..4], fabric.topology.address(0.into()).unwrap().ipv6.segments()[..4]);
    assert_eq!(fabric.setups["h2"].routes.len(), 2);
    assert!(!fabric.topology.share_subnet(0.into(), 2.into()) && fabric.topology.share_subnet(0.into(), 1.into()));
}

/// It was in 10.0.0.0/8, as hosts beyond other links were, and the file was refused.
#[test]
fn an_interface_without_an_address_is_in_no_subnet_that_others_use() {
    let of = |h3: &str, third: &str| {
        read(&format!(
            "nodes:\n  h1: {{ kind: host, ipv4: 10.0.1.1/24 }}\n  h2: {{ kind: host, ipv4: 10.0.2.1/24 }}\n  h3: {{ kind: host{h3} }}\n  \
             r1: {{ kind: host, forward: true, interfaces: {{ h1: {{ ipv4: 10.0.1.254/24 }}, h2: {{ ipv4: 10.0.2.254/24 }}{third} }} }}\n\
             links:\n  - between: [r1, h1]\n  - between: [r1, h2]\n  - between: [r1, h3]\n"
        ))
    };
    let shown = |fabric: &Fabric, name: &str| {
        let HostAddress { ipv4, ipv4_prefix, ipv6_prefix, .. } =
            fabric.topology.address(fabric.topology.node(name).unwrap()).unwrap();
        format!("{ipv4}/{ipv4_prefix} /{ipv6_prefix}")
    };
    for third in ["", ", h3: {}"] {
        let fabric = of(", ipv4: 192.168.7.1/24", third);
        assert_eq!(shown(&fabric, "r1.eth2"), "169.254.0.6/32 /128", "{third}");
    }
    // With hosts that have such addresses it is one of them.
    let fabric = read(
        "nodes:\n  h1: { kind: host, ipv4: 192.168.1.1/24 }\n  h2: host\n  r1: { kind: host, interfaces: { h1: { ipv4: 192.168.1.2/24 } } }\n\
         links:\n  - between: [r1, h1]\n  - between: [r1, h2]\n",
    );
    assert_eq!(shown(&fabric, "r1.eth1"), "10.0.0.4/8 /64");
    // Two that nobody else is beside are in no subnet either: they had one in common.
    let fabric = read(
        "nodes:\n  h1: { kind: host, ipv4: 192.168.1.1/24 }\n  h2: { kind: host, ipv4: 192.168.2.1/24 }\n  r1: { kind: host, interfaces: { 0: {} } }\n\
         links:\n  - between: [r1, h1]\n  - between: [r1, h2]\n",
    );
    assert_eq!(["r1", "r1.eth1"].map(|name| shown(&fabric, name)), ["169.254.0.3/32 /128", "169.254.0.4/32 /128"]);
}

#[test]
fn what_interfaces_are_given_nobody_has() {
    let read = |h2: &str, third: &str| {
        read(&format!(
            "nodes:\n  h1: {{ kind: host, ipv4: 10.0.1.1/24 }}\n  h2: {{ kind: host, {h2} }}\n  \
             r1: {{ kind: host, interfaces: {{ h1: {{ ipv4: 10.0.1.254/24 }}, h2: {third} }} }}\n\
             links:\n  - between: [r1, h1]\n  - between: [r1, h2]\n"
        ))
    };
    let shown = |fabric: &Fabric| {
        let HostAddress { mac, ipv4, .. } = fabric.topology.address(fabric.topology.node("r1.eth1").unwrap()).unwrap();
        (*mac, ipv4.to_string())
    };
    assert_eq!(shown(&read("ipv4: 10.0.2.1/24", "{ ipv4: 10.0.2.2/24 }")).0, [2, 0, 11, 0, 0, 3]);
    let taken = read("ipv4: 10.0.2.1/24, mac: '02:00:0b:00:00:03'", "{ ipv4: 10.0.2.2/24 }");
    assert_eq!(shown(&taken).0, [6, 0, 11, 0, 0, 3]);
    assert_eq!(shown(&read("ipv4: 192.168.1.1/24", "{}")).1, "169.254.0.4");
    assert_eq!(shown(&read("ipv4: 169.254.0.4/16", "{}")).1, "169.254.0.5");
}

#[test]
fn what_is_wrong_is_shown_with_what_to_do() {
    for (h1, r1, expected) in [
        (H1, "forward: true, interfaces: { s9: {} }", "no link of `r1` leads to `s9`"),
        (H1, "interfaces: { s1: {}, 0: {} }", "something is said about the link to `s1` already"),
        (H1, "interfaces: { s1: {} }, ipv4: 10.0.1.254", "`ipv4` is that of one of them"),
        (H1, "interfaces: { s1: {} }, devices: [eth7, eth8]", "what is behind devices has addresses of its own there"),
        (H1, "interfaces: { s1: { ipv4: 10.0.1.0/24 } }", "it is that of the subnet itself"),
        (H1, "interfaces: { s1: { ipv4: 10.0.1.1/24 } }", "have the same IPv4 address"),
        (H1, "interfaces: { s1: { addresses: [10.0.2.1/24] } }", "`r1` and `h2` have the same address 10.0.2.1"),
        (H1, "interfaces: { s1: { addresses: [10.0.1.9] } }", "an address with the prefix of its subnet"),
        ("routes: [default via 10.0.1.254]", R1, "only routers are between them"),
        ("ipv4: 10.0.1.1/24, routes: [default via 10.0.3.1]", R1, "10.0.3.1 is in no subnet of this host"),
        ("ipv4: 10.0.1.1/24, routes: [default via 10.0.1.1]", R1, "an address of this host itself"),
        ("ipv4: 10.0.1.1/24, routes: [default dev eth1]", R1, "no device `eth1`"),
        ("ipv4: 10.0.1.1/24, routes: [default via fe80::1]", R1, "fe80::1 is one of each link's own"),
        ("ipv4: 10.0.1.1/24, routes: [10.9.0.1/16 via 10.0.1.254]", R1, "write 10.9.0.0/16"),
        ("ipv4: 10.0.1.1/24, routes: [default]", R1, "expected a route like"),
        ("ipv4: 10.0.1.1/24, routes: [10.9.0.0/16 via fd00::1]", R1, "an address of IPv4 and one of IPv6"),
        (
            "ipv4: 10.0.1.1/24, routes: [default via 10.0.1.254, default via 10.0.1.253]",
            R1,
            "a route to 0.0.0.0/0 already",
        ),
        ("ipv4: 10.0.1.1/40", R1, "an IPv4 address like"),
        ("ipv4: 192.168.1.1", R1, "one with the prefix of a subnet"),
        ("forward: true", R1, "there is nothing to forward"),
    ] {
        let said = said(&source(&routed(h1, r1)));
        assert!(said.contains(expected), "{h1} | {r1}: {said}");
    }
    let of_switch = routed(H1, R1).replace("s1: switch", "s1: { kind: switch, interfaces: { h1: {} } }");
    assert!(said(&source(&of_switch)).contains("a switch has ports, and no interfaces"));
    let taken = routed(H1, R1).replace("s2: switch\n", "s2: switch\n  r1.eth1: switch\n");
    let taken = taken.replace("links:\n", "links:\n  - between: [s2, r1.eth1]\n");
    assert!(said(&source(&taken)).contains("there is a node `r1.eth1`"));
}
