//! What both drivers measured, in two numbers.

use fabric::Metric;
use serde::Serialize;

use crate::measure::statistics::{Difference, unpaired};
use crate::measure::tolerance::Tolerance;

/// Means over the runs of each driver.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Means {
    /// Over the live runs.
    pub live: f64,
    /// Over the simulated runs.
    pub sim: f64,
}

impl Means {
    /// Live minus simulated.
    pub(crate) fn difference(self) -> Difference {
        unpaired(self.live, self.sim)
    }

    pub(super) fn times(self, tolerance: Tolerance) -> f64 {
        tolerance.times(self.live, self.sim)
    }

    /// How many times the metric's tolerance they lie apart; not at all if it has none.
    pub(super) fn times_of(self, metric: Metric) -> f64 {
        Tolerance::of(metric).map_or(0.0, |tolerance| self.times(tolerance))
    }
}
