//! Workers that share switches: where nothing waits on links, each has all of them, and hosts are dealt out.

use crate::bed::{self, Bed, source};
use fabric::Overrides;
use live::Instance;

/// Five hosts at one switch. `h5` has a bond: what goes to it changes the worker, there and back.
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

#[test]
fn all_hosts_reach_each_other_through_a_shared_switch() {
    let Some((_bed, network)) = star() else { return };
    for from in HOSTS {
        for to in HOSTS.into_iter().filter(|to| *to != from) {
            bed::ping(&network, from, &[], 1, to);
        }
    }
    // Both directions at once, so that both workers hand frames to each host.
    bed::carry(&network, "h1", "h4", "8M");
    bed::carry(&network, "h4", "h5", "2M");
    bed::carry(&network, "h5", "h1", "2M");
    let counters = network.counters().unwrap();
    assert!(counters.workers.iter().all(|worker| worker.busy.as_secs_f64() > 0.001), "{:?}", counters.workers);
    let rows: Vec<_> = counters.forwarded.iter().map(|row| (row.switch.as_str(), row.host.as_str())).collect();
    assert_eq!(rows, HOSTS.map(|host| ("s1", host)), "what both have forwarded is one row");
}

/// The counts of both are one.
#[test]
fn what_two_workers_have_counted_is_added_up_and_stays_when_the_network_changes() {
    let Some((_bed, network)) = star() else { return };
    for from in ["h1", "h2", "h5"] {
        bed::ping(&network, from, &[], 5, "h4");
    }
    bed::wait_until("h4 was handed all that its link has carried", || {
        let [_, carried, handed] = counted(&network, "h4");
        // It was also handed answers to its own questions about neighbours, which cross no link.
        carried >= 15 && handed >= carried
    });
    let before = counted(&network, "h4");
    let more = STAR.replace("h5: host,", "h5: host, h6: host,").replace("bonds:", "  - { between: [h6, s1] }\nbonds:");
    for text in [more.as_str(), STAR, &more] {
        network.apply(&source(text), &Overrides::default()).unwrap();
        let after = counted(&network, "h4");
        assert!(after.iter().zip(before).all(|(after, before)| *after >= before), "{after:?}, before {before:?}");
        for from in ["h1", "h2", "h5"] {
            bed::ping(&network, from, &[], 2, "h4");
        }
    }
    bed::ping(&network, "h6", &[], 2, "h1");
}

#[test]
fn a_link_that_is_pulled_takes_nothing_from_any_worker() {
    let Some((_bed, network)) = star() else { return };
    network.set_link("h4", "s1", None, false).unwrap();
    let before = counted(&network, "h4");
    for from in ["h1", "h3"] {
        let mut ping = network.command(from, "ping", ["-4", "-c", "1", "-W", "1", "h4"]).unwrap();
        assert!(!ping.output().unwrap().status.success());
    }
    assert_eq!(counted(&network, "h4")[1..], before[1..]);
    network.set_link("h4", "s1", None, true).unwrap();
    for from in ["h1", "h3"] {
        bed::ping(&network, from, &["-4"], 2, "h4");
    }
}

/// A rate makes packets wait for each other: what is shared is one worker's again, and back.
#[test]
fn a_network_gets_rates_and_loses_them() {
    let Some((_bed, network)) = star() else { return };
    let slow = Overrides { rate_bps: Some(50_000_000), ..Overrides::default() };
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
        ["a", "d"].iter().all(|host| sent(host) > 1_000) && ["a", "b", "c", "d"].iter().all(|host| handed(host) > 1_000)
    });
    let counters = network.counters().unwrap();
    assert!(counters.workers.iter().all(|worker| worker.busy.as_secs_f64() > 0.001), "{:?}", counters.workers);
    assert_eq!(counters.refused.unknown_destination, 0);
}
