//! Bonds that carry real TCP of real programs.

mod bed;

use bed::{Bed, Running, output, source};
use fabric::{Overrides, Reordering};
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
    Overrides { bond_mode: Some(mode.parse().expect("it is a mode")), reorder: Some(reorder), ..Overrides::default() }
}

fn goodput_mbit(network: &Instance) -> f64 {
    let text = output(network.command("h1", "iperf3", ["-c", "h2", "-t", "2", "-O", "1", "-J"]));
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    report["end"]["sum_received"]["bits_per_second"].as_f64().unwrap() / 1e6
}

/// What one link carries of TCP's payload: 1,448 of 1,514 bytes.
const ONE: f64 = 20.0 * 1_448.0 / 1_514.0;

#[test]
fn one_connection_gets_two_links_when_arrivals_are_put_in_order() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("pair", PAIR);
    network.apply(&source(PAIR), &overrides("balance-rr", Reordering::On)).unwrap();
    let server = Running::start(network.command("h2", "iperf3", ["-s"]));
    let both = goodput_mbit(&network);
    assert!((1.85 * ONE..2.02 * ONE).contains(&both), "{both} of {} Mbit/s", 2.0 * ONE);
    let counters = network.counters().unwrap();
    let at_h2 = counters.bonds.iter().find(|bond| bond.node == "h2").expect("h2 has a bond");
    let reordering = at_h2.reordering.expect("it puts in order");
    assert!(reordering.held > 1_000 && reordering.hold_max < machine::Span::from_ms(2), "{reordering:?}");
    assert!(
        counters
            .flows
            .iter()
            .filter(|flow| flow.reordering.segments > 1_000)
            .all(|flow| flow.reordering.reordered == 0)
    );
    drop(server);
}

#[test]
fn modes_change_while_the_network_runs() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("pair", PAIR);
    for mode in ["802.3ad", "active-backup", "balance-xor", "broadcast", "balance-tlb", "balance-alb", "balance-rr"] {
        let applied = network.apply(&source(PAIR), &overrides(mode, Reordering::On)).unwrap();
        assert!(mode == "balance-rr" || !applied.changed.is_empty(), "{mode}: {applied:?}");
        // LACP's ends take a second to find each other.
        let reached = bed::soon(|| {
            let mut ping = network.command("h1", "ping", ["-c", "1", "-W", "1", "h2"]).unwrap();
            ping.output().unwrap().status.success()
        });
        assert!(reached, "{mode}");
        let ping = output(network.command("h1", "ping", ["-c", "5", "-i", "0.05", "-W", "1", "h2"]));
        assert!(ping.contains(" 0% packet loss") && !ping.contains("DUP!"), "{mode}: {ping}");
        let counters = network.counters().unwrap();
        assert!(counters.bonds.iter().all(|bond| bond.mode == mode), "{mode}: {:?}", counters.bonds);
        let sending = counters.bonds[0].members.iter().filter(|member| member.sends).count();
        assert_eq!(sending, if mode == "active-backup" { 1 } else { 2 }, "{mode}: {:?}", counters.bonds[0]);
    }
}

/// A switch's plain ports learn where the host is; nothing is sent twice for long.
#[test]
fn a_switch_without_a_bond_learns_where_the_host_is() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("pair", PAIR);
    network.apply(&source(PAIR), &overrides("active-backup", Reordering::Off)).unwrap();
    output(network.command("h1", "ping", ["-c", "10", "-i", "0.02", "-W", "1", "h2"]));
    let counters = network.counters().unwrap();
    let at_h2 = counters.links.iter().filter(|link| link.a == "h2");
    let to_h2: Vec<u64> = at_h2.map(|link| link.backward.packets).collect();
    assert!(to_h2[0] >= 10 && to_h2[1] <= 2, "{to_h2:?}");
}
