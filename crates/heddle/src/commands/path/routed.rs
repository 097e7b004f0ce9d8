//! Packets for other subnets: which routers they pass, by what hosts' kernels say of their routes, and what becomes of them from one to the next.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Stdio;

use fabric::NextHop;
use live::Instance;
use miette::Report;
use serde_json::Value;
use topology::{NodeId, Topology};
use vswitch::{FlowKey, HostTable};
use wire::ethertype;

use super::course::{Course, Target, follow, name};
use super::network::Network;
use super::packet::HOP_LIMIT;

/// A part of a packet's way that no router interrupts.
pub struct Stage<'a> {
    /// Who has passed it on before.
    pub router: Option<Router>,
    /// From where it goes, and the host that it is to come to; `None`: a service.
    pub ends: (NodeId, Target),
    pub course: Course<'a>,
}

/// A host whose kernel passes a packet on.
pub struct Router {
    /// Its interfaces, by which it comes and by which it leaves.
    pub interfaces: (NodeId, NodeId),
    /// The hop limit that it has then.
    pub hop_limit: u8,
    /// Its destination then.
    pub mac: [u8; 6],
    /// Whose that is.
    pub whose: String,
}

/// A packet's way, from router to router.
pub struct RoutedPath<'a> {
    pub stages: Vec<Stage<'a>>,
    /// The host whose kernel does not pass it on, and why.
    pub lost: Option<(NodeId, String)>,
}

impl<'a> RoutedPath<'a> {
    /// One that no router has anything to do with.
    pub fn of(ends: (NodeId, Target), course: Course<'a>) -> Self {
        Self { stages: vec![Stage { router: None, ends, course }], lost: None }
    }

    /// Whether all of what is sent arrives.
    pub fn arrives(&self) -> bool {
        self.lost.is_none() && self.stages.iter().all(|stage| stage.course.arrives())
    }

    /// Its last part.
    pub fn last(&self) -> Option<&Course<'a>> {
        self.stages.last().map(|stage| &stage.course)
    }
}

/// Where a packet goes from a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The interface by which it leaves.
    pub from: NodeId,
    /// The host that gets it; `None`: a service.
    pub to: Target,
    /// Its destination address then.
    pub mac: [u8; 6],
}

/// What hosts' kernels do with packets for other subnets.
pub struct Routing<'a> {
    network: &'a Network,
    /// The network, if it runs: its kernels can be asked.
    instance: Option<&'a Instance>,
    table: HostTable,
    /// Whether somebody's routes were taken from the file.
    is_by_file: Cell<bool>,
}

impl<'a> Routing<'a> {
    pub fn new(network: &'a Network, instance: Option<&'a Instance>) -> Self {
        let fabric = &network.fabric;
        let table = HostTable::new(&fabric.topology, &fabric.host_bonds()).with_aliases(fabric.aliases());
        Self { network, instance, table, is_by_file: Cell::new(false) }
    }

