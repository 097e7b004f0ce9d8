//! Why a port does what it does, in a sentence.

use core::fmt;

use machine::{Span, Time};

use super::Lacp;
use super::event::Partner;
use super::mux::MuxState;
use super::port::{Port, Selected};
use super::receive::ReceiveState;
use crate::MemberId;

/// Why a port distributes or does not. Its words stand behind "port 2 does not distribute: ".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It does, with others or in an aggregate where others may join.
    Distributes {
        /// The partner at the other ends.
        partner: Partner,
        /// How many ports distribute.
        ports: u8,
    },
    /// It does, alone, for a partner without LACP.
    DistributesAlone,
    /// It does, but the bond has no carrier.
    BelowMinLinks {
        /// How many ports distribute.
        ports: u8,
        /// How many should.
        min_links: u8,
    },
    /// Its link is down.
    LinkDown,
    /// It is half-duplex, and another port is used.
    HalfDuplex,
    /// It hears this bond itself.
    Looped,
    /// Its link just came up, and nothing was heard yet.
    NothingHeardYet,
    /// Its partner should have sent an LACPDU.
    PartnerSilent {
        /// The partner that fell silent.
        partner: Partner,
    },
    /// No LACPDU comes, and another port is used.
    NoPartner {
        /// The number of the port that is used.
        used: u16,
    },
    /// The partner does not want this link in any aggregate.
    PartnerIndividual {
        /// The partner at the other end.
        partner: Partner,
    },
    /// Its speed or duplex is not that of the ports that are used.
    OtherSpeed {
        /// Its rate in Mbit/s.
        speed_mbps: u32,
        /// Those of the ports that are used.
        used_mbps: u32,
    },
    /// Its partner is not that of the ports that are used.
    OtherPartner {
        /// The port's partner.
        partner: Partner,
        /// The partner of the aggregate in use.
        used: Partner,
    },
    /// It waits for other ports to come up.
    Waiting {
        /// For so long still; zero if it waits for a port that came later.
        left: Span,
    },
    /// Its partner does not know of it: LACPDUs pass in one direction only, or the partner has heard of another port.
    NotHeard {
        /// The partner at the other end.
        partner: Partner,
    },
    /// Its partner has not put its own end into an aggregate.
    PartnerNotInSync {
        /// The partner at the other end.
        partner: Partner,
        /// The partner's port.
        port: u16,
    },
    /// Its partner is in sync, but does not accept frames yet.
    PartnerNotCollecting {
        /// The partner at the other end.
        partner: Partner,
        /// The partner's port.
        port: u16,
    },
    /// It leaves one aggregate for another.
    Moving,
}

/// What a reason means for convergence: a bond has converged when it carries all that it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convergence {
    /// It carries frames with its partner's consent, or has no link to carry them on.
    Converged,
    /// The next LACPDU, or a timer within seconds, may change it.
    Pending,
    /// It stays so until somebody changes a link, a setting or the partner.
    LeftOut,
}

impl Reason {
    /// Whether the port sends.
    pub const fn distributes(&self) -> bool {
        matches!(self, Self::Distributes { .. } | Self::DistributesAlone | Self::BelowMinLinks { .. })
    }

