//! A torus of two dimensions: rows and columns of switches, each of which is a ring.

use schemars::JsonSchema;
use topology::{NodeId, Topology};

use super::{Rule, Specs, add_hosts, add_switches};
use crate::error::Problems;
use crate::quantity::Whole;
use crate::read::{Fields, Read, section};
use crate::source::At;
use crate::tree::Node;

section! {
    /// Switches in rows and columns, each of which is a ring, as Mininet's `torus`.
    TorusText {
        /// How many columns.
        "x" => x: At<Whole<3, 50>>,
        /// How many rows.
        "y" => y: At<Whole<3, 50>>,
        /// How many hosts at each switch. 1 when not given.
        "hosts-per-switch" => hosts: Option<Whole<1, 50>>,
    }
}

impl Rule for TorusText {
    fn lay_out(&self, specs: &Specs, _: &mut Problems<'_>) -> Option<Topology> {
        Some(torus(self.x.value.get(), self.y.value.get(), self.hosts.map_or(1, Whole::get), specs))
    }
}

/// Lays out `x` columns and `y` rows (3 to 50 each) of switches with `hosts` (up to 50) each, numbered row by row. A switch's ports: hosts, then the switches
/// that it meets as links are laid: of each switch in turn the one to the next column, and the one to the next row.
fn torus(x: u32, y: u32, hosts: u32, specs: &Specs) -> Topology {
    let mut topology = Topology::default();
    // Each row is a pod.
    let hosts = add_hosts(&mut topology, x * y, hosts, |switch| Some(switch / x));
    let switches = add_switches(&mut topology, &hosts, specs);
    let at = |column: u32, row: u32| -> NodeId { switches[(row % y * x + column % x) as usize] };
    for row in 0..y {
        for column in 0..x {
            topology.connect(at(column, row), at(column + 1, row), specs.switches);
            topology.connect(at(column, row), at(column, row + 1), specs.switches);
        }
    }
    topology.arrange();
    topology
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_switch_has_four_others_around_it() {
        let topology = torus(3, 4, 2, &Specs::default());
        assert_eq!((topology.hosts, topology.nodes.len(), topology.links.len()), (24, 36, 24 + 24));
        for (id, switch) in topology.switches() {
            let around: BTreeSet<NodeId> = topology.peers(id).filter(|peer| !topology.is_host(*peer)).collect();
            assert_eq!((switch.ports.len(), around.len()), (6, 4), "{}", switch.name);
        }
        let around = |name: &str| -> BTreeSet<String> {
            let peers = topology.peers(topology.node(name).expect(name));
            peers.map(|peer| topology.nodes[peer].name.clone()).filter(|name| name.starts_with('s')).collect()
        };
        assert_eq!(around("s1"), ["s10", "s2", "s3", "s4"].map(str::to_owned).into());
        assert_eq!(around("s5"), ["s2", "s4", "s6", "s8"].map(str::to_owned).into());
    }
}
