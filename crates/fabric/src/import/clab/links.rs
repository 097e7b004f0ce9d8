//! Links of containerlab: `endpoints: ["a:eth1", "b:eth1"]`, or in full; and the devices that nodes have of them.

use std::collections::{BTreeMap, BTreeSet};

use super::{entries, get, items, text};
use crate::addresses::{Mac, Subnet};
use crate::document::{MTU_MAX, MTU_MIN};
use crate::error::Problems;
use crate::host_addresses::unusable;
use crate::import::network::{Link, Network};
use crate::import::{NoteKind, line_of};
use crate::model::InterfaceAddress;
use crate::read::{expected, shown};
use crate::source::Lines;
use crate::tree::{Entry, Node, Value};

/// What stands in the place of a node at the end of a link, and is none.
const NO_NODES: [&str; 4] = ["host", "mgmt-net", "macvlan", "dummy"];

const ONE_MTU: &str = "`mtu` of links: all of a network have one, `mtu: 9000` at the top level of the file";

const OF_SWITCHES: &str = "addresses of switches' ends of links: switches have none";

/// A device of a node: its end of a link.
#[derive(Clone, Debug, Default)]
pub(super) struct Device {
    /// What it is called there.
    pub name: String,
    pub addresses: Vec<InterfaceAddress>,
    pub mac: Option<String>,
}

impl Device {
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.mac.is_none()
    }

    /// Gives it an address, once.
    pub fn add(&mut self, address: InterfaceAddress) {
        if !self.addresses.contains(&address) {
            self.addresses.push(address);
        }
    }
}

/// An end of a link: `a:eth1`, or `{ node: a, interface: eth1, mac: .., ipv4: .., ipv6: .. }`.
struct Endpoint<'a> {
    node: &'a str,
    interface: &'a str,
    /// Keys and values: of its own, or its part of the link's.
    addresses: Vec<(&'static str, &'a str)>,
}

/// The words for addresses.
const ADDRESSES: [&str; 3] = ["ipv4", "ipv6", "mac"];

/// The ends of a link, if there are two.
fn ends(link: &Node) -> Option<[Endpoint<'_>; 2]> {
    let [a, b] = get(link, "endpoints").map(items)? else { return None };
    let end = |end, side| {
        let own = ADDRESSES.into_iter().filter_map(move |key| Some((key, text(get(end, key))?)));
        // In the short form, the link has a list of those of both ends.
        let of_link = ADDRESSES.into_iter().filter_map(move |key| {
            let address = text(items(get(link, key)?).get(side))?;
            (!address.is_empty()).then_some((key, address))
        });
        let (node, interface) = match &end.value {
            Value::Scalar(text) => text.split_once(':').unwrap_or((text, "")),
            _ => (text(get(end, "node")).unwrap_or_default(), text(get(end, "interface")).unwrap_or_default()),
        };
        Endpoint { node, interface, addresses: own.chain(of_link).collect() }
    };
    Some([end(a, 0), end(b, 1)])
}

fn kind(link: &Node) -> &str {
    text(get(link, "type")).unwrap_or("veth")
}

/// The address of a device that `ipv4` or `ipv6` says.
fn address(key: &str, text: &str) -> Result<InterfaceAddress, &'static str> {
    let Ok(Subnet(address)) = text.parse() else { return Err("it is no address with a prefix, as `10.0.0.1/24` is") };
    if (key == "ipv4") != address.address.is_ipv4() {
        return Err("it is one of the other version");
    }
    unusable(address).map_or(Ok(address), Err)
}

fn mac(text: &str) -> Result<String, &'static str> {
    let text = text.to_lowercase();
    text.parse::<Mac>().map(|_| text).map_err(|()| "it is no MAC address of a device")
}

/// The devices of each node, in the order of its links.
pub(super) fn devices(links: &[Node]) -> BTreeMap<&str, Vec<Device>> {
    let mut devices: BTreeMap<&str, Vec<Device>> = BTreeMap::new();
    for [a, b] in links.iter().filter(|link| kind(link) == "veth").filter_map(ends) {
        let is_left_out = |end: &Endpoint<'_>| NO_NODES.contains(&end.node) || end.interface.is_empty();
        if a.node == b.node || is_left_out(&a) || is_left_out(&b) {
            continue;
        }
        for end in [a, b] {
            let mut device = Device { name: end.interface.to_owned(), ..Device::default() };
            for (key, text) in end.addresses {
                match key {
                    "mac" => device.mac = mac(text).ok(),
                    _ => address(key, text).into_iter().for_each(|address| device.add(address)),
                }
            }
            devices.entry(end.node).or_default().push(device);
        }
    }
    devices
}

