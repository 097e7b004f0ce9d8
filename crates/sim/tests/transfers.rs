//! Connections that come and go.

use std::sync::Arc;

use crate::network::{self, GIGABIT};
use crate::scenario;
use fabric::{BondSetting, Fabric, Overrides, Source, Transfers};
use link::LinkSpec;
use machine::{Span, Time};
use sim::{FlowSpec, Outcome, Scenario};
use topology::{NodeId, Routes};
use transport::transfers::{Draws, OPEN_MAX, Sizes, Starts, seed};
use transport::{TransportKind, TransportSpec};

const KINDS: [TransportKind; 4] =
    [TransportKind::Reno, TransportKind::NewReno, TransportKind::Sack, TransportKind::Linux];
const WARM_UP: Span = Span::from_ms(100);
const DURATION: Span = Span::from_secs(1);

fn transport(kind: TransportKind) -> TransportSpec {
    TransportSpec { kind, delayed_ack: Some(Span::from_ms(40)), initial_window: 10, ..network::reno(100) }
}

/// Pairs of hosts on both sides of one switch; the links of the receivers are these.
fn star(pairs: u32, link: LinkSpec) -> Fabric {
    let links: Vec<_> =
        (0..2 * pairs).map(|host| (host, 2 * pairs, if host < pairs { GIGABIT } else { link })).collect();
    network::network(2 * pairs, 1, &links)
}

fn run(fabric: &Fabric, pairs: u32, transport: &TransportSpec, size: Sizes, every: Span) -> Outcome {
    let flow = |n: u32| FlowSpec { from: NodeId(n), to: NodeId(n + pairs), start: Time::ZERO };
    sim::run(&Scenario {
        warm_up: WARM_UP,
        duration: DURATION,
        transfers: Some(&Transfers { size, every }),
        hosts: scenario::AWAKE,
        seed: 7,
        ..scenario::plain(
            fabric,
            &Arc::new(Routes::compute(&fabric.topology)),
            transport,
            &(0..pairs).map(flow).collect::<Vec<_>>(),
        )
    })
}

/// How many transfers of a pair begin in the measured time.
fn due(pair: usize, every: Span) -> u64 {
    let mut starts = Starts::new(seed(7, pair), every);
    let all = std::iter::repeat_with(|| starts.next_start()).take_while(|at| *at < WARM_UP + DURATION);
    all.filter(|at| *at >= WARM_UP).count() as u64
}

#[test]
fn each_takes_as_long_as_its_packets_take() {
    let fabric = star(1, GIGABIT);
    let every = Span::from_ms(20);
    let times = |kind, size| {
        let transport = TransportSpec { initial_window: 2, ..transport(kind) };
        let came =
            run(&fabric, 1, &transport, Sizes::fixed(size), every).flows[0].transfers.clone().expect("transfers");
        assert_eq!((came.started, came.unfinished), (due(0, every), 0), "{kind:?}");
        came.times_ns
    };
    // Two links of 50 us and a Gbit/s: headers of 40 bytes and so much payload, twice.
    assert!(times(TransportKind::Reno, 500).iter().all(|took| *took == 2 * (50_000 + 540 * 8)));
    // A segment that is full, and behind it one that is not.
    let both = (1_040 + 540) * 8 + 50_000 + (50_000 + 540 * 8) + (1_040 - 540) * 8;
    assert!(times(TransportKind::Reno, 1_500).iter().all(|took| *took == both));
    // Linux asks before, by packets without payload, and takes up to a microsecond each time; now and then a host is interrupted.
    let asked = 4 * (50_000 + 40 * 8) + 2 * (50_000 + 540 * 8);
    let linux = times(TransportKind::Linux, 500);
    assert!(linux.iter().all(|took| (asked..asked + 1_000_000).contains(took)), "{linux:?}");
    assert!(10 * linux.iter().filter(|took| **took < asked + 4_000).count() >= 9 * linux.len(), "{linux:?}");
}

/// Those of a run with fixed sizes begin at the same moments; each has the size that is drawn for it, and takes as long as that takes.
#[test]
fn sizes_are_drawn_for_each() {
    let fabric = star(1, GIGABIT);
    let every = Span::from_ms(20);
    let sizes: Sizes = "1:200000000,500:500000000,1500:1000000000".parse().expect("a distribution");
    for kind in [TransportKind::Reno, TransportKind::Linux] {
        let transport = TransportSpec { initial_window: 2, ..transport(kind) };
        let outcome = run(&fabric, 1, &transport, sizes.clone(), every);
        let came = outcome.flows[0].transfers.clone().expect("transfers");
        assert_eq!((came.started, came.unfinished), (due(0, every), 0), "{kind:?}");
        let mut starts = Starts::new(seed(7, 0), every);
        let before = std::iter::repeat_with(|| starts.next_start()).take_while(|at| *at < WARM_UP).count();
        let mut draws = Draws::new(seed(7, 0), sizes.clone());
        let drawn: Vec<u32> =
            std::iter::repeat_with(|| draws.next_size()).skip(before).take(came.started as usize).collect();
        assert_eq!(came.sizes_bytes, drawn, "{kind:?}");
        let delivered: u64 = drawn.iter().map(|size| u64::from(*size)).sum();
        assert!(outcome.flows[0].delivered_bytes.abs_diff(delivered) <= 3_000, "{kind:?}: {outcome:?} of {delivered}");
        if kind != TransportKind::Reno {
            continue;
        }
        for (size, took) in came.sizes_bytes.iter().zip(&came.times_ns) {
            let size = u64::from(*size);
            let both = (1_040 + size.saturating_sub(1_000) + 40) * 8
                + 50_000
                + (50_000 + (size.saturating_sub(1_000) + 40) * 8);
            let last_waits = (1_000_u64.saturating_sub(size.saturating_sub(1_000))) * 8;
            let expected = if size <= 1_000 { 2 * (50_000 + (40 + size) * 8) } else { both + last_waits };
            assert_eq!(*took, expected, "{size} bytes");
        }
    }
}

