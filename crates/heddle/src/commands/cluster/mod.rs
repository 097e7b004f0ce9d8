//! `cluster`: clients of the controllers.
//!
//! | module | what it is |
//! |---|---|
//! | `access` | a connection to the cluster, and what went wrong with it |
//! | `view` | the cluster as its servers see it |
//! | `status`, `shards`, `members` | runs the cluster |
//! | `disk` | what servers take on their disks, and giving it back |
//! | `backup`, `restore` | all of its data, out and in |
//! | `data`, `watch` | reads, writes, calls |
//! | `txn`, `lease`, `contest`, `turn` | transactions, leases, locks and elections, how long a turn is waited for |
//! | `users` | who may do what |
//! | `bench` | measures |
//! | `check`, `health` | is it fast enough, is it well, who was refused |

mod access;
mod alarms;
mod backup;
mod bench;
mod check;
mod contest;
mod data;
mod disk;
mod election;
mod health;
mod lease;
mod members;
mod prefix;
mod restore;
mod shards;
mod status;
mod turn;
mod txn;
mod users;
mod view;
mod watch;

use miette::Report;
use node::{Client, LoginToken, Tls};
use serde_json::{Map, Value};

use crate::Ending;
use crate::cli::actions::{Action, CheckAction, Cluster};
use crate::cli::{Endpoints, Format};
use crate::output::{Rows, harmless, print_json, put};
use access::Access;

/// Does what is asked of the cluster.
pub fn cluster(args: &Cluster, format: Format, verbose: bool) -> Result<Ending, Report> {
    let open = || Access::open(&args.access);
    match &args.action {
        Action::Status => status::status(&open()?, format, verbose)?,
        Action::Shards { action: None } => shards::list(&open()?, format)?,
        Action::Shards { action: Some(action) } => shards::change(&open()?, action, format)?,
        Action::MoveLeader { shard, server } => shards::move_leader(&open()?, shard, server, format)?,
        Action::Defrag { server } => disk::defragment(&open()?, server.as_deref(), format)?,
        Action::Add { name, listen } => members::add(&open()?, name.as_deref(), listen.as_deref(), format)?,
        Action::Remove { server, force } => members::remove(&open()?, server, *force, format)?,
        Action::Replace { old, name, listen } => {
            members::replace(&open()?, old, name.as_deref(), listen.as_deref(), format)?;
        }
        Action::Backup { file, force, quiet } => backup::backup(&args.access, file, *force, *quiet, format)?,
        Action::Restore { file, quiet } => restore::restore(&args.access, file, *quiet, format)?,
        Action::Get { at, freshness, revision } => return data::get(&open()?, at, *freshness, *revision, format),
        Action::List { at, freshness, limit, revision } => {
            data::list(&open()?, at, *freshness, *limit, *revision, format)?;
        }
        Action::Revisions { path } => data::revisions(&open()?, path, format)?,
        Action::Put { at, value, create, replace, if_etag, lease } => {
            let condition = data::Condition::of(*create, *replace, *if_etag);
            return data::put_value(&open()?, at, value, condition, *lease, format);
        }
        Action::Delete { at, recursive, if_etag } => {
            return data::delete(&open()?, at, *recursive, *if_etag, format);
        }
        Action::Watch { at, from } => watch::watch(&open()?, at, *from, format)?,
        Action::Txn(txn) => return txn::txn(&open()?, txn, format),
        Action::Lease { action } => return lease::lease(&open()?, action, format),
        Action::Lock(lock) => return contest::lock(&args.access, lock),
        Action::Elect(elect) => return contest::elect(&args.access, elect, format),
        Action::Whoami => users::whoami(&open()?, format)?,
        Action::Auth { action } => users::auth(&open()?, action, format)?,
        Action::User { action } => users::user(&open()?, action, format)?,
        Action::Role { action } => users::role(&open()?, action, format)?,
        Action::Call(call) => data::call(&open()?, call, format)?,
        Action::Check { action: CheckAction::Health } => return health::check(&open()?, format),
        Action::Check { action: CheckAction::Perf(perf) } => return check::perf(perf, &args.access, format),
        Action::Alarms => return alarms::list(&open()?, format),
        Action::Refusals => health::refusals(&open()?, format)?,
        Action::Bench(bench) => return bench::bench(bench, &args.access, format),
    }
    Ok(Ending::Passed)
}

/// A failure of a controller or a client of it, with its hint, as a report.
#[allow(clippy::needless_pass_by_value, reason = "it is what `map_err` calls")]
pub fn explain(error: node::Error) -> Report {
    let text = harmless(&error.to_string());
    match (error.hint(), text.split_once("; hint: ")) {
        (Some(hint), _) => miette::miette!(help = hint, "{text}"),
        // What servers say has its hint within.
        (None, Some((text, hint))) => miette::miette!(help = hint.to_owned(), "{text}"),
        (None, None) => miette::miette!("{text}"),
    }
}

/// The certificates, read.
fn tls(connection: &Endpoints) -> Result<Option<Tls>, Report> {
    connection.tls.files().map(|files| Tls::load(&files)).transpose().map_err(explain)
}

/// The token to log in with: of the file, or of `HEDDLE_TOKEN`. Never of the command line, which every user of the machine can read.
pub fn token(file: Option<&std::path::Path>) -> Result<Option<LoginToken>, Report> {
    if let Some(file) = file {
        return LoginToken::read(file).map(Some).map_err(explain);
    }
    let Some(text) = std::env::var_os("HEDDLE_TOKEN").filter(|text| !text.is_empty()) else { return Ok(None) };
    let token = text.to_str().and_then(LoginToken::parse);
    token
        .map(Some)
        .ok_or_else(|| miette::miette!("HEDDLE_TOKEN is no token: expected `heddle-` and 64 hexadecimal digits"))
}

/// Has a client log in, if there is a token.
fn log_in(client: &Client, token: Option<&LoginToken>) -> Result<(), Report> {
    token.map_or(Ok(()), |token| client.log_in(token.clone())).map_err(explain)
}

/// Says what was done: a sentence for people, the same as data for programs.
fn print_outcome<const N: usize>(
    format: Format,
    sentence: &str,
    data: [(&'static str, Value); N],
) -> Result<(), Report> {
    match format {
        Format::Table => put(&format!("{}\n", harmless(sentence))),
        Format::Json => {
            print_json(&data.map(|(name, value)| (name.to_owned(), value)).into_iter().collect::<Map<_, _>>())
        }
        Format::Csv => {
            let mut rows = Rows::new(&data.each_ref().map(|(column, _)| *column));
            rows.push(data.map(|(_, cell)| cell));
            put(&rows.render(format))
        }
    }
}

/// A count with its noun: `1 server`, `2 servers`, `3 entries`.
fn count(number: u64, noun: &str) -> String {
    match (number, noun.strip_suffix('y')) {
        (1, _) => format!("{number} {noun}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) => format!("{number} {noun}s"),
    }
}
