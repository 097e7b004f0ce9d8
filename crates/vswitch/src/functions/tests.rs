//! Built-in functions, packet by packet.

use std::net::Ipv4Addr;

use machine::{Rebase, Span, Time};
use topology::{HostAddress, NodeId};
use wire::{Coverage, ethertype, tcp_flags};

use super::*;
use crate::FlowKey;
use crate::conntrack::{NatRange, TranslatedEnd};
use crate::flow_table::{Match, Ports, Selection, nat_range};
use crate::testing::{address, ipv4_udp, tcp};

const FORWARD: Course = Course::Forward;
const REVERSE: Course = Course::Reverse;

/// Where TCP's flags are in a frame over IPv4.
const FLAGS_AT: usize = 14 + 20 + 13;

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

fn segment(from: &HostAddress, to: &HostAddress, ports: (u16, u16), flags: u8) -> Vec<u8> {
    let mut frame = tcp(from, to, ports.0, ports.1, 0);
    frame[FLAGS_AT] = flags;
    frame
}

/// What becomes of a frame at a function; nothing if it is dropped.
fn pass(function: &mut dyn ServiceFunction, now: Time, course: Course, frame: &[u8]) -> Option<Vec<u8>> {
    let mut fields = Vec::new();
    let packet = PassingPacket { course, headers: frame, bytes: frame.len() as u32 };
    if function.process(now, &packet, &mut fields) == Verdict::Drop {
        return None;
    }
    let mut frame = frame.to_vec();
    for field in fields {
        field.write(&mut frame, Coverage::Complete).expect("it has that field");
    }
    Some(frame)
}

fn passes(function: &mut dyn ServiceFunction, course: Course, frame: &[u8]) -> bool {
    pass(function, at(1), course, frame).is_some()
}

fn shown(function: &dyn ServiceFunction) -> Vec<String> {
    let words = |count: FunctionCount| match count.bytes {
        Some(bytes) => format!("{} {} {bytes} B", count.name, count.count),
        None => format!("{} {}", count.name, count.count),
    };
    function.counts().into_iter().map(words).collect()
}

fn rule(allows: bool, text: &str) -> FirewallRule {
    let matching: Match = Selection::parse(text, &Ports::default(), false).expect("it is a match").matching;
    FirewallRule { allows, matching }
}

/// Addresses and ports of a frame.
fn ends(frame: &[u8]) -> (String, String) {
    let key = FlowKey::parse(frame).expect("it is a frame");
    let end = |address: u128, port| format!("{}:{port}", Ipv4Addr::from_bits(address as u32));
    (end(key.src, key.src_port), end(key.dst, key.dst_port))
}

#[test]
fn a_counter_counts_by_protocol() {
    let mut counter = BuiltIn::Counter.make(1);
    let (a, b) = (address(1), address(2));
    let segment = tcp(&a, &b, 1, 2, 10);
    let datagram = ipv4_udp(&a, &b, (1, 2), 10, (0, false));
    for frame in [&segment, &segment, &datagram] {
        assert_eq!(pass(&mut *counter, at(0), FORWARD, frame).as_ref(), Some(frame));
    }
    assert!(passes(&mut *counter, REVERSE, &[0; 20]));
    let (segments, datagrams) = (2 * segment.len(), datagram.len());
    let expected = [format!("tcp 2 {segments} B"), format!("udp 1 {datagrams} B"), "other 1 20 B".to_owned()];
    assert_eq!(shown(&*counter), expected);
}

#[test]
fn a_rate_limit_is_one_for_each_direction() {
    let mut limit = BuiltIn::RateLimit(RateLimit { rate_bps: 8_000_000, burst_bytes: 3_000 }).make(1);
    let frame = [0; 1_000];
    let mut passed = |ms, course| (0..10).filter(|_| pass(&mut *limit, at(ms), course, &frame).is_some()).count();
    assert_eq!([passed(100, FORWARD), passed(100, REVERSE)], [3, 3]);
    // A thousand bytes come in a millisecond.
    assert_eq!([passed(102, FORWARD), passed(200, FORWARD)], [2, 3]);
    assert_eq!(shown(&*limit), ["too fast forward 22 22000 B", "too fast reverse 7 7000 B"]);
}

#[test]
fn a_mirror_has_each_packet_copied() {
    let mut mirror = BuiltIn::Mirror(NodeId(7)).make(1);
    let packet = PassingPacket { course: REVERSE, headers: &[0; 60], bytes: 60 };
    assert_eq!(mirror.process(at(0), &packet, &mut Vec::new()), Verdict::PassAndCopy(NodeId(7)));
    assert_eq!(shown(&*mirror), ["copies 1 60 B"]);
}

