//! What runs, and belongs to one worker: switches, links, ports, packets under way, and what they counted.

use std::collections::BTreeMap;
use std::net::IpAddr;

use fabric::Fabric;
use link::Link;
use machine::{Span, Time};
use topology::{BondEndId, Direction, NodeId, Side, TiSlice, TiVec};
use vswitch::Switch;

use super::bonded::Place;
use super::flight::{Arrival, Flight};
use super::flows::Flows;
use super::host_port::HostPort;
use super::plan::Plan;
use crate::control::{self, Counters, Forwarded, LinkCounters, PortCounters, PortTraffic, Refusals, WorkerCounters};
use crate::device::Attached;

/// A switch.
#[derive(Debug)]
pub struct Forwarder {
    /// Its decisions.
    pub switch: Switch,
    /// How many frames it forwarded, by destination.
    pub forwarded: Box<[u64]>,
}

/// What one worker owns; while the network changes, what all of them own. Lists are indexed like the plan's; what another worker
/// owns is `None`.
#[derive(Debug, Default)]
pub struct Parts {
    /// By the switch's number among the switches.
    pub switches: Vec<Option<Forwarder>>,
    /// By direction; a link belongs to the node from which packets leave.
    pub links: TiVec<Direction, Option<Link>>,
    /// By host.
    pub ports: Vec<Option<HostPort>>,
    /// Ends of bonds, by their index in the fabric. Empty where there are none.
    pub bonds: TiVec<BondEndId, Option<Place>>,
    /// Packets on the links that end here.
    pub flight: Flight,
    /// Packets that have entered the fabric here.
    pub entered: u64,
    /// TCP flows that end here.
    pub flows: Flows,
    /// Frames that went nowhere.
    pub refused: Refusals,
    /// How the worker itself does.
    pub counters: WorkerCounters,
}

impl Parts {
    /// Parts of a network that comes up at `now`.
    pub fn new(plan: &Plan, now: Time) -> Self {
        let links = plan
            .fabric()
            .topology
            .links
            .iter()
            .flat_map(|link| [Some(Link::new(link.spec)), Some(Link::new(link.spec))]);
        Self {
            switches: (0..plan.switches()).map(|at| Some(Forwarder::new(plan, at))).collect(),
            links: links.collect(),
            ports: none(plan.hosts()),
            bonds: plan.fabric().bonds.keys().map(|id| Some(Place::new(plan, id, now))).collect(),
            ..Self::default()
        }
    }

    /// Plugs in what is at the ends of the hosts' links, where nothing is.
    pub fn plug_in(mut self, attached: &[Attached]) -> Self {
        for (slot, attached) in self.ports.iter_mut().zip(attached) {
            slot.get_or_insert_with(|| HostPort::new(attached));
        }
        self
    }

    /// Takes in those of another worker.
    pub fn merge(&mut self, mut other: Self) {
        fill(&mut self.switches, other.switches);
        fill(&mut self.links.raw, other.links.raw);
        fill(&mut self.ports, other.ports);
        fill(&mut self.bonds.raw, other.bonds.raw);
        other.flight.for_each(|arrival| self.flight.add(arrival));
        other.flows.drain().for_each(|(_, flow)| self.flows.adopt(flow));
        self.refused.add(&other.refused);
        self.counters.add(&other.counters);
        self.entered = self.entered.max(other.entered);
    }

    /// Deals them out to the plan's workers.
    pub fn split(mut self, plan: &Plan) -> Vec<Self> {
        let blank = |_| Self { entered: self.entered, ..Self::blank(plan) };
        let mut shares: Vec<Self> = (0..plan.workers()).map(blank).collect();
        for (at, switch) in self.switches.into_iter().enumerate() {
            shares[plan.owner(NodeId((plan.hosts() + at) as u32))].switches[at] = switch;
        }
        for (at, link) in self.links.into_iter_enumerated() {
            shares[plan.owner(plan.near(at))].links[at] = link;
        }
        for (at, port) in self.ports.into_iter().enumerate() {
            shares[plan.owner(NodeId(at as u32))].ports[at] = port;
        }
        for (at, bond) in self.bonds.into_iter_enumerated() {
            shares[plan.owner(plan.fabric().topology.bonds[at].node)].bonds[at] = bond;
        }
        for arrival in &mut self.flight {
            shares[plan.owner(plan.far(arrival.over))].flight.add(arrival);
        }
        for (to, flow) in self.flows.drain() {
            let host = match to {
                IpAddr::V4(to) => plan.host_table().by_ipv4(to),
                IpAddr::V6(to) => plan.host_table().by_ipv6(to),
            };
            // A flow whose host is gone is still worth telling about.
            shares[host.map_or(0, |host| plan.owner(host))].flows.adopt(flow);
        }
        shares[0].refused = self.refused;
        shares[0].counters = self.counters;
        shares
    }

    fn blank(plan: &Plan) -> Self {
        Self {
            switches: none(plan.switches()),
            links: none(plan.fabric().topology.links.len() * 2).into(),
            ports: none(plan.hosts()),
            bonds: none(plan.fabric().bonds.len()).into(),
            ..Self::default()
        }
    }

