//! Hosts in several subnets, and routers between them.

use fabric::Overrides;
use live::Instance;

use crate::bed::{self, Bed, Running, output, ping, source};

const NETWORK: &str = "
name: routed
nodes:
  h1: { kind: host, ipv4: 10.0.1.1/24, addresses: [172.16.0.1/16], routes: [default via 10.0.1.254, 'default via fd68:6564:646c:1::1:fe'] }
  h2: { kind: host, ipv4: 10.0.2.1/24, routes: [10.0.1.0/24 via 10.0.2.254 metric 50, 'fd68:6564:646c:1::/64 via fd68:6564:646c:2::2:fe'] }
  r1:
    kind: host
    forward: true
    interfaces: { s1: { ipv4: 10.0.1.254/24 }, s2: { ipv4: 10.0.2.254/24, addresses: [10.0.3.254/24] } }
    sysctls: { net.ipv4.conf.eth1.rp_filter: 2 }
  s1: switch
  s2: switch
links: [ { between: [h1, s1] }, { between: [r1, s1] }, { between: [r1, s2] }, { between: [h2, s2] } ]
";

#[test]
fn a_router_joins_two_subnets() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("routed", NETWORK);
    let devices = output(network.command("r1", "ip", ["-brief", "-4", "address", "show"]));
    for words in [["eth0", "10.0.1.254/24"], ["eth1", "10.0.2.254/24 10.0.3.254/24"]] {
        assert!(devices.lines().any(|line| words.iter().all(|word| line.contains(word))), "{devices}");
    }
    // The hop limit says that a router was passed.
    assert!(ping(&network, "h1", &["-4"], 3, "h2").contains("ttl=63"));
    assert!(ping(&network, "h2", &["-6"], 3, "h1").contains("ttl=63"));
    assert!(ping(&network, "h1", &["-4"], 1, "10.0.3.254").contains("ttl=64"));
    assert!(ping(&network, "h1", &[], 1, "r1.eth1").contains("from r1.eth1"));
    assert_eq!(
        output(network.command("h2", "ip", ["route", "show", "10.0.1.0/24"])).trim(),
        "10.0.1.0/24 via 10.0.2.254 dev eth0 proto static metric 50"
    );
    assert_eq!(output(network.command("r1", "cat", ["/proc/sys/net/ipv4/conf/eth1/rp_filter"])), "2\n");
    assert_eq!(network.status().unwrap().hosts, ["h1", "h2", "r1"]);
    network.down().unwrap();
    assert!(bed.is_empty());
}

#[test]
fn addresses_and_routes_change_with_the_file() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("routed", NETWORK);
    ping(&network, "h1", &["-4"], 1, "h2");
    let apply = |text: &str| network.apply(&source(text), &Overrides::default());
    // Another address of the router: its neighbours' routes go with it, and what a program sees is the new one.
    let moved = NETWORK.replace("10.0.1.254", "10.0.1.253");
    let applied = apply(&moved).unwrap();
    assert_eq!(applied.changed, ["h1", "r1"]);
    ping(&network, "h1", &["-4"], 1, "h2");
    let routes = output(network.command("h1", "ip", ["-4", "route", "show", "default"]));
    assert_eq!(routes.trim(), "default via 10.0.1.253 dev eth0 proto static");
    // The same routes are there still when an address of their subnet has been changed.
    apply(&moved.replace("10.0.1.1/24", "10.0.1.7/24")).unwrap();
    assert!(ping(&network, "h1", &["-4"], 1, "h2").contains("ttl=63"));
    // A host whose links are one switch again, and no router.
    let merged = NETWORK
        .replace("    interfaces: { s1: { ipv4: 10.0.1.254/24 }, s2: { ipv4: 10.0.2.254/24, addresses: [10.0.3.254/24] } }\n", "")
        .replace(", routes: [default via 10.0.1.254, 'default via fd68:6564:646c:1::1:fe']", "")
        .replace(", routes: [10.0.1.0/24 via 10.0.2.254 metric 50, 'fd68:6564:646c:1::/64 via fd68:6564:646c:2::2:fe']", "")
        .replace("10.0.1.1/24", "10.0.1.1")
        .replace("10.0.2.1/24", "10.0.2.1")
        .replace("    sysctls: { net.ipv4.conf.eth1.rp_filter: 2 }\n", "");
    let applied = apply(&merged).unwrap();
    assert!(applied.changed.contains(&"r1".to_owned()), "{applied:?}");
    assert!(ping(&network, "h1", &["-4"], 1, "h2").contains("ttl=64"));
    assert!(!output(network.command("r1", "ip", ["-brief", "link"])).contains("eth1"));
    // And back.
    apply(NETWORK).unwrap();
    assert!(ping(&network, "h1", &["-4"], 1, "h2").contains("ttl=63"));
    network.down().unwrap();
}

