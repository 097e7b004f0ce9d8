//! Watches that are under way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use placement::ShardId;
use tree::{Event, EventKind, Location};

use super::places::{Party, Places};
use crate::budget::{Budget, Kind, Owner};
use crate::id::ClientId;
use crate::protocol::FRAME_MAX;

#[derive(Debug)]
pub(super) struct Watch {
    /// The session of the request.
    pub(super) session: u64,
    pub(super) at: Location,
    /// What it takes of the memory that watches may have, beside events.
    pub(super) bytes: usize,
    /// Events to be delivered, of each shard that it is about. Nearly always that is one: a map would take a kilobyte for it.
    pub(super) pending: Vec<(ShardId, Pending)>,
}

impl Watch {
    pub(super) fn pending(&mut self, shard: ShardId) -> Option<&mut Pending> {
        self.pending.iter_mut().find_map(|(of, pending)| (*of == shard).then_some(pending))
    }
}

#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) events: VecDeque<Event>,
    /// Bytes of the events.
    pub(super) bytes: usize,
    pub(super) skipped: bool,
    pub(super) revision: u64,
    /// The revision up to which it has been announced to the watcher that it has seen everything.
    pub(super) announced: u64,
    /// What the watcher has seen, perhaps at a replica that is further than this one.
    pub(super) seen: u64,
}

/// What each piece of memory takes beside its content: the allocator's own, what it is rounded up by, counts of references.
pub(super) const PIECE: usize = 32;

/// What an entry of an ordered map or set takes. Nodes have room for eleven entries, and six of these are used where keys rise.
pub(super) const fn entry_bytes(content: usize) -> usize {
    2 * content + content / 4 + PIECE / 2
}

/// What a watch costs in memory, without events: as if it were alone with its path.
pub(super) fn watch_bytes(at: &Location, shards: usize) -> usize {
    const ID: usize = size_of::<(ClientId, u64)>();
    const INDEX: usize = entry_bytes(size_of::<(Box<str>, BTreeSet<(ClientId, u64)>)>());
    // A set begins with a whole node.
    const SET: usize = 11 * ID + PIECE;
    const BESIDE: usize = entry_bytes(ID + size_of::<Watch>()) + entry_bytes(ID) + INDEX + SET + 3 * PIECE;
    // The index has a copy of the path.
    BESIDE + 2 * at.path.as_str().len() + shards * size_of::<(ShardId, Pending)>()
}

/// What an event costs, in memory and in a message, at most.
pub(super) fn event_bytes(event: &Event) -> usize {
    const BESIDE: usize = 96;
    let value = if let tree::EventKind::Put { value, .. } = &event.kind { value.len() } else { 0 };
    BESIDE + event.at.path.as_str().len() + value
}

impl Pending {
    /// Bytes of events that are given up: the watcher has to read again.
    pub(super) fn skip(&mut self, revision: u64) -> usize {
        self.events.clear();
        self.skipped = true;
        self.revision = self.revision.max(revision);
        self.announced = self.revision;
        std::mem::take(&mut self.bytes)
    }

    pub(super) fn has_news(&self) -> bool {
        self.skipped || !self.events.is_empty()
    }

