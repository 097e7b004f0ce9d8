//! Changes of tables: whether they can be made, and which of them mean a flow.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::actions::Instructions;
use super::flow::{Flow, Selection};
use super::group::Group;
use super::key::Key;
use super::matching::Match;
use super::meter::Meter;

/// Entries of one switch.
pub const ENTRIES_MAX: usize = 1_000_000;

/// Masks of all entries of one switch: each costs a packet that no cache knows a look-up.
pub const MASKS_MAX: usize = 4_096;

/// Groups of one switch.
pub const GROUPS_MAX: usize = 4_096;

/// Meters of one switch.
pub const METERS_MAX: usize = 65_536;

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
    /// Adds a meter.
    AddMeter(Meter),
    /// Gives a meter other bands; it begins anew.
    ModifyMeter(Meter),
    /// Removes a meter, or all, with all flows that name it.
    DeleteMeter(Option<u32>),
}

/// Why tables are not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// There are as many as there may be.
    #[error("the switch has {ENTRIES_MAX} flows, which is as many as it takes")]
    FlowsFull,
    /// There are as many kinds of matches as there may be.
    #[error(
        "the flows of the switch match {MASKS_MAX} different sets of bits, which is as many as it searches for a packet"
    )]
    MasksFull,
    /// There are as many groups as there may be.
    #[error("the switch has {GROUPS_MAX} groups, which is as many as it takes")]
    GroupsFull,
    /// A flow or a group names one that there is not.
    #[error("the switch has no group {0}")]
    NoSuchGroup(u32),
    /// It is there already.
    #[error("the switch has a group {0} already")]
    GroupExists(u32),
    /// There are as many meters as there may be.
    #[error("the switch has {METERS_MAX} meters, which is as many as it takes")]
    MetersFull,
    /// A flow names one that there is not.
    #[error("the switch has no meter {0}")]
    NoSuchMeter(u32),
    /// It is there already.
    #[error("the switch has a meter {0} already")]
    MeterExists(u32),
    /// A group would come to itself.
    #[error("group {0} would lead to itself")]
    GroupLoop(u32),
}

impl ChangeError {
    /// What fixes it.
    pub fn hint(&self) -> String {
        match self {
            Self::FlowsFull => "`heddle flow del SWITCH 'FLOWS'` makes room".to_owned(),
            Self::MasksFull => {
                "let more flows match the same fields with the same masks: packets that no cache knows are looked up once for each set".to_owned()
            }
            Self::GroupsFull | Self::GroupLoop(_) => "let fewer groups do it".to_owned(),
            Self::NoSuchGroup(group) => {
                format!("`heddle group add SWITCH 'group_id={group},type=all,bucket=..'` first")
            }
            Self::GroupExists(_) => "`heddle group mod` gives it other buckets".to_owned(),
            Self::MetersFull => "let several flows name one meter".to_owned(),
            Self::NoSuchMeter(meter) => {
                format!("`heddle meter add SWITCH 'meter={meter},kbps,band=type=drop,rate=1000'` first")
            }
            Self::MeterExists(_) => "`heddle meter mod` gives it other bands".to_owned(),
        }
    }
}

/// Changes of a switch's tables, which are made in their order.
#[derive(Debug, Default)]
pub struct ChangeList {
    changes: Vec<TableChange>,
    runs: Vec<Run>,
}

/// Neighbouring deletions of flows, or neighbouring modifications.
#[derive(Debug)]
pub struct Run {
    pub changes: Range<usize>,
    /// Which flows they mean, by the masks of that.
    masks: Vec<(Key, Vec<(Key, u32)>)>,
}

/// How far a list of changes has been made.
#[derive(Clone, Debug, Default)]
pub struct ChangeProgress {
    /// The change that is next.
    pub(super) change: usize,
    /// The entry at which the sweep for its run is.
    pub(super) entry: Option<usize>,
    /// The groups or meters that it removes.
    pub(super) removal: Option<Removal>,
}

/// What flows name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Referent {
    /// A group.
    Group(u32),
    /// A meter.
    Meter(u32),
}

