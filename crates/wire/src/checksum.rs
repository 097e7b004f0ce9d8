//! The Internet checksum (RFC 1071), alone and with the pseudo-headers of RFC 9293 and RFC 8200, section 8.1.

use std::net::{Ipv4Addr, Ipv6Addr};

/// What is summed before a transport header: addresses, protocol and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pseudo {
    /// RFC 9293, section 3.1.
    V4 {
        /// Source address.
        src: Ipv4Addr,
        /// Destination address.
        dst: Ipv4Addr,
        /// IP protocol number of the transport.
        protocol: u8,
    },
    /// RFC 8200, section 8.1.
    V6 {
        /// Source address.
        src: Ipv6Addr,
        /// Destination address.
        dst: Ipv6Addr,
        /// Next-header number of the transport.
        protocol: u8,
    },
}

impl Pseudo {
    /// The one's complement sum of the pseudo-header for a transport header and payload of `len` bytes.
    fn sum(&self, len: usize) -> u64 {
        match self {
            Self::V4 { src, dst, protocol } => {
                sum(&src.octets()) + sum(&dst.octets()) + u64::from(*protocol) + len as u64
            }
            Self::V6 { src, dst, protocol } => {
                sum(&src.octets()) + sum(&dst.octets()) + u64::from(*protocol) + len as u64
            }
        }
    }
}

/// The sum of big-endian 16-bit words, not yet folded; an odd last byte counts as the high half of a word.
///
/// It adds 32-bit words: the carries are folded in at the end, so the result is the same modulo 2^16 - 1.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut total: u64 = words.iter().map(|word| u64::from(u32::from_be_bytes(*word))).sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    total += u64::from(u32::from_be_bytes(last));
    total
}

/// Folds the carries until 16 bits are left.
const fn fold(mut total: u64) -> u16 {
    while total > 0xffff {
        total = (total >> 16) + (total & 0xffff);
    }
    total as u16
}

/// The checksum of `bytes`, whose checksum field is zero. Over bytes that hold their right checksum it is zero.
pub fn internet(bytes: &[u8]) -> u16 {
    !fold(sum(bytes))
}

/// The checksum of a transport header with its payload. Over bytes that hold their right checksum it is zero.
pub fn transport(pseudo: &Pseudo, bytes: &[u8]) -> u16 {
    !fold(pseudo.sum(bytes.len()) + sum(bytes))
}

/// What a sender leaves in the checksum field for its device to complete: the sum of the pseudo-header of a transport header with its payload of `len` bytes.
#[inline]
pub fn pseudo_header(pseudo: &Pseudo, len: usize) -> u16 {
    fold(pseudo.sum(len))
}

/// A checksum after some of the bytes under it have changed (RFC 1624, equation 3). `old` and `new` have one even length, and begin at an even
/// place.
#[inline]
pub fn update(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    !fold(u64::from(!checksum) + u64::from(!fold(sum(old))) + sum(new))
}

/// What a checksum field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// The checksum of all that it is for.
    Complete,
    /// The sum of the pseudo-header alone, not inverted: whoever sends the frame on adds the rest (`VIRTIO_NET_HDR_F_NEEDS_CSUM`).
    PseudoHeader,
}

/// Corrects a checksum field after bytes of the pseudo-header have changed.
#[inline]
pub(crate) fn update_for_address(field: &mut [u8; 2], coverage: Coverage, old: &[u8], new: &[u8]) {
    let value = u16::from_be_bytes(*field);
    let value = match coverage {
        Coverage::Complete => update(value, old, new),
        Coverage::PseudoHeader => !update(!value, old, new),
    };
    *field = value.to_be_bytes();
}

/// Corrects a checksum field after bytes of the transport header have changed.
#[inline]
pub(crate) fn update_for_header(field: &mut [u8; 2], coverage: Coverage, old: &[u8], new: &[u8]) {
    if coverage == Coverage::Complete {
        *field = update(u16::from_be_bytes(*field), old, new).to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_rfc_1071() {
        assert_eq!(!internet(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut total = 0_u32;
            for pair in bytes.chunks(2) {
                total += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
                total = (total & 0xffff) + (total >> 16);
            }
            prop_assert_eq!(internet(&bytes), !(total as u16));
        }

        #[test]
        fn an_update_is_what_summing_anew_gives(
            mut bytes in proptest::collection::vec(any::<u8>(), 20..60), at in 1_usize..5, new: [u8; 4],
        ) {
            // All bytes zero have two checksums in one's complement; no header is so.
            bytes[19] = 1;
            bytes[..2].fill(0);
            let before = internet(&bytes);
            let old: [u8; 4] = bytes[2 * at..2 * at + 4].try_into().unwrap();
            bytes[2 * at..2 * at + 4].copy_from_slice(&new);
            prop_assert_eq!(update(before, &old, &new), internet(&bytes));
        }

        #[test]
        fn bytes_with_their_checksum_sum_to_zero(
            mut bytes in proptest::collection::vec(any::<u8>(), 2..200),
            src: u128, dst: u128, protocol: u8,
        ) {
            let pseudo = Pseudo::V6 { src: src.into(), dst: dst.into(), protocol };
            bytes[0] = 0;
            bytes[1] = 0;
            let value = transport(&pseudo, &bytes);
            bytes[..2].copy_from_slice(&value.to_be_bytes());
            prop_assert_eq!(transport(&pseudo, &bytes), 0);
        }
    }
}
