//! How often each case of an experiment is run: so many times, or until its mean is known well enough.
//!
//! ```yaml
//! repeat: 10
//! repeat: { until: 5 %, at-most: 30, of: goodput-mean, at-least: 5 }
//! ```

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::error::Problems;
use crate::expect::is_measured;
use crate::quantity::{Percent, Whole};
use crate::read::{Fields, Read, expected, section};
use crate::source::At;
use crate::tree::{Node, Value};
use crate::{Metric, Until, Work};

/// The most runs of a case.
const MOST: u64 = 1_000;
/// With fewer runs, an interval is often narrow by chance.
const USUAL_LEAST: u32 = 5;

type Times = Whole<1, MOST>;
/// One run has no interval.
type Bounds = Whole<2, MOST>;

section! {
    /// Until the mean is known well enough.
    UntilText {
        /// How narrow the 99 % confidence interval of the mean has to be: half its width, as a share of the mean.
        "until" => until: At<Percent>,
        /// There are no more runs than this, however wide the interval still is.
        "at-most" => at_most: At<Bounds>,
        /// There are no fewer. 5 when not given.
        "at-least" => at_least: Option<At<Bounds>>,
        /// Of which metric. The first that the table shows when not given.
        "of" => of: Option<At<Metric>>,
    }
}

/// The runs of each case as written.
#[derive(Clone, Debug)]
pub(crate) enum RepeatText {
    Times(Times),
    Until(Box<UntilText>),
}

impl Read for RepeatText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match node.value {
            Value::Map(_) => UntilText::read(node, problems).map(|text| Self::Until(Box::new(text))),
            Value::Scalar(_) => Times::read(node, problems).map(Self::Times),
            Value::List(_) | Value::Null => {
                expected(node, "a number of runs, or `{ until: 5 %, at-most: 30 }`", problems);
                None
            }
        }
    }
}

impl JsonSchema for RepeatText {
    fn schema_name() -> Cow<'static, str> {
        "Repeat".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let choices = [generator.subschema_for::<Times>(), generator.subschema_for::<UntilText>()];
        schemars::json_schema!({ "anyOf": choices })
    }
}

/// How many runs a case has at most, and what ends them before. Notes what is wrong with it.
pub(crate) fn check(text: Option<&At<RepeatText>>, work: &Work, problems: &mut Problems<'_>) -> (u32, Option<Until>) {
    let text = match text.map(|text| &text.value) {
        None => return (1, None),
        Some(RepeatText::Times(times)) => return (times.get(), None),
        Some(RepeatText::Until(text)) => text,
    };
    let (at_most, share) = (text.at_most.value.get(), text.until.value.0);
    if share == 0 {
        problems.add(text.until.place, "no interval is as narrow as that", "zero", "write a share like `5 %`");
    }
    let at_least = text.at_least.as_ref().map_or(USUAL_LEAST.min(at_most), |least| least.value.get());
    if let Some(least) = text.at_least.as_ref().filter(|least| least.value.get() > at_most) {
        problems.add(
            least.place,
            format!("{at_least} runs at least are more than {at_most} at most"),
            "more than `at-most`",
            format!("write a number up to {at_most}"),
        );
    }
    let of = text.of.as_ref().filter(|metric| is_measured(metric, work, problems)).map(|metric| metric.value);
    (at_most, Some(Until { share: f64::from(share) * 1e-9, of, at_least }))
}
