//! What waits in a connection: bytes that came in and are no whole frame, bytes that are not sent.
//!
//! Both take what they hold and little more, and nothing once they are empty: there may be thousands of connections.

use std::collections::VecDeque;
use std::io::{self, Read};

use serde::Serialize;
use store::protocol::{FrameError, encode_frame};

/// Room for what comes in, at first.
pub(super) const INBOX_BYTES: usize = 4 << 10;

/// An empty inbox that has grown beyond this is made small again.
const KEPT_BYTES: usize = 64 << 10;

/// Messages are gathered until they are so long: each such chunk is one write.
const CHUNK_BYTES: usize = 64 << 10;

/// What is to be sent; with TLS, not yet encrypted.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// In order; none is empty, but for the only one.
    chunks: VecDeque<Vec<u8>>,
    /// Bytes of the first that are sent.
    sent: usize,
    waiting: usize,
}

impl Outbox {
    /// Bytes that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Puts a message behind what waits.
    ///
    /// # Errors
    /// [`FrameError::TooLong`]; nothing is put.
    pub fn put<T: Serialize>(&mut self, message: &T) -> Result<(), FrameError> {
        if self.chunks.back().is_none_or(|last| last.len() >= CHUNK_BYTES) {
            self.chunks.push_back(Vec::new());
        }
        let chunk = self.chunks.back_mut().expect("there is one");
        let before = chunk.len();
        let outcome = encode_frame(message, chunk);
        self.waiting += chunk.len() - before;
        // A vector that grew may have room for as much again.
        if chunk.len() > CHUNK_BYTES {
            chunk.shrink_to(chunk.len());
        }
        if before == 0 && outcome.is_err() {
            self.chunks.pop_back();
        }
        outcome
    }

    /// The next bytes to send: none if nothing waits.
    pub fn front(&self) -> &[u8] {
        self.chunks.front().map_or(&[], |chunk| &chunk[self.sent..])
    }

    /// Counts so many bytes as sent.
    pub fn advance(&mut self, bytes: usize) {
        self.sent += bytes;
        self.waiting -= bytes;
        let mut first = self.chunks.pop_front().expect("it was sent from");
        if self.sent < first.len() {
            if self.sent >= CHUNK_BYTES.max(first.len() / 2) {
                // What is sent is given back: what waits is all that is counted. Each byte moves once in all, about.
                first = first[self.sent..].to_vec();
                self.sent = 0;
            }
            self.chunks.push_front(first);
            return;
        }
        self.sent = 0;
        if self.chunks.is_empty() && first.capacity() <= KEPT_BYTES {
            first.clear();
            self.chunks.push_front(first);
        }
    }
}

/// Bytes that came in and were not taken yet.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// All of it is initialised; content is `start..end`.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Inbox {
    pub fn content(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Bytes of memory beyond what every connection has.
    pub fn extra(&self) -> usize {
        self.bytes.len().saturating_sub(INBOX_BYTES)
    }

    pub fn take(&mut self, bytes: usize) {
        self.start += bytes;
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            if self.bytes.len() > KEPT_BYTES {
                self.bytes = Vec::new();
            }
        }
    }

    /// Room behind the content, at least `wanted` bytes.
    pub fn room(&mut self, wanted: usize) -> &mut [u8] {
        if self.bytes.len() - self.end < wanted {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.bytes.len() - self.end < wanted {
                self.bytes.resize((self.bytes.len() * 2).max(self.end + wanted).max(INBOX_BYTES), 0);
            }
        }
        &mut self.bytes[self.end..]
    }

    pub fn fill(&mut self, bytes: usize) -> usize {
        self.end += bytes;
        bytes
    }

    /// Reads until the source has nothing more, or `turn_bytes` were read.
    pub fn receive(&mut self, source: &mut impl Read, to_the_end: bool, turn_bytes: usize) -> io::Result<Received> {
        let mut turn = 0;
        while turn < turn_bytes {
            let room = self.room(INBOX_BYTES / 2);
            let wanted = room.len().min(turn_bytes - turn);
            let room = &mut room[..wanted];
            match source.read(room) {
                Ok(0) => return Ok(Received::Ended),
                Ok(read) => {
                    turn += self.fill(read);
                    if read < wanted && !to_the_end {
                        return Ok(Received::All);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Received::All),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Received::More)
    }
}

/// What came of an attempt to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// There is nothing more for now.
    All,
    /// There may be more: receive again, without waiting for an event.
    More,
    /// The other side has ended. Frames that came before are there.
    Ended,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_comes_out_in_order_and_leaves_nothing() {
        let mut outbox = Outbox::default();
        let mut expected = Vec::new();
        for length in [10, 100_000, 3, 70_000, 0, 200_000] {
            let message = vec![length as u8; length];
            outbox.put(&message).unwrap();
            encode_frame(&message, &mut expected).unwrap();
        }
        assert_eq!(outbox.waiting(), expected.len());
        let mut sent = Vec::new();
        while !outbox.front().is_empty() {
            let some = outbox.front().len().min(33_333);
            sent.extend_from_slice(&outbox.front()[..some]);
            outbox.advance(some);
        }
        assert_eq!(sent, expected);
        assert_eq!(outbox.waiting(), 0);
        assert!(outbox.chunks.iter().map(Vec::capacity).sum::<usize>() <= KEPT_BYTES);
    }

    /// Whoever reads all but the end of long messages makes nobody hold them.
    #[test]
    fn what_is_sent_is_given_back() {
        let mut outbox = Outbox::default();
        outbox.put(&vec![7_u8; 8_000_000]).unwrap();
        while outbox.waiting() > 100_000 {
            assert!(outbox.chunks[0].capacity() <= 2 * outbox.waiting() + 2 * CHUNK_BYTES, "{}", outbox.waiting());
            outbox.advance(outbox.waiting().min(50_000));
        }
    }

    #[test]
    fn what_is_too_long_is_not_put() {
        let mut outbox = Outbox::default();
        let long = vec![0_u8; store::protocol::FRAME_MAX + 1];
        assert!(outbox.put(&long).is_err());
        assert_eq!((outbox.waiting(), outbox.front().len()), (0, 0));
        outbox.put(&1_u8).unwrap();
        assert!(outbox.put(&long).is_err());
        assert_eq!(outbox.front(), [1, 0, 0, 0, 1]);
    }
}
