//! What holds after any sequence of events.

use bond::{Bond, Carrier, Config, Kind, LinkState, MEMBERS_MAX, MemberSet, Mode, Summary, Transmit};
use machine::{Rng, Span, Time};
use proptest::prelude::*;

use super::{drain, flow, id, mac};

#[derive(Clone, Copy, Debug)]
enum Happening {
    Join(u8, bool),
    Leave(u8),
    Carrier(u8, bool, u8),
    Wait(u16),
    Lacp(u32),
    Options(u8),
    Frame([u8; 40]),
}

fn happening() -> impl Strategy<Value = Happening> {
    let frame = proptest::collection::vec(any::<u8>(), 40).prop_map(|bytes| bytes.try_into().unwrap());
    prop_oneof![
        (0..6_u8, any::<bool>()).prop_map(|(n, up)| Happening::Join(n, up)),
        (0..6_u8).prop_map(Happening::Leave),
        (0..6_u8, any::<bool>(), 0..3_u8).prop_map(|(n, up, speed)| Happening::Carrier(n, up, speed)),
        (0..300_u16).prop_map(Happening::Wait),
        any::<u32>().prop_map(Happening::Lacp),
        (0..9_u8).prop_map(Happening::Options),
        frame.prop_map(Happening::Frame),
    ]
}

const OPTIONS: [&str; 9] = [
    "mode=0",
    "mode=1 updelay=100 downdelay=50 primary=eth2 primary_reselect=better",
    "mode=2 downdelay=100",
    "mode=3 updelay=70",
    "mode=4 min_links=2",
    "mode=5",
    "mode=6 updelay=40",
    "mode=2 rebalance_interval=20 rebalance_gap_us=500",
    "mode=1 fail_over_mac=follow num_grat_arp=3",
];

struct World {
    bond: Bond,
    now: Time,
}

impl World {
    fn new(options: usize) -> Self {
        let config: Config = OPTIONS[options].parse().unwrap();
        Self { bond: Bond::new(Time::ZERO, config, None, Rng::new(7)), now: Time::ZERO }
    }

    fn apply(&mut self, happening: Happening) {
        let Self { bond, now } = self;
        let carrier = |up, speed: u8| if up { Carrier::up(10_u32.pow(u32::from(speed) + 2)) } else { Carrier::DOWN };
        match happening {
            Happening::Join(n, up) => drop(bond.add_member(*now, &format!("eth{n}"), mac(n + 1), carrier(up, 1))),
            Happening::Leave(n) => bond.remove_member(*now, id(usize::from(n))),
            Happening::Carrier(n, up, speed) => bond.carrier(*now, id(usize::from(n)), carrier(up, speed)),
            Happening::Wait(ms) => *now += Span::from_ms(u64::from(ms)),
            Happening::Lacp(bits) => {
                bond.set_distributing(*now, MemberSet::from_bits(bits), MemberSet::from_bits(bits));
            }
            Happening::Options(n) => bond.set_config(*now, OPTIONS[usize::from(n)].parse().unwrap()),
            Happening::Frame(mut bytes) => {
                bytes[12..14].copy_from_slice(&[8, 6]);
                bond.receive_frame(*now, id(usize::from(bytes[0]) % MEMBERS_MAX), &bytes);
                bond.transmit_frame(*now, &mut bytes);
            }
        }
        drain(bond, *now);
    }

    fn members(&self) -> MemberSet {
        self.bond.members().map(|(id, _)| id).collect()
    }

    /// What must hold now.
    fn check(&mut self) {
        let members = self.members();
        let usable = self.bond.usable();
        let up: MemberSet =
            self.bond.members().filter(|(_, member)| member.link() == LinkState::Up).map(|(id, _)| id).collect();
        assert_eq!(usable.bits() & !members.bits(), 0, "somebody usable is not there");
        match self.bond.active() {
            Some(active) => {
                assert!(matches!(self.bond.member(active).unwrap().link(), LinkState::Up | LinkState::Fail));
            }
            None => assert!(up.is_empty(), "somebody is up, but nobody is active"),
        }
        let is_waiting = self.bond.members().any(|(_, member)| member.link() == LinkState::Back);
        assert!(!is_waiting || self.bond.active().is_some(), "updelay is waited for though nobody is usable");
        for hash in [0, 1, 77, u32::MAX] {
            for kind in [Kind::Ip, Kind::Igmp, Kind::Arp] {
                match self.bond.transmit(self.now, &Summary { kind, ..flow(hash) }) {
                    Transmit::One(member) => {
                        assert!(members.contains(member));
                        assert_ne!(self.bond.config().mode, Mode::Broadcast);
                        assert!(usable.contains(member) || kind == Kind::Igmp);
                    }
                    Transmit::All(set) => {
                        assert_eq!((self.bond.config().mode, set), (Mode::Broadcast, usable));
                    }
                    // As in the driver, nobody becomes active whose carrier is gone, even while `downdelay` lasts.
                    Transmit::None(_) => assert!(usable.is_empty() || (up.is_empty() && self.bond.active().is_none())),
                }
            }
        }
        self.check_addresses();
    }

