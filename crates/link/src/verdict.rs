//! What a link says of a packet that is offered to it.

use machine::Time;

/// What happens to a packet that is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It reaches the other end then.
    Arrives(Time),
    /// It does, and has found a long queue ([`LinkSpec::ecn_packets`]): whoever has it marks it, if it can be marked ([`Link::count_mark`]).
    Marks(Time),
    /// It does, and something happens to it on the way.
    Impaired(Impaired),
    /// The queue was full, the link has no carrier, or the packet is lost on the way.
    Dropped,
}

/// What happens to a packet on its way, besides that it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impaired {
    /// It reaches the other end then.
    pub at: Time,
    /// [`Verdict::Marks`].
    pub marks: bool,
    /// A second one like it is offered to the link behind it ([`Link::count_duplicate`](crate::Link::count_duplicate)).
    pub is_duplicated: bool,
    /// One of its bits is flipped: these say which.
    pub flips: Option<u64>,
}

impl Verdict {
    /// All that happens to the packet; `None` if it is dropped.
    pub const fn impaired(self) -> Option<Impaired> {
        match self {
            Self::Arrives(at) => Some(Impaired { at, marks: false, is_duplicated: false, flips: None }),
            Self::Marks(at) => Some(Impaired { at, marks: true, is_duplicated: false, flips: None }),
            Self::Impaired(impaired) => Some(impaired),
            Self::Dropped => None,
        }
    }
}

impl Impaired {
    /// Of a packet to which nothing happens but that it arrives, less is to be done.
    pub(crate) const fn verdict(self) -> Verdict {
        match self {
            Self { is_duplicated: false, flips: None, marks: false, at } => Verdict::Arrives(at),
            Self { is_duplicated: false, flips: None, marks: true, at } => Verdict::Marks(at),
            _ => Verdict::Impaired(self),
        }
    }
}
