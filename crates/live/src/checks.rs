//! Health checks and agents of services' servers: who drives `balance::health`, by the machine's clock and real connections.
//!
//! ```text
//!   a thread a service: Health (when, whom) --job--> a thread a server, in the network namespace of its host --result--> Health --> worker: up, down
//!   a thread a server asks its agent there -----------------------------------------------------------------------------------> worker: report
//! ```
//!
//! A probe comes from the server's own host, to its own address: it says how the server does, not the network before it. That is known to the fabric itself.

mod probe;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use balance::health::{Health, HealthSpec, Input, Output};
use datapath::{AgentSpec, Service};
use fabric::Fabric;
use machine::{Control as _, Span, Step, Time, mix};

use crate::dataplane::{OrderKind, ServerOrder, ServerOrders};
use crate::host::Host;
use crate::namespace::Namespace;
use probe::Job;

/// The longest wait for an event at once.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// The stack of a thread that probes: it keeps what it reads on the heap.
const STACK: usize = 128 << 10;

/// A server as it is checked.
#[derive(Clone, Debug, PartialEq)]
struct CheckedServer {
    name: String,
    address: SocketAddr,
    /// The inode of its host's namespace: another one is another host.
    namespace: u64,
}

/// What is checked of a service.
#[derive(Clone, Debug, PartialEq)]
struct Plan {
    service: String,
    health: Option<HealthSpec>,
    agent: Option<AgentSpec>,
    /// How long what an agent has said holds.
    report_expiry: Span,
    servers: Vec<CheckedServer>,
}

/// A service whose servers are checked, until it is dropped.
#[derive(Debug)]
struct Checker {
    plan: Plan,
    /// The way to who checks health, if somebody does.
    events: Option<Sender<Event>>,
    /// Those that ask agents end when these are gone.
    _asking: Vec<Sender<Infallible>>,
    orders: ServerOrders,
}

/// What a checker hears of.
#[derive(Debug)]
enum Event {
    /// A probe of the server with this number has had a result.
    Result { server: usize, probe: u64, is_good: bool },
    /// Nobody wants to know any more.
    End,
}

/// The checks of a network's services.
#[derive(Debug, Default)]
pub struct Checks {
    checkers: BTreeMap<String, Checker>,
}

impl Checks {
    /// Checks what this network has. What was checked in the same way before goes on.
    pub fn change(&mut self, fabric: &Fabric, hosts: &[Host], orders: &ServerOrders) {
        let mut before = std::mem::take(&mut self.checkers);
        for service in fabric.services.iter().filter(|service| service.health.is_some() || service.agent.is_some()) {
            let (plan, namespaces) = plan(fabric, service, hosts);
            let checker = match before.remove(&service.name) {
                Some(checker) if checker.plan == plan => checker,
                other => {
                    // What it forgets comes before what the next one finds.
                    drop(other);
                    start(plan, namespaces, orders, fabric.seed)
                }
            };
            self.checkers.insert(service.name.clone(), checker);
        }
    }
}

impl Drop for Checker {
    fn drop(&mut self) {
        // It has ended if nobody hears it.
        self.events.iter().for_each(|events| drop(events.send(Event::End)));
        // What was said by nobody any more holds no longer.
        for server in &self.plan.servers {
            self.orders.send(ServerOrder::new(&self.plan.service, &server.name, OrderKind::Forget));
        }
    }
}

/// Servers that are hosts of their own: who is behind a device is nobody's to enter.
fn plan(fabric: &Fabric, service: &Service, hosts: &[Host]) -> (Plan, Vec<Namespace>) {
    let (mut servers, mut namespaces) = (Vec::new(), Vec::new());
    let is_ipv6 = service.addresses.first().is_some_and(|address| address.is_ipv6);
    for (server, spec) in service.servers.iter().zip(&service.spec.servers) {
        let host = hosts.iter().find(|host| host.spec().name == fabric.topology.nodes[server.host].name);
        let namespace = host.map(|host| host.namespace().try_clone());
        let (Some(Ok(namespace)), Some(own)) = (namespace, fabric.topology.address(server.host)) else { continue };
        servers.push(CheckedServer {
            name: spec.name.clone(),
            address: SocketAddr::new(if is_ipv6 { own.ipv6.into() } else { own.ipv4.into() }, spec.port),
            namespace: namespace.inode(),
        });
        namespaces.push(namespace);
    }
    let (health, agent) = (service.health.clone(), service.agent);
    let report_expiry = service.spec.report_expiry;
    (Plan { service: service.name.clone(), health, agent, report_expiry, servers }, namespaces)
}

