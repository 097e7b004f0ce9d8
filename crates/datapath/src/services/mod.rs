//! Services: several servers behind one address. Who gets a connection is decided once, by its first packet; the others follow it.
//!
//! ```text
//!   client --depart--> for a virtual address --> connection known? its server : balance::Service::open --> written: server's address --> chains, routes
//!   server --depart--> chains --> of a connection? written: the virtual address --> routes
//! ```
//!
//! There is no box between clients and servers: the switch at which a packet comes in decides, so a service costs no detour and no other look-up than
//! that of its connection. A virtual address has a MAC address that no host has; that is all which packets for others are asked.

mod adoption;
mod answers;
mod balancers;
mod behind;
mod counters;
mod fragments;
mod full_nat;
mod name_servers;
mod offload;
mod opened;
mod opening;
mod proxied;
mod serve;
mod state;
mod syn_cookies;
mod sync;
#[cfg(test)]
mod tests;
mod tunnel;
mod validity;
mod view;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use balance::health::HealthSpec;
use balance::{CountryRules, ServiceSpec};
use machine::Span;
use topology::{NodeId, Topology};
use vswitch::AddressAlias;
use vswitch::conntrack::NatRange;

pub(crate) use balancers::Balancers;
pub use balancers::{BALANCERS_MAX, BalancerRole, BalancerView, VrrpSettings};
pub use behind::{AddressRange, BehindRouters};
pub use counters::{ServerCounters, ServiceCounters};
pub use name_servers::ServedName;
pub use state::ServiceState;
pub use sync::{SyncAnswer, SyncCookie, SyncEntry, SyncError, SyncHeader, SyncMessage, SyncQuestion, parse_sync};
pub use view::ServiceView;

use crate::offload::KernelUse;

/// Virtual addresses' MAC address, locally administered. All have the same, so that what hosts know of it holds whatever services come and go.
pub(crate) const MAC: [u8; 6] = [0x06, b'h', b'v', b'a', 0, 1];

/// The most services of a network.
pub const SERVICES_MAX: usize = 1 << 10;

/// A service.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Unique in the network.
    pub name: String,
    /// Where clients find it. At least one.
    pub addresses: Vec<VirtualAddress>,
    /// How packets come to servers.
    pub forwarding: ForwardingMethod,
    /// The balancer's own addresses and ports, from which servers see connections come with full NAT: one range of each family at most. Where there is none, it is the
    /// virtual address itself.
    pub sources: Vec<NatRange>,
    /// Hosts where it is balanced; none: it is balanced where packets come in.
    pub at: Vec<NodeId>,
    /// One of those is active, by VRRP; `None`: all are.
    pub vrrp: Option<VrrpSettings>,
    /// While so many connections are being opened, first segments are answered with SYN cookies.
    pub half_open_max: u32,
    /// Whether the kernel carries its connections, where the network runs live.
    pub kernel: KernelUse,
    /// The servers, as many as `spec` has and in the same order.
    pub servers: Vec<Server>,
    /// Who gets the next connection.
    pub spec: ServiceSpec,
    /// How servers are probed; `None`: only what becomes of connections says how they do.
    pub health: Option<HealthSpec>,
    /// Where their agents are asked.
    pub agent: Option<AgentSpec>,
    /// Which countries' clients may come. Whoever reads the list adds it to `spec`.
    pub countries: Option<CountriesSpec>,
}

/// Which countries' clients may come to a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountriesSpec {
    /// A list of countries by addresses.
    pub file: String,
    /// What holds for them.
    pub rules: CountryRules,
}

/// Where the agents of a service's servers are asked how much those have to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentSpec {
    /// The port of each server at which its agent answers.
    pub port: u16,
    /// From question to question.
    pub interval: Span,
}

/// An address and port of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VirtualAddress {
    /// The family of the address.
    pub is_ipv6: bool,
    /// An IPv4 address stands in the low 32 bits.
    pub address: u128,
    /// TCP or UDP, as IP numbers them.
    pub protocol: u8,
    /// The port.
    pub port: u16,
}

/// The address with these bits.
fn ip(is_ipv6: bool, bits: u128) -> IpAddr {
    if is_ipv6 { Ipv6Addr::from_bits(bits).into() } else { Ipv4Addr::from_bits(bits as u32).into() }
}

