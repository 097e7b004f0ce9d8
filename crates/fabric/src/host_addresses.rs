//! The addresses that a file gives to hosts: whether they can be, and whether two have the same.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use topology::{HostAddress, NodeId, NodeKind};

use crate::InterfaceAddress;
use crate::addresses::{Mac, WithPrefix};
use crate::error::Problems;
use crate::graph::{Graph, IPV4, IPV6};
use crate::host_routes::first_of;
use crate::read::Name;
use crate::source::{At, Place};

/// Addresses of a host or of an interface, as they are written.
#[derive(Clone, Debug)]
pub(crate) struct WrittenAddress {
    pub mac: Option<At<Mac>>,
    pub ipv4: Option<At<WithPrefix<Ipv4Addr>>>,
    pub ipv6: Option<At<WithPrefix<Ipv6Addr>>>,
}

/// Which addresses two hosts have the same of.
const IS_IPV4: &str = "IPv4 address";
const IS_IPV6: &str = "IPv6 address";

/// What to do about an address that can't be a host's.
pub(crate) const USE_OTHER: &str = "write another one of its subnet, like `10.0.1.7/24` or `fd00:1::7/64`";

/// Sets the addresses that the file gives, and holds them against all others.
pub(crate) fn override_hosts(graph: &mut Graph, hosts: &[(At<Name>, WrittenAddress)], problems: &mut Problems<'_>) {
    let ids: BTreeMap<String, NodeId> =
        graph.topology.nodes.iter_enumerated().map(|(id, node)| (node.name.clone(), id)).collect();
    let mut set = Vec::new();
    for (name, text) in hosts {
        match ids.get(&name.value.0).filter(|id| graph.topology.is_host(**id)) {
            Some(&id) => set.push((id, text)),
            None => unknown_host(graph, name, problems),
        }
    }
    for &(id, text) in &set {
        let NodeKind::Host(address) = &mut graph.topology.nodes[id].kind else { continue };
        override_host(address, text, problems);
    }
    let places = |pick: fn(&WrittenAddress) -> Option<Place>| -> BTreeMap<NodeId, Place> {
        set.iter().filter_map(|&(id, text)| Some((id, pick(text)?))).collect()
    };
    unique(graph, "MAC address", &places(|t| t.mac.as_ref().map(|m| m.place)), |a| Mac(a.mac).to_string(), problems);
    unique(graph, IS_IPV4, &places(|t| t.ipv4.as_ref().map(|a| a.place)), |a| a.ipv4.to_string(), problems);
    unique(graph, IS_IPV6, &places(|t| t.ipv6.as_ref().map(|a| a.place)), |a| a.ipv6.to_string(), problems);
}

fn unknown_host(graph: &Graph, name: &At<Name>, problems: &mut Problems<'_>) {
    let hint = problems.hint(|| graph.host_hint(&name.value.0));
    problems.add(name.place, format!("there is no host `{}`", name.value.0), "unknown host", hint);
}

fn override_host(address: &mut HostAddress, text: &WrittenAddress, problems: &mut Problems<'_>) {
    if let Some(At { value: Mac(mac), place, .. }) = text.mac {
        if mac[0] & 1 == 1 || mac == [0; 6] {
            problems.add(
                place,
                format!("{} is not the address of one host", Mac(mac)),
                "a group or nothing",
                "make the first byte even, like 02",
            );
        }
        address.mac = mac;
    }
    if let Some(At { value: WithPrefix { address: ipv4, prefix: Some(prefix) }, place, .. }) = text.ipv4 {
        note_unusable(InterfaceAddress { address: ipv4.into(), prefix }, place, problems);
        (address.ipv4, address.ipv4_prefix) = (ipv4, prefix);
        address.ipv6 = beside_ipv4(ipv4, prefix);
    } else if let Some(At { value: WithPrefix { address: ipv4, prefix: None }, place, .. }) = text.ipv4 {
        if !in_network_v4(ipv4) {
            problems.add(
                place,
                format!("{ipv4} is not a host's address in {}/{}", IPV4.0, IPV4.1),
                "outside the fabric's network",
                "write an address from 10.0.0.1 to 10.255.255.254, or one with the prefix of a subnet: `192.168.1.7/24`",
            );
        }
        address.ipv4 = ipv4;
    }
    if let Some(At { value: WithPrefix { address: ipv6, prefix: Some(prefix) }, place, .. }) = text.ipv6 {
        note_unusable(InterfaceAddress { address: ipv6.into(), prefix }, place, problems);
        (address.ipv6, address.ipv6_prefix) = (ipv6, prefix);
    } else if let Some(At { value: WithPrefix { address: ipv6, prefix: None }, place, .. }) = text.ipv6 {
        if !in_network_v6(ipv6) {
            problems.add(
                place,
                format!("{ipv6} is not a host's address in {}/{}", IPV6.0, IPV6.1),
                "outside the fabric's network",
                "write an address like fd68:6564:646c::7, or one with the prefix of a subnet: `fd00:1::7/64`",
            );
        }
        address.ipv6 = ipv6;
    }
}

