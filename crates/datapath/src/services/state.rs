//! Connections to services: which there are, and what schedulers hear of them. Bytes and the time go in; what is to be written, and where it goes, comes out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use balance::Outcome;
use machine::{Rebase, Span, Time};
use topology::{NodeId, TiVec};
use vswitch::conntrack::{Conntrack, Request, Segment, TcpState, Tracked, Translate, ct_state};
use vswitch::{Field, HostTable, translate};
use wire::{protocol, tcp_flags};

use super::behind::Source;
use super::counters::{ServerCounters, ServiceCounters};
use super::fragments::{FirstFragments, without_ports};
use super::offload::Offloads;
use super::opened::{Handshake, Opened, Phase};
use super::syn_cookies::{CookieKey, MadeUp};
use super::validity::FromClient;
use super::{ForwardingMethod, Service, Services, VirtualAddress};
use crate::driver::Loss;
use crate::offload::KernelUse;
use crate::segment::{destination, is_first_segment, may_be_first, parse};

/// Connections of a network's services together.
const CONNECTIONS_MAX: usize = 1 << 20;

/// Bits of a connection's mark that say which server of the service it has; the service's number is above them.
pub(super) const SERVER_BITS: u32 = 16;

/// Connections whose time has come are cleared away this often, if packets come.
const SWEEP: Span = Span::from_ms(250);

/// So many of each lifetime at once: the worker is not to be kept by it.
const SWEPT: u32 = 512;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It goes on as it is.
    Pass,
    /// What was asked for is written into it, and it goes to this host.
    To(NodeId),
    /// What was asked for is written into it, and it goes where it was going.
    Translated,
    /// It goes nowhere, and its sender hears of it if it is a segment of TCP.
    Refuse,
    /// The same, since no port of the balancer's own is left.
    Exhausted,
    /// It goes nowhere, and its sender hears this.
    Answer(MadeUp),
    /// It goes nowhere; instead a segment goes to this host into which what was asked for is written: its client has shown that it hears answers.
    Connect(NodeId, MadeUp),
    /// It goes nowhere: its server hears the first segment, and its client the second one, into which what was asked for is written.
    Join(MadeUp, MadeUp),
    /// It asks whether somebody is there: the service is.
    Echo,
    /// It goes nowhere.
    Drop,
    /// The same, and this is why.
    Lost(Loss),
}

/// Where a packet that begins a connection has come from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub host: NodeId,
    pub mac: [u8; 6],
    /// Whether the host has the address that it was sent from, or one behind it that it passes on packets of.
    pub is_its_address: bool,
}

/// A service that runs.
#[derive(Debug)]
pub(super) struct Running {
    pub name: String,
    pub machine: balance::Service,
    /// By server: where it is, as long as the network has its host.
    pub hosts: Vec<Option<ServerLocation>>,
    /// By server.
    pub servers: Vec<ServerCounters>,
    pub counters: ServiceCounters,
    /// Connections that are in the table, ended ones among them: what those say of it must not become another service's.
    pub connections: u32,
    /// Those of them that are being opened.
    pub half_open: u32,
    /// The same by server.
    pub half_open_by_server: Vec<u32>,
    /// Whether its packets go through tunnels, but for those of connections whose addresses are translated.
    pub has_tunnels: bool,
    /// Whether a driver carries its connections, and from when on.
    pub kernel: KernelUse,
    /// Packets that it has carried.
    pub offloaded: u64,
    /// Connections that it had no room for.
    pub no_room: u64,
    /// Whether the file has it.
    pub is_there: bool,
}

/// Where a server is.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerLocation {
    pub host: NodeId,
    /// Among the servers of its service in the file, if that has it.
    pub number: Option<usize>,
}

