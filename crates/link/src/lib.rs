//! One direction of a link: rate, delay, and a drop-tail queue, as a function of time.
//!
//! A first-in-first-out link needs no event at the start or end of a transmission: when a packet is offered, its
//! departure and arrival are already known. So a hop costs the simulator one event, and the live driver one entry in
//! a heap. Invariant: arrivals come in the order of the offers, unless the link is there to reorder them.
//!
//! The card at the far end may collect what comes and hand it over together ([`LinkSpec::coalesce_ns`]). That is a function of time, too: the first
//! packet of those already says when they are handed over.
//!
//! A link may lose, duplicate and corrupt packets and have their delays differ at random ([`LinkSpec::loss_ppb`], [`LinkSpec::jitter_ns`] and more): what is
//! drawn comes from a seed, and arrivals stay in order, but for packets that are to overtake others ([`LinkSpec::reorder_ppb`]).
//!
//! A link can lose its carrier ([`Link::cut`]), as when its cable is pulled. What is offered meanwhile is lost. What was under
//! way is lost, too: whoever holds the verdicts throws those packets away and says how many they were ([`Link::lose`]). That
//! a link is up is never asked on the path of a packet: one without carrier looks like one whose queue is always full.
#![forbid(unsafe_code)]

mod counters;
mod impairments;
mod rebase;
mod retiming;
mod spec;
mod verdict;

use std::collections::VecDeque;
use std::num::NonZeroU32;

use machine::{Rng, Span, Time, nanos};

pub use counters::Counters;
use impairments::Impairments;
pub use retiming::Retiming;
pub use spec::LinkSpec;
pub use verdict::{Impaired, Verdict};

/// One direction of a link. Its fields stand in the order in which a packet needs them, and take 120 bytes: two lines of a processor's cache with what a graph
/// keeps beside them. A large network has more links than a cache has room for.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Link {
    /// When the transmitter falls idle.
    idle_at: Time,
    /// What a byte takes, where that is a whole number of picoseconds; else zero. A division would cost as much as the rest. It is zero as well where `rare` has to
    /// be asked, so that other links need not look there.
    byte_ps: u64,
    /// When each packet that may still wait starts its transmission, oldest first. At most `queue_max` lie ahead.
    starts: VecDeque<Time>,
    /// What was accepted: [`Counters::packets`], [`Counters::bytes`], [`Counters::busy`].
    packets: u64,
    bytes: u64,
    /// [`LinkSpec::delay`].
    delay: Span,
    /// No packet arrives before: what was on its way when the link was changed last.
    earliest: Time,
    busy: Span,
    /// What those that were accepted wait until their transmission, in picoseconds, also what still lies ahead of them; beside [`Rare::waits_ps`].
    waits_ps: u64,
    /// [`LinkSpec::queue_packets`], or more than can ever wait.
    queue_max: u32,
    /// [`Counters::queue_peak`].
    queue_peak: u32,
    /// [`LinkSpec::overhead_bytes`].
    overhead_bytes: u32,
    /// [`LinkSpec::ecn_packets`], or more than can ever wait.
    marks_from: u32,
    rare: Box<Rare>,
}

// With what a graph keeps beside it, 128: a third line would cost the simulator a twentieth of its speed.
const _: () = assert!(size_of::<Link>() <= 120);

/// What few packets need of a link.
#[derive(Clone, Debug)]
struct Rare {
    spec: LinkSpec,
    /// While it has no carrier: what it does when it has one. `spec` is [`LinkSpec::NO_CARRIER`] meanwhile.
    cut: Option<LinkSpec>,
    /// [`Counters::drops`], [`Counters::marks`], [`Counters::cut`].
    drops: u64,
    marks: u64,
    lost: u64,
    /// What was waited as far as it does not fit [`Link::waits_ps`].
    waits_ps: u128,
    /// When the card at the far end hands over what it has collected last.
    handed_over: Time,
    /// Length and transmission time of the last packet, for rates that take a division: traffic comes in few lengths.
    last: (u32, Span),
    /// Where its randomness starts.
    seed: u64,
    /// What is random about it, if anything is.
    impairments: Option<Box<Impairments>>,
}

