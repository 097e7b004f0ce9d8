//! A graph in parts: each has all switches, and some of the egresses, pipelines and ends of bonds.

use std::sync::Arc;

use machine::{Rebase, Span};
use topology::{NetPort, NodeId};

use crate::graph::{Egress, Graph, Tables};

/// Which part has an egress when a graph is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// It is in this part only: packets wait for each other there, or come to something that is in one part only.
    One(usize),
    /// Each part has one of its own, and what they count is added up.
    Each,
}

impl<P> Graph<P> {
    /// Deals out a whole graph to so many parts. `owner` says to which a node belongs with its bonds and its pipeline, `egress_owner` which part has the egress of a
    /// port. All parts have all switches: each packet is forwarded where it is, but for one that comes to a multi-homed host that forwards,
    /// which is to be in the part that has the host's egresses.
    ///
    /// # Panics
    /// If `owner` or `egress_owner` gives a number that no part has.
    pub fn split(
        self,
        tables: &Tables,
        parts: usize,
        owner: impl Fn(NodeId) -> usize,
        egress_owner: impl Fn(NetPort) -> Owner,
    ) -> Vec<Self> {
        let mut split: Vec<Self> = (0..parts).map(|_| self.empty_part()).collect();
        // Chains are in one part, with all that leads to their functions; so are connections to services.
        split[0].chains = self.chains;
        split[0].services = self.services;
        split[0].balancers = self.balancers;
        split[0].names = self.names;
        for (port, egress) in self.egress.into_iter_enumerated() {
            match egress_owner(port) {
                Owner::One(part) => split[part].egress[port] = egress,
                Owner::Each => {
                    split[1..].iter_mut().for_each(|part| part.egress[port] = egress.twin());
                    split[0].egress[port] = egress;
                }
            }
        }
        for (at, pipeline) in self.pipelines.into_iter().enumerate() {
            split[owner(tables.map.node_of_switch(at))].pipelines[at] = pipeline;
        }
        for (at, bridge) in self.bridges.into_iter().enumerate() {
            split[owner(tables.map.node_of_switch(at))].bridges[at] = bridge;
        }
        for (id, end) in self.ends.into_iter_enumerated() {
            split[owner(tables.bonds[id].node)].ends[id] = end;
        }
        split
    }

    fn empty_part(&self) -> Self {
        Self {
            routes: Arc::clone(&self.routes),
            egress: self.egress.iter().map(Egress::elsewhere).collect(),
            switches: self.switches.clone(),
            pipelines: self.pipelines.iter().map(|_| None).collect(),
            bridges: self.bridges.iter().map(|_| None).collect(),
            ends: self.ends.iter().map(|_| None).collect(),
            generation: self.generation,
            spread: self.spread,
            ..Self::default()
        }
    }
}

/// Packets have no moments, and timers are the driver's: after this, [`Graph::start`] asks for them anew.
impl<P> Rebase for Graph<P> {
    fn rebase(&mut self, by: Span) {
        let Self {
            routes: _,
            egress,
            switches: _,
            pipelines,
            bridges,
            ends,
            chains,
            services,
            balancers,
            names,
            released: _,
            pending: _,
            generation: _,
            first_segments: _,
            actions: _,
            passed,
            unknown,
            spread: _,
            paths: _,
            direct: _,
            bursts: _,
        } = self;
        egress.raw.rebase(by);
        pipelines.rebase(by);
        bridges.rebase(by);
        ends.raw.rebase(by);
        chains.rebase(by);
        services.rebase(by);
        balancers.rebase(by);
        names.rebase(by);
        passed.rebase(by);
        unknown.rebase(by);
    }
}
