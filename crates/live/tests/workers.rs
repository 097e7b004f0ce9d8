//! Workers that share switches: where nothing waits on links, each has all of them, and hosts are dealt out.

use crate::bed::{self, Bed, source};
use fabric::{LinkSetting, Overrides};
use live::Instance;

/// Five hosts at one switch: `h1`, `h2` and `h3` are one worker's, `h4` is the other's, and so is all that only it sends. `h5` has a bond: what goes to it
/// or comes from it passes the first worker.
const STAR: &str = "
name: star
nodes: { h1: host, h2: host, h3: host, h4: host, h5: host, s1: switch }
links:
  - { between: [h1, s1] }
  - { between: [h2, s1] }
  - { between: [h3, s1] }
  - { between: [h4, s1] }
  - { between: [h5, s1] }
  - { between: [h5, s1] }
bonds: [{ host: h5, mode: balance-rr }]
";

const HOSTS: [&str; 5] = ["h1", "h2", "h3", "h4", "h5"];

fn star() -> Option<(Bed, Instance)> {
    let bed = Bed::new()?;
    bed.with_workers(2);
    let network = bed.up("star", STAR);
    assert_eq!(network.status().unwrap().workers, 2);
    Some((bed, network))
}

/// What the network has taken from a host, what its links have carried to it, and what it was handed.
fn counted(network: &Instance, host: &str) -> [u64; 3] {
    let counters = network.counters().unwrap();
    let port = counters.ports.iter().find(|port| port.host == host).unwrap();
    let links = counters.links.iter().filter(|link| link.a == host);
    [port.traffic.sent_packets, links.map(|link| link.backward.packets).sum(), port.traffic.received_packets]
}

/// Whether each worker has been busy for longer than it takes to start.
fn have_all_worked(network: &Instance) -> bool {
    network.counters().unwrap().workers.iter().all(|worker| worker.busy.as_secs_f64() > 0.001)
}

#[test]
fn all_hosts_reach_each_other_through_a_shared_switch() {
    let Some((_bed, network)) = star() else { return };
    for from in HOSTS {
        for to in HOSTS.into_iter().filter(|to| *to != from) {
            bed::ping(&network, from, &[], 1, to);
        }
    }
    // Within a worker, between two, and over the bond.
    bed::carry(&network, "h1", "h2", "2M");
    bed::carry(&network, "h4", "h5", "2M");
    bed::carry(&network, "h5", "h1", "2M");
    bed::wait_until("both workers have had work", || {
        bed::carry(&network, "h1", "h4", "8M");
        have_all_worked(&network)
    });
    let counters = network.counters().unwrap();
    let rows: Vec<_> = counters.forwarded.iter().map(|row| (row.switch.as_str(), row.host.as_str())).collect();
    assert_eq!(rows, HOSTS.map(|host| ("s1", host)), "what both have forwarded is one row");
}

/// Two requests from each of two hosts at two workers to `h1`: both hand it frames, and each has a count of its own for its link.
#[test]
fn what_two_workers_have_counted_is_added_up_and_stays_when_the_network_changes() {
    let Some((_bed, network)) = star() else { return };
    let ask = |network: &Instance, sizes: &str| {
        for from in ["h2", "h4"] {
            bed::ping(network, from, &["-4", "-s", sizes], 5, "h1");
        }
    };
    ask(&network, "1000");
    let carried = |network: &Instance| counted(network, "h1")[1];
    let before = carried(&network);
    assert!(before >= 10, "{before}");
    let more = STAR.replace("h5: host,", "h5: host, h6: host,").replace("bonds:", "  - { between: [h6, s1] }\nbonds:");
    for text in [more.as_str(), STAR, &more] {
        let before = carried(&network);
        network.apply(&source(text), &Overrides::default()).unwrap();
        let after = carried(&network);
        // Hosts speak by themselves now and then, but not so much.
        assert!((before..before + 10).contains(&after), "{after} packets, before {before}");
        ask(&network, "100");
    }
    assert!(carried(&network) >= before + 3 * 10);
    bed::ping(&network, "h6", &[], 2, "h1");
}

