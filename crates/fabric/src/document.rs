//! What may stand in a fabric file: its sections as they are written, before they are checked against each other.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use topology::Rerouting;
use transport::TransportKind;
use vswitch::Spread;

use crate::addresses::Mac;
use crate::bonds::{BondText, Members, ModeText, ReorderText};
use crate::cluster::{Clients, ClusterText, ValueBytes};
use crate::controllers::{ControllersText, ElectionText, Flag, MessageDelayText, Nodes, ShardsText};
use crate::error::Problems;
use crate::faults::LinkFaultText;
use crate::pattern::PatternText;
use crate::quantity::{Bytes, Length, PacketRate, Rate, Whole, whole_number};
use crate::read::{Device, Fields, Mapping, Name, Read, Text, Written, expected, section, shown};
use crate::source::At;
use crate::tree::{Node, Value};
use crate::words::{Choice, Words, words};
use crate::{Metric, Role};

/// A minute, an hour in milliseconds.
const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
/// The highest 53-bit whole number: what JSON carries without loss.
const LARGEST_SEED: u64 = (1 << 53) - 1;

section! {
    /// One network, and the experiments run on it.
    File {
        /// The fabric's name: of its results and its namespaces. Without it: the file's name.
        "name" => name: Option<At<Name>>,
        /// One line about it, for reports.
        "description" => description: Option<Text>,
        /// A network made by rule. Or else `nodes` and `links` name everything.
        "topology" => topology: Option<At<TopologyText>>,
        /// Hosts and switches by name, for a network without `topology`.
        "nodes" => nodes: Option<At<Mapping<Name, NodeText>>>,
        /// With `topology`: what links do to packets. With `nodes`: the list of the links.
        "links" => links: Option<At<Links>>,
        /// With `nodes`: what each link does that doesn't say otherwise.
        "link-defaults" => link_defaults: Option<At<LinkText>>,
        /// With `topology`: addresses of hosts that shall not have the ones of their position.
        "hosts" => hosts: Option<At<Mapping<Name, HostText>>>,
        /// Links between two nodes that are used as one.
        "bonds" => bonds: Option<At<Vec<At<BondText>>>>,
        /// The hosts' maximum transmission unit in bytes, without the Ethernet header. 1500 when not given.
        "mtu" => mtu: Option<Bytes<1280, 65_535>>,
        /// Where chance starts when the command line gives no seed. 1 when not given.
        "seed" => seed: Option<Whole<0, LARGEST_SEED>>,
        /// How packets are spread over equal-cost paths. `ecmp` when not given.
        "spread" => spread: Option<Choice<Spread>>,
        /// Whether routes lead around links that are down (`follow`), or stay those of the whole network (`fixed`). `follow` when not given.
        "routes" => routes: Option<Choice<Rerouting>>,
        /// The controllers above the network. A file may have them alone, without a network.
        "controllers" => controllers: Option<At<ControllersText>>,
        /// What to measure, by name.
        "experiments" => experiments: Option<At<Mapping<Name, ExperimentText>>>,
    }
}

/// A network made by rule.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(rename = "Topology", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum TopologyText {
    /// k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 core switches, k^3/4 hosts.
    FatTree(FatTreeText),
    /// Every leaf linked to every spine.
    LeafSpine(LeafSpineText),
    /// n^(k+1) servers that forward, with k+1 ports each, and (k+1) n^k switches of n ports.
    Bcube(BcubeText),
}

impl Read for TopologyText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let known = ["fat-tree", "leaf-spine", "bcube"];
        let entries = match &node.value {
            Value::Map(entries) => entries.as_slice(),
            _ => &[],
        };
        if let [entry] = entries
            && known.contains(&entry.key.as_str())
        {
            return match entry.key.as_str() {
                "fat-tree" => FatTreeText::read(&entry.value, problems).map(Self::FatTree),
                "bcube" => BcubeText::read(&entry.value, problems).map(Self::Bcube),
                _ => LeafSpineText::read(&entry.value, problems).map(Self::LeafSpine),
            };
        }
        match entries {
            [entry] => problems.add(
                entry.key_place,
                format!("`{}` is not a topology", shown(&entry.key)),
                "unknown",
                crate::names::did_you_mean(&entry.key, &known),
            ),
            _ => expected(
                node,
                "one topology: `{ fat-tree: { k: 4 } }`, `{ leaf-spine: { .. } }` or `{ bcube: { n: 4, k: 1 } }`",
                problems,
            ),
        }
        None
    }
}

