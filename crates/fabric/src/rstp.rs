//! RSTP of switches: what the file says, and what becomes of it.
//!
//! ```yaml
//! switches:
//!   s1:
//!     rstp: { priority: 4096 }
//!     ports:
//!       h1: { bpdu-guard: true }
//! ```
//!
//! It is spoken by all switches of a file, or by none: one that does not speak it would keep BPDUs from those behind it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use machine::Span;
use rstp::{BridgeConfig, PRIORITY, PortConfig, path_cost};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use topology::{LinkId, NodeId, PortId, Rerouting, Topology};

use crate::Fabric;
use crate::document::File;
use crate::error::Problems;
use crate::quantity::{Length, Whole};
use crate::read::{Fields, Read, expected, section};
use crate::source::{At, Place};
use crate::switches::PortText;
use crate::tree::{Node, Value};

/// The most ports that a bridge has: identifiers have 12 bits for them.
const PORTS_MAX: usize = 4_095;

section! {
    /// How a switch speaks RSTP. All switches of the network do where one does.
    RstpParameters {
        /// The switch with the least is the root of the tree. A multiple of 4096. 32768 when not given.
        "priority" => priority: Option<At<Whole<0, 61_440>>>,
        /// How often BPDUs are sent: 1s to 10s. 2s when not given.
        "hello-time" => hello_time: Option<At<Length<false, 10_000>>>,
        /// How old what is heard of the root may get: 6s to 40s. 20s when not given.
        "max-age" => max_age: Option<At<Length<false, 40_000>>>,
        /// How long a port listens, and how long it learns, where nobody agrees to its forwarding: 4s to 30s. 15s when not given.
        "forward-delay" => forward_delay: Option<At<Length<false, 30_000>>>,
        /// How many BPDUs a port sends at once; afterwards there is one a second. 6 when not given.
        "transmit-hold-count" => transmit_hold_count: Option<Whole<1, 10>>,
    }
}

/// `true`, or a map.
#[derive(Clone, Debug)]
pub(crate) struct RstpText(Option<RstpParameters>);

impl Read for RstpText {
    fn read(node: &Node, problems: &mut Problems<'_>) -> Option<Self> {
        match &node.value {
            Value::Scalar(text) if text == "true" => Some(Self(None)),
            Value::Map(_) => RstpParameters::read(node, problems).map(|parameters| Self(Some(parameters))),
            _ => {
                expected(node, "`true`, or a map like `{ priority: 4096 }`", problems);
                None
            }
        }
    }
}

impl JsonSchema for RstpText {
    fn schema_name() -> Cow<'static, str> {
        "Rstp".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "const": true }, generator.subschema_for::<RstpParameters>()] })
    }
}

/// How a switch speaks RSTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RstpSettings {
    /// The switch with the least is the root.
    pub priority: u16,
    /// How often BPDUs are sent.
    pub hello_time: Span,
    /// How old what is heard of the root may get.
    pub max_age: Span,
    /// How long a port listens, and how long it learns.
    pub forward_delay: Span,
    /// How many BPDUs a port sends at once.
    pub transmit_hold_count: u8,
}

impl Default for RstpSettings {
    fn default() -> Self {
        let [hello_time, max_age, forward_delay] = [2, 20, 15].map(Span::from_secs);
        Self { priority: PRIORITY, hello_time, max_age, forward_delay, transmit_hold_count: 6 }
    }
}

/// What is said of RSTP at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RstpPortSettings {
    /// What its link adds to the cost of a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_cost: Option<u32>,
    /// The least is preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_priority: Option<u8>,
    /// Whether no bridge is behind it; `None`: that is found out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edge: Option<bool>,
    /// Whether it is shut when a BPDU comes in.
    pub bpdu_guard: bool,
    /// Whether it never leads to the root.
    pub root_guard: bool,
}

