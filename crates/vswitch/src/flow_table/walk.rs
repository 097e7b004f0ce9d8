//! The slow path: a packet's way through the tables, entry by entry.

use std::collections::{BTreeMap, BTreeSet};

use machine::mix;
use topology::PortId;
use wire::{ethertype, protocol};

use super::actions::{FlowAction, Instructions};
use super::classifier::Classifier;
use super::group::{Bucket, Group, GroupKind};
use super::key::{Key, Slot, mac_of};
use super::match_field::{Masked, MatchField, Needs};
use super::ports::Ports;
use crate::action::Action;
use crate::field::Field;

/// Actions that one packet may come to. Groups that name groups could make it as many as one likes.
const ACTIONS_MAX: usize = 1_024;

/// Groups within groups.
const GROUPS_DEEP_MAX: u32 = 32;

/// What a packet is looked up in.
#[derive(Clone, Copy)]
pub struct Lookup<'a> {
    /// By number. Behind the last one, all are empty.
    pub tables: &'a [Classifier],
    /// What an entry of this number has done.
    pub instructions: &'a dyn Fn(u32) -> Option<&'a Instructions>,
    pub groups: &'a BTreeMap<u32, Group>,
    pub ports: &'a Ports,
    /// Where the hashes of groups begin: those of two switches differ.
    pub seed: u64,
    /// Ports without a carrier.
    pub down: &'a BTreeSet<PortId>,
}

/// What becomes of a packet, and of all that agree with it in what was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    pub actions: Vec<Action>,
    /// The entries that it has met, by their numbers.
    pub entries: Vec<u32>,
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
        self.entries.clear();
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
    out: &'b mut Decision,
    groups_deep: u32,
}

/// The action set of a packet: one action of each kind.
#[derive(Default)]
struct ActionSet {
    actions: Vec<FlowAction>,
}

impl ActionSet {
    fn write(&mut self, actions: &[FlowAction]) {
        for action in actions {
            let kind = kind(action);
            self.actions.retain(|other| self::kind(other) != kind);
            self.actions.push(action.clone());
        }
    }

    /// In the order in which they are carried out (`OpenFlow` 1.3.5, section 5.10): with a group, the output is left out.
    fn in_order(mut self) -> Vec<FlowAction> {
        self.actions.sort_by_key(|action| kind(action).0);
        if self.actions.iter().any(|action| matches!(action, FlowAction::Group(_))) {
            self.actions.retain(|action| kind(action).0 != OUTPUT);
        }
        self.actions
    }
}

/// The rank of outputs among actions of a set.
const OUTPUT: u8 = 3;

/// Actions of one kind take each other's place in an action set. The rank, and which field is written.
fn kind(action: &FlowAction) -> (u8, &'static str) {
    match action {
        FlowAction::DecTtl => (0, ""),
        FlowAction::Set(field, _) => (1, field.name),
        FlowAction::Group(_) => (2, ""),
        FlowAction::Output(_)
        | FlowAction::InPort
        | FlowAction::Normal
        | FlowAction::Flood
        | FlowAction::All
        | FlowAction::Controller(_) => (OUTPUT, ""),
    }
}

/// Looks a packet up. The decision is empty before.
pub fn walk(lookup: Lookup<'_>, key: &Key, out: &mut Decision) {
    let in_port = PortId(key.get(Slot::IN_PORT) as u16);
    out.looked_at.add(Slot::IN_PORT, Slot::IN_PORT.all());
    let mut walk = Walk { lookup, in_port, key: *key, out, groups_deep: 0 };
    walk.tables();
    if out.is_too_long {
        out.actions.clear();
    }
}

