//! What runs, and is one worker's: switches, links, ports, packets under way, and what they counted.

use std::collections::BTreeMap;
use std::net::IpAddr;

use datapath::{Graph, Owner};
use machine::{Rebase, Span, Time, nanos};
use topology::{BondEndId, Direction, LinkId, NetPort, NodeId, Side, TiSlice, TiVec};
use vswitch::FLOOD;

use super::bond_state;
use super::edge::EdgeState;
use super::flight::{Passage, Way};
use super::host_port::HostPort;
use super::plan::Plan;
use super::pool::Packet;
use crate::control::{self, Counters, Forwarded, LinkCounters, PortCounters, PortTraffic, Refusals, WorkerCounters};
use crate::device::Attached;
use crate::log_quota::LogQuota;

/// What one worker owns; while the network changes, what all of them own.
#[derive(Debug, Default)]
pub struct Parts {
    /// Switches, links and ends of bonds of its nodes.
    pub graph: Graph<Packet>,
    /// Its hosts' ports, and all else.
    pub edge: EdgeState,
}

impl Parts {
    /// Parts of a network that comes up at `now`.
    pub fn new(plan: &Plan, now: Time) -> Self {
        let fabric = plan.fabric();
        let randomness = (fabric.spread, fabric.seed);
        Self {
            graph: Graph::new(now, &fabric.topology, plan.tables(), plan.routes(&[]), randomness),
            edge: EdgeState {
                ports: none(plan.hosts()),
                forwarded: blank_forwarded(plan, |_| true),
                quotas: fabric.bonds.iter().map(|_| Some(LogQuota::default())).collect(),
                ..EdgeState::default()
            },
        }
    }

    /// Plugs in what is at the ends of the hosts' links, where nothing is.
    pub fn plug_in(mut self, attached: &[Attached]) -> Self {
        for (slot, attached) in self.edge.ports.iter_mut().zip(attached) {
            slot.get_or_insert_with(|| HostPort::new(attached));
        }
        self
    }

    /// Takes in those of the worker with this number.
    pub fn merge(&mut self, plan: &Plan, worker: usize, Self { graph, mut edge }: Self) {
        self.graph.merge(graph, |node| plan.owner(node) == worker, plan.tables());
        let mine = &mut self.edge;
        fill(&mut mine.ports, edge.ports, HostPort::merge);
        mine.forwarded.resize_with(edge.forwarded.len(), Box::default);
        for (mine, other) in mine.forwarded.iter_mut().zip(edge.forwarded) {
            if mine.is_empty() {
                *mine = other;
            } else {
                mine.iter_mut().zip(other).for_each(|(mine, other)| *mine += other);
            }
        }
        fill(&mut mine.quotas.raw, edge.quotas.raw, |mine, other| *mine = other);
        edge.flight.drain().for_each(|arrival| mine.flight.add(arrival));
        edge.flows.drain().for_each(|(_, flow)| mine.flows.adopt(flow));
        mine.refused.add(&edge.refused);
        mine.counters.add(&edge.counters);
        mine.entered = mine.entered.max(edge.entered);
    }

    /// The links that have no carrier, in order.
    pub fn links_down(&self, plan: &Plan) -> Vec<LinkId> {
        self.graph.links_down(plan.map(), &plan.fabric().topology).collect()
    }

