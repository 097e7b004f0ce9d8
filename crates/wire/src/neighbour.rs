//! Neighbour solicitation and advertisement (RFC 4861, sections 4.3 and 4.4), as `ICMPv6` messages (RFC 4443).

use std::net::Ipv6Addr;

use crate::checksum::{self, Pseudo};
use crate::error::{room, split};
use crate::{Error, protocol};

const NAME: &str = "ICMPv6 neighbour message";
const HEADER: usize = 24;
/// A link-layer address option for Ethernet: kind, length in units of 8 bytes, address.
const OPTION: usize = 8;
const OPTION_SOURCE: u8 = 1;
const OPTION_TARGET: u8 = 2;

const FLAG_ROUTER: u8 = 0x80;
const FLAG_SOLICITED: u8 = 0x40;
const FLAG_OVERRIDE: u8 = 0x20;

/// `ICMPv6` message kinds that Heddle distinguishes.
pub mod kind {
    /// Neighbour solicitation.
    pub const NEIGHBOUR_SOLICITATION: u8 = 135;
    /// Neighbour advertisement.
    pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
}

/// A view of a neighbour solicitation or advertisement. Checked: kind and code; the target is not a multicast address; every
/// option has a length and lies within the bytes.
#[derive(Clone, Copy, Debug)]
pub struct NeighbourPacket<'a> {
    /// The whole message, for the checksum.
    bytes: &'a [u8],
    header: &'a [u8; HEADER],
    /// Value of the source (solicitation) or target (advertisement) link-layer address option.
    link_layer: Option<[u8; 6]>,
}

impl<'a> NeighbourPacket<'a> {
    /// Checks an IPv6 upper-layer payload. That the hop limit is 255 is for the caller to see.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Field`] for another kind or code, a multicast target, or an option of length 0.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Error> {
        let (header, options) = split::<HEADER>(NAME, bytes)?;
        let wanted = match header[0] {
            kind::NEIGHBOUR_SOLICITATION => OPTION_SOURCE,
            kind::NEIGHBOUR_ADVERTISEMENT => OPTION_TARGET,
            other => return Err(Error::field(NAME, "kind", u32::from(other), "135 or 136")),
        };
        if header[1] != 0 {
            return Err(Error::field(NAME, "code", u32::from(header[1]), "0"));
        }
        if header[8] == 0xff {
            return Err(Error::field(NAME, "target's first byte", 0xff, "a unicast address"));
        }
        Ok(Self { bytes, header, link_layer: link_layer_option(wanted, options)? })
    }

    /// Whether it is a solicitation (else an advertisement).
    pub const fn is_solicitation(&self) -> bool {
        self.header[0] == kind::NEIGHBOUR_SOLICITATION
    }

    /// The address that is asked for or announced.
    pub fn target(&self) -> Ipv6Addr {
        let mut octets = [0; 16];
        octets.copy_from_slice(&self.header[8..]);
        Ipv6Addr::from(octets)
    }

    /// The sender's (solicitation) or target's (advertisement) link-layer address, if the message has it.
    pub const fn link_layer(&self) -> Option<[u8; 6]> {
        self.link_layer
    }

    /// Whether the checksum fits.
    pub fn is_checksum_right(&self, src: Ipv6Addr, dst: Ipv6Addr) -> bool {
        checksum::transport(&Pseudo::V6 { src, dst, protocol: protocol::ICMPV6 }, self.bytes) == 0
    }
}

/// Walks through the options. Those of other kinds are skipped (RFC 4861, section 4.6); the first one counts.
fn link_layer_option(wanted: u8, mut options: &[u8]) -> Result<Option<[u8; 6]>, Error> {
    let mut found = None;
    while !options.is_empty() {
        let (option, _) = split::<OPTION>("ICMPv6 neighbour option", options)?;
        let len = usize::from(option[1]) * 8;
        if len == 0 {
            return Err(Error::field("ICMPv6 neighbour option", "length", 0, "at least 1"));
        }
        if found.is_none() && option[0] == wanted && len == OPTION {
            found = Some([option[2], option[3], option[4], option[5], option[6], option[7]]);
        }
        let Some(rest) = options.get(len..) else {
            return Err(Error::Truncated { header: "ICMPv6 neighbour option", need: len, have: options.len() });
        };
        options = rest;
    }
    Ok(found)
}

