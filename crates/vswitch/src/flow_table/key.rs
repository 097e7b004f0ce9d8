//! The header fields that flow tables match on, as words that are masked and compared at once.

mod read;

use machine::mix;
use wire::{MplsRepr, ethertype};

use crate::field::Field;
use crate::flow_key::FlowKey;
pub use crate::flow_key::{mac_bits, mac_of};

/// Words of a [`Key`].
pub const WORDS: usize = 14;

/// Of those, the ones that most packets have something in. Behind them is what only neighbour discovery and label stacks have.
const COMMON_WORDS: usize = 12;

/// By pair of words: what a hash is keyed by besides its seed. Digits of pi behind the point, as in Blowfish: nobody has chosen them.
const PAIR_KEYS: [[u64; 2]; WORDS / 2] = [
    [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344],
    [0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89],
    [0x4528_21e6_38d0_1377, 0xbe54_66cf_34e9_0c6c],
    [0xc0ac_29b7_c97c_50dd, 0x3f84_d5b5_b547_0917],
    [0x9216_d5d9_8979_fb1b, 0xd131_0ba6_98df_b5ac],
    [0x2ffd_72db_d01a_dfb7, 0xb8e1_afed_6a26_7e96],
    [0xba7c_9045_f12c_7f99, 0x24a1_9947_b391_6cf7],
];

/// Where the stages of a look-up end, in words: what is known without the packet's headers and of its first ones, and of its connection; Ethernet, network addresses, ports.
/// Whoever is told apart by an earlier one need not be looked at further (as in Open vSwitch's staged look-up).
pub const STAGES: [usize; 4] = [3, 5, 11, WORDS];

/// Bit of [`Slot::VLAN_TCI`] that says that there is a tag: where 802.1Q has its drop eligibility indicator, as in Open vSwitch.
pub const VLAN_PRESENT: u16 = 0x1000;

/// `ip_frag`: it is a fragment.
pub const FRAGMENT: u8 = 1;
/// `ip_frag`: it is one that is not the first.
pub const LATER_FRAGMENT: u8 = 2;

/// What is known of a packet that does not stand in its headers.
const OUTSIDE_HEADERS: [Slot; 7] =
    [Slot::METADATA, Slot::IN_PORT, Slot::TUN_ID, Slot::RECIRCULATION, Slot::CT_STATE, Slot::CT_ZONE, Slot::CT_MARK];

/// Entries of a label stack that are known; what is behind more is not.
pub const LABELS: usize = 4;

/// What is behind the label stack of a packet, as far as its fields are known ([`Slot::LABELLED`]).
mod labelled {
    pub const NOTHING: u64 = 0;
    pub const IPV4: u64 = 1;
    pub const IPV6: u64 = 2;
    /// Of packets that have got their labels here: nobody can tell it by its first bytes.
    pub const ARP: u64 = 3;
}

/// The SCTP protocol's number (RFC 9260).
pub const SCTP: u8 = 132;

/// Reverse ARP's ethertype (RFC 903).
pub const RARP: u16 = 0x8035;

/// What flow tables know of a packet, or the mask of what they look at. Fields that a packet does not have are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub [u64; WORDS]);

/// Where a field of up to 64 bits is within a [`Key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Which word.
    pub word: usize,
    /// By how many bits its lowest one is shifted.
    pub shift: u32,
    /// Its length.
    pub bits: u32,
}

