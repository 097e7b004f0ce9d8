//! A graph in parts: each has all switches, and some of the wires, pipelines and ends of bonds.

use std::sync::Arc;

use topology::{NetPort, NodeId};

use crate::graph::{Graph, Tables, Wire};

/// Whose a wire is when a graph is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// It is in this part only: packets wait for each other there, or come to something that is in one part only.
    One(usize),
    /// Each part has one of its own, and what they count is added up.
    Each,
}

impl<P> Graph<P> {
    /// Deals out a whole graph to so many parts. `owner` says to which a node belongs with its bonds and its pipeline, `wire_owner` whose the wire is that
    /// leaves from a port. All parts have all switches: each packet is forwarded where it is, but for one that comes to a multi-homed host that forwards,
    /// which is to be in the part that has the host's wires.
    ///
    /// # Panics
    /// If `owner` or `wire_owner` gives a number that no part has.
    pub fn split(
        self,
        tables: &Tables,
        parts: usize,
        owner: impl Fn(NodeId) -> usize,
        wire_owner: impl Fn(NetPort) -> Owner,
    ) -> Vec<Self> {
        let mut split: Vec<Self> = (0..parts).map(|_| self.empty_part()).collect();
        for (port, wire) in self.wires.into_iter_enumerated() {
            match wire_owner(port) {
                Owner::One(part) => split[part].wires[port] = wire,
                Owner::Each => {
                    split[1..].iter_mut().for_each(|part| part.wires[port] = wire.twin());
                    split[0].wires[port] = wire;
                }
            }
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
            switches: self.switches.clone(),
            pipelines: self.pipelines.iter().map(|_| None).collect(),
            ends: self.ends.iter().map(|_| None).collect(),
            generation: self.generation,
            ..Self::default()
        }
    }

    /// Takes in another part of the same graph, or the first one, if this has nothing yet. Of each switch the state is kept that the part has to which it
    /// belongs; `owns` says whether that is the other one.
    pub fn merge(&mut self, other: Self, owns: impl Fn(NodeId) -> bool, tables: &Tables) {
        if self.wires.is_empty() {
            *self = other;
            return;
        }
        self.wires.iter_mut().zip(other.wires).for_each(|(mine, wire)| mine.merge(wire));
        for (at, (mine, switch)) in self.switches.iter_mut().zip(other.switches).enumerate() {
            if owns(tables.map.node_of_switch(at)) {
                *mine = switch;
            }
        }
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
