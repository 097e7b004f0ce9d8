//! The data plane: the workers that carry frames from host to host.
//!
//! A worker owns nodes: the TAPs of its hosts, and its part of the [`datapath::Graph`]. Where packets may wait on links, that is its nodes with the links
//! that leave them; where nothing waits, it has all switches and links beside the other workers (`docs/decisions/0037-workers-share-switches.md`). So no
//! packet meets a lock. What the file says is shared and immutable ([`Plan`]); what runs is owned ([`Parts`]). When the network changes, both are made
//! anew beside what runs and published, and each worker goes over to them by itself, between two bursts (`changeover.rs`).

mod bond_log;
mod bond_state;
mod burst;
mod chains;
mod changeover;
mod convergence;
mod edge;
mod flight;
mod flow_tables;
mod flows;
mod handle;
mod host_port;
mod ingress;
mod learning;
mod leaving;
mod names;
mod offloads;
mod parts;
mod plan;
mod poller;
mod pool;
mod reassembly;
mod renumbering;
mod report;
mod rstp;
mod services;
mod slab;
mod tap_points;
#[cfg(test)]
mod tests;
mod turns;
mod worker;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use machine::{Span, nanos};
use topology::{BondEndId, LinkId, NodeId, Rerouting};

use crate::Error;
use crate::clock::Clock;
use crate::control::Counters;
use crate::convergence::UnconvergedBond;
use crate::device::{Attached, Replacement};
use crate::kernel_path::FlowTable;
#[cfg(test)]
pub use burst::burst_of;
pub use burst::{RxBurst, TxFrames};
use changeover::{Before, Change, Changeover, Next, Peers};
pub use edge::buffers;
pub use flow_tables::{TablesStatus, TrackedConnections};
pub use flows::FLOWS_COUNTED_MAX;
use handle::{Handle, PATIENCE};
use parts::{Beginning, Parts};
pub use plan::Plan;
pub use poller::probe;
use poller::{Poller, PortKey, Waker};
use pool::Depot;
use renumbering::Renumbering;
use report::{Remainder, Report};
pub use rstp::PortChanges;
pub use services::{OrderKind, ServerOrder, ServerOrders};
pub use tap_points::TapPoint;
use worker::{Channels, Command, Worker};

/// Frames that a ring between two workers holds.
pub const RING_FRAMES: usize = 1_024;

/// How far ahead the moment is for which workers are asked what they have counted: they must hear of it before. If one has not, all are asked again,
/// with so much more time each time, up to a last time.
const AHEAD: Span = Span::from_ms(1);
const AHEAD_FACTOR: u64 = 8;
const AHEAD_MAX: Span = Span::from_ms(512);

/// More workers than this would mostly hand packets to each other.
const WORKERS_MAX: usize = 8;

/// How many workers a network gets: `HEDDLE_WORKERS`, or else half of the cores, since the programs in the hosts need the others.
pub fn default_workers() -> usize {
    let sent = std::env::var("HEDDLE_WORKERS").ok().and_then(|text| text.parse().ok());
    let cores = thread::available_parallelism().map_or(1, usize::from);
    sent.unwrap_or(cores / 2).clamp(1, WORKERS_MAX)
}

/// The running workers.
#[derive(Debug)]
pub struct DataPlane {
    plan: Arc<Plan>,
    /// What is at the ends of the hosts' links, in order.
    attached: Vec<Attached>,
    clock: Clock,
    workers: Vec<Handle>,
    /// Links that have no carrier.
    down: BTreeSet<LinkId>,
    /// Links of which a port does not forward.
    closed: BTreeSet<LinkId>,
    /// The last epoch that was published, and the same for the workers.
    epoch: u64,
    published: Arc<AtomicU64>,
    /// How often routes have changed.
    generation: u64,
    /// For buffers of the size that frames have now.
    depot: Depot,
    remainder: Remainder,
    /// Workers that have not gone over to the present epoch yet.
    pending: Vec<Pending>,
    /// How long a worker may leave a command unanswered.
    patience: Duration,
}

/// A worker that is to go over to the next epoch.
#[derive(Debug)]
struct Pending {
    worker: usize,
    done: Receiver<Change>,
    /// From the epoch before.
    renumbering: Option<Arc<Renumbering>>,
}

/// A worker that is about to start.
struct NewWorker {
    commands: (Sender<Command>, Receiver<Command>),
    inbox: Receiver<edge::Handed>,
}

