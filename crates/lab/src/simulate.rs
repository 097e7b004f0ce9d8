//! Simulated runs, side by side on the machine's cores.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabric::{Case, Experiment, Fabric, Work};
use machine::{Span, Time};
use nix::time::{ClockId, clock_gettime};
use rayon::prelude::*;
use sim::{FlowOutcome, FlowSample, FlowSpec, LinkOutcome, Outcome, Sample, Scenario};
use topology::{Routes, Side};
use transport::transfers::OPEN_MAX;
use transport::{TransportKind, TransportSpec};
use vswitch::Pipelines;

use crate::cluster;
use crate::error::Error;
use crate::journal::Journal;
use crate::measure::bonds;
use crate::measure::carried::{Delivery, Excess, Packet};
use crate::measure::environment::Timing;
use crate::measure::record::{FlowRecord, LinkRecord, Record, link_record, node_name};
use crate::measure::statistics;
use crate::measure::time_series::{FlowMoment, Moment, TimeSeries};
use crate::options::Options;
use crate::plan::{Plan, PlannedRun, controllers_of, pairs_of, traffic_of};
use crate::progress::{Progress, RunTime};
use crate::starts::starts;

/// Runs `runs`, and keeps what each measured.
pub(crate) fn simulate(
    fabric: &Fabric,
    plan: &Plan,
    runs: &[&PlannedRun],
    (options, journal): (&Options, &Journal),
) -> Result<(), Error> {
    let routes = Arc::new(Routes::compute(&fabric.topology));
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(options.threads)
        .build()
        .map_err(|error| Error::Threads { threads: options.threads, message: error.to_string() })?;
    let threads = pool.current_num_threads();
    let progress = Progress::start(options.progress, "simulated", RunTime::Simulated(threads), runs);
    let one = |run: &&PlannedRun| {
        journal.check()?;
        progress.begin(run);
        let (index, cases) = &plan.cases[run.at.0];
        let (experiment, case) = (&fabric.experiments[*index], &cases[run.at.1]);
        let result = match &case.work {
            Work::Traffic(_) => one_of_traffic((fabric, &routes), experiment, case, run, (options, journal)),
            Work::Cluster(_) => one_cluster(fabric, experiment, case, run),
        };
        progress.end(run);
        journal.keep(run, result?)
    };
    let mut left = runs.to_vec();
    loop {
        let (enough, needed): (Vec<&PlannedRun>, Vec<&PlannedRun>) =
            left.into_iter().partition(|run| journal.is_enough(run));
        for run in enough {
            progress.leave_out(run);
        }
        let (now, later) = next(needed, threads);
        if now.is_empty() {
            return Ok(());
        }
        pool.install(|| now.par_iter().with_max_len(1).try_for_each(one))?;
        left = later;
    }
}

/// The runs that go now, and those that are left: first all that are needed for sure; then, of each case that needs more, as many as keep all threads busy. Whatever
/// turns out not to have been needed is not counted.
fn next(left: Vec<&PlannedRun>, threads: usize) -> (Vec<&PlannedRun>, Vec<&PlannedRun>) {
    if left.iter().any(|run| !run.is_optional) {
        return left.into_iter().partition(|run| !run.is_optional);
    }
    let cases = left.iter().map(|run| run.at).collect::<BTreeSet<_>>().len();
    let each = threads.div_ceil(cases.max(1));
    let mut chosen: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    left.into_iter().partition(|run| {
        let of_case = chosen.entry(run.at).or_default();
        *of_case += 1;
        *of_case <= each
    })
}

