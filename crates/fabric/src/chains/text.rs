//! Chains and functions as they are written.

use std::borrow::Cow;
use std::net::IpAddr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use vswitch::chain::OnFailure;

use crate::controllers::Flag;
use crate::error::Problems;
use crate::host_setup::SetupText;
use crate::links::LinkText;
use crate::quantity::{Bytes, Length, Rate, Whole};
use crate::read::{Device, Fields, Name, Read, Text, expected, section};
use crate::source::At;
use crate::tree::{Node, Value};
use crate::vm::{FilePath, VmText};
use crate::words::{Choice, Words, words};

/// The most instances of a function.
pub(crate) const MOST_INSTANCES: u64 = 16;

/// The largest burst of a rate limit, in bytes.
const BURST_MAX: u64 = 1 << 30;

section! {
    /// A function of service chains: what has two ports, and passes on by one what comes by the other; or, with `kind`, what is built in. With none of `kind`, `programs`,
    /// `image`, `bundle`, `vm` and `devices`, Heddle passes frames on.
    FunctionText {
        /// What it is, if it is built in: it needs no port and no process then, and its place is where packets leave what stands before it in its chain. `counter` counts
        /// packets and bytes by protocol, `rate-limit` drops what is faster than `rate`, `mirror` has copies go `to` a host, `firewall` lets connections in by `outbound` and
        /// `inbound`, and `nat` translates addresses and ports by `source` and `forwards`.
        "kind" => kind: Option<At<BuiltInKind>>,
        /// Of a `rate-limit`: how much passes in each direction.
        "rate" => rate: Option<At<LimitRate>>,
        /// Of a `rate-limit`: how much passes at once after a pause. What comes in 50 ms when not given, 64KiB at least.
        "burst" => burst: Option<At<Bytes<64, BURST_MAX>>>,
        /// Of a `mirror`: the host that gets a copy of each packet, of both directions. No end of the chain.
        "to" => to: Option<At<Name>>,
        /// Of a `firewall`: rules for connections that the chain's `from` begins. The first one that fits counts; without one they are allowed.
        "outbound" => outbound: Option<At<Vec<At<RuleText>>>>,
        /// Of a `firewall`: rules for connections that the chain's `to` begins. Without one that fits they are denied.
        "inbound" => inbound: Option<At<Vec<At<RuleText>>>>,
        /// Of a `nat`: what the sources become of connections that the chain's `from` begins, as in `ct`'s `nat(src=..)`: an address, or a range of them, with or
        /// without ports.
        "source" => source: Option<At<Text>>,
        /// Of a `nat`: ports of an address that lead to hosts.
        "forwards" => forwards: Option<At<Vec<At<ForwardText>>>>,
        /// The switch at which both of its ports are; or those of its ingress and its egress, `[s1, s2]`.
        "at" => at: Option<At<Names>>,
        /// How many there are of it, among which flows are spread: both directions of a flow go to the same. 1 when not given.
        "instances" => instances: Option<At<Whole<1, MOST_INSTANCES>>>,
        /// What it is behind, as `devices` of hosts: the device of its ingress and that of its egress, of each instance. It is not made then. Or else it is a network
        /// namespace with the devices `eth0`, its ingress, and `eth1`, its egress.
        "devices" => devices: Option<At<Vec<At<Device>>>>,
        /// The image of a container that is its root, as `image` of hosts. Without `programs`, what the image itself starts runs in it.
        "image" => image: Option<At<FilePath>>,
        /// An OCI bundle: a folder with `config.json` and a root file system. Its container runs in the function's network, by crun or runc, and is started again
        /// when it ends. Nothing is written to the folder.
        "bundle" => bundle: Option<At<FilePath>>,
        /// The virtual machine that it is, with the keys of nodes of kind `vm`: `{}` is one of User-Mode Linux in which Heddle passes frames on. It starts with the network, and is behind a
        /// vhost-user socket for its ingress (in the guest `eth0`) and one for its egress (`eth1`).
        "vm" => vm: Option<At<VmText>>,
        /// What the links to its ports do to packets.
        "links" => links: Option<At<LinkText>>,
        /// What it does to packets itself when it is simulated, those of both directions together: keys of links. Nothing when not given.
        "simulated" => simulated: Option<At<LinkText>>,
        /// An instance that was handed packets and gives nothing back for so long is probed, and is down when it gives nothing back for as long again. 20ms when not
        /// given.
        "timeout" => timeout: Option<At<Length<false, 60_000>>>,
    }
    ..setup: SetupText
}

