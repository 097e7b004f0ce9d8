//! The broker of RPCs, and the calls that are under way.

use std::collections::BTreeMap;

use super::io::Asked;
use super::places::{Party, Places};
use crate::id::ClientId;

/// The broker, and calls under way: those that clients here have made, and those that providers here carry out.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) rpc: rpc::Rpc,
    /// By number: whose they are, which request of his, and the bytes of the input.
    pub(super) made: BTreeMap<u64, (ClientId, Asked, usize)>,
    /// The last number.
    pub(super) last: u64,
    /// Whose these are.
    pub(super) callers: Places,
    /// Which providers were asked to carry out how many that have not ended.
    pub(super) providers: Places,
}

impl Calls {
    /// None.
    pub fn new(rpc: rpc::Rpc) -> Self {
        Self {
            rpc,
            made: BTreeMap::new(),
            last: 0,
            callers: Places::with_shares_of(rpc::config::CALLS_PER_SERVER_MAX, rpc::config::CALLS_MAX),
            providers: Places::new(rpc::config::EXECUTIONS_MAX),
        }
    }

    /// How many were made here.
    pub const fn used(&self) -> usize {
        self.callers.used()
    }

    /// How many a client has made.
    pub fn of(&self, client: ClientId) -> usize {
        self.callers.of(client)
    }

    /// A client makes one; its number, or nothing if his user or host has as many as it may.
    pub(super) fn begin(&mut self, client: ClientId, party: &Party, asked: Asked, bytes: usize) -> Option<u64> {
        if !self.callers.admits(client, party, 1) {
            return None;
        }
        self.callers.take(client, party, 1);
        self.last += 1;
        self.made.insert(self.last, (client, asked, bytes));
        Some(self.last)
    }

    /// One has ended.
    pub(super) fn end(&mut self, call: u64) -> Option<(ClientId, Asked, usize)> {
        let ended = self.made.remove(&call)?;
        self.callers.give_back(ended.0, 1);
        Some(ended)
    }

    /// The numbers of those that a client has made.
    pub(super) fn made_by(&self, client: ClientId) -> Vec<u64> {
        self.made.iter().filter(|(_, (of, ..))| *of == client).map(|(call, _)| *call).collect()
    }
}
