//! Links of Mininet, with their options.

use std::rc::Rc;

use super::super::directions::Keys;
use super::super::python::{Heap, LibraryCall, Value, whole, written};
use super::graph::{Node, Wire};
use super::library::{Item, Mininet, PARTS_MAX, text_of};
use super::options::{is_known_to_mininet, is_option, link_key};
use crate::addresses::Mac;
use crate::read::shown;

const DEVICES: &str = "names of interfaces (`intfName1`, `intfName2`): those of hosts are eth0, eth1, .. and ports of switches 0, 1, .. in the order of their links";

/// What is said of addresses of interfaces.
pub const UNKNOWN_ADDRESSES: &str = "addresses of interfaces that are not known here: `interfaces: { 0: { ipv4: ADDRESS, mac: ADDRESS } }` of a host sets them";
pub const OF_SWITCHES: &str = "addresses of switches' ports: a switch forwards, and has none";

/// What is said of one end of a link.
#[derive(Default)]
struct EndOptions {
    address: Option<String>,
    mac: Option<String>,
    /// Options of what it sends.
    keys: Vec<(Rc<str>, Value)>,
}

impl Mininet<'_> {
    pub fn link_keys(&mut self, heap: &Heap, options: &[(Rc<str>, Value)], at: usize) -> Keys {
        let mut keys = Vec::new();
        for (option, value) in options {
            match link_key(heap, option, value) {
                Ok(key) => keys.extend(key),
                Err(why) => {
                    let text = written(heap, value).map_or_else(|| "..".to_owned(), |text| shown(&text));
                    let of = format!("`{}={text}` of a link", shown(option));
                    // What is not known here may be right there.
                    if is_option(option) && matches!(value, Value::Unknown | Value::Module) {
                        self.note(at, format!("{of}: its value is not known here"));
                    } else if is_known_to_mininet(option) {
                        self.note(at, format!("{of}: {why}"));
                    } else {
                        self.doubt(at, format!("{of}: {why}"));
                    }
                }
            }
        }
        if !keys.iter().any(|(key, _)| *key == "rate") && keys.iter().any(|(key, _)| *key == "queue") {
            keys.retain(|(key, _)| *key != "queue");
            self.note(at, "the queue of a link without a rate: nothing waits there");
        }
        keys
    }

    pub fn add_link(&mut self, heap: &mut Heap, object: &Value, call: &LibraryCall<'_>) -> Value {
        let arguments = call.arguments;
        let Some(graph) = self.graph_of(heap, object) else { return Value::Unknown };
        let end = |position, name| arguments.get(position, name).and_then(|value| self.node_of(graph, value));
        let (a, b) = match (end(0, "node1"), end(1, "node2")) {
            (Some(a), Some(b)) => (a, b),
            (a, b) => {
                let which = match (a, b) {
                    (None, Some(_)) => "its first end is no node",
                    (Some(_), None) => "its second end is no node",
                    _ => "its ends are no nodes",
                };
                let link = self.statement(call.at);
                self.note(call.at, format!("`{link}`: the link is left out, since {which} that the file adds before"));
                return Value::Unknown;
            }
        };
        if a == b {
            self.doubt(call.at, "a link from a node to itself");
            return Value::Unknown;
        }
        self.parts += 1;
        if self.parts > PARTS_MAX {
            self.note(call.at, format!("more than {PARTS_MAX} nodes and links"));
            return Value::Unknown;
        }
        if [(2, "port1"), (3, "port2")]
            .iter()
            .any(|(at, name)| arguments.get(*at, name).is_some_and(|port| whole(port).is_some()))
        {
            self.leave_out(
                "numbers of ports (ports are numbered from 0 in the order of the links: `heddle port show`)",
                call.at,
                "links",
            );
        }
        if arguments.has_unknown {
            self.note(call.at, format!("`{}`: options of the link that are not known here", self.statement(call.at)));
        }
        let mut options = arguments.named.clone();
        if options.is_empty()
            && let Value::Object(at) = object
            && let Some(Value::Dict(own)) = heap.objects[*at].attributes.get("lopts")
        {
            let named = |(key, value): &(Value, Value)| Some((Rc::from(text_of(Some(key))?), value.clone()));
            options = heap.dicts[*own].iter().filter_map(named).collect();
        }
        // `cls=partial( TCLink, .. )`
        if let Some(Value::Bound(class)) = arguments.by_name("cls") {
            options.extend(heap.bound[*class].arguments.named.iter().cloned());
        }
        let own = self.own_options(heap, (&options, [a, b]), graph, call);
        let [forth, back] = own.each_ref().map(|own| {
            // What is of both ends goes before.
            let is_own = |(name, _): &&(Rc<str>, Value)| options.iter().all(|(other, _)| other != name);
            options.iter().chain(own.keys.iter().filter(is_own)).cloned().collect::<Vec<_>>()
        });
        let mut keys = [self.link_keys(heap, &forth, call.at), self.link_keys(heap, &back, call.at)];
        if keys.iter().all(Vec::is_empty) {
            let default = &self.graphs[graph].link_keys;
            keys = [default.clone(), default.clone()];
        }
        let devices = [text_of(arguments.by_name("intfName1")), text_of(arguments.by_name("intfName2"))];
        for (device, node) in devices.iter().zip([a, b]) {
            if device.is_some() {
                let name = self.graphs[graph].nodes[node].name.clone();
                self.leave_out(DEVICES, call.at, &name);
            }
        }
        let ports = [(2, "port1"), (3, "port2")].map(|(at, name)| arguments.get(at, name).and_then(whole));
        let [first, second] = own;
        let addresses = [first.address, second.address];
        let macs = [first.mac, second.mac];
        self.graphs[graph].links.push(Wire { ends: [a, b], devices, ports, addresses, macs, keys });
        let number = self.graphs[graph].links.len() - 1;
        self.item(Item::Link(graph, number))
    }

    /// What is said of each end: `params1={ 'bw': 10 }`, `addr2='02:..'`.
    fn own_options(
        &mut self,
        heap: &Heap,
        (options, ends): (&[(Rc<str>, Value)], [usize; 2]),
        graph: usize,
        call: &LibraryCall<'_>,
    ) -> [EndOptions; 2] {
        let names = [("params1", "addr1"), ("params2", "addr2")];
        [0, 1].map(|side| {
            let ((params, addr), node) = (names[side], ends[side]);
            let mut own = EndOptions::default();
            let named = |name: &str| options.iter().find(|(other, _)| **other == *name).map(|(_, value)| value);
            let mut given: Vec<(Rc<str>, Value)> = Vec::new();
            match named(params) {
                Some(Value::Dict(dict)) => {
                    let pairs = heap.dicts[*dict].iter();
                    given.extend(pairs.filter_map(|(key, value)| Some((text_of(Some(key))?.into(), value.clone()))));
                }
                None | Some(Value::None) => {}
                Some(_) => {
                    let statement = self.statement(call.at);
                    self.note(call.at, format!("`{statement}`: options of the link that are not known here"));
                }
            }
            given.extend(named(addr).map(|mac| (Rc::from("mac"), mac.clone())));
            let Node { name, is_host, .. } = &self.graphs[graph].nodes[node];
            let (name, is_host) = (name.clone(), *is_host);
            for (option, value) in given {
                let text = text_of(Some(&value)).filter(|_| is_host);
                match (&*option, text) {
                    (_, _) if matches!(value, Value::None) => {}
                    ("ip", Some(address)) => own.address = Some(address),
                    ("mac", Some(mac)) if mac.to_lowercase().parse::<Mac>().is_ok() => {
                        own.mac = Some(mac.to_lowercase());
                    }
                    ("ip" | "mac", _) if is_host => self.leave_out(UNKNOWN_ADDRESSES, call.at, &name),
                    ("ip" | "mac", _) => self.leave_out(OF_SWITCHES, call.at, &name),
                    _ => own.keys.push((option, value)),
                }
            }
            own
        })
    }

    /// The links of a graph, or those between two nodes.
    pub fn links_between(&mut self, heap: &mut Heap, graph: usize, ends: Option<[usize; 2]>) -> Option<Value> {
        let is_meant = |wire: &Wire| ends.is_none_or(|[a, b]| wire.ends == [a, b] || wire.ends == [b, a]);
        let links = self.graphs[graph].links.iter().enumerate().filter(|(_, wire)| is_meant(wire));
        let links: Vec<usize> = links.map(|(number, _)| number).collect();
        let is_paid = heap.spend(links.len());
        let links = is_paid.then(|| links.into_iter().map(|link| self.item(Item::Link(graph, link))).collect())?;
        Some(heap.list(links))
    }
}