impl Slot {
    pub const METADATA: Self = Self::new(0, 0, 64);
    pub const IN_PORT: Self = Self::new(1, 48, 16);
    pub const ETH_TYPE: Self = Self::new(1, 32, 16);
    /// The network of a tunnel: the one that the packet has come by, or is to leave by.
    pub const TUN_ID: Self = Self::new(1, 8, 24);
    /// IP protocol; of ARP its operation.
    pub const IP_PROTO: Self = Self::new(1, 0, 8);
    pub const CT_MARK: Self = Self::new(2, 32, 32);
    /// 0 of a packet that has come in; behind `ct`, the number of what goes on with it.
    pub const RECIRCULATION: Self = Self::new(2, 16, 16);
    pub const CT_STATE: Self = Self::new(2, 0, 8);
    pub const ETH_SRC: Self = Self::new(3, 16, 48);
    pub const VLAN_TCI: Self = Self::new(3, 0, 16);
    pub const ETH_DST: Self = Self::new(4, 16, 48);
    pub const CT_ZONE: Self = Self::new(4, 0, 16);
    /// IPv4, and the sender's of ARP. IPv6 has the word before as well.
    pub const SRC_LOW: Self = Self::new(6, 0, 64);
    pub const IPV4_SRC: Self = Self::new(6, 0, 32);
    pub const DST_LOW: Self = Self::new(8, 0, 64);
    pub const IPV4_DST: Self = Self::new(8, 0, 32);
    /// The sender's hardware address of ARP; of neighbour discovery the source's link-layer address.
    pub const ARP_SHA: Self = Self::new(9, 16, 48);
    pub const IP_TOS: Self = Self::new(9, 8, 8);
    pub const IP_TTL: Self = Self::new(9, 0, 8);
    /// The target's hardware address of ARP; of neighbour discovery the target's link-layer address.
    pub const ARP_THA: Self = Self::new(10, 16, 48);
    pub const IP_FRAG: Self = Self::new(10, 0, 2);
    /// Source port, or the type of ICMP.
    pub const TP_SRC: Self = Self::new(11, 48, 16);
    /// Destination port, or the code of ICMP.
    pub const TP_DST: Self = Self::new(11, 32, 16);
    pub const TCP_FLAGS: Self = Self::new(11, 24, 8);
    /// Behind a label stack: whose fields the others are. 0 of all packets without labels.
    pub const LABELLED: Self = Self::new(11, 20, 2);
    pub const IPV6_LABEL: Self = Self::new(11, 0, 20);
    /// Whom a neighbour solicitation asks for, or an advertisement is about. The word before is its upper half.
    pub const ND_TARGET_LOW: Self = Self::new(13, 0, 64);
    /// The label stack, the uppermost entry in the highest bits, in the place of what only neighbour discovery has. The word before is its upper half.
    pub const MPLS_STACK_LOW: Self = Self::ND_TARGET_LOW;
    /// The uppermost entry of the label stack.
    pub const MPLS: Self = Self::new(12, 32, 32);
    /// The one behind it.
    pub const MPLS_SECOND: Self = Self::new(12, 0, 32);

    const fn new(word: usize, shift: u32, bits: u32) -> Self {
        Self { word, shift, bits }
    }

    /// A mask of all its bits, unshifted.
    pub const fn all(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }
}

impl Key {
    /// All bits of all fields.
    pub const ALL: Self = Self([u64::MAX; WORDS]);

    /// What is in a field.
    #[inline]
    pub const fn get(&self, slot: Slot) -> u64 {
        self.0[slot.word] >> slot.shift & slot.all()
    }

    /// Writes a field.
    #[inline]
    pub const fn set(&mut self, slot: Slot, value: u64) {
        self.0[slot.word] = self.0[slot.word] & !(slot.all() << slot.shift) | (value & slot.all()) << slot.shift;
    }

    /// Adds bits to a field: of masks.
    #[inline]
    pub const fn add(&mut self, slot: Slot, bits: u64) {
        self.0[slot.word] |= (bits & slot.all()) << slot.shift;
    }

    /// An IPv6 address, by the slot of its lower half.
    pub const fn wide(&self, low: Slot) -> u128 {
        (self.0[low.word - 1] as u128) << 64 | self.0[low.word] as u128
    }

    /// Writes an IPv6 address, by the slot of its lower half.
    pub const fn set_wide(&mut self, low: Slot, value: u128) {
        (self.0[low.word - 1], self.0[low.word]) = ((value >> 64) as u64, value as u64);
    }

    /// A hash of all that is known of a packet, keyed by `seed`. Words are multiplied by pairs, each under a key of its own, so that the processor works on all of them at once:
    /// one behind the other they would take as long as all the rest of a look-up.
    #[inline]
    pub fn hash(&self, seed: u64) -> u64 {
        let (pairs, _) = self.0.as_chunks::<2>();
        let (common, rare) = pairs.split_at(COMMON_WORDS / 2);
        let (keys, rare_keys) = PAIR_KEYS.split_at(COMMON_WORDS / 2);
        let other = seed.rotate_left(32);
        let fold = |hash: u64, (words, keys): (&[u64; 2], &[u64; 2])| {
            let product = u128::from(words[0] ^ seed ^ keys[0]) * u128::from(words[1] ^ other ^ keys[1]);
            hash ^ product as u64 ^ (product >> 64) as u64
        };
        let hash = common.iter().zip(keys).fold(seed, fold);
        if rare.as_flattened().iter().all(|word| *word == 0) {
            return mix(hash);
        }
        mix(rare.iter().zip(rare_keys).fold(hash, fold))
    }

