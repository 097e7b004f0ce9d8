//! Health checks and agents of services' servers: who drives `balance::health`, by the machine's clock and real connections.
//!
//! ```text
//!   a thread a service: Health (when, whom) --job--> a thread a server, in the network namespace of its host --result--> Health --> worker: up, down
//!   a thread a server asks its agent there -----------------------------------------------------------------------------------> worker: report
//! ```
//!
//! A probe comes from the server's own host, to its own address: it says how the server does, not the network before it. That is known to the fabric itself.

mod ask;
mod command;
mod failure;
mod grpc;
#[cfg(test)]
mod hostile;
mod probe;
mod stream;
mod tls;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use balance::health::{Health, HealthSpec, Input, Output};
use datapath::{AgentSpec, Service};
use fabric::Fabric;
use machine::{Control as _, Span, Step, Time, mix};

use crate::Error;
use crate::control::{HealthStatus, ServiceStatus};
use crate::dataplane::{OrderKind, ServerOrder, ServerOrders};
use crate::files::FileMount;
use crate::host::Host;
use crate::namespace::Namespace;
use crate::secret::seeds;
use failure::Failure;
use probe::{Job, Probe};

/// The longest wait for an event at once.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// The stack of a thread that probes: it keeps what it reads on the heap, and shakes hands by TLS.
const STACK: usize = 512 << 10;

/// A server as it is checked.
#[derive(Clone, Debug, PartialEq)]
struct CheckedServer {
    name: String,
    address: SocketAddr,
    /// The inode of its host's namespace: another one is another host.
    namespace: u64,
    /// What programs of its host see.
    mounts: Vec<FileMount>,
}

/// What is checked of a service.
#[derive(Clone, Debug, PartialEq)]
struct Plan {
    service: String,
    health: Option<HealthSpec>,
    /// Of a check by TLS, whose certificates are good: those in this text, or anybody's; or why that is not known.
    authorities: Result<Option<Vec<u8>>, String>,
    agent: Option<AgentSpec>,
    /// How long what an agent has said holds.
    report_expiry: Span,
    servers: Vec<CheckedServer>,
    /// What programs of hosts see as `/etc/hosts`.
    hosts_file: String,
    /// Where they start.
    folder: PathBuf,
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
    statuses: Statuses,
}

/// What has been found of each server of a service, for whoever wants to see it.
#[derive(Clone, Debug)]
struct Statuses(Arc<Mutex<Vec<HealthStatus>>>);

impl Statuses {
    fn lock(&self) -> MutexGuard<'_, Vec<HealthStatus>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a checker hears of.
#[derive(Debug)]
enum Event {
    /// A probe of the server with this number has had a result: why it is not well, if it is not.
    Result { server: usize, probe: u64, failure: Option<String> },
    /// Nobody wants to know any more.
    End,
}

/// Where programs of hosts start, and what they see.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The folder of the fabric file.
    pub folder: &'a Path,
    /// What they see as `/etc/hosts`.
    pub hosts_file: &'a Path,
    /// What else they see, by host.
    pub mounts: &'a dyn Fn(&str) -> Vec<FileMount>,
}

/// The checks of a network's services.
#[derive(Debug, Default)]
pub struct Checks {
    checkers: BTreeMap<String, Checker>,
}

