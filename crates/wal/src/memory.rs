//! A disk in memory that forgets, tears, fills up and rots as disks do: for tests and for `sim`.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use machine::Rng;

use crate::extents::Extents;
use crate::{DiskError, FileName, Folder, Operation, SECTOR_BYTES, Write, temporary_name};

/// A file's content: what processes see, and what a loss of power leaves for sure.
#[derive(Clone, Debug, Default)]
struct Content {
    visible: Extents,
    durable: Extents,
    /// The only bytes in which the two may differ, in length too: a sync costs no more than what was written.
    changed: Range<usize>,
}

impl Content {
    fn change(&mut self, range: Range<usize>) {
        let old = std::mem::replace(&mut self.changed, range.clone());
        if !old.is_empty() {
            self.changed = old.start.min(range.start)..old.end.max(range.end);
        }
    }

    /// Cuts it, or extends it with zeros.
    fn resize(&mut self, len: usize) {
        let old = self.visible.len();
        self.visible.resize(len);
        self.change(old.min(len)..old.max(len));
    }

    /// Puts bytes at an offset that is not behind the end.
    fn write(&mut self, offset: usize, bytes: Bytes) {
        self.change(offset..offset + bytes.len());
        self.visible.write(offset, bytes);
    }

    fn sync(&mut self) {
        self.durable.resize(self.visible.len());
        let Range { start, end } = std::mem::take(&mut self.changed);
        let end = end.min(self.visible.len());
        if start < end {
            self.durable.copy_from(&self.visible, start..end);
        }
    }
}

/// A change of the folder that is not durable yet. A file is known by a number, as its name may change.
#[derive(Clone, Debug)]
enum Change {
    Create(FileName, u64),
    Rename(FileName, FileName),
    Delete(FileName),
}

impl Change {
    fn concerns(&self, file: &FileName) -> bool {
        match self {
            Self::Create(name, _) | Self::Delete(name) => name == file,
            Self::Rename(from, to) => from == file || to == file,
        }
    }

    fn apply(self, names: &mut BTreeMap<FileName, u64>) {
        match self {
            Self::Create(name, number) => {
                names.insert(name, number);
            }
            Self::Rename(from, to) => {
                if let Some(number) = names.remove(&from) {
                    names.insert(to, number);
                }
            }
            Self::Delete(name) => {
                names.remove(&name);
            }
        }
    }
}

/// A disk in memory that tells what is durable from what isn't.
///
/// What it promises is what POSIX and journaling file systems promise: a synced file has its content, length and name;
/// a rename is done or not done; everything else may be lost or kept after a loss of power, sector by sector.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    contents: BTreeMap<u64, Content>,
    visible: BTreeMap<FileName, u64>,
    durable: BTreeMap<FileName, u64>,
    changes: Vec<Change>,
    next_number: u64,
    room: Option<u64>,
    sync_failure: Option<String>,
    /// How many bytes the next write takes before it fails, and why.
    write_failure: Option<(usize, String)>,
}

