//! Requests to a service: its clients, its servers, and the connections between them, as one machine. Frames and the time go in; frames come out, and what
//! agents report.
//!
//! ```text
//!   Generator -- Start --> connection (TCP, two directions) == frames ==> the graph: datapath::services gives it to a server
//!       ^                                                                                    |
//!       +-- Finished -- answer <== frames == connection <-- answers -- workload::service::Server (waits, works, fails)
//! ```
//!
//! What always holds: a place in `connections` has one connection at a time, by its generation, and what is under way of the one before is dropped. Whatever is
//! asked ends, by the load's timeout at the latest.

mod connection;
mod frame;
mod outcome;
mod tcp;

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use balance::LoadReport;
use datapath::Service;
use fabric::{Fabric, RequestLoad, client_seed, server_seed, socket_address};
use machine::{Calendar, Control as _, Span, Step, Time};
use topology::{HostAddress, NodeId};
use transport::{TransportSpec, sender};
use vswitch::{Forwarding, HostTable};
use wire::tcp_flags::{ACK, FIN, RST};
use workload::service::{Action, Failure, Finished, Generator, Outcome, Server, Start, Target};

use crate::carried::{Carried, Direction};
use connection::{Connection, Phase};
use frame::Endpoint;
pub(crate) use frame::Frame;
pub use outcome::{LatencyOutcome, RequestOutcome};

/// The first port that Linux gives to clients, and how many there are.
const FIRST_PORT: u16 = 32_768;
const PORTS: u32 = 28_232;
/// A FIN that nobody has acknowledged is sent again after this time, twice as long each time.
const CLOSE_PATIENCE: Span = Span::from_ms(200);
/// So often.
const CLOSE_TRIES: u32 = 6;
/// A connection that was reset is forgotten after this time: the server has heard of it by then, if it does at all.
const RESET_LASTS: Span = Span::from_secs(1);
/// Bytes of the text of an answer that says that something is wrong.
const ERROR_BYTES: u64 = 24;

/// What the machine wants.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Output {
    /// A host sends a frame, with so many bytes more than are written in it.
    Send { from: NodeId, frame: Frame, more: u32, forwarding: Forwarding, carried: Carried },
    /// The agent of a server, by its number, says how loaded that is.
    Report { server: usize, report: LoadReport },
}

/// Something that is due.
#[derive(Clone, Copy, Debug, Default)]
enum Due {
    /// Nothing: what a place of the calendar has that nobody has.
    #[default]
    Nothing,
    /// Clients of a host may begin requests.
    Clients(usize),
    /// A timer of TCP.
    Timer { connection: u32, generation: u32, direction: Direction, is_sender: bool },
    /// A request has taken too long.
    Timeout { connection: u32, generation: u32, request: u32 },
    /// A server has done its work for a request.
    Finish { server: usize, id: u64, fails: bool },
    /// The end of a connection was not acknowledged in time, or its place is not needed any more.
    Close { connection: u32, generation: u32 },
    /// Agents report.
    Agents,
}

/// A host of clients.
#[derive(Debug)]
struct ClientHost {
    host: NodeId,
    mac: [u8; 6],
    ip: IpAddr,
    generator: Generator,
    /// By connection of the generator: which it is, if it is open.
    by_slot: Vec<Option<u32>>,
    by_port: BTreeMap<u16, u32>,
    next_port: u32,
    /// When it is woken next.
    armed: Time,
    /// Requests that could not begin. They end once all that is due has begun.
    failed: Vec<Finished>,
}

/// A host of a server.
#[derive(Debug)]
struct ServerHost {
    host: NodeId,
    end: Endpoint,
    machine: Server,
    body_bytes: u64,
}

/// The clients and servers of a run.
#[derive(Debug)]
pub(crate) struct Requests<'a> {
    load: &'a RequestLoad,
    transport: &'a TransportSpec,
    /// The name of the service.
    name: &'a str,
    seed: u64,
    origin: Time,
    /// When the last request begins.
    ends: Time,
    virtual_end: Endpoint,
    /// To whom packets to the service are sent, as far as routes go.
    first: NodeId,
    clients: Vec<ClientHost>,
    servers: Vec<ServerHost>,
    connections: Vec<Connection>,
    free: Vec<u32>,
    due: Calendar<Due>,
    out: VecDeque<Output>,
    agent: Option<Span>,
    /// Bytes of a request without its path.
    head_bytes: u64,
    path: Vec<u8>,
}

/// The address of a host in a family.
fn address_of(address: &HostAddress, is_ipv6: bool) -> IpAddr {
    if is_ipv6 { address.ipv6.into() } else { address.ipv4.into() }
}

