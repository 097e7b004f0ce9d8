//! What iperf3 says (`--json`, version 3), in a line and as a row.

use miette::{Report, miette};
use serde_json::{Value, json};

use crate::cli::Iperf;
use crate::output::{Rows, harmless};

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    from: String,
    to: String,
    udp: bool,
    streams: u32,
    seconds: f64,
    sent_bps: f64,
    received_bps: f64,
    /// Of TCP.
    retransmits: Option<u64>,
    /// Of UDP.
    datagrams: Option<Datagrams>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Datagrams {
    sent: u64,
    lost: u64,
    jitter_ms: f64,
}

impl Outcome {
    /// Reads the client's report.
    pub fn read(args: &Iperf, text: &str) -> Result<Self, Report> {
        let report: Value = serde_json::from_str(text).map_err(|_| miette!("iperf3 printed no report"))?;
        if let Some(error) = report["error"].as_str() {
            return Err(miette!("iperf3: {}", harmless(error)));
        }
        let end = &report["end"];
        let number = |part: &str, key: &str| end[part][key].as_f64().filter(|it| it.is_finite() && *it >= 0.0);
        let lacks = |what: &str| miette!("iperf3's report lacks {what}");
        let datagrams = args.udp.then(|| {
            let count = |key: &str| end["sum"][key].as_u64();
            Some(Datagrams {
                sent: count("packets")?,
                lost: count("lost_packets")?,
                jitter_ms: number("sum", "jitter_ms")?,
            })
        });
        let datagrams = match datagrams {
            Some(None) => return Err(lacks("end.sum of datagrams")),
            Some(found) => found,
            None => None,
        };
        let sent_bps = number("sum_sent", "bits_per_second").or_else(|| number("sum", "bits_per_second"));
        let sent_bps = sent_bps.ok_or_else(|| lacks("end.sum_sent.bits_per_second"))?;
        let seconds = number("sum_received", "seconds").filter(|it| *it > 0.0).or_else(|| number("sum", "seconds"));
        // Of datagrams those count that did not come. Both ends take their own time: what waits in queues arrives after all is sent, and more than was sent does not arrive.
        let sent_for = number("sum_sent", "seconds").or_else(|| number("sum", "seconds"));
        let drained =
            sent_for.zip(seconds).map_or(1.0, |(sent, received)| sent / received.max(sent).max(f64::MIN_POSITIVE));
        let arrived = |it: Datagrams| sent_bps * drained * (1.0 - it.lost.min(it.sent) as f64 / it.sent.max(1) as f64);
        let received_bps = datagrams.map(arrived).or_else(|| number("sum_received", "bits_per_second"));
        let (from, to) = if args.reverse { (&args.to, &args.from) } else { (&args.from, &args.to) };
        Ok(Self {
            from: from.clone(),
            to: to.clone(),
            udp: args.udp,
            streams: args.parallel,
            seconds: seconds.ok_or_else(|| lacks("end.sum_received.seconds"))?,
            sent_bps,
            received_bps: received_bps.ok_or_else(|| lacks("end.sum_received.bits_per_second"))?,
            retransmits: end["sum_sent"]["retransmits"].as_u64().filter(|_| !args.udp),
            datagrams,
        })
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let Self { from, to, streams, .. } = self;
        let (received, sent) = (rate(self.received_bps), rate(self.sent_bps));
        let what = match (self.datagrams, self.retransmits) {
            (Some(Datagrams { sent, lost, jitter_ms }), _) => {
                let share = 100.0 * lost as f64 / sent.max(1) as f64;
                format!(", {lost} of {sent} datagrams lost ({share:.2} %), jitter {jitter_ms:.3} ms")
            }
            (None, Some(1)) => ", 1 retransmit".to_owned(),
            (None, Some(retransmits)) => format!(", {retransmits} retransmits"),
            (None, None) => String::new(),
        };
        let protocol = self.protocol();
        let streams = if *streams == 1 { protocol.to_owned() } else { format!("{streams} streams of {protocol}") };
        format!("{from} -> {to}: {received} received, {sent} sent{what}; {streams} for {:.1} s\n", self.seconds)
    }

