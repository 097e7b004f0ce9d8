//! `run`, `compare` and `report`: experiments, and what came of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fabric::DriverKind;
use lab::{HostCosts, Journal, Options, Ran, Results};
use miette::{Context, IntoDiagnostic, Report, miette};

use super::describe::note_doubts;
use super::{file, located, signals};
use crate::Ending;
use crate::cli::{self, Choice, Compare, Format, Run, Running, Selection};
use crate::output::put;

/// Runs the experiments of a file, prints the table, writes the report.
pub fn run(args: &Run, format: Format) -> Result<Ending, Report> {
    let Some(measured) = measure(&args.file.file, options(&args.selection)?, &args.running)? else {
        return Ok(Ending::Interrupted);
    };
    print(&measured.results, format)?;
    point_at_report(&measured.folder);
    let passed = measured.results.passed();
    measured.ending(passed)
}

/// Holds live against simulated: of a file after both have run, of a folder as its results have it.
pub fn compare(args: &Compare, format: Format) -> Result<Ending, Report> {
    let from = &args.from;
    if from.is_dir() {
        refuse_options_of_runs(args)?;
        let results = lab::load(from)?;
        return Ok(ending(print_comparison(&results, args, format)?));
    }
    let both = vec![DriverKind::Live, DriverKind::Sim];
    let options = Options { time_series: true, ..options_of(both, &args.choice)? };
    let Some(measured) = measure(from, options, &args.running)? else { return Ok(Ending::Interrupted) };
    let passed = match print_comparison(&measured.results, args, format) {
        // Simulated runs come first: there may be no live ones yet.
        Err(_) if measured.stopped.is_some() => false,
        passed => passed?,
    };
    point_at_report(&measured.folder);
    measured.ending(passed)
}

/// Prints how far live and simulated lie apart; whether that is within all tolerances.
fn print_comparison(results: &Results, args: &Compare, format: Format) -> Result<bool, Report> {
    let comparison = results.compare_drivers(&args.choice.experiments)?;
    put(&match format {
        Format::Table => comparison.table(),
        Format::Json => comparison.json(),
        Format::Csv => comparison.csv(),
    })?;
    Ok(comparison.passed())
}

/// What says how to run, beside a folder of which nothing is run, is a mistake.
fn refuse_options_of_runs(args: &Compare) -> Result<(), Report> {
    let Running { threads, results, resume, overwrite, machine, quiet: _ } = &args.running;
    let given = [
        ("--seed", args.choice.seed.is_some()),
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
            args.from.display()
        )),
        None => Ok(()),
    }
}

/// What came of the runs of a file, and the folder that it was written into.
struct Measured {
    results: Results,
    folder: PathBuf,
    /// Why not all of them took place.
    stopped: Option<lab::Error>,
}

impl Measured {
    /// How the command ends: if not all runs took place, it says what is kept of them.
    fn ending(self, passed: bool) -> Result<Ending, Report> {
        let Some(error) = self.stopped else { return Ok(ending(passed)) };
        let judged =
            if self.results.verdicts().next().is_some() { ", by which alone expectations are judged" } else { "" };
        let kept = format!("{} of {} runs are kept{judged}", self.results.records.len(), self.results.planned_runs);
        let go_on = "the same command with --resume goes on with the others";
        if matches!(error, lab::Error::Interrupted) {
            eprintln!("Interrupted: {kept}; {go_on}");
            return Ok(Ending::Interrupted);
        }
        let hint = error.hint().map_or_else(String::new, |hint| hint + "; ");
        Err(miette!(help = format!("{hint}{go_on}"), "{kept}, then: {error}"))
    }
}

