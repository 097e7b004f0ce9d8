//! An end whose partner is another program: frames are all that comes.

use std::num::NonZeroU64;

use bond::config::{Config, Mode};
use bond::end::{End, Framed, Output, Partner, Plan, Received, Resequencing};
use bond::peer::Reason;
use bond::{Carrier, MemberId, MemberSet, Transmit, reorder};
use machine::{Span, Step, Time};
use proptest::prelude::*;
use wire::tcp_flags::{ACK, FIN, RST, SYN};
use wire::{EthernetRepr, LLDP_NEAREST_BRIDGE, LldpRepr, ethertype};

const TIMEOUT: Span = Span::from_ms(2);
const MEMBERS: usize = 2;

/// A packet: its number, and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Packet(usize, Vec<u8>);

impl Framed for Packet {
    fn frame(&mut self) -> &mut [u8] {
        &mut self.1
    }
}

fn member(index: usize) -> MemberId {
    MemberId::new(index)
}

fn mac(system: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, system]
}

fn plan(mode: Mode, system: u8, hello: u64, is_ordered: bool) -> Plan {
    let members = (0..MEMBERS as u8).map(|n| (format!("eth{n}"), [2, n, 0, 0, 0, system], Carrier::up(1_000)));
    Plan {
        config: Config::new(mode),
        partner: Partner::External { hello: NonZeroU64::new(hello) },
        reorder: is_ordered.then_some(reorder::Config { buffer: 64, timeout: TIMEOUT }),
        mac: mac(system),
        members: members.collect(),
        addresses: Vec::new(),
        partner_uses: MemberSet::EMPTY,
        seed: 1,
    }
}

fn end(mode: Mode, system: u8, hello: u64, is_ordered: bool) -> End<Packet> {
    End::new(Time::ZERO, &plan(mode, system, hello, is_ordered))
}

fn ethernet(dst: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 14 + payload.len()];
    EthernetRepr { dst, src: mac(9), vlan: None, ethertype }.emit(&mut frame);
    frame[14..].copy_from_slice(payload);
    frame
}

/// A segment of `len` bytes.
fn segment(port: u16, seq: u32, len: u16, flags: u8) -> Vec<u8> {
    let mut ip = vec![0x45, 0];
    ip.extend((40 + len).to_be_bytes());
    ip.extend([0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 9, 10, 0, 0, 1]);
    ip.extend(port.to_be_bytes());
    ip.extend([0x14, 0x51]);
    ip.extend(seq.to_be_bytes());
    ip.extend([0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0]);
    ip.extend(vec![7; len.into()]);
    ethernet(mac(1), ethertype::IPV4, &ip)
}

/// A bench with one end and what left it.
struct Bench {
    end: End<Packet>,
    left: Vec<usize>,
}

impl Bench {
    fn new(end: End<Packet>) -> Self {
        Self { end, left: Vec::new() }
    }

    fn receive(&mut self, now: Time, from: usize, packet: Packet) -> Received<Packet> {
        let left = &mut self.left;
        self.end.receive_frame(now, member(from), packet, &mut |packet| left.push(packet.0))
    }

    /// Data of one flow, 100 bytes each, by their place in it.
    fn data(&mut self, now: Time, from: usize, place: usize) {
        let frame = segment(40_000, place as u32 * 100, 100, ACK);
        assert_eq!(self.receive(now, from, Packet(place, frame)), Received { back: None, poll: false });
    }

    fn expire(&mut self, now: Time) {
        let left = &mut self.left;
        self.end.expire(now, &mut |packet| left.push(packet.0));
    }
}

#[test]
fn nothing_waits_unless_order_is_asked_for() {
    let mut bench = Bench::new(end(Mode::BalanceRr, 1, 0, false));
    for place in [0, 2, 1, 4, 3] {
        bench.data(Time::ZERO, place % MEMBERS, place);
    }
    assert_eq!(bench.left, [0, 2, 1, 4, 3]);
    assert_eq!((bench.end.resequencing(), bench.end.reordering()), (Resequencing::Off, None));
    assert_eq!(bench.end.deadline(), Time::NEVER);
    assert!(bench.end.peer().is_none());
}

