//! One module a command, or a family of commands.

mod agent;
mod calibrate;
mod capture;
mod chains;
mod cluster;
mod compare;
mod connections;
mod controller;
mod convergence;
mod datagrams;
mod describe;
mod file;
mod flow;
mod forward;
mod graph;
mod host_shell;
mod import;
mod instance;
mod iperf;
mod link;
mod list;
mod load;
mod logs;
mod macs;
mod measure;
mod metrics;
mod names;
mod path;
mod ping;
mod port;
mod program;
mod reference;
mod renumbered;
mod rstp;
mod serve;
mod services;
mod severed;
mod shell;
mod show;
mod signals;
mod trace;
mod transfers;
mod watch;

pub use agent::agent;
pub use calibrate::calibrate;
pub use capture::capture;
pub use cluster::cluster;
pub use compare::compare;
pub use connections::connections;
pub use controller::controller;
pub use datagrams::datagrams;
pub use describe::{check, new, plan, schema};
pub use flow::{flow, group, meter};
pub use forward::forward;
pub use graph::graph;
pub use host_shell::host_shell;
pub use import::import;
pub use instance::{clean, daemon, down, exec, up};
pub use iperf::iperf;
pub use link::link;
pub use list::list;
pub use load::load;
pub use logs::logs;
pub use macs::flush;
pub use measure::{report, run};
pub use metrics::metrics;
pub use path::path;
pub use ping::{ping, pings};
pub use port::port;
pub use program::program;
pub use reference::reference;
pub use serve::serve;
pub use services::service;
pub use shell::{COMPLETE, completions, man};
pub use show::show;
pub use trace::trace;
pub use transfers::transfers;

use fabric::LocatedProblem;

/// A failure of the live driver with its hint, as a report.
#[allow(clippy::needless_pass_by_value, reason = "it is what `map_err` calls")]
fn explain(error: live::Error) -> miette::Report {
    match error.hint() {
        Some(hint) => miette::miette!(help = hint, "{error}"),
        None => miette::miette!("{error}"),
    }
}

/// The same of a file that is used: what is wrong with a device that it names is shown at its line.
fn explain_of(source: &fabric::Source, error: live::Error) -> miette::Report {
    explain_all(source, vec![error]).unwrap_or_else(|| miette::miette!("nothing is wrong"))
}

/// The same of several failures, each at its line; of those that stand at no place of the file the first one, if there are no others. `None`: there are none.
fn explain_all(source: &fabric::Source, errors: Vec<live::Error>) -> Option<miette::Report> {
    let found: Vec<LocatedProblem> = errors.iter().flat_map(located_problems).collect();
    match fabric::problems_at(source, &found) {
        Some(error) => Some(miette::Report::new(error)),
        None => errors.into_iter().next().map(explain),
    }
}

/// Where in a file a failure may be shown: hosts of a topology stand elsewhere than those that are spelled out.
fn located_problems(error: &live::Error) -> Vec<LocatedProblem> {
    let path = error.place_in_file();
    let (message, hint) = (error.to_string(), error.hint().unwrap_or_default());
    let at = |path: Vec<String>| LocatedProblem { path, message: message.clone(), hint: hint.clone() };
    match path.split_first() {
        None => Vec::new(),
        Some((first, rest)) if first == "nodes" => {
            let of_topology = std::iter::once("hosts".to_owned()).chain(rest.iter().cloned()).collect();
            vec![at(path), at(of_topology)]
        }
        Some(_) => vec![at(path)],
    }
}

/// A problem with what stands at this place of a file (`live::Error::place_in_file`).
fn located(source: &fabric::Source, at: &[String], message: &str, hint: Option<String>) -> Option<fabric::Error> {
    let path: Vec<&str> = at.iter().map(String::as_str).collect();
    if path.is_empty() {
        return None;
    }
    fabric::problem_at(source, &path, message, "here", &hint.unwrap_or_default())
}
