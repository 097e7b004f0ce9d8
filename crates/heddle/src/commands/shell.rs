//! `completions`, `man`: what a package installs beside the program.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::env::Shells;
use miette::{Context, IntoDiagnostic, Report, miette};

use crate::cli::Cli;
use crate::output::put;

/// By this variable of the environment a shell asks what a word may become.
pub const COMPLETE: &str = "HEDDLE_COMPLETE";

/// What a file for zsh ends with: read for the first time as the function of its name, it completes at once.
const ZSH_END: &str = "[[ $funcstack[1] = _heddle ]] && _clap_dynamic_completer_heddle \"$@\"\n";

/// Prints a completion script. It asks this program what a word may become.
pub fn completions(shell: clap_complete::Shell) -> Result<(), Report> {
    let shells = Shells::builtins();
    let name = shell.to_string();
    let completer = shells.completer(&name).ok_or_else(|| miette!("there are no completions for {name}"))?;
    let mut script = Vec::new();
    completer.write_registration(COMPLETE, "heddle", "heddle", "heddle", &mut script).into_diagnostic()?;
    let end = if shell == clap_complete::Shell::Zsh { ZSH_END } else { "" };
    put(&(String::from_utf8_lossy(&script).into_owned() + end))
}

/// Writes `heddle.1` and one page a subcommand.
pub fn man(folder: &Path) -> Result<(), Report> {
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), folder))
        .into_diagnostic()
        .wrap_err_with(|| format!("cannot write the manual pages into {}", folder.display()))
}
