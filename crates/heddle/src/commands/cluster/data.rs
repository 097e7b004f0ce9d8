//! `cluster get`, `list`, `put`, `delete`, `call`: data, and programs that serve it.

use std::io::{IsTerminal, Read, Write};

use miette::{Context, IntoDiagnostic, Report, miette};
use node::Error;
use placement::{Map, ShardId};
use serde_json::{Value, json};
use store::protocol::{Answer, Consistency, LIST_MAX, RequestBody};
use store::status::Status;
use tree::transaction::MAX_VALUE_BYTES;
use tree::{Change, Entry, Expect, LeaseId, Location, Path, Refusal, Transaction};

use super::access::Access;
use super::backup::{read_shard, same_places};
use super::print_outcome;
use crate::Ending;
use crate::cli::Format;
use crate::cli::actions::{Call, Freshness, LocationArgs};
use crate::output::{Rows, print_json, put};

/// In a table, longer values are cut.
const SHOWN_CHARACTERS: usize = 60;

/// On what a write depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    None,
    Create,
    Replace,
    Etag(u64),
}

impl Condition {
    /// From the options, of which one is given at most.
    pub fn of(create: bool, replace: bool, etag: Option<u64>) -> Self {
        match (create, replace, etag) {
            (true, ..) => Self::Create,
            (_, true, _) => Self::Replace,
            (.., Some(etag)) => Self::Etag(etag),
            (.., None) => Self::None,
        }
    }
}

fn consistency(freshness: Freshness) -> Consistency {
    if freshness.stale { Consistency::Stale } else { Consistency::Linearizable }
}

/// Prints a value.
pub fn get(
    access: &Access,
    at: &LocationArgs,
    freshness: Freshness,
    revision: Option<u64>,
    format: Format,
) -> Result<Ending, Report> {
    let location = at.location();
    let consistency = consistency(freshness);
    let body = match revision {
        None => RequestBody::Get { at: location.clone(), consistency },
        Some(revision) => RequestBody::GetAt { at: location.clone(), revision, consistency },
    };
    let Answer::Value(found) = access.ask(body)? else { unreachable!("a value was asked for") };
    let Some((etag, value)) = found else {
        eprintln!("{}", absent(&location));
        return Ok(Ending::Missed);
    };
    match format {
        Format::Table => put_bytes(&value)?,
        Format::Json => print_json(&object(&location.path, Some(etag), Some(&value)))?,
        Format::Csv => put(&rows_of([(location.path, etag, value)], usize::MAX).render(format))?,
    }
    Ok(Ending::Passed)
}

/// Lists what is at and below a path.
pub fn list(
    access: &Access,
    at: &LocationArgs,
    freshness: Freshness,
    limit: Option<u32>,
    revision: Option<u64>,
    format: Format,
) -> Result<(), Report> {
    let (found, more) = match access.try_status() {
        // Revisions are of one shard each.
        Ok(Status { map, .. }) if map.shards_under(&at.path).len() > 1 && revision.is_none() => {
            across(access, &at.location(), &map.shards_under(&at.path), &map, limit)?
        }
        // A user who may not see the shards may read what is in one of them.
        Ok(_) | Err(Error::Request(store::protocol::Error::Denied(_))) => {
            within(access, &at.location(), consistency(freshness), limit, revision)?
        }
        Err(error) => return Err(access.explain(error)),
    };
    if more && format == Format::Table {
        eprintln!("There are more");
    }
    match format {
        Format::Table => put(&rows_of(found, SHOWN_CHARACTERS).render(format)),
        Format::Csv => put(&rows_of(found, usize::MAX).render(format)),
        Format::Json => {
            let objects: Vec<_> =
                found.iter().map(|(path, etag, value)| object(path, Some(*etag), Some(value))).collect();
            print_json(&objects)
        }
    }
}

/// Path, entity tag and value.
type ListedEntry = (Path, u64, Vec<u8>);

/// What is at and below a location of one shard, and whether there is more than the limit.
fn within(
    access: &Access,
    at: &Location,
    consistency: Consistency,
    limit: Option<u32>,
    revision: Option<u64>,
) -> Result<(Vec<ListedEntry>, bool), Report> {
    let mut found: Vec<ListedEntry> = Vec::new();
    let mut after = None;
    loop {
        let left = limit.map_or(LIST_MAX, |limit| limit - found.len() as u32).min(LIST_MAX);
        let at = at.clone();
        let body = match revision {
            None => RequestBody::List { at, after, limit: left, consistency },
            Some(revision) => RequestBody::ListAt { at, after, limit: left, revision, consistency },
        };
        let Answer::Values { entries, more } = access.ask(body)? else { unreachable!("a list was asked for") };
        found.extend(entries);
        after = found.last().map(|(path, ..)| path.clone());
        let is_enough = limit.is_some_and(|limit| found.len() >= limit as usize);
        if !more || is_enough || after.is_none() {
            return Ok((found, more));
        }
    }
}

