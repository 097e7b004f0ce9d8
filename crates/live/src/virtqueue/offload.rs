//! What guest and network leave undone in each other's frames, and what has to be done before the other one may see them (virtio 1.2, section 5.1.6).

use std::collections::VecDeque;

use vswitch::segmentation::LargeSegment;
use wire::{SegmentationKind, VirtioNetPacket};

use crate::tap::{VNET_HEADER, VNET_LAYOUT};

/// Features of virtio-net that are bits of [`Offloads`]: the guest may leave checksums undone, and segments uncut.
pub const CSUM: u64 = 1 << 0;
const HOST_TSO4: u64 = 1 << 11;
const HOST_TSO6: u64 = 1 << 12;
const HOST_ECN: u64 = 1 << 13;
const HOST_USO: u64 = 1 << 56;
/// The guest takes frames without checksums, and segments that are uncut.
const GUEST_CSUM: u64 = 1 << 1;
const GUEST_TSO4: u64 = 1 << 7;
const GUEST_TSO6: u64 = 1 << 8;
const GUEST_ECN: u64 = 1 << 9;
const GUEST_USO4: u64 = 1 << 54;
const GUEST_USO6: u64 = 1 << 55;

/// All of them.
pub const OFFERED: u64 = CSUM
    | GUEST_CSUM
    | GUEST_TSO4
    | GUEST_TSO6
    | GUEST_ECN
    | HOST_TSO4
    | HOST_TSO6
    | HOST_ECN
    | GUEST_USO4
    | GUEST_USO6
    | HOST_USO;

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`
const NEEDS_CHECKSUM: u8 = 1;

/// What was negotiated of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads(u64);

impl Offloads {
    /// Of the features that were negotiated.
    pub const fn of(features: u64) -> Self {
        Self(features & OFFERED)
    }

    const fn has(self, features: u64) -> bool {
        self.0 & features == features
    }

    const fn may_be_uncut(self, kind: SegmentationKind, ecn: bool, of_guest: bool) -> bool {
        let (csum, v4, v6, cwr, udp) = if of_guest {
            (CSUM, HOST_TSO4, HOST_TSO6, HOST_ECN, HOST_USO)
        } else {
            (GUEST_CSUM, GUEST_TSO4, GUEST_TSO6, GUEST_ECN, GUEST_USO4 | GUEST_USO6)
        };
        self.has(csum)
            && (!ecn || self.has(cwr))
            && match kind {
                SegmentationKind::TcpV4 => self.has(v4),
                SegmentationKind::TcpV6 => self.has(v6),
                SegmentationKind::Udp => self.has(udp),
                SegmentationKind::UdpFragments => false,
            }
    }

    /// Whether a guest's header with these flags and this kind of segmentation leaves nothing to be done.
    #[inline]
    pub const fn has_nothing_undone([flags, kind]: [u8; 2]) -> bool {
        flags & NEEDS_CHECKSUM == 0 && kind == 0
    }

    /// Checks a frame of the guest behind its header, and leaves in the header only what means something to the network. Whether it may go on: it asks for
    /// nothing that was not negotiated, and for nothing outside of it.
    #[inline]
    pub fn accept(self, bytes: &mut [u8]) -> bool {
        if bytes.len() < VNET_HEADER {
            return false;
        }
        // Only the network says that a checksum is right.
        bytes[0] &= NEEDS_CHECKSUM;
        if Self::has_nothing_undone([bytes[0], bytes[1]]) {
            bytes[..VNET_HEADER].fill(0);
            return true;
        }
        self.accept_unfinished(bytes)
    }

    fn accept_unfinished(self, bytes: &[u8]) -> bool {
        let Ok(header) = VirtioNetPacket::new_checked(bytes, VNET_LAYOUT) else { return false };
        if !header.is_checksum_within_frame() || header.needs_checksum() && !self.has(CSUM) {
            return false;
        }
        match header.segmentation_kind() {
            None => !header.has_ecn(),
            Some(kind) => {
                let may = self.may_be_uncut(kind, header.has_ecn(), true);
                may && matches!(LargeSegment::find(bytes), Ok(Some(_)))
            }
        }
    }

    /// Whether a frame of the network may be shown to the guest as it is.
    #[inline]
    pub fn shows(self, bytes: &[u8]) -> bool {
        bytes[..2] == [0; 2] || self.shows_unfinished(bytes)
    }

    fn shows_unfinished(self, bytes: &[u8]) -> bool {
        let Ok(header) = VirtioNetPacket::new_checked(bytes, VNET_LAYOUT) else { return false };
        self.has(GUEST_CSUM)
            && header.segmentation_kind().is_none_or(|kind| self.may_be_uncut(kind, header.has_ecn(), false))
    }
}

/// Makes whole frames of what a guest would not understand: cut, with their checksums. Buffers are kept for the next one.
#[derive(Debug, Default)]
pub struct Finisher {
    frames: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

/// The longest piece that is made, with its header.
const PIECE_MAX: usize = VNET_HEADER + 65_536 + 22;

impl Finisher {
    /// Finishes a frame; what becomes of it is taken by [`Finisher::take`]. Whether it could be done.
    pub fn finish(&mut self, bytes: &[u8]) -> bool {
        match LargeSegment::find(bytes) {
            Ok(None) => self.add(bytes.len(), |out| {
                out[..bytes.len()].copy_from_slice(bytes);
                Some(bytes.len())
            }),
            Ok(Some(segment)) => {
                (0..segment.count()).all(|piece| self.add(segment.piece_bytes(), |out| segment.emit(piece, out)))
            }
            Err(_) => false,
        }
    }

    fn add(&mut self, room: usize, fill: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        let mut frame = self.spare.pop().unwrap_or_default();
        frame.resize(room.clamp(VNET_HEADER, PIECE_MAX), 0);
        let filled = fill(&mut frame);
        let is_filled = filled.is_some();
        frame.truncate(filled.unwrap_or(0));
        if let Some((at, sum)) =
            VirtioNetPacket::new_checked(&frame, VNET_LAYOUT).ok().and_then(|view| view.missing_checksum())
        {
            frame[VNET_HEADER + at..VNET_HEADER + at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        if is_filled {
            frame[..VNET_HEADER].fill(0);
            self.frames.push_back(frame);
        } else {
            self.spare.push(frame);
        }
        is_filled
    }

    /// The next finished frame, to be given back.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        self.frames.pop_front()
    }

    /// Takes a buffer back.
    pub fn put(&mut self, frame: Vec<u8>) {
        self.spare.push(frame);
    }
}
