//! A bar on stderr with the time left.
//!
//! What is left is estimated from what the runs under way and those to come take on their driver's clock, and from how long those took that have ended: live runs
//! last as long as planned and a little; a simulated second takes whatever it took in the same case, else in the same experiment, else in all of them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::plan::PlannedRun;
use crate::terminal;

/// How runs go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RunTime {
    /// One after the other, by the machine's clock.
    Live,
    /// One after the other, and each until everything was asked: its planned time is an estimate.
    Asking,
    /// So many side by side.
    Simulated(usize),
}

/// Progress through a list of runs, weighed by their length.
pub(crate) struct Progress {
    bar: ProgressBar,
    estimate: Arc<Mutex<Estimate>>,
    started: Instant,
}

/// Weight units a second of a run.
const RESOLUTION: f64 = 1_000.0;
/// A live run takes so much longer than it measures, until it is known.
const OVERHEAD: Duration = Duration::from_secs(1);

impl Progress {
    /// A bar called `what` over these runs. Nothing is drawn unless `visible` and stderr is a terminal.
    pub fn start(visible: bool, what: &'static str, run_time: RunTime, runs: &[&PlannedRun]) -> Self {
        let visible = visible && !runs.is_empty();
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(runs.iter().map(|run| weight(run.seconds)).sum()), target);
        let estimate = Arc::new(Mutex::new(Estimate::new(run_time, runs)));
        let started = Instant::now();
        let shown = Arc::clone(&estimate);
        let style = ProgressStyle::with_template("{line}").expect("the template is a constant").with_key(
            "line",
            move |state: &ProgressState, text: &mut dyn Write| {
                let columns = terminal::stderr_columns().unwrap_or(usize::MAX);
                let line = line(columns, what, f64::from(state.fraction()), &lock(&shown), started.elapsed());
                let _ = text.write_str(&line);
            },
        );
        bar.set_style(style);
        if visible {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self { bar, estimate, started }
    }

    /// A run begins.
    pub fn begin(&self, run: &PlannedRun) {
        let mut estimate = lock(&self.estimate);
        estimate.under_way = format!("{}: {}", run.experiment, run.labels);
        estimate.begin(run.number, self.started.elapsed());
    }

    /// It is over.
    pub fn end(&self, run: &PlannedRun) {
        lock(&self.estimate).end(run.number, self.started.elapsed());
        self.bar.inc(weight(run.seconds));
    }

    /// A run is not needed.
    pub fn leave_out(&self, run: &PlannedRun) {
        lock(&self.estimate).leave_out(run.number);
        self.bar.set_length(self.bar.length().unwrap_or_default().saturating_sub(weight(run.seconds)));
    }
}

impl Drop for Progress {
    /// Takes the bar away, also when a run has failed.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn lock(estimate: &Mutex<Estimate>) -> MutexGuard<'_, Estimate> {
    estimate.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The columns of a bar: no more than these, and none at all where it would have less.
const BAR: std::ops::RangeInclusive<usize> = 6..=32;

/// What is drawn: how far it is, and which case began last, which is cut where `columns` are too few for it, so that no line ever wraps.
fn line(columns: usize, what: &str, done: f64, estimate: &Estimate, now: Duration) -> String {
    let percent = (done * 100.0).floor();
    let figures = format!("{percent:>3} %  {}  {}", estimate.count(), estimate.left_in_words(now));
    let mut line = format!("{what:>10} ");
    // For the bar with its brackets, and the case.
    let room = columns.saturating_sub(line.chars().count() + figures.chars().count() + 3);
    let bar = (room / 3).min(*BAR.end());
    if bar >= *BAR.start() {
        let full = (done * bar as f64) as usize;
        let head = if full < bar { ">" } else { "" };
        let _ = write!(line, "[{:<bar$}] ", "=".repeat(full) + head);
    }
    line += &figures;
    let room = columns.saturating_sub(line.chars().count() + 2);
    if !estimate.under_way.is_empty() && room >= CASE_MIN {
        let _ = write!(line, "  {}", terminal::cut_words(&estimate.under_way, room));
    }
    terminal::cut(&line, columns)
}

/// Less of a case's name says nothing.
const CASE_MIN: usize = 6;

fn weight(seconds: f64) -> u64 {
    (seconds * RESOLUTION).round().max(1.0) as u64
}

/// A run that has not ended.
#[derive(Clone, Copy, Debug)]
struct Left {
    /// By its driver's clock.
    seconds: f64,
    case: (usize, usize),
    /// Whether it takes place only if its case needs it.
    is_optional: bool,
    /// When it began, if it has.
    begun: Option<Duration>,
}

/// Runs that have ended.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    runs: u32,
    /// By their driver's clock.
    seconds: f64,
    /// By that of the machine.
    took: f64,
}

