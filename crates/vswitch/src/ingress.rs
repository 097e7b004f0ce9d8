//! What becomes of a frame that a host sends: the one decision that the live driver makes per frame at its way in.

use topology::NodeId;
use wire::{Error, ethertype, is_group, protocol};

use crate::flow_key::mac_of;
use crate::neighbour::{self, ANSWER_BYTES, Silence};
use crate::spread::FlowHash;
use crate::usual::UsualHeaders;
use crate::{FLOOD, FlowKey, Forwarding, HostTable};

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ingress {
    /// It crosses the fabric.
    Forward(Forwarding),
    /// So many bytes of the answer go back to the host that sent it; the frame itself goes no further.
    Answer(usize),
    /// It goes nowhere.
    Drop(DropReason),
}

/// Why a frame goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DropReason {
    /// No host has its destination address.
    #[error("no host has the destination {}", hex(*mac))]
    UnknownDestination {
        /// The address.
        mac: [u8; 6],
        /// Of the frame's flow.
        hash: FlowHash,
    },
    /// It is for a group of stations of which none is in the fabric: bridges (IEEE 802.1Q, 8.6.3), or routers that want to know who listens to
    /// which group (RFC 4541, 2.1.1), or that are looked for.
    #[error("nobody here is in the group")]
    Group,
    /// It announces to everybody that its sender has the address of another host, or comes from an address that nobody can have.
    #[error("its sender claims another host's address, or one of nobody")]
    Spoofed,
    /// It asks about a neighbour, for a group of stations, and gets no answer.
    #[error("{0}")]
    Silence(Silence),
    /// Its destination is behind the port by which it came: whoever is there has seen it.
    #[error("its destination is where it comes from")]
    SamePort,
    /// A header is malformed.
    #[error("malformed: {0}")]
    Malformed(#[from] Error),
}

fn hex(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Decides about one frame of the host `from` (no virtio header, no frame check sequence). An answer is written into `answer`.
///
/// Questions about neighbours that cannot be answered are forwarded: a host may have addresses that nobody knows of.
#[inline]
pub fn classify(frame: &[u8], from: NodeId, host_table: &HostTable, answer: &mut [u8; ANSWER_BYTES]) -> Ingress {
    if let Some(headers) = UsualHeaders::read(frame).filter(|headers| !headers.is_for_group()) {
        return headers.ingress(host_table.by_mac_bits(headers.eth_dst));
    }
    classify_any(frame, from, host_table, answer)
}

impl UsualHeaders<'_> {
    /// What becomes of a frame that is for no group, if this host has its destination address or nobody has.
    #[inline]
    pub fn ingress(&self, to: Option<NodeId>) -> Ingress {
        let hash = self.hash();
        match to {
            Some(to) => Ingress::Forward(Forwarding { to, hash }),
            None => Ingress::Drop(DropReason::UnknownDestination { mac: mac_of(self.eth_dst), hash }),
        }
    }
}

/// The same of any frame.
fn classify_any(frame: &[u8], from: NodeId, host_table: &HostTable, answer: &mut [u8; ANSWER_BYTES]) -> Ingress {
    let mut key = FlowKey::default();
    if let Err(error) = key.read(frame) {
        return Ingress::Drop(error.into());
    }
    if key.asks_for_neighbour() {
        return answer_or_forward(frame, from, &key, host_table, answer);
    }
    match forward(frame, from, &key, host_table) {
        Ok(forwarding) => Ingress::Forward(forwarding),
        Err(reason) => Ingress::Drop(reason),
    }
}

/// Decides about a frame that asks about a neighbour and is not answered: whoever has the address may hear the question.
#[cold]
pub fn without_answer(frame: &[u8], from: NodeId, host_table: &HostTable) -> Ingress {
    let mut key = FlowKey::default();
    if let Err(error) = key.read(frame) {
        return Ingress::Drop(error.into());
    }
    forward(frame, from, &key, host_table).map_or_else(Ingress::Drop, Ingress::Forward)
}

