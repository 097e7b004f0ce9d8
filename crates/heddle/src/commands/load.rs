//! `load`: clients that ask a service, and measure.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use machine::Span;
use miette::{Report, miette};
use requests::load::{Connections, LoadConfig, Progress, run_following};
use serde_json::{Map, Value, json};
use workload::service::{Arrivals, GeneratorSpec, Latencies, Measured, Workload, WorkloadSpec};

use super::serve::explain;
use super::signals;
use crate::Ending;
use crate::cli::{Format, Load};
use crate::output::{Rows, print_json, put};

const COLUMNS: [&str; 12] = [
    "workload",
    "clients",
    "rate",
    "done",
    "failed",
    "per-second",
    "mean-ms",
    "p50-ms",
    "p90-ms",
    "p99-ms",
    "p999-ms",
    "max-ms",
];

/// A load that is at work for more of its time, in percent, may be what limits a service.
const BUSY_PERCENT: u64 = 95;

/// What is to be known of figures of a service.
const KEPT: &str = "Connections stayed open (`--new-connections` opens one for each request)";

/// The port of a target that names none.
const HTTP_PORT: u16 = 80;

/// Asks, measures, and prints what came of it; [`Ending::Missed`] if requests failed.
pub fn load(args: &Load, format: Format) -> Result<Ending, Report> {
    let ending = Arc::new(AtomicBool::new(false));
    signals::await_end(&ending)?;
    let config = config(args)?;
    let bar = progress_bar(args, &config);
    let (mut last, mut has_said) = (None, args.quiet);
    let shown = |progress: &Progress| {
        last = Some(*progress);
        if !has_said && let Some(words) = still_waits(progress, config.timeout) {
            has_said = true;
            bar.suspend(|| eprintln!("{words}"));
        }
        bar.set_position(progress.passed.min(progress.whole).as_ns() / 1_000_000);
        bar.set_message(format!(
            "{} answers, {} failed, {} under way",
            progress.done, progress.failed, progress.in_flight
        ));
    };
    let found = Arc::default();
    follow_names(&args.targets, &config.targets, &ending, &found);
    let moved = || found.lock().ok()?.take();
    let measured = run_following(&config, &ending, shown, moved).map_err(|error| explain(&error))?;
    bar.finish_and_clear();
    print(args, &measured, format)?;
    if last.is_some_and(|last| last.waited * 100 < last.passed * (100 - BUSY_PERCENT)) {
        eprintln!(
            "This program had hardly a moment to wait: the figures may be its own rather than those of the service. Two of them at a time, on cores of their own, ask more."
        );
    }
    if ending.load(Ordering::Relaxed) {
        return Ok(Ending::Interrupted);
    }
    Ok(if measured.failures().total() > 0 { Ending::Missed } else { Ending::Passed })
}

/// What is said when the time is over, and answers are still to come for longer than such a moment.
fn still_waits(progress: &Progress, timeout: Span) -> Option<String> {
    const MOMENT: Span = Span::from_ms(500);
    let Progress { passed, whole, in_flight, .. } = *progress;
    if in_flight == 0 || passed <= whole + MOMENT {
        return None;
    }
    let (answers, are) = if in_flight == 1 { ("answer", "is") } else { ("answers", "are") };
    Some(format!(
        "The time is over; {in_flight} {answers} {are} still waited for, {timeout} at most (`--timeout`). What does not come counts as timed out."
    ))
}

/// Addresses of all targets that were looked up last, if they are others than before.
type FoundTargets = Mutex<Option<Vec<SocketAddr>>>;

/// Looks the names of targets up again and again while a load lasts: a name server may answer something else by now.
fn follow_names(texts: &[String], known: &[SocketAddr], ending: &Arc<AtomicBool>, found: &Arc<FoundTargets>) {
    const INTERVAL: Duration = Duration::from_secs(1);
    let is_name = |text: &String| {
        let authority = Target::parse(text).authority;
        authority.parse::<SocketAddr>().is_err() && authority.trim_matches(['[', ']']).parse::<IpAddr>().is_err()
    };
    if !texts.iter().any(is_name) {
        return;
    }
    let (texts, mut known) = (texts.to_vec(), known.to_vec());
    let (ending, found) = (Arc::clone(ending), Arc::clone(found));
    // It ends with the program.
    std::thread::spawn(move || {
        while !ending.load(Ordering::Relaxed) {
            std::thread::sleep(INTERVAL);
            let resolved = texts.iter().map(|text| Target::parse(text).resolve(text).ok()).collect();
            // While nobody answers, addresses hold that somebody has answered.
            let Some(addresses): Option<Vec<SocketAddr>> = resolved else { continue };
            if addresses != known
                && let Ok(mut place) = found.lock()
            {
                known.clone_from(&addresses);
                *place = Some(addresses);
            }
        }
    });
}

