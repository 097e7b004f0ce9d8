//! The network's graph as one machine: what becomes of a packet at a link, a switch, an end of a bond; who hears of a link that is cut.
//!
//! ```text
//!   driver --arrive(port)--> end of a bond? --> node: switch: pipeline? forward --> bond? --> egress: offer --> driver: carry
//!      ^                       (in order)             host: for others, and it forwards? as a switch           |
//!      |                                              host: driver: deliver                                    |
//!      +------------------------- when the clock, or the queue of events, says so ---------------------+
//! ```
//!
//! [`Graph`] has all that changes, [`Tables`] what does not. Neither has a clock, a queue, a buffer or a socket: those are the [`Driver`]'s, one that
//! works in real time on frames, and one that works through events on packets that are only numbers. A packet is the driver's own type, and all is
//! compiled for it.
//!
//! A part of a graph is a graph: a driver with several threads gives each the egresses, switches and ends of the nodes that it owns.
#![forbid(unsafe_code)]

mod announcements;
mod bridges;
mod bursts;
mod carrier;
mod chains;
mod changeover;
mod direct;
mod driver;
mod ends;
mod flood;
mod graph;
mod map;
mod multi_homed;
mod observation;
mod offload;
mod parts;
mod paths;
mod pipeline;
mod port_table;
mod rewrite;
mod segment;
mod services;
mod tracer;
mod vlan;

pub use bridges::BridgeState;
pub use chains::{BuiltInState, ChainState, CourseCounters, HopCounters, InstanceState, Steering};
pub use changeover::Renumbering;
pub use driver::{Driver, Loss, Tag, Timer};
pub use ends::{EndSpec, EndState, Role};
pub use flood::{StormControl, storm_limit};
pub use graph::{Egress, Graph, Moment, Tables};
pub use map::{Map, Taker};
pub use offload::{ConnectionId, KernelUse, OffloadOutcome, OffloadedFlow, kernel_path_refusal};
pub use parts::Owner;
pub use pipeline::Installed;
pub use port_table::PortTable;
pub use services::{
    AddressRange, AgentSpec, BALANCERS_MAX, BalancerRole, BalancerView, BehindRouters, CountriesSpec, ForwardingMethod,
    HALF_OPEN_MAX, SERVICES_MAX, ServedName, Server, ServerCounters, Service, ServiceCounters, ServiceState,
    ServiceView, Services, SyncAnswer, SyncCookie, SyncEntry, SyncError, SyncHeader, SyncMessage, SyncQuestion,
    VirtualAddress, VrrpSettings, parse_sync,
};
pub use tracer::{ServerState, TraceEnd, TraceStep, TracedPacket, Tracer};
