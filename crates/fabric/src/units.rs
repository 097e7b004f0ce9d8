//! Quantities as people write them: `2.5 Gbit/s`, `50us`, `1000B`.

use machine::Span;

/// What is wrong with a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It doesn't start with a number.
    Number,
    /// The unit is missing or unknown.
    Unit,
    /// It isn't a whole number of the smallest unit, or too large for 64 bits.
    Range,
}

/// Bits a second and its multiples. `b` is a bit everywhere in networks.
pub(crate) const RATES: &[(&str, u128)] = &[
    ("bit", 1),
    ("kbit", 1_000),
    ("Kbit", 1_000),
    ("Mbit", 1_000_000),
    ("Gbit", 1_000_000_000),
    ("Tbit", 1_000_000_000_000),
    // As `tc` has them.
    ("mbit", 1_000_000),
    ("gbit", 1_000_000_000),
    ("tbit", 1_000_000_000_000),
    ("b", 1),
    ("kb", 1_000),
    ("Kb", 1_000),
    ("Mb", 1_000_000),
    ("Gb", 1_000_000_000),
    ("Tb", 1_000_000_000_000),
];

/// Picoseconds and their multiples.
pub(crate) const SPANS: &[(&str, u128)] = &[
    ("ps", 1),
    ("ns", 1_000),
    ("us", 1_000_000),
    // The micro sign, and the Greek letter.
    ("\u{b5}s", 1_000_000),
    ("\u{3bc}s", 1_000_000),
    ("ms", 1_000_000_000),
    ("s", 1_000_000_000_000),
    ("min", 60_000_000_000_000),
];

/// Bytes and their multiples.
pub(crate) const SIZES: &[(&str, u128)] =
    &[("B", 1), ("kB", 1_000), ("KB", 1_000), ("KiB", 1_024), ("MB", 1_000_000), ("MiB", 1_048_576)];

/// Bytes of memory.
const MEMORY: &[(&str, u128)] = &[
    ("MB", 1_000_000),
    ("M", 1_048_576),
    ("MiB", 1_048_576),
    ("GB", 1_000_000_000),
    ("G", 1_073_741_824),
    ("GiB", 1_073_741_824),
];

/// What a hundredth is, where a thousand million are the whole.
const PERCENT: &[(&str, u128)] = &[("%", 10_000_000)];

/// A share, of a thousand million.
pub(crate) fn share(text: &str) -> Result<u64, Fault> {
    if text.trim() == "0" { Ok(0) } else { quantity(text, PERCENT) }
}

/// A number without a unit, of which one is a thousand million.
pub(crate) fn thousand_millionths(text: &str) -> Result<u64, Fault> {
    quantity(text, &[("", 1_000_000_000)])
}

/// A number without a unit, in thousandths.
pub(crate) fn thousandths(text: &str) -> Result<u64, Fault> {
    quantity(text, &[("", 1_000)])
}

/// A rate in bits a second.
pub(crate) fn rate(text: &str) -> Result<u64, Fault> {
    quantity(without_second(text), RATES)
}

/// A rate without the second that it is in.
fn without_second(text: &str) -> &str {
    let text = text.trim();
    text.strip_suffix("/s").or_else(|| text.strip_suffix("ps")).unwrap_or(text)
}