#[test]
fn order_that_is_asked_for_goes_by_tcp_and_ends_with_the_bound() {
    let mut bench = Bench::new(end(Mode::BalanceRr, 1, 0, true));
    assert_eq!(bench.end.resequencing(), Resequencing::ByTcp);
    let us = |us| Time::ZERO + Span::from_us(us);
    bench.data(us(0), 0, 0);
    bench.data(us(1), 1, 1);
    bench.data(us(2), 0, 3);
    assert_eq!(bench.left, [0, 1]);
    bench.data(us(3), 1, 2);
    assert_eq!(bench.left, [0, 1, 2, 3]);
    // After a repair that took a microsecond nothing is waited for longer than the shortest timeout.
    bench.data(us(4), 0, 5);
    let deadline = bench.end.deadline();
    assert!(us(4) < deadline && deadline < us(4) + TIMEOUT);
    bench.expire(deadline);
    assert_eq!(bench.left, [0, 1, 2, 3, 5]);
    let counters = bench.end.reordering().unwrap();
    assert_eq!((counters.repaired, counters.given_up.timeout), (1, 1));
}

#[test]
fn what_a_link_that_is_gone_should_have_brought_is_not_waited_for() {
    let mut bench = Bench::new(end(Mode::BalanceRr, 1, 0, true));
    for place in [0, 1, 2] {
        bench.data(Time::ZERO, place % MEMBERS, place);
    }
    bench.data(Time::ZERO, 0, 4);
    assert_eq!(bench.left, [0, 1, 2]);
    bench.end.carrier(Time::ZERO, member(1), Carrier::DOWN);
    assert_eq!(bench.end.deadline(), Time::ZERO);
    bench.expire(Time::ZERO);
    assert_eq!(bench.left, [0, 1, 2, 4]);
    assert_eq!(bench.end.reordering().unwrap().given_up.overtaken, 1);
}

/// Two ends on two cables.
struct Pair {
    now: Time,
    ends: [Bench; 2],
    is_cut: bool,
    events: usize,
}

impl Pair {
    fn new(modes: [Mode; 2]) -> Self {
        let ends = [end(modes[0], 1, 11, false), end(modes[1], 2, 22, false)].map(Bench::new);
        Self { now: Time::ZERO, ends, is_cut: false, events: 0 }
    }

    /// Carries frames without delay, for so long.
    fn run(&mut self, span: Span) {
        let until = self.now + span;
        while self.now < until {
            for from in [0, 1] {
                while let Step::Do(output) = self.ends[from].end.poll(self.now) {
                    match output {
                        Output::Send { member, frame } if !self.is_cut => {
                            let packet = Packet(0, frame.as_bytes().to_vec());
                            let received = self.ends[1 - from].receive(self.now, member.index(), packet);
                            assert!(received.back.is_some() && received.poll, "it goes no further");
                        }
                        Output::Peer(_) => self.events += 1,
                        _ => {}
                    }
                }
                let now = self.now;
                self.ends[from].expire(now);
            }
            self.now += Span::from_ms(100);
        }
    }
}

