//! The connections of one switch.

use machine::{Rebase, Span, Time};
use wire::tcp_flags::{ACK, SYN};

use super::connection::{Connection, NONE};
use super::ct_state::{DESTINATION_NAT, ESTABLISHED, INVALID, NEW, RELATED, REPLY, SOURCE_NAT, TRACKED};
use super::exhausted::Exhausted;
use super::index::Index;
use super::lifetime::{EVICTED, LIFETIMES, Lifetime};
use super::lists::{Lists, SHARES};
use super::request::{Refusal, Request, Tracked, Translate};
use super::segment::Segment;
use super::shared::SharedConnection;
use super::status::{ConnectionStatus, ConntrackCounters};
use super::tcp::{self, Step, TcpState};
use super::tuple::Tuple;
use super::windows::Windows;

/// Connections whose time has come that one new one clears away, of each lifetime.
const EXPIRED_AT_ONCE: u32 = 2;

/// A connection is moved within the list of its lifetime when its end has moved by this part of the lifetime: most packets need not write there.
const LISTED_PARTS: u64 = 8;

/// The connections of one switch. Time is an argument.
#[derive(Debug)]
pub struct Conntrack {
    connections: Vec<Connection>,
    capacity: usize,
    /// Places of connections that are no more, as a list.
    free: u32,
    index: Index,
    lists: Lists,
    /// Connections, by share.
    kept: [usize; SHARES],
    /// Of this one are new connections.
    share: u8,
    exhausted: Exhausted,
    seed: u64,
    counters: ConntrackCounters,
    /// Places of connections that were removed, for whoever keeps something of each.
    removed: Option<Vec<u32>>,
    /// Windows that were followed in an earlier one are taken up anew.
    period: u16,
}

impl Conntrack {
    /// For so many connections at most. `seed` is where hashes start, so that nobody can choose what collides.
    pub fn new(seed: u64, capacity: usize) -> Self {
        Self {
            connections: Vec::with_capacity(capacity),
            capacity,
            free: NONE,
            index: Index::new(capacity * 2),
            lists: Lists::default(),
            kept: [0; SHARES],
            share: 0,
            exhausted: Exhausted::default(),
            seed,
            counters: ConntrackCounters::default(),
            removed: None,
            period: 0,
        }
    }

    /// The same; places of connections that are removed are noted for [`Conntrack::take_removed`], which is to be asked after each packet.
    #[must_use]
    pub fn noting_removals(self) -> Self {
        Self { removed: Some(Vec::new()), ..self }
    }

