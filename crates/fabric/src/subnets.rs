//! Whom hosts find without a router, and by which router they find everybody else: by the addresses and routes that a file gives them. What routing daemons add
//! while a network runs is not in it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

use topology::{HostAddress, NodeId, Topology};

use crate::host_routes::first_of;
use crate::{Fabric, HostRoute, HostSetup, InterfaceAddress};

/// Where a host's kernel sends a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// The interface by which it leaves.
    pub interface: NodeId,
    /// The address whose owner gets it: a router's, or that which the packet is for.
    pub address: IpAddr,
}

/// The subnets of a network's hosts.
#[derive(Clone, Debug)]
pub struct Subnets<'a> {
    topology: &'a Topology,
    setups: &'a BTreeMap<String, HostSetup>,
    /// The further interfaces of hosts that have some.
    further: BTreeMap<NodeId, Vec<NodeId>>,
}

impl<'a> Subnets<'a> {
    pub(crate) fn new(topology: &'a Topology, setups: &'a BTreeMap<String, HostSetup>) -> Self {
        let mut further: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
        for (owner, interface) in topology.interfaces.iter().zip(topology.end_host_count()..) {
            further.entry(*owner).or_default().push(NodeId(interface));
        }
        Self { topology, setups, further }
    }

    /// The addresses of an interface, each with the prefix of its subnet.
    pub(crate) fn of(&self, interface: NodeId) -> impl Iterator<Item = InterfaceAddress> + use<'a> {
        let own =
            self.topology.address(interface).map(|HostAddress { ipv4, ipv4_prefix, ipv6, ipv6_prefix, .. }| {
                let first = InterfaceAddress { address: (*ipv4).into(), prefix: *ipv4_prefix };
                [first, InterfaceAddress { address: (*ipv6).into(), prefix: *ipv6_prefix }]
            });
        let further = self.setups.get(&self.topology.nodes[interface].name);
        own.into_iter().flatten().chain(further.into_iter().flat_map(|setup| setup.addresses.iter().copied()))
    }

    /// The subnets whose hosts an interface takes for its neighbours: those that it is in, and those that a route without a next hop leads to.
    pub(crate) fn neighbours(&self, interface: NodeId) -> impl Iterator<Item = InterfaceAddress> + use<'_, 'a> {
        let owner = self.topology.owner(interface);
        let is_by_it = move |route: &&HostRoute| {
            let device = route.device.as_ref().and_then(|device| self.device(owner, device));
            route.via.is_none() && device == Some(interface)
        };
        self.of(interface).chain(self.routes(owner).filter(is_by_it).map(|route| route.destination))
    }

    /// All interfaces of a host, the first of which is the host itself.
    fn interfaces(&self, owner: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::once(owner).chain(self.further.get(&owner).into_iter().flatten().copied())
    }

    /// The interface that a host calls `eth0`, `eth1`, ..
    pub fn device(&self, owner: NodeId, name: &str) -> Option<NodeId> {
        let number: usize = name.strip_prefix("eth")?.parse().ok()?;
        self.interfaces(owner).nth(number)
    }

    fn routes(&self, owner: NodeId) -> impl Iterator<Item = &'a HostRoute> + use<'a> {
        let setup = self.setups.get(&self.topology.nodes[owner].name);
        setup.into_iter().flat_map(|setup| &setup.routes)
    }

    /// Where a host, whichever of its interfaces is named, sends what is for this address: by the longest prefix, and among routes of that by the lowest metric. `None`: it has no route.
    pub fn next_hop(&self, host: NodeId, to: IpAddr) -> Option<NextHop> {
        let owner = self.topology.owner(host);
        let mut best: Option<(Reverse<u8>, u32, NextHop)> = None;
        let mut consider = |prefix: u8, metric: u32, hop: NextHop| {
            let rank = (Reverse(prefix), metric);
            if best.is_none_or(|(prefix, metric, _)| rank < (prefix, metric)) {
                best = Some((rank.0, rank.1, hop));
            }
        };
        for interface in self.interfaces(owner) {
            for subnet in self.of(interface).filter(|subnet| subnet.has(to)) {
                consider(subnet.prefix, 0, NextHop { interface, address: to });
            }
        }
        for route in self.routes(owner).filter(|route| route.destination.has(to)) {
            let HostRoute { destination, via, device, metric } = route;
            let named = device.as_ref().and_then(|device| self.device(owner, device));
            let leads = |interface: &NodeId| via.is_some_and(|via| self.of(*interface).any(|own| own.has(via)));
            let Some(interface) = named.or_else(|| self.interfaces(owner).find(leads)) else { continue };
            consider(destination.prefix, metric.unwrap_or(0), NextHop { interface, address: via.unwrap_or(to) });
        }
        best.map(|(.., hop)| hop)
    }

    /// The address from which a host sends what leaves by this hop, if no program chooses another one: one of the next hop's subnet, or the interface's first one.
    pub fn source(&self, hop: &NextHop) -> Option<IpAddr> {
        let is_of_version = |own: &InterfaceAddress| own.address.is_ipv4() == hop.address.is_ipv4();
        let own = || self.of(hop.interface).filter(is_of_version);
        let beside = own().find(|own| own.has(hop.address)).or_else(|| own().next());
        beside.map(|own| own.address)
    }

    /// The host's interface that has this address, be it the first one of its version or a further one.
    pub fn owner_of(&self, address: IpAddr) -> Option<NodeId> {
        let mut hosts = self.topology.addressed_hosts().map(|(id, _)| id);
        hosts.find(|host| self.of(*host).any(|own| own.address == address))
    }
}

