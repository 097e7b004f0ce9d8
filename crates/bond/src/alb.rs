//! balance-alb's receiving side: the bond announces to each peer the MAC address of another member, so that what peers send comes in on all
//! of them. IPv4 by ARP as in the driver; IPv6 by neighbour discovery likewise, which the driver lacks.
//!
//! The bond rewrites the answers that the host sends. When members come or go, it moves peers to other members, and announces that by an
//! answer that they did not ask for. A broadcast request shows everyone the active member's address; so the bond announces all again.

use std::net::IpAddr;

use machine::{Rebase, Span, Time};
use wire::{ArpOperation, ArpRepr, is_group};

use crate::accept::Resolution;
use crate::member::Member;
use crate::transmit::Table;
use crate::{Bond, ControlFrame, MEMBERS_MAX, MemberId};

/// Peers that the bond distinguishes at most; the one that was silent longest makes room.
pub const PEERS_MAX: usize = 256;
/// How often a change is announced to a peer: the frame may be lost.
const ANNOUNCE_TIMES: u8 = 2;
/// The time between announcements, and after a request of the host, so that the announcement comes after what peers learned from the request.
const ANNOUNCE_INTERVAL: Span = Span::from_ms(100);

/// What is announced to one peer about one of the host's addresses.
#[derive(Clone, Debug)]
struct Peer {
    local: IpAddr,
    remote: IpAddr,
    vlan: Option<u16>,
    /// Unknown until it spoke or was answered.
    mac: Option<[u8; 6]>,
    member: MemberId,
    /// How many announcements are still to be sent.
    announcements_left: u8,
    used: Time,
}

/// All peers that the bond distinguishes.
#[derive(Clone, Debug)]
pub(crate) struct Alb {
    peers: Vec<Peer>,
    pub(crate) next: Time,
}

impl Default for Alb {
    fn default() -> Self {
        Self { peers: Vec::new(), next: Time::NEVER }
    }
}

impl Alb {
    fn find(&mut self, local: IpAddr, remote: IpAddr) -> Option<&mut Peer> {
        self.peers.iter_mut().find(|known| known.local == local && known.remote == remote)
    }

    /// The peer, made known if it is not. `None` if nobody is usable.
    fn entry(&mut self, now: Time, table: &Table, local: IpAddr, remote: IpAddr) -> Option<&mut Peer> {
        if self.find(local, remote).is_none() {
            if self.peers.len() >= PEERS_MAX {
                let oldest = (0..self.peers.len()).min_by_key(|&at| self.peers[at].used);
                self.peers.swap_remove(oldest.expect("the table is full"));
            }
            let member = self.emptiest(table)?;
            self.peers.push(Peer { local, remote, vlan: None, mac: None, member, announcements_left: 0, used: now });
        }
        let known = self.find(local, remote)?;
        known.used = now;
        Some(known)
    }

    fn counts(&self) -> [u32; MEMBERS_MAX] {
        let mut counts = [0; MEMBERS_MAX];
        for peer in &self.peers {
            counts[peer.member.index()] += 1;
        }
        counts
    }

    fn emptiest(&self, table: &Table) -> Option<MemberId> {
        let counts = self.counts();
        table.as_slice().iter().copied().min_by_key(|member| counts[member.index()])
    }

    /// Moves peers from members that are gone, then from the fullest to the emptiest until they differ by one at most.
    fn rebalance(&mut self, now: Time, table: &Table) {
        let mut has_moved = false;
        for at in 0..self.peers.len() {
            let is_lost = !table.set().contains(self.peers[at].member);
            if let Some(to) = self.emptiest(table)
                && (is_lost || self.counts()[self.peers[at].member.index()] > self.counts()[to.index()] + 1)
            {
                (self.peers[at].member, self.peers[at].announcements_left) = (to, ANNOUNCE_TIMES);
                has_moved = true;
            }
        }
        if has_moved {
            self.next = now;
        }
    }
}

impl Bond {
    pub(crate) fn alb_members_changed(&mut self, now: Time) {
        self.alb.rebalance(now, &self.table);
    }

    /// When the next announcement is due.
    #[inline]
    pub(crate) const fn announce_at(&self) -> Time {
        self.alb.next
    }

    /// Announces to all peers again, since the members' addresses changed.
    pub(crate) fn alb_announce_all(&mut self, now: Time) {
        for peer in &mut self.alb.peers {
            peer.announcements_left = ANNOUNCE_TIMES;
        }
        if !self.alb.peers.is_empty() {
            self.alb.next = now;
        }
    }

