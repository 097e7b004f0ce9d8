//! From killing a node to the first write that succeeds.

use std::time::Duration;

use fabric::{ClusterLoad, Operation};
use machine::nanos::{Span, Time};
use node::{BootClock, Client};
use store::client::ClientConfig;
use store::protocol::{Answer, Consistency, Error};
use workload::entry::{Action, Change, Input, Leaf, Output};
use workload::{CARS, Cars, Layout};

use super::history;
use super::history::LiveReader;
use super::nodes::Nodes;
use super::recorder::Recorder;
use crate::measure::cluster_record::ClusterRecord;

/// How soon the client asks elsewhere, and again: what is measured is the election, not the client's patience.
const ATTEMPT: Span = Span::from_ms(50);
/// The longest pause between attempts.
const BACKOFF: Span = Span::from_ms(5);

/// Kills and restarts as often as the load says.
pub(super) fn run(nodes: &mut Nodes, load: &ClusterLoad) -> Result<ClusterRecord, String> {
    nodes.make_ready(&[CARS])?;
    let clock = BootClock::start();
    let mut recorder = Recorder::new(&[Operation::Election]);
    let entry = nodes.entries_used();
    nodes.use_entries(entry + 1);
    let mut happened = Vec::new();
    for number in 0..u64::from(load.requests) {
        nodes.wait_until_caught_up()?;
        let victim = *nodes.choose(load.victim, CARS)?.first().ok_or("there is nobody to kill")?;
        let survivors: Vec<usize> = (0..nodes.count()).filter(|&number| number != victim).collect();
        let client = nodes.client(&survivors, config())?;
        let mut writer = Writer { client, clock, recorder: &mut recorder, entry, patience: nodes.patience() };
        // The client knows the leader and has its connections.
        writer.write(2 * number + 1)?;
        let killed = clock.now();
        nodes.kill(victim);
        let written = writer.write(2 * number + 2)?;
        let took = written.since(killed);
        recorder.took(Operation::Election, took);
        recorder.lasted(Operation::Election, took);
        happened.push(format!("{:.2} s: {} killed", killed.since(Time::ZERO).as_secs_f64(), nodes.name(victim)));
        nodes.restart(victim)?;
    }
    nodes.wait_until_caught_up()?;
    history::read_all(&mut LiveReader::new(nodes, clock)?, &mut recorder)?;
    let resident = nodes.resident_max_bytes();
    Ok(ClusterRecord { resident_max_bytes: resident, faults: happened, ..history::conclude(&recorder) })
}

fn config() -> ClientConfig {
    ClientConfig {
        attempt_timeout: ATTEMPT,
        backoff_min: Span::from_ms(1),
        backoff_max: BACKOFF,
        ..ClientConfig::default()
    }
}

struct Writer<'a> {
    client: Client,
    clock: BootClock,
    recorder: &'a mut Recorder,
    entry: u32,
    patience: Duration,
}

impl Writer<'_> {
    /// When the write was acknowledged.
    fn write(&mut self, value: u64) -> Result<Time, String> {
        let action = Action::Write { condition: None, change: Change::Put(Leaf::A, value) };
        let input = Input { entry: self.entry, action };
        let ticket = self.recorder.invoked(0, self.clock.now(), input);
        let body = Cars::numbered(0).request(input, Consistency::Linearizable);
        match self.client.request(body, self.patience) {
            Ok(Answer::Written { revision }) => {
                let now = self.clock.now();
                self.recorder.returned(ticket, now, Output::Written { revision });
                Ok(now)
            }
            Ok(other) => Err(format!("a write was answered by {other:?}")),
            Err(error) if matches!(error.request(), Some(Error::Timeout { .. })) => {
                Err(format!("nobody was elected: {error}"))
            }
            Err(error) => Err(error.to_string()),
        }
    }
}
