//! What iperf3 says about a flow (`--json`, version 3).
//!
//! The text comes from a program that may be any version, or may have been killed half-way: whatever it holds, the answer is a
//! measurement or an error, never a panic.

use serde::Deserialize;

/// The longest report that is read, bytes. One without intervals takes about three thousand.
pub const REPORT_LIMIT: u64 = 1 << 20;

/// What a client's report says about its flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// Payload that reached the receiving program, bit/s, warm-up left out.
    pub goodput_bps: f64,
    /// Over how long, seconds.
    pub seconds: f64,
    /// Segments that the sender sent again, warm-up left out.
    pub retransmits: u64,
}

/// Why there is no measurement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IperfError {
    /// iperf3 says itself what went wrong.
    #[error("iperf3: {0}")]
    Said(String),
    /// Not a report.
    #[error("iperf3 printed no report: {0}")]
    NoReport(String),
    /// A report without what we need.
    #[error("iperf3's report lacks {0}")]
    Lacks(&'static str),
}

/// What the kernel, or iperf3 itself, says of a connection that the network did not let come about or go on.
const LOST: [&str; 9] = [
    "timed out",
    "Operation now in progress",
    "refused",
    "No route to host",
    "unreachable",
    "reset by peer",
    "Broken pipe",
    "closed unexpectedly",
    "control message",
];

impl IperfError {
    /// Whether it is the network's doing, and not the programs': then it is a result, and not a failure of the run.
    pub fn is_of_network(&self) -> bool {
        matches!(self, Self::Said(message) if LOST.iter().any(|part| message.contains(part)))
    }
}

#[derive(Deserialize)]
struct Report {
    error: Option<String>,
    #[serde(default)]
    end: Totals,
}

#[derive(Default, Deserialize)]
struct Totals {
    sum_sent: Option<Sum>,
    sum_received: Option<Sum>,
}

#[derive(Deserialize)]
struct Sum {
    seconds: Option<f64>,
    bits_per_second: Option<f64>,
    retransmits: Option<u64>,
}

/// Reads the report of a client (sender).
///
/// # Errors
/// If iperf3 reports a failure, or the text is not a report of a finished TCP test.
pub fn parse(text: &[u8]) -> Result<Measurement, IperfError> {
    let report: Report = serde_json::from_slice(text).map_err(|error| IperfError::NoReport(reason(text, &error)))?;
    if let Some(error) = report.error {
        return Err(IperfError::Said(shortened(&error)));
    }
    let received = report.end.sum_received.ok_or(IperfError::Lacks("end.sum_received"))?;
    let sent = report.end.sum_sent.ok_or(IperfError::Lacks("end.sum_sent"))?;
    let sensible = |number: &f64| number.is_finite() && *number >= 0.0;
    Ok(Measurement {
        goodput_bps: received
            .bits_per_second
            .filter(sensible)
            .ok_or(IperfError::Lacks("end.sum_received.bits_per_second"))?,
        seconds: received.seconds.filter(sensible).ok_or(IperfError::Lacks("end.sum_received.seconds"))?,
        retransmits: sent.retransmits.ok_or(IperfError::Lacks("end.sum_sent.retransmits"))?,
    })
}

fn reason(text: &[u8], error: &serde_json::Error) -> String {
    let start = String::from_utf8_lossy(&text[..text.len().min(200)]);
    if start.trim().is_empty() {
        "nothing at all".to_owned()
    } else {
        format!("{error} in {:?}", shortened(start.trim()))
    }
}

