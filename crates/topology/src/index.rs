//! The types of indices. Each counts one kind of thing from 0, and a [`TiVec`](crate::TiVec) of such things takes no other.

use serde::Serialize;

use crate::Side;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident($number:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(pub $number);

        impl From<usize> for $name {
            #[inline]
            fn from(at: usize) -> Self {
                debug_assert!(<$number>::try_from(at).is_ok(), "{at} is no {}", stringify!($name));
                Self(at as $number)
            }
        }

        impl From<$name> for usize {
            #[inline]
            fn from(index: $name) -> Self {
                index.0 as Self
            }
        }
    };
}

index! {
    /// A node of a topology. Hosts come first, so a host's id is also its index among the hosts.
    NodeId(u32)
}
index! {
    /// A link of a topology.
    LinkId(u32)
}
index! {
    /// A port of one node, in the order in which links were attached.
    PortId(u16)
}
index! {
    /// A port of the whole network: the ports of all nodes in one row, node by node. By the egress there it also names one direction of a
    /// link.
    NetPort(u32)
}
index! {
    /// One end of a bond. The two ends of a bond follow each other.
    BondEndId(u32)
}
index! {
    /// One way over a link: twice the link's index, plus one from side B to side A.
    Direction(u32)
}

impl Direction {
    /// The way over `link` that leaves `side`.
    #[inline]
    pub const fn leaving(link: LinkId, side: Side) -> Self {
        Self(link.0 * 2 + matches!(side, Side::B) as u32)
    }

    /// Both ways over a link, from side A first.
    pub const fn both(link: LinkId) -> [Self; 2] {
        [Self(link.0 * 2), Self(link.0 * 2 + 1)]
    }

    /// The link of which this is one direction.
    #[inline]
    pub const fn link(self) -> LinkId {
        LinkId(self.0 / 2)
    }

    /// The side that it leaves.
    #[inline]
    pub const fn from(self) -> Side {
        if self.0.is_multiple_of(2) { Side::A } else { Side::B }
    }

    /// The other direction of the same link.
    #[inline]
    #[must_use]
    pub const fn back(self) -> Self {
        Self(self.0 ^ 1)
    }
}
