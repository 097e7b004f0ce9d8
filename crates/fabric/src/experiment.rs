//! Experiments: from the words of the file to patterns, axes and claims about a checked network.

use std::collections::BTreeMap;

use datapath::Service;
use machine::Span;
use topology::{NodeId, Topology};
use transport::{TransportKind, TransportSpec, linux};
use vswitch::chain::Chains;

use crate::bonds::BondSetting;
use crate::cluster::{self, ClusterText};
use crate::document::{ExperimentText, NamePair};
use crate::error::Problems;
use crate::expect;
use crate::faults::Run;
use crate::graph::Graph;
use crate::overrides::{bond_settings, traffic_settings};
use crate::pattern::PatternText;
use crate::quantity::{PacketRate, Whole};
use crate::read::Name;
use crate::source::{At, Place};
use crate::traffic::{DelayedAck, TrafficSetting, TrafficText};
use crate::vary::About;
use crate::{
    Axis, ClusterLoad, Controllers, Experiment, HostSetup, LinkFault, Pattern, RequestLoad, SwitchedBy, Traffic, Work,
};
use crate::{repeat, requests, switched_by, sysctl, time_series, transfers, window};

/// The most pairs of hosts that the cases of one experiment name together.
const MOST_PAIRS: usize = 10_000_000;
/// The most flows of one pattern.
const MOST_FLOWS: u64 = 1_000_000;
/// Bytes of an Ethernet header: what a frame has besides the MTU.
const ETHERNET: u32 = 14;
/// Bytes that a frame takes on an Ethernet wire besides itself: preamble, frame check sequence, interframe gap (IEEE 802.3).
const FRAMING: u32 = 8 + 4 + 12;
/// Bytes of IPv4 and TCP headers with timestamps.
const IP_TCP: u32 = 52;
/// Of IPv4 and UDP.
const IP_UDP: u32 = 28;

/// What experiments are checked against.
pub(crate) struct Context<'a> {
    graph: &'a Graph,
    mtu: u32,
    hosts: BTreeMap<&'a str, NodeId>,
    pub services: &'a [Service],
    functions: Functions<'a>,
    controllers: Block<'a>,
}

/// The chains of the file, and by name what runs in their functions.
#[derive(Clone, Copy)]
pub(crate) struct Functions<'a> {
    pub chains: &'a Chains,
    pub setups: &'a BTreeMap<String, HostSetup>,
}

/// The `controllers:` block of the file.
#[derive(Clone, Copy)]
pub(crate) enum Block<'a> {
    /// There is none.
    Absent,
    /// It has a problem, which has been noted.
    Unsound,
    Sound(&'a Controllers),
}

