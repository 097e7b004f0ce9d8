//! What becomes of a frame that arrives on a member.

use std::net::IpAddr;

use machine::Time;
use wire::{ArpOperation, ArpPacket, EthernetPacket, Ipv6Packet, NeighbourPacket, ethertype, is_group, protocol};

use crate::announce::Own;
use crate::config::Mode;
use crate::member::Member;
use crate::{Bond, Kind, MemberId, MemberSet, Summary, Transmit};

/// What becomes of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// The host above the bond gets it.
    Deliver,
    /// The same, with this destination address: the peer knows the bond by a member's.
    DeliverTo([u8; 6]),
    /// It is for the member's LACP machines.
    Lacp,
    /// Nobody gets it.
    Drop(Refusal),
}

/// Why an arrival is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It came by a device that is no member.
    NotAMember,
    /// The member does not receive for the bond now: it is a copy, or a switch does not know better yet.
    Inactive,
}

impl Bond {
    /// Whether the host gets a frame that came by `id`. In active-backup and balance-tlb only the active member receives; in
    /// balance-alb the others receive what is sent to their own address; in 802.3ad those that LACP lets collect. In the other modes
    /// everything is delivered, also the copies of broadcast.
    #[inline]
    pub fn accept(&self, id: MemberId, frame: &Summary) -> Accept {
        if self.member(id).is_none() {
            return Accept::Drop(Refusal::NotAMember);
        }
        let config = &self.config;
        if config.mode == Mode::Ad8023 && frame.kind == Kind::Slow {
            return Accept::Lacp;
        }
        let is_inactive = !config.all_slaves_active
            && match config.mode {
                Mode::ActiveBackup | Mode::BalanceTlb => self.active != Some(id),
                Mode::BalanceAlb => !self.receives_in_alb(id, frame.dst_mac),
                Mode::Ad8023 => !self.collecting().contains(id),
                Mode::BalanceRr | Mode::BalanceXor | Mode::Broadcast => false,
            };
        if is_inactive {
            return Accept::Drop(Refusal::Inactive);
        }
        let above = if config.mode.keeps_addresses() {
            self.mac
        } else if config.answers_by_member() {
            self.device_mac
        } else {
            None
        };
        match above {
            // A peer knows the bond by a member's address, which may be that of a member that is down.
            Some(mac) if frame.dst_mac != mac && self.is_own_mac(frame.dst_mac) => Accept::DeliverTo(mac),
            _ => Accept::Deliver,
        }
    }

    /// The members by which frames come that [`Bond::accept`] delivers as they are, whatever they are, and of which nothing is noted. None where that goes
    /// by the frame.
    pub(crate) fn open_members(&self) -> MemberSet {
        let config = &self.config;
        let looks_at_frames =
            config.mode == Mode::Ad8023 || config.mode.keeps_addresses() || config.answers_by_member();
        if self.is_probing || looks_at_frames {
            return MemberSet::EMPTY;
        }
        let all = self.order.iter().copied();
        let is_one = config.mode == Mode::ActiveBackup && !config.all_slaves_active;
        all.filter(|id| !is_one || self.active == Some(*id)).collect()
    }

    /// Whether `id` receives what is sent to `to`, in balance-alb. A switch that does not know where an address is sends it over all, so
    /// that exactly one member may take it: the one that has the address, or the active one while that one has no carrier.
    fn receives_in_alb(&self, id: MemberId, to: [u8; 6]) -> bool {
        let is_active = self.active == Some(id);
        if is_group(to) {
            return is_active;
        }
        match self.members().find(|(_, member)| member.mac == to) {
            Some((owner, member)) => owner == id || (is_active && !member.carrier.up),
            // The bond's own address while nobody has it; what is for others than the host went to the member where they were seen.
            None => is_active || self.mac != Some(to),
        }
    }

    /// [`Bond::accept`] for a frame as bytes; probes' answers and peers' addresses are read from it besides.
    pub fn receive_frame(&mut self, now: Time, id: MemberId, frame: &[u8]) -> Accept {
        let summary = Summary::of_arrival(frame);
        let resolution = matches!(summary.kind, Kind::Arp | Kind::Neighbour).then(|| Resolution::read(frame)).flatten();
        if self.is_probing {
            self.heard(now, id, summary.kind, resolution.as_ref());
        }
        if self.config.mode == Mode::BalanceAlb
            && let Some(resolution) = &resolution
        {
            self.alb_heard(now, resolution);
        }
        self.accept(id, &summary)
    }

