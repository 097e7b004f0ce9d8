//! Which member is the active one, and which MAC address each has.

use machine::Time;

use crate::bond::{Bond, Event};
use crate::config::{FailOverMac, Mode, PrimaryReselect};
use crate::member::{LinkState, Member};
use crate::{ControlFrame, MemberId};

impl Bond {
    /// Sets the active member right after a change.
    pub(crate) fn select(&mut self, now: Time) {
        let best = self.best();
        self.force_primary = false;
        if best != self.active {
            self.activate(now, best);
        }
    }

    /// The driver's `bond_find_best_slave`: the primary if it may, the current one while it lasts, else the one that joined first.
    fn best(&self) -> Option<MemberId> {
        let link = |id: MemberId| self.member(id).map(Member::link);
        let current = self.active.filter(|&id| self.member(id).is_some_and(Member::is_usable));
        let primary = self.primary().filter(|&id| link(id) == Some(LinkState::Up));
        if let Some(primary) = primary
            && self.primary_takes_over(primary, current)
        {
            return Some(primary);
        }
        current.or_else(|| self.order.iter().copied().find(|&id| link(id) == Some(LinkState::Up)))
    }

    fn primary(&self) -> Option<MemberId> {
        let name = self.config.primary.as_deref().filter(|_| self.config.mode.has_active())?;
        self.members().find(|(_, member)| member.name() == name).map(|(id, _)| id)
    }

    fn primary_takes_over(&self, primary: MemberId, current: Option<MemberId>) -> bool {
        let Some(current) = current.filter(|_| !self.force_primary) else { return true };
        let worth = |id: MemberId| {
            let carrier = self.member(id).map(Member::carrier);
            carrier.map(|carrier| (carrier.speed_mbps, carrier.full_duplex))
        };
        match self.config.primary_reselect {
            PrimaryReselect::Always => true,
            PrimaryReselect::Better => worth(primary) > worth(current),
            PrimaryReselect::Failure => false,
        }
    }

    fn activate(&mut self, now: Time, active: Option<MemberId>) {
        let from = self.active;
        self.active = active;
        if let Some(member) = active.and_then(|id| self.members[id.index()].as_mut()) {
            member.changed_at = now;
        }
        if self.config.mode.has_active() {
            self.event(Event::Active { from, to: active });
        }
        self.give_addresses();
        if active.is_none() {
            return;
        }
        self.rejoin(now);
        match self.config.mode {
            Mode::ActiveBackup => self.announce(now),
            mode if mode.keeps_addresses() => {
                self.teach(|_| true);
                self.alb_announce_all(now);
            }
            _ => {}
        }
    }

    /// The address of each member: the bond's own in most modes. Where members keep their own, the active one has the
    /// bond's, and whoever it was borrowed from has the active one's instead, so that no address is there twice.
    pub(crate) fn give_addresses(&mut self) {
        let mode = self.config.mode;
        let policy = if mode == Mode::ActiveBackup { self.config.fail_over_mac } else { FailOverMac::None };
        let of_active = self.active.and_then(|id| self.member(id)).map(Member::permanent_mac);
        // Where the policy was another before, the bond has the address of the device above again.
        let wanted = if policy == FailOverMac::Active { of_active } else { self.device_mac };
        if let Some(mac) = wanted.filter(|mac| self.mac != Some(*mac)) {
            self.mac = Some(mac);
            self.event(Event::BondMac(mac));
        }
        let Some(bond) = self.mac else { return };
        let one_each = mode.keeps_addresses() || policy == FailOverMac::Follow;
        for id in self.order.clone() {
            let active = self.active;
            let Some(member) = self.members[id.index()].as_mut() else { continue };
            let mac = match () {
                () if policy == FailOverMac::Active => member.permanent_mac,
                () if !one_each || active == Some(id) => bond,
                () if member.permanent_mac == bond => of_active.unwrap_or(bond),
                () => member.permanent_mac,
            };
            if member.mac != mac {
                member.mac = mac;
                self.event(Event::MemberMac { member: id, mac });
            }
        }
    }

    /// Shows the switch which address is behind which of these members.
    pub(crate) fn teach(&mut self, which: impl Fn(MemberId) -> bool) {
        let members: Vec<_> = self.table.as_slice().iter().copied().filter(|&id| which(id)).collect();
        for id in members {
            if let Some(mac) = self.member(id).map(Member::mac) {
                self.send(id, ControlFrame::learning(mac));
            }
        }
    }
}