    /// Moves them from `old` into `new`: links and ports keep their state by name; switches keep theirs while graph and spreading
    /// are the same; packets go on as long as their link and their destination are there. Nothing was offered to a link after `now`.
    pub fn carried_over(mut self, old: &Plan, new: &Plan, attached: &[Attached], now: Time) -> Self {
        let mut parts = Self::new(new, now);
        let nodes = node_map(old, new);
        let links = link_map(old, new);
        let mut retimings: TiVec<Direction, _> = vec![None; links.len()].into();
        for (was, is) in links.iter_enumerated().filter_map(|(was, is)| Some((was, (*is)?))) {
            if let Some(mut link) = self.links[was].take() {
                let spec = new.fabric().topology.links[is.link()].spec;
                if link.spec() != spec {
                    retimings[was] = Some(link.reconfigure(now, spec));
                }
                parts.links[is] = Some(link);
            }
        }
        for (was, port) in self.ports.into_iter().enumerate() {
            if let (Some(is), Some(port)) = (nodes[NodeId::from(was)], port) {
                let is = usize::from(is);
                if attached.get(is).is_some_and(|attached| port.attached.is(attached)) {
                    parts.ports[is] = Some(port);
                }
            }
        }
        if same_graph(old, new) {
            parts.keep_switches(self.switches, old.fabric().spread == new.fabric().spread);
        }
        for (host, device, mac) in old.host_table().learned() {
            if let Some(host) = nodes[host] {
                new.host_table().learn(host, device, mac);
            }
        }
        parts.tell_new_bonds(new, now);
        let mut is_new: TiVec<BondEndId, bool> = vec![true; parts.bonds.len()].into();
        for (index, mut place) in self.bonds.into_iter_enumerated().filter_map(|(at, place)| Some((at, place?))) {
            if let Some(is) = same_bond((old, new), index, &nodes, &links) {
                parts.bonds[is] = Some(place);
                is_new[is] = false;
            } else {
                // What waits for others goes on: as if it came now, over the first member.
                let over = old.members(index)[0].back();
                place.flush(now, &mut |packet| self.flight.add(Arrival { at: now, over, packet }));
            }
        }
        for mut arrival in &mut self.flight {
            if let Some(retiming) = &retimings[arrival.over] {
                arrival.at = retiming.arrival(arrival.at);
            }
            let over = links[arrival.over];
            let to = nodes[arrival.packet.forwarding.to].filter(|to| usize::from(*to) < new.hosts());
            let (Some(over), Some(to)) = (over, to) else {
                self.refused.removed += 1;
                continue;
            };
            (arrival.over, arrival.packet.forwarding.to) = (over, to);
            if let Some((end, _)) = new.far_bond(over).filter(|(end, _)| is_new[*end])
                && let Some(place) = &mut parts.bonds[end]
            {
                place.stale_until = place.stale_until.max(Some(arrival.at));
            }
            parts.flight.add(arrival);
        }
        (parts.flows, parts.refused, parts.counters) = (self.flows, self.refused, self.counters);
        parts.entered = self.entered;
        parts.plug_in(attached)
    }

    fn keep_switches(&mut self, old: Vec<Option<Forwarder>>, same_spread: bool) {
        for (slot, was) in self.switches.iter_mut().zip(old) {
            match (slot, was) {
                (slot, Some(was)) if same_spread => *slot = Some(was),
                (Some(is), Some(was)) => is.forwarded = was.forwarded,
                _ => {}
            }
        }
    }

    /// What they counted, and how bonds are, at `now`.
    pub fn report(&mut self, plan: &Plan, now: Time) -> Report {
        for port in self.ports.iter_mut().flatten() {
            port.count_losses();
        }
        let links = self.links.iter_enumerated();
        let ports = self.ports.iter().enumerate();
        Report {
            links: links
                .filter_map(|(at, link)| Some((at, link.as_ref()?)))
                .map(|(at, link)| (at, link.is_up(), link.counters()))
                .collect(),
            ports: ports.filter_map(|(at, port)| Some((at, port.as_ref()?.traffic))).collect(),
            forwarded: self.forwarded(),
            flows: self.flows.report(),
            bonds: self
                .bonds
                .iter_enumerated()
                .filter_map(|(at, place)| Some((at, place.as_ref()?.state(plan, at, now)?)))
                .collect(),
            refused: self.refused,
            worker: self.counters,
        }
    }

    fn forwarded(&self) -> Vec<(usize, usize, u64)> {
        let switches = self.switches.iter().enumerate().filter_map(|(at, switch)| Some((at, switch.as_ref()?)));
        let counts = |(at, switch): (usize, &Forwarder)| {
            let counts = switch.forwarded.iter().enumerate().filter(|(_, packets)| **packets > 0);
            counts.map(|(host, &packets)| (at, host, packets)).collect::<Vec<_>>()
        };
        switches.flat_map(counts).collect()
    }
}

