//! TCP as state machines: no sockets, no clock.
//!
//! ```text
//!              handle(Start | Ack | Tick)                     handle(Data | Tick)
//!   driver --------------------------------> Sender    driver --------------------> Receiver
//!          <-------------------------------- poll             <-------------------- poll
//!              Do(Segment) ... Wait(until)                    Do(Ack) | Wait(until)
//! ```
//!
//! A sender has endless data, or so much as was written to it. Connections do not close, and only Linux's open. Sequence numbers are
//! byte offsets of 64 bits that do not wrap. Both machines follow the rule of [`machine::Control`]: after each `handle`,
//! poll until *wait*; nothing is allocated after construction.
//!
//! | standard | where |
//! |---|---|
//! | RFC 5681 congestion control, RFC 3042 limited transmit, RFC 6582 `NewReno` | [`sender`] |
//! | RFC 2018 selective acknowledgement, RFC 6675 recovery by it | [`sack`], [`receiver`], [`sender`] |
//! | RFC 6298 retransmission timer, RFC 7323 timestamps | [`rto`], [`receiver`] |
//! | RFC 1122, 4.2.3.2 delayed acknowledgement | [`receiver`] |
//! | RFC 4737 reordering | [`reordering`] |
//! | what Linux makes of all that, and of CUBIC, RACK, tail loss probes and undo | [`linux`] |
//!
//! [`delay`] counts how long packets take. [`transfers`] says when short connections begin that come and go, and what is measured of them.
//! [`credit`] and [`paced`] are no transports that recover: loads for what carries them, as fast as it goes, in the messages of [`udp`], and at an even
//! pace.
#![forbid(unsafe_code)]

mod bitmap;
pub mod credit;
pub mod delay;
pub mod endpoint;
pub mod linux;
pub mod paced;
pub mod receiver;
pub mod reordering;
pub mod rto;
pub mod sack;
mod seen;
pub mod segment;
pub mod sender;
mod spec;
pub mod sysctl;
pub mod transfers;
pub mod udp;

pub use endpoint::{ReceivingEndpoint, SendingEndpoint};
pub use receiver::Receiver;
pub use segment::{Ack, Ecn, Offer, Segment};
pub use sender::Sender;
pub use spec::{ReceiveWindow, TransportKind, TransportSpec};

/// The largest receive window in segments; a [`TransportSpec`] that says more is taken to say this.
pub const WINDOW_MAX: u32 = 1 << 20;

/// The largest receive buffer of a host with Linux that nobody has set up, bytes (`tcp_rmem`).
const RECEIVE_BUFFER_MAX: u32 = 6_291_456;

/// The receive window that `spec` stands for, in segments: at least one, at most [`WINDOW_MAX`], and less than 2^31 bytes. The largest, where it changes.
pub fn window(spec: &TransportSpec) -> u32 {
    let fits = (i32::MAX as u32 / spec.segment_bytes.max(1)).max(1);
    let segments = match spec.window {
        ReceiveWindow::Segments(segments) => segments,
        ReceiveWindow::Auto => RECEIVE_BUFFER_MAX / spec.segment_bytes.max(1),
    };
    segments.clamp(1, WINDOW_MAX.min(fits))
}
