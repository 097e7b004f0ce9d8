//! One balancer: its connections, what it says to its peers and hears of them, and whether it is active. Time, messages and carriers go in; messages come out.

use std::net::IpAddr;

use balance::{Advertisement, Vrrp, VrrpInput, VrrpOutput, VrrpSpec, VrrpState};
use machine::{Control as _, Rebase, Span, Step, Time};
use topology::{NodeId, TiVec};
use vswitch::HostTable;

use super::peer::{HEARTBEAT, Peer};
use super::{BalancerRole, BalancerView, VrrpSettings};
use crate::services::syn_cookies::CookieKey;
use crate::services::sync::{SyncAnswer, SyncHeader, SyncMessage, TABLE_END, parse_sync};
use crate::services::{BalancerHost, ServiceState, Services};

/// Changes wait for so long, so that several go together.
const FLUSH: Span = Span::from_ms(1);
/// So many datagrams with changes to each peer at once, and so many with answers.
const AT_ONCE: usize = 8;
/// How long one that comes back waits for a peer to say something.
const PATIENCE: Span = Span::from_ms(500);
/// The same for all that peers have to say: then it goes on with what it knows, and hears of the rest meanwhile.
const PATIENCE_MAX: Span = Span::from_secs(10);

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
    /// Whether it has heard of all connections that its peers have, as far as they have said in time.
    is_synced: bool,
    /// Whether there are connections of which only peers know if they are still there.
    doubts: bool,
    /// Until when it waits for peers to say something, and to say all.
    patient_until: (Time, Time),
    instance: u32,
    /// Of the next datagram with changes.
    sequence: u32,
    flush_at: Time,
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
            peers: peers.into_iter().map(|host| Peer::new(now, host)).collect(),
            is_up: true,
            is_synced: true,
            doubts: false,
            patient_until: (now, now),
            instance: (seed >> 32) as u32,
            sequence: 0,
            flush_at: Time::NEVER,
            adopted: 0,
            malformed: 0,
        }
    }

    /// The same with cookies of this kind: others who balance the same services take what this one has sent.
    pub(in crate::services) const fn with_cookies_of(mut self, key: CookieKey) -> Self {
        self.state.cookie_key = key;
        self
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

    /// How it stands with a service, by its number; `is_active`: it is the one that gets packets, as far as the fabric knows.
    pub(in crate::services) fn view(&self, service: usize, is_active: bool) -> BalancerView {
        let role = match (self.is_up, self.is_synced, is_active) {
            (false, ..) => BalancerRole::Down,
            (true, false, _) => BalancerRole::Syncing,
            (true, true, true) => BalancerRole::Active,
            (true, true, false) => BalancerRole::Backup,
        };
        let connections = self.state.connections_of(service);
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
        (self.is_up, self.is_synced, self.doubts) = (before.is_up, before.is_synced, before.doubts);
        self.patient_until = before.patient_until;
        (self.adopted, self.malformed) = (before.adopted, before.malformed);
        // Peers may be others: they ask for all that they miss.
        self.instance = before.instance.wrapping_add(1);
    }

    /// It was not there when others began: it hears of their connections first.
    pub(in crate::services) fn begin_late(&mut self, now: Time) {
        self.peers.iter_mut().for_each(|peer| peer.ask_for_all(now));
        self.state.doubt_all();
        (self.is_synced, self.doubts) = (self.peers.is_empty(), !self.peers.is_empty());
        self.patient_until = (now + PATIENCE, now + PATIENCE_MAX);
        self.set_preempts();
    }

    fn set_preempts(&mut self) {
        let is_synced = self.is_synced;
        self.routers.iter_mut().for_each(|router| router.machine.set_preempts(is_synced));
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
        self.begin_late(now);
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
        let peer = &mut self.peers[at];
        if peer.is_back(now, &header) {
            self.state.note_others();
        }
        peer.hear(now, &header, header.answer.is_none() && !entries.is_empty());
        if peer.has_question() {
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

    /// A connection has begun: peers are to hear of it at once.
    pub(in crate::services) const fn note_opened(&mut self, now: Time) {
        self.flush_at = now;
    }

    /// Does what is due, and says what is to be sent.
    pub(in crate::services) fn advance(&mut self, now: Time, out: &mut Vec<Outgoing>) {
        self.judge_sync(now);
        for router in &mut self.routers {
            while let Step::Do(output) = router.machine.poll(now) {
                if matches!(output, VrrpOutput::Changed(_)) {
                    self.state.note_others();
                }
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
        self.peers.iter_mut().for_each(|peer| peer.ask(now));
        if self.flush_at <= now {
            self.flush(now, out);
        }
        let own = self.header();
        for peer in self.peers.iter_mut().filter(|peer| peer.heartbeat_at <= now) {
            peer.heartbeat_at = now + HEARTBEAT;
            let header = SyncHeader { question: peer.asked(), ..own };
            out.push(Outgoing::Sync(peer.host, SyncMessage::new(&header).bytes().to_vec()));
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
        let peers = self.peers.iter().map(Peer::due).min().unwrap_or(Time::NEVER);
        let own = if self.peers.is_empty() { Time::NEVER } else { self.flush_at.min(peers) };
        let patience = if self.is_synced { Time::NEVER } else { self.patient_until.0.max(now + FLUSH) };
        routers.min(own).min(patience)
    }

    /// Whether it has heard of all that there is, or has waited for it long enough.
    fn judge_sync(&mut self, now: Time) {
        if !self.is_up || self.is_synced && !self.doubts {
            return;
        }
        // Those who ask for all themselves have nothing to say.
        let able = || self.peers.iter().filter(|peer| peer.is_able(now));
        let is_alone = able().next().is_none();
        let has_heard = !is_alone && !able().any(Peer::lacks_all);
        if has_heard && std::mem::take(&mut self.doubts) {
            // What others have not spoken of has ended meanwhile.
            self.state.forget_unconfirmed(now);
        }
        let (silence, end) = self.patient_until;
        if !self.is_synced && (has_heard || is_alone && now >= silence || now >= end) {
            self.is_synced = true;
            // What peers have asked meanwhile can be answered now.
            self.flush_at = self.flush_at.min(now);
            self.set_preempts();
        }
    }

    /// Says what has changed, and what peers have asked, a bounded number of datagrams at once.
    fn flush(&mut self, now: Time, out: &mut Vec<Outgoing>) {
        let own = self.header();
        for _ in 0..AT_ONCE {
            let mut message = SyncMessage::new(&own);
            while message.has_room()
                && let Some(entry) = self.state.next_change(now, self.sequence)
            {
                message.push(&entry);
            }
            if message.is_empty() {
                break;
            }
            for peer in &mut self.peers {
                peer.heartbeat_at = now + HEARTBEAT;
                message.set_header(&SyncHeader { question: peer.asked(), sequence: self.sequence, ..own });
                out.push(Outgoing::Sync(peer.host, message.bytes().to_vec()));
            }
            self.sequence = self.sequence.wrapping_add(1);
        }
        // What it knows of an earlier time is of no use to others.
        if self.is_synced {
            for at in 0..self.peers.len() {
                self.answer(now, at, out);
            }
        }
        self.flush_at = if self.state.has_changes() { now + FLUSH } else { Time::NEVER };
    }

    /// Says what a peer has asked, as much as is said at once.
    fn answer(&mut self, now: Time, at: usize, out: &mut Vec<Outgoing>) {
        let own = self.header();
        let peer = &mut self.peers[at];
        let Some(question) = peer.take_question() else { return };
        peer.heartbeat_at = now + HEARTBEAT;
        let asked = peer.asked();
        let mut from = question.from;
        for part in 1..=AT_ONCE {
            let mut message = SyncMessage::new(&own);
            let end = self.state.write_known(now, (from, question.since), &mut message);
            let is_last = part == AT_ONCE || end == TABLE_END;
            let answer = SyncAnswer { request: question.request, places: (from, end), is_last };
            message.set_header(&SyncHeader { question: asked, answer: Some(answer), ..own });
            out.push(Outgoing::Sync(self.peers[at].host, message.bytes().to_vec()));
            if is_last {
                break;
            }
            from = end;
        }
    }

    /// What all of its datagrams begin with.
    fn header(&self) -> SyncHeader {
        let (instance, sequence, is_syncing) = (self.instance, self.sequence, !self.is_synced);
        SyncHeader { instance, sequence, is_syncing, ..SyncHeader::default() }
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
            doubts: _,
            patient_until: (silence, end),
            instance: _,
            sequence: _,
            flush_at,
            adopted: _,
            malformed: _,
        } = self;
        state.rebase(by);
        routers.rebase(by);
        peers.rebase(by);
        silence.rebase(by);
        end.rebase(by);
        flush_at.rebase(by);
    }
}
