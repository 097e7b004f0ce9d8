//! Built-in functions of service chains, with frames that no host of the file would send: nothing comes past them, and stations behind hosts are found.

use std::net::Ipv4Addr;

use crate::bed::{self, Bed};
use crate::far_ends::{frame, receive, with_far_ends};
use live::VNET_HEADER;
use live::packet::PacketPort;
use live::port::Port;
use wire::{BROADCAST, EthernetPacket, Ipv4Packet, Ipv4Repr, UdpRepr, ethertype, protocol};

/// The ethertype of experiments, which chains and functions of these tests let pass.
const TEST: u16 = 0x88b5;

/// Addresses that no file has.
const STATIONS: [[u8; 6]; 2] = [[2, 0xaa, 0, 0, 0, 1], [2, 0xaa, 0, 0, 0, 2]];
const STATION_ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 77, 1), Ipv4Addr::new(10, 0, 88, 1)];

fn send(port: &mut PacketPort, frame: &[u8]) {
    port.write(frame).unwrap();
    port.flush();
}

/// A frame of the test.
fn marked(from: [u8; 6], to: [u8; 6], mark: u8) -> Vec<u8> {
    let mut frame = frame(60, mark);
    frame[VNET_HEADER..][..12].copy_from_slice(&[to, from].concat());
    frame
}

/// A datagram over IPv4, with tags of VLAN 0 in front of it.
fn datagram(macs: [[u8; 6]; 2], [src, dst]: [Ipv4Addr; 2], ports: (u16, u16), tags: &[u16]) -> Vec<u8> {
    let payload_len = 20;
    let udp = UdpRepr { src_port: ports.0, dst_port: ports.1, payload_len };
    let ip = Ipv4Repr {
        src,
        dst,
        protocol: protocol::UDP,
        ttl: 64,
        traffic_class: 0,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: udp.buffer_len() as u16 + payload_len,
    };
    let mut body = vec![0; ip.buffer_len() + usize::from(ip.payload_len)];
    ip.emit(&mut body);
    udp.emit(&mut body[ip.buffer_len()..]);
    let tags = tags.iter().flat_map(|tpid| [tpid.to_be_bytes(), [0, 0]]).flatten();
    let mut frame = vec![0; VNET_HEADER];
    frame.extend([macs[1], macs[0]].concat());
    frame.extend(tags.chain(ethertype::IPV4.to_be_bytes()));
    frame.extend(body);
    frame
}

/// The next frame that comes by a port from this address.
fn next_from(port: &mut PacketPort, from: [u8; 6]) -> Vec<u8> {
    loop {
        let frame = receive(port).split_off(VNET_HEADER);
        if frame[6..12] == from {
            return frame;
        }
    }
}

/// Forgets what has come by a port until now.
fn drain(port: &mut PacketPort) {
    let mut buffer = vec![0; 70_000];
    while port.read(&mut buffer).unwrap().is_some() {}
}

/// Sends a datagram again and again until one comes by the other port; says where it goes, and between which addresses.
fn comes(by: &mut PacketPort, frame: &[u8], to: &mut PacketPort) -> ([u8; 6], [Ipv4Addr; 2]) {
    let mut found = None;
    let mut buffer = vec![0; 70_000];
    bed::wait_until("a datagram of a station", || {
        send(by, frame);
        while let Some(len) = to.read(&mut buffer).unwrap() {
            let Ok(ethernet) = EthernetPacket::new_checked(&buffer[VNET_HEADER..len]) else { continue };
            if ethernet.ethertype() == ethertype::IPV4 && ethernet.src() == frame[VNET_HEADER + 6..][..6] {
                let ip = Ipv4Packet::new_checked(ethernet.payload()).unwrap();
                found = Some((ethernet.dst(), [ip.src(), ip.dst()]));
            }
        }
        found.is_some()
    });
    found.unwrap()
}

const PAST: &str = "
name: past
nodes: { g0: { kind: host, devices: [dev0] }, g1: { kind: host, devices: [dev1] }, s1: switch }
links: [{ between: [g0, s1] }, { between: [g1, s1] }]
functions: { wall: { kind: firewall, outbound: [{ deny: udp }] } }
chains: { out: { from: g0, to: g1, match: udp, functions: [wall] } }
";

