//! CUBIC (RFC 9438) and the end of slow start by `HyStart`, as `tcp_cubic.c` has them: in whole numbers, with time in ticks.

use machine::{Span, Time};

use super::timer::JIFFY;

/// A loss leaves 717/1024 of the window.
const BETA: u64 = 717;
const BETA_SCALE: u64 = 1_024;
/// RFC 9438's C is 0.4: 410/1024.
const SCALE: u64 = 410;
/// What a Reno flow with this reduction grows by: 8 (1 + beta) / 3 (1 - beta).
const RENO_SCALE: u64 = 8 * (BETA_SCALE + BETA) / 3 / (BETA_SCALE - BETA);
/// Time is counted in 1/1024 s.
const UNITS: u64 = 1_024;

/// `HyStart` does nothing while the window is smaller.
const HYSTART_LEAST: u32 = 16;
/// Acknowledgements that come closer together belong to one train.
const TRAIN_GAP: Span = Span::from_ms(2);
/// Round trips that are looked at in each round.
const SAMPLES: u8 = 8;
/// How much longer the round trip may get: an eighth, within these bounds.
const DELAY_LEAST: Span = Span::from_ms(4);
const DELAY_MOST: Span = Span::from_ms(16);

/// The state of one sender.
#[derive(Clone, Debug, Default)]
pub(super) struct Cubic {
    /// Acknowledged segments that raise the window by one.
    count: u64,
    last_max: u64,
    last_window: u64,
    last_time: u64,
    origin: u64,
    k: u64,
    delay_min: Span,
    /// In ticks; 0: a new epoch begins with the next acknowledgement.
    epoch: u64,
    acked: u64,
    reno_window: u64,
    hystart: HyStart,
}

#[derive(Clone, Debug, Default)]
struct HyStart {
    round_start: Time,
    last_ack: Time,
    /// The round ends when more than this is acknowledged.
    end: u64,
    /// The shortest round trip of the round.
    rtt: Option<Span>,
    samples: u8,
    found: bool,
}

/// What the sender knows when a round trip is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub now: Time,
    pub rtt: Span,
    pub window: u32,
    pub in_slow_start: bool,
    pub first: u64,
    pub next: u64,
}

fn ticks(time: Time) -> u64 {
    // A tick of zero means that there is none.
    time.as_ps() / JIFFY.as_ps() + 1
}

impl Cubic {
    /// After a timeout all that was learned is forgotten (`bictcp_reset`).
    pub fn reset(&mut self, now: Time, next: u64) {
        *self = Self::default();
        self.hystart.reset(now, next);
    }

    pub fn start(&mut self, now: Time, next: u64) {
        self.hystart.reset(now, next);
    }

    /// A pause does not count: the curve goes on where it was.
    pub fn resume(&mut self, now: Time, last: Time) {
        if self.epoch != 0 {
            self.epoch = (self.epoch + ticks(now) - ticks(last)).min(ticks(now));
        }
    }

    /// The threshold after a loss.
    pub fn ssthresh(&mut self, window: u32) -> u32 {
        let window = u64::from(window);
        self.epoch = 0;
        // A flow whose window shrinks leaves room for others (fast convergence).
        self.last_max = if window < self.last_max { window * (BETA_SCALE + BETA) / (2 * BETA_SCALE) } else { window };
        (window * BETA / BETA_SCALE).max(2) as u32
    }

    /// How many acknowledged segments raise the window by one (`bictcp_update`).
    pub fn count(&mut self, now: Time, window: u32, acked: u32) -> u32 {
        let window = u64::from(window);
        let tick = ticks(now);
        self.acked += u64::from(acked);
        let hz = 1_000_000_000_000 / JIFFY.as_ps();
        if self.last_window == window && tick - self.last_time <= hz / 32 {
            return self.count as u32;
        }
        if self.epoch == 0 || tick != self.last_time {
            self.last_window = window;
            self.last_time = tick;
            self.follow_the_curve(tick, hz, window, acked);
        }
        self.keep_up_with_reno(window);
        self.count = self.count.max(2);
        self.count as u32
    }

    fn follow_the_curve(&mut self, tick: u64, hz: u64, window: u64, acked: u32) {
        if self.epoch == 0 {
            self.epoch = tick;
            self.acked = u64::from(acked);
            self.reno_window = window;
            if self.last_max <= window {
                (self.k, self.origin) = (0, window);
            } else {
                // K^3 = (W_max - W) / C, in units of time.
                self.k = cube_root(((1 << 40) / SCALE) * (self.last_max - window));
                self.origin = self.last_max;
            }
        }
        let elapsed = tick - self.epoch + self.delay_min.as_ps().div_ceil(JIFFY.as_ps());
        let time = elapsed * UNITS / hz;
        let distance = time.abs_diff(self.k);
        // After months without a loss the curve is beyond all windows.
        let delta = ((u128::from(SCALE) * u128::from(distance).pow(3)) >> 40).min(u128::from(u32::MAX)) as u64;
        let target = if time < self.k { self.origin.saturating_sub(delta) } else { self.origin + delta };
        self.count = if target > window { window / (target - window) } else { 100 * window };
        // Before the first loss nothing is known that a slow beginning would spare.
        if self.last_max == 0 {
            self.count = self.count.min(20);
        }
    }

    /// Never slower than Reno would be (`tcp_friendliness`).
    fn keep_up_with_reno(&mut self, window: u64) {
        let step = ((window * RENO_SCALE) >> 3).max(1);
        // The kernel takes one away while more is left than a step.
        let steps = self.acked.saturating_sub(1) / step;
        self.acked -= steps * step;
        self.reno_window += steps;
        if self.reno_window > window {
            self.count = self.count.min(window / (self.reno_window - window));
        }
    }

