//! Bonds that carry real TCP of real programs.

use crate::bed::{self, Bed, Running, output, source};
use fabric::{BondSetting, Overrides, Reordering};
use live::Instance;

/// Two hosts with two links each, of 20 Mbit/s; one member takes 900 us longer than the other, more than a frame takes.
const PAIR: &str = "
name: pair
nodes: { h1: host, h2: host, s1: switch }
link-defaults: { rate: 20Mbit, delay: 100us, queue: 100 }
links:
  - between: [h1, s1]
  - { between: [h1, s1], delay: 1ms }
  - between: [h2, s1]
  - { between: [h2, s1], delay: 1ms }
bonds:
  - { host: h1 }
  - { host: h2 }
";

fn overrides(mode: &str, reorder: Reordering) -> Overrides {
    Overrides::from([BondSetting::Mode(mode.parse().expect("it is a mode")), BondSetting::Reorder(reorder)])
}

/// Takes the member of `host`'s bond with this number down, or up.
fn set_member(network: &Instance, host: &str, number: u32, up: bool) {
    let set = network.set_link(host, "s1", Some(number), up).unwrap();
    assert_eq!((set.links, set.changed, set.up), (vec![format!("{host}-s1:{number}")], 1, up));
}

/// A cable is pulled, then the other one instead, while a connection sends: it goes on, and both ends of the bond know at once.
#[test]
fn a_connection_survives_the_loss_of_each_member() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("pair", PAIR);
    for mode in ["balance-rr", "active-backup", "balance-xor", "802.3ad", "balance-tlb"] {
        network.apply(&source(PAIR), &overrides(mode, Reordering::Off)).unwrap();
        await_members(&network, mode);
        let server = Running::iperf3_server(network.command("h2", "iperf3", ["-s"]));
        let mut client = Running::start(network.command("h1", "iperf3", ["-c", "h2", "-t", "600"]));
        await_data(&network, mode);
        for (down, up) in [(1, None), (2, Some(1))] {
            if let Some(up) = up {
                set_member(&network, "h1", up, true);
                // LACP brings a member back when its partner has said so.
                await_members(&network, mode);
            }
            set_member(&network, "h1", down, false);
            let counters = network.counters().unwrap();
            let is_down = |node: &str| {
                let bond = counters.bonds.iter().find(|bond| bond.node == node && bond.members[0].to != "h2");
                bond.map(|bond| (bond.members[down as usize - 1].link.clone(), bond.members[down as usize - 1].sends))
            };
            assert_eq!(is_down("h1"), Some(("down".to_owned(), false)), "{mode}");
            await_data(&network, mode);
        }
        assert!(client.is_running(), "{mode}: the connection has ended");
        drop((client, server));
        set_member(&network, "h1", 2, true);
    }
}

/// Waits until all members of all bonds that may send do so.
fn await_members(network: &Instance, mode: &str) {
    let sending = if mode == "active-backup" { 1 } else { 2 };
    let are_ready = || {
        network.counters().unwrap().bonds.iter().all(|bond| {
            let up = bond.members.iter().filter(|member| member.link == "up").count();
            let sends = bond.members.iter().filter(|member| member.sends).count();
            up == bond.members.len() && sends == sending
        })
    };
    assert!(bed::soon(are_ready), "{mode}: {:?}", network.counters().unwrap().bonds);
}

/// Waits until a thousand more packets have come to `h2`.
fn await_data(network: &Instance, mode: &str) {
    let came = || -> u64 { to_h2(network).iter().sum() };
    let before = came();
    assert!(bed::soon(|| came() > before + 1_000), "{mode}: the connection stands still: {:?}", to_h2(network));
}

/// Packets to `h2` by each of its members.
fn to_h2(network: &Instance) -> Vec<u64> {
    let links = network.counters().unwrap().links;
    links.iter().filter(|link| link.a == "h2").map(|link| link.backward.packets).collect()
}

