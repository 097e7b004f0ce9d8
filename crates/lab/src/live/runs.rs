//! Live runs, one after another over one network that ends with this process.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fabric::{Case, Fabric, Overrides, RequestLoad, Source, Transfers};
use live::control::{Counters, LinkCounters};
use live::datagrams::stream::Sunk;
use live::datagrams::{MOST_BYTES, Received, Sent};
use live::{FLOWS_COUNTED_MAX, Instance, StartOptions, transfers};
use machine::Span;
use topology::{BondEndId, LinkId, NodeId, Side};
use transport::{TransportKind, TransportSpec};

use super::convergence::{wait_booted, wait_converged};
use super::datagrams::{self, Pace, Stream, Times};
use super::during::During;
use super::flow::{FlowFailure, Hosts, LiveFlow};
use super::iperf::{self, Measurement};
use super::other_switch::OtherSwitch;
use super::recorder::Recorder;
use super::requests::{self, Asked};
use super::traffic::{self, LIVE_FLOWS_MAX, Schedule};
use super::transfers::Short;
use super::tuning;
use super::window::Window;
use crate::error::Error;
use crate::journal::Journal;
use crate::live_times;
use crate::measure::bonds;
use crate::measure::carried::Packet;
use crate::measure::cpu::CpuReading;
use crate::measure::environment::Timing;
use crate::measure::record::{FlowRecord, LinkRecord, Record, link_record, node_name};
use crate::measure::request_record::RequestRecord;
use crate::measure::time_series::TimeSeries;
use crate::options::Options;
use crate::plan::{Plan, PlannedRun, pairs_of, traffic_of};
use crate::progress::{Progress, RunTime};
use crate::starts::starts;

/// What an idle network needs to forget the run before: queues drain, connections close.
const REST: Duration = Duration::from_millis(200);

/// Bytes of headers without options, and the longest IP packet.
const ETHERNET: u32 = 14;
const IPV4: u32 = 20;
const TCP: u32 = 20;
const UDP: u32 = 8;
const MTU_MAX: u32 = 65_535;

/// Ports of receivers: above iperf3's own and below those that Linux gives to clients. Each flow of a network has another
/// one, so that no counter or lingering socket of an earlier run is taken for its own.
const PORTS: std::ops::Range<u16> = 5_202..32_768;

/// More than iperf3's programs say to each other before they send, in bytes.
const FIRST_WORDS: u64 = 1_000;

/// A network with the means to run traffic in it.
pub(crate) struct LiveRuns<'a> {
    network: Instance,
    source: &'a Source,
    fabric: &'a Fabric,
    options: &'a Options,
    /// What the hosts' TCP is set to, and whether for a shaped network.
    tuned: Option<(TransportSpec, bool)>,
    /// The receive buffers that Linux gave the hosts, as in `tcp_rmem`.
    own_buffers: String,
    next_port: u16,
    /// How busy the machine was, as it stood when counters were read for the last time, and for the time before that.
    cpu: Cell<[CpuReading; 2]>,
}

/// These programs, if they are there: iperf3's name and version, and those of heddle's own. `ip` must be there as well.
pub(crate) fn look_for_programs(programs: impl Iterator<Item = &'static str>) -> Result<String, Error> {
    let run = |program: &'static str, argument: &str| {
        let output = Command::new(program).arg(argument).stdin(Stdio::null()).output();
        output.map_err(|source| Error::MissingProgram { program, source })
    };
    run("ip", "-V")?;
    let mut found = Vec::new();
    for program in programs.collect::<BTreeSet<_>>() {
        if program != IPERF3 {
            found.push(program.to_owned());
            continue;
        }
        let output = run(program, "--version")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        found.insert(0, text.lines().next().unwrap_or(program).trim().to_owned());
    }
    Ok(found.join(", "))
}

/// What sends TCP as fast as it goes.
pub(crate) const IPERF3: &str = "iperf3";

/// What sends the traffic of a case live.
pub(crate) fn program_of(case: &Case) -> &'static str {
    let traffic = traffic_of(case);
    match (traffic.rate_pps, traffic.transport.kind, &traffic.transfers, &traffic.requests) {
        (.., Some(_)) => "heddle load",
        (Some(_), .., None) | (None, TransportKind::Udp, _, None) => "heddle datagrams",
        (None, _, Some(_), None) => "heddle transfers",
        (None, _, None, None) => IPERF3,
    }
}

