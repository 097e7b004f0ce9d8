//! How long a follower waits for its leader before it asks for votes: an election timeout that follows the measured
//! round trip.
//!
//! A timeout below the round trip makes elections repeat: candidates give up before their votes come back, and followers
//! stand before the leader's heartbeat can reach them. So the timeout is what a round trip takes at most: smoothed round
//! trip plus four times its variation (RFC 6298, section 2, which never lets a TCP sender give up sooner).
//!
//! Of which peer? Of the one that completes a quorum, when peers are sorted by that sum: an election is won when its vote
//! is in, however far the rest are. Each server measures for itself, so a server far from the others waits longer, and the
//! near ones get to stand first.
//!
//! Why not a multiple of it, as is usual with fixed timeouts? A timeout that is too short for once costs one question: the
//! others answer a pre-vote only when they miss the leader, too, and of two that ask at once one gives way (see
//! `store::group`). One that is too long delays every election.
//!
//! What is to be sampled is a round trip as votes have it, with the disk's part.

use std::collections::BTreeMap;

use machine::ServerId;
use machine::nanos::{Span, Time};

/// What is used before anything was measured.
pub const UNMEASURED: Span = Span::from_secs(1);
/// A peer that was not heard for so long counts no more: it is dead, and completes no quorum.
pub const PEER_STALE_AFTER: Span = Span::from_secs(30);
/// Most peers that are measured; of more, the one unheard for the longest is forgotten.
pub const PEERS_MAX: usize = 64;

/// Bounds of the timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The shortest timeout that may be chosen.
    pub min: Span,
    /// The longest timeout that may be chosen.
    pub max: Span,
    /// Always this instead, if given.
    pub fixed: Option<Span>,
}

impl Default for Config {
    /// 100 ms to 10 s, measured.
    fn default() -> Self {
        Self { min: Span::from_ms(100), max: Span::from_secs(10), fixed: None }
    }
}

/// Round trips to a peer (RFC 6298, 2.2 and 2.3), in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct RoundTrip {
    smoothed_ns: u64,
    variation_ns: u64,
    heard: Time,
}

impl RoundTrip {
    fn first(rtt_ns: u64, heard: Time) -> Self {
        Self { smoothed_ns: rtt_ns, variation_ns: rtt_ns / 2, heard }
    }

    fn sample(&mut self, rtt_ns: u64, now: Time) {
        let off = self.smoothed_ns.abs_diff(rtt_ns);
        self.variation_ns = self.variation_ns - self.variation_ns / 4 + off / 4;
        self.smoothed_ns = self.smoothed_ns - self.smoothed_ns / 8 + rtt_ns / 8;
        self.heard = now;
    }

    /// What a round trip takes at most, nearly always.
    fn bound_ns(&self) -> u64 {
        self.smoothed_ns.saturating_add(self.variation_ns.saturating_mul(4))
    }
}

/// A sample counts for at most so many times what was measured before.
const OUTLIER: u64 = 2;

/// The election timeout of one server, for all of its groups.
#[derive(Clone, Debug)]
pub struct ElectionTimeout {
    config: Config,
    /// Servers that vote, this one too.
    voters: usize,
    peers: BTreeMap<ServerId, RoundTrip>,
    current_ns: u64,
}

impl ElectionTimeout {
    /// A server that knows of no peer yet. `min` above `max` is taken as `max`.
    pub fn new(config: Config) -> Self {
        let current_ns = UNMEASURED.as_ns().min(config.max.as_ns()).max(config.min.as_ns().min(config.max.as_ns()));
        Self { config, voters: 1, peers: BTreeMap::new(), current_ns }
    }

    /// The size of the largest group that this server votes in, itself counted.
    pub fn set_voters(&mut self, voters: usize) {
        self.voters = voters;
    }

    /// A peer has left the cluster.
    pub fn forget(&mut self, peer: ServerId) {
        self.peers.remove(&peer);
    }

    /// A vote of `peer` would have taken `rtt`: there, on its disk, and back.
    pub fn sample(&mut self, now: Time, peer: ServerId, rtt: Span) {
        // Far above all bounds, and far below overflow.
        let rtt_ns = rtt.as_ns().min(Span::from_secs(3_600).as_ns());
        let least_ns = self.config.min.as_ns();
        self.peers
            .entry(peer)
            .and_modify(|round_trip| {
                // One outlier (a server that was stopped for a moment) shall not hold up elections for seconds; a network
                // that has become slow says so again and again.
                let believed_ns = round_trip.bound_ns().saturating_mul(OUTLIER).max(least_ns);
                round_trip.sample(rtt_ns.min(believed_ns), now);
            })
            .or_insert_with(|| RoundTrip::first(rtt_ns, now));
        while self.peers.len() > PEERS_MAX {
            let oldest = self.peers.iter().min_by_key(|(id, it)| (it.heard, **id)).map(|(id, _)| *id);
            self.peers.remove(&oldest.expect("there are more than none"));
        }
        self.current_ns = self.measured_ns(now);
    }

    /// The timeout that the round trips ask for now, within bounds.
    fn measured_ns(&self, now: Time) -> u64 {
        let live = self.peers.values().filter(|it| now.since(it.heard) < PEER_STALE_AFTER);
        let mut bounds: Vec<u64> = live.map(RoundTrip::bound_ns).collect();
        bounds.sort_unstable();
        // With its own vote, a candidate needs `voters / 2` others. Fewer known: the slowest of them.
        let completes = (self.voters / 2).clamp(1, bounds.len().max(1)) - 1;
        let bound = bounds.get(completes).copied().unwrap_or(0);
        bound.max(self.config.min.as_ns()).min(self.config.max.as_ns())
    }

    /// The election timeout `T`; a follower draws its own from `[T, 2 T)`.
    pub fn current(&self) -> Span {
        self.config.fixed.unwrap_or(Span::from_ns(self.current_ns))
    }
}