    /// A round trip was measured. Whether slow start is over.
    pub fn sample(&mut self, sample: &Sample) -> bool {
        let hz = 1_000_000_000_000 / JIFFY.as_ps();
        // The first second after a loss says nothing about an empty path.
        if self.epoch != 0 && ticks(sample.now) - self.epoch < hz {
            return false;
        }
        if self.delay_min == Span::ZERO || self.delay_min > sample.rtt {
            self.delay_min = sample.rtt;
        }
        !self.hystart.found && sample.in_slow_start && self.hystart.update(sample, self.delay_min)
    }
}

impl HyStart {
    fn reset(&mut self, now: Time, next: u64) {
        *self = Self { round_start: now, last_ack: now, end: next, found: self.found, ..Self::default() };
    }

    /// `hystart_update`, of a sender that does not pace.
    fn update(&mut self, sample: &Sample, delay_min: Span) -> bool {
        if sample.first > self.end {
            self.reset(sample.now, sample.next);
        }
        if sample.window < HYSTART_LEAST {
            return false;
        }
        if sample.now.since(self.last_ack) <= TRAIN_GAP {
            self.last_ack = sample.now;
            // A train as long as half a round trip fills the path.
            self.found |=
                sample.now.since(self.round_start) > Span::from_ps(delay_min.as_ps() / 2 + ack_delay(sample) / 2);
        }
        self.rtt = Some(self.rtt.map_or(sample.rtt, |rtt| rtt.min(sample.rtt)));
        if self.samples < SAMPLES {
            self.samples += 1;
        } else {
            let late = Span::from_ps(delay_min.as_ps() / 8).clamp(DELAY_LEAST, DELAY_MOST);
            self.found |= self.rtt.is_some_and(|rtt| rtt > delay_min + late);
        }
        self.found
    }
}

/// What a receiver that joins segments may hold an acknowledgement back: four bursts of 64 KiB at the rate of twice the window a round trip, and a
/// millisecond at most (`hystart_ack_delay`). In picoseconds.
fn ack_delay(sample: &Sample) -> u64 {
    const MOST: u64 = 1_000_000_000;
    const BURSTS: u64 = 4 * 65_536;
    const SEGMENT: u64 = 1_448;
    let rate = 2 * u64::from(sample.window) * SEGMENT;
    (u128::from(sample.rtt.as_ps()) * u128::from(BURSTS) / u128::from(rate)).min(u128::from(MOST)) as u64
}

/// The whole cube root, rounded down.
fn cube_root(n: u64) -> u64 {
    let mut root = (n as f64).cbrt() as u64;
    // A float may be one off.
    while u128::from(root).pow(3) > u128::from(n) {
        root -= 1;
    }
    while u128::from(root + 1).pow(3) <= u128::from(n) {
        root += 1;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots_are_exact() {
        for n in (0..2_000_u64).chain([1 << 40, u64::MAX / 2, 2_642_245_u64.pow(3) - 1, 2_642_245_u64.pow(3)]) {
            let root = u128::from(cube_root(n));
            assert!(root.pow(3) <= u128::from(n) && (root + 1).pow(3) > u128::from(n), "{n}");
        }
    }

    /// RFC 9438, section 4.2: after a loss at W the window is W again after the cube root of W (1 - beta) / C seconds.
    #[test]
    fn the_old_window_is_reached_after_k() {
        let mut cubic = Cubic::default();
        let mut window = f64::from(cubic.ssthresh(1_000));
        let rtt = Span::from_ms(100);
        let mut now = Time::ZERO + Span::from_secs(5);
        let k = (1_000.0 * (1.0 - 0.7002) / 0.4_f64).cbrt();
        let end = now + Span::from_ms((k * 1_000.0) as u64);
        while now < end {
            // One acknowledgement for ten segments.
            let count = cubic.count(now, window as u32, 10);
            window += 10.0 / f64::from(count);
            now += Span::from_ps((rtt.as_ps() as f64 * 10.0 / window) as u64);
        }
        assert!((window - 1_000.0).abs() < 10.0, "{window}");
    }

    #[test]
    fn a_window_that_shrinks_leaves_room() {
        let mut cubic = Cubic::default();
        assert_eq!(cubic.ssthresh(1_000), 700);
        assert_eq!(cubic.last_max, 1_000);
        assert_eq!(cubic.ssthresh(800), 560);
        assert_eq!(cubic.last_max, 680);
        assert_eq!(cubic.ssthresh(2), 2);
    }

    #[test]
    fn a_longer_round_trip_ends_slow_start() {
        let mut cubic = Cubic::default();
        let sample = |now_ms: u64, rtt_ms: u64| Sample {
            now: Time::ZERO + Span::from_ms(now_ms),
            rtt: Span::from_ms(rtt_ms),
            window: 100,
            in_slow_start: true,
            first: 5,
            next: 100,
        };
        cubic.start(Time::ZERO, 10);
        // Gaps of 3 ms: no train.
        assert!(!cubic.sample(&sample(3, 20)));
        for n in 2..9 {
            assert!(!cubic.sample(&sample(3 * n, 25)), "{n}");
        }
        assert!(!cubic.sample(&sample(27, 25)), "the shortest of the round is as short as before");
        let longer = |n: u64| Sample { first: 11, ..sample(27 + 3 * n, 25) };
        for n in 1..9 {
            assert!(!cubic.sample(&longer(n)), "{n}");
        }
        assert!(cubic.sample(&longer(9)));
    }
}
