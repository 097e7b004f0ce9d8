//! Servers of a live network's services.

use super::Network;
use crate::Error;
use crate::control::ServerChange;
use crate::dataplane::ServerOrder;

impl Network {
    /// Changes a server of a service while it runs.
    pub fn change_server(&self, service: &str, server: &str, change: ServerChange) -> Result<(), Error> {
        let (Some(fabric), Some(plane)) = (self.fabric(), &self.plane) else { return Err(Error::NothingRuns) };
        let Some(known) = fabric.services.iter().find(|known| known.name == service) else {
            let known = fabric.services.iter().map(|service| service.name.clone()).collect();
            return Err(Error::NoService { service: service.to_owned(), known });
        };
        let order = ServerOrder { service: service.to_owned(), server: server.to_owned(), change };
        if plane.change_server(&order)? {
            return Ok(());
        }
        let known = known.spec.servers.iter().map(|server| server.name.clone()).collect();
        Err(Error::NoServer { service: service.to_owned(), server: server.to_owned(), known })
    }
}
