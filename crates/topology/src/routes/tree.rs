//! The tree by which switches pass on what is for everybody.

use std::collections::VecDeque;

use crate::{LinkId, NodeId, PortId, TiSlice, TiVec, Topology};

/// A tree by breadth-first search from the first switch, so that it is as shallow as can be from there, and all ports that lead to hosts.
pub(super) fn spanning_tree(topology: &Topology, usable: &TiSlice<LinkId, bool>) -> Vec<Box<[PortId]>> {
    let mut tree: TiVec<NodeId, Vec<PortId>> = vec![Vec::new(); topology.nodes.len()].into();
    let mut reached: TiVec<NodeId, bool> = vec![false; topology.nodes.len()].into();
    let mut queue = VecDeque::new();
    for (root, _) in topology.switches() {
        if !std::mem::replace(&mut reached[root], true) {
            queue.push_back(root);
        }
        while let Some(at) = queue.pop_front() {
            for (port, &(link, side)) in
                topology.nodes[at].ports.iter_enumerated().filter(|(_, (link, _))| usable[*link])
            {
                let far = topology.links[link].end(side.other());
                if std::mem::replace(&mut reached[far.node], true) {
                    continue;
                }
                tree[at].push(port);
                if !topology.is_host(far.node) {
                    tree[far.node].push(far.port);
                    queue.push_back(far.node);
                }
            }
        }
    }
    let switches = tree.raw.into_iter().skip(topology.hosts as usize);
    let sorted = |mut ports: Vec<PortId>| {
        ports.sort_unstable();
        ports.into()
    };
    switches.map(sorted).collect()
}
