//! Where each port is, and where it leads.

use bond::MemberId;
use topology::{BondEndId, Direction, LinkId, NetPort, NodeId, PortId, Side, TiVec, Topology};

/// A port that is in no bond.
const NO_BOND: BondEndId = BondEndId(u32::MAX);

/// A host with one port, or with a bond.
const NOT_MULTI_HOMED: u32 = u32::MAX;

/// Where each port is, and where it leads: a topology in the form in which packets look it up. Does not change.
#[derive(Debug)]
pub struct Map {
    /// The taker of what comes in by each port. By itself, since that is all that most packets ask.
    takers: TiVec<NetPort, Taker>,
    ports: TiVec<NetPort, PortEntry>,
    /// Where each node's ports begin.
    first: TiVec<NodeId, NetPort>,
    /// The port that each direction leaves from.
    leaving: TiVec<Direction, NetPort>,
    /// By end of a bond: the ports of its members.
    members: TiVec<BondEndId, Vec<NetPort>>,
    hosts: u32,
    /// Multi-homed hosts, ascending, and whether each forwards.
    multi_homed: Vec<(NodeId, bool)>,
    /// By host: its number among the multi-homed ones, or [`NOT_MULTI_HOMED`]. Empty where there are none.
    host_switches: Vec<u32>,
}

/// What is looked up of a port.
#[derive(Clone, Copy, Debug)]
struct PortEntry {
    /// The port at the other end of the link.
    far: NetPort,
    /// The end of a bond that it is a member of, or [`NO_BOND`].
    bond: BondEndId,
    member: u8,
}

/// The taker of what comes in by a port: its node, or the end of a bond there. In one word, since each packet at each hop asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taker(u32);

impl Taker {
    /// With this bit the port is in a bond.
    const IN_BOND: u32 = 1 << 31;
    /// With this bit it is one of a multi-homed host.
    const OF_MULTI_HOMED: u32 = 1 << 30;

    /// The node of the port.
    #[inline]
    pub const fn node(self) -> NodeId {
        NodeId(self.0 & !(Self::IN_BOND | Self::OF_MULTI_HOMED))
    }

    /// Whether the node itself takes it, and knows what to do with it: neither a bond nor a host that may forward it.
    #[inline]
    pub const fn is_direct(self) -> bool {
        self.0 < Self::OF_MULTI_HOMED
    }

    /// Whether the port is one of a multi-homed host.
    pub const fn is_of_multi_homed(self) -> bool {
        self.0 & Self::OF_MULTI_HOMED != 0
    }

    /// Whether the port is a member of a bond, which takes what comes first.
    #[inline]
    pub const fn is_in_bond(self) -> bool {
        self.0 & Self::IN_BOND != 0
    }
}

impl Map {
    /// The map of a topology.
    ///
    /// # Panics
    /// If it has 2^30 nodes or more.
    pub fn new(topology: &Topology) -> Self {
        assert!(topology.nodes.len() < Taker::OF_MULTI_HOMED as usize, "too many nodes");
        let mut first = TiVec::with_capacity(topology.nodes.len());
        let mut next = 0;
        for node in &topology.nodes {
            first.push(NetPort(next));
            next += node.ports.len() as u32;
        }
        let port = |node: NodeId, port: PortId| NetPort(first[node].0 + u32::from(port.0));
        let mut ports = TiVec::with_capacity(next as usize);
        let mut takers = TiVec::with_capacity(next as usize);
        for (id, node) in topology.nodes.iter_enumerated() {
            for &(link, side) in &node.ports {
                let far = topology.links[link].end(side.other());
                takers.push(Taker(id.0));
                ports.push(PortEntry { far: port(far.node, far.port), bond: NO_BOND, member: 0 });
            }
        }
        let ends =
            |link: &topology::Link| [Side::A, Side::B].map(|side| port(link.end(side).node, link.end(side).port));
        let members = topology.bonds.iter().map(|end| end.ports.iter().map(|at| port(end.node, *at)).collect());
        let members: TiVec<BondEndId, Vec<NetPort>> = members.collect();
        for (id, members) in members.iter_enumerated() {
            for (member, port) in members.iter().enumerate() {
                let place: &mut PortEntry = &mut ports[*port];
                (place.bond, place.member) = (id, member as u8);
                let taker: &mut Taker = &mut takers[*port];
                taker.0 |= Taker::IN_BOND;
            }
        }
        let mut map = Self {
            leaving: topology.links.iter().flat_map(ends).collect(),
            takers,
            ports,
            first,
            members,
            hosts: topology.hosts,
            multi_homed: topology.multi_homed().map(|host| (host, topology.forwards(host))).collect(),
            host_switches: Vec::new(),
        };
        map.mark_multi_homed(topology);
        map
    }

