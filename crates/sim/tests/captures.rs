//! What passes ports of a simulated network, as frames.

use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::network::{self, GIGABIT};
use crate::scenario;
use fabric::{Fabric, Source, Transfers};
use link::LinkSpec;
use machine::{Span, Time};
use sim::{CapturedFrame, Capturing, FlowSpec, Outcome, Scenario};
use topology::{LinkId, NodeId, Routes, Side};
use transport::linux::Settings;
use transport::transfers::Sizes;
use transport::{ReceiveWindow, TransportKind, TransportSpec};
use wire::tcp_flags::{ACK, FIN, SYN};
use wire::{EthernetPacket, Ipv4Packet, Pseudo, TcpPacket, UdpPacket, checksum, protocol};

/// The port of the first host, which is at one end of the first link.
const FIRST: &[(LinkId, Side)] = &[(LinkId(0), Side::A)];

/// A segment as it was captured.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    at: Time,
    is_outbound: bool,
    ports: (u16, u16),
    flags: u8,
    seq: u32,
    ack: u32,
    payload: u32,
    stamps: Option<(u32, u32)>,
}

/// Reads a frame of TCP over IPv4, all of whose lengths and checksums must be right.
fn read(frame: &CapturedFrame) -> Seen {
    let mut whole = frame.bytes.clone();
    whole.resize(frame.length as usize, 0);
    let ethernet = EthernetPacket::new_checked(&whole).expect("an Ethernet header");
    let ip = Ipv4Packet::new_checked(ethernet.payload()).expect("IPv4");
    assert!(ip.is_checksum_right());
    assert_eq!(ip.payload().len() + 20, ethernet.payload().len(), "no byte is left over");
    let pseudo = Pseudo::V4 { src: ip.src(), dst: ip.dst(), protocol: ip.protocol() };
    assert_eq!(checksum::transport(&pseudo, ip.payload()), 0, "{frame:?}");
    let tcp = TcpPacket::new_checked(ip.payload()).expect("TCP");
    Seen {
        at: frame.at,
        is_outbound: frame.is_outbound,
        ports: (tcp.src_port(), tcp.dst_port()),
        flags: tcp.flags(),
        seq: tcp.seq(),
        ack: tcp.ack(),
        payload: tcp.payload().len() as u32,
        stamps: tcp.timestamps().map(|stamps| (stamps.value, stamps.echo)),
    }
}

fn capture(scenario: &Scenario<'_>, ports: &[(LinkId, Side)]) -> (Outcome, Vec<CapturedFrame>) {
    let mut frames = Vec::new();
    let mut show = |frame| frames.push(frame);
    let outcome = sim::run_capturing(scenario, &|| true, &mut Capturing { ports, show: &mut show });
    (outcome.expect("nobody ends it"), frames)
}

/// Two hosts at a switch, of which the second one's link has something besides.
fn two_hosts(impair: impl Fn(&mut LinkSpec)) -> Fabric {
    let mut second = GIGABIT;
    impair(&mut second);
    network::network(2, 1, &[(0, 2, GIGABIT), (1, 2, second)])
}

fn of_kind(kind: TransportKind) -> TransportSpec {
    let window = if kind == TransportKind::Linux { ReceiveWindow::Auto } else { ReceiveWindow::Segments(20) };
    let header_bytes = if kind == TransportKind::Reno { 40 } else { 66 };
    TransportSpec { kind, window, header_bytes, ..network::reno(20) }
}

/// A flow from the first host to the second.
fn flow(fabric: &Fabric, transport: &TransportSpec, ports: &[(LinkId, Side)]) -> (Outcome, Vec<CapturedFrame>) {
    let routes = Arc::new(Routes::compute(&fabric.topology));
    let flows = [FlowSpec { from: NodeId(0), to: NodeId(1), start: Time::ZERO }];
    let duration = Span::from_ms(30);
    capture(&Scenario { duration, ..scenario::plain(fabric, &routes, transport, &flows) }, ports)
}