impl Link {
    /// An idle link. What is random about it starts from `seed`.
    pub fn new(spec: LinkSpec, seed: u64) -> Self {
        let mut link = Self {
            idle_at: Time::ZERO,
            byte_ps: 0,
            starts: VecDeque::new(),
            packets: 0,
            bytes: 0,
            delay: Span::ZERO,
            earliest: Time::ZERO,
            busy: Span::ZERO,
            waits_ps: 0,
            queue_max: 0,
            queue_peak: 0,
            overhead_bytes: 0,
            marks_from: 0,
            rare: Box::new(Rare {
                spec,
                cut: None,
                drops: 0,
                marks: 0,
                lost: 0,
                waits_ps: 0,
                handed_over: Time::ZERO,
                last: (0, Span::ZERO),
                seed,
                impairments: Impairments::of(spec, seed),
            }),
        };
        link.adopt(spec);
        link
    }

    /// Does this to packets from now on. Gives what it has done before.
    fn adopt(&mut self, spec: LinkSpec) -> LinkSpec {
        self.byte_ps = byte_ps(spec);
        self.delay = spec.delay;
        self.queue_max = spec.queue_packets.unwrap_or(u32::MAX);
        self.overhead_bytes = spec.overhead_bytes;
        self.marks_from = spec.ecn_packets.map_or(u32::MAX, NonZeroU32::get);
        self.rare.last = (0, Span::ZERO);
        std::mem::replace(&mut self.rare.spec, spec)
    }

    /// Another one like it that has done nothing yet. Where a link has no rate, packets don't wait for each other: each thread can have one of its own, and
    /// what they did is added up.
    #[must_use]
    pub fn twin(&self) -> Self {
        let mut twin = self.clone();
        twin.take_counters(Time::NEVER);
        // What it draws is its own.
        let seed = Rng::new(self.rare.seed).bits();
        twin.rare.seed = seed;
        twin.rare.impairments = Impairments::of(twin.spec(), seed);
        twin
    }

    /// Offers a packet of `bytes` at `now`; on the wire it takes [`LinkSpec::overhead_bytes`] more. Time never runs backwards between calls.
    #[inline]
    pub fn offer(&mut self, now: Time, bytes: u32) -> Verdict {
        if self.byte_ps == 0 {
            return self.offer_with_care(now, bytes);
        }
        let Some((start, marks)) = self.start(now) else { return self.drop_one() };
        let busy = Span::from_ps(self.byte_ps) * u64::from(bytes.saturating_add(self.overhead_bytes));
        let arrives = self.transmit(start, bytes, busy);
        if marks { Verdict::Marks(arrives) } else { Verdict::Arrives(arrives) }
    }

    /// The same where a packet needs `rare`.
    #[inline(never)]
    fn offer_with_care(&mut self, now: Time, bytes: u32) -> Verdict {
        let Some(rate_bps) = self.rare.spec.rate_bps else {
            self.idle_at = now;
            self.count(bytes, Span::ZERO);
            let arrives = (now + self.delay).max(self.earliest);
            return self.impair(now, arrives, false);
        };
        let Some((start, marks)) = self.start(now) else { return self.drop_one() };
        let busy = self.divide(self.rare.spec.on_wire(bytes), rate_bps);
        let arrives = self.transmit(start, bytes, busy);
        self.impair(self.idle_at, arrives, marks)
    }

    /// When a packet's transmission starts that is offered now, and whether it is to be marked; `None` if there is no place for it to wait.
    #[inline]
    fn start(&mut self, now: Time) -> Option<(Time, bool)> {
        if self.idle_at <= now {
            self.starts.clear();
            return Some((now, false));
        }
        let waiting = self.wait(now)?;
        Some((self.idle_at, waiting >= self.marks_from))
    }

    /// Transmits a packet; gives when it arrives, unless something is random.
    #[inline]
    fn transmit(&mut self, start: Time, bytes: u32, busy: Span) -> Time {
        self.idle_at = start + busy;
        self.count(bytes, busy);
        (self.idle_at + self.delay).max(self.earliest)
    }

    /// When a packet that arrives then is handed over.
    #[inline]
    fn hand_over(&mut self, arrives: Time) -> Time {
        if self.rare.spec.coalesce_ns == 0 { arrives } else { self.coalesce(arrives) }
    }

