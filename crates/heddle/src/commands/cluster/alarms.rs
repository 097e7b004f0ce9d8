//! `cluster alarms`: what somebody should look at.

use std::collections::BTreeMap;

use machine::ServerId;
use miette::Report;
use placement::ShardId;
use serde_json::json;
use store::alarm::{Alarms, Kind, size_text};
use store::protocol::{Admin, Answer};

use super::access::Access;
use super::view::View;
use crate::Ending;
use crate::cli::Format;
use crate::output::{Rows, put};

/// A server is down, or not reached.
const NO_ANSWER: &str = "no-answer";

/// A server is up and does not say.
const NOT_ASKED: &str = "not-asked";

/// Servers that have different quotas.
const QUOTAS_DIFFER: &str = "quotas-differ";

/// What the servers that are up say somebody should look at; of those that do not say it, why.
pub fn ask(access: &Access, view: &View) -> BTreeMap<ServerId, Result<Alarms, String>> {
    access.ask_each(view.up(), &Admin::Alarms, |answer| match answer {
        Answer::Alarms(alarms) => Some(*alarms),
        _ => None,
    })
}

/// Something is wrong, say some servers.
struct Row {
    alarm: &'static str,
    about: String,
    seen_by: Vec<String>,
    text: String,
}

/// One row for each thing, however many servers say so.
fn rows(view: &View, said: &BTreeMap<ServerId, Result<Alarms, String>>) -> Vec<Row> {
    // What a server says of itself is one thing for each server.
    let mut found: BTreeMap<(Kind, Option<ShardId>, ServerId), Row> = BTreeMap::new();
    for (id, alarms) in said.iter().filter_map(|(id, alarms)| Some((id, alarms.as_ref().ok()?))) {
        for alarm in &alarms.alarms {
            let shard =
                |shard: ShardId| view.map.shards().get(&shard).map_or_else(|| shard.to_string(), |it| it.name.clone());
            let (subject, about) = match (alarm.kind, alarm.shard, alarm.server) {
                (Kind::NoLeader, Some(of), _) => (ServerId(0), format!("shard {}", shard(of))),
                (_, _, Some(server)) => (server, format!("server {}", view.name(server))),
                (_, Some(of), None) => (*id, format!("shard {} on server {}", shard(of), view.name(*id))),
                (_, None, None) => (*id, format!("server {}", view.name(*id))),
            };
            let row = Row { alarm: alarm.kind.name(), about, seen_by: Vec::new(), text: alarm.text.clone() };
            found.entry((alarm.kind, alarm.shard, subject)).or_insert(row).seen_by.push(view.name(*id));
        }
    }
    let mut rows: Vec<Row> = found.into_values().collect();
    for member in view.map.members().values() {
        let (alarm, text) = match said.get(&member.id) {
            Some(Ok(_)) => continue,
            Some(Err(reason)) => (NOT_ASKED, format!("it does not say whether it has alarms: {reason}")),
            None => (
                NO_ANSWER,
                format!(
                    "{} does not answer this command; hint: is it running, and is it reached from here?",
                    member.address
                ),
            ),
        };
        rows.push(Row { alarm, about: format!("server {}", member.name), seen_by: Vec::new(), text });
    }
    rows.extend(different_quotas(view, said));
    rows
}

/// A shard takes what the quota of its leader's server lets in: with different quotas that changes with each leader, and the server
/// with the smallest one gets more than it is to hold.
fn different_quotas(view: &View, said: &BTreeMap<ServerId, Result<Alarms, String>>) -> Option<Row> {
    let mut servers: BTreeMap<Option<u64>, Vec<String>> = BTreeMap::new();
    for (id, alarms) in said.iter().filter_map(|(id, alarms)| Some((id, alarms.as_ref().ok()?))) {
        servers.entry(alarms.quota_bytes).or_default().push(view.name(*id));
    }
    if servers.len() < 2 {
        return None;
    }
    let quota = |(quota, names): (Option<u64>, Vec<String>)| {
        format!("{} of {}", quota.map_or_else(|| "none".to_owned(), size_text), names.join(", "))
    };
    let quotas: Vec<String> = servers.into_iter().map(quota).collect();
    let text = format!(
        "the servers have different quotas on data: {}; what is refused depends on who leads; hint: start all of them with the same --quota",
        quotas.join("; ")
    );
    Some(Row { alarm: QUOTAS_DIFFER, about: "cluster".to_owned(), seen_by: Vec::new(), text })
}

/// Lists all alarms; [`Ending::Missed`] if there are any.
pub fn list(access: &Access, format: Format) -> Result<Ending, Report> {
    let view = View::take(access)?;
    let found = rows(&view, &ask(access, &view));
    let mut table = Rows::new(&["alarm", "about", "seen-by", "text"]);
    for row in &found {
        table.push([json!(row.alarm), json!(row.about), json!(row.seen_by.join(", ")), json!(row.text)]);
    }
    if found.is_empty() && format == Format::Table {
        put("No alarms.\n")?;
    } else {
        put(&table.render(format))?;
    }
    Ok(if found.is_empty() { Ending::Passed } else { Ending::Missed })
}

/// The texts of all alarms, for a status, which says by itself who does not answer and what has stopped.
pub fn texts(view: &View, said: &BTreeMap<ServerId, Result<Alarms, String>>) -> Vec<String> {
    let is_news = |row: &Row| ![Kind::ReplicaStopped.name(), NO_ANSWER, NOT_ASKED].contains(&row.alarm);
    rows(view, said).into_iter().filter(is_news).map(|row| format!("ALARM {}: {}", row.alarm, row.text)).collect()
}