#[test]
fn frames_have_the_headers_of_their_flow_in_the_order_of_time() {
    for kind in [TransportKind::Reno, TransportKind::Sack, TransportKind::Linux] {
        let (outcome, frames) = flow(&two_hosts(|_| {}), &of_kind(kind), FIRST);
        let seen: Vec<Seen> = frames.iter().map(read).collect();
        assert!(seen.is_sorted_by_key(|seen| seen.at), "{kind:?}");
        let (sent, back): (Vec<&Seen>, Vec<&Seen>) = seen.iter().partition(|seen| seen.is_outbound);
        assert!(sent.len() > 100 && back.len() > 50, "{kind:?}: {} {}", sent.len(), back.len());
        assert!(sent.iter().all(|seen| seen.ports == (32_768, 5_201)));
        assert!(back.iter().all(|seen| seen.ports == (5_201, 32_768) && seen.payload == 0));
        assert!(sent.is_sorted_by_key(|seen| seen.seq), "nothing is lost: {kind:?}");
        assert!(back.is_sorted_by_key(|seen| seen.ack), "{kind:?}");
        let has_handshake = kind == TransportKind::Linux;
        let flags = [sent[0].flags, back[0].flags, sent[1].flags];
        assert_eq!(flags == [SYN, SYN | ACK, ACK], has_handshake, "{kind:?}: {flags:?}");
        assert_eq!(seen.iter().filter(|seen| seen.flags & SYN != 0).count(), 2 * usize::from(has_handshake));
        let data: Vec<&&Seen> = sent.iter().filter(|seen| seen.payload > 0).collect();
        assert!(data[0].seq == 1 && data.iter().all(|seen| seen.payload == 1_000 && seen.ack == 1), "{kind:?}");
        // All that the receiver had had, but for what it acknowledged at the very end.
        let last = u64::from(back.last().expect("some came").ack);
        assert!(last > 100_000 && last <= outcome.flows[0].delivered_bytes + 1, "{kind:?}");
        assert_eq!(data[0].stamps.is_some(), kind != TransportKind::Reno, "{kind:?}");
        if kind == TransportKind::Linux {
            assert!(back.iter().skip(1).any(|seen| seen.stamps.is_some_and(|(value, echo)| value > 0 && echo > 0)));
        }
    }
}

#[test]
fn a_port_sees_what_leaves_it_and_what_comes_to_it_each_at_its_moment() {
    let ends = [(LinkId(0), Side::A), (LinkId(0), Side::B)];
    let (_, frames) = flow(&two_hosts(|_| {}), &of_kind(TransportKind::Linux), &ends);
    let of = |port: usize, is_outbound: bool| {
        let frames = frames.iter().filter(move |frame| (frame.port, frame.is_outbound) == (port, is_outbound));
        frames.map(|frame| (frame.at, frame.bytes.clone())).collect::<Vec<_>>()
    };
    for (from, to) in [(0, 1), (1, 0)] {
        let (left, came) = (of(from, true), of(to, false));
        assert!(came.len() > 50 && left.len() >= came.len());
        for ((left, bytes), (came, same)) in left.iter().zip(&came) {
            assert_eq!((*came, same), (*left + Span::from_us(50), bytes));
        }
    }
}

#[test]
fn what_was_lost_shows_in_blocks() {
    let (outcome, frames) = flow(&two_hosts(|link| link.loss_ppb = 20_000_000), &of_kind(TransportKind::Linux), FIRST);
    assert!(outcome.flows[0].retransmits > 0);
    let mut blocks = 0;
    for frame in &frames {
        let seen = read(frame);
        // Two fillers and the timestamps, two fillers, the option.
        if let Some([5, _, rest @ ..]) = frame.bytes.get(14 + 20 + 20 + 14..) {
            let edge = u32::from_be_bytes(*rest.first_chunk().expect("a block is whole"));
            assert!(edge > seen.ack, "{seen:?}: {edge}");
            blocks += 1;
        }
    }
    assert!(blocks > 0);
}

#[test]
fn who_looks_changes_nothing() {
    let impair = |link: &mut LinkSpec| (link.loss_ppb, link.corrupt_ppb) = (1_000_000, 10_000_000);
    for kind in [TransportKind::NewReno, TransportKind::Linux] {
        let fabric = two_hosts(impair);
        let (with, frames) = flow(&fabric, &of_kind(kind), FIRST);
        let (without, none) = flow(&fabric, &of_kind(kind), &[]);
        assert!(!frames.is_empty() && none.is_empty());
        assert_eq!(format!("{with:?}"), format!("{without:?}"), "{kind:?}");
    }
}

#[test]
fn connections_of_transfers_begin_and_end() {
    let transport = TransportSpec { linux: Settings::default(), ..of_kind(TransportKind::Linux) };
    let fabric = two_hosts(|_| {});
    let routes = Arc::new(Routes::compute(&fabric.topology));
    let flows = [FlowSpec { from: NodeId(0), to: NodeId(1), start: Time::ZERO }];
    let transfers = Transfers { size: Sizes::fixed(5_500), every: Span::from_ms(20) };
    let duration = Span::from_ms(300);
    let scenario =
        Scenario { duration, transfers: Some(&transfers), ..scenario::plain(&fabric, &routes, &transport, &flows) };
    let (_, frames) = capture(&scenario, FIRST);
    let seen: Vec<Seen> = frames.iter().map(read).collect();
    let begun: Vec<&Seen> = seen.iter().filter(|seen| seen.flags == SYN).collect();
    assert!(begun.len() > 5, "{seen:?}");
    for syn in begun {
        let client = syn.ports.0;
        let of = |seen: &&Seen| seen.ports.0 == client || seen.ports.1 == client;
        let (sent, back): (Vec<&Seen>, Vec<&Seen>) = seen.iter().filter(of).partition(|seen| seen.is_outbound);
        let (last, answer) = (sent.last().unwrap(), back.iter().find(|seen| seen.flags & FIN != 0).unwrap());
        // A byte of the stream after the SYN, eight of the answer, and a FIN from each.
        assert_eq!((answer.seq, answer.payload), (1, 8));
        assert_eq!((last.flags, last.seq, last.ack), (FIN | ACK, 5_501, 10), "{sent:?}");
        let end = back.last().unwrap();
        assert_eq!((end.flags, end.seq, end.ack), (ACK, 10, 5_502), "{back:?}");
    }
}

