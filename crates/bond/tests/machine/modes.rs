//! Which members send and receive, mode by mode.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bond::{Accept, Bond, Carrier, Config, DropReason, Event, Framed, Kind, MemberSet, Refusal, Summary, Transmit};
use machine::{Rng, Span, Time};
use wire::{ArpPacket, EthernetPacket, ethertype};

use super::{bond, chosen, drain, events, flow, id, mac, ms, sent};

fn turns(options: &str, members: u8, frames: usize) -> Vec<usize> {
    let mut bond = bond(options, members);
    (0..frames).map(|_| chosen(&mut bond, &flow(0)).unwrap()).collect()
}

#[test]
fn balance_rr_takes_turns() {
    assert_eq!(turns("mode=0", 3, 7), [1, 2, 0, 1, 2, 0, 1]);
    assert_eq!(turns("mode=0 packets_per_slave=3", 2, 9), [0, 0, 1, 1, 1, 0, 0, 0, 1]);
}

#[test]
fn in_balance_rr_what_nobody_can_send_takes_no_turn() {
    let mut bond = bond("mode=0", 2);
    for up in [Carrier::DOWN, Carrier::up(1_000)] {
        for member in [0, 1] {
            bond.carrier(Time::ZERO, id(member), up);
        }
        // An odd number of frames: counted turns would show.
        let taken: Vec<_> = (0..3).map(|_| chosen(&mut bond, &flow(0))).collect();
        assert_eq!(taken, if up.up { [Some(1), Some(0), Some(1)] } else { [None; 3] });
    }
}

#[test]
fn balance_rr_at_random_reaches_everyone_alike() {
    let taken = turns("mode=balance-rr packets_per_slave=0", 4, 4_000);
    for member in 0..4 {
        let share = taken.iter().filter(|&&taken| taken == member).count();
        assert!((850..1_150).contains(&share), "member {member}: {share}");
    }
    assert_eq!(taken, turns("mode=balance-rr packets_per_slave=0", 4, 4_000));
}

#[test]
fn balance_rr_keeps_igmp_on_the_active_member() {
    let mut bond = bond("mode=0", 3);
    let igmp = Summary { kind: Kind::Igmp, ..flow(0) };
    for _ in 0..5 {
        assert_eq!(chosen(&mut bond, &igmp), Some(0));
        chosen(&mut bond, &flow(0));
    }
    bond.carrier(Time::ZERO, id(0), Carrier::DOWN);
    assert_eq!(chosen(&mut bond, &igmp), Some(1));
}

#[test]
fn hashed_modes_take_the_remainder_in_the_order_of_joining() {
    let mut bond = bond("mode=balance-xor xmit_hash_policy=layer3+4", 3);
    bond.remove_member(Time::ZERO, id(0));
    // The index is free again, but the new member is the last in order.
    assert_eq!(bond.add_member(Time::ZERO, "late", mac(9), Carrier::up(1_000)), Ok(id(0)));
    let order: Vec<_> = (0..6).map(|hash| chosen(&mut bond, &flow(hash)).unwrap()).collect();
    assert_eq!(order, [1, 2, 0, 1, 2, 0]);
}

#[test]
fn broadcast_copies_to_every_usable_member() {
    let mut bond = bond("mode=broadcast", 3);
    bond.carrier(Time::ZERO, id(1), Carrier::DOWN);
    assert_eq!(bond.transmit(Time::ZERO, &flow(7)), Transmit::All(MemberSet::from_bits(0b101)));
    for n in [0, 2] {
        bond.carrier(Time::ZERO, id(n), Carrier::DOWN);
    }
    assert_eq!(bond.transmit(Time::ZERO, &flow(7)), Transmit::None(DropReason::NoUsableMember));
}

#[test]
fn ad_sends_and_receives_where_lacp_lets_it() {
    let mut bond = bond("mode=802.3ad min_links=2", 3);
    assert_eq!(bond.transmit(Time::ZERO, &flow(1)), Transmit::None(DropReason::NotDistributing));
    assert!(!bond.has_carrier());
    let some = MemberSet::from_bits(0b110);
    bond.set_distributing(Time::ZERO, some, some);
    assert_eq!(events(&drain(&mut bond, Time::ZERO)), [Event::Carrier(true)]);
    assert_eq!([0, 1, 2, 3].map(|hash| chosen(&mut bond, &flow(hash))), [1, 2, 1, 2].map(Some));
    assert_eq!(bond.accept(id(0), &flow(1)), Accept::Drop(Refusal::Inactive));
    assert_eq!(bond.accept(id(1), &flow(1)), Accept::Deliver);
    assert_eq!(bond.accept(id(0), &Summary { kind: Kind::Slow, ..flow(1) }), Accept::Lacp);
    // One is not enough for the bond's carrier, but it is used.
    bond.carrier(Time::ZERO, id(1), Carrier::DOWN);
    assert!(!bond.has_carrier());
    assert_eq!(chosen(&mut bond, &flow(0)), Some(2));
}

