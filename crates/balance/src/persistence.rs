//! Clients that stay with their server, by source address.

use machine::{Rebase, Span, Time};

use crate::client_table::ClientTable;
use crate::server_id::ServerId;

/// How long clients stay with their server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Persistence {
    /// Since the client's last new connection (`-p` of `ipvsadm`; 300 s there).
    pub timeout: Span,
    /// Clients that are remembered; when there are more, those are forgotten that have been away for longest.
    pub clients_max: u32,
    /// Clients whose first bits are the same are one (`-M`): of IPv4 addresses.
    pub ipv4_prefix: u8,
    /// Of IPv6 addresses.
    pub ipv6_prefix: u8,
}

impl Default for Persistence {
    fn default() -> Self {
        Self { timeout: Span::from_secs(300), clients_max: 65_536, ipv4_prefix: 32, ipv6_prefix: 128 }
    }
}

impl Persistence {
    /// The part of an address that is the client.
    fn key(&self, address: u128) -> u128 {
        let (bits, prefix) = if address >> 32 == 0 { (32, self.ipv4_prefix) } else { (128, self.ipv6_prefix) };
        let host_bits = bits - u32::from(prefix).min(bits);
        if host_bits == u128::BITS { 0 } else { address >> host_bits << host_bits }
    }
}

/// Who has which server.
#[derive(Clone, Debug)]
pub(crate) struct Bindings {
    persistence: Persistence,
    table: ClientTable<Binding>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Binding(Option<ServerId>);

impl Rebase for Binding {
    fn rebase(&mut self, _by: Span) {}
}

impl Bindings {
    pub fn new(persistence: Persistence, seed: u64) -> Self {
        Self { persistence, table: ClientTable::new(persistence.clients_max as usize, seed) }
    }

    pub const fn persistence(&self) -> &Persistence {
        &self.persistence
    }

    pub const fn evicted(&self) -> u64 {
        self.table.evicted()
    }

    /// The client's server, if it has one.
    pub fn get(&mut self, now: Time, address: u128) -> Option<ServerId> {
        self.table.get(now, self.persistence.key(address))?.0
    }

    /// The client has opened a connection to this server.
    pub fn put(&mut self, now: Time, address: u128, server: ServerId) {
        let key = self.persistence.key(address);
        self.table.put(now, key, now + self.persistence.timeout, Binding(Some(server)));
    }
}

impl Rebase for Bindings {
    fn rebase(&mut self, by: Span) {
        let Self { persistence: _, table } = self;
        table.rebase(by);
    }
}
