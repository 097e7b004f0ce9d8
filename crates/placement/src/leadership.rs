//! Which server should lead each shard.
//!
//! Asking a follower costs a hop, so a shard's leader should be where its requests come from; without load, leaders spread
//! evenly. In order:
//!
//! 1. A pinned shard is led where it is pinned.
//! 2. A shard with load goes to the server where a clear majority of its requests comes in ([`Config::share_percent`]), when
//!    that has held for [`Config::hold`]. There it stays until its load falls below half of what counts as load, or
//!    another server has the majority.
//! 3. Other shards go from the server that leads most to the one that leads fewest, when these differ by two or more for
//!    [`Config::hold`]. Each such transfer brings them nearer, so it ends.
//!
//! A shard that was moved by 2 or 3 stays for [`Config::cool_down`]. Only live voters that have caught up are chosen.

use std::collections::{BTreeMap, BTreeSet};

use machine::ServerId;
use machine::nanos::{Span, Time};

use crate::replicas::weight;
use crate::{Map, ShardId};

/// Most servers whose requests are told apart in a shard; requests by further ones are counted as nobody's.
pub const ORIGINS_MAX: usize = 64;
/// A request counts so much, so that a quotient of counts keeps its fraction.
const ONE: u64 = 256;

/// When leadership moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Requests are counted in windows of this length; what was counted before weighs half as much with each.
    pub window: Span,
    /// A shard with fewer requests a window has no load.
    pub requests_min: u64,
    /// The share of a shard's requests that is a clear majority, in percent; above 50.
    pub share_percent: u64,
    /// How long a reason to move must hold.
    pub hold: Span,
    /// How long a shard stays after it was moved.
    pub cool_down: Span,
    /// A transfer that has not happened after this time has failed, and may be asked for again.
    pub transfer_timeout: Span,
    /// Most transfers under way at a time.
    pub transfers_max: usize,
}

impl Default for Config {
    /// A majority of 60 % of at least 10 requests a second, held for 3 s; then 10 s of rest.
    fn default() -> Self {
        Self {
            window: Span::from_secs(1),
            requests_min: 10,
            share_percent: 60,
            hold: Span::from_secs(3),
            cool_down: Span::from_secs(10),
            transfer_timeout: Span::from_secs(2),
            transfers_max: 4,
        }
    }
}

/// What is known of a shard now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardView {
    /// The number of the shard.
    pub shard: ShardId,
    /// Its leader, if it has one.
    pub leader: Option<ServerId>,
    /// Voters that could lead it: alive, and not far behind.
    pub ready: BTreeSet<ServerId>,
    /// The server that should lead it whatever the load.
    pub pinned: Option<ServerId>,
}

impl ShardView {
    /// The view of a shard of `map`.
    pub fn new(map: &Map, shard: ShardId, leader: Option<ServerId>, ready: BTreeSet<ServerId>) -> Self {
        Self { shard, leader, ready, pinned: map.shards().get(&shard).and_then(|shard| shard.pinned) }
    }
}

/// Leadership of `shard` should go to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The number of the shard.
    pub shard: ShardId,
    /// The server that should lead it: alive, a voter, caught up.
    pub to: ServerId,
}

/// What is remembered of a shard.
#[derive(Clone, Debug, Default)]
struct Record {
    /// Requests of this window, by the server that they came in at.
    window: BTreeMap<ServerId, u64>,
    /// Weighted mean of the windows before, times [`ONE`].
    smoothed: BTreeMap<ServerId, u64>,
    /// The server that has the majority, and since when.
    majority: Option<(ServerId, Time)>,
    /// The load brought it here, so spreading leaves it.
    drawn_to: Option<ServerId>,
    /// No move before this time.
    rests_until: Time,
    /// Asked for and not seen yet: to whom, and until when it is waited for.
    pending: Option<(ServerId, Time)>,
}