    /// The place of a connection that was removed, each once, in their order.
    pub fn take_removed(&mut self) -> impl Iterator<Item = u32> + '_ {
        self.removed.iter_mut().flat_map(|removed| removed.drain(..))
    }

    /// Clears away connections whose time has come, at most so many of each lifetime.
    pub fn clear_expired(&mut self, now: Time, at_once: u32) {
        self.expire(now, at_once);
    }

    /// A connection that has ended, and only waits for what may still come of it, makes room for another one between the same two ends.
    pub fn clear_ended(&mut self, now: Time, zone: u16, tuple: &Tuple) {
        let found = self.find(now, zone, tuple);
        if let Some((id, _)) = found.filter(|(id, _)| self.has_ended(*id)) {
            self.counters.reopened += 1;
            self.remove(id);
        }
    }

    /// How many connections there may be.
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// New connections are those of this end of the network from now on, of two: each may have half of the table, however many the other one begins.
    ///
    /// # Panics
    /// If it is neither 0 nor 1.
    pub fn begin_for(&mut self, end: usize) {
        assert!(end < SHARES, "a network that is tracked has two ends");
        self.share = end as u8;
    }

    /// What a packet is to the connections that there are; their states move on.
    pub fn process(&mut self, now: Time, segment: &Segment, request: &Request) -> Tracked {
        if let Some(quoted) = &segment.quoted {
            return self.related(now, segment, quoted, request);
        }
        let Some((id, is_reply)) = self.find(now, request.zone, &segment.tuple) else {
            return self.begin(now, segment, request);
        };
        if request.force && request.commit && is_reply {
            self.counters.reopened += 1;
            self.remove(id);
            return self.begin(now, segment, request);
        }
        match self.advance(now, (id, is_reply), segment) {
            Step::To(_) | Step::Stay => {
                self.mark(id, request);
                self.known(id, is_reply, request)
            }
            Step::Invalid => Tracked { place: Some(id), ..self.invalid() },
            Step::Reopen => {
                self.counters.reopened += 1;
                self.remove(id);
                self.begin(now, segment, request)
            }
        }
    }

    /// What a packet is that [`Conntrack::process`] has seen before in this zone, by what it was then: its connection does not move on once more. `None` if that is
    /// no more.
    pub fn revisit(&mut self, now: Time, segment: &Segment, request: &Request) -> Option<Tracked> {
        if let Some(quoted) = &segment.quoted {
            return Some(self.related(now, segment, quoted, request));
        }
        let (id, is_reply) = self.find(now, request.zone, &segment.tuple)?;
        self.mark(id, request);
        Some(self.known(id, is_reply, request))
    }

    /// What a packet that is no ICMP error would be; nothing changes.
    pub fn peek(&self, now: Time, segment: &Segment, request: &Request) -> Tracked {
        let is_alive = |(id, _): &(u32, bool)| self.connections[*id as usize].expires_at > now;
        if let Some((id, is_reply)) = self.find_any(request.zone, &segment.tuple).filter(is_alive) {
            let known = self.known(id, is_reply, request);
            // An answer would make it one that is answered.
            let state = if is_reply { known.state & !NEW | ESTABLISHED } else { known.state };
            return Tracked { state, ..known };
        }
        if may_begin(segment).is_err() {
            return Tracked { state: INVALID | TRACKED, ..Tracked::default() };
        }
        let range = request.range_for(&segment.tuple).filter(|_| request.commit);
        let target = range.and_then(|_| self.choose(now, &segment.tuple, request));
        let (value, mask) = request.mark.filter(|_| request.commit).unwrap_or_default();
        let state = NEW | TRACKED | if range.is_some() { request.flags_for(&segment.tuple) } else { 0 };
        Tracked { state, mark: value & mask, is_kept: request.commit, tuple: target, ..Tracked::default() }
    }

    fn mark(&mut self, id: u32, request: &Request) {
        if let Some((value, mask)) = request.mark.filter(|_| request.commit) {
            let mark = &mut self.connections[id as usize].mark;
            *mark = *mark & !mask | value & mask;
        }
    }

    fn invalid(&mut self) -> Tracked {
        self.counters.invalid += 1;
        Tracked { state: INVALID | TRACKED, ..Tracked::default() }
    }

    fn known(&self, id: u32, is_reply: bool, request: &Request) -> Tracked {
        let connection = &self.connections[id as usize];
        let is_translated = connection.translated != 0 && request.translate != Translate::No;
        let mut state = TRACKED | if connection.is_replied { ESTABLISHED } else { NEW };
        state |= if is_reply { REPLY } else { 0 };
        state |= if is_translated { connection.translations(is_reply) } else { 0 };
        let tuple = if is_translated { connection.target(is_reply) } else { None };
        let (mark, tcp) = (connection.mark, connection.tcp);
        Tracked { state, mark, is_kept: true, tuple, place: Some(id), tcp, ..Tracked::default() }
    }

    /// An ICMP error goes in the direction opposite to that of the packet that it is about.
    fn related(&mut self, now: Time, segment: &Segment, quoted: &Tuple, request: &Request) -> Tracked {
        let found = quoted.reversed().and_then(|wanted| self.find(now, request.zone, &wanted));
        let Some((id, is_reply)) = found else { return self.invalid() };
        let connection = &self.connections[id as usize];
        let mut tracked = Tracked {
            state: TRACKED | RELATED | if is_reply { REPLY } else { 0 },
            mark: connection.mark,
            is_kept: true,
            quoted_place: Some(id),
            ..Tracked::default()
        };
        if connection.translated == 0 || request.translate == Translate::No {
            return tracked;
        }
        let flags = connection.translations(is_reply);
        let Some(target) = connection.target(is_reply) else { return tracked };
        // It seems to be between the same two as the packets of its direction; what it quotes is as its receiver has sent it.
        let mut tuple = segment.tuple;
        if flags & SOURCE_NAT != 0 {
            tuple.src = target.src;
        }
        if flags & DESTINATION_NAT != 0 {
            tuple.dst = target.dst;
        }
        tracked.state |= flags;
        tracked.tuple = Some(tuple);
        tracked.quoted = Some(if is_reply { connection.original } else { connection.reply });
        tracked
    }

    /// No connection has this tuple.
    fn begin(&mut self, now: Time, segment: &Segment, request: &Request) -> Tracked {
        let Ok(tcp) = may_begin(segment) else { return self.invalid() };
        let mut tracked = Tracked { state: NEW | TRACKED, ..Tracked::default() };
        if !request.commit {
            return tracked;
        }
        let (original, range) = (segment.tuple, request.range_for(&segment.tuple));
        let target = self.choose_unless_exhausted(now, &original, request);
        let Some((target, reply)) = target.and_then(|target| Some((target, target.reversed()?))) else {
            self.counters.no_tuple += 1;
            return Tracked { state: INVALID | TRACKED, refusal: Some(Refusal::NoTuple), ..tracked };
        };
        // One whose time has come makes room, and so does one that has ended.
        self.clear_ended(now, request.zone, &reply);
        let translated = request.flags_for(&original);
        let (value, mask) = request.mark.unwrap_or_default();
        let lifetime = Lifetime::of(&original, tcp, false);
        let connection = Connection {
            original,
            reply,
            expires_at: now + lifetime.timeout(),
            listed_until: now + lifetime.timeout(),
            mark: value & mask,
            zone: request.zone,
            share: self.share,
            translated,
            is_replied: false,
            tcp,
            windows: tcp
                .and(segment.numbers)
                .and_then(|numbers| Windows::begin(self.period, segment.tcp_flags, &numbers)),
            reset_by: None,
            lifetime,
            before: NONE,
            next: NONE,
        };
        let Some(place) = self.insert(now, connection) else {
            self.counters.full += 1;
            return Tracked { refusal: Some(Refusal::NoRoom), ..tracked };
        };
        (tracked.mark, tracked.is_kept) = (value & mask, true);
        (tracked.place, tracked.tcp) = (Some(place), tcp);
        tracked.state |= translated;
        tracked.tuple = range.map(|_| target);
        tracked
    }

    /// The same as [`Conntrack::choose`], unless there was nothing to choose a short while ago: what that costs is bounded, whoever sends however much.
    fn choose_unless_exhausted(&mut self, now: Time, original: &Tuple, request: &Request) -> Option<Tuple> {
        let key = request
            .range_for(original)
            .and_then(|range| range.contested(&request.with_destination(original), self.seed, request.zone));
        if key.is_some_and(|key| self.exhausted.contains(now, key)) {
            return None;
        }
        let chosen = self.choose(now, original, request);
        if let (None, Some(key)) = (chosen, key) {
            self.exhausted.insert(now, key);
        }
        chosen
    }

    /// What packets of a new connection become, so that answers to them are known for what they are. Where there is nothing else left in a range, it is what a connection
    /// had that has ended.
    fn choose(&self, now: Time, original: &Tuple, request: &Request) -> Option<Tuple> {
        let is_over = |id: u32| self.connections[id as usize].expires_at <= now;
        let is_free = |tuple: &Tuple, may_have_ended: bool| {
            let is_gone = |(id, _): (u32, bool)| is_over(id) || may_have_ended && self.has_ended(id);
            tuple
                .reversed()
                .is_some_and(|reply| reply != *original && self.find_any(request.zone, &reply).is_none_or(is_gone))
        };
        let Some(range) = request.range_for(original) else {
            return Some(*original).filter(|tuple| is_free(tuple, false));
        };
        let (wanted, hash) = (request.with_destination(original), original.hash(self.seed, request.zone));
        let choose = |may_have_ended| range.choose(&wanted, hash, |tuple| is_free(tuple, may_have_ended));
        choose(false).or_else(|| choose(true))
    }

    /// Whether a connection has ended, and only waits for what may still come of it.
    fn has_ended(&self, id: u32) -> bool {
        matches!(self.connections[id as usize].tcp, Some(TcpState::TimeWait | TcpState::Close))
    }

    /// The connection with this tuple, in which direction that is: whether of answers.
    #[inline]
    fn find_any(&self, zone: u16, tuple: &Tuple) -> Option<(u32, bool)> {
        let found = self.index.find(tuple.hash(self.seed, zone), |number| {
            let connection = &self.connections[number as usize >> 1];
            let own = if number & 1 == 0 { &connection.original } else { &connection.reply };
            own == tuple && connection.zone == zone
        })?;
        Some((found >> 1, found & 1 == 1))
    }

    /// The same; one whose time has come is none.
    #[inline]
    fn find(&mut self, now: Time, zone: u16, tuple: &Tuple) -> Option<(u32, bool)> {
        let (id, is_reply) = self.find_any(zone, tuple)?;
        if self.connections[id as usize].expires_at <= now {
            self.counters.expired += 1;
            self.remove(id);
            return None;
        }
        Some((id, is_reply))
    }

    /// A packet of a connection has come.
    #[inline]
    fn advance(&mut self, now: Time, (id, is_reply): (u32, bool), segment: &Segment) -> Step {
        let connection = &mut self.connections[id as usize];
        let mut step = Step::Stay;
        if let Some(state) = connection.tcp {
            step = connection.step(now, state, is_reply, segment, self.period);
            match step {
                Step::To(next) => connection.tcp = Some(next),
                // Whoever wants another connection does not keep the one that has ended.
                Step::Stay if state >= TcpState::LastAck && segment.tcp_flags & (SYN | ACK) == SYN => return step,
                Step::Stay => {}
                Step::Invalid | Step::Reopen => return step,
            }
        }
        let now_is = (connection.tcp, connection.is_replied || is_reply);
        self.refresh(now, id, now_is);
        step
    }

    /// The place that it has now; `None` if all are taken.
    fn insert(&mut self, now: Time, connection: Connection) -> Option<u32> {
        self.expire(now, EXPIRED_AT_ONCE);
        let full = self.free == NONE && self.connections.len() == self.capacity;
        if full && !self.evict(usize::from(connection.share)) {
            return None;
        }
        let id = if self.free == NONE {
            self.connections.push(connection);
            self.connections.len() as u32 - 1
        } else {
            let id = self.free;
            self.free = self.connections[id as usize].next;
            self.connections[id as usize] = connection;
            id
        };
        self.index.insert(connection.original.hash(self.seed, connection.zone), id << 1);
        self.index.insert(connection.reply.hash(self.seed, connection.zone), id << 1 | 1);
        self.lists.link(&mut self.connections, id);
        self.kept[usize::from(connection.share)] += 1;
        self.counters.committed += 1;
        self.counters.connections += 1;
        Some(id)
    }

    fn remove(&mut self, id: u32) {
        self.lists.unlink(&mut self.connections, id);
        let Connection { original, reply, zone, share, .. } = self.connections[id as usize];
        self.kept[usize::from(share)] -= 1;
        self.index.remove(original.hash(self.seed, zone), id << 1);
        self.index.remove(reply.hash(self.seed, zone), id << 1 | 1);
        let place = &mut self.connections[id as usize];
        // Nobody finds it any more, nor is it shown.
        (place.expires_at, place.next) = (Time::ZERO, self.free);
        self.free = id;
        self.counters.connections -= 1;
        if let Some(removed) = &mut self.removed {
            removed.push(id);
        }
    }

    /// Removes the connection at a place, which was noted in [`Tracked::place`] and has not been removed since.
    pub fn remove_at(&mut self, place: u32) {
        self.remove(place);
    }

    /// Removes the connections of a zone, or all, from a place on, at most so many places. How many there were, and where to go on.
    pub fn flush(&mut self, now: Time, zone: Option<u16>, from: usize, places: usize) -> (usize, Option<usize>) {
        let end = self.connections.len().min(from.saturating_add(places));
        let mut flushed = 0;
        for id in from.min(end)..end {
            let connection = &self.connections[id];
            // A place that is free has no time.
            if connection.expires_at > Time::ZERO && zone.is_none_or(|zone| zone == connection.zone) {
                flushed += usize::from(connection.expires_at > now);
                self.remove(id as u32);
            }
        }
        (flushed, (end < self.connections.len()).then_some(end))
    }

    /// What another table is to know of the connection at a place; `None`: there is none.
    pub fn shared(&self, now: Time, place: u32) -> Option<SharedConnection> {
        let connection = self.connections.get(place as usize).filter(|connection| connection.expires_at > now)?;
        let Connection { original, reply, tcp, is_replied, .. } = *connection;
        Some(SharedConnection { original, reply, tcp, is_replied })
    }

    /// Keeps a connection that another table has, in the default zone, as far along as either of them knows it. Its place, and whether it is new here; `None`: this table knows
    /// better, or has no room. Where its segments stand is taken from what comes next.
    pub fn adopt(&mut self, now: Time, shared: &SharedConnection, mark: u32) -> Option<(u32, bool)> {
        let SharedConnection { original, reply, tcp, is_replied } = *shared;
        let translated = shared.translations()?;
        let is_opening = matches!(tcp, Some(TcpState::SynSent | TcpState::SynSent2));
        let (tcp, is_replied) = match tcp {
            // An answer may have passed there since: what follows it is not to be taken for made up here.
            _ if is_opening => (Some(TcpState::SynReceived), true),
            // The last segment passes there, too, and nobody speaks of it.
            Some(TcpState::LastAck) => (Some(TcpState::TimeWait), is_replied),
            _ => (tcp, is_replied),
        };
        if (original.protocol == wire::protocol::TCP) != tcp.is_some() || original == reply {
            return None;
        }
        if let Some((id, is_reply)) = self.find(now, 0, &original) {
            let own = &self.connections[id as usize];
            // Only a first segment leads back: it has begun another one in its place.
            let begins_anew = tcp == Some(TcpState::SynReceived) && own.tcp >= Some(TcpState::LastAck);
            if !is_reply && own.reply == reply && !begins_anew {
                let (tcp, is_replied) = (tcp.max(own.tcp), own.is_replied || is_replied);
                // It was opened elsewhere since it was heard of.
                let is_open_now = own.tcp <= Some(TcpState::SynReceived) && tcp > Some(TcpState::SynReceived);
                if is_open_now && own.windows.is_none() {
                    self.connections[id as usize].windows = Some(Windows::resumed(self.period, None));
                }
                self.refresh(now, id, (tcp, is_replied));
                return Some((id, false));
            }
            if !begins_anew && !self.has_ended(id) {
                return None;
            }
            self.remove(id);
        }
        self.clear_ended(now, 0, &reply);
        if self.find(now, 0, &reply).is_some() {
            return None;
        }
        let lifetime = Lifetime::of(&original, tcp, is_replied);
        let ends = now + lifetime.timeout();
        let connection = Connection {
            original,
            reply,
            expires_at: ends,
            listed_until: ends,
            mark,
            zone: 0,
            share: self.share,
            translated,
            is_replied,
            tcp,
            windows: tcp.filter(|_| !is_opening).map(|_| Windows::resumed(self.period, None)),
            reset_by: None,
            lifetime,
            before: NONE,
            next: NONE,
        };
        self.insert(now, connection).map(|id| (id, true))
    }

    /// Packets of the connection at a place have passed elsewhere: it lives on, in the state that it is in.
    pub fn keep_alive(&mut self, now: Time, place: u32) {
        if let Some(Connection { tcp, is_replied, expires_at, .. }) = self.connections.get(place as usize).copied()
            && expires_at > now
        {
            self.refresh(now, place, (tcp, is_replied));
        }
    }

    /// Where the segments of the connection at a place stand is not known any more: all of them are taken for its own.
    pub fn forget_windows(&mut self, place: u32) {
        if let Some(connection) = self.connections.get_mut(place as usize) {
            connection.windows = None;
        }
    }

    /// Somebody stands between both ends of the connection at a place: what its beginner sees of the other end's sequence numbers is so much more, modulo 2^32.
    pub fn join(&mut self, place: u32, offset: u32) {
        if let Some(windows) = self.connections.get_mut(place as usize).and_then(|joined| joined.windows.as_mut()) {
            windows.join(offset);
        }
    }

    /// The same of one that another table has followed until now: where its segments stand is taken from what comes next.
    pub fn resume_joined(&mut self, place: u32, offset: u32) {
        if let Some(connection) = self.connections.get_mut(place as usize) {
            connection.windows = connection.tcp.map(|_| Windows::resumed(self.period, Some(offset)));
        }
    }

    /// Another table may have followed connections since: where their segments stand is taken from what comes next.
    pub const fn resume_windows(&mut self) {
        self.period = self.period.wrapping_add(1);
    }

    /// How many places have been used so far: what [`Conntrack::shared`] can be asked about.
    pub const fn places(&self) -> u32 {
        self.connections.len() as u32
    }

    /// A connection is in this state now, and lives on.
    #[inline]
    fn refresh(&mut self, now: Time, id: u32, (tcp, is_replied): (Option<TcpState>, bool)) {
        let connection = &mut self.connections[id as usize];
        (connection.tcp, connection.is_replied) = (tcp, is_replied);
        let lifetime = Lifetime::of(&connection.original, tcp, is_replied);
        connection.expires_at = now + lifetime.timeout();
        let has_moved = connection.expires_at.since(connection.listed_until) > lifetime.timeout() / LISTED_PARTS;
        if lifetime != connection.lifetime || has_moved {
            self.lists.unlink(&mut self.connections, id);
            self.connections[id as usize].lifetime = lifetime;
            self.lists.link(&mut self.connections, id);
        }
    }

    /// Clears away some of the connections whose time has come.
    fn expire(&mut self, now: Time, at_once: u32) {
        for (share, lifetime) in (0..SHARES).flat_map(|share| (0..LIFETIMES).map(move |lifetime| (share, lifetime))) {
            for _ in 0..at_once {
                let head = self.lists.head(share, lifetime);
                if head == NONE || self.connections[head as usize].listed_until > now {
                    break;
                }
                if self.connections[head as usize].expires_at > now {
                    // It has had packets since it was put there.
                    self.lists.unlink(&mut self.connections, head);
                    self.lists.link(&mut self.connections, head);
                } else {
                    self.counters.expired += 1;
                    self.remove(head);
                }
            }
        }
    }

    /// The connection that is worth least makes room for one of a share, if one may: of that share, if it has its part of the table, else of the other one, which has more than that
    /// and gives back what it has too much, connections in use as well.
    fn evict(&mut self, share: usize) -> bool {
        let has_its_part = self.kept[share] >= self.capacity / SHARES;
        let (share, lifetimes) = if has_its_part { (share, EVICTED) } else { (SHARES - 1 - share, LIFETIMES) };
        let Some(lifetime) = (0..lifetimes).find(|lifetime| self.lists.head(share, *lifetime) != NONE) else {
            return false;
        };
        if lifetime >= EVICTED {
            self.put_behind_the_idle(share, lifetime);
        }
        self.remove(self.lists.head(share, lifetime));
        self.counters.evicted += 1;
        true
    }

    /// Moves connections from the head of a list to its end that have had packets since they were put there: a few, so that nobody's connection takes long to begin.
    fn put_behind_the_idle(&mut self, share: usize, lifetime: usize) {
        for _ in 0..EXPIRED_AT_ONCE {
            let head = self.lists.head(share, lifetime);
            let Connection { listed_until, expires_at, .. } = self.connections[head as usize];
            if expires_at <= listed_until {
                return;
            }
            self.lists.unlink(&mut self.connections, head);
            self.lists.link(&mut self.connections, head);
        }
    }

    /// Connections that are there, from a place on, at most so many places; and where to go on.
    pub fn connections(&self, now: Time, from: usize, places: usize) -> (Vec<ConnectionStatus>, Option<usize>) {
        let end = self.connections.len().min(from.saturating_add(places));
        let there = self.connections.get(from..end).unwrap_or_default();
        let there = there.iter().filter(|connection| connection.expires_at > now);
        let status = |connection: &Connection| ConnectionStatus {
            original: connection.original,
            reply: connection.reply,
            zone: connection.zone,
            mark: connection.mark,
            tcp: connection.tcp,
            expires_in: connection.expires_at.since(now),
        };
        (there.map(status).collect(), (end < self.connections.len()).then_some(end))
    }

    /// What has been counted.
    pub const fn counters(&self) -> ConntrackCounters {
        self.counters
    }
}

/// The state of TCP in a connection that a packet begins; an error if it may begin none.
fn may_begin(segment: &Segment) -> Result<Option<TcpState>, ()> {
    if !segment.tuple.may_begin() {
        return Err(());
    }
    if segment.tuple.protocol == wire::protocol::TCP {
        return tcp::begin(segment.tcp_flags).map(Some).ok_or(());
    }
    Ok(None)
}

impl Rebase for Conntrack {
    fn rebase(&mut self, by: Span) {
        let Self {
            connections,
            capacity: _,
            free: _,
            index: _,
            lists: _,
            kept: _,
            share: _,
            exhausted,
            seed: _,
            counters: _,
            removed: _,
            period: _,
        } = self;
        connections.rebase(by);
        exhausted.rebase(by);
    }
}
