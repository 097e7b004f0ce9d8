//! Bonds: what is read from them, where they lie in the network, what cases change, and every message they can draw.
#![allow(clippy::format_collect, clippy::format_push_string, reason = "texts of tests are short")]

use std::collections::BTreeSet;

use bond::config::{ArpValidate, Config, HashPolicy, LacpRate, Mode};
use fabric::{Bond, BondSetting, EndKind, Fabric, Overrides, ReorderSpec, Reordering, Source, parse};
use machine::Span;
use miette::{GraphicalReportHandler, GraphicalTheme};
use proptest::prelude::*;
use topology::{BondEnd, BondEndId, LinkId, NodeId, PortId, Routes};

use crate::schema::violations;

fn read(text: &str) -> Fabric {
    let source = Source { name: "net.fabric.yaml".to_owned(), text: text.to_owned() };
    parse(&source).unwrap_or_else(|error| panic!("{text}\n{:?}", miette::Report::new(error)))
}

/// Two hosts and a switch, with these bonds and whatever follows.
fn with_star(rest: &str) -> String {
    format!(
        "nodes: {{ h1: host, h2: host, s1: switch }}\nlink-defaults: {{ rate: 1Gbit, queue: 100 }}\n\
         links: [{{ between: [h1, s1] }}, {{ between: [h2, s1] }}]\n{rest}"
    )
}

fn star(rest: &str) -> Fabric {
    read(&with_star(rest))
}

/// An experiment among the hosts of the star that varies something.
fn varying(axes: &str) -> String {
    format!("experiments: {{ a: {{ traffic: {{ pattern: permutation }}, vary: {{ {axes} }} }} }}\n")
}

fn end_at(fabric: &Fabric, node: &str) -> BondEndId {
    let id = fabric.topology.node(node).expect("a node");
    fabric.topology.bonds.position(|end| end.node == id).expect("it has a bond")
}

fn at<'a>(fabric: &'a Fabric, node: &str) -> &'a Bond {
    &fabric.bonds[end_at(fabric, node)]
}

fn place<'a>(fabric: &'a Fabric, node: &str) -> &'a BondEnd {
    &fabric.topology.bonds[end_at(fabric, node)]
}

fn ports(of: &[u16]) -> Vec<PortId> {
    of.iter().map(|&port| PortId(port)).collect()
}

/// Both ends of every bond know the same links, links know their ports, and hosts have nothing else.
fn check_layout(fabric: &Fabric) {
    for (id, link) in fabric.topology.links.iter_enumerated() {
        for (end, side) in [(link.a, topology::Side::A), (link.b, topology::Side::B)] {
            assert_eq!(fabric.topology.nodes[end.node].ports[end.port], (id, side));
        }
    }
    let mut seen = BTreeSet::new();
    assert_eq!(fabric.bonds.len(), fabric.topology.bonds.len());
    for (id, bond) in fabric.topology.bonds.iter_enumerated() {
        let partner = &fabric.topology.bonds[bond.partner];
        assert_eq!(partner.partner, id);
        assert_ne!(bond.node, partner.node);
        let links: Vec<LinkId> = fabric.topology.bond_links(id).collect();
        assert_eq!(links, fabric.topology.bond_links(bond.partner).collect::<Vec<_>>());
        assert!(bond.ports.is_sorted());
        for &port in &bond.ports {
            assert!(seen.insert((bond.node, port)));
            assert_eq!(fabric.topology.bond_at(bond.node, port), Some(id));
        }
    }
    for (id, host) in fabric.topology.hosts() {
        assert!(
            host.ports.len() == 1
                || fabric.topology.bonds.iter().any(|b| b.node == id && b.ports.len() == host.ports.len())
        );
    }
}

#[test]
fn a_bond_of_a_host_has_both_ends_and_so_many_members() {
    let fabric = star("bonds: [{ between: [h1, s1], members: 3, mode: balance-rr }]\n");
    check_layout(&fabric);
    assert_eq!((fabric.topology.links.len(), fabric.bonds.len()), (4, 2));
    let (host, switch) = (at(&fabric, "h1"), at(&fabric, "s1"));
    // Further members come last, so the link of h2 and its port stay where they were.
    let (host_end, switch_end) = (place(&fabric, "h1"), place(&fabric, "s1"));
    assert_eq!((&host_end.ports, &switch_end.ports), (&ports(&[0, 1, 2]), &ports(&[0, 2, 3])));
    assert_eq!(fabric.topology.link_name(LinkId(1)), "h2-s1");
    assert_eq!((host_end.members(), host_end.name.as_str(), switch_end.name.as_str()), (3, "bond0", "bond0"));
    assert_eq!((host.end, switch.end), (EndKind::Bonded, EndKind::Bonded));
    assert_eq!((&host.config, host.reorder), (&Config::new(Mode::BalanceRr), None));
    assert!(fabric.topology.links.iter().all(|link| link.spec == fabric.topology.links[LinkId(0)].spec));
    assert_eq!(fabric.topology.bond_at(fabric.topology.node("s1").expect("there"), PortId(1)), None);
}