    /// Whether both are the same. It looks at all words at once: most that are compared are.
    #[inline]
    pub fn is(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).fold(0, |differ, (own, other)| differ | (own ^ other)) == 0
    }

    /// The words in which there is something, a bit each.
    pub fn words(&self) -> u16 {
        (0..WORDS).filter(|word| self.0[*word] != 0).fold(0, |words, word| words | 1 << word)
    }

    /// Adds the bits of a mask.
    #[inline]
    pub fn unite(&mut self, mask: &Self) {
        self.0.iter_mut().zip(&mask.0).for_each(|(word, mask)| *word |= mask);
    }

    /// Whether both agree in all bits of `mask`.
    #[inline]
    pub fn agrees(&self, other: &Self, mask: &Self) -> bool {
        (0..WORDS).all(|word| (self.0[word] ^ other.0[word]) & mask.0[word] == 0)
    }

    /// Whether a mask has no bits but those of another one.
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(own, other)| own & !other == 0)
    }

    /// Only the bits of `mask`.
    #[must_use]
    pub fn masked(&self, mask: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & mask.0[word]))
    }

    /// The packet has one more tag in front of those that it has: what is behind a second one is payload.
    pub fn push_vlan(&mut self) {
        if self.get(Slot::VLAN_TCI) != 0 {
            *self = self.without_payload();
            self.set(Slot::ETH_TYPE, u64::from(ethertype::VLAN));
        }
        self.set(Slot::VLAN_TCI, u64::from(VLAN_PRESENT));
    }

    /// The packet loses its outermost tag; `inner` is what it was before it got that, if it got that here.
    pub fn pop_vlan(&mut self, inner: Option<Self>) {
        let Some(mut inner) = inner else { return self.set(Slot::VLAN_TCI, 0) };
        for slot in OUTSIDE_HEADERS.into_iter().chain([Slot::ETH_SRC, Slot::ETH_DST]) {
            inner.set(slot, self.get(slot));
        }
        *self = inner;
    }

    /// Nothing but the Ethernet addresses and what does not stand in headers.
    fn without_payload(&self) -> Self {
        let mut outer = Self::default();
        for slot in OUTSIDE_HEADERS.into_iter().chain([Slot::ETH_SRC, Slot::ETH_DST]) {
            outer.set(slot, self.get(slot));
        }
        outer
    }

    /// Whether the packet has a label stack.
    pub const fn is_labelled(&self) -> bool {
        ethertype::is_mpls(self.get(Slot::ETH_TYPE) as u16)
    }

    /// Whether one entry is all of its label stack.
    pub const fn has_last_label(&self) -> bool {
        MplsRepr::parse(self.get(Slot::MPLS) as u32).is_bottom
    }

    /// Where the time to live is that is behind the uppermost entry of the label stack, if it is known.
    pub const fn inner_ttl(&self) -> Option<Slot> {
        match self.get(Slot::LABELLED) {
            _ if !self.has_last_label() && self.get(Slot::MPLS_SECOND) != 0 => {
                Some(Slot { bits: 8, ..Slot::MPLS_SECOND })
            }
            labelled::IPV4 | labelled::IPV6 if self.has_last_label() => Some(Slot::IP_TTL),
            _ => None,
        }
    }

    /// The packet has one more entry in front of its label stack. The fields of what it is put on stay for who takes it off, but for those of neighbour discovery.
    pub const fn push_mpls(&mut self, ethertype: u16, entry: u32) {
        let mut stack = self.wide(Slot::MPLS_STACK_LOW) >> 32;
        if !self.is_labelled() {
            stack = 0;
            let what = match self.get(Slot::ETH_TYPE) as u16 {
                ethertype::IPV4 => labelled::IPV4,
                ethertype::IPV6 => labelled::IPV6,
                ethertype::ARP => labelled::ARP,
                _ => labelled::NOTHING,
            };
            self.set(Slot::LABELLED, what);
        }
        self.set_wide(Slot::MPLS_STACK_LOW, (entry as u128) << 96 | stack);
        self.set(Slot::ETH_TYPE, ethertype as u64);
    }

    /// The packet loses the uppermost entry of its label stack, and has this ethertype then. False if there is another entry behind it that is not known.
    pub fn pop_mpls(&mut self, ethertype: u16) -> bool {
        let rest = self.wide(Slot::MPLS_STACK_LOW) << 32;
        let is_last = self.has_last_label();
        if !is_last && rest >> 96 == 0 {
            return false;
        }
        let fits = match self.get(Slot::LABELLED) {
            labelled::IPV4 => ethertype == ethertype::IPV4,
            labelled::IPV6 => ethertype == ethertype::IPV6,
            labelled::ARP => ethertype == ethertype::ARP,
            _ => false,
        };
        if is_last && fits {
            self.set(Slot::LABELLED, labelled::NOTHING);
            self.set_wide(Slot::MPLS_STACK_LOW, 0);
        } else if !is_last && ethertype::is_mpls(ethertype) {
            self.set_wide(Slot::MPLS_STACK_LOW, rest);
        } else {
            let tag = self.get(Slot::VLAN_TCI);
            *self = self.without_payload();
            self.set(Slot::VLAN_TCI, tag);
        }
        self.set(Slot::ETH_TYPE, u64::from(ethertype));
        true
    }

    /// A header field has been written.
    pub fn write(&mut self, field: Field) {
        let has_ports = self.get(Slot::IP_FRAG) == 0;
        match field {
            Field::EthSrc(mac) => self.set(Slot::ETH_SRC, mac_bits(mac)),
            Field::EthDst(mac) => self.set(Slot::ETH_DST, mac_bits(mac)),
            Field::VlanTci(tci) => self.set(Slot::VLAN_TCI, u64::from(tci | VLAN_PRESENT)),
            Field::Ipv4Src(address) => self.set(Slot::IPV4_SRC, u64::from(address.to_bits())),
            Field::Ipv4Dst(address) => self.set(Slot::IPV4_DST, u64::from(address.to_bits())),
            Field::Ipv6Src(address) => self.set_wide(Slot::SRC_LOW, address.to_bits()),
            Field::Ipv6Dst(address) => self.set_wide(Slot::DST_LOW, address.to_bits()),
            Field::SrcPort(port) if has_ports => self.set(Slot::TP_SRC, u64::from(port)),
            Field::DstPort(port) if has_ports => self.set(Slot::TP_DST, u64::from(port)),
            Field::Dscp(dscp) => {
                let tos = self.get(Slot::IP_TOS);
                self.set(Slot::IP_TOS, tos & 3 | u64::from(dscp) << 2);
            }
            Field::Ecn(ecn) => {
                let tos = self.get(Slot::IP_TOS);
                self.set(Slot::IP_TOS, tos & !3 | u64::from(ecn));
            }
            Field::Ttl(ttl) => self.set(Slot::IP_TTL, u64::from(ttl)),
            Field::MplsLabel(_) | Field::MplsTrafficClass(_) | Field::MplsTtl(_) => {
                let written = field.in_entry(MplsRepr::parse(self.get(Slot::MPLS) as u32));
                self.set(Slot::MPLS, u64::from(written.bits()));
            }
            Field::LabelledTtl(ttl) => {
                if let Some(slot) = self.inner_ttl() {
                    self.set(slot, u64::from(ttl));
                }
            }
            Field::NdTarget(target) => self.set_wide(Slot::ND_TARGET_LOW, target.to_bits()),
            Field::NdSourceLinkLayer(mac) => self.set(Slot::ARP_SHA, mac_bits(mac)),
            Field::NdTargetLinkLayer(mac) => self.set(Slot::ARP_THA, mac_bits(mac)),
            Field::TunnelId(vni) => self.set(Slot::TUN_ID, u64::from(vni)),
            Field::SrcPort(_)
            | Field::DstPort(_)
            | Field::QuotedSrc(_)
            | Field::QuotedDst(_)
            | Field::QuotedPorts(..)
            | Field::TcpSeq(_)
            | Field::TcpAck(_) => {}
        }
    }

    /// A mask without the bits of addresses that IPv4 does not have.
    #[must_use]
    pub fn for_ipv4(mut self) -> Self {
        for low in [Slot::SRC_LOW, Slot::DST_LOW] {
            self.set_wide(low, self.wide(low) & u128::from(u32::MAX));
        }
        self
    }

    /// What is known of the packet's connection is that of another time, or of nobody.
    pub fn forget_connection(&mut self) {
        for slot in [Slot::CT_STATE, Slot::CT_ZONE, Slot::CT_MARK] {
            self.set(slot, 0);
        }
    }

    /// What is known of packets of a flow by its key.
    pub fn of_flow(flow: &FlowKey) -> Self {
        let mut key = Self::default();
        key.set(Slot::ETH_TYPE, u64::from(flow.ethertype));
        key.set(Slot::VLAN_TCI, flow.vlan.map_or(0, |tci| u64::from(tci | VLAN_PRESENT)));
        key.set(Slot::ETH_SRC, mac_bits(flow.eth_src));
        key.set(Slot::ETH_DST, mac_bits(flow.eth_dst));
        key.set_wide(Slot::SRC_LOW, flow.src);
        key.set_wide(Slot::DST_LOW, flow.dst);
        key.set(Slot::IP_PROTO, u64::from(flow.protocol));
        key.set(Slot::TP_SRC, u64::from(flow.src_port));
        key.set(Slot::TP_DST, u64::from(flow.dst_port));
        key
    }
}

