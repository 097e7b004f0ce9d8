//! What a flow matches, as `ovs-ofctl` reads and prints it.

use std::fmt::{self, Write};
use std::net::IpAddr;
use std::ops::Range;

use topology::PortId;
use wire::{ethertype, protocol};

use super::error::{FlowError, nearest, shown};
use super::key::{Key, RARP, SCTP, Slot, VLAN_PRESENT, mac_of};
use super::match_field::{FIELDS, Form, Masked, MatchField};
use super::ports::Ports;
use super::scan::Pair;
use crate::flow_key::FlowKey;

/// Which packets a flow is for: those that agree with `key` in all bits of `mask`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Match {
    /// Nothing but the bits of the mask.
    pub key: Key,
    /// The bits that are looked at.
    pub mask: Key,
}

/// Words for kinds of packets: ethertype, and protocol above it.
const KINDS: [(&str, u16, Option<u8>); 14] = [
    ("icmp", ethertype::IPV4, Some(protocol::ICMP)),
    ("tcp", ethertype::IPV4, Some(protocol::TCP)),
    ("udp", ethertype::IPV4, Some(protocol::UDP)),
    ("sctp", ethertype::IPV4, Some(SCTP)),
    ("icmp6", ethertype::IPV6, Some(protocol::ICMPV6)),
    ("tcp6", ethertype::IPV6, Some(protocol::TCP)),
    ("udp6", ethertype::IPV6, Some(protocol::UDP)),
    ("sctp6", ethertype::IPV6, Some(SCTP)),
    ("ip", ethertype::IPV4, None),
    ("ipv6", ethertype::IPV6, None),
    ("arp", ethertype::ARP, None),
    ("rarp", RARP, None),
    ("mpls", ethertype::MPLS, None),
    ("mplsm", ethertype::MPLS_UPSTREAM, None),
];

/// The words for kinds of packets.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|(word, ..)| *word)
}

/// The bits of a tag that identify the VLAN.
const VLAN_ID: u16 = 0x0fff;

/// `dl_vlan=0xffff` matches what has no tag.
const NO_VLAN: [&str; 2] = ["0xffff", "65535"];

/// A match that is read, with what its fields need.
#[derive(Debug, Default)]
pub struct MatchReader<'a> {
    pub matching: Match,
    given: Vec<(&'static MatchField, &'a str, Range<usize>)>,
}

impl<'a> MatchReader<'a> {
    /// Takes a piece of a flow's text, if it is of a match.
    pub fn take(&mut self, pair: &Pair<'a>, ports: &Ports) -> Result<bool, FlowError> {
        if let Some((_, ethertype, upper)) = KINDS.iter().find(|(word, ..)| *word == pair.word) {
            pair.alone()?;
            self.narrow(Slot::ETH_TYPE, (u64::from(*ethertype), Slot::ETH_TYPE.all()), pair)?;
            if let Some(upper) = upper {
                self.narrow(Slot::IP_PROTO, (u64::from(*upper), Slot::IP_PROTO.all()), pair)?;
            }
            return Ok(true);
        }
        let Some(field) = MatchField::find(pair.word) else { return Ok(false) };
        let (text, at) = pair.needed(example(field))?;
        if field.name == "dl_vlan" && NO_VLAN.contains(&text) {
            self.narrow(Slot::VLAN_TCI, (0, u64::from(VLAN_PRESENT | VLAN_ID)), pair)?;
            return Ok(true);
        }
        let masked = match field.form {
            Form::Port => Masked { value: u128::from(ports.find(text, &at)?.0), mask: field.all() },
            _ => field.parse(text, &at)?,
        };
        self.given.push((field, pair.word, pair.span()));
        let Masked { value, mask } = masked;
        if field.bits == 128 {
            let high = Slot { word: field.slot.word - 1, ..field.slot };
            self.narrow(high, ((value >> 64) as u64, (mask >> 64) as u64), pair)?;
            self.narrow(field.slot, (value as u64, mask as u64), pair)?;
        } else {
            let bits = |bits: u128| (bits as u64) << field.low | field.implied;
            self.narrow(field.slot, (bits(value), bits(mask)), pair)?;
        }
        Ok(true)
    }