#[test]
fn a_host_is_enough_and_its_links_can_be_listed() {
    let by_host = star("bonds: [{ host: h1, members: 2 }]\n");
    let listed = read(
        "nodes: { h1: host, h2: host, s1: switch }\nlink-defaults: { rate: 1Gbit, queue: 100 }\n\
         links: [{ between: [h1, s1] }, { between: [s1, h1] }, { between: [h2, s1] }]\nbonds: [{ host: h1 }]\n",
    );
    check_layout(&by_host);
    check_layout(&listed);
    assert_eq!((&by_host.bonds, &by_host.topology.bonds), (&listed.bonds, &listed.topology.bonds));
    // The same number of members as are listed says nothing new.
    let twice = star("bonds: [{ host: h1, members: 1 }]\n");
    assert_eq!((twice.topology.links.len(), place(&twice, "h1").members()), (2, 1));
}

#[test]
fn members_that_are_listed_can_differ_in_speed() {
    let fabric = read(
        "nodes: { h1: host, s1: switch }\n\
         links: [{ between: [h1, s1], rate: 1Gbit }, { between: [h1, s1], rate: 100Mbit }]\n\
         bonds: [{ host: h1, mode: balance-xor }]\n",
    );
    let rates: Vec<_> =
        fabric.topology.bond_links(end_at(&fabric, "h1")).map(|id| fabric.topology.links[id].spec.rate_bps).collect();
    assert_eq!(rates, [Some(1_000_000_000), Some(100_000_000)]);
}

#[test]
fn hosts_can_be_linked_directly() {
    let text = "nodes: { h1: host, h2: host }\nlinks: [{ between: [h1, h2], rate: 1Gbit }]\n";
    let one = read(text);
    let hop = |fabric: &Fabric| Routes::compute(&fabric.topology).next_hops(NodeId(0), NodeId(1)).to_vec();
    assert_eq!(hop(&one), ports(&[0]));
    let fabric = read(&format!("{text}bonds: [{{ between: [h1, h2], members: 2, mode: active-backup }}]\n"));
    check_layout(&fabric);
    assert!(fabric.bonds.iter().all(|bond| bond.is_bonded() && bond.config.mode == Mode::ActiveBackup));
    assert_eq!(hop(&fabric), ports(&[0]));
}

#[test]
fn a_switch_against_active_backup_and_load_balancing_has_plain_ports() {
    for mode in ["active-backup", "balance-tlb", "balance-alb", "1", "5", "6"] {
        let fabric = star(&format!("bonds: [{{ host: h1, members: 2, mode: {mode}, primary: eth1 }}]\n"));
        check_layout(&fabric);
        assert_eq!((at(&fabric, "h1").end, at(&fabric, "s1").end), (EndKind::Bonded, EndKind::Learning), "{mode}");
        assert_eq!(at(&fabric, "h1").config.primary.as_deref(), Some("eth1"));
    }
    // A mode that is written for the switch makes a bond there.
    let fabric = star("bonds: [{ host: h1, members: 2, mode: active-backup, ends: { s1: { mode: 1 } } }]\n");
    assert_eq!(at(&fabric, "s1").end, EndKind::Bonded);
    let fabric = star("bonds: [{ host: h1, members: 2, ends: { h1: { mode: active-backup } } }]\n");
    assert_eq!(at(&fabric, "s1").end, EndKind::Learning);
    let fabric = star("bonds: [{ host: h1, members: 2, mode: broadcast, ends: { h1: { mode: active-backup } } }]\n");
    assert_eq!((at(&fabric, "s1").end, at(&fabric, "s1").config.mode), (EndKind::Bonded, Mode::Broadcast));
}