#[inline]
fn forward(frame: &[u8], from: NodeId, key: &FlowKey, host_table: &HostTable) -> Result<Forwarding, DropReason> {
    match host_table.by_mac(key.eth_dst) {
        Some(to) => Ok(Forwarding { to, hash: key.hash() }),
        None if is_group(key.eth_dst) => flood(frame, from, key, host_table),
        None => Err(DropReason::UnknownDestination { mac: key.eth_dst, hash: key.hash() }),
    }
}

/// What is for a group goes to every host, if any may be in the group, and if it does not announce something wrong to all of them.
#[cold]
fn flood(frame: &[u8], from: NodeId, key: &FlowKey, host_table: &HostTable) -> Result<Forwarding, DropReason> {
    if !is_for_hosts(key) {
        return Err(DropReason::Group);
    }
    if neighbour::claim(frame, host_table).is_some_and(|claim| claim.host != from) {
        return Err(DropReason::Spoofed);
    }
    Ok(Forwarding { to: FLOOD, hash: key.hash() })
}

/// Whether bridges speak to each other by this address, which none of them passes on (IEEE 802.1Q, 8.6.3). The last four bits say about what.
pub fn is_for_bridges(mac: [u8; 6]) -> bool {
    mac[..5] == [0x01, 0x80, 0xc2, 0x00, 0x00] && mac[5] < 16
}

/// Whether any host may be in the group that a frame is for. What is said to bridges and routers goes no further: there are none.
fn is_for_hosts(key: &FlowKey) -> bool {
    /// Membership of IPv4 groups.
    const IGMP: u8 = 2;
    /// Membership of IPv6 groups (RFC 2710, RFC 3810).
    const MLD: [u16; 3] = [131, 132, 143];
    const ROUTER_SOLICITATION: u16 = 133;
    let is_for_routers = match key.protocol {
        IGMP => key.ethertype == ethertype::IPV4,
        protocol::ICMPV6 => MLD.contains(&key.src_port) || key.src_port == ROUTER_SOLICITATION,
        _ => false,
    };
    !is_for_bridges(key.eth_dst) && !is_for_routers
}

