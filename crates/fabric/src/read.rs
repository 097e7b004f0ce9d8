//! From the tree to typed values, noting every problem on the way instead of stopping at the first.
//!
//! [`section!`] makes the struct, its reader and (through schemars) its JSON Schema from one list of fields, so that
//! the schema can't say anything else than the reader.

use machine::Span;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

use crate::error::Problems;
use crate::names::{did_you_mean, one_of};
use crate::source::{At, Place};
use crate::tree::{Entry, Node, Value};
use crate::units::{self, Fault};

/// A type that a value of the file can be read as. `None`: it can't, and that has been noted.
pub(crate) trait Read: Sized {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self>;
}

/// A field of a section: a required one, or an `Option`.
pub(crate) trait Field: Sized {
    fn present(node: &Node, problems: &mut Problems<'_>) -> Option<Self>;
    fn absent(key: &str, section: &Node, problems: &mut Problems<'_>) -> Option<Self>;
}

impl<T: Read> Field for At<T> {
    fn present(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        Self::read(node, problems)
    }

    fn absent(key: &str, section: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        problems.add(section.place, format!("`{key}` is missing"), format!("needs `{key}`"), format!("add `{key}:`"));
        None
    }
}

impl<T: Read> Field for Option<T> {
    fn present(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        // What can't be read has been noted; the rest of the section is still worth reading.
        Some(T::read(node, problems))
    }

    fn absent(_: &str, _: &Node, _: &mut Problems<'_>) -> Option<Self> {
        Some(None)
    }
}

/// A section's entries, with unknown keys noted.
pub(crate) struct Fields<'a> {
    section: &'a Node,
    entries: &'a [Entry],
}

impl<'a> Fields<'a> {
    pub fn open(node: &'a Node, known: &[&str], problems: &mut Problems<'_>) -> Option<Self> {
        let Value::Map(entries) = &node.value else {
            let what = match known {
                // The list of all keys of the file would bury the message.
                [first, ..] if known.len() > 6 => format!("a map with keys like `{first}`"),
                _ => format!("a map with {}", one_of(known.iter().copied())),
            };
            expected(node, &what, problems);
            return None;
        };
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            problems.add(
                entry.key_place,
                format!("there is no key `{}` here", shown(&entry.key)),
                "unknown key",
                unknown_key_hint(entry, known),
            );
        }
        Some(Self { section: node, entries })
    }

    pub fn field<T: Field>(&self, key: &str, problems: &mut Problems<'_>) -> Option<T> {
        match self.entries.iter().find(|entry| entry.key == key) {
            Some(Entry { key_place, value: Node { value: Value::Null, .. }, .. }) => {
                problems.add(
                    *key_place,
                    format!("`{key}` has no value"),
                    "nothing follows",
                    "write a value or remove the key",
                );
                None
            }
            Some(entry) => T::present(&entry.value, problems),
            None => T::absent(key, self.section, problems),
        }
    }
}

/// `{ pattern: staggered(0.5, 0.3) }` is two entries to YAML, since a comma ends a value in braces.
fn unknown_key_hint(entry: &Entry, known: &[&str]) -> String {
    if entry.key.ends_with(')') {
        "a value with a comma needs quotes between braces: \"staggered(0.5, 0.3)\"".to_owned()
    } else {
        did_you_mean(&entry.key, known)
    }
}

/// Text of the file for a message: not longer than a name.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 40;
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}

/// Notes that `node` should have been `what`.
pub(crate) fn expected(node: &Node, what: &str, problems: &mut Problems<'_>) {
    let found = match &node.value {
        Value::Scalar(text) => format!("`{}`", shown(text)),
        Value::List(items) => format!("a list of {}", items.len()),
        Value::Map(_) => "a map".to_owned(),
        Value::Null => "nothing".to_owned(),
    };
    problems.add(
        node.place,
        format!("expected {what}, found {found}"),
        format!("found {found}"),
        format!("write {what}"),
    );
}

