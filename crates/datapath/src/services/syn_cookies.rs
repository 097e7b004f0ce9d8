//! SYN cookies (Bernstein, 1996): who wants to connect while too many do is remembered by nobody until he has shown that he hears answers.
//!
//! ```text
//!   client                      service                                    server
//!     SYN, number c  ------------>  nothing is kept
//!     <--- SYN/ACK, number k = hash of both ends, c, the time, window 0
//!     ACK k + 1  ---------------->  is k one of ours? a server is chosen --- SYN, number c --->
//!                                   <------------------------- SYN/ACK, number s
//!     <--- ACK, its window          --------------------------------------------- ACK s + 1 --->
//!     data <---------------- the server's numbers plus k - s, the client's acknowledgements less k - s ------> data
//! ```
//!
//! Such a connection has neither selective acknowledgements nor scaled windows nor timestamps: there is no room for them in a cookie.

use std::net::IpAddr;

use machine::{Span, Time};
use vswitch::conntrack::Tuple;
use wire::{
    EthernetPacket, EthernetRepr, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, Pseudo, TcpPacket, TcpRepr, ethertype,
    protocol, tcp_flags,
};

/// The time that a cookie has counts in these.
const TICK: Span = Span::from_secs(64);
/// A cookie is good in the tick in which it was made, and in the next one.
pub(super) const GOOD_FOR: Span = Span::from_secs(2 * 64);

/// Maximum segment sizes that a cookie can have: it has room for three bits.
const SIZES: [u16; 8] = [216, 536, 1_024, 1_220, 1_360, 1_440, 1_460, 8_960];
/// What a client takes that says nothing (RFC 9293, 3.7.1).
const DEFAULT_SIZES: (u16, u16) = (536, 1_220);

/// Bits of a cookie that are a hash; above them stand three of the size and five of the time.
const HASH_BITS: u32 = 24;

/// What cookies are made with.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CookieKey([u64; 2]);

impl CookieKey {
    pub fn new(seed: u64) -> Self {
        Self([machine::mix(seed ^ 0x636f_6f6b_6965), machine::mix(seed ^ 0x006b_6579)])
    }

    fn hash(&self, tuple: &Tuple, first: u32, rest: u32) -> u32 {
        let Tuple { src, dst, src_port, dst_port, .. } = *tuple;
        let words = [
            (src >> 64) as u64,
            src as u64,
            (dst >> 64) as u64,
            dst as u64,
            u64::from(src_port) << 48 | u64::from(dst_port) << 32 | u64::from(first),
            u64::from(rest),
        ];
        machine::siphash::<2, 4>(self.0, &words, (words.len() as u64 * 8) << 56) as u32 & ((1 << HASH_BITS) - 1)
    }

    /// The number of the answer to a first segment with the number `first`, from a client that takes segments of `size`.
    pub fn make(&self, now: Time, tuple: &Tuple, (first, size): (u32, u16)) -> u32 {
        let index = SIZES.iter().rposition(|known| *known <= size).unwrap_or(0) as u32;
        let rest = tick(now) << 3 | index;
        // What is above eight bits is shifted out.
        rest << HASH_BITS | self.hash(tuple, first, rest)
    }

    /// The size that a cookie has which was made for this client; `None`: it is none, or too old.
    pub fn check(&self, now: Time, tuple: &Tuple, (first, cookie): (u32, u32)) -> Option<u16> {
        let (made, index) = (cookie >> HASH_BITS >> 3, cookie >> HASH_BITS & 7);
        let age = tick(now).wrapping_sub(made) & 0x1f;
        let rest = tick(now).wrapping_sub(age) << 3 | index;
        let is_good = age <= 1 && cookie & ((1 << HASH_BITS) - 1) == self.hash(tuple, first, rest);
        is_good.then(|| SIZES[index as usize])
    }
}

fn tick(now: Time) -> u32 {
    (now.as_ps() / TICK.as_ps()) as u32
}

/// What is known of a connection that began with a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Proxied {
    /// The cookie.
    pub cookie: u32,
    /// The number of the client's first segment.
    pub first: u32,
    /// The client's segments may be so long.
    pub size: u16,
    /// What the client's window was.
    pub window: u16,
    /// What its client sees of the server's numbers is so much more, modulo 2^32; `None`: the server has not answered.
    pub offset: Option<u32>,
}

/// The largest segment that whoever has sent this first segment takes.
pub(super) fn segment_size(frame: &[u8]) -> Option<u16> {
    let ethernet = EthernetPacket::new_checked(frame).ok()?;
    let (payload, default) = match ethernet.ethertype() {
        ethertype::IPV4 => (Ipv4Packet::new_checked(ethernet.payload()).ok()?.payload(), DEFAULT_SIZES.0),
        ethertype::IPV6 => {
            (Ipv6Packet::new_checked(ethernet.payload()).ok()?.upper_layer().ok()?.payload, DEFAULT_SIZES.1)
        }
        _ => return None,
    };
    let mut options = TcpPacket::new_checked(payload).ok()?.options();
    loop {
        match *options {
            [] | [0, ..] => return Some(default),
            [1, ref rest @ ..] => options = rest,
            [2, 4, high, low, ..] => return Some(u16::from_be_bytes([high, low])),
            [_, length, ..] if length >= 2 && usize::from(length) <= options.len() => {
                options = &options[usize::from(length)..];
            }
            _ => return Some(default),
        }
    }
}

