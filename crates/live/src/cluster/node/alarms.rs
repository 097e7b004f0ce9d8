//! Alarms in the log of the process: when they begin, and when they are over.

use machine::{ServerId, Time};
use placement::ShardId;
use store::alarm::Kind;

use super::Node;

/// What an alarm is about: its words change all the time.
type Subject = (Kind, Option<ShardId>, Option<ServerId>);

/// Alarms that were noted and are not over.
#[derive(Default)]
pub(super) struct Noted(Vec<Subject>);

impl Node {
    /// Notes what has changed since the last look.
    pub(super) fn note_alarms(&mut self, now: Time) {
        let alarms = self.parts.server.alarms(now).alarms;
        let subject = |alarm: &store::alarm::Alarm| (alarm.kind, alarm.shard, alarm.server);
        for alarm in alarms.iter().filter(|alarm| !self.noted.0.contains(&subject(alarm))) {
            tracing::warn!("alarm {}: {}", alarm.kind.name(), alarm.text);
        }
        let now: Vec<Subject> = alarms.iter().map(subject).collect();
        for (kind, shard, server) in self.noted.0.iter().filter(|subject| !now.contains(subject)) {
            let shard = shard.map_or_else(String::new, |shard| format!(" of shard {shard}"));
            let server = server.map_or_else(String::new, |server| format!(" of server {server}"));
            tracing::info!("alarm {}{shard}{server} is over", kind.name());
        }
        self.noted.0 = now;
    }
}
