//! One probe of a server, and one question to its agent.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use balance::agent::{AgentCheck, TEXT_MAX, parse_report};
use balance::health::Check;

use crate::dataplane::OrderKind;

/// How long an agent may take to answer.
const AGENT_PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of an HTTP answer that are looked at.
const ANSWER_MAX: usize = 64 << 10;

/// A probe.
#[derive(Debug)]
pub(super) struct Job {
    /// For whoever waits for the result.
    pub number: u64,
    /// What is done.
    pub check: Check,
    /// Where.
    pub at: SocketAddr,
    /// How long it may take.
    pub patience: Duration,
}

/// Whether a server is well.
pub(super) fn probe(check: &Check, at: SocketAddr, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    match check {
        Check::Tcp => connect(at, deadline).is_ok(),
        Check::Http { is_tls: false, path, host, status_min, status_max, contains } => {
            let host = host.clone().unwrap_or_else(|| at.to_string());
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: heddle\r\nConnection: close\r\n\r\n");
            let is_enough = |answer: &[u8]| is_whole(answer) || contains.is_none() && read_answer(answer).is_some();
            let Ok(answer) = exchange((at, deadline), request.as_bytes(), ANSWER_MAX, is_enough) else { return false };
            let Some((status, body)) = read_answer(&answer) else { return false };
            (*status_min..=*status_max).contains(&status)
                && contains.as_ref().is_none_or(|wanted| String::from_utf8_lossy(body).contains(&**wanted))
        }
        // No file asks for them.
        Check::Http { is_tls: true, .. }
        | Check::Udp { .. }
        | Check::Dns { .. }
        | Check::Grpc { .. }
        | Check::Command { .. } => true,
    }
}

/// The status of an HTTP answer, and its body as far as it is there.
fn read_answer(answer: &[u8]) -> Option<(u16, &[u8])> {
    let rest = answer.strip_prefix(b"HTTP/1.1 ").or_else(|| answer.strip_prefix(b"HTTP/1.0 "))?;
    let status = rest.get(..3).filter(|status| status.iter().all(u8::is_ascii_digit))?;
    let status = str::from_utf8(status).ok()?.parse().ok()?;
    let body = end_of_head(answer).unwrap_or(answer.len());
    Some((status, &answer[body..]))
}

fn end_of_head(answer: &[u8]) -> Option<usize> {
    answer.windows(4).position(|end| end == b"\r\n\r\n").map(|end| end + 4)
}

/// Whether an HTTP answer that says how long it is has come.
fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = end_of_head(answer) else { return false };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    length.is_some_and(|length| answer.len() - end >= length)
}

/// What an agent says: a load report in JSON, by HTTP or not, or the line that `HAProxy` expects. `None` if it says nothing that is understood.
pub(super) fn ask(at: SocketAddr) -> Option<OrderKind> {
    // An agent of HAProxy's kind says its line to whoever connects; one that speaks HTTP waits for the request.
    // Of version 1.0, so that the answer comes in one piece.
    let request = format!("GET /load HTTP/1.0\r\nHost: {at}\r\nConnection: close\r\n\r\n");
    let is_line = |answer: &[u8]| !answer.starts_with(b"HTTP/") && !answer.starts_with(b"{") && answer.contains(&b'\n');
    let is_enough = |answer: &[u8]| is_whole(answer) || is_line(answer);
    let answer = exchange((at, Instant::now() + AGENT_PATIENCE), request.as_bytes(), TEXT_MAX, is_enough).ok()?;
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

fn connect(at: SocketAddr, deadline: Instant) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&at, left(deadline)?)
}

/// How long is left; an error if nothing is.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Says something, and reads what comes until the other side ends, or so many bytes, or what is enough.
fn exchange(
    (at, deadline): (SocketAddr, Instant),
    request: &[u8],
    most: usize,
    is_enough: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    let mut stream = connect(at, deadline)?;
    stream.set_write_timeout(Some(left(deadline)?))?;
    // Who closes at once has said what he had to say.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let mut piece = [0; 2_048];
    while answer.len() < most && !is_enough(&answer) {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // It has closed without reading what was said.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset && !answer.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    answer.truncate(most);
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// A server that gives this answer to one connection.
    fn server(answer: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1_024];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(answer);
        });
        at
    }

    const PATIENCE: Duration = Duration::from_secs(60);

    fn http(contains: Option<&str>) -> Check {
        let contains = contains.map(str::to_owned);
        Check::Http { is_tls: false, path: "/".to_owned(), host: None, status_min: 200, status_max: 399, contains }
    }

    #[test]
    fn a_server_is_well_if_it_answers_as_it_should() {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(probe(&Check::Tcp, listening.local_addr().unwrap(), PATIENCE));
        let gone = listening.local_addr().unwrap();
        drop(listening);
        assert!(!probe(&Check::Tcp, gone, PATIENCE) && !probe(&http(None), gone, PATIENCE));
        for (answer, contains, is_good) in [
            (&b"HTTP/1.1 200 OK\r\n\r\nfine"[..], None, true),
            (b"HTTP/1.1 200 OK\r\n\r\nfine", Some("fine"), true),
            (b"HTTP/1.1 200 OK\r\nx: fine\r\n\r\nbad", Some("fine"), false),
            (b"HTTP/1.0 503 Service Unavailable\r\n\r\n", None, false),
            (b"HTTP/1.9x200 OK\r\n\r\n", None, false),
            (b"SSH-2.0", None, false),
            (b"", None, false),
        ] {
            assert_eq!(
                probe(&http(contains), server(answer), PATIENCE),
                is_good,
                "{}",
                String::from_utf8_lossy(answer)
            );
        }
    }

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
}
