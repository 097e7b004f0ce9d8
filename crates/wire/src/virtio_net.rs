//! The virtio network header (virtio 1.2, section 5.1.6): what a TAP with `IFF_VNET_HDR` puts before each frame.
//!
//! It says what is still to be done: fill in a checksum, cut a large segment into packets. Little-endian, as in virtio 1; a TAP uses
//! the machine's byte order, which is the same on every machine that Heddle runs on.

use crate::error::{room, split};
use crate::{Coverage, Error, checksum};

const NAME: &str = "virtio-net";
const SHORT: usize = 10;
const MERGEABLE: usize = 12;

const FLAG_NEEDS_CHECKSUM: u8 = 1;
const FLAG_DATA_VALID: u8 = 2;
const GSO_ECN: u8 = 0x80;

/// Which of the header's two lengths is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VirtioNetLayout {
    /// 10 bytes: a TAP's default.
    Short,
    /// 12 bytes, with the number of merged buffers: `VIRTIO_NET_F_MRG_RXBUF`, and always in virtio 1.
    Mergeable,
}

impl VirtioNetLayout {
    /// The header's length in bytes.
    pub const fn len(self) -> usize {
        match self {
            Self::Short => SHORT,
            Self::Mergeable => MERGEABLE,
        }
    }

    /// No layout is empty.
    pub const fn is_empty(self) -> bool {
        false
    }
}

/// How a large segment is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentationKind {
    /// TCP over IPv4 (`VIRTIO_NET_HDR_GSO_TCPV4`).
    TcpV4,
    /// UDP by IP fragmentation, which Linux no longer sends (`VIRTIO_NET_HDR_GSO_UDP`).
    UdpFragments,
    /// TCP over IPv6 (`VIRTIO_NET_HDR_GSO_TCPV6`).
    TcpV6,
    /// UDP into datagrams (`VIRTIO_NET_HDR_GSO_UDP_L4`).
    Udp,
}

/// A view of a header. Checked: its length; the kind of segmentation is a known one.
#[derive(Clone, Copy, Debug)]
pub struct VirtioNetPacket<'a> {
    header: &'a [u8; SHORT],
    kind: Option<SegmentationKind>,
    buffers: Option<u16>,
    frame: &'a [u8],
}

impl<'a> VirtioNetPacket<'a> {
    /// Checks a header that is followed by a frame.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Field`] for an unknown kind of segmentation.
    #[inline]
    pub fn new_checked(bytes: &'a [u8], layout: VirtioNetLayout) -> Result<Self, Error> {
        let (header, rest) = split::<SHORT>(NAME, bytes)?;
        let kind = match header[1] & !GSO_ECN {
            0 => None,
            1 => Some(SegmentationKind::TcpV4),
            3 => Some(SegmentationKind::UdpFragments),
            4 => Some(SegmentationKind::TcpV6),
            5 => Some(SegmentationKind::Udp),
            other => return Err(Error::field(NAME, "gso_type", u32::from(other), "0, 1, 3, 4 or 5")),
        };
        if layout == VirtioNetLayout::Short {
            return Ok(Self { header, kind, buffers: None, frame: rest });
        }
        match rest.split_first_chunk::<2>() {
            Some((buffers, frame)) => Ok(Self { header, kind, buffers: Some(u16::from_le_bytes(*buffers)), frame }),
            None => Err(Error::Truncated { header: NAME, need: MERGEABLE, have: bytes.len() }),
        }
    }

    /// Whether a checksum is still to be filled in (`VIRTIO_NET_HDR_F_NEEDS_CSUM`).
    pub const fn needs_checksum(&self) -> bool {
        self.header[0] & FLAG_NEEDS_CHECKSUM != 0
    }

    /// What the checksum field of TCP or UDP holds.
    pub const fn coverage(&self) -> Coverage {
        if self.needs_checksum() { Coverage::PseudoHeader } else { Coverage::Complete }
    }

    /// Whether the checksum is known to be right (`VIRTIO_NET_HDR_F_DATA_VALID`).
    pub const fn is_data_valid(&self) -> bool {
        self.header[0] & FLAG_DATA_VALID != 0
    }

    /// How the frame is to be cut, if it is.
    pub const fn segmentation_kind(&self) -> Option<SegmentationKind> {
        self.kind
    }

    /// Whether the TCP segment carries ECN's CWR (`VIRTIO_NET_HDR_GSO_ECN`).
    pub const fn has_ecn(&self) -> bool {
        self.header[1] & GSO_ECN != 0
    }