/// Checks what is said of a switch.
pub(crate) fn settings(text: &RstpText, problems: &mut Problems<'_>) -> RstpSettings {
    let mut all = RstpSettings::default();
    let Some(RstpParameters { priority, hello_time, max_age, forward_delay, transmit_hold_count }) = &text.0 else {
        return all;
    };
    if let Some(priority) = priority {
        all.priority = priority.value.get() as u16;
        note_steps(priority.place, priority.value.get(), 4_096, problems);
    }
    let mut time = |text: &Option<At<Span>>, own: &mut Span, least: u64| {
        let Some(text) = text else { return };
        *own = text.value;
        if text.value < Span::from_secs(least) {
            let message = format!("{} is shorter than {least} s, which the standard asks for", text.value);
            problems.add(text.place, message, "too short", format!("write `{least}s` or more"));
        }
    };
    time(&hello_time.as_ref().map(plain), &mut all.hello_time, 1);
    time(&max_age.as_ref().map(plain), &mut all.max_age, 6);
    time(&forward_delay.as_ref().map(plain), &mut all.forward_delay, 4);
    all.transmit_hold_count = transmit_hold_count.map_or(all.transmit_hold_count, |count| count.get() as u8);
    let second = Span::from_secs(1);
    let place = [max_age.as_ref().map(|it| it.place), forward_delay.as_ref().map(|it| it.place)];
    let place = place.into_iter().chain([hello_time.as_ref().map(|it| it.place)]).flatten().next();
    if let Some(place) = place
        && (all.max_age + second * 2 > all.forward_delay * 2 || (all.hello_time + second) * 2 > all.max_age)
    {
        problems.add(
            place,
            "these times don't fit each other (IEEE 802.1D, 17.14)",
            "2 x (hello-time + 1s) <= max-age <= 2 x (forward-delay - 1s)",
            "leave them out: they are for bridges that speak STP only",
        );
    }
    all
}

fn plain<const ZERO: bool, const MAX: u64>(text: &At<Length<ZERO, MAX>>) -> At<Span> {
    At { value: text.value.0, place: text.place, sound: text.sound }
}

fn note_steps(place: Place, value: u32, step: u32, problems: &mut Problems<'_>) {
    if !value.is_multiple_of(step) {
        let (below, above) = (value - value % step, value - value % step + step);
        let message = format!("a priority is a multiple of {step}, and {value} is none");
        problems.add(place, message, "no multiple", format!("write {below} or {above}"));
    }
}

/// What is said of RSTP at a port; `None`: nothing.
pub(crate) fn port_settings(text: &PortText, problems: &mut Problems<'_>) -> Option<RstpPortSettings> {
    let PortText { path_cost, port_priority, edge, bpdu_guard, root_guard, .. } = text;
    if let Some(priority) = port_priority {
        note_steps(priority.place, priority.value.get(), 16, problems);
    }
    let settings = RstpPortSettings {
        path_cost: path_cost.as_ref().map(|cost| cost.value.get()),
        port_priority: port_priority.as_ref().map(|priority| priority.value.get() as u8),
        edge: edge.as_ref().map(|flag| flag.value.0),
        bpdu_guard: bpdu_guard.as_ref().is_some_and(|flag| flag.value.0),
        root_guard: root_guard.as_ref().is_some_and(|flag| flag.value.0),
    };
    (settings != RstpPortSettings::default()).then_some(settings)
}

/// Notes what does not go together with RSTP.
pub(crate) fn check(file: &File, topology: &Topology, problems: &mut Problems<'_>) {
    let switches = file.switches.iter().flat_map(|section| &section.value.0);
    let first = switches.clone().find_map(|(_, text)| text.value.rstp.as_ref());
    if let Some(rstp) = first {
        if file.routes.as_ref().is_some_and(|routes| routes.0 == Rerouting::Fixed) {
            problems.add(
                rstp.place,
                "with `routes: fixed` packets go on to ports that RSTP has closed",
                "besides `routes: fixed`",
                "remove `routes`: routes follow the tree",
            );
        }
        if let Some((_, node)) = topology.switches().find(|(_, node)| node.ports.len() > PORTS_MAX) {
            let message = format!("switch `{}` has more than {PORTS_MAX} ports", node.name);
            problems.add(rstp.place, message, "RSTP numbers no more", "remove `rstp`");
        }
        return;
    }
    for (_, port) in switches.flat_map(|(_, text)| text.value.ports.iter().flat_map(|ports| &ports.value.0)) {
        let PortText { path_cost, port_priority, edge, bpdu_guard, root_guard, .. } = &port.value;
        let places = [
            path_cost.as_ref().map(|it| it.place),
            port_priority.as_ref().map(|it| it.place),
            edge.as_ref().map(|it| it.place),
            bpdu_guard.as_ref().map(|it| it.place),
            root_guard.as_ref().map(|it| it.place),
        ];
        for place in places.into_iter().flatten() {
            problems.add(
                place,
                "this is for switches that speak RSTP, and none does",
                "without `rstp`",
                "add `rstp: true` to a switch: all of the network speak it then",
            );
        }
    }
}

