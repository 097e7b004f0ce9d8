//! Memberships of IPv4 multicast groups: after a fail-over they are reported again on the member that is active from then on, so
//! that a switch that looks at reports (RFC 4541) sends the groups there at once, and not only after the next query.
//!
//! The driver asks the host's own stack for the reports (`resend_igmp`). Here the host is another program, so that its
//! memberships are learned from the reports that it sends through the bond: IGMP versions 1 to 3 (RFC 1112, 2236, 3376).
//! The table is bounded by [`GROUPS_MAX`]; a group that leaves makes room, and those beyond it are not reported again.
//!
//! A host that asks for many sources of a group is reported as asking for all of them: a switch forwards by group.

use std::net::Ipv4Addr;

use machine::{Rebase, Span, Time};
use wire::{EthernetPacket, Ipv4Packet, ethertype};

use crate::{Bond, ControlFrame};

/// Memberships that are known at most.
pub const GROUPS_MAX: usize = 64;
/// Sources of a group that are known at most; a report with them fits a [`ControlFrame`].
const SOURCES_MAX: usize = 8;
/// Between two times that reports are sent again (the driver's `IGMP_RETRANS`, and its document).
const RESEND_INTERVAL: Span = Span::from_ms(200);

/// Types of messages.
const REPORT_V1: u8 = 0x12;
const REPORT_V2: u8 = 0x16;
const LEAVE_V2: u8 = 0x17;
const REPORT_V3: u8 = 0x22;
/// Types of a version 3 report's records (RFC 3376, 4.2.12).
const IS_INCLUDE: u8 = 1;
const IS_EXCLUDE: u8 = 2;
const TO_INCLUDE: u8 = 3;
const TO_EXCLUDE: u8 = 4;
const ALLOW: u8 = 5;
const BLOCK: u8 = 6;
/// Where reports of version 3 go.
const ALL_V3_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);
/// Of all hosts; nobody reports it (RFC 3376, 6).
const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// Router alert (RFC 2113).
const ROUTER_ALERT: [u8; 4] = [0x94, 4, 0, 0];

/// A group that the host behind the bond is in.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Membership {
    group: Ipv4Addr,
    vlan: Option<u16>,
    /// The host that the last report came from.
    sender: Ipv4Addr,
    version: u8,
    /// In version 3, the only sources that are wanted; empty for all.
    sources: Vec<Ipv4Addr>,
}

/// The memberships that are known, and when they are announced again.
#[derive(Clone, Debug)]
pub(crate) struct Memberships {
    groups: Vec<Membership>,
    left: u8,
    pub(crate) next: Time,
}

impl Memberships {
    pub(crate) const fn new() -> Self {
        Self { groups: Vec::new(), left: 0, next: Time::NEVER }
    }

    /// Learns from a frame that the host sends. Whatever is malformed says nothing.
    fn read(&mut self, frame: &[u8]) -> Option<()> {
        let ethernet = EthernetPacket::new_checked(frame).ok()?;
        if ethernet.ethertype() != ethertype::IPV4 {
            return None;
        }
        let ip = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
        let message = ip.payload();
        if ip.is_fragment() || wire::checksum::internet(message) != 0 {
            return None;
        }
        let from = (ethernet.vlan(), ip.src());
        let header = message.first_chunk::<8>()?;
        let group = Ipv4Addr::new(header[4], header[5], header[6], header[7]);
        match header[0] {
            REPORT_V1 => self.join(from, group, 1, Vec::new()),
            REPORT_V2 => self.join(from, group, 2, Vec::new()),
            LEAVE_V2 => self.leave(from, group),
            REPORT_V3 => self.read_records(from, u16::from_be_bytes([header[6], header[7]]), &message[8..])?,
            _ => {}
        }
        Some(())
    }

    fn read_records(&mut self, from: (Option<u16>, Ipv4Addr), count: u16, mut records: &[u8]) -> Option<()> {
        for _ in 0..count {
            let (header, rest) = records.split_first_chunk::<8>()?;
            let sources_len = usize::from(u16::from_be_bytes([header[2], header[3]])) * 4;
            let (sources, rest) = rest.split_at_checked(sources_len)?;
            records = rest.get(usize::from(header[1]) * 4..)?;
            let group = Ipv4Addr::new(header[4], header[5], header[6], header[7]);
            let sources = sources.as_chunks::<4>().0.iter().map(|&octets| Ipv4Addr::from(octets));
            self.record(from, (header[0], group), sources.take(SOURCES_MAX + 1).collect());
        }
        Some(())
    }

