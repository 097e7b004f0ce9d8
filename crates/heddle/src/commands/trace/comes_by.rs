//! By which port a traced packet comes in, and who sends it.

use fabric::Fabric;
use topology::{NodeId, PortId, Topology};
use vswitch::flow_table::Match;

use super::{Known, peer_host};
use crate::commands::path::Network;

/// The host that sends a packet, if it is known: by the port of the switch that leads to it, or by its addresses.
pub fn asker(
    topology: &Topology,
    (switch, port): (NodeId, PortId),
    (fields, known): (&Match, &Known),
) -> Option<NodeId> {
    peer_host(topology, switch, port).or_else(|| known.source(topology, fields))
}

/// The port that a packet comes in by.
pub struct ComesBy {
    pub port: PortId,
    /// Who sends it, if no port is named and that says by which it comes.
    from: Option<NodeId>,
    /// Whether it may come by others as well.
    is_one_of_several: bool,
}

impl ComesBy {
    /// What is said where no port is named, and none follows from the sender.
    pub fn note(&self, now: &Fabric, switch: NodeId) -> Option<String> {
        let topology = &now.topology;
        let name = |node: NodeId| topology.nodes[topology.owner(node)].name.as_str();
        let (link, side) = *topology.nodes[switch].ports.get(self.port)?;
        let (port, peer) = (self.port.0, name(topology.links[link].end(side.other()).node));
        match self.from {
            None => Some(format!("No port is named: in_port={port} ({peer}).")),
            Some(from) if self.is_one_of_several => {
                let from = name(from);
                Some(format!(
                    "No port is named: in_port={port} ({peer}), one of those by which packets of {from} come."
                ))
            }
            Some(_) => None,
        }
    }
}

/// The port that the packet comes in by: that which is named, or that which leads to the host that sends it, or else the first.
pub fn comes_by(network: &Network, switch: NodeId, (fields, known): (&Match, &Known)) -> ComesBy {
    let topology = &network.fabric.topology;
    let from = known.source(topology, fields);
    let routes = network.routes();
    let ports = from.map_or(&[][..], |from| routes.next_hops(switch, from));
    match (fields.in_port(), ports) {
        (Some(port), _) => ComesBy { port, from: None, is_one_of_several: false },
        (None, [port, others @ ..]) => ComesBy { port: *port, from, is_one_of_several: !others.is_empty() },
        (None, []) => ComesBy { port: PortId(0), from: None, is_one_of_several: false },
    }
}

/// Of a bond, which is known by its first port, a port whose link carries; any other port is itself.
pub fn member(network: &Network, switch: NodeId, port: PortId) -> PortId {
    let topology = &network.fabric.topology;
    let Some(bond) = topology.bond_at(switch, port) else { return port };
    let carries = |port: &&PortId| network.carries(topology.nodes[switch].ports[**port].0);
    topology.bonds[bond].ports.iter().find(carries).copied().unwrap_or(port)
}
