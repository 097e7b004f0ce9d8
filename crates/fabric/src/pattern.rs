//! A traffic pattern as written: `stride(8)`, `staggered(0.5, 0.3)`, `pairs: [[h1, h2]]`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::document::NamePair;
use crate::error::Problems;
use crate::names::did_you_mean;
use crate::read::{Read, expected, shown};
use crate::source::At;
use crate::tree::{Node, Value};

const WORDS: [&str; 7] = ["random", "stride", "staggered", "permutation", "incast", "all-to-all", "pairs"];
const WHAT: &str = "a pattern: `random`, `stride(i)`, `staggered(p, q)`, `permutation`, `incast(n)`, `all-to-all` or `pairs: [[h1, h2]]`";
/// The most pairs of one pattern.
const MOST_PAIRS: usize = 50_000;

/// A pattern whose hosts are still names.
#[derive(Clone, Debug)]
pub(crate) enum PatternText {
    Random,
    Stride(u32),
    Staggered(f64, f64),
    Permutation,
    Incast(u32),
    AllToAll,
    Pairs(Vec<At<NamePair>>),
}

impl Read for PatternText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match &node.value {
            Value::Scalar(text) => {
                let pattern = call(text);
                if let Err((message, hint)) = &pattern {
                    problems.add(node.place, message, "this pattern", hint);
                }
                pattern.ok()
            }
            Value::Map(entries) if entries.len() == 1 && entries[0].key == "pairs" => {
                pairs(&entries[0].value, problems)
            }
            _ => {
                expected(node, WHAT, problems);
                None
            }
        }
    }
}

fn pairs(node: &Node, problems: &mut Problems<'_>) -> Option<PatternText> {
    let pairs: Vec<At<NamePair>> = Vec::read(node, problems)?;
    if pairs.len() > MOST_PAIRS {
        problems.add(
            node.place,
            format!("{} pairs are more than {MOST_PAIRS}", pairs.len()),
            "too many",
            "use `all-to-all` or `random`",
        );
        return None;
    }
    if matches!(&node.value, Value::List(items) if items.is_empty()) {
        problems.add(node.place, "no pairs: nobody would talk", "empty", "write `pairs: [[h1, h2]]`");
        return None;
    }
    Some(PatternText::Pairs(pairs))
}

/// `name` or `name(argument, ..)`. The error is a message and a hint.
fn call(text: &str) -> Result<PatternText, (String, String)> {
    let text = text.trim();
    let (name, arguments) = match text.split_once('(') {
        None => (text, Vec::new()),
        Some((name, rest)) => {
            let inner = rest.strip_suffix(')').ok_or_else(|| unclosed(text))?;
            let inner = inner.trim();
            let arguments = if inner.is_empty() { Vec::new() } else { inner.split(',').map(str::trim).collect() };
            (name.trim(), arguments)
        }
    };
    match (name, arguments.as_slice()) {
        ("random", []) => Ok(PatternText::Random),
        ("permutation", []) => Ok(PatternText::Permutation),
        ("all-to-all", []) => Ok(PatternText::AllToAll),
        ("stride", [i]) => count(i, text).map(PatternText::Stride),
        ("incast", [n]) => count(n, text).map(PatternText::Incast),
        ("staggered", [p, q]) => {
            let (p, q) = (probability(p, text)?, probability(q, text)?);
            if p + q > 1.0 + 1e-9 {
                return Err((
                    format!("`{}`: the two probabilities add up to more than 1", shown(text)),
                    "the rest, 1 - p - q, goes to other pods".to_owned(),
                ));
            }
            Ok(PatternText::Staggered(p, q))
        }
        (known, _) if WORDS.contains(&known) => {
            Err((format!("`{}` is not how this pattern is written", shown(text)), form(known)))
        }
        _ => Err((format!("`{}` is not a pattern", shown(text)), did_you_mean(name, &WORDS))),
    }
}

fn unclosed(text: &str) -> (String, String) {
    (
        format!("`{}` has no closing bracket", shown(text)),
        "a value with a comma needs quotes between [ ] or { }: \"staggered(0.5, 0.3)\"".to_owned(),
    )
}

fn form(name: &str) -> String {
    match name {
        "stride" => "write `stride(i)`: host x sends to host x + i".to_owned(),
        "incast" => "write `incast(n)`: the first host receives from n others".to_owned(),
        "staggered" => "write `staggered(p, q)`: p under the same edge switch, q in the same pod".to_owned(),
        "pairs" => "write `pattern: { pairs: [[h1, h2]] }`".to_owned(),
        _ => format!("write `{name}`, without arguments"),
    }
}

fn count(argument: &str, text: &str) -> Result<u32, (String, String)> {
    let number = argument.parse().map_err(|_| {
        (
            format!("`{}` in `{}` is not a whole number", shown(argument), shown(text)),
            "write a whole number from 1".to_owned(),
        )
    })?;
    match number {
        0 => Err((
            format!("`{}`: zero would make hosts talk to themselves or to nobody", shown(text)),
            "write a whole number from 1".to_owned(),
        )),
        _ => Ok(number),
    }
}

fn probability(argument: &str, text: &str) -> Result<f64, (String, String)> {
    argument.parse().ok().filter(|p| (0.0..=1.0).contains(p)).ok_or_else(|| {
        (
            format!("`{}` in `{}` is not a probability", shown(argument), shown(text)),
            "write numbers from 0 to 1, like staggered(0.5, 0.3)".to_owned(),
        )
    })
}

impl JsonSchema for PatternText {
    fn schema_name() -> Cow<'static, str> {
        "Pattern".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Pairs of hosts.",
            "anyOf": [
                {
                    "type": "string",
                    "pattern": "^(random|permutation|all-to-all|(stride|incast)\\( *[0-9]+ *\\)|staggered\\( *[0-9.]+ *, *[0-9.]+ *\\))$",
                    "examples": ["random", "stride(8)", "staggered(0.5, 0.3)", "permutation", "incast(8)", "all-to-all"],
                },
                {
                    "type": "object",
                    "properties": { "pairs": { "type": "array", "minItems": 1, "items": generator.subschema_for::<NamePair>() } },
                    "required": ["pairs"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}
