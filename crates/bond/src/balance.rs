//! Balance that follows load, for hashed modes: flows are hashed into buckets, a bucket is on one member, and at most one
//! bucket an interval moves from the busiest to the least busy member, as in Open vSwitch's balance-tcp.
//!
//! Invariant: a bucket moves only after nothing was sent in it for the gap, so that what was sent before is gone from
//! the old member's queue; only when its member is not usable any more it moves at once.

use machine::{Rebase, Span, Time};

use crate::config::Rebalance;
use crate::transmit::Table;
use crate::{MEMBERS_MAX, MemberId, MemberSet, Summary};

/// Hash buckets of a bond.
pub const BUCKETS: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    member: MemberId,
    /// Bytes in this interval.
    bytes: u64,
    /// None if nothing was ever sent in it.
    last_sent: Option<Time>,
}

impl Bucket {
    /// Whether it can move without overtaking what was sent in it.
    #[inline]
    fn is_idle(&self, now: Time, gap: Span) -> bool {
        self.last_sent.is_none_or(|last| now.since(last) >= gap)
    }
}

/// A bucket that changed its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remapped {
    /// Its number, below [`BUCKETS`].
    pub bucket: u8,
    /// Where it was.
    pub from: MemberId,
    /// Where it is now.
    pub to: MemberId,
}

/// The map of buckets, and what they carry.
#[derive(Clone, Debug)]
pub(crate) struct Balance {
    options: Rebalance,
    /// The members that were usable when buckets were last spread.
    members: MemberSet,
    /// None if nobody is usable.
    buckets: Option<Box<[Bucket; BUCKETS]>>,
    /// The bucket that should move, and where to.
    wanted: Option<(u8, MemberId)>,
    /// Moves that nobody has polled yet.
    moved: Option<Remapped>,
    pub(crate) next: Time,
}

impl Balance {
    pub(crate) fn new(now: Time, options: Rebalance) -> Self {
        Self {
            options,
            members: MemberSet::EMPTY,
            buckets: None,
            wanted: None,
            moved: None,
            next: now + options.interval,
        }
    }

    #[inline]
    pub(crate) fn choose(&mut self, now: Time, frame: &Summary) -> Option<MemberId> {
        let number = frame.hash as u8;
        let bucket = &mut self.buckets.as_mut()?[usize::from(number)];
        if let Some((wanted, to)) = self.wanted
            && wanted == number
            && bucket.is_idle(now, self.options.gap)
        {
            self.moved = Some(Remapped { bucket: number, from: bucket.member, to });
            bucket.member = to;
            self.wanted = None;
        }
        bucket.bytes += u64::from(frame.bytes);
        bucket.last_sent = Some(now);
        Some(bucket.member)
    }

    /// Buckets of members that are gone are spread over the others at once. When a member comes, the buckets that are idle
    /// are spread anew; those in use follow as their load asks for it.
    pub(crate) fn members_changed(&mut self, now: Time, table: &Table) {
        let has_gained = table.set().bits() & !self.members.bits() != 0;
        if table.set() == self.members {
            return;
        }
        self.members = table.set();
        self.wanted = None;
        if table.is_empty() {
            self.buckets = None;
            return;
        }
        let gap = self.options.gap;
        let at = |number: usize| table.by_number(number as u32).expect("the table is not empty");
        let fresh = |number| Bucket { member: at(number), bytes: 0, last_sent: None };
        let buckets = self.buckets.get_or_insert_with(|| Box::new(std::array::from_fn(fresh)));
        let lost = buckets.iter_mut().filter(|bucket| !table.set().contains(bucket.member));
        for (number, bucket) in lost.enumerate() {
            bucket.member = at(number);
        }
        if has_gained {
            let idle = buckets.iter_mut().enumerate().filter(|(_, bucket)| bucket.is_idle(now, gap));
            for (number, bucket) in idle {
                bucket.member = at(number);
            }
        }
    }

    /// The interval is over: chooses the bucket that brings the busiest and the least busy member closest together.
    /// `speeds` are the members' rates in Mbit/s: load is seen against them.
    pub(crate) fn plan(&mut self, now: Time, table: &Table, speeds: &[u32; MEMBERS_MAX]) {
        self.next = now + self.options.interval;
        self.wanted = None;
        let Some(buckets) = &mut self.buckets else { return };
        let mut bytes = [0_u64; MEMBERS_MAX];
        for bucket in buckets.iter() {
            bytes[bucket.member.index()] += bucket.bytes;
        }
        let speed = |member: MemberId| u128::from(speeds[member.index()].max(1));
        // Bytes over rate, in a unit that keeps whole numbers apart.
        let load = |member: MemberId, bytes: u64| u128::from(bytes) * 1_000_000 / speed(member);
        let of = |member: &MemberId| load(*member, bytes[member.index()]);
        let (Some(&busiest), Some(&idlest)) = (
            table.as_slice().iter().max_by_key(|member| of(member)),
            table.as_slice().iter().min_by_key(|member| of(member)),
        ) else {
            return;
        };
        let worst = of(&busiest);
        let after = |bucket: &Bucket| {
            let left = load(busiest, bytes[busiest.index()] - bucket.bytes);
            left.max(load(idlest, bytes[idlest.index()] + bucket.bytes))
        };
        let best = (0..BUCKETS)
            .filter(|&number| buckets[number].member == busiest && buckets[number].bytes > 0)
            .min_by_key(|&number| after(&buckets[number]));
        // A move that only turns the imbalance around, or gains less than a thirtieth, would be undone at once.
        if let Some(number) = best
            && busiest != idlest
            && after(&buckets[number]) < worst - worst / 30
        {
            self.wanted = Some((number as u8, idlest));
        }
        for bucket in buckets.iter_mut() {
            bucket.bytes = 0;
        }
    }

    pub(crate) fn members(&self) -> Option<[MemberId; BUCKETS]> {
        self.buckets.as_ref().map(|buckets| std::array::from_fn(|number| buckets[number].member))
    }

    /// What moved since the last call.
    pub(crate) const fn take_moved(&mut self) -> Option<Remapped> {
        self.moved.take()
    }
}

impl Rebase for Balance {
    fn rebase(&mut self, by: Span) {
        let Self { options: _, members: _, buckets, wanted: _, moved: _, next } = self;
        buckets.rebase(by);
        next.rebase(by);
    }
}

impl Rebase for Bucket {
    fn rebase(&mut self, by: Span) {
        let Self { member: _, bytes: _, last_sent } = self;
        last_sent.rebase(by);
    }
}
