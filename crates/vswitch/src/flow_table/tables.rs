//! The flow tables of one switch: entries, groups, and what they have counted.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use machine::{Rebase, Span, Time};
use topology::PortId;
use wire::Error;

use super::actions::{FlowAction, Instructions};
use super::cache::{Cache, CacheCounters, Cached};
use super::changes::{
    ChangeError, ChangeList, ChangeProgress, ENTRIES_MAX, KnownFlow, MASKS_MAX, Referent, TableChange, TablesSummary,
    check_group, check_meter_change, check_named, is_lengthy,
};
use super::classifier::Classifier;
use super::flow::{Flow, Selection};
use super::frozen::FrozenStates;
use super::group::Group;
use super::group_counters::{GroupCounters, GroupStatus};
use super::key::{Key, Slot};
use super::meter::{MeterState, MeterStatus, Metered};
use super::ports::Ports;
use super::recirculation::{Pass, Run, Stacks};
use super::walk::{Decision, Lookup, walk};
use crate::action::Action;
use crate::conntrack::{Conntrack, Request, Segment, Tracked};
use crate::seeds::Seeds;

/// Entries that expire at once: what is left follows a moment later.
const EXPIRED_AT_ONCE: usize = 1_024;

/// Connections of one switch: as many as Linux keeps.
const CONNECTIONS_MAX: usize = 1 << 18;

/// An entry, and what it has counted.
#[derive(Clone, Debug)]
pub struct EntryState {
    /// What it says.
    pub flow: Arc<Flow>,
    /// When it was made.
    made_at: Time,
    /// When it was last met.
    used_at: Time,
    /// Where it stands among deadlines.
    listed_at: Option<Time>,
    packets: u64,
    bytes: u64,
}

/// What an entry is and has counted, for whoever asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryStatus {
    /// What it says.
    pub flow: Arc<Flow>,
    /// How long it has been there.
    pub duration: Span,
    /// How long it has met nothing.
    pub idle: Span,
    /// Packets that have met it.
    pub packets: u64,
    /// Their bytes, from the destination address on, without frame check sequence.
    pub bytes: u64,
}

/// The flow tables of one switch. Time is an argument.
#[derive(Debug)]
pub struct FlowTables {
    ports: Ports,
    tables: Vec<Classifier>,
    entries: Vec<Option<EntryState>>,
    free: Vec<u32>,
    groups: BTreeMap<u32, Arc<Group>>,
    group_counters: GroupCounters,
    meters: BTreeMap<u32, MeterState>,
    /// The entries that name a group or a meter.
    users: BTreeMap<Referent, BTreeSet<u32>>,
    /// Ports without a carrier.
    down: BTreeSet<PortId>,
    /// When entries may have to go.
    deadlines: BTreeSet<(Time, u32)>,
    cache: Cache,
    seeds: Seeds,
    /// Packets that would have come to more actions than a packet may.
    too_long: u64,
    /// Since the first flow that asks for it.
    conntrack: Option<Box<Conntrack>>,
    frozen: FrozenStates,
    stacks: Stacks,
    /// Whether a meter has dropped the last packet, or a copy of it.
    has_metered: bool,
}

impl FlowTables {
    /// Tables of a switch with these ports and flows, from this time on.
    ///
    /// # Errors
    /// As [`FlowTables::change`].
    pub fn new(now: Time, ports: Ports, seeds: Seeds, changes: &[TableChange]) -> Result<Self, ChangeError> {
        let mut tables = Self {
            ports,
            tables: Vec::new(),
            entries: Vec::new(),
            free: Vec::new(),
            groups: BTreeMap::new(),
            group_counters: GroupCounters::default(),
            meters: BTreeMap::new(),
            users: BTreeMap::new(),
            down: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            cache: Cache::new(seeds.tables),
            seeds,
            too_long: 0,
            conntrack: None,
            frozen: FrozenStates::default(),
            stacks: Stacks::default(),
            has_metered: false,
        };
        for change in changes {
            tables.change(now, change)?;
        }
        Ok(tables)
    }

