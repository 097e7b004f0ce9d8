//! How long connections live after their last packet, as in Linux's `nf_conntrack`, and which of them make room first.

use machine::Span;
use wire::protocol;

use super::tcp::TcpState;
use super::tuple::Tuple;

/// Connections that live equally long. In the order in which they make room for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Lifetime {
    // They are over: nobody misses them. A gateway of short connections is full of these, and what has just begun must not make room for the next before it is answered.
    TcpClose,
    TcpTimeWait,
    // Nobody has answered them: whoever makes up addresses makes these.
    TcpSynSent,
    TcpUnreplied,
    UdpUnreplied,
    IcmpUnreplied,
    OtherUnreplied,
    // They are almost over, or have not begun yet.
    TcpLastAck,
    TcpCloseWait,
    TcpFinWait,
    TcpSynReceived,
    Icmp,
    // They are in use, and make room for none.
    Udp,
    Other,
    TcpEstablished,
}

/// How many there are.
pub const LIFETIMES: usize = Lifetime::TcpEstablished as usize + 1;

/// Those that make room.
pub const EVICTED: usize = Lifetime::Udp as usize;

impl Lifetime {
    /// That of a connection in this state.
    pub const fn of(tuple: &Tuple, tcp: Option<TcpState>, is_replied: bool) -> Self {
        match tcp {
            Some(TcpState::SynSent | TcpState::SynSent2) => Self::TcpSynSent,
            Some(TcpState::Close) => Self::TcpClose,
            Some(_) if !is_replied => Self::TcpUnreplied,
            Some(TcpState::SynReceived) => Self::TcpSynReceived,
            Some(TcpState::Established) => Self::TcpEstablished,
            Some(TcpState::FinWait) => Self::TcpFinWait,
            Some(TcpState::CloseWait) => Self::TcpCloseWait,
            Some(TcpState::LastAck) => Self::TcpLastAck,
            Some(TcpState::TimeWait) => Self::TcpTimeWait,
            None if tuple.is_icmp() && is_replied => Self::Icmp,
            None if tuple.is_icmp() => Self::IcmpUnreplied,
            None if tuple.protocol == protocol::UDP && is_replied => Self::Udp,
            None if tuple.protocol == protocol::UDP => Self::UdpUnreplied,
            None if is_replied => Self::Other,
            None => Self::OtherUnreplied,
        }
    }

    /// How long after its last packet it ends.
    pub const fn timeout(self) -> Span {
        Span::from_secs(match self {
            Self::TcpSynSent | Self::TcpTimeWait | Self::TcpFinWait | Self::Udp => 120,
            Self::TcpUnreplied => 300,
            Self::TcpSynReceived | Self::TcpCloseWait => 60,
            Self::UdpUnreplied | Self::IcmpUnreplied | Self::Icmp | Self::TcpLastAck => 30,
            Self::TcpClose => 10,
            Self::Other | Self::OtherUnreplied => 600,
            Self::TcpEstablished => 432_000,
        })
    }
}
