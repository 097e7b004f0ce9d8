//! Two ends find each other.

use bond::Carrier;
use bond::config::LacpRate;
use bond::lacp::{ChurnState, Convergence, Event, PeriodicState, ReceiveState, Settings};
use machine::{Span, Time};

use crate::lacp::world::{World, fast, member, system};

fn passive(settings: Settings) -> Settings {
    Settings { active: false, ..settings }
}

#[test]
fn all_members_distribute_in_less_than_two_seconds_at_the_fast_rate() {
    for members in [1, 2, 8, 32] {
        let all = u32::MAX >> (32 - u32::from(members));
        let mut world = World::pair(1, fast(1), fast(2), members);
        let reached = world.run_until_distributing(&[all, all], Span::from_secs(2));
        // The fourth LACPDU, that it collects, has to wait for the second to pass in which three have left.
        assert!(reached < Time::ZERO + Span::from_ms(1_100), "{members} members took until {reached:?}");
    }
}

/// A bond that is on its way to convergence says so until it has converged, and does not say meanwhile that a member is left out.
#[test]
fn all_members_are_pending_until_they_distribute() {
    for seed in 0..20 {
        let mut world = World::pair(seed, fast(1), fast(2), 4);
        for cable in &mut world.cables {
            (cable.delay, cable.loss_percent) = (Span::from_ms(5), 5);
        }
        while world.distributing() != [0b1111, 0b1111] {
            world.run(Span::from_ms(1));
            let standings = (0..2).flat_map(|bond| (0..4).map(move |id| (bond, member(id))));
            let left_out = standings
                .filter_map(|(bond, id)| world.bonds[bond].why(world.now, id))
                .find(|why| why.reason.convergence() == Convergence::LeftOut);
            assert_eq!(left_out, None, "seed {seed} at {:?}", world.now);
            assert!(world.now < Time::ZERO + Span::from_secs(4), "{}", world.reasons());
        }
        assert!((0..4).all(|id| {
            let why = world.bonds[0].why(world.now, member(id)).unwrap();
            why.reason.convergence() == Convergence::Converged
        }));
    }
}

/// Linux counts its wait of two seconds from the first LACPDU that it hears.
#[test]
fn a_link_that_comes_back_is_announced_at_once() {
    let mut world = World::pair(1, fast(1), fast(2), 1);
    world.run_until_distributing(&[1, 1], Span::from_secs(2));
    world.pull(0);
    world.run(Span::from_secs(10));
    let before = world.sent;
    world.replug(0, 1_000);
    world.run(Span::from_ms(10));
    assert!(world.sent >= before + 2, "{} were sent", world.sent - before);
}

#[test]
fn delay_and_loss_are_borne_in_less_than_two_seconds() {
    for seed in 0..50 {
        let mut world = World::pair(seed, fast(1), fast(2), 4);
        for cable in &mut world.cables {
            (cable.delay, cable.loss_percent) = (Span::from_ms(20), 5);
        }
        world.run_until_distributing(&[0b1111, 0b1111], Span::from_secs(4));
    }
    let mut world = World::pair(0, fast(1), fast(2), 4);
    for cable in &mut world.cables {
        cable.delay = Span::from_ms(100);
    }
    world.run_until_distributing(&[0b1111, 0b1111], Span::from_secs(2));
}

#[test]
fn it_stays_for_ten_minutes_without_churn() {
    for (a, b) in [(LacpRate::Fast, LacpRate::Fast), (LacpRate::Slow, LacpRate::Slow), (LacpRate::Fast, LacpRate::Slow)]
    {
        let (a, b) = (Settings { rate: a, ..fast(1) }, Settings { rate: b, ..fast(2) });
        let mut world = World::pair(2, a, b, 4);
        world.run_until_distributing(&[0b1111, 0b1111], Span::from_secs(2));
        let (since, events) = (world.changed_at.clone(), world.events.len());
        world.run(Span::from_secs(600));
        assert_eq!((&world.changed_at, world.events.len()), (&since, events));
        for (bond, id) in [(0, 0), (0, 3), (1, 0), (1, 3)] {
            let status = world.bonds[bond].status(member(id)).unwrap();
            assert_eq!((status.actor_churn, status.partner_churn), (ChurnState::NoChurn, ChurnState::NoChurn));
            assert_eq!(status.receive, ReceiveState::Current);
        }
    }
}

#[test]
fn each_end_sends_as_often_as_its_partner_asks() {
    let mut world = World::pair(3, fast(1), Settings::new(system(2)), 1);
    world.run(Span::from_secs(10));
    let counts = |world: &World| [0, 1].map(|bond: usize| world.bonds[bond].status(member(0)).unwrap().counters.sent);
    let before = counts(&world);
    world.run(Span::from_secs(300));
    let after = counts(&world);
    assert_eq!([after[0] - before[0], after[1] - before[1]], [10, 300]);
    assert_eq!(world.bonds[0].status(member(0)).unwrap().periodic, PeriodicState::SlowPeriodic);
    assert_eq!(world.bonds[1].status(member(0)).unwrap().periodic, PeriodicState::FastPeriodic);
}

