//! Enums that the file writes as words.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use topology::Rerouting;
use transport::TransportKind;
use vswitch::Spread;

use crate::error::Problems;
use crate::names::{did_you_mean, one_of};
use crate::parameters::Plain;
use crate::read::{Read, expected, shown};
use crate::tree::{Node, Value};
use crate::{DriverKind, ElectionEnd, Metric, Operation, Role, Statistic};

/// An enum written as one of some words: its reader and its schema.
macro_rules! words {
    ($type:ty, $name:literal, $what:literal, { $($word:literal => $value:expr,)* }) => {
        impl Words for $type {
            const WORDS: &[(&str, Self)] = &[$(($word, $value)),*];
        }

        impl Read for $type {
            fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
                crate::words::word(node, $what, problems)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "enum": [$($word),*] })
            }
        }
    };
}
pub(crate) use words;

/// The words that stand for a type's values.
pub(crate) trait Words: Copy + 'static {
    const WORDS: &[(&str, Self)];
}

/// Reads one of the words of `T`.
pub(crate) fn word<T: Words>(node: &Node, what: &str, problems: &mut Problems<'_>) -> Option<T> {
    one_word(node, what, T::WORDS, problems)
}

fn one_word<T: Copy>(node: &Node, what: &str, words: &[(&str, T)], problems: &mut Problems<'_>) -> Option<T> {
    let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let Value::Scalar(text) = &node.value else {
        expected(node, &format!("{what}: {}", one_of(known)), problems);
        return None;
    };
    let found = words.iter().find(|(word, _)| word == text).map(|&(_, value)| value);
    if found.is_none() {
        problems.add(
            node.place,
            format!("`{}` is not {what}", shown(text)),
            "unknown",
            problems.hint(|| did_you_mean(text, &known)),
        );
    }
    found
}

/// A machine's own setting, written as one of its names.
pub(crate) trait Keyword: Copy + 'static {
    const SCHEMA: &str;
    const WHAT: &str;
    const ALL: &[Self];
    fn name(self) -> &'static str;
}

macro_rules! keywords {
    ($($type:ty, $name:literal, $what:literal;)*) => { $(
        impl Keyword for $type {
            const SCHEMA: &str = $name;
            const WHAT: &str = $what;
            const ALL: &[Self] = <$type>::ALL;

            fn name(self) -> &'static str {
                self.name()
            }
        }
    )* };
}
keywords! {
    Spread, "Spread", "a way to spread";
    Rerouting, "Routes", "a way to route";
    TransportKind, "Transport", "a transport";
}

/// One of a machine's settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice<T>(pub T);

impl<T: Keyword> Read for Choice<T> {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let known: Vec<(&str, T)> = T::ALL.iter().map(|value| (value.name(), *value)).collect();
        one_word(node, T::WHAT, &known, problems).map(Self)
    }
}

impl<T: Keyword> Plain for Choice<T> {
    type Value = T;

    fn plain(&self) -> T {
        self.0
    }
}

impl<T: Keyword> JsonSchema for Choice<T> {
    fn schema_name() -> Cow<'static, str> {
        T::SCHEMA.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = T::ALL.iter().map(|value| value.name()).collect();
        json_schema!({ "type": "string", "enum": names })
    }
}

words!(DriverKind, "Driver", "a driver", {
    "live" => DriverKind::Live,
    "sim" => DriverKind::Sim,
});

