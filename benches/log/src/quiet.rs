//! Whether others use the CPUs.

use std::time::{Duration, Instant};

/// What others may use of the CPUs during a turn; 1 is a whole one.
pub const OTHERS_CPUS_MAX: f64 = 0.2;

/// Seconds that others are given to end, unless `WAIT` says otherwise.
const WAIT_S: u64 = 15;

const LOOK: Duration = Duration::from_millis(100);

/// Clock ticks a second in proc(5), on every Linux of today.
const TICKS_PER_S: f64 = 100.0;

/// Counts CPU time from its start on.
pub struct Watch {
    start: Instant,
    all_s: f64,
    own_s: f64,
}

impl Watch {
    pub fn start() -> Self {
        Self { start: Instant::now(), all_s: all_s(), own_s: own_s() }
    }

    /// CPUs that others kept busy since then, without what the system did for nobody in particular.
    pub fn others_cpus(&self) -> f64 {
        let busy = (all_s() - self.all_s) - (own_s() - self.own_s);
        busy / self.start.elapsed().as_secs_f64()
    }
}

/// Waits until the CPUs are idle, though not for ever.
pub fn wait() {
    let wait_s = std::env::var("WAIT").map_or(WAIT_S, |text| text.parse().expect("a number of seconds"));
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(wait_s) {
        let watch = Watch::start();
        std::thread::sleep(LOOK);
        if watch.others_cpus() <= OTHERS_CPUS_MAX {
            return;
        }
    }
}

fn seconds(ticks: &str) -> f64 {
    ticks.parse::<f64>().expect("a number") / TICKS_PER_S
}

/// Time that all CPUs spent in user code and in system calls: `user`, `nice` and `system` of /proc/stat.
fn all_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").expect("Linux has it");
    stat.split_whitespace().skip(1).take(3).map(seconds).sum()
}

/// The same of this process: fields 14 and 15 of /proc/self/stat, of which the second is in brackets.
fn own_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has it");
    let (_, fields) = stat.rsplit_once(')').expect("a name in brackets");
    fields.split_whitespace().skip(11).take(2).map(seconds).sum()
}