    /// Deals them out to the plan's workers.
    pub fn split(self, plan: &Plan) -> Vec<Self> {
        let Self { graph, mut edge } = self;
        let owners = (|node| plan.owner(node), |port| plan.egress_owner(port));
        let graphs = graph.split(plan.tables(), plan.workers(), owners.0, owners.1);
        let workers = graphs.into_iter().enumerate();
        let mut shares: Vec<Self> =
            workers.map(|(worker, graph)| Self::blank(plan, worker, graph, edge.entered)).collect();
        for (at, forwarded) in edge.forwarded.into_iter().enumerate() {
            shares[plan.owner(plan.map().node_of_switch(at))].edge.forwarded[at] = forwarded;
        }
        for (at, port) in edge.ports.into_iter().enumerate() {
            let (host, owner) = (NodeId(at as u32), plan.owner(NodeId(at as u32)));
            if let Some(port) = port.as_ref().filter(|_| plan.is_handed_by_each(host)) {
                let others = shares.iter_mut().enumerate().filter(|(worker, _)| *worker != owner);
                others.for_each(|(_, share)| share.edge.ports[at] = Some(HostPort::transmit_only(&port.attached)));
            }
            shares[owner].edge.ports[at] = port;
        }
        for (at, quota) in edge.quotas.into_iter_enumerated() {
            shares[plan.owner(plan.tables().bonds[at].node)].edge.quotas[at] = quota;
        }
        for passage in edge.flight.drain() {
            let owner = match passage.way {
                Way::In => plan.arrival_owner(passage.port),
                Way::Out => plan.egress_owner(passage.port),
            };
            let worker = match owner {
                Owner::One(worker) => worker,
                // What follows it in its flow comes in there.
                Owner::Each => plan.host_table().by_mac(passage.packet.source()).map_or(0, |host| plan.owner(host)),
            };
            shares[worker].edge.flight.add(passage);
        }
        for (to, flow) in edge.flows.drain() {
            let host = match to {
                IpAddr::V4(to) => plan.host_table().by_ipv4(to),
                IpAddr::V6(to) => plan.host_table().by_ipv6(to),
            };
            // A flow whose host is gone is still worth reporting.
            shares[host.map_or(0, |host| plan.owner(host))].edge.flows.adopt(flow);
        }
        shares[0].edge.refused = edge.refused;
        shares[0].edge.counters = edge.counters;
        shares
    }

    fn blank(plan: &Plan, worker: usize, graph: Graph<Packet>, entered: u64) -> Self {
        Self {
            graph,
            edge: EdgeState {
                ports: none(plan.hosts()),
                forwarded: blank_forwarded(plan, |switch| plan.has_switch(worker, switch)),
                quotas: none(plan.fabric().bonds.len()).into(),
                entered,
                ..EdgeState::default()
            },
        }
    }

    /// Moves them from `old` into `new`: links and ports keep their state by name; switches keep theirs while graph and spreading
    /// are the same; packets go on as long as their link and their destination are there. Nothing was offered to a link after `now`.
    pub fn carried_over(mut self, old: &Plan, new: &Plan, attached: &[Attached], now: Time) -> Self {
        let mut parts = Self::new(new, now);
        parts.graph.supersede(&self.graph);
        let nodes = node_map(old, new);
        let ports = port_map(old, new);
        let mut retimings: TiVec<NetPort, _> = vec![None; ports.len()].into();
        for (was, is) in ports.iter_enumerated().filter_map(|(was, is)| Some((was, (*is)?))) {
            if let (Some(old), Some(new)) = (self.graph.egress[was].link_mut(), parts.graph.egress[is].link_mut()) {
                std::mem::swap(old, new);
                if new.spec() != old.spec() {
                    retimings[was] = Some(new.reconfigure(now, old.spec()));
                }
            }
        }
        for (was, port) in self.edge.ports.into_iter().enumerate() {
            if let (Some(is), Some(port)) = (nodes[NodeId::from(was)], port) {
                let is = usize::from(is);
                if attached.get(is).is_some_and(|attached| port.attached.is(attached)) {
                    parts.edge.ports[is] = Some(port);
                }
            }
        }
        if same_graph(old, new) {
            parts.edge.forwarded = self.edge.forwarded;
            // They know addresses and in-ports.
            if same_addresses(old, new) {
                parts.graph.pipelines = self.graph.pipelines;
            }
            if old.fabric().spread == new.fabric().spread {
                parts.graph.switches = self.graph.switches;
                parts.graph.routes = self.graph.routes;
            }
        }
        let routes = new.routes(&parts.links_down(new));
        if *parts.graph.routes != *routes {
            parts.graph.reroute(routes);
        }
        for (host, device, mac) in old.host_table().learned() {
            if let Some(host) = nodes[host] {
                new.host_table().learn(host, device, mac);
            }
        }
        parts.graph.report_new_ends(new.tables(), now);
        let mut is_new: TiVec<BondEndId, bool> = vec![true; parts.graph.ends.len()].into();
        for (index, mut end) in self.graph.ends.into_iter_enumerated().filter_map(|(at, end)| Some((at, end?))) {
            if let Some(is) = same_bond((old, new), index, &nodes, &ports) {
                parts.graph.ends[is] = Some(end);
                parts.edge.quotas[is] = self.edge.quotas[index].take();
                is_new[is] = false;
            } else {
                // What waits for others goes on: as if it came now, over the first member.
                let port = old.map().members(index)[0];
                end.flush(now, &mut |packet| self.edge.flight.add(Passage { at: now, way: Way::In, port, packet }));
            }
        }
        for mut passage in self.edge.flight.drain() {
            let left = match passage.way {
                Way::In => old.map().far(passage.port),
                Way::Out => passage.port,
            };
            if let Some(retiming) = retimings[left].as_ref().filter(|_| passage.way == Way::In) {
                passage.at = retiming.arrival(passage.at);
            }
            let to = match passage.packet.forwarding.to {
                FLOOD => Some(FLOOD),
                to => nodes[to].filter(|to| usize::from(*to) < new.hosts()),
            };
            let (Some(left), Some(to)) = (ports[left], to) else {
                self.edge.refused.removed += 1;
                continue;
            };
            passage.packet.forwarding.to = to;
            passage.port = if passage.way == Way::In { new.map().far(left) } else { left };
            if let Some(end) = new.map().bond(passage.port).filter(|end| passage.way == Way::In && is_new[*end])
                && let Some(end) = &mut parts.graph.ends[end]
            {
                end.stale_until = end.stale_until.max(Some(passage.at));
            }
            parts.edge.flight.add(passage);
        }
        (parts.edge.flows, parts.edge.refused) = (self.edge.flows, self.edge.refused);
        (parts.edge.counters, parts.edge.entered) = (self.edge.counters, self.edge.entered);
        parts.plug_in(attached)
    }
}