/// The state of all services.
#[derive(Debug, Default)]
pub struct ServiceState {
    pub(super) conntrack: Option<Conntrack>,
    /// By the connection's place.
    pub(super) opened: Vec<Opened>,
    /// What there is, and what there was as long as it has connections.
    pub(super) running: Vec<Running>,
    /// By number of the service: which of those it is.
    pub(super) by_number: Vec<u32>,
    /// By host: whether it may have connections of a service.
    is_server: TiVec<NodeId, bool>,
    /// Of nodes that are interfaces of a host that has several: which host that is.
    pub(super) owners: BTreeMap<NodeId, NodeId>,
    /// Whether some service has had full NAT: then what servers send to services may be answers.
    has_full_nat: bool,
    /// What cookies are made with, and until when there may be good ones.
    pub(super) cookie_key: CookieKey,
    pub(super) cookies_until: Time,
    /// Connections that began with one, and whose servers have not answered yet.
    pub(super) joining: u32,
    /// The host at which this is a balancer; `None`: packets come here where they come in.
    pub(super) at: Option<NodeId>,
    /// Places of connections of which other balancers have not heard, each once; `None`: there are none.
    pub(super) changes: Option<VecDeque<u32>>,
    /// Whether the packet that was processed last has begun a connection of which they are to hear.
    pub(super) has_opened: bool,
    /// When connections are cleared away that have expired.
    sweeps_at: Time,
    /// The service through whose tunnel the packet goes that was processed last.
    pub(super) tunnel: Option<u32>,
    /// Connections that a driver carries.
    pub(super) offloads: Offloads,
    /// What is written into a packet.
    fields: Vec<Field>,
    /// Packets that have come no further than here.
    pub(super) stopped: u64,
    /// Datagrams that come in fragments.
    first_fragments: FirstFragments,
}

impl ServiceState {
    /// Services as they start. `seed` is where hashes and their randomness start.
    ///
    /// # Panics
    /// If a service's specification is wrong: what reads files checks it.
    pub(crate) fn new(now: Time, services: &Services, seed: u64) -> Self {
        if services.is_empty() {
            return Self::default();
        }
        let conntrack = Some(Conntrack::new(seed, CONNECTIONS_MAX).noting_removals());
        let (cookie_key, first_fragments) = (CookieKey::new(seed), FirstFragments::new(seed));
        let mut state = Self { conntrack, cookie_key, first_fragments, ..Self::default() };
        for (number, service) in services.all().iter().enumerate() {
            let seed = machine::mix(seed ^ machine::mix(number as u64));
            let made = balance::Service::new(now, service.spec.clone(), seed).expect("it was checked");
            state.add(made, &service.name);
        }
        state.place_hosts(services);
        state
    }

    /// The same at a host. `has_peers`: others are to hear of its connections.
    pub(super) fn new_at(now: Time, services: &Services, seed: u64, host: NodeId, has_peers: bool) -> Self {
        let mut state = Self::new(now, services, seed);
        state.at = Some(host);
        state.changes = has_peers.then(VecDeque::new);
        state.place_hosts(services);
        state
    }

    /// How many packets have come no further than to services: those were answered here or dropped. Only ever more.
    #[inline]
    pub const fn stopped(&self) -> u64 {
        self.stopped
    }

    /// The place of this balancer among those of a service.
    pub(super) fn place_of(&self, service: &Service) -> usize {
        service.at.iter().position(|host| Some(*host) == self.at).unwrap_or(0)
    }

    fn add(&mut self, machine: balance::Service, name: &str) {
        let new = Running {
            name: name.to_owned(),
            machine,
            hosts: Vec::new(),
            servers: Vec::new(),
            counters: ServiceCounters::default(),
            connections: 0,
            half_open: 0,
            half_open_by_server: Vec::new(),
            has_tunnels: false,
            kernel: KernelUse::No,
            offloaded: 0,
            no_room: 0,
            is_there: true,
        };
        // One that no file has, nor any connection, makes room.
        let is_over = |running: &Running| !running.is_there && running.connections == 0;
        if let Some(at) = self.running.iter().position(is_over) {
            self.running[at] = new;
            self.by_number.push(at as u32);
        } else {
            self.by_number.push(self.running.len() as u32);
            self.running.push(new);
        }
    }

