//! One run: the loop over events, and what is looked at meanwhile and at the end.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use machine::ServerId;
use machine::nanos::{Span, Time};
use placement::ShardId;
use store::status::{GroupStatus, RaftRole};
use store::{Founding, Membership};
use tree::DigestCache;

use super::admin::ADMINISTRATOR;
use super::byzantine::Lies;
use super::clients::Clients;
use super::core::{Core, Event, client_of};
use super::lockers::Lockers;
use super::nemesis::Nemesis;
use super::node::{CLUSTER, Node, address};
use super::report::{Elections, Finding, Report};
use super::scenario::Scenario;
use super::watchers::Watchers;
use crate::linearizability::{Limits, Verdict, entry};

/// Bytes that a watcher reads in a second at least, once nothing goes wrong any more.
const READER_BYTES_S_AT_END: u64 = 200_000;

/// How often everything is looked at.
const SAMPLE: Span = Span::from_ms(50);
/// How long it takes at most to notify a watcher.
const NOTIFY: Span = Span::from_ms(100);
/// More events than that are no simulation, but a storm of messages.
const EVENTS_MAX: u64 = 5_000_000;

/// A run.
pub struct World {
    seed: u64,
    core: Core,
    clients: Clients,
    watchers: Watchers,
    lockers: Lockers,
    nemesis: Nemesis,
    events: u64,
    /// Who led a shard in a term.
    led: BTreeMap<(ShardId, u64), ServerId>,
    /// What a replica held when it had applied so much.
    held: BTreeMap<(ShardId, u64), u64>,
    /// Digests of values that replicas hold.
    digests: RefCell<DigestCache>,
    /// What was put down last of the replicas.
    noted: Vec<String>,
    /// The most that a disk held beyond three times the content, in bytes.
    disk_bytes_max: u64,
}

impl World {
    /// A cluster that has just been founded.
    pub fn new(seed: u64, scenario: &Scenario) -> Self {
        let mut core = Core::new(seed, scenario);
        let ids: Vec<ServerId> = (1..=scenario.servers).map(ServerId).collect();
        let servers = ids.iter().map(|id| (*id, (format!("n{id}"), address(*id)))).collect();
        let founding = Founding {
            cluster: CLUSTER,
            servers,
            strategy: scenario.strategy,
            protocol: store::protocol::VERSION,
            secret: None,
        };
        for id in ids {
            let mut node = core.new_node(id, BTreeMap::new());
            node.found(&founding, scenario);
            core.nodes.insert(id, node);
            core.after(Span::from_ms(id.0), Event::Restart(id));
        }
        let nemesis = Nemesis::new(&mut core);
        let clients = Clients::new(&mut core);
        let watchers = Watchers::new(&mut core);
        let lockers = Lockers::new(&mut core);
        core.after(SAMPLE, Event::Sample);
        Self {
            seed,
            core,
            clients,
            watchers,
            lockers,
            nemesis,
            events: 0,
            led: BTreeMap::new(),
            held: BTreeMap::new(),
            digests: RefCell::default(),
            noted: Vec::new(),
            disk_bytes_max: 0,
        }
    }

    /// Runs to the end.
    pub fn run(mut self) -> Report {
        let healed = Time::ZERO + self.core.scenario.active;
        self.run_until(healed, |_| false);
        self.nemesis.heal(&mut self.core);
        // Who reads slowly, and has been sent everything anew, could not have read it by the end.
        let reads = &mut self.core.scenario.reader_bytes_s;
        *reads = (*reads).max(READER_BYTES_S_AT_END);
        self.clients.is_over = true;
        self.lockers.healed(healed);
        let last = healed + self.core.scenario.recovery;
        let calm = self.run_until(last, |world| world.clients.are_idle() && world.nemesis.administrator.is_idle());
        self.clients.probe(&mut self.core);
        let probed = calm && self.run_until(last, |world| world.clients.unprobed().is_empty());
        let locked = probed && self.run_until(last, |world| world.lockers.go_on());
        self.lockers.is_over = true;
        let agreed = locked && self.run_until(last, |world| world.unfinished().is_none());
        if agreed {
            self.turn_off_removed();
        }
        let is_quiet =
            agreed && self.run_until(last, |world| world.watchers.are_watching(&world.core) && world.held().is_none());
        let recovered = self.core.now.since(healed);
        let is_done = is_quiet && self.list_at_end(healed);
        if is_done {
            // What was written last has still to reach watchers.
            self.run_until(self.core.now + NOTIFY, |_| false);
        } else {
            let why = self.why_unfinished();
            let state = self.state();
            for line in state {
                self.core.note(|| line);
            }
            self.core.found(Finding::NoProgress(why));
        }
        self.conclude(is_done, recovered)
    }

