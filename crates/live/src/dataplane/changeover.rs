//! How a worker goes over to the next network, or to a clock that was set back, by itself and between two bursts.
//!
//! All that can be made without the worker has been made beside it ([`Next`]). It moves into that what only it has: the state of its links and bonds, its
//! ports, packets under way. Other workers may be before or behind it by one such step, an *epoch*: what they hand over says in which epoch it was. What
//! comes from a later one has the worker go over at once (its command is there by then), and what comes from the one before is renumbered. So nobody
//! waits for anybody ([decision 48](../../../../docs/decisions/0048-changes-stop-nobody.md)).

use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender};

use datapath::{EndState, Owner};
use link::Retiming;
use machine::{Rebase as _, Span, Time};
use topology::{BondEndId, NetPort, TiVec};
use vswitch::{FLOOD, UNKNOWN};

use super::edge::{Handed, Parcel};
use super::flight::{Passage, Way};
use super::parts::Parts;
use super::plan::Plan;
use super::poller::{Poller, Waker};
use super::pool::{Depot, Packet};
use super::renumbering::Renumbering;
use super::worker::Worker;
use crate::clock::Clock;
use crate::thread_priority;

/// What a worker is to go over to.
#[derive(Debug)]
pub enum Change {
    /// Another network.
    Network(Box<Next>),
    /// The same clock, set back.
    Clock(Clock, Span),
}

/// A change, for one worker.
#[derive(Debug)]
pub struct Changeover {
    /// The epoch that begins with it.
    pub epoch: u64,
    /// What it is.
    pub change: Change,
    /// Gets it back with what the worker had until then: that is thrown away elsewhere.
    pub done: Sender<Change>,
}

/// The next network, as one worker is to have it; when the worker has gone over, what is left of the network before.
#[derive(Debug)]
pub struct Next {
    /// What is shared.
    pub plan: Arc<Plan>,
    /// What is the worker's.
    pub parts: Parts,
    /// Where it finds what it has.
    pub before: Before,
    /// With the ports that it reads.
    pub poller: Poller,
    /// All workers.
    pub peers: Peers,
    /// Where buffers go that one has too many of.
    pub depot: Depot,
    /// Buffers that are of no use any more.
    pub buffers: Vec<Packet>,
}

/// The workers, by number, the own one as well.
#[derive(Clone, Debug)]
pub struct Peers {
    /// Their inboxes.
    pub outboxes: Arc<[SyncSender<Handed>]>,
    /// By which they are woken.
    pub wakers: Arc<[Arc<Waker>]>,
}

/// How the present epoch began: so what others hand over that are still in the one before is understood.
#[derive(Clone, Debug)]
pub enum Before {
    /// With the worker.
    Nothing,
    /// With another network.
    Network(Arc<Renumbering>),
    /// With a clock that was set back.
    Clock(Span),
}

impl Worker {
    /// Goes over to what the daemon has published, and gives back what that takes the place of.
    #[cold]
    pub(super) fn go_over(&mut self, Changeover { epoch, mut change, done }: Changeover) {
        // What is still there from two epochs ago.
        self.take_handed();
        let now = self.now();
        self.run_due(now);
        self.edge.hand_over_waiting();
        self.edge.send_retimings();
        match &mut change {
            Change::Network(next) => self.go_over_to_network(next, epoch, now),
            Change::Clock(clock, by) => self.set_back(*clock, *by, epoch),
        }
        // Who made it may have given up.
        let _ = done.send(change);
    }

    fn set_back(&mut self, clock: Clock, by: Span, epoch: u64) {
        self.graph.rebase(by);
        self.edge.state.rebase(by);
        self.edge.tap_points.rebase(by);
        if let Some(flows) = &mut self.edge.offloads {
            flows.rebase(by);
        }
        self.edge.function_log.rebase(by);
        self.awake_since.rebase(by);
        self.done_until.rebase(by);
        self.edge.clock = clock;
        self.edge.epoch = epoch;
        self.before = Before::Clock(by);
    }

    fn go_over_to_network(&mut self, next: &mut Next, epoch: u64, now: Time) {
        let Before::Network(renumbering) = &next.before else { return };
        let renumbering = Arc::clone(renumbering);
        self.graph.add_up_paths(self.plan.tables(), &mut self.edge);
        self.release_ends(&renumbering, now);
        std::mem::swap(&mut self.plan, &mut next.plan);
        // Never the last one.
        self.edge.plan = Arc::clone(&self.plan);
        std::mem::swap(&mut self.graph, &mut next.parts.graph);
        let tables = (next.plan.tables(), self.plan.tables());
        let mut retimings = self.graph.take_over(&mut next.parts.graph, tables, &renumbering.graph, now);
        self.edge.take_over(next, &renumbering);
        std::mem::swap(&mut self.before, &mut next.before);
        self.edge.epoch = epoch;
        // Packets are where their links end, here or elsewhere.
        let map = self.plan.map();
        for (port, _) in &mut retimings {
            *port = map.far(*port);
        }
        retimings.sort_unstable_by_key(|(port, _)| *port);
        self.renumber_packets(next, &renumbering, &retimings);
        for (port, retiming) in retimings {
            let owner = self.plan.owner(self.plan.map().node(port));
            if owner != self.edge.id {
                self.edge.retime(owner, port, retiming);
            }
        }
        if next.plan.is_shaped() != self.plan.is_shaped() {
            thread_priority::raise(self.plan.is_shaped());
        }
        self.graph.start(self.plan.tables().at(now), &mut self.edge);
        self.edge.start_logs();
    }

