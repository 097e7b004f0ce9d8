//! Addresses that switches know.

use serde::{Deserialize, Serialize};

/// The addresses that a switch knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchMacs {
    /// The name of the switch.
    pub switch: String,
    /// How many addresses it may learn.
    pub learned_max: u32,
    /// By port, those of the file first.
    pub entries: Vec<MacEntry>,
}

/// An address that a switch knows at one of its ports that lead to hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MacEntry {
    /// The number of the port.
    pub port: u16,
    /// The host that it leads to.
    pub host: String,
    /// The VLAN; 0 where there are none, or where the file's address is in several.
    pub vlan: u16,
    /// The address, as in `02:00:00:00:00:01`.
    pub mac: String,
    /// Whole seconds since something came from it; `None` if the file gives the host this address.
    pub age_s: Option<u64>,
}