    /// Whether something better may come of it by itself. Of a port that stands by, the answer holds once a port of the aggregate in use
    /// distributes: until then that one is pending.
    pub const fn convergence(&self) -> Convergence {
        match self {
            Self::Distributes { .. } | Self::LinkDown => Convergence::Converged,
            Self::NothingHeardYet
            | Self::PartnerSilent { .. }
            | Self::Waiting { .. }
            | Self::NotHeard { .. }
            | Self::PartnerNotInSync { .. }
            | Self::PartnerNotCollecting { .. }
            | Self::Moving => Convergence::Pending,
            Self::DistributesAlone
            | Self::BelowMinLinks { .. }
            | Self::HalfDuplex
            | Self::Looped
            | Self::NoPartner { .. }
            | Self::PartnerIndividual { .. }
            | Self::OtherSpeed { .. }
            | Self::OtherPartner { .. } => Convergence::LeftOut,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Distributes { partner, ports } => {
                write!(f, "its aggregate with {partner} has {ports} such port{}", if ports == 1 { "" } else { "s" })
            }
            Self::DistributesAlone => {
                f.write_str("no LACPDU arrives, so it is used alone (is the other end a bond without LACP?)")
            }
            Self::BelowMinLinks { ports, min_links } => {
                write!(f, "{ports} of the {min_links} ports that min_links asks for")
            }
            Self::LinkDown => f.write_str("its link is down"),
            Self::HalfDuplex => {
                f.write_str("its link is half-duplex, for which there is no LACP, and another port is used")
            }
            Self::Looped => {
                f.write_str("it hears this bond's own LACPDUs (a loop, or another system with the same address)")
            }
            Self::NothingHeardYet => f.write_str("its link came up, and no LACPDU has arrived yet"),
            Self::PartnerSilent { partner } => write!(f, "its partner {partner} fell silent"),
            Self::NoPartner { used } => write!(
                f,
                "no LACPDU arrives (is the other end a bond without LACP?), and without LACP only one port is used, now port {used}"
            ),
            Self::PartnerIndividual { partner } => write!(f, "its partner {partner} says that the link is individual"),
            Self::OtherSpeed { speed_mbps, used_mbps } if speed_mbps == used_mbps => {
                write!(f, "its key is not that of the aggregate's ports, though its speed of {speed_mbps} Mbit/s is")
            }
            Self::OtherSpeed { speed_mbps, used_mbps } => {
                write!(f, "its speed of {speed_mbps} Mbit/s is not the {used_mbps} Mbit/s of the aggregate's ports")
            }
            Self::OtherPartner { partner, used } => {
                write!(f, "its partner {partner} is not the aggregate's partner {used}")
            }
            Self::Waiting { left } if left == Span::ZERO => f.write_str("it waits for a port that came up later"),
            Self::Waiting { left } => {
                write!(f, "it waits another {} ms for other ports to come up", left.as_ns().div_ceil(1_000_000))
            }
            Self::NotHeard { partner } => {
                write!(f, "its partner {partner} does not hear it (do frames pass in one direction only?)")
            }
            Self::PartnerNotInSync { partner, port } => {
                write!(f, "its partner {partner} has not put its port {port} into an aggregate (not in sync)")
            }
            Self::PartnerNotCollecting { partner, port } => {
                write!(f, "its partner {partner} does not accept frames on its port {port} yet (not collecting)")
            }
            Self::Moving => f.write_str("it is on its way from one aggregate to another"),
        }
    }
}

/// A port's number and the reason, as a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Why {
    /// The port's number in LACPDUs: its member's index and one.
    pub number: u16,
    /// Why it does or does not carry frames.
    pub reason: Reason,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let does = match self.reason {
            Reason::BelowMinLinks { .. } => "distributes, but the bond has no carrier",
            reason if reason.distributes() => "distributes",
            _ => "does not distribute",
        };
        write!(f, "port {} {does}: {}", self.number, self.reason)
    }
}

impl Lacp {
    /// Why a member distributes or does not, as of the last poll. `None`: there is no such member.
    pub fn why(&self, now: Time, id: MemberId) -> Option<Why> {
        let port = self.ports.get(&id)?;
        Some(Why { number: port.actor.port, reason: self.reason(now, port) })
    }

    fn reason(&self, now: Time, port: &Port) -> Reason {
        let partner = Partner::of(&port.partner);
        let number = port.partner.port;
        match port.receive {
            _ if !port.carrier.up => Reason::LinkDown,
            _ if port.looped(now) => Reason::Looped,
            ReceiveState::Expired if port.is_defaulted() => Reason::NothingHeardYet,
            ReceiveState::Expired => Reason::PartnerSilent { partner },
            _ => match (port.selected, port.mux) {
                (Selected::Standby, _) => self.why_standby(port),
                (Selected::Unselected, _) | (_, MuxState::Detached) => Reason::Moving,
                (_, MuxState::Waiting) => Reason::Waiting { left: port.wait_while.since(now) },
                (_, MuxState::Attached) if !port.heard => Reason::NotHeard { partner },
                (_, MuxState::Attached) => Reason::PartnerNotInSync { partner, port: number },
                (_, MuxState::Collecting) => Reason::PartnerNotCollecting { partner, port: number },
                (_, MuxState::Distributing) => self.why_distributing(port),
            },
        }
    }

    fn why_distributing(&self, port: &Port) -> Reason {
        let ports = self.members.distributing.len() as u8;
        if ports < self.settings.min_links {
            Reason::BelowMinLinks { ports, min_links: self.settings.min_links }
        } else if port.is_defaulted() {
            Reason::DistributesAlone
        } else {
            Reason::Distributes { partner: Partner::of(&port.partner), ports }
        }
    }

    /// What sets a port apart from those of the active aggregate.
    fn why_standby(&self, port: &Port) -> Reason {
        let Some(used) = self.representative() else { return Reason::Moving };
        let partner = Partner::of(&port.partner);
        let of_used = Partner::of(&used.partner);
        match port.receive {
            ReceiveState::LacpDisabled => Reason::HalfDuplex,
            ReceiveState::Defaulted => Reason::NoPartner { used: used.actor.port },
            _ if !port.partner.state.has(wire::LacpState::AGGREGATION) => Reason::PartnerIndividual { partner },
            _ if port.actor.key != used.actor.key => {
                Reason::OtherSpeed { speed_mbps: port.carrier.speed_mbps, used_mbps: used.carrier.speed_mbps }
            }
            _ => Reason::OtherPartner { partner, used: of_used },
        }
    }
}
