//! What a sender has left to its device, as far as the frame itself shows it.

use crate::{ChecksumRequest, EthernetPacket, Ipv4Packet, Ipv6Packet, Pseudo, checksum, ethertype, protocol};

/// The checksum of TCP or UDP that the sender of a frame has left to its device: the field holds the sum of the pseudo-header and nothing else. `None` for all
/// other frames, fragments and malformed ones among them.
///
/// A veth pair hands frames over like that (`CHECKSUM_PARTIAL`), and `AF_XDP` has no place to say so. One complete checksum of 65,535 has that value as well; to
/// complete it once more does not change it, so no right frame is spoilt.
#[inline]
pub fn undone_checksum(frame: &[u8]) -> Option<ChecksumRequest> {
    let ethernet = EthernetPacket::new_checked(frame).ok()?;
    let (pseudo, segment) = match ethernet.ethertype() {
        ethertype::IPV4 => {
            let packet = Ipv4Packet::new_checked(ethernet.payload()).ok().filter(|packet| !packet.is_fragment())?;
            let pseudo = Pseudo::V4 { src: packet.src(), dst: packet.dst(), protocol: packet.protocol() };
            (pseudo, packet.payload())
        }
        ethertype::IPV6 => {
            let packet = Ipv6Packet::new_checked(ethernet.payload()).ok()?;
            let upper = packet.upper_layer().ok().filter(|upper| upper.fragment.is_none())?;
            (Pseudo::V6 { src: packet.src(), dst: packet.dst(), protocol: upper.protocol }, upper.payload)
        }
        _ => return None,
    };
    let offset = match pseudo {
        Pseudo::V4 { protocol: protocol::TCP, .. } | Pseudo::V6 { protocol: protocol::TCP, .. } => 16,
        Pseudo::V4 { protocol: protocol::UDP, .. } | Pseudo::V6 { protocol: protocol::UDP, .. } => 6,
        _ => return None,
    };
    let field = segment.get(offset..offset + 2)?.first_chunk().copied().map(u16::from_be_bytes)?;
    if field != checksum::pseudo_header(&pseudo, segment.len()) {
        return None;
    }
    // Where the segment begins: both are parts of one frame.
    let start = segment.as_ptr().addr() - frame.as_ptr().addr();
    Some(ChecksumRequest { start: start as u16, offset: offset as u16 })
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::EthernetRepr;
    use proptest::prelude::*;

    const PORTS: [u8; 4] = [0x9c, 0x40, 0x14, 0x51];

    /// A segment of this protocol between neighbours, its checksum field filled in by `field`, which is given the complete checksum's pseudo-header.
    fn frame(is_v4: bool, protocol: u8, payload: &[u8], field: impl FnOnce(&Pseudo, &[u8]) -> u16) -> Vec<u8> {
        let (at, header) = if protocol == protocol::TCP { (16, 20) } else { (6, 8) };
        let mut segment = [&PORTS[..], &vec![0; header - 4], payload].concat();
        if protocol == protocol::TCP {
            segment[12] = 0x50;
        } else {
            let len = segment.len() as u16;
            segment[4..6].copy_from_slice(&len.to_be_bytes());
        }
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let (src6, dst6) = (src.to_ipv6_mapped(), dst.to_ipv6_mapped());
        let pseudo =
            if is_v4 { Pseudo::V4 { src, dst, protocol } } else { Pseudo::V6 { src: src6, dst: dst6, protocol } };
        let sum = field(&pseudo, &segment);
        segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        let ethernet = EthernetRepr {
            dst: [2, 0, 0, 0, 0, 2],
            src: [2, 0, 0, 0, 0, 1],
            vlan: None,
            ethertype: if is_v4 { ethertype::IPV4 } else { ethertype::IPV6 },
        };
        let mut frame = vec![0; ethernet.buffer_len()];
        ethernet.emit(&mut frame);
        frame.extend(ip_header(
            if is_v4 { (src.into(), dst.into()) } else { (src6.into(), dst6.into()) },
            protocol,
            segment.len(),
        ));
        frame.extend(segment);
        frame
    }

    fn ip_header(ends: (IpAddr, IpAddr), protocol: u8, len: usize) -> Vec<u8> {
        let mut header = vec![0; if ends.0.is_ipv4() { 20 } else { 40 }];
        match ends {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                header[0] = 0x45;
                header[2..4].copy_from_slice(&(20 + len as u16).to_be_bytes());
                (header[8], header[9]) = (64, protocol);
                header[12..16].copy_from_slice(&src.octets());
                header[16..20].copy_from_slice(&dst.octets());
                let sum = checksum::internet(&header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                header[0] = 0x60;
                header[4..6].copy_from_slice(&(len as u16).to_be_bytes());
                (header[6], header[7]) = (protocol, 64);
                header[8..24].copy_from_slice(&src.octets());
                header[24..40].copy_from_slice(&dst.octets());
            }
            _ => unreachable!("one family"),
        }
        header
    }

    #[test]
    fn what_was_left_undone_is_found_and_what_is_complete_is_not() {
        for (is_v4, protocol) in [(true, 6), (true, 17), (false, 6), (false, 17)] {
            let (start, offset) = (if is_v4 { 34 } else { 54 }, if protocol == 6 { 16 } else { 6 });
            let undone =
                frame(is_v4, protocol, b"payload", |pseudo, segment| checksum::pseudo_header(pseudo, segment.len()));
            assert_eq!(undone_checksum(&undone), Some(ChecksumRequest { start, offset }));
            let complete = frame(is_v4, protocol, b"payload", checksum::transport);
            assert_eq!(undone_checksum(&complete), None);
            // What is cut off anywhere asks for nothing, or for a checksum that lies within it.
            for len in 0..undone.len() {
                assert_eq!(undone_checksum(&undone[..len]), None);
            }
        }
    }

    #[test]
    fn fragments_and_other_protocols_ask_for_nothing() {
        let undone = || frame(true, 17, b"payload", |pseudo, segment| checksum::pseudo_header(pseudo, segment.len()));
        let mut fragment = undone();
        fragment[20] = 0x20;
        let mut other = undone();
        other[23] = 132;
        for mut frame in [fragment, other] {
            frame[24..26].fill(0);
            let sum = checksum::internet(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            assert!(Ipv4Packet::new_checked(&frame[14..]).is_ok());
            assert_eq!(undone_checksum(&frame), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_looked_at(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), ip in 0_usize..2) {
            if let Some(place) = bytes.get_mut(12..15) {
                place.copy_from_slice(&[[8, 0, 0x45], [0x86, 0xdd, 0x60]][ip]);
            }
            if let Some(found) = undone_checksum(&bytes) {
                prop_assert!(usize::from(found.start + found.offset) + 2 <= bytes.len());
            }
        }
    }
}
