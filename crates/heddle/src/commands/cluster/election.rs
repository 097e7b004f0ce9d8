//! `cluster bench --operations election`: from the death of a leader to the first write elsewhere.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use live::cluster::{Client, Tls};
use machine::Span;
use miette::{IntoDiagnostic as _, Report, miette};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use store::client::ClientConfig;
use store::protocol::RequestBody;
use store::status::Status;
use tree::{Change, Location, Transaction};

use super::bench::{COLUMNS, cars, leader, status, warm_up};
use super::{connect, explain};
use crate::Ending;
use crate::cli::{Bench, BenchOperation, Endpoints, Format};
use crate::output::{Rows, put};

/// One attempt to write. As long as the peer's in `benches/etcd`.
const ATTEMPT: Duration = Duration::from_millis(20);

/// A cluster that takes no write for so long has not elected.
const PATIENCE: Duration = Duration::from_secs(60);

/// Kills the leader of the cars' shard.
pub fn election(args: &Bench, connection: &Endpoints, tls: Option<&Tls>, format: Format) -> Result<Ending, Report> {
    if args.operations != [BenchOperation::Election] || args.pids.len() != connection.endpoints.len() {
        return Err(miette!(
            help = "as in: --operations election --endpoints A,B,C --pids 1,2,3",
            "`election` stands alone and needs as many --pids as there are --endpoints"
        ));
    }
    let client = connect(connection)?;
    warm_up(&client)?;
    let address = leader(&settled(&client)?, &cars())?;
    let place = connection.endpoints.iter().position(|endpoint| *endpoint == address);
    let place = place.ok_or_else(|| miette!("the leader, {address}, is not among the endpoints"))?;
    let others: Vec<&String> = connection.endpoints.iter().filter(|endpoint| **endpoint != address).collect();
    let (told, first) = mpsc::channel();
    let (go, starts): (Vec<_>, Vec<_>) = others.iter().map(|_| mpsc::channel::<Instant>()).unzip();
    for (endpoint, start) in others.iter().zip(starts) {
        let writer = writer(endpoint, tls)?;
        let told = told.clone();
        thread::spawn(move || {
            let Ok(killed) = start.recv() else { return };
            while killed.elapsed() < PATIENCE {
                if writer.request(write(), ATTEMPT).is_ok() {
                    let _ = told.send(killed.elapsed());
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
    let took = first.recv_timeout(PATIENCE).map_err(|_| miette!("no write succeeded for {PATIENCE:?}"))?;
    put(&rows(took, others.len()).render(format))?;
    Ok(Ending::Passed)
}

/// The status once the cars' shard has all the voters that it should have: those who joined a moment ago as well.
fn settled(client: &Client) -> Result<Status, Report> {
    let begun = Instant::now();
    loop {
        let status = status(client)?;
        let shard = status.map.route(&cars());
        let desired = status.map.desired_replicas(shard).voters;
        let voters = status.groups.iter().find(|group| group.shard == shard).map(|group| &group.voters);
        if voters.is_some_and(|voters| voters.iter().copied().eq(desired.iter().copied())) {
            return Ok(status);
        }
        if begun.elapsed() > PATIENCE {
            return Err(miette!("shard {shard} has not got its voters for {PATIENCE:?}: {voters:?} of {desired:?}"));
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn write() -> RequestBody {
    RequestBody::Write(Transaction::of(Change::Put { at: Location::config(cars()), value: b"x"[..].into() }))
}

/// A client that asks this endpoint only, connected already.
fn writer(endpoint: &str, tls: Option<&Tls>) -> Result<Client, Report> {
    let attempt_timeout = Span::from_ns(ATTEMPT.as_nanos() as u64);
    let config = ClientConfig { go_to_leader: false, attempt_timeout, ..ClientConfig::default() };
    let client = Client::with_config(&[endpoint.to_owned()], tls, config).map_err(explain)?;
    client.request(write(), Duration::from_secs(10)).map_err(explain)?;
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