/// With routes that stay as they are, each worker's own wire has no carrier, and counts what it is offered.
#[test]
fn a_link_that_is_pulled_takes_nothing_from_any_worker() {
    let Some(bed) = Bed::new() else { return };
    bed.with_workers(2);
    let network = bed.up("star", &format!("{STAR}routes: fixed\n"));
    let cut = || network.counters().unwrap().links[0].backward.cut;
    for from in ["h2", "h4"] {
        // It knows where it is: a question about it would be answered by the network.
        bed::ping(&network, from, &["-4"], 1, "h1");
    }
    network.set_link("h1", "s1", None, false).unwrap();
    for from in ["h2", "h4"] {
        let before = cut();
        let mut ping = network.command(from, "ping", ["-4", "-c", "2", "-i", "0.1", "-W", "1", "h1"]).unwrap();
        assert!(!ping.output().unwrap().status.success());
        assert!(cut() >= before + 2, "{from}: {} lost, before {before}", cut());
    }
    network.set_link("h1", "s1", None, true).unwrap();
    for from in ["h2", "h4"] {
        bed::ping(&network, from, &["-4"], 2, "h1");
    }
}

/// A rate makes packets wait for each other: what is shared is one worker's again, and back.
#[test]
fn a_network_gets_rates_and_loses_them() {
    let Some((_bed, network)) = star() else { return };
    let slow = Overrides::from([LinkSetting::Rate(50_000_000)]);
    for overrides in [&slow, &Overrides::default(), &slow, &Overrides::default()] {
        network.apply(&source(STAR), overrides).unwrap();
        for (from, to) in [("h1", "h4"), ("h4", "h5"), ("h5", "h2")] {
            bed::ping(&network, from, &[], 2, to);
        }
    }
}

/// Two senders at two workers, and all others hear of both.
#[test]
fn null_devices_of_two_workers_send_to_all_others() {
    let Some(bed) = Bed::new() else { return };
    bed.with_workers(2);
    let network = bed.up(
        "nobody",
        "
name: nobody
nodes:
  a: { kind: host, devices: ['null:64'] }
  b: { kind: host, devices: ['null:'] }
  c: { kind: host, devices: ['null:'] }
  d: { kind: host, devices: ['null:64'] }
  s1: switch
links:
  - { between: [a, s1] }
  - { between: [b, s1] }
  - { between: [c, s1] }
  - { between: [d, s1] }
",
    );
    bed::wait_until("each has sent and been handed frames", || {
        let sent = |host| counted(&network, host)[0];
        let handed = |host| counted(&network, host)[2];
        let have_all_heard = ["a", "b", "c", "d"].iter().all(|host| handed(host) > 1_000);
        ["a", "d"].iter().all(|host| sent(host) > 1_000) && have_all_heard && have_all_worked(&network)
    });
    let counters = network.counters().unwrap();
    assert_eq!(counters.refused.unknown_destination, 0);
}

/// Frames of 64 KiB: there are buffers for 4,096 of them.
const FLOODED: &str = "
name: flooded
nodes: { h1: host, h2: host, h3: host, h4: host, s1: switch }
mtu: 65521
links:
  - { between: [h1, s1], delay: 10s }
  - { between: [h2, s1], rate: 1Gbit, queue: 1000000 }
  - { between: [h3, s1], rate: 1Gbit }
  - { between: [h4, s1], rate: 1Gbit }
";

#[test]
fn a_link_that_is_flooded_leaves_other_hosts_their_packets() {
    let Some(bed) = Bed::new() else { return };
    bed.with_workers(1);
    let network = bed.up("flooded", FLOODED);
    let flood = bed::Running::start(network.command("h1", "ping", ["-q", "-f", "-l", "8000", "h2"]));
    let refused = || network.counters().unwrap().refused;
    bed::wait_until("the link from h1 has its share of the buffers", || refused().buffer_share > 1_000);
    bed::ping(&network, "h3", &[], 5, "h4");
    assert_eq!(refused().no_buffer, 0);
    drop(flood);
}
