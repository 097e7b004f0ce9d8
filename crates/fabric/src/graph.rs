//! The network while a file is being checked.

use std::net::{Ipv4Addr, Ipv6Addr};

use topology::{BondEndId, HostAddress, NodeId, TiVec, Topology};

use crate::Bond;
use crate::error::Problems;
use crate::names::nearest;
use crate::read::Name;
use crate::source::At;

/// The hosts' IPv4 network.
pub(crate) const IPV4: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 0, 0, 0), 8);
/// The hosts' IPv6 network: unique local (RFC 4193), its global identifier is "heddl".
pub(crate) const IPV6: (Ipv6Addr, u8) = (Ipv6Addr::new(0xfd68, 0x6564, 0x646c, 0, 0, 0, 0, 0), 64);

/// A topology, and what its bonds are made of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub topology: Topology,
    /// What is at each end of [`Topology::bonds`].
    pub bonds: TiVec<BondEndId, Bond>,
}

/// Adds a host whose addresses follow from `position`, three bytes that no other host of the fabric has.
pub(crate) fn host(topology: &mut Topology, name: String, position: [u8; 3], pod: Option<u32>) -> NodeId {
    topology.add_host(name, address(position, pod))
}

impl Graph {
    /// A host that talks to others: no function's port. Notes it if it is none.
    pub fn end_host(&self, name: &At<Name>, problems: &mut Problems<'_>) -> Option<NodeId> {
        let topology = &self.topology;
        let found = topology.node(&name.value.0);
        let found = found.filter(|node| topology.is_host(*node) && !topology.is_function_port(*node));
        if found.is_none() {
            let hint = problems.hint(|| self.host_hint(&name.value.0));
            problems.add(name.place, format!("`{}` is not a host of this network", name.value.0), "not a host", hint);
        }
        found
    }

    /// The hint for a host that doesn't exist.
    pub fn host_hint(&self, name: &str) -> String {
        host_hint(&self.topology, name)
    }
}

/// The hint for a host that doesn't exist in a network.
pub fn host_hint(topology: &Topology, name: &str) -> String {
    let names = || topology.end_hosts().map(|(_, node)| node.name.as_str());
    if let Some(near) = nearest(name, names()) {
        return format!("did you mean `{near}`?");
    }
    match (names().next(), names().next_back()) {
        (Some(first), Some(last)) if first == last => format!("the only host is `{first}`"),
        (Some(first), Some(last)) if are_counted(names()) => format!("the hosts are `{first}` to `{last}`"),
        (Some(_), Some(_)) => {
            let shown: Vec<String> = names().take(HOSTS_SHOWN).map(|name| format!("`{name}`")).collect();
            let dots = if names().nth(HOSTS_SHOWN).is_some() { ", ..." } else { "" };
            format!("the hosts are {}{dots}", shown.join(", "))
        }
        _ => "there are no hosts".to_owned(),
    }
}

/// Hosts that a hint lists.
const HOSTS_SHOWN: usize = 12;

/// Whether names are one word with numbers behind it, one after the other: `h1`, `h2`, `h3`.
fn are_counted<'a>(names: impl Iterator<Item = &'a str>) -> bool {
    let parts = |name: &'a str| {
        let word = name.trim_end_matches(|c: char| c.is_ascii_digit());
        Some((word, name[word.len()..].parse::<u64>().ok()?))
    };
    let mut before = None;
    for name in names {
        let Some((word, number)) = parts(name) else { return false };
        if before.is_some_and(|(other, last): (&str, u64)| other != word || number != last.wrapping_add(1)) {
            return false;
        }
        before = Some((word, number));
    }
    true
}

/// Addresses in the networks above that end in `position`; the MAC address is a locally administered one.
pub(crate) fn address(position: [u8; 3], pod: Option<u32>) -> HostAddress {
    let [x, y, z] = position;
    let mut ipv6 = IPV6.0.segments();
    ipv6[5..].copy_from_slice(&[x.into(), y.into(), z.into()]);
    HostAddress {
        mac: [0x02, 0, 10, x, y, z],
        ipv4: Ipv4Addr::new(10, x, y, z),
        ipv4_prefix: IPV4.1,
        ipv6: ipv6.into(),
        ipv6_prefix: IPV6.1,
        pod,
    }
}