    /// Lists what is there when nothing can change it any more: neither what servers held, nor what was late when all was healed.
    /// Whether all of it could be listed.
    fn list_at_end(&mut self, healed: Time) -> bool {
        let arrived = self.core.now.max(healed + self.core.scenario.quality.late) + NOTIFY;
        self.run_until(arrived, |_| false);
        self.clients.list_all(&mut self.core);
        let last = self.core.now + self.core.scenario.recovery;
        self.run_until(last, |world| world.clients.unprobed().is_empty())
    }

    /// No group needs them any more: those that have not heard of it are turned off.
    fn turn_off_removed(&mut self) {
        let leaving = self.core.nodes.values_mut().filter(|node| node.is_leaving);
        let ids: Vec<ServerId> = leaving.map(|node| node.id).collect();
        for id in ids {
            self.core.stop(id, false);
            self.core.nodes.entry(id).and_modify(|node| node.is_gone = true);
        }
    }

    /// Goes on until a moment, or until everything is as it should be. Whether it is.
    fn run_until(&mut self, until: Time, is_reached: impl Fn(&Self) -> bool) -> bool {
        loop {
            let Some((now, event)) = self.core.calendar.pop_until(until) else {
                self.core.now = until;
                return is_reached(self);
            };
            self.events += 1;
            if self.events > EVENTS_MAX {
                return false;
            }
            self.core.now = now;
            let is_sample = matches!(event, Event::Sample);
            self.handle(event);
            if is_sample && is_reached(self) {
                return true;
            }
        }
    }

    fn handle(&mut self, event: Event) {
        let core = &mut self.core;
        match event {
            Event::Nothing => {}
            Event::Run(id) => core.run(id),
            Event::ToServer(to, input) => core.arrived(to, *input),
            Event::ToClient(connection, from, message) => {
                let client = client_of(connection);
                core.was_read(connection, from, &message);
                if !core.is_open(connection) {
                    // It broke meanwhile.
                } else if client == ADMINISTRATOR {
                    self.nemesis.administrator.receive(core, *message);
                } else if self.watchers.has(client) {
                    self.watchers.receive(core, connection, *message);
                } else if self.lockers.has(client) {
                    self.lockers.receive(core, connection, *message);
                } else {
                    self.clients.receive(core, connection, from, *message);
                }
            }
            Event::Disk(id, epoch, lane) => core.disk_done(id, epoch, lane),
            Event::Wake(client, alarm) => {
                if client == ADMINISTRATOR {
                    self.nemesis.administrator.wake(core, alarm);
                } else if self.watchers.has(client) {
                    self.watchers.wake(core, client, alarm);
                } else if self.lockers.has(client) {
                    self.lockers.wake(core, client);
                } else {
                    self.clients.wake(core, client, alarm);
                }
            }
            Event::StreamEnds(connection) => {
                self.watchers.stream_ended(core, connection);
                self.lockers.stream_ended(core, connection);
            }
            Event::Restart(id) => {
                if core.nodes.get(&id).is_some_and(|node| !node.is_gone) {
                    core.start(id);
                }
            }
            Event::Fault(fault) => self.nemesis.strike(core, fault),
            Event::Heal(number) => {
                if let Some(server) = self.nemesis.end(core, number) {
                    self.clients.flock(core, server);
                }
            }
            Event::Sample => {
                self.nemesis.replace_lost(core);
                self.sample();
                self.weigh_disks();
                self.core.after(SAMPLE, Event::Sample);
            }
        }
    }