impl DataPlane {
    /// Starts workers for `plan`; `attached` is what its hosts' links end on, in order.
    pub fn start(plan: Plan, attached: Vec<Attached>, clock: Clock) -> Result<Self, Error> {
        let (peers, new_workers) = peers(&[], plan.workers())?;
        let pollers = open_pollers(&plan, &attached, &peers)?;
        let beginning = Beginning { now: clock.now(), down: &[], generation: 0 };
        let parts = Parts::deal_out(&plan, beginning, &attached, |_| false);
        let mut plane = Self {
            plan: Arc::new(plan),
            attached,
            clock,
            workers: Vec::new(),
            down: BTreeSet::new(),
            closed: BTreeSet::new(),
            epoch: 0,
            published: Arc::default(),
            generation: 0,
            depot: Depot::default(),
            remainder: Remainder::default(),
            pending: Vec::new(),
            patience: PATIENCE,
        };
        plane.start_workers(new_workers, parts.into_iter().zip(pollers), &peers);
        Ok(plane)
    }

    /// Goes on with another plan, which is one that follows the present one ([`Plan::new`]); what both have in common keeps its state. Workers go on meanwhile, and
    /// each goes over by itself. It is in use when this returns, but at a worker that does not answer. Nothing changes if this fails.
    pub fn change(&mut self, plan: Plan, attached: Vec<Attached>) -> Result<(), Error> {
        self.hear_of_change(Duration::ZERO);
        if let Some(pending) = self.pending.first() {
            return Err(Error::Worker { worker: pending.worker });
        }
        let (peers, new_workers) = peers(&self.workers, plan.workers())?;
        let mut pollers = open_pollers(&plan, &attached, &peers)?.into_iter();
        let plans = (&*self.plan, &plan);
        let renumbering = Arc::new(Renumbering::new((&self.plan, &self.attached), (&plan, &attached)));
        let down = self.down.iter().filter_map(|link| renumbering.link(plans, *link));
        let down: Vec<LinkId> = down.collect::<BTreeSet<_>>().into_iter().collect();
        self.generation += 1;
        let beginning = Beginning { now: self.clock.now(), down: &down, generation: self.generation };
        let mut is_kept = vec![false; plan.hosts()];
        renumbering.attached.iter().flatten().for_each(|host| is_kept[*host] = true);
        let mut parts = Parts::deal_out(&plan, beginning, &attached, |host| is_kept[host]).into_iter();
        for (host, device, mac) in self.plan.host_table().learned() {
            if let Some(host) = renumbering.graph.nodes[host] {
                plan.host_table().learn(host, device, mac);
            }
        }
        for known in self.plan.macs().addresses(self.clock.uptime()) {
            if let Some(host) = renumbering.graph.nodes[known.host] {
                plan.macs().learn((known.vlan, known.mac), host, known.seen);
            }
        }
        if plan.frame_limit() != self.plan.frame_limit() {
            self.depot = Depot::default();
        }
        self.remainder.renumber(plans, &renumbering);
        self.plan = Arc::new(plan);
        (self.attached, self.down) = (attached, down.into_iter().collect());
        let next = |(parts, poller)| {
            let (plan, before) = (Arc::clone(&self.plan), Before::Network(Arc::clone(&renumbering)));
            let (peers, depot) = (peers.clone(), self.depot.clone());
            Change::Network(Box::new(Next { plan, parts, before, poller, peers, depot, buffers: Vec::new() }))
        };
        let running = self.workers.len();
        let changes = parts.by_ref().zip(pollers.by_ref()).take(running).map(next).collect();
        self.publish(changes, Some(&renumbering));
        self.start_workers(new_workers, parts.zip(pollers), &peers);
        self.hear_of_change(self.patience);
        self.closed.clear();
        self.follow_bridges();
        Ok(())
    }

    /// Goes on by `clock`, which is its own one set back by `by`. Each worker goes over to it by itself.
    pub fn set_back(&mut self, clock: Clock, by: Span) {
        self.hear_of_change(self.patience);
        self.clock = clock;
        self.publish(self.workers.iter().map(|_| Change::Clock(clock, by)).collect(), None);
        self.hear_of_change(self.patience);
    }