#[test]
fn a_passive_end_answers_an_active_one() {
    let mut world = World::pair(4, fast(1), passive(fast(2)), 2);
    world.run_until_distributing(&[0b11, 0b11], Span::from_secs(2));
    world.run(Span::from_secs(60));
    assert_eq!(world.distributing(), [0b11, 0b11]);
}

#[test]
fn two_passive_ends_stay_silent_and_use_one_port_each() {
    let mut world = World::pair(5, passive(fast(1)), passive(fast(2)), 2);
    world.run(Span::from_secs(120));
    assert_eq!(world.sent, 0);
    assert_eq!(world.distributing(), [0b01, 0b01]);
    assert_eq!(world.bonds[0].status(member(0)).unwrap().receive, ReceiveState::Defaulted);
    assert_eq!(
        world.why((0, 0)),
        "port 1 distributes: no LACPDU arrives, so it is used alone (is the other end a bond without LACP?)"
    );
}

#[test]
fn an_end_that_becomes_active_wakes_the_other() {
    let mut world = World::pair(6, passive(fast(1)), passive(fast(2)), 2);
    world.run(Span::from_secs(20));
    world.bonds[0].configure(fast(1));
    world.run_until_distributing(&[0b11, 0b11], Span::from_secs(3));
}

#[test]
fn a_static_other_end_leaves_one_port_in_use() {
    let mut world = World::new(7, &[(fast(1), 3), (fast(2), 3)]);
    world.mute[1] = true;
    for id in 0..3 {
        world.plug((0, id), (1, id), 1_000);
    }
    world.run(Span::from_secs(2));
    assert_eq!(world.distributing()[0], 0, "it might still speak");
    assert_eq!(world.why((0, 0)), "port 1 does not distribute: its link came up, and no LACPDU has arrived yet");
    world.run(Span::from_secs(8));
    assert_eq!(world.distributing()[0], 0b001);
    assert_eq!(
        world.why((0, 2)),
        "port 3 does not distribute: no LACPDU arrives (is the other end a bond without LACP?), and without LACP only one \
         port is used, now port 1"
    );
    assert!(world.events.iter().any(|(_, bond, event)| (*bond, *event) == (0, Event::NoPartner { port: member(2) })));
    world.mute[1] = false;
    world.run_until_distributing(&[0b111, 0b111], Span::from_secs(6));
}

#[test]
fn a_half_duplex_link_is_used_only_alone() {
    let mut world = World::pair(8, fast(1), fast(2), 2);
    world.bonds[0].link(member(1), Carrier { full_duplex: false, ..Carrier::up(1_000) });
    world.bonds[1].link(member(1), Carrier { full_duplex: false, ..Carrier::up(1_000) });
    world.run(Span::from_secs(5));
    assert_eq!(world.distributing(), [0b01, 0b01]);
    assert_eq!(world.bonds[0].status(member(1)).unwrap().receive, ReceiveState::LacpDisabled);
    assert_eq!(
        world.why((0, 1)),
        "port 2 does not distribute: its link is half-duplex, for which there is no LACP, and another port is used"
    );
}

#[test]
fn no_more_than_three_lacpdus_leave_in_any_second() {
    let mut world = World::pair(9, fast(1), fast(2), 1);
    let mut sent = vec![];
    for step in 0..400 {
        // Each change of the key is worth an LACPDU.
        world.bonds[0].configure(Settings { user_key: step % 7 + 1, ..fast(1) });
        world.drain(0);
        world.run(Span::from_ms(25));
        sent.push(world.bonds[0].status(member(0)).unwrap().counters.sent);
    }
    for window in sent.windows(40) {
        assert!(window[39] - window[0] <= 3, "{window:?}");
    }
    assert!(sent[399] >= 25, "{sent:?}");
}

#[test]
fn a_change_of_the_rate_disturbs_nobody() {
    let mut world = World::pair(10, fast(1), fast(2), 2);
    world.run_until_distributing(&[0b11, 0b11], Span::from_secs(2));
    world.run(Span::from_secs(5));
    let since = world.changed_at.clone();
    for rate in [LacpRate::Slow, LacpRate::Fast, LacpRate::Slow] {
        world.bonds[0].configure(Settings { rate, ..fast(1) });
        world.run(Span::from_secs(200));
        assert_eq!(world.changed_at, since, "{rate}");
        let asked = world.bonds[1].status(member(0)).unwrap().periodic;
        assert_eq!(asked == PeriodicState::FastPeriodic, rate == LacpRate::Fast);
    }
    world.cables[0].loss_percent = 100;
    world.run(Span::from_secs(100));
    assert_eq!(world.distributing()[0], 0b10, "a partner that falls silent is found all the same");
}
