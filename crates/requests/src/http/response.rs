//! Answers: as a server writes them, and as a client reads them.

use std::io::Write;

use super::chunked::ChunkedReader;
use super::request::{content_length, has_token};

/// The longest head of an answer that is read.
pub const HEAD_MAX: usize = 16 << 10;
/// The most headers of an answer that is read.
const HEADERS_MAX: usize = 64;

/// What an answer carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Body {
    /// Nothing.
    #[default]
    Empty,
    /// These bytes.
    Bytes(Vec<u8>),
    /// So many bytes that mean nothing.
    Filler(u64),
}

/// An answer to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// As 200.
    pub status: u16,
    /// As `text/plain`.
    pub content_type: &'static str,
    /// What it carries.
    pub body: Body,
    /// The value of a header `endpoint-load-metrics`, as ORCA has it.
    pub load_report: Option<String>,
}

impl Response {
    /// An answer without content.
    pub const fn empty(status: u16) -> Self {
        Self { status, content_type: "text/plain", body: Body::Empty, load_report: None }
    }

    /// A page of so many bytes.
    pub const fn filler(bytes: u64) -> Self {
        let body = if bytes == 0 { Body::Empty } else { Body::Filler(bytes) };
        Self { status: 200, content_type: "text/html", body, load_report: None }
    }

    /// A line of text.
    pub fn text(status: u16, text: &str) -> Self {
        let line = format!("{text}\n").into_bytes();
        Self { status, content_type: "text/plain; charset=utf-8", body: Body::Bytes(line), load_report: None }
    }

    /// A value as JSON.
    pub fn json(value: &serde_json::Value) -> Self {
        let line = format!("{value}\n").into_bytes();
        Self { status: 200, content_type: "application/json", body: Body::Bytes(line), load_report: None }
    }

    /// Bytes of the content.
    pub fn body_length(&self) -> u64 {
        match &self.body {
            Body::Empty => 0,
            Body::Bytes(bytes) => bytes.len() as u64,
            Body::Filler(bytes) => *bytes,
        }
    }

    /// Writes the head.
    pub fn write_head(&self, keep_alive: bool, to: &mut Vec<u8>) {
        let line: &[u8] = match self.status {
            200 => b"HTTP/1.1 200 OK\r\n",
            400 => b"HTTP/1.1 400 Bad Request\r\n",
            404 => b"HTTP/1.1 404 Not Found\r\n",
            405 => b"HTTP/1.1 405 Method Not Allowed\r\n",
            413 => b"HTTP/1.1 413 Content Too Large\r\n",
            431 => b"HTTP/1.1 431 Request Header Fields Too Large\r\n",
            501 => b"HTTP/1.1 501 Not Implemented\r\n",
            503 => b"HTTP/1.1 503 Service Unavailable\r\n",
            _ => b"HTTP/1.1 500 Internal Server Error\r\n",
        };
        to.extend_from_slice(line);
        if self.status == 405 {
            to.extend_from_slice(b"Allow: GET, HEAD, POST\r\n");
        }
        if self.body == Body::Empty {
            to.extend_from_slice(b"Content-Length: 0\r\n");
        } else {
            write!(to, "Content-Type: {}\r\nContent-Length: {}\r\n", self.content_type, self.body_length())
                .expect("a Vec takes everything");
        }
        if let Some(report) = &self.load_report {
            write!(to, "endpoint-load-metrics: {report}\r\n").expect("a Vec takes everything");
        }
        to.extend_from_slice(if keep_alive { b"\r\n" } else { b"Connection: close\r\n\r\n" });
    }
}

/// An answer that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// As 200.
    pub status: u16,
    /// Bytes of its content.
    pub bytes: u64,
    /// Whether the connection may be asked again.
    pub keep_alive: bool,
}

/// This is no answer that HTTP/1.1 knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

#[derive(Clone, Debug, Default)]
enum Reading {
    #[default]
    Head,
    Length(u64),
    Chunked(ChunkedReader),
    UntilClosed,
}

