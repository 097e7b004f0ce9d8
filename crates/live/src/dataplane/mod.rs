//! The data plane: the workers that carry frames from host to host.
//!
//! A worker owns nodes, and with each node the state of its switch, the links that leave it, and, for a host, its TAP. So no
//! packet meets a lock. What the file says is shared and immutable ([`Plan`]); what runs is owned ([`Parts`]). To change the
//! network, the workers are stopped between two bursts, their parts are moved into the new plan, and new workers start with them;
//! meanwhile frames wait in the TAPs.

mod bonded;
mod carrier;
mod flight;
mod flows;
mod host_port;
mod ingress;
mod journal;
mod parts;
mod plan;
mod pool;
mod settling;
mod sleep;
mod telling;
mod worker;

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::{self, JoinHandle};

use topology::{BondEndId, LinkId, NodeId};

use crate::Error;
use crate::clock::Clock;
use crate::control::Counters;
use crate::device::{Attached, Replacement};
use crate::settling::Unsettled;
use parts::Parts;
pub use plan::Plan;
pub use sleep::probe;
use sleep::{PortKey, Sleeper};
use worker::{Ends, Handed, Order, Worker};

/// Frames that a ring between two workers holds.
const RING_FRAMES: usize = 1_024;

/// More workers than this would mostly hand packets to each other.
const WORKERS_MAX: usize = 8;

/// How many workers a network gets: `HEDDLE_WORKERS`, or else half of the cores, since the programs in the hosts need the others.
pub fn default_workers() -> usize {
    let told = std::env::var("HEDDLE_WORKERS").ok().and_then(|text| text.parse().ok());
    let cores = thread::available_parallelism().map_or(1, usize::from);
    told.unwrap_or(cores / 2).clamp(1, WORKERS_MAX)
}

/// The running workers.
#[derive(Debug)]
pub struct DataPlane {
    plan: Arc<Plan>,
    clock: Clock,
    workers: Vec<Handle>,
}

/// A running worker, seen from outside.
#[derive(Debug)]
struct Handle {
    orders: Sender<Order>,
    sleeper: Arc<Sleeper>,
    thread: JoinHandle<Parts>,
}

impl DataPlane {
    /// Starts workers for `plan`; `attached` is what its hosts' links end on, in order.
    pub fn start(plan: Plan, attached: &[Attached], clock: Clock) -> Result<Self, Error> {
        let crew = Crew::gather(&plan, attached)?;
        let parts = Parts::new(&plan, clock.now()).plug_in(attached);
        Ok(Self::run(Arc::new(plan), clock, &crew, parts))
    }

    /// Goes on with another plan; what both have in common keeps its state. Nothing changes if this fails.
    pub fn change(&mut self, plan: Plan, attached: &[Attached]) -> Result<(), Error> {
        let crew = Crew::gather(&plan, attached)?;
        let mut old = Parts::default();
        for worker in std::mem::take(&mut self.workers) {
            old.merge(worker.stop());
        }
        let parts = old.carried_over(&self.plan, &plan, attached, self.clock.now());
        *self = Self::run(Arc::new(plan), self.clock, &crew, parts);
        Ok(())
    }

    fn run(plan: Arc<Plan>, clock: Clock, crew: &Crew, parts: Parts) -> Self {
        let shares = parts.split(&plan);
        let handovers: Vec<_> = (0..plan.workers()).map(|_| mpsc::sync_channel(RING_FRAMES)).collect();
        let senders: Vec<SyncSender<Handed>> = handovers.iter().map(|(sender, _)| sender.clone()).collect();
        let inboxes = handovers.into_iter().map(|(_, receiver)| receiver);
        let workers = shares.into_iter().zip(inboxes).enumerate().map(|(id, (parts, inbox))| {
            let (orders, taken) = mpsc::channel();
            let ends = Ends { inbox, outboxes: senders.clone(), sleepers: Arc::clone(&crew.sleepers), orders: taken };
            let worker = Worker::new(id, Arc::clone(&plan), clock, parts, ends);
            let name = format!("worker-{id}");
            let thread = thread::Builder::new().name(name).spawn(move || worker.run()).expect("a thread can be made");
            Handle { orders, sleeper: Arc::clone(&crew.sleepers[id]), thread }
        });
        Self { workers: workers.collect(), clock, plan }
    }

