//! Results in a folder: samples, summary, machine, report.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::disk::{failed, read_results, write_whole};
use crate::error::Error;
use crate::journal::{JOURNAL, take_for_this_program};
use crate::measure::environment::{Environment, date};
use crate::measure::record::Record;
use crate::results::Results;

const SAMPLES: &str = "samples.jsonl";
/// What was measured in short; a folder that has it is one of results.
pub const SUMMARY: &str = "summary.json";
const MACHINE: &str = "machine.json";
/// The page for people.
pub const REPORT: &str = "report.html";

impl Results {
    /// Writes `samples.jsonl`, `summary.json`, `machine.json` and `report.html` into `folder`, which is made if it is
    /// not there. A file is either written whole or left as it was.
    ///
    /// # Errors
    /// If the folder cannot be made or written to.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        fs::create_dir_all(folder).map_err(|source| failed("writing", folder, source))?;
        write_whole(&folder.join(SAMPLES), &self.samples())?;
        write_whole(&folder.join(SUMMARY), &pretty(self))?;
        write_whole(&folder.join(MACHINE), &pretty(&self.environment))?;
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
    let files = [SAMPLES, SUMMARY, MACHINE, REPORT, JOURNAL].map(|name| folder.join(name));
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

/// Reads what [`Results::write`] wrote.
///
/// # Errors
/// If a file is missing, is larger than 1 GiB, or is not what it should be.
pub fn load(folder: &Path) -> Result<Results, Error> {
    let mut results: Results = get(&folder.join(SUMMARY))?;
    results.environment = get::<Environment>(&folder.join(MACHINE))?;
    let samples = folder.join(SAMPLES);
    let text = read_results(&samples)?;
    for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let record = serde_json::from_str(line).map_err(|source| Error::Format {
            path: samples.clone(),
            line: i + 1,
            source,
        })?;
        results.records.push(record);
    }
    Ok(results)
}

fn get<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text = read_results(path)?;
    serde_json::from_str(&text).map_err(|source| Error::Format { path: path.to_owned(), line: source.line(), source })
}

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("results are plain data") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

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
