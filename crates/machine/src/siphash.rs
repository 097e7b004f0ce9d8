//! `SipHash` (Aumasson and Bernstein, 2012): a hash with a key, which nobody can make collide who does not know that.

/// `SipHash-C-D` of whole words, and of `last`: the bytes that are left, low byte first, and in its highest byte the length of all, modulo 256.
#[inline]
pub fn siphash<const C: u32, const D: u32>([k0, k1]: [u64; 2], words: &[u64], last: u64) -> u64 {
    let start = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let [a, b, c, d] = words.iter().chain([&last]).fold(start, |[a, b, c, d], word| {
        let [a, b, c, d] = (0..C).fold([a, b, c, d ^ word], |v, _| round(v));
        [a ^ word, b, c, d]
    });
    let [a, b, c, d] = (0..D).fold([a, b, c ^ 0xff, d], |v, _| round(v));
    a ^ b ^ c ^ d
}

const fn round([mut a, mut b, mut c, mut d]: [u64; 4]) -> [u64; 4] {
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
    use std::hash::{DefaultHasher, Hasher as _};

    use super::*;

    /// The vectors of the reference implementation for SipHash-2-4: key 00..0f, input nothing, 00..06, 00..07 and 00..0f.
    #[test]
    fn it_is_the_published_one() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let hash = |words: &[u64], last| siphash::<2, 4>(key, words, last);
        assert_eq!(hash(&[], 0), 0x726f_db47_dd0e_0e31);
        assert_eq!(hash(&[], 7 << 56 | 0x0006_0504_0302_0100), 0xab02_00f5_8b01_d137);
        assert_eq!(hash(&[0x0706_0504_0302_0100], 8 << 56), 0x93f5_f579_9a93_2462);
        assert_eq!(hash(&key, 16 << 56), 0x3f2a_cc7f_57c2_9bdb);
    }

    /// With key zero the standard library's default hasher is SipHash-1-3.
    #[test]
    fn with_fewer_rounds_it_is_the_standard_librarys() {
        for bytes in [&[1, 0, 0, 10][..], &[], &[7; 7]] {
            let mut hasher = DefaultHasher::new();
            hasher.write(bytes);
            let mut last = [0; 8];
            last[..bytes.len()].copy_from_slice(bytes);
            last[7] = bytes.len() as u8;
            assert_eq!(siphash::<1, 3>([0; 2], &[], u64::from_le_bytes(last)), hasher.finish());
        }
    }
}
