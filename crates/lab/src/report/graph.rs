//! A network as a picture of its own, and in the words of programs that draw.

use std::fmt::Write as _;

use fabric::Fabric;
use topology::{LinkId, NodeId, Side, Topology};

use super::layout::rows;
use super::network::{Look, sketch};
use crate::results::Network;

/// What a picture is wide, where names need no more.
const WIDTH: f64 = 960.0;

/// How it looks, in the light and in the dark: the colours of the report.
const STYLE: &str = "
:root { --paper: #ffffff; --muted: #5c6470; --faint: #8a919c; --switch: #39424e; --host: #7d8794; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --paper: #1a1d23; --muted: #a3abb7; --faint: #79818d; --switch: #c3cad4; --host: #828c9a; --bad: #ff8f85; } }
.paper { fill: var(--paper); }
.name { fill: var(--muted); font: 11px system-ui, sans-serif; paint-order: stroke; stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; }
.bare { stroke: var(--faint); stroke-width: 1; } .down { stroke: var(--bad); stroke-width: 1.2; stroke-dasharray: 4 3; }
.bond { fill: none; stroke: var(--muted); stroke-width: 1.2; } .joint { stroke: var(--host); stroke-width: 4; }
.switch { fill: var(--switch); stroke: var(--paper); stroke-width: 1; rx: 2px; } .host { fill: var(--host); stroke: var(--paper); stroke-width: 1; }
";

/// A picture (SVG): hosts below, switches in layers above them. `down` are links without a carrier.
pub fn svg(fabric: &Fabric, down: &[LinkId]) -> String {
    let network = Network::of(fabric);
    let down: Vec<usize> = down.iter().map(|link| usize::from(*link)).collect();
    let look = Look { width: WIDTH, names: true, is_large: true, share: &[], down: &down, nodes: None };
    sketch(&network, &look).standalone(&format!("Topology of {}", network.name), STYLE)
}

/// The nodes of a text: further interfaces are not among them, but drawn as links of their hosts.
fn nodes(topology: &Topology) -> impl Iterator<Item = NodeId> + '_ {
    topology.nodes.keys().filter(|id| topology.owner(*id) == *id)
}

/// Where a link stands in a text: its upper end, its lower one, and what is written at it.
struct Edge {
    upper: NodeId,
    lower: NodeId,
    bond: Option<String>,
    is_down: bool,
}

fn edges(fabric: &Fabric, rows: &[usize], down: &[LinkId]) -> Vec<Edge> {
    let topology = &fabric.topology;
    let edge = |id: LinkId| {
        let [a, b] = [Side::A, Side::B].map(|side| topology.links[id].end(side));
        let (upper, lower) = if rows[usize::from(a.node)] >= rows[usize::from(b.node)] { (a, b) } else { (b, a) };
        let bond = topology.bond_at(upper.node, upper.port).map(|end| topology.bonds[end].name.clone());
        let [upper, lower] = [upper, lower].map(|end| topology.owner(end.node));
        Edge { upper, lower, bond, is_down: down.contains(&id) }
    };
    topology.links.keys().map(edge).collect()
}

/// For Graphviz. Nodes of one layer have one rank.
pub fn dot(fabric: &Fabric, down: &[LinkId]) -> String {
    let rows = rows(&Network::of(fabric));
    let topology = &fabric.topology;
    // Names are letters, digits, `-`, `_` and `.`.
    let name = |id: NodeId| topology.nodes[id].name.as_str();
    let mut text = format!("graph \"{}\" {{\n", fabric.name);
    text += "  graph [ranksep=1.2, nodesep=0.15];\n  node [fontname=\"sans-serif\", fontsize=11, height=0.3, width=0.4, margin=0.05];\n";
    for id in nodes(topology) {
        let shape = if topology.is_host(id) { "ellipse" } else { "box" };
        let _ = writeln!(text, "  \"{}\" [shape={shape}];", name(id));
    }
    for row in 0..=rows.iter().copied().max().unwrap_or(0) {
        let nodes = nodes(topology).filter(|id| rows[usize::from(*id)] == row);
        let nodes: Vec<String> = nodes.map(|id| format!("\"{}\"", name(id))).collect();
        if !nodes.is_empty() {
            let _ = writeln!(text, "  {{ rank=same; {} }}", nodes.join("; "));
        }
    }
    for edge in edges(fabric, &rows, down) {
        let mut attributes = Vec::new();
        attributes.extend(edge.bond.iter().map(|bond| format!("label=\"{bond}\", fontsize=9, penwidth=2")));
        if edge.is_down {
            attributes.push("style=dashed, color=red".to_owned());
        }
        let attributes = if attributes.is_empty() { String::new() } else { format!(" [{}]", attributes.join(", ")) };
        let _ = writeln!(text, "  \"{}\" -- \"{}\"{attributes};", name(edge.upper), name(edge.lower));
    }
    text + "}\n"
}

