//! The network in which packets are followed: what a file says, or how a running one is now.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use datapath::{BalancerRole, ServerState, Tracer};
use fabric::{Fabric, FlowCommand, FlowInput, find_switch, table_changes};
use live::Instance;
use live::control::{BalancerStatus, BondState, FlowEntry, NameStatus, ServerStatus, ServiceStatus, SwitchFlows};
use miette::Report;
use rstp::PortState;
use topology::{BondEndId, LinkId, NodeId, PortId, Rerouting, Routes};
use vswitch::flow_table::{Group, TableChange};
use vswitch::spread::FlowHash;
use vswitch::{Switch, Trace, trace};

use crate::commands::explain;

/// The network, and what is known of how it is now.
pub struct Network {
    pub fabric: Fabric,
    /// Those of its switches, and then of its multi-homed hosts; empty: what the file's seed gives.
    salts: Vec<u64>,
    down: BTreeSet<LinkId>,
    /// The ingresses of instances of functions that are down.
    functions_down: Vec<NodeId>,
    /// How services stand. Only of a network that runs; else the file says it.
    services: Vec<ServiceStatus>,
    /// How names stand. The same holds.
    names: Vec<NameStatus>,
    /// How bonds are. The same holds.
    bonds: Vec<BondState>,
    /// By switch: what its tables have. Only of a network that runs; else the file says it.
    tables: Option<BTreeMap<NodeId, Vec<TableChange>>>,
}

impl Network {
    /// As it comes up; files that it names are relative to this folder.
    pub fn of_file(fabric: Fabric, folder: &Path) -> Result<Self, Report> {
        let fabric = live::with_countries(fabric, folder).map_err(explain)?;
        let (salts, functions_down, services, names) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let bonds = Vec::new();
        Ok(Self { fabric, salts, down: BTreeSet::new(), functions_down, services, names, bonds, tables: None })
    }

    /// As it is now: its links, its functions, the servers of its services, the flows in its switches. What connection tracking, firewalls and schedulers remember is not
    /// asked.
    pub fn running(instance: &Instance, fabric: Fabric) -> Result<Self, Report> {
        let counters = instance.counters().map_err(explain)?;
        let folder = instance.status().map_err(explain)?.folder;
        let fabric = live::with_countries(fabric, Path::new(&folder)).map_err(explain)?;
        let topology = &fabric.topology;
        let links = topology.links.keys().zip(&counters.links);
        let mut down: BTreeSet<LinkId> = links.filter(|(_, link)| !link.up).map(|(id, _)| id).collect();
        for bridge in instance.bridges().map_err(explain)? {
            let Some(switch) = topology.node(&bridge.switch) else { continue };
            let closed = bridge.status.ports.iter().filter(|port| port.state != PortState::Forwarding);
            let links = closed.filter_map(|port| topology.nodes[switch].ports.get(PortId(port.port)));
            down.extend(links.map(|(link, _)| *link));
        }
        let hops = counters.chains.iter().flat_map(|chain| &chain.hops);
        let functions_down = hops.filter(|hop| !hop.up).filter_map(|hop| topology.node(&hop.function)).collect();
        let salts = instance.salts().map_err(explain)?;
        let mut tables = BTreeMap::new();
        for flows in instance.flows(None, "").map_err(explain)? {
            let switch = find_switch(topology, &flows.switch).map_err(|error| explain(error.into()))?;
            tables.insert(switch, changes((&fabric, switch), &flows)?);
        }
        let (services, names, bonds) = (counters.services, counters.names, counters.bonds);
        Ok(Self { fabric, salts, down, functions_down, services, names, bonds, tables: Some(tables) })
    }

    /// Has services open connections at their first segments, be it one too many. Those that would not, by their numbers in the file.
    pub fn open_without_cookies(&mut self) -> Vec<usize> {
        let services = self.fabric.services.iter_mut().enumerate().filter(|(_, service)| service.half_open_max == 0);
        services.map(|(number, service)| (service.half_open_max = 1, number).1).collect()
    }

