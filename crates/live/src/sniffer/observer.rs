//! The workers' end of a capture.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};

use super::Filter;
use crate::tap::VNET_HEADER;

/// Frames that wait for the reader of a capture at most, and their bytes.
const QUEUE_FRAMES: usize = 16 << 10;
const QUEUE_BYTES: usize = 32 << 20;

/// What a frame that waits takes besides its bytes, about.
const FRAME_BYTES: usize = 64;

/// Which way a frame goes at the port where it is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// It comes to the port's node.
    Inbound,
    /// It leaves it.
    Outbound,
}

/// A frame as it was seen.
#[derive(Debug)]
pub(super) struct Seen {
    /// When, in nanoseconds since 1970.
    pub at_ns: u64,
    /// At which of the capture's ports.
    pub interface: u32,
    pub direction: Direction,
    /// How long the frame is.
    pub length: u32,
    /// As much of it as is captured, behind its virtio-net header.
    pub bytes: Box<[u8]>,
}

impl Seen {
    pub fn weight(&self) -> usize {
        self.bytes.len() + FRAME_BYTES
    }
}

/// What goes through the queue.
#[derive(Debug)]
pub(super) enum Message {
    Seen(Seen),
    /// Nobody wants to see more.
    End,
}

/// The workers' end of one capture. They share it.
#[derive(Debug)]
pub struct Observer {
    filter: Option<Filter>,
    /// Bytes of a frame that are captured.
    snaplen: usize,
    queue: SyncSender<Message>,
    /// Bytes of what waits.
    queued: AtomicUsize,
    /// By interface: frames that found no room.
    lost: Box<[AtomicU64]>,
}

impl Observer {
    /// For so many ports.
    pub(super) fn new(filter: Option<Filter>, snaplen: u32, interfaces: usize) -> (Self, Receiver<Message>) {
        let (queue, receiver) = mpsc::sync_channel(QUEUE_FRAMES);
        let lost = (0..interfaces).map(|_| AtomicU64::new(0)).collect();
        (Self { filter, snaplen: snaplen as usize, queue, queued: AtomicUsize::new(0), lost }, receiver)
    }

    /// Takes a copy of a frame, behind its virtio-net header, if the filter lets it pass and there is room; waits for nobody.
    pub fn see(&self, at_ns: u64, interface: u32, direction: Direction, bytes: &[u8]) {
        let frame = bytes.get(VNET_HEADER..).unwrap_or_default();
        if self.filter.as_ref().is_some_and(|filter| !filter.matches(frame)) {
            return;
        }
        let taken = frame.len().min(self.snaplen) + FRAME_BYTES + VNET_HEADER;
        // Several workers may go over it together, by a frame each.
        if self.queued.load(Ordering::Relaxed) + taken > QUEUE_BYTES {
            return self.lose(interface);
        }
        let kept = &bytes[..bytes.len().min(VNET_HEADER + self.snaplen)];
        let seen = Seen { at_ns, interface, direction, length: frame.len() as u32, bytes: kept.into() };
        self.queued.fetch_add(seen.weight(), Ordering::Relaxed);
        let weight = seen.weight();
        if self.queue.try_send(Message::Seen(seen)).is_err() {
            self.release(weight);
            self.lose(interface);
        }
    }

    fn lose(&self, interface: u32) {
        if let Some(lost) = self.lost.get(interface as usize) {
            lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// So much waits no longer.
    pub(super) fn release(&self, weight: usize) {
        self.queued.fetch_sub(weight, Ordering::Relaxed);
    }

    /// Frames that found no room at a port.
    pub(super) fn lost(&self, interface: usize) -> u64 {
        self.lost[interface].load(Ordering::Relaxed)
    }

    /// Says that nobody wants to see more. It waits for room, and not at all if nobody reads any more.
    pub(super) fn end(&self) {
        let _ = self.queue.send(Message::End);
    }

    /// The same for somebody who can't wait; false if there is no room for it.
    pub fn try_end(&self) -> bool {
        self.queue.try_send(Message::End).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_nobody_reads_takes_so_much_and_counts_the_rest() {
        let (observer, receiver) = Observer::new(None, 1_000, 2);
        let frame = vec![7; VNET_HEADER + 60_000];
        let more = 10;
        for _ in 0..QUEUE_FRAMES + more {
            observer.see(1, 1, Direction::Inbound, &frame);
        }
        assert_eq!((observer.lost(0), observer.lost(1)), (0, more as u64));
        let Ok(Message::Seen(seen)) = receiver.try_recv() else { panic!("a frame waits") };
        assert_eq!((seen.length, seen.bytes.len()), (60_000, VNET_HEADER + 1_000));
        observer.release(seen.weight());
        observer.see(2, 1, Direction::Inbound, &frame);
        assert_eq!(observer.lost(1), more as u64);
        let (whole, receiver) = Observer::new(None, 65_535, 1);
        let fitting = QUEUE_BYTES / (frame.len() + FRAME_BYTES);
        for _ in 0..fitting + more {
            whole.see(1, 0, Direction::Outbound, &frame);
        }
        assert_eq!((receiver.try_iter().count(), whole.lost(0)), (fitting, more as u64));
    }
}