impl MemoryDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Carries out a whole write.
    ///
    /// # Errors
    /// As set by [`MemoryDisk::fill_after`], [`MemoryDisk::fail_next_sync`] and [`MemoryDisk::fail_next_write`].
    pub fn carry_out(&mut self, write: &Write) -> Result<(), DiskError> {
        self.carry_out_part(write, write.operations.len())
    }

    /// Carries out the first operations of a write and begins the next one, without making it durable: with
    /// [`MemoryDisk::crash`], what a loss of power in its midst leaves.
    ///
    /// # Errors
    /// As [`MemoryDisk::carry_out`].
    pub fn carry_out_part(&mut self, write: &Write, operations: usize) -> Result<(), DiskError> {
        for (k, operation) in write.operations.iter().enumerate().take(operations.saturating_add(1)) {
            self.begin(operation)?;
            if k < operations {
                self.end(operation)?;
            }
        }
        Ok(())
    }

    /// What processes see of an operation.
    fn begin(&mut self, operation: &Operation) -> Result<(), DiskError> {
        match operation {
            Operation::Append { file, bytes } => self.append(file, bytes),
            Operation::WriteAt { file, offset, bytes } => {
                let len = self.created(file).visible.len();
                let offset = usize::try_from(*offset).ok().filter(|offset| *offset <= len);
                self.write(file, offset.expect("a write begins within its file, or at its end"), bytes)
            }
            Operation::Allocate { file, len } => {
                let old = self.created(file).visible.len();
                let wanted = usize::try_from(*len).unwrap_or(usize::MAX).saturating_sub(old);
                let fits = wanted.min(self.free());
                if fits > 0 {
                    self.created(file).resize(old + fits);
                }
                Ok(())
            }
            Operation::Truncate { file, len } => {
                let len = usize::try_from(*len).unwrap_or(usize::MAX);
                if let Some(content) = self.content_mut(file).filter(|content| content.visible.len() > len) {
                    content.resize(len);
                }
                Ok(())
            }
            Operation::Replace { file, bytes } => {
                let temporary = temporary_name(file);
                self.delete(&temporary);
                self.append(&temporary, bytes)
            }
            Operation::Rename { from, to } => {
                self.rename(from, to);
                Ok(())
            }
            Operation::Delete { file } => {
                self.delete(file);
                Ok(())
            }
            Operation::Sync { .. } => Ok(()),
        }
    }

    /// What makes an operation durable, if it has to be.
    fn end(&mut self, operation: &Operation) -> Result<(), DiskError> {
        match operation {
            Operation::Sync { file } => self.sync(file),
            Operation::Replace { file, .. } => {
                let temporary = temporary_name(file);
                self.sync(&temporary)?;
                self.rename(&temporary, file);
                self.sync_name(file);
                Ok(())
            }
            Operation::Rename { to, .. } => {
                self.sync_name(to);
                Ok(())
            }
            Operation::Append { .. }
            | Operation::WriteAt { .. }
            | Operation::Allocate { .. }
            | Operation::Truncate { .. }
            | Operation::Delete { .. } => Ok(()),
        }
    }

    fn content_mut(&mut self, file: &FileName) -> Option<&mut Content> {
        let number = self.visible.get(file)?;
        self.contents.get_mut(number)
    }

    /// A file's content; the file is created if it is missing.
    fn created(&mut self, file: &FileName) -> &mut Content {
        if !self.visible.contains_key(file) {
            self.next_number += 1;
            self.contents.insert(self.next_number, Content::default());
            self.change(Change::Create(file.clone(), self.next_number));
        }
        self.content_mut(file).expect("it is there now")
    }

    /// Bytes that still fit on the disk.
    fn free(&self) -> usize {
        let Some(room) = self.room else { return usize::MAX };
        usize::try_from(room.saturating_sub(self.used_bytes())).unwrap_or(usize::MAX)
    }

    fn append(&mut self, file: &FileName, bytes: &Bytes) -> Result<(), DiskError> {
        let len = self.created(file).visible.len();
        self.write(file, len, bytes)
    }

    fn write(&mut self, file: &FileName, offset: usize, bytes: &Bytes) -> Result<(), DiskError> {
        if let Some((fits, text)) = self.write_failure.take() {
            // A kernel takes whole pages, or none of one: what is left of a sector is not written.
            let end = (offset + fits.min(bytes.len())) / SECTOR_BYTES * SECTOR_BYTES;
            self.created(file).write(offset, bytes.slice(..end.saturating_sub(offset)));
            return Err(DiskError::Failed(text));
        }
        let free = self.free();
        let content = self.created(file);
        let inside = content.visible.len() - offset;
        let fits = bytes.len().min(inside.saturating_add(free));
        content.write(offset, bytes.slice(..fits));
        if fits < bytes.len() { Err(DiskError::Full) } else { Ok(()) }
    }

    fn rename(&mut self, from: &FileName, to: &FileName) {
        if self.visible.contains_key(from) {
            self.change(Change::Rename(from.clone(), to.clone()));
        } else {
            assert!(self.visible.contains_key(to), "{from} is to be renamed, but was never written");
        }
    }

    fn delete(&mut self, file: &FileName) {
        if self.visible.contains_key(file) {
            self.change(Change::Delete(file.clone()));
        }
    }

    fn change(&mut self, change: Change) {
        change.clone().apply(&mut self.visible);
        self.changes.push(change);
    }

    fn sync(&mut self, file: &FileName) -> Result<(), DiskError> {
        if let Some(text) = self.sync_failure.take() {
            // As Linux does it: the pages count as clean, and nothing says whether they reached the disk.
            return Err(DiskError::Failed(text));
        }
        if let Some(content) = self.content_mut(file) {
            content.sync();
        }
        self.sync_name(file);
        Ok(())
    }

    /// Makes the last of the changes that concern a name durable, and all before it that these depend on.
    fn sync_name(&mut self, file: &FileName) {
        if self.changes.is_empty() {
            return;
        }
        let mut concerned = vec![file.clone()];
        for change in self.changes.iter().rev() {
            if let Change::Rename(from, to) = change
                && concerned.contains(to)
            {
                concerned.push(from.clone());
            }
        }
        let is_synced = |change: &Change| concerned.iter().any(|name| change.concerns(name));
        let (synced, rest): (Vec<_>, _) = std::mem::take(&mut self.changes).into_iter().partition(is_synced);
        self.changes = rest;
        if synced.is_empty() {
            return;
        }
        for change in synced {
            change.apply(&mut self.durable);
        }
        self.forget_unnamed();
    }

    /// The file system writes its journal, as it does by itself every few seconds: all changes of names are durable. Until then what was
    /// deleted takes memory, since a loss of power could bring it back.
    pub fn write_journal(&mut self) {
        if self.changes.is_empty() {
            return;
        }
        for change in std::mem::take(&mut self.changes) {
            change.apply(&mut self.durable);
        }
        self.forget_unnamed();
    }

    /// The power fails: a random part of what was not synced is lost, sector by sector and change by change. (A
    /// process that is killed loses nothing: its files stay as they are.)
    pub fn crash(&mut self, rng: &mut Rng) {
        for change in std::mem::take(&mut self.changes) {
            if rng.below(2) == 0 {
                change.apply(&mut self.durable);
            }
        }
        self.visible = self.durable.clone();
        self.forget_unnamed();
        for content in self.contents.values_mut() {
            if content.changed.is_empty() {
                continue;
            }
            content.durable = torn(content, rng);
            content.visible = content.durable.clone();
            content.changed = 0..0;
        }
        self.sync_failure = None;
        self.write_failure = None;
    }

    fn forget_unnamed(&mut self) {
        let (visible, durable, changes) = (&self.visible, &self.durable, &self.changes);
        self.contents.retain(|number, _| {
            let is_created = |change: &Change| matches!(change, Change::Create(_, created) if created == number);
            visible.values().chain(durable.values()).any(|named| named == number) || changes.iter().any(is_created)
        });
    }

    /// No more bytes fit on the disk than these in total; `None` is no limit. A write that doesn't fit leaves the
    /// part that did.
    pub fn fill_after(&mut self, bytes: Option<u64>) {
        self.room = bytes;
    }

    fn lengths(&self) -> impl Iterator<Item = (&FileName, u64)> {
        self.visible.iter().map(|(name, number)| (name, self.contents[number].visible.len() as u64))
    }

    /// Bytes in all files.
    pub fn used_bytes(&self) -> u64 {
        self.lengths().map(|(_, bytes)| bytes).sum()
    }

    /// The next sync fails with this text. The content stays visible, but is not durable.
    pub fn fail_next_sync(&mut self, text: &str) {
        self.sync_failure = Some(text.to_owned());
    }

    /// The next write fails with this text after so many bytes, or a few less: it ends with a sector.
    pub fn fail_next_write(&mut self, bytes: usize, text: &str) {
        self.write_failure = Some((bytes, text.to_owned()));
    }

    /// Flips a bit of a file, as rot does: durably. `bit` counts from the file's start; false if there is no such bit.
    pub fn corrupt(&mut self, file: &FileName, bit: u64) -> bool {
        let (Ok(byte), flip) = (usize::try_from(bit / 8), 1 << (bit % 8)) else { return false };
        let Some(content) = self.content_mut(file) else { return false };
        let mut found = false;
        for bytes in [&mut content.visible, &mut content.durable] {
            found |= bytes.flip(byte, flip);
        }
        found
    }

    /// All files as a process sees them.
    pub fn files(&self) -> BTreeMap<FileName, Vec<u8>> {
        let content = |(name, number): (&FileName, &u64)| (name.clone(), self.contents[number].visible.to_vec());
        self.visible.iter().map(content).collect()
    }
}