#[test]
fn options_have_the_kernels_names_in_both_spellings() {
    let text = with_star(
        "bonds:\n  - host: h1\n    members: 2\n    mode: 802.3ad\n    xmit_hash_policy: layer3+4\n    lacp-rate: 1\n    miimon: 50\n    \
         updelay: 1.5ms\n    min_links: 2\n    ad_actor_system: \"02:00:00:00:00:01\"\n    rebalance: { interval: 2s, gap: 1ms }\n    \
         ends: { s1: { lacp_rate: slow, lacp-active: off } }\n",
    );
    assert_eq!(violations(&text), [""; 0]);
    let fabric = read(&text);
    let host = &at(&fabric, "h1").config;
    assert_eq!((host.mode, host.policy, host.lacp_rate), (Mode::Ad8023, HashPolicy::Layer34, LacpRate::Fast));
    assert_eq!((host.miimon, host.updelay, host.min_links), (Span::from_ms(50), Span::from_us(1_500), 2));
    assert_eq!(host.ad_actor_system, Some([2, 0, 0, 0, 0, 1]));
    let rebalance = host.rebalance.expect("on");
    assert_eq!((rebalance.interval, rebalance.gap), (Span::from_secs(2), Span::from_ms(1)));
    let switch = &at(&fabric, "s1").config;
    assert_eq!((switch.lacp_rate, switch.lacp_active, switch.policy), (LacpRate::Slow, false, HashPolicy::Layer34));
}

#[test]
fn every_option_reaches_the_configuration() {
    let shared = "arp_interval: 100ms, arp_ip_target: [10.0.0.2, 10.0.0.3], ns_ip6_target: \"fd00::1, fd00::2\", arp_validate: all, \
                  arp_missed_max: 3, downdelay: 200ms";
    let backup = "primary: eth0, primary_reselect: failure, fail_over_mac: active, num_grat_arp: 5, arp_all_targets: 1, all_slaves_active: on";
    let text = with_star(&format!("bonds: [{{ host: h1, members: 2, mode: 1, {shared}, {backup} }}]\n"));
    assert_eq!(violations(&text), [""; 0]);
    let fabric = read(&text);
    let config = &at(&fabric, "h1").config;
    assert_eq!((config.arp_interval, config.downdelay), (Span::from_ms(100), Span::from_ms(200)));
    assert_eq!((config.targets().count(), config.arp_missed_max, config.num_grat_arp), (4, 3, 5));
    assert_eq!(config.arp_validate, "all".parse::<ArpValidate>().expect("a value"));
    assert_eq!((config.primary_reselect.name(), config.fail_over_mac.name()), ("failure", "active"));
    assert_eq!((config.arp_all_targets.name(), config.all_slaves_active), ("all", true));

    let text = with_star("bonds: [{ host: h1, members: 2, mode: 1, miimon: 50, peer_notif_delay: 150.5ms }]\n");
    assert_eq!(violations(&text), [""; 0]);
    let fabric = read(&text);
    let config = &at(&fabric, "h1").config;
    assert_eq!((config.peer_notif_delay, config.arp_interval), (Span::from_us(150_500), Span::ZERO));

    let text = with_star(
        "bonds: [{ host: h1, members: 2, mode: balance-tlb, lp_interval: 3s, tlb_dynamic_lb: off, rebalance: on }]\n",
    );
    assert_eq!(violations(&text), [""; 0]);
    let fabric = read(&text);
    let config = &at(&fabric, "h1").config;
    assert_eq!((config.lp_interval, config.tlb_dynamic_lb), (Span::from_secs(3), false));
    assert_eq!(config.rebalance, Some(bond::config::Rebalance::default()));

    let keys = "ad_select: count, ad_actor_sys_prio: 7, ad_user_port_key: 9";
    let config = &star(&format!("bonds: [{{ host: h1, members: 2, mode: 4, {keys} }}]\n")).bonds[BondEndId(0)].config;
    assert_eq!((config.ad_select.name(), config.ad_actor_sys_prio, config.ad_user_port_key), ("count", 7, 9));
    let switches = "topology: { leaf-spine: { leaves: 2, spines: 1, hosts-per-leaf: 1 } }\n\
                    bonds: [{ between: [leaf1, spine1], members: 2, mode: 1, fail_over_mac: follow }]\n";
    assert_eq!(read(switches).bonds[BondEndId(0)].config.fail_over_mac.name(), "follow");
    let config = &star("bonds: [{ host: h1, members: 2, packets_per_slave: 0 }]\n").bonds[BondEndId(0)].config;
    assert_eq!(config.packets_per_slave, 0);
}

