//! A network as a program of Mininet makes it, and as the fabric file has it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::super::network::{Link, Network, text_of};
use crate::addresses::{Mac, Subnet};
use crate::host_addresses::unusable;

/// Hosts have addresses of this network where nothing else is said, there and here.
const NETWORK: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 0, 0, 0), 8);

#[derive(Clone, Debug)]
pub struct Graph {
    pub nodes: Vec<Node>,
    pub by_name: BTreeMap<String, usize>,
    pub links: Vec<Wire>,
    /// Of which hosts that have no address of their own get one.
    pub base: (Ipv4Addr, u8),
    /// Options that each link has that has none of its own.
    pub link_keys: Vec<(&'static str, String)>,
    /// Hosts' MAC addresses count from 1.
    pub has_counted_macs: bool,
}

impl Default for Graph {
    fn default() -> Self {
        let (nodes, by_name) = (Vec::new(), BTreeMap::new());
        Graph { nodes, by_name, links: Vec::new(), base: NETWORK, link_keys: Vec::new(), has_counted_macs: false }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Node {
    pub name: String,
    pub is_host: bool,
    /// The line where it is made.
    pub line: Option<usize>,
    /// Its address, with or without a prefix.
    pub address: Option<String>,
    pub mac: Option<String>,
    pub forwards: bool,
    pub routes: Vec<String>,
    pub sysctls: Vec<(String, String)>,
    /// Commands that go on.
    pub programs: Vec<(String, String)>,
    /// Addresses of devices, by their names.
    pub device_addresses: Vec<(String, String)>,
}

/// A link, and what its ends are called.
#[derive(Clone, Debug, Default)]
pub struct Wire {
    pub ends: [usize; 2],
    pub devices: [Option<String>; 2],
    pub addresses: [Option<String>; 2],
    pub keys: Vec<(&'static str, String)>,
}

impl Graph {
    /// The names of a node's devices, in the order of its links.
    pub fn devices(&self, node: usize) -> Vec<String> {
        let ends = self.links.iter().flat_map(|link| (0..2).map(move |side| (link, side)));
        let own = ends.filter(|(link, side)| link.ends[*side] == node);
        let name = &self.nodes[node].name;
        own.enumerate()
            .map(|(number, (link, side))| link.devices[side].clone().unwrap_or_else(|| format!("{name}-eth{number}")))
            .collect()
    }

    /// The whole network, in the words of the fabric file.
    pub fn fill(&self, network: &mut Network) {
        for node in &self.nodes {
            network.add_node(&node.name, &node.name, node.is_host);
        }
        let mut host = 0_u32;
        for (number, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.is_host) {
            host += 1;
            self.fill_host(number, node, host, network);
        }
        for link in &self.links {
            let [a, b] = link.ends;
            network.add_link(Link { ends: (a, b), keys: link.keys.clone(), back: Vec::new() });
        }
    }

    fn fill_host(&self, number: usize, node: &Node, host: u32, network: &mut Network) {
        let mut addresses = self.device_addresses(number, network);
        if addresses.is_empty() {
            addresses.push(None);
        }
        let own = node.address.as_deref().and_then(|text| self.address(node, text, network));
        let (base, prefix) = self.base;
        let counted =
            (self.base != NETWORK).then(|| format!("{}/{prefix}", Ipv4Addr::from(u32::from(base).wrapping_add(host))));
        if addresses[0].is_none() {
            addresses[0] = own.or(counted);
        }
        if addresses[1..].iter().any(Option::is_some) {
            let keys = addresses.iter().enumerate().map(|(number, address)| match address {
                Some(address) => format!("{number}: {{ ipv4: {} }}", text_of(address)),
                None => format!("{number}: {{}}"),
            });
            let keys = keys.collect::<Vec<_>>().join(", ");
            network.add_key(&node.name, "interfaces", format!("{{ {keys} }}"));
        } else if let Some(address) = &addresses[0] {
            network.add_key(&node.name, "ipv4", text_of(address));
        }
        let counted = self.has_counted_macs.then(|| {
            let [_, a, b, c] = host.to_be_bytes();
            Mac([0, 0, 0, a, b, c]).to_string()
        });
        if let Some(mac) = node.mac.clone().or(counted) {
            network.add_key(&node.name, "mac", text_of(&mac));
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

    /// The addresses of a node's devices, in the order of its links.
    fn device_addresses(&self, number: usize, network: &mut Network) -> Vec<Option<String>> {
        let node = &self.nodes[number];
        let devices = self.devices(number);
        let given = self.links.iter().flat_map(|link| (0..2).map(move |side| (link, side)));
        let given = given.filter(|(link, side)| link.ends[*side] == number);
        let mut texts: Vec<Option<&str>> = given.map(|(link, side)| link.addresses[side].as_deref()).collect();
        for (device, address) in &node.device_addresses {
            let at = devices.iter().position(|other| other == device);
            match at.and_then(|at| texts.get_mut(at)) {
                Some(text) => *text = Some(address),
                None => network.note(node.line, format!("`{}` has no device `{device}`: its address", node.name)),
            }
        }
        texts.into_iter().map(|text| self.address(node, text?, network)).collect()
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
        let in_network = matches!(read.address, std::net::IpAddr::V4(own) if own.octets()[0] == NETWORK.0.octets()[0]);
        Some(if in_network && read.prefix == NETWORK.1 { read.address.to_string() } else { whole })
    }
}
