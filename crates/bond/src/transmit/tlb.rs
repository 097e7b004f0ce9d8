//! balance-tlb's choice: a hash bucket stays on the member that had the most room when the bucket was first used; every
//! interval all buckets are free again, and weigh as much as they sent in the interval before.

use machine::{Rebase, Span, Time};

use super::Table;
use crate::member::Member;
use crate::{MEMBERS_MAX, MemberId};

const BUCKETS: usize = 256;
/// The driver's `BOND_TLB_REBALANCE_INTERVAL`, in seconds.
const INTERVAL_S: u64 = 10;

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    member: Option<MemberId>,
    /// Bytes since the last interval began.
    bytes: u64,
    /// In the interval before, bytes a second; at least 1, so that fresh buckets spread as well.
    load: u64,
}

/// The loads of members, as measured by what they sent.
#[derive(Clone, Debug)]
pub(crate) struct Tlb {
    buckets: Box<[Bucket; BUCKETS]>,
    /// The load of each member, bytes a second.
    loads: [u64; MEMBERS_MAX],
    /// What went over the active member since it cannot be balanced, in bytes.
    unbalanced: u64,
    pub(crate) next: Time,
}

impl Tlb {
    pub(crate) fn new(now: Time) -> Self {
        let bucket = Bucket { member: None, bytes: 0, load: 1 };
        let next = now + Span::from_secs(INTERVAL_S);
        Self { buckets: Box::new([bucket; BUCKETS]), loads: [0; MEMBERS_MAX], unbalanced: 0, next }
    }

    #[inline]
    pub(crate) fn choose(
        &mut self,
        bucket: u8,
        bytes: u32,
        table: &Table,
        members: &[Option<Member>],
    ) -> Option<MemberId> {
        let bucket = &mut self.buckets[usize::from(bucket)];
        if bucket.member.is_none() {
            bucket.member = roomiest(table, members, &self.loads);
            if let Some(member) = bucket.member {
                self.loads[member.index()] += bucket.load;
            }
        }
        bucket.bytes += u64::from(bytes);
        bucket.member
    }

    #[inline]
    pub(crate) fn unbalanced(&mut self, bytes: u32) {
        self.unbalanced += u64::from(bytes);
    }

    /// Frees the buckets of members that are not usable any more.
    pub(crate) fn members_changed(&mut self, table: &Table) {
        for bucket in self.buckets.iter_mut() {
            if bucket.member.is_some_and(|member| !table.set().contains(member)) {
                bucket.member = None;
            }
        }
        for (index, load) in self.loads.iter_mut().enumerate() {
            if !table.set().contains(MemberId::new(index)) {
                *load = 0;
            }
        }
    }

    /// The interval is over.
    pub(crate) fn rebalance(&mut self, now: Time, active: Option<MemberId>) {
        for bucket in self.buckets.iter_mut() {
            *bucket = Bucket { member: None, bytes: 0, load: 1 + bucket.bytes / INTERVAL_S };
        }
        self.loads.fill(0);
        if let Some(active) = active {
            self.loads[active.index()] = self.unbalanced / INTERVAL_S;
        }
        self.unbalanced = 0;
        self.next = now + Span::from_secs(INTERVAL_S);
    }
}

/// The member whose rate exceeds its load by most; of equals, the one that joined first.
#[cold]
fn roomiest(table: &Table, members: &[Option<Member>], loads: &[u64; MEMBERS_MAX]) -> Option<MemberId> {
    let room = |member: MemberId| {
        let speed = members[member.index()].as_ref().map_or(0, |member| i64::from(member.carrier.speed_mbps));
        (speed * 1_000_000).saturating_sub_unsigned(loads[member.index()].saturating_mul(8))
    };
    // `max_by_key` would take the last of equals.
    let mut best: Option<(i64, MemberId)> = None;
    for &member in table.as_slice() {
        let room = room(member);
        if best.is_none_or(|(most, _)| room > most) {
            best = Some((room, member));
        }
    }
    best.map(|(_, member)| member)
}

impl Rebase for Tlb {
    fn rebase(&mut self, by: Span) {
        let Self { buckets: _, loads: _, unbalanced: _, next } = self;
        next.rebase(by);
    }
}