impl Referent {
    /// All that instructions name.
    pub fn all_of(instructions: &Instructions) -> impl Iterator<Item = Self> + '_ {
        instructions.groups().map(Self::Group).chain(instructions.meter.map(Self::Meter))
    }
}

/// Groups or meters that are to go.
#[derive(Clone, Debug)]
pub struct Removal {
    pub all: BTreeSet<Referent>,
    /// Those that entries may name.
    pub in_use: Vec<Referent>,
}

impl ChangeList {
    /// Prepares changes.
    pub fn new(changes: Vec<TableChange>) -> Self {
        let mut runs: Vec<Run> = Vec::new();
        for (number, change) in changes.iter().enumerate() {
            let Some(kind) = kind(change) else { continue };
            match runs.last_mut() {
                Some(run) if run.changes.end == number && kind_of_run(&changes, run) == Some(kind) => {
                    run.changes.end += 1;
                }
                _ => runs.push(Run { changes: number..number + 1, masks: Vec::new() }),
            }
        }
        for run in &mut runs {
            run.index(&changes);
        }
        Self { changes, runs }
    }

    /// The changes.
    pub fn changes(&self) -> &[TableChange] {
        &self.changes
    }

    /// The neighbours of a deletion or modification.
    pub(super) fn run(&self, change: usize) -> Option<&Run> {
        let at = self.runs.partition_point(|run| run.changes.end <= change);
        self.runs.get(at).filter(|run| run.changes.contains(&change))
    }
}

/// Changes of a kind that a sweep can make.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Delete,
    Modify,
}

const fn kind(change: &TableChange) -> Option<Kind> {
    match change {
        TableChange::Delete(_) => Some(Kind::Delete),
        TableChange::Modify(..) => Some(Kind::Modify),
        TableChange::Add(_)
        | TableChange::AddGroup(_)
        | TableChange::ModifyGroup(_)
        | TableChange::DeleteGroup(_)
        | TableChange::AddMeter(_)
        | TableChange::ModifyMeter(_)
        | TableChange::DeleteMeter(_) => None,
    }
}

fn kind_of_run(changes: &[TableChange], run: &Run) -> Option<Kind> {
    kind(&changes[run.changes.start])
}

/// Whether a change may mean many flows, so that it is made in pieces.
pub const fn is_lengthy(change: &TableChange) -> bool {
    match change {
        TableChange::Modify(..)
        | TableChange::Delete(_)
        | TableChange::DeleteGroup(_)
        | TableChange::DeleteMeter(_) => true,
        TableChange::Add(_)
        | TableChange::AddGroup(_)
        | TableChange::ModifyGroup(_)
        | TableChange::AddMeter(_)
        | TableChange::ModifyMeter(_) => false,
    }
}

/// Which flows a deletion or modification means.
pub const fn selection(change: &TableChange) -> Option<&Selection> {
    match change {
        TableChange::Delete(selection) | TableChange::Modify(selection, _) => Some(selection),
        TableChange::Add(_)
        | TableChange::AddGroup(_)
        | TableChange::ModifyGroup(_)
        | TableChange::DeleteGroup(_)
        | TableChange::AddMeter(_)
        | TableChange::ModifyMeter(_)
        | TableChange::DeleteMeter(_) => None,
    }
}

impl Run {
    /// How many masks a flow is held against.
    pub const fn masks(&self) -> usize {
        self.masks.len()
    }

    fn index(&mut self, changes: &[TableChange]) {
        let selections = self.changes.clone().filter_map(|number| Some((number, selection(&changes[number])?)));
        let mut sorted: Vec<(Key, Key, u32)> = selections
            .map(|(number, selection)| (selection.matching.mask, selection.matching.key, number as u32))
            .collect();
        sorted.sort_unstable();
        for (mask, key, number) in sorted {
            match self.masks.last_mut() {
                Some((last, keys)) if *last == mask => keys.push((key, number)),
                _ => self.masks.push((mask, vec![(key, number)])),
            }
        }
    }

