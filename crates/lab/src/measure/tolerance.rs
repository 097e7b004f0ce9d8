//! How far live and simulated may lie apart.

use fabric::{Metric, Statistic, Unit};
use serde::Serialize;

/// How far the live mean may lie from the simulated one. The wider of both bounds holds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tolerance {
    /// As a fraction of the simulated mean.
    pub relative: f64,
    /// In the metric's unit: few packets differ by large fractions, and say little. Zero if there is no such bound.
    pub absolute: f64,
}

/// The metrics that are judged whenever they were measured. All others are judged where an experiment asks for them.
const TOLERANCES: [(Metric, Tolerance); 12] = [
    (Metric::GoodputMean, Tolerance { relative: 0.05, absolute: 0.0 }),
    (Metric::Completion(Statistic::Mean), Tolerance { relative: 0.05, absolute: 0.0 }),
    (Metric::RequestRate, Tolerance { relative: 0.1, absolute: 0.0 }),
    (Metric::Retransmits, Tolerance { relative: 0.3, absolute: 10.0 }),
    (Metric::Reordered, Tolerance { relative: 0.3, absolute: 10.0 }),
    (Metric::Drops, Tolerance { relative: 0.3, absolute: 10.0 }),
    (Metric::Marks, Tolerance { relative: 0.3, absolute: 10.0 }),
    (Metric::LinkLosses, Tolerance { relative: 0.3, absolute: 10.0 }),
    (Metric::LinkDuplicates, Tolerance { relative: 0.3, absolute: 10.0 }),
    (Metric::LinkCorruptions, Tolerance { relative: 0.3, absolute: 10.0 }),
    (Metric::LinkOvertakes, Tolerance { relative: 0.3, absolute: 10.0 }),
    (Metric::QueueMean, Tolerance { relative: 0.2, absolute: 1.0 }),
];

/// Timers and schedulers of a live machine are late by so much, in seconds: no simulated host is.
const LATE: f64 = 100e-6;

impl Tolerance {
    /// The tolerance of a metric that is judged whether an experiment asks for it or not.
    pub(crate) fn of(metric: Metric) -> Option<Self> {
        TOLERANCES.iter().find(|(of, _)| *of == metric).map(|(_, tolerance)| *tolerance)
    }

    /// The tolerance of a metric that an experiment asks for.
    pub(crate) fn of_asked(metric: Metric) -> Self {
        let relative = |relative| Self { relative, absolute: 0.0 };
        let time = |statistic| match statistic {
            Statistic::Min | Statistic::Mean | Statistic::P50 | Statistic::P90 => {
                Self { relative: 0.1, absolute: LATE }
            }
            // Few of them are so long, and another run has others.
            Statistic::P99 | Statistic::P999 | Statistic::Max => Self { relative: 0.2, absolute: LATE },
        };
        Self::of(metric).unwrap_or_else(|| match metric {
            Metric::Fairness | Metric::GoodputSum | Metric::GoodputMean => relative(0.05),
            // That of one flow of several.
            Metric::GoodputMin | Metric::GoodputMax | Metric::RequestRate | Metric::Throughput(_) => relative(0.1),
            Metric::UtilisationMean | Metric::UtilisationMax => Self { relative: 0.05, absolute: 0.01 },
            Metric::Retransmits
            | Metric::FastRetransmits
            | Metric::Timeouts
            | Metric::Reordered
            | Metric::ReorderExtent
            | Metric::Drops
            | Metric::Marks
            | Metric::LinkLosses
            | Metric::LinkDuplicates
            | Metric::LinkCorruptions
            | Metric::LinkOvertakes
            | Metric::Lost
            | Metric::Duplicates
            | Metric::Unfinished
            | Metric::Failed => Self { relative: 0.3, absolute: 10.0 },
            Metric::QueueMean => Self { relative: 0.2, absolute: 1.0 },
            Metric::Delay(statistic)
            | Metric::RoundTrip(statistic)
            | Metric::Response(statistic)
            | Metric::Latency(_, statistic)
            | Metric::Completion(statistic)
            | Metric::CompletionOf(_, statistic) => time(statistic),
            Metric::LongestGap | Metric::UnavailableMax => Self { relative: 0.2, absolute: 0.001 },
            Metric::ResidentMax => relative(0.2),
            // They are promises.
            Metric::LostWrites | Metric::Linearizable => relative(0.0),
        })
    }

