//! Results in a folder: samples, summary, machine, report.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fabric::{DriverKind, Source};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::disk::{failed, read_results, write_whole};
use crate::error::Error;
use crate::journal::{JOURNAL, fingerprint, take_for_this_program};
use crate::measure::environment::{Environment, date};
use crate::measure::record::Record;
use crate::options::Options;
use crate::results::Results;

const SAMPLES: &str = "samples.jsonl";
/// What was measured in short; a folder that has it is one of results.
pub const SUMMARY: &str = "summary.json";
const MACHINE: &str = "machine.json";
const FILE: &str = "fabric.yaml";
/// The page for people.
pub const REPORT: &str = "report.html";

impl Results {
    /// Writes `samples.jsonl`, `summary.json`, `machine.json`, `report.html` and the file that was measured, `fabric.yaml`, into `folder`, which is made if it is
    /// not there. A file is either written whole or left as it was.
    ///
    /// # Errors
    /// If the folder cannot be made or written to.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        fs::create_dir_all(folder).map_err(|source| failed("writing", folder, source))?;
        write_whole(&folder.join(SAMPLES), &self.samples())?;
        write_whole(&folder.join(SUMMARY), &pretty(self))?;
        write_whole(&folder.join(MACHINE), &pretty(&self.environment))?;
        if !self.file.is_empty() {
            write_whole(&folder.join(FILE), &self.file)?;
        }
        self.write_report(folder)
    }

    /// Writes only `report.html` into `folder`, which must be there: the measurements beside it stay as they are.
    ///
    /// # Errors
    /// If the folder is not there or cannot be written to.
    pub fn write_report(&self, folder: &Path) -> Result<(), Error> {
        write_whole(&folder.join(REPORT), &self.html())
    }

    /// The raw samples, one JSON object a run and line. For simulated runs the same bytes on every machine.
    pub fn samples(&self) -> String {
        let line = |record: &Record| serde_json::to_string(record).expect("records are plain data") + "\n";
        self.records.iter().map(line).collect()
    }
}

/// Moves what earlier runs have left in a folder into one beside it that has their time in its name; which one. `None`: nothing is there.
///
/// # Errors
/// If that cannot be done.
pub fn set_aside(folder: &Path) -> Result<Option<PathBuf>, Error> {
    let files = [SAMPLES, SUMMARY, MACHINE, FILE, REPORT, JOURNAL].map(|name| folder.join(name));
    let modified = files.iter().filter_map(|file| fs::metadata(file).and_then(|file| file.modified()).ok()).max();
    let Some(modified) = modified else { return Ok(None) };
    if let Ok(journal) = fs::File::open(folder.join(JOURNAL)) {
        take_for_this_program(&journal, folder)?;
    }
    let moving = |source| failed("keeping the earlier results in", folder, source);
    let folder = folder.canonicalize().map_err(moving)?;
    let time = date(modified).replace(' ', "T").replace(':', "-");
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    // Two may be of one second.
    let beside = (1..).map(|nth| match nth {
        1 => folder.with_file_name(format!("{name}-{time}")),
        _ => folder.with_file_name(format!("{name}-{time}-{nth}")),
    });
    for aside in beside {
        match fs::create_dir(&aside) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(moving(error)),
            Ok(()) => {
                for file in files.iter().filter(|file| file.exists()) {
                    fs::rename(file, aside.join(file.file_name().unwrap_or_default())).map_err(moving)?;
                }
                return Ok(Some(aside));
            }
        }
    }
    unreachable!("one of all numbers is free")
}

