//! Datagrams of UDP that come in fragments: only the first one has ports, so it says which connection all of them are of (RFC 791; RFC 8200, 4.5).
//!
//! Kernels send the first one first. What comes before it is lost, and so is what comes when too many others have come since: its sender's business is to send less at a time.

use machine::{Rebase, Span, Time};
use vswitch::Field;
use vswitch::conntrack::{Segment, Tuple};
use wire::{EthernetPacket, Ipv4Packet, Ipv6Packet, ethertype, protocol};

/// Datagrams that are known: of those with the same hash, the last one. A power of two.
const KNOWN: usize = 4_096;
/// How long a receiver waits for what is missing (`net.ipv4.ipfrag_time`).
const LIFETIME: Span = Span::from_secs(30);

/// So long the first one of a datagram is not taken for that of another one: kernels send all fragments at once, and give a number again after 65,536 datagrams.
const TOGETHER: Span = Span::from_ms(50);

/// What the fragments of a datagram have alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Datagram {
    src: u128,
    dst: u128,
    identification: u32,
    is_ipv6: bool,
}

/// One whose first fragment has come.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    datagram: Datagram,
    ports: (u16, u16),
    /// Time zero: none is here.
    until: Time,
}

/// The datagrams whose first fragments have come.
#[derive(Debug, Default)]
pub(super) struct FirstFragments {
    /// Empty until the first one comes.
    known: Vec<Known>,
    seed: u64,
}

impl Datagram {
    /// What it is to connection tracking.
    const fn segment(&self, (src_port, dst_port): (u16, u16)) -> Segment {
        let Self { src, dst, is_ipv6, .. } = *self;
        let tuple = Tuple { src, dst, src_port, dst_port, protocol: protocol::UDP, is_ipv6 };
        Segment { tuple, tcp_flags: 0, quoted: None, numbers: None }
    }
}

impl FirstFragments {
    pub fn new(seed: u64) -> Self {
        Self { known: Vec::new(), seed: machine::mix(seed ^ 0x6672_6167) }
    }

    /// What a fragment is to connection tracking, and whether it is a later one, which has no ports. `None`: it is none of UDP, or its first one is not known.
    pub fn segment(&mut self, now: Time, headers: &[u8]) -> Option<(Segment, bool)> {
        let (datagram, offset, payload) = read(headers)?;
        let at = self.place(&datagram);
        if offset == 0 {
            let [a, b, c, d] = *payload.first_chunk::<4>()?;
            let ports = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            self.known.resize(KNOWN, Known::default());
            let known = &mut self.known[at];
            if known.datagram != datagram || known.until + TOGETHER <= now + LIFETIME {
                *known = Known { datagram, ports, until: now + LIFETIME };
            }
            return Some((datagram.segment(ports), false));
        }
        let known = self.known.get(at).filter(|known| known.datagram == datagram && known.until > now)?;
        Some((datagram.segment(known.ports), true))
    }

    fn place(&self, datagram: &Datagram) -> usize {
        let Datagram { src, dst, identification, is_ipv6 } = *datagram;
        let words = [src as u64, (src >> 64) as u64, dst as u64, (dst >> 64) as u64, identification.into()];
        let hash = words.into_iter().fold(self.seed ^ u64::from(is_ipv6), |hash, word| machine::mix(hash ^ word));
        hash as usize & (KNOWN - 1)
    }
}

impl Rebase for FirstFragments {
    fn rebase(&mut self, by: Span) {
        let Self { known, seed: _ } = self;
        for Known { datagram: _, ports: _, until } in known {
            until.rebase(by);
        }
    }
}

/// What is written into a fragment that has no ports.
pub(super) fn without_ports(fields: &mut Vec<Field>) {
    fields.retain(|field| !matches!(field, Field::SrcPort(_) | Field::DstPort(_)));
}

/// Of which datagram of UDP a frame is a fragment, from where on, and its bytes.
fn read(headers: &[u8]) -> Option<(Datagram, u16, &[u8])> {
    let ethernet = EthernetPacket::new_checked(headers).ok()?;
    match ethernet.ethertype() {
        ethertype::IPV4 => {
            let ip = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
            let is_one = ip.is_fragment() && ip.protocol() == protocol::UDP;
            let (src, dst) = (ip.src().to_bits().into(), ip.dst().to_bits().into());
            let datagram = Datagram { src, dst, identification: ip.identification().into(), is_ipv6: false };
            is_one.then(|| (datagram, ip.fragment_offset(), ip.payload()))
        }
        ethertype::IPV6 => {
            let ip = Ipv6Packet::new_checked(ethernet.payload()).ok()?;
            let upper = ip.upper_layer().ok().filter(|upper| upper.protocol == protocol::UDP)?;
            let (fragment, src, dst) = (upper.fragment?, ip.src().to_bits(), ip.dst().to_bits());
            let datagram = Datagram { src, dst, identification: fragment.identification, is_ipv6: true };
            Some((datagram, fragment.offset, upper.payload))
        }
        _ => None,
    }
}