    /// In words: `5 %`, `30 % or 10`, `20 % or 1 packet`, `10 % or 0.1 ms`, `none apart`. The wider one holds.
    pub(crate) fn words(self, metric: Metric) -> String {
        let percent = |share: f64| format!("{} %", (share * 100.0).round());
        let absolute = match metric.unit() {
            _ if self.absolute == 0.0 => None,
            Unit::Seconds => Some(format!("{} ms", self.absolute * 1e3)),
            Unit::Share => Some(format!("{} pp", (self.absolute * 100.0).round())),
            Unit::Count if metric == Metric::QueueMean => Some(format!("{} packet", self.absolute)),
            Unit::Count | Unit::Index | Unit::BitsPerSecond | Unit::PerSecond | Unit::Bytes | Unit::YesNo => {
                Some(self.absolute.to_string())
            }
        };
        match (self.relative > 0.0, absolute) {
            (true, Some(absolute)) => format!("{} or {absolute}", percent(self.relative)),
            (true, None) => percent(self.relative),
            (false, Some(absolute)) => absolute,
            (false, None) => "none apart".to_owned(),
        }
    }

    /// Whether two means lie no further apart.
    pub(crate) fn allows(self, live: f64, sim: f64) -> bool {
        (live - sim).abs() <= self.width(sim)
    }

    /// How many times the tolerance two means lie apart.
    pub(crate) fn times(self, live: f64, sim: f64) -> f64 {
        let apart = (live - sim).abs();
        if apart == 0.0 { 0.0 } else { apart / self.width(sim) }
    }

    fn width(self, sim: f64) -> f64 {
        self.absolute.max(self.relative * sim.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goodput_within_five_per_cent() {
        assert_eq!(Tolerance::of(Metric::Completion(Statistic::Mean)), Tolerance::of(Metric::GoodputMean));
        let goodput = Tolerance::of(Metric::GoodputMean).unwrap();
        assert!(goodput.allows(104.9e6, 100e6) && goodput.allows(95.1e6, 100e6));
        assert!(!goodput.allows(105.1e6, 100e6) && !goodput.allows(94.9e6, 100e6));
        assert!(goodput.allows(0.0, 0.0) && !goodput.allows(1.0, 0.0) && !goodput.allows(0.0, 1.0));
        assert!(!goodput.allows(f64::NAN, 1.0));
        assert_eq!(goodput.words(Metric::GoodputMean), "5 %");
    }

    #[test]
    fn packets_within_thirty_per_cent_or_ten() {
        for metric in [Metric::Retransmits, Metric::Reordered, Metric::Drops, Metric::Marks, Metric::LinkLosses] {
            let packets = Tolerance::of(metric).unwrap();
            assert!(packets.allows(129.0, 100.0) && packets.allows(71.0, 100.0), "{metric:?}");
            assert!(!packets.allows(131.0, 100.0) && !packets.allows(69.0, 100.0), "{metric:?}");
            assert!(packets.allows(10.0, 0.0) && packets.allows(0.0, 10.0) && packets.allows(15.0, 5.0), "{metric:?}");
            assert!(!packets.allows(11.0, 0.0) && !packets.allows(0.0, 11.0), "{metric:?}");
            assert_eq!(packets.words(metric), "30 % or 10");
        }
        let queue = Tolerance::of(Metric::QueueMean).unwrap();
        assert!(queue.allows(119.0, 100.0) && !queue.allows(79.0, 100.0) && queue.allows(0.9, 0.0));
        assert_eq!(queue.words(Metric::QueueMean), "20 % or 1 packet");
        assert_eq!(Tolerance::of(Metric::Fairness), None);
    }

    #[test]
    fn whatever_is_asked_for_has_a_tolerance() {
        for metric in Metric::all() {
            let asked = Tolerance::of_asked(metric);
            assert!(asked.allows(1.0, 1.0) && !asked.allows(100.0, 1.0), "{metric:?}");
            assert!(Tolerance::of(metric).is_none_or(|usual| usual == asked), "{metric:?}");
        }
        let p99 = Metric::Response(Statistic::P99);
        assert_eq!(Tolerance::of_asked(p99).words(p99), "20 % or 0.1 ms");
        assert!(Tolerance::of_asked(p99).allows(0.000_15, 0.000_06) && !Tolerance::of_asked(p99).allows(0.025, 0.02));
        assert_eq!(Tolerance::of_asked(Metric::LostWrites).words(Metric::LostWrites), "none apart");
        assert_eq!(Tolerance::of_asked(Metric::UtilisationMax).words(Metric::UtilisationMax), "5 % or 1 pp");
    }

    #[test]
    fn differences_are_ranked_by_their_tolerance() {
        let goodput = Tolerance::of(Metric::GoodputMean).unwrap();
        let drops = Tolerance::of(Metric::Drops).unwrap();
        assert!((goodput.times(120.0, 100.0) - 4.0).abs() < 1e-9);
        assert!((drops.times(5.0, 0.0) - 0.5).abs() < 1e-9);
        assert!(goodput.times(0.0, 0.0) == 0.0 && goodput.times(1.0, 0.0).is_infinite());
    }
}
