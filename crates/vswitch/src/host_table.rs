//! Which host owns a MAC or IP address.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use topology::{NodeId, PortId, TiVec, Topology};

use crate::flow_key::mac_bits;

/// Which host owns a MAC or IP address. Built once from a topology; nothing changes but what hosts behind devices announce to their peers
/// ([`HostTable::learn`]).
///
/// MAC addresses are looked up for each packet, IP addresses only for neighbour discovery.
#[derive(Clone, Debug)]
pub struct HostTable {
    /// Open addressing with linear probing. At most half of the slots are taken, so a probe always meets a free one. The
    /// length is a power of two.
    by_mac: Box<[Slot]>,
    by_ipv4: Box<[(Ipv4Addr, NodeId)]>,
    by_ipv6: Box<[(Ipv6Addr, NodeId)]>,
    /// Addresses that no host has, and who is asked about them.
    aliases: Box<[AddressAlias]>,
    /// MAC addresses of the hosts, by [`NodeId`].
    macs: TiVec<NodeId, [u8; 6]>,
    /// Hosts that answer questions about themselves, ascending: their bond announces its members' addresses to peers.
    answering: Box<[NodeId]>,
    /// What such hosts have announced that are not made: a slot for each of their devices.
    learned: Box<[Learned]>,
}

/// The addresses of a host's bond, besides the host's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostBond {
    /// The host that owns the address.
    pub host: NodeId,
    /// Its ports in the bond.
    pub ports: Vec<PortId>,
    /// The members' MAC addresses. A peer that learned one in one mode goes on using it for a while in another. Empty for a host that Heddle doesn't
    /// make: nobody knows them.
    pub members: Vec<[u8; 6]>,
    /// Whether it announces its members' addresses to peers, and so answers questions about itself.
    pub announces_members: bool,
}

/// Addresses that no host has, but a function on the way to a host: packets to them are sent to that host, and translated before they come to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressAlias {
    /// The family of the addresses.
    pub is_ipv6: bool,
    /// The first and the last address; an IPv4 address stands in the low 32 bits.
    pub addresses: (u128, u128),
    /// To whom packets for them are sent.
    pub host: NodeId,
    /// The MAC address by which they are reached, which no host has; `None`: that of the host.
    pub mac: Option<[u8; 6]>,
}

/// An address that no file has.
#[derive(Debug)]
struct Learned {
    host: NodeId,
    device: usize,
    /// The MAC address as a number, or [`FREE`]. Each slot is written by the one thread that reads the host's devices, and any may
    /// look: who sees it late drops a frame, as a switch does that has not learned yet.
    mac: AtomicU64,
}

impl Learned {
    fn mac(&self) -> u64 {
        self.mac.load(Ordering::Relaxed)
    }
}

impl Clone for Learned {
    fn clone(&self) -> Self {
        Self { mac: AtomicU64::new(self.mac()), ..*self }
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The MAC address as a number, or [`FREE`].
    mac: u64,
    host: NodeId,
}

/// No MAC address: they have 48 bits.
const FREE: u64 = u64::MAX;

impl HostTable {
    /// The host table of a topology's hosts, some of which have bonds. Of hosts that share an address (a checked file has none) the first
    /// one owns it.
    pub fn new(topology: &Topology, bonds: &[HostBond]) -> Self {
        let hosts = || topology.hosts().filter_map(|(id, _)| Some((id, topology.address(id)?)));
        let members = || bonds.iter().flat_map(|bond| bond.members.iter().map(|mac| (bond.host, *mac)));
        let announcing = || bonds.iter().filter(|bond| bond.announces_members);
        let learning = announcing().filter(|bond| topology.nodes[bond.host].is_external());
        let addresses = topology.hosts as usize + members().count();
        let mut host_table = Self {
            by_mac: vec![Slot { mac: FREE, host: NodeId(0) }; (addresses * 2).next_power_of_two()].into(),
            by_ipv4: sorted(hosts().map(|(id, address)| (address.ipv4, id)).collect()),
            by_ipv6: sorted(hosts().map(|(id, address)| (address.ipv6, id)).collect()),
            aliases: Box::default(),
            macs: hosts().map(|(_, address)| address.mac).collect(),
            answering: announcing().map(|bond| bond.host).collect::<BTreeSet<_>>().into_iter().collect(),
            learned: learning.flat_map(slots).collect(),
        };
        for (id, address) in hosts() {
            host_table.insert(mac_bits(address.mac), id);
        }
        for (host, mac) in members() {
            host_table.insert(mac_bits(mac), host);
        }
        host_table
    }

