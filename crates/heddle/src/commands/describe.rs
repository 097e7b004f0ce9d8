//! `new`, `check`, `plan`, `schema`: what can be said about a file without starting anything.

use std::fs::OpenOptions;
use std::io::Write;

use fabric::{Fabric, Source};
use miette::{Report, miette};
use serde_json::json;

use super::{explain_of, file, located};
use crate::cli::{FileArg, Format, New, Plan, Topology};
use crate::output::{Rows, print_json, put};

/// Writes a commented file to start from.
pub fn new(args: &New) -> Result<(), Report> {
    let topology = match args.topology {
        Topology::FatTree => fabric::Template::FatTree,
        Topology::LeafSpine => fabric::Template::LeafSpine,
        Topology::Bcube => fabric::Template::Bcube,
        Topology::Explicit => fabric::Template::Explicit,
    };
    let text = fabric::template(&args.name, topology)?;
    let path = format!("{}.fabric.yaml", args.name);
    let mut options = OpenOptions::new();
    if args.force {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    options.write(true).open(&path).and_then(|mut file| file.write_all(text.as_bytes())).map_err(
        |error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                miette!(help = "choose another name, or overwrite it with --force", "{path} is there already")
            }
            _ => miette!("cannot write {path}: {error}"),
        },
    )?;
    eprintln!("Wrote {path}. Next: heddle run {path}");
    Ok(())
}

/// Reads a file and says what is in it.
pub fn check(args: &FileArg, format: Format) -> Result<(), Report> {
    let (source, fabric) = file::read(&args.file)?;
    live::check_captures(&fabric, &live::folder_of(&source)).map_err(|error| explain_of(&source, error))?;
    // Not mistakes: others run live.
    for error in lab::not_simulated(&fabric) {
        let message = format!("`heddle run --sim` will refuse this: {error}");
        note(&source, &error.place_in_file(), &message, error.hint().as_deref());
    }
    note_doubts(&source, &fabric);
    match format {
        Format::Table => put(&format!("{}: {}\n", source.name, summary(&fabric))),
        Format::Json => print_json(&fabric),
        Format::Csv => {
            let mut rows = Rows::new(&["what", "number"]);
            for (what, number) in counts(&fabric) {
                rows.push([json!(what), json!(number)]);
            }
            put(&rows.render(format))
        }
    }
}

/// Notes what in a file is hardly meant.
pub fn note_doubts(source: &Source, fabric: &Fabric) {
    for doubt in lab::doubts(fabric) {
        note(source, &doubt.place, &doubt.message, Some(doubt.hint));
    }
}

/// Something that is worth knowing about what stands at a place of a file.
fn note(source: &Source, place: &[String], message: &str, hint: Option<&str>) {
    let found = located(source, place, message, None);
    let line = found.as_ref().and_then(|error| error.problems().first()).map_or(1, |problem| problem.line);
    let hint = hint.map(|hint| format!(" (hint: {hint})")).unwrap_or_default();
    eprintln!("{}:{line}: note: {message}{hint}", source.name);
}

fn counts(fabric: &Fabric) -> Vec<(&'static str, usize)> {
    let cases = fabric.experiments.iter().map(|experiment| experiment.cases().len()).sum();
    let mut counts = vec![
        ("host", fabric.topology.hosts as usize),
        ("switch", fabric.topology.switches().len()),
        ("link", fabric.topology.links.len()),
        ("experiment", fabric.experiments.len()),
        ("case", cases),
    ];
    if !fabric.bonds.is_empty() {
        // Both ends of each are listed.
        counts.insert(3, ("bond", fabric.bonds.len() / 2));
    }
    if let Some(controllers) = &fabric.controllers {
        counts.insert(3, ("controller", controllers.nodes as usize));
    }
    counts
}

fn summary(fabric: &Fabric) -> String {
    let plural = |what: &str, n| match n {
        1 => "",
        _ if what.ends_with('h') => "es",
        _ => "s",
    };
    counts(fabric).into_iter().map(|(what, n)| format!("{n} {what}{}", plural(what, n))).collect::<Vec<_>>().join(", ")
}

/// Says what `up` and `run` would do.
pub fn plan(args: &Plan, format: Format) -> Result<(), Report> {
    let (source, fabric) = file::read(&args.file.file)?;
    let changes = super::instance::changes(&fabric)?;
    // A file may describe a network alone.
    let plan = if fabric.experiments.is_empty() {
        None
    } else {
        Some(lab::plan(&fabric, &super::measure::options(&args.selection)?)?)
    };
    let runs = plan.as_ref().map_or(0, |plan| plan.runs.len());
    match format {
        Format::Json => print_json(&json!({ "fabric": fabric, "up": changes, "runs": plan })),
        Format::Csv => put(&plan.map_or_else(String::new, |plan| plan.csv())),
        Format::Table => {
            let table = plan.map_or_else(String::new, |plan| plan.table());
            put(&format!("{}: {}\nup:  {changes}\nrun: {runs} runs\n{table}", source.name, summary(&fabric)))
        }
    }
}

/// Prints the JSON Schema of fabric files.
pub fn schema() -> Result<(), Report> {
    print_json(&fabric::schema())
}
