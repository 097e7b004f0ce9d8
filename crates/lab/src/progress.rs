//! A bar on stderr with the time left.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Progress through a list of runs, weighed by their length.
pub(crate) struct Progress {
    bar: ProgressBar,
}

/// Weight units a second of a run.
const RESOLUTION: f64 = 1_000.0;

impl Progress {
    /// A bar called `what` over runs of these lengths in seconds. Nothing is drawn unless `visible` and stderr is a terminal.
    pub fn start(visible: bool, what: &'static str, seconds: impl Iterator<Item = f64>) -> Self {
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(seconds.map(weight).sum()), target);
        let style = ProgressStyle::with_template("{prefix:>10} [{bar:32}] {percent:>3} %  {msg}  {eta} left")
            .expect("the template is a constant")
            .progress_chars("=> ");
        bar.set_style(style);
        bar.set_prefix(what);
        if visible {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self { bar }
    }

    /// Says what is under way.
    pub fn at(&self, what: String) {
        self.bar.set_message(what);
    }

    /// A run of this length is over.
    pub fn done(&self, seconds: f64) {
        self.bar.inc(weight(seconds));
    }
}

impl Drop for Progress {
    /// Takes the bar away, also when a run has failed.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn weight(seconds: f64) -> u64 {
    (seconds * RESOLUTION).round().max(1.0) as u64
}
