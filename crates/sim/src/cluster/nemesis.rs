//! What goes wrong, and when: a schedule drawn from the seed.

use std::collections::{BTreeMap, BTreeSet};

use machine::nanos::{Span, Time};
use machine::{Rng, ServerId};
use placement::{Command, Prefix, Replicas, ShardId};
use store::protocol::Admin;

use super::admin::{Administrator, Task};
use super::core::{Core, Event};
use super::data;
use super::fault::Kind;
use super::network::{Parties, Party};

/// Servers that a cluster keeps.
const SERVERS_MIN: usize = 3;
/// Servers that it has at most; the network distinguishes 32.
const SERVERS_MAX: usize = 7;
/// No fault begins before this: there shall be something to go wrong.
const FIRST_MS: u32 = 900;

/// How a fault ends.
#[derive(Clone, Copy, Debug)]
enum Repair {
    Resume(ServerId),
    /// Not a fault: clients ask a server for something, all at once.
    Flock(ServerId),
    /// Not an end: a cut begins, and ends after a while.
    Sever(Parties, Parties, Span),
    Cut(u64),
    Disk(ServerId),
}

/// The schedule, and what has to be ended.
pub struct Nemesis {
    rng: Rng,
    schedule: Vec<Kind>,
    repairs: Vec<Option<Repair>>,
    /// How often each happened.
    pub counts: BTreeMap<&'static str, u64>,
    /// Who carries out changes of the cluster.
    pub administrator: Administrator,
    shards_made: u64,
}

impl Nemesis {
    /// Draws a schedule.
    pub fn new(core: &mut Core) -> Self {
        let mut rng = core.rng.fork(0xbad);
        let (low, high) = core.scenario.faults;
        let kinds = core.scenario.kinds.clone();
        let count = if kinds.is_empty() { 0 } else { low + rng.below(high - low + 1) };
        let schedule: Vec<Kind> = (0..count).map(|_| kinds[rng.below(kinds.len() as u32) as usize]).collect();
        let active_ms = (core.scenario.active.as_ns() / 1_000_000) as u32;
        for fault in 0..schedule.len() {
            let at = FIRST_MS + rng.below(active_ms.saturating_sub(FIRST_MS).max(1));
            core.calendar.push(Time::ZERO + Span::from_ms(u64::from(at)), Event::Fault(fault));
        }
        let administrator = Administrator::new(core);
        Self { rng, schedule, repairs: Vec::new(), counts: BTreeMap::new(), administrator, shards_made: 0 }
    }

    /// A fault's time has come.
    pub fn strike(&mut self, core: &mut Core, fault: usize) {
        let kind = self.schedule[fault];
        let done = match kind {
            Kind::Kill | Kind::PowerLoss => self.crash(core, kind == Kind::PowerLoss),
            Kind::Blackout => Self::blackout(core),
            Kind::Pause => self.pause(core),
            Kind::PauseAndCut => self.pause_and_cut(core),
            Kind::CutPair => self.cut_pair(core),
            Kind::Isolate | Kind::Split | Kind::OneWay => self.partition(core, kind),
            Kind::ClockDrift | Kind::ClockBeyond => self.clock(core, kind == Kind::ClockBeyond),
            Kind::DiskStall | Kind::DiskFull | Kind::SyncFailure | Kind::WriteFailure => self.disk(core, kind),
            Kind::BitRot => self.rot(core),
            Kind::AddServer | Kind::RemoveServer | Kind::ReplaceServer => self.membership(core, kind),
            _ => self.shards(core, kind),
        };
        if done {
            *self.counts.entry(kind.name()).or_default() += 1;
        }
    }

    /// A fault's end has come. Gives a server that clients now ask all at once.
    pub fn end(&mut self, core: &mut Core, number: usize) -> Option<ServerId> {
        let repair = self.repairs[number].take()?;
        core.note(|| format!("mended: {repair:?}"));
        match repair {
            Repair::Resume(id) => {
                resume(core, id);
                return (self.rng.below(2) == 0).then_some(id);
            }
            Repair::Flock(id) => return Some(id),
            Repair::Sever(from, to, span) => {
                let number = core.network.cut(from, to);
                self.later(core, span, Repair::Cut(number));
            }
            Repair::Cut(number) => core.network.end_cut(number),
            Repair::Disk(id) => {
                if let Some(node) = core.nodes.get_mut(&id) {
                    node.disk.files.fill_after(None);
                }
            }
        }
        None
    }

