//! What is done with a packet at a switch.

use topology::PortId;
use wire::MplsRepr;

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
    /// It gets this entry on its label stack, or as one, and has this ethertype then.
    PushMpls {
        /// One of those of MPLS.
        ethertype: u16,
        /// As in [`wire::MplsRepr::bits`].
        entry: u32,
    },
    /// It loses the uppermost entry of its label stack, and has this ethertype then.
    PopMpls(u16),
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

impl Action {
    /// Whether it changes the packet, and not only where it goes.
    pub(crate) const fn is_change(&self) -> bool {
        match self {
            Self::Set(_) | Self::PushVlan(_) | Self::PopVlan | Self::PushMpls { .. } | Self::PopMpls(_) => true,
            Self::Output(_) | Self::Normal | Self::Flood | Self::Controller | Self::Clone(_) => false,
        }
    }
}

/// What is done with a packet, in the words of flows.
pub fn actions_in_words(actions: &[Action]) -> String {
    let word = |action: &Action| match action {
        Action::Set(field) => field.to_string(),
        Action::PushVlan(_) => "push_vlan:0x8100".to_owned(),
        Action::PopVlan => "pop_vlan".to_owned(),
        Action::PushMpls { ethertype, entry } => {
            let MplsRepr { label, traffic_class, ttl, .. } = MplsRepr::parse(*entry);
            let fields = format!("set_mpls_label:{label},set_mpls_tc:{traffic_class},set_mpls_ttl:{ttl}");
            format!("push_mpls:{ethertype:#06x},{fields}")
        }
        Action::PopMpls(ethertype) => format!("pop_mpls:{ethertype:#06x}"),
        Action::Output(port) => format!("output:{}", port.0),
        Action::Normal => "NORMAL".to_owned(),
        Action::Flood => "FLOOD".to_owned(),
        Action::Controller => "CONTROLLER".to_owned(),
        Action::Clone(actions) => format!("on a copy, the next {actions}"),
    };
    if actions.is_empty() { "drop".to_owned() } else { actions.iter().map(word).collect::<Vec<_>>().join(",") }
}