/// What is down stays so when the file changes something else, and bonds that are made anew know of it.
#[test]
fn a_link_stays_down_while_it_is_in_the_file() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("pair", PAIR);
    set_member(&network, "h1", 1, false);
    network.apply(&source(PAIR), &overrides("active-backup", Reordering::Off)).unwrap();
    let counters = network.counters().unwrap();
    let states: Vec<bool> = counters.links.iter().filter(|link| link.a == "h1").map(|link| link.up).collect();
    assert_eq!(states, [false, true]);
    let at_h1 = counters.bonds.iter().find(|bond| bond.node == "h1").expect("h1 has a bond");
    assert_eq!((at_h1.members[0].link.as_str(), at_h1.members[1].sends), ("down", true), "{at_h1:?}");
    bed::ping(&network, "h1", &[], 3, "h2");
    // Without the other one there is no path; what is sent is counted.
    network.set_link("h1", "s1", None, false).unwrap();
    let mut ping = network.command("h1", "ping", ["-c", "2", "-i", "0.05", "-W", "1", "h2"]).unwrap();
    assert!(!ping.output().unwrap().status.success());
    network.set_link("s1", "h1", None, true).unwrap();
    bed::ping(&network, "h1", &[], 3, "h2");
    for (a, b, number, word) in
        [("h1", "s2", None, "s2"), ("h1", "h2", None, "no link"), ("h1", "s1", Some(3), "2 links")]
    {
        let error = network.set_link(a, b, number, false).unwrap_err();
        assert!(error.to_string().contains(word) && error.hint().is_some(), "{error}");
    }
}

/// A link outside of bonds loses what is on it and what is sent on it; the counters say how much.
#[test]
fn a_plain_link_that_is_down_loses_everything_and_counts_it() {
    let Some(bed) = Bed::new() else { return };
    let text = "nodes: { h1: host, h2: host, s1: switch }
link-defaults: { rate: 20Mbit }
links: [{ between: [h1, s1] }, { between: [h2, s1], delay: 10s }]
";
    let network = bed.up("plain", text);
    let ping = Running::start(network.command("h1", "ping", ["-4", "-c", "1", "-W", "600", "h2"]));
    assert!(
        bed::soon(|| network.counters().unwrap().links[1].backward.packets > 0),
        "the request is on its second link"
    );
    let set = network.set_link("s1", "h2", None, false).unwrap();
    assert_eq!((set.links, set.changed), (vec!["h2-s1".to_owned()], 1));
    let set = network.set_link("s1", "h2", None, true).unwrap();
    assert_eq!(set.changed, 1);
    let counters = network.counters().unwrap();
    assert_eq!((counters.links[1].backward.cut, counters.links[0].forward.cut), (1, 0), "{:?}", counters.links);
    drop(ping);
    network.apply(&source(&text.replace("10s", "1ms")), &Overrides::default()).unwrap();
    output(network.command("h1", "ping", ["-c", "1", "-W", "60", "h2"]));
}

#[test]
fn one_connection_gets_two_links_when_arrivals_are_put_in_order() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("pair", PAIR);
    network.apply(&source(PAIR), &overrides("balance-rr", Reordering::On)).unwrap();
    bed::carry(&network, "h1", "h2", "6M");
    let by_member = to_h2(&network);
    assert!(by_member[0].abs_diff(by_member[1]) <= 10 && by_member[0] > 2_000, "{by_member:?}");
    let counters = network.counters().unwrap();
    let at_h2 = counters.bonds.iter().find(|bond| bond.node == "h2").expect("h2 has a bond");
    let reordering = at_h2.reordering.expect("it puts in order");
    assert!(reordering.held > 500, "{reordering:?}");
    // A busy machine may take longer than a gap is waited for, now and then.
    let flow = counters.flows.iter().max_by_key(|flow| flow.delivered_bytes).expect("a connection");
    let seen = flow.reordering.expect("a connection of TCP");
    assert!(seen.segments > 1_000 && seen.reordered < reordering.held / 10, "{flow:?}");
}

#[test]
fn modes_change_while_the_network_runs() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("pair", PAIR);
    for mode in ["802.3ad", "active-backup", "balance-xor", "broadcast", "balance-tlb", "balance-alb", "balance-rr"] {
        let applied = network.apply(&source(PAIR), &overrides(mode, Reordering::On)).unwrap();
        assert!(mode == "balance-rr" || !applied.changed.is_empty(), "{mode}: {applied:?}");
        // LACP's ends take a second to find each other.
        await_members(&network, mode);
        bed::ping(&network, "h1", &[], 5, "h2");
        let counters = network.counters().unwrap();
        assert!(counters.bonds.iter().all(|bond| bond.mode == mode), "{mode}: {:?}", counters.bonds);
        let sending = counters.bonds[0].members.iter().filter(|member| member.sends).count();
        assert_eq!(sending, if mode == "active-backup" { 1 } else { 2 }, "{mode}: {:?}", counters.bonds[0]);
    }
}

