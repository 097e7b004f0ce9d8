//! Reading a folder: which batches count, and what they say.
//!
//! A batch is written only after the one before it is durable. So only the last batch of the last segment may be torn;
//! it is discarded. Zeros may follow the last batch: they were written ahead, and are cut off like a torn batch before
//! the next segment begins. So no other segment has such a tail. Whatever else is not as it was written is an error,
//! and nothing is changed.

use std::collections::{BTreeMap, BTreeSet};

use crate::batch::{
    Batch, BatchRead, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentIdentity, find_later_batch, read_batch, segment_file,
    segment_of, written_bytes,
};
use crate::file_name::TEMPORARY;
use crate::identity::{cluster_name, owner};
use crate::log::{Pending, Segments, State};
use crate::replay::Replay;
use crate::witness::{Witness, WitnessState};
use crate::{Config, Error, FileName, Folder, Identity, Log, Operation, RecoveredGroup, snapshot};

/// Number of a server's first segment.
const FIRST_SEGMENT: u64 = 1;

/// What [`Log::recover`] found in the folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The owner of the folder; `None` if it is new.
    pub identity: Option<Identity>,
    /// The groups that were ever written, by number; removed ones too.
    pub groups: BTreeMap<u64, RecoveredGroup>,
    /// Bytes of a batch that was being written when the server stopped, and that nobody was told of.
    pub discarded_tail_bytes: u64,
}

impl Log {
    /// Reads a folder.
    ///
    /// The first batch ends what recovery has to do: it begins a segment, cuts what was torn, syncs what may lie in the
    /// system's memory only, and deletes what nothing refers to. Nothing that was recovered may be told to
    /// others before it is done ([`Log::is_ready`]). For a new folder it leaves when [`Log::identify`] was called.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Missing`], [`Error::OtherCluster`], [`Error::NewerVersion`], [`Error::Unreadable`],
    /// [`Error::Unlistable`].
    /// Nothing is changed then.
    pub fn recover(folder: &impl Folder, config: Config) -> Result<(Self, Recovered), Error> {
        let files: BTreeMap<FileName, u64> =
            folder.list().map_err(|error| Error::Unlistable { error })?.into_iter().collect();
        let identity = read_identity(folder, &files, config)?;
        let mut reading = Reading { folder, segments: files.keys().filter_map(segment_of).collect(), owner: None };
        if let Some(last) = reading.segments.last() {
            let Some(identity) = &identity else {
                let why = format!("{} is here", segment_file(*last));
                return Err(Error::Missing { file: Identity::file(), why });
            };
            reading.owner = Some(identity.clone());
        }
        let tail = reading.tail()?;
        let witness = reading.witness(&files, identity.as_ref(), &tail)?;
        let replay = reading.replay(&tail)?;
        replay.check_snapshots(&files)?;
        let pending = opening(&files, identity.as_ref(), &reading.segments, (&tail, witness), &replay);
        let (groups, usage, recovered) = replay.finish();
        let discarded_tail_bytes = tail.discarded_bytes;
        let recovered = Recovered { identity: identity.clone(), groups: recovered, discarded_tail_bytes };
        let lengths = files.iter().filter_map(|(file, &bytes)| Some((segment_of(file)?, bytes)));
        let log = Log {
            config,
            lengths: lengths.filter(|(segment, _)| *segment < tail.next).collect(),
            witness: WitnessState::default(),
            identity,
            groups,
            usage,
            segments: Segments { oldest: tail.oldest, current: tail.next, len: 0, allocated: 0 },
            sequence: tail.sequence,
            serial: files.keys().filter_map(snapshot::serial_of).max().unwrap_or(0),
            pending,
            state: State::Idle { next_id: 1 },
            is_ready: false,
        };
        Ok((log, recovered))
    }
}

fn read(folder: &impl Folder, file: &FileName) -> Result<Vec<u8>, Error> {
    folder.read(file).map_err(|error| Error::Unreadable { file: file.clone(), error })
}