    /// The same table, in which these addresses are known as well. Where a host has one of them, that stays so.
    #[must_use]
    pub fn with_aliases(mut self, aliases: Vec<AddressAlias>) -> Self {
        let own = || aliases.iter().filter_map(|alias| Some((mac_bits(alias.mac?), alias.host)));
        let room = ((self.by_mac.len() / 2 + own().count()) * 2).next_power_of_two();
        if own().next().is_some() {
            let empty = vec![Slot { mac: FREE, host: NodeId(0) }; room].into();
            let known = std::mem::replace(&mut self.by_mac, empty);
            let known = known.iter().filter(|slot| slot.mac != FREE).map(|slot| (slot.mac, slot.host));
            known.chain(own()).for_each(|(mac, host)| self.insert(mac, host));
        }
        Self { aliases: aliases.into(), ..self }
    }

    /// The host that stands for an address which none has.
    #[cold]
    fn by_alias(&self, is_ipv6: bool, address: u128) -> Option<NodeId> {
        self.alias(is_ipv6, address).map(|alias| alias.host)
    }

    fn alias(&self, is_ipv6: bool, address: u128) -> Option<&AddressAlias> {
        let has = |alias: &&AddressAlias| {
            let (first, last) = alias.addresses;
            alias.is_ipv6 == is_ipv6 && (first..=last).contains(&address)
        };
        self.aliases.iter().find(has)
    }

    /// The MAC address by which an address is reached that no host has, where that is no host's either.
    pub fn mac_of_alias(&self, address: IpAddr) -> Option<[u8; 6]> {
        let alias = match address {
            IpAddr::V4(address) if self.by_ipv4.binary_search_by_key(&address, |&(key, _)| key).is_err() => {
                self.alias(false, address.to_bits().into())
            }
            IpAddr::V6(address) if self.by_ipv6.binary_search_by_key(&address, |&(key, _)| key).is_err() => {
                self.alias(true, address.to_bits())
            }
            _ => None,
        };
        alias?.mac
    }

    fn insert(&mut self, mac: u64, host: NodeId) {
        let at = self.probe(mac);
        if self.by_mac[at].mac == FREE {
            self.by_mac[at] = Slot { mac, host };
        }
    }

    /// The slot that holds `mac`, or else the free one where it would go.
    #[inline]
    fn probe(&self, mac: u64) -> usize {
        let mask = self.by_mac.len() - 1;
        // One multiplication spreads addresses that are counted up, as those of most files; its upper bits depend on all bits of the address. Whose address
        // is looked up can choose no long probes: those are made of the file's addresses.
        let spread = mac.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1;
        let mut at = (spread >> (63 - self.by_mac.len().trailing_zeros())) as usize & mask;
        while self.by_mac[at].mac != mac && self.by_mac[at].mac != FREE {
            at = (at + 1) & mask;
        }
        at
    }

    /// The host with this MAC address.
    #[inline]
    pub fn by_mac(&self, mac: [u8; 6]) -> Option<NodeId> {
        self.by_mac_bits(mac_bits(mac))
    }

    /// The same by the address as a number below 2^48.
    #[inline]
    pub fn by_mac_bits(&self, mac: u64) -> Option<NodeId> {
        let slot = self.by_mac[self.probe(mac)];
        if slot.mac != FREE {
            return Some(slot.host);
        }
        // Empty nearly everywhere, and else a handful.
        self.learned.iter().find(|slot| slot.mac() == mac).map(|slot| slot.host)
    }

    /// A host that answers for itself and is not made has announced, by its device with this number, that it has this address: from
    /// here on it is found by it. Each device has one such address, the last one that it announced; an address moves to the device that announced it last, as in
    /// a switch that learns. Nothing happens with an address that the file gives somebody, or no station's, or where the host has no such
    /// device.
    pub fn learn(&self, host: NodeId, device: usize, mac: [u8; 6]) {
        let bits = mac_bits(mac);
        if wire::is_group(mac) || mac == [0; 6] || self.by_mac[self.probe(bits)].mac != FREE {
            return;
        }
        let Some(own) = self.learned.iter().find(|slot| (slot.host, slot.device) == (host, device)) else { return };
        for other in self.learned.iter().filter(|slot| slot.mac() == bits && slot.host != host) {
            other.mac.store(FREE, Ordering::Relaxed);
        }
        own.mac.store(bits, Ordering::Relaxed);
    }