/// A server that is asked by one interface answers by another one, by its routes: that is the service's answer all the same.
#[test]
fn a_server_of_a_service_answers_by_any_of_its_interfaces() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up(
        "answers",
        "
name: answers
nodes:
  h1: { kind: host, ipv4: 10.0.1.1/24, routes: [default via 10.0.1.254] }
  h2: { kind: host, interfaces: { s1: { ipv4: 10.0.3.5/24 }, s2: { ipv4: 10.0.2.5/24 } }, routes: [10.0.1.0/24 via 10.0.3.254] }
  r1:
    kind: host
    forward: true
    interfaces: { s1: { ipv4: 10.0.1.254/24, addresses: [10.0.3.254/24] }, s2: { ipv4: 10.0.2.254/24 } }
  s1: switch
  s2: switch
links: [ { between: [h1, s1] }, { between: [h2, s1] }, { between: [h2, s2] }, { between: [r1, s1] }, { between: [r1, s2] } ]
services: { web: { address: 10.0.2.80:80, servers: [h2.eth1] } }
",
    );
    let _server = Running::server(&network, "h2", "80");
    let answer = output(network.command("h1", bed::program(), ["ask", "10.0.2.80:80", "1"]));
    assert_eq!(answer.trim(), "h2");
    let web = network.counters().unwrap().services.into_iter().next().expect("it is in the file");
    assert!(web.counters.invalid == 0 && web.servers[0].traffic.out_packets > 0, "{web:?}");
    network.down().unwrap();
    assert!(bed.is_empty());
}

/// Peers went on with an address that nobody had any more, for half a minute.
#[test]
fn peers_forget_macs_that_are_others_now() {
    let Some(bed) = Bed::new() else { return };
    let own = |n: u8| format!("h{n}: {{ kind: host, ipv4: 10.0.0.{n}, ipv6: 'fd68:6564:646c::{n}' }}");
    let text = |first: &str, link: &str| {
        format!(
            "name: moved\nnodes:\n  {}\n  {first}{}\n  r1: {{ kind: host, interfaces: {{ 0: {{ ipv4: 192.168.1.1/24 }}, 1: {{ ipv4: 192.168.2.1/24 }} }} }}\n  s1: switch\n\
             links:\n  - between: [h7, s1]\n  - between: [h8, s1]\n  - between: [r1, s1]\n  - between: [r1, s1]\n{link}",
            own(7),
            own(8)
        )
    };
    let network = bed.up("moved", &text("", ""));
    let interface = |network: &Instance| output(network.command("r1", "cat", ["/sys/class/net/eth1/address"]));
    bed::ping(&network, "h7", &["-4"], 1, "10.0.0.8");
    bed::ping(&network, "h7", &["-6"], 1, "fd68:6564:646c::8");
    let known = |network: &Instance| output(network.command("h7", "ip", ["neighbour", "show", "nud", "all"]));
    let old = "02:00:0a:00:00:02";
    assert_eq!(known(&network).matches(old).count(), 2, "{}", known(&network));
    let before = interface(&network);
    // What somebody has written stays, and is not looked at: there may be very many.
    let written = ["neighbour", "add", "10.0.0.99", "lladdr", old, "dev", "eth0", "nud", "permanent"];
    output(network.command("h7", "ip", written));
    network.apply(&source(&text("new: host\n  ", "  - between: [new, s1]\n")), &Overrides::default()).unwrap();
    let now = known(&network);
    assert!(now.matches(old).count() == 1 && now.contains("10.0.0.99 dev eth0 lladdr"), "{now}");
    // The kernel gives a device one link-local address, for the MAC address that it is raised with.
    let local = output(network.command("h8", "ip", ["-6", "-o", "address", "show", "scope", "link"]));
    assert!(local.contains("fe80::aff:fe00:3/64") && !local.contains("fe80::aff:fe00:2"), "{local}");
    bed::ping(&network, "h7", &["-6"], 1, "fe80::aff:fe00:3%eth0");
    bed::ping(&network, "h7", &["-4"], 1, "10.0.0.8");
    bed::ping(&network, "h7", &["-6"], 1, "fd68:6564:646c::8");
    assert_eq!((before.trim(), interface(&network).trim()), ("02:00:0b:00:00:03", "02:00:0b:00:00:04"));
    // A host that comes last moves nobody, and neither do its interfaces.
    let last = text("new: host\n  ", "  - between: [new, s1]\n").replace("  s1: switch", "  late: host\n  s1: switch");
    let last = last + "  - between: [late, s1]\n";
    network.apply(&source(&last), &Overrides::default()).unwrap();
    assert_eq!(interface(&network).trim(), "02:00:0b:00:00:04");
}

/// It stayed on the machine for good, as devices are left to the end of their namespaces.
#[test]
fn a_device_that_a_program_has_moved_goes_with_the_network() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let name = format!("moved{}", std::process::id() % 100_000);
    let network = bed.up(
        "mover",
        "nodes: { h1: host, h2: host, s1: switch }\nlinks: [{ between: [h1, s1] }, { between: [h2, s1] }]\n",
    );
    let own = format!("/proc/{}/ns/net", std::process::id());
    output(network.command(
        "h2",
        "ip",
        ["link", "set", "eth0", "netns", &std::process::id().to_string(), "name", &name],
    ));
    assert!(std::path::Path::new(&format!("/sys/class/net/{name}")).exists(), "it is in {own}");
    network.down().unwrap();
    let gone = || !std::path::Path::new(&format!("/sys/class/net/{name}")).exists();
    bed::wait_until("the device is gone", gone);
}
