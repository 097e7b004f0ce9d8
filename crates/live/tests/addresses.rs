//! Which address peers know a host by whose bond has several: with `fail_over_mac` at made hosts, and what hosts behind devices announce.

use std::io::{BufRead, BufReader};

use crate::bed::{self, Bed, output};
use live::Instance;

/// A host with two members, and two peers.
const PEERS: &str = "
name: peers
nodes: { h1: host, h2: host, h3: host, s1: switch }
link-defaults: { rate: 100Mbit, delay: 20us, queue: 250 }
links:
  - between: [h1, s1]
  - between: [h1, s1]
  - between: [h2, s1]
  - between: [h3, s1]
bonds:
  - { host: h1, mode: active-backup, fail-over-mac: POLICY }
";

/// The addresses of `h1`, by family.
const H1: [(&str, &str); 2] = [("-4", "10.0.0.1"), ("-6", "fd68:6564:646c::1")];

/// Pings `h1` in both families.
fn ping(network: &Instance, from: &str) {
    for (family, to) in H1 {
        bed::ping(network, from, &[family], 3, to);
    }
}

/// The MAC addresses by which a peer knows `h1`, by family.
fn known(network: &Instance, peer: &str) -> [Option<String>; 2] {
    H1.map(|(family, to)| {
        let text = output(network.command(peer, "ip", [family, "neighbour", "show", to]));
        let mut words = text.split_whitespace().skip_while(|word| *word != "lladdr");
        words.nth(1).map(str::to_owned)
    })
}

/// Takes a cable of `h1` out, or puts it in.
fn set_member(network: &Instance, number: u32, up: bool) {
    let set = network.set_link("h1", "s1", Some(number), up).unwrap();
    assert_eq!(set.changed, 1);
}

/// Takes a cable of `h1` out while `h2` pings it: no more is lost than was on its way to the member that failed, and pings go on.
fn fail_over_while_pinging(network: &Instance, member: u32) {
    let mut ping = network.command("h2", "ping", ["-i", "0.01", "-w", "120", "10.0.0.1"]).unwrap();
    let mut ping = ping.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(ping.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut answered = |count: usize| -> Vec<u64> {
        let lines = lines.by_ref().inspect(|line| assert!(!line.contains("DUP!"), "{line}"));
        lines.filter_map(|line| line.split_once("icmp_seq=")?.1.split(' ').next()?.parse().ok()).take(count).collect()
    };
    let before = answered(20);
    let lost = || -> u64 {
        let counters = network.counters().unwrap();
        let cut: u64 = counters.links.iter().map(|link| link.forward.cut + link.backward.cut).sum();
        let refused = &counters.refused;
        cut + refused.unknown_destination + refused.no_route + refused.no_member
    };
    let lost_before = lost();
    set_member(network, member, false);
    // What was answered before may still be unread.
    let after = answered(200);
    assert_eq!((before.len(), after.len()), (20, 200), "answers in two minutes");
    let all: Vec<u64> = before.into_iter().chain(after).collect();
    let missing = all.last().unwrap() - all.len() as u64;
    let lost = lost() - lost_before;
    ping.kill().unwrap();
    ping.wait().unwrap();
    assert!(missing <= lost, "{missing} pings are missing, {lost} were lost on the cable or sent to the old address");
}

/// With `fail_over_mac: active` peers hear by a gratuitous ARP and an unsolicited advertisement that the host has the address of the
/// member that took over, those also that do not talk to it; the host's own device keeps its address.
#[test]
fn the_address_of_the_member_that_takes_over_is_announced() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("peers", &PEERS.replace("POLICY", "active"));
    ping(&network, "h2");
    ping(&network, "h3");
    let own = output(network.command("h1", "cat", ["/sys/class/net/eth0/address"])).trim().to_owned();
    let first = [Some(own.clone()), Some(own.clone())];
    assert_eq!(known(&network, "h2"), first);
    assert_eq!(known(&network, "h3"), first);
    fail_over_while_pinging(&network, 1);
    let second = known(&network, "h2");
    assert!(second[0].is_some() && second[0] == second[1] && second != first, "{second:?}");
    assert!(bed::soon(|| known(&network, "h3") == second), "{:?}", known(&network, "h3"));
    for peer in ["h2", "h3"] {
        ping(&network, peer);
    }
    assert_eq!(output(network.command("h1", "cat", ["/sys/class/net/eth0/address"])).trim(), own);
    // The host asks and is asked again, under the other address.
    output(network.command("h3", "ip", ["neighbour", "flush", "all"]));
    output(network.command("h1", "ip", ["neighbour", "flush", "all"]));
    ping(&network, "h3");
    assert_eq!(known(&network, "h3"), second);
    // The first member comes back, and peers know the second's address until that one fails.
    set_member(&network, 1, true);
    fail_over_while_pinging(&network, 2);
    for peer in ["h2", "h3"] {
        assert!(bed::soon(|| known(&network, peer) == first), "{:?}", known(&network, peer));
    }
}

/// With `follow` and `none` the host's one address moves to the member that takes over: peers know no other.
#[test]
fn the_one_address_moves_where_the_bond_keeps_it() {
    let Some(bed) = Bed::new() else { return };
    for policy in ["none", "follow"] {
        let network = bed.up("peers", &PEERS.replace("POLICY", policy));
        ping(&network, "h2");
        let before = known(&network, "h2");
        for (down, up) in [(1, 1), (2, 2), (1, 1)] {
            fail_over_while_pinging(&network, down);
            assert_eq!(known(&network, "h2"), before, "{policy}");
            set_member(&network, up, true);
        }
    }
}

/// Two hosts whose bonds lie back to back, and one whose switch has a bond as well: what is announced comes to who is there.
#[test]
fn peers_without_plain_ports_between_hear_it_too() {
    let Some(bed) = Bed::new() else { return };
    let direct = "
name: direct
nodes: { h1: host, h2: host }
links: [{ between: [h1, h2] }, { between: [h1, h2] }]
bonds: [{ between: [h1, h2], mode: active-backup, fail-over-mac: active }]
";
    let bonded = PEERS.replace("POLICY", "active, ends: { s1: { mode: active-backup } }");
    for (text, far) in [(direct, "h2"), (&bonded, "s1")] {
        let network = bed.up("peers", text);
        ping(&network, "h2");
        let first = known(&network, "h2");
        for (down, up) in [(1, 1), (2, 2)] {
            let before = known(&network, "h2");
            network.set_link("h1", far, Some(down), false).unwrap();
            assert!(bed::soon(|| known(&network, "h2") != before), "{far}: {before:?}");
            ping(&network, "h2");
            network.set_link("h1", far, Some(up), true).unwrap();
        }
        assert_eq!(known(&network, "h2"), first, "{far}");
    }
}
