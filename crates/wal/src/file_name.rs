//! Names of files in the server's folder.

use core::fmt;

/// Longest name of a file, in bytes.
pub const FILE_NAME_BYTES_MAX: usize = 64;

/// Name of a file in the server's folder, which is flat: `[a-z0-9.-]`, at most 64 bytes, not starting with a dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName(String);

impl FileName {
    /// Checks a name.
    ///
    /// # Errors
    /// If a character, the start, or the length is not allowed.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidFileName> {
        let name = name.into();
        let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-');
        let valid = !name.is_empty()
            && name.len() <= FILE_NAME_BYTES_MAX
            && !name.starts_with('.')
            && name.bytes().all(allowed);
        if valid { Ok(Self(name)) } else { Err(InvalidFileName { name }) }
    }

    /// A name that this crate made, and that is therefore valid.
    pub(crate) fn made(name: String) -> Self {
        Self::new(name).expect("the log makes valid names")
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text is no name for a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no name for a file of the log: expected 1 to 64 of a-z, 0-9, dot, hyphen, no dot first")]
pub struct InvalidFileName {
    /// The name that was given.
    pub name: String,
}

/// The name under which [`Operation::Replace`](crate::Operation::Replace) writes before it renames. Recovery deletes what was left under it.
pub fn temporary_name(file: &FileName) -> FileName {
    FileName::made(format!("{}{TEMPORARY}", file.as_str()))
}

/// How the names of files end that nothing refers to yet.
pub(crate) const TEMPORARY: &str = ".part";
