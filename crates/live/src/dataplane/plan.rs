//! What the file says, in the form in which workers look it up. Shared and immutable.

use fabric::{Fabric, NodeId, PortId, Routes, Side};
use vswitch::Directory;

use crate::tap::{LARGEST_FRAME, VNET_HEADER};

/// An Ethernet header with one 802.1Q tag.
const ETHERNET_HEADER: usize = 18;

/// One way over a link: twice the link's number, plus one from end B to end A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Direction(pub u32);

impl Direction {
    /// The way that leaves `side`.
    pub const fn from(link: u32, side: Side) -> Self {
        Self(link * 2 + matches!(side, Side::B) as u32)
    }

    /// The link's number.
    pub const fn link(self) -> usize {
        (self.0 / 2) as usize
    }

    /// Its place in a list of all ways.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The network, ready to be looked up.
#[derive(Debug)]
pub struct Plan {
    fabric: Fabric,
    routes: Routes,
    directory: Directory,
    shaped: bool,
    workers: usize,
    /// Where each direction ends.
    far: Vec<NodeId>,
    /// The directions that leave each node by port, all nodes in one row.
    out: Vec<Direction>,
    /// Where a node's ports start in `out`.
    first_port: Vec<u32>,
    /// Which worker owns each node.
    owner: Vec<u16>,
    /// The end of a bond that each direction leaves from, or [`NO_BOND`].
    bond: Vec<u32>,
    /// By end: the directions that leave by its members.
    members: Vec<Vec<Direction>>,
}

/// A direction that is in no bond.
const NO_BOND: u32 = u32::MAX;

impl Plan {
    /// The network of `fabric`, to be run by up to `workers` threads.
    pub fn new(fabric: Fabric, routes: Routes, workers: usize) -> Self {
        let mut out = Vec::new();
        let mut first_port = Vec::new();
        for node in &fabric.nodes {
            first_port.push(out.len() as u32);
            out.extend(node.ports.iter().map(|&(link, side)| Direction::from(link.0, side)));
        }
        let ends = |link: &fabric::Link| [link.end(Side::B).node, link.end(Side::A).node];
        let leaving = |node: NodeId, port: &PortId| out[first_port[node.0 as usize] as usize + usize::from(port.0)];
        let members_of = |end: &fabric::Bond| end.ports.iter().map(|port| leaving(end.node, port)).collect();
        let members: Vec<Vec<Direction>> = fabric.bonds.iter().map(members_of).collect();
        let mut bond = vec![NO_BOND; fabric.links.len() * 2];
        for (index, directions) in members.iter().enumerate() {
            for direction in directions {
                bond[direction.index()] = index as u32;
            }
        }
        let switches = fabric.nodes.len() - fabric.hosts as usize;
        let workers = workers.clamp(1, switches.max(1));
        Self {
            directory: Directory::new(&fabric),
            shaped: fabric.is_shaped(),
            far: fabric.links.iter().flat_map(ends).collect(),
            owner: owners(&fabric, workers),
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
    pub const fn directory(&self) -> &Directory {
        &self.directory
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
        self.fabric.hosts as usize
    }

    /// How many switches it has.
    pub fn switches(&self) -> usize {
        self.fabric.nodes.len() - self.hosts()
    }

    /// The longest frame that a host may send, virtio-net header included.
    pub const fn frame_limit(&self) -> usize {
        let longest = if self.shaped { self.fabric.mtu as usize + ETHERNET_HEADER } else { LARGEST_FRAME };
        VNET_HEADER + longest
    }

    /// Where a direction ends.
    #[inline]
    pub fn far(&self, direction: Direction) -> NodeId {
        self.far[direction.index()]
    }

    /// The node from which a direction starts.
    pub fn near(&self, direction: Direction) -> NodeId {
        self.far[(direction.0 ^ 1) as usize]
    }

    /// The direction that leaves `node` by `port`.
    #[inline]
    pub fn leaving(&self, node: NodeId, port: PortId) -> Direction {
        self.out[self.first_port[node.0 as usize] as usize + usize::from(port.0)]
    }

    /// The end of a bond that a direction leaves from.
    #[inline]
    pub fn bond(&self, direction: Direction) -> Option<usize> {
        Some(self.bond[direction.index()]).filter(|index| *index != NO_BOND).map(|index| index as usize)
    }

    /// The end of a bond that a direction leads to, and the member's number there.
    #[inline]
    pub fn far_bond(&self, direction: Direction) -> Option<(usize, usize)> {
        let back = Direction(direction.0 ^ 1);
        let index = self.bond(back)?;
        let member = self.members[index].iter().position(|other| *other == back);
        Some((index, member.expect("a bond's direction is one of its members")))
    }

    /// The directions that leave by a bond's members.
    #[inline]
    pub fn members(&self, bond: usize) -> &[Direction] {
        &self.members[bond]
    }

    /// Whether a host of ours has a bond: frames may be for an address of one of its members.
    #[inline]
    pub fn is_known_by_members(&self, host: NodeId) -> bool {
        !self.members.is_empty()
            && self.bond(self.leaving(host, PortId(0))).is_some()
            && !self.fabric.nodes[host.0 as usize].is_foreign()
    }

    /// Which worker owns `node`.
    #[inline]
    pub fn owner(&self, node: NodeId) -> usize {
        usize::from(self.owner[node.0 as usize])
    }

    /// The switch's number among the switches; `None` for a host.
    #[inline]
    pub fn switch_index(&self, node: NodeId) -> Option<usize> {
        (node.0 as usize).checked_sub(self.hosts())
    }

    /// The hosts that belong to `worker`.
    pub fn hosts_of(&self, worker: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.hosts()).filter(move |&host| usize::from(self.owner[host]) == worker)
    }
}

/// Deals out the switches in equal runs of neighbours in the file's order, and to each host the worker of its switch.
fn owners(fabric: &Fabric, workers: usize) -> Vec<u16> {
    let hosts = fabric.hosts as usize;
    let switches = fabric.nodes.len() - hosts;
    let of_switch = |node: NodeId| (node.0 as usize).checked_sub(hosts).map_or(0, |at| at * workers / switches.max(1));
    let of_host = |host: &fabric::Node| match host.ports.first() {
        Some(&(link, side)) => of_switch(fabric.links[link.0 as usize].end(side.other()).node),
        None => 0,
    };
    let nodes = fabric.nodes.iter().enumerate();
    nodes.map(|(id, node)| if id < hosts { of_host(node) } else { of_switch(NodeId(id as u32)) } as u16).collect()
}
