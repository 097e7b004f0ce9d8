//! What may stand in a fabric file: its sections as they are written, before they are checked against each other.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use datapath::KernelUse;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use topology::Rerouting;
use vswitch::Spread;

use crate::addresses::{Mac, WithPrefix};
use crate::bonds::BondText;
use crate::chains::{ChainText, FunctionText};
use crate::cluster::ClusterText;
use crate::controllers::{ControllersText, Flag};
use crate::error::Problems;
use crate::flows::BySwitch;
use crate::host_setup::SetupText;
use crate::interfaces::InterfaceText;
use crate::links::{LinkText, Links};
use crate::parameters::{parameters, plain};
use crate::quantity::{Bytes, Length, Whole};
use crate::read::{Device, Fields, Mapping, Name, Read, Text, expected, section};
use crate::repeat::RepeatText;
use crate::services::{DnsName, NameText, ServiceText};
use crate::source::At;
use crate::switches::SwitchText;
use crate::topologies::TopologyText;
use crate::traffic::TrafficText;
use crate::tree::{Node, Value};
use crate::vary::Vary;
use crate::vm::{FilePath, VmText};
use crate::words::{Choice, Words, words};
use crate::{Fabric, Metric};

/// An hour in milliseconds.
const HOUR: u64 = 3_600_000;
/// What the longest frame that Linux's devices have leaves beside Ethernet's header.
pub(crate) const MTU_MAX: u64 = 65_521;
/// What IPv6 needs.
pub(crate) const MTU_MIN: u64 = 1_280;
/// The highest 53-bit whole number: what JSON carries without loss.
const LARGEST_SEED: u64 = (1 << 53) - 1;

parameters! {
    /// What a case sets in the whole network.
    #[derive(Copy, Eq, serde::Deserialize)]
    NetworkSetting, NetworkAxis of Fabric;

    /// One network, and the experiments run on it.
    File {
        /// The fabric's name: of its results and its namespaces. Without it: the file's name.
        "name" => name: Option<At<Name>>;
        /// One line about it, for reports.
        "description" => description: Option<Text>;
        /// A network made by rule. Or else `nodes` and `links` name everything.
        "topology" => topology: Option<At<TopologyText>>;
        /// Hosts and switches by name, for a network without `topology`.
        "nodes" => nodes: Option<At<Mapping<Name, NodeText>>>;
        /// With `topology`: what links do to packets. With `nodes`: the list of the links.
        "links" => links: Option<At<Links>>;
        /// With `nodes`: what each link does that doesn't say otherwise.
        "link-defaults" => link_defaults: Option<At<LinkText>>;
        /// With `topology`: addresses of hosts that shall not have the ones of their position, and what runs in hosts.
        "hosts" => hosts: Option<At<Mapping<Name, HostText>>>;
        /// What switches do besides forwarding, and their ports, by the switches' names: VLANs, learned addresses, storm control, devices of the machine.
        "switches" => switches: Option<At<Mapping<Name, SwitchText>>>;
        /// Links between two nodes that are used as one.
        "bonds" => bonds: Option<At<Vec<At<BondText>>>>;
        /// The hosts' maximum transmission unit in bytes, without the Ethernet header. 1500 when not given.
        "mtu" => mtu: Option<Bytes<MTU_MIN, MTU_MAX>>;
        /// The seed of all randomness when the command line gives none. 1 when not given.
        "seed" => seed: Option<Whole<0, LARGEST_SEED>>;
        /// How packets are spread over equal-cost paths. `ecmp` when not given.
        "spread" => spread: Option<Choice<Spread>>, vary {
            /// How packets are spread.
            "spread": Choice<Spread> => Policy Spread(Spread), plain, |fabric, spread| fabric.spread = *spread
        };
        /// Whether routes lead around links that are down (`follow`), or stay those of the whole network (`fixed`). `follow` when not given.
        "routes" => routes: Option<Choice<Rerouting>>, vary {
            /// Whether routes lead around links that are down.
            "routes": Choice<Rerouting> => Policy Routes(Rerouting), plain, |fabric, routes| fabric.rerouting = *routes
        };
        /// Whether links have the rates, delays, queues and losses that are written at them. `true` when not given. Without, they are as fast as the machine, and nothing is simulated.
        "shaping" => shaping: Option<Flag>, vary {
            /// Whether links have the rates, delays, queues and losses of the file.
            "shaping": Flag => Condition Shaping(bool), |text, context, problems| {
                if context.some_link_is_shaped(text.place, problems) { plain(text, context, problems) } else { None }
            },
            |fabric, is_shaped| if !is_shaped { fabric.topology.unshape() }
        };
        /// Whether the kernel carries what hosts say to each other at length, past the process that runs the network, as fast as between two devices of the machine: `no`, `auto` (where it can), `yes`
        /// (where it can; in a network in which it can't, that is a mistake). `no` when not given. It takes root, and links without rates.
        "kernel" => kernel: Option<At<Choice<KernelUse>>>;
        /// Flows of switches, by their names, as `ovs-ofctl add-flow` reads them: `leaf1: [ "priority=10,tcp,tp_dst=80,actions=drop" ]`. A switch that is named here
        /// has the flow `priority=0 actions=NORMAL` besides: what no other flow is for goes along the routes.
        "flows" => flows: Option<BySwitch>;
        /// Groups of switches, by their names, as `ovs-ofctl add-group` reads them: `leaf1: [ "group_id=1,type=select,bucket=output:2,bucket=output:3" ]`.
        "groups" => groups: Option<BySwitch>;
        /// Meters of switches, by their names, as `ovs-ofctl add-meter` reads them: `leaf1: [ "meter=1,kbps,burst,band=type=drop,rate=1000,burst_size=100" ]`. The flow
        /// `actions=meter:1,normal` has packets pass it.
        "meters" => meters: Option<BySwitch>;
        /// Functions of service chains, by name: what has two ports, and passes on by one what comes by the other.
        "functions" => functions: Option<At<Mapping<Name, FunctionText>>>;
        /// Service chains, by name: packets between some hosts pass functions in order. A packet that two would take goes by the first one.
        "chains" => chains: Option<At<Mapping<Name, ChainText>>>;
        /// Services, by name: several servers behind one address.
        "services" => services: Option<At<Mapping<Name, ServiceText>>>;
        /// Names that DNS leads to one of several services, by the services' health and load and by who asks: `www.example.net`.
        "names" => names: Option<At<Mapping<DnsName, NameText>>>;
        /// The controllers above the network. A file may have them alone, without a network.
        "controllers" => controllers: Option<At<ControllersText>>;
        /// What to measure, by name.
        "experiments" => experiments: Option<At<Mapping<Name, ExperimentText>>>;
    }
}