    /// [`Bond::transmit`] for a frame as bytes: the source address is put right, in balance-alb also what the peer is told
    /// by address resolution, and the host's addresses are learned.
    pub fn transmit_frame(&mut self, now: Time, frame: &mut [u8]) -> Transmit {
        let summary = Summary::of(&self.config, frame);
        self.transmit_read(now, &summary, frame)
    }

    /// [`Bond::transmit_frame`] for a frame that was read already.
    #[inline]
    pub(crate) fn transmit_read(&mut self, now: Time, summary: &Summary, frame: &mut [u8]) -> Transmit {
        let chosen = match summary.kind {
            Kind::Arp | Kind::Neighbour => self.resolution_out(now, frame),
            Kind::Igmp => {
                self.learn_memberships(frame);
                None
            }
            _ => None,
        };
        let chosen = chosen.map_or_else(|| self.transmit(now, summary), Transmit::One);
        if let Transmit::One(member) = chosen {
            self.put_source(member, frame);
        }
        chosen
    }

    /// Address resolution by the host: its addresses are learned, and in balance-alb the member may be chosen by the peer.
    fn resolution_out(&mut self, now: Time, frame: &mut [u8]) -> Option<MemberId> {
        let resolution = Resolution::read(frame)?;
        if self.is_own_mac(resolution.sender_mac) {
            self.learn_own(Own { ip: resolution.sender, vlan: resolution.vlan });
        }
        if self.config.mode == Mode::BalanceAlb {
            return self.alb_outgoing(now, &resolution, frame);
        }
        if self.is_renamed()
            && self.device_mac == Some(resolution.sender_mac)
            && let Some(mac) = self.mac
        {
            resolution.rewrite(frame, mac);
        }
        None
    }

    /// Whether the network knows the bond by another address than the device above has: `fail_over_mac=active`, while another
    /// member than the one with that address is active.
    pub(crate) fn is_renamed(&self) -> bool {
        self.device_mac.is_some() && self.device_mac != self.mac
    }

    /// Puts the source address right for `member`.
    #[inline]
    pub(crate) fn put_source(&self, member: MemberId, frame: &mut [u8]) {
        if let Some(source) = frame.get_mut(6..12).and_then(<[u8]>::first_chunk_mut) {
            *source = self.source_on(member, *source);
        }
    }

    /// The source address with which a frame leaves by `member` that came with `source`.
    #[inline]
    pub fn source_on(&self, member: MemberId, source: [u8; 6]) -> [u8; 6] {
        match self.source_mac(member) {
            // In active-backup a host behind the host keeps its address.
            Some(mac) if self.config.mode.keeps_addresses() || self.device_mac == Some(source) => mac,
            _ => source,
        }
    }

    /// The source address of the host's own frames on `member`, where it is not the device's above: in balance-tlb and balance-alb a
    /// switch must not see one address on two ports, and with `fail_over_mac=active` it is the active member's.
    #[inline]
    pub fn source_mac(&self, member: MemberId) -> Option<[u8; 6]> {
        match self.config.mode {
            Mode::BalanceTlb | Mode::BalanceAlb if self.active != Some(member) => self.member(member).map(Member::mac),
            Mode::ActiveBackup if self.is_renamed() => self.mac,
            _ => None,
        }
    }

    /// Whether this is an address of the bond's: its own, a member's, or that of the device above. The host behind the bond sends with it, and
    /// not somebody behind the host; and what comes from it was sent here.
    pub fn is_own_mac(&self, mac: [u8; 6]) -> bool {
        [self.mac, self.device_mac].contains(&Some(mac)) || self.members().any(|(_, member)| member.mac == mac)
    }
}