impl Walk<'_, '_> {
    fn tables(&mut self) {
        let (mut table, mut set) = (0, ActionSet::default());
        loop {
            let Lookup { tables, instructions, .. } = self.lookup;
            let found = tables.get(usize::from(table)).and_then(|table| table.find(&self.key, &mut self.out.looked_at));
            let Some((entry, instructions)) = found.and_then(|entry| Some((entry, instructions(entry)?))) else {
                self.out.missed = Some(table);
                return;
            };
            self.out.entries.push(entry);
            let Instructions { apply, clear, write, metadata, goto_table } = instructions;
            if self.carry_out(apply) == Then::Stop {
                return;
            }
            if *clear {
                set = ActionSet::default();
            }
            set.write(write);
            if let Some((value, mask)) = metadata {
                let old = self.key.get(Slot::METADATA);
                self.key.set(Slot::METADATA, old & !mask | value & mask);
            }
            match goto_table {
                Some(next) => table = *next,
                None => break,
            }
        }
        self.carry_out(&set.in_order());
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
            FlowAction::Group(group) => self.group(*group),
        }
        Then::GoOn
    }

    /// Whether the packet has such fields.
    fn has(&mut self, needs: Needs) -> bool {
        if needs == Needs::Nothing {
            return true;
        }
        for slot in [Slot::ETH_TYPE, Slot::IP_PROTO, Slot::IP_FRAG] {
            self.out.looked_at.add(slot, slot.all());
        }
        // A fragment's ports are another one's, or those of all.
        let is_whole = self.key.get(Slot::IP_FRAG) == 0;
        let is_upper = !matches!(needs, Needs::Ip | Needs::Ipv4 | Needs::Ipv6);
        needs.are_met(&self.key, &Key::ALL) && (is_whole || !is_upper)
    }

    fn set(&mut self, field: &'static MatchField, masked: Masked) {
        let rest = field.all() & !masked.mask;
        if field.bits == 128 {
            let mut looked_at = Key::default();
            looked_at.set_wide(field.slot, rest);
            self.out.looked_at.unite(&looked_at);
        } else {
            self.out.looked_at.add(field.slot, (rest as u64) << field.low);
        }
        field.set(&mut self.key, masked);
        let value = field.get(&self.key);
        let key = &self.key;
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
            // SCTP's checksum covers its ports, and is not corrected: `actions.rs` offers no others.
            _ => return,
        };
        self.out.actions.push(Action::Set(written));
    }

    fn group(&mut self, id: u32) {
        let Some(group) = self.lookup.groups.get(&id) else { return };
        if self.groups_deep == GROUPS_DEEP_MAX {
            self.out.is_too_long = true;
            return;
        }
        self.groups_deep += 1;
        match group.kind {
            GroupKind::All => group.buckets.iter().for_each(|bucket| self.bucket(bucket)),
            GroupKind::Indirect => group.buckets.iter().take(1).for_each(|bucket| self.bucket(bucket)),
            GroupKind::Select => {
                if let Some(bucket) = self.select(group) {
                    self.bucket(bucket);
                }
            }
            GroupKind::FastFailover => {
                if let Some(bucket) = group.buckets.iter().find(|bucket| self.is_live(bucket)) {
                    self.bucket(bucket);
                }
            }
        }
        self.groups_deep -= 1;
    }

    fn is_live(&self, bucket: &Bucket) -> bool {
        bucket.watch_port.is_none_or(|port| !self.lookup.down.contains(&port))
    }

    /// A bucket works on a copy: what comes behind the group has the packet as it was.
    fn bucket(&mut self, bucket: &Bucket) {
        let (key, at) = (self.key, self.out.actions.len());
        self.out.actions.push(Action::Clone(0));
        self.carry_out(&bucket.actions);
        self.key = key;
        let made = &self.out.actions[at + 1..];
        if made.iter().any(|action| matches!(action, Action::Set(_))) {
            self.out.actions[at] = Action::Clone(made.len() as u16);
        } else {
            self.out.actions.remove(at);
        }
    }

    /// The bucket for a packet's flow. All packets of a flow have the same one.
    fn select<'b>(&mut self, group: &'b Group) -> Option<&'b Bucket> {
        let live = |bucket: &&Bucket| self.is_live(bucket) && bucket.weight > 0;
        let total: u64 = group.buckets.iter().filter(live).map(|bucket| u64::from(bucket.weight)).sum();
        let mut left = ((u128::from(self.flow_hash()) * u128::from(total)) >> 64) as u64;
        let live = |bucket: &&Bucket| self.is_live(bucket) && bucket.weight > 0;
        group.buckets.iter().filter(live).find(|bucket| {
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
