//! What has been measured so far, on disk as soon as each run ends: nothing that happens later takes it away.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fabric::{DriverKind, Source};
use serde::{Deserialize, Serialize};

use crate::disk::{Lines, failed, read_results};
use crate::error::Error;
use crate::measure::environment::Timing;
use crate::measure::hosts::HostCosts;
use crate::measure::precision::{CaseKey, Tallies};
use crate::measure::record::Record;
use crate::options::Options;
use crate::plan::{Plan, PlannedRun, RunKey};

/// The file in the folder of results; it goes when all runs are done.
pub const JOURNAL: &str = "journal.jsonl";

/// The first line.
#[derive(Serialize, Deserialize)]
struct Head {
    /// The fabric file as it was.
    fabric: String,
    asked: Asked,
}

/// What else decides which runs there are, and what each measures.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Asked {
    version: String,
    drivers: Vec<DriverKind>,
    seed: Option<u64>,
    experiments: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cases: Vec<String>,
    time_series: bool,
    hosts: Option<HostCosts>,
}

impl Asked {
    fn of(options: &Options) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            drivers: options.drivers.clone(),
            seed: options.seed,
            experiments: options.only.clone(),
            cases: options.cases.clone(),
            time_series: options.time_series,
            hosts: options.hosts,
        }
    }

    /// The first thing in which another call differs, as a user names it.
    fn difference(&self, other: &Self) -> Option<&'static str> {
        let differ = [
            (self.version != other.version, "the version of Heddle"),
            (self.time_series != other.time_series, "the command (`run` or `compare`)"),
            (self.drivers != other.drivers, "--sim or --live"),
            (self.seed != other.seed, "--seed"),
            (self.experiments != other.experiments, "--experiment"),
            (self.cases != other.cases, "--case"),
            (self.hosts != other.hosts, "--machine"),
        ];
        differ.into_iter().find_map(|(differs, name)| differs.then_some(name))
    }
}

/// A number that other texts of the file and other options hardly have, in hexadecimal digits.
pub(crate) fn fingerprint(source: &Source, options: &Options) -> String {
    let head = Head { fabric: source.text.clone(), asked: Asked::of(options) };
    let text = serde_json::to_string(&head).expect("plain data");
    format!("{:016x}", text.bytes().fold(0, |hash, byte| machine::mix(hash ^ u64::from(byte))))
}

/// Any other line: a run that has ended.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    record: Record,
    timing: Timing,
}

/// A run that has ended, and what it is a run of.
#[derive(Debug)]
struct Ended {
    case: CaseKey,
    entry: Entry,
}

/// Runs that have ended.
#[derive(Debug, Default)]
pub struct Journal {
    /// Where they are kept; `None`: in memory only.
    file: Option<Mutex<Lines>>,
    /// What an earlier call kept, until it is known which of this one's runs they are.
    earlier: Mutex<HashMap<RunKey, Entry>>,
    /// By the number of the run in its plan.
    ended: Mutex<BTreeMap<usize, Ended>>,
    /// Which cases have been run often enough.
    tallies: Mutex<Tallies>,
    /// Whether somebody wants the rest of the runs not to take place.
    interrupted: Arc<AtomicBool>,
    /// The folder where it is, and those above that were made for it, from there on.
    folders: Vec<PathBuf>,
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
    pub fn begin(folder: &Path, source: &Source, options: &Options) -> Result<Self, Error> {
        let missing = folder.ancestors().skip(1).take_while(|above| !above.as_os_str().is_empty() && !above.exists());
        let folders = std::iter::once(folder).chain(missing).map(Path::to_owned).collect();
        fs::create_dir_all(folder).map_err(|source| failed("writing", folder, source))?;
        let path = folder.join(JOURNAL);
        let broken = |source: io::Error| failed("writing", &path, source);
        let file = File::options().create(true).append(true).open(&path).map_err(broken)?;
        take_for_this_program(&file, folder)?;
        file.set_len(0).map_err(broken)?;
        let journal = Self { file: Some(Mutex::new(Lines::new(path, file, 0))), folders, ..Self::default() };
        journal.put(&Head { fabric: source.text.clone(), asked: Asked::of(options) })?;
        Ok(journal)
    }

