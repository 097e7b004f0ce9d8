//! IP in IP: packets go to servers behind a header of their own (RFC 2003; of IPv6 RFC 2473), and come out of it at the server's host.
//!
//! ```text
//!   client -> virtual address   becomes   virtual address -> server | client -> virtual address      where it comes in
//!                               becomes   client -> virtual address                                  at the port of the server's host
//!   server: virtual address -> client, as with direct routing
//! ```
//!
//! Congestion that a link has marked on the outer header is marked on the inner one (RFC 6040). What does not fit with the outer header is refused as a router does, with the size that fits.

use topology::{NetPort, NodeId, TiVec, Topology};
use vswitch::spread::FlowHash;
use vswitch::{Field, FlowKey, Forwarding};
use wire::{EthernetPacket, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, ethertype, protocol};

use super::state::ServiceState;
use super::{ForwardingMethod, MAC, Service, Services, answers};
use crate::driver::{Driver, Loss, Tag};
use crate::graph::{Graph, Moment};
use crate::pipeline::lose;

/// Bytes of the outer header, by the family of both.
const HEADER_V4: usize = 20;
const HEADER_V6: usize = 40;
/// All bits of congestion notification: it was met (RFC 3168, 5).
const CONGESTION: u8 = 3;

/// By host: its addresses, IPv4 first. Empty where no service has tunnels.
pub(super) type TunnelEnds = TiVec<NodeId, Option<[u128; 2]>>;

/// Where tunnels may end: a server that no service has any more may have connections.
pub(super) fn ends(topology: &Topology, services: &[Service]) -> TunnelEnds {
    if !services.iter().any(|service| service.forwarding == ForwardingMethod::Tunnel) {
        return TunnelEnds::new();
    }
    let mut ends = TunnelEnds::new();
    for (host, _) in topology.addressed_hosts() {
        let address = topology.address(host).expect("it has an address");
        ends.raw.resize(ends.len().max(usize::from(host) + 1), None);
        ends[host] = Some([address.ipv4.to_bits().into(), address.ipv6.to_bits()]);
    }
    ends
}

/// A header that is put before a packet's own, so many bytes behind the frame's beginning.
#[derive(Debug)]
pub(super) struct Outer {
    at: usize,
    bytes: [u8; HEADER_V6],
    length: usize,
}

impl Outer {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is no packet of IP.
    Malformed,
    /// The packet, or a part of it as it will be cut, is longer than this.
    Longer(u32),
}

/// The outer header of a packet to a server with these addresses. `bytes`: of its frame. `cut_to`: so long will the payloads be of the segments that it is cut into.
pub(super) fn outer(
    headers: &[u8],
    (bytes, cut_to): (u32, Option<u16>),
    server: [u128; 2],
    mtu: u32,
) -> Result<Outer, Refused> {
    let ethernet = EthernetPacket::new_checked(headers).map_err(|_| Refused::Malformed)?;
    let packet = ethernet.payload();
    let at = headers.len() - packet.len();
    let length = |header: usize, protocol: u8, upper: &[u8]| match (cut_to, protocol, upper) {
        (Some(cut_to), protocol::UDP, _) => header as u32 + 8 + u32::from(cut_to),
        (Some(cut_to), _, [_, _, _, _, _, _, _, _, _, _, _, _, offset, ..]) => {
            header as u32 + u32::from(offset >> 4) * 4 + u32::from(cut_to)
        }
        _ => bytes - at as u32,
    };
    let mut outer = Outer { at, bytes: [0; HEADER_V6], length: 0 };
    match ethernet.ethertype() {
        ethertype::IPV4 => {
            let inner = Ipv4Packet::new_checked(packet).map_err(|_| Refused::Malformed)?;
            let header = HEADER_V4 + inner.options().len();
            let (fits, payload) = (mtu - HEADER_V4 as u32, inner.payload());
            if inner.dont_fragment() && length(header, inner.protocol(), payload) > fits {
                return Err(Refused::Longer(fits));
            }
            let repr = Ipv4Repr {
                traffic_class: inner.traffic_class(),
                identification: inner.identification(),
                dont_fragment: inner.dont_fragment(),
                ..Ipv4Repr::new(
                    inner.dst(),
                    (server[0] as u32).into(),
                    protocol::IPV4,
                    u16::try_from(header + payload.len()).unwrap_or(u16::MAX),
                )
            };
            repr.emit(&mut outer.bytes);
            outer.length = repr.buffer_len();
        }
        ethertype::IPV6 => {
            let inner = Ipv6Packet::new_checked(packet).map_err(|_| Refused::Malformed)?;
            let upper = inner.upper_layer().map_err(|_| Refused::Malformed)?;
            let payload = inner.payload();
            let (fits, header) = (mtu - HEADER_V6 as u32, HEADER_V6 + payload.len() - upper.payload.len());
            if length(header, upper.protocol, upper.payload) > fits {
                return Err(Refused::Longer(fits));
            }
            let length = u16::try_from(HEADER_V6 + payload.len()).unwrap_or(u16::MAX);
            let repr = Ipv6Repr {
                traffic_class: inner.traffic_class(),
                flow_label: inner.flow_label(),
                ..Ipv6Repr::new(inner.dst(), server[1].into(), protocol::IPV6, length)
            };
            repr.emit(&mut outer.bytes);
            outer.length = repr.buffer_len();
        }
        _ => return Err(Refused::Malformed),
    }
    Ok(outer)
}

