//! A small network comes up, carries packets, changes, and goes.

use std::time::Instant;

use crate::bed::{self, Bed, output, source};
use fabric::{LinkSetting, Overrides};

const PAIR: &str = "
name: pair
nodes: { h1: host, h2: host, s1: switch }
links: [ { between: [h1, s1] }, { between: [s1, h2] } ]
";

/// Links of 40 Mbit/s and 1 ms: four of them on the way there and back.
const SLOW: &str = "
name: pair
nodes: { h1: host, h2: host, s1: switch }
link-defaults: { rate: 40Mbit, delay: 1ms, queue: 100 }
links: [ { between: [h1, s1] }, { between: [s1, h2] } ]
";

const DIRECT: &str = "
name: direct
nodes: { h1: host, h2: host }
links: [ { between: [h1, h2] } ]
";

/// Carries bytes by the slow links at this rate: they take no less than their time. How much longer is the machine's.
fn carry_no_faster(network: &live::Instance, rate_bps: f64) {
    let carried = || network.counters().unwrap().links[1].forward.bytes;
    let (started, before) = (Instant::now(), carried());
    bed::carry(network, "h1", "h2", "4M");
    let bits = (carried() - before) as f64 * 8.0;
    // A link counts what it takes, so a queue of 100 packets may still be waiting.
    let (seconds, least) = (started.elapsed().as_secs_f64(), (bits - 100.0 * 1_514.0 * 8.0) / rate_bps);
    assert!(bits > 3e7 && seconds >= least, "{bits} bits in {seconds} s, expected {least} s");
}

#[test]
fn hosts_reach_each_other_by_name() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("pair", PAIR);
    for family in ["-4", "-6"] {
        bed::ping(&network, "h1", &[family], 2, "h2");
    }
    assert_eq!(output(network.command("h2", "hostname", ["-s"])).trim(), "h2");
    let counters = network.counters().unwrap();
    assert_eq!(counters.links[0].b, "s1");
    assert!(counters.links[0].forward.packets >= 4 && counters.links[1].forward.packets >= 4, "{counters:?}");
    assert!(counters.forwarded.iter().any(|entry| entry.switch == "s1" && entry.host == "h2" && entry.packets >= 4));
    network.down().unwrap();
    assert!(bed.is_empty());
}

#[test]
fn two_hosts_on_one_link_need_no_switch() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("direct", DIRECT);
    bed::ping(&network, "h1", &[], 2, "h2");
}

#[test]
fn links_have_their_rate_and_delay() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("slow", SLOW);
    let ping = bed::ping(&network, "h1", &[], 5, "h2");
    let mut times: Vec<f64> =
        ping.split("time=").skip(1).filter_map(|rest| rest.split(' ').next()?.parse().ok()).collect();
    times.sort_by(f64::total_cmp);
    // 4 ms of delay and 4 x 19.6 us of transmission (98 bytes at 40 Mbit/s), and no less: how much more is the machine's. The median,
    // since ping goes by the wall clock, which may be set while it runs.
    let median = times[times.len() / 2];
    assert!(median >= 4.07, "{ping}");

    carry_no_faster(&network, 40e6);
    let counters = network.counters().unwrap();
    assert!(
        counters.flows.iter().any(|flow| flow.reordering.is_some_and(|seen| seen.segments > 1_000)),
        "{:?}",
        counters.flows
    );

    // A case of a plan changes rates while the network is up.
    let half = Overrides::from([LinkSetting::Rate(20_000_000)]);
    let applied = network.apply(&source(SLOW), &half).unwrap();
    assert_eq!((applied.changed.len(), applied.kept), (2, 3), "{applied:?}");
    carry_no_faster(&network, 20e6);
}

