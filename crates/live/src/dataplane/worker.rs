//! One worker: it moves frames from TAP to switch to link to TAP.
//!
//! The clock is read where a burst of frames comes in, and where the worker asks how far it may go. In between, a packet that is due at T
//! is handled as at T: see `docs/decisions/0001-live-runs-on-scheduled-time.md`. What is due is run before anything is read, so
//! that each link is offered its packets in the order of their times.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender};

use link::Verdict;
use machine::{Span, Time};
use topology::{BondEndId, Direction, LinkId, NodeId};

use super::flight::{Arrival, Packet};
use super::parts::{Parts, Report};
use super::plan::Plan;
use super::pool::{Frame, Pool};

use super::poller::{Poller, PortKey, Ready};
use crate::clock::Clock;
use crate::device::Replacement;
use crate::settling::Unsettled;
use crate::tap::{LARGEST_FRAME, VNET_HEADER};
use crate::thread_priority;

/// Memory for frames under way, bytes a worker.
const POOL_BYTES: usize = 256 << 20;

/// The shortest time that a worker sleeps. What is due within it is run together at its end, late by that much at most: setting a
/// timer and waking up costs several microseconds of CPU time, more than moving a packet does.
const NAP: Span = Span::from_us(20);

/// How long a worker of an unshaped network keeps looking for frames before it sleeps. To be woken costs the sender an interrupt to
/// another CPU, which in a virtual machine is more than a copy of 64 KiB: one TCP stream went from 0.72 to 0.88 of a veth pair.
/// It gives way to others meanwhile, so that a small machine does not suffer. In a shaped network most waits are longer.
const LINGER: Span = Span::from_us(100);