impl<'a> Requests<'a> {
    /// Those of a load, which begin at `origin`; `None`: the fabric has no such service.
    pub(crate) fn new(
        fabric: &'a Fabric,
        host_table: &HostTable,
        (load, transport): (&'a RequestLoad, &'a TransportSpec),
        (origin, warm_up, lasts): (Time, Span, Span),
        seed: u64,
    ) -> Option<Self> {
        let service: &Service = fabric.services.iter().find(|service| service.name == load.service)?;
        let address = service.addresses.first()?;
        let at = socket_address(address);
        let virtual_end = Endpoint { mac: host_table.mac_of_alias(at.ip())?, ip: at.ip(), port: at.port() };
        let client = |(number, &host): (usize, &NodeId)| {
            let own = fabric.topology.address(host)?;
            let spec = load.clients_of(number, warm_up, lasts)?;
            Some(ClientHost {
                host,
                mac: own.mac,
                ip: address_of(own, address.is_ipv6),
                generator: Generator::new(&spec, client_seed(seed, number)),
                by_slot: vec![None; spec.arrivals.slots() as usize],
                by_port: BTreeMap::new(),
                next_port: 0,
                armed: Time::NEVER,
                failed: Vec::new(),
            })
        };
        let is_direct = service.forwarding.keeps_address();
        let server = |(number, server): (usize, &datapath::Server)| {
            let own = fabric.topology.address(server.host)?;
            let port = server.port.unwrap_or(address.port);
            let ip = if is_direct { virtual_end.ip } else { address_of(own, address.is_ipv6) };
            let does = load.servers.get(number).copied().unwrap_or_default();
            let mut spec = does.spec;
            // Its faults count from when measuring begins.
            let later = |time: Span| Span::from_ps(time.as_ps().saturating_add(warm_up.as_ps()));
            (spec.faults.from, spec.faults.until) = (later(spec.faults.from), later(spec.faults.until));
            Some(ServerHost {
                host: server.host,
                end: Endpoint { mac: own.mac, ip, port },
                machine: Server::new(spec, origin, server_seed(seed, number)),
                body_bytes: does.body_bytes,
            })
        };
        let close = if load.new_connections { "Connection: close\r\n" } else { "" };
        let head = format!("GET  HTTP/1.1\r\nHost: {at}\r\nUser-Agent: heddle\r\n{close}\r\n");
        let mut requests = Self {
            load,
            transport,
            name: &service.name,
            seed,
            origin,
            ends: origin + warm_up + lasts,
            virtual_end,
            first: service.servers.first()?.host,
            clients: load.from.iter().enumerate().filter_map(client).collect(),
            servers: service.servers.iter().enumerate().filter_map(server).collect(),
            connections: Vec::new(),
            free: Vec::new(),
            due: Calendar::new(),
            out: VecDeque::new(),
            agent: service.agent.map(|agent| agent.interval),
            head_bytes: head.len() as u64,
            path: Vec::new(),
        };
        for client in 0..requests.clients.len() {
            requests.due.push(origin, Due::Clients(client));
        }
        if let Some(interval) = requests.agent {
            requests.due.push(origin + interval, Due::Agents);
        }
        Some(requests)
    }

