//! The event queue and simulated hosts.
//!
//! ```text
//!   calendar --(time, packet, way, node)--> switch: forward -> link: offer --> calendar
//!                                           host:   receiver / sender -> link: offer --> calendar
//! ```
//!
//! A hop is one event: a link is first in, first out, so a packet's arrival is known when it is offered. Packets are
//! plain data in a pool; nothing is allocated a packet. Links, switches and transports are the machines of their
//! crates; this one only moves time.
#![forbid(unsafe_code)]

mod bonded;
pub mod cluster;
mod engine;
mod faults;
pub mod linearizability;
mod pool;
mod run;

pub use bonded::BondOutcome;
pub use run::{FlowOutcome, FlowSpec, LinkOutcome, Outcome, Scenario, run};
