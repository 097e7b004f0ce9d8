//! Headers of flows' packets, each kept once: a packet has the number of its header.
//!
//! A header that is rewritten on the way (a bond's member sends with another address, a peer knows the host by another one, a switch translates
//! addresses) is another header. All rewritten forms of one are found again by their bytes, so that a packet costs a look through a list that has as
//! many entries as there are forms.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::ops::Range;

use bond::{HashPolicy, Summary};
use fabric::Fabric;
use topology::{HostAddress, NodeId};
use vswitch::spread::FlowHash;
use vswitch::{Field, FlowKey, Forwarding, Pipelines};
use wire::{
    Coverage, EthernetPacketMut, EthernetRepr, MplsRepr, TAG_AT, ethertype, mpls_at, mpls_to_pop, protocol, tcp_flags,
    vlan_tag,
};

/// The headers of a flow's frame, as far as bonds and switches look: Ethernet, IPv4, TCP.
const BYTES: usize = 14 + IP_BYTES as usize;
/// With an 802.1Q tag and as many labels as a switch knows.
const BYTES_MAX: usize = BYTES + TAG + LABELS_MAX * TAG;
/// A tag, or a label.
const TAG: usize = 4;
const _: () = assert!(TAG == MplsRepr::LEN, "both are put in and taken out alike");
const LABELS_MAX: usize = 4;
const IP_BYTES: u16 = 20 + 20;
/// IP addresses and ports, from and to each.
const TUPLE: Range<usize> = 14 + 12..14 + 24;
/// Ports, from and to.
const PORTS: Range<usize> = TUPLE.end - 4..TUPLE.end;
/// The flag of an IPv4 fragment that is not the last one (RFC 791).
const MORE_FRAGMENTS: u16 = 0x2000;

/// Source port of the first flow, for hash policies; each further flow has the next one. As Linux counts up from here.
pub(crate) const FIRST_PORT: u16 = 32_768;
/// Destination port of all flows: iperf3's.
pub(crate) const SERVER_PORT: u16 = 5_201;

/// What every hop asks of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) forwarding: Forwarding,
    /// Length of the packet in bytes.
    pub(crate) bytes: u32,
    /// Twice the flow's index; plus one in the direction back.
    pub(crate) direction: u32,
}

/// What bonds and pipelines ask besides.
#[derive(Clone, Debug)]
struct Fields {
    frame: Frame,
    /// The header before it was rewritten.
    original: u32,
    /// Of an original: all that it was rewritten into.
    rewritten: Vec<u32>,
    /// The header before it was steered into a chain.
    unsteered: u32,
    /// Of one that is not steered: where others like it are on their way to in chains, and their headers.
    steered: Vec<(NodeId, u32)>,
}

impl Fields {
    const fn new(frame: Frame, original: u32, unsteered: u32) -> Self {
        Self { frame, original, rewritten: Vec::new(), unsteered, steered: Vec::new() }
    }
}

/// The bytes of a header. At most one tag: switches take a frame with a second one for a malformed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    /// A tag is in its place behind the addresses, labels behind it; without them, the last bytes are 0.
    bytes: [u8; BYTES_MAX],
    is_tagged: bool,
    labels: usize,
}

impl Frame {
    /// Bytes of its tag and its labels.
    const fn shift(&self) -> usize {
        (self.is_tagged as usize + self.labels) * TAG
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..BYTES + self.shift()]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let length = BYTES + self.shift();
        &mut self.bytes[..length]
    }

    /// Puts a tag or a label in at a place.
    fn put_in(&mut self, at: usize, tag: [u8; TAG]) {
        self.bytes.copy_within(at..BYTES_MAX - TAG, at + TAG);
        self.bytes[at..at + TAG].copy_from_slice(&tag);
    }

    /// Takes one out.
    fn take_out(&mut self, at: usize) {
        self.bytes.copy_within(at + TAG.., at);
        self.bytes[BYTES_MAX - TAG..].fill(0);
    }

    /// What is behind the Ethernet header of a frame without a tag and labels, by where it is there.
    fn behind(&self, range: Range<usize>) -> &[u8] {
        let shift = self.shift();
        &self.bytes[range.start + shift..range.end + shift]
    }

    fn behind_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        let shift = self.shift();
        &mut self.bytes[range.start + shift..range.end + shift]
    }
}

