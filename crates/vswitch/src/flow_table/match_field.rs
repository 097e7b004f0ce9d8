//! The fields that flows name: where they are, how their values are written, and which packets have them.

use std::fmt::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use wire::{ethertype, kind, protocol};

use super::error::{FlowError, nearest, shown};
use super::key::{Key, RARP, SCTP, Slot, VLAN_PRESENT, mac_bits, mac_of};

/// How a field's value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A number, of decimal digits when it is printed.
    Decimal,
    /// A number, of hexadecimal digits when it is printed.
    Hex,
    Mac,
    Ipv4,
    Ipv6,
    /// A number or name of a port.
    Port,
    /// A word for kinds of fragments.
    Fragment,
    /// Flags of TCP that are set and others that are not, as in `+syn-ack`; or a number.
    TcpFlags,
    /// Flags of a packet's connection, likewise: `+trk+new`.
    CtState,
}

/// Which packets have a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    /// An 802.1Q tag.
    Vlan,
    Ip,
    Ipv4,
    Ipv6,
    Arp,
    /// A label stack.
    Mpls,
    /// IPv4, or as its sender's and target's addresses ARP.
    Ipv4OrArp,
    Transport,
    Tcp,
    Udp,
    Sctp,
    Icmp,
    Icmp6,
    /// A neighbour solicitation or advertisement.
    Neighbour,
    Solicitation,
    Advertisement,
}

impl Needs {
    /// What is missing, for messages: a word that may stand in front of the field, and in words.
    pub const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Nothing => ("", "any packet"),
            Self::Vlan => ("vlan_tci=0x1000/0x1000", "a tag (dl_vlan, vlan_vid or vlan_tci)"),
            Self::Ip => ("ip", "ip or ipv6"),
            Self::Ipv4 => ("ip", "ip"),
            Self::Ipv6 => ("ipv6", "ipv6"),
            Self::Arp => ("arp", "arp"),
            Self::Mpls => ("mpls", "mpls or mplsm"),
            Self::Ipv4OrArp => ("ip", "ip or arp"),
            Self::Transport => ("tcp", "tcp, udp, sctp, tcp6, udp6 or sctp6"),
            Self::Tcp => ("tcp", "tcp or tcp6"),
            Self::Udp => ("udp", "udp or udp6"),
            Self::Sctp => ("sctp", "sctp or sctp6"),
            Self::Icmp => ("icmp", "icmp or icmp6"),
            Self::Icmp6 => ("icmp6", "icmp6"),
            Self::Neighbour => {
                ("icmp6,icmp_type=135", "a neighbour solicitation or advertisement (icmp_type 135 or 136)")
            }
            Self::Solicitation => ("icmp6,icmp_type=135", "a neighbour solicitation (icmp_type 135)"),
            Self::Advertisement => ("icmp6,icmp_type=136", "a neighbour advertisement (icmp_type 136)"),
        }
    }

    /// Whether all packets that agree with `key` in `mask` have such a field.
    pub fn are_met(self, key: &Key, mask: &Key) -> bool {
        let exact = |slot: Slot| (mask.get(slot) == slot.all()).then(|| key.get(slot));
        let ethertype = exact(Slot::ETH_TYPE).unwrap_or(0) as u16;
        let protocol = exact(Slot::IP_PROTO).map(|protocol| protocol as u8);
        let is_ip = matches!(ethertype, ethertype::IPV4 | ethertype::IPV6);
        let is_upper = |wanted: u8| is_ip && protocol == Some(wanted);
        // The code is 0 unless something else is matched.
        let is_message = |kind: u8| {
            let is_of_kind = mask.get(Slot::TP_SRC) & 0xff == 0xff && key.get(Slot::TP_SRC) == u64::from(kind);
            let has_code = mask.get(Slot::TP_DST) & key.get(Slot::TP_DST) != 0;
            is_of_kind && !has_code && ethertype == ethertype::IPV6 && protocol == Some(protocol::ICMPV6)
        };
        match self {
            Self::Nothing => true,
            Self::Vlan => key.get(Slot::VLAN_TCI) & mask.get(Slot::VLAN_TCI) & u64::from(VLAN_PRESENT) != 0,
            Self::Ip => is_ip,
            Self::Ipv4 => ethertype == ethertype::IPV4,
            Self::Ipv6 => ethertype == ethertype::IPV6,
            Self::Arp => matches!(ethertype, ethertype::ARP | RARP),
            Self::Mpls => ethertype::is_mpls(ethertype),
            Self::Ipv4OrArp => matches!(ethertype, ethertype::IPV4 | ethertype::ARP | RARP),
            Self::Transport => is_upper(protocol::TCP) || is_upper(protocol::UDP) || is_upper(SCTP),
            Self::Tcp => is_upper(protocol::TCP),
            Self::Udp => is_upper(protocol::UDP),
            Self::Sctp => is_upper(SCTP),
            Self::Icmp => {
                (ethertype == ethertype::IPV4 && protocol == Some(protocol::ICMP)) || Self::Icmp6.are_met(key, mask)
            }
            Self::Icmp6 => ethertype == ethertype::IPV6 && protocol == Some(protocol::ICMPV6),
            Self::Neighbour => Self::Solicitation.are_met(key, mask) || Self::Advertisement.are_met(key, mask),
            Self::Solicitation => is_message(kind::NEIGHBOUR_SOLICITATION),
            Self::Advertisement => is_message(kind::NEIGHBOUR_ADVERTISEMENT),
        }
    }

    /// Refuses a field that packets need not have.
    pub fn check(self, key: &Key, mask: &Key, word: &str, at: Range<usize>) -> Result<(), FlowError> {
        if self.are_met(key, mask) {
            return Ok(());
        }
        let (example, wanted) = self.words();
        Err(FlowError::new(
            at,
            format!("`{word}` needs {wanted} to be matched"),
            format!("write `{example}` in front of it, as in `{example},{word}=..`"),
        ))
    }
}

