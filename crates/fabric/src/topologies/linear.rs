//! A line of switches, and a ring: each is linked to the one before it, in a ring the first to the last as well.

use schemars::JsonSchema;
use topology::Topology;

use super::{Rule, Specs, add_hosts, add_switches};
use crate::error::Problems;
use crate::quantity::Whole;
use crate::read::{Fields, Read, section};
use crate::source::At;
use crate::tree::Node;

section! {
    /// Switches in a line, each with hosts, as Mininet's `linear`.
    LinearText {
        /// How many switches.
        "switches" => switches: At<Whole<1, 250>>,
        /// How many hosts at each switch. 1 when not given.
        "hosts-per-switch" => hosts: Option<Whole<1, 250>>,
    }
}

section! {
    /// Switches in a circle, each with hosts.
    RingText {
        /// How many switches.
        "switches" => switches: At<Whole<3, 250>>,
        /// How many hosts at each switch. 1 when not given.
        "hosts-per-switch" => hosts: Option<Whole<1, 250>>,
    }
}

impl Rule for LinearText {
    fn lay_out(&self, specs: &Specs, _: &mut Problems<'_>) -> Option<Topology> {
        Some(line(self.switches.value.get(), self.hosts.map_or(1, Whole::get), false, specs))
    }
}

impl Rule for RingText {
    fn lay_out(&self, specs: &Specs, _: &mut Problems<'_>) -> Option<Topology> {
        Some(line(self.switches.value.get(), self.hosts.map_or(1, Whole::get), true, specs))
    }
}

/// Lays out switches s1, .. (up to 250) with `hosts` (up to 250) each, `closed` to a ring. A switch's ports: hosts, then the switch before it, then the one
/// behind it; the last one of a ring is before the first.
fn line(switches: u32, hosts: u32, closed: bool, specs: &Specs) -> Topology {
    let mut topology = Topology::default();
    let hosts = add_hosts(&mut topology, switches, hosts, |_| None);
    let switches = add_switches(&mut topology, &hosts, specs);
    if let (true, [first, .., last]) = (closed, switches.as_slice()) {
        topology.connect(*last, *first, specs.switches);
    }
    for pair in switches.windows(2) {
        topology.connect(pair[0], pair[1], specs.switches);
    }
    topology.arrange();
    topology
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(topology: &Topology, name: &str) -> Vec<String> {
        let node = topology.node(name).expect(name);
        topology.peers(node).map(|peer| topology.nodes[peer].name.clone()).collect()
    }

    #[test]
    fn each_switch_is_linked_to_those_beside_it() {
        let linear = line(4, 2, false, &Specs::default());
        assert_eq!((linear.hosts, linear.nodes.len(), linear.links.len()), (8, 12, 8 + 3));
        assert_eq!(peers(&linear, "s1"), ["h1", "h2", "s2"]);
        assert_eq!(peers(&linear, "s3"), ["h5", "h6", "s2", "s4"]);
        let ring = line(4, 2, true, &Specs::default());
        assert_eq!(ring.links.len(), 8 + 4);
        assert_eq!(peers(&ring, "s1"), ["h1", "h2", "s4", "s2"]);
        assert_eq!(
            (line(1, 1, false, &Specs::default()).links.len(), line(250, 250, true, &Specs::default()).hosts),
            (1, 62_500)
        );
    }
}