    /// How names stand, where it runs.
    pub fn names(&self) -> &[NameStatus] {
        &self.names
    }

    /// Whether it runs.
    pub const fn is_running(&self) -> bool {
        self.tables.is_some()
    }

    /// Whether any switch has tables of flows.
    pub fn has_flows(&self) -> bool {
        self.tables.as_ref().map_or(!self.fabric.flow_tables.is_empty(), |tables| !tables.is_empty())
    }

    /// Whether a switch has tables of flows.
    pub fn has_flows_at(&self, switch: NodeId) -> bool {
        self.tables
            .as_ref()
            .map_or_else(|| self.fabric.flow_tables.contains_key(&switch), |tables| tables.contains_key(&switch))
    }

    /// Whether a link carries anything.
    pub fn carries(&self, link: LinkId) -> bool {
        !self.down.contains(&link)
    }

    /// Whether an end of a bond sends on all members whose links carry, as far as anybody has asked.
    pub fn all_send(&self, end: BondEndId) -> bool {
        let topology = &self.fabric.topology;
        let place = &topology.bonds[end];
        let is_it = |bond: &&BondState| bond.node == topology.nodes[place.node].name && bond.name == place.name;
        let members = self.bonds.iter().find(is_it).map_or(&[][..], |bond| &bond.members);
        members.iter().zip(topology.bond_links(end)).all(|(member, link)| member.sends || !self.carries(link))
    }

    /// How packets are routed now.
    pub fn routes(&self) -> Routes {
        match self.fabric.rerouting {
            Rerouting::Follow => Routes::around(&self.fabric.topology, |link| self.carries(link)),
            Rerouting::Fixed => Routes::compute(&self.fabric.topology),
        }
    }

    /// The same network, in which nothing has been sent.
    pub fn tracer(&self) -> Tracer {
        let fabric = &self.fabric;
        let pipelines = match &self.tables {
            Some(tables) => fabric.pipelines_with(tables.clone(), fabric.seed.into()),
            None => fabric.pipelines(fabric.seed.into()),
        };
        let down: Vec<LinkId> = self.down.iter().copied().collect();
        let mut tables = fabric.tables(pipelines, fabric.seed);
        // Which ports are closed is known: links that they lead to carry nothing here.
        tables.ports = tables.ports.with_bridges(BTreeMap::new());
        let randomness = (fabric.spread, fabric.seed, &*self.salts);
        let mut tracer = Tracer::new(&fabric.topology, tables, (self.routes(), &down[..]), randomness);
        for ingress in &self.functions_down {
            tracer.take_function_down(*ingress);
        }
        for status in &self.services {
            for balancer in status.balancers.iter().filter(|balancer| balancer.role == BalancerRole::Active) {
                if let Some(host) = fabric.topology.node(&balancer.balancer) {
                    tracer.set_active_balancer(&status.service, host);
                }
            }
            for (server, weight) in status.servers.iter().zip(weights(&status.servers)) {
                let ServerStatus { active, inactive, ref out, .. } = *server;
                let is_healthy = !matches!(out.as_deref(), Some("down" | "ejected"));
                let is_drained = is_healthy && out.is_some();
                let state = ServerState { weight, active, inactive, is_drained, is_healthy };
                tracer.set_server(&status.service, &server.server, state);
            }
        }
        tracer
    }

    /// Balancers of a service at hosts, and how each does; empty if nobody knows.
    pub fn balancers(&self, service: &str) -> &[BalancerStatus] {
        let status = self.services.iter().find(|status| status.service == service);
        status.map_or(&[], |status| &status.balancers)
    }

    /// That nobody takes packets for a service, if all of its balancers at hosts are down.
    pub fn unbalanced(&self, service: &str) -> Option<String> {
        let status = self.services.iter().find(|status| status.service == service)?;
        unbalanced(status)
    }

