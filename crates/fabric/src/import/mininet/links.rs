//! Links of Mininet, with their options.

use std::rc::Rc;

use super::super::python::{Heap, LibraryCall, Value, whole, written};
use super::graph::Wire;
use super::library::{Item, Mininet, PARTS_MAX, text_of};
use super::options::{is_known_to_mininet, is_option, link_key};
use crate::read::shown;

const DEVICES: &str = "names of interfaces (`intfName1`, `intfName2`): those of hosts are eth0, eth1, .. and ports of switches 0, 1, .. in the order of their links";

impl Mininet<'_> {
    pub fn link_keys(&mut self, heap: &Heap, options: &[(Rc<str>, Value)], at: usize) -> Vec<(&'static str, String)> {
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
        let mut keys = self.link_keys(heap, &options, call.at);
        if keys.is_empty() {
            keys.clone_from(&self.graphs[graph].link_keys);
        }
        let parameter = |name: &str| match arguments.by_name(name) {
            Some(Value::Dict(dict)) => text_of(heap.lookup(*dict, &Value::Text("ip".into())).as_ref()),
            _ => None,
        };
        let devices = [text_of(arguments.by_name("intfName1")), text_of(arguments.by_name("intfName2"))];
        for (device, node) in devices.iter().zip([a, b]) {
            if device.is_some() {
                let name = self.graphs[graph].nodes[node].name.clone();
                self.leave_out(DEVICES, call.at, &name);
            }
        }
        let addresses = [parameter("params1"), parameter("params2")];
        self.graphs[graph].links.push(Wire { ends: [a, b], devices, addresses, keys });
        self.item(Item::Link)
    }
}