    fn mark_multi_homed(&mut self, topology: &Topology) {
        if !self.multi_homed.is_empty() {
            self.host_switches = vec![NOT_MULTI_HOMED; self.hosts as usize];
        }
        for (number, &(host, _)) in self.multi_homed.iter().enumerate() {
            self.host_switches[usize::from(host)] = number as u32;
            for at in topology.nodes[host].ports.keys() {
                let port = self.port(host, at);
                self.takers[port].0 |= Taker::OF_MULTI_HOMED;
            }
        }
    }

    /// The taker of what comes in by a port.
    #[inline]
    pub fn taker(&self, port: NetPort) -> Taker {
        self.takers[port]
    }

    /// Whether a host takes all that comes in by a port, and no bond before it: neither is it multi-homed.
    #[inline]
    pub fn is_hosts_own(&self, port: NetPort) -> bool {
        self.taker(port).0 < self.hosts
    }

    /// The node of a port.
    #[inline]
    pub fn node(&self, port: NetPort) -> NodeId {
        self.taker(port).node()
    }

    /// The port at the other end of the link.
    #[inline]
    pub fn far(&self, port: NetPort) -> NetPort {
        self.ports[port].far
    }

    /// The node at the other end of the link.
    pub fn far_node(&self, port: NetPort) -> NodeId {
        self.node(self.far(port))
    }

    /// A node's port.
    #[inline]
    pub fn port(&self, node: NodeId, port: PortId) -> NetPort {
        NetPort(self.first[node].0 + u32::from(port.0))
    }

    /// The same, if the node has it.
    pub fn port_of(&self, node: NodeId, port: PortId) -> Option<NetPort> {
        let found = self.port(node, port);
        (self.takers.get(found)?.node() == node).then_some(found)
    }

    /// The number of a port among those of its node.
    pub fn number(&self, port: NetPort) -> PortId {
        PortId((port.0 - self.first[self.node(port)].0) as u16)
    }

    /// The port that a way over a link leaves from.
    pub fn leaving(&self, direction: Direction) -> NetPort {
        self.leaving[direction]
    }

    /// Both ports of a link, that of side A first.
    pub fn ends(&self, link: LinkId) -> [NetPort; 2] {
        Direction::both(link).map(|direction| self.leaving(direction))
    }

    /// All ports, each with its node.
    pub fn ports(&self) -> impl ExactSizeIterator<Item = (NetPort, NodeId)> + '_ {
        self.takers.iter_enumerated().map(|(port, taker)| (port, taker.node()))
    }

    /// The end of a bond that a port is a member of.
    #[inline]
    pub fn bond(&self, port: NetPort) -> Option<BondEndId> {
        Some(self.ports[port].bond).filter(|bond| *bond != NO_BOND)
    }

    /// The same, and which of its members it is.
    #[inline]
    pub fn member(&self, port: NetPort) -> Option<(BondEndId, MemberId)> {
        Some((self.bond(port)?, MemberId::new(usize::from(self.ports[port].member))))
    }

    /// The ports of a bond's members at one end.
    ///
    /// # Panics
    /// If there is no such end.
    #[inline]
    pub fn members(&self, end: BondEndId) -> &[NetPort] {
        &self.members[end]
    }

    /// How many hosts there are.
    #[inline]
    pub const fn hosts(&self) -> u32 {
        self.hosts
    }

    /// Whether a node is a host.
    #[inline]
    pub const fn is_host(&self, node: NodeId) -> bool {
        node.0 < self.hosts
    }

    /// How many switches there are, those in multi-homed hosts included.
    pub fn switches(&self) -> usize {
        self.first.len() - self.hosts as usize + self.multi_homed.len()
    }

    /// The node of the switch with this number: the switches come first, then those in multi-homed hosts.
    ///
    /// # Panics
    /// If there is no such switch.
    pub fn node_of_switch(&self, switch: usize) -> NodeId {
        let at = self.hosts as usize + switch;
        match at.checked_sub(self.first.len()) {
            None => NodeId(at as u32),
            Some(at) => self.multi_homed[at].0,
        }
    }

    /// A switch's number among the switches; `None` for a host.
    #[inline]
    pub fn switch(&self, node: NodeId) -> Option<usize> {
        node.0.checked_sub(self.hosts).map(|at| at as usize)
    }

    /// The number of the switch in a multi-homed host; `None` for other nodes.
    pub fn host_switch(&self, node: NodeId) -> Option<usize> {
        let number = *self.host_switches.get(usize::from(node))?;
        (number != NOT_MULTI_HOMED).then(|| self.first.len() - self.hosts as usize + number as usize)
    }

    /// Whether a host passes on what comes to it for others.
    pub fn forwards(&self, host: NodeId) -> bool {
        let number = self.host_switches.get(usize::from(host));
        number.and_then(|number| self.multi_homed.get(*number as usize)).is_some_and(|(_, forwards)| *forwards)
    }
}
