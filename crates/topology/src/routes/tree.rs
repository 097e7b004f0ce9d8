//! The tree by which switches pass on what is for everybody.

use std::collections::{BTreeMap, VecDeque};

use super::NONE;
use super::search::Network;
use crate::{LinkId, NodeId, PortId, TiSlice, TiVec, Topology};

/// Trees by breadth-first search: one for each part of a network whose nodes that forward are joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trees {
    /// By row: the ports that are in a tree, ascending.
    pub(super) ports: Vec<Box<[PortId]>>,
    /// By row: the tree, by its root's row. Of a host that is in several: the last one. [`NONE`]: it is in none.
    pub(super) root: Vec<u32>,
    /// Hosts that are in several trees, since none of them forwards: the root of each, and the host's port in it.
    pub(super) in_several: BTreeMap<NodeId, Vec<(u32, PortId)>>,
}

impl Trees {
    /// Trees from the first switch, so that they are as shallow as can be from there, then from what has not been reached; with all ports that lead to
    /// hosts.
    pub(super) fn new(topology: &Topology, usable: &TiSlice<LinkId, bool>, network: &Network) -> Self {
        let mut ports: Vec<Vec<PortId>> = vec![Vec::new(); network.rows()];
        let mut joined: Vec<Vec<(u32, PortId)>> = vec![Vec::new(); network.rows()];
        // The tree in which a node was reached last.
        let mut reached: TiVec<NodeId, u32> = vec![NONE; topology.nodes.len()].into();
        let mut queue = VecDeque::new();
        for root in (0..network.rows() as u32).filter(|row| network.forwards(*row)) {
            let first = &mut reached[network.node(root as usize)];
            if *first == NONE {
                *first = root;
                queue.push_back(root);
            }
            while let Some(at) = queue.pop_front() {
                let node = &topology.nodes[network.node(at as usize)];
                for (port, &(link, side)) in node.ports.iter_enumerated().filter(|(_, (link, _))| usable[*link]) {
                    let far = topology.links[link].end(side.other());
                    if std::mem::replace(&mut reached[far.node], root) == root {
                        continue;
                    }
                    ports[at as usize].push(port);
                    let Some(row) = network.row(far.node) else { continue };
                    ports[row as usize].push(far.port);
                    if network.forwards(row) {
                        queue.push_back(row);
                    } else {
                        joined[row as usize].push((root, far.port));
                    }
                }
            }
        }
        for ports in &mut ports {
            ports.sort_unstable();
        }
        let several = joined.into_iter().enumerate().filter(|(_, trees)| trees.len() > 1);
        Self {
            ports: ports.into_iter().map(Into::into).collect(),
            root: (0..network.rows()).map(|row| reached[network.node(row)]).collect(),
            in_several: several.map(|(row, trees)| (network.node(row), trees)).collect(),
        }
    }

    /// Whether a node is in a tree: `row` is its own, or that of the switch that it is at.
    pub(super) fn has(&self, root: u32, node: NodeId, row: Option<usize>) -> bool {
        match self.in_several.get(&node) {
            Some(trees) => trees.iter().any(|(other, _)| *other == root),
            None => row.is_some_and(|row| self.root[row] == root),
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.ports.iter().map(|ports| size_of_val(ports) + size_of_val(&**ports)).sum::<usize>()
            + size_of_val(&*self.root)
    }
}
