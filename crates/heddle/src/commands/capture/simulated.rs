//! What crosses links of a simulated run.

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fabric::DriverKind;
use lab::capture::{CapturedFrame, CapturedRun, Choice};
use live::sniffer::pcapng::{Blocks, Writer};
use live::sniffer::{Direction, Filter, FrameKinds, SNAPLEN_MAX, Target};
use miette::{Report, miette};
use topology::{LinkId, Side, Topology};

use super::output::{Output, Written};
use super::{Outcome, listed};
use crate::cli::Capture;
use crate::commands::{explain, file, measure};

/// So many frames are captured at most, if nobody says how many.
const FRAMES_MAX: u64 = 1_000_000;

/// Bytes that are written at once, about.
const BATCH: usize = 64 << 10;

/// The side of a link.
type CapturedPort = (LinkId, Side);

/// Where frames go, and what becomes of them.
struct Sink<'a> {
    filter: Option<Filter>,
    unmatched: FrameKinds,
    snaplen: Option<u32>,
    count: u64,
    writer: Writer,
    blocks: Blocks,
    output: Output,
    interrupted: &'a AtomicBool,
    outcome: Outcome,
    failure: Option<Report>,
}

/// Simulates a run of a file, and writes what passes the ports that are meant.
pub fn capture(
    args: &Capture,
    path: &Path,
    open: &dyn Fn() -> Result<Output, Report>,
    interrupted: &AtomicBool,
) -> Result<Outcome, Report> {
    let wanted = &args.simulated;
    let (source, fabric) = file::read(path)?;
    let experiments = wanted.experiment.iter().cloned().collect();
    let choice = crate::cli::Choice { seed: wanted.seed, experiments, cases: Vec::new() };
    let mut options = measure::options_of(vec![DriverKind::Sim], &choice)?;
    options.hosts = measure::hosts(&options, wanted.machine.as_deref())?;
    let choice = Choice { case: wanted.case.clone(), repeat: wanted.repeat };
    let captured = lab::capture::with_run(&fabric, &options, &choice, |run| capture_run(args, run, open, interrupted));
    captured.map_err(|error| measure::explain(&source, error))?
}

fn capture_run(
    args: &Capture,
    run: &CapturedRun<'_>,
    open: &dyn Fn() -> Result<Output, Report>,
    interrupted: &AtomicBool,
) -> Result<Outcome, Report> {
    let (ports, names) = ports(run.topology(), &args.target)?;
    let text = args.filter.join(" ");
    let filter = Filter::of(run.fabric(), &text).map_err(|error| explain(error.into()))?;
    let application = concat!("heddle ", env!("CARGO_PKG_VERSION"));
    let mut sink = Sink {
        filter,
        unmatched: FrameKinds::default(),
        snaplen: args.snaplen,
        count: args.count.unwrap_or(FRAMES_MAX),
        writer: Writer::begin(application, &names, args.snaplen.unwrap_or(SNAPLEN_MAX), &text),
        blocks: Blocks::default(),
        output: open()?,
        interrupted,
        outcome: Outcome::default(),
        failure: None,
    };
    eprintln!("Capturing at {} in a simulated run: {}", listed(&names), run.name());
    let (is_over, is_late) = (Cell::new(false), Cell::new(false));
    let mut show = |frame: CapturedFrame| {
        if args.lasts.is_some_and(|lasts| u128::from(frame.at.as_ns()) >= lasts.as_nanos()) {
            is_over.set(true);
            is_late.set(true);
        }
        if !is_over.get() {
            sink.take(&frame);
            is_over.set(sink.is_full());
        }
    };
    run.simulate(&ports, &mut show, &|| !is_over.get() && !interrupted.load(Ordering::Relaxed));
    sink.write();
    let Sink { mut outcome, failure, count, unmatched, .. } = sink;
    outcome.unmatched = unmatched.to_string();
    if let Some(failure) = failure {
        return Err(failure);
    }
    let why = match outcome.frames < count {
        true if is_late.get() => "the time is over (`--for`)",
        true => "the run has ended",
        false => "--count N takes more",
    };
    why.clone_into(&mut outcome.why_ended);
    Ok(outcome)
}

/// The ports that are meant, and their names.
fn ports(topology: &Topology, text: &str) -> Result<(Vec<CapturedPort>, Vec<String>), Report> {
    let targets = Target::find(topology, text).map_err(|error| explain(error.into()))?;
    let located = targets.into_iter().filter_map(|target| {
        let (node, port) = target.locate(topology)?;
        Some((topology.nodes[node].ports[port], target.name))
    });
    Ok(located.unzip())
}

impl Sink<'_> {
    /// Whether nothing more is wanted.
    const fn is_full(&self) -> bool {
        self.outcome.frames >= self.count || self.outcome.unwritten.is_some() || self.failure.is_some()
    }

    fn take(&mut self, frame: &CapturedFrame) {
        let CapturedFrame { at, port, is_outbound, length, ref bytes } = *frame;
        if self.filter.as_ref().is_some_and(|filter| !matches(filter, bytes, length)) {
            return self.unmatched.add(bytes);
        }
        let direction = if is_outbound { Direction::Outbound } else { Direction::Inbound };
        let wanted = self.snaplen.map_or(bytes.len(), |snaplen| snaplen.min(length) as usize);
        if wanted <= bytes.len() {
            self.writer.put((port as u32, direction), at.as_ns(), length, &bytes[..wanted]);
        } else {
            let mut padded = bytes.clone();
            padded.resize(wanted, 0);
            self.writer.put((port as u32, direction), at.as_ns(), length, &padded);
        }
        self.outcome.frames += 1;
        if self.writer.length() > BATCH {
            self.write();
        }
    }

    /// Writes what was taken so far.
    fn write(&mut self) {
        if self.outcome.unwritten.is_some() || self.failure.is_some() {
            return;
        }
        self.blocks.push(&self.writer.take());
        match self.flush() {
            Ok(Written::All) => {}
            Ok(written) => self.outcome.unwritten = Some(written),
            Err(failure) => self.failure = Some(failure),
        }
    }

    fn flush(&mut self) -> Result<Written, Report> {
        while let Some((whole, block)) = self.blocks.take_block().map_err(|error| miette!("{error}"))? {
            self.output.put(whole, &block);
        }
        self.output.flush(self.interrupted)
    }
}

/// Whether a filter lets a frame pass of which only the first bytes are there; what follows is zero.
fn matches(filter: &Filter, bytes: &[u8], length: u32) -> bool {
    if bytes.len() >= length as usize {
        return filter.matches(bytes);
    }
    let mut whole = bytes.to_vec();
    whole.resize(length as usize, 0);
    filter.matches(&whole)
}
