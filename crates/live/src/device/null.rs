//! A port behind which nobody is: it takes what comes, and sends the same frames again and again, or nothing. To measure what a network costs by itself.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use fabric::Fabric;
use nix::sys::eventfd::{EfdFlags, EventFd};
use topology::{HostAddress, NodeId, NullDevice};
use wire::{EthernetRepr, Ipv4Repr, UdpRepr, checksum, ethertype, protocol};

use crate::port::{Port, TxFrames, Unsent};
use crate::tap::VNET_HEADER;

/// The discard service (RFC 863), from and to.
const DISCARD: u16 = 9;

/// Where the hosts are that hang on null devices, in the file's order.
pub type Destinations = Arc<[(NodeId, [u8; 6], Ipv4Addr)]>;

/// The hosts of a fabric that hang on null devices.
pub fn destinations(fabric: &Fabric) -> Destinations {
    let is_null = |devices: &[String]| devices.iter().any(|device| NullDevice::of(device).is_some());
    let hosts = fabric.topology.hosts().filter(|(_, node)| is_null(&node.devices));
    hosts.filter_map(|(id, _)| fabric.topology.address(id).map(|to| (id, to.mac, to.ipv4))).collect()
}

/// What is behind `null:LENGTH`.
#[derive(Debug)]
pub struct NullPort {
    /// Readable while there is something to send: always, or never.
    ready: Arc<OwnedFd>,
    host: NodeId,
    /// A frame to nobody, behind a virtio-net header that asks for nothing. Empty: it sends none.
    template: Box<[u8]>,
    /// The checksum of the template's IPv4 header.
    checksum: u16,
    destinations: Destinations,
    /// The host that the next one is for.
    next: usize,
}

/// Where the IPv4 header stands, behind the virtio-net header.
const IPV4_AT: usize = VNET_HEADER + ETHERNET;
/// An untagged Ethernet header.
const ETHERNET: usize = 14;

impl NullPort {
    /// The port of a host of this fabric with this device: what it sends goes to all others of these hosts in turn.
    ///
    /// # Errors
    /// If the kernel has no descriptor left.
    pub fn new(device: NullDevice, from: (NodeId, &HostAddress), destinations: Destinations) -> io::Result<Self> {
        let (host, address) = from;
        let has_others = destinations.iter().any(|(other, ..)| *other != host);
        let template = match device.frame_bytes {
            Some(bytes) if has_others => [vec![0; VNET_HEADER], datagram(address, usize::from(bytes))].concat(),
            _ => Vec::new(),
        };
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let ready = OwnedFd::from(EventFd::from_value_and_flags(u32::from(!template.is_empty()), flags)?).into();
        let checksum =
            template.get(IPV4_AT + 10..).and_then(<[u8]>::first_chunk).copied().map_or(0, u16::from_be_bytes);
        Ok(Self { ready, host, template: template.into(), checksum, destinations, next: 0 })
    }

    /// One that sends nothing, beside that of this descriptor.
    pub fn sink(ready: Arc<OwnedFd>) -> Self {
        Self { ready, host: NodeId(0), template: Box::default(), checksum: 0, destinations: [].into(), next: 0 }
    }

    /// Readable while there is something to send.
    pub fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.ready)
    }

    /// The host that the next frame is for.
    #[inline]
    fn destination(&mut self) -> ([u8; 6], Ipv4Addr) {
        loop {
            let (host, mac, ipv4) = self.destinations[self.next];
            self.next = if self.next + 1 == self.destinations.len() { 0 } else { self.next + 1 };
            if host != self.host {
                return (mac, ipv4);
            }
        }
    }
}

/// A datagram to nobody in a frame of so many bytes, filled with zeros.
fn datagram(from: &HostAddress, frame_bytes: usize) -> Vec<u8> {
    const IPV4: usize = 20;
    const UDP: usize = 8;
    let mut frame = vec![0; frame_bytes];
    let payload_len = (frame_bytes - ETHERNET - IPV4 - UDP) as u16;
    EthernetRepr { dst: [0; 6], src: from.mac, vlan: None, ethertype: ethertype::IPV4 }.emit(&mut frame);
    let header = Ipv4Repr {
        src: from.ipv4,
        dst: Ipv4Addr::UNSPECIFIED,
        protocol: protocol::UDP,
        ttl: 64,
        traffic_class: 0,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: payload_len + UDP as u16,
    };
    header.emit(&mut frame[ETHERNET..]);
    UdpRepr { src_port: DISCARD, dst_port: DISCARD, payload_len }.emit(&mut frame[ETHERNET + IPV4..]);
    frame
}

impl AsFd for NullPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

impl Port for NullPort {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if self.template.is_empty() {
            return Ok(None);
        }
        let (mac, ipv4) = self.destination();
        let checksum = checksum::update(self.checksum, &[0; 4], &ipv4.octets());
        let frame = &mut buffer[..self.template.len()];
        frame.copy_from_slice(&self.template);
        frame[VNET_HEADER..VNET_HEADER + 6].copy_from_slice(&mac);
        frame[IPV4_AT + 10..IPV4_AT + 12].copy_from_slice(&checksum.to_be_bytes());
        frame[IPV4_AT + 16..IPV4_AT + 20].copy_from_slice(&ipv4.octets());
        Ok(Some(frame.len()))
    }

    fn tx_burst(&mut self, _: TxFrames<'_>) -> Unsent {
        Unsent::default()
    }

    #[inline]
    fn write(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    #[inline]
    fn is_waiting(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;
    use wire::{EthernetPacket, Ipv4Packet};

    #[test]
    fn frames_go_to_all_others_in_turn_with_their_sums() {
        let address = |id: u8| HostAddress {
            mac: [2, 0, 0, 0, 0, id],
            ipv4: Ipv4Addr::new(10, 0, 0, id),
            ipv4_prefix: 8,
            ipv6: Ipv6Addr::LOCALHOST,
            ipv6_prefix: 64,
            pod: None,
        };
        let hosts: Destinations = (0..3).map(|id| (NodeId(id.into()), address(id).mac, address(id).ipv4)).collect();
        let device = NullDevice { frame_bytes: Some(64) };
        let mut port = NullPort::new(device, (NodeId(1), &address(1)), Arc::clone(&hosts)).unwrap();
        let mut buffer = [0xff; 100];
        for to in [0, 2, 0, 2] {
            assert_eq!(port.read(&mut buffer).unwrap(), Some(VNET_HEADER + 64));
            assert_eq!(buffer[..VNET_HEADER], [0; VNET_HEADER]);
            let frame = EthernetPacket::new_checked(&buffer[VNET_HEADER..VNET_HEADER + 64]).unwrap();
            let packet = Ipv4Packet::new_checked(frame.payload()).unwrap();
            assert_eq!((frame.dst(), frame.src()), (address(to).mac, address(1).mac));
            assert_eq!((packet.dst(), packet.is_checksum_right()), (address(to).ipv4, true));
        }
        let alone = NullPort::new(device, (NodeId(1), &address(1)), hosts[1..2].into());
        assert_eq!(alone.unwrap().read(&mut buffer).unwrap(), None);
    }
}
