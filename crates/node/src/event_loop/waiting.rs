//! How much waits in connections, on its way in and out.

use std::collections::HashMap;

use machine::nanos::Time;
use mio::Token;

/// How much waits in connections.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Connections of clients that are not read: the server holds enough for them.
    pub(super) held_back: Vec<Token>,
    /// Connections that hold part of a long frame: since when, and how many bytes.
    pub(super) partial: HashMap<Token, (Time, usize)>,
    /// Bytes of these.
    pub(super) received: usize,
    /// Bytes that wait in each connection to a peer.
    pub(super) to_peers: HashMap<Token, usize>,
    /// Bytes of these.
    pub(super) peers: usize,
    /// Envelopes that were dropped.
    pub dropped_envelopes: u64,
    /// Connections that were closed since too many held parts of frames.
    pub unfinished_frames: u64,
}

impl Waiting {
    /// A connection is not read until the server holds less for it.
    pub fn hold_back(&mut self, token: Token) {
        if !self.held_back.contains(&token) {
            self.held_back.push(token);
        }
    }
}
