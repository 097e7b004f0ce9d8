//! How far live and simulated may lie apart.

use fabric::{Metric, Statistic};
use serde::Serialize;

/// How far the live mean may lie from the simulated one. The wider of both bounds holds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tolerance {
    /// As a fraction of the simulated mean.
    pub relative: f64,
    /// In the metric's unit: few packets differ by large fractions, and say little. Zero if there is no such bound.
    pub absolute: f64,
}

/// The metrics that are judged. All others are shown beside each other only.
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

impl Tolerance {
    /// The tolerance of a metric, if it is judged.
    pub(crate) fn of(metric: Metric) -> Option<Self> {
        TOLERANCES.iter().find(|(of, _)| *of == metric).map(|(_, tolerance)| *tolerance)
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

impl std::fmt::Display for Tolerance {
    /// `5 %`, `30 % or 10`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} %", (self.relative * 100.0).round())?;
        if self.absolute > 0.0 { write!(f, " or {}", self.absolute) } else { Ok(()) }
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
        assert_eq!(goodput.to_string(), "5 %");
    }

    #[test]
    fn packets_within_thirty_per_cent_or_ten() {
        for metric in [Metric::Retransmits, Metric::Reordered, Metric::Drops, Metric::Marks, Metric::LinkLosses] {
            let packets = Tolerance::of(metric).unwrap();
            assert!(packets.allows(129.0, 100.0) && packets.allows(71.0, 100.0), "{metric:?}");
            assert!(!packets.allows(131.0, 100.0) && !packets.allows(69.0, 100.0), "{metric:?}");
            assert!(packets.allows(10.0, 0.0) && packets.allows(0.0, 10.0) && packets.allows(15.0, 5.0), "{metric:?}");
            assert!(!packets.allows(11.0, 0.0) && !packets.allows(0.0, 11.0), "{metric:?}");
            assert_eq!(packets.to_string(), "30 % or 10");
        }
        let queue = Tolerance::of(Metric::QueueMean).unwrap();
        assert!(queue.allows(119.0, 100.0) && !queue.allows(79.0, 100.0) && queue.allows(0.9, 0.0));
        assert_eq!(queue.to_string(), "20 % or 1");
        assert_eq!(Tolerance::of(Metric::Fairness), None);
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
