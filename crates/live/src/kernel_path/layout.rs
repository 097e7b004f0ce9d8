//! Where what stands in the table of flows that programs and the worker have in common.
//!
//! A bucket has a few flows, each of them one direction of a connection. Words are of 64 bits; what is of a packet stands in them as it stands there.

/// Buckets: a power of two.
pub const BUCKETS: u32 = 1 << BUCKET_BITS;
pub const BUCKET_BITS: u32 = 15;
/// Flows of a bucket.
pub const WAYS: usize = 4;
/// Words of a flow.
pub const FLOW_WORDS: usize = 21;

/// Words of a flow, by what they are.
pub mod word {
    /// [`super::FREE`], [`super::LIVE`] or [`super::LEAVING`].
    pub const STATE: usize = 0;
    /// Source, destination (two each; an IPv4 address stands in the second one), ports and kind.
    pub const KEY: usize = 1;
    /// The hub's device of the host that sends it.
    pub const FROM: usize = 6;
    /// That of the host that it goes to.
    pub const TO: usize = 7;
    /// Who it is for: the first six bytes.
    pub const MAC: usize = 8;
    /// Whether addresses and ports are written.
    pub const TRANSLATES: usize = 9;
    /// Source and destination as they are written: one word of IPv4, four of IPv6.
    pub const ADDRESSES: usize = 10;
    /// The ports as they are written.
    pub const PORTS: usize = 14;
    /// What checksums differ by: that of addresses, in the packet's order of bytes, and that of ports.
    pub const ADDRESSES_DIFFER: usize = 15;
    pub const PORTS_DIFFER: usize = 16;
    /// What has passed: programs add to it.
    pub const PACKETS: usize = 17;
    pub const BYTES: usize = 18;
    /// The first twelve bytes of each of its packets: eight here and four there. Zero: any.
    pub const ONLY: usize = 19;
    pub const ONLY_REST: usize = 20;
}

/// Words of a key.
pub const KEY_WORDS: usize = 5;

/// Nobody's.
pub const FREE: u64 = 0;
/// Its packets are taken by the kernel path.
pub const LIVE: u64 = 1;
/// None of them is any more. Its place is not taken again before a packet that had found it there is long gone.
pub const LEAVING: u64 = 2;

/// The kinds of flows, in the upper half of a key's last word.
pub const TCP_OVER_IPV4: u64 = 0x604;
pub const TCP_OVER_IPV6: u64 = 0x606;
pub const UDP_OVER_IPV4: u64 = 0x1104;
pub const UDP_OVER_IPV6: u64 = 0x1106;

/// What hashes are multiplied by.
pub const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The bucket of a key: programs compute the same.
pub fn bucket(seed: u64, key: &[u64; KEY_WORDS]) -> u32 {
    let mut hash = seed;
    for word in key {
        hash = (hash ^ word).wrapping_mul(FACTOR);
        hash ^= hash >> 32;
    }
    (hash >> (64 - BUCKET_BITS)) as u32
}
