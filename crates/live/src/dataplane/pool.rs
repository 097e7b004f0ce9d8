//! Packets and their buffers: bounded, and reused last in, first out, so that the next frame goes to memory which is still in the cache.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bond::Framed;
use datapath::Tag;
use machine::Time;
use topology::NodeId;
use vswitch::Forwarding;
use vswitch::spread::FlowHash;
use wire::{
    EthernetPacket, EthernetPacketMut, MplsRepr, TAG_AT, VirtioNetPacket, VirtioNetRepr, mpls_at, mpls_to_pop, vlan_tag,
};

use super::slab::{Buffer, Slabs};
use crate::tap::{VNET_HEADER, VNET_LAYOUT};

/// Room in front of a frame that has come in: for sixteen tags, or six and an IP header. So large that headers stay where the processor's loads like them.
const HEADROOM: usize = 64;

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
    /// When that was.
    pub entered: Time,
    /// Whether a link has flipped one of its bits since.
    pub is_corrupt: bool,
    /// The network of the tunnel by which it has come in, or is to leave. 0: of none.
    pub tunnel: u32,
    /// Where the part of the buffer begins that is in use: in front of it is room for tags.
    start: u32,
    /// How much of the buffer is in use.
    len: u32,
    /// The frame with its virtio-net header, and more room maybe, behind the headroom.
    buffer: Buffer,
}

impl Packet {
    fn new(buffer: Buffer) -> Self {
        Self(Box::new(Content {
            forwarding: Forwarding { to: NodeId(0), hash: FlowHash(0) },
            tag: Tag::None,
            number: 0,
            entered: Time::ZERO,
            is_corrupt: false,
            tunnel: 0,
            start: HEADROOM as u32,
            len: 0,
            buffer,
        }))
    }
}

