//! Addresses as numbers.

use std::net::IpAddr;

/// An address as a number: IPv4 in the low 32 bits, zeros above.
pub fn address_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}