/// A switch's MAC-learning ports learn where the host is; nothing is sent twice for long.
#[test]
fn a_switch_without_a_bond_learns_where_the_host_is() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("pair", PAIR);
    network.apply(&source(PAIR), &overrides("active-backup", Reordering::Off)).unwrap();
    let ping = |number: &str| output(network.command("h1", "ping", ["-c", number, "-i", "0.02", "-W", "60", "h2"]));
    // It has been heard when this is answered.
    ping("1");
    let before = to_h2(&network);
    ping("10");
    let after = to_h2(&network);
    assert!(after[0] >= before[0] + 10 && after[1] == before[1], "{before:?}, then {after:?}");
}

/// What was sent before the mode changed and arrives later does not say where the host is now.
#[test]
fn a_switch_does_not_learn_from_what_was_sent_in_another_mode() {
    let Some(bed) = Bed::new() else { return };
    let slow = PAIR.replace("[h2, s1], delay: 1ms", "[h2, s1], delay: 5s");
    let network = bed.up("pair", &slow);
    network.apply(&source(&slow), &overrides("balance-rr", Reordering::Off)).unwrap();
    let link = |number: usize| network.counters().unwrap().links.into_iter().filter(|link| link.a == "h2").nth(number);
    let ping = Running::start(network.command("h2", "ping", ["-4", "-i", "0.05", "h1"]));
    assert!(bed::soon(|| link(1).unwrap().forward.packets > 0), "one of them is on the slow member");
    drop(ping);
    let at_h1 = || {
        let ports = network.counters().unwrap().ports;
        ports.iter().find(|port| port.host == "h1").unwrap().traffic.received_packets
    };
    let (before, stale) = (at_h1(), link(1).unwrap().forward.packets);
    network.apply(&source(PAIR), &overrides("active-backup", Reordering::Off)).unwrap();
    assert!(bed::soon(|| at_h1() >= before + stale), "they have arrived");
    bed::ping(&network, "h1", &["-4"], 3, "h2");
}

/// The two directions of a link, what is under way on it and the ends of its bond are at two workers.
#[test]
fn a_link_between_two_workers_goes_down_at_both() {
    let Some(bed) = Bed::new() else { return };
    bed.with_workers(2);
    let text = "nodes: { h1: host, h2: host, s1: switch, s2: switch }
link-defaults: { rate: 20Mbit, delay: 100us }
links: [{ between: [h1, s1] }, { between: [h2, s2] }, { between: [s1, s2] }, { between: [s1, s2] }]
bonds: [{ between: [s1, s2], mode: active-backup }]
";
    let network = bed.up("two", text);
    assert_eq!(network.counters().unwrap().workers.len(), 2);
    for (down, other) in [(1, 2), (2, 1)] {
        network.set_link("s2", "s1", Some(down), false).unwrap();
        let counters = network.counters().unwrap();
        for bond in &counters.bonds {
            let links: Vec<&str> = bond.members.iter().map(|member| member.link.as_str()).collect();
            assert_eq!((links[down as usize - 1], links[other - 1]), ("down", "up"), "{bond:?}");
            assert!(bond.members[other - 1].sends && !bond.members[down as usize - 1].sends, "{bond:?}");
        }
        bed::ping(&network, "h1", &[], 5, "h2");
        network.set_link("s2", "s1", Some(down), true).unwrap();
    }
}