words!(NodeWord, "NodeWord", "a kind of node", {
    "host" => NodeWord::Host,
    "switch" => NodeWord::Switch,
    "vm" => NodeWord::Vm,
});

/// What a node is, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeWord {
    Host,
    Switch,
    /// A host that is a virtual machine.
    Vm,
}

section! {
    /// A node in full.
    NodeLong {
        ..vm: VmText,
        /// `host`, `switch`, or `vm`: a host that is a virtual machine.
        "kind" => kind: At<NodeWord>,
        /// A host's MAC address.
        "mac" => mac: Option<At<Mac>>,
        /// A host's IPv4 address, in 10.0.0.0/8, or any with the prefix of its subnet: `192.168.1.7/24`.
        "ipv4" => ipv4: Option<At<WithPrefix<Ipv4Addr>>>,
        /// A host's IPv6 address, in `fd68:6564:646c::/64`, or any with the prefix of its subnet. When not given beside an `ipv4` with a prefix, it is in a subnet that goes with that one.
        "ipv6" => ipv6: Option<At<WithPrefix<Ipv6Addr>>>,
        /// Whether a host with several links that are no bond passes on what comes to it for others. With `interfaces` its kernel does so, as a router. `false` when not given.
        "forward" => forward: Option<At<Flag>>,
        /// A host's links as interfaces of their own, `eth0`, `eth1` and so on in the order of the links, each with addresses of its own: by the node that the link leads to, or by
        /// its number from 0. Live only.
        "interfaces" => interfaces: Option<At<Mapping<Name, InterfaceText>>>,
        /// Network devices of the machine on which a host's links end, in their order: a guest's TAPs, a network card. The host is
        /// then what is behind them, and not made. Of the network namespace in which `heddle up` is called.
        /// `xdp:eth0` is the device eth0 by `AF_XDP`, for root: faster with small frames, slower with large segments. `null:` is a device with nobody behind it,
        /// `null:64` sends frames of 64 bytes to all hosts on such devices as fast as they are taken.
        /// `pcap:FILE` plays a capture into the network, `pcap:rx=FILE,tx=FILE` plays one and writes another (each optional; `speed=max` does not wait as the time stamps
        /// say). `vhost-user:SOCKET` is a socket at which a guest or a DPDK program attaches; `vhost-user:` makes one in the network's runtime folder, and
        /// `vhost-user:SOCKET,client` connects to one, and `,queues=N` behind any of them has as many pairs of queues (1 to 8). Files and sockets are relative to the folder of this file.
        /// `vxlan:ADDRESS,vni=N` and `geneve:ADDRESS,vni=N` are tunnels over UDP to another machine (root), `vni=flow` one of all networks, with `ADDRESS:PORT` and `local=ADDRESS:PORT` where ports or
        /// addresses are others. `mtu: 1450` keeps their packets whole where 1,500 bytes pass.
        /// `dpdk:DEVICE,KEY=VALUE` is a device by a driver of DPDK, in programs that were built with it.
        "devices" => devices: Option<At<Vec<At<Device>>>>,
        /// A switch's layer, from 1 next to the hosts. For pictures only.
        "tier" => tier: Option<At<Whole<1, 16>>>,
    }
    ..setup: SetupText
}

