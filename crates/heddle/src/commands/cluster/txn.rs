//! `cluster txn`: several changes of one shard at once, if conditions hold, from text.

use std::fmt::Write as _;
use std::io::Read;

use miette::{Context, IntoDiagnostic, Report, miette};
use node::Error;
use serde_json::{Value, json};
use store::protocol::{Answer, Consistency, RequestBody};
use tree::{Change, Condition, Datastore, Expect, LeaseId, Location, Path, Refusal, Transaction};

use super::access::Access;
use super::data::{is_no, object, shown};
use crate::Ending;
use crate::cli::Format;
use crate::cli::recipes::Txn;
use crate::output::{print_json, put};

/// The most that is read: more than any transaction may have.
const TEXT_MAX: u64 = 64 << 20;

/// A branch: what is written, and what is read of what that left.
#[derive(Debug, Default, PartialEq)]
struct Branch {
    changes: Vec<Change>,
    reads: Vec<Location>,
}

/// A transaction as it stands in the text.
#[derive(Debug, Default, PartialEq)]
struct Script {
    conditions: Vec<Condition>,
    then: Branch,
    otherwise: Option<Branch>,
}

/// Carries a transaction out.
pub fn txn(access: &Access, args: &Txn, format: Format) -> Result<Ending, Report> {
    let name = args.file.display().to_string();
    let mut text = String::new();
    let read = if name == "-" {
        std::io::stdin().take(TEXT_MAX).read_to_string(&mut text)
    } else {
        std::fs::File::open(&args.file).and_then(|file| file.take(TEXT_MAX).read_to_string(&mut text))
    };
    let name = if name == "-" { "standard input".to_owned() } else { name };
    read.into_diagnostic().wrap_err_with(|| format!("cannot read {name}"))?;
    let script = parse(&text).map_err(|(line, reason)| {
        miette!(help = "`heddle cluster txn --help` shows all that can be said", "{name}, line {line}: {reason}")
    })?;
    carry_out(access, script, format)
}

fn carry_out(access: &Access, script: Script, format: Format) -> Result<Ending, Report> {
    let Script { conditions, then, otherwise } = script;
    let transaction = Transaction { conditions, changes: then.changes };
    let conditions: Vec<Location> = transaction.conditions.iter().map(|condition| condition.at.clone()).collect();
    // What is only read has to be of the shard that is asked for its revision.
    let anchor = then.reads.first().or(otherwise.as_ref().and_then(|branch| branch.reads.first())).cloned();
    let has_else = otherwise.is_some();
    let (other_changes, other_reads) = otherwise.map_or_else(Default::default, |it| (it.changes, it.reads));
    let body = if has_else {
        RequestBody::WriteOrElse { transaction, otherwise: other_changes }
    } else {
        RequestBody::Write(transaction)
    };
    let answer = if is_empty(&body) { read_only(access, anchor)? } else { access.try_ask(body) };
    let (held, revision, reads, failed) = match answer {
        Ok(Answer::Written { revision }) => (true, revision, then.reads, None),
        Ok(Answer::Otherwise { revision, condition, actual }) => {
            (false, revision, other_reads, Some((condition, actual)))
        }
        Err(Error::Request(store::protocol::Error::Refused(refusal))) if is_no(&refusal) => {
            let failed = if let Refusal::ConditionFailed { index, .. } = &refusal { Some(*index) } else { None };
            match failed.and_then(|index| conditions.get(index as usize)) {
                Some(at) => eprintln!("{}: {refusal}", at.path),
                None => eprintln!("{refusal}"),
            }
            return Ok(Ending::Missed);
        }
        Err(error) => return Err(access.explain(error)),
        Ok(other) => unreachable!("a transaction is not answered by {other:?}"),
    };
    let mut found = Vec::new();
    for at in reads {
        let body = RequestBody::GetAt { at: at.clone(), revision, consistency: Consistency::Linearizable };
        let Answer::Value(value) = access.ask(body)? else { unreachable!("a value was asked for") };
        found.push((at.path, value));
    }
    print(held, revision, failed, &found, format)?;
    Ok(if held { Ending::Passed } else { Ending::Missed })
}

fn is_empty(body: &RequestBody) -> bool {
    matches!(body, RequestBody::Write(transaction) if transaction.locations().next().is_none())
}

/// A transaction that only reads is of the newest revision.
fn read_only(access: &Access, anchor: Option<Location>) -> Result<Result<Answer, Error>, Report> {
    let Some(at) = anchor else {
        return Err(miette!(help = "say what to change under `then`", "the transaction says nothing"));
    };
    let body = RequestBody::Window { at: at.path, consistency: Consistency::Linearizable };
    let Answer::Window { newest, .. } = access.ask(body)? else { unreachable!("a window was asked for") };
    Ok(Ok(Answer::Written { revision: newest }))
}

