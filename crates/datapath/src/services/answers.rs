//! What a service says itself: that nobody serves a connection, that somebody is there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::{
    EthernetPacket, EthernetRepr, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, Pseudo, TcpPacket, TcpRepr, UdpPacket,
    UdpRepr, checksum, ethertype, protocol, tcp_flags,
};

/// The longest frame that is answered by one like it.
const ECHO_MAX: usize = 9_018;

/// Who sent an IP packet to whom, and what is in it.
pub(super) struct Sent<'a> {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub protocol: u8,
    pub payload: &'a [u8],
}

/// Reads a frame. `None` for a fragment, for what is malformed, and for no IP packet.
pub(super) fn read<'a>(ethernet: &EthernetPacket<'a>) -> Option<Sent<'a>> {
    match ethernet.ethertype() {
        ethertype::IPV4 => {
            let ip = Ipv4Packet::new_checked(ethernet.payload()).ok().filter(|ip| !ip.is_fragment())?;
            Some(Sent { src: ip.src().into(), dst: ip.dst().into(), protocol: ip.protocol(), payload: ip.payload() })
        }
        ethertype::IPV6 => {
            let ip = Ipv6Packet::new_checked(ethernet.payload()).ok()?;
            let upper = ip.upper_layer().ok().filter(|upper| upper.fragment.is_none())?;
            let (src, dst) = (ip.src().into(), ip.dst().into());
            Some(Sent { src, dst, protocol: upper.protocol, payload: upper.payload })
        }
        _ => None,
    }
}

/// A segment that resets the connection of another one (RFC 9293, 3.10.7.1). `None` if that is no segment of TCP, or resets one itself.
fn reset(frame: &[u8]) -> Option<Vec<u8>> {
    let ethernet = EthernetPacket::new_checked(frame).ok()?;
    let sent = read(&ethernet).filter(|sent| sent.protocol == protocol::TCP)?;
    let segment = TcpPacket::new_checked(sent.payload).ok()?;
    let flags = segment.flags();
    if flags & tcp_flags::RST != 0 {
        return None;
    }
    let has = |flag: u8| u32::from(flags & flag != 0);
    let length = segment.payload().len() as u32 + has(tcp_flags::SYN) + has(tcp_flags::FIN);
    let (seq, ack, flags) = if flags & tcp_flags::ACK != 0 {
        (segment.ack(), 0, tcp_flags::RST)
    } else {
        (0, segment.seq().wrapping_add(length), tcp_flags::RST | tcp_flags::ACK)
    };
    let tcp = TcpRepr {
        src_port: segment.dst_port(),
        dst_port: segment.src_port(),
        seq,
        ack,
        flags,
        window: 0,
        urgent: 0,
        timestamps: None,
    };
    let mut payload = vec![0; tcp.buffer_len()];
    tcp.emit(&mut payload);
    TcpRepr::fill_checksum(&mut payload, &pseudo(&sent, protocol::TCP)?);
    Some(answer(&ethernet, &sent, &payload))
}

/// What the sender of a packet hears that nobody serves: a reset, or that the port cannot be reached (RFC 1122, 4.1.3.1; RFC 4443, 3.1). `None` if nothing is to be said.
pub(super) fn refusal(frame: &[u8]) -> Option<Vec<u8>> {
    /// Of the packet that an error is about: its header, and so much behind it.
    const QUOTED: usize = 8;
    if let Some(reset) = reset(frame) {
        return Some(reset);
    }
    let ethernet = EthernetPacket::new_checked(frame).ok()?;
    let sent = read(&ethernet).filter(|sent| sent.protocol == protocol::UDP)?;
    let packet = ethernet.payload();
    let header = packet.len().checked_sub(sent.payload.len()).filter(|header| *header < 256)?;
    let quoted = packet.get(..(header + QUOTED).min(packet.len()))?;
    let about = match sent.src {
        IpAddr::V4(_) => (3, 3),
        IpAddr::V6(_) => (1, 4),
    };
    Some(error(&ethernet, &sent, (about, 0), quoted))
}

