//! One balancer: its connections, what it says to its peers and hears of them, and whether it is active. Time, messages and carriers go in; messages come out.

use std::net::IpAddr;

use balance::{Advertisement, Vrrp, VrrpInput, VrrpOutput, VrrpSpec, VrrpState};
use machine::{Control as _, Rebase, Span, Step, Time};
use topology::{NodeId, TiVec};
use vswitch::HostTable;

use super::{BalancerRole, BalancerView, VrrpSettings};
use crate::services::sync::{SyncHeader, SyncMessage, parse_sync};
use crate::services::{BalancerHost, ServiceState, Services};

/// Changes wait for so long, so that several go together.
const FLUSH: Span = Span::from_ms(1);
/// So many datagrams to each peer at once.
const AT_ONCE: usize = 8;
/// Whoever has nothing to say says so this often.
const HEARTBEAT: Span = Span::from_ms(100);
/// A peer that has been silent for so long is not waited for.
const SILENT: Span = Span::from_ms(350);
/// How long one that comes back waits for a peer to say something.
const PATIENCE: Span = Span::from_ms(500);
/// Places of the table that are looked at at once for a peer that wants all connections.
const SWEPT: u32 = 512;

/// What a balancer wants to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::services) enum Outgoing {
    /// A datagram for another one.
    Sync(NodeId, Vec<u8>),
    /// An advertisement for a service, by its number.
    Advertise { service: usize, priority: u8 },
    /// It is the active one for a service: its addresses are to be announced.
    Active { service: usize },
}

/// Another balancer of one of its services.
#[derive(Clone, Copy, Debug)]
struct Peer {
    host: NodeId,
    /// Of the next datagram to it.
    sequence: u32,
    /// The instance and the number of the next datagram from it.
    expected: Option<(u32, u32)>,
    /// Since which datagram nothing from it was lost.
    whole_since: u32,
    heard_at: Option<Time>,
    /// Its request for all connections that is being met, or 0.
    wants: u8,
    /// The last one that was met.
    sent: u8,
    /// The first datagram by which the one that is wanted, or the last one, is met.
    sent_since: u32,
    /// Whether it has met this one's last request.
    has_sent: bool,
}

impl Peer {
    const fn new(host: NodeId) -> Self {
        Self {
            host,
            sequence: 0,
            expected: None,
            whole_since: 0,
            heard_at: None,
            wants: 0,
            sent: 0,
            sent_since: 0,
            has_sent: true,
        }
    }

    fn is_alive(&self, now: Time) -> bool {
        self.heard_at.is_some_and(|heard| now.since(heard) < SILENT)
    }
}

/// A virtual router.
#[derive(Debug)]
struct Router {
    /// The number of its service.
    service: usize,
    is_ipv6: bool,
    machine: Vrrp,
}

/// One balancer.
#[derive(Debug)]
pub(crate) struct Balancer {
    host: NodeId,
    state: ServiceState,
    routers: Vec<Router>,
    peers: Vec<Peer>,
    /// Whether its link has a carrier.
    is_up: bool,
    /// Whether it has heard of all connections that its peers have.
    is_synced: bool,
    /// Until when it waits for peers to say something.
    patient_until: Time,
    instance: u32,
    /// The number of its last request for all connections.
    request: u8,
    /// Whether a datagram was lost since then.
    has_missed: bool,
    flush_at: Time,
    heartbeat_at: Time,
    /// Where it goes on with all connections, for a peer that wants them.
    sweep: Option<u32>,
    adopted: u64,
    malformed: u64,
}

impl Balancer {
    pub(in crate::services) fn new(now: Time, services: &Services, host: &BalancerHost, seed: u64) -> Self {
        let its = || services.all.iter().enumerate().filter(|(_, service)| service.at.contains(&host.host));
        let mut peers: Vec<NodeId> = its().flat_map(|(_, service)| service.at.iter().copied()).collect();
        peers.retain(|peer| *peer != host.host);
        peers.sort_unstable();
        peers.dedup();
        let router = |(number, service): (usize, &crate::services::Service)| {
            let settings = service.vrrp.as_ref()?;
            let place = service.at.iter().position(|at| *at == host.host)?;
            let is_ipv6 = service.addresses.first().is_some_and(|address| address.is_ipv6);
            let spec = VrrpSpec {
                router: settings.router,
                priority: VrrpSettings::priority(place),
                interval_cs: settings.interval_cs,
                address: host.vrrp_address(is_ipv6),
            };
            Some(Router { service: number, is_ipv6, machine: Vrrp::new(spec) })
        };
        Self {
            host: host.host,
            state: ServiceState::new_at(now, services, seed, host.host, !peers.is_empty()),
            routers: its().filter_map(router).collect(),
            peers: peers.into_iter().map(Peer::new).collect(),
            is_up: true,
            is_synced: true,
            patient_until: now,
            instance: (seed >> 32) as u32,
            request: 0,
            has_missed: false,
            flush_at: Time::NEVER,
            heartbeat_at: now,
            sweep: None,
            adopted: 0,
            malformed: 0,
        }
    }

