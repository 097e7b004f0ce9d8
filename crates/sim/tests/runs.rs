//! Small networks whose outcome is known beforehand.

use std::sync::Arc;

use crate::network::{self, GIGABIT, reno};
use crate::scenario;
use fabric::Fabric;
use link::LinkSpec;
use machine::{Span, Time};
use sim::{FlowSpec, Outcome, Scenario};
use topology::{NodeId, Routes};
use transport::{TransportKind, TransportSpec};
use vswitch::Spread;

fn flow(from: u32, to: u32) -> FlowSpec {
    FlowSpec { from: NodeId(from), to: NodeId(to), start: Time::ZERO }
}

struct Run<'a> {
    fabric: &'a Fabric,
    spread: Spread,
    transport: TransportSpec,
    flows: Vec<FlowSpec>,
    warm_up: Span,
    duration: Span,
    seed: u64,
}

impl Run<'_> {
    fn run(&self) -> Outcome {
        let routes = Arc::new(Routes::compute(&self.fabric.topology));
        sim::run(&Scenario {
            spread: self.spread,
            warm_up: self.warm_up,
            duration: self.duration,
            seed: self.seed,
            ..scenario::plain(self.fabric, &routes, &self.transport, &self.flows)
        })
    }
}

fn run_of(fabric: &Fabric, window: u32, flows: Vec<FlowSpec>) -> Run<'_> {
    Run {
        fabric,
        spread: Spread::Single,
        transport: reno(window),
        flows,
        warm_up: Span::from_ms(20),
        duration: Span::from_ms(100),
        seed: 1,
    }
}

/// Two hosts with `hops` links between them.
fn chain(hops: u32, spec: LinkSpec) -> Fabric {
    let switches = hops - 1;
    let node = |n| match n {
        0 => 0,
        n if n == hops => 1,
        n => n + 1,
    };
    let links: Vec<_> = (0..hops).map(|n| (node(n), node(n + 1), spec)).collect();
    network::network(2, switches, &links)
}

fn drops(outcome: &Outcome) -> u64 {
    outcome.links.iter().map(|link| link.forward.drops + link.backward.drops).sum()
}

fn reordered(outcome: &Outcome) -> u64 {
    outcome.flows.iter().map(|flow| flow.reordering.reordered).sum()
}

#[test]
fn a_window_every_round_trip_exactly() {
    for hops in 1..=3_u32 {
        let fabric = chain(hops, GIGABIT);
        for window in [1, 2, 7] {
            // 1,040 and 40 bytes at 1 Gbit/s, 50 us each way and hop.
            let round_trip = Span::from_ns(u64::from(hops) * (8_320 + 320 + 2 * 50_000));
            let run = Run {
                warm_up: round_trip * 10,
                duration: round_trip * 1_000,
                ..run_of(&fabric, window, vec![flow(0, 1)])
            };
            let outcome = run.run();
            assert_eq!(
                outcome.flows[0].delivered_bytes,
                1_000 * u64::from(window) * 1_000,
                "{hops} hops, window {window}"
            );
            assert_eq!(outcome.flows[0].segments, 1_000 * u64::from(window));
            // Data forward and ACKs backward on every link.
            for link in &outcome.links {
                let (forward, backward) = (link.forward, link.backward);
                assert_eq!((forward.packets, backward.packets), (1_000 * u64::from(window), 1_000 * u64::from(window)));
                assert_eq!(forward.busy, Span::from_ns(8_320) * (1_000 * u64::from(window)));
                assert_eq!(backward.bytes, 40_000 * u64::from(window));
            }
        }
    }
}

#[test]
fn a_large_window_fills_the_pipe_exactly() {
    let fabric = chain(2, GIGABIT);
    // 100 segments take 832 us, the round trip 217 us: a standing queue at the host, and the link is never idle.
    let run = Run { duration: Span::from_ns(8_320) * 5_000, ..run_of(&fabric, 100, vec![flow(0, 1)]) };
    let outcome = run.run();
    assert_eq!(outcome.flows[0].delivered_bytes, 5_000_000);
    assert_eq!(drops(&outcome), 0);
}

