//! Which addresses and ports a new connection is translated to.

use std::fmt::{self, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr};

use machine::mix;

use super::ct_state::{DESTINATION_NAT, SOURCE_NAT};
use super::tuple::Tuple;

/// The end of a connection that is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TranslatedEnd {
    /// Whoever begins it seems to be another one.
    Source,
    /// It goes to another one.
    Destination,
}

/// What an end is translated to: an address of a range, and a port of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatRange {
    /// Which end.
    pub end: TranslatedEnd,
    /// The family of the addresses: connections of the other one are not translated.
    pub is_ipv6: bool,
    /// The first and the last address; an IPv4 address stands in the low 32 bits.
    pub addresses: (u128, u128),
    /// The first and the last port; `None`: the port stays, if it can.
    pub ports: Option<(u16, u16)>,
}

/// Translations that are tried for a new connection, at all addresses together. Linux tries as many in a row.
const TRIED: u32 = 128;
/// Addresses that are tried.
const ADDRESSES_TRIED: u128 = 8;
/// Ports that are tried in a row where not all can be: whoever connects often uses one port after the other, so neighbours are taken together.
const ROW: u32 = 16;

/// Where ports begin that are given to those whose own one is taken.
const EPHEMERAL: u16 = 1_024;

impl NatRange {
    /// Whether connections of this family are translated.
    pub const fn is_for(&self, tuple: &Tuple) -> bool {
        self.is_ipv6 == tuple.is_ipv6
    }

    /// What a connection becomes: the first translation that is free, from one on that its hash says.
    pub(super) fn choose(&self, tuple: &Tuple, hash: u64, is_free: impl Fn(&Tuple) -> bool) -> Option<Tuple> {
        let (first, last) = self.addresses;
        // The whole of IPv6 has one more address than a number of 128 bits counts.
        let addresses = (last - first).saturating_add(1);
        let start = u128::from(hash) % addresses;
        let addresses_tried = addresses.min(ADDRESSES_TRIED);
        let ports_tried = TRIED / addresses_tried as u32;
        (0..addresses_tried).find_map(|step| {
            let address = first + (start + step) % addresses;
            self.ports(tuple, hash, ports_tried)
                .map(|port| self.translated(tuple, address, port))
                .find(|it| is_free(it))
        })
    }

    /// What a connection becomes with the first address and port.
    pub(super) const fn first(&self, tuple: &Tuple) -> Tuple {
        let port = match self.ports {
            Some((first, _)) => first,
            None => self.port_of(tuple),
        };
        self.translated(tuple, self.addresses.0, port)
    }

    /// A number that connections have in common which compete for the same translations; `None` if there is but one for each.
    pub(super) fn contested(&self, tuple: &Tuple, seed: u64, zone: u16) -> Option<u64> {
        let mut rest = *tuple;
        let are_ports_free = tuple.has_ports() && (self.ports.is_some() || self.end == TranslatedEnd::Source);
        let is_one_port = !are_ports_free || self.ports.is_some_and(|(first, last)| first == last);
        if is_one_port && self.addresses.0 == self.addresses.1 {
            return None;
        }
        let (address, port) = match self.end {
            TranslatedEnd::Source => (&mut rest.src, &mut rest.src_port),
            TranslatedEnd::Destination => (&mut rest.dst, &mut rest.dst_port),
        };
        *address = self.addresses.0;
        if are_ports_free {
            *port = self.ports.map_or(0, |(first, _)| first);
        }
        let last = self.addresses.1.wrapping_sub(self.addresses.0) as u64;
        Some(mix(rest.hash(seed, zone) ^ last << 16 ^ u64::from(self.ports.map_or(0, |(_, last)| last))))
    }

    /// The flag of packets that are translated so.
    pub(super) const fn flag(&self) -> u8 {
        match self.end {
            TranslatedEnd::Source => SOURCE_NAT,
            TranslatedEnd::Destination => DESTINATION_NAT,
        }
    }

    const fn port_of(&self, tuple: &Tuple) -> u16 {
        match self.end {
            TranslatedEnd::Source => tuple.src_port,
            TranslatedEnd::Destination => tuple.dst_port,
        }
    }

