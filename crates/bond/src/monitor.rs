//! Link monitoring by probes: ARP requests and neighbour solicitations to known targets, every `arp_interval`. It notices what
//! carrier does not show: a switch whose uplink is gone.
//!
//! Two ways, as in the driver: in active-backup the active member probes, and the backups live by what they hear of that; if
//! nobody is active the members probe in turn. In the other modes every member probes and must hear something.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use machine::{Rebase, Span, Time};

use crate::accept::Resolution;
use crate::announce::Own;
use crate::config::{ArpAllTargets, Mode, TARGETS_MAX};
use crate::member::{LinkState, Member};
use crate::{Bond, ControlFrame, Kind, MEMBERS_MAX, MemberId};

/// Both address families.
const ALL_TARGETS_MAX: usize = 2 * TARGETS_MAX;

#[derive(Clone, Copy, Debug)]
struct Signs {
    sent: Option<Time>,
    heard: Option<Time>,
    /// The last sign from each target, IPv4 first.
    targets: [Option<Time>; ALL_TARGETS_MAX],
}

const NOTHING: Signs = Signs { sent: None, heard: None, targets: [None; ALL_TARGETS_MAX] };

/// What was sent and heard, and when.
#[derive(Clone, Debug)]
pub(crate) struct Monitor {
    pub(crate) next: Time,
    signs: Box<[Signs]>,
    /// The member that probes while none is active (the driver's `current_arp_slave`).
    prober: Option<MemberId>,
}

impl Monitor {
    pub(crate) fn new(next: Time) -> Self {
        Self { next, signs: vec![NOTHING; MEMBERS_MAX].into_boxed_slice(), prober: None }
    }

    pub(crate) fn joined(&mut self, now: Time, id: MemberId) {
        self.signs[id.index()] = Signs { sent: Some(now), ..NOTHING };
    }

    #[inline]
    pub(crate) fn sent(&mut self, now: Time, id: MemberId) {
        self.signs[id.index()].sent = Some(now);
    }
}

impl Bond {
    /// Whether `at` is less than `intervals` and a half ago.
    fn is_recent(&self, now: Time, at: Option<Time>, intervals: u64) -> bool {
        let interval = self.config.arp_interval;
        let limit = interval * intervals + Span::from_ps(interval.as_ps() / 2);
        at.is_some_and(|at| now.since(at) <= limit)
    }

    /// When `id` last showed signs of life: of any target, or of the one that was silent longest.
    fn heard_at(&self, id: MemberId) -> Option<Time> {
        let signs = &self.monitor.signs[id.index()];
        let count = self.config.targets().count();
        match self.config.arp_all_targets {
            ArpAllTargets::All => signs.targets[..count].iter().copied().min().flatten(),
            ArpAllTargets::Any => signs.heard,
        }
    }

    /// The interval is over: judges the members, and sends the next probes.
    pub(crate) fn probe(&mut self, now: Time) {
        self.monitor.next = now + self.config.arp_interval;
        for id in self.order.clone() {
            let state = if self.config.mode == Mode::ActiveBackup {
                self.judge_in_active_backup(now, id)
            } else {
                self.judge(now, id)
            };
            if let Some(state) = state {
                self.set_link(now, id, state, Time::NEVER);
            }
        }
        self.apply_changes(now);
        if self.config.mode == Mode::ActiveBackup {
            self.choose_prober(now);
            if let Some(id) = self.active.or(self.monitor.prober) {
                self.send_probes(now, id);
            }
        } else {
            for id in self.order.clone() {
                self.send_probes(now, id);
            }
        }
    }

    /// The driver's `bond_loadbalance_arp_mon`.
    fn judge(&self, now: Time, id: MemberId) -> Option<LinkState> {
        let member = self.member(id)?;
        let signs = &self.monitor.signs[id.index()];
        if member.link() != LinkState::Up {
            let lives = self.is_recent(now, signs.sent, 1) && self.is_recent(now, self.heard_at(id), 1);
            return (lives && member.carrier().up).then_some(LinkState::Up);
        }
        let missed = u64::from(self.config.arp_missed_max);
        // A member that just came up has had no time to hear anything.
        let since = Some(member.changed_at);
        let lives = self.is_recent(now, signs.sent.max(since), missed)
            && self.is_recent(now, self.heard_at(id).max(since), missed);
        (!lives).then_some(LinkState::Down)
    }

    /// The driver's `bond_ab_arp_inspect`.
    fn judge_in_active_backup(&self, now: Time, id: MemberId) -> Option<LinkState> {
        let member = self.member(id)?;
        let heard = self.heard_at(id);
        if member.link() != LinkState::Up {
            return (self.is_recent(now, heard, 1) && member.carrier().up).then_some(LinkState::Up);
        }
        // Two intervals of grace after it came up or was made active.
        if self.is_recent(now, Some(member.changed_at), 2) {
            return None;
        }
        let missed = u64::from(self.config.arp_missed_max);
        let is_lost = if self.active == Some(id) {
            let sent = self.monitor.signs[id.index()].sent;
            !self.is_recent(now, sent, missed) || !self.is_recent(now, heard, missed)
        } else {
            self.monitor.prober.is_none() && !self.is_recent(now, heard, missed + 1)
        };
        is_lost.then_some(LinkState::Down)
    }

