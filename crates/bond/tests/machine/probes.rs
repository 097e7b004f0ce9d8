//! Link monitoring by probes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bond::{Bond, Carrier, LinkState};
use machine::Time;
use wire::{ArpOperation, ArpPacket, ArpRepr, EthernetPacket, EthernetRepr, ethertype};

use super::{bond, chosen, drain, flow, id, mac, ms, sent};

const LOCAL: [u8; 4] = [10, 0, 0, 1];
const TARGET: [u8; 4] = [10, 0, 0, 254];
const OTHER: [u8; 4] = [10, 0, 0, 253];

fn probed(options: &str, members: u8) -> Bond {
    let mut bond = bond(&format!("{options} arp_interval=100 arp_ip_target=10.0.0.254,10.0.0.253"), members);
    bond.set_addresses(&[IpAddr::from(LOCAL), IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1))]);
    bond
}

fn arp(operation: ArpOperation, sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
    let message = ArpRepr {
        operation,
        sender_mac: mac(200),
        sender_ipv4: sender.into(),
        target_mac: mac(0),
        target_ipv4: target.into(),
    };
    let mut frame = vec![0; 60];
    EthernetRepr { dst: mac(0), src: mac(200), vlan: None, ethertype: ethertype::ARP }.emit(&mut frame);
    message.emit(&mut frame[14..]);
    frame
}

fn data() -> Vec<u8> {
    let mut frame = vec![0; 60];
    EthernetRepr { dst: mac(0), src: mac(200), vlan: None, ethertype: ethertype::IPV4 }.emit(&mut frame);
    frame
}

/// Runs the probes of 100 ms to `until`; `hear` says what arrives on which member after each.
fn run(bond: &mut Bond, from: u64, until: u64, hear: &[(usize, Vec<u8>)]) -> Vec<(usize, Vec<u8>)> {
    let mut all = Vec::new();
    for now in (from..=until).step_by(100) {
        all.extend(sent(&drain(bond, ms(now))));
        for (member, frame) in hear {
            bond.receive_frame(ms(now + 1), id(*member), frame);
        }
    }
    all
}

fn link(bond: &Bond, member: usize) -> LinkState {
    bond.member(id(member)).unwrap().link()
}

#[test]
fn probes_ask_for_every_target_from_the_nearest_address() {
    let mut bond = probed("mode=1", 2);
    let frames = run(&mut bond, 100, 100, &[]);
    let asked: Vec<_> = frames
        .iter()
        .map(|(member, frame)| {
            let arp = ArpPacket::new_checked(EthernetPacket::new_checked(frame).unwrap().payload()).unwrap();
            (*member, arp.sender_ipv4().octets(), arp.target_ipv4().octets())
        })
        .collect();
    assert_eq!(asked, [(0, LOCAL, TARGET), (0, LOCAL, OTHER)]);
    let mut v6 = bond_v6();
    let frames = sent(&drain(&mut v6, ms(100)));
    assert_eq!(frames[0].1[..6], [0x33, 0x33, 0xff, 0, 0, 0xfe]);
}

fn bond_v6() -> Bond {
    let mut bond = bond("mode=1 arp_interval=100 ns_ip6_target=fd00::fe", 1);
    bond.set_addresses(&[IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1))]);
    bond
}

#[test]
fn a_silent_active_member_is_given_up() {
    let mut bond = probed("mode=1", 2);
    // The backup hears the broadcast requests, the active member nothing.
    run(&mut bond, 100, 200, &[(1, data())]);
    assert_eq!(bond.active(), Some(id(0)), "two intervals of grace");
    run(&mut bond, 300, 400, &[(1, data())]);
    assert_eq!((bond.active(), link(&bond, 0)), (Some(id(1)), LinkState::Down));
    // It comes back when it is heard again; the other one stays active.
    run(&mut bond, 500, 600, &[(1, data()), (0, data())]);
    assert_eq!((bond.active(), link(&bond, 0)), (Some(id(1)), LinkState::Up));
}

#[test]
fn members_take_turns_to_probe_while_nobody_is_active() {
    let mut bond = probed("mode=1", 3);
    run(&mut bond, 100, 600, &[]);
    assert_eq!(bond.active(), None);
    let probers: Vec<_> = run(&mut bond, 700, 1_200, &[]).iter().step_by(2).map(|(member, _)| *member).collect();
    let mut sorted = probers[..3].to_vec();
    sorted.sort_unstable();
    assert_eq!(sorted, [0, 1, 2]);
    assert_eq!(probers[..3], probers[3..]);
    run(&mut bond, 1_300, 1_400, &[(2, arp(ArpOperation::Reply, TARGET, LOCAL))]);
    assert_eq!(bond.active(), Some(id(2)));
}

