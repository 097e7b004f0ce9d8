//! What the file says, in the form in which workers look it up. Shared and immutable.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU64;
use std::sync::Arc;

use bond::end::Partner;
use datapath::{EndSpec, Map, Owner, Tables};
use fabric::{Fabric, SwitchSettings};
use machine::mix;
use topology::{
    BondEndId, LinkId, NetPort, Node, NodeId, NullDevice, PortId, Rerouting, Routes, TiSlice, TiVec, Topology,
};
use vswitch::mac_table::{MacLimits, MacTable};
use vswitch::{HostTable, Pipelines, Spread};

use super::poller::PortKey;
use super::renumbering::node_map;
use super::rstp::{PortChanges, port_changes};
use crate::tap::{LARGEST_FRAME, VNET_HEADER};

/// An Ethernet header with one 802.1Q tag.
const ETHERNET_HEADER: usize = 18;

/// The network, ready to be looked up.
#[derive(Debug)]
pub struct Plan {
    fabric: Fabric,
    tables: Tables,
    routes: Arc<Routes>,
    shaped: bool,
    /// Whether what leaves the fabric is counted by flow.
    counts_flows: bool,
    /// Hosts to which functions of chains show what is for others.
    shown_others: Vec<NodeId>,
    /// Whether each worker has all switches.
    is_shared: bool,
    workers: usize,
    /// Which worker owns each node.
    owner: TiVec<NodeId, u16>,
    /// Addresses that hosts have besides those of the file.
    macs: MacTable,
    /// How often ports have begun or ceased to forward.
    port_changes: Arc<PortChanges>,
    /// Who takes what comes in by each port.
    arrival_owners: TiVec<NetPort, Owner>,
}

impl Plan {
    /// The network of `fabric`, to be run by up to `workers` threads. Of the network that it takes the place of (`before`) all nodes stay where they are.
    pub fn new(fabric: Fabric, routes: Routes, workers: usize, pipelines: Pipelines, before: Option<&Self>) -> Self {
        let topology = &fabric.topology;
        let is_shaped = topology.is_shaped();
        // Where nothing waits on links, each worker has all switches, and what they must share is the hosts. A pipeline is in one place.
        let is_shared = !is_shaped && pipelines.is_empty();
        let most = if is_shared { topology.hosts as usize } else { topology.switch_count() };
        let tables = Tables { bonds: ends_of_bonds(&fabric), ..fabric.tables(pipelines, fabric.seed) };
        let steering = &tables.steering;
        let shown_others = topology.hosts().map(|(id, _)| id).filter(|id| steering.mirrors_to(*id)).collect();
        // What comes back from a function is known by what went there: one worker sees both.
        let most = if steering.is_empty() { most } else { 1 };
        let workers = workers.clamp(1, most.max(1)).max(before.map_or(0, Self::workers));
        let owner = owners(topology, workers, is_shared, before);
        let map = &tables.map;
        let arrival_owner = |(port, node): (NetPort, NodeId)| {
            // A host that forwards sends by the wires of its own worker.
            let is_each =
                is_shared && map.bond(port).is_none() && !map.forwards(node) && takes_from_each(&topology.nodes[node]);
            if is_each { Owner::Each } else { Owner::One(usize::from(owner[node])) }
        };
        let arrival_owners = map.ports().map(arrival_owner).collect();
        Self {
            macs: mac_table(&fabric, &tables),
            port_changes: port_changes(before),
            tables,
            routes: Arc::new(routes),
            shaped: is_shaped,
            counts_flows: is_shaped,
            shown_others,
            is_shared,
            owner,
            arrival_owners,
            workers,
            fabric,
        }
    }

    /// The same network, whose flows are counted also if no link has a rate or a delay: that costs each frame a look at its headers.
    #[must_use]
    pub fn counting_flows(self) -> Self {
        Self { counts_flows: true, ..self }
    }

    /// The network that it was made from.
    pub const fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// What every packet is looked up in.
    #[inline]
    pub const fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Where each port is, and where it leads.
    #[inline]
    pub const fn map(&self) -> &Map {
        &self.tables.map
    }

