//! Questions about neighbours, of which a match may say enough to make the frame.

use std::net::{IpAddr, Ipv6Addr};

use topology::HostAddress;
use wire::{
    ArpOperation, ArpRepr, BROADCAST, EthernetRepr, Ipv6Repr, NeighbourRepr, ethertype, kind, multicast_mac, protocol,
};

use super::key::{Slot, mac_of};
use super::matching::Match;

/// The hop limit of neighbour discovery: no router has passed it on (RFC 4861, section 7.1).
const HOP_LIMIT: u8 = 255;

impl Match {
    /// The address that is asked about, if an ARP request or a neighbour solicitation is matched that names it.
    pub fn asked_for(&self) -> Option<IpAddr> {
        let flow = self.flow_key();
        match flow.ethertype {
            ethertype::ARP => {
                let is_request = u16::from(flow.protocol) == ArpOperation::Request.number();
                (is_request && self.is_whole(Slot::IPV4_DST)).then(|| IpAddr::V4((flow.dst as u32).into()))
            }
            ethertype::IPV6 => {
                let is_solicitation = flow.protocol == protocol::ICMPV6
                    && flow.src_port == u16::from(kind::NEIGHBOUR_SOLICITATION)
                    && self.mask.wide(Slot::ND_TARGET_LOW) == u128::MAX;
                is_solicitation.then(|| IpAddr::V6(self.key.wide(Slot::ND_TARGET_LOW).into()))
            }
            _ => None,
        }
    }

    /// The IP address of who sends an ARP message, if one is matched that names it.
    pub fn arp_sender(&self) -> Option<IpAddr> {
        let flow = self.flow_key();
        let is_known = flow.ethertype == ethertype::ARP && self.is_whole(Slot::IPV4_SRC);
        is_known.then(|| IpAddr::V4((flow.src as u32).into()))
    }

    /// The frame with the question about a neighbour that is matched, if one is. What is not matched is as a host with this address sends it.
    pub fn question(&self, asker: &HostAddress) -> Option<Vec<u8>> {
        let flow = self.flow_key();
        let target = self.asked_for()?;
        let source = self.mac(Slot::ETH_SRC).unwrap_or(asker.mac);
        let (group, body) = match target {
            IpAddr::V4(target_ipv4) => {
                let request = ArpRepr {
                    operation: ArpOperation::Request,
                    sender_mac: self.mac(Slot::ARP_SHA).unwrap_or(source),
                    sender_ipv4: if self.has_source() { (flow.src as u32).into() } else { asker.ipv4 },
                    target_mac: self.mac(Slot::ARP_THA).unwrap_or_default(),
                    target_ipv4,
                };
                let mut body = vec![0; request.buffer_len()];
                request.emit(&mut body);
                (BROADCAST, body)
            }
            IpAddr::V6(target) => self.solicitation((asker.ipv6, source), target),
        };
        let dst = self.mac(Slot::ETH_DST).unwrap_or(group);
        let ethernet = EthernetRepr { dst, src: source, vlan: flow.vlan, ethertype: flow.ethertype };
        let mut frame = vec![0; ethernet.buffer_len()];
        ethernet.emit(&mut frame);
        frame.extend(body);
        Some(frame)
    }

    /// A neighbour solicitation from its IPv6 header on, and the MAC address of the group that it is for.
    fn solicitation(&self, (ipv6, mac): (Ipv6Addr, [u8; 6]), target: Ipv6Addr) -> ([u8; 6], Vec<u8>) {
        let flow = self.flow_key();
        let src = if self.has_source() { flow.src.into() } else { ipv6 };
        // The group of those whose addresses end as this one (RFC 4291, section 2.7.1).
        let [.., seventh, eighth] = target.segments();
        let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | seventh & 0xff, eighth);
        let dst = if self.mask.wide(Slot::DST_LOW) == 0 { group } else { flow.dst.into() };
        let own = self.mac(Slot::ARP_SHA).unwrap_or(mac);
        // Who has no address yet gives none (RFC 4861, section 4.3).
        let source_link_layer = (!src.is_unspecified()).then_some(own);
        let message = NeighbourRepr::Solicitation { target, source_link_layer };
        let hop_limit = if self.is_whole(Slot::IP_TTL) { self.key.get(Slot::IP_TTL) as u8 } else { HOP_LIMIT };
        let header = Ipv6Repr { hop_limit, ..Ipv6Repr::new(src, dst, protocol::ICMPV6, message.buffer_len() as u16) };
        let mut body = vec![0; header.buffer_len() + message.buffer_len()];
        let (packet, rest) = body.split_at_mut(header.buffer_len());
        header.emit(packet);
        message.emit(src, dst, rest);
        (multicast_mac(dst), body)
    }

    /// Whether all bits of a field are matched.
    const fn is_whole(&self, slot: Slot) -> bool {
        self.mask.get(slot) == slot.all()
    }

    fn mac(&self, slot: Slot) -> Option<[u8; 6]> {
        self.is_whole(slot).then(|| mac_of(self.key.get(slot)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow_table::{Ports, parse_packet};
    use crate::testing::{address, arp, solicitation};

    #[test]
    fn a_question_is_as_a_host_asks_it_but_for_what_is_named() {
        let (h0, h3) = (address(0), address(3));
        let question = |text: &str| parse_packet(text, &Ports::default()).unwrap().question(&h0);
        let request = |to, vlan| Some(arp(ArpOperation::Request, &h0, h3.ipv4, to, vlan));
        assert_eq!(question("arp,arp_op=1,arp_tpa=10.0.0.3"), request(BROADCAST, None));
        let named = "arp,arp_op=1,arp_spa=10.0.0.0,arp_tpa=10.0.0.3,dl_vlan=5,dl_dst=02:00:00:00:00:03";
        assert_eq!(question(named), request(h3.mac, Some(5)));
        for none in ["arp,arp_tpa=10.0.0.3", "arp,arp_op=2,arp_tpa=10.0.0.3", "arp,arp_op=1", "ip,nw_dst=10.0.0.3"] {
            assert_eq!(question(none), None, "{none}");
        }
        let solicited = "icmp6,icmp_type=135,nd_target=fd00::3";
        assert_eq!(question(solicited), Some(solicitation(&h0, h0.ipv6, h3.ipv6, Some(h0.mac))));
        let probe = question(&format!("{solicited},ipv6_src=::"));
        assert_eq!(probe, Some(solicitation(&h0, Ipv6Addr::UNSPECIFIED, h3.ipv6, None)));
        let forwarded = question(&format!("{solicited},nw_ttl=64")).unwrap();
        assert_eq!(forwarded[14 + 7], 64);
        assert_eq!(question("icmp6,icmp_type=135"), None, "nobody is asked for");
        let packet = |text: &str| parse_packet(text, &Ports::default()).unwrap();
        assert_eq!(packet(named).arp_sender(), Some(h0.ipv4.into()));
        assert_eq!((packet(solicited).asked_for(), packet(solicited).arp_sender()), (Some(h3.ipv6.into()), None));
    }
}
