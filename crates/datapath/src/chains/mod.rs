//! Service chains, compiled: what a packet is asked where it leaves a host, and what has become of those that were steered.
//!
//! ```text
//!   host --depart--> classified by rule, once --> forwarding.to = ingress of the first function --> routes
//!   function --depart--> its port says chain, course and function --> forwarding.to = the next function, or the destination --> routes
//! ```
//!
//! A built-in function has no port: a packet is shown to it on its way to the next one that has (`built_in.rs`).
//!
//! A packet is steered where it leaves a host, by writing another destination on it: so links, switches, bonds, flow tables and remembered paths
//! carry it as any other, over as many switches as there are.

mod built_in;
mod state;
mod steer;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use machine::Span;
use topology::{HostAddress, NetPort, NodeId, Topology};
use vswitch::chain::{Chains, FunctionKind, OnFailure};
use vswitch::flow_table::Match;
use vswitch::functions::{BuiltIn, Course};

pub use state::{BuiltInState, ChainState, CourseCounters, HopCounters, InstanceState};

/// The chains of a network in the form in which packets look them up. Does not change.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Steering {
    /// By host; empty where there are no chains.
    steps: Vec<Step>,
    /// By port of a function, those of the first one first: the instance that it is of, and the course of what comes to it.
    arrivals: Vec<Option<(u32, Course)>>,
    /// The first host that is a port of a function.
    first_function_port: u32,
    /// By host: whether what others send it may have to pass a chain.
    receives: Vec<bool>,
    /// By number in [`Step::Classify`]: which packets enter which chain; the first one that fits counts.
    rules: Vec<Vec<Rule>>,
    /// The broadcast addresses of hosts' subnets, ascending.
    broadcasts: Vec<Ipv4Addr>,
    /// By chain.
    paths: Vec<ServicePath>,
    /// Of all functions of all chains, in order.
    instances: Vec<Instance>,
    /// Likewise, of functions that are built in.
    built_in: Vec<BuiltInHop>,
}

/// What is done with a packet that leaves a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Nothing.
    Plain,
    /// It may enter a chain.
    Classify(u32),
    /// It has come from this instance of a function, by its egress or its ingress: it is on this course.
    Continue(u32, Course),
    /// It has come from a function that no chain has, or by the port that its chain only sends to: nobody waits for it.
    Stray,
}

/// Which packets enter a chain.
#[derive(Debug, PartialEq, Eq)]
struct Rule {
    chain: u32,
    course: Course,
    /// For these hosts, ascending.
    to: Box<[NodeId]>,
    /// `None`: all of those.
    matching: Option<Match>,
}

/// A chain.
#[derive(Debug, PartialEq, Eq)]
struct ServicePath {
    /// By function.
    hops: Vec<Hop>,
    /// By course: where its packets go in the end, if that is one host only.
    ends: [Option<NodeId>; 2],
    on_failure: OnFailure,
}

/// A function of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hop {
    /// It has ports: the first of its instances, and how many there are.
    Instances(u32, u32),
    /// It is built in, and has this number among those.
    BuiltIn(u32),
}

/// A function that is built in.
#[derive(Debug, PartialEq, Eq)]
struct BuiltInHop {
    /// Unique in the network.
    name: String,
    built_in: BuiltIn,
}

/// An instance of a function that a chain has.
#[derive(Debug, PartialEq, Eq)]
struct Instance {
    chain: u32,
    /// Its function's place in the chain.
    hop: u32,
    /// Its ingress and its egress.
    ports: [NodeId; 2],
    timeout: Span,
}

impl Steering {
    /// The chains of a network. `has_services`: packets are for services, so that all that leaves hosts is looked at.
    pub fn new(topology: &Topology, chains: &Chains, has_services: bool) -> Self {
        if chains.functions.is_empty() && !has_services {
            return Self::default();
        }
        let hosts = topology.hosts as usize;
        let mut steering = Self { steps: vec![Step::Plain; hosts], receives: vec![false; hosts], ..Self::default() };
        steering.first_function_port = topology.first_function_port().0;
        steering.arrivals = vec![None; topology.function_ports as usize];
        for (host, step) in steering.steps.iter_mut().enumerate() {
            if topology.is_function_port(host.into()) {
                *step = Step::Stray;
            }
        }
        steering.broadcasts = broadcasts(topology);
        for (number, chain) in chains.chains.iter().enumerate() {
            let mut hops = Vec::with_capacity(chain.functions.len());
            for (hop, function) in chain.functions.iter().map(|function| &chains.functions[*function]).enumerate() {
                let (instances, timeout) = match &function.kind {
                    FunctionKind::External { instances, timeout } => (instances, *timeout),
                    FunctionKind::BuiltIn(built_in) => {
                        hops.push(Hop::BuiltIn(steering.built_in.len() as u32));
                        let (name, built_in) = (function.name.clone(), built_in.clone());
                        steering.built_in.push(BuiltInHop { name, built_in });
                        continue;
                    }
                };
                hops.push(Hop::Instances(steering.instances.len() as u32, instances.len() as u32));
                for ports in instances {
                    let id = steering.instances.len() as u32;
                    let instance = Instance { chain: number as u32, hop: hop as u32, ports: *ports, timeout };
                    steering.instances.push(instance);
                    for (port, course) in ports.iter().zip(Course::BOTH) {
                        steering.arrivals[(port.0 - steering.first_function_port) as usize] = Some((id, course));
                    }
                    steering.steps[usize::from(ports[1])] = Step::Continue(id, Course::Forward);
                    if chain.is_both_ways {
                        steering.steps[usize::from(ports[0])] = Step::Continue(id, Course::Reverse);
                    }
                }
            }
            let only = |hosts: &[NodeId]| if let [only] = hosts { Some(*only) } else { None };
            let (ends, on_failure) = ([only(&chain.to), only(&chain.from)], chain.on_failure);
            steering.paths.push(ServicePath { hops, ends, on_failure });
            let matching = Some(chain.matching).filter(|matching| !matching.is_for_all());
            steering.classify(&chain.from, &chain.to, (number as u32, Course::Forward), matching);
            if chain.is_both_ways {
                let reversed = matching.map(|matching| matching.reversed());
                steering.classify(&chain.to, &chain.from, (number as u32, Course::Reverse), reversed);
            }
        }
        steering
    }