    /// What was learned: whose, by which device, which address.
    pub fn learned(&self) -> impl Iterator<Item = (NodeId, usize, [u8; 6])> + '_ {
        let known = self.learned.iter().filter(|slot| slot.mac() != FREE);
        known.map(|slot| {
            let [_, _, mac @ ..] = slot.mac().to_be_bytes();
            (slot.host, slot.device, mac)
        })
    }

    /// The host with this IPv4 address.
    pub fn by_ipv4(&self, address: Ipv4Addr) -> Option<NodeId> {
        match self.by_ipv4.binary_search_by_key(&address, |&(key, _)| key) {
            Ok(at) => Some(self.by_ipv4[at].1),
            Err(_) => self.by_alias(false, address.to_bits().into()),
        }
    }

    /// The host with this IPv6 address: its own, or the link-local one that it makes of its MAC address (RFC 4291, appendix A).
    pub fn by_ipv6(&self, address: Ipv6Addr) -> Option<NodeId> {
        if let [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a, b, c, 0xff, 0xfe, d, e, f] = address.octets() {
            return self.by_mac([a ^ 2, b, c, d, e, f]);
        }
        match self.by_ipv6.binary_search_by_key(&address, |&(key, _)| key) {
            Ok(at) => Some(self.by_ipv6[at].1),
            Err(_) => self.by_alias(true, address.to_bits()),
        }
    }

    /// Whether questions about a host are for itself to answer.
    pub fn answers_itself(&self, host: NodeId) -> bool {
        self.answering.binary_search(&host).is_ok()
    }

    /// A host's MAC address.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn mac(&self, host: NodeId) -> [u8; 6] {
        self.macs[host]
    }
}

/// Room for an address of each device; they are numbered as the host's ports are.
fn slots(bond: &HostBond) -> impl Iterator<Item = Learned> + '_ {
    let slot = |port: &PortId| Learned { host: bond.host, device: usize::from(*port), mac: AtomicU64::new(FREE) };
    bond.ports.iter().map(slot)
}