    /// A packet of so many bytes has come in by this port. Adds what is to be done; without any action it is dropped.
    ///
    /// # Errors
    /// If its headers are malformed: it met no entry.
    pub fn process(
        &mut self,
        now: Time,
        in_port: PortId,
        packet: (&[u8], u32),
        actions: &mut Vec<Action>,
    ) -> Result<(), Error> {
        self.process_from(now, (in_port, 0), packet, actions)
    }

    /// [`FlowTables::process`] of a packet that has come by this network of a tunnel, or by none (0).
    ///
    /// # Errors
    /// As that.
    pub fn process_from(
        &mut self,
        now: Time,
        (in_port, tunnel): (PortId, u32),
        (headers, bytes): (&[u8], u32),
        actions: &mut Vec<Action>,
    ) -> Result<(), Error> {
        self.has_metered = false;
        let mut key = Key::default();
        key.read(in_port.0, headers)?;
        key.set(Slot::TUN_ID, u64::from(tunnel));
        let has_inquiries = self.decide((now, bytes), &key, |decision, stacks| {
            if decision.inquiries.is_empty() {
                actions.extend_from_slice(decision.actions);
                return false;
            }
            stacks.add(decision.actions, decision.inquiries);
            true
        });
        if has_inquiries {
            let (before, mut stacks) = (actions.len(), std::mem::take(&mut self.stacks));
            let mut packet = OnItsWay { tables: self, now, bytes };
            if !Run::new(&mut packet, Some(headers), &mut stacks, actions).carry_out(&key) {
                actions.truncate(before);
                self.too_long += 1;
            }
            stacks.clear();
            self.stacks = stacks;
        }
        Ok(())
    }

    /// Whether a meter has dropped the packet that was processed last, or a copy of it.
    pub const fn has_metered(&self) -> bool {
        self.has_metered
    }

