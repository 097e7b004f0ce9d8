//! Frames in the rings of one pair of queues: what the guest sends is read from its transmitq, what it is to get is written to its receiveq (virtio 1.2,
//! section 5.1.6).
//!
//! The network's frames are behind a virtio-net header of 10 bytes, the guest's behind one of 10 or 12: the last two say over how many buffers of the receiveq a
//! frame is spread.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;

use super::offload::Offloads;
use super::prefetch;
use super::ring::{Descriptor, Ring, RingError};
use crate::tap::VNET_HEADER;

/// Chains whose heads are looked up at once, so that the next ones are on their way into the cache.
const AHEAD: usize = 32;
/// Bytes of a line of the cache.
const LINE: u64 = 64;
/// Chains over which one frame is spread at most: a guest's buffers have 64 bytes or more.
const CHAINS_MAX: u16 = 1_024;

/// So many buffers are looked at for one frame, in all chains together: 64 KiB in buffers of 64 bytes. Whoever has shorter ones does not get it.
const BUFFERS_MAX: u32 = 1_024;

/// So many chains in a row that are no frame are passed over at once: who has others to serve must not be kept by a guest that goes on writing such.
const NOTHING_MAX: usize = 8;
/// The shortest frame: an Ethernet header.
const SHORTEST: usize = 14;
/// The header with the number of buffers.
const LONG_HEADER: usize = VNET_HEADER + 2;

/// How frames are laid out in buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Whether the header has the number of buffers: of virtio 1, or with mergeable buffers.
    pub has_count: bool,
    /// Whether a frame may be spread over several chains (`VIRTIO_NET_F_MRG_RXBUF`).
    pub is_mergeable: bool,
    /// What may be undone in frames.
    pub offloads: Offloads,
}

impl Layout {
    const fn header(self) -> usize {
        if self.has_count { LONG_HEADER } else { VNET_HEADER }
    }
}

/// Whom the guest wants notified when something was used: an eventfd, or a pipe or socket of User-Mode Linux, that does not block.
#[derive(Debug, Default)]
pub struct Call(pub Option<File>);

impl Call {
    #[cold]
    pub(super) fn notify(&self) {
        if let Some(file) = &self.0 {
            let one = 1_u64.to_ne_bytes();
            // SAFETY: write(2) reads eight bytes of an array of eight. Where it fails, the pipe or counter is full: the guest has not taken what it was
            // notified of before.
            unsafe { libc::write(file.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        }
    }
}

/// Chains that were looked up and not taken yet.
#[derive(Debug)]
struct Ahead {
    /// Their heads, and their first descriptors.
    chains: [(u16, Descriptor); AHEAD],
    at: usize,
    end: usize,
}

impl Ahead {
    const fn new() -> Self {
        Self { chains: [(0, Descriptor::NONE); AHEAD], at: 0, end: 0 }
    }

    /// The next chain, which is not taken yet; `None`: the guest has made no more available. What is behind the first descriptors is on its way into the cache then.
    #[inline]
    fn next(&mut self, ring: &mut Ring, is_written: bool) -> Result<Option<(u16, Descriptor)>, RingError> {
        if self.at == self.end && !self.look(ring, is_written)? {
            return Ok(None);
        }
        Ok(Some(self.chains[self.at]))
    }

    /// Takes so many chains.
    #[inline]
    fn take(&mut self, chains: u16) {
        self.at = (self.at + usize::from(chains)).min(self.end);
    }

    /// Looks up the next chains; whether there are any.
    fn look(&mut self, ring: &mut Ring, is_written: bool) -> Result<bool, RingError> {
        let available = ring.available(1)?;
        let chains = available.min(AHEAD as u16);
        (self.at, self.end) = (0, 0);
        for (ahead, (head, _)) in (0..chains).zip(&mut self.chains) {
            *head = ring.head(ahead);
            ring.prefetch_descriptor(*head);
        }
        for (head, first) in &mut self.chains[..usize::from(chains)] {
            *first = ring.descriptor(*head)?;
            // The header ends before the second line in the buffers of DPDK, and a short frame with it.
            for line in [0, LINE] {
                match ring.memory().at(first.addr.wrapping_add(line), 1) {
                    Some(place) if is_written => prefetch::to_write(place),
                    Some(place) => prefetch::to_read(place),
                    None => {}
                }
            }
        }
        // What comes behind them is on its way while they are taken.
        for ahead in chains..available.min(2 * AHEAD as u16) {
            ring.prefetch_descriptor(ring.head(ahead));
        }
        ring.prefetch_used(chains);
        self.end = usize::from(chains);
        Ok(chains > 0)
    }
}

/// What the guest sends.
#[derive(Debug)]
pub struct Transmitq {
    ring: Ring,
    layout: Layout,
    ahead: Ahead,
}

/// What became of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// A frame of so many bytes, with its header.
    Frame(usize),
    /// Something that is no frame, or asks for what was not negotiated, or is longer than any frame.
    Nothing,
}

impl Transmitq {
    /// The queue in this ring.
    pub fn new(ring: Ring, layout: Layout) -> Self {
        Self { ring, layout, ahead: Ahead::new() }
    }

