//! `ping`: whether hosts reach each other, and how long that takes. In each host that asks runs one program (`heddle pings`), for all that it asks.

mod matrix;

use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use live::Instance;
use live::pings::{Answers, Pace};
use machine::Span;
use miette::{IntoDiagnostic, Report, miette};
use serde_json::{Value, json};
use topology::{NodeId, Topology};

use super::explain;
use super::instance::{connect, definition, host, running};
use super::measure::this_program;
use crate::Ending;
use crate::cli::{Format, Ping, Pings};
use crate::output::{Rows, put};

/// How many hosts ask at one time.
const ASKING_MAX: usize = 16;

/// With fewer hosts it is over before a bar would be seen.
const BAR_HOSTS_MIN: usize = 9;

/// How often a pair is asked, and a host among all.
const COUNT_OF_PAIR: u32 = 3;
const COUNT_OF_ALL: u32 = 1;

/// What a host has heard of those that it asked, by their names.
pub struct Asked {
    from: String,
    of: Vec<(String, Answers)>,
}

/// Has hosts ask each other.
pub fn ping(args: &Ping, format: Format) -> Result<Ending, Report> {
    let instance = connect(&running(args.network.name.as_deref(), "`heddle ping --name NETWORK ..`")?)?;
    let fabric = definition(&instance)?;
    let topology = &fabric.topology;
    let all: Vec<NodeId> = match (&args.from, &args.to) {
        (Some(from), Some(to)) => vec![host(topology, from)?, host(topology, to)?],
        _ => topology.hosts().filter(|(_, node)| !node.is_external()).map(|(id, _)| id).collect(),
    };
    if all.len() < 2 {
        return Err(miette!("there is one host only: nobody to ask"));
    }
    let asking = if args.all { &all[..] } else { &all[..1] };
    let default = if args.all { COUNT_OF_ALL } else { COUNT_OF_PAIR };
    let pace =
        Pace { count: args.count.unwrap_or(default), interval: span(args.interval), patience: span(args.timeout) };
    let asked = ask_all(&instance, topology, (asking, &all), pace, !args.quiet)?;
    put(&match format {
        Format::Table if args.all => matrix::table(&asked),
        Format::Table => matrix::pair(&asked),
        Format::Json | Format::Csv => rows(&asked).render(format),
    })?;
    let mut answers = asked.iter().flat_map(|asked| &asked.of);
    Ok(if answers.any(|(_, answers)| answers.received == 0) { Ending::Missed } else { Ending::Passed })
}

const fn span(time: Duration) -> Span {
    Span::from_ms(time.as_millis() as u64)
}

/// Has some hosts ask all others, a few at one time. What they have heard comes in their order.
fn ask_all(
    instance: &Instance,
    topology: &Topology,
    (asking, asked): (&[NodeId], &[NodeId]),
    pace: Pace,
    shows_progress: bool,
) -> Result<Vec<Asked>, Report> {
    let program = this_program()?;
    let bar = bar(asking.len(), shows_progress);
    let next = AtomicUsize::new(0);
    let heard: Mutex<Vec<Option<Result<Asked, Report>>>> = Mutex::new(asking.iter().map(|_| None).collect());
    let take = || {
        let at = next.fetch_add(1, Ordering::Relaxed);
        asking.get(at).map(|from| (at, *from))
    };
    let work = || {
        while let Some((at, from)) = take() {
            // Who comes behind is asked first, so that not all ask the same one at the same time.
            let (before, behind) = asked.split_at(asked.iter().position(|to| *to == from).map_or(0, |at| at + 1));
            let others: Vec<NodeId> = behind.iter().chain(before).copied().filter(|to| *to != from).collect();
            let result = ask(instance, topology, &program, (from, &others), pace);
            let failed = result.is_err();
            heard.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(result);
            bar.inc(1);
            if failed {
                // The others would fail as well.
                next.store(asking.len(), Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..asking.len().min(ASKING_MAX) {
            scope.spawn(work);
        }
    });
    bar.finish_and_clear();
    heard.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect()
}

/// Has one host ask others.
fn ask(
    instance: &Instance,
    topology: &Topology,
    program: &std::path::Path,
    (from, others): (NodeId, &[NodeId]),
    pace: Pace,
) -> Result<Asked, Report> {
    let from = &topology.nodes[from].name;
    let addresses = others.iter().filter_map(|to| Some(topology.address(*to)?.ipv4.to_string()));
    let ms = |span: Span| (span.as_ns() / 1_000_000).to_string();
    let options = [
        ("--count", pace.count.to_string()),
        ("--interval-ms", ms(pace.interval)),
        ("--patience-ms", ms(pace.patience)),
    ];
    let options = options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
    let arguments = std::iter::once("pings".to_owned()).chain(options).chain(addresses);
    let mut command = instance.command(from, program, arguments).map_err(explain)?;
    // It ends when the other end of its standard input is gone, however this process ends.
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| miette!("{from} cannot ask: {error}"))?;
    let parent_watch = child.stdin.take();
    let output = child.wait_with_output().into_diagnostic()?;
    drop(parent_watch);
    let answers: Vec<Answers> = serde_json::from_slice(&output.stdout)
        .map_err(|_| miette!("{from} cannot ask: {}", String::from_utf8_lossy(&output.stderr).trim()))?;
    let mut of: Vec<(NodeId, Answers)> = others.iter().copied().zip(answers).collect();
    of.sort_by_key(|(to, _)| *to);
    let of = of.into_iter().map(|(to, answers)| (topology.nodes[to].name.clone(), answers));
    Ok(Asked { from: from.clone(), of: of.collect() })
}

/// A bar that counts hosts, for those that wait at a terminal.
fn bar(hosts: usize, is_shown: bool) -> ProgressBar {
    let target =
        if is_shown && hosts >= BAR_HOSTS_MIN { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} hosts have asked").expect("it is a template");
    ProgressBar::with_draw_target(Some(hosts as u64), target).with_style(style)
}

fn rows(asked: &[Asked]) -> Rows {
    let mut rows = Rows::new(&["from", "to", "sent", "received", "rtt-min-ms", "rtt-mean-ms", "rtt-max-ms", "failure"]);
    for Asked { from, of } in asked {
        for (to, answers) in of {
            let [min, mean, max] = answers
                .rtt_ns
                .map_or([Value::Null, Value::Null, Value::Null], |rtt| rtt.map(|ns| json!(ns as f64 / 1e6)));
            let (sent, received) = (json!(answers.sent), json!(answers.received));
            rows.push([json!(from), json!(to), sent, received, min, mean, max, json!(answers.failure)]);
        }
    }
    rows
}

/// Asks hosts, from the one in which it runs: `ping` starts it there.
pub fn pings(args: &Pings) -> Result<(), Report> {
    let pace = Pace {
        count: args.count,
        interval: Span::from_ms(args.interval_ms),
        patience: Span::from_ms(args.patience_ms),
    };
    let answers = live::pings::ask(&args.to, pace).map_err(explain)?;
    put(&(serde_json::to_string(&answers).into_diagnostic()? + "\n"))
}
