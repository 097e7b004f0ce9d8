//! One client: a connection, and the request that it waits for.

use std::io::{self, Read, Write};

use machine::Time;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use workload::service::{Failure, Outcome};

use super::connect::Connector;
use crate::http::response::{Answer, AnswerReader};

/// How often a connection is read in a turn: others, timeouts and the end have theirs, however fast a server sends.
const READS_MAX: usize = 8;

/// A client. It has one request under way at most.
#[derive(Debug, Default)]
pub(super) struct Client {
    stream: Option<TcpStream>,
    /// A connection that has had its last answer, and that its server has not closed yet.
    parted: Option<TcpStream>,
    /// The server sends nothing more on it, as epoll says.
    is_closed: bool,
    /// More may be there than a turn reads. No event will say so.
    has_unread: bool,
    request: Vec<u8>,
    sent: usize,
    reader: AnswerReader,
    /// When its request began; nothing if there is none.
    began: Option<Time>,
}

/// Why an operation on a socket failed.
fn failure(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Failure::Refused,
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::NotConnected
        | io::ErrorKind::UnexpectedEof => Failure::Reset,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable | io::ErrorKind::NetworkDown => {
            Failure::Unreachable
        }
        io::ErrorKind::TimedOut => Failure::TimedOut,
        _ => Failure::Local,
    }
}

impl Client {
    /// Where the next request is to be written.
    pub fn request_buffer(&mut self) -> &mut Vec<u8> {
        self.request.clear();
        &mut self.request
    }

    /// Since when a request is under way.
    pub const fn began(&self) -> Option<Time> {
        self.began
    }

    /// Sends the request that is in the buffer, on the connection that there is or a new one.
    pub fn begin(&mut self, now: Time, slot: u32, connector: &mut Connector, registry: &Registry) -> Option<Outcome> {
        self.began = Some(now);
        self.sent = 0;
        if self.stream.is_none() {
            let connected = connector.connect().and_then(|mut stream| {
                registry.register(&mut stream, Token(slot as usize), Interest::READABLE | Interest::WRITABLE)?;
                Ok(stream)
            });
            match connected {
                Ok(stream) => self.stream = Some(stream),
                Err(error) => return self.fail(failure(&error)),
            }
        }
        self.send()
    }

