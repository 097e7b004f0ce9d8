//! The disk of one server: a [`wal::MemoryDisk`] that takes its time.

use std::collections::VecDeque;

use machine::Rng;
use machine::nanos::{Span, Time};
use wal::{DiskError, Lane, MemoryDisk, Write};

/// How fast a disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    /// What a write and its syncs take at least.
    pub write_min: Span,
    /// What is added on average (an exponential distribution).
    pub write_more: Span,
    /// Of a thousand writes, so many take up to [`Speed::slow`] longer.
    pub slow_per_mille: u32,
    /// See there.
    pub slow: Span,
}

impl Default for Speed {
    fn default() -> Self {
        Self {
            write_min: Span::from_us(80),
            write_more: Span::from_us(150),
            slow_per_mille: 10,
            slow: Span::from_ms(30),
        }
    }
}

/// The number of a write and what came of it.
pub type Done = (u64, Result<(), DiskError>);

/// A disk and what is being written to it: one write of each lane at a time, in order.
#[derive(Clone, Debug)]
pub struct Disk {
    /// The files.
    pub files: MemoryDisk,
    speed: Speed,
    rng: Rng,
    log: VecDeque<Write>,
    snapshots: VecDeque<Write>,
    /// Nothing gets done before.
    stalled_until: Time,
}

impl Disk {
    /// An empty disk.
    pub fn new(speed: Speed, rng: Rng) -> Self {
        let files = MemoryDisk::new();
        Self { files, speed, rng, log: VecDeque::new(), snapshots: VecDeque::new(), stalled_until: Time::ZERO }
    }

    fn lane(&mut self, lane: Lane) -> &mut VecDeque<Write> {
        match lane {
            Lane::Log => &mut self.log,
            Lane::Snapshot => &mut self.snapshots,
        }
    }

    /// Takes a write. When it will be done, unless others of its lane are before it.
    ///
    /// # Panics
    /// If a second write of the log is under way: the log has promised one at a time.
    pub fn submit(&mut self, now: Time, write: Write) -> Option<Time> {
        let lane = write.lane;
        self.lane(lane).push_back(write);
        assert!(self.log.len() <= 1, "one batch of the log at a time, not {:?}", self.log);
        (self.lane(lane).len() == 1).then(|| self.done_at(now))
    }

    fn done_at(&mut self, now: Time) -> Time {
        let more = -(1.0 - self.rng.fraction()).ln() * self.speed.write_more.as_ns() as f64;
        let mut span = self.speed.write_min + Span::from_ns(more as u64);
        if self.rng.below(1_000) < self.speed.slow_per_mille {
            span = span + Span::from_ns((self.rng.fraction() * self.speed.slow.as_ns() as f64) as u64);
        }
        now.max(self.stalled_until) + span
    }

    /// The first write of a lane has had its time: its number and what came of it, and when the next one will be done.
    /// Or, if the disk stalls, when to come back.
    pub fn done(&mut self, now: Time, lane: Lane) -> (Option<Done>, Option<Time>) {
        if now < self.stalled_until {
            return (None, Some(self.done_at(now)));
        }
        let write = self.lane(lane).pop_front().expect("a write is done once");
        let result = self.files.carry_out(&write);
        let next = (!self.lane(lane).is_empty()).then(|| self.done_at(now));
        (Some((write.id, result)), next)
    }

    /// Nothing gets done for a while.
    pub fn stall(&mut self, until: Time) {
        self.stalled_until = self.stalled_until.max(until);
    }

    /// It works as usual again.
    pub fn heal(&mut self) {
        self.stalled_until = Time::ZERO;
        self.files.fill_after(None);
    }

    /// The process dies in the midst of what it was writing. What it wrote stays.
    pub fn process_dies(&mut self) {
        for write in self.log.drain(..).chain(self.snapshots.drain(..).take(1)) {
            let operations = self.rng.below(write.operations.len() as u32 + 1) as usize;
            // A disk that is full or fails while the process dies tells nobody.
            let _ = self.files.carry_out_part(&write, operations);
        }
        self.snapshots.clear();
    }

    /// The power fails: what was not synced is lost, or not, sector by sector.
    pub fn power_fails(&mut self) {
        self.process_dies();
        self.files.crash(&mut self.rng);
    }
}

#[cfg(test)]
mod tests {
    use wal::{FileName, Folder, Operation};

    use super::*;

    fn append(id: u64, sync: bool) -> Write {
        let file = FileName::new("log").expect("a valid name");
        let mut operations = vec![Operation::Append { file: file.clone(), bytes: vec![id as u8; 600].into() }];
        if sync {
            operations.push(Operation::Sync { file });
        }
        Write { id, lane: Lane::Log, operations }
    }

    fn length(disk: &Disk) -> u64 {
        disk.files.list().expect("memory has no secrets").iter().map(|(_, bytes)| bytes).sum()
    }

    #[test]
    fn a_write_takes_its_time_and_a_stall_more() {
        let mut disk = Disk::new(Speed::default(), Rng::new(1));
        let at = disk.submit(Time::ZERO, append(1, true)).expect("nothing is before it");
        assert!(at > Time::ZERO + Span::from_us(80));
        disk.stall(Time::ZERO + Span::from_secs(2));
        let (None, Some(at)) = disk.done(at, Lane::Log) else { panic!("it stalls") };
        assert!(at > Time::ZERO + Span::from_secs(2));
        assert_eq!(disk.done(at, Lane::Log), (Some((1, Ok(()))), None));
        assert_eq!(length(&disk), 600);
    }

    #[test]
    fn what_was_synced_survives_and_the_rest_may_not() {
        let mut lengths = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut disk = Disk::new(Speed::default(), Rng::new(seed));
            disk.submit(Time::ZERO, append(1, true));
            disk.done(Time::ZERO, Lane::Log);
            disk.submit(Time::ZERO, append(2, true));
            disk.power_fails();
            assert_eq!(&disk.files.files()[&FileName::new("log").expect("valid")][..600], [1; 600]);
            lengths.insert(length(&disk));
        }
        assert!(lengths.contains(&600) && lengths.contains(&1_200) && lengths.len() > 5, "{lengths:?}");
    }

    #[test]
    fn a_killed_process_loses_nothing_that_it_wrote() {
        for seed in 0..50 {
            let mut disk = Disk::new(Speed::default(), Rng::new(seed));
            disk.submit(Time::ZERO, append(1, false));
            disk.done(Time::ZERO, Lane::Log);
            disk.process_dies();
            assert_eq!(length(&disk), 600);
        }
    }
}
