//! Full NAT: servers see connections come from the balancer's own addresses, and answer to those.
//!
//! ```text
//!   client -> virtual address   becomes   own address, own port -> server
//!   server -> own address       is known for an answer where it leaves the server; on its way it is the server's, so that chains see both directions alike
//!                               becomes   virtual address -> client      behind the chain
//! ```

use std::net::IpAddr;

use machine::Time;
use topology::NodeId;
use vswitch::HostTable;
use vswitch::conntrack::{NatRange, TranslatedEnd, Tuple, ct_state};

use super::Services;
use super::segment::parse;
use super::state::{EXISTING, ServiceState};

/// The ports of a balancer's own address when nothing is said: all that no service of a system has.
const PORTS: (u16, u16) = (1_024, u16::MAX);

impl Services {
    /// From where a server is to see a connection of a service come.
    pub(super) fn source_range(&self, service: usize, tuple: &Tuple) -> NatRange {
        let given = self.all[service].sources.iter().find(|range| range.is_for(tuple));
        let addresses = given.map_or((tuple.dst, tuple.dst), |range| range.addresses);
        let ports = Some(given.and_then(|range| range.ports).unwrap_or(PORTS));
        NatRange { end: TranslatedEnd::Source, is_ipv6: tuple.is_ipv6, addresses, ports }
    }
}

impl ServiceState {
    /// The client that a packet from a server goes to, and its MAC address, if it answers a connection whose client the server sees at an address of the balancer,
    /// or is an error about one. Nothing changes.
    pub(super) fn client_of_answer(
        &mut self,
        now: Time,
        host_table: &HostTable,
        headers: &[u8],
    ) -> Option<(NodeId, [u8; 6])> {
        let segment = parse(headers)?;
        let tracked = self.revisit(now, &segment, EXISTING)?;
        let is_answer = tracked.is_kept && tracked.state & ct_state::REPLY != 0;
        let tuple = tracked.tuple.filter(|_| is_answer)?;
        if let Some(place) = tracked.place {
            return self.client(place);
        }
        let owner = match tuple.address(tuple.dst) {
            IpAddr::V4(address) => host_table.by_ipv4(address),
            IpAddr::V6(address) => host_table.by_ipv6(address),
        };
        owner.map(|owner| (owner, host_table.mac(owner)))
    }
}
