//! What is done with a packet at a switch.

use topology::PortId;

use crate::field::Field;

/// One thing that is done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A header field is written: what comes after sees the packet so.
    Set(Field),
    /// It gets an 802.1Q tag with this control information, in front of one that it has.
    PushVlan(u16),
    /// It loses its outermost 802.1Q tag.
    PopVlan,
    /// It leaves by this port, as it is now.
    Output(PortId),
    /// It goes where the routes say, as it is now: to its destination address, or to everybody.
    Normal,
    /// It leaves by all ports of the tree that spans the network, but for the one by which it came.
    Flood,
    /// It is shown to the control machine, as it is now.
    Controller,
    /// So many actions that follow are done with a copy of it.
    Clone(u16),
}
