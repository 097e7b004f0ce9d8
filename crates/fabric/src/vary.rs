//! The axes of experiments: `vary:` as it is written, and what its values set.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::bonds::BondAxis;
use crate::cluster::LoadAxis;
use crate::controllers::ControllersAxis;
use crate::document::NetworkAxis;
use crate::error::Problems;
use crate::experiment::Context;
use crate::links::LinkAxis;
use crate::names::one_of;
use crate::one_link::OneLinkAxis;
use crate::parameters::Values;
use crate::read::{Fields, Read, shown, value_of};
use crate::services::ServiceAxis;
use crate::source::{Place, Source};
use crate::traffic::TrafficAxis;
use crate::tree::{Entry, Node, Value};
use crate::{Axis, Setting};

/// The most cases of one experiment.
const MOST_CASES: usize = 10_000;

/// What an experiment is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    Traffic,
    Cluster,
}

/// The axes by the sections that declare them, and the experiments that they are for.
macro_rules! axes {
    ($($group:ident($axis:ident) for $about:ident;)*) => {
        /// One axis as written.
        #[derive(Clone, Debug)]
        pub(crate) enum AxisText {
            $($group($axis),)*
        }

        impl AxisText {
            fn read(key: &str, node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
                $(if let Some(found) = $axis::read(key, node, problems) {
                    return found.map(Self::$group);
                })*
                None
            }

            fn key(&self) -> &str {
                match self {
                    $(Self::$group(axis) => axis.key(),)*
                }
            }

            const fn about(&self) -> About {
                match self {
                    $(Self::$group(_) => About::$about,)*
                }
            }

            /// What its values set; `None`: that has a problem, which has been noted.
            fn resolve(&self, context: &Context<'_>, problems: &mut Problems<'_>) -> Option<Values<Setting>> {
                match self {
                    $(Self::$group(axis) => axis.resolve(context, problems).map(Values::into),)*
                }
            }
        }

        /// All keys, with what their experiments are about.
        fn keys() -> impl Iterator<Item = (About, &'static str)> {
            let groups = [$((About::$about, $axis::KEYS),)*];
            groups.into_iter().flat_map(|(about, keys)| keys.iter().map(move |key| (about, *key)))
        }

        fn schemas(generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
            [$($axis::schemas(generator),)*].concat()
        }
    };
}
axes! {
    Network(NetworkAxis) for Traffic;
    Traffic(TrafficAxis) for Traffic;
    Link(LinkAxis) for Traffic;
    OneLink(OneLinkAxis) for Traffic;
    Bond(BondAxis) for Traffic;
    Service(ServiceAxis) for Traffic;
    Controllers(ControllersAxis) for Cluster;
    Load(LoadAxis) for Cluster;
}

impl<S: Into<Setting>> Values<S> {
    fn into(self) -> Values<Setting> {
        let settings = self.settings.into_iter().map(|(text, setting)| (text, setting.into())).collect();
        Values { place: self.place, settings }
    }
}

/// What changes from case to case.
#[derive(Clone, Debug)]
pub(crate) struct Vary {
    /// In the order of the file.
    pub axes: Vec<AxisText>,
    /// Whether all of it could be read.
    sound: bool,
}

impl Read for Vary {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let Value::Map(entries) = &node.value else {
            no_map(node, problems);
            return None;
        };
        let of_one_link = entries.iter().map(|entry| entry.key.as_str()).filter(|key| OneLinkAxis::is_key(key));
        let keys: Vec<&str> = keys().map(|(_, key)| key).chain(of_one_link).collect();
        let fields = Fields::open(node, &keys, problems)?;
        let (mut axes, mut sound, mut whole) = (Vec::new(), true, true);
        for entry in fields.entries() {
            if !keys.contains(&entry.key.as_str()) {
                sound = false;
            } else if let Value::Scalar(_) | Value::Map(_) = &entry.value.value {
                sound = false;
                no_list(entry, problems);
            } else if let Some(value) = value_of(entry, problems) {
                let axis = AxisText::read(&entry.key, &marked_by_key(entry, value), problems);
                sound &= axis.is_some();
                axes.extend(axis);
            } else {
                whole = false;
            }
        }
        whole.then_some(Self { axes, sound })
    }
}

/// Notes that there are no keys with values.
fn no_map(node: &Node, problems: &mut Problems<'_>) {
    // What stands there may be all but the braces: `- spread: [..]`, or the names of axes.
    let items = if let Value::List(items) = &node.value { items.as_slice() } else { std::slice::from_ref(node) };
    let axes = items.iter().filter_map(|item| match &item.value {
        Value::Map(entries) => entries.first().map(|entry| entry.key.as_str()),
        Value::Scalar(word) => Some(word.as_str()),
        _ => None,
    });
    let known: Vec<&str> = axes.filter(|axis| keys().any(|(_, key)| key == *axis)).take(2).collect();
    let axes = if known.is_empty() { vec!["spread"] } else { known };
    let axes: Vec<String> = axes.iter().map(|axis| format!("{axis}: {}", values_of(axis))).collect();
    let found = match &node.value {
        Value::List(items) => format!("found a list of {}", items.len()),
        Value::Scalar(text) => format!("found `{}`", shown(text)),
        _ => "found nothing".to_owned(),
    };
    let hint = format!("write `vary: {{ {} }}`: a key, and in brackets its values", axes.join(", "));
    problems.add(node.place, format!("expected a map of keys with their values, {found}"), found, hint);
}

