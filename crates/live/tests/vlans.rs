//! VLANs of ports, learned addresses and storm control with the kernels of real hosts.

use crate::bed::{self, Bed, Running};
use crate::far_ends::{frame, receive, with_far_ends};
use live::control::MacEntry;
use live::packet::PacketPort;
use live::port::Port;
use live::{Instance, VNET_HEADER};
use wire::{ArpOperation, ArpPacket, ArpRepr, BROADCAST, EthernetPacket, EthernetRepr, ethertype};

/// Hosts a1, b1 at s1 and a2, b2 at s2: a in VLAN 10, b in VLAN 20.
fn vlans(rate: &str) -> String {
    format!(
        "\
name: vlans
nodes: {{ a1: host, b1: host, a2: host, b2: host, s1: switch, s2: switch }}
links:
  - {{ between: [a1, s1]{rate} }}
  - {{ between: [b1, s1]{rate} }}
  - {{ between: [a2, s2]{rate} }}
  - {{ between: [b2, s2]{rate} }}
  - {{ between: [s1, s2]{rate} }}
switches:
  s1: {{ ports: {{ a1: {{ tag: 10 }}, b1: {{ tag: 20 }}, s2: {{ trunks: [10, 20] }} }} }}
  s2: {{ ports: {{ a2: {{ tag: 10 }}, b2: {{ tag: 20 }} }} }}
"
    )
}

fn received(network: &Instance, host: &str) -> u64 {
    let counters = network.counters().unwrap();
    counters.ports.iter().find(|port| port.host == host).unwrap().traffic.received_packets
}

fn ip(network: &Instance, host: &str, args: &str) {
    bed::output(network.command(host, "ip", args.split(' ')));
}

/// What a switch has learned.
fn learned(network: &Instance, switch: &str) -> Vec<MacEntry> {
    let mut switches = network.macs(Some(switch)).unwrap();
    let mut entries = switches.remove(0).entries;
    entries.retain(|entry| entry.age_s.is_some());
    entries
}

#[test]
fn hosts_hear_those_of_their_vlan_and_nobody_else() {
    let Some(bed) = Bed::new() else { return };
    for (workers, rate) in [(2, ""), (1, ", rate: 200 Mbit/s, delay: 100 us")] {
        bed.with_workers(workers);
        let network = bed.up("vlans", &vlans(rate));
        bed::ping(&network, "a1", &["-4"], 3, "a2");
        bed::ping(&network, "b2", &["-6"], 3, "b1");
        bed::carry(&network, "a1", "a2", "4M");
        bed::carry(&network, "b2", "b1", "4M");
        // Nobody answers for a host in another VLAN.
        let output = network.command("a1", "ping", ["-4", "-c", "1", "b1"]).unwrap().output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!output.status.success() && text.contains("Unreachable"), "{text}");
        // Who knows the address all the same does not reach it.
        let fabric = fabric::parse(&bed::source(&vlans(rate))).unwrap();
        let mac = fabric.topology.address(fabric.topology.node("b2").unwrap()).unwrap().mac;
        let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
        ip(&network, "a1", &format!("neigh replace 10.0.0.4 lladdr {mac} dev eth0"));
        let lost = Running::start(network.command("a1", "ping", ["-4", "-i", "0.02", "10.0.0.4"]));
        bed::wait_until("its frames are dropped", || network.counters().unwrap().refused.vlan > 3);
        drop(lost);
        let before = ["a2", "b1", "b2"].map(|host| received(&network, host));
        bed::output(network.command("a1", "sh", ["-c", "ping -4 -b -q -c 300 -i 0.002 -W 1 10.255.255.255 || true"]));
        bed::wait_until("all of its VLAN hear it", || received(&network, "a2") >= before[0] + 300);
        for (host, before) in ["b1", "b2"].into_iter().zip(&before[1..]) {
            assert!(received(&network, host) < before + 300, "{host} hears what is for another VLAN");
        }
        network.down().unwrap();
    }
}

const TRUNK: &str = "
name: trunk
nodes: { a: host, b: host, t: { kind: host, devices: [dev0] }, s1: switch, s2: switch }
links:
  - between: [a, s1]
  - between: [b, s1]
  - between: [t, s2]
  - between: [s1, s2]
switches:
  s1: { ports: { a: { tag: 10 }, b: { tag: 20 } } }
  s2: { ports: { t: { trunks: [10] } } }
";

/// A question of the host at the trunk about an address, with or without a tag.
fn question(about: [u8; 4], vlan: Option<u16>) -> Vec<u8> {
    let own = fabric::parse(&bed::source(TRUNK)).unwrap().topology;
    let own = own.address(own.node("t").unwrap()).unwrap().clone();
    let message = ArpRepr {
        operation: ArpOperation::Request,
        sender_mac: own.mac,
        sender_ipv4: own.ipv4,
        target_mac: [0; 6],
        target_ipv4: about.into(),
    };
    let header = EthernetRepr { dst: BROADCAST, src: own.mac, vlan, ethertype: ethertype::ARP };
    let mut frame = vec![0; VNET_HEADER + header.buffer_len() + message.buffer_len()];
    header.emit(&mut frame[VNET_HEADER..]);
    message.emit(&mut frame[VNET_HEADER + header.buffer_len()..]);
    frame
}