/// Reads what [`Results::write`] wrote, also that of earlier versions, whose keys have underscores.
///
/// # Errors
/// If a file is missing, is larger than 1 GiB, or is not what it should be, or the samples are not those of the summary.
pub fn load(folder: &Path) -> Result<Results, Error> {
    let is_earlier = get::<EarlierSummary>(&folder.join(SUMMARY), false)?.planned_runs.is_some();
    let mut results: Results = get(&folder.join(SUMMARY), is_earlier)?;
    results.environment = get::<Environment>(&folder.join(MACHINE), is_earlier)?;
    // Earlier versions did not keep it.
    let file = folder.join(FILE);
    results.file = if file.exists() { read_results(&file)? } else { String::new() };
    let samples = folder.join(SAMPLES);
    let text = read_results(&samples)?;
    for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let record = parsed(line, is_earlier);
        results.records.push(record.map_err(|source| Error::Format { path: samples.clone(), line: i + 1, source })?);
    }
    match inconsistency(&results) {
        Some(reason) => Err(Error::Samples { path: samples, reason }),
        None => Ok(results),
    }
}

/// What in the samples does not fit the summary: runs that are missing, come twice, or are of no case.
fn inconsistency(results: &Results) -> Option<String> {
    let mut seen = BTreeSet::new();
    for Record { experiment, case, labels, driver, repeat, .. } in &results.records {
        let of_experiment = results.experiments.iter().find(|other| other.name == *experiment);
        let run = format!("{experiment}, {labels}, {}, repeat {repeat}", driver.word());
        if of_experiment.and_then(|other| other.cases.get(*case)).is_none_or(|other| other.labels != *labels) {
            return Some(format!("it has a run of no case ({run})"));
        }
        if !seen.insert((experiment.as_str(), *case, *driver, *repeat)) {
            return Some(format!("a run comes twice ({run})"));
        }
    }
    for experiment in &results.experiments {
        for (number, case) in experiment.cases.iter().enumerate() {
            for driver in [DriverKind::Live, DriverKind::Sim] {
                let (runs, found) = (case.runs(driver), results.records_of(experiment, number, driver).count());
                if found < runs as usize {
                    let (name, driver) = (&experiment.name, driver.word());
                    return Some(format!("it has {found} of {runs} {driver} runs of {name}, {}", case.labels));
                }
            }
        }
    }
    None
}

/// What was written of all runs of this file and these options: none of it is left to do. `None`: nothing was, or other runs were.
pub fn load_finished(folder: &Path, source: &Source, options: &Options) -> Option<Results> {
    if folder.join(JOURNAL).exists() {
        return None;
    }
    let results = load(folder).ok()?;
    let is_same = results.environment.made_from == fingerprint(source, options);
    (is_same && results.records.len() >= results.planned_runs).then_some(results)
}

/// How a summary of an earlier version is known: its keys have underscores.
#[derive(Deserialize)]
struct EarlierSummary {
    planned_runs: Option<usize>,
}

fn get<T: DeserializeOwned>(path: &Path, is_earlier: bool) -> Result<T, Error> {
    let text = read_results(path)?;
    parsed(&text, is_earlier).map_err(|source| Error::Format { path: path.to_owned(), line: source.line(), source })
}

fn parsed<T: DeserializeOwned>(text: &str, is_earlier: bool) -> Result<T, serde_json::Error> {
    if is_earlier {
        serde_json::from_value(with_hyphens(serde_json::from_str(text)?))
    } else {
        serde_json::from_str(text)
    }
}