fn read_identity(
    folder: &impl Folder,
    files: &BTreeMap<FileName, u64>,
    config: Config,
) -> Result<Option<Identity>, Error> {
    let file = Identity::file();
    if !files.contains_key(&file) {
        return Ok(None);
    }
    let identity = Identity::read(&read(folder, &file)?)?;
    match config.cluster {
        Some(cluster) if cluster != identity.cluster => Err(Error::OtherCluster {
            file,
            expected: cluster_name(cluster),
            found: owner(identity.cluster, identity.server.0),
        }),
        _ => Ok(Some(identity)),
    }
}

/// What the first batch has to do before it writes. Deletions among it: once the tail is durable, nothing that may survive a
/// crash refers to those files, and on a full disk they may be the only room there is.
fn opening(
    files: &BTreeMap<FileName, u64>,
    identity: Option<&Identity>,
    segments: &BTreeSet<u64>,
    (tail, witness): (&Tail, Option<Witness>),
    replay: &Replay,
) -> Pending {
    let is_leftover = |file: &FileName| file.as_str().ends_with(TEMPORARY);
    let is_unmarked = |file: &FileName| snapshot::serial_of(file).is_some() && !replay.is_marked(file);
    let mut obsolete: BTreeSet<_> =
        files.keys().filter(|file| is_leftover(file) || is_unmarked(file)).cloned().collect();
    obsolete.extend(segments.range(..tail.oldest).map(|&segment| segment_file(segment)));
    let mut before = tail.repair.clone();
    before.extend(obsolete.into_iter().map(|file| Operation::Delete { file }));
    if let Some(identity) = identity {
        // The server may have been killed between the file's rename and the folder's sync.
        before.push(Operation::Sync { file: Identity::file() });
        if witness.is_none() {
            // The folder is older than witnesses are.
            let (sequence, segment) = (tail.sequence - 1, tail.last.unwrap_or(0));
            before.push(Witness { sequence, segment }.begin(identity));
        }
    }
    Pending::opening(before)
}

/// Where the log ends.
struct Tail {
    /// The oldest segment that is needed.
    oldest: u64,
    /// The last segment with a whole batch in it.
    last: Option<u64>,
    /// The segment that the next batch begins.
    next: u64,
    /// Number of the next batch.
    sequence: u64,
    /// Whether a witness stands beside the last segment.
    is_witnessed: bool,
    /// What cuts off what follows the last whole batch, and makes the last whole one durable if only the system's memory holds it.
    repair: Vec<Operation>,
    discarded_bytes: u64,
}

/// What one walk over a segment found.
struct Walk {
    /// Where its last whole batch ends; `None` if it has no whole header.
    end: usize,
    /// What its last whole batch says about the oldest segment.
    oldest: Option<u64>,
    /// Number of the batch after the last whole one.
    sequence: u64,
    /// Whether a torn batch follows, or zeros that were written ahead.
    is_torn: bool,
    /// What its header says.
    is_witnessed: bool,
}

struct Reading<'a, F> {
    folder: &'a F,
    segments: BTreeSet<u64>,
    owner: Option<Identity>,
}

