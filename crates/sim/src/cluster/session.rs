//! A simulated cluster in the hands of a caller: nothing goes wrong but what the caller does, and clients ask what it says.
//!
//! It is what measurements are made of: the same servers, disks and network as in [`super::run`], without a nemesis.

use std::collections::BTreeMap;

use machine::ServerId;
use machine::nanos::{Span, Time};
use placement::{Strategy, TimeoutConfig};
use store::protocol::{Answer, ClientMessage, Error, Request, RequestBody, ServerMessage};
use store::status::RaftRole;
use store::{ClientId, Founding};
use tree::Path;
use workload::{Next, Script};

use super::core::{Core, Event, client_of};
use super::disk::Speed;
use super::network::Quality;
use super::node::{CLUSTER, address};
use super::scenario::Scenario;
use super::sizes::ServerSizes;

/// How often a caller that waits for something looks.
const LOOK: Span = Span::from_ms(1);

/// What a session begins with.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Servers that found the cluster.
    pub servers: u64,
    /// How modules are spread over shards.
    pub strategy: Strategy,
    /// The election timeout.
    pub election: TimeoutConfig,
    /// The network. Messages are late, lost and doubled as it says.
    pub quality: Quality,
    /// The disks.
    pub speed: Speed,
    /// Whether candidates ask first whether they would be elected.
    pub pre_vote: bool,
}

/// A cluster under way. The same seed and calls give the same answers at the same times.
pub struct Session {
    core: Core,
    /// Answers that came since the last look, with the client's number.
    answers: Vec<(u32, Result<Answer, Error>)>,
    /// Clients whose time has come.
    woken: Vec<u32>,
    sequence: u64,
    /// By client and server; one that has broken is made again.
    connections: BTreeMap<(u32, ServerId), ClientId>,
}

impl Session {
    /// A cluster that has just been founded. Leaders stay where they are elected.
    pub fn new(seed: u64, setting: &Setting) -> Self {
        let scenario = Scenario {
            servers: setting.servers,
            quality: setting.quality,
            speed: setting.speed,
            election: setting.election,
            strategy: setting.strategy,
            // As servers have it that nobody hurries.
            sizes: ServerSizes {
                snapshot_log_bytes: 16 << 20,
                keep_log_bytes: 2 << 20,
                segment_bytes: wal::Config::default().segment_bytes,
                ..ServerSizes::default()
            },
            configure: if setting.pre_vote { leaders_stay } else { leaders_stay_and_no_pre_vote },
            ..Scenario::default()
        };
        let mut core = Core::new(seed, &scenario);
        let ids: Vec<ServerId> = (1..=setting.servers).map(ServerId).collect();
        let servers = ids.iter().map(|id| (*id, (format!("n{id}"), address(*id)))).collect();
        let founding = Founding {
            cluster: CLUSTER,
            servers,
            strategy: setting.strategy,
            protocol: store::protocol::VERSION,
            secret: None,
        };
        for id in ids {
            let mut node = core.new_node(id, BTreeMap::new());
            node.found(&founding, &scenario);
            core.nodes.insert(id, node);
            core.after(Span::from_ms(id.0), Event::Restart(id));
        }
        Self { core, answers: Vec::new(), woken: Vec::new(), sequence: 0, connections: BTreeMap::new() }
    }

    /// The moment.
    pub fn now(&self) -> Time {
        self.core.now
    }

    /// Servers that run.
    pub fn running(&self) -> Vec<ServerId> {
        self.core.running()
    }

    /// A server's process ends at once; what it had not synced is lost with it, as after SIGKILL.
    pub fn kill(&mut self, id: ServerId) {
        self.core.stop(id, false);
    }

    /// A server that was killed starts on the disk that it had.
    pub fn start(&mut self, id: ServerId) {
        self.core.start(id);
    }

    /// Who leads the shard of a path, as it says itself.
    pub fn leader(&self, path: &Path) -> Option<ServerId> {
        self.leader_and_term(path).map(|(leader, _)| leader)
    }

