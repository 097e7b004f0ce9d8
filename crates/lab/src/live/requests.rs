//! Requests to a service live: `heddle serve` in the hosts of its servers, `heddle agent` beside it where agents are asked, and `heddle load` in those of the clients.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::time::{Duration, Instant};

use datapath::Service;
use fabric::{Fabric, RequestLoad, RequestServer, client_seed, server_seed, socket_address};
use machine::{Span, Time};
use serde::Deserialize;
use workload::service::{Arrivals, Distribution, GeneratorSpec, Latencies, Share, WithoutMemory};

use super::datagrams::Running;
use super::during::During;
use super::flow::{FlowFailure, Hosts, LiveFlow};
use crate::measure::record::node_name;
use crate::measure::request_record::{LatencyRecord, RequestRecord};

/// How long before the first request the first server is started, and how much longer for each program.
const LEAD: Duration = Duration::from_millis(300);
const LEAD_A_PROGRAM: Duration = Duration::from_millis(60);
/// How long the clients may take beyond their time and the load's timeout.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// What is asked in a run.
pub(crate) struct Asked<'a> {
    pub fabric: &'a Fabric,
    pub load: &'a RequestLoad,
    pub warm_up: Span,
    pub duration: Span,
    pub seed: u64,
}

/// What came of it, and what was counted when measuring started and ended.
pub(crate) struct Measured<C> {
    pub record: RequestRecord,
    pub before: C,
    pub after: C,
}

/// What `heddle load` says at its end, as far as it is read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Report {
    done: u64,
    failures: BTreeMap<String, u64>,
    per_second: f64,
    /// Latencies in nanoseconds, and how many there are of each.
    buckets: Vec<(u64, u64)>,
}

/// Runs the programs of a service; `program` is `heddle` itself.
pub(crate) fn run<C>(
    hosts: &impl Hosts,
    program: &Path,
    asked: &Asked<'_>,
    during: &mut During<'_>,
    mut count: impl FnMut() -> Result<C, FlowFailure>,
) -> Result<Measured<C>, FlowFailure> {
    let Asked { fabric, load, warm_up, duration, seed } = *asked;
    let service = fabric.services.iter().find(|service| service.name == load.service);
    let service = service.ok_or_else(|| FlowFailure {
        flow: load.service.clone(),
        host: String::new(),
        message: "there is no such service".to_owned(),
    })?;
    let lead = LEAD + LEAD_A_PROGRAM * (2 * service.servers.len() + load.from.len()) as u32;
    let begins = Instant::now() + lead;
    let mut servers = Vec::new();
    for (number, server) in service.servers.iter().enumerate() {
        let flow = flow(service, node_name(fabric, server.host));
        let start = |arguments: &[String]| {
            let mut running = Running::start(hosts, program, &flow, &flow.to, arguments)?;
            running.wait_for("the server does not listen", |line| line.contains("listen"))?;
            Ok::<_, FlowFailure>(running)
        };
        if let Some(agent) = service.agent {
            servers.push(start(&agent_arguments(agent.port))?);
        }
        let does = load.servers.get(number).copied().unwrap_or_default();
        let port = service.spec.servers.get(number).map_or(0, |spec| spec.port);
        let later = begins.saturating_duration_since(Instant::now()) + nanos(warm_up);
        let mut arguments = serve_arguments(&does, (port, later), server_seed(seed, number));
        if let Some(agent) = service.agent {
            arguments.extend(["--push".to_owned(), format!("127.0.0.1:{}", agent.port)]);
        }
        servers.push(start(&arguments)?);
    }
    std::thread::sleep(begins.saturating_duration_since(Instant::now()));
    let begun = Instant::now();
    let mut clients = Vec::new();
    for (number, host) in load.from.iter().enumerate() {
        let Some(spec) = load.clients_of(number, warm_up, duration) else { continue };
        let flow = flow(service, node_name(fabric, *host));
        let arguments = load_arguments(service, load, &spec, client_seed(seed, number));
        clients.push(Running::start(hosts, program, &flow, &flow.to, &arguments)?);
    }
    let wait = |moment: Instant| {
        std::thread::sleep(moment.saturating_duration_since(Instant::now()));
        Ok(())
    };
    let warm = begun + nanos(warm_up);
    during.wait_until(warm, wait)?;
    let before = count()?;
    during.pass(warm, nanos(duration), wait)?;
    let after = count()?;
    let deadline = warm + nanos(duration) + nanos(load.timeout) + END_PATIENCE;
    let reports = clients.iter_mut().map(|client| client.report::<Report>(deadline));
    let record = together(reports.collect::<Result<Vec<_>, _>>()?);
    Ok(Measured { record, before, after })
}