impl<F: Folder> Reading<'_, F> {
    /// Finds the end of the log.
    fn tail(&self) -> Result<Tail, Error> {
        let Some(&newest) = self.segments.last() else {
            let (oldest, next) = (FIRST_SEGMENT, FIRST_SEGMENT);
            let (is_witnessed, repair) = (false, Vec::new());
            return Ok(Tail { oldest, last: None, next, sequence: 1, is_witnessed, repair, discarded_bytes: 0 });
        };
        let file = segment_file(newest);
        let bytes = read(self.folder, &file)?;
        let walk = self.walk(newest, &bytes, None, |_, _| Ok(()))?;
        let discarded_bytes = written_bytes(&bytes).saturating_sub(walk.end) as u64;
        let sync = Operation::Sync { file: file.clone() };
        if let Some(oldest) = walk.oldest {
            let cut = walk.is_torn.then(|| Operation::Truncate { file, len: walk.end as u64 });
            let repair = cut.into_iter().chain([sync]).collect();
            let next = newest.checked_add(1).ok_or_else(|| no_such_segment(newest))?;
            let (last, is_witnessed) = (Some(newest), walk.is_witnessed);
            return Ok(Tail { oldest, last, next, sequence: walk.sequence, is_witnessed, repair, discarded_bytes });
        }
        // Its first batch was being written: the segment is begun anew, once its old content is gone for sure.
        let repair = vec![Operation::Truncate { file, len: 0 }, sync];
        if newest == FIRST_SEGMENT {
            let (oldest, is_witnessed) = (FIRST_SEGMENT, walk.is_witnessed);
            return Ok(Tail { oldest, last: None, next: newest, sequence: 1, is_witnessed, repair, discarded_bytes });
        }
        let last = newest.checked_sub(1).ok_or_else(|| no_such_segment(newest))?;
        let bytes = self.read_needed(last, newest)?;
        let walk = self.walk(last, &bytes, None, |_, _| Ok(()))?;
        let Some(oldest) = walk.oldest.filter(|_| !walk.is_torn) else { return Err(torn_within(last, walk.end)) };
        let is_witnessed = walk.is_witnessed;
        Ok(Tail {
            oldest,
            last: Some(last),
            next: newest,
            sequence: walk.sequence,
            is_witnessed,
            repair,
            discarded_bytes,
        })
    }

    /// What the witness says, if there is one: the log must go as far.
    fn witness(
        &self,
        files: &BTreeMap<FileName, u64>,
        identity: Option<&Identity>,
        tail: &Tail,
    ) -> Result<Option<Witness>, Error> {
        let file = Witness::file();
        let last = tail.last.unwrap_or(tail.next);
        if !files.contains_key(&file) {
            if tail.is_witnessed {
                let why = format!("{} was written with it", segment_file(last));
                return Err(Error::Missing { file, why });
            }
            return Ok(None);
        }
        let Some(identity) = identity else {
            return Err(Error::Missing { file: Identity::file(), why: format!("{file} is here") });
        };
        let witness = Witness::read(&read(self.folder, &file)?, identity)?;
        let found = tail.sequence - 1;
        if witness.sequence > found {
            let file = segment_file(witness.segment);
            return Err(Error::TailLost { file, expected: witness.sequence, found });
        }
        Ok(Some(witness))
    }

    fn read_needed(&self, segment: u64, by: u64) -> Result<Vec<u8>, Error> {
        let file = segment_file(segment);
        if !self.segments.contains(&segment) {
            let why = format!("{} needs it", segment_file(by));
            return Err(Error::Missing { file, why });
        }
        read(self.folder, &file)
    }

    /// Replays all segments that are needed.
    fn replay(&self, tail: &Tail) -> Result<Replay, Error> {
        let mut replay = Replay::default();
        let Some(last) = tail.last else { return Ok(replay) };
        if tail.oldest > last || tail.oldest < FIRST_SEGMENT {
            return Err(no_such_segment(tail.oldest));
        }
        let mut sequence = None;
        for segment in tail.oldest..=last {
            let bytes = self.read_needed(segment, last)?;
            let mut is_first = true;
            let walk = self.walk(segment, &bytes, sequence, |offset, batch| {
                let begins = (is_first, segment == tail.oldest);
                is_first = false;
                replay.batch(segment, begins, &batch.body).map_err(|found| Error::Corrupt {
                    file: segment_file(segment),
                    offset: offset as u64,
                    expected: "a batch that fits what is before it".to_owned(),
                    found: found.to_owned(),
                })
            })?;
            if walk.oldest.is_none() || (walk.is_torn && segment < last) {
                return Err(torn_within(segment, walk.end));
            }
            sequence = Some(walk.sequence);
        }
        replay.check().map_err(|(group, found)| Error::Corrupt {
            file: segment_file(last),
            offset: 0,
            expected: format!("a log in which group {group} is complete"),
            found: found.to_owned(),
        })?;
        Ok(replay)
    }

    /// Goes over a segment's batches. `sequence` is the number that its first has to have, if that is known.
    fn walk(
        &self,
        segment: u64,
        bytes: &[u8],
        sequence: Option<u64>,
        mut each: impl FnMut(usize, &Batch<'_>) -> Result<(), Error>,
    ) -> Result<Walk, Error> {
        let file = segment_file(segment);
        let identity = self.owner.as_ref().expect("segments are read only where there is an identity");
        let segment_identity = SegmentIdentity::new(identity, segment);
        let mut walk = Walk { end: 0, oldest: None, sequence: 0, is_torn: true, is_witnessed: false };
        let header = SegmentHeader::read(&file, bytes)?;
        if let Some(header) = header {
            check_header(&file, &header, identity, sequence)?;
            let (sequence, is_witnessed) = (header.sequence, header.is_witnessed);
            walk = Walk { end: SEGMENT_HEADER_BYTES, sequence, is_torn: false, is_witnessed, ..walk };
            loop {
                match read_batch(bytes, segment_identity, walk.end, walk.sequence) {
                    BatchRead::End => break,
                    BatchRead::Torn => {
                        walk.is_torn = true;
                        break;
                    }
                    BatchRead::Corrupt(offset, expected, found) => {
                        return Err(Error::Corrupt { file, offset: offset as u64, expected, found });
                    }
                    BatchRead::Batch(batch) => {
                        each(walk.end, &batch)?;
                        let sequence = walk.sequence.checked_add(1).ok_or_else(|| no_such_segment(segment))?;
                        walk = Walk { end: batch.end, oldest: Some(batch.oldest), sequence, is_torn: false, ..walk };
                    }
                }
            }
        }
        // A segment that ends behind its header was cut there by a crash: its first batch was never whole.
        walk.is_torn |= walk.oldest.is_none();
        if walk.is_torn
            && let Some(later) = find_later_batch(bytes, segment_identity, walk.end, walk.sequence)
        {
            let expected = format!("batch {}, since a later one stands at byte {later}", walk.sequence);
            let found = "sectors of zeros, or a damaged header".to_owned();
            return Err(Error::Corrupt { file, offset: walk.end as u64, expected, found });
        }
        if walk.oldest.is_none() {
            walk.end = 0;
        }
        Ok(walk)
    }
}

fn check_header(
    file: &FileName,
    header: &SegmentHeader,
    identity: &Identity,
    sequence: Option<u64>,
) -> Result<(), Error> {
    if (header.cluster, header.server) != (identity.cluster, identity.server.0) {
        return Err(Error::OtherCluster {
            file: file.clone(),
            expected: owner(identity.cluster, identity.server.0),
            found: owner(header.cluster, header.server),
        });
    }
    match sequence {
        Some(sequence) if sequence != header.sequence => Err(Error::Corrupt {
            file: file.clone(),
            offset: 0,
            expected: format!("a segment that begins with batch {sequence}"),
            found: format!("one that begins with batch {}", header.sequence),
        }),
        _ => Ok(()),
    }
}

fn torn_within(segment: u64, end: usize) -> Error {
    Error::Corrupt {
        file: segment_file(segment),
        offset: end as u64,
        expected: "a whole batch, since a later segment follows".to_owned(),
        found: "a batch that was not written in full".to_owned(),
    }
}

fn no_such_segment(segment: u64) -> Error {
    Error::Corrupt {
        file: segment_file(segment),
        offset: 0,
        expected: "numbers of segments and batches that a log can have".to_owned(),
        found: "a number that is out of range".to_owned(),
    }
}