/// A server of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// The host.
    pub host: NodeId,
    /// Its port; `None`: that of the service.
    pub port: Option<u16>,
}

/// How packets come to servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardingMethod {
    /// The virtual address and port become the server's, and the other way round on the way back.
    #[default]
    Nat,
    /// The same, and clients' addresses and ports become the balancer's own: servers answer to that, whatever routes they have.
    FullNat,
    /// Packets stay as they are but for the MAC address: each server has the virtual address as well, and answers from it.
    DirectRouting,
    /// The same, but packets get another IP header before their own, with the server's address (IP in IP).
    Tunnel,
}

impl VirtualAddress {
    /// The address alone.
    pub fn ip(&self) -> IpAddr {
        ip(self.is_ipv6, self.address)
    }

    /// What it carries.
    pub const fn protocol_name(&self) -> &'static str {
        if self.protocol == wire::protocol::UDP { "udp" } else { "tcp" }
    }
}

impl ForwardingMethod {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Nat, Self::FullNat, Self::DirectRouting, Self::Tunnel];

    /// Its name in files and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nat => "nat",
            Self::FullNat => "full-nat",
            Self::DirectRouting => "dr",
            Self::Tunnel => "tunnel",
        }
    }

    /// Whether servers get packets with the virtual address and port, and answer from there.
    pub const fn keeps_address(self) -> bool {
        matches!(self, Self::DirectRouting | Self::Tunnel)
    }
}

impl Service {
    /// Addresses of services, which no host has: packets for them are sent to the first server of each, if nobody balances them.
    pub fn aliases(services: &[Self]) -> impl Iterator<Item = AddressAlias> + '_ {
        services.iter().flat_map(|service| {
            let host = service.servers.first().map(|server| server.host);
            let own = service.addresses.iter().map(|it| (it.is_ipv6, (it.address, it.address)));
            let sources = service.sources.iter().map(|it| (it.is_ipv6, it.addresses));
            own.chain(sources).filter_map(move |(is_ipv6, addresses)| {
                Some(AddressAlias { is_ipv6, addresses, host: host?, mac: Some(MAC) })
            })
        })
    }

    /// The least MTU of links with which it works, bytes: with a tunnel of IPv6, its header and the shortest packet that has to fit.
    pub fn mtu_min(&self) -> u32 {
        let is_ipv6 = self.addresses.iter().any(|address| address.is_ipv6);
        if is_ipv6 && self.forwarding == ForwardingMethod::Tunnel { 1_280 + 40 } else { 1_280 }
    }

    /// Whether its packets can come to its servers so: balancers at hosts need full NAT, and where packets stay as they are no server has a port of its own.
    pub fn may_have(&self, forwarding: ForwardingMethod) -> bool {
        let is_translated = self.at.is_empty() || forwarding == ForwardingMethod::FullNat;
        is_translated && !(forwarding.keeps_address() && self.servers.iter().any(|server| server.port.is_some()))
    }

    /// Whether a packet with this destination is for some service.
    #[inline]
    pub(crate) fn is_for_one(mac: [u8; 6]) -> bool {
        mac == MAC
    }
}

/// A host where services are balanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BalancerHost {
    host: NodeId,
    mac: [u8; 6],
    ipv4: Ipv4Addr,
}

/// [`Service::half_open_max`] when nothing is said: that of Linux's `tcp_max_syn_backlog`.
pub const HALF_OPEN_MAX: u32 = 4_096;

/// The services of a network in the form in which packets look them up. Does not change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Services {
    all: Vec<Service>,
    /// Virtual addresses, ascending, each with the number of its service.
    addresses: Vec<(VirtualAddress, usize)>,
    /// By service and server: the addresses of the host, IPv4 first.
    server_addresses: Vec<Vec<[u128; 2]>>,
    /// The nodes that are interfaces of one host, of each that has several: a server may answer by another one than that by which it was asked.
    interfaces: Vec<Vec<NodeId>>,
    /// Hosts where services are balanced, ascending.
    balancers: Vec<BalancerHost>,
    /// Where tunnels may end.
    tunnel_ends: tunnel::TunnelEnds,
    /// The longest IP packet that a link carries.
    mtu: u32,
    /// Clients that routers may be between.
    behind: BehindRouters,
    /// Names that lead to them.
    names: Vec<ServedName>,
    /// Addresses of name servers, and whether each is of IPv6, ascending.
    name_servers: Vec<(bool, u128)>,
    /// Addresses that are for all hosts of a subnet, ascending.
    broadcasts: Vec<Ipv4Addr>,
}

