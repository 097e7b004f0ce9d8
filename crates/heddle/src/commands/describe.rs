//! `new`, `check`, `plan`, `schema`: what can be said about a file without starting anything.

use std::fs::OpenOptions;
use std::io::Write;

use fabric::{DriverKind, Fabric, Source};
use miette::{Report, miette};
use serde::Serialize;
use serde_json::{Value, json};

use super::measure::explain;
use super::{explain_all, file, located};
use crate::Ending;
use crate::cli::{FileArg, Format, New, Plan, Topology};
use crate::output::{Rows, fitting, print_json, put, put_written};

/// Writes a commented file to start from.
pub fn new(args: &New, format: Format) -> Result<(), Report> {
    let topology = match args.topology {
        Topology::FatTree => fabric::Template::FatTree,
        Topology::LeafSpine => fabric::Template::LeafSpine,
        Topology::Bcube => fabric::Template::Bcube,
        Topology::Explicit => fabric::Template::Explicit,
    };
    // Whoever names a file means that one.
    let path = if is_file(&args.name) { args.name.clone() } else { format!("{}.fabric.yaml", args.name) };
    let name =
        if is_file(&args.name) { Source { name: path.clone(), text: String::new() }.stem() } else { args.name.clone() };
    let text = match &args.topo {
        Some(word) => {
            let text = fabric::topology_template(&name, word)?;
            // What is wrong with the numbers shows in the file, which is not written then.
            fabric::parse(&Source { name: path.clone(), text: text.clone() })?;
            text
        }
        None => fabric::template(&name, topology)?,
    };
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
    put_written(&path, format)
}

/// Whether a fabric's name is that of a file.
fn is_file(name: &str) -> bool {
    [".yaml", ".yml"].iter().any(|end| name.ends_with(end))
}

/// Reads a file and says what is in it. As JSON, a file that is wrong is data as well: its problems go to standard output, each with its place.
pub fn check(args: &FileArg, format: Format) -> Result<Ending, Report> {
    let (source, checked) = match (file::check(&args.file), format) {
        (Ok(read), _) => read,
        // What can't be read is an answer, too.
        (Err(report), Format::Json) => {
            let source = Source { name: args.file.display().to_string(), text: String::new() };
            (source, Err(report))
        }
        (Err(report), _) => return Err(report),
    };
    let checked = checked.and_then(|fabric| {
        let found = live::check_named_files(&fabric, &live::folder_of(&source));
        explain_all(&source, found).map_or(Ok(fabric), Err)
    });
    let fabric = match (checked, format) {
        (Ok(fabric), _) => fabric,
        (Err(report), Format::Json) => {
            print_json(&json!({ "file": source.name, "problems": problems(&source, &report) }))?;
            return Ok(Ending::Failed);
        }
        (Err(report), _) => return Err(report),
    };
    let notes = notes(&source, &fabric);
    match format {
        Format::Table => {
            notes.iter().for_each(Note::print);
            put(&fitting(&format!("{}: {}\n", source.name, summary(&fabric))))?;
        }
        Format::Json => {
            let mut value = fabric::in_units(&fabric);
            value["file"] = json!(source.name);
            value["problems"] = json!([]);
            value["notes"] = json!(notes);
            print_json(&value)?;
        }
        Format::Csv => {
            notes.iter().for_each(Note::print);
            let mut rows = Rows::new(&["what", "number"]);
            for (what, number) in counts(&fabric) {
                rows.push([json!(what), json!(number)]);
            }
            put(&rows.render(format))?;
        }
    }
    Ok(Ending::Passed)
}

/// What is wrong with a file, one object a problem. Lines and columns count from 1, columns in characters.
fn problems(source: &Source, report: &Report) -> Vec<Value> {
    let problem = |problem: &fabric::Problem| {
        json!({
            "file": source.name,
            "line": problem.line,
            "column": problem.column,
            "code": problem.code(),
            "message": problem.message,
            "hint": problem.hint,
        })
    };
    match report.downcast_ref::<fabric::Error>() {
        Some(error) => error.problems().iter().map(problem).collect(),
        // Something that the file names, and that stands at no place of it.
        None => vec![json!({
            "file": source.name,
            "line": 1,
            "column": 1,
            "code": "refused",
            "message": report.to_string(),
            "hint": report.help().map(|hint| hint.to_string()),
        })],
    }
}

/// Something that is worth knowing about what stands at a place of a file, and is no mistake.
#[derive(Serialize)]
struct Note {
    file: String,
    line: usize,
    column: usize,
    code: &'static str,
    message: String,
    hint: Option<String>,
}

impl Note {
    fn new(source: &Source, place: &[String], code: &'static str, (message, hint): (String, Option<String>)) -> Self {
        // What is said by leaving a key out is at what it would stand in.
        let found = located(source, place, &message, None)
            .or_else(|| located(source, place.split_last().map_or(place, |(_, above)| above), &message, None));
        let at = found.as_ref().and_then(|error| error.problems().first());
        let (line, column) = at.map_or((1, 1), |problem| (problem.line, problem.column));
        Self { file: source.name.clone(), line, column, code, message, hint }
    }