    /// The network that packets are followed in.
    pub const fn network(&self) -> &'a Network {
        self.network
    }

    /// Whether some router's or host's routes were taken from the file, so that what daemons have added to them is not known.
    pub fn is_by_file(&self) -> bool {
        self.is_by_file.get()
    }

    /// The host that has an address, be it its first or a further one, and the MAC address by which it is found; of an address that a service or a function has, the latter alone.
    pub fn resolve(&self, address: IpAddr) -> Option<(Target, [u8; 6])> {
        if let Some(host) = self.network.fabric.subnets().owner_of(address) {
            return Some((Some(host), self.table.mac(host)));
        }
        let stand_in = match address {
            IpAddr::V4(address) => self.table.by_ipv4(address),
            IpAddr::V6(address) => self.table.by_ipv6(address),
        };
        let mac = self.table.mac_of_alias(address).or_else(|| stand_in.map(|host| self.table.mac(host)))?;
        Some((None, mac))
    }

    /// Where a host sends what is for an address. `came`: by which interface it came, and from which address, if it is not the host's own.
    ///
    /// # Errors
    /// Why it sends it nowhere, in words.
    pub fn next(&self, host: NodeId, to: IpAddr, came: Option<(NodeId, IpAddr)>) -> Result<Hop, String> {
        let fabric = &self.network.fabric;
        let topology = &fabric.topology;
        let owner = topology.owner(host);
        if let Some(why) = came.and_then(|(by, _)| self.passes_nothing_on(owner, by, to)) {
            return Err(why);
        }
        let subnets = fabric.subnets();
        let by_file = subnets.next_hop(owner, to);
        let forwards = fabric.setups.get(&topology.nodes[owner].name).is_some_and(|setup| setup.forwards);
        let is_neighbour = by_file.is_some_and(|hop| hop.address == to);
        let hop = if is_neighbour && (came.is_none() || forwards) {
            by_file
        } else if let Some(said) = self.kernel(owner, to, came) {
            Some(said?)
        } else {
            self.is_by_file.set(true);
            if came.is_some() && !forwards {
                return Err("its kernel passes nothing on, as the file has no `forward: true` there".to_owned());
            }
            by_file
        };
        let Some(NextHop { interface, address }) = hop else {
            return Err(format!("it has no route to {to}"));
        };
        match self.resolve(address) {
            Some((to, mac)) => Ok(Hop { from: interface, to, mac }),
            None if address == to => Err(format!("nobody has the address {to}")),
            None => Err(format!("nobody has the address {address} of its next hop to {to}")),
        }
    }

    /// What a host's kernel says of it. `None`: nobody can ask it.
    fn kernel(&self, owner: NodeId, to: IpAddr, came: Option<(NodeId, IpAddr)>) -> Option<Result<NextHop, String>> {
        let topology = &self.network.fabric.topology;
        let host = &topology.nodes[owner].name;
        let mut args: Vec<String> = ["-json", "route", "get", &to.to_string()].map(str::to_owned).into();
        if let Some((interface, source)) = came {
            let number = topology.interfaces_of(owner).position(|own| own == interface)?;
            args.extend(["from".to_owned(), source.to_string(), "iif".to_owned(), format!("eth{number}")]);
        }
        let mut command = self.instance?.command(host, "ip", &args).ok()?;
        let output = command.stdin(Stdio::null()).output().ok()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let why = said.lines().find_map(|line| line.strip_prefix("RTNETLINK answers: "))?;
            return Some(Err(format!("its kernel has no route to {to} for it: {}", why.to_lowercase())));
        }
        let answer: Value = serde_json::from_slice(&output.stdout).ok()?;
        self.read_answer(owner, to, answer.get(0)?)
    }

    /// Why a host's kernel passes nothing on of what comes by this device. `ip route get` does not look at it, or calls it something else.
    fn passes_nothing_on(&self, owner: NodeId, by: NodeId, to: IpAddr) -> Option<String> {
        let topology = &self.network.fabric.topology;
        let device = topology.interfaces_of(owner).position(|own| own == by)?;
        let key = match to {
            IpAddr::V4(_) => format!("net/ipv4/conf/eth{device}/forwarding"),
            // That of a device does not count where this one is off.
            IpAddr::V6(_) => "net/ipv6/conf/all/forwarding".to_owned(),
        };
        let host = &topology.nodes[owner].name;
        let mut command = self.instance?.command(host, "cat", [format!("/proc/sys/{key}")]).ok()?;
        let output = command.stdin(Stdio::null()).output().ok()?;
        let is_off = output.stdout.trim_ascii() == b"0";
        is_off.then(|| format!("its kernel passes nothing on: {} is 0 there (`forward: true`)", key.replace('/', ".")))
    }

    /// Reads what `ip -json route get` says.
    fn read_answer(&self, owner: NodeId, to: IpAddr, route: &Value) -> Option<Result<NextHop, String>> {
        let device = route.get("dev")?.as_str()?;
        let Some(interface) = self.network.fabric.subnets().device(owner, device) else {
            return Some(Err(format!("it leaves the network there, by the device {device}")));
        };
        let gateway = route.get("gateway").or_else(|| route.get("via")?.get("host"));
        let address = match gateway {
            Some(gateway) => gateway.as_str()?.parse().ok()?,
            None => to,
        };
        Some(Ok(NextHop { interface, address }))
    }

    /// Follows a packet that a host sends, from router to router.
    pub fn follow(&self, hop: Hop, key: &FlowKey, is_known: bool) -> Result<RoutedPath<'a>, Report> {
        let ends = (hop.from, hop.to);
        let course = follow(self.network, ends, (key, HOP_LIMIT), is_known)?;
        self.go_on(RoutedPath::of(ends, course), HOP_LIMIT, is_known)
    }

    /// Follows a packet on from the host that has got it, if that is a router and it is for somebody else.
    pub fn go_on(&self, mut way: RoutedPath<'a>, mut hop_limit: u8, is_known: bool) -> Result<RoutedPath<'a>, Report> {
        while let Some((came, to, source)) = self.passed_on(&way) {
            if hop_limit <= 1 {
                way.lost = Some((came, "its hop limit is used up: routers send it in a circle".to_owned()));
                break;
            }
            hop_limit -= 1;
            let hop = match self.next(came, to, Some((came, source))) {
                Ok(hop) => hop,
                Err(why) => {
                    way.lost = Some((came, why));
                    break;
                }
            };
            let before = way.last().map_or_else(FlowKey::default, |course| course.ended);
            let mac = self.table.mac(hop.from);
            let key = FlowKey { eth_src: mac, eth_dst: hop.mac, vlan: None, ..before };
            let ends = (hop.from, hop.to);
            let course = follow(self.network, ends, (&key, hop_limit), is_known)?;
            let whose = self.whose(hop.to, to);
            let router = Router { interfaces: (came, hop.from), hop_limit, mac: hop.mac, whose };
            way.stages.push(Stage { router: Some(router), ends, course });
        }
        Ok(way)
    }

    /// The host that gets what is for an address, or the service that has it.
    fn whose(&self, host: Target, address: IpAddr) -> String {
        let fabric = &self.network.fabric;
        if let Some(host) = host {
            return name(&fabric.topology, host).to_owned();
        }
        let has_it = |service: &&datapath::Service| service.addresses.iter().any(|own| own.ip() == address);
        let service = fabric.services.iter().find(has_it);
        service.map_or_else(|| address.to_string(), |service| format!("service {}", service.name))
    }

    /// The router that has got a packet for somebody else, for whom that is, and from whom.
    fn passed_on(&self, way: &RoutedPath<'_>) -> Option<(NodeId, IpAddr, IpAddr)> {
        let course = way.last()?;
        let at = course.delivered?;
        let fabric = &self.network.fabric;
        let topology = &fabric.topology;
        let owner = topology.owner(at);
        let is_router = topology.interfaces_of(owner).nth(1).is_some()
            || fabric.setups.get(&topology.nodes[owner].name).is_some_and(|setup| setup.forwards);
        let (source, to) = addresses(&course.ended)?;
        let is_own = fabric.subnets().owner_of(to).is_some_and(|host| topology.owner(host) == owner);
        // With direct routing a server has the service's address.
        let has_it = |service: &datapath::Service| service.addresses.iter().any(|own| own.ip() == to);
        let serves = |service: &datapath::Service| service.servers.iter().any(|server| server.host == at);
        let is_served = fabric.services.iter().any(|service| has_it(service) && serves(service));
        (is_router && !is_own && !is_served).then_some((at, to, source))
    }

    /// The hops of a packet from a host to an address, as far as it gets.
    pub fn hops(&self, from: NodeId, to: IpAddr) -> Vec<Hop> {
        let topology = &self.network.fabric.topology;
        let mut hops: Vec<Hop> = Vec::new();
        let (mut at, mut came) = (from, None);
        let source = self.source(from, to);
        while let Ok(hop) = self.next(at, to, came)
            && hops.len() < usize::from(HOP_LIMIT)
        {
            hops.push(hop);
            let Some(next) = hop.to else { break };
            let is_there = self.resolve(to).and_then(|(host, _)| host);
            if is_there.is_some_and(|host| topology.owner(host) == topology.owner(next)) {
                break;
            }
            let Some(source) = source else { break };
            (at, came) = (next, Some((next, source)));
        }
        hops
    }

    /// The address from which a host sends what is for another one, as its file has it.
    pub fn source(&self, from: NodeId, to: IpAddr) -> Option<IpAddr> {
        let subnets = self.network.fabric.subnets();
        let hop = subnets.next_hop(from, to);
        hop.and_then(|hop| subnets.source(&hop)).or_else(|| first_address(&self.network.fabric.topology, from, to))
    }
}

/// The first address of a host that is of the same version as another one.
fn first_address(topology: &Topology, host: NodeId, to: IpAddr) -> Option<IpAddr> {
    let own = topology.address(host)?;
    Some(if to.is_ipv4() { own.ipv4.into() } else { own.ipv6.into() })
}

/// Who has sent a packet, and for whom it is.
fn addresses(key: &FlowKey) -> Option<(IpAddr, IpAddr)> {
    let address = |bits: u128| match key.ethertype {
        ethertype::IPV4 => Some(IpAddr::from(Ipv4Addr::from_bits(bits as u32))),
        ethertype::IPV6 => Some(IpAddr::V6(bits.into())),
        _ => None,
    };
    Some((address(key.src)?, address(key.dst)?))
}

impl Router {
    /// What it writes into a packet, in a few words.
    pub fn words(&self) -> String {
        format!("TTL {}, to {} ({})", self.hop_limit, mac_words(self.mac), self.whose)
    }
}

/// A MAC address as it is written.
pub fn mac_words(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
