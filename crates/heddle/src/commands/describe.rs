//! `new`, `check`, `plan`, `schema`: what can be said about a file without starting anything.

use std::fs::OpenOptions;
use std::io::Write;

use fabric::{Fabric, NodeKind};
use miette::{Report, miette};
use serde_json::json;

use super::file;
use crate::cli::{FileArg, Format, New, Plan, Topology};
use crate::output::{Rows, print_json};

/// Writes a commented file to start from.
pub fn new(args: &New) -> Result<(), Report> {
    let topology = match args.topology {
        Topology::FatTree => fabric::Template::FatTree,
        Topology::LeafSpine => fabric::Template::LeafSpine,
        Topology::Explicit => fabric::Template::Explicit,
    };
    let text = fabric::template(&args.name, topology)?;
    let path = format!("{}.fabric.yaml", args.name);
    let mut options = OpenOptions::new();
    if args.force { options.create(true).truncate(true) } else { options.create_new(true) };
    options.write(true).open(&path).and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| {
        match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                miette!(help = "choose another name, or overwrite it with --force", "{path} is there already")
            }
            _ => miette!("cannot write {path}: {error}"),
        }
    })?;
    eprintln!("Wrote {path}. Next: heddle run {path}");
    Ok(())
}

/// Reads a file and says what is in it.
pub fn check(args: &FileArg, format: Format) -> Result<(), Report> {
    let (source, fabric) = file::read(&args.file)?;
    if format == Format::Json {
        return print_json(&fabric);
    }
    println!("{}: {}", source.name, summary(&fabric));
    Ok(())
}

fn summary(fabric: &Fabric) -> String {
    let count = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else if one.ends_with('h') { "es" } else { "s" });
    let switches = fabric.nodes.iter().filter(|node| matches!(node.kind, NodeKind::Switch { .. })).count();
    let cases: usize = fabric.experiments.iter().map(|experiment| experiment.cases().len()).sum();
    [
        count(fabric.hosts as usize, "host"),
        count(switches, "switch"),
        count(fabric.links.len(), "link"),
        count(fabric.experiments.len(), "experiment"),
        count(cases, "case"),
    ]
    .join(", ")
}

/// Says what `up` and `run` would do.
pub fn plan(args: &Plan, format: Format) -> Result<(), Report> {
    let (source, fabric) = file::read(&args.file.file)?;
    let plan = lab::plan(&fabric, &super::measure::options(&args.selection)?)?;
    match format {
        Format::Json => print_json(&json!({ "fabric": fabric, "runs": plan })),
        Format::Csv => {
            print!("{}", plan.csv());
            Ok(())
        }
        Format::Table => {
            println!("{}: {}", source.name, summary(&fabric));
            match live::Instance::connect(&fabric.name).map_err(super::explain)? {
                Some(_) => println!("up:  {} is running; `up` would change only what differs", fabric.name),
                None => println!("up:  would start {}", fabric.name),
            }
            println!("run: {} runs", plan.runs.len());
            print!("{}", plan.table());
            Ok(())
        }
    }
}

/// Prints the JSON Schema of fabric files.
pub fn schema() -> Result<(), Report> {
    print_json(&fabric::schema())
}

/// The rows of `show nodes`.
pub fn nodes(fabric: &Fabric) -> Rows {
    let mut rows = Rows::new(&["name", "kind", "tier", "pod", "ports", "mac", "ipv4", "ipv6"]);
    for node in &fabric.nodes {
        let name = json!(node.name);
        let ports = json!(node.ports.len());
        match &node.kind {
            NodeKind::Host(host) => {
                let mac = host.mac.map(|byte| format!("{byte:02x}")).join(":");
                let ipv4 = format!("{}/{}", host.ipv4, host.ipv4_prefix);
                let ipv6 = format!("{}/{}", host.ipv6, host.ipv6_prefix);
                rows.push([name, json!("host"), json!(0), json!(host.pod), ports, json!(mac), json!(ipv4), json!(ipv6)]);
            }
            NodeKind::Switch { tier, pod } => {
                rows.push([name, json!("switch"), json!(tier), json!(pod), ports, json!(null), json!(null), json!(null)]);
            }
        }
    }
    rows
}

/// The rows of `show links`.
pub fn links(fabric: &Fabric) -> Rows {
    let mut rows = Rows::new(&["link", "a", "a-port", "b", "b-port", "rate-bps", "delay", "queue"]);
    for (index, link) in fabric.links.iter().enumerate() {
        let end = |end: fabric::End| json!(fabric.nodes[end.node.0 as usize].name);
        rows.push([
            json!(fabric.link_name(fabric::LinkId(index as u32))),
            end(link.a),
            json!(link.a.port.0),
            end(link.b),
            json!(link.b.port.0),
            json!(link.spec.rate_bps),
            json!(link.spec.delay.to_string()),
            json!(link.spec.queue_packets),
        ]);
    }
    rows
}