    /// Ends all faults.
    pub fn heal(&mut self, core: &mut Core) {
        core.note(|| "everything is mended".to_owned());
        self.repairs.iter_mut().for_each(|repair| *repair = None);
        core.network.heal();
        for id in core.nodes.keys().copied().collect::<Vec<_>>() {
            resume(core, id);
            let drift = core.drift();
            let now = core.now;
            if let Some(node) = core.nodes.get_mut(&id) {
                node.disk.heal();
                node.clock.set_drift(now, drift);
                let is_gone = node.is_gone;
                core.clock_changed(id);
                if !is_gone {
                    core.start(id);
                }
            }
        }
    }

    fn later(&mut self, core: &mut Core, after: Span, repair: Repair) {
        self.repairs.push(Some(repair));
        core.after(after, Event::Heal(self.repairs.len() - 1));
    }

    fn pick<T: Copy>(&mut self, among: &[T]) -> Option<T> {
        (!among.is_empty()).then(|| among[self.rng.below(among.len() as u32) as usize])
    }

    /// A running server, leaders first in half of the cases.
    fn victim(&mut self, core: &Core) -> Option<ServerId> {
        let running = core.running();
        let leaders: Vec<ServerId> = core.leaders().into_iter().filter(|id| running.contains(id)).collect();
        if self.rng.below(2) == 0 && !leaders.is_empty() { self.pick(&leaders) } else { self.pick(&running) }
    }

    fn crash(&mut self, core: &mut Core, power_fails: bool) -> bool {
        let Some(id) = self.victim(core) else { return false };
        core.stop(id, power_fails);
        let down = if self.rng.below(2) == 0 { core.between_ms(20, 200) } else { core.between_ms(200, 3_000) };
        core.after(down, Event::Restart(id));
        true
    }

    fn blackout(core: &mut Core) -> bool {
        let ids: Vec<ServerId> = core.nodes.keys().copied().collect();
        for id in ids {
            core.stop(id, true);
            let down = core.between_ms(50, 900);
            core.after(down, Event::Restart(id));
        }
        true
    }

    fn pause(&mut self, core: &mut Core) -> bool {
        let Some(id) = self.victim(core) else { return false };
        let span = core.between_ms(50, 2_500);
        self.stand_still(core, id, span);
        true
    }

    fn stand_still(&mut self, core: &mut Core, id: ServerId, span: Span) {
        let halts_after = (self.rng.below(3) == 0).then(|| self.rng.below(4) as usize);
        let Some(node) = core.nodes.get_mut(&id) else { return };
        match &mut node.process {
            Some(process) if halts_after.is_some() => process.halts_after = halts_after,
            _ => node.is_paused = true,
        }
        core.note(|| format!("server {id} is paused, after {halts_after:?} inputs"));
        self.later(core, span, Repair::Resume(id));
    }

    fn pause_and_cut(&mut self, core: &mut Core) -> bool {
        let running = core.running();
        let leaders: Vec<ServerId> = core.leaders().into_iter().filter(|id| running.contains(id)).collect();
        let Some(leader) = self.pick(&leaders) else { return false };
        let others: Vec<ServerId> = running.iter().copied().filter(|id| *id != leader).collect();
        let Some(paused) = (if self.rng.below(4) == 0 { Some(leader) } else { self.pick(&others) }) else {
            return false;
        };
        if running.len() < core.members().len() {
            return false;
        }
        // Who stands still for a timeout and more finds what came before and after others have missed the leader for as long.
        let election = core.scenario.election;
        let timeout_ms = (election.fixed.unwrap_or(election.min).as_ns() / 1_000_000) as u32;
        let pause_ms = timeout_ms + self.rng.below(timeout_ms + 1);
        let cut_before_ms = timeout_ms * 3 / 4 + self.rng.below(timeout_ms * 3 / 4 + 1);
        let cut_after = Span::from_ms(u64::from(pause_ms.saturating_sub(cut_before_ms)));
        let cut_for = core.between_ms(100, 2_500);
        let one: Parties = [Party::Server(leader)].into_iter().collect();
        // Who stands still has not lost the leader.
        let rest: Parties = others.into_iter().filter(|id| *id != paused).map(Party::Server).collect();
        let ways = self.rng.below(3);
        if ways != 0 {
            self.later(core, cut_after, Repair::Sever(one, rest, cut_for));
        }
        if ways != 1 {
            self.later(core, cut_after, Repair::Sever(rest, one, cut_for));
        }
        self.stand_still(core, paused, Span::from_ms(u64::from(pause_ms)));
        if paused != leader && self.rng.below(2) == 0 {
            // It answers what it got meanwhile, and lets the leader hear nothing of what it does next.
            let (answered, silent) = (core.between_ms(pause_ms, pause_ms + 3), core.between_ms(50, 600));
            self.later(core, answered, Repair::Sever([Party::Server(paused)].into_iter().collect(), one, silent));
        }
        // The leader's lease may be in question from now on, and for a timeout more.
        for nth in 0..8 {
            let late_ms = if nth < 4 { 20 } else { timeout_ms / 2 };
            let around = core.between_ms(pause_ms - 20, pause_ms + late_ms);
            self.later(core, around, Repair::Flock(leader));
        }
        true
    }

