//! Functions of service chains: each takes a packet by one port and sends it on by the other, as a link would that has its rate, its queue and its delay.

use datapath::Map;
use link::{Link, Verdict};
use machine::{Time, mix};
use topology::{NetPort, NodeId, PortId, Topology};

use crate::Scenario;

/// The functions of a simulation.
#[derive(Debug)]
pub(crate) struct Functions {
    /// By instance, in the order of their ports: what it does to packets of both directions.
    instances: Vec<Link>,
    /// The first port that belongs to one; no port of a host lies behind it that does not. Behind all of them, if there is none.
    pub(crate) first_port: NetPort,
}

impl Functions {
    pub(crate) fn of(scenario: &Scenario<'_>, map: &Map) -> Self {
        let fabric = scenario.fabric;
        let functions = fabric.chains.functions.iter().zip(&fabric.simulated_functions);
        let specs =
            functions.flat_map(|(function, spec)| function.instances().iter().map(move |ports| (ports[0], *spec)));
        let mut specs: Vec<_> = specs.collect();
        specs.sort_by_key(|(ingress, _)| *ingress);
        let seed = |node: NodeId| mix(scenario.seed ^ mix(u64::from(node.0)));
        let topology = &fabric.topology;
        Self {
            instances: specs.into_iter().map(|(ingress, spec)| Link::new(spec, seed(ingress))).collect(),
            first_port: match topology.function_ports {
                0 => NetPort(u32::MAX),
                _ => map.port(topology.first_function_port(), PortId(0)),
            },
        }
    }

    /// A packet of so many bytes has come to a function, by this port of it: what becomes of it, and the port by which it leaves.
    pub(crate) fn offer(
        &mut self,
        now: Time,
        (topology, map): (&Topology, &Map),
        port: NetPort,
        bytes: u32,
    ) -> (Verdict, NetPort) {
        let node = map.node(port);
        let instance = (node.0 - topology.first_function_port().0) as usize / 2;
        let other = topology.other_function_port(node).expect("it is a function's");
        (self.instances[instance].offer(now, bytes), map.port(other, PortId(0)))
    }
}
