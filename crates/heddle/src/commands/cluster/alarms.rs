//! `cluster alarms`: what somebody should look at.

use std::collections::BTreeMap;

use machine::ServerId;
use miette::Report;
use placement::ShardId;
use serde_json::json;
use store::alarm::{Alarms, Kind};
use store::protocol::{Admin, Answer, RequestBody};

use super::access::Access;
use super::view::View;
use crate::Ending;
use crate::cli::Format;
use crate::output::{Rows, put};

/// What servers say somebody should look at, by server; all asked at once. Servers of an older release don't answer.
pub fn ask(access: &Access, view: &View) -> BTreeMap<ServerId, Alarms> {
    std::thread::scope(|scope| {
        let ask = |id: ServerId, address: &str| {
            let address = address.to_owned();
            scope.spawn(move || match access.ask_at(&address, RequestBody::Admin(Admin::Alarms)) {
                Some(Answer::Alarms(alarms)) => Some((id, *alarms)),
                _ => None,
            })
        };
        let members = view.map.members().values().filter(|member| view.servers.contains_key(&member.id));
        let threads: Vec<_> = members.map(|member| ask(member.id, &member.address)).collect();
        threads.into_iter().filter_map(|thread| thread.join().expect("a question does not panic")).collect()
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
fn rows(view: &View, said: &BTreeMap<ServerId, Alarms>) -> Vec<Row> {
    // What a server says of itself is one thing for each server.
    let mut found: BTreeMap<(Kind, Option<ShardId>, ServerId), Row> = BTreeMap::new();
    for (id, alarms) in said {
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
    let heard = |id: &ServerId| view.servers.contains_key(id);
    for member in view.map.members().values().filter(|member| !heard(&member.id)) {
        rows.push(Row {
            alarm: "no-answer",
            about: format!("server {}", member.name),
            seen_by: Vec::new(),
            text: format!(
                "{} does not answer this command; hint: is it running, and is it reached from here?",
                member.address
            ),
        });
    }
    rows
}

/// Lists all alarms; [`Ending::Missed`] if there are any.
pub fn list(access: &Access, format: Format) -> Result<Ending, Report> {
    let view = View::take(access)?;
    let said = ask(access, &view);
    for member in view.map.members().values() {
        if view.servers.contains_key(&member.id) && !said.contains_key(&member.id) {
            eprintln!(
                "server {} cannot be asked for alarms: it is of an older release, or you may not ask it",
                member.name
            );
        }
    }
    let found = rows(&view, &said);
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

/// The texts of all alarms, for a status.
pub fn texts(view: &View, said: &BTreeMap<ServerId, Alarms>) -> Vec<String> {
    // The status has the rest already.
    let is_news = |row: &Row| row.alarm != Kind::ReplicaStopped.name() && row.alarm != "no-answer";
    rows(view, said).into_iter().filter(is_news).map(|row| format!("ALARM {}: {}", row.alarm, row.text)).collect()
}
