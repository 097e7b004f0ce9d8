//! A graph in parts, each with the wires, switches and ends of bonds of some nodes.

use std::sync::Arc;

use topology::NodeId;

use crate::graph::{Graph, Tables, Wire};

impl<P> Graph<P> {
    /// Deals out a whole graph to so many parts; `owner` says to which a node belongs.
    ///
    /// # Panics
    /// If `owner` gives a number that no part has.
    pub fn split(self, tables: &Tables, parts: usize, owner: impl Fn(NodeId) -> usize) -> Vec<Self> {
        let mut split: Vec<Self> = (0..parts).map(|_| self.empty_part()).collect();
        for (port, wire) in self.wires.into_iter_enumerated() {
            split[owner(tables.map.node(port))].wires[port] = wire;
        }
        for (at, switch) in self.switches.into_iter().enumerate() {
            split[owner(tables.map.node_of_switch(at))].switches[at] = switch;
        }
        for (at, pipeline) in self.pipelines.into_iter().enumerate() {
            split[owner(tables.map.node_of_switch(at))].pipelines[at] = pipeline;
        }
        for (id, end) in self.ends.into_iter_enumerated() {
            split[owner(tables.bonds[id].node)].ends[id] = end;
        }
        split
    }

    fn empty_part(&self) -> Self {
        Self {
            routes: Arc::clone(&self.routes),
            wires: self.wires.iter().map(Wire::elsewhere).collect(),
            switches: self.switches.iter().map(|_| None).collect(),
            pipelines: self.pipelines.iter().map(|_| None).collect(),
            ends: self.ends.iter().map(|_| None).collect(),
            generation: self.generation,
            ..Self::default()
        }
    }

    /// Takes in another part of the same graph, or the first one, if this has nothing yet.
    pub fn merge(&mut self, other: Self) {
        if self.wires.is_empty() {
            *self = other;
            return;
        }
        let wires = self.wires.iter_mut().zip(other.wires);
        wires.filter(|(_, wire)| wire.link().is_some()).for_each(|(mine, wire)| *mine = wire);
        let switches = self.switches.iter_mut().zip(other.switches);
        switches.filter(|(_, switch)| switch.is_some()).for_each(|(mine, switch)| *mine = switch);
        let pipelines = self.pipelines.iter_mut().zip(other.pipelines);
        pipelines.filter(|(_, pipeline)| pipeline.is_some()).for_each(|(mine, pipeline)| *mine = pipeline);
        let ends = self.ends.iter_mut().zip(other.ends);
        ends.filter(|(_, end)| end.is_some()).for_each(|(mine, end)| *mine = end);
    }

    /// Takes the place of a graph, some of whose packets go on here: what is for everybody and is on its way by a tree of `old` goes no further.
    pub const fn supersede(&mut self, old: &Self) {
        self.generation = old.generation + 1;
    }
}
