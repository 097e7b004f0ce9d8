//! Lists of changes are made a piece at a time: whoever makes them forwards packets between two pieces, however many flows there are and however many are meant.
//!
//! A change that means few flows finds them by their masks. Where too many would have to be looked at, all neighbouring deletions, or modifications, of the list are
//! made in one sweep through all flows.

use std::collections::BTreeSet;

use machine::Time;

use super::changes::{ChangeList, ChangeProgress, Referent, Removal, TableChange, removed_with, selection};
use super::flow::Selection;
use super::tables::{EntryState, FlowTables};

/// What a piece costs at most, in entries that are looked at: each is a line or two of the cache that is not there yet, so this is about a millisecond.
const WORK_AT_ONCE: usize = 8_192;

/// What a change costs besides the entries that it looks at.
const CHANGE_WORK: usize = 64;

/// What an entry that goes costs.
const REMOVAL_WORK: usize = 8;

/// What one change looks at by itself; from there on, a sweep is made.
const SEARCH_WORK_MAX: usize = 2_048;

impl FlowTables {
    /// Makes a piece of changes that have been checked, and says how far it has come. Returns how many flows or groups it has changed. A change that cannot be made
    /// after all, since flows have expired or groups gone, is left out.
    pub fn change_some(&mut self, now: Time, list: &ChangeList, progress: &mut ChangeProgress) -> usize {
        self.outdate();
        let (mut work, mut changed) = (WORK_AT_ONCE, 0);
        while work > 0 && !progress.is_done(list) {
            changed += match progress.entry {
                Some(entry) => self.sweep(list, (entry, progress), &mut work),
                None => self.change_next(now, list, progress, &mut work),
            };
        }
        changed
    }

    fn change_next(&mut self, now: Time, list: &ChangeList, progress: &mut ChangeProgress, work: &mut usize) -> usize {
        *work = work.saturating_sub(CHANGE_WORK);
        let change = &list.changes()[progress.change];
        if matches!(change, TableChange::DeleteGroup(_) | TableChange::DeleteMeter(_)) {
            return self.delete_named(change, progress, work);
        }
        let Some(selection) = selection(change) else {
            progress.change += 1;
            return self.make(now, change).unwrap_or(0);
        };
        self.prepare(change);
        let mut found = Vec::new();
        let mut left = SEARCH_WORK_MAX;
        self.find(selection, &mut left, &mut found);
        *work = work.saturating_sub(SEARCH_WORK_MAX - left);
        if left == 0 {
            progress.entry = Some(0);
            return 0;
        }
        progress.change += 1;
        for id in &found {
            if let TableChange::Modify(_, instructions) = change {
                self.set_instructions(*id, instructions);
            } else {
                self.remove(*id);
            }
        }
        *work = work.saturating_sub(REMOVAL_WORK * found.len());
        found.len()
    }

    /// The entries that are meant, as far as `work` goes: if it is 0 in the end, not all of them.
    fn find(&self, selection: &Selection, work: &mut usize, found: &mut Vec<u32>) {
        for (number, table) in self.tables().iter().enumerate() {
            if selection.table.is_some_and(|wanted| usize::from(wanted) != number) {
                continue;
            }
            if let Some(priority) = selection.strict {
                found.extend(table.get(&selection.matching, priority));
            } else {
                table.covered(&selection.matching, work, found);
            }
        }
        found.retain(|id| self.entry(*id).is_some_and(|entry| selection.has(&entry.flow)));
    }

    /// Goes on with the sweep for the run of the next change.
    fn sweep(
        &mut self,
        list: &ChangeList,
        (mut entry, progress): (usize, &mut ChangeProgress),
        work: &mut usize,
    ) -> usize {
        let first = progress.change;
        let Some(run) = list.run(first) else {
            (progress.change, progress.entry) = (first + 1, None);
            return 0;
        };
        let mut changed = 0;
        while entry < self.places() && *work > 0 {
            let id = entry as u32;
            entry += 1;
            *work = work.saturating_sub(1);
            let Some(EntryState { flow, .. }) = self.entry(id) else { continue };
            let (mut meant, mut last) = (0, None);
            for number in run.meaning(list, (first, flow)) {
                (meant, last) = (meant + 1, last.max(Some(number)));
            }
            *work = work.saturating_sub(run.masks() + meant);
            let Some(last) = last else { continue };
            if let TableChange::Modify(_, instructions) = &list.changes()[last] {
                changed += meant;
                self.set_instructions(id, instructions);
            } else {
                changed += 1;
                self.remove(id);
            }
            *work = work.saturating_sub(REMOVAL_WORK);
        }
        if entry >= self.places() {
            (progress.change, progress.entry) = (run.changes.end, None);
        } else {
            progress.entry = Some(entry);
        }
        changed
    }

    /// Removes groups or meters with what names them: flows first, so that tables hold together between two pieces.
    fn delete_named(&mut self, change: &TableChange, progress: &mut ChangeProgress, work: &mut usize) -> usize {
        let Removal { all, mut in_use } = progress.removal.take().unwrap_or_else(|| {
            *work = work.saturating_sub(self.all_groups().len());
            let all: BTreeSet<Referent> = match change {
                TableChange::DeleteGroup(id) => {
                    removed_with(self.all_groups(), *id).into_iter().map(Referent::Group).collect()
                }
                TableChange::DeleteMeter(id) => self.meters_meant(*id).map(Referent::Meter).collect(),
                _ => BTreeSet::new(),
            };
            Removal { in_use: all.iter().copied().collect(), all }
        });
        while let Some(named) = in_use.last() {
            if let Some(entry) = self.user_of(*named) {
                self.remove(entry);
                *work = work.saturating_sub(REMOVAL_WORK);
            } else {
                in_use.pop();
                *work = work.saturating_sub(1);
            }
            if *work == 0 {
                progress.removal = Some(Removal { all, in_use });
                return 0;
            }
        }
        progress.change += 1;
        self.remove_named(&all)
    }
}
