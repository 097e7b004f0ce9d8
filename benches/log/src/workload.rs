//! What is written: random bytes, cut into entries.

use std::time::Duration;

use bytes::Bytes;
use machine::Rng;

/// Content of an entry, in bytes.
pub const ENTRY_BYTES: usize = 200;

/// Size of a log's file at which the next one begins, for both logs.
pub const FILE_BYTES: u64 = 64 << 20;

/// Batches of a turn that are written before the clock runs: files are created with the first one.
const WARM_UP_BATCHES: usize = 20;

/// Batches of a turn: as many as make up so many bytes, but neither fewer nor more than these.
const TURN_BYTES: usize = 24 << 20;
const BATCHES_MIN: usize = 30;
const BATCHES_MAX: usize = 600;

/// A batch: so many groups, each with so many entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    pub groups: u64,
    pub entries: u64,
}

impl Workload {
    pub fn entries_per_batch(self) -> usize {
        (self.groups * self.entries) as usize
    }

    pub fn payload_bytes(self) -> usize {
        self.entries_per_batch() * ENTRY_BYTES
    }

    /// Batches that are measured in a turn.
    pub fn batches(self) -> usize {
        (TURN_BYTES / self.payload_bytes()).clamp(BATCHES_MIN, BATCHES_MAX)
    }

    /// Files that a turn fills at most, when a tenth is overhead.
    pub fn files(self) -> u64 {
        let bytes = (self.batches() + WARM_UP_BATCHES) * (self.payload_bytes() * 11 / 10 + 400);
        (bytes as u64).div_ceil(FILE_BYTES)
    }
}

/// Random bytes from which entries are cut, so that making them costs nothing.
#[derive(Debug)]
pub struct Pool {
    bytes: Bytes,
    rng: Rng,
}

impl Pool {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let bytes: Vec<u8> = (0..1 << 20).map(|_| rng.bits() as u8).collect();
        Self { bytes: bytes.into(), rng }
    }

    pub fn take(&mut self, len: usize) -> Bytes {
        let start = self.rng.below((self.bytes.len() - len) as u32) as usize;
        self.bytes.slice(start..start + len)
    }
}

/// Something that makes batches durable.
pub trait Log {
    /// Makes the entries of the next batch; not measured.
    fn prepare(&mut self, workload: Workload, pool: &mut Pool);

    /// Writes them, and returns when they are durable.
    fn write(&mut self);
}

/// What a turn took.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// What a batch costs that nothing else disturbs.
    pub p10: Duration,
    pub p50: Duration,
    pub p99: Duration,
    pub entries_per_s: f64,
    /// Bytes handed to the file system by payload byte.
    pub amplification: f64,
}

/// Runs a turn.
pub fn measure(log: &mut dyn Log, workload: Workload, pool: &mut Pool) -> Figures {
    for _ in 0..WARM_UP_BATCHES {
        log.prepare(workload, pool);
        log.write();
    }
    let before = written_bytes();
    let mut times = Vec::new();
    for _ in 0..workload.batches() {
        log.prepare(workload, pool);
        let start = std::time::Instant::now();
        log.write();
        times.push(start.elapsed());
    }
    let written = written_bytes() - before;
    let total: Duration = times.iter().sum();
    times.sort_unstable();
    Figures {
        p10: times[times.len() / 10],
        p50: times[times.len() / 2],
        p99: times[times.len() * 99 / 100],
        entries_per_s: (workload.entries_per_batch() * times.len()) as f64 / total.as_secs_f64(),
        amplification: written as f64 / (workload.payload_bytes() * times.len()) as f64,
    }
}

/// What this process has handed to `write` and its kin, in bytes (proc(5), `wchar`).
fn written_bytes() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").expect("Linux has it");
    let wchar = io.lines().find_map(|line| line.strip_prefix("wchar: ")).expect("Linux has it");
    wchar.parse().expect("a number")
}
