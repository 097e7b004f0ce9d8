//! Cuts the large segments that kernels leave uncut for a network card to do (TSO, USO): a link with a rate carries frames. And coalesces
//! what arrives one right after the other, as network cards and kernels do (GRO, LRO): a program is woken once for all of it.
//!
//! What a virtio-net header asks for (virtio 1.2, section 5.1.6.2): the payload in pieces of `gso_size`, each behind a copy of the
//! headers. Lengths, IPv4's identification and checksum, TCP's sequence number and flags are put right. The transport's
//! checksum stays to be done, with a header that says so, as it was before.

use wire::checksum::internet;
use wire::{MplsPacket, SegmentationKind, VirtioNetLayout, VirtioNetPacket, ethertype, mpls_at, tcp_flags};

/// Bytes of the virtio-net header.
const VNET: usize = VirtioNetLayout::Short.len();
/// The length of the two Ethernet addresses.
const ADDRESSES: usize = 12;
/// VLAN tags that are looked behind.
const TAGS_MAX: usize = 2;
/// Labels that are looked behind: as many as a worker's buffer has room for.
const LABELS_MAX: usize = 4;
/// 802.1ad's ethertype of an outer tag.
const ETHERTYPE_QINQ: u16 = 0x88a8;
/// Pieces of one segment at most: those of 64 KiB in pieces of 128 bytes. Smaller pieces would only keep the worker busy.
const PIECES_MAX: usize = 512;
/// The shortest headers.
const IPV4: usize = 20;
const IPV6: usize = 40;
const TCP: usize = 20;
const UDP: usize = 8;

/// Why something that claims to be a large segment is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSegment {
    /// Its virtio-net header is malformed.
    #[error(transparent)]
    Header(#[from] wire::Error),
    /// It is cut off, or its headers contradict each other.
    #[error("a large segment whose headers contradict each other")]
    Malformed,
    /// Linux gave it up in 2017.
    #[error("a large UDP segment that is to be cut into IP fragments")]
    Fragments,
}

/// A segment that is to be cut.
#[derive(Clone, Copy, Debug)]
pub struct LargeSegment<'a> {
    frame: &'a [u8],
    is_tcp: bool,
    /// Where the IP header begins, and whether it is IPv4's.
    network: (usize, bool),
    /// Where the transport header begins, and where the checksum is.
    transport: usize,
    checksum: usize,
    /// Where the payload begins.
    payload: usize,
    /// Bytes of payload in each piece but the last one.
    size: usize,
}

impl<'a> LargeSegment<'a> {
    /// Looks at a frame behind its virtio-net header; `None` if there is nothing to cut.
    ///
    /// # Errors
    /// [`NoSegment`] if it claims to be one and can't be cut.
    pub fn find(bytes: &'a [u8]) -> Result<Option<Self>, NoSegment> {
        let header = VirtioNetPacket::new_checked(bytes, VirtioNetLayout::Short)?;
        let (is_tcp, is_v4) = match header.segmentation_kind() {
            None => return Ok(None),
            Some(SegmentationKind::TcpV4) => (true, Some(true)),
            Some(SegmentationKind::TcpV6) => (true, Some(false)),
            Some(SegmentationKind::Udp) => (false, None),
            Some(SegmentationKind::UdpFragments) => return Err(NoSegment::Fragments),
        };
        Self::read(&header, is_tcp, is_v4).ok_or(NoSegment::Malformed).map(Some)
    }

