//! Looking things up in a topology.

use std::collections::BTreeSet;

use link::LinkSpec;

use crate::{BondEndId, Direction, HostAddress, Link, LinkId, Node, NodeId, NodeKind, PortId, Side, TiVec, Topology};

impl Node {
    /// Whether it is a host that Heddle doesn't make: it is behind devices of the machine.
    pub const fn is_external(&self) -> bool {
        !self.devices.is_empty()
    }
}

impl Topology {
    /// The hosts with their ids, in order.
    pub fn hosts(&self) -> impl DoubleEndedIterator<Item = (NodeId, &Node)> + ExactSizeIterator + Clone {
        self.nodes[..NodeId(self.hosts)].iter_enumerated()
    }

    /// The hosts that are neither further interfaces nor ports of functions, with their ids, in order: those that talk to each other.
    pub fn end_hosts(&self) -> impl DoubleEndedIterator<Item = (NodeId, &Node)> + ExactSizeIterator + Clone {
        self.nodes[..NodeId(self.end_host_count())].iter_enumerated()
    }

    /// How many hosts are neither further interfaces nor ports of functions.
    pub const fn end_host_count(&self) -> u32 {
        self.hosts - self.function_ports - self.interfaces.len() as u32
    }

    /// The hosts that have addresses, with their ids, in order: all that are no ports of functions.
    pub fn addressed_hosts(&self) -> impl DoubleEndedIterator<Item = (NodeId, &Node)> + ExactSizeIterator + Clone {
        self.nodes[..self.first_function_port()].iter_enumerated()
    }

    /// The first port of a function, if there are any; behind the last host if not.
    #[inline]
    pub const fn first_function_port(&self) -> NodeId {
        NodeId(self.hosts - self.function_ports)
    }

    /// The host that a further interface belongs to; `None` for a node that is none.
    pub fn interface_owner(&self, id: NodeId) -> Option<NodeId> {
        let number = id.0.checked_sub(self.end_host_count())?;
        self.interfaces.get(number as usize).copied()
    }

    /// The host that a node is or belongs to: the owner of a further interface, else the node itself.
    pub fn owner(&self, id: NodeId) -> NodeId {
        self.interface_owner(id).unwrap_or(id)
    }

    /// The node that people know: a further interface belongs to its host, and the egress of a function to its ingress, by whose name the function goes; else the node itself.
    pub fn known_as(&self, id: NodeId) -> NodeId {
        let first = self.first_function_port().0;
        let is_egress = id.0 > first && id.0 < self.hosts && !(id.0 - first).is_multiple_of(2);
        if is_egress { NodeId(id.0 - 1) } else { self.owner(id) }
    }

    /// The host of an interface, or the function of a port, and the number of its device there: 1 for `eth1`. Of any other node itself, and 0.
    pub fn device_of(&self, id: NodeId) -> (NodeId, usize) {
        let known = self.known_as(id);
        let is_egress = known != id && self.interface_owner(id).is_none();
        let number = self.interfaces_of(known).position(|interface| interface == id);
        (known, number.unwrap_or(usize::from(is_egress)))
    }

