//! Hosts in several subnets: links as interfaces of their own, further addresses, routes.
//!
//! An interface is a host of its own in the topology, with one link and addresses: what distinguishes it from others is that it is in the namespace of the host
//! that it belongs to. The first one is that host itself, `eth0`; the others are called `HOST.eth1` and so on.
//!
//! ```yaml
//! nodes:
//!   h1: { kind: host, ipv4: 10.0.1.1/24, routes: [default via 10.0.1.254] }
//!   r1: { kind: host, forward: true, interfaces: { s1: { ipv4: 10.0.1.254/24 }, s2: { ipv4: 10.0.2.254/24 } } }
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use topology::{HostAddress, NodeId, NodeKind, TiVec, Topology};

use crate::addresses::{Mac, Subnet, WithPrefix};
use crate::document::{File, NodeLong, NodeText, NodeWord};
use crate::error::Problems;
use crate::graph::{Graph, IPV4, address};
use crate::host_addresses::{USE_OTHER, WrittenAddress, override_hosts, unusable};
use crate::host_routes::first_of;
use crate::host_setup::addresses_of;
use crate::names::{LONGEST, canonical, one_of};
use crate::read::{Fields, Mapping, Name, Read, section, shown};
use crate::source::{At, Place};
use crate::subnets::{Subnets, in_words};
use crate::topologies::position;
use crate::tree::Node;
use crate::{HostRoute, HostSetup, InterfaceAddress};

section! {
    /// A link of a host as an interface of its own. What is not given follows from its position. Without an IPv4 address, where `10.0.0.0/8` is used beyond other links and by nobody on this one, it is in no subnet.
    InterfaceText {
        /// MAC address.
        "mac" => mac: Option<At<Mac>>,
        /// IPv4 address, with the prefix of its subnet: `10.0.1.254/24`.
        "ipv4" => ipv4: Option<At<WithPrefix<Ipv4Addr>>>,
        /// IPv6 address, with the prefix of its subnet. When not given, it is in one that goes with that of `ipv4`.
        "ipv6" => ipv6: Option<At<WithPrefix<Ipv6Addr>>>,
        /// More addresses, each with the prefix of its subnet.
        "addresses" => addresses: Option<At<Vec<At<Subnet>>>>,
    }
}

/// Nodes that a hint names.
const MOST_SHOWN: usize = 8;

/// Interfaces as they are written, by the node or the number of their links.
type Interfaces = At<Mapping<Name, InterfaceText>>;

/// Notes what is wrong with a host's interfaces, whose links are laid out.
pub(crate) fn check_host(
    topology: &Topology,
    host: NodeId,
    (text, is_bonded): (&NodeLong, bool),
    problems: &mut Problems<'_>,
) {
    let Some(interfaces) = &text.interfaces else { return };
    let name = &topology.nodes[host].name;
    let why = if text.kind.value == NodeWord::Vm || text.devices.is_some() {
        Some(("and what is behind devices has addresses of its own there", "make a host of each device"))
    } else if is_bonded {
        Some(("and a bond, which is one interface", "keep one of the two"))
    } else {
        None
    };
    if let Some((why, hint)) = why {
        let message = format!("`{name}` has `interfaces`, {why}");
        problems.add(interfaces.place, message, "can't be both", hint);
    }
    let own = [
        text.mac.as_ref().map(|own| (own.place, "mac")),
        text.ipv4.as_ref().map(|own| (own.place, "ipv4")),
        text.ipv6.as_ref().map(|own| (own.place, "ipv6")),
        text.setup.addresses.as_ref().map(|own| (own.place, "addresses")),
    ];
    for (place, key) in own.into_iter().flatten() {
        let message = format!("`{name}` has `interfaces`: `{key}` is that of one of them");
        problems.add(place, message, "besides `interfaces`", "write it at an interface");
    }
    note_links(topology, host, interfaces, problems);
}