    /// Decides about a packet, and counts it; `take` may keep what is to be carried out.
    #[inline]
    fn decide<T>(
        &mut self,
        (now, bytes): (Time, u32),
        key: &Key,
        take: impl FnOnce(&Cached<'_>, &mut Stacks) -> T,
    ) -> T {
        let Self {
            cache, frozen, tables, entries, groups, group_counters, ports, seeds, down, too_long, stacks, ..
        } = self;
        let seed = seeds.choices;
        let decision = cache.find(key, |decision| {
            let instructions = |entry: u32| Some(&entries[entry as usize].as_ref()?.flow.instructions);
            let (instructions, counters) = (&instructions, &*group_counters);
            walk(Lookup { tables, instructions, groups, counters, ports, seed, down }, frozen, key, decision);
        });
        *too_long += u64::from(decision.is_too_long);
        for entry in decision.entries {
            if let Some(entry) = &mut entries[*entry as usize] {
                entry.packets += 1;
                entry.bytes += u64::from(bytes);
                entry.used_at = now;
            }
        }
        group_counters.count(decision.counted, bytes);
        take(&decision, stacks)
    }

    /// Looks a packet up, past the caches; nothing is counted.
    pub(super) fn look_up(&self, frozen: &mut FrozenStates, key: &Key, decision: &mut Decision) {
        let Self { tables, entries, groups, group_counters, ports, seeds, down, .. } = self;
        let instructions = |entry: u32| Some(&entries[entry as usize].as_ref()?.flow.instructions);
        let (instructions, counters, seed) = (&instructions, group_counters, seeds.choices);
        let lookup = Lookup { tables, instructions, groups, counters, ports, seed, down };
        walk(lookup, frozen, key, decision);
    }

    /// What the entry of this number says.
    pub(super) fn flow(&self, entry: u32) -> Option<Arc<Flow>> {
        Some(Arc::clone(&self.entries[entry as usize].as_ref()?.flow))
    }

    /// The connections of packets, if a flow has asked for them.
    pub fn conntrack(&self) -> Option<&Conntrack> {
        self.conntrack.as_deref()
    }

    /// Forgets connections of a zone, or all, from a place on, at most so many places; `None` if no flow asks for any. How many there were, and where to go on.
    pub fn flush_connections(
        &mut self,
        now: Time,
        zone: Option<u16>,
        (from, places): (usize, usize),
    ) -> Option<(usize, Option<usize>)> {
        Some(self.conntrack.as_mut()?.flush(now, zone, from, places))
    }

    /// Nothing that was decided holds any more.
    pub(super) fn outdate(&mut self) {
        self.cache.outdate();
        self.frozen.clear();
    }

    /// How many deadlines are kept.
    #[cfg(test)]
    pub(super) fn deadlines(&self) -> usize {
        self.deadlines.len()
    }

    /// The place for connections is made when a flow first asks for them, and not when a packet comes.
    pub(super) fn prepare(&mut self, change: &TableChange) {
        let asks = |actions: &[FlowAction]| actions.iter().any(|action| matches!(action, FlowAction::Track(_)));
        let is_asked = match change {
            TableChange::Add(flow) => asks(&flow.instructions.apply),
            TableChange::Modify(_, instructions) => asks(&instructions.apply),
            TableChange::AddGroup(group) | TableChange::ModifyGroup(group) => {
                group.buckets.iter().any(|bucket| asks(&bucket.actions))
            }
            TableChange::Delete(_)
            | TableChange::DeleteGroup(_)
            | TableChange::AddMeter(_)
            | TableChange::ModifyMeter(_)
            | TableChange::DeleteMeter(_) => false,
        };
        if is_asked && self.conntrack.is_none() {
            self.conntrack = Some(Box::new(Conntrack::new(self.seeds.tables, CONNECTIONS_MAX)));
        }
    }

    /// What changes that are to be made depend on.
    pub fn summary(&self) -> TablesSummary {
        TablesSummary {
            groups: self.groups.clone(),
            meters: self.meters.keys().copied().collect(),
            entries: self.entries.len() - self.free.len(),
            masks: self.masks(),
        }
    }

    /// Masks of all tables.
    fn masks(&self) -> usize {
        self.tables.iter().map(Classifier::masks).sum()
    }

    /// What is known of the flows that these changes add, one a change.
    pub fn known(&self, changes: &[TableChange]) -> Vec<KnownFlow> {
        let known = |change: &TableChange| {
            let TableChange::Add(flow) = change else { return KnownFlow::default() };
            let table = self.tables.get(usize::from(flow.table));
            table.map_or_else(KnownFlow::default, |table| KnownFlow {
                is_replacement: table.get(&flow.matching, flow.priority).is_some(),
                has_mask: table.has_mask(&flow.matching.mask),
            })
        };
        changes.iter().map(known).collect()
    }

    /// Whether a change can be made, if those before it in the list are.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn check(&self, changes: &[TableChange]) -> Result<(), (usize, ChangeError)> {
        let summary = self.summary();
        let known = summary.may_be_full(changes).then(|| self.known(changes));
        summary.check(changes, known.as_deref())
    }

    /// Makes a change. Returns how many flows or groups it has changed.
    ///
    /// # Errors
    /// Why it cannot be made; nothing has changed then.
    pub fn change(&mut self, now: Time, change: &TableChange) -> Result<usize, ChangeError> {
        if !is_lengthy(change) {
            self.outdate();
            return self.make(now, change);
        }
        if let TableChange::Modify(_, instructions) = change {
            self.check_named(instructions)?;
        }
        let (list, mut progress) = (ChangeList::new(vec![change.clone()]), ChangeProgress::default());
        let mut changed = 0;
        while !progress.is_done(&list) {
            changed += self.change_some(now, &list, &mut progress);
        }
        Ok(changed)
    }

    /// What instructions name must be there.
    fn check_named(&self, instructions: &Instructions) -> Result<(), ChangeError> {
        check_named(instructions, |id| self.groups.contains_key(&id), |id| self.meters.contains_key(&id))
    }