    /// No term has two leaders, and replicas that applied as much hold the same.
    fn sample(&mut self) {
        let mut findings = Vec::new();
        let cache = self.digests.get_mut();
        cache.sweep();
        for node in self.core.nodes.values() {
            let Some(server) = node.server() else { continue };
            for group in server.replicas(node.clock.shows(self.core.now)) {
                if group.role != RaftRole::Leader {
                    continue;
                }
                let (shard, term) = (group.shard, group.term);
                let first = *self.led.entry((shard, term)).or_insert(node.id);
                if first != node.id {
                    let servers = (first.0, node.id.0);
                    findings.push(Finding::TwoLeaders { shard: shard.0, term, servers });
                }
            }
            let memory = server.memory();
            if memory.peak_bytes > memory.limit_bytes {
                findings.push(Finding::OverBudget { server: node.id.0, limit: memory.limit_bytes });
            }
            for (shard, (index, digest)) in server.digests_with(cache) {
                if *self.held.entry((shard, index)).or_insert(digest) != digest {
                    findings.push(Finding::Diverged { shard: shard.0, index, server: node.id.0 });
                }
            }
        }
        if self.core.scenario.trace {
            let state = self.state();
            let news: Vec<String> = state.iter().filter(|line| !self.noted.contains(line)).cloned().collect();
            for line in news {
                self.core.note(|| line);
            }
            self.noted = state;
        }
        for finding in findings {
            if !self.core.findings.contains(&finding) {
                self.core.found(finding);
            }
        }
    }

    /// No disk holds more than three times the content and what the log may take, whatever was written.
    fn weigh_disks(&mut self) {
        let (limit, slack) = (self.core.scenario.sizes.log_disk_bytes(), self.core.scenario.disk_slack_bytes());
        let mut findings = Vec::new();
        for node in self.core.nodes.values() {
            // After a loss of power files may be there again that were deleted; the first batch deletes them once more, and the
            // second is not begun before that.
            let Some(server) = node.server().filter(|server| server.counters().log_writes > 1) else { continue };
            let (disk, used) = (server.disk_status(), node.disk.files.used_bytes());
            let content = disk.content_bytes.max(disk.snapshot_bytes);
            self.disk_bytes_max = self.disk_bytes_max.max(used.saturating_sub(3 * content));
            if used > 3 * content + limit.max(2 * disk.log_memory_bytes) + slack {
                findings.push(Finding::DiskGrows { server: node.id.0, what: format!("{used} bytes with {disk:?}") });
            }
        }
        for finding in findings {
            let is_same = |known: &Finding| match (known, &finding) {
                (Finding::DiskGrows { server: one, .. }, Finding::DiskGrows { server: other, .. }) => one == other,
                _ => false,
            };
            if !self.core.findings.iter().any(is_same) {
                self.core.found(finding);
            }
        }
    }

    /// What is not as it should be once nothing goes wrong any more.
    fn unfinished(&self) -> Option<String> {
        let Some(map) = self.core.map() else { return Some("no server runs".to_owned()) };
        if let Some((id, it)) = map.moves().iter().next() {
            return Some(format!("move {id} of {} from shard {} to {} is {}", it.prefix, it.from, it.to, it.phase));
        }
        let servers = self.core.nodes.values().filter_map(|node| {
            let cache = &mut self.digests.borrow_mut();
            Some((node.id, node.server()?.digests_with(cache)))
        });
        let digests: BTreeMap<ServerId, _> = servers.collect();
        for shard in map.shards().keys() {
            let desired = map.desired_replicas(*shard);
            let mut agreed = None;
            for id in desired.voters.iter().chain(&desired.learners) {
                let Some(held) = digests.get(id).and_then(|held| held.get(shard).copied()) else {
                    return Some(format!("server {id} has no replica of shard {shard}"));
                };
                if *agreed.get_or_insert(held) != held {
                    return Some(format!("the replicas of shard {shard} do not agree"));
                }
            }
            // A replica that is being filled may agree with nobody but itself, while those who are to leave are needed as voters.
            if !self.is_led_by(*shard, &desired.voters) {
                return Some(format!("shard {shard} is not led by those who are to have it"));
            }
        }
        self.needed().map(|id| format!("server {id} was removed and is still in a group"))
    }

