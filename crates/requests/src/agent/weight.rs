//! How `HAProxy`'s agent-check is answered: by words and a weight in per cent of the configured one (`HAProxy`'s configuration manual, *agent-check*).

use std::fmt::Write;

use super::status::Status;

/// What a load is made of, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a source of its own")]
pub struct WeightConfig {
    /// Use of the processors counts.
    pub cpu: bool,
    /// Use of the memory counts.
    pub memory: bool,
    /// The share of time in which something waited for a processor, memory or a disk counts.
    pub pressure: bool,
    /// What the application says of itself counts.
    pub application: bool,
    /// Up to this load the weight is 100 %; from there on it falls, to the least at a load of 1.
    pub up_to: f64,
    /// The least weight, in per cent.
    pub least_percent: u32,
    /// From this load on, the answer is `drain`: no new connections.
    pub drain_at: Option<f64>,
    /// So many connections at most.
    pub connections_max: Option<u32>,
}

impl Default for WeightConfig {
    fn default() -> Self {
        Self {
            cpu: true,
            memory: true,
            pressure: false,
            application: true,
            up_to: 0.5,
            least_percent: 1,
            drain_at: None,
            connections_max: None,
        }
    }
}

/// The answer to an agent-check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// In per cent.
    pub weight: u32,
    /// Whether it gets nothing new.
    pub drains: bool,
    /// So many connections at most.
    pub connections_max: Option<u32>,
}

impl WeightConfig {
    /// How loaded a machine is: the largest of what counts; nothing if none of it is known.
    pub(super) fn load(&self, status: &Status) -> Option<f64> {
        let report = &status.report;
        let pressure = status.pressure.iter().flatten().copied().reduce(f64::max);
        let counted = [
            (self.cpu, report.cpu_utilization),
            (self.memory, report.mem_utilization),
            (self.pressure, pressure),
            (self.application, report.application_utilization),
        ];
        counted.into_iter().filter(|(counts, _)| *counts).filter_map(|(_, load)| load).reduce(f64::max)
    }

    /// What follows from a load. One that is not known is no reason to change anything: the full weight.
    pub fn answer(&self, load: Option<f64>) -> Answer {
        let load = load.unwrap_or(0.0);
        let beyond = ((load - self.up_to) / (1.0 - self.up_to).max(f64::EPSILON)).clamp(0.0, 1.0);
        let least = f64::from(self.least_percent.min(100));
        let weight = (100.0 - beyond * (100.0 - least)).round() as u32;
        let drains = self.drain_at.is_some_and(|from| load >= from);
        Answer { weight, drains, connections_max: self.connections_max }
    }
}

impl Answer {
    /// The line that `HAProxy` reads: `ready up 75% maxconn:30`. `ready` and `up` undo what an earlier answer has said.
    pub fn line(&self) -> String {
        let mut line = if self.drains { "drain".to_owned() } else { "ready".to_owned() };
        write!(line, " up {}%", self.weight).expect("a String takes everything");
        if let Some(connections) = self.connections_max {
            write!(line, " maxconn:{connections}").expect("a String takes everything");
        }
        line + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_report::LoadReport;

    #[test]
    fn the_weight_falls_with_the_load() {
        let config = WeightConfig { drain_at: Some(0.95), ..WeightConfig::default() };
        let line = |load| config.answer(load).line();
        assert_eq!((line(None), line(Some(0.5))), ("ready up 100%\n".to_owned(), "ready up 100%\n".to_owned()));
        assert_eq!((line(Some(0.75)), line(Some(7.0))), ("ready up 51%\n".to_owned(), "drain up 1%\n".to_owned()));
        let at_once = WeightConfig { up_to: 1.0, connections_max: Some(30), ..config };
        assert_eq!(at_once.answer(Some(0.9)).line(), "ready up 100% maxconn:30\n");
        assert_eq!(at_once.answer(Some(1.1)).weight, 1);
    }

    #[test]
    fn the_largest_of_what_counts_is_the_load() {
        let report = LoadReport { cpu_utilization: Some(0.3), mem_utilization: Some(0.6), ..LoadReport::default() };
        let status = Status { report, pressure: [Some(0.9), None, None], ..Status::default() };
        let config = WeightConfig::default();
        assert_eq!(config.load(&status), Some(0.6));
        assert_eq!(WeightConfig { pressure: true, ..config }.load(&status), Some(0.9));
        assert_eq!(WeightConfig { memory: false, ..config }.load(&status), Some(0.3));
        assert_eq!(config.load(&Status::default()), None);
    }
}
