//! Headers of flows' packets, each kept once: a packet has the number of its header.
//!
//! A header that is rewritten on the way (a bond's member sends with another address, a peer knows the host by another one) is another header. All
//! rewritten forms of one are found again by what was rewritten, so that a packet costs a look through a list that has as many entries as its
//! host has addresses.

use bond::{HashPolicy, Summary};
use fabric::Fabric;
use topology::HostAddress;
use vswitch::Forwarding;
use wire::{EthernetRepr, ethertype, protocol};

/// The headers of a flow's frame, as far as bonds look: Ethernet, IPv4, ports.
const BYTES: usize = 14 + 20 + 8;
/// The flag of an IPv4 fragment that is not the last one (RFC 791).
const MORE_FRAGMENTS: u16 = 0x2000;

/// What every hop asks of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) forwarding: Forwarding,
    /// Length of the packet in bytes.
    pub(crate) bytes: u32,
    /// Twice the flow's index; plus one on the way back.
    pub(crate) way: u32,
}

/// What bonds ask besides.
#[derive(Clone, Debug)]
struct Fields {
    frame: [u8; BYTES],
    /// The header before any of its addresses was rewritten.
    original: u32,
    /// Of an original: all that it was rewritten into.
    rewritten: Vec<u32>,
}

/// All headers of a run.
#[derive(Debug, Default)]
pub(crate) struct Headers {
    all: Vec<Header>,
    /// By header; empty where there are no bonds.
    fields: Vec<Fields>,
    /// By policy of the network's bonds, and by header.
    summaries: Vec<(HashPolicy, Vec<Summary>)>,
}

/// What is above IP in a flow's frames, as far as hash policies look.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Upper {
    /// Ports, from and to.
    Tcp(u16, u16),
    /// Ports, from and to.
    Udp(u16, u16),
    /// A part of a longer message: no ports can be seen in it.
    Fragment,
}

impl Headers {
    /// None yet, for a network with the bonds of this fabric.
    pub(crate) fn new(fabric: &Fabric) -> Self {
        let mut headers = Self::default();
        for bond in &fabric.bonds {
            if headers.summaries.iter().all(|(known, _)| *known != bond.config.policy) {
                headers.summaries.push((bond.config.policy, Vec::new()));
            }
        }
        headers
    }

    /// The header of a flow's packets in one direction, `from` and `to` these hosts.
    pub(crate) fn add(&mut self, header: Header, (from, to): (&HostAddress, &HostAddress), upper: Upper) -> u32 {
        let original = self.all.len() as u32;
        self.push(header, || Fields { frame: frame(from, to, upper), original, rewritten: Vec::new() })
    }

    fn push(&mut self, header: Header, fields: impl FnOnce() -> Fields) -> u32 {
        if !self.summaries.is_empty() {
            let fields = fields();
            for (policy, summaries) in &mut self.summaries {
                summaries.push(Summary { bytes: header.bytes, ..Summary::by_policy(*policy, &fields.frame) });
            }
            self.fields.push(fields);
        }
        self.all.push(header);
        self.all.len() as u32 - 1
    }

    #[inline]
    pub(crate) fn get(&self, header: u32) -> &Header {
        &self.all[header as usize]
    }

    pub(crate) fn summary(&self, policy: HashPolicy, header: u32) -> Summary {
        let of_policy = self.summaries.iter().find(|(known, _)| *known == policy);
        of_policy.expect("each bond's policy was known before the first header").1[header as usize]
    }

    fn addresses(&self, header: u32) -> &[u8; 12] {
        self.fields[header as usize].frame.first_chunk().expect("a header has both addresses")
    }

    /// The destination address.
    pub(crate) fn destination(&self, header: u32) -> [u8; 6] {
        *self.addresses(header).first_chunk().expect("it is the first six bytes")
    }

    /// The source address.
    pub(crate) fn source(&self, header: u32) -> [u8; 6] {
        *self.addresses(header).last_chunk().expect("it is the last six bytes")
    }

    /// The same header with another destination address.
    pub(crate) fn with_destination(&mut self, header: u32, mac: [u8; 6]) -> u32 {
        self.rewrite(header, [mac, self.source(header)])
    }

    /// The same header with another source address.
    pub(crate) fn with_source(&mut self, header: u32, mac: [u8; 6]) -> u32 {
        self.rewrite(header, [self.destination(header), mac])
    }

    fn rewrite(&mut self, header: u32, addresses: [[u8; 6]; 2]) -> u32 {
        let wanted = addresses.as_flattened();
        if self.addresses(header) == wanted {
            return header;
        }
        let original = self.fields[header as usize].original;
        if self.addresses(original) == wanted {
            return original;
        }
        let rewritten = &self.fields[original as usize].rewritten;
        if let Some(known) = rewritten.iter().find(|known| self.addresses(**known) == wanted) {
            return *known;
        }
        let mut frame = self.fields[original as usize].frame;
        frame[..12].copy_from_slice(wanted);
        let new = self.push(self.all[original as usize], || Fields { frame, original, rewritten: Vec::new() });
        self.fields[original as usize].rewritten.push(new);
        new
    }
}

/// The headers of a flow's frames, as far as hash policies look.
fn frame(from: &HostAddress, to: &HostAddress, upper: Upper) -> [u8; BYTES] {
    let mut frame = [0; BYTES];
    EthernetRepr { dst: to.mac, src: from.mac, vlan: None, ethertype: ethertype::IPV4 }.emit(&mut frame);
    let ip = &mut frame[14..];
    ip[0] = 0x45;
    ip[3] = 28;
    ip[8] = 64;
    let (protocol, src_port, dst_port) = match upper {
        Upper::Tcp(src, dst) => (protocol::TCP, src, dst),
        Upper::Udp(src, dst) => (protocol::UDP, src, dst),
        Upper::Fragment => (protocol::UDP, 0, 0),
    };
    if matches!(upper, Upper::Fragment) {
        ip[6..8].copy_from_slice(&MORE_FRAGMENTS.to_be_bytes());
    }
    ip[9] = protocol;
    ip[12..16].copy_from_slice(&from.ipv4.octets());
    ip[16..20].copy_from_slice(&to.ipv4.octets());
    ip[20..22].copy_from_slice(&src_port.to_be_bytes());
    ip[22..24].copy_from_slice(&dst_port.to_be_bytes());
    frame
}
