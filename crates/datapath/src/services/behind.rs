//! Whose packets to services a router may pass on. The failures of clients count if what servers answer can get to them; a host may not make up whose packets it has, or
//! it could have servers ejected.

use std::collections::BTreeMap;
use std::net::IpAddr;

use machine::Time;
use topology::NodeId;
use vswitch::HostTable;
use vswitch::conntrack::{Segment, Tracked, Tuple, ct_state};
use wire::tcp_flags::{FIN, RST, SYN};

use super::Services;
use super::state::{EXISTING, ServiceState};

/// Addresses of one subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressRange {
    /// The family of the addresses.
    pub is_ipv6: bool,
    /// The first and the last address; an IPv4 address stands in the low 32 bits.
    pub addresses: (u128, u128),
}

/// By the interface of a router from where packets go to a service, and the number of the service: the subnets of the clients that may be behind it.
pub type BehindRouters = BTreeMap<(NodeId, usize), Vec<AddressRange>>;

/// Whose address a packet has been sent from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// That of the host that has sent it, or of one which may be behind it.
    Sender,
    /// No host's, or the sender may pass on packets of others: whose it is nobody knows.
    Nobody,
    /// That of a host from which it cannot have come.
    Another,
}

impl Services {
    /// The same services, some of whose clients may be behind routers.
    #[must_use]
    pub fn with_clients_behind(self, behind: BehindRouters) -> Self {
        Self { behind, ..self }
    }

    /// Whose address a packet for a service has that has come from a host.
    pub(super) fn source_of(&self, host_table: &HostTable, (from, number): (NodeId, usize), tuple: &Tuple) -> Source {
        let address = tuple.address(tuple.src);
        let owner = match address {
            IpAddr::V4(address) => host_table.by_ipv4(address),
            IpAddr::V6(address) => host_table.by_ipv6(address),
        };
        // An address that is a service's is no client's.
        let Some(owner) = owner.filter(|_| host_table.mac_of_alias(address).is_none()) else { return Source::Nobody };
        let is_one_host = |own: &Vec<NodeId>| own.contains(&owner) && own.contains(&from);
        if owner == from || self.interfaces.iter().any(is_one_host) {
            return Source::Sender;
        }
        let has_it = |subnet: &AddressRange| {
            subnet.is_ipv6 == tuple.is_ipv6 && (subnet.addresses.0..=subnet.addresses.1).contains(&tuple.src)
        };
        let is_behind = self.behind.get(&(from, number)).is_some_and(|subnets| subnets.iter().any(has_it));
        // Programs may route where the file says nothing of it.
        let may_route = || {
            let (first, last) = ((from, usize::MIN), (from, usize::MAX));
            self.behind.range(first..=last).next().is_some() || self.interfaces.iter().any(|own| own.contains(&from))
        };
        match is_behind {
            true => Source::Sender,
            false if may_route() => Source::Nobody,
            false => Source::Another,
        }
    }
}

impl ServiceState {
    /// What a packet that this host has sent is to the connections that there are; their states move on. Where packets come in it is known who sends, and nobody begins, ends or resets a connection but the
    /// hosts by which its ends send: what others make up goes on to its receiver, who knows the connection's numbers.
    pub(super) fn track_of(&mut self, now: Time, segment: &Segment, from: NodeId) -> Tracked {
        if self.at.is_none()
            && segment.tcp_flags & (SYN | FIN | RST) != 0
            && let Some(known) = self.revisit(now, segment, EXISTING)
            && let Some(place) = known.place
            && !self.may_be_sender(place, known.state & ct_state::REPLY != 0, from)
        {
            return known;
        }
        self.track(now, segment, EXISTING)
    }

    /// Whether packets of this direction of a connection may come from this host: they do if nobody knows better.
    fn may_be_sender(&self, place: u32, is_reply: bool, from: NodeId) -> bool {
        let Some(opened) = self.opened.get(place as usize) else { return true };
        let server = || {
            let hosts = &self.running[opened.running as usize].hosts;
            Some(hosts.get(opened.server.index()).copied().flatten()?.host)
        };
        let sender = if is_reply { server() } else { opened.client };
        // A host may send by any of its interfaces.
        let owner = |host: NodeId| self.owners.get(&host).copied().unwrap_or(host);
        sender.is_none_or(|sender| sender == from || owner(sender) == owner(from))
    }
}
