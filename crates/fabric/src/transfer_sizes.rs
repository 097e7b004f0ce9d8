//! `transfers: { size: .. }`: how many bytes transfers have.
//!
//! ```yaml
//! size: 20kB
//! size: web-search
//! size: { lognormal: { median: 20kB, sigma: 1.5 } }
//! size: { cdf: [[10kB, 0.5], [100kB, 0.9], [1MB, 1]] }
//! ```

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use transport::transfers::{BYTES_MAX, NoDistribution, POINTS_MAX, Point, Sizes, WHOLE};

use crate::error::Problems;
use crate::names::did_you_mean;
use crate::parameters::Plain;
use crate::quantity::Bytes;
use crate::read::{Fields, Read, expected, section, shown};
use crate::source::{At, Place};
use crate::tree::{Node, Value};
use crate::units;

type Size = Bytes<1, { BYTES_MAX as u64 }>;

/// The mixes that the literature on data centres measures with.
const MIXES: [Mix; 2] = [("web-search", Sizes::web_search), ("data-mining", Sizes::data_mining)];

type Mix = (&'static str, fn() -> Sizes);

/// What can stand there, for messages.
const FORMS: &str = "a size like `20kB`, `web-search`, `data-mining`, `{ lognormal: { median: 20kB, sigma: 1.5 } }` or \
                     `{ cdf: [[10kB, 0.5], [1MB, 1]] }`";

section! {
    /// Sizes that are drawn.
    DrawnText {
        /// The logarithm of the size is distributed normally, cut at 3.5 standard deviations.
        "lognormal" => lognormal: Option<At<LogNormalText>>,
        /// Points of the cumulative distribution function: a size, and the share of transfers that have no more. Between two points all sizes are equally likely; the
        /// first share is that of transfers with exactly the first size, and the last is 1.
        "cdf" => cdf: Option<At<Vec<At<PointText>>>>,
    }
}

section! {
    /// Sizes whose logarithm is distributed normally.
    LogNormalText {
        /// Half of the transfers have no more.
        "median" => median: At<Size>,
        /// Standard deviation of the natural logarithm of the size, up to 4.
        "sigma" => sigma: At<Sigma>,
    }
}

/// How many bytes transfers have.
#[derive(Clone, Debug)]
pub(crate) struct SizesText(Sizes);

impl Read for SizesText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match &node.value {
            Value::Scalar(text) if text.starts_with(char::is_alphabetic) => {
                let found = MIXES.iter().find(|(name, _)| name == text);
                if found.is_none() {
                    problems.add(
                        node.place,
                        format!("there is no mix of sizes `{}`", shown(text)),
                        "unknown mix",
                        problems.hint(|| did_you_mean(text, &MIXES.map(|(name, _)| name))),
                    );
                }
                found.map(|(_, mix)| Self(mix()))
            }
            Value::Scalar(_) => Size::read(node, problems).map(|size| Self(Sizes::fixed(size.0))),
            Value::Map(_) => {
                let before = problems.noted();
                let text = DrawnText::read(node, problems)?;
                // What is wrong within it is said already.
                if problems.noted() > before { None } else { text.sizes(node.place, problems).map(Self) }
            }
            Value::List(_) | Value::Null => {
                expected(node, FORMS, problems);
                None
            }
        }
    }

    fn label(written: String) -> String {
        Size::label(written)
    }
}

impl DrawnText {
    fn sizes(&self, place: Place, problems: &mut Problems<'_>) -> Option<Sizes> {
        match (&self.lognormal, &self.cdf) {
            (Some(text), None) => Some(Sizes::log_normal(text.value.median.value.0, text.value.sigma.value.0)),
            (None, Some(points)) if points.sound => from_points(points, problems),
            (None, Some(_)) => None,
            (Some(_), Some(_)) => {
                problems.add(
                    place,
                    "sizes have one distribution",
                    "two of them",
                    "write `lognormal` or `cdf`, not both",
                );
                None
            }
            (None, None) => {
                problems.add(place, "sizes need a distribution", "none", format!("write {FORMS}"));
                None
            }
        }
    }
}