    /// Whether there is room for a flow.
    fn check_room(&self, change: &TableChange) -> Result<(), ChangeError> {
        let (entries, masks) = (self.entries.len() - self.free.len(), self.masks());
        if entries < ENTRIES_MAX && masks < MASKS_MAX {
            return Ok(());
        }
        for KnownFlow { is_replacement, has_mask } in self.known(std::slice::from_ref(change)) {
            if !is_replacement && entries >= ENTRIES_MAX {
                return Err(ChangeError::FlowsFull);
            }
            if !has_mask && masks >= MASKS_MAX {
                return Err(ChangeError::MasksFull);
            }
        }
        Ok(())
    }

    /// Makes a change that means neither many flows nor many groups.
    pub(super) fn make(&mut self, now: Time, change: &TableChange) -> Result<usize, ChangeError> {
        match change {
            TableChange::Add(flow) => {
                self.check_named(&flow.instructions)?;
                self.check_room(change)?;
                self.prepare(change);
                self.add(now, flow);
            }
            TableChange::AddGroup(group) | TableChange::ModifyGroup(group) => {
                check_group(&self.groups, group, matches!(change, TableChange::ModifyGroup(_)))?;
                self.prepare(change);
                self.group_counters.set(now, group);
                self.groups.insert(group.id, Arc::new(group.clone()));
            }
            TableChange::AddMeter(meter) | TableChange::ModifyMeter(meter) => {
                let known = self.meters.contains_key(&meter.id);
                check_meter_change(change, meter, known, self.meters.len())?;
                self.meters.insert(meter.id, MeterState::new(now, meter.clone()));
            }
            TableChange::Modify(..)
            | TableChange::Delete(_)
            | TableChange::DeleteGroup(_)
            | TableChange::DeleteMeter(_) => return Ok(0),
        }
        Ok(1)
    }

    fn add(&mut self, now: Time, flow: &Arc<Flow>) {
        let table = usize::from(flow.table);
        while self.tables.len() <= table {
            self.tables.push(Classifier::new(self.seeds.tables));
        }
        let mut state =
            EntryState { flow: Arc::clone(flow), made_at: now, used_at: now, listed_at: None, packets: 0, bytes: 0 };
        state.listed_at = deadline(&state);
        let listed_at = state.listed_at;
        let id = if let Some(id) = self.free.pop() {
            self.entries[id as usize] = Some(state);
            id
        } else {
            self.entries.push(Some(state));
            self.entries.len() as u32 - 1
        };
        if let Some(old) = self.tables[table].insert(&flow.matching, flow.priority, id) {
            self.forget(old);
        }
        self.deadlines.extend(listed_at.map(|at| (at, id)));
        self.note_users(id);
    }

    /// Notes which groups and which meter an entry names.
    fn note_users(&mut self, id: u32) {
        if let Some(EntryState { flow, .. }) = &self.entries[id as usize] {
            for named in Referent::all_of(&flow.instructions) {
                self.users.entry(named).or_default().insert(id);
            }
        }
    }

    /// Gives an entry other instructions.
    pub(super) fn set_instructions(&mut self, id: u32, instructions: &Instructions) {
        let Some(EntryState { flow, .. }) = &mut self.entries[id as usize] else { return };
        let old = std::mem::replace(&mut Arc::make_mut(flow).instructions, instructions.clone());
        self.forget_users(id, &old);
        self.note_users(id);
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, id: u32) {
        if let Some(entry) = &self.entries[id as usize] {
            self.tables[usize::from(entry.flow.table)].remove(&entry.flow.matching, entry.flow.priority);
            self.forget(id);
        }
    }

    fn forget(&mut self, id: u32) {
        if let Some(entry) = self.entries[id as usize].take() {
            self.free.push(id);
            if let Some(at) = entry.listed_at {
                self.deadlines.remove(&(at, id));
            }
            self.forget_users(id, &entry.flow.instructions);
        }
    }

    fn forget_users(&mut self, id: u32, instructions: &Instructions) {
        for named in Referent::all_of(instructions) {
            if let Some(users) = self.users.get_mut(&named) {
                users.remove(&id);
                if users.is_empty() {
                    self.users.remove(&named);
                }
            }
        }
    }

