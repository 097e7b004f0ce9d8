//! One worker: it moves frames from TAP to switch to link to TAP.
//!
//! The clock is read where a burst of frames comes in, and where the worker asks how far it may go. In between, a packet that is due at T
//! is handled as at T: see `docs/decisions/0001-live-runs-on-scheduled-time.md`. What is due is run before anything is read, so
//! that each link is offered its packets in the order of their times.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender};

use datapath::Graph;
use machine::{Span, Time, nanos};
use topology::{BondEndId, LinkId, Routes};

use super::RING_FRAMES;
use super::edge::{Edge, Handed};
use super::flight::{Due, Way};
use super::parts::{Parts, Report};
use super::plan::Plan;
use super::poller::{Poller, PortKey, READY_MAX, Ready};
use super::pool::{Depot, Packet};
use crate::clock::Clock;
use crate::convergence::UnconvergedBond;
use crate::device::Replacement;
use crate::thread_priority;

/// The shortest time that a worker sleeps. What is due within it is run together at its end, late by that much at most: setting a
/// timer and waking up costs several microseconds of CPU time, more than moving a packet does.
const NAP: Span = Span::from_us(20);

/// How often a worker looks again what has become due, before it reads what came in meanwhile.
const CATCH_UP: usize = 8;

/// How long a worker of an unshaped network keeps looking for frames before it sleeps. To be woken costs the sender an interrupt to
/// another CPU, which in a virtual machine is more than a copy of 64 KiB: one TCP stream went from 0.72 to 0.88 of a veth pair.
/// It gives way to others meanwhile, so that a small machine does not suffer. In a shaped network most waits are longer.
const LINGER: Span = Span::from_us(100);

/// How often ports that have sent whole bursts are read again before the kernel is asked which others are readable, and how many such ports there may be.
const AGAIN: usize = 3;
const BUSY_MAX: usize = 2;

/// What the daemon has a worker do.
#[derive(Debug)]
pub enum Command {
    /// Tell what was counted.
    Report(Sender<Report>),
    /// Tell which ends of bonds do not carry all that they can, each with its number in the fabric.
    Unconverged(Sender<Vec<(BondEndId, UnconvergedBond)>>),
    /// Take the carrier from a link, or give it back.
    SetLink {
        /// Its number in the fabric.
        link: LinkId,
        /// Whether it has a carrier.
        up: bool,
        /// Hears when it is done.
        done: Sender<()>,
    },
    /// Forward by these routes from now on.
    Reroute {
        /// Of the network as its links are now.
        routes: Arc<Routes>,
        /// Hears when it is done.
        done: Sender<()>,
    },
    /// Put another port in the place of a device's that was made again.
    ReplacePort {
        /// Which one.
        key: PortKey,
        /// The other one.
        replacement: Replacement,
        /// Hears when it is done.
        done: Sender<()>,
    },
    /// End, and give back what you own.
    Stop,
}

/// What a thread needs to forward.
#[derive(Debug)]
pub struct Worker {
    pub(super) plan: Arc<Plan>,
    pub(super) graph: Graph<Packet>,
    pub(super) edge: Edge,
    /// Since when it has not slept, as far as that has not been counted.
    awake_since: Time,
    /// All that was due until then has been run.
    done_until: Time,
    inbox: Receiver<Handed>,
    commands: Receiver<Command>,
}

/// What links a worker to the others.
#[derive(Debug)]
pub struct Channels {
    /// Packets from other workers.
    pub inbox: Receiver<Handed>,
    /// To the workers, by number.
    pub outboxes: Vec<SyncSender<Handed>>,
    /// Buffers that one has too many of.
    pub depot: Depot,
    /// Where they sleep.
    pub pollers: Arc<[Arc<Poller>]>,
    /// From the daemon.
    pub commands: Receiver<Command>,
}

impl Worker {
    /// The worker number `id`, which owns `parts`.
    pub fn new(id: usize, plan: Arc<Plan>, clock: Clock, parts: Parts, channels: Channels) -> Self {
        let Channels { inbox, outboxes, depot, pollers, commands } = channels;
        let edge = Edge::new(id, Arc::clone(&plan), clock, parts.edge, depot, outboxes, pollers);
        Self { plan, graph: parts.graph, edge, awake_since: clock.now(), done_until: Time::ZERO, inbox, commands }
    }