/// What others write, and what it is here: units of rates, times, sizes and packet rates.
const OTHERS_UNITS: &[(&str, &str)] = &[
    ("k", "kbit"),
    ("K", "kbit"),
    ("M", "Mbit"),
    ("G", "Gbit"),
    ("T", "Tbit"),
    ("Mbits", "Mbit"),
    ("Gbits", "Gbit"),
    ("kbits", "kbit"),
    ("mbits", "Mbit"),
    ("gbits", "Gbit"),
    ("mb", "Mbit"),
    ("gb", "Gbit"),
    ("m", "Mbit"),
    ("g", "Gbit"),
    ("sec", "s"),
    ("secs", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("msec", "ms"),
    ("usec", "us"),
    ("nsec", "ns"),
    ("m", "min"),
    ("mins", "min"),
    ("minute", "min"),
    ("minutes", "min"),
    ("byte", "B"),
    ("bytes", "B"),
    ("k", "kB"),
    ("K", "kB"),
    ("M", "MB"),
    ("packets/s", "pps"),
    ("p/s", "pps"),
    ("/s", "pps"),
    ("k/s", "kpps"),
];

/// Units that are so many bits, bytes or seconds, and none of those that are read.
const OTHERS_AMOUNTS: &[(&str, &str, u128)] = &[
    ("Kib", "bit", 1_024),
    ("Kibit", "bit", 1_024),
    ("Mib", "bit", 1_048_576),
    ("Mibit", "bit", 1_048_576),
    ("Gib", "bit", 1_073_741_824),
    ("Gibit", "bit", 1_073_741_824),
    ("B", "bit", 8),
    ("kB", "bit", 8_000),
    ("KB", "bit", 8_000),
    ("MB", "bit", 8_000_000),
    ("GB", "bit", 8_000_000_000),
    ("MiB", "bit", 8_388_608),
    ("GiB", "bit", 8_589_934_592),
    ("h", "s", 3_600),
    ("hour", "s", 3_600),
    ("hours", "s", 3_600),
    ("d", "s", 86_400),
    ("GB", "B", 1_000_000_000),
    ("GiB", "B", 1_073_741_824),
];

/// How a quantity with an unknown unit is written with one of these, if it is known what it means.
pub(crate) fn meant(text: &str, units: &[&str]) -> Option<String> {
    let is_rate = units.contains(&"bit");
    let text = if is_rate { without_second(text) } else { text.trim() };
    let end = text.find(|c: char| !c.is_ascii_digit() && !"._".contains(c)).unwrap_or(text.len());
    let (number, unit) = (text[..end].trim(), text[end..].trim());
    if number.is_empty() || unit.is_empty() {
        return None;
    }
    let same = |known: &&&str| known.eq_ignore_ascii_case(unit);
    let words = || {
        let others = OTHERS_UNITS.iter().filter(|(other, _)| *other == unit);
        others.map(|(_, here)| *here).find(|here| units.contains(here))
    };
    if let Some(unit) = units.iter().find(same).copied().or_else(words) {
        return Some(format!("{number}{unit}"));
    }
    let (_, unit, many) = OTHERS_AMOUNTS.iter().find(|(other, here, _)| *other == unit && units.contains(here))?;
    let whole = quantity(&format!("{number}x"), &[("x", *many)]).ok()?;
    Some(format!("{}{unit}", in_thousands(whole, unit, units)))
}

/// A number of a unit by the largest of its multiples that it has one of: `2.5G`.
pub(crate) fn in_thousands(number: u64, unit: &str, units: &[&str]) -> String {
    let (mut scale, mut digits, mut prefix) = (1, 0, "");
    for next in ["k", "M", "G", "T"] {
        if number < scale * 1_000 || !units.contains(&format!("{next}{unit}").as_str()) {
            break;
        }
        (scale, digits, prefix) = (scale * 1_000, digits + 3, next);
    }
    let rest = format!("{:0digits$}", number % scale);
    let fraction = if number.is_multiple_of(scale) { "" } else { rest.trim_end_matches('0') };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{}{point}{fraction}{prefix}", number / scale)
}

/// A whole number: `16`, `1_000`, `0x10`, `0o20` (YAML 1.2, 10.3.2). `None` if it is none, or does not fit 64 bits.
pub(crate) fn whole(text: &str) -> Option<u64> {
    let text = text.replace('_', "");
    let (digits, base) = match (text.strip_prefix("0x"), text.strip_prefix("0o")) {
        (Some(digits), _) => (digits, 16),
        (_, Some(digits)) => (digits, 8),
        _ => (text.as_str(), 10),
    };
    // `from_str_radix` takes a sign.
    if digits.starts_with(['+', '-']) { None } else { u64::from_str_radix(digits, base).ok() }
}

/// Whether it is a whole number that does not fit 64 bits.
pub(crate) fn is_too_large(text: &str) -> bool {
    whole(text).is_none()
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|c| c == b'_' || c.is_ascii_digit())
}

/// Packets a second and their multiples.
pub(crate) const PACKET_RATES: &[(&str, u128)] = &[("pps", 1), ("kpps", 1_000), ("Mpps", 1_000_000)];

/// The same, and a number of frames a second.
const FRAME_RATES: &[(&str, u128)] = &[("/s", 1), ("pps", 1), ("kpps", 1_000), ("Mpps", 1_000_000)];

/// A rate in packets a second.
pub(crate) fn packet_rate(text: &str) -> Result<u64, Fault> {
    quantity(text, PACKET_RATES)
}

/// A rate in frames a second, which may be written without its unit: `1000/s`.
pub(crate) fn frame_rate(text: &str) -> Result<u64, Fault> {
    quantity(text, FRAME_RATES)
}

/// A length of time.
pub(crate) fn span(text: &str) -> Result<Span, Fault> {
    // Zero is the same in every unit.
    if text.trim() == "0" { Ok(Span::ZERO) } else { quantity(text, SPANS).map(Span::from_ps) }
}

/// A size in bytes.
pub(crate) fn size(text: &str) -> Result<u64, Fault> {
    quantity(text, SIZES)
}

/// Memory in bytes. `M` and `G` are what hypervisors take them for.
pub(crate) fn memory(text: &str) -> Result<u64, Fault> {
    quantity(text, MEMORY)
}

