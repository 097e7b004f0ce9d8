//! `GraphML` (<http://graphml.graphdrawing.org>), as the Internet Topology Zoo and graph editors write it.

mod attributes;
mod rates;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use roxmltree::{Document, Node, ParsingOptions};

use self::attributes::{Attributes, Unused};
use super::directions::{self, Keys};
use super::network::{Network, routes_nothing, text_of};
use super::{NoteKind, line_of};
use crate::addresses::Mac;
use crate::error::Problems;
use crate::source::{Lines, Place, Source};
use crate::tree::LONGEST_TEXT;

/// Elements and texts of a document; each takes some memory.
const NODES_MAX: u32 = 200_000;

/// Attributes of an element, and namespaces of a document: each is held against all others.
const ATTRIBUTES_MAX: usize = 256;
const NAMESPACES_MAX: usize = 64;

/// Attributes that name a node, the first one that it has.
const NAMES: [&str; 3] = ["label", "name", "nodelabel"];

/// The earth's mean radius.
const EARTH_M: f64 = 6_371_008.8;

/// How fast light is in glass: two thirds of what it is in a vacuum.
const FIBRE_M_PER_S: f64 = 299_792_458.0 * 2.0 / 3.0;

/// Where a node is, in radians.
#[derive(Clone, Copy)]
struct Coordinates {
    latitude: f64,
    longitude: f64,
}

impl Coordinates {
    /// As the Internet Topology Zoo says it: `Latitude` and `Longitude`, in degrees.
    fn of(node: &mut Attributes) -> Option<Self> {
        let degrees = |key: &str, most: f64| {
            let degrees: f64 = node.get(key)?.parse().ok()?;
            (-most..=most).contains(&degrees).then(|| degrees.to_radians())
        };
        let place = Self { latitude: degrees("latitude", 90.0)?, longitude: degrees("longitude", 180.0)? };
        for key in ["latitude", "longitude"] {
            node.take(key);
        }
        Some(place)
    }

    /// How far it is along the surface, in metres (the haversine formula).
    fn distance_m(self, other: Self) -> f64 {
        let half = |a: f64, b: f64| ((a - b) / 2.0).sin().powi(2);
        let along = half(self.longitude, other.longitude) * self.latitude.cos() * other.latitude.cos();
        2.0 * EARTH_M * (half(self.latitude, other.latitude) + along).min(1.0).sqrt().asin()
    }
}

/// Delays of links that are as long as their ends are apart.
#[derive(Default)]
struct DelaysByPlace {
    computed: usize,
    unknown: usize,
}

impl DelaysByPlace {
    /// What light needs from the one to the other, in whole microseconds; `None`: where one of them is, is not known, or both are at one place.
    fn delay(&mut self, ends: [Option<&Coordinates>; 2]) -> Option<String> {
        let [Some(a), Some(b)] = ends else {
            self.unknown += 1;
            return None;
        };
        self.computed += 1;
        let us = (a.distance_m(*b) / FIBRE_M_PER_S * 1e6).round() as u64;
        (us > 0).then(|| format!("{us}us"))
    }

    /// `None`: nothing was computed.
    fn in_words(&self) -> Option<String> {
        let plural = |count: usize| if count == 1 { "link" } else { "links" };
        let Self { computed, unknown } = *self;
        let but = match unknown {
            0 => String::new(),
            _ => format!("; {unknown} {} without, since an end has no coordinates", plural(unknown)),
        };
        (computed > 0).then(|| {
            format!(
                "coordinates are delays of {computed} {}: the great circle between both ends, at two thirds of the speed of light{but}",
                plural(computed)
            )
        })
    }
}

/// What is said of edges that a graph has both ways.
const BOTH_DIRECTIONS: &str = "edges of both directions are one link, with `back:` where the second one differs";

/// What is said of those that it has one way.
const ONE_DIRECTION: &str =
    "directions of edges that have none back: a link carries both ways, and does the same in both";

/// An edge, and what the one back has, if both are directed.
struct Edge {
    ends: (usize, usize),
    is_directed: bool,
    keys: Keys,
    back: Option<Keys>,
    /// Its line, and what is said of it.
    place: (Option<usize>, String),
}

#[derive(Default)]
struct Edges {
    all: Vec<Edge>,
    /// Directed ones for which none back has come yet.
    alone: BTreeMap<(usize, usize), VecDeque<usize>>,
}

impl Edges {
    /// The edge whose other direction this one is: the first that has none.
    fn other_direction(&mut self, (a, b): (usize, usize), is_directed: bool) -> Option<usize> {
        self.alone.get_mut(&(b, a)).filter(|_| is_directed)?.pop_front()
    }

    fn add(&mut self, edge: Edge) {
        if edge.is_directed {
            self.alone.entry(edge.ends).or_default().push_back(self.all.len());
        }
        self.all.push(edge);
    }

