//! TCP as hosts with Linux 6.x have it: what a simulated host does where a live one leaves the work to the kernel.
//!
//! ```text
//!                 handle(Connect | Ack | Tick)                   handle(Data | Tick)
//!      driver --------------------------------> Sender    driver --------------------> Receiver
//!             <-------------------------------- poll             <-------------------- poll
//! ```
//!
//! The machines follow the same rule as [`crate::Sender`] and [`crate::Receiver`], and put the same segments and acknowledgements on the wire. Inside, the
//! sender counts segments and not bytes, as the kernel's congestion control does: all segments are full ones.
//!
//! | what | after | where |
//! |---|---|---|
//! | loss detection by time | RFC 8985 (RACK), with the window for reordering that grows with DSACK | [`rack`] |
//! | tail loss probe | RFC 8985, 7 | [`timers`] |
//! | states of loss recovery, and what undoes them: timestamps (Eifel, RFC 4015), DSACK (RFC 3708), F-RTO (RFC 5682) | `tcp_fastretrans_alert` | [`recovery`] |
//! | window in recovery | RFC 6937 (proportional rate reduction) | [`window`] |
//! | selective acknowledgements, duplicates among them | RFC 2018, RFC 2883 | [`sack`], [`receiver`] |
//! | how a connection is opened | RFC 9293; `tcp_syn_linear_timeouts` | [`handshake`] |
//! | round trips and the retransmission timeout | RFC 6298 with Linux's deviation (`tcp_rtt_estimator`) | [`rtt`] |
//! | CUBIC, and when slow start ends | RFC 9438, `HyStart` of `tcp_cubic.c` | [`cubic`] |
//! | DCTCP | RFC 8257 | [`dctcp`] |
//! | BBR, its rates and its pace | `tcp_bbr.c`, `tcp_rate.c`, `tcp_pacing_check` | [`bbr`], [`rate`], [`pacing`] |
//! | how many segments leave at once | `tcp_tso_should_defer`, `tcp_tso_autosize` | [`output`] |
//! | marks of congestion | RFC 3168; `tcp_enter_cwr` | [`ecn`], [`recovery`] |
//! | when an acknowledgement leaves | quick-ACK phases, delayed and compressed ones | [`receiver`] |
//! | the window that a receiver offers, where it finds that itself | `tcp_rcv_space_adjust`, `__tcp_select_window` | [`autotuning`] |
//!
//! Names of functions in comments are the kernel's; they say where a fact comes from.

mod application;
mod arrivals;
mod autotuning;
mod bbr;
mod cubic;
mod dctcp;
mod ecn;
mod handshake;
mod model;
mod modelled;
mod output;
mod pacing;
mod pending;
mod queue;
mod rack;
mod rate;
mod receiver;
mod recovery;
mod rtt;
mod sack;
mod sender;
mod stamp;
mod state;
mod timer;
mod timers;
mod window;

pub use receiver::Receiver;
pub use sender::{Counters, Sender};
pub use state::State;

pub use crate::sysctl::{CongestionControl, Settings, Sysctl};
