//! What else comes in by ports: STP, stations, guests that want to be the root, nonsense.

use machine::{Span, Time};
use proptest::prelude::*;
use rstp::{Bridge, Input, Output, PRIORITY, PortState, Role};
use wire::{BPDU_FRAME, BpduFlags, BpduKind, BpduPacket, BpduRepr, BpduRole};

use crate::network::{Network, config};

const DELAY: Span = Span::from_us(50);

/// A BPDU of a designated port of a bridge that wants to be the root.
const BEST: BpduRepr = BpduRepr {
    kind: BpduKind::Rst,
    flags: BpduFlags(BpduFlags::PROPOSAL | 0x0c),
    root: 1,
    root_path_cost: 0,
    bridge: 1,
    port: 0x8001,
    message_age: 0,
    max_age: 20 * 256,
    hello_time: 2 * 256,
    forward_delay: 15 * 256,
};

fn frame(bpdu: &BpduRepr) -> [u8; BPDU_FRAME] {
    let mut frame = [0; BPDU_FRAME];
    bpdu.emit([2, 0, 0, 0, 9, 9], &mut frame);
    frame
}

/// A ring of three; the first one's port 2 is free.
fn ring(change: impl Fn(usize, &mut rstp::BridgeConfig)) -> Network {
    let links = [(0, 1, DELAY), (1, 2, DELAY), (2, 0, DELAY)];
    let mut network = Network::with(&[PRIORITY; 3], &links, change);
    network.bridges[0].handle(network.now, Input::Link { port: 2, up: true });
    network.poll(0);
    network
}

fn sent(outputs: &[Output], by: usize) -> Vec<BpduRepr> {
    let frames = outputs.iter().filter_map(|output| match output {
        Output::Send { port, frame } if *port == by => Some(frame),
        Output::Send { .. } | Output::StateChanged { .. } | Output::Flush { .. } => None,
    });
    frames.map(|frame| BpduRepr::parse(&BpduPacket::new_checked(frame).expect("it is a BPDU"))).collect()
}

#[test]
fn a_station_is_found_out_after_three_seconds_and_a_bridge_behind_it_at_once() {
    let mut network = ring(|_, _| {});
    network.run_for(Span::from_ms(2_900));
    assert_eq!(network.bridges[0].state(2), PortState::Discarding);
    network.run_for(Span::from_ms(200));
    assert_eq!(network.bridges[0].state(2), PortState::Forwarding);
    let status = network.bridges[0].status();
    assert!(status.ports[2].is_edge && !status.ports[0].is_edge);
    network.inject((0, 2), &frame(&BpduRepr { root: u64::MAX, bridge: u64::MAX, ..BEST }));
    assert!(!network.bridges[0].status().ports[2].is_edge);
}

#[test]
fn an_admin_edge_forwards_from_the_beginning() {
    let network = ring(|_, config| config.ports[2].admin_edge = true);
    assert_eq!(network.bridges[0].state(2), PortState::Forwarding);
}

#[test]
fn a_better_bridge_becomes_the_root_unless_the_port_is_guarded() {
    let mut network = ring(|_, _| {});
    network.run_for(Span::from_secs(5));
    network.inject((0, 2), &frame(&BEST));
    network.run_for(Span::from_ms(10));
    assert!(network.bridges.iter().all(|bridge| bridge.status().root == "0000.000000000001"));

    let mut network = ring(|_, config| config.ports[2].root_guard = true);
    network.run_for(Span::from_secs(5));
    network.inject((0, 2), &frame(&BEST));
    network.run_for(Span::from_ms(10));
    network.assert_converged();
    let port = &network.bridges[0].status().ports[2];
    assert_eq!((port.role, port.state), (Role::Alternate, PortState::Discarding));
    // He has gone: it is open again.
    network.run_for(Span::from_secs(60));
    assert_eq!(network.bridges[0].state(2), PortState::Forwarding);

    let mut network = ring(|_, config| config.ports[2].bpdu_guard = true);
    network.run_for(Span::from_secs(5));
    network.inject((0, 2), &frame(&BEST));
    network.run_for(Span::from_secs(60));
    network.assert_converged();
    let status = network.bridges[0].status();
    let port = &status.ports[2];
    assert!(port.is_guarded && port.counters.guarded == 1 && port.state == PortState::Discarding);
    for up in [false, true] {
        network.bridges[0].handle(network.now, Input::Link { port: 2, up });
        network.poll(0);
    }
    network.run_for(Span::from_secs(5));
    assert_eq!(network.bridges[0].state(2), PortState::Forwarding);
}

#[test]
fn what_is_too_old_is_not_believed_and_what_is_not_said_again_is_forgotten() {
    let mut network = ring(|_, _| {});
    network.run_for(Span::from_secs(5));
    let old = BpduRepr { message_age: 20 * 256, ..BEST };
    network.inject((0, 2), &frame(&old));
    network.inject((0, 2), &frame(&BpduRepr { kind: BpduKind::Config, flags: BpduFlags(0), ..old }));
    network.run_for(Span::from_ms(1));
    assert_eq!(network.bridges[0].status().root, network.bridges[0].status().bridge);
    assert_eq!(network.bridges[0].status().ports[2].counters.bad, 1);
    network.inject((0, 2), &frame(&BEST));
    network.run_for(Span::from_ms(5_900));
    assert_eq!(network.bridges[2].status().root, "0000.000000000001");
    network.run_for(Span::from_ms(600));
    network.assert_converged();
}