/// Values as an example.
fn values_of(axis: &str) -> &'static str {
    if axis == "spread" { "[single, ecmp]" } else { "[.., ..]" }
}

/// Notes that the values of an axis are no list.
fn no_list(entry: &Entry, problems: &mut Problems<'_>) {
    let key = shown(&entry.key);
    let (found, hint) = match &entry.value.value {
        Value::Scalar(text) => {
            let text = shown(text);
            let values = if text.contains(',') { text.clone() } else { format!("{text}, ..") };
            // One value for all cases stands where the others of its section do.
            let of_all = match entry.key.as_str() {
                key if NetworkAxis::KEYS.contains(&key) => {
                    format!("; one value for all cases stands at the top of the file, `{key}: {text}`")
                }
                key if TrafficAxis::KEYS.contains(&key) && !key.contains('.') => {
                    format!("; one value for all cases stands in `traffic:`, `{key}: {text}`")
                }
                _ => String::new(),
            };
            let hint = format!("write its values in brackets, `{key}: [{values}]`{of_all}");
            (format!("`{text}`"), hint)
        }
        _ => ("a map".to_owned(), format!("write its values in brackets, `{key}: [.., ..]`")),
    };
    problems.add(
        entry.value.place,
        format!("expected a list of values, found {found}"),
        format!("found {found}"),
        hint,
    );
}

/// The values of an axis: what is wrong with all of them is shown at its key, since where a list is in several lines, its place is its bracket.
fn marked_by_key<'a>(entry: &Entry, value: &'a Node) -> Cow<'a, Node> {
    match &value.value {
        Value::List(_) => Cow::Owned(Node { place: entry.key_place, value: value.value.clone() }),
        _ => Cow::Borrowed(value),
    }
}

impl JsonSchema for Vary {
    fn schema_name() -> Cow<'static, str> {
        "Vary".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let properties: serde_json::Map<String, serde_json::Value> =
            schemas(generator).into_iter().map(|(key, schema)| (key.to_owned(), schema.into())).collect();
        let patterns: serde_json::Map<String, serde_json::Value> =
            OneLinkAxis::patterns(generator).into_iter().map(|(key, schema)| (key, schema.into())).collect();
        json_schema!({
            "type": "object",
            "additionalProperties": false,
            "properties": properties,
            "patternProperties": patterns,
            "description": "What changes from case to case.",
        })
    }
}

/// What `text` would set as a value of the axis `key`; `None` if it can't be one.
pub(crate) fn setting(key: &str, text: &str, context: &Context<'_>) -> Option<Setting> {
    // What is wrong with it is not wanted: whoever asks says that it is not among the values.
    let nothing = Source { name: String::new(), text: String::new() };
    let mut unread = Problems::new(&nothing);
    let item = Node { place: Place::default(), value: Value::Scalar(text.to_owned()) };
    let list = Node { place: Place::default(), value: Value::List(vec![item]) };
    let values = AxisText::read(key, &list, &mut unread)?.resolve(context, &mut unread)?;
    values.settings.into_iter().next().map(|(_, setting)| setting)
}

impl Vary {
    /// The axes of an experiment about this; `None`: there is a problem, which has been noted.
    pub fn resolve(&self, about: About, context: &Context<'_>, problems: &mut Problems<'_>) -> Option<Vec<Axis>> {
        let mut axes = Vec::new();
        let mut whole = self.sound;
        for text in &self.axes {
            let Some(Values { place, settings: values }) = text.resolve(context, problems) else {
                whole = false;
                continue;
            };
            let axis = Axis { key: text.key().to_owned(), values };
            whole &= check_about(place, text, about, problems);
            whole &= check_values(place, &axis, problems) && push(&mut axes, axis, place, problems);
        }
        whole.then_some(axes)
    }
}

/// Whether the axis changes something in an experiment about this.
fn check_about(place: Place, axis: &AxisText, about: About, problems: &mut Problems<'_>) -> bool {
    let fits = axis.about() == about;
    if !fits {
        let other = match about {
            About::Cluster => "is of traffic, this experiment asks the controllers",
            About::Traffic => "is of controllers, this experiment has traffic",
        };
        let own = keys().filter(|(of, _)| *of == about).map(|(_, key)| key);
        let hint = format!("vary {}", one_of(own));
        problems.add(place, format!("`{}` {other}", axis.key()), "changes nothing", hint);
    }
    fits
}

fn check_values(place: Place, axis: &Axis, problems: &mut Problems<'_>) -> bool {
    if axis.values.is_empty() {
        problems.add(
            place,
            format!("`{}` has no values", axis.key),
            "empty",
            "write at least one value, or remove the key",
        );
        return false;
    }
    let mut seen = std::collections::BTreeSet::new();
    let twice = axis.values.iter().find(|(text, _)| !seen.insert(text));
    if let Some((text, _)) = twice {
        problems.add(place, format!("`{}` is in `{}` twice", shown(text), axis.key), "twice", "remove one");
    }
    twice.is_none()
}

/// Adds an axis unless that makes too many cases.
fn push(axes: &mut Vec<Axis>, axis: Axis, place: Place, problems: &mut Problems<'_>) -> bool {
    axes.push(axis);
    let cases = axes.iter().try_fold(1_usize, |cases, axis| cases.checked_mul(axis.values.len()));
    let fits = cases.is_some_and(|cases| cases <= MOST_CASES);
    if !fits {
        problems.add(
            place,
            format!("with this axis there are more than {MOST_CASES} cases"),
            "too many combinations",
            "vary less, or make several experiments",
        );
    }
    fits
}