    /// Refuses fields that matched packets need not have.
    pub fn finish(self) -> Result<Match, FlowError> {
        let Match { key, mask } = self.matching;
        for (field, word, at) in self.given {
            field.needs.check(&key, &mask, word, at)?;
        }
        Ok(self.matching)
    }

    fn narrow(&mut self, slot: Slot, (value, mask): (u64, u64), pair: &Pair<'_>) -> Result<(), FlowError> {
        let Match { key, mask: known } = &mut self.matching;
        if (key.get(slot) ^ value) & known.get(slot) & mask != 0 {
            return Err(FlowError::new(
                pair.span(),
                format!("`{}` contradicts what stands in front of it", shown(pair.word)),
                "no packet would match: take one of them away",
            ));
        }
        key.add(slot, value & mask);
        known.add(slot, mask);
        Ok(())
    }
}

/// How a field is written, for messages.
const fn example(field: &MatchField) -> &'static str {
    match field.form {
        Form::Decimal | Form::Hex => "tp_dst=80",
        Form::Mac => "dl_dst=02:00:00:00:00:01",
        Form::Ipv4 => "nw_dst=10.0.0.0/8",
        Form::Ipv6 => "ipv6_dst=fd00::/64",
        Form::Port => "in_port=1",
        Form::Fragment => "nw_frag=no",
        Form::TcpFlags => "tcp_flags=+syn-ack",
        Form::CtState => "ct_state=+trk+new",
    }
}