/// A segment that is made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MadeUp {
    pub flags: u8,
    pub seq: u32,
    pub ack: u32,
    pub window: u16,
    /// With SYN, the largest segment that is taken.
    pub size: Option<u16>,
}

/// A frame with such a segment from one end of a connection to the other, as another frame of it has them. `is_answer`: in the other direction.
pub(super) fn make_up(frame: &[u8], made: &MadeUp, is_answer: bool) -> Option<Vec<u8>> {
    let ethernet = EthernetPacket::new_checked(frame).ok()?;
    let (src, dst, payload): (IpAddr, IpAddr, &[u8]) = match ethernet.ethertype() {
        ethertype::IPV4 => {
            let ip = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
            (ip.src().into(), ip.dst().into(), ip.payload())
        }
        ethertype::IPV6 => {
            let ip = Ipv6Packet::new_checked(ethernet.payload()).ok()?;
            (ip.src().into(), ip.dst().into(), ip.upper_layer().ok()?.payload)
        }
        _ => return None,
    };
    let segment = TcpPacket::new_checked(payload).ok()?;
    let turn = |from, to| if is_answer { (to, from) } else { (from, to) };
    let (src, dst) = turn(src, dst);
    let (src_port, dst_port) =
        if is_answer { (segment.dst_port(), segment.src_port()) } else { (segment.src_port(), segment.dst_port()) };
    let MadeUp { flags, seq, ack, window, size } = *made;
    let tcp = TcpRepr { src_port, dst_port, seq, ack, flags, window, urgent: 0, timestamps: None };
    let mut bytes = vec![0; tcp.buffer_len()];
    tcp.emit(&mut bytes);
    if let Some(size) = size {
        // One word of options more.
        bytes[12] += 0x10;
        bytes.extend([2, 4]);
        bytes.extend(size.to_be_bytes());
    }
    let ip = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            TcpRepr::fill_checksum(&mut bytes, &Pseudo::V4 { src, dst, protocol: protocol::TCP });
            let ip = Ipv4Repr::new(src, dst, protocol::TCP, bytes.len() as u16);
            let mut header = vec![0; ip.buffer_len()];
            ip.emit(&mut header);
            header
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            TcpRepr::fill_checksum(&mut bytes, &Pseudo::V6 { src, dst, protocol: protocol::TCP });
            let ip = Ipv6Repr::new(src, dst, protocol::TCP, bytes.len() as u16);
            let mut header = vec![0; ip.buffer_len()];
            ip.emit(&mut header);
            header
        }
        _ => return None,
    };
    let (src, dst) = if is_answer { (ethernet.dst(), ethernet.src()) } else { (ethernet.src(), ethernet.dst()) };
    let outer = EthernetRepr { dst, src, vlan: ethernet.vlan(), ethertype: ethernet.ethertype() };
    let mut made = vec![0; outer.buffer_len()];
    outer.emit(&mut made);
    made.extend(ip);
    made.extend(bytes);
    Some(made)
}

/// Flags of a segment that acknowledges, and says nothing else.
pub(super) const fn is_third_segment(flags: u8) -> bool {
    flags & (tcp_flags::SYN | tcp_flags::ACK | tcp_flags::RST | tcp_flags::FIN) == tcp_flags::ACK
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TUPLE: Tuple =
        Tuple { src: 0x0a00_0001, dst: 0x0a01_0050, src_port: 4_000, dst_port: 80, protocol: 6, is_ipv6: false };

    proptest! {
        #[test]
        fn a_cookie_is_good_for_whom_it_was_made(seed: u64, seconds in 0..10_000_000_u64, first: u32, size in 216_u16.., later in 0..64_u64, off in 1..=u32::MAX) {
            let key = CookieKey::new(seed);
            let now = Time::ZERO + Span::from_secs(seconds);
            let cookie = key.make(now, &TUPLE, (first, size));
            let found = key.check(now + Span::from_secs(later), &TUPLE, (first, cookie));
            prop_assert!(found.is_some_and(|found| found <= size), "{:?}", found);
            prop_assert_eq!(key.check(now + GOOD_FOR, &TUPLE, (first, cookie)), None);
            // It would have to be guessed: one of 16 million.
            let hits = [
                key.check(now, &TUPLE, (first.wrapping_add(off), cookie)),
                key.check(now, &Tuple { src: 7, ..TUPLE }, (first, cookie)),
                key.check(now, &Tuple { src_port: 4_001, ..TUPLE }, (first, cookie)),
                CookieKey::new(seed ^ 1).check(now, &TUPLE, (first, cookie)),
            ];
            prop_assert!(hits.iter().flatten().count() <= 1, "{:?}", hits);
        }
    }

    proptest! {
        #[test]
        fn any_frame_is_read_or_not(mut bytes in prop::collection::vec(any::<u8>(), 0..120), is_near: bool) {
            let made = MadeUp { flags: tcp_flags::SYN, seq: 1, ack: 2, window: 3, size: Some(4) };
            if is_near && bytes.len() >= 54 {
                bytes[12..14].copy_from_slice(&[8, 0]);
                let length = (bytes.len() - 14) as u16;
                bytes[14] = 0x45;
                bytes[16..18].copy_from_slice(&length.to_be_bytes());
                bytes[20..22].fill(0);
                bytes[23] = protocol::TCP;
            }
            let _ = segment_size(&bytes);
            if let Some(frame) = make_up(&bytes, &made, true) {
                prop_assert_eq!(segment_size(&frame), Some(4));
            }
        }
    }
}
