//! A line of the audit log.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use machine::ServerId;
use placement::AccessCommand;
use serde_json::{Map, Value, json};
use store::protocol::{Admin, Answer, Error as Refusal, LeaseRequest, Request, RequestBody};
use tree::{Change, Location, Transaction};

/// Characters of an error in its line: what was asked stands beside it.
const ERROR_CHARACTERS_MAX: usize = 400;

/// What an event takes of the memory, beside its texts.
const EVENT_BYTES: usize = 512;

/// The same for each text.
const TEXT_BYTES: usize = 64;

/// What was asked, without any value. Nothing of it is left out, or the last of many paths would be the one to hide: it is as
/// long as the request, about.
#[derive(Clone, Debug)]
pub(super) struct Event {
    time: SystemTime,
    address: String,
    user: Option<String>,
    session: u64,
    sequence: u64,
    operation: &'static str,
    is_read: bool,
    details: Map<String, Value>,
}

impl Event {
    pub fn new(address: &str, user: Option<&str>, request: &Request) -> Self {
        let (operation, is_read, details) = describe(&request.body);
        Self {
            time: SystemTime::now(),
            address: address.to_owned(),
            user: user.map(str::to_owned),
            session: request.session,
            sequence: request.sequence,
            operation,
            is_read,
            details,
        }
    }

    pub fn is_read(&self) -> bool {
        self.is_read
    }

    /// A watch that was asked for with this sequence has been ended.
    pub fn end_of_watch(address: &str, user: Option<&str>, watch: (u64, u64), at: &Location) -> Self {
        let mut details = Map::new();
        with_paths("paths", std::iter::once(at), &mut details);
        let ((session, sequence), operation) = (watch, "end of watch");
        let (time, address, user) = (SystemTime::now(), address.to_owned(), user.map(str::to_owned));
        Self { time, address, user, session, sequence, operation, is_read: true, details }
    }

    /// What it takes of the memory, about.
    pub fn bytes(&self) -> usize {
        EVENT_BYTES + self.details.values().map(value_bytes).sum::<usize>()
    }

    pub fn line(&self, server: ServerId, user: Option<&str>, result: &Result<Answer, Refusal>) -> String {
        let (outcome, error) = match result {
            Ok(_) => ("allowed", None),
            Err(error @ Refusal::Denied(_)) => ("denied", Some(error.to_string())),
            Err(error) => ("failed", Some(error.to_string())),
        };
        // By the map that it was checked by, if that knew the user.
        let mut line = self.begun(server, user.or(self.user.as_deref()));
        if matches!(result, Ok(Answer::Otherwise { .. })) {
            line.insert("carried-out".into(), json!("otherwise"));
        }
        ended(line, outcome, error)
    }

    pub fn unanswered(&self, server: ServerId) -> String {
        let why = "the connection ended before the answer: it may have been done or not".to_owned();
        ended(self.begun(server, self.user.as_deref()), "unknown", Some(why))
    }

    fn begun(&self, server: ServerId, user: Option<&str>) -> Map<String, Value> {
        let mut line = Map::new();
        line.insert("time".into(), json!(rfc3339(self.time)));
        line.insert("server".into(), json!(server.0));
        line.insert("user".into(), json!(user));
        line.insert("address".into(), json!(self.address));
        line.insert("session".into(), json!(format!("{:016x}", self.session)));
        line.insert("sequence".into(), json!(self.sequence));
        line.insert("operation".into(), json!(self.operation));
        line.extend(self.details.clone());
        line
    }
}

fn ended(mut line: Map<String, Value>, outcome: &str, error: Option<String>) -> String {
    line.insert("outcome".into(), json!(outcome));
    if let Some(error) = error {
        line.insert("error".into(), json!(cut(&error, ERROR_CHARACTERS_MAX)));
    }
    finished(line)
}

fn value_bytes(value: &Value) -> usize {
    TEXT_BYTES
        + match value {
            Value::String(text) => text.len(),
            Value::Array(values) => values.iter().map(value_bytes).sum(),
            Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

/// The line of somebody who was not let in, or whose request was not read.
pub(super) fn refused(server: ServerId, address: &str, operation: &str, why: &str) -> String {
    let mut line = Map::new();
    line.insert("time".into(), json!(rfc3339(SystemTime::now())));
    line.insert("server".into(), json!(server.0));
    line.insert("user".into(), Value::Null);
    line.insert("address".into(), json!(address));
    line.insert("operation".into(), json!(operation));
    ended(line, "denied", Some(why.to_owned()))
}

/// One line of ASCII: what is a control character for JSON or for a terminal is escaped.
fn finished(line: Map<String, Value>) -> String {
    let text = Value::Object(line).to_string();
    let mut ascii = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        if character.is_ascii() && character != '\x7f' {
            ascii.push(character);
        } else {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                write!(ascii, "\\u{unit:04x}").expect("a String takes everything");
            }
        }
    }
    ascii.push('\n');
    ascii
}