    /// A removed server that a group has not done without yet. All desired replicas may agree before: a learner holds what voters
    /// hold, and has no vote that could take the place of the removed one's.
    fn needed(&self) -> Option<ServerId> {
        let members = || self.core.nodes.values().filter(|node| !node.is_leaving).filter_map(Node::server);
        let mut removed = self.core.nodes.values().filter(|node| node.is_leaving).map(|node| node.id);
        removed.find(|id| members().any(|server| server.membership(*id) == Membership::Leaving))
    }

    /// Whether one of these leads a shard, and nobody else votes in it.
    fn is_led_by(&self, shard: ShardId, servers: &BTreeSet<ServerId>) -> bool {
        servers.iter().filter_map(|id| self.core.nodes.get(id)).any(|node| {
            let groups =
                node.server().map(|server| server.replicas(node.clock.shows(self.core.now))).unwrap_or_default();
            let leads = |group: &GroupStatus| group.shard == shard && group.role == RaftRole::Leader;
            groups.iter().filter(|group| leads(group)).any(|group| group.voters.iter().all(|id| servers.contains(id)))
        })
    }

    /// What a server holds for others beside watches that have no news, though nobody wants anything.
    fn held(&self) -> Option<String> {
        self.core.nodes.values().find_map(|node| {
            let server = node.server()?;
            let (memory, watches, places) = (server.memory(), server.watch_bytes(), server.places_taken());
            (memory.used_bytes != watches as u64 || places > 0).then(|| {
                format!(
                    "server {} holds {places} places and more than {watches} bytes for watches: {memory:?}",
                    node.id
                )
            })
        })
    }

    /// How every replica stands, for the record.
    fn state(&self) -> Vec<String> {
        let now = self.core.now;
        let mut lines = Vec::new();
        for node in self.core.nodes.values() {
            let Some(server) = node.server() else {
                lines.push(format!("server {} does not run, gone: {}", node.id, node.is_gone));
                continue;
            };
            for group in server.replicas(node.clock.shows(now)) {
                lines.push(format!(
                    "server {} shard {} {:?} term {} leader {:?} commit {} applied {} log {}..{} voters {:?} learners {:?}",
                    node.id,
                    group.shard,
                    group.role,
                    group.term,
                    group.leader.map(|id| id.0),
                    group.commit,
                    group.applied,
                    group.first,
                    group.last,
                    group.voters.iter().map(|id| id.0).collect::<Vec<_>>(),
                    group.learners.iter().map(|id| id.0).collect::<Vec<_>>()
                ));
            }
        }
        let moves = self.core.map().map(placement::Map::moves).into_iter().flatten();
        lines.extend(
            moves.map(|(id, it)| {
                format!("move {id} of {} from shard {} to {}: {}", it.prefix, it.from, it.to, it.phase)
            }),
        );
        lines
    }

    fn why_unfinished(&self) -> String {
        let unprobed = self.clients.unprobed();
        if self.events > EVENTS_MAX {
            return format!("more than {EVENTS_MAX} events: a storm of messages");
        }
        if !self.clients.are_idle() && unprobed.is_empty() {
            return "clients still wait for answers".to_owned();
        }
        if !self.nemesis.administrator.is_idle() {
            return "a change of the cluster is still not answered".to_owned();
        }
        if !unprobed.is_empty() {
            return format!("the entries {unprobed:?} take no write or read");
        }
        if !self.lockers.go_on() {
            return "nobody gets the lock".to_owned();
        }
        self.unfinished().or_else(|| self.held()).unwrap_or_else(|| "a watcher finds no server".to_owned())
    }

