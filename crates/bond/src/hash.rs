//! Transmit hash policies, bit for bit those of the Linux 6.1 bonding driver on a little-endian machine: the same frame takes
//! the same member there and here.
//!
//! A frame is read as the driver sees it: its first 802.1Q or 802.1ad tag stands beside the frame, as hardware and bridges
//! leave it, so that the type behind the tag counts. (Before MPLS the tag is put back: the driver's device has no tag offload there.) Two things are out of reach, since they are not in the frame: the
//! kernel's `encap3+4` takes a local socket's flow hash instead, and it spreads TIPC keep-alives at random; here both are
//! hashed by their headers.
//!
//! Invariant: any bytes give a number, and no frame is looked at beyond its end.

mod encap;

use crate::config::HashPolicy;

/// 802.1Q and 802.1ad tags (IEEE 802.1Q, table 9-1).
const VLAN: u16 = 0x8100;
const VLAN_SERVICE: u16 = 0x88a8;
/// MPLS, for one station and for several (RFC 5332).
const MPLS: u16 = 0x8847;
const MPLS_MULTICAST: u16 = 0x8848;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ETHERNET: usize = 14;
const TAG: usize = 4;
/// Tags in a row that are followed (`VLAN_MAX_DEPTH`), that beside the frame included.
const TAGS_MAX: usize = 9;

const TCP: u8 = 6;
const UDP: u8 = 17;
const DCCP: u8 = 33;
const ESP: u8 = 50;
const AH: u8 = 51;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;
const UDPLITE: u8 = 136;

/// The number whose remainder by the count of usable members names the member.
#[inline]
pub fn hash(policy: HashPolicy, frame: &[u8]) -> u32 {
    Link::of(frame).map_or(0, |link| of_link(policy, &link))
}

/// The same for a frame whose link layer was read already.
#[inline]
pub(crate) fn of_link(policy: HashPolicy, link: &Link<'_>) -> u32 {
    match policy {
        HashPolicy::Layer2 => link.hash(),
        HashPolicy::VlanSrcMac => link.hash_of_vlan_and_source(),
        HashPolicy::Layer23 => layer23(link),
        HashPolicy::Layer34 => layer34(link),
        HashPolicy::Encap23 => encap::dissect(link).map_or(link.hash(), |flow| flow.layer23(link.hash())),
        HashPolicy::Encap34 => encap::dissect(link).map_or(link.hash(), |flow| flow.layer34()),
    }
}

/// The hash of [`HashPolicy::Layer23`].
#[expect(clippy::inline_always, reason = "as for `layer34`")]
#[inline(always)]
pub(crate) fn layer23(link: &Link<'_>) -> u32 {
    plain(link, false, |flow| flow.layer23(link.hash()))
}

/// The hash of [`HashPolicy::Layer34`].
#[expect(
    clippy::inline_always,
    reason = "a loop over a burst runs twice as fast with it, and the compiler leaves it out"
)]
#[inline(always)]
pub(crate) fn layer34(link: &Link<'_>) -> u32 {
    plain(link, true, Flow::layer34)
}

/// A frame's link layer.
pub(crate) struct Link<'a> {
    frame: &'a [u8],
    header: &'a [u8; ETHERNET],
    /// Tag control information of the first tag.
    tag: Option<u16>,
    /// What is carried, behind the first tag.
    pub(crate) ethertype: u16,
    /// Where it starts.
    pub(crate) payload_at: usize,
}

impl<'a> Link<'a> {
    #[inline]
    pub(crate) fn of(frame: &'a [u8]) -> Option<Self> {
        let header = frame.first_chunk::<ETHERNET>()?;
        let ethertype = u16::from_be_bytes([header[12], header[13]]);
        let mut link = Self { frame, header, tag: None, ethertype, payload_at: ETHERNET };
        if (ethertype == VLAN || ethertype == VLAN_SERVICE)
            && let Some(tag) = chunk::<TAG>(frame, ETHERNET)
        {
            link.payload_at = ETHERNET + TAG;
            if !is_tagged_mpls(frame) {
                link.tag = Some(u16::from_be_bytes([tag[0], tag[1]]));
                link.ethertype = u16::from_be_bytes([tag[2], tag[3]]);
            }
        }
        Some(link)
    }

