//! Frames of TCP without payload, as connections to a service have them.

use std::net::IpAddr;

use vswitch::FlowKey;
use vswitch::spread::FlowHash;
use wire::{
    EthernetPacket, EthernetRepr, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, Pseudo, TcpPacket, TcpRepr, checksum,
    ethertype, protocol,
};

/// An Ethernet header, and the longer of the two IP headers, and one of TCP.
const BYTES_MAX: usize = 14 + 40 + 20;
/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) mac: [u8; 6],
    pub(super) ip: IpAddr,
    pub(super) port: u16,
}

/// A frame as it is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    bytes: [u8; BYTES_MAX],
    length: usize,
}

impl Frame {
    /// From one end to another. `numbers`: its own, and that of the byte that its sender waits for.
    ///
    /// # Panics
    /// If they are of different families.
    pub(super) fn new(from: &Endpoint, to: &Endpoint, flags: u8, (seq, ack): (u32, u32)) -> Self {
        let mut frame = Self { bytes: [0; BYTES_MAX], length: 0 };
        let tcp =
            TcpRepr { src_port: from.port, dst_port: to.port, seq, ack, flags, window: 0, urgent: 0, timestamps: None };
        let payload_len = tcp.buffer_len() as u16;
        let ethernet = |ethertype| EthernetRepr { dst: to.mac, src: from.mac, vlan: None, ethertype };
        let at = match (from.ip, to.ip) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let ethernet = ethernet(ethertype::IPV4);
                ethernet.emit(&mut frame.bytes);
                let ip = Ipv4Repr::new(src, dst, protocol::TCP, payload_len);
                ip.emit(&mut frame.bytes[ethernet.buffer_len()..]);
                ethernet.buffer_len() + ip.buffer_len()
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let ethernet = ethernet(ethertype::IPV6);
                ethernet.emit(&mut frame.bytes);
                let ip = Ipv6Repr::new(src, dst, protocol::TCP, payload_len);
                ip.emit(&mut frame.bytes[ethernet.buffer_len()..]);
                ethernet.buffer_len() + ip.buffer_len()
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => {
                unreachable!("a connection is of one family")
            }
        };
        tcp.emit(&mut frame.bytes[at..]);
        frame.length = at + tcp.buffer_len();
        frame
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// By what its packets are spread.
    pub(super) fn hash(&self) -> FlowHash {
        FlowKey::parse(self.bytes()).expect("it is a whole frame").hash()
    }
}

/// What a host looks at of a frame that has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Headers {
    /// The address that it was sent to.
    pub(super) mac: [u8; 6],
    pub(super) src: (IpAddr, u16),
    pub(super) dst: (IpAddr, u16),
    pub(super) flags: u8,
    /// Its number: 0 of what hosts send.
    pub(super) seq: u32,
}

impl Headers {
    /// `None`: it is none of TCP.
    pub(super) fn parse(frame: &[u8]) -> Option<Self> {
        let ethernet = EthernetPacket::new_checked(frame).ok()?;
        let (src, dst, payload): (IpAddr, IpAddr, &[u8]) = match ethernet.ethertype() {
            ethertype::IPV4 => {
                let ip = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
                (ip.protocol() == protocol::TCP).then(|| (ip.src().into(), ip.dst().into(), ip.payload()))?
            }
            ethertype::IPV6 => {
                let ip = Ipv6Packet::new_checked(ethernet.payload()).ok()?;
                let upper = ip.upper_layer().ok().filter(|upper| upper.protocol == protocol::TCP)?;
                (ip.src().into(), ip.dst().into(), upper.payload)
            }
            _ => return None,
        };
        let tcp = TcpPacket::new_checked(payload).ok()?;
        let (src, dst) = ((src, tcp.src_port()), (dst, tcp.dst_port()));
        Some(Self { mac: ethernet.dst(), src, dst, flags: tcp.flags(), seq: tcp.seq() })
    }
}

/// Whether a frame has a segment of TCP with its checksum: what services send by themselves has one, and what hosts send has none.
pub(super) fn is_summed(frame: &[u8]) -> bool {
    let Ok(ethernet) = EthernetPacket::new_checked(frame) else { return false };
    match ethernet.ethertype() {
        ethertype::IPV4 => Ipv4Packet::new_checked(ethernet.payload()).is_ok_and(|ip| {
            let pseudo = Pseudo::V4 { src: ip.src(), dst: ip.dst(), protocol: ip.protocol() };
            checksum::transport(&pseudo, ip.payload()) == 0
        }),
        ethertype::IPV6 => Ipv6Packet::new_checked(ethernet.payload()).is_ok_and(|ip| {
            let pseudo = |protocol| Pseudo::V6 { src: ip.src(), dst: ip.dst(), protocol };
            ip.upper_layer().is_ok_and(|upper| checksum::transport(&pseudo(upper.protocol), upper.payload) == 0)
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_read() {
        for (a, b) in [("10.0.0.1", "10.1.0.80"), ("fd68:6564:646c::1", "fd68:6564:646c::80")] {
            let [a, b] = [(a, 40_000), (b, 80)].map(|(ip, port)| Endpoint {
                mac: [port as u8; 6],
                ip: ip.parse().unwrap(),
                port,
            });
            let frame = Frame::new(&a, &b, wire::tcp_flags::SYN, (7, 8));
            let read = Headers::parse(frame.bytes()).expect("it is of TCP");
            assert_eq!((read.src, read.dst, read.mac), ((a.ip, a.port), (b.ip, b.port), b.mac));
            assert_eq!((read.flags, read.seq), (wire::tcp_flags::SYN, 7));
            assert!(Headers::parse(&frame.bytes()[..30]).is_none());
            // A bit that is wrong, wherever a receiver looks at it, makes its sum wrong.
            assert!(!is_summed(frame.bytes()));
            let pseudo = match (a.ip, b.ip) {
                (IpAddr::V4(src), IpAddr::V4(dst)) => Pseudo::V4 { src, dst, protocol: protocol::TCP },
                (IpAddr::V6(src), IpAddr::V6(dst)) => Pseudo::V6 { src, dst, protocol: protocol::TCP },
                _ => unreachable!("they are of one family"),
            };
            let mut summed = frame.bytes().to_vec();
            let at = summed.len() - 20;
            TcpRepr::fill_checksum(&mut summed[at..], &pseudo);
            assert!(is_summed(&summed));
            for bit in at * 8..summed.len() * 8 {
                summed[bit / 8] ^= 1 << (bit % 8);
                assert!(!is_summed(&summed), "{bit}");
                summed[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
}