    /// Next hops, when these links have no carrier, in order.
    pub fn routes(&self, down: &[LinkId]) -> Arc<Routes> {
        if down.is_empty() || self.tables.rerouting == Rerouting::Fixed {
            return Arc::clone(&self.routes);
        }
        Arc::new(Routes::without(&self.fabric.topology, down))
    }

    /// Whose address is whose.
    pub const fn host_table(&self) -> &HostTable {
        &self.tables.host_table
    }

    /// Addresses that hosts have besides those of the file.
    pub const fn macs(&self) -> &MacTable {
        &self.macs
    }

    /// How often ports have begun or ceased to forward.
    pub const fn port_changes(&self) -> &Arc<PortChanges> {
        &self.port_changes
    }

    /// Whether pipelines of switches are what the file says, and no others.
    pub fn has_own_pipelines(&self) -> bool {
        !self.fabric.flow_tables.is_empty() || self.fabric.has_vlans() || self.fabric.has_rstp()
    }

    /// Whether a switch may have flows for addresses that nobody has.
    pub fn asks_flows(&self) -> bool {
        let Tables { pipelines, ports, .. } = &self.tables;
        !pipelines.is_empty() && (!self.fabric.flow_tables.is_empty() || !ports.has_vlans() && !ports.has_bridges())
    }

    /// Whether any link has a rate or a delay: then no frame is longer than an MTU.
    pub const fn is_shaped(&self) -> bool {
        self.shaped
    }

    /// Whether what leaves the fabric is counted by flow.
    pub const fn counts_flows(&self) -> bool {
        self.counts_flows
    }

    /// Whether packets may pass a switch at a worker.
    pub fn has_switch(&self, worker: usize, switch: usize) -> bool {
        self.is_shared || self.owner(self.map().node_of_switch(switch)) == worker
    }

    /// How many threads run it.
    pub const fn workers(&self) -> usize {
        self.workers
    }

    /// How many hosts it has.
    pub const fn hosts(&self) -> usize {
        self.fabric.topology.hosts as usize
    }

    /// How many switches it has, those in multi-homed hosts included.
    pub fn switches(&self) -> usize {
        self.map().switches()
    }

    /// The longest frame that a host may send, virtio-net header included.
    pub const fn frame_limit(&self) -> usize {
        frame_limit(&self.fabric, self.shaped)
    }

    /// A host's port with this number.
    #[inline]
    pub fn port(&self, key: PortKey) -> NetPort {
        self.map().port(NodeId(key.host as u32), PortId(key.device as u16))
    }

    /// Whether a host of ours has a bond: frames may be for an address of one of its members.
    #[inline]
    pub fn is_known_by_members(&self, host: NodeId) -> bool {
        !self.tables.bonds.is_empty()
            && self.map().taker(self.map().port(host, PortId(0))).is_in_bond()
            && !self.fabric.topology.nodes[host].is_external()
    }

    /// Whether a function of a chain shows a host what is for others.
    #[inline]
    pub fn is_shown_others(&self, host: NodeId) -> bool {
        self.shown_others.contains(&host)
    }

    /// Whether a host is a port of a function of service chains.
    #[inline]
    pub const fn is_function_port(&self, host: usize) -> bool {
        self.fabric.topology.is_function_port(NodeId(host as u32))
    }

    /// Whether anybody asks what flow a packet is of that comes from a function.
    #[inline]
    pub fn asks_functions_for_flows(&self) -> bool {
        self.counts_flows || (self.fabric.spread == Spread::Ecmp && self.fabric.topology.switch_count() > 1)
    }

    /// Which worker owns `node`.
    #[inline]
    pub fn owner(&self, node: NodeId) -> usize {
        usize::from(self.owner[node])
    }

    /// Which workers take what comes in by a port.
    #[inline]
    pub fn arrival_owner(&self, port: NetPort) -> Owner {
        self.arrival_owners[port]
    }

