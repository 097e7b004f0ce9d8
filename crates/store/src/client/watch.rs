//! A watch as the user sees it: what servers deliver, each event once, whichever server delivers it.

use std::collections::BTreeMap;

use placement::ShardId;
use tree::Location;

use super::ConnectionId;
use crate::protocol::WatchEvents;

/// A watch that has begun.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    pub at: Location,
    /// Events up to these revisions were delivered, by shard.
    pub revisions: BTreeMap<ShardId, u64>,
    /// Of the revision after that, so many events were delivered: the rest had not come when the connection was lost.
    partial: BTreeMap<ShardId, Partial>,
    /// The sequence of the request that runs it now.
    pub sequence: u64,
    /// Where it runs; none while it is being resumed.
    pub connection: Option<ConnectionId>,
    /// It ran in another cluster, whose revisions say nothing about this one: when it has begun here, all has to be read again.
    pub anew: bool,
}

/// The events of one revision, some of which have been delivered. They come in the same order from every replica.
#[derive(Clone, Copy, Debug, Default)]
struct Partial {
    revision: u64,
    /// So many were delivered to the user.
    delivered: u64,
    /// So many have come on the present connection.
    come: u64,
}

impl Partial {
    /// An event has come. Whether it is new to the user.
    fn is_news(&mut self, revision: u64) -> bool {
        if self.revision != revision {
            *self = Self { revision, delivered: 0, come: 0 };
        }
        self.come += 1;
        let is_news = self.come > self.delivered;
        self.delivered = self.delivered.max(self.come);
        is_news
    }
}

impl Watch {
    pub fn new(at: Location, revisions: BTreeMap<ShardId, u64>, sequence: u64, connection: ConnectionId) -> Self {
        Self { at, revisions, partial: BTreeMap::new(), sequence, connection: Some(connection), anew: false }
    }

    /// It goes on at another server, or by another connection.
    pub fn resumed(&mut self, sequence: u64, connection: ConnectionId) {
        self.sequence = sequence;
        self.connection = Some(connection);
        for partial in self.partial.values_mut() {
            // Its events are delivered again from the first.
            partial.come = 0;
        }
    }

    /// It ran in another cluster.
    pub fn forget_revisions(&mut self) {
        self.revisions.clear();
        self.partial.clear();
        self.anew = true;
    }

    /// Those of these events that are new to the user, if any are.
    pub fn news(&mut self, mut events: WatchEvents) -> Option<WatchEvents> {
        let known = self.revisions.entry(events.shard).or_insert(0);
        // A replica that was behind when the watch was resumed there comes to what another has delivered already.
        events.events.retain(|event| event.revision > *known);
        let partial = self.partial.entry(events.shard).or_default();
        if events.skipped {
            *partial = Partial::default();
        }
        events.events.retain(|event| partial.is_news(event.revision));
        *known = events.revision.max(*known);
        (events.skipped || !events.events.is_empty()).then_some(events)
    }
}

#[cfg(test)]
mod tests {
    use tree::{Event, EventKind, Path};

    use super::*;

    fn batch(revision: u64, skipped: bool, events: &[(u64, &str)]) -> WatchEvents {
        let at = |name: &str| Location::config(Path::parse(&format!("/car:cars/car-entry={name}")).unwrap());
        let event =
            |(revision, name): &(u64, &str)| Event { revision: *revision, kind: EventKind::Deleted, at: at(name) };
        WatchEvents { watch: 1, shard: ShardId(1), revision, skipped, events: events.iter().map(event).collect() }
    }

    fn count(news: Option<WatchEvents>) -> usize {
        news.map_or(0, |news| news.events.len())
    }

    #[test]
    fn a_revision_that_is_sent_again_from_its_first_event_is_delivered_once() {
        let at = Location::config(Path::parse("/car:cars").unwrap());
        let mut watch = Watch::new(at, BTreeMap::from([(ShardId(1), 4)]), 1, ConnectionId(1));
        assert_eq!(count(watch.news(batch(4, false, &[(5, "a"), (5, "b")]))), 2);
        assert_eq!(watch.revisions[&ShardId(1)], 4, "it has not all of revision 5");
        // Cut elsewhere by another server, which is where the connection is lost again.
        watch.resumed(2, ConnectionId(2));
        assert_eq!(watch.news(batch(4, false, &[(5, "a")])), None);
        watch.resumed(3, ConnectionId(3));
        assert_eq!(count(watch.news(batch(4, false, &[(5, "a"), (5, "b"), (5, "c")]))), 1);
        assert_eq!(count(watch.news(batch(6, false, &[(5, "d"), (6, "a")]))), 2);
        assert_eq!(watch.revisions[&ShardId(1)], 6);
        // After what was skipped everything is news.
        assert_eq!(count(watch.news(batch(6, false, &[(7, "a")]))), 1);
        assert_eq!(count(watch.news(batch(8, true, &[]))), 0);
        assert_eq!(count(watch.news(batch(9, false, &[(9, "a"), (9, "b")]))), 2);
    }
}
