//! Connection tracking: which packets belong together, in both directions, and how their addresses are translated.
//!
//! ```text
//! packet, zone, time -> track: find the connection by either direction's tuple -> its state moves on -> flags, and what the packet is to become
//!                                 | none: a new one, if a packet may begin one      (commit keeps it, with its translation)
//! ```
//!
//! No clock, no socket, no allocation after [`Conntrack::new`]: the table has as many places as it will ever have. States and timeouts are those of Linux's
//! `nf_conntrack`, flags and words those of Open vSwitch's `ct`. TCP's windows are followed where a connection's beginning was seen:
//! what lies outside of them changes nothing (`windows`).
//!
//! It is always so that each connection is in the index by both of its tuples, and in the list of its lifetime in the order in which connections end.

mod connection;
pub mod ct_state;
mod exhausted;
mod icmp;
mod index;
mod lifetime;
mod lists;
mod nat;
mod request;
mod segment;
mod shared;
mod status;
mod table;
mod tcp;
mod tuple;
mod windows;

pub use nat::{NatRange, TranslatedEnd};
pub use request::{Refusal, Request, Tracked, Translate};
pub use segment::{Segment, SequenceNumbers};
pub use shared::SharedConnection;
pub use status::{ConnectionStatus, ConntrackCounters};
pub use table::Conntrack;
pub use tcp::TcpState;
pub use tuple::Tuple;

#[cfg(test)]
mod tests;
