//! What a checked file says, as plain data for the drivers.

use std::collections::BTreeMap;

use datapath::KernelUse;
use link::LinkSpec;
use machine::Span;
use serde::{Deserialize, Serialize, Serializer};
use topology::{BondEnd, BondEndId, LinkId, NodeId, Rerouting, TiVec, Topology};
use transport::TransportSpec;
use transport::transfers::Sizes;
use vswitch::chain::Chains;
use vswitch::{AddressAlias, Spread};

mod bond;
mod chain;
mod cluster;
mod host;
mod requests;
mod service;
pub use bond::*;
use chain::{WrittenChain, WrittenFunction, written_chains, written_functions};
pub use cluster::*;
pub use host::*;
pub use requests::*;
pub use service::socket_address;
use service::{WrittenName, WrittenService, written_names, written_services};

use crate::{Metric, Overrides, Setting, SwitchSettings, SwitchTables};

/// A checked network and its experiments.
#[derive(Clone, Debug, PartialEq)]
pub struct Fabric {
    /// `name:` of the file, or its stem.
    pub name: String,
    /// One line about it, for reports. Empty when not given.
    pub description: String,
    /// Nodes and links, and which links are bonded.
    pub topology: Topology,
    /// What is at each end of the topology's bonds.
    pub bonds: TiVec<BondEndId, Bond>,
    /// How packets are spread over equal-cost paths.
    pub spread: Spread,
    /// `routes:` of the file: whether they lead around links that are down.
    pub rerouting: Rerouting,
    /// Whether the kernel carries what hosts say to each other.
    pub kernel: KernelUse,
    /// The hosts' maximum transmission unit in bytes, without the Ethernet header.
    pub mtu: u32,
    /// The seed of all randomness when the command line gives none.
    pub seed: u64,
    /// By switch: what its tables have when it starts. A switch that is not in it has none, and forwards along the routes.
    pub flow_tables: BTreeMap<NodeId, SwitchTables>,
    /// By switch: what is said about it and its ports. Of those that are not in it nothing is.
    pub switches: BTreeMap<NodeId, SwitchSettings>,
    /// Functions, and which packets pass them on their way.
    pub chains: Chains,
    /// By function: what it does to packets of both directions when simulated.
    pub simulated_functions: Vec<LinkSpec>,
    /// Several servers behind one address each.
    pub services: Vec<datapath::Service>,
    /// Names that lead to one of several services.
    pub names: Vec<datapath::ServedName>,
    /// By name of the host: what runs in it and what it finds there. Those that have nothing of this are left out.
    pub setups: BTreeMap<String, HostSetup>,
    /// The controllers. A file may have them and no network: then the topology is empty, and all experiments ask
    /// the controllers.
    pub controllers: Option<Controllers>,
    /// In the order of the file.
    pub experiments: Vec<Experiment>,
}

impl Fabric {
    /// Addresses that no host has, but functions of chains, services and name servers.
    pub fn aliases(&self) -> Vec<AddressAlias> {
        let mut aliases = self.chains.aliases();
        aliases.extend(datapath::Service::aliases(&self.services));
        aliases.extend(datapath::ServedName::aliases(&self.names, &self.services));
        aliases
    }
}