    /// The next message's worth: events of `limit` bytes or one more than fits, and the revision up to which the watcher has
    /// seen everything by then. In the midst of a revision that is the one before.
    pub(super) fn cut(&mut self, limit: usize) -> (Vec<Event>, u64) {
        let mut events = Vec::new();
        let mut bytes = 0;
        while let Some(event) = self.events.front() {
            let more = event_bytes(event);
            if !events.is_empty() && bytes + more > limit {
                break;
            }
            bytes += more;
            events.extend(self.events.pop_front());
        }
        self.bytes -= bytes;
        let complete = match (events.last(), self.events.front()) {
            (Some(last), Some(next)) if last.revision == next.revision => last.revision.saturating_sub(1),
            (Some(last), Some(_)) => last.revision,
            _ => self.revision,
        };
        self.announced = self.announced.max(complete);
        (events, self.announced)
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Watches {
    pub(super) all: BTreeMap<(ClientId, u64), Watch>,
    /// The same by path: a change looks up each path that contains its own, and no other watch.
    pub(super) by_path: BTreeMap<Box<str>, BTreeSet<(ClientId, u64)>>,
    /// Watches that have news.
    pub(super) dirty: BTreeSet<(ClientId, u64)>,
    /// Whose they are, in bytes of memory without their events.
    pub(super) places: Places,
}

impl Watches {
    /// None; they may take so many bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        let (all, by_path, dirty) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { all, by_path, dirty, places: Places::new(bytes_max) }
    }

    pub(super) fn insert(&mut self, id: (ClientId, u64), party: &Party, watch: Watch) {
        self.places.take(id.0, party, watch.bytes);
        self.by_path.entry(watch.at.path.as_str().into()).or_default().insert(id);
        self.all.insert(id, watch);
    }

    pub(super) fn bytes(&self) -> usize {
        self.all.values().map(|watch| watch.bytes).sum()
    }

    pub(super) fn remove(&mut self, id: (ClientId, u64)) -> Option<Watch> {
        let watch = self.all.remove(&id)?;
        self.places.give_back(id.0, watch.bytes);
        if let Some(there) = self.by_path.get_mut(watch.at.path.as_str()) {
            there.remove(&id);
            if there.is_empty() {
                self.by_path.remove(watch.at.path.as_str());
            }
        }
        Some(watch)
    }

    /// The watches that an event concerns.
    pub(super) fn concerned(&self, event: &Event) -> Vec<(ClientId, u64)> {
        let is_concerned = |id: &&(ClientId, u64)| event.concerns(&self.all[id].at);
        if event.kind == EventKind::Reset {
            // It concerns watches above and below.
            return self.all.keys().filter(is_concerned).copied().collect();
        }
        let above = containing(event.at.path.as_str()).filter_map(|path| self.by_path.get(path));
        above.flatten().filter(is_concerned).copied().collect()
    }

    /// How many a client has.
    pub(super) fn count(&self, client: ClientId) -> usize {
        self.all.range((client, 0)..=(client, u64::MAX)).count()
    }

    /// The clients that watch.
    pub(super) fn clients(&self) -> impl Iterator<Item = ClientId> {
        self.all.keys().map(|(client, _)| *client)
    }

    /// Whose they are, their sequence, and what they watch; those of one client follow each other.
    pub(super) fn watched(&self) -> impl Iterator<Item = (ClientId, u64, &Location)> {
        self.all.iter().map(|((client, watch), entry)| (*client, *watch, &entry.at))
    }
}

/// The paths that contain this one, from the root on, as text: whatever ends before a slash or a key, the module, and itself.
pub(super) fn containing(path: &str) -> impl Iterator<Item = &str> {
    let module = path.find(':').map_or("", |colon| &path[..=colon]);
    let above = path.match_indices(['/', '=']).map(move |(at, _)| &path[..at.max(1)]);
    let mut all: Vec<&str> = above.chain([module, path]).filter(|path| !path.is_empty()).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter()
}

/// Keeps events for a watcher, or notes that it has to read again.
pub(super) fn note(
    budget: &mut Budget,
    client: ClientId,
    pending: &mut Pending,
    events: impl IntoIterator<Item = Event>,
) {
    let owner = Owner::Client(client);
    for event in events {
        // What it reads again would go back behind what it has read then.
        if pending.skipped && event.revision <= pending.announced && event.kind != EventKind::Reset {
            continue;
        }
        let bytes = event_bytes(&event);
        if bytes < FRAME_MAX && budget.take(owner, Kind::Watches, bytes) {
            pending.revision = pending.revision.max(event.revision);
            pending.bytes += bytes;
            pending.events.push_back(event);
        } else {
            let given_up = pending.skip(event.revision);
            budget.give_back(owner, Kind::Watches, given_up);
        }
    }
}

#[cfg(test)]
mod tests {
    use tree::Path;

    use super::*;

    fn event(revision: u64, bytes: usize) -> Event {
        let at = Location::config(Path::parse("/car:cars").unwrap());
        Event { revision, kind: EventKind::Put { etag: revision, value: vec![7; bytes].into() }, at }
    }

    fn parts(events: Vec<Event>, limit: usize) -> Vec<(Vec<u64>, u64)> {
        let mut budget = Budget::new(1 << 30);
        let mut pending = Pending { announced: 3, ..Pending::default() };
        note(&mut budget, ClientId(1), &mut pending, events);
        let mut parts = Vec::new();
        while pending.has_news() {
            let (events, revision) = pending.cut(limit);
            parts.push((events.iter().map(|event| event.revision).collect(), revision));
        }
        assert_eq!(pending.bytes, 0);
        parts
    }

