//! Which links a bond has, and its place in the network.

use std::collections::{BTreeMap, BTreeSet};

use bond::config::Mode;
use topology::{BondEnd, BondEndId, Group, LinkId, NodeId, Topology};

use super::ends::{Pair, Settings, settings};
use super::text::{BondText, EndText};
use super::{MOST_BONDS, MOST_MEMBERS, targets};
use crate::Bond;
use crate::document::NamePair;
use crate::error::Problems;
use crate::graph::Graph;
use crate::names::nearest;
use crate::parallel::neighbours;
use crate::read::Name;
use crate::source::{At, Place};

/// The longest name of a bond: that of a network interface in Linux (IFNAMSIZ without its end).
const LONGEST_NAME: usize = 15;

/// Whether some bond names this node.
pub(crate) fn names_host(texts: &[At<BondText>], host: &str) -> bool {
    texts.iter().any(|text| {
        let which = &text.value.which;
        let ends = which.between.iter().flat_map(|ends| [&ends.value.0, &ends.value.1]);
        ends.chain(&which.host).any(|name| name.value.0 == host)
    })
}

/// Puts the bonds into the network. `None`: there is a problem, which has been noted. `varied` are the modes that
/// experiments give to all bonds.
pub(crate) fn bonds(
    texts: &At<Vec<At<BondText>>>,
    varied: &[Mode],
    graph: &mut Graph,
    problems: &mut Problems<'_>,
) -> Option<()> {
    let count = texts.value.len();
    if count > MOST_BONDS {
        problems.add(texts.place, format!("{count} bonds are more than {MOST_BONDS}"), "too many", "bond fewer links");
        return None;
    }
    let before = problems.noted();
    let mut found = Vec::with_capacity(count);
    {
        let network = Network::of(&graph.topology);
        let mut seen = BTreeSet::new();
        for text in &texts.value {
            let Some(bonded) = network.bonded(text, problems) else { continue };
            let [a, b] = bonded.nodes;
            if seen.insert((a.min(b), a.max(b))) {
                found.extend(network.settings(text, bonded, varied, problems));
            } else {
                let [a, b] = bonded.names;
                problems.add(
                    bonded.place,
                    format!("the links between `{a}` and `{b}` are in a bond already"),
                    "in two bonds",
                    "a link is in one bond only: remove one of the two",
                );
            }
        }
        check_names(&found, problems);
    }
    if problems.noted() > before || !texts.sound {
        return None;
    }
    place(found, graph);
    Some(())
}

/// A bond that was found in the network.
struct ResolvedBond<'a> {
    nodes: [NodeId; 2],
    node_names: [String; 2],
    names: [Option<&'a At<Name>>; 2],
    group: Group,
    settings: [Settings; 2],
}

/// The links of a bond.
struct Bonded<'a> {
    nodes: [NodeId; 2],
    names: [&'a str; 2],
    links: Vec<LinkId>,
    place: Place,
}

/// The network, for looking things up.
struct Network<'a> {
    topology: &'a Topology,
    ids: BTreeMap<&'a str, NodeId>,
    /// The links between two nodes, the one with the smaller id first.
    parallel: BTreeMap<(NodeId, NodeId), Vec<LinkId>>,
}

impl<'a> Network<'a> {
    fn of(topology: &'a Topology) -> Self {
        let ids = topology.nodes.iter_enumerated().map(|(id, node)| (node.name.as_str(), id)).collect();
        let mut parallel: BTreeMap<_, Vec<LinkId>> = BTreeMap::new();
        for (id, link) in topology.links.iter_enumerated() {
            let (a, b) = (link.a.node, link.b.node);
            parallel.entry((a.min(b), a.max(b))).or_default().push(id);
        }
        Self { topology, ids, parallel }
    }