fn one_of_traffic(
    (fabric, routes): (&Fabric, &Arc<Routes>),
    experiment: &Experiment,
    case: &Case,
    run: &PlannedRun,
    (options, journal): (&Options, &Journal),
) -> Result<(Record, Timing), Error> {
    let simulated = TrafficRun::new((fabric, routes), experiment, case, run, options)?;
    let (scenario, fabric, flows) = (simulated.scenario(), &simulated.fabric, &simulated.flows);
    let time_series = scenario.time_series;
    let started = (Instant::now(), thread_cpu());
    let outcome = sim::run_while(&scenario, &|| !journal.is_interrupted()).ok_or(Error::Interrupted)?;
    let timing = timing(run, started);
    let load = (traffic_of(case).transport.kind, traffic_of(case).streams);
    let pairs = pairs_together(fabric, flows, &outcome, load, experiment.duration);
    let mut record = record(fabric, run, experiment.duration, pairs, &outcome);
    let steps = time_series.map(|step| (step, experiment.duration));
    record.time_series =
        steps.and_then(|steps| over_time(fabric, &traffic_of(case).transport, steps, (&outcome, load)));
    check_carried(fabric, &scenario, &outcome, &record.links).map_err(|excess| run.more_than_carried(excess))?;
    Ok((record, timing))
}

/// A run of traffic, and all that its scenario borrows.
pub(crate) struct TrafficRun<'a> {
    pub(crate) fabric: Cow<'a, Fabric>,
    routes: &'a Arc<Routes>,
    experiment: &'a Experiment,
    case: &'a Case,
    flows: Vec<FlowSpec>,
    pipelines: Pipelines,
    time_series: Option<Span>,
    hosts: Option<sim::HostCosts>,
    seed: u64,
}

impl<'a> TrafficRun<'a> {
    pub(crate) fn new(
        (fabric, routes): (&'a Fabric, &'a Arc<Routes>),
        experiment: &'a Experiment,
        case: &'a Case,
        run: &PlannedRun,
        options: &Options,
    ) -> Result<Self, Error> {
        let fabric = overridden(fabric, case);
        let flows = flows(&fabric, experiment, case, run)?;
        let pipelines = fabric.pipelines(run.seed.into());
        let hosts = options.hosts.map(|costs| costs.simulated(traffic_of(case).rate_pps.is_some()));
        let time_series = options.step_of(experiment);
        Ok(Self { fabric, routes, experiment, case, flows, pipelines, time_series, hosts, seed: run.seed })
    }

    pub(crate) fn scenario(&self) -> Scenario<'_> {
        let traffic = traffic_of(self.case);
        Scenario {
            pipelines: &self.pipelines,
            fabric: &self.fabric,
            routes: self.routes,
            spread: self.case.overrides.spread(&self.fabric),
            transport: &traffic.transport,
            flows: &self.flows,
            warm_up: self.experiment.warm_up,
            duration: self.experiment.duration,
            rate_pps: traffic.rate_pps,
            transfers: traffic.transfers.as_ref(),
            requests: traffic.requests.as_deref(),
            time_series: self.time_series,
            faults: &traffic.faults,
            hosts: self.hosts,
            seed: self.seed,
        }
    }
}

/// Holds what came to hosts against what their links can have carried.
fn check_carried(
    fabric: &Fabric,
    scenario: &Scenario<'_>,
    outcome: &Outcome,
    links: &[LinkRecord],
) -> Result<(), Excess> {
    let payload = scenario.transport.segment_bytes.max(1);
    // What waits for a core of the machine has been carried before.
    let connections = if scenario.transfers.is_some() { OPEN_MAX as u64 } else { 1 };
    let backlog = scenario.hosts.map_or(0, |_| u64::from(sim::BACKLOG) * connections);
    let waiting = |host| {
        let flows = scenario.flows.iter().filter(|flow| flow.to == host).count() as u64;
        let ends = fabric.topology.bonds.iter().zip(&outcome.bonds).filter(|(end, _)| end.node == host);
        let resequenced = ends.filter_map(|(_, did)| did.reordering).map(|did| u64::from(did.waiting_peak));
        resequenced.sum::<u64>() + backlog * flows
    };
    let delivery = Delivery {
        fabric,
        links,
        window: scenario.duration,
        flows: scenario.flows.iter().zip(&outcome.flows).map(|(flow, did)| (flow.to, did.arrived_bytes)).collect(),
        packet: Packet { payload, bytes: payload.saturating_add(scenario.transport.header_bytes) },
        late: Span::ZERO,
        between_threads: 0,
        incomplete: 0,
        resequenced: &waiting,
    };
    delivery.check()
}