    /// The servers of a service of the file.
    pub fn servers(&self, service: &datapath::Service) -> Vec<ServerNow> {
        let now = self.services.iter().find(|status| status.service == service.name);
        let Some(now) = now else {
            let servers = service.spec.servers.iter();
            return servers.map(|spec| ServerNow { name: spec.name.clone(), weight: spec.weight, out: None }).collect();
        };
        let weights = weights(&now.servers).into_iter();
        let server = |(status, weight): (&ServerStatus, u32)| ServerNow {
            name: status.server.clone(),
            weight,
            out: status.out.clone(),
        };
        now.servers.iter().zip(weights).map(server).collect()
    }

    /// All paths along the routes from one node to a host: of one flow, if its hash is known.
    pub fn along_routes(&self, routes: &Routes, ends: (NodeId, NodeId), hash: Option<FlowHash>) -> Trace {
        let Fabric { topology, spread, seed, .. } = &self.fabric;
        let nodes = topology.switches().map(|(id, _)| id).chain(topology.multi_homed()).enumerate();
        let switch = |(at, id): (usize, NodeId)| {
            let switch = Switch::new(id, *spread, routes, *seed);
            (
                id,
                match self.salts.get(at) {
                    Some(salt) => switch.with_salt(*salt),
                    None => switch,
                },
            )
        };
        let switches: BTreeMap<NodeId, Switch> = nodes.map(switch).collect();
        trace(topology, routes, |id| switches.get(&id), ends, (hash, |link| self.carries(link)))
    }
}

/// That nobody takes packets for a service, if all of its balancers at hosts are down.
pub fn unbalanced(status: &ServiceStatus) -> Option<String> {
    let is_down = |balancer: &BalancerStatus| balancer.role == BalancerRole::Down;
    let names: Vec<&str> = status.balancers.iter().map(|it| it.balancer.as_str()).collect();
    (!names.is_empty() && status.balancers.iter().all(is_down)).then(|| {
        let service = &status.service;
        format!(
            "Nobody takes packets for `{service}`: no link of its balancers has a carrier ({}); `heddle link up HOST SWITCH` gives it back",
            names.join(", ")
        )
    })
}

/// A server of a service.
pub struct ServerNow {
    pub name: String,
    /// Its share.
    pub weight: u32,
    /// Why it gets no connections, if it gets none.
    pub out: Option<String>,
}

/// The shares of servers. Where an agent asks for a part of one, all come in hundredths, which need not fit.
fn weights(servers: &[ServerStatus]) -> Vec<u32> {
    let most = servers.iter().map(|server| server.weight).max().unwrap_or(0);
    let divisor = if most > balance::WEIGHT_MAX { 100 } else { 1 };
    servers.iter().map(|server| server.weight.div_ceil(divisor)).collect()
}

/// What makes new tables those of a running switch.
fn changes((fabric, switch): (&Fabric, NodeId), flows: &SwitchFlows) -> Result<Vec<TableChange>, Report> {
    let read = |command, texts: Vec<String>| {
        let inputs: Vec<FlowInput> = texts.into_iter().map(FlowInput::of_command_line).collect();
        table_changes((&fabric.topology, switch), (command, false), &inputs)
    };
    let meters = flows.meters.iter().map(|meter| meter.text.clone()).collect();
    let mut changes = read(FlowCommand::AddMeter, meters)?;
    let groups = read(FlowCommand::AddGroup, flows.groups.clone())?.into_iter().filter_map(|change| match change {
        TableChange::AddGroup(group) => Some(group),
        _ => None,
    });
    changes.extend(Group::in_order_of_names(groups.collect()).into_iter().map(TableChange::AddGroup));
    changes.extend(read(FlowCommand::Add, flows.entries.iter().map(text_of).collect())?);
    Ok(changes)
}

/// A flow as it is added. It stays: no time passes where packets are followed.
fn text_of(entry: &FlowEntry) -> String {
    let FlowEntry { table, priority, matching, actions, .. } = entry;
    let comma = if matching.is_empty() { "" } else { "," };
    format!("table={table},priority={priority}{comma}{matching},actions={actions}")
}
