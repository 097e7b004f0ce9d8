//! `cluster check perf`: does the cluster take a load?

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use machine::ServerId;
use machine::nanos::Span;
use miette::Report;
use node::{Course, Target};
use serde_json::json;
use store::client::ClientConfig;
use store::status::{Health, Latencies};
use workload::{LoadConfig, Operation, Tally};

use super::access::Access;
use super::bench::span;
use super::view::View;
use super::{explain, health, prefix};
use crate::Ending;
use crate::cli::{CheckLoad, CheckPerf, Format, actions};
use crate::commands::signals;
use crate::output::{Rows, put};

/// A request that takes longer has failed, unless `--timeout` says otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What is under way has so long to be answered when it is broken off: then it is taken away, too.
const GRACE: Duration = Duration::from_secs(1);

/// Bytes of a value, as etcd's check has them.
const VALUE_BYTES: u32 = 1_024;

/// Different keys that are written: what is there in between is bounded, however long it takes.
const KEYS: u32 = 4_096;

/// The part of the rate that has to be reached, in percent.
const RATE_PERCENT: f64 = 90.0;

/// No request may take longer.
const SLOWEST_MS: f64 = 500.0;

/// The longest latency that quantiles tell apart, in nanoseconds.
const LATENCY_NS_MAX: u64 = 600_000_000_000;

/// Nor may their times differ more.
const DEVIATION_MS: f64 = 100.0;

impl CheckLoad {
    /// Clients, and writes a second of all together.
    const fn size(self) -> (u32, u64) {
        match self {
            Self::S => (50, 150),
            Self::M => (200, 1_000),
            Self::L => (500, 8_000),
            Self::Xl => (1_000, 15_000),
        }
    }
}

/// What was looked at, and how it was.
#[derive(Default)]
pub struct Verdicts {
    all: Vec<(&'static str, String, String)>,
}

impl Verdicts {
    /// It is as it should be, or not.
    pub fn judge(&mut self, passed: bool, what: &str, detail: String) {
        self.all.push((if passed { "PASS" } else { "FAIL" }, what.to_owned(), detail));
    }

    /// Nothing is expected of it.
    pub fn note(&mut self, what: &str, detail: String) {
        self.all.push(("INFO", what.to_owned(), detail));
    }

    /// Prints all; [`Ending::Missed`] if something failed.
    pub fn put(&self, format: Format) -> Result<Ending, Report> {
        let mut rows = Rows::new(&["result", "check", "detail"]);
        for (result, what, detail) in &self.all {
            rows.push([json!(result), json!(what), json!(detail)]);
        }
        put(&rows.render(format))?;
        let failed = self.all.iter().any(|(result, ..)| *result == "FAIL");
        Ok(if failed { Ending::Missed } else { Ending::Passed })
    }
}

/// Writes for a while, and judges.
pub fn perf(args: &CheckPerf, connection: &actions::Access, format: Format) -> Result<Ending, Report> {
    let broken_off = Arc::default();
    signals::await_end(&broken_off)?;
    let access = Access::open(connection)?;
    prefix::prepare(&access, &args.prefix)?;
    let view = View::take(&access)?;
    let before = health::ask(&access, &view);
    let outcome = load(args, (&access, connection.timeout_or(TIMEOUT)), &view, &broken_off);
    // Also when it failed; at once where no controller is there any more.
    let cleaned = access.knock().and_then(|()| prefix::empty(&access, &args.prefix));
    let left = cleaned.err().map(|error| format!("what was written below {} is still there: {error}", args.prefix));
    if broken_off.load(Ordering::Relaxed) {
        let gone = format!("what was written below {} is taken away again", args.prefix);
        eprintln!("Broken off: {}", left.unwrap_or(gone));
        std::process::exit(signals::INTERRUPTED);
    }
    let after = health::ask(&access, &view);
    let mut verdicts = Verdicts::default();
    judge(&outcome?, args.load.size().1, &mut verdicts);
    log_writes(&view, &before, &after, &mut verdicts);
    if let Some(left) = left {
        verdicts.judge(false, "clearing up", left);
    }
    verdicts.put(format)
}

/// When a load asks no more, and when it leaves what is under way.
struct Deadline<'a> {
    broken_off: &'a AtomicBool,
    at: Instant,
    /// When it was first seen to be broken off.
    seen: Option<Instant>,
}

impl Deadline<'_> {
    fn course(&mut self, now: Instant) -> Course {
        if self.broken_off.load(Ordering::Relaxed) {
            let seen = *self.seen.get_or_insert(now);
            return if now.duration_since(seen) < GRACE { Course::AskNoMore } else { Course::Leave };
        }
        if now < self.at { Course::GoOn } else { Course::AskNoMore }
    }
}

fn load(
    args: &CheckPerf,
    (access, timeout): (&Access, Duration),
    view: &View,
    broken_off: &AtomicBool,
) -> Result<Tally, Report> {
    let (clients, per_second) = args.load.size();
    let requests = (args.duration.as_secs_f64() * per_second as f64).ceil().max(1.0) as u64;
    let config = LoadConfig {
        clients,
        requests,
        value_bytes: VALUE_BYTES,
        operation: Operation::Put,
        keys: KEYS,
        below: Some(args.prefix.clone()),
        every: Span::from_ns(1_000_000_000 * u64::from(clients) / per_second),
        timeout: span(timeout),
    };
    let endpoints = view.map.members().values().map(|member| member.address.clone()).collect();
    let on = Target { endpoints, client: ClientConfig::default() };
    let bar = progress(args.quiet, requests);
    let mut end = Deadline { broken_off, at: Instant::now() + args.duration, seen: None };
    let measured = node::load(&config, &on, access.tls(), |tally| {
        bar.set_position(tally.answered());
        end.course(Instant::now())
    })
    .map_err(explain);
    bar.finish_and_clear();
    measured
}

