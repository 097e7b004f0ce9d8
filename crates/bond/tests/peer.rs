//! Two bonds recognise each other by their hellos.

use bond::peer::{Agreed, Capabilities, Hello, HelloError, IDENTIFIER, Identity, Output, Peer, SUBTYPE};
use bond::{MemberId, MemberSet};
use machine::{Span, Step, Time};
use proptest::prelude::*;
use wire::{EthernetPacket, LLDP_NEAREST_BRIDGE, LldpRepr, ethertype};

const CABLES: usize = 2;

/// Bonds with two members each; a cable says which members it joins.
struct World {
    now: Time,
    peers: Vec<Peer>,
    cables: Vec<[(usize, u8); 2]>,
    flying: Vec<(Time, (usize, u8), Vec<u8>)>,
    agreed_changes: usize,
}

fn member(index: u8) -> MemberId {
    MemberId::new(index.into())
}

fn bond(n: u64) -> Peer {
    let mut peer = Peer::new(Identity { bond: n, mac: [2, 0, 0, 0, 0, n as u8], capabilities: Capabilities::SEQUENCE });
    for id in 0..2 {
        peer.add_port(member(id), [2, 0, 0, 0, id, n as u8]);
        peer.link(Time::ZERO, member(id), true);
    }
    peer
}

impl World {
    fn new(bonds: u64, cables: &[[(usize, u8); 2]]) -> Self {
        let peers = (1..=bonds).map(bond).collect();
        Self { now: Time::ZERO, peers, cables: cables.to_vec(), flying: vec![], agreed_changes: 0 }
    }

    fn pair() -> Self {
        Self::new(2, &[[(0, 0), (1, 0)], [(0, 1), (1, 1)]])
    }

    fn drain(&mut self, n: usize) -> Time {
        loop {
            match self.peers[n].poll(self.now) {
                Step::Do(Output::Send { port, frame }) => {
                    let port = port.index() as u8;
                    let packet = EthernetPacket::new_checked(&frame).unwrap();
                    assert_eq!((packet.dst(), packet.ethertype()), (LLDP_NEAREST_BRIDGE, ethertype::LLDP));
                    for &[a, b] in &self.cables {
                        let to = if a == (n, port) { b } else { a };
                        if [a, b].contains(&(n, port)) {
                            self.flying.push((self.now + Span::from_ms(1), to, packet.payload().to_vec()));
                        }
                    }
                }
                Step::Do(Output::Agreed(_)) => self.agreed_changes += 1,
                Step::Wait(deadline) => {
                    assert!(deadline > self.now);
                    return deadline;
                }
            }
        }
    }

    fn run(&mut self, span: Span) {
        let until = self.now + span;
        loop {
            let mut next = (0..self.peers.len()).map(|n| self.drain(n)).min().unwrap();
            next = self.flying.iter().map(|it| it.0).fold(next, Time::min);
            if next > until {
                self.now = until;
                return;
            }
            self.now = next;
            let (arrived, flying) = std::mem::take(&mut self.flying).into_iter().partition(|it| it.0 <= next);
            self.flying = flying;
            for (_, (n, port), payload) in arrived {
                self.peers[n].receive(next, member(port), &payload);
                self.drain(n);
            }
        }
    }

    fn why(&self, n: usize, id: u8) -> String {
        self.peers[n].why(self.now, member(id)).unwrap().to_string()
    }
}

fn whole(bond: u64) -> Agreed {
    Agreed {
        bond,
        capabilities: Capabilities::SEQUENCE,
        theirs: Capabilities::SEQUENCE,
        ports: MemberSet::from_bits((1 << CABLES) - 1),
        everywhere: true,
    }
}

#[test]
fn two_bonds_agree_within_milliseconds_and_stay_so() {
    let mut world = World::pair();
    world.run(Span::from_ms(5));
    assert_eq!([world.peers[0].agreed(), world.peers[1].agreed()], [Some(whole(2)), Some(whole(1))]);
    assert_eq!(world.why(0, 1), "its peer is Heddle's bond 0000000000000002");
    let changes = world.agreed_changes;
    world.run(Span::from_secs(600));
    assert_eq!(world.agreed_changes, changes);
    let sent = world.peers[0].counters(member(0)).unwrap().sent;
    assert!((600..=603).contains(&sent), "{sent}");
}

#[test]
fn a_member_whose_hellos_cease_leaves_after_three() {
    let mut world = World::pair();
    world.run(Span::from_ms(1_100));
    world.cables.pop();
    world.run(Span::from_secs(3));
    assert_eq!(world.peers[0].agreed(), Some(whole(2)));
    world.run(Span::from_secs(1));
    let left = world.peers[0].agreed().unwrap();
    assert_eq!(
        (left.ports.bits(), left.everywhere),
        (1, false),
        "one member's peer is unknown, so not every frame is the peer's"
    );
    assert_eq!(world.why(0, 1), "no hello of Heddle arrives, so its peer is external");
    let now = world.now;
    for peer in &mut world.peers {
        peer.link(now, member(1), false);
    }
    world.run(Span::from_ms(1));
    assert!(world.peers[0].agreed().unwrap().everywhere, "a member that is down does not count");
}

#[test]
fn a_bond_that_restarts_is_another_one() {
    let mut world = World::pair();
    world.run(Span::from_secs(5));
    world.peers[1] = bond(9);
    world.run(Span::from_ms(10));
    assert_eq!(world.peers[0].agreed(), Some(whole(9)));
}

