//! `calibrate`: what end hosts cost this machine.

use lab::Options;
use lab::calibrate::{Calibration, calibrate as measure, check_place};
use miette::Report;

use super::measure::this_program;
use crate::cli::{Calibrate, Format};
use crate::output::put;

/// Measures it, prints it, and writes it into a file. Nothing is measured that could not be written.
pub fn calibrate(args: &Calibrate, format: Format) -> Result<(), Report> {
    check_place(&args.file)?;
    let version = env!("HEDDLE_VERSION").to_owned();
    let options = Options { program: this_program()?, version, progress: !args.quiet, ..Options::default() };
    let calibration = measure(&options, args.rounds)?;
    calibration.write(&args.file)?;
    put(&match format {
        Format::Table => calibration.table(),
        Format::Json => calibration.json(),
        Format::Csv => calibration.csv(),
    })?;
    point_at_file(args, &calibration);
    Ok(())
}

fn point_at_file(args: &Calibrate, calibration: &Calibration) {
    if let Some(warning) = calibration.warning() {
        eprintln!("\nWarning: {warning}");
    }
    let file = args.file.display();
    eprintln!("\nWritten to {file}. Simulate with it: heddle run FILE --sim --machine {file}");
}
