//! The slow path: a packet's way through the tables, entry by entry.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use machine::mix;
use topology::PortId;
use wire::{MplsRepr, ethertype, protocol};

use super::actions::{FlowAction, Instructions};
use super::classifier::Classifier;
use super::frozen::FrozenStates;
use super::group::{Bucket, Group, GroupKind};
use super::group_counters::GroupCounters;
use super::key::{Key, LATER_FRAGMENT, Slot, VLAN_PRESENT, mac_of};
use super::match_field::{Masked, MatchField, Needs};
use super::ports::Ports;
use super::tracking::TrackAction;
use crate::action::Action;
use crate::conntrack::Request;
use crate::field::Field;

/// A packet may come to so many buckets: groups of groups would be as many as all their paths.
const BUCKETS_MAX: u32 = 4_096;

/// Actions that one packet may come to. Groups that name groups could make it as many as one likes.
const ACTIONS_MAX: usize = 1_024;

/// Groups within groups.
const GROUPS_DEEP_MAX: u32 = 32;

/// Labels that say what is behind them, and nothing else (RFC 3032, 2.1).
const IPV4_EXPLICIT_NULL: u32 = 0;
const IPV6_EXPLICIT_NULL: u32 = 2;

/// What a packet is looked up in.
#[derive(Clone, Copy)]
pub struct Lookup<'a> {
    /// By number. Behind the last one, all are empty.
    pub tables: &'a [Classifier],
    /// What an entry of this number has done.
    pub instructions: &'a dyn Fn(u32) -> Option<&'a Instructions>,
    pub groups: &'a BTreeMap<u32, Arc<Group>>,
    /// Where they count.
    pub counters: &'a GroupCounters,
    pub ports: &'a Ports,
    /// Where the hashes of groups begin: those of two switches differ.
    pub seed: u64,
    /// Ports without a carrier.
    pub down: &'a BTreeSet<PortId>,
}

/// A place among actions at which something is asked about each packet: what a decision for packets that are alike cannot say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inquiry {
    /// The number of the action that keeps the place; it does nothing itself.
    pub at: u32,
    /// What is asked.
    pub about: Subject,
}

/// With what a packet goes on behind `ct`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The number of what is known besides its headers.
    pub number: u16,
    /// What is written into its metadata: value and mask.
    pub metadata: (u64, u64),
}

/// What is asked about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Connection tracking is asked.
    Connection {
        /// For what.
        request: Request,
        /// With what a copy of the packet goes on, if it does.
        goes_on: Option<Continuation>,
    },
    /// What is known of its connection is forgotten.
    Forget,
    /// The meter of this number is asked whether it comes too fast.
    Meter(u32),
}

/// What becomes of a packet, and of all that agree with it in what was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    pub actions: Vec<Action>,
    /// Where among them something is asked about each packet, in their order.
    pub inquiries: Vec<Inquiry>,
    /// The entries that it has met, by their numbers.
    pub entries: Vec<u32>,
    /// Where groups count it, and their buckets.
    pub counted: Vec<u32>,
    /// The bits of the packet that it depends on.
    pub looked_at: Key,
    /// The table in which no entry was for it.
    pub missed: Option<u8>,
    /// Whether it would have come to more actions than a packet may: it is dropped.
    pub is_too_long: bool,
}

impl Decision {
    pub fn clear(&mut self) {
        self.actions.clear();
        self.inquiries.clear();
        self.entries.clear();
        self.counted.clear();
        (self.looked_at, self.missed, self.is_too_long) = (Key::default(), None, false);
    }
}

/// Whether the rest of a list of actions is carried out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    GoOn,
    Stop,
}

/// A packet on its way.
struct Walk<'a, 'b> {
    lookup: Lookup<'a>,
    in_port: PortId,
    /// As it has been rewritten.
    key: Key,
    /// What it was before it got a second tag, the last one last.
    inner: Vec<Key>,
    out: &'b mut Decision,
    groups_deep: u32,
    /// Buckets that it has come to, and those of groups that are watched.
    buckets: u32,
    /// Whether groups that are watched have a bucket that is used, as far as it is known.
    live_groups: BTreeMap<u32, bool>,
    /// Its action set.
    set: ActionSet,
    /// What has been written into its metadata: value and mask.
    metadata: (u64, u64),
    frozen: &'b mut FrozenStates,
}