/// Notes an address with a prefix that can't be a host's.
fn note_unusable(subnet: InterfaceAddress, place: Place, problems: &mut Problems<'_>) {
    if let Some(why) = unusable(subnet) {
        let message = format!("{subnet} is not a host's address: {why}");
        problems.add(place, message, "not a host's", USE_OTHER);
    }
}

fn in_network_v4(address: Ipv4Addr) -> bool {
    let last = Ipv4Addr::from(u32::from(IPV4.0) | (u32::MAX >> IPV4.1));
    address > IPV4.0 && address < last
}

fn in_network_v6(address: Ipv6Addr) -> bool {
    let host_part = u128::from(address) & (u128::MAX >> IPV6.1);
    host_part != 0 && u128::from(address) ^ host_part == u128::from(IPV6.0)
}

/// Notes addresses that two hosts have; at least one of the two was set in the file, and is marked.
fn unique(
    graph: &Graph,
    what: &str,
    places: &BTreeMap<NodeId, Place>,
    show: impl Fn(&HostAddress) -> String,
    problems: &mut Problems<'_>,
) {
    if places.is_empty() {
        return;
    }
    let mut owners: BTreeMap<String, NodeId> = BTreeMap::new();
    for (id, node) in graph.topology.nodes.iter_enumerated() {
        let NodeKind::Host(address) = &node.kind else { continue };
        let text = show(address);
        let Some(&other) = owners.get(&text) else {
            owners.insert(text, id);
            continue;
        };
        let (marked, other) = if places.contains_key(&id) { (id, other) } else { (other, id) };
        let (name, holder) = (&graph.topology.nodes[marked].name, &graph.topology.nodes[other].name);
        let is_by_position = graph.topology.address(other).is_some_and(|own| match what {
            IS_IPV4 => own.ipv4_prefix == IPV4.1,
            IS_IPV6 => own.ipv6_prefix == IPV6.1,
            _ => own.mac[..3] == [2, 0, 10],
        });
        let from = if places.contains_key(&other) || !is_by_position { "" } else { ", from its position" };
        if let Some(&place) = places.get(&marked) {
            let hint = problems.hint(|| own_address(graph, marked, what));
            problems.add(
                place,
                format!("`{name}` and `{holder}` have the same {what}"),
                format!("`{holder}` has it too{from}"),
                hint,
            );
        }
    }
}

/// What to do about an address that another host has: in a subnet of its own, what follows from a host's position does not fit.
fn own_address(graph: &Graph, host: NodeId, what: &str) -> String {
    let hosts = || graph.topology.addressed_hosts().filter_map(|(id, _)| graph.topology.address(id));
    let free = graph.topology.address(host).and_then(|address| {
        let subnet = match what {
            IS_IPV4 if address.ipv4_prefix != IPV4.1 => {
                InterfaceAddress { address: address.ipv4.into(), prefix: address.ipv4_prefix }
            }
            IS_IPV6 if address.ipv6_prefix != IPV6.1 => {
                InterfaceAddress { address: address.ipv6.into(), prefix: address.ipv6_prefix }
            }
            _ => return None,
        };
        let is_free = |free: &InterfaceAddress| {
            unusable(*free).is_none() && hosts().all(|it| free.address != it.ipv4 && free.address != it.ipv6)
        };
        (1..=graph.topology.nodes.len() as u32 + 2).map_while(|number| nth(subnet, number)).find(is_free)
    });
    match free {
        Some(free) => format!("each host needs its own: `{free}` is free in its subnet"),
        None => "each host needs its own; leave it out for one that follows from the position".to_owned(),
    }
}

/// The address at a place in a subnet, if it is so large.
fn nth(subnet: InterfaceAddress, number: u32) -> Option<InterfaceAddress> {
    let address: IpAddr = match first_of(subnet) {
        IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits().checked_add(number)?).into(),
        IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits().checked_add(number.into())?).into(),
    };
    Some(InterfaceAddress { address, ..subnet }).filter(|_| subnet.has(address))
}

