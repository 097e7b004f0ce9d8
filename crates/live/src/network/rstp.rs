//! RSTP of a live network's switches.

use std::sync::Arc;

use super::Network;
use crate::control::SwitchBridge;
use crate::dataplane::PortChanges;

impl Network {
    /// How switches stand that speak RSTP.
    pub fn bridges(&self) -> Vec<SwitchBridge> {
        let Some(plane) = &self.plane else { return Vec::new() };
        let (plan, topology) = (plane.plan(), &plane.plan().fabric().topology);
        let bridge = |(at, status)| {
            let switch = plan.map().node_of_switch(at);
            let peers = topology.peers(switch).map(|peer| topology.nodes[peer].name.clone()).collect();
            SwitchBridge { switch: topology.nodes[switch].name.clone(), peers, status }
        };
        plane.bridges().into_iter().map(bridge).collect()
    }

    /// What says that ports have begun or ceased to forward, once a network runs.
    pub fn port_changes(&self) -> Option<Arc<PortChanges>> {
        Some(Arc::clone(self.plane.as_ref()?.plan().port_changes()))
    }

    /// Whether its switches speak RSTP.
    pub fn has_rstp(&self) -> bool {
        self.plane.as_ref().is_some_and(|plane| plane.plan().tables().ports.has_bridges())
    }

    /// Routes lead around ports that do not forward.
    pub fn follow_bridges(&mut self) {
        if let Some(plane) = &mut self.plane {
            plane.follow_bridges();
        }
    }
}