    /// Which workers have the egress of a port. What a switch sends leaves by each, unless who takes it is in one place or it
    /// leaves by a bond.
    pub fn egress_owner(&self, port: NetPort) -> Owner {
        let owner = Owner::One(self.owner(self.map().node(port)));
        let is_switch = !self.map().is_host(self.map().node(port));
        match self.arrival_owner(port) {
            Owner::Each if is_switch => self.arrival_owner(self.map().far(port)),
            _ => owner,
        }
    }

    /// Whether each worker hands frames to a host itself.
    pub fn is_handed_by_each(&self, host: NodeId) -> bool {
        let mut ports = self.map().port_of(host, PortId(0)).into_iter();
        ports.all(|port| self.arrival_owner(port) == Owner::Each)
    }

    /// The hosts that belong to `worker`.
    pub fn hosts_of(&self, worker: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.hosts()).filter(move |&host| self.owner(host.into()) == worker)
    }
}

/// The table of addresses that are learned in a network.
fn mac_table(fabric: &Fabric, tables: &Tables) -> MacTable {
    let default = SwitchSettings::default();
    let limits = |(id, _): (NodeId, &Node)| {
        let settings = fabric.switches.get(&id).unwrap_or(&default);
        MacLimits { age: settings.mac_age.into(), addresses: settings.mac_table_size }
    };
    let limits: Vec<MacLimits> = fabric.topology.switches().map(limits).collect();
    let switches = fabric.topology.hosts().map(|(host, _)| edge_switch(tables, host));
    MacTable::new(switches, &limits, drawn_lot().map_or(0, NonZeroU64::get))
}

/// The first switch that a host is linked to, by its number among the switches.
fn edge_switch(tables: &Tables, host: NodeId) -> Option<usize> {
    let map = &tables.map;
    map.switch(map.far_node(map.port_of(host, PortId(0))?))
}

/// See [`Plan::frame_limit`].
pub const fn frame_limit(fabric: &Fabric, is_shaped: bool) -> usize {
    let longest = if is_shaped { fabric.mtu as usize + ETHERNET_HEADER } else { LARGEST_FRAME };
    VNET_HEADER + longest
}

/// What is at the ends of bonds; behind devices of the machine it is another program's.
fn ends_of_bonds(fabric: &Fabric) -> TiVec<BondEndId, EndSpec> {
    let mut ends = fabric.ends_of_bonds(|id| mix(fabric.seed ^ u64::from(id.0)));
    let nodes: Vec<NodeId> = ends.iter().map(|end| end.node).collect();
    let is_external = |end: BondEndId| fabric.topology.nodes[nodes[usize::from(end)]].is_external();
    for (id, end) in ends.iter_mut_enumerated() {
        end.is_external = is_external(id);
        if is_external(end.partner)
            && let Some(plan) = &mut end.plan
        {
            plan.partner = Partner::External { hello: drawn_lot() };
        }
    }
    ends
}

/// A number that no other run of this program has: by it, a bond tells its own greetings from its peer's.
fn drawn_lot() -> Option<NonZeroU64> {
    NonZeroU64::new(RandomState::new().hash_one(std::process::id()))
}

/// Whether several workers at once may hand frames to a node. The sockets of devices are one worker's.
fn takes_from_each(node: &Node) -> bool {
    node.devices.iter().all(|device| NullDevice::of(device).is_some())
}

