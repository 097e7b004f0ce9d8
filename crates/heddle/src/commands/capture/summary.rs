//! A frame in a line, in the manner of tcpdump.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::IpAddr;

use wire::{
    ArpOperation, ArpPacket, EthernetPacket, Ipv4Packet, Ipv6Packet, NeighbourPacket, TcpPacket, UdpPacket, ethertype,
    protocol, tcp_flags,
};

/// Letters of flags, in tcpdump's order.
const FLAGS: [(u8, char); 8] = [
    (tcp_flags::FIN, 'F'),
    (tcp_flags::SYN, 'S'),
    (tcp_flags::RST, 'R'),
    (tcp_flags::PSH, 'P'),
    (tcp_flags::ACK, '.'),
    (tcp_flags::URG, 'U'),
    (tcp_flags::ECE, 'E'),
    (tcp_flags::CWR, 'W'),
];

/// The time of day of a moment after 1970, in UTC, with microseconds.
pub fn time_of_day(at_ns: u64) -> String {
    let (seconds, us) = (at_ns / 1_000_000_000, at_ns / 1_000 % 1_000_000);
    format!("{:02}:{:02}:{:02}.{us:06}", seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60)
}

/// A frame of `length` bytes of which these were captured. Headers say how long all is: what was not captured is taken to be zero.
pub fn whole(bytes: &[u8], length: u32) -> Cow<'_, [u8]> {
    if bytes.len() >= length as usize {
        return bytes.into();
    }
    let mut whole = bytes.to_vec();
    whole.resize(length as usize, 0);
    whole.into()
}

/// What a frame of `length` bytes says, of which these were captured.
pub fn summary(bytes: &[u8], length: u32) -> String {
    let whole = whole(bytes, length);
    let Ok(ethernet) = EthernetPacket::new_checked(&whole) else { return format!("cut off, length {length}") };
    let vlan = ethernet.vlan().map_or(String::new(), |tag| format!("vlan {}, p {}, ", tag & 0xfff, tag >> 13));
    let known = match ethernet.ethertype() {
        ethertype::IPV4 => ipv4(ethernet.payload()),
        ethertype::IPV6 => ipv6(ethernet.payload()),
        ethertype::ARP => arp(ethernet.payload()),
        ethertype::SLOW => Some(match ethernet.payload().first() {
            Some(1) => "LACP".to_owned(),
            _ => "slow protocol".to_owned(),
        }),
        ethertype::LLDP => Some("LLDP".to_owned()),
        _ => None,
    };
    let rest = ethernet.payload().len();
    match known {
        Some(text) if matches!(ethernet.ethertype(), ethertype::IPV4 | ethertype::IPV6) => format!("{vlan}{text}"),
        Some(text) => format!("{vlan}{text}, length {rest}"),
        None => {
            let (from, to, kind) = (mac(ethernet.src()), mac(ethernet.dst()), ethernet.ethertype());
            format!("{vlan}{from} > {to}, ethertype 0x{kind:04x}, length {rest}")
        }
    }
}

pub fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

fn arp(payload: &[u8]) -> Option<String> {
    let arp = ArpPacket::new_checked(payload).ok()?;
    Some(match arp.operation() {
        ArpOperation::Request => format!("ARP, Request who-has {} tell {}", arp.target_ipv4(), arp.sender_ipv4()),
        ArpOperation::Reply => format!("ARP, Reply {} is-at {}", arp.sender_ipv4(), mac(arp.sender_mac())),
    })
}

fn ipv4(payload: &[u8]) -> Option<String> {
    let ip = Ipv4Packet::new_checked(payload).ok()?;
    let ends = (ip.src().into(), ip.dst().into());
    if ip.fragment_offset() > 0 {
        return Some(fragment("IP", ends, ip.protocol(), ip.payload().len(), ip.fragment_offset()));
    }
    Some(transport("IP", ends, ip.protocol(), ip.payload()))
}

