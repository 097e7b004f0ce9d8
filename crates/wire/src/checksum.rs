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