    /// The changes from `first` on that mean a flow, in no order.
    pub fn meaning<'a>(
        &'a self,
        list: &'a ChangeList,
        (first, flow): (usize, &'a Flow),
    ) -> impl Iterator<Item = usize> + 'a {
        let Match { key, mask } = &flow.matching;
        let masks = self.masks.iter().filter(|(wanted, _)| wanted.is_within(mask));
        let candidates = masks.flat_map(move |(mask, keys)| {
            let key = key.masked(mask);
            let start = keys.partition_point(|(other, number)| (other, *number as usize) < (&key, first));
            keys[start..].iter().take_while(move |(other, _)| *other == key)
        });
        let numbers = candidates.map(|(_, number)| *number as usize);
        numbers.filter(|number| selection(&list.changes[*number]).is_some_and(|selection| selection.has(flow)))
    }
}

impl ChangeProgress {
    /// Whether all of the list has been made.
    pub fn is_done(&self, list: &ChangeList) -> bool {
        self.change >= list.changes.len()
    }
}

/// The group of this number, or all, and those that lead to it.
pub fn removed_with(groups: &BTreeMap<u32, Arc<Group>>, id: Option<u32>) -> BTreeSet<u32> {
    let Some(id) = id else { return groups.keys().copied().collect() };
    let mut gone = BTreeSet::new();
    if !groups.contains_key(&id) {
        return gone;
    }
    let mut named_by: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for group in groups.values() {
        for name in group.names() {
            named_by.entry(name).or_default().push(group.id);
        }
    }
    let mut to_do = vec![id];
    while let Some(id) = to_do.pop() {
        if gone.insert(id) {
            to_do.extend(named_by.get(&id).into_iter().flatten());
        }
    }
    gone
}

/// What tables hold, as far as changes that are to be made depend on it.
#[derive(Clone, Debug, Default)]
pub struct TablesSummary {
    /// By their numbers.
    pub groups: BTreeMap<u32, Arc<Group>>,
    /// The numbers of meters, in their order.
    pub meters: Vec<u32>,
    /// How many entries there are.
    pub entries: usize,
    /// How many masks they have: those of each table.
    pub masks: usize,
}

/// What tables know of a flow that is to be added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownFlow {
    /// Its place is that of another one.
    pub is_replacement: bool,
    /// Others of its table have its mask.
    pub has_mask: bool,
}

impl TablesSummary {
    /// Whether flows of these changes have to be looked up before it is known that there is room for them.
    pub fn may_be_full(&self, changes: &[TableChange]) -> bool {
        let adds = changes.iter().filter(|change| matches!(change, TableChange::Add(_))).count();
        self.entries + adds > ENTRIES_MAX || self.masks + adds > MASKS_MAX
    }

