//! RSTP of live switches: their machines are in the workers, routes are the daemon's, so that one hears of the other.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rstp::{BridgeStatus, PortState};
use topology::{LinkId, NetPort, NodeId, PortId};

use super::DataPlane;
use super::edge::Edge;
use super::plan::Plan;
use super::worker::{Command, Worker};

/// How often ports of switches have begun or ceased to forward.
#[derive(Debug, Default)]
pub struct PortChanges {
    count: Mutex<u64>,
    changed: Condvar,
}

impl PortChanges {
    fn note(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }

    /// Waits until the count is another one than `seen`, or for so long: the count.
    pub fn wait(&self, seen: u64, patience: Duration) -> u64 {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(count, patience, |count| *count == seen);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Edge {
    /// A port of a switch forwards from now on, or does no longer.
    #[cold]
    pub(super) fn note_port_change(&self, port: NetPort, state: PortState) {
        let map = self.plan.map();
        let name = |node: NodeId| &self.plan.fabric().topology.nodes[node].name;
        let (switch, far) = (name(map.node(port)), name(map.far_node(port)));
        tracing::debug!("{switch}: port {} to {far}: {state:?}", map.number(port).0);
        self.plan.port_changes().note();
    }

    /// What was learned from a port of a switch is forgotten. From one to another switch that is all that was learned elsewhere: where a path leads now is not known
    /// while the topology changes, and who says a word is learned again.
    #[cold]
    pub(super) fn flush_port(&self, port: NetPort) {
        let map = self.plan.map();
        let (own, far) = (map.node(port), map.far_node(port));
        if map.is_host(far) {
            self.plan.macs().flush_hosts(|host| host == far);
        } else {
            let switch_of = |host: NodeId| map.port_of(host, PortId(0)).map(|port| map.far_node(port));
            self.plan.macs().flush_hosts(|host| switch_of(host).is_some_and(|switch| switch != own));
        }
    }
}

impl Worker {
    /// How its switches stand, by their numbers among the switches.
    #[cold]
    pub(super) fn bridges(&self) -> Vec<(usize, BridgeStatus)> {
        let bridges = self.graph.bridges.iter().enumerate();
        bridges.filter_map(|(at, bridge)| Some((at, bridge.as_ref()?.status()))).collect()
    }
}

impl DataPlane {
    /// How switches that speak RSTP stand, by their numbers among the switches.
    pub fn bridges(&self) -> Vec<(usize, BridgeStatus)> {
        if !self.plan.tables().ports.has_bridges() {
            return Vec::new();
        }
        let mut all: Vec<_> = self.ask_all(Command::Bridges).into_iter().flatten().collect();
        all.sort_unstable_by_key(|(at, _)| *at);
        all
    }

    /// Routes lead around ports that do not forward.
    pub fn follow_bridges(&mut self) {
        let closed = closed_links(&self.plan, &self.bridges());
        if closed != self.closed {
            self.closed = closed;
            self.reroute();
        }
    }
}

/// The links of which a port does not forward.
fn closed_links(plan: &Plan, bridges: &[(usize, BridgeStatus)]) -> BTreeSet<LinkId> {
    let (map, topology) = (plan.map(), &plan.fabric().topology);
    let ports = bridges.iter().flat_map(|(at, status)| {
        let switch = map.node_of_switch(*at);
        let closed = status.ports.iter().filter(|port| port.state != PortState::Forwarding);
        closed.map(move |port| (switch, PortId(port.port)))
    });
    // Of a bond, the port of its first member stands for all; that of another one says nothing.
    let links = ports.flat_map(|(switch, port)| match topology.bond_at(switch, port) {
        Some(end) if topology.bonds[end].ports.first() == Some(&port) => topology.bond_links(end).collect(),
        Some(_) => Vec::new(),
        None => vec![topology.nodes[switch].ports[port].0],
    });
    links.collect()
}

/// A counter that outlives the plan for which it was made.
pub fn port_changes(before: Option<&Plan>) -> Arc<PortChanges> {
    before.map_or_else(Arc::default, |before| Arc::clone(before.port_changes()))
}