impl Serialize for Fabric {
    /// A bond's end is one object, though its place in the graph and what is there are apart here.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written<'a> {
            name: &'a str,
            description: &'a str,
            #[serde(flatten)]
            topology: &'a Topology,
            #[serde(skip_serializing_if = "Vec::is_empty")]
            bonds: Vec<WrittenBond<'a>>,
            spread: Spread,
            routes: Rerouting,
            #[serde(skip_serializing_if = "Option::is_none")]
            kernel: Option<&'static str>,
            mtu: u32,
            seed: u64,
            #[serde(skip_serializing_if = "BTreeMap::is_empty")]
            flow_tables: BTreeMap<&'a str, &'a SwitchTables>,
            #[serde(skip_serializing_if = "BTreeMap::is_empty")]
            switches: BTreeMap<&'a str, &'a SwitchSettings>,
            #[serde(skip_serializing_if = "Vec::is_empty")]
            functions: Vec<WrittenFunction<'a>>,
            #[serde(skip_serializing_if = "Vec::is_empty")]
            chains: Vec<WrittenChain<'a>>,
            #[serde(skip_serializing_if = "Vec::is_empty")]
            services: Vec<WrittenService<'a>>,
            #[serde(skip_serializing_if = "Vec::is_empty")]
            names: Vec<WrittenName<'a>>,
            #[serde(skip_serializing_if = "BTreeMap::is_empty")]
            setups: &'a BTreeMap<String, HostSetup>,
            #[serde(skip_serializing_if = "Option::is_none")]
            controllers: &'a Option<Controllers>,
            experiments: &'a [Experiment],
        }
        #[derive(Serialize)]
        struct WrittenBond<'a> {
            #[serde(flatten)]
            place: &'a BondEnd,
            #[serde(flatten)]
            bond: &'a Bond,
        }
        let Self {
            name,
            description,
            topology,
            bonds,
            spread,
            rerouting,
            kernel,
            mtu,
            seed,
            flow_tables,
            switches,
            chains,
            simulated_functions,
            services,
            names,
            setups,
            controllers,
            experiments,
        } = self;
        let functions = written_functions(topology, chains, simulated_functions);
        let chains = written_chains(topology, chains);
        let names = written_names(names, services);
        let services = written_services(topology, services);
        let flow_tables = flow_tables.iter().map(|(id, tables)| (topology.nodes[*id].name.as_str(), tables)).collect();
        let switches = switches.iter().map(|(id, settings)| (topology.nodes[*id].name.as_str(), settings)).collect();
        let bonds = topology.bonds.iter().zip(bonds).map(|(place, bond)| WrittenBond { place, bond }).collect();
        let (spread, routes, kernel, mtu, seed) = (*spread, *rerouting, *kernel, *mtu, *seed);
        let kernel = (kernel != KernelUse::No).then(|| kernel.name());
        let written = Written {
            name,
            description,
            topology,
            bonds,
            spread,
            routes,
            kernel,
            mtu,
            seed,
            flow_tables,
            switches,
            functions,
            chains,
            services,
            names,
            setups,
            controllers,
            experiments,
        };
        written.serialize(serializer)
    }
}

/// A measurement to make.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Experiment {
    /// Unique in the file.
    pub name: String,
    /// One line for the report. Empty when not given.
    pub title: String,
    /// What goes on in it.
    #[serde(flatten)]
    pub work: Work,
    /// What changes from case to case: the cases are the cross product, first axis slowest. Empty: one case.
    pub vary: Vec<Axis>,
    /// How long each run is measured, after the warm-up. Asked of the controllers, a run lasts so long at least.
    #[serde(rename = "for")]
    pub duration: Span,
    /// How long each run goes before measuring starts.
    pub warm_up: Span,
    /// Whether the file says so: it is none where it does not.
    #[serde(skip)]
    pub is_warm_up_given: bool,
    /// The step of what is recorded over the measured time; `None`: nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_series: Option<Span>,
    /// Runs of each case; with `until`: at most.
    pub repeat: u32,
    /// What ends them before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// What must hold for the run to pass.
    pub expect: Vec<Expectation>,
    /// What others measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
    /// Which metrics the table shows, in order. Empty: the usual ones.
    pub report: Vec<Metric>,
}

/// A case has been run often enough when the 99 % confidence interval of a metric's mean is narrow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Until {
    /// Half the width of the interval at most, as a fraction of the mean.
    pub share: f64,
    /// Of which metric; `None`: of the first that the table shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<Metric>,
    /// The least runs of each case: with fewer, an interval may be narrow by chance.
    pub at_least: u32,
}

/// What goes on in an experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Hosts talk to hosts.
    Traffic(Traffic),
    /// The controllers are asked.
    Cluster(ClusterLoad),
}

impl Work {
    /// The traffic, where hosts talk to hosts.
    pub const fn traffic(&self) -> Option<&Traffic> {
        match self {
            Self::Traffic(traffic) => Some(traffic),
            Self::Cluster(_) => None,
        }
    }

    /// The load, where the controllers are asked.
    pub const fn cluster(&self) -> Option<&ClusterLoad> {
        match self {
            Self::Traffic(_) => None,
            Self::Cluster(load) => Some(load),
        }
    }
}

/// Who talks to whom, and how.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Traffic {
    /// Which pairs of hosts.
    pub pattern: Pattern,
    /// The transport of the flows.
    pub transport: TransportSpec,
    /// How many flows each pair has. What they do together is what is measured of the pair.
    #[serde(skip_serializing_if = "is_one")]
    pub streams: u32,
    /// Numbered datagrams a second of each flow, at an even pace, one segment each; only with UDP. `None`: as fast as the
    /// transport goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_pps: Option<u64>,
    /// Connections that come and go, in place of flows without end; only with TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfers: Option<Transfers>,
    /// Requests to a service, in place of all other traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<Box<RequestLoad>>,
    /// The faults that are injected into links meanwhile, by time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<LinkFault>,
    /// What switches the packets of the flows.
    #[serde(skip_serializing_if = "SwitchedBy::is_heddle")]
    pub switched_by: SwitchedBy,
}

