//! Health checks and agents of services' servers: who drives `balance::health`, by the machine's clock and real connections.
//!
//! ```text
//!   a thread a service: Health (when, whom) --job--> a thread a server, in the network namespace of its host --result--> Health --> worker: up, down
//!                                                     asks the agent there -----------------------------------------------> worker: report
//! ```
//!
//! A probe comes from the server's own host, to its own address: it says how the server does, not the network before it. That is known to the fabric itself.

mod probe;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use balance::health::{Health, HealthSpec, Input, Output};
use datapath::{AgentSpec, Service};
use fabric::Fabric;
use machine::{Control as _, Step, Time, mix};

use crate::dataplane::{OrderKind, ServerOrder, ServerOrders};
use crate::host::Host;
use crate::namespace::Namespace;
use probe::Job;

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
    servers: Vec<CheckedServer>,
}

/// A service whose servers are checked, until it is dropped.
#[derive(Debug)]
struct Checker {
    plan: Plan,
    events: Sender<Event>,
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
                _ => start(plan, namespaces, orders, fabric.seed),
            };
            self.checkers.insert(service.name.clone(), checker);
        }
    }
}

impl Drop for Checker {
    fn drop(&mut self) {
        // It has ended if nobody hears it.
        let _ = self.events.send(Event::End);
    }
}

/// Servers that are hosts of their own: who is behind a device is nobody's to enter.
fn plan(fabric: &Fabric, service: &Service, hosts: &[Host]) -> (Plan, Vec<Namespace>) {
    let (mut servers, mut namespaces) = (Vec::new(), Vec::new());
    for (server, spec) in service.servers.iter().zip(&service.spec.servers) {
        let host = hosts.iter().find(|host| host.spec().name == fabric.topology.nodes[server.host].name);
        let namespace = host.map(|host| host.namespace().try_clone());
        let (Some(Ok(namespace)), Some(own)) = (namespace, fabric.topology.address(server.host)) else { continue };
        servers.push(CheckedServer {
            name: spec.name.clone(),
            address: SocketAddr::new(own.ipv4.into(), spec.port),
            namespace: namespace.inode(),
        });
        namespaces.push(namespace);
    }
    let (health, agent) = (service.health.clone(), service.agent);
    (Plan { service: service.name.clone(), health, agent, servers }, namespaces)
}

fn start(plan: Plan, namespaces: Vec<Namespace>, orders: &ServerOrders, seed: u64) -> Checker {
    let (events, heard) = mpsc::channel();
    let mut probers = Vec::with_capacity(namespaces.len());
    for (number, (server, namespace)) in plan.servers.iter().zip(namespaces).enumerate() {
        let (jobs, queue) = mpsc::channel();
        let prober = Prober {
            number,
            service: plan.service.clone(),
            server: server.name.clone(),
            results: events.clone(),
            orders: orders.clone(),
        };
        spawn("prober", move || prober.run(&namespace, &queue));
        probers.push(jobs);
    }
    let (own, orders) = (plan.clone(), orders.clone());
    spawn("checker", move || check(&own, &heard, &probers, &orders, seed));
    Checker { plan, events }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(run);
    if let Err(error) = thread {
        tracing::error!("a health check or an agent is not asked: {error}");
    }
}

/// Says when who is probed, and what follows.
fn check(plan: &Plan, events: &Receiver<Event>, probers: &[Sender<Job>], orders: &ServerOrders, seed: u64) {
    let began = Instant::now();
    let now = || Time::from_ns(began.elapsed().as_nanos() as u64);
    // A wrong one was refused with its file.
    let mut health = plan.health.clone().and_then(|spec| Health::new(spec, mix(seed)).ok());
    for server in 0..plan.servers.len() {
        if let Some(health) = &mut health {
            health.handle(now(), Input::Add(server));
        }
    }
    let mut asked = Time::ZERO;
    loop {
        let mut next = Time::NEVER;
        if let Some(agent) = &plan.agent {
            if now() >= asked {
                for (jobs, server) in probers.iter().zip(&plan.servers) {
                    let _ = jobs.send(Job::Ask { at: SocketAddr::new(server.address.ip(), agent.port) });
                }
                asked = now() + agent.interval;
            }
            next = asked;
        }
        while let Some(health) = &mut health {
            match health.poll(now()) {
                Step::Wait(until) => {
                    next = next.min(until);
                    break;
                }
                Step::Do(Output::Probe { server, probe, deadline }) => {
                    let port = health.spec().port.unwrap_or(plan.servers[server].address.port());
                    let at = SocketAddr::new(plan.servers[server].address.ip(), port);
                    let patience = Duration::from_nanos(deadline.since(now()).as_ns());
                    let check = health.spec().check.clone();
                    let _ = probers[server].send(Job::Probe { number: probe, check, at, patience });
                }
                Step::Do(Output::Up(server)) => say(plan, server, true, orders),
                Step::Do(Output::Down(server)) => say(plan, server, false, orders),
            }
        }
        let wait = Duration::from_nanos(next.since(now()).as_ns());
        match events.recv_timeout(wait) {
            Ok(Event::Result { server, probe, is_good }) => {
                if let Some(health) = &mut health {
                    health.handle(now(), Input::Result { server, probe, is_good });
                }
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
    service: String,
    server: String,
    results: Sender<Event>,
    orders: ServerOrders,
}

impl Prober {
    fn run(self, namespace: &Namespace, jobs: &Receiver<Job>) {
        if let Err(error) = namespace.enter() {
            return tracing::error!("server {} is not checked: {error}", self.server);
        }
        while let Ok(job) = jobs.recv() {
            match job {
                Job::Probe { number, check, at, patience } => {
                    let is_good = probe::probe(&check, at, patience);
                    let _ = self.results.send(Event::Result { server: self.number, probe: number, is_good });
                }
                Job::Ask { at } => {
                    // Who does not answer is not known: what it has said before expires.
                    let Some(said) = probe::ask(at) else { continue };
                    self.orders.send(ServerOrder::new(&self.service, &self.server, said));
                }
            }
        }
    }
}
