//! What has been measured so far, on disk as soon as each run ends: nothing that happens later takes it away.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fabric::Source;
use serde::{Deserialize, Serialize};

use crate::disk::{failed, read_results};
use crate::error::Error;
use crate::measure::environment::Timing;
use crate::measure::record::Record;
use crate::plan::{Plan, PlannedRun};

/// The file in the folder of results; it goes when all runs are done.
pub const JOURNAL: &str = "journal.jsonl";

/// The first line.
#[derive(Serialize, Deserialize)]
struct Head {
    /// The fabric file as it was.
    fabric: String,
}

/// Any other line: a run that has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    record: Record,
    timing: Timing,
}

/// Runs that have ended.
#[derive(Debug, Default)]
pub struct Journal {
    /// Where they are kept; `None`: in memory only.
    file: Option<(PathBuf, Mutex<File>)>,
    /// What an earlier call kept.
    earlier: Vec<Entry>,
    /// By the number of the run in its plan.
    ended: Mutex<BTreeMap<usize, Entry>>,
    /// Whether somebody wants the rest of the runs not to take place.
    interrupted: Arc<AtomicBool>,
}

impl Journal {
    /// One that is kept in memory only.
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// One that is kept in a folder, which is made if it is not there. What another call has left there is gone.
    ///
    /// # Errors
    /// If the folder cannot be made or written to.
    pub fn begin(folder: &Path, source: &Source) -> Result<Self, Error> {
        fs::create_dir_all(folder).map_err(|source| Error::File {
            action: "writing",
            path: folder.to_owned(),
            source,
        })?;
        let path = folder.join(JOURNAL);
        let file = File::create(&path).map_err(|source| failed("writing", &path, source))?;
        let journal = Self { file: Some((path, Mutex::new(file))), ..Self::default() };
        journal.put(&Head { fabric: source.text.clone() })?;
        Ok(journal)
    }

    /// Goes on with the one that is kept in a folder.
    ///
    /// # Errors
    /// If there is none, or it is of another file, or cannot be read or written.
    pub fn resume(folder: &Path, source: &Source) -> Result<Self, Error> {
        let path = folder.join(JOURNAL);
        if !path.exists() {
            return Err(Error::NothingToResume { folder: folder.to_owned() });
        }
        let text = read_results(&path)?;
        let format = |line: usize, source| Error::Format { path: path.clone(), line, source };
        let mut lines = text.lines().enumerate();
        let head = lines.next().map_or("", |(_, line)| line);
        let head: Head = serde_json::from_str(head).map_err(|source| format(1, source))?;
        if head.fabric != source.text {
            return Err(Error::ResumedOther { folder: folder.to_owned(), file: source.name.clone() });
        }
        let mut earlier = Vec::new();
        for (number, line) in lines {
            match serde_json::from_str(line) {
                Ok(entry) => earlier.push(entry),
                // The last line may have been cut off when the program was ended.
                Err(_) if !text.ends_with('\n') && number + 1 == text.lines().count() => {}
                Err(source) => return Err(format(number + 1, source)),
            }
        }
        let broken = |source| failed("writing", &path, source);
        let file = OpenOptions::new().append(true).open(&path).map_err(broken)?;
        // What comes next begins a line of its own.
        file.set_len(text.rfind('\n').map_or(0, |end| end as u64 + 1)).map_err(broken)?;
        Ok(Self { file: Some((path, Mutex::new(file))), earlier, ..Self::default() })
    }

