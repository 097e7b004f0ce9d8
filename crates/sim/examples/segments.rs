//! Writes small values over and over to one server and holds what its disk takes against what there is: `segments WRITES
//! [SECONDS]` stops after so many writes, or so many seconds. The store and the log are those that run live, with their
//! own sizes; the disk is in memory, and syncs cost nothing.
//!
//! Of 64 shards one is written all the time, a few now and then, the others once: what each of them keeps must not hold
//! on to what the first has written.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use machine::nanos::{Span, Step, Time};
use machine::{Control, Rng, ServerId};
use placement::Strategy;
use store::protocol::{ClientMessage, Request, RequestBody, ServerMessage};
use store::{ClientId, Config, Founding, Input, Output, RequestId, Server};
use tree::{Change, Location, Path, Transaction};
use wal::{Log, MemoryDisk};

const MIB: f64 = 1_048_576.0;
const SHARDS: u64 = 64;
/// Values of the shard that is written all the time.
const KEYS: u64 = 8_192;
const VALUE_BYTES: usize = 200;
/// Requests that are handed in before the server is polled.
const PIPELINE: u64 = 256;
const REPORT_EVERY: u64 = 1_000_000;

struct Soak {
    server: Server,
    disk: MemoryDisk,
    now: Time,
    written: u64,
    busy: u64,
    sequence: u64,
    used_max: u64,
    /// The most beyond three times the content.
    beyond_max: u64,
}

fn start(disk: &MemoryDisk, now: Time) -> Server {
    let (mut log, recovered) = Log::recover(disk, wal::Config::default()).expect("it was written by us");
    if recovered.identity.is_none() {
        unreachable!("it was founded");
    }
    log.identify(identity()).expect("it is the same server");
    let config = Config::new(7, ServerId(1), "soak");
    Server::open(config, log, recovered, disk, BTreeMap::new(), Rng::new(1), now).expect("it was written by us")
}

fn identity() -> wal::Identity {
    wal::Identity { format: wal::FORMAT, cluster: 7, server: ServerId(1), name: "soak".into() }
}

impl Soak {
    fn new() -> Self {
        let servers = BTreeMap::from([(ServerId(1), ("soak".to_owned(), "10.0.0.1:1".to_owned()))]);
        let founding = Founding {
            cluster: 7,
            servers,
            strategy: Strategy::Distributed,
            protocol: store::protocol::VERSION,
            secret: None,
        };
        let mut disk = MemoryDisk::new();
        let (mut log, _) = Log::recover(&disk, wal::Config::default()).expect("an empty folder is a new one");
        log.identify(identity()).expect("a valid identity");
        founding.write(&mut log);
        disk.carry_out(&log.take_batch().expect("there is something to write")).expect("the disk works");
        let server = start(&disk, Time::ZERO);
        Self { server, disk, now: Time::ZERO, written: 0, busy: 0, sequence: 0, used_max: 0, beyond_max: 0 }
    }

    fn drain(&mut self) {
        loop {
            match self.server.poll(self.now) {
                Step::Wait(_) => return,
                Step::Do(Output::Disk(write)) => {
                    self.disk.carry_out(&write).expect("the disk works");
                    self.server.handle(self.now, Input::Written(write.id));
                }
                Step::Do(Output::Client { client, message: ServerMessage::Response(response), .. }) => {
                    if response.result.is_ok() {
                        self.written += 1;
                    } else {
                        self.busy += 1;
                    }
                    // It reads at once: what waits for a client counts as held for it until the server hears otherwise.
                    self.server.handle(self.now, Input::Waiting { client, bytes: 0 });
                }
                Step::Do(Output::Stop(why)) => panic!("{why}"),
                Step::Do(_) => {}
            }
        }
    }