impl Checks {
    /// Refuses health checks of a service that cannot be made: whoever starts a network hears of it then.
    pub fn refuse(service: &Service, folder: &Path) -> Result<(), Error> {
        let trust = service.health.as_ref().and_then(|spec| spec.check.trust());
        match trust.map(|trust| tls::read(trust, folder)) {
            Some(Err(why)) => Err(Error::Authorities { service: service.name.clone(), why }),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// Checks what this network has. What was checked in the same way before goes on.
    pub fn change(&mut self, fabric: &Fabric, hosts: &[Host], around: Surroundings<'_>, orders: &ServerOrders) {
        let mut before = std::mem::take(&mut self.checkers);
        for service in fabric.services.iter().filter(|service| service.health.is_some() || service.agent.is_some()) {
            let (plan, namespaces) = plan(fabric, service, hosts, around);
            let checker = match before.remove(&service.name) {
                Some(checker) if checker.plan == plan => checker,
                other => {
                    // What it forgets comes before what the next one finds.
                    drop(other);
                    start(plan, namespaces, orders, seeds(fabric).tables)
                }
            };
            self.checkers.insert(service.name.clone(), checker);
        }
    }

    /// Adds to how services do what health checks have found.
    pub fn describe(&self, services: &mut [ServiceStatus]) {
        for service in services {
            let Some(checker) = self.checkers.get(&service.service).filter(|it| it.events.is_some()) else { continue };
            let statuses = checker.statuses.lock();
            for (server, status) in checker.plan.servers.iter().zip(statuses.iter()) {
                if let Some(described) = service.servers.iter_mut().find(|it| it.server == server.name) {
                    described.health = Some(status.clone());
                }
            }
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
fn plan(fabric: &Fabric, service: &Service, hosts: &[Host], around: Surroundings<'_>) -> (Plan, Vec<Namespace>) {
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
            mounts: (around.mounts)(&spec.name),
        });
        namespaces.push(namespace);
    }
    let trust = service.health.as_ref().and_then(|spec| spec.check.trust());
    let plan = Plan {
        service: service.name.clone(),
        health: service.health.clone(),
        authorities: trust.map_or(Ok(None), |trust| tls::read(trust, around.folder)),
        agent: service.agent,
        report_expiry: service.spec.report_expiry,
        servers,
        hosts_file: around.hosts_file.to_string_lossy().into_owned(),
        folder: around.folder.to_owned(),
    };
    (plan, namespaces)
}

impl Plan {
    /// How a server is probed; `None` if none is.
    fn probe(&self, server: &CheckedServer, namespace: Namespace) -> Option<Probe> {
        let check = self.health.as_ref()?.check.clone();
        let configure = || self.authorities.clone().and_then(|text| tls::configure(text.as_deref()));
        let tls = check.trust().map(|_| configure());
        let host = probe::Host {
            service: self.service.clone(),
            name: server.name.clone(),
            address: server.address.ip(),
            namespace,
            hosts_file: self.hosts_file.clone(),
            mounts: server.mounts.clone(),
            folder: self.folder.clone(),
        };
        Some(Probe { host, check, tls })
    }
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
        let Some(probe) = plan.probe(server, namespace).filter(|_| health.is_some()) else { continue };
        let (jobs, queue) = mpsc::channel();
        let prober = Prober { number, probe, results: events.clone() };
        spawn("prober", move || prober.run(&queue));
        probers.push(jobs);
    }
    let new = HealthStatus { is_starting: true, ..HealthStatus::default() };
    let statuses = Statuses(Arc::new(Mutex::new(vec![new; plan.servers.len()])));
    let events = health.map(|health| {
        let checking =
            Checking { plan: plan.clone(), health, probers, orders: orders.clone(), statuses: statuses.clone() };
        spawn("checker", move || checking.run(&heard));
        events
    });
    Checker { plan, events, _asking: asking, orders: orders.clone(), statuses }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(run);
    if let Err(error) = thread {
        tracing::error!("a health check or an agent is not asked: {error}");
    }
}

/// Who says when which server of a service is probed, and what follows.
struct Checking {
    plan: Plan,
    health: Health<usize>,
    probers: Vec<Sender<Job>>,
    orders: ServerOrders,
    statuses: Statuses,
}

impl Checking {
    fn run(mut self, events: &Receiver<Event>) {
        let began = Instant::now();
        let now = || Time::from_ns(began.elapsed().as_nanos() as u64);
        for server in 0..self.plan.servers.len() {
            self.health.handle(now(), Input::Add(server));
        }
        // By server: the probe that has no result yet.
        let mut pending = vec![None; self.plan.servers.len()];
        loop {
            let next = loop {
                match self.health.poll(now()) {
                    Step::Wait(until) => break until,
                    Step::Do(Output::Probe { server, probe, deadline }) => {
                        let port = self.health.spec().port.unwrap_or(self.plan.servers[server].address.port());
                        let patience = Duration::from_nanos(deadline.since(now()).as_ns());
                        pending[server] = Some(probe);
                        let _ = self.probers[server].send(Job { number: probe, port, patience });
                    }
                    Step::Do(Output::Up(server)) => self.say(server, true, false),
                    Step::Do(Output::Down(server)) => self.say(server, false, pending[server].is_some()),
                }
            };
            // A service whose servers are all behind devices has nobody to probe.
            let wait = Duration::from_nanos(next.since(now()).as_ns()).min(LONGEST_WAIT);
            match events.recv_timeout(wait) {
                Ok(Event::Result { server, probe, failure }) => {
                    if pending[server] == Some(probe) {
                        pending[server] = None;
                    }
                    let is_good = failure.is_none();
                    self.health.handle(now(), Input::Result { server, probe, is_good });
                    let is_starting = self.health.is_starting(now(), server);
                    self.note_result(server, failure, is_starting);
                    if is_good && self.health.is_up(server) == Some(true) {
                        self.send_health(server, true);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Notes what has become of a probe; `is_starting`: no failure of this server says anything yet.
    fn note_result(&self, server: usize, failure: Option<String>, is_starting: bool) {
        let status = &mut self.statuses.lock()[server];
        status.probes += 1;
        let has_been_given_up = status.is_starting && !is_starting && status.is_down && failure.is_some();
        status.is_starting = is_starting;
        if failure.is_some() {
            status.failures += 1;
            status.last_failure = failure;
        }
        if has_been_given_up {
            let Plan { service, servers, .. } = &self.plan;
            let why = status.last_failure.as_deref().unwrap_or_default();
            tracing::warn!(
                "server {} of {service} has not come up: its health check fails: {why}",
                servers[server].name
            );
        }
    }

    /// A server has gone up or down; `is_late`: its last probe has no result yet.
    fn say(&self, server: usize, is_up: bool, is_late: bool) {
        let Plan { service, servers, .. } = &self.plan;
        let name = &servers[server].name;
        if is_up {
            tracing::info!("server {name} of {service} is up");
        } else {
            let status = &mut self.statuses.lock()[server];
            if is_late {
                status.last_failure = Some(Failure::TimedOut.to_string());
            }
            let why = status.last_failure.as_deref().unwrap_or("no reason is known");
            if status.is_starting {
                tracing::info!("server {name} of {service} has not come up yet: {why}");
            } else {
                tracing::warn!("server {name} of {service} is down: its health check fails: {why}");
            }
        }
        self.statuses.lock()[server].is_down = !is_up;
        self.send_health(server, is_up);
    }

    fn send_health(&self, server: usize, is_up: bool) {
        let Plan { service, servers, .. } = &self.plan;
        self.orders.send(ServerOrder::new(service, &servers[server].name, OrderKind::Healthy(is_up)));
    }
}

/// Who speaks to one server, in the namespace of its host.
struct Prober {
    number: usize,
    probe: Probe,
    results: Sender<Event>,
}

impl Prober {
    fn run(self, jobs: &Receiver<Job>) {
        if let Err(error) = self.probe.host.namespace.enter() {
            return tracing::error!("server {} is not checked: {error}", self.probe.host.name);
        }
        while let Ok(job) = jobs.recv() {
            let failure = self.probe.run(&job).err().map(|failure| failure.to_string());
            let _ = self.results.send(Event::Result { server: self.number, probe: job.number, failure });
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
            let said = ask::ask(self.at);
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
