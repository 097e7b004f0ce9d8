//! Numbers as people read them: few digits, a unit, and an interval with the same number of decimals.

use fabric::Unit;

use crate::measure::statistics::{Difference, Summary};

/// A unit chosen so that the largest of a set of values has one to three digits before the point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// What one shown unit is in the metric's own.
    pub one: f64,
    /// Its name: `Mbit/s`, `%`, or empty.
    pub unit: &'static str,
}

impl Scale {
    /// The scale for values up to `max`.
    pub fn of(unit: Unit, max: f64) -> Self {
        let choose = |scales: &[(f64, &'static str)], least| {
            let (one, unit) = scales.iter().copied().find(|(one, _)| max.abs() >= *one).unwrap_or(least);
            Self { one, unit }
        };
        match unit {
            Unit::BitsPerSecond => {
                choose(&[(1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")], (1.0, "bit/s"))
            }
            Unit::Seconds => choose(&[(1.0, "s"), (1e-3, "ms")], (1e-6, "us")),
            Unit::PerSecond => choose(&[(1e6, "M/s"), (1e3, "k/s")], (1.0, "/s")),
            Unit::Bytes => choose(&[(1e9, "GB"), (1e6, "MB"), (1e3, "kB")], (1.0, "B")),
            Unit::Share => Self { one: 0.01, unit: "%" },
            Unit::Count | Unit::Index | Unit::YesNo => Self { one: 1.0, unit: "" },
        }
    }

    /// The value without its unit, with four significant digits at most.
    pub fn plain(self, value: f64) -> String {
        let shown = value / self.one;
        fixed(shown, decimals_for(shown, 4))
    }

    /// The value without its unit, with three significant digits at most.
    pub fn short(self, value: f64) -> String {
        let shown = value / self.one;
        fixed(shown, decimals_for(shown, 3))
    }

    /// `245.5 Mbit/s`
    pub fn with_unit(self, value: f64) -> String {
        join(&self.plain(value), self.unit)
    }

    /// `245.53 ± 0.12`: the interval has two significant digits, the mean as many decimals as it.
    pub fn with_interval(self, summary: &Summary) -> String {
        let (mean, half) = self.mean_and_half(summary.mean, summary.interval);
        half.map_or_else(|| mean.clone(), |half| format!("{mean} ± {half}"))
    }

    /// A mean and half the width of its interval, with as many decimals.
    fn mean_and_half(self, mean: f64, half: Option<f64>) -> (String, Option<String>) {
        let plain = self.plain(mean);
        let mean = mean / self.one;
        let Some(half) = half.map(|half| half / self.one) else { return (plain, None) };
        // An interval of nothing (equal runs) says nothing about the digits.
        if half <= mean.abs() * 1e-6 {
            return (plain, Some("0".to_owned()));
        }
        let decimals = decimals_for(half, 2).min(decimals_for(mean, 4).max(1));
        (fixed(mean, decimals), Some(fixed(half, decimals)))
    }
}

/// `+3.1 % ± 0.4`; `+12.4 Mbit/s ± 1.9` where that is held against next to nothing.
pub fn difference(difference: &Difference, unit: Unit) -> String {
    let Some(relative) = difference.relative else { return absolute(difference, unit) };
    let percent = relative * 100.0;
    let half = difference.relative_interval.map_or(0.0, |half| half * 100.0);
    let decimals = usize::from(percent.abs() < 100.0 && half < 10.0);
    let sign = if fixed(percent.abs(), decimals).trim_matches(['0', '.']).is_empty() {
        ""
    } else if percent < 0.0 {
        "−"
    } else {
        "+"
    };
    let mean = format!("{sign}{} %", fixed(percent.abs(), decimals));
    match difference.relative_interval {
        Some(_) => format!("{mean} ± {}", fixed(half, decimals)),
        None => mean,
    }
}

/// A difference in its own unit.
fn absolute(difference: &Difference, unit: Unit) -> String {
    if difference.mean == 0.0 && difference.interval.unwrap_or(0.0) == 0.0 {
        return "0 %".to_owned();
    }
    let scale = Scale::of(unit, difference.mean.abs().max(difference.interval.unwrap_or(0.0)));
    // A share of shares is something else.
    let unit = if scale.unit == "%" { "points" } else { scale.unit };
    let (mean, half) = scale.mean_and_half(difference.mean.abs(), difference.interval);
    let sign = match mean.trim_matches(['0', '.']) {
        "" => "",
        _ if difference.mean < 0.0 => "−",
        _ => "+",
    };
    let mean = join(&format!("{sign}{mean}"), unit);
    half.map_or_else(|| mean.clone(), |half| format!("{mean} ± {half}"))
}

/// `8.41 M`, `512 k`: a count that need not be exact.
pub fn rough(count: f64) -> String {
    let (one, unit) =
        [(1e9, "G"), (1e6, "M"), (1e3, "k")].into_iter().find(|(one, _)| count.abs() >= *one).unwrap_or((1.0, ""));
    let shown = count / one;
    join(&fixed(shown, decimals_for(shown, 3)), unit)
}

/// Decimals that give `value` that many significant digits; none for whole numbers.
fn decimals_for(value: f64, significant: i32) -> usize {
    if value == 0.0 || !value.is_finite() || (value.fract() == 0.0 && value.abs() < 1e6) {
        return 0;
    }
    let before_point = value.abs().log10().floor() as i32 + 1;
    (significant - before_point).clamp(0, 6) as usize
}

fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    // Rounding can leave a minus before nothing.
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|b| b == b'0' || b == b'.') => rest.to_owned(),
        _ => text,
    }
}

fn join(number: &str, unit: &str) -> String {
    if unit.is_empty() { number.to_owned() } else { format!("{number} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::statistics::{paired, summarise};

    #[test]
    fn units_suit_the_largest_value() {
        let scale = |max| Scale::of(Unit::BitsPerSecond, max).unit;
        assert_eq!((scale(9.4e9), scale(245.5e6), scale(12.0)), ("Gbit/s", "Mbit/s", "bit/s"));
        assert_eq!(Scale::of(Unit::Share, 0.5).with_unit(0.7325), "73.25 %");
        assert_eq!(Scale::of(Unit::Count, 5.0).with_unit(12.0), "12");
        assert_eq!(Scale::of(Unit::Seconds, 0.0021).with_unit(0.000_84), "0.8400 ms");
        assert_eq!(Scale::of(Unit::Seconds, 0.000_5).with_unit(0.000_123_4), "123.4 us");
        assert_eq!(Scale::of(Unit::PerSecond, 6_900.0).with_unit(6_912.0), "6.912 k/s");
        assert_eq!(Scale::of(Unit::Bytes, 7e8).with_unit(7e8), "700 MB");
    }

    #[test]
    fn intervals_decide_the_decimals() {
        let mega = Scale::of(Unit::BitsPerSecond, 3e8);
        let show = |samples: &[f64]| mega.with_interval(&summarise(samples).unwrap());
        assert_eq!(show(&[245.5e6]), "245.5");
        assert_eq!(show(&[245.5e6, 245.5e6]), "245.5 ± 0");
        assert_eq!(show(&[240e6, 245e6, 250e6]), "245 ± 29");
        assert_eq!(show(&[245.0e6, 245.1e6, 245.2e6]), "245.1 ± 0.6");
    }

    #[test]
    fn differences_are_signed_percentages() {
        let show = |a: &[f64], b: &[f64]| difference(&paired(a, b).unwrap(), Unit::BitsPerSecond);
        assert_eq!(show(&[103.0], &[100.0]), "+3.0 %");
        assert_eq!(show(&[96.9], &[100.0]), "−3.1 %");
        assert_eq!(show(&[100.0, 100.0], &[100.0, 100.0]), "0.0 % ± 0.0");
        assert_eq!(show(&[100.01], &[100.0]), "0.0 %");
        assert_eq!(show(&[0.0], &[0.0]), "0 %");
    }

    #[test]
    fn what_is_held_against_nothing_stands_in_its_unit() {
        let show = |a: &[f64], b: &[f64], unit| difference(&paired(a, b).unwrap(), unit);
        assert_eq!(show(&[114.0], &[1.0], Unit::Count), "+113");
        assert_eq!(show(&[0.0, 0.0], &[3e6, 1e6], Unit::BitsPerSecond), "−2 Mbit/s ± 64");
        assert_eq!(show(&[0.25], &[0.0], Unit::Share), "+25 points");
        assert_eq!(show(&[1.0, 2.0, 3.0], &[0.0, 1.0, 2.0], Unit::Count), "+1 ± 0");
        assert_eq!(show(&[1.0, 0.0], &[0.0, 1.0], Unit::Count), "0 ± 64");
    }

    #[test]
    fn rough_counts() {
        assert_eq!(rough(8_412_345.0), "8.41 M");
        assert_eq!(rough(999.0), "999");
    }
}