/// A decimal number and a unit, as a whole number of the smallest unit. Exact: no floating point.
fn quantity(text: &str, units: &[(&str, u128)]) -> Result<u64, Fault> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && !"._".contains(c)).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let (whole, fraction) = (whole.replace('_', ""), fraction.trim_end_matches('0'));
    if whole.is_empty() || fraction.contains(['.', '_']) {
        return Err(Fault::Number);
    }
    let &(_, scale) = units.iter().find(|(name, _)| *name == unit.trim()).ok_or(Fault::Unit)?;
    let whole: u128 = whole.parse().map_err(|_| Fault::Range)?;
    let mut sum = whole.checked_mul(scale).ok_or(Fault::Range)?;
    let mut place = scale;
    for digit in fraction.bytes() {
        if !place.is_multiple_of(10) {
            return Err(Fault::Range);
        }
        place /= 10;
        sum = sum.checked_add(u128::from(digit - b'0') * place).ok_or(Fault::Range)?;
    }
    u64::try_from(sum).map_err(|_| Fault::Range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        assert_eq!(rate("1Gbit"), Ok(1_000_000_000));
        assert_eq!(rate("2.5 Gbit/s"), Ok(2_500_000_000));
        assert_eq!(rate("245.5Mbit/s"), Ok(245_500_000));
        assert_eq!(rate(" 10 kbitps "), Ok(10_000));
        assert_eq!(rate("1_000 bit"), Ok(1_000));
        for text in ["1Gbps", "1 Gb/s", "1Gb", "1000 Mbps", "1e3"] {
            assert_eq!(rate(text).is_ok(), text != "1e3", "{text}");
        }
        assert_eq!((rate("1gbit"), rate("10 mbit/s"), rate("5kbit")), (rate("1Gbit"), rate("10Mbit"), rate("5Kbit")));
        assert_eq!((rate("2.5 Gbps"), rate("10Kbps")), (Ok(2_500_000_000), Ok(10_000)));
    }

    #[test]
    fn units_of_others_are_answered_with_those_that_are_read() {
        const RATE: &[&str] = &["bit", "kbit", "Mbit", "Gbit", "Tbit"];
        const TIME: &[&str] = &["ps", "ns", "us", "ms", "s", "min"];
        for (text, units, here) in [
            ("1Gib", RATE, Some("1.073741824Gbit")),
            ("125 MB/s", RATE, Some("1Gbit")),
            ("100M", RATE, Some("100Mbit")),
            ("1gbit", RATE, Some("1Gbit")),
            ("1G", RATE, Some("1Gbit")),
            ("10m", RATE, Some("10Mbit")),
            ("10m", TIME, Some("10min")),
            ("1gbps", RATE, Some("1Gbit")),
            ("10 MBps", RATE, Some("80Mbit")),
            ("5 sec", TIME, Some("5s")),
            ("2h", TIME, Some("7200s")),
            ("3 fortnights", TIME, None),
            ("fast", RATE, None),
            ("1", RATE, None),
        ] {
            assert_eq!(meant(text, units).as_deref(), here, "{text}");
        }
    }

    #[test]
    fn whole_numbers_have_three_bases() {
        assert_eq!([whole("16"), whole("0x10"), whole("0o20"), whole("1_6")], [Some(16); 4]);
        assert_eq!([whole("-1"), whole("0x"), whole("0x-1"), whole("+0"), whole("1.0"), whole("")], [None; 6]);
    }

    #[test]
    fn spans_and_sizes_are_exact() {
        assert_eq!(span("1.5ms"), Ok(Span::from_us(1_500)));
        assert_eq!(span("0.000001 us"), Ok(Span::from_ps(1)));
        assert_eq!(span("0"), Ok(Span::ZERO));
        assert_eq!((span("5 \u{b5}s"), span("5\u{3bc}s")), (Ok(Span::from_us(5)), Ok(Span::from_us(5))));
        assert_eq!(size("64KiB"), Ok(65_536));
        assert_eq!(size("1000B"), Ok(1_000));
        assert_eq!((share("0.01%"), share("100 %"), share("0")), (Ok(100_000), Ok(1_000_000_000), Ok(0)));
        assert_eq!((share("0.01"), share("0.00000001%")), (Err(Fault::Unit), Err(Fault::Range)));
    }

    #[test]
    fn each_fault_has_its_name() {
        assert_eq!(rate("fast"), Err(Fault::Number));
        assert_eq!(rate("-1Gbit"), Err(Fault::Number));
        assert_eq!(rate("1.2.3Gbit"), Err(Fault::Number));
        assert_eq!(rate("1Gib"), Err(Fault::Unit));
        assert_eq!(rate("1000"), Err(Fault::Unit));
        assert_eq!(span("5 sec"), Err(Fault::Unit));
        assert_eq!(span("0.1ps"), Err(Fault::Range));
        assert_eq!(span("99999999999s"), Err(Fault::Range));
        assert_eq!(size("1.5B"), Err(Fault::Range));
    }
}