/// A section of the file: a struct whose fields have the given keys.
macro_rules! section {
    ($(#[doc = $doc:literal])* $name:ident { $($(#[doc = $field_doc:literal])* $key:literal => $field:ident: $type:ty,)* }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, JsonSchema)]
        #[schemars(deny_unknown_fields)]
        pub(crate) struct $name {
            $($(#[doc = $field_doc])* #[schemars(rename = $key)] pub $field: $type,)*
        }

        impl Read for $name {
            fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
                let fields = Fields::open(node, &[$($key),*], problems)?;
                $(let $field = fields.field($key, problems);)*
                Some(Self { $($field: $field?,)* })
            }
        }
    };
}
pub(crate) use section;

/// An enum written as one of some words: its reader and its schema.
macro_rules! words {
    ($type:ty, $name:literal, $what:literal, { $($word:literal => $value:expr,)* }) => {
        impl Words for $type {
            const WORDS: &[(&str, Self)] = &[$(($word, $value)),*];
        }

        impl Read for $type {
            fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
                crate::read::word(node, $what, problems)
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
        problems.add(node.place, format!("`{}` is not {what}", shown(text)), "unknown", did_you_mean(text, &known));
    }
    found
}

/// A value with its place.
impl<T: Read> Read for At<T> {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let before = problems.noted();
        let value = T::read(node, problems)?;
        Some(Self { value, place: node.place, sound: problems.noted() == before })
    }
}

/// A list; items that can't be read are left out.
impl<T: Read> Read for Vec<T> {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let Value::List(items) = &node.value else {
            expected(node, "a list", problems);
            return None;
        };
        Some(items.iter().filter_map(|item| T::read(item, problems)).collect())
    }
}

/// A map whose keys the user chooses, in the order of the file.
#[derive(Clone, Debug)]
pub(crate) struct Mapping<K, V>(pub Vec<(At<K>, At<V>)>);

impl<K: Read, V: Read> Read for Mapping<K, V> {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let Value::Map(entries) = &node.value else {
            expected(node, "a map", problems);
            return None;
        };
        let read = |entry: &Entry, problems: &mut Problems<'_>| {
            let key_node = Node { place: entry.key_place, value: Value::Scalar(entry.key.clone()) };
            let key = At::read(&key_node, problems);
            if matches!(entry.value.value, Value::Null) {
                let key = shown(&entry.key);
                problems.add(
                    entry.key_place,
                    format!("`{key}` has no value"),
                    "nothing follows",
                    "write a value or remove the key",
                );
                return None;
            }
            let value = At::read(&entry.value, problems);
            Some((key?, value?))
        };
        Some(Self(entries.iter().filter_map(|entry| read(entry, problems)).collect()))
    }
}

/// A value, and how the file writes it.
#[derive(Clone, Debug)]
pub(crate) struct Written<T> {
    pub value: T,
    pub text: String,
    pub place: Place,
}

impl<T: Read> Read for Written<T> {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let value = T::read(node, problems)?;
        Some(Self { value, text: written(node), place: node.place })
    }
}

/// How the file writes a value: lists and maps on one line.
fn written(node: &Node) -> String {
    match &node.value {
        Value::Scalar(text) => text.clone(),
        Value::Null => "null".to_owned(),
        Value::List(items) => format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(", ")),
        Value::Map(entries) => {
            entries.iter().map(|e| format!("{}: {}", e.key, written(&e.value))).collect::<Vec<_>>().join(", ")
        }
    }
}

/// Any text.
#[derive(Clone, Debug)]
pub(crate) struct Text(pub String);

impl Read for Text {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        /// The longest text, in bytes: it goes into tables.
        const LONGEST: usize = 2_000;
        match &node.value {
            Value::Scalar(text) if text.len() <= LONGEST => Some(Self(text.trim().to_owned())),
            Value::Scalar(text) => {
                let bytes = text.len();
                problems.add(
                    node.place,
                    format!("this text has {bytes} bytes, more than {LONGEST}"),
                    "too long",
                    "shorten it",
                );
                None
            }
            _ => {
                expected(node, "text", problems);
                None
            }
        }
    }
}

