//! What travels between sender and receiver, as values.

use machine::Time;

/// A data segment. All segments carry the same number of bytes ([`crate::TransportSpec::segment_bytes`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Offset of its first byte in the stream.
    pub seq: u64,
    /// When it was sent, also if sent again: the timestamp option's `TSval` (RFC 7323).
    pub stamp: Time,
    /// The receiver hands it to the application at once (PSH): it ends a burst of several, or what the application wrote. Only Linux's senders say so.
    pub push: bool,
}

impl Segment {
    /// `seq` of the segment by which a sender asks for a connection. It carries no data.
    pub const SYN: u64 = u64::MAX;
    /// `seq` of the segment by which it answers the answer to that. It carries no data.
    pub const SYN_ANSWERED: u64 = Self::SYN - 1;

    /// Whether it is not a part of the handshake.
    #[inline]
    pub const fn carries_data(&self) -> bool {
        self.seq < Self::SYN_ANSWERED
    }
}

/// An acknowledgement that a receiver sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// All bytes before this offset have arrived.
    pub ack: u64,
    /// The stamp of the segment that this answers: the timestamp option's `TSecr` (RFC 7323).
    pub echo: Time,
    /// What has arrived beyond `ack` (RFC 2018).
    pub blocks: Blocks,
}

/// A contiguous range that has arrived, relative to the cumulative acknowledgement that carries it. Where it says what came twice (RFC 2883), it may lie
/// below that: distances wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Distance from the cumulative acknowledgement to the first byte.
    pub start: u32,
    /// Distance from the cumulative acknowledgement to the byte behind the last one.
    pub end: u32,
}

/// Up to three blocks: as many as fit beside a timestamp option (RFC 2018, section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    blocks: [Block; Self::MAX],
    count: u8,
}

impl Blocks {
    /// The most that one acknowledgement carries.
    pub const MAX: usize = 3;
    /// An acknowledgement without blocks.
    pub const NONE: Self = Self { blocks: [Block { start: 0, end: 0 }; Self::MAX], count: 0 };

    /// Adds a block behind the others; false if there is no place left.
    pub fn push(&mut self, block: Block) -> bool {
        let free = self.blocks.get_mut(usize::from(self.count));
        free.map(|place| *place = block).is_some() && {
            self.count += 1;
            true
        }
    }

    /// The blocks, the most recent first.
    #[inline]
    pub fn as_slice(&self) -> &[Block] {
        &self.blocks[..usize::from(self.count)]
    }
}
