//! What switches do besides forwarding, and their ports: VLANs, learning, storm control, devices of the machine.
//!
//! ```yaml
//! switches:
//!   s1:
//!     mac-age: 60s
//!     ports:
//!       h1: { tag: 10 }
//!       s2: { trunks: [10, 20] }
//!       vm1: { device: 'vhost-user:', tag: 20, storm-control: 1000/s }
//! ```

use std::collections::{BTreeMap, BTreeSet};

use datapath::PortTable;
use link::LinkSpec;
use machine::Span;
use schemars::JsonSchema;
use serde::Serialize;
use topology::{DeviceName, NodeId, PortId, Topology};
use vswitch::port::{PortSettings, PortVlans, VlanMode};

use crate::Fabric;
use crate::controllers::Flag;
use crate::document::File;
use crate::error::Problems;
use crate::flows::find_switch;
use crate::graph::{Graph, address};
use crate::names::{canonical, nearest, reaches};
use crate::quantity::{Length, StormRate, Whole};
use crate::read::{Device, Fields, Mapping, Name, Read, section, shown};
use crate::rstp::{self, RstpPortSettings, RstpSettings, RstpText};
use crate::source::{At, Place};
use crate::tree::Node;
use crate::words::Choice;

/// The most ports of a file that are on devices of the machine.
const MOST_DEVICES: usize = 1_024;

/// The highest VLAN: 4095 is reserved (IEEE 802.1Q, table 9-2).
const VLAN_MAX: u64 = 4_094;

/// The longest time that an address is known for, as with `fdb_age`: a day, in milliseconds.
const AGE_MAX: u64 = 24 * 3_600_000;

/// How long an address is known from which nothing comes any more, as in Open vSwitch.
const MAC_AGE: Span = Span::from_secs(300);

/// How many addresses a switch knows, as in Open vSwitch.
const MAC_TABLE_SIZE: u32 = 8_192;

/// The second byte of the addresses of hosts behind such ports.
const POSITION: u8 = 254;

section! {
    /// A switch, and its ports.
    SwitchText {
        /// How long the switch knows an address from which nothing comes any more. 300s when not given.
        "mac-age" => mac_age: Option<Length<false, AGE_MAX>>,
        /// How many addresses the switch knows that hosts have besides those of the file. When there are more, the port that has most of them forgets the one from which nothing came
        /// for longest. 8192 when not given.
        "mac-table-size" => mac_table_size: Option<Whole<1, 65_536>>,
        /// Rapid spanning tree: `true`, or what differs from what switches do otherwise. All switches speak it where one does.
        "rstp" => rstp: Option<At<RstpText>>,
        /// Its ports, by the node that they lead to, or by number; those on a device of the machine by a name of their own.
        "ports" => ports: Option<At<Mapping<Name, PortText>>>,
    }
}

section! {
    /// A port of a switch.
    PortText {
        /// What its link ends on: a device of the machine, a socket for a guest, a capture, written as in `devices` of a node. The port's name is that of the host behind it then,
        /// which is not made.
        "device" => device: Option<At<Device>>,
        /// How it has its VLANs, as `vlan_mode` of Open vSwitch. `access` when not given and there is a `tag`, else `trunk`.
        "vlan-mode" => vlan_mode: Option<At<Choice<VlanMode>>>,
        /// Its own VLAN: of an access port, the VLAN of all that passes it, which has no tags there; of a native one, of what comes without a tag.
        "tag" => tag: Option<At<Whole<1, VLAN_MAX>>>,
        /// Which VLANs it carries with tags; what has none is of VLAN 0. All when not given.
        "trunks" => trunks: Option<At<Vec<At<Whole<0, VLAN_MAX>>>>>,
        /// Whether addresses are learned from what comes in by it. `true` when not given.
        "learning" => learning: Option<At<Flag>>,
        /// Whether what is for an address that nobody knows leaves by it. When not given: `true` at network devices of the machine and sockets of guests, else `false`.
        "flood" => flood: Option<At<Flag>>,
        /// How much may come in by it a second that is for everybody, for a group, or for an address that nobody knows: frames (`1000/s`) or bits (`10 Mbit/s`). What goes
        /// beyond is dropped. When not given: in a tenth of a second, as many as make 16384 copies.
        "storm-control" => storm_control: Option<At<StormRate>>,
        /// With RSTP: what its link adds to the cost of a path to the root. When not given, it follows from the link's rate: 20000 of 1 Gbit/s, 2000 of 10 Gbit/s and where there is none.
        "path-cost" => path_cost: Option<At<Whole<1, 200_000_000>>>,
        /// With RSTP: of ports that cost the same, that with the least is preferred. A multiple of 16. 128 when not given.
        "port-priority" => port_priority: Option<At<Whole<0, 240>>>,
        /// With RSTP: whether no bridge is behind it, so that it forwards at once. When not given, that is found out; hosts that Heddle makes are taken for edges until a BPDU comes.
        "edge" => edge: Option<At<Flag>>,
        /// With RSTP: it is shut when a BPDU comes in by it, until its link goes down and up. `false` when not given.
        "bpdu-guard" => bpdu_guard: Option<At<Flag>>,
        /// With RSTP: it never leads to the root, and is closed as long as a better bridge is heard there. `false` when not given.
        "root-guard" => root_guard: Option<At<Flag>>,
    }
}

