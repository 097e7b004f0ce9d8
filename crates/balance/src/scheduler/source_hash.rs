//! SH: by the client's address. After `ip_vs_sh.c` of Linux 6.1: 256 buckets, dealt out to servers in their order, as many in a row as the server's weight.

use machine::{Rebase, Rng, Span, Time};

use super::hash::{Options, hash_32};
use super::schedule::{Client, Schedule};
use crate::server_id::ServerId;
use crate::servers::Servers;

/// Buckets, as a power of two.
const BITS: u32 = 8;
const BUCKETS: usize = 1 << BITS;

/// A table of servers, looked up by a hash.
#[derive(Clone, Debug)]
pub(crate) struct SourceHash {
    options: Options,
    /// Slots of servers; empty if there are none.
    table: Vec<u16>,
}

impl SourceHash {
    pub fn new(options: Options) -> Self {
        Self { options, table: Vec::with_capacity(BUCKETS) }
    }
}

impl Schedule for SourceHash {
    fn rebuild(&mut self, servers: &Servers) {
        // A server of weight 0 keeps a bucket, and its clients are refused or sent elsewhere.
        let row = |server: &crate::server::Server| {
            core::iter::repeat_n(server.id.index() as u16, (server.weight.max(1) as usize).min(BUCKETS))
        };
        self.table.clear();
        while servers.len() > 0 && self.table.len() < BUCKETS {
            self.table.extend(servers.iter().flat_map(row).take(BUCKETS - self.table.len()));
        }
    }

    fn choose(&mut self, _now: Time, servers: &Servers, client: &Client, _rng: &mut Rng) -> Option<ServerId> {
        let hash = hash_32(self.options.key(client), BITS);
        self.options.choose(servers, &self.table, |offset| (offset.wrapping_add(hash)) as usize % BUCKETS)
    }
}

impl Rebase for SourceHash {
    fn rebase(&mut self, _by: Span) {}
}
