//! One question to the agent of a server.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use balance::agent::{AgentCheck, TEXT_MAX, parse_report};
use balance::health::http::{is_whole, read_answer};

use super::stream::{DeadlineStream, exchange};
use crate::dataplane::OrderKind;

/// How long an agent may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of an answer: a text as long as any that is understood, and what HTTP says before it.
const ANSWER_MAX: usize = TEXT_MAX + (8 << 10);

/// What an agent says: a load report in JSON, by HTTP or not, or the line that `HAProxy` expects. `None` if it says nothing that is understood.
pub(super) fn ask(at: SocketAddr) -> Option<OrderKind> {
    // An agent of HAProxy's kind says its line to whoever connects; one that speaks HTTP waits for the request.
    // Of version 1.0, so that the answer comes in one piece.
    let request = format!("GET /load HTTP/1.0\r\nHost: {at}\r\nConnection: close\r\n\r\n");
    let is_line = |answer: &[u8]| !answer.starts_with(b"HTTP/") && !answer.starts_with(b"{") && answer.contains(&b'\n');
    let is_enough = |answer: &[u8]| is_whole(answer) || is_line(answer);
    let mut stream = DeadlineStream::connect(at, Instant::now() + PATIENCE).ok()?;
    let answer = exchange(&mut stream, request.as_bytes(), ANSWER_MAX, is_enough).ok()?;
    let text = match read_answer(&answer) {
        Some((200, body)) => body,
        Some(_) => return None,
        None => &answer,
    };
    if text.trim_ascii_start().starts_with(b"{") {
        return parse_report(text.trim_ascii()).ok().map(OrderKind::Report);
    }
    AgentCheck::parse(text).ok().filter(|_| !text.trim_ascii().is_empty()).map(OrderKind::Agent)
}

#[cfg(test)]
mod tests {
    use super::super::hostile::server;
    use super::*;

    #[test]
    fn agents_are_understood_in_both_tongues() {
        let Some(OrderKind::Agent(line)) = ask(server(b"up 75%\n")) else { panic!("HAProxy's") };
        assert_eq!(line.weight_percent, Some(75));
        for answer in [&b"{\"cpu_utilization\": 0.5}"[..], b"HTTP/1.1 200 OK\r\n\r\n{\"cpu_utilization\": 0.5}"] {
            let Some(OrderKind::Report(report)) = ask(server(answer)) else { panic!("ORCA's") };
            assert_eq!(report.cpu_permille, Some(500));
        }
        for nonsense in [&b"HTTP/1.1 404 Not Found\r\n\r\nup"[..], b"hello", b"{", b"\xff\xfe", b""] {
            assert!(ask(server(nonsense)).is_none(), "{}", String::from_utf8_lossy(nonsense));
        }
    }

    /// What HTTP says before it does not count for how long a report may be.
    #[test]
    fn a_long_report_behind_long_headers_is_read() {
        let report = format!("{{\"cpu_utilization\": 0.5{}}}", " ".repeat(TEXT_MAX - 30));
        let headers =
            format!("HTTP/1.1 200 OK\r\nx: {}\r\nContent-Length: {}\r\n\r\n", "x".repeat(4_000), report.len());
        let answer = (headers + &report).into_bytes();
        assert!(matches!(ask(server(answer.leak())), Some(OrderKind::Report(_))));
    }
}