/// Counts requests and says which leaders should move.
#[derive(Clone, Debug)]
pub struct Leadership {
    config: Config,
    records: BTreeMap<ShardId, Record>,
    window_end: Option<Time>,
    /// The time since which leaders have been uneven.
    uneven_since: Option<Time>,
}

impl Leadership {
    /// Nothing counted yet.
    ///
    /// # Panics
    /// If the window is zero or the majority is none.
    pub fn new(config: Config) -> Self {
        assert!(config.window > Span::ZERO, "requests are counted in windows of some length");
        assert!((51..=100).contains(&config.share_percent), "a majority is more than half");
        Self { config, records: BTreeMap::new(), window_end: None, uneven_since: None }
    }

    /// `requests` for `shard` came in at `origin`. Shards that [`Leadership::plan`] has not been told of are not counted.
    pub fn count(&mut self, shard: ShardId, origin: ServerId, requests: u64) {
        let Some(record) = self.records.get_mut(&shard) else { return };
        if record.window.len() < ORIGINS_MAX || record.window.contains_key(&origin) {
            let count = record.window.entry(origin).or_default();
            // Sums of all origins stay far below overflow.
            *count = count.saturating_add(requests).min(1 << 40);
        }
    }

    /// The transfers to begin now. To be called several times a window, with every shard there is.
    pub fn plan(&mut self, now: Time, shards: &[ShardView]) -> Vec<Transfer> {
        self.forget_all_but(shards);
        self.close_windows(now);
        for view in shards {
            self.observe(now, view);
        }
        let under_way = self.records.values().filter(|record| record.pending.is_some()).count();
        let mut room = self.config.transfers_max.saturating_sub(under_way);
        let mut transfers = Vec::new();
        for view in shards {
            if let Some(to) = self.called_for(now, view).filter(|_| room > 0) {
                room -= 1;
                transfers.push(self.begin(now, view, to));
            }
        }
        self.spread(now, shards, &mut room, &mut transfers);
        transfers
    }

    fn forget_all_but(&mut self, shards: &[ShardView]) {
        let known: BTreeSet<ShardId> = shards.iter().map(|view| view.shard).collect();
        self.records.retain(|shard, _| known.contains(shard));
        for shard in known {
            self.records.entry(shard).or_default();
        }
    }

    /// Takes what was counted into the weighted mean, once for every window that has passed.
    fn close_windows(&mut self, now: Time) {
        let mut end = *self.window_end.get_or_insert(now + self.config.window);
        // After 64 halvings nothing is left of any count, so a long silence needs no more of them.
        let mut halvings = 0;
        while now >= end && halvings < 64 {
            self.records.values_mut().for_each(Record::close_window);
            end += self.config.window;
            halvings += 1;
        }
        self.window_end = Some(if now >= end { now + self.config.window } else { end });
    }

    /// Brings a shard's record up to date with what is seen.
    fn observe(&mut self, now: Time, view: &ShardView) {
        let Self { config, records, .. } = self;
        let record = records.get_mut(&view.shard).expect("made before");
        if record.pending.is_some_and(|(to, until)| view.leader == Some(to) || now >= until) {
            record.pending = None;
        }
        let total: u64 = record.smoothed.values().sum();
        if total < config.requests_min.saturating_mul(ONE) / 2 || record.drawn_to != view.leader {
            record.drawn_to = record.drawn_to.filter(|to| record.pending.is_some_and(|(pending, _)| pending == *to));
        }
        let clear = |count: u64| u128::from(count) * 100 >= u128::from(total) * u128::from(config.share_percent);
        let loaded = total >= config.requests_min.saturating_mul(ONE);
        let most = record.smoothed.iter().find(|(_, count)| loaded && clear(**count)).map(|(origin, _)| *origin);
        let since = |origin| record.majority.filter(|(before, _)| *before == origin).map_or(now, |(_, since)| since);
        record.majority = most.map(|origin| (origin, since(origin)));
        if let Some((origin, _)) = record.majority
            && view.leader == Some(origin)
        {
            record.drawn_to = Some(origin);
        }
    }

