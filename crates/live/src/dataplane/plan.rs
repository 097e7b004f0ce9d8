//! What the file says, in the form in which workers look it up. Shared and immutable.

use fabric::Fabric;
use topology::{BondEndId, Direction, NodeId, PortId, Routes, Side, TiVec, Topology};
use vswitch::HostTable;

use crate::tap::{LARGEST_FRAME, VNET_HEADER};

/// An Ethernet header with one 802.1Q tag.
const ETHERNET_HEADER: usize = 18;

/// The network, ready to be looked up.
#[derive(Debug)]
pub struct Plan {
    fabric: Fabric,
    routes: Routes,
    host_table: HostTable,
    shaped: bool,
    workers: usize,
    /// Where each direction ends.
    far: TiVec<Direction, NodeId>,
    /// The directions that leave each node by port, all nodes in one row.
    out: Vec<Direction>,
    /// Where a node's ports start in `out`.
    first_port: TiVec<NodeId, u32>,
    /// Which worker owns each node.
    owner: TiVec<NodeId, u16>,
    /// The end of a bond that each direction leaves from, or [`NO_BOND`].
    bond: TiVec<Direction, BondEndId>,
    /// By end: the directions that leave by its members.
    members: TiVec<BondEndId, Vec<Direction>>,
}

/// A direction that is in no bond.
const NO_BOND: BondEndId = BondEndId(u32::MAX);

impl Plan {
    /// The network of `fabric`, to be run by up to `workers` threads.
    pub fn new(fabric: Fabric, routes: Routes, workers: usize) -> Self {
        let topology = &fabric.topology;
        let mut out = Vec::new();
        let mut first_port = TiVec::with_capacity(topology.nodes.len());
        for node in &topology.nodes {
            first_port.push(out.len() as u32);
            out.extend(node.ports.iter().map(|&(link, side)| Direction::leaving(link, side)));
        }
        let ends = |link: &topology::Link| [link.end(Side::B).node, link.end(Side::A).node];
        let members: TiVec<BondEndId, Vec<Direction>> =
            topology.bonds.keys().map(|id| topology.members(id).collect()).collect();
        let mut bond: TiVec<Direction, BondEndId> = vec![NO_BOND; topology.links.len() * 2].into();
        for (id, directions) in members.iter_enumerated() {
            for direction in directions {
                bond[*direction] = id;
            }
        }
        let workers = workers.clamp(1, topology.switch_count().max(1));
        Self {
            host_table: HostTable::new(topology, &fabric.host_bonds()),
            shaped: topology.is_shaped(),
            far: topology.links.iter().flat_map(ends).collect(),
            owner: owners(topology, workers),
            out,
            first_port,
            bond,
            members,
            workers,
            fabric,
            routes,
        }
    }

    /// The network that it was made from.
    pub const fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Next hops.
    pub const fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Whose address is whose.
    pub const fn host_table(&self) -> &HostTable {
        &self.host_table
    }

    /// Whether any link has a rate or a delay: then no frame is longer than an MTU.
    pub const fn is_shaped(&self) -> bool {
        self.shaped
    }

    /// How many threads run it.
    pub const fn workers(&self) -> usize {
        self.workers
    }

    /// How many hosts it has.
    pub const fn hosts(&self) -> usize {
        self.fabric.topology.hosts as usize
    }

    /// How many switches it has.
    pub fn switches(&self) -> usize {
        self.fabric.topology.switch_count()
    }

    /// The longest frame that a host may send, virtio-net header included.
    pub const fn frame_limit(&self) -> usize {
        let longest = if self.shaped { self.fabric.mtu as usize + ETHERNET_HEADER } else { LARGEST_FRAME };
        VNET_HEADER + longest
    }

    /// Where a direction ends.
    #[inline]
    pub fn far(&self, direction: Direction) -> NodeId {
        self.far[direction]
    }

    /// The node from which a direction starts.
    pub fn near(&self, direction: Direction) -> NodeId {
        self.far[direction.back()]
    }

    /// The direction that leaves `node` by `port`.
    #[inline]
    pub fn leaving(&self, node: NodeId, port: PortId) -> Direction {
        self.out[self.first_port[node] as usize + usize::from(port)]
    }

    /// The end of a bond that a direction leaves from.
    #[inline]
    pub fn bond(&self, direction: Direction) -> Option<BondEndId> {
        Some(self.bond[direction]).filter(|id| *id != NO_BOND)
    }

    /// The end of a bond that a direction leads to, and the member's number there.
    #[inline]
    pub fn far_bond(&self, direction: Direction) -> Option<(BondEndId, usize)> {
        let back = direction.back();
        let id = self.bond(back)?;
        let member = self.members[id].iter().position(|other| *other == back);
        Some((id, member.expect("a bond's direction is one of its members")))
    }

    /// The directions that leave by a bond's members.
    #[inline]
    pub fn members(&self, bond: BondEndId) -> &[Direction] {
        &self.members[bond]
    }

    /// Whether a host of ours has a bond: frames may be for an address of one of its members.
    #[inline]
    pub fn is_known_by_members(&self, host: NodeId) -> bool {
        !self.members.is_empty()
            && self.bond(self.leaving(host, PortId(0))).is_some()
            && !self.fabric.topology.nodes[host].is_external()
    }

    /// Which worker owns `node`.
    #[inline]
    pub fn owner(&self, node: NodeId) -> usize {
        usize::from(self.owner[node])
    }

    /// The switch's number among the switches; `None` for a host.
    #[inline]
    pub fn switch_index(&self, node: NodeId) -> Option<usize> {
        (node.0 as usize).checked_sub(self.hosts())
    }

    /// The hosts that belong to `worker`.
    pub fn hosts_of(&self, worker: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.hosts()).filter(move |&host| self.owner(host.into()) == worker)
    }
}

/// Deals out the switches in equal runs of neighbours in the file's order, and to each host the worker of its switch.
fn owners(topology: &Topology, workers: usize) -> TiVec<NodeId, u16> {
    let hosts = topology.hosts as usize;
    let switches = topology.switch_count();
    let of_switch = |node| usize::from(node).checked_sub(hosts).map_or(0, |at| at * workers / switches.max(1));
    let of_host = |host| topology.peers(host).next().map_or(0, of_switch);
    let nodes = topology.nodes.keys();
    nodes.map(|id| if topology.is_host(id) { of_host(id) } else { of_switch(id) } as u16).collect()
}