#[test]
fn arrivals_are_put_in_order_where_the_file_says_so() {
    let text = with_star(
        "bonds: [{ host: h1, members: 2, reorder: { buffer: 64, timeout: 500us }, ends: { s1: { reorder: off } } }, { host: h2, members: 2, reorder: on }]\n",
    );
    assert_eq!(violations(&text), [""; 0]);
    let fabric = read(&text);
    let orders: Vec<_> = fabric.bonds.iter().map(|bond| bond.reorder).collect();
    let usual = Some(ReorderSpec { buffer: 512, timeout: Span::from_ms(2) });
    let own = Some(ReorderSpec { buffer: 64, timeout: Span::from_us(500) });
    assert_eq!(orders, [own, None, usual, usual]);
}

#[test]
fn names_are_given_out_around_those_that_are_taken() {
    let fabric = star(
        "bonds: [{ host: h1, members: 2 }, { host: h2, members: 2, ends: { s1: { name: bond0 }, h2: { name: up } } }]\n",
    );
    let names: Vec<(&str, &str)> =
        fabric.topology.bonds.iter().map(|end| (fabric.topology.nodes[end.node].name.as_str(), &*end.name)).collect();
    assert_eq!(names, [("h1", "bond0"), ("s1", "bond1"), ("h2", "up"), ("s1", "bond0")]);
}

#[test]
fn topologies_made_by_rule_can_have_bonds_and_routes_count_them_once() {
    let plain = "topology: { leaf-spine: { leaves: 2, spines: 2, hosts-per-leaf: 2 } }\n";
    let bonded =
        format!("{plain}bonds: [{{ between: [leaf1, spine1], members: 3, mode: 4 }}, {{ host: h1, members: 2 }}]\n");
    let (plain, fabric) = (read(plain), read(&bonded));
    check_layout(&fabric);
    assert_eq!((plain.topology.links.len(), fabric.topology.links.len()), (8, 11));
    let (of_plain, of_bonded) = (Routes::compute(&plain.topology), Routes::compute(&fabric.topology));
    for at in (0..fabric.topology.nodes.len() as u32).map(NodeId) {
        for (to, _) in fabric.topology.hosts() {
            assert_eq!(of_bonded.next_hops(at, to), of_plain.next_hops(at, to));
            assert_eq!(of_bonded.group(at, to), of_plain.group(at, to));
        }
    }
    let leaf = fabric.topology.node("leaf1").expect("there");
    assert_eq!(of_bonded.next_hops(leaf, NodeId(2)), ports(&[2, 3]));
    let tree = read("topology: { fat-tree: { k: 4 } }\nbonds: [{ between: [a1, c1], members: 2 }]\n");
    check_layout(&tree);
    assert_eq!(tree.topology.links.len(), 49);
}

#[test]
fn cases_change_mode_members_and_order_of_all_bonds() {
    let text = with_star(&format!(
        "bonds: [{{ host: h1, members: 2, xmit-hash-policy: layer3+4, reorder: {{ buffer: 9 }} }}, {{ host: h2, members: 2 }}]\n{}",
        varying("mode: [balance-rr, 2, active-backup], members: [1, 4], reorder: [off, on, { timeout: 1ms }]")
    ));
    assert_eq!(violations(&text), [""; 0]);
    let fabric = read(&text);
    let cases = fabric.experiments[0].cases();
    assert_eq!(cases.len(), 18);
    let labels: Vec<&str> = cases[10].labels.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(labels, ["2", "4", "on"]);

    let changed = fabric.with(&cases[10].overrides);
    check_layout(&changed);
    assert_eq!(changed.topology.links.len(), 8);
    for (bond, end) in changed.bonds.iter().zip(&changed.topology.bonds) {
        assert_eq!((bond.config.mode, end.members(), bond.end), (Mode::BalanceXor, 4, EndKind::Bonded));
    }
    // An option that the file's own mode has no use for is there for those that have one.
    assert_eq!(fabric.bonds[BondEndId(0)].config.policy, HashPolicy::Layer2);
    assert_eq!(
        (changed.bonds[BondEndId(0)].config.policy, changed.bonds[BondEndId(2)].config.policy),
        (HashPolicy::Layer34, HashPolicy::Layer2)
    );
    let orders: Vec<_> = changed.bonds.iter().map(|bond| bond.reorder.map(|order| order.buffer)).collect();
    assert_eq!(orders, [Some(9), Some(9), Some(512), Some(512)]);

    let changed = fabric.with(&cases[14].overrides);
    assert_eq!((changed.topology.links.len(), place(&changed, "h1").members()), (2, 1));
    assert_eq!((at(&changed, "h1").end, at(&changed, "s1").end), (EndKind::Bonded, EndKind::Learning));
    let timeouts = changed.bonds.iter().map(|bond| bond.reorder.map(|order| order.timeout));
    assert!(timeouts.eq([Some(Span::from_ms(1)); 4]));
    assert!(fabric.with(&cases[12].overrides).bonds.iter().all(|bond| bond.reorder.is_none()));
}