/// The same where several shards have a part of it. Each is read as it is at one moment.
fn across(
    access: &Access,
    at: &Location,
    shards: &[ShardId],
    map: &Map,
    limit: Option<u32>,
) -> Result<(Vec<ListedEntry>, bool), Report> {
    let mut found: Vec<ListedEntry> = Vec::new();
    for shard in shards {
        read_shard(access, *shard, |entries| {
            let wanted = entries.into_iter().filter(|entry| at.contains(&entry.at));
            found.extend(wanted.map(|Entry { at, value }| (at.path, value.etag, value.bytes.to_vec())));
            true
        })?;
    }
    if !same_places(map, &access.status()?.map) {
        return Err(miette!(help = "list it again", "data has been moved from one shard to another meanwhile"));
    }
    found.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    let more = limit.is_some_and(|limit| found.len() > limit as usize);
    found.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
    Ok((found, more))
}

/// Says which revisions can be read.
pub fn revisions(access: &Access, path: &Path, format: Format) -> Result<(), Report> {
    let body = RequestBody::Window { at: path.clone(), consistency: Consistency::Linearizable };
    let Answer::Window { shard, oldest, newest } = access.ask(body)? else { unreachable!("a window was asked for") };
    let data = [("shard", json!(shard.0)), ("oldest", json!(oldest)), ("newest", json!(newest))];
    print_outcome(format, &format!("revisions {oldest} to {newest} of shard {shard}"), data)
}

fn rows_of(found: impl IntoIterator<Item = ListedEntry>, characters: usize) -> Rows {
    let mut rows = Rows::new(&["path", "etag", "value"]);
    for (path, etag, value) in found {
        rows.push([json!(path.as_str()), json!(etag), json!(shown(&value, characters))]);
    }
    rows
}

/// An object of JSON.
type Object = serde_json::Map<String, Value>;

/// A value as an object: as text if it is text, else in hexadecimal.
pub fn object(path: &Path, etag: Option<u64>, value: Option<&[u8]>) -> Object {
    let mut object = Object::new();
    object.insert("path".into(), json!(path.as_str()));
    if let Some(etag) = etag {
        object.insert("etag".into(), json!(etag));
    }
    if let Some(value) = value {
        let (name, value) = text_or_hex("value", value);
        object.insert(name, value);
    }
    object
}

pub fn text_or_hex(name: &str, bytes: &[u8]) -> (String, Value) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return (name.to_owned(), json!(text));
    }
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    (format!("{name}-hex"), json!(digits.concat()))
}

/// A value on one line: text as it is, other bytes escaped, no longer than so many characters.
pub fn shown(value: &[u8], characters: usize) -> String {
    let text = match std::str::from_utf8(value) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => value.escape_ascii().to_string(),
    };
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Writes bytes as they are; only a person's terminal gets a line break.
fn put_bytes(bytes: &[u8]) -> Result<(), Report> {
    let mut stdout = std::io::stdout().lock();
    let newline: &[u8] = if stdout.is_terminal() && !bytes.ends_with(b"\n") { b"\n" } else { b"" };
    match stdout.write_all(bytes).and_then(|()| stdout.write_all(newline)).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        outcome => outcome.into_diagnostic().wrap_err("cannot write to standard output"),
    }
}

/// What was given on the command line, or comes from standard input.
pub fn input(text: &str) -> Result<Vec<u8>, Report> {
    if text != "-" {
        return Ok(text.as_bytes().to_vec());
    }
    let mut bytes = Vec::new();
    let most = MAX_VALUE_BYTES as u64;
    let outcome = std::io::stdin().take(most + 1).read_to_end(&mut bytes);
    outcome.into_diagnostic().wrap_err("cannot read standard input")?;
    if bytes.len() as u64 > most {
        return Err(miette!("standard input has more than {most} bytes, which is the most that a value can have"));
    }
    Ok(bytes)
}

/// Writes a value.
pub fn put_value(
    access: &Access,
    at: &LocationArgs,
    value: &str,
    condition: Condition,
    lease: Option<LeaseId>,
    format: Format,
) -> Result<Ending, Report> {
    let at = at.location();
    let value = input(value)?.into();
    let put = |value| match lease {
        None => Change::Put { at: at.clone(), value },
        Some(lease) => Change::PutWithLease { at: at.clone(), value, lease },
    };
    let transaction = match condition {
        Condition::Create if lease.is_some() => {
            let condition = tree::Condition { at: at.clone(), expect: Expect::Absent };
            Transaction { conditions: vec![condition], changes: vec![put(value)] }
        }
        Condition::None => Transaction::of(put(value)),
        Condition::Create => Transaction::of(Change::Create { at: at.clone(), value }),
        Condition::Replace => Transaction::of(Change::Replace { at: at.clone(), value }),
        Condition::Etag(etag) => if_etag(&at, etag, put(value)),
    };
    write(access, transaction, &at, format)
}