#[test]
fn a_host_at_a_trunk_sees_the_frames_of_its_vlans_with_their_tags() {
    with_far_ends(|bed, [mut far, _]| {
        let network = bed.up("trunk", TRUNK);
        let answer = |far: &mut PacketPort| loop {
            let frame = receive(far).split_off(VNET_HEADER);
            let ethernet = EthernetPacket::new_checked(&frame).unwrap();
            if ethernet.ethertype() == ethertype::ARP {
                let message = ArpRepr::parse(&ArpPacket::new_checked(ethernet.payload()).unwrap());
                return (ethernet.vlan().map(|tci| tci & 0xfff), message.operation, message.sender_ipv4.octets());
            }
        };
        // It is not answered without a tag, nor about whom it does not hear.
        send(&mut far, &question([10, 0, 0, 1], None));
        send(&mut far, &question([10, 0, 0, 2], Some(10)));
        send(&mut far, &question([10, 0, 0, 1], Some(20)));
        send(&mut far, &question([10, 0, 0, 1], Some(10)));
        assert_eq!(answer(&mut far), (Some(10), ArpOperation::Reply, [10, 0, 0, 1]));
        // What a says to all comes to it with the tag, what b says does not.
        let asks = |host: &str, about: &str| Running::start(network.command(host, "ping", ["-4", about]));
        let (b, a) = (asks("b", "10.0.0.98"), asks("a", "10.0.0.99"));
        assert_eq!(answer(&mut far), (Some(10), ArpOperation::Request, [10, 0, 0, 1]));
        assert_eq!(answer(&mut far), (Some(10), ArpOperation::Request, [10, 0, 0, 1]));
        drop((a, b));
        network.down().unwrap();
    });
}

#[test]
fn ports_change_their_vlans_while_packets_go_on() {
    let Some(bed) = Bed::new() else { return };
    bed.with_workers(2);
    let text = vlans("");
    let (plain, _) = text.split_once("switches:").unwrap();
    let network = bed.up("changing", plain);
    bed::ping(&network, "a1", &["-4"], 3, "b2");
    let apply = |text: &str| network.apply(&bed::source(text), &fabric::Overrides::default()).unwrap();
    let applied = apply(&text);
    assert_eq!(applied.changed, ["s1", "s2"]);
    bed::ping(&network, "a1", &["-4"], 3, "a2");
    assert_eq!(apply(&text).changed, [""; 0]);
    assert_eq!(apply(&text.replace("b2: { tag: 20 }", "b2: { tag: 10 }")).changed, ["s2"]);
    bed::ping(&network, "a1", &["-4"], 3, "b2");
    assert_eq!(apply(plain).changed, ["s1", "s2"]);
    bed::ping(&network, "b1", &["-4"], 3, "a2");
    network.down().unwrap();
}

/// An address that no file has.
const STATION: &str = "02:aa:00:00:00:01";

/// A station in a host with an address of its own, as containers have one.
#[test]
fn addresses_in_hosts_are_learned_move_and_are_forgotten() {
    let Some(bed) = Bed::new() else { return };
    for (workers, rate) in [(2, ""), (1, ", rate: 200 Mbit/s, delay: 100 us")] {
        bed.with_workers(workers);
        let text = format!(
            "\
name: learning
nodes: {{ h1: host, h2: host, h3: host, s1: switch, s2: switch }}
links:
  - {{ between: [h1, s1]{rate} }}
  - {{ between: [h2, s1]{rate} }}
  - {{ between: [h3, s2]{rate} }}
  - {{ between: [s1, s2]{rate} }}
"
        );
        let network = bed.up("learning", &text);
        let station = |host: &str| {
            ip(&network, host, &format!("link add link eth0 name mv0 address {STATION} type macvlan mode bridge"));
            ip(&network, host, "addr add 192.168.9.1/24 dev mv0");
            // The host itself answers for its own addresses only.
            bed::output(network.command(host, "sysctl", ["-w", "net.ipv4.conf.all.arp_ignore=1"]));
            ip(&network, host, "link set mv0 up");
        };
        station("h1");
        ip(&network, "h3", "addr add 192.168.9.3/24 dev eth0");
        bed::ping(&network, "h3", &[], 3, "192.168.9.1");
        let known = |host: &str, port: u16| {
            let is_it = |entry: &MacEntry| (&*entry.host, entry.port, &*entry.mac) == (host, port, STATION);
            learned(&network, "s1").iter().any(is_it)
        };
        assert!(known("h1", 0), "{:?}", network.macs(None));
        assert!(learned(&network, "s2").is_empty());
        // What the file says is there as well.
        let of_file = network.macs(Some("s1")).unwrap().remove(0).entries;
        assert_eq!(of_file.iter().filter(|entry| entry.age_s.is_none()).count(), 2);
        // It is carried over to another file.
        network.apply(&bed::source(&format!("{text}mtu: 1400\n")), &fabric::Overrides::default()).unwrap();
        assert!(known("h1", 0));
        ip(&network, "h1", "link del mv0");
        station("h2");
        ip(&network, "h3", "neigh flush all");
        bed::ping(&network, "h3", &[], 3, "192.168.9.1");
        assert!(known("h2", 1) && !known("h1", 0), "{:?}", network.macs(None));
        assert!(network.flush_macs(Some("s2")).unwrap() == 0 && network.flush_macs(Some("s1")).unwrap() >= 1);
        assert!(matches!(network.flush_macs(Some("s9")), Err(live::Error::Refused { .. })));
        network.down().unwrap();
    }
}