/// The outer header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OuterPlace {
    pub at: usize,
    pub length: usize,
    pub is_marked: bool,
}

impl Services {
    /// Whether packets come to servers through tunnels.
    #[inline]
    pub(super) fn has_tunnels(&self) -> bool {
        !self.tunnel_ends.is_empty()
    }

    /// The outer header of a frame that has come to a host, if a service's tunnel ends there.
    pub(super) fn outer_header(&self, host: NodeId, frame: &[u8]) -> Option<OuterPlace> {
        let own = (*self.tunnel_ends.get(host)?)?;
        let ethernet = EthernetPacket::new_checked(frame).ok()?;
        let packet = ethernet.payload();
        let at = frame.len() - packet.len();
        let (length, traffic_class, virtual_address) = match ethernet.ethertype() {
            ethertype::IPV4 => {
                let outer = Ipv4Packet::new_checked(packet).ok()?;
                let is_its = outer.protocol() == protocol::IPV4 && u128::from(outer.dst().to_bits()) == own[0];
                if !is_its || outer.is_fragment() || !outer.is_checksum_right() {
                    return None;
                }
                let length = HEADER_V4 + outer.options().len();
                let inner = Ipv4Packet::new_checked(&packet[length..]).ok()?;
                let is_from = outer.src() == inner.dst();
                (length, outer.traffic_class(), is_from.then(|| (false, inner.dst().to_bits().into()))?)
            }
            ethertype::IPV6 => {
                let outer = Ipv6Packet::new_checked(packet).ok()?;
                if outer.next_header() != protocol::IPV6 || outer.dst().to_bits() != own[1] {
                    return None;
                }
                let inner = Ipv6Packet::new_checked(&packet[HEADER_V6..]).ok()?;
                let is_from = outer.src() == inner.dst();
                (HEADER_V6, outer.traffic_class(), is_from.then(|| (true, inner.dst().to_bits()))?)
            }
            _ => return None,
        };
        let service = &self.all[self.with_address(virtual_address.0, virtual_address.1)?];
        let is_marked = traffic_class & CONGESTION == CONGESTION;
        (service.forwarding == ForwardingMethod::Tunnel).then_some(OuterPlace { at, length, is_marked })
    }
}

impl ServiceState {
    /// A packet of a service goes on to a server, with what is written into it: one that is translated needs no tunnel.
    #[inline]
    pub(super) fn note_tunnel(&mut self, running: usize, fields: &[Field]) {
        self.tunnel = (self.running[running].has_tunnels && fields.is_empty()).then_some(running as u32);
    }

    /// The service through whose tunnel the packet goes that was processed just now.
    #[inline]
    pub(super) const fn take_tunnel(&mut self) -> Option<u32> {
        self.tunnel.take()
    }