    /// Its ring.
    pub const fn ring(&mut self) -> &mut Ring {
        &mut self.ring
    }

    /// Reads one frame with its header into `buffer`; `None` when there is none. What is no frame is passed over and counted in `losses`; many of them in a row
    /// are as one frame without a byte.
    ///
    /// # Errors
    /// If the guest has written nonsense into the ring.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8], losses: &mut u64) -> Result<Option<usize>, RingError> {
        for _ in 0..NOTHING_MAX {
            let Some((head, first)) = self.ahead.next(&mut self.ring, false)? else { return Ok(None) };
            let taken = copy_frame(&self.ring, self.layout, first, buffer)?;
            self.ahead.take(1);
            self.ring.advance(1);
            self.ring.write_used(0, head, 0);
            self.ring.count_used(1);
            match taken {
                Taken::Frame(len) => return Ok(Some(len)),
                Taken::Nothing => *losses += 1,
            }
        }
        Ok(Some(0))
    }

    /// Shows the guest which chains have been read, and notifies it if it wants to know.
    #[inline]
    pub fn show_used(&mut self, call: &Call) {
        if self.ring.show_used() {
            call.notify();
        }
    }
}

/// Copies a frame that is in one buffer with its header, as most are.
#[inline]
fn copy_alone(ring: &Ring, layout: Layout, first: Descriptor, buffer: &mut [u8]) -> Option<Taken> {
    let header = layout.header();
    let frame = (first.len as usize).checked_sub(header).filter(|frame| *frame >= SHORTEST)?;
    if !first.is_alone(false) {
        return None;
    }
    let from = ring.memory().piece(first.addr, first.len)?;
    let whole = buffer.get_mut(..VNET_HEADER + frame)?;
    let (head, body) = whole.split_at_mut(VNET_HEADER);
    from.read(header, body);
    // Most frames have nothing that is undone. It is known before the header is written: the processor waits long for a part of what it has just written.
    let (first, last) = (from.take::<8>(0), from.take::<2>(8));
    if Offloads::has_nothing_undone([first[0], first[1]]) {
        head.fill(0);
        return Some(Taken::Frame(VNET_HEADER + frame));
    }
    head[..8].copy_from_slice(&first);
    head[8..].copy_from_slice(&last);
    Some(if layout.offloads.accept(whole) { Taken::Frame(whole.len()) } else { Taken::Nothing })
}

/// Copies the frame in a chain, with the header that the network has.
#[inline]
fn copy_frame(ring: &Ring, layout: Layout, first: Descriptor, buffer: &mut [u8]) -> Result<Taken, RingError> {
    if let Some(taken) = copy_alone(ring, layout, first, buffer) {
        return Ok(taken);
    }
    let mut chain = ring.chain(first, false)?;
    // The header may be split like everything else.
    let (mut header, header_len, mut at) = ([0; LONG_HEADER], layout.header(), 0);
    let mut end = VNET_HEADER;
    let mut fits = buffer.len() >= VNET_HEADER;
    while let Some((addr, len)) = chain.next_buffer()? {
        let (mut addr, mut len) = (addr, len as usize);
        if at < header_len {
            let part = len.min(header_len - at);
            ring.memory().read(addr, &mut header[at..at + part])?;
            (addr, len, at) = (addr.wrapping_add(part as u64), len - part, at + part);
        }
        match end.checked_add(len).and_then(|to| buffer.get_mut(end..to)) {
            Some(room) if fits => ring.memory().read(addr, room)?,
            _ => fits = false,
        }
        end = end.saturating_add(len);
    }
    if !fits || at < header_len || end < VNET_HEADER + SHORTEST {
        return Ok(Taken::Nothing);
    }
    buffer[..VNET_HEADER].copy_from_slice(&header[..VNET_HEADER]);
    Ok(if layout.offloads.accept(&mut buffer[..end]) { Taken::Frame(end) } else { Taken::Nothing })
}