/// A name: of the fabric, a node, an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name(pub String);

impl Read for Name {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match &node.value {
            Value::Scalar(text) if crate::names::is_name(text) => Some(Self(text.clone())),
            Value::Scalar(text) => {
                problems.add(
                    node.place,
                    format!("`{}` can't be a name", shown(text)),
                    "not a name",
                    "up to 63 letters (a-z, A-Z), digits, `-`, `_`, `.`, a letter or digit first",
                );
                None
            }
            _ => {
                expected(node, "a name", problems);
                None
            }
        }
    }
}

/// A whole number of `MIN..=MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole<const MIN: u64, const MAX: u64>(pub u64);

impl<const MIN: u64, const MAX: u64> Whole<MIN, MAX> {
    /// As 32 bits; `MAX` of such fields fits.
    pub fn get(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }
}

impl<const MIN: u64, const MAX: u64> Read for Whole<MIN, MAX> {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let value = whole_number(node, problems)?;
        in_range(value, MIN, MAX, "", node, problems).then_some(Self(value))
    }
}

/// A whole number, of any size that fits 64 bits.
pub(crate) fn whole_number(node: &Node, problems: &mut Problems<'_>) -> Option<u64> {
    let number = match &node.value {
        Value::Scalar(text) => text.replace('_', "").parse().ok(),
        _ => None,
    };
    if number.is_none() {
        expected(node, "a whole number, not negative", problems);
    }
    number
}

/// Whether `value` is within its bounds; notes it if not.
fn in_range(value: u64, min: u64, max: u64, unit: &str, node: &Node, problems: &mut Problems<'_>) -> bool {
    let fits = (min..=max).contains(&value);
    if !fits {
        let label = if value < min { "too small" } else { "too large" };
        problems.add(
            node.place,
            format!("expected a number from {min} to {max}{unit}, found {value}{unit}"),
            label,
            if value < min { format!("{min}{unit} is the least") } else { format!("{max}{unit} is the most") },
        );
    }
    fits
}

/// A rate in bits a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate(pub u64);

/// The highest rate, bits a second.
const FASTEST_BPS: u64 = 100_000_000_000_000;

impl Read for Rate {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let rate = quantity(
            node,
            units::rate,
            "a rate like `1Gbit` or `2.5 Mbit/s`",
            "bit, kbit, Mbit, Gbit, Tbit",
            problems,
        )?;
        match rate {
            0 => problems.add(
                node.place,
                "a rate of zero lets nothing pass",
                "zero",
                "leave `rate` out for a link without a limit",
            ),
            FASTEST_BPS.. if rate > FASTEST_BPS => {
                problems.add(
                    node.place,
                    "this rate is beyond 100 Tbit/s",
                    "too fast",
                    "leave `rate` out for a link without a limit",
                );
            }
            _ => return Some(Self(rate)),
        }
        None
    }
}

/// A length of time of at most `MAX_MS`; zero only if `ZERO`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Length<const ZERO: bool, const MAX_MS: u64>(pub Span);

impl<const ZERO: bool, const MAX_MS: u64> Read for Length<ZERO, MAX_MS> {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let span = quantity(node, units::span, "a time like `50us` or `1.5ms`", "ps, ns, us, ms, s, min", problems)?;
        let most = Span::from_ms(MAX_MS);
        if span > most {
            problems.add(node.place, format!("{span} is more than {most}"), "too long", format!("at most {most}"));
            None
        } else if span == Span::ZERO && !ZERO {
            problems.add(node.place, "this time can't be zero", "zero", "write a time like `1s`");
            None
        } else {
            Some(Self(span))
        }
    }
}

/// A size in bytes, with or without its unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<const MIN: u64, const MAX: u64>(pub u32);

