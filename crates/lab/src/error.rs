//! What can go wrong between a plan and its report.

use std::io::ErrorKind;
use std::path::PathBuf;

use crate::measure::carried::Excess;
use crate::measure::hosts::NoHostCosts;
use crate::pattern::NoPairs;

/// Why there are no results. [`Error::hint`] says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file has no experiments at all.
    #[error("{fabric}: the file has no experiments, so there is nothing to run")]
    NoExperiments {
        /// Name of the fabric.
        fabric: String,
    },
    /// `only` names an experiment that the file does not have.
    #[error("there is no experiment {name:?} in {fabric}; it has {known}")]
    UnknownExperiment {
        /// What was asked for.
        name: String,
        /// Name of the fabric.
        fabric: String,
        /// What there is, joined by commas.
        known: String,
    },
    /// A run was to be captured, and no case is one of traffic that can be simulated.
    #[error("there is nothing to capture: no experiment has traffic that can be simulated")]
    NothingToCapture,
    /// No experiment has a case of that name.
    #[error("there is no case `{case}`; there are: {known}")]
    UnknownCase {
        /// What was asked for.
        case: String,
        /// What there is.
        known: String,
    },
    /// A case has no such run.
    #[error("there is no run {repeat} of that case; it has {repeats}")]
    UnknownRepeat {
        /// What was asked for.
        repeat: u32,
        /// How many there are.
        repeats: u32,
    },
    /// Live is to be held against simulated, and one of them is missing.
    #[error("{network}: nothing to compare, since no case ran both live and simulated{}{reasons}", if reasons.is_empty() { "" } else { ": " })]
    NothingToCompare {
        /// Name of the fabric.
        network: String,
        /// Which cases one driver leaves out, and why; empty if a driver was not asked to run.
        reasons: String,
    },
    /// Two folders of results have no experiment and case in common.
    #[error("{a} and {b} have nothing in common: no case of the same experiment was run by the same driver in both")]
    NothingInCommon {
        /// The first folder.
        a: String,
        /// The second one.
        b: String,
    },
    /// Two folders have runs of the same experiments, by different drivers.
    #[error(
        "{a} has {of_a} runs and {b} has {of_b} ones: they are held against each other if both are of the same file and seed, but {reason}"
    )]
    OtherDrivers {
        /// The first folder.
        a: String,
        /// The second one.
        b: String,
        /// Who drove its runs.
        of_a: String,
        /// Who drove those of the second one.
        of_b: String,
        /// Why they are not held against each other.
        #[source]
        reason: NotJoined,
    },
    /// What is asked of the controllers cannot be simulated.
    #[error("experiment {experiment:?} ({case}) cannot be simulated: {reason}")]
    NotSimulated {
        /// The experiment.
        experiment: String,
        /// The case's labels.
        case: String,
        /// Why not.
        reason: &'static str,
    },
    /// What is asked of the controllers, or of hosts behind devices of the machine, cannot be run live.
    #[error("experiment {experiment:?} ({case}) cannot run live: {reason}")]
    NotLive {
        /// The experiment.
        experiment: String,
        /// The case's labels.
        case: String,
        /// Why not.
        reason: &'static str,
    },
    /// A controller did not start, or did not do what a run needs of it.
    #[error("{experiment}, {case}, repeat {repeat}: {message}")]
    Controllers {
        /// The experiment.
        experiment: String,
        /// The case's labels.
        case: String,
        /// Which repetition, from 1.
        repeat: u32,
        /// What happened, and the last words of the controller if it had any.
        message: String,
    },
    /// A pattern yields no pairs of hosts.
    #[error("experiment {experiment:?} ({case}): {reason}")]
    Pattern {
        /// The experiment.
        experiment: String,
        /// The case's labels.
        case: String,
        /// Why.
        #[source]
        reason: NoPairs,
    },
    /// A case was to be simulated in which time would stand still.
    #[error(
        "experiment {experiment:?} ({case}) cannot be simulated: the flow {flow} crosses only links without rate and delay, on which no time passes"
    )]
    StandsStill {
        /// The experiment.
        experiment: String,
        /// The case's labels.
        case: String,
        /// `h1 -> h2`
        flow: String,
    },
    /// A case was to be simulated in which packets would have to be routed.
    #[error(
        "experiment {experiment:?} ({case}) cannot be simulated: the flow {flow} is between two subnets, and simulated hosts are no routers"
    )]
    Routed {
        /// The experiment.
        experiment: String,
        /// The case's labels.
        case: String,
        /// `h1 -> h2`
        flow: String,
    },
    /// An expectation looks at no case, so it could never fail.
    #[error("line {line}: the expectation `{text}` of experiment {experiment:?} matches none of its cases")]
    ExpectationMatchesNothing {
        /// The experiment.
        experiment: String,
        /// As written.
        text: String,
        /// Line of the file.
        line: usize,
    },
    /// An expectation is about something that its driver cannot know.
    #[error(
        "line {line}: the expectation `{text}` of experiment {experiment:?} cannot be measured: {driver} runs do not know {metric}"
    )]
    ExpectationCannotBeMeasured {
        /// The experiment.
        experiment: String,
        /// As written.
        text: String,
        /// Line of the file.
        line: usize,
        /// The metric's name.
        metric: &'static str,
        /// `live` or `sim`.
        driver: &'static str,
    },
    /// Hosts were to have a congestion control that the machine's kernel does not have.
    #[error(
        "experiment {experiment:?} ({case}) cannot run live here: this kernel has no congestion control `{control}`, only {known}"
    )]
    NoCongestionControl {
        /// The experiment.
        experiment: String,
        /// The case's labels.
        case: String,
        /// Its name.
        control: &'static str,
        /// Those that it has, joined by commas.
        known: String,
    },
    /// A program that live traffic needs is not installed.
    #[error("{program} cannot be started: {source}")]
    MissingProgram {
        /// Its name.
        program: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A flow of a live run failed.
    #[error("{experiment}, {case}, repeat {repeat}: flow {flow} failed in host {host}: {message}")]
    Flow {
        /// The experiment.
        experiment: String,
        /// The case's labels.
        case: String,
        /// Which repetition, from 1.
        repeat: u32,
        /// `h1 -> h2`
        flow: String,
        /// Where the failing program ran.
        host: String,
        /// iperf3's own words where it had any.
        message: String,
    },
    /// The live network itself failed.
    #[error("live: {0}")]
    Live(#[from] live::Error),
    /// A host's TCP could not be set up as the file says.
    #[error("host {host}: its TCP could not be set up: {message}")]
    Tuning {
        /// The host.
        host: String,
        /// What the shell said.
        message: String,
    },
    /// More was delivered than links carry: what was measured is wrong.
    #[error("{experiment}, {case}, repeat {repeat} ({driver}): {excess}")]
    MoreThanCarried {
        /// The experiment.
        experiment: String,
        /// The case's labels.
        case: String,
        /// Which repetition, from 1.
        repeat: u32,
        /// `live` or `sim`.
        driver: &'static str,
        /// Where, and how much.
        #[source]
        excess: Box<Excess>,
    },
    /// There were more flows in the network than the fabric counts.
    #[error(
        "{experiment}, {case}, repeat {repeat}: {frames} frames were of flows that the fabric did not count, so goodput is not known"
    )]
    Uncounted {
        /// The experiment.
        experiment: String,
        /// The case's labels.
        case: String,
        /// Which repetition, from 1.
        repeat: u32,
        /// How many of their frames came.
        frames: u64,
    },
    /// More flows than live processes can carry.
    #[error("experiment {experiment:?} ({case}): {flows} flows at once are more than {limit}, the most that run live")]
    TooManyLiveFlows {
        /// The experiment.
        experiment: String,
        /// The case's labels.
        case: String,
        /// How many the pattern makes.
        flows: usize,
        /// How many there can be.
        limit: usize,
    },
    /// The threads for simulated runs could not be started.
    #[error("{threads} threads could not be started: {message}")]
    Threads {
        /// How many were asked for.
        threads: usize,
        /// What the system said.
        message: String,
    },
    /// Somebody wanted the runs to end.
    #[error("interrupted")]
    Interrupted,
    /// There are no runs to go on with.
    #[error("there is nothing to go on with in {folder}", folder = folder.display())]
    NothingToResume {
        /// Where they would be.
        folder: PathBuf,
    },
    /// What was kept is of another file.
    #[error("{file} is not the file any more whose runs are kept in {folder}", folder = folder.display())]
    ResumedOther {
        /// Where they are kept.
        folder: PathBuf,
        /// The file now.
        file: String,
    },
    /// Another program keeps its runs there.
    #[error("another run is under way that keeps its results in {folder}", folder = folder.display())]
    InUse {
        /// Where.
        folder: PathBuf,
    },
    /// What was kept was asked for with other options.
    #[error("the runs kept in {folder} were asked for otherwise: {what} differs", folder = folder.display())]
    ResumedOtherwise {
        /// Where they are kept.
        folder: PathBuf,
        /// What differs, as it stands on the command line.
        what: &'static str,
    },
    /// A file does not say what hosts cost.
    #[error(transparent)]
    Machine(#[from] NoHostCosts),
    /// A file of results could not be read or written.
    #[error("{action} {path}: {source}", path = path.display())]
    File {
        /// `reading` or `writing`.
        action: &'static str,
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file of results is larger than any that is read.
    #[error("{path}: larger than {limit} bytes, the most that is read of a file of results", path = path.display())]
    TooLarge {
        /// Which one.
        path: PathBuf,
        /// The most, in bytes.
        limit: u64,
    },
    /// Samples are not those of the runs that are summed up beside them.
    #[error("{path}: not the samples of the runs that the summary beside it is of: {reason}", path = path.display())]
    Samples {
        /// The file.
        path: PathBuf,
        /// What is missing or too much.
        reason: String,
    },
    /// A file of results is not what [`crate::Results::write`] writes.
    #[error("{path}, line {line}: not a file of results: {source}", path = path.display())]
    Format {
        /// Which one.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What was wrong.
        source: serde_json::Error,
    },
}

impl Error {
    /// What of the fabric file it is about, as [`live::Error::place_in_file`].
    pub fn place_in_file(&self) -> Vec<String> {
        match self {
            Self::NotSimulated { experiment, .. }
            | Self::NotLive { experiment, .. }
            | Self::NoCongestionControl { experiment, .. }
            | Self::Routed { experiment, .. }
            | Self::StandsStill { experiment, .. }
            | Self::Pattern { experiment, .. } => vec!["experiments".to_owned(), experiment.clone()],
            Self::Live(error) => error.place_in_file(),
            _ => Vec::new(),
        }
    }

    /// What the user can do, if that is known.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoExperiments { .. } => "add `experiments:`; `heddle new` writes a file with an example",
            Self::UnknownExperiment { .. } | Self::UnknownCase { .. } => "use one of the names above",
            Self::UnknownRepeat { .. } => "runs are counted from 1; `repeat:` in the file says how many there are",
            Self::NothingToCapture => {
                "name an experiment with `traffic:`, or capture in a running network, without --sim"
            }
            Self::NothingToCompare { reasons, .. } if reasons.is_empty() => {
                "name a fabric file, or a folder of `heddle run` without --sim and --live; `heddle report --compare A B` is of two folders"
            }
            Self::NothingToCompare { .. } => "compare experiments that both drivers can run",
            Self::NothingInCommon { .. } => {
                "name two folders of runs of the same file, or of one that was changed a little"
            }
            Self::OtherDrivers { reason, .. } => {
                let same = match reason {
                    NotJoined::OtherSeed { .. } => "with the same --seed",
                    NotJoined::NoCaseOfBoth => "with the same --experiment and --case",
                    _ => "from the same file",
                };
                return Some(format!(
                    "run both {same}; `heddle run FILE` without --live and --sim runs both, and so does `heddle compare FILE`"
                ));
            }
            Self::NotSimulated { .. } => "run it --live",
            Self::Routed { .. } => "run it --live, or have hosts of one subnet talk to each other",
            Self::NoCongestionControl { control, .. } => {
                return Some(format!(
                    "load it, as with `modprobe tcp_{control}`; or choose other cases with --case, or leave live runs out with --sim"
                ));
            }
            Self::NotLive { .. } => "run it with --sim, or change what the reason names",
            Self::Controllers { .. } => "`heddle controller` lets you try the same by hand",
            Self::Pattern { reason, .. } => reason.hint(),
            Self::StandsStill { .. } => "give the links a rate or a delay, or run it --live",
            Self::ExpectationMatchesNothing { .. } => {
                "write each label as under `vary`, with the value as written there"
            }
            Self::ExpectationCannotBeMeasured { driver: "sim", .. } => "limit it to the live runs: `driver: live`",
            Self::ExpectationCannotBeMeasured { .. } => {
                "limit it to the simulated runs, or expect `retransmits` instead"
            }
            Self::MissingProgram { program, .. } => {
                let package = if *program == "ip" { "iproute2" } else { program };
                return Some(format!("install it: apt-get install {package}; or leave live runs out with --sim"));
            }
            Self::Flow { .. } => "`heddle up` and `heddle exec` let you try the same by hand",
            Self::Live(error) => return error.hint(),
            Self::Tuning { .. } => {
                "this kernel lacks a setting, or refuses its value; `heddle run --sim` leaves live runs out"
            }
            Self::MoreThanCarried { .. } => {
                "this is a defect of Heddle, neither of the file nor of the machine: please report it, with the file and all of this message"
            }
            Self::Uncounted { .. } => {
                return Some(format!(
                    "no more than {} flows at once are counted for certain; use fewer flows, or run it with --sim",
                    live::FLOWS_COUNTED_MAX
                ));
            }
            Self::TooManyLiveFlows { .. } => "use a pattern with fewer flows, or run it with --sim",
            Self::Interrupted => "`heddle run --resume` goes on with the runs that are left",
            Self::NothingToResume { .. } => {
                "leave --resume out; only runs that were interrupted or failed can be gone on with"
            }
            Self::ResumedOther { .. } => "leave --resume out to run all of it anew, or give the file its old text",
            Self::InUse { .. } => "wait until it has ended, or name another folder with --results",
            Self::ResumedOtherwise { .. } => {
                "give the same command as before, with --resume; or leave --resume out to run all of it anew"
            }
            Self::Machine(_) => "`heddle calibrate FILE` measures this machine and writes such a file",
            Self::Threads { .. } => "ask for fewer threads",
            Self::TooLarge { .. } | Self::File { action: "reading", .. } => {
                "name a folder that `heddle run` has written"
            }
            Self::File { source, .. }
                if matches!(source.kind(), ErrorKind::NotADirectory | ErrorKind::AlreadyExists) =>
            {
                "it is a file, and results are a folder: name another one with --results, or move the file away"
            }
            Self::File { .. } => "check that the folder can be written to and that there is space left",
            Self::Samples { .. } => "take the file from a copy of the folder, or run the experiment again",
            Self::Format { .. } => "the folder may have been written by another version; run the experiment again",
        };
        Some(hint.to_owned())
    }
}

/// Why two sets of results are not those of one file's live and simulated runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotJoined {
    /// One driver is in both.
    #[error("they are not live runs and simulated ones")]
    SameDriver,
    /// At least one folder has no copy of the file, as those of earlier versions.
    #[error("of which file one of them is, is not known: it has no fabric.yaml")]
    UnknownFile,
    /// The files have other texts.
    #[error("they are of two files, or of a file that was changed in between")]
    OtherFile,
    /// This version finds other experiments and cases in the file.
    #[error("they have cases that their file does not have, as this version reads it")]
    OtherCases,
    /// The runs do not form pairs.
    #[error("they have other seeds, {live} and {sim}, so that their runs are no pairs")]
    OtherSeed {
        /// That of the live runs.
        live: u64,
        /// That of the simulated ones.
        sim: u64,
    },
    /// Each has cases, and none of them is one of the other's.
    #[error("no case is in both")]
    NoCaseOfBoth,
}

impl miette::Diagnostic for Error {
    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        self.hint().map(|hint| Box::new(hint) as Box<dyn std::fmt::Display>)
    }
}