impl Hosts for Instance {
    fn command(&self, host: &str, program: &str, arguments: &[String]) -> Result<Command, String> {
        Self::command(self, host, program, arguments.iter().map(String::as_str)).map_err(|error| error.to_string())
    }
}

impl<'a> LiveRuns<'a> {
    /// Brings the network up as the file has it.
    pub fn start(source: &'a Source, fabric: &'a Fabric, options: &'a Options) -> Result<Self, Error> {
        let name = format!("run-{}", std::process::id());
        let start = StartOptions { name, ephemeral: true, program: options.program.clone(), workers: None };
        let network = Instance::start(&start)?;
        network.apply(source, &Overrides::default())?;
        wait_booted(&network, fabric)?;
        let own_buffers = own_buffers(&network, fabric)?;
        Ok(Self {
            network,
            source,
            fabric,
            options,
            tuned: None,
            own_buffers,
            next_port: PORTS.start,
            cpu: Cell::default(),
        })
    }

    /// Runs `runs` in their order, keeps what each measured, and takes the network down.
    pub fn run(mut self, plan: &Plan, runs: &[&PlannedRun], journal: &Journal) -> Result<(), Error> {
        let progress = Progress::start(self.options.progress, "live", RunTime::Live, runs);
        for run in runs {
            if journal.is_enough(run) {
                progress.leave_out(run);
                continue;
            }
            journal.check()?;
            let (index, cases) = &plan.cases[run.at.0];
            progress.begin(run);
            let experiment = &self.fabric.experiments[*index];
            let step = self.options.step_of(experiment);
            let times = (experiment.warm_up, experiment.duration);
            let measured = self.one(&cases[run.at.1], run, times, (step, journal));
            // Programs of a run are ended by the same signal as this one.
            journal.keep(run, measured.or_else(|error| journal.check().and(Err(error)))?)?;
            progress.end(run);
        }
        drop(progress);
        Ok(self.network.down()?)
    }

    /// Sets hosts up as each case of these runs wants it: what the kernel lacks or refuses is known before anything was run.
    pub fn try_settings(&mut self, plan: &Plan, runs: &[&PlannedRun]) -> Result<(), Error> {
        let cases: BTreeSet<(usize, usize)> = runs.iter().map(|run| run.at).collect();
        for (experiment, case) in cases {
            let case = &plan.cases[experiment].1[case];
            let is_shaped = self.fabric.with(&case.overrides).topology.is_shaped();
            self.tune(&traffic_of(case).transport, is_shaped)?;
        }
        Ok(())
    }