    /// A packet does not fit the tunnel of a service.
    pub(super) fn note_too_big(&mut self, running: u32) {
        self.running[running as usize].counters.too_big += 1;
    }
}

impl<P> Graph<P> {
    /// Sends a packet through the tunnel of a service (by its number in the state) to a server at a host. `port`: that of its sender's host, which hears what fits if it is too long.
    pub(super) fn send_through_tunnel<D: Driver<Packet = P>>(
        &mut self,
        moment: Moment<'_>,
        driver: &mut D,
        (service, host, port): (u32, NodeId, NetPort),
        mut packet: P,
    ) -> Option<P> {
        let services = &moment.tables.services;
        let Some(server) = services.tunnel_ends.get(host).copied().flatten() else {
            return lose(driver, Loss::Service, packet);
        };
        let size = (driver.bytes(&packet), driver.cut_to(&packet));
        match outer(driver.headers(&packet), size, server, services.mtu) {
            Ok(outer) => {
                if driver.encapsulate(&mut packet, outer.at, outer.bytes()).is_err() {
                    return lose(driver, Loss::Malformed, packet);
                }
                if let Ok(key) = FlowKey::parse(driver.headers(&packet)) {
                    let forwarding = driver.forwarding(&packet);
                    driver.set_forwarding(&mut packet, Forwarding { hash: key.hash(), ..forwarding });
                }
                Some(packet)
            }
            Err(Refused::Malformed) => lose(driver, Loss::Malformed, packet),
            Err(Refused::Longer(fits)) => {
                self.services.note_too_big(service);
                driver.set_destination(&mut packet, MAC);
                let answer = driver.frame(&packet).and_then(|frame| answers::too_big(frame, fits));
                let to = moment.tables.host_table.by_mac(driver.source(&packet));
                if let (Some(frame), Some(to)) = (answer, to)
                    && let Some(answer) = driver.make(&frame, Forwarding { to, hash: FlowHash(0) }, Tag::None)
                {
                    self.put(moment, driver, moment.tables.map.far(port), answer);
                } else {
                    driver.count(Loss::Service);
                }
                driver.free(packet);
                None
            }
        }
    }
}

