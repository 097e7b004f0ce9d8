//! What a fail-over announces to the network besides gratuitous ARP: memberships of multicast groups, and how often.

use std::net::{IpAddr, Ipv4Addr};

use bond::{Carrier, Config, Mode};
use wire::{EthernetPacket, Ipv4Packet, checksum};

use super::{bond, drain, id, mac, ms, sent};

/// A membership report (0x16) or leave (0x17) of version 2, as the host sends it.
fn igmp(kind: u8, group: [u8; 4]) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0];
    message.extend(group);
    let sum = checksum::internet(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut frame = vec![1, 0, 0x5e, group[1], group[2], group[3], 2, 0, 0, 0, 0, 0, 8, 0];
    frame.extend([0x46, 0xc0, 0, 32, 0, 0, 0, 0, 1, 2, 0, 0, 10, 0, 0, 7]);
    frame.extend(group);
    frame.extend([0x94, 4, 0, 0]);
    frame.extend(message);
    frame
}

/// The group of a report, where it was sent.
fn report((member, frame): &(usize, Vec<u8>)) -> Option<(usize, [u8; 4])> {
    let ethernet = EthernetPacket::new_checked(frame).unwrap();
    let ip = Ipv4Packet::new_checked(ethernet.payload()).ok().filter(|ip| ip.protocol() == 2)?;
    Some((*member, ip.payload()[4..8].try_into().unwrap()))
}

#[test]
fn groups_are_reported_on_the_member_that_takes_over() {
    for mode in ["0", "1", "5", "6"] {
        let mut bond = bond(&format!("mode={mode} resend_igmp=2"), 2);
        let group = [239, 1, 2, 3];
        for (kind, group) in [(0x16, group), (0x16, [239, 9, 9, 9]), (0x17, [239, 9, 9, 9])] {
            bond.transmit_frame(ms(0), &mut igmp(kind, group));
        }
        bond.carrier(ms(1), id(0), Carrier::DOWN);
        let reports = |actions: &[bond::Action]| sent(actions).iter().filter_map(report).collect::<Vec<_>>();
        assert_eq!(reports(&drain(&mut bond, ms(1))), [(1, group)], "mode {mode}");
        assert_eq!(reports(&drain(&mut bond, ms(200))), [], "mode {mode}");
        assert_eq!(reports(&drain(&mut bond, ms(201))), [(1, group)], "mode {mode}");
        assert_eq!(reports(&drain(&mut bond, ms(900))), [], "mode {mode}");
    }
}

#[test]
fn nothing_is_reported_that_was_not_asked_for() {
    let mut bond = bond("mode=1 resend_igmp=0", 2);
    bond.transmit_frame(ms(0), &mut igmp(0x16, [239, 1, 2, 3]));
    let mut broken = igmp(0x16, [239, 1, 2, 4]);
    broken[40] ^= 1;
    bond.set_config(ms(0), "mode=1".parse().unwrap());
    bond.transmit_frame(ms(0), &mut broken);
    bond.carrier(ms(1), id(0), Carrier::DOWN);
    assert_eq!(sent(&drain(&mut bond, ms(1))).iter().filter_map(report).count(), 0);
}

#[test]
fn announcements_have_a_delay_of_their_own() {
    let mut bond = bond("mode=1 num_grat_arp=3 miimon=50 peer_notif_delay=150", 2);
    bond.set_addresses(&[IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1))]);
    bond.carrier(ms(1), id(0), Carrier::DOWN);
    let times: Vec<_> = [1, 51, 150, 151, 300, 301, 451].map(|at| sent(&drain(&mut bond, ms(at))).len()).into();
    assert_eq!(times, [1, 0, 0, 1, 0, 1, 0]);
    assert_eq!(bond.mac(), Some(mac(0)));
}

#[test]
fn options_without_sense_here_say_why() {
    let error = Config::new(Mode::ActiveBackup).set("queue_id", "eth0:2").unwrap_err();
    assert!(error.to_string().starts_with("queue_id is a member's: it sends what tc has marked"), "{error}");
    let error = Config::new(Mode::BalanceXor).set("resend_igmp", "1").unwrap_err();
    assert_eq!(
        error.to_string(),
        "resend_igmp has no meaning in mode balance-xor; it is for balance-rr, active-backup, balance-tlb, balance-alb"
    );
    let error = Config::new(Mode::ActiveBackup).set("peer_notif_delay", "300001").unwrap_err();
    assert!(error.to_string().ends_with("is not a number from 0 to 300000"), "{error}");
}
