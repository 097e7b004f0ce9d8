//! What stations, guests and bridges may send to a switch that speaks RSTP: any frames, by any port, with any pauses and lost carriers. It comes to rest after
//! each, guards hold, and what can be read is emitted and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::{Span, Step, Time};
use rstp::{Bridge, BridgeConfig, Input, Output, PRIORITY, PortConfig, PortState, Role};
use wire::{BPDU_FRAME, BRIDGE_GROUP, BpduPacket, BpduRepr};

const ADDRESS: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// By number: nothing special, never the way to the root, shut by any BPDU, an edge.
const PORTS: usize = 4;
const ROOT_GUARD: usize = 1;
const BPDU_GUARD: usize = 2;
const EDGE: usize = 3;

/// Three bytes say by which port, after what pause in units of 50 ms, and how long the BPDU is that follows; longest pauses take the port its carrier, or give it back.
/// In place of its first bytes, BPDUs of even pauses have the header of one, else hardly any would get past it.
fuzz_target!(|bytes: &[u8]| {
    let mut ports = [PortConfig::default(); PORTS];
    ports[ROOT_GUARD].root_guard = true;
    ports[BPDU_GUARD].bpdu_guard = true;
    ports[EDGE].admin_edge = true;
    let mut bridge = Bridge::new(BridgeConfig {
        priority: PRIORITY,
        address: ADDRESS,
        hello_time: Span::from_secs(2),
        max_age: Span::from_secs(20),
        forward_delay: Span::from_secs(15),
        transmit_hold_count: 6,
        ports: ports.to_vec(),
    });
    let mut now = Time::ZERO;
    let mut is_up = [true; PORTS];
    for port in 0..PORTS {
        bridge.handle(now, Input::Link { port, up: true });
    }
    drain(&mut bridge, now);
    let mut rest = bytes;
    while let Some((&[which, pause, length], behind)) = rest.split_first_chunk::<3>() {
        let port = usize::from(which) % PORTS;
        let (payload, behind) = behind.split_at(behind.len().min(usize::from(length)));
        rest = behind;
        now += Span::from_ms(50) * u64::from(pause);
        drain(&mut bridge, now);
        if pause == u8::MAX {
            is_up[port] = !is_up[port];
            bridge.handle(now, Input::Link { port, up: is_up[port] });
        }
        let frame = frame(payload, pause % 2 == 0);
        codec(&frame);
        let is_one = BpduPacket::new_checked(&frame).is_ok();
        bridge.handle(now, Input::Frame { port, frame: &frame });
        drain(&mut bridge, now);
        let status = bridge.status();
        assert_ne!(status.ports[ROOT_GUARD].role, Role::Root);
        assert!(!(port == BPDU_GUARD && is_one && is_up[port]) || bridge.state(port) == PortState::Discarding);
        for (port, up) in is_up.into_iter().enumerate() {
            assert!(up || bridge.state(port) == PortState::Discarding);
        }
    }
});

/// A frame to bridges with these bytes; behind a BPDU's header if it is asked for.
fn frame(payload: &[u8], heal: bool) -> Vec<u8> {
    let mut frame = [&BRIDGE_GROUP[..], &[2, 0, 0, 0, 9, 9]].concat();
    if heal {
        let says = (payload.len() + 5) as u16;
        frame.extend(says.to_be_bytes());
        frame.extend([0x42, 0x42, 0x03, 0, 0]);
    }
    frame.extend(payload);
    frame
}

fn codec(frame: &[u8]) {
    let Ok(packet) = BpduPacket::new_checked(frame) else { return };
    let repr = BpduRepr::parse(&packet);
    let mut emitted = [0; BPDU_FRAME];
    repr.emit(ADDRESS, &mut emitted);
    assert_eq!(BpduRepr::parse(&BpduPacket::new_checked(&emitted).expect("it was emitted")), repr);
}

fn drain(bridge: &mut Bridge, now: Time) {
    for _ in 0..1_000 {
        match bridge.poll(now) {
            Step::Do(Output::Send { frame, .. }) => codec(&frame),
            Step::Do(_) => {}
            Step::Wait(until) => return assert!(until > now),
        }
    }
    panic!("it never comes to rest");
}