impl Fabric {
    /// The subnets of its hosts.
    pub fn subnets(&self) -> Subnets<'_> {
        Subnets::new(&self.topology, &self.setups)
    }
}

/// A subnet as it is written: with the first of its addresses.
pub(crate) fn in_words(subnet: InterfaceAddress) -> String {
    format!("{}/{}", first_of(subnet), subnet.prefix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, parse};

    #[test]
    fn the_longest_prefix_leads_a_packet() {
        let text = "\
nodes:
  h1: { kind: host, ipv4: 10.0.1.1/24, routes: [default via 10.0.1.254, 10.9.0.0/16 via 10.0.1.253 metric 9, 10.9.0.0/16 via 10.0.1.252 metric 5, 10.8.0.7 dev eth0] }
  r1:
    kind: host
    forward: true
    interfaces: { s1: { ipv4: 10.0.1.254/24 }, s2: { ipv4: 10.0.2.254/24, addresses: [192.168.7.1/24] } }
  h2: { kind: host, ipv4: 10.0.2.1/24 }
  s1: switch
  s2: switch
links: [{ between: [h1, s1] }, { between: [r1, s1] }, { between: [r1, s2] }, { between: [h2, s2] }]
";
        let fabric = parse(&Source { name: "net".to_owned(), text: text.to_owned() }).expect("a network");
        let subnets = fabric.subnets();
        let node = |name: &str| fabric.topology.node(name).expect(name);
        let hop = |from: &str, to: &str| {
            let hop = subnets.next_hop(node(from), to.parse().unwrap())?;
            Some((&*fabric.topology.nodes[hop.interface].name, hop.address.to_string()))
        };
        let expect = |name, address: &str| Some((name, address.to_owned()));
        assert_eq!(hop("h1", "10.0.1.7"), expect("h1", "10.0.1.7"));
        assert_eq!(hop("h1", "10.0.2.1"), expect("h1", "10.0.1.254"));
        assert_eq!(hop("h1", "10.9.0.1"), expect("h1", "10.0.1.252"));
        assert_eq!(hop("h1", "10.8.0.7"), expect("h1", "10.8.0.7"));
        assert_eq!(hop("r1", "10.0.2.9"), expect("r1.eth1", "10.0.2.9"));
        assert_eq!(hop("r1.eth1", "10.0.1.1"), expect("r1", "10.0.1.1"));
        assert_eq!(hop("r1", "192.168.7.9"), expect("r1.eth1", "192.168.7.9"));
        assert_eq!((hop("h2", "10.0.1.1"), hop("h1", "fd00::1")), (None, None));
        assert_eq!(subnets.owner_of("192.168.7.1".parse().unwrap()), Some(node("r1.eth1")));
        let to_guest = subnets.next_hop(node("r1"), "192.168.7.9".parse().unwrap()).unwrap();
        assert_eq!(subnets.source(&to_guest), Some("192.168.7.1".parse().unwrap()));
        let neighbours: Vec<String> = subnets.neighbours(node("h1")).map(in_words).collect();
        assert_eq!(neighbours, ["10.0.1.0/24", "fd68:6564:646c:1::/64", "10.8.0.7/32"]);
    }
}
