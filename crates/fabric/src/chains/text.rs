//! Chains and functions as they are written.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use vswitch::chain::OnFailure;

use crate::controllers::Flag;
use crate::error::Problems;
use crate::host_setup::SetupText;
use crate::links::LinkText;
use crate::quantity::{Length, Whole};
use crate::read::{Device, Fields, Name, Read, Text, expected, section};
use crate::source::At;
use crate::tree::{Node, Value};
use crate::words::Choice;

/// The most instances of a function.
pub(crate) const MOST_INSTANCES: u64 = 16;

section! {
    /// A function of service chains: what has two ports, and passes on by one what comes by the other. With neither `programs` nor `devices`, Heddle passes
    /// frames on.
    FunctionText {
        /// The switch at which both of its ports are; or those of its ingress and its egress, `[s1, s2]`.
        "at" => at: At<Names>,
        /// How many there are of it, among which flows are spread: both directions of a flow go to the same. 1 when not given.
        "instances" => instances: Option<At<Whole<1, MOST_INSTANCES>>>,
        /// What it is behind, as `devices` of hosts: the device of its ingress and that of its egress, of each instance. It is not made then. Or else it is a network
        /// namespace with the devices `eth0`, its ingress, and `eth1`, its egress.
        "devices" => devices: Option<At<Vec<At<Device>>>>,
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