section! {
    /// A fat-tree (Al-Fares, Loukissas and Vahdat, 2008).
    FatTreeText {
        /// Ports of each switch: even.
        "k" => k: At<Arity>,
    }
}

/// The k of a fat-tree: even, 2 to 64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arity(pub u32);

impl Arity {
    const MAX: u64 = 64;
}

impl Read for Arity {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let k = whole_number(node, problems)?;
        let label = match k {
            0 | 1 => "too small",
            _ if k > Self::MAX => "too large",
            _ if !k.is_multiple_of(2) => "odd",
            _ => return Some(Self(k as u32)),
        };
        problems.add(
            node.place,
            format!("a fat-tree's k is an even number from 2 to {}, not {k}", Self::MAX),
            label,
            match label {
                "odd" => format!("half of a switch's ports go up, half go down: {} or {} would do", k - 1, k + 1),
                _ => "k = 4 has 16 hosts, k = 8 has 128, k = 48 has 27,648".to_owned(),
            },
        );
        None
    }
}

impl JsonSchema for Arity {
    fn schema_name() -> Cow<'static, str> {
        "Arity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 2, "maximum": Self::MAX, "multipleOf": 2 })
    }
}

section! {
    /// A two-tier Clos network: every leaf linked to every spine.
    LeafSpineText {
        /// How many leaf switches.
        "leaves" => leaves: At<Whole<1, 4_096>>,
        /// How many spine switches.
        "spines" => spines: At<Whole<1, 1_024>>,
        /// How many hosts on each leaf.
        "hosts-per-leaf" => hosts_per_leaf: At<Whole<1, 250>>,
    }
}

section! {
    /// A server-centric network: `BCube` (Guo et al., 2009). Servers have several ports and forward; no switch is linked to another.
    BcubeText {
        /// Ports of each switch.
        "n" => n: At<Whole<2, 64>>,
        /// The highest level: each server has k + 1 ports.
        "k" => k: At<Whole<0, 9>>,
    }
}

words!(NodeWord, "NodeWord", "a kind of node", {
    "host" => NodeWord::Host,
    "switch" => NodeWord::Switch,
});

/// What a node is, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeWord {
    Host,
    Switch,
}

section! {
    /// A node in full.
    NodeLong {
        /// `host` or `switch`.
        "kind" => kind: At<NodeWord>,
        /// A host's MAC address.
        "mac" => mac: Option<At<Mac>>,
        /// A host's IPv4 address, in 10.0.0.0/8.
        "ipv4" => ipv4: Option<At<Ipv4Addr>>,
        /// A host's IPv6 address, in `fd68:6564:646c::/64`.
        "ipv6" => ipv6: Option<At<Ipv6Addr>>,
        /// Whether a host with several links that are no bond passes on what comes to it for others. `false` when not given.
        "forward" => forward: Option<At<Flag>>,
        /// Network devices of the machine on which a host's links end, in their order: a guest's TAPs, a network card. The host is
        /// then what is behind them, and not made. Of the network namespace in which `heddle up` is called. `null:` is a device with nobody behind it,
        /// `null:64` sends frames of 64 bytes to all hosts on such devices as fast as they are taken.
        "devices" => devices: Option<At<Vec<At<Device>>>>,
        /// A switch's layer, from 1 next to the hosts. For pictures only.
        "tier" => tier: Option<At<Whole<1, 16>>>,
    }
}

/// A node in full, or just its kind.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum NodeText {
    /// `h1: host`
    Short(At<NodeWord>),
    /// `h1: { kind: host, .. }`
    Long(NodeLong),
}

impl Read for NodeText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match node.value {
            Value::Map(_) => NodeLong::read(node, problems).map(Self::Long),
            _ => At::read(node, problems).map(Self::Short),
        }
    }
}

