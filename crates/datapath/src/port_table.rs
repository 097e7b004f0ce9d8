//! What the file says about ports of switches, in the form in which packets look it up. Does not change.

use std::collections::BTreeMap;

use rstp::BridgeConfig;
use topology::{DeviceName, NetPort, NodeId, PortId, TiVec, Topology};
use vswitch::port::{PortSettings, PortVlans, StormLimit};

/// What the file says about ports of switches.
#[derive(Clone, Debug, Default)]
pub struct PortTable {
    /// Empty where no port has VLANs. A host's port has those of the switch's port at the other end.
    vlans: TiVec<NetPort, PortVlans>,
    /// By host.
    hosts: TiVec<NodeId, HostSide>,
    /// Whether any host may have addresses that nobody knows.
    floods_unknown: bool,
    /// The switches that speak RSTP.
    bridges: BTreeMap<NodeId, BridgeConfig>,
}

/// What holds for the ports of switches that lead to a host.
#[derive(Clone, Copy, Debug)]
struct HostSide {
    floods_unknown: bool,
    learns: bool,
    storm_limit: Option<StormLimit>,
}

/// Whether somebody may be behind a device whose address the file does not name: nobody is in a file, or behind a null device.
fn may_have_others(device: &str) -> bool {
    !matches!(DeviceName::parse(device), Ok(DeviceName::Null(_) | DeviceName::Pcap(_)) | Err(_))
}

impl PortTable {
    /// What `settings` say about the ports of a topology's switches. Of a host with several links, what is said of any of them holds.
    pub fn new(topology: &Topology, settings: &BTreeMap<(NodeId, PortId), PortSettings>) -> Self {
        let mut first: TiVec<NodeId, u32> = TiVec::with_capacity(topology.nodes.len());
        let mut next = 0;
        for node in &topology.nodes {
            first.push(next);
            next += node.ports.len() as u32;
        }
        let net_port = |node: NodeId, port: PortId| NetPort(first[node] + u32::from(port.0));
        let has_vlans = settings.values().any(|settings| settings.vlans.is_some());
        let mut vlans: TiVec<NetPort, PortVlans> =
            if has_vlans { vec![PortVlans::default(); next as usize].into() } else { TiVec::new() };
        let side = |(_, node): (NodeId, &topology::Node)| HostSide {
            floods_unknown: node.devices.iter().any(|device| may_have_others(device)),
            learns: true,
            storm_limit: None,
        };
        let mut hosts: TiVec<NodeId, HostSide> = topology.hosts().map(side).collect();
        for (&(switch, port), settings) in settings {
            // A case may have given a bond fewer members than the file.
            let Some(&(link, side)) = topology.nodes[switch].ports.get(port) else { continue };
            let far = topology.links[link].end(side.other());
            if let Some(own) = &settings.vlans {
                vlans[net_port(switch, port)] = own.clone();
                if topology.is_host(far.node) {
                    vlans[net_port(far.node, far.port)] = own.clone();
                }
            }
            if let Some(host) = hosts.get_mut(far.node) {
                host.floods_unknown = settings.flood.unwrap_or(host.floods_unknown);
                host.learns = settings.learning.unwrap_or(host.learns);
                host.storm_limit = settings.storm_control.or(host.storm_limit);
            }
        }
        let floods_unknown = topology.addressed_hosts().any(|(host, _)| hosts[host].floods_unknown);
        Self { vlans, hosts, floods_unknown, bridges: BTreeMap::new() }
    }

    /// The same, and these switches speak RSTP.
    #[must_use]
    pub fn with_bridges(self, bridges: BTreeMap<NodeId, BridgeConfig>) -> Self {
        Self { bridges, ..self }
    }

    /// What is said of RSTP at a switch that speaks it.
    pub fn bridge(&self, switch: NodeId) -> Option<&BridgeConfig> {
        self.bridges.get(&switch)
    }

    /// Whether any switch speaks RSTP.
    #[inline]
    pub fn has_bridges(&self) -> bool {
        !self.bridges.is_empty()
    }

    /// The VLANs of a port, if any port has some.
    #[inline]
    pub fn vlans(&self, port: NetPort) -> Option<&PortVlans> {
        self.vlans.get(port)
    }

    /// Whether any port has VLANs.
    #[inline]
    pub fn has_vlans(&self) -> bool {
        !self.vlans.is_empty()
    }

    /// Whether what is for an address that nobody knows goes anywhere.
    pub const fn floods_unknown(&self) -> bool {
        self.floods_unknown
    }

    /// Whether it goes to this host.
    pub fn floods_unknown_to(&self, host: NodeId) -> bool {
        self.hosts.get(host).is_some_and(|host| host.floods_unknown)
    }

    /// Whether addresses are learned from what a host sends.
    pub fn learns_from(&self, host: NodeId) -> bool {
        self.hosts.get(host).is_some_and(|host| host.learns)
    }

    /// How much a host may send to everybody, where the file says so.
    pub fn storm_limit(&self, host: NodeId) -> Option<StormLimit> {
        self.hosts.get(host)?.storm_limit
    }
}
