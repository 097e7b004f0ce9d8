//! `compare`: live against simulated, of one file or of many.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fabric::DriverKind;
use lab::{Comparisons, Journal, NotJoined, Options, Results};
use miette::{Context, IntoDiagnostic, Report, miette};

use super::file;
use super::measure::{Measured, Stop, Work, interruption, options_of, point_at_report};
use crate::Ending;
use crate::cli::{Compare, Format, Running};
use crate::natural;
use crate::output::put;

/// What the names of fabric files in a folder end in.
const FABRIC_FILE: &str = ".fabric.yaml";

/// One thing that is compared.
enum Subject {
    /// A folder that `run` or `compare` wrote.
    Results(PathBuf),
    /// A fabric file, whose experiments run first.
    File(PathBuf),
}

impl Subject {
    fn path(&self) -> &Path {
        match self {
            Self::Results(path) | Self::File(path) => path,
        }
    }
}

/// Holds live against simulated: of files after both have run, of folders as their results have it.
pub fn compare(args: &Compare, format: Format) -> Result<Ending, Report> {
    let subjects = subjects(&args.from)?;
    if let Some(Subject::Results(folder)) = subjects.iter().find(|subject| matches!(subject, Subject::Results(_))) {
        refuse_options_of_runs(args, folder)?;
    }
    // What two calls have run of one file, each by one clock, is one thing.
    if let [Subject::Results(a), Subject::Results(b)] = &subjects[..] {
        let (of_a, of_b) = (lab::load(a)?, lab::load(b)?);
        match of_a.joined(&of_b) {
            Ok(joined) => return Ok(ending(print_comparison(&joined, args, format)?)),
            // Each by itself, then.
            Err(NotJoined::SameDriver) => {}
            Err(reason) => {
                let name = |folder: &Path| folder.display().to_string();
                return Err(Results::not_joined((name(a), &of_a), (name(b), &of_b), reason).into());
            }
        }
    }
    match &subjects[..] {
        [Subject::Results(folder)] if !is_folder_of_files(&args.from) => {
            let results = lab::load(folder)?;
            Ok(ending(print_comparison(&results, args, format)?))
        }
        [Subject::File(path)] if !is_folder_of_files(&args.from) => compare_one(path, args, format),
        _ => compare_all(&subjects, args, format),
    }
}

/// What the arguments name, with the fabric files of folders that hold some.
fn subjects(from: &[PathBuf]) -> Result<Vec<Subject>, Report> {
    let mut subjects = Vec::new();
    for path in from {
        if !path.is_dir() {
            subjects.push(Subject::File(path.clone()));
        } else if path.join(lab::SUMMARY).exists() {
            subjects.push(Subject::Results(path.clone()));
        } else {
            subjects.extend(files_in(path)?.into_iter().map(Subject::File));
        }
    }
    Ok(subjects)
}

/// The fabric files of a folder, by name.
fn files_in(folder: &Path) -> Result<Vec<PathBuf>, Report> {
    let unread = || format!("cannot read the folder {}", folder.display());
    let mut files = Vec::new();
    for entry in folder.read_dir().into_diagnostic().wrap_err_with(unread)? {
        let entry = entry.into_diagnostic().wrap_err_with(unread)?;
        if entry.file_name().to_string_lossy().ends_with(FABRIC_FILE) {
            files.push(entry.path());
        }
    }
    files.sort_by(|a, b| natural::compare(&a.to_string_lossy(), &b.to_string_lossy()));
    if files.is_empty() {
        return Err(miette!(
            help = "`heddle run FILE` writes results into results/NAME; name that folder, a fabric file, or a folder of fabric files",
            "{} has neither a {} nor a file *{FABRIC_FILE}: there is nothing to compare",
            folder.display(),
            lab::SUMMARY
        ));
    }
    Ok(files)
}

/// Whether what was named is a list, though it may have one entry.
fn is_folder_of_files(from: &[PathBuf]) -> bool {
    from.len() > 1 || from.iter().any(|path| path.is_dir() && !path.join(lab::SUMMARY).exists())
}

