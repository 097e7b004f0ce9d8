//! What is asked about a packet, and what it is.

use super::nat::NatRange;
use super::tcp::TcpState;
use super::tuple::Tuple;

/// What is asked about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Connections of different zones have nothing to do with each other.
    pub zone: u16,
    /// Whether a new connection is kept.
    pub commit: bool,
    /// Whether the packet's direction is to be the connection's: one in the other direction makes room.
    pub force: bool,
    /// With `commit`, bits of the connection's mark that are written: value and mask.
    pub mark: Option<(u32, u32)>,
    /// Whether addresses are translated.
    pub translate: Translate,
}

/// Whether addresses are translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translate {
    /// The packet stays as it is.
    No,
    /// As the connection's first packet was.
    Existing,
    /// The same; a new connection that is kept gets an address of this range.
    New(NatRange),
    /// The same for both ends: one range is for the source, the other one for the destination.
    Both {
        /// For the source.
        source: NatRange,
        /// For the destination, of which the first address and port count.
        destination: NatRange,
    },
}

impl Request {
    /// What a new connection is translated to, if it is.
    pub(super) const fn range_for(&self, tuple: &Tuple) -> Option<&NatRange> {
        match &self.translate {
            Translate::New(range) | Translate::Both { source: range, .. } if range.is_for(tuple) => Some(range),
            Translate::No | Translate::Existing | Translate::New(_) | Translate::Both { .. } => None,
        }
    }

    /// What a new connection is before an address of [`Request::range_for`] is chosen for it.
    pub(super) fn with_destination(&self, tuple: &Tuple) -> Tuple {
        match &self.translate {
            Translate::Both { destination, .. } if destination.is_for(tuple) => destination.first(tuple),
            Translate::No | Translate::Existing | Translate::New(_) | Translate::Both { .. } => *tuple,
        }
    }

    /// The flags of what a new connection is translated to.
    pub(super) fn flags_for(&self, tuple: &Tuple) -> u8 {
        let range = self.range_for(tuple).map_or(0, NatRange::flag);
        match &self.translate {
            Translate::Both { destination, .. } if destination.is_for(tuple) => range | destination.flag(),
            Translate::No | Translate::Existing | Translate::New(_) | Translate::Both { .. } => range,
        }
    }
}

/// What a packet is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tracked {
    /// Flags of [`ct_state`](super::ct_state).
    pub state: u8,
    /// The mark of its connection.
    pub mark: u32,
    /// Whether it belongs to a connection that is kept.
    pub is_kept: bool,
    /// Why a connection that was to be kept is not.
    pub refusal: Option<Refusal>,
    /// What its addresses and ports are to become, if they are translated.
    pub tuple: Option<Tuple>,
    /// Of an ICMP error, what those of the packet are to become that it quotes.
    pub quoted: Option<Tuple>,
    /// Where its connection is, if that is kept and the packet is no ICMP error: no other one that is there has this number. A packet that is invalid, and has one, is
    /// between the two ends of that connection.
    pub place: Option<u32>,
    /// Of an ICMP error, where the connection is that it is about.
    pub quoted_place: Option<u32>,
    /// Of TCP, how its connection stands now.
    pub tcp: Option<TcpState>,
}

/// Why a connection is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// All others are in use.
    NoRoom,
    /// No address and port is left for it; or answers to it would be another one's.
    NoTuple,
}