    /// A link of each, or of each two.
    fn fill(self, network: &mut Network) {
        for Edge { ends, is_directed, keys, back, place: (line, name) } in self.all {
            if is_directed && back.is_none() {
                network.leave_out(ONE_DIRECTION, line, &name);
            }
            let back = back.unwrap_or_else(|| keys.clone());
            network.add_link(directions::link(ends, keys, back));
        }
    }
}

pub(super) fn read(source: &Source, problems: &mut Problems<'_>) -> Option<Network> {
    let start = Place { offset: 0, len: 0 };
    if source.text.len() > LONGEST_TEXT {
        let message = format!("the file has {} bytes, more than {LONGEST_TEXT}", source.text.len());
        problems.add(start, message, "too long", "leave out what is no node, edge or data of them");
        problems.show_until(0);
        return None;
    }
    if let Some((at, what, most)) = excess(&source.text) {
        let message = format!("more than {most} {what}");
        problems.add(
            Place { offset: at, len: 0 },
            message,
            "here",
            "GraphML has a few: leave out what is of other formats",
        );
        return None;
    }
    let options = ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = match Document::parse_with_options(&source.text, options) {
        Ok(document) => document,
        Err(error) => {
            let at = error.pos();
            let line =
                source.text.split_inclusive('\n').take(at.row.saturating_sub(1) as usize).map(str::len).sum::<usize>();
            let place = Place { offset: line.min(source.text.len()), len: 0 };
            problems.add(
                place,
                format!("this is no XML: {error}"),
                "here",
                "GraphML is XML, with `<graphml>` around all of it",
            );
            return None;
        }
    };
    let lines = Lines::of(&source.text);
    let line = |node: Node<'_, '_>| {
        let range = node.range();
        Some(line_of(&lines, Place { offset: range.start, len: 0 }))
    };
    let keys: BTreeMap<&str, &str> = document
        .descendants()
        .filter(|node| node.has_tag_name("key") || node.tag_name().name() == "key")
        .filter_map(|node| Some((node.attribute("id")?, node.attribute("attr.name").or(node.attribute("id"))?)))
        .collect();
    let data = |node: Node<'_, '_>| Attributes::of(node, &keys);
    let mut unused = Unused::default();
    let mut network = Network::default();
    let mut places = BTreeMap::new();
    let graph = document.descendants().find(|node| node.tag_name().name() == "graph")?;
    let mut of_graph = data(graph);
    network.name = of_graph.take("network").or_else(|| graph.attribute("id").map(str::to_owned));
    unused.add("the graph", line(graph), of_graph);
    let neighbours = neighbours(graph);
    for node in graph.descendants().filter(|node| node.tag_name().name() == "node") {
        let Some(id) = node.attribute("id") else {
            network.note(line(node), "a node without an id");
            continue;
        };
        let mut of_node = data(node);
        let name = of_node.take_first(&NAMES).unwrap_or_else(|| id.to_owned());
        let kind = of_node.take_first(&["type", "kind", "role"]);
        let has_word = |words: &[&str]| {
            kind.as_ref().is_some_and(|kind| words.iter().any(|word| kind.to_lowercase().contains(word)))
        };
        let is_end =
            kind.is_none() && of_node.has_any(&ADDRESSES) && neighbours.get(id).is_some_and(|all| all.len() == 1);
        let is_host = is_end || has_word(&["host", "server", "client", "end"]);
        if !network.add_node(id, &name, is_host) {
            network.note_as(NoteKind::Mistake, line(node), &format!("the node `{id}` is there twice"));
            continue;
        }
        if let (Some(number), Some(place)) = (network.node(id), Coordinates::of(&mut of_node)) {
            places.insert(number, place);
        }
        if is_end {
            network.convert(END, line(node), &name);
        } else if !is_host && has_word(&["router", "gateway"]) {
            network.leave_out(routes_nothing("routers"), line(node), &name);
        }
        add_addresses(id, is_host, &mut of_node, line(node), &mut network);
        unused.add("nodes", line(node), of_node);
    }
    let mut by_place = DelaysByPlace::default();
    let mut edges = Edges::default();
    let is_directed = graph.attribute("edgedefault") == Some("directed");
    for edge in graph.descendants().filter(|node| node.tag_name().name() == "edge") {
        let ends = ["source", "target"].map(|end| edge.attribute(end).and_then(|id| network.node(id)));
        match ends {
            [Some(a), Some(b)] if a != b => {
                let mut of_edge = data(edge);
                let says_delay = of_edge.has_any(&rates::DELAYS);
                let mut keys = rates::keys_of(&mut of_edge, line(edge), &mut network);
                unused.add("edges", line(edge), of_edge);
                let is_directed = edge.attribute("directed").map_or(is_directed, |text| text == "true");
                let other = edges.other_direction((a, b), is_directed);
                if !says_delay {
                    // Of both directions it is one link's.
                    let mut counted_before = DelaysByPlace::default();
                    let by_place = if other.is_some() { &mut counted_before } else { &mut by_place };
                    keys.extend(by_place.delay([places.get(&a), places.get(&b)]).map(|delay| ("delay", delay)));
                }
                let names = ["source", "target"].map(|end| edge.attribute(end).unwrap_or_default());
                match other {
                    Some(other) => {
                        edges.all[other].back = Some(keys);
                        network.convert(BOTH_DIRECTIONS, line(edge), &names.join(" -> "));
                    }
                    None => edges.add(Edge {
                        ends: (a, b),
                        is_directed,
                        keys,
                        back: None,
                        place: (line(edge), names.join(" -> ")),
                    }),
                }
            }
            [Some(_), Some(_)] => network.note_as(NoteKind::Mistake, line(edge), "an edge from a node to itself"),
            _ => network.note_as(NoteKind::Mistake, line(edge), "an edge to a node that is not there"),
        }
    }
    edges.fill(&mut network);
    unused.note(&mut network);
    if let Some(said) = by_place.in_words() {
        network.note_as(NoteKind::Converted, None, &said);
    }
    if graph.descendants().any(|node| node.tag_name().name() == "hyperedge") {
        network.note(None, "hyperedges: a link has two ends");
    }
    Some(network)
}

