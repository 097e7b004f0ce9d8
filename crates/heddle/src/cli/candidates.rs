//! What a shell may complete a name with, besides what the command line itself knows: networks that run, their hosts and nodes, fabric files.

use std::ffi::OsStr;
use std::path::Path;

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter as _};
use fabric::{ChangedPort, LinkChange};
use live::{Instance, Listed, Presence};

use crate::natural;

/// Names of networks that run.
pub fn networks(typed: &OsStr) -> Vec<CompletionCandidate> {
    let names = running().into_iter().map(|network| network.name);
    matching(typed, names)
}

/// Hosts of the networks that run; if `HEDDLE_NETWORK` says which one is meant, of that.
pub fn hosts(typed: &OsStr) -> Vec<CompletionCandidate> {
    let hosts = meant().into_iter().flat_map(|network| match network.presence {
        Presence::Up(status) => status.hosts,
        Presence::Silent { .. } | Presence::Crashed { .. } => Vec::new(),
    });
    matching(typed, hosts)
}

/// The same with switches.
pub fn nodes(typed: &OsStr) -> Vec<CompletionCandidate> {
    let links = meant().into_iter().filter_map(|network| {
        let counters = Instance::connect(&network.name).ok()??.counters().ok()?;
        Some(counters.links.into_iter().flat_map(|link| [link.a, link.b]))
    });
    matching(typed, links.flatten())
}

/// Networks in a word.
pub fn topologies(typed: &OsStr) -> Vec<CompletionCandidate> {
    matching(typed, fabric::topology_words().into_iter())
}

/// Keys of links, with what stands before the value.
pub fn link_keys(typed: &OsStr) -> Vec<CompletionCandidate> {
    let keys = LinkChange::KEYS.iter().map(|(key, _)| format!("{key}="));
    let back = keys.clone().map(|key| format!("back.{key}"));
    // Those of the way back only once somebody begins with them: they would be as many again.
    matching(typed, keys.chain(back.filter(|_| typed.as_encoded_bytes().starts_with(b"b"))))
}

/// Keys of ports and of their links, with what stands before the value.
pub fn port_keys(typed: &OsStr) -> Vec<CompletionCandidate> {
    let links = LinkChange::KEYS.iter().map(|(key, _)| *key);
    matching(typed, ChangedPort::keys().chain(links).map(|key| format!("{key}=")))
}

/// Networks that run, and fabric files.
pub fn networks_and_files(typed: &OsStr) -> Vec<CompletionCandidate> {
    let is_fabric = |path: &Path| {
        let ending = path.extension().and_then(OsStr::to_str);
        ending.is_some_and(|ending| ["yaml", "yml"].contains(&ending))
    };
    let mut candidates = networks(typed);
    candidates.extend(PathCompleter::file().filter(is_fabric).complete(typed));
    candidates
}

fn running() -> Vec<Listed> {
    let all = live::inventory().unwrap_or_default();
    all.into_iter().filter(|network| matches!(network.presence, Presence::Up(_))).collect()
}

fn meant() -> Vec<Listed> {
    let named = std::env::var("HEDDLE_NETWORK").ok().filter(|name| !name.is_empty());
    let is_meant = |network: &Listed| named.as_ref().is_none_or(|name| *name == network.name);
    running().into_iter().filter(is_meant).collect()
}

/// Each of these that begins as what was typed, once.
fn matching(typed: &OsStr, names: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let mut names: Vec<String> = names.filter(|name| name.starts_with(&*typed)).collect();
    names.sort_by(|a, b| natural::compare(a, b));
    names.dedup();
    names.into_iter().map(CompletionCandidate::new).collect()
}