#[test]
fn a_delayed_acknowledgement_waits_for_its_timer() {
    let fabric = chain(1, GIGABIT);
    let round_trip = Span::from_ns(8_320 + 320 + 100_000) + Span::from_ms(40);
    let mut run = Run { warm_up: Span::ZERO, duration: round_trip * 50, ..run_of(&fabric, 1, vec![flow(0, 1)]) };
    run.transport.delayed_ack = Some(Span::from_ms(40));
    let outcome = run.run();
    assert_eq!(outcome.flows[0].delivered_bytes, 50_000);
    assert_eq!(outcome.flows[0].timeouts, 0);
}

#[test]
fn flows_start_when_they_are_due() {
    let fabric = chain(1, GIGABIT);
    let late = FlowSpec { start: Time::from_ns(5_000_000), ..flow(0, 1) };
    let run =
        |end_us| Run { warm_up: Span::ZERO, duration: Span::from_us(end_us), ..run_of(&fabric, 1, vec![late]) }.run();
    assert_eq!(run(5_000).packet_hops, 0);
    // 58.32 us after the start the first segment is there.
    assert_eq!(run(5_058).flows[0].delivered_bytes, 0);
    assert_eq!(run(5_059).flows[0].delivered_bytes, 1_000);
}

#[test]
fn a_bottleneck_is_shared_evenly_and_filled() {
    // Hosts 1 to 4 send to host 0.
    let links: Vec<_> = (0..5).map(|host| (host, 5, GIGABIT)).collect();
    let fabric = network::network(5, 1, &links);
    let run = run_of(&fabric, 20, (1..5).map(|host| flow(host, 0)).collect());
    let outcome = run.run();
    let delivered: Vec<u64> = outcome.flows.iter().map(|flow| flow.delivered_bytes).collect();
    let sum: u64 = delivered.iter().sum();
    // 1 Gbit/s for 100 ms, 1,000 of each 1,040 bytes.
    let capacity = 100_000_000 / 8 * 1_000 / 1_040;
    assert!((capacity - 1_000..=capacity + 1_000).contains(&sum), "{sum} of {capacity}");
    for bytes in &delivered {
        assert!(bytes.abs_diff(sum / 4) <= sum / 400, "within 1 % of a quarter each: {delivered:?}");
    }
    assert_eq!(drops(&outcome), 0);
    assert!(outcome.links[0].backward.queue_peak > 50, "the queue stands before the receiver");
}

#[test]
fn a_tiny_queue_drops_and_tcp_goes_on() {
    let tiny = LinkSpec { queue_packets: Some(4), ..GIGABIT };
    let links: Vec<_> = (0..5).map(|host| (host, 5, tiny)).collect();
    let fabric = network::network(5, 1, &links);
    for kind in [TransportKind::Reno, TransportKind::NewReno, TransportKind::Sack] {
        let mut run =
            Run { duration: Span::from_secs(2), ..run_of(&fabric, 40, (1..5).map(|host| flow(host, 0)).collect()) };
        run.transport.kind = kind;
        let outcome = run.run();
        let sum: u64 = outcome.flows.iter().map(|flow| flow.delivered_bytes).sum();
        let retransmits: u64 = outcome.flows.iter().map(|flow| flow.retransmits).sum();
        let recoveries: u64 = outcome.flows.iter().map(|flow| flow.fast_retransmits).sum();
        assert!(drops(&outcome) > 100, "{kind:?}");
        assert!(retransmits > 100 && recoveries > 100, "{kind:?}: {retransmits} {recoveries}");
        assert!(sum > 100_000_000, "{kind:?}: {sum} bytes of at most 240 MB");
        assert!(outcome.flows.iter().all(|flow| flow.delivered_bytes > 10_000_000), "{kind:?}");
        // What is sent again is no reordering.
        assert_eq!(reordered(&outcome), 0, "{kind:?}");
    }
}

/// Two edge switches (2, 3) and two switches between them (4, 5), the second of which is `detour` farther.
fn diamond(detour: Span) -> Fabric {
    let slow = LinkSpec { delay: GIGABIT.delay + detour, ..GIGABIT };
    network::network(
        2,
        4,
        &[(0, 2, GIGABIT), (1, 3, GIGABIT), (2, 4, GIGABIT), (2, 5, GIGABIT), (4, 3, GIGABIT), (5, 3, slow)],
    )
}