fn ipv6(payload: &[u8]) -> Option<String> {
    let ip = Ipv6Packet::new_checked(payload).ok()?;
    let ends = (ip.src().into(), ip.dst().into());
    let upper = ip.upper_layer().ok()?;
    Some(match upper.fragment.filter(|fragment| fragment.offset > 0) {
        Some(part) => fragment("IP6", ends, upper.protocol, upper.payload.len(), part.offset),
        None => transport("IP6", ends, upper.protocol, upper.payload),
    })
}

fn fragment(ip: &str, (from, to): (IpAddr, IpAddr), protocol: u8, length: usize, offset: u16) -> String {
    let at = u32::from(offset) * 8;
    format!("{ip} {from} > {to}: {} fragment at {at}, length {length}", protocol_name(protocol))
}

pub fn protocol_name(number: u8) -> Cow<'static, str> {
    match number {
        protocol::TCP => "TCP".into(),
        protocol::UDP => "UDP".into(),
        protocol::ICMP => "ICMP".into(),
        protocol::ICMPV6 => "ICMP6".into(),
        89 => "OSPF".into(),
        other => format!("protocol {other}").into(),
    }
}

fn transport(ip: &str, (from, to): (IpAddr, IpAddr), number: u8, payload: &[u8]) -> String {
    let text = match number {
        protocol::TCP => TcpPacket::new_checked(payload).ok().map(|segment| {
            let (source, destination) = (segment.src_port(), segment.dst_port());
            format!("{ip} {from}.{source} > {to}.{destination}: {}", tcp(&segment))
        }),
        protocol::UDP => <[u8; 8]>::try_from(payload.get(..8).unwrap_or_default()).ok().map(|header| {
            let [source, destination] = [0, 2].map(|at| u16::from_be_bytes([header[at], header[at + 1]]));
            // Of the first fragment of a datagram it says the length of all of it.
            let length = UdpPacket::new_checked(payload).map_or(payload.len() - 8, |udp| udp.payload().len());
            format!("{ip} {from}.{source} > {to}.{destination}: UDP, length {length}")
        }),
        protocol::ICMP => icmp(payload, (8, 0)).map(|text| format!("{ip} {from} > {to}: ICMP {text}")),
        protocol::ICMPV6 => {
            let text = neighbour(payload).or_else(|| icmp(payload, (128, 129)));
            text.map(|text| format!("{ip} {from} > {to}: ICMP6, {text}"))
        }
        _ => None,
    };
    text.unwrap_or_else(|| format!("{ip} {from} > {to}: {}, length {}", protocol_name(number), payload.len()))
}

fn tcp(segment: &TcpPacket<'_>) -> String {
    let flags: String =
        FLAGS.iter().filter(|(flag, _)| segment.flags() & flag != 0).map(|(_, letter)| letter).collect();
    let flags = if flags.is_empty() { "none" } else { &flags };
    let (seq, length) = (segment.seq(), segment.payload().len());
    let mut text = format!("Flags [{flags}]");
    // Writing to a string does not fail.
    let _ = if length > 0 {
        write!(text, ", seq {seq}:{}", seq.wrapping_add(length as u32))
    } else if segment.flags() & (tcp_flags::SYN | tcp_flags::FIN | tcp_flags::RST) != 0 {
        write!(text, ", seq {seq}")
    } else {
        Ok(())
    };
    if segment.flags() & tcp_flags::ACK != 0 {
        let _ = write!(text, ", ack {}", segment.ack());
    }
    let _ = write!(text, ", win {}, length {length}", segment.window());
    text
}

/// A message of ICMP; types of echo requests and replies differ between its versions.
fn icmp(payload: &[u8], (request, reply): (u8, u8)) -> Option<String> {
    let &[kind, code, ..] = payload.first_chunk::<4>()?;
    let length = payload.len();
    if kind != request && kind != reply {
        return Some(format!("type {kind}, code {code}, length {length}"));
    }
    let &[_, _, _, _, a, b, c, d] = payload.first_chunk::<8>()?;
    let (id, seq) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    let name = if kind == request { "request" } else { "reply" };
    Some(format!("echo {name}, id {id}, seq {seq}, length {length}"))
}