impl<const MIN: u64, const MAX: u64> Read for Bytes<MIN, MAX> {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let read = |text: &str| text.replace('_', "").parse().or_else(|_| units::size(text));
        let size = quantity(node, read, "a size like `1448B` or `9KiB`", "B, kB, KiB", problems)?;
        in_range(size, MIN, MAX, " B", node, problems).then_some(Self(size as u32))
    }
}

/// Reads a number with a unit; tells apart what can be wrong with it.
fn quantity<T>(
    node: &Node,
    parse: impl Fn(&str) -> Result<T, Fault>,
    what: &str,
    units: &str,
    problems: &mut Problems<'_>,
) -> Option<T> {
    let Value::Scalar(text) = &node.value else {
        expected(node, what, problems);
        return None;
    };
    match parse(text) {
        Ok(value) => return Some(value),
        Err(Fault::Number) => expected(node, what, problems),
        Err(Fault::Unit) => {
            let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || ". _".contains(c)).trim();
            let message = match unit {
                "" => format!("`{}` has no unit", shown(text)),
                unit => format!("`{}` is not a unit that is known here", shown(unit)),
            };
            problems.add(node.place, message, format!("expected {what}"), format!("the units are {units}"));
        }
        Err(Fault::Range) => problems.add(
            node.place,
            format!("`{}` is too large or too fine", shown(text)),
            format!("expected {what}"),
            "write fewer digits or a fitting unit",
        ),
    }
    None
}

/// Schemas of the types above: inline where a name would tell nothing.
mod schemas {
    use super::{
        At, Bytes, Cow, JsonSchema, Length, Mapping, Name, Rate, Schema, SchemaGenerator, Text, Whole, Written,
        json_schema,
    };

    macro_rules! schema {
        ([$($generics:tt)*] $type:ty, $name:literal, |$generator:ident| $body:expr) => {
            impl<$($generics)*> JsonSchema for $type {
                fn schema_name() -> Cow<'static, str> {
                    $name.into()
                }

                fn inline_schema() -> bool {
                    true
                }

                fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                    $body
                }
            }
        };
    }

    schema!([T: JsonSchema] At<T>, "At", |g| g.subschema_for::<T>());
    schema!([T: JsonSchema] Written<T>, "Written", |g| g.subschema_for::<T>());
    schema!([K: JsonSchema, V: JsonSchema] Mapping<K, V>, "Mapping", |g| json_schema!({
        "type": "object",
        "propertyNames": g.subschema_for::<K>(),
        "additionalProperties": g.subschema_for::<V>(),
    }));
    schema!([] Text, "Text", |_g| json_schema!({ "type": ["string", "number", "boolean"] }));
    schema!([] Name, "Name", |_g| json_schema!({
        "type": ["string", "number"],
        "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
    }));
    schema!([] Rate, "Rate", |_g| json_schema!({
        "type": "string",
        "pattern": "^[0-9][0-9_]*(\\.[0-9]+)? *[kMGT]?bit(/s|ps)?$",
        "examples": ["1Gbit", "100Mbit", "2.5 Gbit/s"],
    }));
    schema!([const ZERO: bool, const MAX_MS: u64] Length<ZERO, MAX_MS>, "Length", |_g| json_schema!({
        "type": ["string", "integer"],
        "pattern": "^(0|[0-9][0-9_]*(\\.[0-9]+)? *(ps|ns|us|µs|ms|s|min))$",
        "maximum": 0,
        "examples": ["50us", "1.5ms", "2s"],
    }));
    schema!([const MIN: u64, const MAX: u64] Bytes<MIN, MAX>, "Bytes", |_g| json_schema!({
        "type": ["string", "integer"],
        "pattern": "^[0-9][0-9_]*(\\.[0-9]+)? *(B|kB|KB|KiB|MB|MiB)$",
        "minimum": MIN,
        "maximum": MAX,
        "examples": ["1448B", "9KiB"],
    }));
    schema!([const MIN: u64, const MAX: u64] Whole<MIN, MAX>, "Whole", |_g| json_schema!({
        "type": "integer",
        "minimum": MIN,
        "maximum": MAX,
    }));
}