    /// Destination and source.
    #[inline]
    pub(crate) const fn addresses(&self) -> ([u8; 6], [u8; 6]) {
        let h = self.header;
        ([h[0], h[1], h[2], h[3], h[4], h[5]], [h[6], h[7], h[8], h[9], h[10], h[11]])
    }

    /// Policy `layer2`: the last bytes of both addresses, and the type.
    #[inline]
    fn hash(&self) -> u32 {
        u32::from(self.header[5] ^ self.header[11]) ^ u32::from(self.ethertype)
    }

    /// Policy `vlan+srcmac`: both halves of the source address, and the tag with its priority.
    fn hash_of_vlan_and_source(&self) -> u32 {
        let h = self.header;
        let halves = u32::from_be_bytes([0, h[6], h[7], h[8]]) ^ u32::from_be_bytes([0, h[9], h[10], h[11]]);
        halves ^ u32::from(self.tag.unwrap_or(0))
    }

    /// What stands at `at`, counted from the start of the frame.
    #[inline]
    pub(crate) fn read<const N: usize>(&self, at: usize) -> Option<&'a [u8; N]> {
        chunk(self.frame, at)
    }
}

/// Whether all tags of a frame are followed by MPLS. The driver's device does not offload tags of such frames (`net_mpls_features`), so
/// that the kernel puts the tag back before it asks the driver; what it calls the network header stays where it was.
#[inline(never)]
fn is_tagged_mpls(frame: &[u8]) -> bool {
    let types = (0..TAGS_MAX).map_while(|nth| chunk::<2>(frame, ETHERNET - 2 + nth * TAG));
    let inner = types.map(|bytes| u16::from_be_bytes(*bytes)).find(|kind| !matches!(*kind, VLAN | VLAN_SERVICE));
    matches!(inner, Some(MPLS | MPLS_MULTICAST))
}

#[inline]
fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>()
}

/// What is hashed of the headers above the link layer.
#[derive(Clone, Copy, Default)]
struct Flow {
    /// Source address; that of IPv6 folded to 32 bits. Read as little-endian, as the driver does.
    src: u32,
    dst: u32,
    /// Both ports, likewise.
    ports: u32,
    /// Type, code and identifier of an ICMP message, from the lowest byte up. The identifier is 0 for messages without.
    icmp: u32,
}

impl Flow {
    #[inline]
    fn layer23(&self, link: u32) -> u32 {
        self.fold(link)
    }

    /// The lowest bit is left out, since many hosts use even ports only.
    #[inline]
    fn layer34(&self) -> u32 {
        self.fold(if self.icmp >> 16 == 0 { self.ports } else { self.icmp }) >> 1
    }

    #[inline]
    fn fold(&self, start: u32) -> u32 {
        let hash = start ^ self.dst ^ self.src;
        let hash = hash ^ (hash >> 16);
        hash ^ (hash >> 8)
    }

    #[inline]
    fn read_ipv4_addresses(&mut self, header: &[u8; 20]) {
        self.src = word(header, 12);
        self.dst = word(header, 16);
    }

    #[inline]
    fn read_ipv6_addresses(&mut self, header: &[u8; 40]) {
        self.src = word(header, 8) ^ word(header, 12) ^ word(header, 16) ^ word(header, 20);
        self.dst = word(header, 24) ^ word(header, 28) ^ word(header, 32) ^ word(header, 36);
    }

    /// Ports, or the index of a security association (RFC 4301); 0 for other protocols and where the header is cut off.
    #[inline]
    fn read_ports(&mut self, link: &Link<'_>, at: usize, protocol: u8) {
        let offset = match protocol {
            TCP | UDP | DCCP | ESP | SCTP | UDPLITE => 0,
            AH => 4,
            _ => {
                self.ports = 0;
                return;
            }
        };
        self.ports = link.read(at + offset).map_or(0, |ports| u32::from_le_bytes(*ports));
    }

