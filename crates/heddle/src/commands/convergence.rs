//! Waiting until the bonds of a network carry all that they can, and its services are served.

use std::io::Write;
use std::time::{Duration, Instant};

use fabric::Fabric;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use live::control::{ServerStatus, ServiceStatus};
use live::{CONVERGENCE_MAX, Instance, UnconvergedBond};
use miette::{Report, Severity, miette};

use super::explain;

/// Bonds that get a warning of their own; more are counted.
const WARNED_MAX: usize = 6;

/// Waits for bonds, and warns of those that carry less than they should. What is waited for is shown on a terminal.
pub fn wait_converged(instance: &Instance) -> Result<(), Report> {
    let mut bar = None;
    let unconverged = instance.wait_converged(|bonds| show(bar.get_or_insert_with(|| start(bonds.len())), bonds));
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let unconverged = unconverged.map_err(explain)?;
    for bond in unconverged.iter().take(WARNED_MAX) {
        let waited = if bond.is_pending() { format!("after {} s, ", CONVERGENCE_MAX.as_secs()) } else { String::new() };
        warn(&miette!(
            severity = Severity::Warning,
            help = "`heddle show bonds` says what becomes of it",
            "{waited}{bond}"
        ));
    }
    if let Some(more) = unconverged.len().checked_sub(WARNED_MAX).filter(|more| *more > 0) {
        warn(&miette!(
            severity = Severity::Warning,
            help = "`heddle show bonds` shows them all",
            "{more} more such ends of bonds"
        ));
    }
    Ok(())
}

/// Servers are waited for no longer.
const SERVERS_MAX: Duration = Duration::from_secs(3);

/// From look to look.
const LOOK: Duration = Duration::from_millis(50);

/// Whoever waits for longer hears for what.
const SILENT: Duration = Duration::from_secs(1);

/// So many servers that are not up yet are named.
const SERVERS_NAMED: usize = 6;

/// Waits for servers of services whose programs the file has started: until health checks have found each well once, so that the first request is answered. Those
/// that take longer than [`SERVERS_MAX`] are named, and not waited for.
pub fn wait_served(instance: &Instance, fabric: &Fabric) -> Result<(), Report> {
    let has_programs = |server: &str| fabric.setups.get(server).is_some_and(|setup| !setup.programs.is_empty());
    let is_checked = fabric.services.iter().any(|service| {
        service.health.is_some() && service.spec.servers.iter().any(|server| has_programs(&server.name))
    });
    if !is_checked {
        return Ok(());
    }
    let began = Instant::now();
    let mut is_said = false;
    loop {
        let services = instance.counters().map_err(explain)?.services;
        let waited_for = |server: &&ServerStatus| has_programs(&server.server) && is_starting(server);
        let of = |service: &ServiceStatus| -> Vec<(String, String)> {
            let servers = service.servers.iter().filter(waited_for);
            servers.map(|server| (service.service.clone(), server.server.clone())).collect()
        };
        let starting: Vec<(String, String)> = services.iter().flat_map(of).collect();
        if starting.is_empty() {
            break;
        }
        if !is_said && began.elapsed() >= SILENT {
            is_said = true;
            eprintln!("Waiting for {}, {} s at most", named(&starting), SERVERS_MAX.as_secs());
        }
        if began.elapsed() >= SERVERS_MAX {
            eprintln!("{}", still_starting(&starting));
            break;
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Servers, each with its service before it, by their names; of many, some.
fn named(servers: &[(String, String)]) -> String {
    let named = servers.iter().take(SERVERS_NAMED).map(|(service, server)| format!("{server} ({service})"));
    let more = servers.len().saturating_sub(SERVERS_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    named.collect::<Vec<_>>().join(", ") + &more
}

/// That servers are not up yet, and where to look.
fn still_starting(servers: &[(String, String)]) -> String {
    let (are, server) = (if servers.len() == 1 { "is" } else { "are" }, &servers[0].1);
    format!(
        "note: after {} s {} {are} still starting (hint: `heddle show services` says why, and `heddle logs {server}` what its programs print)",
        SERVERS_MAX.as_secs(),
        named(servers)
    )
}

/// Whether nothing is known of a server yet, or what is known has not reached its service.
fn is_starting(server: &ServerStatus) -> bool {
    let Some(health) = &server.health else { return false };
    health.is_starting || (!health.is_down && server.out.as_deref() == Some("down"))
}

/// Nobody may listen any more; the network is up all the same.
fn warn(report: &Report) {
    let _ = writeln!(std::io::stderr(), "{report:?}");
}

/// A bar over `ends` of bonds on standard error, if that is a terminal.
fn start(ends: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:>10} [{bar:16}] {wide_msg}").expect("the template is a constant");
    ProgressBar::with_draw_target(Some(ends as u64), ProgressDrawTarget::stderr())
        .with_style(style.progress_chars("=> "))
        .with_prefix("bonds")
}

fn show(bar: &ProgressBar, bonds: &[UnconvergedBond]) {
    let mut pending = bonds.iter().filter(|bond| bond.is_pending());
    let Some(first) = pending.next() else { return };
    let others = pending.count();
    let more = if others > 0 { format!(" and {others} more") } else { String::new() };
    let why = first.members.iter().find(|member| member.pending).map_or("", |member| &member.why);
    bar.set_message(format!("{}{more}, {} s at most: {why}", first.name(), CONVERGENCE_MAX.as_secs()));
    bar.set_position(bar.length().unwrap_or(0).saturating_sub(1 + others as u64));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_take_their_time_are_named() {
        let servers = |count: usize| -> Vec<_> { (1..=count).map(|n| ("web".to_owned(), format!("h{n}"))).collect() };
        assert!(still_starting(&servers(1)).starts_with("note: after 3 s h1 (web) is still starting (hint: "));
        let said = still_starting(&servers(8));
        assert!(said.contains("h6 (web) and 2 more are still starting") && said.contains("`heddle logs h1`"), "{said}");
    }
}
