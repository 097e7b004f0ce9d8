//! What travels between sender and receiver, as values.

use machine::Time;

/// What a packet says about congestion (RFC 3168): two bits of IP's header and two of TCP's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ecn(u8);

impl Ecn {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// ECT: who sends it hears of marks.
    pub const ECT: Self = Self(1);
    /// CE: a queue on the way was long.
    pub const CE: Self = Self(2);
    /// ECE: its sender has got marks.
    pub const ECE: Self = Self(4);
    /// CWR: its sender has made its window smaller.
    pub const CWR: Self = Self(8);
    /// What a SYN says that asks for ECN (RFC 3168, 6.1.1).
    pub const SETUP: Self = Self(Self::ECE.0 | Self::CWR.0);

    /// Both what this and what `other` says.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This, where that is so; else nothing.
    #[must_use]
    pub const fn only_if(self, so: bool) -> Self {
        if so { self } else { Self::NONE }
    }

    /// Whether it says all that `other` says.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// A queue marks it. Whether that is possible: packets are told apart by [`Ecn::ECT`].
    pub const fn mark(&mut self) -> bool {
        let can_be = self.has(Self::ECT);
        if can_be {
            self.0 |= Self::CE.0;
        }
        can_be
    }
}

/// A data segment. All segments carry the same number of bytes ([`crate::TransportSpec::segment_bytes`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Offset of its first byte in the stream.
    pub seq: u64,
    /// When it was sent, also if sent again: the timestamp option's `TSval` (RFC 7323).
    pub stamp: Time,
    /// The receiver hands it to the application at once (PSH): it ends a burst of several, or what the application wrote. Only Linux's senders say so.
    pub push: bool,
    /// What it says about congestion.
    pub ecn: Ecn,
    /// [`Offer::stamp`] of the last acknowledgement that its sender has had: the timestamp option's `TSecr` (RFC 7323). 0 where nobody asks for it.
    pub echo: u32,
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
    /// What it says about congestion.
    pub ecn: Ecn,
    /// What its sender has room for, if that changes.
    pub offer: Offer,
}

/// What a receiver says whose window changes ([`crate::ReceiveWindow::Auto`]). Where it never does, nobody says anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Bytes from the cumulative acknowledgement on that there is room for (RFC 9293, 3.8.6).
    pub window: u32,
    /// When the acknowledgement was sent, milliseconds: the timestamp option's `TSval` (RFC 7323), by which a receiver measures round trips.
    pub stamp: u32,
}

impl Offer {
    /// Nothing.
    pub const NONE: Self = Self { window: 0, stamp: 0 };
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

/// Up to three blocks: as many as fit beside a timestamp option (RFC 2018, section 3). They are aligned, since 28 bytes would be copied in two parts that overlap,
/// and the second would wait until the first has left the processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(16))]
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
