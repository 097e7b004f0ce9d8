//! One server of the simulated cluster: its process, its clock, its disk, and what survives the process.

use std::collections::{BTreeMap, VecDeque};

use machine::nanos::{Span, Step, Time};
use machine::{Control, Rng, ServerId};
use placement::TimeoutConfig;
use store::{Founding, Input, Output, Server};
use wal::Log;

use super::clocks::Clock;
use super::disk::Disk;
use super::scenario::Scenario;

/// The cluster's number.
pub const CLUSTER: u64 = 0xc1;

/// What passes between two inputs of one batch.
const INPUT: Span = Span::from_ns(1);

/// A machine on which a server runs, or ran.
#[allow(clippy::struct_excessive_bools, reason = "each is a state of its own")]
pub struct Node {
    /// The server's number.
    pub id: ServerId,
    /// Its clock.
    pub clock: Clock,
    /// Its disk.
    pub disk: Disk,
    /// What runs.
    pub process: Option<Process>,
    /// How many processes there were.
    pub epoch: u64,
    /// The process is stopped in its tracks; what comes in waits.
    pub is_paused: bool,
    /// It was removed from the cluster. Until it has stopped itself others may need its replicas, so it is kept running.
    pub is_leaving: bool,
    /// It was removed and is turned off for good.
    pub is_gone: bool,
    /// A bit of its disk has flipped. If it does not start for that, it is gone.
    pub is_rotten: bool,
    /// What earlier processes counted.
    pub counted: store::status::Counters,
    /// Addresses known from joining.
    members: BTreeMap<ServerId, String>,
    /// With what timeout it ran last, if it draws its own.
    election: Option<TimeoutConfig>,
    rng: Rng,
}

/// A process.
pub struct Process {
    /// The server.
    pub server: Server,
    /// What came in and was not handled.
    pub inbox: VecDeque<Input>,
    /// When it runs next.
    pub run_at: Time,
    /// When it has handled so many more inputs it stands still, before it says anything.
    pub halts_after: Option<usize>,
    /// What its clock showed last.
    shown: Time,
}

/// The address of a server.
pub fn address(id: ServerId) -> String {
    format!("10.0.0.{}:4000", id.0)
}

impl Node {
    /// A new machine with an empty disk.
    pub fn new(id: ServerId, clock: Clock, disk: Disk, members: BTreeMap<ServerId, String>, rng: Rng) -> Self {
        Self {
            id,
            clock,
            disk,
            process: None,
            epoch: 0,
            is_paused: false,
            is_leaving: false,
            is_gone: false,
            is_rotten: false,
            counted: store::status::Counters::default(),
            members,
            election: None,
            rng,
        }
    }

    /// Writes what the cluster begins with to the disk of a founder.
    pub fn found(&mut self, founding: &Founding, scenario: &Scenario) {
        let (mut log, _) =
            Log::recover(&self.disk.files, scenario.sizes.log_config(CLUSTER)).expect("an empty folder can be read");
        log.identify(self.identity()).expect("a valid identity");
        founding.write(&mut log);
        let write = log.take_batch().expect("founding has something to write");
        self.disk.files.carry_out(&write).expect("an empty disk takes it");
    }

    fn identity(&self) -> wal::Identity {
        let name = format!("n{}", self.id);
        wal::Identity { format: wal::FORMAT, cluster: u128::from(CLUSTER), server: self.id, name }
    }

    /// Starts the server from what is on the disk.
    ///
    /// # Errors
    /// Why it does not start, which is wrong unless the disk is.
    pub fn start(&mut self, now: Time, scenario: &Scenario) -> Result<(), String> {
        assert!(self.process.is_none(), "one process at a time");
        self.epoch += 1;
        self.is_paused = false;
        let (mut log, recovered) =
            Log::recover(&self.disk.files, scenario.sizes.log_config(CLUSTER)).map_err(|error| error.to_string())?;
        if recovered.identity.is_none() {
            log.identify(self.identity()).map_err(|error| error.to_string())?;
        }
        let mut config = store::Config::new(CLUSTER, self.id, format!("n{}", self.id));
        config.address = address(self.id);
        config.election = self.election(scenario);
        config.reads = scenario.reads;
        scenario.sizes.configure(&mut config);
        config.incarnation = self.epoch;
        (scenario.configure)(&mut config);
        let local = self.clock.shows(now);
        let rng = self.rng.fork(self.epoch);
        let server = Server::open(config, log, recovered, &self.disk.files, self.members.clone(), rng, local)
            .map_err(|error| error.to_string())?;
        self.process =
            Some(Process { server, inbox: VecDeque::new(), run_at: Time::NEVER, halts_after: None, shown: local });
        Ok(())
    }

