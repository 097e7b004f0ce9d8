//! The file as a tree of scalars, lists and maps, each with its place. YAML's rules end here.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::granit_parser::ErrorKind;
use serde_saphyr::{
    DefaultMessageFormatter, DuplicateKeyPolicy, Error as Yaml, ExternalMessageSource, Localizer, Location, Spanned,
};

use crate::error::Problems;
use crate::read::shown;
use crate::source::{Place, Source};
use crate::yaml;

/// The longest text that is read, in bytes.
pub(crate) const LONGEST_TEXT: usize = 1 << 20;

/// The longest line, in bytes.
const LONGEST_LINE: usize = 16_000;

/// What is said of a key that was there before.
const SECOND: &str = "the second one";
const ONCE: &str = "each name and each key stands once in its map; remove or rename one";

/// A value of the file.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub place: Place,
    pub value: Value,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// As written, without quotes: `20`, `1.50` and `yes` stay text.
    Scalar(String),
    /// Nothing, or `null`.
    Null,
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub key: String,
    pub key_place: Place,
    pub value: Node,
}

/// Reads the text; `None` when it isn't YAML, which is then noted.
pub(crate) fn read(source: &Source, problems: &mut Problems<'_>) -> Option<Node> {
    if source.text.len() > LONGEST_TEXT {
        problems.add(
            Place::default(),
            format!("the file has {} bytes, more than {LONGEST_TEXT}", source.text.len()),
            "too long",
            "describe a large network with `topology:`",
        );
        problems.show_until(0);
        return None;
    }
    if !lines_are_short(&source.text, problems) {
        return None;
    }
    let read = |duplicate_keys| {
        let options = serde_saphyr::options! {
            with_snippet: false,
            duplicate_keys: duplicate_keys,
            reject_unsupported_tags: true,
            budget: serde_saphyr::budget! {
                max_depth: 24,
                flow_nesting_limit: 24,
                max_documents: 1,
                max_aliases: 1_000,
                max_anchors: 1_000,
                max_total_scalar_bytes: 4 * LONGEST_TEXT,
            },
            alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 100_000 },
        };
        serde_saphyr::from_str_with_options::<Spanned<Raw>>(&source.text, options)
    };
    match read(DuplicateKeyPolicy::Error) {
        Ok(raw) => Some(place(raw, &source.text, problems)),
        // What else is wrong with the file is said as well. Of keys that are numbers only the last one is handed over then.
        Err(error @ Yaml::DuplicateMappingKey { .. }) => {
            let noted = problems.noted();
            let tree = read(DuplicateKeyPolicy::LastWins).ok().map(|raw| place(raw, &source.text, problems));
            if problems.noted() == noted {
                note(&error, source, problems);
            }
            tree
        }
        Err(error) => {
            note(&error, source, problems);
            None
        }
    }
}

/// Notes the first line that is too long.
fn lines_are_short(text: &str, problems: &mut Problems<'_>) -> bool {
    /// What of it is marked, in bytes.
    const MARKED: usize = 20;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        if line.len() > LONGEST_LINE {
            problems.add(
                Place { offset, len: boundary(line, MARKED) },
                format!("this line has {} bytes, more than {LONGEST_LINE}", line.len()),
                "too long",
                "break it: between [ ] and { } a line may end after a comma",
            );
            return false;
        }
        offset += line.len();
    }
    true
}

/// Says what YAML says, in our form.
fn note(error: &Yaml, source: &Source, problems: &mut Problems<'_>) {
    let place = error.location().map_or(Place::default(), |at| locate(at, &source.text));
    let formatter = DefaultMessageFormatter.with_localizer(&WithoutPlaces);
    let text = error.render_with_options(serde_saphyr::render_options! {
        formatter: &formatter,
        snippets: serde_saphyr::SnippetMode::Off,
    });
    let text = text.trim_end_matches('.');
    match error {
        Yaml::MultipleDocuments { .. } | Yaml::Budget { breach: BudgetBreach::Documents { .. }, .. } => {
            problems.add(place, "there is more than one document", "a second one", "make a file of each");
        }
        _ if is_beyond_limits(error) => problems.add(
            place,
            format!("this goes beyond what is read: {text}"),
            "here",
            "a fabric file is one document, nested less than 24 deep, with few aliases",
        ),
        Yaml::DuplicateMappingKey { key, .. } => {
            problems.add(place, format!("`{}` is there twice", shown(key.as_deref().unwrap_or("this"))), SECOND, ONCE);
        }
        Yaml::UnknownAnchor { .. } => problems.add_yaml(
            place,
            "there is no anchor of this name before it".to_owned(),
            "an alias",
            "`*x` repeats what is marked `&x`; text that begins with `*` needs quotes",
        ),
        _ if parser_error(error).is_some_and(|kind| yaml::explain(kind, place, &source.text, problems)) => {}
        _ => problems.add_yaml(
            place,
            format!("this isn't YAML that can be read: {text}"),
            "here",
            "check indentation (spaces, no tabs), brackets, and the space after each colon",
        ),
    }
}

/// What the parser stumbled over, if it was the parser.
fn parser_error(error: &Yaml) -> Option<&ErrorKind> {
    match error {
        Yaml::ExternalMessage { source, .. } => match &**source {
            ExternalMessageSource::Parser(error) => Some(error.kind()),
            _ => None,
        },
        Yaml::AliasError { error, .. } => parser_error(error),
        _ => None,
    }
}

