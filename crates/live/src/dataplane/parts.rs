//! What a worker has of one network: all that is numbered as the plan of that network numbers it.

use datapath::Graph;
use machine::{Rebase, Span, Time};
use topology::{BondEndId, LinkId, NodeId, TiVec};

use super::edge::EdgeState;
use super::host_port::HostPort;
use super::plan::Plan;
use super::pool::Packet;
use crate::device::Attached;
use crate::log_quota::LogQuota;
use crate::secret::seeds;

/// What a worker has of one network. When the network changes, others are made beside them, and what goes on is moved into those.
#[derive(Debug)]
pub struct Parts {
    /// Switches, links and ends of bonds of its nodes.
    pub graph: Graph<Packet>,
    /// By host, where it reads the host's port, or hands frames to it.
    pub ports: Vec<Option<HostPort>>,
    /// By switch and destination: how many frames it forwarded. Where packets pass no switch, there is no row for it.
    pub forwarded: Vec<Box<[u64]>>,
    /// By end of a bond: what it may write into the log.
    pub quotas: TiVec<BondEndId, Option<LogQuota>>,
}

/// What parts begin with.
#[derive(Debug)]
pub struct Beginning<'a> {
    /// When.
    pub now: Time,
    /// Links that have no carrier.
    pub down: &'a [LinkId],
    /// How often routes have changed before.
    pub generation: u64,
}

impl Parts {
    /// Parts for all workers of a plan, with the ports that lead to what is at the ends of the hosts' links, in order. Whoever reads a port that goes on
    /// (`is_kept`) has it already.
    pub fn deal_out(
        plan: &Plan,
        Beginning { now, down, generation }: Beginning<'_>,
        attached: &[Attached],
        is_kept: impl Fn(usize) -> bool,
    ) -> Vec<Self> {
        let fabric = plan.fabric();
        let randomness = (fabric.spread, seeds(fabric));
        let mut graph = Graph::new(now, &fabric.topology, plan.tables(), plan.routes(down), randomness);
        graph.set_generation(generation);
        graph.start_without(plan.tables(), now, down);
        let owners = (|node| plan.owner(node), |port| plan.egress_owner(port));
        let graphs = graph.split(plan.tables(), plan.workers(), owners.0, owners.1);
        let workers = graphs.into_iter().enumerate();
        let mut all: Vec<Self> = workers.map(|(worker, graph)| Self::without_ports(plan, worker, graph)).collect();
        for (host, attached) in attached.iter().enumerate() {
            let (owner, by_each) = (plan.owner(host.into()), plan.is_handed_by_each(host.into()));
            for (worker, parts) in all.iter_mut().enumerate() {
                parts.ports[host] = match worker == owner {
                    true if !is_kept(host) => Some(HostPort::new(attached)),
                    false if by_each => Some(HostPort::transmit_only(attached)),
                    _ => None,
                };
            }
        }
        all
    }

    fn without_ports(plan: &Plan, worker: usize, graph: Graph<Packet>) -> Self {
        let row = |switch| if plan.has_switch(worker, switch) { plan.hosts() } else { 0 };
        let quota = |node: NodeId| (plan.owner(node) == worker).then(LogQuota::default);
        Self {
            graph,
            ports: (0..plan.hosts()).map(|_| None).collect(),
            forwarded: (0..plan.switches()).map(|switch| vec![0; row(switch)].into()).collect(),
            quotas: plan.tables().bonds.iter().map(|end| quota(end.node)).collect(),
        }
    }
}

impl Rebase for EdgeState {
    fn rebase(&mut self, by: Span) {
        let Self { ports, flight, forwarded: _, quotas, entered: _, flows, refused: _, counters: _ } = self;
        ports.rebase(by);
        flight.rebase(by);
        quotas.raw.rebase(by);
        flows.rebase(by);
    }
}