/// A ring of switches: what is flooded comes once.
const EXTERNAL: &str = "
name: external
nodes: { h1: host, g0: { kind: host, devices: [dev0] }, g1: { kind: host, devices: [dev1] }, s1: switch, s2: switch, s3: switch }
links:
  - between: [h1, s1]
  - between: [g0, s1]
  - between: [g1, s2]
  - between: [s1, s2]
  - between: [s2, s3]
  - between: [s3, s1]
";

/// The next frame of a test that comes by a port.
fn next_of_test(port: &mut impl Port) -> Vec<u8> {
    loop {
        let frame = receive(port).split_off(VNET_HEADER);
        if frame[12..14] == [0x88, 0xb5] {
            return frame;
        }
    }
}

fn send(port: &mut PacketPort, frame: &[u8]) {
    port.write(frame).unwrap();
    port.flush();
}

fn between(from: u8, to: u8, mark: u8) -> Vec<u8> {
    let mut frame = frame(60, mark);
    frame[VNET_HEADER..][..12].copy_from_slice(&[2, 0xaa, 0, 0, 0, to, 2, 0xaa, 0, 0, 0, from]);
    frame
}

#[test]
fn what_is_for_an_unknown_address_goes_to_whom_it_may_be_for_until_it_is_known() {
    with_far_ends(|bed, [mut far0, mut far1]| {
        bed.with_workers(2);
        let network = bed.up("external", EXTERNAL);
        send(&mut far0, &between(1, 2, 7));
        assert_eq!(next_of_test(&mut far1)[14], 7);
        send(&mut far1, &between(2, 1, 8));
        assert_eq!(next_of_test(&mut far0)[14], 8);
        let of_test = |switch| {
            let mut entries = learned(&network, switch);
            // The far ends' kernels may have sent frames of their own, such as IPv6's.
            entries.retain(|entry| entry.mac.starts_with("02:aa:"));
            entries
        };
        let [one, two] = [of_test("s1"), of_test("s2")];
        assert_eq!((one.len(), &*one[0].mac, &*one[0].host), (1, "02:aa:00:00:00:01", "g0"));
        assert_eq!((two.len(), &*two[0].mac, &*two[0].host), (1, "02:aa:00:00:00:02", "g1"));
        // What is behind the port by which it comes goes nowhere.
        send(&mut far0, &between(3, 1, 9));
        send(&mut far0, &between(1, 2, 10));
        assert_eq!(next_of_test(&mut far1)[14], 10);
        assert_eq!(network.counters().unwrap().refused.unknown_destination, 0);
        network.down().unwrap();
    });
}

#[test]
fn a_storm_passes_as_fast_as_its_port_may_send() {
    with_far_ends(|bed, [mut far0, mut far1]| {
        let limited = format!("{EXTERNAL}switches: {{ s1: {{ ports: {{ g0: {{ storm-control: 10/s }} }} }} }}\n");
        let network = bed.up("storm", &limited);
        for mark in 0..100 {
            send(&mut far0, &between(1, 2, mark));
        }
        let dropped = || network.counters().unwrap().refused.storm_control;
        bed::wait_until("most are dropped", || dropped() >= 50);
        assert_eq!(next_of_test(&mut far1)[14], 0);
        // Addresses that are known are not limited.
        send(&mut far1, &between(2, 1, 8));
        assert_eq!(next_of_test(&mut far0)[14], 8);
        // It comes behind all that were limited.
        send(&mut far0, &between(1, 2, 200));
        while next_of_test(&mut far1)[14] != 200 {}
        let before = dropped();
        for mark in 100..200 {
            send(&mut far0, &between(1, 2, mark));
        }
        while next_of_test(&mut far1)[14] != 199 {}
        assert_eq!(dropped(), before);
        network.down().unwrap();
    });
}