/// A path, with the entity tag and the bytes of what is there.
type ReadEntry = (Path, Option<(u64, Vec<u8>)>);

fn print(
    held: bool,
    revision: u64,
    failed: Option<(u32, Option<u64>)>,
    found: &[ReadEntry],
    format: Format,
) -> Result<(), Report> {
    let branch = if held { "then" } else { "else" };
    if format == Format::Json {
        let values: Vec<Value> = (found.iter())
            .map(|(path, value)| {
                let (etag, bytes) = value.as_ref().map(|(etag, bytes)| (*etag, bytes.as_slice())).unzip();
                Value::Object(object(path, etag, bytes))
            })
            .collect();
        let mut data = json!({"branch": branch, "revision": revision, "values": values});
        if let Some((condition, actual)) = failed {
            data["failed"] = json!({"condition": condition, "etag": actual});
        }
        return print_json(&data);
    }
    if format == Format::Csv {
        let mut text = "branch,revision,path,etag,value\n".to_owned();
        if found.is_empty() {
            let _ = writeln!(text, "{branch},{revision},,,");
        }
        for (path, value) in found {
            let (etag, bytes) = value.as_ref().map_or((String::new(), String::new()), |(etag, bytes)| {
                (etag.to_string(), lab::quoted(&shown(bytes, usize::MAX)))
            });
            let _ = writeln!(text, "{branch},{revision},{},{etag},{bytes}", lab::quoted(path.as_str()));
        }
        return put(&text);
    }
    let mut text = format!("{branch}: revision {revision}\n");
    for (path, value) in found {
        let value = value.as_ref().map_or_else(|| "(nothing)".into(), |(_, bytes)| shown(bytes, usize::MAX));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{path} {value}");
    }
    put(&text)
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Section {
    Start,
    If,
    Then,
    Else,
}

/// Reads the text; an error has its line, from 1.
fn parse(text: &str) -> Result<Script, (usize, String)> {
    let mut script = Script::default();
    let mut section = Section::Start;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let next = match line {
            "if" => Some(Section::If),
            "then" => Some(Section::Then),
            "else" => Some(Section::Else),
            _ => None,
        };
        let at_line = |reason: String| (number, reason);
        match (next, section) {
            (Some(next), _) if next > section && (next != Section::Else || section == Section::Then) => {
                section = next;
                if next == Section::Else {
                    script.otherwise = Some(Branch::default());
                }
            }
            (Some(_), _) => return Err(at_line(format!("`{line}` stands once, in the order if, then, else"))),
            (None, Section::Start) => return Err(at_line(format!("expected `if` or `then`, found `{line}`"))),
            (None, Section::If) => script.conditions.push(condition(line).map_err(at_line)?),
            (None, Section::Then) => step(line, &mut script.then).map_err(at_line)?,
            (None, Section::Else) => {
                step(line, script.otherwise.get_or_insert_default()).map_err(at_line)?;
            }
        }
    }
    Ok(script)
}

/// A word and what follows it.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_once(char::is_whitespace).map_or((text, ""), |(word, rest)| (word, rest.trim_start()))
}

/// `[--datastore NAME] PATH`, and what follows.
fn location(text: &str) -> Result<(Location, &str), String> {
    let (mut first, mut rest) = word(text);
    let mut datastore = Datastore::Config;
    if first == "--datastore" {
        let (name, behind) = word(rest);
        datastore = match name {
            "config" => Datastore::Config,
            "operational" => Datastore::Operational,
            _ => return Err(format!("expected `config` or `operational`, found `{name}`")),
        };
        (first, rest) = word(behind);
    }
    if first.is_empty() {
        return Err("expected a path, as in /car:cars/car-entry=17".into());
    }
    let path = Path::parse(first).map_err(|error| error.to_string())?;
    Ok((Location { datastore, path }, rest))
}

/// The rest of a line, or a string as in JSON.
fn value(text: &str) -> Result<tree::Bytes, String> {
    if !text.starts_with('"') {
        return Ok(text.into());
    }
    let string: String = serde_json::from_str(text)
        .map_err(|error| format!("a value that begins with a quotation mark is a string as in JSON: {error}"))?;
    Ok(string.as_str().into())
}