#[test]
fn two_bonds_in_turn_agree_on_resequencing() {
    let mut pair = Pair::new([Mode::BalanceRr; 2]);
    pair.run(Span::from_secs(3));
    for (bench, other) in pair.ends.iter().zip([22, 11]) {
        assert_eq!(bench.end.resequencing(), Resequencing::ByTcpAgreed(other));
        assert_eq!(bench.end.peer().unwrap().why(pair.now, member(1)), Some(Reason::Agreed(other)));
    }
    let now = pair.now;
    let [one, _] = &mut pair.ends;
    one.data(now, 0, 0);
    one.data(now, 0, 2);
    one.data(now, 1, 1);
    one.data(now, 0, 4);
    assert_eq!(one.left, [0, 1, 2]);
    // The peer falls silent: what waits is let go, and nothing waits any more.
    pair.is_cut = true;
    pair.run(Span::from_secs(4));
    assert_eq!(pair.ends[0].end.resequencing(), Resequencing::Off);
    let now = pair.now;
    let [one, _] = &mut pair.ends;
    one.data(now, 0, 9);
    assert_eq!(one.left, [0, 1, 2, 4, 9]);
    // It comes back: the flow is elsewhere by then, which is no gap.
    pair.is_cut = false;
    pair.run(Span::from_secs(3));
    let now = pair.now;
    let [one, _] = &mut pair.ends;
    one.data(now, 0, 50);
    assert_eq!(one.left.last(), Some(&50));
}

#[test]
fn a_peer_that_keeps_flows_on_members_needs_no_order() {
    let mut pair = Pair::new([Mode::BalanceRr, Mode::BalanceXor]);
    pair.run(Span::from_secs(3));
    assert!(pair.events >= 2);
    assert_eq!(pair.ends[0].end.resequencing(), Resequencing::Off, "its peer hashes");
    assert_eq!(pair.ends[1].end.resequencing(), Resequencing::ByTcpAgreed(11), "its peer sends in turn");
}

#[test]
fn hellos_that_come_back_agree_on_nothing() {
    let mut bench = Bench::new(end(Mode::BalanceRr, 1, 11, false));
    let mut now = Time::ZERO;
    for _ in 0..50 {
        while let Step::Do(output) = bench.end.poll(now) {
            if let Output::Send { member, frame } = output {
                bench.receive(now, 1 - member.index(), Packet(0, frame.as_bytes().to_vec()));
            }
        }
        now += Span::from_ms(100);
    }
    assert_eq!(bench.end.resequencing(), Resequencing::Off);
    assert_eq!(bench.end.peer().unwrap().why(now, member(0)), Some(Reason::Looped));
}

#[test]
fn what_is_the_bond_s_goes_no_further_and_the_rest_does() {
    let lldp = |dst| {
        let repr = LldpRepr {
            chassis: mac(9),
            port: mac(9),
            time_to_live_s: 120,
            identifier: [0, 0x80, 0xc2],
            subtype: 1,
            value: &[],
        };
        let mut payload = vec![0; repr.buffer_len()];
        repr.emit(&mut payload);
        ethernet(dst, ethertype::LLDP, &payload)
    };
    let slow = ethernet([1, 0x80, 0xc2, 0, 0, 2], ethertype::SLOW, &[1, 1]);
    let arp = ethernet([0xff; 6], ethertype::ARP, &[0; 28]);
    let (here, far) = (lldp(LLDP_NEAREST_BRIDGE), lldp([1, 0x80, 0xc2, 0, 0, 0]));
    for (hello, frame, goes_on, poll) in [
        (11, &here, false, true),
        (11, &far, true, false),
        (0, &here, true, false),
        (0, &slow, false, true),
        (11, &arp, true, true),
        (11, &segment(1, 1, 1, ACK), true, false),
        (11, &Vec::new(), true, false),
    ] {
        let mut bench = Bench::new(end(Mode::BalanceRr, 1, hello, true));
        let received = bench.receive(Time::ZERO, 0, Packet(7, frame.clone()));
        assert_eq!((received.back.is_none(), received.poll), (goes_on, poll), "{frame:02x?}");
        assert_eq!(bench.left.len(), usize::from(goes_on));
    }
    let mut bench = Bench::new(end(Mode::BalanceRr, 1, 11, false));
    bench.receive(Time::ZERO, 0, Packet(0, here));
    assert_eq!(bench.end.peer().unwrap().counters(member(0)).unwrap().external, 1);
}