impl Content {
    /// Header and frame.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start as usize..][..self.len as usize]
    }

    /// The frame, from its destination address on.
    #[inline]
    pub fn ethernet(&self) -> &[u8] {
        &self.bytes()[VNET_HEADER..]
    }

    /// The frame's destination address.
    #[inline]
    pub fn destination(&self) -> [u8; 6] {
        self.ethernet().first_chunk().copied().expect("a frame that came in has a header")
    }

    /// The frame's source address.
    #[inline]
    pub fn source(&self) -> [u8; 6] {
        self.ethernet()[6..].first_chunk().copied().expect("a frame that came in has a header")
    }

    /// The whole buffer, to be filled.
    #[inline]
    pub fn buffer(&mut self) -> &mut [u8] {
        (self.start, self.tunnel) = (HEADROOM as u32, 0);
        &mut self.buffer[HEADROOM..]
    }

    /// Leaves nothing to be done: an all-zero virtio-net header.
    pub fn clear_header(&mut self) {
        self.buffer[self.start as usize..][..VNET_HEADER].fill(0);
    }

    /// Says how much of the buffer is in use.
    #[inline]
    pub fn set_len(&mut self, len: usize) {
        let room = self.buffer.len() - self.start as usize;
        assert!(len <= room, "a frame of {len} bytes in a buffer of {room}");
        self.len = len as u32;
    }

    /// Puts an 802.1Q tag behind the addresses, which move into the headroom with what is before them.
    ///
    /// # Errors
    /// If there are no addresses, or the headroom is used up.
    pub fn push_vlan(&mut self, tci: u16) -> Result<(), wire::Error> {
        EthernetPacket::new_checked(self.ethernet())?;
        self.insert(TAG_AT, &vlan_tag(tci))
    }

    /// Puts bytes into the frame at this place: what is before it moves into the headroom.
    ///
    /// # Errors
    /// If the headroom is used up.
    #[inline]
    pub fn insert(&mut self, at: usize, bytes: &[u8]) -> Result<(), wire::Error> {
        let start = self.start as usize;
        let Some(new) = start.checked_sub(bytes.len()) else {
            return Err(wire::Error::Truncated { header: "headroom", need: bytes.len(), have: start });
        };
        self.shift_offsets(|offset| offset.saturating_add(bytes.len() as u16))?;
        let at = VNET_HEADER + at;
        self.buffer.copy_within(start..start + at, new);
        self.buffer[new + at..][..bytes.len()].copy_from_slice(bytes);
        self.start = new as u32;
        self.len += bytes.len() as u32;
        Ok(())
    }

    /// Takes so many bytes out of the frame at this place: what is before it moves back.
    ///
    /// # Errors
    /// If there are fewer.
    #[inline]
    pub fn remove(&mut self, at: usize, bytes: usize) -> Result<(), wire::Error> {
        let (end, have) = (at + bytes, self.ethernet().len());
        if have < end {
            return Err(wire::Error::Truncated { header: "frame", need: end, have });
        }
        self.shift_offsets(|offset| offset.saturating_sub(bytes as u16))?;
        let start = self.start as usize;
        self.buffer.copy_within(start..start + VNET_HEADER + at, start + bytes);
        self.start += bytes as u32;
        self.len -= bytes as u32;
        Ok(())
    }

    /// Takes the outermost 802.1Q tag away: what is before it moves back.
    ///
    /// # Errors
    /// If there is none.
    pub fn pop_vlan(&mut self) -> Result<(), wire::Error> {
        let ethernet = EthernetPacket::new_checked(self.ethernet())?;
        if ethernet.vlan().is_none() {
            let value = u32::from(ethernet.ethertype());
            let expected = "33024 (802.1Q)";
            return Err(wire::Error::Field { header: "Ethernet", field: "ethertype", value, expected });
        }
        self.remove(TAG_AT, vlan_tag(0).len())
    }

    /// Puts an entry on the label stack, or as one behind Ethernet and its tag, which have this ethertype then.
    ///
    /// # Errors
    /// If there is no Ethernet header, or the headroom is used up.
    pub fn push_mpls(&mut self, ethertype: u16, entry: u32) -> Result<(), wire::Error> {
        self.insert(mpls_at(self.ethernet())?, &entry.to_be_bytes())?;
        EthernetPacketMut::new_checked(self.ethernet_mut())?.set_ethertype(ethertype);
        Ok(())
    }

    /// Takes the uppermost entry of the label stack away: the frame has this ethertype then.
    ///
    /// # Errors
    /// If there is none.
    pub fn pop_mpls(&mut self, ethertype: u16) -> Result<(), wire::Error> {
        self.remove(mpls_to_pop(self.ethernet())?, MplsRepr::LEN)?;
        EthernetPacketMut::new_checked(self.ethernet_mut())?.set_ethertype(ethertype);
        Ok(())
    }

    #[inline]
    fn ethernet_mut(&mut self) -> &mut [u8] {
        let (start, len) = (self.start as usize, self.len as usize);
        &mut self.buffer[start + VNET_HEADER..start + len]
    }

    /// Headers behind the addresses lie elsewhere now: the virtio-net header says where.
    fn shift_offsets(&mut self, shift: impl Fn(u16) -> u16) -> Result<(), wire::Error> {
        let mut repr = VirtioNetRepr::parse(&VirtioNetPacket::new_checked(self.bytes(), VNET_LAYOUT)?);
        if repr.checksum.is_none() && repr.segmentation.is_none() {
            return Ok(());
        }
        if let Some(checksum) = &mut repr.checksum {
            checksum.start = shift(checksum.start);
        }
        if let Some(segmentation) = &mut repr.segmentation {
            segmentation.header_len = shift(segmentation.header_len);
        }
        let start = self.start as usize;
        repr.emit(&mut self.buffer[start..]);
        Ok(())
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
        self.ethernet_mut()
    }
}

/// Buffers that a worker has too many of, for those that have too few: where frames go from one worker to another, and not back, each would free what the
/// other has to make anew. They come and go by [`BATCH`], so that nobody often waits for anybody. All are of the size that the pools have.
#[derive(Clone, Debug, Default)]
pub struct Depot(Arc<Mutex<Vec<Packet>>>);

impl Depot {
    fn lock(&self) -> MutexGuard<'_, Vec<Packet>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Buffers that go to the depot at once, or come from there.
const BATCH: usize = 32;

/// A worker's buffers.
#[derive(Debug)]
pub struct Pool {
    capacity: usize,
    /// Bytes that all may have together, and how many buffers that are.
    memory: usize,
    total: usize,
    /// How many more may be made.
    unmade: usize,
    free: Vec<Packet>,
    slabs: Slabs,
    /// How many unused ones are kept, here, and in the depot.
    kept: usize,
    depot: Depot,
}

/// Bytes of unused buffers that a pool keeps.
const KEPT_BYTES: usize = 32 << 20;

impl Pool {
    /// Buffers of `capacity` bytes, made as they are needed, and up to `memory` bytes altogether.
    pub fn new(capacity: usize, memory: usize, depot: Depot) -> Self {
        let kept = (KEPT_BYTES / capacity).max(1);
        let total = (memory / capacity).max(1);
        let slabs = Slabs::new(HEADROOM + capacity);
        Self { capacity, memory, total, unmade: total, free: Vec::new(), slabs, kept, depot }
    }