/// The action set of a packet: one action of each kind.
#[derive(Default)]
struct ActionSet {
    actions: Vec<FlowAction>,
}

impl ActionSet {
    fn write(&mut self, actions: &[FlowAction]) {
        for action in actions {
            self.actions.retain(|other| other.kind() != action.kind());
            self.actions.push(action.clone());
        }
    }

    /// In the order in which they are carried out (`OpenFlow` 1.3.5, section 5.10): with a group, the output is left out.
    fn in_order(mut self) -> Vec<FlowAction> {
        self.actions.sort_by_key(|action| action.kind().0);
        if self.actions.iter().any(|action| matches!(action, FlowAction::Group(_))) {
            self.actions.retain(|action| action.kind().0 != FlowAction::OUTPUT);
        }
        self.actions
    }
}

/// Looks a packet up, from the first table on, or where it goes on behind `ct`. The decision is empty before.
pub fn walk(lookup: Lookup<'_>, frozen: &mut FrozenStates, key: &Key, out: &mut Decision) {
    let in_port = PortId(key.get(Slot::IN_PORT) as u16);
    for slot in [Slot::IN_PORT, Slot::RECIRCULATION] {
        out.looked_at.add(slot, slot.all());
    }
    let (mut table, mut set) = (0, ActionSet::default());
    if let Some(state) = frozen.get(key.get(Slot::RECIRCULATION) as u16) {
        table = state.table;
        set.actions.clone_from(&state.set);
    }
    let (inner, metadata) = (Vec::new(), (0, 0));
    let mut walk = Walk {
        lookup,
        in_port,
        key: *key,
        inner,
        out,
        groups_deep: 0,
        buckets: 0,
        live_groups: BTreeMap::new(),
        set,
        metadata,
        frozen,
    };
    walk.tables(table);
    if out.is_too_long {
        out.actions.clear();
        out.inquiries.clear();
        out.counted.clear();
    }
}

impl Walk<'_, '_> {
    fn tables(&mut self, mut table: u8) {
        loop {
            let Lookup { tables, instructions, .. } = self.lookup;
            let found = tables.get(usize::from(table)).and_then(|table| table.find(&self.key, &mut self.out.looked_at));
            let Some((entry, instructions)) = found.and_then(|entry| Some((entry, instructions(entry)?))) else {
                self.out.missed = Some(table);
                return;
            };
            self.out.entries.push(entry);
            let Instructions { meter, apply, clear, write, metadata, goto_table } = instructions;
            if let Some(meter) = meter {
                self.ask(Subject::Meter(*meter));
            }
            if self.carry_out(apply) == Then::Stop {
                return;
            }
            if *clear {
                self.set = ActionSet::default();
            }
            self.set.write(write);
            if let Some((value, mask)) = metadata {
                let old = self.key.get(Slot::METADATA);
                self.key.set(Slot::METADATA, old & !mask | value & mask);
                let (written, bits) = self.metadata;
                self.metadata = (written & !mask | value & mask, bits | mask);
            }
            match goto_table {
                Some(next) => table = *next,
                None => break,
            }
        }
        let set = std::mem::take(&mut self.set).in_order();
        self.carry_out(&set);
    }

    fn carry_out(&mut self, actions: &[FlowAction]) -> Then {
        for action in actions {
            if self.out.actions.len() >= ACTIONS_MAX {
                self.out.is_too_long = true;
                return Then::Stop;
            }
            if self.carry_out_one(action) == Then::Stop {
                return Then::Stop;
            }
        }
        Then::GoOn
    }

