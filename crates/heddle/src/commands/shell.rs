//! `completions`, `man`: what a package installs beside the program.

use std::path::Path;

use clap::CommandFactory;
use miette::{Context, IntoDiagnostic, Report};

use crate::cli::Cli;
use crate::output::put;

/// Prints a completion script.
pub fn completions(shell: clap_complete::Shell) -> Result<(), Report> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "heddle", &mut script);
    put(&String::from_utf8_lossy(&script))
}

/// Writes `heddle.1` and one page a subcommand.
pub fn man(folder: &Path) -> Result<(), Report> {
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), folder))
        .into_diagnostic()
        .wrap_err_with(|| format!("cannot write the manual pages into {}", folder.display()))
}