    fn read(header: &VirtioNetPacket<'a>, is_tcp: bool, is_v4: Option<bool>) -> Option<Self> {
        let frame = header.frame();
        let network = labelled_header(frame)?;
        let transport = usize::from(header.checksum_start());
        let checksum = transport + usize::from(header.checksum_offset());
        let ip = if network.1 { IPV4 } else { IPV6 };
        let known = header.needs_checksum() && is_v4.is_none_or(|v4| v4 == network.1);
        if !known || transport < network.0 + ip || checksum != transport + if is_tcp { 16 } else { 6 } {
            return None;
        }
        if network.1 && network.0 + usize::from(frame[network.0] & 0xf) * 4 != transport {
            return None;
        }
        let words = if is_tcp { usize::from(frame.get(transport + 12)? >> 4) * 4 } else { UDP };
        let payload = transport + words;
        let size = usize::from(header.segment_bytes());
        let pieces = frame.len().saturating_sub(payload).div_ceil(size.max(1));
        let whole =
            pieces <= PIECES_MAX && words >= if is_tcp { TCP } else { UDP } && frame.len() > payload && size > 0;
        whole.then_some(Self { frame, is_tcp, network, transport, checksum, payload, size })
    }

    /// How many pieces there will be; one at least.
    pub const fn count(&self) -> usize {
        (self.frame.len() - self.payload).div_ceil(self.size)
    }

    /// Bytes of the longest piece, with its virtio-net header.
    pub fn piece_bytes(&self) -> usize {
        VNET + self.payload + self.size.min(self.frame.len() - self.payload)
    }

    /// Writes a piece with its virtio-net header into `out`; its length, or `None` if it does not fit.
    ///
    /// # Panics
    /// If there is no such piece.
    pub fn emit(&self, piece: usize, out: &mut [u8]) -> Option<usize> {
        assert!(piece < self.count(), "a segment has the pieces 0 to {}", self.count() - 1);
        let from = self.payload + piece * self.size;
        let to = (from + self.size).min(self.frame.len());
        let len = self.payload + to - from;
        let (header, frame) = out.get_mut(..VNET + len)?.split_at_mut(VNET);
        header.fill(0);
        // `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
        header[0] = 1;
        header[6..8].copy_from_slice(&(self.transport as u16).to_le_bytes());
        header[8..10].copy_from_slice(&((self.checksum - self.transport) as u16).to_le_bytes());
        frame[..self.payload].copy_from_slice(&self.frame[..self.payload]);
        frame[self.payload..].copy_from_slice(&self.frame[from..to]);
        self.fix_network_header(frame, piece);
        let (old, new) = (self.frame.len() - self.transport, len - self.transport);
        put(frame, self.checksum, relengthened(word(frame, self.checksum), old, new));
        if self.is_tcp {
            self.fix_tcp_header(frame, piece);
        } else {
            put(frame, self.transport + 4, new as u16);
        }
        Some(VNET + len)
    }

    fn fix_network_header(&self, frame: &mut [u8], piece: usize) {
        let (at, is_v4) = self.network;
        let len = frame.len() - at;
        if !is_v4 {
            return put(frame, at + 4, (len - IPV6) as u16);
        }
        put(frame, at + 2, len as u16);
        put(frame, at + 4, word(frame, at + 4).wrapping_add(piece as u16));
        put(frame, at + 10, 0);
        put(frame, at + 10, internet(&frame[at..self.transport]));
    }

    fn fix_tcp_header(&self, frame: &mut [u8], piece: usize) {
        let at = self.transport;
        let seq = u32::from_be_bytes([frame[at + 4], frame[at + 5], frame[at + 6], frame[at + 7]]);
        let seq = seq.wrapping_add((piece * self.size) as u32);
        frame[at + 4..at + 8].copy_from_slice(&seq.to_be_bytes());
        if piece > 0 {
            frame[at + 13] &= !tcp_flags::CWR;
        }
        if piece + 1 < self.count() {
            frame[at + 13] &= !(tcp_flags::FIN | tcp_flags::PSH);
        }
    }
}

/// The longest segment that is coalesced: what IPv4's total length can say, behind an Ethernet header with two tags.
const COALESCED_MAX: usize = 65_535;

/// Coalesces TCP segments of one flow that come one right after the other, each with its transport checksum still to be done.
///
/// As Linux's GRO: all but the last one have the same length, and their headers differ in nothing but lengths, sequence, identification
/// and PSH, which ends it.
#[derive(Debug, Default)]
pub struct Coalescer {
    /// What has been coalesced, behind its virtio-net header.
    bytes: Vec<u8>,
    /// What a further segment must look like.
    shape: Option<Shape>,
    pieces: usize,
    /// Nothing may follow.
    is_ended: bool,
}

