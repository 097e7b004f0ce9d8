//! What identifies one direction of a connection.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use machine::mix;
use wire::protocol;

use super::icmp::{answer_to, icmp_request};

/// One direction of a connection: who sends, who receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Source address; an IPv4 address stands in the low 32 bits.
    pub src: u128,
    /// Destination address, likewise.
    pub dst: u128,
    /// Source port; of ICMP the identifier; 0 of protocols without ports.
    pub src_port: u16,
    /// Destination port; of ICMP the type in the upper half, the code in the lower one.
    pub dst_port: u16,
    /// IP protocol.
    pub protocol: u8,
    /// Whether it is one of IPv6.
    pub is_ipv6: bool,
}

impl Tuple {
    /// The direction of answers; `None` for an ICMP message that is not answered.
    pub fn reversed(&self) -> Option<Self> {
        let Self { src, dst, src_port, dst_port, .. } = *self;
        let (src_port, dst_port) =
            if self.is_icmp() { (src_port, answer_to(self.is_ipv6, dst_port)?) } else { (dst_port, src_port) };
        Some(Self { src: dst, dst: src, src_port, dst_port, ..*self })
    }

    /// Whether its ports are an identifier and a type.
    pub const fn is_icmp(&self) -> bool {
        matches!((self.is_ipv6, self.protocol), (false, protocol::ICMP) | (true, protocol::ICMPV6))
    }

    /// Whether it has ports that can be translated.
    pub const fn has_ports(&self) -> bool {
        matches!(self.protocol, protocol::TCP | protocol::UDP)
    }

    /// Whether a packet in this direction may begin a connection.
    pub(super) fn may_begin(&self) -> bool {
        !self.is_icmp() || icmp_request(self.is_ipv6, self.dst_port)
    }

    /// Where a table has it that begins its hashes at `seed`.
    pub fn hash(&self, seed: u64, zone: u16) -> u64 {
        let Self { src, dst, src_port, dst_port, protocol, is_ipv6 } = *self;
        let ports = u64::from(src_port) << 48 | u64::from(dst_port) << 32;
        let rest = u64::from(zone) << 16 | u64::from(protocol) << 8 | u64::from(is_ipv6);
        let hash = mix(seed ^ ports ^ rest);
        if is_ipv6 {
            let words = [(src >> 64) as u64, src as u64, (dst >> 64) as u64, dst as u64];
            return words.into_iter().fold(hash, |hash, word| mix(hash ^ word).wrapping_add(word));
        }
        mix(hash ^ (u64::from(src as u32) << 32 | u64::from(dst as u32)))
    }

    /// An address of this tuple's family.
    pub const fn address(&self, bits: u128) -> IpAddr {
        if self.is_ipv6 { IpAddr::V6(Ipv6Addr::from_bits(bits)) } else { IpAddr::V4(Ipv4Addr::from_bits(bits as u32)) }
    }
}

impl fmt::Display for Tuple {
    /// As `ovs-appctl dpctl/dump-conntrack` writes it between brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { src, dst, src_port, dst_port, .. } = *self;
        write!(f, "src={},dst={}", self.address(src), self.address(dst))?;
        if self.is_icmp() {
            return write!(f, ",id={src_port},type={},code={}", dst_port >> 8, dst_port & 0xff);
        }
        if src_port | dst_port != 0 {
            write!(f, ",sport={src_port},dport={dst_port}")?;
        }
        Ok(())
    }
}