/// What a neighbour message says. Valid while `target` is not a multicast address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourRepr {
    /// A solicitation asks for the owner of the target address.
    Solicitation {
        /// The address that is asked for.
        target: Ipv6Addr,
        /// The sender's link-layer address; absent in duplicate address detection.
        source_link_layer: Option<[u8; 6]>,
    },
    /// The target address is there.
    Advertisement {
        /// The sender is a router.
        router: bool,
        /// It answers a solicitation.
        solicited: bool,
        /// It replaces what the receiver knows.
        override_known: bool,
        /// The address that is announced.
        target: Ipv6Addr,
        /// Its link-layer address.
        target_link_layer: Option<[u8; 6]>,
    },
}

impl NeighbourRepr {
    /// What the view says.
    ///
    /// # Errors
    /// [`Error::Checksum`]; [`Error::Field`] for the rules of RFC 4861, sections 7.1.1 and 7.1.2, that need the IPv6
    /// addresses: a solicitation from the unspecified address goes to a solicited-node multicast address and has no source
    /// link-layer address; an advertisement to a multicast address is not solicited.
    pub fn parse(packet: &NeighbourPacket<'_>, src: Ipv6Addr, dst: Ipv6Addr) -> Result<Self, Error> {
        if !packet.is_checksum_right(src, dst) {
            return Err(Error::Checksum { header: NAME });
        }
        let target = packet.target();
        if packet.is_solicitation() {
            if src.is_unspecified() && packet.link_layer().is_some() {
                return Err(Error::field(NAME, "source link-layer option", 1, "none from the unspecified address"));
            }
            if src.is_unspecified() && !is_solicited_node(dst) {
                return Err(Error::field(
                    NAME,
                    "destination's first byte",
                    u32::from(dst.octets()[0]),
                    "a solicited-node multicast address",
                ));
            }
            return Ok(Self::Solicitation { target, source_link_layer: packet.link_layer() });
        }
        let flags = packet.header[4];
        if dst.is_multicast() && flags & FLAG_SOLICITED != 0 {
            return Err(Error::field(NAME, "solicited flag", 1, "0 to a multicast address"));
        }
        Ok(Self::Advertisement {
            router: flags & FLAG_ROUTER != 0,
            solicited: flags & FLAG_SOLICITED != 0,
            override_known: flags & FLAG_OVERRIDE != 0,
            target,
            target_link_layer: packet.link_layer(),
        })
    }

    const fn link_layer(&self) -> Option<[u8; 6]> {
        match self {
            Self::Solicitation { source_link_layer, .. } => *source_link_layer,
            Self::Advertisement { target_link_layer, .. } => *target_link_layer,
        }
    }