#[cold]
fn answer_or_forward(
    frame: &[u8],
    from: NodeId,
    key: &FlowKey,
    host_table: &HostTable,
    answer: &mut [u8; ANSWER_BYTES],
) -> Ingress {
    match (neighbour::answer(frame, host_table, answer), forward(frame, from, key, host_table)) {
        (Ok(len), _) => Ingress::Answer(len),
        (Err(Silence::Malformed(error)), _) => Ingress::Drop(error.into()),
        (Err(Silence::AnswersItself(to)), _) => Ingress::Forward(Forwarding { to, hash: key.hash() }),
        // The owner of the address knows that already.
        (Err(silence @ Silence::OwnAddress), Ok(Forwarding { to: FLOOD, .. }) | Err(DropReason::Group)) => {
            Ingress::Drop(DropReason::Silence(silence))
        }
        (Err(_), Ok(forwarding)) => Ingress::Forward(forwarding),
        (Err(_), Err(reason)) => Ingress::Drop(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{address, arp, solicitation, tcp, topology_of, usual_frame};
    use proptest::prelude::*;
    use std::net::Ipv6Addr;
    use topology::HostAddress;
    use wire::ArpOperation;

    fn destination(ingress: Ingress) -> Option<NodeId> {
        if let Ingress::Forward(forwarding) = ingress { Some(forwarding.to) } else { None }
    }

    fn classified(frame: &[u8]) -> Ingress {
        classify(frame, NodeId(0), &HostTable::new(&topology_of(4), &[]), &mut [0; ANSWER_BYTES])
    }

    #[test]
    fn unicast_goes_to_its_host_and_carries_its_hash() {
        let frame = tcp(&address(0), &address(3), 1, 2, 0);
        let hash = FlowKey::parse(&frame).unwrap().hash();
        assert_eq!(classified(&frame), Ingress::Forward(Forwarding { to: NodeId(3), hash }));
    }

    #[test]
    fn what_nobody_owns_is_dropped() {
        let frame = tcp(&address(0), &address(4), 1, 2, 0);
        let (dropped, hash) = (classified(&frame), FlowKey::parse(&frame).unwrap().hash());
        assert_eq!(dropped, Ingress::Drop(DropReason::UnknownDestination { mac: address(4).mac, hash }));
        let Ingress::Drop(reason) = dropped else { unreachable!() };
        assert_eq!(reason.to_string(), "no host has the destination 02:00:00:00:00:04");
        let group = |mac| classified(&tcp(&address(0), &HostAddress { mac, ..address(1) }, 1, 2, 0));
        assert_eq!(destination(group(wire::BROADCAST)), Some(FLOOD));
        assert_eq!(destination(group([0x01, 0x80, 0xc2, 0, 0, 16])), Some(FLOOD));
        // For the bridge at the other end of the cable.
        assert_eq!(group([0x01, 0x80, 0xc2, 0, 0, 15]), Ingress::Drop(DropReason::Group));
        assert!(matches!(classified(&[0; 13]), Ingress::Drop(DropReason::Malformed(_))));
    }

    #[test]
    fn questions_are_answered_or_reach_who_may_know() {
        let (h0, h1) = (address(0), address(1));
        let request = |ipv4, to| classified(&arp(ArpOperation::Request, &h0, ipv4, to, None));
        assert_eq!(request(h1.ipv4, wire::BROADCAST), Ingress::Answer(42));
        assert_eq!(request(h1.ipv4, h1.mac), Ingress::Answer(42));
        assert_eq!(destination(request(address(9).ipv4, wire::BROADCAST)), Some(FLOOD));
        assert_eq!(request(h0.ipv4, wire::BROADCAST), Ingress::Drop(DropReason::Silence(Silence::OwnAddress)));
        assert_eq!(destination(request(address(9).ipv4, h1.mac)), Some(NodeId(1)));
        let taken = HostAddress { ipv4: h1.ipv4, ..h0.clone() };
        let spoofed = classified(&arp(ArpOperation::Request, &taken, address(9).ipv4, wire::BROADCAST, None));
        assert_eq!(spoofed, Ingress::Drop(DropReason::Spoofed));
        let reply = classified(&arp(ArpOperation::Reply, &h0, h1.ipv4, h1.mac, None));
        assert_eq!(destination(reply), Some(NodeId(1)));
        assert_eq!(classified(&solicitation(&h0, h0.ipv6, h1.ipv6, Some(h0.mac))), Ingress::Answer(86));
        let own = classified(&solicitation(&h0, Ipv6Addr::UNSPECIFIED, h0.ipv6, None));
        assert_eq!(own, Ingress::Drop(DropReason::Silence(Silence::OwnAddress)));
    }

    proptest! {
        #[test]
        fn what_is_decided_at_once_is_what_is_decided_field_by_field(frame in usual_frame()) {
            let table = HostTable::new(&topology_of(2), &[]);
            let mut answer = [0; ANSWER_BYTES];
            let by_field = classify_any(&frame, NodeId(0), &table, &mut answer);
            prop_assert_eq!(classify(&frame, NodeId(0), &table, &mut answer), by_field);
        }

        #[test]
        fn any_bytes_are_decided(bytes in proptest::collection::vec(any::<u8>(), 0..120), ethertype in 0_usize..3) {
            classified(&bytes);
            let mut steered = bytes;
            if let Some(place) = steered.get_mut(12..14) {
                place.copy_from_slice(&[0x0800_u16, 0x0806, 0x86dd][ethertype].to_be_bytes());
            }
            classified(&steered);
        }
    }
}
