//! What is worth a line in the log.

use core::fmt;

use wire::LacpInfo;

use crate::{MemberId, MemberSet};

/// A station's address as it is written.
pub(super) struct Mac(pub(super) [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, octet) in self.0.iter().enumerate() {
            write!(f, "{}{octet:02x}", if nth == 0 { "" } else { ":" })?;
        }
        Ok(())
    }
}

/// The system at the other end and its key: what ports of one aggregate have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partner {
    /// The system's priority.
    pub priority: u16,
    /// The system's address; zero while there is no partner that speaks LACP.
    pub system: [u8; 6],
    /// The key of its ports.
    pub key: u16,
}

impl Partner {
    pub(super) const fn of(info: &LacpInfo) -> Self {
        Self { priority: info.system_priority, system: info.system, key: info.key }
    }

    /// Whether there is a system that speaks LACP.
    pub fn is_known(&self) -> bool {
        self.system != [0; 6]
    }
}

impl fmt::Display for Partner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_known() { write!(f, "{} key {}", Mac(self.system), self.key) } else { f.write_str("nobody") }
    }
}

/// What is worth a line in the log. Ports have the numbers that LACPDUs give them: a member's index and one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The other end of a port became another one, or was heard first.
    PartnerChanged {
        /// The member whose partner changed.
        port: MemberId,
        /// The partner that it had before.
        from: Partner,
        /// The partner that it has now.
        to: Partner,
    },
    /// A port's partner fell silent.
    PartnerSilent {
        /// The member whose port it is.
        port: MemberId,
    },
    /// No LACPDU came: the port is used alone, if at all.
    NoPartner {
        /// The member whose port it is.
        port: MemberId,
    },
    /// A port heard its own bond: a loop, or another system with the same address. It is kept out.
    Looped {
        /// The member whose port it is.
        port: MemberId,
    },
    /// This end does not come in sync.
    ActorChurn {
        /// The member whose port it is.
        port: MemberId,
    },
    /// The partner's end does not come in sync.
    PartnerChurn {
        /// The member whose port it is.
        port: MemberId,
    },
    /// Another aggregate is used from now on, or none.
    Active {
        /// The partner of its ports.
        partner: Option<Partner>,
        /// The members of that aggregate.
        ports: MemberSet,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::PartnerChanged { port, from, to } => {
                write!(f, "port {}: its partner is {to}, no longer {from}", port.index() + 1)
            }
            Self::PartnerSilent { port } => write!(f, "port {}: its partner fell silent", port.index() + 1),
            Self::NoPartner { port } => write!(f, "port {}: no LACPDU arrives", port.index() + 1),
            Self::Looped { port } => write!(
                f,
                "port {}: it hears this bond's own LACPDUs: a loop, or another system with the same address",
                port.index() + 1
            ),
            Self::ActorChurn { port } => write!(f, "port {}: this end does not come in sync", port.index() + 1),
            Self::PartnerChurn { port } => {
                write!(f, "port {}: the partner's end does not come in sync", port.index() + 1)
            }
            Self::Active { partner: None, .. } => f.write_str("no port can be used"),
            Self::Active { partner: Some(partner), ports } => {
                write!(f, "the aggregate with {partner} is used, ")?;
                let count = ports.len();
                write!(f, "{count} port{}", if count == 1 { "" } else { "s" })
            }
        }
    }
}