    /// Goes on with the one that is kept in a folder.
    ///
    /// # Errors
    /// If there is none, it is of another file or was asked for with other options, or cannot be read or written.
    pub fn resume(folder: &Path, source: &Source, options: &Options) -> Result<Self, Error> {
        let path = folder.join(JOURNAL);
        if !path.exists() {
            return Err(Error::NothingToResume { folder: folder.to_owned() });
        }
        let broken = |source: io::Error| failed("writing", &path, source);
        // Nobody is waited for if it is a pipe.
        let file = File::options().read(true).append(true).open(&path).map_err(broken)?;
        // Before it is read: what another one adds after that would be cut off.
        take_for_this_program(&file, folder)?;
        let text = read_results(&path)?;
        let format = |line: usize, source| Error::Format { path: path.clone(), line, source };
        let mut lines = text.lines().enumerate();
        let head = lines.next().map_or("", |(_, line)| line);
        let head: Head = serde_json::from_str(head).map_err(|source| format(1, source))?;
        if head.fabric != source.text {
            return Err(Error::ResumedOther { folder: folder.to_owned(), file: source.name.clone() });
        }
        if let Some(what) = head.asked.difference(&Asked::of(options)) {
            return Err(Error::ResumedOtherwise { folder: folder.to_owned(), what });
        }
        let mut earlier = HashMap::new();
        for (number, line) in lines {
            match serde_json::from_str::<Entry>(line) {
                Ok(entry) => earlier.insert(RunKey::of(&entry.record), entry),
                // The last line may have been cut off when the program was ended.
                Err(_) if !text.ends_with('\n') && number + 1 == text.lines().count() => None,
                Err(source) => return Err(format(number + 1, source)),
            };
        }
        // What comes next begins a line of its own.
        let len = text.rfind('\n').map_or(0, |end| end as u64 + 1);
        file.set_len(len).map_err(broken)?;
        let file = Some(Mutex::new(Lines::new(path, file, len)));
        Ok(Self { file, earlier: Mutex::new(earlier), folders: vec![folder.to_owned()], ..Self::default() })
    }

    /// How many runs an earlier call kept.
    pub fn kept(&self) -> usize {
        self.earlier.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Once `interrupted` is set, runs that have not begun do not take place, and the one under way ends as soon as it can.
    #[must_use]
    pub fn until(self, interrupted: Arc<AtomicBool>) -> Self {
        Self { interrupted, ..self }
    }

    /// What [`Self::until`] was given.
    pub(crate) fn interruption(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.interrupted)
    }

    /// Takes over what an earlier call has measured of a plan; the runs that are left to do.
    pub(crate) fn left_to_do<'a>(&self, plan: &'a Plan) -> Vec<&'a PlannedRun> {
        let mut earlier = self.earlier.lock().unwrap_or_else(PoisonError::into_inner);
        for run in &plan.runs {
            if let Some(entry) = earlier.remove(&run.key()) {
                self.count(run, entry);
            }
        }
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        plan.runs.iter().filter(|run| !ended.contains_key(&run.number) && !self.is_enough(run)).collect()
    }

    /// Keeps what a run has measured.
    pub(crate) fn keep(&self, run: &PlannedRun, (record, timing): (Record, Timing)) -> Result<(), Error> {
        let entry = Entry { record, timing };
        self.put(&entry)?;
        self.count(run, entry);
        Ok(())
    }

    fn count(&self, run: &PlannedRun, entry: Entry) {
        let case = run.case_key();
        if let Some(precision) = &run.precision {
            self.tallies.lock().unwrap_or_else(PoisonError::into_inner).add(case, precision, &entry.record);
        }
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).insert(run.number, Ended { case, entry });
    }

    /// Whether a run need not take place: the mean of its case is known well enough by those before it.
    pub(crate) fn is_enough(&self, run: &PlannedRun) -> bool {
        let tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        run.precision.is_some() && tallies.enough(run.case_key()).is_some_and(|runs| run.repeat > runs)
    }

    /// Whether a run may begin, or go on.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_interrupted() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Whether somebody wants the runs to end.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Hands over what was measured, in the order of the plan. Runs that were under way when those before them turned out to be enough do not count: how many
    /// there are depends on how many go side by side.
    pub(crate) fn take_measured(&self) -> Vec<(Record, Timing)> {
        let ended = std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        let tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = |ended: &Ended| tallies.enough(ended.case).is_none_or(|runs| ended.entry.record.repeat <= runs);
        let counted = ended.into_values().filter(counts);
        counted.map(|Ended { entry: Entry { record, timing }, .. }| (record, timing)).collect()
    }

    /// All runs are done, and their results are written: it is not needed any more.
    ///
    /// # Errors
    /// If its file cannot be removed.
    pub fn finish(self) -> Result<(), Error> {
        let Some(file) = self.file else { return Ok(()) };
        let file = file.into_inner().unwrap_or_else(PoisonError::into_inner);
        fs::remove_file(file.path()).map_err(|source| failed("removing", file.path(), source))
    }

    /// Nothing was measured: its file goes, and its folder where nothing else is in it.
    ///
    /// # Errors
    /// If its file cannot be removed.
    pub fn abandon(mut self) -> Result<(), Error> {
        let folders = std::mem::take(&mut self.folders);
        self.finish()?;
        // A folder in which something is stays, and so do those above it.
        let _is_left = folders.iter().try_for_each(fs::remove_dir);
        Ok(())
    }

    fn put(&self, line: &impl Serialize) -> Result<(), Error> {
        let Some(file) = &self.file else { return Ok(()) };
        let text = serde_json::to_string(line).expect("records are plain data");
        file.lock().unwrap_or_else(PoisonError::into_inner).add(&text)
    }
}