#[cfg(test)]
mod tests {
    use super::read::ND_HEADER;
    use super::*;
    use crate::testing::{address, arp, ipv4_udp, labelled, solicitation, tcp, tcp_v6};
    use proptest::prelude::*;
    use wire::{ArpOperation, BROADCAST};

    #[test]
    fn fields_lie_where_they_are_read() {
        let (a, b) = (address(1), address(2));
        let key = Key::parse(3, &tcp(&a, &b, 4_000, 80, 10)).unwrap();
        assert_eq!((key.get(Slot::IN_PORT), key.get(Slot::IP_PROTO), key.get(Slot::IP_TTL)), (3, 6, 64));
        assert_eq!((key.get(Slot::TP_SRC), key.get(Slot::TP_DST), key.get(Slot::TCP_FLAGS)), (4_000, 80, 0x10));
        assert_eq!(key.get(Slot::IPV4_DST), u64::from(b.ipv4.to_bits()));
        assert_eq!(mac_of(key.get(Slot::ETH_SRC)), a.mac);
        let key = Key::parse(3, &tcp_v6(&a, &b, 4_000, 80, 10)).unwrap();
        assert_eq!((key.wide(Slot::SRC_LOW), key.wide(Slot::DST_LOW)), (a.ipv6.to_bits(), b.ipv6.to_bits()));
        let key = Key::parse(3, &arp(ArpOperation::Request, &a, b.ipv4, BROADCAST, Some(7))).unwrap();
        assert_eq!((key.get(Slot::IP_PROTO), key.get(Slot::VLAN_TCI)), (1, 0x1007));
        assert_eq!(mac_of(key.get(Slot::ARP_SHA)), a.mac);
        let key = Key::parse(3, &ipv4_udp(&a, &b, (1, 2), 64, (8, true))).unwrap();
        assert_eq!((key.get(Slot::IP_FRAG), key.get(Slot::TP_DST)), (3, 0));
    }