    /// One record. What it blocks is not taken away, since a switch forwards by group.
    fn record(&mut self, from: (Option<u16>, Ipv4Addr), (kind, group): (u8, Ipv4Addr), sources: Vec<Ipv4Addr>) {
        let known = self.find(from.0, group).map(|at| self.groups[at].sources.clone());
        match (kind, known) {
            (IS_INCLUDE | TO_INCLUDE, _) if sources.is_empty() => self.leave(from, group),
            (IS_INCLUDE | TO_INCLUDE, _) | (ALLOW, None) => self.join(from, group, 3, sources),
            (IS_EXCLUDE | TO_EXCLUDE, _) => self.join(from, group, 3, Vec::new()),
            // All are wanted already, or these too.
            (ALLOW, Some(known)) if !known.is_empty() => {
                let more = sources.into_iter().filter(|source| !known.contains(source));
                self.join(from, group, 3, known.iter().copied().chain(more).collect());
            }
            (BLOCK, Some(known)) if !known.is_empty() => {
                let left: Vec<_> = known.into_iter().filter(|source| !sources.contains(source)).collect();
                if left.is_empty() { self.leave(from, group) } else { self.join(from, group, 3, left) }
            }
            _ => {}
        }
    }

    fn find(&self, vlan: Option<u16>, group: Ipv4Addr) -> Option<usize> {
        self.groups.iter().position(|known| known.group == group && known.vlan == vlan)
    }

    fn join(
        &mut self,
        (vlan, sender): (Option<u16>, Ipv4Addr),
        group: Ipv4Addr,
        version: u8,
        mut sources: Vec<Ipv4Addr>,
    ) {
        if !group.is_multicast() || group == ALL_HOSTS {
            return;
        }
        if sources.len() > SOURCES_MAX {
            sources.clear();
        }
        let membership = Membership { group, vlan, sender, version, sources };
        match self.find(vlan, group) {
            Some(at) => self.groups[at] = membership,
            None if self.groups.len() < GROUPS_MAX => self.groups.push(membership),
            None => {}
        }
    }

    fn leave(&mut self, (vlan, _): (Option<u16>, Ipv4Addr), group: Ipv4Addr) {
        if let Some(at) = self.find(vlan, group) {
            self.groups.swap_remove(at);
        }
    }
}

impl Membership {
    /// A report that says it again.
    fn report(&self, mac: [u8; 6]) -> ControlFrame {
        let mut message = [0; 16 + 4 * SOURCES_MAX];
        let (dst, len) = if self.version == 3 {
            message[0] = REPORT_V3;
            message[7] = 1;
            message[8] = if self.sources.is_empty() { IS_EXCLUDE } else { IS_INCLUDE };
            message[11] = self.sources.len() as u8;
            message[12..16].copy_from_slice(&self.group.octets());
            for (place, source) in message[16..].chunks_exact_mut(4).zip(&self.sources) {
                place.copy_from_slice(&source.octets());
            }
            (ALL_V3_ROUTERS, 16 + 4 * self.sources.len())
        } else {
            message[0] = if self.version == 1 { REPORT_V1 } else { REPORT_V2 };
            message[4..8].copy_from_slice(&self.group.octets());
            (self.group, 8)
        };
        let sum = wire::checksum::internet(&message[..len]);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        ControlFrame::igmp(mac, (self.sender, dst), ROUTER_ALERT, &message[..len], self.vlan)
    }
}

impl Bond {
    /// Learns memberships from what the host sends, where they will be asked for.
    pub(crate) fn learn_memberships(&mut self, frame: &[u8]) {
        if self.config.resend_igmp > 0 && self.config.mode.rejoins() {
            self.memberships.read(frame);
        }
    }

    /// Another member is active: groups are reported there.
    pub(crate) fn rejoin(&mut self, now: Time) {
        if self.config.mode.rejoins() {
            self.memberships.left = self.config.resend_igmp;
            self.memberships.next = now;
            self.expire_rejoin(now);
        }
    }

    pub(crate) fn expire_rejoin(&mut self, now: Time) {
        let memberships = &mut self.memberships;
        if memberships.next > now {
            return;
        }
        if memberships.left == 0 || memberships.groups.is_empty() {
            memberships.next = Time::NEVER;
            return;
        }
        memberships.left -= 1;
        memberships.next = if memberships.left == 0 { Time::NEVER } else { now + RESEND_INTERVAL };
        let (Some(active), Some(mac)) = (self.active, self.mac) else { return };
        let reports: Vec<_> = memberships.groups.iter().map(|known| known.report(mac)).collect();
        for report in reports {
            self.send(active, report);
        }
    }
}

