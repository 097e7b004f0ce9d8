//! Distances, by breadth-first search.

use super::NONE;
use crate::{LinkId, PortId, TiSlice, Topology};

/// The switches and the usable links between them, as rows of (neighbour, port).
pub(super) struct Network {
    starts: Vec<usize>,
    edges: Vec<(u32, PortId)>,
}

impl Network {
    pub(super) fn of(topology: &Topology, usable: &TiSlice<LinkId, bool>) -> Self {
        let mut network = Self { starts: vec![0], edges: Vec::new() };
        for (_, node) in topology.switches() {
            for (port, &(link, side)) in node.ports.iter_enumerated() {
                let peer = topology.links[link].end(side.other()).node;
                if !topology.is_host(peer) && usable[link] {
                    network.edges.push((peer.0 - topology.hosts, port));
                }
            }
            network.starts.push(network.edges.len());
        }
        network
    }

    pub(super) fn switches(&self) -> usize {
        self.starts.len() - 1
    }

    pub(super) fn edges(&self, switch: usize) -> &[(u32, PortId)] {
        &self.edges[self.starts[switch]..self.starts[switch + 1]]
    }
}

/// A breadth-first search; keeps its memory from one to the next.
pub(super) struct Search {
    pub(super) distance: Vec<u32>,
    queue: Vec<u32>,
}

impl Search {
    pub(super) fn new(switches: usize) -> Self {
        Self { distance: vec![NONE; switches], queue: Vec::with_capacity(switches) }
    }

    /// Measures the distances to a switch; where there is none, all are [`NONE`].
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