    /// A node and its further interfaces, in the order of their links.
    pub fn interfaces_of(&self, id: NodeId) -> impl Iterator<Item = NodeId> + Clone + '_ {
        let first = self.end_host_count();
        let further = self.interfaces.iter().zip(first..).filter(move |(owner, _)| **owner == id);
        std::iter::once(id).chain(further.map(|(_, number)| NodeId(number)))
    }

    /// Whether two hosts are in one subnet, as both see it: else a router is between them.
    ///
    /// # Panics
    /// If an id is another topology's, or a switch.
    pub fn share_subnet(&self, a: NodeId, b: NodeId) -> bool {
        let address = |id| self.address(id).expect("it is a host");
        let (a, b) = (address(a), address(b));
        let mask = u32::MAX.checked_shl(32 - u32::from(a.ipv4_prefix.max(b.ipv4_prefix))).unwrap_or(0);
        (a.ipv4.to_bits() ^ b.ipv4.to_bits()) & mask == 0
    }

    /// Whether a node is a port of a function of service chains.
    #[inline]
    pub const fn is_function_port(&self, id: NodeId) -> bool {
        id.0 < self.hosts && id.0 >= self.first_function_port().0
    }

    /// The other port of the same function; `None` for a node that is none.
    pub const fn other_function_port(&self, id: NodeId) -> Option<NodeId> {
        if !self.is_function_port(id) {
            return None;
        }
        let first = self.first_function_port().0;
        Some(NodeId(first + ((id.0 - first) ^ 1)))
    }

    /// The switches with their ids, in order.
    pub fn switches(&self) -> impl ExactSizeIterator<Item = (NodeId, &Node)> {
        self.nodes.iter_enumerated().skip(self.hosts as usize)
    }

    /// How many switches there are.
    pub fn switch_count(&self) -> usize {
        self.nodes.len() - self.hosts as usize
    }

    /// Whether a node is a host.
    #[inline]
    pub const fn is_host(&self, id: NodeId) -> bool {
        id.0 < self.hosts
    }

    /// Whether a link ends at a host.
    ///
    /// # Panics
    /// If the link is another topology's.
    pub fn has_host(&self, link: LinkId) -> bool {
        [Side::A, Side::B].iter().any(|side| self.is_host(self.links[link].end(*side).node))
    }

    /// The hosts that are multi-homed, in order: those with several ports that are no bond. Such a host chooses among its ports by its routes, as a
    /// switch does. Looks at every bond: for setting up, not for packets.
    pub fn multi_homed(&self) -> impl Iterator<Item = NodeId> {
        let is_bonded = |id| self.bonds.iter().any(|end| end.node == id);
        self.hosts().filter(move |(id, node)| node.ports.len() > 1 && !is_bonded(*id)).map(|(id, _)| id)
    }

    /// Whether what comes to a node for others goes on there: to a switch always, to a host if it forwards.
    ///
    /// # Panics
    /// If the id is another topology's.
    pub fn forwards(&self, id: NodeId) -> bool {
        !self.is_host(id) || self.nodes[id].forwards
    }

    /// The node called `name`. Looks at every node: for command lines, not for packets.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.nodes.position(|node| node.name == name)
    }

    /// What a link does to what goes to that end of it.
    ///
    /// # Panics
    /// If the link is another topology's.
    pub fn spec_towards(&self, link: LinkId, to: NodeId) -> LinkSpec {
        let link = &self.links[link];
        let spec = link.spec_from(if link.a.node == to { Side::B } else { Side::A });
        if self.is_host(to) { spec } else { spec.towards_switch() }
    }

    /// The host's addresses; `None` for a switch.
    ///
    /// # Panics
    /// If the id is another topology's.
    pub fn address(&self, id: NodeId) -> Option<&HostAddress> {
        match &self.nodes[id].kind {
            NodeKind::Host(address) => Some(address),
            NodeKind::Switch { .. } => None,
        }
    }

    /// The node's pod: of its topology's, where there are pods.
    ///
    /// # Panics
    /// If the id is another topology's.
    pub fn pod(&self, id: NodeId) -> Option<u32> {
        match &self.nodes[id].kind {
            NodeKind::Host(address) => address.pod,
            NodeKind::Switch { pod, .. } => *pod,
        }
    }

    /// Whether any link delays or limits packets.
    pub fn is_shaped(&self) -> bool {
        self.links.iter().flat_map(Link::specs).any(LinkSpec::is_shaped)
    }

    /// Has links do nothing to packets.
    pub fn unshape(&mut self) {
        self.links.iter_mut().flat_map(Link::specs_mut).for_each(|spec| *spec = LinkSpec::default());
    }

    /// The way over a link that leaves a node by this port.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn leaving(&self, node: NodeId, port: PortId) -> Direction {
        let (link, side) = self.nodes[node].ports[port];
        Direction::leaving(link, side)
    }

    /// The nodes at the other ends of a node's links, by port.
    ///
    /// # Panics
    /// If the id is another topology's.
    pub fn peers(&self, node: NodeId) -> impl ExactSizeIterator<Item = NodeId> {
        self.nodes[node].ports.iter().map(|&(link, side)| self.links[link].end(side.other()).node)
    }

    /// Which nodes can be reached from one of them over links that `carries` lets pass, and through nodes that forward.
    ///
    /// # Panics
    /// If the id is another topology's.
    pub fn reached(&self, from: NodeId, carries: impl Fn(LinkId) -> bool) -> TiVec<NodeId, bool> {
        let mut reached: TiVec<NodeId, bool> = vec![false; self.nodes.len()].into();
        let mut open = vec![from];
        reached[from] = true;
        while let Some(node) = open.pop() {
            if node != from && !self.forwards(node) {
                continue;
            }
            for &(link, side) in &self.nodes[node].ports {
                let far = self.links[link].end(side.other()).node;
                if !reached[far] && carries(link) {
                    reached[far] = true;
                    open.push(far);
                }
            }
        }
        reached
    }

    /// The same, also through hosts with several interfaces, whose programs or kernels may pass packets on.
    ///
    /// # Panics
    /// If the id is another topology's.
    pub fn reached_by_routers(&self, from: NodeId, carries: impl Fn(LinkId) -> bool) -> TiVec<NodeId, bool> {
        let mut reached = self.reached(from, &carries);
        let routers: BTreeSet<NodeId> = self.interfaces.iter().copied().collect();
        loop {
            let all = |router: &NodeId| self.interfaces_of(*router).collect::<Vec<_>>();
            let next = routers.iter().map(all).find(|interfaces| {
                let here = interfaces.iter().filter(|interface| reached[**interface]).count();
                here > 0 && here < interfaces.len()
            });
            let Some(interfaces) = next else { return reached };
            for interface in interfaces.into_iter().filter(|interface| !reached[*interface]).collect::<Vec<_>>() {
                let more = self.reached(interface, &carries);
                reached.iter_mut().zip(more).for_each(|(reached, more)| *reached |= more);
            }
        }
    }

    /// The node from which a direction starts.
    ///
    /// # Panics
    /// If the link is another topology's.
    pub fn near(&self, direction: Direction) -> NodeId {
        self.links[direction.link()].end(direction.from()).node
    }

    /// The node at which a direction ends.
    ///
    /// # Panics
    /// If the link is another topology's.
    pub fn far(&self, direction: Direction) -> NodeId {
        self.near(direction.back())
    }

    /// The links between two nodes, in order; parallel ones are numbered so, from 1.
    ///
    /// # Panics
    /// If an id is another topology's.
    pub fn links_between(&self, a: NodeId, b: NodeId) -> impl Iterator<Item = LinkId> {
        // Ports are in the order of their links.
        let ports = self.nodes[a].ports.iter();
        ports.filter(move |(link, side)| self.links[*link].end(side.other()).node == b).map(|(link, _)| *link)
    }

    /// Which of the parallel links this is, from 1.
    ///
    /// # Panics
    /// If the id is another topology's.
    pub fn link_number(&self, id: LinkId) -> u32 {
        let Link { a, b, .. } = &self.links[id];
        self.links_between(a.node, b.node).take_while(|other| *other <= id).count() as u32
    }

    /// The link's name: its ends, like `e1-a1`. Parallel links share it.
    ///
    /// # Panics
    /// If the id is another topology's.
    pub fn link_name(&self, id: LinkId) -> String {
        let Link { a, b, .. } = &self.links[id];
        format!("{}-{}", self.nodes[a.node].name, self.nodes[b.node].name)
    }

    /// Its ends, like `h1-s1`; where there are several, with its number among them, like `h1-s1:2`.
    ///
    /// # Panics
    /// If the id is another topology's.
    pub fn numbered_link_name(&self, id: LinkId) -> String {
        let Link { a, b, .. } = &self.links[id];
        let name = self.link_name(id);
        match self.links_between(a.node, b.node).nth(1) {
            Some(_) => format!("{name}:{}", self.link_number(id)),
            None => name,
        }
    }

    /// The end of a bond at `node` that has this port as a member. Looks at every bond: for setting up, not for packets.
    pub fn bond_at(&self, node: NodeId, port: PortId) -> Option<BondEndId> {
        self.bonds.position(|end| end.node == node && end.ports.binary_search(&port).is_ok())
    }

    /// The links of a bond, by either of its ends, in the order of the members.
    ///
    /// # Panics
    /// If the bond is another topology's.
    pub fn bond_links(&self, end: BondEndId) -> impl ExactSizeIterator<Item = LinkId> {
        let end = &self.bonds[end];
        end.ports.iter().map(|port| self.nodes[end.node].ports[*port].0)
    }

    /// The directions that leave by the members of a bond's end, in their order.
    ///
    /// # Panics
    /// If the bond is another topology's.
    pub fn members(&self, end: BondEndId) -> impl ExactSizeIterator<Item = Direction> {
        let end = &self.bonds[end];
        end.ports.iter().map(|port| self.leaving(end.node, *port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Routes;
    use crate::testing::{bond, network, square};

    #[test]
    fn a_direction_knows_its_link_its_side_and_its_way_back() {
        let topology = square();
        for (id, link) in topology.links.iter_enumerated() {
            for (direction, side) in Direction::both(id).into_iter().zip([Side::A, Side::B]) {
                assert_eq!((direction.link(), direction.from()), (id, side));
                assert_eq!(Direction::leaving(id, side), direction);
                assert_eq!(direction.back().back(), direction);
                assert_eq!(
                    (topology.near(direction), topology.far(direction)),
                    (link.end(side).node, link.end(side.other()).node)
                );
                assert_eq!(topology.leaving(link.end(side).node, link.end(side).port), direction);
            }
        }
    }

    #[test]
    fn parallel_links_have_numbers_and_others_have_none() {
        let topology = square();
        let names: Vec<String> = topology.links.keys().map(|id| topology.numbered_link_name(id)).collect();
        assert_eq!(names, ["h1-s1", "h2-s2", "s1-s2:1", "s2-s1:2"]);
        assert_eq!(topology.links_between(NodeId(3), NodeId(2)).collect::<Vec<_>>(), [LinkId(2), LinkId(3)]);
        assert_eq!(topology.peers(NodeId(2)).collect::<Vec<_>>(), [NodeId(0), NodeId(3), NodeId(3)]);
    }

    #[test]
    fn what_is_reached_depends_on_the_links_that_carry() {
        let topology = square();
        assert!(topology.reached(NodeId(0), |_| true).iter().all(|reached| *reached));
        let without = |down: &'static [u32]| topology.reached(NodeId(0), move |link| !down.contains(&link.0)).raw;
        assert_eq!(without(&[2]), [true; 4]);
        assert_eq!(without(&[2, 3]), [true, false, true, false]);
        assert_eq!(without(&[0]), [true, false, false, false]);
    }

    #[test]
    fn nothing_is_reached_through_a_host_that_does_not_forward() {
        // h1 at s1, h3 at s2, h2 at both.
        let mut topology = network(3, 2, &[(0, 3), (1, 3), (1, 4), (2, 4)]);
        let reached = |topology: &Topology, from| topology.reached(NodeId(from), |_| true).raw;
        assert_eq!(reached(&topology, 0), [true, true, false, true, false]);
        assert_eq!(reached(&topology, 1), [true; 5], "it is where the search begins");
        topology.nodes[NodeId(1)].forwards = true;
        assert_eq!(reached(&topology, 0), [true; 5]);
    }

    #[test]
    fn a_host_is_multi_homed_by_ports_that_are_no_bond() {
        let mut topology = network(3, 2, &[(0, 3), (1, 3), (1, 4), (2, 4)]);
        assert_eq!(topology.multi_homed().collect::<Vec<_>>(), [NodeId(1)]);
        assert_eq!(bond(&mut topology, [NodeId(0), NodeId(3)], vec![LinkId(0)], 2), [LinkId(0), LinkId(4)]);
        assert_eq!(topology.multi_homed().collect::<Vec<_>>(), [NodeId(1)]);
    }

    #[test]
    fn members_come_last_and_count_as_one_hop() {
        let mut topology = square();
        let plain = Routes::compute(&topology);
        assert_eq!(plain.next_hops(NodeId(2), NodeId(1)), [PortId(1), PortId(2)]);
        let bond = bond(&mut topology, [NodeId(2), NodeId(3)], vec![LinkId(2), LinkId(3)], 3);
        assert_eq!(bond, [LinkId(2), LinkId(3), LinkId(4)]);
        let end = topology.bond_at(NodeId(3), PortId(2)).unwrap();
        assert_eq!(end, BondEndId(1));
        assert_eq!(topology.bond_links(end).collect::<Vec<_>>(), bond);
        assert!(topology.members(end).all(|direction| topology.near(direction) == NodeId(3)));
        assert_eq!(Routes::compute(&topology).next_hops(NodeId(2), NodeId(1)), [PortId(1)]);
    }

    #[test]
    fn further_interfaces_are_hosts_of_their_owner() {
        // h1 at s1, h2 at s2, and h3 at both.
        let mut topology = network(3, 2, &[(0, 3), (2, 3), (1, 4), (2, 4)]);
        let address = topology.address(NodeId(2)).unwrap().clone();
        topology.split_interfaces(NodeId(2), vec![("h3.eth1".to_owned(), address)]);
        assert_eq!((topology.end_host_count(), topology.hosts, topology.first_function_port()), (3, 4, NodeId(4)));
        assert_eq!(topology.interfaces_of(NodeId(2)).collect::<Vec<_>>(), [NodeId(2), NodeId(3)]);
        assert_eq!(topology.interfaces_of(NodeId(0)).collect::<Vec<_>>(), [NodeId(0)]);
        assert_eq!((topology.owner(NodeId(3)), topology.owner(NodeId(1))), (NodeId(2), NodeId(1)));
        assert_eq!(topology.interface_owner(NodeId(5)), None);
        assert_eq!((topology.device_of(NodeId(3)), topology.device_of(NodeId(2))), ((NodeId(2), 1), (NodeId(2), 0)));
        let [ingress, egress] = {
            let mut with_function = topology.clone();
            let address = topology.address(NodeId(0)).unwrap().clone();
            let ports =
                with_function.add_function([("fw".to_owned(), address.clone()), ("fw.out".to_owned(), address)]);
            ports.map(|port| {
                (with_function.nodes[with_function.known_as(port)].name.clone(), with_function.device_of(port).1)
            })
        };
        assert_eq!((ingress, egress), (("fw".to_owned(), 0), ("fw".to_owned(), 1)));
        assert_eq!([2, 3, 5].map(|node| topology.known_as(NodeId(node))), [2, 2, 5].map(NodeId));
        let peers =
            |node| topology.peers(NodeId(node)).map(|peer| topology.nodes[peer].name.as_str()).collect::<Vec<_>>();
        assert_eq!([peers(2), peers(3), peers(5)], [vec!["s1"], vec!["s2"], vec!["h2", "h3.eth1"]]);
        assert!(topology.multi_homed().next().is_none());
        // Each part is a network of its own, and routers join them.
        assert_eq!(topology.reached(NodeId(0), |_| true).raw, [true, false, true, false, true, false]);
        assert_eq!(topology.reached_by_routers(NodeId(0), |_| true).raw, [true; 6]);
        assert!(Routes::compute(&topology).next_hops(NodeId(4), NodeId(1)).is_empty());
    }

    #[test]
    fn hosts_share_a_subnet_if_both_see_it_so() {
        let mut topology = network(3, 0, &[]);
        let set = |topology: &mut Topology, host: u32, last: [u8; 2], prefix| {
            let NodeKind::Host(address) = &mut topology.nodes[NodeId(host)].kind else { unreachable!() };
            (address.ipv4, address.ipv4_prefix) = ([10, 0, last[0], last[1]].into(), prefix);
        };
        set(&mut topology, 0, [1, 1], 24);
        set(&mut topology, 1, [1, 2], 24);
        set(&mut topology, 2, [2, 1], 16);
        let shares = |a, b| topology.share_subnet(NodeId(a), NodeId(b));
        assert_eq!([shares(0, 1), shares(0, 2), shares(2, 1), shares(2, 2)], [true, false, false, true]);
    }
}
