//! Interfaces of Mininet's nodes, and what a program does to them once they are there.

use super::super::python::{Arguments, Heap, LibraryCall, Value, whole};
use super::commands::set_mac;
use super::graph::Change;
use super::library::{Item, Mininet, text_of};
use super::links::{OF_SWITCHES, UNKNOWN_ADDRESSES};
use crate::read::shown;

/// Methods of an interface that change nothing.
const ASK: [&str; 8] = ["IP", "MAC", "updateIP", "updateMAC", "updateAddr", "isUp", "status", "tcoutput"];

impl Mininet<'_> {
    /// Says that a method is not known here.
    pub fn note_call(&mut self, call: &LibraryCall<'_>) {
        let statement = self.statement(call.at);
        self.note(call.at, format!("`{statement}`: nothing here stands for `{}`", call.name));
    }

    /// Says what a device of the machine is at a node.
    pub fn note_attached(&mut self, call: &LibraryCall<'_>) {
        let statement = self.statement(call.at);
        let instead = "`switches: { s1: { ports: { lan: { device: eth1 } } } }` has a port on it";
        self.note(call.at, format!("`{statement}`: a device of the machine: {instead}"));
    }

    /// What a node, an interface or a link has under a name.
    pub fn attribute_of_item(&mut self, heap: &mut Heap, item: Item, name: &str) -> Option<Value> {
        match (item, name) {
            (Item::Node(graph, node), "name") => Some(Value::Text(self.graphs[graph].nodes[node].name.as_str().into())),
            (Item::Node(graph, node), "intfs" | "nameToIntf") => {
                let first = i64::from(!self.graphs[graph].nodes[node].is_host);
                let devices = self.graphs[graph].devices(node);
                let ports =
                    self.graphs[graph].ends(node).map(|(link, side)| self.graphs[graph].links[link].ports[side]);
                let ports: Vec<i64> = (first..).zip(ports).map(|(number, port)| port.unwrap_or(number)).collect();
                let pairs = ports.into_iter().zip(devices).map(|(port, device)| {
                    let key = if name == "intfs" { Value::Int(port) } else { Value::Text(device.as_str().into()) };
                    (key, self.item(Item::Device(graph, node, device)))
                });
                let pairs = pairs.collect();
                Some(heap.dict(pairs))
            }
            (Item::Device(_, _, device), "name") => Some(Value::Text(device.as_str().into())),
            (Item::Device(graph, node, _), "node") => Some(self.item(Item::Node(graph, node))),
            (Item::Device(graph, node, device), "link") => {
                let link = self.graphs[graph].end_of(node, &device).map(|(link, _)| link);
                Some(link.map_or(Value::Unknown, |link| self.item(Item::Link(graph, link))))
            }
            (Item::Link(graph, link), "intf1" | "intf2") => {
                let side = usize::from(name == "intf2");
                let node = self.graphs[graph].links[link].ends[side];
                let number = self.graphs[graph].ends(node).position(|end| end == (link, side))?;
                let device = self.graphs[graph].devices(node).into_iter().nth(number)?;
                Some(self.item(Item::Device(graph, node, device)))
            }
            (_, "params" | "ports" | "pid" | "shell") => Some(Value::Unknown),
            _ => None,
        }
    }

    /// A call of a method of an interface.
    pub fn call_device(
        &mut self,
        heap: &mut Heap,
        (graph, node, device): (usize, usize, &str),
        call: &LibraryCall<'_>,
    ) -> Value {
        let arguments = call.arguments;
        let is_known = self.graphs[graph].end_of(node, device).is_some();
        if !is_known {
            let (statement, name) = (self.statement(call.at), shown(&self.graphs[graph].nodes[node].name));
            self.note(call.at, format!("`{statement}`: `{name}` has no interface `{}`", shown(device)));
            return Value::Unknown;
        }
        match call.name {
            "config" => self.configure((heap, arguments), (graph, node, device), call),
            "setIP" => {
                let address = address_of(arguments);
                self.set_address((graph, node, device), address, call.at);
            }
            "setMAC" => {
                let mac = text_of(arguments.get(0, "macstr"));
                self.set_mac((graph, node, device), mac, call.at);
            }
            "ifconfig" => {
                let mut words = vec![Value::Text(format!("ifconfig {device}").into())];
                words.extend(arguments.positional.iter().cloned());
                let arguments = Arguments { positional: words, ..arguments.clone() };
                let call = LibraryCall { name: "cmd", arguments: &arguments, ..*call };
                return self.call_node(heap, (graph, node), &call);
            }
            "cmd" => return self.call_node(heap, (graph, node), call),
            name if ASK.contains(&name) => {}
            _ => self.note_call(call),
        }
        Value::Unknown
    }

    /// `intf.config( bw=10, ip='10.0.0.9/8' )`: what it sends does as that says, and nothing else.
    fn configure(
        &mut self,
        (heap, arguments): (&Heap, &Arguments),
        (graph, node, device): (usize, usize, &str),
        call: &LibraryCall<'_>,
    ) {
        if arguments.has_unknown || !arguments.positional.is_empty() {
            let statement = self.statement(call.at);
            self.note(call.at, format!("`{statement}`: options of the link that are not known here"));
        }
        let (of_device, of_link): (Vec<_>, Vec<_>) =
            arguments.named.iter().cloned().partition(|(option, _)| ["ip", "mac"].contains(&&**option));
        for (option, value) in of_device.iter().filter(|(_, value)| !matches!(value, Value::None)) {
            let text = text_of(Some(value));
            match &**option {
                "ip" => self.set_address((graph, node, device), text, call.at),
                _ => self.set_mac((graph, node, device), text, call.at),
            }
        }
        let keys = self.link_keys(heap, &of_link, call.at);
        if let Some((link, side)) = self.graphs[graph].end_of(node, device).filter(|_| !keys.is_empty()) {
            self.graphs[graph].links[link].keys[side] = keys;
        }
    }

    /// Gives an interface its first address; `None`: it is not known here.
    pub fn set_address(&mut self, (graph, node, device): (usize, usize, &str), address: Option<String>, at: usize) {
        let known = &mut self.graphs[graph].nodes[node];
        match address.filter(|_| known.is_host) {
            Some(address) => known.changes.push((device.to_owned(), Change::Address(address))),
            None => self.leave_out_address((graph, node), at),
        }
    }

    /// The same of its MAC address.
    pub fn set_mac(&mut self, (graph, node, device): (usize, usize, &str), mac: Option<String>, at: usize) {
        let known = &mut self.graphs[graph].nodes[node];
        if !mac.is_some_and(|mac| known.is_host && set_mac(known, device, &mac)) {
            self.leave_out_address((graph, node), at);
        }
    }

    fn leave_out_address(&mut self, (graph, node): (usize, usize), at: usize) {
        let (name, is_host) = (self.graphs[graph].nodes[node].name.clone(), self.graphs[graph].nodes[node].is_host);
        self.leave_out(if is_host { UNKNOWN_ADDRESSES } else { OF_SWITCHES }, at, &name);
    }

    /// The interface that is meant: by its name, or itself; or else the first one.
    pub fn device_of(&self, (graph, node): (usize, usize), value: Option<&Value>) -> Option<String> {
        match value {
            Some(Value::Text(device)) => Some(device.to_string()),
            Some(Value::Item(at)) => match &self.items[*at] {
                Item::Device(_, _, device) => Some(device.clone()),
                _ => None,
            },
            None | Some(Value::None) => self.graphs[graph].devices(node).into_iter().next(),
            Some(_) => None,
        }
    }

    /// The interfaces of a node by which it is linked to another one, each with that one's.
    pub fn connections(&mut self, heap: &mut Heap, (graph, node): (usize, usize), other: usize) -> Value {
        let ends: Vec<(usize, usize)> = self.graphs[graph].ends(node).collect();
        let mut pairs = Vec::new();
        for (link, side) in ends {
            if self.graphs[graph].links[link].ends[1 - side] != other {
                continue;
            }
            let link = Item::Link(graph, link);
            let both = if side == 0 { ["intf1", "intf2"] } else { ["intf2", "intf1"] };
            let both = both.into_iter().filter_map(|name| self.attribute_of_item(heap, link.clone(), name)).collect();
            pairs.push(heap.tuple(both));
        }
        heap.list(pairs)
    }
}

/// `'10.0.0.9/8'`, or `'10.0.0.9', 8`.
pub fn address_of(arguments: &Arguments) -> Option<String> {
    let address = text_of(arguments.get(0, "ip").or_else(|| arguments.by_name("ipstr")))?;
    let prefix = arguments.get(1, "prefixLen").and_then(whole);
    Some(match prefix.filter(|_| !address.contains('/')) {
        Some(prefix) => format!("{address}/{prefix}"),
        None => address,
    })
}