/// So many packets there and back: the studies' hosts have data and acknowledgements only, Linux's a handshake before and a close behind.
#[test]
fn linux_opens_and_closes() {
    let fabric = star(1, GIGABIT);
    for (kind, there, back) in [(TransportKind::Sack, 3, 3), (TransportKind::Linux, 3 + 3, 3 + 3)] {
        let transport = TransportSpec { delayed_ack: None, ..transport(kind) };
        let outcome = run(&fabric, 1, &transport, Sizes::fixed(2_500), Span::from_ms(50));
        let started = outcome.flows[0].transfers.as_ref().expect("transfers").started;
        let link = outcome.links[0];
        assert_eq!((link.forward.packets, link.backward.packets), (there * started, back * started), "{kind:?}");
    }
}

#[test]
fn all_end_whatever_is_lost_and_the_same_seed_is_the_same_run() {
    let shallow =
        LinkSpec { rate_bps: Some(20_000_000), delay: Span::from_ms(1), queue_packets: Some(6), ..LinkSpec::UNSHAPED };
    let fabric = star(2, shallow);
    let every = Span::from_ms(16);
    for kind in KINDS {
        let outcome = run(&fabric, 2, &transport(kind), Sizes::fixed(20_300), every);
        assert_eq!(outcome, run(&fabric, 2, &transport(kind), Sizes::fixed(20_300), every), "{kind:?}");
        let lost: u64 = outcome.links.iter().map(|link| link.backward.drops).sum();
        assert!(lost > 10, "{kind:?}: {lost} lost");
        for (pair, flow) in outcome.flows.iter().enumerate() {
            let came = flow.transfers.as_ref().expect("transfers");
            assert_eq!((came.started, came.unfinished), (due(pair, every), 0), "{kind:?}");
            assert_eq!(came.times_ns.len() as u64, came.started);
            assert!(flow.retransmits > 0, "{kind:?}");
            // What is under way at either end of the window makes the difference, for up to some timeouts.
            let sent = came.started * 20_300;
            assert!(flow.delivered_bytes.abs_diff(sent) < 30 * 20_300, "{kind:?}: {} of {sent}", flow.delivered_bytes);
        }
    }
}

#[test]
fn what_is_one_too_many_is_not_begun() {
    let slow = LinkSpec { rate_bps: Some(1_000_000), queue_packets: Some(20), ..GIGABIT };
    let outcome = run(&star(1, slow), 1, &transport(TransportKind::Linux), Sizes::fixed(100_000), Span::from_us(100));
    let came = outcome.flows[0].transfers.clone().expect("transfers");
    assert!(came.started > 9_000 && came.unfinished > came.started - 2 * OPEN_MAX as u64, "{came:?}");
}

/// Each connection has a port of its own, by which a bond's policy finds it a member.
#[test]
fn connections_spread_over_a_bond() {
    let text = "
nodes: { h1: host, h2: host, s1: switch, s2: switch }
link-defaults: { rate: 1Gbit, delay: 10us, queue: 100 }
links: [{ between: [h1, s1] }, { between: [h2, s2] }, { between: [s1, s2] }]
bonds: [{ between: [s1, s2], members: 2, mode: balance-xor, xmit_hash_policy: layer3+4 }]
";
    let fabric = fabric::parse(&Source { name: "bond".into(), text: text.to_owned() })
        .unwrap_or_else(|error| panic!("{error:?}"))
        .with(&Overrides::from([BondSetting::Members(2)]));
    let outcome = run(&fabric, 1, &transport(TransportKind::Linux), Sizes::fixed(9_500), Span::from_ms(2));
    let came = outcome.flows[0].transfers.clone().expect("transfers");
    assert_eq!((came.started, came.unfinished), (due(0, Span::from_ms(2)), 0));
    let members = [(2, 3), (3, 2)].map(|ends| {
        let is_member = |link: &&topology::Link| (link.a.node.0, link.b.node.0) == ends;
        fabric.topology.links.iter().filter(is_member).count()
    });
    assert_eq!(members.iter().sum::<usize>(), 2);
    let packets: Vec<u64> = (fabric.topology.links.iter().zip(&outcome.links))
        .filter(|(link, _)| link.a.node.0 >= 2 && link.b.node.0 >= 2)
        .map(|(_, did)| did.forward.packets.min(did.backward.packets))
        .collect();
    assert!(packets.iter().all(|packets| *packets > 1_000), "{packets:?}");
}