#[test]
fn scatter_over_unequal_paths_reorders() {
    let (equal, unequal) = (diamond(Span::ZERO), diamond(Span::from_us(100)));
    let run = |fabric, spread| Run { spread, ..run_of(fabric, 30, vec![flow(0, 1)]) }.run();
    assert_eq!(reordered(&run(&equal, Spread::PacketScatter)), 0);
    assert_eq!(reordered(&run(&unequal, Spread::Single)), 0);
    let scattered = run(&unequal, Spread::PacketScatter);
    let flow = &scattered.flows[0];
    assert!(flow.reordering.reordered > 100, "{flow:?}");
    // 100 us are 12 transmissions; each second segment takes the short path.
    assert!((3..=12).contains(&flow.reordering.extent_max), "{flow:?}");
    assert!(flow.fast_retransmits > 0 && flow.retransmits > 0 && flow.timeouts == 0, "{flow:?}");
    assert_eq!(drops(&scattered), 0);
    // A sender that waits longer is not misled.
    let mut patient = Run { spread: Spread::PacketScatter, ..run_of(&unequal, 30, vec![self::flow(0, 1)]) };
    patient.transport.duplicate_ack_threshold = 20;
    let patient = patient.run();
    assert_eq!(patient.flows[0].retransmits, 0);
    assert!(patient.flows[0].delivered_bytes > flow.delivered_bytes);
}

#[test]
fn the_parts_of_a_run_add_up() {
    let fabric = network::fat_tree(4, LinkSpec { queue_packets: Some(20), ..GIGABIT });
    let flows: Vec<_> = (0..16).map(|x| flow(x, (x + 8) % 16)).collect();
    let run = |warm_up_ms, ms| {
        let spread = Spread::PacketScatterRandom;
        Run {
            spread,
            warm_up: Span::from_ms(warm_up_ms),
            duration: Span::from_ms(ms),
            ..run_of(&fabric, 64, flows.clone())
        }
        .run()
    };
    let (whole, first, second) = (run(0, 60), run(0, 25), run(25, 35));
    assert_eq!(whole.packet_hops, second.packet_hops);
    for n in 0..16 {
        let (whole, first, second) = (&whole.flows[n], &first.flows[n], &second.flows[n]);
        assert_eq!(whole.delivered_bytes, first.delivered_bytes + second.delivered_bytes);
        assert_eq!(whole.segments, first.segments + second.segments);
        assert_eq!(whole.retransmits, first.retransmits + second.retransmits);
        assert_eq!(whole.reordering.reordered, first.reordering.reordered + second.reordering.reordered);
        assert!(whole.reordering.reordered > 0);
    }
    for n in 0..fabric.topology.links.len() {
        let (whole, first, second) = (whole.links[n].forward, first.links[n].forward, second.links[n].forward);
        assert_eq!(whole.packets, first.packets + second.packets);
        assert_eq!(whole.queue_peak, first.queue_peak.max(second.queue_peak));
    }
}

#[test]
fn the_same_seed_gives_the_same_outcome_and_another_one_another() {
    let fabric = network::fat_tree(4, GIGABIT);
    for spread in [Spread::Ecmp, Spread::PacketScatterRandom] {
        let flows: Vec<_> = (0..16).map(|x| flow(x, (x + 4) % 16)).collect();
        let run = |seed| Run { spread, seed, ..run_of(&fabric, 100, flows.clone()) }.run();
        assert_eq!(run(1), run(1));
        assert_ne!(run(1).flows, run(2).flows, "{spread:?}");
    }
}

#[test]
fn host_to_itself_and_back() {
    // A loop through its switch: the two directions of one link.
    let fabric = network::network(1, 1, &[(0, 1, GIGABIT)]);
    let outcome = run_of(&fabric, 4, vec![flow(0, 0)]).run();
    assert!(outcome.flows[0].delivered_bytes > 0);
}