/// Members whose links have carrier and whose bond asks for its target by ARP: they stay up while they are answered, data or not, and
/// come back by answers after each was away. Whoever asks for an address that nobody has comes down.
#[test]
fn members_that_are_probed_live_by_answers() {
    let Some(bed) = Bed::new() else { return };
    let with =
        |options: &str| source(&PAIR.replace("host: h1 }", &format!("host: h1, arp-interval: 200ms, {options} }}")));
    let network = bed.up("pair", PAIR);
    let links = |node: &str| {
        let counters = network.counters().unwrap();
        let bond = counters.bonds.iter().find(|bond| bond.node == node).expect("it has a bond").clone();
        bond.members.iter().map(|member| member.link.clone()).collect::<Vec<_>>()
    };
    // Both ends: a switch that has not seen the one member come back has none when the other goes.
    let all_up = || {
        let bonds = network.counters().unwrap().bonds;
        bonds.iter().all(|bond| bond.members.iter().all(|member| member.link == "up"))
    };
    for options in [
        "mode: 1, arp-ip-target: 10.0.0.2",
        "mode: 1, arp-ip-target: 10.0.0.2, arp-validate: all",
        "mode: 1, arp-ip-target: 10.0.0.2, arp-validate: all, fail-over-mac: active",
        "mode: 1, arp-ip-target: 10.0.0.2, fail-over-mac: follow",
        "mode: 1, ns-ip6-target: \"fd68:6564:646c::2\", arp-validate: all",
        "mode: 0, arp-ip-target: 10.0.0.2",
        "mode: 2, arp-ip-target: 10.0.0.2, ends: { s1: { arp-validate: active } }",
    ] {
        network.apply(&with(options), &Overrides::from([BondSetting::Reorder(Reordering::On)])).unwrap();
        // Time enough to miss answers, were there none.
        std::thread::sleep(std::time::Duration::from_millis(1_500));
        assert!(bed::soon(all_up), "{options}: {:?}", links("h1"));
        assert!(bed::soon(|| all_come_once(&network, "h1", &["-c", "5", "-i", "0.02", "-W", "60", "h2"])), "{options}");
        for member in [1, 2] {
            set_member(&network, "h1", member, false);
            assert_eq!(links("h1")[member as usize - 1], "down", "{options}");
            assert!(
                bed::soon(|| all_come_once(&network, "h1", &["-c", "5", "-i", "0.02", "-W", "60", "h2"])),
                "{options}"
            );
            set_member(&network, "h1", member, true);
            assert!(bed::soon(all_up), "{options}: {:?}", links("h1"));
        }
    }
    // A host that answers for itself, since it has balance-alb, is answered for all the same.
    let mut answering = with("mode: 1, arp-ip-target: 10.0.0.2");
    answering.text = answering.text.replace("host: h2 }", "host: h2, mode: balance-alb }");
    network.apply(&answering, &Overrides::default()).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    assert!(bed::soon(|| links("h1") == ["up", "up"]), "{:?}", links("h1"));
    network.apply(&with("mode: 1, arp-ip-target: 10.0.0.99"), &Overrides::default()).unwrap();
    let is_down = |links: &[String]| links.iter().filter(|link| *link == "down").count() >= 1;
    assert!(bed::soon(|| is_down(&links("h1"))), "nobody answers, and they are {:?}", links("h1"));
}

/// Four peers of a host with a bond in balance-alb.
const PEERS: &str = "
name: peers
nodes: { h1: host, h2: host, h3: host, h4: host, h5: host, s1: switch }
link-defaults: { rate: 100Mbit, delay: 20us, queue: 250 }
links:
  - between: [h1, s1]
  - between: [h1, s1]
  - between: [h1, s1]
  - between: [h2, s1]
  - between: [h3, s1]
  - between: [h4, s1]
  - between: [h5, s1]
bonds:
  - { host: h1, mode: balance-alb }
";

/// Whether all pings are answered. A probe that a busy machine delays takes a member down for a moment, so this is asked again; what
/// comes twice is wrong at once.
fn all_come_once(network: &live::Instance, from: &str, args: &[&str]) -> bool {
    let text = output(network.command(from, "ping", args));
    assert!(!text.contains("DUP!"), "{from}: {text}");
    text.contains(" 0% packet loss")
}

/// Each peer knows the host by one member's address, and every member has a peer; what they send comes by that member, and once. When
/// each loses its carrier in turn, all reach the host by the others at once.
#[test]
fn peers_of_balance_alb_send_to_different_members() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("peers", PEERS);
    let peers = ["h2", "h3", "h4", "h5"];
    let ping = |family: &str| {
        for peer in peers {
            let args = [family, "-c", "3", "-i", "0.02", "-W", "60", "h1"];
            assert!(bed::soon(|| all_come_once(&network, peer, &args)), "{peer}");
        }
    };
    let address = |family: &str, peer: &str| {
        let text = output(network.command(peer, "ip", [family, "neighbour", "show"]));
        let words: Vec<&str> = text.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "lladdr").unwrap_or_else(|| panic!("{peer}: {text}"));
        words[at + 1].to_owned()
    };
    for family in ["-4", "-6"] {
        ping(family);
        let mut known: Vec<String> = peers.iter().map(|peer| address(family, peer)).collect();
        known.sort();
        known.dedup_by(|one, other| one == other);
        assert_eq!(known.len(), 3, "{family}: {known:?}");
    }
    let arrived = |network: &Instance| {
        let links = network.counters().unwrap().links;
        links.iter().filter(|link| link.a == "h1").map(|link| link.backward.packets).collect::<Vec<u64>>()
    };
    let before = arrived(&network);
    for _ in 0..10 {
        ping("-4");
    }
    let after = arrived(&network);
    let by_member: Vec<u64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    assert!(by_member.iter().all(|packets| *packets >= 30), "{by_member:?}");
    for (down, up) in [(1, None), (2, Some(1)), (3, Some(2)), (1, Some(3))] {
        if let Some(up) = up {
            set_member(&network, "h1", up, true);
        }
        set_member(&network, "h1", down, false);
        for family in ["-4", "-6"] {
            ping(family);
        }
    }
}

