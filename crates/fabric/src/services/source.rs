//! `source`: the balancer's own addresses, from which servers see connections come with full NAT.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use datapath::{ForwardingMethod, Service, VirtualAddress};
use vswitch::conntrack::NatRange;

use super::text::ServiceText;
use crate::chains::nat_source;
use crate::error::Problems;
use crate::graph::Graph;
use crate::source::At;

/// Reads them: nobody else has any of them, but other services' balancers may.
pub(super) fn sources(
    graph: &Graph,
    others: &[Service],
    (text, forwarding, addresses): (&ServiceText, ForwardingMethod, &[VirtualAddress]),
    problems: &mut Problems<'_>,
) -> Vec<NatRange> {
    let Some(given) = &text.source else { return Vec::new() };
    if forwarding != ForwardingMethod::FullNat {
        let message = format!("with `forward: {}` servers see the clients' own addresses", forwarding.name());
        problems.add(given.place, message, "for full NAT", "write `forward: full-nat`, or take `source` away");
    }
    let mut read: Vec<NatRange> = Vec::new();
    for text in &given.value.0 {
        let Some(range) = nat_source(&graph.topology, text, problems) else { continue };
        if read.iter().any(|other| other.is_ipv6 == range.is_ipv6) {
            let message = "there are two ranges of one family";
            problems.add(text.place, message, "one too many", "write one range, as in `10.1.0.200-10.1.0.203`");
            continue;
        }
        if let Some((owner, address)) = owner(graph, others, &range) {
            let message = format!("{owner} has the address {address}");
            problems.add(text.place, message, "of somebody else", "take addresses of 10.0.0.0/8 that nobody has");
            continue;
        }
        check_family(addresses, text, &range, problems);
        read.push(range);
    }
    read
}

/// A range of a family that the service does not have would be for nothing.
fn check_family(
    addresses: &[VirtualAddress],
    text: &At<crate::read::Text>,
    range: &NatRange,
    problems: &mut Problems<'_>,
) {
    if !addresses.is_empty() && !addresses.iter().any(|address| address.is_ipv6 == range.is_ipv6) {
        let family = if range.is_ipv6 { "IPv6" } else { "IPv4" };
        let message = format!("the service has no {family} address, so no connection would come from there");
        let hint = format!("give it an {family} address, or take this away");
        problems.add(text.place, message, "of another family", hint);
    }
}

/// Who has an address of a range, and which.
fn owner(graph: &Graph, others: &[Service], range: &NatRange) -> Option<(String, IpAddr)> {
    let (first, last) = range.addresses;
    let is_in = |is_ipv6: bool, bits: u128| is_ipv6 == range.is_ipv6 && (first..=last).contains(&bits);
    let shown = |bits: u128| {
        if range.is_ipv6 { IpAddr::V6(Ipv6Addr::from_bits(bits)) } else { Ipv4Addr::from_bits(bits as u32).into() }
    };
    let host = graph.topology.hosts().find_map(|(host, node)| {
        let own = graph.topology.address(host)?;
        let bits = if range.is_ipv6 { own.ipv6.to_bits() } else { own.ipv4.to_bits().into() };
        is_in(range.is_ipv6, bits).then(|| (format!("`{}`", node.name), shown(bits)))
    });
    let service = || {
        others.iter().find_map(|other| {
            let at = other.addresses.iter().find(|at| is_in(at.is_ipv6, at.address))?;
            Some((format!("the service `{}`", other.name), shown(at.address)))
        })
    };
    host.or_else(service)
}