    fn put(&mut self, path: &str, value: &[u8]) {
        self.sequence += 1;
        let at = Location::config(Path::parse(path).expect("a path"));
        let body = RequestBody::Write(Transaction::of(Change::Put { at, value: value.to_vec().into() }));
        let sequence = self.sequence;
        let request = Request { session: 1, sequence, acknowledged: sequence, timeout_ms: 60_000, body };
        self.server.handle(
            self.now,
            Input::Client { client: ClientId(1), id: RequestId(0), message: ClientMessage::Request(request) },
        );
    }

    fn turn(&mut self) {
        self.now += Span::from_ms(2);
        self.server.handle(self.now, Input::Tick);
        self.drain();
        let value = [self.sequence as u8; VALUE_BYTES];
        for _ in 0..PIPELINE {
            let next = self.sequence + 1;
            let module = if next.is_multiple_of(10_007) { next / 10_007 % 4 + 1 } else { 0 };
            let key = machine::mix(next) % KEYS;
            self.put(&format!("/busy{module}:values/value={key}"), &value);
        }
        self.drain();
        self.disk.write_journal();
        self.weigh();
    }

    fn content(&self) -> u64 {
        self.server.disk_status().content_bytes
    }

    fn weigh(&mut self) {
        let used = self.disk.used_bytes();
        self.used_max = self.used_max.max(used);
        self.beyond_max = self.beyond_max.max(used.saturating_sub(3 * self.content()));
    }

    fn print(&self, since: Instant) {
        let (status, counters) = (self.server.disk_status(), self.server.counters());
        println!(
            "{} writes in {:.0} s ({} refused): {:.0} MiB of log written; on the disk {:.1} MiB (log {:.1} in {} segments, snapshots {:.1}), at \
             most {:.1}; content {:.1} MiB; beyond three times the content at most {:.1} MiB; log in memory {:.1} MiB; {} snapshots made",
            self.written,
            since.elapsed().as_secs_f64(),
            self.busy,
            counters.log_bytes as f64 / MIB,
            self.disk.used_bytes() as f64 / MIB,
            status.log_bytes as f64 / MIB,
            status.log_segments,
            status.snapshot_bytes as f64 / MIB,
            self.used_max as f64 / MIB,
            status.content_bytes as f64 / MIB,
            self.beyond_max as f64 / MIB,
            status.log_memory_bytes as f64 / MIB,
            counters.snapshots_written
        );
    }
}

#[allow(clippy::disallowed_methods)]
fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let (Some(&writes), seconds) = (numbers.first(), numbers.get(1).copied().unwrap_or(u64::MAX)) else {
        eprintln!("usage: soak WRITES [SECONDS]");
        return ExitCode::from(2);
    };
    let start_time = Instant::now();
    let mut soak = Soak::new();
    while soak.now < Time::ZERO + Span::from_secs(3) {
        soak.now += Span::from_ms(10);
        soak.server.handle(soak.now, Input::Tick);
        soak.drain();
    }
    for shard in 0..SHARDS {
        for key in 0..4 {
            soak.put(&format!("/busy{shard}:values/value={key}"), &[1; VALUE_BYTES]);
        }
        for _ in 0..30 {
            soak.now += Span::from_ms(10);
            soak.server.handle(soak.now, Input::Tick);
            soak.drain();
        }
    }
    let mut next = REPORT_EVERY;
    while soak.written < writes && start_time.elapsed() < Duration::from_secs(seconds) {
        soak.turn();
        if soak.written >= next {
            soak.print(start_time);
            next += REPORT_EVERY;
        }
    }
    soak.print(start_time);
    let before = soak.server.digests();
    let again = start(&soak.disk, soak.now);
    let is_same = before.iter().all(|(shard, held)| again.digests().get(shard).is_some_and(|found| found.0 <= held.0));
    println!("{} shards; started again from its disk: {}", before.len() - 1, if is_same { "well" } else { "NOT WELL" });
    let is_bounded = soak.beyond_max <= 256 << 20;
    println!("at most three times the content and 256 MiB: {is_bounded}");
    if is_same && is_bounded { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
