//! Frames that a port takes or gives at once.

use std::io;

use super::pool::{Packet, Pool};
use crate::tap::VNET_HEADER;

/// Frames in one burst.
pub const BURST_FRAMES: usize = 64;

/// A burst that has so many bytes takes no more frames: large segments are handed on one by one, while they are in the cache.
pub const BURST_BYTES: usize = 16 << 10;

/// Frames as they are read from a port: their buffers come from the worker's pool.
#[derive(Debug)]
pub struct RxBurst<'a> {
    pool: &'a mut Pool,
    packets: &'a mut Vec<Packet>,
    /// Where a frame goes for which there is no buffer.
    spare: &'a mut [u8],
    /// What has been read, and how much of it went nowhere since there was no buffer.
    pub(super) read: Read,
}

/// What has been read from a port.
#[derive(Clone, Copy, Debug, Default)]
pub struct Read {
    /// Frames.
    pub frames: u64,
    /// Their bytes, without virtio-net headers.
    pub bytes: u64,
    /// Frames for which there was no buffer: they are lost.
    pub lost: u64,
}

impl<'a> RxBurst<'a> {
    /// An empty burst, whose frames are added to `packets`.
    pub(super) fn new(pool: &'a mut Pool, packets: &'a mut Vec<Packet>, spare: &'a mut [u8]) -> Self {
        Self { pool, packets, spare, read: Read::default() }
    }

    /// Has `read` fill a buffer with a frame behind its virtio-net header, and say how long both are, or that there is none. Whether there may be more, and the
    /// burst has room for it.
    ///
    /// # Errors
    /// As `read`.
    #[inline]
    pub fn receive(&mut self, read: impl FnOnce(&mut [u8]) -> io::Result<Option<usize>>) -> io::Result<bool> {
        self.receive_from_tunnel(|buffer| Ok(read(buffer)?.map(|len| (len, 0))))
    }

    /// [`RxBurst::receive`] of a frame that has come by a network of a tunnel, of which `read` says the number as well.
    ///
    /// # Errors
    /// As `read`.
    #[inline]
    pub fn receive_from_tunnel(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> io::Result<Option<(usize, u32)>>,
    ) -> io::Result<bool> {
        let len = if let Some(mut packet) = self.pool.take() {
            match read(packet.buffer()) {
                Ok(Some((len, tunnel))) => {
                    packet.set_len(len);
                    packet.tunnel = tunnel;
                    self.packets.push(packet);
                    len
                }
                nothing => {
                    self.pool.put(packet);
                    return nothing.map(|_| false);
                }
            }
        } else {
            let Some((len, _)) = read(self.spare)? else { return Ok(false) };
            self.read.lost += 1;
            len
        };
        self.read.frames += 1;
        self.read.bytes += len.saturating_sub(VNET_HEADER) as u64;
        Ok(!self.is_full())
    }

    /// Whether it takes no more frames.
    pub(super) const fn is_full(&self) -> bool {
        self.read.frames >= BURST_FRAMES as u64 || self.read.bytes >= BURST_BYTES as u64
    }
}

/// The frames of one burst of a port of a test, each behind its virtio-net header.
#[cfg(test)]
pub fn burst_of(port: &mut impl crate::port::Port) -> Vec<Vec<u8>> {
    let mut pool = Pool::new(2_000, 2 * BURST_FRAMES * 2_000, super::pool::Depot::default());
    let (mut packets, mut spare) = (Vec::new(), vec![0; 2_000]);
    port.rx_burst(&mut RxBurst::new(&mut pool, &mut packets, &mut spare)).expect("it can be read");
    packets.iter().map(|packet| packet.bytes().to_vec()).collect()
}

/// Frames that are handed to a port, each behind its virtio-net header.
#[derive(Clone, Copy, Debug)]
pub struct TxFrames<'a>(pub(super) &'a [Packet]);