fn compare_one(path: &Path, args: &Compare, format: Format) -> Result<Ending, Report> {
    let work = Work::prepare(path, both(args)?, &args.running, None)?;
    let Some(measured) = work.measure(args.running.resume, &interruption()?)? else {
        return Ok(Ending::Interrupted);
    };
    let passed = match print_comparison(&measured.results, args, format) {
        // Simulated runs come first: there may be no live ones yet.
        Err(_) if measured.stopped.is_some() => false,
        passed => passed?,
    };
    point_at_report(&measured.folder);
    measured.finish(passed)
}

/// Both drivers, with what is recorded over time.
fn both(args: &Compare) -> Result<Options, Report> {
    let both = vec![DriverKind::Live, DriverKind::Sim];
    Ok(Options { time_series: true, ..options_of(both, &args.choice)? })
}

/// Prints how far live and simulated lie apart; whether that is within all tolerances, or one may lie apart.
fn print_comparison(results: &Results, args: &Compare, format: Format) -> Result<bool, Report> {
    let comparison = results.compare_drivers(&args.choice.experiments)?;
    put(&match format {
        Format::Table => comparison.table(),
        Format::Json => comparison.json(),
        Format::Csv => comparison.csv(),
    })?;
    Ok(comparison.passed() || args.apart_max > 0)
}

/// What became of one of many.
struct Compared {
    name: String,
    outcome: Result<Results, String>,
}

/// Compares one after the other, and prints one table of all. What fails keeps the others from nothing.
fn compare_all(subjects: &[Subject], args: &Compare, format: Format) -> Result<Ending, Report> {
    refuse_folders_of_one_clock(subjects, args)?;
    // A mistake in the last file is not found after an hour.
    let works = prepare(subjects, args)?;
    let count = works.len();
    let interrupted = interruption()?;
    let (mut compared, mut journals) = (Vec::new(), Vec::new());
    let (mut is_interrupted, mut is_failed) = (false, false);
    for (number, (subject, work)) in works.iter().enumerate() {
        let name = subject.path().display().to_string();
        let done = work.as_ref().filter(|_| args.running.resume).and_then(Work::finished);
        let outcome = match (work, done) {
            (None, _) => lab::load(subject.path()).map_err(Report::from),
            (Some(_), Some(results)) => {
                if !args.running.quiet {
                    eprintln!("{} of {count}: {name} is done", number + 1);
                }
                Ok(results)
            }
            (Some(work), None) => {
                if !args.running.quiet {
                    eprintln!("{} of {count}: {name}", number + 1);
                }
                let resume = args.running.resume && work.has_journal();
                match work.measure(resume, &interrupted) {
                    Ok(None) => {
                        is_interrupted = true;
                        break;
                    }
                    Ok(Some(measured)) => {
                        let (outcome, stop) = take_apart(measured, &mut journals);
                        is_interrupted |= stop;
                        outcome
                    }
                    Err(report) => Err(report),
                }
            }
        };
        let outcome = outcome.and_then(|results| {
            results.compare_drivers(&args.choice.experiments)?;
            Ok(results)
        });
        if let Err(report) = &outcome
            && !is_interrupted
        {
            is_failed = true;
            eprintln!("{report:?}");
        }
        let outcome = outcome.map_err(|report| report.to_string());
        compared.push(Compared { name, outcome });
        if is_interrupted {
            break;
        }
    }
    let passed = print_all(&compared, args, format)?;
    if is_interrupted {
        eprintln!("Interrupted at {} of {count}: the same command with --resume goes on", compared.len().max(1));
        return Ok(Ending::Interrupted);
    }
    if is_failed {
        return Ok(Ending::Failed);
    }
    for journal in journals {
        journal.finish()?;
    }
    Ok(ending(passed))
}

