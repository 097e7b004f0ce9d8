//! The `controllers:` block: as it is written, and what it says.

use std::borrow::Cow;

use machine::Span;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::error::Problems;
use crate::parameters::{Plain, parameters, plain};
use crate::quantity::{Length, Whole};
use crate::read::{Fields, Read, expected, section, shown};
use crate::shards::ShardsText;
use crate::source::{At, Place};
use crate::tree::{Node, Value};
use crate::{Controllers, ElectionTimeout, MessageDelay, ShardPlan};

/// The largest cluster.
pub(crate) const MOST_NODES: u64 = 9;
/// The shortest election timeout that makes sense between processes.
const SHORTEST_TIMEOUT: Span = Span::from_ms(10);

/// How many controllers, or one of them.
pub(crate) type Nodes = Whole<1, MOST_NODES>;
type Timeout = Length<false, 60_000>;

parameters! {
    /// What a case sets at the controllers.
    #[derive(Eq, serde::Deserialize)]
    ControllersSetting, ControllersAxis of Controllers;

    /// The cluster of controllers above the network.
    ControllersText {
        /// How many processes. 1 when not given.
        "nodes" => nodes: Option<Nodes>, vary {
            /// How many controllers.
            "nodes": Nodes => Policy Nodes(u32), plain, |controllers, nodes| controllers.nodes = *nodes
        };
        /// How long a follower waits for its leader before it stands for election. `measured` when not given.
        "election-timeout" => election: Option<ElectionText>, vary {
            /// The controllers' election timeout.
            "election-timeout": ElectionText => Policy ElectionTimeout(ElectionTimeout), plain,
            |controllers, timeout| controllers.election = *timeout
        };
        /// Whether a candidate asks first whether it would be elected, and leaves the leader alone if not. `true` when not
        /// given.
        "pre-vote" => pre_vote: Option<Flag>, vary {
            /// Whether controllers ask first whether they would be elected.
            "pre-vote": Flag => Policy PreVote(bool), plain,
            |controllers, asks_first| controllers.pre_vote = *asks_first
        };
        /// How long messages take between simulated controllers; live ones have the network that they have. A quiet network
        /// of 1 Gbit/s when not given.
        "delay" => delay: Option<MessageDelayText>, vary {
            /// How long messages take between simulated controllers.
            "delay": MessageDelayText => Condition MessageDelay(MessageDelay), plain,
            |controllers, delay| controllers.delay = Some(*delay)
        };
        /// How the data tree is cut: `single` (when not given), `distributed`, or a list of shards.
        "shards" => shards: Option<At<ShardsText>>, vary {
            /// How the data tree is cut into shards.
            "shards": ShardsText => Policy Shards(ShardPlan), plain,
            |controllers, shards| controllers.shards.clone_from(shards)
        };
        /// Whether they talk over TLS. `false` when not given.
        "tls" => tls: Option<Flag>;
    }
}

/// Checks the block. `None`: it has a problem, which has been noted.
pub(crate) fn controllers(text: &ControllersText, problems: &mut Problems<'_>) -> Option<Controllers> {
    let nodes = text.nodes.map_or(1, Whole::get);
    let shards = match &text.shards {
        None => ShardPlan::default(),
        Some(shards) => fits(&shards.value.0, nodes, shards.place, problems).then(|| shards.value.0.clone())?,
    };
    Some(Controllers {
        nodes,
        election: text.election.map_or_else(ElectionTimeout::default, |timeout| timeout.0),
        pre_vote: text.pre_vote.is_none_or(|flag| flag.0),
        delay: text.delay.map(|delay| delay.0),
        shards,
        tls: text.tls.is_some_and(|flag| flag.0),
    })
}

/// Whether a cluster of `nodes` can hold these shards; notes it at `place` if not.
pub(crate) fn fits(shards: &ShardPlan, nodes: u32, place: Place, problems: &mut Problems<'_>) -> bool {
    let needed = shards.needs_nodes();
    if needed > nodes {
        problems.add(
            place,
            format!("the replicas of these shards need {needed} controllers, of {nodes}"),
            "more than there are",
            format!("name nodes from 1 to {nodes} only, or raise `nodes`"),
        );
    }
    needed <= nodes
}

/// `true` or `false`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag(pub bool);

impl Read for Flag {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match &node.value {
            Value::Scalar(text) if text == "true" => Some(Self(true)),
            Value::Scalar(text) if text == "false" => Some(Self(false)),
            Value::Scalar(text) => {
                if let Some(meant) = meant(text) {
                    let found = format!("found `{}`", shown(text));
                    let message = format!("expected `true` or `false`, {found}");
                    problems.add(node.place, message, found, format!("write `{meant}`"));
                } else {
                    expected(node, "`true` or `false`", problems);
                }
                None
            }
            _ => {
                expected(node, "`true` or `false`", problems);
                None
            }
        }
    }
}

