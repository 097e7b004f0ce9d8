//! How loaded a server is, as ORCA (Open Request Cost Aggregation, the `OrcaLoadReport` of xDS) writes it.

use std::fmt::Write;

use serde_json::{Map, Value, json};

/// A load report. What is not known is absent, and not zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadReport {
    /// Use of the processors, from 0 on; above 1 beyond what the reporter has as its limit.
    pub cpu_utilization: Option<f64>,
    /// Use of the memory, 0 to 1.
    pub mem_utilization: Option<f64>,
    /// What the application says of itself, from 0 on; above 1 if it is overloaded.
    pub application_utilization: Option<f64>,
    /// Requests a second.
    pub rps_fractional: Option<f64>,
    /// Errors a second.
    pub eps: Option<f64>,
    /// Anything else, by its name.
    pub named_metrics: Vec<(String, f64)>,
}

impl LoadReport {
    fn fields(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let fields = [
            ("cpu_utilization", self.cpu_utilization),
            ("mem_utilization", self.mem_utilization),
            ("application_utilization", self.application_utilization),
            ("rps_fractional", self.rps_fractional),
            ("eps", self.eps),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name, rounded(value?))))
    }

    /// The value of a header `endpoint-load-metrics`: `TEXT cpu_utilization=0.31, rps_fractional=120`.
    pub fn header(&self) -> String {
        let mut text = "TEXT ".to_owned();
        let named = self.named_metrics.iter().map(|(name, value)| (format!("named_metrics.{name}"), rounded(*value)));
        let all = self.fields().map(|(name, value)| (name.to_owned(), value)).chain(named);
        for (index, (name, value)) in all.enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(text, "{separator}{name}={value}").expect("a String takes everything");
        }
        text
    }

    /// As JSON: `{"cpu_utilization":0.31,"named_metrics":{"run_queue":2.0}}`.
    pub fn json(&self) -> Value {
        let mut object: Map<String, Value> =
            self.fields().map(|(name, value)| (name.to_owned(), json!(value))).collect();
        if !self.named_metrics.is_empty() {
            let named: Map<_, _> =
                self.named_metrics.iter().map(|(name, value)| (name.clone(), json!(rounded(*value)))).collect();
            object.insert("named_metrics".to_owned(), Value::Object(named));
        }
        Value::Object(object)
    }
}

/// With four digits behind the point.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_absent() {
        let report = LoadReport {
            cpu_utilization: Some(0.312_345),
            rps_fractional: Some(120.0),
            named_metrics: vec![("run_queue".to_owned(), 2.0)],
            ..LoadReport::default()
        };
        assert_eq!(report.header(), "TEXT cpu_utilization=0.3123, rps_fractional=120, named_metrics.run_queue=2");
        let text = r#"{"cpu_utilization":0.3123,"rps_fractional":120.0,"named_metrics":{"run_queue":2.0}}"#;
        assert_eq!(report.json().to_string(), text);
        assert_eq!(LoadReport::default().json(), json!({}));
    }
}