/// What to write in the place of a word that is neither a field nor a kind of packets.
pub fn unknown_field(word: &str, at: Range<usize>, others: &[&'static str]) -> FlowError {
    let near = nearest(word, others.iter().copied().chain(kinds())).or_else(|| MatchField::nearest(word));
    let hint = near.map_or_else(
        || "write kinds of packets and fields, as in `tcp,nw_dst=10.0.0.0/8,tp_dst=80`, then `actions=..`".to_owned(),
        |near| format!("did you mean `{near}`?"),
    );
    FlowError::new(at, format!("`{}` is no field of packets", shown(word)), hint)
}

impl Match {
    /// Whether a packet is matched.
    pub fn has(&self, key: &Key) -> bool {
        self.key.agrees(key, &self.mask)
    }

    /// Whether all packets of `other` are matched.
    pub fn covers(&self, other: &Self) -> bool {
        self.mask.is_within(&other.mask) && self.key.agrees(&other.key, &self.mask)
    }

    /// What packets match that come back from those which this matches: sources and destinations have changed places. ICMP's types and codes stay, since they are
    /// in the places of ports.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let protocol = self.key.get(Slot::IP_PROTO) as u8;
        let is_icmp = matches!(protocol, protocol::ICMP | protocol::ICMPV6) && self.mask.get(Slot::IP_PROTO) != 0;
        let swap = |key: &Key| {
            let mut swapped = *key;
            let slots = [(Slot::ETH_SRC, Slot::ETH_DST), (Slot::TP_SRC, Slot::TP_DST)];
            for (src, dst) in slots.into_iter().filter(|(src, _)| !is_icmp || *src != Slot::TP_SRC) {
                swapped.set(src, key.get(dst));
                swapped.set(dst, key.get(src));
            }
            swapped.set_wide(Slot::SRC_LOW, key.wide(Slot::DST_LOW));
            swapped.set_wide(Slot::DST_LOW, key.wide(Slot::SRC_LOW));
            swapped
        };
        Self { key: swap(&self.key), mask: swap(&self.mask) }
    }

    /// Whether all packets are matched.
    pub fn is_for_all(&self) -> bool {
        self.mask == Key::default()
    }

    /// Whether a frame is matched. What is malformed is not.
    pub fn has_frame(&self, frame: &[u8]) -> bool {
        Key::parse(0, frame).is_ok_and(|key| self.has(&key))
    }

    /// Whether packets of a flow are matched of which this much is known. What is in no flow's key (times to live, tags, flags) is 0.
    pub fn has_flow(&self, flow: &FlowKey) -> bool {
        self.has(&Key::of_flow(flow))
    }

    /// The same of a flow of which it may not be known from which port it comes, and to which it goes.
    pub fn may_have_flow(&self, flow: &FlowKey, (source_port, port): (bool, bool)) -> bool {
        let mut known = *self;
        for (slot, is_known) in [(Slot::TP_SRC, source_port), (Slot::TP_DST, port)] {
            if !is_known {
                known.key.set(slot, 0);
                known.mask.set(slot, 0);
            }
        }
        known.has_flow(flow)
    }

    /// A field that is matched though it is none of a packet's, but what a switch knows of one: its port and the tunnel behind it, its connection, its metadata. [`Match::has_frame`] has none of them.
    pub fn of_switch(&self) -> Option<&'static str> {
        let slots = [Slot::CT_STATE, Slot::CT_ZONE, Slot::CT_MARK, Slot::METADATA, Slot::IN_PORT, Slot::TUN_ID];
        let slot = slots.into_iter().find(|slot| self.mask.get(*slot) != 0)?;
        FIELDS.iter().find(|field| field.slot == slot).map(|field| field.name)
    }

    /// The port that packets have come in by, if that is matched.
    pub fn in_port(&self) -> Option<PortId> {
        (self.mask.get(Slot::IN_PORT) != 0).then(|| PortId(self.key.get(Slot::IN_PORT) as u16))
    }

    /// Where packets are sent to, if that is matched exactly: their MAC and their IPv4 or IPv6 address.
    pub fn destination(&self) -> (Option<[u8; 6]>, Option<IpAddr>) {
        let exact = |slot: Slot| (self.mask.get(slot) == slot.all()).then(|| self.key.get(slot));
        let ip = match exact(Slot::ETH_TYPE).map(|ethertype| ethertype as u16) {
            Some(ethertype::IPV4) => exact(Slot::IPV4_DST).map(|bits| IpAddr::V4((bits as u32).into())),
            Some(ethertype::IPV6) if self.mask.wide(Slot::DST_LOW) == u128::MAX => {
                Some(IpAddr::V6(self.key.wide(Slot::DST_LOW).into()))
            }
            _ => None,
        };
        (exact(Slot::ETH_DST).map(mac_of), ip)
    }

    /// Whether anything of an IP source address is matched.
    pub const fn has_source(&self) -> bool {
        self.mask.wide(Slot::SRC_LOW) != 0
    }

    /// What a flow's key says of a packet with these fields: those that are not matched are 0.
    pub fn flow_key(&self) -> FlowKey {
        let key = &self.key;
        let tci = key.get(Slot::VLAN_TCI) as u16;
        let ethertype = key.get(Slot::ETH_TYPE) as u16;
        let address = |low: Slot, ipv4: Slot| {
            if ethertype == ethertype::IPV6 { key.wide(low) } else { u128::from(key.get(ipv4)) }
        };
        FlowKey {
            eth_dst: mac_of(key.get(Slot::ETH_DST)),
            eth_src: mac_of(key.get(Slot::ETH_SRC)),
            vlan: (tci & VLAN_PRESENT != 0).then_some(tci & !VLAN_PRESENT),
            ethertype,
            protocol: key.get(Slot::IP_PROTO) as u8,
            src_port: key.get(Slot::TP_SRC) as u16,
            dst_port: key.get(Slot::TP_DST) as u16,
            src: address(Slot::SRC_LOW, Slot::IPV4_SRC),
            dst: address(Slot::DST_LOW, Slot::IPV4_DST),
        }
    }

    fn kind(&self) -> Option<(&'static str, u16, Option<u8>)> {
        let exact = |slot: Slot| (self.mask.get(slot) == slot.all()).then(|| self.key.get(slot));
        let (ethertype, protocol) = (exact(Slot::ETH_TYPE)?, exact(Slot::IP_PROTO));
        // Those with a protocol come first.
        KINDS.into_iter().find(|(_, wanted, upper)| {
            u64::from(*wanted) == ethertype && upper.is_none_or(|upper| protocol == Some(u64::from(upper)))
        })
    }

    fn write_vlan(&self, out: &mut CommaSeparated<'_, '_>) -> fmt::Result {
        let (tci, mask) = (self.key.get(Slot::VLAN_TCI) as u16, self.mask.get(Slot::VLAN_TCI) as u16);
        let is_tagged = mask & VLAN_PRESENT != 0 && tci & VLAN_PRESENT != 0;
        let (vid, pcp) = (mask & VLAN_ID, mask & 0xe000);
        if mask == 0 {
            return Ok(());
        }
        if is_tagged && matches!(vid, 0 | VLAN_ID) && matches!(pcp, 0 | 0xe000) && vid | pcp != 0 {
            if vid != 0 {
                write!(out.next()?, "dl_vlan={}", tci & VLAN_ID)?;
            }
            if pcp != 0 {
                write!(out.next()?, "dl_vlan_pcp={}", tci >> 13)?;
            }
            return Ok(());
        }
        let out = out.next()?;
        if mask == u16::MAX {
            write!(out, "vlan_tci={tci:#06x}")
        } else {
            write!(out, "vlan_tci={tci:#06x}/{mask:#06x}")
        }
    }
}