/// What an earlier version wrote, with the keys of this one. Those of labels, and what was lost, are not ours to name.
fn with_hyphens(value: Value) -> Value {
    match value {
        Value::Object(object) => object
            .into_iter()
            .map(|(key, value)| {
                let value = if key == "labels" || key == "lost" { value } else { with_hyphens(value) };
                (key.replace('_', "-"), value)
            })
            .collect(),
        Value::Array(items) => items.into_iter().map(with_hyphens).collect(),
        plain => plain,
    }
}

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("results are plain data") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Journal;

    #[test]
    fn finished_results_are_those_of_the_same_file_and_options() {
        let text = "topology: { leaf-spine: { leaves: 2, spines: 1, hosts-per-leaf: 1 } }
links: { rate: 10Mbit, delay: 1ms, queue: 20 }
experiments: { a: { traffic: { pattern: stride(1) }, warm-up: 20ms, for: 50ms, repeat: 2 } }
";
        let source = Source { name: "x.fabric.yaml".to_owned(), text: text.to_owned() };
        let fabric = fabric::parse(&source).unwrap();
        let options = Options { drivers: vec![fabric::DriverKind::Sim], ..Options::default() };
        let results = crate::run::run(&source, &fabric, &options, &Journal::in_memory()).unwrap().results;
        let all = tempfile::tempdir().unwrap();
        let folder = all.path();
        assert!(load_finished(folder, &source, &options).is_none());
        results.write(folder).unwrap();
        assert_eq!(load_finished(folder, &source, &options).map(|found| found.records.len()), Some(2));
        let other = Source { text: text.replace("10Mbit", "20Mbit"), ..source.clone() };
        assert!(load_finished(folder, &other, &options).is_none());
        assert!(load_finished(folder, &source, &Options { seed: Some(7), ..options.clone() }).is_none());
        fs::write(folder.join(JOURNAL), "").unwrap();
        assert!(load_finished(folder, &source, &options).is_none(), "its journal has what is left to do");
        fs::remove_file(folder.join(JOURNAL)).unwrap();
        Results { planned_runs: 3, ..results }.write(folder).unwrap();
        assert!(load_finished(folder, &source, &options).is_none(), "a run is missing");
    }

    #[test]
    fn what_earlier_versions_wrote_is_read() {
        let text = "topology: { leaf-spine: { leaves: 2, spines: 1, hosts-per-leaf: 1 } }
links: { rate: 10Mbit, delay: 1ms, queue: 20 }
experiments: { a: { traffic: { pattern: stride(1) }, warm-up: 20ms, for: 50ms, time-series: 10ms, vary: { links.queue: [5, 10], spread: [ecmp] } } }
";
        let source = Source { name: "x.fabric.yaml".to_owned(), text: text.to_owned() };
        let fabric = fabric::parse(&source).unwrap();
        let options = Options { drivers: vec![fabric::DriverKind::Sim], ..Options::default() };
        let mut results = crate::run::run(&source, &fabric, &options, &Journal::in_memory()).unwrap().results;
        results.records[0].lost.insert("a_b".to_owned(), 1);
        let folder = tempfile::tempdir().unwrap();
        results.write(folder.path()).unwrap();
        for file in [SUMMARY, MACHINE, SAMPLES] {
            let path = folder.path().join(file);
            let written = fs::read_to_string(&path).unwrap();
            // Of keys, and not of labels or of words that are values.
            let earlier: Vec<String> = written
                .split_inclusive(':')
                .map(|part| match part.rsplit_once('"').and_then(|(before, _)| before.rsplit_once('"')) {
                    Some((before, key)) if part.ends_with("\":") => format!("{before}\"{}\":", key.replace('-', "_")),
                    _ => part.to_owned(),
                })
                .collect();
            assert_ne!(earlier.concat(), written, "{file}");
            fs::write(&path, earlier.concat()).unwrap();
        }
        assert_eq!(load(folder.path()).unwrap(), results);
    }

    #[test]
    fn earlier_results_are_moved_and_nothing_else() {
        let all = tempfile::tempdir().unwrap();
        let folder = all.path().join("lab");
        assert_eq!(set_aside(&folder).unwrap(), None);
        fs::create_dir(&folder).unwrap();
        assert_eq!(set_aside(&folder).unwrap(), None);
        let mut kept = Vec::new();
        for content in ["first", "second"] {
            fs::write(folder.join("notes.txt"), "mine").unwrap();
            fs::write(folder.join(JOURNAL), content).unwrap();
            let aside = set_aside(&folder).unwrap().unwrap();
            assert_eq!(fs::read_to_string(aside.join(JOURNAL)).unwrap(), content);
            assert!(aside.file_name().unwrap().to_string_lossy().starts_with("lab-20"), "{aside:?}");
            kept.push(aside);
        }
        assert_ne!(kept[0], kept[1]);
        let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(left, ["notes.txt"]);
    }
}