/// Whether the text has more of something than is read, or deeper.
fn is_beyond_limits(error: &Yaml) -> bool {
    match error {
        Yaml::Budget { .. }
        | Yaml::AliasReplayCounterOverflow { .. }
        | Yaml::AliasReplayLimitExceeded { .. }
        | Yaml::AliasExpansionLimitExceeded { .. }
        | Yaml::AliasReplayStackDepthExceeded { .. } => true,
        Yaml::AliasError { error, .. } => is_beyond_limits(error),
        _ => parser_error(error) == Some(&ErrorKind::RecursionLimitExceeded),
    }
}

/// YAML's own words without places: the label shows the place.
struct WithoutPlaces;

impl Localizer for WithoutPlaces {
    fn attach_location<'a>(&self, text: Cow<'a, str>, _: Location) -> Cow<'a, str> {
        text
    }

    fn alias_defined_at(&self, _: Location) -> String {
        String::new()
    }

    fn alias_used_at(&self, _: Location) -> String {
        String::new()
    }
}

/// What serde hands over; numbers keep serde's form only until the text is at hand.
enum Raw {
    Text(String),
    Plain(String),
    Null,
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a scalar, a list or a map")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Raw, E> {
        Ok(Raw::Plain(v.to_string()))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Raw, E> {
        Ok(Raw::Plain(v.to_string()))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Raw, E> {
        Ok(Raw::Plain(v.to_string()))
    }

    fn visit_i128<E>(self, v: i128) -> Result<Raw, E> {
        Ok(Raw::Plain(v.to_string()))
    }

    fn visit_u128<E>(self, v: u128) -> Result<Raw, E> {
        Ok(Raw::Plain(v.to_string()))
    }

    fn visit_f64<E>(self, v: f64) -> Result<Raw, E> {
        Ok(Raw::Plain(v.to_string()))
    }

    fn visit_str<E>(self, v: &str) -> Result<Raw, E> {
        Ok(Raw::Text(v.to_owned()))
    }

    fn visit_bytes<E: serde::de::Error>(self, _: &[u8]) -> Result<Raw, E> {
        Err(E::custom("binary data has no place in a fabric file"))
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let value = map.next_value()?;
            entries.push((key, value));
        }
        Ok(Raw::Map(entries))
    }
}

fn place(raw: Spanned<Raw>, text: &str, problems: &mut Problems<'_>) -> Node {
    let place_of_node = locate(raw.defined, text);
    let value = match raw.value {
        Raw::Text(scalar) => Value::Scalar(scalar),
        Raw::Plain(scalar) => {
            let written = text.get(place_of_node.offset..place_of_node.offset + place_of_node.len).map(str::trim);
            Value::Scalar(written.filter(|w| !w.is_empty() && !w.contains('\n')).map_or(scalar, str::to_owned))
        }
        Raw::Null => Value::Null,
        Raw::List(items) => Value::List(items.into_iter().map(|item| place(item, text, problems)).collect()),
        Raw::Map(entries) => {
            let entries = entries.into_iter().map(|(key, value)| Entry {
                key_place: locate(key.defined, text),
                key: key.value,
                value: place(value, text, problems),
            });
            Value::Map(each_once(entries.collect(), problems))
        }
    };
    Node { place: place_of_node, value }
}

/// The entries without those whose key was there before, each of which is noted.
fn each_once(entries: Vec<Entry>, problems: &mut Problems<'_>) -> Vec<Entry> {
    let mut first: BTreeMap<String, Place> = BTreeMap::new();
    let mut is_first = |entry: &Entry| {
        let Some(known) = first.get(&entry.key) else {
            first.insert(entry.key.clone(), entry.key_place);
            return true;
        };
        let (line, second) = (problems.line(*known), problems.line(entry.key_place));
        let where_first = if line == second { String::new() } else { format!(": in line {line} already") };
        problems.add(entry.key_place, format!("`{}` is there twice{where_first}", shown(&entry.key)), SECOND, ONCE);
        false
    };
    entries.into_iter().filter(|entry| is_first(entry)).collect()
}

/// The byte offset of a line and column, for places of which YAML knows no more.
fn offset_of(at: Location, text: &str) -> usize {
    let line = at.line().saturating_sub(1) as usize;
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let rest = text[start..].lines().next().unwrap_or_default();
    let column = at.column().saturating_sub(1) as usize;
    start + rest.char_indices().nth(column).map_or(rest.len(), |(i, _)| i)
}

/// The last boundary between characters at or before `offset`.
fn boundary(text: &str, offset: usize) -> usize {
    (0..=offset).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}

/// The marked text: at most to the end of its line, and never between the bytes of a character.
fn locate(at: Location, text: &str) -> Place {
    let offset = at.span().byte_offset().map_or_else(|| offset_of(at, text), |o| o as usize).min(text.len());
    let offset = boundary(text, offset);
    let rest = &text[offset..];
    let line = rest.lines().next().unwrap_or_default().trim_end();
    let len = at.span().byte_len().map_or(0, |l| l as usize).min(line.len());
    let mut len = boundary(line, len);
    // A block's place is where it starts, without length: mark its first word.
    if len == 0 {
        len = line.find([':', ' ', ',']).unwrap_or(line.len());
    }
    Place { offset, len }
}
