//! How switches stand that speak RSTP.

use rstp::BridgeStatus;
use serde::{Deserialize, Serialize};

/// A switch that speaks RSTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchBridge {
    /// The name of the switch.
    pub switch: String,
    /// By port: the node that it leads to.
    pub peers: Vec<String>,
    /// How it stands.
    pub status: BridgeStatus,
}
