//! Enums that the file writes as words.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::error::Problems;
use crate::names::{did_you_mean, one_of};
use crate::read::{Read, expected, shown};
use crate::tree::{Node, Value};
use crate::{DriverKind, Metric, Spread, TransportKind};

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
    let known: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
    let Value::Scalar(text) = &node.value else {
        expected(node, &format!("{what}: {}", one_of(known)), problems);
        return None;
    };
    let found = T::WORDS.iter().find(|(word, _)| word == text).map(|&(_, value)| value);
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

words!(Spread, "Spread", "a way to spread", {
    "single" => Spread::Single,
    "ecmp" => Spread::Ecmp,
    "packet-scatter" => Spread::PacketScatter,
    "packet-scatter-random" => Spread::PacketScatterRandom,
});

words!(TransportKind, "Transport", "a transport", {
    "reno" => TransportKind::Reno,
    "newreno" => TransportKind::NewReno,
    "sack" => TransportKind::Sack,
});

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
});

impl Spread {
    /// As the file writes it.
    pub fn word(self) -> &'static str {
        word_of(self)
    }
}

impl TransportKind {
    /// As the file writes it.
    pub fn word(self) -> &'static str {
        word_of(self)
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
}

fn word_of<T: Words + PartialEq>(value: T) -> &'static str {
    T::WORDS.iter().find(|(_, other)| *other == value).map_or("", |(word, _)| word)
}