    /// What balance-alb announces to each peer: the host's address, the peer's, and the member by whose MAC address the peer knows the host.
    pub fn peers(&self) -> impl Iterator<Item = (IpAddr, IpAddr, MemberId)> {
        self.alb.peers.iter().map(|known| (known.local, known.remote, known.member))
    }

    /// Rewrites what the host announces as its link-layer address. The frame leaves on the returned member.
    pub(crate) fn alb_outgoing(&mut self, now: Time, resolution: &Resolution, frame: &mut [u8]) -> Option<MemberId> {
        let &Resolution { sender, target, .. } = resolution;
        // What a host behind the host announces is not the bond's to change.
        if !self.is_own_mac(resolution.sender_mac) {
            return None;
        }
        if !resolution.is_reply && resolution.message_at.is_none() {
            // Everyone hears a broadcast request and learns the active member's address from it.
            for peer in self.alb.peers.iter_mut().filter(|peer| peer.local == sender) {
                peer.announcements_left = ANNOUNCE_TIMES;
            }
            self.alb.next = self.alb.next.min(now + ANNOUNCE_INTERVAL);
        }
        if target.is_multicast() || target.is_unspecified() || sender.is_unspecified() || sender == target {
            return None;
        }
        let known = self.alb.entry(now, &self.table, sender, target)?;
        known.vlan = resolution.vlan;
        if resolution.is_reply && !is_group(resolution.dst_mac) {
            known.mac = Some(resolution.dst_mac);
        }
        let member = known.member;
        if !resolution.is_reply && resolution.message_at.is_none() {
            return None;
        }
        let mac = self.member(member)?.mac();
        resolution.rewrite(frame, mac)?;
        Some(member)
    }

    /// Learns a peer's address from what it says to us.
    pub(crate) fn alb_heard(&mut self, now: Time, resolution: &Resolution) {
        let &Resolution { sender, target, sender_mac, .. } = resolution;
        if !resolution.is_reply || is_group(sender_mac) {
            return;
        }
        if let Some(known) = self.alb.find(target, sender)
            && known.mac != Some(sender_mac)
        {
            (known.mac, known.announcements_left, known.used) = (Some(sender_mac), ANNOUNCE_TIMES, now);
            self.alb.next = self.alb.next.min(now + ANNOUNCE_INTERVAL);
        }
    }

    /// Sends the announcements that are due.
    pub(crate) fn alb_announce(&mut self, now: Time) {
        let mut is_left = false;
        let mut due = Vec::new();
        for peer in self.alb.peers.iter_mut().filter(|peer| peer.announcements_left > 0 && peer.mac.is_some()) {
            peer.announcements_left -= 1;
            is_left |= peer.announcements_left > 0;
            due.push(peer.clone());
        }
        self.alb.next = if is_left { now + ANNOUNCE_INTERVAL } else { Time::NEVER };
        for peer in due {
            let mac = self.member(peer.member).map(Member::mac);
            if let Some(frame) = mac.and_then(|mac| peer.announcement(mac)) {
                self.send(peer.member, frame);
            }
        }
    }

    /// The bond leaves balance-alb: it announces its one address to its peers and forgets them.
    pub(crate) fn alb_end(&mut self) {
        self.alb.next = Time::NEVER;
        let peers = std::mem::take(&mut self.alb.peers);
        let (Some(member), Some(mac)) = (self.active, self.mac) else { return };
        for frame in peers.iter().filter_map(|peer| peer.announcement(mac)) {
            self.send(member, frame);
        }
    }
}

impl Peer {
    /// The frame that announces `mac`, if the peer's own address is known.
    fn announcement(&self, mac: [u8; 6]) -> Option<ControlFrame> {
        let peer_mac = self.mac?;
        match (self.local, self.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                let message = ArpRepr {
                    operation: ArpOperation::Reply,
                    sender_mac: mac,
                    sender_ipv4: local,
                    target_mac: peer_mac,
                    target_ipv4: remote,
                };
                Some(ControlFrame::arp(&message, peer_mac, self.vlan))
            }
            (IpAddr::V6(local), IpAddr::V6(remote)) => {
                Some(ControlFrame::advertisement(mac, local, Some((peer_mac, remote)), self.vlan))
            }
            _ => None,
        }
    }
}

impl Rebase for Alb {
    fn rebase(&mut self, by: Span) {
        let Self { peers, next } = self;
        peers.rebase(by);
        next.rebase(by);
    }
}

impl Rebase for Peer {
    fn rebase(&mut self, by: Span) {
        let Self { local: _, remote: _, vlan: _, mac: _, member: _, announcements_left: _, used } = self;
        used.rebase(by);
    }
}