fn cut(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}

fn at(location: &Location) -> Value {
    json!(format!("{}:{}", location.datastore, location.path))
}

fn with_paths<'a>(name: &str, locations: impl Iterator<Item = &'a Location>, into: &mut Map<String, Value>) {
    let all: Vec<Value> = locations.map(at).collect();
    if !all.is_empty() {
        into.insert(name.to_owned(), all.into());
    }
}

/// Its name, whether it only reads, and what it is about.
fn describe(body: &RequestBody) -> (&'static str, bool, Map<String, Value>) {
    let mut details = Map::new();
    let (operation, is_read) = match body {
        RequestBody::Get { at, .. } | RequestBody::GetAt { at, .. } => {
            with_paths("paths", std::iter::once(at), &mut details);
            ("get", true)
        }
        RequestBody::List { at, .. } | RequestBody::ListAt { at, .. } => {
            with_paths("paths", std::iter::once(at), &mut details);
            ("list", true)
        }
        RequestBody::Watch { at, .. } => {
            with_paths("paths", std::iter::once(at), &mut details);
            ("watch", true)
        }
        RequestBody::Unwatch { watch } => {
            details.insert("watch".into(), json!(watch));
            ("unwatch", true)
        }
        RequestBody::Window { at, .. } => {
            details.insert("path".into(), json!(at.as_str()));
            ("revisions", true)
        }
        RequestBody::Write(transaction) => (describe_write(transaction, &mut details), false),
        RequestBody::WriteOrElse { transaction, otherwise } => {
            let (written, deleted): (Vec<&Change>, Vec<&Change>) =
                otherwise.iter().partition(|change| change.value().is_some());
            with_paths("otherwise", written.iter().map(|change| change.at()), &mut details);
            with_paths("otherwise-deleted", deleted.iter().map(|change| change.at()), &mut details);
            (describe_write(transaction, &mut details), false)
        }
        RequestBody::Lease(lease) => describe_lease(lease, &mut details),
        RequestBody::Offer { offers } => {
            details.insert("rpcs".into(), offers.iter().map(|(name, _)| json!(name)).collect());
            if offers.iter().any(|(_, path)| path.is_some()) {
                // One for each RPC, in their order.
                let paths = offers.iter().map(|(_, path)| json!(path.as_ref().map(tree::Path::as_str)));
                details.insert("paths".into(), paths.collect());
            }
            ("offer", false)
        }
        RequestBody::Call { name, path, .. } => {
            details.insert("rpc".into(), json!(name));
            if let Some(path) = path {
                details.insert("path".into(), json!(path.as_str()));
            }
            ("call", false)
        }
        RequestBody::Admin(admin) => describe_admin(admin, &mut details),
        RequestBody::WhoAmI => ("whoami", true),
    };
    (operation, is_read, details)
}

fn describe_write(transaction: &Transaction, details: &mut Map<String, Value>) -> &'static str {
    let (written, deleted): (Vec<&Change>, Vec<&Change>) =
        transaction.changes.iter().partition(|change| change.value().is_some());
    with_paths("conditions", transaction.conditions.iter().map(|condition| &condition.at), details);
    with_paths("paths", written.iter().map(|change| change.at()), details);
    with_paths("deleted", deleted.iter().map(|change| change.at()), details);
    match (written.is_empty(), deleted.is_empty()) {
        (true, false) => "delete",
        _ => "write",
    }
}

/// That a lease goes on is no change: it is said every few seconds.
fn describe_lease(request: &LeaseRequest, details: &mut Map<String, Value>) -> (&'static str, bool) {
    if let Some(path) = request.path() {
        details.insert("path".into(), json!(path.as_str()));
    }
    let (operation, lease, is_read) = match request {
        LeaseRequest::Grant { lease, .. } => ("grant lease", Some(lease), false),
        LeaseRequest::Revoke { lease, .. } => ("revoke lease", Some(lease), false),
        LeaseRequest::KeepAlive { lease, .. } => ("keep lease alive", Some(lease), true),
        LeaseRequest::Show { lease, .. } => ("show lease", Some(lease), true),
        LeaseRequest::List { .. } => ("list leases", None, true),
    };
    if let Some(lease) = lease {
        details.insert("lease".into(), json!(lease.to_string()));
    }
    (operation, is_read)
}

