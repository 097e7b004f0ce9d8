//! Experiments: from the words of the file to patterns, axes and claims about a checked network.

use std::collections::BTreeMap;

use machine::Span;
use topology::NodeId;
use transport::{TransportKind, TransportSpec};

use crate::bonds;
use crate::cluster::{self, ClusterText};
use crate::document::{Axes, DelayedAck, Ends, ExperimentText, TrafficText, Vary};
use crate::error::Problems;
use crate::expect;
use crate::faults::Run;
use crate::graph::Graph;
use crate::names::one_of;
use crate::pattern::PatternText;
use crate::quantity::Whole;
use crate::read::{Name, Written, shown};
use crate::source::{At, Place};
use crate::{Axis, ClusterLoad, Controllers, Experiment, LinkFault, Pattern, Setting, Traffic, Work};

/// The most cases of one experiment.
const MOST_CASES: usize = 10_000;
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

/// The axes of traffic.
const OF_TRAFFIC: [&str; 14] = [
    "spread",
    "routes",
    "pattern",
    "transport",
    "streams",
    "window",
    "initial-window",
    "duplicate-ack-threshold",
    "links.rate",
    "links.delay",
    "links.queue",
    "mode",
    "members",
    "reorder",
];
/// The axes of what is asked of the controllers.
const OF_CLUSTER: [&str; 8] = ["nodes", "shards", "election-timeout", "pre-vote", "delay", "at", "clients", "value"];