    /// What is set to have runs that have not begun not take place, and the one under way end as soon as it can.
    pub fn interruption(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.interrupted)
    }

    /// Takes over what an earlier call has measured of a plan; the runs that are left to do.
    pub(crate) fn left_to_do<'a>(&self, plan: &'a Plan) -> Vec<&'a PlannedRun> {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        for run in &plan.runs {
            let of_run = self.earlier.iter().find(|entry| run.is_of(&entry.record));
            ended.extend(of_run.map(|entry| (run.number, entry.clone())));
        }
        plan.runs.iter().filter(|run| !ended.contains_key(&run.number)).collect()
    }

    /// Keeps what a run has measured.
    pub(crate) fn keep(&self, run: &PlannedRun, (record, timing): (Record, Timing)) -> Result<(), Error> {
        let entry = Entry { record, timing };
        self.put(&entry)?;
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).insert(run.number, entry);
        Ok(())
    }

    /// Whether a run may begin, or go on.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_interrupted() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Whether somebody wants the runs to end.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// What was measured, in the order of the plan.
    pub(crate) fn measured(&self) -> Vec<(Record, Timing)> {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.values().map(|Entry { record, timing }| (record.clone(), timing.clone())).collect()
    }

    /// All runs are done, and their results are written: it is not needed any more.
    ///
    /// # Errors
    /// If its file cannot be removed.
    pub fn finish(self) -> Result<(), Error> {
        let Some((path, _)) = self.file else { return Ok(()) };
        fs::remove_file(&path).map_err(|source| failed("removing", &path, source))
    }

    fn put(&self, line: &impl Serialize) -> Result<(), Error> {
        let Some((path, file)) = &self.file else { return Ok(()) };
        let text = serde_json::to_string(line).expect("records are plain data") + "\n";
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(text.as_bytes()).map_err(|source| failed("writing", path, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use crate::{Options, plan};

    fn source(text: &str) -> Source {
        Source { name: "net.fabric.yaml".to_owned(), text: text.to_owned() }
    }

    fn plan_of_twelve() -> Plan {
        let mut fabric = testing::tree(2, 1, 2, true);
        fabric.experiments.push(testing::experiment(0.0));
        plan(&fabric, &Options::default()).unwrap()
    }

    fn ended(run: &PlannedRun) -> (Record, Timing) {
        (run.record(1.0), run.timing(std::time::Instant::now()))
    }

    #[test]
    fn what_has_ended_is_not_run_again() {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan_of_twelve();
        let journal = Journal::begin(folder.path(), &source("a")).unwrap();
        assert_eq!(journal.left_to_do(&plan).len(), plan.runs.len());
        for number in [3, 1] {
            journal.keep(&plan.runs[number], ended(&plan.runs[number])).unwrap();
        }
        drop(journal);
        // The program was ended in the midst of a line.
        let path = folder.path().join(JOURNAL);
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str("{\"record\":{\"exper");
        fs::write(&path, &text).unwrap();
        let journal = Journal::resume(folder.path(), &source("a")).unwrap();
        let left: Vec<usize> = journal.left_to_do(&plan).iter().map(|run| run.number).collect();
        assert!(left.len() == plan.runs.len() - 2 && !left.contains(&1) && !left.contains(&3), "{left:?}");
        journal.keep(&plan.runs[0], ended(&plan.runs[0])).unwrap();
        let order: Vec<Record> = journal.measured().into_iter().map(|(record, _)| record).collect();
        assert_eq!(order, [0, 1, 3].map(|number| plan.runs[number].record(1.0)));
        drop(journal);
        let journal = Journal::resume(folder.path(), &source("a")).unwrap();
        assert_eq!(journal.left_to_do(&plan).len(), plan.runs.len() - 3);
        journal.finish().unwrap();
        assert!(matches!(Journal::resume(folder.path(), &source("a")), Err(Error::NothingToResume { .. })));
    }

    #[test]
    fn runs_of_another_file_or_seed_are_not_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let mut plan = plan_of_twelve();
        let journal = Journal::begin(folder.path(), &source("a")).unwrap();
        journal.keep(&plan.runs[0], ended(&plan.runs[0])).unwrap();
        drop(journal);
        assert!(matches!(Journal::resume(folder.path(), &source("b")), Err(Error::ResumedOther { .. })));
        plan.runs[0].seed += 1;
        let journal = Journal::resume(folder.path(), &source("a")).unwrap();
        assert_eq!(journal.left_to_do(&plan).len(), plan.runs.len());
    }

    #[test]
    fn a_damaged_journal_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(JOURNAL);
        for (text, wrong) in [("", 1), ("{}\n", 1), ("{\"fabric\":\"a\"}\nnonsense\n", 2)] {
            fs::write(&path, text).unwrap();
            let error = Journal::resume(folder.path(), &source("a")).unwrap_err();
            assert!(matches!(error, Error::Format { line, .. } if line == wrong), "{text:?}: {error}");
        }
    }

    #[test]
    fn who_is_interrupted_begins_nothing() {
        let journal = Journal::in_memory();
        journal.check().unwrap();
        journal.interruption().store(true, Ordering::Relaxed);
        assert!(matches!(journal.check(), Err(Error::Interrupted)));
    }
}