    #[test]
    fn only_the_last_part_of_a_revision_says_that_it_is_complete() {
        let events = [4, 5, 5, 5, 6].map(|revision| event(revision, 1_000)).to_vec();
        let expected = vec![(vec![4, 5], 4), (vec![5, 5], 5), (vec![6], 6)];
        assert_eq!(parts(events.clone(), 2_500), expected);
        assert_eq!(parts(events.clone(), 1 << 20), vec![(vec![4, 5, 5, 5, 6], 6)]);
        // One at a time at least.
        let expected = vec![(vec![4], 4), (vec![5], 4), (vec![5], 4), (vec![5], 5), (vec![6], 6)];
        assert_eq!(parts(events, 1), expected);
    }

    #[test]
    fn who_reads_again_hears_only_of_what_comes_after_that() {
        let mut budget = Budget::new(event_bytes(&event(5, 1_000)) * 6);
        // It goes on from 3, and the shard is at 8.
        let mut pending = Pending { revision: 8, ..Pending::default() };
        note(&mut budget, ClientId(1), &mut pending, (4..=8).map(|revision| event(revision, 1_000)));
        assert!(pending.skipped && pending.events.is_empty());
        assert_eq!(pending.cut(usize::MAX), (vec![], 8));
        note(&mut budget, ClientId(1), &mut pending, [event(9, 1_000)]);
        let (events, revision) = pending.cut(usize::MAX);
        assert_eq!((events.len(), revision), (1, 9));
    }

    /// Beside a search through all.
    #[test]
    fn an_event_finds_the_watches_that_it_concerns() {
        let texts = [
            "/",
            "/car:",
            "/car:cars",
            "/car:cars2",
            "/car:cars/car-entry",
            "/car:cars/car-entry=1",
            "/car:cars/car-entry=1,a%2Fb",
            "/car:cars/car-entry=1/wheel",
            "/car:cars/car-entry=1/wheel=2/size",
            "/car:cars/car-entry=17",
            "/car:trucks",
            "/carpet:a",
        ];
        let mut watches = Watches::new(1 << 20);
        let all: Vec<Location> = texts
            .iter()
            .map(|text| Path::parse(text).unwrap())
            .flat_map(|path| {
                [Location::config(path.clone()), Location { datastore: tree::Datastore::Operational, path }]
            })
            .collect();
        for (number, at) in (0..).zip(&all) {
            watches.insert(
                (ClientId(number % 3), number),
                &Party::Client(ClientId(number % 3)),
                Watch { session: 5, at: at.clone(), bytes: 0, pending: Vec::new() },
            );
        }
        for at in &all {
            for kind in [EventKind::Reset, EventKind::Put { etag: 1, value: vec![].into() }] {
                let event = Event { revision: 1, kind, at: at.clone() };
                let concerned: BTreeSet<_> = watches.concerned(&event).into_iter().collect();
                let each = watches.all.iter().filter(|(_, watch)| event.concerns(&watch.at));
                assert_eq!(concerned, each.map(|(id, _)| *id).collect(), "{event:?}");
            }
        }
        for id in watches.all.keys().copied().collect::<Vec<_>>() {
            watches.remove(id);
        }
        assert!(watches.by_path.is_empty());
    }

    /// Measured with a counting allocator, 60,000 watches of one shard, each with a path of 26 bytes of its own: 670 bytes each while they wait
    /// for a client that does not read.
    #[test]
    fn a_watch_counts_what_it_takes() {
        let at = |n: usize| Location::config(Path::parse(&format!("/car:cars/car-entry={n:06}")).unwrap());
        assert_eq!((at(1).path.as_str().len(), watch_bytes(&at(1), 1)), (26, 790));
        assert_eq!(watch_bytes(&at(1), 3) - watch_bytes(&at(1), 1), 2 * 80);
        // The table's own part is what the types say: what is added to them is counted.
        assert_eq!((size_of::<Watch>(), size_of::<Pending>()), (64, 72));
    }

    #[test]
    fn what_finds_no_room_is_skipped_and_nothing_is_held_for_it() {
        let mut budget = Budget::new(16_000);
        let mut pending = Pending::default();
        note(&mut budget, ClientId(1), &mut pending, (1..=8).map(|revision| event(revision, 1_000)));
        assert!(pending.skipped && pending.events.len() < 8 && pending.revision == 8, "{pending:?}");
        assert_eq!(budget.of(Owner::Client(ClientId(1)), Kind::Watches), pending.bytes);
        // An event that fits no frame is skipped, however much room there is.
        let (mut budget, mut pending) = (Budget::new(1 << 30), Pending::default());
        note(&mut budget, ClientId(1), &mut pending, [event(9, FRAME_MAX)]);
        assert_eq!((pending.events.len(), pending.announced, budget.of_kind(Kind::Watches)), (0, 9, 0));
    }
}
