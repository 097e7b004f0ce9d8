//! Reads fabric files and says what is in them, or what is wrong: `cargo run -p heddle-fabric --example check -- FILE..`.
#![allow(clippy::disallowed_methods, reason = "it reads files")]

fn main() -> miette::Result<()> {
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path).map_err(|error| miette::miette!("{path}: {error}"))?;
        let fabric = fabric::parse(&fabric::Source { name: path, text })?;
        let cases: usize = fabric.experiments.iter().map(|experiment| experiment.cases().len()).sum();
        println!(
            "{}: {} hosts, {} switches, {} links, {} cases",
            fabric.name,
            fabric.topology.hosts,
            fabric.topology.nodes.len() - fabric.topology.hosts as usize,
            fabric.topology.links.len(),
            cases
        );
    }
    Ok(())
}