    /// What happens to a packet that was sent at `sent` and would arrive at `arrives` if nothing were random.
    fn impair(&mut self, sent: Time, arrives: Time, marks: bool) -> Verdict {
        let rare = &mut *self.rare;
        let drawn = match &mut rare.impairments {
            Some(impairments) => impairments.draw(rare.spec, (sent, arrives, self.earliest), marks),
            None => Some(Impaired { at: arrives, marks, is_duplicated: false, flips: None }),
        };
        let Some(impaired) = drawn else { return Verdict::Dropped };
        Impaired { at: self.hand_over(impaired.at), ..impaired }.verdict()
    }

    #[inline(never)]
    fn coalesce(&mut self, arrives: Time) -> Time {
        let rare = &mut *self.rare;
        if arrives > rare.handed_over {
            rare.handed_over = arrives + rare.spec.coalesce();
        }
        rare.handed_over
    }

    /// A packet was marked: [`Verdict::Marks`].
    pub fn count_mark(&mut self) {
        self.rare.marks += 1;
    }

    /// A second packet was made of one, and is offered now: [`Impaired::is_duplicated`].
    pub fn count_duplicate(&mut self) {
        if let Some(impairments) = &mut self.rare.impairments {
            impairments.count_duplicate();
        }
    }

    /// When the last bit of the packet that was accepted last has left, or will have.
    pub const fn idle_at(&self) -> Time {
        self.idle_at
    }

    /// Whether [`Link::offer`] has each packet arrive at once, from `now` on and until something is changed.
    pub fn takes_no_time(&self, now: Time) -> bool {
        !self.rare.spec.is_shaped() && self.earliest <= now
    }

    /// Counts packets that have passed without being offered, since it takes no time.
    pub const fn count_passed(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
    }

    fn drop_one(&mut self) -> Verdict {
        if self.is_up() {
            self.rare.drops += 1;
        } else {
            self.rare.lost += 1;
        }
        Verdict::Dropped
    }

    /// Transmission time at a rate that does not give a whole number of picoseconds a byte.
    fn divide(&mut self, bytes: u32, rate_bps: u64) -> Span {
        let last = &mut self.rare.last;
        if last.0 != bytes {
            *last = (bytes, Span::transmission(u64::from(bytes), rate_bps));
        }
        last.1
    }

    /// Takes a place in the queue until the transmitter falls idle: how many were waiting before; `None` if there is no place.
    #[inline]
    fn wait(&mut self, now: Time) -> Option<u32> {
        while self.starts.front().is_some_and(|&start| start <= now) {
            self.starts.pop_front();
        }
        let waiting = self.starts.len() as u32;
        if waiting >= self.queue_max {
            return None;
        }
        self.starts.push_back(self.idle_at);
        // The wait is known, so that nothing is to be counted when it ends.
        let wait = self.idle_at.as_ps() - now.as_ps();
        match self.waits_ps.checked_add(wait) {
            Some(waits_ps) => self.waits_ps = waits_ps,
            None => self.set_waits_ps(self.all_waits_ps() + u128::from(wait)),
        }
        if self.queue_peak <= waiting {
            self.queue_peak = waiting + 1;
        }
        Some(waiting)
    }

    /// What those that were accepted wait until their transmission.
    fn all_waits_ps(&self) -> u128 {
        self.rare.waits_ps + u128::from(self.waits_ps)
    }

    fn set_waits_ps(&mut self, waits_ps: u128) {
        (self.rare.waits_ps, self.waits_ps) = (waits_ps, 0);
    }

