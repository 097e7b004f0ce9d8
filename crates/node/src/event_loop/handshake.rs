//! Proofs by which servers show each other that they are of one cluster.

use std::collections::HashMap;

use mio::Token;
use store::Secret;

use crate::secret::Transcript;

/// A proof that is under way.
#[derive(Debug)]
pub(super) struct Handshake {
    pub transcript: Transcript,
    /// The secret that was proved with, at the one who connects.
    pub secret: Option<Secret>,
    /// The version that is spoken then.
    pub version: u32,
}

/// Connections of servers that have to prove who they are.
#[derive(Debug, Default)]
pub(super) struct Handshakes {
    under_way: HashMap<Token, Handshake>,
    /// Those of peers that have proved nothing: the cluster had no secret then.
    unproven: Vec<Token>,
}

impl Handshakes {
    pub fn begin(&mut self, token: Token, handshake: Handshake) {
        self.under_way.insert(token, handshake);
    }

    /// The proof has come.
    pub fn take(&mut self, token: Token) -> Option<Handshake> {
        self.under_way.remove(&token)
    }

    /// The peer is believed without a proof.
    pub fn believe(&mut self, token: Token) {
        self.unproven.push(token);
    }

    /// Those that are believed, and must be no longer.
    pub fn take_unproven(&mut self) -> Vec<Token> {
        std::mem::take(&mut self.unproven)
    }

    /// A connection has ended.
    pub fn forget(&mut self, token: Token) {
        self.under_way.remove(&token);
        self.unproven.retain(|unproven| *unproven != token);
    }
}
