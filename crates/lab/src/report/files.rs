//! Results in a folder: samples, summary, machine, report.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::disk::{failed, read_results};
use crate::error::Error;
use crate::measure::environment::Environment;
use crate::measure::record::Record;
use crate::results::Results;

const SAMPLES: &str = "samples.jsonl";
const SUMMARY: &str = "summary.json";
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
        put(&folder.join(SAMPLES), &self.samples())?;
        put(&folder.join(SUMMARY), &pretty(self))?;
        put(&folder.join(MACHINE), &pretty(&self.environment))?;
        self.write_report(folder)
    }

    /// Writes only `report.html` into `folder`, which must be there: the measurements beside it stay as they are.
    ///
    /// # Errors
    /// If the folder is not there or cannot be written to.
    pub fn write_report(&self, folder: &Path) -> Result<(), Error> {
        put(&folder.join(REPORT), &self.html())
    }

    /// The raw samples, one JSON object a run and line. For simulated runs the same bytes on every machine.
    pub fn samples(&self) -> String {
        let line = |record: &Record| serde_json::to_string(record).expect("records are plain data") + "\n";
        self.records.iter().map(line).collect()
    }
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

/// Writes beside the file and renames: a reader never sees half of it.
fn put(path: &Path, text: &str) -> Result<(), Error> {
    let beside = path.with_extension("part");
    let written = fs::File::create(&beside)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&beside, path));
    written.map_err(|source| failed("writing", path, source))
}

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("results are plain data") + "\n"
}
