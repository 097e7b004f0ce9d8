//! A switch's decisions: which flow a packet belongs to, where its destination lies, which of the equal paths it takes.
//!
//! The same functions decide for a frame of bytes (live) and for a packet that is only a record (simulated). A frame is
//! classified once, where it enters the fabric ([`classify`]); from then on every switch works on the [`Forwarding`] alone, but for those
//! that have a [`Pipeline`].
#![forbid(unsafe_code)]

mod action;
pub mod chain;
pub mod conntrack;
mod field;
mod flow_key;
pub mod flow_table;
pub mod fragments;
pub mod functions;
mod host_table;
mod ingress;
pub mod mac_table;
mod marks;
pub mod neighbour;
mod normal;
mod payload;
mod pipeline;
pub mod port;
mod seeds;
pub mod segmentation;
pub mod spread;
mod switch;
#[cfg(test)]
mod testing;
mod token_bucket;
mod trace;
mod translation;
mod usual;

pub use action::{Action, actions_in_words};
pub use field::Field;
pub use flow_key::FlowKey;
pub use host_table::{AddressAlias, HostBond, HostTable};
pub use ingress::{DropReason, Ingress, classify, is_for_bridges, without_answer};
pub use marks::mark_congestion;
pub use normal::NormalPipeline;
pub use payload::{Payload, TcpSegment, UdpFragment, payload};
pub use pipeline::{PacketIn, PacketOut, Pipeline, Pipelines};
pub use seeds::Seeds;
pub use spread::Spread;
pub use switch::{FLOOD, Forwarding, Switch, UNKNOWN};
pub use trace::{Hop, Trace, trace};
pub use translation::translate;
pub use usual::UsualHeaders;