impl Rebase for Memberships {
    fn rebase(&mut self, by: Span) {
        let Self { groups: _, left: _, next } = self;
        next.rebase(by);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];
    const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 7);
    const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);

    fn membership(version: u8, sources: &[Ipv4Addr]) -> Membership {
        Membership { group: GROUP, vlan: Some(5), sender: HOST, version, sources: sources.to_vec() }
    }

    #[test]
    fn reports_are_read_as_they_are_written() {
        let sources: Vec<_> = (1..=SOURCES_MAX as u8).map(|n| Ipv4Addr::new(192, 0, 2, n)).collect();
        for known in [membership(1, &[]), membership(2, &[]), membership(3, &[]), membership(3, &sources)] {
            let mut read = Memberships::new();
            read.read(known.report(MAC).as_bytes()).unwrap();
            assert_eq!(read.groups, [known]);
        }
    }

    #[test]
    fn a_report_is_a_whole_frame() {
        let frame = membership(2, &[]).report(MAC);
        let ethernet = EthernetPacket::new_checked(frame.as_bytes()).unwrap();
        assert_eq!((ethernet.dst(), ethernet.src(), ethernet.vlan()), ([1, 0, 0x5e, 1, 2, 3], MAC, Some(5)));
        let ip = Ipv4Packet::new_checked(ethernet.payload()).unwrap();
        assert!(ip.is_checksum_right());
        assert_eq!((ip.src(), ip.dst(), ip.ttl(), ip.protocol(), ip.options()), (HOST, GROUP, 1, 2, &ROUTER_ALERT[..]));
        assert_eq!((ip.payload()[0], ip.payload().len()), (REPORT_V2, 8));
        let of_version_3 = membership(3, &[]).report(MAC);
        assert_eq!(of_version_3.as_bytes()[..6], [1, 0, 0x5e, 0, 0, 22]);
    }

    /// The sources that are wanted after these records; `None`: the group was left.
    fn after(records: &[(u8, u8)]) -> Option<usize> {
        let mut memberships = Memberships::new();
        for &(kind, sources) in records {
            let sources = (0..sources).map(|n| Ipv4Addr::new(192, 0, 2, n)).collect();
            memberships.record((None, HOST), (kind, GROUP), sources);
        }
        memberships.groups.first().map(|known| known.sources.len())
    }

    #[test]
    fn records_of_version_3_join_and_leave() {
        assert_eq!(after(&[(TO_EXCLUDE, 0)]), Some(0));
        assert_eq!(after(&[(TO_EXCLUDE, 0), (TO_INCLUDE, 0)]), None);
        assert_eq!(after(&[(ALLOW, 2)]), Some(2));
        assert_eq!(after(&[(ALLOW, 2), (ALLOW, 3)]), Some(3));
        assert_eq!(after(&[(IS_EXCLUDE, 0), (ALLOW, 3)]), Some(0), "all are wanted already");
        assert_eq!(after(&[(ALLOW, 3), (BLOCK, 2)]), Some(1));
        assert_eq!(after(&[(ALLOW, 3), (BLOCK, 3)]), None);
        assert_eq!(after(&[(BLOCK, 3)]), None);
        assert_eq!(after(&[(IS_INCLUDE, SOURCES_MAX as u8 + 1)]), Some(0), "more than fit are all");
    }

    #[test]
    fn the_table_is_bounded_and_leaves_make_room() {
        let mut memberships = Memberships::new();
        let group = |n: u8| Ipv4Addr::new(239, 0, 0, n);
        for n in 0..=GROUPS_MAX as u8 {
            memberships.join((None, HOST), group(n), 2, Vec::new());
        }
        assert_eq!(memberships.groups.len(), GROUPS_MAX);
        memberships.leave((None, HOST), group(3));
        memberships.join((None, HOST), group(200), 2, Vec::new());
        assert_eq!(memberships.find(None, group(200)), Some(GROUPS_MAX - 1));
        for nothing in [ALL_HOSTS, Ipv4Addr::new(10, 0, 0, 1)] {
            memberships.leave((None, HOST), group(200));
            memberships.join((None, HOST), nothing, 2, Vec::new());
            assert_eq!(memberships.find(None, nothing), None);
        }
    }

    proptest! {
        #[test]
        fn any_message_is_read(bytes in proptest::collection::vec(any::<u8>(), 0..120), kind in 0_u8..7) {
            let mut message = [&[REPORT_V3, 0, 0, 0, 0, 0, 0, 3, kind, 0][..], &bytes].concat();
            message.truncate(40);
            let len = message.len();
            if len >= 8 {
                let sum = wire::checksum::internet(&message);
                message[2..4].copy_from_slice(&sum.to_be_bytes());
            }
            let frame = ControlFrame::igmp(MAC, (HOST, GROUP), ROUTER_ALERT, &message, None);
            let mut memberships = Memberships::new();
            memberships.read(frame.as_bytes());
            memberships.read(&bytes);
            for known in &memberships.groups {
                prop_assert!(known.group.is_multicast() && known.sources.len() <= SOURCES_MAX);
                prop_assert!(known.report(MAC).as_bytes().len() >= 60);
            }
        }
    }
}