impl<'a> TxFrames<'a> {
    /// In their order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = &'a [u8]> {
        self.0.iter().map(|packet| packet.bytes())
    }

    /// The same, each with the network of the tunnel by which it is to leave.
    pub fn with_tunnels(self) -> impl ExactSizeIterator<Item = (&'a [u8], u32)> {
        self.0.iter().map(|packet| (packet.bytes(), packet.tunnel))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::os::fd::{AsFd, BorrowedFd};

    use super::super::pool::Depot;
    use super::*;
    use crate::port::{Port, Unsent};

    /// A port in memory: what it gives, what it was given, and how much room it has.
    #[derive(Debug)]
    struct MemoryPort {
        waiting: VecDeque<Vec<u8>>,
        sent: Vec<Vec<u8>>,
        room: usize,
    }

    impl AsFd for MemoryPort {
        fn as_fd(&self) -> BorrowedFd<'_> {
            unreachable!("nobody waits for it")
        }
    }

    impl Port for MemoryPort {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
            let Some(frame) = self.waiting.pop_front() else { return Ok(None) };
            if frame.is_empty() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            buffer[..frame.len()].copy_from_slice(&frame);
            Ok(Some(frame.len()))
        }

        fn write(&mut self, frame: &[u8]) -> io::Result<()> {
            if self.sent.len() == self.room {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.sent.push(frame.to_vec());
            Ok(())
        }

        fn is_waiting(&self) -> bool {
            false
        }
    }

    fn port(waiting: impl IntoIterator<Item = Vec<u8>>, room: usize) -> MemoryPort {
        MemoryPort { waiting: waiting.into_iter().collect(), sent: Vec::new(), room }
    }

    fn frame(number: u8, len: usize) -> Vec<u8> {
        vec![number; VNET_HEADER + len]
    }

    /// Reads one burst with so many buffers of 20,000 bytes: what has been read, and counted, and whether the burst is full.
    fn rx(port: &mut MemoryPort, buffers: usize) -> (Vec<Packet>, Read, bool, io::Result<()>) {
        let mut pool = Pool::new(20_000, buffers * 20_000, Depot::default());
        let (mut packets, mut spare) = (Vec::new(), vec![0; 20_000]);
        let mut burst = RxBurst::new(&mut pool, &mut packets, &mut spare);
        let outcome = port.rx_burst(&mut burst);
        let (read, is_full) = (burst.read, burst.is_full());
        (packets, read, is_full, outcome)
    }

    #[test]
    fn a_burst_ends_with_the_frames_or_when_it_is_full() {
        let mut few = port((0..3).map(|number| frame(number, 60)), 0);
        let (packets, read, is_full, _) = rx(&mut few, 100);
        assert_eq!(packets.iter().map(|packet| packet.bytes()[0]).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!((read.frames, read.bytes, read.lost, is_full), (3, 180, 0, false));
        let mut many = port((0..100).map(|number| frame(number, 60)), 0);
        assert!(rx(&mut many, 100).2);
        assert_eq!(many.waiting.len(), 100 - BURST_FRAMES);
        let mut large = port((0..3).map(|number| frame(number, BURST_BYTES)), 0);
        assert!(rx(&mut large, 100).2);
        assert_eq!(large.waiting.len(), 2);
    }

    #[test]
    fn a_frame_without_a_buffer_is_counted_and_an_error_keeps_what_came_before() {
        let mut port = port([frame(1, 60), frame(2, 60), frame(3, 60), Vec::new(), frame(4, 60)], 0);
        let (packets, read, is_full, outcome) = rx(&mut port, 1);
        assert_eq!((packets.len(), read.frames, read.bytes, read.lost, is_full), (1, 3, 180, 2, false));
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(port.waiting.len(), 1);
    }

    #[test]
    fn what_a_port_does_not_take_of_a_burst_is_reported() {
        let mut pool = Pool::new(100, 1_000, Depot::default());
        let packets = (1..4).map(|number| {
            let mut packet = pool.take().unwrap();
            packet.buffer()[..VNET_HEADER + 60].copy_from_slice(&frame(number, 60));
            packet.set_len(VNET_HEADER + 60);
            packet
        });
        let packets: Vec<Packet> = packets.collect();
        let mut port = port([], 2);
        assert_eq!(port.tx_burst(TxFrames(&packets)), Unsent { frames: 1, bytes: 60 });
        assert_eq!(port.sent, [frame(1, 60), frame(2, 60)]);
    }
}
