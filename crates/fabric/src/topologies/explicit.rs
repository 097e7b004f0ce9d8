//! A network spelled out: `nodes:` and `links:`.

use std::collections::BTreeMap;

use topology::{Node, NodeId, TiVec, Topology};

use crate::bonds::{BondText, names_host};
use crate::document::{NodeLong, NodeText, NodeWord};
use crate::error::Problems;
use crate::graph;
use crate::interfaces;
use crate::links::{LinkEntry, LinkText, merged, merged_back, note_idle, note_no_card};
use crate::names::{canonical, nearest, reaches};
use crate::read::{Mapping, Name};
use crate::source::{At, Place};

/// The most switches that are spelled out, and hosts with several links: routes take the square of it.
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
    let (mut ids, mut routers) = (BTreeMap::new(), Vec::new());
    let (hosts, switches): (Vec<_>, Vec<_>) =
        nodes.value.0.iter().partition(|(_, text)| text.value.kind() != NodeWord::Switch);
    if !fits(nodes.place, hosts.len(), switches.len(), problems) {
        return None;
    }
    check_names(&nodes.value, &hosts, problems);
    for (i, (name, text)) in hosts.iter().enumerate() {
        let host = graph::host(&mut topology, name.value.0.clone(), position(i), None);
        topology.nodes[host].forwards = matches!(&text.value, NodeText::Long(long) if long.does_forward());
        if let NodeText::Long(long) = &text.value
            && long.interfaces.is_some()
        {
            routers.push(host);
        }
        ids.insert(name.value.0.as_str(), host);
    }
    for (name, text) in &switches {
        let tier = switch_tier(&text.value, problems);
        ids.insert(name.value.0.as_str(), topology.add_switch(name.value.0.clone(), tier, None));
    }
    let mut whole = true;
    for link in links {
        let ends = ends(&link.value, &ids, &topology, problems);
        let spec = merged(&link.value.own, defaults.map(|d| &d.value));
        note_idle(&link.value.own, spec, link.sound && defaults.is_none_or(|defaults| defaults.sound), problems);
        if ends.is_some_and(|(a, b)| !topology.is_host(a) && !topology.is_host(b)) {
            note_no_card(&link.value.own, problems);
        }
        let back = link.value.back.as_ref().map(|text| {
            let back = merged_back(&link.value.own, &text.value, defaults.map(|d| &d.value));
            note_idle(&text.value, back, text.sound && link.sound, problems);
            if ends.is_some_and(|(a, _)| !topology.is_host(a)) {
                note_no_card(&text.value, problems);
            }
            back
        });
        match ends {
            Some((a, b)) => {
                let id = topology.connect(a, b, spec);
                topology.links[id].back = back.filter(|back| *back != spec);
            }
            None => whole = false,
        }
    }
    let whole = whole && check_hosts(&topology, &hosts, bonds, problems);
    // What is behind a host with several interfaces is reached, if its programs or its kernel pass on what comes for others.
    for host in &routers {
        topology.nodes[*host].forwards = true;
    }
    let whole = whole && check_connected(&topology, nodes, problems);
    for host in &routers {
        topology.nodes[*host].forwards = false;
    }
    topology.arrange();
    whole.then_some(topology)
}

/// Each name means one node, whoever looks it up.
fn check_names(nodes: &Mapping<Name, NodeText>, hosts: &[&(At<Name>, At<NodeText>)], problems: &mut Problems<'_>) {
    for (name, _) in hosts {
        let Name(text) = &name.value;
        if let Some(whom) = reaches(text) {
            problems.add(
                name.place,
                format!("no host can be called `{text}`: programs reach {whom} by that"),
                "reaches somebody else",
                "give it another name, with a letter first: `h1`",
            );
        }
    }
    let mut known: BTreeMap<String, &str> = BTreeMap::new();
    for (name, _) in &nodes.0 {
        let Name(text) = &name.value;
        if let Some(other) = known.insert(canonical(text), text) {
            problems.add(
                name.place,
                format!("`{text}` and `{other}` are one name: who looks for a host does not care for case, nor for a dot at the end"),
                "there already",
                "give it another name",
            );
        }
    }
}