    fn one(
        &mut self,
        case: &Case,
        run: &PlannedRun,
        times: (Span, Span),
        (step, journal): (Option<Span>, &Journal),
    ) -> Result<(Record, Timing), Error> {
        let started = Instant::now();
        let fabric = self.fabric.with(&case.overrides);
        self.network.apply(self.source, &case.overrides)?;
        wait_converged(&self.network, run)?;
        self.tune(&traffic_of(case).transport, fabric.topology.is_shaped())?;
        let is_flow = |_: &(NodeId, NodeId)| traffic_of(case).requests.is_none();
        let pairs = pairs_of(self.fabric, case, run.seed).map_err(|reason| Error::Pattern {
            experiment: run.experiment.clone(),
            case: run.labels.to_string(),
            reason,
        })?;
        // Who asks a service has no flows that stay.
        let pairs: Vec<_> = pairs.into_iter().filter(is_flow).collect();
        if pairs.len() > LIVE_FLOWS_MAX {
            return Err(too_many(run, pairs.len(), LIVE_FLOWS_MAX));
        }
        // What the two programs of a pair say to each other are flows, too.
        let connections = match &traffic_of(case).transfers {
            None => traffic_of(case).streams as usize + 1,
            Some(transfers) => (times.0 + times.1).as_ps().div_ceil(transfers.every.as_ps()) as usize,
        };
        let flows = pairs.len() * 2 * connections;
        if flows > FLOWS_COUNTED_MAX {
            return Err(too_many(run, flows, FLOWS_COUNTED_MAX));
        }
        std::thread::sleep(REST);
        let flows: Vec<LiveFlow> = pairs.into_iter().map(|(from, to)| self.flow(from, to)).collect();
        let traffic = traffic_of(case);
        // It is gone when the run is over.
        let beside = (&self.network, self.options.program.as_path());
        let other = OtherSwitch::start(beside, traffic.switched_by, &fabric, &flows);
        let other = other.map_err(|failure| failed(run, failure))?;
        let flows = match &other {
            Some(other) => other.flows(flows),
            None => flows,
        };
        let links: Vec<Vec<LinkId>> = traffic.faults.iter().map(|fault| fault.links(&fabric)).collect();
        let mut inject = |number: usize| self.set_links(&fabric, &links[number], traffic.faults[number].up);
        let due = traffic.faults.iter().map(|fault| Duration::from_nanos(fault.at.as_ns())).collect();
        let has_windows =
            traffic.transport.kind != TransportKind::Udp && traffic.transfers.is_none() && traffic.requests.is_none();
        // Connections that come and go are not recorded one by one.
        let recorded = if traffic.transfers.is_some() { &[][..] } else { &flows };
        let recorder = |step| {
            let recorder = Recorder::new(&self.network, &self.options.program, (recorded, has_windows), step);
            recorder.map_err(|failure| failed(run, failure))
        };
        let mut recorder = step.map(recorder).transpose()?;
        let mut during = During::new(due, &mut inject, recorder.as_mut()).until(journal.interruption());
        let is_shaped = fabric.topology.is_shaped();
        let did = match (traffic.rate_pps, traffic.transport.kind, &traffic.transfers, &traffic.requests) {
            (.., Some(load)) => self.requests((&fabric, load, run.seed), times, &mut during),
            (Some(rate_pps), .., None) => self.datagrams(case, rate_pps, &flows, times, &mut during),
            (None, TransportKind::Udp, _, None) => self.messages(&fabric, case, &flows, times, &mut during),
            (None, _, None, None) => {
                self.streams((case, is_shaped, run.seed), &flows, times, (&mut during, other.is_some()))
            }
            (None, _, Some(transfers), None) => {
                self.transfers((case, is_shaped), (transfers.clone(), run.seed), &flows, times, &mut during)
            }
        };
        // The next run finds all links up, however this one ended.
        for links in &links {
            self.set_links(&fabric, links, true).map_err(|failure| failed(run, failure))?;
        }
        let did = did.map_err(|failure| failed(run, failure))?;
        let timing = run.timing(started);
        let mut record = record(&fabric, run, did)?;
        let moments = recorder.map(|recorder| recorder.moments(recorded, fabric.topology.is_shaped()));
        record.time_series = step.zip(moments).and_then(|(step, moments)| {
            // iperf3 takes whole seconds.
            let lasts = if has_windows { Span::from_secs(live_times::whole_seconds(times.1).max(1)) } else { times.1 };
            TimeSeries::new(&fabric, (step, lasts), &moments).map(Box::new)
        });
        let [after, before] = self.cpu.get();
        record.busy_cores = after.busy_cores_since(before);
        Ok((record, timing))
    }

    /// What the network has counted. Of a run it is read when its window begins, and last when that ends.
    fn count(&self) -> Result<Counters, FlowFailure> {
        self.cpu.set([CpuReading::now(), self.cpu.get()[0]]);
        self.network.counters().map_err(|error| lost(&error))
    }

    /// Takes links down or up.
    fn set_links(&self, fabric: &Fabric, links: &[LinkId], up: bool) -> Result<(), FlowFailure> {
        for &id in links {
            let link = &fabric.topology.links[id];
            let (a, b) = (&fabric.topology.nodes[link.a.node].name, &fabric.topology.nodes[link.b.node].name);
            self.network.set_link(a, b, Some(fabric.topology.link_number(id)), up).map_err(|error| lost(&error))?;
        }
        Ok(())
    }