/// A bar on standard error, if that is a terminal.
fn progress(quiet: bool, requests: u64) -> ProgressBar {
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(Some(requests), target);
    let style = ProgressStyle::with_template("{prefix:>10} [{bar:32}] {percent:>3} %  {per_sec}  {eta} left")
        .expect("the template is a constant")
        .progress_chars("=> ");
    bar.set_style(style);
    bar.set_prefix("check");
    bar
}

fn judge(measured: &Tally, rate: u64, verdicts: &mut Verdicts) {
    let failed = measured.failures.count;
    let reason = measured.failures.first.as_deref().unwrap_or("none");
    let detail = if failed == 0 { "none".to_owned() } else { format!("{failed}, the first one with: {reason}") };
    verdicts.judge(failed == 0, "failed requests", detail);
    let (reached, wanted) = (measured.per_second(), rate as f64 * RATE_PERCENT / 100.0);
    let detail = format!("{reached:.1} writes a second, expected {wanted:.0} at least");
    verdicts.judge(reached >= wanted, "throughput", detail);
    let times_ms: Vec<f64> = measured.latencies_ns.iter().map(|ns| *ns as f64 / 1e6).collect();
    let Some(slowest) = times_ms.iter().copied().reduce(f64::max) else {
        return verdicts.judge(false, "slowest request", "none was answered".to_owned());
    };
    verdicts.judge(
        slowest <= SLOWEST_MS,
        "slowest request",
        format!("{slowest:.1} ms, expected {SLOWEST_MS:.0} ms at most"),
    );
    let mean = times_ms.iter().sum::<f64>() / times_ms.len() as f64;
    let variance = times_ms.iter().map(|ms| (ms - mean).powi(2)).sum::<f64>() / times_ms.len() as f64;
    let deviation = variance.sqrt();
    let detail = format!("{deviation:.2} ms, expected {DEVIATION_MS:.0} ms at most");
    verdicts.judge(deviation <= DEVIATION_MS, "standard deviation", detail);
    let mut histogram = Histogram::<u64>::new_with_max(LATENCY_NS_MAX, 3).expect("the bounds are valid");
    measured.latencies_ns.iter().for_each(|ns| histogram.saturating_record((*ns).max(1)));
    let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e6;
    verdicts.note("latency", format!("mean {mean:.2} ms, p50 {:.2} ms, p99 {:.2} ms", at(0.5), at(0.99)));
}

/// How long the servers' disks took meanwhile.
fn log_writes(
    view: &View,
    before: &BTreeMap<ServerId, Result<Health, String>>,
    after: &BTreeMap<ServerId, Result<Health, String>>,
    verdicts: &mut Verdicts,
) {
    for (id, member) in view.map.members() {
        let what = format!("log writes of {}", member.name);
        let (Some(Ok(after)), before) = (after.get(id), before.get(id)) else {
            verdicts.note(&what, "it does not say".to_owned());
            continue;
        };
        let none = Latencies::default();
        let before = before.and_then(|before| before.as_ref().ok()).map_or(&none, |before| &before.log_writes);
        let writes = after.log_writes.since(before);
        let ms = |per_mille| writes.quantile_us(per_mille).map_or(0.0, |us| us as f64 / 1e3);
        let detail = format!("{}, each with its sync: p50 < {} ms, p99 < {} ms", writes.count(), ms(500), ms(990));
        verdicts.note(&what, detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(latencies_ms: &[u64], seconds: u64, failed: u64) -> Tally {
        let mut tally = Tally { lasted: Span::from_secs(seconds), ..Tally::default() };
        for ms in latencies_ms {
            tally.took(Span::from_ms(*ms));
        }
        for _ in 0..failed {
            tally.failures.count(|| "no".to_owned());
        }
        tally
    }

    /// What did not pass.
    fn missed(measured: &Tally, rate: u64) -> Vec<String> {
        let mut verdicts = Verdicts::default();
        judge(measured, rate, &mut verdicts);
        verdicts.all.into_iter().filter(|(result, ..)| *result == "FAIL").map(|(_, what, _)| what).collect()
    }

    #[test]
    fn each_bound_is_held() {
        assert!(missed(&measured(&[2; 90], 1, 0), 100).is_empty());
        assert_eq!(missed(&measured(&[2; 89], 1, 0), 100), ["throughput"]);
        assert_eq!(missed(&measured(&[2; 100], 1, 1), 100), ["failed requests"]);
        let mut one_slow = vec![2; 1_000];
        one_slow[7] = 501;
        assert_eq!(missed(&measured(&one_slow, 10, 0), 100), ["slowest request"]);
        let spread: Vec<u64> = (0..100).map(|n| if n % 2 == 0 { 1 } else { 300 }).collect();
        assert_eq!(missed(&measured(&spread, 1, 0), 100), ["standard deviation"]);
        assert_eq!(missed(&measured(&[], 1, 3), 100).len(), 3);
    }
    #[test]
    fn what_is_broken_off_waits_a_moment_for_answers() {
        let (begun, broken_off) = (Instant::now(), AtomicBool::new(false));
        let mut end = Deadline { broken_off: &broken_off, at: begun + Duration::from_secs(9), seen: None };
        let mut at = |seconds| end.course(begun + Duration::from_secs(seconds));
        assert_eq!([8, 9, 99].map(&mut at), [Course::GoOn, Course::AskNoMore, Course::AskNoMore]);
        broken_off.store(true, Ordering::Relaxed);
        assert_eq!([5, 6].map(&mut at), [Course::AskNoMore, Course::Leave]);
    }
}
