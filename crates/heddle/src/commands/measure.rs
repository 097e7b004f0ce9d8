//! `run` and `report`: experiments, and what came of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fabric::{DriverKind, Fabric, Source};
use lab::{HostCosts, Journal, Options, Ran, Results, SideBySide};
use miette::{Context, IntoDiagnostic, Report, miette};

use super::describe::note_doubts;
use super::{file, located, signals};
use crate::Ending;
use crate::cli::{self, Choice, Format, Run, Running, Selection};
use crate::natural;
use crate::output::put;

/// Runs the experiments of a file, prints the table, writes the report.
pub fn run(args: &Run, format: Format) -> Result<Ending, Report> {
    let work = Work::prepare(&args.file.file, options(&args.selection)?, &args.running, None)?;
    let interrupted = interruption()?;
    let Some(measured) = work.measure(args.running.resume, &interrupted)? else { return Ok(Ending::Interrupted) };
    print(&measured.results, format).map_err(|error| kept_in(&measured.folder, &error))?;
    point_at_report(&measured.folder);
    let passed = measured.results.passed();
    measured.finish(passed)
}

/// What came of the runs of a file, and the folder that it was written into.
pub(super) struct Measured {
    pub results: Results,
    pub folder: PathBuf,
    /// Why not all of them took place.
    pub stopped: Option<lab::Error>,
    pub journal: Journal,
}

impl Measured {
    /// How the command ends. If not all runs took place, it says what is kept of them; else they need no journal any more.
    pub fn finish(self, passed: bool) -> Result<Ending, Report> {
        match self.explain_stop() {
            None => {
                self.let_go_of_journal()?;
                Ok(if passed { Ending::Passed } else { Ending::Missed })
            }
            Some(Stop::Interrupted(line)) => {
                eprintln!("{line}");
                Ok(Ending::Interrupted)
            }
            Some(Stop::Failed(report)) => Err(report),
        }
    }

    /// Why not all runs took place, and what is kept.
    pub fn explain_stop(&self) -> Option<Stop> {
        let error = self.stopped.as_ref()?;
        let judged =
            if self.results.verdicts().next().is_some() { ", by which alone expectations are judged" } else { "" };
        let kept = format!("{} of {} runs are kept{judged}", self.results.records.len(), self.results.planned_runs);
        Some(if matches!(error, lab::Error::Interrupted) {
            Stop::Interrupted(format!("Interrupted: {kept}; {GO_ON}"))
        } else {
            let hint = error.hint().map_or_else(String::new, |hint| hint + "; ");
            Stop::Failed(miette!(help = format!("{hint}{GO_ON}"), "{kept}, then: {error}"))
        })
    }

    /// Nothing is left to go on with.
    pub fn let_go_of_journal(self) -> Result<(), Report> {
        Ok(self.journal.finish()?)
    }
}

/// What `--resume` is for.
const GO_ON: &str = "the same command with --resume goes on with the others";

/// Why runs did not take place.
pub(super) enum Stop {
    /// Somebody wanted it so. What to print.
    Interrupted(String),
    Failed(Report),
}

/// A file whose experiments make sense, and what is asked of them; nothing has run yet.
pub(super) struct Work {
    source: Source,
    pub fabric: Fabric,
    options: Options,
    folder: PathBuf,
    overwrite: bool,
}

impl Work {
    /// Reads a file and plans its runs. Their results go to `folder`; if that is `None`, to where the command line or the fabric's name says.
    pub fn prepare(
        path: &Path,
        mut options: Options,
        running: &Running,
        folder: Option<&Path>,
    ) -> Result<Self, Report> {
        let (source, fabric) = file::read(path)?;
        options.hosts = hosts(&options, running.machine.as_deref())?;
        if let Some(threads) = running.threads {
            options.threads = usize::from(threads);
        }
        options.progress = !running.quiet;
        let below = folder.map(|folder| folder.join(&fabric.name)).or_else(|| running.results.clone());
        let folder = below.unwrap_or_else(|| PathBuf::from("results").join(&fabric.name));
        // A plan that makes no sense shall not cost what an earlier call has left.
        let plan = lab::plan(&fabric, &options).map_err(|error| explain(&source, error))?;
        lab::check_kernel(&plan).map_err(|error| explain(&source, error))?;
        Ok(Self { source, fabric, options, folder, overwrite: running.overwrite })
    }

    /// Whether an earlier call has left runs to go on with.
    pub fn has_journal(&self) -> bool {
        self.folder.join(lab::JOURNAL).exists()
    }

    /// The results of all its runs, if an earlier call has measured just these.
    pub fn finished(&self) -> Option<Results> {
        lab::load_finished(&self.folder, &self.source, &self.options)
    }