    fn print(&self) {
        let hint = self.hint.as_ref().map(|hint| format!(" (hint: {hint})")).unwrap_or_default();
        eprintln!("{}:{}: note: {}{hint}", self.file, self.line, self.message);
    }
}

/// What a file cannot do though it is right, and what in it is hardly meant.
fn notes(source: &Source, fabric: &Fabric) -> Vec<Note> {
    // Not mistakes: others run live.
    let refused = lab::not_simulated(fabric)
        .into_iter()
        .map(|error| Note::new(source, &error.place_in_file(), "not-simulated", (error.to_string(), error.hint())));
    let of_live = lab::crowded_buffers(fabric).into_iter().chain(lab::unlike_warm_up(fabric));
    let of_live = of_live.map(|doubt| of_doubt(source, doubt));
    let guests = missing_hypervisors(source, fabric);
    refused.chain(doubts(source, fabric)).chain(of_live).chain(guests).collect()
}

/// Guests that this machine cannot start: another one may.
fn missing_hypervisors(source: &Source, fabric: &Fabric) -> Vec<Note> {
    let missing = live::missing_hypervisors(fabric, &std::env::var_os("PATH").unwrap_or_default());
    let note = |live::MissingHypervisor { host, program, package }| {
        let message = format!("guest {host} can't be started on this machine: there is no {program}");
        let hint = Some(format!("install it, as with `apt-get install {package}`"));
        Note::new(source, &["nodes".to_owned(), host], "missing-program", (message, hint))
    };
    missing.into_iter().map(note).collect()
}

fn of_doubt(source: &Source, doubt: lab::Doubt) -> Note {
    Note::new(source, &doubt.place, "doubtful", (doubt.message, Some(doubt.hint.to_owned())))
}

fn doubts(source: &Source, fabric: &Fabric) -> Vec<Note> {
    lab::doubts(fabric).into_iter().map(|doubt| of_doubt(source, doubt)).collect()
}

/// Notes that a network that is to be live has fewer buffers than its queues have places.
pub fn note_crowded(source: &Source, fabric: &Fabric) {
    if let Some(doubt) = lab::crowded_buffers(fabric) {
        of_doubt(source, doubt).print();
    }
}

/// Notes what in a file that these drivers shall run is hardly meant.
pub fn note_doubts(source: &Source, fabric: &Fabric, drivers: &[DriverKind]) {
    doubts(source, fabric).iter().for_each(Note::print);
    if drivers.len() > 1 {
        for doubt in lab::unlike_warm_up(fabric) {
            of_doubt(source, doubt).print();
        }
    }
}

fn counts(fabric: &Fabric) -> Vec<(&'static str, usize)> {
    let cases = fabric.experiments.iter().map(|experiment| experiment.cases().len()).sum();
    let mut counts = vec![
        ("host", fabric.topology.end_host_count() as usize),
        ("switch", fabric.topology.switches().len()),
        ("link", fabric.topology.links.len()),
        ("experiment", fabric.experiments.len()),
        ("case", cases),
    ];
    if !fabric.bonds.is_empty() {
        // Both ends of each are listed.
        counts.insert(3, ("bond", fabric.bonds.len() / 2));
    }
    if !fabric.chains.functions.is_empty() {
        counts.insert(3, ("function", fabric.chains.functions.len()));
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
    let (source, fabric) = file::read_or_make(&args.file, None)?;
    let (changes, moved) = super::instance::changes(&fabric)?;
    // A file may describe a network alone.
    let plan = if fabric.experiments.is_empty() {
        None
    } else {
        let plan = lab::plan(&fabric, &super::measure::options(&args.selection)?)?;
        lab::check_kernel(&plan).map_err(|error| explain(&source, error))?;
        Some(plan)
    };
    let runs = plan
        .as_ref()
        .map_or_else(|| "0 runs".to_owned(), |plan| format!("{}, {}", plan.runs_in_words(), plan.time_in_words()));
    for note in &moved {
        eprintln!("note: {note}");
    }
    match format {
        Format::Json => print_json(&json!({ "fabric": fabric::in_units(&fabric), "up": changes, "runs": plan })),
        Format::Csv => put(&plan.map_or_else(String::new, |plan| plan.csv())),
        Format::Table => {
            let table = plan.map_or_else(String::new, |plan| plan.table());
            let head = format!("{}: {}\nup:  {}\nrun: {runs}\n", source.name, summary(&fabric), changes.plan());
            put(&(fitting(&head) + &table))
        }
    }
}

/// Prints the JSON Schema of fabric files.
pub fn schema() -> Result<(), Report> {
    print_json(&fabric::schema())
}