/// A node in full, or just its kind.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum NodeText {
    /// `h1: host`
    Short(At<NodeWord>),
    /// `h1: { kind: host, .. }`
    Long(Box<NodeLong>),
}

impl NodeText {
    /// What the node is.
    pub fn kind(&self) -> NodeWord {
        match self {
            Self::Short(kind) => kind.value,
            Self::Long(long) => long.kind.value,
        }
    }
}

impl Read for NodeText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match node.value {
            Value::Map(_) => NodeLong::read(node, problems).map(|long| Self::Long(Box::new(long))),
            _ => At::read(node, problems).map(Self::Short),
        }
    }
}

section! {
    /// Addresses of a host that shall not have the ones of its position; what runs in it, and what it finds there.
    HostText {
        /// MAC address.
        "mac" => mac: Option<At<Mac>>,
        /// IPv4 address, in 10.0.0.0/8, or any with the prefix of its subnet: `192.168.1.7/24`.
        "ipv4" => ipv4: Option<At<WithPrefix<Ipv4Addr>>>,
        /// IPv6 address, in `fd68:6564:646c::/64`, or any with the prefix of its subnet. When not given beside an `ipv4` with a prefix, it is in a subnet that goes with that one.
        "ipv6" => ipv6: Option<At<WithPrefix<Ipv6Addr>>>,
        /// The image of a container that is its root: a folder or an archive of the OCI's image layout, or what `docker save` writes; `docker://debian:12` is fetched by skopeo.
        "image" => image: Option<At<FilePath>>,
    }
    ..setup: SetupText
}

/// The two ends of a link, or the two hosts of a flow.
#[derive(Clone, Debug)]
pub(crate) struct NamePair(pub At<Name>, pub At<Name>);

impl Read for NamePair {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match &node.value {
            Value::List(items) if items.len() == 2 => {
                let (a, b) = (At::read(&items[0], problems), At::read(&items[1], problems));
                Some(Self(a?, b?))
            }
            _ => {
                expected(node, "two names, `[a, b]`", problems);
                None
            }
        }
    }
}

impl JsonSchema for NamePair {
    fn schema_name() -> Cow<'static, str> {
        "Ends".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": generator.subschema_for::<Name>(), "minItems": 2, "maxItems": 2 })
    }
}

section! {
    /// A measurement to make.
    ExperimentText {
        /// One line for the report.
        "title" => title: Option<Text>,
        /// Who talks to whom, and how. Or else `cluster`.
        "traffic" => traffic: Option<At<TrafficText>>,
        /// What is asked of the controllers. Or else `traffic`.
        "cluster" => cluster: Option<At<ClusterText>>,
        /// What changes from case to case: the cases are the cross product, the first axis slowest.
        "vary" => vary: Option<Vary>,
        /// How long each run is measured, after the warm-up. 1s when not given. Live TCP takes whole seconds, as iperf3 does: what is left of one is rounded up. With
        /// `cluster`: how long it lasts at least.
        "for" => duration: Option<Length<false, { 24 * HOUR }>>,
        /// How long each run goes before measuring starts. None when not given.
        "warm-up" => warm_up: Option<Length<true, HOUR>>,
        /// How long a step is of what is recorded over the measured time: goodput, congestion window and retransmits of each flow, and how many packets wait at
        /// each link. Nothing is recorded when not given; `heddle compare` then takes a fiftieth of `for`.
        "time-series" => time_series: Option<At<Length<false, HOUR>>>,
        /// Runs of each case: so many, or `{ until: 5 %, at-most: 30 }`, until the 99 % confidence interval of the mean is so narrow. 1 when not given.
        "repeat" => repeat: Option<At<RepeatText>>,
        /// What must hold of the mean over the runs: `goodput-mean: ">= 0.9 Gbit/s"`.
        "expect" => expect: Option<Mapping<Metric, ExpectText>>,
        /// What others measured, for the table to show beside: `create-mean: 12.6 ms`.
        "published" => published: Option<Mapping<Metric, ExpectText>>,
        /// Which metrics the table shows, in order. The usual ones when not given.
        "report" => report: Option<Vec<At<Metric>>>,
    }
}

/// A claim about every case, or claims about some.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum ExpectText {
    /// `">= 0.9 Gbit/s"`
    All(At<Text>),
    /// `{ where: .., is: .. }`
    One(Box<Claim>),
    /// `[{ where: .., is: .. }]`
    Some(Vec<At<Claim>>),
}

impl Read for ExpectText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match node.value {
            Value::List(_) => Vec::read(node, problems).map(Self::Some),
            Value::Map(_) => Claim::read(node, problems).map(|claim| Self::One(Box::new(claim))),
            _ => At::read(node, problems).map(Self::All),
        }
    }
}

section! {
    /// A claim about some cases.
    Claim {
        /// Only cases with these values of the axes; `driver: sim` or `driver: live` for one way to run them.
        "where" => only: Option<Mapping<Text, Text>>,
        /// `>= x`, `<= x` or `x +- y`, with the metric's unit; a bare figure under `published`.
        "is" => is: At<Text>,
    }
}
