//! How many answers clients get, by their prefix (as BIND's and NSD's response rate limiting): whoever makes up a victim's address has a name server send it more than was sent.
//!
//! A token bucket for each prefix, in a table of fixed size. What is beyond is dropped, and nothing is cut instead (*slip*): nobody answers by TCP here. A resolver
//! asks again.

use std::net::IpAddr;

use machine::{Rebase, Span, Time};

use crate::client_table::ClientTable;

/// Prefixes that are remembered; others begin with a full bucket.
const PREFIXES_MAX: usize = 1 << 13;

/// A bucket has room for the answers of so long.
const BURST: Span = Span::from_secs(1);

/// Bits behind the prefix of a client: it is of 24 bits with IPv4, of 56 with IPv6, as one customer has them.
const BEHIND: [u32; 2] = [32 - 24, 128 - 56];

/// When a prefix's bucket will be full again.
#[derive(Clone, Copy, Debug, Default)]
struct FullAt(Time);

impl Rebase for FullAt {
    fn rebase(&mut self, by: Span) {
        self.0.rebase(by);
    }
}

/// Limits answers.
#[derive(Clone, Debug)]
pub(super) struct AnswerLimit {
    buckets: ClientTable<FullAt>,
}

impl AnswerLimit {
    pub fn new(seed: u64) -> Self {
        Self { buckets: ClientTable::new(PREFIXES_MAX, seed) }
    }

    /// Whether somebody may get one more answer where there are `rate` a second; if so, he has.
    pub fn admit(&mut self, now: Time, client: IpAddr, rate: u32) -> bool {
        let prefix = match client {
            IpAddr::V4(address) => u128::from(address.to_bits() >> BEHIND[0]),
            // It begins with a bit that those of IPv4 do not have.
            IpAddr::V6(address) => address.to_bits() >> BEHIND[1] | 1 << 127,
        };
        let full_at = self.buckets.get(now, prefix).map_or(now, |bucket| bucket.0.max(now));
        let full_at = full_at + BURST / u64::from(rate.max(1));
        let is_admitted = full_at.since(now) <= BURST;
        if is_admitted {
            self.buckets.put(now, prefix, full_at, FullAt(full_at));
        }
        is_admitted
    }
}

impl Rebase for AnswerLimit {
    fn rebase(&mut self, by: Span) {
        let Self { buckets } = self;
        buckets.rebase(by);
    }
}