    /// Where members have addresses of their own, no two have the same, and the active one has the bond's.
    fn check_addresses(&self) {
        let config = self.bond.config();
        if !matches!(config.mode, Mode::BalanceTlb | Mode::BalanceAlb) {
            return;
        }
        if let Some(active) = self.bond.active() {
            assert_eq!(self.bond.member(active).map(bond::Member::mac), self.bond.mac());
        }
        let mut macs: Vec<_> = self.bond.members().map(|(_, member)| member.mac()).collect();
        macs.sort_unstable();
        macs.dedup();
        // Without an active member nobody borrows.
        assert!(self.bond.active().is_none() || macs.len() == self.bond.members().count(), "{macs:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn frames_go_to_members_that_are_there(
        options in 0..OPTIONS.len(),
        happenings in proptest::collection::vec(happening(), 0..40),
    ) {
        let mut world = World::new(options);
        for happening in happenings {
            world.apply(happening);
            world.check();
        }
    }

    #[test]
    fn a_flow_stays_on_its_member_until_members_change(
        hashes in proptest::collection::vec(any::<u32>(), 1..50), members in 1..8_u8, seed: u64,
    ) {
        for options in ["mode=2", "mode=4", "mode=5 tlb_dynamic_lb=0"] {
            let mut bond = super::bond(options, members);
            let all = bond.members().map(|(id, _)| id).collect();
            bond.set_distributing(Time::ZERO, all, all);
            let mut rng = Rng::new(seed);
            let mut known = std::collections::BTreeMap::new();
            for _ in 0..200 {
                let hash = hashes[rng.below(hashes.len() as u32) as usize];
                let chosen = bond.transmit(Time::from_ns(rng.bits() >> 20), &flow(hash));
                prop_assert_eq!(*known.entry(hash).or_insert(chosen), chosen);
            }
        }
    }

    #[test]
    fn in_turn_everyone_usable_gets_his_share(members in 1..=32_u8, down: u32, packets in 1..5_u32, rounds in 1..20_u32) {
        let mut bond = super::bond(&format!("mode=0 packets_per_slave={packets}"), members);
        for n in (0..usize::from(members)).filter(|n| down >> n & 1 == 1) {
            bond.carrier(Time::ZERO, id(n), Carrier::DOWN);
        }
        let usable = bond.usable();
        let mut taken = [0_u32; MEMBERS_MAX];
        for _ in 0..rounds * packets * usable.len() as u32 {
            let Transmit::One(member) = bond.transmit(Time::ZERO, &flow(0)) else { panic!("not sent") };
            taken[member.index()] += 1;
        }
        for member in usable.iter() {
            prop_assert_eq!(taken[member.index()], rounds * packets);
        }
    }

    #[test]
    fn any_bytes_are_sent_or_received_without_harm(
        bytes in proptest::collection::vec(any::<u8>(), 0..120), kind in 0..4_usize, member in 0..4_usize,
    ) {
        let mut bytes = bytes;
        let kinds: [&[u8]; 4] = [&[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], &[0x86, 0xdd, 0x60], &[8, 0, 0x45], &[0x81, 0, 0, 1, 8, 6]];
        if let Some(place) = bytes.get_mut(12..12 + kinds[kind].len()) {
            place.copy_from_slice(kinds[kind]);
        }
        if let Some(place) = bytes.get_mut(6..12) {
            place.copy_from_slice(&mac(0));
        }
        for options in ["mode=6", "mode=1 arp_interval=100 arp_ip_target=10.0.0.1 arp_validate=all", "mode=4"] {
            let mut bond = super::bond(options, 3);
            let len = bytes.len();
            bond.receive_frame(Time::ZERO, id(member), &bytes);
            bond.transmit_frame(Time::ZERO, &mut bytes);
            prop_assert_eq!(bytes.len(), len);
            drain(&mut bond, Time::from_ns(200_000_000));
        }
    }
}