    /// Why there is nothing to go on with, if the runs that are there are finished ones by the other driver.
    fn nothing_to_resume(&self, error: lab::Error) -> Report {
        let lab::Error::NothingToResume { .. } = error else { return error.into() };
        match lab::load(&self.folder) {
            Ok(there) if there.drivers.iter().all(|driver| !self.options.drivers.contains(driver)) => miette!(
                help = format!(
                    "leave --resume out: what is there is kept under another name; `heddle compare {}` runs both, live and simulated, side by side",
                    self.source.name
                ),
                "{error}: its {} runs are finished",
                there.drivers_in_words()
            ),
            _ => error.into(),
        }
    }

    /// Runs the experiments and writes their results into a folder. Each run is kept there when it ends. `None`: it was interrupted before one had.
    pub fn measure(&self, resume: bool, interrupted: &Arc<AtomicBool>) -> Result<Option<Measured>, Report> {
        let Self { source, fabric, options, folder, overwrite } = self;
        if options.progress {
            note_doubts(source, fabric, &options.drivers);
        }
        if !resume
            && !overwrite
            && let Some(aside) = lab::set_aside(folder)?
        {
            eprintln!("Earlier results: {}", shown(&aside).display());
        }
        let journal = if resume { Journal::resume } else { Journal::begin }(folder, source, options)
            .map_err(|error| self.nothing_to_resume(error))?;
        if resume && options.progress {
            let plan = lab::plan(fabric, options).map_err(|error| explain(source, error))?;
            eprintln!("{}", going_on(journal.kept(), &plan));
        }
        let journal = journal.until(Arc::clone(interrupted));
        let Ran { results, stopped } = match lab::run(source, fabric, options, &journal) {
            Ok(ran) => ran,
            Err(error) => {
                journal.abandon()?;
                if matches!(error, lab::Error::Interrupted) {
                    eprintln!("Interrupted: no run had ended");
                    return Ok(None);
                }
                return Err(explain(source, error));
            }
        };
        results.write(folder)?;
        Ok(Some(Measured { results, folder: folder.clone(), stopped, journal }))
    }
}

/// What of a plan is done already, and what is left.
fn going_on(kept: usize, plan: &lab::Plan) -> String {
    let most = plan.runs.len();
    let left = most.saturating_sub(kept);
    let at_most = if plan.runs.iter().any(|run| run.is_optional) { "at most " } else { "" };
    format!("Going on: {kept} of {} are kept, {at_most}{left} are left", plan.runs_in_words())
}

/// What is set when somebody wants runs to end.
pub(super) fn interruption() -> Result<Arc<AtomicBool>, Report> {
    let interrupted = Arc::default();
    signals::await_slow_end(&interrupted, "a report of what there is (`heddle run --resume` goes on)")?;
    Ok(interrupted)
}

/// What is wrong, at its place in the file if it has one.
pub(super) fn explain(source: &Source, error: lab::Error) -> Report {
    let located = located(source, &error.place_in_file(), &error.to_string(), error.hint());
    located.map_or_else(|| error.into(), Report::new)
}

/// A path as short as it can be written here.
fn shown(path: &Path) -> &Path {
    std::env::current_dir().ok().and_then(|here| path.strip_prefix(here).ok()).unwrap_or(path)
}

/// What simulated hosts cost, by the file that was named.
pub(super) fn hosts(options: &Options, machine: Option<&Path>) -> Result<Option<HostCosts>, Report> {
    let Some(machine) = machine else { return Ok(None) };
    if !options.drivers.contains(&DriverKind::Sim) {
        return Err(miette!(
            help = "leave --live or --machine out",
            "--machine says what simulated hosts cost, and nothing is simulated with --live"
        ));
    }
    Ok(Some(HostCosts::read(machine).map_err(lab::Error::from)?))
}

/// Makes the report of a results folder anew.
pub fn report(args: &cli::Report, format: Format) -> Result<Ending, Report> {
    let Some(folder) = &args.folder else { return side_by_side(args, format) };
    let results = load(folder)?;
    if let Some(page) = &args.write {
        write_page(page, &results.html())?;
    } else {
        results.write_report(folder)?;
    }
    print(&results, format)?;
    match &args.write {
        Some(page) => eprintln!("\nReport: {}", page.display()),
        None => point_at_report(folder),
    }
    Ok(if results.passed() { Ending::Passed } else { Ending::Missed })
}

fn write_page(path: &Path, html: &str) -> Result<(), Report> {
    std::fs::write(path, html).into_diagnostic().wrap_err_with(|| format!("cannot write {}", path.display()))
}

/// Two folders of results beside each other.
fn side_by_side(args: &cli::Report, format: Format) -> Result<Ending, Report> {
    let [a, b] = &args.compare[..] else { return Err(second_folder(args.compare.first().map(PathBuf::as_path))) };
    let (of_a, of_b) = (load(a)?, load(b)?);
    if let Ok(joined) = of_a.joined(&of_b) {
        if let Some(page) = &args.write {
            write_page(page, &joined.html())?;
        }
        print(&joined, format)?;
        return Ok(if joined.passed() { Ending::Passed } else { Ending::Missed });
    }
    let both = SideBySide::of((a.display().to_string(), &of_a), (b.display().to_string(), &of_b))?;
    if let Some(page) = &args.write {
        write_page(page, &both.html())?;
    }
    put(&match format {
        Format::Table => both.table(),
        Format::Json => both.json(),
        Format::Csv => both.csv(),
    })?;
    Ok(Ending::Passed)
}