    pub(in crate::services) const fn host(&self) -> NodeId {
        self.host
    }

    pub(in crate::services) const fn state(&self) -> &ServiceState {
        &self.state
    }

    pub(in crate::services) const fn state_mut(&mut self) -> &mut ServiceState {
        &mut self.state
    }

    /// Whether it may get packets.
    pub(in crate::services) const fn is_usable(&self) -> bool {
        self.is_up && self.is_synced
    }

    /// Whether it is the active one of a virtual router, by the number of its service.
    pub(in crate::services) fn is_elected(&self, service: usize) -> bool {
        let router = self.routers.iter().find(|router| router.service == service);
        router.is_some_and(|router| router.machine.state() == VrrpState::Active)
    }

    /// How it stands; `is_active`: it is the one that gets packets, as far as the fabric knows.
    pub(in crate::services) fn view(&self, is_active: bool) -> BalancerView {
        let role = match (self.is_up, self.is_synced, is_active) {
            (false, ..) => BalancerRole::Down,
            (true, false, _) => BalancerRole::Syncing,
            (true, true, true) => BalancerRole::Active,
            (true, true, false) => BalancerRole::Backup,
        };
        let connections = self.state.conntrack().map_or(0, |conntrack| conntrack.counters().connections);
        BalancerView { host: self.host, role, connections, adopted: self.adopted, malformed: self.malformed }
    }

    /// It goes on where `before` ends, in another file.
    pub(in crate::services) fn take_over(
        &mut self,
        now: Time,
        before: &mut Self,
        (was, is): (&Services, &Services),
        nodes: &TiVec<NodeId, Option<NodeId>>,
    ) {
        self.state.take_over(now, &mut before.state, (is, nodes));
        for router in &mut self.routers {
            let name = &is.all[router.service].name;
            let known = before.routers.iter().find(|known| was.all[known.service].name == *name);
            if let Some(known) = known.filter(|known| known.machine.spec() == router.machine.spec()) {
                router.machine = known.machine.clone();
            }
        }
        (self.is_up, self.is_synced, self.patient_until) = (before.is_up, before.is_synced, before.patient_until);
        (self.adopted, self.malformed) = (before.adopted, before.malformed);
        // Peers may be others: they ask for all that they miss.
        self.instance = before.instance.wrapping_add(1);
    }

    /// It was not there when others began: it hears of their connections first.
    pub(in crate::services) fn begin_late(&mut self, now: Time) {
        self.ask_for_all();
        self.state.doubt_all();
        (self.is_synced, self.patient_until) = (self.peers.is_empty(), now + PATIENCE);
        self.set_preempts();
    }

    fn set_preempts(&mut self) {
        let is_synced = self.is_synced;
        self.routers.iter_mut().for_each(|router| router.machine.set_preempts(is_synced));
    }

    fn ask_for_all(&mut self) {
        self.request = self.request.checked_add(1).unwrap_or(1);
        self.peers.iter_mut().for_each(|peer| peer.has_sent = false);
        self.has_missed = false;
    }

    /// Takes part, if it has a carrier.
    pub(in crate::services) fn start(&mut self, now: Time) {
        if self.is_up {
            self.routers.iter_mut().for_each(|router| router.machine.handle(now, VrrpInput::Start));
        }
    }

    /// Its link has lost its carrier, or has it back.
    pub(in crate::services) fn set_carrier(&mut self, now: Time, is_up: bool) {
        if std::mem::replace(&mut self.is_up, is_up) == is_up {
            return;
        }
        if !is_up {
            self.routers.iter_mut().for_each(|router| router.machine.handle(now, VrrpInput::LinkDown));
            return;
        }
        // Others have gone on meanwhile.
        self.peers.iter_mut().for_each(|peer| (peer.heard_at, peer.expected) = (None, None));
        self.begin_late(now);
        self.heartbeat_at = now;
        self.start(now);
    }