#[test]
fn active_backup_announces_the_bond_after_a_fail_over() {
    let mut bond = bond("mode=1 num_grat_arp=2 miimon=50", 2);
    let address = Ipv4Addr::new(10, 0, 0, 1);
    bond.set_addresses(&[IpAddr::V4(address)]);
    bond.carrier(ms(1), id(0), Carrier::DOWN);
    let actions = drain(&mut bond, ms(1));
    assert!(events(&actions).contains(&Event::Active { from: Some(id(0)), to: Some(id(1)) }));
    let frames = sent(&actions);
    assert_eq!(frames.len(), 1);
    let (member, frame) = &frames[0];
    let ethernet = EthernetPacket::new_checked(frame).unwrap();
    let arp = ArpPacket::new_checked(ethernet.payload()).unwrap();
    assert_eq!((*member, ethernet.src(), arp.sender_mac()), (1, mac(0), mac(0)));
    assert_eq!((arp.sender_ipv4(), arp.target_ipv4()), (address, address));
    assert_eq!(bond.next_deadline(), ms(51));
    assert_eq!(sent(&drain(&mut bond, ms(51))), frames);
    assert_eq!(sent(&drain(&mut bond, ms(500))), []);
}

#[test]
fn active_backup_receives_on_the_active_member_only() {
    let mut bond = bond("mode=1", 2);
    assert_eq!(
        (bond.accept(id(0), &flow(0)), bond.accept(id(1), &flow(0))),
        (Accept::Deliver, Accept::Drop(Refusal::Inactive))
    );
    bond.set_config(Time::ZERO, "mode=1 all_slaves_active=1".parse().unwrap());
    assert_eq!(bond.accept(id(1), &flow(0)), Accept::Deliver);
    assert_eq!(bond.accept(id(2), &flow(0)), Accept::Drop(Refusal::NotAMember));
}

#[test]
fn the_host_s_addresses_are_learned_from_its_address_resolution() {
    let mut bond = bond("mode=1", 2);
    let mut request = super::alb::arp_request(mac(0), [10, 0, 0, 1], [10, 0, 0, 9]);
    assert_eq!(bond.transmit_frame(Time::ZERO, &mut request), Transmit::One(id(0)));
    // Somebody behind the host is not the host.
    let mut external = super::alb::arp_request(mac(77), [10, 0, 0, 77], [10, 0, 0, 9]);
    bond.transmit_frame(Time::ZERO, &mut external);
    bond.carrier(ms(1), id(0), Carrier::DOWN);
    let frames = sent(&drain(&mut bond, ms(1)));
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0].1[28..32], [10, 0, 0, 1]);
}

fn macs(bond: &bond::Bond) -> Vec<u8> {
    bond.members().map(|(_, member)| member.mac()[5]).collect()
}

#[test]
fn fail_over_mac_says_which_address_moves() {
    let lose_first = |options: &str| {
        let mut bond = bond(options, 3);
        let before = (bond.mac().unwrap()[5], macs(&bond));
        bond.carrier(Time::ZERO, id(0), Carrier::DOWN);
        (before, (bond.mac().unwrap()[5], macs(&bond)))
    };
    assert_eq!(lose_first("mode=1"), ((0, vec![0, 0, 0]), (0, vec![0, 0, 0])));
    assert_eq!(lose_first("mode=1 fail_over_mac=active"), ((0, vec![0, 1, 2]), (1, vec![0, 1, 2])));
    assert_eq!(lose_first("mode=1 fail_over_mac=follow"), ((0, vec![0, 1, 2]), (0, vec![1, 0, 2])));
    assert_eq!(lose_first("mode=5"), ((0, vec![0, 1, 2]), (0, vec![1, 0, 2])));
    assert_eq!(lose_first("mode=0"), ((0, vec![0, 0, 0]), (0, vec![0, 0, 0])));
}

/// A bond in active-backup with `fail_over_mac=active`, below a device that keeps the first member's address.
fn below_a_device(members: u8) -> Bond {
    let config: Config = "mode=1 fail_over_mac=active".parse().unwrap();
    let mut bond = Bond::new(Time::ZERO, config, Some(mac(0)), Rng::new(1));
    for n in 0..members {
        bond.add_member(Time::ZERO, &format!("eth{n}"), mac(n), Carrier::up(1_000)).unwrap();
    }
    drain(&mut bond, Time::ZERO);
    bond
}