/// Integers only, so that the same bytes come out on every machine.
#[test]
fn small_runs() {
    let fabric = diamond(Span::from_us(60));
    for (name, kind, spread) in [
        ("reno-scatter", TransportKind::Reno, Spread::PacketScatter),
        ("newreno-random", TransportKind::NewReno, Spread::PacketScatterRandom),
        ("sack-random", TransportKind::Sack, Spread::PacketScatterRandom),
        ("reno-ecmp", TransportKind::Reno, Spread::Ecmp),
    ] {
        let flows = vec![flow(0, 1), flow(1, 0), flow(0, 1)];
        let mut run =
            Run { spread, warm_up: Span::from_ms(5), duration: Span::from_ms(20), ..run_of(&fabric, 40, flows) };
        run.transport.kind = kind;
        insta::assert_json_snapshot!(name, run.run());
    }
}

/// A file like this is refused before it is simulated; whoever comes here all the same learns why, at once.
#[test]
#[should_panic(expected = "simulated time stands still")]
fn a_way_that_takes_no_time_ends_the_run() {
    let fabric = chain(2, LinkSpec::default());
    run_of(&fabric, 20, vec![flow(0, 1)]).run();
}

#[test]
fn a_card_that_collects_hands_segments_over_together_and_linux_acknowledges_them_so() {
    let acks_a_segment = |kind, coalesce_ns| {
        let fabric = chain(2, LinkSpec { coalesce_ns, ..GIGABIT });
        let mut run = run_of(&fabric, 200, vec![flow(0, 1)]);
        run.transport = TransportSpec { kind, delayed_ack: Some(Span::from_ms(40)), ..reno(200) };
        let outcome = run.run();
        let delivered = outcome.flows[0].delivered_bytes as f64 * 8.0 / 0.1 / 1e9;
        assert!(delivered > 0.94, "{kind:?}, {coalesce_ns} ns: {delivered:.3} Gbit/s");
        assert_eq!(outcome.flows[0].reordering.reordered, 0);
        let (data, acks) = (outcome.links[1].forward, outcome.links[1].backward);
        assert!(data.packets > 10_000, "{data:?}");
        acks.packets as f64 / data.packets as f64
    };
    for kind in [TransportKind::Sack, TransportKind::Linux] {
        let each = acks_a_segment(kind, 0);
        assert!((0.45..0.6).contains(&each), "{kind:?} acknowledges every second one: {each:.3}");
    }
    // Fifteen of 1,040 bytes come in 125 us; the studies' hosts join nothing.
    let together = acks_a_segment(TransportKind::Linux, 125_000);
    assert!((0.05..0.1).contains(&together), "{together:.3}");
    assert!(acks_a_segment(TransportKind::Sack, 125_000) > 0.45);
}

/// Two hosts with a link of 20 Mbit/s in the middle, whose queue holds four messages.
#[test]
fn messages_of_udp_fill_a_bottleneck_that_they_do_not_overrun() {
    let slow =
        LinkSpec { rate_bps: Some(20_000_000), delay: Span::from_ms(2), queue_packets: Some(50), ..LinkSpec::UNSHAPED };
    let fabric = network::network(2, 2, &[(0, 2, GIGABIT), (2, 3, slow), (3, 1, GIGABIT)]);
    // One stream has a window of four messages, and four have one each. Eight have one each, too, for which there is no room.
    for (streams, least) in [(1, 0.99), (4, 0.99), (8, 0.5)] {
        let mut run = run_of(&fabric, 20, vec![flow(0, 1); streams]);
        for (n, flow) in run.flows.iter_mut().enumerate() {
            flow.start = Time::ZERO + Span::from_us(900) * n as u64;
        }
        run.transport.kind = TransportKind::Udp;
        (run.warm_up, run.duration) = (Span::from_secs(1), Span::from_secs(2));
        let outcome = run.run();
        let bytes: u64 = outcome.flows.iter().map(|flow| flow.delivered_bytes).sum();
        // Of 1,040 bytes a packet, 1,000 are payload.
        let share = bytes as f64 * 8.0 / 2.0 / (20e6 / 1.04);
        assert!((least..=1.01).contains(&share), "{streams} streams fill {share:.3}");
        assert!(streams > 4 || drops(&outcome) == 0, "{streams} streams");
        // Credit goes back, at most one for each message.
        let back = outcome.links[1].backward.packets;
        assert!(back > 0 && back * 11 <= outcome.links[1].forward.packets + 11 * streams as u64, "{back} credits");
    }
}
