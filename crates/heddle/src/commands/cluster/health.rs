//! `cluster check health` and `cluster refusals`: what servers say of themselves.

use std::collections::BTreeMap;

use machine::ServerId;
use miette::Report;
use placement::ShardId;
use serde_json::{Value, json};
use store::alarm::Kind;
use store::protocol::{Admin, Answer};
use store::status::Health;

use super::access::Access;
use super::check::Verdicts;
use super::view::View;
use super::{alarms, count};
use crate::Ending;
use crate::cli::Format;
use crate::output::{Rows, put};

/// How the servers that are up say that they are; of those that do not say it, why.
pub fn ask(access: &Access, view: &View) -> BTreeMap<ServerId, Result<Health, String>> {
    access.ask_each(view.up(), &Admin::Health, |answer| match answer {
        Answer::Health(health) => Some(*health),
        _ => None,
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
        let what = format!("disk of {}", member.name);
        match health.get(&member.id) {
            Some(Ok(Health { disk: None, .. })) => verdicts.judge(true, &what, "takes writes".to_owned()),
            Some(Ok(Health { disk: Some(reason), .. })) => verdicts.judge(false, &what, reason.clone()),
            Some(Err(reason)) => verdicts.judge(false, &what, format!("it does not say: {reason}")),
            None => continue,
        }
        let what = format!("data of {}", member.name);
        let alarms = match alarms.get(&member.id) {
            Some(Ok(alarms)) => alarms,
            Some(Err(reason)) => {
                verdicts.judge(false, &what, format!("it does not say: {reason}"));
                continue;
            }
            None => continue,
        };
        let near = alarms.alarms.iter().find(|alarm| matches!(alarm.kind, Kind::QuotaNear | Kind::QuotaReached));
        let of = alarms.quota_bytes.map_or_else(|| "no quota".to_owned(), |quota| format!("of a quota of {quota}"));
        let detail = near.map_or_else(|| format!("{} bytes, {of}", alarms.content_bytes), |alarm| alarm.text.clone());
        verdicts.judge(near.is_none(), &what, detail);
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
        let health = match health {
            Ok(health) => health,
            Err(reason) => {
                eprintln!("server {} does not say whom it has refused: {reason}", view.name(id));
                continue;
            }
        };
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