    #[inline]
    fn count(&mut self, bytes: u32, busy: Span) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
        self.busy = self.busy.wrapping_add(busy);
    }

    /// What it does to packets, when it has a carrier.
    pub fn spec(&self) -> LinkSpec {
        self.rare.cut.unwrap_or(self.rare.spec)
    }

    /// Whether it has a carrier.
    pub fn is_up(&self) -> bool {
        self.rare.cut.is_none()
    }

    /// The carrier goes: what is offered is lost until [`Link::heal`]. Packets that it said would arrive after this are lost as
    /// well: whoever holds them throws them away, and says how many they were ([`Link::lose`]). Nothing happens if it was gone.
    pub fn cut(&mut self, now: Time) {
        if self.is_up() {
            self.rare.cut = Some(self.adopt(LinkSpec::NO_CARRIER));
            self.set_waits_ps(self.all_waits_ps() - self.waits_ahead_ps(now));
            self.starts.clear();
            // Never idle, and no place to wait: nothing is accepted.
            self.idle_at = Time::NEVER;
        }
    }

    /// The carrier comes back. The link is idle; nothing is under way that could be overtaken.
    pub fn heal(&mut self) {
        if let Some(spec) = self.rare.cut.take() {
            self.adopt(spec);
            self.idle_at = Time::ZERO;
            self.earliest = Time::ZERO;
            self.rare.handed_over = Time::ZERO;
            if let Some(impairments) = &mut self.rare.impairments {
                impairments.nothing_is_under_way();
            }
        }
    }

    /// So many packets were under way when the carrier went.
    pub fn lose(&mut self, packets: u64) {
        self.rare.lost += packets;
    }

    /// Changes what it does from `now` on; no packet was offered later. What has left the transmitter keeps its time. What still
    /// waits goes on at the new rate and with the new delay: whoever holds the verdicts corrects them by what is returned. Then
    /// arrivals stay in the order of the offers.
    pub fn reconfigure(&mut self, now: Time, spec: LinkSpec) -> Retiming {
        let seed = self.rare.seed;
        if let Some(kept) = &mut self.rare.cut {
            // Nothing is under way.
            let old = std::mem::replace(kept, spec);
            Impairments::change(&mut self.rare.impairments, spec, seed);
            return Retiming::new(now, Time::NEVER, old, spec);
        }
        let old = self.adopt(spec);
        // While packets wait, one is being sent: those before it have left by now.
        let on_the_way = self.earliest.max(self.idle_at.min(now) + old.delay);
        let retiming = Retiming::new(now, on_the_way, old, spec);
        let last = self.earliest.max(self.idle_at + old.delay);
        // Where nothing waits any more, the next packet could overtake.
        self.earliest = if spec.rate_bps.is_none() { retiming.arrival(last) } else { on_the_way };
        self.idle_at = retiming.departure(self.idle_at);
        let last = self.rare.impairments.as_ref().map_or(last, |impairments| last.max(impairments.latest()));
        if old.coalesce_ns > 0 || spec.coalesce_ns > 0 || old.jitter_ns > 0 || spec.jitter_ns > 0 {
            // None is handed over before those that the card has, or that are late.
            let last = if old.coalesce_ns > 0 { self.rare.handed_over } else { last };
            self.earliest = self.earliest.max(retiming.arrival(last));
        }
        if let Some(impairments) = &mut self.rare.impairments {
            impairments.retime(&retiming);
        }
        Impairments::change(&mut self.rare.impairments, spec, seed);
        let waited = self.all_waits_ps() - self.waits_ahead_ps(now);
        for start in &mut self.starts {
            *start = retiming.departure(*start);
        }
        self.set_waits_ps(waited + self.waits_ahead_ps(now));
        retiming
    }

    /// How much longer those that are in the queue at `now` wait, all of them together.
    fn waits_ahead_ps(&self, now: Time) -> u128 {
        self.starts.iter().map(|start| u128::from(start.since(now).as_ps())).sum()
    }

    /// What it has done until `now`, or since [`Link::take_counters`]. Of packets that were offered for a later moment (hosts take a while), what they wait
    /// counts as far as others have waited as long.
    pub fn counters(&self, now: Time) -> Counters {
        let mut counters = Counters {
            packets: self.packets,
            bytes: self.bytes,
            drops: self.rare.drops,
            marks: self.rare.marks,
            cut: self.rare.lost,
            busy: self.busy,
            queue_peak: self.queue_peak,
            waited: nanos::Span::from_ns((self.all_waits_ps().saturating_sub(self.waits_ahead_ps(now)) / 1_000) as u64),
            ..Counters::default()
        };
        if let Some(impairments) = &self.rare.impairments {
            impairments.add_to(&mut counters);
        }
        counters
    }

    /// What it has done until `now`; counting starts anew.
    pub fn take_counters(&mut self, now: Time) -> Counters {
        let counters = self.counters(now);
        (self.packets, self.bytes, self.busy) = (0, 0, Span::ZERO);
        self.queue_peak = 0;
        let rare = &mut *self.rare;
        (rare.drops, rare.marks, rare.lost) = (0, 0, 0);
        if let Some(impairments) = &mut rare.impairments {
            impairments.forget_counted();
        }
        self.set_waits_ps(self.waits_ahead_ps(now));
        counters
    }
}

