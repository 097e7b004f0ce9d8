//! Rapid spanning tree (IEEE 802.1D-2004, 17): which ports of bridges forward, so that there is one path between any two, and nothing goes round.
//!
//! ```text
//!   Input::Frame, Input::Link --handle--> Bridge --poll--> Output::Send, Output::StateChanged, Output::Flush, or: wait until T
//!
//!   migration ---> information (what the best BPDU says) ---> selection (of all ports' roles)
//!   RSTP or STP?        |                                          |
//!                       v                                          v
//!                  transmission <-------------------- transitions (discarding, learning, forwarding)
//!                                                                  |
//!                                                                  v
//!                                                     topology changes (flush)
//! ```
//!
//! [`Bridge`] has a machine of the standard in each module. They hand on to each other by the variables of a port, which have the standard's names, and
//! run until none of them does anything any more.
//!
//! Where it is stricter than the standard: a designated port between two bridges that speak RSTP stops to forward when what it announces gets worse, or
//! when it was something else before, until the other end has agreed to it. By the standard it goes on, and frames may go round while a root is lost (Elmeleegy, Cox
//! and Ng, *On count-to-infinity induced forwarding loops in Ethernet networks*, INFOCOM 2006). See `role.rs`.
#![forbid(unsafe_code)]

mod bridge;
mod config;
mod information;
mod migration;
mod port;
mod role;
mod selection;
mod status;
mod topology_change;
mod transmission;
mod vector;

pub use bridge::{Bridge, Input, Output};
pub use config::{BridgeConfig, PRIORITY, PortConfig, path_cost};
pub use port::{PortCounters, PortState, Role};
pub use status::{BridgeStatus, PortStatus};
