//! What workers have counted, as one.

use std::collections::BTreeMap;

use balance::names::QueryCounters;
use datapath::Graph;
use machine::{Time, nanos};
use topology::{BondEndId, Direction, NetPort, NodeId, Side};

use super::bond_state;
use super::changeover::Next;
use super::edge::EdgeState;
use super::plan::Plan;
use super::pool::Packet;
use super::renumbering::Renumbering;
use super::{chains, names, services};
use crate::control::{
    self, ChainCounters, Counters, Forwarded, LinkCounters, NameStatus, PortCounters, PortTraffic, Refusals,
    ServiceStatus, WorkerCounters,
};

/// What one worker counted, by the plan's numbers.
#[derive(Debug)]
pub struct Report {
    /// Until when it counted.
    pub at: Time,
    /// Direction, whether it has a carrier, what it has done.
    links: Vec<(Direction, bool, link::Counters)>,
    ports: Vec<(usize, PortTraffic)>,
    forwarded: Vec<(usize, usize, u64)>,
    flows: Vec<control::FlowCounters>,
    bonds: Vec<(BondEndId, control::BondState)>,
    chains: Vec<ChainCounters>,
    services: Vec<ServiceStatus>,
    names: (Vec<NameStatus>, QueryCounters),
    refused: Refusals,
    worker: WorkerCounters,
}

impl Report {
    /// What a worker's parts have counted until `at`, and how its bonds are then.
    pub fn of(graph: &mut Graph<Packet>, edge: &mut EdgeState, plan: &Plan, at: Time) -> Self {
        for port in edge.ports.iter_mut().flatten() {
            port.count_losses();
        }
        let services = services::services(graph, plan, at);
        let names = names::names(graph, plan, at);
        let directions = plan.fabric().topology.links.keys().flat_map(Direction::both);
        let links = directions.filter_map(|way| Some((way, graph.egress[plan.map().leaving(way)].link()?)));
        let ends = graph.ends.iter_enumerated();
        let ports = edge.ports.iter().enumerate();
        Self {
            at,
            links: links.map(|(way, link)| (way, link.is_up(), link.counters(at))).collect(),
            ports: ports.filter_map(|(host, port)| Some((host, port.as_ref()?.traffic))).collect(),
            forwarded: forwarded(&edge.forwarded),
            flows: edge.flows.report(),
            bonds: ends
                .filter_map(|(id, end)| Some((id, bond_state::state(plan, id, end.as_ref()?.bonded()?, at))))
                .collect(),
            chains: chains::counters(&graph.chains, plan, at),
            services,
            names,
            refused: edge.refused,
            worker: edge.counters,
        }
    }

    /// Adds up what all workers have counted, and what is left of what they had counted before.
    pub fn sum(reports: impl IntoIterator<Item = Self>, left: &Remainder, plan: &Plan, at: nanos::Span) -> Counters {
        let mut counters = blank_counters(plan, at);
        let mut forwarded = left.forwarded.clone();
        left.add_to(&mut counters, plan);
        for mut report in reports {
            for (switch, host, packets) in std::mem::take(&mut report.forwarded) {
                *forwarded.entry((switch, host)).or_insert(0) += packets;
            }
            report.add_to(&mut counters);
        }
        let name = |id: usize| plan.fabric().topology.nodes[NodeId::from(id)].name.clone();
        let forwarded = forwarded.into_iter();
        counters.forwarded = forwarded
            .map(|((switch, host), packets)| Forwarded {
                switch: name(plan.map().node_of_switch(switch).into()),
                host: name(host),
                packets,
            })
            .collect();
        counters
    }

    fn add_to(self, counters: &mut Counters) {
        for (at, up, link) in self.links {
            let both = &mut counters.links[usize::from(at.link())];
            both.up &= up;
            add_link(both, at, &link);
        }
        for (at, traffic) in self.ports {
            // Ports count them by themselves.
            counters.refused.tunnel_control += traffic.refused.tunnel_control;
            counters.ports[at].traffic.add(&traffic);
        }
        counters.flows.extend(self.flows);
        counters.bonds.extend(self.bonds.into_iter().map(|(_, bond)| bond));
        counters.chains.extend(self.chains);
        counters.services.extend(self.services);
        // They are one worker's.
        if !self.names.0.is_empty() {
            (counters.names, counters.name_servers) = self.names;
        }
        counters.refused.add(&self.refused);
        counters.workers.push(self.worker);
    }
}

