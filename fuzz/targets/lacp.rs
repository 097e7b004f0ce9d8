//! What a partner may send: any payloads of slow protocols and of LLDP, to any member, with any pauses. Nothing may break what
//! `bond::lacp` and `bond::peer` promise, and what can be read is emitted and read again.
#![no_main]

use bond::config::LacpRate;
use bond::lacp::{Lacp, Settings};
use bond::peer::{Capabilities, Hello, Identity, Peer};
use bond::{Carrier, MemberId};
use libfuzzer_sys::fuzz_target;
use machine::{Span, Step, Time};
use wire::{LacpPacket, LacpRepr, LacpState, MarkerPacket, MarkerRepr, SLOW_PAYLOAD};

const MEMBERS: usize = 3;
const SYSTEM: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Three bytes say on which member, after what pause in units of 20 ms, and how long the payload is that follows. Payloads of even
/// members get the LACPDU's lengths put right, else hardly one would get past them; longest pauses change a carrier besides.
fuzz_target!(|bytes: &[u8]| {
    let mut lacp = Lacp::new(Settings { rate: LacpRate::Fast, ..Settings::new(SYSTEM) });
    let mut peer = Peer::new(Identity { bond: 1, mac: SYSTEM, capabilities: Capabilities::SEQUENCE });
    let mut now = Time::ZERO;
    for id in (0..MEMBERS).map(MemberId::new) {
        lacp.add_port(now, id, SYSTEM, 0xff);
        lacp.link(id, Carrier::up(1_000));
        peer.add_port(id, SYSTEM);
        peer.link(now, id, true);
    }
    let mut rest = bytes;
    while let Some((&[which, pause, length], behind)) = rest.split_first_chunk::<3>() {
        let id = MemberId::new(usize::from(which) % MEMBERS);
        let (payload, behind) = behind.split_at(behind.len().min(usize::from(length)));
        rest = behind;
        now += Span::from_ms(20) * u64::from(pause);
        drain(&mut lacp, now);
        if pause == 255 {
            lacp.link(id, if which < 128 { Carrier::up(10_000) } else { Carrier::DOWN });
            peer.link(now, id, which < 128);
        }
        let payload = healed(payload, which % 2 == 0);
        codecs(&payload);
        lacp.receive(now, id, &payload);
        drain(&mut lacp, now);
        peer.receive(now, id, &payload);
        while let Step::Do(_) = peer.poll(now) {}
    }
});

fn healed(payload: &[u8], heal: bool) -> Vec<u8> {
    let mut payload = payload.to_vec();
    if heal && payload.len() >= 20 {
        payload.resize(SLOW_PAYLOAD, 0);
        (payload[0], payload[3], payload[23], payload[43]) = (1, 20, 20, 16);
    }
    payload
}

fn codecs(payload: &[u8]) {
    let mut buffer = [0; SLOW_PAYLOAD];
    if let Ok(packet) = LacpPacket::new_checked(payload) {
        let repr = LacpRepr::parse(&packet);
        repr.emit(&mut buffer);
        assert_eq!(LacpRepr::parse(&LacpPacket::new_checked(&buffer).expect("it was emitted")), repr);
    }
    if let Ok(packet) = MarkerPacket::new_checked(payload) {
        let repr = MarkerRepr::parse(&packet);
        repr.emit(&mut buffer);
        assert_eq!(MarkerRepr::parse(&MarkerPacket::new_checked(&buffer).expect("it was emitted")), repr);
    }
    if let Ok(hello) = Hello::parse(payload) {
        assert_eq!(Hello::parse(&hello.emit()), Ok(hello));
    }
}

/// A member that distributes has a partner in sync, or is the only one; and never is the bond its own partner.
fn drain(lacp: &mut Lacp, now: Time) {
    for _ in 0..1_000 {
        let Step::Wait(deadline) = lacp.poll(now) else { continue };
        assert!(deadline > now);
        let members = lacp.members();
        for id in members.distributing.iter() {
            let status = lacp.status(id).expect("a member");
            assert!(status.partner.state.has(LacpState::SYNCHRONIZATION));
            assert!(status.partner.state.has(LacpState::COLLECTING));
            assert_ne!(status.partner.system, SYSTEM);
            assert!(!status.actor.state.has(LacpState::DEFAULTED) || members.distributing.len() == 1);
        }
        for id in (0..MEMBERS).map(MemberId::new) {
            let why = lacp.why(now, id).expect("a member");
            assert_eq!(why.reason.distributes(), members.distributing.contains(id), "{why}");
        }
        return;
    }
    panic!("it never comes to rest");
}