/// A host at a service, for what is said if something fails.
fn flow(service: &Service, host: String) -> LiveFlow {
    LiveFlow { from: service.name.clone(), to: host, address: String::new(), port: 0 }
}

/// What all clients have measured together.
fn together(reports: Vec<Report>) -> RequestRecord {
    let (mut record, mut latencies) = (RequestRecord::default(), Latencies::default());
    for report in reports {
        record.done += report.done;
        record.per_second += report.per_second;
        for (kind, count) in report.failures.into_iter().filter(|(_, count)| *count > 0) {
            *record.failures.entry(kind).or_default() += count;
        }
        report.buckets.iter().for_each(|(ns, count)| latencies.add_bucket(*ns, *count));
    }
    record.latency = LatencyRecord::of(&latencies);
    record
}

fn nanos(span: Span) -> Duration {
    Duration::from_nanos(span.as_ns())
}

/// Arguments, each with its value.
struct Arguments(Vec<String>);

impl Arguments {
    fn new(words: &[&str]) -> Self {
        Self(words.iter().map(|word| (*word).to_owned()).collect())
    }

    fn put(&mut self, name: &str, value: impl Display) {
        self.0.extend([name.to_owned(), value.to_string()]);
    }

    fn put_some(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    fn put_flag(&mut self, name: &str, is_set: bool) {
        self.0.extend(is_set.then(|| name.to_owned()));
    }
}

fn agent_arguments(port: u16) -> Vec<String> {
    let mut arguments = Arguments::new(&["agent", "-o", "json", "--http"]);
    arguments.0.push(format!(":{port}"));
    arguments.0
}

/// Of a server at a port, before whose measured time so much passes from now on.
fn serve_arguments(server: &RequestServer, (port, later): (u16, Duration), seed: u64) -> Vec<String> {
    let RequestServer { spec, body_bytes } = server;
    let mut arguments = Arguments::new(&["serve", "-o", "json", "--mode", "sleep", "--tree"]);
    arguments.put("--body", body_bytes);
    arguments.put("--queue", spec.queue_max);
    arguments.put_some("--at-a-time", spec.at_a_time);
    arguments.put_some("--memory-limit", spec.memory_limit);
    let refuses = spec.without_memory == WithoutMemory::Refuse && spec.memory_limit.is_some();
    arguments.put_flag("--refuse-memory", refuses);
    arguments.put_some("--size", spec.size.map(|drawn| text(&drawn, "")));
    arguments.put_some("--duration", spec.duration.map(|drawn| text(&drawn, "ns")));
    let faults = &spec.faults;
    let share = |share: Share| (share > Share::NONE).then(|| format!("{}%", f64::from(share.millionths()) / 1e4));
    arguments.put_some("--fail", share(faults.fail));
    arguments.put_flag("--fail-fast", faults.fail_fast && faults.fail > Share::NONE);
    // Its value is not an argument of its own.
    arguments.0.extend(share(faults.hang).map(|share| format!("--hang={share}")));
    if faults.slow_percent != 100 {
        arguments.put("--slow", format!("x{}", f64::from(faults.slow_percent) / 100.0));
    }
    let at = |time: Span| format!("{}ns", later.as_nanos() + u128::from(time.as_ns()));
    arguments.put("--from", at(faults.from));
    let is_for_ever = faults.until >= Time::NEVER.since(Time::ZERO);
    arguments.put_some("--until", (!is_for_ever).then(|| at(faults.until)));
    arguments.put("--seed", seed);
    arguments.0.push(format!(":{port}"));
    arguments.0
}

fn load_arguments(service: &Service, load: &RequestLoad, spec: &GeneratorSpec, seed: u64) -> Vec<String> {
    let mut arguments = Arguments::new(&["load", "-o", "json", "--quiet", "--buckets"]);
    match spec.arrivals {
        Arrivals::Open { rate_milli, is_poisson, in_flight_max } => {
            arguments.put("--rate", format!("{}.{:03}/s", rate_milli / 1_000, rate_milli % 1_000));
            arguments.put_flag("--poisson", is_poisson);
            arguments.put("--in-flight", in_flight_max);
        }
        Arrivals::Closed { clients, think, ramp: _ } => {
            arguments.put("--clients", clients);
            arguments.put_some("--think", think.map(|drawn| text(&drawn, "ns")));
        }
    }
    arguments.put("--warm-up", format!("{}ns", spec.warm_up.as_ns()));
    arguments.put("--for", format!("{}ns", spec.lasts.as_ns()));
    arguments.put("--timeout", format!("{}ns", load.timeout.as_ns()));
    arguments.put_flag("--new-connections", load.new_connections);
    arguments.put("--seed", seed);
    let mut target = service.addresses.first().map(|address| socket_address(address).to_string()).unwrap_or_default();
    if let Some(asked) = &load.target {
        let mut path = Vec::new();
        asked.write_path(&mut path);
        target += &String::from_utf8_lossy(&path);
    } else {
        arguments.put("--workload", load.workload.name());
        arguments.put_some("--size", load.size.map(|drawn| text(&drawn, "")));
        arguments.put_some("--duration", load.duration.map(|drawn| text(&drawn, "ns")));
    }
    arguments.0.push(target);
    arguments.0
}

/// A distribution as command lines have it, its values in this unit.
fn text(distribution: &Distribution, unit: &str) -> String {
    match *distribution {
        Distribution::Fixed(value) => format!("{value}{unit}"),
        Distribution::Uniform { min, max } => format!("uniform:{min}{unit},{max}{unit}"),
        Distribution::Exponential { mean } => format!("exp:{mean}{unit}"),
        Distribution::Pareto { min, shape_milli, max } => {
            format!("pareto:{min}{unit},{},{max}{unit}", f64::from(shape_milli) / 1e3)
        }
        Distribution::Lognormal { median, sigma_milli } => {
            format!("lognormal:{median}{unit},{}", f64::from(sigma_milli) / 1e3)
        }
    }
}

#[cfg(test)]
mod tests {
    use workload::service::{Faults, ServerSpec};