/// Sorted by key; of equal keys the first one stays.
fn sorted<K: Ord + Copy>(mut entries: Vec<(K, NodeId)>) -> Box<[(K, NodeId)]> {
    entries.sort_by_key(|&(key, _)| key);
    entries.dedup_by_key(|&mut (key, _)| key);
    entries.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, topology_of};
    use proptest::prelude::*;
    use topology::NodeKind;

    #[test]
    fn every_host_is_found_by_its_addresses() {
        for hosts in [0, 1, 2, 16, 1_000] {
            let host_table = HostTable::new(&topology_of(hosts), &[]);
            for id in 0..hosts {
                let address = testing::address(id);
                assert_eq!(host_table.by_mac(address.mac), Some(NodeId(id)));
                assert_eq!(host_table.by_ipv4(address.ipv4), Some(NodeId(id)));
                assert_eq!(host_table.by_ipv6(address.ipv6), Some(NodeId(id)));
                assert_eq!(host_table.mac(NodeId(id)), address.mac);
            }
            let stranger = testing::address(hosts);
            assert_eq!(host_table.by_mac(stranger.mac), None);
            assert_eq!(host_table.by_ipv4(stranger.ipv4), None);
            assert_eq!(host_table.by_ipv6(stranger.ipv6), None);
        }
    }

    #[test]
    fn an_alias_stands_for_addresses_that_no_host_has() {
        let bits = |address: Ipv4Addr| u128::from(address.to_bits());
        let of_host = testing::address(1).ipv4;
        let above = Ipv4Addr::from_bits(of_host.to_bits() + 3);
        let alias =
            AddressAlias { is_ipv6: false, addresses: (bits(of_host), bits(above)), host: NodeId(0), mac: None };
        let host_table = HostTable::new(&topology_of(2), &[]).with_aliases(vec![alias]);
        assert_eq!(host_table.by_ipv4(of_host), Some(NodeId(1)), "a host's address stays its own");
        assert_eq!(host_table.by_ipv4(above), Some(NodeId(0)));
        assert_eq!(host_table.by_ipv4(Ipv4Addr::from_bits(above.to_bits() + 1)), None);
        assert_eq!(host_table.by_ipv6(Ipv6Addr::from_bits(bits(above))), None);
    }

    #[test]
    fn an_alias_may_have_a_mac_address_of_its_own() {
        let mac = |number| [2, 0x68, 0x64, 0, 0, number];
        let alias = |number: u8| AddressAlias {
            is_ipv6: false,
            addresses: (u128::from(number), u128::from(number)),
            host: NodeId(1),
            mac: Some(mac(number)),
        };
        let host_table = HostTable::new(&topology_of(2), &[]).with_aliases((0..200).map(alias).collect());
        for number in 0..200 {
            assert_eq!(host_table.by_mac(mac(number)), Some(NodeId(1)));
            let address = Ipv4Addr::from_bits(number.into());
            assert_eq!(host_table.mac_of_alias(address.into()), Some(mac(number)));
        }
        assert_eq!(host_table.by_mac(mac(200)), None);
        assert_eq!(host_table.by_mac(testing::address(0).mac), Some(NodeId(0)));
        assert_eq!(host_table.mac_of_alias(testing::address(0).ipv4.into()), None, "a host's");
    }

    /// Two hosts, the second behind devices, with a bond of its ports.
    fn with_guest(ports: u16, announces_members: bool) -> HostTable {
        let mut topology = topology_of(2);
        let guest = NodeId(1);
        topology.nodes[guest].devices = (0..ports).map(|port| format!("tap{port}")).collect();
        let ports = (0..ports).map(PortId).collect();
        HostTable::new(&topology, &[HostBond { host: guest, ports, members: Vec::new(), announces_members }])
    }

    #[test]
    fn what_a_host_behind_devices_announces_is_learned_by_device() {
        let (guest, stranger, other) = (NodeId(1), [2, 0xaa, 0, 0, 0, 1], [2, 0xaa, 0, 0, 0, 2]);
        {
            let host_table = with_guest(2, true);
            assert!(host_table.answers_itself(guest) && !host_table.answers_itself(NodeId(0)));
            assert_eq!(host_table.by_mac(stranger), None);
            host_table.learn(guest, 1, stranger);
            assert_eq!(host_table.by_mac(stranger), Some(guest));
            host_table.learn(guest, 1, other);
            assert_eq!((host_table.by_mac(stranger), host_table.by_mac(other)), (None, Some(guest)));
            assert_eq!(host_table.learned().collect::<Vec<_>>(), [(guest, 1, other)]);
            assert_eq!(host_table.clone().by_mac(other), Some(guest));
            // Somebody's, a group's, no station's; a device and a host of which nothing is learned.
            let taken = host_table.mac(NodeId(0));
            for (host, device, mac) in [
                (guest, 0, taken),
                (guest, 0, [0xff; 6]),
                (guest, 0, [0; 6]),
                (guest, 2, stranger),
                (NodeId(0), 0, stranger),
            ] {
                host_table.learn(host, device, mac);
            }
            assert_eq!(host_table.by_mac(taken), Some(NodeId(0)));
            assert_eq!(host_table.learned().count(), 1);
        }
        let host_table = with_guest(2, false);
        host_table.learn(guest, 1, stranger);
        assert!(!host_table.answers_itself(guest) && host_table.by_mac(stranger).is_none());
    }

    #[test]
    fn an_address_moves_to_the_host_that_announced_it_last() {
        let mut topology = topology_of(2);
        let bond = |host| HostBond { host, ports: vec![PortId(0)], members: Vec::new(), announces_members: true };
        for node in &mut topology.nodes {
            node.devices = vec!["tap0".into()];
        }
        let host_table = HostTable::new(&topology, &[bond(NodeId(0)), bond(NodeId(1))]);
        let mac = [2, 0xaa, 0, 0, 0, 1];
        for host in [NodeId(0), NodeId(1), NodeId(0)] {
            host_table.learn(host, 0, mac);
            assert_eq!(host_table.by_mac(mac), Some(host));
            assert_eq!(host_table.learned().collect::<Vec<_>>(), [(host, 0, mac)]);
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_list(macs in proptest::collection::vec(any::<[u8; 6]>(), 1..60), asked: [u8; 6]) {
            let mut topology = topology_of(macs.len() as u32);
            for (node, mac) in topology.nodes.iter_mut().zip(&macs) {
                if let NodeKind::Host(address) = &mut node.kind {
                    address.mac = *mac;
                }
            }
            let host_table = HostTable::new(&topology, &[]);
            for mac in macs.iter().chain([&asked]) {
                let expected = macs.iter().position(|other| other == mac).map(|at| NodeId(at as u32));
                prop_assert_eq!(host_table.by_mac(*mac), expected);
            }
        }
    }
}
