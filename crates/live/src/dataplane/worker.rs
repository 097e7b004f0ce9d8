//! One worker: it moves frames from TAP to switch to link to TAP.
//!
//! The clock is read where a burst of frames comes in, and where the worker asks how far it may go. In between, a packet that is due at T
//! is handled as at T: see `docs/decisions/0001-live-runs-on-scheduled-time.md`. What is due is run before anything is read, so
//! that each link is offered its packets in the order of their times.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64};
use std::sync::mpsc::{Receiver, Sender};

use datapath::Graph;
use machine::{Span, Time, nanos};
use rstp::BridgeStatus;
use topology::{BondEndId, LinkId, Routes};
use vswitch::Switch;

use super::RING_FRAMES;
use super::burst::BURST_FRAMES;
use super::changeover::{Before, Changeover, Peers};
use super::edge::{Edge, EdgeState, Handed, Parcel};
use super::flight::{Due, Way};
use super::flow_tables::{FlowAnswer, FlowQuestion};
use super::learning::Lately;
use super::parts::Parts;
use super::plan::Plan;
use super::poller::{Poller, PortKey, READY_MAX, Ready};
use super::pool::{Depot, Packet};
use super::report::Report;
use super::services::ServerOrder;
use super::tap_points::TapPoint;
use super::turns::Turns;
use crate::clock::Clock;
use crate::convergence::UnconvergedBond;
use crate::device::Replacement;
use crate::kernel_path::FlowTable;
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

/// So long after the kernel was asked ports are read again without that. A burst of 64 frames that are forwarded takes less than 10 us, asking 0.5 us.
const AGAIN_FOR: Span = Span::from_us(40);

/// What the daemon has a worker do.
#[derive(Debug)]
pub enum Command {
    /// Tell what was counted.
    Report {
        /// Until when: what is due before has been done, and nothing that is due later.
        at: Time,
        /// Hears it then.
        reply: Sender<Report>,
    },
    /// Tell which ends of bonds do not carry all that they can, each with its number in the fabric.
    Unconverged(Sender<Vec<(BondEndId, UnconvergedBond)>>),
    /// Tell the salts of all switches' hashes.
    Salts(Sender<Vec<u64>>),
    /// Say how switches stand that speak RSTP, by their numbers among the switches.
    Bridges(Sender<Vec<(usize, BridgeStatus)>>),
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
    /// Show captures what passes there from now on, and nothing else.
    Observe {
        /// Directions of links.
        points: Vec<TapPoint>,
        /// Hears when it is done.
        done: Sender<()>,
    },
    /// Look into the tables of flows of a switch, or change them.
    Flows {
        /// Its number among the switches.
        switch: usize,
        /// What is asked.
        question: FlowQuestion,
        /// Hears the answer: none if the switch has no tables.
        reply: Sender<Option<FlowAnswer>>,
    },
    /// Change a server of a service.
    Server {
        /// Which one, and how.
        order: ServerOrder,
        /// Hears whether there is one.
        reply: Sender<bool>,
    },
    /// Have services' connections carried by these flows.
    SetOffloads {
        /// None: nobody carries them.
        flows: Option<Box<FlowTable>>,
        /// Gets those that did so until now.
        reply: Sender<Option<Box<FlowTable>>>,
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
    /// Go over to another network or clock.
    Change(Changeover),
    /// End.
    Stop,
}

/// What a worker does after its commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// Goes on with the burst.
    GoOn,
    /// Looks anew at what is readable: ports have other numbers.
    LookAnew,
    /// Ends.
    End,
}

/// What a thread needs to forward.
#[derive(Debug)]
pub struct Worker {
    pub(super) plan: Arc<Plan>,
    pub(super) graph: Graph<Packet>,
    pub(super) edge: Edge,
    /// Since when it has not slept, as far as that has not been counted.
    pub(super) awake_since: Time,
    /// All that was due until then has been run.
    pub(super) done_until: Time,
    pub(super) before: Before,
    pub(super) lately: Option<Lately>,
    inbox: Receiver<Handed>,
    /// What comes from an epoch that this worker has not begun yet.
    ahead: Option<Handed>,
    commands: Receiver<Command>,
    /// A change that is not published yet: others may not have theirs.
    unpublished: Option<Changeover>,
    published: Arc<AtomicU64>,
    /// How many commands have been carried out.
    handled: Arc<AtomicU64>,
}

/// What links a worker to the others, and to the daemon.
#[derive(Debug)]
pub struct Channels {
    /// Packets from other workers.
    pub inbox: Receiver<Handed>,
    /// All workers.
    pub peers: Peers,
    /// Buffers that one has too many of.
    pub depot: Depot,
    /// Where it sleeps.
    pub poller: Poller,
    /// From the daemon.
    pub commands: Receiver<Command>,
    /// The last epoch that all workers may begin.
    pub published: Arc<AtomicU64>,
    /// For the daemon: how many commands have been carried out.
    pub handled: Arc<AtomicU64>,
}