impl<'a> Context<'a> {
    pub fn new(
        (graph, mtu): (&'a Graph, u32),
        services: &'a [Service],
        functions: Functions<'a>,
        controllers: Block<'a>,
    ) -> Self {
        let hosts = graph.topology.end_hosts().map(|(id, node)| (node.name.as_str(), id)).collect();
        Self { graph, mtu, hosts, services, functions, controllers }
    }

    pub fn graph(&self) -> &Graph {
        self.graph
    }

    /// Checks one experiment. `None`: it has a problem, which has been noted.
    pub fn experiment(
        &self,
        name: &Name,
        text: &At<ExperimentText>,
        problems: &mut Problems<'_>,
    ) -> Option<Experiment> {
        let (place, sound, text) = (text.place, text.sound, &text.value);
        let axes = match &text.vary {
            Some(vary) => {
                let about = if text.cluster.is_some() { About::Cluster } else { About::Traffic };
                vary.resolve(about, self, problems)
            }
            None => Some(Vec::new()),
        };
        let text_step = text.time_series.as_ref().map(|step| step.place);
        let work = match (&text.traffic, &text.cluster) {
            (Some(traffic), None) => {
                let duration = text.duration.map_or(Span::from_secs(1), |time| time.0);
                self.traffic(traffic, axes.as_deref(), duration, problems).map(Work::Traffic)
            }
            (None, Some(load)) => {
                let duration = text.duration.map(|time| time.0);
                axes.as_ref().and_then(|axes| self.load(load, axes, duration, problems)).map(Work::Cluster)
            }
            (traffic, cluster) => {
                if sound {
                    one_work(place, traffic.is_some() && cluster.is_some(), problems);
                }
                None
            }
        };
        let (axes, work) = (axes?, work?);
        let warm_up = text.warm_up.map_or(Span::ZERO, |time| time.0);
        // Traffic needs a time; a load on the controllers ends by itself.
        let usual = work.cluster().map_or(Span::from_secs(1), ClusterLoad::faults_end);
        let duration = text.duration.map_or(usual, |time| time.0);
        if let (Some(text), Work::Traffic(traffic)) = (&text.traffic, &work) {
            check_pairs(text, traffic, &axes, problems);
            self.check_flows(text, traffic, &axes, problems);
            let network = (&self.graph.topology, self.functions);
            switched_by::check(text, traffic, &axes, (network, text_step), problems);
            let pairs = self.most_pairs(traffic, &axes);
            transfers::check_number(text, traffic, &axes, (pairs, warm_up + duration), problems);
        }
        let flows = work.traffic().map_or(0, |traffic| self.most_pairs(traffic, &axes));
        let parts = (flows, self.graph.topology.links.len() as u64);
        let step = text.time_series.as_ref();
        let time_series = step.and_then(|step| time_series::check(step, &work, (duration, parts), problems));
        let known = expect::Axes { axes: &axes, context: self };
        let expect = expect::expectations(text.expect.as_ref(), &work, &known, problems);
        let published = expect::published(text.published.as_ref(), &work, &known, problems);
        let report = expect::report(text.report.as_ref(), &work, problems);
        let (repeat, until) = repeat::check(text.repeat.as_ref(), &work, problems);
        Some(Experiment {
            name: name.0.clone(),
            title: text.title.as_ref().map(|title| title.0.clone()).unwrap_or_default(),
            vary: axes,
            duration,
            warm_up,
            is_warm_up_given: text.warm_up.is_some(),
            time_series,
            repeat,
            until,
            expect,
            published,
            report,
            work,
        })
    }

    /// Streams multiply the flows of a pattern.
    fn check_flows(&self, text: &At<TrafficText>, traffic: &Traffic, axes: &[Axis], problems: &mut Problems<'_>) {
        let streams = varied_streams(axes).chain([traffic.streams]).max().unwrap_or(1);
        let most = self.most_pairs(traffic, axes) * u64::from(streams);
        if most > MOST_FLOWS && streams > 1 {
            problems.add(
                text.place,
                format!("{streams} streams a pair make {most} flows, more than {MOST_FLOWS}"),
                "too many flows",
                "use fewer streams, or a pattern with fewer pairs",
            );
        }
    }

    /// How many pairs of hosts the pattern with the most of them has.
    fn most_pairs(&self, traffic: &Traffic, axes: &[Axis]) -> u64 {
        let hosts = u64::from(self.graph.topology.end_host_count());
        let pairs = |pattern: &Pattern| match pattern {
            Pattern::AllToAll => hosts * hosts.saturating_sub(1),
            Pattern::Pairs(pairs) => pairs.len() as u64,
            Pattern::Incast(n) => hosts.saturating_sub(1).min(u64::from(*n)),
            _ => hosts,
        };
        varied_patterns(axes).chain([&traffic.pattern]).map(pairs).max().unwrap_or(0)
    }

    fn load(
        &self,
        text: &At<ClusterText>,
        axes: &[Axis],
        duration: Option<Span>,
        problems: &mut Problems<'_>,
    ) -> Option<ClusterLoad> {
        match self.controllers {
            Block::Sound(controllers) => cluster::load(text, controllers, axes, duration, problems),
            Block::Unsound => None,
            Block::Absent => {
                problems.add(
                    text.place,
                    "there are no controllers to ask",
                    "needs `controllers`",
                    "add `controllers: { nodes: 3 }` to the file, beside `experiments`",
                );
                None
            }
        }
    }

    fn traffic(
        &self,
        text: &At<TrafficText>,
        axes: Option<&[Axis]>,
        duration: Span,
        problems: &mut Problems<'_>,
    ) -> Option<Traffic> {
        if self.graph.topology.nodes.is_empty() {
            problems.add(
                text.place,
                "traffic needs a network; this file has controllers only",
                "nobody to talk",
                "add `topology: { fat-tree: { k: 4 } }`, or ask the controllers with `cluster:`",
            );
            return None;
        }
        let transport = self.transport(text, problems);
        let rate_fits = check_rate(&text.value, axes.unwrap_or_default(), problems);
        let transfers_fit = transfers::check(text, axes.unwrap_or_default(), problems);
        if let Some(axes) = axes {
            sysctl::check(text, axes, problems);
            window::check(text, axes, problems);
        }
        let requests = requests::requests(text, axes.unwrap_or_default(), self, problems);
        let requests_fit = requests::check_varied(text, axes.unwrap_or_default(), problems)
            && text.value.requests.is_some() == requests.is_some();
        let faults = self.faults(&text.value, axes, duration, problems);
        let varied = varied_patterns(axes.unwrap_or_default()).next();
        let pattern = match (&text.value.pattern, varied) {
            _ if text.value.requests.is_some() => requests.as_deref().map(|load| self.pairs_of_requests(load)),
            (Some(pattern), _) => self.pattern(&pattern.value, pattern.place, problems),
            (None, Some(varied)) => Some(varied.clone()),
            (None, None) => {
                // Without readable axes nobody knows whether they have a pattern.
                if axes.is_some() && text.sound {
                    problems.add(
                        text.place,
                        "`pattern` is missing",
                        "needs `pattern`",
                        "add `pattern: permutation`, or `pattern: [..]` under `vary`",
                    );
                }
                None
            }
        };
        let streams = text.value.streams.map_or(1, Whole::get);
        let payload = transport.as_ref().map_or(1, |transport| transport.segment_bytes);
        let rate_pps = text.value.rate.as_ref().map(|rate| rate.value.pps(payload));
        if let (Some(rate), Some(pps)) = (&text.value.rate, rate_pps)
            && pps > PacketRate::FASTEST_PPS
        {
            problems.add(
                rate.place,
                format!(
                    "in segments of {payload} bytes these are {pps} packets a second, more than {}",
                    PacketRate::FASTEST_PPS
                ),
                "too fast",
                "write a lower rate, or a larger `segment`",
            );
        }
        let transfers = text.value.transfers.as_ref().map(|text| text.value.transfers());
        let (pattern, transport) = (pattern?, transport?);
        let switched_by = text.value.switched_by.as_ref().map_or(SwitchedBy::Heddle, |by| by.value);
        let traffic = Traffic { pattern, transport, streams, rate_pps, transfers, requests, faults, switched_by };
        (rate_fits && transfers_fit && requests_fit).then_some(traffic)
    }

    /// Each client with each server.
    fn pairs_of_requests(&self, load: &RequestLoad) -> Pattern {
        let service = self.services.iter().find(|service| service.name == load.service);
        let servers = service.iter().flat_map(|service| &service.servers).map(|server| server.host);
        Pattern::Pairs(servers.flat_map(|to| load.from.iter().map(move |from| (*from, to))).collect())
    }

    fn faults(
        &self,
        text: &TrafficText,
        axes: Option<&[Axis]>,
        duration: Span,
        problems: &mut Problems<'_>,
    ) -> Vec<LinkFault> {
        // Without readable axes nobody knows how many members bonds have.
        let (Some(faults), Some(axes)) = (&text.faults, axes) else { return Vec::new() };
        let members = bond_settings(axes)
            .filter_map(|setting| if let BondSetting::Members(members) = setting { Some(*members) } else { None });
        let run = Run { graph: self.graph, services: self.services, duration, least_members: members.min() };
        run.faults(faults, problems)
    }

    fn transport(&self, text: &At<TrafficText>, problems: &mut Problems<'_>) -> Option<TransportSpec> {
        let (place, text) = (text.place, &text.value);
        let kind = text.transport.map(|kind| kind.0).unwrap_or_default();
        let headers = if kind == TransportKind::Udp { IP_UDP } else { IP_TCP };
        let segment_bytes = text.segment.as_ref().map_or(self.mtu - headers, |size| size.value.0);
        let header_bytes = text.header.map_or(ETHERNET + headers, |size| size.0);
        // Whoever counts the headers may count what a frame takes on the wire.
        let framing = if text.header.is_some() { FRAMING } else { 0 };
        let (packet, most) = (segment_bytes + header_bytes, self.mtu + ETHERNET + framing);
        if packet > most {
            problems.add(
                text.segment.as_ref().map_or(place, |size| size.place),
                format!("a segment of {segment_bytes} B with {header_bytes} B of headers is {packet} B, more than a frame of {most} B"),
                "too long for the MTU",
                format!("at most {} B, or raise `mtu:`", most.saturating_sub(header_bytes)),
            );
            return None;
        }
        let mut linux = linux::Settings {
            congestion_control: text.congestion_control.as_ref().map(|control| control.value.0).unwrap_or_default(),
            reordering: text.duplicate_ack_threshold.map_or(3, Whole::get),
            ..linux::Settings::default()
        };
        if let Some(sysctl) = &text.sysctl {
            sysctl.value.apply(&mut linux);
        }
        Some(TransportSpec {
            kind,
            window: window::of(text.window.as_ref()),
            initial_window: text.initial_window.map_or(10, Whole::get),
            duplicate_ack_threshold: text.duplicate_ack_threshold.map_or(3, Whole::get),
            delayed_ack: text.delayed_ack.unwrap_or(DelayedAck(Some(Span::from_ms(40)))).0,
            segment_bytes,
            header_bytes,
            rto_min: text.rto_min.map_or(Span::from_ms(200), |time| time.0),
            linux,
        })
    }

    /// A pattern with its hosts; `None`: it has a problem, which has been noted.
    pub fn pattern(&self, text: &PatternText, place: Place, problems: &mut Problems<'_>) -> Option<Pattern> {
        let hosts = self.graph.topology.end_host_count();
        if hosts < 2 {
            problems.add(place, "traffic needs two hosts; there is one", "nobody to talk to", "add a host");
            return None;
        }
        Some(match text {
            PatternText::Random => Pattern::Random,
            PatternText::Permutation => Pattern::Permutation,
            PatternText::Staggered(edge, pod) => Pattern::Staggered(*edge, *pod),
            PatternText::Incast(n) if *n >= hosts => {
                let others = hosts - 1;
                let are = if others == 1 { "is one other".to_owned() } else { format!("are {others} others") };
                problems.add(
                    place,
                    format!("incast({n}) needs {n} senders besides the first host; there {are}"),
                    "too many",
                    match others {
                        1 => "write incast(1)".to_owned(),
                        _ => format!("from incast(1) to incast({others})"),
                    },
                );
                return None;
            }
            PatternText::Incast(n) => Pattern::Incast(*n),
            PatternText::Stride(i) if *i >= hosts => {
                problems.add(
                    place,
                    format!("stride({i}) goes beyond the {hosts} hosts"),
                    "too far",
                    format!("from stride(1) to stride({})", hosts - 1),
                );
                return None;
            }
            PatternText::Stride(i) => Pattern::Stride(*i),
            PatternText::AllToAll => {
                let flows = u64::from(hosts) * u64::from(hosts - 1);
                if flows > MOST_FLOWS {
                    problems.add(
                        place,
                        format!("all-to-all among {hosts} hosts makes {flows} flows, more than {MOST_FLOWS}"),
                        "too many flows",
                        "use `permutation` or `random`",
                    );
                    return None;
                }
                Pattern::AllToAll
            }
            PatternText::Pairs(pairs) => {
                let pairs: Vec<_> = pairs.iter().map(|pair| self.pair(&pair.value, problems)).collect();
                Pattern::Pairs(pairs.into_iter().collect::<Option<_>>()?)
            }
        })
    }

    fn pair(&self, NamePair(from, to): &NamePair, problems: &mut Problems<'_>) -> Option<(NodeId, NodeId)> {
        let (a, b) = (self.host(from, problems), self.host(to, problems));
        let (a, b) = (a?, b?);
        if a == b {
            problems.add(
                to.place,
                format!("`{}` would talk to itself", to.value.0),
                "the same host",
                "a pair is two hosts",
            );
            return None;
        }
        Some((a, b))
    }

    fn host(&self, name: &At<Name>, problems: &mut Problems<'_>) -> Option<NodeId> {
        let Name(text) = &name.value;
        let found = self.hosts.get(text.as_str()).copied();
        if found.is_none() {
            let switch = !problems.is_full() && self.graph.topology.nodes.iter().any(|node| node.name == *text);
            let what = if switch { "is a switch; only hosts talk" } else { "is not a host of this network" };
            let hint = problems.hint(|| self.graph.host_hint(text));
            problems.add(name.place, format!("`{text}` {what}"), "unknown host", hint);
        }
        found
    }

    /// Whether links do anything to packets; notes it at `place` if not.
    pub fn some_link_is_shaped(&self, place: Place, problems: &mut Problems<'_>) -> bool {
        let any = self.graph.topology.is_shaped();
        if !any {
            let message = "no link has a rate, a delay or losses: this would change nothing";
            problems.add(
                place,
                message,
                "changes nothing",
                "remove it, or give the links a rate: `links: { rate: 1Gbit }`",
            );
        }
        any
    }

    pub const fn topology(&self) -> &Topology {
        &self.graph.topology
    }

    /// Whether a rate or a queue of links can be varied; notes it at `place` if not.
    pub fn some_link_has_a_rate(&self, place: Place, problems: &mut Problems<'_>) -> bool {
        let any = self.graph.topology.links.iter().any(|link| link.specs().any(|spec| spec.rate_bps.is_some()));
        if !any {
            problems.add(
                place,
                "no link has a rate: this would change nothing",
                "changes nothing",
                "give the links a rate: `links: { rate: 1Gbit }`",
            );
        }
        any
    }
}

/// Whether what has a rate can have one: only UDP is sent so. Notes it if not.
fn check_rate(text: &TrafficText, axes: &[Axis], problems: &mut Problems<'_>) -> bool {
    let Some(rate) = &text.rate else { return true };
    if let Some(tcp) = transports(text, axes).into_iter().find(|kind| *kind != TransportKind::Udp) {
        problems.add(
            rate.place,
            format!("`{}` has no rate: TCP sends as fast as the network lets it", tcp.name()),
            "only with `udp`",
            "write `transport: udp`, or remove `rate`",
        );
        return false;
    }
    if varied_streams(axes).any(|streams| streams > 1) || text.streams.is_some_and(|streams| streams.get() > 1) {
        problems.add(
            rate.place,
            "a pair of hosts has one flow at a constant rate, not several streams",
            "with streams",
            "remove `streams`, and multiply the rate",
        );
        return false;
    }
    true
}

/// The transports that cases have; one at least.
pub(crate) fn transports(text: &TrafficText, axes: &[Axis]) -> Vec<TransportKind> {
    let mut kinds: Vec<TransportKind> = traffic_settings(axes)
        .filter_map(|setting| if let TrafficSetting::Transport(kind) = setting { Some(*kind) } else { None })
        .collect();
    if kinds.is_empty() {
        kinds.push(text.transport.map(|kind| kind.0).unwrap_or_default());
    }
    kinds
}

/// The patterns that cases have, where that varies.
pub(crate) fn varied_patterns(axes: &[Axis]) -> impl Iterator<Item = &Pattern> {
    traffic_settings(axes)
        .filter_map(|setting| if let TrafficSetting::Pattern(pattern) = setting { Some(pattern) } else { None })
}

/// The numbers of streams that cases have, where that varies.
pub(crate) fn varied_streams(axes: &[Axis]) -> impl Iterator<Item = u32> {
    traffic_settings(axes)
        .filter_map(|setting| if let TrafficSetting::Streams(streams) = setting { Some(*streams) } else { None })
}

/// Notes that an experiment does two things, or nothing.
fn one_work(place: Place, both: bool, problems: &mut Problems<'_>) {
    let (message, label) = if both {
        ("an experiment has `traffic` or asks the `cluster`, not both", "has both")
    } else {
        ("nothing goes on in this experiment: neither `traffic` nor `cluster`", "needs one of them")
    };
    let hint = if both {
        "make two experiments"
    } else {
        "add `traffic: { pattern: permutation }`, or `cluster: { at: leader }` to ask the controllers"
    };
    problems.add(place, message, label, hint);
}

/// Lists of pairs are copied into every case: their product is what takes memory.
fn check_pairs(text: &At<TrafficText>, traffic: &Traffic, axes: &[Axis], problems: &mut Problems<'_>) {
    let longest = varied_patterns(axes).chain([&traffic.pattern]).map(|pattern| match pattern {
        Pattern::Pairs(pairs) => pairs.len(),
        _ => 0,
    });
    let cases: usize = axes.iter().map(|axis| axis.values.len()).product();
    let pairs = longest.max().unwrap_or(0);
    if pairs * cases > MOST_PAIRS {
        problems.add(
            text.place,
            format!("{cases} cases of {pairs} pairs each are more than {MOST_PAIRS} pairs"),
            "too many pairs",
            "vary less, or name fewer pairs",
        );
    }
}
