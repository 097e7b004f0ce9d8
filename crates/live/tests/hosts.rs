//! Hosts with several ports that are no bond: at two switches, and in a `BCube`, where they forward.

use crate::bed::{self, Bed, source};
use crate::groups::wait_for_answers;
use fabric::Overrides;
use live::Instance;

/// `h1` is at two switches, between which there is a third; each packet takes the next way.
const DUAL_HOMED: &str = "
name: dual
spread: packet-scatter
nodes: { h1: host, h2: host, a: switch, b: switch, c: switch }
links:
  - { between: [h1, a] }
  - { between: [a, c] }
  - { between: [b, c] }
  - { between: [h2, c] }
  - { between: [h1, b] }
";

/// Servers `h1` to `h4`, which are 00, 01, 10, 11: what differs in both digits is two switches and a server apart.
const BCUBE: &str = "
name: bcube
spread: packet-scatter
topology: { bcube: { n: 2, k: 1 } }
";

const SERVERS: [&str; 4] = ["h1", "h2", "h3", "h4"];

fn set(network: &Instance, a: &str, b: &str, up: bool) {
    assert_eq!(network.set_link(a, b, None, up).unwrap().changed, 1);
}

/// Packets that the link between two nodes has carried, both ways.
fn carried(network: &Instance, a: &str, b: &str) -> u64 {
    let links = network.counters().unwrap().links;
    let link = links.iter().find(|link| (&*link.a, &*link.b) == (a, b)).unwrap();
    link.forward.packets + link.backward.packets
}

/// What the kernel of `h1` says of its device.
fn device(network: &Instance) -> String {
    bed::output(network.command("h1", "ip", ["link", "show", "dev", "eth0"]))
}

/// What two hosts say to each other while a link is down goes by the other one, as does what follows.
fn goes_on_by_the_other_link(text: &str) {
    let Some(bed) = Bed::new() else { return };
    bed.with_workers(2);
    let network = bed.up("dual", text);
    for (from, to) in [("h1", "h2"), ("h2", "h1")] {
        bed::ping(&network, from, &[], 10, to);
    }
    assert!(["a", "b"].iter().all(|switch| carried(&network, "h1", switch) > 5), "{:?}", network.counters());
    // At the host itself, and where it cannot see it.
    for (near, far) in [("h1", "a"), ("a", "c")] {
        set(&network, near, far, false);
        let before = carried(&network, "h1", "a");
        bed::ping(&network, "h1", &[], 10, "h2");
        bed::ping(&network, "h2", &["-6"], 10, "h1");
        bed::carry(&network, "h1", "h2", "1M");
        assert_eq!(carried(&network, "h1", "a"), before);
        assert!(device(&network).contains("LOWER_UP"), "one of its links has a carrier");
        set(&network, near, far, true);
    }
    set(&network, "h1", "b", false);
    let before = carried(&network, "h1", "a");
    bed::ping(&network, "h1", &[], 10, "h2");
    assert!(carried(&network, "h1", "a") >= before + 20, "the first link is used again");
    set(&network, "h1", "a", false);
    bed::wait_until("its kernel has noticed", || device(&network).contains("NO-CARRIER"));
    set(&network, "h1", "b", true);
    bed::wait_until("its kernel sends again", || device(&network).contains("state UP"));
    bed::ping(&network, "h1", &[], 4, "h2");
}

#[test]
fn a_dual_homed_host_goes_on_by_the_link_that_is_left() {
    goes_on_by_the_other_link(DUAL_HOMED);
}

#[test]
fn a_dual_homed_host_goes_on_by_the_link_that_is_left_where_links_have_rates() {
    goes_on_by_the_other_link(&format!("{DUAL_HOMED}link-defaults: {{ rate: 100Mbit, delay: 100us, queue: 1000 }}\n"));
}

#[test]
fn a_host_gets_a_second_link_and_loses_it_again_while_a_connection_lasts() {
    let Some(bed) = Bed::new() else { return };
    let single = DUAL_HOMED.replace("  - { between: [h1, b] }\n", "");
    let network = bed.up("dual", &single);
    let server = bed::Running::iperf3_server(network.command("h2", "iperf3", ["-s", "-1"]));
    let client = bed::Running::start(network.command("h1", "iperf3", ["-c", "h2", "-n", "5M", "-b", "5M"]));
    bed::wait_until("the connection carries data", || carried(&network, "h1", "a") > 20);
    let applied = network.apply(&source(DUAL_HOMED), &Overrides::default()).unwrap();
    assert_eq!(
        (applied.created, applied.changed),
        (vec!["link h1-b".to_owned()], vec!["b".to_owned(), "h1".to_owned()])
    );
    bed::wait_until("it is used", || carried(&network, "h1", "b") > 20);
    network.apply(&source(&single), &Overrides::default()).unwrap();
    assert!(client.wait().success() && server.wait().success());
}