    /// TCP as fast as it goes. In networks without rates and delays, segments of 64 KiB pass, whose order says nothing.
    fn streams(
        &self,
        (case, is_shaped, seed): (&Case, bool, u64),
        flows: &[LiveFlow],
        times: (Span, Span),
        (during, is_switched_by_another): (&mut During<'_>, bool),
    ) -> Result<Did, FlowFailure> {
        let traffic = traffic_of(case);
        let schedule = Schedule {
            warm_up: times.0,
            seconds: live_times::whole_seconds(times.1).max(1),
            arguments: tuning::client_arguments(&traffic.transport, traffic.streams, self.fabric.mtu),
            starts: (starts(seed, times.0).take(flows.len()))
                .map(|start| Duration::from_nanos(start.as_ns()))
                .collect(),
        };
        let count = || self.count();
        // Where nothing takes time, flows are not counted one by one, and begin at once.
        let have_begun = |before: &Counters, after: &Counters, flows: &[LiveFlow]| {
            !is_shaped || flows.iter().all(|flow| Window { before, after }.delivered(flow) > FIRST_WORDS)
        };
        let measured = traffic::run(&self.network, flows, &schedule, during, (count, have_begun))?;
        let (before, after) = (measured.before, measured.after);
        let window = Window { before: &before, after: &after };
        let record = |(flow, did): (&LiveFlow, &Result<Measurement, String>)| {
            let order = window.reordering(flow).filter(|_| is_shaped);
            let (reordered, reorder_extent) = order.unzip();
            let delays = window.delays(flow);
            let failure = did.as_ref().err().cloned();
            let Measurement { goodput_bps: said_bps, retransmits, .. } =
                did.as_ref().copied().unwrap_or(Measurement { goodput_bps: 0.0, seconds: 0.0, retransmits: 0 });
            // Of what another switch carries, only the programs know.
            let counted_bps = || window.rate_bps(window.delivered(flow));
            let goodput_bps = if is_switched_by_another { said_bps } else { counted_bps() };
            let blank = blank(flow, goodput_bps, said_bps);
            FlowRecord { retransmits, reordered, reorder_extent, delays, failure, ..blank }
        };
        let delivered = flows.iter().map(|flow| window.delivered(flow)).collect();
        let flows = flows.iter().zip(&measured.flows).map(record).collect();
        Ok(Did { flows, requests: None, delivered, headers: IPV4 + TCP, incomplete: 0, not_taken: 0, before, after })
    }

    /// Connections of TCP that come and go.
    fn transfers(
        &self,
        (case, is_shaped): (&Case, bool),
        (transfers, seed): (Transfers, u64),
        flows: &[LiveFlow],
        (warm_up, duration): (Span, Span),
        during: &mut During<'_>,
    ) -> Result<Did, FlowFailure> {
        let segment = tuning::maximum_segment(&traffic_of(case).transport, self.fabric.mtu);
        let load = (&Short { transfers, seed, segment }, Times { warm_up, duration, ..Times::default() });
        let count = || self.count();
        let measured = datagrams::run(&self.network, &self.options.program, flows, load, during, count)?;
        let window = Window { before: &measured.before, after: &measured.after };
        let record = |(flow, (sent, ())): (&LiveFlow, &(transfers::Sent, ()))| {
            let (reordered, reorder_extent) = window.reordering(flow).filter(|_| is_shaped).unzip();
            let (retransmits, transfers) = (sent.retransmits, Some(sent.outcome.clone()));
            let bits = sent.outcome.payload_bytes(load.0.transfers.size.all_the_same()) as f64 * 8.0;
            let blank = blank(flow, window.rate_bps(window.delivered(flow)), bits / duration.as_secs_f64());
            let delays = window.delays(flow);
            FlowRecord { retransmits, reordered, reorder_extent, delays, transfers, ..blank }
        };
        let delivered = flows.iter().map(|flow| window.delivered(flow)).collect();
        let flows = flows.iter().zip(&measured.flows).map(record).collect();
        Ok(Did {
            flows,
            requests: None,
            delivered,
            headers: IPV4 + TCP,
            incomplete: 0,
            not_taken: 0,
            before: measured.before,
            after: measured.after,
        })
    }

    /// Requests to a service, of whose connections none is counted by itself.
    fn requests(
        &self,
        (fabric, load, seed): (&Fabric, &RequestLoad, u64),
        (warm_up, duration): (Span, Span),
        during: &mut During<'_>,
    ) -> Result<Did, FlowFailure> {
        let asked = Asked { fabric, load, warm_up, duration, seed };
        let measured = requests::run(&self.network, &self.options.program, &asked, during, || self.count())?;
        Ok(Did {
            flows: Vec::new(),
            requests: Some(Box::new(measured.record)),
            delivered: Vec::new(),
            headers: IPV4 + TCP,
            incomplete: 0,
            not_taken: 0,
            before: measured.before,
            after: measured.after,
        })
    }

    /// Datagrams at an even pace. A frame is as long as a simulated one.
    fn datagrams(
        &self,
        case: &Case,
        rate_pps: u64,
        flows: &[LiveFlow],
        (warm_up, duration): (Span, Span),
        during: &mut During<'_>,
    ) -> Result<Did, FlowFailure> {
        let bytes = tuning::datagram_bytes(&traffic_of(case).transport, self.fabric.mtu);
        let load = (&Pace { rate_pps, bytes }, Times { warm_up, duration, ..Times::default() });
        let count = || self.count();
        let program = &self.options.program;
        let measured = datagrams::run(&self.network, program, flows, load, during, count)?;
        let window = Window { before: &measured.before, after: &measured.after };
        let record = |(flow, (_, received)): (&LiveFlow, &(Sent, Received))| {
            let outcome = received.outcome;
            let bits = (outcome.sent - outcome.lost) as f64 * f64::from(bytes) * 8.0;
            // The fabric knows no numbers: it counts copies as well.
            let delivered = window.delivered(flow).saturating_sub(outcome.duplicates * u64::from(bytes));
            let blank = blank(flow, window.rate_bps(delivered), bits / duration.as_secs_f64());
            let delays = window.delays(flow);
            FlowRecord { reordered: Some(outcome.reordered), delays, datagrams: Some(outcome), ..blank }
        };
        Ok(Did {
            requests: None,
            flows: flows.iter().zip(&measured.flows).map(record).collect(),
            delivered: flows.iter().map(|flow| window.delivered(flow)).collect(),
            headers: IPV4,
            incomplete: 0,
            not_taken: measured.flows.iter().map(|(sent, received)| sent.refused + received.overflowed).sum(),
            before: measured.before,
            after: measured.after,
        })
    }

    /// Messages of UDP as fast as credit for them comes. They are as long as simulated ones, and so are their fragments where the file's
    /// segments fill the MTU.
    fn messages(
        &self,
        fabric: &Fabric,
        case: &Case,
        flows: &[LiveFlow],
        (warm_up, duration): (Span, Span),
        during: &mut During<'_>,
    ) -> Result<Did, FlowFailure> {
        let traffic = traffic_of(case);
        let bytes = tuning::udp_message_bytes(&traffic.transport).min(MOST_BYTES as u32);
        // Those that leave one host together, or come to one: they share its link's queue.
        let beside = |flow: &LiveFlow| {
            let leave = flows.iter().filter(|other| other.from == flow.from).count();
            let come = flows.iter().filter(|other| other.to == flow.to).count();
            leave.max(come) as u32
        };
        let streams_a_host = flows.iter().map(beside).max().unwrap_or(1) * traffic.streams;
        let credit = tuning::udp_window(fabric, streams_a_host);
        let stream = Stream { streams: traffic.streams, window: credit, bytes };
        let load = (&stream, Times { warm_up, duration, ..Times::default() });
        let count = || self.count();
        let measured = datagrams::run(&self.network, &self.options.program, flows, load, during, count)?;
        let window = Window { before: &measured.before, after: &measured.after };
        let is_cut = IPV4 + UDP + bytes > self.fabric.mtu;
        let record = |(flow, ((), sunk)): (&LiveFlow, &((), Sunk))| {
            let bits = sunk.messages as f64 * f64::from(bytes) * 8.0;
            let delivered = window.delivered(flow);
            let delivered = if is_cut { delivered } else { each_once(delivered, *sunk) };
            // Whether fragments were reordered cannot be seen from here, and messages are another matter.
            blank(flow, window.rate_bps(delivered), bits / duration.as_secs_f64())
        };
        Ok(Did {
            requests: None,
            flows: flows.iter().zip(&measured.flows).map(record).collect(),
            delivered: flows.iter().map(|flow| window.delivered(flow)).collect(),
            headers: IPV4,
            // All that may be under way to one host.
            incomplete: u64::from(streams_a_host) * u64::from(credit) * u64::from(bytes),
            not_taken: measured.flows.iter().map(|((), sunk)| sunk.overflowed).sum(),
            before: measured.before,
            after: measured.after,
        })
    }

    /// Sets up every host's TCP, if it is not yet as it should be.
    fn tune(&mut self, spec: &TransportSpec, is_shaped: bool) -> Result<(), Error> {
        if self.tuned.as_ref().is_some_and(|(tuned, was_shaped)| (tuned, *was_shaped) == (spec, is_shaped)) {
            return Ok(());
        }
        let buffers = tuning::receive_buffers(spec, is_shaped, &self.own_buffers);
        for (id, node) in self.fabric.topology.end_hosts().filter(|(_, node)| !node.is_external()) {
            let failed = |message: String| Error::Tuning { host: node.name.clone(), message };
            let Some(address) = self.fabric.topology.address(id) else { continue };
            let script = tuning::script(spec, address, &buffers);
            let output = Instance::command(&self.network, &node.name, "sh", ["-c", &script])?
                .stdin(Stdio::null())
                .output()
                .map_err(|error| failed(error.to_string()))?;
            if !output.status.success() {
                return Err(failed(iperf::shortened(String::from_utf8_lossy(&output.stderr).trim())));
            }
        }
        self.tuned = Some((spec.clone(), is_shaped));
        Ok(())
    }

    fn flow(&mut self, from: NodeId, to: NodeId) -> LiveFlow {
        let port = self.next_port;
        self.next_port = if port + 1 < PORTS.end { port + 1 } else { PORTS.start };
        let address = self.fabric.topology.address(to).map(|address| address.ipv4.to_string()).unwrap_or_default();
        LiveFlow { from: node_name(self.fabric, from), to: node_name(self.fabric, to), address, port }
    }
}

/// What `tcp_rmem` is in a host that nobody has set up yet: every host starts with the same.
fn own_buffers(network: &Instance, fabric: &Fabric) -> Result<String, Error> {
    let Some((_, host)) = fabric.topology.end_hosts().find(|(_, node)| !node.is_external()) else {
        return Ok(tuning::LINUX_BUFFERS.to_owned());
    };
    let output = Instance::command(network, &host.name, "cat", ["/proc/sys/net/ipv4/tcp_rmem"])?
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Error::Tuning { host: host.name.clone(), message: error.to_string() })?;
    Ok(tuning::buffers_in(&String::from_utf8_lossy(&output.stdout)))
}

