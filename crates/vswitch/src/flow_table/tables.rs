//! The flow tables of one switch: entries, groups, and what they have counted.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use machine::{Rebase, Span, Time};
use topology::PortId;

use super::actions::{FlowAction, Instructions};
use super::cache::{Cache, CacheCounters, Cached};
use super::classifier::Classifier;
use super::flow::{Flow, Selection};
use super::frozen::FrozenStates;
use super::group::Group;
use super::key::Key;
use super::ports::Ports;
use super::recirculation::{Pass, Run, Stacks};
use super::walk::{Decision, Lookup, walk};
use crate::action::Action;
use crate::conntrack::{Conntrack, Request, Segment, Tracked};

/// Entries of one switch.
const ENTRIES_MAX: usize = 1_000_000;

/// Groups of one switch.
const GROUPS_MAX: usize = 4_096;

/// Connections of one switch: as many as Linux keeps.
const CONNECTIONS_MAX: usize = 1 << 18;

/// A change of a switch's tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableChange {
    /// Adds a flow. One with the same table, priority and match is replaced, and its counters begin anew.
    Add(Arc<Flow>),
    /// Gives flows that are meant these instructions; counters go on.
    Modify(Selection, Instructions),
    /// Removes the flows that are meant.
    Delete(Selection),
    /// Adds a group.
    AddGroup(Group),
    /// Gives a group other buckets.
    ModifyGroup(Group),
    /// Removes a group, or all, with all flows that name it.
    DeleteGroup(Option<u32>),
}

/// Why tables are not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// There are as many as there may be.
    #[error("the switch has {ENTRIES_MAX} flows, which is as many as it takes")]
    FlowsFull,
    /// There are as many groups as there may be.
    #[error("the switch has {GROUPS_MAX} groups, which is as many as it takes")]
    GroupsFull,
    /// A flow or a group names one that there is not.
    #[error("the switch has no group {0}")]
    NoSuchGroup(u32),
    /// It is there already.
    #[error("the switch has a group {0} already")]
    GroupExists(u32),
    /// A group would come to itself.
    #[error("group {0} would lead to itself")]
    GroupLoop(u32),
}

impl ChangeError {
    /// What fixes it.
    pub fn hint(&self) -> String {
        match self {
            Self::FlowsFull => "`heddle flow del SWITCH 'FLOWS'` makes room".to_owned(),
            Self::GroupsFull | Self::GroupLoop(_) => "let fewer groups do it".to_owned(),
            Self::NoSuchGroup(group) => {
                format!("`heddle group add SWITCH 'group_id={group},type=all,bucket=..'` first")
            }
            Self::GroupExists(_) => "`heddle group mod` gives it other buckets".to_owned(),
        }
    }
}

/// An entry, and what it has counted.
#[derive(Clone, Debug)]
pub struct EntryState {
    /// What it says.
    pub flow: Arc<Flow>,
    /// When it was made.
    made_at: Time,
    /// When it was last met.
    used_at: Time,
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
    groups: BTreeMap<u32, Group>,
    /// Ports without a carrier.
    down: BTreeSet<PortId>,
    /// When entries may have to go.
    deadlines: BTreeSet<(Time, u32)>,
    cache: Cache,
    seed: u64,
    /// Packets that would have come to more actions than a packet may.
    too_long: u64,
    /// Since the first flow that asks for it.
    conntrack: Option<Box<Conntrack>>,
    frozen: FrozenStates,
    stacks: Stacks,
}

impl FlowTables {
    /// Tables of a switch with these ports and flows, from this time on. `seed` is where hashes start.
    ///
    /// # Errors
    /// As [`FlowTables::change`].
    pub fn new(now: Time, ports: Ports, seed: u64, changes: &[TableChange]) -> Result<Self, ChangeError> {
        let mut tables = Self {
            ports,
            tables: Vec::new(),
            entries: Vec::new(),
            free: Vec::new(),
            groups: BTreeMap::new(),
            down: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            cache: Cache::new(seed),
            seed,
            too_long: 0,
            conntrack: None,
            frozen: FrozenStates::default(),
            stacks: Stacks::default(),
        };
        for change in changes {
            tables.change(now, change)?;
        }
        Ok(tables)
    }