    fn conclude(mut self, is_done: bool, recovered: Span) -> Report {
        let history = self.clients.history.operations();
        let check = entry::check(history, Limits::default());
        match &check.verdict {
            Verdict::Linearizable => {}
            Verdict::Illegal(_) => self.core.found(Finding::NotLinearizable(check.verdict.to_string())),
            Verdict::Unknown { .. } => self.core.found(Finding::Undecided(check.verdict.to_string())),
        }
        if is_done {
            self.watchers.check(&mut self.core, history, &self.clients.finally);
        }
        self.lockers.check(&mut self.core);
        if self.core.scenario.lies == Some(Lies::Any) {
            self.core.findings.retain(Finding::is_never_excused);
        }
        let mut elections = Elections::default();
        let (mut reads, mut snapshots) = ((0, 0), (0, 0));
        for counters in self.core.nodes.values().map(super::node::Node::counters) {
            elections.campaigns += counters.campaigns;
            elections.won += counters.elected;
            reads = (reads.0 + counters.lease_reads, reads.1 + counters.index_reads);
            snapshots = (snapshots.0 + counters.snapshots_written, snapshots.1 + counters.snapshots_sent);
        }
        Report {
            seed: self.seed,
            servers: self.core.scenario.servers,
            simulated_ms: self.core.now.as_ns() / 1_000_000,
            events: self.events,
            operations: self.clients.counts(),
            faults: self.nemesis.counts,
            elections,
            reads,
            snapshots,
            watches: self.watchers.counts(),
            locks: self.lockers.counts(),
            network: self.core.network.counters,
            shards: self.core.shards().len() as u64,
            disk_bytes_max: self.disk_bytes_max,
            recovered_ms: recovered.as_ns() / 1_000_000,
            steps: check.steps,
            lies: self.core.byzantine.as_ref().map_or(0, |liar| liar.lies_sent),
            findings: self.core.findings,
            trace: self.core.trace,
        }
    }
}

#[cfg(test)]
mod tests {
    use store::protocol::{ClientMessage, Consistency, Request};

    use workload::Layout;
    use workload::entry::{Action, Change, Input};

    use super::super::data;
    use super::*;

    /// A client has given up a write, and goes on with another session; the request arrives when all entries have been probed.
    #[test]
    fn a_write_that_was_given_up_may_be_done_after_the_probe() {
        const VALUE: u64 = 1 << 30;
        let mut scenario = Scenario { faults: (0, 0), trace: true, ..Scenario::default() };
        scenario.quality.late = Span::from_ms(900);
        let mut world = World::new(1, &scenario);

        let change = Change::PutBoth { a: VALUE, b: VALUE + 1 };
        let action = Action::Write { condition: None, change };
        world.clients.history.invoked(9, Time::ZERO, Input { entry: 0, action });
        let body = data::Entries.request(Input { entry: 0, action }, Consistency::Linearizable);
        let request = Request { session: 9, sequence: 1, acknowledged: 1, timeout_ms: 1_500, body };
        let (client, message) = (world.core.connect(9), ClientMessage::Request(request));
        let arrives = scenario.active + Span::from_ms(800);
        world.core.after(
            arrives,
            Event::ToServer(ServerId(1), Box::new(store::Input::Client { client, id: store::RequestId(0), message })),
        );

        let report = world.run();
        assert!(report.is_good(), "{report}");
        // It was not there when the entry was probed, and is there at the end.
        let reads = |line: &&String| line.contains("client 30 is told") && line.contains("entry 0: a=");
        let lists: Vec<bool> = (report.trace.iter().filter(reads))
            .map(|line| line.contains(&format!("a={VALUE} ")) && line.contains(&format!("b={} ", VALUE + 1)))
            .collect();
        assert_eq!(lists, [false, true], "{report}");
    }
}