/// Notes names of interfaces that are no link's.
fn note_links(topology: &Topology, host: NodeId, interfaces: &Interfaces, problems: &mut Problems<'_>) {
    let peers: Vec<&str> = peers(topology, host);
    let owner = &topology.nodes[host].name;
    let mut known = BTreeSet::new();
    for (name, _) in &interfaces.value.0 {
        let written = name.value.0.as_str();
        let (message, label, hint) = match find(&peers, written) {
            Ok(port) if known.insert(port) => continue,
            Ok(port) => (
                format!("something is said about the link to `{}` already", peers[port]),
                "a second time",
                "say all of it in one place".to_owned(),
            ),
            Err(Some(first)) => (
                format!("several links lead from `{owner}` to `{written}`"),
                "which one?",
                format!("name them by their numbers, as `{first}`: the host's first link has 0"),
            ),
            Err(None) => (
                format!("no link of `{owner}` leads to `{}`", shown(written)),
                "no such link",
                format!("its links lead to {}", one_of(peers.iter().copied().take(MOST_SHOWN))),
            ),
        };
        problems.add(name.place, message, label, hint);
    }
}

/// The names of the nodes that a host's links lead to: of an interface, the host that it belongs to.
fn peers(topology: &Topology, host: NodeId) -> Vec<&str> {
    topology.peers(host).map(|peer| topology.nodes[topology.owner(peer)].name.as_str()).collect()
}

/// The link that is meant, by the node that it leads to or by its number. If several lead there: the first of them.
fn find(peers: &[&str], written: &str) -> Result<usize, Option<usize>> {
    let mut led = (0..peers.len()).filter(|port| peers[*port] == written);
    match (led.next(), led.next()) {
        (Some(port), None) => Ok(port),
        (Some(first), Some(_)) => Err(Some(first)),
        (None, _) => written.parse().ok().filter(|port| *port < peers.len()).ok_or(None),
    }
}

/// What is said about each link of a host, by its number.
fn by_port<'a>(peers: &[&str], interfaces: &'a Interfaces) -> Vec<Option<&'a At<InterfaceText>>> {
    let mut texts = vec![None; peers.len()];
    for (name, text) in &interfaces.value.0 {
        if let Ok(port) = find(peers, &name.value.0) {
            texts[port] = Some(text);
        }
    }
    texts
}

/// The nodes that are hosts with interfaces.
fn written(file: &File) -> impl Iterator<Item = (&At<Name>, &NodeLong, &Interfaces)> {
    let nodes = file.nodes.iter().flat_map(|nodes| &nodes.value.0);
    nodes.filter_map(|(name, text)| match &text.value {
        NodeText::Long(long) if long.kind.value == NodeWord::Host => Some((name, &**long, long.interfaces.as_ref()?)),
        _ => None,
    })
}

/// What an interface is called that belongs to a host.
fn name_of(host: &str, number: usize) -> String {
    format!("{host}.eth{number}")
}

/// The MAC address of a host's interface follows from that of the host: it stays, whatever becomes of other hosts, unless one of them has it.
fn mac_of(topology: &Topology, host: NodeId, number: usize, taken: &BTreeSet<[u8; 6]>) -> [u8; 6] {
    let [_, _, _, x, y, z] = topology.address(host).map_or([0; 6], |address| address.mac);
    let [high, low] = (number as u16).wrapping_add(10).to_be_bytes();
    // Locally administered ones, of one device each.
    let mut all = (0..64).map(|first| [first << 2 | 2, high, low, x, y, z]);
    all.find(|mac| !taken.contains(mac)).unwrap_or([2, high, low, x, y, z])
}