#[test]
fn the_network_knows_the_active_member_s_address_and_the_device_above_its_own() {
    let mut bond = below_a_device(2);
    let address = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
    bond.set_addresses(&[IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V6(address)]);
    let announced_mac = |frame: &[u8]| {
        let ethernet = EthernetPacket::new_checked(frame).unwrap();
        let sender = match ethernet.ethertype() {
            ethertype::ARP => ArpPacket::new_checked(ethernet.payload()).unwrap().sender_mac(),
            _ => super::alb::advertised(frame),
        };
        assert_eq!(sender, ethernet.src());
        sender
    };
    let said = |bond: &mut Bond, from: u8| {
        let mut frames = [
            super::alb::arp_request(mac(from), [10, 0, 0, 1], [10, 0, 0, 9]),
            super::alb::advertisement(mac(from), address, Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9)),
        ];
        for frame in &mut frames {
            assert!(matches!(bond.transmit_frame(ms(9), frame), Transmit::One(_)));
        }
        frames.map(|frame| announced_mac(&frame))
    };
    assert_eq!(said(&mut bond, 0), [mac(0); 2]);
    bond.carrier(ms(1), id(0), Carrier::DOWN);
    let actions = drain(&mut bond, ms(1));
    assert!(events(&actions).contains(&Event::BondMac(mac(1))));
    let announced: Vec<_> = sent(&actions).iter().map(|(member, frame)| (*member, announced_mac(frame))).collect();
    assert_eq!(announced, [(1, mac(1)); 2]);
    assert_eq!(said(&mut bond, 0), [mac(1); 2]);
    // A host behind the host has its own.
    assert_eq!(said(&mut bond, 77), [mac(77); 2]);
    // A peer that has not heard yet writes to the other address; what is for nobody here is left alone.
    let to = |dst_mac| Summary { dst_mac, ..flow(1) };
    assert_eq!(bond.accept(id(1), &to(mac(1))), Accept::DeliverTo(mac(0)));
    assert_eq!(bond.accept(id(1), &to(mac(0))), Accept::Deliver);
    assert_eq!(bond.accept(id(1), &to(mac(77))), Accept::Deliver);
    assert_eq!(bond.accept(id(0), &to(mac(0))), Accept::Drop(Refusal::Inactive));
    // The policy ends: the bond has the device's address again, on all members.
    bond.set_config(ms(2), "mode=1".parse().unwrap());
    assert!(events(&drain(&mut bond, ms(2))).contains(&Event::BondMac(mac(0))));
    assert_eq!(macs(&bond), [0, 0]);
    assert_eq!(said(&mut bond, 0), [mac(0); 2]);
}

#[test]
fn tlb_spreads_fresh_buckets_and_leaves_the_rest_on_the_active_member() {
    let mut bond = bond("mode=5", 2);
    let taken: Vec<_> = (0..8).map(|hash| chosen(&mut bond, &flow(hash)).unwrap()).collect();
    assert_eq!(taken, [0, 1, 0, 1, 0, 1, 0, 1]);
    for kind in [Kind::Arp, Kind::Other] {
        assert_eq!(chosen(&mut bond, &Summary { kind, ..flow(1) }), Some(0));
    }
    assert_eq!(chosen(&mut bond, &Summary { dst_mac: [0xff; 6], ..flow(1) }), Some(0));
    assert_eq!((bond.source_mac(id(0)), bond.source_mac(id(1))), (None, Some(mac(1))));
}

#[test]
fn tlb_keeps_a_heavy_bucket_alone_after_it_was_learned() {
    let mut bond = bond("mode=5", 2);
    for _ in 0..1_000 {
        chosen(&mut bond, &flow(0));
    }
    for hash in 1..20 {
        chosen(&mut bond, &flow(hash));
    }
    let later = Time::ZERO + Span::from_secs(10);
    drain(&mut bond, later);
    let heavy = chosen(&mut bond, &flow(0)).unwrap();
    for hash in 1..20 {
        assert_ne!(chosen(&mut bond, &flow(hash)), Some(heavy), "{hash}");
    }
}

#[test]
fn tlb_prefers_who_has_more_room() {
    let mut bond = bond("mode=5", 1);
    bond.add_member(Time::ZERO, "fast", mac(5), Carrier::up(10_000)).unwrap();
    let on_fast = (0..256).filter(|&hash| chosen(&mut bond, &flow(hash)) == Some(1)).count();
    assert_eq!(on_fast, 256, "nothing fills 9 Gbit/s yet");
}

#[test]
fn tlb_without_dynamics_is_hashed() {
    let mut bond = bond("mode=5 tlb_dynamic_lb=0", 3);
    assert_eq!([3, 4, 5].map(|hash| chosen(&mut bond, &flow(hash))), [0, 1, 2].map(Some));
}

