//! Programs in hosts that change what is the network's.

use crate::bed::{self, Bed, output, source};
use fabric::Overrides;

const PAIR: &str = "
name: pair
nodes: { h1: { kind: host, ipv4: 10.0.0.7 }, h2: host, s1: switch }
links: [ { between: [h1, s1] }, { between: [s1, h2] } ]
";

fn ping(network: &live::Instance, address: &str) {
    bed::ping(network, "h2", &[], 2, address);
}

#[test]
fn a_host_without_ipv6_can_change_its_address() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("pair", PAIR);
    output(network.command("h1", "sh", ["-c", "echo 1 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6"]));
    network.apply(&source(&PAIR.replace("10.0.0.7", "10.0.0.8")), &Overrides::default()).unwrap();
    ping(&network, "10.0.0.8");
}

#[test]
fn a_change_that_fails_half_way_is_undone() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("pair", PAIR);
    // The new IPv6 address is taken already, so the change fails after the IPv4 address has changed.
    output(network.command("h1", "ip", ["addr", "add", "fd68:6564:646c::77/64", "dev", "eth0", "nodad"]));
    let both = PAIR.replace("10.0.0.7", "10.0.0.8, ipv6: \"fd68:6564:646c::77\"");
    let error = network.apply(&source(&both), &Overrides::default()).unwrap_err();
    assert!(error.to_string().contains("h1"), "{error}");
    assert!(error.hint().is_some());
    ping(&network, "10.0.0.7");
    assert!(output(network.command("h2", "cat", ["/etc/hosts"])).contains("10.0.0.7 h1"));
    // What was in the way has gone with the undoing.
    network.apply(&source(&both), &Overrides::default()).unwrap();
    ping(&network, "10.0.0.8");
}

#[test]
fn a_device_that_takes_the_name_of_another_is_reported_with_what_to_do() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("pair", PAIR);
    output(network.command("h1", "ip", ["link", "del", "eth0"]));
    output(network.command("h1", "ip", ["link", "add", "eth0", "type", "veth", "peer", "name", "other"]));
    let error = network.apply(&source(PAIR), &Overrides::default()).unwrap_err();
    assert!(error.to_string().contains("h1"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("a program in the host")), "{error}");
    output(network.command("h1", "ip", ["link", "del", "eth0"]));
    network.apply(&source(PAIR), &Overrides::default()).unwrap();
    ping(&network, "10.0.0.7");
}

#[test]
fn names_that_cannot_be_written_change_nothing() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("pair", PAIR);
    let folder = bed.folder.path().join("heddle/pair");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let names = names.into_iter().find(|path| path.to_str().unwrap().contains("hosts-")).unwrap();
    std::fs::remove_file(&names).unwrap();
    std::fs::create_dir(&names).unwrap();
    let other = source(&PAIR.replace("10.0.0.7", "10.0.0.8"));
    let error = network.apply(&other, &Overrides::default()).unwrap_err();
    assert!(error.to_string().contains("write the hosts'"), "{error}");
    std::fs::remove_dir(&names).unwrap();
    std::fs::write(&names, "").unwrap();
    ping(&network, "10.0.0.7");
}

#[test]
fn a_host_that_removes_its_device_gets_a_new_one() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("pair", PAIR);
    output(network.command("h1", "ip", ["link", "del", "eth0"]));
    let losses = || network.counters().unwrap().ports[0].traffic.device_losses;
    assert!(bed::soon(|| losses() == 1), "{}", losses());
    assert!(bed::falls_asleep(network.status().unwrap().pid), "it looks for the device all the time");
    assert_eq!(losses(), 1);
    let applied = network.apply(&source(PAIR), &Overrides::default()).unwrap();
    assert_eq!((applied.changed.as_slice(), applied.kept), (&["h1".to_owned()][..], 4));
    ping(&network, "10.0.0.7");
}

#[test]
fn the_daemon_keeps_nothing_of_who_started_it() {
    let Some(bed) = Bed::new() else { return };
    let kept = std::fs::File::open(bed.folder.path()).unwrap();
    // A descriptor without close-on-exec, as a shell hands them on.
    let inherited = nix::unistd::dup(&kept).unwrap();
    let network = bed.up("pair", PAIR);
    let pid = network.status().unwrap().pid;
    assert_eq!(std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap().to_str(), Some("/"));
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let open: Vec<_> = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok()).collect();
    assert!(!open.iter().any(|path| path == bed.folder.path()), "{open:?}");
    drop(inherited);
}

/// The hosts whose frames go nowhere are known.
#[test]
fn refusals_are_counted_for_the_host_that_sent() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("pair", PAIR);
    output(network.command("h2", "ip", ["neigh", "add", "10.0.0.99", "lladdr", "02:00:00:00:00:99", "dev", "eth0"]));
    let mut ping = network.command("h2", "ping", ["-c", "3", "-i", "0.1", "-W", "1", "10.0.0.99"]).unwrap();
    assert!(!ping.output().unwrap().status.success());
    let counters = network.counters().unwrap();
    let of = |host: &str| {
        let port = counters.ports.iter().find(|port| port.host == host).expect("each host has a port");
        port.traffic.refused.unknown_destination
    };
    assert_eq!((of("h1"), of("h2")), (0, 3), "{counters:#?}");
    assert_eq!(counters.refused.unknown_destination, 3);
}
