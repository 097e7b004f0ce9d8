//! The map of shards and servers as this server knows it, and what follows from it for this server.

use std::collections::{BTreeMap, BTreeSet};

use machine::ServerId;
use machine::nanos::{Span, Time};
use placement::{Map, ShardId};

/// A shard for a module is asked for at most so often.
pub(super) const ENSURE_EVERY: Span = Span::from_secs(1);

/// So many modules are remembered for which a shard was asked for.
const ENSURED_MAX: usize = 1_024;

/// Always: `wanted` and `address` are what the map says, the address as soon as the map has this server.
#[derive(Debug)]
pub(super) struct MapView {
    own: ServerId,
    map: Map,
    /// The shards that have a replica here by the map.
    wanted: BTreeSet<ShardId>,
    /// The server's own address, as the map had it last.
    address: String,
    /// Modules for which a shard of their own was asked for, and when.
    ensured: BTreeMap<String, Time>,
}

impl MapView {
    /// An empty map, at a server whose address is this one as far as it knows.
    pub(super) fn new(own: ServerId, address: String) -> Self {
        Self { own, map: Map::new(), wanted: BTreeSet::new(), address, ensured: BTreeMap::new() }
    }

    pub(super) fn map(&self) -> &Map {
        &self.map
    }

    /// There is a newer map.
    pub(super) fn follow(&mut self, map: Map) {
        let wanted = |shard: &ShardId| map.desired_replicas(*shard).contains(self.own);
        self.wanted = map.shards().keys().copied().filter(wanted).collect();
        if let Some(member) = map.members().get(&self.own) {
            self.address.clone_from(&member.address);
        }
        self.map = map;
    }

    /// Whether the map has this server among the shard's replicas.
    pub(super) fn is_wanted(&self, shard: ShardId) -> bool {
        self.wanted.contains(&shard)
    }

    /// The server's own address.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Whether a shard may be asked for now for a module that has none. Then it counts as asked for.
    pub(super) fn take_ensuring(&mut self, now: Time, module: &str) -> bool {
        if self.ensured.get(module).is_some_and(|asked| now.since(*asked) < ENSURE_EVERY) {
            return false;
        }
        if self.ensured.len() > ENSURED_MAX {
            self.ensured.clear();
        }
        self.ensured.insert(module.to_owned(), now);
        true
    }
}
