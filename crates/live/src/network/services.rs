//! Servers of a live network's services.

use std::path::Path;

use super::Network;
use crate::Error;
use crate::checks::Surroundings;
use crate::control::{ServerChange, ServiceStatus};
use crate::dataplane::{OrderKind, ServerOrder};

impl Network {
    /// Has the servers of services checked, and their agents asked, as the file says.
    pub(super) fn check_servers(&mut self, folder: &Path) {
        let Some(plane) = &self.plane else { return };
        let Some(orders) = plane.server_orders() else { return };
        let mut checks = std::mem::take(&mut self.checks);
        let mounts = |host: &str| self.mounts(host).to_vec();
        let around = Surroundings { folder, hosts_file: &self.hosts_path, mounts: &mounts };
        checks.change(plane.plan().fabric(), &self.hosts, around, &orders);
        self.checks = checks;
    }

    /// The kernel carries nothing while the network changes: connections go by the worker.
    pub(super) fn stop_offloads(&mut self) {
        if self.kernel_path.is_there()
            && let Some(plane) = &mut self.plane
        {
            self.kernel_path.keep(plane.set_offloads(None));
        }
    }

    /// Has the kernel carry what it can of services that want it, and of what hosts say to each other.
    pub(super) fn start_offloads(&mut self) {
        let Some(plane) = &mut self.plane else { return };
        let plan = plane.plan();
        if let Some(flows) = self.kernel_path.set_up(plan.fabric(), &self.hosts, plan.counts_flows()) {
            plane.set_offloads(Some(flows));
        }
    }

    /// Adds to how services do by which path their packets go.
    pub(super) fn describe_paths(&self, services: &mut [ServiceStatus]) {
        if let Some(fabric) = self.fabric() {
            self.kernel_path.describe(fabric, services, self.captures.is_any());
        }
    }

    /// Changes a server of a service while it runs.
    pub fn change_server(&self, service: &str, server: &str, change: ServerChange) -> Result<(), Error> {
        let (Some(fabric), Some(plane)) = (self.fabric(), &self.plane) else { return Err(Error::NothingRuns) };
        let Some(known) = fabric.services.iter().find(|known| known.name == service) else {
            let known = fabric.services.iter().map(|service| service.name.clone()).collect();
            return Err(Error::NoService { service: service.to_owned(), known });
        };
        let order = ServerOrder::new(service, server, OrderKind::Change(change));
        if plane.change_server(&order)? {
            return Ok(());
        }
        let known = known.spec.servers.iter().map(|server| server.name.clone()).collect();
        Err(Error::NoServer { service: service.to_owned(), server: server.to_owned(), known })
    }
}
