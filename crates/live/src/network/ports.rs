//! Ports of a live network's switches that come and go.

use fabric::{AddedPort, ChangedPort, PortChange, find_switch};

use super::{Network, definition, with_countries};
use crate::Error;

impl Network {
    /// Adds a port to a switch, and a host behind it; packets go on meanwhile. If it cannot be done, nothing changes.
    pub fn add_port(&mut self, port: AddedPort) -> Result<(), Error> {
        let Some(before) = self.fabric() else { return Err(Error::NothingRuns) };
        find_switch(&before.topology, &port.switch)?;
        if before.topology.node(&port.port).is_some() {
            return Err(Error::NodeExists { name: port.port });
        }
        let mut ports = self.changed_ports.clone();
        ports.push(PortChange::Add(port));
        self.change_ports(ports)
    }

    /// Has something else said of a port. If it cannot be done, nothing changes.
    pub fn set_port(&mut self, change: ChangedPort) -> Result<(), Error> {
        let Some(before) = self.fabric() else { return Err(Error::NothingRuns) };
        find_switch(&before.topology, &change.switch)?;
        let mut ports = self.changed_ports.clone();
        let known = ports.iter_mut().find_map(|other| match other {
            PortChange::Set(known) if (&known.switch, &known.port) == (&change.switch, &change.port) => Some(known),
            PortChange::Set(_) | PortChange::Add(_) | PortChange::Remove { .. } => None,
        });
        match known {
            Some(known) => known.add(&change),
            None => ports.push(PortChange::Set(change)),
        }
        self.change_ports(ports)
    }

    /// Takes a port on a device away from a switch, with the host behind it.
    pub fn remove_port(&mut self, switch: &str, port: &str) -> Result<(), Error> {
        let Some(before) = self.fabric() else { return Err(Error::NothingRuns) };
        let topology = &before.topology;
        let node = find_switch(topology, switch)?;
        let Some(peer) = topology.node(port).filter(|peer| topology.peers(node).any(|other| other == *peer)) else {
            return Err(Error::NoSuchPort { switch: switch.to_owned(), port: port.to_owned() });
        };
        let mut ports = self.changed_ports.clone();
        // What was said of it goes with it.
        ports
            .retain(|change| !matches!(change, PortChange::Set(known) if known.switch == switch && known.port == port));
        let is_it = |change: &PortChange| matches!(change, PortChange::Add(added) if added.switch == switch && added.port == port);
        if let Some(added) = ports.iter().position(is_it) {
            ports.remove(added);
            return self.change_ports(ports);
        }
        ports.push(PortChange::Remove { switch: switch.to_owned(), port: port.to_owned() });
        // It does nothing about a link of the file.
        let is_gone = self.definition(&self.changed_links, &ports)?.topology.node(port).is_none();
        if !is_gone || !topology.nodes[peer].is_external() {
            return Err(Error::PortOfLink { switch: switch.to_owned(), peer: port.to_owned() });
        }
        self.change_ports(ports)
    }

    fn change_ports(&mut self, ports: Vec<PortChange>) -> Result<(), Error> {
        let fabric = definition((&self.source, &self.overrides), &self.changed_links, &ports, &self.with_tables);
        let fabric = with_countries(fabric.map_err(|error| of_command(&error))?, &self.folder)?;
        self.check(&fabric)?;
        self.go_over_to(fabric, &self.folder.clone())?;
        self.changed_ports = ports;
        self.reconnect();
        Ok(())
    }
}

/// Problems that a command has brought about: they have no place in the file, which was sound before.
fn of_command(error: &fabric::Error) -> Error {
    let problem = |problem: &fabric::Problem| format!("{} (hint: {})", problem.message, problem.hint);
    let problems: Vec<String> = error.problems().iter().map(problem).collect();
    Error::File(format!("[the command line] {}", problems.join("\n")))
}
