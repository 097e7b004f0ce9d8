//! Why bytes are not the header that they were taken for.

/// Why bytes are not the header that they were taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes end before the header, or before what its length fields announce.
    #[error("{header}: {have} bytes, at least {need} expected")]
    Truncated {
        /// The header's name.
        header: &'static str,
        /// Bytes that it takes.
        need: usize,
        /// Bytes that are there.
        have: usize,
    },
    /// A field has a value that the standard does not allow or that is not handled.
    #[error("{header}: {field} is {value}, {expected} expected")]
    Field {
        /// The header's name.
        header: &'static str,
        /// The field's name.
        field: &'static str,
        /// What it says.
        value: u32,
        /// What it may say.
        expected: &'static str,
    },
    /// The checksum does not fit the bytes.
    #[error("{header}: wrong checksum")]
    Checksum {
        /// The header's name.
        header: &'static str,
    },
}

impl Error {
    /// A field whose value is not one of those `expected`.
    pub(crate) const fn field(header: &'static str, field: &'static str, value: u32, expected: &'static str) -> Self {
        Self::Field { header, field, value, expected }
    }
}

/// Splits `bytes` into a header of `N` bytes and the rest.
pub(crate) const fn split<'a, const N: usize>(
    header: &'static str,
    bytes: &'a [u8],
) -> Result<(&'a [u8; N], &'a [u8]), Error> {
    match bytes.split_first_chunk::<N>() {
        Some(parts) => Ok(parts),
        None => Err(Error::Truncated { header, need: N, have: bytes.len() }),
    }
}

/// The same of bytes that may be changed.
pub(crate) const fn split_mut<'a, const N: usize>(
    header: &'static str,
    bytes: &'a mut [u8],
) -> Result<(&'a mut [u8; N], &'a mut [u8]), Error> {
    let have = bytes.len();
    match bytes.split_first_chunk_mut::<N>() {
        Some(parts) => Ok(parts),
        None => Err(Error::Truncated { header, need: N, have }),
    }
}

/// The first `need` bytes and the rest.
pub(crate) const fn split_at<'a>(
    header: &'static str,
    bytes: &'a [u8],
    need: usize,
) -> Result<(&'a [u8], &'a [u8]), Error> {
    match bytes.split_at_checked(need) {
        Some(parts) => Ok(parts),
        None => Err(Error::Truncated { header, need, have: bytes.len() }),
    }
}

/// The first `N` bytes of a buffer that a header is emitted into.
///
/// # Panics
/// If the buffer is shorter.
pub(crate) const fn room<const N: usize>(buffer: &mut [u8]) -> &mut [u8; N] {
    buffer.first_chunk_mut::<N>().expect("the buffer has buffer_len() bytes")
}
