//! `cluster bench`: how long requests take, and how many there can be.

use std::time::{Duration, Instant};

use machine::nanos::Span;
use miette::{Report, miette};
use node::{Call, Client, Course, Target};
use serde_json::{Value, json};
use store::client::ClientConfig;
use store::protocol::RequestBody;
use store::status::Status;
use tree::{Change, Location, Path, Transaction};
use workload::{ADD_PERSON, LoadConfig, Operation, Tally};

use super::access::Access;
use super::{election, explain, prefix};
use crate::Ending;
use crate::cli::{Bench, BenchOperation, BenchTarget, Format, actions};
use crate::output::{Rows, put};

/// A request that takes longer has failed, unless `--timeout` says otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);

/// So many clients at least prepare what is not measured.
const PREPARING_CLIENTS: u32 = 16;

/// What the table says of each operation.
pub(super) const COLUMNS: [&str; 11] = [
    "operation",
    "clients",
    "at",
    "requests",
    "failed",
    "min-ms",
    "mean-ms",
    "p50-ms",
    "p99-ms",
    "max-ms",
    "per-second",
];

/// Measures; [`Ending::Missed`] if requests failed.
pub fn bench(args: &Bench, connection: &actions::Access, format: Format) -> Result<Ending, Report> {
    if args.operations.contains(&BenchOperation::Election) {
        return election::election(args, connection, format);
    }
    let mut access = Access::open(connection)?;
    access.timeout = connection.timeout_or(TIMEOUT);
    let operations: Vec<Operation> = args.operations.iter().map(|operation| (*operation).into()).collect();
    prefix::prepare(&access, &args.prefix)?;
    let provider = if operations.contains(&Operation::Rpc) { Some(provide(&access, &args.prefix)?) } else { None };
    let measured = measure(args, &access, &operations);
    drop(provider);
    // Also when it failed.
    let emptied = prefix::empty(&access, &args.prefix);
    let totals = measured?;
    let mut rows = Rows::new(&COLUMNS);
    let mut ending = Ending::Passed;
    for (operation, measured) in operations.iter().zip(totals) {
        rows.push(row(args, *operation, &measured));
        if let Some(failure) = &measured.failures.first {
            eprintln!("{} of {} failed, the first one with: {failure}", measured.failures.count, operation.name());
            ending = Ending::Missed;
        }
    }
    put(&rows.render(format))?;
    emptied?;
    Ok(ending)
}

/// All repetitions of each operation.
fn measure(args: &Bench, access: &Access, operations: &[Operation]) -> Result<Vec<Tally>, Report> {
    let mut totals: Vec<Tally> = operations.iter().map(|_| Tally::default()).collect();
    for _ in 0..args.repeat {
        let mut cars = Cars { are_there: false };
        for (operation, total) in operations.iter().zip(&mut totals) {
            cars.prepare(*operation, args, access)?;
            total.add(load(args, access, *operation, args.clients)?);
        }
        // The next repetition begins like this one.
        cars.prepare(Operation::Create, args, access)?;
    }
    Ok(totals)
}

/// The cars of a repetition.
struct Cars {
    are_there: bool,
}

impl Cars {
    /// Makes or removes all of them, unmeasured, if the operation needs that; knows what there is after it.
    fn prepare(&mut self, operation: Operation, args: &Bench, access: &Access) -> Result<(), Report> {
        let needed = match operation {
            Operation::Create => false,
            Operation::Read | Operation::StaleRead | Operation::Update | Operation::Delete => true,
            Operation::Rpc | Operation::Put => return Ok(()),
        };
        if needed != self.are_there {
            let change = if needed { Operation::Create } else { Operation::Delete };
            let prepared = load(args, access, change, args.clients.max(PREPARING_CLIENTS))?;
            if let Some(failure) = prepared.failures.first {
                return Err(miette!("cannot prepare for {}: {failure}", operation.name()));
            }
        }
        self.are_there = !matches!(operation, Operation::Delete);
        Ok(())
    }
}

fn row(args: &Bench, operation: Operation, measured: &Tally) -> [Value; COLUMNS.len()] {
    let mut sorted = measured.latencies_ns.clone();
    sorted.sort_unstable();
    let ms = |ns: f64| json!((ns / 1e3).round() / 1e3);
    // The smallest latency that so many of a thousand do not exceed.
    let rank = |per_mille: usize| sorted.get((sorted.len() * per_mille).div_ceil(1_000).max(1) - 1);
    let at_rank = |per_mille| rank(per_mille).map_or(Value::Null, |ns| ms(*ns as f64));
    let mean = sorted.iter().map(|ns| *ns as f64).sum::<f64>() / sorted.len() as f64;
    [
        operation.name().into(),
        args.clients.into(),
        match args.at {
            BenchTarget::Leader => "leader",
            BenchTarget::Follower => "follower",
            BenchTarget::Any => "any",
        }
        .into(),
        (sorted.len() as u64 + measured.failures.count).into(),
        measured.failures.count.into(),
        sorted.first().map_or(Value::Null, |ns| ms(*ns as f64)),
        if sorted.is_empty() { Value::Null } else { ms(mean) },
        at_rank(500),
        at_rank(990),
        sorted.last().map_or(Value::Null, |ns| ms(*ns as f64)),
        json!((measured.per_second() * 10.0).round() / 10.0),
    ]
}