    /// Sends what is left of the request.
    pub fn send(&mut self) -> Option<Outcome> {
        if self.began.is_none() || self.sent == self.request.len() {
            return None;
        }
        let stream = self.stream.as_mut()?;
        while self.sent < self.request.len() {
            match stream.write(&self.request[self.sent..]) {
                Ok(count) => self.sent += count,
                // So does a connection that is not there yet.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::NotConnected => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let failure = failure(&error);
                    return self.fail(failure);
                }
            }
        }
        None
    }

    /// Reads what is there, or as much of it as a turn may take ([`Self::has_unread`]). The outcome, if that completes the request.
    pub fn read(&mut self, scratch: &mut [u8], is_closed: bool) -> Option<Outcome> {
        self.has_unread = false;
        self.is_closed |= is_closed;
        let outcome = self.read_turn(scratch);
        if self.is_closed && outcome.is_some() {
            // The server wants no more requests on it, whatever its answer says.
            self.disconnect();
        }
        outcome
    }

    /// Whether a turn has ended before everything was read: another one is needed.
    pub const fn has_unread(&self) -> bool {
        self.has_unread
    }

    /// The same, and it is that turn that comes now.
    pub const fn take_unread(&mut self) -> bool {
        std::mem::replace(&mut self.has_unread, false)
    }

    fn read_turn(&mut self, scratch: &mut [u8]) -> Option<Outcome> {
        for _ in 0..READS_MAX {
            let stream = self.stream.as_mut()?;
            match stream.read(scratch) {
                Ok(0) => return self.closed(),
                Ok(count) => {
                    if let Some(outcome) = self.take(&scratch[..count]) {
                        return Some(outcome);
                    }
                    // What was read is all that was there, unless the end of it all is there as well.
                    if count < scratch.len() && !self.is_closed {
                        return None;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if self.began.is_some() => return self.fail(failure(&error)),
                Err(_) => {
                    self.disconnect();
                    return None;
                }
            }
        }
        self.has_unread = self.stream.is_some();
        None
    }

    fn take(&mut self, bytes: &[u8]) -> Option<Outcome> {
        if self.began.is_none() {
            // Nobody has asked: such a server's next answer would not be the one to the next question.
            self.disconnect();
            return None;
        }
        match self.reader.take(bytes) {
            Err(_) => self.fail(Failure::Malformed),
            Ok((None, _)) => None,
            Ok((Some(answer), taken)) => {
                // More than was asked for.
                let is_exact = taken == bytes.len() && self.sent == self.request.len();
                Some(self.complete(answer, is_exact))
            }
        }
    }

    fn complete(&mut self, answer: Answer, is_exact: bool) -> Outcome {
        self.began = None;
        if !is_exact {
            self.disconnect();
        } else if !answer.keep_alive {
            self.part();
        }
        match answer.status {
            400..=499 => Outcome::Failed(Failure::Status4xx),
            500..=599 => Outcome::Failed(Failure::Status5xx),
            _ => Outcome::Done { bytes: answer.bytes },
        }
    }

    /// The server has closed the connection.
    fn closed(&mut self) -> Option<Outcome> {
        if self.began.is_none() {
            self.disconnect();
            return None;
        }
        match self.reader.close() {
            Some(answer) => {
                self.disconnect();
                Some(self.complete(answer, true))
            }
            None => self.fail(Failure::Reset),
        }
    }

    /// The request has failed, and the connection with it.
    pub fn fail(&mut self, failure: Failure) -> Option<Outcome> {
        self.disconnect();
        self.reader = AnswerReader::default();
        self.began.take().map(|_| Outcome::Failed(failure))
    }

    /// A connection that is not wanted any more.
    pub fn disconnect(&mut self) {
        self.stream = None;
        (self.is_closed, self.has_unread) = (false, false);
    }

    /// Lets go of a connection after its last answer, if it has not yet.
    pub fn part(&mut self) {
        if let Some(stream) = self.stream.take()
            && !self.is_closed
        {
            self.parted = Some(stream);
        }
        self.disconnect();
    }

    /// The connection that was let go last, unless its server has closed it already.
    pub const fn take_parted(&mut self) -> Option<TcpStream> {
        self.parted.take()
    }

    /// The error of a connection that was not made, if it has one.
    pub fn connection_error(&mut self) -> Option<Outcome> {
        let error = self.stream.as_ref()?.take_error().ok().flatten()?;
        if self.began.is_none() {
            self.disconnect();
            return None;
        }
        self.fail(failure(&error))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_turn_reads_a_bounded_part_and_says_that_more_is_there() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let mut connector = Connector::new(&[listener.local_addr().expect("it is bound")], &[]).expect("no sources");
        let poll = mio::Poll::new().expect("an epoll");
        let mut client = Client::default();
        client.request_buffer().extend_from_slice(b"GET / HTTP/1.1\r\n\r\n");
        assert_eq!(client.begin(Time::ZERO, 0, &mut connector, poll.registry()), None);
        let (mut server, _) = listener.accept().expect("it comes");
        while client.sent < client.request.len() {
            assert_eq!(client.send(), None);
        }
        let answer = [&b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"[..], &[b'x'; 1_000]].concat();
        server.write_all(&answer).expect("it is sent");
        let mut all = vec![0; answer.len()];
        while client.stream.as_ref().is_none_or(|stream| stream.peek(&mut all).ok() != Some(answer.len())) {
            std::thread::yield_now();
        }
        let mut scratch = [0; 10];
        let full_turns = answer.len() / (scratch.len() * READS_MAX);
        assert!(full_turns > 1, "however fast it comes, it is not read in one turn");
        for _ in 0..full_turns {
            assert_eq!((client.read(&mut scratch, false), client.take_unread()), (None, true));
        }
        let outcome = client.read(&mut scratch, false);
        assert_eq!((outcome, client.has_unread()), (Some(Outcome::Done { bytes: 1_000 }), false));
    }
}