section! {
    /// Addresses of a host that shall not have the ones of its position.
    HostText {
        /// MAC address.
        "mac" => mac: Option<At<Mac>>,
        /// IPv4 address, in 10.0.0.0/8.
        "ipv4" => ipv4: Option<At<Ipv4Addr>>,
        /// IPv6 address, in `fd68:6564:646c::/64`.
        "ipv6" => ipv6: Option<At<Ipv6Addr>>,
    }
}

/// The longest queue, in packets.
pub(crate) const LONGEST_QUEUE: u64 = 1_000_000;

type Delay = Length<true, 10_000>;
type Queue = Whole<1, LONGEST_QUEUE>;
/// No link layer that IP runs over has more.
type Overhead = Bytes<0, 1_024>;

section! {
    /// What a link does to packets, in each direction.
    LinkText {
        /// Bits a second. Without it: as fast as the machine goes.
        "rate" => rate: Option<At<Rate>>,
        /// Propagation delay. None when not given.
        "delay" => delay: Option<At<Delay>>,
        /// How many packets wait behind the one in transmission. 1000 when not given (Linux's default).
        "queue" => queue: Option<At<Queue>>,
        /// Bytes that each packet takes on the wire besides its own; Ethernet's preamble, checksum and gap are 24. None when not given.
        "overhead" => overhead: Option<At<Overhead>>,
    }
}

section! {
    /// What the links of a topology do to packets, in each direction.
    LinkClasses {
        /// Bits a second, of every link. Without it: as fast as the machine goes.
        "rate" => rate: Option<At<Rate>>,
        /// Propagation delay of every link. None when not given.
        "delay" => delay: Option<At<Delay>>,
        /// How many packets wait behind the one in transmission. 1000 when not given (Linux's default).
        "queue" => queue: Option<At<Queue>>,
        /// Bytes that each packet takes on the wire besides its own; Ethernet's preamble, checksum and gap are 24. None when not given.
        "overhead" => overhead: Option<At<Overhead>>,
        /// What links between a host and a switch do otherwise.
        "hosts" => hosts: Option<At<LinkText>>,
        /// What links between two switches do otherwise.
        "switches" => switches: Option<At<LinkText>>,
    }
}

section! {
    /// A link between two nodes.
    LinkEntry {
        /// The two nodes that it joins.
        "between" => between: At<Ends>,
        /// Bits a second. Without it: as fast as the machine goes.
        "rate" => rate: Option<At<Rate>>,
        /// Propagation delay. None when not given.
        "delay" => delay: Option<At<Delay>>,
        /// How many packets wait behind the one in transmission. 1000 when not given (Linux's default).
        "queue" => queue: Option<At<Queue>>,
        /// Bytes that each packet takes on the wire besides its own; Ethernet's preamble, checksum and gap are 24. None when not given.
        "overhead" => overhead: Option<At<Overhead>>,
    }
}

/// The two ends of a link, or the two hosts of a flow.
#[derive(Clone, Debug)]
pub(crate) struct Ends(pub At<Name>, pub At<Name>);

impl Read for Ends {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match &node.value {
            Value::List(items) if items.len() == 2 => {
                let (a, b) = (At::read(&items[0], problems), At::read(&items[1], problems));
                Some(Self(a?, b?))
            }
            _ => {
                expected(node, "two names, `[a, b]`", problems);
                None
            }
        }
    }
}

impl JsonSchema for Ends {
    fn schema_name() -> Cow<'static, str> {
        "Ends".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": generator.subschema_for::<Name>(), "minItems": 2, "maxItems": 2 })
    }
}

/// Links of a topology, or one by one.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum Links {
    /// With `topology`.
    Classes(Box<LinkClasses>),
    /// With `nodes`.
    List(Vec<At<LinkEntry>>),
}

impl Read for Links {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match node.value {
            Value::List(_) => Vec::read(node, problems).map(Self::List),
            _ => LinkClasses::read(node, problems).map(|classes| Self::Classes(Box::new(classes))),
        }
    }
}

