//! How a frame's headers become a [`Key`].

use wire::{
    ArpPacket, Error, EthernetPacket, Ipv4Packet, Ipv6Packet, MplsPacket, TcpPacket, ethertype, kind, protocol,
};

use super::{FRAGMENT, Key, LABELS, LATER_FRAGMENT, SCTP, Slot, VLAN_PRESENT, labelled, mac_bits};
use crate::usual::UsualHeaders;

/// What a neighbour solicitation or advertisement has in front of its options.
pub(super) const ND_HEADER: usize = 24;
/// Options have as many of so many bytes as their second byte says (RFC 4861, section 4.6).
const ND_OPTION_UNIT: usize = 8;
/// Options with link-layer addresses (RFC 4861, section 4.6.1).
const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;

impl Key {
    /// Reads a frame's headers, those behind a label stack as well, if they are of IP. All fragments of a datagram have ports 0, also the first one; a transport header that is cut off has ports 0 as well.
    ///
    /// # Errors
    /// If the Ethernet, ARP or IP header is malformed.
    pub fn parse(in_port: u16, frame: &[u8]) -> Result<Self, Error> {
        let mut key = Self::default();
        key.read(in_port, frame)?;
        Ok(key)
    }

    /// Reads a frame's headers in place, where there was nothing: a key that is moved as soon as it is written waits for its parts.
    ///
    /// # Errors
    /// As [`Key::parse`]; the key is of no use then.
    #[inline]
    pub fn read(&mut self, in_port: u16, frame: &[u8]) -> Result<(), Error> {
        if self.read_usual(in_port, frame) {
            return Ok(());
        }
        self.read_any(in_port, frame)
    }

    /// Reads the headers that almost every packet has: each word is written once. False of any other packet, of which nothing is read.
    #[inline]
    fn read_usual(&mut self, in_port: u16, frame: &[u8]) -> bool {
        let Some(headers) = UsualHeaders::read(frame) else { return false };
        let UsualHeaders { eth_dst, eth_src, src, dst, protocol, tos, ttl, ports, upper } = headers;
        let flags = match protocol {
            protocol::TCP => TcpPacket::new_checked(upper).map_or(0, |segment| segment.flags()),
            _ => 0,
        };
        let Self(words) = self;
        words[1] = u64::from(in_port) << 48 | u64::from(ethertype::IPV4) << 32 | u64::from(protocol);
        words[3] = eth_src << 16;
        words[4] = eth_dst << 16;
        words[6] = src.into();
        words[8] = dst.into();
        words[9] = u64::from(tos) << 8 | u64::from(ttl);
        words[11] = u64::from(ports) << 32 | u64::from(flags) << 24;
        true
    }

    fn read_any(&mut self, in_port: u16, frame: &[u8]) -> Result<(), Error> {
        let ethernet = EthernetPacket::new_checked(frame)?;
        self.set(Slot::IN_PORT, u64::from(in_port));
        self.set(Slot::ETH_TYPE, u64::from(ethernet.ethertype()));
        self.set(Slot::VLAN_TCI, ethernet.vlan().map_or(0, |tci| u64::from(tci | VLAN_PRESENT)));
        self.set(Slot::ETH_SRC, mac_bits(ethernet.src()));
        self.set(Slot::ETH_DST, mac_bits(ethernet.dst()));
        match ethernet.ethertype() {
            ethertype::IPV4 => self.read_ipv4(&Ipv4Packet::new_checked(ethernet.payload())?),
            ethertype::IPV6 => self.read_ipv6(&Ipv6Packet::new_checked(ethernet.payload())?)?,
            ethertype::ARP => self.read_arp(&ArpPacket::new_checked(ethernet.payload())?),
            ethertype::MPLS | ethertype::MPLS_UPSTREAM => self.read_mpls(ethernet.payload()),
            _ => {}
        }
        Ok(())
    }

    /// Reads a label stack, and the fields of the packet that it was put on: whoever takes the labels off finds them known. What is malformed has none, as what is no IP.
    fn read_mpls(&mut self, payload: &[u8]) {
        let (mut stack, mut rest) = (0, payload);
        for number in 0..LABELS {
            let Ok(entry) = MplsPacket::new_checked(rest) else { break };
            stack |= u128::from(entry.bits()) << (96 - 32 * number);
            rest = entry.payload();
            if entry.is_bottom() {
                self.read_labelled(rest);
                break;
            }
        }
        self.set_wide(Slot::MPLS_STACK_LOW, stack);
    }

    fn read_labelled(&mut self, packet: &[u8]) {
        let mut inner = *self;
        let what = match packet.first().map(|first| first >> 4) {
            Some(4) => Ipv4Packet::new_checked(packet).map(|packet| {
                inner.read_ipv4(&packet);
                labelled::IPV4
            }),
            Some(6) => Ipv6Packet::new_checked(packet).and_then(|packet| {
                inner.read_ipv6(&packet)?;
                Ok(labelled::IPV6)
            }),
            _ => return,
        };
        if let Ok(what) = what {
            inner.set(Slot::LABELLED, what);
            *self = inner;
        }
    }

