//! The data plane: the workers that carry frames from host to host.
//!
//! A worker owns nodes: the TAPs of its hosts, and its part of the [`datapath::Graph`]. Where packets may wait on links, that is its nodes with the links
//! that leave them; where nothing waits, it has all switches and links beside the other workers (`docs/decisions/0037-workers-share-switches.md`). So no
//! packet meets a lock. What the file says is shared and immutable ([`Plan`]); what runs is owned ([`Parts`]). To change the network, the workers are
//! stopped between two bursts, their parts are moved into the new plan, and new workers start with them; meanwhile frames wait in the TAPs.

mod bond_log;
mod bond_state;
mod burst;
mod convergence;
mod edge;
mod flight;
mod flows;
mod host_port;
mod ingress;
mod leaving;
mod parts;
mod plan;
mod poller;
mod pool;
mod worker;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::{self, JoinHandle};

use machine::{Rebase as _, Span};
use topology::{BondEndId, LinkId, NodeId, Rerouting};

use crate::Error;
use crate::clock::Clock;
use crate::control::Counters;
use crate::convergence::UnconvergedBond;
use crate::device::{Attached, Replacement};
pub use burst::{RxBurst, TxFrames};
use edge::Handed;
use parts::Parts;
pub use plan::Plan;
pub use poller::probe;
use poller::{Poller, PortKey};
use pool::Depot;
use worker::{Channels, Command, Worker};

/// Frames that a ring between two workers holds.
const RING_FRAMES: usize = 1_024;

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
    clock: Clock,
    workers: Vec<Handle>,
    /// Links that have no carrier.
    down: BTreeSet<LinkId>,
}

/// A running worker, seen from outside.
#[derive(Debug)]
struct Handle {
    commands: Sender<Command>,
    poller: Arc<Poller>,
    thread: JoinHandle<(Parts, Receiver<Handed>)>,
}

impl DataPlane {
    /// Starts workers for `plan`; `attached` is what its hosts' links end on, in order.
    pub fn start(plan: Plan, attached: &[Attached], clock: Clock) -> Result<Self, Error> {
        let pollers = open_pollers(&plan, attached)?;
        let parts = Parts::new(&plan, clock.now()).plug_in(attached);
        Ok(Self::run(Arc::new(plan), clock, &pollers, parts))
    }

    /// Goes on with another plan; what both have in common keeps its state. Nothing changes if this fails.
    pub fn change(&mut self, plan: Plan, attached: &[Attached]) -> Result<(), Error> {
        let pollers = open_pollers(&plan, attached)?;
        let old = self.stop();
        let parts = old.carried_over(&self.plan, &plan, attached, self.clock.now());
        *self = Self::run(Arc::new(plan), self.clock, &pollers, parts);
        Ok(())
    }

    /// Goes on by `clock`, which is its own one set back by `by`. Workers stop for as long as that takes, as they do for a change.
    pub fn set_back(&mut self, clock: Clock, by: Span) {
        let pollers: Vec<_> = self.workers.iter().map(|worker| Arc::clone(&worker.poller)).collect();
        let mut parts = self.stop();
        parts.rebase(by);
        *self = Self::run(Arc::clone(&self.plan), clock, &pollers.into(), parts);
    }

    /// Stops the workers. What they own, and what they had handed to each other, as one.
    fn stop(&mut self) -> Parts {
        // All at once, so that nobody hands over more than a ring holds to one that has ended.
        self.workers.iter().for_each(Handle::stop);
        let mut all = Parts::default();
        let mut inboxes = Vec::new();
        for (number, worker) in std::mem::take(&mut self.workers).into_iter().enumerate() {
            let (parts, inbox) = worker.thread.join().expect("a worker does not panic");
            all.merge(&self.plan, number, parts);
            inboxes.push(inbox);
        }
        for Handed(passage) in inboxes.iter().flat_map(Receiver::try_iter) {
            all.edge.flight.add(passage);
        }
        all
    }