    /// The same, with the term it leads in.
    pub fn leader_and_term(&self, path: &Path) -> Option<(ServerId, u64)> {
        let leads = |id: &ServerId| {
            let node = &self.core.nodes[id];
            let server = node.server()?;
            let shard = server.map().route(path);
            let groups = server.replicas(node.clock.shows(self.core.now));
            let group = groups.iter().find(|group| group.shard == shard)?;
            (group.role == RaftRole::Leader).then_some((group.term, *id))
        };
        self.core.running().iter().filter_map(leads).max().map(|(term, id)| (id, term))
    }

    /// Whether all servers run, know a leader of each shard, and have applied what is committed.
    pub fn has_converged(&self) -> bool {
        let now = self.core.now;
        let servers: Vec<_> = self.core.nodes.values().filter_map(|node| Some((node, node.server()?))).collect();
        let groups: Vec<_> = servers.iter().flat_map(|(node, server)| server.replicas(node.clock.shows(now))).collect();
        let mut committed = BTreeMap::new();
        for group in &groups {
            let commit = committed.entry(group.shard).or_insert(0);
            *commit = group.commit.max(*commit);
        }
        servers.len() == self.core.nodes.len()
            && servers.iter().all(|(_, server)| server.map().moves().is_empty())
            && groups.iter().all(|group| group.leader.is_some() && group.applied >= committed[&group.shard])
    }

    /// Lets time pass until something is so. Whether it came to that.
    pub fn wait(&mut self, within: Span, is_so: impl Fn(&Self) -> bool) -> bool {
        let until = self.core.now + within;
        while !is_so(self) {
            if self.core.now >= until {
                return false;
            }
            self.run_until(self.core.now + LOOK);
        }
        true
    }

    /// Asks one server one thing. `None`: no answer within the time.
    pub fn ask(&mut self, server: ServerId, body: RequestBody, timeout: Span) -> Option<Result<Answer, Error>> {
        let until = self.core.now + timeout;
        let session = self.session();
        self.send(0, session, server, body, timeout);
        while self.answers.is_empty() && self.step(until) {}
        self.answers.pop().map(|(_, result)| result)
    }

    /// Lets clients ask until all are done; `servers` are the targets.
    ///
    /// # Errors
    /// If nothing happens any more, though clients wait.
    pub fn drive(&mut self, clients: usize, servers: &[ServerId], script: &mut impl Script) -> Result<(), String> {
        let sessions: Vec<u64> = (0..clients).map(|_| self.session()).collect();
        let mut states = vec![State::Idle; clients];
        loop {
            let now = self.core.now;
            for client in 0..clients {
                if states[client] != State::Idle {
                    continue;
                }
                states[client] = match script.next(client, now) {
                    Next::Ask { target, body, timeout } => {
                        self.send(client as u32, sessions[client], servers[target], body, timeout);
                        State::Asked
                    }
                    Next::Until(at) => {
                        self.core.calendar.push(at.max(now), Event::Wake(client as u32, 0));
                        State::Paused
                    }
                    Next::Wait => State::Waiting,
                    Next::Done => State::Done,
                };
            }
            if states.iter().all(|state| *state == State::Done) {
                return Ok(());
            }
            while self.answers.is_empty() && self.woken.is_empty() {
                if !self.step(Time::NEVER) {
                    return Err("the simulated cluster stands still, and clients wait for it".to_owned());
                }
            }
            for client in std::mem::take(&mut self.woken) {
                states[client as usize] = State::Idle;
            }
            for (client, result) in std::mem::take(&mut self.answers) {
                script.answered(client as usize, self.core.now, result);
                states[client as usize] = State::Idle;
                states.iter_mut().filter(|state| **state == State::Waiting).for_each(|state| *state = State::Idle);
            }
        }
    }

    fn session(&mut self) -> u64 {
        self.core.rng.bits()
    }

    fn send(&mut self, client: u32, session: u64, server: ServerId, body: RequestBody, timeout: Span) {
        self.sequence += 1;
        let timeout_ms = u32::try_from(timeout.as_ns() / 1_000_000).unwrap_or(u32::MAX);
        let sequence = self.sequence;
        let request = Request { session, sequence, acknowledged: sequence, timeout_ms, body };
        let known = self.connections.get(&(client, server)).copied();
        let connection = match known.filter(|connection| self.core.is_open(*connection)) {
            Some(connection) => connection,
            None => self.core.connect_stream(client, server),
        };
        self.connections.insert((client, server), connection);
        self.core.to_server(connection, server, ClientMessage::Request(request));
    }