/// Reads all links.
pub(super) fn read(links: &[Node], lines: &Lines<'_>, network: &mut Network, problems: &mut Problems<'_>) {
    let mut mtus = BTreeSet::new();
    let mut with_mtu = Vec::new();
    for link in links {
        let Some((name, mtu)) = read_link(link, lines, network, problems) else { continue };
        mtus.insert(mtu.and_then(|mtu| text(Some(&mtu.value))?.parse::<u64>().ok()));
        with_mtu.extend(mtu.map(|mtu| (Some(line_of(lines, mtu.key_place)), name)));
    }
    match mtus.into_iter().collect::<Vec<_>>()[..] {
        [Some(mtu @ MTU_MIN..=MTU_MAX)] => network.mtu = Some(mtu),
        _ => with_mtu.into_iter().for_each(|(line, name)| network.leave_out(ONE_MTU, line, &name)),
    }
}

/// Reads a link: what it is called, and what it says of its MTU.
fn read_link<'a>(
    link: &'a Node,
    lines: &Lines<'_>,
    network: &mut Network,
    problems: &mut Problems<'_>,
) -> Option<(String, Option<&'a Entry>)> {
    let line = Some(line_of(lines, link.place));
    let kind = kind(link);
    if kind != "veth" {
        network.note(line, format!("a link of the type `{}`: its other end is none of the nodes", shown(kind)));
        return None;
    }
    let Some(ends) = ends(link) else {
        expected(link, "a link with `endpoints: [\"a:eth1\", \"b:eth1\"]`", problems);
        return None;
    };
    let endpoints = get(link, "endpoints").map(items).unwrap_or_default();
    let mut numbers = Vec::new();
    for (Endpoint { node, .. }, place) in ends.iter().zip(endpoints.iter().map(|end| end.place)) {
        if NO_NODES.contains(node) && network.node(node).is_none() {
            network.note(line, format!("a link to `{node}` of the machine: `devices:` of a host are the machine's"));
            return None;
        }
        let Some(number) = network.node(node) else {
            let message = format!("there is no node `{}`", shown(node));
            problems.add(place, message, "unknown node", "it is none of `topology.nodes`");
            return None;
        };
        numbers.push(number);
    }
    if numbers[0] == numbers[1] {
        network.note_as(NoteKind::Mistake, line, "a link from a node to itself");
        return None;
    }
    let name = format!("{}-{}", ends[0].node, ends[1].node);
    for (end, number) in ends.iter().zip(&numbers) {
        note_addresses(end, network.is_host(*number), line, network);
    }
    let is_list = |key: &str| get(link, key).is_some_and(|node| !items(node).is_empty());
    let is_taken =
        |key: &str| ["endpoints", "type", "mtu"].contains(&key) || (ADDRESSES.contains(&key) && is_list(key));
    for key in entries(link).iter().filter(|entry| !is_taken(&entry.key)) {
        network.leave_out(left_out(&key.key, "links"), Some(line_of(lines, key.key_place)), &name);
    }
    for end in endpoints {
        let is_taken = |key: &str| ["node", "interface"].contains(&key) || ADDRESSES.contains(&key);
        for key in entries(end).iter().filter(|entry| !is_taken(&entry.key)) {
            network.leave_out(left_out(&key.key, "links' ends"), Some(line_of(lines, key.key_place)), &name);
        }
    }
    network.add_link(Link { ends: (numbers[0], numbers[1]), ..Link::default() });
    Some((name, entries(link).iter().find(|entry| entry.key == "mtu")))
}

/// Says which addresses of an end are not the host's.
fn note_addresses(end: &Endpoint<'_>, is_host: bool, line: Option<usize>, network: &mut Network) {
    for (key, text) in &end.addresses {
        let wrong = match *key {
            _ if !is_host => {
                network.leave_out(OF_SWITCHES, line, end.node);
                continue;
            }
            "mac" => mac(text).err(),
            key => address(key, text).err(),
        };
        if let Some(why) = wrong {
            let said = format!("`{key}: {}` of `{}:{}`: {why}", shown(text), shown(end.node), shown(end.interface));
            network.note_as(NoteKind::Mistake, line, &said);
        } else if end.interface.is_empty() {
            network.leave_out("addresses of ends without an interface's name", line, end.node);
        }
    }
}

fn left_out(key: &str, of: &str) -> String {
    format!("`{}` of {of}: nothing here stands for it", shown(key))
}
