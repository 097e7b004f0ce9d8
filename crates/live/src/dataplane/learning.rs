//! What a learning switch does at the edge: whom a frame is in one VLAN with, from whom it comes that the file does not name, and where it goes if nobody knows its
//! destination.

use datapath::Tag;
use machine::Time;
use topology::{NetPort, NodeId};
use vswitch::neighbour::ANSWER_BYTES;
use vswitch::spread::FlowHash;
use vswitch::{DropReason, FLOOD, FlowKey, Forwarding, Ingress, UNKNOWN, UsualHeaders};

use super::edge::Edge;
use super::ingress::Entry;
use super::poller::PortKey;
use super::pool::Packet;
use super::worker::Worker;

impl Edge {
    /// The host behind which the station has been learned that a frame is for, which came in by a port.
    pub(super) fn find_station(&self, now: Time, port: NetPort, packet: &Packet) -> Option<NodeId> {
        let mac = *packet.ethernet().first_chunk()?;
        let vlan = self.plan.tables().vlan_of(port, packet.ethernet())?;
        self.plan.macs().lookup((vlan, mac), self.clock.uptime_at(now))
    }
}

/// What was decided last about a frame: one of its burst that comes right behind it and has the same addresses goes the same way.
#[derive(Debug)]
pub(super) struct Lately {
    key: PortKey,
    now: Time,
    addresses: [u64; 2],
    to: Option<NodeId>,
}

impl Lately {
    #[inline]
    fn is_of(&self, key: PortKey, now: Time, headers: &UsualHeaders<'_>) -> bool {
        self.addresses == [headers.eth_dst, headers.eth_src] && (self.key, self.now) == (key, now)
    }
}

impl Worker {
    /// Decides about a frame that comes in from a host, and learns from it.
    #[inline]
    pub(super) fn classify(
        &mut self,
        entry: Entry,
        now: Time,
        packet: &Packet,
        answer: &mut [u8; ANSWER_BYTES],
    ) -> Ingress {
        let usual = UsualHeaders::read(packet.ethernet()).filter(|headers| !headers.is_for_group());
        let Some(headers) = usual else {
            // It may say where somebody is.
            self.lately = None;
            return self.classify_anew(entry, now, packet, answer);
        };
        if let Some(lately) = self.lately.as_ref().filter(|lately| lately.is_of(entry.key, now, &headers)) {
            return headers.ingress(lately.to);
        }
        self.lately = None;
        let ingress = self.classify_anew(entry, now, packet, answer);
        let to = match ingress {
            Ingress::Forward(Forwarding { to, .. }) => Some(to),
            Ingress::Drop(DropReason::UnknownDestination { .. }) => None,
            Ingress::Answer(_) | Ingress::Drop(_) => return ingress,
        };
        let addresses = [headers.eth_dst, headers.eth_src];
        self.lately = Some(Lately { key: entry.key, now, addresses, to });
        ingress
    }

    /// The same of a frame of which nothing is known.
    fn classify_anew(&self, entry: Entry, now: Time, packet: &Packet, answer: &mut [u8; ANSWER_BYTES]) -> Ingress {
        let from = NodeId(entry.key.host as u32);
        let host_table = self.plan.host_table();
        let source = packet.source();
        if source != host_table.mac(from) {
            // Nobody has such an address (IEEE 802, 8.2.2): bridges drop it.
            if wire::is_group(source) || source == [0; 6] {
                return Ingress::Drop(DropReason::Spoofed);
            }
            self.learn(entry, now, packet);
        }
        match self.plan.tables().classify((from, entry.port), packet.ethernet(), answer) {
            Ingress::Drop(DropReason::UnknownDestination { .. }) => self.find_learned(entry, now, packet),
            Ingress::Forward(Forwarding { to, .. }) if self.is_cut_off(entry, to) => {
                self.find_learned(entry, now, packet)
            }
            ingress => ingress,
        }
    }

    /// Whether no route leads from here to a host whose switch speaks RSTP: then bridges that the file does not know may be between, as where the link between two switches is lost
    /// that a bridge joins, too. Frames for the host go where it was heard of, as those for any other station.
    #[inline]
    fn is_cut_off(&self, entry: Entry, to: NodeId) -> bool {
        self.plan.tables().ports.has_bridges() && to != FLOOD && !self.reaches(entry, to)
    }

    fn reaches(&self, entry: Entry, to: NodeId) -> bool {
        let from = NodeId(entry.key.host as u32);
        from == to || !self.graph.routes.next_hops(from, to).is_empty()
    }

    fn vlan_of(&self, entry: Entry, packet: &Packet) -> Option<u16> {
        self.plan.tables().vlan_of(entry.port, packet.ethernet())
    }

    /// A frame comes from an address that is not the host's own: from now on it is known to be there. Nobody takes an address that the file gives somebody, unless that one is cut off.
    fn learn(&self, entry: Entry, now: Time, packet: &Packet) {
        let (source, host) = (packet.source(), NodeId(entry.key.host as u32));
        if !self.plan.tables().ports.learns_from(host)
            || !self.graph.learns(self.plan.tables(), self.plan.map().far(entry.port))
            || self.plan.host_table().by_mac(source).is_some_and(|owner| !self.is_cut_off(entry, owner))
        {
            return;
        }
        if let Some(vlan) = self.vlan_of(entry, packet) {
            self.plan.macs().learn((vlan, source), host, self.edge.clock.uptime_at(now));
        }
    }

    /// Where a frame goes that is for an address which no host of the file has.
    fn find_learned(&self, entry: Entry, now: Time, packet: &Packet) -> Ingress {
        let (vlan, mac) = (self.vlan_of(entry, packet), packet.destination());
        let hash = FlowKey::parse(packet.ethernet()).map_or(FlowHash(0), |key| key.hash());
        let found = vlan.and_then(|vlan| self.plan.macs().lookup((vlan, mac), self.edge.clock.uptime_at(now)));
        match found {
            None => Ingress::Drop(DropReason::UnknownDestination { mac, hash }),
            // It was heard last in another part of the network, which is joined with this one by what the file does not know.
            Some(to) if !self.reaches(entry, to) => Ingress::Drop(DropReason::UnknownDestination { mac, hash }),
            Some(to) if usize::from(to) == entry.key.host => Ingress::Drop(DropReason::SamePort),
            Some(to) => Ingress::Forward(Forwarding { to, hash }),
        }
    }

    /// Whether what is for an address that nobody knows goes anywhere: to a switch whose flows may be for it, or to all who may have the address.
    pub(super) fn may_go_to_unknown(&self) -> bool {
        self.plan.asks_flows() || self.plan.tables().ports.floods_unknown()
    }

    /// What is for an address that nobody knows goes to all who may have it, or else first to a switch whose flows may be for it.
    pub(super) fn enter_to_unknown(&mut self, entry: Entry, now: Time, mut packet: Packet, hash: FlowHash) {
        if self.plan.asks_flows() {
            self.edge.stamp(now, &mut packet, Forwarding { to: UNKNOWN, hash }, Tag::None);
            // A bond, or a host with several ports, chooses where a packet leaves that is for somebody; this one leaves where it has come.
            if !self.plan.map().taker(entry.port).is_direct() {
                return self.depart_alone(entry, now, packet);
            }
            return self.edge.entering.push(packet);
        }
        if !self.edge.may_flood(entry.key.host, now, &packet) {
            return self.edge.pool.put(packet);
        }
        self.edge.stamp(now, &mut packet, Forwarding { to: FLOOD, hash }, Tag::None);
        self.edge.entering.push(packet);
    }
}