/// All headers of a run.
#[derive(Debug, Default)]
pub(crate) struct Headers {
    all: Vec<Header>,
    /// By header; empty where there are neither bonds nor pipelines, and nobody captures.
    fields: Vec<Fields>,
    has_fields: bool,
    /// By policy of the network's bonds, and by header.
    summaries: Vec<(HashPolicy, Vec<Summary>)>,
    /// Those of packets of another length, by the header of the others and that length.
    of_length: BTreeMap<(u32, u32), u32>,
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
    /// None yet, for a network with the bonds of this fabric, and with these pipelines. `is_captured`: somebody looks at their bytes besides.
    pub(crate) fn new(fabric: &Fabric, pipelines: &Pipelines, is_captured: bool) -> Self {
        let has_fields = is_captured
            || !fabric.bonds.is_empty()
            || !pipelines.is_empty()
            || !fabric.chains.functions.is_empty()
            || !fabric.services.is_empty();
        let mut headers = Self { has_fields, ..Self::default() };
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
        self.push(header, || Fields::new(frame(from, to, upper), original, original))
    }

    fn push(&mut self, header: Header, fields: impl FnOnce() -> Fields) -> u32 {
        if self.has_fields {
            let fields = fields();
            for (policy, summaries) in &mut self.summaries {
                summaries.push(Summary { bytes: header.bytes, ..Summary::by_policy(*policy, fields.frame.bytes()) });
            }
            self.fields.push(fields);
        }
        self.all.push(header);
        self.all.len() as u32 - 1
    }

    #[cfg(test)]
    pub(crate) const fn len(&self) -> usize {
        self.all.len()
    }

    /// The header with this number; `None` where it is no header's.
    #[inline]
    pub(crate) fn find(&self, header: u32) -> Option<&Header> {
        self.all.get(header as usize)
    }

    #[inline]
    pub(crate) fn get(&self, header: u32) -> &Header {
        &self.all[header as usize]
    }

    pub(crate) fn summary(&self, policy: HashPolicy, header: u32) -> Summary {
        let of_policy = self.summaries.iter().find(|(known, _)| *known == policy);
        of_policy.expect("each bond's policy was known before the first header").1[header as usize]
    }

    /// The bytes of a header, where anybody looks at some.
    pub(crate) fn known_bytes(&self, header: u32) -> &[u8] {
        self.fields.get(header as usize).map_or(&[], |fields| fields.frame.bytes())
    }

    /// The bytes of a header.
    pub(crate) fn bytes(&self, header: u32) -> &[u8] {
        self.frame(header).bytes()
    }

    fn frame(&self, header: u32) -> &Frame {
        &self.fields[header as usize].frame
    }

    /// The destination address.
    pub(crate) fn destination(&self, header: u32) -> [u8; 6] {
        *self.bytes(header).first_chunk().expect("a header has both addresses")
    }

    /// The source address.
    pub(crate) fn source(&self, header: u32) -> [u8; 6] {
        *self.bytes(header)[6..].first_chunk().expect("a header has both addresses")
    }

    /// Has packets with this header go somewhere else. A header that nobody has rewritten stays as its flow has it.
    pub(crate) fn set_forwarding(&mut self, header: u32, forwarding: Forwarding) {
        if self.fields[header as usize].original != header {
            self.all[header as usize].forwarding = forwarding;
        }
    }

    /// Whether it has the IP address of this host as its destination. Hosts are in no VLAN and know no labels: what comes with either is for none of them.
    pub(crate) fn is_to(&self, header: u32, host: &HostAddress) -> bool {
        let frame = self.frame(header);
        frame.shift() == 0 && frame.behind(TUPLE)[4..8] == host.ipv4.octets()
    }

    /// Whether addresses and ports of one are those of the other in the other direction.
    pub(crate) fn answers(&self, header: u32, other: u32) -> bool {
        *self.frame(header).behind(TUPLE) == reversed(self.frame(other))
    }

    /// Its source address above Ethernet.
    pub(crate) fn src_ipv4(&self, header: u32) -> Ipv4Addr {
        Ipv4Addr::from(*self.frame(header).behind(TUPLE).first_chunk::<4>().expect("it is longer"))
    }

    /// The header of packets like those with the header `like`, but in answer to those with this one: to a host, from and to these MAC addresses.
    pub(crate) fn add_answer(&mut self, header: u32, like: u32, (to, src, dst): (NodeId, [u8; 6], [u8; 6])) -> u32 {
        let mut frame = *self.frame(like);
        frame.bytes[..6].copy_from_slice(&dst);
        frame.bytes[6..12].copy_from_slice(&src);
        frame.behind_mut(TUPLE).copy_from_slice(&reversed(self.frame(header)));
        let hash = FlowKey::parse(frame.bytes()).expect("each header is a whole one").hash();
        let original = self.all.len() as u32;
        let header = Header { forwarding: Forwarding { to, hash }, ..*self.get(like) };
        self.push(header, || Fields::new(frame, original, original))
    }