impl From<BenchOperation> for Operation {
    fn from(operation: BenchOperation) -> Self {
        match operation {
            BenchOperation::Create => Self::Create,
            BenchOperation::Read => Self::Read,
            BenchOperation::StaleRead => Self::StaleRead,
            BenchOperation::Update => Self::Update,
            BenchOperation::Delete => Self::Delete,
            BenchOperation::Rpc => Self::Rpc,
            BenchOperation::Election => unreachable!("it stands alone"),
        }
    }
}

/// Asks for so much of an operation, at the endpoints that are to be asked.
fn load(args: &Bench, access: &Access, operation: Operation, clients: u32) -> Result<Tally, Report> {
    let status = access.status()?;
    let data = &args.prefix;
    let endpoints = match args.at {
        BenchTarget::Leader => vec![leader(&status, data)?],
        BenchTarget::Follower => vec![follower(&status, data)?],
        BenchTarget::Any => status.map.members().values().map(|member| member.address.clone()).collect(),
    };
    let client = ClientConfig { go_to_leader: args.at == BenchTarget::Leader, ..ClientConfig::default() };
    let config = LoadConfig {
        clients,
        requests: args.requests,
        value_bytes: args.value_bytes,
        operation,
        keys: u32::MAX,
        below: Some(args.prefix.clone()),
        every: Span::ZERO,
        timeout: span(access.timeout),
    };
    let mut silence = Silence::begin(Instant::now(), access.timeout);
    let on = Target { endpoints, client };
    let measured = node::load(&config, &on, access.tls(), |tally| silence.course(tally, Instant::now()));
    let measured = measured.map_err(explain)?;
    if silence.is_too_long {
        return Err(miette!(
            help = "`heddle cluster check health` says which controllers answer",
            "{}: given up, since nothing was answered for {:?}; the first request failed with: {}",
            operation.name(),
            silence.longest,
            measured.failures.first.as_deref().unwrap_or_default()
        ));
    }
    Ok(measured)
}

/// For how long no request has succeeded.
struct Silence {
    succeeded: usize,
    since: Instant,
    /// Nobody will answer who has not by then.
    longest: Duration,
    is_too_long: bool,
}

impl Silence {
    fn begin(now: Instant, timeout: Duration) -> Self {
        // Short time limits are for those who watch a cluster find a new leader.
        Self { succeeded: 0, since: now, longest: timeout.max(TIMEOUT), is_too_long: false }
    }

    fn course(&mut self, tally: &Tally, now: Instant) -> Course {
        let succeeded = tally.latencies_ns.len();
        if succeeded > self.succeeded {
            (self.succeeded, self.since) = (succeeded, now);
        }
        self.is_too_long |= tally.failures.count > 0 && now.duration_since(self.since) >= self.longest;
        if self.is_too_long { Course::Leave } else { Course::GoOn }
    }
}

pub(super) fn span(duration: Duration) -> Span {
    Span::from_ns(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

pub(super) fn leader(status: &Status, path: &Path) -> Result<String, Report> {
    let shard = status.map.route(path);
    let leader = status.leaders.get(&shard).and_then(|server| status.map.members().get(server));
    leader.map(|member| member.address.clone()).ok_or_else(|| miette!("nobody leads the shard of {path} now"))
}

/// A server that holds the shard and does not lead it.
fn follower(status: &Status, path: &Path) -> Result<String, Report> {
    let shard = status.map.route(path);
    let leader = status.leaders.get(&shard);
    let replicas = status.map.desired_replicas(shard);
    let others =
        status.map.members().values().filter(|member| Some(&member.id) != leader && replicas.contains(member.id));
    let address = others.map(|member| member.address.clone()).next();
    address.ok_or_else(|| miette!(help = "measure it --at leader", "the shard of {path} has no follower"))
}

/// Somebody who offers the RPC, at the leader of its data: it writes the person.
fn provide(access: &Access, prefix: &Path) -> Result<Client, Report> {
    let at_leader = vec![leader(&access.status()?, prefix)?];
    let (provider, writer) = (access.by_way_of(&at_leader)?.client, access.by_way_of(&at_leader)?.client);
    let timeout = access.timeout;
    let add_person = move |call: Call| {
        let path = call.path.ok_or("a person has a path")?;
        let put = Change::Put { at: Location::config(path), value: call.input.as_slice().into() };
        let written = writer.request(RequestBody::Write(Transaction::of(put)), timeout);
        written.map(|_| Vec::new()).map_err(|error| error.to_string())
    };
    let offers = vec![(ADD_PERSON.to_owned(), Some(prefix.clone()))];
    provider.serve(offers, timeout, add_person).map_err(explain)?;
    Ok(provider)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_nobody_answers_is_given_up() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut silence = Silence::begin(begun, Duration::from_secs(1));
        let mut tally = Tally::default();
        assert_eq!(silence.course(&tally, at(11)), Course::GoOn, "nothing has failed yet");
        tally.took(Span::from_secs(11));
        tally.failures.count(|| "no leader".to_owned());
        assert_eq!(silence.course(&tally, at(11)), Course::GoOn);
        assert_eq!(silence.course(&tally, at(20)), Course::GoOn, "a new leader may take longer than a request");
        assert_eq!(silence.course(&tally, at(21)), Course::Leave);
        assert!(silence.is_too_long);
    }
}