#[test]
fn overrides_are_read_as_they_are_written() {
    let overrides = Overrides::from([
        BondSetting::Mode(Mode::Ad8023),
        BondSetting::Members(2),
        BondSetting::Reorder(Reordering::With(ReorderSpec::default())),
    ]);
    let text = serde_json::to_string(&overrides).expect("JSON");
    assert!(text.contains("{\"bond-mode\":\"802.3ad\"}"), "{text}");
    assert_eq!(serde_json::from_str::<Overrides>(&text).expect("the same"), overrides);
    assert_eq!(serde_json::from_str::<Overrides>("[]").expect("nothing"), Overrides::default());
    for wrong in ["[{\"bond-mode\":\"round\"}]", "[{\"bond-mood\":\"802.3ad\"}]"] {
        let error = serde_json::from_str::<Overrides>(wrong).expect_err("it is no setting");
        assert!(error.to_string().contains("expected a setting of a fabric"), "{error}");
    }
}

#[test]
fn bonds_are_shown_by_the_names_of_the_kernel() {
    let fabric = star("bonds: [{ host: h1, members: 2, mode: 4, lacp_rate: fast, miimon: 100 }]\n");
    insta::assert_json_snapshot!(serde_json::to_value(&fabric).expect("JSON")["bonds"][0]);
}

#[test]
fn the_schema_refuses_what_the_parser_refuses() {
    let wrong = [
        "[{ members: 2 }]",
        "[{ host: h1, between: [h1, s1] }]",
        "[{ host: h1, members: 9 }]",
        "[{ host: h1, mode: round-robin }]",
        "[{ host: h1, mode: 7 }]",
        "[{ host: h1, mode: 4, lacp_rate: medium }]",
        "[{ host: h1, speed: 7 }]",
        "[{ host: h1, reorder: { size: 7 } }]",
        "[{ host: h1, reorder: { buffer: 1 } }]",
        "[{ host: h1, ends: { s1: { members: 2 } } }]",
        "{ host: h1 }",
    ];
    for bonds in wrong {
        let text = with_star(&format!("bonds: {bonds}\n"));
        assert_ne!(violations(&text), [""; 0], "{text}");
        assert!(parse(&Source { name: "x".to_owned(), text: text.clone() }).is_err(), "{text}");
    }
}

/// The messages that a file draws.
fn messages(text: &str) -> String {
    let source = Source { name: "net.fabric.yaml".to_owned(), text: text.to_owned() };
    let Err(error) = parse(&source) else { panic!("the file is wrong:\n{text}") };
    assert!(!error.problems().is_empty());
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor()).with_width(120);
    let mut out = String::new();
    handler.render_report(&mut out, &error).expect("writing to a string");
    out.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The messages about these bonds of the star.
fn all(bonds: &[&str]) -> String {
    bonds
        .iter()
        .map(|bonds| format!("######## {bonds}\n{}\n", messages(&with_star(&format!("bonds: {bonds}\n")))))
        .collect()
}

#[test]
fn messages_about_links() {
    let two_switches = "nodes: { h1: host, s1: switch, s2: switch }\n";
    let listed = [
        // A bond, and a link to another node.
        format!(
            "{two_switches}links: [{{ between: [h1, s1] }}, {{ between: [h1, s2] }}, {{ between: [s1, s2] }}]\nbonds: [{{ host: h1 }}]\n"
        ),
        format!(
            "{two_switches}links: [{{ between: [h1, s1] }}, {{ between: [s1, s2] }}, {{ between: [s1, s2] }}]\n\
             bonds: [{{ between: [s1, s2], members: 3 }}]\n"
        ),
        format!(
            "{two_switches}links: [{{ between: [h1, s1] }}{}]\nbonds: [{{ between: [s1, s2] }}]\n",
            ", { between: [s1, s2] }".repeat(9)
        ),
    ];
    let listed: String = listed.iter().map(|text| messages(text)).collect();
    let named = all(&[
        "[{ between: [h1, s2] }]",
        "[{ host: h11 }]",
        "[{ between: [h1, h2] }]",
        "[{ between: [h1, h1] }]",
        "[{ host: s1 }]",
        "[{ members: 2 }]",
        "[{ host: h1, between: [h1, s1] }]",
        "[{ host: h1 }, { between: [s1, h1] }]",
        "[{ host: h1, members: 0 }]",
        "[{ host: h1, members: 9 }]",
        "[{ host: h1, ends: { h2: { mode: 0 } } }]",
        "[{ host: h1, name: up }, { host: h2, name: up }]",
        "[{ host: h1, name: a-name-that-no-interface-has }]",
        "{ host: h1 }",
        "[h1]",
    ]);
    insta::assert_snapshot!(format!("{listed}{named}"));
}