    /// The same header of packets of another length.
    pub(crate) fn with_bytes(&mut self, header: u32, bytes: u32) -> u32 {
        if let Some(known) = self.of_length.get(&(header, bytes)) {
            return *known;
        }
        let original = self.all.len() as u32;
        let frame = self.fields.get(header as usize).map(|fields| fields.frame);
        let like = *self.get(header);
        let fields = || Fields::new(frame.expect("there are fields"), original, original);
        let new = self.push(Header { bytes, ..like }, fields);
        self.of_length.insert((header, bytes), new);
        new
    }

    /// The header, and all that are made of it, are another connection's from here on: with these ports, and spread by this hash.
    pub(crate) fn renew(&mut self, header: u32, hash: FlowHash, (src, dst): (u16, u16)) {
        let mut to_do = vec![self.fields.get(header as usize).map_or(header, |fields| fields.original)];
        while let Some(header) = to_do.pop() {
            to_do.extend(self.of_length.range((header, 0)..=(header, u32::MAX)).map(|(_, of_length)| *of_length));
            let all = &mut self.all[header as usize];
            all.forwarding.hash = hash;
            let Some(fields) = self.fields.get_mut(header as usize) else { continue };
            to_do.extend(&fields.rewritten);
            to_do.extend(fields.steered.iter().map(|(_, steered)| *steered));
            let ports = fields.frame.behind_mut(PORTS);
            ports[..2].copy_from_slice(&src.to_be_bytes());
            ports[2..].copy_from_slice(&dst.to_be_bytes());
            for (policy, summaries) in &mut self.summaries {
                summaries[header as usize] =
                    Summary { bytes: all.bytes, ..Summary::by_policy(*policy, fields.frame.bytes()) };
            }
        }
    }

    /// The header of packets like those with this one that are on their way to another host: a function of a chain, or where they go behind the last one.
    pub(crate) fn steered(&mut self, header: u32, to: NodeId) -> u32 {
        let base = self.fields[header as usize].unsteered;
        if self.all[base as usize].forwarding.to == to {
            return base;
        }
        let known = self.fields[base as usize].steered.iter().find(|(known, _)| *known == to);
        if let Some((_, known)) = known {
            return *known;
        }
        let (frame, like) = (*self.frame(base), self.all[base as usize]);
        let number = self.all.len() as u32;
        let forwarding = Forwarding { to, ..like.forwarding };
        let new = self.push(Header { forwarding, ..like }, || Fields::new(frame, number, base));
        self.fields[base as usize].steered.push((to, new));
        new
    }

    /// The same header with another destination address.
    pub(crate) fn with_destination(&mut self, header: u32, mac: [u8; 6]) -> u32 {
        self.with(header, Field::EthDst(mac)).expect("each header has it")
    }

    /// The same header with another source address.
    pub(crate) fn with_source(&mut self, header: u32, mac: [u8; 6]) -> u32 {
        self.with(header, Field::EthSrc(mac)).expect("each header has it")
    }

    /// The same header with another field.
    ///
    /// # Errors
    /// If it does not have it: [`Field::write`].
    pub(crate) fn with(&mut self, header: u32, field: Field) -> Result<u32, wire::Error> {
        let mut wanted = *self.frame(header);
        field.write(wanted.bytes_mut(), Coverage::Complete)?;
        leave_out_checksums(&mut wanted);
        Ok(self.rewritten(header, wanted, self.get(header).bytes))
    }

    /// The same header with an 802.1Q tag.
    ///
    /// # Errors
    /// If it has one.
    pub(crate) fn with_vlan(&mut self, header: u32, tci: u16) -> Result<u32, wire::Error> {
        let mut wanted = *self.frame(header);
        if wanted.is_tagged {
            return Err(wire::Error::Truncated { header: "headroom", need: TAG, have: 0 });
        }
        wanted.is_tagged = true;
        wanted.put_in(TAG_AT, vlan_tag(tci));
        Ok(self.rewritten(header, wanted, self.get(header).bytes + TAG as u32))
    }

    /// The same header without its 802.1Q tag.
    ///
    /// # Errors
    /// If it has none.
    pub(crate) fn without_vlan(&mut self, header: u32) -> Result<u32, wire::Error> {
        let mut wanted = *self.frame(header);
        if !wanted.is_tagged {
            let value = u32::from(ethertype::IPV4);
            let expected = "33024 (802.1Q)";
            return Err(wire::Error::Field { header: "Ethernet", field: "ethertype", value, expected });
        }
        wanted.is_tagged = false;
        wanted.take_out(TAG_AT);
        Ok(self.rewritten(header, wanted, self.get(header).bytes - TAG as u32))
    }