    fn run(plan: Arc<Plan>, clock: Clock, pollers: &Arc<[Arc<Poller>]>, parts: Parts) -> Self {
        let down = parts.links_down(&plan).into_iter().collect();
        let shares = parts.split(&plan);
        let handovers: Vec<_> = (0..plan.workers()).map(|_| mpsc::sync_channel(RING_FRAMES)).collect();
        let depot = Depot::default();
        let senders: Vec<SyncSender<Handed>> = handovers.iter().map(|(sender, _)| sender.clone()).collect();
        let inboxes = handovers.into_iter().map(|(_, receiver)| receiver);
        let workers = shares.into_iter().zip(inboxes).enumerate().map(|(id, (parts, inbox))| {
            let (commands, taken) = mpsc::channel();
            let channels = Channels {
                inbox,
                outboxes: senders.clone(),
                depot: depot.clone(),
                pollers: Arc::clone(pollers),
                commands: taken,
            };
            let worker = Worker::new(id, Arc::clone(&plan), clock, parts, channels);
            let name = format!("worker-{id}");
            let thread = thread::Builder::new().name(name).spawn(move || worker.run()).expect("a thread can be made");
            Handle { commands, poller: Arc::clone(&pollers[id]), thread }
        });
        Self { workers: workers.collect(), clock, plan, down }
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
            self.command_all(|done| Command::SetLink { link, up, done });
            has_changed |= if up { self.down.remove(&link) } else { self.down.insert(link) };
        }
        if has_changed && self.plan.tables().rerouting == Rerouting::Follow {
            let down: Vec<LinkId> = self.down.iter().copied().collect();
            let routes = self.plan.routes(&down);
            self.command_all(|done| Command::Reroute { routes: Arc::clone(&routes), done });
        }
    }

    /// The links that have no carrier.
    pub fn links_down(&self) -> impl Iterator<Item = LinkId> + '_ {
        self.down.iter().copied()
    }

    /// Has all workers carry out a command, and waits until they have.
    fn command_all(&self, command: impl Fn(Sender<()>) -> Command) {
        let sent = self.workers.iter().map(|worker| worker.command(&command));
        for done in sent.collect::<Vec<_>>() {
            // A worker that panicked does not answer; the daemon ends on that elsewhere.
            let _ = done.recv();
        }
    }

    /// Puts another port in the place of a device's: of the host with this number, the device at this place. It is in use when this returns.
    pub fn replace_port(&self, host: NodeId, device: usize, replacement: Replacement) {
        let (done, answer) = mpsc::channel();
        let worker = &self.workers[self.plan.owner(host)];
        let key = PortKey { host: usize::from(host), device };
        // A worker that is gone drops the order; the daemon ends on that elsewhere.
        let _ = worker.commands.send(Command::ReplacePort { key, replacement, done });
        worker.poller.notify();
        let _ = answer.recv();
    }

    /// What has been counted so far.
    pub fn counters(&self) -> Counters {
        let replies: Vec<Receiver<_>> = self.workers.iter().map(Handle::ask).collect();
        let at = self.clock.uptime();
        // A worker that panicked does not answer; the daemon ends on that elsewhere.
        let reports = replies.into_iter().filter_map(|reply| reply.recv().ok());
        parts::Report::sum(reports, &self.plan, at)
    }

    /// Ends of bonds that do not carry all that they can, in the fabric's order.
    pub fn unconverged(&self) -> Vec<UnconvergedBond> {
        let replies: Vec<Receiver<_>> = self.workers.iter().map(Handle::ask_for_unconverged).collect();
        // A worker that panicked does not answer; the daemon ends on that elsewhere.
        let mut bonds: Vec<(BondEndId, UnconvergedBond)> = replies.iter().flat_map(Receiver::iter).flatten().collect();
        bonds.sort_by_key(|(index, _)| *index);
        bonds.into_iter().map(|(_, bond)| bond).collect()
    }
}

impl Drop for DataPlane {
    fn drop(&mut self) {
        drop(self.stop());
    }
}

impl Handle {
    fn ask(&self) -> Receiver<parts::Report> {
        let (reply, answer) = mpsc::channel();
        // A worker that is gone drops the order, and with it the reply: the receiver sees that.
        let _ = self.commands.send(Command::Report(reply));
        self.poller.notify();
        answer
    }

    fn ask_for_unconverged(&self) -> Receiver<Vec<(BondEndId, UnconvergedBond)>> {
        let (reply, answer) = mpsc::channel();
        let _ = self.commands.send(Command::Unconverged(reply));
        self.poller.notify();
        answer
    }

    fn command(&self, command: &impl Fn(Sender<()>) -> Command) -> Receiver<()> {
        let (done, answer) = mpsc::channel();
        let _ = self.commands.send(command(done));
        self.poller.notify();
        answer
    }

    fn stop(&self) {
        let _ = self.commands.send(Command::Stop);
        self.poller.notify();
    }
}

/// The pollers of all workers, with their hosts' ports. Opened before anything is stopped, since the kernel may refuse.
fn open_pollers(plan: &Plan, attached: &[Attached]) -> Result<Arc<[Arc<Poller>]>, Error> {
    let mut pollers = Vec::new();
    for worker in 0..plan.workers() {
        let poller = Poller::new()?;
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
        pollers.push(Arc::new(poller));
    }
    Ok(pollers.into())
}
