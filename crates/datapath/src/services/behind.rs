//! Whose packets to services a router may pass on. The failures of clients count if what servers answer can get to them; a host may not make up whose packets it has, or
//! it could have servers ejected.

use std::collections::BTreeMap;

use topology::NodeId;
use vswitch::HostTable;
use vswitch::conntrack::Tuple;

use super::Services;

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

impl Services {
    /// The same services, some of whose clients may be behind routers.
    #[must_use]
    pub fn with_clients_behind(self, behind: BehindRouters) -> Self {
        Self { behind, ..self }
    }

    /// Whether a packet for a service that has come from a host has the address of that host, or of one which is behind it.
    pub(super) fn is_senders(&self, host_table: &HostTable, (from, number): (NodeId, usize), tuple: &Tuple) -> bool {
        let address = tuple.address(tuple.src);
        let owner = match address {
            std::net::IpAddr::V4(address) => host_table.by_ipv4(address),
            std::net::IpAddr::V6(address) => host_table.by_ipv6(address),
        };
        if owner == Some(from) {
            return true;
        }
        // An address that is a service's is no client's.
        if owner.is_none() || host_table.mac_of_alias(address).is_some() {
            return false;
        }
        let Some(subnets) = self.behind.get(&(from, number)) else { return false };
        let has_it = |subnet: &AddressRange| {
            subnet.is_ipv6 == tuple.is_ipv6 && (subnet.addresses.0..=subnet.addresses.1).contains(&tuple.src)
        };
        subnets.iter().any(has_it)
    }
}