/// A question of the host that goes to all shows everybody its active member's address: its bond announces theirs to its peers again a tenth of a
/// second later, not when it would look after itself anyway.
#[test]
fn balance_alb_announces_again_after_a_question() {
    let Some(bed) = Bed::new() else { return };
    let text = PEERS.replace("mode: balance-alb }", "mode: balance-alb, lp-interval: 600s }");
    // About h2, whose bond answers by itself, questions go to h2.
    let text = text.replace("  - between: [h3, s1]", "  - between: [h2, s1]\n  - between: [h3, s1]");
    let network = bed.up("peers", &(text + "  - { host: h2, mode: balance-alb, lp-interval: 600s }\n"));
    let ping = |from: &str, to: &str| {
        output(network.command(from, "ping", ["-4", "-c", "1", "-W", "60", to]));
    };
    let address_at_h3 = || {
        let text = output(network.command("h3", "ip", ["-4", "neighbour", "show", "to", "10.0.0.1"]));
        text.split_whitespace()
            .skip_while(|word| *word != "lladdr")
            .nth(1)
            .unwrap_or_else(|| panic!("{text}"))
            .to_owned()
    };
    ping("h3", "h1");
    let expected = address_at_h3();
    for _ in 0..3 {
        let wrong =
            ["neighbour", "replace", "10.0.0.1", "lladdr", "02:00:00:00:99:99", "dev", "eth0", "nud", "reachable"];
        output(network.command("h3", "ip", wrong));
        // For a second, Linux takes no other address than the one that it has just taken.
        std::thread::sleep(std::time::Duration::from_millis(1_100));
        assert_eq!(address_at_h3(), "02:00:00:00:99:99");
        output(network.command("h1", "ip", ["-4", "neighbour", "flush", "to", "10.0.0.2"]));
        ping("h1", "h2");
        assert!(bed::soon(|| address_at_h3() == expected), "{} instead of {expected}", address_at_h3());
    }
}

/// A peer that learned a member's address in balance-alb still reaches the host when its bond has another mode, or other members.
#[test]
fn peers_that_learned_a_member_s_address_are_not_lost() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("peers", PEERS);
    let ping = |from: &str, to: &str| {
        bed::ping(&network, from, &["-4"], 5, to);
    };
    for mode in ["balance-alb", "balance-rr", "active-backup", "balance-alb", "balance-xor"] {
        network.apply(&source(PEERS), &overrides(mode, Reordering::Off)).unwrap();
        for peer in ["h2", "h3", "h4", "h5"] {
            ping(peer, "h1");
            ping("h1", peer);
        }
    }
}

/// A bond that a new file leaves as it is stays as it is: what it has counted, and what LACP has agreed.
#[test]
fn a_bond_that_a_new_file_does_not_change_goes_on() {
    let Some(bed) = Bed::new() else { return };
    let before = PAIR.replace("host: h1 }", "host: h1, mode: 802.3ad, lacp_rate: fast }");
    let network = bed.up("pair", &before);
    await_members(&network, "802.3ad");
    let ping = || drop(bed::ping(&network, "h1", &[], 20, "h2"));
    ping();
    let accepted = || {
        let bonds = network.counters().unwrap().bonds;
        bonds.into_iter().map(|bond| ((bond.node, bond.name), bond.accepted)).collect::<Vec<_>>()
    };
    let was = accepted();
    assert!(was.iter().all(|(_, accepted)| *accepted >= 20), "{was:?}");
    // Another host, with the first of the links: the switch and all links have other numbers.
    let after = before.replace("s1: switch }", "s1: switch, h3: host }");
    let after = after.replace("links:\n", "links:\n  - between: [h3, s1]\n");
    let after = after.replace("host: h2 }", "host: h2, mode: balance-xor }");
    network.apply(&source(&after), &Overrides::default()).unwrap();
    let is = accepted();
    for (bond, accepted) in was {
        let (_, now) = is.iter().find(|(other, _)| *other == bond).unwrap();
        let is_kept = bond.0 == "h1" || bond == ("s1".to_owned(), "bond0".to_owned());
        assert_eq!(*now >= accepted, is_kept, "{bond:?}: {accepted}, then {now}");
    }
    ping();
}
