//! Cables are pulled and moved, and systems restart.

use bond::Carrier;
use bond::lacp::{ChurnState, Event, Lacp, Reason, Settings};
use machine::{Span, Time};

use crate::lacp::world::{World, fast, member, system};

#[test]
fn a_member_that_is_pulled_leaves_at_once_and_comes_back() {
    let mut world = World::pair(1, fast(1), fast(2), 4);
    world.run_until_distributing(&[0b1111, 0b1111], Span::from_secs(2));
    for cable in 0..4 {
        let rest = 0b1111 & !(1 << cable);
        world.pull(cable);
        assert_eq!(world.distributing(), [rest, rest], "the carrier counts at once");
        world.run(Span::from_secs(10));
        assert_eq!(world.distributing(), [rest, rest]);
        world.replug(cable, 1_000);
        world.run_until_distributing(&[0b1111, 0b1111], Span::from_secs(2));
    }
}

#[test]
fn the_other_end_of_a_link_that_fails_in_one_direction_stops_within_three_periods() {
    let mut world = World::pair(2, fast(1), fast(2), 2);
    world.run_until_distributing(&[0b11, 0b11], Span::from_secs(2));
    let at = world.now;
    world.cables[1].loss_percent = 100;
    world.run_until_distributing(&[0b01, 0b01], Span::from_secs(4));
    assert!(world.now > at + Span::from_secs(2), "one lost LACPDU is not enough");
    assert!(world.why((0, 1)).contains("its partner 02:00:00:00:00:02 key 9 fell silent"));
    assert_eq!(world.bonds[0].status(member(1)).unwrap().counters.expirations, 1);
    world.run(Span::from_secs(20));
    world.cables[1].loss_percent = 0;
    world.run_until_distributing(&[0b11, 0b11], Span::from_secs(3));
}

#[test]
fn a_partner_at_the_slow_rate_is_given_up_after_ninety_seconds() {
    let mut world = World::pair(3, Settings::new(system(1)), Settings::new(system(2)), 2);
    world.run_until_distributing(&[0b11, 0b11], Span::from_secs(2));
    world.run(Span::from_secs(5));
    world.cables[1].loss_percent = 100;
    world.run(Span::from_secs(58));
    assert_eq!(world.distributing(), [0b11, 0b11]);
    world.run(Span::from_secs(33));
    assert_eq!(world.distributing(), [0b01, 0b01]);
}

#[test]
fn a_cable_that_is_swapped_between_systems_joins_no_wrong_aggregate() {
    let mut world = World::new(4, &[(fast(1), 3), (fast(2), 3), (fast(3), 3)]);
    world.plug((0, 0), (1, 0), 1_000);
    world.plug((0, 1), (1, 1), 1_000);
    world.plug((0, 2), (1, 2), 1_000);
    world.run_until_distributing(&[0b111, 0b111, 0], Span::from_secs(2));
    world.pull(2);
    world.plug((0, 2), (2, 0), 1_000);
    world.run(Span::from_secs(5));
    assert_eq!(world.distributing(), [0b011, 0b011, 0]);
    assert_eq!(
        world.why((0, 2)),
        "port 3 does not distribute: its partner 02:00:00:00:00:03 key 9 is not the aggregate's partner 02:00:00:00:00:02 key 9"
    );
    assert!(matches!(
        world.bonds[2].why(world.now, member(0)).unwrap().reason,
        Reason::PartnerNotInSync { port: 3, .. }
    ));
}

#[test]
fn a_cable_that_is_moved_to_another_member_is_followed() {
    let mut world = World::new(5, &[(fast(1), 3), (fast(2), 3)]);
    world.plug((0, 0), (1, 0), 1_000);
    world.plug((0, 1), (1, 1), 1_000);
    world.run_until_distributing(&[0b011, 0b011], Span::from_secs(2));
    world.pull(1);
    world.plug((0, 2), (1, 1), 1_000);
    world.run_until_distributing(&[0b101, 0b011], Span::from_secs(2));
    let left = world.bonds[0].status(member(1)).unwrap();
    assert_eq!(left.partner.system, [0; 6], "the member that lost its cable has forgotten its partner");
}

#[test]
fn crossed_cables_make_no_difference() {
    let mut world = World::new(6, &[(fast(1), 4), (fast(2), 4)]);
    for id in 0..4 {
        world.plug((0, id), (1, 3 - id), 1_000);
    }
    world.run_until_distributing(&[0b1111, 0b1111], Span::from_secs(2));
}