    /// The ports to try, so many at most, in order: its own one first, if that is allowed.
    fn ports(&self, tuple: &Tuple, hash: u64, most: u32) -> impl Iterator<Item = u16> + use<> {
        let own = self.port_of(tuple);
        let (first, last) = match (self.ports, self.end) {
            _ if !tuple.has_ports() => (own, own),
            (Some(ports), _) => ports,
            // Whoever is connected to listens at its port.
            (None, TranslatedEnd::Destination) => (own, own),
            (None, TranslatedEnd::Source) => (EPHEMERAL.min(own), u16::MAX),
        };
        let ports = u32::from(last - first) + 1;
        let is_own = (first..=last).contains(&own);
        let start = if is_own { u32::from(own - first) } else { ((hash >> 32) % u64::from(ports)) as u32 };
        // All of them, or rows here and there.
        let jump = if ports <= most { ROW } else { ((hash >> 16) as u32 % ports).max(ROW) };
        let offset =
            move |step: u32| u64::from(start) + u64::from(step / ROW) * u64::from(jump) + u64::from(step % ROW);
        (0..ports.min(most)).map(move |step| first + (offset(step) % u64::from(ports)) as u16)
    }

    const fn translated(&self, tuple: &Tuple, address: u128, port: u16) -> Tuple {
        match self.end {
            TranslatedEnd::Source => Tuple { src: address, src_port: port, ..*tuple },
            TranslatedEnd::Destination => Tuple { dst: address, dst_port: port, ..*tuple },
        }
    }
}

impl fmt::Display for NatRange {
    /// As `ovs-ofctl` writes it behind `src=` and `dst=`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { end: _, is_ipv6, addresses: (first, last), ports } = *self;
        let write_address = |f: &mut fmt::Formatter<'_>, bits: u128| match (is_ipv6, ports, first == last) {
            (false, ..) => write!(f, "{}", Ipv4Addr::from_bits(bits as u32)),
            (true, None, true) => write!(f, "{}", Ipv6Addr::from_bits(bits)),
            (true, ..) => write!(f, "[{}]", Ipv6Addr::from_bits(bits)),
        };
        write_address(f, first)?;
        if first != last {
            f.write_char('-')?;
            write_address(f, last)?;
        }
        if let Some((first, last)) = ports {
            write!(f, ":{first}")?;
            if first != last {
                write!(f, "-{last}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const UDP: Tuple =
        Tuple { src: 1, dst: 2, src_port: 7_000, dst_port: 53, protocol: wire::protocol::UDP, is_ipv6: false };

    fn range(addresses: u128, ports: Option<(u16, u16)>) -> NatRange {
        NatRange { end: TranslatedEnd::Source, is_ipv6: false, addresses: (100, 99 + addresses), ports }
    }

    #[test]
    fn so_many_are_tried_and_no_more() {
        for (range, expected) in [
            (range(1, None), TRIED),
            (range(8, None), TRIED),
            (range(1 << 20, Some((1, u16::MAX))), TRIED),
            // All that there are.
            (range(1, Some((5_000, 5_009))), 10),
            (range(3, Some((5_000, 5_009))), 30),
        ] {
            let mut tried = Vec::new();
            let looked = Cell::new(0);
            for hash in 0..50 {
                looked.set(0);
                let seen = std::cell::RefCell::new(Vec::new());
                let is_free = |tuple: &Tuple| {
                    looked.set(looked.get() + 1);
                    seen.borrow_mut().push((tuple.src, tuple.src_port));
                    false
                };
                assert_eq!(range.choose(&UDP, mix(hash), is_free), None);
                assert_eq!(looked.get(), expected, "{range}");
                tried = seen.into_inner();
            }
            tried.sort_unstable();
            tried.dedup();
            assert!(expected == TRIED || tried.len() == expected as usize, "{range}: {tried:?}");
        }
    }

    #[test]
    fn who_competes_for_the_same_translations_is_known_as_such() {
        let key = |range: NatRange, tuple: Tuple| range.contested(&tuple, 1, 0);
        let two = range(2, None);
        assert!(key(two, UDP).is_some());
        assert_eq!(key(two, UDP), key(two, Tuple { src: 9, src_port: 9, ..UDP }));
        assert_ne!(key(two, UDP), key(two, Tuple { dst_port: 54, ..UDP }));
        assert_ne!(key(two, UDP), key(range(3, None), UDP));
        // Identifiers of ICMP are not translated.
        let ping = Tuple { protocol: wire::protocol::ICMP, dst_port: 0x800, ..UDP };
        assert_ne!(key(two, ping), key(two, Tuple { src_port: 9, ..ping }));
        let to = NatRange { end: TranslatedEnd::Destination, ..two };
        assert_eq!(key(to, UDP), key(to, Tuple { dst: 9, ..UDP }));
        assert_ne!(key(to, UDP), key(to, Tuple { dst_port: 9, ..UDP }));
        assert_ne!(key(to, UDP), key(to, Tuple { src_port: 9, ..UDP }));
        // Nobody competes where there is one for each.
        assert_eq!((key(range(1, None), ping), key(range(1, Some((5, 5))), UDP)), (None, None));
    }
}
