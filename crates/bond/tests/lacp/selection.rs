//! Which ports go together, and which aggregate is used.

use bond::config::AdSelect;
use bond::lacp::Settings;
use machine::Span;
use wire::{LacpInfo, LacpRepr, LacpState, SLOW_PAYLOAD};

use crate::lacp::linux::partner;
use crate::lacp::world::{World, fast, member};

fn selects(n: u8, ad_select: AdSelect) -> Settings {
    Settings { ad_select, ..fast(n) }
}

/// Two links of 1 Gbit/s, and one of 10 Gbit/s.
fn mixed(ad_select: AdSelect) -> World {
    let mut world = World::new(1, &[(selects(1, ad_select), 3), (selects(2, ad_select), 3)]);
    world.plug((0, 0), (1, 0), 1_000);
    world.plug((0, 1), (1, 1), 1_000);
    world.plug((0, 2), (1, 2), 10_000);
    world
}

#[test]
fn by_bandwidth_the_fast_link_is_used() {
    let mut world = mixed(AdSelect::Bandwidth);
    world.run_until_distributing(&[0b100, 0b100], Span::from_secs(2));
    assert_eq!(
        world.why((0, 0)),
        "port 1 does not distribute: its speed of 1000 Mbit/s is not the 10000 Mbit/s of the aggregate's ports"
    );
    world.pull(2);
    world.run_until_distributing(&[0b011, 0b011], Span::from_secs(2));
    world.replug(2, 10_000);
    world.run_until_distributing(&[0b100, 0b100], Span::from_secs(3));
}

#[test]
fn by_count_the_two_links_are_used() {
    let mut world = mixed(AdSelect::Count);
    world.run_until_distributing(&[0b011, 0b011], Span::from_secs(2));
    world.pull(0);
    world.run_until_distributing(&[0b100, 0b100], Span::from_secs(3));
}

#[test]
fn stable_changes_only_when_it_must() {
    let mut world = mixed(AdSelect::Stable);
    world.run_until_distributing(&[0b100, 0b100], Span::from_secs(2));
    world.pull(2);
    world.run_until_distributing(&[0b011, 0b011], Span::from_secs(2));
    world.replug(2, 10_000);
    world.run(Span::from_secs(20));
    assert_eq!(world.distributing(), [0b011, 0b011], "it keeps what it has");
    world.pull(0);
    world.run(Span::from_secs(20));
    assert_eq!(world.distributing(), [0b010, 0b010]);
    world.pull(1);
    world.run_until_distributing(&[0b100, 0b100], Span::from_secs(2));
}

#[test]
fn ends_that_choose_differently_agree_all_the_same() {
    for (a, b) in [(AdSelect::Bandwidth, AdSelect::Count), (AdSelect::Count, AdSelect::Bandwidth)] {
        let mut world = World::new(2, &[(selects(1, a), 3), (selects(2, b), 3)]);
        world.plug((0, 0), (1, 0), 1_000);
        world.plug((0, 1), (1, 1), 1_000);
        world.plug((0, 2), (1, 2), 10_000);
        // The end whose system goes first decides.
        let wanted = if a == AdSelect::Bandwidth { 0b100 } else { 0b011 };
        world.run_until_distributing(&[wanted, wanted], Span::from_secs(4));
        let since = world.changed_at.clone();
        world.run(Span::from_secs(60));
        assert_eq!(world.changed_at, since);
    }
}

/// An external partner whose system goes second, but that keeps to one link of two.
#[test]
fn a_stubborn_partner_has_its_way_after_ten_seconds() {
    let mut world = World::new(6, &[(selects(1, AdSelect::Bandwidth), 2)]);
    world.link((0, 0), true, 1_000);
    world.link((0, 1), true, 10_000);
    let second = |world: &mut World, in_use: u8| {
        for id in 0..2 {
            let state = LacpState(if id == in_use { 0x3f } else { 0x07 });
            let actor = LacpInfo { port: u16::from(id), key: u16::from(id), state, ..partner(0) };
            let pdu =
                LacpRepr { actor, partner: world.bonds[0].status(member(id)).unwrap().actor, collector_max_delay: 0 };
            let mut payload = [0; SLOW_PAYLOAD];
            pdu.emit(&mut payload);
            world.bonds[0].receive(world.now, member(id), &payload);
            world.drain(0);
        }
        world.run(Span::from_secs(1));
    };
    for _ in 0..9 {
        second(&mut world, 0);
        assert_eq!(world.distributing(), [0]);
    }
    for _ in 0..3 {
        second(&mut world, 0);
    }
    for _ in 0..60 {
        assert_eq!(world.distributing(), [0b01]);
        second(&mut world, 0);
    }
    for _ in 0..3 {
        second(&mut world, 1);
    }
    assert_eq!(world.distributing(), [0b10], "what both want is used");
}

#[test]
fn keys_of_the_two_ends_need_not_be_equal_but_must_not_differ_within_one() {
    let other = Settings { user_key: 5, ..fast(2) };
    let mut world = World::pair(3, fast(1), other, 2);
    world.run_until_distributing(&[0b11, 0b11], Span::from_secs(2));
    assert_eq!(world.bonds[0].status(member(0)).unwrap().partner.key, 5 * 64 + 9);
    // One end sees another speed on one link, as a media converter may do.
    world.link((1, 1), true, 100);
    world.run(Span::from_secs(3));
    assert_eq!(world.distributing(), [0b01, 0b01]);
    assert!(
        world
            .why((0, 1))
            .ends_with("02:00:00:00:00:02 key 327 is not the aggregate's partner 02:00:00:00:00:02 key 329")
    );
    assert!(world.why((1, 1)).ends_with("its speed of 100 Mbit/s is not the 1000 Mbit/s of the aggregate's ports"));
}

#[test]
fn min_links_hold_the_carrier_back() {
    let needs_two = Settings { min_links: 2, ..fast(1) };
    let mut world = World::pair(4, needs_two, fast(2), 3);
    world.run_until_distributing(&[0b111, 0b111], Span::from_secs(2));
    assert!(world.bonds[0].members().carrier);
    world.pull(0);
    assert!(world.bonds[0].members().carrier);
    world.pull(1);
    assert!(!world.bonds[0].members().carrier);
    assert!(world.bonds[1].members().carrier);
    assert_eq!(
        world.why((0, 2)),
        "port 3 distributes, but the bond has no carrier: 1 of the 2 ports that min_links asks for"
    );
    world.replug(0, 1_000);
    world.run_until_distributing(&[0b101, 0b101], Span::from_secs(2));
    assert!(world.bonds[0].members().carrier);
}

#[test]
fn a_change_of_the_system_moves_the_whole_aggregate() {
    let mut world = World::pair(5, fast(1), fast(2), 2);
    world.run_until_distributing(&[0b11, 0b11], Span::from_secs(2));
    world.bonds[0].configure(fast(7));
    world.drain(0);
    assert_eq!(world.distributing()[0], 0);
    world.run_until_distributing(&[0b11, 0b11], Span::from_secs(2));
    assert_eq!(world.bonds[1].active().unwrap().1.system, [2, 0, 0, 0, 0, 7]);
}
