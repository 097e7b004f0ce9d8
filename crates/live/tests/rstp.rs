//! RSTP of live switches: a ring of three, whose links fail, and two that a bridge joins which the file does not know.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::bed::{self, Bed};
use crate::far_ends::{ip, with_far_ends};
use live::port::Port as _;
use live::{Instance, VNET_HEADER};
use rstp::{PortState, Role};
use wire::{BPDU_FRAME, BpduFlags, BpduKind, BpduRepr};

const RING: &str = "\
name: ring
nodes: { h1: host, h2: host, h3: host, s1: switch, s2: switch, s3: switch }
links:
  - { between: [h1, s1] }
  - { between: [h2, s2] }
  - { between: [h3, s3] }
  - { between: [s1, s2] }
  - { between: [s2, s3] }
  - { between: [s3, s1] }
switches:
  s3: { rstp: { priority: 4096 } }
";

/// The ports to other switches that do not forward, once there are so many.
fn closed(network: &Instance, count: usize) -> Vec<(String, String)> {
    let begin = Instant::now();
    loop {
        let bridges = network.bridges().unwrap();
        let root = &bridges[0].status.root;
        let agree = bridges.iter().all(|bridge| bridge.status.root == *root);
        let ports = bridges.iter().flat_map(|bridge| {
            let ports = bridge.status.ports.iter().zip(&bridge.peers);
            let closed = ports.filter(|(port, _)| port.has_link && port.state != PortState::Forwarding);
            closed.map(|(_, peer)| (bridge.switch.clone(), peer.clone()))
        });
        let ports: Vec<_> = ports.collect();
        if agree && ports.len() == count {
            return ports;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{bridges:#?}");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_ring_of_three_switches_is_a_tree_and_finds_another_one() {
    let Some(bed) = Bed::new() else { return };
    bed.with_workers(2);
    let network = bed.up("ring", RING);
    // Neither leads to the root, and s1 or s2 is designated there.
    let shut = closed(&network, 1);
    assert!(
        [("s1", "s2"), ("s2", "s1")].iter().any(|(a, b)| shut[0] == ((*a).to_owned(), (*b).to_owned())),
        "{shut:?}"
    );
    let status = &network.bridges().unwrap()[0].status;
    assert_eq!(status.ports[0].role, Role::Designated);
    assert!(status.ports[0].is_edge);
    for (from, to) in [("h1", "h2"), ("h2", "h3"), ("h3", "h1")] {
        bed::ping(&network, from, &["-4"], 3, to);
    }
    network.set_link("s1", "s3", None, false).unwrap();
    closed(&network, 0);
    bed::ping(&network, "h1", &["-4"], 3, "h3");
    network.set_link("s1", "s3", None, true).unwrap();
    closed(&network, 1);
    bed::ping(&network, "h1", &["-4"], 3, "h3");
}

/// When the tree changes, a switch does not know any more behind which of its ports a station is that it has heard of by another switch.
#[test]
fn stations_behind_other_switches_are_forgotten_when_the_tree_changes() {
    const STATION: &str = "02:00:00:00:be:ef";
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("stations", RING);
    closed(&network, 1);
    let run = |command: &str| {
        let words: Vec<&str> = command.split(' ').collect();
        bed::output(network.command("h2", words[0], words[1..].iter().copied()));
    };
    run(&format!("ip link add link eth0 name mv0 address {STATION} type macvlan mode bridge"));
    run("ip addr add 192.168.9.1/24 dev mv0");
    run("sysctl -w net.ipv4.conf.all.arp_ignore=1");
    run("ip link set mv0 up");
    bed::output(network.command("h1", "ip", ["addr", "add", "192.168.9.3/24", "dev", "eth0"]));
    bed::ping(&network, "h1", &[], 3, "192.168.9.1");
    // The station says nothing by itself.
    run("ip link del mv0");
    let is_known = || {
        let entries = network.macs(None).unwrap().into_iter().flat_map(|switch| switch.entries);
        entries.into_iter().any(|entry| entry.mac == STATION)
    };
    assert!(is_known());
    network.set_link("s1", "s3", None, false).unwrap();
    bed::wait_until("it is forgotten", || !is_known());
}

const JOINED: &str = "\
name: joined
nodes:
  h1: host
  h2: host
  o1: { kind: host, devices: [dev0] }
  o2: { kind: host, devices: [dev1] }
  s1: switch
  s2: switch
links:
  - { between: [h1, s1] }
  - { between: [o1, s1] }
  - { between: [h2, s2] }
  - { between: [o2, s2] }
  - { between: [s1, s2] }
switches: { s1: { rstp: true } }
";

/// A station on the bridge is heard of by both, each time by the one that asked it last.
#[test]
fn switches_that_an_external_bridge_alone_joins_reach_all_stations() {
    with_far_ends(|bed, far| {
        drop(far);
        // It passes BPDUs on, as a cable with several ends would.
        ip("link add br0 type bridge stp_state 0");
        ip("link set far0 master br0");
        ip("link set far1 master br0");
        ip("addr add 10.0.9.9/8 dev br0");
        let network = bed.up("joined", JOINED);
        ip("link set br0 up");
        closed(&network, 1);
        for host in ["h1", "h2", "h1"] {
            bed::ping(&network, host, &["-4"], 3, "10.0.9.9");
        }
        bed::ping(&network, "h1", &["-4"], 3, "h2");
        network.set_link("s1", "s2", None, false).unwrap();
        closed(&network, 0);
        // Routes follow ports.
        bed::wait_until("what each sends goes by the bridge", || {
            let ping = network.command("h1", "ping", ["-4", "-c", "1", "-W", "1", "h2"]);
            ping.unwrap().output().unwrap().status.success()
        });
        for host in ["h1", "h2", "h1", "h2"] {
            bed::ping(&network, host, &["-4"], 3, "10.0.9.9");
        }
        bed::ping(&network, "h1", &["-4"], 3, "h2");
        bed::ping(&network, "h2", &["-4"], 3, "h1");
        network.set_link("s1", "s2", None, true).unwrap();
        closed(&network, 1);
        bed::ping(&network, "h1", &["-4"], 3, "h2");
        bed::ping(&network, "h2", &["-4"], 3, "10.0.9.9");
        network.down().unwrap();
    });
}

const GUARDED: &str = "\
name: guarded
nodes: { h1: host, o1: { kind: host, devices: [dev0] }, s1: switch }
links: [{ between: [h1, s1] }, { between: [o1, s1] }]
switches: { s1: { rstp: true, ports: { o1: { bpdu-guard: true } } } }
";

/// Who has shut his port by a BPDU is neither heard nor answered; what a bond says to its neighbour (LACP) is for the port itself.
#[test]
fn a_closed_port_takes_and_answers_nothing_but_what_is_said_to_neighbours() {
    with_far_ends(|bed, [mut far, _]| {
        let network = bed.up("guarded", GUARDED);
        let mut send = |frame: &[u8]| {
            far.write(&[&[0; VNET_HEADER], frame].concat()).unwrap();
            far.flush();
        };
        let bpdu = BpduRepr {
            kind: BpduKind::Rst,
            flags: BpduFlags(0x0c),
            root: 1,
            root_path_cost: 0,
            bridge: 1,
            port: 0x8001,
            message_age: 0,
            max_age: 20 * 256,
            hello_time: 2 * 256,
            forward_delay: 15 * 256,
        };
        let mut frame = [0; BPDU_FRAME];
        bpdu.emit([2, 0, 0, 0, 9, 9], &mut frame);
        send(&frame);
        bed::wait_until("its port is shut", || network.bridges().unwrap()[0].status.ports[1].is_guarded);
        let to = |mac: [u8; 6]| [&mac[..], &[2, 0, 0, 0, 9, 9, 0x88, 0x09], &[1; 46]].concat();
        (0..100).for_each(|_| send(&to([0x01, 0x80, 0xc2, 0, 0, 2])));
        send(&to([0xff; 6]));
        let counters = || network.counters().unwrap();
        let came =
            || counters().ports.iter().find(|port| port.host == "o1").map_or(0, |port| port.traffic.sent_packets);
        bed::wait_until("all have come", || came() > 101);
        bed::wait_until("what is for everybody is dropped", || counters().refused.discarding > 0);
        // The kernel at the far end may have said something, too.
        let discarded = counters().refused.discarding;
        assert!(discarded < 100, "{discarded}");
        network.down().unwrap();
    });
}
