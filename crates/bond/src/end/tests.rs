use machine::Span;

use super::*;
use crate::Kind;

fn summary(hash: u32) -> Summary {
    Summary { dst_mac: [2, 0, 0, 0, 0, 9], src_mac: [2, 0, 0, 0, 0, 1], hash, bytes: 1_514, peer: 0, kind: Kind::Ip }
}

fn end(mode: Mode, reorder: bool, system: u8) -> End<u32> {
    let members = (0..2).map(|n| (format!("eth{n}"), [2, n, 0, 0, 0, system], Carrier::up(1_000))).collect();
    End::new(
        Time::ZERO,
        &Plan {
            config: Config::new(mode),
            partner: Partner::Internal,
            reorder: reorder.then(|| reorder::Config { buffer: 64, timeout: Span::from_ms(2) }),
            mac: [2, 0, 0, 0, 0, system],
            members,
            addresses: Vec::new(),
            partner_uses: MemberSet::from_bits(3),
            seed: 1,
        },
    )
}

#[test]
fn what_overtakes_is_put_in_order_by_number() {
    let (mut a, mut b) = (end(Mode::BalanceRr, false, 1), end(Mode::BalanceRr, true, 2));
    let mut sent: Vec<_> = (0..40_u32)
        .map(|packet| {
            let (Transmit::One(member), number) = a.transmit(Time::ZERO, &summary(0)) else { panic!("one") };
            (packet, member, number)
        })
        .collect();
    assert_eq!(sent.iter().filter(|(_, member, _)| member.index() == 0).count(), 20);
    // The first member's frames come first.
    sent.sort_by_key(|(packet, member, _)| (member.index(), *packet));
    let mut came = Vec::new();
    for (packet, member, number) in sent {
        b.receive(Time::ZERO, (member, number), &summary(0), packet, &mut |packet| came.push(packet));
    }
    assert_eq!(came, (0..40).collect::<Vec<_>>());
}

#[test]
fn two_ends_in_802_3ad_come_to_use_both_members() {
    let (mut a, mut b) = (end(Mode::Ad8023, false, 1), end(Mode::Ad8023, false, 2));
    let mut now = Time::ZERO;
    assert!(matches!(a.transmit(now, &summary(1)).0, Transmit::None(_)));
    for _ in 0..200 {
        for forth in [true, false] {
            let (from, to) = if forth { (&mut a, &mut b) } else { (&mut b, &mut a) };
            while let Step::Do(output) = from.poll(now) {
                if let Output::Send { member, frame } = output {
                    to.receive_control(now, member, frame.as_bytes());
                }
            }
        }
        now += Span::from_ms(10);
    }
    let mut used = MemberSet::EMPTY;
    for hash in 0..8 {
        let (Transmit::One(member), _) = a.transmit(now, &summary(hash)) else { panic!("it distributes") };
        used.insert(member);
    }
    assert_eq!(used.len(), 2);
}

#[test]
fn a_switch_learns_where_a_host_is() {
    let mut learning = LearningPorts::default();
    let (first, second, mac) = (MemberId::new(0), MemberId::new(1), [2, 0, 0, 0, 0, 1]);
    assert_eq!(learning.find(mac), None);
    learning.saw(first, mac);
    learning.saw(second, mac);
    assert_eq!(learning.find(mac), Some(second));
    learning.forget(second);
    assert_eq!(learning.find(mac), None);
}

/// IGMP's report of version 2: the host wants this group.
fn report() -> ControlFrame {
    let group = std::net::Ipv4Addr::new(239, 1, 2, 3);
    let mut message = [0x16, 0, 0, 0, 239, 1, 2, 3];
    let sum = wire::checksum::internet(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ControlFrame::igmp(
        [2, 0, 0, 0, 0, 1],
        (std::net::Ipv4Addr::new(10, 0, 0, 1), group),
        [0x94, 4, 0, 0],
        &message,
        None,
    )
}

/// What an end sends until it waits.
fn sent(end: &mut End<u32>, now: Time) -> Vec<(usize, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Step::Do(output) = end.poll(now) {
        if let Output::Send { member, frame } = output {
            frames.push((member.index(), frame.as_bytes().to_vec()));
        }
    }
    frames
}

#[test]
fn a_membership_that_was_overheard_is_reported_after_a_fail_over() {
    let mut end = end(Mode::ActiveBackup, false, 1);
    sent(&mut end, Time::ZERO);
    end.overhear(report().as_bytes());
    end.overhear(&[0xff; 9]);
    end.carrier(Time::ZERO, MemberId::new(0), Carrier::DOWN);
    let group = [1, 0, 0x5e, 1, 2, 3];
    let reports: Vec<_> = sent(&mut end, Time::ZERO).into_iter().filter(|(_, frame)| frame[..6] == group).collect();
    assert_eq!(reports.len(), 1);
    assert_eq!((reports[0].0, &reports[0].1), (1, &report().as_bytes().to_vec()));
}

#[test]
fn data_is_a_sign_of_life_where_members_are_probed() {
    for (mode, hears) in [(Mode::BalanceRr, true), (Mode::BalanceRr, false), (Mode::ActiveBackup, true)] {
        let mut end = end(mode, false, 1);
        let mut config = Config::new(mode);
        for (name, value) in [("arp_interval", "100"), ("arp_ip_target", "10.0.0.2")] {
            config.set(name, value).expect("an option");
        }
        end.bond.set_config(Time::ZERO, config);
        for tick in 0..100 {
            let now = Time::ZERO + Span::from_ms(10) * tick;
            sent(&mut end, now);
            for member in (0..2).filter(|_| hears).map(MemberId::new) {
                end.receive(now, (member, 0), &summary(0), 0, &mut |_| {});
            }
        }
        assert_eq!(end.bond().usable().len(), if hears { 2 } else { 0 }, "{mode}, {hears}");
    }
}