    fn classify(&mut self, from: &[NodeId], to: &[NodeId], (chain, course): (u32, Course), matching: Option<Match>) {
        for host in to {
            self.receives[usize::from(*host)] = true;
        }
        for host in from {
            let step = &mut self.steps[usize::from(*host)];
            let number = if let Step::Classify(number) = *step {
                number
            } else {
                *step = Step::Classify(self.rules.len() as u32);
                self.rules.push(Vec::new());
                self.rules.len() as u32 - 1
            };
            self.rules[number as usize].push(Rule { chain, course, to: to.into(), matching });
        }
    }

    /// Whether packets for this address are for all hosts of a subnet.
    fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        address.is_broadcast() || self.broadcasts.binary_search(&address).is_ok()
    }

    /// Whether no packet is steered.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether packets are shown to this host that are for others.
    pub fn mirrors_to(&self, host: NodeId) -> bool {
        self.built_in.iter().any(|hop| hop.built_in.mirrors_to() == Some(host))
    }

    /// Whether a packet may come to a host that it is not for, or with other addresses than it was sent with.
    pub fn rewrites(&self) -> bool {
        let is_one = |hop: &BuiltInHop| hop.built_in.mirrors_to().is_some() || hop.built_in.nat().is_some();
        self.built_in.iter().any(is_one)
    }

    /// What is done with what leaves a host.
    #[inline]
    fn step(&self, node: NodeId) -> Step {
        self.steps.get(usize::from(node)).copied().unwrap_or(Step::Plain)
    }

    /// Whether no chain takes what a host sends.
    pub(crate) fn is_plain(&self, node: NodeId) -> bool {
        matches!(self.step(node), Step::Plain)
    }

    /// Whether what others send a host may have to pass a chain.
    pub(crate) fn is_receiver(&self, node: NodeId) -> bool {
        self.receives.get(usize::from(node)).copied().unwrap_or(false)
    }

    /// Whether a host is a port of a function.
    pub(crate) fn is_function_port(&self, node: NodeId) -> bool {
        matches!(self.step(node), Step::Continue(..) | Step::Stray)
    }

    /// The instance to which what comes to a host has come, and on which course.
    #[inline]
    fn arrival(&self, host: NodeId) -> Option<(u32, Course)> {
        *self.arrivals.get(host.0.checked_sub(self.first_function_port)? as usize)?
    }

    /// The instance that has this host as a port, and whether that is its egress.
    pub(crate) fn instance_at(&self, node: NodeId) -> Option<(usize, bool)> {
        let position = |ports: &[NodeId; 2]| ports.iter().position(|port| *port == node);
        self.instances.iter().enumerate().find_map(|(id, instance)| Some((id, position(&instance.ports)? == 1)))
    }

    /// The port by which what comes to one port of an instance leaves it.
    pub(crate) fn other_port(&self, node: NodeId) -> Option<NodeId> {
        let (id, is_egress) = self.instance_at(node)?;
        Some(self.instances[id].ports[usize::from(!is_egress)])
    }

    /// The port of the switch that leads to the ingress of an instance.
    fn towards_ingress(&self, map: &crate::Map, instance: usize) -> NetPort {
        map.far(map.port(self.instances[instance].ports[0], topology::PortId(0)))
    }
}

/// The broadcast addresses of the subnets that hosts are in, ascending.
fn broadcasts(topology: &Topology) -> Vec<Ipv4Addr> {
    let addresses = topology.addressed_hosts().filter_map(|(host, _)| topology.address(host));
    // Subnets of two have none (RFC 3021).
    let subnets = addresses.filter(|address| address.ipv4_prefix <= 30);
    let last = |address: &HostAddress| address.ipv4.to_bits() | (u32::MAX >> address.ipv4_prefix);
    let broadcasts: BTreeSet<Ipv4Addr> = subnets.map(|address| Ipv4Addr::from_bits(last(address))).collect();
    broadcasts.into_iter().collect()
}