    /// One row for programs.
    pub fn rows(&self) -> Rows {
        let mut rows = Rows::new(&[
            "from",
            "to",
            "protocol",
            "streams",
            "seconds",
            "sent-bps",
            "received-bps",
            "retransmits",
            "jitter-ms",
            "lost",
            "datagrams",
            "lost-percent",
        ]);
        let datagrams = self.datagrams;
        let share = |it: Datagrams| 100.0 * it.lost as f64 / it.sent.max(1) as f64;
        rows.push([
            json!(self.from),
            json!(self.to),
            json!(self.protocol().to_lowercase()),
            json!(self.streams),
            json!(self.seconds),
            json!(self.sent_bps),
            json!(self.received_bps),
            json!(self.retransmits),
            json!(datagrams.map(|it| it.jitter_ms)),
            json!(datagrams.map(|it| it.lost)),
            json!(datagrams.map(|it| it.sent)),
            json!(datagrams.map(share)),
        ]);
        rows
    }

    const fn protocol(&self) -> &'static str {
        if self.udp { "UDP" } else { "TCP" }
    }
}

/// A rate with three digits that count.
fn rate(bps: f64) -> String {
    let units = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")];
    let (unit, name) = units.into_iter().find(|(unit, _)| bps >= *unit).unwrap_or((1.0, "bit/s"));
    let value = bps / unit;
    let decimals = match value {
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {name}")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn args(line: &str) -> Iperf {
        let cli = Cli::parse_from(["heddle", "iperf"].into_iter().chain(line.split(' ')));
        let Command::Iperf(args) = cli.command else { panic!("{line}") };
        args
    }

    /// Cut from what iperf 3.12 printed.
    const TCP: &str = r#"{"end":{
        "sum_sent":{"seconds":10.000073,"bytes":117637120,"bits_per_second":94109008.9,"retransmits":3,"sender":true},
        "sum_received":{"seconds":10.04,"bytes":117374976,"bits_per_second":93525877.3,"sender":true}}}"#;

    const UDP: &str = r#"{"end":{"sum":{"seconds":5,"bytes":31250000,"bits_per_second":50000000.0,"jitter_ms":0.0131,"lost_packets":12,"packets":4316,"lost_percent":0.278}}}"#;

    #[test]
    fn tcp_in_a_line() {
        let outcome = Outcome::read(&args("h1 h2"), TCP).unwrap();
        assert_eq!(outcome.line(), "h1 -> h2: 93.5 Mbit/s received, 94.1 Mbit/s sent, 3 retransmits; TCP for 10.0 s\n");
        let outcome = Outcome::read(&args("h1 h2 -R -P 4"), TCP).unwrap();
        assert!(outcome.line().starts_with("h2 -> h1: "), "{}", outcome.line());
        assert!(outcome.line().ends_with("; 4 streams of TCP for 10.0 s\n"), "{}", outcome.line());
    }

    #[test]
    fn udp_in_a_line() {
        let outcome = Outcome::read(&args("h1 h2 -u -b 50M -t 5"), UDP).unwrap();
        assert_eq!(
            outcome.line(),
            "h1 -> h2: 49.9 Mbit/s received, 50.0 Mbit/s sent, 12 of 4316 datagrams lost (0.28 %), jitter 0.013 ms; UDP for 5.0 s\n"
        );
        assert!(Outcome::read(&args("h1 h2 -u"), TCP).is_err());
        // More seemed to arrive than the link carries: what waited came after all had been sent.
        let late = UDP.replace(
            r#""sum":"#,
            r#""sum_received":{"seconds":10},"sum_sent":{"seconds":5,"bits_per_second":50000000.0},"sum":"#,
        );
        let outcome = Outcome::read(&args("h1 h2 -u -b 50M -t 5"), &late).unwrap();
        assert!(outcome.line().starts_with("h1 -> h2: 24.9 Mbit/s received, 50.0 Mbit/s sent"), "{}", outcome.line());
    }

    #[test]
    fn what_is_no_report_is_an_error() {
        let said = |text| Outcome::read(&args("h1 h2"), text).unwrap_err().to_string();
        assert_eq!(said(r#"{"end":{},"error":"unable to connect\u001b[2J"}"#), "iperf3: unable to connect\\u{1b}[2J");
        assert_eq!(said("{}"), "iperf3's report lacks end.sum_sent.bits_per_second");
        assert_eq!(said(""), "iperf3 printed no report");
    }
}