    /// A packet of so many bytes has come in by this port. Adds what is to be done; without any action it is dropped. Headers that are malformed have none.
    pub fn process(&mut self, now: Time, in_port: PortId, (headers, bytes): (&[u8], u32), actions: &mut Vec<Action>) {
        let Ok(key) = Key::parse(in_port.0, headers) else { return };
        let mut stacks = std::mem::take(&mut self.stacks);
        let is_tracked = self.decide((now, bytes), &key, |decision| {
            if decision.tracking.is_empty() {
                actions.extend_from_slice(decision.actions);
                return false;
            }
            stacks.add(decision.actions, decision.tracking);
            true
        });
        if is_tracked {
            let before = actions.len();
            let mut packet = OnItsWay { tables: self, now, bytes };
            if !Run::new(&mut packet, Some(headers), &mut stacks, actions).carry_out(&key) {
                actions.truncate(before);
                self.too_long += 1;
            }
            stacks.clear();
        }
        self.stacks = stacks;
    }

    /// Decides about a packet, and counts it.
    #[inline]
    fn decide<T>(&mut self, (now, bytes): (Time, u32), key: &Key, take: impl FnOnce(&Cached<'_>) -> T) -> T {
        let Self { cache, frozen, tables, entries, groups, ports, seed, down, too_long, .. } = self;
        let seed = *seed;
        let decision = cache.find(key, |decision| {
            let instructions = |entry: u32| Some(&entries[entry as usize].as_ref()?.flow.instructions);
            walk(Lookup { tables, instructions: &instructions, groups, ports, seed, down }, frozen, key, decision);
        });
        *too_long += u64::from(decision.is_too_long);
        for entry in decision.entries {
            if let Some(entry) = &mut entries[*entry as usize] {
                entry.packets += 1;
                entry.bytes += u64::from(bytes);
                entry.used_at = now;
            }
        }
        take(&decision)
    }

    /// Looks a packet up, past the caches; nothing is counted.
    pub(super) fn look_up(&self, frozen: &mut FrozenStates, key: &Key, decision: &mut Decision) {
        let Self { tables, entries, groups, ports, seed, down, .. } = self;
        let instructions = |entry: u32| Some(&entries[entry as usize].as_ref()?.flow.instructions);
        let lookup = Lookup { tables, instructions: &instructions, groups, ports, seed: *seed, down };
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

    /// Nothing that was decided holds any more.
    fn outdate(&mut self) {
        self.cache.outdate();
        self.frozen.clear();
        self.forget_deadlines();
    }

    /// Deadlines of flows that are no more are passed over when they come; here, where they are most of all.
    fn forget_deadlines(&mut self) {
        const SPARE: usize = 1_024;
        if self.deadlines.len() <= 2 * (self.entries.len() - self.free.len()) + SPARE {
            return;
        }
        let of = |(id, entry): (usize, &Option<EntryState>)| Some((deadline(entry.as_ref()?)?, id as u32));
        self.deadlines = self.entries.iter().enumerate().filter_map(of).collect();
    }

    /// The place for connections is made when a flow first asks for them, and not when a packet comes.
    fn prepare(&mut self, change: &TableChange) {
        let asks = |actions: &[FlowAction]| actions.iter().any(|action| matches!(action, FlowAction::Track(_)));
        let is_asked = match change {
            TableChange::Add(flow) => asks(&flow.instructions.apply),
            TableChange::Modify(_, instructions) => asks(&instructions.apply),
            TableChange::AddGroup(group) | TableChange::ModifyGroup(group) => {
                group.buckets.iter().any(|bucket| asks(&bucket.actions))
            }
            TableChange::Delete(_) | TableChange::DeleteGroup(_) => false,
        };
        if is_asked && self.conntrack.is_none() {
            self.conntrack = Some(Box::new(Conntrack::new(self.seed, CONNECTIONS_MAX)));
        }
    }

    /// Whether a change can be made, if those before it in the list are.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn check(&self, changes: &[TableChange]) -> Result<(), (usize, ChangeError)> {
        let mut groups = Cow::Borrowed(&self.groups);
        let mut entries = self.entries.len() - self.free.len();
        for (number, change) in changes.iter().enumerate() {
            let checked = match change {
                TableChange::Add(flow) => {
                    entries += 1;
                    if entries > ENTRIES_MAX {
                        Err(ChangeError::FlowsFull)
                    } else {
                        check_groups(&groups, &flow.instructions)
                    }
                }
                TableChange::Modify(_, instructions) => check_groups(&groups, instructions),
                TableChange::AddGroup(group) | TableChange::ModifyGroup(group) => {
                    let checked = check_group(&groups, group, matches!(change, TableChange::ModifyGroup(_)));
                    groups.to_mut().insert(group.id, group.clone());
                    checked
                }
                TableChange::Delete(_) => Ok(()),
                TableChange::DeleteGroup(id) => {
                    groups.to_mut().retain(|group, _| id.is_some_and(|id| id != *group));
                    Ok(())
                }
            };
            checked.map_err(|error| (number, error))?;
        }
        Ok(())
    }

    /// Makes a change. Returns how many flows or groups it has changed.
    ///
    /// # Errors
    /// Why it cannot be made; nothing has changed then.
    pub fn change(&mut self, now: Time, change: &TableChange) -> Result<usize, ChangeError> {
        self.check(std::slice::from_ref(change)).map_err(|(_, error)| error)?;
        self.outdate();
        self.prepare(change);
        Ok(match change {
            TableChange::Add(flow) => {
                self.add(now, flow);
                1
            }
            TableChange::Modify(selection, instructions) => self.modify(selection, instructions),
            TableChange::Delete(selection) => self.remove_where(|flow| selection.has(flow)),
            TableChange::AddGroup(group) | TableChange::ModifyGroup(group) => {
                self.groups.insert(group.id, group.clone());
                1
            }
            TableChange::DeleteGroup(id) => {
                let before = self.groups.len();
                self.groups.retain(|group, _| id.is_some_and(|id| id != *group));
                self.drop_missing_groups();
                before - self.groups.len()
            }
        })
    }

    fn add(&mut self, now: Time, flow: &Arc<Flow>) {
        let table = usize::from(flow.table);
        while self.tables.len() <= table {
            self.tables.push(Classifier::new(self.seed));
        }
        let state = EntryState { flow: Arc::clone(flow), made_at: now, used_at: now, packets: 0, bytes: 0 };
        let deadline = deadline(&state);
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
        self.deadlines.extend(deadline.map(|at| (at, id)));
    }

    fn modify(&mut self, selection: &Selection, instructions: &Instructions) -> usize {
        let mut changed = 0;
        for entry in self.entries.iter_mut().flatten().filter(|entry| selection.has(&entry.flow)) {
            Arc::make_mut(&mut entry.flow).instructions = instructions.clone();
            changed += 1;
        }
        changed
    }

    fn remove_where(&mut self, is_meant: impl Fn(&Flow) -> bool) -> usize {
        let entries = self.entries.iter().enumerate();
        let meant = entries.filter(|(_, entry)| entry.as_ref().is_some_and(|entry| is_meant(&entry.flow)));
        let meant: Vec<u32> = meant.map(|(id, _)| id as u32).collect();
        for id in &meant {
            self.remove(*id);
        }
        meant.len()
    }

    fn remove(&mut self, id: u32) {
        if let Some(entry) = &self.entries[id as usize] {
            self.tables[usize::from(entry.flow.table)].remove(&entry.flow.matching, entry.flow.priority);
            self.forget(id);
        }
    }

    fn forget(&mut self, id: u32) {
        if self.entries[id as usize].take().is_some() {
            self.free.push(id);
        }
    }

    /// Flows and groups that name a group which is not there any more go with it.
    fn drop_missing_groups(&mut self) {
        loop {
            let groups = &self.groups;
            let is_missing = |group: &Group| group.names().any(|id| !groups.contains_key(&id));
            let missing: Vec<u32> = groups.values().filter(|group| is_missing(group)).map(|group| group.id).collect();
            if missing.is_empty() {
                break;
            }
            self.groups.retain(|id, _| !missing.contains(id));
        }
        let groups = std::mem::take(&mut self.groups);
        self.remove_where(|flow| check_groups(&groups, &flow.instructions).is_err());
        self.groups = groups;
    }

    /// Removes entries whose time has come. When the next one may have to go.
    pub fn expire(&mut self, now: Time) -> Time {
        while let Some(&(at, id)) = self.deadlines.first() {
            if at > now {
                return at;
            }
            self.deadlines.pop_first();
            // A number can be another entry's by now, which has a deadline of its own.
            let Some(entry) = &self.entries[id as usize] else { continue };
            match deadline(entry) {
                Some(at) if at > now => {
                    self.deadlines.insert((at, id));
                }
                Some(_) => {
                    self.remove(id);
                    self.outdate();
                }
                None => {}
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
        let meant = self.entries.iter().flatten().filter(|entry| selection.has(&entry.flow));
        let mut rows: Vec<EntryStatus> = meant.map(|entry| entry.status(now)).collect();
        rows.sort_by_key(|row| (row.flow.table, std::cmp::Reverse(row.flow.priority)));
        rows
    }

    /// All groups, in the order of their numbers.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.values()
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
        self.tables.decide((self.now, self.bytes), key, |decision| stacks.add(decision.actions, decision.tracking));
    }

    fn track(&mut self, segment: &Segment, request: &Request) -> Tracked {
        let conntrack = self.tables.conntrack.as_mut();
        conntrack.map_or_else(Tracked::default, |conntrack| conntrack.process(self.now, segment, request))
    }

    fn track_again(&mut self, segment: &Segment, request: &Request) -> Option<Tracked> {
        self.tables.conntrack.as_mut()?.revisit(self.now, segment, request)
    }
}

/// When an entry has to go, if nothing meets it before.
fn deadline(entry: &EntryState) -> Option<Time> {
    let idle = entry.flow.idle_timeout().map(|timeout| entry.used_at + timeout);
    let hard = entry.flow.hard_timeout().map(|timeout| entry.made_at + timeout);
    idle.into_iter().chain(hard).min()
}

/// The groups that instructions name must be there.
fn check_groups(groups: &BTreeMap<u32, Group>, instructions: &Instructions) -> Result<(), ChangeError> {
    let named = instructions.apply.iter().chain(&instructions.write);
    let missing = named.filter_map(|action| if let FlowAction::Group(id) = action { Some(*id) } else { None });
    missing.filter(|id| !groups.contains_key(id)).map(|id| Err(ChangeError::NoSuchGroup(id))).next().unwrap_or(Ok(()))
}

fn check_group(groups: &BTreeMap<u32, Group>, group: &Group, is_there: bool) -> Result<(), ChangeError> {
    match groups.get(&group.id) {
        None if is_there => return Err(ChangeError::NoSuchGroup(group.id)),
        Some(_) if !is_there => return Err(ChangeError::GroupExists(group.id)),
        None if groups.len() >= GROUPS_MAX => return Err(ChangeError::GroupsFull),
        _ => {}
    }
    // All that it leads to.
    let (mut reached, mut to_do) = (BTreeSet::new(), group.names().collect::<Vec<u32>>());
    while let Some(id) = to_do.pop() {
        if id == group.id {
            return Err(ChangeError::GroupLoop(id));
        }
        let next = groups.get(&id).ok_or(ChangeError::NoSuchGroup(id))?;
        if reached.insert(id) {
            to_do.extend(next.names());
        }
    }
    Ok(())
}

impl Rebase for FlowTables {
    fn rebase(&mut self, by: Span) {
        let Self {
            ports: _,
            tables: _,
            entries,
            free: _,
            groups: _,
            down: _,
            deadlines,
            cache: _,
            seed: _,
            too_long: _,
            conntrack,
            frozen: _,
            stacks: _,
        } = self;
        entries.rebase(by);
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
        let Self { flow: _, made_at, used_at, packets: _, bytes: _ } = self;
        made_at.rebase(by);
        used_at.rebase(by);
    }
}