/// A field that flows name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchField {
    /// As it is printed.
    pub name: &'static str,
    /// Other names that mean the same.
    pub also: &'static [&'static str],
    pub slot: Slot,
    /// Where it begins in the slot, and how many bits it has. Of an IPv6 address it is 128, and the slot is that of the lower half.
    pub low: u32,
    pub bits: u32,
    pub form: Form,
    pub is_maskable: bool,
    pub needs: Needs,
    /// Bits of the slot that are matched whenever the field is.
    pub implied: u64,
}

const fn field(name: &'static str, also: &'static [&'static str], slot: Slot, form: Form, needs: Needs) -> MatchField {
    MatchField { name, also, slot, low: 0, bits: slot.bits, form, is_maskable: true, needs, implied: 0 }
}

const fn exact(name: &'static str, also: &'static [&'static str], slot: Slot, form: Form, needs: Needs) -> MatchField {
    MatchField { is_maskable: false, ..field(name, also, slot, form, needs) }
}

const fn within(low: u32, bits: u32, field: MatchField) -> MatchField {
    MatchField { low, bits, ..field }
}

const fn tagged(field: MatchField) -> MatchField {
    MatchField { implied: VLAN_PRESENT as u64, ..field }
}

use Form::{Decimal, Hex};

/// All of them; in this order they are printed.
pub static FIELDS: [MatchField; 49] = [
    field("ct_state", &[], Slot::CT_STATE, Form::CtState, Needs::Nothing),
    field("ct_zone", &[], Slot::CT_ZONE, Decimal, Needs::Nothing),
    field("ct_mark", &[], Slot::CT_MARK, Hex, Needs::Nothing),
    field("tun_id", &["tunnel_id"], Slot::TUN_ID, Hex, Needs::Nothing),
    field("metadata", &[], Slot::METADATA, Hex, Needs::Nothing),
    exact("in_port", &[], Slot::IN_PORT, Form::Port, Needs::Nothing),
    tagged(within(0, 12, exact("dl_vlan", &[], Slot::VLAN_TCI, Decimal, Needs::Nothing))),
    tagged(within(13, 3, exact("dl_vlan_pcp", &["vlan_pcp"], Slot::VLAN_TCI, Decimal, Needs::Nothing))),
    within(0, 13, field("vlan_vid", &[], Slot::VLAN_TCI, Decimal, Needs::Nothing)),
    field("vlan_tci", &[], Slot::VLAN_TCI, Hex, Needs::Nothing),
    field("dl_src", &["eth_src"], Slot::ETH_SRC, Form::Mac, Needs::Nothing),
    field("dl_dst", &["eth_dst"], Slot::ETH_DST, Form::Mac, Needs::Nothing),
    exact("dl_type", &["eth_type"], Slot::ETH_TYPE, Hex, Needs::Nothing),
    field("arp_spa", &[], Slot::IPV4_SRC, Form::Ipv4, Needs::Arp),
    field("arp_tpa", &[], Slot::IPV4_DST, Form::Ipv4, Needs::Arp),
    field("nw_src", &["ip_src", "ipv4_src"], Slot::IPV4_SRC, Form::Ipv4, Needs::Ipv4OrArp),
    field("nw_dst", &["ip_dst", "ipv4_dst"], Slot::IPV4_DST, Form::Ipv4, Needs::Ipv4OrArp),
    within(0, 128, field("ipv6_src", &[], Slot::SRC_LOW, Form::Ipv6, Needs::Ipv6)),
    within(0, 128, field("ipv6_dst", &[], Slot::DST_LOW, Form::Ipv6, Needs::Ipv6)),
    field("ipv6_label", &[], Slot::IPV6_LABEL, Hex, Needs::Ipv6),
    exact("arp_op", &[], Slot::IP_PROTO, Decimal, Needs::Arp),
    exact("nw_proto", &["ip_proto"], Slot::IP_PROTO, Decimal, Needs::Ip),
    field("arp_sha", &[], Slot::ARP_SHA, Form::Mac, Needs::Arp),
    field("arp_tha", &[], Slot::ARP_THA, Form::Mac, Needs::Arp),
    exact("nw_tos", &[], Slot::IP_TOS, Decimal, Needs::Ip),
    within(2, 6, exact("ip_dscp", &[], Slot::IP_TOS, Decimal, Needs::Ip)),
    within(0, 2, exact("nw_ecn", &["ip_ecn"], Slot::IP_TOS, Decimal, Needs::Ip)),
    exact("nw_ttl", &["ip_ttl"], Slot::IP_TTL, Decimal, Needs::Ip),
    within(12, 20, exact("mpls_label", &[], Slot::MPLS, Decimal, Needs::Mpls)),
    within(9, 3, exact("mpls_tc", &[], Slot::MPLS, Decimal, Needs::Mpls)),
    within(0, 8, exact("mpls_ttl", &[], Slot::MPLS, Decimal, Needs::Mpls)),
    within(8, 1, exact("mpls_bos", &[], Slot::MPLS, Decimal, Needs::Mpls)),
    field("nw_frag", &["ip_frag"], Slot::IP_FRAG, Form::Fragment, Needs::Ip),
    field("tp_src", &[], Slot::TP_SRC, Decimal, Needs::Transport),
    field("tp_dst", &[], Slot::TP_DST, Decimal, Needs::Transport),
    field("tcp_src", &[], Slot::TP_SRC, Decimal, Needs::Tcp),
    field("tcp_dst", &[], Slot::TP_DST, Decimal, Needs::Tcp),
    field("udp_src", &[], Slot::TP_SRC, Decimal, Needs::Udp),
    field("udp_dst", &[], Slot::TP_DST, Decimal, Needs::Udp),
    field("sctp_src", &[], Slot::TP_SRC, Decimal, Needs::Sctp),
    field("sctp_dst", &[], Slot::TP_DST, Decimal, Needs::Sctp),
    within(0, 8, exact("icmp_type", &["icmpv4_type"], Slot::TP_SRC, Decimal, Needs::Icmp)),
    within(0, 8, exact("icmp_code", &["icmpv4_code"], Slot::TP_DST, Decimal, Needs::Icmp)),
    within(0, 8, exact("icmpv6_type", &[], Slot::TP_SRC, Decimal, Needs::Icmp6)),
    within(0, 8, exact("icmpv6_code", &[], Slot::TP_DST, Decimal, Needs::Icmp6)),
    field("tcp_flags", &[], Slot::TCP_FLAGS, Form::TcpFlags, Needs::Tcp),
    within(0, 128, field("nd_target", &[], Slot::ND_TARGET_LOW, Form::Ipv6, Needs::Neighbour)),
    field("nd_sll", &[], Slot::ARP_SHA, Form::Mac, Needs::Solicitation),
    field("nd_tll", &[], Slot::ARP_THA, Form::Mac, Needs::Advertisement),
];

/// `nw_tos` has the congestion bits in it, which are not matched.
const DSCP: u128 = 0xfc;

/// Names of TCP's flags, from the lowest bit on.
const TCP_FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

/// Names of the flags of a packet's connection, from the lowest bit on.
const CT_STATES: [&str; 8] = ["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];

impl Form {
    /// The names of its flags, from the lowest bit on, if it has some.
    const fn flags(self) -> Option<&'static [&'static str; 8]> {
        match self {
            Self::TcpFlags => Some(&TCP_FLAGS),
            Self::CtState => Some(&CT_STATES),
            Self::Decimal | Self::Hex | Self::Mac | Self::Ipv4 | Self::Ipv6 | Self::Port | Self::Fragment => None,
        }
    }
}

/// Reads flags with their signs: `+syn-ack`.
fn signed_flags(text: &str, names: &[&str]) -> Option<Masked> {
    let mut flags = Masked { value: 0, mask: 0 };
    let mut rest = text;
    while !rest.is_empty() {
        let (is_set, word) = match rest.split_at_checked(1)? {
            ("+", word) => (true, word),
            ("-", word) => (false, word),
            _ => return None,
        };
        let length = word.find(['+', '-']).unwrap_or(word.len());
        let bit = 1 << names.iter().position(|flag| *flag == &word[..length])?;
        if flags.mask & bit != 0 {
            return None;
        }
        flags.mask |= bit;
        flags.value |= if is_set { bit } else { 0 };
        rest = &word[length..];
    }
    Some(flags)
}

/// Words for kinds of fragments: value and mask.
pub const FRAGMENTS: [(&str, u64, u64); 5] =
    [("no", 0, 3), ("yes", 1, 1), ("first", 1, 3), ("later", 3, 3), ("not_later", 0, 2)];

/// A value of a field, and which bits of it count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Masked {
    pub value: u128,
    pub mask: u128,
}

impl MatchField {
    /// The field of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        FIELDS.iter().find(|field| field.name == name || field.also.contains(&name))
    }

    /// The name that is most like this one.
    pub fn nearest(name: &str) -> Option<&'static str> {
        nearest(name, FIELDS.iter().flat_map(|field| std::iter::once(field.name).chain(field.also.iter().copied())))
    }

    /// A mask of all its bits, unshifted.
    pub fn all(&self) -> u128 {
        if self.name == "nw_tos" { DSCP } else { u128::MAX >> (128 - self.bits) }
    }

    /// What is in it.
    pub fn get(&self, key: &Key) -> u128 {
        if self.bits == 128 {
            return key.wide(self.slot);
        }
        u128::from(key.get(self.slot) >> self.low) & self.all()
    }

    /// Writes these bits of it.
    pub fn set(&self, key: &mut Key, Masked { value, mask }: Masked) {
        if self.bits == 128 {
            return key.set_wide(self.slot, key.wide(self.slot) & !mask | value & mask);
        }
        let mask = (mask as u64) << self.low;
        key.set(self.slot, key.get(self.slot) & !mask | (value as u64) << self.low & mask);
    }

    /// Reads a value with its mask, if it may have one.
    pub fn parse(&self, text: &str, at: &Range<usize>) -> Result<Masked, FlowError> {
        if let Form::Fragment = self.form {
            let found = FRAGMENTS.iter().find(|(word, ..)| *word == text);
            let words = FRAGMENTS.map(|(word, ..)| word).join(", ");
            return found
                .map(|(_, value, mask)| Masked { value: u128::from(*value), mask: u128::from(*mask) })
                .ok_or_else(|| {
                    let message = format!("`{}` is no kind of fragment", shown(text));
                    FlowError::new(at.clone(), message, format!("write one of {words}"))
                });
        }
        if let Some(names) = self.form.flags().filter(|_| text.starts_with(['+', '-'])) {
            return signed_flags(text, names).ok_or_else(|| {
                let message = format!("`{}` are no flags of `{}`", shown(text), self.name);
                let hint = format!("write them as in `+{}-{}`: {}", names[1], names[4], names.join(", "));
                FlowError::new(at.clone(), message, hint)
            });
        }
        let (value, mask) = match text.split_once('/') {
            None => (text, None),
            Some((_, mask)) if !self.is_maskable => {
                let at = at.end - mask.len() - 1..at.end;
                return Err(FlowError::new(at, format!("`{}` has no mask", self.name), "write the value alone"));
            }
            Some((value, mask)) => (value, Some((mask, at.end - mask.len()..at.end))),
        };
        let value_at = at.start..at.start + value.len();
        let value = self.value(value, value_at.clone())?;
        let mask = match mask {
            None => self.all(),
            Some((mask, at)) => self.mask(mask, at)?,
        };
        if value & !self.all() != 0 {
            let hint = match self.all() {
                DSCP => "write a multiple of 4 up to 252: the two lowest bits are nw_ecn".to_owned(),
                all => format!("write at most {all}, which is {all:#x}"),
            };
            return Err(FlowError::new(value_at, format!("`{}` does not have that many bits", self.name), hint));
        }
        Ok(Masked { value: value & mask, mask })
    }

    fn value(&self, text: &str, at: Range<usize>) -> Result<u128, FlowError> {
        let (value, example) = match self.form {
            Form::Mac => (mac(text).map(u128::from), "a MAC address, as in 02:00:00:00:00:01"),
            Form::Ipv4 => (ipv4(text), "an IPv4 address, as in 10.0.0.1 or 10.0.0.0/8"),
            Form::Ipv6 => (ipv6(text), "an IPv6 address, as in fd00::1 or fd00::/64"),
            Form::TcpFlags => (number(text), "flags, as in +syn-ack, or a number"),
            Form::CtState => (number(text), "flags, as in +trk+new, or a number"),
            Form::Decimal | Form::Hex | Form::Port | Form::Fragment => (number(text), "a number, as in 80 or 0x50"),
        };
        let message = || format!("`{}` is no value of `{}`", shown(text), self.name);
        value.ok_or_else(|| FlowError::new(at, message(), format!("write {example}")))
    }

    fn mask(&self, text: &str, at: Range<usize>) -> Result<u128, FlowError> {
        let prefix = match self.form {
            Form::Ipv4 | Form::Ipv6 => text.parse::<u32>().ok(),
            _ => None,
        };
        let mask = match prefix {
            Some(0) => Some(0),
            Some(length) if length <= self.bits => Some(self.all() >> (self.bits - length) << (self.bits - length)),
            Some(_) => None,
            None => self.value(text, at.clone()).ok().filter(|mask| mask & !self.all() == 0),
        };
        let hint = match self.form {
            Form::Ipv4 | Form::Ipv6 => format!("write a prefix length up to {}, or a mask like an address", self.bits),
            Form::Mac => "write a mask like an address: 01:00:00:00:00:00".to_owned(),
            _ => format!("write a number up to {:#x}", self.all()),
        };
        mask.ok_or_else(|| FlowError::new(at, format!("`{}` is no mask of `{}`", shown(text), self.name), hint))
    }

    /// Writes a value of it, without its mask.
    pub fn write_value(&self, out: &mut impl Write, value: u128) -> fmt::Result {
        match self.form {
            Form::Decimal | Form::Port | Form::Fragment => write!(out, "{value}"),
            Form::Hex if self.name == "dl_type" || self.name == "vlan_tci" => write!(out, "{value:#06x}"),
            Form::Hex | Form::TcpFlags | Form::CtState => write!(out, "{value:#x}"),
            Form::Mac => {
                let [first, rest @ ..] = mac_of(value as u64);
                write!(out, "{first:02x}")?;
                rest.iter().try_for_each(|byte| write!(out, ":{byte:02x}"))
            }
            Form::Ipv4 => write!(out, "{}", Ipv4Addr::from_bits(value as u32)),
            Form::Ipv6 => write!(out, "{}", Ipv6Addr::from_bits(value)),
        }
    }

    /// Writes a value of it with its mask, if that is not all.
    pub fn write(&self, out: &mut impl Write, Masked { value, mask }: Masked) -> fmt::Result {
        if let Form::Fragment = self.form {
            let found = FRAGMENTS.iter().find(|(_, v, m)| (u128::from(*v), u128::from(*m)) == (value, mask));
            return match found {
                Some((word, ..)) => out.write_str(word),
                // Whoever reads bits: no word says that only one of the two is known.
                None => write!(out, "{value:#x}/{mask:#x}"),
            };
        }
        let is_masked = mask != self.all();
        if let Some(names) = self.form.flags().filter(|_| is_masked) {
            let masked = names.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1);
            let mut signed = masked.map(|(bit, flag)| (if value >> bit & 1 == 1 { '+' } else { '-' }, flag));
            return signed.try_for_each(|(sign, flag)| write!(out, "{sign}{flag}"));
        }
        if is_masked && self.form == Form::Decimal {
            // Whoever reads bits reads them in hexadecimal digits.
            return write!(out, "{value:#x}/{mask:#x}");
        }
        self.write_value(out, value)?;
        if !is_masked {
            return Ok(());
        }
        let ones = mask.count_ones();
        if matches!(self.form, Form::Ipv4 | Form::Ipv6)
            && mask == (if ones == 0 { 0 } else { self.all() >> (self.bits - ones) << (self.bits - ones) })
        {
            return write!(out, "/{ones}");
        }
        out.write_char('/')?;
        self.write_value(out, mask)
    }
}

/// A number in decimal or, behind `0x`, in hexadecimal digits.
pub fn number(text: &str) -> Option<u128> {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |digits| (digits, 16));
    // A sign is none of its digits.
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u128::from_str_radix(digits, radix).ok()).flatten()
}

fn mac(text: &str) -> Option<u64> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        let part = parts.next().filter(|part| (1..=2).contains(&part.len()))?;
        *byte = part.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u8::from_str_radix(part, 16).ok())??;
    }
    parts.next().is_none().then(|| mac_bits(mac))
}

fn ipv4(text: &str) -> Option<u128> {
    text.parse::<Ipv4Addr>().ok().map(|address| u128::from(address.to_bits()))
}

fn ipv6(text: &str) -> Option<u128> {
    text.parse::<Ipv6Addr>().ok().map(Ipv6Addr::to_bits)
}
