//! One switch with hosts.

use schemars::JsonSchema;
use topology::Topology;

use super::{Rule, Specs, add_hosts, add_switches};
use crate::error::Problems;
use crate::quantity::Whole;
use crate::read::{Fields, Read, section};
use crate::source::At;
use crate::tree::Node;

section! {
    /// One switch with hosts, as Mininet's `single`.
    SingleText {
        /// How many hosts.
        "hosts" => hosts: At<Whole<1, 250>>,
    }
}

impl Rule for SingleText {
    fn lay_out(&self, specs: &Specs, problems: &mut Problems<'_>) -> Option<Topology> {
        if let Some(place) = specs.switches_place {
            let hint = "remove it: all links are between a host and the switch";
            problems.add(place, "a single switch has no links between switches", "no such link", hint);
        }
        let mut topology = Topology::default();
        let hosts = add_hosts(&mut topology, 1, self.hosts.value.get(), |_| None);
        add_switches(&mut topology, &hosts, specs);
        topology.arrange();
        Some(topology)
    }
}

#[cfg(test)]
mod tests {
    use topology::NodeId;

    use crate::{Source, parse};

    #[test]
    fn all_hosts_are_at_one_switch() {
        let read = |text: &str| parse(&Source { name: "single.yaml".to_owned(), text: text.to_owned() });
        let topology = read("topology: { single: { hosts: 3 } }\n").expect("a network").topology;
        assert_eq!((topology.hosts, topology.nodes.len(), topology.links.len()), (3, 4, 3));
        assert_eq!(topology.nodes[NodeId(3)].name, "s1");
        assert_eq!(topology.address(NodeId(2)).expect("a host").ipv4.to_string(), "10.0.1.3");
        let error = read("topology: { single: { hosts: 3 } }\nlinks: { switches: { delay: 1ms } }\n").unwrap_err();
        assert_eq!((error.problems().len(), error.problems()[0].line), (1, 2));
    }
}
