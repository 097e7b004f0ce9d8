//! Other servers, as this one knows them.

use std::collections::{BTreeMap, BTreeSet};

use machine::ServerId;
use machine::nanos::{Span, Time};
use placement::ShardId;

use crate::peer::{ITEMS_MAX, Item, Leads};
use crate::protocol::FRAME_MAX;
use crate::status::PeerStatus;

/// Bytes of these, about.
pub(super) const ITEMS_BYTES_MAX: usize = 64 << 20;

/// Servers that are in no map known here, and are answered all the same.
pub(super) const STRANGERS_MAX: usize = 64;

/// They are forgotten when they have been silent for so long.
pub(super) const STRANGER_KEPT: Span = Span::from_secs(30);

/// The largest item: what is around it fits a frame as well.
pub(super) const ITEM_BYTES_MAX: usize = FRAME_MAX - (64 << 10);

/// The largest entry of a log: with what is around it, it is an item. A client's transaction has 8 MiB and its places; a chunk
/// of a move is cut at 256 KiB, and its last item may be the largest value or session.
pub(super) const ENTRY_BYTES_MAX: usize = 14 << 20;

#[derive(Debug, Default)]
pub(super) struct Peer {
    pub(super) items: Vec<Item>,
    /// Bytes of them, about.
    pub(super) bytes: usize,
    /// It is being notified that it is out of these groups.
    pub(super) out_of: BTreeSet<ShardId>,
    /// When it was last reminded that it is no member of the cluster.
    pub(super) reminded: Option<Time>,
    pub(super) heard: Option<Time>,
    /// Its last stamp and when it came.
    pub(super) stamp: Option<(Time, Time)>,
    pub(super) round_trip: Option<Span>,
    /// When the last envelope was sent to it that it has answered.
    pub(super) answered: Option<Time>,
    pub(super) leads: Leads,
    /// For how long it refuses to elect another leader, and when it said so last.
    pub(super) promise: Option<(Span, Time)>,
    /// The version that is spoken on the connection to it, while there is one.
    pub(super) version: Option<u32>,
}

impl Peer {
    /// Takes its word; gives what is to be believed. A shorter promise holds at once. A longer one does only when the shorter was not
    /// heard for long: it may be late, from before a restart with other bounds.
    pub(super) fn note_promise(&mut self, now: Time, promise: Span) -> Span {
        match &mut self.promise {
            Some((known, heard)) if promise > *known && now < *heard + PROMISE_KEPT => *known,
            other => {
                *other = Some((promise, now));
                promise
            }
        }
    }
}

/// A shorter promise is believed for so long after it was heard last: longer than any message takes that still matters.
pub(super) const PROMISE_KEPT: Span = Span::from_secs(5);

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Peers {
    pub(super) all: BTreeMap<ServerId, Peer>,
    /// Term and leader of each shard, as leaders say.
    pub(super) leaders: BTreeMap<ShardId, (u64, ServerId)>,
    pub(super) addresses: BTreeMap<ServerId, String>,
    /// Servers that are not in the map here and have spoken: when last, and where they are.
    pub(super) strangers: BTreeMap<ServerId, (Time, String)>,
    /// Items that were too many, or too much.
    pub(super) dropped: u64,
    /// What this server announced last that it leads.
    pub(super) own_leads: Leads,
}

impl Peers {
    pub(super) fn push(&mut self, to: ServerId, item: Item) {
        let peer = self.all.entry(to).or_default();
        let bytes = item.weight();
        // What is dropped Raft or the asker repeats.
        if peer.items.len() < ITEMS_MAX && peer.bytes + bytes <= ITEMS_BYTES_MAX {
            peer.bytes += bytes;
            peer.items.push(item);
        } else {
            self.dropped += 1;
        }
    }

    pub(super) fn leader_of(&self, shard: ShardId) -> Option<ServerId> {
        self.leaders.get(&shard).map(|(_, leader)| *leader)
    }

    pub(super) fn term_and_leader(&self, shard: ShardId) -> Option<(u64, ServerId)> {
        self.leaders.get(&shard).copied()
    }

    /// A leader was heard of.
    pub(super) fn note_leader(&mut self, shard: ShardId, term: u64, leader: ServerId) -> bool {
        let known = self.leaders.entry(shard).or_insert((0, leader));
        let news = term > known.0 || (term == known.0 && known.1 != leader);
        if term >= known.0 {
            *known = (term, leader);
        }
        news
    }

    /// What servers said of themselves that are not heard any more is not believed any longer.
    pub(super) fn forget_silent_leaders(&mut self, now: Time, timeout: Span) {
        let live = self.live(now, patience(timeout));
        self.leaders.retain(|_, (_, leader)| live.contains(leader));
    }

