//! Values of a bond's options as they are written.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use bond::config::{
    AdSelect, ArpAllTargets, FailOverMac, HashPolicy, LacpRate, Mode, PrimaryReselect, Rebalance, TARGETS_MAX,
    Value as OptionValue,
};
use machine::Span;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::addresses::Mac;
use crate::error::Problems;
use crate::names::did_you_mean;
use crate::quantity::{Length, Whole};
use crate::read::{Fields, Read, Text, expected, section, shown};
use crate::tree::{Node, Value};
use crate::{ReorderSpec, Reordering};

/// What the value of an option is to the crate `bond`.
pub(super) trait IsOption {
    fn value(&self) -> OptionValue;
}

impl<const MIN: u64, const MAX: u64> IsOption for Whole<MIN, MAX> {
    fn value(&self) -> OptionValue {
        OptionValue::Number(self.get())
    }
}

impl IsOption for Text {
    fn value(&self) -> OptionValue {
        OptionValue::Word(self.0.clone())
    }
}

impl IsOption for Mac {
    fn value(&self) -> OptionValue {
        OptionValue::Mac(self.0)
    }
}

/// An enum of the kernel, whose values have names and numbers.
pub(crate) trait Named: Copy + 'static {
    const WHAT: &'static str;
    const ALL: &'static [Self];
    fn name(self) -> &'static str;
    fn number(self) -> u8;
}

macro_rules! named {
    ($($type:ident, $what:literal;)*) => { $(
        impl Named for $type {
            const WHAT: &'static str = $what;
            const ALL: &'static [Self] = $type::ALL;

            fn name(self) -> &'static str {
                self.name()
            }

            fn number(self) -> u8 {
                self.number()
            }
        }
    )* };
}
named! {
    Mode, "a mode of bonds";
    HashPolicy, "a hash policy";
    PrimaryReselect, "a choice of `primary-reselect`";
    FailOverMac, "a choice of `fail-over-mac`";
    ArpAllTargets, "a choice of `arp-all-targets`";
    LacpRate, "a rate of LACP";
    AdSelect, "a choice of `ad-select`";
}

/// One of the values of `T`, by name or number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<T>(pub T);

/// A mode.
pub(crate) type ModeText = Word<Mode>;

impl<T: Named> Read for Word<T> {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let Value::Scalar(text) = &node.value else {
            expected(node, &format!("{} by name or number", T::WHAT), problems);
            return None;
        };
        let number = text.parse::<u8>().ok();
        // 802.3 is a number to YAML as well: what counts is how it is written.
        let found = T::ALL.iter().find(|value| value.name() == text || Some(value.number()) == number);
        if found.is_none() {
            let names: Vec<&str> = T::ALL.iter().map(|value| value.name()).collect();
            let hint = problems.hint(|| did_you_mean(text, &names));
            problems.add(node.place, format!("`{}` is not {}", shown(text), T::WHAT), "unknown", hint);
        }
        found.map(|&value| Self(value))
    }
}

impl<T: Named> JsonSchema for Word<T> {
    fn schema_name() -> Cow<'static, str> {
        "Word".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let numbers = T::ALL.iter().map(|value| serde_json::Value::from(value.number()));
        let names = T::ALL.iter().map(|value| serde_json::Value::from(value.name()));
        json_schema!({ "enum": names.chain(numbers).collect::<Vec<_>>() })
    }
}

impl<T: Named> IsOption for Word<T> {
    fn value(&self) -> OptionValue {
        OptionValue::Word(self.0.name().to_owned())
    }
}

/// On or off, also as the kernel writes it: 1 or 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Switch(pub bool);

impl Switch {
    fn of(node: &Node) -> Option<Self> {
        let Value::Scalar(text) = &node.value else { return None };
        match text.as_str() {
            "on" | "true" | "1" => Some(Self(true)),
            "off" | "false" | "0" => Some(Self(false)),
            _ => None,
        }
    }
}

impl Read for Switch {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let found = Self::of(node);
        if found.is_none() {
            expected(node, "`on` or `off`", problems);
        }
        found
    }
}

impl JsonSchema for Switch {
    fn schema_name() -> Cow<'static, str> {
        "Switch".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": ["on", "off", true, false, 1, 0] })
    }
}

impl IsOption for Switch {
    fn value(&self) -> OptionValue {
        OptionValue::Flag(self.0)
    }
}

/// The longest time of an option, in milliseconds: an hour.
const LONGEST_MS: u64 = 3_600_000;

/// A time with its unit; a bare number is milliseconds, as in the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Millis(pub Span);

impl Read for Millis {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match &node.value {
            Value::Scalar(text) if is_number(text) => {
                Whole::<0, LONGEST_MS>::read(node, problems).map(|ms| Self(Span::from_ms(ms.0)))
            }
            _ => Length::<true, LONGEST_MS>::read(node, problems).map(|time| Self(time.0)),
        }
    }
}

impl JsonSchema for Millis {
    fn schema_name() -> Cow<'static, str> {
        "Milliseconds".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            generator.subschema_for::<Length<true, LONGEST_MS>>(),
            generator.subschema_for::<Whole<0, LONGEST_MS>>(),
        ] })
    }
}

impl IsOption for Millis {
    fn value(&self) -> OptionValue {
        OptionValue::Time(self.0)
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
}

/// A time of whole seconds, with its unit; a bare number is seconds, as in the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seconds(u32);

impl Read for Seconds {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        if matches!(&node.value, Value::Scalar(text) if is_number(text)) {
            return Whole::<1, { LONGEST_MS / 1_000 }>::read(node, problems).map(|seconds| Self(seconds.get()));
        }
        let time = Length::<false, LONGEST_MS>::read(node, problems)?.0;
        let seconds = time.as_ns() / 1_000_000_000;
        if Span::from_secs(seconds) != time {
            expected(node, "whole seconds like `1s`", problems);
            return None;
        }
        Some(Self(seconds as u32))
    }
}