impl Done {
    fn add(&mut self, seconds: f64, took: f64) {
        self.runs += 1;
        self.seconds += seconds;
        self.took += took;
    }

    /// What a second of a run takes; `None`: nothing is known of that.
    fn rate(&self) -> Option<f64> {
        (self.runs > 0 && self.seconds > 0.0).then(|| self.took / self.seconds)
    }
}

/// How much time is left. Moments are times since the start.
#[derive(Debug)]
struct Estimate {
    run_time: RunTime,
    /// The case that began last.
    under_way: String,
    left: BTreeMap<usize, Left>,
    all: Done,
    by_case: BTreeMap<(usize, usize), Done>,
}

impl Estimate {
    fn new(run_time: RunTime, runs: &[&PlannedRun]) -> Self {
        let left = |run: &&PlannedRun| {
            let is_optional = run.is_optional;
            (run.number, Left { seconds: run.seconds, case: run.at, is_optional, begun: None })
        };
        let left = runs.iter().map(left).collect();
        Self { run_time, under_way: String::new(), left, all: Done::default(), by_case: BTreeMap::new() }
    }

    fn begin(&mut self, number: usize, now: Duration) {
        if let Some(left) = self.left.get_mut(&number) {
            left.begun = Some(now);
        }
    }

    fn end(&mut self, number: usize, now: Duration) {
        let Some(Left { seconds, case, begun, .. }) = self.left.remove(&number) else { return };
        let took = now.saturating_sub(begun.unwrap_or(now)).as_secs_f64();
        self.all.add(seconds, took);
        self.by_case.entry(case).or_default().add(seconds, took);
    }

    fn leave_out(&mut self, number: usize) {
        self.left.remove(&number);
    }

    /// `3 of 12 runs`, `7 of 5 to 30 runs`.
    fn count(&self) -> String {
        let needed = self.left.values().filter(|left| !left.is_optional).count();
        let (ended, all) = (self.all.runs as usize, self.left.len() + self.all.runs as usize);
        let needed = needed + ended;
        let runs = if all == 1 { "run" } else { "runs" };
        if needed == all { format!("{ended} of {all} {runs}") } else { format!("{ended} of {needed} to {all} {runs}") }
    }

    /// How long a run takes by the machine's clock, as far as that is known.
    fn takes(&self, run: &Left) -> Option<f64> {
        match self.run_time {
            RunTime::Live => {
                let more = if self.all.runs == 0 {
                    OVERHEAD.as_secs_f64()
                } else {
                    (self.all.took - self.all.seconds).max(0.0) / f64::from(self.all.runs)
                };
                Some(run.seconds + more)
            }
            RunTime::Asking => Some(run.seconds * self.rate(run).unwrap_or(1.0)),
            RunTime::Simulated(_) => self.rate(run).map(|rate| run.seconds * rate),
        }
    }

    /// What a second of such a run takes: in its case, else in its experiment, else in all.
    fn rate(&self, run: &Left) -> Option<f64> {
        let of_experiment = || {
            let mut sum = Done::default();
            for (_, done) in self.by_case.range((run.case.0, 0)..=(run.case.0, usize::MAX)) {
                sum = Done {
                    runs: sum.runs + done.runs,
                    seconds: sum.seconds + done.seconds,
                    took: sum.took + done.took,
                };
            }
            sum.rate()
        };
        let of_case = self.by_case.get(&run.case).and_then(Done::rate);
        of_case.or_else(of_experiment).or_else(|| self.all.rate())
    }

    /// Seconds until all is done, and until what is needed for sure is done; `None`: nothing is known of that yet.
    fn seconds_left(&self, now: Duration) -> Option<f64> {
        let mut sum = 0.0;
        let mut longest: f64 = 0.0;
        for run in self.left.values() {
            let elapsed = run.begun.map_or(0.0, |begun| now.saturating_sub(begun).as_secs_f64());
            // One that takes longer than the others did may take as long again.
            let rest = (self.takes(run)? - elapsed).max(0.0);
            sum += rest;
            longest = longest.max(rest);
        }
        let abreast = match self.run_time {
            RunTime::Live | RunTime::Asking => 1,
            RunTime::Simulated(threads) => threads.clamp(1, self.left.len().max(1)),
        };
        // The last ones do not share their work.
        Some((sum / abreast as f64).max(longest))
    }