    /// An entry that names this.
    pub(super) fn user_of(&self, named: Referent) -> Option<u32> {
        self.users.get(&named)?.first().copied()
    }

    /// Removes groups and meters that no entry names. How many there were.
    pub(super) fn remove_named(&mut self, gone: &BTreeSet<Referent>) -> usize {
        let before = self.groups.len() + self.meters.len();
        self.groups.retain(|id, _| !gone.contains(&Referent::Group(*id)));
        self.group_counters.retain(|id| self.groups.contains_key(&id));
        self.meters.retain(|id, _| !gone.contains(&Referent::Meter(*id)));
        before - self.groups.len() - self.meters.len()
    }

    /// The meter of this number, or all.
    pub(super) fn meters_meant(&self, id: Option<u32>) -> impl Iterator<Item = u32> + '_ {
        let is_meant = move |meter: &&u32| id.is_none_or(|id| id == **meter);
        self.meters.keys().filter(is_meant).copied()
    }

    pub(super) const fn all_groups(&self) -> &BTreeMap<u32, Arc<Group>> {
        &self.groups
    }

    pub(super) fn tables(&self) -> &[Classifier] {
        &self.tables
    }

    /// The entry of this number.
    pub(super) fn entry(&self, id: u32) -> Option<&EntryState> {
        self.entries.get(id as usize)?.as_ref()
    }

    /// Places for entries: numbers that they have had.
    pub const fn places(&self) -> usize {
        self.entries.len()
    }

    /// Removes entries whose time has come, or some of them. When the next one may have to go.
    pub fn expire(&mut self, now: Time) -> Time {
        let mut left = EXPIRED_AT_ONCE;
        while let Some(&(at, id)) = self.deadlines.first() {
            if at > now || left == 0 {
                return at;
            }
            left -= 1;
            let Some(Some(entry)) = self.entries.get_mut(id as usize) else {
                self.deadlines.remove(&(at, id));
                continue;
            };
            match deadline(entry) {
                // It has met packets since it was put there.
                Some(later) if later > now => {
                    self.deadlines.remove(&(at, id));
                    entry.listed_at = Some(later);
                    self.deadlines.insert((later, id));
                }
                _ => {
                    self.remove(id);
                    self.outdate();
                }
            }
        }
        Time::NEVER
    }

    /// A port has lost its carrier, or has it back.
    pub fn set_carrier(&mut self, port: PortId, up: bool) {
        let Some(port) = self.ports.known_as(port) else { return };
        let has_changed = if up { self.down.remove(&port) } else { self.down.insert(port) };
        if has_changed {
            self.outdate();
        }
    }

    /// The switch has these ports from now on: all that it had, and perhaps more.
    pub fn set_ports(&mut self, ports: Ports) {
        if self.ports != ports {
            self.ports = ports;
            self.outdate();
        }
    }

    /// The entries that are meant, in the order of their tables, then of their priorities, highest first.
    pub fn entries(&self, now: Time, selection: &Selection) -> Vec<EntryStatus> {
        let mut rows = self.entries_within(now, selection, 0..self.places());
        EntryStatus::sort(&mut rows);
        rows
    }

    /// Those of the entries at these places that are meant, in no order. What is to expire now is not there any more.
    pub fn entries_within(&self, now: Time, selection: &Selection, places: Range<usize>) -> Vec<EntryStatus> {
        let places = places.start.min(self.places())..places.end.min(self.places());
        let entries = self.entries[places].iter().flatten();
        let is_there = |entry: &&EntryState| deadline(entry).is_none_or(|at| at > now);
        let meant = entries.filter(|entry| selection.has(&entry.flow)).filter(is_there);
        meant.map(|entry| entry.status(now)).collect()
    }

    /// All groups, in the order of their numbers.
    pub fn groups(&self, now: Time) -> Vec<GroupStatus> {
        let flows = |id: u32| self.users.get(&Referent::Group(id)).map_or(0, BTreeSet::len);
        let groups = self.groups.values();
        groups.filter_map(|group| self.group_counters.status(now, group, flows(group.id))).collect()
    }

    /// All meters, in the order of their numbers.
    pub fn meters(&self, now: Time) -> Vec<MeterStatus> {
        let flows = |id: u32| self.users.get(&Referent::Meter(id)).map_or(0, BTreeSet::len);
        let status = |(id, meter): (&u32, &MeterState)| meter.status(now, flows(*id));
        self.meters.iter().map(status).collect()
    }

    /// What its caches have counted.
    pub fn cache_counters(&self) -> CacheCounters {
        self.cache.counters()
    }

    /// How many packets would have come to more actions than a packet may, and were dropped.
    pub const fn too_long(&self) -> u64 {
        self.too_long
    }

    /// The ports that flows can name.
    pub const fn ports(&self) -> &Ports {
        &self.ports
    }
}

