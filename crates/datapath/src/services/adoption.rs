//! Connections that another balancer has begun, and what this one says of its own.

use std::net::IpAddr;

use balance::Outcome;
use machine::Time;
use vswitch::HostTable;
use vswitch::conntrack::ct_state::ESTABLISHED;
use vswitch::conntrack::{Conntrack, Tracked};

use super::offload::Offloading;
use super::opened::{Handshake, Opened, Phase, Shared};
use super::state::{Running, SERVER_BITS, ServiceState};
use super::sync::{Stage, SyncEntry, SyncMessage, TABLE_END, name_hash};

/// So many places of the table are looked at for a datagram: the worker is not to be kept by it.
const LOOKED_AT: u32 = 1_024;

impl ServiceState {
    /// Whether there is something that other balancers have not heard of.
    #[inline]
    pub(super) fn has_changes(&self) -> bool {
        self.changes.as_ref().is_some_and(|changes| !changes.is_empty())
    }

    /// Others are to hear of a connection, unless that is noted already.
    pub(super) fn note_change(&mut self, place: u32) {
        let (Some(changes), Some(opened)) = (&mut self.changes, self.opened.get_mut(place as usize)) else { return };
        if !std::mem::replace(&mut opened.shared.is_changed, true) {
            changes.push_back(place);
        }
    }

    /// Others hold a connection for ended that goes on, or is another one by now.
    pub(super) fn note_reopened(&mut self, place: u32) {
        self.opened[place as usize].shared.stage = Stage::New;
        self.note_change(place);
    }

    /// Others are to hear of a connection that begins, before anything else.
    pub(super) fn note_opened(&mut self, place: u32) {
        let (Some(changes), Some(opened)) = (&mut self.changes, self.opened.get_mut(place as usize)) else { return };
        if !std::mem::replace(&mut opened.shared.is_changed, true) {
            changes.push_front(place);
        }
        self.has_opened = true;
    }

    /// Whether the packet that has just come has begun a connection of which others are to hear.
    #[inline]
    pub(super) const fn take_opened(&mut self) -> bool {
        std::mem::replace(&mut self.has_opened, false)
    }

    /// Others are to hear of a connection if a packet has brought it further.
    #[inline]
    pub(super) fn note_stage(&mut self, place: u32, tracked: &Tracked) {
        let opened = &mut self.opened[place as usize];
        if opened.handshake == Handshake::HalfOpen && Stage::of(tracked.tcp, true) != Stage::New {
            opened.handshake = Handshake::Done;
            self.running[opened.running as usize].end_half_open(opened.server);
        }
        if self.changes.is_none() {
            return;
        }
        // Whatever others know of it: it is there.
        opened.shared.is_doubted = false;
        let stage = Stage::of(tracked.tcp, tracked.state & ESTABLISHED != 0);
        if stage > opened.shared.stage {
            opened.shared.stage = stage;
            self.note_change(place);
        }
    }

    /// The next connection of which others are to hear, in the datagram with this number. Those that are no more by now are left out.
    pub(super) fn next_change(&mut self, now: Time, sequence: u32) -> Option<SyncEntry> {
        loop {
            let place = self.changes.as_mut()?.pop_front()?;
            let shared = &mut self.opened[place as usize].shared;
            (shared.is_changed, shared.sent_in) = (false, sequence);
            if let Some(entry) = self.entry(now, place) {
                return Some(entry);
            }
        }
    }

    /// What others are to know of a connection; `None`: it is no more, or its server has not answered yet, and its client has a cookie.
    fn entry(&self, now: Time, place: u32) -> Option<SyncEntry> {
        let connection = self.conntrack.as_ref()?.shared(now, place)?;
        let opened = self.opened.get(place as usize)?;
        let running = &self.running[opened.running as usize];
        let server = running.machine.name(opened.server)?;
        let stage = Stage::of(connection.tcp, connection.is_replied);
        let cookie = match opened.proxied() {
            Some(proxied) => Some(proxied.shared()?),
            None => None,
        };
        Some(SyncEntry {
            service: name_hash(&running.name),
            server: name_hash(server),
            client_mac: opened.client_mac,
            stage,
            connection,
            cookie,
        })
    }

    /// Writes what another balancer lacks of the connections from a place on, as many as there is room for. `since`: those of which it has heard, or was to hear, from this datagram on;
    /// `None`: all that have not ended. Returns the place to go on with.
    pub(super) fn write_known(&self, now: Time, (from, since): (u32, Option<u32>), message: &mut SyncMessage) -> u32 {
        let count = self.conntrack.as_ref().map_or(0, Conntrack::places);
        let end = count.min(from.saturating_add(LOOKED_AT));
        for place in from..end {
            if !message.has_room() {
                return place;
            }
            let sent_in = self.opened.get(place as usize).map_or(0, |opened| opened.shared.sent_in);
            let is_wanted = since.is_none_or(|since| sent_in.wrapping_sub(since).cast_signed() >= 0);
            if is_wanted
                && let Some(entry) = self.entry(now, place)
                && (since.is_some() || entry.stage != Stage::Ended)
            {
                message.push(&entry);
            }
        }
        if end < count { end } else { TABLE_END }
    }

