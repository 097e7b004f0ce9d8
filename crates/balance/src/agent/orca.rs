//! Load reports of ORCA (`xds.data.orca.v3.OrcaLoadReport`), as text: the value of the header `endpoint-load-metrics` in its formats `TEXT` and `JSON`, and the
//! bare JSON object.
//!
//! ```text
//! TEXT cpu_utilization=0.3,mem_utilization=0.8,rps_fractional=1000.5,named_metrics.run_queue=2
//! JSON {"cpu_utilization": 0.3, "named_metrics": {"run_queue": 2}}
//! ```
//!
//! What ORCA has no field for is a named metric: `pressure` (or `pressure.cpu`, `pressure.memory` and `pressure.io`, of which the greatest counts), `run_queue` (for each
//! processor), `connections`. Other keys are read over.

use super::{AgentError, json, shown, text};
use crate::load::LoadReport;

/// Pressure by what is waited for, as `heddle agent` reports it.
const PRESSURES: [&str; 3] =
    ["named_metrics.pressure.cpu", "named_metrics.pressure.memory", "named_metrics.pressure.io"];

/// Reads a load report.
///
/// # Errors
/// What is not understood. Numbers below zero, or that are none, are errors.
pub fn parse_report(bytes: &[u8]) -> Result<LoadReport, AgentError> {
    let text = text(bytes)?.trim();
    let mut report = LoadReport::default();
    let mut pressures = [None; PRESSURES.len()];
    let mut take = |name: &str, value: f64| take(&mut report, &mut pressures, name, value);
    match text.split_once(' ') {
        Some(("TEXT", pairs)) => parse_pairs(pairs, &mut take)?,
        Some(("JSON", object)) => json::numbers(object, &mut take)?,
        _ => json::numbers(text, &mut take)?,
    }
    report.pressure_permille = report.pressure_permille.or(pressures.into_iter().flatten().max());
    Ok(report)
}

/// `key=value` or `key:value`, with commas between them.
fn parse_pairs(text: &str, take: &mut dyn FnMut(&str, f64) -> Result<(), AgentError>) -> Result<(), AgentError> {
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let at = pair.as_ptr() as usize - text.as_ptr() as usize;
        let (name, value) = pair.split_once(['=', ':']).ok_or(AgentError::Syntax { at, expected: "`name=value`" })?;
        let (name, value) = (name.trim(), value.trim());
        let number = json::decimal(value).ok_or_else(|| AgentError::Value {
            name: shown(name),
            value: shown(value),
            expected: "a number",
        })?;
        take(name, number)?;
    }
    Ok(())
}

/// Takes over a value, if it is one of those that are known.
fn take(
    report: &mut LoadReport,
    pressures: &mut [Option<u32>; PRESSURES.len()],
    name: &str,
    value: f64,
) -> Result<(), AgentError> {
    if value < 0.0 {
        let expected = "a number that is not negative";
        return Err(AgentError::Value { name: shown(name), value: shown(&value.to_string()), expected });
    }
    // Casts saturate.
    let thousandths = (value * 1_000.0).round();
    let part = match name {
        "cpu_utilization" => &mut report.cpu_permille,
        "mem_utilization" => &mut report.memory_permille,
        "application_utilization" => &mut report.application_permille,
        "named_metrics.pressure" => &mut report.pressure_permille,
        "named_metrics.run_queue" => &mut report.run_queue_permille,
        "named_metrics.connections" => return once(&mut report.connections, name, value as u32),
        "rps_fractional" => return once(&mut report.requests_per_kilosecond, name, thousandths as u64),
        "eps" => return once(&mut report.errors_per_kilosecond, name, thousandths as u64),
        _ => match PRESSURES.iter().position(|pressure| *pressure == name) {
            Some(index) => &mut pressures[index],
            None => return Ok(()),
        },
    };
    once(part, name, thousandths as u32)
}

fn once<T>(part: &mut Option<T>, name: &str, value: T) -> Result<(), AgentError> {
    match part.replace(value) {
        None => Ok(()),
        Some(_) => Err(AgentError::Twice(shown(name))),
    }
}

/// Writes a load report as a JSON object of ORCA.
pub fn write_report(report: &LoadReport) -> String {
    let LoadReport {
        cpu_permille,
        memory_permille,
        pressure_permille,
        run_queue_permille,
        application_permille,
        connections,
        requests_per_kilosecond,
        errors_per_kilosecond,
    } = *report;
    let share = |value: Option<u32>| value.map(u64::from);
    let pairs = |pairs: &[(&str, Option<u64>)]| -> Vec<String> {
        let pair =
            |&(name, value): &(&str, Option<u64>)| value.map(|value| format!("\"{name}\":{}", thousandths(value)));
        pairs.iter().filter_map(pair).collect()
    };
    let mut fields = pairs(&[
        ("application_utilization", share(application_permille)),
        ("cpu_utilization", share(cpu_permille)),
        ("mem_utilization", share(memory_permille)),
        ("rps_fractional", requests_per_kilosecond),
        ("eps", errors_per_kilosecond),
    ]);
    let named = pairs(&[
        ("pressure", share(pressure_permille)),
        ("run_queue", share(run_queue_permille)),
        ("connections", connections.map(|count| u64::from(count) * 1_000)),
    ]);
    if !named.is_empty() {
        fields.push(format!("\"named_metrics\":{{{}}}", named.join(",")));
    }
    format!("{{{}}}", fields.join(","))
}

