//! One end of a bond: its members, what happens to them, and what follows.

mod rebase;

use std::collections::VecDeque;

use machine::{Rng, Span, Step, Time};
use wire::is_group;

use crate::alb::Alb;
use crate::announce::Own;
use crate::balance::{BUCKETS, Balance, Remapped};
use crate::config::{Config, Mode};
use crate::member::{Carrier, LinkState, Member};
use crate::membership::Memberships;
use crate::monitor::Monitor;
use crate::transmit::{Table, tlb::Tlb};
use crate::{ControlFrame, MEMBERS_MAX, MemberId, MemberSet};

/// Actions that wait to be polled at most; more are dropped and counted.
pub const ACTIONS_MAX: usize = 1_024;

/// What a bond wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this frame on this member, as it is.
    Send {
        /// The member by which it leaves.
        member: MemberId,
        /// The frame to send.
        frame: ControlFrame,
    },
    /// Something changed. Addresses of devices are to be set; the rest is for logs and metrics.
    Event(Event),
}

/// A change that others may want to know about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A member's state.
    Link {
        /// The member that changed.
        member: MemberId,
        /// The state from now on.
        state: LinkState,
    },
    /// The active member, in modes that have one.
    Active {
        /// Until now; it may be removed already.
        from: Option<MemberId>,
        /// The member from now on.
        to: Option<MemberId>,
    },
    /// The bond itself has carrier, or lost it.
    Carrier(bool),
    /// A member's device should have this address from now on.
    MemberMac {
        /// The member that takes the address.
        member: MemberId,
        /// The address that its device must have.
        mac: [u8; 6],
    },
    /// The bond has this address from now on, and so the interface above it, unless that keeps its own.
    BondMac([u8; 6]),
    /// A hash bucket went to a less busy member.
    Remapped(Remapped),
}

/// Why a member cannot join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// There are [`MEMBERS_MAX`] already.
    #[error("a bond has 32 members at most")]
    Full,
    /// The name is taken.
    #[error("a member of this name is there already")]
    Name,
    /// The address cannot be a device's.
    #[error("a member's address is not zero and names one station")]
    Mac,
}

/// One end of a bond.
///
/// One rule: after every call that takes `&mut self` but [`Bond::transmit`], [`Bond::poll`] until it returns
/// [`Step::Wait`]; then come back at that time at the latest.
#[derive(Clone, Debug)]
pub struct Bond {
    pub(crate) config: Config,
    pub(crate) table: Table,
    pub(crate) turn: u32,
    pub(crate) active: Option<MemberId>,
    pub(crate) is_probing: bool,
    pub(crate) balance: Option<Balance>,
    pub(crate) rng: Rng,
    pub(crate) members: Box<[Option<Member>; MEMBERS_MAX]>,
    /// Members as they joined.
    pub(crate) order: Vec<MemberId>,
    pub(crate) mac: Option<[u8; 6]>,
    /// Of the device above, where that does not follow the bond's.
    pub(crate) device_mac: Option<[u8; 6]>,
    pub(crate) tlb: Tlb,
    pub(crate) alb: Alb,
    pub(crate) monitor: Monitor,
    pub(crate) own: Vec<Own>,
    pub(crate) memberships: Memberships,
    /// The primary takes over once, whatever `primary_reselect` says: it was named, or joined.
    pub(crate) force_primary: bool,
    /// What LACP says.
    distributing: MemberSet,
    collecting: MemberSet,
    has_carrier: bool,
    pub(crate) announcements_left: u8,
    pub(crate) announce_at: Time,
    teach_at: Time,
    actions: VecDeque<Action>,
    actions_dropped: u64,
}

impl Bond {
    /// A bond without members. `mac` is the address of the device above, which that keeps: where the bond has another one
    /// (`fail_over_mac=active`), what passes is rewritten. Without it the bond takes the first member's, and the device above is to
    /// have the bond's ([`Event::BondMac`]). `rng` is for `packets_per_slave=0`.
    pub fn new(now: Time, config: Config, mac: Option<[u8; 6]>, rng: Rng) -> Self {
        let mut bond = Self {
            table: Table::EMPTY,
            turn: 0,
            active: None,
            is_probing: false,
            balance: None,
            rng,
            members: Box::new([const { None }; MEMBERS_MAX]),
            order: Vec::with_capacity(MEMBERS_MAX),
            mac,
            device_mac: mac,
            tlb: Tlb::new(now),
            alb: Alb::default(),
            monitor: Monitor::new(now),
            own: Vec::new(),
            memberships: Memberships::new(),
            force_primary: true,
            distributing: MemberSet::EMPTY,
            collecting: MemberSet::EMPTY,
            has_carrier: false,
            announcements_left: 0,
            announce_at: Time::NEVER,
            teach_at: Time::NEVER,
            actions: VecDeque::new(),
            actions_dropped: 0,
            config,
        };
        bond.configured(now);
        bond
    }