/// Pieces of a text with commas between them.
struct CommaSeparated<'a, 'b> {
    out: &'a mut fmt::Formatter<'b>,
    is_first: bool,
}

impl<'b> CommaSeparated<'_, 'b> {
    fn next(&mut self) -> Result<&mut fmt::Formatter<'b>, fmt::Error> {
        if !std::mem::take(&mut self.is_first) {
            self.out.write_char(',')?;
        }
        Ok(self.out)
    }
}

/// The fields of connections come first; what kind of packets it is stands behind them.
const OF_CONNECTIONS: usize = 3;

/// Names that are printed by another name, or elsewhere.
const NOT_PRINTED: [&str; 15] = [
    "dl_vlan",
    "dl_vlan_pcp",
    "vlan_vid",
    "vlan_tci",
    "ip_dscp",
    "tcp_src",
    "tcp_dst",
    "udp_src",
    "udp_dst",
    "sctp_src",
    "sctp_dst",
    "nw_tos",
    "nw_ecn",
    "icmpv6_type",
    "icmpv6_code",
];

impl fmt::Display for Match {
    /// As `ovs-ofctl dump-flows` prints it; nothing where all packets are matched.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = CommaSeparated { out: f, is_first: true };
        let kind = self.kind();
        for (number, field) in FIELDS.iter().enumerate() {
            if let Some((word, ..)) = kind.filter(|_| number == OF_CONNECTIONS) {
                out.next()?.write_str(word)?;
            }
            if field.name == "dl_vlan" {
                self.write_vlan(&mut out)?;
            }
            let masked = Masked { value: field.get(&self.key), mask: field.get(&self.mask) };
            if field.name == "nw_tos" && masked.mask != 0 {
                write!(out.next()?, "nw_tos={}", masked.value)?;
            }
            if field.name == "nw_ecn" && masked.mask != 0 {
                write!(out.next()?, "nw_ecn={}", masked.value)?;
            }
            let is_of_kind = match field.name {
                "dl_type" => kind.is_some(),
                "nw_proto" => kind.is_some_and(|(_, _, upper)| upper.is_some()),
                // The names for ARP stand in front of those for both.
                "nw_src" | "nw_dst" => !super::match_field::Needs::Ipv4.are_met(&self.key, &self.mask),
                _ => false,
            };
            if masked.mask == 0
                || is_of_kind
                || NOT_PRINTED.contains(&field.name)
                || !field.needs.are_met(&self.key, &self.mask)
            {
                continue;
            }
            let out = out.next()?;
            write!(out, "{}=", field.name)?;
            field.write(out, masked)?;
        }
        Ok(())
    }
}