#[test]
fn a_firewall_lets_in_what_belongs_to_what_it_has_let_out() {
    let rules = FirewallRules {
        outbound: vec![rule(false, "tcp,tp_dst=25")],
        inbound: vec![rule(false, "tcp,nw_src=10.0.0.9"), rule(true, "tcp,tp_dst=22")],
    };
    let mut firewall = BuiltIn::Firewall(rules).make(1);
    let (a, b, c) = (address(1), address(2), address(9));
    let mut says = |course, from, to, ports, flags| passes(&mut *firewall, course, &segment(from, to, ports, flags));
    let (syn, ack) = (tcp_flags::SYN, tcp_flags::ACK);
    assert!(!says(REVERSE, &b, &a, (80, 4_000), syn | ack), "nobody has asked");
    assert!(!says(REVERSE, &b, &a, (4_000, 80), syn), "nothing is let in by default");
    assert!(says(FORWARD, &a, &b, (4_000, 80), syn));
    assert!(says(REVERSE, &b, &a, (80, 4_000), syn | ack) && says(FORWARD, &a, &b, (4_000, 80), ack));
    assert!(!says(FORWARD, &a, &b, (4_000, 25), syn), "a rule denies it");
    assert!(says(REVERSE, &b, &a, (5_000, 22), syn) && says(FORWARD, &a, &b, (22, 5_000), syn | ack));
    assert!(!says(REVERSE, &c, &a, (5_000, 22), syn), "the first rule that fits counts");
    assert!(!passes(&mut *firewall, FORWARD, &ipv4_udp(&a, &b, (1, 2), 64, (8, true))), "a fragment");
    let expected = [
        "connections 2",
        "outbound deny tcp,tp_dst=25 1",
        "outbound allow by default 1",
        "inbound deny tcp,nw_src=10.0.0.9 1",
        "inbound allow tcp,tp_dst=22 1",
        "inbound deny by default 1",
        "invalid 1",
        "fragments 1",
    ];
    assert_eq!(shown(&*firewall), expected);
    // It goes on when the clock is set back.
    firewall.rebase(Span::from_ms(1));
    assert!(passes(&mut *firewall, REVERSE, &segment(&b, &a, (80, 4_000), ack)));
}

#[test]
fn a_firewall_lets_pass_what_is_no_ip_by_its_rules() {
    let mut frame = [0; 60];
    frame[12..14].copy_from_slice(&ethertype::LLDP.to_be_bytes());
    let mut firewall = BuiltIn::Firewall(FirewallRules::default()).make(1);
    assert!(passes(&mut *firewall, FORWARD, &frame) && !passes(&mut *firewall, REVERSE, &frame));
}

#[test]
fn nat_translates_sources_and_forwards_ports() {
    let public = Ipv4Addr::new(10, 0, 1, 1);
    let outside = HostAddress { ipv4: public, ..address(1) };
    let forward = PortForward {
        course: REVERSE,
        protocol: PortForward::TCP,
        is_ipv6: false,
        address: public.to_bits().into(),
        port: 8_080,
        to: address(1).ipv4.to_bits().into(),
        to_port: 80,
    };
    let source = nat_range(TranslatedEnd::Source, "10.0.1.1:5000-5001");
    assert_eq!(source.map(|range: NatRange| range.to_string()).as_deref(), Some("10.0.1.1:5000-5001"));
    let mut nat = BuiltIn::Nat(NatRules { source, forwards: vec![forward] }).make(1);
    let (a, b) = (address(1), address(2));
    let (syn, ack) = (tcp_flags::SYN, tcp_flags::ACK);
    let mut becomes = |course, from: &HostAddress, to: &HostAddress, ports, flags| {
        let frame = pass(&mut *nat, at(1), course, &segment(from, to, ports, flags))?;
        let (src, dst) = ends(&frame);
        Some(format!("{src} > {dst}"))
    };
    let out = becomes(FORWARD, &a, &b, (5_000, 80), syn);
    assert_eq!(out.as_deref(), Some("10.0.1.1:5000 > 10.0.0.2:80"));
    let back = becomes(REVERSE, &b, &outside, (80, 5_000), syn | ack);
    assert_eq!(back.as_deref(), Some("10.0.0.2:80 > 10.0.0.1:5000"));
    let second = becomes(FORWARD, &a, &b, (5_001, 80), syn);
    assert_eq!(second.as_deref(), Some("10.0.1.1:5001 > 10.0.0.2:80"));
    assert_eq!(becomes(FORWARD, &a, &b, (5_002, 80), syn), None, "no port is left");
    assert_eq!(becomes(REVERSE, &b, &outside, (80, 6_000), syn), None, "nobody is there");
    let within = becomes(REVERSE, &b, &outside, (4_000, 8_080), syn);
    assert_eq!(within.as_deref(), Some("10.0.0.2:4000 > 10.0.0.1:80"));
    let answer = becomes(FORWARD, &a, &b, (80, 4_000), syn | ack);
    assert_eq!(answer.as_deref(), Some("10.0.1.1:8080 > 10.0.0.2:4000"));
    let plain = becomes(REVERSE, &b, &a, (4_000, 22), syn);
    assert_eq!(plain.as_deref(), Some("10.0.0.2:4000 > 10.0.0.1:22"), "what is for somebody else stays as it is");
    let counted = ["connections 4", "translated 5", "unsolicited 1", "no address and port left 1"];
    assert_eq!(shown(&*nat), counted);
}

