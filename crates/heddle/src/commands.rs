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
mod path;
mod ping;
mod port;
mod reference;
mod serve;
mod services;
mod shell;
mod show;
mod signals;
mod trace;
mod transfers;

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
pub use reference::reference;
pub use serve::serve;
pub use services::service;
pub use shell::{COMPLETE, completions, man};
pub use show::show;
pub use trace::trace;
pub use transfers::transfers;

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
    let located = located(source, &error.place_in_file(), &error.to_string(), error.hint());
    located.map_or_else(|| explain(error), miette::Report::new)
}

/// A problem with what stands at this place of a file (`live::Error::place_in_file`).
fn located(source: &fabric::Source, at: &[String], message: &str, hint: Option<String>) -> Option<fabric::Error> {
    let path: Vec<&str> = at.iter().map(String::as_str).collect();
    if path.is_empty() {
        return None;
    }
    fabric::problem_at(source, &path, message, "here", &hint.unwrap_or_default())
}
