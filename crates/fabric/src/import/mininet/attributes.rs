//! What objects of Mininet's own classes have, and what Python says of what they do not have.

use super::super::python::{Fault, Heap, Value};
use super::graph::Graph;
use crate::names::nearest;
use crate::read::shown;

/// Mininet's names: classes and functions.
pub const NAMES: &[&str] = &[
    "Topo",
    "Mininet",
    "MininetWithControlNet",
    "Containernet",
    "Node",
    "Host",
    "CPULimitedHost",
    "HostWithPrivateDirs",
    "NAT",
    "LinuxRouter",
    "Docker",
    "Switch",
    "OVSSwitch",
    "OVSKernelSwitch",
    "OVSBridge",
    "UserSwitch",
    "KernelSwitch",
    "IVSSwitch",
    "LinuxBridge",
    "Controller",
    "OVSController",
    "RemoteController",
    "NOX",
    "Ryu",
    "DefaultController",
    "NullController",
    "Link",
    "TCLink",
    "TCULink",
    "OVSLink",
    "Intf",
    "TCIntf",
    "CLI",
    "custom",
    "dumpNodeConnections",
    "dumpNetConnections",
    "dumpNodes",
    "makeTerms",
    "makeTerm",
    "iperf",
    "cleanup",
    "waitListening",
];

/// What a network has.
const OF_NETWORK: &str = "topo switch host controller link intf ipBase ipBaseNum prefixLen nextIP inNamespace xterms \
    cleanup autoSetMacs autoStaticArp autoPinCpus numCores nextCore listenPort waitConn waitConnected hosts switches \
    controllers links terms nameToNode built inited init addHost addSwitch addController addNAT addLink delNode delHost \
    delSwitch delController delLink delLinkBetween linksBetween getNodeByName get keys values items randMac configHosts \
    buildFromTopo configureControlNetwork configureRoutedControlNetwork build startTerms stopXterms staticArp start \
    stop run monitor ping pingFull pingAll pingPair pingAllFull pingPairFull iperf runCpuLimitTest configLinkStatus \
    interact _parsePing _parsePingFull _parseIperf _iperf";

/// What a topology has.
const OF_TOPOLOGY: &str = "g hopts sopts lopts ropts ports build addNode addHost addSwitch addLink addPort nodes isSwitch \
    switches hosts links iterLinks port linkInfo setlinkInfo setLinkInfo nodeInfo setNodeInfo convertTo sorted _linkEntry";

/// What classes of other versions have, and what is known here nevertheless.
const OF_OTHER_VERSIONS: [&str; 19] = [
    "addNode",
    "addDocker",
    "getNode",
    "getNodes",
    "add_node",
    "add_host",
    "add_switch",
    "add_link",
    "add_edge",
    "addEdge",
    "addServer",
    "node_info",
    "edge_info",
    "enable_all",
    "id_gen",
    "layer",
    "removeLink",
    "removeHost",
    "topos",
];

/// Whether an object of one of Mininet's classes has it.
pub fn is_known(name: &str) -> bool {
    let all = OF_NETWORK.split_whitespace().chain(OF_TOPOLOGY.split_whitespace());
    name.starts_with("__") || OF_OTHER_VERSIONS.contains(&name) || all.into_iter().any(|known| known == name)
}

/// What Python says of an attribute of an object that is of one of Mininet's classes, or of one of the program's that derives from it.
pub fn lacks(heap: &Heap, class: &Value, text: &str, name: &str) -> Option<Fault> {
    if name.starts_with("__") || OF_OTHER_VERSIONS.contains(&name) || may_be_others(text) {
        return None;
    }
    let lineage = heap.lineage(class);
    let mut bases = lineage.iter().flat_map(|at| &heap.classes[*at].bases).chain([class]);
    let is_mininets = |base: &Value| matches!(base, Value::Named(name) if ["Mininet", "Topo"].contains(&&**name));
    if !bases.all(|base| is_mininets(base) || matches!(base, Value::Class(_))) {
        return None;
    }
    let own = lineage.iter().flat_map(|at| heap.classes[*at].attributes.keys().map(|name| &**name));
    let own: Vec<&str> = own.collect();
    if own.iter().any(|own| *own == name || own.starts_with("__getattr")) {
        return None;
    }
    let is_network = heap.library_bases(class).iter().any(|base| **base == *"Mininet");
    let (all, is_there) = if is_network {
        (OF_NETWORK, "a network has `addHost`, `addSwitch`, `addLink`, `get`, `start`, `pingAll` and others")
    } else {
        (OF_TOPOLOGY, "a topology has `addHost`, `addSwitch`, `addLink` and others")
    };
    if all.split_whitespace().any(|known| known == name) {
        return None;
    }
    let class = class_name(class, heap, text)?;
    let near = nearest(name, all.split_whitespace().chain(own)).map(str::to_owned);
    let known = if near.is_some() { String::new() } else { is_there.to_owned() };
    let message = format!("AttributeError: '{class}' object has no attribute '{}'", shown(name));
    Some(Fault { message, word: name.to_owned(), nearest: near, known })
}

/// Whether Mininet's names may stand for somebody else's classes.
fn may_be_others(text: &str) -> bool {
    let is_others = |line: &str| {
        let Some(from) = line.trim_start().strip_prefix("from ") else { return false };
        let names = from.split_once("import").map_or("", |(_, names)| names.trim());
        !from.trim_start().starts_with("mininet.")
            && (names.starts_with(['*', '(', '\\']) || names.contains("Mininet") || names.contains("Topo"))
    };
    text.contains("wifi") || text.lines().any(is_others)
}

/// What a class is called.
fn class_name(class: &Value, heap: &Heap, text: &str) -> Option<String> {
    match class {
        Value::Named(name) => Some(name.to_string()),
        Value::Class(at) => name_in(text, heap.classes[*at].text),
        _ => None,
    }
}

/// The name of the class whose text is there.
pub fn name_in(text: &str, (start, end): (usize, usize)) -> Option<String> {
    let words = text.get(start..end)?.split_once("class ")?.1;
    let name = words.split(|c: char| !c.is_alphanumeric() && c != '_').find(|word| !word.is_empty())?;
    Some(shown(name))
}

/// What Python says of a node that is not there.
pub fn no_node(graph: &Graph, name: &str) -> Fault {
    const NAMED_MAX: usize = 6;
    let near = nearest(name, graph.by_name.keys().map(String::as_str)).map(str::to_owned);
    let there: Vec<String> =
        graph.nodes.iter().take(NAMED_MAX).map(|node| format!("`{}`", shown(&node.name))).collect();
    let more = if graph.nodes.len() > NAMED_MAX { ", .." } else { "" };
    let known = match (&near, there.is_empty()) {
        (Some(_), _) => String::new(),
        (None, true) => "the program adds no nodes before".to_owned(),
        (None, false) => format!("the program adds {}{more} before", there.join(", ")),
    };
    Fault { message: format!("KeyError: '{}'", shown(name)), word: name.to_owned(), nearest: near, known }
}