    /// While nobody is active, the members with carrier take turns.
    fn choose_prober(&mut self, now: Time) {
        self.monitor.prober = if self.active.is_some() {
            None
        } else {
            let has_carrier = |id: &MemberId| self.member(*id).is_some_and(|member| member.carrier().up);
            let after = self.monitor.prober.and_then(|id| self.order.iter().position(|&other| other == id));
            let from = after.map_or(0, |at| at + 1);
            let turns = self.order.iter().cycle().skip(from).take(self.order.len());
            turns.copied().find(has_carrier)
        };
        if let Some(member) = self.monitor.prober.and_then(|id| self.members[id.index()].as_mut()) {
            member.changed_at = now;
        }
    }

    fn send_probes(&mut self, now: Time, id: MemberId) {
        let Some(mac) = self.member(id).filter(|member| member.carrier().up).map(Member::mac) else { return };
        self.monitor.sent(now, id);
        let targets: Vec<_> = self.config.targets().collect();
        for target in targets {
            let own = self.nearest_own(target);
            let vlan = own.and_then(|own| own.vlan);
            let frame = match (target, own.map(|own| own.ip)) {
                (IpAddr::V4(target), Some(IpAddr::V4(own))) => ControlFrame::arp_request(mac, own, target, vlan),
                (IpAddr::V4(target), _) => ControlFrame::arp_request(mac, Ipv4Addr::UNSPECIFIED, target, vlan),
                (IpAddr::V6(target), Some(IpAddr::V6(own))) => ControlFrame::solicitation(mac, own, target, vlan),
                (IpAddr::V6(target), _) => ControlFrame::solicitation(mac, Ipv6Addr::UNSPECIFIED, target, vlan),
            };
            self.send(id, frame);
        }
    }

    /// The host's address that shares the longest prefix with `target`: prefix lengths are not known here.
    fn nearest_own(&self, target: IpAddr) -> Option<Own> {
        let shared = |own: &&Own| match (own.ip, target) {
            (IpAddr::V4(own), IpAddr::V4(target)) => Some((own.to_bits() ^ target.to_bits()).leading_zeros()),
            (IpAddr::V6(own), IpAddr::V6(target)) => Some((own.to_bits() ^ target.to_bits()).leading_zeros()),
            _ => None,
        };
        self.own.iter().filter(|own| shared(own).is_some()).max_by_key(shared).copied()
    }

    /// Notes that data arrived on `id`.
    #[inline]
    pub(crate) fn saw(&mut self, now: Time, id: MemberId, kind: Kind) {
        if self.is_probing {
            self.heard(now, id, kind, None);
        }
    }

    /// Notes that something arrived on `id`, if it counts (`arp_validate`).
    pub(crate) fn heard(&mut self, now: Time, id: MemberId, kind: Kind, resolution: Option<&Resolution>) {
        if self.member(id).is_none() {
            return;
        }
        let validate = self.config.arp_validate;
        let is_backup =
            self.config.mode == Mode::ActiveBackup && self.active != Some(id) && self.monitor.prober != Some(id);
        let must_be_valid = if is_backup { validate.backup } else { validate.active };
        if !must_be_valid {
            if !validate.filter || matches!(kind, Kind::Arp | Kind::Neighbour) {
                self.monitor.signs[id.index()].heard = Some(now);
            }
            if let Some(target) = resolution.and_then(|resolution| self.target_number(resolution.sender)) {
                self.monitor.signs[id.index()].targets[target] = Some(now);
            }
            return;
        }
        let Some(target) = resolution.and_then(|resolution| self.valid_target(now, is_backup, resolution)) else {
            return;
        };
        let signs = &mut self.monitor.signs[id.index()];
        signs.heard = Some(now);
        signs.targets[target] = Some(now);
    }

    /// The target that a message proves to live (the driver's `bond_arp_rcv`). A backup hears the active member's requests,
    /// which count if the active member hears answers; and any answer to whoever probes while nobody is active.
    fn valid_target(&self, now: Time, is_backup: bool, resolution: &Resolution) -> Option<usize> {
        let answer = || self.is_own(resolution.target).then(|| self.target_number(resolution.sender)).flatten();
        let request = || self.is_own(resolution.sender).then(|| self.target_number(resolution.target)).flatten();
        if !is_backup {
            return answer();
        }
        if let Some(active) = self.active {
            let changed_at = self.member(active).map(|member| member.changed_at);
            return if self.heard_at(active) > changed_at { request() } else { None };
        }
        let prober = self.monitor.prober?;
        let sent = self.monitor.signs[prober.index()].sent;
        if resolution.is_reply && self.is_recent(now, sent, 1) { answer() } else { None }
    }

    fn target_number(&self, address: IpAddr) -> Option<usize> {
        self.config.targets().position(|target| target == address)
    }

    /// A bond without known addresses probes from the unspecified one, and is answered there.
    fn is_own(&self, address: IpAddr) -> bool {
        self.own.iter().any(|own| own.ip == address) || (self.own.is_empty() && address.is_unspecified())
    }
}

impl Rebase for Monitor {
    fn rebase(&mut self, by: Span) {
        let Self { next, signs, prober: _ } = self;
        next.rebase(by);
        signs.rebase(by);
    }
}

impl Rebase for Signs {
    fn rebase(&mut self, by: Span) {
        let Self { sent, heard, targets } = self;
        sent.rebase(by);
        heard.rebase(by);
        targets.rebase(by);
    }
}