fn start(plan: Plan, namespaces: Vec<Namespace>, orders: &ServerOrders, seed: u64) -> Checker {
    // A wrong one was refused with its file.
    let health = plan.health.clone().and_then(|spec| Health::new(spec, mix(seed)).ok());
    let (events, heard) = mpsc::channel();
    let (mut probers, mut asking) = (Vec::with_capacity(namespaces.len()), Vec::new());
    for (number, (server, namespace)) in plan.servers.iter().zip(namespaces).enumerate() {
        if let (Some(agent), Ok(namespace)) = (plan.agent, namespace.try_clone()) {
            let (alive, ended) = mpsc::channel();
            let asker = Asker {
                at: SocketAddr::new(server.address.ip(), agent.port),
                interval: Duration::from_nanos(agent.interval.as_ns()),
                expiry: Duration::from_nanos(plan.report_expiry.as_ns()),
                service: plan.service.clone(),
                server: server.name.clone(),
                orders: orders.clone(),
            };
            spawn("asker", move || asker.run(&namespace, &ended));
            asking.push(alive);
        }
        if health.is_none() {
            continue;
        }
        let (jobs, queue) = mpsc::channel();
        let prober = Prober { number, server: server.name.clone(), results: events.clone() };
        spawn("prober", move || prober.run(&namespace, &queue));
        probers.push(jobs);
    }
    let events = health.map(|health| {
        let (own, own_orders) = (plan.clone(), orders.clone());
        spawn("checker", move || check(&own, health, &heard, (&probers, &own_orders)));
        events
    });
    Checker { plan, events, _asking: asking, orders: orders.clone() }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(run);
    if let Err(error) = thread {
        tracing::error!("a health check or an agent is not asked: {error}");
    }
}

/// Says when who is probed, and what follows.
fn check(
    plan: &Plan,
    mut health: Health<usize>,
    events: &Receiver<Event>,
    (probers, orders): (&[Sender<Job>], &ServerOrders),
) {
    let began = Instant::now();
    let now = || Time::from_ns(began.elapsed().as_nanos() as u64);
    for server in 0..plan.servers.len() {
        health.handle(now(), Input::Add(server));
    }
    loop {
        let next = loop {
            match health.poll(now()) {
                Step::Wait(until) => break until,
                Step::Do(Output::Probe { server, probe, deadline }) => {
                    let port = health.spec().port.unwrap_or(plan.servers[server].address.port());
                    let at = SocketAddr::new(plan.servers[server].address.ip(), port);
                    let patience = Duration::from_nanos(deadline.since(now()).as_ns());
                    let check = health.spec().check.clone();
                    let _ = probers[server].send(Job { number: probe, check, at, patience });
                }
                Step::Do(Output::Up(server)) => say(plan, server, true, orders),
                Step::Do(Output::Down(server)) => say(plan, server, false, orders),
            }
        };
        // A service whose servers are all behind devices has nobody to probe.
        let wait = Duration::from_nanos(next.since(now()).as_ns()).min(LONGEST_WAIT);
        match events.recv_timeout(wait) {
            Ok(Event::Result { server, probe, is_good }) => {
                health.handle(now(), Input::Result { server, probe, is_good });
            }
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn say(plan: &Plan, server: usize, is_up: bool, orders: &ServerOrders) {
    let name = &plan.servers[server].name;
    if is_up {
        tracing::info!("server {name} of {} is up", plan.service);
    } else {
        tracing::warn!("server {name} of {} is down: its health check fails", plan.service);
    }
    orders.send(ServerOrder::new(&plan.service, name, OrderKind::Healthy(is_up)));
}

/// Who speaks to one server, in the namespace of its host.
struct Prober {
    number: usize,
    server: String,
    results: Sender<Event>,
}

impl Prober {
    fn run(self, namespace: &Namespace, jobs: &Receiver<Job>) {
        if let Err(error) = namespace.enter() {
            return tracing::error!("server {} is not checked: {error}", self.server);
        }
        while let Ok(Job { number, check, at, patience }) = jobs.recv() {
            let is_good = probe::probe(&check, at, patience);
            let _ = self.results.send(Event::Result { server: self.number, probe: number, is_good });
        }
    }
}

/// Who asks the agent of one server, in the namespace of its host.
struct Asker {
    at: SocketAddr,
    interval: Duration,
    expiry: Duration,
    service: String,
    server: String,
    orders: ServerOrders,
}

impl Asker {
    fn run(self, namespace: &Namespace, ended: &Receiver<Infallible>) {
        if let Err(error) = namespace.enter() {
            return tracing::error!("the agent of {} is not asked: {error}", self.server);
        }
        // When it was heard last, while that holds.
        let mut heard: Option<Instant> = None;
        while ended.recv_timeout(self.interval) == Err(RecvTimeoutError::Timeout) {
            let said = probe::ask(self.at);
            match (said, heard) {
                (Some(said), _) => {
                    heard = Some(Instant::now());
                    self.orders.send(ServerOrder::new(&self.service, &self.server, said));
                }
                (None, Some(last)) if last.elapsed() > self.expiry => {
                    heard = None;
                    tracing::warn!("the agent of {} at {} has fallen silent", self.server, self.service);
                    self.orders.send(ServerOrder::new(&self.service, &self.server, OrderKind::ForgetAgent));
                }
                (None, _) => {}
            }
        }
    }
}
