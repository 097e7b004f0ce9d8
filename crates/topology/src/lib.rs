//! The graph of a network: nodes, their ports, the links between them, the bonds that some links form; and the routes through it.
//!
//! Whatever is in a row has an index of its own type ([`NodeId`], [`LinkId`], ...), and rows are vectors that take no other index.
//! Hosts stand before switches, so a host's [`NodeId`] is also its number among the hosts.
//!
//! | what | where |
//! |---|---|
//! | the graph as plain data | [`Topology`], [`Node`], [`Link`], [`BondEnd`] |
//! | to make one | [`Topology::add_host`], [`Topology::connect`], [`Topology::regroup`] |
//! | to look something up | [`Topology::node`], [`Topology::peers`], [`Topology::links_between`] |
//! | all equal-cost shortest paths | [`Routes`] |
#![forbid(unsafe_code)]

mod build;
mod device;
mod dpdk;
mod graph;
mod index;
mod lookup;
mod null;
mod pcap;
mod routes;
#[cfg(test)]
mod testing;
mod tunnel;
mod vhost;

pub use build::Group;
pub use device::{DeviceName, NotADevice, WhyNot};
pub use dpdk::{DpdkDevice, NotDpdk};
pub use graph::{BondEnd, HostAddress, Link, LinkEnd, Node, NodeKind, Side, Topology};
pub use index::{BondEndId, Direction, LinkId, NetPort, NodeId, PortId};
pub use null::NullDevice;
pub use pcap::{NotPcap, PcapDevice, Speed};
pub use routes::{Rerouting, Routes};
pub use tunnel::{Endpoint, NotTunnel, TunnelDevice};
pub use typed_index_collections::{TiSlice, TiVec, ti_vec};
pub use vhost::{NotVhostUser, VhostUserDevice};
