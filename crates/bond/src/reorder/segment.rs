//! What order by TCP's numbers has to know of a frame.

use std::net::Ipv6Addr;

use machine::mix;
use wire::{EthernetPacket, Ipv4Packet, Ipv6Packet, TcpPacket, ethertype, protocol};

/// Kinds of TCP options (RFC 9293, section 3.1; RFC 2018, section 3).
const END: u8 = 0;
const NOP: u8 = 1;
const SACK: u8 = 5;

/// What has to be known of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// One direction of one connection: a hash of addresses and ports, in their order.
    pub flow: u64,
    /// The header's sequence number.
    pub seq: u32,
    /// Bytes of payload.
    pub payload_len: u32,
    /// The header's control bits, see [`wire::tcp_flags`].
    pub flags: u8,
    /// Whether there is a SACK option (RFC 2018, section 3).
    pub has_sack: bool,
}

impl Segment {
    /// Reads an Ethernet frame, with one 802.1Q tag or none. `None` for what is not TCP over IP, for fragments, and for what is
    /// malformed. Checksums are not looked at: with offloads they are filled in later. `seed` is for the hash of the flow.
    pub fn of(frame: &[u8], seed: u64) -> Option<Self> {
        let ethernet = EthernetPacket::new_checked(frame).ok()?;
        let vlan = u64::from(ethernet.vlan().unwrap_or(0) & VLAN_IDENTIFIER);
        let (addresses, payload) = match ethernet.ethertype() {
            ethertype::IPV4 => {
                let ip = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
                if ip.protocol() != protocol::TCP || ip.is_fragment() {
                    return None;
                }
                let both = u64::from(ip.src().to_bits()) << 32 | u64::from(ip.dst().to_bits());
                (mix(seed ^ both), ip.payload())
            }
            ethertype::IPV6 => {
                let ip = Ipv6Packet::new_checked(ethernet.payload()).ok()?;
                let upper = ip.upper_layer().ok()?;
                if upper.protocol != protocol::TCP || upper.fragment.is_some() {
                    return None;
                }
                (fold(fold(seed, ip.src()), ip.dst()), upper.payload)
            }
            _ => return None,
        };
        let tcp = TcpPacket::new_checked(payload).ok()?;
        let ports = u64::from(tcp.src_port()) << 16 | u64::from(tcp.dst_port());
        Some(Self {
            flow: mix(addresses ^ (vlan << 32 | ports)),
            seq: tcp.seq(),
            payload_len: tcp.payload().len() as u32,
            flags: tcp.flags(),
            has_sack: has_sack(tcp.options()),
        })
    }
}

/// Of a tag's control information, which VLAN it is.
const VLAN_IDENTIFIER: u16 = 0x0fff;

fn fold(hash: u64, address: Ipv6Addr) -> u64 {
    let bits = address.to_bits();
    mix(mix(hash ^ (bits >> 64) as u64) ^ bits as u64)
}

/// Whether a SACK option is among these; whatever follows a malformed one is not looked at.
fn has_sack(mut options: &[u8]) -> bool {
    while let &[kind, ref rest @ ..] = options {
        match (kind, rest.first()) {
            (SACK, _) => return true,
            (NOP, _) => options = rest,
            (END, _) | (_, None) => return false,
            (_, Some(&len)) => match options.get(usize::from(len.max(2))..) {
                Some(rest) => options = rest,
                None => return false,
            },
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::tcp_flags::ACK;

    use super::*;

    /// A frame with a TCP segment of 4 bytes of payload and these options, tagged or not.
    fn frame(version: u8, vlan: Option<u16>, options: &[u8]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1];
        if let Some(vlan) = vlan {
            frame.extend([&0x8100_u16.to_be_bytes()[..], &vlan.to_be_bytes()].concat());
        }
        let len = (20 + options.len() + 4) as u16;
        if version == 4 {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + len).to_be_bytes());
            frame.extend([0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        } else {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(len.to_be_bytes());
            frame.extend([6, 64]);
            frame.extend([[0xfd; 16], [0xfe; 16]].concat());
        }
        frame.extend([0x9c, 0x40, 0x14, 0x51, 0, 0, 1, 2, 0, 0, 0, 0]);
        frame.extend([((20 + options.len()) / 4 * 16) as u8, ACK, 1, 0, 0, 0, 0, 0]);
        frame.extend(options);
        frame.extend([1, 2, 3, 4]);
        // Padding is not payload.
        frame.extend([0; 6]);
        frame
    }

    #[test]
    fn segments_are_read() {
        for version in [4, 6] {
            for vlan in [None, Some(5)] {
                let segment = Segment::of(&frame(version, vlan, &[]), 1).unwrap();
                assert_eq!((segment.seq, segment.payload_len, segment.flags), (0x102, 4, ACK), "{version} {vlan:?}");
                assert!(!segment.has_sack);
                let sack = [1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2];
                assert!(Segment::of(&frame(version, vlan, &sack), 1).unwrap().has_sack);
                // A timestamps option whose value has the kind's number in it.
                let times = [1, 1, 8, 10, 5, 5, 5, 5, 5, 5, 5, 5];
                assert!(!Segment::of(&frame(version, vlan, &times), 1).unwrap().has_sack);
            }
        }
    }

    #[test]
    fn flows_are_distinguished() {
        let flow = |frame: &[u8], seed| Segment::of(frame, seed).unwrap().flow;
        let plain = frame(4, None, &[]);
        let mut other = plain.clone();
        other[37] ^= 1;
        let mut back = plain.clone();
        back[26..34].rotate_left(4);
        let flows =
            [flow(&plain, 1), flow(&other, 1), flow(&back, 1), flow(&frame(4, Some(5), &[]), 1), flow(&plain, 2)];
        for (at, one) in flows.iter().enumerate() {
            assert!(!flows[..at].contains(one));
        }
        // Priority is no part of a flow.
        assert_eq!(flow(&frame(6, Some(5), &[]), 1), flow(&frame(6, Some(0xe005), &[]), 1));
    }

    #[test]
    fn what_is_not_a_whole_segment_is_none() {
        let mut udp = frame(4, None, &[]);
        udp[23] = 17;
        assert_eq!(Segment::of(&udp, 0), None);
        let mut fragment = frame(4, None, &[]);
        fragment[20] = 0x20;
        assert_eq!(Segment::of(&fragment, 0), None);
        let whole = frame(6, None, &[]);
        for len in 0..whole.len() - 6 {
            assert_eq!(Segment::of(&whole[..len], 0), None, "{len}");
        }
    }

    proptest! {
        #[test]
        fn any_options_are_read(options in proptest::collection::vec(any::<u8>(), 0..41)) {
            // The reference looks at each place where an option starts.
            let mut at = 0;
            let mut expected = false;
            while at < options.len() && options[at] != END {
                if options[at] == SACK {
                    expected = true;
                    break;
                }
                at += match options[at] {
                    NOP => 1,
                    _ => options.get(at + 1).map_or(usize::MAX / 2, |&len| usize::from(len).max(2)),
                };
            }
            prop_assert_eq!(has_sack(&options), expected);
        }

        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..120), at in 0_usize..100) {
            let mut frame = frame(4, None, &[1; 4]);
            for (place, byte) in frame.iter_mut().skip(at).zip(&bytes) {
                *place = *byte;
            }
            for bytes in [&frame, &bytes] {
                if let Some(segment) = Segment::of(bytes, 7) {
                    prop_assert!((segment.payload_len as usize) < bytes.len());
                }
            }
        }
    }
}