    fn name(&self, node: NodeId) -> &'a str {
        &self.topology.nodes[node].name
    }

    fn find(&self, name: &At<Name>, problems: &mut Problems<'_>) -> Option<NodeId> {
        let found = self.ids.get(name.value.0.as_str()).copied();
        if found.is_none() {
            let hint = problems.hint(|| match nearest(&name.value.0, self.ids.keys().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "bonds are between nodes of this network".to_owned(),
            });
            problems.add(name.place, format!("there is no node `{}`", name.value.0), "unknown node", hint);
        }
        found
    }

    /// Which links a bond has. `None`: that is wrong, and has been noted.
    fn bonded(&self, text: &At<BondText>, problems: &mut Problems<'_>) -> Option<Bonded<'a>> {
        let which = &text.value.which;
        let (nodes, place) = match (&which.between, &which.host) {
            (Some(At { value: NamePair(a, b), place, .. }), None) => {
                let (a, b) = (self.find(a, problems), self.find(b, problems));
                ([a?, b?], *place)
            }
            (None, Some(host)) => ([self.find(host, problems)?, self.neighbour(host, problems)?], host.place),
            // Noted when it was read.
            _ => return None,
        };
        let names = nodes.map(|node| self.name(node));
        let [a, b] = nodes;
        let Some(links) = self.parallel.get(&(a.min(b), a.max(b))) else {
            let [a, b] = names;
            let message = if a == b {
                format!("`{a}` can't be bonded to itself")
            } else {
                format!("there is no link between `{a}` and `{b}`")
            };
            let hint = problems.hint(|| format!("`{a}` is linked to {}", neighbours(self.topology, nodes[0])));
            problems.add(place, message, "no link", hint);
            return None;
        };
        Some(Bonded { nodes, names, links: links.clone(), place })
    }

    /// What the host of `host:` is linked to.
    fn neighbour(&self, host: &At<Name>, problems: &mut Problems<'_>) -> Option<NodeId> {
        let id = *self.ids.get(host.value.0.as_str())?;
        if !self.topology.is_host(id) {
            problems.add(
                host.place,
                format!("`{}` is a switch; `host` names a host", host.value.0),
                "not a host",
                "write `between:` with the two nodes",
            );
            return None;
        }
        // All links of a host lead to one node: that was checked before.
        self.topology.peers(id).next()
    }

    /// Works out members and ends. `None`: there is a problem, which has been noted.
    fn settings<'t>(
        &self,
        text: &'t At<BondText>,
        bonded: Bonded<'_>,
        varied: &[Mode],
        problems: &mut Problems<'_>,
    ) -> Option<ResolvedBond<'t>> {
        let members = members(&text.value, &bonded, problems)?;
        let own = own_ends(&text.value, bonded.names, problems)?;
        let specs = (0..members).map(|member| bonded.links[member.min(bonded.links.len() - 1)]);
        let specs = specs.map(|link| self.topology.links[link].spec).collect();
        let pair = Pair { names: bonded.names, is_host: bonded.nodes.map(|node| self.topology.is_host(node)), specs };
        let settings = settings(text, own, &pair, varied, problems)?;
        let end = |side: usize| targets::ProbedEnd {
            name: bonded.names[side],
            address: self.topology.address(bonded.nodes[side]),
            settings: &settings[side],
            own: own[side],
        };
        targets::check(text, &[end(0), end(1)], problems)?;
        let shared = text.value.both.own.name.as_ref();
        Some(ResolvedBond {
            nodes: bonded.nodes,
            node_names: bonded.names.map(str::to_owned),
            names: own.map(|end| end.and_then(|end| end.value.own.name.as_ref()).or(shared)),
            group: Group { links: bonded.links, members },
            settings,
        })
    }
}

/// How many members a bond has.
fn members(text: &BondText, bonded: &Bonded<'_>, problems: &mut Problems<'_>) -> Option<usize> {
    let (there, [a, b]) = (bonded.links.len(), bonded.names);
    match &text.which.members {
        Some(members) if there > 1 && members.value.0 != there as u64 => {
            problems.add(
                members.place,
                format!("there are {there} links between `{a}` and `{b}`, not {}", members.value.0),
                "not as many",
                "leave out `members:` to bond those that are listed, or list one link and say how many it shall be",
            );
            None
        }
        Some(members) => Some(members.value.get() as usize),
        None if there as u64 > MOST_MEMBERS => {
            problems.add(
                bonded.place,
                format!("there are {there} links between `{a}` and `{b}`, more than {MOST_MEMBERS}"),
                "too many members",
                "remove some of the links",
            );
            None
        }
        None => Some(there),
    }
}

