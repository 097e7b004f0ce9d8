//! Answers to ARP requests and neighbour solicitations, given in the owner's stead.
//!
//! The fabric knows every host's addresses, so nobody has to be asked: the switch next to the asking host answers, and only questions about
//! other addresses cross the fabric (as VXLAN's ARP suppression does, RFC 8365, section 10). A pure function: frame in, frame out.

use std::net::{IpAddr, Ipv6Addr};

use topology::NodeId;
use wire::{
    ALL_NODES, ArpOperation, ArpPacket, ArpRepr, Error, EthernetPacket, EthernetRepr, Ipv6Packet, Ipv6Repr,
    NeighbourPacket, NeighbourRepr, ethertype, multicast_mac, protocol,
};

use crate::HostTable;

/// Room for every answer: Ethernet with tag (18), IPv6 (40), advertisement (24) with link-layer address option (8).
pub const ANSWER_BYTES: usize = 90;

/// The hop limit that shows that a neighbour message was not forwarded by a router (RFC 4861, section 7.1).
const HOP_LIMIT: u8 = 255;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Silence {
    /// It asks for nothing: neither an ARP request nor a neighbour solicitation.
    #[error("not a question about a neighbour")]
    NoQuestion,
    /// No host has the address.
    #[error("no host has the address asked for")]
    Unknown,
    /// The address is the asker's own: duplicate address detection (RFC 4862, RFC 5227) or an announcement. Silence means
    /// that the address is free.
    #[error("the asker owns the address")]
    OwnAddress,
    /// The host answers for itself: its bond announces another address of it to each asker.
    #[error("the host answers for itself")]
    AnswersItself(NodeId),
    /// It breaks a rule of its protocol.
    #[error("malformed: {0}")]
    Malformed(#[from] Error),
}

/// Writes the answer to `frame` into `answer` and returns its length.
///
/// An ARP request is answered by an ARP reply, a neighbour solicitation by a solicited advertisement that overrides what the asker
/// knew and gives the link-layer address. A tag of the question is on the answer as well.
///
/// # Errors
/// Why there is no answer.
pub fn answer(frame: &[u8], host_table: &HostTable, answer: &mut [u8; ANSWER_BYTES]) -> Result<usize, Silence> {
    answer_for(frame, Stead { host_table, of_all: false }, answer)
}

/// [`answer`] also in the stead of hosts that answer for themselves: an asker that only wants to know whether a host can be reached, as bonds do that
/// probe their links, learns no address from it.
///
/// # Errors
/// Why there is no answer.
pub fn answer_probe(frame: &[u8], host_table: &HostTable, answer: &mut [u8; ANSWER_BYTES]) -> Result<usize, Silence> {
    answer_for(frame, Stead { host_table, of_all: true }, answer)
}

/// The hosts for which the switch answers.
#[derive(Clone, Copy)]
struct Stead<'a> {
    host_table: &'a HostTable,
    /// Whether it answers also for hosts that answer for themselves.
    of_all: bool,
}

fn answer_for(frame: &[u8], stead: Stead<'_>, answer: &mut [u8; ANSWER_BYTES]) -> Result<usize, Silence> {
    let ethernet = EthernetPacket::new_checked(frame)?;
    match ethernet.ethertype() {
        ethertype::ARP => answer_arp(&ethernet, stead, answer),
        ethertype::IPV6 => answer_solicitation(&ethernet, stead, answer),
        _ => Err(Silence::NoQuestion),
    }
}

/// The MAC address of the owner, unless the owner is the asker itself, or answers for itself.
fn resolve(address: IpAddr, asker: [u8; 6], stead: Stead<'_>) -> Result<[u8; 6], Silence> {
    let host_table = stead.host_table;
    let owner = match address {
        IpAddr::V4(address) => host_table.by_ipv4(address),
        IpAddr::V6(address) => host_table.by_ipv6(address),
    };
    if let Some(mac) = host_table.mac_of_alias(address) {
        return Ok(mac);
    }
    let owner = owner.ok_or(Silence::Unknown)?;
    let mac = host_table.mac(owner);
    if mac == asker || host_table.by_mac(asker) == Some(owner) {
        return Err(Silence::OwnAddress);
    }
    if host_table.answers_itself(owner) && !stead.of_all { Err(Silence::AnswersItself(owner)) } else { Ok(mac) }
}

