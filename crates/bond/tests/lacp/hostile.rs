//! Partners that send what they should not.

use bond::Carrier;
use bond::lacp::{Lacp, Output, RECEIVE_MAX, ReceiveState};
use machine::{Rng, Span, Step, Time};
use proptest::prelude::*;
use wire::{LacpInfo, LacpRepr, LacpState, MarkerRepr, SLOW_PAYLOAD};

use crate::lacp::linux::{Bench, partner};
use crate::lacp::world::{World, fast, member, system};

#[test]
fn what_is_malformed_is_counted_and_changes_nothing() {
    let mut bench = Bench::new();
    let mut good = [0; SLOW_PAYLOAD];
    LacpRepr { actor: partner(0x3d), ..LacpRepr::default() }.emit(&mut good);
    let changed = |at: usize, value: u8| {
        let mut payload = good;
        payload[at] = value;
        payload
    };
    let before = bench.lacp.status(member(0)).unwrap();
    for payload in [&good[..0], &good[..57], &changed(3, 0), &changed(23, 19), &changed(43, 255)] {
        bench.lacp.receive(bench.now, member(0), payload);
        bench.drain();
    }
    bench.lacp.receive(bench.now, member(0), &changed(0, 10));
    bench.lacp.receive(bench.now, member(17), &good);
    bench.drain();
    let after = bench.lacp.status(member(0)).unwrap();
    assert_eq!((after.counters.malformed, after.counters.other_protocol, after.counters.received), (5, 1, 0));
    assert_eq!((after.receive, after.partner), (before.receive, before.partner));
    // Another version, and types that nobody has heard of, are no mistake (6.4.12).
    bench.lacp.receive(bench.now, member(0), &changed(1, 77));
    bench.drain();
    assert_eq!(bench.lacp.status(member(0)).unwrap().receive, ReceiveState::Current);
}

#[test]
fn two_members_that_are_joined_with_each_other_are_never_used() {
    let mut world = World::new(1, &[(fast(1), 3), (fast(2), 1)]);
    world.plug((0, 0), (0, 1), 1_000);
    world.plug((0, 2), (1, 0), 1_000);
    world.run_until_distributing(&[0b100, 0b1], Span::from_secs(2));
    world.run(Span::from_secs(200));
    assert_eq!(world.distributing(), [0b100, 0b1]);
    assert_eq!(
        world.why((0, 0)),
        "port 1 does not distribute: it hears this bond's own LACPDUs (a loop, or another system with the same address)"
    );
    let loops = world.events.iter().filter(|(_, _, event)| event.to_string().contains("own LACPDUs")).count();
    assert_eq!(loops, 2, "one line a member, not one an LACPDU");
    world.pull(0);
    world.pull(1);
    world.plug((0, 0), (1, 0), 1_000);
    world.run_until_distributing(&[0b001, 0b1], Span::from_secs(2));
}

#[test]
fn a_loop_at_the_slow_rate_is_remembered_between_lacpdus() {
    let mut world = World::new(2, &[(bond::lacp::Settings::new(system(1)), 2)]);
    world.plug((0, 0), (0, 1), 1_000);
    world.run(Span::from_secs(600));
    assert_eq!(world.changed_at, [Time::ZERO]);
}

#[test]
fn a_loop_behind_a_partner_keeps_the_port_out() {
    let mut bench = Bench::new();
    for _ in 0..5 {
        bench.say(partner(0x3f));
        let echo = bench.last_sent;
        bench.receive(&echo);
        bench.run(Span::from_secs(1));
    }
    assert_eq!(bench.lacp.members().collecting.bits(), 0);
    // The loop is gone: after three seconds the partner is believed.
    for _ in 0..5 {
        bench.say(partner(0x3f));
        bench.run(Span::from_secs(1));
    }
    assert_eq!(bench.lacp.members().distributing.bits(), 1);
}

#[test]
fn of_a_flood_the_last_counts_and_little_is_answered() {
    let mut bench = Bench::new();
    let mut rng = Rng::new(7);
    let sent = |bench: &Bench| bench.lacp.status(member(0)).unwrap().counters.sent;
    let before = sent(&bench);
    for n in 0..100_000_u64 {
        // A hundred thousand in a second, each from another partner.
        bench.now = Time::from_ns(n * 10_000);
        let mut liar = partner(rng.bits() as u8);
        liar.system = [2, 0, 1, rng.bits() as u8, rng.bits() as u8, rng.bits() as u8];
        bench.receive(&LacpRepr { actor: liar, partner: bench.last_sent.actor, collector_max_delay: 0 });
        bench.drain();
    }
    bench.say(partner(0x3d));
    bench.run(Span::from_secs(1));
    let status = bench.lacp.status(member(0)).unwrap();
    assert!(status.counters.partner_changes <= 3 * RECEIVE_MAX as u64, "{:?}", status.counters);
    assert!(status.counters.superseded > 99_900);
    assert_eq!(status.partner.system, system(2), "the last one holds");
    assert!(sent(&bench) - before <= 9, "three a second");
    assert!(bench.lacp.events_dropped() == 0);
}

