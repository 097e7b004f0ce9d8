//! `run`, `compare` and `report`: experiments, and what came of them.

use std::path::{Path, PathBuf};

use fabric::DriverKind;
use lab::{HostCosts, Options, Results};
use miette::{Context, IntoDiagnostic, Report, miette};

use super::{file, located};
use crate::Ending;
use crate::cli::{self, Choice, Compare, Format, Run, Running, Selection};
use crate::output::put;

/// Runs the experiments of a file, prints the table, writes the report.
pub fn run(args: &Run, format: Format) -> Result<Ending, Report> {
    let (results, folder) = measure(&args.file.file, options(&args.selection)?, &args.running)?;
    print(&results, format)?;
    point_at_report(&folder);
    Ok(ending(results.passed()))
}

/// Holds live against simulated: of a file after both have run, of a folder as its results have it.
pub fn compare(args: &Compare, format: Format) -> Result<Ending, Report> {
    let from = &args.from;
    let (results, folder) = if from.is_dir() {
        refuse_options_of_runs(args)?;
        (lab::load(from)?, None)
    } else {
        let both = vec![DriverKind::Live, DriverKind::Sim];
        let (results, folder) = measure(from, options_of(both, &args.choice)?, &args.running)?;
        (results, Some(folder))
    };
    let comparison = results.compare_drivers(&args.choice.experiments)?;
    put(&match format {
        Format::Table => comparison.table(),
        Format::Json => comparison.json(),
        Format::Csv => comparison.csv(),
    })?;
    if let Some(folder) = folder {
        point_at_report(&folder);
    }
    Ok(ending(comparison.passed()))
}

/// What says how to run, beside a folder of which nothing is run, is a mistake.
fn refuse_options_of_runs(args: &Compare) -> Result<(), Report> {
    let Running { threads, results, machine, quiet: _ } = &args.running;
    let given = [
        ("--seed", args.choice.seed.is_some()),
        ("--threads", threads.is_some()),
        ("--results", results.is_some()),
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

/// Runs the experiments of a file and writes their results into a folder, which it returns, too.
fn measure(path: &Path, mut options: Options, running: &Running) -> Result<(Results, PathBuf), Report> {
    let (source, fabric) = file::read(path)?;
    options.hosts = hosts(&options, running.machine.as_deref())?;
    if let Some(threads) = running.threads {
        options.threads = usize::from(threads);
    }
    options.progress = !running.quiet;
    let results = lab::run(&source, &fabric, &options).map_err(|error| {
        let located = located(&source, &error.place_in_file(), &error.to_string(), error.hint());
        located.map_or_else(|| error.into(), Report::new)
    })?;
    let folder = running.results.clone().unwrap_or_else(|| PathBuf::from("results").join(&fabric.name));
    results.write(&folder)?;
    Ok((results, folder))
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
