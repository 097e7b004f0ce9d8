//! Experiments: from the words of the file to patterns, axes and claims about a checked network.

use std::collections::BTreeMap;

use machine::Span;

use crate::claim;
use crate::document::{Axes, Claim, DelayedAck, Ends, ExpectText, ExperimentText, TrafficText, Vary};
use crate::error::Problems;
use crate::graph::Graph;
use crate::names::{did_you_mean, one_of};
use crate::pattern::PatternText;
use crate::quantity::Whole;
use crate::read::{Mapping, Name, Text, Written, shown};
use crate::source::{At, Place};
use crate::words::Words;
use crate::{
    Axis, DriverKind, Expectation, Experiment, Metric, NodeId, Pattern, Setting, Traffic, TransportKind, TransportSpec,
};

/// The most cases of one experiment.
const MOST_CASES: usize = 10_000;
/// The most pairs of hosts that the cases of one experiment name together.
const MOST_PAIRS: usize = 10_000_000;
/// The most flows of one pattern.
const MOST_FLOWS: u64 = 1_000_000;
/// Bytes of an Ethernet header: what a frame has besides the MTU.
const ETHERNET: u32 = 14;
/// Bytes of IPv4 and TCP headers with timestamps.
const IP_TCP: u32 = 52;

/// What experiments are checked against.
pub(crate) struct Context<'a> {
    graph: &'a Graph,
    mtu: u32,
    hosts: BTreeMap<&'a str, NodeId>,
}

impl<'a> Context<'a> {
    pub fn new(graph: &'a Graph, mtu: u32) -> Self {
        let hosts = graph.nodes[..graph.hosts as usize].iter().enumerate();
        Self { graph, mtu, hosts: hosts.map(|(i, node)| (node.name.as_str(), NodeId(i as u32))).collect() }
    }

    /// Checks one experiment. `None`: it has a problem, which has been noted.
    pub fn experiment(&self, name: &Name, text: &ExperimentText, problems: &mut Problems<'_>) -> Option<Experiment> {
        let axes = match &text.vary {
            Some(vary) => self.axes(vary, problems),
            None => Some(Vec::new()),
        };
        let traffic = self.traffic(&text.traffic, axes.as_deref(), problems);
        let (axes, traffic) = (axes?, traffic?);
        check_pairs(&text.traffic, &traffic, &axes, problems);
        let expect = expectations(text.expect.as_ref(), &axes, problems);
        Some(Experiment {
            name: name.0.clone(),
            title: text.title.as_ref().map(|title| title.0.clone()).unwrap_or_default(),
            traffic,
            vary: axes,
            duration: text.duration.map_or(Span::from_secs(1), |time| time.0),
            warm_up: text.warm_up.map_or(Span::ZERO, |time| time.0),
            repeat: text.repeat.as_ref().map_or(1, |n| n.value.get()),
            expect,
            report: text.report.clone().unwrap_or_default(),
        })
    }

    fn traffic(&self, text: &At<TrafficText>, axes: Option<&[Axis]>, problems: &mut Problems<'_>) -> Option<Traffic> {
        let transport = self.transport(text, problems);
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
        Some(Traffic { pattern: pattern?, transport: transport? })
    }

