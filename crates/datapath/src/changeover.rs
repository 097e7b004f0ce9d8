//! A network that changes: its new graph goes on where the old one ends.
//!
//! The new graph is made beside the old one, with all that the file says, while packets go on. What only packets know (queues, what bonds have agreed on,
//! counters) is moved into it between two of them, by whoever drives the graph: a part of the graph at a time, each for itself.

use link::Retiming;
use machine::Time;
use topology::{BondEndId, NetPort, NodeId, TiVec};

use crate::graph::{Graph, Tables};

/// Where what one network has is in the next one. What is not there any more has no place.
#[derive(Debug)]
pub struct Renumbering {
    /// By node.
    pub nodes: TiVec<NodeId, Option<NodeId>>,
    /// By port. Both ports of a link are in the next network, or neither.
    pub ports: TiVec<NetPort, Option<NetPort>>,
    /// By end of a bond, if it is to go on as it is.
    pub ends: TiVec<BondEndId, Option<BondEndId>>,
    /// Whether switches go on choosing as they have chosen: that they are to spread in the same way.
    pub keeps_choices: bool,
    /// By number of the switch: whether its pipeline goes on. Pipelines know addresses and ports: where those change, there is none.
    pub keeps_pipelines: Vec<bool>,
}

impl<P> Graph<P> {
    /// Trees of another time are known by this number: what is for everybody and is on its way by one of those goes no further. To be called before the graph
    /// is split.
    pub const fn set_generation(&mut self, generation: u64) {
        self.generation = generation;
    }

    /// Goes on where `old` ends, which is the same part of the graph of the network before; nothing was offered to a link after `now`. Links, ends of bonds,
    /// pipelines and what switches choose by go over to this; what was made in their place is `old`'s then, which is to be thrown away, and so is what both have
    /// not. Returns the links that have another rate or delay, each by the port from which it leaves: what is under way on them comes at another
    /// time.
    ///
    /// Paths of `old` are to be added up before ([`Graph::add_up_paths`]), and [`Graph::start`] is to be called afterwards.
    pub fn take_over(
        &mut self,
        old: &mut Self,
        (was, is): (&Tables, &Tables),
        renumbering: &Renumbering,
        now: Time,
    ) -> Vec<(NetPort, Retiming)> {
        let mut retimings = Vec::new();
        for (from, to) in kept(&renumbering.ports) {
            if let (Some(link), Some(made)) = (old.egress[from].link_mut(), self.egress[to].link_mut()) {
                let new = made.spec();
                std::mem::swap(made, link);
                if made.spec() != new {
                    retimings.push((to, made.reconfigure(now, new)));
                }
            }
        }
        if renumbering.keeps_choices {
            for (number, switch) in old.switches.iter().enumerate() {
                let node = renumbering.nodes[was.map.node_of_switch(number)];
                let at = node.and_then(|node| is.map.switch(node).or_else(|| is.map.host_switch(node)));
                if let Some(at) = at {
                    self.switches[at].keep_choices(switch);
                }
            }
        }
        let kept_pipelines = renumbering.keeps_pipelines.iter().zip(&mut self.pipelines).zip(&mut old.pipelines);
        for ((_, made), pipeline) in kept_pipelines.filter(|((keeps, _), _)| **keeps) {
            std::mem::swap(made, pipeline);
            if let (Some(kept), Some(made)) = (made, pipeline) {
                kept.take_ports_of(made);
            }
        }
        for ((_, made), bridge) in renumbering.keeps_pipelines.iter().zip(&mut self.bridges).zip(&mut old.bridges) {
            if let (Some(made), Some(bridge)) = (made, bridge)
                && bridge.follow(made)
            {
                std::mem::swap(made, bridge);
            }
        }
        if was.steering == is.steering {
            std::mem::swap(&mut self.chains, &mut old.chains);
        } else {
            self.chains.take_over(&mut old.chains, (&was.steering, &is.steering));
        }
        if was.services == is.services && renumbering.nodes.iter_enumerated().all(|(was, is)| Some(was) == *is) {
            std::mem::swap(&mut self.services, &mut old.services);
            std::mem::swap(&mut self.balancers, &mut old.balancers);
            std::mem::swap(&mut self.names, &mut old.names);
        } else {
            self.names.take_over(&old.names);
            self.services.take_over(now, &mut old.services, (&is.services, &renumbering.nodes));
            let services = (&was.services, &is.services);
            self.balancers.take_over(now, &mut old.balancers, services, &renumbering.nodes);
        }
        for (from, to) in kept(&renumbering.ends) {
            std::mem::swap(&mut self.ends[to], &mut old.ends[from]);
        }
        // What is only room need not be found anew.
        std::mem::swap(&mut self.paths, &mut old.paths);
        self.paths.forget();
        std::mem::swap(&mut self.bursts, &mut old.bursts);
        std::mem::swap(&mut self.released, &mut old.released);
        std::mem::swap(&mut self.pending, &mut old.pending);
        let segments = old.first_segments.drain(..);
        self.first_segments.extend(segments.filter_map(|(port, packet)| Some((renumbering.ports[port]?, packet))));
        std::mem::swap(&mut self.actions, &mut old.actions);
        (self.passed, self.unknown) = (old.passed, old.unknown);
        retimings
    }
}

/// What is in both, by its number in the one and in the other.
fn kept<K: Copy + From<usize>>(places: &TiVec<K, Option<K>>) -> impl Iterator<Item = (K, K)> + '_
where
    usize: From<K>,
{
    places.iter_enumerated().filter_map(|(from, to)| Some((from, (*to)?)))
}