/// The same links, in the same order, with the bond and without it: what a switch in the host has counted and chosen is not a bond's.
#[test]
fn links_become_a_bond_and_are_links_again() {
    let Some(bed) = Bed::new() else { return };
    bed.with_workers(2);
    let links = "
name: pair
spread: packet-scatter
nodes: { h1: host, h2: host, h3: host, s1: switch }
links:
  - { between: [h2, s1] }
  - { between: [h3, s1] }
  - { between: [h3, s1] }
  - { between: [h1, s1] }
  - { between: [h1, s1] }
";
    let bonded = |host: &str| format!("{links}bonds: [{{ host: {host}, mode: balance-rr }}]\n");
    let network = bed.up("pair", links);
    for text in [links, &bonded("h1"), links, &bonded("h3"), links] {
        network.apply(&source(text), &Overrides::default()).unwrap();
        for (from, to) in [("h1", "h2"), ("h2", "h1"), ("h1", "h3"), ("h3", "h1")] {
            bed::ping(&network, from, &[], 4, to);
        }
    }
    let links = network.counters().unwrap().links;
    let both: Vec<u64> = links.iter().filter(|link| link.a == "h1").map(|link| link.forward.packets).collect();
    assert!(both.len() == 2 && both.iter().all(|packets| *packets > 8), "{both:?}");
}

/// Everybody reaches everybody, by unicast and by multicast, and servers carry what is not for them.
fn reaches_everybody(network: &Instance) {
    for from in SERVERS {
        for to in SERVERS.into_iter().filter(|to| *to != from) {
            bed::ping(network, from, &[], 4, to);
        }
    }
    wait_for_answers(network, "h1", SERVERS.len());
    // Both servers between two others carry what those say to each other.
    let through = |server: &str, to: &str| {
        let forwarded = network.counters().unwrap().forwarded;
        forwarded.iter().find(|row| (&*row.switch, &*row.host) == (server, to)).map_or(0, |row| row.packets)
    };
    let rows = [("h2", "h4"), ("h3", "h4"), ("h2", "h1"), ("h3", "h1")];
    let before = rows.map(|(server, to)| through(server, to));
    bed::ping(network, "h1", &[], 10, "h4");
    bed::carry(network, "h1", "h4", "1M");
    for ((server, to), before) in rows.into_iter().zip(before) {
        assert!(through(server, to) >= before + 4, "through {server} to {to}: {:?}", network.counters());
    }
}

#[test]
fn servers_of_a_bcube_forward_for_each_other() {
    let Some(bed) = Bed::new() else { return };
    bed.with_workers(2);
    let network = bed.up("bcube", BCUBE);
    reaches_everybody(&network);
    // The only way that is left from h1 leads through h3, h4 and h2 in a row.
    set(&network, "h1", "s0.1", false);
    let before = carried(&network, "h4", "s1.2");
    bed::ping(&network, "h1", &[], 4, "h2");
    assert!(carried(&network, "h4", "s1.2") >= before + 8);
    wait_for_answers(&network, "h1", SERVERS.len());
    set(&network, "h1", "s0.1", true);
    reaches_everybody(&network);
}

#[test]
fn servers_forward_where_links_have_rates() {
    let Some(bed) = Bed::new() else { return };
    bed.with_workers(2);
    let network = bed.up("bcube", &format!("{BCUBE}links: {{ rate: 100Mbit, delay: 100us, queue: 1000 }}\n"));
    reaches_everybody(&network);
}

/// One and the same host, with two links each time: whether it forwards decides whether there is a way.
#[test]
fn a_host_that_stops_forwarding_is_no_way_any_more() {
    let Some(bed) = Bed::new() else { return };
    let ring = |forward: bool| {
        format!(
            "
name: ring
nodes: {{ h1: host, h2: {{ kind: host, forward: {forward} }}, h3: host, a: switch, b: switch, c: switch }}
links:
  - {{ between: [h1, a] }}
  - {{ between: [h2, a] }}
  - {{ between: [h2, b] }}
  - {{ between: [h3, b] }}
  - {{ between: [a, c] }}
  - {{ between: [c, b] }}
"
        )
    };
    let network = bed.up("ring", &ring(true));
    set(&network, "a", "c", false);
    bed::ping(&network, "h1", &[], 4, "h3");
    let applied = network.apply(&source(&ring(false)), &Overrides::default()).unwrap();
    assert_eq!(applied.changed, ["h2"]);
    let refused = || network.counters().unwrap().refused.no_route;
    let before = refused();
    let mut ping = network.command("h1", "ping", ["-4", "-c", "2", "-i", "0.1", "-W", "1", "h3"]).unwrap();
    assert!(!ping.output().unwrap().status.success());
    assert!(refused() >= before + 2);
    bed::ping(&network, "h1", &[], 2, "h2");
    bed::ping(&network, "h2", &[], 2, "h3");
    set(&network, "a", "c", true);
    bed::ping(&network, "h1", &[], 4, "h3");
}
