//! Nodes of Mininet: their options, and what is done with them once they are there.

use super::super::python::{Heap, LibraryCall, Value, written};
use super::commands;
use super::devices::address_of;
use super::graph::Wire;
use super::library::{Item, Mininet, text_of};
use super::options::{SPANNING_TREE, switch_option};
use super::traffic_control;
use crate::addresses::Mac;
use crate::names::nearest;
use crate::read::shown;

/// What is said of commands that are in the file.
const GOES_ON: &str = "commands that go on (`&`, `popen`) are `programs:` of the host, which start with the network, and whose output `heddle logs` shows";

const NEIGHBOURS: &str = "MAC addresses of neighbours (`setARP`): hosts ask for them; `programs:` of a host may set one, as in `ip neigh replace ADDRESS lladdr MAC dev eth0`";

/// Methods of a node that change nothing, or begin and end what does so by itself here.
const ASK: [&str; 18] = [
    "start",
    "terminate",
    "cleanup",
    "MAC",
    "intfIsUp",
    "connected",
    "waitOutput",
    "waitReadable",
    "monitor",
    "read",
    "readline",
    "sendInt",
    "newPort",
    "defaultDpid",
    "controllerUUIDs",
    "checkListening",
    "isListening",
    "cfsInfo",
];

impl Mininet<'_> {
    /// An option of a node: a key of a host, or what is left out.
    pub fn node_option(&mut self, graph: usize, node: usize, option: &str, value: &Value, at: usize) {
        let node = &mut self.graphs[graph].nodes[node];
        let name = node.name.clone();
        let what = match (option, value) {
            (_, Value::None) | ("cls" | "name" | "inNamespace" | "ports", _) => return,
            ("ip", Value::Text(address)) if node.is_host => {
                node.address = Some(address.to_string());
                return;
            }
            ("mac", Value::Text(mac)) if node.is_host && mac.to_lowercase().parse::<Mac>().is_ok() => {
                node.mac = Some(mac.to_lowercase());
                return;
            }
            ("defaultRoute", Value::Text(route)) if node.is_host => {
                let words: Vec<&str> = route.split_whitespace().collect();
                let [.., "via", gateway] = words[..] else {
                    return self.note(
                        at,
                        format!(
                            "the route `{}` of `{}`: write `routes: [default via ADDRESS]`",
                            shown(route),
                            shown(&name)
                        ),
                    );
                };
                commands::add_route(node, "default", gateway);
                return;
            }
            ("ip" | "mac", _) if !node.is_host => return,
            ("ip" | "mac", _) => "addresses of hosts that are not known here: `ipv4:` and `mac:` of a host set them",
            ("defaultRoute", _) => {
                "routes of hosts that are not known here: `routes: [default via ADDRESS]` of a host sets one"
            }
            ("cpu" | "cores" | "sched" | "period_us", _) => "limits of CPU",
            ("dimage" | "image", _) => "images: hosts have this machine's programs, unless one has an `image`",
            ("privateDirs" | "volumes", _) => {
                "directories of a host's own: `files:` of a host are seen by its programs"
            }
            _ => {
                if let Some(what) = switch_option(option).filter(|_| !node.is_host) {
                    what
                } else if let Some(near) = nearest(option, ["ip", "mac", "defaultRoute", "inNamespace"])
                    && node.is_host
                {
                    let said = format!("`{}=` of `{}`: did you mean `{near}`?", shown(option), shown(&name));
                    return self.doubt(at, said);
                } else {
                    "options of nodes that nothing here stands for"
                }
            }
        };
        self.leave_out(what, at, &name);
    }

    /// Says what does here what a command does there.
    fn leave_out_command(&mut self, command: &str, (graph, number): (usize, usize), at: usize) {
        let name = self.graphs[graph].nodes[number].name.clone();
        let is_host = self.graphs[graph].nodes[number].is_host;
        if let Some(keys) = traffic_control::link_keys(command) {
            let message = format!(
                "`{}` of {name}: write `{keys}` at its link, for both directions (`back: {{ .. }}` is what the second node sends)",
                shown(command)
            );
            return self.note(at, message);
        }
        let what = match is_host {
            false if command.contains("stp_enable") || command.contains("brctl stp") => SPANNING_TREE,
            false => "commands of switches: `heddle flow`, `heddle port` and `heddle link` change what runs",
            true => "commands of hosts: `heddle exec HOST COMMAND` once the network is up, or `programs:` of the host",
        };
        self.leave_out(what, at, &name);
    }

    /// A call of a method of a node.
    pub fn call_node(&mut self, heap: &mut Heap, of: (usize, usize), call: &LibraryCall<'_>) -> Value {
        let (graph, number) = of;
        let arguments = call.arguments;
        let name = self.graphs[graph].nodes[number].name.clone();
        let first = arguments.positional.first();
        match call.name {
            "cmd" | "cmdPrint" | "sendCmd" | "popen" | "pexec" | "cmds" => {
                let mut words = arguments.positional.clone();
                if let [one] = &words[..]
                    && let Some(items) = heap.items(one).filter(|_| !matches!(one, Value::Text(_)))
                {
                    words = items;
                }
                let words: Option<Vec<String>> = words
                    .iter()
                    .map(|word| match word {
                        Value::Item(at) => match &self.items[*at] {
                            Item::Device(_, _, device) => Some(device.clone()),
                            _ => None,
                        },
                        other => written(heap, other),
                    })
                    .collect();
                let mut command = words.map(|words| words.join(" ")).filter(|_| !arguments.has_unknown);
                if call.name == "popen"
                    && let Some(command) = &mut command
                {
                    command.push_str(" &");
                }
                let node = &mut self.graphs[graph].nodes[number];
                let programs = node.programs.len();
                let is_kept = command.as_deref().is_some_and(|command| node.is_host && commands::apply(node, command));
                if is_kept && node.programs.len() > programs {
                    self.convert(GOES_ON, call.at, &name);
                }
                if !is_kept {
                    self.leave_out_command(command.as_deref().unwrap_or_default(), (graph, number), call.at);
                }
            }
            "setIP" => {
                let (address, intf) = (address_of(arguments), arguments.get(2, "intf"));
                let device = self.device_of(of, intf);
                let node = &mut self.graphs[graph].nodes[number];
                if intf.is_none() && node.is_host && address.is_some() {
                    node.address.clone_from(&address);
                }
                if device.is_some() || intf.is_some() || address.is_none() {
                    self.set_address((graph, number, &device.unwrap_or_default()), address, call.at);
                }
            }
            "setMAC" => match self.device_of(of, arguments.get(1, "intf")) {
                Some(device) => self.set_mac((graph, number, &device), text_of(first), call.at),
                None => self.node_option(graph, number, "mac", first.unwrap_or(&Value::Unknown), call.at),
            },
            "setDefaultRoute" => {
                let route = first.cloned().unwrap_or(Value::Unknown);
                self.node_option(graph, number, "defaultRoute", &route, call.at);
            }
            "config" => {
                for (option, value) in arguments.named.iter().filter(|(option, _)| **option != *"lo") {
                    self.node_option(graph, number, option, value, call.at);
                }
            }
            "setARP" => self.leave_out(NEIGHBOURS, call.at, &name),
            "attach" | "addIntf" => self.note_attached(call),
            "setHostRoute" => {
                self.leave_out("routes to one host: `routes: [\"ADDRESS/32 via ADDRESS\"]` of a host", call.at, &name);
            }
            "linkTo" => match first.and_then(|other| self.node_of(graph, other)).filter(|other| *other != number) {
                Some(other) => self.graphs[graph].links.push(Wire { ends: [number, other], ..Wire::default() }),
                None => self.note_call(call),
            },
            "IP" => {
                let address = self.graphs[graph].nodes[number].address.clone();
                let address = address.as_deref().and_then(|address| address.split('/').next());
                return address.map_or(Value::Unknown, |address| Value::Text(address.into()));
            }
            "defaultIntf" | "intf" => {
                let device = self.device_of(of, first);
                return device.map_or(Value::Unknown, |device| self.item(Item::Device(graph, number, device)));
            }
            "intfNames" => {
                let devices = self.graphs[graph].devices(number);
                return heap.list(devices.into_iter().map(|device| Value::Text(device.into())).collect());
            }
            "intfList" => {
                let devices = self.graphs[graph].devices(number).into_iter();
                let devices = devices.map(|device| self.item(Item::Device(graph, number, device))).collect();
                return heap.list(devices);
            }
            "connectionsTo" => {
                let other = first.and_then(|other| self.node_of(graph, other));
                return other.map_or(Value::Unknown, |other| self.connections(heap, of, other));
            }
            name if ASK.contains(&name) => {}
            _ => self.note_call(call),
        }
        Value::Unknown
    }
}
