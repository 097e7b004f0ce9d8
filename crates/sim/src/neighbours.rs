//! By which address each host knows the others whose bonds announce their members' addresses: in balance-alb another one to each peer, with
//! `fail_over_mac=active` the active member's to all.
//!
//! Nobody asks by ARP in a simulation. The first packet to such a host stands for the question: the host's bond answers at once, by the same
//! frame that it would rewrite live. What it announces later comes by frames.

use std::collections::BTreeMap;

use bond::Transmit;
use datapath::{Graph, Role, Tables};
use fabric::Fabric;
use machine::Time;
use topology::{HostAddress, NodeId, PortId};
use vswitch::neighbour::claim;
use wire::{ArpOperation, ArpPacket, ArpRepr, EthernetRepr, ethertype};

use crate::medium::{Medium, Packet};

/// An untagged Ethernet header.
const ETHERNET: usize = 14;
/// Of an ARP message for Ethernet and IPv4 (RFC 826).
const ARP: usize = 28;

/// The addresses that hosts have learned of each other.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    /// By asker and host: the address that it learned last.
    learned: BTreeMap<(NodeId, NodeId), [u8; 6]>,
}

/// A host has learned that another one has this address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressLearned {
    pub(crate) asker: NodeId,
    pub(crate) host: NodeId,
    pub(crate) mac: [u8; 6],
}

impl Neighbours {
    /// The address by which `asker` knows `host`. If it knows none, it asks: `None` if it gets no answer at present.
    pub(crate) fn address(
        &mut self,
        now: Time,
        fabric: &Fabric,
        (tables, graph, medium): (&Tables, &mut Graph<Packet>, &mut Medium),
        (asker, host): (NodeId, NodeId),
    ) -> Option<[u8; 6]> {
        if let Some(known) = self.learned.get(&(asker, host)) {
            return Some(*known);
        }
        let end = tables.map.bond(tables.map.port(host, PortId(0)))?;
        let Some(Role::Bonded(bonded)) = graph.ends[end].as_mut().map(|state| &mut state.role) else { return None };
        let mut frame = answer(fabric.topology.address(host)?, fabric.topology.address(asker)?);
        let (Transmit::One(_), _) = bonded.transmit_frame(now, &mut frame) else { return None };
        let announce_at = bonded.announce_at();
        graph.arm(medium, now, end, announce_at);
        let mac = ArpPacket::new_checked(&frame[ETHERNET..]).ok()?.sender_mac();
        self.learned.insert((asker, host), mac);
        Some(mac)
    }

    /// A frame has come to a host: what it says to it that is new.
    pub(crate) fn hear(&mut self, tables: &Tables, asker: NodeId, frame: &[u8]) -> Option<AddressLearned> {
        let claim = claim(frame, &tables.host_table)?;
        let known = self.learned.get_mut(&(asker, claim.host));
        match known {
            Some(known) if *known == claim.mac => return None,
            Some(known) => *known = claim.mac,
            // A host that does not know the other takes no notice (RFC 826).
            None if claim.is_announcement => return None,
            None => drop(self.learned.insert((asker, claim.host), claim.mac)),
        }
        Some(AddressLearned { asker, host: claim.host, mac: claim.mac })
    }
}

/// What a host says to another one that has asked for it.
fn answer(host: &HostAddress, asker: &HostAddress) -> [u8; ETHERNET + ARP] {
    let mut frame = [0; ETHERNET + ARP];
    EthernetRepr { dst: asker.mac, src: host.mac, vlan: None, ethertype: ethertype::ARP }.emit(&mut frame);
    let message = ArpRepr {
        operation: ArpOperation::Reply,
        sender_mac: host.mac,
        sender_ipv4: host.ipv4,
        target_mac: asker.mac,
        target_ipv4: asker.ipv4,
    };
    message.emit(&mut frame[ETHERNET..]);
    frame
}