    /// Bytes that [`NeighbourRepr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        if self.link_layer().is_some() { HEADER + OPTION } else { HEADER }
    }

    /// Writes the message with its checksum to the start of `buffer`, as sent from `src` to `dst`.
    ///
    /// # Panics
    /// If `buffer` has less than `buffer_len()` bytes.
    pub fn emit(&self, src: Ipv6Addr, dst: Ipv6Addr, buffer: &mut [u8]) {
        let (kind, flags, target, option) = match *self {
            Self::Solicitation { target, .. } => (kind::NEIGHBOUR_SOLICITATION, 0, target, OPTION_SOURCE),
            Self::Advertisement { router, solicited, override_known, target, .. } => {
                let flags = (u8::from(router) * FLAG_ROUTER)
                    | (u8::from(solicited) * FLAG_SOLICITED)
                    | (u8::from(override_known) * FLAG_OVERRIDE);
                (kind::NEIGHBOUR_ADVERTISEMENT, flags, target, OPTION_TARGET)
            }
        };
        let header = room::<HEADER>(buffer);
        header[..8].copy_from_slice(&[kind, 0, 0, 0, flags, 0, 0, 0]);
        header[8..].copy_from_slice(&target.octets());
        if let Some(link_layer) = self.link_layer() {
            let bytes = room::<OPTION>(&mut buffer[HEADER..]);
            bytes[..2].copy_from_slice(&[option, 1]);
            bytes[2..].copy_from_slice(&link_layer);
        }
        let pseudo = Pseudo::V6 { src, dst, protocol: protocol::ICMPV6 };
        let checksum = checksum::transport(&pseudo, &buffer[..self.buffer_len()]);
        buffer[2..4].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Whether it is `ff02::1:ff00:0/104` (RFC 4291, section 2.7.1).
const fn is_solicited_node(address: Ipv6Addr) -> bool {
    matches!(address.segments(), [0xff02, 0, 0, 0, 0, 1, 0xff00..=0xffff, _])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SRC: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
    const GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 2);
    const TARGET: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

    fn emitted(repr: NeighbourRepr, src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
        let mut buffer = vec![0xa5; repr.buffer_len()];
        repr.emit(src, dst, &mut buffer);
        buffer
    }

    fn read(bytes: &[u8], src: Ipv6Addr, dst: Ipv6Addr) -> Result<NeighbourRepr, String> {
        NeighbourPacket::new_checked(bytes)
            .and_then(|packet| NeighbourRepr::parse(&packet, src, dst))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn duplicate_address_detection_has_rules_of_its_own() {
        let none = Ipv6Addr::UNSPECIFIED;
        let probe = NeighbourRepr::Solicitation { target: TARGET, source_link_layer: None };
        assert_eq!(read(&emitted(probe, none, GROUP), none, GROUP), Ok(probe));
        assert!(read(&emitted(probe, none, TARGET), none, TARGET).unwrap_err().contains("solicited-node"));
        let advertised = NeighbourRepr::Solicitation { target: TARGET, source_link_layer: Some([2; 6]) };
        assert!(read(&emitted(advertised, none, GROUP), none, GROUP).unwrap_err().contains("source link-layer option"));
    }

    #[test]
    fn options_are_walked_through() {
        let advertised = NeighbourRepr::Solicitation { target: TARGET, source_link_layer: Some([2; 6]) };
        let mut bytes = emitted(advertised, SRC, GROUP);
        // A nonce option (RFC 3971) before the link-layer address.
        bytes.splice(HEADER..HEADER, [14, 1, 1, 2, 3, 4, 5, 6]);
        assert_eq!(NeighbourPacket::new_checked(&bytes).unwrap().link_layer(), Some([2; 6]));
        bytes[HEADER + 1] = 0;
        assert!(NeighbourPacket::new_checked(&bytes).unwrap_err().to_string().contains("length is 0"));
        bytes[HEADER + 1] = 3;
        assert!(NeighbourPacket::new_checked(&bytes).unwrap_err().to_string().contains("16 bytes, at least 24"));
    }

    proptest! {
        #[test]
        fn emitted_and_parsed_is_the_same(
            (src, dst, target) in any::<(u128, u128, u128)>(),
            link_layer: Option<[u8; 6]>,
            flags in proptest::option::of((any::<bool>(), any::<bool>(), any::<bool>())),
        ) {
            let (src, dst, target) = (Ipv6Addr::from(src | 1), Ipv6Addr::from(dst), Ipv6Addr::from(target >> 1));
            let repr = match flags {
                None => NeighbourRepr::Solicitation { target, source_link_layer: link_layer },
                Some((router, solicited, override_known)) => NeighbourRepr::Advertisement {
                    router, solicited: solicited && !dst.is_multicast(), override_known, target,
                    target_link_layer: link_layer,
                },
            };
            let bytes = emitted(repr, src, dst);
            prop_assert_eq!(read(&bytes, src, dst), Ok(repr));
        }

        #[test]
        fn a_flipped_bit_is_noticed(bit in 0_usize..256, link_layer: [u8; 6]) {
            let repr = NeighbourRepr::Solicitation { target: TARGET, source_link_layer: Some(link_layer) };
            let mut bytes = emitted(repr, SRC, GROUP);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(read(&bytes, SRC, GROUP).is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..100), kind: bool) {
            if let [first, code, ..] = &mut bytes[..] {
                (*first, *code) = (135 + u8::from(kind), 0);
            }
            let _ = read(&bytes, SRC, GROUP);
        }
    }
}