#[test]
fn a_flood_that_nobody_polls_for_takes_no_room() {
    let mut lacp = Lacp::new(fast(1));
    for id in 0..32 {
        lacp.add_port(Time::ZERO, member(id), [2; 6], 1);
        lacp.link(member(id), Carrier::up(1_000));
    }
    let mut payload = [0; SLOW_PAYLOAD];
    for second in 0..500_u64 {
        for id in 0..32 {
            let mut liar = partner(0x3d);
            liar.port = second as u16;
            liar.key = second as u16;
            LacpRepr { actor: liar, ..LacpRepr::default() }.emit(&mut payload);
            lacp.receive(Time::ZERO + Span::from_secs(second), member(id), &payload);
        }
        // The log is never read.
        let now = Time::ZERO + Span::from_secs(second);
        while let Step::Do(output) = lacp.poll(now) {
            if matches!(output, Output::Event(_)) {
                break;
            }
        }
    }
    assert!(lacp.events_dropped() > 0);
}

#[test]
fn markers_are_answered_ten_times_a_second() {
    let mut bench = Bench::new();
    let mut payload = [0; SLOW_PAYLOAD];
    for n in 0..10_000 {
        bench.now = Time::from_ns(u64::from(n) * 1_000_000 / 10);
        MarkerRepr { response: n % 10 == 9, requester_port: 1, requester_system: system(2), transaction: n }
            .emit(&mut payload);
        bench.lacp.receive(bench.now, member(0), &payload);
        bench.drain();
    }
    assert_eq!(bench.markers.len(), 10);
    let counters = bench.lacp.status(member(0)).unwrap().counters;
    assert_eq!((counters.markers_answered, counters.markers_dropped, counters.marker_responses), (10, 8_990, 1_000));
}

#[test]
fn a_partner_that_flaps_is_followed_but_never_distributed_to_while_it_moves() {
    let mut bench = Bench::new();
    for n in 0..200 {
        let mut other = partner(0x3d);
        other.system = system(2 + n % 2);
        bench.say(other);
        assert_eq!(bench.lacp.members().collecting.bits(), 0);
        bench.run(Span::from_ms(300));
    }
    assert_eq!(bench.lacp.status(member(0)).unwrap().counters.partner_changes, 200);
    assert!(bench.lacp.status(member(0)).unwrap().counters.sent <= 3 * 61);
}

fn info() -> impl Strategy<Value = LacpInfo> {
    (0..4_u8, 0..3_u16, any::<u8>(), 0..3_u16).prop_map(|(n, key, state, port)| LacpInfo {
        system_priority: key,
        system: system(n),
        key,
        port_priority: 0,
        port,
        state: LacpState(state),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// LACPDUs with any fields and any other bytes, to any member, at any time.
    #[test]
    fn nothing_that_arrives_breaks_a_promise(
        arrivals in proptest::collection::vec((0..4_u8, 0..2_000_u64, info(), info(), proptest::option::of(0..SLOW_PAYLOAD), any::<u8>()), 0..120),
    ) {
        let mut world = World::new(1, &[(fast(1), 4)]);
        for id in 0..4 {
            world.link((0, id), true, 1_000);
        }
        for (id, pause_ms, actor, partner, broken, byte) in arrivals {
            world.run(Span::from_ms(pause_ms));
            let mut payload = [0; SLOW_PAYLOAD];
            let partner = if byte < 128 { world.bonds[0].status(member(id)).unwrap().actor } else { partner };
            LacpRepr { actor, partner, collector_max_delay: 0 }.emit(&mut payload);
            if let Some(at) = broken {
                payload[at] = byte;
            }
            world.bonds[0].receive(world.now, member(id), &payload);
            world.drain(0);
        }
    }

    #[test]
    fn any_bytes_are_borne(payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..130), 0..20)) {
        let mut world = World::new(1, &[(fast(1), 1)]);
        world.link((0, 0), true, 1_000);
        for payload in payloads {
            world.bonds[0].receive(world.now, member(0), &payload);
            world.drain(0);
        }
    }
}