    /// Bytes of headers that each part begins with; a hint.
    pub const fn header_len(&self) -> u16 {
        u16::from_le_bytes([self.header[2], self.header[3]])
    }

    /// Payload bytes of each part but the last.
    pub const fn segment_bytes(&self) -> u16 {
        u16::from_le_bytes([self.header[4], self.header[5]])
    }

    /// Where summing starts, from the frame's first byte.
    pub const fn checksum_start(&self) -> u16 {
        u16::from_le_bytes([self.header[6], self.header[7]])
    }

    /// Where the checksum belongs, from [`VirtioNetPacket::checksum_start`].
    pub const fn checksum_offset(&self) -> u16 {
        u16::from_le_bytes([self.header[8], self.header[9]])
    }

    /// Merged buffers, in the layout that has them.
    pub const fn buffers(&self) -> Option<u16> {
        self.buffers
    }

    /// What follows the header.
    pub const fn frame(&self) -> &'a [u8] {
        self.frame
    }

    /// Whether the checksum, if one is wanted, lies within the frame. The kernel refuses a frame where it does not.
    pub const fn is_checksum_within_frame(&self) -> bool {
        let end = self.checksum_start() as usize + self.checksum_offset() as usize + 2;
        !self.needs_checksum() || end <= self.frame.len()
    }

    /// The checksum that the sender has left undone, and where in the frame it belongs; `None` if it has not, or if there is no such place.
    pub fn missing_checksum(&self) -> Option<(usize, u16)> {
        if !self.needs_checksum() || !self.is_checksum_within_frame() {
            return None;
        }
        let start = usize::from(self.checksum_start());
        // The field holds the sum of the pseudo-header: with it, all is summed. To UDP, zero says that there is no checksum (RFC 768).
        let sum = match checksum::internet(&self.frame[start..]) {
            0 => u16::MAX,
            sum => sum,
        };
        Some((start + usize::from(self.checksum_offset()), sum))
    }
}

/// A checksum that is still to be filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksumRequest {
    /// Where summing starts, from the frame's first byte.
    pub start: u16,
    /// Where the checksum belongs, from `start`.
    pub offset: u16,
}

/// A cut that is still to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// How the frame is to be cut.
    pub kind: SegmentationKind,
    /// Whether the TCP segment carries ECN's CWR.
    pub ecn: bool,
    /// Payload bytes of each part but the last.
    pub segment_bytes: u16,
    /// Bytes of headers that each part begins with.
    pub header_len: u16,
}

/// What a header says. The default asks for nothing. Every value is valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VirtioNetRepr {
    /// The checksum that is still to be filled in.
    pub checksum: Option<ChecksumRequest>,
    /// The checksum is known to be right.
    pub data_valid: bool,
    /// The cut that is still to be made.
    pub segmentation: Option<Segmentation>,
    /// Merged buffers; `Some` makes the header 12 bytes long.
    pub buffers: Option<u16>,
}

impl VirtioNetRepr {
    /// What the view says; fields that no flag makes count are left out.
    pub fn parse(packet: &VirtioNetPacket<'_>) -> Self {
        Self {
            checksum: packet
                .needs_checksum()
                .then(|| ChecksumRequest { start: packet.checksum_start(), offset: packet.checksum_offset() }),
            data_valid: packet.is_data_valid(),
            segmentation: packet.segmentation_kind().map(|kind| Segmentation {
                kind,
                ecn: packet.has_ecn(),
                segment_bytes: packet.segment_bytes(),
                header_len: packet.header_len(),
            }),
            buffers: packet.buffers(),
        }
    }