    /// Where servers are now. Those that no file has any more keep what connections they have.
    fn place_hosts(&mut self, services: &Services) {
        for place in self.running.iter_mut().flat_map(|running| &mut running.hosts).flatten() {
            place.number = None;
        }
        for (service, at) in services.all().iter().zip(&self.by_number) {
            let is_its = self.at.map_or(service.at.is_empty(), |host| service.at.contains(&host));
            if !is_its {
                continue;
            }
            let running = &mut self.running[*at as usize];
            running.has_tunnels = service.forwarding == ForwardingMethod::Tunnel;
            running.kernel = if service.offload_refusal().is_none() { service.kernel } else { KernelUse::No };
            for (number, (server, spec)) in service.servers.iter().zip(&service.spec.servers).enumerate() {
                let Some(id) = running.machine.server(&spec.name) else { continue };
                let count = running.hosts.len().max(id.index() + 1);
                running.hosts.resize(count, None);
                running.servers.resize(count, ServerCounters::default());
                running.hosts[id.index()] = Some(ServerLocation { host: server.host, number: Some(number) });
            }
        }
        self.has_full_nat |= services.all().iter().any(|service| service.forwarding == ForwardingMethod::FullNat);
        let mut servers: BTreeSet<NodeId> =
            self.running.iter().flat_map(|running| &running.hosts).flatten().map(|at| at.host).collect();
        self.owners.clear();
        for own in &services.interfaces {
            self.owners.extend(own.iter().map(|host| (*host, own[0])));
            let has_one = own.iter().any(|host| servers.contains(host));
            servers.extend(own.iter().filter(|_| has_one));
        }
        self.is_server.raw.clear();
        self.is_server.raw.resize(servers.last().map_or(0, |last| usize::from(*last) + 1), false);
        for host in servers {
            self.is_server[host] = true;
        }
    }

    /// Services have changed: connections stay, and so does what is known of servers that stay.
    pub(crate) fn take_over(
        &mut self,
        now: Time,
        old: &mut Self,
        (services, nodes): (&Services, &TiVec<NodeId, Option<NodeId>>),
    ) {
        if old.conntrack.is_none() {
            return;
        }
        let made = std::mem::take(self);
        std::mem::swap(self, old);
        self.at = made.at;
        self.changes = made.changes.map(|none| self.changes.take().unwrap_or(none));
        if self.changes.is_none() {
            self.opened.iter_mut().for_each(|opened| opened.shared.is_changed = false);
        }
        for running in &mut self.running {
            running.is_there = services.all().iter().any(|service| service.name == running.name);
            for at in &mut running.hosts {
                *at = at.and_then(|place| Some(ServerLocation { host: nodes[place.host]?, ..place }));
            }
        }
        for opened in &mut self.opened {
            opened.client = opened.client.and_then(|client| nodes[client]);
        }
        self.by_number.clear();
        for (service, new) in services.all().iter().zip(made.running) {
            let known = self.running.iter().position(|running| running.name == service.name);
            if let Some(at) = known {
                self.running[at].machine.apply(now, service.spec.clone()).expect("it was checked");
                self.by_number.push(at as u32);
            } else {
                self.add(new.machine, &service.name);
            }
        }
        self.place_hosts(services);
    }

