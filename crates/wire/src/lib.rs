//! Frames as bytes.
//!
//! Each header has a file of its own with these types:
//!
//! - `XPacket` is a *checked view*: it borrows the bytes, and once made, its fields can be read without failure.
//! - `XPacketMut` is the same over bytes that may be changed: its setters keep checksums right, by what changed (RFC 1624). Only headers that
//!   switches rewrite have one.
//! - `XRepr` is a *plain value*: what the header says, as a `Copy` struct. [`EthernetRepr::parse`] and its siblings make one
//!   from a view; `emit` writes it back. Emitting never panics if the buffer has `buffer_len()` bytes.
//!
//! Invariant: no function here panics on any input bytes. What a frame says is believed only as far as it was checked, and
//! what was checked is written at the view's `new_checked`.
//!
//! | header | standard |
//! |---|---|
//! | [`EthernetPacket`] | Ethernet II with at most one 802.1Q tag |
//! | [`ArpPacket`] | RFC 826, for IPv4 over Ethernet |
//! | [`Ipv4Packet`] | RFC 791 |
//! | [`Ipv6Packet`] | RFC 8200, with its extension headers |
//! | [`TcpPacket`] | RFC 9293, timestamps of RFC 7323 |
//! | [`UdpPacket`] | RFC 768 |
//! | [`TransportPacketMut`] | ports and checksum of TCP, UDP and `ICMPv6` |
//! | [`NeighbourPacket`] | RFC 4861: neighbour solicitation and advertisement |
//! | [`LacpPacket`] | IEEE 802.1AX-2014, 6.4.2: LACPDU, version 1 |
//! | [`MarkerPacket`] | IEEE 802.1AX-2014, 6.5.3: marker and marker response |
//! | [`BpduPacket`] | IEEE 802.1D-2004, 9: BPDUs of STP and RSTP |
//! | [`LldpPacket`] | IEEE 802.1AB-2016: mandatory TLVs, and those of organisations |
//! | [`MplsPacket`] | RFC 3032: label stacks |
//! | [`Encapsulation`] | RFC 7348 (VXLAN), RFC 8926 (Geneve) |
//! | [`VrrpPacket`] | RFC 9568: VRRP, version 3 |
//! | [`VirtioNetPacket`] | virtio 1.2, 5.1.6: what a TAP puts before each frame |
#![forbid(unsafe_code)]

mod arp;
mod bpdu;
pub mod checksum;
mod error;
mod ethernet;
mod ipv4;
mod ipv6;
mod lacp;
mod lldp;
mod mpls;
mod neighbour;
mod offload;
mod slow;
mod tcp;
mod transport;
mod tunnel;
mod udp;
mod virtio_net;
mod vrrp;

pub use arp::{ArpOperation, ArpPacket, ArpRepr};
pub use bpdu::{BPDU_FRAME, BRIDGE_GROUP, BpduFlags, BpduKind, BpduPacket, BpduRepr, BpduRole};
pub use checksum::{Coverage, Pseudo};
pub use error::Error;
pub use ethernet::{
    BROADCAST, EthernetPacket, EthernetPacketMut, EthernetRepr, TAG_AT, ethertype, flip_bit, is_group, vlan_tag,
};
pub use ipv4::{Ipv4Packet, Ipv4PacketMut, Ipv4Repr, protocol};
pub use ipv6::{
    ALL_NODES, EXTENSION_HEADERS_MAX, Fragment, Ipv6Packet, Ipv6PacketMut, Ipv6Repr, UpperLayer, multicast_mac,
};
pub use lacp::{LacpInfo, LacpPacket, LacpRepr, LacpState};
pub use lldp::{LLDP_NEAREST_BRIDGE, LLDP_VALUE_MAX, LldpPacket, LldpRepr};
pub use mpls::{MplsPacket, MplsPacketMut, MplsRepr, mpls_at, mpls_to_pop, pop_mpls, push_mpls};
pub use neighbour::{NeighbourPacket, NeighbourRepr, kind};
pub use offload::undone_checksum;
pub use slow::{MarkerPacket, MarkerRepr, SLOW_PAYLOAD, SLOW_PROTOCOLS, subtype as slow_subtype};
pub use tcp::{TcpPacket, TcpRepr, Timestamps, tcp_flags};
pub use transport::TransportPacketMut;
pub use tunnel::Encapsulation;
pub use udp::{UdpPacket, UdpRepr};
pub use virtio_net::{
    ChecksumRequest, Segmentation, SegmentationKind, VirtioNetLayout, VirtioNetPacket, VirtioNetRepr,
};
pub use vrrp::{VRRP_GROUP_V4, VRRP_GROUP_V6, VRRP_INTERVAL_MAX_CS, VrrpPacket, VrrpRepr, vrrp_mac};
