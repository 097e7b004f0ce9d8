//! What to simulate.

use machine::Rng;
use machine::nanos::Span;
use placement::{Strategy, TimeoutConfig};
use store::Reads;

use super::byzantine::Lies;
use super::disk::Speed;
use super::fault::Kind;
use super::network::Quality;
use super::sizes::ServerSizes;

/// What to simulate. [`Scenario::drawn`] makes one of many kinds.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Servers that found the cluster.
    pub servers: u64,
    /// Clients that work on entries.
    pub clients: u32,
    /// Clients that watch.
    pub watchers: u32,
    /// Clients that stand in a queue for a lock.
    pub lockers: u32,
    /// Entries.
    pub entries: u32,
    /// How long a client pauses between two operations, on average.
    pub think: Span,
    /// How long clients work while things go wrong.
    pub active: Span,
    /// How long the cluster may take, once nothing goes wrong any more, until every shard takes writes, every move is
    /// over, and all replicas agree.
    pub recovery: Span,
    /// How many things go wrong, at least and at most.
    pub faults: (u32, u32),
    /// What may go wrong.
    pub kinds: Vec<Kind>,
    /// The network.
    pub quality: Quality,
    /// The disks.
    pub speed: Speed,
    /// How far a clock's speed is off at most, in parts per million. [`Kind::ClockBeyond`] goes beyond.
    pub drift_ppm_max: i32,
    /// How reads are made linearizable.
    pub reads: Reads,
    /// The election timeout.
    pub election: TimeoutConfig,
    /// Servers draw their own instead, 0.1 s to 1 s, fixed or measured, and perhaps others when they start again.
    pub elections_vary: bool,
    /// How modules are spread over shards.
    pub strategy: Strategy,
    /// How much servers keep and hold.
    pub sizes: ServerSizes,
    /// Values have up to a mebibyte instead of a few hundred bytes.
    pub large_values: bool,
    /// The last of the founders lies to the others while things go wrong.
    pub lies: Option<Lies>,
    /// Bytes that a watcher reads in a second.
    pub reader_bytes_s: u64,
    /// Last changes to a server's configuration: for errors planted on purpose.
    pub configure: fn(&mut store::Config),
    /// Keep a record of what happened, for a person to read.
    pub trace: bool,
}

impl Default for Scenario {
    /// Three servers, five clients, everything that may go wrong while clocks keep their bound.
    fn default() -> Self {
        Self {
            servers: 3,
            clients: 5,
            watchers: 1,
            lockers: 0,
            entries: 6,
            think: Span::from_ms(25),
            active: Span::from_secs(9),
            recovery: Span::from_secs(12),
            faults: (6, 20),
            kinds: Kind::ALL.into_iter().filter(|kind| !matches!(kind, Kind::ClockBeyond | Kind::BitRot)).collect(),
            quality: Quality::default(),
            speed: Speed::default(),
            drift_ppm_max: 20_000,
            reads: Reads::Lease { drift_per_mille: 50 },
            election: TimeoutConfig { min: Span::from_ms(200), max: Span::from_ms(800), fixed: None },
            elections_vary: false,
            strategy: Strategy::Single,
            sizes: ServerSizes::default(),
            large_values: false,
            lies: None,
            reader_bytes_s: 1 << 30,
            configure: |_| {},
            trace: false,
        }
    }
}

impl Scenario {
    /// What a server's disk may hold beyond three times the content, the log's limit, and twice what lives in the log.
    pub fn disk_slack_bytes(&self) -> u64 {
        self.sizes.disk_slack_bytes() + if self.large_values { 64 << 20 } else { 0 }
    }

    /// [`Scenario::drawn`] with a server that lies.
    pub fn hostile(seed: u64) -> Self {
        Self::drawn(seed).with_liar(seed)
    }

    /// The same with a server that lies, in one of ten about everything.
    #[must_use]
    pub fn with_liar(mut self, seed: u64) -> Self {
        self.servers = self.servers.max(3);
        self.lies = Some(if seed.is_multiple_of(10) { Lies::Any } else { Lies::Bounded });
        self
    }