impl PortText {
    /// What `later` says counts in place of what this does, and what it does not say stays, but for the keys that `is_gone` names.
    pub(crate) fn change(&mut self, later: Self, is_gone: impl Fn(&str) -> bool) {
        fn one<T>(own: &mut Option<T>, later: Option<T>, is_gone: bool) {
            if later.is_some() || is_gone {
                *own = later;
            }
        }
        let Self {
            device,
            vlan_mode,
            tag,
            trunks,
            learning,
            flood,
            storm_control,
            path_cost,
            port_priority,
            edge,
            bpdu_guard,
            root_guard,
        } = later;
        one(&mut self.device, device, false);
        one(&mut self.vlan_mode, vlan_mode, is_gone("vlan-mode"));
        one(&mut self.tag, tag, is_gone("tag"));
        one(&mut self.trunks, trunks, is_gone("trunks"));
        one(&mut self.learning, learning, is_gone("learning"));
        one(&mut self.flood, flood, is_gone("flood"));
        one(&mut self.storm_control, storm_control, is_gone("storm-control"));
        one(&mut self.path_cost, path_cost, is_gone("path-cost"));
        one(&mut self.port_priority, port_priority, is_gone("port-priority"));
        one(&mut self.edge, edge, is_gone("edge"));
        one(&mut self.bpdu_guard, bpdu_guard, is_gone("bpdu-guard"));
        one(&mut self.root_guard, root_guard, is_gone("root-guard"));
    }
}

/// What a switch does besides forwarding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SwitchSettings {
    /// How long an address is known from which nothing comes any more.
    pub mac_age: Span,
    /// How many addresses are known besides those of the file.
    pub mac_table_size: u32,
    /// By port.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ports: BTreeMap<PortId, PortSettings>,
    /// How it speaks RSTP, if it is said to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rstp: Option<RstpSettings>,
    /// By port, where anything is said.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rstp_ports: BTreeMap<PortId, RstpPortSettings>,
}

impl Default for SwitchSettings {
    fn default() -> Self {
        Self {
            mac_age: MAC_AGE,
            mac_table_size: MAC_TABLE_SIZE,
            ports: BTreeMap::new(),
            rstp: None,
            rstp_ports: BTreeMap::new(),
        }
    }
}

impl Fabric {
    /// What is said about ports of switches, in the form in which packets look it up.
    pub fn port_table(&self) -> PortTable {
        let ports = |(switch, settings): (&NodeId, &SwitchSettings)| {
            let switch = *switch;
            settings.ports.clone().into_iter().map(move |(port, settings)| ((switch, port), settings))
        };
        PortTable::new(&self.topology, &self.switches.iter().flat_map(ports).collect()).with_bridges(self.bridges())
    }

    /// Whether any port has VLANs: then all switches look for tags.
    pub fn has_vlans(&self) -> bool {
        self.switches.values().flat_map(|switch| switch.ports.values()).any(|port| port.vlans.is_some())
    }
}

/// Adds the hosts behind ports that are on devices of the machine. To be called before functions and bonds are made, which come behind them.
pub(crate) fn add_ports(file: &File, graph: &mut Graph, problems: &mut Problems<'_>) {
    let Some(section) = &file.switches else { return };
    let ports = section.value.0.iter().flat_map(|(switch, text)| {
        let ports = text.value.ports.iter().flat_map(|ports| &ports.value.0);
        ports.filter_map(move |(name, port)| Some((switch, name, port.value.device.as_ref()?)))
    });
    let ports: Vec<(&At<Name>, &At<Name>, &At<Device>)> = ports.collect();
    if ports.len() > MOST_DEVICES {
        let message = format!("{} ports on devices are more than {MOST_DEVICES}", ports.len());
        return problems.add(section.place, message, "too many", "leave some out");
    }
    let mut known: BTreeSet<String> = graph.topology.nodes.iter().map(|node| canonical(&node.name)).collect();
    let mut taken: BTreeSet<&str> = BTreeSet::new();
    for (switch, name, device) in ports {
        // What is wrong with the switch's name is noted with its other ports.
        let Ok(at) = find_switch(&graph.topology, &switch.value.0) else { continue };
        let at = graph.topology.nodes[at].name.clone();
        let text = &name.value.0;
        if let Some(whom) = reaches(text) {
            problems.add(
                name.place,
                format!("no port can be called `{text}`: programs reach {whom} by that"),
                "reaches somebody else",
                "give it another name, with a letter first: `vm1`",
            );
        } else if !known.insert(canonical(text)) {
            problems.add(
                name.place,
                format!("there is a node `{text}` already"),
                "there already",
                "a port with a device has a name of its own: the host behind it is called so",
            );
        } else if let Some(single) = DeviceName::parse(&device.value.0).ok().and_then(DeviceName::exclusive)
            && !taken.insert(single)
        {
            problems.add(
                device.place,
                format!("`{single}` is given twice"),
                "taken already",
                "one device is the end of one link",
            );
        } else {
            add_host(&mut graph.topology, text, &at, &device.value.0);
        }
    }
}

