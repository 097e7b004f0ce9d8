//! Counts who was refused what and why, in a bounded number of counters.

use std::collections::BTreeMap;

use store::protocol::{Answer, Error, Response, ServerMessage};
use store::status::{Health, RefusalCount};

/// Counters that are kept. When there would be more, the one that has counted the least goes.
pub(super) const COUNTERS_MAX: usize = 128;

/// Longest text of each kind, bytes.
const TEXT_BYTES_MAX: usize = 128;

/// The host and the client at the other end of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Caller {
    /// The host that it came from.
    pub host: String,
    /// Who, as far as is known.
    pub client: String,
}

/// What one counter is of: who, what, why.
type Key = (Caller, &'static str, &'static str);

#[derive(Debug)]
struct Counter {
    count: u64,
    /// Of all refusals, which was its last.
    last_number: u64,
    last: String,
}

/// Refusals, counted by host and client.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    counters: BTreeMap<Key, Counter>,
    total: u64,
    /// Refusals of counters that have gone.
    others: u64,
}

impl Refusals {
    /// Counts one refusal.
    pub fn count(&mut self, caller: &Caller, what: &'static str, reason: &'static str, text: &str) {
        self.total += 1;
        let caller = Caller { host: cut(&caller.host), client: cut(&caller.client) };
        let key = (caller, what, reason);
        if self.counters.len() >= COUNTERS_MAX && !self.counters.contains_key(&key) {
            let least = self.counters.iter().min_by_key(|(_, counter)| (counter.count, counter.last_number));
            let least = least.map(|(key, _)| key.clone()).expect("there are some");
            self.others += self.counters.remove(&least).map_or(0, |counter| counter.count);
        }
        let counter = self.counters.entry(key).or_insert(Counter { count: 0, last_number: 0, last: String::new() });
        counter.count += 1;
        counter.last_number = self.total;
        counter.last = cut(text);
    }

    /// The counters, the largest first.
    pub fn counts(&self) -> Vec<RefusalCount> {
        let row = |((caller, what, reason), counter): (&Key, &Counter)| RefusalCount {
            host: caller.host.clone(),
            client: caller.client.clone(),
            what: (*what).to_owned(),
            reason: (*reason).to_owned(),
            count: counter.count,
            last: counter.last.clone(),
        };
        let mut counts: Vec<RefusalCount> = self.counters.iter().map(row).collect();
        counts.sort_by_key(|row| std::cmp::Reverse(row.count));
        counts
    }

    /// A server's answer about itself, with what is counted here and what it does not know of its disk; `None` if it is another message.
    pub fn complete(
        &self,
        message: &ServerMessage,
        disk_trouble: impl FnOnce() -> Option<String>,
    ) -> Option<ServerMessage> {
        let ServerMessage::Response(Response { sequence, leader, result: Ok(Answer::Health(health)) }) = message else {
            return None;
        };
        let mut health: Health = (**health).clone();
        health.disk = health.disk.or_else(disk_trouble);
        (health.refusals, health.other_refusals) = (self.counts(), self.others);
        let result = Ok(Answer::Health(Box::new(health)));
        Some(ServerMessage::Response(Response { sequence: *sequence, leader: leader.clone(), result }))
    }

    /// Refusals of those for whom there is no counter (any more).
    pub const fn others(&self) -> u64 {
        self.others
    }
}

/// At most so much of a text that somebody else chose.
fn cut(text: &str) -> String {
    let end = (0..=TEXT_BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    text[..end].to_owned()
}

/// What an answer that is a refusal is counted as. What the data say, and what came of trying, is none.
pub(super) const fn reason(error: &Error) -> Option<&'static str> {
    match error {
        Error::Invalid(_) | Error::SpansShards(_) => Some("invalid"),
        Error::Busy(_) | Error::Overloaded { .. } => Some("busy"),
        Error::Disk(_) => Some("disk"),
        Error::TooLarge(_) => Some("too large"),
        Error::Denied(_) => Some("denied"),
        Error::Refused(tree::Refusal::Full) => Some("quota"),
        Error::Needed(_) => Some("needed"),
        Error::Refused(_)
        | Error::Timeout { .. }
        | Error::Elsewhere { .. }
        | Error::Rpc(_)
        | Error::Compacted { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(host: &str, client: &str) -> Caller {
        Caller { host: host.to_owned(), client: client.to_owned() }
    }

    #[test]
    fn each_host_and_client_is_counted_for_itself() {
        let mut refusals = Refusals::default();
        let (anna, bert) = (caller("192.0.2.1", "anna"), caller("192.0.2.2", "bert"));
        refusals.count(&anna, "request", "invalid", "first");
        refusals.count(&anna, "request", "invalid", "second");
        refusals.count(&anna, "connection", "too many", "full");
        refusals.count(&bert, "request", "invalid", "third");
        let counts = refusals.counts();
        assert_eq!(counts.len(), 3);
        let first = RefusalCount {
            host: "192.0.2.1".into(),
            client: "anna".into(),
            what: "request".into(),
            reason: "invalid".into(),
            count: 2,
            last: "second".into(),
        };
        assert_eq!(counts[0], first);
    }

    #[test]
    fn there_are_so_many_and_nothing_is_lost() {
        let mut refusals = Refusals::default();
        let often = caller("192.0.2.1", "often");
        for _ in 0..3 {
            refusals.count(&often, "request", "busy", "");
        }
        for number in 0..1_000 {
            refusals.count(&caller("192.0.2.2", &format!("client {number}")), "request", "busy", &"ä".repeat(1_000));
        }
        let counts = refusals.counts();
        assert_eq!((counts.len(), counts[0].client.as_str(), counts[0].count), (COUNTERS_MAX, "often", 3));
        assert_eq!(counts.iter().map(|row| row.count).sum::<u64>() + refusals.others(), 1_003);
        assert!(counts.iter().all(|row| row.last.len() <= TEXT_BYTES_MAX));
    }
}
