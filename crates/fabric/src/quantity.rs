//! Numbers and numbers with units, within their bounds.

use machine::Span;
use vswitch::port::StormLimit;

use crate::error::Problems;
use crate::parameters::Plain;
use crate::read::{Read, expected, shown};
use crate::tree::{Node, Value};
use crate::units::{self, Fault};

/// A text that is written from its value as people write it.
pub(crate) trait WrittenBack: Plain {
    fn written(value: Self::Value) -> String;
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
        let value = whole_number(node, (MIN, MAX), problems)?;
        in_range(value, MIN, MAX, "", node, problems).then_some(Self(value))
    }
}

impl<const MIN: u64, const MAX: u64> Plain for Whole<MIN, MAX> {
    type Value = u32;

    fn plain(&self) -> u32 {
        self.get()
    }
}

impl<const MIN: u64, const MAX: u64> WrittenBack for Whole<MIN, MAX> {
    fn written(value: u32) -> String {
        value.to_string()
    }
}

/// A whole number, of any size that fits 64 bits; the bounds are only named where it does not fit.
pub(crate) fn whole_number(node: &Node, (min, max): (u64, u64), problems: &mut Problems<'_>) -> Option<u64> {
    let Value::Scalar(text) = &node.value else {
        expected(node, "a whole number, not negative", problems);
        return None;
    };
    let number = units::whole(text);
    if number.is_none() && units::is_too_large(text) {
        out_of_range(&shown(text), (min, max), "", ("too large", max), node, problems);
    } else if number.is_none() {
        expected(node, "a whole number, not negative", problems);
    }
    number
}

/// Whether `value` is within its bounds; notes it if not.
pub(crate) fn in_range(value: u64, min: u64, max: u64, unit: &str, node: &Node, problems: &mut Problems<'_>) -> bool {
    let fits = (min..=max).contains(&value);
    if !fits {
        let bound = if value < min { ("too small", min) } else { ("too large", max) };
        out_of_range(&value.to_string(), (min, max), unit, bound, node, problems);
    }
    fits
}

fn out_of_range(
    found: &str,
    (min, max): (u64, u64),
    unit: &str,
    (label, bound): (&str, u64),
    node: &Node,
    problems: &mut Problems<'_>,
) {
    let end = if label == "too small" { "least" } else { "most" };
    problems.add(
        node.place,
        format!("expected a number from {min} to {max}{unit}, found {found}{unit}"),
        label,
        format!("{bound}{unit} is the {end}"),
    );
}

/// A rate in bits a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate(pub u64);

/// The units of rates.
const RATE_UNITS: &[&str] = &["bit", "kbit", "Mbit", "Gbit", "Tbit"];

/// The highest rate, bits a second.
const FASTEST_BPS: u64 = 100_000_000_000_000;

impl Read for Rate {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let rate = quantity(node, units::rate, "a rate like `1Gbit` or `2.5 Mbit/s`", RATE_UNITS, problems)?;
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

impl Plain for Rate {
    type Value = u64;

    fn plain(&self) -> u64 {
        self.0
    }
}

impl WrittenBack for Rate {
    fn written(value: u64) -> String {
        units::in_thousands(value, "bit", RATE_UNITS) + "bit"
    }
}

/// A rate in packets a second, or in bits of their payload.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PacketRate {
    Packets(u64),
    Bits(u64),
}

impl PacketRate {
    /// The highest: one a microsecond.
    pub const FASTEST_PPS: u64 = 1_000_000;

    /// In packets a second, each with so many bytes of payload: one at least.
    pub fn pps(self, payload_bytes: u32) -> u64 {
        match self {
            Self::Packets(pps) => pps,
            Self::Bits(bps) => (bps / (8 * u64::from(payload_bytes.max(1)))).max(1),
        }
    }
}

impl Read for PacketRate {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let read = |text: &str| match units::packet_rate(text) {
            Ok(packets) => Ok(Self::Packets(packets)),
            Err(Fault::Unit) => units::rate(text).map(Self::Bits),
            Err(fault) => Err(fault),
        };
        let what = "a rate of packets like `500 pps`, or of their payload like `10 Mbit/s`";
        let rate = quantity(node, read, what, &["pps", "kpps", "Mpps", "kbit", "Mbit", "Gbit"], problems)?;
        let (value, most, unit) = match rate {
            Self::Packets(packets) => (packets, Self::FASTEST_PPS, " pps"),
            Self::Bits(bits) => (bits, FASTEST_BPS, " bit/s"),
        };
        in_range(value, 1, most, unit, node, problems).then_some(rate)
    }
}

/// How much of what is for everybody may come in: frames or bits a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StormRate(pub StormLimit);