impl Worker {
    /// The worker number `id`, which begins with this epoch.
    pub fn new((id, epoch): (usize, u64), plan: Arc<Plan>, clock: Clock, parts: Parts, channels: Channels) -> Self {
        let Channels { inbox, peers, depot, poller, commands, published, handled } = channels;
        let Parts { graph, ports, forwarded, quotas } = parts;
        let state = EdgeState { ports, forwarded, quotas, ..EdgeState::default() };
        let edge = Edge::new((id, epoch), Arc::clone(&plan), clock, state, depot, (poller, peers));
        Self {
            plan,
            graph,
            edge,
            awake_since: clock.now(),
            done_until: Time::ZERO,
            before: Before::Nothing,
            lately: None,
            inbox,
            ahead: None,
            commands,
            unpublished: None,
            published,
            handled,
        }
    }

    /// Forwards until it is told to stop.
    pub fn run(mut self) {
        thread_priority::raise(self.plan.is_shaped());
        self.edge.pool.warm(BURST_FRAMES);
        let mut ready = Ready::none();
        let mut busy = Vec::with_capacity(READY_MAX);
        let mut turns = Turns::default();
        let now = self.now();
        self.graph.start(self.plan.tables().at(now), &mut self.edge);
        self.edge.start_logs();
        let mut stay_until = Time::ZERO;
        loop {
            self.take_handed();
            // What others have begun is there for this worker as well.
            if self.ahead.is_some() && self.handle_commands() == Then::End {
                return;
            }
            // Where packets have their times, those of other workers must not wait.
            let (linger, again) = if self.plan.is_shaped() { (Span::ZERO, 0) } else { (LINGER, AGAIN) };
            let now = self.now();
            self.run_due(now);
            turns.read(None, now);
            self.edge.hand_over_waiting();
            self.edge.send_retimings();
            self.edge.poller.poll(&mut ready);
            let mut looked = self.now();
            if ready.len() > 0 {
                stay_until = looked + linger;
            } else if looked < stay_until {
                std::thread::yield_now();
                continue;
            } else {
                self.edge.poller.prepare_to_park();
                self.take_handed();
                if self.ahead.is_some() {
                    continue;
                }
                let now = self.now();
                self.count_busy(now);
                let next = self.edge.state.flight.next_at().unwrap_or(Time::NEVER);
                let until_next = (next != Time::NEVER).then(|| next.since(now).max(NAP));
                self.edge.poller.park(until_next, &mut ready);
                looked = self.now();
                self.awake_since = looked;
            }
            busy.clear();
            let ports = || (0..ready.len()).map(|at| ready.port(at));
            if ready.len() > 0 && ports().all(|port| port.is_some_and(|port| turns.rests(port.host, looked))) {
                turns.look_at_resting(looked);
                std::thread::yield_now();
                continue;
            }
            turns.look_away();
            turns.look(ports().flatten().map(|port| port.host), looked);
            for at in 0..ready.len() {
                let Some(port) = ready.port(at) else {
                    match self.handle_commands() {
                        Then::GoOn => continue,
                        Then::LookAnew => {
                            busy.clear();
                            turns = Turns::default();
                            break;
                        }
                        Then::End => return,
                    }
                };
                // Where links have rates, those and their queues say what becomes of whom.
                if turns.rests(port.host, looked) || !self.plan.is_shaped() && !turns.is_next(port.host) {
                    continue;
                }
                if self.read_in_turn(port, &mut turns) {
                    busy.push(port);
                }
            }
            // Who has sent a burst is likely to have sent more: to ask the kernel first would cost as much as several frames. Others wait for it no longer
            // than for a few ports in a row, and not at all if such a burst takes long.
            for _ in 0..again {
                if busy.is_empty() || busy.len() > BUSY_MAX || self.now() >= looked + AGAIN_FOR {
                    break;
                }
                self.take_handed();
                busy.retain(|port| self.read_in_turn(*port, &mut turns));
            }
        }
    }

    /// Reads a burst of a host, and counts the time for it; whether it may be read again at once.
    #[inline]
    fn read_in_turn(&mut self, port: PortKey, turns: &mut Turns) -> bool {
        let (stopped, entered) = (self.graph.services.stopped(), self.edge.state.entered);
        let is_full = self.read_burst(port);
        let since = self.done_until;
        turns.read(Some(port.host), since);
        let stopped = self.graph.services.stopped() - stopped;
        if self.plan.is_shaped() || !Turns::is_flood(stopped, self.edge.state.entered - entered) {
            return is_full;
        }
        turns.rest(port.host, since, self.now());
        false
    }

