//! A claim about a metric as written: `>= 0.9 Gbit/s`, `<= 5`, `245.5 Mbit/s +- 1 %`.

use machine::Span;

use crate::units;
use crate::{Bound, Metric, Unit};

/// How a claim about `metric` is written, for messages.
pub(crate) const fn example(metric: Metric) -> &'static str {
    match metric.unit() {
        Unit::BitsPerSecond => "`>= 0.9 Gbit/s`, `<= 2 Gbit/s` or `245.5 Mbit/s +- 1 %`",
        Unit::Index | Unit::Share => "`>= 0.9`, `<= 90 %` or `0.95 +- 0.05`",
        Unit::Count => "`>= 1`, `<= 0` or `100 +- 10 %`",
        Unit::Seconds => "`<= 1.5 ms`, `>= 200 us` or `1 s +- 10 %`",
        Unit::PerSecond => "`>= 20 k/s`, `<= 500 /s` or `7 k/s +- 10 %`",
        Unit::Bytes => "`<= 700 MB`, `>= 1 MiB` or `100 MB +- 10 %`",
        Unit::YesNo => "`yes` or `no`",
    }
}

/// Reads a claim about `metric`; `None` if it isn't one.
pub(crate) fn bound(metric: Metric, text: &str) -> Option<Bound> {
    let unit = metric.unit();
    if unit == Unit::YesNo {
        return match text {
            "yes" => Some(Bound::AtLeast(1.0)),
            "no" => Some(Bound::AtMost(0.0)),
            _ => None,
        };
    }
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

/// Reads a figure of `metric`, as in `12.6 ms`; `None` if it isn't one.
pub(crate) fn figure(metric: Metric, text: &str) -> Option<f64> {
    match (metric.unit(), text) {
        (Unit::YesNo, "yes") => Some(1.0),
        (Unit::YesNo, "no") => Some(0.0),
        (unit, text) => amount(unit, text),
    }
}

fn amount(unit: Unit, text: &str) -> Option<f64> {
    let text = text.trim();
    match unit {
        Unit::BitsPerSecond => units::rate(text).ok().map(|rate| rate as f64),
        Unit::Index | Unit::Share => match text.strip_suffix('%') {
            Some(percent) => number(percent).map(|p| p / 100.0),
            None => number(text),
        },
        Unit::Count => number(text),
        Unit::Seconds => units::span(text).ok().map(Span::as_secs_f64),
        Unit::PerSecond => per_second(text),
        Unit::Bytes => units::size(text).ok().map(|size| size as f64),
        Unit::YesNo => None,
    }
}

/// `500 /s`, `20 k/s`, `1.5 M/s`.
fn per_second(text: &str) -> Option<f64> {
    let text = text.strip_suffix("/s")?.trim_end();
    match text.strip_suffix('k') {
        Some(thousands) => number(thousands).map(|n| n * 1e3),
        None => match text.strip_suffix('M') {
            Some(millions) => number(millions).map(|n| n * 1e6),
            None => number(text),
        },
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
    use crate::{Operation, Statistic};

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
    fn claims_about_controllers_have_units_of_their_own() {
        let mean = Metric::Latency(Operation::Create, Statistic::Mean);
        let at_most = |metric, text| match bound(metric, text) {
            Some(Bound::AtMost(value)) => value,
            other => panic!("{other:?}"),
        };
        assert!((at_most(mean, "<= 1.5 ms") - 0.0015).abs() < 1e-12);
        assert!((at_most(Metric::Throughput(Operation::Read), "<= 20 k/s") - 20e3).abs() < 1e-9);
        assert!((at_most(Metric::ResidentMax, "<= 700 MB") - 700e6).abs() < 1e-6);
        assert_eq!(bound(Metric::Throughput(Operation::Read), ">= 500 /s"), Some(Bound::AtLeast(500.0)));
        assert_eq!(bound(Metric::Throughput(Operation::Read), ">= 2M/s"), Some(Bound::AtLeast(2e6)));
        assert_eq!(bound(Metric::Linearizable, "yes"), Some(Bound::AtLeast(1.0)));
        assert_eq!(bound(Metric::Linearizable, "no"), Some(Bound::AtMost(0.0)));
        assert_eq!(bound(Metric::LostWrites, "<= 0"), Some(Bound::AtMost(0.0)));
        for text in ["<= 1", "<= 1 kbit", "yes", "1 ms"] {
            assert_eq!(bound(mean, text), None, "{text}");
        }
        assert_eq!(bound(Metric::Linearizable, ">= 1"), None);
        assert_eq!(bound(Metric::Throughput(Operation::Read), ">= 500"), None);
    }

    #[test]
    fn figures_are_amounts_in_the_metrics_unit() {
        assert_eq!(figure(Metric::UnavailableMax, "3.5 s"), Some(3.5));
        assert_eq!(figure(Metric::Linearizable, "no"), Some(0.0));
        assert_eq!(figure(Metric::Failed, "2"), Some(2.0));
        assert_eq!(figure(Metric::UnavailableMax, "<= 3.5 s"), None);
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