section! {
    /// A rule of a firewall: `allow: MATCH` or `deny: MATCH`, as `ovs-ofctl` writes a match, or `all`.
    RuleText {
        /// Packets that begin connections which may.
        "allow" => allow: Option<At<Text>>,
        /// Packets that begin connections which may not.
        "deny" => deny: Option<At<Text>>,
    }
}

section! {
    /// A port of an address that leads to a host.
    ForwardText {
        /// The address that others connect to. The first one of `source` when not given.
        "address" => address: Option<At<IpAddr>>,
        /// The port of it.
        "port" => port: At<Whole<1, 65_535>>,
        /// `tcp` or `udp`. `tcp` when not given.
        "protocol" => protocol: Option<ForwardedProtocol>,
        /// The host that it leads to: one at an end of the chain.
        "to" => to: At<Name>,
        /// The port of that host. The same when not given.
        "to-port" => to_port: Option<At<Whole<1, 65_535>>>,
    }
}

/// A protocol whose ports are forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardedProtocol {
    Tcp,
    Udp,
}

words!(ForwardedProtocol, "ForwardedProtocol", "a protocol with ports", {
    "tcp" => ForwardedProtocol::Tcp,
    "udp" => ForwardedProtocol::Udp,
});

/// What a built-in function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BuiltInKind {
    Counter,
    RateLimit,
    Mirror,
    Firewall,
    Nat,
}

words!(BuiltInKind, "BuiltInKind", "a built-in function", {
    "counter" => BuiltInKind::Counter,
    "rate-limit" => BuiltInKind::RateLimit,
    "mirror" => BuiltInKind::Mirror,
    "firewall" => BuiltInKind::Firewall,
    "nat" => BuiltInKind::Nat,
});

impl BuiltInKind {
    /// Its word.
    pub fn name(self) -> &'static str {
        Self::WORDS.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| *word)
    }
}

/// A rate beyond which packets are dropped, in bits a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitRate(pub u64);

impl Read for LimitRate {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        if let Value::Scalar(text) = &node.value
            && crate::units::rate(text) == Ok(0)
        {
            let hint = "write a rate like `10Mbit`; a `firewall` with `outbound: [deny: all]` lets nothing pass";
            problems.add(node.place, "a limit of zero lets nothing pass", "zero", hint);
            return None;
        }
        Rate::read(node, problems).map(|rate| Self(rate.0))
    }
}

impl JsonSchema for LimitRate {
    fn schema_name() -> Cow<'static, str> {
        "LimitRate".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Rate::json_schema(generator)
    }
}

section! {
    /// A service chain: packets between some hosts pass functions in order.
    ChainText {
        /// The hosts whose packets it takes: a name, a list of names, or `all`.
        "from" => from: At<Names>,
        /// To these hosts.
        "to" => to: At<Names>,
        /// Which of their packets, as `ovs-ofctl` writes it: `tcp,tp_dst=80`. What comes back is matched with sources and destinations swapped. All when not given.
        "match" => matching: Option<At<Text>>,
        /// The functions, in their order.
        "functions" => functions: At<Names>,
        /// Whether what comes back passes them as well, in reverse order. `true` when not given.
        "both-directions" => both: Option<Flag>,
        /// What becomes of packets while no instance of a function is up: `block` drops them, `bypass` has them go on without it. `block` when not given.
        "on-failure" => on_failure: Option<Choice<OnFailure>>,
    }
}

/// A name, or several.
#[derive(Clone, Debug)]
pub(crate) struct Names(pub Vec<At<Name>>);

impl Read for Names {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match &node.value {
            Value::List(items) if !items.is_empty() => Vec::read(node, problems).map(Self),
            Value::Scalar(_) => Some(Self(vec![At::read(node, problems)?])),
            _ => {
                expected(node, "a name or a list of names", problems);
                None
            }
        }
    }
}

impl JsonSchema for Names {
    fn schema_name() -> Cow<'static, str> {
        "Names".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let name = generator.subschema_for::<Name>();
        json_schema!({ "anyOf": [name, { "type": "array", "items": name, "minItems": 1 }] })
    }
}
