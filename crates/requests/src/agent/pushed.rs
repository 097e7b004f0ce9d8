//! What an application says of itself. It may say anything: it is bounded, and numbers are numbers.

use serde_json::{Map, Value};

use crate::load_report::LoadReport;

/// The longest push, in bytes.
pub const PUSH_MAX: usize = 4 << 10;
/// The most named metrics.
const METRICS_MAX: usize = 32;
/// The longest name of one.
const NAME_MAX: usize = 64;
/// The largest value.
const VALUE_MAX: f64 = 1e15;

/// What an application has pushed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pushed(pub(super) LoadReport);

impl Pushed {
    /// Reads an object as ORCA has it, in JSON: `{"application_utilization": 0.7, "rps_fractional": 120, "eps": 0, "named_metrics": {"queue": 3}}`, and
    /// `cpu_utilization` and `mem_utilization`, which then count in place of the machine's.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > PUSH_MAX {
            return Err(format!("expected {PUSH_MAX} bytes at most"));
        }
        let object: Map<String, Value> =
            serde_json::from_slice(bytes).map_err(|error| format!("expected a JSON object: {error}"))?;
        let mut report = LoadReport::default();
        for (name, value) in &object {
            match name.as_str() {
                "cpu_utilization" => report.cpu_utilization = Some(number(name, value)?),
                "mem_utilization" => report.mem_utilization = Some(number(name, value)?.min(1.0)),
                "application_utilization" => report.application_utilization = Some(number(name, value)?),
                "rps_fractional" => report.rps_fractional = Some(number(name, value)?),
                "eps" => report.eps = Some(number(name, value)?),
                "named_metrics" => report.named_metrics = named(value)?,
                _ => {
                    return Err(format!(
                        "`{}` is no field: expected cpu_utilization, mem_utilization, application_utilization, rps_fractional, eps or named_metrics",
                        name.escape_debug()
                    ));
                }
            }
        }
        Ok(Self(report))
    }
}

fn number(name: &str, value: &Value) -> Result<f64, String> {
    let number = value.as_f64().filter(|number| (0.0..=VALUE_MAX).contains(number));
    number.ok_or_else(|| format!("`{name}`: expected a number from 0 to 1e15"))
}

fn named(value: &Value) -> Result<Vec<(String, f64)>, String> {
    let expected = || format!("named_metrics: expected an object of {METRICS_MAX} numbers at most");
    let object = value.as_object().filter(|object| object.len() <= METRICS_MAX).ok_or_else(expected)?;
    let is_name = |name: &str| {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        !name.is_empty() && name.len() <= NAME_MAX && name.bytes().all(is_word)
    };
    let metric = |(name, value): (&String, &Value)| {
        if !is_name(name) {
            return Err(format!("named_metrics: expected names of 1 to {NAME_MAX} letters, digits, `_`, `.` and `-`"));
        }
        Ok((name.clone(), number(name, value)?))
    };
    object.iter().map(metric).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop, proptest};

    use super::*;

    #[test]
    fn a_push_is_an_object_of_numbers() {
        let text =
            br#"{"application_utilization": 1.5, "eps": 0, "mem_utilization": 7, "named_metrics": {"queue.a": 3}}"#;
        let Pushed(report) = Pushed::parse(text).expect("it is one");
        assert_eq!(
            (report.application_utilization, report.eps, report.mem_utilization),
            (Some(1.5), Some(0.0), Some(1.0))
        );
        assert_eq!((report.named_metrics, report.cpu_utilization), (vec![("queue.a".to_owned(), 3.0)], None));
    }

    #[test]
    fn anything_else_is_refused() {
        let many: Vec<String> = (0..33).map(|n| format!("\"m{n}\": 1")).collect();
        let many = format!(r#"{{"named_metrics": {{{}}}}}"#, many.join(","));
        let long = format!("{{\"eps\": {}}}", " ".repeat(PUSH_MAX));
        for wrong in [
            "",
            "[]",
            "7",
            r#"{"eps": -1}"#,
            r#"{"eps": "1"}"#,
            r#"{"eps": 1e16}"#,
            r#"{"load": 1}"#,
            r#"{"named_metrics": {"a b": 1}}"#,
            r#"{"named_metrics": 1}"#,
            &many,
            &long,
        ] {
            assert!(Pushed::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(0..=255_u8, 0..100), name in "\\PC{0,20}", value in "\\PC{0,20}") {
            let _ = Pushed::parse(&bytes);
            let _ = Pushed::parse(format!("{{\"{name}\": {value}}}").as_bytes());
        }
    }
}