    /// One of many kinds of scenarios, by chance: sizes, networks, clocks, what may go wrong, in half of them only a few things.
    pub fn drawn(seed: u64) -> Self {
        let mut scenario = Self::with_all_kinds(seed);
        scenario.draw_kinds(&mut Rng::new(seed).fork(0x5a12));
        scenario
    }

    /// The same, but nothing is left out of what may go wrong: so seeds were until fd72603.
    pub fn with_all_kinds(seed: u64) -> Self {
        let mut rng = Rng::new(seed).fork(0x5ce7);
        let mut scenario = Self {
            servers: [3, 3, 3, 3, 5, 1][rng.below(6) as usize],
            clients: 3 + rng.below(4),
            entries: 2 + rng.below(6),
            ..Self::default()
        };
        if rng.below(3) == 0 {
            scenario.strategy = Strategy::Distributed;
        }
        if rng.below(3) == 0 {
            scenario.kinds.retain(|kind| !kind.changes_the_cluster());
            // All shards have replicas on all servers: one disk may be lost.
            scenario.kinds.push(Kind::BitRot);
        }
        match rng.below(4) {
            0 => scenario.quality.lost_per_mille = 30,
            1 => scenario.quality.delay_more = Span::from_ms(5),
            _ => {}
        }
        match rng.below(4) {
            // Reads by index hold whatever clocks do.
            0 => {
                scenario.reads = Reads::Index;
                scenario.kinds.push(Kind::ClockBeyond);
            }
            1 => scenario.election.fixed = Some(Span::from_ms(150 + u64::from(rng.below(250)))),
            _ => {}
        }
        if rng.below(4) == 0 {
            // Snapshots all the time.
            scenario.sizes = scenario.sizes.with_tiny_logs();
        }
        scenario.elections_vary = rng.below(4) == 0;
        // A stream of its own: what was drawn above stays as it was.
        let mut rng_of_sizes = Rng::new(seed).fork(0xb0d9);
        scenario.draw_sizes(&mut rng_of_sizes);
        if rng.below(3) == 0 {
            // Answers come when nobody waits for them any more.
            scenario.quality.late = Span::from_ms(900);
        }
        if rng.below(10) == 0 {
            scenario.large_values = true;
            scenario.sizes = scenario.sizes.with_production_logs();
            // Readers that it suits.
            scenario.reader_bytes_s = scenario.reader_bytes_s.max(10_000_000);
        }
        if rng.below(3) == 0 {
            scenario.lockers = 2 + rng.below(3);
        }
        // Who waits for a lock has no use for a store without room.
        let mut rng_of_quota = Rng::new(seed).fork(0x900a);
        if scenario.lockers == 0 && rng_of_quota.below(4) == 0 {
            let bytes = [700, 1_500, 3_000][rng_of_quota.below(3) as usize];
            scenario.sizes.quota_bytes = Some(if scenario.large_values { bytes << 10 } else { bytes });
        }
        scenario
    }

    /// Leaves half of the scenarios few of the things that may go wrong. These then happen often, one upon the other, which they seldom
    /// do among many (swarm testing: Groce and others, ISSTA 2012).
    fn draw_kinds(&mut self, rng: &mut Rng) {
        if rng.below(2) > 0 {
            return;
        }
        let few = 2 + rng.below(4) as usize;
        while self.kinds.len() > few {
            self.kinds.swap_remove(rng.below(self.kinds.len() as u32) as usize);
        }
    }

    /// How much there is, and how little room for it.
    fn draw_sizes(&mut self, rng: &mut Rng) {
        if rng.below(3) > 0 {
            return;
        }
        self.sizes.watch_message_bytes = [1, 500, 5_000][rng.below(3) as usize];
        self.reader_bytes_s = [10_000, 20_000, 200_000][rng.below(3) as usize];
        self.sizes.memory_bytes = [128 << 10, 512 << 10, 2 << 20][rng.below(3) as usize];
    }
}