/// Adds the host behind a port. Its addresses follow from its name, so that it keeps them while others come and go.
fn add_host(topology: &mut Topology, name: &str, switch: &str, device: &str) {
    let hosts = topology.hosts().filter_map(|(id, _)| topology.address(id));
    let used: BTreeSet<_> = hosts.map(|address| (address.mac, address.ipv4)).collect();
    // FNV-1a, folded to 16 bits.
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let first = (hash ^ hash >> 16) as u16;
    let all = (0..=u16::MAX).map(|step| first.wrapping_add(step).to_be_bytes());
    let mut all = all.map(|[high, low]| address([POSITION, high, low.clamp(1, 254)], None));
    let is_free =
        |address: &topology::HostAddress| !used.iter().any(|(mac, ipv4)| *mac == address.mac || *ipv4 == address.ipv4);
    let own = all.find(is_free).expect("there are more addresses than ports");
    let host = topology.insert_host(name.to_owned(), own);
    let at = topology.node(switch).expect("it was found");
    topology.connect(host, at, LinkSpec::default());
    topology.nodes[host].devices = vec![device.to_owned()];
    topology.nodes[host].x_permille = topology.nodes[at].x_permille;
}

/// Notes what is wrong with a port on a device by itself.
pub(crate) fn check_port(text: &PortText, place: Place, problems: &mut Problems<'_>) {
    if text.device.is_none() {
        problems.add(place, "a new port needs a device", "on nothing", "add `device=`");
    }
    _ = vlans(text, problems);
}

/// Reads what is said of switches and their ports. To be called when links are what they will be.
pub(crate) fn settings(
    file: &File,
    topology: &Topology,
    problems: &mut Problems<'_>,
) -> BTreeMap<NodeId, SwitchSettings> {
    let mut all = BTreeMap::new();
    for (name, text) in file.switches.iter().flat_map(|section| &section.value.0) {
        if problems.is_full() {
            break;
        }
        let switch = match find_switch(topology, &name.value.0) {
            Ok(switch) => switch,
            Err(error) => {
                problems.add(name.place, error.to_string(), "unknown switch", error.hint);
                continue;
            }
        };
        let SwitchText { mac_age, mac_table_size, rstp, ports } = &text.value;
        let mut settings = SwitchSettings {
            mac_age: mac_age.map_or(MAC_AGE, |age| age.0),
            mac_table_size: mac_table_size.map_or(MAC_TABLE_SIZE, Whole::get),
            ports: BTreeMap::new(),
            rstp: rstp.as_ref().map(|rstp| rstp::settings(&rstp.value, problems)),
            rstp_ports: BTreeMap::new(),
        };
        let peers = Peers::of(topology, switch);
        for (port, text) in ports.iter().flat_map(|ports| &ports.value.0) {
            // Why a port on a device is not there has been noted.
            if text.value.device.is_some() && !peers.ports.contains_key(port.value.0.as_str()) {
                continue;
            }
            let found = peers.find(port, problems);
            if found.is_empty() {
                continue;
            }
            let own = port_settings(&text.value, problems);
            note_between_switches(topology, (switch, &found), &text.value, problems);
            let of_rstp = rstp::port_settings(&text.value, problems);
            for port_id in found {
                if let Some(of_rstp) = of_rstp {
                    settings.rstp_ports.insert(port_id, of_rstp);
                }
                if settings.ports.insert(port_id, own.clone()).is_some() {
                    problems.add(
                        port.place,
                        format!("something is said about port {} already", port_id.0),
                        "a second time",
                        "say all of it in one place: by the port's number, or by the node that it leads to",
                    );
                }
            }
        }
        all.insert(switch, settings);
    }
    all
}

/// The ports of a switch, by the nodes that they lead to.
struct Peers<'a> {
    ports: BTreeMap<&'a str, Vec<PortId>>,
    count: usize,
}

