//! The secret that the servers of a cluster share. Here it is passed on; the driver makes it, keeps it, and proves with it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A secret and its digest.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret {
    /// SHA-256 of the bytes: what the map says of it. Only the driver can compare the two.
    pub digest: [u8; 32],
    /// The secret itself.
    pub bytes: [u8; 32],
}

impl fmt::Debug for Secret {
    /// Logs do not say it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret(of digest {:02x}{:02x}...)", self.digest[0], self.digest[1])
    }
}