#[test]
fn a_member_that_does_not_receive_gives_its_packet_back() {
    let mut bench = Bench::new(end(Mode::ActiveBackup, 1, 0, true));
    let packet = Packet(3, segment(1, 1, 1, ACK));
    assert_eq!(bench.receive(Time::ZERO, 1, packet.clone()).back, Some(packet));
    assert_eq!((bench.end.counters().inactive, bench.end.counters().accepted), (1, 0));
}

#[test]
fn in_balance_alb_the_bond_s_address_is_put_back() {
    let mut end = end(Mode::BalanceAlb, 1, 0, false);
    let second = end.bond().member(member(1)).unwrap().mac();
    let mut frame = segment(1, 1, 1, ACK);
    frame[..6].copy_from_slice(&second);
    let mut got = None;
    end.receive_frame(Time::ZERO, member(1), Packet(0, frame), &mut |packet| got = Some(packet));
    assert_eq!(got.unwrap().1[..6], end.bond().mac().unwrap());
}

#[test]
fn lacp_is_spoken_with_frames_alone() {
    let mut pair = Pair::new([Mode::Ad8023; 2]);
    pair.run(Span::from_secs(3));
    let frame = |port| segment(port, 1, 1, ACK);
    let mut used = MemberSet::EMPTY;
    for port in 0..16 {
        let mut frame = frame(port);
        frame[5] = port as u8;
        if let (Transmit::One(member), _) = pair.ends[0].end.transmit_frame(pair.now, &mut frame) {
            used.insert(member);
        }
    }
    assert_eq!(used.len(), MEMBERS);
}

/// What may come by a member.
#[derive(Clone, Debug)]
enum Arrival {
    Segment { port: u16, seq: u32, len: u16, flags: u8 },
    Bytes(Vec<u8>),
    Down(bool),
}