    /// The name of the service.
    pub(crate) const fn name(&self) -> &'a str {
        self.name
    }

    /// When it is to be woken.
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.due.next_time()
    }

    /// What is to be done; called until there is nothing after each frame and each wake-up.
    pub(crate) fn next_output(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// What came of them.
    pub(crate) fn into_outcome(self) -> RequestOutcome {
        let measured = self.clients.into_iter().map(|client| client.generator.into_measured());
        RequestOutcome::of(measured, self.servers.iter().map(|server| server.machine.counts()))
    }

    /// The time of generators, which begin at zero.
    fn since_origin(&self, now: Time) -> Time {
        Time::ZERO + now.since(self.origin)
    }

    /// Does what is due by now.
    pub(crate) fn wake(&mut self, now: Time) {
        while let Some((_, due)) = self.due.pop_until(now) {
            match due {
                Due::Nothing => {}
                Due::Clients(client) => {
                    self.clients[client].armed = Time::NEVER;
                    self.begin_requests(now, client);
                }
                Due::Timer { connection, generation, direction, is_sender } => {
                    self.tick(now, (connection, generation), direction, is_sender);
                }
                Due::Timeout { connection, generation, request } => {
                    let at = &self.connections[connection as usize];
                    if at.generation == generation && at.waits && at.requests == request {
                        self.fail(now, connection, Failure::TimedOut);
                    }
                }
                Due::Finish { server, id, fails } => {
                    self.servers[server].machine.finish(id);
                    self.answer(now, id, if fails { 500 } else { 200 });
                    self.advance_server(now, server);
                }
                Due::Close { connection, generation } => {
                    if self.connections[connection as usize].generation == generation {
                        self.close(now, connection);
                    }
                }
                Due::Agents => self.report(now),
            }
        }
    }

    /// Agents say how loaded their servers are, as `heddle serve --push` has them say it.
    fn report(&mut self, now: Time) {
        let permille = |share: f64| (share * 1e3).round() as u32;
        for (number, server) in self.servers.iter().enumerate() {
            let report = LoadReport {
                memory_permille: server.machine.memory_utilisation().map(permille),
                application_permille: server.machine.utilisation().map(permille),
                ..LoadReport::default()
            };
            self.out.push_back(Output::Report { server: number, report });
        }
        if let Some(interval) = self.agent.filter(|_| now < self.ends) {
            self.due.push(now + interval, Due::Agents);
        }
    }

    // Clients.

    fn begin_requests(&mut self, now: Time, client: usize) {
        let at = self.since_origin(now);
        loop {
            let until = loop {
                match self.clients[client].generator.poll(at) {
                    Step::Do(start) => self.begin(now, client, start),
                    Step::Wait(until) => break until,
                }
            };
            let own = &mut self.clients[client];
            if own.failed.is_empty() {
                let until = if until == Time::NEVER { until } else { self.origin + until.since(Time::ZERO) };
                if until < own.armed {
                    own.armed = until;
                    self.due.push(until, Due::Clients(client));
                }
                return;
            }
            // They may be due again.
            for finished in std::mem::take(&mut own.failed) {
                own.generator.handle(at, finished);
            }
        }
    }

    fn begin(&mut self, now: Time, client: usize, Start { slot, target }: Start) {
        let target = self.load.target.unwrap_or(target);
        let open = self.clients[client].by_slot[slot as usize];
        let Some(connection) = open.or_else(|| self.open(client, slot)) else {
            let outcome = Outcome::Failed(Failure::Local);
            return self.clients[client].failed.push(Finished { slot, outcome });
        };
        self.path.clear();
        target.write_path(&mut self.path);
        let bytes = self.head_bytes + self.path.len() as u64;
        let at = &mut self.connections[connection as usize];
        at.requests += 1;
        (at.waits, at.target) = (true, target);
        at.up.write(now, bytes);
        if at.phase == Phase::Opening {
            at.up.sender.handle(now, sender::Input::Connect);
        }
        let (generation, request) = (at.generation, at.requests);
        self.due.push(now + self.load.timeout, Due::Timeout { connection, generation, request });
        self.poll_sender(now, connection, Direction::Up);
    }

    /// The place of a new connection; `None`: all ports are taken.
    fn open(&mut self, client: usize, slot: u32) -> Option<u32> {
        let own = &mut self.clients[client];
        if own.by_port.len() >= PORTS as usize {
            return None;
        }
        let mut port = || {
            let port = FIRST_PORT + (own.next_port % PORTS) as u16;
            own.next_port = own.next_port.wrapping_add(1);
            port
        };
        let mut free = port();
        while own.by_port.contains_key(&free) {
            free = port();
        }
        let end = Endpoint { mac: own.mac, ip: own.ip, port: free };
        let place = self.free.pop().unwrap_or(self.connections.len() as u32);
        let generation = self.connections.get(place as usize).map_or(0, |before| before.generation);
        let seed = self.seed ^ (u64::from(place) << 32);
        let connection = Connection::new(self.transport, seed, generation, (client, slot, end));
        match self.connections.get_mut(place as usize) {
            Some(before) => *before = connection,
            None => self.connections.push(connection),
        }
        let own = &mut self.clients[client];
        own.by_port.insert(free, place);
        own.by_slot[slot as usize] = Some(place);
        Some(place)
    }

    /// A client has its answer.
    fn complete(&mut self, now: Time, connection: u32) {
        let at = &mut self.connections[connection as usize];
        let outcome = match at.status {
            500.. => Outcome::Failed(Failure::Status5xx),
            400.. => Outcome::Failed(Failure::Status4xx),
            _ => Outcome::Done { bytes: at.body_bytes },
        };
        if self.load.new_connections {
            at.phase = Phase::Closing(0);
            self.close(now, connection);
        }
        self.finish(now, connection, outcome);
    }

    /// A request fails, and its connection with it.
    fn fail(&mut self, now: Time, connection: u32, failure: Failure) {
        if matches!(failure, Failure::Refused | Failure::Reset) {
            self.forget(now, connection);
        } else {
            self.send_flags(connection, Direction::Up, RST | ACK);
            let at = &mut self.connections[connection as usize];
            at.phase = Phase::Reset;
            let generation = at.generation;
            self.due.push(now + RESET_LASTS, Due::Close { connection, generation });
        }
        self.finish(now, connection, Outcome::Failed(failure));
    }

    fn finish(&mut self, now: Time, connection: u32, outcome: Outcome) {
        let time = self.since_origin(now);
        let at = &mut self.connections[connection as usize];
        let (client, slot) = (at.client, at.slot);
        at.waits = false;
        let own = &mut self.clients[client];
        if at.phase != Phase::Open {
            own.by_slot[slot as usize] = None;
        }
        own.generator.handle(time, Finished { slot, outcome });
        self.begin_requests(now, client);
    }

    /// The client says that a connection ends, once more, or its place is free.
    fn close(&mut self, now: Time, connection: u32) {
        let at = &mut self.connections[connection as usize];
        match at.phase {
            Phase::Closing(tries) if tries < CLOSE_TRIES => {
                at.phase = Phase::Closing(tries + 1);
                let generation = at.generation;
                let patience = CLOSE_PATIENCE * (1 << tries);
                self.send_flags(connection, Direction::Up, FIN | ACK);
                self.due.push(now + patience, Due::Close { connection, generation });
            }
            Phase::Closing(_) | Phase::Reset => self.forget(now, connection),
            Phase::Free | Phase::Opening | Phase::Open => {}
        }
    }

    /// Nobody knows of a connection any more. A request that waits at its server is withdrawn.
    fn forget(&mut self, now: Time, connection: u32) {
        let at = &mut self.connections[connection as usize];
        if at.phase == Phase::Free {
            return;
        }
        self.clients[at.client].by_port.remove(&at.client_end.port);
        if self.clients[at.client].by_slot[at.slot as usize] == Some(connection) {
            self.clients[at.client].by_slot[at.slot as usize] = None;
        }
        let withdrawn = at.server.filter(|_| at.served > at.answered).map(|(server, _)| (server, id(at, connection)));
        at.phase = Phase::Free;
        at.generation = at.generation.wrapping_add(1);
        self.free.push(connection);
        if let Some((server, id)) = withdrawn {
            self.servers[server].machine.withdraw(id);
            self.advance_server(now, server);
        }
    }

    // Servers.

    /// A server has read a request.
    fn ask(&mut self, now: Time, connection: u32, server: usize) {
        let at = &mut self.connections[connection as usize];
        at.served = at.requests;
        let (size, lasts) = at.target.demand();
        let id = id(at, connection);
        self.servers[server].machine.arrive(now, id, size, lasts);
        self.advance_server(now, server);
    }

    fn advance_server(&mut self, now: Time, server: usize) {
        while let Some(action) = self.servers[server].machine.poll(now) {
            match action {
                Action::Begin { id, size: _, lasts, fails } => {
                    self.due.push(now + lasts, Due::Finish { server, id, fails });
                }
                Action::Refuse { id, refusal: _ } => self.answer(now, id, 503),
            }
        }
    }

    /// A server answers a request, if its client is still there.
    fn answer(&mut self, now: Time, request: u64, status: u16) {
        let connection = request as u32;
        let at = &mut self.connections[connection as usize];
        let Some((server, _)) = at.server else { return };
        if u64::from(at.generation) != request >> 32 || at.phase == Phase::Reset || at.answered == at.served {
            return;
        }
        let is_page = matches!(at.target, Target::Static(_) | Target::Dynamic { .. });
        at.status = status;
        at.body_bytes = match status {
            200 if is_page => at.target.answer_bytes().into(),
            200 => self.servers[server].body_bytes,
            _ => ERROR_BYTES,
        };
        let head = head_bytes(status, at.body_bytes, self.load.new_connections);
        let is_first = at.answered == 0;
        at.answered = at.served;
        at.down.write(now, head + at.body_bytes);
        if is_first {
            at.down.sender.handle(now, sender::Input::Start);
        }
        self.poll_sender(now, connection, Direction::Down);
    }
}

/// What a server calls the request that is under way on a connection.
fn id(connection: &Connection, place: u32) -> u64 {
    u64::from(connection.generation) << 32 | u64::from(place)
}

/// Bytes of the head of an answer, as `heddle serve` writes it.
fn head_bytes(status: u16, body_bytes: u64, closes: bool) -> u64 {
    let line = match status {
        200 => "HTTP/1.1 200 OK\r\n",
        503 => "HTTP/1.1 503 Service Unavailable\r\n",
        _ => "HTTP/1.1 500 Internal Server Error\r\n",
    };
    let content = if body_bytes == 0 {
        "Content-Length: 0\r\n".len()
    } else {
        let kind = if status == 200 { "text/html" } else { "text/plain; charset=utf-8" };
        format!("Content-Type: {kind}\r\nContent-Length: {body_bytes}\r\n").len()
    };
    let end = if closes { "Connection: close\r\n\r\n" } else { "\r\n" };
    (line.len() + content + end.len()) as u64
}
