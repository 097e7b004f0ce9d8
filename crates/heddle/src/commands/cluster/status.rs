//! `cluster status`: servers, and the shards in short.

use std::collections::BTreeMap;

use machine::ServerId;
use miette::Report;
use placement::{ShardId, Strategy};
use serde_json::{Value, json};
use store::alarm::Alarms;
use store::status::RaftRole;

use super::access::Access;
use super::view::View;
use super::{alarms, count, disk, shards};
use crate::cli::Format;
use crate::output::{Rows, print_json, put};

/// Shows the servers; with `verbose` all that they say.
pub fn status(access: &Access, format: Format, verbose: bool) -> Result<(), Report> {
    let view = View::take(access)?;
    match format {
        Format::Table => put(&text(access, &view, verbose)),
        Format::Csv => put(&servers(&view).render(format)),
        Format::Json => print_json(&json!({
            "cluster": format!("{:016x}", view.cluster),
            "asked": view.name(view.asked),
            "strategy": strategy(view.map.strategy()),
            "servers": servers(&view).objects(),
            "shards": shards::rows(&view).objects(),
            "stopped": stopped(&view).objects(),
            "rpcs": offers(&view).objects(),
            "counters": counters(&view).objects(),
            "disks": disk::rows(access, &view).objects(),
        })),
    }
}

fn text(access: &Access, view: &View, verbose: bool) -> String {
    let live = view.map.members().keys().filter(|id| view.is_live(**id)).count();
    let mut trouble = String::new();
    for replica in view.stopped.values().flatten() {
        trouble.extend(["STOPPED: ", &replica.reason, "\n"]);
    }
    let said = alarms::ask(access, view);
    for text in alarms::texts(view, &said) {
        trouble.extend([&text, "\n"]);
    }
    let head = format!(
        "Cluster {:016x}: {live} of {} live; strategy {}; {}asked {}\n\n{}\n",
        view.cluster,
        count(view.map.members().len() as u64, "server"),
        strategy(view.map.strategy()),
        protocol(&said),
        view.name(view.asked),
        servers(view).render(Format::Table)
    );
    let tables = if verbose {
        vec![shards::rows(view), disk::rows(access, view), counters(view), offers(view)]
    } else {
        vec![short(view)]
    };
    let tables: Vec<String> = tables.iter().map(|rows| rows.render(Format::Table)).collect();
    let parting = if trouble.is_empty() { "" } else { "\n" };
    head + &tables.join("\n") + parting + &trouble
}

/// The version of the protocol that all servers speak, with a separator.
fn protocol(said: &BTreeMap<ServerId, Result<Alarms, String>>) -> String {
    let newest = said.values().flatten().map(|alarms| alarms.protocol).max();
    newest.map_or_else(String::new, |version| format!("protocol {version}; "))
}

/// One row a replica that has stopped.
fn stopped(view: &View) -> Rows {
    let mut rows = Rows::new(&["server", "shard", "applied", "reason"]);
    for (server, replica) in view.stopped.iter().flat_map(|(id, all)| all.iter().map(move |replica| (*id, replica))) {
        let shard = view.map.shards().get(&replica.shard).map_or("", |shard| shard.name.as_str());
        rows.push([json!(view.name(server)), json!(shard), json!(replica.applied), json!(replica.reason)]);
    }
    rows
}

/// The strategy's word on the command line.
pub fn strategy(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::Single => "single",
        Strategy::Distributed => "distributed",
    }
}

/// One row a server.
fn servers(view: &View) -> Rows {
    let columns = ["id", "name", "address", "live", "role", "leads", "replicas", "round-trip-us", "version"];
    let mut rows = Rows::new(&columns);
    for (id, member) in view.map.members() {
        let status = view.servers.get(id);
        rows.push([
            json!(id.0),
            json!(member.name),
            json!(member.address),
            json!(view.is_live(*id)),
            json!(role(view, *id)),
            json!(view.map.shards().keys().filter(|shard| view.leader(**shard) == Some(*id)).count()),
            json!(status.map(|status| status.groups.len())),
            json!(view.round_trip_us(*id)),
            json!(status.map(|status| &status.version)),
        ]);
    }
    rows
}

/// A server's part in meta, the group that knows where everything is.
fn role(view: &View, server: ServerId) -> Option<&'static str> {
    let own = view.replicas(ShardId::META).find(|(id, _)| *id == server).map(|(_, group)| group.role);
    match own {
        Some(RaftRole::Leader) => Some("leader"),
        Some(RaftRole::Follower) => Some("follower"),
        Some(RaftRole::Learner) => Some("learner"),
        Some(RaftRole::PreCandidate | RaftRole::Candidate) => Some("candidate"),
        None => (view.leader(ShardId::META) == Some(server)).then_some("leader"),
    }
}

/// One row a shard, the columns that matter every day.
fn short(view: &View) -> Rows {
    let mut rows = Rows::new(&["shard", "leader", "voters", "entries", "bytes"]);
    for (id, shard) in view.map.shards() {
        let group = view.group(*id);
        rows.push([
            json!(shard.name),
            json!(view.leader(*id).map(|leader| view.name(leader))),
            json!(group.map(|group| view.names(&group.voters))),
            json!(group.map(|group| group.entries)),
            json!(group.map(|group| group.bytes)),
        ]);
    }
    rows
}

/// One row a server, of what it has done since it started.
fn counters(view: &View) -> Rows {
    let columns = [
        "server",
        "election-timeout-ms",
        "requests",
        "forwarded",
        "proposals",
        "lease-reads",
        "index-reads",
        "stale-reads",
        "elected",
        "log-writes",
        "log-bytes",
        "busy",
        "timeouts",
    ];
    let mut rows = Rows::new(&columns);
    for (id, status) in &view.servers {
        let counters = status.counters;
        rows.push([
            json!(view.name(*id)),
            json!(status.election_timeout_us as f64 / 1_000.0),
            json!(counters.requests),
            json!(counters.forwarded),
            json!(counters.proposals),
            json!(counters.lease_reads),
            json!(counters.index_reads),
            json!(counters.stale_reads),
            json!(counters.elected),
            json!(counters.log_writes),
            json!(counters.log_bytes),
            json!(counters.busy),
            json!(counters.timeouts),
        ]);
    }
    rows
}

/// One row an RPC on offer.
fn offers(view: &View) -> Rows {
    let mut rows = Rows::new(&["rpc", "path", "server"]);
    for (server, offers) in &view.servers[&view.asked].offers {
        for (name, path) in offers {
            rows.push([json!(name), path.as_ref().map_or(Value::Null, |path| json!(path)), json!(view.name(*server))]);
        }
    }
    rows
}
