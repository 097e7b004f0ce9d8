//! Servers of a live network's services.

use std::path::Path;

use super::Network;
use crate::Error;
use crate::checks::Surroundings;
use crate::control::ServerChange;
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
