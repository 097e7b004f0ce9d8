//! `at` and `vrrp`: hosts that balance a service.

use datapath::{BALANCERS_MAX, ForwardingMethod, Service, VirtualAddress, VrrpSettings};
use machine::Span;
use topology::NodeId;
use vswitch::conntrack::NatRange;

use super::text::{ServiceText, VrrpText};
use crate::chains::Names;
use crate::error::Problems;
use crate::graph::Graph;
use crate::source::At;

/// From advertisement to advertisement if nothing is said, centiseconds: another balancer takes over in less than 200 ms.
const INTERVAL_CS: u16 = 5;
/// VRRP counts in these.
const CENTISECOND: Span = Span::from_ms(10);

/// Reads where a service is balanced, and how one of several is made the active one.
pub(super) fn balancers(
    graph: &Graph,
    others: &[Service],
    (text, forwarding, addresses, sources): (&ServiceText, ForwardingMethod, &[VirtualAddress], &[NatRange]),
    problems: &mut Problems<'_>,
) -> (Vec<NodeId>, Option<VrrpSettings>) {
    let at = text.at.as_ref().map_or_else(Vec::new, |at| hosts(graph, at, problems));
    check_sharing(others, (text, addresses, sources, &at), problems);
    if let (Some(given), Some(vrrp)) = (&text.vrrp, text.vrrp.as_ref().and_then(|vrrp| settings(graph, vrrp, problems)))
    {
        if text.at.is_none() {
            let message = "it is not said which balancers take part";
            problems.add(given.place, message, "needs `at`", "add `at: [HOST, HOST]`, or take `vrrp` away");
        }
        let taken = |other: &&Service| other.vrrp.as_ref().is_some_and(|known| known.router == vrrp.router);
        if let Some(other) = others.iter().find(taken) {
            let message = format!("`{}` is virtual router {} already", other.name, vrrp.router);
            problems.add(given.value.router.place, message, "there already", "give each service a number of its own");
        }
        if let ([only], []) = (&at[..], &vrrp.partners[..]) {
            let name = &graph.topology.nodes[*only].name;
            let message = format!("`{name}` is the only balancer: nobody could take its place");
            let hint =
                "name another host in `at`, or in `partners` one whose own program takes part; or take `vrrp` away";
            problems.add(given.place, message, "needs two", hint);
        }
        check(text, (forwarding, sources, &at), problems);
        return (at, Some(vrrp));
    }
    check(text, (forwarding, sources, &at), problems);
    (at, None)
}

/// Packets are known by addresses: services that share one are balanced at the same hosts.
fn check_sharing(
    others: &[Service],
    (text, addresses, sources, at): (&ServiceText, &[VirtualAddress], &[NatRange], &[NodeId]),
    problems: &mut Problems<'_>,
) {
    let shares = |other: &&Service| {
        let has_address = |own: &VirtualAddress| {
            other.addresses.iter().any(|it| (it.is_ipv6, it.address) == (own.is_ipv6, own.address))
        };
        let overlaps = |own: &NatRange| {
            let is_apart = |it: &NatRange| it.addresses.1 < own.addresses.0 || own.addresses.1 < it.addresses.0;
            other.sources.iter().any(|it| it.is_ipv6 == own.is_ipv6 && !is_apart(it))
        };
        addresses.iter().any(has_address) || sources.iter().any(overlaps)
    };
    if let Some(other) = others.iter().find(|other| other.at != at && shares(other)) {
        let place = text.at.as_ref().map_or(text.address.place, |at| at.place);
        let message = format!("`{}` has an address of it, and is balanced elsewhere", other.name);
        problems.add(place, message, "elsewhere", "give both the same `at`, or addresses of their own");
    }
}

/// What balancers at hosts need.
fn check(
    text: &ServiceText,
    (forwarding, sources, at): (ForwardingMethod, &[NatRange], &[NodeId]),
    problems: &mut Problems<'_>,
) {
    let Some(given) = &text.at else { return };
    if forwarding != ForwardingMethod::FullNat {
        let message =
            format!("with `forward: {}` what servers answer does not come back to a balancer", forwarding.name());
        problems.add(given.place, message, "needs full NAT", "write `forward: full-nat`, or take `at` away");
    }
    let ports = |range: &NatRange| range.ports.map_or(u32::MAX, |(first, last)| u32::from(last - first) + 1);
    if sources.iter().map(ports).min().is_some_and(|ports| (ports as usize) < at.len()) {
        let message = format!("{} balancers cannot share so few ports", at.len());
        problems.add(given.place, message, "too many", "give `source` more ports: each balancer has a part of them");
    }
}

fn hosts(graph: &Graph, names: &At<Names>, problems: &mut Problems<'_>) -> Vec<NodeId> {
    let mut hosts: Vec<NodeId> = Vec::new();
    for name in &names.value.0 {
        let Some(host) = graph.end_host(name, problems) else { continue };
        if hosts.contains(&host) {
            problems.add(name.place, format!("`{}` is there twice", name.value.0), "there already", "keep one of them");
            continue;
        }
        let node = &graph.topology.nodes[host];
        if node.ports.len() != 1 {
            let message = format!("`{}` has {} links, and a balancer is behind one", name.value.0, node.ports.len());
            problems.add(name.place, message, "several links", "take a host with one link");
            continue;
        }
        hosts.push(host);
    }
    if hosts.len() > BALANCERS_MAX {
        let message = format!("{} balancers are more than {BALANCERS_MAX}", hosts.len());
        problems.add(names.place, message, "too many", "take fewer");
    }
    hosts
}

fn settings(graph: &Graph, At { value: text, .. }: &At<VrrpText>, problems: &mut Problems<'_>) -> Option<VrrpSettings> {
    let interval_cs = match &text.interval {
        None => INTERVAL_CS,
        Some(At { value: interval, place, .. }) => {
            let count = interval.0.as_ps() / CENTISECOND.as_ps();
            if CENTISECOND * count != interval.0 {
                let message = format!("{} is no number of centiseconds, in which VRRP counts", interval.0);
                problems.add(*place, message, "in between", "write a multiple of 10ms, like `50ms`");
                return None;
            }
            count as u16
        }
    };
    let names = text.partners.iter().flat_map(|names| &names.value.0);
    let partners = names.filter_map(|name| graph.end_host(name, problems)).collect();
    Some(VrrpSettings { router: text.router.value.get() as u8, interval_cs, partners })
}
