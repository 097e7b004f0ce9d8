//! The addresses of the host behind the bond, and how neighbours and switches hear of a fail-over: gratuitous ARP (RFC 5227, 3)
//! and unsolicited neighbour advertisements (RFC 4861, 7.2.6).

use std::net::IpAddr;

use machine::{Span, Time};

use crate::{Bond, ControlFrame};

/// The bond's own addresses that are known at most.
pub const ADDRESSES_MAX: usize = 64;
/// Between announcements if `peer_notif_delay` and `miimon` are 0. The driver has no other clock than `miimon` for it.
const ANNOUNCEMENT_INTERVAL: Span = Span::from_ms(100);

/// An address of the host behind the bond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Own {
    pub(crate) ip: IpAddr,
    pub(crate) vlan: Option<u16>,
}

impl Bond {
    /// The addresses of the host behind the bond: they are announced after a fail-over and probes come from them. More are
    /// learned from the host's address resolution. Those beyond [`ADDRESSES_MAX`] are left out.
    pub fn set_addresses(&mut self, addresses: &[IpAddr]) {
        self.own.clear();
        for &ip in addresses {
            self.learn_own(Own { ip, vlan: None });
        }
    }

    pub(crate) fn learn_own(&mut self, own: Own) {
        let is_usable = !own.ip.is_unspecified() && !own.ip.is_multicast();
        if is_usable && self.own.len() < ADDRESSES_MAX && !self.own.contains(&own) {
            self.own.push(own);
        }
    }

    /// Announces the bond's addresses behind the active member, `num_grat_arp` times.
    pub(crate) fn announce(&mut self, now: Time) {
        self.announcements_left = self.config.num_grat_arp;
        self.announce_at = now;
        self.expire_announcement(now);
    }

    pub(crate) fn expire_announcement(&mut self, now: Time) {
        if self.announce_at > now || self.announcements_left == 0 {
            return;
        }
        self.announcements_left -= 1;
        let interval = [self.config.peer_notif_delay, self.config.miimon]
            .into_iter()
            .find(|span| *span > Span::ZERO)
            .unwrap_or(ANNOUNCEMENT_INTERVAL);
        self.announce_at = if self.announcements_left == 0 { Time::NEVER } else { now + interval };
        let (Some(active), Some(mac)) = (self.active, self.mac) else { return };
        for Own { ip, vlan } in self.own.clone() {
            let frame = match ip {
                IpAddr::V4(ip) => ControlFrame::gratuitous_arp(mac, ip, vlan),
                IpAddr::V6(ip) => ControlFrame::advertisement(mac, ip, None, vlan),
            };
            self.send(active, frame);
        }
    }
}