impl Forwarder {
    fn new(plan: &Plan, at: usize) -> Self {
        let fabric = plan.fabric();
        let id = NodeId((plan.hosts() + at) as u32);
        Self {
            switch: Switch::new(id, fabric.spread, plan.routes(), fabric.seed),
            forwarded: vec![0; plan.hosts()].into(),
        }
    }
}

fn none<T>(n: usize) -> Vec<Option<T>> {
    (0..n).map(|_| None).collect()
}

fn fill<T>(into: &mut Vec<Option<T>>, from: Vec<Option<T>>) {
    if into.is_empty() {
        *into = from;
        return;
    }
    for (slot, item) in into.iter_mut().zip(from) {
        if item.is_some() {
            *slot = item;
        }
    }
}

/// Where each node of `old` is in `new`, by name and kind.
fn node_map(old: &Plan, new: &Plan) -> TiVec<NodeId, Option<NodeId>> {
    let (old, new) = (&old.fabric().topology, &new.fabric().topology);
    let names = new.nodes.iter_enumerated();
    let by_name: BTreeMap<_, _> = names.map(|(id, node)| ((node.name.as_str(), new.is_host(id)), id)).collect();
    let nodes = old.nodes.iter_enumerated();
    nodes.map(|(id, node)| by_name.get(&(node.name.as_str(), old.is_host(id))).copied()).collect()
}

/// Where each direction of `old` is in `new`, by the names of its ends; parallel links are told apart by their order.
fn link_map(old: &Plan, new: &Plan) -> TiVec<Direction, Option<Direction>> {
    let by_name: BTreeMap<_, _> =
        link_keys(new).into_iter().zip(0_u32..).map(|(key, at)| (key, Direction(at))).collect();
    link_keys(old).iter().map(|key| by_name.get(key).copied()).collect()
}

fn link_keys(plan: &Plan) -> Vec<(&str, &str, u32)> {
    let name = |id: NodeId| plan.fabric().topology.nodes[id].name.as_str();
    let mut parallel = BTreeMap::new();
    let directions = plan.fabric().topology.links.keys().flat_map(Direction::both);
    let keys = directions.map(|direction| {
        let (from, to) = (name(plan.near(direction)), name(plan.far(direction)));
        let number = parallel.entry((from, to)).or_insert(0);
        *number += 1;
        (from, to, *number)
    });
    keys.collect()
}

/// Where an end of a bond of `old` is in `new`, if it is the same one: of the same name at the same node, over the same links, made of the
/// same, with the same kind of partner.
fn same_bond(
    (old, new): (&Plan, &Plan),
    was: BondEndId,
    nodes: &TiSlice<NodeId, Option<NodeId>>,
    links: &TiSlice<Direction, Option<Direction>>,
) -> Option<BondEndId> {
    let (before, after) = (old.fabric(), new.fabric());
    let end = &before.topology.bonds[was];
    let node = nodes[end.node]?;
    let is = after.topology.bonds.position(|other| other.node == node && other.name == end.name)?;
    let members = old.members(was).iter().map(|direction| links[*direction]);
    let kinds = |fabric: &Fabric, id: BondEndId| {
        let is_external = |id: BondEndId| fabric.topology.nodes[fabric.topology.bonds[id].node].is_external();
        (fabric.bonds[id].end, is_external(id), is_external(fabric.topology.bonds[id].partner))
    };
    let is_same = members.eq(new.members(is).iter().copied().map(Some))
        && kinds(before, was) == kinds(after, is)
        && before.bond_plan(was, 0) == after.bond_plan(is, 0);
    is_same.then_some(is)
}

/// Whether the same nodes are plugged together in the same way: then node numbers, port numbers and next-hop sets are the same.
fn same_graph(old: &Plan, new: &Plan) -> bool {
    let shape = |plan: &Plan| -> Vec<_> { plan.fabric().topology.links.iter().map(|link| (link.a, link.b)).collect() };
    let names = |plan: &Plan| -> Vec<_> { plan.fabric().topology.nodes.iter().map(|node| node.name.clone()).collect() };
    old.hosts() == new.hosts() && names(old) == names(new) && shape(old) == shape(new)
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
    /// Adds it to what the others counted.
    pub fn add_to(self, counters: &mut Counters, plan: &Plan) {
        for (at, up, link) in self.links {
            let both = &mut counters.links[usize::from(at.link())];
            both.up &= up;
            *(match at.from() {
                Side::A => &mut both.forward,
                Side::B => &mut both.backward,
            }) = link;
        }
        for (at, traffic) in self.ports {
            counters.ports[at].traffic = traffic;
        }
        let name = |id: usize| plan.fabric().topology.nodes[NodeId::from(id)].name.clone();
        counters.forwarded.extend(self.forwarded.into_iter().map(|(switch, host, packets)| Forwarded {
            switch: name(plan.hosts() + switch),
            host: name(host),
            packets,
        }));
        counters.flows.extend(self.flows);
        counters.bonds.extend(self.bonds.into_iter().map(|(_, bond)| bond));
        counters.refused.add(&self.refused);
        counters.workers.push(self.worker);
    }
}

/// Counters with all names and no counts.
pub fn blank_counters(plan: &Plan, at: Span) -> Counters {
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