impl StormRate {
    /// The most frames a second: more than any port takes.
    const MOST_FRAMES: u64 = 1_000_000_000;
}

impl Read for StormRate {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let read = |text: &str| match units::frame_rate(text) {
            Ok(frames) => Ok(StormLimit::FramesPerSecond(frames)),
            Err(Fault::Unit) => units::rate(text).map(StormLimit::BitsPerSecond),
            Err(fault) => Err(fault),
        };
        let known = &["/s", "pps", "kpps", "Mpps", "kbit", "Mbit", "Gbit"];
        let limit = quantity(node, read, "frames or bits a second, like `1000/s` or `10 Mbit/s`", known, problems)?;
        let (value, most, unit) = match limit {
            StormLimit::FramesPerSecond(frames) => (frames, Self::MOST_FRAMES, "/s"),
            StormLimit::BitsPerSecond(bits) => (bits, FASTEST_BPS, " bit/s"),
        };
        in_range(value, 1, most, unit, node, problems).then_some(Self(limit))
    }
}

/// A length of time of at most `MAX_MS`; zero only if `ZERO`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Length<const ZERO: bool, const MAX_MS: u64>(pub Span);

impl<const ZERO: bool, const MAX_MS: u64> Read for Length<ZERO, MAX_MS> {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let known = &["ps", "ns", "us", "ms", "s", "min"];
        let span = quantity(node, units::span, "a time like `50us` or `1.5ms`", known, problems)?;
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

impl<const ZERO: bool, const MAX_MS: u64> Plain for Length<ZERO, MAX_MS> {
    type Value = Span;

    fn plain(&self) -> Span {
        self.0
    }
}

impl<const ZERO: bool, const MAX_MS: u64> WrittenBack for Length<ZERO, MAX_MS> {
    fn written(value: Span) -> String {
        value.to_string()
    }
}

/// A size in bytes, with or without its unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<const MIN: u64, const MAX: u64>(pub u32);

impl<const MIN: u64, const MAX: u64> Read for Bytes<MIN, MAX> {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let read = |text: &str| units::whole(text).map_or_else(|| units::size(text), Ok);
        let what = "a size like `1448B` or `9KiB`";
        let size = quantity(node, read, what, &["B", "kB", "KiB", "MB", "MiB"], problems)?;
        in_range(size, MIN, MAX, " B", node, problems).then_some(Self(size as u32))
    }

    fn label(written: String) -> String {
        if units::whole(&written).is_some() { written + "B" } else { written }
    }
}

impl<const MIN: u64, const MAX: u64> Plain for Bytes<MIN, MAX> {
    type Value = u32;

    fn plain(&self) -> u32 {
        self.0
    }
}

impl<const MIN: u64, const MAX: u64> WrittenBack for Bytes<MIN, MAX> {
    fn written(value: u32) -> String {
        format!("{value}B")
    }
}

/// A share, in parts of a thousand million: `0.1%` is a million of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Percent(pub u32);

impl Read for Percent {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        let ppb = quantity(node, units::share, "a share like `0.1%`", &["%"], problems)?;
        if ppb > 1_000_000_000 {
            problems.add(node.place, "this share is more than all", "too large", "at most 100%");
            return None;
        }
        Some(Self(ppb as u32))
    }
}

impl Plain for Percent {
    type Value = u32;

    fn plain(&self) -> u32 {
        self.0
    }
}

impl WrittenBack for Percent {
    fn written(value: u32) -> String {
        format!("{}%", f64::from(value) / 1e7)
    }
}

/// What else a number below one may have been meant for, where shares are in per cent.
fn in_percent(text: &str) -> String {
    match text.trim().parse::<f64>() {
        Ok(share) if share > 0.0 && share < 1.0 => {
            let percent = format!("{:.6}", share * 100.0);
            format!(", or `{}%` if it is meant as a share of one", percent.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => String::new(),
    }
}

/// Reads a number with a unit; tells apart what can be wrong with it.
pub(crate) fn quantity<T>(
    node: &Node,
    parse: impl Fn(&str) -> Result<T, Fault>,
    what: &str,
    units: &[&str],
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
            let meant = units::meant(text, units).filter(|meant| parse(meant).is_ok());
            let hint = match (meant, units) {
                // There is but one unit.
                (None, [only]) if unit.is_empty() => {
                    format!("write `{}{only}`{}", shown(text.trim()), in_percent(text))
                }
                (None, _) => format!("the units are {}", units.join(", ")),
                (Some(meant), _) => format!("write `{}`; the units are {}", shown(&meant), units.join(", ")),
            };
            problems.add(node.place, message, format!("expected {what}"), hint);
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
