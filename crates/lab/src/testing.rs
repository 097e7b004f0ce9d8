//! Small fabrics and made-up measurements for the tests of this crate.

use std::collections::BTreeMap;

use fabric::{
    Axis, Bound, DriverKind, Expectation, Experiment, Fabric, Metric, NetworkSetting, Pattern, Traffic, TrafficSetting,
    Work,
};
use link::LinkSpec;
use machine::{Rng, Span};
use topology::{HostAddress, NodeId, Rerouting, Side, TiVec, Topology};
use transport::{TransportKind, TransportSpec};
use vswitch::Spread;
use vswitch::chain::Chains;

use crate::labels::Labels;
use crate::measure::environment::{Environment, SimulatorSpeed, Timing};
use crate::measure::record::{FlowRecord, LinkRecord, Record};
use crate::plan::{Plan, pairs_of};
use crate::results::Results;

/// A tree of three tiers: `pods` pods of `edges` edge switches with `hosts` hosts each, and one core switch.
pub(crate) fn tree(pods: u32, edges: u32, hosts: u32, with_pods: bool) -> Fabric {
    let count = pods * edges * hosts;
    let mut topology = Topology::default();
    for x in 0..count {
        let address = HostAddress {
            mac: [2, 0, 0, 0, 0, x as u8],
            ipv4: std::net::Ipv4Addr::from(0x0a00_0002 + x),
            ipv4_prefix: 8,
            ipv6: std::net::Ipv6Addr::LOCALHOST,
            ipv6_prefix: 64,
            pod: with_pods.then_some(x / (edges * hosts)),
        };
        topology.add_host(format!("h{}", x + 1), address);
    }
    for edge in 0..pods * edges {
        topology.add_switch(format!("edge{}", edge + 1), 1, with_pods.then_some(edge / edges));
    }
    for pod in 0..pods {
        topology.add_switch(format!("agg{}", pod + 1), 2, with_pods.then_some(pod));
    }
    topology.add_switch("core".to_owned(), 3, None);
    topology.arrange();
    let spec = LinkSpec {
        rate_bps: Some(100_000_000),
        delay: Span::from_us(50),
        queue_packets: Some(100),
        ..LinkSpec::default()
    };
    let mut join = |a: u32, b: u32| topology.connect(NodeId(a), NodeId(b), spec);
    for x in 0..count {
        join(x, count + x / hosts);
    }
    for edge in 0..pods * edges {
        join(count + edge, count + pods * edges + edge / edges);
    }
    for pod in 0..pods {
        join(count + pods * edges + pod, count + pods * edges + pods);
    }
    Fabric {
        name: "tree".to_owned(),
        description: "A tree for tests".to_owned(),
        topology,
        bonds: TiVec::new(),
        spread: Spread::Ecmp,
        rerouting: Rerouting::Follow,
        kernel: datapath::KernelUse::No,
        mtu: 1_500,
        seed: 7,
        flow_tables: BTreeMap::new(),
        switches: BTreeMap::new(),
        chains: Chains::default(),
        simulated_functions: Vec::new(),
        services: Vec::new(),
        names: Vec::new(),
        setups: BTreeMap::new(),
        controllers: None,
        experiments: Vec::new(),
    }
}

/// Reno with a window of 20 segments.
pub(crate) fn reno() -> TransportSpec {
    TransportSpec {
        kind: TransportKind::Reno,
        window: 20.into(),
        initial_window: 3,
        duplicate_ack_threshold: 3,
        delayed_ack: None,
        segment_bytes: 1_000,
        header_bytes: 40,
        rto_min: Span::from_secs(1),
        linux: transport::linux::Settings::default(),
    }
}

/// Two patterns under two policies, three times, with one expectation that `limit` decides.
pub(crate) fn experiment(limit: f64) -> Experiment {
    let patterns = [("stride(1)", Pattern::Stride(1)), ("staggered(0.5, 0.3)", Pattern::Staggered(0.5, 0.3))];
    let spreads = [("single", Spread::Single), ("packet-scatter", Spread::PacketScatter)];
    Experiment {
        name: "scatter".to_owned(),
        title: "Single path and <packet> scatter".to_owned(),
        work: Work::Traffic(Traffic {
            pattern: Pattern::Random,
            transport: reno(),
            streams: 1,
            rate_pps: None,
            transfers: None,
            requests: None,
            faults: Vec::new(),
            switched_by: fabric::SwitchedBy::Heddle,
        }),
        vary: vec![
            Axis {
                key: "pattern".to_owned(),
                values: patterns
                    .map(|(text, pattern)| (text.to_owned(), TrafficSetting::Pattern(pattern).into()))
                    .to_vec(),
            },
            Axis {
                key: "spread".to_owned(),
                values: spreads.map(|(text, spread)| (text.to_owned(), NetworkSetting::Spread(spread).into())).to_vec(),
            },
        ],
        duration: Span::from_ms(100),
        warm_up: Span::from_ms(50),
        is_warm_up_given: true,
        time_series: None,
        repeat: 3,
        until: None,
        expect: vec![Expectation {
            metric: Metric::GoodputMean,
            only: vec![("spread".to_owned(), "single".to_owned())],
            driver: None,
            bound: Bound::AtLeast(limit),
            text: ">= 20 Mbit/s".to_owned(),
            line: 12,
        }],
        published: Vec::new(),
        report: Vec::new(),
    }
}

