//! A network spelled out: `nodes:` and `links:`.

use std::collections::BTreeMap;

use topology::{Node, NodeId, Topology};

use crate::bonds::{BondText, names_host};
use crate::document::{NodeText, NodeWord};
use crate::error::Problems;
use crate::graph;
use crate::links::{LinkEntry, LinkText, merged, note_idle};
use crate::names::nearest;
use crate::read::{Mapping, Name};
use crate::source::{At, Place};

/// The most switches that are spelled out: routes take the square of it.
const MOST_SWITCHES: usize = 8_000;
/// The most ports of one node.
const MOST_PORTS: usize = 4_096;

/// Lays out what the file spells out. `None` when a link leads nowhere; all problems are noted.
pub(crate) fn explicit(
    nodes: &At<Mapping<Name, NodeText>>,
    links: &[At<LinkEntry>],
    defaults: Option<&At<LinkText>>,
    bonds: Option<&At<Vec<At<BondText>>>>,
    problems: &mut Problems<'_>,
) -> Option<Topology> {
    let mut topology = Topology::default();
    let mut ids = BTreeMap::new();
    let kind = |text: &NodeText| match text {
        NodeText::Short(kind) => kind.value,
        NodeText::Long(long) => long.kind.value,
    };
    let (hosts, switches): (Vec<_>, Vec<_>) =
        nodes.value.0.iter().partition(|(_, text)| kind(&text.value) == NodeWord::Host);
    if !fits(nodes.place, hosts.len(), switches.len(), problems) {
        return None;
    }
    for (i, (name, _)) in hosts.iter().enumerate() {
        ids.insert(name.value.0.as_str(), graph::host(&mut topology, name.value.0.clone(), position(i), None));
    }
    for (name, text) in &switches {
        let tier = switch_tier(&text.value, problems);
        ids.insert(name.value.0.as_str(), topology.add_switch(name.value.0.clone(), tier, None));
    }
    let mut whole = true;
    for link in links {
        let ends = ends(&link.value, &ids, &topology, problems);
        let spec = merged(&link.value.own, defaults.map(|d| &d.value));
        note_idle(&link.value.own, spec, problems);
        match ends {
            Some((a, b)) => _ = topology.connect(a, b, spec),
            None => whole = false,
        }
    }
    let whole = whole && check_hosts(&topology, &hosts, bonds, problems);
    let whole = whole && check_connected(&topology, nodes, problems);
    topology.arrange();
    whole.then_some(topology)
}

/// Host i (from 0) has the address 10.0.0.(i + 1), carried on at 254 so that no address ends in 0 or 255.
fn position(i: usize) -> [u8; 3] {
    let (rest, last) = (i / 254, i % 254 + 1);
    [(rest / 256) as u8, (rest % 256) as u8, last as u8]
}

fn fits(place: Place, hosts: usize, switches: usize, problems: &mut Problems<'_>) -> bool {
    if hosts == 0 {
        problems.add(place, "there is no host", "only switches", "add a host: `h1: host`");
    }
    if switches > MOST_SWITCHES {
        problems.add(
            place,
            format!("{switches} switches are more than {MOST_SWITCHES}"),
            "too many",
            "describe a large network with `topology:`",
        );
    }
    hosts > 0 && switches <= MOST_SWITCHES
}

/// A switch has no addresses, and only it has a tier. (What a host has is read in `hosts`.)
fn switch_tier(text: &NodeText, problems: &mut Problems<'_>) -> u8 {
    let NodeText::Long(long) = text else { return 0 };
    let places =
        [long.mac.as_ref().map(|m| m.place), long.ipv4.as_ref().map(|a| a.place), long.ipv6.as_ref().map(|a| a.place)];
    for place in places.into_iter().flatten() {
        problems.add(place, "a switch has no addresses", "only for hosts", "remove it");
    }
    long.tier.as_ref().map_or(0, |tier| tier.value.0 as u8)
}