#[test]
fn frames_of_services_have_numbers_and_checksums_whoever_translated_them() {
    for forward in ["nat", "full-nat", "dr"] {
        let text = format!(
            "\
name: captured
nodes: {{ c1: host, h1: host, s1: switch }}
link-defaults: {{ rate: 100Mbit, delay: 1ms, queue: 1000 }}
links: [{{ between: [c1, s1] }}, {{ between: [h1, s1] }}]
services: {{ web: {{ address: 10.1.0.80:80, servers: [h1], forward: {forward} }} }}
experiments:
  a: {{ traffic: {{ requests: {{ to: web, clients: 1, new-connections: true, servers: {{ duration: 10ms }} }} }} }}
"
        );
        let source = Source { name: "captured.fabric.yaml".into(), text };
        let fabric = fabric::parse(&source).unwrap_or_else(|error| panic!("{error:?}"));
        let routes = Arc::new(Routes::compute(&fabric.topology));
        let traffic = fabric.experiments[0].work.traffic().expect("it is of traffic");
        let requests = traffic.requests.as_deref();
        let duration = Span::from_ms(200);
        let scenario = Scenario { duration, requests, ..scenario::plain(&fabric, &routes, &traffic.transport, &[]) };
        let at_server = (LinkId(1), Side::A);
        let (_, frames) = capture(&scenario, &[FIRST[0], at_server]);
        for port in [0, 1] {
            let seen: Vec<Seen> = frames.iter().filter(|frame| frame.port == port).map(read).collect();
            let begins = |seen: &&Seen| seen.flags == SYN;
            let syn = seen.iter().find(begins).expect("a connection begins");
            let client = syn.ports.0;
            let of = |seen: &&Seen| seen.ports.0 == client || seen.ports.1 == client;
            let (up, down): (Vec<&Seen>, Vec<&Seen>) = seen.iter().filter(of).partition(|seen| seen.ports.0 == client);
            assert_eq!((down[0].flags, down[0].seq, down[0].ack), (SYN | ACK, 0, 1), "{forward}");
            let request = up.iter().find(|seen| seen.payload > 0).expect("it asks");
            let answer = down.iter().find(|seen| seen.payload > 0).expect("it is answered");
            assert_eq!((request.seq, answer.seq), (1, 1), "{forward}");
            let fins: Vec<&&Seen> = up.iter().filter(|seen| seen.flags & FIN != 0).collect();
            let [fin] = fins[..] else { panic!("{forward}: {up:?}") };
            // What has come, and the server's FIN.
            assert_eq!((fin.seq, fin.ack), (1 + request.payload, 2 + answer.payload), "{forward}: {up:?} {down:?}");
            assert_eq!(down.last().unwrap().ack, fin.seq + 1, "{forward}: {down:?}");
        }
    }
}

#[test]
fn messages_of_udp_are_put_together_again() {
    let transport = of_kind(TransportKind::Udp);
    // A multiple of eight behind IP's header, as kernels cut.
    let transport = TransportSpec { window: ReceiveWindow::Segments(20), segment_bytes: 1_448, ..transport };
    let (_, frames) = flow(&two_hosts(|_| {}), &transport, FIRST);
    let mut message = Vec::new();
    let (mut whole, mut credits) = (0, 0);
    for frame in &frames {
        let mut bytes = frame.bytes.clone();
        bytes.resize(frame.length as usize, 0);
        let ethernet = EthernetPacket::new_checked(&bytes).expect("an Ethernet header");
        let ip = Ipv4Packet::new_checked(ethernet.payload()).expect("IPv4");
        assert!(ip.is_checksum_right() && ip.protocol() == protocol::UDP);
        let pseudo = Pseudo::V4 { src: ip.src(), dst: ip.dst(), protocol: ip.protocol() };
        if ip.src() != Ipv4Addr::new(10, 0, 0, 1) {
            let udp = UdpPacket::new_checked(ip.payload()).expect("UDP");
            assert_eq!((udp.src_port(), udp.dst_port()), (5_201, 32_768));
            assert_eq!(checksum::transport(&pseudo, ip.payload()), 0);
            credits += 1;
            continue;
        }
        assert_eq!(usize::from(ip.fragment_offset()) * 8, message.len());
        message.extend(ip.payload());
        if !ip.more_fragments() {
            let udp = UdpPacket::new_checked(&message).expect("UDP");
            assert_eq!((udp.src_port(), udp.dst_port(), udp.payload().len()), (32_768, 5_201, 11 * 1_480 - 8));
            assert_eq!(checksum::transport(&pseudo, &message), 0);
            message.clear();
            whole += 1;
        }
    }
    assert!(whole > 50 && credits > 50, "{whole} {credits}");
}