/// Measurements of every run of `plan` that look like some but come from a random source.
pub(crate) fn invented(fabric: &Fabric, plan: &Plan) -> Results {
    let measured = plan
        .runs
        .iter()
        .map(|run| {
            let mut rng = Rng::new(run.seed).fork(99 + run.driver as u64);
            let (index, cases) = &plan.cases[run.at.0];
            let case = &cases[run.at.1];
            let scatter = case.overrides.spread(fabric) == Spread::PacketScatter;
            let base = if scatter { 70e6 } else { 52e6 };
            let is_sim = run.driver == DriverKind::Sim;
            let name = |node: NodeId| fabric.topology.nodes[node].name.clone();
            let flows = pairs_of(fabric, case, run.seed).unwrap().into_iter().map(|(from, to)| {
                let goodput_bps = (base * (0.7 + 0.4 * rng.fraction())).round();
                FlowRecord {
                    retransmits: u64::from(rng.below(4)),
                    fast_retransmits: is_sim.then_some(2),
                    timeouts: is_sim.then_some(0),
                    reordered: Some(if scatter { u64::from(rng.below(40)) } else { 0 }),
                    reorder_extent: Some(u32::from(scatter) * 3),
                    ..FlowRecord::new(name(from), name(to), goodput_bps)
                }
            });
            let flows = flows.collect();
            let record = Record {
                experiment: fabric.experiments[*index].name.clone(),
                case: run.at.1,
                labels: run.labels.clone(),
                repeat: run.repeat,
                seed: run.seed,
                driver: run.driver,
                seconds: 0.1,
                flows,
                links: links(fabric, &mut rng),
                bonds: Vec::new(),
                packet_hops: is_sim.then_some(1_000_000),
                reordered: None,
                reorder_extent: None,
                lost_outside_links: (!is_sim).then_some(0),
                lost: BTreeMap::new(),
                late_max_us: (!is_sim).then_some(40),
                time_series: None,
                busy_cores: None,
                requests: None,
                cluster: None,
            };
            let timing = Timing {
                experiment: record.experiment.clone(),
                labels: record.labels.clone(),
                repeat: run.repeat,
                driver: run.driver,
                wall_seconds: 0.2,
                cpu_seconds: is_sim.then_some(0.1),
            };
            (record, timing)
        })
        .collect();
    Results::new(fabric, plan, measured, environment())
}

/// A simulated run in which nothing happened.
pub(crate) fn empty_record() -> Record {
    Record {
        experiment: "e".to_owned(),
        case: 0,
        labels: Labels::default(),
        repeat: 1,
        seed: 1,
        driver: DriverKind::Sim,
        seconds: 1.0,
        flows: Vec::new(),
        links: Vec::new(),
        bonds: Vec::new(),
        packet_hops: None,
        reordered: None,
        reorder_extent: None,
        lost_outside_links: None,
        lost: BTreeMap::new(),
        late_max_us: None,
        time_series: None,
        busy_cores: None,
        requests: None,
        cluster: None,
    }
}

fn links(fabric: &Fabric, rng: &mut Rng) -> Vec<LinkRecord> {
    let mut records = Vec::new();
    for link in &fabric.topology.links {
        for side in [Side::A, Side::B] {
            let (from, to) = (link.end(side).node, link.end(side.other()).node);
            records.push(LinkRecord {
                from: fabric.topology.nodes[from].name.clone(),
                to: fabric.topology.nodes[to].name.clone(),
                trunk: !fabric.topology.is_host(from) && !fabric.topology.is_host(to),
                packets: 1_000,
                bytes: 1_040_000,
                drops: u64::from(rng.below(2)),
                marks: 0,
                cut: 0,
                losses: 0,
                duplicates: 0,
                corruptions: 0,
                overtakes: 0,
                utilisation: Some((rng.fraction() * 1_000.0).round() / 1_000.0),
                queue_mean: Some(0.5),
            });
        }
    }
    records
}

/// A machine that never was.
pub(crate) fn environment() -> Environment {
    Environment {
        date: "2026-11-21 10:38:00".to_owned(),
        cpu: "Example <CPU>".to_owned(),
        cores: 2,
        memory_bytes: 24 << 30,
        kernel: "Linux 6.18".to_owned(),
        version: "0.1.0".to_owned(),
        iperf3: Some("iperf 3.12".to_owned()),
        command: vec!["heddle".to_owned(), "run".to_owned(), "tree.fabric.yaml".to_owned()],
        made_from: String::new(),
        hosts: None,
        simulator: Some(SimulatorSpeed { packet_hops: 0, cpu_seconds: 0.0, per_second: 0.0 }),
        timings: Vec::new(),
    }
}