/// What the guest gets.
#[derive(Debug)]
pub struct Receiveq {
    ring: Ring,
    layout: Layout,
    ahead: Ahead,
}

impl Receiveq {
    /// The queue in this ring.
    pub const fn new(ring: Ring, layout: Layout) -> Self {
        Self { ring, layout, ahead: Ahead::new() }
    }

    /// Its ring.
    pub const fn ring(&mut self) -> &mut Ring {
        &mut self.ring
    }

    /// How its frames are laid out.
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Writes one frame with its header, which may be shown to the guest as it is. Whether there was room.
    ///
    /// # Errors
    /// If the guest has written nonsense into the ring.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> Result<bool, RingError> {
        let Some((head, first)) = self.ahead.next(&mut self.ring, true)? else { return Ok(false) };
        let (header, frame) = bytes.split_at(VNET_HEADER);
        let header_len = self.layout.header();
        if first.is_alone(true)
            && first.len as usize >= header_len + frame.len()
            && let Some(to) = self.ring.memory().piece(first.addr, first.len)
        {
            to.write(0, &header[..VNET_HEADER]);
            if self.layout.has_count {
                to.write(VNET_HEADER, &1_u16.to_le_bytes());
            }
            to.write(header_len, frame);
            self.ring.write_used(0, head, (header_len + frame.len()) as u32);
            self.ahead.take(1);
            self.ring.advance(1);
            self.ring.count_used(1);
            return Ok(true);
        }
        self.write_pieces(bytes)
    }

    /// The same where a frame is spread over several buffers, or they are of several regions.
    fn write_pieces(&mut self, bytes: &[u8]) -> Result<bool, RingError> {
        let (short, mut rest) = bytes.split_at(VNET_HEADER);
        let mut header = [0; LONG_HEADER];
        header[..VNET_HEADER].copy_from_slice(short);
        header[VNET_HEADER] = 1;
        let header_len = self.layout.header();
        let mut header_rest = &header[..header_len];
        // Where the header is, of a frame that may be spread over several chains.
        let mut header_at = 0;
        let mut chains = 0;
        let mut buffers = 0;
        loop {
            if chains == CHAINS_MAX || self.ring.available(chains + 1)? <= chains {
                return Ok(false);
            }
            let head = self.ring.head(chains);
            let mut chain = self.ring.chain(self.ring.descriptor(head)?, true)?;
            let mut written = 0;
            while let Some((addr, len)) = chain.next_buffer()? {
                buffers += 1;
                if buffers > BUFFERS_MAX {
                    return Ok(false);
                }
                let (mut addr, mut room) = (addr, len as usize);
                if !header_rest.is_empty() {
                    if self.layout.is_mergeable && room < LONG_HEADER {
                        return Err(RingError::Header(len));
                    }
                    let (part, after) = header_rest.split_at(room.min(header_rest.len()));
                    self.ring.memory().write(addr, part)?;
                    header_at = addr;
                    header_rest = after;
                    (addr, room, written) =
                        (addr.wrapping_add(part.len() as u64), room - part.len(), written + part.len());
                }
                let (part, after) = rest.split_at(room.min(rest.len()));
                self.ring.memory().write(addr, part)?;
                (rest, written) = (after, written + part.len());
                if rest.is_empty() && header_rest.is_empty() {
                    break;
                }
            }
            self.ring.write_used(chains, head, written as u32);
            chains += 1;
            if rest.is_empty() && header_rest.is_empty() {
                break;
            }
            if !self.layout.is_mergeable {
                // The guest's buffers are too short for it.
                return Ok(false);
            }
            if written == 0 {
                return Err(RingError::Header(0));
            }
        }
        if chains > 1 {
            self.ring.memory().write(header_at.wrapping_add(VNET_HEADER as u64), &chains.to_le_bytes())?;
        }
        self.ahead.take(chains);
        self.ring.advance(chains);
        self.ring.count_used(chains);
        Ok(true)
    }

    /// Shows the guest which chains have been filled, and notifies it if it wants to know.
    #[inline]
    pub fn show_used(&mut self, call: &Call) {
        if self.ring.show_used() {
            call.notify();
        }
        // The next burst finds its buffers in the cache. What is wrong with them is said when they are written to.
        if self.ahead.at == self.ahead.end {
            let _ = self.ahead.look(&mut self.ring, true);
        }
    }
}