    use super::*;

    #[test]
    fn distributions_are_written_as_they_are_read() {
        for text_of in ["5ns", "uniform:5ns,7ns", "exp:2000ns", "pareto:5ns,1.2,900ns", "lognormal:5ns,0.5"] {
            let read = Distribution::durations(text_of).expect("it is one");
            assert_eq!(text(&read, "ns"), text_of);
        }
        for text_of in ["5", "pareto:5,1.2,900"] {
            let read = Distribution::sizes(text_of).expect("it is one");
            assert_eq!(text(&read, ""), text_of);
        }
    }

    #[test]
    fn a_server_is_given_what_the_file_says_of_it() {
        let faults = Faults {
            fail: Share::percent(5),
            hang: Share::percent(2),
            slow_percent: 250,
            from: Span::from_ms(1),
            ..Faults::default()
        };
        let spec = ServerSpec {
            at_a_time: Some(1),
            queue_max: 7,
            memory_limit: Some(100),
            duration: Some(Distribution::Exponential { mean: 2_000 }),
            faults,
            ..ServerSpec::default()
        };
        let arguments = serve_arguments(&RequestServer { spec, body_bytes: 9 }, (80, Duration::from_millis(2)), 3);
        let expected = "serve -o json --mode sleep --tree --body 9 --queue 7 --at-a-time 1 --memory-limit 100 --duration exp:2000ns --fail 5% --hang=2% \
                        --slow x2.5 --from 3000000ns --seed 3 :80";
        assert_eq!(arguments.join(" "), expected);
    }

    #[test]
    fn what_clients_measure_is_added_up() {
        let report = |done, ns| Report {
            done,
            failures: BTreeMap::from([("timed-out".to_owned(), 1), ("refused".to_owned(), 0)]),
            per_second: 10.0,
            buckets: vec![(ns, done)],
        };
        let record = together(vec![report(1, 1_000), report(3, 3_000)]);
        assert_eq!((record.done, record.failed(), record.failures.len()), (4, 2, 1));
        assert!(record.failures.contains_key("timed-out"), "{:?}", record.failures);
        let latency = record.latency.expect("there are some");
        assert!((latency.mean - 2.5e-6).abs() < 1e-8 && (latency.max - 3e-6).abs() < 1e-8, "{latency:?}");
    }
}