#[test]
fn messages_about_options() {
    insta::assert_snapshot!(all(&[
        "[{ host: h1, mode: round-robin }]",
        "[{ host: h1, mode: 7 }]",
        "[{ host: h1, lacp-rate: fast }]",
        "[{ host: h1, mode: 4, primary: eth0 }]",
        "[{ host: h1, mode: 2, ends: { s1: { mode: 0, xmit-hash-policy: layer2 } } }]",
        "[{ host: h1, mode: 0, rebalance: on }]",
        "[{ host: h1, mode: 2, xmit_hash_policy: layer4 }]",
        "[{ host: h1, xmit-hash-policy: layer2, xmit_hash_policy: layer2 }]",
        "[{ host: h1, hash: layer2 }]",
        "[{ host: h1, miimon: 5 sec }]",
        "[{ host: h1, mode: 1, arp-interval: 100 }]",
        "[{ host: h1, mode: 1, arp-interval: 100, arp-ip-target: here }]",
        "[{ host: h1, mode: 1, arp-interval: 100, arp-ip-target: 10.0.0.1, miimon: 100 }]",
        "[{ host: h1, mode: 1, arp-interval: 100, arp-ip-target: 10.0.0.1, arp-validate: some }]",
        "[{ host: h1, mode: 1, fail-over-mac: passive }]",
        "[{ host: h1, mode: 2, fail-over-mac: active }]",
        "[{ host: h1, mode: 5, rebalance: on }]",
        "[{ host: h1, mode: 5, lp-interval: 1500ms }]",
        "[{ host: h1, mode: 1, members: 2, primary: eth2 }]",
        "[{ host: h1, mode: 1, primary: eth1 }]",
        "[{ host: h1, mode: 4, members: 2, min-links: 3 }]",
        "[{ host: h1, mode: 4, ad-actor-system: \"03:00:00:00:00:01\" }]",
        "[{ host: h1, mode: 4, lacp-active: maybe }]",
        "[{ host: h1, reorder: sometimes }]",
        "[{ host: h1, reorder: { timeout: 2s } }]",
        "[{ host: h1, mode: 2, rebalance: often }]",
        "[{ host: h1, mode: 1, ends: { s1: { reorder: on, miimon: 7 } } }]",
    ]));
}

#[test]
fn messages_about_ends() {
    let of_star = all(&[
        "[{ host: h1, members: 2, mode: balance-rr, ends: { s1: { mode: 802.3ad } } }]",
        "[{ host: h1, members: 2, mode: 802.3ad, ends: { s1: { mode: active-backup } } }]",
        "[{ host: h1, members: 2, mode: 802.3ad, lacp-active: off }]",
        "[{ host: h1, members: 2, mode: active-backup, ends: { s1: { mode: balance-xor } } }]",
        "[{ host: h1, members: 2, mode: balance-rr, ends: { s1: { mode: active-backup } } }]",
        "[{ host: h1, members: 2, mode: 1, ends: { s1: { mode: 1, primary: eth0 }, h1: { primary: eth1 } } }]",
        "[{ host: h1, members: 2, mode: broadcast, ends: { s1: { mode: balance-rr } } }]",
        "[{ host: h1, members: 2, mode: balance-xor, ends: { s1: { mode: broadcast } } }]",
        "[{ host: h1, members: 2, mode: balance-tlb, ends: { s1: { mode: balance-rr } } }]",
        "[{ host: h1, members: 2, mode: balance-rr, ends: { s1: { mode: balance-alb } } }]",
    ]);
    let others: String = [
        "nodes: { h1: host, h2: host }\nlinks: [{ between: [h1, h2] }]\nbonds: [{ between: [h1, h2], members: 2, mode: balance-alb }]\n",
        "topology: { fat-tree: { k: 4 } }\nbonds: [{ between: [a1, c1], members: 2, mode: balance-tlb }]\n",
        "nodes: { h1: host, s1: switch }\n\
         links: [{ between: [h1, s1], rate: 1Gbit }, { between: [h1, s1], rate: 100Mbit }, { between: [h1, s1], rate: 1Gbit }]\n\
         bonds: [{ host: h1, mode: 802.3ad }]\n",
        "nodes: { h1: host, s1: switch }\n\
         links: [{ between: [h1, s1] }, { between: [h1, s1], rate: 2500kbit }]\nbonds: [{ host: h1, mode: 802.3ad }]\n",
    ]
    .iter()
    .map(|text| messages(text))
    .collect();
    insta::assert_snapshot!(format!("{of_star}{others}"));
}

