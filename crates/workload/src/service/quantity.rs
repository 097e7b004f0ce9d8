//! Times, sizes, shares and rates as people write them: `2ms`, `64KiB`, `5%`, `1100/s`.

use machine::Span;
use serde::Serialize;

/// A part of the whole, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Share(u32);

impl Share {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// The whole.
    pub const ALL: Self = Self(1_000_000);

    /// So many in a hundred, a hundred at most.
    pub const fn percent(percent: u32) -> Self {
        Self(if percent > 100 { 1_000_000 } else { percent * 10_000 })
    }

    /// In millionths.
    pub const fn millionths(self) -> u32 {
        self.0
    }

    /// Whether something of this share happens this time.
    pub fn draw(self, rng: &mut machine::Rng) -> bool {
        // What never or always happens takes no number: other draws stay what they are.
        self.0 > 0 && (self.0 >= 1_000_000 || rng.below(1_000_000) < self.0)
    }
}

/// The digits of a decimal number times `unit`, rounded down; nothing if it is none, or does not fit 64 bits.
fn decimal(text: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = !whole.is_empty() && are_digits(whole) && are_digits(fraction) && fraction.len() <= 12;
    if !is_number || text.ends_with('.') {
        return None;
    }
    let scale = 10_u128.pow(fraction.len() as u32);
    let fraction: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let digits = u128::from(whole.parse::<u64>().ok()?) * scale + fraction;
    u64::try_from(digits.checked_mul(u128::from(unit))? / scale).ok()
}

/// Where the number ends and its unit begins.
fn split_unit(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()))
}

/// A length of time, of an hour at most: `250ns`, `50us`, `1.5ms`, `10s`, `2m`, `1h`.
///
/// # Errors
/// What was expected.
pub fn time(text: &str) -> Result<Span, String> {
    Ok(Span::from_ns(time_ns(text)?))
}

/// The same in nanoseconds.
pub(super) fn time_ns(text: &str) -> Result<u64, String> {
    const LONGEST_NS: u64 = 3_600_000_000_000;
    let expected =
        || format!("`{text}` is no time: expected a number with ns, us, ms, s, m or h, as in 1.5ms, 1h at most");
    let (number, unit) = split_unit(text);
    let unit_ns = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => LONGEST_NS,
        "" if number == "0" => 1,
        _ => return Err(expected()),
    };
    decimal(number, unit_ns).filter(|&ns| ns <= LONGEST_NS).ok_or_else(expected)
}

/// Bytes, of a tebibyte at most: `512`, `64KiB`, `1.5MiB`, `2GB`.
///
/// # Errors
/// What was expected.
pub fn size(text: &str) -> Result<u64, String> {
    let expected = || {
        format!(
            "`{text}` is no size: expected bytes, or a number with kB, MB, GB, KiB, MiB or GiB, as in 64KiB, 1024GiB at most"
        )
    };
    let (number, unit) = split_unit(text);
    let unit_bytes = match unit {
        "" | "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(expected()),
    };
    decimal(number, unit_bytes).filter(|&bytes| bytes <= 1 << 40).ok_or_else(expected)
}

/// A part of the whole: `5%`, `0.1%`.
///
/// # Errors
/// What was expected.
pub fn share(text: &str) -> Result<Share, String> {
    let millionths = text.strip_suffix('%').and_then(|number| decimal(number, 10_000));
    let share = millionths.filter(|&it| it <= 1_000_000).map(|it| Share(it as u32));
    share.ok_or_else(|| format!("`{text}` is no share: expected per cent, as in 5% or 0.1%, 100% at most"))
}

/// How often something happens, in thousandths of a time a second: `1100/s`, `0.5/s`; a number alone is a second's, too.
///
/// # Errors
/// What was expected.
pub fn rate(text: &str) -> Result<u64, String> {
    let milli = decimal(text.strip_suffix("/s").unwrap_or(text), 1_000);
    let is_rate = |milli: &u64| (1..=10_000_000_000).contains(milli);
    milli
        .filter(is_rate)
        .ok_or_else(|| format!("`{text}` is no rate: expected so many a second, as in 1100/s, 10000000/s at most"))
}

/// A factor in hundredths: `x10`, `x1.5`, `10`.
///
/// # Errors
/// What was expected.
pub fn factor(text: &str) -> Result<u32, String> {
    let hundredths = decimal(text.strip_prefix('x').unwrap_or(text), 100).filter(|it| (1..=100_000).contains(it));
    hundredths
        .map(|it| it as u32)
        .ok_or_else(|| format!("`{text}` is no factor: expected a number, as in x10 or x1.5, x1000 at most"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_a_number_and_a_unit() {
        assert_eq!(time("1.5ms"), Ok(Span::from_us(1_500)));
        assert_eq!(
            (time("0"), time("250ns"), time("1h")),
            (Ok(Span::ZERO), Ok(Span::from_ns(250)), Ok(Span::from_secs(3_600)))
        );
        assert_eq!((size("64KiB"), size("1.5kB"), size("7")), (Ok(65_536), Ok(1_500), Ok(7)));
        assert_eq!((share("5%"), share("0.1%"), share("100%")), (Ok(Share(50_000)), Ok(Share(1_000)), Ok(Share::ALL)));
        assert_eq!((rate("1100/s"), rate("0.5/s"), rate("3")), (Ok(1_100_000), Ok(500), Ok(3_000)));
        assert_eq!((factor("x10"), factor("1.5")), (Ok(1_000), Ok(150)));
    }

    #[test]
    fn what_is_none_is_refused() {
        for wrong in
            ["", "ms", "5", "-1ms", "1.ms", ".5ms", "1..5s", "2h", "1e3s", "99999999999999999999s", "1 ms", "١s"]
        {
            assert!(time(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "KiB", "1kib", "-1", "1025GiB", "0.0000000000001GiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        for wrong in ["5", "101%", "%", "-1%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
        for wrong in ["0/s", "x", "", "10000001/s", "1/m"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        for wrong in ["x0", "x", "x1001", "x-1"] {
            assert!(factor(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_share_happens_as_often_as_it_says() {
        let mut rng = machine::Rng::new(1);
        let seen = (0..10_000).filter(|_| Share::percent(5).draw(&mut rng)).count();
        assert!((400..600).contains(&seen), "{seen}");
        assert!(!Share::NONE.draw(&mut rng) && Share::ALL.draw(&mut rng) && Share::percent(500) == Share::ALL);
    }
}