    fn carry_out_one(&mut self, action: &FlowAction) -> Then {
        let out = &mut self.out.actions;
        match action {
            // It is sent back only where that is said.
            FlowAction::Output(port) if *port == self.in_port => {}
            FlowAction::Output(port) => out.push(Action::Output(*port)),
            FlowAction::InPort => out.push(Action::Output(self.in_port)),
            FlowAction::Normal => out.push(Action::Normal),
            FlowAction::Flood => out.push(Action::Flood),
            FlowAction::All => {
                let others = self.lookup.ports.known().filter(|port| *port != self.in_port);
                out.extend(others.map(Action::Output));
            }
            FlowAction::Controller(_) => out.push(Action::Controller),
            FlowAction::Set(field, masked) => {
                if self.has(action.needs()) {
                    self.set(field, *masked);
                }
            }
            FlowAction::DecTtl => {
                if self.has(Needs::Ip) {
                    self.out.looked_at.add(Slot::IP_TTL, Slot::IP_TTL.all());
                    let ttl = self.key.get(Slot::IP_TTL);
                    if ttl <= 1 {
                        return Then::Stop;
                    }
                    self.key.set(Slot::IP_TTL, ttl - 1);
                    self.out.actions.push(Action::Set(Field::Ttl(ttl as u8 - 1)));
                }
            }
            FlowAction::PushVlan => self.push_vlan(),
            FlowAction::PopVlan => self.pop_vlan(),
            FlowAction::PushMpls(ethertype) => self.push_mpls(*ethertype),
            FlowAction::PopMpls(ethertype) => return self.pop_mpls(*ethertype),
            FlowAction::DecMplsTtl => {
                if self.has(Needs::Mpls) {
                    self.out.looked_at.add(Slot::MPLS, 0xff);
                    let ttl = MplsRepr::parse(self.key.get(Slot::MPLS) as u32).ttl;
                    if ttl <= 1 {
                        return Then::Stop;
                    }
                    self.write(Field::MplsTtl(ttl - 1));
                }
            }
            FlowAction::CopyTtlIn => {
                if self.inner_ttl().is_some() {
                    self.write(Field::LabelledTtl(self.key.get(Slot::MPLS) as u8));
                }
            }
            FlowAction::CopyTtlOut => {
                if let Some(ttl) = self.inner_ttl() {
                    self.write(Field::MplsTtl(ttl));
                }
            }
            FlowAction::VlanId(vlan) => self.write_vlan(u64::from(*vlan), 0xfff),
            FlowAction::VlanPriority(priority) => self.write_vlan(u64::from(*priority) << 13, 0xe000),
            FlowAction::Group(group) => self.group(*group),
            FlowAction::Track(track) => return self.track(track),
            FlowAction::ForgetConnection => self.forget_connection(),
        }
        Then::GoOn
    }

    /// Whether the packet has such fields.
    fn has(&mut self, needs: Needs) -> bool {
        match needs {
            Needs::Nothing => return true,
            Needs::Vlan => return self.is_tagged(),
            Needs::Mpls => {
                self.out.looked_at.add(Slot::ETH_TYPE, Slot::ETH_TYPE.all());
                return self.key.is_labelled();
            }
            Needs::Neighbour | Needs::Solicitation | Needs::Advertisement => {
                for slot in [Slot::TP_SRC, Slot::TP_DST] {
                    self.out.looked_at.add(slot, slot.all());
                }
            }
            _ => {}
        }
        for slot in [Slot::ETH_TYPE, Slot::IP_PROTO, Slot::IP_FRAG] {
            self.out.looked_at.add(slot, slot.all());
        }
        // The first fragment of a datagram has the ports of all of it.
        let is_later = self.key.get(Slot::IP_FRAG) & u64::from(LATER_FRAGMENT) != 0;
        let is_upper = !matches!(needs, Needs::Ip | Needs::Ipv4 | Needs::Ipv6);
        needs.are_met(&self.key, &Key::ALL) && !(is_later && is_upper)
    }

    /// Whoever comes behind knows nothing of the packet's connection; a copy of it may go on with what is known.
    fn track(&mut self, track: &TrackAction) -> Then {
        if !self.has(Needs::Ip) {
            return Then::GoOn;
        }
        let goes_on = match track.table {
            None => None,
            Some(table) => {
                let Some(number) = self.frozen.number(table, &self.set.actions) else {
                    self.out.is_too_long = true;
                    return Then::Stop;
                };
                Some(Continuation { number, metadata: self.metadata })
            }
        };
        self.ask(Subject::Connection { request: track.request, goes_on });
        self.key.forget_connection();
        Then::GoOn
    }