/// The IPv6 address of a host whose IPv4 address is in a subnet of its own: in one that all hosts of that subnet share.
pub(crate) fn beside_ipv4(ipv4: Ipv4Addr, prefix: u8) -> Ipv6Addr {
    let network = first_of(InterfaceAddress { address: ipv4.into(), prefix });
    let IpAddr::V4(network) = network else { unreachable!("it is that of an IPv4 address") };
    let octets = network.octets();
    let subnet = if octets[0] == 10 && prefix <= 24 {
        u16::from_be_bytes([octets[1], octets[2]])
    } else {
        // FNV-1a, folded to 16 bits.
        let bytes = octets.iter().chain([&prefix]);
        let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
        (hash ^ hash >> 16) as u16
    };
    let [first, x, y, z] = ipv4.octets();
    let first = if first == 10 { 0 } else { u16::from(first) };
    let [site, global, local, ..] = IPV6.0.segments();
    Ipv6Addr::from([site, global, local, subnet, first, x.into(), y.into(), z.into()])
}

/// Why an address with a prefix cannot be a host's.
pub(crate) fn unusable(subnet: InterfaceAddress) -> Option<&'static str> {
    let InterfaceAddress { address, prefix } = subnet;
    let is_first = || address == first_of(subnet);
    match address {
        _ if prefix == 0 => Some("a prefix of 0 bits has everybody in it"),
        IpAddr::V4(own) => {
            let last = || own.to_bits() | u32::MAX.checked_shr(prefix.into()).unwrap_or(0) == own.to_bits();
            let first_byte = own.octets()[0];
            match first_byte {
                0 | 127 | 224.. => Some("it is not one of a host in a network"),
                _ if prefix < 31 && is_first() => Some("it is that of the subnet itself"),
                _ if prefix < 31 && last() => Some("it is that of all hosts of the subnet"),
                _ => None,
            }
        }
        IpAddr::V6(own) => match own {
            _ if own.is_unspecified() || own.is_loopback() || own.is_multicast() => {
                Some("it is not one of a host in a network")
            }
            _ if own.is_unicast_link_local() => Some("a device gives itself one of this kind"),
            _ if own.to_ipv4_mapped().is_some() => Some("it is one of IPv4"),
            _ if prefix < 127 && is_first() => Some("it is that of the subnet's routers"),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addresses::Subnet;

    #[test]
    fn hosts_of_a_subnet_share_one_of_ipv6() {
        let of = |address: [u8; 4], prefix| beside_ipv4(address.into(), prefix).to_string();
        assert_eq!(of([10, 0, 1, 1], 24), "fd68:6564:646c:1::1:1");
        assert_eq!(of([10, 0, 1, 254], 24), "fd68:6564:646c:1::1:fe");
        assert_eq!(of([10, 0, 2, 1], 24), "fd68:6564:646c:2::2:1");
        let network = |text: &str| text.split(':').take(4).map(str::to_owned).collect::<Vec<_>>();
        let [a, b, c] = [[10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 0, 5]].map(|address| network(&of(address, 30)));
        assert_eq!(a, b);
        assert_ne!(a, c);
    }

    #[test]
    fn an_address_that_somebody_has_is_answered_with_a_free_one_of_its_subnet() {
        let hint = |ipv4: [&str; 2]| {
            let text = format!(
                "nodes: {{ h1: {{ kind: host, ipv4: {} }}, h2: {{ kind: host, ipv4: {} }}, s1: switch }}\nlinks: [{{ between: [h1, s1] }}, {{ between: [h2, s1] }}]\n",
                ipv4[0], ipv4[1]
            );
            let error = crate::parse(&crate::Source { name: "net".to_owned(), text }).expect_err("they are the same");
            error.problems()[0].hint.clone()
        };
        let own = "each host needs its own";
        assert_eq!(hint(["192.168.5.1/24"; 2]), format!("{own}: `192.168.5.2/24` is free in its subnet"));
        assert_eq!(hint(["10.0.2.5/30"; 2]), format!("{own}: `10.0.2.6/30` is free in its subnet"));
        assert_eq!(hint(["10.0.2.5"; 2]), format!("{own}; leave it out for one that follows from the position"));
    }

    #[test]
    fn subnets_and_groups_are_no_hosts_addresses() {
        let unusable = |text: &str| unusable(text.parse::<Subnet>().unwrap().0);
        for good in ["10.0.1.1/24", "192.168.0.0/31", "10.0.0.7/32", "fd00::7/64", "2001:db8::/127", "10.0.1.255/16"] {
            assert_eq!(unusable(good), None, "{good}");
        }
        for bad in [
            "10.0.1.0/24",
            "10.0.1.255/24",
            "127.0.0.1/8",
            "224.0.0.5/4",
            "0.0.0.1/8",
            "10.0.0.1/0",
            "fe80::1/64",
            "ff02::1/64",
            "::1/128",
            "fd00::/64",
            "::ffff:10.0.0.1/96",
            "255.255.255.255/32",
        ] {
            assert!(unusable(bad).is_some(), "{bad}");
        }
    }
}
