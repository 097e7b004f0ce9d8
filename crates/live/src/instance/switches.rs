//! What a network's switches are asked, and what is changed of them: flows, ports, addresses, servers.

use fabric::{AddedPort, ChangedPort, FlowCommand};

use super::{Instance, unexpected};
use crate::Error;
use crate::control::{Reply, Request, ServerChange, SwitchConnections, SwitchFlows, SwitchMacs, TracedPacket};

impl Instance {
    /// Changes the tables of flows of a switch, with texts as `ovs-ofctl` writes them: all of them, or none. `strict`: flows are meant by exactly their match and
    /// priority. A switch that has no tables gets them. Packets go on meanwhile. How many flows or groups have changed.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such switch, or a text is wrong; nothing has changed.
    pub fn change_flows(
        &self,
        switch: &str,
        (command, strict): (FlowCommand, bool),
        texts: &[String],
    ) -> Result<usize, Error> {
        let (switch, texts) = (switch.to_owned(), texts.to_vec());
        match self.ask(&Request::ChangeFlows { switch, command, strict, texts })? {
            Reply::FlowsChanged(changed) => Ok(changed),
            _ => Err(unexpected("change flows")),
        }
    }

    /// What is in the tables of a switch, or of all that have some; of the flows, those that are meant, as `ovs-ofctl dump-flows` chooses them.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such switch, or the choice is none.
    pub fn flows(&self, switch: Option<&str>, selection: &str) -> Result<Vec<SwitchFlows>, Error> {
        match self.ask(&Request::Flows { switch: switch.map(str::to_owned), selection: selection.to_owned() })? {
            Reply::Flows(flows) => Ok(flows),
            _ => Err(unexpected("flows")),
        }
    }

    /// The connections that a switch tracks, or all switches do that track some; at most some ten thousand of each.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such switch, or it has no tables.
    pub fn connections(&self, switch: Option<&str>) -> Result<Vec<SwitchConnections>, Error> {
        match self.ask(&Request::Connections { switch: switch.map(str::to_owned) })? {
            Reply::Connections(connections) => Ok(connections),
            _ => Err(unexpected("connections")),
        }
    }

    /// Adds a port to a switch, and a host behind it, which stay until a file is applied.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such switch, a node of this name, or the device cannot be opened.
    pub fn add_port(&self, port: &AddedPort) -> Result<(), Error> {
        match self.ask(&Request::AddPort(port.clone()))? {
            Reply::PortsChanged => Ok(()),
            _ => Err(unexpected("add-port")),
        }
    }

    /// Has something else said of a port of a switch, until a file is applied.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such switch or port, or what is said does not go together.
    pub fn set_port(&self, port: &ChangedPort) -> Result<(), Error> {
        match self.ask(&Request::SetPort(port.clone()))? {
            Reply::PortsChanged => Ok(()),
            _ => Err(unexpected("set-port")),
        }
    }

    /// Takes a port on a device away from a switch.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such port, or it is not on a device.
    pub fn remove_port(&self, switch: &str, port: &str) -> Result<(), Error> {
        match self.ask(&Request::RemovePort { switch: switch.to_owned(), port: port.to_owned() })? {
            Reply::PortsChanged => Ok(()),
            _ => Err(unexpected("remove-port")),
        }
    }

    /// The addresses that a switch knows at its ports to hosts, or all switches do.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such switch.
    pub fn macs(&self, switch: Option<&str>) -> Result<Vec<SwitchMacs>, Error> {
        match self.ask(&Request::Macs { switch: switch.map(str::to_owned) })? {
            Reply::Macs(macs) => Ok(macs),
            _ => Err(unexpected("macs")),
        }
    }

    /// Has a switch forget the addresses that it has learned, or all switches. How many they were.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such switch.
    pub fn flush_macs(&self, switch: Option<&str>) -> Result<usize, Error> {
        match self.ask(&Request::FlushMacs { switch: switch.map(str::to_owned) })? {
            Reply::MacsFlushed(flushed) => Ok(flushed),
            _ => Err(unexpected("flush-macs")),
        }
    }

    /// Has a switch forget the connections of a zone, or all that it tracks; or all switches. How many they were.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such switch, or it has no tables of flows.
    pub fn flush_connections(&self, switch: Option<&str>, zone: Option<u16>) -> Result<usize, Error> {
        match self.ask(&Request::FlushConnections { switch: switch.map(str::to_owned), zone })? {
            Reply::ConnectionsFlushed(flushed) => Ok(flushed),
            _ => Err(unexpected("flush-connections")),
        }
    }

    /// Changes a server of a service; it holds until a file says something else.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such service or server.
    pub fn change_server(&self, service: &str, server: &str, change: ServerChange) -> Result<(), Error> {
        let (service, server) = (service.to_owned(), server.to_owned());
        match self.ask(&Request::ChangeServer { service, server, change })? {
            Reply::ServerChanged => Ok(()),
            _ => Err(unexpected("change-server")),
        }
    }

    /// What a packet with these fields would meet at a switch that has tables of flows. Nothing is counted.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such switch, it has no tables, or the fields are none.
    pub fn trace(&self, switch: &str, packet: &str) -> Result<TracedPacket, Error> {
        match self.ask(&Request::Trace { switch: switch.to_owned(), packet: packet.to_owned() })? {
            Reply::Traced(traced) => Ok(traced),
            _ => Err(unexpected("trace")),
        }
    }
}