/// A packet has come to a host in a network with tunnels: what is in it, if it is one of those.
#[inline(never)]
pub(super) fn unpack<D: Driver>(
    moment: Moment<'_>,
    driver: &mut D,
    host: NodeId,
    mut packet: D::Packet,
) -> Option<D::Packet> {
    let found = driver.frame(&packet).and_then(|frame| moment.tables.services.outer_header(host, frame));
    let Some(OuterPlace { at, length, is_marked }) = found else { return Some(packet) };
    if driver.decapsulate(&mut packet, at, length).is_err() || is_marked && !driver.mark(&mut packet) {
        return lose(driver, Loss::Malformed, packet);
    }
    Some(packet)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;
    use wire::{EthernetRepr, TcpRepr};

    use super::*;

    const SERVER: [u128; 2] = [0x0a00_0002, 0xfd00 << 112 | 2];

    /// A frame of TCP from a client to a service, with so long a payload.
    fn frame(is_ipv6: bool, payload: usize) -> Vec<u8> {
        let tcp = TcpRepr {
            src_port: 4_000,
            dst_port: 80,
            seq: 1,
            ack: 2,
            flags: 16,
            window: 9,
            urgent: 0,
            timestamps: None,
        };
        let ethertype = if is_ipv6 { ethertype::IPV6 } else { ethertype::IPV4 };
        let ethernet = EthernetRepr { dst: MAC, src: [2; 6], vlan: None, ethertype };
        let length = (tcp.buffer_len() + payload) as u16;
        let mut frame = vec![0; 14 + if is_ipv6 { HEADER_V6 } else { HEADER_V4 }];
        ethernet.emit(&mut frame);
        if is_ipv6 {
            let (src, dst) = ((0xfd00_u128 << 112 | 1).into(), (0xfd00_u128 << 112 | 0x50).into());
            Ipv6Repr { traffic_class: 2, ..Ipv6Repr::new(src, dst, protocol::TCP, length) }.emit(&mut frame[14..]);
        } else {
            let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 1, 0, 80));
            Ipv4Repr { traffic_class: 2, ..Ipv4Repr::new(src, dst, protocol::TCP, length) }.emit(&mut frame[14..]);
        }
        let at = frame.len();
        frame.resize(at + usize::from(length), 7);
        tcp.emit(&mut frame[at..]);
        frame
    }

    #[test]
    fn the_outer_header_names_the_service_and_the_server() {
        for (is_ipv6, header, protocol) in [(false, HEADER_V4, protocol::IPV4), (true, HEADER_V6, protocol::IPV6)] {
            let frame = frame(is_ipv6, 100);
            let outer = outer(&frame, (frame.len() as u32, None), SERVER, 1_500).expect("it fits");
            assert_eq!((outer.at, outer.length), (14, header));
            let packet = [&outer.bytes[..header], &frame[14..]].concat();
            if is_ipv6 {
                let (outer, inner) =
                    (Ipv6Packet::new_checked(&packet).unwrap(), Ipv6Packet::new_checked(&frame[14..]).unwrap());
                assert_eq!((outer.src(), outer.dst().to_bits()), (inner.dst(), SERVER[1]));
                assert_eq!((outer.next_header(), outer.traffic_class()), (protocol, 2));
                assert_eq!(outer.payload(), &frame[14..]);
            } else {
                let (outer, inner) =
                    (Ipv4Packet::new_checked(&packet).unwrap(), Ipv4Packet::new_checked(&frame[14..]).unwrap());
                assert_eq!((outer.src(), u128::from(outer.dst().to_bits())), (inner.dst(), SERVER[0]));
                assert_eq!((outer.protocol(), outer.traffic_class()), (protocol, 2));
                assert!(outer.dont_fragment() && outer.is_checksum_right());
                assert_eq!(outer.payload(), &frame[14..]);
            }
        }
    }

    /// A packet that is as long as may be, and one that is longer by a byte; and the same of segments that a kernel has not cut yet.
    #[test]
    fn what_does_not_fit_hears_what_would() {
        for (is_ipv6, header) in [(false, HEADER_V4), (true, HEADER_V6)] {
            let fits = 1_500 - header;
            let payload = fits - header - 20;
            let longest = frame(is_ipv6, payload);
            assert!(outer(&longest, (longest.len() as u32, None), SERVER, 1_500).is_ok());
            let longer = frame(is_ipv6, payload + 1);
            let refused = |size| outer(&longer, size, SERVER, 1_500).err();
            assert_eq!(refused((longer.len() as u32, None)), Some(Refused::Longer(fits as u32)));
            let large = frame(is_ipv6, 20_000);
            let size = |cut_to: usize| (large.len() as u32, Some(cut_to as u16));
            assert!(outer(&large, size(payload), SERVER, 1_500).is_ok());
            assert_eq!(outer(&large, size(payload + 1), SERVER, 1_500).err(), Some(Refused::Longer(fits as u32)));
        }
        // Whoever lets it be cut on its way hears nothing.
        let mut may_be_cut = frame(false, 1_460);
        may_be_cut[14 + 6] = 0;
        assert!(outer(&may_be_cut, (may_be_cut.len() as u32, None), SERVER, 1_500).is_ok());
    }

    proptest! {
        #[test]
        fn any_frame_is_packed_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..120), kind in 0..3_u8, cut_to: Option<u16>, (first, second) in any::<(u32, u128)>()) {
            if bytes.len() > 14 && kind < 2 {
                bytes[12..14].copy_from_slice(&if kind == 0 { [8, 0] } else { [0x86, 0xdd] });
                bytes[14] = if kind == 0 { 0x45 } else { 0x60 };
            }
            let _ = outer(&bytes, (bytes.len() as u32, cut_to), SERVER, 1_500);
            let mut services = Services::default();
            services.tunnel_ends.raw.push(Some([u128::from(first), second]));
            prop_assert_eq!(services.outer_header(NodeId(0), &bytes), None);
        }
    }
}