#[test]
fn messages_about_axes() {
    let of_star = |bonds: &str, axes: &str| messages(&with_star(&format!("{bonds}{}", varying(axes))));
    let bonded = |options: &str, axes: &str| of_star(&format!("bonds: [{{ host: h1, members: 2{options} }}]\n"), axes);
    let unequal = "nodes: { h1: host, h2: host, s1: switch }\n\
                   links: [{ between: [h1, s1], rate: 1Gbit }, { between: [h1, s1], rate: 2Gbit }, { between: [h2, s1] }]\nbonds: [{ host: h1 }]\n";
    let between_switches = "topology: { leaf-spine: { leaves: 2, spines: 1, hosts-per-leaf: 1 } }\nbonds: [{ between: [leaf1, spine1], members: 2 }]\n";
    let all = [
        of_star("", "mode: [0, 1]"),
        of_star("", "members: [1, 2]"),
        of_star("", "reorder: [off, on]"),
        bonded("", "members: [0, 9]"),
        bonded("", "mode: [fast]"),
        bonded("", "reorder: [perhaps]"),
        bonded(", mode: 1, primary: eth1", "members: [1, 2]"),
        bonded(", mode: 4, min-links: 2", "members: [2, 1]"),
        bonded(", mode: 4, lacp-rate: fast, primary: eth0", "mode: [4, 0]"),
        bonded(", mode: 2, rebalance: on", "mode: [2, 5]"),
        messages(&format!("{unequal}{}", varying("mode: [0, 4]"))),
        messages(&format!("{between_switches}{}", varying("mode: [0, 5]"))),
        messages(&with_star(
            "controllers: { nodes: 1 }\nexperiments: { a: { cluster: { at: leader }, vary: { members: [1] } } }\n",
        )),
    ];
    insta::assert_snapshot!(all.concat());
}

/// A host that probes itself would lose its bond.
#[test]
fn targets_of_probing_are_other_hosts() {
    let pair = |options: &str| {
        let text = format!(
            "nodes: {{ h1: {{ kind: host, ipv4: 10.0.0.7 }}, h2: host }}\nlinks: [{{ between: [h1, h2] }}, {{ between: [h1, h2] }}]\n\
             bonds: [{{ between: [h1, h2], mode: 1, arp-interval: 100, {options} }}]\n"
        );
        match parse(&Source { name: "x".to_owned(), text }) {
            Ok(_) => Vec::new(),
            Err(error) => error.problems().iter().map(|problem| problem.message.clone()).collect::<Vec<_>>(),
        }
    };
    let own = |option: &str, host: &str, address: &str| {
        vec![format!(
            "`{option}` of `{host}` is its own address {address}, which does not answer: the bond would go down"
        )]
    };
    assert_eq!(
        pair("ends: { h1: { arp-ip-target: 10.0.0.7 } }, arp-ip-target: 10.0.0.7"),
        own("arp-ip-target", "h1", "10.0.0.7")
    );
    assert_eq!(pair("arp-ip-target: 10.0.0.7"), own("arp-ip-target", "h1", "10.0.0.7"));
    assert_eq!(pair("arp-ip-target: 10.0.0.2"), own("arp-ip-target", "h2", "10.0.0.2"));
    assert_eq!(pair("ns-ip6-target: \"fd68:6564:646c::2\""), own("ns-ip6-target", "h2", "fd68:6564:646c::2"));
    // One list for both: each asks the other, and that is enough if one answer is.
    assert_eq!(pair("arp-ip-target: [10.0.0.7, 10.0.0.2]"), [""; 0]);
    let both = pair("arp-ip-target: [10.0.0.7, 10.0.0.2], arp-all-targets: all");
    assert_eq!(
        both.concat(),
        [own("arp-ip-target", "h1", "10.0.0.7"), own("arp-ip-target", "h2", "10.0.0.2")].concat().concat()
    );
    assert_eq!(pair("ends: { h1: { arp-ip-target: 10.0.0.2 }, h2: { arp-ip-target: 10.0.0.7 } }"), [""; 0]);
}

