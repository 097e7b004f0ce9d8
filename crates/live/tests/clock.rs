//! A network that has run for months: its clock is set back while packets are under way, and nobody notices.

use std::time::Duration;

use crate::bed::{self, Bed, Running};
use live::Instance;

/// Two hosts with two links each, and a switch for each: what they agree on by LACP, and tell each other by LLDP, is forgotten within seconds.
const PAIR: &str = "
name: aged
nodes: { h1: host, h2: host, s1: switch, s2: switch }
link-defaults: { rate: 100Mbit, delay: 1ms, queue: 1000 }
links:
  - between: [h1, s1]
  - { between: [h1, s1], delay: 3ms }
  - between: [h2, s2]
  - { between: [h2, s2], delay: 3ms }
  - between: [s1, s2]
bonds:
  - { host: h1, mode: 802.3ad, lacp-rate: fast, reorder: on }
  - { host: h2, mode: balance-rr, reorder: on }
";

const SET_BACK: &str = "the clock was set back by 30 days";

/// A network whose clock is set back for the first time within a few seconds.
fn up(bed: &Bed) -> Instance {
    for _ in 0..10 {
        // Pipelines of its switches greet each other each millisecond.
        let network = bed.up("aged", PAIR);
        let converged = || network.counters().unwrap().bonds.iter().all(|bond| bond.members.iter().all(|it| it.sends));
        assert!(bed::soon(converged), "{:?}", network.counters().unwrap().bonds);
        bed::output(network.command("h1", "ping", ["-c", "1", "-w", "60", "h2"]));
        if !log(bed).contains(SET_BACK) {
            return network;
        }
        // The machine was too busy to bring it up in time.
        network.down().unwrap();
    }
    panic!("no network came up in time:\n{}", log(bed));
}

fn log(bed: &Bed) -> String {
    std::fs::read_to_string(bed.folder.path().join("heddle/aged/log")).unwrap()
}

/// What has passed between the switches: data, and greetings all the time.
fn greetings(network: &Instance) -> u64 {
    let links = network.counters().unwrap().links;
    let link = links.iter().find(|link| (link.a.as_str(), link.b.as_str()) == ("s1", "s2")).unwrap();
    link.forward.packets
}

#[test]
fn a_clock_is_set_back_and_nothing_is_lost_or_late() {
    let Some(bed) = Bed::new() else { return };
    for workers in [1, 2] {
        bed.with_workers(workers);
        let network = up(&bed);
        let server = Running::iperf3_server(network.command("h2", "iperf3", ["-s"]));
        let mut client = Running::start(network.command("h1", "iperf3", ["-c", "h2", "-b", "10M", "-t", "600"]));
        let before = network.counters().unwrap();
        while !log(&bed).contains(SET_BACK) {
            bed::ping(&network, "h1", &[], 20, "h2");
        }
        bed::ping(&network, "h2", &[], 20, "h1");
        assert!(client.is_running());
        drop((client, server));

        // Whoever is not heard in time is given up after three seconds, and that is logged.
        std::thread::sleep(Duration::from_secs(5));
        let (_, since) =
            log(&bed).split_once(SET_BACK).map(|(before, since)| (before.to_owned(), since.to_owned())).unwrap();
        assert_eq!(since.trim(), "", "something has changed");
        let after = network.counters().unwrap();
        assert!(after.bonds.iter().all(|bond| bond.carrier && bond.members.iter().all(|it| it.sends)), "{after:#?}");
        assert!(after.at > before.at && after.at.as_secs_f64() > 60.0 * 86_400.0, "{:?}", after.at);
        assert!(network.status().unwrap().uptime_ms > 60 * 86_400_000);
        let greeted = greetings(&network);
        bed::wait_until("switches go on greeting", || greetings(&network) > greeted + 5);

        // Timers that are set now run, too: a member that is lost is replaced, and comes back.
        for up in [false, true] {
            network.set_link("h1", "s1", Some(1), up).unwrap();
            bed::ping(&network, "h1", &[], 5, "h2");
        }
        network.down().unwrap();
    }
}
