//! A real server and real clients.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use machine::Span;
use requests::load::{Connections, LoadConfig, Progress, run, run_following};
use requests::serve::{Mode, ServeConfig, Serving};
use requests::{Error, Limits, WhenFull};
use serde_json::Value;
use workload::service::{
    Arrivals, Distribution, Failure, Faults, GeneratorSpec, Measured, ServerSpec, Share, Workload, WorkloadSpec,
};

/// Nothing here takes as long.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn config() -> ServeConfig {
    ServeConfig {
        listen: vec!["127.0.0.1:0".parse().expect("an address")],
        server: ServerSpec { queue_max: 1_000, ..ServerSpec::default() },
        mode: Mode::Sleep,
        threads: 2,
        body_bytes: 0,
        has_tree: true,
        reports: false,
        push: None,
        limits: Limits::default(),
        seed: 1,
    }
}

/// A server that ends with the test.
pub struct Running {
    pub address: SocketAddr,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Running {
    pub fn start(config: ServeConfig) -> Self {
        let serving = Serving::open(config).expect("a port is free");
        let (address, ending) = (serving.addresses()[0], Arc::new(AtomicBool::new(false)));
        let until = Arc::clone(&ending);
        Self { address, ending, thread: Some(std::thread::spawn(move || serving.run(until))) }
    }

    pub fn end(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    fn wait(mut self) {
        self.end();
        self.thread.take().expect("it runs").join().expect("it does not panic").expect("it ends well");
    }

    /// The answer to one request: status line, headers, body.
    pub fn ask(&self, request: &str) -> String {
        self.exchange(request).expect("it answers and closes")
    }

    /// The same, if there is one.
    fn exchange(&self, request: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    pub fn get(&self, path: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
    }

    pub fn stats(&self) -> Value {
        let answer = self.get("/.heddle/stats");
        serde_json::from_str(answer.split("\r\n\r\n").nth(1).expect("a body")).expect("JSON")
    }

    /// Waits until the statistics are so.
    fn until(&self, is_so: impl Fn(&Value) -> bool) -> Value {
        loop {
            let stats = self.stats();
            if is_so(&stats) {
                return stats;
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn spec(workload: Workload, arrivals: Arrivals) -> GeneratorSpec {
    let size = Some(Distribution::Fixed(100_000));
    let workload = WorkloadSpec { size, duration: Some(Distribution::Fixed(1_000_000)), ..WorkloadSpec::new(workload) };
    GeneratorSpec { workload, arrivals, warm_up: Span::ZERO, lasts: Span::from_ms(300) }
}

const CLOSED: Arrivals = Arrivals::Closed { clients: 4, think: None, ramp: Span::ZERO };

fn load(address: SocketAddr, generator: GeneratorSpec, connections: Connections) -> Measured {
    let config = LoadConfig {
        targets: vec![address],
        sources: Vec::new(),
        host: None,
        path: None,
        connections,
        generator,
        timeout: Span::from_secs(60),
        seed: 1,
    };
    run(&config, &AtomicBool::new(false), |_| {}).expect("it runs")
}

/// New connections go where targets have moved to.
#[test]
fn targets_may_move() {
    let (first, second) = (Running::start(config()), Running::start(config()));
    let load = LoadConfig {
        targets: vec![first.address],
        sources: Vec::new(),
        host: None,
        path: None,
        connections: Connections::New,
        generator: GeneratorSpec { lasts: Span::from_secs(60), ..spec(Workload::FineGrain, CLOSED) },
        timeout: Span::from_secs(60),
        seed: 1,
    };
    let (ending, address) = (AtomicBool::new(false), second.address);
    let gone = Cell::new(false);
    let moved = || (!gone.replace(true)).then(|| vec![address]);
    let mut since = None;
    let shown = |progress: &Progress| {
        if gone.get() {
            let first = *since.get_or_insert(progress.done);
            ending.store(progress.done > first + 100, Ordering::Relaxed);
        }
    };
    let measured = run_following(&load, &ending, shown, moved).expect("it runs");
    assert_eq!(measured.failures().total(), 0, "{measured:?}");
    assert!(measured.done() > 100);
    let accepted = |server: &Running| server.stats()["connections-accepted"].as_u64().expect("a number");
    // One of each is this question.
    assert!(accepted(&first) > 1 && accepted(&second) > 100);
    first.wait();
    second.wait();
}

#[test]
fn every_workload_is_answered() {
    for mode in [Mode::Sleep, Mode::Busy] {
        let server = Running::start(ServeConfig { mode, ..config() });
        for workload in Workload::ALL {
            for connections in [Connections::KeepAlive, Connections::New] {
                let measured = load(server.address, spec(workload, CLOSED), connections);
                assert!(measured.done() > 0, "{workload:?} {connections:?}");
                assert_eq!(measured.failures().total(), 0, "{workload:?} {connections:?}: {measured:?}");
            }
        }
        server.wait();
    }
}

#[test]
fn pages_that_no_turn_reads_as_a_whole_are_read_to_their_end() {
    let server = Running::start(ServeConfig { body_bytes: 16 << 20, ..config() });
    let measured = load(server.address, spec(Workload::FineGrain, CLOSED), Connections::KeepAlive);
    assert!(measured.done() > 0 && measured.failures().total() == 0, "{measured:?}");
}

#[test]
fn at_all_addresses_clients_of_both_families_are_answered() {
    let server = Running::start(ServeConfig { listen: vec!["[::]:0".parse().expect("an address")], ..config() });
    let has_ipv6 = TcpListener::bind("[::1]:0").is_ok();
    let addresses = ["127.0.0.1", "::1"].map(|address| address.parse::<IpAddr>().expect("an address"));
    for address in addresses.into_iter().filter(|address| address.is_ipv4() || has_ipv6) {
        let target = SocketAddr::new(address, server.address.port());
        let measured = load(target, spec(Workload::FineGrain, CLOSED), Connections::KeepAlive);
        assert!(measured.done() > 0 && measured.failures().total() == 0, "{target}: {measured:?}");
    }
    // The port is taken.
    let taken = Serving::open(ServeConfig { listen: vec![server.address], ..config() });
    assert!(matches!(taken, Err(Error::Listen { .. })));
}

#[test]
fn keep_alive_opens_a_connection_a_client() {
    let server = Running::start(config());
    load(server.address, spec(Workload::FineGrain, CLOSED), Connections::KeepAlive);
    let stats = server.stats();
    assert_eq!(stats["connections-accepted"], 5, "four clients and this question: {stats}");
    let done = load(server.address, spec(Workload::FineGrain, CLOSED), Connections::New).done();
    let accepted = server.stats()["connections-accepted"].as_u64().expect("a number");
    assert!(accepted >= done + 5, "{accepted} {done}");
}

/// Ports of clients of this server that nobody may use for a minute, and connections whose server waits that long in their place.
fn time_waits(server: SocketAddr) -> (usize, usize) {
    const TIME_WAIT: &str = "06";
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux has it");
    let ports = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let waiting = ports.filter(|words| words.get(3) == Some(&TIME_WAIT));
    let own = format!(":{:04X}", server.port());
    let (at_server, at_client): (Vec<_>, Vec<_>) = waiting
        .filter(|words| words[1].ends_with(&own) || words[2].ends_with(&own))
        .partition(|words| words[1].ends_with(&own));
    (at_client.len(), at_server.len())
}

#[test]
fn a_client_keeps_no_port_from_the_next_one() {
    let server = Running::start(config());
    let done = load(server.address, spec(Workload::FineGrain, CLOSED), Connections::New).done();
    // The last ones may not have been closed by the server yet when the load is over.
    let (at_clients, at_server) = time_waits(server.address);
    assert!(done > 20 && at_server > 0 && at_clients <= at_server / 4, "{done} done, {at_clients} and {at_server}");
}

#[test]
fn an_open_loop_sends_what_it_should_from_addresses_of_its_choice() {
    let server = Running::start(config());
    let open = Arrivals::Open { rate_milli: 200_000, is_poisson: false, in_flight_max: 50 };
    let config = LoadConfig {
        targets: vec![server.address],
        sources: vec!["127.0.0.2".parse().expect("an address"), "127.0.0.3".parse().expect("an address")],
        host: Some("web".to_owned()),
        path: Some("/work?size=10&duration=10".to_owned()),
        connections: Connections::New,
        generator: spec(Workload::FineGrain, open),
        timeout: Span::from_secs(60),
        seed: 1,
    };
    let mut reported = 0;
    let measured = run(&config, &AtomicBool::new(false), |_| reported += 1).expect("it runs");
    assert_eq!((measured.done(), measured.failures().total()), (59, 0), "{measured:?}");
    assert!(reported > 0 && server.stats()["answered"] == 60 - 1);
    let other_family = LoadConfig { sources: vec!["::1".parse().expect("an address")], ..config };
    let refused = run(&other_family, &AtomicBool::new(false), |_| {});
    assert!(matches!(refused, Err(Error::SourceFamily { .. })));
}

#[test]
fn what_nobody_answers_has_failed_by_its_kind() {
    let gone = Running::start(config());
    let address = gone.address;
    gone.wait();
    let failed = load(address, spec(Workload::FineGrain, CLOSED), Connections::KeepAlive);
    assert!(failed.failures().of(Failure::Refused) > 0 && failed.done() == 0, "{failed:?}");

    let faults = Faults { fail: Share::ALL, ..Faults::default() };
    let failing = Running::start(ServeConfig { server: ServerSpec { faults, ..ServerSpec::default() }, ..config() });
    let failed = load(failing.address, spec(Workload::Fsfd, CLOSED), Connections::KeepAlive);
    assert!(failed.failures().of(Failure::Status5xx) > 0 && failed.done() == 0, "{failed:?}");

    let faults = Faults { hang: Share::ALL, ..Faults::default() };
    let hanging = Running::start(ServeConfig { server: ServerSpec { faults, ..ServerSpec::default() }, ..config() });
    let generator = spec(Workload::FineGrain, CLOSED);
    let timeout = Span::from_ms(100);
    let config = LoadConfig {
        targets: vec![hanging.address],
        sources: Vec::new(),
        host: None,
        path: None,
        connections: Connections::KeepAlive,
        generator,
        timeout,
        seed: 1,
    };
    let failed = run(&config, &AtomicBool::new(false), |_| {}).expect("it runs");
    assert!(failed.failures().of(Failure::TimedOut) > 0 && failed.done() == 0, "{failed:?}");
    hanging.until(|stats| stats["withdrawn"] == stats["hung"]);
}

/// Answers the first connections, so many, in chunks of a byte each without an end, as fast as they are read.
fn answer_without_end(connections: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().take(connections) {
            let mut stream = stream.expect("it is accepted");
            std::thread::spawn(move || {
                let mut bytes = &b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"[..];
                let chunks = b"1\r\nx\r\n".repeat(100_000);
                while stream.write_all(bytes).is_ok() {
                    bytes = &chunks;
                }
            });
        }
    });
    address
}

#[test]
fn an_answer_without_an_end_takes_no_more_than_its_timeout() {
    let arrivals = Arrivals::Closed { clients: 1, think: None, ramp: Span::ZERO };
    let config = LoadConfig {
        // It listens no more after the first: the requests that follow are refused.
        targets: vec![answer_without_end(1)],
        sources: Vec::new(),
        host: None,
        path: None,
        connections: Connections::KeepAlive,
        generator: GeneratorSpec { lasts: Span::from_secs(3_600), ..spec(Workload::FineGrain, arrivals) },
        timeout: Span::from_ms(100),
        seed: 1,
    };
    // It is asked to end as somebody does who sees that nothing goes on.
    let ending = AtomicBool::new(false);
    let measured = run(&config, &ending, |progress| {
        ending.store(progress.failed > 0, Ordering::Relaxed);
    });
    let failed = measured.expect("it runs");
    assert!(failed.failures().of(Failure::TimedOut) > 0 && failed.done() == 0, "{failed:?}");
}

#[test]
fn a_server_one_at_a_time_refuses_what_its_queue_does_not_hold() {
    let server = ServerSpec { at_a_time: Some(1), queue_max: 1, ..ServerSpec::default() };
    let server = Running::start(ServeConfig { server, ..config() });
    let slow = "GET /work?duration=1h HTTP/1.1\r\n\r\n";
    let mut clients: Vec<TcpStream> = Vec::new();
    for working_and_queued in [(1, 0), (1, 1)] {
        let mut client = TcpStream::connect(server.address).expect("it listens");
        client.write_all(slow.as_bytes()).expect("it is sent");
        clients.push(client);
        server.until(|stats| {
            (stats["working"].as_u64(), stats["queued"].as_u64())
                == (Some(working_and_queued.0), Some(working_and_queued.1))
        });
    }
    assert!(server.get("/work").starts_with("HTTP/1.1 503 "));
    // Who waits and goes is forgotten.
    clients.pop();
    server.until(|stats| stats["queued"] == 0);
    assert_eq!(server.stats()["load"]["application_utilization"], 1.0);
}

#[test]
fn memory_beyond_the_limit_is_refused_and_freed_memory_given_again() {
    let server = ServerSpec { memory_limit: Some(1 << 20), queue_max: 10, ..ServerSpec::default() };
    let server = Running::start(ServeConfig { server, reports: true, ..config() });
    assert!(server.get("/work?size=2MiB").starts_with("HTTP/1.1 503 "));
    for _ in 0..5 {
        let answer = server.get("/work?size=1MiB&duration=1ms");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.contains("\r\nendpoint-load-metrics: TEXT "), "{answer}");
    }
    let stats = server.stats();
    assert_eq!((&stats["memory-bytes"], &stats["memory-max-bytes"]), (&Value::from(0), &Value::from(1 << 20)));
    assert!(server.ask("POST /.heddle/restart HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 200 "));
    assert_eq!(server.stats()["answered"], 0);
}

#[test]
fn pages_have_their_length_and_errors_say_what_was_expected() {
    let server = Running::start(ServeConfig { body_bytes: 3, ..config() });
    let body = |path: &str| server.get(path).split_once("\r\n\r\n").expect("head and body").1.len();
    assert_eq!((body("/"), body("/tree/static/7/0-1"), body("/tree/static/7/3-9")), (3, 102, 921_600));
    assert_eq!(body("/tree/dynamic/7/1-1?duration=10"), 1_024);
    let head = server.ask("HEAD /tree/static/1/1-1 HTTP/1.0\r\n\r\n");
    assert!(head.contains("Content-Length: 1024\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    for (request, status) in [
        ("GET /nothing HTTP/1.0\r\n\r\n", 404),
        ("GET /work?size=x HTTP/1.0\r\n\r\n", 400),
        ("DELETE / HTTP/1.0\r\n\r\n", 405),
        ("nonsense\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 501),
    ] {
        let answer = server.ask(request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
    }
    let without = Running::start(ServeConfig { has_tree: false, ..config() });
    assert!(without.get("/tree/static/7/0-1").contains("--tree"));
}

#[test]
fn requests_that_come_together_are_answered_in_order() {
    let server = Running::start(config());
    let page =
        |name| format!("GET /tree/static/1/{name} HTTP/1.1\r\n\r\nGET /work?size=100000&duration=100 HTTP/1.1\r\n\r\n");
    let mut requests = ["0-1", "3-9", "1-1"].map(page).concat();
    requests += "GET / HTTP/1.1\r\nConnection: close\r\n\r\n";
    let answer = server.ask(&requests);
    let lengths: Vec<&str> =
        answer.lines().filter_map(|line| line.strip_prefix("Content-Length: ")).map(str::trim).collect();
    assert_eq!(lengths, ["102", "0", "921600", "0", "1024", "0", "0"]);
}

#[test]
fn what_has_begun_is_answered_before_the_end() {
    let server = Running::start(config());
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(b"GET /work?duration=300ms HTTP/1.1\r\n\r\n").expect("it is sent");
    server.until(|stats| stats["working"] == 1);
    server.end();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers and closes");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    server.wait();
}

#[test]
fn too_many_connections_are_closed_at_once() {
    let limits = Limits { connections_max: 2, ..Limits::default() };
    let server = Running::start(ServeConfig { limits, ..config() });
    let kept: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(server.address).expect("it listens")).collect();
    let mut third = TcpStream::connect(server.address).expect("it listens");
    third.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    assert_eq!(third.read(&mut [0; 10]).expect("it is closed"), 0);
    drop(kept);
    // As soon as they are gone, others are served.
    while server.exchange("GET / HTTP/1.0\r\n\r\n").is_none_or(|answer| answer.is_empty()) {}
    assert!(server.stats()["connections-displaced"].as_u64() > Some(0));
}

#[test]
fn silent_connections_keep_nobody_out() {
    let limits = Limits { connections_max: 2, when_full: WhenFull::CloseIdle, ..Limits::default() };
    let server = Running::start(ServeConfig { limits, ..config() });
    let mut silent: Vec<TcpStream> = (0..5).map(|_| TcpStream::connect(server.address).expect("it listens")).collect();
    let answer = server.exchange("GET / HTTP/1.0\r\n\r\n").expect("it is let in");
    assert!(answer.starts_with("HTTP/1.0 200 ") || answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(server.stats()["connections-displaced"].as_u64() >= Some(4));
    // The ones that had come first had to go.
    for stream in &mut silent[..3] {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        assert_eq!(stream.read(&mut [0; 10]).unwrap_or(0), 0);
    }
    // Whoever waits for an answer stays.
    let mut working = TcpStream::connect(server.address).expect("it listens");
    working.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    working.write_all(b"GET /work?duration=300ms HTTP/1.0\r\n\r\n").expect("it is sent");
    server.until(|stats| stats["working"] == 1);
    let _crowd: Vec<TcpStream> = (0..5).map(|_| TcpStream::connect(server.address).expect("it listens")).collect();
    let mut answer = String::new();
    working.read_to_string(&mut answer).expect("it answers");
    assert!(answer.contains(" 200 "), "{answer}");
}