fn progress_bar(args: &Load, config: &LoadConfig) -> ProgressBar {
    let whole = config.generator.warm_up + config.generator.lasts;
    let target = if args.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(Some(whole.as_ns() / 1_000_000), target);
    let style = ProgressStyle::with_template("{prefix:>10} [{bar:32}] {percent:>3} %  {wide_msg}")
        .expect("the template is a constant")
        .progress_chars("=> ");
    bar.set_style(style);
    bar.set_prefix(args.workload.name());
    bar
}

fn config(args: &Load) -> Result<LoadConfig, Report> {
    let mut targets = Vec::new();
    let (mut host, mut path): (Option<String>, Option<String>) = (None, None);
    for text in &args.targets {
        let target = Target::parse(text);
        targets.push(target.resolve(text)?);
        host = host.or_else(|| Some(target.authority.to_owned()));
        if target.path.is_some_and(|it| path.as_deref().is_some_and(|other| other != it)) {
            return Err(miette!("`{text}`: all targets are asked for the same path"));
        }
        path = path.or(target.path.map(str::to_owned));
    }
    if path.is_some() && args.workload != Workload::FineGrain {
        return Err(miette!(help = "leave out the path, or --workload", "a workload asks for paths of its own"));
    }
    let workload = WorkloadSpec {
        workload: args.workload,
        size: args.size,
        duration: args.duration,
        directories: args.directories,
    };
    let arrivals = match args.rate {
        Some(rate_milli) => Arrivals::Open { rate_milli, is_poisson: args.poisson, in_flight_max: args.in_flight },
        None => Arrivals::Closed { clients: args.clients, think: args.think, ramp: args.ramp },
    };
    Ok(LoadConfig {
        targets,
        sources: args.source.clone(),
        host: args.host.clone().or(host),
        path,
        connections: if args.new_connections { Connections::New } else { Connections::KeepAlive },
        generator: GeneratorSpec { workload, arrivals, warm_up: args.warm_up, lasts: args.lasts },
        timeout: args.timeout,
        seed: args.seed,
    })
}

/// A target as it is written: `[http://]HOST[:PORT][/PATH]`.
#[derive(Debug, PartialEq, Eq)]
struct Target<'a> {
    authority: &'a str,
    path: Option<&'a str>,
}

impl<'a> Target<'a> {
    fn parse(text: &'a str) -> Self {
        let text = text.strip_prefix("http://").unwrap_or(text);
        let (authority, path) = text.split_at(text.find('/').unwrap_or(text.len()));
        Self { authority, path: (path.len() > 1).then_some(path) }
    }

    /// Its address, the first one that its name has.
    fn resolve(&self, text: &str) -> Result<SocketAddr, Report> {
        let expected = "a target is HOST:PORT, as in h2:80 or http://10.0.0.80/; names of a network are known in its hosts: `heddle exec h1 -- heddle load ..`";
        let is_text = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if self.authority.is_empty() || text.starts_with("https://") || !is_text(text) {
            return Err(miette!(help = expected, "`{}` is no target", text.escape_debug()));
        }
        let has_port = self.authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let resolved = if has_port && self.authority.parse::<std::net::IpAddr>().is_err() {
            self.authority.to_socket_addrs()
        } else {
            (self.authority.trim_matches(['[', ']']), HTTP_PORT).to_socket_addrs()
        };
        match resolved.map(|mut addresses| addresses.next()) {
            Ok(Some(address)) => Ok(address),
            Ok(None) => Err(miette!(help = expected, "`{text}` has no address")),
            Err(error) => Err(miette!(help = expected, "`{text}`: {error}")),
        }
    }
}

fn ms(span: Option<Span>) -> Value {
    span.map_or(Value::Null, |span| json!((span.as_secs_f64() * 1e6).round() / 1e3))
}

fn tenth(number: f64) -> Value {
    json!((number * 10.0).round() / 10.0)
}

fn print(args: &Load, measured: &Measured, format: Format) -> Result<(), Report> {
    match (format, args.series) {
        (Format::Json, _) => print_json(&whole(args, measured)),
        (_, true) => put(&series(measured).render(format)),
        (_, false) => put(&summary(args, measured).render(format)),
    }?;
    let failures = measured.failures();
    if failures.total() > 0 {
        let kinds: Vec<String> = failures
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(kind, count)| format!("{count} {}", kind.name().replace('-', " ")))
            .collect();
        eprintln!("{} of {} failed: {}", failures.total(), failures.total() + measured.done(), kinds.join(", "));
    }
    Ok(())
}

fn clients_and_rate(args: &Load) -> (Value, Value) {
    match args.rate {
        Some(rate) => (Value::Null, tenth(rate as f64 / 1e3)),
        None => (args.clients.into(), Value::Null),
    }
}