/// The fabric takes copies of messages that were not cut for others, since it knows no numbers. Their receiver does: this is the share that was new to it.
fn each_once(delivered: u64, sunk: Sunk) -> u64 {
    let came = u128::from(sunk.messages) + u128::from(sunk.copies);
    (u128::from(delivered) * u128::from(sunk.messages)).checked_div(came).map_or(delivered, |new| new as u64)
}

fn lost(error: &live::Error) -> FlowFailure {
    FlowFailure { flow: String::new(), host: String::new(), message: error.to_string() }
}

fn too_many(run: &PlannedRun, flows: usize, limit: usize) -> Error {
    let (experiment, case) = (run.experiment.clone(), run.labels.to_string());
    Error::TooManyLiveFlows { experiment, case, flows, limit }
}

fn failed(run: &PlannedRun, failure: FlowFailure) -> Error {
    Error::Flow {
        experiment: run.experiment.clone(),
        case: run.labels.to_string(),
        repeat: run.repeat,
        flow: failure.flow,
        host: failure.host,
        message: failure.message,
    }
}

/// What a run did.
struct Did {
    flows: Vec<FlowRecord>,
    /// Of requests to a service: what came of them.
    requests: Option<Box<RequestRecord>>,
    /// Of each flow: bytes of payload that the fabric delivered in the window.
    delivered: Vec<u64>,
    /// What an IP packet has besides payload, at least.
    headers: u32,
    /// Bytes of payload that may have come to a host before the window, and count as delivered in it.
    incomplete: u64,
    /// What the hosts' own kernels did not take.
    not_taken: u64,
    before: Counters,
    after: Counters,
}

