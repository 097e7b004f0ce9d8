//! Laying out a topology: nodes first, then links.

use link::LinkSpec;

use crate::{HostAddress, Link, LinkEnd, LinkId, Node, NodeId, NodeKind, PortId, Side, TiVec, Topology};

/// Parallel links, and how many there shall be.
#[derive(Clone, Debug)]
pub struct Group {
    /// The links that are there, ascending.
    pub links: Vec<LinkId>,
    /// How many there shall be.
    pub members: usize,
}

impl Topology {
    /// Adds a host. All hosts are added before the first switch.
    pub fn add_host(&mut self, name: String, address: HostAddress) -> NodeId {
        debug_assert_eq!(self.hosts as usize, self.nodes.len(), "hosts come first");
        self.hosts += 1;
        self.add_node(name, NodeKind::Host(address))
    }

    /// Adds a switch.
    pub fn add_switch(&mut self, name: String, tier: u8, pod: Option<u32>) -> NodeId {
        self.add_node(name, NodeKind::Switch { tier, pod })
    }

    /// Adds a function of service chains to a network that is laid out, as two hosts behind the others: its ingress and its egress, which have no links yet.
    /// Switches have other numbers then.
    pub fn add_function(&mut self, ports: [(String, HostAddress); 2]) -> [NodeId; 2] {
        let ids = ports.map(|(name, address)| self.insert(name, address));
        self.function_ports += 2;
        ids
    }

    /// Adds a host without links to a network that is laid out, behind the others. Switches have other numbers then. All of them are added before the first interface
    /// and the first function.
    pub fn insert_host(&mut self, name: String, address: HostAddress) -> NodeId {
        debug_assert_eq!((self.function_ports, self.interfaces.len()), (0, 0), "interfaces and functions come last");
        self.insert(name, address)
    }

    /// Makes each further link of a host that of an interface with a name and addresses of its own: a host behind the others, which has the link as its only one. Switches have
    /// other numbers then. All of them are made before the first function.
    ///
    /// # Panics
    /// If the host has no more links than there are interfaces.
    pub fn split_interfaces(&mut self, host: NodeId, interfaces: Vec<(String, HostAddress)>) {
        debug_assert_eq!(self.function_ports, 0, "functions come last");
        let further = self.nodes[host].ports.raw.split_off(1);
        assert_eq!(further.len(), interfaces.len(), "each further link is an interface's");
        let x_permille = self.nodes[host].x_permille;
        for ((link, side), (name, address)) in further.into_iter().zip(interfaces) {
            let id = self.insert(name, address);
            self.interfaces.push(host);
            self.nodes[id].x_permille = x_permille;
            let end = self.plug(id, link, side);
            let link = &mut self.links[link];
            *(if side == Side::A { &mut link.a } else { &mut link.b }) = end;
        }
    }

    fn insert(&mut self, name: String, address: HostAddress) -> NodeId {
        let id = NodeId(self.hosts);
        let behind = |node: &mut NodeId| node.0 += u32::from(*node >= id);
        for link in &mut self.links {
            behind(&mut link.a.node);
            behind(&mut link.b.node);
        }
        for bond in &mut self.bonds {
            behind(&mut bond.node);
        }
        let switches = self.nodes.raw.split_off(self.hosts as usize);
        self.add_node(name, NodeKind::Host(address));
        self.nodes.raw.extend(switches);
        self.hosts += 1;
        id
    }

    fn add_node(&mut self, name: String, kind: NodeKind) -> NodeId {
        let (ports, devices) = (TiVec::new(), Vec::new());
        self.nodes.push_and_get_key(Node { name, kind, ports, forwards: false, devices, x_permille: 0 })
    }

    /// Links `a` to `b`, at the next port of each.
    ///
    /// # Panics
    /// If an id is another topology's.
    pub fn connect(&mut self, a: NodeId, b: NodeId, spec: LinkSpec) -> LinkId {
        let id = self.links.next_key();
        let (a, b) = (self.plug(a, id, Side::A), self.plug(b, id, Side::B));
        self.links.push_and_get_key(Link { a, b, spec, back: None })
    }

    /// Links the ends of a link once more.
    fn connect_like(&mut self, link: &Link) -> LinkId {
        let id = self.connect(link.a.node, link.b.node, link.spec);
        self.links[id].back = link.back;
        id
    }

    fn plug(&mut self, node: NodeId, link: LinkId, side: Side) -> LinkEnd {
        LinkEnd { node, port: self.nodes[node].ports.push_and_get_key((link, side)) }
    }

    /// Gives each group of parallel links its number of members, and returns their links.
    ///
    /// All links but the further members of groups come first, in their order; then the further members, group by group. So
    /// links and ports that are not further members keep their numbers, however many members a group has. A new member
    /// is like the group's last.
    ///
    /// # Panics
    /// If a group is empty or should become so, or names a link that isn't there.
    pub fn regroup(&mut self, groups: &[Group]) -> Vec<Vec<LinkId>> {
        let old = std::mem::take(&mut self.links);
        for node in &mut self.nodes {
            node.ports.clear();
        }
        let mut is_further: TiVec<LinkId, bool> = vec![false; old.len()].into();
        for &link in groups.iter().flat_map(|group| &group.links[1..]) {
            is_further[link] = true;
        }
        let mut number: TiVec<LinkId, Option<LinkId>> = vec![None; old.len()].into();
        for (id, link) in old.iter_enumerated().filter(|(id, _)| !is_further[*id]) {
            number[id] = Some(self.connect_like(link));
        }
        let mut regrouped = Vec::with_capacity(groups.len());
        for Group { links, members } in groups {
            assert!(*members > 0, "a bond has a link");
            let mut now = vec![number[links[0]].expect("the first member of a group is no further one")];
            for member in 1..*members {
                let like = &old[links[member.min(links.len() - 1)]];
                now.push(self.connect_like(like));
            }
            regrouped.push(now);
        }
        regrouped
    }

    /// The ports of `links` at `node`, which is one end of each.
    ///
    /// # Panics
    /// If a link is another topology's.
    pub fn ports_at(&self, node: NodeId, links: &[LinkId]) -> Vec<PortId> {
        let port = |link: &LinkId| {
            let Link { a, b, .. } = &self.links[*link];
            if a.node == node { a.port } else { b.port }
        };
        links.iter().map(port).collect()
    }

    /// Spreads the nodes of each tier evenly from left to right.
    pub fn arrange(&mut self) {
        let tier = |node: &Node| match node.kind {
            NodeKind::Host(_) => 0,
            NodeKind::Switch { tier, .. } => usize::from(tier) + 1,
        };
        let mut sizes = [0_u32; 258];
        for node in &self.nodes {
            sizes[tier(node)] += 1;
        }
        let mut placed = [0_u32; 258];
        for node in &mut self.nodes {
            let tier = tier(node);
            node.x_permille = ((2 * placed[tier] + 1) * 500 / sizes[tier]) as u16;
            placed[tier] += 1;
        }
    }
}