/// Makes each further link of hosts with interfaces a host of its own, and gives all interfaces their addresses. To be called before functions are added.
pub(crate) fn split(file: &File, graph: &mut Graph, problems: &mut Problems<'_>) {
    let mut known: BTreeSet<String> = graph.topology.nodes.iter().map(|node| canonical(&node.name)).collect();
    let mut next = file.nodes.as_ref().map_or(0, |nodes| nodes.value.0.len());
    let mut all = Vec::new();
    let hosts = graph.topology.addressed_hosts().filter_map(|(id, _)| graph.topology.address(id));
    let macs: BTreeSet<[u8; 6]> = hosts.map(|address| address.mac).collect();
    for (name, _, interfaces) in written(file) {
        let Some(host) = graph.topology.node(&name.value.0) else { continue };
        // What is wrong with it has been noted.
        let texts = by_port(&peers(&graph.topology, host), interfaces);
        let mut further = Vec::new();
        for number in 1..texts.len() {
            let own = name_of(&name.value.0, number);
            if own.len() > LONGEST || !known.insert(canonical(&own)) {
                let (message, hint) = if own.len() > LONGEST {
                    (
                        format!("`{own}` is too long for a name: that of an interface of `{}`", name.value.0),
                        "shorten the host's name",
                    )
                } else {
                    (
                        format!("there is a node `{own}`, and an interface of `{}` is called so", name.value.0),
                        "give one of the two another name",
                    )
                };
                problems.add(name.place, message, "not for a host with interfaces", hint);
            }
            further.push((
                own,
                HostAddress { mac: mac_of(&graph.topology, host, number, &macs), ..address(position(next), None) },
            ));
            next += 1;
        }
        graph.topology.split_interfaces(host, further);
        for (number, text) in texts.into_iter().enumerate() {
            let Some(text) = text else { continue };
            let own = if number == 0 { name.value.0.clone() } else { name_of(&name.value.0, number) };
            let InterfaceText { mac, ipv4, ipv6, .. } = text.value.clone();
            let name = At { value: Name(own), place: text.place, sound: true };
            all.push((name, WrittenAddress { mac, ipv4, ipv6 }));
        }
    }
    override_hosts(graph, &all, problems);
    let said: BTreeSet<String> =
        all.into_iter().filter(|(_, text)| text.ipv4.is_some()).map(|(name, _)| name.value.0).collect();
    keep_apart(file, &mut graph.topology, &said);
}

/// Takes interfaces of which no IPv4 address is said out of the network of all, where that is used in other parts and by nobody of theirs: they are in no subnet.
fn keep_apart(file: &File, topology: &mut Topology, said: &BTreeSet<String>) {
    let unsaid: BTreeSet<NodeId> = written(file)
        .filter_map(|(name, ..)| topology.node(&name.value.0))
        .flat_map(|host| topology.interfaces_of(host))
        .filter(|interface| !said.contains(&topology.nodes[*interface].name))
        .collect();
    if unsaid.is_empty() {
        return;
    }
    let parts = parts(topology);
    let (mut using, mut of_all, mut taken) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (host, _) in topology.addressed_hosts() {
        let Some(HostAddress { ipv4, ipv4_prefix, .. }) = topology.address(host) else { continue };
        let whole = InterfaceAddress { address: IPV4.0.into(), prefix: IPV4.1 };
        taken.insert(*ipv4);
        if whole.has((*ipv4).into()) {
            using.insert(parts[host]);
        }
        if !unsaid.contains(&host) && whole.has((*ipv4).into()) && *ipv4_prefix == IPV4.1 {
            of_all.insert(parts[host]);
        }
    }
    for interface in unsaid {
        let own = parts[interface];
        if of_all.contains(&own) || using.iter().all(|other| *other == own) {
            continue;
        }
        if let NodeKind::Host(address) = &mut topology.nodes[interface].kind {
            let [.., x, y] = address.ipv4.octets();
            let begin = u16::from_be_bytes([x, y]);
            let all = (0..=u16::MAX).map(|step| begin.wrapping_add(step).to_be_bytes());
            let mut all = all.map(|[x, y]| Ipv4Addr::new(169, 254, x, y));
            let Some(free) = all.find(|free| taken.insert(*free)) else { continue };
            (address.ipv4, address.ipv4_prefix) = (free, 32);
            address.ipv6_prefix = 128;
        }
    }
}

/// Adds what is said of interfaces to what hosts have: further addresses, and whether the kernel forwards.
pub(crate) fn add_setups(file: &File, graph: &Graph, setups: &mut BTreeMap<String, HostSetup>) {
    for (name, _, interfaces) in written(file) {
        let Some(host) = graph.topology.node(&name.value.0) else { continue };
        let all: Vec<NodeId> = graph.topology.interfaces_of(host).collect();
        let peers: Vec<&str> = all.iter().flat_map(|interface| peers(&graph.topology, *interface)).collect();
        for (interface, text) in all.iter().zip(by_port(&peers, interfaces)) {
            let addresses = text.map(|text| addresses_of(text.value.addresses.as_ref())).unwrap_or_default();
            if !addresses.is_empty() {
                let own = graph.topology.nodes[*interface].name.clone();
                setups.entry(own).or_default().addresses = addresses;
            }
        }
    }
    let routers = file.nodes.iter().flat_map(|nodes| &nodes.value.0).filter_map(|(name, text)| match &text.value {
        NodeText::Long(long) if long.does_forward() && long.is_router() => Some(name),
        _ => None,
    });
    for name in routers {
        setups.entry(name.value.0.clone()).or_default().forwards = true;
    }
}

