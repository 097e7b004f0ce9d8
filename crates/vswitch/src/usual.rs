//! The headers that almost every packet has: Ethernet without a tag, IPv4 without options or fragments, TCP or UDP.
//!
//! They stand at fixed places, so that few loads read all of them, and what is made of them stays in registers. Field by field, as any packet can be read, takes several times as long.

use wire::{ethertype, protocol};

/// Of Ethernet's header, and of IPv4's without options: bytes.
const ETHERNET: usize = 14;
const IPV4: usize = 20;
/// Bytes of Ethernet's header, IPv4's, and both ports.
const LENGTH: usize = ETHERNET + IPV4 + 4;
/// IPv4's ethertype, its version, and the length of a header without options.
const KIND: u64 = (ethertype::IPV4 as u64) << 8 | 0x45;
/// Of the flags and the offset of IPv4: more fragments follow, or others came before.
const FRAGMENTED: u64 = 0x3fff;

/// What is in such headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsualHeaders<'a> {
    /// Destination MAC address: a number below 2^48.
    pub eth_dst: u64,
    /// Source MAC address, likewise.
    pub eth_src: u64,
    /// Source IPv4 address.
    pub src: u32,
    /// Destination IPv4 address.
    pub dst: u32,
    /// TCP or UDP.
    pub protocol: u8,
    /// Type of service.
    pub tos: u8,
    /// Time to live.
    pub ttl: u8,
    /// The source port in the upper half.
    pub ports: u32,
    /// The datagram or segment.
    pub upper: &'a [u8],
}

impl<'a> UsualHeaders<'a> {
    /// Reads a frame; `None` of any other one, be it well formed or not.
    #[inline]
    pub fn read(frame: &'a [u8]) -> Option<Self> {
        let head = frame.first_chunk::<LENGTH>()?;
        // Places are known when it is compiled.
        let word = |at: usize| u64::from_be_bytes(*head[at..].first_chunk().expect("it is within the headers"));
        let (eth_dst, eth_src, kind, place, ends) = (word(0), word(6), word(12), word(20), word(26));
        let (total_len, protocol) = ((kind >> 16 & 0xffff) as usize, (place >> 32) as u8);
        let is_usual = kind >> 40 == KIND
            && place >> 48 & FRAGMENTED == 0
            && matches!(protocol, protocol::TCP | protocol::UDP)
            && total_len >= LENGTH - ETHERNET;
        let upper = frame.get(ETHERNET + IPV4..ETHERNET + total_len.max(IPV4)).filter(|_| is_usual)?;
        Some(Self {
            eth_dst: eth_dst >> 16,
            eth_src: eth_src >> 16,
            src: (ends >> 32) as u32,
            dst: ends as u32,
            protocol,
            tos: (kind >> 32) as u8,
            ttl: (place >> 40) as u8,
            ports: u32::from_be_bytes([head[34], head[35], head[36], head[37]]),
            upper,
        })
    }

    /// Whether it is for a group of stations.
    #[inline]
    pub const fn is_for_group(&self) -> bool {
        self.eth_dst >> 40 & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{address, ipv4_udp, tcp};

    #[test]
    fn segments_and_datagrams_are_usual_and_fragments_are_not() {
        let (a, b) = (address(1), address(2));
        let segment = tcp(&a, &b, 1, 2, 10);
        let headers = UsualHeaders::read(&segment).unwrap();
        assert_eq!((headers.ports, headers.upper.len()), (0x1_0002, 42));
        assert!(UsualHeaders::read(&ipv4_udp(&a, &b, (1, 2), 64, (0, false))).is_some());
        assert_eq!(UsualHeaders::read(&ipv4_udp(&a, &b, (1, 2), 64, (0, true))), None);
        assert_eq!(UsualHeaders::read(&segment[..segment.len() - 1]), None, "it is cut off");
    }
}