fn answer_arp(
    question: &EthernetPacket<'_>,
    stead: Stead<'_>,
    answer: &mut [u8; ANSWER_BYTES],
) -> Result<usize, Silence> {
    let request = ArpRepr::parse(&ArpPacket::new_checked(question.payload())?);
    if request.operation != ArpOperation::Request {
        return Err(Silence::NoQuestion);
    }
    if wire::is_group(request.sender_mac) {
        let value = u32::from(request.sender_mac[0]);
        let field = "first byte of the sender's hardware address";
        return Err(Error::Field { header: "ARP", field, value, expected: "that of one station" }.into());
    }
    // A probe (RFC 5227) has no sender address yet; its answer goes to the sender's MAC address all the same.
    let owner = resolve(request.target_ipv4.into(), request.sender_mac, stead)?;
    let ethernet =
        EthernetRepr { dst: request.sender_mac, src: owner, vlan: question.vlan(), ethertype: ethertype::ARP };
    let reply = ArpRepr {
        operation: ArpOperation::Reply,
        sender_mac: owner,
        sender_ipv4: request.target_ipv4,
        target_mac: request.sender_mac,
        target_ipv4: request.sender_ipv4,
    };
    ethernet.emit(answer);
    let (_, body) = answer.split_at_mut(ethernet.buffer_len());
    reply.emit(body);
    Ok(ethernet.buffer_len() + reply.buffer_len())
}

fn answer_solicitation(
    question: &EthernetPacket<'_>,
    stead: Stead<'_>,
    answer: &mut [u8; ANSWER_BYTES],
) -> Result<usize, Silence> {
    let (asker, target, asker_mac) = read_solicitation(question)?;
    let owner = resolve(target.into(), asker_mac, stead)?;
    // An asker without an address cannot be answered alone: everybody hears that the address is taken (RFC 4861, section 7.2.4).
    let solicited = !asker.is_unspecified();
    let (dst, dst_mac) = if solicited { (asker, asker_mac) } else { (ALL_NODES, multicast_mac(ALL_NODES)) };
    let advertisement = NeighbourRepr::Advertisement {
        router: false,
        solicited,
        override_known: true,
        target,
        target_link_layer: Some(owner),
    };
    let ipv6 = Ipv6Repr {
        src: target,
        dst,
        next_header: protocol::ICMPV6,
        hop_limit: HOP_LIMIT,
        traffic_class: 0,
        flow_label: 0,
        payload_len: advertisement.buffer_len() as u16,
    };
    let ethernet = EthernetRepr { dst: dst_mac, src: owner, vlan: question.vlan(), ethertype: ethertype::IPV6 };
    ethernet.emit(answer);
    let (_, packet) = answer.split_at_mut(ethernet.buffer_len());
    ipv6.emit(packet);
    let (_, message) = packet.split_at_mut(ipv6.buffer_len());
    advertisement.emit(target, dst, message);
    Ok(ethernet.buffer_len() + ipv6.buffer_len() + advertisement.buffer_len())
}

/// What a host says about itself by ARP or neighbour discovery, asking, answering, or of its own accord.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The host that has the IP address, by the host table.
    pub host: NodeId,
    /// The MAC address that it says it has.
    pub mac: [u8; 6],
    /// Whether everybody is to hear it: a gratuitous ARP (RFC 5227, section 3), an unsolicited advertisement (RFC 4861, section
    /// 7.2.6).
    pub is_announcement: bool,
}

/// Reads what a frame says about its sender's address; `None` if it says nothing, or is malformed, or nobody has that IP address.
pub fn claim(frame: &[u8], host_table: &HostTable) -> Option<Claim> {
    let ethernet = EthernetPacket::new_checked(frame).ok()?;
    let is_for_all = wire::is_group(ethernet.dst());
    match ethernet.ethertype() {
        ethertype::ARP => {
            let message = ArpRepr::parse(&ArpPacket::new_checked(ethernet.payload()).ok()?);
            Some(Claim {
                host: host_table.by_ipv4(message.sender_ipv4)?,
                mac: message.sender_mac,
                is_announcement: is_for_all && message.sender_ipv4 == message.target_ipv4,
            })
        }
        ethertype::IPV6 => {
            let packet = Ipv6Packet::new_checked(ethernet.payload()).ok()?;
            if packet.next_header() != protocol::ICMPV6 || packet.hop_limit() != HOP_LIMIT {
                return None;
            }
            let message = NeighbourPacket::new_checked(packet.payload()).ok()?;
            let (sender, mac, is_announcement) =
                match NeighbourRepr::parse(&message, packet.src(), packet.dst()).ok()? {
                    NeighbourRepr::Solicitation { source_link_layer, .. } => (packet.src(), source_link_layer?, false),
                    NeighbourRepr::Advertisement { target, target_link_layer, solicited, .. } => {
                        (target, target_link_layer?, is_for_all && !solicited)
                    }
                };
            Some(Claim { host: host_table.by_ipv6(sender)?, mac, is_announcement })
        }
        _ => None,
    }
}