section! {
    /// A measurement to make.
    ExperimentText {
        /// One line for the report.
        "title" => title: Option<Text>,
        /// Who talks to whom, and how. Or else `cluster`.
        "traffic" => traffic: Option<At<TrafficText>>,
        /// What is asked of the controllers. Or else `traffic`.
        "cluster" => cluster: Option<At<ClusterText>>,
        /// What changes from case to case: the cases are the cross product, the first axis slowest.
        "vary" => vary: Option<Vary>,
        /// How long each run is measured, after the warm-up. 1s when not given. With `cluster`: how long it lasts at least.
        "for" => duration: Option<Length<false, { 24 * HOUR }>>,
        /// How long each run goes before measuring starts. None when not given.
        "warm-up" => warm_up: Option<Length<true, HOUR>>,
        /// Runs of each case. 1 when not given.
        "repeat" => repeat: Option<At<Whole<1, 1_000>>>,
        /// What must hold of the mean over the runs: `goodput-mean: ">= 0.9 Gbit/s"`.
        "expect" => expect: Option<Mapping<Metric, ExpectText>>,
        /// What others measured, for the table to show beside: `create-mean: 12.6 ms`.
        "published" => published: Option<Mapping<Metric, ExpectText>>,
        /// Which metrics the table shows, in order. The usual ones when not given.
        "report" => report: Option<Vec<At<Metric>>>,
    }
}

section! {
    /// Who talks to whom, and how.
    TrafficText {
        /// `random`, `stride(i)`, `staggered(p, q)`, `permutation`, `incast(n)`, `all-to-all` or `pairs: [[h1, h2], ..]`.
        /// Not needed where `vary` has it.
        "pattern" => pattern: Option<At<PatternText>>,
        /// Loss recovery of TCP, or `udp`. `sack` when not given.
        "transport" => transport: Option<Choice<TransportKind>>,
        /// So many flows between the two hosts of each pair, measured together. 1 when not given.
        "streams" => streams: Option<Streams>,
        /// With `udp`: numbered datagrams of one segment, so many a second from each host that sends, at an even pace (`10 kpps`). It is
        /// measured which of them are lost, and the longest time in which none arrives. As fast as it goes when not given.
        "rate" => rate: Option<At<PacketRate>>,
        /// Links that go down and come up meanwhile. Bonds hear of it at once, and routes unless they are `fixed`.
        "faults" => faults: Option<At<Vec<At<LinkFaultText>>>>,
        /// Receive window in segments; it bounds what is in flight. 256 when not given.
        "window" => window: Option<Whole<1, 1_000_000>>,
        /// Initial window in segments. 10 when not given (RFC 6928).
        "initial-window" => initial_window: Option<Whole<1, 1_000>>,
        /// Duplicate ACKs that call for a fast retransmit. 3 when not given (RFC 5681).
        "duplicate-ack-threshold" => duplicate_ack_threshold: Option<Whole<1, 1_000>>,
        /// The longest an ACK waits for a second segment, or `none`: one ACK a segment. 40ms when not given.
        "delayed-ack" => delayed_ack: Option<DelayedAck>,
        /// Payload bytes of a full segment. When not given, what fits the MTU: 1448 of 1500.
        "segment" => segment: Option<At<Bytes<1, 65_535>>>,
        /// Bytes of headers of each packet on the link. 66 when not given: Ethernet 14, IPv4 20, TCP 20, timestamps 12. Where a
        /// link's rate is to mean what it means in Ethernet, 24 more: preamble 8, checksum 4, gap 12.
        "header" => header: Option<Bytes<0, 1_000>>,
        /// The least retransmission timeout. 200ms when not given.
        "rto-min" => rto_min: Option<Length<false, MINUTE>>,
    }
}

/// A time below RFC 1122's limit, or `none`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DelayedAck(pub Option<machine::Span>);

type AckDelay = Length<false, 500>;

impl Read for DelayedAck {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match &node.value {
            Value::Scalar(text) if text == "none" => Some(Self(None)),
            _ => AckDelay::read(node, problems).map(|time| Self(Some(time.0))),
        }
    }
}