fn ends(
    link: &LinkEntry,
    ids: &BTreeMap<&str, NodeId>,
    topology: &Topology,
    problems: &mut Problems<'_>,
) -> Option<(NodeId, NodeId)> {
    let mut find = |name: &At<Name>| {
        let found = ids.get(name.value.0.as_str()).copied();
        if found.is_none() {
            let known = topology.nodes.iter().map(|node| node.name.as_str());
            let hint = problems.hint(|| match nearest(&name.value.0, known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("add it under `nodes:`, as `{0}: host` or `{0}: switch`", name.value.0),
            });
            problems.add(name.place, format!("there is no node `{}`", name.value.0), "unknown node", hint);
        }
        found
    };
    let (a, b) = (find(&link.between.value.0), find(&link.between.value.1));
    let (a, b) = (a?, b?);
    if a == b {
        let name = &link.between.value.1;
        problems.add(
            name.place,
            format!("`{}` is linked to itself", name.value.0),
            "the same node",
            "a link joins two nodes",
        );
        return None;
    }
    for (id, name) in [(a, &link.between.value.0), (b, &link.between.value.1)] {
        if topology.nodes[id].ports.len() >= MOST_PORTS {
            problems.add(
                name.place,
                format!("`{}` has more than {MOST_PORTS} links", name.value.0),
                "too many",
                "spread them",
            );
            return None;
        }
    }
    Some((a, b))
}

/// Every host has one link, or several to one node in a bond; and no tier.
fn check_hosts(
    topology: &Topology,
    hosts: &[&(At<Name>, At<NodeText>)],
    bonds: Option<&At<Vec<At<BondText>>>>,
    problems: &mut Problems<'_>,
) -> bool {
    // A bond that can't be read may be this host's.
    let is_bonded = |host: &str| bonds.is_some_and(|bonds| !bonds.sound || names_host(&bonds.value, host));
    let mut whole = true;
    for ((name, text), node) in hosts.iter().zip(&topology.nodes) {
        if let NodeText::Long(long) = &text.value
            && let Some(tier) = &long.tier
        {
            problems.add(tier.place, "a host has no tier", "only for switches", "remove it");
        }
        let hint = match node.ports.len() {
            1 => continue,
            0 => format!("add a link: `- between: [{}, s1]`", node.name),
            _ if !has_one_peer(topology, node) => {
                "a host has one link, or several to one node as a bond; put a switch between".to_owned()
            }
            _ if is_bonded(&node.name) => continue,
            _ => format!("make them one: `bonds: [{{ host: {}, mode: balance-rr }}]`", node.name),
        };
        let links = node.ports.len();
        problems.add(
            name.place,
            format!("host `{}` has {links} links, expected one", node.name),
            format!("has {links} links"),
            hint,
        );
        whole = false;
    }
    whole
}

fn has_one_peer(topology: &Topology, node: &Node) -> bool {
    let mut peers = node.ports.iter().map(|(link, side)| topology.links[*link].end(side.other()).node);
    let first = peers.next();
    peers.all(|peer| Some(peer) == first)
}

/// Every node can be reached from the first.
fn check_connected(topology: &Topology, nodes: &At<Mapping<Name, NodeText>>, problems: &mut Problems<'_>) -> bool {
    let reached = topology.reached(NodeId(0), |_| true);
    let Some(lost) = reached.position(|reached| !reached) else { return true };
    let (lost, first) = (&topology.nodes[lost].name, &topology.nodes[NodeId(0)].name);
    let place =
        nodes.value.0.iter().find(|(name, _)| name.value.0 == *lost).map_or(nodes.place, |(name, _)| name.place);
    let count = reached.iter().filter(|reached| !**reached).count();
    problems.add(
        place,
        format!("the network falls apart: no way leads from `{first}` to `{lost}`"),
        if count == 1 {
            "can't be reached".to_owned()
        } else {
            format!("can't be reached, nor can {} more", count - 1)
        },
        format!("add a link between the part of `{lost}` and the rest"),
    );
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_unique_and_avoid_the_ends_of_a_byte() {
        let all: std::collections::BTreeSet<_> = (0..200_000).map(position).collect();
        assert_eq!(all.len(), 200_000);
        assert!(all.iter().all(|p| (1..=254).contains(&p[2])));
    }
}
