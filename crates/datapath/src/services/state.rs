//! Connections to services: which there are, and what schedulers hear of them. Bytes and the time go in; what is to be written, and where it goes, comes out.

use std::net::IpAddr;

use balance::{Client, Denied, Outcome, ServerId};
use machine::{Rebase, Span, Time};
use topology::{NodeId, TiVec};
use vswitch::conntrack::{
    Conntrack, NatRange, Refusal, Request, Segment, TcpState, Tracked, Translate, TranslatedEnd, Tuple, ct_state,
};
use vswitch::{Field, HostTable, translate};
use wire::{EthernetPacket, ethertype, protocol, tcp_flags};

use super::counters::{ServerCounters, ServiceCounters};
use super::{ForwardingMethod, Services, VirtualAddress};

/// Connections of a network's services together.
const CONNECTIONS_MAX: usize = 1 << 20;

/// Bits of a connection's mark that say which server of the service it has; the service's number is above them.
const SERVER_BITS: u32 = 16;

/// Ports of clients at which servers see them whose own port is another connection's.
const OTHER_PORTS: (u16, u16) = (32_768, u16::MAX);

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
    /// It asks whether somebody is there: the service is.
    Echo,
    /// It goes nowhere.
    Drop,
}

/// A connection, as schedulers see it.
#[derive(Clone, Copy, Debug)]
struct Opened {
    running: u32,
    server: ServerId,
    /// When its client asked last.
    asked_at: Time,
    /// An answer is waited for.
    waits: bool,
    /// The server has answered at all.
    is_answered: bool,
    /// Whether its silence says anything of its server: whoever makes up addresses makes connections that nobody can answer.
    is_from_host: bool,
    phase: Phase,
}

/// How a connection counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It is a load.
    Active,
    /// Both sides have said all.
    Idle,
    /// It has ended: its place is kept for what still comes of it, or for another one.
    Closed,
}

/// A service that runs.
#[derive(Debug)]
struct Running {
    name: String,
    machine: balance::Service,
    /// By server: where it is, as long as the network has its host.
    hosts: Vec<Option<ServerLocation>>,
    /// By server.
    servers: Vec<ServerCounters>,
    counters: ServiceCounters,
    /// Connections that are in the table, ended ones among them: what those say of it must not become another service's.
    connections: u32,
    /// Whether the file has it.
    is_there: bool,
}

/// Where a server is.
#[derive(Clone, Copy, Debug)]
struct ServerLocation {
    host: NodeId,
    /// Among the servers of its service in the file, if that has it.
    number: Option<usize>,
}

/// The state of all services.
#[derive(Debug, Default)]
pub struct ServiceState {
    conntrack: Option<Conntrack>,
    /// By the connection's place.
    opened: Vec<Opened>,
    /// What there is, and what there was as long as it has connections.
    running: Vec<Running>,
    /// By number of the service: which of those it is.
    by_number: Vec<u32>,
    /// By host: whether it may have connections of a service.
    is_server: TiVec<NodeId, bool>,
    /// When connections are cleared away that have expired.
    sweeps_at: Time,
    /// What is written into a packet.
    fields: Vec<Field>,
}