#[test]
fn a_partner_that_restarts_under_another_system_id_is_taken_on() {
    let mut world = World::pair(7, fast(1), fast(2), 2);
    world.run_until_distributing(&[0b11, 0b11], Span::from_secs(2));
    let mut fresh = Lacp::new(fast(9));
    for id in 0..2 {
        fresh.add_port(world.now, member(id), [2, 1, 0, 0, 9, id], 0xff);
        fresh.link(member(id), Carrier::up(1_000));
    }
    world.bonds[1] = fresh;
    world.drain(1);
    world.run(Span::from_ms(10));
    assert_eq!(world.distributing(), [0, 0], "the old aggregate is gone as soon as the new partner is heard");
    world.run_until_distributing(&[0b11, 0b11], Span::from_secs(2));
    assert_eq!(world.bonds[0].active().unwrap().1.system, system(9));
    let line = "port 1: its partner is 02:00:00:00:00:09 key 9, no longer 02:00:00:00:00:02 key 9";
    assert!(world.events.iter().any(|(_, _, event)| event.to_string() == line));
}

#[test]
fn a_partner_that_restarts_as_itself_is_taken_on() {
    let mut world = World::pair(8, fast(1), fast(2), 2);
    world.run_until_distributing(&[0b11, 0b11], Span::from_secs(2));
    world.mute[1] = true;
    world.run(Span::from_secs(30));
    let mut fresh = Lacp::new(fast(2));
    for id in 0..2 {
        fresh.add_port(world.now, member(id), [2, 1, 0, 0, 2, id], 0xff);
        fresh.link(member(id), Carrier::up(1_000));
    }
    world.bonds[1] = fresh;
    world.mute[1] = false;
    world.run_until_distributing(&[0b11, 0b11], Span::from_secs(3));
}

#[test]
fn members_are_added_and_removed_while_running() {
    let mut world = World::pair(9, fast(1), fast(2), 2);
    world.run_until_distributing(&[0b11, 0b11], Span::from_secs(2));
    world.bonds[0].remove_port(member(1));
    world.drain(0);
    assert_eq!(world.distributing(), [0b01, 0b11]);
    world.run_until_distributing(&[0b01, 0b01], Span::from_secs(4));
    world.bonds[0].add_port(world.now, member(1), [2, 1, 0, 0, 1, 1], 0xff);
    world.link((0, 1), true, 1_000);
    world.run_until_distributing(&[0b11, 0b11], Span::from_secs(3));
}

#[test]
fn an_end_that_never_comes_in_sync_churns_after_a_minute() {
    // The second link's other end belongs to another system, so that its port stands by.
    let mut world = World::new(10, &[(fast(1), 2), (fast(2), 1), (fast(3), 1)]);
    world.plug((0, 0), (1, 0), 1_000);
    world.plug((0, 1), (2, 0), 1_000);
    world.run(Span::from_secs(58));
    let churn = |world: &World, bond: usize, id| {
        let status = world.bonds[bond].status(member(id)).unwrap();
        (status.actor_churn, status.partner_churn)
    };
    assert_eq!(churn(&world, 0, 0), (ChurnState::NoChurn, ChurnState::NoChurn));
    assert_eq!(churn(&world, 0, 1).0, ChurnState::Monitor);
    world.run(Span::from_secs(5));
    assert_eq!(churn(&world, 0, 1).0, ChurnState::Churn);
    assert_eq!(churn(&world, 2, 0), (ChurnState::NoChurn, ChurnState::Churn));
    assert!(
        world.events.iter().any(|(_, bond, event)| (*bond, *event) == (2, Event::PartnerChurn { port: member(0) }))
    );
    world.pull(0);
    world.run_until_distributing(&[0b10, 0, 0b1], Span::from_secs(3));
    assert_eq!(churn(&world, 0, 1), (ChurnState::NoChurn, ChurnState::NoChurn));
    assert!(world.now > Time::ZERO);
}

#[test]
fn a_member_that_flaps_keeps_no_other_out() {
    let mut world = World::pair(11, fast(1), fast(2), 2);
    world.pull(0);
    world.pull(1);
    world.run(Span::from_secs(1));
    world.replug(0, 1_000);
    let mut reached = None;
    for step in 0..40 {
        world.replug(1, 1_000);
        world.run(Span::from_ms(100));
        world.pull(1);
        world.run(Span::from_ms(100));
        if world.distributing() == [0b01, 0b01] && reached.is_none() {
            reached = Some(step);
        }
    }
    assert!(reached.is_some_and(|step| step <= 15), "{reached:?}\n{}", world.reasons());
}
