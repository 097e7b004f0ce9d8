//! A port behind which nobody is: it takes what comes, and sends the same frames again and again, or nothing. To measure what a network costs by itself.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fabric::Fabric;
use nix::sys::eventfd::{EfdFlags, EventFd};
use topology::{HostAddress, NodeId, NullDevice};
use wire::{EthernetRepr, Ipv4Repr, UdpRepr, ethertype, protocol};

use crate::port::Port;
use crate::tap::VNET_HEADER;

/// The discard service (RFC 863), from and to.
const DISCARD: u16 = 9;

/// What is behind `null:LENGTH`.
#[derive(Debug)]
pub struct NullPort {
    /// Readable while there is something to send: always, or never.
    ready: OwnedFd,
    /// One behind the other, each with a virtio-net header that asks for nothing.
    frames: Box<[u8]>,
    /// Of one of them, header included.
    frame_bytes: usize,
    /// Where the next one begins.
    next: usize,
}

impl NullPort {
    /// The port of `host` of this fabric with this device: what it sends goes to all other hosts that hang on such devices, in turn.
    ///
    /// # Errors
    /// If the kernel has no descriptor left.
    pub fn new(device: NullDevice, fabric: &Fabric, host: NodeId) -> io::Result<Self> {
        let frame_bytes = usize::from(device.frame_bytes.unwrap_or_default());
        let frames = if frame_bytes == 0 { Vec::new() } else { frames(fabric, host, frame_bytes) };
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let ready = EventFd::from_value_and_flags(u32::from(!frames.is_empty()), flags)?.into();
        Ok(Self { ready, frames: frames.into(), frame_bytes: VNET_HEADER + frame_bytes, next: 0 })
    }
}

/// A datagram to each other host behind a null device.
fn frames(fabric: &Fabric, host: NodeId, frame_bytes: usize) -> Vec<u8> {
    let topology = &fabric.topology;
    let is_null = |devices: &[String]| devices.iter().any(|device| NullDevice::of(device).is_some());
    let others = topology.hosts().filter(|(id, node)| *id != host && is_null(&node.devices));
    let Some(from) = topology.address(host) else { return Vec::new() };
    let frame = |to: &HostAddress| [vec![0; VNET_HEADER], datagram(from, to, frame_bytes)].concat();
    others.filter_map(|(id, _)| topology.address(id)).flat_map(frame).collect()
}

/// A datagram in a frame of so many bytes, filled with zeros.
fn datagram(from: &HostAddress, to: &HostAddress, frame_bytes: usize) -> Vec<u8> {
    const ETHERNET: usize = 14;
    const IPV4: usize = 20;
    const UDP: usize = 8;
    let mut frame = vec![0; frame_bytes];
    let payload_len = (frame_bytes - ETHERNET - IPV4 - UDP) as u16;
    EthernetRepr { dst: to.mac, src: from.mac, vlan: None, ethertype: ethertype::IPV4 }.emit(&mut frame);
    let (src, dst): (Ipv4Addr, Ipv4Addr) = (from.ipv4, to.ipv4);
    let header = Ipv4Repr {
        src,
        dst,
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
        let Some(frame) = self.frames.get(self.next..self.next + self.frame_bytes) else { return Ok(None) };
        buffer[..frame.len()].copy_from_slice(frame);
        self.next += self.frame_bytes;
        if self.next == self.frames.len() {
            self.next = 0;
        }
        Ok(Some(self.frame_bytes))
    }

    #[inline]
    fn write(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}