/// Deals out the switches in equal runs of neighbours in the file's order, and to each host the worker of its switch. Where workers share the switches,
/// hosts are dealt out themselves, unless they are in bonds or behind devices: then most packets stay at one worker.
///
/// What was there before stays at its worker, whatever it is now: what a node has never moves from one worker to another. What is new goes to the worker that
/// has least.
fn owners(topology: &Topology, workers: usize, is_shared: bool, before: Option<&Plan>) -> TiVec<NodeId, u16> {
    let (hosts, switches) = (topology.hosts as usize, topology.switch_count());
    let mut kept: TiVec<NodeId, Option<u16>> = vec![None; topology.nodes.len()].into();
    if let Some(before) = before {
        let nodes = node_map(&before.fabric.topology, topology);
        for (was, is) in nodes.iter_enumerated() {
            if let Some(is) = is {
                kept[*is] = Some(before.owner[was]);
            }
        }
    }
    let is_first = kept.iter().all(Option::is_none);
    let in_bonds: BTreeSet<NodeId> = topology.bonds.iter().map(|bond| bond.node).collect();
    let mut owners: TiVec<NodeId, u16> = kept.iter().map(|owner| owner.unwrap_or(0)).collect();
    let is_new = |node: &NodeId| kept[*node].is_none();
    let mut load = load_of(workers, &kept[NodeId::from(hosts)..]);
    for (at, node) in topology.nodes.keys().skip(hosts).enumerate().filter(|(_, node)| is_new(node)) {
        owners[node] = if is_first { (at * workers / switches) as u16 } else { take_least(&mut load) };
    }
    let mut load = load_of(workers, &kept[..NodeId::from(hosts)]);
    for host in topology.nodes.keys().take(hosts).filter(is_new) {
        let is_dealt_out = is_shared && takes_from_each(&topology.nodes[host]) && !in_bonds.contains(&host);
        owners[host] = match (is_dealt_out, is_first) {
            (false, _) => topology.peers(host).next().map_or(0, |switch| owners[switch]),
            (true, true) => (usize::from(host) * workers / hosts) as u16,
            (true, false) => take_least(&mut load),
        };
    }
    owners
}

/// How many of these nodes each worker has.
fn load_of(workers: usize, kept: &TiSlice<NodeId, Option<u16>>) -> Vec<usize> {
    let mut load = vec![0; workers];
    kept.iter().flatten().for_each(|owner| load[usize::from(*owner)] += 1);
    load
}

/// The worker that has least; it has one more then.
fn take_least(load: &mut [usize]) -> u16 {
    let least = (0..load.len()).min_by_key(|worker| load[*worker]).unwrap_or(0);
    load[least] += 1;
    least as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(hosts: &[&str], rate: &str, before: Option<&Plan>) -> Plan {
        let nodes = hosts.iter().map(|host| format!("{host}: host, ")).collect::<Vec<_>>().concat();
        let link = |host: &&str| format!("  - {{ between: [{host}, s1]{rate} }}\n");
        let links = hosts.iter().map(link).collect::<Vec<_>>().concat();
        let nodes = format!("nodes: {{ {nodes}s1: switch, s2: switch }}");
        let text = format!("name: star\n{nodes}\nlinks:\n{links}  - between: [s1, s2]\n");
        let source = fabric::Source { name: "test".to_owned(), text };
        let fabric = fabric::parse(&source).unwrap();
        let routes = Routes::compute(&fabric.topology);
        Plan::new(fabric, routes, 2, Pipelines::default(), before)
    }

    fn owners_of(plan: &Plan, names: &[&str]) -> Vec<usize> {
        names.iter().map(|name| plan.owner(plan.fabric().topology.node(name).unwrap())).collect()
    }

    #[test]
    fn nodes_stay_where_they_are_and_new_ones_go_where_there_is_least() {
        let first = plan(&["a", "b", "c", "d"], "", None);
        assert_eq!(owners_of(&first, &["a", "b", "c", "d", "s1", "s2"]), [0, 0, 1, 1, 0, 1]);
        let second = plan(&["e", "b", "c", "f", "d"], "", Some(&first));
        assert_eq!(owners_of(&second, &["e", "b", "c", "f", "d", "s1", "s2"]), [0, 0, 1, 0, 1, 0, 1]);
        let shaped = plan(&["x", "d", "b"], ", rate: 1Gbit", Some(&second));
        // Where links have rates, a host that comes is its switch's.
        assert_eq!(owners_of(&shaped, &["x", "d", "b", "s1", "s2"]), [0, 1, 0, 0, 1]);
    }

    #[test]
    fn workers_stay_when_a_network_becomes_smaller() {
        let first = plan(&["a", "b"], "", None);
        let second = plan(&["a"], "", Some(&first));
        assert_eq!((second.workers(), plan(&["a"], "", None).workers()), (2, 1));
    }
}
