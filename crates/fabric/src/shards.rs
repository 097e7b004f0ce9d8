//! How the data tree is cut into shards, as it is written.

use std::borrow::Cow;
use std::collections::BTreeSet;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::controllers::Nodes;
use crate::error::Problems;
use crate::parameters::Plain;
use crate::read::{Fields, Name, Read, expected, section, shown};
use crate::source::{At, Place};
use crate::tree::{Node, Value};
use crate::{Replicas, ShardPlan, ShardSpec};

/// The most shards of one list.
const MOST_SHARDS: usize = 64;

section! {
    /// One shard of the data tree.
    ShardText {
        /// Its name. `default` is the shard of what no other one claims; only its `replicas` can be set.
        "name" => name: At<Name>,
        /// YANG modules that are wholly in it.
        "modules" => modules: Option<Vec<At<Module>>>,
        /// Subtrees that are in it, like `/car:cars/car-entry=17`.
        "prefixes" => prefixes: Option<Vec<At<Prefix>>>,
        /// Which nodes hold it: `all` (when not given), how many, or a list of them.
        "replicas" => replicas: Option<ReplicasText>,
    }
}

/// How the data tree is cut, checked.
#[derive(Clone, Debug)]
pub(crate) struct ShardsText(pub ShardPlan);

impl Read for ShardsText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match &node.value {
            Value::Scalar(text) if text == "single" => Some(Self(ShardPlan::Single)),
            Value::Scalar(text) if text == "distributed" => Some(Self(ShardPlan::Distributed)),
            Value::List(items) if items.is_empty() || items.len() > MOST_SHARDS => {
                let count = items.len();
                problems.add(
                    node.place,
                    format!("expected 1 to {MOST_SHARDS} shards, found {count}"),
                    if count == 0 { "empty" } else { "too many" },
                    "write `single` for one shard of everything, `distributed` for one a module",
                );
                None
            }
            Value::List(_) => {
                let list: At<Vec<At<ShardText>>> = At::read(node, problems)?;
                let shards = list.sound.then(|| listed(&list.value, problems))??;
                Some(Self(ShardPlan::List(shards)))
            }
            _ => {
                expected(node, "`single`, `distributed`, or a list of shards", problems);
                None
            }
        }
    }
}

impl Plain for ShardsText {
    type Value = ShardPlan;

    fn plain(&self) -> ShardPlan {
        self.0.clone()
    }
}

impl JsonSchema for ShardsText {
    fn schema_name() -> Cow<'static, str> {
        "Shards".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "string", "enum": ["single", "distributed"] },
            { "type": "array", "items": generator.subschema_for::<ShardText>(), "minItems": 1, "maxItems": MOST_SHARDS },
        ] })
    }
}

/// Holds the shards of a list against each other.
fn listed(list: &[At<ShardText>], problems: &mut Problems<'_>) -> Option<Vec<ShardSpec>> {
    let before = problems.noted();
    let (mut names, mut claims) = (BTreeSet::new(), BTreeSet::new());
    let mut shards = Vec::new();
    for At { value: text, place, .. } in list {
        let name = &text.name;
        once(&mut names, &name.value.0, name.place, "a shard's name", problems);
        for module in text.modules.iter().flatten() {
            once(&mut claims, &module.value.0, module.place, "a module", problems);
        }
        for prefix in text.prefixes.iter().flatten() {
            once(&mut claims, &prefix.value.0, prefix.place, "a prefix", problems);
        }
        let modules: Vec<String> = text.modules.iter().flatten().map(|module| module.value.0.clone()).collect();
        let prefixes: Vec<String> = text.prefixes.iter().flatten().map(|prefix| prefix.value.0.clone()).collect();
        check_claims(&name.value.0, modules.is_empty() && prefixes.is_empty(), *place, problems);
        let replicas = text.replicas.clone().map_or_else(Replicas::default, |replicas| replicas.0);
        shards.push(ShardSpec { name: name.value.0.clone(), modules, prefixes, replicas });
    }
    (problems.noted() == before).then_some(shards)
}

fn once<'a>(seen: &mut BTreeSet<&'a str>, text: &'a str, place: Place, what: &str, problems: &mut Problems<'_>) {
    if !seen.insert(text) {
        problems.add(
            place,
            format!("`{}` is there twice", shown(text)),
            "the second one",
            format!("{what} stands in one shard only; remove or rename one"),
        );
    }
}

fn check_claims(name: &str, none: bool, place: Place, problems: &mut Problems<'_>) {
    match (name, none) {
        ("meta", _) => problems.add(
            place,
            "`meta` is the name of the shard that knows all others",
            "taken",
            "give it another name",
        ),
        ("default", false) => problems.add(
            place,
            "`default` holds what no other shard claims, and claims nothing itself",
            "with modules or prefixes",
            "write `{ name: default, replicas: .. }`, or give it another name",
        ),
        ("default", true) | (_, false) => {}
        (_, true) => problems.add(
            place,
            format!("nothing would be in the shard `{name}`"),
            "claims nothing",
            "add `modules: [car]` or `prefixes: [/car:cars]`",
        ),
    }
}

