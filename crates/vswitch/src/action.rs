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

/// What is done with a packet, in the words of flows.
pub fn actions_in_words(actions: &[Action]) -> String {
    let word = |action: &Action| match action {
        Action::Set(field) => field.to_string(),
        Action::PushVlan(_) => "push_vlan:0x8100".to_owned(),
        Action::PopVlan => "pop_vlan".to_owned(),
        Action::Output(port) => format!("output:{}", port.0),
        Action::Normal => "NORMAL".to_owned(),
        Action::Flood => "FLOOD".to_owned(),
        Action::Controller => "CONTROLLER".to_owned(),
        Action::Clone(actions) => format!("on a copy, the next {actions}"),
    };
    if actions.is_empty() { "drop".to_owned() } else { actions.iter().map(word).collect::<Vec<_>>().join(",") }
}