    /// Whoever was thought to lead it does not.
    pub(super) fn forget_leader_of(&mut self, shard: ShardId) {
        self.leaders.remove(&shard);
    }

    pub(super) fn address(&self, server: ServerId) -> Option<&String> {
        self.addresses.get(&server)
    }

    /// Notes where a server is that the map here does not have. Gives whether that is news.
    pub(super) fn note_stranger(&mut self, now: Time, server: ServerId, address: &str) -> bool {
        self.strangers.retain(|_, (heard, _)| now.since(*heard) < STRANGER_KEPT);
        if address.is_empty() || (self.strangers.len() >= STRANGERS_MAX && !self.strangers.contains_key(&server)) {
            return false;
        }
        self.strangers.insert(server, (now, address.to_owned()));
        !self.addresses.contains_key(&server)
    }

    pub(super) fn strangers(&self) -> impl Iterator<Item = (ServerId, String)> {
        self.strangers.iter().map(|(id, (_, address))| (*id, address.clone()))
    }

    pub(super) fn addresses(&self) -> &BTreeMap<ServerId, String> {
        &self.addresses
    }

    /// Gives whether they differ from before. Servers that are gone are forgotten.
    pub(super) fn set_addresses(&mut self, addresses: BTreeMap<ServerId, String>) -> bool {
        let news = addresses != self.addresses;
        self.all.retain(|id, _| addresses.contains_key(id));
        self.leaders.retain(|_, (_, leader)| addresses.contains_key(leader));
        self.addresses = addresses;
        news
    }

    pub(super) fn note_version(&mut self, server: ServerId, version: u32) {
        self.all.entry(server).or_default().version = Some(version);
    }

    /// The connection is lost: it may come back as an older program, or in another life.
    pub(super) fn forget_connection(&mut self, server: ServerId) {
        if let Some(peer) = self.all.get_mut(&server) {
            peer.version = None;
            // Its clock begins anew when it does: what it said before would be of times that never were.
            peer.stamp = None;
        }
    }

    /// The version that is spoken with it now.
    pub(super) fn version(&self, server: ServerId) -> Option<u32> {
        self.all.get(&server)?.version
    }

    pub(super) fn is_live(&self, server: ServerId, now: Time, patience: Span) -> bool {
        self.all.get(&server).and_then(|peer| peer.heard).is_some_and(|heard| now.since(heard) <= patience)
    }

    /// Whether it was heard and had heard something that was sent at `since` or later.
    pub(super) fn has_answered(&self, server: ServerId, since: Time) -> bool {
        self.all.get(&server).and_then(|peer| peer.answered).is_some_and(|sent| sent >= since)
    }

    /// What a server has said that it leads.
    pub(super) fn leads_of(&self, server: ServerId) -> Option<&Leads> {
        self.all.get(&server).map(|peer| &peer.leads)
    }

    pub(super) fn live(&self, now: Time, patience: Span) -> Vec<ServerId> {
        self.all.keys().copied().filter(|id| self.is_live(*id, now, patience)).collect()
    }

    /// What this server announced last that it leads.
    pub(super) fn own_leads(&self) -> &Leads {
        &self.own_leads
    }

    /// Announces to all servers what this one leads.
    pub(super) fn announce(&mut self, own: ServerId, leads: Leads) {
        for id in self.addresses.keys().copied().filter(|id| *id != own).collect::<Vec<_>>() {
            self.push(id, Item::Leads(leads.clone()));
        }
        self.own_leads = leads;
    }

    /// How often each shard was asked, and from where, as its leaders have announced since this was asked last: this server first.
    pub(super) fn take_loads(&mut self) -> Vec<(ShardId, BTreeMap<ServerId, u64>)> {
        let others = self.all.values_mut().map(|peer| &mut peer.leads);
        std::iter::once(&mut self.own_leads).chain(others).flat_map(|leads| std::mem::take(&mut leads.load)).collect()
    }

    pub(super) fn statuses(&self, now: Time, timeout: Span) -> Vec<PeerStatus> {
        let status = |(id, peer): (&ServerId, &Peer)| PeerStatus {
            server: *id,
            live: self.is_live(*id, now, patience(timeout)),
            round_trip_us: peer.round_trip.map(|span| span.as_ns() / 1_000),
        };
        self.all.iter().map(status).collect()
    }
}

/// A peer that was not heard for so long is taken for dead.
pub(super) fn patience(timeout: Span) -> Span {
    timeout + timeout
}