    fn cut_pair(&mut self, core: &mut Core) -> bool {
        let Some(from) = self.victim(core) else { return false };
        let others: Vec<ServerId> = core.running().into_iter().filter(|id| *id != from).collect();
        let Some(to) = self.pick(&others) else { return false };
        let alone = |id| [Party::Server(id)].into_iter().collect::<Parties>();
        let number = core.network.cut(alone(from), alone(to));
        core.note(|| format!("server {to} does not hear {from}"));
        let span = core.between_ms(100, 3_000);
        self.later(core, span, Repair::Cut(number));
        true
    }

    fn partition(&mut self, core: &mut Core, kind: Kind) -> bool {
        let Some(id) = self.victim(core) else { return false };
        let one: Parties = [Party::Server(id)].into_iter().collect();
        let with_clients = if self.rng.below(2) == 0 { one.and(Parties::CLIENTS) } else { one };
        let cuts = match kind {
            Kind::Isolate => vec![(one, with_clients.others()), (with_clients.others(), one)],
            Kind::OneWay if self.rng.below(2) == 0 => vec![(one, with_clients.others())],
            Kind::OneWay => vec![(with_clients.others(), one)],
            _ => {
                let half = self.half(core);
                vec![(half, half.others()), (half.others(), half)]
            }
        };
        core.note(|| format!("{} around server {id}: {cuts:?}", kind.name()));
        let span = core.between_ms(100, 3_000);
        for (from, to) in cuts {
            let number = core.network.cut(from, to);
            self.later(core, span, Repair::Cut(number));
        }
        true
    }

    fn half(&mut self, core: &Core) -> Parties {
        let clients = (0..32).map(Party::Client);
        let servers = core.nodes.keys().copied().map(Party::Server);
        servers.chain(clients).filter(|_| self.rng.below(2) == 0).collect()
    }

    fn clock(&mut self, core: &mut Core, is_beyond: bool) -> bool {
        let Some(id) = self.pick(&core.running()) else { return false };
        let within = core.drift();
        let now = core.now;
        let Some(node) = core.nodes.get_mut(&id) else { return false };
        if !is_beyond {
            node.clock.set_drift(now, within);
        } else if self.rng.below(2) == 0 {
            let ahead = Span::from_ms(u64::from(50 + self.rng.below(2_000)));
            node.clock.jump(now, ahead);
        } else {
            node.clock.set_drift(now, [-900_000, -500_000, 500_000, 3_000_000][self.rng.below(4) as usize]);
        }
        core.note(|| format!("the clock of server {id} changes"));
        core.clock_changed(id);
        true
    }

    fn disk(&mut self, core: &mut Core, kind: Kind) -> bool {
        let Some(id) = self.victim(core) else { return false };
        let now = core.now;
        let span = core.between_ms(50, 1_500);
        let (room, taken) = (u64::from(self.rng.below(4_000)), self.rng.below(3_000) as usize);
        let Some(node) = core.nodes.get_mut(&id) else { return false };
        match kind {
            Kind::DiskStall => node.disk.stall(now + span),
            Kind::DiskFull => node.disk.files.fill_after(Some(node.disk.files.used_bytes() + room)),
            Kind::WriteFailure => node.disk.files.fail_next_write(taken, "input/output error"),
            _ => node.disk.files.fail_next_sync("input/output error"),
        }
        core.note(|| format!("{} at server {id}", kind.name()));
        if kind == Kind::DiskFull {
            self.later(core, span, Repair::Disk(id));
        }
        true
    }

    /// One server of a run loses its disk at most: a majority has to be left, of all shards, and the new one takes its time.
    fn rot(&mut self, core: &mut Core) -> bool {
        let is_hit = core.nodes.values().any(|node| node.is_rotten);
        if is_hit || core.members().len() < SERVERS_MIN || self.administrator.changes_members() {
            return false;
        }
        let Some(id) = self.victim(core) else { return false };
        core.stop(id, false);
        let Some(node) = core.nodes.get_mut(&id) else { return false };
        let files: Vec<(wal::FileName, Vec<u8>)> = node.disk.files.files().into_iter().collect();
        let (file, bytes) = &files[self.rng.below(files.len() as u32) as usize];
        let written = bytes.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
        let bit = u64::from(self.rng.below(written as u32 * 8));
        node.is_rotten = node.disk.files.corrupt(file, bit);
        core.note(|| format!("bit {bit} of {file} flips at server {id}"));
        let down = core.between_ms(20, 1_000);
        core.after(down, Event::Restart(id));
        true
    }