    fn run_until(&mut self, until: Time) {
        while self.step(until) {}
    }

    /// One event; `false` if there is none before `until`, which is then the moment.
    fn step(&mut self, until: Time) -> bool {
        let core = &mut self.core;
        let Some((now, event)) = core.calendar.pop_until(until) else {
            if until != Time::NEVER {
                core.now = until;
            }
            return false;
        };
        core.now = now;
        match event {
            Event::Run(id) => core.run(id),
            Event::ToServer(to, input) => core.arrived(to, *input),
            Event::ToClient(connection, _, message) => {
                if let ServerMessage::Response(response) = *message {
                    self.answers.push((client_of(connection), response.result));
                }
            }
            Event::Disk(id, epoch, lane) => core.disk_done(id, epoch, lane),
            Event::Restart(id) => core.start(id),
            Event::Wake(client, _) => self.woken.push(client),
            Event::Nothing | Event::StreamEnds(_) | Event::Fault(_) | Event::Heal(_) | Event::Sample => {}
        }
        true
    }
}

fn leaders_stay(config: &mut store::Config) {
    config.balance_leaders = false;
}

fn leaders_stay_and_no_pre_vote(config: &mut store::Config) {
    leaders_stay(config);
    config.pre_vote = false;
}

/// What a client is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Asked,
    Paused,
    Waiting,
    Done,
}

#[cfg(test)]
mod tests {
    use store::protocol::Consistency;
    use tree::{Change, Location, Transaction};

    use super::*;

    fn setting(servers: u64) -> Setting {
        let quality = Quality { lost_per_mille: 0, doubled_per_mille: 0, late_per_mille: 0, ..Quality::default() };
        let election =
            TimeoutConfig { min: Span::from_ms(100), max: Span::from_secs(10), fixed: Some(Span::from_ms(100)) };
        Setting { servers, strategy: Strategy::Single, election, quality, speed: Speed::default(), pre_vote: true }
    }

    fn at() -> Location {
        Location::config(Path::parse("/car:cars/car-entry=1").unwrap())
    }

    fn put(value: &str) -> RequestBody {
        RequestBody::Write(Transaction::of(Change::Put { at: at(), value: value.as_bytes().to_vec().into() }))
    }

    /// Writes at one server, kills the leader, and writes again at another: when the answers came.
    fn election(seed: u64) -> (Span, Vec<Time>) {
        let mut session = Session::new(seed, &setting(3));
        assert!(session.wait(Span::from_secs(30), Session::has_converged));
        let mut times = Vec::new();
        let leader = session.leader(&at().path).unwrap();
        let other = session.running().into_iter().find(|id| *id != leader).unwrap();
        assert!(matches!(session.ask(other, put("before"), Span::from_secs(5)), Some(Ok(Answer::Written { .. }))));
        times.push(session.now());
        session.kill(leader);
        let killed = session.now();
        assert!(matches!(session.ask(other, put("after"), Span::from_secs(5)), Some(Ok(Answer::Written { .. }))));
        times.push(session.now());
        session.start(leader);
        assert!(session.wait(Span::from_secs(30), Session::has_converged));
        let read = RequestBody::Get { at: at(), consistency: Consistency::Linearizable };
        let answer = session.ask(leader, read, Span::from_secs(5));
        assert!(matches!(&answer, Some(Ok(Answer::Value(Some((_, value))))) if value == b"after"), "{answer:?}");
        (times[1].since(killed), times)
    }

    #[test]
    fn a_killed_leader_is_replaced_within_few_timeouts() {
        let took: Vec<Span> = (1..=20).map(|seed| election(seed).0).collect();
        assert!(took.iter().all(|span| *span > Span::from_ms(50) && *span < Span::from_secs(1)), "{took:?}");
        // A server that has asked the dead leader asks the new one as soon as it hears of it, not when its patience ends.
        let mean_ms = took.iter().map(|span| span.as_ns() / 1_000_000).sum::<u64>() / took.len() as u64;
        assert!(mean_ms < 250, "{mean_ms} ms: {took:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_times() {
        assert_eq!(election(7), election(7));
        assert_ne!(election(7), election(8));
    }
}