/// What the sender of a packet hears that is longer than this on its way (RFC 1191, 4; RFC 4443, 3.2). `None` if nothing is to be said.
pub(super) fn too_big(frame: &[u8], fits: u32) -> Option<Vec<u8>> {
    /// So long may an error be (RFC 1812, 4.3.2.3; RFC 4443, 2.4).
    const LENGTHS: (usize, usize) = (576 - 20 - 8, 1_280 - 40 - 8);
    let ethernet = EthernetPacket::new_checked(frame).ok()?;
    let sent = read(&ethernet)?;
    let (about, length) = match sent.src {
        IpAddr::V4(_) => ((3, 4), LENGTHS.0),
        IpAddr::V6(_) => ((2, 0), LENGTHS.1),
    };
    let packet = ethernet.payload();
    let quoted = &packet[..packet.len().min(length)];
    Some(error(&ethernet, &sent, (about, fits), quoted))
}

/// An ICMP error about a packet, of this type and code and with this in the rest of its header, which quotes so much of the packet (RFC 792; RFC 4443, 2.1).
fn error(
    ethernet: &EthernetPacket<'_>,
    sent: &Sent<'_>,
    ((kind, code), rest): ((u8, u8), u32),
    quoted: &[u8],
) -> Vec<u8> {
    let mut payload = vec![kind, code, 0, 0];
    payload.extend(rest.to_be_bytes());
    payload.extend(quoted);
    let protocol = match sent.src {
        IpAddr::V4(_) => protocol::ICMP,
        IpAddr::V6(_) => protocol::ICMPV6,
    };
    answer_by_icmp(ethernet, &Sent { protocol, ..*sent }, payload)
}

/// A message of ICMP back to the sender of a packet, with its checksum.
fn answer_by_icmp(ethernet: &EthernetPacket<'_>, sent: &Sent<'_>, mut payload: Vec<u8>) -> Vec<u8> {
    payload[2..4].fill(0);
    let sum = match (sent.src, sent.dst) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            checksum::transport(&Pseudo::V6 { src: dst, dst: src, protocol: protocol::ICMPV6 }, &payload)
        }
        _ => checksum::internet(&payload),
    };
    payload[2..4].copy_from_slice(&sum.to_be_bytes());
    answer(ethernet, sent, &payload)
}

/// The answer to an echo request (RFC 792, RFC 4443). `None` if it is none, or too long.
pub(super) fn echo(frame: &[u8]) -> Option<Vec<u8>> {
    let ethernet = EthernetPacket::new_checked(frame).ok().filter(|_| frame.len() <= ECHO_MAX)?;
    let sent = read(&ethernet)?;
    let (request, reply) = match sent.src {
        IpAddr::V4(_) => (8, 0),
        IpAddr::V6(_) => (128, 129),
    };
    if sent.payload.len() < 8 || sent.payload[0] != request {
        return None;
    }
    let mut payload = sent.payload.to_vec();
    payload[0] = reply;
    Some(answer_by_icmp(&ethernet, &sent, payload))
}

/// What somebody asks a name server, and from where.
pub(super) struct NameQuestion<'a> {
    pub from: IpAddr,
    pub message: &'a [u8],
}

/// The port of name servers.
const DOMAIN: u16 = 53;

/// Bytes of a datagram's header.
pub(super) const UDP_HEADER: usize = 8;

/// Reads a frame that came to a name server's address, whose checksums are right. `None` if it is no datagram for it.
pub(super) fn question(frame: &[u8]) -> Option<NameQuestion<'_>> {
    let ethernet = EthernetPacket::new_checked(frame).ok()?;
    let sent = read(&ethernet).filter(|sent| sent.protocol == protocol::UDP)?;
    let datagram = UdpPacket::new_checked(sent.payload).ok().filter(|datagram| datagram.dst_port() == DOMAIN)?;
    Some(NameQuestion { from: sent.src, message: datagram.payload() })
}

/// The datagram that answers another one with this.
pub(super) fn reply(frame: &[u8], message: &[u8]) -> Option<Vec<u8>> {
    let ethernet = EthernetPacket::new_checked(frame).ok()?;
    let sent = read(&ethernet)?;
    let datagram = UdpPacket::new_checked(sent.payload).ok()?;
    let udp = UdpRepr {
        src_port: datagram.dst_port(),
        dst_port: datagram.src_port(),
        payload_len: u16::try_from(message.len()).ok()?,
    };
    let mut payload = vec![0; udp.buffer_len()];
    udp.emit(&mut payload);
    payload.extend(message);
    UdpRepr::fill_checksum(&mut payload, &pseudo(&sent, protocol::UDP)?);
    Some(answer(&ethernet, &sent, &payload))
}

