//! What one table says of a connection to another one, which is to take its place.

use super::tcp::TcpState;
use super::tuple::Tuple;

/// A connection of another table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedConnection {
    /// The direction of its first packet, as that came.
    pub original: Tuple,
    /// The other direction, as its packets come.
    pub reply: Tuple,
    /// Of TCP, its state.
    pub tcp: Option<TcpState>,
    /// Whether it has been answered.
    pub is_replied: bool,
}

impl SharedConnection {
    /// The flags of its translations, as in the original direction; `None`: it is of no protocol that could be.
    pub(super) fn translations(&self) -> Option<u8> {
        use super::ct_state::{DESTINATION_NAT, SOURCE_NAT};
        let (was, is) = (self.original, self.reply.reversed()?);
        if (was.protocol, was.is_ipv6) != (is.protocol, is.is_ipv6) {
            return None;
        }
        let has_other_source = (was.src, was.src_port) != (is.src, is.src_port);
        let has_other_destination = (was.dst, was.dst_port) != (is.dst, is.dst_port);
        let flag = |flag, is_set| if is_set { flag } else { 0 };
        Some(flag(SOURCE_NAT, has_other_source) | flag(DESTINATION_NAT, has_other_destination))
    }
}
