//! What is for everybody: broadcast, multicast, and hosts with addresses that no file says.

use std::collections::BTreeSet;

use crate::bed::{self, Bed, output};
use live::Instance;

/// Four racks that are linked in a ring, and one more link across: there are loops enough.
const RING: &str = "
name: ring
nodes: { h1: host, h2: host, h3: host, h4: host, s1: switch, s2: switch, s3: switch, s4: switch }
links:
  - { between: [h1, s1] }
  - { between: [h2, s2] }
  - { between: [h3, s3] }
  - { between: [h4, s4] }
  - { between: [s1, s2] }
  - { between: [s2, s3] }
  - { between: [s3, s4] }
  - { between: [s4, s1] }
  - { between: [s1, s3] }
";

/// Waits until so many hosts answer requests to all nodes, among them the host that asks. Nobody answers one request twice.
pub fn wait_for_answers(network: &Instance, from: &str, hosts: usize) {
    // Ping ends with the first answers to its last request: those of others to it may be missing, and on a busy machine those to the one before.
    let arguments = ["-6", "-c", "2", "-i", "0.2", "-w", "60", "ff02::1%eth0"];
    bed::wait_until("all answer", || {
        let text = output(network.command(from, "ping", arguments));
        let answers = text.lines().filter_map(|line| line.split_once("bytes from ")?.1.split_once(" ttl="));
        let answers: Vec<&str> = answers.map(|(who_and_which, _)| who_and_which).collect();
        let once: BTreeSet<&str> = answers.iter().copied().collect();
        assert_eq!(answers.len(), once.len(), "somebody answers twice: {text}");
        let who: BTreeSet<&str> = once.iter().filter_map(|answer| answer.split_whitespace().next()).collect();
        assert!(who.len() <= hosts, "{text}");
        who.len() == hosts
    });
}

fn packets(network: &Instance) -> u64 {
    let links = network.counters().unwrap().links;
    links.iter().map(|link| link.forward.packets + link.backward.packets).sum()
}

/// The host itself is among those who answer. So are its three neighbours, each once, and none of it goes round in the ring.
#[test]
fn multicast_comes_to_every_host_once() {
    let Some(bed) = Bed::new() else { return };
    bed.with_workers(2);
    let network = bed.up("ring", RING);
    wait_for_answers(&network, "h1", 4);
    network.set_link("s1", "s2", None, false).unwrap();
    network.set_link("s1", "s3", None, false).unwrap();
    wait_for_answers(&network, "h2", 4);
    // A storm would go on.
    let before = packets(&network);
    bed::ping(&network, "h1", &[], 2, "h4");
    assert!(packets(&network) - before < 1_000);
}

#[test]
fn a_second_address_is_found_by_asking() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("ring", RING);
    output(network.command("h3", "ip", ["address", "add", "10.200.0.7/8", "dev", "eth0"]));
    bed::ping(&network, "h1", &[], 2, "10.200.0.7");
    for (host, address) in [("h3", "fd99::7"), ("h1", "fd99::1")] {
        output(network.command(host, "ip", ["address", "add", &format!("{address}/64"), "dev", "eth0", "nodad"]));
        // The kernel takes packets for an IPv6 address a while after the address is there.
        let own = format!("local {address} dev eth0");
        let routes = || output(network.command(host, "ip", ["-6", "route", "show", "table", "local"]));
        bed::wait_until("the address is in use", || routes().contains(&own));
    }
    bed::ping(&network, "h1", &["-6"], 2, "fd99::7");
}

#[test]
fn a_neighbour_is_reached_by_its_link_local_address() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("ring", RING);
    let text = output(network.command("h4", "ip", ["-6", "address", "show", "dev", "eth0", "scope", "link"]));
    let address = text.split_whitespace().find(|word| word.starts_with("fe80:")).unwrap();
    let address = format!("{}%eth0", address.split('/').next().unwrap());
    bed::ping(&network, "h1", &["-6"], 2, &address);
}

/// One host floods the network; others go on, and what it says beyond its part is counted.
#[test]
fn a_host_can_not_flood_the_network() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("ring", RING);
    output(network.command("h1", "ip", ["link", "set", "eth0", "mtu", "1280"]));
    // A kernel answers the pings of all network namespaces by one socket a CPU, and drops what finds it full: if hosts answered the flood, other
    // tests would lose answers to theirs, and so would h2.
    for host in ["h1", "h2", "h3", "h4"] {
        let silent = "echo 1 > /proc/sys/net/ipv6/icmp/echo_ignore_multicast";
        output(network.command(host, "sh", ["-c", silent]));
    }
    let flood = ["-6", "-f", "-c", "60000", "-w", "20", "-l", "60000", "ff02::1%eth0"];
    let flood = bed::Running::start(network.command("h1", "ping", flood));
    // By IPv4: until it has set its filter, a ping by IPv6 is given the whole flood by its kernel, and its first answer may find no room in its socket.
    bed::ping(&network, "h2", &["-4"], 5, "h3");
    drop(flood);
}

/// A line of switches with a host at each end.
fn line(switches: usize, is_bonded: bool) -> String {
    let nodes: Vec<String> = (0..switches).map(|n| format!("  s{n}: switch\n")).collect();
    let pairs = || (1..switches).map(|n| format!("between: [s{}, s{n}]", n - 1));
    let links: Vec<String> =
        pairs().map(|pair| format!("  - {{ {pair} }}\n").repeat(if is_bonded { 2 } else { 1 })).collect();
    let bonds: Vec<String> = pairs().map(|pair| format!("  - {{ {pair}, mode: balance-rr }}\n")).collect();
    let bonds = if is_bonded { format!("bonds:\n{}", bonds.concat()) } else { String::new() };
    let ends = format!("  - {{ between: [h1, s0] }}\n  - {{ between: [h2, s{}] }}\n", switches - 1);
    let (nodes, links) = (nodes.concat(), links.concat());
    format!("name: line\nnodes:\n  h1: host\n  h2: host\n{nodes}links:\n{ends}{links}{bonds}")
}

/// What no link takes time for is one long walk, and not one call within another.
#[test]
fn a_way_may_be_as_long_as_it_likes() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("line", &line(1_500, false));
    wait_for_answers(&network, "h1", 2);
    network.down().unwrap();
    let network = bed.up("bonded", &line(700, true));
    bed::ping(&network, "h1", &[], 2, "h2");
}

/// By ARP, in the name of a host that has nothing to do with it.
#[test]
fn nobody_hears_a_host_speak_in_the_name_of_another() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("ring", RING);
    // h1 takes over the address of h3, and says so to everybody.
    output(network.command("h1", "ip", ["address", "add", "10.0.0.3/8", "dev", "eth0"]));
    let mut ask = network.command("h1", "ping", ["-I", "10.0.0.3", "-c", "1", "-W", "1", "10.200.0.9"]).unwrap();
    assert!(!ask.output().unwrap().status.success(), "nobody has that address");
    let refused = network.counters().unwrap().refused;
    assert!(refused.spoofed > 0, "{refused:?}");
    bed::ping(&network, "h2", &[], 2, "h3");
}