impl Fabric {
    /// Whether switches speak RSTP: all do if one is said to.
    pub fn has_rstp(&self) -> bool {
        self.switches.values().any(|switch| switch.rstp.is_some())
    }

    /// The switches that speak RSTP, as their machines start.
    pub fn bridges(&self) -> BTreeMap<NodeId, BridgeConfig> {
        if !self.has_rstp() {
            return BTreeMap::new();
        }
        let mut used = BTreeSet::new();
        self.topology.switches().map(|(switch, _)| (switch, self.bridge(switch, &mut used))).collect()
    }

    fn bridge(&self, switch: NodeId, used: &mut BTreeSet<[u8; 6]>) -> BridgeConfig {
        let settings = self.switches.get(&switch);
        let own = settings.and_then(|settings| settings.rstp).unwrap_or_default();
        let node = &self.topology.nodes[switch];
        let ports = node.ports.iter().enumerate().map(|(number, (link, side))| {
            let far = self.topology.links[*link].end(side.other()).node;
            let said = settings.and_then(|settings| settings.rstp_ports.get(&PortId(number as u16)));
            let said = said.copied().unwrap_or_default();
            // Nobody but a program in it makes a host that is made here a bridge, and then it is heard.
            let is_made_host = self.topology.is_host(far) && self.topology.nodes[far].devices.is_empty();
            PortConfig {
                priority: said.port_priority.unwrap_or(128),
                cost: said.path_cost.unwrap_or_else(|| path_cost(self.rate(switch, number, *link, far))),
                admin_edge: said.edge.unwrap_or(is_made_host),
                auto_edge: said.edge.is_none(),
                point_to_point: true,
                bpdu_guard: said.bpdu_guard,
                root_guard: said.root_guard,
            }
        });
        BridgeConfig {
            priority: own.priority,
            address: bridge_address(&self.name, &node.name, used),
            hello_time: own.hello_time,
            max_age: own.max_age,
            forward_delay: own.forward_delay,
            transmit_hold_count: own.transmit_hold_count,
            ports: ports.collect(),
        }
    }

    /// The rate of a port's link, or of all links of its bond.
    fn rate(&self, switch: NodeId, number: usize, link: LinkId, far: NodeId) -> Option<u64> {
        let members =
            self.topology.bond_at(switch, PortId(number as u16)).map_or(1, |end| self.topology.members(end).len());
        let rate = self.topology.spec_towards(link, far).rate_bps;
        rate.map(|rate| rate.saturating_mul(members as u64))
    }
}

/// The address of a switch in BPDUs. It follows from the names of network and switch, so that it stays while others come and go, and two networks on one cable differ.
fn bridge_address(network: &str, switch: &str, used: &mut BTreeSet<[u8; 6]>) -> [u8; 6] {
    // FNV-1a.
    let bytes = network.bytes().chain([0]).chain(switch.bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let address = |step: u64| {
        let [_, _, own @ ..] = hash.wrapping_add(step).to_be_bytes();
        let mut address = own;
        // Hosts have addresses with less there.
        (address[0], address[1]) = (2, address[1] | 0x80);
        address
    };
    let own = (0..=u64::MAX)
        .map(address)
        .find(|address| !used.contains(address))
        .expect("there are more addresses than switches");
    used.insert(own);
    own
}