/// The results of a folder; if there are none, the error names those that are below it or beside it.
fn load(folder: &Path) -> Result<Results, Report> {
    const NAMED_MAX: usize = 8;
    if folder.join(lab::SUMMARY).exists() {
        return Ok(lab::load(folder)?);
    }
    let beside = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let places = [folder, beside, Path::new("results")];
    let mut there: Vec<String> = Vec::new();
    for found in places.into_iter().flat_map(results_in) {
        if !there.contains(&found) {
            there.push(found);
        }
    }
    if there.is_empty() {
        return if folder.is_dir() { Err(nothing_measured(folder)) } else { Ok(lab::load(folder)?) };
    }
    let more = match there.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = there.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    Err(miette!(
        help = format!("results are in {named}{more}, as for `heddle report {}`", there[0]),
        "there are no results in {}: it has no {}",
        folder.display(),
        lab::SUMMARY
    ))
}

/// A folder without results, where there are no others either.
fn nothing_measured(folder: &Path) -> Report {
    let folder_name = folder.display();
    let hint = if folder.join(lab::JOURNAL).exists() {
        "runs are under way there, or were ended without a word: `heddle run FILE --resume` goes on with them"
    } else {
        "`heddle run FILE` writes results into results/NAME"
    };
    miette!(help = hint, "there are no results in {folder_name}: nothing was measured there")
}

/// Folders of results in a folder, as they are named from here.
fn results_in(folder: &Path) -> Vec<String> {
    let entries = folder.read_dir().into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let results = entries.filter(|path| path.join(lab::SUMMARY).exists());
    let mut names: Vec<String> =
        results.map(|path| path.strip_prefix(".").unwrap_or(&path).display().to_string()).collect();
    names.sort_by(|a, b| natural::compare(a, b));
    names
}

/// What `--compare` lacks, with an example of results that are there.
fn second_folder(first: Option<&Path>) -> Report {
    let beside = match first.and_then(Path::parent) {
        None => Path::new("results"),
        Some(here) if here.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
    };
    let name = |path: &Path| path.strip_prefix(".").unwrap_or(path).display().to_string();
    let mut others = results_in(beside);
    others.retain(|path| Some(path) != first.map(name).as_ref());
    // Earlier results of a file are called like the last ones.
    let is_earlier = |path: &String| first.is_some_and(|first| path.starts_with(&name(first)));
    let earlier = others.iter().position(is_earlier).unwrap_or(0);
    let at = |number: usize, otherwise: &str| others.get(number).cloned().unwrap_or_else(|| otherwise.to_owned());
    let (lacks, a, b) = match first {
        Some(first) => ("got one: the second one is missing", name(first), at(earlier, "OTHER")),
        None => ("got none: both are missing", at(0, "results/lab"), at(1, "OTHER")),
    };
    let what = "each is a folder that `heddle run` wrote; earlier results of a file stand beside its last ones, with their time in the name";
    miette!(
        help = format!("`heddle report --compare {a} {b}`; {what}"),
        "--compare takes two folders of results, and {lacks}"
    )
}

/// What the command line's selection means to the lab.
pub fn options(selection: &Selection) -> Result<Options, Report> {
    let drivers = match (selection.sim, selection.live) {
        (true, _) => vec![DriverKind::Sim],
        (_, true) => vec![DriverKind::Live],
        _ => vec![DriverKind::Live, DriverKind::Sim],
    };
    options_of(drivers, &selection.choice)
}

pub(super) fn options_of(drivers: Vec<DriverKind>, choice: &Choice) -> Result<Options, Report> {
    // Simulated runs need no other process, so they need not know where this one's program is: they go on without /proc.
    let program = if drivers == [DriverKind::Sim] { PathBuf::new() } else { this_program()? };
    Ok(Options {
        drivers,
        seed: choice.seed,
        only: choice.experiments.clone(),
        cases: choice.cases.clone(),
        program,
        version: env!("HEDDLE_VERSION").to_owned(),
        ..Options::default()
    })
}

/// The path of this program: the daemon of a running network is the same one.
pub fn this_program() -> Result<PathBuf, Report> {
    std::env::current_exe().into_diagnostic().wrap_err("cannot find the path of this program")
}

/// What cannot be printed is not lost.
fn kept_in(folder: &Path, error: &Report) -> Report {
    let causes = error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ");
    let folder = folder.display();
    miette!(help = format!("the results are in {folder}: `heddle report {folder}` prints them"), "{causes}")
}

fn print(results: &Results, format: Format) -> Result<(), Report> {
    put(&match format {
        Format::Table => results.table(),
        Format::Json => results.json(),
        Format::Csv => results.csv(),
    })
}

pub(super) fn point_at_report(folder: &Path) {
    eprintln!("\nReport: {}", folder.join(lab::REPORT).display());
}