impl JsonSchema for Seconds {
    fn schema_name() -> Cow<'static, str> {
        "Seconds".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            generator.subschema_for::<Length<false, LONGEST_MS>>(),
            generator.subschema_for::<Whole<1, { LONGEST_MS / 1_000 }>>(),
        ] })
    }
}

impl IsOption for Seconds {
    fn value(&self) -> OptionValue {
        OptionValue::Number(self.0)
    }
}

/// One address, several in a list, or several with commas between.
#[derive(Clone, Debug)]
pub(crate) struct Targets<T>(Vec<T>);

impl<T: Read> Read for Targets<T> {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let nodes: Vec<Node> = match &node.value {
            Value::Scalar(text) => {
                let part = |text: &str| Node { place: node.place, value: Value::Scalar(text.trim().to_owned()) };
                text.split(',').map(part).collect()
            }
            Value::List(items) => items.clone(),
            _ => Vec::new(),
        };
        if nodes.is_empty() || nodes.len() > TARGETS_MAX {
            expected(node, &format!("1 to {TARGETS_MAX} addresses"), problems);
            return None;
        }
        let addresses: Option<Vec<T>> = nodes.iter().map(|node| T::read(node, problems)).collect();
        addresses.map(Self)
    }
}

impl<T> JsonSchema for Targets<T> {
    fn schema_name() -> Cow<'static, str> {
        "Targets".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "string" },
            { "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": TARGETS_MAX },
        ] })
    }
}

impl IsOption for Targets<Ipv4Addr> {
    fn value(&self) -> OptionValue {
        OptionValue::Ipv4(self.0.clone())
    }
}

impl IsOption for Targets<Ipv6Addr> {
    fn value(&self) -> OptionValue {
        OptionValue::Ipv6(self.0.clone())
    }
}

section! {
    /// How busy members are relieved.
    RebalanceMap {
        /// At most one bucket of flows moves in this time. 1s when not given.
        "interval" => interval: Option<Length<false, LONGEST_MS>>,
        /// A bucket moves only when nothing was sent in it for this long, so that no flow is reordered. 500us when not
        /// given.
        "gap" => gap: Option<Length<true, 1_000>>,
    }
}

/// `on`, `off`, or `{ interval: 1s, gap: 1ms }`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RebalanceText(Option<Rebalance>);

impl Read for RebalanceText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let usual = Rebalance::default();
        if let Some(Switch(on)) = Switch::of(node) {
            return Some(Self(on.then_some(usual)));
        }
        if !matches!(node.value, Value::Map(_)) {
            expected(node, "`on`, `off`, or a map like `{ interval: 1s, gap: 1ms }`", problems);
            return None;
        }
        let text = RebalanceMap::read(node, problems)?;
        let interval = text.interval.map_or(usual.interval, |time| time.0);
        Some(Self(Some(Rebalance { interval, gap: text.gap.map_or(usual.gap, |time| time.0) })))
    }
}

impl JsonSchema for RebalanceText {
    fn schema_name() -> Cow<'static, str> {
        "Rebalance".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [generator.subschema_for::<Switch>(), generator.subschema_for::<RebalanceMap>()] })
    }
}

impl IsOption for RebalanceText {
    fn value(&self) -> OptionValue {
        OptionValue::Rebalance(self.0)
    }
}

/// The bounds of what a bond holds back.
const LEAST_BUFFER: u64 = bond::reorder::BUFFER_MIN as u64;
const MOST_BUFFER: u64 = bond::reorder::BUFFER_MAX as u64;
const LONGEST_TIMEOUT_MS: u64 = bond::reorder::TIMEOUT_MAX.as_ns() / 1_000_000;

section! {
    /// How arrivals are put back in order.
    ReorderMap {
        /// How many packets are held at most. 512 when not given.
        "buffer" => buffer: Option<Whole<LEAST_BUFFER, MOST_BUFFER>>,
        /// How long a packet is held at most. 2ms when not given.
        "timeout" => timeout: Option<Length<false, LONGEST_TIMEOUT_MS>>,
    }
}

/// `on`, `off`, or `{ buffer: 512, timeout: 2ms }`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReorderText {
    Off,
    On,
    With(ReorderSpec),
}

impl Read for ReorderText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match Switch::of(node) {
            Some(Switch(false)) => return Some(Self::Off),
            Some(Switch(true)) => return Some(Self::On),
            None => {}
        }
        if !matches!(node.value, Value::Map(_)) {
            expected(node, "`on`, `off`, or a map like `{ buffer: 512, timeout: 2ms }`", problems);
            return None;
        }
        let text = ReorderMap::read(node, problems)?;
        let usual = ReorderSpec::default();
        Some(Self::With(ReorderSpec {
            buffer: text.buffer.map_or(usual.buffer, Whole::get),
            timeout: text.timeout.map_or(usual.timeout, |time| time.0),
        }))
    }
}

impl JsonSchema for ReorderText {
    fn schema_name() -> Cow<'static, str> {
        "Reorder".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [generator.subschema_for::<Switch>(), generator.subschema_for::<ReorderMap>()] })
    }
}

impl From<ReorderText> for Reordering {
    fn from(text: ReorderText) -> Self {
        match text {
            ReorderText::Off => Self::Off,
            ReorderText::On => Self::On,
            ReorderText::With(spec) => Self::With(spec),
        }
    }
}