/// Takes values away.
pub fn delete(
    access: &Access,
    at: &LocationArgs,
    recursive: bool,
    etag: Option<u64>,
    format: Format,
) -> Result<Ending, Report> {
    let at = at.location();
    if at.path.is_root() && !recursive {
        return Err(miette!(help = "--recursive, if that is what you want", "{} is all data of the cluster", at.path));
    }
    let change = Change::Delete { at: at.clone() };
    let transaction = match etag {
        None => Transaction::of(change),
        Some(etag) => if_etag(&at, etag, change),
    };
    write(access, transaction, &at, format)
}

fn if_etag(at: &Location, etag: u64, change: Change) -> Transaction {
    let condition = tree::Condition { at: at.clone(), expect: Expect::Etag(etag) };
    Transaction { conditions: vec![condition], changes: vec![change] }
}

/// Writes. What the data refuse is an answer, not a failure.
fn write(access: &Access, transaction: Transaction, at: &Location, format: Format) -> Result<Ending, Report> {
    let wrote = transaction.changes.iter().any(|change| change.value().is_some());
    match access.try_ask(RequestBody::Write(transaction)) {
        Ok(Answer::Written { revision }) => {
            let path = json!(at.path.as_str());
            if wrote {
                print_outcome(format, &format!("etag {revision}"), [("path", path), ("etag", json!(revision))])?;
            } else {
                print_outcome(
                    format,
                    &format!("revision {revision}"),
                    [("path", path), ("revision", json!(revision))],
                )?;
            }
            Ok(Ending::Passed)
        }
        Ok(other) => unreachable!("a write is not answered by {other:?}"),
        Err(Error::Request(store::protocol::Error::Refused(refusal))) if is_no(&refusal) => {
            eprintln!("{}", said(&refusal, at));
            Ok(Ending::Missed)
        }
        Err(error) => Err(access.explain(error)),
    }
}

/// Whether the data say no, as conditions of the command line have them do.
pub fn is_no(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::ConditionFailed { .. } | Refusal::Exists { .. } | Refusal::Missing { .. })
}

/// That a location has no value, and what shows those that there are.
fn absent(Location { datastore, path }: &Location) -> String {
    let what = format!("There is no value at {path} in the datastore `{datastore}`");
    match path.module() {
        Some(module) => format!("{what}; `heddle cluster list /{module}:` shows those of `{module}`"),
        None => format!("{what}; `heddle cluster list /` shows all"),
    }
}

fn said(refusal: &Refusal, at: &Location) -> String {
    match refusal {
        Refusal::ConditionFailed { actual: Some(actual), .. } => format!("The value at {at} has entity tag {actual}"),
        Refusal::ConditionFailed { actual: None, .. } | Refusal::Missing { .. } => absent(at),
        _ => format!("There is a value at {at} already"),
    }
}

/// Calls an RPC.
pub fn call(access: &Access, call: &Call, format: Format) -> Result<(), Report> {
    let body = RequestBody::Call {
        name: call.rpc.clone(),
        path: call.path.clone(),
        input: call.input.as_deref().map_or_else(|| Ok(Vec::new()), input)?,
        idempotent: call.idempotent,
    };
    let Answer::Output(output) = access.ask(body)? else { unreachable!("an RPC was called") };
    match format {
        Format::Table => put_bytes(&output),
        Format::Json => print_json(&Object::from_iter([text_or_hex("output", &output)])),
        Format::Csv => {
            let mut rows = Rows::new(&["output"]);
            rows.push([json!(shown(&output, usize::MAX))]);
            put(&rows.render(format))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_on_one_line() {
        assert_eq!(shown(b"red", 60), "red");
        assert_eq!(shown("größer".as_bytes(), 60), "größer");
        assert_eq!(shown("größer".as_bytes(), 3), "grö...");
        assert_eq!(shown(b"a\nb", 60), "a\\nb");
        assert_eq!(shown(&[0xff, 0], 60), "\\xff\\x00");
    }

    #[test]
    fn objects_hold_text_or_hexadecimal() {
        let path = Path::parse("/car:cars").unwrap();
        assert_eq!(
            Value::Object(object(&path, Some(3), Some(b"red"))),
            json!({"path": "/car:cars", "etag": 3, "value": "red"})
        );
        assert_eq!(Value::Object(object(&path, None, Some(&[0xff]))), json!({"path": "/car:cars", "value-hex": "ff"}));
    }
}
