//! Commands about ports of switches: what they take.

use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCompleter;

use super::candidates;
use super::network::GlobalNetworkArg;

/// Completes names of hosts and switches.
fn nodes() -> ArgValueCompleter {
    ArgValueCompleter::new(candidates::nodes)
}

#[derive(Debug, Args)]
pub struct Port {
    #[command(flatten)]
    pub network: GlobalNetworkArg,
    #[command(subcommand)]
    pub action: PortAction,
}

#[derive(Debug, Subcommand)]
pub enum PortAction {
    /// Add a port on a device to a switch, as `ovs-vsctl add-port` does
    ///
    /// The port is behind the others of the switch, and leads to a host that is called as the port is, and is not made: whatever is behind the device. Packets, programs, flows and all other
    /// ports go on untouched. It holds until `heddle up` applies a file; what is to stay is written there, under `switches:`.
    ///
    /// DEVICE is a network device of the machine (of the network namespace in which `heddle up` was called), `xdp:DEVICE`, `vhost-user:SOCKET` (`,queues=4` behind it for as many pairs of queues), `dpdk:DEVICE` where this program was built with DPDK, `vxlan:ADDRESS,vni=N`, `geneve:ADDRESS,vni=N` (`vni=flow`: flows say which network), `null:` or `pcap:FILE`, as in `devices` of
    /// a file; relative names are of the folder of the network's file. The keys are those of ports in the file.
    #[command(after_help = ADD_EXAMPLES)]
    Add(PortAdded),
    /// Change what is said of a port, as `ovs-vsctl set port` does
    ///
    /// The keys are those of ports in the file (vlan-mode, tag, trunks, learning, flood, storm-control), and those of links (rate, delay, queue, ..), which `heddle link set` takes as
    /// well; `none` takes a key away, and keys that are not named stay as they are. It holds until `heddle up` applies a file.
    #[command(after_help = SET_EXAMPLES)]
    Set(PortSet),
    /// Take a port on a device away from a switch, as `ovs-vsctl del-port` does
    #[command(visible_alias = "delete", after_help = "Example: heddle port del leaf1 vm1")]
    Del(PortRemoved),
    /// Show the ports of a switch, or of all: number, where each leads, type, device, carrier, queues that there are and that a guest uses, rate, VLANs, and what has passed
    #[command(alias = "list", after_help = "Examples:\n  heddle port show leaf1\n  heddle port show -o json")]
    Show {
        /// The switch; if left out, all
        #[arg(add = nodes())]
        switch: Option<String>,
    },
}

const ADD_EXAMPLES: &str = "\
Examples:
  heddle port add leaf1 vm1 vhost-user:/run/vm1.sock tag=10
  heddle port add leaf1 vm2 vhost-user:/run/vm2.sock,queues=4
  heddle port add leaf1 uplink eth1 trunks=10,20
  heddle port add leaf1 lan tap0 vlan-mode=native-untagged tag=1
  heddle port add leaf1 vm3 tap1 storm-control=1000/s";

const SET_EXAMPLES: &str = "\
Examples:
  heddle port set leaf1 h1 tag=10           # an access port of VLAN 10
  heddle port set leaf1 h1 vlan-mode=native-untagged tag=10 trunks=20,30
  heddle port set leaf1 h1 tag=none vlan-mode=none trunks=none  # all VLANs
  heddle port set leaf1 h1 rate=100Mbit";

#[derive(Debug, Args)]
pub struct PortSet {
    /// The switch
    #[arg(add = nodes())]
    pub switch: String,
    /// The node that the port leads to, or its number
    #[arg(value_name = "PORT", add = nodes())]
    pub port: String,
    /// What is to be said of it
    #[arg(value_name = "KEY=VALUE", required = true, add = ArgValueCompleter::new(candidates::port_keys))]
    pub keys: Vec<String>,
}

#[derive(Debug, Args)]
pub struct PortAdded {
    /// The switch
    #[arg(add = nodes())]
    pub switch: String,
    /// What the port is called, and the host behind it
    #[arg(value_name = "NAME")]
    pub port: String,
    /// What it is on
    #[arg(value_name = "DEVICE")]
    pub device: String,
    /// What else is to be said of it: tag, trunks, vlan-mode, learning, flood, storm-control
    #[arg(value_name = "KEY=VALUE")]
    pub keys: Vec<String>,
}

#[derive(Debug, Args)]
pub struct PortRemoved {
    /// The switch
    #[arg(add = nodes())]
    pub switch: String,
    /// The port
    #[arg(value_name = "NAME")]
    pub port: String,
}
