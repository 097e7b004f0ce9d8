//! Looking things up in a [`Fabric`].

use crate::{Fabric, HostAddress, LinkId, Node, NodeId, NodeKind};

impl crate::Node {
    /// Whether it is a host that Heddle doesn't make: it is behind devices of the machine.
    pub const fn is_foreign(&self) -> bool {
        !self.devices.is_empty()
    }
}

impl Fabric {
    /// The hosts with their ids, in order.
    pub fn hosts(&self) -> impl ExactSizeIterator<Item = (NodeId, &Node)> {
        self.nodes[..self.hosts as usize].iter().enumerate().map(|(i, node)| (NodeId(i as u32), node))
    }

    /// The switches with their ids, in order.
    pub fn switches(&self) -> impl ExactSizeIterator<Item = (NodeId, &Node)> {
        let first = self.hosts;
        self.nodes[first as usize..].iter().enumerate().map(move |(i, node)| (NodeId(first + i as u32), node))
    }

    /// The node called `name`. Looks at every node: for command lines, not for packets.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().position(|node| node.name == name).map(|i| NodeId(i as u32))
    }

    /// The node with this id.
    ///
    /// # Panics
    /// If the id is another fabric's.
    pub fn node_of(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// The host's addresses; `None` for a switch.
    ///
    /// # Panics
    /// If the id is another fabric's.
    pub fn address(&self, id: NodeId) -> Option<&HostAddress> {
        match &self.node_of(id).kind {
            NodeKind::Host(address) => Some(address),
            NodeKind::Switch { .. } => None,
        }
    }

    /// The link's name: its ends, like `e1-a1`. Parallel links share it.
    ///
    /// # Panics
    /// If the id is another fabric's.
    pub fn link_name(&self, id: LinkId) -> String {
        let link = &self.links[id.0 as usize];
        format!("{}-{}", self.node_of(link.a.node).name, self.node_of(link.b.node).name)
    }

    /// Whether any link delays or limits packets.
    pub fn is_shaped(&self) -> bool {
        self.links.iter().any(|link| link.spec.is_shaped())
    }

    /// The host's pod: of its topology's, where there are pods.
    ///
    /// # Panics
    /// If the id is another fabric's.
    pub fn pod(&self, id: NodeId) -> Option<u32> {
        match &self.node_of(id).kind {
            NodeKind::Host(address) => address.pod,
            NodeKind::Switch { pod, .. } => *pod,
        }
    }
}
