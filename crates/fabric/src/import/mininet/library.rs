//! What Mininet has under its names: topologies, networks, nodes, and what is done with them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::super::NoteKind;
use super::super::line_of;
use super::super::network::Network;
use super::super::python::{Arguments, Fault, Heap, Library, LibraryCall, Outcome, Stop, Value};
use super::attributes;
use super::graph::{Graph, Node};
use super::options::switch_option;
use crate::read::shown;
use crate::source::{Lines, Place, Source};

/// So much is noted of one file.
const NOTES_MAX: usize = 100;

/// So many nodes and links are made: more than a fabric file can have.
pub const PARTS_MAX: usize = 20_000;

/// What makes a network: a statement without one of these can be skipped in silence.
const ABOUT: &[&str] =
    &["addHost(", "addSwitch(", "addLink(", "addNode(", "addNAT(", "linkTo(", "addController(", "Mininet("];

/// Names that stand for a network where a file does not say what they are.
const NETWORKS: [&str; 6] = ["self", "net", "topo", "mn", "network", "mininet"];

/// Methods that set something of nodes and their interfaces, and that nothing else has.
const OF_PARTS: [&str; 6] = ["setIP", "setMAC", "setARP", "setDefaultRoute", "setHostRoute", "ifconfig"];

/// Classes of networks.
const NETWORK_CLASSES: [&str; 3] = ["Mininet", "MininetWithControlNet", "Containernet"];

/// A thing that a program has in its hands.
#[derive(Clone, Debug)]
pub enum Item {
    Node(usize, usize),
    /// A device of a node.
    Device(usize, usize, String),
    /// A link of a graph, by its number.
    Link(usize, usize),
}

pub struct Mininet<'a> {
    source: &'a Source,
    lines: Lines<'a>,
    /// What is noted.
    pub network: Network,
    noted: BTreeSet<(Option<usize>, String)>,
    pub graphs: Vec<Graph>,
    of_object: BTreeMap<usize, usize>,
    pub items: Vec<Item>,
    /// Networks that `Mininet(..)` makes, and where.
    networks: Vec<(usize, usize)>,
    /// What stands for a network that the file does not make.
    loose: Option<Value>,
    pub parts: usize,
    /// Nodes that are no hosts and no switches, by name: controllers, and ways out.
    others: BTreeSet<String>,
    /// There may be nodes whose names are not known.
    has_unknown_nodes: bool,
}

/// A name, which may be a number.
pub fn text_of(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::Text(text) => Some(text.to_string()),
        Value::Int(number) => Some(number.to_string()),
        _ => None,
    }
}

impl<'a> Mininet<'a> {
    pub fn new(source: &'a Source) -> Self {
        Mininet {
            source,
            lines: Lines::of(&source.text),
            network: Network::default(),
            noted: BTreeSet::new(),
            graphs: Vec::new(),
            of_object: BTreeMap::new(),
            items: Vec::new(),
            networks: Vec::new(),
            loose: None,
            parts: 0,
            others: BTreeSet::new(),
            has_unknown_nodes: false,
        }
    }

    fn line(&self, at: usize) -> usize {
        line_of(&self.lines, Place { offset: at, len: 0 })
    }

    pub fn note(&mut self, at: usize, message: impl Into<String>) {
        self.note_as(NoteKind::LeftOut, at, &message.into());
    }

    /// Says what is hardly meant as it is written.
    pub fn doubt(&mut self, at: usize, message: impl Into<String>) {
        self.note_as(NoteKind::Mistake, at, &message.into());
    }

    fn note_as(&mut self, kind: NoteKind, at: usize, message: &str) {
        let line = Some(self.line(at));
        if self.noted.len() < NOTES_MAX && self.noted.insert((line, message.to_owned())) {
            self.network.note_as(kind, line, message);
        }
    }

    pub fn leave_out(&mut self, what: &'static str, at: usize, of: &str) {
        let line = self.line(at);
        self.network.leave_out(what, Some(line), of);
    }

    /// Says what the file has in another way.
    pub fn convert(&mut self, what: &'static str, at: usize, of: &str) {
        let line = self.line(at);
        self.network.convert(what, Some(line), of);
    }