    /// An identifier of 0 becomes 1, since 0 stands for none. Types are those of both families, whichever it is.
    #[cold]
    fn read_icmp(&mut self, link: &Link<'_>, at: usize) {
        let Some(&[kind, code, _, _, id_high, id_low, _, _]) = link.read::<8>(at) else { return };
        // Echo, timestamp (RFC 792); echo (RFC 4443).
        let id = match kind {
            0 | 8 | 13 | 14 | 128 | 129 => u16::from_be_bytes([id_high, id_low]).max(1),
            _ => 0,
        };
        self.icmp = u32::from(kind) | u32::from(code) << 8 | u32::from(id) << 16;
    }

    /// The type of the ICMP message; that of an echo reply if none was read.
    const fn icmp_kind(&self) -> u8 {
        self.icmp as u8
    }
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Hashes what `layer2+3` and `layer3+4` look at; the link layer if it is not IP or its header is cut off.
#[expect(clippy::inline_always, reason = "as for `layer34`")]
#[inline(always)]
fn plain(link: &Link<'_>, with_ports: bool, hash: impl Fn(&Flow) -> u32) -> u32 {
    let (mut flow, mut at, mut protocol) = (Flow::default(), link.payload_at, None);
    if read_ip(link, &mut flow, &mut at, &mut protocol, with_ports).is_none() {
        return link.hash();
    }
    // Whatever takes the flow's address, even on a path that is seldom taken, makes it live in memory on all paths.
    if let Some(ICMP | ICMPV6) = protocol {
        return with_icmp(link, with_ports).map_or(link.hash(), |flow| hash(&flow));
    }
    hash(&flow)
}

/// What `layer2+3` and `layer3+4` look at. An ICMP error counts as part of the flow that it quotes. `None` if it is not IP
/// or its header is cut off.
#[cold]
fn with_icmp(link: &Link<'_>, with_ports: bool) -> Option<Flow> {
    let mut flow = Flow::default();
    let mut at = link.payload_at;
    let mut protocol = None;
    read_ip(link, &mut flow, &mut at, &mut protocol, with_ports)?;
    let is_error = match protocol {
        Some(ICMP) => {
            flow.read_icmp(link, at);
            matches!(flow.icmp_kind(), 3 | 4 | 5 | 11 | 12)
        }
        Some(ICMPV6) => {
            flow.read_icmp(link, at);
            matches!(flow.icmp_kind(), 1..=4)
        }
        _ => return Some(flow),
    };
    if is_error {
        at += 8;
        read_ip(link, &mut flow, &mut at, &mut protocol, with_ports)?;
    }
    Some(flow)
}

/// Reads one IP header. A fragment leaves the protocol as it was; IPv6 extension headers are not followed.
#[expect(clippy::inline_always, reason = "as for `layer34`")]
#[inline(always)]
fn read_ip(
    link: &Link<'_>,
    flow: &mut Flow,
    at: &mut usize,
    protocol: &mut Option<u8>,
    with_ports: bool,
) -> Option<()> {
    match link.ethertype {
        IPV4 => {
            let header = link.read::<20>(*at)?;
            flow.read_ipv4_addresses(header);
            *at += usize::from(header[0] & 0x0f) * 4;
            if !is_fragment(header) {
                *protocol = Some(header[9]);
            }
        }
        IPV6 => {
            let header = link.read::<40>(*at)?;
            flow.read_ipv6_addresses(header);
            *at += 40;
            *protocol = Some(header[6]);
        }
        _ => return None,
    }
    if with_ports && let Some(protocol) = *protocol {
        flow.read_ports(link, *at, protocol);
    }
    Some(())
}

/// More fragments follow, or it is not the first.
#[inline]
const fn is_fragment(header: &[u8; 20]) -> bool {
    header[6] & 0x3f != 0 || header[7] != 0
}

#[cfg(test)]
mod tests;