    /// From now on buffers have `capacity` bytes, and `depot` is the one for those. Returns the unused ones of another size; those in use come back one by one.
    pub fn refit(&mut self, capacity: usize, depot: Depot) -> Vec<Packet> {
        if capacity == self.capacity {
            return Vec::new();
        }
        let in_use = self.total.saturating_sub(self.unmade + self.free.len());
        let total = (self.memory / capacity).max(1);
        (self.capacity, self.total, self.unmade) = (capacity, total, total.saturating_sub(in_use));
        (self.kept, self.depot) = ((KEPT_BYTES / capacity).max(1), depot);
        self.slabs = Slabs::new(HEADROOM + capacity);
        std::mem::take(&mut self.free)
    }

    /// How many there may be.
    pub const fn buffers(&self) -> usize {
        self.total
    }

    /// An unused buffer; `None` when all are in use.
    #[inline]
    pub fn take(&mut self) -> Option<Packet> {
        self.free.pop().or_else(|| self.make())
    }

    #[cold]
    fn make(&mut self) -> Option<Packet> {
        if self.unmade == 0 {
            return None;
        }
        let mut depot = self.depot.lock();
        let left = depot.len().saturating_sub(BATCH.min(self.unmade));
        self.free.extend(depot.drain(left..));
        drop(depot);
        self.unmade -= self.free.len();
        self.free.pop().or_else(|| {
            let buffer = self.slabs.cut()?;
            self.unmade -= 1;
            Some(Packet::new(buffer))
        })
    }

    /// Makes so many buffers ahead, and has their memory be there.
    pub fn warm(&mut self, buffers: usize) {
        let made: Vec<Packet> = std::iter::from_fn(|| self.take()).take(buffers).collect();
        self.put_all(made.into_iter().map(|mut packet| {
            packet.clear_header();
            packet
        }));
    }

    /// Takes a buffer back. One of another size, from before the last change of the network, is given up; those beyond what bursts need are for other
    /// workers.
    #[inline]
    pub fn put(&mut self, packet: Packet) {
        if packet.buffer.len() == HEADROOM + self.capacity {
            self.free.push(packet);
            if self.free.len() > self.kept {
                self.give_away();
            }
        } else {
            // There may have been more of them than there may be now.
            self.forget(1);
        }
    }

    /// [`Pool::put`] of many.
    #[inline]
    pub fn put_all(&mut self, packets: impl Iterator<Item = Packet>) {
        packets.for_each(|packet| self.put(packet));
    }

    #[cold]
    fn give_away(&mut self) {
        let given = BATCH.min(self.free.len());
        self.unmade += given;
        // The ones at the bottom were used longest ago.
        let given = self.free.drain(..given);
        let mut depot = self.depot.lock();
        if depot.len() < self.kept {
            depot.extend(given);
        }
    }

