//! Packets and their buffers: bounded, and reused last in, first out, so that the next frame goes to memory which is still in the cache.

use std::ops::{Deref, DerefMut};

use bond::Framed;
use datapath::Tag;
use topology::NodeId;
use vswitch::Forwarding;
use vswitch::spread::FlowHash;

use crate::tap::VNET_HEADER;

/// A frame in its buffer, with what has been found out about it where it came in. It goes through the graph, queues and rings by value: so it is one
/// pointer, which stays in a register.
#[derive(Debug)]
pub struct Packet(Box<Content>);

/// What a packet consists of.
#[derive(Debug)]
pub struct Content {
    /// Where it goes.
    pub forwarding: Forwarding,
    /// What a bond has written on it.
    pub tag: Tag,
    /// As which one it entered the fabric at its worker, counted from the start; wraps.
    pub number: u32,
    /// How much of the buffer is in use.
    len: u32,
    /// The frame with its virtio-net header, and more room maybe.
    buffer: Box<[u8]>,
}

impl Packet {
    fn new(capacity: usize) -> Self {
        Self(Box::new(Content {
            forwarding: Forwarding { to: NodeId(0), hash: FlowHash(0) },
            tag: Tag::None,
            number: 0,
            len: 0,
            buffer: vec![0; capacity].into(),
        }))
    }
}

impl Content {
    /// Header and frame.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len as usize]
    }

    /// The frame, from its destination address on.
    #[inline]
    pub fn ethernet(&self) -> &[u8] {
        &self.bytes()[VNET_HEADER..]
    }

    /// The whole buffer, to be filled.
    #[inline]
    pub fn buffer(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// Says how much of the buffer is in use.
    #[inline]
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.buffer.len(), "a frame of {len} bytes in a buffer of {}", self.buffer.len());
        self.len = len as u32;
    }
}

impl Deref for Packet {
    type Target = Content;

    #[inline]
    fn deref(&self) -> &Content {
        &self.0
    }
}

impl DerefMut for Packet {
    #[inline]
    fn deref_mut(&mut self) -> &mut Content {
        &mut self.0
    }
}

impl Framed for Packet {
    #[inline]
    fn frame(&mut self) -> &mut [u8] {
        let len = self.len as usize;
        &mut self.buffer[VNET_HEADER..len]
    }
}

/// A worker's buffers.
#[derive(Debug)]
pub struct Pool {
    capacity: usize,
    /// How many more may be made.
    unmade: usize,
    free: Vec<Packet>,
    /// How many unused ones are kept.
    kept: usize,
}

/// Bytes of unused buffers that a pool keeps.
const KEPT_BYTES: usize = 32 << 20;

impl Pool {
    /// Buffers of `capacity` bytes, made as they are needed, and up to `memory` bytes altogether.
    pub fn new(capacity: usize, memory: usize) -> Self {
        Self { capacity, unmade: (memory / capacity).max(1), free: Vec::new(), kept: (KEPT_BYTES / capacity).max(1) }
    }

    /// An unused buffer; `None` when all are in use.
    #[inline]
    pub fn take(&mut self) -> Option<Packet> {
        self.free.pop().or_else(|| self.make())
    }

    #[cold]
    fn make(&mut self) -> Option<Packet> {
        self.unmade = self.unmade.checked_sub(1)?;
        Some(Packet::new(self.capacity))
    }

    /// Takes a buffer back. One of another size, from before the last change of the network, is given up; and so are those beyond what bursts
    /// need: where frames go from one worker to another, and not back, each would keep what the other has to make anew.
    #[inline]
    pub fn put(&mut self, packet: Packet) {
        if packet.buffer.len() == self.capacity && self.free.len() < self.kept {
            self.free.push(packet);
        } else {
            self.unmade += 1;
        }
    }

    /// A buffer went to another worker, or came from there: each keeps its own count.
    #[inline]
    pub const fn lent(&mut self) {
        self.unmade += 1;
    }

    /// See [`Pool::lent`].
    #[inline]
    pub fn borrowed(&mut self) {
        if self.unmade > 0 {
            self.unmade -= 1;
        } else {
            self.free.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_bounded_and_gives_the_warmest_buffer() {
        let mut pool = Pool::new(100, 250);
        let (mut first, second) = (pool.take().unwrap(), pool.take().unwrap());
        assert!(pool.take().is_none());
        first.set_len(7);
        pool.put(second);
        pool.put(first);
        assert_eq!(pool.take().unwrap().bytes().len(), 7);
    }

    #[test]
    fn what_comes_from_another_worker_is_not_hoarded() {
        let (mut from, mut to) = (Pool::new(1 << 20, 256 << 20), Pool::new(1 << 20, 256 << 20));
        for _ in 0..1_000 {
            let packet = from.take().unwrap();
            from.lent();
            to.borrowed();
            to.put(packet);
        }
        assert_eq!((from.free.len(), to.free.len()), (0, 32));
        assert!(to.take().is_some());
    }

    #[test]
    fn buffers_of_another_size_make_room() {
        let mut old = Pool::new(50, 50);
        let mut pool = Pool::new(100, 100);
        pool.borrowed();
        assert!(pool.take().is_none());
        pool.put(old.take().unwrap());
        assert_eq!(pool.take().unwrap().buffer().len(), 100);
    }
}
