//! Services: how they do, and what is said about their servers.

use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::Instant;

use balance::LoadReport;
use balance::agent::AgentCheck;
use datapath::{BalancerView, Graph, ServiceView};
use fabric::{Fabric, socket_address};
use machine::{Time, nanos};

use super::DataPlane;
use super::plan::Plan;
use super::poller::Waker;
use super::pool::Packet;
use super::worker::{Command, Worker};
use crate::Error;
use crate::control::{BalancerStatus, EjectionStatus, ServerChange, ServerStatus, ServiceStatus};

/// How services do, at `now`; none of a worker that has none.
pub(super) fn services(graph: &mut Graph<Packet>, plan: &Plan, now: Time) -> Vec<ServiceStatus> {
    graph.clear_expired(now);
    let fabric = plan.fabric();
    let views = graph.service_views(&plan.tables().services);
    fabric.services.iter().zip(views).map(|(service, view)| status(fabric, service, &view, now)).collect()
}

fn status(fabric: &Fabric, service: &datapath::Service, view: &ServiceView<'_>, now: Time) -> ServiceStatus {
    let others: Vec<balance::ServerStatus> = view.others.iter().flat_map(|other| other.status(now)).collect();
    let server = |mut status: balance::ServerStatus| {
        for other in others.iter().filter(|other| other.name == status.name) {
            // Each balancer has heard of the others' connections.
            (status.active, status.inactive) = (status.active.max(other.active), status.inactive.max(other.inactive));
            status.opened += other.opened;
            status.completed += other.completed;
            status.failed += other.failed;
            status.refused += other.refused;
        }
        let (host, counters) = view.servers.get(status.id.index()).copied().unwrap_or_default();
        let host = host.map(|host| fabric.topology.nodes[host].name.clone());
        ServerStatus {
            server: host.unwrap_or(status.name),
            out: status.unavailable.map(word),
            weight: status.weight,
            active: status.active,
            inactive: status.inactive,
            opened: status.opened,
            completed: status.completed,
            failed: status.failed + status.refused,
            latency: status.latency.map(|latency| nanos::Span::from_ns(latency.as_ns())),
            health: None,
            ejection: status.ejected_because.zip(status.ejected_for).map(|(reason, remaining)| EjectionStatus {
                reason: reason.to_string(),
                remaining: nanos::Span::from_ns(remaining.as_ns()),
            }),
            load: status.load,
            traffic: counters,
        }
    };
    ServiceStatus {
        service: view.name.to_owned(),
        addresses: service.addresses.iter().map(|address| socket_address(address).to_string()).collect(),
        protocol: service.addresses.first().map_or("tcp", datapath::VirtualAddress::protocol_name).to_owned(),
        scheduler: view.machine.spec().scheduler.name().to_owned(),
        forward: service.forwarding.name().to_owned(),
        // Whoever has the kernel path says more.
        path: String::new(),
        by_kernel: view.offloaded,
        kernel_no_room: view.no_room,
        servers: view.machine.status(now).map(server).collect(),
        balancers: view.balancers.iter().map(|balancer| balancer_status(fabric, balancer)).collect(),
        counters: view.counters,
    }
}

fn balancer_status(fabric: &Fabric, view: &BalancerView) -> BalancerStatus {
    let BalancerView { host, role, connections, adopted, malformed } = *view;
    let balancer = fabric.topology.nodes[host].name.clone();
    BalancerStatus { balancer, role, connections, adopted, malformed }
}

/// Its name in results.
fn word(why: balance::Unavailable) -> String {
    let value = serde_json::to_value(why).unwrap_or_default();
    value.as_str().unwrap_or("out").to_owned()
}

/// What is to be done to a server.
#[derive(Clone, Debug)]
pub struct ServerOrder {
    service: String,
    server: String,
    kind: OrderKind,
}

/// What is done.
#[derive(Clone, Debug)]
pub enum OrderKind {
    /// What somebody wants.
    Change(ServerChange),
    /// What health checks say.
    Healthy(bool),
    /// What an agent says, as `HAProxy` would hear it.
    Agent(AgentCheck),
    /// What an agent says in numbers.
    Report(LoadReport),
    /// Nobody checks it any more, nor asks its agent.
    Forget,
    /// Its agent has fallen silent.
    ForgetAgent,
}

impl ServerOrder {
    /// For a server of a service, by their names.
    pub fn new(service: &str, server: &str, kind: OrderKind) -> Self {
        Self { service: service.to_owned(), server: server.to_owned(), kind }
    }
}

/// The way to the worker that has the services, for who wants no answer.
#[derive(Clone, Debug)]
pub struct ServerOrders {
    commands: Sender<Command>,
    waker: Arc<Waker>,
}

impl ServerOrders {
    /// Hands an order over.
    pub fn send(&self, order: ServerOrder) {
        // A worker that is gone has no servers.
        let (reply, _) = mpsc::channel();
        let _ = self.commands.send(Command::Server { order, reply });
        self.waker.notify();
    }
}

impl Worker {
    /// Whether there is such a server.
    #[cold]
    pub(super) fn change_server(&mut self, order: &ServerOrder) -> bool {
        let now = self.now();
        let mut is_there = false;
        for service in self.graph.service_machines(&order.service) {
            let Some(server) = service.server(&order.server) else { continue };
            is_there = true;
            match &order.kind {
                OrderKind::Change(ServerChange::Weight(weight)) => service.set_weight(now, server, *weight),
                OrderKind::Change(ServerChange::Drain(drains)) => service.drain(now, server, *drains),
                OrderKind::Healthy(is_healthy) => service.set_healthy(now, server, *is_healthy),
                OrderKind::Agent(said) => service.agent_check(now, server, said),
                OrderKind::Report(report) => service.report(now, server, *report),
                OrderKind::Forget => service.forget_checks(now, server),
                OrderKind::ForgetAgent => service.forget_agent(now, server),
            }
        }
        is_there
    }
}

impl DataPlane {
    /// Changes a server of a service. Whether there is one.
    pub fn change_server(&self, order: &ServerOrder) -> Result<bool, Error> {
        // Services are one worker's, and it is the first one.
        let Some(worker) = self.workers.first() else { return Ok(false) };
        let answer = worker.ask(|reply| Command::Server { order: order.clone(), reply });
        worker.await_answer(&answer, Instant::now() + self.patience).ok_or(Error::Worker { worker: 0 })
    }

    /// The way for orders that nobody waits for.
    pub fn server_orders(&self) -> Option<ServerOrders> {
        let worker = self.workers.first()?;
        Some(ServerOrders { commands: worker.commands(), waker: Arc::clone(&worker.waker) })
    }
}
