//! Distances, by breadth-first search.

use super::NONE;
use crate::{LinkId, NodeId, PortId, TiSlice, TiVec, Topology};

/// The switches and the multi-homed hosts, each a row, and the usable links between them as (neighbour, port).
pub(super) struct Network {
    /// By row: the node.
    nodes: Vec<NodeId>,
    /// By node: its row, or [`NONE`].
    rows: TiVec<NodeId, u32>,
    /// By row: whether packets for others go on from there.
    forwards: Vec<bool>,
    starts: Vec<usize>,
    edges: Vec<(u32, PortId)>,
}

impl Network {
    pub(super) fn of(topology: &Topology, usable: &TiSlice<LinkId, bool>) -> Self {
        let nodes: Vec<NodeId> = topology.switches().map(|(id, _)| id).chain(topology.multi_homed()).collect();
        let mut rows: TiVec<NodeId, u32> = vec![NONE; topology.nodes.len()].into();
        for (row, node) in nodes.iter().enumerate() {
            rows[*node] = row as u32;
        }
        let forwards = nodes.iter().map(|node| topology.forwards(*node)).collect();
        let (mut starts, mut edges) = (vec![0], Vec::new());
        for node in &nodes {
            for (port, &(link, side)) in topology.nodes[*node].ports.iter_enumerated() {
                let peer = rows[topology.links[link].end(side.other()).node];
                if peer != NONE && usable[link] {
                    edges.push((peer, port));
                }
            }
            starts.push(edges.len());
        }
        Self { nodes, rows, forwards, starts, edges }
    }

    pub(super) fn rows(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn node(&self, row: usize) -> NodeId {
        self.nodes[row]
    }

    pub(super) fn row(&self, node: NodeId) -> Option<u32> {
        Some(self.rows[node]).filter(|row| *row != NONE)
    }

    pub(super) fn forwards(&self, row: u32) -> bool {
        self.forwards[row as usize]
    }

    pub(super) fn edges(&self, row: usize) -> &[(u32, PortId)] {
        &self.edges[self.starts[row]..self.starts[row + 1]]
    }
}

/// A breadth-first search; keeps its memory from one to the next.
pub(super) struct Search {
    pub(super) distance: Vec<u32>,
    queue: Vec<u32>,
}

impl Search {
    pub(super) fn new(rows: usize) -> Self {
        Self { distance: vec![NONE; rows], queue: Vec::with_capacity(rows) }
    }

    /// Measures the distances to a row, through others that forward; where there is none, all are [`NONE`].
    pub(super) fn run(&mut self, network: &Network, from: Option<u32>) {
        self.distance.fill(NONE);
        self.queue.clear();
        if let Some(from) = from {
            self.distance[from as usize] = 0;
            self.queue.push(from);
        }
        let mut next = 0;
        while let Some(&at) = self.queue.get(next) {
            next += 1;
            if !network.forwards(at) && from != Some(at) {
                continue;
            }
            let far = self.distance[at as usize] + 1;
            for &(peer, _) in network.edges(at as usize) {
                if self.distance[peer as usize] == NONE {
                    self.distance[peer as usize] = far;
                    self.queue.push(peer);
                }
            }
        }
    }
}
