//! `run` and `report`: experiments, and what came of them.

use std::path::PathBuf;

use fabric::DriverKind;
use lab::{Options, Results};
use miette::{Context, IntoDiagnostic, Report};

use super::{file, located};
use crate::Ending;
use crate::cli::{self, Format, Run, Selection};
use crate::output::put;

/// Runs the experiments of a file, prints the table, writes the report.
pub fn run(args: &Run, format: Format) -> Result<Ending, Report> {
    let (source, fabric) = file::read(&args.file.file)?;
    let mut options = options(&args.selection)?;
    if let Some(threads) = args.threads {
        options.threads = usize::from(threads);
    }
    options.progress = !args.quiet;
    let results = lab::run(&source, &fabric, &options).map_err(|error| {
        let located = located(&source, &error.place_in_file(), &error.to_string(), error.hint());
        located.map_or_else(|| error.into(), Report::new)
    })?;
    let folder = args.results.clone().unwrap_or_else(|| PathBuf::from("results").join(&fabric.name));
    results.write(&folder)?;
    print(&results, format)?;
    eprintln!("\nReport: {}", folder.join("report.html").display());
    Ok(ending(&results))
}

/// Makes the report of a results folder anew.
pub fn report(args: &cli::Report, format: Format) -> Result<Ending, Report> {
    let results = lab::load(&args.folder)?;
    results.write_report(&args.folder)?;
    print(&results, format)?;
    eprintln!("\nReport: {}", args.folder.join("report.html").display());
    Ok(ending(&results))
}

/// What the command line's selection means to the lab.
pub fn options(selection: &Selection) -> Result<Options, Report> {
    let drivers = match (selection.sim, selection.live) {
        (true, _) => vec![DriverKind::Sim],
        (_, true) => vec![DriverKind::Live],
        _ => vec![DriverKind::Live, DriverKind::Sim],
    };
    Ok(Options {
        drivers,
        seed: selection.seed,
        only: selection.experiments.clone(),
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

fn ending(results: &Results) -> Ending {
    if results.passed() { Ending::Passed } else { Ending::Missed }
}