    /// The same header with one more label, and this ethertype.
    ///
    /// # Errors
    /// If it has as many labels as switches know.
    pub(crate) fn with_label(&mut self, header: u32, ethertype: u16, entry: u32) -> Result<u32, wire::Error> {
        let mut wanted = *self.frame(header);
        if wanted.labels == LABELS_MAX {
            return Err(wire::Error::Truncated { header: "headroom", need: TAG, have: 0 });
        }
        let at = mpls_at(wanted.bytes())?;
        wanted.put_in(at, entry.to_be_bytes());
        wanted.labels += 1;
        EthernetPacketMut::new_checked(wanted.bytes_mut())?.set_ethertype(ethertype);
        Ok(self.rewritten(header, wanted, self.get(header).bytes + TAG as u32))
    }

    /// The same header without its uppermost label, and with this ethertype.
    ///
    /// # Errors
    /// If it has none.
    pub(crate) fn without_label(&mut self, header: u32, ethertype: u16) -> Result<u32, wire::Error> {
        let mut wanted = *self.frame(header);
        let at = mpls_to_pop(wanted.bytes())?;
        let Some(labels) = wanted.labels.checked_sub(1) else {
            // It only has their ethertype, from whoever took the last one off.
            return Err(wire::Error::Truncated { header: "MPLS", need: TAG, have: 0 });
        };
        wanted.take_out(at);
        wanted.labels = labels;
        EthernetPacketMut::new_checked(wanted.bytes_mut())?.set_ethertype(ethertype);
        Ok(self.rewritten(header, wanted, self.get(header).bytes - TAG as u32))
    }

    /// The header that one becomes with these bytes, of packets of this length.
    fn rewritten(&mut self, header: u32, wanted: Frame, bytes: u32) -> u32 {
        let original = self.fields[header as usize].original;
        let mut known = [header, original].into_iter().chain(self.fields[original as usize].rewritten.iter().copied());
        if let Some(known) = known.find(|known| *self.frame(*known) == wanted) {
            return known;
        }
        let fields = Fields::new(wanted, original, self.all.len() as u32);
        let new = self.push(Header { bytes, ..self.all[header as usize] }, || fields);
        self.fields[original as usize].rewritten.push(new);
        new
    }
}

/// Addresses and ports in the other direction.
fn reversed(frame: &Frame) -> [u8; 12] {
    let mut tuple = *frame.behind(TUPLE).first_chunk().expect("it is as long");
    tuple[..8].rotate_left(4);
    tuple[8..].rotate_left(2);
    tuple
}

/// Simulated packets have no checksums: what is rewritten and back again has the bytes that it had.
fn leave_out_checksums(frame: &mut Frame) {
    const IP: usize = 14 + 10;
    const TCP: usize = 14 + 20 + 16;
    frame.behind_mut(IP..IP + 2).fill(0);
    frame.behind_mut(TCP..TCP + 2).fill(0);
}

/// The headers of a flow's frames, without checksums.
fn frame(from: &HostAddress, to: &HostAddress, upper: Upper) -> Frame {
    let mut frame = [0; BYTES_MAX];
    EthernetRepr { dst: to.mac, src: from.mac, vlan: None, ethertype: ethertype::IPV4 }.emit(&mut frame);
    let ip = &mut frame[14..];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&IP_BYTES.to_be_bytes());
    ip[8] = 64;
    let (protocol, src_port, dst_port) = match upper {
        Upper::Tcp(src, dst) => (protocol::TCP, src, dst),
        Upper::Udp(src, dst) => (protocol::UDP, src, dst),
        Upper::Fragment => (protocol::UDP, 0, 0),
    };
    if matches!(upper, Upper::Fragment) {
        ip[6..8].copy_from_slice(&MORE_FRAGMENTS.to_be_bytes());
    }
    if protocol == protocol::TCP {
        // Its header has no options; of a connection that goes on, all segments acknowledge.
        ip[20 + 12] = 5 << 4;
        ip[20 + 13] = tcp_flags::ACK;
    }
    ip[9] = protocol;
    ip[12..16].copy_from_slice(&from.ipv4.octets());
    ip[16..20].copy_from_slice(&to.ipv4.octets());
    ip[20..22].copy_from_slice(&src_port.to_be_bytes());
    ip[22..24].copy_from_slice(&dst_port.to_be_bytes());
    Frame { bytes: frame, is_tagged: false, labels: 0 }
}