/// What the daemon has a worker do.
#[derive(Debug)]
pub enum Command {
    /// Tell what was counted.
    Report(Sender<Report>),
    /// Tell which ends of bonds do not carry all that they can, each with its number in the fabric.
    Unsettled(Sender<Vec<(BondEndId, Unsettled)>>),
    /// Take the carrier from a link, or give it back.
    SetLink {
        /// Its number in the fabric.
        link: LinkId,
        /// Whether it has a carrier.
        up: bool,
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

/// A packet that goes on at another worker.
#[derive(Debug)]
pub struct Handed(Arrival);

/// What a thread needs to forward.
#[derive(Debug)]
pub struct Worker {
    pub(super) id: usize,
    pub(super) plan: Arc<Plan>,
    pub(super) clock: Clock,
    pub(super) parts: Parts,
    pub(super) pool: Pool,
    /// What is read when no buffer is free, so that it can be dropped; and what is to be cut.
    pub(super) spare: Vec<u8>,
    /// Ports with frames that wait for others to be handed to their host with them. Each is there once.
    waiting: Vec<PortKey>,
    /// What a bond has just handed on.
    pub(super) released: Vec<Packet>,
    /// Since when it has not slept, as far as that has not been counted.
    awake_since: Time,
    /// All that was due until then has been run.
    done_until: Time,
    inbox: Receiver<Handed>,
    /// The workers' inboxes, this one's own as well.
    outboxes: Vec<SyncSender<Handed>>,
    pub(super) pollers: Arc<[Arc<Poller>]>,
    commands: Receiver<Command>,
}

/// What links a worker to the others.
#[derive(Debug)]
pub struct Channels {
    /// Packets from other workers.
    pub inbox: Receiver<Handed>,
    /// To the workers, by number.
    pub outboxes: Vec<SyncSender<Handed>>,
    /// Where they sleep.
    pub pollers: Arc<[Arc<Poller>]>,
    /// From the daemon.
    pub commands: Receiver<Command>,
}

impl Worker {
    /// The worker number `id`, which owns `parts`.
    pub fn new(id: usize, plan: Arc<Plan>, clock: Clock, parts: Parts, channels: Channels) -> Self {
        // One byte more than a frame may have shows a frame that is too long.
        let capacity = plan.frame_limit() + 1;
        Self {
            id,
            pool: Pool::new(capacity, POOL_BYTES),
            spare: vec![0; VNET_HEADER + LARGEST_FRAME],
            waiting: Vec::new(),
            released: Vec::new(),
            plan,
            awake_since: clock.now(),
            clock,
            parts,
            done_until: Time::ZERO,
            inbox: channels.inbox,
            outboxes: channels.outboxes,
            pollers: channels.pollers,
            commands: channels.commands,
        }
    }

    /// Forwards until it is told to stop.
    pub fn run(mut self) -> Parts {
        thread_priority::raise(self.plan.is_shaped());
        let poller = Arc::clone(&self.pollers[self.id]);
        let mut ready = Ready::none();
        let linger = if self.plan.is_shaped() { Span::ZERO } else { LINGER };
        let mut stay_until = Time::ZERO;
        loop {
            self.take_handed();
            let now = self.clock.now();
            self.run_due(now);
            self.hand_over_waiting();
            poller.poll(&mut ready);
            if ready.len() > 0 {
                stay_until = self.clock.now() + linger;
            } else if self.clock.now() < stay_until {
                std::thread::yield_now();
                continue;
            } else {
                poller.prepare_to_park();
                self.take_handed();
                let now = self.clock.now();
                self.count_busy(now);
                let next = self.parts.flight.next_at().unwrap_or(Time::NEVER).min(self.bonds_due());
                let until_next = (next != Time::NEVER).then(|| next.since(now).max(NAP));
                poller.park(until_next, &mut ready);
                self.awake_since = self.clock.now();
            }
            for at in 0..ready.len() {
                match ready.port(at) {
                    Some(port) => self.read_burst(port),
                    None if self.handle_commands() => return self.end(),
                    None => {}
                }
            }
        }
    }

    /// Carries out the daemon's commands; whether one of them is to stop.
    fn handle_commands(&mut self) -> bool {
        self.count_busy(self.clock.now());
        self.pollers[self.id].clear();
        while let Ok(command) = self.commands.try_recv() {
            match command {
                // Who asked may have gone.
                Command::Report(reply) => drop(reply.send(self.parts.report(&self.plan, self.clock.now()))),
                Command::Unsettled(reply) => drop(reply.send(self.unsettled(self.clock.now()))),
                Command::SetLink { link, up, done } => {
                    self.take_handed();
                    let now = self.clock.now();
                    self.run_due(now);
                    self.set_link(now, link, up);
                    let _ = done.send(());
                }
                Command::ReplacePort { key, replacement, done } => {
                    self.replace_port(key, replacement);
                    let _ = done.send(());
                }
                Command::Stop => return true,
            }
        }
        false
    }

    fn count_busy(&mut self, now: Time) {
        self.parts.counters.busy = self.parts.counters.busy + now.since(self.awake_since);
        self.awake_since = now;
    }

    fn end(mut self) -> Parts {
        self.take_handed();
        self.hand_over_waiting();
        self.parts
    }

    /// Takes what other workers have handed over. A packet that comes too late to be run in order is run now.
    #[inline]
    fn take_handed(&mut self) {
        while let Ok(Handed(mut arrival)) = self.inbox.try_recv() {
            arrival.at = arrival.at.max(self.done_until);
            self.pool.borrowed();
            self.parts.flight.add(arrival);
        }
    }

    /// Runs all that is due at `now`, in order.
    #[inline]
    pub(super) fn run_due(&mut self, now: Time) {
        if !self.parts.bonds.is_empty() {
            self.run_bonds_due(now);
        }
        while let Some(arrival) = self.parts.flight.take_due(now) {
            self.arrive(arrival);
        }
        self.done_until = now;
    }

    /// The same where there are bonds, which have times of their own.
    fn run_bonds_due(&mut self, now: Time) {
        loop {
            let bond = self.bonds_due();
            let packet = self.parts.flight.next_at().unwrap_or(Time::NEVER);
            if bond.min(packet) > now {
                return;
            }
            if bond <= packet {
                self.tend_bonds(bond.max(self.done_until));
            } else if let Some(arrival) = self.parts.flight.take_due(now) {
                self.arrive(arrival);
            }
        }
    }

    /// A packet has come to the end of a link.
    #[inline]
    fn arrive(&mut self, arrival: Arrival) {
        if let Some(end) = self.plan.far_bond(arrival.over) {
            return self.arrive_at_bond(end, arrival);
        }
        let Arrival { at, over, packet } = arrival;
        self.come_to(self.plan.far(over), at, packet);
    }

    /// A packet has come to a node.
    #[inline]
    pub(super) fn come_to(&mut self, node: NodeId, at: Time, packet: Packet) {
        match self.plan.switch_index(node) {
            Some(switch) => {
                if let Some((direction, packet)) = self.forward(node, switch, packet) {
                    self.depart(direction, at, packet);
                }
            }
            None => self.receive(node, 0, at, packet),
        }
    }

    /// Sends a packet off by a link, or by the bond that has it.
    #[inline]
    pub(super) fn depart(&mut self, direction: Direction, now: Time, packet: Packet) {
        match self.plan.bond(direction) {
            None => self.cross(direction, now, packet),
            Some(bond) => self.depart_by_bond(bond, now, packet),
        }
    }

    /// Offers a packet to a link at `now`, and follows it as long as no time passes.
    #[inline]
    pub(super) fn cross(&mut self, mut direction: Direction, now: Time, mut packet: Packet) {
        let bytes = (packet.frame.bytes().len() - VNET_HEADER) as u32;
        loop {
            let link = self.parts.links[direction].as_mut().expect("a worker owns the links of its nodes");
            let Verdict::Arrives(at) = link.offer(now, bytes) else { return self.pool.put(packet.frame) };
            let node = self.plan.far(direction);
            let arrival = |packet| Arrival { at, over: direction, packet };
            if self.plan.owner(node) != self.id {
                return self.hand_over(self.plan.owner(node), arrival(packet));
            }
            if at > now {
                return self.parts.flight.add(arrival(packet));
            }
            if let Some(end) = self.plan.far_bond(direction) {
                return self.arrive_at_bond(end, arrival(packet));
            }
            let Some(switch) = self.plan.switch_index(node) else { return self.receive(node, 0, at, packet) };
            let Some(next) = self.forward(node, switch, packet) else { return };
            (direction, packet) = next;
            if let Some(bond) = self.plan.bond(direction) {
                return self.depart_by_bond(bond, now, packet);
            }
        }
    }

    /// A switch decides. Every host can be reached in a checked file, so there always is a way.
    #[inline]
    fn forward(&mut self, node: NodeId, switch: usize, packet: Packet) -> Option<(Direction, Packet)> {
        let forwarder = self.parts.switches[switch].as_mut().expect("a worker owns its switches");
        let to = packet.forwarding.to;
        let Some(port) = forwarder.switch.forward(self.plan.routes(), packet.forwarding) else {
            self.parts.refused.unknown_destination += 1;
            self.pool.put(packet.frame);
            return None;
        };
        forwarder.forwarded[to.0 as usize] += 1;
        Some((self.plan.leaving(node, port), packet))
    }

    #[cold]
    fn hand_over(&mut self, to: usize, arrival: Arrival) {
        match self.outboxes[to].try_send(Handed(arrival)) {
            Ok(()) => {
                self.pool.lent();
                self.pollers[to].wake();
            }
            Err(refused) => {
                let (std::sync::mpsc::TrySendError::Full(Handed(arrival))
                | std::sync::mpsc::TrySendError::Disconnected(Handed(arrival))) = refused;
                self.parts.refused.ring_full += 1;
                self.pool.put(arrival.packet.frame);
            }
        }
    }

    /// A packet has reached its host at `due`, on the way to this device of it.
    #[inline]
    pub(super) fn receive(&mut self, host: NodeId, device: usize, due: Time, mut packet: Packet) {
        if self.plan.is_known_by_members(host) {
            // A peer may know it by a member's address; its device has one.
            let to = &mut packet.frame.buffer()[VNET_HEADER..VNET_HEADER + 6];
            if to[0] & 1 == 0 {
                to.copy_from_slice(&self.plan.host_table().mac(host));
            }
        }
        if self.plan.is_shaped() {
            self.watch(due, &packet);
        }
        self.deliver(PortKey { host: host.0 as usize, device }, packet.frame);
    }

    /// Shows what is handed to a host to the meters. Only where packets are packets, not segments of 64 KiB.
    fn watch(&mut self, due: Time, packet: &Packet) {
        let now = self.clock.now();
        let late = now.since(due);
        let counters = &mut self.parts.counters;
        counters.delivered += 1;
        counters.late_total = counters.late_total + late;
        counters.late_max = counters.late_max.max(late);
        if !self.parts.flows.observe(now, packet.forwarding.hash, packet.number, &packet.frame.bytes()[VNET_HEADER..]) {
            self.parts.refused.unwatched_flows += 1;
        }
    }

    /// Hands a frame to a host. Where frames are MTUs, those that come one right after the other are joined, as a network card would: one
    /// call and one walk through the host's TCP for all of them.
    #[inline]
    pub(super) fn deliver(&mut self, key: PortKey, frame: Frame) {
        let port = self.parts.ports[key.host].as_mut().expect("a worker owns the ports of its hosts");
        let begins_to_wait = if self.plan.is_shaped() {
            port.join(key.device, frame.bytes())
        } else {
            port.deliver(key.device, frame.bytes())
        };
        if begins_to_wait {
            self.waiting.push(key);
        }
        self.pool.put(frame);
    }

    /// Hands to hosts what waits. Nothing waits longer than until all is run that was due, and no longer than a burst.
    #[inline]
    pub(super) fn hand_over_waiting(&mut self) {
        for key in self.waiting.drain(..) {
            let port = self.parts.ports[key.host].as_mut().expect("a worker owns the ports of its hosts");
            port.hand_over(key.device);
        }
    }
}