/// What experiments are checked against.
pub(crate) struct Context<'a> {
    graph: &'a Graph,
    mtu: u32,
    hosts: BTreeMap<&'a str, NodeId>,
    controllers: Block<'a>,
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
    pub fn new(graph: &'a Graph, mtu: u32, controllers: Block<'a>) -> Self {
        let hosts = graph.topology.hosts().map(|(id, node)| (node.name.as_str(), id)).collect();
        Self { graph, mtu, hosts, controllers }
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
            Some(vary) => self.axes(vary, text.cluster.is_some(), problems),
            None => Some(Vec::new()),
        };
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
        if let (Some(text), Work::Traffic(traffic)) = (&text.traffic, &work) {
            check_pairs(text, traffic, &axes, problems);
            self.check_flows(text, traffic, &axes, problems);
        }
        let expect = expect::expectations(text.expect.as_ref(), &work, &axes, problems);
        let published = expect::published(text.published.as_ref(), &work, &axes, problems);
        let report = expect::report(text.report.as_ref(), &work, problems);
        // Traffic needs a time; a load on the controllers ends by itself.
        let usual = work.cluster().map_or(Span::from_secs(1), ClusterLoad::faults_end);
        Some(Experiment {
            name: name.0.clone(),
            title: text.title.as_ref().map(|title| title.0.clone()).unwrap_or_default(),
            vary: axes,
            duration: text.duration.map_or(usual, |time| time.0),
            warm_up: text.warm_up.map_or(Span::ZERO, |time| time.0),
            repeat: text.repeat.as_ref().map_or(1, |n| n.value.get()),
            expect,
            published,
            report,
            work,
        })
    }

    /// Streams multiply the flows of a pattern.
    fn check_flows(&self, text: &At<TrafficText>, traffic: &Traffic, axes: &[Axis], problems: &mut Problems<'_>) {
        let settings = || axes.iter().flat_map(|axis| &axis.values).map(|(_, setting)| setting);
        let streams = settings().filter_map(|setting| if let Setting::Streams(n) = setting { Some(*n) } else { None });
        let streams = streams.chain([traffic.streams]).max().unwrap_or(1);
        let hosts = u64::from(self.graph.topology.hosts);
        let flows = |pattern: &Pattern| match pattern {
            Pattern::AllToAll => hosts * hosts.saturating_sub(1),
            Pattern::Pairs(pairs) => pairs.len() as u64,
            _ => hosts,
        };
        let patterns = settings().filter_map(|setting| match setting {
            Setting::Pattern(pattern) => Some(pattern),
            _ => None,
        });
        let most = patterns.chain([&traffic.pattern]).map(flows).max().unwrap_or(0) * u64::from(streams);
        if most > MOST_FLOWS && streams > 1 {
            problems.add(
                text.place,
                format!("{streams} streams a pair make {most} flows, more than {MOST_FLOWS}"),
                "too many flows",
                "use fewer streams, or a pattern with fewer pairs",
            );
        }
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
        let faults = self.faults(&text.value, axes, duration, problems);
        let varied = axes.unwrap_or_default().iter().find_map(|axis| match axis.values.first() {
            Some((_, Setting::Pattern(pattern))) => Some(pattern.clone()),
            _ => None,
        });
        let pattern = match (&text.value.pattern, varied) {
            (Some(pattern), _) => self.pattern(&pattern.value, pattern.place, problems),
            (None, Some(varied)) => Some(varied),
            (None, None) => {
                // Without readable axes it can't be told whether they have a pattern.
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
        let rate_pps = text.value.rate.as_ref().map(|rate| rate.value.0);
        rate_fits.then_some(Traffic { pattern: pattern?, transport: transport?, streams, rate_pps, faults })
    }

    fn faults(
        &self,
        text: &TrafficText,
        axes: Option<&[Axis]>,
        duration: Span,
        problems: &mut Problems<'_>,
    ) -> Vec<LinkFault> {
        // Without readable axes it can't be told how many members bonds have.
        let (Some(faults), Some(axes)) = (&text.faults, axes) else { return Vec::new() };
        let settings = axes.iter().flat_map(|axis| &axis.values).map(|(_, setting)| setting);
        let members = settings.filter_map(|setting| match setting {
            Setting::BondMembers(members) => Some(*members),
            _ => None,
        });
        let run = Run { graph: self.graph, duration, least_members: members.min() };
        run.faults(faults, problems)
    }

    fn transport(&self, text: &At<TrafficText>, problems: &mut Problems<'_>) -> Option<TransportSpec> {
        let (place, text) = (text.place, &text.value);
        let segment_bytes = text.segment.as_ref().map_or(self.mtu - IP_TCP, |size| size.value.0);
        let header_bytes = text.header.map_or(ETHERNET + IP_TCP, |size| size.0);
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
        Some(TransportSpec {
            kind: text.transport.map_or(TransportKind::Sack, |kind| kind.0),
            window: text.window.map_or(256, Whole::get),
            initial_window: text.initial_window.map_or(10, Whole::get),
            duplicate_ack_threshold: text.duplicate_ack_threshold.map_or(3, Whole::get),
            delayed_ack: text.delayed_ack.unwrap_or(DelayedAck(Some(Span::from_ms(40)))).0,
            segment_bytes,
            header_bytes,
            rto_min: text.rto_min.map_or(Span::from_ms(200), |time| time.0),
        })
    }

    fn pattern(&self, text: &PatternText, place: Place, problems: &mut Problems<'_>) -> Option<Pattern> {
        let hosts = self.graph.topology.hosts;
        if hosts < 2 {
            problems.add(place, "traffic needs two hosts; there is one", "nobody to talk to", "add a host");
            return None;
        }
        Some(match text {
            PatternText::Random => Pattern::Random,
            PatternText::Permutation => Pattern::Permutation,
            PatternText::Staggered(edge, pod) => Pattern::Staggered(*edge, *pod),
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

    fn pair(&self, Ends(from, to): &Ends, problems: &mut Problems<'_>) -> Option<(NodeId, NodeId)> {
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

    fn axes(&self, vary: &Vary, of_cluster: bool, problems: &mut Problems<'_>) -> Option<Vec<Axis>> {
        let mut axes = Vec::new();
        let mut whole = true;
        for key in &vary.order {
            match self.axis(key, &vary.axes, problems) {
                Some((place, axis)) => {
                    whole &= check_kind(place, key, of_cluster, problems);
                    whole &= check_axis(place, &axis, problems) && push(&mut axes, axis, place, problems);
                }
                None => whole = false,
            }
        }
        whole.then_some(axes)
    }

    /// The axis `key` with its place; `None` when it can't be read.
    fn axis(&self, key: &str, axes: &Axes, problems: &mut Problems<'_>) -> Option<(Place, Axis)> {
        fn of<T>(values: Option<&At<Vec<Written<T>>>>, set: impl FnMut(&Written<T>) -> Option<Setting>) -> Found {
            let values = values.filter(|values| values.sound)?;
            let settings: Option<Vec<Setting>> = values.value.iter().map(set).collect();
            let texts = values.value.iter().map(|value| value.text.clone());
            Some((values.place, texts.zip(settings?).collect()))
        }
        type Found = Option<(Place, Vec<(String, Setting)>)>;
        let found = match key {
            "spread" => of(axes.spread.as_ref(), |w| Some(Setting::Spread(w.value.0))),
            "routes" => of(axes.routes.as_ref(), |w| Some(Setting::Routes(w.value.0))),
            "pattern" => of(axes.pattern.as_ref(), |w| self.pattern(&w.value, w.place, problems).map(Setting::Pattern)),
            "transport" => of(axes.transport.as_ref(), |w| Some(Setting::Transport(w.value.0))),
            "streams" => of(axes.streams.as_ref(), |w| Some(Setting::Streams(w.value.get()))),
            "window" => of(axes.window.as_ref(), |w| Some(Setting::Window(w.value.get()))),
            "initial-window" => of(axes.initial_window.as_ref(), |w| Some(Setting::InitialWindow(w.value.get()))),
            "duplicate-ack-threshold" => {
                of(axes.duplicate_ack_threshold.as_ref(), |w| Some(Setting::DuplicateAckThreshold(w.value.get())))
            }
            "links.rate" => of(axes.link_rate.as_ref(), |w| {
                self.some_link_has_a_rate(w.place, problems).then_some(Setting::LinkRate(w.value.0))
            }),
            "links.delay" => of(axes.link_delay.as_ref(), |w| Some(Setting::LinkDelay(w.value.0))),
            "links.queue" => of(axes.link_queue.as_ref(), |w| {
                self.some_link_has_a_rate(w.place, problems).then_some(Setting::LinkQueue(w.value.get()))
            }),
            "mode" => of(axes.mode.as_ref(), |w| {
                bonds::check_mode(self.graph, w.value.0, w.place, problems).then_some(Setting::BondMode(w.value.0))
            }),
            "members" => of(axes.members.as_ref(), |w| {
                let members = w.value.get();
                bonds::check_members(self.graph, members, w.place, problems).then_some(Setting::BondMembers(members))
            }),
            "reorder" => of(axes.reorder.as_ref(), |w| {
                bonds::check_reorder(self.graph, w.place, problems).then_some(Setting::Reorder(w.value.into()))
            }),
            "nodes" => of(axes.nodes.as_ref(), |w| Some(Setting::Nodes(w.value.get()))),
            "shards" => of(axes.shards.as_ref(), |w| Some(Setting::Shards(w.value.0.clone()))),
            "election-timeout" => of(axes.election_timeout.as_ref(), |w| Some(Setting::ElectionTimeout(w.value.0))),
            "pre-vote" => of(axes.pre_vote.as_ref(), |w| Some(Setting::PreVote(w.value.0))),
            "delay" => of(axes.delay.as_ref(), |w| Some(Setting::MessageDelay(w.value.0))),
            "at" => of(axes.at.as_ref(), |w| Some(Setting::At(w.value))),
            "clients" => of(axes.clients.as_ref(), |w| Some(Setting::Clients(w.value.get()))),
            "value" => of(axes.value.as_ref(), |w| Some(Setting::Value(w.value.0))),
            _ => None,
        };
        found.map(|(place, values)| (place, Axis { key: key.to_owned(), values }))
    }

    fn some_link_has_a_rate(&self, place: Place, problems: &mut Problems<'_>) -> bool {
        let any = self.graph.topology.links.iter().any(|link| link.spec.rate_bps.is_some());
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
    let settings = || axes.iter().flat_map(|axis| &axis.values).map(|(_, setting)| setting);
    let varied = settings().filter_map(|setting| match setting {
        Setting::Transport(kind) => Some(*kind),
        _ => None,
    });
    let mut kinds: Vec<TransportKind> = varied.collect();
    if kinds.is_empty() {
        kinds.push(text.transport.map_or(TransportKind::Sack, |kind| kind.0));
    }
    if let Some(tcp) = kinds.into_iter().find(|kind| *kind != TransportKind::Udp) {
        problems.add(
            rate.place,
            format!("`{}` has no rate: TCP sends as fast as the network lets it", tcp.name()),
            "only with `udp`",
            "write `transport: udp`, or remove `rate`",
        );
        return false;
    }
    let streams = settings().any(|setting| matches!(setting, Setting::Streams(n) if *n > 1));
    if streams || text.streams.is_some_and(|streams| streams.get() > 1) {
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

/// Whether the axis is one of what the experiment does.
fn check_kind(place: Place, key: &str, of_cluster: bool, problems: &mut Problems<'_>) -> bool {
    let (own, other): (&[&str], _) = if of_cluster {
        (&OF_CLUSTER, "is of traffic, this experiment asks the controllers")
    } else {
        (&OF_TRAFFIC, "is of controllers, this experiment has traffic")
    };
    let fits = own.contains(&key);
    if !fits {
        let hint = format!("vary {}", one_of(own.iter().copied()));
        problems.add(place, format!("`{key}` {other}"), "changes nothing", hint);
    }
    fits
}

/// Lists of pairs are copied into every case: their product is what takes memory.
fn check_pairs(text: &At<TrafficText>, traffic: &Traffic, axes: &[Axis], problems: &mut Problems<'_>) {
    let varied = axes.iter().flat_map(|axis| &axis.values).filter_map(|(_, setting)| match setting {
        Setting::Pattern(pattern) => Some(pattern),
        _ => None,
    });
    let longest = varied.chain([&traffic.pattern]).map(|pattern| match pattern {
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

fn check_axis(place: Place, axis: &Axis, problems: &mut Problems<'_>) -> bool {
    if axis.values.is_empty() {
        problems.add(
            place,
            format!("`{}` has no values", axis.key),
            "empty",
            "write at least one value, or remove the key",
        );
        return false;
    }
    let mut seen = std::collections::BTreeSet::new();
    let twice = axis.values.iter().find(|(text, _)| !seen.insert(text));
    if let Some((text, _)) = twice {
        problems.add(place, format!("`{}` is in `{}` twice", shown(text), axis.key), "twice", "remove one");
    }
    twice.is_none()
}

/// Adds an axis unless that makes too many cases.
fn push(axes: &mut Vec<Axis>, axis: Axis, place: Place, problems: &mut Problems<'_>) -> bool {
    axes.push(axis);
    let cases = axes.iter().try_fold(1_usize, |cases, axis| cases.checked_mul(axis.values.len()));
    let fits = cases.is_some_and(|cases| cases <= MOST_CASES);
    if !fits {
        problems.add(
            place,
            format!("with this axis there are more than {MOST_CASES} cases"),
            "too many combinations",
            "vary less, or make several experiments",
        );
    }
    fits
}