/// What `ends:` says for each of the two nodes.
fn own_ends<'a>(
    text: &'a BondText,
    names: [&str; 2],
    problems: &mut Problems<'_>,
) -> Option<[Option<&'a At<EndText>>; 2]> {
    let mut own = [None; 2];
    let mut whole = true;
    for (name, end) in text.which.ends.iter().flat_map(|ends| &ends.0) {
        if let Some(side) = names.iter().position(|node| *node == name.value.0) {
            own[side] = Some(end);
        } else {
            let [a, b] = names;
            problems.add(
                name.place,
                format!("`{}` is not an end of this bond", name.value.0),
                "not an end",
                format!("the ends are `{a}` and `{b}`"),
            );
            whole = false;
        }
    }
    whole.then_some(own)
}

/// Names are unique at each node, and fit for interfaces.
fn check_names(found: &[ResolvedBond<'_>], problems: &mut Problems<'_>) {
    let mut taken = BTreeSet::new();
    for bond in found {
        for ((node, name), node_name) in bond.nodes.iter().zip(bond.names).zip(&bond.node_names) {
            let Some(At { value: Name(text), place, .. }) = name else { continue };
            if text.len() > LONGEST_NAME {
                problems.add(
                    *place,
                    format!("`{text}` is longer than {LONGEST_NAME} characters"),
                    "too long",
                    "a bond is named like an interface of Linux",
                );
            }
            if !taken.insert((node, text)) {
                problems.add(
                    *place,
                    format!("two bonds of `{node_name}` are called `{text}`"),
                    "taken",
                    format!(
                        "give one of them another name at `{node_name}`: `ends: {{ {node_name}: {{ name: .. }} }}`"
                    ),
                );
            }
        }
    }
}

/// Lays out the bonds, all of which are sound.
fn place(found: Vec<ResolvedBond<'_>>, graph: &mut Graph) {
    let groups: Vec<Group> = found.iter().map(|bond| bond.group.clone()).collect();
    let links = graph.topology.regroup(&groups);
    let mut names = Names::default();
    for bond in &found {
        for (node, name) in bond.nodes.iter().zip(bond.names) {
            names.taken.extend(name.map(|name| (*node, name.value.0.clone())));
        }
    }
    for (bond, links) in found.into_iter().zip(links) {
        let first = graph.bonds.next_key();
        for ((side, settings), name) in bond.settings.into_iter().enumerate().zip(bond.names) {
            let node = bond.nodes[side];
            let ports = graph.topology.ports_at(node, &links);
            graph.topology.bonds.push(BondEnd {
                node,
                name: name.map_or_else(|| names.next(node), |name| name.value.0.clone()),
                ports,
                partner: BondEndId(first.0 + 1 - side as u32),
            });
            graph.bonds.push(Bond {
                end: settings.end,
                config: settings.config,
                options: settings.options,
                reorder: settings.reorder,
            });
        }
    }
}

/// Gives out bond0, bond1, ... at each node.
#[derive(Default)]
struct Names {
    taken: BTreeSet<(NodeId, String)>,
    next: BTreeMap<NodeId, usize>,
}

impl Names {
    fn next(&mut self, node: NodeId) -> String {
        let next = self.next.entry(node).or_default();
        loop {
            let name = format!("bond{next}");
            *next += 1;
            if self.taken.insert((node, name.clone())) {
                return name;
            }
        }
    }
}

/// Gives every bond so many members. Links and ports that are not further members of bonds keep their numbers.
pub(super) fn resize(topology: &mut Topology, members: usize) {
    let firsts = topology.bonds.iter_enumerated().filter(|(id, end)| *id < end.partner);
    let firsts: Vec<BondEndId> = firsts.map(|(id, _)| id).collect();
    let group = |id: &BondEndId| Group { links: topology.bond_links(*id).collect(), members };
    let groups: Vec<Group> = firsts.iter().map(group).collect();
    let links = topology.regroup(&groups);
    for (first, links) in firsts.into_iter().zip(links) {
        for id in [first, topology.bonds[first].partner] {
            topology.bonds[id].ports = topology.ports_at(topology.bonds[id].node, &links);
        }
    }
}
