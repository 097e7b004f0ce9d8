//! Full NAT: servers see connections come from the balancer's own addresses, and answer to those.
//!
//! ```text
//!   client -> virtual address   becomes   own address, own port -> server
//!   server -> own address       is known for an answer where it leaves the server; on its way it is the server's, so that chains see both directions alike
//!                               becomes   virtual address -> client      behind the chain
//! ```

use machine::Time;
use topology::NodeId;
use vswitch::conntrack::{NatRange, TranslatedEnd, Tuple, ct_state};

use super::Service;
use super::state::{EXISTING, ServiceState};

/// The ports of a balancer's own address when nothing is said: all that no service of a system has.
const PORTS: (u16, u16) = (1_024, u16::MAX);

impl Service {
    /// From where a server is to see a connection come. `place`: that of the balancer among several, each of which has a part of the ports.
    pub(super) fn source_range(&self, tuple: &Tuple, place: usize) -> NatRange {
        let given = self.sources.iter().find(|range| range.is_for(tuple));
        let addresses = given.map_or((tuple.dst, tuple.dst), |range| range.addresses);
        let (first, size) = (self.own_ports(tuple.is_ipv6).0, self.ports_each(tuple.is_ipv6));
        let first = first + place as u16 * size;
        NatRange {
            end: TranslatedEnd::Source,
            is_ipv6: tuple.is_ipv6,
            addresses,
            ports: Some((first, first + (size - 1))),
        }
    }

    /// The place of the balancer that has this port of its own.
    pub(super) fn owner_of_port(&self, is_ipv6: bool, port: u16) -> Option<usize> {
        let (first, last) = self.own_ports(is_ipv6);
        let place = usize::from(port.checked_sub(first)? / self.ports_each(is_ipv6));
        (port <= last && place < self.at.len()).then_some(place)
    }

    fn own_ports(&self, is_ipv6: bool) -> (u16, u16) {
        let given = self.sources.iter().find(|range| range.is_ipv6 == is_ipv6);
        given.and_then(|range| range.ports).unwrap_or(PORTS)
    }

    /// How many each balancer has: one at least, whatever a file says.
    fn ports_each(&self, is_ipv6: bool) -> u16 {
        let (first, last) = self.own_ports(is_ipv6);
        let balancers = self.at.len().max(1) as u32;
        ((u32::from(last - first) + 1) / balancers).clamp(1, u16::MAX.into()) as u16
    }
}

impl ServiceState {
    /// Where the client of a connection is, and its MAC address.
    pub(super) fn client(&self, place: u32) -> Option<(NodeId, [u8; 6])> {
        let opened = self.opened.get(place as usize)?;
        Some((opened.client?, opened.client_mac))
    }

    /// The client that a packet from a server goes to, or the router that has passed on what the client has sent, and its MAC address, if it answers a connection whose client the server sees at an address of the balancer,
    /// or is an error about one. Nothing changes.
    pub(super) fn client_of_answer(&mut self, now: Time, headers: &[u8]) -> Option<(NodeId, [u8; 6])> {
        let (segment, _) = self.segment(now, headers)?;
        let tracked = self.revisit(now, &segment, EXISTING)?;
        let is_answer = tracked.is_kept && tracked.state & ct_state::REPLY != 0;
        tracked.tuple.filter(|_| is_answer)?;
        self.client(tracked.place.or(tracked.quoted_place)?)
    }
}
