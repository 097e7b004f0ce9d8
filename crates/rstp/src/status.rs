//! How a bridge stands, for people.

use serde::{Deserialize, Serialize};

use crate::bridge::Bridge;
use crate::port::{PortCounters, PortState, Role};

/// How a bridge stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgeStatus {
    /// Its identifier: priority and address, as in `8000.020000000001`.
    pub bridge: String,
    /// That of the root.
    pub root: String,
    /// How far it is to the root.
    pub root_path_cost: u32,
    /// Which port leads there; `None`: it is the root itself.
    pub root_port: Option<u16>,
    /// How often a port of its own has become a path between bridges.
    pub topology_changes: u64,
    /// By number.
    pub ports: Vec<PortStatus>,
}

/// How a port stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a column")]
pub struct PortStatus {
    /// Its number at the switch.
    pub port: u16,
    /// What it is for.
    pub role: Role,
    /// What it does with frames.
    pub state: PortState,
    /// What its link adds to the cost of a path.
    pub cost: u32,
    /// Its priority.
    pub priority: u8,
    /// Whether it has a carrier.
    pub has_link: bool,
    /// No bridge is behind it.
    pub is_edge: bool,
    /// A BPDU came in by it, where none may.
    pub is_guarded: bool,
    /// STP is spoken there.
    pub is_stp: bool,
    /// Who is designated on its link.
    pub designated_bridge: String,
    /// By which port of his: priority and number.
    pub designated_port: u16,
    /// What it has counted.
    pub counters: PortCounters,
}

/// An identifier as `brctl` and `mstpctl` write it.
fn identifier(id: u64) -> String {
    format!("{:04x}.{:012x}", id >> 48, id & 0xffff_ffff_ffff)
}

impl Bridge {
    /// How it stands.
    pub fn status(&self) -> BridgeStatus {
        let port = |(number, port): (usize, &crate::port::Port)| PortStatus {
            port: number as u16,
            role: port.role,
            state: port.state(),
            cost: port.config.cost,
            priority: port.config.priority,
            has_link: port.has_link,
            is_edge: port.oper_edge,
            is_guarded: port.is_shut,
            is_stp: port.is_enabled() && !port.send_rstp,
            designated_bridge: identifier(port.priority.bridge),
            designated_port: port.priority.port,
            counters: port.counters,
        };
        BridgeStatus {
            bridge: identifier(self.id),
            root: identifier(self.root.root),
            root_path_cost: self.root.cost,
            root_port: self.root_port.map(|port| port as u16),
            topology_changes: self.topology_changes,
            ports: self.ports.iter().enumerate().map(port).collect(),
        }
    }
}