impl EntryStatus {
    /// In the order of tables, then of priorities, highest first.
    pub fn sort(rows: &mut [Self]) {
        rows.sort_by_key(|row| (row.flow.table, std::cmp::Reverse(row.flow.priority)));
    }
}

impl EntryState {
    fn status(&self, now: Time) -> EntryStatus {
        EntryStatus {
            flow: Arc::clone(&self.flow),
            duration: now.since(self.made_at),
            idle: now.since(self.used_at),
            packets: self.packets,
            bytes: self.bytes,
        }
    }
}

/// A packet that has come in.
struct OnItsWay<'a> {
    tables: &'a mut FlowTables,
    now: Time,
    bytes: u32,
}

impl Pass for OnItsWay<'_> {
    fn decide(&mut self, key: &Key, stacks: &mut Stacks) {
        self.tables.decide((self.now, self.bytes), key, |decision, _| stacks.add(decision.actions, decision.inquiries));
    }

    fn track(&mut self, segment: &Segment, request: &Request) -> Tracked {
        let conntrack = self.tables.conntrack.as_mut();
        conntrack.map_or_else(Tracked::default, |conntrack| conntrack.process(self.now, segment, request))
    }

    fn track_again(&mut self, segment: &Segment, request: &Request) -> Option<Tracked> {
        self.tables.conntrack.as_mut()?.revisit(self.now, segment, request)
    }

    fn meter(&mut self, id: u32) -> Metered {
        let (now, bytes) = (self.now, self.bytes);
        let metered = self.tables.meters.get_mut(&id).map_or(Metered::Pass, |meter| meter.process(now, bytes));
        self.tables.has_metered |= metered == Metered::Drop;
        metered
    }
}

/// When an entry has to go, if nothing meets it before.
fn deadline(entry: &EntryState) -> Option<Time> {
    let idle = entry.flow.idle_timeout().map(|timeout| entry.used_at + timeout);
    let hard = entry.flow.hard_timeout().map(|timeout| entry.made_at + timeout);
    idle.into_iter().chain(hard).min()
}

impl Rebase for FlowTables {
    fn rebase(&mut self, by: Span) {
        let Self {
            ports: _,
            tables: _,
            entries,
            free: _,
            groups: _,
            group_counters,
            users: _,
            meters,
            down: _,
            deadlines,
            cache: _,
            seeds: _,
            too_long: _,
            conntrack,
            frozen: _,
            stacks: _,
            has_metered: _,
        } = self;
        entries.rebase(by);
        group_counters.rebase(by);
        for meter in meters.values_mut() {
            meter.rebase(by);
        }
        if let Some(conntrack) = conntrack {
            conntrack.rebase(by);
        }
        let moved = std::mem::take(deadlines).into_iter().map(|(mut at, id)| {
            at.rebase(by);
            (at, id)
        });
        *deadlines = moved.collect();
    }
}

impl Rebase for EntryState {
    fn rebase(&mut self, by: Span) {
        let Self { flow: _, made_at, used_at, listed_at, packets: _, bytes: _ } = self;
        made_at.rebase(by);
        used_at.rebase(by);
        listed_at.rebase(by);
    }
}