/// A flow of which no more is known.
fn blank(flow: &LiveFlow, goodput_bps: f64, program_goodput_bps: f64) -> FlowRecord {
    let program_goodput_bps = Some(program_goodput_bps);
    FlowRecord { program_goodput_bps, ..FlowRecord::new(flow.from.clone(), flow.to.clone(), goodput_bps) }
}

fn record(fabric: &Fabric, run: &PlannedRun, did: Did) -> Result<Record, Error> {
    let (before, after) = (&did.before, &did.after);
    let window = Window { before, after };
    // Connections to a service are more than are counted one by one.
    if window.uncounted() > 0 && did.requests.is_none() {
        let (experiment, case) = (run.experiment.clone(), run.labels.to_string());
        return Err(Error::Uncounted { experiment, case, repeat: run.repeat, frames: window.uncounted() });
    }
    let links = links(fabric, &before.links, &after.links, window.span());
    let to = |flow: &FlowRecord| fabric.topology.node(&flow.to).expect("a flow ends at a host of the fabric");
    let delivered = did.flows.iter().map(to).zip(did.delivered).collect();
    // Where nothing has a rate, segments are cut by nobody.
    let longest = if fabric.topology.is_shaped() { fabric.mtu } else { MTU_MAX };
    let packet = Packet { payload: longest - did.headers, bytes: longest + ETHERNET };
    window
        .check(fabric, &links, (delivered, packet), did.incomplete)
        .map_err(|excess| run.more_than_carried(excess))?;
    let order = |id: BondEndId| {
        let end = &fabric.topology.bonds[id];
        bonds::order_live(&fabric.topology.nodes[end.node].name, &end.name, &before.bonds, &after.bonds)
    };
    Ok(Record {
        flows: did.flows,
        requests: did.requests,
        bonds: bonds::records(fabric, &links, order),
        links,
        lost_outside_links: Some(did.not_taken + window.lost_outside_links()),
        lost: window.lost(),
        late_max_us: after.workers.iter().map(|worker| worker.late_max.as_ns() / 1_000).max(),
        ..run.record(window.span().as_secs_f64())
    })
}