/// What a loss of power leaves of a file: a length between the durable and the visible one, and of each sector the
/// visible content or the durable one, or zeros where there was none.
fn torn(content: &Content, rng: &mut Rng) -> Extents {
    let (visible, durable) = (&content.visible, &content.durable);
    let (low, high) = (visible.len().min(durable.len()), visible.len().max(durable.len()));
    let len = match rng.below(4) {
        0 => durable.len(),
        1 => low + rng.below((high - low) as u32 + 1) as usize,
        _ => visible.len(),
    };
    let kept_of_4 = rng.below(5);
    let mut left = durable.clone();
    left.resize(len);
    let (first, last) = (content.changed.start / SECTOR_BYTES, content.changed.end.div_ceil(SECTOR_BYTES));
    for sector in first..last.min(len.div_ceil(SECTOR_BYTES)) {
        if rng.below(4) < kept_of_4 {
            // Behind the visible end the durable bytes are all that there is.
            let (start, end) = (sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES);
            left.copy_from(visible, start..end.min(len).min(visible.len()).max(start));
        }
    }
    left
}

impl Folder for MemoryDisk {
    fn list(&self) -> Result<Vec<(FileName, u64)>, DiskError> {
        Ok(self.lengths().map(|(name, bytes)| (name.clone(), bytes)).collect())
    }

    fn read(&self, file: &FileName) -> Result<Vec<u8>, DiskError> {
        let number = self.visible.get(file).ok_or_else(|| DiskError::Failed(format!("{file}: no such file")))?;
        Ok(self.contents[number].visible.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_deleted_takes_no_memory_once_the_journal_is_written() {
        let mut disk = MemoryDisk::new();
        for segment in 0..100 {
            let file = FileName::new(format!("segment-{segment}")).unwrap();
            let bytes = Bytes::from(vec![1; SECTOR_BYTES]);
            let write = [Operation::Append { file: file.clone(), bytes }, Operation::Sync { file: file.clone() }];
            for operation in write.iter().chain([&Operation::Delete { file }]) {
                disk.begin(operation).and_then(|()| disk.end(operation)).unwrap();
            }
        }
        assert_eq!((disk.used_bytes(), disk.contents.len()), (0, 100), "a loss of power could bring them back");
        disk.write_journal();
        assert!(disk.contents.is_empty() && disk.changes.is_empty());
        disk.crash(&mut Rng::new(1));
        assert_eq!(disk.list(), Ok(Vec::new()));
    }
}