impl NodeLong {
    /// Whether the file has it forward, in whichever way.
    pub fn does_forward(&self) -> bool {
        self.forward.as_ref().is_some_and(|forward| forward.value.0)
    }

    /// Whether it is its kernel that forwards: it is in several subnets.
    pub fn is_router(&self) -> bool {
        self.interfaces.is_some() || self.setup.addresses.is_some()
    }
}

/// Holds addresses, subnets and routes against each other. To be called when all hosts have theirs.
pub(crate) fn check(
    file: &File,
    topology: &Topology,
    setups: &BTreeMap<String, HostSetup>,
    problems: &mut Problems<'_>,
) {
    check_further(file, topology, problems);
    check_parts(file, topology, problems);
    let subnets = Subnets::new(topology, setups);
    let of_nodes = file.nodes.iter().flat_map(|nodes| &nodes.value.0).filter_map(|(name, text)| match &text.value {
        NodeText::Long(long) => Some((name, &long.setup)),
        NodeText::Short(_) => None,
    });
    let of_hosts = file.hosts.iter().flat_map(|hosts| &hosts.value.0).map(|(name, text)| (name, &text.value.setup));
    for (name, setup) in of_nodes.chain(of_hosts) {
        let Some(routes) = &setup.routes else { continue };
        let Some(host) = topology.node(&name.value.0).filter(|_| setups.contains_key(&name.value.0)) else { continue };
        let interfaces: Vec<NodeId> = topology.interfaces_of(host).collect();
        let mut known = BTreeSet::new();
        for route in &routes.value {
            check_route(&subnets, &interfaces, (&route.value.0, route.place), problems);
            let HostRoute { destination, metric, .. } = &route.value.0;
            if !known.insert((destination.address, destination.prefix, metric.unwrap_or(0))) {
                let message = format!("there is a route to {destination} already");
                problems.add(route.place, message, "a second time", "give it another `metric`, or remove one");
            }
        }
    }
}

/// Notes a route that the host's kernel would refuse.
fn check_route(
    subnets: &Subnets<'_>,
    interfaces: &[NodeId],
    (route, place): (&HostRoute, Place),
    problems: &mut Problems<'_>,
) {
    let devices: Vec<String> = (0..interfaces.len()).map(|number| format!("eth{number}")).collect();
    let mut by = interfaces;
    if let Some(device) = &route.device {
        let Some(number) = devices.iter().position(|known| known == device) else {
            let message = format!("this host has no device `{}`", shown(device));
            let hint = format!("it has {}", one_of(devices.iter().map(String::as_str)));
            return problems.add(place, message, "no such device", hint);
        };
        by = &interfaces[number..=number];
    }
    let Some(via) = route.via else { return };
    let is_local = matches!(via, IpAddr::V6(via) if via.is_unicast_link_local());
    let own: Vec<InterfaceAddress> = by.iter().flat_map(|interface| subnets.of(*interface)).collect();
    let (message, label, hint) = if own.iter().any(|own| own.address == via) {
        (format!("{via} is an address of this host itself"), "not a next hop", "name that of a router".to_owned())
    } else if is_local && route.device.is_none() {
        (format!("{via} is one of each link's own"), "by which device?", format!("add the device: `{route} dev eth0`"))
    } else if !is_local && !own.iter().any(|own| own.has(via)) {
        let of_version = own.iter().filter(|own| own.address.is_ipv4() == via.is_ipv4());
        let own: Vec<String> = of_version.map(|own| in_words(*own)).collect();
        let message = format!("{via} is in no subnet of this host, so no packet gets there");
        (message, "not a neighbour", format!("its subnets are {}", own.join(", ")))
    } else {
        return;
    };
    problems.add(place, message, label, hint);
}

