//! How services stand, for whoever shows them.

use topology::NodeId;

use super::balancers::BalancerView;
use super::counters::{ServerCounters, ServiceCounters};
use super::state::ServiceState;

/// A service as it stands.
#[derive(Debug)]
pub struct ServiceView<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it has counted.
    pub counters: ServiceCounters,
    /// Packets that the driver has carried by itself; those of servers have them, too.
    pub offloaded: u64,
    /// Connections that it had no room for, so that their packets are processed here.
    pub no_room: u64,
    /// Who gets the next connection.
    pub machine: &'a balance::Service,
    /// By server: its host, and what has passed.
    pub servers: Vec<(Option<NodeId>, ServerCounters)>,
    /// Where it is balanced at hosts: how those do, in the order of the file.
    pub balancers: Vec<BalancerView>,
    /// The machines of those that are not the one that `machine` is of.
    pub others: Vec<&'a balance::Service>,
}

impl ServiceState {
    /// How each service of the file stands, in its order.
    pub fn views(&self) -> impl Iterator<Item = ServiceView<'_>> {
        self.by_number.iter().map(|at| {
            let running = &self.running[*at as usize];
            ServiceView {
                name: &running.name,
                counters: running.counters,
                offloaded: running.offloaded,
                no_room: running.no_room,
                machine: &running.machine,
                servers: running
                    .hosts
                    .iter()
                    .map(|at| at.map(|at| at.host))
                    .zip(running.servers.iter().copied())
                    .collect(),
                balancers: Vec::new(),
                others: Vec::new(),
            }
        })
    }
}