#[test]
fn nothing_comes_past_a_firewall() {
    with_far_ends(|bed, [mut far0, mut far1]| {
        let network = bed.up("past", PAST);
        let topology = fabric::parse(&bed::source(PAST)).unwrap().topology;
        let of = |host: &str| topology.address(topology.node(host).unwrap()).unwrap().clone();
        let (a, b) = (of("g0"), of("g1"));
        let (macs, addresses) = ([a.mac, b.mac], [a.ipv4, b.ipv4]);
        // For nobody who is known, for everybody, and where its protocol is hidden.
        send(&mut far0, &marked(a.mac, STATIONS[0], 7));
        send(&mut far0, &datagram([a.mac, STATIONS[0]], addresses, (1, 2), &[]));
        send(&mut far0, &datagram([a.mac, BROADCAST], addresses, (1, 2), &[]));
        for tags in [&[0x8100, 0x8100][..], &[0x88a8]] {
            send(&mut far0, &datagram(macs, addresses, (1, 2), tags));
            send(&mut far0, &datagram([a.mac, BROADCAST], addresses, (1, 2), tags));
            send(&mut far0, &datagram([a.mac, [1, 0, 0x5e, 0, 0, 1]], addresses, (1, 2), tags));
        }
        // For an address that somebody may have beside that of the file.
        send(&mut far0, &datagram([a.mac, BROADCAST], [a.ipv4, STATION_ADDRESSES[0]], (1, 2), &[]));
        send(&mut far0, &datagram(macs, addresses, (1, 2), &[]));
        send(&mut far0, &marked(a.mac, b.mac, 8));
        let frame = next_from(&mut far1, a.mac);
        assert_eq!((&frame[12..14], frame[14]), (&TEST.to_be_bytes()[..], 8), "{frame:x?}");
        // What is for everybody passes by the functions.
        let everybody = Ipv4Addr::from_bits(b.ipv4.to_bits() | (u32::MAX >> b.ipv4_prefix));
        for address in [everybody, Ipv4Addr::BROADCAST, Ipv4Addr::new(224, 0, 0, 251)] {
            send(&mut far0, &datagram([a.mac, BROADCAST], [a.ipv4, address], (1, 2), &[0x8100]));
            let frame = next_from(&mut far1, a.mac);
            assert_eq!(frame[34..38], address.octets(), "{frame:x?}");
        }
        let chains = network.counters().unwrap().chains;
        let counted: Vec<(&str, u64)> =
            chains[0].hops[0].counts.iter().map(|count| (&*count.name, count.count)).collect();
        assert_eq!(counted, [("outbound deny udp", 1), ("several tags", 2)]);
        assert_eq!((chains[0].entered, chains[0].stray), (3, 6));
        network.down().unwrap();
    });
}

const STATIONS_BEHIND: &str = "
name: stations
nodes: { h1: host, g0: { kind: host, devices: [dev0] }, h2: host, g1: { kind: host, devices: [dev1] }, s1: switch }
links: [{ between: [h1, s1] }, { between: [g0, s1] }, { between: [h2, s1] }, { between: [g1, s1] }]
functions:
  count: { kind: counter }
  fw: { at: s1, programs: { bridge: BRIDGE } }
  nat: { kind: nat, source: 10.0.9.1 }
chains: { out: { from: [h1, g0], to: [h2, g1], functions: [count, fw, nat] } }
";

/// What passes frames on: the kernel's bridge.
const BRIDGE: &str = "\"ip link add br0 type bridge; for port in eth0 eth1; do ip link set $port master br0 up; done; ip link set br0 up; exec sleep 1000\"";

#[test]
fn stations_behind_hosts_talk_through_a_chain_with_several_ends() {
    with_far_ends(|bed, [mut far0, mut far1]| {
        let text = STATIONS_BEHIND.replace("BRIDGE", BRIDGE);
        let topology = fabric::parse(&bed::source(&text)).unwrap().topology;
        let stands_for_nat = topology.address(topology.node("h1").unwrap()).unwrap().mac;
        for functions in ["[count]", "[count, fw]", "[nat]", "[count, fw, nat]"] {
            let network = bed.up("stations", &text.replace("[count, fw, nat]", functions));
            let has_nat = functions.contains("nat");
            // Of the network before.
            drain(&mut far0);
            drain(&mut far1);
            // It is known where it is, since it has said something.
            send(&mut far1, &marked(STATIONS[1], BROADCAST, 1));
            assert_eq!(next_from(&mut far0, STATIONS[1])[14], 1);
            let question = datagram(STATIONS, STATION_ADDRESSES, (4_000, 53), &[]);
            let source = if has_nat { Ipv4Addr::new(10, 0, 9, 1) } else { STATION_ADDRESSES[0] };
            let came = comes(&mut far0, &question, &mut far1);
            assert_eq!(came, (STATIONS[1], [source, STATION_ADDRESSES[1]]), "{functions}");
            let to = if has_nat { stands_for_nat } else { STATIONS[0] };
            let answer = datagram([STATIONS[1], to], [STATION_ADDRESSES[1], source], (53, 4_000), &[]);
            let came = comes(&mut far1, &answer, &mut far0);
            assert_eq!(came, (STATIONS[0], [STATION_ADDRESSES[1], STATION_ADDRESSES[0]]), "{functions}");
            network.down().unwrap();
        }
    });
}

const OUTSIDE: &str = "
name: outside
nodes: { inside: host, outside: host, s1: switch }
links: [{ between: [inside, s1] }, { between: [outside, s1] }]
functions: { nat: { kind: nat, source: 10.0.9.1 } }
chains: { out: { from: inside, to: outside, functions: [nat] } }
";

#[test]
fn whoever_is_outside_of_nat_reaches_a_host_by_its_own_address() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("outside", OUTSIDE);
    for (from, to) in [("outside", "inside"), ("inside", "outside")] {
        bed::ping(&network, from, &["-4"], 3, to);
        bed::carry(&network, to, from, "1M");
    }
    network.down().unwrap();
}
