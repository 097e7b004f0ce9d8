//! What a driver carries by itself, without showing its packets here.

use topology::NodeId;
use vswitch::conntrack::Tuple;

use crate::paths::Hops;

/// Whose packets a driver carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionId {
    /// The connection to a service at this place.
    OfService(u32),
    /// The conversation of two hosts at this place, one direction of it.
    Direct(u32),
}

/// What a driver says that is to carry a direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffloadOutcome {
    /// It does so from now on.
    Carried,
    /// It would, and has no room for it.
    NoRoom,
    /// It can't carry such a one.
    Impossible,
}

/// One direction of a connection, which a driver may carry.
#[derive(Clone, Copy, Debug)]
pub struct OffloadedFlow {
    /// What it is of.
    pub connection: ConnectionId,
    /// Whether it is that of answers.
    pub is_reply: bool,
    /// Its packets as they come.
    pub tuple: Tuple,
    /// The same as they go on.
    pub target: Tuple,
    /// The host that sends them.
    pub from: NodeId,
    /// The host that they go to.
    pub to: NodeId,
    /// Whom they are for, as they go on.
    pub mac: [u8; 6],
    /// Only packets for the one address and from the other one, as they come.
    pub only: Option<([u8; 6], [u8; 6])>,
    /// The service and the server.
    pub(crate) mark: u32,
    /// The ports that they leave from.
    pub(crate) hops: Hops,
}

/// Whether the kernel is to carry connections of a service, or conversations of hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelUse {
    /// It is not.
    #[default]
    No,
    /// Where it can: of services, once a connection has been answered.
    Auto,
    /// Where it can: of services, from the handshake on; whoever runs the network hears where it can't.
    Yes,
}

impl KernelUse {
    /// All of them.
    pub const ALL: &[Self] = &[Self::No, Self::Auto, Self::Yes];

    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Auto => "auto",
            Self::Yes => "yes",
        }
    }
}

/// Why the kernel carries nothing of a network like that; `None`: it may.
pub const fn kernel_path_refusal(is_shaped: bool, has_chains: bool) -> Option<&'static str> {
    if is_shaped {
        return Some("links have rates, delays, losses or queues");
    }
    if has_chains { Some("chains are to see packets") } else { None }
}
