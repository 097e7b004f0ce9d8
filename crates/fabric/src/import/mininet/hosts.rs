//! Hosts of Mininet in the words of the fabric file: their addresses, and what is set up in them.

use std::net::{IpAddr, Ipv4Addr};

use super::super::network::{Network, text_of};
use super::graph::{Change, Graph, NETWORK, Node};
use crate::addresses::{Mac, Subnet};
use crate::host_addresses::unusable;

const ADDED_TO: &str =
    "the address that Mininet gives a host by itself, where a command adds one to the first of several interfaces";

/// What a device of a host has.
#[derive(Clone, Debug, Default)]
struct Device {
    /// Its first address.
    address: Option<String>,
    /// The others, with their prefixes.
    further: Vec<String>,
    mac: Option<String>,
}

impl Device {
    fn is_empty(&self) -> bool {
        self.address.is_none() && self.further.is_empty() && self.mac.is_none()
    }

    /// Keys of a host with this device alone, or of one of its interfaces.
    fn keys(&self) -> Vec<(&'static str, String)> {
        let address = self.address.iter().map(|address| ("ipv4", text_of(address)));
        let mac = self.mac.iter().map(|mac| ("mac", text_of(mac)));
        let further: Vec<String> = self.further.iter().map(|address| text_of(address)).collect();
        let further = (!further.is_empty()).then(|| ("addresses", format!("[{}]", further.join(", "))));
        address.chain(mac).chain(further).collect()
    }
}

impl Graph {
    /// Gives a host its keys; `host` is its number among all of them, from 1.
    pub fn fill_host(&self, number: usize, host: u32, network: &mut Network) {
        let node = &self.nodes[number];
        let devices = self.filled_devices(number, host, network);
        if devices[1..].iter().all(Device::is_empty) {
            for (key, value) in devices[0].keys() {
                network.add_key(&node.name, key, value);
            }
        } else {
            let interfaces = devices.iter().enumerate().map(|(number, device)| {
                let keys: Vec<String> = device.keys().iter().map(|(key, value)| format!("{key}: {value}")).collect();
                if keys.is_empty() { format!("{number}: {{}}") } else { format!("{number}: {{ {} }}", keys.join(", ")) }
            });
            let interfaces = interfaces.collect::<Vec<_>>().join(", ");
            network.add_interfaces(&node.name, format!("{{ {interfaces} }}"), devices[0].keys());
        }
        if node.forwards {
            network.add_key(&node.name, "forward", "true".to_owned());
        }
        let listed = |all: Vec<String>| all.join(", ");
        if !node.routes.is_empty() {
            let routes = listed(node.routes.iter().map(|route| text_of(route)).collect());
            network.add_key(&node.name, "routes", format!("[{routes}]"));
        }
        if !node.sysctls.is_empty() {
            let all = node.sysctls.iter().map(|(key, value)| format!("{}: {}", text_of(key), text_of(value)));
            network.add_key(&node.name, "sysctls", format!("{{ {} }}", listed(all.collect())));
        }
        if !node.programs.is_empty() {
            let all = node.programs.iter().map(|(name, command)| {
                format!("{}: {{ run: [sh, \"-c\", {}], restart: never }}", text_of(name), text_of(command))
            });
            network.add_key(&node.name, "programs", format!("{{ {} }}", listed(all.collect())));
        }
    }

