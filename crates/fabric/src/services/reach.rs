//! Whether packets of a service find their way: from hosts that take its address for a neighbour's, over switches to its servers, and back.
//!
//! What leaves a host for a service is given to a server where it comes in. No router is asked then: it goes over switches, so the server is in the same part of the
//! network. What the server answers goes by its own routes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use datapath::{ForwardingMethod, Server, VirtualAddress};
use topology::{NodeId, TiVec, Topology};
use vswitch::conntrack::NatRange;

use super::text::{ServerText, ServiceText};
use crate::InterfaceAddress;
use crate::error::Problems;
use crate::host_addresses::unusable;
use crate::host_routes::first_of;
use crate::source::Place;
use crate::subnets::{Subnets, in_words};

/// Subnets that a hint lists.
const SHOWN: usize = 4;

/// Who takes whom for a neighbour.
pub(super) struct Reach<'a> {
    topology: &'a Topology,
    subnets: Subnets<'a>,
    /// The subnets that hosts take for theirs, each once in each part of the network that only routers join to others, with a host there.
    neighbours: Vec<(InterfaceAddress, NodeId)>,
    /// The nodes that hosts of `neighbours` reach over switches, as far as somebody has asked.
    reached: BTreeMap<NodeId, TiVec<NodeId, bool>>,
}

/// What of a service has been read.
pub(super) struct ReadService<'a> {
    pub text: &'a ServiceText,
    pub forwarding: ForwardingMethod,
    pub addresses: &'a [VirtualAddress],
    pub sources: &'a [NatRange],
    pub servers: &'a [Server],
    pub at: &'a [NodeId],
}

impl<'a> Reach<'a> {
    pub fn new(topology: &'a Topology, subnets: Subnets<'a>) -> Self {
        let mut parts: TiVec<NodeId, u32> = vec![0; topology.nodes.len()].into();
        let mut known: BTreeMap<(IpAddr, u8, u32), NodeId> = BTreeMap::new();
        let has_routers = !topology.interfaces.is_empty();
        for (number, (host, _)) in (1..).zip(topology.addressed_hosts()) {
            if has_routers && parts[host] == 0 {
                let reached = topology.reached(host, |_| true);
                parts.iter_mut().zip(reached).filter(|(_, reached)| *reached).for_each(|(part, _)| *part = number);
            }
            for subnet in subnets.neighbours(host) {
                known.entry((first_of(subnet), subnet.prefix, parts[host])).or_insert(host);
            }
        }
        let neighbours =
            known.into_iter().map(|((address, prefix, _), host)| (InterfaceAddress { address, prefix }, host));
        Self { topology, subnets, neighbours: neighbours.collect(), reached: BTreeMap::new() }
    }