/// The asker, what it wants to know, and where the answer goes.
fn read_solicitation(question: &EthernetPacket<'_>) -> Result<(Ipv6Addr, Ipv6Addr, [u8; 6]), Silence> {
    let packet = Ipv6Packet::new_checked(question.payload())?;
    let upper = packet.upper_layer()?;
    if upper.protocol != protocol::ICMPV6
        || upper.fragment.is_some()
        || upper.payload.first() != Some(&wire::kind::NEIGHBOUR_SOLICITATION)
    {
        return Err(Silence::NoQuestion);
    }
    if packet.hop_limit() != HOP_LIMIT {
        let value = u32::from(packet.hop_limit());
        return Err(Error::Field { header: "IPv6", field: "hop limit", value, expected: "255" }.into());
    }
    let message = NeighbourPacket::new_checked(upper.payload)?;
    match NeighbourRepr::parse(&message, packet.src(), packet.dst())? {
        NeighbourRepr::Solicitation { target, source_link_layer } => {
            Ok((packet.src(), target, source_link_layer.unwrap_or(question.src())))
        }
        NeighbourRepr::Advertisement { .. } => Err(Silence::NoQuestion),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, address, arp, solicitation, topology_of};
    use proptest::prelude::*;

    fn asked(frame: &[u8]) -> Result<Vec<u8>, Silence> {
        let mut buffer = [0xa5; ANSWER_BYTES];
        let len = answer(frame, &HostTable::new(&topology_of(4), &[]), &mut buffer)?;
        Ok(buffer[..len].to_vec())
    }

    #[test]
    fn an_arp_request_is_answered_in_the_owners_name() {
        let (h0, h3) = (address(0), address(3));
        for vlan in [None, Some(7)] {
            let reply = asked(&arp(ArpOperation::Request, &h0, h3.ipv4, wire::BROADCAST, vlan)).unwrap();
            let ethernet = EthernetPacket::new_checked(&reply).unwrap();
            assert_eq!((ethernet.dst(), ethernet.src(), ethernet.vlan()), (h0.mac, h3.mac, vlan));
            let expected = ArpRepr {
                operation: ArpOperation::Reply,
                sender_mac: h3.mac,
                sender_ipv4: h3.ipv4,
                target_mac: h0.mac,
                target_ipv4: h0.ipv4,
            };
            assert_eq!(ArpRepr::parse(&ArpPacket::new_checked(ethernet.payload()).unwrap()), expected);
        }
    }

    #[test]
    fn arp_that_is_no_question_gets_no_answer() {
        let (h0, h1) = (address(0), address(1));
        let request = |ipv4| arp(ArpOperation::Request, &h0, ipv4, wire::BROADCAST, None);
        assert_eq!(asked(&arp(ArpOperation::Reply, &h0, h1.ipv4, h1.mac, None)), Err(Silence::NoQuestion));
        assert_eq!(asked(&request(address(4).ipv4)), Err(Silence::Unknown));
        assert_eq!(asked(&request(h0.ipv4)), Err(Silence::OwnAddress));
        let mut from_group = h0.clone();
        from_group.mac[0] |= 1;
        let frame = arp(ArpOperation::Request, &from_group, h1.ipv4, wire::BROADCAST, None);
        assert!(matches!(asked(&frame), Err(Silence::Malformed(_))));
        assert!(matches!(asked(&frame[..41]), Err(Silence::Malformed(Error::Truncated { need: 28, have: 27, .. }))));
        assert_eq!(asked(&testing::tcp(&h0, &h1, 1, 2, 0)), Err(Silence::NoQuestion));
    }

    fn advertised(reply: &[u8]) -> (EthernetRepr, Ipv6Repr, NeighbourRepr) {
        let ethernet = EthernetPacket::new_checked(reply).unwrap();
        let ipv6 = Ipv6Packet::new_checked(ethernet.payload()).unwrap();
        assert_eq!(ipv6.hop_limit(), 255);
        let message = NeighbourPacket::new_checked(ipv6.payload()).unwrap();
        let message = NeighbourRepr::parse(&message, ipv6.src(), ipv6.dst()).unwrap();
        (EthernetRepr::parse(&ethernet), Ipv6Repr::parse(&ipv6), message)
    }

    #[test]
    fn a_solicitation_is_answered_in_the_owners_name() {
        let (h1, h2) = (address(1), address(2));
        for source_mac in [Some(h1.mac), None] {
            let reply = asked(&solicitation(&h1, h1.ipv6, h2.ipv6, source_mac)).unwrap();
            let (ethernet, ipv6, message) = advertised(&reply);
            assert_eq!((ethernet.dst, ethernet.src), (h1.mac, h2.mac));
            assert_eq!((ipv6.src, ipv6.dst), (h2.ipv6, h1.ipv6));
            let expected = NeighbourRepr::Advertisement {
                router: false,
                solicited: true,
                override_known: true,
                target: h2.ipv6,
                target_link_layer: Some(h2.mac),
            };
            assert_eq!(message, expected);
        }
    }

    #[test]
    fn duplicate_address_detection_is_silent_for_the_owner_and_loud_for_others() {
        let (h1, h2) = (address(1), address(2));
        let probe = |target| asked(&solicitation(&h1, Ipv6Addr::UNSPECIFIED, target, None));
        assert_eq!(probe(h1.ipv6), Err(Silence::OwnAddress));
        let (ethernet, ipv6, message) = advertised(&probe(h2.ipv6).unwrap());
        assert_eq!((ethernet.dst, ipv6.dst), ([0x33, 0x33, 0, 0, 0, 1], ALL_NODES));
        assert!(matches!(message, NeighbourRepr::Advertisement { solicited: false, override_known: true, .. }));
    }

    #[test]
    fn a_malformed_solicitation_gets_no_answer() {
        let (h1, h2) = (address(1), address(2));
        let frame = solicitation(&h1, h1.ipv6, h2.ipv6, Some(h1.mac));
        assert!(asked(&frame).is_ok());
        let spoilt = |at: usize| {
            let mut frame = frame.clone();
            frame[at] ^= 1;
            asked(&frame).unwrap_err().to_string()
        };
        assert_eq!(spoilt(14 + 7), "malformed: IPv6: hop limit is 254, 255 expected");
        assert_eq!(spoilt(14 + 40 + 1), "malformed: ICMPv6 neighbour message: code is 1, 0 expected");
        assert_eq!(spoilt(14 + 40 + 3), "malformed: ICMPv6 neighbour message: wrong checksum");
        assert_eq!(asked(&solicitation(&h1, h1.ipv6, address(9).ipv6, None)), Err(Silence::Unknown));
    }

    #[test]
    fn what_hosts_say_about_themselves_is_read() {
        let host_table = HostTable::new(&topology_of(4), &[]);
        let (h0, h1) = (address(0), address(1));
        let said =
            |frame: &[u8]| claim(frame, &host_table).map(|claim| (claim.host.0, claim.mac, claim.is_announcement));
        let arp = |operation, target, to| arp(operation, &h0, target, to, Some(3));
        assert_eq!(said(&arp(ArpOperation::Request, h1.ipv4, wire::BROADCAST)), Some((0, h0.mac, false)));
        assert_eq!(said(&arp(ArpOperation::Reply, h1.ipv4, h1.mac)), Some((0, h0.mac, false)));
        // Gratuitous, as a request or an answer, but not to one alone.
        assert_eq!(said(&arp(ArpOperation::Request, h0.ipv4, wire::BROADCAST)), Some((0, h0.mac, true)));
        assert_eq!(said(&arp(ArpOperation::Reply, h0.ipv4, wire::BROADCAST)), Some((0, h0.mac, true)));
        assert_eq!(said(&arp(ArpOperation::Reply, h0.ipv4, h1.mac)), Some((0, h0.mac, false)));
        assert_eq!(said(&solicitation(&h1, h1.ipv6, h0.ipv6, Some(h1.mac))), Some((1, h1.mac, false)));
        assert_eq!(said(&solicitation(&h1, h1.ipv6, h0.ipv6, None)), None);
        assert_eq!(said(&testing::tcp(&h0, &h1, 1, 2, 0)), None);
        // An answer goes to the asker; an asker without an address is answered before everybody.
        let answered = asked(&solicitation(&h1, h1.ipv6, h0.ipv6, Some(h1.mac))).unwrap();
        assert_eq!(said(&answered), Some((0, h0.mac, false)));
        let stranger = testing::arp(ArpOperation::Request, &address(9), h1.ipv4, wire::BROADCAST, None);
        assert_eq!(said(&stranger), None);
        let mut spoilt = answered;
        spoilt[14 + 40 + 3] ^= 1;
        assert_eq!(said(&spoilt), None, "the checksum is wrong");
        let loud = asked(&solicitation(&h1, Ipv6Addr::UNSPECIFIED, h0.ipv6, None)).unwrap();
        assert_eq!(said(&loud), Some((0, h0.mac, true)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = asked(&bytes);
            let _ = claim(&bytes, &HostTable::new(&topology_of(4), &[]));
        }

        #[test]
        fn any_changed_question_is_answered_or_not(at in 0_usize..86, value: u8, cut in 0_usize..87) {
            let (h1, h2) = (address(1), address(2));
            let mut frame = solicitation(&h1, h1.ipv6, h2.ipv6, Some(h1.mac));
            frame[at] = value;
            let cut = &frame[..cut.min(frame.len())];
            for frame in [&frame, cut] {
                let _ = asked(frame);
                let _ = claim(frame, &HostTable::new(&topology_of(4), &[]));
            }
        }
    }
}