    fn transport(&self, text: &At<TrafficText>, problems: &mut Problems<'_>) -> Option<TransportSpec> {
        let (place, text) = (text.place, &text.value);
        let segment_bytes = text.segment.as_ref().map_or(self.mtu - IP_TCP, |size| size.value.0);
        let header_bytes = text.header.map_or(ETHERNET + IP_TCP, |size| size.0);
        let (packet, most) = (segment_bytes + header_bytes, self.mtu + ETHERNET);
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
            kind: text.transport.unwrap_or(TransportKind::Sack),
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
        let hosts = self.graph.hosts;
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
            let switch = !problems.is_full() && self.graph.nodes.iter().any(|node| node.name == *text);
            let what = if switch { "is a switch; only hosts talk" } else { "is not a host of this network" };
            let hint = problems.hint(|| self.graph.host_hint(text));
            problems.add(name.place, format!("`{text}` {what}"), "unknown host", hint);
        }
        found
    }

    fn axes(&self, vary: &Vary, problems: &mut Problems<'_>) -> Option<Vec<Axis>> {
        let mut axes = Vec::new();
        let mut whole = true;
        for key in &vary.order {
            match self.axis(key, &vary.axes, problems) {
                Some((place, axis)) => {
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
            "spread" => of(axes.spread.as_ref(), |w| Some(Setting::Spread(w.value))),
            "pattern" => of(axes.pattern.as_ref(), |w| self.pattern(&w.value, w.place, problems).map(Setting::Pattern)),
            "transport" => of(axes.transport.as_ref(), |w| Some(Setting::Transport(w.value))),
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
            _ => None,
        };
        found.map(|(place, values)| (place, Axis { key: key.to_owned(), values }))
    }

    fn some_link_has_a_rate(&self, place: Place, problems: &mut Problems<'_>) -> bool {
        let any = self.graph.links.iter().any(|link| link.spec.rate_bps.is_some());
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

fn expectations(
    expect: Option<&Mapping<Metric, ExpectText>>,
    axes: &[Axis],
    problems: &mut Problems<'_>,
) -> Vec<Expectation> {
    let mut all = Vec::new();
    for (metric, claims) in expect.into_iter().flat_map(|mapping| &mapping.0) {
        match &claims.value {
            ExpectText::All(text) => all.extend(expectation(metric.value, None, text, axes, problems)),
            ExpectText::One(claim) => {
                all.extend(expectation(metric.value, claim.only.as_ref(), &claim.is, axes, problems));
            }
            ExpectText::Some(claims) => {
                for Claim { only, is } in claims.iter().map(|claim| &claim.value) {
                    all.extend(expectation(metric.value, only.as_ref(), is, axes, problems));
                }
            }
        }
    }
    all
}

fn expectation(
    metric: Metric,
    only: Option<&Mapping<Text, Text>>,
    text: &At<Text>,
    axes: &[Axis],
    problems: &mut Problems<'_>,
) -> Option<Expectation> {
    let mut driver = None;
    let mut labels = Vec::new();
    for (key, value) in only.into_iter().flat_map(|mapping| &mapping.0) {
        if key.value.0 == "driver" {
            driver = driver_of(value, problems);
        } else {
            labels.extend(label(key, value, axes, problems));
        }
    }
    let bound = claim::bound(metric, &text.value.0);
    if bound.is_none() {
        problems.add(
            text.place,
            format!("`{}` can't be held against `{}`", shown(&text.value.0), metric.word()),
            "not a claim",
            format!("write {}", claim::example(metric)),
        );
    }
    let line = problems.line(text.place);
    Some(Expectation { metric, only: labels, driver, bound: bound?, text: text.value.0.clone(), line })
}

fn driver_of(value: &At<Text>, problems: &mut Problems<'_>) -> Option<DriverKind> {
    let found = DriverKind::WORDS.iter().find(|(word, _)| *word == value.value.0);
    if found.is_none() {
        let text = shown(&value.value.0);
        problems.add(value.place, format!("`{text}` is not a driver"), "unknown", "write `sim` or `live`");
    }
    found.map(|&(_, driver)| driver)
}

/// An axis and one of its values as written.
fn label(key: &At<Text>, value: &At<Text>, axes: &[Axis], problems: &mut Problems<'_>) -> Option<(String, String)> {
    let Some(axis) = axes.iter().find(|axis| axis.key == key.value.0) else {
        let known: Vec<&str> = axes.iter().map(|axis| axis.key.as_str()).chain(["driver"]).collect();
        let text = shown(&key.value.0);
        problems.add(
            key.place,
            format!("`{text}` is not varied in this experiment"),
            "unknown axis",
            did_you_mean(&text, &known),
        );
        return None;
    };
    if axis.values.iter().all(|(text, _)| *text != value.value.0) {
        /// More values are not read anyway.
        const SHOWN: usize = 12;
        let values = one_of(axis.values.iter().take(SHOWN).map(|(text, _)| text.as_str()));
        let text = shown(&value.value.0);
        problems.add(
            value.place,
            format!("`{}` never is `{text}`", axis.key),
            "not among its values",
            format!("write {values}, as under `vary`"),
        );
        return None;
    }
    Some((key.value.0.clone(), value.value.0.clone()))
}
