//! Writes packets into a capture, in the format of pcap with nanoseconds.
//!
//! The file has what a wire would carry: checksums that kernels leave to a network card are filled in, large segments are cut. It is
//! written at the end of each burst, whole packets only.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use vswitch::segmentation::LargeSegment;
use wire::VirtioNetPacket;

use super::reader::{ETHERNET, PACKET_MAX};
use crate::port::Unsent;
use crate::tap::{LARGEST_FRAME, VNET_HEADER, VNET_LAYOUT};

/// Bytes of packets that wait for the end of the burst at most: one large segment and its pieces' headers, and as much again.
const BUFFER: usize = 256 << 10;

/// So much must be free for the next frame, or the others are written first.
const ROOM: usize = BUFFER / 2;

/// Bytes of the header of a packet.
const RECORD: usize = 16;

/// pcap's magic number for nanoseconds, as written by this machine.
const MAGIC: u32 = 0xa1b2_3c4d;

/// Where a capture is written.
pub trait Storage: std::fmt::Debug {
    /// Writes all of `bytes` from `at` on.
    ///
    /// # Errors
    /// If not all could be written.
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// How long it is.
    ///
    /// # Errors
    /// If nobody knows.
    fn size(&self) -> io::Result<u64>;

    /// Lets it end at `len`.
    ///
    /// # Errors
    /// If it does not.
    fn cut(&mut self, len: u64) -> io::Result<()>;
}

impl Storage for File {
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }
}

/// A capture that grows.
#[derive(Debug)]
pub struct Recorder<S> {
    storage: S,
    /// Bytes that are in it; 0: it has not begun.
    len: u64,
    /// Packets with their headers that wait, in its first `end` bytes.
    buffer: Box<[u8]>,
    end: usize,
    /// The same as they were handed over.
    waiting: Unsent,
    /// What could not be written, since that was asked last.
    lost: Unsent,
    /// Why, of the first.
    failure: Option<io::Error>,
    has_failed: bool,
}

impl<S: Storage> Recorder<S> {
    /// A capture that will be in this storage, in place of what is there.
    pub fn new(storage: S) -> Self {
        Self {
            storage,
            len: 0,
            buffer: vec![0; BUFFER].into(),
            end: 0,
            waiting: Unsent::default(),
            lost: Unsent::default(),
            failure: None,
            has_failed: false,
        }
    }

    /// Empties the storage and begins the capture, unless it has begun.
    pub fn begin(&mut self) {
        if self.len == 0
            && let Err(error) = self.write_header()
        {
            self.note(error);
        }
    }

    fn write_header(&mut self) -> io::Result<()> {
        // Magic number; version 2.4, each 16 bits; two that are zero; the longest packet; the link type.
        let words = [MAGIC, 0, 0, 0, PACKET_MAX, ETHERNET];
        let mut header = [0; 24];
        for (word, out) in words.iter().zip(header.chunks_exact_mut(4)) {
            out.copy_from_slice(&word.to_ne_bytes());
        }
        header[4..6].copy_from_slice(&2_u16.to_ne_bytes());
        header[6..8].copy_from_slice(&4_u16.to_ne_bytes());
        self.storage.cut(0)?;
        self.storage.write(&header, 0)?;
        self.len = header.len() as u64;
        Ok(())
    }

    /// Keeps an error to be reported, if it is the first.
    fn note(&mut self, error: io::Error) {
        if !std::mem::replace(&mut self.has_failed, true) {
            self.failure = Some(error);
        }
    }

    /// Takes a frame behind its virtio-net header, captured so many nanoseconds after 1970.
    ///
    /// # Errors
    /// If it is longer than any frame: nothing of it is recorded.
    pub fn record(&mut self, captured_ns: u64, frame: &[u8]) -> io::Result<()> {
        if BUFFER - self.end < ROOM {
            self.write_out();
        }
        let before = self.end;
        let fits = match LargeSegment::find(frame) {
            Ok(Some(segment)) => {
                (0..segment.count()).all(|piece| self.append(captured_ns, |out| segment.emit(piece, out)))
            }
            // What claims to be a segment and is none is recorded as it is.
            Ok(None) | Err(_) => frame.len() <= VNET_HEADER + LARGEST_FRAME && self.append(captured_ns, copy_of(frame)),
        };
        if !fits {
            self.end = before;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.waiting.add(frame);
        Ok(())
    }

    /// Appends the packet that `fill` writes behind a virtio-net header; whether there was room.
    fn append(&mut self, captured_ns: u64, fill: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        let Some(record) = self.buffer.get_mut(self.end..) else { return false };
        // The virtio-net header stands where the record's header will, so that nothing is moved.
        let Some(Some(filled)) = record.get_mut(RECORD - VNET_HEADER..).map(fill) else { return false };
        let end = RECORD - VNET_HEADER + filled;
        let view = VirtioNetPacket::new_checked(&record[RECORD - VNET_HEADER..end], VNET_LAYOUT);
        if let Some((at, sum)) = view.ok().and_then(|header| header.missing_checksum()) {
            record[RECORD + at..RECORD + at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        let bytes = (end - RECORD) as u32;
        let words = [(captured_ns / 1_000_000_000) as u32, (captured_ns % 1_000_000_000) as u32, bytes, bytes];
        for (word, out) in words.iter().zip(record[..RECORD].chunks_exact_mut(4)) {
            out.copy_from_slice(&word.to_ne_bytes());
        }
        self.end += end;
        true
    }

    /// Where it is written.
    pub const fn storage(&self) -> &S {
        &self.storage
    }

    /// Whether [`Recorder::flush`] has something to write or to say.
    pub const fn is_waiting(&self) -> bool {
        self.end > 0 || self.lost.frames > 0
    }

    /// Writes what waits. What could not be written is lost, and the file ends with the last whole packet.
    pub fn flush(&mut self) -> Unsent {
        self.write_out();
        std::mem::take(&mut self.lost)
    }

    /// What kept it from writing; it is reported once, however often that happens.
    pub const fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    fn write_out(&mut self) {
        let end = std::mem::take(&mut self.end);
        let waiting = std::mem::take(&mut self.waiting);
        if end == 0 {
            return;
        }
        // Somebody has cut it off meanwhile, as those do who rotate logs. What would be written behind its end would leave a hole: it begins anew.
        if self.storage.size().is_ok_and(|size| size < self.len) {
            self.len = 0;
        }
        self.begin();
        if self.len > 0 {
            match self.storage.write(&self.buffer[..end], self.len) {
                Ok(()) => return self.len += end as u64,
                Err(error) => self.note(error),
            }
            // What is there of them is overwritten by the next ones if it can't be cut off.
            let _ = self.storage.cut(self.len);
        }
        self.lost.frames += waiting.frames;
        self.lost.bytes += waiting.bytes;
    }
}

/// Writes a copy of `bytes`, if there is room.
fn copy_of(bytes: &[u8]) -> impl FnOnce(&mut [u8]) -> Option<usize> {
    move |out| {
        out.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(bytes.len())
    }
}

#[cfg(test)]
mod tests;