#[test]
fn stp_is_spoken_with_those_who_speak_it_and_takes_its_time() {
    let mut bridge = Bridge::new(config(1, 4_096, 1));
    let mut now = Time::ZERO;
    bridge.handle(now, Input::Link { port: 0, up: true });
    let config = BpduRepr { kind: BpduKind::Config, flags: BpduFlags(0), root: u64::MAX, bridge: u64::MAX, ..BEST };
    let mut all = Vec::new();
    let mut forwarded = None;
    for ms in 0..60_000_u64 {
        now = Time::ZERO + Span::from_ms(ms);
        if ms % 2_000 == 0 {
            bridge.handle(now, Input::Frame { port: 0, frame: &frame(&config) });
        }
        while let machine::Step::Do(output) = bridge.poll(now) {
            all.push(output);
        }
        if forwarded.is_none() && bridge.state(0) == PortState::Forwarding {
            forwarded = Some(ms);
        }
    }
    let sent = sent(&all, 0);
    assert_eq!(sent.first().map(|bpdu| bpdu.kind), Some(BpduKind::Rst));
    assert_eq!(sent.last().map(|bpdu| bpdu.kind), Some(BpduKind::Config));
    assert!(bridge.status().ports[0].is_stp);
    assert!(forwarded.is_some_and(|ms| ms >= 30_000), "{forwarded:?}");
}

#[test]
fn a_link_that_leads_back_to_its_own_port_stays_shut() {
    let mut bridge = Bridge::new(config(1, PRIORITY, 1));
    let mut now = Time::ZERO;
    bridge.handle(now, Input::Link { port: 0, up: true });
    for ms in 0..120_000_u64 {
        now = Time::ZERO + Span::from_ms(ms);
        while let machine::Step::Do(output) = bridge.poll(now) {
            if let Output::Send { port, frame } = output {
                bridge.handle(now, Input::Frame { port, frame: &frame });
            }
        }
        assert_eq!(bridge.state(0), PortState::Discarding, "after {ms} ms");
    }
}

#[test]
fn a_flood_of_bpdus_makes_no_flood_of_answers() {
    let mut network = ring(|_, _| {});
    network.run_for(Span::from_secs(5));
    let before = network.sent;
    for number in 0..10_000_u32 {
        let flags = BEST.flags.with(BpduFlags::TOPOLOGY_CHANGE, number % 2 == 0);
        let bpdu = BpduRepr { root: u64::from(10_000 - number), bridge: 1, root_path_cost: number, flags, ..BEST };
        network.inject((0, 2), &frame(&bpdu));
        network.run_for(Span::from_us(100));
    }
    // Seven ports, ten at once and one a second each.
    assert!(network.sent - before <= 7 * 12, "{}", network.sent - before);
}

fn any_bpdu() -> impl Strategy<Value = BpduRepr> {
    let kind = prop_oneof![Just(BpduKind::Config), Just(BpduKind::Tcn), Just(BpduKind::Rst)];
    let role = prop_oneof![Just(BpduRole::Root), Just(BpduRole::AlternateBackup), Just(BpduRole::Designated)];
    // Few values, so that some are alike, and like those of the bridges.
    let id = prop_oneof![0_u64..4, (1_u64..4).prop_map(|number| 0x8000_0200_0000_0000 | number), any::<u64>()];
    let times = prop_oneof![Just([0, 5_120, 512, 3_840]), any::<[u16; 4]>()];
    (kind, any::<u8>(), role, (id.clone(), id), prop_oneof![0_u32..3, any::<u32>()], 0x8000_u16..0x8004, times)
        .prop_map(|(kind, flags, role, (root, bridge), root_path_cost, port, times)| {
            let [message_age, max_age, hello_time, forward_delay] = times;
            let flags = BpduFlags(flags).with_role(role);
            BpduRepr {
                kind,
                flags,
                root,
                root_path_cost,
                bridge,
                port,
                message_age,
                max_age,
                hello_time,
                forward_delay,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whatever a guest says, also in the name of others, the machines come to rest, and the bridges find back when he is silent. At his own port, which is guarded, nothing
    /// that he says has the others send anything in a circle.
    #[test]
    fn whatever_is_said_the_bridges_find_back(
        first in 0_usize..3,
        said in proptest::collection::vec((0_usize..3, any_bpdu(), 0_u64..100_000), 0..40),
    ) {
        let mut network = ring(|_, config| config.ports[2].root_guard = true);
        let said: Vec<_> = said.into_iter().map(|(port, bpdu, after_us)| (port.max(first), bpdu, after_us)).collect();
        let is_inside = said.iter().any(|(port, ..)| *port != 2);
        network.looks_for_circles = !is_inside;
        for (port, bpdu, after_us) in said {
            network.run_for(Span::from_us(after_us));
            let frame = frame(&bpdu);
            network.bridges[0].handle(network.now, Input::Frame { port, frame: &frame });
            network.poll(0);
        }
        network.run_for(Span::from_secs(200));
        network.assert_converged();
    }
}

/// Somebody sends so much that a port's BPDUs are not looked at any more: it does not take that for silence.
#[test]
fn what_is_not_looked_at_opens_no_port() {
    for overruns in [true, false] {
        let mut bridge = Bridge::new(config(1, PRIORITY, 2));
        let mut now = Time::ZERO;
        (0..2).for_each(|port| bridge.handle(now, Input::Link { port, up: true }));
        for step in 0..600 {
            now += Span::from_ms(100);
            while let machine::Step::Do(_) = bridge.poll(now) {}
            if step % 10 == 0 {
                bridge.handle(now, Input::Frame { port: 0, frame: &frame(&BEST) });
            }
            if step < 50 && step % 10 == 0 {
                bridge.handle(now, Input::Frame { port: 1, frame: &frame(&BpduRepr { port: 0x8002, ..BEST }) });
            } else if overruns {
                bridge.handle(now, Input::Overrun { port: 1 });
            }
        }
        assert_eq!(bridge.state(1) == PortState::Forwarding, !overruns);
    }
}