/// Picoseconds a byte takes at the rate of `spec`, if that is a whole number and nothing is special; else zero.
fn byte_ps(spec: LinkSpec) -> u64 {
    if spec.is_special() {
        return 0;
    }
    let per_byte = |rate: u64| 8_000_000_000_000_u64.is_multiple_of(rate).then(|| 8_000_000_000_000 / rate);
    spec.rate_bps.and_then(per_byte).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gigabit(queue: u32) -> Link {
        Link::new(
            LinkSpec {
                rate_bps: Some(1_000_000_000),
                delay: Span::from_us(50),
                queue_packets: Some(queue),
                ..LinkSpec::default()
            },
            0,
        )
    }

    #[test]
    fn a_packet_takes_transmission_and_delay() {
        let mut link = gigabit(250);
        assert_eq!(link.offer(Time::ZERO, 1_040), Verdict::Arrives(Time::from_ns(58_320)));
        assert_eq!(link.offer(Time::ZERO, 40), Verdict::Arrives(Time::from_ns(58_640)));
        assert_eq!(link.counters(Time::NEVER).busy, Span::from_ns(8_640));
    }

    #[test]
    fn what_a_packet_has_besides_itself_takes_time_and_is_not_counted() {
        for rate in [1_000_000_000, 999_999_937] {
            let plain = LinkSpec { rate_bps: Some(rate), ..LinkSpec::default() };
            let ethernet = LinkSpec { overhead_bytes: 24, ..plain };
            assert_eq!(Link::new(ethernet, 0).offer(Time::ZERO, 1_514), Link::new(plain, 0).offer(Time::ZERO, 1_538));
        }
        let mut link =
            Link::new(LinkSpec { overhead_bytes: 24, rate_bps: Some(1_000_000_000), ..LinkSpec::default() }, 0);
        link.offer(Time::ZERO, 1_514);
        assert_eq!((link.counters(Time::NEVER).bytes, link.counters(Time::NEVER).busy), (1_514, Span::from_ns(12_304)));
    }

    #[test]
    fn the_queue_holds_its_limit_besides_the_packet_in_transmission() {
        let mut link = gigabit(2);
        let verdicts: Vec<_> = (0..4).map(|_| link.offer(Time::ZERO, 1_000)).collect();
        assert_eq!(verdicts[3], Verdict::Dropped);
        assert!(verdicts[..3].iter().all(|v| matches!(v, Verdict::Arrives(_))));
        // The second packet starts after 8 us and leaves a place.
        assert!(matches!(link.offer(Time::from_ns(8_000), 1_000), Verdict::Arrives(_)));
        assert_eq!((link.counters(Time::NEVER).drops, link.counters(Time::NEVER).queue_peak), (1, 2));
    }

    #[test]
    fn waits_of_more_than_213_days_are_counted() {
        let spec = LinkSpec { rate_bps: Some(1_000), queue_packets: Some(3_000), ..LinkSpec::default() };
        let mut link = Link::new(spec, 0);
        for _ in 0..3_001 {
            link.offer(Time::ZERO, 1_500);
        }
        // 12 s each.
        let seconds: u64 = (1..=3_000).map(|ahead| 12 * ahead).sum();
        assert!(seconds > 213 * 86_400);
        assert_eq!(link.counters(Time::NEVER).waited, nanos::Span::from_secs(seconds));
        assert_eq!(link.counters(Time::ZERO).waited, nanos::Span::ZERO);
    }

    #[test]
    fn a_packet_that_finds_a_long_queue_is_to_be_marked() {
        let gigabit = gigabit(4).spec();
        let mut link = Link::new(LinkSpec { ecn_packets: std::num::NonZeroU32::new(2), ..gigabit }, 0);
        let verdicts: Vec<_> = (0..6).map(|_| link.offer(Time::ZERO, 1_000)).collect();
        assert!(verdicts[..3].iter().all(|v| matches!(v, Verdict::Arrives(_))), "one is sent, and two may wait");
        assert!(verdicts[3..5].iter().all(|v| matches!(v, Verdict::Marks(_))));
        assert_eq!(verdicts[5], Verdict::Dropped);
        assert!(matches!(link.offer(Time::from_ns(24_000), 1_000), Verdict::Arrives(_)), "one is left");
        link.count_mark();
        let end = Time::from_ns(24_000);
        assert_eq!((link.counters(end).marks, link.take_counters(end).marks, link.counters(end).marks), (1, 1, 0));
    }

    #[test]
    fn without_a_carrier_all_is_lost_and_counted_and_with_one_it_is_idle_again() {
        let mut link = gigabit(2);
        for _ in 0..3 {
            assert!(matches!(link.offer(Time::ZERO, 1_000), Verdict::Arrives(_)));
        }
        link.cut(Time::ZERO);
        link.lose(3);
        assert!(!link.is_up());
        assert_eq!(link.spec().rate_bps, Some(1_000_000_000), "what it does is not forgotten");
        for ns in [1, 8_000, 1_000_000_000] {
            assert_eq!(link.offer(Time::from_ns(ns), 1_000), Verdict::Dropped);
        }
        assert_eq!(
            (link.counters(Time::NEVER).cut, link.counters(Time::NEVER).drops, link.counters(Time::NEVER).packets),
            (6, 0, 3)
        );
        link.heal();
        assert!(link.is_up());
        let now = Time::from_ns(2_000_000_000);
        assert_eq!(link.offer(now, 1_000), Verdict::Arrives(now + Span::from_us(58)));
        assert_eq!((link.counters(Time::NEVER).cut, link.counters(Time::NEVER).queue_peak), (6, 2));
    }

    /// Ten packets of 8 us each, offered at once: after 20 us the third is sent, and seven wait.
    fn ten_at_once() -> (Link, Time) {
        let mut link = gigabit(250);
        for _ in 0..10 {
            link.offer(Time::ZERO, 1_000);
        }
        (link, Time::from_ns(20_000))
    }

    fn waited_us(link: &Link, now: Time) -> u64 {
        link.counters(now).waited.as_ns() / 1_000
    }

    #[test]
    fn waits_are_counted_until_the_moment_of_the_reading() {
        let (mut link, now) = ten_at_once();
        assert_eq!(waited_us(&link, Time::ZERO), 0);
        // Nine packets wait for 8 us, eight for 8 us, and seven have waited for 4 us.
        let until_now = 9 * 8 + 8 * 8 + 7 * 4;
        assert_eq!(waited_us(&link, now), until_now);
        let all = 8 * 45;
        assert_eq!(waited_us(&link, Time::from_ns(1_000_000)), all);
        assert_eq!(link.take_counters(now).waited.as_ns() / 1_000, until_now);
        assert_eq!(waited_us(&link, now), 0);
        assert_eq!(waited_us(&link, Time::from_ns(1_000_000)), all - until_now);
        // A link that does not wait for anything does not count.
        link.offer(Time::from_ns(2_000_000), 1_000);
        assert_eq!(waited_us(&link, Time::NEVER), all - until_now);
    }

    #[test]
    fn what_is_lost_in_a_queue_waits_no_longer() {
        let (mut link, now) = ten_at_once();
        let until_now = waited_us(&link, now);
        link.cut(now);
        link.heal();
        assert_eq!(waited_us(&link, Time::NEVER), until_now);
    }

    #[test]
    fn a_new_rate_changes_what_is_left_to_wait() {
        let (mut link, now) = ten_at_once();
        let until_now = waited_us(&link, now);
        let slower = LinkSpec { rate_bps: Some(500_000_000), ..link.spec() };
        link.reconfigure(now, slower);
        assert_eq!(waited_us(&link, now), until_now);
        // Half of a packet is left, then whole ones, 16 us each.
        let ahead: u64 = (0..7).map(|before| 8 + 16 * before).sum();
        assert_eq!(waited_us(&link, Time::NEVER), until_now + ahead);
        let mut link = ten_at_once().0;
        link.reconfigure(now, LinkSpec { delay: Span::from_us(50), ..LinkSpec::UNSHAPED });
        assert_eq!(waited_us(&link, Time::NEVER), until_now);
    }

    #[test]
    fn waits_of_a_long_queue_over_months_do_not_overflow() {
        let mut link =
            Link::new(LinkSpec { rate_bps: Some(1), queue_packets: Some(1_000_000), ..LinkSpec::UNSHAPED }, 0);
        for _ in 0..1_000 {
            link.offer(Time::ZERO, 1_000);
        }
        let all_ns = 8_000_u128 * 1_000_000_000 * 999 * 1_000 / 2;
        assert_eq!(u128::from(link.counters(Time::NEVER).waited.as_ns()), all_ns);
    }

    #[test]
    fn a_link_without_a_rate_loses_its_carrier_too() {
        let mut link = Link::new(LinkSpec { delay: Span::from_us(5), ..LinkSpec::default() }, 0);
        link.cut(Time::from_ns(1));
        assert_eq!(link.offer(Time::from_ns(1), 100), Verdict::Dropped);
        link.heal();
        assert_eq!(link.offer(Time::from_ns(2), 100), Verdict::Arrives(Time::from_ns(5_002)));
    }

    #[test]
    fn a_link_is_changed_while_it_has_no_carrier() {
        let mut link = gigabit(2);
        link.offer(Time::ZERO, 1_000);
        link.cut(Time::from_ns(1));
        let slower = LinkSpec { rate_bps: Some(100_000_000), ..link.spec() };
        let retiming = link.reconfigure(Time::from_ns(10), slower);
        assert_eq!(retiming.arrival(Time::from_ns(58_000)), Time::from_ns(58_000));
        assert_eq!(link.offer(Time::from_ns(20), 1_000), Verdict::Dropped);
        link.heal();
        assert_eq!(link.offer(Time::from_ns(30), 1_000), Verdict::Arrives(Time::from_ns(30 + 80_000 + 50_000)));
        // A cut twice and a repair of what is whole change nothing.
        link.heal();
        link.cut(Time::from_ns(1));
        link.cut(Time::from_ns(1));
        link.heal();
        assert_eq!(link.spec(), slower);
    }

    #[test]
    fn both_ways_to_a_transmission_time_agree() {
        for rate in [1, 7, 8_000, 1_000_000, 999_999_937, 1_000_000_000, 3_000_000_000, 40_000_000_000, 400_000_000_000]
        {
            let mut link = Link::new(
                LinkSpec { rate_bps: Some(rate), delay: Span::ZERO, queue_packets: Some(9), ..LinkSpec::UNSHAPED },
                0,
            );
            let mut idle = Time::ZERO;
            for bytes in [1_040, 40, 40, 1_500, 1, 0] {
                idle += Span::transmission(bytes, rate);
                assert_eq!(
                    link.offer(Time::ZERO, bytes as u32),
                    Verdict::Arrives(idle),
                    "{bytes} bytes at {rate} bit/s"
                );
            }
        }
    }

    #[test]
    fn a_link_without_rate_only_delays() {
        let mut link = Link::new(LinkSpec { delay: Span::from_us(5), ..LinkSpec::default() }, 0);
        for _ in 0..1_000 {
            assert_eq!(link.offer(Time::ZERO, 64_000), Verdict::Arrives(Time::from_ns(5_000)));
        }
    }

    #[test]
    fn a_card_hands_over_what_has_come_when_the_first_ones_time_is_over() {
        let coalesced = LinkSpec { coalesce_ns: 125_000, ..gigabit(250).spec() };
        let mut link = Link::new(coalesced, 0);
        // 8 us each, from 58 us on: the card waits until 183 us.
        let first: Vec<_> = (0..16).map(|_| arrival(link.offer(Time::ZERO, 1_000))).collect();
        assert_eq!(first, [Time::from_ns(183_000); 16]);
        // The last one that comes in that time comes at 178 us, the next at 186.
        let next: Vec<_> = (0..2).map(|_| arrival(link.offer(Time::ZERO, 1_000))).collect();
        assert_eq!(next, [Time::from_ns(311_000); 2]);
        let later = Time::from_ns(1_000_000);
        assert_eq!(arrival(link.offer(later, 1_000)), later + Span::from_us(58 + 125));
        // Without its carrier, it has nothing.
        link.cut(later);
        link.heal();
        assert_eq!(arrival(link.offer(later + Span::from_us(1), 1_000)), later + Span::from_us(59 + 125));
        // A link without rate has a card, too.
        let mut fast = Link::new(LinkSpec { coalesce_ns: 1_000, ..LinkSpec::UNSHAPED }, 0);
        assert!(!fast.takes_no_time(Time::ZERO) && fast.spec().is_shaped());
        let handed = [1, 900, 1_001, 1_002].map(|ns| arrival(fast.offer(Time::from_ns(ns), 60)));
        assert_eq!(handed, [1_001, 1_001, 1_001, 2_002].map(Time::from_ns));
        assert!(Link::new(coalesced.towards_switch(), 0).spec().coalesce_ns == 0);
    }

    fn arrival(verdict: Verdict) -> Time {
        match verdict {
            Verdict::Arrives(at) | Verdict::Marks(at) => at,
            verdict => panic!("the queue has room, and nothing is random: {verdict:?}"),
        }
    }
}
