//! One module a command, or a family of commands.

mod cluster;
mod controller;
mod convergence;
mod datagrams;
mod describe;
mod file;
mod instance;
mod link;
mod measure;
mod shell;
mod show;

pub use cluster::cluster;
pub use controller::controller;
pub use datagrams::datagrams;
pub use describe::{check, new, plan, schema};
pub use instance::{clean, daemon, down, exec, up};
pub use link::link;
pub use measure::{report, run};
pub use shell::{completions, man};
pub use show::show;

/// A failure of the live driver with its hint, as a report.
#[allow(clippy::needless_pass_by_value, reason = "it is what `map_err` calls")]
fn explain(error: live::Error) -> miette::Report {
    match error.hint() {
        Some(hint) => miette::miette!(help = hint, "{error}"),
        None => miette::miette!("{error}"),
    }
}