    fn read_ipv4(&mut self, packet: &Ipv4Packet<'_>) {
        self.set(Slot::IPV4_SRC, u64::from(packet.src().to_bits()));
        self.set(Slot::IPV4_DST, u64::from(packet.dst().to_bits()));
        self.read_ip((packet.protocol(), packet.traffic_class(), packet.ttl()));
        let fragment = packet.is_fragment().then(|| packet.fragment_offset() > 0);
        self.read_upper(fragment, packet.protocol(), packet.payload());
    }

    fn read_ipv6(&mut self, packet: &Ipv6Packet<'_>) -> Result<(), Error> {
        let upper = packet.upper_layer()?;
        self.set_wide(Slot::SRC_LOW, packet.src().to_bits());
        self.set_wide(Slot::DST_LOW, packet.dst().to_bits());
        self.set(Slot::IPV6_LABEL, u64::from(packet.flow_label()));
        self.read_ip((upper.protocol, packet.traffic_class(), packet.hop_limit()));
        self.read_upper(upper.fragment.map(|fragment| fragment.offset > 0), upper.protocol, upper.payload);
        Ok(())
    }

    #[inline]
    const fn read_ip(&mut self, (protocol, tos, ttl): (u8, u8, u8)) {
        self.set(Slot::IP_PROTO, protocol as u64);
        self.set(Slot::IP_TOS, tos as u64);
        self.set(Slot::IP_TTL, ttl as u64);
    }

    /// `fragment`: of one, whether it is not the first.
    #[inline]
    fn read_upper(&mut self, fragment: Option<bool>, protocol: u8, payload: &[u8]) {
        if let Some(is_later) = fragment {
            self.set(Slot::IP_FRAG, u64::from(FRAGMENT | if is_later { LATER_FRAGMENT } else { 0 }));
            return;
        }
        let Some(&[a, b, c, d]) = payload.first_chunk::<4>() else { return };
        match protocol {
            protocol::TCP | protocol::UDP | SCTP => {
                self.set(Slot::TP_SRC, u64::from(u16::from_be_bytes([a, b])));
                self.set(Slot::TP_DST, u64::from(u16::from_be_bytes([c, d])));
                if protocol == protocol::TCP
                    && let Ok(segment) = TcpPacket::new_checked(payload)
                {
                    self.set(Slot::TCP_FLAGS, u64::from(segment.flags()));
                }
            }
            protocol::ICMP | protocol::ICMPV6 => {
                self.set(Slot::TP_SRC, u64::from(a));
                self.set(Slot::TP_DST, u64::from(b));
                let is_neighbours = matches!(a, kind::NEIGHBOUR_SOLICITATION | kind::NEIGHBOUR_ADVERTISEMENT) && b == 0;
                if protocol == protocol::ICMPV6 && is_neighbours {
                    self.read_neighbour(payload);
                }
            }
            _ => {}
        }
    }

    /// Reads a neighbour solicitation or advertisement (RFC 4861, sections 4.3 and 4.4), as Open vSwitch does: an option of which nothing is known where it ends, ends them all;
    /// of two link-layer addresses of one kind, nobody knows which is meant, and nothing of the message is read.
    fn read_neighbour(&mut self, message: &[u8]) {
        let Some((header, mut options)) = message.split_at_checked(ND_HEADER) else { return };
        let Some(target) = header.last_chunk::<16>() else { return };
        let mut addresses = [None; 2];
        while let Some(&[option, units, mac @ ..]) = options.first_chunk::<ND_OPTION_UNIT>() {
            let rest = options.get(usize::from(units) * ND_OPTION_UNIT..);
            let Some(rest) = rest.filter(|_| units > 0) else { break };
            let place = match option {
                SOURCE_LINK_LAYER => Some(0),
                TARGET_LINK_LAYER => Some(1),
                _ => None,
            };
            if let Some(place) = place.filter(|_| units == 1)
                && addresses[place].replace(mac).is_some()
            {
                return;
            }
            options = rest;
        }
        // Behind labels, these have its place.
        if !self.is_labelled() {
            self.set_wide(Slot::ND_TARGET_LOW, u128::from_be_bytes(*target));
        }
        for (slot, mac) in [Slot::ARP_SHA, Slot::ARP_THA].into_iter().zip(addresses) {
            self.set(slot, mac.map_or(0, mac_bits));
        }
    }

    fn read_arp(&mut self, packet: &ArpPacket<'_>) {
        self.set(Slot::IPV4_SRC, u64::from(packet.sender_ipv4().to_bits()));
        self.set(Slot::IPV4_DST, u64::from(packet.target_ipv4().to_bits()));
        self.set(Slot::IP_PROTO, u64::from(packet.operation().number()));
        self.set(Slot::ARP_SHA, mac_bits(packet.sender_mac()));
        self.set(Slot::ARP_THA, mac_bits(packet.target_mac()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::usual_frame;
    use proptest::prelude::*;

    proptest! {
        /// Whatever becomes of the frame's bytes and of its length.
        #[test]
        fn what_is_read_at_once_is_what_is_read_field_by_field(frame in usual_frame()) {
            let (mut at_once, mut by_field) = (Key::default(), Key::default());
            if at_once.read_usual(3, &frame) {
                prop_assert_eq!(by_field.read_any(3, &frame), Ok(()));
                prop_assert_eq!(at_once, by_field);
            } else {
                prop_assert_eq!(at_once, Key::default());
            }
        }
    }
}
