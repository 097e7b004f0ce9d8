//! Networks made by rule, and networks spelled out. A rule is one row of [`topologies!`] and a module beside the others.

mod bcube;
mod explicit;
mod fat_tree;
mod leaf_spine;
mod linear;
mod single;
mod torus;
mod tree;

pub(crate) use explicit::{explicit, position};

use link::LinkSpec;
use schemars::JsonSchema;
use topology::{NodeId, Topology};

use crate::error::Problems;
use crate::graph;
use crate::names::{did_you_mean, nearest, one_of};
use crate::read::{Read, Section, expected, shown};
use crate::source::Place;
use crate::tree::{Entry, Node, Value};
use crate::units::whole;

/// What the two kinds of links of a topology do to packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Specs {
    /// Between a host and a switch.
    pub hosts: LinkSpec,
    /// Between two switches.
    pub switches: LinkSpec,
    /// Where the file says something about links between switches alone.
    pub switches_place: Option<Place>,
}

/// A rule by which a network is made, as the file writes it.
trait Rule {
    /// Makes the network; `None` if it would be too large, which has been noted.
    fn lay_out(&self, specs: &Specs, problems: &mut Problems<'_>) -> Option<Topology>;
}

/// Adds hosts h1, .. for as many switches, `each` (up to 250) for each one: host h (from 1) of switch s (from 1) has the address 10.(s / 256).(s mod 256).h.
fn add_hosts(topology: &mut Topology, switches: u32, each: u32, pod: impl Fn(u32) -> Option<u32>) -> Vec<Vec<NodeId>> {
    let mut host = |switch: u32, position: u32| {
        let [_, _, high, low] = (switch + 1).to_be_bytes();
        let name = format!("h{}", switch * each + position + 1);
        graph::host(topology, name, [high, low, position as u8 + 1], pod(switch))
    };
    (0..switches).map(|switch| (0..each).map(|position| host(switch, position)).collect()).collect()
}

/// Adds switches s1, .., each with its hosts.
fn add_switches(topology: &mut Topology, hosts: &[Vec<NodeId>], specs: &Specs) -> Vec<NodeId> {
    let switches: Vec<NodeId> = (1..=hosts.len()).map(|i| topology.add_switch(format!("s{i}"), 1, None)).collect();
    for (switch, hosts) in switches.iter().zip(hosts) {
        for host in hosts {
            topology.connect(*host, *switch, specs.hosts);
        }
    }
    switches
}

/// The networks made by rule. A row has what the network is, its key, what stands behind it, and an example of that for messages and for
/// [`TopologyText::words`].
macro_rules! topologies {
    ($($(#[doc = $doc:literal])* $key:literal => $variant:ident($text:ty), $example:literal;)*) => {
        /// A network made by rule.
        #[derive(Clone, Debug, JsonSchema)]
        #[schemars(rename = "Topology", deny_unknown_fields)]
        pub(crate) enum TopologyText {
            $($(#[doc = $doc])* #[schemars(rename = $key)] $variant($text),)*
        }

        impl TopologyText {
            pub const KEYS: &[&str] = &[$($key),*];
            const EXAMPLES: &[&str] = &[$(concat!("{ ", $key, ": ", $example, " }")),*];

            /// Each of them in a word: its key, and the numbers of its example.
            pub fn words() -> Vec<String> {
                let word = |(key, example): &(&str, &str)| {
                    let numbers = example.split(|c: char| !c.is_ascii_digit()).filter(|number| !number.is_empty());
                    std::iter::once(*key).chain(numbers).collect::<Vec<_>>().join(",")
                };
                [$(($key, $example)),*].iter().map(word).collect()
            }

            /// The keys of what stands behind a key, in their order.
            pub fn keys_behind(key: &str) -> Option<Vec<&'static str>> {
                match key {
                    $($key => Some(<$text as Section>::keys()),)*
                    _ => None,
                }
            }

            /// What the file says of a network in a word, as the command line has it: `{ tree: { depth: 3 } }` of `tree,3`. Without numbers it is the example.
            fn of_word(word: &str) -> Option<String> {
                let mut parts = word.split([',', ' ', '(', ')']).filter(|part| !part.is_empty());
                let topology = parts.next()?;
                let example = [$(($key, $example)),*].into_iter().find(|(key, _)| *key == topology)?.1;
                let keys = Self::keys_behind(topology)?;
                let number = |(at, part): (usize, &str)| {
                    let (key, number) = part.split_once('=').or_else(|| Some((*keys.get(at)?, part)))?;
                    (keys.contains(&key) && whole(number).is_some()).then(|| format!("{key}: {number}"))
                };
                let numbers: Option<Vec<String>> = parts.enumerate().map(number).collect();
                let numbers = match numbers?.as_slice() {
                    [] => example.to_owned(),
                    numbers => format!("{{ {} }}", numbers.join(", ")),
                };
                Some(format!("{{ {topology}: {numbers} }}"))
            }

            /// What stands behind a key.
            fn of(key: &str, value: &Node, problems: &mut Problems<'_>) -> Option<Self> {
                match key {
                    $($key => <$text>::read(value, problems).map(Self::$variant),)*
                    _ => None,
                }
            }

            /// Makes the network; `None` if it would be too large, which has been noted.
            pub fn lay_out(&self, specs: &Specs, problems: &mut Problems<'_>) -> Option<Topology> {
                match self {
                    $(Self::$variant(rule) => rule.lay_out(specs, problems),)*
                }
            }
        }
    };
}

topologies! {
    /// k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 core switches, k^3/4 hosts.
    "fat-tree" => FatTree(fat_tree::FatTreeText), "{ k: 4 }";
    /// Every leaf linked to every spine.
    "leaf-spine" => LeafSpine(leaf_spine::LeafSpineText), "{ leaves: 4, spines: 2, hosts-per-leaf: 2 }";
    /// n^(k+1) servers that forward, with k+1 ports each, and (k+1) n^k switches of n ports.
    "bcube" => Bcube(bcube::BcubeText), "{ n: 4, k: 1 }";
    /// One switch with hosts.
    "single" => Single(single::SingleText), "{ hosts: 4 }";
    /// Switches in a line, each with hosts.
    "linear" => Linear(linear::LinearText), "{ switches: 4 }";
    /// Switches in a circle, each with hosts.
    "ring" => Ring(linear::RingText), "{ switches: 5 }";
    /// Switches in rows and columns, each of which is a ring, each with hosts.
    "torus" => Torus(torus::TorusText), "{ x: 3, y: 3 }";
    /// A tree of switches, with hosts as its leaves.
    "tree" => Tree(tree::TreeText), "{ depth: 3 }";
}

impl Read for TopologyText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        if let Value::Scalar(word) = &node.value
            && let Some(map) = Self::of_word(word)
        {
            let found = format!("found `{}`", shown(word));
            let message = format!("a topology is a map, {found}");
            problems.add(node.place, message, found, format!("write `topology: {map}`"));
            return None;
        }
        let entries = match &node.value {
            Value::Map(entries) => entries.as_slice(),
            _ => &[],
        };
        let is_one = |entry: &&Entry| Self::KEYS.contains(&entry.key.as_str());
        let topologies: Vec<&Entry> = entries.iter().filter(is_one).collect();
        match (&topologies[..], entries, &node.value) {
            ([entry], [_], _) => return Self::of(&entry.key, &entry.value, problems),
            ([a, b, ..], _, _) => {
                let hint = format!("keep one of `{}` and `{}`", a.key, b.key);
                problems.add(b.key_place, "there are two topologies", "the second one", hint);
            }
            ([known], [first, second, ..], _) => {
                let other = if first.key == known.key { second } else { first };
                let message = format!("there is no key `{}` here", shown(&other.key));
                let hint = format!("what it says of `{}` stands in the braces behind that", known.key);
                problems.add(other.key_place, message, "unknown key", hint);
            }
            (_, [first, ..], _) => {
                let message = format!("`{}` is not a topology", shown(&first.key));
                let hint = if first.key == EXPLICIT { Self::by_nodes() } else { Self::meant(entries) };
                problems.add(first.key_place, message, "unknown", hint);
            }
            (_, [], Value::Scalar(word)) => {
                let message = format!("`{}` is not a topology", shown(word));
                let hint = if word == EXPLICIT { Self::by_nodes() } else { Self::all() };
                problems.add(node.place, message, "unknown", hint);
            }
            _ => expected(node, "one topology, like `{ fat-tree: { k: 4 } }`", problems),
        }
        None
    }
}

/// A network by its nodes and links, in two lines of a file.
pub(crate) const NODES_AND_LINKS: &str =
    "`nodes: { h1: host, s1: switch }` and `links: [{ between: [h1, s1] }]`, a line each, at the top level";

/// What the template is called whose network is spelled out (`heddle new --topology explicit`).
const EXPLICIT: &str = "explicit";

/// Keys by which other tools name a topology.
const KINDS: [&str; 5] = ["kind", "type", "name", "shape", "topology"];

impl TopologyText {
    /// How a network is written that is none of these.
    fn by_nodes() -> String {
        format!("leave `topology` out and write {NODES_AND_LINKS}")
    }

    /// What there is, in a line or two.
    fn all() -> String {
        format!("topologies are {}", one_of(Self::KEYS.iter().copied()))
    }

    /// What to write where the first of these keys is no topology.
    fn meant(entries: &[Entry]) -> String {
        let kind = entries.iter().find_map(|entry| match &entry.value.value {
            Value::Scalar(word) if KINDS.contains(&entry.key.as_str()) => Some(word),
            _ => None,
        });
        let near = kind.and_then(|kind| nearest(kind, Self::KEYS.iter().copied()));
        let example = near.and_then(|near| Self::EXAMPLES.iter().find(|map| map.starts_with(&format!("{{ {near}:"))));
        match (example, entries) {
            (Some(example), _) => format!("write `topology: {example}`"),
            (None, [one]) if kind.is_none() => did_you_mean(&one.key, Self::KEYS),
            _ => {
                let example = "`topology: { fat-tree: { k: 4 } }`";
                format!("the topology is the key, and its sizes stand below it, as in {example}; {}", Self::all())
            }
        }
    }
}