/// A function that translates sources to 10.0.1.1.
fn source_nat() -> Box<dyn ServiceFunction> {
    let source = nat_range(TranslatedEnd::Source, "10.0.1.1");
    BuiltIn::Nat(NatRules { source, forwards: Vec::new() }).make(1)
}

#[test]
fn nat_leaves_answers_as_they_are_to_what_the_outside_has_begun() {
    let mut nat = source_nat();
    let (a, b) = (address(1), address(2));
    let (syn, ack) = (tcp_flags::SYN, tcp_flags::ACK);
    let datagram = |from: &HostAddress, to: &HostAddress, ports| ipv4_udp(from, to, ports, 10, (0, false));
    for (question, answer) in [
        (segment(&b, &a, (4_000, 22), syn), segment(&a, &b, (22, 4_000), syn | ack)),
        (datagram(&b, &a, (4_000, 53)), datagram(&a, &b, (53, 4_000))),
    ] {
        assert_eq!(pass(&mut *nat, at(1), REVERSE, &question).as_ref(), Some(&question));
        assert_eq!(pass(&mut *nat, at(2), FORWARD, &answer).as_ref(), Some(&answer));
    }
    // What it begins itself with the same peer is translated.
    let own = pass(&mut *nat, at(3), FORWARD, &datagram(&a, &b, (53, 4_001))).expect("it passes");
    assert_eq!(ends(&own).0, "10.0.1.1:53");
    assert_eq!(shown(&*nat), ["connections 3", "translated 1"]);
}

#[test]
fn answers_of_nat_go_to_the_station_that_has_asked() {
    let mut nat = source_nat();
    let (known, b) = (address(1), address(2));
    let station = HostAddress { mac: [2, 0xaa, 0, 0, 0, 7], ..address(77) };
    let out = pass(&mut *nat, at(1), FORWARD, &ipv4_udp(&station, &b, (5, 6), 10, (0, false))).expect("it passes");
    assert_eq!(ends(&out).0, "10.0.1.1:5");
    // Whoever asks for the address that it has outside is answered with that of a host.
    let public = HostAddress { ipv4: Ipv4Addr::new(10, 0, 1, 1), ..known };
    let back = pass(&mut *nat, at(2), REVERSE, &ipv4_udp(&b, &public, (6, 5), 10, (0, false))).expect("it passes");
    assert_eq!(ends(&back).1, format!("{}:5", station.ipv4));
    assert_eq!(back[..6], station.mac);
}

/// A frame with tags of VLAN 0 behind its addresses.
fn tagged(frame: &[u8], tags: &[u16]) -> Vec<u8> {
    let tags = tags.iter().flat_map(|tpid| [tpid.to_be_bytes(), [0, 0]]).flatten();
    frame[..12].iter().copied().chain(tags).chain(frame[12..].iter().copied()).collect()
}

#[test]
fn what_is_behind_a_second_tag_passes_neither_firewall_nor_nat() {
    let rules = FirewallRules { outbound: Vec::new(), inbound: vec![rule(true, "ip")] };
    let mut firewall = BuiltIn::Firewall(rules).make(1);
    let mut nat = source_nat();
    let datagram = ipv4_udp(&address(1), &address(2), (5, 6), 10, (0, false));
    for function in [&mut *firewall, &mut *nat] {
        assert!(passes(function, FORWARD, &tagged(&datagram, &[0x8100])), "a priority");
        for tags in [&[0x8100, 0x8100][..], &[0x8100, 0x88a8], &[0x88a8], &[0x88a8, 0x8100]] {
            assert!(!passes(function, FORWARD, &tagged(&datagram, tags)), "{tags:x?}");
        }
        assert!(shown(function).contains(&"several tags 4".to_owned()), "{:?}", shown(function));
    }
}

#[test]
fn a_firewall_counts_what_cannot_be_told_from_its_answer() {
    let mut firewall = BuiltIn::Firewall(FirewallRules::default()).make(1);
    let a = address(1);
    assert!(!passes(&mut *firewall, FORWARD, &segment(&a, &a, (80, 80), tcp_flags::SYN)));
    assert_eq!(shown(&*firewall), ["outbound allow by default 1", "no tuple for connections 1"]);
}

#[test]
fn kinds_have_the_names_of_files() {
    let all = [
        BuiltIn::Counter,
        BuiltIn::RateLimit(RateLimit { rate_bps: 1, burst_bytes: 1 }),
        BuiltIn::Mirror(NodeId(0)),
        BuiltIn::Firewall(FirewallRules::default()),
        BuiltIn::Nat(NatRules::default()),
    ];
    assert_eq!(all.each_ref().map(BuiltIn::kind), ["counter", "rate-limit", "mirror", "firewall", "nat"]);
    assert_eq!(all.each_ref().map(BuiltIn::is_stateful), [false, false, false, true, true]);
}
