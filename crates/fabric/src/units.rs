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

/// Bits a second and its multiples.
pub(crate) const RATES: &[(&str, u128)] =
    &[("bit", 1), ("kbit", 1_000), ("Mbit", 1_000_000), ("Gbit", 1_000_000_000), ("Tbit", 1_000_000_000_000)];

/// Picoseconds and their multiples.
pub(crate) const SPANS: &[(&str, u128)] = &[
    ("ps", 1),
    ("ns", 1_000),
    ("us", 1_000_000),
    ("µs", 1_000_000),
    ("ms", 1_000_000_000),
    ("s", 1_000_000_000_000),
    ("min", 60_000_000_000_000),
];

/// Bytes and their multiples.
pub(crate) const SIZES: &[(&str, u128)] =
    &[("B", 1), ("kB", 1_000), ("KB", 1_000), ("KiB", 1_024), ("MB", 1_000_000), ("MiB", 1_048_576)];

/// What a hundredth is, where a thousand million are the whole.
const PERCENT: &[(&str, u128)] = &[("%", 10_000_000)];

/// A share, of a thousand million.
pub(crate) fn share(text: &str) -> Result<u64, Fault> {
    if text.trim() == "0" { Ok(0) } else { quantity(text, PERCENT) }
}

/// A rate in bits a second.
pub(crate) fn rate(text: &str) -> Result<u64, Fault> {
    let text = text.trim();
    quantity(text.strip_suffix("/s").or_else(|| text.strip_suffix("ps")).unwrap_or(text), RATES)
}

/// Packets a second and their multiples.
pub(crate) const PACKET_RATES: &[(&str, u128)] = &[("pps", 1), ("kpps", 1_000), ("Mpps", 1_000_000)];

/// A rate in packets a second.
pub(crate) fn packet_rate(text: &str) -> Result<u64, Fault> {
    quantity(text, PACKET_RATES)
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
    }

    #[test]
    fn spans_and_sizes_are_exact() {
        assert_eq!(span("1.5ms"), Ok(Span::from_us(1_500)));
        assert_eq!(span("0.000001 us"), Ok(Span::from_ps(1)));
        assert_eq!(span("0"), Ok(Span::ZERO));
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
        assert_eq!(rate("1Gb"), Err(Fault::Unit));
        assert_eq!(rate("1000"), Err(Fault::Unit));
        assert_eq!(span("5 sec"), Err(Fault::Unit));
        assert_eq!(span("0.1ps"), Err(Fault::Range));
        assert_eq!(span("99999999999s"), Err(Fault::Range));
        assert_eq!(size("1.5B"), Err(Fault::Range));
    }
}