    /// The statement that begins there, as it is written.
    pub fn statement(&self, at: usize) -> String {
        shown(self.source.text.get(at..).unwrap_or_default().trim())
    }

    /// Says why the program was not run to its end.
    pub fn end_early(&mut self, stop: Stop, at: usize) {
        let why = match stop {
            Stop::TooLong => "the program goes on for too long: this is what it had made until here",
            Stop::TooDeep => "calls within calls: this is what the program had made until here",
        };
        self.note(at, why);
    }

    /// Says which of several networks this is.
    pub fn note_number(&mut self) {
        let made: BTreeSet<usize> = self.networks.iter().map(|(graph, _)| *graph).collect();
        let made = made.into_iter().filter(|graph| !self.graphs[*graph].links.is_empty()).count();
        let first = self.networks.iter().find(|(graph, _)| !self.graphs[*graph].links.is_empty());
        if let Some((_, at)) = first.filter(|_| made > 1).copied() {
            self.note(at, format!("the program makes {made} networks: this is the first one"));
        }
    }

    /// The network that the file is about.
    pub fn chosen(&self) -> Option<Graph> {
        let made = self.networks.iter().map(|(graph, _)| &self.graphs[*graph]);
        if let Some(made) = made.into_iter().find(|graph| !graph.links.is_empty()) {
            return Some(made.clone());
        }
        let number = self.graphs.iter().position(|graph| !graph.links.is_empty())?;
        let mut graph = self.graphs[number].clone();
        // `mn` makes a network of a topology.
        if !self.is_loose(number) {
            graph.of_topology = graph.nodes.len();
        }
        Some(graph)
    }

    /// Whether it stands for a network that the file does not make.
    fn is_loose(&self, graph: usize) -> bool {
        matches!(self.loose, Some(Value::Object(at)) if self.of_object.get(&at) == Some(&graph))
    }

    fn new_graph(&mut self) -> usize {
        self.graphs.push(Graph::default());
        self.graphs.len() - 1
    }

    /// The graph of an object that is a topology or a network; of what is not known, it is that of the file.
    pub fn graph_of(&mut self, heap: &mut Heap, object: &Value) -> Option<usize> {
        let at = match object {
            Value::Object(at) => *at,
            Value::Unknown => {
                let Value::Object(at) = self.loose(heap) else { return None };
                at
            }
            _ => return None,
        };
        if let Some(graph) = self.of_object.get(&at) {
            return Some(*graph);
        }
        let class = heap.objects[at].class.clone();
        let bases = heap.library_bases(&class);
        let is_one = bases.iter().any(|base| **base == *"Topo" || NETWORK_CLASSES.contains(&&**base));
        // A class whose base is somebody else's may be a topology.
        if !is_one && matches!(class, Value::Class(at) if heap.classes[at].bases.is_empty()) {
            return None;
        }
        let graph = self.new_graph();
        self.of_object.insert(at, graph);
        Some(graph)
    }

    fn loose(&mut self, heap: &mut Heap) -> Value {
        let loose = self.loose.get_or_insert_with(|| Value::Object(heap.object(Value::Named("Topo".into()))));
        loose.clone()
    }

    pub fn item(&mut self, item: Item) -> Value {
        self.items.push(item);
        Value::Item(self.items.len() - 1)
    }

    /// Pays for the look at a graph's links that a thing costs.
    fn spend(&self, heap: &Heap, item: &Item) -> bool {
        const LINKS_A_STEP: usize = 100;
        let (Item::Node(graph, _) | Item::Device(graph, ..) | Item::Link(graph, _)) = item;
        heap.spend(self.graphs[*graph].links.len() / LINKS_A_STEP)
    }

    /// Whether it is a network, whose nodes are things, or a topology, whose nodes are names.
    fn is_network(heap: &Heap, object: &Value) -> bool {
        let Value::Object(at) = object else { return false };
        heap.library_bases(&heap.objects[*at].class).iter().any(|base| NETWORK_CLASSES.contains(&&**base))
    }