/// Switch, host, and how many frames went from one to the other, where there were any.
fn forwarded(counts: &[Box<[u64]>]) -> Vec<(usize, usize, u64)> {
    let switches = counts.iter().map(|counts| &**counts).enumerate();
    let hosts = |(at, counts): (usize, &[u64])| {
        let some = counts.iter().enumerate().filter(|(_, packets)| **packets > 0);
        some.map(|(host, &packets)| (at, host, packets)).collect::<Vec<_>>()
    };
    switches.flat_map(hosts).collect()
}

/// Counters with all names and no counts.
fn blank_counters(plan: &Plan, at: nanos::Span) -> Counters {
    let fabric = plan.fabric();
    let name = |id: NodeId| fabric.topology.nodes[id].name.clone();
    let links = fabric.topology.links.iter();
    let hosts = fabric.topology.hosts();
    Counters {
        at,
        links: links
            .map(|link| LinkCounters { a: name(link.a.node), b: name(link.b.node), ..LinkCounters::default() })
            .collect(),
        ports: hosts.map(|(_, host)| PortCounters { host: host.name.clone(), ..PortCounters::default() }).collect(),
        ..Counters::default()
    }
}

fn add_link(both: &mut LinkCounters, at: Direction, link: &link::Counters) {
    match at.from() {
        Side::A => both.forward.add(link),
        Side::B => both.backward.add(link),
    }
}

/// What workers have counted of links, ports and switches that others have now, by the plan's numbers. When a network changes, most things stay with their worker
/// and keep what they have counted; this is the rest.
#[derive(Debug, Default)]
pub struct Remainder {
    links: BTreeMap<NetPort, link::Counters>,
    ports: BTreeMap<usize, PortTraffic>,
    /// By switch and host.
    forwarded: BTreeMap<(usize, usize), u64>,
}

impl Remainder {
    /// The same by the next plan's numbers. What is not there any more is forgotten.
    pub fn renumber(&mut self, (was, is): (&Plan, &Plan), renumbering: &Renumbering) {
        let old = std::mem::take(self);
        old.links.into_iter().for_each(|(port, link)| self.add_link(renumbering.graph.ports[port], &link));
        old.ports.into_iter().for_each(|(host, traffic)| self.add_port(renumbering.host(host), &traffic));
        for ((switch, host), packets) in old.forwarded {
            self.add_forwarded(renumbering.switch((was, is), switch), renumbering.host(host), packets);
        }
    }

    /// Adds what a worker has left of the network before, by whose numbers it is.
    pub fn add(&mut self, left: &Next, plan: &Plan, renumbering: &Renumbering) {
        for (port, egress) in left.parts.graph.egress.iter_enumerated() {
            if let Some(link) = egress.link() {
                // Who has it now has the packets that still wait, but not their waits.
                self.add_link(renumbering.graph.ports[port], &link.counters(Time::NEVER));
            }
        }
        for (host, port) in left.parts.ports.iter().enumerate() {
            if let Some(port) = port {
                self.add_port(renumbering.host(host), &port.traffic);
            }
        }
        for (switch, host, packets) in forwarded(&left.parts.forwarded) {
            self.add_forwarded(renumbering.switch((&left.plan, plan), switch), renumbering.host(host), packets);
        }
    }

    fn add_link(&mut self, port: Option<NetPort>, link: &link::Counters) {
        if let Some(port) = port.filter(|_| *link != link::Counters::default()) {
            self.links.entry(port).or_default().add(link);
        }
    }

    fn add_port(&mut self, host: Option<usize>, traffic: &PortTraffic) {
        if let Some(host) = host.filter(|_| *traffic != PortTraffic::default()) {
            self.ports.entry(host).or_default().add(traffic);
        }
    }

    fn add_forwarded(&mut self, switch: Option<usize>, host: Option<usize>, packets: u64) {
        if let (Some(switch), Some(host)) = (switch, host) {
            *self.forwarded.entry((switch, host)).or_insert(0) += packets;
        }
    }

    fn add_to(&self, counters: &mut Counters, plan: &Plan) {
        for at in plan.fabric().topology.links.keys().flat_map(Direction::both) {
            if let Some(link) = self.links.get(&plan.map().leaving(at)) {
                add_link(&mut counters.links[usize::from(at.link())], at, link);
            }
        }
        for (host, traffic) in &self.ports {
            counters.refused.tunnel_control += traffic.refused.tunnel_control;
            counters.ports[*host].traffic.add(traffic);
        }
    }
}