    /// Begins the next epoch: from when this returns on, all workers that run may go over, each to what is made for it.
    fn publish(&mut self, changes: Vec<Change>, renumbering: Option<&Arc<Renumbering>>) {
        self.epoch += 1;
        for (worker, (handle, change)) in self.workers.iter().zip(changes).enumerate() {
            let (sender, done) = mpsc::channel();
            handle.send(Command::Change(Changeover { epoch: self.epoch, change, done: sender }));
            self.pending.push(Pending { worker, done, renumbering: renumbering.cloned() });
        }
        // Whoever begins may hand over to whom he likes: all have their commands.
        self.published.store(self.epoch, Ordering::Release);
        self.workers.iter().for_each(Handle::notify);
    }

    /// Waits for workers that have not gone over yet, and throws away what they have given back.
    fn hear_of_change(&mut self, patience: Duration) {
        let deadline = Instant::now() + patience;
        for pending in std::mem::take(&mut self.pending) {
            match self.workers[pending.worker].await_answer(&pending.done, deadline) {
                Some(Change::Network(left)) => {
                    if let Some(renumbering) = &pending.renumbering {
                        self.remainder.add(&left, &self.plan, renumbering);
                    }
                }
                Some(Change::Clock(..)) => {}
                None => self.pending.push(pending),
            }
        }
    }

    /// Starts the workers that come after those that run.
    fn start_workers(
        &mut self,
        new_workers: Vec<NewWorker>,
        parts: impl Iterator<Item = (Parts, Poller)>,
        peers: &Peers,
    ) {
        for (NewWorker { commands: (sender, commands), inbox }, (parts, poller)) in new_workers.into_iter().zip(parts) {
            let number = self.workers.len();
            let handled = Arc::default();
            let channels = Channels {
                inbox,
                peers: peers.clone(),
                depot: self.depot.clone(),
                poller,
                commands,
                published: Arc::clone(&self.published),
                handled: Arc::clone(&handled),
            };
            let worker = Worker::new((number, self.epoch), Arc::clone(&self.plan), self.clock, parts, channels);
            let ends = (Arc::clone(&peers.wakers[number]), peers.outboxes[number].clone());
            self.workers.push(Handle::start(number, worker, (sender, handled), ends));
        }
    }

    /// What it runs.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// How many threads forward.
    pub const fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Takes the carrier from links, by their numbers in the fabric, or gives it back. When this returns, what was under way is lost, ends of
    /// bonds have heard of it, and routes are those of the network as it is now (unless the file says `routes: fixed`). A number that no
    /// link has changes nothing.
    pub fn set_links(&mut self, links: &[(LinkId, bool)]) {
        let links = links.iter().filter(|(link, _)| usize::from(*link) < self.plan.fabric().topology.links.len());
        let mut has_changed = false;
        for &(link, up) in links {
            self.ask_all(|done| Command::SetLink { link, up, done });
            has_changed |= if up { self.down.remove(&link) } else { self.down.insert(link) };
        }
        if has_changed && self.plan.tables().rerouting == Rerouting::Follow {
            self.reroute();
        }
    }

    /// Has all workers go by the routes around links that carry nothing.
    fn reroute(&mut self) {
        let down: Vec<LinkId> = self.down.union(&self.closed).copied().collect();
        let routes = self.plan.routes(&down);
        self.generation += 1;
        self.ask_all(|done| Command::Reroute { routes: Arc::clone(&routes), done });
    }

    /// Captures look at these directions from now on, and at no others. When this returns, no worker shows anything to those that looked before.
    pub fn observe(&mut self, points: &[TapPoint]) {
        self.hear_of_change(self.patience);
        self.ask_all(|done| Command::Observe { points: points.to_vec(), done });
    }

    /// Has services' connections carried by these flows from now on, or by none: those that did so until now. `None`: there were none, or the worker does not answer.
    pub fn set_offloads(&mut self, flows: Option<Box<FlowTable>>) -> Option<Box<FlowTable>> {
        // Services are one worker's, and it is the first one.
        let worker = self.workers.first()?;
        let answer = worker.ask(|reply| Command::SetOffloads { flows, reply });
        worker.await_answer(&answer, Instant::now() + self.patience).flatten()
    }