fn arrivals() -> impl Strategy<Value = Vec<(u64, usize, Arrival)>> {
    let flags = prop_oneof![12 => Just(ACK), 1 => Just(SYN), 1 => Just(FIN | ACK), 1 => Just(RST)];
    let segments = (0_u16..3, prop_oneof![9 => 0_u32..40, 1 => any::<u32>()], 0_u16..3, flags).prop_map(
        |(port, seq, len, flags)| Arrival::Segment { port, seq: seq.wrapping_mul(100), len: len * 50, flags },
    );
    let bytes = (proptest::collection::vec(any::<u8>(), 0..80), any::<bool>()).prop_map(|(mut bytes, is_lldp)| {
        if is_lldp {
            bytes.splice(0..0, [&LLDP_NEAREST_BRIDGE[..], &mac(9), &ethertype::LLDP.to_be_bytes()].concat());
        }
        Arrival::Bytes(bytes)
    });
    let arrival = prop_oneof![20 => segments, 2 => bytes, 1 => any::<bool>().prop_map(Arrival::Down)];
    proptest::collection::vec((0_u64..900, 0..MEMBERS, arrival), 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_packet_leaves_or_comes_back_once_and_in_time(arrivals in arrivals(), mode in 0_usize..7, ordered: bool) {
        let mut end = end(Mode::ALL[mode], 1, 11, ordered);
        let mut now = Time::ZERO;
        let mut came = vec![None; arrivals.len()];
        let mut left = Vec::new();
        for (number, (after_us, from, arrival)) in arrivals.into_iter().enumerate() {
            let next = now + Span::from_us(after_us);
            // The driver comes back at every deadline.
            while end.deadline() <= next {
                now = now.max(end.deadline());
                end.expire(now, &mut |packet: Packet| left.push((now, packet.0)));
            }
            now = next;
            let frame = match arrival {
                Arrival::Down(up) => {
                    let carrier = if up { Carrier::up(1_000) } else { Carrier::DOWN };
                    end.carrier(now, member(from), carrier);
                    while let Step::Do(_) = end.poll(now) {}
                    continue;
                }
                Arrival::Segment { port, seq, len, flags } => segment(port, seq, len, flags),
                Arrival::Bytes(bytes) => bytes,
            };
            came[number] = Some(now);
            let received = end.receive_frame(now, member(from), Packet(number, frame), &mut |it| left.push((now, it.0)));
            if let Some(packet) = received.back {
                left.push((now, packet.0));
            }
            while let Step::Do(_) = end.poll(now) {}
        }
        while end.deadline() < Time::NEVER {
            now = now.max(end.deadline());
            end.expire(now, &mut |packet: Packet| left.push((now, packet.0)));
        }
        let mut is_gone = vec![false; came.len()];
        for (at, number) in left {
            prop_assert!(!std::mem::replace(&mut is_gone[number], true), "packet {} left twice", number);
            let waited = at.since(came[number].unwrap());
            prop_assert!(waited <= TIMEOUT, "packet {} waited for {}", number, waited);
        }
        for (number, came) in came.iter().enumerate() {
            prop_assert_eq!(is_gone[number], came.is_some(), "packet {}", number);
        }
    }

    #[test]
    fn one_flow_in_turn_over_links_that_differ_leaves_in_order(skew_us in 0_u64..1_900, frames in 1_usize..300) {
        let sent: Vec<_> = (0..frames).map(|place| (0, place % MEMBERS)).collect();
        let (left, late) = over_links(skew_us, &sent);
        prop_assert_eq!(late, 0);
        prop_assert_eq!(left.len(), frames);
        prop_assert!(left.is_sorted());
    }

    #[test]
    fn flows_are_out_of_order_only_where_a_wait_was_too_short(
        skew_us in 0_u64..1_900,
        sent in proptest::collection::vec((0_u16..4, 0..MEMBERS), 1..200),
    ) {
        let (left, late) = over_links(skew_us, &sent);
        prop_assert_eq!(left.len(), sent.len());
        let mut behind = 0;
        for flow in 0..4 {
            let mut highest = 0;
            for (_, seq) in left.iter().filter(|(port, _)| *port == flow) {
                behind += u64::from(*seq < highest);
                highest = highest.max(*seq);
            }
        }
        prop_assert_eq!(behind, late);
    }
}

/// Sends a segment of these flows every 10 us over these links, of which the second is later by the skew. In which order they are
/// handed on (port, sequence number), and how many of them were late.
fn over_links(skew_us: u64, sent: &[(u16, usize)]) -> (Vec<(u16, u32)>, u64) {
    let mut plan = plan(Mode::BalanceRr, 1, 0, true);
    plan.partner_uses = MemberSet::from_bits(0b11);
    plan.reorder = Some(reorder::Config { buffer: 256, timeout: TIMEOUT });
    let mut end = End::new(Time::ZERO, &plan);
    // A flow is known from its first segment on.
    for flow in 0..4 {
        let syn = segment(flow, u32::MAX, 0, SYN);
        end.receive_frame(Time::ZERO, member(0), Packet(0, syn), &mut |_| ());
    }
    let mut next = [0_u32; 4];
    let mut arrivals = Vec::new();
    for (place, &(flow, link)) in sent.iter().enumerate() {
        let seq = &mut next[usize::from(flow)];
        arrivals.push((place as u64 * 10 + link as u64 * skew_us, link, flow, *seq));
        *seq += 100;
    }
    arrivals.sort_unstable();
    let mut left = Vec::new();
    let mut out = |packet: Packet| {
        let word = |at: usize| u32::from_be_bytes(packet.1[at..at + 4].try_into().unwrap());
        left.push(((word(34) >> 16) as u16, word(38)));
    };
    let mut now = Time::ZERO;
    for (us, link, flow, seq) in arrivals {
        now = Time::ZERO + Span::from_us(us);
        while end.deadline() <= now {
            let deadline = end.deadline();
            end.expire(deadline, &mut out);
        }
        end.receive_frame(now, member(link), Packet(0, segment(flow, seq, 100, ACK)), &mut out);
    }
    end.flush(now, &mut out);
    let late = end.reordering().unwrap().late;
    (left, late)
}
