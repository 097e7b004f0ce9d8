//! Finds the user that a token's hash belongs to.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::user::{Invitation, TokenHash, User};

/// The users that may log in by a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// The user of this name.
    User(Arc<str>),
    /// The server of this name, which was invited.
    Invited(Arc<str>),
}

/// All who have a token, by its hash: each request asks several times, and must not look through thousands of users each time. Made anew
/// when they change, which is seldom.
///
/// How long it takes to find a hash here may say something about hashes that are. That helps nobody: they are SHA-256 of 256 random
/// bits, and who knew a hash as a whole would still have to find the token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Holders(Arc<BTreeMap<TokenHash, Holder>>);

impl Holders {
    pub fn of(users: &BTreeMap<String, User>, invitations: &BTreeMap<String, Invitation>) -> Self {
        let invited = invitations.iter().map(|(name, it)| (it.token.hash, Holder::Invited(name.as_str().into())));
        let with_token = users.iter().filter_map(|(name, user)| Some((user.token?.hash, name)));
        let users = with_token.map(|(hash, name)| (hash, Holder::User(name.as_str().into())));
        Self(Arc::new(invited.chain(users).collect()))
    }

    pub fn get(&self, hash: &TokenHash) -> Option<&Holder> {
        self.0.get(hash)
    }
}