    /// `2m05s left`; never nothing while something is under way.
    fn left_in_words(&self, now: Duration) -> String {
        let Some(seconds) = self.seconds_left(now) else { return "time left unknown yet".to_owned() };
        let at_most = if self.left.values().any(|left| left.is_optional) { "at most " } else { "" };
        // Whole seconds, upwards: what is under way takes some time.
        let seconds = (seconds.ceil() as u64).max(1);
        let (minutes, hours) = (seconds / 60, seconds / 3_600);
        match (hours, minutes) {
            (0, 0) => format!("{at_most}{seconds}s left"),
            (0, _) => format!("{at_most}{minutes}m{:02}s left", seconds % 60),
            _ => format!("{at_most}{hours}h{:02}m left", minutes % 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(seconds: f64, case: usize, is_optional: bool) -> Left {
        Left { seconds, case: (0, case), is_optional, begun: None }
    }

    fn estimate(run_time: RunTime, runs: &[Left]) -> Estimate {
        let left = runs.iter().copied().enumerate().collect();
        Estimate { run_time, under_way: String::new(), left, all: Done::default(), by_case: BTreeMap::new() }
    }

    #[test]
    fn no_line_is_longer_than_the_terminal_is_wide() {
        let mut of = estimate(RunTime::Simulated(2), &[left(10.0, 0, false); 120]);
        of.under_way = "scatter: staggered(0.5, 0.3), packet-scatter, window 2000, reordering 300".to_owned();
        let drawn = |columns| line(columns, "simulated", 0.5, &of, at(0.0));
        for columns in 0..200 {
            assert!(drawn(columns).chars().count() <= columns, "{columns}: {}", drawn(columns));
        }
        assert_eq!(drawn(80), " simulated [===>   ]  50 %  0 of 120 runs  time left unknown yet  scatter: \u{2026}");
        assert!(drawn(200).ends_with("reordering 300"));
        assert_eq!(drawn(60), " simulated  50 %  0 of 120 runs  time left unknown yet");
        assert_eq!(drawn(20), " simulated  50 %  0\u{2026}");
        of.under_way.clear();
        assert_eq!(
            line(usize::MAX, "live", 1.0, &of, at(0.0)),
            format!("      live [{}] 100 %  0 of 120 runs  time left unknown yet", "=".repeat(32))
        );
    }

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn live_runs_take_their_time_and_a_little_more() {
        let mut of = estimate(RunTime::Live, &[left(10.0, 0, false); 3]);
        assert_eq!(of.left_in_words(at(0.0)), "33s left");
        of.begin(0, at(0.0));
        assert_eq!(of.left_in_words(at(9.5)), "24s left", "it goes down during a run");
        assert_eq!(of.left_in_words(at(60.0)), "22s left", "the others are still to come");
        of.end(0, at(12.0));
        assert_eq!((of.left_in_words(at(12.0)), of.count()), ("24s left".to_owned(), "1 of 3 runs".to_owned()));
        of.begin(1, at(12.0));
        of.end(1, at(24.0));
        of.begin(2, at(24.0));
        assert_eq!(of.left_in_words(at(500.0)), "1s left", "never nothing while something runs");
    }

    #[test]
    fn a_simulated_second_takes_what_it_took() {
        let runs = [left(1.0, 0, false), left(1.0, 0, false), left(1.0, 1, false), left(1.0, 1, false)];
        let mut of = estimate(RunTime::Simulated(2), &runs);
        assert_eq!(of.left_in_words(at(3.0)), "time left unknown yet");
        of.begin(0, at(0.0));
        of.begin(2, at(0.0));
        of.end(0, at(60.0));
        // The other of case 0 takes a minute; those of case 1 are thought to as well, and one of them is under way.
        assert_eq!(of.left_in_words(at(60.0)), "1m00s left");
        of.end(2, at(600.0));
        assert_eq!(
            of.left_in_words(at(600.0)),
            "10m00s left",
            "case 1 takes ten minutes, and nobody shares the last run"
        );
        of.begin(3, at(600.0));
        assert_eq!(of.left_in_words(at(900.0)), "5m00s left");
    }

    #[test]
    fn runs_that_may_be_left_out_make_it_a_bound() {
        let runs = [left(100.0, 0, false), left(100.0, 0, true), left(100.0, 0, true)];
        let mut of = estimate(RunTime::Live, &runs);
        assert_eq!(
            (of.left_in_words(at(0.0)), of.count()),
            ("at most 5m03s left".to_owned(), "0 of 1 to 3 runs".to_owned())
        );
        of.begin(0, at(0.0));
        of.end(0, at(101.0));
        of.leave_out(1);
        of.leave_out(2);
        assert_eq!(of.count(), "1 of 1 run");
    }
}