/// An ARP or neighbour message in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resolution {
    /// Whether it answers or announces; else it asks.
    pub(crate) is_reply: bool,
    pub(crate) vlan: Option<u16>,
    /// The link-layer address that the message announces.
    pub(crate) sender_mac: [u8; 6],
    /// The IP address that it belongs to.
    pub(crate) sender: IpAddr,
    /// The IP address that is asked for, or that the message goes to.
    pub(crate) target: IpAddr,
    /// Destination of the frame.
    pub(crate) dst_mac: [u8; 6],
    /// Where `sender_mac` stands in the frame.
    pub(crate) mac_at: usize,
    /// Where the `ICMPv6` message stands in the frame; none for ARP.
    pub(crate) message_at: Option<usize>,
}

impl Resolution {
    /// `None` for a message that is malformed or announces no link-layer address.
    pub(crate) fn read(frame: &[u8]) -> Option<Self> {
        let ethernet = EthernetPacket::new_checked(frame).ok()?;
        let payload_at = frame.len() - ethernet.payload().len();
        match ethernet.ethertype() {
            ethertype::ARP => Self::read_arp(&ethernet, payload_at),
            ethertype::IPV6 => Self::read_neighbour(&ethernet, payload_at),
            _ => None,
        }
    }

    fn read_arp(ethernet: &EthernetPacket<'_>, payload_at: usize) -> Option<Self> {
        let arp = ArpPacket::new_checked(ethernet.payload()).ok()?;
        Some(Self {
            is_reply: arp.operation() == ArpOperation::Reply,
            vlan: ethernet.vlan(),
            sender_mac: arp.sender_mac(),
            sender: arp.sender_ipv4().into(),
            target: arp.target_ipv4().into(),
            dst_mac: ethernet.dst(),
            mac_at: payload_at + 8,
            message_at: None,
        })
    }

    fn read_neighbour(ethernet: &EthernetPacket<'_>, payload_at: usize) -> Option<Self> {
        let ip = Ipv6Packet::new_checked(ethernet.payload()).ok()?;
        // RFC 4861, 7.1: only what did not cross a router.
        if ip.next_header() != protocol::ICMPV6 || ip.hop_limit() != 255 {
            return None;
        }
        let message = NeighbourPacket::new_checked(ip.payload()).ok()?;
        let sender_mac = message.link_layer().filter(|_| message.is_checksum_right(ip.src(), ip.dst()))?;
        let message_at = payload_at + 40;
        let kind = if message.is_solicitation() { 1 } else { 2 };
        let (sender, target) =
            if message.is_solicitation() { (ip.src(), message.target()) } else { (message.target(), ip.dst()) };
        Some(Self {
            is_reply: !message.is_solicitation(),
            vlan: ethernet.vlan(),
            sender_mac,
            sender: sender.into(),
            target: target.into(),
            dst_mac: ethernet.dst(),
            mac_at: message_at + option_at(ip.payload(), kind)? + 2,
            message_at: Some(message_at),
        })
    }

    /// Puts `mac` in the place of the address that the message tells of, and the checksum of a neighbour message right (RFC 1624,
    /// equation 3). The address is three whole words of the message, since options are aligned. `None`: `frame` is shorter than the one
    /// that this was read from.
    pub(crate) fn rewrite(&self, frame: &mut [u8], mac: [u8; 6]) -> Option<()> {
        let place = frame.get_mut(self.mac_at..)?.first_chunk_mut::<6>()?;
        let old = std::mem::replace(place, mac);
        let Some(message_at) = self.message_at else { return Some(()) };
        let sum = frame.get_mut(message_at + 2..)?.first_chunk_mut::<2>()?;
        let mut total = u32::from(!u16::from_be_bytes(*sum));
        for (old, new) in old.as_chunks::<2>().0.iter().zip(mac.as_chunks::<2>().0) {
            total += u32::from(!u16::from_be_bytes(*old)) + u32::from(u16::from_be_bytes(*new));
        }
        while total > 0xffff {
            total = (total >> 16) + (total & 0xffff);
        }
        *sum = (!(total as u16)).to_be_bytes();
        Some(())
    }
}

/// Where the first option of this kind stands in a neighbour message.
fn option_at(message: &[u8], kind: u8) -> Option<usize> {
    let mut at = 24;
    loop {
        let &[this, units] = message.get(at..at + 2)? else { return None };
        if this == kind && units == 1 {
            return Some(at);
        }
        at += usize::from(units.max(1)) * 8;
    }
}
