//! Hashes of clients and servers, the same as in IPVS of Linux 6.1, and how the schedulers use them that have a table of servers.

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
pub(crate) const fn hsiphash(value: u32, key: u64) -> u32 {
    const BYTES: u64 = 4;
    let word = BYTES << 56 | value as u64;
    let mut v = [
        key ^ 0x736f_6d65_7073_6575,
        key ^ 0x646f_7261_6e64_6f6d,
        key ^ 0x6c79_6765_6e65_7261,
        key ^ 0x7465_6462_7974_6573 ^ word,
    ];
    v = sip_round(v);
    v[0] ^= word;
    v[2] ^= 0xff;
    v = sip_round(sip_round(sip_round(v)));
    (v[0] ^ v[1] ^ v[2] ^ v[3]) as u32
}

const fn sip_round([mut a, mut b, mut c, mut d]: [u64; 4]) -> [u64; 4] {
    a = a.wrapping_add(b);
    b = b.rotate_left(13) ^ a;
    a = a.rotate_left(32);
    c = c.wrapping_add(d);
    d = d.rotate_left(16) ^ c;
    a = a.wrapping_add(d);
    d = d.rotate_left(21) ^ a;
    c = c.wrapping_add(b);
    b = b.rotate_left(17) ^ c;
    c = c.rotate_left(32);
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    #![allow(deprecated, reason = "the standard library's SipHash is what this one is held against")]

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

    /// A whole SipHash-1-3 of any bytes, after the paper.
    fn reference(bytes: &[u8], key: u64) -> u64 {
        let start = [0x736f_6d65_7073_6575, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573_u64];
        let mut v = start.map(|word| word ^ key);
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len() / 8 * 8 + 7, 0);
        padded.push(bytes.len() as u8);
        for word in padded.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())) {
            v[3] ^= word;
            v = sip_round(v);
            v[0] ^= word;
        }
        v[2] ^= 0xff;
        for _ in 0..3 {
            v = sip_round(v);
        }
        v.into_iter().fold(0, |all, word| all ^ word)
    }

    #[test]
    fn siphash_is_the_published_one() {
        assert_eq!(hsiphash(0x0a00_0001, 2_654_435_761), reference(&[1, 0, 0, 10], 2_654_435_761) as u32);
        // With key zero the standard library's default hasher is SipHash-1-3 as well.
        let mut hasher = std::hash::DefaultHasher::new();
        std::hash::Hasher::write(&mut hasher, &[1, 0, 0, 10]);
        assert_eq!(hsiphash(0x0a00_0001, 0), std::hash::Hasher::finish(&hasher) as u32);
    }
}
