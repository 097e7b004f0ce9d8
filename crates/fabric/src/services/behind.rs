//! Which clients of services may be behind which router: by the subnets of hosts, and the routers between those.

use std::collections::BTreeSet;
use std::net::IpAddr;

use datapath::{AddressRange, BehindRouters};
use topology::NodeId;

use crate::host_routes::first_of;
use crate::subnets::Subnets;
use crate::{Fabric, InterfaceAddress};

/// A host whose kernel passes on packets for others.
struct Router {
    interfaces: Vec<NodeId>,
    subnets: BTreeSet<AddressRange>,
}

impl Fabric {
    /// The subnets of clients that may be behind each router, by the interface from where it reaches a service.
    pub(crate) fn clients_behind(&self) -> BehindRouters {
        let subnets = self.subnets();
        let routers = if self.services.is_empty() { Vec::new() } else { self.routers(&subnets) };
        let mut behind = BehindRouters::new();
        for (number, service) in self.services.iter().enumerate() {
            let addresses: Vec<IpAddr> = service.addresses.iter().map(datapath::VirtualAddress::ip).collect();
            let is_of_family = |subnet: &&AddressRange| addresses.iter().any(|it| it.is_ipv6() == subnet.is_ipv6);
            // Who is in a subnet with the service needs no router.
            let is_beside = |subnet: &AddressRange| addresses.iter().any(|address| has(subnet, *address));
            for (own, router) in routers.iter().enumerate() {
                let near = |interface: &&NodeId| subnets.of(**interface).any(|subnet| is_beside(&range(subnet)));
                let leaves_by: Vec<NodeId> = router.interfaces.iter().filter(near).copied().collect();
                if leaves_by.is_empty() {
                    continue;
                }
                let mut found: BTreeSet<AddressRange> =
                    router.subnets.iter().filter(is_of_family).filter(|subnet| !is_beside(subnet)).copied().collect();
                loop {
                    let further = routers.iter().enumerate().filter(|(other, _)| *other != own);
                    let further = further.filter(|(_, other)| !other.subnets.is_disjoint(&found));
                    let new: Vec<AddressRange> = further
                        .flat_map(|(_, other)| &other.subnets)
                        .filter(is_of_family)
                        .filter(|subnet| !is_beside(subnet) && !found.contains(subnet))
                        .copied()
                        .collect();
                    if new.is_empty() {
                        break;
                    }
                    found.extend(new);
                }
                for interface in leaves_by {
                    behind.insert((interface, number), found.iter().copied().collect());
                }
            }
        }
        behind
    }

    fn routers(&self, subnets: &Subnets<'_>) -> Vec<Router> {
        let topology = &self.topology;
        let owners = self.setups.iter().filter(|(_, setup)| setup.forwards);
        let owners = owners.filter_map(|(name, _)| topology.node(name));
        let router = |owner: NodeId| {
            let interfaces: Vec<NodeId> = topology.interfaces_of(owner).collect();
            let subnets = interfaces.iter().flat_map(|interface| subnets.of(*interface)).map(range).collect();
            Router { interfaces, subnets }
        };
        owners.map(router).collect()
    }
}

fn range(subnet: InterfaceAddress) -> AddressRange {
    let (is_ipv6, first, bits) = match first_of(subnet) {
        IpAddr::V4(first) => (false, u128::from(first.to_bits()), 32),
        IpAddr::V6(first) => (true, first.to_bits(), 128),
    };
    let hosts = 1u128.checked_shl(bits - u32::from(subnet.prefix)).map_or(u128::MAX, |count| count - 1);
    AddressRange { is_ipv6, addresses: (first, first | hosts) }
}

fn has(subnet: &AddressRange, address: IpAddr) -> bool {
    let (is_ipv6, bits) = match address {
        IpAddr::V4(address) => (false, address.to_bits().into()),
        IpAddr::V6(address) => (true, address.to_bits()),
    };
    subnet.is_ipv6 == is_ipv6 && (subnet.addresses.0..=subnet.addresses.1).contains(&bits)
}

#[cfg(test)]
mod tests {
    use crate::{Source, parse};

    /// h1 - r1 - h2, where the service is - r2 - h3 - r3 - h4.
    #[test]
    fn clients_are_behind_the_routers_that_lead_to_them() {
        let text = "\
nodes:
  h1: { kind: host, ipv4: 10.0.1.1/24 }
  h2: { kind: host, ipv4: 10.0.2.1/24, routes: [default via 10.0.2.254, 10.0.3.0/24 via 10.0.2.253, 10.0.4.0/24 via 10.0.2.253] }
  h3: { kind: host, ipv4: 10.0.3.1/24 }
  h4: { kind: host, ipv4: 10.0.4.1/24 }
  r1: { kind: host, forward: true, interfaces: { s1: { ipv4: 10.0.1.254/24 }, s2: { ipv4: 10.0.2.254/24 } } }
  r2: { kind: host, forward: true, interfaces: { s2: { ipv4: 10.0.2.253/24 }, s3: { ipv4: 10.0.3.254/24 } } }
  r3: { kind: host, forward: true, interfaces: { s3: { ipv4: 10.0.3.253/24 }, s4: { ipv4: 10.0.4.254/24 } } }
  no: { kind: host, interfaces: { s1: { ipv4: 10.0.1.9/24 }, s2: { ipv4: 10.0.2.9/24 } } }
  s1: switch
  s2: switch
  s3: switch
  s4: switch
links:
  - { between: [h1, s1] }
  - { between: [h2, s2] }
  - { between: [h3, s3] }
  - { between: [h4, s4] }
  - { between: [r1, s1] }
  - { between: [r1, s2] }
  - { between: [r2, s2] }
  - { between: [r2, s3] }
  - { between: [r3, s3] }
  - { between: [r3, s4] }
  - { between: [no, s1] }
  - { between: [no, s2] }
services: { web: { address: '10.0.2.80:80', servers: [h2] } }
";
        let fabric = parse(&Source { name: "net".to_owned(), text: text.to_owned() }).expect("a network");
        let behind = fabric.clients_behind();
        let shown: Vec<(&str, Vec<String>)> = behind
            .iter()
            .map(|((interface, _), subnets)| {
                let ipv4 = subnets.iter().filter(|subnet| !subnet.is_ipv6);
                let first = ipv4.map(|subnet| std::net::Ipv4Addr::from_bits(subnet.addresses.0 as u32).to_string());
                (fabric.topology.nodes[*interface].name.as_str(), first.collect())
            })
            .collect();
        let expected = [("r2", vec!["10.0.3.0", "10.0.4.0"]), ("r1.eth1", vec!["10.0.1.0"])];
        let expected = expected.map(|(name, subnets)| (name, subnets.into_iter().map(str::to_owned).collect()));
        assert_eq!(shown, expected);
    }
}