    #[test]
    fn neighbour_discovery_is_read_as_open_vswitch_does() {
        /// Where the options begin: behind Ethernet, IPv6, and the message's own header.
        const OPTIONS: usize = 14 + 40 + ND_HEADER;
        let (a, b) = (address(1), address(2));
        let whole = solicitation(&a, a.ipv6, b.ipv6, Some(a.mac));
        let key = Key::parse(3, &whole).unwrap();
        assert_eq!((key.wide(Slot::ND_TARGET_LOW), key.get(Slot::TP_SRC)), (b.ipv6.to_bits(), 135));
        assert_eq!((mac_of(key.get(Slot::ARP_SHA)), key.get(Slot::ARP_THA)), (a.mac, 0));
        assert_ne!(key.hash(7), Key::parse(3, &solicitation(&a, a.ipv6, a.ipv6, Some(a.mac))).unwrap().hash(7));
        let with = |change: fn(&mut Vec<u8>)| {
            let mut frame = whole.clone();
            change(&mut frame);
            let payload = (frame.len() - 14 - 40) as u16;
            frame[18..20].copy_from_slice(&payload.to_be_bytes());
            let key = Key::parse(3, &frame).unwrap();
            (key.wide(Slot::ND_TARGET_LOW) != 0, key.get(Slot::ARP_SHA) != 0, key.get(Slot::ARP_THA) != 0)
        };
        assert_eq!(with(|_| ()), (true, true, false));
        assert_eq!(with(|frame| frame.truncate(OPTIONS)), (true, false, false));
        assert_eq!(with(|frame| frame.truncate(OPTIONS - 1)), (false, false, false), "it is no such message");
        assert_eq!(with(|frame| frame[OPTIONS - ND_HEADER + 1] = 1), (false, false, false), "another code");
        assert_eq!(with(|frame| frame[OPTIONS] = 2), (true, false, true));
        assert_eq!(with(|frame| frame[OPTIONS + 1] = 0), (true, false, false), "it has no end");
        assert_eq!(with(|frame| frame[OPTIONS + 1] = 2), (true, false, false), "it ends behind the message");
        let twice = |frame: &mut Vec<u8>| frame.extend_from_within(OPTIONS..);
        assert_eq!(with(twice), (false, false, false));
        let behind_another = |frame: &mut Vec<u8>| {
            frame.extend_from_within(OPTIONS..);
            frame[OPTIONS] = 14;
        };
        assert_eq!(with(behind_another), (true, true, false));
    }

