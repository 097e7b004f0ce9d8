//! Nodes and links while a topology is being laid out.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::names::nearest;
use crate::{Bond, End, HostAddress, Link, LinkId, LinkSpec, Node, NodeId, NodeKind, PortId, Side};

/// The hosts' IPv4 network.
pub(crate) const IPV4: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 0, 0, 0), 8);
/// The hosts' IPv6 network: unique local (RFC 4193), its global identifier is "heddl".
pub(crate) const IPV6: (Ipv6Addr, u8) = (Ipv6Addr::new(0xfd68, 0x6564, 0x646c, 0, 0, 0, 0, 0), 64);

/// Parallel links, and how many there shall be.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Those that are there, ascending.
    pub links: Vec<LinkId>,
    /// How many there shall be.
    pub members: usize,
}

/// Nodes and links. Hosts are added first, so that their ids are 0, 1, ...
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub nodes: Vec<Node>,
    pub links: Vec<Link>,
    pub hosts: u32,
    /// Both ends of each bond, one after the other.
    pub bonds: Vec<Bond>,
}

impl Graph {
    /// Adds a host whose addresses follow from `position`, three bytes that no other host of the fabric has.
    pub fn host(&mut self, name: String, position: [u8; 3], pod: Option<u32>) -> NodeId {
        debug_assert_eq!(self.hosts as usize, self.nodes.len(), "hosts come first");
        self.hosts += 1;
        self.node(name, NodeKind::Host(address(position, pod)))
    }

    pub fn switch(&mut self, name: String, tier: u8, pod: Option<u32>) -> NodeId {
        self.node(name, NodeKind::Switch { tier, pod })
    }

    fn node(&mut self, name: String, kind: NodeKind) -> NodeId {
        self.nodes.push(Node { name, kind, ports: Vec::new(), devices: Vec::new(), x_permille: 0 });
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// Links `a` to `b`, at the next port of each.
    pub fn connect(&mut self, a: NodeId, b: NodeId, spec: LinkSpec) {
        let id = LinkId(self.links.len() as u32);
        let a = self.plug(a, id, Side::A);
        let b = self.plug(b, id, Side::B);
        self.links.push(Link { a, b, spec });
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
        let mut is_further = vec![false; old.len()];
        for link in groups.iter().flat_map(|group| &group.links[1..]) {
            is_further[link.0 as usize] = true;
        }
        let mut number = vec![LinkId(u32::MAX); old.len()];
        for (i, link) in old.iter().enumerate().filter(|&(i, _)| !is_further[i]) {
            number[i] = LinkId(self.links.len() as u32);
            self.connect(link.a.node, link.b.node, link.spec);
        }
        let mut regrouped = Vec::with_capacity(groups.len());
        for Group { links, members } in groups {
            assert!(*members > 0, "a bond has a link");
            let mut now = vec![number[links[0].0 as usize]];
            for member in 1..*members {
                let like = &old[links[member.min(links.len() - 1)].0 as usize];
                now.push(LinkId(self.links.len() as u32));
                self.connect(like.a.node, like.b.node, like.spec);
            }
            regrouped.push(now);
        }
        regrouped
    }

    /// The ports of `links` at `node`, which is one end of each.
    pub fn ports_at(&self, node: NodeId, links: &[LinkId]) -> Vec<PortId> {
        let port = |link: &LinkId| {
            let link = &self.links[link.0 as usize];
            if link.a.node == node { link.a.port } else { link.b.port }
        };
        links.iter().map(port).collect()
    }

    fn plug(&mut self, node: NodeId, link: LinkId, side: Side) -> End {
        let ports = &mut self.nodes[node.0 as usize].ports;
        ports.push((link, side));
        End { node, port: PortId(ports.len() as u16 - 1) }
    }

    /// The hosts' names, in order.
    pub fn host_names(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.nodes[..self.hosts as usize].iter().map(|node| node.name.as_str())
    }

    /// The hint for a host that doesn't exist.
    pub fn host_hint(&self, name: &str) -> String {
        if let Some(near) = nearest(name, self.host_names()) {
            return format!("did you mean `{near}`?");
        }
        let (first, last) = (self.host_names().next(), self.host_names().next_back());
        format!("the hosts are `{}` to `{}`", first.unwrap_or_default(), last.unwrap_or_default())
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

/// Addresses in the networks above that end in `position`; the MAC address is a locally administered one.
fn address(position: [u8; 3], pod: Option<u32>) -> HostAddress {
    let [x, y, z] = position;
    let mut ipv6 = IPV6.0.segments();
    ipv6[5..].copy_from_slice(&[x.into(), y.into(), z.into()]);
    HostAddress {
        mac: [0x02, 0, 10, x, y, z],
        ipv4: Ipv4Addr::new(10, x, y, z),
        ipv4_prefix: IPV4.1,
        ipv6: ipv6.into(),
        ipv6_prefix: IPV6.1,
        pod,
    }
}
