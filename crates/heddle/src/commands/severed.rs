//! Which links that are down keep hosts apart: said where a measurement has found that they do not reach each other.

use std::collections::BTreeSet;

use live::control::LinkCounters;
use topology::{LinkId, NodeId, Rerouting, TiVec, Topology};

/// So many links are named, one by one.
const NAMED: usize = 3;

/// Why hosts do not reach each other, as far as links that are down are the reason, a line a link; nothing if they are not. `links`: those of the topology, in its order.
pub fn reasons(topology: &Topology, rerouting: Rerouting, links: &[LinkCounters], hosts: &[NodeId]) -> Vec<String> {
    let down: BTreeSet<LinkId> =
        topology.links.keys().zip(links).filter(|(_, link)| !link.up).map(|(id, _)| id).collect();
    if down.is_empty() {
        return Vec::new();
    }
    let reached = |host: &NodeId| topology.reached_by_routers(*host, |link| !down.contains(&link));
    let parts: Vec<TiVec<NodeId, bool>> = hosts.iter().map(reached).collect();
    let are_together = parts.iter().all(|part| hosts.iter().all(|host| part[*host]));
    let is_between = |link: &LinkId| {
        let ends = &topology.links[*link];
        parts.iter().any(|part| part[ends.a.node] != part[ends.b.node])
    };
    // Where routes do not lead around what is down, any link may be on the way.
    let is_reason = |link: &LinkId| match rerouting {
        Rerouting::Fixed if are_together => true,
        _ => !are_together && is_between(link),
    };
    let found: Vec<LinkId> = down.iter().copied().filter(is_reason).collect();
    let mut lines: Vec<String> = found.iter().take(NAMED).map(|link| line(topology, *link, links)).collect();
    if found.len() > NAMED {
        lines.push(format!("so are {} more (hint: heddle show links)", found.len() - NAMED));
    }
    lines
}

fn line(topology: &Topology, link: LinkId, links: &[LinkCounters]) -> String {
    let name = topology.numbered_link_name(link);
    if links[usize::from(link)].pulled {
        format!("the link {name} is down (hint: heddle link up {name})")
    } else {
        format!("the link {name} has no carrier at its device")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four hosts at two switches, between which are two links; these links are down.
    fn said(down: &[usize], hosts: &[u32], rerouting: Rerouting) -> Vec<String> {
        let nodes = "nodes: { h1: host, h2: host, h3: host, h4: host, s1: switch, s2: switch }\n";
        let ends = [["h1", "s1"], ["h2", "s1"], ["h3", "s2"], ["h4", "s2"], ["s1", "s2"], ["s1", "s2"]];
        let links = ends.map(|[a, b]| format!("{{ between: [{a}, {b}] }}")).join(", ");
        let text = format!("{nodes}links: [{links}]\n");
        let fabric = fabric::parse(&fabric::Source { name: "net".to_owned(), text }).expect("a file");
        let is_up = |at: usize| !down.contains(&at);
        let counters: Vec<LinkCounters> = (0..ends.len())
            .map(|at| LinkCounters { up: is_up(at), pulled: !is_up(at), ..Default::default() })
            .collect();
        let hosts: Vec<NodeId> = hosts.iter().map(|at| NodeId(*at)).collect();
        reasons(&fabric.topology, rerouting, &counters, &hosts)
    }

    #[test]
    fn links_that_keep_hosts_apart_are_named() {
        let follow = Rerouting::Follow;
        assert_eq!(said(&[0], &[0, 1], follow), ["the link h1-s1 is down (hint: heddle link up h1-s1)"]);
        // Both ends may be cut off.
        assert_eq!(said(&[0, 1], &[0, 1], follow).len(), 2);
        let between = ["s1-s2:1", "s1-s2:2"].map(|it| format!("the link {it} is down (hint: heddle link up {it})"));
        assert_eq!(said(&[4, 5], &[0, 2], follow), between);
        // All of a network's hosts.
        assert_eq!(said(&[0, 1, 2, 3], &[0, 1, 2, 3], follow)[3], "so are 1 more (hint: heddle show links)");
    }

    #[test]
    fn links_that_are_not_needed_are_not_named() {
        let none = Vec::<String>::new();
        assert_eq!(said(&[], &[0, 1], Rerouting::Fixed), none);
        assert_eq!(said(&[2, 4], &[0, 1], Rerouting::Follow), none);
        assert_eq!(said(&[4], &[0, 2], Rerouting::Follow), none);
        assert_eq!(said(&[4], &[0, 2], Rerouting::Fixed).len(), 1);
    }
}