    fn node_value(&mut self, heap: &Heap, object: &Value, graph: usize, node: usize) -> Value {
        if Self::is_network(heap, object) {
            return self.item(Item::Node(graph, node));
        }
        Value::Text(self.graphs[graph].nodes[node].name.as_str().into())
    }

    /// Begins a network: `Mininet( topo=.., link=.. )`.
    fn begin(&mut self, heap: &mut Heap, object: &Value, arguments: &Arguments, at: usize) {
        let Value::Object(number) = object else { return };
        let topology = arguments.get(0, "topo").filter(|topology| !matches!(topology, Value::None)).cloned();
        let graph = match topology {
            Some(topology @ Value::Object(_)) => self.graph_of(heap, &topology),
            Some(_) => {
                self.has_unknown_nodes = true;
                self.note(at, "a network whose topology is not known here");
                None
            }
            None => None,
        };
        let graph = graph.unwrap_or_else(|| self.new_graph());
        self.of_object.insert(*number, graph);
        self.networks.push((graph, at));
        self.graphs[graph].of_topology = self.graphs[graph].nodes.len();
        if let Some(Value::Bound(link)) = arguments.by_name("link") {
            let options = heap.bound[*link].arguments.clone();
            let keys = self.link_keys(heap, &options.named, at);
            let links = self.graphs[graph].links.iter_mut();
            for link in links.filter(|link| link.keys.iter().all(Vec::is_empty)) {
                link.keys = [keys.clone(), keys.clone()];
            }
            self.graphs[graph].link_keys = keys;
        }
        if let Some(Value::Bound(switch)) = arguments.by_name("switch") {
            let options = heap.bound[*switch].arguments.named.clone();
            for what in options.iter().filter_map(|(option, _)| switch_option(option)) {
                self.leave_out(what, at, "all switches");
            }
        }
        if let Some(base) = arguments.by_name("ipBase").and_then(|base| text_of(Some(base))) {
            let (address, prefix) = base.split_once('/').unwrap_or((&base, "8"));
            if let (Ok(address), Ok(prefix @ 1..=31)) = (address.parse(), prefix.parse()) {
                self.graphs[graph].base = (address, prefix);
            }
        }
        self.graphs[graph].has_counted_macs |= matches!(arguments.by_name("autoSetMacs"), Some(Value::Bool(true)));
        for (what, option) in [
            ("the class of hosts (`host=`): hosts have this machine's programs, and no limits of CPU", "host"),
            (CONTROLLERS, "controller"),
        ] {
            if arguments.by_name(option).is_some_and(|value| !matches!(value, Value::None)) {
                self.leave_out(what, at, "the network");
            }
        }
    }

    fn add_node(&mut self, heap: &mut Heap, object: &Value, call: &LibraryCall<'_>, is_switch: bool) -> Value {
        let Some(graph) = self.graph_of(heap, object) else { return Value::Unknown };
        let Some(name) = text_of(call.arguments.get(0, "name")) else {
            self.has_unknown_nodes = true;
            self.note(
                call.at,
                format!("`{}`: a node whose name is not known here: write it out", self.statement(call.at)),
            );
            return Value::Unknown;
        };
        let class = call.arguments.by_name("cls").cloned();
        let bases = class.as_ref().map(|class| heap.library_bases(class)).unwrap_or_default();
        let is_switch = is_switch || bases.iter().any(|base| base.contains("Switch") || base.contains("Bridge"));
        let Some(node) = self.new_node(graph, &name, !is_switch, call.at) else {
            let known = self.graphs[graph].by_name.get(&name).copied();
            return known.map_or(Value::Unknown, |node| self.node_value(heap, object, graph, node));
        };
        if bases.iter().any(|base| **base == *"NAT") {
            self.note(call.at, format!("`{}` of the class NAT: a host's way out is `uplink: nat`", shown(&name)));
        }
        match class {
            Some(class @ Value::Class(_)) => {
                let texts = heap.lineage(&class).into_iter().map(|at| heap.classes[at].text);
                let text: String = texts.filter_map(|(start, end)| self.source.text.get(start..end)).collect();
                let forwards = text.contains("ip_forward") || text.contains("forwarding=1");
                self.graphs[graph].nodes[node].forwards = forwards;
                if !forwards && !is_switch {
                    self.leave_out("what nodes' own classes do", call.at, &name);
                }
            }
            Some(Value::Named(class)) if *class == *"LinuxRouter" => self.graphs[graph].nodes[node].forwards = true,
            Some(Value::Unknown) if !is_switch => {
                self.leave_out(
                    "what nodes' classes do that are not in this file (a router has `forward: true`)",
                    call.at,
                    &name,
                );
            }
            _ => {}
        }
        let mut options = call.arguments.named.clone();
        // `cls=partial( OVSSwitch, .. )`
        if let Some(Value::Bound(class)) = call.arguments.by_name("cls") {
            options.extend(heap.bound[*class].arguments.named.iter().cloned());
        }
        for (option, value) in &options {
            self.node_option(graph, node, option, value, call.at);
        }
        if call.arguments.has_unknown {
            self.leave_out("options of nodes that are not known here", call.at, &name);
        }
        self.node_value(heap, object, graph, node)
    }