    /// As an operator does: a server that refuses to start for its disk's sake is replaced.
    pub fn replace_lost(&mut self, core: &mut Core) {
        let is_member = |id: &ServerId| core.map().is_some_and(|map| map.members().contains_key(id));
        let lost = core.nodes.values().find(|node| node.is_rotten && node.is_gone && is_member(&node.id));
        if let Some(old) = lost.map(|node| node.id).filter(|_| !self.administrator.changes_members()) {
            self.administrator.begin(core, Task::Join { nonce: self.rng.bits(), replaces: Some(old) });
        }
    }

    fn membership(&mut self, core: &mut Core, kind: Kind) -> bool {
        if self.administrator.changes_members() {
            return false;
        }
        let members = core.members();
        let old = match kind {
            Kind::AddServer => None,
            _ => self.pick(&members),
        };
        let fits = match kind {
            Kind::AddServer => members.len() < SERVERS_MAX,
            Kind::RemoveServer => members.len() > SERVERS_MIN,
            _ => members.len() >= SERVERS_MIN,
        };
        if !fits {
            return false;
        }
        let task = match (kind, old) {
            (Kind::RemoveServer, Some(old)) => Task::Remove(old),
            (_, replaces) => Task::Join { nonce: self.rng.bits(), replaces },
        };
        self.administrator.begin(core, task);
        true
    }

    fn shards(&mut self, core: &mut Core, kind: Kind) -> bool {
        let made: Vec<ShardId> = core.shards().into_iter().filter(|id| *id > ShardId::DEFAULT).collect();
        let any: Vec<ShardId> = core.shards().into_iter().filter(|id| *id != ShardId::META).collect();
        let (shard, to) = (self.pick(&any), self.pick(&core.members()));
        let command = match (kind, shard, to) {
            (Kind::CreateShard, ..) => {
                self.shards_made += 1;
                let prefixes = BTreeSet::from([self.prefix(core)]);
                let name = format!("s{}", self.shards_made);
                Command::CreateShard { name, prefixes, replicas: self.replicas(core) }
            }
            (Kind::MovePrefix, Some(to), _) => Command::BeginMove { prefix: self.prefix(core), to },
            (Kind::DeleteShard, ..) => match self.pick(&made) {
                Some(id) => Command::DeleteShard { id },
                None => return false,
            },
            (Kind::SetReplicas, Some(id), _) => Command::SetReplicas { id, replicas: self.replicas(core) },
            (Kind::Pin, Some(id), Some(server)) if self.rng.below(2) == 0 => Command::Pin { id, server },
            (Kind::Pin, Some(id), _) => Command::Unpin { id },
            (Kind::MoveLeader, _, Some(to)) => {
                let Some(shard) = self.pick(&core.shards()) else { return false };
                self.administrator.begin(core, Task::Once(Admin::MoveLeader { shard, to }));
                return true;
            }
            _ => return false,
        };
        self.administrator.begin(core, Task::Once(Admin::Placement(command)));
        true
    }

    fn prefix(&mut self, core: &Core) -> Prefix {
        if self.rng.below(2) == 0 {
            return Prefix::Module(data::module(self.rng.below(data::MODULES)).to_owned());
        }
        Prefix::Path(data::entry(self.rng.below(core.scenario.entries)).path)
    }

    fn replicas(&mut self, core: &Core) -> Replicas {
        match self.rng.below(4) {
            0 => Replicas::Count(1 + self.rng.below(4) as u8),
            1 => {
                let members = core.members();
                let mut some: BTreeSet<ServerId> = members.iter().copied().filter(|_| self.rng.below(2) == 0).collect();
                some.insert(members[0]);
                Replicas::Servers(some)
            }
            _ => Replicas::All,
        }
    }
}

fn resume(core: &mut Core, id: ServerId) {
    let (now, is_sorted) = (core.now, core.rng.below(2) == 0);
    let Some(node) = core.nodes.get_mut(&id) else { return };
    if let Some(process) = &mut node.process {
        process.halts_after = None;
    }
    if node.is_paused {
        node.is_paused = false;
        if is_sorted {
            node.sort_inbox(&mut core.rng);
        }
        core.schedule(id, now);
    }
}