/// A YANG module's name (RFC 7950, section 6.2: an identifier).
#[derive(Clone, Debug)]
pub(crate) struct Module(pub String);

const LONGEST_IDENTIFIER: usize = 64;

fn is_identifier(text: &str) -> bool {
    text.len() <= LONGEST_IDENTIFIER
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
}

impl Read for Module {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match &node.value {
            Value::Scalar(text) if is_identifier(text) => Some(Self(text.clone())),
            _ => {
                expected(node, "a YANG module's name like `car`", problems);
                None
            }
        }
    }
}

impl JsonSchema for Module {
    fn schema_name() -> Cow<'static, str> {
        "Module".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_.-]{0,63}$" })
    }
}

/// A subtree of the data: `/car:cars/car-entry=17` (RFC 8040, section 3.5.3).
#[derive(Clone, Debug)]
pub(crate) struct Prefix(pub String);

const LONGEST_PREFIX: usize = 512;

/// The first step names its module, later ones may; a list's step may have keys.
fn is_prefix(text: &str) -> bool {
    let Some(steps) = text.strip_prefix('/') else { return false };
    let is_step = |(i, step): (usize, &str)| {
        let (name, keys) = step.split_once('=').map_or((step, None), |(name, keys)| (name, Some(keys)));
        let named = match name.split_once(':') {
            Some((module, name)) => is_identifier(module) && is_identifier(name),
            None => i > 0 && is_identifier(name),
        };
        named && keys.is_none_or(|keys| !keys.is_empty() && keys.chars().all(|c| c.is_ascii_graphic() && c != '='))
    };
    text.len() <= LONGEST_PREFIX && steps.split('/').enumerate().all(is_step)
}

impl Read for Prefix {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match &node.value {
            Value::Scalar(text) if is_prefix(text) => Some(Self(text.clone())),
            _ => {
                expected(node, "a path like `/car:cars/car-entry=17`", problems);
                None
            }
        }
    }
}

impl JsonSchema for Prefix {
    fn schema_name() -> Cow<'static, str> {
        "Prefix".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let step = "[A-Za-z_][A-Za-z0-9_.-]*";
        let keys = "(=[^/=\\s]+)?";
        json_schema!({
            "type": "string",
            "pattern": format!("^/{step}:{step}{keys}(/({step}:)?{step}{keys})*$"),
            "maxLength": LONGEST_PREFIX,
        })
    }
}

/// Which nodes hold a shard: `all`, how many, or a list of them.
#[derive(Clone, Debug)]
pub(crate) struct ReplicasText(pub Replicas);

impl Read for ReplicasText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match &node.value {
            Value::Scalar(text) if text == "all" => Some(Self(Replicas::All)),
            Value::Scalar(text) if text.starts_with(|c: char| c.is_ascii_digit()) => {
                Nodes::read(node, problems).map(|count| Self(Replicas::Count(count.get())))
            }
            Value::List(items) if !items.is_empty() => nodes(node, problems).map(|nodes| Self(Replicas::Nodes(nodes))),
            _ => {
                expected(node, "`all`, a number of nodes, or a list like `[1, 2, 3]`", problems);
                None
            }
        }
    }
}

/// A list of nodes, each once, in rising order.
pub(crate) fn nodes(node: &Node, problems: &mut Problems<'_>) -> Option<Vec<u32>> {
    let list: At<Vec<At<Nodes>>> = At::read(node, problems)?;
    let mut seen = BTreeSet::new();
    for At { value, place, .. } in &list.value {
        if !seen.insert(value.get()) {
            let number = value.get();
            problems.add(*place, format!("node {number} is there twice"), "the second one", "remove one");
            return None;
        }
    }
    list.sound.then(|| seen.into_iter().collect())
}

impl JsonSchema for ReplicasText {
    fn schema_name() -> Cow<'static, str> {
        "Replicas".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "const": "all" },
            generator.subschema_for::<Nodes>(),
            { "type": "array", "items": generator.subschema_for::<Nodes>(), "minItems": 1, "uniqueItems": true },
        ] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_paths_of_data() {
        for good in ["/car:cars", "/car:cars/car-entry=17", "/a:b/c:d=x,y/e", "/car:cars/car-entry=%2F"] {
            assert!(is_prefix(good), "{good}");
        }
        let long = format!("/a:{}", "x".repeat(600));
        for bad in ["", "/", "car:cars", "/cars", "/car:cars/", "//a:b", "/car:cars/e=", "/car:", "/a:b=c d", &long] {
            assert!(!is_prefix(bad), "{bad}");
        }
    }
}
