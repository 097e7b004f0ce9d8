//! Links go down, and packets take the ways that are left.

use crate::bed::{self, Bed, source};
use fabric::Overrides;
use live::Instance;

/// Two racks with two ways between them; each packet takes the next one.
const RACKS: &str = "
name: racks
spread: packet-scatter
nodes: { h1: host, h2: host, s1: switch, s2: switch, a: switch, b: switch }
links:
  - { between: [h1, s1] }
  - { between: [h2, s2] }
  - { between: [s1, a] }
  - { between: [s1, b] }
  - { between: [s2, a] }
  - { between: [s2, b] }
";

fn set(network: &Instance, a: &str, b: &str, up: bool) {
    assert_eq!(network.set_link(a, b, None, up).unwrap().changed, 1);
}

/// Packets that a spine has taken so far.
fn through(network: &Instance, spine: &str) -> u64 {
    let counters = network.counters().unwrap();
    let of_spine = counters.links.iter().filter(|link| link.b == spine);
    of_spine.map(|link| link.forward.packets).sum()
}

fn ping_all(network: &Instance) {
    bed::ping(network, "h1", &[], 10, "h2");
}

/// A link fails at the switch that sends, or at one that it cannot see: no packet is sent there from then on.
#[test]
fn no_packet_is_lost_once_a_link_is_known_to_be_down() {
    let Some(bed) = Bed::new() else { return };
    bed.with_workers(2);
    let network = bed.up("racks", RACKS);
    ping_all(&network);
    assert!(through(&network, "a") > 0 && through(&network, "b") > 0);
    for near in ["s1", "s2"] {
        set(&network, near, "a", false);
        let before = through(&network, "a");
        ping_all(&network);
        assert_eq!(through(&network, "a"), before);
        set(&network, near, "a", true);
        ping_all(&network);
        assert!(through(&network, "a") > before, "it is used again");
    }
}

#[test]
fn without_any_way_packets_are_counted_and_go_on_when_there_is_one() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("racks", RACKS);
    set(&network, "s1", "a", false);
    set(&network, "s2", "b", false);
    let mut ping = network.command("h1", "ping", ["-c", "3", "-i", "0.02", "-W", "0.1", "h2"]).unwrap();
    assert!(!ping.output().unwrap().status.success());
    let refused = network.counters().unwrap().refused;
    assert!(refused.no_route >= 3, "{refused:?}");
    set(&network, "s1", "a", true);
    ping_all(&network);
}

#[test]
fn a_new_file_keeps_to_what_is_down() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("racks", RACKS);
    set(&network, "s2", "a", false);
    for text in [RACKS.replace("[h1, s1]", "[h1, s1], rate: 1Gbit"), RACKS.replace("packet-scatter", "ecmp")] {
        network.apply(&source(&text), &Overrides::default()).unwrap();
        let before = through(&network, "a");
        ping_all(&network);
        assert_eq!(through(&network, "a"), before);
    }
}

#[test]
fn fixed_routes_stay_as_they_are() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("racks", &format!("{RACKS}routes: fixed\n"));
    set(&network, "s2", "a", false);
    let mut ping = network.command("h1", "ping", ["-c", "10", "-i", "0.02", "-W", "1", "h2"]).unwrap();
    let text = String::from_utf8(ping.output().unwrap().stdout).unwrap();
    // Of ten requests every second one goes by `a`, and so does every second answer.
    let lost = (1..=10).filter(|number| !text.contains(&format!("icmp_seq={number} "))).count();
    assert!((5..10).contains(&lost), "{text}");
    let links = network.counters().unwrap().links;
    let cut: u64 = links.iter().map(|link| link.forward.cut + link.backward.cut).sum();
    assert!(cut >= lost as u64, "{cut} of {lost}");
}

/// What a host's kernel says of its device.
fn device(network: &Instance) -> String {
    bed::output(network.command("h1", "ip", ["link", "show", "dev", "eth0"]))
}

#[test]
fn a_hosts_device_has_the_carrier_of_its_link() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("racks", RACKS);
    assert!(device(&network).contains("LOWER_UP"), "{}", device(&network));
    set(&network, "h1", "s1", false);
    bed::wait_until("its kernel has noticed", || device(&network).contains("NO-CARRIER"));
    // Another file does not put the cable in.
    network.apply(&source(&RACKS.replace("packet-scatter", "ecmp")), &Overrides::default()).unwrap();
    assert!(device(&network).contains("NO-CARRIER"), "{}", device(&network));
    set(&network, "h1", "s1", true);
    bed::wait_until("its kernel sends again", || device(&network).contains("state UP"));
    ping_all(&network);
}

#[test]
fn a_host_that_gets_another_cable_has_a_carrier_again() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("racks", RACKS);
    set(&network, "h1", "s1", false);
    bed::wait_until("its kernel has noticed", || device(&network).contains("NO-CARRIER"));
    network.apply(&source(&RACKS.replace("[h1, s1]", "[h1, b]")), &Overrides::default()).unwrap();
    bed::wait_until("its kernel sends again", || device(&network).contains("state UP"));
    ping_all(&network);
}