    fn new_node(&mut self, graph: usize, name: &str, is_host: bool, at: usize) -> Option<usize> {
        self.parts += 1;
        let line = Some(self.line(at));
        if self.graphs[graph].by_name.contains_key(name) {
            self.doubt(at, format!("`{}` is there twice: the second one is left out", shown(name)));
            return None;
        }
        if self.parts > PARTS_MAX {
            self.note(at, format!("more than {PARTS_MAX} nodes and links"));
            return None;
        }
        let known = &mut self.graphs[graph];
        let number = known.nodes.len();
        known.by_name.insert(name.to_owned(), number);
        known.nodes.push(Node { name: name.to_owned(), is_host, line, ..Node::default() });
        Some(number)
    }

    /// The node that a value is or names.
    pub fn node_of(&self, graph: usize, value: &Value) -> Option<usize> {
        match value {
            Value::Item(at) => match self.items[*at] {
                Item::Node(of, node) if of == graph => Some(node),
                _ => None,
            },
            other => self.graphs[graph].by_name.get(&text_of(Some(other))?).copied(),
        }
    }

    /// A call of a method of a topology or a network.
    fn call_graph(&mut self, heap: &mut Heap, object: &Value, call: &LibraryCall<'_>) -> Outcome {
        let arguments = call.arguments;
        let value = match call.name {
            "__init__" => return self.initialize(heap, object, call),
            "addHost" | "addNode" | "addDocker" => self.add_node(heap, object, call, false),
            "addSwitch" => self.add_node(heap, object, call, true),
            "addLink" => self.add_link(heap, object, call),
            "addController" => {
                self.add_other(arguments);
                self.leave_out(CONTROLLERS, call.at, "the network");
                Value::Unknown
            }
            "addNAT" => {
                self.add_other(arguments);
                self.note(call.at, "a way to the outside (`addNAT`): `uplink: nat` of a host");
                Value::Unknown
            }
            "add_node" | "add_edge" | "addEdge" | "addServer" | "add_host" | "add_switch" | "add_link" => {
                self.has_unknown_nodes = true;
                self.note(call.at, format!("`{}`: write `addHost`, `addSwitch` or `addLink`", self.statement(call.at)));
                Value::Unknown
            }
            "delLink" | "delHost" | "delSwitch" | "delNode" | "delLinkBetween" | "removeLink" | "removeHost" => {
                self.note(call.at, format!("`{}`: what is taken away again", self.statement(call.at)));
                Value::None
            }
            "get" | "getNodeByName" | "__getitem__" | "getNode" => {
                let Some(graph) = self.graph_of(heap, object) else { return Outcome::Value(Value::Unknown) };
                let nodes: Vec<Option<usize>> =
                    arguments.positional.iter().map(|name| self.node_of(graph, name)).collect();
                let missing = arguments.positional.iter().zip(&nodes).find(|(_, node)| node.is_none());
                if let Some((Value::Text(name), _)) = missing
                    && !self.may_be_there(name)
                    && Self::is_network(heap, object)
                {
                    return Outcome::Raises(attributes::no_node(&self.graphs[graph], name));
                }
                let mut nodes: Vec<Value> = nodes
                    .into_iter()
                    .map(|node| node.map_or(Value::Unknown, |node| self.item(Item::Node(graph, node))))
                    .collect();
                if nodes.len() == 1 { nodes.remove(0) } else { heap.list(nodes) }
            }
            "hosts" | "switches" | "nodes" | "keys" | "values" | "items" => {
                return Outcome::Value(self.nodes(heap, object, call.name).unwrap_or(Value::Unknown));
            }
            "pingAll" | "ping" | "pingPair" | "pingFull" | "pingAllFull" | "pingPairFull" => {
                self.leave_out(
                    "pings: `heddle ping --all`, or `heddle ping h1 h2`, once the network is up",
                    call.at,
                    call.name,
                );
                Value::Unknown
            }
            "iperf" => {
                self.leave_out(
                    "measurements with iperf: `heddle iperf h1 h2`, or `experiments:` in the file",
                    call.at,
                    "iperf",
                );
                Value::Unknown
            }
            "interact" | "run" => {
                self.leave_out(COMMAND_LINE, call.at, call.name);
                Value::Unknown
            }
            "linksBetween" => {
                let Some(graph) = self.graph_of(heap, object) else { return Outcome::Value(Value::Unknown) };
                let ends = [0, 1].map(|at| arguments.get(at, "").and_then(|node| self.node_of(graph, node)));
                match ends {
                    [Some(a), Some(b)] => self.links_between(heap, graph, Some([a, b])).unwrap_or(Value::Unknown),
                    _ => Value::Unknown,
                }
            }
            "configLinkStatus" => {
                let words: Vec<String> = (0..3).filter_map(|at| text_of(arguments.get(at, ""))).collect();
                match &words[..] {
                    [a, b, status] if ["up", "down"].contains(&status.as_str()) => {
                        self.note(
                            call.at,
                            format!("`heddle link {status} {} {}` once the network is up", shown(a), shown(b)),
                        );
                    }
                    _ => self.leave_out("links that go down and up: `heddle link down h1 s1`", call.at, call.name),
                }
                Value::None
            }
            name => {
                self.has_unknown_nodes |= !attributes::is_known(name);
                Value::Unknown
            }
        };
        Outcome::Value(value)
    }