/// A service as it stands.
#[derive(Debug)]
pub struct ServiceView<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it has counted.
    pub counters: ServiceCounters,
    /// Who gets the next connection.
    pub machine: &'a balance::Service,
    /// By server: its host, and what has passed.
    pub servers: Vec<(Option<NodeId>, ServerCounters)>,
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
        let mut state =
            Self { conntrack: Some(Conntrack::new(seed, CONNECTIONS_MAX).noting_removals()), ..Self::default() };
        for (number, service) in services.all().iter().enumerate() {
            let seed = machine::mix(seed ^ machine::mix(number as u64));
            let made = balance::Service::new(now, service.spec.clone(), seed).expect("it was checked");
            state.add(made, &service.name);
        }
        state.place_hosts(services);
        state
    }

    fn add(&mut self, machine: balance::Service, name: &str) {
        let new = Running {
            name: name.to_owned(),
            machine,
            hosts: Vec::new(),
            servers: Vec::new(),
            counters: ServiceCounters::default(),
            connections: 0,
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
            let running = &mut self.running[*at as usize];
            for (number, (server, spec)) in service.servers.iter().zip(&service.spec.servers).enumerate() {
                let Some(id) = running.machine.server(&spec.name) else { continue };
                let count = running.hosts.len().max(id.index() + 1);
                running.hosts.resize(count, None);
                running.servers.resize(count, ServerCounters::default());
                running.hosts[id.index()] = Some(ServerLocation { host: server.host, number: Some(number) });
            }
        }
        self.is_server.raw.clear();
        for ServerLocation { host, .. } in self.running.iter().flat_map(|running| &running.hosts).flatten() {
            let count = self.is_server.len().max(usize::from(*host) + 1);
            self.is_server.raw.resize(count, false);
            self.is_server[*host] = true;
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
        for running in &mut self.running {
            running.is_there = services.all().iter().any(|service| service.name == running.name);
            for at in &mut running.hosts {
                *at = at.and_then(|place| Some(ServerLocation { host: nodes[place.host]?, ..place }));
            }
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
        (headers, bytes): (&[u8], u32),
        fields: &mut Vec<Field>,
    ) -> Decision {
        self.sweep(now);
        let Some(segment) = parse(headers) else {
            // It does not say whose it is.
            if let Some(own) = self.by_number.first() {
                self.running[*own as usize].counters.fragments += 1;
            }
            return Decision::Drop;
        };
        let tuple = segment.tuple;
        let at_address = services.with_address(tuple.is_ipv6, tuple.dst);
        let own = at_address.and_then(|number| self.by_number.get(number).copied());
        let tracked = self.track(now, &segment, EXISTING);
        if tracked.is_kept
            && let Some(decision) = self.follow(now, (&segment, &tracked), bytes, fields)
        {
            return decision;
        }
        // Nobody's address any more.
        let Some(own) = own else { return Decision::Drop };
        if tracked.place.is_some() && !tracked.is_kept {
            self.running[own as usize].counters.invalid += 1;
            return Decision::Drop;
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
        let own = self.by_number[number];
        let is_tcp = tuple.protocol == protocol::TCP;
        if is_tcp && !is_first_segment(segment.tcp_flags) {
            self.running[own as usize].counters.invalid += 1;
            return Decision::Refuse;
        }
        let owner = match tuple.address(tuple.src) {
            IpAddr::V4(address) => host_table.by_ipv4(address),
            IpAddr::V6(address) => host_table.by_ipv6(address),
        };
        self.open(now, services, (number, &segment, (from, owner == Some(from))), bytes, fields)
    }

    /// A packet of a connection that is known has come from its client. `None`: its connection is no more, and it begins another one.
    fn follow(
        &mut self,
        now: Time,
        (segment, tracked): (&Segment, &Tracked),
        bytes: u32,
        fields: &mut Vec<Field>,
    ) -> Option<Decision> {
        let (running, server) = of_mark(tracked.mark);
        if let Some(place) = tracked.place {
            let (machine, server) = (&self.running[running].machine, self.opened[place as usize].server);
            let is_first = tracked.tcp == Some(TcpState::SynSent) && segment.tcp_flags & tcp_flags::SYN != 0;
            let moves = match tracked.tcp {
                // Nobody has answered yet: whoever is there may.
                Some(_) => is_first && !machine.is_candidate(server),
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
            self.note_end(now, place, tracked.tcp, false);
        }
        let running = &mut self.running[running];
        if let Some(counters) = running.servers.get_mut(server) {
            counters.in_packets += 1;
            counters.in_bytes += u64::from(bytes);
        }
        let Some(ServerLocation { host, .. }) = running.hosts.get(server).copied().flatten() else {
            return Some(Decision::Drop);
        };
        translate(segment, tracked, |field| fields.push(field));
        Some(Decision::To(host))
    }

    /// A packet begins a connection.
    fn open(
        &mut self,
        now: Time,
        services: &Services,
        (number, segment, (from, is_from_host)): (usize, &Segment, (NodeId, bool)),
        bytes: u32,
        fields: &mut Vec<Field>,
    ) -> Decision {
        let tuple = segment.tuple;
        let (service, own) = (&services.all[number], self.by_number[number] as usize);
        let running = &mut self.running[own];
        let client = Client { address: tuple.src, port: tuple.src_port };
        let server = match running.machine.open(now, &client) {
            Ok(server) => server,
            // Nobody hears from a firewall.
            Err(balance::Refusal::Denied(why)) => {
                match why {
                    Denied::Address => running.counters.denied += 1,
                    Denied::Country => running.counters.denied_country += 1,
                }
                return Decision::Drop;
            }
            Err(balance::Refusal::NoServer | balance::Refusal::Full | balance::Refusal::ClientLimit) => {
                running.counters.refused += 1;
                return Decision::Refuse;
            }
        };
        let place = running.hosts.get(server.index()).copied().flatten();
        let location = place.and_then(|place| Some((place.host, place.number?)));
        // A server would talk to itself, with its own address at both ends.
        let Some((host, of_file)) = location.filter(|(host, _)| *host != from) else {
            running.machine.close(now, server, false, Outcome::Expired);
            running.counters.refused += 1;
            return Decision::Refuse;
        };
        let translated = match service.forwarding {
            ForwardingMethod::Nat => {
                let address = services.server_addresses[number][of_file][usize::from(tuple.is_ipv6)];
                let port = service.servers[of_file].port.unwrap_or(tuple.dst_port);
                let (addresses, ports) = ((address, address), Some((port, port)));
                let end = TranslatedEnd::Destination;
                Translate::New(NatRange { end, is_ipv6: tuple.is_ipv6, addresses, ports })
            }
            ForwardingMethod::DirectRouting => Translate::No,
        };
        let mark = Some(((own as u32) << SERVER_BITS | server.index() as u32, u32::MAX));
        let request = Request { zone: 0, commit: true, force: false, mark, translate: translated };
        let mut tracked = self.track(now, segment, request);
        if tracked.place.is_none()
            && let (Translate::New(range), Some(conntrack)) = (translated, &mut self.conntrack)
        {
            // Two services, or two ports of one, may share a server: what has ended makes room.
            let answers = Tuple {
                dst: range.addresses.0,
                dst_port: range.ports.map_or(tuple.dst_port, |ports| ports.0),
                ..tuple
            };
            if let Some(answers) = answers.reversed() {
                conntrack.clear_ended(now, 0, &answers);
                self.note_removed(now);
                tracked = self.track(now, segment, request);
            }
            if tracked.refusal == Some(Refusal::NoTuple) {
                // It has not ended: the server sees the client at another port.
                let source = NatRange {
                    end: TranslatedEnd::Source,
                    is_ipv6: tuple.is_ipv6,
                    addresses: (tuple.src, tuple.src),
                    ports: Some(OTHER_PORTS),
                };
                let translate = Translate::Both { source, destination: range };
                tracked = self.track(now, segment, Request { translate, ..request });
            }
        }
        let running = &mut self.running[own];
        let Some(place) = tracked.place else {
            running.machine.close(now, server, false, Outcome::Expired);
            running.counters.full += 1;
            return Decision::Refuse;
        };
        let opened = Opened {
            running: own as u32,
            server,
            asked_at: now,
            waits: true,
            is_answered: false,
            is_from_host,
            phase: Phase::Active,
        };
        running.connections += 1;
        let counters = &mut running.servers[server.index()];
        counters.in_packets += 1;
        counters.in_bytes += u64::from(bytes);
        if self.opened.len() <= place as usize {
            self.opened.resize(place as usize + 1, Opened { phase: Phase::Closed, ..opened });
        }
        self.opened[place as usize] = opened;
        translate(segment, &tracked, |field| fields.push(field));
        Decision::To(host)
    }

    /// A packet comes from a server.
    pub(super) fn process_from_server(
        &mut self,
        now: Time,
        (headers, bytes): (&[u8], u32),
        fields: &mut Vec<Field>,
    ) -> Decision {
        let Some(segment) = parse(headers) else { return Decision::Pass };
        let tracked = self.track(now, &segment, EXISTING);
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
            if opened.waits && tracked.tcp == Some(TcpState::SynReceived) {
                // It has accepted. What the client will ask is not waited for before it has asked.
                opened.waits = false;
                self.running[running].machine.withdrawn(opened.server);
            } else if says && opened.waits {
                (opened.waits, opened.is_answered) = (false, true);
                let (server, latency) = (opened.server, now.since(opened.asked_at));
                self.running[running].machine.answered(now, server, latency);
            }
            self.note_end(now, place, tracked.tcp, true);
        }
        let before = fields.len();
        translate(&segment, &tracked, |field| fields.push(field));
        if fields.len() > before { Decision::Translated } else { Decision::Pass }
    }

    fn track(&mut self, now: Time, segment: &Segment, request: Request) -> Tracked {
        let Some(conntrack) = &mut self.conntrack else { return Tracked::default() };
        let tracked = conntrack.process(now, segment, &request);
        self.note_removed(now);
        tracked
    }

    /// Schedulers hear of connections that are no more. The one that was kept just now is not among them: it has not been noted yet.
    fn note_removed(&mut self, now: Time) {
        let Some(conntrack) = &mut self.conntrack else { return };
        for place in conntrack.take_removed() {
            let Some(opened) = self.opened.get_mut(place as usize) else { continue };
            self.running[opened.running as usize].connections -= 1;
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

    /// A packet may have ended a connection.
    fn note_end(&mut self, now: Time, place: u32, tcp: Option<TcpState>, is_from_server: bool) {
        let opened = &mut self.opened[place as usize];
        let machine = &mut self.running[opened.running as usize].machine;
        match (opened.phase, tcp) {
            (Phase::Active, Some(TcpState::LastAck | TcpState::TimeWait)) => {
                opened.phase = Phase::Idle;
                machine.idle(now, opened.server);
            }
            (Phase::Active | Phase::Idle, Some(TcpState::Close)) => {
                let outcome = match (is_from_server && opened.phase == Phase::Active, opened.is_answered) {
                    (true, false) => Outcome::Refused,
                    (true, true) if opened.waits => Outcome::Reset,
                    // Whoever has had his answer may be sent away so.
                    (true, true) | (false, _) => Outcome::Completed,
                };
                machine.close(now, opened.server, opened.phase == Phase::Idle, outcome);
                opened.phase = Phase::Closed;
            }
            _ => {}
        }
    }

    /// Whether a host may have connections of a service.
    #[inline]
    pub(super) fn is_server(&self, host: NodeId) -> bool {
        self.is_server.get(host).copied().unwrap_or(false)
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

    /// So many connections at most: a test need not make a million.
    #[cfg(test)]
    pub(super) fn bound(&mut self, connections: usize) {
        self.conntrack = Some(Conntrack::new(7, connections).noting_removals());
    }

    /// The machine of a service, by its name.
    pub fn machine(&mut self, name: &str) -> Option<&mut balance::Service> {
        let running = self.running.iter_mut().find(|running| running.is_there && running.name == name)?;
        Some(&mut running.machine)
    }

    /// Connections of all services.
    pub const fn conntrack(&self) -> Option<&Conntrack> {
        self.conntrack.as_ref()
    }

    /// How each service of the file stands, in its order.
    pub fn views(&self) -> impl Iterator<Item = ServiceView<'_>> {
        self.by_number.iter().map(|at| {
            let running = &self.running[*at as usize];
            ServiceView {
                name: &running.name,
                counters: running.counters,
                machine: &running.machine,
                servers: running
                    .hosts
                    .iter()
                    .map(|at| at.map(|at| at.host))
                    .zip(running.servers.iter().copied())
                    .collect(),
            }
        })
    }
}

/// What is asked of connection tracking about packets of which not all may belong to a service.
const EXISTING: Request = Request { zone: 0, commit: false, force: false, mark: None, translate: Translate::Existing };

/// The service and the server of a connection, by their places.
const fn of_mark(mark: u32) -> (usize, usize) {
    ((mark >> SERVER_BITS) as usize, (mark & ((1 << SERVER_BITS) - 1)) as usize)
}

/// Whether a segment with these flags begins a connection, with or without an offer of ECN (RFC 3168, 6.1.1).
const fn is_first_segment(flags: u8) -> bool {
    flags & (tcp_flags::SYN | tcp_flags::ACK | tcp_flags::RST | tcp_flags::FIN) == tcp_flags::SYN
}

/// Whether a frame may have such a segment in it, by a look at where its flags stand if it has neither tags nor extension headers: false if they stand there and say otherwise.
fn may_be_first(frame: &[u8]) -> bool {
    const IP_AT: usize = 14;
    let Some(start) = frame.first_chunk::<{ IP_AT + 20 }>() else { return true };
    let (flags_at, protocol) = match u16::from_be_bytes([start[12], start[13]]) {
        ethertype::IPV4 if start[IP_AT + 9] != protocol::TCP => return false,
        ethertype::IPV4 => (IP_AT + usize::from(start[IP_AT] & 0xf) * 4 + 13, protocol::TCP),
        ethertype::IPV6 => (IP_AT + 40 + 13, start[IP_AT + 6]),
        _ => return true,
    };
    protocol != protocol::TCP || frame.get(flags_at).is_some_and(|flags| is_first_segment(*flags))
}

fn parse(headers: &[u8]) -> Option<Segment> {
    let ethernet = EthernetPacket::new_checked(headers).ok()?;
    match ethernet.ethertype() {
        ethertype::IPV4 => Segment::parse(false, ethernet.payload()),
        ethertype::IPV6 => Segment::parse(true, ethernet.payload()),
        _ => None,
    }
}

impl Rebase for ServiceState {
    fn rebase(&mut self, by: Span) {
        let Self { conntrack, opened, running, by_number: _, is_server: _, sweeps_at, fields: _ } = self;
        sweeps_at.rebase(by);
        if let Some(conntrack) = conntrack {
            conntrack.rebase(by);
        }
        for opened in opened {
            opened.asked_at.rebase(by);
        }
        for running in running {
            running.machine.rebase(by);
        }
    }
}
