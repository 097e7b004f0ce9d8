//! The program: reads the command line, calls what it names, turns the outcome into text and an exit status.
#![forbid(unsafe_code)]

/// As that of the standard library, which panics where standard error is closed or full: what is said to nobody is lost, and the program goes on.
macro_rules! eprintln {
    ($($words:tt)*) => {
        crate::output::note(format_args!($($words)*))
    };
}

mod cli;
mod commands;
mod failure;
mod natural;
mod output;
mod usage;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use clap_complete::CompleteEnv;
use miette::Report;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

use crate::cli::{Cli, Command};

/// A controller allocates and frees for each request, and this allocator serves more of them (decision 28).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How a command ended, when it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All expectations are met.
    Passed,
    /// An expectation of the file was missed.
    Missed,
    /// Somebody wanted it to end before it was done.
    Interrupted,
    /// It failed, and why was printed as data.
    Failed,
}

fn main() -> ExitCode {
    // A shell that asks what a word may become is answered, and nothing else is done.
    CompleteEnv::with_factory(Cli::command).var(commands::COMPLETE).complete();
    // Before the first report is made, which would be printed otherwise.
    failure::install();
    let line = usage::with_network_behind(std::env::args_os());
    let cli = Cli::try_parse_from(&line).unwrap_or_else(|error| refuse(&error, &line));
    // A controller's operator wants to know of elections and lost peers without asking; a network's, of carriers and partners.
    let is_server = matches!(cli.command, Command::Controller(_) | Command::Daemon(_));
    log_to_stderr(cli.verbose.saturating_add(u8::from(is_server)));
    match dispatch(cli) {
        Ok(Ending::Passed) => ExitCode::SUCCESS,
        Ok(Ending::Missed) => ExitCode::from(1),
        Ok(Ending::Interrupted) => ExitCode::from(130),
        Ok(Ending::Failed) => ExitCode::from(2),
        Err(report) => {
            // Whoever started it may not listen any more; the status says it, too.
            let _ = writeln!(std::io::stderr(), "{report:?}");
            ExitCode::from(2)
        }
    }
}

/// Says what is wrong with the command line, or what was asked for by `--help`, and ends. What the arguments say is not for the terminal to obey.
fn refuse(error: &clap::Error, line: &[OsString]) -> ! {
    if let Some(report) = usage::explain(error, line) {
        let _ = writeln!(std::io::stderr(), "{report:?}");
        std::process::exit(error.exit_code());
    }
    let plain = error.render().to_string();
    let shown = output::harmless(&plain);
    if error.use_stderr() && shown != plain {
        let _ = write!(std::io::stderr(), "{shown}");
        std::process::exit(error.exit_code());
    }
    error.exit()
}

fn log_to_stderr(verbose: u8) {
    let level = ["warn", "info", "debug"][usize::from(verbose.min(2))];
    let filter: Targets = std::env::var("HEDDLE_LOG")
        .ok()
        .filter(|directives| !directives.is_empty())
        .and_then(|directives| directives.parse().ok())
        .unwrap_or_else(|| level.parse().expect("a level is a filter"));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty()))
        // They would be written to standard error, which panics if that is what is broken.
        .log_internal_errors(false);
    tracing_subscriber::registry().with(lines).with(filter).init();
}

fn dispatch(cli: Cli) -> Result<Ending, Report> {
    let format = cli.output;
    match cli.command {
        Command::New(args) => commands::new(&args, format)?,
        Command::Import(args) => commands::import(&args, format)?,
        Command::Check(args) => return commands::check(&args, format),
        Command::Plan(args) => commands::plan(&args, format)?,
        Command::Up(args) => commands::up(&args, format)?,
        Command::Down(args) => commands::down(&args, format)?,
        Command::Run(args) => return commands::run(&args, format),
        Command::Compare(args) => return commands::compare(&args, format),
        Command::Calibrate(args) => commands::calibrate(&args, format)?,
        Command::List => commands::list(format)?,
        Command::Show(args) => commands::show(&args, format)?,
        Command::Flush(args) => commands::flush(&args, format)?,
        Command::Logs(args) => commands::logs(&args, format)?,
        Command::Exec(args) => commands::exec(&args)?,
        Command::Shell(args) => commands::host_shell(&args)?,
        Command::Ping(args) => return commands::ping(&args, format),
        Command::Iperf(args) => return commands::iperf(&args, format),
        Command::Path(args) => return commands::path(&args, format),
        Command::Graph(args) => commands::graph(&args, format)?,
        Command::Capture(args) => commands::capture(&args, format)?,
        Command::Link(args) => commands::link(&args, format)?,
        Command::Port(args) => commands::port(&args, format)?,
        Command::Program(args) => commands::program(&args, format)?,
        Command::Service(args) => commands::service(&args, format)?,
        Command::Flow(args) => commands::flow(&args, format)?,
        Command::Group(args) => commands::group(&args, format)?,
        Command::Meter(args) => commands::meter(&args, format)?,
        Command::Trace(args) => commands::trace(&args, format)?,
        Command::Report(args) => return commands::report(&args, format),
        Command::Serve(args) => commands::serve(args, format)?,
        Command::Load(args) => return commands::load(&args, format),
        Command::Agent(args) => commands::agent(args, format)?,
        Command::Metrics(args) => commands::metrics(&args, format)?,
        Command::Controller(args) => commands::controller(&args, format)?,
        Command::Cluster(args) => return commands::cluster(&args, format, cli.verbose > 0),
        Command::Schema => commands::schema()?,
        Command::Clean => commands::clean(format)?,
        Command::Completions { shell } => commands::completions(shell)?,
        Command::Man { folder } => commands::man(&folder)?,
        Command::Reference { folder } => commands::reference(&folder)?,
        Command::Daemon(args) => commands::daemon(&args)?,
        Command::Forward { ingress, egress } => commands::forward([&ingress, &egress])?,
        Command::Pings(args) => commands::pings(&args)?,
        Command::Connections { ports } => commands::connections(&ports)?,
        Command::Datagrams { end } => commands::datagrams(&end)?,
        Command::Transfers { end } => commands::transfers(&end)?,
    }
    Ok(Ending::Passed)
}
