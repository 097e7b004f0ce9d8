//! Numbers and byte strings as bytes: LEB128 for what is mostly small, little endian for what has a fixed place.

/// Adds `value` in 7 bits a byte, the lowest first.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Adds a length and so many bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// What stood where something else was expected.
pub(crate) type Malformed = &'static str;

/// Takes values from the front of bytes that nobody vouches for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or("an early end")?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or("an early end")?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self) -> Result<u128, Malformed> {
        self.array().map(u128::from_le_bytes)
    }

    /// A number as [`put_varint`] writes it.
    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number beyond 64 bits")
    }

    /// A byte string as [`put_bytes`] writes it.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.varint()?;
        self.take(usize::try_from(len).map_err(|_| "an early end")?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_put_is_read(value: u64, bytes: Vec<u8>) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            put_bytes(&mut out, &bytes);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert_eq!(reader.bytes(), Ok(&bytes[..]));
            prop_assert!(reader.is_empty());
        }
    }

    #[test]
    fn numbers_that_are_too_long_or_cut_are_refused() {
        assert!(Reader::new(&[0xff; 10]).varint().is_err());
        assert!(Reader::new(&[0x80; 11]).varint().is_err());
        assert!(Reader::new(&[0x80; 3]).varint().is_err());
        assert!(Reader::new(&[5, 1, 2]).bytes().is_err());
        let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Reader::new(&huge).varint(), Ok(u64::MAX));
        assert!(Reader::new(&huge).bytes().is_err());
    }
}