    /// Others may have got packets of its connections, or may get them from now on.
    pub(super) fn note_others(&mut self) {
        if let Some(conntrack) = &mut self.conntrack {
            conntrack.resume_windows();
        }
    }

    /// Whether its connections are still there is known to others only.
    pub(super) fn doubt_all(&mut self) {
        self.note_others();
        for opened in &mut self.opened {
            opened.shared.is_doubted = true;
            // Its server's answer may have come to others.
            opened.waits = false;
        }
    }

    /// Forgets connections of which others have not spoken since.
    pub(super) fn forget_unconfirmed(&mut self, now: Time) {
        for place in 0..self.opened.len() {
            let opened = &mut self.opened[place];
            let is_doubted = std::mem::take(&mut opened.shared.is_doubted);
            if let Some(conntrack) = self.conntrack.as_mut().filter(|_| is_doubted)
                && conntrack.shared(now, place as u32).is_some()
            {
                conntrack.remove_at(place as u32);
            }
        }
        self.note_removed(now);
    }

    /// Another balancer has this connection. Whether it is one of here now.
    pub(super) fn adopt(&mut self, now: Time, host_table: &HostTable, entry: &SyncEntry) -> bool {
        let is_its = |running: &Running| running.is_there && name_hash(&running.name) == entry.service;
        let Some(own) = self.running.iter().position(is_its) else { return false };
        let running = &self.running[own];
        let server = running.machine.spec().servers.iter().find(|server| name_hash(&server.name) == entry.server);
        let Some(server) = server.and_then(|server| running.machine.server(&server.name)) else { return false };
        let mark = (own as u32) << SERVER_BITS | server.index() as u32;
        let Some(conntrack) = &mut self.conntrack else { return false };
        let adopted = conntrack.adopt(now, &entry.connection, mark);
        self.note_removed(now);
        let Some((place, is_new)) = adopted else { return false };
        let has_ended = entry.stage == Stage::Ended;
        if is_new {
            let tuple = &entry.connection.original;
            let owner = match tuple.address(tuple.src) {
                IpAddr::V4(address) => host_table.by_ipv4(address),
                IpAddr::V6(address) => host_table.by_ipv6(address),
            };
            let opened = Opened {
                running: own as u32,
                server,
                asked_at: now,
                waits: false,
                is_answered: entry.stage != Stage::New,
                // Its silence may have been heard by the other one.
                is_from_host: false,
                phase: Phase::Active,
                client: host_table.by_mac(entry.client_mac).or(owner),
                client_mac: entry.client_mac,
                handshake: Handshake::Done,
                shared: Shared { stage: entry.stage, ..Shared::default() },
                offloading: Offloading::default(),
            };
            self.keep_opened(place, opened);
            let running = &mut self.running[own];
            running.connections += 1;
            running.machine.adopt(now, server);
        }
        self.adopt_handshake(place, is_new, entry);
        let opened = &mut self.opened[place as usize];
        opened.shared.stage = opened.shared.stage.max(entry.stage);
        opened.shared.is_doubted = false;
        if has_ended && opened.phase != Phase::Closed {
            // The other one has judged it.
            let was_idle = opened.phase == Phase::Idle;
            opened.phase = Phase::Closed;
            let (running, server) = (opened.running as usize, opened.server);
            self.running[running].machine.close(now, server, was_idle, Outcome::Expired);
        }
        true
    }

    /// The same of how it was opened, or is.
    fn adopt_handshake(&mut self, place: u32, is_new: bool, entry: &SyncEntry) {
        let is_half_open = entry.stage == Stage::New && entry.connection.tcp.is_some();
        let heard = match entry.cookie {
            Some(cookie) => Handshake::Proxied(cookie.into()),
            None if is_half_open => Handshake::HalfOpen,
            None => Handshake::Done,
        };
        let opened = &self.opened[place as usize];
        let changes = match (opened.handshake, heard) {
            // Its numbers are what they are as long as it is there.
            (Handshake::Proxied(_), _) => entry.cookie.is_some() && opened.phase == Phase::Closed,
            (Handshake::HalfOpen, Handshake::HalfOpen) => false,
            // One that is open does not open again.
            (Handshake::Done, Handshake::HalfOpen) => is_new,
            (Handshake::HalfOpen | Handshake::Done, Handshake::Proxied(_) | Handshake::Done) => true,
        };
        if !changes {
            return;
        }
        self.change_handshake(place, heard);
        if let (Handshake::Proxied(proxied), Some(conntrack)) = (heard, &mut self.conntrack) {
            match proxied.offset.filter(|_| !proxied.is_unnumbered()) {
                Some(offset) => conntrack.resume_joined(place, offset),
                None => conntrack.forget_windows(place),
            }
        }
    }

    /// Notes what schedulers need of the connection at a place.
    pub(super) fn keep_opened(&mut self, place: u32, opened: Opened) {
        if self.opened.len() <= place as usize {
            let none = Opened {
                phase: Phase::Closed,
                handshake: Handshake::Done,
                shared: Shared::default(),
                offloading: Offloading::default(),
                ..opened
            };
            self.opened.resize(place as usize + 1, none);
        }
        let is_changed = self.opened[place as usize].shared.is_changed;
        self.opened[place as usize] = Opened { shared: Shared { is_changed, ..opened.shared }, ..opened };
    }
}