impl<'a> Peers<'a> {
    fn of(topology: &'a Topology, switch: NodeId) -> Self {
        let mut ports: BTreeMap<&str, Vec<PortId>> = BTreeMap::new();
        let peers = topology.peers(switch);
        let count = peers.len();
        for (at, peer) in peers.enumerate() {
            for peer in BTreeSet::from([peer, topology.owner(peer)]) {
                ports.entry(topology.nodes[peer].name.as_str()).or_default().push(PortId(at as u16));
            }
        }
        Self { ports, count }
    }

    /// The ports that lead to a node, or the one of this number.
    fn find(&self, name: &At<Name>, problems: &mut Problems<'_>) -> Vec<PortId> {
        let text = name.value.0.as_str();
        if let Some(led) = self.ports.get(text) {
            return led.clone();
        }
        if let Some(number) = text.parse::<u16>().ok().filter(|number| usize::from(*number) < self.count) {
            return vec![PortId(number)];
        }
        let hint = problems.hint(|| match (nearest(text, self.ports.keys().copied()), self.ports.keys().next()) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, Some(first)) => format!("its ports lead to `{first}` and others; a new one needs a `device`"),
            (None, None) => "it has no ports; a new one needs a `device`".to_owned(),
        });
        problems.add(name.place, format!("no port of the switch leads to `{}`", shown(text)), "unknown port", hint);
        Vec::new()
    }
}

fn port_settings(text: &PortText, problems: &mut Problems<'_>) -> PortSettings {
    PortSettings {
        vlans: vlans(text, problems),
        learning: text.learning.as_ref().map(|flag| flag.value.0),
        flood: text.flood.as_ref().map(|flag| flag.value.0),
        storm_control: text.storm_control.as_ref().map(|limit| limit.value.0),
    }
}

fn vlans(text: &PortText, problems: &mut Problems<'_>) -> Option<PortVlans> {
    let PortText { vlan_mode, tag, trunks, .. } = text;
    let mut wrong = |place: Place, message: &str, label: &str, hint: &str| problems.add(place, message, label, hint);
    let mode = match (vlan_mode, tag, trunks) {
        (None, None, None) => return None,
        (Some(mode), _, _) => mode.value.0,
        (None, Some(tag), Some(_)) => {
            wrong(
                tag.place,
                "a port with a tag is an access port, and has no trunks",
                "besides `trunks`",
                "say what is of its own VLAN: `vlan-mode: native-untagged`, or `native-tagged`",
            );
            return None;
        }
        (None, Some(_), None) => VlanMode::Access,
        (None, None, Some(_)) => VlanMode::Trunk,
    };
    let place = vlan_mode.as_ref().map(|mode| mode.place);
    match (mode, tag, trunks) {
        (VlanMode::Trunk, Some(tag), _) => {
            wrong(
                tag.place,
                "a trunk has no VLAN of its own",
                "besides `vlan-mode: trunk`",
                "remove `tag`, or write `vlan-mode: native-untagged` for a port with a VLAN of its own besides its trunks",
            );
        }
        (VlanMode::Access, _, Some(trunks)) => {
            wrong(
                trunks.place,
                "an access port carries one VLAN",
                "besides `vlan-mode: access`",
                "remove `trunks`, or write `vlan-mode: native-untagged`",
            );
        }
        (VlanMode::Access | VlanMode::NativeTagged | VlanMode::NativeUntagged, None, _) => {
            let place = place.expect("it follows from nothing else");
            wrong(place, "this port needs a VLAN of its own", "without a `tag`", "add `tag: 10`");
        }
        _ => {
            let tag = tag.as_ref().map_or(0, |tag| tag.value.get() as u16);
            let trunks = trunks.iter().flat_map(|trunks| &trunks.value).map(|vid| vid.value.get() as u16);
            return Some(PortVlans::new(mode, tag, trunks.collect()));
        }
    }
    None
}

/// What is of use where hosts are, and not between switches.
fn note_between_switches(
    topology: &Topology,
    (switch, ports): (NodeId, &[PortId]),
    text: &PortText,
    problems: &mut Problems<'_>,
) {
    let leads_to_host = |port: &PortId| {
        let (link, side) = topology.nodes[switch].ports[*port];
        topology.is_host(topology.links[link].end(side.other()).node)
    };
    if ports.iter().all(leads_to_host) {
        return;
    }
    let keys = [
        ("learning", text.learning.as_ref().map(|flag| flag.place)),
        ("flood", text.flood.as_ref().map(|flag| flag.place)),
        ("storm-control", text.storm_control.as_ref().map(|limit| limit.place)),
    ];
    for (key, place) in keys.into_iter().filter_map(|(key, place)| Some((key, place?))) {
        problems.add(
            place,
            format!("`{key}` is for ports that lead to hosts"),
            "leads to a switch",
            "write it at the ports by which frames come into the network: all switches of a network know what one has learned",
        );
    }
}
