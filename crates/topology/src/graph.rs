//! The graph as plain data.

use std::net::{Ipv4Addr, Ipv6Addr};

use link::LinkSpec;
use serde::Serialize;

use crate::{BondEndId, LinkId, NodeId, PortId, TiVec};

/// Nodes, links, and the links that are bonded. What it says is consistent: ports and links name each other, both ends of a bond have as
/// many ports, and member i of one end shares a link with member i of the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Topology {
    /// Hosts first, then switches.
    pub nodes: TiVec<NodeId, Node>,
    /// How many of `nodes` are hosts.
    pub hosts: u32,
    /// How many of the hosts, the last ones, are ports of functions of service chains: the ingress and the egress of each, one after the other.
    #[serde(skip_serializing_if = "is_zero")]
    pub function_ports: u32,
    /// Of each further interface of a host, that host: interfaces are hosts of their own here, before the ports of functions and behind all others, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<NodeId>,
    /// The links of bonds' further members come last.
    pub links: TiVec<LinkId, Link>,
    /// Both ends of each bond, one after the other.
    #[serde(skip)]
    pub bonds: TiVec<BondEndId, BondEnd>,
}

/// A host or a switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Unique in the fabric; letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// Where each port leads: `ports[p]` is the link at port `p`, and which of its two ends this is.
    pub ports: TiVec<PortId, (LinkId, Side)>,
    /// Of a host with several ports: whether what comes to it for others goes on along the routes. A switch does so always.
    #[serde(skip_serializing_if = "is_no")]
    pub forwards: bool,
    /// Of a host that Heddle doesn't make: the network devices behind which it is, one a port; null devices ([`crate::NullDevice`]) or captures ([`crate::PcapDevice`]). Empty: it is made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Where to draw it: `x` in `0.0..=1.0` from left to right. For pictures only.
    #[serde(skip)]
    pub x_permille: u16,
}

/// What a node is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// An end system: with one port, with several that are one bond, or with several that lead to different places.
    Host(HostAddress),
    /// A switch. `tier` counts from the hosts: 1 edge (leaf), 2 aggregation (spine), 3 core. 0 in explicit topologies.
    Switch {
        /// The tier that it belongs to.
        tier: u8,
        /// The pod it belongs to, where the topology has pods.
        pod: Option<u32>,
    },
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_no(flag: &bool) -> bool {
    !*flag
}

/// A host's addresses, derived from its position or set in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostAddress {
    /// IEEE 802 MAC address.
    pub mac: [u8; 6],
    /// IPv4 address, in a subnet of `ipv4_prefix` bits.
    pub ipv4: Ipv4Addr,
    /// Prefix length of its IPv4 subnet, that of the fabric when the file gives no other.
    pub ipv4_prefix: u8,
    /// IPv6 address, in a subnet of `ipv6_prefix` bits.
    pub ipv6: Ipv6Addr,
    /// Prefix length of its IPv6 subnet, that of the fabric when the file gives no other.
    pub ipv6_prefix: u8,
    /// The pod it belongs to, where the topology has pods.
    pub pod: Option<u32>,
}

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The end named first.
    A,
    /// The end named second.
    B,
}

impl Side {
    /// The other end.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// Where a link's end is plugged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LinkEnd {
    /// The node that the port belongs to.
    pub node: NodeId,
    /// The port of that node.
    pub port: PortId,
}

/// A full-duplex link between two nodes. Both directions have the same properties, unless something is said of the way back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// The end named first.
    pub a: LinkEnd,
    /// The end named second.
    pub b: LinkEnd,
    /// Rate, delay, queue: from a to b, and back, if nothing else is said of that.
    pub spec: LinkSpec,
    /// The same of the direction from b to a, where it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back: Option<LinkSpec>,
}

impl Link {
    /// The end on `side`.
    pub const fn end(&self, side: Side) -> LinkEnd {
        match side {
            Side::A => self.a,
            Side::B => self.b,
        }
    }

    /// What it does to packets that leave from this side.
    pub fn spec_from(&self, side: Side) -> LinkSpec {
        match side {
            Side::A => self.spec,
            Side::B => self.back.unwrap_or(self.spec),
        }
    }

    /// What it does: in one item, or in each direction by itself.
    pub fn specs(&self) -> impl Iterator<Item = &LinkSpec> {
        std::iter::once(&self.spec).chain(&self.back)
    }

    /// The same, to be changed.
    pub fn specs_mut(&mut self) -> impl Iterator<Item = &mut LinkSpec> {
        std::iter::once(&mut self.spec).chain(&mut self.back)
    }
}

/// One end of a bond: ports of a node that are used as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BondEnd {
    /// The node at this end.
    pub node: NodeId,
    /// Unique at its node.
    pub name: String,
    /// The members' ports at this node, ascending. Next-hop sets name the first one only.
    pub ports: Vec<PortId>,
    /// The other end.
    pub partner: BondEndId,
}

impl BondEnd {
    /// How many links it has.
    pub fn members(&self) -> usize {
        self.ports.len()
    }
}