impl JsonSchema for DelayedAck {
    fn schema_name() -> Cow<'static, str> {
        "DelayedAck".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "const": "none" }, generator.subschema_for::<AckDelay>()] })
    }
}

/// The axes of an experiment, and their order.
#[derive(Clone, Debug)]
pub(crate) struct Vary {
    pub axes: Axes,
    /// The keys of `axes` in the order of the file.
    pub order: Vec<String>,
}

impl Read for Vary {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let axes = Axes::read(node, problems)?;
        let order = match &node.value {
            Value::Map(entries) => entries.iter().map(|entry| entry.key.clone()).collect(),
            _ => Vec::new(),
        };
        Some(Self { axes, order })
    }
}

impl JsonSchema for Vary {
    fn schema_name() -> Cow<'static, str> {
        "Vary".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Axes::json_schema(generator)
    }
}

type Values<T> = Option<At<Vec<Written<T>>>>;
type Streams = Whole<1, 128>;

section! {
    /// What changes from case to case.
    Axes {
        /// How packets are spread.
        "spread" => spread: Values<Choice<Spread>>,
        /// Whether routes lead around links that are down.
        "routes" => routes: Values<Choice<Rerouting>>,
        /// Who talks to whom.
        "pattern" => pattern: Values<PatternText>,
        /// Loss recovery of TCP.
        "transport" => transport: Values<Choice<TransportKind>>,
        /// How many flows each pair of hosts has.
        "streams" => streams: Values<Streams>,
        /// Receive window in segments.
        "window" => window: Values<Whole<1, 1_000_000>>,
        /// Initial window in segments.
        "initial-window" => initial_window: Values<Whole<1, 1_000>>,
        /// Duplicate ACKs that call for a fast retransmit.
        "duplicate-ack-threshold" => duplicate_ack_threshold: Values<Whole<1, 1_000>>,
        /// Rate of every link that has one.
        "links.rate" => link_rate: Values<Rate>,
        /// Delay of every link.
        "links.delay" => link_delay: Values<Delay>,
        /// Queue of every link that has one.
        "links.queue" => link_queue: Values<Queue>,
        /// Mode of every bond.
        "mode" => mode: Values<ModeText>,
        /// How many members every bond has.
        "members" => members: Values<Members>,
        /// Whether bonds put arrivals back in order. `on` is as the file says, where it says so.
        "reorder" => reorder: Values<ReorderText>,
        /// How many controllers.
        "nodes" => nodes: Values<Nodes>,
        /// How the data tree is cut into shards.
        "shards" => shards: Values<ShardsText>,
        /// The controllers' election timeout.
        "election-timeout" => election_timeout: Values<ElectionText>,
        /// Whether controllers ask first whether they would be elected.
        "pre-vote" => pre_vote: Values<Flag>,
        /// How long messages take between simulated controllers.
        "delay" => delay: Values<MessageDelayText>,
        /// Which controller is asked.
        "at" => at: Values<Role>,
        /// How many clients ask the controllers at once.
        "clients" => clients: Values<Clients>,
        /// Bytes of each value.
        "value" => value: Values<ValueBytes>,
    }
}

/// A claim about every case, or claims about some.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum ExpectText {
    /// `">= 0.9 Gbit/s"`
    All(At<Text>),
    /// `{ where: .., is: .. }`
    One(Box<Claim>),
    /// `[{ where: .., is: .. }]`
    Some(Vec<At<Claim>>),
}

impl Read for ExpectText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match node.value {
            Value::List(_) => Vec::read(node, problems).map(Self::Some),
            Value::Map(_) => Claim::read(node, problems).map(|claim| Self::One(Box::new(claim))),
            _ => At::read(node, problems).map(Self::All),
        }
    }
}

section! {
    /// A claim about some cases.
    Claim {
        /// Only cases with these values of the axes; `driver: sim` or `driver: live` for one way to run them.
        "where" => only: Option<Mapping<Text, Text>>,
        /// `>= x`, `<= x` or `x +- y`, with the metric's unit; a bare figure under `published`.
        "is" => is: At<Text>,
    }
}