#[test]
fn with_validation_only_answers_of_targets_count() {
    for (heard, lives) in [
        (data(), false),
        (arp(ArpOperation::Reply, [10, 0, 0, 77], LOCAL), false),
        (arp(ArpOperation::Reply, TARGET, [10, 0, 0, 78]), false),
        (arp(ArpOperation::Reply, TARGET, LOCAL), true),
    ] {
        let mut bond = probed("mode=1 arp_validate=active", 1);
        run(&mut bond, 100, 600, &[(0, heard.clone())]);
        assert_eq!(bond.active().is_some(), lives, "{heard:x?}");
    }
}

#[test]
fn a_validated_backup_lives_by_the_active_member_s_requests() {
    let mut bond = probed("mode=1 arp_validate=all", 2);
    let answer = (0, arp(ArpOperation::Reply, TARGET, LOCAL));
    run(&mut bond, 100, 900, &[answer.clone(), (1, arp(ArpOperation::Request, LOCAL, TARGET))]);
    assert_eq!((link(&bond, 0), link(&bond, 1)), (LinkState::Up, LinkState::Up));
    run(&mut bond, 1_000, 1_900, &[answer, (1, arp(ArpOperation::Request, [10, 0, 0, 5], TARGET))]);
    assert_eq!((link(&bond, 0), link(&bond, 1)), (LinkState::Up, LinkState::Down));
}

#[test]
fn all_targets_may_have_to_answer() {
    let one = (0, arp(ArpOperation::Reply, TARGET, LOCAL));
    let other = (0, arp(ArpOperation::Reply, OTHER, LOCAL));
    let options = "mode=1 arp_validate=active arp_all_targets=all";
    let mut bond = probed(options, 1);
    run(&mut bond, 100, 900, &[one.clone(), other]);
    assert_eq!(link(&bond, 0), LinkState::Up);
    let mut bond = probed(options, 1);
    run(&mut bond, 100, 900, std::slice::from_ref(&one));
    assert_eq!(link(&bond, 0), LinkState::Down);
}

#[test]
fn in_other_modes_every_member_must_hear_something() {
    let mut bond = probed("mode=0", 2);
    let frames = run(&mut bond, 100, 900, &[(0, data())]);
    assert!(frames.iter().any(|(member, _)| *member == 0) && frames.iter().any(|(member, _)| *member == 1));
    assert_eq!((link(&bond, 0), link(&bond, 1)), (LinkState::Up, LinkState::Down));
    assert_eq!([0; 2].map(|_| chosen(&mut bond, &flow(0))), [Some(0); 2]);
    run(&mut bond, 1_000, 1_200, &[(0, data()), (1, data())]);
    assert_eq!(link(&bond, 1), LinkState::Up);
}

#[test]
fn a_lost_carrier_counts_at_once_and_carrier_alone_is_not_enough() {
    let mut bond = probed("mode=2", 2);
    run(&mut bond, 100, 200, &[(0, data()), (1, data())]);
    bond.carrier(ms(250), id(1), Carrier::DOWN);
    assert_eq!(link(&bond, 1), LinkState::Down);
    bond.carrier(ms(590), id(1), Carrier::up(1_000));
    run(&mut bond, 600, 700, &[(0, data())]);
    assert_eq!(link(&bond, 1), LinkState::Down);
    run(&mut bond, 800, 900, &[(0, data()), (1, data())]);
    assert_eq!(link(&bond, 1), LinkState::Up);
}

#[test]
fn probing_is_switched_on_while_running() {
    let mut bond = bond("mode=0", 2);
    drain(&mut bond, ms(10_000));
    bond.set_config(ms(10_000), "mode=0 arp_interval=100 arp_ip_target=10.0.0.254".parse().unwrap());
    run(&mut bond, 10_100, 10_200, &[(0, data()), (1, data())]);
    assert_eq!(bond.usable().len(), 2);
    run(&mut bond, 10_300, 10_900, &[]);
    assert_eq!(bond.usable().len(), 0);
    // Without probes carrier is enough again.
    bond.set_config(ms(11_000), "mode=0".parse().unwrap());
    assert_eq!(bond.usable().len(), 2);
    assert_eq!(bond.next_deadline(), Time::ZERO, "events wait");
}
