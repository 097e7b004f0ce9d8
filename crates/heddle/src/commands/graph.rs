//! `graph`: a network as a picture, or in the words of programs that draw.

use std::ffi::OsStr;
use std::path::Path;

use fabric::Fabric;
use miette::{Context, IntoDiagnostic, Report, miette};
use serde_json::json;
use topology::{LinkId, NodeKind};

use super::explain;
use super::instance::{Subject, subject};
use crate::cli::{Format, Graph, GraphFormat};
use crate::output::{print_json, put};

/// Draws it.
pub fn graph(args: &Graph, output: Format) -> Result<(), Report> {
    let (fabric, down) = match subject(&args.from, "`heddle graph NETWORK`")? {
        Subject::File(fabric, _) => (fabric, Vec::new()),
        Subject::Running(instance, fabric) => {
            let links = instance.counters().map_err(explain)?.links;
            let down =
                fabric.topology.links.keys().zip(&links).filter(|(_, link)| !link.up).map(|(id, _)| id).collect();
            (fabric, down)
        }
    };
    match output {
        Format::Table => {}
        Format::Json => return print_json(&nodes_and_links(&fabric, &down)),
        Format::Csv => {
            return Err(miette!(
                help = "`heddle show links FILE -o csv` lists links, `heddle show nodes FILE -o csv` nodes",
                "a drawing is no table"
            ));
        }
    }
    let by_name = || args.write.as_deref().map_or(Ok(GraphFormat::Svg), by_name);
    let drawing = match args.format.map_or_else(by_name, Ok)? {
        GraphFormat::Svg => lab::graph::svg(&fabric, &down),
        GraphFormat::Dot => lab::graph::dot(&fabric, &down),
        GraphFormat::Mermaid => for_markdown(args.write.as_deref(), lab::graph::mermaid(&fabric, &down)),
    };
    match &args.write {
        None => put(&drawing),
        Some(file) => {
            std::fs::write(file, drawing).into_diagnostic().wrap_err_with(|| format!("cannot write {}", file.display()))
        }
    }
}

/// A file of Markdown has drawings between fences.
fn for_markdown(file: Option<&Path>, drawing: String) -> String {
    let is_markdown = file.and_then(Path::extension).is_some_and(|extension| extension == "md");
    if is_markdown { format!("```mermaid\n{drawing}```\n") } else { drawing }
}

/// What a file of this name has in it.
fn by_name(file: &Path) -> Result<GraphFormat, Report> {
    match file.extension().and_then(OsStr::to_str) {
        None | Some("svg") => Ok(GraphFormat::Svg),
        Some("dot" | "gv") => Ok(GraphFormat::Dot),
        Some("mmd" | "mermaid" | "md") => Ok(GraphFormat::Mermaid),
        Some(_) => Err(miette!(
            help = "`heddle graph --format dot | dot -Tpng -o FILE` (Graphviz) draws it as PNG, -Tpdf as PDF; or say what is to be written: `--format svg`",
            "{}: expected a name that ends in .svg, .dot, .gv, .mmd or .md",
            file.display()
        )),
    }
}

/// For programs that draw by themselves.
fn nodes_and_links(fabric: &Fabric, down: &[LinkId]) -> serde_json::Value {
    let topology = &fabric.topology;
    let nodes = topology.nodes.iter_enumerated().map(|(id, node)| {
        let (kind, tier) = match node.kind {
            NodeKind::Host(_) => ("host", 0),
            NodeKind::Switch { tier, .. } => ("switch", tier),
        };
        let host = topology.interface_owner(id).map(|owner| &topology.nodes[owner].name);
        json!({ "name": node.name, "kind": kind, "tier": tier, "x": f64::from(node.x_permille) / 1_000.0, "interface-of": host })
    });
    let links = topology.links.iter_enumerated().map(|(id, link)| {
        let name = |end: topology::LinkEnd| &topology.nodes[end.node].name;
        let bond = topology.bond_at(link.a.node, link.a.port).map(|end| &topology.bonds[end].name);
        json!({ "a": name(link.a), "b": name(link.b), "number": topology.link_number(id), "bond": bond, "up": !down.contains(&id) })
    });
    json!({ "name": fabric.name, "nodes": nodes.collect::<Vec<_>>(), "links": links.collect::<Vec<_>>() })
}