    /// What a host's devices have when all is done, in the order of its links; there is one at least.
    fn filled_devices(&self, number: usize, host: u32, network: &mut Network) -> Vec<Device> {
        let node = &self.nodes[number];
        let ends = self.ends(number).map(|(link, side)| {
            let wire = &self.links[link];
            (wire.addresses[side].as_deref(), wire.macs[side].clone())
        });
        let mut devices: Vec<Device> = ends
            .map(|(address, mac)| Device {
                address: address.and_then(|text| self.address(node, text, network)),
                further: Vec::new(),
                mac,
            })
            .collect();
        if devices.is_empty() {
            devices.push(Device::default());
        }
        self.change(number, &mut devices, network);
        let own = node.address.as_deref().and_then(|text| self.address(node, text, network));
        let (base, prefix) = self.base;
        let counted =
            (self.base != NETWORK).then(|| format!("{}/{prefix}", Ipv4Addr::from(u32::from(base).wrapping_add(host))));
        let first = &mut devices[0];
        first.address = first.address.take().or(own).or(counted);
        let counted = self.has_counted_macs.then(|| {
            let [_, a, b, c] = host.to_be_bytes();
            Mac([0, 0, 0, a, b, c]).to_string()
        });
        first.mac = first.mac.take().or_else(|| node.mac.clone()).or(counted);
        devices
    }

    /// Does to a node's devices what the program does to them.
    fn change(&self, number: usize, devices: &mut [Device], network: &mut Network) {
        let node = &self.nodes[number];
        let names = self.devices(number);
        let mut has_address: Vec<bool> = devices.iter().map(|device| device.address.is_some()).collect();
        // Mininet gives the first device one by itself, in a subnet that would reach over those of a router's other devices.
        has_address[0] |= node.address.is_some() || devices.len() == 1;
        let is_added =
            |(name, change): &(String, Change)| matches!(change, Change::Further(_)) && names.first() == Some(name);
        if !has_address[0] && node.changes.iter().any(is_added) {
            network.leave_out(ADDED_TO, node.line, &node.name);
        }
        for (name, change) in &node.changes {
            let Some(at) = names.iter().position(|other| other == name) else {
                let what = match change {
                    Change::Address(_) | Change::Further(_) => "its address",
                    Change::Mac(_) => "its MAC address",
                    Change::Flush => continue,
                };
                network.note(node.line, format!("`{}` has no device `{name}`: {what}", node.name));
                continue;
            };
            let device = &mut devices[at];
            match change {
                Change::Further(text) if has_address[at] => {
                    let whole = if text.contains('/') { text.clone() } else { format!("{text}/32") };
                    let is_there = [&node.address, &device.address].into_iter().flatten().any(|own| is_same(own, text))
                        || device.further.iter().any(|own| is_same(own, text));
                    let is_one = !is_there && self.address(node, &whole, network).is_some();
                    device.further.extend(is_one.then_some(whole));
                }
                Change::Address(text) | Change::Further(text) => device.address = self.address(node, text, network),
                Change::Mac(mac) => device.mac = Some(mac.clone()),
                Change::Flush => *device = Device { mac: device.mac.take(), ..Device::default() },
            }
            has_address[at] = match change {
                Change::Mac(_) => has_address[at],
                Change::Flush => false,
                Change::Address(_) | Change::Further(_) => true,
            };
        }
    }

    /// An address with its prefix, which is left out if all hosts have it by themselves.
    fn address(&self, node: &Node, text: &str, network: &mut Network) -> Option<String> {
        let (address, prefix) = text.split_once('/').unwrap_or((text, ""));
        let prefix = if prefix.is_empty() { self.base.1.to_string() } else { prefix.to_owned() };
        let whole = format!("{}/{prefix}", address.trim());
        let Ok(Subnet(read)) = whole.parse::<Subnet>() else {
            network.note(node.line, format!("the address `{text}` of `{}` is none", node.name));
            return None;
        };
        if let Some(why) = unusable(read) {
            network.note(node.line, format!("the address {whole} of `{}` is not a host's: {why}", node.name));
            return None;
        }
        let in_network = matches!(read.address, IpAddr::V4(own) if own.octets()[0] == NETWORK.0.octets()[0]);
        Some(if in_network && read.prefix == NETWORK.1 { read.address.to_string() } else { whole })
    }
}

/// Whether both are one address, whatever their prefixes.
fn is_same(a: &str, b: &str) -> bool {
    let address = |text: &str| text.split('/').next().and_then(|text| text.trim().parse::<IpAddr>().ok());
    address(a).is_some_and(|a| address(b) == Some(a))
}