#[test]
fn a_faster_link_sends_what_waits_at_its_new_rate() {
    let Some(bed) = Bed::new() else { return };
    let slow = SLOW.replace("40Mbit", "10kbit");
    let network = bed.up("slow", &slow);
    // 0.8 s each on the wire: half a minute of them.
    let crowd = network.command("h1", "ping", ["-q", "-c", "40", "-i", "0.01", "-s", "1000", "-W", "3", "h2"]);
    let crowd = bed::Running::start(crowd);
    let crowded = || network.counters().unwrap().links[0].forward.packets >= 30;
    assert!(bed::soon(crowded), "the link is crowded");
    let fast = Overrides::from([LinkSetting::Rate(1_000_000_000)]);
    network.apply(&source(&slow), &fast).unwrap();
    bed::ping(&network, "h1", &[], 2, "h2");
    drop(crowd);
}

#[test]
fn a_connection_survives_a_change_of_everything_around_it() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("pair", PAIR);
    let server = bed::Running::iperf3_server(network.command("h2", "iperf3", ["-s", "-1"]));
    let client = bed::Running::start(network.command("h1", "iperf3", ["-c", "h2", "-n", "5M", "-b", "5M"]));
    let begun = || network.counters().unwrap().links[1].forward.packets > 20;
    assert!(bed::soon(begun), "the connection carries data");
    // Shaped, another switch and host, another MTU's worth of offloads, and back.
    let more = SLOW
        .replace("s1: switch", "s1: switch, s2: switch, h3: host")
        .replace("links: [", "links: [ { between: [h3, s2] }, { between: [s2, s1] },");
    let applied = network.apply(&source(&more), &Overrides::default()).unwrap();
    assert_eq!(applied.created, ["h3", "s2", "link h3-s2", "link s2-s1"]);
    assert_eq!(applied.changed, ["s1", "link h1-s1", "link s1-h2"]);
    output(network.command("h3", "ping", ["-c", "1", "-W", "60", "h1"]));
    let sleeping = bed::Running::start(network.command("h3", "sleep", ["600"]));
    let applied = network.apply(&source(PAIR), &Overrides::default()).unwrap();
    assert_eq!(applied.removed, ["h3", "s2", "link h3-s2", "link s2-s1"]);
    assert!(!sleeping.wait().success(), "a process in a removed host is ended");
    assert!(client.wait().success() && server.wait().success());
    assert!(network.apply(&source(PAIR), &Overrides::default()).unwrap().is_empty());
}

#[test]
fn a_wrong_file_changes_nothing() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("pair", PAIR);
    let before = network.status().unwrap();
    let wrong = PAIR.replace("[s1, h2]", "[s1, h9]");
    let error = network.apply(&source(&wrong), &Overrides::default()).unwrap_err();
    assert!(error.to_string().contains("h9"), "{error}");
    let after = network.status().unwrap();
    assert_eq!((before.hosts, before.links, before.file), (after.hosts, after.links, after.file));
    let error = network.command("h9", "true", ["x"]).unwrap_err();
    assert!(error.to_string().contains("`h9` is not a host"), "{error}");
}

#[test]
fn a_network_that_nobody_uses_costs_nothing() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up(
        "tree",
        "name: tree\ntopology: { fat-tree: { k: 4 } }\nlinks: { rate: 100Mbit, delay: 50us, queue: 100 }\n",
    );
    assert!(bed::falls_asleep(network.status().unwrap().pid), "it is awake all the time");
}

#[test]
fn two_workers_carry_what_one_does() {
    let Some(bed) = Bed::new() else { return };
    bed.with_workers(2);
    let network = bed.up(
        "tree",
        "name: tree\ntopology: { fat-tree: { k: 4 } }\nlinks: { rate: 100Mbit, delay: 50us, queue: 100 }\n",
    );
    assert_eq!(network.status().unwrap().workers, 2);
    bed::carry(&network, "h1", "h16", "8M");
    let counters = network.counters().unwrap();
    assert_eq!(counters.workers.len(), 2);
    // Both have had work.
    assert!(counters.workers.iter().all(|worker| worker.busy.as_secs_f64() > 0.001), "{:?}", counters.workers);
}
