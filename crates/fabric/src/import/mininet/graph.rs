//! A network as a program of Mininet makes it, and as the fabric file has it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::super::directions::{self, Keys};
use super::super::network::Network;

/// Hosts have addresses of this network where nothing else is said, there and here.
pub const NETWORK: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 0, 0, 0), 8);

#[derive(Clone, Debug)]
pub struct Graph {
    pub nodes: Vec<Node>,
    pub by_name: BTreeMap<String, usize>,
    pub links: Vec<Wire>,
    /// Of which hosts that have no address of their own get one.
    pub base: (Ipv4Addr, u8),
    /// Options that each link has that has none of its own.
    pub link_keys: Keys,
    /// Hosts' MAC addresses count from 1.
    pub has_counted_macs: bool,
    /// So many nodes are a topology's: Mininet adds them in the order of their names.
    pub of_topology: usize,
}

impl Default for Graph {
    fn default() -> Self {
        Graph {
            nodes: Vec::new(),
            by_name: BTreeMap::new(),
            links: Vec::new(),
            base: NETWORK,
            link_keys: Vec::new(),
            has_counted_macs: false,
            of_topology: 0,
        }
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
    /// What is done to devices, by their names, one after the other.
    pub changes: Vec<(String, Change)>,
}

/// What is done to a device.
#[derive(Clone, Debug)]
pub enum Change {
    /// It has this address in place of its first one.
    Address(String),
    /// It has one more, which is its first if it has none.
    Further(String),
    Mac(String),
    /// Its addresses are taken away.
    Flush,
}

/// A link, and what its ends are called.
#[derive(Clone, Debug, Default)]
pub struct Wire {
    pub ends: [usize; 2],
    pub devices: [Option<String>; 2],
    pub ports: [Option<i64>; 2],
    pub addresses: [Option<String>; 2],
    pub macs: [Option<String>; 2],
    /// What it does to what each end sends.
    pub keys: [Keys; 2],
}

impl Graph {
    /// A node's ends of links, in their order: the link's number and the side.
    pub fn ends(&self, node: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let all = self.links.iter().enumerate().flat_map(|(link, wire)| (0..2).map(move |side| (link, side, wire)));
        all.filter(move |(_, side, wire)| wire.ends[*side] == node).map(|(link, side, _)| (link, side))
    }

    /// The names of a node's devices, in the order of its links.
    pub fn devices(&self, node: usize) -> Vec<String> {
        let Node { name, is_host, .. } = &self.nodes[node];
        // A switch's first device is `lo`.
        let first = i64::from(!is_host);
        let device = |(number, (link, side)): (i64, (usize, usize))| {
            let wire = &self.links[link];
            let port = wire.ports[side].unwrap_or(number);
            wire.devices[side].clone().unwrap_or_else(|| format!("{name}-eth{port}"))
        };
        (first..).zip(self.ends(node)).map(device).collect()
    }

    /// The end of a link that is a node's device.
    pub fn end_of(&self, node: usize, device: &str) -> Option<(usize, usize)> {
        let number = self.devices(node).iter().position(|other| other == device)?;
        self.ends(node).nth(number)
    }

    /// Nodes in the order in which Mininet adds them, which sorts the first `number`; hosts get their addresses in it. Where a switch stands in the file, there is one.
    pub fn order(&self, number: usize) -> Vec<usize> {
        let of_kind = |is_host: bool| {
            let mut nodes: Vec<usize> = (0..number).filter(|node| self.nodes[*node].is_host == is_host).collect();
            nodes.sort_by_cached_key(|node| natural(&self.nodes[*node].name));
            nodes.into_iter()
        };
        let (mut hosts, mut switches) = (of_kind(true), of_kind(false));
        let of_topology = self.nodes[..number].iter();
        let sorted = of_topology.filter_map(|node| if node.is_host { hosts.next() } else { switches.next() });
        sorted.chain(number..self.nodes.len()).collect()
    }

    /// The whole network, in the words of the fabric file.
    pub fn fill(&self, network: &mut Network) {
        let order = self.order(self.of_topology);
        let mut numbers = vec![0; order.len()];
        for (number, node) in order.iter().enumerate() {
            let Node { name, is_host, .. } = &self.nodes[*node];
            network.add_node(name, name, *is_host);
            numbers[*node] = number;
        }
        let hosts = order.into_iter().filter(|node| self.nodes[*node].is_host);
        for (host, node) in (1..).zip(hosts) {
            self.fill_host(node, host, network);
        }
        for Wire { ends: [a, b], keys: [forth, back], .. } in &self.links {
            network.add_link(directions::link((numbers[*a], numbers[*b]), forth.clone(), back.clone()));
        }
    }
}

/// What names are sorted by: numbers in them count as such.
fn natural(name: &str) -> Vec<(&str, Option<(usize, &str)>)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (text, digits) = rest.split_at(start);
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let number = digits[..end].trim_start_matches('0');
        parts.push((text, Some((number.len(), number))));
        rest = &digits[end..];
    }
    parts.push((rest, None));
    parts
}
