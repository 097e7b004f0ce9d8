//! New connections a second of each source: a token bucket for each, in a table of fixed size.

use machine::{Rebase, Span, Time};

use crate::client_table::ClientTable;

/// How many connections a client may open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimit {
    /// A second, in the long run.
    pub rate: u32,
    /// At once.
    pub burst: u32,
    /// Clients that are remembered; others begin with a full bucket.
    pub clients_max: u32,
}

/// What a client has left.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// When it will be full again.
    full_at: Time,
}

impl Rebase for Bucket {
    fn rebase(&mut self, by: Span) {
        self.full_at.rebase(by);
    }
}

/// Limits clients.
#[derive(Clone, Debug)]
pub(crate) struct Limiter {
    limit: ClientLimit,
    /// What one connection takes.
    cost: Span,
    buckets: ClientTable<Bucket>,
}

impl Limiter {
    pub fn new(limit: ClientLimit, seed: u64) -> Self {
        let cost = Span::from_secs(1) / u64::from(limit.rate.max(1));
        Self { limit, cost, buckets: ClientTable::new(limit.clients_max as usize, seed) }
    }

    pub const fn limit(&self) -> &ClientLimit {
        &self.limit
    }

    pub const fn evicted(&self) -> u64 {
        self.buckets.evicted()
    }

    /// Whether a client may open one more connection; if so, it has.
    pub fn admit(&mut self, now: Time, address: u128) -> bool {
        let bucket = self.buckets.get(now, address).map_or(now, |bucket| bucket.full_at.max(now));
        let full_at = bucket + self.cost;
        let is_admitted = full_at.since(now) <= self.cost * u64::from(self.limit.burst.max(1));
        if is_admitted {
            // A full bucket needs no entry.
            self.buckets.put(now, address, full_at, Bucket { full_at });
        }
        is_admitted
    }
}

impl Rebase for Limiter {
    fn rebase(&mut self, by: Span) {
        let Self { limit: _, cost: _, buckets } = self;
        buckets.rebase(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_its_burst_and_then_its_rate() {
        let mut limiter = Limiter::new(ClientLimit { rate: 10, burst: 5, clients_max: 100 }, 1);
        let mut admitted =
            |ms, client, tries| (0..tries).filter(|_| limiter.admit(Time::ZERO + Span::from_ms(ms), client)).count();
        assert_eq!(admitted(0, 1, 20), 5);
        assert_eq!(admitted(0, 2, 20), 5);
        assert_eq!(admitted(99, 1, 20), 0);
        assert_eq!(admitted(200, 1, 20), 2);
        assert_eq!(admitted(10_000, 1, 20), 5);
    }
}