    /// Bytes that [`VirtioNetRepr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        if self.buffers.is_some() { MERGEABLE } else { SHORT }
    }

    /// Writes the header to the start of `buffer`.
    ///
    /// # Panics
    /// If `buffer` has less than `buffer_len()` bytes.
    pub fn emit(&self, buffer: &mut [u8]) {
        let header = room::<SHORT>(buffer);
        header.fill(0);
        header[0] =
            (u8::from(self.checksum.is_some()) * FLAG_NEEDS_CHECKSUM) | (u8::from(self.data_valid) * FLAG_DATA_VALID);
        if let Some(segmentation) = self.segmentation {
            let kind = match segmentation.kind {
                SegmentationKind::TcpV4 => 1,
                SegmentationKind::UdpFragments => 3,
                SegmentationKind::TcpV6 => 4,
                SegmentationKind::Udp => 5,
            };
            header[1] = kind | (u8::from(segmentation.ecn) * GSO_ECN);
            header[2..4].copy_from_slice(&segmentation.header_len.to_le_bytes());
            header[4..6].copy_from_slice(&segmentation.segment_bytes.to_le_bytes());
        }
        if let Some(checksum) = self.checksum {
            header[6..8].copy_from_slice(&checksum.start.to_le_bytes());
            header[8..].copy_from_slice(&checksum.offset.to_le_bytes());
        }
        if let Some(buffers) = self.buffers {
            buffer[SHORT..MERGEABLE].copy_from_slice(&buffers.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layout(repr: &VirtioNetRepr) -> VirtioNetLayout {
        if repr.buffers.is_some() { VirtioNetLayout::Mergeable } else { VirtioNetLayout::Short }
    }

    #[test]
    fn a_checksum_outside_of_the_frame_is_noticed() {
        let repr = VirtioNetRepr { checksum: Some(ChecksumRequest { start: 34, offset: 16 }), ..Default::default() };
        let mut bytes = vec![0; repr.buffer_len() + 52];
        repr.emit(&mut bytes);
        let within = |len| {
            VirtioNetPacket::new_checked(&bytes[..len], VirtioNetLayout::Short).unwrap().is_checksum_within_frame()
        };
        assert!(within(SHORT + 52));
        assert!(!within(SHORT + 51));
    }

    #[test]
    fn a_missing_checksum_is_that_of_all_behind_its_start() {
        let repr = VirtioNetRepr { checksum: Some(ChecksumRequest { start: 4, offset: 6 }), ..Default::default() };
        let missing = |repr: &VirtioNetRepr, frame: &[u8]| {
            let mut bytes = vec![0; repr.buffer_len()];
            repr.emit(&mut bytes);
            bytes.extend(frame);
            VirtioNetPacket::new_checked(&bytes, VirtioNetLayout::Short).unwrap().missing_checksum()
        };
        assert_eq!(missing(&repr, &[9, 9, 9, 9, 0, 1, 0, 2, 0, 3, 0, 4]), Some((10, !10)));
        // It would be zero, which means that there is none.
        assert_eq!(missing(&repr, &[0, 0, 0, 0, 0xff, 0xfe, 0, 0, 0, 0, 0, 1]), Some((10, 0xffff)));
        assert_eq!(missing(&repr, &[0; 11]), None);
        assert_eq!(missing(&VirtioNetRepr::default(), &[0; 12]), None);
    }

    #[test]
    fn unknown_segmentation_is_refused() {
        let mut bytes = [0; 12];
        bytes[1] = 2;
        let error = VirtioNetPacket::new_checked(&bytes, VirtioNetLayout::Mergeable).unwrap_err();
        assert_eq!(error.to_string(), "virtio-net: gso_type is 2, 0, 1, 3, 4 or 5 expected");
    }

    proptest! {
        #[test]
        fn emitted_and_parsed_is_the_same(
            checksum in proptest::option::of((any::<u16>(), any::<u16>())),
            segmentation in proptest::option::of((0_usize..4, any::<bool>(), any::<u16>(), any::<u16>())),
            data_valid: bool,
            buffers: Option<u16>,
        ) {
            const KINDS: [SegmentationKind; 4] = [
                SegmentationKind::TcpV4, SegmentationKind::UdpFragments, SegmentationKind::TcpV6, SegmentationKind::Udp,
            ];
            let repr = VirtioNetRepr {
                checksum: checksum.map(|(start, offset)| ChecksumRequest { start, offset }),
                data_valid,
                segmentation: segmentation.map(|(kind, ecn, segment_bytes, header_len)| {
                    Segmentation { kind: KINDS[kind], ecn, segment_bytes, header_len }
                }),
                buffers,
            };
            let mut buffer = vec![0xa5; repr.buffer_len()];
            repr.emit(&mut buffer);
            let packet = VirtioNetPacket::new_checked(&buffer, layout(&repr)).unwrap();
            prop_assert_eq!(VirtioNetRepr::parse(&packet), repr);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..20), short: bool) {
            let layout = if short { VirtioNetLayout::Short } else { VirtioNetLayout::Mergeable };
            if let Ok(packet) = VirtioNetPacket::new_checked(&bytes, layout) {
                prop_assert_eq!(packet.frame().len() + layout.len(), bytes.len());
                VirtioNetRepr::parse(&packet);
                prop_assert!(packet.missing_checksum().is_none_or(|(at, _)| at + 2 <= packet.frame().len()));
            }
        }
    }
}
