//! What groups and their buckets have counted.

use std::collections::BTreeMap;

use machine::{Rebase, Span, Time};

use super::group::Group;

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    packets: u64,
    bytes: u64,
}

/// Where a group counts: first all of its packets, then those of each bucket.
#[derive(Clone, Debug)]
struct Places {
    made_at: Time,
    at: Vec<u32>,
}

/// What a group is and has counted, for whoever asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStatus {
    /// What it says.
    pub group: Group,
    /// Flows that name it.
    pub flows: usize,
    /// How long it has been there.
    pub duration: Span,
    /// Packets that have come to it.
    pub packets: u64,
    /// Their bytes, from the destination address on, without frame check sequence.
    pub bytes: u64,
    /// By bucket: packets and bytes that it got. Those of a group whose buckets were changed begin anew.
    pub buckets: Vec<(u64, u64)>,
}

/// The counters of all groups of a switch. A decision about packets has the places at which they are counted, so that no group is looked up for each of them.
#[derive(Clone, Debug, Default)]
pub struct GroupCounters {
    groups: BTreeMap<u32, Places>,
    counts: Vec<Count>,
    free: Vec<u32>,
}

impl GroupCounters {
    /// There is such a group, or it has other buckets. What was decided before does not hold any more.
    pub fn set(&mut self, now: Time, group: &Group) {
        let known = self.groups.remove(&group.id);
        let (made_at, own) = match known {
            Some(Places { made_at, at }) => {
                self.release(&at[1..]);
                (made_at, at[0])
            }
            None => (now, self.place()),
        };
        let buckets: Vec<u32> = group.buckets.iter().map(|_| self.place()).collect();
        self.groups.insert(group.id, Places { made_at, at: std::iter::once(own).chain(buckets).collect() });
    }

    /// Only these groups are there any more.
    pub fn retain(&mut self, is_there: impl Fn(u32) -> bool) {
        let (kept, gone) = std::mem::take(&mut self.groups).into_iter().partition(|(id, _)| is_there(*id));
        self.groups = kept;
        let gone: BTreeMap<u32, Places> = gone;
        for places in gone.values() {
            self.release(&places.at);
        }
    }

    /// Where a group counts its packets.
    pub fn of_group(&self, id: u32) -> Option<u32> {
        self.groups.get(&id).map(|places| places.at[0])
    }

    /// Where one of its buckets does.
    pub fn of_bucket(&self, id: u32, bucket: usize) -> Option<u32> {
        self.groups.get(&id)?.at.get(bucket + 1).copied()
    }

    /// A packet has come to these places.
    #[inline]
    pub fn count(&mut self, places: &[u32], bytes: u32) {
        for place in places {
            if let Some(count) = self.counts.get_mut(*place as usize) {
                count.packets += 1;
                count.bytes += u64::from(bytes);
            }
        }
    }

    /// What a group has counted, which so many flows name.
    pub fn status(&self, now: Time, group: &Group, flows: usize) -> Option<GroupStatus> {
        let places = self.groups.get(&group.id)?;
        let count = |place: &u32| self.counts[*place as usize];
        let Count { packets, bytes } = count(&places.at[0]);
        let buckets = places.at[1..].iter().map(count).map(|count| (count.packets, count.bytes));
        let duration = now.since(places.made_at);
        Some(GroupStatus { group: group.clone(), flows, duration, packets, bytes, buckets: buckets.collect() })
    }

    fn place(&mut self) -> u32 {
        if let Some(place) = self.free.pop() {
            self.counts[place as usize] = Count::default();
            return place;
        }
        self.counts.push(Count::default());
        self.counts.len() as u32 - 1
    }

    fn release(&mut self, places: &[u32]) {
        self.free.extend_from_slice(places);
    }
}

impl Rebase for GroupCounters {
    fn rebase(&mut self, by: Span) {
        let Self { groups, counts: _, free: _ } = self;
        for places in groups.values_mut() {
            places.made_at.rebase(by);
        }
    }
}