#[test]
fn what_only_one_end_can_do_is_not_agreed() {
    let mut world = World::pair();
    world.peers[1].set_capabilities(Time::ZERO, Capabilities(0xfffe));
    world.run(Span::from_ms(10));
    assert_eq!(world.peers[0].agreed().unwrap().capabilities, Capabilities(0));
    let now = world.now;
    world.peers[1].set_capabilities(now, Capabilities(0xffff));
    world.run(Span::from_secs(1));
    assert!(world.peers[0].agreed().unwrap().capabilities.has(Capabilities::SEQUENCE));
}

#[test]
fn nothing_is_agreed_with_two_bonds_at_once_nor_with_itself() {
    let mut world = World::new(3, &[[(0, 0), (1, 0)], [(0, 1), (2, 0)]]);
    world.run(Span::from_secs(2));
    assert_eq!(world.peers[0].agreed(), None);
    assert_eq!(world.why(0, 0), "its peer is Heddle's bond 0000000000000002, but another member has another peer");
    let mut world = World::new(1, &[[(0, 0), (0, 1)]]);
    world.run(Span::from_secs(20));
    assert_eq!(world.peers[0].agreed(), None);
    assert_eq!(world.why(0, 0), "it hears this bond's own hellos (a loop)");
}

#[test]
fn a_hello_in_one_direction_only_agrees_on_nothing() {
    let mut world = World::new(2, &[]);
    world.run(Span::from_ms(1));
    let hello = Hello { capabilities: Capabilities(1), bond: 2, hears: 0, member: 0 };
    world.peers[0].receive(world.now, member(0), &lldp(&hello.emit(), 4));
    world.run(Span::from_ms(1));
    assert_eq!(world.peers[0].agreed(), None);
    assert_eq!(world.why(0, 0), "Heddle's bond 0000000000000002 does not hear it yet");
    world.peers[0].receive(world.now, member(0), &lldp(&Hello { hears: 1, ..hello }.emit(), 4));
    world.run(Span::from_ms(1));
    assert_eq!(world.peers[0].agreed().unwrap().ports.bits(), 1);
    world.peers[0].receive(world.now, member(0), &lldp(&Hello { hears: 1, ..hello }.emit(), 0));
    world.run(Span::from_ms(1));
    assert_eq!(world.peers[0].agreed(), None, "it was taken back");
}

fn lldp(value: &[u8], time_to_live_s: u16) -> Vec<u8> {
    let repr =
        LldpRepr { chassis: [2; 6], port: [2; 6], time_to_live_s, identifier: IDENTIFIER, subtype: SUBTYPE, value };
    let mut payload = vec![0; repr.buffer_len()];
    repr.emit(&mut payload);
    payload
}

#[test]
fn a_flood_of_bonds_is_answered_three_times_a_second() {
    let mut world = World::new(1, &[]);
    world.run(Span::from_ms(1));
    for n in 0..10_000 {
        let hello = Hello { capabilities: Capabilities(1), bond: n + 2, hears: 1, member: 0 };
        world.peers[0].receive(world.now, member(0), &lldp(&hello.emit(), 4));
        world.run(Span::from_us(100));
    }
    assert!(world.peers[0].counters(member(0)).unwrap().sent <= 6);
}

#[test]
fn what_is_no_hello_is_named_and_counted() {
    let good = Hello { capabilities: Capabilities(1), bond: 2, hears: 1, member: 0 }.emit();
    assert_eq!(Hello::parse(&good[..19]), Err(HelloError::Truncated(19)));
    assert_eq!(Hello::parse(&[0; 20]), Err(HelloError::Version));
    assert_eq!(Hello::parse(&[&[1][..], &[0; 19]].concat()), Err(HelloError::Nobody));
    assert!(Hello::parse(&[&[2][..], &good[1..], b"more"].concat()).is_ok(), "a later version");
    let mut peer = bond(1);
    peer.receive(Time::ZERO, member(0), &[1, 2, 3]);
    peer.receive(Time::ZERO, member(0), &lldp(&[0; 20], 4));
    peer.receive(Time::ZERO, member(0), &[2, 2, 7, 7, 4, 2, 7, 7, 6, 2, 0, 9, 0, 0]);
    peer.receive(Time::ZERO, member(9), &[]);
    let counters = peer.counters(member(0)).unwrap();
    assert_eq!((counters.malformed, counters.external, counters.received), (2, 1, 0));
}

proptest! {
    #[test]
    fn emitted_and_parsed_is_the_same(capabilities: u16, bond in 1..=u64::MAX, hears: u64, member: u8) {
        let hello = Hello { capabilities: Capabilities(capabilities), bond, hears, member };
        prop_assert_eq!(Hello::parse(&hello.emit()), Ok(hello));
    }

    #[test]
    fn any_bytes_are_borne(payloads in proptest::collection::vec((0..3_u8, proptest::collection::vec(any::<u8>(), 0..60), any::<bool>()), 0..20)) {
        let mut world = World::new(1, &[]);
        for (id, bytes, inside) in payloads {
            let payload = if inside { lldp(&bytes, 4) } else { bytes };
            world.peers[0].receive(world.now, member(id), &payload);
            world.run(Span::from_ms(300));
        }
    }
}
