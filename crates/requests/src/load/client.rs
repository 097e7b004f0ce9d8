//! One client: a connection, and the request that it waits for.

use std::io::{self, Read, Write};

use machine::Time;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use workload::service::{Failure, Outcome};

use super::connect::Connector;
use crate::http::response::{Answer, AnswerReader};

/// A client. It has one request under way at most.
#[derive(Debug, Default)]
pub(super) struct Client {
    stream: Option<TcpStream>,
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

    /// Reads what is there. The outcome, if that completes the request.
    pub fn read(&mut self, scratch: &mut [u8], is_closed: bool) -> Option<Outcome> {
        loop {
            let stream = self.stream.as_mut()?;
            match stream.read(scratch) {
                Ok(0) => return self.closed(),
                Ok(count) => {
                    if let Some(outcome) = self.take(&scratch[..count]) {
                        return Some(outcome);
                    }
                    // What was read is all that was there, unless the end of it all is there as well.
                    if count < scratch.len() && !is_closed {
                        return None;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if self.began.is_some() => return self.fail(failure(&error)),
                Err(_) => {
                    self.stream = None;
                    return None;
                }
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Option<Outcome> {
        if self.began.is_none() {
            // Nobody has asked: such a server's next answer would not be the one to the next question.
            self.stream = None;
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
        if !answer.keep_alive || !is_exact {
            self.stream = None;
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
            self.stream = None;
            return None;
        }
        match self.reader.close() {
            Some(answer) => {
                self.stream = None;
                Some(self.complete(answer, true))
            }
            None => self.fail(Failure::Reset),
        }
    }

    /// The request has failed, and the connection with it.
    pub fn fail(&mut self, failure: Failure) -> Option<Outcome> {
        self.stream = None;
        self.reader = AnswerReader::default();
        self.began.take().map(|_| Outcome::Failed(failure))
    }

    /// A connection that is not wanted any more.
    pub fn disconnect(&mut self) {
        self.stream = None;
    }

    /// The error of a connection that was not made, if it has one.
    pub fn connection_error(&mut self) -> Option<Outcome> {
        let error = self.stream.as_ref()?.take_error().ok().flatten()?;
        if self.began.is_none() {
            self.stream = None;
            return None;
        }
        self.fail(failure(&error))
    }
}