    /// A packet for the virtual address of a service has come from a client. What is to be written into it is added to `fields`.
    pub(super) fn process_from_client(
        &mut self,
        now: Time,
        (services, (host_table, from)): (&Services, (&HostTable, NodeId)),
        packet: &FromClient<'_>,
        fields: &mut Vec<Field>,
    ) -> Decision {
        let FromClient { headers, bytes, fault } = *packet;
        self.sweep(now);
        let Some((segment, is_later)) = self.segment(now, headers) else {
            // It does not say of which connection it is, but whose address it goes to.
            let number = destination(headers).and_then(|(is_ipv6, address)| services.with_address(is_ipv6, address));
            if let Some(own) = number.and_then(|number| self.by_number.get(number)) {
                self.running[*own as usize].counters.fragments += 1;
            }
            return Decision::Drop;
        };
        let tuple = segment.tuple;
        let at_address = services.with_address(tuple.is_ipv6, tuple.dst);
        let own = at_address.and_then(|number| self.by_number.get(number).copied());
        // They end a connection. All else of one is for its server to look at.
        if segment.tcp_flags & (tcp_flags::RST | tcp_flags::FIN) != 0
            && let Some(loss) = fault()
        {
            return Decision::Lost(loss);
        }
        if self.joining > 0
            && let Some(decision) = self.connect_again(now, &segment, fields)
        {
            return decision;
        }
        let tracked = self.track_of(now, &segment, from);
        if tracked.is_kept
            && let Some(decision) = self.follow(now, (&segment, &tracked), packet, fields)
        {
            if is_later {
                without_ports(fields);
            }
            return decision;
        }
        // Nobody's address any more.
        let Some(own) = own else { return Decision::Drop };
        if is_later {
            // What its first one has begun is no more, or it has begun nothing.
            self.running[own as usize].counters.fragments += 1;
            return Decision::Drop;
        }
        if tracked.place.is_some() && !tracked.is_kept {
            self.running[own as usize].counters.invalid += 1;
            return Decision::Drop;
        }
        if let Some(loss) = fault() {
            return Decision::Lost(loss);
        }
        if tuple.is_icmp() && segment.quoted.is_none() {
            return if tracked.state & ct_state::NEW != 0 { Decision::Echo } else { Decision::Drop };
        }
        let wanted = VirtualAddress {
            is_ipv6: tuple.is_ipv6,
            address: tuple.dst,
            protocol: tuple.protocol,
            port: tuple.dst_port,
        };
        let Some(number) = services.at(&wanted).filter(|_| segment.quoted.is_none()) else {
            self.running[own as usize].counters.unserved += 1;
            return Decision::Refuse;
        };
        let mac = headers.get(6..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        let source = services.source_of(host_table, (from, number), &tuple);
        // Whoever sends from another one's address would get what that one is answered. Of a balancer's own host nobody knows who has sent it.
        if source == Source::Another && self.at != Some(from) {
            return Decision::Lost(Loss::Martian);
        }
        let client = Origin { host: from, mac, is_its_address: source == Source::Sender };
        if tuple.protocol == protocol::TCP {
            let frame = (headers, bytes);
            return self.open_tcp(now, services, (number, &segment, client), frame, fields);
        }
        self.open(now, services, (number, &segment, client), bytes, fields)
    }

    /// A packet of a connection that is known has come from its client. `None`: its connection is no more, and it begins another one.
    fn follow(
        &mut self,
        now: Time,
        (segment, tracked): (&Segment, &Tracked),
        packet: &FromClient<'_>,
        fields: &mut Vec<Field>,
    ) -> Option<Decision> {
        let (running, server) = of_mark(tracked.mark);
        if let Some(place) = tracked.place {
            let Opened { server, is_from_host, .. } = self.opened[place as usize];
            let machine = &mut self.running[running].machine;
            let is_first = tracked.tcp == Some(TcpState::SynSent) && segment.tcp_flags & tcp_flags::SYN != 0;
            if is_first && let Some(loss) = (packet.fault)() {
                return Some(Decision::Lost(loss));
            }
            if is_first && is_from_host {
                machine.handshake(now, server, true);
            }
            // As one does behind an end that may have been made up.
            let has_ended = matches!(tracked.tcp, Some(TcpState::LastAck | TcpState::TimeWait | TcpState::Close));
            let begins_again = has_ended && is_first_segment(segment.tcp_flags);
            let moves = match tracked.tcp {
                // Nobody has answered yet: whoever is there may.
                Some(_) => is_first && !machine.is_candidate(server) || begins_again && machine.is_dead(server),
                None => machine.is_dead(server),
            };
            if moves {
                self.running[running].counters.moved += 1;
                self.conntrack.as_mut()?.remove_at(place);
                self.note_removed(now);
                return None;
            }
            let asks = tracked.tcp.is_none() || segment.tcp_flags & tcp_flags::PSH != 0;
            let opened = &mut self.opened[place as usize];
            if asks && !opened.waits {
                (opened.waits, opened.asked_at) = (true, now);
                self.running[running].machine.asked(now, opened.server);
            }
            self.note_end(now, place, tracked.tcp, None);
            self.note_stage(place, tracked);
            self.consider_offload(now, place, tracked, (false, asks));
        }
        let running = &mut self.running[running];
        if let Some(counters) = running.servers.get_mut(server) {
            counters.in_packets += 1;
            counters.in_bytes += u64::from(packet.bytes);
        }
        let Some(ServerLocation { host, .. }) = running.hosts.get(server).copied().flatten() else {
            return Some(Decision::Drop);
        };
        translate(segment, tracked, |field| fields.push(field));
        self.note_tunnel(of_mark(tracked.mark).0, fields);
        if let Some(place) = tracked.place {
            self.write_acknowledgement(place, segment, fields);
        }
        Some(Decision::To(host))
    }

    /// A packet comes from a server at this host.
    pub(super) fn process_from_server(
        &mut self,
        now: Time,
        from: NodeId,
        (headers, bytes): (&[u8], u32),
        fields: &mut Vec<Field>,
    ) -> Decision {
        let Some((segment, is_later)) = self.segment(now, headers) else { return Decision::Pass };
        let tracked = self.track_of(now, &segment, from);
        if !tracked.is_kept {
            // Of a connection that it does not belong to it must not go on untranslated.
            return if tracked.place.is_some() { Decision::Drop } else { Decision::Pass };
        }
        let is_reply = tracked.state & ct_state::REPLY != 0 || segment.quoted.is_some();
        let (running, server) = of_mark(tracked.mark);
        if let Some(counters) = self.running[running].servers.get_mut(server).filter(|_| is_reply) {
            counters.out_packets += 1;
            counters.out_bytes += u64::from(bytes);
        }
        if let Some(place) = tracked.place.filter(|_| is_reply) {
            let opened = &mut self.opened[place as usize];
            let says = tracked.tcp.is_none() || segment.tcp_flags & (tcp_flags::PSH | tcp_flags::FIN) != 0;
            let accepts = opened.waits && tracked.tcp == Some(TcpState::SynReceived);
            let handshake = accepts.then(|| now.since(opened.asked_at));
            self.running[running].machine.heard(now, opened.server, handshake);
            if accepts {
                // It has accepted. What the client will ask is not waited for before it has asked.
                opened.waits = false;
                self.running[running].machine.withdrawn(opened.server);
            } else if says && opened.waits {
                (opened.waits, opened.is_answered) = (false, true);
                let (server, latency) = (opened.server, now.since(opened.asked_at));
                self.running[running].machine.answered(now, server, latency);
            }
            self.note_end(now, place, tracked.tcp, Some(segment.tcp_flags));
            self.note_stage(place, &tracked);
            self.consider_offload(now, place, &tracked, (true, says));
        }
        let before = fields.len();
        translate(&segment, &tracked, |field| fields.push(field));
        if let Some(place) = tracked.place.filter(|_| is_reply)
            && let Some(decision) = self.join(now, place, (&segment, &tracked), fields)
        {
            return decision;
        }
        if is_later {
            without_ports(fields);
        }
        if fields.len() > before { Decision::Translated } else { Decision::Pass }
    }

    /// What a packet is to connection tracking, and whether it is a fragment without ports. `None`: nobody knows of which connection it is.
    #[inline]
    pub(super) fn segment(&mut self, now: Time, headers: &[u8]) -> Option<(Segment, bool)> {
        parse(headers).map(|segment| (segment, false)).or_else(|| self.first_fragments.segment(now, headers))
    }

    pub(super) fn track(&mut self, now: Time, segment: &Segment, request: Request) -> Tracked {
        let Some(conntrack) = &mut self.conntrack else { return Tracked::default() };
        let tracked = conntrack.process(now, segment, &request);
        self.note_removed(now);
        tracked
    }

    /// What a packet is that is to be tracked later; `None`: it is of no connection.
    pub(super) fn revisit(&mut self, now: Time, segment: &Segment, request: Request) -> Option<Tracked> {
        let tracked = self.conntrack.as_mut()?.revisit(now, segment, &request);
        self.note_removed(now);
        tracked
    }

    /// Schedulers hear of connections that are no more. The one that was kept just now is not among them: it has not been noted yet.
    pub(super) fn note_removed(&mut self, now: Time) {
        let Some(conntrack) = &mut self.conntrack else { return };
        for place in conntrack.take_removed() {
            let Some(opened) = self.opened.get_mut(place as usize) else { continue };
            self.offloads.withdraw(place, &mut opened.offloading);
            let running = &mut self.running[opened.running as usize];
            running.connections -= 1;
            match std::mem::replace(&mut opened.handshake, Handshake::Done) {
                Handshake::HalfOpen => running.end_half_open(opened.server),
                Handshake::Proxied(proxied) => self.joining -= u32::from(proxied.offset.is_none()),
                Handshake::Done => {}
            }
            // A client that asks nothing, or nothing more, says nothing of its server.
            let outcome = match opened.phase {
                Phase::Closed => continue,
                Phase::Idle => Outcome::Completed,
                Phase::Active if opened.waits && opened.is_from_host => Outcome::TimedOut,
                Phase::Active => Outcome::Expired,
            };
            let machine = &mut self.running[opened.running as usize].machine;
            machine.close(now, opened.server, opened.phase == Phase::Idle, outcome);
            opened.phase = Phase::Closed;
        }
    }

    /// A packet may have ended a connection; `of_server`: the flags of one that came from its server.
    fn note_end(&mut self, now: Time, place: u32, tcp: Option<TcpState>, of_server: Option<u8>) {
        let opened = &mut self.opened[place as usize];
        // A reset that acknowledges nothing is what a server answers with that was sent a wrong number (RFC 9293, 3.10.7): a client may do that, to have it held for dead.
        let is_fault = of_server.is_some_and(|flags| flags & tcp_flags::ACK != 0) && opened.is_from_host;
        let machine = &mut self.running[opened.running as usize].machine;
        // A server that has sent its last byte has done its work, however long its client keeps the connection.
        let is_done = match tcp {
            Some(TcpState::LastAck | TcpState::TimeWait) => true,
            Some(TcpState::FinWait | TcpState::CloseWait) => of_server.is_some_and(|flags| flags & tcp_flags::FIN != 0),
            _ => false,
        };
        match (opened.phase, tcp) {
            (Phase::Active, _) if is_done => {
                opened.phase = Phase::Idle;
                machine.idle(now, opened.server);
            }
            (Phase::Active | Phase::Idle, Some(TcpState::Close)) => {
                let outcome = match (is_fault && opened.phase == Phase::Active, opened.is_answered) {
                    (true, false) => Outcome::Refused,
                    (true, true) if opened.waits => Outcome::Reset,
                    // Whoever has had his answer may be sent away so.
                    (true, true) | (false, _) => Outcome::Completed,
                };
                machine.close(now, opened.server, opened.phase == Phase::Idle, outcome);
                opened.phase = Phase::Closed;
            }
            // Its reset was made up, or its server has agreed to another one.
            (Phase::Closed, Some(TcpState::Established))
            | (Phase::Idle | Phase::Closed, Some(TcpState::SynReceived)) => {
                if opened.phase == Phase::Idle {
                    machine.close(now, opened.server, true, Outcome::Completed);
                }
                machine.adopt(now, opened.server);
                (opened.phase, opened.waits) = (Phase::Active, false);
                self.note_reopened(place);
            }
            _ => {}
        }
    }

    /// Whether a host may have connections of a service.
    #[inline]
    pub(crate) fn is_server(&self, host: NodeId) -> bool {
        self.is_server.get(host).copied().unwrap_or(false)
    }

    /// Whether what a host sends to a service may be an answer to a connection that it sees come from there.
    #[inline]
    pub(super) fn may_answer(&self, host: NodeId) -> bool {
        self.has_full_nat && self.is_server(host)
    }

    /// Room for what is written into a packet.
    pub(super) fn take_fields(&mut self) -> Vec<Field> {
        std::mem::take(&mut self.fields)
    }

    /// The same is empty again.
    pub(super) fn keep_fields(&mut self, mut fields: Vec<Field>) {
        fields.clear();
        self.fields = fields;
    }

    /// Forgets connections whose time has come.
    pub fn clear_expired(&mut self, now: Time) {
        if let Some(conntrack) = &mut self.conntrack {
            conntrack.clear_expired(now, SWEPT);
            self.note_removed(now);
        }
    }

    /// The same, now and then.
    #[inline]
    fn sweep(&mut self, now: Time) {
        if now >= self.sweeps_at {
            self.sweeps_at = now + SWEEP;
            self.clear_expired(now);
        }
    }

    /// A packet goes to a server itself. If it begins a connection, one of a service between the same two ends that has ended is forgotten: answers are not its.
    pub(super) fn note_direct(&mut self, now: Time, headers: &[u8]) {
        // Most packets begin nothing, and that is seen at once.
        if !may_be_first(headers) {
            return;
        }
        let Some(segment) = parse(headers).filter(|segment| is_first_segment(segment.tcp_flags)) else { return };
        if let (Some(conntrack), Some(answers)) = (&mut self.conntrack, segment.tuple.reversed()) {
            conntrack.clear_ended(now, 0, &answers);
            self.note_removed(now);
        }
    }

    /// The machine of a service, by its name.
    pub fn machine(&mut self, name: &str) -> Option<&mut balance::Service> {
        let running = self.running.iter_mut().find(|running| running.is_there && running.name == name)?;
        Some(&mut running.machine)
    }

    /// How many connections of a service are in the table, by its number in the file.
    pub(super) fn connections_of(&self, number: usize) -> u64 {
        self.by_number.get(number).map_or(0, |at| self.running[*at as usize].connections.into())
    }

    /// Connections of all services.
    pub const fn conntrack(&self) -> Option<&Conntrack> {
        self.conntrack.as_ref()
    }
}

/// What is asked of connection tracking about packets of which not all may belong to a service.
pub(super) const EXISTING: Request =
    Request { zone: 0, commit: false, force: false, mark: None, translate: Translate::Existing };

/// The service and the server of a connection, by their places.
pub(super) const fn of_mark(mark: u32) -> (usize, usize) {
    ((mark >> SERVER_BITS) as usize, (mark & ((1 << SERVER_BITS) - 1)) as usize)
}

impl Rebase for ServiceState {
    fn rebase(&mut self, by: Span) {
        let Self {
            conntrack,
            opened,
            running,
            by_number: _,
            is_server: _,
            owners: _,
            has_full_nat: _,
            cookie_key: _,
            cookies_until,
            joining: _,
            at: _,
            changes: _,
            has_opened: _,
            sweeps_at,
            tunnel: _,
            offloads: _,
            fields: _,
            stopped: _,
            first_fragments,
        } = self;
        first_fragments.rebase(by);
        sweeps_at.rebase(by);
        cookies_until.rebase(by);
        conntrack.rebase(by);
        opened.rebase(by);
        for running in running {
            running.machine.rebase(by);
        }
    }
}