/// A number of thousandths as a decimal fraction.
fn thousandths(value: u64) -> String {
    let digits = format!("{}.{:03}", value / 1_000, value % 1_000);
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::agent::AgentCheck;

    fn parse(text: &str) -> LoadReport {
        parse_report(text.as_bytes()).unwrap()
    }

    fn error(text: &str) -> String {
        parse_report(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn text_and_json_say_the_same() {
        let report = LoadReport {
            cpu_permille: Some(300),
            memory_permille: Some(1_100),
            pressure_permille: Some(5),
            requests_per_kilosecond: Some(1_000_500),
            connections: Some(7),
            ..LoadReport::default()
        };
        let pairs = "TEXT cpu_utilization=0.3, mem_utilization:1.1,rps_fractional=1000.5,utilization.x=9,\
                     named_metrics.pressure=0.005,named_metrics.connections=7";
        assert_eq!(parse(pairs), report);
        let object = r#" {"cpu_utilization": 3e-1, "mem_utilization": 1.1, "rps_fractional": 1000.5, "x": ["{", 1, {"eps": 4}],
            "named_metrics": {"pressure": 0.005, "connections": 7, "\"": null}, "task": "a\"b"} "#;
        assert_eq!(parse(object), report);
        assert_eq!(parse(&format!("JSON {object}")), report);
        assert_eq!(parse(&write_report(&report)), report);
        assert_eq!(parse("{}"), LoadReport::default());
    }

    #[test]
    fn the_greatest_pressure_counts_unless_there_is_one_of_it_all() {
        // As `heddle agent` answers GET /load.
        let agent = r#"{"cpu_utilization":0.5,"mem_utilization":0.25,"named_metrics":{"pressure.cpu":0.125,"pressure.memory":0.75,
            "pressure.io":0.0,"run_queue":1.5,"connections":7.0}}"#;
        let report = LoadReport {
            cpu_permille: Some(500),
            memory_permille: Some(250),
            pressure_permille: Some(750),
            run_queue_permille: Some(1_500),
            connections: Some(7),
            ..LoadReport::default()
        };
        assert_eq!(parse(agent), report);
        let pressure = |text| parse(text).pressure_permille;
        assert_eq!(pressure("TEXT named_metrics.pressure.io=0.5,named_metrics.pressure=0.25"), Some(250));
        assert_eq!(pressure("TEXT named_metrics.pressure.disk=0.5,pressure.cpu=0.5"), None, "those are others' names");
        let twice = "TEXT named_metrics.pressure.io=1,named_metrics.pressure.io=1";
        assert_eq!(error(twice), "`named_metrics.pressure.io` stands there twice");
    }

    #[test]
    fn what_is_not_understood_is_said() {
        assert_eq!(error("TEXT cpu_utilization"), "at byte 0: `name=value` is expected");
        assert_eq!(error("TEXT cpu_utilization=inf"), "cpu_utilization: `inf` is not a number");
        assert_eq!(error("TEXT eps=-1"), "eps: `-1` is not a number that is not negative");
        assert_eq!(error("TEXT eps=1,eps=2"), "`eps` stands there twice");
        assert_eq!(error(r#"{"eps": 1"#), "at byte 9: `,` or `}` is expected");
        assert_eq!(error(r#"{"eps": x}"#), "eps: `x` is not a number");
        assert_eq!(error(r#"{"eps": 1} 2"#), "at byte 11: the end is expected");
        assert_eq!(error("BIN AAAA"), "at byte 0: an object is expected");
        assert!(error(&format!("{}1", r#"{"a":"#.repeat(100))).contains("fewer objects"));
    }

    proptest! {
        #[test]
        fn anything_may_come(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in "[{}\\[\\]\":,. a-z0-9=#%-]{0,80}") {
            for bytes in [&bytes[..], text.as_bytes()] {
                let _ = AgentCheck::parse(bytes);
                let _ = parse_report(bytes);
                let _ = parse_report(&[b"TEXT ", bytes].concat());
            }
        }

        #[test]
        fn reports_come_back(values in proptest::array::uniform8(proptest::option::of(any::<u32>()))) {
            let report = LoadReport {
                cpu_permille: values[0],
                memory_permille: values[1],
                pressure_permille: values[2],
                run_queue_permille: values[3],
                application_permille: values[4],
                connections: values[5],
                requests_per_kilosecond: values[6].map(u64::from),
                errors_per_kilosecond: values[7].map(u64::from),
            };
            prop_assert_eq!(parse(&write_report(&report)), report);
        }
    }
}