    /// Other options, or another mode, while running. Links keep their states.
    pub fn set_config(&mut self, now: Time, config: Config) {
        self.force_primary |= config.primary != self.config.primary;
        let was_alb = self.config.mode == Mode::BalanceAlb;
        self.config = config;
        self.configured(now);
        for id in self.order.clone() {
            let Some(member) = self.members[id.index()].as_mut() else { continue };
            // Probing starts without knowledge; what was not heard before counts for nothing.
            member.changed_at = now;
            if member.link == LinkState::Down && member.carrier.up && !self.is_probing {
                self.set_link(now, id, LinkState::Back, now + self.config.updelay);
            }
        }
        self.expire_links(now);
        self.apply_changes(now);
        self.give_addresses();
        if was_alb && self.config.mode != Mode::BalanceAlb {
            self.alb_end();
        }
    }

    /// Starts what the options ask for, and stops what they do not.
    fn configured(&mut self, now: Time) {
        let config = &self.config;
        self.is_probing = config.arp_interval != Span::ZERO;
        self.balance = config.rebalance.map(|options| Balance::new(now, options));
        self.tlb = Tlb::new(now);
        self.monitor = Monitor::new(now + config.arp_interval);
        self.teach_at = if config.mode.keeps_addresses() { now + config.lp_interval } else { Time::NEVER };
        (self.announcements_left, self.announce_at) = (0, Time::NEVER);
    }

    /// A device joins.
    ///
    /// # Errors
    /// [`JoinError`]; the bond is as before.
    pub fn add_member(&mut self, now: Time, name: &str, mac: [u8; 6], carrier: Carrier) -> Result<MemberId, JoinError> {
        if self.members().any(|(_, member)| member.name() == name) {
            return Err(JoinError::Name);
        }
        if is_group(mac) || mac == [0; 6] {
            return Err(JoinError::Mac);
        }
        let index = self.members.iter().position(Option::is_none).ok_or(JoinError::Full)?;
        let id = MemberId::new(index);
        let is_primary = self.config.primary.as_deref() == Some(name);
        self.force_primary |= is_primary;
        self.members[index] = Some(Member {
            name: name.to_owned(),
            permanent_mac: mac,
            mac,
            carrier: Carrier::DOWN,
            link: LinkState::Down,
            deadline: Time::NEVER,
            failures: 0,
            changed_at: now,
        });
        self.order.push(id);
        self.monitor.joined(now, id);
        if self.mac.is_none() {
            self.mac = Some(mac);
            self.event(Event::BondMac(mac));
        }
        // A probed member that has carrier is believed in until probing says otherwise, as in the driver.
        if self.is_probing && carrier.up {
            let member = self.members[index].as_mut().expect("it just joined");
            member.carrier = carrier;
            member.link = LinkState::Up;
            self.event(Event::Link { member: id, state: LinkState::Up });
            self.apply_changes(now);
        } else {
            self.carrier(now, id, carrier);
        }
        self.give_addresses();
        Ok(id)
    }

    /// A device leaves. Nothing happens if it is not there.
    pub fn remove_member(&mut self, now: Time, id: MemberId) {
        let Some(member) = self.members[id.index()].take() else { return };
        self.order.retain(|&other| other != id);
        self.distributing.remove(id);
        self.collecting.remove(id);
        // Its device gets its own address back.
        if member.mac != member.permanent_mac {
            self.event(Event::MemberMac { member: id, mac: member.permanent_mac });
        }
        self.apply_changes(now);
        self.give_addresses();
    }