/// Host i (from 0) has the address 10.0.0.(i + 1), carried on at 254 so that no address ends in 0 or 255.
pub(crate) fn position(i: usize) -> [u8; 3] {
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

/// A switch has no addresses, and forwards always; only it has a tier. (What a host has is read in `hosts`.)
fn switch_tier(text: &NodeText, problems: &mut Problems<'_>) -> u8 {
    let NodeText::Long(long) = text else { return 0 };
    let places =
        [long.mac.as_ref().map(|m| m.place), long.ipv4.as_ref().map(|a| a.place), long.ipv6.as_ref().map(|a| a.place)];
    for place in places.into_iter().flatten() {
        problems.add(place, "a switch has no addresses", "only for hosts", "remove it");
    }
    if let Some(forward) = &long.forward {
        problems.add(forward.place, "a switch forwards always", "only for hosts", "remove it");
    }
    if let Some(interfaces) = &long.interfaces {
        let hint = "write what its ports do under `switches:`, or remove it";
        problems.add(interfaces.place, "a switch has ports, and no interfaces", "only for hosts", hint);
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

/// Every host has links: one, several to one node in a bond, or several that are no bond; and no tier.
fn check_hosts(
    topology: &Topology,
    hosts: &[&(At<Name>, At<NodeText>)],
    bonds: Option<&At<Vec<At<BondText>>>>,
    problems: &mut Problems<'_>,
) -> bool {
    // A bond that can't be read may be this host's.
    let is_bonded = |host: &str| bonds.is_some_and(|bonds| !bonds.sound || names_host(&bonds.value, host));
    let before = problems.noted();
    let mut multi_homed = 0;
    for ((name, text), (id, node)) in hosts.iter().zip(topology.nodes.iter_enumerated()) {
        let (links, is_bonded) = (node.ports.len(), is_bonded(&node.name));
        let has_interfaces = matches!(&text.value, NodeText::Long(long) if long.interfaces.is_some());
        let is_multi_homed = links > 1 && !is_bonded && !has_interfaces;
        multi_homed += usize::from(is_multi_homed);
        if multi_homed + topology.switch_count() == MOST_SWITCHES + 1 {
            problems.add(
                name.place,
                format!("hosts with several links, and switches, are more than {MOST_SWITCHES}"),
                "one too many",
                "bond the links, or give hosts one each",
            );
            return false;
        }
        if links == 0 {
            let hint = format!("add a link: `- between: [{}, s1]`", node.name);
            problems.add(name.place, format!("host `{}` has no link", node.name), "not linked", hint);
        } else if is_bonded && !has_one_peer(topology, node) {
            problems.add(
                name.place,
                format!("host `{}` has a bond, and links to other nodes", node.name),
                format!("has {links} links"),
                "a host has one link, one bond, or several links that are no bond: put a switch between, or remove the bond",
            );
        }
        if is_multi_homed && text.value.kind() == NodeWord::Vm {
            problems.add(
                name.place,
                format!("`{}` is a virtual machine, and has {links} links that are no bond", node.name),
                "needs a bond",
                format!("make them one: `bonds: [{{ host: {}, mode: balance-rr }}]`", node.name),
            );
        }
        if let NodeText::Long(long) = &text.value {
            check_host(node, long, is_multi_homed, problems);
            interfaces::check_host(topology, id, (&**long, is_bonded), problems);
        }
    }
    problems.noted() == before
}

/// What a host says of itself fits its links.
fn check_host(node: &Node, text: &NodeLong, is_multi_homed: bool, problems: &mut Problems<'_>) {
    let name = &node.name;
    if let Some(tier) = &text.tier {
        problems.add(tier.place, "a host has no tier", "only for switches", "remove it");
    }
    if let Some(forward) = text.forward.as_ref().filter(|_| text.does_forward() && !is_multi_homed && !text.is_router())
    {
        problems.add(
            forward.place,
            format!("`{name}` has one link, or one bond, and is in one subnet: there is nothing to forward"),
            "only with several links that are no bond, or several subnets",
            "remove it, or link the host to another node, or give it `addresses` of other subnets",
        );
    }
    if let Some(devices) = text.devices.as_ref().filter(|_| is_multi_homed) {
        problems.add(
            devices.place,
            format!("`{name}` is behind devices, and has {} links that are no bond", node.ports.len()),
            "needs a bond",
            format!(
                "make them one: `bonds: [{{ host: {name}, mode: balance-rr }}]`; or make a host of each device, with an address of its own"
            ),
        );
    }
}

fn has_one_peer(topology: &Topology, node: &Node) -> bool {
    let mut peers = node.ports.iter().map(|(link, side)| topology.links[*link].end(side.other()).node);
    let first = peers.next();
    peers.all(|peer| Some(peer) == first)
}

/// The most parts of a network that no node joins which forwards, as two planes are that have the same hosts.
const MOST_PARTS: u32 = 128;

/// Every host reaches every other, and every switch some host.
fn check_connected(topology: &Topology, nodes: &At<Mapping<Name, NodeText>>, problems: &mut Problems<'_>) -> bool {
    let Some((from, lost)) = unconnected(topology) else { return true };
    let reached = topology.reached(from, |_| true);
    let is_at_both = |host: &NodeId| reached[*host] && topology.peers(*host).any(|peer| !reached[peer]);
    let between = topology.multi_homed().find(is_at_both).map(|host| topology.nodes[host].name.as_str());
    let (lost, first) = (&topology.nodes[lost].name, &topology.nodes[from].name);
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
        match between {
            Some(host) => {
                format!("`{host}` is linked to both parts: let it forward, `{host}: {{ kind: host, forward: true }}`")
            }
            None => format!("add a link between the part of `{lost}` and the rest"),
        },
    );
    false
}

/// A host, and a node that it does not reach though it should.
fn unconnected(topology: &Topology) -> Option<(NodeId, NodeId)> {
    // By node: the parts that it is in, a bit each; one that forwards is in one.
    let mut parts: TiVec<NodeId, u128> = vec![0; topology.nodes.len()].into();
    let mut found = 0;
    for root in topology.nodes.keys().filter(|node| topology.forwards(*node)) {
        if parts[root] != 0 {
            continue;
        }
        let reached = topology.reached(root, |_| true);
        if found == MOST_PARTS || !topology.hosts().any(|(host, _)| reached[host]) {
            return Some((NodeId(0), root));
        }
        for (node, _) in reached.iter_enumerated().filter(|(_, reached)| **reached) {
            parts[node] |= 1 << found;
        }
        found += 1;
    }
    let hosts = || topology.hosts().map(|(host, _)| host);
    if hosts().fold(u128::MAX, |common, host| common & parts[host]) != 0 {
        return None;
    }
    let are_apart = |a: NodeId, b: NodeId| parts[a] & parts[b] == 0 && !topology.peers(a).any(|peer| peer == b);
    hosts().find_map(|a| hosts().skip(usize::from(a) + 1).find(|b| are_apart(a, *b)).map(|b| (a, b)))
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
