//! Metrics as Prometheus has them, and as `OpenMetrics` writes them.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// What names one sample among those of its family.
pub type Labels = Vec<(&'static str, String)>;

/// Samples of one name.
#[derive(Clone, Debug)]
pub struct Family {
    /// As `heddle_link_packets`; that of a counter is written with `_total` behind it.
    name: &'static str,
    help: &'static str,
    kind: Kind,
    samples: Vec<(Labels, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
}

/// What is counted or measured.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// A whole number.
    Whole(u64),
    /// Another one.
    Real(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Whole(value.into())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Whole(value.into())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl Family {
    /// Of what only grows.
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: Kind::Counter, samples: Vec::new() }
    }

    /// Of what grows and shrinks.
    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: Kind::Gauge, samples: Vec::new() }
    }

    /// One more sample.
    pub fn add(&mut self, labels: &Labels, value: impl Into<Value>) {
        self.samples.push((labels.clone(), value.into()));
    }

    /// The same, if there is something to say.
    pub fn add_some(&mut self, labels: &Labels, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.add(labels, value);
        }
    }
}

/// Labels with one more.
pub fn with(labels: &Labels, name: &'static str, value: &str) -> Labels {
    let mut labels = labels.clone();
    labels.push((name, value.to_owned()));
    labels
}

/// All metrics of a network at one moment, as text of `OpenMetrics`.
pub fn render(families: Vec<Family>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Snapshot(families)));
    let mut page = String::new();
    text::encode(&mut page, &registry).expect("a text takes all");
    page
}

/// A page of `OpenMetrics` in the text format 0.0.4 that Prometheus had before: there, a counter's `_total` is a part of its name.
pub fn older(page: &str) -> String {
    let mut older = String::with_capacity(page.len());
    let is_counter = |name: &str| page.contains(&format!("# TYPE {name} counter\n"));
    for line in page.lines().filter(|line| *line != "# EOF" && !line.starts_with("# UNIT ")) {
        let about = line.strip_prefix("# HELP ").map(|rest| ("# HELP", rest));
        let about = about.or_else(|| line.strip_prefix("# TYPE ").map(|rest| ("# TYPE", rest)));
        match about.and_then(|(what, rest)| Some((what, rest.split_once(' ')?))) {
            Some((what, (name, rest))) if is_counter(name) => older.extend([what, " ", name, "_total ", rest]),
            _ => older.push_str(line),
        }
        older.push('\n');
    }
    older
}

#[derive(Debug)]
struct Snapshot(Vec<Family>);

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in self.0.iter().filter(|family| !family.samples.is_empty()) {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
            };
            let mut written = encoder.encode_descriptor(family.name, family.help, None, kind)?;
            for (labels, value) in &family.samples {
                let mut sample = written.encode_family(labels)?;
                match (family.kind, value) {
                    (Kind::Counter, Value::Whole(count)) => sample.encode_counter::<NoLabelSet, _, u64>(count, None)?,
                    (Kind::Counter, Value::Real(count)) => sample.encode_counter::<NoLabelSet, _, u64>(count, None)?,
                    (Kind::Gauge, Value::Whole(level)) => sample.encode_gauge(level)?,
                    (Kind::Gauge, Value::Real(level)) => sample.encode_gauge(level)?,
                }
            }
        }
        Ok(())
    }
}