    /// The subnets that an address is in, each with a host that asks its neighbours for it.
    fn finders(&self, address: IpAddr) -> impl Iterator<Item = (InterfaceAddress, NodeId)> + '_ {
        self.neighbours.iter().copied().filter(move |(subnet, _)| subnet.has(address))
    }

    /// Notes an address of a service that no host would ask its neighbours for, or that is none of a host.
    pub fn check_address(&self, address: IpAddr, place: Place, problems: &mut Problems<'_>) -> bool {
        let mut finders = self.finders(address).peekable();
        let is_found = finders.peek().is_some();
        let is_of_all = |subnet: InterfaceAddress| unusable(InterfaceAddress { address, ..subnet }).is_some();
        if is_found && !finders.any(|(subnet, _)| is_of_all(subnet)) {
            return true;
        }
        let mut all: Vec<String> = self.neighbours.iter().map(|(subnet, _)| in_words(*subnet)).collect();
        all.dedup();
        let others = if all.len() > SHOWN { ", .." } else { "" };
        let all = all.into_iter().take(SHOWN).collect::<Vec<_>>().join(" or ");
        let message = format!("no host could reach {address}: it is not of the hosts' network");
        problems.add(
            place,
            message,
            "of another network",
            format!("take an address of {all}{others} that no host has"),
        );
        false
    }

    /// Whether packets get from one host to another over switches.
    fn is_reached(&mut self, from: NodeId, to: NodeId) -> bool {
        if self.topology.interfaces.is_empty() {
            return true;
        }
        let topology = self.topology;
        self.reached.entry(from).or_insert_with(|| topology.reached(from, |_| true))[to]
    }

    /// Notes servers and balancers to which packets of a service do not get, and servers whose answers get nowhere.
    pub fn check(&mut self, read: &ReadService<'_>, problems: &mut Problems<'_>) {
        let finders: Vec<(IpAddr, InterfaceAddress, NodeId)> = read
            .addresses
            .iter()
            .flat_map(|at| self.finders(at.ip()).map(|(subnet, host)| (at.ip(), subnet, host)).collect::<Vec<_>>())
            .collect();
        let mut names = read.text.at.iter().flat_map(|at| &at.value.0);
        for host in read.at {
            // Those that are hosts, in the order of the file.
            let own = &self.topology.nodes[*host].name;
            let Some(name) = names.find(|name| name.value.0 == *own) else { continue };
            if let Some((address, subnet, _)) = finders.iter().find(|(.., finder)| !self.is_reached(*finder, *host)) {
                let message = format!(
                    "only routers lead from {} to `{}`, and packets for {address} go to their balancers over switches",
                    in_words(*subnet),
                    name.value.0
                );
                let hint = format!("take a host of {}", in_words(*subnet));
                problems.add(name.place, message, "behind a router", hint);
            }
        }
        // As many as could be read, in the order of the file.
        let mut texts = read.text.servers.value.iter().map(|text| ServerText::host(&text.value));
        for server in read.servers {
            let name = &self.topology.nodes[server.host].name;
            let Some(place) = texts.find(|text| text.value.0 == *name).map(|text| text.place) else { continue };
            self.check_server(read, &finders, (server.host, place), problems);
        }
    }

    fn check_server(
        &mut self,
        read: &ReadService<'_>,
        finders: &[(IpAddr, InterfaceAddress, NodeId)],
        (host, place): (NodeId, Place),
        problems: &mut Problems<'_>,
    ) {
        let name = &self.topology.nodes[host].name;
        let own = self.subnets.of(host).next().map_or_else(String::new, in_words);
        if let Some((address, subnet, finder)) = finders.iter().find(|(.., finder)| !self.is_reached(*finder, host)) {
            let subnet = in_words(*subnet);
            let message = format!(
                "only routers lead from {subnet} to `{name}`, and packets for {address} go to their servers over switches"
            );
            let owner = self.topology.owner(host);
            let interfaces: Vec<NodeId> = self.topology.interfaces_of(owner).collect();
            let near = interfaces.into_iter().find(|interface| self.is_reached(*finder, *interface));
            let hint = match near {
                Some(near) => format!("name its interface there: `{}`", self.topology.nodes[near].name),
                None => format!(
                    "give the service an address of {own}, which hosts elsewhere find by their routers, or take servers of {subnet}"
                ),
            };
            return problems.add(place, message, "behind a router", hint);
        }
        if read.forwarding == ForwardingMethod::FullNat {
            return self.check_way_to_balancer(read, (host, place), problems);
        }
        let has_no_way = |(_, subnet, finder): &&(IpAddr, InterfaceAddress, NodeId)| {
            let mut clients = self.subnets.of(*finder).filter(|own| subnet.has(own.address));
            clients.any(|client| self.subnets.next_hop(host, client.address).is_none())
        };
        if let Some((_, subnet, _)) = finders.iter().find(has_no_way) {
            let subnet = in_words(*subnet);
            let message =
                format!("`{name}` has no route to {subnet}, whose hosts find the service: they get no answers");
            let hint = format!(
                "give it a route (`routes: [{subnet} via ROUTER]`) or an address there (`addresses:`); or write `forward: full-nat` and a `source` of {own}"
            );
            problems.add(place, message, "no way back", hint);
        }
    }

    /// Notes a server that sends what it answers to a balancer's own addresses elsewhere: it has to take those for its neighbours.
    fn check_way_to_balancer(
        &self,
        read: &ReadService<'_>,
        (host, place): (NodeId, Place),
        problems: &mut Problems<'_>,
    ) {
        let of_balancer = |address: &VirtualAddress| {
            let own = read.sources.iter().find(|source| source.is_ipv6 == address.is_ipv6);
            own.map_or_else(|| address.ip(), |own| ip(own.is_ipv6, own.addresses.0))
        };
        let is_lost = |from: &IpAddr| self.subnets.next_hop(host, *from).is_none_or(|hop| hop.address != *from);
        let Some(source) = read.addresses.iter().map(of_balancer).find(is_lost) else { return };
        let name = &self.topology.nodes[host].name;
        let of_version = |own: &InterfaceAddress| own.address.is_ipv4() == source.is_ipv4();
        let own = self.subnets.of(host).find(of_version).map_or_else(String::new, in_words);
        let message = format!(
            "`{name}` sees the service's connections come from {source}, which is in no subnet of its own: its answers do not come back"
        );
        problems.add(place, message, "no way back", format!("give the service a `source` of {own}, which nobody has"));
    }
}

fn ip(is_ipv6: bool, bits: u128) -> IpAddr {
    if is_ipv6 { Ipv6Addr::from_bits(bits).into() } else { Ipv4Addr::from_bits(bits as u32).into() }
}