fn one_cluster(
    fabric: &Fabric,
    experiment: &Experiment,
    case: &Case,
    run: &PlannedRun,
) -> Result<(Record, Timing), Error> {
    let started = (Instant::now(), thread_cpu());
    let controllers = controllers_of(fabric, case);
    let outcome = cluster::simulated::run(case, &controllers, experiment.duration, run.seed);
    let (record, seconds) = outcome.map_err(|message| Error::Controllers {
        experiment: run.experiment.clone(),
        case: run.labels.to_string(),
        repeat: run.repeat,
        message,
    })?;
    Ok((cluster::record(run, record, seconds), timing(run, started)))
}

fn timing(run: &PlannedRun, (wall, cpu): (Instant, Duration)) -> Timing {
    let cpu_seconds = Some(thread_cpu().saturating_sub(cpu).as_secs_f64());
    Timing { cpu_seconds, ..run.timing(wall) }
}

fn overridden<'a>(fabric: &'a Fabric, case: &Case) -> Cow<'a, Fabric> {
    if case.overrides.spread_only() { Cow::Borrowed(fabric) } else { Cow::Owned(fabric.with(&case.overrides)) }
}

/// The flows with their starts. Linux's streams of a pair begin together, as those of one program do.
fn flows(fabric: &Fabric, experiment: &Experiment, case: &Case, run: &PlannedRun) -> Result<Vec<FlowSpec>, Error> {
    let pairs = pairs_of(fabric, case, run.seed).map_err(|reason| Error::Pattern {
        experiment: run.experiment.clone(),
        case: run.labels.to_string(),
        reason,
    })?;
    if traffic_of(case).requests.is_some() {
        return Ok(Vec::new());
    }
    let streams = traffic_of(case).streams as usize;
    let mut starts = starts(run.seed, experiment.warm_up);
    let together = if traffic_of(case).transport.kind == TransportKind::Linux { streams } else { 1 };
    let mut flows = Vec::with_capacity(pairs.len() * streams);
    for (from, to) in pairs {
        for _ in 0..streams / together {
            let start = Time::ZERO + starts.next().unwrap_or_default();
            flows.extend(std::iter::repeat_n(FlowSpec { from, to, start }, together));
        }
    }
    Ok(flows)
}

/// CPU time of this thread: what one core spent on it, whatever else the machine was doing.
fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Into::into)
}

/// What the streams of each pair did together. Hosts with Linux's TCP have had what came to them, each byte once, as live ones; the studies counted what their
/// applications had in order.
fn pairs_together(
    fabric: &Fabric,
    flows: &[FlowSpec],
    outcome: &Outcome,
    (kind, streams): (TransportKind, u32),
    duration: Span,
) -> Vec<FlowRecord> {
    let streams = streams.max(1) as usize;
    let pairs = flows.chunks(streams).zip(outcome.flows.chunks(streams));
    let got = |did: &FlowOutcome| came(kind, did.arrived_bytes, did.delivered_bytes);
    pairs.map(|(flows, did)| flow_record(fabric, &flows[0], (did, got), duration.as_secs_f64())).collect()
}

/// Which bytes count as delivered: those that came to the host, or those that its application had in order.
fn came(kind: TransportKind, arrived_bytes: u64, delivered_bytes: u64) -> u64 {
    if kind == TransportKind::Linux { arrived_bytes } else { delivered_bytes }
}