    /// An advertisement has come.
    pub(in crate::services) fn hear_advertisement(&mut self, now: Time, is_ipv6: bool, heard: Advertisement) {
        for router in self.routers.iter_mut().filter(|router| router.is_ipv6 == is_ipv6) {
            router.machine.handle(now, VrrpInput::Heard(heard));
        }
    }

    /// A datagram of another balancer has come.
    pub(in crate::services) fn hear_sync(&mut self, now: Time, from: NodeId, host_table: &HostTable, bytes: &[u8]) {
        let Some(at) = self.peers.iter().position(|peer| peer.host == from) else { return };
        let Ok((header, entries)) = parse_sync(bytes) else {
            self.malformed += 1;
            return;
        };
        let SyncHeader { wants, sent, instance, sequence, since } = header;
        let peer = &mut self.peers[at];
        let is_next = match peer.expected {
            Some(expected) => expected == (instance, sequence),
            None => sequence == 0 || !peer.has_sent,
        };
        self.has_missed |= !is_next;
        if peer.expected != Some((instance, sequence)) {
            peer.whole_since = sequence;
        }
        peer.expected = Some((instance, sequence.wrapping_add(1)));
        peer.heard_at = Some(now);
        let is_met = sent == self.request && self.request != 0 && !peer.has_sent;
        // Nothing that was sent to meet it was lost.
        let is_whole = since.wrapping_sub(peer.whole_since).cast_signed() >= 0;
        peer.has_sent |= is_met && is_whole;
        if wants != 0 && wants != peer.sent && wants != peer.wants {
            (peer.wants, peer.sent_since) = (wants, peer.sequence);
            self.sweep = Some(0);
            self.flush_at = self.flush_at.min(now + FLUSH);
        }
        let has_all = self.peers.iter().all(|peer| peer.has_sent);
        if self.has_missed && has_all || is_met && !is_whole {
            // Something was lost on the way, be it of what was asked for.
            self.ask_for_all();
            self.flush_at = self.flush_at.min(now + FLUSH);
        }
        for entry in &entries {
            self.adopted += u64::from(self.state.adopt(now, host_table, entry));
        }
    }

    /// Packets have passed: peers are to hear of what has changed, before long.
    #[inline]
    pub(in crate::services) fn note_packet(&mut self, now: Time) -> bool {
        let begins = self.flush_at == Time::NEVER && self.state.has_changes();
        if begins {
            self.flush_at = now + FLUSH;
        }
        begins
    }

    /// Does what is due, and says what is to be sent.
    pub(in crate::services) fn advance(&mut self, now: Time, out: &mut Vec<Outgoing>) {
        self.judge_sync(now);
        for router in &mut self.routers {
            while let Step::Do(output) = router.machine.poll(now) {
                out.push(match output {
                    VrrpOutput::Advertise { priority } => Outgoing::Advertise { service: router.service, priority },
                    VrrpOutput::Changed(VrrpState::Active) => Outgoing::Active { service: router.service },
                    VrrpOutput::Changed(VrrpState::Backup | VrrpState::Initialize) => continue,
                });
            }
        }
        if self.peers.is_empty() {
            return;
        }
        if self.flush_at <= now || self.heartbeat_at <= now {
            self.flush(now, out);
        }
    }

    /// When it is to be asked again.
    pub(in crate::services) fn next_time(&mut self, now: Time) -> Time {
        let due = |router: &mut Router| match router.machine.poll(now) {
            Step::Wait(until) => until,
            // It has been asked until there was nothing.
            Step::Do(_) => now,
        };
        let routers = self.routers.iter_mut().map(due).min().unwrap_or(Time::NEVER);
        let own = if self.peers.is_empty() { Time::NEVER } else { self.flush_at.min(self.heartbeat_at) };
        let patience = if self.is_synced { Time::NEVER } else { self.patient_until.max(now + FLUSH) };
        routers.min(own).min(patience)
    }

