//! TCP's states as a middlebox sees them: those of Linux's `nf_conntrack_proto_tcp`, without windows.
//!
//! ```text
//! SYN -> SYN_SENT -> SYN/ACK -> SYN_RECV -> ACK -> ESTABLISHED -> FIN -> FIN_WAIT -> ACK -> CLOSE_WAIT -> FIN -> LAST_ACK -> ACK -> TIME_WAIT
//!                                                                 RST -> CLOSE
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};
use wire::tcp_flags::{ACK, FIN, RST, SYN};

/// The state of a connection. A later one is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TcpState {
    /// Somebody wants to connect.
    SynSent,
    /// Both want to connect to each other at the same time.
    SynSent2,
    /// The other side has agreed.
    SynReceived,
    /// Both know.
    Established,
    /// One side has sent all that it had to send.
    FinWait,
    /// The other side knows.
    CloseWait,
    /// Both have sent all.
    LastAck,
    /// Both know.
    TimeWait,
    /// It was reset.
    Close,
}

impl fmt::Display for TcpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SynSent => "SYN_SENT",
            Self::SynSent2 => "SYN_SENT2",
            Self::SynReceived => "SYN_RECV",
            Self::Established => "ESTABLISHED",
            Self::FinWait => "FIN_WAIT",
            Self::CloseWait => "CLOSE_WAIT",
            Self::LastAck => "LAST_ACK",
            Self::TimeWait => "TIME_WAIT",
            Self::Close => "CLOSE",
        })
    }
}

/// What a segment does to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is in this state now.
    To(TcpState),
    /// It stays as it is: whoever sent it has not heard of all yet.
    Stay,
    /// It does not belong to it.
    Invalid,
    /// It begins another connection between the same ports.
    Reopen,
}

/// Which of TCP's segments it is.
#[derive(Clone, Copy)]
enum Kind {
    Syn,
    SynAck,
    Fin,
    Ack,
    Rst,
}

/// `None` for combinations that no TCP sends.
const fn kind(flags: u8) -> Option<Kind> {
    match flags & (SYN | ACK | FIN | RST) {
        flags if flags & RST != 0 && flags & (SYN | FIN) == 0 => Some(Kind::Rst),
        SYN => Some(Kind::Syn),
        flags if flags == SYN | ACK => Some(Kind::SynAck),
        flags if flags == FIN | ACK => Some(Kind::Fin),
        ACK => Some(Kind::Ack),
        _ => None,
    }
}

/// The state of a connection that a segment begins: one that nobody has seen the beginning of is taken as it is.
pub const fn begin(flags: u8) -> Option<TcpState> {
    match kind(flags) {
        Some(Kind::Syn) => Some(TcpState::SynSent),
        Some(Kind::Ack) => Some(TcpState::Established),
        _ => None,
    }
}

impl TcpState {
    /// What a segment does that goes in the direction of the connection's first one, or in that of answers.
    pub const fn step(self, is_reply: bool, flags: u8) -> Step {
        use TcpState as S;
        let Some(kind) = kind(flags) else { return Step::Invalid };
        match (kind, is_reply) {
            (Kind::Syn, false) => match self {
                S::SynSent | S::SynSent2 => Step::To(self),
                S::TimeWait | S::Close => Step::Reopen,
                S::SynReceived | S::Established | S::FinWait | S::CloseWait | S::LastAck => Step::Stay,
            },
            (Kind::Syn, true) => match self {
                S::SynSent | S::SynSent2 => Step::To(S::SynSent2),
                S::TimeWait => Step::Reopen,
                _ => Step::Invalid,
            },
            (Kind::SynAck, false) => match self {
                S::SynReceived | S::SynSent2 => Step::To(S::SynReceived),
                _ => Step::Invalid,
            },
            (Kind::SynAck, true) => match self {
                S::SynSent | S::SynSent2 => Step::To(S::SynReceived),
                _ => Step::Stay,
            },
            (Kind::Fin, _) => match self {
                S::SynReceived | S::Established => Step::To(S::FinWait),
                S::FinWait | S::CloseWait | S::LastAck => Step::To(S::LastAck),
                S::TimeWait | S::Close => Step::To(self),
                S::SynSent | S::SynSent2 => Step::Invalid,
            },
            (Kind::Ack, _) => match (self, is_reply) {
                (S::SynReceived, true) => Step::To(S::SynReceived),
                (S::SynReceived | S::Established, _) => Step::To(S::Established),
                (S::FinWait | S::CloseWait, _) => Step::To(S::CloseWait),
                (S::LastAck | S::TimeWait, _) => Step::To(S::TimeWait),
                (S::Close, _) => Step::To(S::Close),
                (S::SynSent | S::SynSent2, true) => Step::Stay,
                (S::SynSent | S::SynSent2, false) => Step::Invalid,
            },
            (Kind::Rst, _) => Step::To(S::Close),
        }
    }
}