/// Where there are more attributes of an element, or more namespaces, than are read; what there is too much of, and how many may be. What is no XML is read as far
/// as it looks like it.
fn excess(text: &str) -> Option<(usize, &'static str, usize)> {
    let mut namespaces = BTreeSet::new();
    let mut at = 0;
    while let Some(next) = text[at..].find('<') {
        at += next;
        let skipped = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")].into_iter();
        if let Some((start, end)) = skipped.into_iter().find(|(start, _)| text[at..].starts_with(start)) {
            at += start.len();
            at += text[at..].find(end).map_or(text.len() - at, |found| found + end.len());
            continue;
        }
        at += 1;
        let (mut quote, mut attributes, mut name) = (None, 0, at);
        let start = std::mem::replace(&mut at, text.len());
        for (inside, byte) in text[start..].bytes().enumerate() {
            let here = start + inside;
            match (quote, byte) {
                (Some(open), _) if byte == open => {
                    quote = None;
                    let attribute = text[name..here].trim_start();
                    if attribute.starts_with("xmlns")
                        && namespaces.insert(attribute)
                        && namespaces.len() > NAMESPACES_MAX
                    {
                        return Some((here, "namespaces of the document", NAMESPACES_MAX));
                    }
                    attributes += 1;
                    if attributes > ATTRIBUTES_MAX {
                        return Some((here, "attributes of an element", ATTRIBUTES_MAX));
                    }
                    name = here + 1;
                }
                (None, b'"' | b'\'') => quote = Some(byte),
                (None, b' ' | b'\t' | b'\r' | b'\n') => name = here + 1,
                (None, b'>') => {
                    at = here;
                    break;
                }
                _ => {}
            }
        }
    }
    None
}

/// The nodes that each one has an edge to or from.
fn neighbours<'a>(graph: Node<'a, '_>) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut neighbours: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for edge in graph.descendants().filter(|node| node.tag_name().name() == "edge") {
        if let [Some(a), Some(b)] = ["source", "target"].map(|end| edge.attribute(end)) {
            neighbours.entry(a).or_default().insert(b);
            neighbours.entry(b).or_default().insert(a);
        }
    }
    neighbours
}

/// Attributes that are addresses of a node.
const ADDRESSES: [&str; 4] = ["ip", "ipv4", "ipv6", "mac"];

/// What is said of nodes that are hosts by what they have.
const END: &str = "a node without a `type`, with an address and one link, is a host";

/// Gives a host the addresses that its node has.
fn add_addresses(id: &str, is_host: bool, node: &mut Attributes, line: Option<usize>, network: &mut Network) {
    if !is_host {
        if ADDRESSES.iter().filter_map(|key| node.take(key)).count() > 0 {
            network.leave_out(
                "addresses of nodes that are switches: a host's `type` is `host`, or it has no `type` and one link",
                line,
                id,
            );
        }
        return;
    }
    for key in &ADDRESSES[..3] {
        let Some(text) = node.take(key) else { continue };
        match text.split('/').next().unwrap_or_default().parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => network.add_key(id, "ipv4", text_of(&text)),
            Ok(IpAddr::V6(_)) => network.add_key(id, "ipv6", text_of(&text)),
            Err(_) => network.leave_out("addresses of hosts that are none, as `10.0.0.1/24` is", line, &text),
        }
    }
    if let Some(text) = node.take("mac") {
        match text.to_lowercase().parse::<Mac>() {
            Ok(_) => network.add_key(id, "mac", text_of(&text.to_lowercase())),
            Err(()) => network.leave_out("MAC addresses of hosts that are none of a device", line, &text),
        }
    }
}

#[cfg(test)]
mod tests;