/// Takes the journal of a folder for this program alone, for as long as it has the file open.
pub(crate) fn take_for_this_program(journal: &File, folder: &Path) -> Result<(), Error> {
    match journal.try_lock() {
        Err(TryLockError::WouldBlock) => Err(Error::InUse { folder: folder.to_owned() }),
        // A file system without locks has no more to say about it.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::plan;
    use crate::testing;

    fn source(text: &str) -> Source {
        Source { name: "net.fabric.yaml".to_owned(), text: text.to_owned() }
    }

    fn begin(folder: &Path) -> Journal {
        Journal::begin(folder, &source("a"), &Options::default()).unwrap()
    }

    fn resume(folder: &Path, text: &str) -> Result<Journal, Error> {
        Journal::resume(folder, &source(text), &Options::default())
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
        let journal = begin(folder.path());
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
        let journal = resume(folder.path(), "a").unwrap();
        let left: Vec<usize> = journal.left_to_do(&plan).iter().map(|run| run.number).collect();
        assert!(left.len() == plan.runs.len() - 2 && !left.contains(&1) && !left.contains(&3), "{left:?}");
        journal.keep(&plan.runs[0], ended(&plan.runs[0])).unwrap();
        let order: Vec<Record> = journal.take_measured().into_iter().map(|(record, _)| record).collect();
        assert_eq!(order, [0, 1, 3].map(|number| plan.runs[number].record(1.0)));
        drop(journal);
        let journal = resume(folder.path(), "a").unwrap();
        assert_eq!(journal.left_to_do(&plan).len(), plan.runs.len() - 3);
        journal.finish().unwrap();
        assert!(matches!(resume(folder.path(), "a"), Err(Error::NothingToResume { .. })));
    }

    #[test]
    fn nothing_is_left_of_what_was_abandoned() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("results/net");
        begin(&folder).abandon().unwrap();
        assert!(above.path().exists() && !above.path().join("results").exists());
        // What was there, or is of somebody else, stays.
        fs::create_dir(above.path().join("results")).unwrap();
        begin(&folder).abandon().unwrap();
        assert!(above.path().join("results").exists() && !folder.exists());
        drop(begin(&folder));
        fs::write(folder.join("notes"), "").unwrap();
        resume(&folder, "a").unwrap().abandon().unwrap();
        assert!(folder.join("notes").exists() && !folder.join(JOURNAL).exists());
    }

    #[test]
    fn runs_of_another_file_are_not_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let mut plan = plan_of_twelve();
        let journal = begin(folder.path());
        journal.keep(&plan.runs[0], ended(&plan.runs[0])).unwrap();
        drop(journal);
        assert!(matches!(resume(folder.path(), "b"), Err(Error::ResumedOther { .. })));
        plan.runs[0].seed += 1;
        let journal = resume(folder.path(), "a").unwrap();
        assert_eq!(journal.left_to_do(&plan).len(), plan.runs.len());
    }

    #[test]
    fn runs_that_were_asked_for_otherwise_are_not_mixed_with_others() {
        let folder = tempfile::tempdir().unwrap();
        let costs = HostCosts { cores: 2, segment_ns: 1.0 / 3.0, datagram_ns: 2.0, byte_ns: 3.0, wake_up_ns: 4.0 };
        let asked = Options { seed: Some(3), hosts: Some(costs), only: vec!["a".to_owned()], ..Options::default() };
        drop(Journal::begin(folder.path(), &source("a"), &asked).unwrap());
        let resume = |options: Options| match Journal::resume(folder.path(), &source("a"), &options) {
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        };
        // How many go side by side changes nothing.
        assert_eq!(resume(Options { threads: 7, progress: true, ..asked.clone() }), None);
        let others = [
            (Options { seed: None, ..asked.clone() }, "--seed"),
            (Options { only: Vec::new(), ..asked.clone() }, "--experiment"),
            (Options { cases: vec!["ecmp".to_owned()], ..asked.clone() }, "--case"),
            (Options { hosts: None, ..asked.clone() }, "--machine"),
            (Options { hosts: Some(HostCosts { byte_ns: 3.1, ..costs }), ..asked.clone() }, "--machine"),
            (Options { drivers: vec![DriverKind::Live], ..asked.clone() }, "--sim or --live"),
            (Options { time_series: true, ..asked }, "`compare`"),
        ];
        for (options, named) in others {
            let refused = resume(options).expect(named);
            assert!(refused.contains(named), "{refused}");
        }
    }

    #[test]
    fn a_damaged_journal_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        begin(folder.path());
        let path = folder.path().join(JOURNAL);
        let head = fs::read_to_string(&path).unwrap();
        for (text, wrong) in [(String::new(), 1), ("{}\n".to_owned(), 1), (head + "nonsense\n", 2)] {
            fs::write(&path, &text).unwrap();
            let error = resume(folder.path(), "a").unwrap_err();
            assert!(matches!(error, Error::Format { line, .. } if line == wrong), "{text:?}: {error}");
        }
    }

    #[test]
    fn runs_beyond_those_that_are_enough_do_not_count() {
        let mut fabric = testing::tree(2, 1, 2, true);
        let until = fabric::Until { share: 0.05, of: Some(fabric::Metric::Drops), at_least: 2 };
        fabric.experiments.push(fabric::Experiment { repeat: 6, until: Some(until), ..testing::experiment(0.0) });
        let plan = plan(&fabric, &Options::default()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let journal = begin(folder.path());
        let of_case = |case: usize| plan.runs.iter().filter(move |run| run.at.1 == case);
        assert!(of_case(0).all(|run| !journal.is_enough(run)));
        // Nothing is dropped in any run: two are enough. A third one was under way, and a run of another case.
        for run in of_case(0).take(3).chain(of_case(1).take(1)) {
            journal.keep(run, ended(run)).unwrap();
        }
        let left = |journal: &Journal| -> Vec<(usize, u32)> {
            journal.left_to_do(&plan).iter().map(|run| (run.at.1, run.repeat)).filter(|(case, _)| *case < 2).collect()
        };
        let others: Vec<(usize, u32)> = (2..=6).map(|repeat| (1, repeat)).collect();
        assert_eq!(left(&journal), others);
        drop(journal);
        let journal = resume(folder.path(), "a").unwrap();
        assert_eq!(left(&journal), others, "another call knows it from the file");
        let counted: Vec<(usize, u32)> =
            journal.take_measured().iter().map(|(record, _)| (record.case, record.repeat)).collect();
        assert_eq!(counted, [(0, 1), (1, 1), (0, 2)]);
    }

    #[test]
    fn a_pipe_is_no_journal() {
        let folder = tempfile::tempdir().unwrap();
        nix::unistd::mkfifo(&folder.path().join(JOURNAL), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(resume(folder.path(), "a").unwrap_err().to_string().contains("no regular file"));
    }

    #[test]
    fn two_at_once_do_not_share_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let first = begin(folder.path());
        let second = Journal::begin(folder.path(), &source("a"), &Options::default());
        assert!(matches!(second, Err(Error::InUse { .. })), "{second:?}");
        assert!(matches!(resume(folder.path(), "a"), Err(Error::InUse { .. })));
        assert!(matches!(crate::set_aside(folder.path()), Err(Error::InUse { .. })));
        drop(first);
        resume(folder.path(), "a").unwrap();
    }

    #[test]
    fn who_is_interrupted_begins_nothing() {
        let interrupted = Arc::<AtomicBool>::default();
        let journal = Journal::in_memory().until(Arc::clone(&interrupted));
        journal.check().unwrap();
        interrupted.store(true, Ordering::Relaxed);
        assert!(matches!(journal.check(), Err(Error::Interrupted)));
    }
}