    /// Adds what is a node there and nothing here.
    fn add_other(&mut self, arguments: &Arguments) {
        match arguments.get(0, "name") {
            Some(Value::Text(name)) => self.others.extend([name.to_string()]),
            Some(_) => self.has_unknown_nodes = true,
            None => {}
        }
    }

    /// Whether the network may have a node of this name that is not known here. A controller is called `c0` where nothing else is said, and a way out `nat0`.
    fn may_be_there(&self, name: &str) -> bool {
        let is_default = ["c", "nat"].iter().any(|start| {
            name.strip_prefix(start).is_some_and(|number| number.chars().all(|digit| digit.is_ascii_digit()))
        });
        is_default || self.has_unknown_nodes || self.others.contains(name)
    }

    /// What the base of a topology or of a network does: the topology's calls `build`.
    fn initialize(&mut self, heap: &mut Heap, object: &Value, call: &LibraryCall<'_>) -> Outcome {
        if Self::is_network(heap, object) {
            self.begin(heap, object, call.arguments, call.at);
            return Outcome::Value(Value::None);
        }
        let mut arguments = call.arguments.clone();
        let is_default = |name: &str| ["lopts", "hopts", "sopts", "ropts"].contains(&name);
        if let Value::Object(at) = object {
            for (name, value) in arguments.named.iter().filter(|(name, _)| is_default(name)) {
                heap.objects[*at].attributes.insert(name.clone(), value.clone());
            }
        }
        arguments.named.retain(|(name, _)| !is_default(name));
        Outcome::Method(object.clone(), "build", arguments)
    }