    /// The links that have no carrier.
    pub fn links_down(&self) -> impl Iterator<Item = LinkId> + '_ {
        self.down.iter().copied()
    }

    /// Has all workers carry out a command, and waits until they have: what they answer.
    fn ask_all<T>(&self, command: impl Fn(Sender<T>) -> Command) -> Vec<T> {
        let answers: Vec<Receiver<T>> = self.workers.iter().map(|worker| worker.ask(&command)).collect();
        let deadline = Instant::now() + self.patience;
        let workers = self.workers.iter().zip(&answers);
        workers.filter_map(|(worker, answer)| worker.await_answer(answer, deadline)).collect()
    }

    /// Puts another port in the place of a device's: of the host with this number, the device at this place. It is in use when this returns.
    pub fn replace_port(&self, host: NodeId, device: usize, replacement: Replacement) {
        let worker = &self.workers[self.plan.owner(host)];
        let key = PortKey { host: usize::from(host), device };
        let answer = worker.ask(|done| Command::ReplacePort { key, replacement, done });
        let _ = worker.await_answer(&answer, Instant::now() + self.patience);
    }

    /// Ends the workers. Those that have not ended after a while are left behind: their numbers.
    pub fn end(&mut self) -> Vec<usize> {
        for worker in &self.workers {
            worker.send(Command::Stop);
            worker.notify();
        }
        let deadline = Instant::now() + self.patience;
        let workers = std::mem::take(&mut self.workers).into_iter().enumerate();
        workers.filter_map(|(number, worker)| (!worker.join(deadline)).then_some(number)).collect()
    }

    /// What has been counted up to a moment, which is the same for all workers and lies ahead when this is called.
    pub fn counters(&mut self) -> Counters {
        self.hear_of_change(Duration::ZERO);
        let mut ahead = AHEAD;
        loop {
            let at = self.clock.now() + ahead;
            let reports = self.ask_all(|reply| Command::Report { at, reply });
            let moments = || reports.iter().map(|report| report.at);
            if moments().all(|moment| moment == at) || ahead >= AHEAD_MAX {
                let (first, last) = (moments().min().unwrap_or(at), moments().max().unwrap_or(at));
                let spread = nanos::Span::from_ns(last.since(first).as_ns());
                let sum = Report::sum(reports, &self.remainder, &self.plan, self.clock.uptime_at(last));
                return Counters { spread, ..sum };
            }
            ahead = ahead * AHEAD_FACTOR;
        }
    }

    /// The salts of the hashes by which switches choose, those in multi-homed hosts last. Every worker has all switches: the first that answers will do.
    pub fn salts(&self) -> Vec<u64> {
        self.ask_all(Command::Salts).into_iter().next().unwrap_or_default()
    }

    /// Ends of bonds that do not carry all that they can, in the fabric's order.
    pub fn unconverged(&self) -> Vec<UnconvergedBond> {
        let mut bonds: Vec<(BondEndId, UnconvergedBond)> =
            self.ask_all(Command::Unconverged).into_iter().flatten().collect();
        bonds.sort_by_key(|(index, _)| *index);
        bonds.into_iter().map(|(_, bond)| bond).collect()
    }
}

impl Drop for DataPlane {
    fn drop(&mut self) {
        self.end();
    }
}

/// Makes what as many workers know each other by, and what the new ones need besides those that run.
fn peers(running: &[Handle], workers: usize) -> Result<(Peers, Vec<NewWorker>), Error> {
    let mut wakers: Vec<Arc<Waker>> = running.iter().map(|worker| Arc::clone(&worker.waker)).collect();
    let mut outboxes: Vec<_> = running.iter().map(|worker| worker.outbox.clone()).collect();
    let mut new_workers = Vec::new();
    for _ in running.len()..workers {
        let (outbox, inbox) = mpsc::sync_channel(RING_FRAMES);
        wakers.push(Arc::new(Waker::new()?));
        outboxes.push(outbox);
        new_workers.push(NewWorker { commands: mpsc::channel(), inbox });
    }
    Ok((Peers { outboxes: outboxes.into(), wakers: wakers.into() }, new_workers))
}

/// The pollers of all workers, with their hosts' ports. Opened before anything is changed, since the kernel may refuse.
fn open_pollers(plan: &Plan, attached: &[Attached], peers: &Peers) -> Result<Vec<Poller>, Error> {
    let mut pollers = Vec::new();
    for (worker, waker) in peers.wakers.iter().enumerate() {
        let poller = Poller::new(Arc::clone(waker))?;
        for host in plan.hosts_of(worker) {
            match &attached[host] {
                Attached::Tap(tap) => poller.watch(&**tap, PortKey { host, device: 0 })?,
                Attached::Devices(devices) => {
                    for (device, opened) in devices.iter().enumerate() {
                        poller.watch(&*opened.socket(), PortKey { host, device })?;
                    }
                }
            }
        }
        pollers.push(poller);
    }
    Ok(pollers)
}