    /// What waits for others at ends of bonds that are given up goes on, as if it came now, over the first member.
    fn release_ends(&mut self, renumbering: &Renumbering, now: Time) {
        let flight = &mut self.edge.state.flight;
        for (id, end) in self.graph.ends.iter_mut_enumerated() {
            if let Some(end) = end.as_mut().filter(|_| renumbering.graph.ends[id].is_none()) {
                let port = self.plan.map().members(id)[0];
                end.flush(now, &mut |packet| flight.add(Passage { at: now, way: Way::In, port, packet }));
            }
        }
    }

    /// Gives all packets under way the next network's numbers and times.
    fn renumber_packets(&mut self, next: &mut Next, renumbering: &Renumbering, retimings: &[(NetPort, Retiming)]) {
        let (mut removed, mut moved) = (0, Vec::new());
        let (plan, ends, id) = (&self.plan, &mut self.graph.ends, self.edge.id);
        self.edge.state.flight.change(|passage| {
            let mut passage = match renumber(passage, renumbering, plan, ends) {
                Ok(passage) => passage,
                Err(packet) => {
                    removed += 1;
                    next.buffers.push(packet);
                    return None;
                }
            };
            if passage.way == Way::In
                && let Ok(found) = retimings.binary_search_by_key(&passage.port, |(port, _)| *port)
            {
                passage.at = retimings[found].1.arrival(passage.at);
            }
            if owner(plan, &passage).is_none_or(|owner| owner == id) {
                return Some(passage);
            }
            moved.push(passage);
            None
        });
        self.edge.state.refused.removed += removed;
        self.edge.pool.forget(removed as usize);
        for passage in moved {
            self.edge.pass_on(passage);
        }
    }

    /// Takes what was handed over in another epoch than this one.
    #[cold]
    pub(super) fn take_late(&mut self, Handed { epoch, parcel }: Handed) {
        let parcel = match (&self.before, parcel) {
            (Before::Clock(by), Parcel::Passage(mut passage)) if epoch + 1 == self.edge.epoch => {
                passage.at.rebase(*by);
                Ok(Parcel::Passage(passage))
            }
            (Before::Network(renumbering), Parcel::Passage(passage)) if epoch + 1 == self.edge.epoch => {
                renumber(passage, renumbering, &self.plan, &mut self.graph.ends).map(Parcel::Passage)
            }
            (Before::Network(renumbering), Parcel::Retiming(port, retiming)) if epoch + 1 == self.edge.epoch => {
                let Some(port) = renumbering.graph.ports[port] else { return };
                Ok(Parcel::Retiming(port, retiming))
            }
            // Of a worker that has not answered for long, or of a time that does not count any more.
            (_, Parcel::Passage(passage)) => Err(passage.packet),
            (_, Parcel::Retiming(..)) => return,
        };
        match parcel {
            Ok(Parcel::Passage(passage)) if owner(&self.plan, &passage).is_some_and(|owner| owner != self.edge.id) => {
                self.edge.pool.borrowed();
                self.edge.pass_on(passage);
            }
            Ok(parcel) => self.take(parcel),
            Err(packet) => {
                self.edge.state.refused.removed += 1;
                self.edge.pool.borrowed();
                self.edge.pool.put(packet);
            }
        }
    }
}

/// Who has what a packet passes; `None`: each worker has it.
pub fn owner(plan: &Plan, passage: &Passage) -> Option<usize> {
    let owner = match passage.way {
        Way::In => plan.arrival_owner(passage.port),
        Way::Out => plan.egress_owner(passage.port),
    };
    match owner {
        Owner::One(worker) => Some(worker),
        Owner::Each => None,
    }
}

/// Gives a packet of the network before the numbers of `plan`. It is returned if its link or its destination is not there any more.
fn renumber(
    mut passage: Passage,
    renumbering: &Renumbering,
    plan: &Plan,
    ends: &mut TiVec<BondEndId, Option<EndState<Packet>>>,
) -> Result<Passage, Packet> {
    let to = match passage.packet.forwarding.to {
        everybody_or_nobody @ (FLOOD | UNKNOWN) => Some(everybody_or_nobody),
        to => renumbering.graph.nodes[to].filter(|to| plan.map().is_host(*to)),
    };
    let (Some(port), Some(to)) = (renumbering.graph.ports[passage.port], to) else { return Err(passage.packet) };
    passage.packet.forwarding.to = to;
    passage.port = port;
    if let Some(end) = plan.map().bond(port).filter(|end| passage.way == Way::In && renumbering.is_new_end[*end])
        && let Some(end) = &mut ends[end]
    {
        end.stale_until = end.stale_until.max(Some(passage.at));
    }
    Ok(passage)
}