    fn forget_connection(&mut self) {
        self.key.forget_connection();
        // Nothing is known of a packet that has just come in.
        let is_known = |it: &Inquiry| matches!(it.about, Subject::Connection { .. });
        if self.out.inquiries.iter().any(is_known) || self.key.get(Slot::RECIRCULATION) != 0 {
            self.ask(Subject::Forget);
        }
    }

    /// Keeps a place among the actions at which something is asked.
    fn ask(&mut self, about: Subject) {
        let at = self.out.actions.len() as u32;
        self.out.actions.push(Action::Clone(0));
        self.out.inquiries.push(Inquiry { at, about });
    }

    fn is_tagged(&mut self) -> bool {
        self.out.looked_at.add(Slot::VLAN_TCI, u64::from(VLAN_PRESENT));
        self.key.get(Slot::VLAN_TCI) & u64::from(VLAN_PRESENT) != 0
    }

    fn push_vlan(&mut self) {
        if self.is_tagged() {
            self.inner.push(self.key);
        }
        self.key.push_vlan();
        self.out.actions.push(Action::PushVlan(0));
    }

    fn pop_vlan(&mut self) {
        if self.is_tagged() {
            self.key.pop_vlan(self.inner.pop());
            self.out.actions.push(Action::PopVlan);
        }
    }

    /// The entry is like the one that is there, or as Open vSwitch makes it: time to live and class of the packet, and the label that says of which version of IP it is (RFC 3032, 2.1).
    fn push_mpls(&mut self, ethertype: u16) {
        self.out.looked_at.add(Slot::ETH_TYPE, Slot::ETH_TYPE.all());
        let entry = if self.key.is_labelled() {
            self.out.looked_at.add(Slot::MPLS, Slot::MPLS.all());
            MplsRepr { is_bottom: false, ..MplsRepr::parse(self.key.get(Slot::MPLS) as u32) }
        } else {
            let mut entry = MplsRepr { label: 0, traffic_class: 0, is_bottom: true, ttl: 64 };
            let carried = self.key.get(Slot::ETH_TYPE) as u16;
            if matches!(carried, ethertype::IPV4 | ethertype::IPV6) {
                for slot in [Slot::IP_TOS, Slot::IP_TTL] {
                    self.out.looked_at.add(slot, slot.all());
                }
                entry.label = if carried == ethertype::IPV6 { IPV6_EXPLICIT_NULL } else { IPV4_EXPLICIT_NULL };
                entry.traffic_class = (self.key.get(Slot::IP_TOS) >> 2) as u8 & 7;
                entry.ttl = match self.key.get(Slot::IP_TTL) as u8 {
                    0 => entry.ttl,
                    ttl => ttl,
                };
            }
            entry
        };
        self.key.push_mpls(ethertype, entry.bits());
        self.out.actions.push(Action::PushMpls { ethertype, entry: entry.bits() });
    }

    /// A packet with more labels than are known goes no further when the last one that is known is taken off.
    fn pop_mpls(&mut self, ethertype: u16) -> Then {
        if !self.has(Needs::Mpls) {
            return Then::GoOn;
        }
        let mut looked_at = Key::default();
        looked_at.set_wide(Slot::MPLS_STACK_LOW, u128::MAX);
        looked_at.set(Slot::LABELLED, Slot::LABELLED.all());
        self.out.looked_at.unite(&looked_at);
        if !self.key.pop_mpls(ethertype) {
            return Then::Stop;
        }
        self.out.actions.push(Action::PopMpls(ethertype));
        Then::GoOn
    }

    /// The time to live of what is behind the uppermost entry of the label stack, if that is known.
    fn inner_ttl(&mut self) -> Option<u8> {
        if !self.has(Needs::Mpls) {
            return None;
        }
        for slot in [Slot::MPLS, Slot::MPLS_SECOND, Slot::LABELLED, Slot::IP_TTL] {
            self.out.looked_at.add(slot, slot.all());
        }
        self.key.inner_ttl().map(|slot| self.key.get(slot) as u8)
    }

    /// Writes a field, all of it.
    fn write(&mut self, field: Field) {
        self.key.write(field);
        self.out.actions.push(Action::Set(field));
    }