    /// What a member's device says of its link: at once when it changes, or when it is polled.
    pub fn carrier(&mut self, now: Time, id: MemberId, carrier: Carrier) {
        let (updelay, downdelay) = (self.config.updelay, self.config.downdelay);
        let is_probing = self.is_probing;
        let Some(member) = self.members[id.index()].as_mut() else { return };
        let has_changed = member.carrier != carrier;
        member.carrier = carrier;
        let (state, deadline) = match (member.link, carrier.up) {
            (LinkState::Up, false) => (LinkState::Fail, now + downdelay),
            (LinkState::Fail, true) => (LinkState::Up, Time::NEVER),
            // When members are probed, carrier is not enough to come back.
            (LinkState::Down, true) if !is_probing => (LinkState::Back, now + updelay),
            (LinkState::Back, false) => (LinkState::Down, Time::NEVER),
            // Rate and duplex may matter to the primary.
            _ if has_changed => return self.apply_changes(now),
            _ => return,
        };
        self.set_link(now, id, state, deadline);
        self.expire_links(now);
        self.apply_changes(now);
    }

    /// Changes a member's state, and reports the change unless it passes at once.
    pub(crate) fn set_link(&mut self, now: Time, id: MemberId, state: LinkState, deadline: Time) {
        let Some(member) = self.members[id.index()].as_mut() else { return };
        let was = member.link;
        if was == state {
            return;
        }
        member.link = state;
        member.deadline = deadline;
        match state {
            LinkState::Up if was != LinkState::Fail => member.changed_at = now,
            LinkState::Down if was != LinkState::Back => member.failures = member.failures.saturating_add(1),
            _ => {}
        }
        if deadline > now {
            self.event(Event::Link { member: id, state });
        }
    }

    fn expire_links(&mut self, now: Time) {
        for index in 0..MEMBERS_MAX {
            let Some(member) = &self.members[index] else { continue };
            if member.deadline > now {
                continue;
            }
            match member.link {
                LinkState::Fail => self.set_link(now, MemberId::new(index), LinkState::Down, Time::NEVER),
                LinkState::Back => self.set_link(now, MemberId::new(index), LinkState::Up, Time::NEVER),
                LinkState::Up | LinkState::Down => {}
            }
        }
    }

    /// Draws the consequences of a change: which member is active, which are usable, whether the bond has a carrier.
    pub(crate) fn apply_changes(&mut self, now: Time) {
        // If nobody is up, and nobody stays active while `downdelay` lasts, `updelay` is not waited for.
        let has_active = self.active.and_then(|id| self.member(id)).is_some_and(Member::is_usable);
        if !has_active && !self.members().any(|(_, member)| member.link == LinkState::Up) {
            for id in self.order.clone() {
                if self.member(id).is_some_and(|member| member.link == LinkState::Back) {
                    self.set_link(now, id, LinkState::Up, Time::NEVER);
                }
            }
        }
        let was_usable = self.table.set();
        self.make_table();
        let was_active = self.active;
        self.select(now);
        if self.config.mode.keeps_addresses() && self.active == was_active {
            self.give_addresses();
            // Its address may have been another member's while it was away: the switch must not send it there any longer.
            self.teach(|id| !was_usable.contains(id));
        }
        self.tlb.members_changed(&self.table);
        if let Some(balance) = &mut self.balance {
            balance.members_changed(now, &self.table);
        }
        self.alb_members_changed(now);
        self.set_carrier();
    }

    fn make_table(&mut self) {
        let mode = self.config.mode;
        let distributing = self.distributing;
        let is_usable = |id: &MemberId| {
            self.member(*id).is_some_and(|member| match mode {
                // Modes that send in turn or to all leave out a member at once, even while `downdelay` lasts.
                Mode::BalanceRr | Mode::Broadcast => member.link == LinkState::Up && member.carrier.up,
                Mode::Ad8023 => member.is_usable() && distributing.contains(*id),
                _ => member.is_usable(),
            })
        };
        self.table = Table::new(self.order.iter().copied().filter(is_usable));
    }

    fn set_carrier(&mut self) {
        let has_carrier = match self.config.mode {
            Mode::Ad8023 => self.table.as_slice().len() >= usize::from(self.config.min_links.max(1)),
            _ => self.members().any(|(_, member)| member.is_usable()),
        };
        if has_carrier != self.has_carrier {
            self.has_carrier = has_carrier;
            self.event(Event::Carrier(has_carrier));
        }
    }

