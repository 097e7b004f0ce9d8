//! By which address each peer knows a host whose bond tells its members' addresses: in balance-alb each peer is told another one, with
//! `fail_over_mac=active` all are told the active member's.
//!
//! Nobody asks by ARP in a simulation. A peer's first packet to such a host stands for its question: the host's bond answers at once, by the
//! same frame that it would rewrite live. What the bond tells later crosses the member's link, and peers know it when it comes to
//! the switch: the rest of its way takes no time.

use std::net::Ipv4Addr;

use bond::{MemberId, Transmit};
use fabric::{EndKind, Fabric};
use machine::Time;
use topology::BondEndId;
use vswitch::neighbour::claim;
use wire::{ArpOperation, ArpPacket, ArpRepr, EthernetRepr, ethertype};

use super::{Bonds, What};
use crate::engine::Engine;

/// [`Told::by_peer`] of a host that has not asked.
const UNTOLD: u32 = u32::MAX;
/// An untagged Ethernet header.
const ETHERNET: usize = 14;
/// Of an ARP message for Ethernet and IPv4 (RFC 826).
const ARP: usize = 28;

/// The addresses of the host at the other end of a bond, and who knows which.
#[derive(Debug)]
pub(super) struct Told {
    /// The members' own; the first is the host's. Whatever moves between members is one of them.
    addresses: Vec<[u8; 6]>,
    /// By host: the one that it was told last, or [`UNTOLD`].
    by_peer: Vec<u32>,
    /// By host: its addresses.
    hosts: Vec<([u8; 6], Ipv4Addr)>,
    /// Which of them this is about.
    host: u32,
}

impl Told {
    /// For the end with this index: `None` if it has no plain ports, or the host at the other end tells one address.
    pub(super) fn at(fabric: &Fabric, id: BondEndId) -> Option<Box<Self>> {
        let topology = &fabric.topology;
        let partner = topology.bonds[id].partner;
        if fabric.bonds[id].end != EndKind::Learning || !fabric.bonds[partner].config.answers_by_member() {
            return None;
        }
        let members = fabric.bond_plan(partner, 0).members;
        let hosts: Vec<_> = topology.hosts().filter_map(|(host, _)| topology.address(host)).collect();
        Some(Box::new(Self {
            addresses: members.into_iter().map(|(_, mac, _)| mac).collect(),
            by_peer: vec![UNTOLD; hosts.len()],
            hosts: hosts.into_iter().map(|host| (host.mac, host.ipv4)).collect(),
            host: topology.bonds[partner].node.0,
        }))
    }

    fn number_of(&self, mac: [u8; 6]) -> Option<u32> {
        self.addresses.iter().position(|known| *known == mac).map(|at| at as u32)
    }

    /// What the host says to a peer that has asked for it.
    fn answer_to(&self, peer: u32) -> [u8; ETHERNET + ARP] {
        let [(mac, ipv4), (peer_mac, peer_ipv4)] = [self.host, peer].map(|host| self.hosts[host as usize]);
        let mut frame = [0; ETHERNET + ARP];
        EthernetRepr { dst: peer_mac, src: mac, vlan: None, ethertype: ethertype::ARP }.emit(&mut frame);
        let message = ArpRepr {
            operation: ArpOperation::Reply,
            sender_mac: mac,
            sender_ipv4: ipv4,
            target_mac: peer_mac,
            target_ipv4: peer_ipv4,
        };
        message.emit(&mut frame[ETHERNET..]);
        frame
    }
}

impl Bonds {
    /// Whether any host tells several addresses.
    pub(super) fn tells_addresses(&self) -> bool {
        self.ends.iter().any(|place| place.told.is_some())
    }

    /// The address that is written on a packet that has come to the end with this index, if plain ports sent it to one of several: its number
    /// says which.
    #[inline]
    pub(super) fn address_written(&self, index: usize, packet: u32) -> Option<[u8; 6]> {
        let told = self.ends[self.ends[index].partner].told.as_ref()?;
        Some(told.addresses[self.numbers[packet as usize] as usize])
    }

    /// A frame of the other end's own has come to an end: plain ports learn where its sender is, and peers what it tells.
    pub(super) fn note_control(&mut self, index: usize, member: MemberId, frame: &[u8]) {
        let place = &mut self.ends[index];
        let What::Learning(learning) = &mut place.what else { return };
        let (Some(to), Some(from)) = (frame.first_chunk::<6>(), frame.get(6..12)) else { return };
        learning.saw(member, from.try_into().expect("six bytes"));
        let (Some(told), Some(host_table)) = (&mut place.told, &self.host_table) else { return };
        let Some(claim) = claim(frame, host_table).filter(|claim| claim.host.0 == told.host) else { return };
        let Some(number) = told.number_of(claim.mac) else { return };
        if claim.is_announcement {
            // Who does not know the host takes no notice (RFC 826).
            told.by_peer.iter_mut().filter(|known| **known != UNTOLD).for_each(|known| *known = number);
        } else if let Some(peer) = host_table.by_mac(*to) {
            told.by_peer[peer.0 as usize] = number;
        }
    }
}

impl<const PLAIN: bool> Engine<'_, PLAIN> {
    /// The address that a packet of this way goes to through the plain ports at `index`, and its number among the host's; `None`: the host has
    /// one, or none to tell at present.
    #[inline]
    pub(super) fn known_address(&mut self, now: Time, index: usize, way: u32) -> Option<(u32, [u8; 6])> {
        let told = self.bonds.ends[index].told.as_ref()?;
        let peer = self.bonds.senders[way as usize];
        match told.by_peer[peer as usize] {
            UNTOLD => self.ask(now, index, peer),
            number => Some((number, told.addresses[number as usize])),
        }
    }

    /// A peer asks for the host's address.
    #[cold]
    fn ask(&mut self, now: Time, index: usize, peer: u32) -> Option<(u32, [u8; 6])> {
        let partner = self.bonds.ends[index].partner;
        let mut frame = self.bonds.ends[index].told.as_ref()?.answer_to(peer);
        let What::Bonded(end) = &mut self.bonds.ends[partner].what else { return None };
        let (Transmit::One(_), _) = end.transmit_frame(now, &mut frame) else { return None };
        let telling_at = end.telling_at();
        self.arm_bond(now, partner, telling_at);
        let mac = ArpPacket::new_checked(&frame[ETHERNET..]).ok()?.sender_mac();
        let told = self.bonds.ends[index].told.as_mut()?;
        let number = told.number_of(mac)?;
        told.by_peer[peer as usize] = number;
        Some((number, mac))
    }
}