/// Where things are in a segment that can be coalesced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    network: (usize, bool),
    transport: usize,
    payload: usize,
    /// Bytes of payload in the first one.
    size: usize,
}

impl Shape {
    /// Of a frame behind its virtio-net header; `None` if it can't be coalesced with others.
    fn of(bytes: &[u8]) -> Option<Self> {
        let header = VirtioNetPacket::new_checked(bytes, VirtioNetLayout::Short).ok()?;
        if !header.needs_checksum() || header.segmentation_kind().is_some() || header.checksum_offset() != 16 {
            return None;
        }
        let frame = header.frame();
        let (network, is_v4) = network_header(frame)?;
        let transport = network + if is_v4 { IPV4 } else { IPV6 };
        if usize::from(header.checksum_start()) != transport || frame.len() < transport + TCP {
            return None;
        }
        let ip = &frame[network..transport];
        let is_plain = if is_v4 {
            // Version 4 without options, not a fragment and never to be one, TCP, no padding behind.
            ip[0] == 0x45 && word(ip, 6) == 0x4000 && ip[9] == 6 && usize::from(word(ip, 2)) == frame.len() - network
        } else {
            ip[6] == 6 && usize::from(word(ip, 4)) == frame.len() - transport
        };
        let payload = transport + usize::from(frame[transport + 12] >> 4) * 4;
        let flags = frame[transport + 13] & !tcp_flags::PSH;
        let is_data = payload >= transport + TCP && frame.len() > payload && flags == tcp_flags::ACK;
        (is_plain && is_data).then(|| Self {
            network: (network, is_v4),
            transport,
            payload,
            size: frame.len() - payload,
        })
    }

    /// Whether the headers of two frames of this shape differ in nothing but what coalescing rewrites.
    fn has_same_headers(&self, one: &[u8], other: &[u8]) -> bool {
        let (network, is_v4) = self.network;
        let same = |from: usize, to: usize| one[from..to] == other[from..to];
        let ip = if is_v4 {
            same(network, network + 2) && same(network + 6, network + 10) && same(network + 12, self.transport)
        } else {
            same(network, network + 4) && same(network + 6, self.transport)
        };
        let at = self.transport;
        same(0, network)
            && ip
            && same(at, at + 4)
            && same(at + 8, at + 13)
            && same(at + 14, at + 16)
            && same(at + 18, self.payload)
    }
}