/// For Markdown (Mermaid). Links of a bond are thick, those that are down dotted.
pub fn mermaid(fabric: &Fabric, down: &[LinkId]) -> String {
    let rows = rows(&Network::of(fabric));
    let topology = &fabric.topology;
    let mut text = "flowchart TB\n".to_owned();
    for id in nodes(topology) {
        let (open, close) = if topology.is_host(id) { ("([", "])") } else { ("[", "]") };
        let _ = writeln!(text, "  n{}{open}\"{}\"{close}", id.0, topology.nodes[id].name);
    }
    for edge in edges(fabric, &rows, down) {
        let line = match (&edge.bond, edge.is_down) {
            (_, true) => "-. down .-".to_owned(),
            (Some(bond), false) => format!("== \"{bond}\" ==="),
            (None, false) => "---".to_owned(),
        };
        let _ = writeln!(text, "  n{} {line} n{}", edge.upper.0, edge.lower.0);
    }
    text
}

#[cfg(test)]
mod tests {
    use fabric::Source;

    use super::*;

    fn fabric(text: &str) -> Fabric {
        fabric::parse(&Source { name: "lab.fabric.yaml".into(), text: text.into() }).expect("it is a file")
    }

    const BONDED: &str = "\
nodes: { h1: host, h2: host, s1: switch, s2: switch }
links: [{ between: [h1, s1] }, { between: [h2, s2] }, { between: [s1, s2] }, { between: [s1, s2] }]
bonds: [{ host: h1, members: 2 }]
";

    #[test]
    fn links_and_bonds_in_words() {
        let fabric = fabric(BONDED);
        insta::assert_snapshot!(dot(&fabric, &[LinkId(2)]) + &mermaid(&fabric, &[LinkId(2)]));
    }

    /// They were islands.
    #[test]
    fn interfaces_are_drawn_as_their_host() {
        let fabric = fabric(
            "nodes: { h1: { kind: host, ipv4: 10.0.1.1/24 }, h2: { kind: host, ipv4: 10.0.2.1/24 }, r1: { kind: host, forward: true, interfaces: { 0: { ipv4: 10.0.1.2/24 }, 1: { ipv4: 10.0.2.2/24 } } } }\nlinks: [{ between: [h1, r1] }, { between: [h2, r1] }]\n",
        );
        let dot = dot(&fabric, &[]);
        assert!(dot.contains("\"h2\" -- \"r1\";") || dot.contains("\"r1\" -- \"h2\";"), "{dot}");
        assert!(!dot.contains("eth1") && !mermaid(&fabric, &[]).contains("eth1"), "{dot}");
        let picture = svg(&fabric, &[]);
        assert_eq!(picture.matches("<line class=\"joint\"").count(), 1, "{picture}");
        assert!(picture.contains("r1: two of its interfaces"), "{picture}");
    }

    #[test]
    fn parallel_links_lie_beside_each_other_and_bonds_have_a_ring() {
        let picture = svg(&fabric(BONDED), &[LinkId(1)]);
        let lines: Vec<&str> = picture.split('<').filter(|part| part.starts_with("line ")).collect();
        assert_eq!(lines.len(), 5, "{picture}");
        let places: std::collections::BTreeSet<&str> =
            lines.iter().map(|line| line.split_once("x1").expect("it begins somewhere").1).collect();
        assert_eq!(places.len(), 5, "{picture}");
        assert_eq!(picture.matches("<ellipse class=\"bond\"").count(), 1);
        assert!(picture.contains("h1 – s1: a bond of 2") && picture.contains("h2 – s2: down"), "{picture}");
    }

    #[test]
    fn names_of_large_networks_do_not_overlap() {
        for k in [4, 8] {
            let fabric = fabric(&format!("topology: {{ fat-tree: {{ k: {k} }} }}\n"));
            let picture = svg(&fabric, &[]);
            let mut names: Vec<(i64, i64, &str, bool)> = Vec::new();
            for part in picture.split("<text ").skip(1) {
                let number = |key: &str| -> f64 {
                    let (_, rest) = part.split_once(key).expect("it has a place");
                    rest.split('"').next().expect("a number").parse().expect("a number")
                };
                let (_, text) = part.split_once('>').expect("it has a text");
                let text = text.split('<').next().expect("a text");
                names.push((number(" y=\"") as i64, number(" x=\"") as i64, text, part.contains("start")));
            }
            assert_eq!(names.len(), fabric.topology.nodes.len());
            names.sort_unstable();
            for pair in names.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
                let width = 6 * pair[0].2.chars().map(|_| 1).sum::<i64>();
                assert!(pair[1].1 - pair[0].1 >= width, "k = {k}: {pair:?}");
            }
        }
    }
}
