//! Hashes of clients and servers, the same as in IPVS of Linux 6.1, and how the schedulers use them that have a table of servers.

use machine::siphash;

use crate::scheduler::schedule::Client;
use crate::server_id::ServerId;
use crate::servers::Servers;

/// What a service says of its hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// The client's port is hashed, too.
    pub has_port: bool,
    /// Another server is looked for if the client's own is out.
    pub has_fallback: bool,
}

impl Options {
    /// What is hashed of a client: its address, folded to 32 bits, and perhaps its port.
    pub fn key(self, client: &Client) -> u32 {
        fold(client.address).wrapping_add(if self.has_port { u32::from(client.port) } else { 0 })
    }

    /// The client's server in a table that has `bucket(offset)` for it, where offset 0 is its own one, and the others are where else to look.
    pub fn choose(self, servers: &Servers, table: &[u16], bucket: impl Fn(u32) -> usize) -> Option<ServerId> {
        let available = |slot: u16| servers.in_slot(slot).filter(|server| server.is_candidate).map(|server| server.id);
        let own = bucket(0);
        let chosen = available(*table.get(own)?);
        if chosen.is_some() || !self.has_fallback {
            return chosen;
        }
        let size = table.len();
        (0..size).find_map(|offset| available(table[bucket(((offset + own) % size) as u32)]))
    }
}

/// The four words of an address into one; that of an IPv4 address is itself.
pub(crate) fn fold(address: u128) -> u32 {
    (0..4).fold(0, |folded, word| folded ^ (address >> (32 * word)) as u32)
}

/// The kernel's `hash_32`: the upper `bits` bits of a product with the golden ratio.
pub(crate) const fn hash_32(value: u32, bits: u32) -> u32 {
    value.wrapping_mul(0x61c8_8647) >> (32 - bits)
}

/// The kernel's `hsiphash` of one word, as on 64-bit machines: SipHash-1-3 (Aumasson and Bernstein), cut to 32 bits. Both halves of the key are `key`.
pub(crate) fn hsiphash(value: u32, key: u64) -> u32 {
    const BYTES: u64 = 4;
    siphash::<1, 3>([key, key], &[], BYTES << 56 | u64::from(value)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families_fold_to_one_word() {
        assert_eq!(fold(0x0a00_0001), 0x0a00_0001);
        assert_eq!(fold(0x2001_0db8_0000_0000_0000_0000_0000_0001), 0x2001_0db9);
    }

    #[test]
    fn the_golden_ratio_spreads_neighbours() {
        assert_eq!(hash_32(1, 8), 0x61);
        assert_eq!(hash_32(2, 8), 0xc3);
    }

    #[test]
    fn siphash_is_the_published_one() {
        // With key zero the standard library's default hasher is SipHash-1-3 as well.
        let mut hasher = std::hash::DefaultHasher::new();
        std::hash::Hasher::write(&mut hasher, &[1, 0, 0, 10]);
        assert_eq!(hsiphash(0x0a00_0001, 0), std::hash::Hasher::finish(&hasher) as u32);
    }
}