/// What checksums of a protocol cover besides, in an answer.
pub(super) const fn pseudo(sent: &Sent<'_>, protocol: u8) -> Option<Pseudo> {
    match (sent.src, sent.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Some(Pseudo::V4 { src: dst, dst: src, protocol }),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Some(Pseudo::V6 { src: dst, dst: src, protocol }),
        _ => None,
    }
}

/// A frame back to the sender of another one.
fn answer(ethernet: &EthernetPacket<'_>, sent: &Sent<'_>, payload: &[u8]) -> Vec<u8> {
    let outer = EthernetRepr {
        dst: ethernet.src(),
        src: ethernet.dst(),
        vlan: ethernet.vlan(),
        ethertype: ethernet.ethertype(),
    };
    let ip = match (sent.src, sent.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => ipv4(dst, src, sent.protocol, payload.len()),
        (IpAddr::V6(src), IpAddr::V6(dst)) => ipv6(dst, src, sent.protocol, payload.len()),
        _ => Vec::new(),
    };
    let mut frame = vec![0; outer.buffer_len()];
    outer.emit(&mut frame);
    frame.extend(ip);
    frame.extend(payload);
    frame
}

fn ipv4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, length: usize) -> Vec<u8> {
    let ip = Ipv4Repr::new(src, dst, protocol, length as u16);
    let mut header = vec![0; ip.buffer_len()];
    ip.emit(&mut header);
    header
}

fn ipv6(src: Ipv6Addr, dst: Ipv6Addr, next_header: u8, length: usize) -> Vec<u8> {
    let ip = Ipv6Repr::new(src, dst, next_header, length as u16);
    let mut header = vec![0; ip.buffer_len()];
    ip.emit(&mut header);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram between these two, with its checksum.
    fn datagram(src: IpAddr, dst: IpAddr, port: u16, message: &[u8]) -> Vec<u8> {
        let mut payload = vec![0; UDP_HEADER];
        UdpRepr { src_port: 4_000, dst_port: port, payload_len: message.len() as u16 }.emit(&mut payload);
        payload.extend(message);
        let outer = EthernetRepr {
            dst: [6; 6],
            src: [2; 6],
            vlan: None,
            ethertype: if src.is_ipv4() { ethertype::IPV4 } else { ethertype::IPV6 },
        };
        // An answer goes the other way.
        let sent = Sent { src: dst, dst: src, protocol: protocol::UDP, payload: &[] };
        UdpRepr::fill_checksum(&mut payload, &pseudo(&sent, protocol::UDP).expect("one family"));
        let mut bytes = [0; 14];
        EthernetRepr { dst: outer.src, src: outer.dst, ..outer }.emit(&mut bytes);
        answer(&EthernetPacket::new_checked(&bytes).expect("a header"), &sent, &payload)
    }

    #[test]
    fn questions_to_name_servers_are_whole_datagrams_and_answers_go_back() {
        let ends: [(IpAddr, IpAddr); 2] = [
            (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 53).into()),
            (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::from_bits(53).into()),
        ];
        for (client, server) in ends {
            let frame = datagram(client, server, DOMAIN, b"what?");
            let read = question(&frame).expect("a question");
            assert_eq!((read.from, read.message), (client, &b"what?"[..]));
            let back = reply(&frame, b"that").expect("an answer");
            let ethernet = EthernetPacket::new_checked(&back).expect("a frame");
            let sent = super::read(&ethernet).expect("a packet");
            let answered = UdpPacket::new_checked(sent.payload).expect("a datagram");
            assert_eq!((ethernet.src(), ethernet.dst(), sent.src, sent.dst), ([6; 6], [2; 6], server, client));
            assert_eq!((answered.src_port(), answered.dst_port(), answered.payload()), (DOMAIN, 4_000, &b"that"[..]));
            assert_eq!(checksum::transport(&pseudo(&sent, protocol::UDP).expect("one family"), sent.payload), 0);
            assert!(question(&datagram(client, server, 54, b"what?")).is_none());
        }
    }
}