/// What switches the packets of an experiment's flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SwitchedBy {
    /// The network of the file.
    #[default]
    Heddle,
    /// A bridge of the kernel, to which each host of the flows has another device.
    LinuxBridge,
    /// Open vSwitch with its datapath in user space, likewise.
    Openvswitch,
}

impl SwitchedBy {
    /// Whether it is the network of the file.
    pub const fn is_heddle(&self) -> bool {
        matches!(self, Self::Heddle)
    }
}

/// Connections that come and go between the hosts of each pair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Transfers {
    /// Payload of each.
    #[serde(rename = "size_bytes")]
    pub size: Sizes,
    /// The mean time from the beginning of one to that of the next.
    pub every: Span,
}

/// A link loses its carrier, or has it back. What is on it is lost then; bonds hear of it at once, and so do routes, unless the file says
/// `routes: fixed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkFault {
    /// When, since measuring began.
    pub at: Span,
    /// The nodes that it joins.
    pub between: (NodeId, NodeId),
    /// Which of the parallel ones, from 1; `None`: all of them.
    pub number: Option<u32>,
    /// Whether it has a carrier from then on.
    pub up: bool,
}

impl LinkFault {
    /// The links that it is injected into in `fabric`, which may have other numbers of members than the file.
    pub fn links(&self, fabric: &Fabric) -> Vec<LinkId> {
        let (a, b) = self.between;
        let mut all = fabric.topology.links_between(a, b);
        match self.number {
            None => all.collect(),
            Some(number) => (number as usize).checked_sub(1).and_then(|at| all.nth(at)).into_iter().collect(),
        }
    }
}

/// What all files had before there was a choice is left out.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_one(number: &u32) -> bool {
    *number == 1
}

/// Pairs of hosts. Hosts are numbered as in [`Topology::nodes`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Each host sends to another one, drawn uniformly.
    Random,
    /// Host x sends to host (x + i) mod n.
    Stride(u32),
    /// To a host of the same edge switch with the first probability, of the same pod with the second, else elsewhere.
    Staggered(f64, f64),
    /// Each host sends to one other and receives from one other, drawn uniformly among derangements.
    Permutation,
    /// The first host receives from n others; there are as many.
    Incast(u32),
    /// Every host to every other.
    AllToAll,
    /// Just these.
    Pairs(Vec<(NodeId, NodeId)>),
}

/// One thing that changes from case to case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Axis {
    /// `spread`, `routes`, `pattern`, `transport`, `window`, `links.rate`, ...: as written in the file.
    pub key: String,
    /// The values as written in the file, and what each sets.
    pub values: Vec<(String, Setting)>,
}

/// One combination of an experiment's axes, ready to run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Case {
    /// Axis and value as written, in the order of the axes.
    pub labels: Vec<(String, String)>,
    /// What goes on in it.
    #[serde(flatten)]
    pub work: Work,
    /// What this case changes in the fabric.
    pub overrides: Overrides,
}

/// A claim about a metric that decides the exit status.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Expectation {
    /// What is looked at.
    pub metric: Metric,
    /// Only cases whose labels are these (axis, value as written).
    pub only: Vec<(String, String)>,
    /// Only this driver, if given.
    pub driver: Option<DriverKind>,
    /// What must hold of the mean over the runs.
    pub bound: Bound,
    /// As written in the file, for messages.
    pub text: String,
    /// The line of the file, from 1.
    pub line: usize,
}

/// A figure of somebody else's, which tables show beside the measured one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Published {
    /// Of what.
    pub metric: Metric,
    /// Only of cases whose labels are these (axis, value as written).
    pub only: Vec<(String, String)>,
    /// In the metric's unit.
    pub value: f64,
}

/// Live or simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DriverKind {
    /// Real packets between real programs.
    Live,
    /// The event queue.
    Sim,
}

/// What a metric's mean over the runs is held against, in the metric's unit (bit/s, packets, seconds, bytes, fractions).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// `>= x`
    AtLeast(f64),
    /// `<= x`
    AtMost(f64),
    /// `x +- y` (`245.5 Mbit/s +- 1 %`)
    Within {
        /// The middle.
        of: f64,
        /// The largest distance.
        by: f64,
    },
}
