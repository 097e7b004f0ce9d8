//! Enums that the file writes as words.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use topology::Rerouting;
use transport::TransportKind;
use transport::linux::CongestionControl;
use vswitch::Spread;
use vswitch::chain::OnFailure;
use vswitch::port::VlanMode;

use crate::error::Problems;
use crate::names::{did_you_mean, one_of};
use crate::parameters::Plain;
use crate::read::{Read, expected, shown};
use crate::tree::{Node, Value};
use crate::{DriverKind, ElectionEnd, Operation, Role};

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
                let words: &[&str] = &[$($word),*];
                json_schema!({ "type": "string", "enum": words })
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
    VlanMode, "VlanMode", "a way to have VLANs";
    OnFailure, "OnFailure", "what becomes of packets while a function is down";
    TransportKind, "Transport", "a transport";
    CongestionControl, "CongestionControl", "a congestion control";
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

pub(crate) fn word_of<T: Words + PartialEq>(value: T) -> &'static str {
    T::WORDS.iter().find(|(_, other)| *other == value).map_or("", |(word, _)| word)
}