/// Without what lies below a millisecond, if there is more.
fn whole_ms(span: Span) -> Span {
    let ms = span.as_ns() / 1_000_000;
    if ms == 0 { span } else { Span::from_ms(ms) }
}

fn summary(args: &Load, measured: &Measured) -> Rows {
    let latency = measured.latency();
    let (clients, rate) = clients_and_rate(args);
    let mut rows = Rows::new(&COLUMNS).with_rare(&["clients", "rate"]);
    if args.warm_up > Span::ZERO {
        rows.remark(format!(
            "Measured for {}, after a warm-up of {} that does not count (`--warm-up`)",
            // An interrupted one ends at any nanosecond.
            whole_ms(measured.window()),
            args.warm_up
        ));
    }
    if !(args.new_connections || args.keep_alive) {
        rows.remark(KEPT.to_owned());
    }
    rows.push([
        args.workload.name().into(),
        clients,
        rate,
        measured.done().into(),
        measured.failures().total().into(),
        tenth(measured.per_second()),
        ms(latency.mean()),
        ms(latency.quantile(0.5)),
        ms(latency.quantile(0.9)),
        ms(latency.quantile(0.99)),
        ms(latency.quantile(0.999)),
        ms(latency.max()),
    ]);
    rows
}

fn series(measured: &Measured) -> Rows {
    let mut rows = Rows::new(&["second", "done", "failed", "p50-ms", "p99-ms", "max-ms"]);
    for (index, second) in measured.series().iter().enumerate() {
        let [p50, p99, max] = [second.p50, second.p99, second.max].map(ms);
        rows.push([index.into(), second.done.into(), second.failed.into(), p50, p99, max]);
    }
    rows
}

/// Everything, as JSON.
fn whole(args: &Load, measured: &Measured) -> Value {
    let quantiles = |latencies: &Latencies| {
        json!({
            "min-ms": ms(latencies.min()),
            "mean-ms": ms(latencies.mean()),
            "p50-ms": ms(latencies.quantile(0.5)),
            "p90-ms": ms(latencies.quantile(0.9)),
            "p99-ms": ms(latencies.quantile(0.99)),
            "p999-ms": ms(latencies.quantile(0.999)),
            "max-ms": ms(latencies.max()),
        })
    };
    let (clients, rate) = clients_and_rate(args);
    let failures: Map<String, Value> =
        measured.failures().iter().map(|(kind, count)| (kind.name().to_owned(), count.into())).collect();
    let mut page = json!({
        "workload": args.workload.name(),
        "connections": if args.new_connections { "new" } else { "keep-alive" },
        "clients": clients,
        "rate": rate,
        "seconds": measured.window().as_secs_f64(),
        "warm-up-seconds": args.warm_up.as_secs_f64(),
        "done": measured.done(),
        "failed": measured.failures().total(),
        "failures": failures,
        "per-second": tenth(measured.per_second()),
        "bytes-per-second": tenth(measured.bytes_per_second()),
        "latency": quantiles(measured.latency()),
        "service": quantiles(measured.service()),
        "series": series(measured).objects(),
    });
    if args.buckets {
        page["buckets"] = measured.latency().buckets().map(|(ns, count)| json!([ns, count])).collect();
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_waited_for_are_said() {
        let progress = |ms, in_flight| Progress {
            passed: Span::from_ms(ms),
            whole: Span::from_secs(1),
            waited: Span::ZERO,
            done: 0,
            failed: 0,
            in_flight,
        };
        let words = |ms, in_flight| still_waits(&progress(ms, in_flight), Span::from_secs(10));
        assert_eq!((words(900, 3), words(1_400, 3), words(1_600, 0)), (None, None, None));
        assert!(words(1_600, 1).is_some_and(|said| said.contains("1 answer is still waited for, 10s at most")));
        assert!(words(1_600, 2).is_some_and(|said| said.contains("2 answers are")));
    }

    #[test]
    fn targets_are_read_as_they_are_written() {
        let of = |text| {
            let target = Target::parse(text);
            let address = target.resolve(text).map(|it| it.to_string());
            (address.map_err(|error| error.to_string()), target.path)
        };
        assert_eq!(of("127.0.0.1:81"), (Ok("127.0.0.1:81".to_owned()), None));
        assert_eq!(of("http://127.0.0.1/a/b?c"), (Ok("127.0.0.1:80".to_owned()), Some("/a/b?c")));
        assert_eq!(of("[::1]:8080/"), (Ok("[::1]:8080".to_owned()), None));
        assert_eq!((of("::1").0, of("[::1]").0), (Ok("[::1]:80".to_owned()), Ok("[::1]:80".to_owned())));
        for wrong in ["", "https://127.0.0.1", "http://", "127.0.0.1:80/\u{1b}[2J"] {
            assert!(Target::parse(wrong).resolve(wrong).is_err(), "{wrong:?}");
        }
    }
}
