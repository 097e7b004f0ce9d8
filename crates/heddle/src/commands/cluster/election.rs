//! `cluster bench --operations election`: from the death of a leader to the first write elsewhere.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use machine::nanos::Span;
use miette::{IntoDiagnostic as _, Report, miette};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use node::Client;
use serde_json::{Value, json};
use store::client::ClientConfig;
use store::protocol::RequestBody;
use store::status::Status;
use tree::{Change, Location, Path, Transaction};

use super::access::Access;
use super::bench::{COLUMNS, leader};
use super::{explain, prefix};
use crate::Ending;
use crate::cli::{Bench, BenchOperation, Format, actions};
use crate::output::{Rows, put};

/// One attempt to write. As long as the peer's in `benches/etcd`.
const ATTEMPT: Duration = Duration::from_millis(20);

/// A cluster that takes no write for so long has not elected, unless `--timeout` says otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// Kills the leader of the shard that is written to.
pub fn election(args: &Bench, connection: &actions::Access, format: Format) -> Result<Ending, Report> {
    let endpoints = connection.connection().endpoints;
    if args.operations != [BenchOperation::Election] || args.pids.len() != endpoints.len() {
        return Err(miette!(
            help = "as in: --operations election --endpoints A,B,C --pids 1,2,3",
            "`election` stands alone and needs as many --pids as there are --endpoints"
        ));
    }
    let access = Access::open(connection)?;
    let patience = connection.timeout_or(PATIENCE);
    let prefix = &args.prefix;
    prefix::prepare(&access, prefix)?;
    let address = leader(&with_all_voters(&access, prefix, patience)?, prefix)?;
    let place = endpoints.iter().position(|endpoint| *endpoint == address);
    let place = place.ok_or_else(|| miette!("the leader, {address}, is not among the endpoints"))?;
    let others: Vec<&String> = endpoints.iter().filter(|endpoint| **endpoint != address).collect();
    let (to_main, first) = mpsc::channel();
    let (go, starts): (Vec<_>, Vec<_>) = others.iter().map(|_| mpsc::channel::<Instant>()).unzip();
    for (endpoint, start) in others.iter().zip(starts) {
        let writer = writer(&access, endpoint, prefix)?;
        let (to_main, body) = (to_main.clone(), write(prefix));
        thread::spawn(move || {
            let Ok(killed) = start.recv() else { return };
            while killed.elapsed() < patience {
                if writer.request(body.clone(), ATTEMPT).is_ok() {
                    let _ = to_main.send(killed.elapsed());
                    return;
                }
            }
        });
    }
    kill(Pid::from_raw(args.pids[place]), Signal::SIGKILL).into_diagnostic()?;
    let killed = Instant::now();
    for start in &go {
        let _ = start.send(killed);
    }
    let took = first.recv_timeout(patience).map_err(|_| miette!("no write succeeded for {patience:?}"))?;
    prefix::empty(&access, prefix)?;
    put(&rows(took, others.len()).render(format))?;
    Ok(Ending::Passed)
}

/// The status once the shard has all the voters that it should have: those who joined a moment ago as well.
fn with_all_voters(access: &Access, prefix: &Path, patience: Duration) -> Result<Status, Report> {
    let begun = Instant::now();
    loop {
        let status = access.status()?;
        let shard = status.map.route(prefix);
        let desired = status.map.desired_replicas(shard).voters;
        let voters = status.groups.iter().find(|group| group.shard == shard).map(|group| &group.voters);
        if voters.is_some_and(|voters| voters.iter().copied().eq(desired.iter().copied())) {
            return Ok(status);
        }
        if begun.elapsed() > patience {
            return Err(miette!("shard {shard} has not got its voters for {patience:?}: {voters:?} of {desired:?}"));
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn write(prefix: &Path) -> RequestBody {
    RequestBody::Write(Transaction::of(Change::Put { at: Location::config(prefix.clone()), value: b"x"[..].into() }))
}

/// A client that asks this endpoint only, connected already.
fn writer(access: &Access, endpoint: &str, prefix: &Path) -> Result<Client, Report> {
    let attempt_timeout = Span::from_ns(ATTEMPT.as_nanos() as u64);
    let config = ClientConfig { go_to_leader: false, attempt_timeout, ..ClientConfig::default() };
    let client = Client::with_config(&[endpoint.to_owned()], access.tls(), config).map_err(explain)?;
    client.request(write(prefix), access.timeout).map_err(|error| access.explain(error))?;
    Ok(client)
}

fn rows(took: Duration, clients: usize) -> Rows {
    let ms = json!((took.as_secs_f64() * 1e6).round() / 1e3);
    let mut rows = Rows::new(&COLUMNS);
    let per_second = json!(1.0 / took.as_secs_f64());
    let row: [Value; COLUMNS.len()] = [
        "election".into(),
        clients.into(),
        "any".into(),
        1.into(),
        0.into(),
        ms.clone(),
        ms.clone(),
        ms.clone(),
        ms.clone(),
        ms,
        per_second,
    ];
    rows.push(row);
    rows
}