    /// What it runs.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// How many threads forward.
    pub const fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Takes the carrier from a link, by its number in the fabric, or gives it back. What is under way is lost, and the ends of its
    /// bond have heard of it when this returns. A number that no link has changes nothing.
    pub fn set_link(&self, link: LinkId, up: bool) {
        let done: Vec<Receiver<_>> = self.workers.iter().map(|worker| worker.set_link(link, up)).collect();
        for done in done {
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
        let _ = worker.orders.send(Order::ReplacePort { key, replacement, done });
        worker.sleeper.ring();
        let _ = answer.recv();
    }

    /// What has been counted so far.
    pub fn counters(&self) -> Counters {
        let replies: Vec<Receiver<_>> = self.workers.iter().map(Handle::ask).collect();
        let mut counters = parts::blank_counters(&self.plan, self.clock.now() - machine::Time::ZERO);
        for reply in replies {
            // A worker that panicked does not answer; the daemon ends on that elsewhere.
            if let Ok(report) = reply.recv() {
                report.add_to(&mut counters, &self.plan);
            }
        }
        counters
    }

    /// Ends of bonds that do not carry all that they can, in the fabric's order.
    pub fn unsettled(&self) -> Vec<Unsettled> {
        let replies: Vec<Receiver<_>> = self.workers.iter().map(Handle::ask_for_unsettled).collect();
        // A worker that panicked does not answer; the daemon ends on that elsewhere.
        let mut bonds: Vec<(BondEndId, Unsettled)> = replies.iter().flat_map(Receiver::iter).flatten().collect();
        bonds.sort_by_key(|(index, _)| *index);
        bonds.into_iter().map(|(_, bond)| bond).collect()
    }
}

impl Drop for DataPlane {
    fn drop(&mut self) {
        for worker in std::mem::take(&mut self.workers) {
            drop(worker.stop());
        }
    }
}

impl Handle {
    fn ask(&self) -> Receiver<parts::Report> {
        let (reply, answer) = mpsc::channel();
        // A worker that is gone drops the order, and with it the reply: the receiver sees that.
        let _ = self.orders.send(Order::Report(reply));
        self.sleeper.ring();
        answer
    }

    fn ask_for_unsettled(&self) -> Receiver<Vec<(BondEndId, Unsettled)>> {
        let (reply, answer) = mpsc::channel();
        let _ = self.orders.send(Order::Unsettled(reply));
        self.sleeper.ring();
        answer
    }

    fn set_link(&self, link: LinkId, up: bool) -> Receiver<()> {
        let (done, answer) = mpsc::channel();
        let _ = self.orders.send(Order::SetLink { link, up, done });
        self.sleeper.ring();
        answer
    }

    fn stop(self) -> Parts {
        let _ = self.orders.send(Order::Stop);
        self.sleeper.ring();
        self.thread.join().expect("a worker does not panic")
    }
}

/// What workers need of the kernel. Made before anything is stopped, since the kernel may refuse.
struct Crew {
    sleepers: Arc<[Arc<Sleeper>]>,
}

impl Crew {
    fn gather(plan: &Plan, attached: &[Attached]) -> Result<Self, Error> {
        let mut sleepers = Vec::new();
        for worker in 0..plan.workers() {
            let sleeper = Sleeper::new()?;
            for host in plan.hosts_of(worker) {
                match &attached[host] {
                    Attached::Tap(tap) => sleeper.watch(&**tap, PortKey { host, device: 0 })?,
                    Attached::Devices(devices) => {
                        for (device, opened) in devices.iter().enumerate() {
                            sleeper.watch(&*opened.socket(), PortKey { host, device })?;
                        }
                    }
                }
            }
            sleepers.push(Arc::new(sleeper));
        }
        Ok(Self { sleepers: sleepers.into() })
    }
}
