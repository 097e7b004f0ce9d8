//! Values of the `requests:` block as they are written.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use workload::service::{Distribution, Share, Target, Workload, quantity};

use crate::controllers::Flag;
use crate::error::Problems;
use crate::parameters::Plain;
use crate::quantity::{Length, Whole};
use crate::read::{Fields, Read, expected, section};
use crate::tree::{Node, Value};
use crate::words::Keyword;

/// An hour in milliseconds.
const HOUR: u64 = 3_600_000;
/// A million: the most requests that a server works on, or that wait.
const MILLION: u64 = 1_000_000;

section! {
    /// What a server does with requests, as `heddle serve` has it. Faults come `from` and go `until` a time since measuring began.
    ServeText {
        /// So many requests are worked on at a time; others wait. Any number when not given.
        "at-a-time" => at_a_time: Option<Whole<1, MILLION>>,
        /// So many may wait; others are answered with 503. 1,000 when not given.
        "queue" => queue: Option<Whole<0, MILLION>>,
        /// Requests take so much memory together, as in `512MiB`; others wait. Any amount when not given.
        "memory-limit" => memory_limit: Option<MemorySize>,
        /// Whether requests for which there is no memory are answered with 503. `false` when not given.
        "refuse-memory" => refuse_memory: Option<Flag>,
        /// Memory of requests that do not say it, those of `path: /work`.
        "size" => size: Option<DrawnSize>,
        /// Duration of requests that do not say it, those of `path: /work`.
        "duration" => duration: Option<DrawnTime>,
        /// Length of the page `/`, and of what `/work` answers. Nothing when not given.
        "body" => body: Option<MemorySize>,
        /// Requests of this share fail with 500 after their work.
        "fail" => fail: Option<ShareText>,
        /// They fail with 503 at once, without work.
        "fail-fast" => fail_fast: Option<Flag>,
        /// Requests of this share are never answered.
        "hang" => hang: Option<ShareText>,
        /// Work takes so many times as long, as in `x10`.
        "slow" => slow: Option<Factor>,
        /// Faults begin then. At once when not given.
        "from" => from: Option<Length<true, HOUR>>,
        /// Faults end then. Never when not given.
        "until" => until: Option<Length<false, HOUR>>,
    }
}

impl Keyword for Workload {
    const SCHEMA: &str = "Workload";
    const WHAT: &str = "a workload";
    const ALL: &[Self] = &Self::ALL;

    fn name(self) -> &'static str {
        self.name()
    }
}

/// Scalars that the programs of a service read in the same way.
macro_rules! scalars {
    ($($(#[doc = $doc:literal])* $name:ident($value:ty): $what:literal, [$($example:literal),*], $parse:expr;)*) => { $(
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name(pub $value);

        impl Read for $name {
            fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
                let parse: fn(&str) -> Option<$value> = $parse;
                let value = if let Value::Scalar(text) = &node.value { parse(text.trim()) } else { None };
                if value.is_none() {
                    expected(node, $what, problems);
                }
                value.map(Self)
            }
        }

        impl Plain for $name {
            type Value = $value;

            fn plain(&self) -> $value {
                self.0
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "examples": [$($example),*] })
            }
        }
    )* };
}

scalars! {
    /// What sizes are drawn from, in bytes.
    DrawnSize(Distribution): "a size or what sizes are drawn from, like `8MiB`, `exp:2MiB`, `\"uniform:1MiB,4MiB\"` or `\"pareto:2MiB,1.2,256MiB\"`",
        ["8MiB", "exp:2MiB", "pareto:2MiB,1.2,256MiB"], |text| Distribution::sizes(text).ok();
    /// What times are drawn from, in nanoseconds.
    DrawnTime(Distribution): "a time or what times are drawn from, like `2ms`, `exp:2ms`, `\"uniform:1ms,3ms\"` or `\"lognormal:2ms,1.0\"`",
        ["2ms", "exp:2ms", "uniform:1ms,3ms"], |text| Distribution::durations(text).ok();
    /// An amount of memory, in bytes.
    MemorySize(u64): "an amount of memory like `512MiB`", ["512MiB"], |text| quantity::size(text).ok();
    /// A part of the requests.
    ShareText(Share): "a share like `5%`", ["5%"], |text| quantity::share(text).ok();
    /// How many times as long, in hundredths.
    Factor(u32): "a factor like `x10`", ["x10"], |text| quantity::factor(text).ok();
    /// Requests in a thousand seconds.
    RequestRate(u64): "requests a second, like `1100/s`", ["1100/s"], |text| quantity::rate(text).ok().filter(|rate| *rate > 0);
    /// What each request asks for.
    PathText(Target): "a path of `heddle serve`, like `/`, `/work`, `\"/work?size=1MiB&duration=2ms\"` or `/tree/static/1/2-5`",
        ["/work", "/"], |text| Target::parse(text).ok();
}
