//! The parameters of a transport.

use core::fmt;

use machine::Span;
use serde::{Serialize, Serializer};

use crate::sysctl::Settings;

/// A TCP sender and receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TransportSpec {
    /// How it recovers from loss.
    pub kind: TransportKind,
    /// The receive window; it also bounds what is in flight.
    pub window: ReceiveWindow,
    /// Initial window in segments (RFC 6928: 10; RFC 5681 with 1,460-byte segments: 3; ns-2: 1 or 2).
    pub initial_window: u32,
    /// Duplicate ACKs that call for a fast retransmit (RFC 5681: 3).
    pub duplicate_ack_threshold: u32,
    /// Acknowledge every second segment, or after this time (RFC 1122: below 500 ms). `None`: every segment at once.
    pub delayed_ack: Option<Span>,
    /// Payload bytes of a full segment.
    pub segment_bytes: u32,
    /// Bytes of headers that each packet carries on the link besides its payload: also the size of a bare ACK.
    pub header_bytes: u32,
    /// The least retransmission timeout (RFC 6298: 1 s; Linux: 200 ms).
    pub rto_min: Span,
    /// What hosts with [`TransportKind::Linux`] have set.
    #[serde(skip_serializing_if = "is_default")]
    pub linux: Settings,
}

fn is_default(settings: &Settings) -> bool {
    *settings == Settings::default()
}

/// How much a receiver has room for. It is written as the number, or as `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveWindow {
    /// So many segments, always.
    Segments(u32),
    /// What the receiver finds out that the path needs, as Linux does: only with [`TransportKind::Linux`].
    Auto,
}

impl From<u32> for ReceiveWindow {
    fn from(segments: u32) -> Self {
        Self::Segments(segments)
    }
}

impl fmt::Display for ReceiveWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Segments(segments) => write!(f, "{segments}"),
            Self::Auto => write!(f, "auto"),
        }
    }
}

impl Serialize for ReceiveWindow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Segments(segments) => serializer.serialize_u32(*segments),
            Self::Auto => serializer.serialize_str("auto"),
        }
    }
}

/// TCP's loss recovery, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TransportKind {
    /// RFC 5681: fast retransmit and fast recovery, left at the first new ACK.
    Reno,
    /// RFC 6582: recovery lasts until all that was sent before it is acknowledged.
    NewReno,
    /// RFC 6675: recovery guided by selective acknowledgements (RFC 2018).
    Sack,
    /// All of what the kernel does: [`crate::linux`]. So live and simulated hosts are the same where a file says nothing.
    #[default]
    Linux,
    /// No TCP at all: UDP in messages of 11 segments, as fast as credit for them comes back ([`crate::credit`]).
    Udp,
}

impl TransportKind {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Linux, Self::Reno, Self::NewReno, Self::Sack, Self::Udp];

    /// Its name in files and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::NewReno => "newreno",
            Self::Sack => "sack",
            Self::Linux => "linux",
            Self::Udp => "udp",
        }
    }
}