impl Rebase for Parts {
    fn rebase(&mut self, by: Span) {
        let Self { graph, edge } = self;
        graph.rebase(by);
        edge.rebase(by);
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

fn none<T>(n: usize) -> Vec<Option<T>> {
    (0..n).map(|_| None).collect()
}

/// Takes over what is not there, and merges what both have.
fn fill<T>(into: &mut Vec<Option<T>>, from: Vec<Option<T>>, merge: impl Fn(&mut T, T)) {
    if into.is_empty() {
        *into = from;
        return;
    }
    for (slot, item) in into.iter_mut().zip(from) {
        match (slot, item) {
            (Some(mine), Some(item)) => merge(mine, item),
            (slot, Some(item)) => *slot = Some(item),
            (_, None) => {}
        }
    }
}

/// By switch and destination: nothing has been forwarded yet. Where packets pass no switch, there is no row for it.
fn blank_forwarded(plan: &Plan, passes: impl Fn(usize) -> bool) -> Vec<Box<[u64]>> {
    (0..plan.switches()).map(|switch| vec![0; if passes(switch) { plan.hosts() } else { 0 }].into()).collect()
}

/// Where each node of `old` is in `new`, by name and kind.
fn node_map(old: &Plan, new: &Plan) -> TiVec<NodeId, Option<NodeId>> {
    let (old, new) = (&old.fabric().topology, &new.fabric().topology);
    let names = new.nodes.iter_enumerated();
    let by_name: BTreeMap<_, _> = names.map(|(id, node)| ((node.name.as_str(), new.is_host(id)), id)).collect();
    let nodes = old.nodes.iter_enumerated();
    nodes.map(|(id, node)| by_name.get(&(node.name.as_str(), old.is_host(id))).copied()).collect()
}

/// Where each port of `old` is in `new`, by the names of its link's ends; parallel links are told apart by their order.
fn port_map(old: &Plan, new: &Plan) -> TiVec<NetPort, Option<NetPort>> {
    let by_name: BTreeMap<_, _> = port_keys(new).into_iter().collect();
    let mut ports: TiVec<NetPort, _> = none(old.map().ports().len()).into();
    for (key, port) in port_keys(old) {
        ports[port] = by_name.get(&key).copied();
    }
    ports
}

/// Each port, with its node, the node where it leads, and its number among those that lead there.
fn port_keys(plan: &Plan) -> Vec<((&str, &str, u32), NetPort)> {
    let name = |id: NodeId| plan.fabric().topology.nodes[id].name.as_str();
    let mut parallel = BTreeMap::new();
    let ports = plan.fabric().topology.links.keys().flat_map(|link| plan.map().ends(link));
    let keys = ports.map(|port| {
        let (from, to) = (name(plan.map().node(port)), name(plan.map().far_node(port)));
        let number = parallel.entry((from, to)).or_insert(0);
        *number += 1;
        ((from, to, *number), port)
    });
    keys.collect()
}

/// Where an end of a bond of `old` is in `new`, if it is the same one: of the same name at the same node, over the same links, made of the
/// same, with the same kind of partner.
fn same_bond(
    (old, new): (&Plan, &Plan),
    was: BondEndId,
    nodes: &TiSlice<NodeId, Option<NodeId>>,
    ports: &TiSlice<NetPort, Option<NetPort>>,
) -> Option<BondEndId> {
    let (before, after) = (old.fabric(), new.fabric());
    let end = &before.topology.bonds[was];
    let node = nodes[end.node]?;
    let is = after.topology.bonds.position(|other| other.node == node && other.name == end.name)?;
    let members = old.map().members(was).iter().map(|port| ports[*port]);
    let kinds = |plan: &Plan, id: BondEndId| {
        let ends = &plan.tables().bonds;
        (plan.fabric().bonds[id].end, ends[id].is_external, ends[ends[id].partner].is_external)
    };
    let is_same = members.eq(new.map().members(is).iter().copied().map(Some))
        && kinds(old, was) == kinds(new, is)
        && before.bond_plan(was, 0) == after.bond_plan(is, 0);
    is_same.then_some(is)
}

/// Whether the same nodes are plugged together in the same way, and the same hosts have switches in them: then node numbers, port numbers and numbers of
/// switches are the same.
fn same_graph(old: &Plan, new: &Plan) -> bool {
    let shape = |plan: &Plan| -> Vec<_> { plan.fabric().topology.links.iter().map(|link| (link.a, link.b)).collect() };
    let names = |plan: &Plan| -> Vec<_> { plan.fabric().topology.nodes.iter().map(|node| node.name.clone()).collect() };
    let (before, after) = (&old.fabric().topology, &new.fabric().topology);
    old.hosts() == new.hosts()
        && names(old) == names(new)
        && shape(old) == shape(new)
        && before.multi_homed().eq(after.multi_homed())
}

/// Whether the same hosts have the same addresses, and the same ports are in bonds.
fn same_addresses(old: &Plan, new: &Plan) -> bool {
    let (before, after) = (&old.fabric().topology, &new.fabric().topology);
    before.hosts().all(|(id, _)| before.address(id) == after.address(id)) && before.bonds == after.bonds
}

/// What one worker counted, by the plan's numbers.
#[derive(Debug)]
pub struct Report {
    /// Number, whether it has a carrier, what it has done.
    links: Vec<(Direction, bool, link::Counters)>,
    ports: Vec<(usize, PortTraffic)>,
    forwarded: Vec<(usize, usize, u64)>,
    flows: Vec<control::FlowCounters>,
    bonds: Vec<(BondEndId, control::BondState)>,
    refused: Refusals,
    worker: WorkerCounters,
}

impl Report {
    /// What a worker's parts have counted, and how its bonds are, at `now`.
    pub fn of(graph: &Graph<Packet>, edge: &mut EdgeState, plan: &Plan, now: Time) -> Self {
        for port in edge.ports.iter_mut().flatten() {
            port.count_losses();
        }
        let directions = plan.fabric().topology.links.keys().flat_map(Direction::both);
        let links = directions.filter_map(|at| Some((at, graph.egress[plan.map().leaving(at)].link()?)));
        let ends = graph.ends.iter_enumerated();
        let ports = edge.ports.iter().enumerate();
        Self {
            links: links.map(|(at, link)| (at, link.is_up(), link.counters())).collect(),
            ports: ports.filter_map(|(at, port)| Some((at, port.as_ref()?.traffic))).collect(),
            forwarded: forwarded(&edge.forwarded),
            flows: edge.flows.report(),
            bonds: ends
                .filter_map(|(at, end)| Some((at, bond_state::state(plan, at, end.as_ref()?.bonded()?, now))))
                .collect(),
            refused: edge.refused,
            worker: edge.counters,
        }
    }

    /// Adds up what all workers have counted.
    pub fn sum(reports: impl IntoIterator<Item = Self>, plan: &Plan, at: nanos::Span) -> Counters {
        let mut counters = blank_counters(plan, at);
        let mut forwarded = BTreeMap::new();
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
            match at.from() {
                Side::A => both.forward.add(&link),
                Side::B => both.backward.add(&link),
            }
        }
        for (at, traffic) in self.ports {
            counters.ports[at].traffic.add(&traffic);
        }
        counters.flows.extend(self.flows);
        counters.bonds.extend(self.bonds.into_iter().map(|(_, bond)| bond));
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
