//! From the tree to typed values, noting every problem on the way instead of stopping at the first.
//!
//! [`section!`] makes the struct, its reader and (through schemars) its JSON Schema from one list of fields, so that
//! the schema can't say anything else than the reader.

use std::net::Ipv6Addr;

use schemars::{Schema, json_schema};
use topology::{DeviceName, NotADevice};

use crate::error::Problems;
use crate::escape::{escaped, is_shown};
use crate::names::one_of;
use crate::source::{At, Place};
use crate::tree::{Entry, Node, Value};
use crate::unknown_keys;

/// A type that a value of the file can be read as. `None`: it can't, and that has been noted.
pub(crate) trait Read: Sized {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self>;

    /// How reports show a value that is written so: numbers that are of a unit without having it get it.
    fn label(written: String) -> String {
        written
    }
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
                problems.hint(|| unknown_keys::hint(entry, known)),
            );
        }
        Some(Self { section: node, entries })
    }

    pub fn field<T: Field>(&self, key: &str, problems: &mut Problems<'_>) -> Option<T> {
        match self.entries.iter().find(|entry| entry.key == key) {
            Some(entry) => value_of(entry, problems).and_then(|value| T::present(value, problems)),
            None => T::absent(key, self.section, problems),
        }
    }

    /// All entries, in the order of the file.
    pub fn entries(&self) -> &'a [Entry] {
        self.entries
    }
}

/// What follows a key; notes it if that is nothing.
pub(crate) fn value_of<'a>(entry: &'a Entry, problems: &mut Problems<'_>) -> Option<&'a Node> {
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
    Some(&entry.value)
}

/// Text of the file for a message: not longer than a name.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 40;
    let line = escaped(text.lines().next().unwrap_or_default());
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.into_owned(),
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

/// A section of the file: a struct whose fields are read from the entries of a map.
pub(crate) trait Section: Sized {
    /// The keys, in the order of the declaration.
    fn keys() -> Vec<&'static str>;
    /// Reads the fields, among those of other sections perhaps.
    fn fields(fields: &Fields<'_>, problems: &mut Problems<'_>) -> Option<Self>;
}

/// A section of the file: a struct whose fields have the given keys. With `..field: Other` the keys of another section stand among its own:
/// before them, or after them where that stands behind the braces.
macro_rules! section {
    (
        $(#[doc = $doc:literal])*
        $name:ident {
            $(.. $first:ident: $first_type:ty,)?
            $($(#[doc = $field_doc:literal])* $key:literal => $field:ident: $type:ty,)*
        } $(.. $last:ident: $last_type:ty)?
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, JsonSchema)]
        #[schemars(deny_unknown_fields)]
        pub(crate) struct $name {
            $(#[schemars(flatten)] pub $first: $first_type,)?
            $($(#[doc = $field_doc])* #[schemars(rename = $key)] pub $field: $type,)*
            $(#[schemars(flatten)] pub $last: $last_type,)?
        }

        impl crate::read::Section for $name {
            fn keys() -> Vec<&'static str> {
                let mut keys: Vec<&'static str> = Vec::new();
                $(keys.extend(<$first_type as crate::read::Section>::keys());)?
                keys.extend([$($key),*]);
                $(keys.extend(<$last_type as crate::read::Section>::keys());)?
                keys
            }

            fn fields(fields: &Fields<'_>, problems: &mut Problems<'_>) -> Option<Self> {
                $(let $first = <$first_type as crate::read::Section>::fields(fields, problems);)?
                $(let $field = fields.field($key, problems);)*
                $(let $last = <$last_type as crate::read::Section>::fields(fields, problems);)?
                Some(Self { $($first: $first?,)? $($field: $field?,)* $($last: $last?,)? })
            }
        }

        impl Read for $name {
            fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
                let fields = Fields::open(node, &<Self as crate::read::Section>::keys(), problems)?;
                <Self as crate::read::Section>::fields(&fields, problems)
            }
        }
    };
}
pub(crate) use section;

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

/// One of a kind, or a list of several.
pub(crate) fn one_or_several<T: Read>(node: &Node, problems: &mut Problems<'_>) -> Option<Vec<At<T>>> {
    match &node.value {
        Value::List(items) if !items.is_empty() => Vec::read(node, problems),
        _ => Some(vec![At::read(node, problems)?]),
    }
}

/// The same as editors see it: texts like these.
pub(crate) fn one_or_several_texts(examples: &[&str]) -> Schema {
    let one = json_schema!({ "type": "string", "examples": examples });
    json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
}

/// A map whose keys the user chooses, in the order of the file.
#[derive(Clone, Debug)]
pub(crate) struct Mapping<K, V>(pub Vec<(At<K>, At<V>)>);

impl<K: Read, V: Read> Read for Mapping<K, V> {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        if let Value::List(items) = &node.value {
            let found = format!("found a list of {}", items.len());
            let hint = "give each a name: `NAME: ..` in place of `- ..`";
            problems.add(node.place, format!("expected a map, {found}"), found, hint);
            return None;
        }
        let Value::Map(entries) = &node.value else {
            expected(node, "a map", problems);
            return None;
        };
        let read = |entry: &Entry, problems: &mut Problems<'_>| {
            let key_node = Node { place: entry.key_place, value: Value::Scalar(entry.key.clone()) };
            let key = At::read(&key_node, problems);
            let value = At::read(value_of(entry, problems)?, problems);
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
        // It stands in tables. Blanks around a quantity are no part of it, and some of them are control characters.
        let text = escaped(written(node).trim()).into_owned();
        Some(Self { value, text: T::label(text), place: node.place })
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

/// Any text. It goes into tables and reports, where control characters would do what the file wants: they are written out.
#[derive(Clone, Debug)]
pub(crate) struct Text(pub String);

impl Read for Text {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        /// The longest text, in bytes: it goes into tables.
        const LONGEST: usize = 2_000;
        match &node.value {
            Value::Scalar(text) if text.len() <= LONGEST => Some(Self(escaped(text.trim()).into_owned())),
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

/// The name of a device on which a link ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device(pub String);

impl Read for Device {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let Value::Scalar(text) = &node.value else {
            expected(node, "a network device", problems);
            return None;
        };
        if !text.chars().all(is_shown) {
            problems.add(
                node.place,
                format!("`{}` has control characters in it", shown(text)),
                "not shown as it is",
                "give the file another name",
            );
            return None;
        }
        let Err(NotADevice { what, why, label, hint }) = DeviceName::parse(text) else {
            return Some(Self(text.clone()));
        };
        let why = why.map_or_else(String::new, |why| format!(": {}", shown(&why.to_string())));
        problems.add(node.place, format!("`{}` {what}{why}", shown(text)), label, hint);
        None
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
                let why = if text.parse::<Ipv6Addr>().is_ok() { ": it is an address" } else { "" };
                problems.add(
                    node.place,
                    format!("`{}` can't be a name{why}", shown(text)),
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
