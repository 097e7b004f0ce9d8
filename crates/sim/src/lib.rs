//! The event queue and simulated hosts.
//!
//! ```text
//!   calendar --(time, packet, port)--> graph: forward -> link: offer --> calendar
//!                                      host:  receiver / sender -> graph: link: offer --> calendar
//! ```
//!
//! A hop is one event: a link is first in, first out, so a packet's arrival is known when it is offered. Packets are
//! plain data in a pool, with the number of a header; nothing is allocated a packet. Links, switches, bonds and the paths between them are
//! [`datapath::Graph`], transports the machines of their crate; this one only moves time.
#![forbid(unsafe_code)]

mod capture;
mod carried;
pub mod cluster;
mod cores;
mod engine;
mod functions;
mod headers;
mod joining;
mod latency;
pub mod linearizability;
mod medium;
mod neighbours;
mod outcome;
mod pool;
mod requests;
mod run;
mod scenario;
mod transfers;
mod udp;

pub use capture::{CapturedFrame, Capturing};
pub use cores::{BACKLOG, HostCosts, PacketCost};
pub use outcome::{BondOutcome, FlowOutcome, FlowSample, FunctionOutcome, LinkOutcome, Outcome, Sample};
pub use requests::{LatencyOutcome, RequestOutcome};
pub use run::{run, run_capturing, run_while};
pub use scenario::{FlowSpec, Scenario};
