//! A claim about a metric as written: `>= 0.9 Gbit/s`, `<= 5`, `245.5 Mbit/s +- 1 %`.

use crate::units;
use crate::{Bound, Metric};

/// What a metric is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Rate,
    Fraction,
    Count,
}

const fn unit(metric: Metric) -> Unit {
    match metric {
        Metric::GoodputMean | Metric::GoodputMin | Metric::GoodputMax | Metric::GoodputSum => Unit::Rate,
        Metric::Fairness | Metric::UtilisationMean | Metric::UtilisationMax => Unit::Fraction,
        Metric::Retransmits
        | Metric::FastRetransmits
        | Metric::Timeouts
        | Metric::Reordered
        | Metric::ReorderExtent
        | Metric::Drops => Unit::Count,
    }
}

/// How a claim about `metric` is written, for messages.
pub(crate) const fn example(metric: Metric) -> &'static str {
    match unit(metric) {
        Unit::Rate => "`>= 0.9 Gbit/s`, `<= 2 Gbit/s` or `245.5 Mbit/s +- 1 %`",
        Unit::Fraction => "`>= 0.9`, `<= 90 %` or `0.95 +- 0.05`",
        Unit::Count => "`>= 1`, `<= 0` or `100 +- 10 %`",
    }
}

/// Reads a claim about `metric`; `None` if it isn't one.
pub(crate) fn bound(metric: Metric, text: &str) -> Option<Bound> {
    let unit = unit(metric);
    if let Some(rest) = text.strip_prefix(">=") {
        return amount(unit, rest).map(Bound::AtLeast);
    }
    if let Some(rest) = text.strip_prefix("<=") {
        return amount(unit, rest).map(Bound::AtMost);
    }
    let (of, by) = text.split_once("+-").or_else(|| text.split_once('±'))?;
    let of = amount(unit, of)?;
    // A percentage is one of the middle, also where the metric itself is a fraction.
    let by = match by.trim().strip_suffix('%') {
        Some(percent) => of * number(percent)? / 100.0,
        None => amount(unit, by)?,
    };
    Some(Bound::Within { of, by })
}

fn amount(unit: Unit, text: &str) -> Option<f64> {
    let text = text.trim();
    match unit {
        Unit::Rate => units::rate(text).ok().map(|rate| rate as f64),
        Unit::Fraction => match text.strip_suffix('%') {
            Some(percent) => number(percent).map(|p| p / 100.0),
            None => number(text),
        },
        Unit::Count => number(text),
    }
}

/// A plain decimal number: no sign, no exponent, no `inf`.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let plain = text.len() <= 20 && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_read_in_the_metrics_unit() {
        assert_eq!(bound(Metric::GoodputMean, ">= 0.9 Gbit/s"), Some(Bound::AtLeast(0.9e9)));
        assert_eq!(bound(Metric::Drops, "<= 0"), Some(Bound::AtMost(0.0)));
        assert_eq!(bound(Metric::Fairness, ">= 95 %"), Some(Bound::AtLeast(0.95)));
        let within = Some(Bound::Within { of: 245.5e6, by: 2.455e6 });
        assert_eq!(bound(Metric::GoodputMean, "245.5 Mbit/s +- 1 %"), within);
        assert_eq!(bound(Metric::GoodputMean, "245.5 Mbit/s ± 2.455 Mbit/s"), within);
    }

    #[test]
    fn what_is_not_a_claim_is_refused() {
        for text in ["", "> 1", "1", ">= fast", ">= 1", ">= NaN Gbit/s", "+- 1 %", "1 Gbit/s +-"] {
            assert_eq!(bound(Metric::GoodputMean, text), None, "{text}");
        }
        assert_eq!(bound(Metric::Drops, ">= 1e9"), None);
        assert_eq!(bound(Metric::Fairness, ">= inf"), None);
    }
}