#[test]
fn tlb_receives_on_the_active_member_only_and_shows_switches_where_addresses_are() {
    let mut bond = bond("mode=5 lp_interval=2", 2);
    assert_eq!(bond.accept(id(1), &flow(0)), Accept::Drop(Refusal::Inactive));
    assert_eq!(bond.next_deadline(), ms(2_000));
    let frames = sent(&drain(&mut bond, ms(2_000)));
    let addresses: Vec<_> = frames.iter().map(|(member, frame)| (*member, frame[5], frame[11], frame[12])).collect();
    assert_eq!(addresses, [(0, 0, 0, 0x90), (1, 1, 1, 0x90)]);
}

#[test]
fn a_mode_changes_while_running() {
    let mut bond = bond("mode=0", 2);
    chosen(&mut bond, &flow(0));
    bond.set_config(Time::ZERO, Config::new(bond::Mode::ActiveBackup));
    assert_eq!([0, 1, 2].map(|hash| chosen(&mut bond, &flow(hash))), [Some(0); 3]);
    bond.set_config(Time::ZERO, Config::new(bond::Mode::BalanceXor));
    assert_eq!([0, 1, 2].map(|hash| chosen(&mut bond, &flow(hash))), [0, 1, 0].map(Some));
    bond.set_config(Time::ZERO, Config::new(bond::Mode::BalanceAlb));
    assert_eq!(macs(&bond), [0, 1]);
    bond.set_config(Time::ZERO, Config::new(bond::Mode::Broadcast));
    assert_eq!(macs(&bond), [0, 0]);
    assert_eq!(bond.transmit(Time::ZERO, &flow(0)), Transmit::All(MemberSet::from_bits(0b11)));
}

#[test]
fn a_burst_is_as_one_by_one() {
    let frames: Vec<_> = (0..50).map(|hash| flow(hash * 77)).collect();
    for mode in ["0", "1", "2", "3", "5", "6"] {
        let (mut one, mut all) = (bond(&format!("mode={mode}"), 3), bond(&format!("mode={mode}"), 3));
        let singly: Vec<_> = frames.iter().map(|frame| one.transmit(Time::ZERO, frame)).collect();
        let mut burst = vec![Transmit::None(DropReason::NoUsableMember); frames.len()];
        all.transmit_burst(Time::ZERO, &frames, &mut burst);
        assert_eq!(singly, burst);
    }
}

#[test]
fn learning_frames_are_of_the_loopback_type() {
    assert_eq!(ethertype::ARP, 0x0806);
    let mut bond = bond("mode=6", 2);
    bond.carrier(ms(1), id(0), Carrier::DOWN);
    let frames = sent(&drain(&mut bond, ms(1)));
    assert!(frames.iter().any(|(member, frame)| *member == 1 && frame[..6] == mac(0) && frame[12..14] == [0x90, 0]));
}

#[test]
fn frames_as_bytes_go_where_their_summaries_go() {
    let frames: Vec<Vec<u8>> = (0..60_u8)
        .map(|n| {
            let mut frame = vec![0; 60];
            frame[..15].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, n, 8, 0, 0x45]);
            (frame[23], frame[33], frame[35]) = ([6, 17, 2][usize::from(n % 3)], n * 3, n);
            frame
        })
        .collect();
    let policies = ["layer2", "layer2+3", "layer3+4", "encap2+3", "encap3+4", "vlan+srcmac"];
    let hashed = policies.map(|policy| format!("mode=2 xmit_hash_policy={policy}"));
    let others = ["mode=0", "mode=1", "mode=3", "mode=5", "mode=6", "mode=2 rebalance=1"].map(str::to_owned);
    for options in hashed.iter().chain(&others) {
        let (mut one, mut all) = (bond(options, 5), bond(options, 5));
        let mut packets: Vec<_> = frames.iter().cloned().map(Packet).collect();
        let singly: Vec<_> =
            packets.iter().map(|it| one.transmit(Time::ZERO, &Summary::of(one.config(), &it.0))).collect();
        let mut burst = vec![Transmit::None(DropReason::NoUsableMember); packets.len()];
        all.transmit_packets(Time::ZERO, &mut packets, &mut burst);
        assert_eq!(singly, burst, "{options}");
        for ((packet, frame), place) in packets.iter().zip(&frames).zip(burst) {
            let Transmit::One(member) = place else { continue };
            let source = all.source_mac(member).unwrap_or(frame[6..12].try_into().unwrap());
            assert_eq!(packet.0[6..12], source, "{options}");
        }
    }
}

struct Packet(Vec<u8>);

impl Framed for Packet {
    fn frame(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