impl Coalescer {
    /// Takes a frame with its virtio-net header if it continues what is there, or if nothing is there and others may continue it. One that
    /// is not taken is to be handed on after [`Coalescer::take`].
    pub fn offer(&mut self, bytes: &[u8]) -> bool {
        let Some(shape) = Shape::of(bytes) else { return false };
        let frame = &bytes[VNET..];
        let Some(first) = self.shape else {
            self.bytes.clear();
            self.bytes.extend_from_slice(bytes);
            (self.shape, self.pieces) = (Some(shape), 1);
            self.is_ended = frame[shape.transport + 13] & tcp_flags::PSH != 0;
            return true;
        };
        let coalesced = &self.bytes[VNET..];
        let has_room = coalesced.len() - first.network.0 + shape.size <= COALESCED_MAX && shape.size <= first.size;
        let alike = (shape.network, shape.transport, shape.payload) == (first.network, first.transport, first.payload);
        let sequence = |frame: &[u8]| {
            let at = first.transport + 4;
            u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]])
        };
        // The sum of the pseudo header, which differs by the length in it only.
        let expected = || {
            let (old, new) = (first.payload + first.size - first.transport, frame.len() - first.transport);
            relengthened(word(coalesced, first.transport + 16), old, new)
        };
        let fits = !self.is_ended
            && has_room
            && alike
            && first.has_same_headers(coalesced, frame)
            && word(frame, first.transport + 16) == expected();
        let length = (coalesced.len() - first.payload) as u32;
        if !fits || sequence(frame) != sequence(coalesced).wrapping_add(length) {
            return false;
        }
        let pushes = frame[first.transport + 13] & tcp_flags::PSH;
        self.bytes[VNET + first.transport + 13] |= pushes;
        self.bytes.extend_from_slice(&frame[first.payload..]);
        self.pieces += 1;
        self.is_ended = pushes != 0 || shape.size < first.size;
        true
    }

    /// How many frames have been coalesced.
    pub const fn pieces(&self) -> usize {
        self.pieces
    }

    /// What has been coalesced, with a virtio-net header that says how to cut it again; nothing is there afterwards.
    pub fn take(&mut self) -> Option<&[u8]> {
        let shape = self.shape.take()?;
        if std::mem::take(&mut self.pieces) > 1 {
            let (header, frame) = self.bytes.split_at_mut(VNET);
            let (at, is_v4) = shape.network;
            let whole = frame.len();
            // `VIRTIO_NET_HDR_GSO_TCPV4` and `_TCPV6`.
            header[1] = if is_v4 { 1 } else { 4 };
            header[2..4].copy_from_slice(&(shape.payload as u16).to_le_bytes());
            header[4..6].copy_from_slice(&(shape.size as u16).to_le_bytes());
            if is_v4 {
                put(frame, at + 2, (whole - at) as u16);
                put(frame, at + 10, 0);
                put(frame, at + 10, internet(&frame[at..shape.transport]));
            } else {
                put(frame, at + 4, (whole - shape.transport) as u16);
            }
            let checksum = shape.transport + 16;
            let (old, new) = (shape.payload + shape.size - shape.transport, whole - shape.transport);
            put(frame, checksum, relengthened(word(frame, checksum), old, new));
        }
        Some(&self.bytes)
    }
}

/// Where the IP header begins, and whether it is IPv4's.
pub(crate) fn network_header(frame: &[u8]) -> Option<(usize, bool)> {
    let mut at = ADDRESSES;
    for _ in 0..=TAGS_MAX {
        let kind = u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?);
        match kind {
            ethertype::VLAN | ETHERTYPE_QINQ => at += 4,
            ethertype::IPV4 => return (frame.len() >= at + 2 + IPV4).then_some((at + 2, true)),
            ethertype::IPV6 => return (frame.len() >= at + 2 + IPV6).then_some((at + 2, false)),
            _ => return None,
        }
    }
    None
}

/// The same behind a label stack, if there is one.
fn labelled_header(frame: &[u8]) -> Option<(usize, bool)> {
    let at = mpls_at(frame).ok()?;
    if !ethertype::is_mpls(word(frame, at - 2)) {
        return network_header(frame);
    }
    let packet = MplsPacket::behind_stack(&frame[at..], LABELS_MAX)?;
    let is_v4 = match packet.first()? >> 4 {
        4 => true,
        6 => false,
        _ => return None,
    };
    (packet.len() >= if is_v4 { IPV4 } else { IPV6 }).then_some((frame.len() - packet.len(), is_v4))
}

pub(crate) fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn put(bytes: &mut [u8], at: usize, word: u16) {
    bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
}

/// The sum of a pseudo header with another length in it (RFC 1624).
const fn relengthened(sum: u16, old: usize, new: usize) -> u16 {
    if old == new { sum } else { fold(sum as u32 + !(old as u16) as u32 + new as u32) }
}

const fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::checksum::{Pseudo, transport};
    use wire::{EthernetPacket, Ipv4Packet, TcpPacket};

    use crate::testing::{address, tcp};

    /// A frame of TCP over IPv4 with `payload` bytes behind a header that asks for cutting.
    fn large(payload: usize, size: u16) -> Vec<u8> {
        let mut frame = tcp(&address(0), &address(3), 1, 2, payload);
        let (network, at) = (14, 34);
        let pseudo = Ipv4Packet::new_checked(&frame[network..]).unwrap();
        let (src, dst) = (pseudo.src().octets(), pseudo.dst().octets());
        let len = (frame.len() - at) as u16;
        let sum: u32 = [&src[..2], &src[2..], &dst[..2], &dst[2..], &[0, 6], &len.to_be_bytes()]
            .iter()
            .map(|pair| u32::from(word(pair, 0)))
            .sum();
        put(&mut frame, at + 16, fold(sum));
        frame[at + 13] = tcp_flags::ACK | tcp_flags::PSH | tcp_flags::CWR;
        for (n, byte) in frame[at + 32..].iter_mut().enumerate() {
            *byte = (n % 251) as u8;
        }
        let mut bytes = vec![1, 1, 0, 0];
        bytes.extend(size.to_le_bytes());
        bytes.extend([at as u8, 0, 16, 0]);
        bytes.extend(frame);
        bytes
    }

    /// What the last device does with a header that asks for a checksum.
    fn completed(piece: &[u8]) -> Vec<u8> {
        let mut frame = piece[VNET..].to_vec();
        let start = usize::from(u16::from_le_bytes([piece[6], piece[7]]));
        let offset = usize::from(u16::from_le_bytes([piece[8], piece[9]]));
        let sum = internet(&frame[start..]);
        put(&mut frame, start + offset, sum);
        frame
    }

    proptest! {
        #[test]
        fn pieces_are_frames_that_together_are_the_segment(payload in 1_usize..20_000, size in 40_u16..1_461) {
            let bytes = large(payload, size);
            let segment = LargeSegment::find(&bytes).unwrap().unwrap();
            let first = u32::from_be_bytes(bytes[VNET + 38..VNET + 42].try_into().unwrap());
            let mut whole = Vec::new();
            let mut out = vec![0; segment.piece_bytes()];
            for piece in 0..segment.count() {
                let len = segment.emit(piece, &mut out).unwrap();
                prop_assert!(piece > 0 || len == out.len());
                let frame = completed(&out[..len]);
                let ip = Ipv4Packet::new_checked(EthernetPacket::new_checked(&frame).unwrap().payload()).unwrap();
                prop_assert!(ip.is_checksum_right());
                let pseudo = Pseudo::V4 { src: ip.src(), dst: ip.dst(), protocol: ip.protocol() };
                prop_assert_eq!(transport(&pseudo, ip.payload()), 0);
                let tcp = TcpPacket::new_checked(ip.payload()).unwrap();
                prop_assert_eq!(tcp.seq().wrapping_sub(first) as usize, whole.len());
                let is_last = piece + 1 == segment.count();
                prop_assert_eq!(tcp.flags() & tcp_flags::PSH != 0, is_last);
                prop_assert_eq!(tcp.flags() & tcp_flags::CWR != 0, piece == 0);
                whole.extend_from_slice(tcp.payload());
            }
            prop_assert!(whole[..] == bytes[VNET + 66..]);
        }

        #[test]
        fn any_bytes_are_cut_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0_u8..6, v6 in any::<bool>()) {
            if bytes.len() > 30 {
                bytes[0] = 1;
                bytes[1] = kind;
                bytes[6..8].copy_from_slice(&[if v6 { 54 } else { 34 }, 0]);
                bytes[22..24].copy_from_slice(if v6 { &[0x86, 0xdd] } else { &[8, 0] });
            }
            if let Ok(Some(segment)) = LargeSegment::find(&bytes) {
                let mut out = [0; 400];
                for piece in 0..segment.count() {
                    prop_assert!(segment.emit(piece, &mut out).is_some_and(|len| len <= bytes.len()));
                }
            }
        }
    }

    /// The pieces of a segment, each behind its header.
    fn pieces(bytes: &[u8]) -> Vec<Vec<u8>> {
        let segment = LargeSegment::find(bytes).unwrap().unwrap();
        let piece = |n| {
            let mut out = vec![0; 1_600];
            let len = segment.emit(n, &mut out).unwrap();
            out.truncate(len);
            out
        };
        (0..segment.count()).map(piece).collect()
    }

    proptest! {
        #[test]
        fn what_was_cut_is_coalesced_to_what_it_was(payload in 2_000_usize..60_000, size in 500_u16..1_461) {
            let mut bytes = large(payload, size);
            bytes[VNET + 34 + 13] = tcp_flags::ACK | tcp_flags::PSH;
            let mut coalescer = Coalescer::default();
            for piece in pieces(&bytes) {
                prop_assert!(coalescer.offer(&piece));
            }
            // The length of the headers is a hint that the first header did not give.
            bytes[2..4].copy_from_slice(&66_u16.to_le_bytes());
            prop_assert_eq!(coalescer.pieces(), payload.div_ceil(usize::from(size)));
            prop_assert!(coalescer.take() == Some(&bytes[..]));
            prop_assert_eq!(coalescer.take(), None);
        }

        #[test]
        fn what_is_coalesced_can_be_cut_to_what_came(mut frames in proptest::collection::vec((0_usize..6, 1_usize..900), 1..12), twist in 0_usize..60) {
            // Mostly in order, some not; now and then a byte of a header is another one.
            let cut = pieces(&large(5_000, 900));
            frames.sort_by_key(|(n, _)| *n);
            let mut coalescer = Coalescer::default();
            let mut came = Vec::new();
            let mut went: Vec<Vec<u8>> = Vec::new();
            let mut flush = |coalescer: &mut Coalescer| {
                if let Some(bytes) = coalescer.take() {
                    match LargeSegment::find(bytes).unwrap() {
                        Some(_) => went.extend(pieces(bytes)),
                        None => went.push(bytes.to_vec()),
                    }
                }
            };
            for (at, (n, _)) in frames.iter().enumerate() {
                let mut frame = cut[n % cut.len()].clone();
                frame[VNET + 34 + 13] &= !(tcp_flags::PSH | tcp_flags::CWR);
                if at == 3 && twist >= 14 && ![24, 25].contains(&twist) {
                    frame[VNET + twist] ^= 1;
                }
                came.push(frame.clone());
                if !coalescer.offer(&frame) {
                    flush(&mut coalescer);
                    if !coalescer.offer(&frame) {
                        // It goes by itself.
                        came.pop();
                    }
                }
            }
            flush(&mut coalescer);
            // Identifications are counted on from the first, and IPv4's checksum covers them.
            let plain = |frames: Vec<Vec<u8>>| -> Vec<Vec<u8>> {
                frames.into_iter().map(|mut frame| { frame[..VNET].fill(0); frame[VNET + 18..VNET + 20].fill(0); frame[VNET + 24..VNET + 26].fill(0); frame }).collect()
            };
            prop_assert!(plain(went) == plain(came));
        }

        #[test]
        fn any_frames_are_coalesced_or_not(frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..120), 0..5)) {
            let mut coalescer = Coalescer::default();
            for mut frame in frames {
                if frame.len() > 80 {
                    frame[..10].copy_from_slice(&[1, 0, 0, 0, 0, 0, 34, 0, 16, 0]);
                    frame[22..24].copy_from_slice(&[8, 0]);
                    frame[24] = 0x45;
                }
                if !coalescer.offer(&frame) {
                    coalescer.take();
                }
            }
        }
    }

    #[test]
    fn what_is_small_is_left_alone() {
        let mut bytes = vec![0; VNET];
        bytes.extend(tcp(&address(0), &address(3), 1, 2, 100));
        assert!(LargeSegment::find(&bytes).unwrap().is_none());
        bytes[1] = 3;
        assert_eq!(LargeSegment::find(&bytes).unwrap_err(), NoSegment::Fragments);
        bytes[1] = 4;
        assert_eq!(LargeSegment::find(&bytes).unwrap_err(), NoSegment::Malformed);
    }
}
