//! Users, servers that are invited, and the tokens by which they show who they are.

use std::collections::BTreeSet;

use machine::ServerId;
use serde::{Deserialize, Serialize};

/// Most roles of one user.
pub const USER_ROLES_MAX: usize = 32;
/// Longest name of a user, in bytes.
pub const USER_LEN_MAX: usize = 128;

/// SHA-256 of a token.
pub type TokenHash = [u8; 32];

/// What is kept of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// SHA-256 of its 32 bytes.
    pub hash: TokenHash,
    /// Seconds since 1970 from which on it is worth nothing.
    pub expires_s: Option<u64>,
}

impl Token {
    /// Whether it has not expired. A server that does not know the time takes no token that expires.
    pub(super) fn is_good(&self, now_s: Option<u64>) -> bool {
        self.expires_s.is_none_or(|expires| now_s.is_some_and(|now| now < expires))
    }
}

/// A user as the cluster knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The roles that the user has.
    pub roles: BTreeSet<String>,
    /// By which it may log in. By a certificate it may always.
    pub token: Option<Token>,
}

/// A server that may join the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invitation {
    /// By which it shows that it is the one.
    pub token: Token,
    /// The server whose place it takes, if any.
    pub replaces: Option<ServerId>,
}

/// Whether this can name a user: what stands in certificates, or `uid:` and a number.
pub(super) fn is_user(name: &str) -> bool {
    if let Some(uid) = name.strip_prefix("uid:") {
        return uid.parse::<u32>().is_ok_and(|number| number.to_string() == uid);
    }
    let start = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    name.len() <= USER_LEN_MAX
        && name.bytes().next().is_some_and(start)
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || b"_-.@".contains(&c))
}