fn condition(line: &str) -> Result<Condition, String> {
    let (at, rest) = location(line)?;
    let (what, rest) = word(rest);
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("expected an entity tag, found `{text}`"));
    let expect = match (what, word(rest)) {
        ("is", ("absent", "")) => Expect::Absent,
        ("is", ("present", "")) => Expect::Present,
        ("=", _) => Expect::Value(value(rest)?),
        ("!=", _) => Expect::NotValue(value(rest)?),
        ("etag", ("=", tag)) => Expect::Etag(number(tag)?),
        ("etag", ("!=", tag)) => Expect::NotEtag(number(tag)?),
        ("etag", ("<", tag)) => Expect::EtagBelow(number(tag)?),
        ("etag", (">", tag)) => Expect::EtagAbove(number(tag)?),
        _ => {
            let found = format!("{what} {rest}");
            return Err(format!(
                "expected `is absent`, `is present`, `= VALUE`, `!= VALUE`, or `etag` with =, !=, < or > and a number, found `{}`",
                found.trim()
            ));
        }
    };
    Ok(Condition { at, expect })
}

fn step(line: &str, branch: &mut Branch) -> Result<(), String> {
    let (verb, mut rest) = word(line);
    let mut lease = None;
    if let ("--lease", behind) = word(rest) {
        let (number, behind) = word(behind);
        lease = Some(number.parse::<LeaseId>()?);
        rest = behind;
    }
    if lease.is_some() && verb != "put" {
        return Err(format!("--lease goes with `put`, not with `{verb}`"));
    }
    let is_known = ["put", "create", "replace", "delete", "remove", "get"].contains(&verb);
    if !is_known {
        return Err(format!("expected put, create, replace, delete, remove or get, found `{verb}`"));
    }
    let (at, rest) = location(rest)?;
    let writes = ["put", "create", "replace"].contains(&verb);
    if !writes && !rest.is_empty() {
        return Err(format!("expected nothing after the path, found `{rest}`"));
    }
    if writes && rest.is_empty() {
        return Err("expected a value after the path; \"\" is an empty one".into());
    }
    branch.changes.push(match verb {
        "put" => match lease {
            None => Change::Put { at, value: value(rest)? },
            Some(lease) => Change::PutWithLease { at, value: value(rest)?, lease },
        },
        "create" => Change::Create { at, value: value(rest)? },
        "replace" => Change::Replace { at, value: value(rest)? },
        "delete" => Change::Delete { at },
        "remove" => Change::Remove { at },
        _ => {
            branch.reads.push(at);
            return Ok(());
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Location {
        Location::config(Path::parse(text).unwrap())
    }

    #[test]
    fn all_that_can_be_said() {
        let text = "# a comment\nif\n /c:a is absent\n /c:b = red and blue\n --datastore operational /c:c etag > 17\n\
            then\n put --lease 2f /c:a \"x\\ty\"\n delete /c:b\n get /c:a\nelse\n create /c:d 1\n";
        let script = parse(text).unwrap();
        let operational = Location { datastore: Datastore::Operational, ..at("/c:c") };
        let conditions = vec![
            Condition { at: at("/c:a"), expect: Expect::Absent },
            Condition { at: at("/c:b"), expect: Expect::Value("red and blue".into()) },
            Condition { at: operational, expect: Expect::EtagAbove(17) },
        ];
        assert_eq!(script.conditions, conditions);
        let put = Change::PutWithLease { at: at("/c:a"), value: "x\ty".into(), lease: LeaseId(0x2f) };
        assert_eq!(
            script.then,
            Branch { changes: vec![put, Change::Delete { at: at("/c:b") }], reads: vec![at("/c:a")] }
        );
        let create = Change::Create { at: at("/c:d"), value: "1".into() };
        assert_eq!(script.otherwise, Some(Branch { changes: vec![create], reads: vec![] }));
    }

    #[test]
    fn a_mistake_has_its_line_and_what_was_expected() {
        for (text, line, expected) in [
            ("put /c:a 1", 1, "expected `if` or `then`"),
            ("then\nput /c:a", 2, "expected a value"),
            ("then\nput c:a 1", 2, "looks like /car:cars"),
            ("if\n/c:a is gone", 2, "expected `is absent`"),
            ("if\n/c:a etag = x", 2, "expected an entity tag"),
            ("then\nmove /c:a", 2, "expected put"),
            ("then\ndelete /c:a now", 2, "expected nothing"),
            ("then\nput /c:a \"open", 2, "as in JSON"),
            ("then\nput --lease zz /c:a 1", 2, "hexadecimal"),
            ("then\ndelete --lease 2 /c:a", 2, "goes with `put`"),
            ("then\n\nif", 3, "in the order"),
            ("if\nelse", 2, "in the order"),
            ("then\nget --datastore x /c:a", 2, "operational"),
            ("then\nget", 2, "expected a path"),
        ] {
            let (found, reason) = parse(text).unwrap_err();
            assert_eq!(found, line, "{text}: {reason}");
            assert!(reason.contains(expected), "{text}: {reason}");
        }
    }
}