impl Services {
    /// The services of a network, whose links carry IP packets of `mtu` bytes.
    ///
    /// # Panics
    /// If a server is no host, or there are more services than [`SERVICES_MAX`].
    pub fn new(topology: &Topology, services: &[Service], mtu: u32) -> Self {
        if services.is_empty() {
            return Self::default();
        }
        assert!(services.len() <= SERVICES_MAX, "too many services");
        let mut addresses = Vec::new();
        for (number, service) in services.iter().enumerate() {
            addresses.extend(service.addresses.iter().map(|address| (*address, number)));
        }
        addresses.sort_unstable();
        let of_host = |server: &Server| {
            let address = topology.address(server.host).expect("servers are hosts");
            [address.ipv4.to_bits().into(), address.ipv6.to_bits()]
        };
        let server_addresses = services.iter().map(|service| service.servers.iter().map(of_host).collect()).collect();
        let mut hosts: Vec<NodeId> = services.iter().flat_map(|service| service.at.iter().copied()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let balancer = |host: NodeId| {
            let address = topology.address(host).expect("balancers are at hosts");
            BalancerHost { host, mac: address.mac, ipv4: address.ipv4 }
        };
        let balancers = hosts.into_iter().map(balancer).collect();
        let tunnel_ends = tunnel::ends(topology, services);
        let mut by_owner: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
        for (owner, interface) in topology.interfaces.iter().zip(topology.end_host_count()..) {
            by_owner.entry(*owner).or_insert_with(|| vec![*owner]).push(NodeId(interface));
        }
        let interfaces = by_owner.into_values().collect();
        Self {
            all: services.to_vec(),
            addresses,
            server_addresses,
            interfaces,
            balancers,
            tunnel_ends,
            mtu,
            broadcasts: validity::broadcasts(topology),
            ..Self::default()
        }
    }

    /// The same with names that lead to them.
    #[must_use]
    pub fn with_names(mut self, names: &[ServedName]) -> Self {
        let asked_at = names.iter().flat_map(|name| &name.spec.asked_at);
        self.name_servers =
            asked_at.map(|address| (address.is_ipv6(), balance::config::address_bits(*address))).collect();
        self.name_servers.sort_unstable();
        self.name_servers.dedup();
        self.names = names.to_vec();
        self
    }

    /// Names that lead to services, in the order of the file.
    pub fn names(&self) -> &[ServedName] {
        &self.names
    }

    /// Whether some address is a name server's.
    #[inline]
    const fn has_name_servers(&self) -> bool {
        !self.name_servers.is_empty()
    }

    /// Whether this one is.
    fn is_name_server(&self, is_ipv6: bool, address: u128) -> bool {
        self.name_servers.binary_search(&(is_ipv6, address)).is_ok()
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether some are balanced at hosts.
    #[inline]
    pub(crate) const fn has_balancers(&self) -> bool {
        !self.balancers.is_empty()
    }

    /// All of them, in the order of the file.
    pub fn all(&self) -> &[Service] {
        &self.all
    }

    /// The service with a virtual address.
    fn at(&self, wanted: &VirtualAddress) -> Option<usize> {
        let found = self.addresses.binary_search_by_key(wanted, |(address, _)| *address).ok()?;
        Some(self.addresses[found].1)
    }

    /// A service that has an address, be it with this port or another one.
    fn with_address(&self, is_ipv6: bool, address: u128) -> Option<usize> {
        let low = VirtualAddress { is_ipv6, address, protocol: 0, port: 0 };
        let from = self.addresses.partition_point(|(at, _)| *at < low);
        let (at, number) = self.addresses.get(from)?;
        ((at.is_ipv6, at.address) == (is_ipv6, address)).then_some(*number)
    }
}