    /// So many buffers that were in use have gone elsewhere, to be given up there.
    pub fn forget(&mut self, buffers: usize) {
        self.unmade = (self.unmade + buffers).min(self.total.saturating_sub(self.free.len()));
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
    use std::collections::BTreeSet;
    use wire::ethertype;

    #[test]
    fn a_pool_is_bounded_and_gives_the_warmest_buffer() {
        let mut pool = Pool::new(100, 250, Depot::default());
        let (mut first, second) = (pool.take().unwrap(), pool.take().unwrap());
        assert!(pool.take().is_none());
        first.set_len(7);
        pool.put(second);
        pool.put(first);
        assert_eq!(pool.take().unwrap().bytes().len(), 7);
    }

    /// The virtio-net header says where the checksum belongs, also behind tags.
    #[test]
    fn a_frame_grows_and_shrinks_by_its_tags() {
        let mut packet = Pool::new(200, 200, Depot::default()).take().unwrap();
        let asks = wire::ChecksumRequest { start: 34, offset: 16 };
        let segmentation = wire::Segmentation {
            kind: wire::SegmentationKind::TcpV4,
            ecn: false,
            segment_bytes: 1_448,
            header_len: 54,
        };
        let repr = VirtioNetRepr { checksum: Some(asks), segmentation: Some(segmentation), ..Default::default() };
        let buffer = packet.buffer();
        repr.emit(buffer);
        for (at, byte) in buffer[VNET_HEADER..].iter_mut().enumerate() {
            *byte = at as u8;
        }
        packet.set_len(VNET_HEADER + 60);
        let before = packet.bytes().to_vec();
        assert!(packet.pop_vlan().is_err());
        for tags in 1..=HEADROOM as u16 / 4 {
            packet.push_vlan(tags).unwrap();
            let ethernet = EthernetPacket::new_checked(packet.ethernet()).unwrap();
            assert_eq!((ethernet.vlan(), packet.ethernet().len()), (Some(tags), 60 + usize::from(tags) * 4));
            assert_eq!(packet.ethernet()[..12], before[VNET_HEADER..][..12]);
            assert_eq!(packet.ethernet()[12 + usize::from(tags) * 4..], before[VNET_HEADER + 12..]);
            let said = VirtioNetRepr::parse(&VirtioNetPacket::new_checked(packet.bytes(), VNET_LAYOUT).unwrap());
            assert_eq!(said.checksum.unwrap().start, 34 + tags * 4);
            assert_eq!(said.segmentation.unwrap().header_len, 54 + tags * 4);
        }
        assert!(packet.push_vlan(5).is_err(), "the headroom is used up");
        for _ in 0..HEADROOM / 4 {
            packet.pop_vlan().unwrap();
        }
        assert_eq!(packet.bytes(), before);
        packet.push_vlan(7).unwrap();
        packet.push_mpls(ethertype::MPLS, 0x0001_0140).unwrap();
        let ethernet = EthernetPacket::new_checked(packet.ethernet()).unwrap();
        assert_eq!((ethernet.vlan(), ethernet.ethertype()), (Some(7), ethertype::MPLS));
        assert_eq!(ethernet.payload()[..4], [0, 1, 1, 0x40]);
        assert_eq!(ethernet.payload()[4..], before[VNET_HEADER + 14..]);
        let original = u16::from_be_bytes([before[VNET_HEADER + 12], before[VNET_HEADER + 13]]);
        packet.pop_mpls(original).unwrap();
        assert!(packet.pop_mpls(original).is_err());
        packet.pop_vlan().unwrap();
        assert_eq!(packet.bytes(), before);
        packet.push_vlan(7).unwrap();
        assert_eq!(packet.buffer().len(), 200, "it begins anew");
    }

    #[test]
    fn what_comes_from_another_worker_goes_back() {
        let depot = Depot::default();
        let pool = || Pool::new(1 << 20, 256 << 20, depot.clone());
        let (mut from, mut to) = (pool(), pool());
        let mut made = BTreeSet::new();
        for _ in 0..1_000 {
            let packet = from.take().unwrap();
            made.insert(packet.buffer.as_ptr());
            from.lent();
            to.borrowed();
            to.put(packet);
        }
        // What the other one keeps, and what is on its way back.
        assert!(made.len() <= 32 + 2 * BATCH, "{}", made.len());
        assert!(to.free.len() <= 32 && depot.lock().len() <= 32 + BATCH);
        let under_way = |pool: &Pool| 256 - pool.unmade - pool.free.len();
        assert_eq!((under_way(&from), under_way(&to)), (0, 0));
    }

    #[test]
    fn a_pool_that_is_refitted_has_no_more_than_its_memory() {
        let mut pool = Pool::new(10, 1_000, Depot::default());
        let mut old: Vec<Packet> = (0..50).map(|_| pool.take().unwrap()).collect();
        pool.put(old.pop().unwrap());
        assert_eq!(pool.refit(100, Depot::default()).len(), 1);
        assert!(pool.take().is_none(), "more are in use than there may be of the new size");
        pool.put_all(old.drain(..));
        let new: Vec<Packet> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!((new.len(), new[0].buffer.len()), (10, HEADROOM + 100));
        pool.put_all(new.into_iter());
        assert!(pool.refit(100, Depot::default()).is_empty());
        assert_eq!(pool.free.len(), 10);
    }

    #[test]
    fn buffers_of_another_size_make_room() {
        let mut old = Pool::new(50, 50, Depot::default());
        let mut pool = Pool::new(100, 100, Depot::default());
        pool.borrowed();
        assert!(pool.take().is_none());
        pool.put(old.take().unwrap());
        assert_eq!(pool.take().unwrap().buffer().len(), 100);
    }
}