    #[test]
    fn what_is_behind_labels_is_known_when_they_are_taken_off() {
        let (a, b) = (address(1), address(2));
        for (plain, ethertype) in
            [(tcp(&a, &b, 4_000, 80, 10), ethertype::IPV4), (tcp_v6(&a, &b, 4_000, 80, 10), ethertype::IPV6)]
        {
            let known = Key::parse(3, &plain).unwrap();
            let mut key = Key::parse(3, &labelled(plain.clone(), &[0x5140, 0x6020, 0x7103])).unwrap();
            assert_eq!(
                (key.get(Slot::ETH_TYPE), key.get(Slot::MPLS)),
                (0x8847, 0x5040),
                "only the last one has the bit"
            );
            assert!(key.pop_mpls(ethertype::MPLS_UPSTREAM));
            assert_eq!((key.get(Slot::ETH_TYPE), key.get(Slot::MPLS), key.has_last_label()), (0x8848, 0x6020, false));
            assert!(key.pop_mpls(ethertype::MPLS) && key.has_last_label());
            let mut wrong = key;
            assert!(key.pop_mpls(ethertype));
            assert_eq!(key, known);
            let other = if ethertype == ethertype::IPV4 { ethertype::IPV6 } else { ethertype::IPV4 };
            assert!(wrong.pop_mpls(other));
            assert_eq!((wrong.get(Slot::TP_DST), wrong.get(Slot::IP_PROTO)), (0, 0), "it is no such packet");
            key.push_mpls(ethertype::MPLS, 0x9120);
            assert!(key.pop_mpls(ethertype));
            assert_eq!(key, known, "labels are put on what is known");
            let mut deep = Key::parse(3, &labelled(plain, &[1, 2, 3, 4, 5])).unwrap();
            assert!((0..3).all(|_| deep.pop_mpls(ethertype::MPLS)));
            assert!(!deep.pop_mpls(ethertype::MPLS), "nobody knows the fifth one");
        }
    }

    #[test]
    fn a_field_that_is_written_leaves_the_others() {
        let mut key = Key::ALL;
        key.set(Slot::IP_TTL, 0x107);
        assert_eq!((key.get(Slot::IP_TTL), key.get(Slot::IP_TOS), key.get(Slot::ARP_SHA)), (7, 0xff, (1 << 48) - 1));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), ip in 0_usize..4) {
            if let Some(place) = bytes.get_mut(12..15) {
                place.copy_from_slice(&[[8, 0, 0x45], [0x86, 0xdd, 0x60], [8, 6, 0], [0x88, 0x47, 0]][ip]);
            }
            let _ = Key::parse(1, &bytes);
        }
    }
}
