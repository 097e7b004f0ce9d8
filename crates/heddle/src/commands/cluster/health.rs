//! `cluster check health` and `cluster refusals`: what servers say of themselves.

use std::collections::BTreeMap;

use machine::ServerId;
use miette::Report;
use placement::ShardId;
use serde_json::{Value, json};
use store::alarm::Kind;
use store::status::Health;

use super::access::Access;
use super::check::Verdicts;
use super::view::View;
use super::{alarms, count};
use crate::Ending;
use crate::cli::Format;
use crate::output::{Rows, put};

/// What the servers that could be reached say of themselves, by server; all asked at once.
pub fn ask(access: &Access, view: &View) -> BTreeMap<ServerId, Health> {
    std::thread::scope(|scope| {
        let ask = |id: ServerId, address: &str| {
            let address = address.to_owned();
            scope.spawn(move || Some((id, access.health_at(&address)?)))
        };
        let threads: Vec<_> = view.map.members().values().map(|member| ask(member.id, &member.address)).collect();
        threads.into_iter().filter_map(|thread| thread.join().expect("a question does not panic")).collect()
    })
}

/// Whether the cluster is well.
pub fn check(access: &Access, format: Format) -> Result<Ending, Report> {
    let view = View::take(access)?;
    let health = ask(access, &view);
    let alarms = alarms::ask(access, &view);
    let mut verdicts = Verdicts::default();
    for member in view.map.members().values() {
        let what = format!("server {}", member.name);
        match view.servers.get(&member.id) {
            None => verdicts.judge(false, &what, format!("{} does not answer", member.address)),
            Some(status) => verdicts.judge(true, &what, format!("answers at {}, {}", member.address, status.version)),
        }
        let Some(health) = health.get(&member.id) else { continue };
        let what = format!("disk of {}", member.name);
        match &health.disk {
            Some(reason) => verdicts.judge(false, &what, reason.clone()),
            None => verdicts.judge(true, &what, "takes writes".to_owned()),
        }
        let Some(alarms) = alarms.get(&member.id) else { continue };
        let near = alarms.alarms.iter().find(|alarm| matches!(alarm.kind, Kind::QuotaNear | Kind::QuotaReached));
        let of = alarms.quota_bytes.map_or_else(|| "no quota".to_owned(), |quota| format!("of a quota of {quota}"));
        let detail = near.map_or_else(|| format!("{} bytes, {of}", alarms.content_bytes), |alarm| alarm.text.clone());
        verdicts.judge(near.is_none(), &format!("data of {}", member.name), detail);
    }
    let shards = view.map.shards().values().map(|shard| (shard.id, shard.name.as_str()));
    for (id, name) in std::iter::once((ShardId::META, "meta")).chain(shards.filter(|(id, _)| *id != ShardId::META)) {
        judge_shard(&view, id, name, &mut verdicts);
    }
    verdicts.put(format)
}

fn judge_shard(view: &View, id: ShardId, name: &str, verdicts: &mut Verdicts) {
    let what = format!("shard {name}");
    let Some(leader) = view.leader(id) else {
        return verdicts.judge(false, &what, "has no leader that a server knows".to_owned());
    };
    let live = |voters: &[ServerId]| voters.iter().filter(|id| view.servers.contains_key(id)).count();
    let voters = view.group(id).map(|group| group.voters.clone()).unwrap_or_default();
    let detail = format!("led by {}; {} of {} voters answer", view.name(leader), live(&voters), voters.len());
    verdicts.judge(2 * live(&voters) > voters.len(), &what, detail);
}

/// Lists who was refused what.
pub fn refusals(access: &Access, format: Format) -> Result<(), Report> {
    let view = View::take(access)?;
    let mut rows = Rows::new(&["server", "host", "client", "what", "reason", "count", "last"]);
    let mut others = 0;
    for (id, health) in ask(access, &view) {
        others += health.other_refusals;
        for row in health.refusals {
            let texts = [row.host, row.client, row.what, row.reason].map(Value::from);
            let [host, client, what, reason] = texts;
            rows.push([view.name(id).into(), host, client, what, reason, json!(row.count), row.last.into()]);
        }
    }
    if others > 0 {
        eprintln!("{} of others for whom the servers have no room are not listed", count(others, "refusal"));
    }
    put(&rows.render(format))
}