fn links(fabric: &Fabric, before: &[LinkCounters], after: &[LinkCounters], over: Span) -> Vec<LinkRecord> {
    let mut records = Vec::with_capacity(2 * fabric.topology.links.len());
    for ((link, before), after) in fabric.topology.links.iter().zip(before).zip(after) {
        let directions = [(Side::A, before.forward, after.forward), (Side::B, before.backward, after.backward)];
        records.extend(
            directions.map(|(from, before, after)| link_record(fabric, link, from, &grown(&before, &after), over)),
        );
    }
    records
}

/// What was counted between two readings.
fn grown(before: &link::Counters, after: &link::Counters) -> link::Counters {
    link::Counters {
        packets: after.packets.saturating_sub(before.packets),
        bytes: after.bytes.saturating_sub(before.bytes),
        drops: after.drops.saturating_sub(before.drops),
        marks: after.marks.saturating_sub(before.marks),
        cut: after.cut.saturating_sub(before.cut),
        losses: after.losses.saturating_sub(before.losses),
        duplicates: after.duplicates.saturating_sub(before.duplicates),
        corruptions: after.corruptions.saturating_sub(before.corruptions),
        overtakes: after.overtakes.saturating_sub(before.overtakes),
        busy: after.busy.wrapping_sub(before.busy),
        queue_peak: after.queue_peak,
        waited: after.waited.wrapping_sub(before.waited),
    }
}

#[cfg(test)]
mod tests {
    use machine::nanos;

    use super::*;

    #[test]
    fn copies_of_messages_are_taken_off() {
        let sunk = Sunk { streams: 2, messages: 100, copies: 300, overflowed: 0 };
        assert_eq!(each_once(4_400, sunk), 1_100);
        assert_eq!(each_once(4_400, Sunk { copies: 0, ..sunk }), 4_400);
        assert_eq!(each_once(4_400, Sunk::default()), 4_400, "nothing came while the receiver measured: it cannot say");
    }

    #[test]
    fn counters_grow_between_readings() {
        let reading = |n: u64| link::Counters {
            packets: n,
            bytes: n * 100,
            drops: n / 10,
            marks: n / 5,
            cut: n / 20,
            losses: n / 25,
            duplicates: n / 50,
            corruptions: n / 75,
            overtakes: n / 150,
            busy: Span::from_us(n),
            queue_peak: 3,
            waited: nanos::Span::from_us(5 * n),
        };
        let grown = grown(&reading(100), &reading(250));
        assert_eq!((grown.packets, grown.bytes, grown.busy), (150, 15_000, Span::from_us(150)));
        assert_eq!((grown.drops, grown.marks, grown.losses), (15, 30, 6));
        assert_eq!((grown.duplicates, grown.corruptions, grown.overtakes), (3, 2, 1));
        assert_eq!(grown.waited, nanos::Span::from_us(750));
    }
}