/// Runs the experiments of a file and writes their results into a folder. Each run is kept there when it ends. `None`: it was interrupted before one had.
fn measure(path: &Path, mut options: Options, running: &Running) -> Result<Option<Measured>, Report> {
    let (source, fabric) = file::read(path)?;
    options.hosts = hosts(&options, running.machine.as_deref())?;
    if let Some(threads) = running.threads {
        options.threads = usize::from(threads);
    }
    options.progress = !running.quiet;
    let folder = running.results.clone().unwrap_or_else(|| PathBuf::from("results").join(&fabric.name));
    let explain = |error: lab::Error| {
        let located = located(&source, &error.place_in_file(), &error.to_string(), error.hint());
        located.map_or_else(|| error.into(), Report::new)
    };
    // A plan that makes no sense shall not cost what an earlier call has left.
    lab::plan(&fabric, &options).map_err(explain)?;
    if !running.quiet {
        note_doubts(&source, &fabric);
    }
    if !running.resume
        && !running.overwrite
        && let Some(aside) = lab::set_aside(&folder)?
    {
        eprintln!("Earlier results: {}", shown(&aside).display());
    }
    let interrupted = Arc::default();
    signals::await_end(&interrupted)?;
    let journal = if running.resume { Journal::resume } else { Journal::begin }(&folder, &source, &options)?;
    let journal = journal.until(interrupted);
    let Ran { results, stopped } = match lab::run(&source, &fabric, &options, &journal) {
        Ok(ran) => ran,
        Err(error) => {
            journal.finish()?;
            if matches!(error, lab::Error::Interrupted) {
                eprintln!("Interrupted: no run had ended");
                return Ok(None);
            }
            return Err(explain(error));
        }
    };
    results.write(&folder)?;
    if stopped.is_none() {
        journal.finish()?;
    }
    Ok(Some(Measured { results, folder, stopped }))
}

/// A path as short as it can be written here.
fn shown(path: &Path) -> &Path {
    std::env::current_dir().ok().and_then(|here| path.strip_prefix(here).ok()).unwrap_or(path)
}

/// What simulated hosts cost, by the file that was named.
fn hosts(options: &Options, machine: Option<&Path>) -> Result<Option<HostCosts>, Report> {
    let Some(machine) = machine else { return Ok(None) };
    if !options.drivers.contains(&DriverKind::Sim) {
        return Err(miette!(
            help = "leave --live or --machine out",
            "--machine says what simulated hosts cost, and nothing is simulated with --live"
        ));
    }
    Ok(Some(HostCosts::read(machine).map_err(lab::Error::from)?))
}

/// Makes the report of a results folder anew.
pub fn report(args: &cli::Report, format: Format) -> Result<Ending, Report> {
    let results = lab::load(&args.folder)?;
    results.write_report(&args.folder)?;
    print(&results, format)?;
    point_at_report(&args.folder);
    Ok(ending(results.passed()))
}

/// What the command line's selection means to the lab.
pub fn options(selection: &Selection) -> Result<Options, Report> {
    let drivers = match (selection.sim, selection.live) {
        (true, _) => vec![DriverKind::Sim],
        (_, true) => vec![DriverKind::Live],
        _ => vec![DriverKind::Live, DriverKind::Sim],
    };
    options_of(drivers, &selection.choice)
}

fn options_of(drivers: Vec<DriverKind>, choice: &Choice) -> Result<Options, Report> {
    Ok(Options {
        drivers,
        seed: choice.seed,
        only: choice.experiments.clone(),
        program: this_program()?,
        ..Options::default()
    })
}

/// The path of this program: the daemon of a running network is the same one.
pub fn this_program() -> Result<PathBuf, Report> {
    std::env::current_exe().into_diagnostic().wrap_err("cannot find the path of this program")
}

fn print(results: &Results, format: Format) -> Result<(), Report> {
    put(&match format {
        Format::Table => results.table(),
        Format::Json => results.json(),
        Format::Csv => results.csv(),
    })
}

fn point_at_report(folder: &Path) {
    eprintln!("\nReport: {}", folder.join(lab::REPORT).display());
}

const fn ending(passed: bool) -> Ending {
    if passed { Ending::Passed } else { Ending::Missed }
}