/// Messages go to a terminal: one line, printable, not too long.
pub(crate) fn shortened(message: &str) -> String {
    let mut text: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Cut from what iperf 3.12 printed.
    const FINISHED: &str = r#"{"start":{"version":"iperf 3.12"},"intervals":[],"end":{"streams":[{}],
        "sum_sent":{"start":0,"end":0.999959,"seconds":0.999959,"bytes":125042688,"bits_per_second":1000382519.68,"retransmits":3,"sender":true},
        "sum_received":{"start":0,"end":1.000016,"seconds":1.000016,"bytes":125042688,"bits_per_second":1000325498.79,"sender":true}}}"#;

    #[test]
    fn a_finished_test() {
        let measurement = parse(FINISHED.as_bytes()).unwrap();
        assert_eq!(measurement, Measurement { goodput_bps: 1_000_325_498.79, seconds: 1.000_016, retransmits: 3 });
    }

    /// What three streams of 20 Mbit/s brought in the second after a warm-up, cut from what iperf 3.12 printed.
    #[test]
    fn streams_are_measured_together() {
        let stream = r#"{"sender":{"bytes":2621440},"receiver":{"seconds":0.99627,"bytes":2621440,"bits_per_second":21047543.72794534}}"#;
        let text = format!(
            r#"{{"intervals":[{{"streams":[],"sum":{{"seconds":0.996270,"bytes":7864320,"omitted":false}}}}],"end":{{"streams":[{stream},{stream},{stream}],
            "sum_sent":{{"seconds":0.99627,"bytes":7864320,"bits_per_second":63150109.90996417,"retransmits":2}},
            "sum_received":{{"seconds":0.996388,"bytes":7864320,"bits_per_second":63142631.18383601}}}}}}"#
        );
        let measurement = parse(text.as_bytes()).unwrap();
        assert_eq!(measurement.retransmits, 2);
        let received = measurement.goodput_bps * measurement.seconds / 8.0;
        assert!((received - 3.0 * 2_621_440.0).abs() < 1.0, "{measurement:?}");
    }

    #[test]
    fn a_failed_test_says_why() {
        let text = r#"{"start":{"connected":[]},"intervals":[],"end":{},"error":"unable to connect to server: Connection refused"}"#;
        let error = parse(text.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "iperf3: unable to connect to server: Connection refused");
    }

    #[test]
    fn what_the_network_did_is_distinguished() {
        let said = |message: &str| IperfError::Said(message.to_owned());
        let lost = "unable to connect to server - server may have stopped running or use a different port, firewall issue, etc.: Connection timed out";
        assert!(said(lost).is_of_network());
        assert!(said("control socket has closed unexpectedly").is_of_network());
        assert!(!said("parameter error - some option you are trying to set is client only").is_of_network());
        assert!(!IperfError::Lacks("end.sum_sent").is_of_network());
    }

    #[test]
    fn what_is_no_report() {
        assert_eq!(parse(b"").unwrap_err().to_string(), "iperf3 printed no report: nothing at all");
        assert!(matches!(parse(&FINISHED.as_bytes()[..90]), Err(IperfError::NoReport(_))));
        assert_eq!(parse(b"{}"), Err(IperfError::Lacks("end.sum_received")));
        let negative = FINISHED.replace("1000325498.79", "-1");
        assert_eq!(parse(negative.as_bytes()), Err(IperfError::Lacks("end.sum_received.bits_per_second")));
        let udp = FINISHED.replace(r#""retransmits":3,"#, "");
        assert_eq!(parse(udp.as_bytes()), Err(IperfError::Lacks("end.sum_sent.retransmits")));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(parse(&bytes).is_err());
        }

        #[test]
        fn a_damaged_report_is_answered(at in 0..FINISHED.len(), byte: u8, cut in 0..FINISHED.len()) {
            let mut bytes = FINISHED.as_bytes().to_vec();
            bytes[at] = byte;
            if let Ok(measurement) = parse(&bytes) {
                prop_assert!(measurement.goodput_bps.is_finite() && measurement.goodput_bps >= 0.0);
            }
            prop_assert!(parse(&FINISHED.as_bytes()[..cut]).is_err());
        }

        #[test]
        fn messages_are_one_printable_line(message in any::<String>()) {
            let text = serde_json::json!({ "error": message }).to_string();
            let shown = parse(text.as_bytes()).unwrap_err().to_string();
            prop_assert!(!shown.chars().any(char::is_control) && shown.chars().count() <= 310);
        }
    }
}