/// What is meant by a word that an older YAML has for it, or another case of it.
fn meant(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "y" | "on" | "true" | "1" => Some(true),
        "no" | "n" | "off" | "false" | "0" => Some(false),
        _ => None,
    }
}

impl Plain for Flag {
    type Value = bool;

    fn plain(&self) -> bool {
        self.0
    }
}

impl JsonSchema for Flag {
    fn schema_name() -> Cow<'static, str> {
        "Flag".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "boolean" })
    }
}

section! {
    /// The bounds of a timeout that follows the measured round trip.
    BoundsText {
        /// Never shorter. 100ms when not given.
        "min" => min: Option<At<Timeout>>,
        /// Never longer. 10s when not given.
        "max" => max: Option<At<Timeout>>,
    }
}

/// An election timeout: `1s`, `measured`, or `{ min: 100ms, max: 10s }`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ElectionText(pub ElectionTimeout);

impl Read for ElectionText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match &node.value {
            Value::Scalar(text) if text == "measured" => Some(Self(ElectionTimeout::default())),
            Value::Map(_) => bounds(node, problems).map(Self),
            Value::Scalar(_) => {
                let time = Timeout::read(node, problems)?.0;
                long_enough(time, node.place, problems).then_some(Self(ElectionTimeout::Fixed(time)))
            }
            _ => {
                expected(node, "a time like `1s`, `measured`, or `{ min: 100ms, max: 10s }`", problems);
                None
            }
        }
    }
}

fn bounds(node: &Node, problems: &mut Problems<'_>) -> Option<ElectionTimeout> {
    let noted = problems.noted();
    let text = BoundsText::read(node, problems)?;
    let ElectionTimeout::Measured { min, max } = ElectionTimeout::default() else { return None };
    let min = text.min.as_ref().map_or(min, |time| time.value.0);
    let max = text.max.as_ref().map_or(max, |time| time.value.0);
    let place = text.min.as_ref().map_or(node.place, |time| time.place);
    if problems.noted() == noted && min > max {
        problems.add(place, format!("the least, {min}, is above the most, {max}"), "above `max`", "swap them");
        return None;
    }
    long_enough(min, place, problems).then_some(ElectionTimeout::Measured { min, max })
}

fn long_enough(time: Span, place: Place, problems: &mut Problems<'_>) -> bool {
    if time < SHORTEST_TIMEOUT {
        problems.add(
            place,
            format!("an election timeout of {time} is below {SHORTEST_TIMEOUT}"),
            "too short",
            "votes must come back before it is over: 100ms is short, 1s is usual",
        );
    }
    time >= SHORTEST_TIMEOUT
}

impl Plain for ElectionText {
    type Value = ElectionTimeout;

    fn plain(&self) -> ElectionTimeout {
        self.0
    }
}

impl JsonSchema for ElectionText {
    fn schema_name() -> Cow<'static, str> {
        "ElectionTimeout".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "const": "measured" },
            generator.subschema_for::<Timeout>(),
            generator.subschema_for::<BoundsText>(),
        ] })
    }
}

type LeastDelay = Length<true, 10_000>;
type MeanDelay = Length<false, 10_000>;

section! {
    /// How long messages take one way, processing included.
    DelayBounds {
        /// The least.
        "min" => min: At<LeastDelay>,
        /// The mean, not below `min`: what is above `min` is distributed exponentially.
        "mean" => mean: At<MeanDelay>,
    }
}

/// `{ min: 70ms, mean: 80ms }`
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageDelayText(pub MessageDelay);

impl Read for MessageDelayText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let Value::Map(_) = &node.value else {
            expected(node, "the least and the mean, like `{ min: 70ms, mean: 80ms }`", problems);
            return None;
        };
        let text = DelayBounds::read(node, problems)?;
        let (min, mean) = (text.min.value.0, text.mean.value.0);
        if mean < min {
            problems.add(
                text.mean.place,
                format!("the mean, {mean}, is below the least, {min}"),
                "below `min`",
                "swap them",
            );
            return None;
        }
        Some(Self(MessageDelay { min, mean }))
    }
}

impl Plain for MessageDelayText {
    type Value = MessageDelay;

    fn plain(&self) -> MessageDelay {
        self.0
    }
}

impl JsonSchema for MessageDelayText {
    fn schema_name() -> Cow<'static, str> {
        "MessageDelay".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        DelayBounds::json_schema(generator)
    }
}