#[test]
fn too_many_bonds_are_refused() {
    let text = with_star(&format!("bonds:\n{}", "  - { host: h1 }\n".repeat(4_097)));
    let error = parse(&Source { name: "x".to_owned(), text }).expect_err("too many");
    insta::assert_snapshot!(error.problems()[0], @"4097 bonds are more than 4096");
}

#[test]
fn a_bond_that_cannot_be_read_is_not_blamed_on_its_host() {
    let text = "nodes: { h1: host, s1: switch }\nlinks: [{ between: [h1, s1] }, { between: [h1, s1] }]\nbonds: [{ host: h1, mode: x }]\n";
    let error = parse(&Source { name: "x".to_owned(), text: text.to_owned() }).expect_err("no mode");
    let problems: Vec<&str> = error.problems().iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(problems, ["`x` is not a mode of bonds"]);
}

/// Which modes go together, worked out from what each sends and takes, not from how the check is written.
#[test]
fn ends_go_together_exactly_when_every_frame_arrives_once() {
    /// How many copies of a frame that `sender` sends are delivered by `receiver`, of three members: least and most.
    fn copies(sender: Mode, receiver: Mode) -> (u32, u32) {
        let sent: &[u32] = match sender {
            Mode::Broadcast => &[0b111],
            // Both ends choose the first member that is up.
            Mode::ActiveBackup => &[0b001],
            _ => &[0b001, 0b010, 0b100],
        };
        let taken = if receiver == Mode::ActiveBackup { 0b001 } else { 0b111 };
        let delivered = sent.iter().map(|members| (members & taken).count_ones());
        (delivered.clone().min().unwrap_or(0), delivered.max().unwrap_or(0))
    }
    let modes = [Mode::BalanceRr, Mode::ActiveBackup, Mode::BalanceXor, Mode::Broadcast, Mode::Ad8023];
    for here in modes {
        for there in modes {
            let works = if here == there {
                // Broadcast is for networks that bear copies.
                true
            } else if here == Mode::Ad8023 || there == Mode::Ad8023 {
                false
            } else {
                copies(here, there) == (1, 1) && copies(there, here) == (1, 1)
            };
            let text = with_star(&format!(
                "bonds: [{{ host: h1, members: 3, ends: {{ h1: {{ mode: {here} }}, s1: {{ mode: {there} }} }} }}]\n"
            ));
            assert_eq!(parse(&Source { name: "x".to_owned(), text }).is_ok(), works, "{here} against {there}");
        }
    }
}

proptest! {
    #[test]
    fn any_members_keep_the_layout_and_the_routes(
        counts in prop::collection::vec(prop::option::of(1_u32..=8), 12),
        then in prop::collection::vec(1_u32..=8, 0..4),
    ) {
        let plain = "topology: { leaf-spine: { leaves: 2, spines: 2, hosts-per-leaf: 4 } }\n";
        let between = (1..=8).map(|h| format!("host: h{h}"));
        let between = between.chain((0..4).map(|i| format!("between: [leaf{}, spine{}]", i / 2 + 1, i % 2 + 1)));
        let bonds: String = between
            .zip(&counts)
            .filter_map(|(between, count)| count.map(|count| format!("  - {{ {between}, members: {count} }}\n")))
            .collect();
        prop_assume!(!bonds.is_empty());
        let mut fabric = read(&format!("{plain}bonds:\n{bonds}"));
        check_layout(&fabric);
        let (plain, first) = (read(plain), fabric.clone());
        let members: u32 = counts.iter().flatten().map(|count| count - 1).sum();
        prop_assert_eq!(fabric.topology.links.len(), plain.topology.links.len() + members as usize);
        for count in then {
            fabric = fabric.with(&Overrides::from([BondSetting::Members(count)]));
            check_layout(&fabric);
            // A file's links with as many members are the same, whichever way they came about.
            prop_assert_eq!(&fabric, &first.with(&Overrides::from([BondSetting::Members(count)])));
        }
        let (of_plain, of_bonded) = (Routes::compute(&plain.topology), Routes::compute(&fabric.topology));
        for at in (0..fabric.topology.nodes.len() as u32).map(NodeId) {
            for (to, _) in fabric.topology.hosts() {
                prop_assert_eq!(of_bonded.next_hops(at, to), of_plain.next_hops(at, to));
            }
        }
    }
}