    /// Whether changes can be made one after the other. `known`: what tables know of each flow of theirs, if they may be full; without it all are new. Deletions make
    /// room where they mean all flows.
    ///
    /// # Errors
    /// The first change that cannot, and why.
    pub fn check(mut self, changes: &[TableChange], known: Option<&[KnownFlow]>) -> Result<(), (usize, ChangeError)> {
        let may_be_full = self.may_be_full(changes);
        // Flows and masks of the list.
        let (mut flows, mut masks) = (BTreeSet::new(), BTreeSet::new());
        let mut known = known;
        let mut meters: BTreeSet<u32> = self.meters.iter().copied().collect();
        for (number, change) in changes.iter().enumerate() {
            let checked = match change {
                TableChange::Add(flow) if !may_be_full => self.check_named(&meters, &flow.instructions),
                TableChange::Add(flow) => {
                    let KnownFlow { is_replacement, has_mask } = known.map_or_else(KnownFlow::default, |it| it[number]);
                    if !is_replacement && flows.insert((flow.table, flow.priority, flow.matching)) {
                        self.entries += 1;
                    }
                    if !has_mask && masks.insert((flow.table, flow.matching.mask)) {
                        self.masks += 1;
                    }
                    if self.entries > ENTRIES_MAX {
                        Err(ChangeError::FlowsFull)
                    } else if self.masks > MASKS_MAX {
                        Err(ChangeError::MasksFull)
                    } else {
                        self.check_named(&meters, &flow.instructions)
                    }
                }
                TableChange::Modify(_, instructions) => self.check_named(&meters, instructions),
                TableChange::AddGroup(group) | TableChange::ModifyGroup(group) => {
                    let checked = check_group(&self.groups, group, matches!(change, TableChange::ModifyGroup(_)));
                    self.groups.insert(group.id, Arc::new(group.clone()));
                    checked
                }
                TableChange::Delete(selection) => {
                    if *selection == Selection::ALL {
                        (self.entries, self.masks, known) = (0, 0, None);
                        flows.clear();
                        masks.clear();
                    }
                    Ok(())
                }
                TableChange::AddMeter(meter) | TableChange::ModifyMeter(meter) => {
                    let known = meters.contains(&meter.id);
                    let checked = check_meter_change(change, meter, known, meters.len());
                    meters.insert(meter.id);
                    checked
                }
                TableChange::DeleteMeter(id) => {
                    meters.retain(|meter| id.is_some_and(|id| id != *meter));
                    Ok(())
                }
                TableChange::DeleteGroup(id) => {
                    for id in removed_with(&self.groups, *id) {
                        self.groups.remove(&id);
                    }
                    Ok(())
                }
            };
            checked.map_err(|error| (number, error))?;
        }
        Ok(())
    }

    fn check_named(&self, meters: &BTreeSet<u32>, instructions: &Instructions) -> Result<(), ChangeError> {
        check_named(instructions, |id| self.groups.contains_key(&id), |id| meters.contains(&id))
    }
}

/// The groups and the meter that instructions name must be there.
pub fn check_named(
    instructions: &Instructions,
    has_group: impl Fn(u32) -> bool,
    has_meter: impl Fn(u32) -> bool,
) -> Result<(), ChangeError> {
    let missing = Referent::all_of(instructions).find_map(|named| match named {
        Referent::Group(id) => (!has_group(id)).then_some(ChangeError::NoSuchGroup(id)),
        Referent::Meter(id) => (!has_meter(id)).then_some(ChangeError::NoSuchMeter(id)),
    });
    missing.map_or(Ok(()), Err)
}

/// Whether a meter can be added, or another one take its place. `known`: whether there is one of its number; `count`: how many there are.
pub const fn check_meter_change(
    change: &TableChange,
    meter: &Meter,
    known: bool,
    count: usize,
) -> Result<(), ChangeError> {
    let is_new = matches!(change, TableChange::AddMeter(_));
    match (is_new, known) {
        (true, true) => Err(ChangeError::MeterExists(meter.id)),
        (false, false) => Err(ChangeError::NoSuchMeter(meter.id)),
        (true, false) if count >= METERS_MAX => Err(ChangeError::MetersFull),
        (true, false) | (false, true) => Ok(()),
    }
}

/// Whether a group can be added, or another one take its place.
pub fn check_group(groups: &BTreeMap<u32, Arc<Group>>, group: &Group, is_change: bool) -> Result<(), ChangeError> {
    match groups.get(&group.id) {
        None if is_change => return Err(ChangeError::NoSuchGroup(group.id)),
        Some(_) if !is_change => return Err(ChangeError::GroupExists(group.id)),
        None if groups.len() >= GROUPS_MAX => return Err(ChangeError::GroupsFull),
        _ => {}
    }
    // All that it leads to. Nobody leads to one that is new.
    let (mut reached, mut to_do) = (BTreeSet::new(), group.names().collect::<Vec<u32>>());
    while let Some(id) = to_do.pop() {
        if id == group.id {
            return Err(ChangeError::GroupLoop(id));
        }
        let next = groups.get(&id).ok_or(ChangeError::NoSuchGroup(id))?;
        if is_change && reached.insert(id) {
            to_do.extend(next.names());
        }
    }
    Ok(())
}