    /// Writes bits of the tag's control information; a packet without a tag gets one.
    fn write_vlan(&mut self, value: u64, mask: u64) {
        if !self.is_tagged() {
            self.push_vlan();
        }
        self.out.looked_at.add(Slot::VLAN_TCI, !mask);
        let tci = self.key.get(Slot::VLAN_TCI) & !mask | value & mask;
        self.key.set(Slot::VLAN_TCI, tci | u64::from(VLAN_PRESENT));
        self.out.actions.push(Action::Set(Field::VlanTci(tci as u16 & !VLAN_PRESENT)));
    }

    fn set(&mut self, field: &'static MatchField, masked: Masked) {
        if field.slot == Slot::VLAN_TCI {
            return self.write_vlan((masked.value as u64) << field.low, (masked.mask as u64) << field.low);
        }
        let rest = field.all() & !masked.mask;
        if field.bits == 128 {
            let mut looked_at = Key::default();
            looked_at.set_wide(field.slot, rest);
            self.out.looked_at.unite(&looked_at);
        } else {
            self.out.looked_at.add(field.slot, (rest as u64) << field.low);
        }
        let mut changed = self.key;
        field.set(&mut changed, masked);
        let (value, key) = (field.get(&changed), &changed);
        if matches!(field.slot, Slot::TP_SRC | Slot::TP_DST) && self.key.get(Slot::IP_FRAG) != 0 {
            // Its ports are not matched, also when they have been written; bits of what nobody has read cannot stay.
            if rest != 0 {
                return;
            }
        } else {
            self.key = changed;
        }
        let written = match field.name {
            "dl_src" => Field::EthSrc(mac_of(value as u64)),
            "dl_dst" => Field::EthDst(mac_of(value as u64)),
            "nw_src" => Field::Ipv4Src((value as u32).into()),
            "nw_dst" => Field::Ipv4Dst((value as u32).into()),
            "ipv6_src" => Field::Ipv6Src(value.into()),
            "ipv6_dst" => Field::Ipv6Dst(value.into()),
            "tp_src" | "tcp_src" | "udp_src" if is_tcp_or_udp(key) => Field::SrcPort(value as u16),
            "tp_dst" | "tcp_dst" | "udp_dst" if is_tcp_or_udp(key) => Field::DstPort(value as u16),
            "nw_tos" | "ip_dscp" => Field::Dscp((key.get(Slot::IP_TOS) >> 2) as u8),
            "nw_ecn" => Field::Ecn(value as u8),
            "nw_ttl" => Field::Ttl(value as u8),
            "mpls_label" => Field::MplsLabel(value as u32),
            "mpls_tc" => Field::MplsTrafficClass(value as u8),
            "mpls_ttl" => Field::MplsTtl(value as u8),
            "nd_target" => Field::NdTarget(value.into()),
            "nd_sll" => Field::NdSourceLinkLayer(mac_of(value as u64)),
            "nd_tll" => Field::NdTargetLinkLayer(mac_of(value as u64)),
            "tun_id" => Field::TunnelId(value as u32),
            // SCTP's checksum covers its ports, and is not corrected: `actions.rs` offers no others.
            _ => return,
        };
        self.out.actions.push(Action::Set(written));
    }

    fn group(&mut self, id: u32) {
        let Some(group) = self.lookup.groups.get(&id) else { return };
        if self.out.is_too_long || self.groups_deep == GROUPS_DEEP_MAX {
            self.out.is_too_long = true;
            return;
        }
        self.groups_deep += 1;
        self.out.counted.extend(self.lookup.counters.of_group(id));
        match group.kind {
            GroupKind::All => (0..group.buckets.len()).for_each(|number| self.bucket(group, number)),
            GroupKind::Indirect => (0..group.buckets.len().min(1)).for_each(|number| self.bucket(group, number)),
            GroupKind::Select => {
                if let Some(number) = self.select(group) {
                    self.bucket(group, number);
                }
            }
            GroupKind::FastFailover => {
                if let Some(number) = group.buckets.iter().position(|bucket| self.is_live(bucket)) {
                    self.bucket(group, number);
                }
            }
        }
        self.groups_deep -= 1;
    }

