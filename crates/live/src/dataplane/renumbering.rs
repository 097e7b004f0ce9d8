//! Where what one network has is in the next one: by names, since numbers change with the file.

use std::collections::BTreeMap;

use topology::{BondEndId, LinkId, NetPort, Node, NodeId, TiSlice, TiVec, Topology};
use vswitch::flow_table::Ports;

use super::plan::Plan;
use crate::device::Attached;

/// Where what one network has is in the next one.
#[derive(Debug)]
pub struct Renumbering {
    /// Nodes, ports and ends of bonds.
    pub graph: datapath::Renumbering,
    /// By host: the host of the next network that has the very same port.
    pub attached: Vec<Option<usize>>,
    /// By end of a bond of the next network: whether it is another one than before.
    pub is_new_end: TiVec<BondEndId, bool>,
    /// Whether all hosts are there with the same numbers, and no others.
    pub has_same_hosts: bool,
}

impl Renumbering {
    /// From `old` to `new`; of both what is at the ends of the hosts' links, in order.
    pub fn new((old, attached): (&Plan, &[Attached]), (new, next_attached): (&Plan, &[Attached])) -> Self {
        let nodes = node_map(&old.fabric().topology, &new.fabric().topology);
        let ports = port_map(old, new);
        let ends = old.fabric().topology.bonds.keys().map(|end| same_bond((old, new), end, &nodes, &ports));
        let ends: TiVec<BondEndId, Option<BondEndId>> = ends.collect();
        let mut is_new_end: TiVec<BondEndId, bool> = vec![true; new.tables().bonds.len()].into();
        ends.iter().flatten().for_each(|end| is_new_end[*end] = false);
        let same_port = |(was, old): (usize, &Attached)| {
            let is = usize::from(nodes[NodeId::from(was)]?);
            next_attached.get(is).is_some_and(|new| old.is(new)).then_some(is)
        };
        let has_same_hosts =
            old.hosts() == new.hosts() && (0..old.hosts()).all(|host| nodes[NodeId::from(host)] == Some(host.into()));
        let randomness = |plan: &Plan| (plan.fabric().spread, plan.fabric().seed);
        Self {
            attached: attached.iter().enumerate().map(same_port).collect(),
            is_new_end,
            has_same_hosts,
            graph: datapath::Renumbering {
                keeps_choices: randomness(old) == randomness(new),
                keeps_pipelines: keeps_pipelines(old, new, &nodes),
                nodes,
                ports,
                ends,
            },
        }
    }

    /// A host of the network before, if it is a host now.
    pub fn host(&self, was: usize) -> Option<usize> {
        self.graph.nodes[NodeId::from(was)].map(usize::from)
    }

    /// A switch of the network before, by its number among the switches.
    pub fn switch(&self, (was, is): (&Plan, &Plan), number: usize) -> Option<usize> {
        let node = self.graph.nodes[was.map().node_of_switch(number)]?;
        is.map().switch(node).or_else(|| is.map().host_switch(node))
    }

    /// A link of the network before.
    pub fn link(&self, (was, is): (&Plan, &Plan), link: LinkId) -> Option<LinkId> {
        let port = self.graph.ports[was.map().ends(link)[0]]?;
        let (link, _) = is.fabric().topology.nodes[is.map().node(port)].ports[is.map().number(port)];
        Some(link)
    }
}

/// Where each node of `old` is in `new`, by name and kind: a host stays a host.
pub fn node_map(old: &Topology, new: &Topology) -> TiVec<NodeId, Option<NodeId>> {
    let names = new.nodes.iter_enumerated();
    let by_name: BTreeMap<_, _> = names.map(|(id, node)| ((node.name.as_str(), new.is_host(id)), id)).collect();
    let nodes = old.nodes.iter_enumerated();
    nodes.map(|(id, node)| by_name.get(&(node.name.as_str(), old.is_host(id))).copied()).collect()
}

/// Where each port of `old` is in `new`, by the names of its link's ends; parallel links are told apart by their order.
fn port_map(old: &Plan, new: &Plan) -> TiVec<NetPort, Option<NetPort>> {
    let by_name: BTreeMap<_, _> = port_keys(new).into_iter().collect();
    let mut ports: TiVec<NetPort, _> = vec![None; old.map().ports().len()].into();
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
fn is_same_graph(old: &Plan, new: &Plan) -> bool {
    let shape = |plan: &Plan| -> Vec<_> { plan.fabric().topology.links.iter().map(|link| (link.a, link.b)).collect() };
    let names = |plan: &Plan| -> Vec<_> { plan.fabric().topology.nodes.iter().map(|node| node.name.clone()).collect() };
    let (before, after) = (&old.fabric().topology, &new.fabric().topology);
    old.hosts() == new.hosts()
        && names(old) == names(new)
        && shape(old) == shape(new)
        && before.multi_homed().eq(after.multi_homed())
}

/// By switch: whether its pipeline goes on.
fn keeps_pipelines(old: &Plan, new: &Plan, nodes: &TiSlice<NodeId, Option<NodeId>>) -> Vec<bool> {
    let (before, after) = (&old.fabric().flow_tables, &new.fabric().flow_tables);
    // Those of tests know addresses, and all of the graph.
    let has_others = |plan: &Plan| !plan.tables().pipelines.is_empty() && !plan.has_own_pipelines();
    if has_others(old) || has_others(new) {
        let is_same = is_same_graph(old, new) && has_same_addresses(old, new);
        return vec![is_same; if is_same { new.fabric().topology.switch_count() } else { 0 }];
    }
    let has_ports = |plan: &Plan| plan.fabric().has_vlans() || plan.fabric().has_rstp();
    // Tables know the ports of their switch, and are what the file says.
    let keeps = |(was, _): (NodeId, &Node)| {
        let Some(is) = nodes[was].filter(|is| old.map().switch(was) == new.map().switch(*is)) else { return false };
        let ports = |plan: &Plan, switch| Ports::of(&plan.fabric().topology, switch);
        // Where there are VLANs, or RSTP is spoken, switches without tables have a pipeline, too.
        let is_same_kind = before.contains_key(&was) || has_ports(old) == has_ports(new);
        is_same_kind && before.get(&was) == after.get(&is) && ports(new, is).begins_with(&ports(old, was))
    };
    old.fabric().topology.switches().map(keeps).collect()
}

/// Whether the same hosts have the same addresses, and the same ports are in bonds.
fn has_same_addresses(old: &Plan, new: &Plan) -> bool {
    let (before, after) = (&old.fabric().topology, &new.fabric().topology);
    before.hosts().all(|(id, _)| before.address(id) == after.address(id)) && before.bonds == after.bonds
}