    /// Forwards until it is told to stop.
    pub fn run(mut self) -> (Parts, Receiver<Handed>) {
        thread_priority::raise(self.plan.is_shaped());
        let poller = Arc::clone(&self.edge.pollers[self.edge.id]);
        let mut ready = Ready::none();
        let mut busy = Vec::with_capacity(READY_MAX);
        let now = self.now();
        self.graph.start(self.plan.tables().at(now), &mut self.edge);
        self.edge.start_logs();
        // Where packets have their times, those of other workers must not wait.
        let (linger, again) = if self.plan.is_shaped() { (Span::ZERO, 0) } else { (LINGER, AGAIN) };
        let mut stay_until = Time::ZERO;
        loop {
            self.take_handed();
            let now = self.now();
            self.run_due(now);
            self.edge.hand_over_waiting();
            poller.poll(&mut ready);
            if ready.len() > 0 {
                stay_until = self.now() + linger;
            } else if self.now() < stay_until {
                std::thread::yield_now();
                continue;
            } else {
                poller.prepare_to_park();
                self.take_handed();
                let now = self.now();
                self.count_busy(now);
                let next = self.edge.state.flight.next_at().unwrap_or(Time::NEVER);
                let until_next = (next != Time::NEVER).then(|| next.since(now).max(NAP));
                poller.park(until_next, &mut ready);
                self.awake_since = self.now();
            }
            busy.clear();
            for at in 0..ready.len() {
                match ready.port(at) {
                    Some(port) if self.read_burst(port) => busy.push(port),
                    None if self.handle_commands() => return self.end(),
                    Some(_) | None => {}
                }
            }
            // Who has sent a burst is likely to have sent more: to ask the kernel first would cost as much as several frames. Others wait for it no longer
            // than for a few ports in a row.
            for _ in 0..again {
                if busy.is_empty() || busy.len() > BUSY_MAX {
                    break;
                }
                self.take_handed();
                busy.retain(|port| self.read_burst(*port));
            }
        }
    }

    /// Carries out the daemon's commands; whether one of them is to stop.
    fn handle_commands(&mut self) -> bool {
        self.count_busy(self.now());
        self.edge.pollers[self.edge.id].clear();
        while let Ok(command) = self.commands.try_recv() {
            match command {
                // Who asked may have gone.
                Command::Report(reply) => drop(reply.send(self.report())),
                Command::Unconverged(reply) => drop(reply.send(self.unconverged(self.now()))),
                Command::SetLink { link, up, done } => {
                    self.take_handed();
                    let now = self.now();
                    self.run_due(now);
                    self.graph.set_carrier(self.plan.tables().at(now), &mut self.edge, link, up);
                    let _ = done.send(());
                }
                Command::Reroute { routes, done } => {
                    self.graph.reroute(routes);
                    let _ = done.send(());
                }
                Command::ReplacePort { key, replacement, done } => {
                    self.edge.replace_port(key, replacement);
                    let _ = done.send(());
                }
                Command::Stop => return true,
            }
        }
        false
    }

    fn count_busy(&mut self, now: Time) {
        let counters = &mut self.edge.state.counters;
        counters.busy = counters.busy + nanos::Span::from_ns(now.since(self.awake_since).as_ns());
        self.awake_since = now;
    }

    fn report(&mut self) -> Report {
        let now = self.now();
        self.graph.add_up_paths(self.plan.tables(), &mut self.edge);
        Report::of(&self.graph, &mut self.edge.state, &self.plan, now)
    }

    #[inline]
    pub(super) fn now(&self) -> Time {
        self.edge.clock.now()
    }

    /// What it owns, and its inbox: others may hand something over as long as they run.
    fn end(mut self) -> (Parts, Receiver<Handed>) {
        self.edge.hand_over_waiting();
        self.graph.add_up_paths(self.plan.tables(), &mut self.edge);
        (Parts { graph: self.graph, edge: self.edge.state }, self.inbox)
    }

    /// Takes what other workers have handed over. A packet that comes too late to be run in order is run now.
    #[inline]
    fn take_handed(&mut self) {
        // No more than a ring holds: others may hand over more all the time.
        for _ in 0..RING_FRAMES {
            let Ok(Handed(mut passage)) = self.inbox.try_recv() else { return };
            passage.at = passage.at.max(self.done_until);
            self.edge.pool.borrowed();
            self.edge.state.flight.add(passage);
        }
    }

    /// Runs all that is due, and what has become due meanwhile, as far as that is much: what is read then came after it. Returns the time until
    /// which it has run.
    pub(super) fn run_all_due(&mut self) -> Time {
        let mut now = self.now();
        for _ in 0..CATCH_UP {
            self.run_due(now);
            let later = self.now();
            if later.since(now) < NAP {
                return now;
            }
            now = later;
        }
        self.run_due(now);
        now
    }

    /// Runs all that is due at `now`, in order.
    #[inline]
    pub(super) fn run_due(&mut self, now: Time) {
        while let Some((at, due)) = self.edge.state.flight.take_due(now) {
            let (moment, edge) = (self.plan.tables().at(at), &mut self.edge);
            match due {
                Due::Packet(Way::In, port, packet) => self.graph.arrive(moment, edge, port, packet),
                Due::Packet(Way::Out, port, packet) => self.graph.depart(moment, edge, port, packet),
                Due::Timer(timer) => self.graph.wake(moment, edge, timer),
                Due::Log(end) => edge.log_what_was_left_out(at, end),
            }
        }
        self.done_until = now;
    }
}
