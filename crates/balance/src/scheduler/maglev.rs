//! MH: by the client's address, so that few clients get another server when servers come and go (Eisenbud et al., *Maglev*, NSDI 2016, 3.4).
//!
//! After `ip_vs_mh.c` of Linux 6.1, on 64-bit machines and with the table of Debian's kernel: each server has its own order of the table's
//! places; they take turns, by weight, and each takes the first place of its order that is free. Keys of the hash are the kernel's, which are fixed,
//! so that two balancers with the same servers agree.

use machine::{Rebase, Rng, Span, Time};

use super::hash::{Options, fold, hsiphash};
use super::schedule::{Client, Schedule};
use crate::server::Server;
use crate::server_id::ServerId;
use crate::servers::Servers;

/// Places of the table: `CONFIG_IP_VS_MH_TAB_INDEX` 12. It is prime, so each order has all places.
const PLACES: u32 = 4_093;
/// Turns in a row have no more bits than this, whatever the weights.
const TURN_BITS: u32 = 6;
const FIRST_KEY: u64 = 2_654_435_761;
const SECOND_KEY: u64 = 2_654_446_892;
const FREE: u16 = u16::MAX;

/// Maglev's table.
#[derive(Clone, Debug)]
pub(crate) struct Maglev {
    options: Options,
    /// Slots of servers; empty if there are none.
    table: Vec<u16>,
    /// Where each server is in its order; kept for its memory.
    orders: Vec<Order>,
}

/// One server's order of places: from `next` on, each time `skip` further.
#[derive(Clone, Copy, Debug)]
struct Order {
    slot: u16,
    next: u32,
    skip: u32,
    /// Places that it takes in a row.
    turns: u32,
}

impl Maglev {
    pub fn new(options: Options) -> Self {
        Self { options, table: Vec::with_capacity(PLACES as usize), orders: Vec::new() }
    }
}

impl Order {
    /// Weights are in units of `unit`, and shifted to the right so far that they fit.
    fn new(server: &Server, unit: u32, shift: u32) -> Self {
        let key = fold(server.spec.address).wrapping_add(u32::from(server.spec.port));
        Self {
            slot: server.id.index() as u16,
            next: hsiphash(key, FIRST_KEY) % PLACES,
            skip: hsiphash(key, SECOND_KEY) % (PLACES - 1) + 1,
            turns: if server.last_weight == 0 { 0 } else { ((server.last_weight / unit) >> shift).max(1) },
        }
    }

    /// Takes its next place.
    fn take(&mut self, table: &mut [u16]) {
        while table[self.next as usize] != FREE {
            self.next = (self.next + self.skip) % PLACES;
        }
        table[self.next as usize] = self.slot;
    }
}

impl Schedule for Maglev {
    fn rebuild(&mut self, servers: &Servers) {
        self.table.clear();
        self.orders.clear();
        let (heaviest, unit) = servers.weights(|server| server.last_weight);
        if unit == 0 {
            return;
        }
        let shift = (u32::BITS - (heaviest / unit).leading_zeros()).saturating_sub(TURN_BITS);
        self.orders.extend(servers.iter().map(|server| Order::new(server, unit, shift)));
        self.table.resize(PLACES as usize, FREE);
        let mut left = PLACES;
        while left > 0 {
            for order in &mut self.orders {
                let turns = order.turns.min(left);
                (0..turns).for_each(|_| order.take(&mut self.table));
                left -= turns;
            }
        }
    }

    fn choose(&mut self, _now: Time, servers: &Servers, client: &Client, _rng: &mut Rng) -> Option<ServerId> {
        let key = self.options.key(client);
        let place = |offset: u32| (hsiphash(key.wrapping_add(offset), FIRST_KEY) % PLACES) as usize;
        self.options.choose(servers, &self.table, place)
    }
}

impl Rebase for Maglev {
    fn rebase(&mut self, _by: Span) {}
}
