//! Axes of experiments that change all bonds of a file.

use bond::config::Mode;

use super::configured;
use super::ends::{End, lacks_links, lacks_primary, leaves_switch_alone, mismatch};
use crate::error::Problems;
use crate::graph::Graph;
use crate::source::Place;
use crate::{Bond, BondEnd, NodeId};

/// What is at the end of a bond that a case puts into `mode`.
pub(crate) fn learns(hosts: u32, node: NodeId, far: NodeId, mode: Mode) -> BondEnd {
    let plain = node.0 >= hosts && far.0 < hosts && leaves_switch_alone(mode);
    if plain { BondEnd::Learning } else { BondEnd::Bonded }
}

/// Whether all bonds can be in `mode`; notes it at `place` if not.
pub(crate) fn check_mode(graph: &Graph, mode: Mode, place: Place, problems: &mut Problems<'_>) -> bool {
    check_some(graph, place, problems) && pairs(graph).all(|bonds| fits(graph, bonds, mode, place, problems))
}

fn fits(graph: &Graph, bonds: [&Bond; 2], mode: Mode, place: Place, problems: &mut Problems<'_>) -> bool {
    let [a, b] = bonds;
    let configs = bonds.map(|bond| configured(mode, &bond.options));
    for (config, bond) in configs.iter().zip(bonds) {
        if let Err(error) = config.check() {
            let at = describe(graph, bond);
            problems.add(
                place,
                format!("{at}: {error}"),
                "not with its options",
                "leave out this value, or mend the bond",
            );
            return false;
        }
        let lacks = lacks_primary(config, bond.members()).or_else(|| lacks_links(config, bond.members()));
        if let Some((message, hint)) = lacks {
            problems.add(place, format!("{}: {message}", describe(graph, bond)), "not with its options", hint);
            return false;
        }
    }
    let end = |bond: &Bond, far: &Bond, config| End {
        name: &graph.nodes[bond.node.0 as usize].name,
        is_host: bond.node.0 < graph.hosts,
        config: (learns(graph.hosts, bond.node, far.node, mode) == BondEnd::Bonded).then_some(config),
    };
    let ends = [end(a, b, &configs[0]), end(b, a, &configs[1])];
    let links = a.ports.iter().map(|port| graph.nodes[a.node.0 as usize].ports[usize::from(port.0)].0);
    let specs: Vec<_> = links.map(|link| graph.links[link.0 as usize].spec).collect();
    let mismatch = mismatch(&ends, &specs);
    let fits = mismatch.is_none();
    if let Some(found) = mismatch {
        problems.add(place, found.message, found.label, found.hint);
    }
    fits
}

/// Whether all bonds can have so many members; notes it at `place` if not.
pub(crate) fn check_members(graph: &Graph, members: u32, place: Place, problems: &mut Problems<'_>) -> bool {
    if !check_some(graph, place, problems) {
        return false;
    }
    // Whatever mode a case gives it, its options must be true of its members.
    for (bond, mode) in graph.bonds.iter().flat_map(|bond| Mode::ALL.iter().map(move |&mode| (bond, mode))) {
        let (members, config) = (members as usize, configured(mode, &bond.options));
        let lacks = lacks_primary(&config, members).or_else(|| lacks_links(&config, members));
        if let Some((message, hint)) = lacks {
            let at = describe(graph, bond);
            problems.add(place, format!("{at} as `members: {members}`: {message}"), "too few for its options", hint);
            return false;
        }
    }
    true
}

/// Whether there is a bond to put arrivals in order; notes it at `place` if not.
pub(crate) fn check_reorder(graph: &Graph, place: Place, problems: &mut Problems<'_>) -> bool {
    check_some(graph, place, problems)
}

fn check_some(graph: &Graph, place: Place, problems: &mut Problems<'_>) -> bool {
    if graph.bonds.is_empty() {
        problems.add(
            place,
            "there is no bond: this would change nothing",
            "changes nothing",
            "add `bonds: [{ host: h1, members: 2 }]`",
        );
    }
    !graph.bonds.is_empty()
}

fn pairs(graph: &Graph) -> impl Iterator<Item = [&Bond; 2]> {
    let firsts = graph.bonds.iter().enumerate().filter(|(i, bond)| *i < bond.partner);
    firsts.map(|(_, bond)| [bond, &graph.bonds[bond.partner]])
}

fn describe(graph: &Graph, bond: &Bond) -> String {
    format!("`{}` of `{}`", bond.name, graph.nodes[bond.node.0 as usize].name)
}