    /// The server that should lead by rules 1 and 2, if that is another one and the time has come.
    fn called_for(&self, now: Time, view: &ShardView) -> Option<ServerId> {
        let record = &self.records[&view.shard];
        let leader = view.leader.filter(|_| record.pending.is_none())?;
        let target = match view.pinned {
            Some(pinned) => Some(pinned),
            None => record
                .majority
                .filter(|(_, since)| now.since(*since) >= self.config.hold && now >= record.rests_until)
                .map(|(origin, _)| origin),
        };
        target.filter(|to| *to != leader && view.ready.contains(to))
    }

    fn begin(&mut self, now: Time, view: &ShardView, to: ServerId) -> Transfer {
        let record = self.records.get_mut(&view.shard).expect("made before");
        record.pending = Some((to, now + self.config.transfer_timeout));
        record.rests_until = now + self.config.cool_down;
        if record.majority.is_some_and(|(origin, _)| origin == to) {
            record.drawn_to = Some(to);
        }
        Transfer { shard: view.shard, to }
    }

    /// Carries out rule 3.
    fn spread(&mut self, now: Time, shards: &[ShardView], room: &mut usize, transfers: &mut Vec<Transfer>) {
        let mut led = self.led(shards);
        if self.most_uneven(now, shards, &led, false).is_none() {
            self.uneven_since = None;
            return;
        }
        if now.since(*self.uneven_since.get_or_insert(now)) < self.config.hold {
            return;
        }
        while *room > 0
            && let Some((at, from, to)) = self.most_uneven(now, shards, &led, true)
        {
            *led.entry(from).or_default() -= 1;
            *led.entry(to).or_default() += 1;
            *room -= 1;
            transfers.push(self.begin(now, &shards[at], to));
        }
    }

    /// How many shards each server leads, or will when what is pending has happened.
    fn led(&self, shards: &[ShardView]) -> BTreeMap<ServerId, usize> {
        let mut led: BTreeMap<ServerId, usize> = BTreeMap::new();
        for view in shards {
            let pending = self.records[&view.shard].pending.map(|(to, _)| to);
            if let Some(leader) = view.leader.map(|leader| pending.unwrap_or(leader)) {
                *led.entry(leader).or_default() += 1;
            }
        }
        led
    }

    /// The shard whose move evens leaders out most: its place, who leads it, who should. With `rested_only`, of those
    /// whose time of rest is over.
    fn most_uneven(
        &self,
        now: Time,
        shards: &[ShardView],
        led: &BTreeMap<ServerId, usize>,
        rested_only: bool,
    ) -> Option<(usize, ServerId, ServerId)> {
        let count = |server: &ServerId| led.get(server).copied().unwrap_or(0);
        let mut best = None;
        for (at, view) in shards.iter().enumerate() {
            let record = &self.records[&view.shard];
            // A shard whose load is about to draw it somewhere is not moved twice.
            let drawn = record.majority.is_some_and(|(origin, _)| view.ready.contains(&origin));
            let free = view.pinned.is_none() && record.drawn_to.is_none() && record.pending.is_none() && !drawn;
            let Some(leader) = view.leader.filter(|_| free && (!rested_only || now >= record.rests_until)) else {
                continue;
            };
            for &to in view.ready.iter().filter(|to| count(to) + 2 <= count(&leader)) {
                // Of equally good ones rendezvous hashing picks, so that every planner would pick the same.
                let gain = (count(&leader) - count(&to), weight(view.shard, to));
                if best.is_none_or(|(before, _)| gain > before) {
                    best = Some((gain, (at, leader, to)));
                }
            }
        }
        best.map(|(_, found)| found)
    }
}

impl Record {
    fn close_window(&mut self) {
        for (origin, count) in core::mem::take(&mut self.window) {
            let smoothed = self.smoothed.entry(origin).or_default();
            *smoothed = smoothed.saturating_add(count.saturating_mul(ONE));
        }
        self.smoothed.values_mut().for_each(|count| *count /= 2);
        self.smoothed.retain(|_, count| *count > 0);
    }
}