/// Of folders alone, none of which has a case that ran both ways, one thing is said, and not one each.
fn refuse_folders_of_one_clock(subjects: &[Subject], args: &Compare) -> Result<(), Report> {
    let folder = |subject: &Subject| if let Subject::Results(path) = subject { Some(path.clone()) } else { None };
    let Some(folders) = subjects.iter().map(folder).collect::<Option<Vec<PathBuf>>>() else { return Ok(()) };
    let has_nothing = |folder: &PathBuf| {
        let Ok(results) = lab::load(folder) else { return false };
        matches!(results.compare_drivers(&args.choice.experiments), Err(lab::Error::NothingToCompare { .. }))
    };
    if !folders.iter().all(has_nothing) {
        return Ok(());
    }
    let names: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    let instead = match &names[..] {
        [a, b] => format!("`heddle report --compare {a} {b}` compares them with each other"),
        _ => "`heddle report --compare A B` compares two of them with each other".to_owned(),
    };
    Err(miette!(
        help = format!("{instead}; this is of live runs against simulated ones"),
        "{}: nothing to compare, since no case ran both live and simulated",
        names.join(", ")
    ))
}

/// The results of a file, its journal put with those that are kept until all files are done, and whether it was interrupted.
fn take_apart(measured: Measured, journals: &mut Vec<Journal>) -> (Result<Results, Report>, bool) {
    let stop = measured.explain_stop();
    let Measured { results, journal, .. } = measured;
    journals.push(journal);
    match stop {
        None => (Ok(results), false),
        Some(Stop::Interrupted(line)) => {
            eprintln!("{line}");
            (Ok(results), true)
        }
        Some(Stop::Failed(report)) => (Err(report), false),
    }
}

fn print_all(compared: &[Compared], args: &Compare, format: Format) -> Result<bool, Report> {
    let mut comparisons = Comparisons::default();
    for Compared { name, outcome } in compared {
        let outcome = match outcome {
            Ok(results) => results.compare_drivers(&args.choice.experiments).map_err(|error| error.to_string()),
            Err(message) => Err(message.clone()),
        };
        comparisons.push(name.clone(), outcome);
    }
    put(&match format {
        Format::Table => comparisons.table(),
        Format::Json => comparisons.json(),
        Format::Csv => comparisons.csv(),
    })?;
    Ok(comparisons.apart() <= args.apart_max as usize)
}

/// Reads and plans all files. Each must have a folder of its own for its results. In a folder, a file may have no experiments; one that is named has some.
fn prepare<'a>(subjects: &'a [Subject], args: &Compare) -> Result<Vec<(&'a Subject, Option<Work>)>, Report> {
    let mut by_name: BTreeMap<String, &Path> = BTreeMap::new();
    let below = args.running.results.clone().unwrap_or_else(|| PathBuf::from("results"));
    let mut works = Vec::new();
    for subject in subjects {
        let Subject::File(path) = subject else {
            works.push((subject, None));
            continue;
        };
        if !args.from.contains(path) && file::read(path)?.1.experiments.is_empty() {
            eprintln!("{}: left out, it has no experiments", path.display());
            continue;
        }
        let work = Work::prepare(path, both(args)?, &args.running, Some(&below))?;
        if let Some(other) = by_name.insert(work.fabric.name.clone(), path) {
            return Err(miette!(
                help = "give one of them another `name:`, or compare them one by one",
                "{} and {} have the same name, {}, so the results of one would take the place of the other's",
                other.display(),
                path.display(),
                work.fabric.name
            ));
        }
        works.push((subject, Some(work)));
    }
    if works.is_empty() {
        return Err(miette!(
            help = "add `experiments:` to one of them",
            "no file has experiments: there is nothing to compare"
        ));
    }
    Ok(works)
}

/// What says how to run, beside a folder of which nothing is run, is a mistake.
fn refuse_options_of_runs(args: &Compare, folder: &Path) -> Result<(), Report> {
    let Running { threads, results, resume, overwrite, machine, quiet: _ } = &args.running;
    let given = [
        ("--seed", args.choice.seed.is_some()),
        ("--case", !args.choice.cases.is_empty()),
        ("--threads", threads.is_some()),
        ("--results", results.is_some()),
        ("--resume", *resume),
        ("--overwrite", *overwrite),
        ("--machine", machine.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(miette!(
            help = "name a fabric file to run it, or leave the option out to compare what is in the folder",
            "{option}: {} is a folder of results, of which nothing is run",
            folder.display()
        )),
        None => Ok(()),
    }
}

const fn ending(passed: bool) -> Ending {
    if passed { Ending::Passed } else { Ending::Missed }
}