    fn is_live(&mut self, bucket: &Bucket) -> bool {
        let has_carrier = bucket.watch_port.map(|port| !self.lookup.down.contains(&port));
        match (has_carrier, bucket.watch_group) {
            (Some(true), _) | (None, None) => true,
            (_, Some(group)) => self.is_live_group(group),
            (Some(false), None) => false,
        }
    }

    /// Whether a group that is watched has a bucket that is used. No group leads to itself.
    fn is_live_group(&mut self, id: u32) -> bool {
        if let Some(is_live) = self.live_groups.get(&id) {
            return *is_live;
        }
        let Some(group) = self.lookup.groups.get(&id) else { return false };
        if self.out.is_too_long || self.groups_deep == GROUPS_DEEP_MAX {
            self.out.is_too_long = true;
            return false;
        }
        self.groups_deep += 1;
        // It is over with the first one that is.
        let is_live = group.buckets.iter().any(|bucket| {
            self.buckets += 1;
            self.out.is_too_long |= self.buckets > BUCKETS_MAX;
            !self.out.is_too_long && self.is_live(bucket)
        });
        self.groups_deep -= 1;
        self.live_groups.insert(id, is_live);
        is_live
    }

    /// A bucket works on a copy: what comes behind the group has the packet as it was.
    fn bucket(&mut self, group: &Group, number: usize) {
        // Buckets without an output leave nothing behind that could be counted instead.
        self.buckets += 1;
        if self.buckets > BUCKETS_MAX {
            self.out.is_too_long = true;
        }
        if self.out.is_too_long {
            return;
        }
        let (key, inner, at) = (self.key, self.inner.clone(), self.out.actions.len());
        let inquiries = self.out.inquiries.len();
        self.out.actions.push(Action::Clone(0));
        self.out.counted.extend(self.lookup.counters.of_bucket(group.id, number));
        self.carry_out(&group.buckets[number].actions);
        (self.key, self.inner) = (key, inner);
        let made = &self.out.actions[at + 1..];
        if self.out.inquiries.len() > inquiries || made.iter().any(Action::is_change) {
            self.out.actions[at] = Action::Clone(made.len() as u16);
        } else {
            self.out.actions.remove(at);
        }
    }

    /// The number of the bucket for a packet's flow. All packets of a flow have the same one.
    fn select(&mut self, group: &Group) -> Option<usize> {
        let mut total = 0;
        for bucket in &group.buckets {
            total += if self.is_live(bucket) { u64::from(bucket.weight) } else { 0 };
        }
        let mut left = ((u128::from(self.flow_hash()) * u128::from(total)) >> 64) as u64;
        group.buckets.iter().position(|bucket| {
            if !(self.is_live(bucket) && bucket.weight > 0) {
                return false;
            }
            let weight = u64::from(bucket.weight);
            let is_here = left < weight;
            left = left.saturating_sub(weight);
            is_here
        })
    }

    /// A hash of addresses, protocol and ports; of what has no IP addresses, of its MAC addresses.
    fn flow_hash(&mut self) -> u64 {
        let mut fields = Key::default();
        fields.add(Slot::ETH_TYPE, Slot::ETH_TYPE.all());
        let ethertype = self.key.get(Slot::ETH_TYPE) as u16;
        if matches!(ethertype, ethertype::IPV4 | ethertype::IPV6) {
            fields.set_wide(Slot::SRC_LOW, u128::MAX);
            fields.set_wide(Slot::DST_LOW, u128::MAX);
            for slot in [Slot::IP_PROTO, Slot::TP_SRC, Slot::TP_DST] {
                fields.add(slot, slot.all());
            }
        } else {
            fields.add(Slot::ETH_SRC, Slot::ETH_SRC.all());
            fields.add(Slot::ETH_DST, Slot::ETH_DST.all());
        }
        self.out.looked_at.unite(&fields);
        self.key.masked(&fields).0.iter().fold(self.lookup.seed, |hash, word| mix(hash ^ word).wrapping_add(1))
    }
}

fn is_tcp_or_udp(key: &Key) -> bool {
    matches!(key.get(Slot::IP_PROTO) as u8, protocol::TCP | protocol::UDP)
}
