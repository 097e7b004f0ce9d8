//! Topologies for the tests of this crate.

use std::net::{Ipv4Addr, Ipv6Addr};

use link::LinkSpec;

use crate::{BondEnd, BondEndId, Group, HostAddress, LinkId, NodeId, Topology};

/// So many hosts `h1`, ... and switches `s1`, ..., and links between nodes by their ids.
pub fn network(hosts: u8, switches: u8, links: &[(u32, u32)]) -> Topology {
    let mut topology = Topology::default();
    for last in 1..=hosts {
        let address = HostAddress {
            mac: [2, 0, 0, 0, 0, last],
            ipv4: Ipv4Addr::new(10, 0, 0, last),
            ipv4_prefix: 8,
            ipv6: Ipv6Addr::LOCALHOST,
            ipv6_prefix: 64,
            pod: None,
        };
        topology.add_host(format!("h{last}"), address);
    }
    for number in 1..=switches {
        topology.add_switch(format!("s{number}"), 1, None);
    }
    for &(a, b) in links {
        topology.connect(NodeId(a), NodeId(b), LinkSpec::default());
    }
    topology
}

/// Two hosts at a switch each (links 0 and 1), and two links between the switches (2 and 3), which can be a bond's.
pub fn square() -> Topology {
    network(2, 2, &[(0, 2), (1, 3), (2, 3), (3, 2)])
}

/// Makes the parallel `links` between `a` and `b` the topology's only bond, of so many members, and returns its links.
pub fn bond(topology: &mut Topology, [a, b]: [NodeId; 2], links: Vec<LinkId>, members: usize) -> Vec<LinkId> {
    let links = topology.regroup(&[Group { links, members }]).remove(0);
    for (node, partner) in [(a, 1), (b, 0)] {
        let ports = topology.ports_at(node, &links);
        topology.bonds.push(BondEnd { node, name: "bond0".into(), ports, partner: BondEndId(partner) });
    }
    links
}