    /// Nodes of a topology by name, or of a network as things.
    fn nodes(&mut self, heap: &mut Heap, object: &Value, which: &str) -> Option<Value> {
        let graph = self.graph_of(heap, object)?;
        let is_wanted = |node: &Node| match which {
            "hosts" => node.is_host,
            "switches" => !node.is_host,
            _ => true,
        };
        let is_topology = !Self::is_network(heap, object) && !self.is_loose(graph);
        let known = &self.graphs[graph];
        let nodes = known.order(if is_topology { known.nodes.len() } else { known.of_topology });
        let nodes: Vec<usize> = nodes.into_iter().filter(|at| is_wanted(&self.graphs[graph].nodes[*at])).collect();
        if !heap.spend(nodes.len()) {
            return None;
        }
        let mut all = Vec::new();
        for node in nodes {
            let name = Value::Text(self.graphs[graph].nodes[node].name.as_str().into());
            all.push(match which {
                "keys" => name,
                "items" => {
                    let pair = vec![name, self.item(Item::Node(graph, node))];
                    heap.tuple(pair)
                }
                _ => self.node_value(heap, object, graph, node),
            });
        }
        Some(heap.list(all))
    }

    /// A call of something that has a name of its own.
    fn call_name(&mut self, heap: &mut Heap, call: &LibraryCall<'_>) -> Outcome {
        let arguments = call.arguments;
        let first = arguments.positional.first().cloned();
        let value = match call.name {
            "Mininet" | "MininetWithControlNet" | "Containernet" => {
                let object = Value::Object(heap.object(Value::Named(call.name.into())));
                self.begin(heap, &object, arguments, call.at);
                object
            }
            "Topo" => {
                let object = Value::Object(heap.object(Value::Named("Topo".into())));
                let _ = self.graph_of(heap, &object);
                object
            }
            "custom" => match first {
                Some(receiver) => {
                    let mut arguments = arguments.clone();
                    arguments.positional.remove(0);
                    heap.bound(super::super::python::BoundValue { receiver, method: None, arguments })
                }
                None => Value::Unknown,
            },
            "CLI" => {
                self.leave_out(COMMAND_LINE, call.at, "CLI");
                Value::Unknown
            }
            "makeTerms" | "makeTerm" => {
                self.leave_out("terminals: `heddle shell h1`", call.at, call.name);
                Value::Unknown
            }
            "dumpNodeConnections" | "dumpNetConnections" | "dumpNodes" => {
                self.leave_out("lists of what there is: `heddle show links`, `heddle show nodes`", call.at, call.name);
                Value::Unknown
            }
            "Node" | "Host" | "CPULimitedHost" => self.loose_node(heap, call, false),
            name if name.contains("Switch") || name.contains("Bridge") => self.loose_node(heap, call, true),
            "Intf" | "TCIntf" => {
                if let Some(Value::Item(at)) = arguments.by_name("node").or(arguments.positional.get(1))
                    && matches!(self.items[*at], Item::Node(..))
                {
                    self.note_attached(call);
                }
                Value::Unknown
            }
            "Link" | "TCLink" if arguments.positional.len() >= 2 => {
                let of = match first {
                    Some(Value::Item(at)) => {
                        if let Item::Node(graph, _) = self.items[at] {
                            Some(graph)
                        } else {
                            None
                        }
                    }
                    _ => None,
                };
                let object = of.and_then(|of| self.of_object.iter().find(|(_, graph)| **graph == of));
                match object.map(|(object, _)| Value::Object(*object)) {
                    Some(object) => self.add_link(heap, &object, call),
                    None => Value::Unknown,
                }
            }
            _ => Value::Unknown,
        };
        Outcome::Value(value)
    }

    /// A node that belongs to no topology: `Node( 'h1' )`.
    fn loose_node(&mut self, heap: &mut Heap, call: &LibraryCall<'_>, is_switch: bool) -> Value {
        let Some(name) = text_of(call.arguments.get(0, "name")) else { return Value::Unknown };
        let loose = self.loose(heap);
        let Some(graph) = self.graph_of(heap, &loose) else { return Value::Unknown };
        let node = self.new_node(graph, &name, !is_switch, call.at);
        node.map_or(Value::Unknown, |node| self.item(Item::Node(graph, node)))
    }
}

