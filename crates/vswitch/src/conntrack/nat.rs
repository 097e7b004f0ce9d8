//! Which addresses and ports a new connection is translated to.

use std::fmt::{self, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr};

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

/// Ports that are tried at an address.
const PORTS_TRIED: u32 = 256;
/// Addresses that are tried.
const ADDRESSES_TRIED: u128 = 8;

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
        (0..addresses.min(ADDRESSES_TRIED)).find_map(|step| {
            let address = first + (start + step) % addresses;
            self.ports(tuple, hash).map(|port| self.translated(tuple, address, port)).find(|it| is_free(it))
        })
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

    /// The ports to try, in order: its own one first, if that is allowed.
    fn ports(&self, tuple: &Tuple, hash: u64) -> impl Iterator<Item = u16> + use<> {
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
        (0..ports.min(PORTS_TRIED)).map(move |step| first + ((start + step) % ports) as u16)
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
