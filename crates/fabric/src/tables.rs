//! The network in the form in which packets look it up.

use datapath::{Map, Services, Steering, Tables};
use machine::mix;
use vswitch::{HostTable, Pipelines};

use crate::Fabric;

impl Fabric {
    /// What packets are looked up in, with these pipelines. `seed` is for the modes of bonds that draw lots.
    pub fn tables(&self, pipelines: Pipelines, seed: u64) -> Tables {
        let topology = &self.topology;
        Tables {
            map: Map::new(topology),
            host_table: HostTable::new(topology, &self.host_bonds()).with_aliases(self.aliases()),
            bonds: self.ends_of_bonds(|id| mix(seed ^ u64::from(id.0))),
            rerouting: self.rerouting,
            pipelines,
            steering: Steering::new(topology, &self.chains, !self.services.is_empty()),
            services: Services::new(topology, &self.services, self.mtu)
                .with_clients_behind(self.clients_behind())
                .with_names(&self.names),
            ports: self.port_table(),
        }
    }
}