    /// Carries out the daemon's commands.
    fn handle_commands(&mut self) -> Then {
        self.count_busy(self.now());
        self.edge.poller.clear();
        let mut then = Then::GoOn;
        while let Some(command) = self.next_command() {
            match command {
                // What has been done already cannot be told apart any more.
                Command::Report { at, reply } => {
                    self.edge.state.flight.add_timer(at.max(self.done_until), Due::Report(reply));
                }
                // Who asked may have gone.
                Command::Unconverged(reply) => drop(reply.send(self.unconverged(self.now()))),
                Command::Bridges(reply) => drop(reply.send(self.bridges())),
                Command::Salts(reply) => drop(reply.send(self.graph.switches.iter().map(Switch::salt).collect())),
                Command::SetLink { link, up, done } => {
                    self.take_handed();
                    let now = self.now();
                    self.run_due(now);
                    self.graph.set_carrier(self.plan.tables().at(now), &mut self.edge, link, up);
                    self.withdraw_offloads(now);
                    let _ = done.send(());
                }
                Command::Reroute { routes, done } => {
                    self.graph.reroute(routes);
                    self.withdraw_offloads(self.now());
                    let _ = done.send(());
                }
                Command::Observe { points, done } => {
                    self.observe(points);
                    let _ = done.send(());
                }
                Command::Flows { switch, question, reply } => {
                    let _ = reply.send(self.answer_about_flows(switch, question));
                }
                Command::Server { order, reply } => {
                    let _ = reply.send(self.change_server(&order));
                }
                Command::SetOffloads { flows, reply } => {
                    let _ = reply.send(self.set_offloads(flows));
                }
                Command::ReplacePort { key, replacement, done } => {
                    self.edge.replace_port(key, replacement);
                    let _ = done.send(());
                }
                Command::Change(changeover) if changeover.epoch > self.published.load(atomic::Ordering::Acquire) => {
                    self.unpublished = Some(changeover);
                    break;
                }
                Command::Change(changeover) => {
                    self.go_over(changeover);
                    self.lately = None;
                    then = Then::LookAnew;
                }
                Command::Stop => return Then::End,
            }
            self.handled.fetch_add(1, atomic::Ordering::Relaxed);
        }
        then
    }

    fn next_command(&mut self) -> Option<Command> {
        self.unpublished.take().map(Command::Change).or_else(|| self.commands.try_recv().ok())
    }

    fn count_busy(&mut self, now: Time) {
        let counters = &mut self.edge.state.counters;
        counters.busy = counters.busy + nanos::Span::from_ns(now.since(self.awake_since).as_ns());
        self.awake_since = now;
    }

    #[cold]
    fn report(&mut self, at: Time) -> Report {
        self.count_offloads(at);
        self.graph.add_up_paths(self.plan.tables(), &mut self.edge);
        Report::of(&mut self.graph, &mut self.edge.state, &self.plan, at)
    }

    #[inline]
    pub(super) fn now(&self) -> Time {
        self.edge.clock.now()
    }

    /// Takes what other workers have handed over, but what comes from an epoch that this one has not begun. A packet that comes too late to be run in order is
    /// run now.
    #[inline]
    pub(super) fn take_handed(&mut self) {
        // No more than a ring holds: others may hand over more all the time.
        for _ in 0..RING_FRAMES {
            let Some(handed) = self.ahead.take().or_else(|| self.inbox.try_recv().ok()) else { return };
            match handed.epoch.cmp(&self.edge.epoch) {
                Ordering::Equal => self.take(handed.parcel),
                Ordering::Less => self.take_late(handed),
                Ordering::Greater => {
                    self.ahead = Some(handed);
                    return;
                }
            }
        }
    }

    #[inline]
    pub(super) fn take(&mut self, parcel: Parcel) {
        match parcel {
            Parcel::Passage(mut passage) => {
                let late = self.done_until.since(passage.at);
                passage.at += late;
                let counters = &mut self.edge.state.counters;
                counters.taken_late_max = counters.taken_late_max.max(late);
                self.edge.pool.borrowed();
                self.edge.send_under_way(passage);
            }
            Parcel::Retiming(port, retiming) => {
                let done_until = self.done_until;
                self.edge.state.flight.retime(port, |at| retiming.arrival(at).max(done_until));
            }
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
                // Who asked may have gone.
                Due::Report(reply) => drop(reply.send(self.report(at))),
                Due::Offloads => self.sweep_offloads(at),
            }
        }
        self.done_until = now;
    }
}