/// Notes further addresses that are no host's, or that somebody has already.
fn check_further(file: &File, topology: &Topology, problems: &mut Problems<'_>) {
    let mut texts: Vec<(String, &At<Vec<At<Subnet>>>)> = Vec::new();
    for (name, text) in file.nodes.iter().flat_map(|nodes| &nodes.value.0) {
        let NodeText::Long(long) = &text.value else { continue };
        texts.extend(long.setup.addresses.iter().map(|addresses| (name.value.0.clone(), addresses)));
        for (_, interface) in long.interfaces.iter().flat_map(|interfaces| &interfaces.value.0) {
            texts.extend(interface.value.addresses.iter().map(|addresses| (name.value.0.clone(), addresses)));
        }
    }
    for (name, text) in file.hosts.iter().flat_map(|hosts| &hosts.value.0) {
        texts.extend(text.value.setup.addresses.iter().map(|addresses| (name.value.0.clone(), addresses)));
    }
    if texts.is_empty() {
        return;
    }
    let mut owners: BTreeMap<IpAddr, &str> = BTreeMap::new();
    for (host, node) in topology.addressed_hosts() {
        let Some(HostAddress { ipv4, ipv6, .. }) = topology.address(host) else { continue };
        owners.extend([(IpAddr::from(*ipv4), &*node.name), (IpAddr::from(*ipv6), &*node.name)]);
    }
    for (name, addresses) in &texts {
        for address in &addresses.value {
            let Subnet(own) = address.value;
            if let Some(why) = unusable(own) {
                problems.add(address.place, format!("{own} is not a host's address: {why}"), "not a host's", USE_OTHER);
            } else if let Some(other) = owners.insert(own.address, name) {
                let message = format!("`{name}` and `{other}` have the same address {}", own.address);
                let hint =
                    "each host needs its own; one that moves, as with VRRP, is given by the program that moves it";
                problems.add(address.place, message, "there already", hint);
            }
        }
    }
}

/// The part of the network that each node is in: parts are joined by routers only.
fn parts(topology: &Topology) -> TiVec<NodeId, Option<usize>> {
    let mut parts: TiVec<NodeId, Option<usize>> = vec![None; topology.nodes.len()].into();
    for (host, _) in topology.addressed_hosts() {
        if parts[host].is_none() {
            let reached = topology.reached(host, |_| true);
            let part = Some(usize::from(host));
            parts.iter_mut().zip(reached).filter(|(_, reached)| *reached).for_each(|(known, _)| *known = part);
        }
    }
    parts
}

/// Notes subnets that reach over parts of the network which only routers join: their hosts take each other for neighbours, and nothing gets there.
fn check_parts(file: &File, topology: &Topology, problems: &mut Problems<'_>) {
    if topology.interfaces.is_empty() {
        return;
    }
    let parts = parts(topology);
    // Subnets lie in each other, or have nothing in common: those that the next one lies in are on the stack.
    let mut blocks: Vec<(u32, u8, NodeId)> = Vec::new();
    for (host, _) in topology.addressed_hosts() {
        let Some(HostAddress { ipv4, ipv4_prefix, .. }) = topology.address(host) else { continue };
        let own = InterfaceAddress { address: (*ipv4).into(), prefix: *ipv4_prefix };
        let IpAddr::V4(first) = first_of(own) else { continue };
        blocks.push((first.to_bits(), *ipv4_prefix, host));
    }
    blocks.sort_unstable();
    let mut around: Vec<(u32, u8, NodeId)> = Vec::new();
    for (first, prefix, host) in blocks {
        let address = IpAddr::from(Ipv4Addr::from_bits(first));
        let is_in = |(outer, bits, _): &(u32, u8, NodeId)| {
            InterfaceAddress { address: Ipv4Addr::from_bits(*outer).into(), prefix: *bits }.has(address)
        };
        around.retain(is_in);
        if let Some((outer, bits, other)) = around.iter().find(|(.., other)| parts[*other] != parts[host]) {
            let owner = &topology.nodes[topology.owner(host)].name;
            let nodes = file.nodes.iter().flat_map(|nodes| &nodes.value.0);
            let Some((name, _)) = nodes.into_iter().find(|(name, _)| name.value.0 == *owner) else { return };
            let (one, other) = (&topology.nodes[*other].name, &topology.nodes[host].name);
            let subnet = format!("{}/{bits}", Ipv4Addr::from_bits(*outer));
            return problems.add(
                name.place,
                format!("`{one}` and `{other}` are both in {subnet}, and only routers are between them"),
                "in a part of its own",
                "give the hosts of each part a subnet of their own, as `ipv4: 10.0.1.1/24` and `ipv4: 10.0.2.1/24`",
            );
        }
        if around.last().is_none_or(|last| (last.0, last.1) != (first, prefix)) {
            around.push((first, prefix, host));
        }
    }
}
