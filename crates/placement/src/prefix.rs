//! What a shard claims: everything, a module, or the tree below a path.

use core::fmt;

use serde::{Deserialize, Serialize};
use tree::Path;

/// The longest name of a module, in bytes.
pub const MODULE_LEN_MAX: usize = 128;

/// A part of the data that belongs to one shard, but for the longer prefixes within it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Prefix {
    /// All data. Only [`ShardId::DEFAULT`](crate::ShardId::DEFAULT) owns this.
    Everything,
    /// All top-level nodes of a YANG module.
    Module(String),
    /// A node and what is below it.
    Path(Path),
}

impl Prefix {
    /// Whether `path` lies within.
    pub fn contains(&self, path: &Path) -> bool {
        match self {
            Self::Everything => true,
            Self::Module(module) => path.module() == Some(module.as_str()),
            Self::Path(prefix) => prefix.contains(path),
        }
    }

    /// Whether all of `other` lies within.
    pub fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Everything, _) => true,
            (Self::Module(module), Self::Module(other)) => module == other,
            (_, Self::Path(path)) => self.contains(path),
            (_, _) => false,
        }
    }

    /// Whether some path lies within both. Prefixes are nested or apart.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.includes(other) || other.includes(self)
    }

    /// The same part of the data in the one form that the map holds: a path that is all of a module becomes that module.
    #[must_use]
    pub fn canonical(self) -> Self {
        match self {
            Self::Path(path) if path.is_root() => Self::Everything,
            Self::Path(path) if path.is_module() => Self::Module(path.module().unwrap_or_default().to_owned()),
            other => other,
        }
    }

    /// Whether a shard other than `default` may own this, and it is [canonical](Prefix::canonical).
    pub(crate) fn is_claimable(&self) -> bool {
        match self {
            Self::Everything => false,
            Self::Module(module) => is_identifier(module),
            Self::Path(path) => !path.is_root() && !path.is_module(),
        }
    }

    /// The module that holds this, `None` for [`Prefix::Everything`].
    pub fn module(&self) -> Option<&str> {
        match self {
            Self::Everything => None,
            Self::Module(module) => Some(module),
            Self::Path(path) => path.module(),
        }
    }
}

impl From<Path> for Prefix {
    fn from(path: Path) -> Self {
        Self::Path(path).canonical()
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => f.write_str("everything"),
            Self::Module(module) => write!(f, "module {module}"),
            Self::Path(path) => f.write_str(path.as_str()),
        }
    }
}

/// Whether `name` is an identifier of YANG (RFC 7950, 6.2), no longer than [`MODULE_LEN_MAX`].
pub(crate) fn is_identifier(name: &str) -> bool {
    let start = |c: u8| c.is_ascii_alphabetic() || c == b'_';
    let rest = |c: u8| c.is_ascii_alphanumeric() || b"_-.".contains(&c);
    name.len() <= MODULE_LEN_MAX && name.bytes().next().is_some_and(start) && name.bytes().all(rest)
}
