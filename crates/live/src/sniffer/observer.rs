//! The workers' end of a capture.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Filter, FrameKinds};
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
    /// Nothing more is to be seen; why, if its reader did not ask for it.
    End(Option<&'static str>),
}

/// A port at which a capture looks.
#[derive(Debug)]
pub struct Interface {
    /// Its number in the capture.
    pub(super) number: u32,
    /// What people know it by.
    pub(super) name: String,
    /// Frames that found no room.
    lost: AtomicU64,
}

impl Interface {
    fn new(number: usize, name: String) -> Arc<Self> {
        Arc::new(Self { number: number as u32, name, lost: AtomicU64::new(0) })
    }

    fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Frames that found no room.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// The workers' end of one capture. They share it.
#[derive(Debug)]
pub struct Observer {
    filter: Option<Filter>,
    /// What it does not let pass.
    unmatched: FrameKinds,
    /// Bytes of a frame that are captured.
    snaplen: usize,
    queue: SyncSender<Message>,
    /// Bytes of what waits.
    queued: AtomicUsize,
    /// By number. No worker asks for them: each knows those at which it looks.
    interfaces: Mutex<Vec<Arc<Interface>>>,
}

impl Observer {
    /// For ports of these names.
    pub(super) fn new(
        filter: Option<Filter>,
        snaplen: u32,
        names: impl IntoIterator<Item = String>,
    ) -> (Self, Receiver<Message>) {
        let (queue, receiver) = mpsc::sync_channel(QUEUE_FRAMES);
        let interfaces = names.into_iter().enumerate().map(|(number, name)| Interface::new(number, name));
        let interfaces = Mutex::new(interfaces.collect());
        let (unmatched, queued) = (FrameKinds::default(), AtomicUsize::new(0));
        (Self { filter, unmatched, snaplen: snaplen as usize, queue, queued, interfaces }, receiver)
    }

    /// Frames that the filter did not let pass.
    pub(super) const fn unmatched(&self) -> &FrameKinds {
        &self.unmatched
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<Interface>>> {
        self.interfaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ports at which it looks.
    pub(crate) fn interfaces(&self) -> Vec<Arc<Interface>> {
        self.all().clone()
    }

    /// It looks at one more port from now on.
    pub(crate) fn add_interface(&self, name: String) -> Arc<Interface> {
        let mut all = self.all();
        let added = Interface::new(all.len(), name);
        all.push(Arc::clone(&added));
        added
    }

    /// Takes a copy of a frame, behind its virtio-net header, if the filter lets it pass and there is room; waits for nobody.
    pub fn see(&self, at_ns: u64, interface: &Interface, direction: Direction, bytes: &[u8]) {
        let frame = bytes.get(VNET_HEADER..).unwrap_or_default();
        if self.filter.as_ref().is_some_and(|filter| !filter.matches(frame)) {
            return self.unmatched.add(frame);
        }
        let taken = frame.len().min(self.snaplen) + FRAME_BYTES + VNET_HEADER;
        // Several workers may go over it together, by a frame each.
        if self.queued.load(Ordering::Relaxed) + taken > QUEUE_BYTES {
            return interface.lose();
        }
        let kept = &bytes[..bytes.len().min(VNET_HEADER + self.snaplen)];
        let seen =
            Seen { at_ns, interface: interface.number, direction, length: frame.len() as u32, bytes: kept.into() };
        self.queued.fetch_add(seen.weight(), Ordering::Relaxed);
        let weight = seen.weight();
        if self.queue.try_send(Message::Seen(seen)).is_err() {
            self.release(weight);
            interface.lose();
        }
    }

    /// So much waits no longer.
    pub(super) fn release(&self, weight: usize) {
        self.queued.fetch_sub(weight, Ordering::Relaxed);
    }

    /// Says that nobody wants to see more. It waits for room, and not at all if nobody reads any more.
    pub(super) fn end(&self) {
        let _ = self.queue.send(Message::End(None));
    }

    /// The same for somebody who can't wait, and says why; false if there is no room for it.
    pub fn try_end(&self, why: &'static str) -> bool {
        self.queue.try_send(Message::End(Some(why))).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_nobody_reads_takes_so_much_and_counts_the_rest() {
        let names = |count: usize| (0..count).map(|number| format!("h{number}"));
        let (observer, receiver) = Observer::new(None, 1_000, names(2));
        let [first, second] = <[Arc<Interface>; 2]>::try_from(observer.interfaces()).unwrap();
        let frame = vec![7; VNET_HEADER + 60_000];
        let more = 10;
        for _ in 0..QUEUE_FRAMES + more {
            observer.see(1, &second, Direction::Inbound, &frame);
        }
        assert_eq!((first.lost(), second.lost()), (0, more as u64));
        let Ok(Message::Seen(seen)) = receiver.try_recv() else { panic!("a frame waits") };
        assert_eq!((seen.length, seen.bytes.len()), (60_000, VNET_HEADER + 1_000));
        observer.release(seen.weight());
        observer.see(2, &second, Direction::Inbound, &frame);
        assert_eq!(second.lost(), more as u64);
        let (whole, receiver) = Observer::new(None, 65_535, names(1));
        let only = &whole.interfaces()[0];
        let fitting = QUEUE_BYTES / (frame.len() + FRAME_BYTES);
        for _ in 0..fitting + more {
            whole.see(1, only, Direction::Outbound, &frame);
        }
        assert_eq!((receiver.try_iter().count(), only.lost()), (fitting, more as u64));
    }
}