    /// In 802.3ad: which members LACP lets send, and which it lets receive.
    pub fn set_distributing(&mut self, now: Time, distributing: MemberSet, collecting: MemberSet) {
        self.collecting = collecting;
        if self.distributing != distributing {
            self.distributing = distributing;
            self.apply_changes(now);
        }
    }

    pub(crate) const fn collecting(&self) -> MemberSet {
        self.collecting
    }

    /// What to do next.
    pub fn poll(&mut self, now: Time) -> Step<Action> {
        if self.actions.is_empty() {
            self.expire(now);
        }
        match self.actions.pop_front() {
            Some(action) => Step::Do(action),
            None => Step::Wait(self.next_deadline()),
        }
    }

    fn expire(&mut self, now: Time) {
        if self.members().any(|(_, member)| member.deadline <= now) {
            self.expire_links(now);
            self.apply_changes(now);
        }
        self.expire_announcement(now);
        self.expire_rejoin(now);
        if self.teach_at <= now {
            self.teach_at = now + self.config.lp_interval;
            self.teach(|_| true);
        }
        if self.alb.next <= now {
            self.alb_announce(now);
        }
        if self.uses_tlb() && self.tlb.next <= now {
            self.tlb.rebalance(now, self.active);
        }
        if let Some(balance) = &mut self.balance {
            if balance.next <= now {
                let speed = |member: &Option<Member>| member.as_ref().map_or(0, |member| member.carrier.speed_mbps);
                balance.plan(now, &self.table, &std::array::from_fn(|index| speed(&self.members[index])));
            }
            if let Some(moved) = balance.take_moved() {
                self.event(Event::Remapped(moved));
            }
        }
        if self.is_probing && self.monitor.next <= now {
            self.probe(now);
        }
    }

    /// When [`Bond::poll`] has something to do without new input.
    pub fn next_deadline(&self) -> Time {
        if !self.actions.is_empty() {
            return Time::ZERO;
        }
        let links = self.members().map(|(_, member)| member.deadline).min().unwrap_or(Time::NEVER);
        let tlb = if self.uses_tlb() { self.tlb.next } else { Time::NEVER };
        let balance = self.balance.as_ref().map_or(Time::NEVER, |balance| balance.next);
        let probe = if self.is_probing { self.monitor.next } else { Time::NEVER };
        [links, tlb, balance, probe, self.announce_at, self.teach_at, self.alb.next, self.memberships.next]
            .into_iter()
            .min()
            .unwrap_or(Time::NEVER)
    }

    const fn uses_tlb(&self) -> bool {
        self.config.mode.keeps_addresses() && self.config.tlb_dynamic_lb
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.push(Action::Event(event));
    }

    pub(crate) fn send(&mut self, member: MemberId, frame: ControlFrame) {
        self.push(Action::Send { member, frame });
    }

    fn push(&mut self, action: Action) {
        if self.actions.len() < ACTIONS_MAX {
            self.actions.push_back(action);
        } else {
            self.actions_dropped += 1;
        }
    }

    /// How it is configured.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The member that receives for the bond, in modes that have one; in the others the one that IGMP leaves on.
    pub const fn active(&self) -> Option<MemberId> {
        self.active
    }

    /// The members that may send. In active-backup these include the ones that wait.
    pub const fn usable(&self) -> MemberSet {
        self.table.set()
    }

    /// Whether the bond as a whole can be used.
    pub const fn has_carrier(&self) -> bool {
        self.has_carrier
    }

    /// The bond's address.
    pub const fn mac(&self) -> Option<[u8; 6]> {
        self.mac
    }

    /// A member, if it is there.
    pub fn member(&self, id: MemberId) -> Option<&Member> {
        self.members[id.index()].as_ref()
    }

    /// All members, as they joined.
    pub fn members(&self) -> impl Iterator<Item = (MemberId, &Member)> {
        self.order.iter().filter_map(|&id| self.member(id).map(|member| (id, member)))
    }

    /// In hashed modes that follow load: the member of each hash bucket. None if nobody is usable or load is not followed.
    pub fn buckets(&self) -> Option<[MemberId; BUCKETS]> {
        self.balance.as_ref()?.members()
    }

    /// Actions that were dropped since nobody polled.
    pub const fn actions_dropped(&self) -> u64 {
        self.actions_dropped
    }
}
