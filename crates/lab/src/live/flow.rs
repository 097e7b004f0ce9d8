//! Flows of a live run, and the hosts in which their programs run.

use std::process::{Child, Command, Stdio};

/// Where programs run.
pub(crate) trait Hosts {
    /// A command that will run in `host`.
    fn command(&self, host: &str, program: &str, arguments: &[String]) -> Result<Command, String>;
}

/// Starts a program in a host; `stdio`: its input, its output, and what it says of errors.
///
/// # Errors
/// If it cannot be started.
pub(crate) fn start(
    hosts: &impl Hosts,
    (host, program): (&str, &str),
    arguments: &[String],
    stdio: [Stdio; 3],
) -> Result<Child, String> {
    let [stdin, stdout, stderr] = stdio;
    let mut command = hosts.command(host, program, arguments)?;
    let started = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn();
    started.map_err(|error| format!("{program} cannot be started: {error}"))
}

/// A flow to be.
#[derive(Clone, Debug)]
pub(crate) struct LiveFlow {
    /// The sending host.
    pub from: String,
    /// The receiving host.
    pub to: String,
    /// The receiver's address.
    pub address: String,
    /// The receiver's port: unique among the flows of its host.
    pub port: u16,
}

/// A flow that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FlowFailure {
    /// `h1 -> h2`; empty if it was not about one flow.
    pub flow: String,
    /// Where the failing program ran.
    pub host: String,
    /// What it said.
    pub message: String,
}
