//! Alarms in the log of the process: when they begin, and when they are over.

use machine::ServerId;
use placement::{Map, ShardId};
use store::alarm::{Alarm, Kind};

/// What an alarm is about: its words change all the time.
type Subject = (Kind, Option<ShardId>, Option<ServerId>);

/// What was there at the last look, and what of it was noted.
#[derive(Default)]
pub(super) struct Noted(Vec<(Subject, bool)>);

impl Noted {
    /// Notes what has changed. What is there at one look and not at the next, as an election, is no news.
    pub fn note(&mut self, alarms: &[Alarm], map: &Map) {
        let last = std::mem::take(&mut self.0);
        for alarm in alarms {
            let subject = subject(alarm);
            let before = last.iter().find(|(it, _)| *it == subject);
            if before.is_some_and(|(_, is_noted)| !is_noted) {
                tracing::warn!("alarm {}: {}", alarm.kind.name(), alarm.text);
            }
            self.0.push((subject, before.is_some()));
        }
        for ((kind, shard, server), is_noted) in last {
            if !is_noted || alarms.iter().any(|alarm| subject(alarm) == (kind, shard, server)) {
                continue;
            }
            let shard = shard.and_then(|id| map.shards().get(&id)).map(|shard| format!(" of shard {}", shard.name));
            let server =
                server.and_then(|id| map.members().get(&id)).map(|member| format!(" of server {}", member.name));
            let about = shard.or(server).unwrap_or_default();
            tracing::info!("alarm {}{about} is over", kind.name());
        }
    }
}

fn subject(alarm: &Alarm) -> Subject {
    (alarm.kind, alarm.shard, alarm.server)
}
