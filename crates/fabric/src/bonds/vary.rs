//! Axes of experiments that change all bonds of a file.

use bond::config::Mode;
use topology::{BondEndId, NodeId, Topology};

use super::ends::{EndConfig, configured, lacks_links, lacks_primary, leaves_switch_alone, mismatch};
use crate::error::Problems;
use crate::graph::Graph;
use crate::source::Place;
use crate::{EndKind, Fabric, Reordering};

/// Puts all bonds into `mode`. Options of the file that it has no use for are left out in it.
pub(super) fn change_mode(fabric: &mut Fabric, mode: Mode) {
    let Fabric { topology, bonds, .. } = fabric;
    for (id, bond) in bonds.iter_mut_enumerated() {
        let end = &topology.bonds[id];
        bond.config = configured(mode, &bond.options);
        bond.end = learns(topology, end.node, topology.bonds[end.partner].node, mode);
    }
}

/// Has all bonds put arrivals back in order so.
pub(super) fn change_reordering(fabric: &mut Fabric, reordering: Reordering) {
    for bond in &mut fabric.bonds {
        bond.reorder = reordering.applied_to(bond.reorder);
    }
}

/// What is at the end of a bond that a case puts into `mode`.
fn learns(topology: &Topology, node: NodeId, far: NodeId, mode: Mode) -> EndKind {
    let learns = !topology.is_host(node) && topology.is_host(far) && leaves_switch_alone(mode);
    if learns { EndKind::Learning } else { EndKind::Bonded }
}

/// Whether all bonds can be in `mode`; notes it at `place` if not.
pub(super) fn check_mode(graph: &Graph, mode: Mode, place: Place, problems: &mut Problems<'_>) -> bool {
    check_some(graph, place, problems) && pairs(&graph.topology).all(|ends| fits(graph, ends, mode, place, problems))
}

fn fits(graph: &Graph, ids: [BondEndId; 2], mode: Mode, place: Place, problems: &mut Problems<'_>) -> bool {
    let topology = &graph.topology;
    let configs = ids.map(|id| configured(mode, &graph.bonds[id].options));
    for (config, id) in configs.iter().zip(ids) {
        if let Err(error) = config.check() {
            let at = describe(topology, id);
            problems.add(
                place,
                format!("{at}: {error}"),
                "not with its options",
                "leave out this value, or change the bond",
            );
            return false;
        }
        let members = topology.bonds[id].members();
        let lacks = lacks_primary(config, members).or_else(|| lacks_links(config, members));
        if let Some((message, hint)) = lacks {
            problems.add(place, format!("{}: {message}", describe(topology, id)), "not with its options", hint);
            return false;
        }
    }
    let [a, b] = ids.map(|id| topology.bonds[id].node);
    let end = |node: NodeId, far: NodeId, config| EndConfig {
        name: &topology.nodes[node].name,
        is_host: topology.is_host(node),
        config: (learns(topology, node, far, mode) == EndKind::Bonded).then_some(config),
    };
    let ends = [end(a, b, &configs[0]), end(b, a, &configs[1])];
    let specs: Vec<_> = topology.bond_links(ids[0]).map(|link| topology.links[link].spec).collect();
    let mismatch = mismatch(&ends, &specs);
    let fits = mismatch.is_none();
    if let Some(found) = mismatch {
        problems.add(place, found.message, found.label, found.hint);
    }
    fits
}

/// Whether all bonds can have so many members; notes it at `place` if not.
pub(super) fn check_members(graph: &Graph, members: u32, place: Place, problems: &mut Problems<'_>) -> bool {
    if !check_some(graph, place, problems) {
        return false;
    }
    // Whatever mode a case gives it, its options must be true of its members.
    let bonds = graph.bonds.iter_enumerated();
    for (id, bond, mode) in bonds.flat_map(|(id, bond)| Mode::ALL.iter().map(move |&mode| (id, bond, mode))) {
        let (members, config) = (members as usize, configured(mode, &bond.options));
        let lacks = lacks_primary(&config, members).or_else(|| lacks_links(&config, members));
        if let Some((message, hint)) = lacks {
            let at = describe(&graph.topology, id);
            problems.add(place, format!("{at} as `members: {members}`: {message}"), "too few for its options", hint);
            return false;
        }
    }
    true
}

/// Whether there is a bond to put arrivals in order; notes it at `place` if not.
pub(super) fn check_reorder(graph: &Graph, place: Place, problems: &mut Problems<'_>) -> bool {
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

fn pairs(topology: &Topology) -> impl Iterator<Item = [BondEndId; 2]> {
    let firsts = topology.bonds.iter_enumerated().filter(|(id, end)| *id < end.partner);
    firsts.map(|(id, end)| [id, end.partner])
}

fn describe(topology: &Topology, id: BondEndId) -> String {
    let end = &topology.bonds[id];
    format!("`{}` of `{}`", end.name, topology.nodes[end.node].name)
}