fn neighbour(payload: &[u8]) -> Option<String> {
    let message = NeighbourPacket::new_checked(payload).ok()?;
    let length = payload.len();
    Some(if message.is_solicitation() {
        format!("neighbor solicitation, who has {}, length {length}", message.target())
    } else {
        format!("neighbor advertisement, tgt is {}, length {length}", message.target())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACS: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

    fn frame(kind: u16, payload: &[u8]) -> Vec<u8> {
        [&MACS, &kind.to_be_bytes()[..], payload].concat()
    }

    fn ipv4_frame(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let length = (20 + payload.len()) as u16;
        let mut header = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        header[2..4].copy_from_slice(&length.to_be_bytes());
        frame(ethertype::IPV4, &[&header, payload].concat())
    }

    fn line(frame: &[u8]) -> String {
        summary(frame, frame.len() as u32)
    }

    #[test]
    fn frames_read_as_in_tcpdump() {
        let mut ping = vec![8, 0, 0, 0, 0, 7, 0, 2];
        ping.extend([0; 56]);
        assert_eq!(line(&ipv4_frame(1, &ping)), "IP 10.0.0.1 > 10.0.0.2: ICMP echo request, id 7, seq 2, length 64");
        ping[0] = 0;
        assert_eq!(line(&ipv4_frame(1, &ping)), "IP 10.0.0.1 > 10.0.0.2: ICMP echo reply, id 7, seq 2, length 64");
        ping[..2].copy_from_slice(&[3, 1]);
        assert_eq!(line(&ipv4_frame(1, &ping)), "IP 10.0.0.1 > 10.0.0.2: ICMP type 3, code 1, length 64");
        let udp = [0x9c, 0x40, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4];
        assert_eq!(line(&ipv4_frame(17, &udp)), "IP 10.0.0.1.40000 > 10.0.0.2.53: UDP, length 4");
        let mut tcp = vec![0x9c, 0x40, 0, 80, 0, 0, 0, 100, 0, 0, 0, 9, 0x50, 0x18, 1, 0, 0, 0, 0, 0];
        tcp.extend([1; 5]);
        let expected = "IP 10.0.0.1.40000 > 10.0.0.2.80: Flags [P.], seq 100:105, ack 9, win 256, length 5";
        assert_eq!(line(&ipv4_frame(6, &tcp)), expected);
        tcp[13] = 2;
        let syn = "IP 10.0.0.1.40000 > 10.0.0.2.80: Flags [S], seq 100, win 256, length 0";
        assert_eq!(line(&ipv4_frame(6, &tcp[..20])), syn);
        // Cut short by the capture.
        let cut = ipv4_frame(6, &tcp);
        assert!(summary(&cut[..60.min(cut.len() - 5)], cut.len() as u32).ends_with("length 5"));
        assert_eq!(summary(&cut[..3], 3), "cut off, length 3");
        assert_eq!(line(&ipv4_frame(89, &[0; 10])), "IP 10.0.0.1 > 10.0.0.2: OSPF, length 10");
    }

    #[test]
    fn what_is_not_ip_is_named_as_well() {
        let arp = [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];
        assert_eq!(line(&frame(ethertype::ARP, &arp)), "ARP, Request who-has 10.0.0.2 tell 10.0.0.1, length 28");
        let mut reply = arp;
        reply[7] = 2;
        assert_eq!(line(&frame(ethertype::ARP, &reply)), "ARP, Reply 10.0.0.1 is-at 02:00:00:00:00:01, length 28");
        let expected = "02:00:00:00:00:01 > 02:00:00:00:00:02, ethertype 0x88b5, length 4";
        assert_eq!(line(&frame(0x88b5, &[0; 4])), expected);
        assert_eq!(line(&frame(ethertype::LLDP, &[0; 4])), "LLDP, length 4");
        let tagged = frame(ethertype::VLAN, &[&[0x20, 5, 8, 6], &arp[..]].concat());
        assert_eq!(line(&tagged), "vlan 5, p 1, ARP, Request who-has 10.0.0.2 tell 10.0.0.1, length 28");
    }

    #[test]
    fn times_have_microseconds() {
        assert_eq!(time_of_day(86_400_000_000_000 * 20_000 + 3_723_000_045_678), "01:02:03.000045");
    }
}