/// Reads one answer after another from a connection, a piece at a time, and lets go of their content.
#[derive(Clone, Debug, Default)]
pub struct AnswerReader {
    /// What there is of a head that is not complete.
    head: Vec<u8>,
    reading: Reading,
    answer: Option<Answer>,
}

impl AnswerReader {
    /// Takes bytes as far as the answer goes: the answer, if it is complete, and how many were taken.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn take(&mut self, bytes: &[u8]) -> Result<(Option<Answer>, usize), Malformed> {
        let mut taken = 0;
        if self.answer.is_none() {
            taken = self.take_head(bytes)?;
        }
        if self.answer.is_none() {
            return Ok((None, taken));
        }
        let (content, is_over) = self.take_content(&bytes[taken..])?;
        Ok((is_over.then(|| self.complete()), taken + content))
    }

    /// The connection has been closed: the answer, if that completes it.
    pub fn close(&mut self) -> Option<Answer> {
        let is_complete = self.answer.is_some() && matches!(self.reading, Reading::UntilClosed);
        is_complete.then(|| self.complete())
    }

    /// Whether a part of an answer is there.
    pub const fn has_begun(&self) -> bool {
        self.answer.is_some() || !self.head.is_empty()
    }

    fn complete(&mut self) -> Answer {
        self.reading = Reading::Head;
        self.answer.take().expect("its head was read")
    }

    fn take_head(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        // The usual case: it is there as a whole.
        if self.head.is_empty() {
            if let Some(length) = self.parse_head(bytes)? {
                return Ok(length);
            }
            self.head.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        let before = self.head.len();
        self.head.extend_from_slice(&bytes[..bytes.len().min(HEAD_MAX)]);
        let head = std::mem::take(&mut self.head);
        if let Some(length) = self.parse_head(&head)? {
            return Ok(length.saturating_sub(before));
        }
        let taken = head.len() - before;
        self.head = head;
        Ok(taken)
    }

    /// The length of the head, if it is complete; interim answers (100 Continue) are a part of it.
    fn parse_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let mut before = 0;
        loop {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
            let mut parsed = httparse::Response::new(&mut headers);
            let length = match parsed.parse(&bytes[before..]) {
                Ok(httparse::Status::Complete(length)) => length,
                Ok(httparse::Status::Partial) if bytes.len() < HEAD_MAX => return Ok(None),
                Ok(httparse::Status::Partial) | Err(_) => return Err(Malformed),
            };
            before += length;
            match parsed.code {
                Some(101) | None => return Err(Malformed),
                Some(100..=199) => {}
                Some(status) => {
                    self.begin(status, parsed.version == Some(1), parsed.headers)?;
                    return Ok(Some(before));
                }
            }
        }
    }

    fn begin(&mut self, status: u16, is_1_1: bool, headers: &[httparse::Header<'_>]) -> Result<(), Malformed> {
        let (mut length, mut is_chunked, mut closes, mut keeps) = (None, false, false, false);
        for header in headers {
            if header.name.eq_ignore_ascii_case("content-length") {
                let this = content_length(header.value).ok_or(Malformed)?;
                if length.is_some_and(|other| other != this) {
                    return Err(Malformed);
                }
                length = Some(this);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                is_chunked = has_token(header.value, "chunked");
            } else if header.name.eq_ignore_ascii_case("connection") {
                closes |= has_token(header.value, "close");
                keeps |= has_token(header.value, "keep-alive");
            }
        }
        self.reading = match (is_chunked, length) {
            _ if status == 204 || status == 304 => Reading::Length(0),
            (true, _) => Reading::Chunked(ChunkedReader::default()),
            (false, Some(length)) => Reading::Length(length),
            (false, None) => Reading::UntilClosed,
        };
        let is_delimited = !matches!(self.reading, Reading::UntilClosed);
        let keep_alive = is_delimited && if is_1_1 { !closes } else { keeps };
        self.answer = Some(Answer { status, bytes: 0, keep_alive });
        Ok(())
    }

    /// How many bytes belong to the content, and whether it is over.
    fn take_content(&mut self, bytes: &[u8]) -> Result<(usize, bool), Malformed> {
        let (taken, content, is_over) = match &mut self.reading {
            Reading::Head => unreachable!("the head was read"),
            Reading::Length(left) => {
                let here = (*left).min(bytes.len() as u64);
                *left -= here;
                (here as usize, here, *left == 0)
            }
            Reading::Chunked(reader) => {
                let (taken, content) = reader.take(bytes).ok_or(Malformed)?;
                (taken, content, reader.is_over())
            }
            Reading::UntilClosed => (bytes.len(), bytes.len() as u64, false),
        };
        if let Some(answer) = &mut self.answer {
            answer.bytes += content;
        }
        Ok((taken, is_over))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn written(response: &Response, keep_alive: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        response.write_head(keep_alive, &mut bytes);
        match &response.body {
            Body::Empty => {}
            Body::Bytes(body) => bytes.extend_from_slice(body),
            Body::Filler(length) => bytes.resize(bytes.len() + *length as usize, b'x'),
        }
        bytes
    }

    #[test]
    fn answers_end_as_they_say() {
        for (text, bytes, keep_alive) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 3, true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc", 3, false),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 3, true),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", 0, true),
            ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 0, false),
        ] {
            let found = AnswerReader::default().take(text.as_bytes()).expect("it is one");
            let (answer, taken) = (found.0.expect("it is whole"), found.1);
            assert_eq!((answer.bytes, answer.keep_alive, taken), (bytes, keep_alive, text.len()), "{text}");
        }
        let mut reader = AnswerReader::default();
        assert_eq!(reader.take(b"HTTP/1.1 200 OK\r\n\r\nabc"), Ok((None, 22)));
        assert_eq!(reader.close(), Some(Answer { status: 200, bytes: 3, keep_alive: false }));
        assert_eq!((AnswerReader::default().close(), reader.has_begun()), (None, false));
    }

    #[test]
    fn nonsense_is_refused() {
        for wrong in ["SSH-2.0-x\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "HTTP/1.1 101 Up\r\n\r\n"] {
            assert_eq!(AnswerReader::default().take(wrong.as_bytes()), Err(Malformed), "{wrong}");
        }
        let mut endless = AnswerReader::default();
        let outcome =
            std::iter::repeat_with(|| endless.take(b"HTTP/1.1 200 OK\r\na: ").and_then(|_| endless.take(&[b'a'; 900])));
        assert!(outcome.take(40).any(|it| it.is_err()), "a head without an end is given up");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_in_any_pieces(status in 200..600_u16, length in 0..300_u64, keep_alive: bool, pieces in prop::collection::vec(1..40_usize, 1..50)) {
            let status = if status == 204 || status == 304 { 200 } else { status };
            let response = Response { status, ..Response::filler(length) };
            let bytes = written(&response, keep_alive);
            let (mut reader, mut at) = (AnswerReader::default(), 0);
            for piece in pieces.iter().cycle() {
                let (answer, taken) = reader.take(&bytes[at..(at + piece).min(bytes.len())]).expect("it is one");
                at += taken;
                if let Some(answer) = answer {
                    prop_assert_eq!((answer.bytes, answer.keep_alive, at), (length, keep_alive, bytes.len()));
                    break;
                }
            }
        }

        #[test]
        fn no_bytes_break_it(pieces in prop::collection::vec(prop::collection::vec(0..=255_u8, 0..60), 0..6)) {
            let mut reader = AnswerReader::default();
            for piece in pieces {
                match reader.take(&[b"HTTP/1.1 200 OK\r\n", &piece[..]].concat()) {
                    Ok((_, taken)) => prop_assert!(taken <= piece.len() + 17),
                    Err(Malformed) => break,
                }
            }
        }
    }
}