fn from_points(text: &At<Vec<At<PointText>>>, problems: &mut Problems<'_>) -> Option<Sizes> {
    let points = text.value.iter().map(|point| point.value.0).collect();
    let error = match Sizes::from_points(points) {
        Ok(sizes) => return Some(sizes),
        Err(error) => error,
    };
    let at = |place: usize| text.value.get(place).map_or(text.place, |point| point.place);
    let (place, message, hint) = match error {
        NoDistribution::Empty => {
            (text.place, "a distribution needs a point".to_owned(), "write points like `[1MB, 1]`")
        }
        NoDistribution::TooMany => {
            (text.place, format!("these are more than {POINTS_MAX} points"), "leave out what lies on a straight line")
        }
        NoDistribution::Size(point) => (at(point), "this size cannot be".to_owned(), "write a size like `20kB`"),
        NoDistribution::SizeFalls(point) => {
            (at(point), "this size is smaller than the one before".to_owned(), "begin with the smallest size")
        }
        NoDistribution::ShareFalls(point) => (
            at(point),
            "this share is smaller than the one before".to_owned(),
            "a share is that of all transfers up to this size: it cannot fall",
        ),
        NoDistribution::NotWhole => (
            at(text.value.len().saturating_sub(1)),
            "the last share is not 1, so some transfers have no size".to_owned(),
            "end with the largest size and the share 1",
        ),
    };
    problems.add(place, message, "not a distribution", hint);
    None
}

impl Plain for SizesText {
    type Value = Sizes;

    fn plain(&self) -> Sizes {
        self.0.clone()
    }
}

impl JsonSchema for SizesText {
    fn schema_name() -> Cow<'static, str> {
        "TransferSizes".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let size = generator.subschema_for::<Size>();
        let drawn = generator.subschema_for::<DrawnText>();
        json_schema!({ "anyOf": [{ "enum": MIXES.map(|(name, _)| name) }, size, drawn] })
    }
}

/// `[10kB, 0.5]`
#[derive(Clone, Copy, Debug)]
pub(crate) struct PointText(Point);

impl Read for PointText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let Value::List(items) = &node.value else {
            expected(node, "a point like `[10kB, 0.5]`", problems);
            return None;
        };
        let [size, share] = &items[..] else {
            expected(node, "a point like `[10kB, 0.5]`", problems);
            return None;
        };
        let (size, share) = (Size::read(size, problems), thousand_millionths(share, problems));
        Some(Self(Point { bytes: size?.0, share: share? }))
    }
}

impl JsonSchema for PointText {
    fn schema_name() -> Cow<'static, str> {
        "CdfPoint".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let size = generator.subschema_for::<Size>();
        let share = json_schema!({ "anyOf": [
            { "type": "number", "minimum": 0, "maximum": 1 },
            { "type": "string", "pattern": "^[0-9.]+ ?%$" },
        ]});
        json_schema!({ "type": "array", "items": [size, share], "minItems": 2, "maxItems": 2 })
    }
}

/// A share of 0 to 1, or in per cent, in parts of [`WHOLE`].
fn thousand_millionths(node: &Node, problems: &mut Problems<'_>) -> Option<u32> {
    let number = match &node.value {
        Value::Scalar(text) => units::share(text).or_else(|_| units::thousand_millionths(text)).ok(),
        _ => None,
    };
    let share = number.filter(|share| *share <= u64::from(WHOLE));
    if share.is_none() {
        expected(node, "a share from 0 to 1 like `0.5` or `50%`", problems);
    }
    share.map(|share| share as u32)
}

/// A number with up to three decimals, in thousandths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sigma(u32);

impl Sigma {
    /// Beyond it, sizes are all as small or as large as can be.
    const MOST: u64 = 4_000;
}

impl Read for Sigma {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let number = match &node.value {
            Value::Scalar(text) => units::thousandths(text).ok().filter(|number| *number <= Self::MOST),
            _ => None,
        };
        if number.is_none() {
            expected(node, "a number from 0 to 4 like `1.5`", problems);
        }
        number.map(|number| Self(number as u32))
    }
}

impl JsonSchema for Sigma {
    fn schema_name() -> Cow<'static, str> {
        "Sigma".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "maximum": 4 })
    }
}