    /// Whether it has heard of all that there is.
    fn judge_sync(&mut self, now: Time) {
        if self.is_synced || !self.is_up {
            return;
        }
        let alive = || self.peers.iter().filter(|peer| peer.is_alive(now));
        let has_heard = alive().any(|peer| peer.has_sent) && alive().all(|peer| peer.has_sent);
        // Those who ask for all themselves have nothing to say.
        let is_alone = now >= self.patient_until && alive().all(|peer| peer.wants != 0);
        if has_heard {
            // What others have not spoken of has ended meanwhile.
            self.state.forget_unconfirmed(now);
        }
        if has_heard || is_alone {
            self.is_synced = true;
            self.set_preempts();
        }
    }

    /// Says what has changed, a bounded number of datagrams at once.
    fn flush(&mut self, now: Time, out: &mut Vec<Outgoing>) {
        // What it knows of an earlier time is of no use to others.
        if let Some(from) = self.sweep.filter(|_| self.is_synced) {
            self.sweep = self.state.note_all(now, from, SWEPT);
        }
        for number in 0..AT_ONCE {
            let header = |peer: &Peer| SyncMessage::new(&self.header(peer));
            let mut messages: Vec<SyncMessage> = self.peers.iter().map(header).collect();
            while messages.iter().all(SyncMessage::has_room) {
                let Some(entry) = self.state.next_change(now) else { break };
                for message in &mut messages {
                    message.push(&entry);
                }
            }
            let is_wanted = number == 0 && (self.heartbeat_at <= now || self.has_requests());
            if !is_wanted && messages.iter().all(SyncMessage::is_empty) {
                break;
            }
            for (peer, message) in self.peers.iter_mut().zip(&messages) {
                peer.sequence = peer.sequence.wrapping_add(1);
                out.push(Outgoing::Sync(peer.host, message.bytes().to_vec()));
            }
            self.heartbeat_at = now + HEARTBEAT;
        }
        let has_more = self.state.has_changes() || self.sweep.is_some();
        if !has_more {
            // All that they wanted is on its way.
            for peer in &mut self.peers {
                if peer.wants != 0 {
                    (peer.sent, peer.wants) = (peer.wants, 0);
                    self.heartbeat_at = now + FLUSH;
                }
            }
        }
        self.flush_at = if has_more { now + FLUSH } else { Time::NEVER };
    }

    /// Whether peers are to hear soon that something is wanted.
    fn has_requests(&self) -> bool {
        self.peers.iter().any(|peer| !peer.has_sent)
    }

    const fn header(&self, peer: &Peer) -> SyncHeader {
        SyncHeader {
            wants: if peer.has_sent { 0 } else { self.request },
            sent: peer.sent,
            instance: self.instance,
            sequence: peer.sequence,
            since: peer.sent_since,
        }
    }
}

impl BalancerHost {
    /// From where its advertisements come: its own address, or the link-local one that it makes of its MAC address (RFC 9568, 5.1.2.1).
    pub(in crate::services) fn vrrp_address(&self, is_ipv6: bool) -> u128 {
        if !is_ipv6 {
            return self.ipv4.to_bits().into();
        }
        let mac = self.mac;
        let interface = [mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]];
        u128::from(0xfe80_u16) << 112 | u128::from(u64::from_be_bytes(interface))
    }

    /// The same, as an address.
    pub(in crate::services) fn vrrp_ip(&self, is_ipv6: bool) -> IpAddr {
        let bits = self.vrrp_address(is_ipv6);
        if is_ipv6 { IpAddr::V6(bits.into()) } else { IpAddr::V4(self.ipv4) }
    }
}

impl Rebase for Peer {
    fn rebase(&mut self, by: Span) {
        let Self {
            host: _,
            sequence: _,
            expected: _,
            whole_since: _,
            heard_at,
            wants: _,
            sent: _,
            sent_since: _,
            has_sent: _,
        } = self;
        heard_at.rebase(by);
    }
}

impl Rebase for Router {
    fn rebase(&mut self, by: Span) {
        let Self { service: _, is_ipv6: _, machine } = self;
        machine.rebase(by);
    }
}

impl Rebase for Balancer {
    fn rebase(&mut self, by: Span) {
        let Self {
            host: _,
            state,
            routers,
            peers,
            is_up: _,
            is_synced: _,
            patient_until,
            instance: _,
            request: _,
            has_missed: _,
            flush_at,
            heartbeat_at,
            sweep: _,
            adopted: _,
            malformed: _,
        } = self;
        state.rebase(by);
        routers.rebase(by);
        peers.rebase(by);
        patient_until.rebase(by);
        flush_at.rebase(by);
        heartbeat_at.rebase(by);
    }
}
