//! The virtual router redundancy protocol, version 3 (RFC 9568): its one message.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Error;
use crate::checksum::{self, Pseudo};
use crate::error::split;

const NAME: &str = "VRRP";
const HEADER: usize = 8;

/// Version 3, type 1: an advertisement.
const VERSION_AND_TYPE: u8 = 0x31;

/// The longest interval between advertisements, in centiseconds: its field has 12 bits.
pub const VRRP_INTERVAL_MAX_CS: u16 = 0xfff;

/// To whom advertisements go over IPv4 (RFC 9568, 5.1.1.2).
pub const VRRP_GROUP_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 18);
/// The same over IPv6.
pub const VRRP_GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x12);

/// The MAC address of a virtual router (RFC 9568, 7.3).
pub const fn vrrp_mac(router: u8, is_ipv6: bool) -> [u8; 6] {
    [0, 0, 0x5e, 0, if is_ipv6 { 2 } else { 1 }, router]
}

/// A view of an advertisement. Checked: version, type, that there are as many addresses as it says and nothing else, the checksum.
#[derive(Clone, Copy, Debug)]
pub struct VrrpPacket<'a> {
    header: &'a [u8; HEADER],
    addresses: &'a [u8],
    is_ipv6: bool,
}

impl<'a> VrrpPacket<'a> {
    /// Checks an IP payload; `pseudo` is of the packet that it came in. Over IPv4 the pseudo-header may be left out of the checksum: implementations do either.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::Field`], [`Error::Checksum`].
    pub fn new_checked(bytes: &'a [u8], pseudo: &Pseudo) -> Result<Self, Error> {
        let (header, addresses) = split::<HEADER>(NAME, bytes)?;
        if header[0] != VERSION_AND_TYPE {
            return Err(Error::field(NAME, "version and type", u32::from(header[0]), "49 (version 3, advertisement)"));
        }
        if header[1] == 0 {
            return Err(Error::field(NAME, "virtual router", 0, "1 to 255"));
        }
        let is_ipv6 = matches!(pseudo, Pseudo::V6 { .. });
        let need = usize::from(header[3]) * if is_ipv6 { 16 } else { 4 };
        if header[3] == 0 || addresses.len() != need {
            return Err(Error::field(
                NAME,
                "count of addresses",
                u32::from(header[3]),
                "as many as there are, one at least",
            ));
        }
        let is_right = checksum::transport(pseudo, bytes) == 0 || !is_ipv6 && checksum::internet(bytes) == 0;
        if !is_right {
            return Err(Error::Checksum { header: NAME });
        }
        Ok(Self { header, addresses, is_ipv6 })
    }

    /// The virtual router.
    pub const fn router(&self) -> u8 {
        self.header[1]
    }

    /// The sender's priority: 255 owns the addresses, 0 resigns.
    pub const fn priority(&self) -> u8 {
        self.header[2]
    }

    /// From advertisement to advertisement, centiseconds.
    pub const fn interval_cs(&self) -> u16 {
        u16::from_be_bytes([self.header[4], self.header[5]]) & VRRP_INTERVAL_MAX_CS
    }

    /// The addresses of the virtual router.
    pub fn addresses(&self) -> impl ExactSizeIterator<Item = IpAddr> + use<'a> {
        let (is_ipv6, size) = (self.is_ipv6, if self.is_ipv6 { 16 } else { 4 });
        self.addresses.chunks_exact(size).map(move |bytes| {
            let bits = bytes.iter().fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
            if is_ipv6 { Ipv6Addr::from_bits(bits).into() } else { Ipv4Addr::from_bits(bits as u32).into() }
        })
    }
}

/// What an advertisement says. Valid while `addresses` are of one family, 255 at most; others are left out by [`VrrpRepr::emit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VrrpRepr<'a> {
    /// The virtual router.
    pub router: u8,
    /// The sender's priority.
    pub priority: u8,
    /// From advertisement to advertisement, centiseconds: 4,095 at most.
    pub interval_cs: u16,
    /// The addresses of the virtual router.
    pub addresses: &'a [IpAddr],
}

impl VrrpRepr<'_> {
    /// The message, with its checksum over `pseudo` and itself.
    pub fn emit(&self, pseudo: &Pseudo) -> Vec<u8> {
        let is_ipv6 = matches!(pseudo, Pseudo::V6 { .. });
        let own = || self.addresses.iter().filter(|address| address.is_ipv6() == is_ipv6).take(usize::from(u8::MAX));
        let interval = self.interval_cs.min(VRRP_INTERVAL_MAX_CS).to_be_bytes();
        let count = own().count() as u8;
        let mut bytes = vec![VERSION_AND_TYPE, self.router, self.priority, count, interval[0], interval[1], 0, 0];
        for address in own() {
            match address {
                IpAddr::V4(address) => bytes.extend(address.octets()),
                IpAddr::V6(address) => bytes.extend(address.octets()),
            }
        }
        let sum = checksum::transport(pseudo, &bytes);
        bytes[6..8].copy_from_slice(&sum.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol;
    use proptest::prelude::*;

    const V4: Pseudo = Pseudo::V4 { src: Ipv4Addr::new(10, 0, 0, 1), dst: VRRP_GROUP_V4, protocol: protocol::VRRP };
    const V6: Pseudo = Pseudo::V6 { src: Ipv6Addr::LOCALHOST, dst: VRRP_GROUP_V6, protocol: protocol::VRRP };

    proptest! {
        #[test]
        fn emitted_and_parsed_is_the_same(router in 1..=255_u8, priority: u8, interval_cs in 0..=0xfff_u16, bits in prop::collection::vec(any::<u128>(), 1..5), is_ipv6: bool) {
            let address = |bits: &u128| if is_ipv6 { IpAddr::V6(Ipv6Addr::from_bits(*bits)) } else { Ipv4Addr::from_bits(*bits as u32).into() };
            let addresses: Vec<IpAddr> = bits.iter().map(address).collect();
            let pseudo = if is_ipv6 { V6 } else { V4 };
            let bytes = VrrpRepr { router, priority, interval_cs, addresses: &addresses }.emit(&pseudo);
            let packet = VrrpPacket::new_checked(&bytes, &pseudo).expect("it is whole");
            prop_assert_eq!((packet.router(), packet.priority(), packet.interval_cs()), (router, priority, interval_cs));
            prop_assert_eq!(packet.addresses().collect::<Vec<_>>(), addresses);
            // Each bit counts.
            for at in 0..bytes.len() {
                let mut spoilt = bytes.clone();
                spoilt[at] ^= 0x10;
                prop_assert!(VrrpPacket::new_checked(&spoilt, &pseudo).is_err(), "byte {}", at);
            }
            prop_assert!(VrrpPacket::new_checked(&bytes[..bytes.len() - 1], &pseudo).is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            for pseudo in [V4, V6] {
                if let Ok(packet) = VrrpPacket::new_checked(&bytes, &pseudo) {
                    prop_assert!(packet.addresses().len() > 0);
                }
            }
        }
    }

    #[test]
    fn the_pseudo_header_may_be_left_out_over_ipv4() {
        let addresses = [Ipv4Addr::new(10, 1, 0, 80).into()];
        let mut bytes = VrrpRepr { router: 51, priority: 200, interval_cs: 5, addresses: &addresses }.emit(&V4);
        bytes[6..8].fill(0);
        let sum = checksum::internet(&bytes);
        bytes[6..8].copy_from_slice(&sum.to_be_bytes());
        assert!(VrrpPacket::new_checked(&bytes, &V4).is_ok());
    }
}
