//! What a host's kernel drops unseen, a service drops as well: a packet that has been damaged, that names a source which is no station, or whose hops are used up. It begins no
//! connection, and nobody hears of it (RFC 1122, 3.2.1.2, 3.2.1.3 and 4.1.3.4; RFC 9293, 3.1; RFC 8200, 8.1).
//!
//! Packets of connections that there are go on: their server's kernel looks at them. Only a reset is looked at here as well, since it ends its connection here.

use std::net::{IpAddr, Ipv4Addr};

use topology::Topology;
use vswitch::HostTable;
use wire::{EthernetPacket, Ipv4Packet, Ipv6Packet, Pseudo, UdpPacket, checksum, ethertype, protocol};

use super::Services;
use super::answers::{Sent, UDP_HEADER, pseudo, read};
use crate::driver::{Driver, Loss};

/// A packet as it has come from a client.
pub(super) struct FromClient<'a> {
    /// As many of its bytes as there are, headers at least.
    pub headers: &'a [u8],
    /// Its length.
    pub bytes: u32,
    /// Why it is to be dropped unseen, if it is. Asked of what would begin something, or be answered.
    pub fault: &'a dyn Fn() -> Option<Loss>,
}

/// Addresses that are for all hosts of a subnet, ascending.
pub(super) fn broadcasts(topology: &Topology) -> Vec<Ipv4Addr> {
    let mut all: Vec<Ipv4Addr> = topology
        .hosts()
        .filter_map(|(host, _)| topology.address(host))
        // A link of two has none (RFC 3021).
        .filter(|address| address.ipv4_prefix < 31)
        .map(|address| address.ipv4 | Ipv4Addr::from_bits(u32::MAX >> address.ipv4_prefix))
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

impl Services {
    /// Why a packet for a service or a name server is to be dropped unseen; `None`: it is not, or is malformed, or has no bytes.
    pub(super) fn fault_of<D: Driver>(
        &self,
        (driver, host_table): (&D, &HostTable),
        packet: &D::Packet,
    ) -> Option<Loss> {
        driver.frame(packet).filter(|_| D::HAS_CHECKSUMS)?;
        self.fault(host_table, &driver.finished(packet))
    }

    /// The same of a frame with its checksums.
    fn fault(&self, host_table: &HostTable, frame: &[u8]) -> Option<Loss> {
        let ethernet = EthernetPacket::new_checked(frame).ok()?;
        let (hops, source, is_header_right) = match ethernet.ethertype() {
            ethertype::IPV4 => {
                let ip = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
                (ip.ttl(), ip.src().into(), ip.is_checksum_right())
            }
            ethertype::IPV6 => {
                let ip = Ipv6Packet::new_checked(ethernet.payload()).ok()?;
                (ip.hop_limit(), ip.src().into(), true)
            }
            _ => return None,
        };
        if !is_header_right {
            return Some(Loss::Checksum);
        }
        if self.is_martian(host_table, source) {
            return Some(Loss::Martian);
        }
        if hops == 0 {
            return Some(Loss::HopLimit);
        }
        // The checksum of a datagram is one of all of its fragments.
        let sent = read(&ethernet)?;
        (!is_whole(&sent)).then_some(Loss::Checksum)
    }

    /// Whether no station can have sent from this address: it is for several, or nobody, or somebody in the sender itself, or a service.
    fn is_martian(&self, host_table: &HostTable, source: IpAddr) -> bool {
        let is_nobodys = match source {
            IpAddr::V4(address) => {
                address.is_multicast()
                    || address.is_broadcast()
                    || address.is_loopback()
                    || address.octets()[0] == 0
                    || self.broadcasts.binary_search(&address).is_ok()
            }
            IpAddr::V6(address) => {
                address.is_multicast()
                    || address.is_loopback()
                    || address.is_unspecified()
                    || address.to_ipv4_mapped().is_some()
            }
        };
        is_nobodys || host_table.mac_of_alias(source).is_some()
    }
}

/// Whether what an IP packet carries has its checksum, if it has one.
fn is_whole(sent: &Sent<'_>) -> bool {
    let Some(pseudo) = pseudo(sent, sent.protocol) else { return true };
    // A sum is the same from either end.
    match (sent.protocol, &pseudo) {
        (protocol::TCP, _) | (protocol::ICMPV6, Pseudo::V6 { .. }) => checksum::transport(&pseudo, sent.payload) == 0,
        (protocol::ICMP, Pseudo::V4 { .. }) => checksum::internet(sent.payload) == 0,
        (protocol::UDP, _) => {
            let Ok(datagram) = UdpPacket::new_checked(sent.payload) else { return true };
            let length = UDP_HEADER + datagram.payload().len();
            match (datagram.checksum(), &pseudo) {
                // Only IPv4 has datagrams without one.
                (0, _) => matches!(pseudo, Pseudo::V4 { .. }),
                _ => sent.payload.get(..length).is_some_and(|whole| checksum::transport(&pseudo, whole) == 0),
            }
        }
        _ => true,
    }
}