const CONTROLLERS: &str = "controllers: switches forward along shortest paths from the first packet on";
const COMMAND_LINE: &str = "Mininet's command line: the network stays up, and any terminal has `heddle exec h1 COMMAND`, `heddle shell h1`, `heddle ping --all`";

impl Library for Mininet<'_> {
    fn name(&mut self, heap: &mut Heap, name: &str) -> Option<Value> {
        if attributes::NAMES.contains(&name) {
            return Some(Value::Named(name.into()));
        }
        if NETWORKS.contains(&name) {
            return Some(self.loose(heap));
        }
        match name {
            "__name__" => Some(Value::Text("__main__".into())),
            // It is called without arguments.
            "argv" => Some(heap.list(vec![Value::Text(self.source.name.as_str().into())])),
            _ => None,
        }
    }

    fn attribute(&mut self, heap: &mut Heap, of: &Value, name: &str) -> Option<Value> {
        match of {
            Value::Object(_) if ["hosts", "switches"].contains(&name) && Self::is_network(heap, of) => {
                self.nodes(heap, of, name)
            }
            Value::Object(_) if name == "links" && Self::is_network(heap, of) => {
                let graph = self.graph_of(heap, of)?;
                self.links_between(heap, graph, None)
            }
            Value::Object(_)
                if ["lopts", "hopts", "sopts", "nameToNode", "links", "controllers", "topo"].contains(&name) =>
            {
                Some(Value::Unknown)
            }
            Value::Item(at) => {
                let item = self.items[*at].clone();
                self.spend(heap, &item).then(|| self.attribute_of_item(heap, item, name))?
            }
            _ => None,
        }
    }

    fn call(&mut self, heap: &mut Heap, call: &LibraryCall<'_>) -> Outcome {
        let Some(receiver) = call.receiver.cloned() else { return self.call_name(heap, call) };
        match &receiver {
            Value::Object(_) | Value::Unknown => {
                let makes = ABOUT.iter().any(|about| about.trim_end_matches('(') == call.name);
                if matches!(receiver, Value::Unknown) && !makes {
                    if OF_PARTS.contains(&call.name) {
                        self.note_call(call);
                    }
                    return Outcome::Value(Value::Unknown);
                }
                match self.graph_of(heap, &receiver) {
                    Some(_) if matches!(receiver, Value::Unknown) => {
                        let loose = self.loose(heap);
                        self.call_graph(heap, &loose, call)
                    }
                    Some(_) => self.call_graph(heap, &receiver, call),
                    None => Outcome::Value(Value::Unknown),
                }
            }
            Value::Item(at) if !self.spend(heap, &self.items[*at]) => Outcome::Value(Value::Unknown),
            Value::Item(at) => match self.items[*at].clone() {
                Item::Node(graph, node) => Outcome::Value(self.call_node(heap, (graph, node), call)),
                Item::Device(graph, node, device) => {
                    Outcome::Value(self.call_device(heap, (graph, node, &device), call))
                }
                Item::Link(..) => {
                    self.note_call(call);
                    Outcome::Value(Value::Unknown)
                }
            },
            _ => Outcome::Value(Value::Unknown),
        }
    }

    fn lacks(&mut self, heap: &Heap, of: &Value, name: &str) -> Option<Fault> {
        let Value::Object(at) = of else { return None };
        let is_loose = matches!(self.loose, Some(Value::Object(loose)) if loose == *at);
        let class = &heap.objects[*at].class;
        if is_loose { None } else { attributes::lacks(heap, class, &self.source.text, name) }
    }

    fn is_done(&self) -> bool {
        self.graphs.iter().any(|graph| !graph.links.is_empty())
    }

    fn skipped(&mut self, range: Range<usize>, why: &str) {
        let text = self.source.text.get(range.clone()).unwrap_or_default();
        if ABOUT.iter().any(|about| text.contains(about)) {
            self.note(range.start, format!("`{}` {why}", shown(text)));
        }
    }
}