    /// Its election timeout, which it may have changed since it ran last.
    fn election(&mut self, scenario: &Scenario) -> TimeoutConfig {
        if !scenario.elections_vary {
            return scenario.election;
        }
        let mut rng = self.rng.fork(self.epoch | 1 << 40);
        if let Some(before) = self.election.filter(|_| rng.below(2) == 0) {
            return before;
        }
        let mut draw = || {
            let some_ms = [100 + rng.below(100), 250 + rng.below(250), 100 + rng.below(900), 1_000];
            Span::from_ms(u64::from(some_ms[rng.below(4) as usize]))
        };
        let (one, other) = (draw(), draw());
        let fixed = (rng.below(2) == 0).then_some(one);
        let drawn = TimeoutConfig { min: one.min(other), max: one.max(other), fixed };
        self.election = Some(drawn);
        drawn
    }

    /// The process ends; the disk stays as the caller leaves it.
    pub fn stop(&mut self) {
        if let Some(process) = self.process.take() {
            add(&mut self.counted, &process.server.counters());
        }
        self.is_paused = false;
    }

    /// Handles so many of the inputs that came in, each with its own time, as whoever drives it live does it.
    pub fn handle(&mut self, now: Time, most: usize) {
        let process = self.process.as_mut().expect("only what runs is run");
        process.shown = process.shown.max(self.clock.shows(now));
        let most = most.min(process.inbox.len());
        for input in process.inbox.drain(..most) {
            process.shown += INPUT;
            process.server.handle(process.shown, input);
        }
    }

    /// What came in while it stood still is read one connection after another: what came in order by one stays in order.
    pub fn sort_inbox(&mut self, rng: &mut Rng) {
        let Some(process) = self.process.as_mut() else { return };
        let mut ranks = BTreeMap::new();
        for input in &process.inbox {
            ranks.entry(connection_of(input)).or_insert_with(|| rng.bits());
        }
        process.inbox.make_contiguous().sort_by_key(|input| ranks[&connection_of(input)]);
    }

    /// Handles what came in and gives what comes out, and when to come back.
    pub fn run(&mut self, now: Time) -> (Vec<Output>, Time) {
        self.handle(now, usize::MAX);
        let process = self.process.as_mut().expect("only what runs is run");
        let local = process.shown;
        let mut outputs = Vec::new();
        loop {
            match process.server.poll(local) {
                Step::Do(output) => outputs.push(output),
                Step::Wait(until) => return (outputs, self.clock.moment_of(until)),
            }
        }
    }

    /// So much of what is said to a client is on its way, or waits.
    pub fn note_waiting(&mut self, client: store::ClientId, bytes: usize) {
        if let Some(process) = &mut self.process {
            process.server.handle(process.shown, Input::Waiting { client, bytes });
        }
    }

    /// The server, if it runs.
    pub fn server(&self) -> Option<&Server> {
        self.process.as_ref().map(|process| &process.server)
    }

    /// All that its processes counted.
    pub fn counters(&self) -> store::status::Counters {
        let mut all = self.counted;
        if let Some(server) = self.server() {
            add(&mut all, &server.counters());
        }
        all
    }
}

/// By what an input comes to the process: a peer, a client, or something else.
const fn connection_of(input: &Input) -> (u8, u64) {
    match input {
        Input::Peer { from, .. }
        | Input::PeerLost(from)
        | Input::PeerSpeaks { peer: from, .. }
        | Input::SecretKept { from, .. }
        | Input::Disowned(from) => (0, from.0),
        Input::Client { client, .. }
        | Input::Caller { client, .. }
        | Input::Host { client, .. }
        | Input::ClientGone(client)
        | Input::ClientSilent(client)
        | Input::Waiting { client, .. } => (1, client.0),
        Input::Written(_) | Input::WriteFailed { .. } | Input::WallClock(_) | Input::Held { .. } | Input::Tick => {
            (2, 0)
        }
    }
}

fn add(sum: &mut store::status::Counters, more: &store::status::Counters) {
    sum.requests += more.requests;
    sum.forwarded += more.forwarded;
    sum.proposals += more.proposals;
    sum.applied += more.applied;
    sum.lease_reads += more.lease_reads;
    sum.index_reads += more.index_reads;
    sum.stale_reads += more.stale_reads;
    sum.campaigns += more.campaigns;
    sum.elected += more.elected;
    sum.log_writes += more.log_writes;
    sum.log_bytes += more.log_bytes;
    sum.snapshots_written += more.snapshots_written;
    sum.snapshots_sent += more.snapshots_sent;
    sum.busy += more.busy;
    sum.timeouts += more.timeouts;
    sum.watch_events += more.watch_events;
    sum.watch_skips += more.watch_skips;
    sum.malformed += more.malformed;
    sum.refused.add(&more.refused);
    sum.changes_refused += more.changes_refused;
    sum.panics += more.panics;
    sum.items_dropped += more.items_dropped;
}