/// The run from step to step.
fn over_time(
    fabric: &Fabric,
    transport: &TransportSpec,
    steps: (Span, Span),
    (outcome, (kind, streams)): (&Outcome, (TransportKind, u32)),
) -> Option<Box<TimeSeries>> {
    let segment_bytes = f64::from(transport.segment_bytes.max(1));
    let pair = |flows: &[FlowSample]| FlowMoment {
        delivered_bytes: flows.iter().map(|flow| came(kind, flow.arrived_bytes, flow.delivered_bytes)).sum(),
        reordered: flows.iter().map(|flow| flow.reordered).sum(),
        sender: (flows.iter())
            .map(|flow| Some((flow.cwnd_bytes? as f64 / segment_bytes, flow.retransmits)))
            .reduce(|a, b| a.zip(b).map(|(a, b)| (a.0 + b.0, a.1 + b.1)))
            .flatten(),
        rtt: statistics::mean(&flows.iter().filter_map(|flow| Some(flow.rtt?.as_secs_f64())).collect::<Vec<_>>()),
    };
    let moment = |sample: &Sample| Moment {
        at: sample.at.as_secs_f64(),
        flows: sample.flows.chunks(streams.max(1) as usize).map(pair).collect(),
        waited: (sample.links.iter())
            .flat_map(|link| [link.forward.waited, link.backward.waited].map(machine::nanos::Span::as_secs_f64))
            .collect(),
        marks: sample.links.iter().flat_map(|link| [link.forward.marks, link.backward.marks]).collect(),
    };
    let moments: Vec<Moment> = outcome.samples.iter().map(moment).collect();
    TimeSeries::new(fabric, steps, &moments).map(Box::new)
}

fn record(fabric: &Fabric, run: &PlannedRun, duration: Span, flows: Vec<FlowRecord>, outcome: &Outcome) -> Record {
    let links: Vec<LinkRecord> = fabric
        .topology
        .links
        .iter()
        .zip(&outcome.links)
        .flat_map(|(link, LinkOutcome { forward, backward })| {
            [(Side::A, forward), (Side::B, backward)]
                .map(|(from, counters)| link_record(fabric, link, from, counters, duration))
        })
        .collect();
    Record {
        flows,
        bonds: bonds::records(fabric, &links, |id| outcome.bonds.get(usize::from(id)).and_then(bonds::order_of)),
        links,
        packet_hops: Some(outcome.packet_hops),
        requests: outcome.requests.clone().map(|outcome| Box::new(outcome.into())),
        lost_outside_links: outcome.host_drops,
        lost: outcome.lost.iter().map(|(reason, lost)| ((*reason).to_owned(), *lost)).collect(),
        ..run.record(duration.as_secs_f64())
    }
}

fn flow_record(
    fabric: &Fabric,
    flow: &FlowSpec,
    (did, got): (&[FlowOutcome], impl Fn(&FlowOutcome) -> u64),
    seconds: f64,
) -> FlowRecord {
    let sum = |of: fn(&FlowOutcome) -> u64| did.iter().map(of).sum::<u64>();
    let bytes: u64 = did.iter().map(got).sum();
    FlowRecord {
        from: node_name(fabric, flow.from),
        to: node_name(fabric, flow.to),
        goodput_bps: if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 },
        program_goodput_bps: None,
        retransmits: sum(|did| did.retransmits),
        fast_retransmits: Some(sum(|did| did.fast_retransmits)),
        timeouts: Some(sum(|did| did.timeouts)),
        reordered: Some(sum(|did| did.reordering.reordered)),
        reorder_extent: did.iter().map(|did| did.reordering.extent_max).max(),
        delays: did.iter().map(|did| did.delays.clone()).reduce(|mut sum, delays| {
            sum.add(&delays);
            sum
        }),
        // A flow at a constant rate has no streams beside it.
        datagrams: did.first().and_then(|did| did.datagrams),
        // Nor has a pair whose connections come and go.
        transfers: did.first().and_then(|did| did.transfers.clone()),
        failure: None,
    }
}
