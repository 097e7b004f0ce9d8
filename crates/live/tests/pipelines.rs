//! Switches that do more than to forward: the pipelines of the simulator's tests, with real packets.

use crate::bed::{self, Bed, Running};
use live::Instance;

/// In the order that the pipelines expect: client, virtual server, server, monitor.
const NODES: &str = "nodes: { h1: host, h2: host, h3: host, h4: host, s1: switch, s2: switch }";

fn received(network: &Instance, host: &str) -> (u64, u64) {
    let counters = network.counters().unwrap();
    let traffic = counters.ports.iter().find(|port| port.host == host).unwrap().traffic;
    (traffic.received_packets, traffic.received_bytes)
}

fn sent(network: &Instance, host: &str) -> u64 {
    let counters = network.counters().unwrap();
    counters.ports.iter().find(|port| port.host == host).unwrap().traffic.sent_bytes
}

/// TCP between kernels: what leaves in whole segments of 64 KiB, and what is cut into packets where links have rates, must have addresses, ports and
/// IP sums that the receiver's kernel believes. The sums of TCP are left to others by kernels on one machine, and not looked at: `wire` tests them.
#[test]
fn a_translated_connection_reaches_the_server_and_the_monitor_sees_it() {
    let Some(bed) = Bed::new() else { return };
    for (workers, rate) in [(1, ""), (2, ", rate: 200 Mbit/s, delay: 100 us")] {
        bed.with_workers(workers);
        let text = format!(
            "name: translating\n{NODES}\nlinks:\n  - {{ between: [h1, s1] }}\n  - {{ between: [h2, s1] }}\n  \
             - {{ between: [h3, s2] }}\n  - {{ between: [h4, s1] }}\n  - {{ between: [s1, s2]{rate} }}\n"
        );
        let network = bed.up("translating", &text);
        let server = Running::iperf3_server(network.command("h3", "iperf3", ["-s", "-1", "-p", "5202"]));
        bed::output(network.command("h1", "iperf3", ["-4", "-c", "h2", "-p", "5201", "-R", "-n", "4M"]));
        drop(server);
        let (_, to_client) = received(&network, "h1");
        let (_, to_monitor) = received(&network, "h4");
        assert!(to_client > 4 << 20);
        assert!(to_monitor > 4 << 20, "{to_monitor} of {to_client}");
        assert!(sent(&network, "h2") < 100_000, "the host whose address it is has nothing to say");
        // What is not for the virtual server's port is not touched.
        bed::ping(&network, "h1", &[], 3, "h2");
        let (_, to_server) = received(&network, "h3");
        let own = Running::iperf3_server(network.command("h2", "iperf3", ["-s", "-1", "-p", "5203"]));
        bed::output(network.command("h1", "iperf3", ["-4", "-c", "h2", "-p", "5203", "-R", "-n", "256K"]));
        drop(own);
        assert!(sent(&network, "h2") > 256 << 10);
        assert!(received(&network, "h3").1 < to_server + (100 << 10));
        network.down().unwrap();
    }
}

#[test]
fn control_machines_greet_each_other_before_anything_passes() {
    let Some(bed) = Bed::new() else { return };
    bed.with_workers(2);
    let links = "links:\n  - { between: [h1, s1] }\n  - { between: [h2, s2] }\n  - { between: [h3, s1] }\n  \
                 - { between: [h4, s2] }\n  - { between: [s1, s2] }\n";
    let network = bed.up("greeting", &format!("name: greeting\n{NODES}\n{links}"));
    // The first question may come before the first greeting.
    bed::output(network.command("h1", "ping", ["-c", "1", "-w", "60", "h2"]));
    bed::ping(&network, "h1", &[], 5, "h2");
    let crossed = |network: &Instance| {
        let counters = network.counters().unwrap();
        let link = counters.links.iter().find(|link| (link.a.as_str(), link.b.as_str()) == ("s1", "s2")).unwrap();
        (link.forward.packets, link.backward.packets)
    };
    let wait_for_greetings = || {
        let before = crossed(&network);
        bed::wait_until("they go on greeting", || {
            let now = crossed(&network);
            now.0 > before.0 + 5 && now.1 > before.1 + 5
        });
    };
    wait_for_greetings();
    // They are kept through a change that leaves graph and addresses as they are, and made anew by another one.
    for change in ["spread: ecmp", "mtu: 1400"] {
        let text = format!("name: greeting\n{change}\n{NODES}\n{links}");
        network.apply(&bed::source(&text), &fabric::Overrides::default()).unwrap();
        bed::output(network.command("h1", "ping", ["-c", "1", "-w", "60", "h2"]));
        wait_for_greetings();
    }
    let moved = format!("name: greeting\n{NODES}\n{links}").replace("h4: host", "h4: { kind: host, ipv4: 10.9.9.9 }");
    network.apply(&bed::source(&moved), &fabric::Overrides::default()).unwrap();
    bed::output(network.command("h1", "ping", ["-c", "1", "-w", "60", "h2"]));
    wait_for_greetings();
}

#[test]
fn a_circle_that_takes_no_time_is_counted_and_ends() {
    let Some(bed) = Bed::new() else { return };
    bed.with_workers(1);
    let links = "links:\n  - { between: [h1, s1] }\n  - { between: [h2, s2] }\n  - { between: [s1, s2] }\n  \
                 - { between: [h3, s1] }\n  - { between: [h4, s2] }\n";
    let network = bed.up("circling", &format!("name: circling\n{NODES}\n{links}"));
    let mut ping = Running::start(network.command("h1", "ping", ["-i", "0.05", "h2"]));
    bed::wait_until("it is counted", || network.counters().unwrap().refused.looped > 0);
    assert!(ping.is_running());
}