words!(Metric, "Metric", "a metric", {
    "goodput-mean" => Metric::GoodputMean,
    "goodput-min" => Metric::GoodputMin,
    "goodput-max" => Metric::GoodputMax,
    "goodput-sum" => Metric::GoodputSum,
    "fairness" => Metric::Fairness,
    "retransmits" => Metric::Retransmits,
    "fast-retransmits" => Metric::FastRetransmits,
    "timeouts" => Metric::Timeouts,
    "reordered" => Metric::Reordered,
    "reorder-extent" => Metric::ReorderExtent,
    "drops" => Metric::Drops,
    "utilisation-mean" => Metric::UtilisationMean,
    "utilisation-max" => Metric::UtilisationMax,
    "lost" => Metric::Lost,
    "duplicates" => Metric::Duplicates,
    "longest-gap" => Metric::LongestGap,
    "create-min" => Metric::Latency(Operation::Create, Statistic::Min),
    "create-mean" => Metric::Latency(Operation::Create, Statistic::Mean),
    "create-p50" => Metric::Latency(Operation::Create, Statistic::P50),
    "create-p99" => Metric::Latency(Operation::Create, Statistic::P99),
    "create-max" => Metric::Latency(Operation::Create, Statistic::Max),
    "create-rate" => Metric::Throughput(Operation::Create),
    "read-min" => Metric::Latency(Operation::Read, Statistic::Min),
    "read-mean" => Metric::Latency(Operation::Read, Statistic::Mean),
    "read-p50" => Metric::Latency(Operation::Read, Statistic::P50),
    "read-p99" => Metric::Latency(Operation::Read, Statistic::P99),
    "read-max" => Metric::Latency(Operation::Read, Statistic::Max),
    "read-rate" => Metric::Throughput(Operation::Read),
    "update-min" => Metric::Latency(Operation::Update, Statistic::Min),
    "update-mean" => Metric::Latency(Operation::Update, Statistic::Mean),
    "update-p50" => Metric::Latency(Operation::Update, Statistic::P50),
    "update-p99" => Metric::Latency(Operation::Update, Statistic::P99),
    "update-max" => Metric::Latency(Operation::Update, Statistic::Max),
    "update-rate" => Metric::Throughput(Operation::Update),
    "delete-min" => Metric::Latency(Operation::Delete, Statistic::Min),
    "delete-mean" => Metric::Latency(Operation::Delete, Statistic::Mean),
    "delete-p50" => Metric::Latency(Operation::Delete, Statistic::P50),
    "delete-p99" => Metric::Latency(Operation::Delete, Statistic::P99),
    "delete-max" => Metric::Latency(Operation::Delete, Statistic::Max),
    "delete-rate" => Metric::Throughput(Operation::Delete),
    "rpc-min" => Metric::Latency(Operation::Rpc, Statistic::Min),
    "rpc-mean" => Metric::Latency(Operation::Rpc, Statistic::Mean),
    "rpc-p50" => Metric::Latency(Operation::Rpc, Statistic::P50),
    "rpc-p99" => Metric::Latency(Operation::Rpc, Statistic::P99),
    "rpc-max" => Metric::Latency(Operation::Rpc, Statistic::Max),
    "rpc-rate" => Metric::Throughput(Operation::Rpc),
    "election-min" => Metric::Latency(Operation::Election, Statistic::Min),
    "election-mean" => Metric::Latency(Operation::Election, Statistic::Mean),
    "election-p50" => Metric::Latency(Operation::Election, Statistic::P50),
    "election-p99" => Metric::Latency(Operation::Election, Statistic::P99),
    "election-max" => Metric::Latency(Operation::Election, Statistic::Max),
    "lost-writes" => Metric::LostWrites,
    "failed" => Metric::Failed,
    "linearizable" => Metric::Linearizable,
    "unavailable-max" => Metric::UnavailableMax,
    "resident-max" => Metric::ResidentMax,
});

words!(Operation, "Operation", "something to ask of the controllers", {
    "create" => Operation::Create,
    "read" => Operation::Read,
    "update" => Operation::Update,
    "delete" => Operation::Delete,
    "rpc" => Operation::Rpc,
    "election" => Operation::Election,
});

words!(ElectionEnd, "ElectionEnd", "an end of an election", {
    "write" => ElectionEnd::Write,
    "leader" => ElectionEnd::Leader,
});

words!(Role, "Role", "a node to ask", {
    "leader" => Role::Leader,
    "follower" => Role::Follower,
    "any" => Role::Any,
});

impl Plain for Role {
    type Value = Self;

    fn plain(&self) -> Self {
        *self
    }
}

impl DriverKind {
    /// As the file writes it.
    pub fn word(self) -> &'static str {
        word_of(self)
    }
}

impl Metric {
    /// As the file writes it.
    pub fn word(self) -> &'static str {
        word_of(self)
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::WORDS.iter().map(|&(_, metric)| metric)
    }

    /// Whether it is of datagrams that are sent at a constant rate.
    pub const fn is_of_a_rate(self) -> bool {
        matches!(self, Self::Lost | Self::Duplicates | Self::LongestGap)
    }

    /// Whether it is of controllers that are asked, not of traffic.
    pub const fn is_of_cluster(self) -> bool {
        matches!(
            self,
            Self::Latency(..)
                | Self::Throughput(_)
                | Self::LostWrites
                | Self::Failed
                | Self::Linearizable
                | Self::UnavailableMax
                | Self::ResidentMax
        )
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let found = Self::WORDS.iter().find(|(word, _)| *word == text);
        found.map(|&(_, metric)| metric).ok_or_else(|| D::Error::custom(format!("`{text}` is not a metric")))
    }
}

impl Operation {
    /// As the file writes it.
    pub fn word(self) -> &'static str {
        word_of(self)
    }
}

impl Role {
    /// As the file writes it.
    pub fn word(self) -> &'static str {
        word_of(self)
    }
}

fn word_of<T: Words + PartialEq>(value: T) -> &'static str {
    T::WORDS.iter().find(|(_, other)| *other == value).map_or("", |(word, _)| word)
}
