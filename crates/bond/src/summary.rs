//! What a bond needs to know of a frame. Live it is read from the frame; simulated it is made once a flow.

use wire::ethertype::{ARP, IPV4, IPV6, SLOW};
use wire::protocol::ICMPV6;
use wire::{BROADCAST, is_group};

use crate::config::{Config, HashPolicy, Mode};
use crate::hash::Link;
use crate::transmit::burst::Hasher;

/// What kind of frame it is, as far as a mode treats it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// IPv4 or IPv6.
    Ip,
    /// IP that balance-alb leaves on the active member: to 255.255.255.255, or of duplicate address detection.
    IpPinned,
    /// Membership of IPv4 multicast groups (RFC 3376): it stays on one member in balance-rr, for switches that look at it.
    Igmp,
    /// Address resolution for IPv4 (RFC 826).
    Arp,
    /// A neighbour solicitation or advertisement (RFC 4861).
    Neighbour,
    /// LACP or marker (IEEE 802.3, annex 57A): for the member's own state machine.
    Slow,
    /// The packet has another protocol.
    Other,
}

/// A frame in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Destination address.
    pub dst_mac: [u8; 6],
    /// Source address.
    pub src_mac: [u8; 6],
    /// [`crate::hash::hash`] by the bond's policy; 0 where no mode asks for it.
    pub hash: u32,
    /// Length in bytes.
    pub bytes: u32,
    /// The bytes of the destination's IP address, combined by exclusive or: balance-alb's bucket.
    pub peer: u8,
    /// What kind of frame it is.
    pub kind: Kind,
}

pub(crate) const IGMP: u8 = 2;

impl Summary {
    /// Reads what a bond of this configuration needs. A frame without a whole Ethernet header is [`Kind::Other`] to nobody.
    #[inline]
    pub fn of(config: &Config, frame: &[u8]) -> Self {
        Self::read(config.hashes_by(), config.mode == Mode::BalanceAlb, frame)
    }

    /// What an end needs to know of what comes to it: nothing is hashed.
    #[inline]
    pub fn of_arrival(frame: &[u8]) -> Self {
        Self::read(None, false, frame)
    }

    /// [`Summary::of`] for a policy without a bond.
    #[inline]
    pub fn by_policy(policy: HashPolicy, frame: &[u8]) -> Self {
        Self::read(Some(policy), true, frame)
    }

    #[inline]
    pub(crate) fn read(policy: Option<HashPolicy>, with_peer: bool, frame: &[u8]) -> Self {
        Self::read_with(policy, with_peer, frame)
    }

    /// With a hash that the caller knows.
    #[expect(clippy::inline_always, reason = "its fields stay in registers then: a call halves the speed of a burst")]
    #[inline(always)]
    pub(crate) fn read_with(hasher: impl Hasher, with_peer: bool, frame: &[u8]) -> Self {
        let bytes = frame.len() as u32;
        let mut summary = Self { dst_mac: [0; 6], src_mac: [0; 6], hash: 0, bytes, peer: 0, kind: Kind::Other };
        let Some(link) = Link::of(frame) else { return summary };
        (summary.dst_mac, summary.src_mac) = link.addresses();
        summary.hash = hasher.hash(&link);
        match link.ethertype {
            IPV4 => summary.read_ipv4(&link, with_peer),
            IPV6 => summary.read_ipv6(&link, with_peer),
            ARP => summary.kind = Kind::Arp,
            SLOW => summary.kind = Kind::Slow,
            _ => {}
        }
        summary
    }

    #[inline]
    fn read_ipv4(&mut self, link: &Link<'_>, with_peer: bool) {
        let Some(header) = link.read::<20>(link.payload_at) else { return };
        let [.., a, b, c, d] = *header;
        self.kind = match header[9] {
            IGMP => Kind::Igmp,
            _ if [a, b, c, d] == [0xff; 4] => Kind::IpPinned,
            _ => Kind::Ip,
        };
        if with_peer {
            self.peer = a ^ b ^ c ^ d;
        }
    }

    #[inline]
    fn read_ipv6(&mut self, link: &Link<'_>, with_peer: bool) {
        let Some(header) = link.read::<40>(link.payload_at) else { return };
        let is_neighbour = header[6] == ICMPV6 && matches!(link.read::<1>(link.payload_at + 40), Some([135 | 136]));
        self.kind = match () {
            () if is_neighbour => Kind::Neighbour,
            () if header[8..24] == [0; 16] => Kind::IpPinned,
            () => Kind::Ip,
        };
        if with_peer {
            self.peer = header[24..40].iter().fold(0, |all, byte| all ^ byte);
        }
    }

    /// Whether balance-tlb may choose: IP to one station.
    #[inline]
    pub(crate) const fn is_balanced_by_tlb(&self) -> bool {
        !is_group(self.dst_mac) && !matches!(self.kind, Kind::Arp | Kind::Slow | Kind::Other)
    }

    /// Whether balance-alb may choose: IP, but neither to all stations nor of address resolution.
    #[inline]
    pub(crate) fn is_balanced_by_alb(&self) -> bool {
        self.kind == Kind::Ip && self.dst_mac != BROADCAST && self.dst_mac != [0x33, 0x33, 0, 0, 0, 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(ethertype: u16, payload: &[u8]) -> Vec<u8> {
        [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &ethertype.to_be_bytes(), payload].concat()
    }

    #[test]
    fn kinds_are_distinguished() {
        let kind = |frame: &[u8]| Summary::by_policy(HashPolicy::Layer2, frame).kind;
        let mut ipv4 = [0; 20];
        (ipv4[0], ipv4[9]) = (0x45, 6);
        assert_eq!(kind(&frame(IPV4, &ipv4)), Kind::Ip);
        ipv4[9] = IGMP;
        assert_eq!(kind(&frame(IPV4, &ipv4)), Kind::Igmp);
        assert_eq!(kind(&frame(0x8100, &[&[0, 1, 8, 0], &ipv4[..]].concat())), Kind::Igmp);
        ipv4[9] = 17;
        ipv4[16..].fill(255);
        assert_eq!(kind(&frame(IPV4, &ipv4)), Kind::IpPinned);
        assert_eq!(kind(&frame(IPV4, &ipv4[..19])), Kind::Other);
        let mut ipv6 = [0; 41];
        ipv6[6] = ICMPV6;
        assert_eq!(kind(&frame(IPV6, &ipv6)), Kind::IpPinned);
        ipv6[8] = 0xfe;
        assert_eq!(kind(&frame(IPV6, &ipv6)), Kind::Ip);
        ipv6[40] = 136;
        assert_eq!(kind(&frame(IPV6, &ipv6)), Kind::Neighbour);
        assert_eq!(kind(&frame(ARP, &[])), Kind::Arp);
        assert_eq!(kind(&frame(SLOW, &[1])), Kind::Slow);
        assert_eq!(kind(&[0; 13]), Kind::Other);
    }

    #[test]
    fn the_peer_s_bucket_is_its_address_folded_to_a_byte() {
        let mut ipv4 = [0; 20];
        ipv4[16..].copy_from_slice(&[10, 1, 2, 3]);
        let summary = Summary::by_policy(HashPolicy::Layer2, &frame(IPV4, &ipv4));
        assert_eq!((summary.peer, summary.bytes), (0x0a ^ 0x01 ^ 0x02 ^ 0x03, 34));
    }
}