fn describe_admin(admin: &Admin, details: &mut Map<String, Value>) -> (&'static str, bool) {
    match admin {
        Admin::Status => ("status", true),
        Admin::Access => ("list users", true),
        Admin::Disk => ("disk", true),
        Admin::StoppedReplicas => ("stopped replicas", true),
        Admin::Health => ("health", true),
        Admin::Alarms => ("alarms", true),
        Admin::Defragment => ("defragment", false),
        Admin::Join { name, address, replaces, .. } => {
            details.insert("name".into(), json!(name));
            details.insert("joins-at".into(), json!(address));
            if let Some(old) = replaces {
                details.insert("replaces".into(), json!(old.0));
            }
            ("join", false)
        }
        Admin::Placement(placement::Command::Access { command, .. }) => {
            details.insert("change".into(), json!(access_command(command)));
            ("change users", false)
        }
        Admin::ForceRemove(id) => {
            details.insert("server".into(), json!(id.0));
            ("remove by force", false)
        }
        Admin::Placement(command) => {
            details.insert("change".into(), json!(format!("{command:?}")));
            ("change the map", false)
        }
        Admin::MoveLeader { shard, to } => {
            details.insert("shard".into(), json!(shard.0));
            details.insert("to".into(), json!(to.0));
            ("move leader", false)
        }
        Admin::Backup { shard, .. } | Admin::BackupLasting { shard, .. } => {
            details.insert("shard".into(), json!(shard.0));
            ("backup", false)
        }
    }
}

/// A command in words, without hashes.
fn access_command(command: &AccessCommand) -> String {
    match command {
        AccessCommand::AddRole { role } => format!("add role {role}"),
        AccessCommand::DeleteRole { role } => format!("delete role {role}"),
        AccessCommand::Grant { role, grant } => format!("grant role {role} {:?} on {}", grant.operations, grant.scope),
        AccessCommand::Revoke { role, grant } => {
            format!("revoke {:?} on {} from role {role}", grant.operations, grant.scope)
        }
        AccessCommand::AddUser { user, roles, .. } => format!("add user {user} with roles {roles:?}"),
        AccessCommand::DeleteUser { user } => format!("delete user {user}"),
        AccessCommand::Assign { user, role } => format!("give user {user} the role {role}"),
        AccessCommand::Unassign { user, role } => format!("take the role {role} from user {user}"),
        AccessCommand::SetToken { user, token } => {
            let what = if token.is_some() { "a new token" } else { "no token" };
            format!("give user {user} {what}")
        }
        AccessCommand::Invite { server, .. } => format!("invite server {server}"),
        AccessCommand::Enable => "check users".to_owned(),
        AccessCommand::Disable => "check nobody".to_owned(),
    }
}

/// A time in UTC with microseconds (RFC 3339).
fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Years that begin in March, in eras of 400: a leap day is the last day of its year then.
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_based = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * march_based + 2) / 5 + 1;
    let month = if march_based < 10 { march_based + 3 } else { march_based - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let micros = since.subsec_micros();
    format!("{year:04}-{month:02}-{day_of_month:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let at = |seconds: u64| rfc3339(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000000Z");
        assert_eq!(at(1_795_330_805), "2026-11-22T07:00:05.000000Z");
        assert_eq!(at(4_107_542_399), "2100-02-28T23:59:59.000000Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00.000000Z");
    }

    #[test]
    fn nothing_hides_behind_what_is_long() {
        let roles = (0..200).map(|number| format!("role{number}")).chain(["root".to_owned()]).collect();
        let user = "ann".to_owned();
        let command = AccessCommand::AddUser { user, roles, token: None };
        let command = placement::Command::Access { revision: None, command };
        let body = RequestBody::Admin(Admin::Placement(command));
        let request = Request { session: 1, sequence: 2, acknowledged: 2, timeout_ms: 1, body };
        let event = Event::new("127.0.0.1:1", None, &request);
        let line = event.unanswered(ServerId(1));
        let parsed: Value = serde_json::from_str(&line).unwrap();
        assert!(parsed["change"].as_str().unwrap().contains("\"root\""), "{line}");
        assert!(event.bytes() > 200 * 5);
    }

    #[test]
    fn nothing_breaks_out_of_its_line() {
        let name = "x\n{\"user\":\"root\"}\r\u{1b}[2J\u{9b}\u{2028}\u{1f600}\"\\".to_owned();
        let body = RequestBody::Call { name: name.clone(), path: None, input: b"secret".to_vec(), idempotent: false };
        let request = Request { session: 1, sequence: 2, acknowledged: 2, timeout_ms: 1, body };
        let line = Event::new("127.0.0.1:1", None, &request).line(ServerId(1), None, &Err(Refusal::Rpc(name.clone())));
        assert!(line.ends_with('\n') && line.trim_end().bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{line:?}");
        let parsed: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((parsed["rpc"].as_str(), parsed["error"].as_str()), (Some(&*name), Some(&*name)));
        assert_eq!(parsed["outcome"], "failed");
        assert!(!line.contains("secret"));
    }
}
