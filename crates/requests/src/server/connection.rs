//! One connection of a server: bytes in, requests; answers, bytes out.

use std::io;

use machine::Time;

use super::listener::Stream;
use crate::http::request::{BODY_MAX, HEAD_MAX, RequestError};
use crate::http::{Body, Request, Response};

/// Bytes that mean nothing, of which pages are made.
pub(super) static FILLER: [u8; 64 << 10] = {
    let mut bytes = [b' '; 64 << 10];
    let mut at = 0;
    while at < bytes.len() {
        // Lines of letters, so that a page can be looked at.
        bytes[at] = if at % 64 == 63 { b'\n' } else { b'a' + (at % 26) as u8 };
        at += 1;
    }
    bytes
};

/// The longest request, in bytes. What comes beyond it waits in the kernel.
const INPUT_MAX: usize = HEAD_MAX + BODY_MAX;

/// An answer up to this length goes out together with its head, in bytes.
const TOGETHER_MAX: u64 = 16 << 10;

/// Memory for answers that a connection keeps, in bytes.
const OUTPUT_KEPT: usize = 32 << 10;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It waits for a request, or for the rest of one.
    Reading,
    /// A request waits for its answer.
    Waiting,
    /// An answer goes out.
    Writing,
    /// Its last answer has gone out; what the client still sends is let go, so that the answer is not lost with a reset.
    Lingering,
}

/// What reading has brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing more for now.
    Blocked,
    /// The client has closed its side, or the connection is broken.
    Gone,
}

#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each says something else")]
pub(super) struct Connection {
    pub stream: Stream,
    pub phase: Phase,
    /// When it is given up.
    pub deadline: Time,
    /// What was read and is no whole request yet, or is for later.
    input: Vec<u8>,
    has_unread: bool,
    output: Vec<u8>,
    written: usize,
    filler_left: u64,
    keep_alive: bool,
    is_head: bool,
    is_broken: bool,
}

impl Connection {
    pub fn new(stream: Stream, deadline: Time) -> Self {
        Self {
            stream,
            phase: Phase::Reading,
            deadline,
            input: Vec::new(),
            has_unread: false,
            output: Vec::new(),
            written: 0,
            filler_left: 0,
            keep_alive: true,
            is_head: false,
            is_broken: false,
        }
    }

    /// Reads what is there, as far as one request may reach; more stays in the kernel.
    pub fn read(&mut self, scratch: &mut [u8]) -> Progress {
        loop {
            self.has_unread = self.input.len() > INPUT_MAX;
            if self.has_unread {
                return Progress::Blocked;
            }
            match self.stream.read(scratch) {
                Ok(0) => return Progress::Gone,
                Ok(_) if self.phase == Phase::Lingering => {}
                Ok(count) => {
                    self.input.extend_from_slice(&scratch[..count]);
                    if count < scratch.len() {
                        return Progress::Blocked;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Progress::Blocked,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Progress::Gone,
            }
        }
    }

    /// The next request, if it is all there, and `handle`'s result.
    pub fn next_request<T>(&mut self, handle: impl FnOnce(&Request<'_>) -> T) -> Result<Option<T>, RequestError> {
        if self.input.is_empty() {
            return Ok(None);
        }
        let Some(request) = Request::parse(&self.input)? else { return Ok(None) };
        (self.keep_alive, self.is_head) = (request.keep_alive, request.method == "HEAD");
        let (length, handled) = (request.length, handle(&request));
        if length == self.input.len() {
            self.input.clear();
        } else {
            self.input.drain(..length);
        }
        self.phase = Phase::Waiting;
        Ok(Some(handled))
    }

    /// Whether a part of a request is there.
    pub fn has_input(&self) -> bool {
        !self.input.is_empty()
    }

    /// Whether there may be more in the kernel, of which no event says anything any more.
    pub fn has_unread(&self) -> bool {
        self.has_unread
    }

    /// This answer is the last one.
    pub fn answer_and_close(&mut self, response: Response) {
        self.keep_alive = false;
        self.answer(response);
    }

    /// An answer is to go out. [`Self::write`] does it.
    pub fn answer(&mut self, response: Response) {
        response.write_head(self.keep_alive, &mut self.output);
        self.phase = Phase::Writing;
        if self.is_head {
            return;
        }
        match response.body {
            Body::Empty => {}
            Body::Bytes(bytes) => self.output.extend_from_slice(&bytes),
            Body::Filler(length) if length <= TOGETHER_MAX => self.output.extend_from_slice(&FILLER[..length as usize]),
            Body::Filler(length) => self.filler_left = length,
        }
    }

    /// A line goes out, and nothing else.
    pub fn send_line(&mut self, line: &str) {
        self.keep_alive = false;
        self.output.extend_from_slice(line.as_bytes());
        self.phase = Phase::Writing;
    }

    /// Writes as much as the client takes. Whether something went out.
    pub fn write(&mut self) -> bool {
        let mut has_progress = false;
        loop {
            let piece = if self.written < self.output.len() {
                &self.output[self.written..]
            } else {
                &FILLER[..self.filler_left.min(FILLER.len() as u64) as usize]
            };
            if piece.is_empty() {
                self.complete();
                return has_progress;
            }
            match self.stream.write(piece) {
                Ok(count) => {
                    has_progress |= count > 0;
                    if self.written < self.output.len() {
                        self.written += count;
                    } else {
                        self.filler_left -= count as u64;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return has_progress,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.is_broken = true;
                    return has_progress;
                }
            }
        }
    }

    /// Nobody is there any more.
    pub const fn is_broken(&self) -> bool {
        self.is_broken
    }

    fn complete(&mut self) {
        self.output.clear();
        self.written = 0;
        // An answer that long is rare: its memory is not kept.
        if self.output.capacity() > OUTPUT_KEPT {
            self.output = Vec::new();
        }
        if self.keep_alive {
            self.phase = Phase::Reading;
        } else {
            self.phase = Phase::Lingering;
            self.stream.finish();
        }
    }
}
