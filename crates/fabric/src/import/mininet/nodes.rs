//! Nodes of Mininet: their options, and what is done with them once they are there.

use super::super::python::{Heap, LibraryCall, Value, whole, written};
use super::commands;
use super::graph::Wire;
use super::library::{Item, Mininet, text_of};
use super::options::{SPANNING_TREE, switch_option};
use super::traffic_control;
use crate::addresses::Mac;
use crate::names::nearest;
use crate::read::shown;

/// What is said of commands that are in the file.
const GOES_ON: &str = "commands that go on (`&`, `popen`) are `programs:` of the host, which start with the network, and whose output `heddle logs` shows";

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
                if let Some(Value::Text(address)) = arguments.get(0, "ip") {
                    let prefix = arguments
                        .get(1, "prefixLen")
                        .and_then(whole)
                        .map_or(String::new(), |prefix| format!("/{prefix}"));
                    let address =
                        if address.contains('/') { address.to_string() } else { format!("{address}{prefix}") };
                    let device = match arguments.get(2, "intf") {
                        Some(Value::Text(device)) => Some(device.to_string()),
                        Some(Value::Item(at)) => match &self.items[*at] {
                            Item::Device(_, _, device) => Some(device.clone()),
                            _ => None,
                        },
                        _ => None,
                    };
                    let node = &mut self.graphs[graph].nodes[number];
                    match device {
                        Some(device) => node.device_addresses.push((device, address)),
                        None => node.address = Some(address),
                    }
                }
            }
            "setMAC" => {
                if let Some(Value::Text(mac)) = first {
                    self.node_option(graph, number, "mac", &Value::Text(mac.clone()), call.at);
                }
            }
            "setDefaultRoute" => {
                if let Some(route @ Value::Text(_)) = first {
                    self.node_option(graph, number, "defaultRoute", route, call.at);
                }
            }
            "setHostRoute" => {
                self.leave_out("routes to one host: `routes: [\"ADDRESS/32 via ADDRESS\"]` of a host", call.at, &name);
            }
            "linkTo" => {
                if let Some(Value::Item(other)) = first
                    && let Item::Node(_, other) = self.items[*other]
                    && other != number
                {
                    self.graphs[graph].links.push(Wire { ends: [number, other], ..Wire::default() });
                }
            }
            "IP" => {
                let address = self.graphs[graph].nodes[number].address.clone();
                let address = address.as_deref().and_then(|address| address.split('/').next());
                return address.map_or(Value::Unknown, |address| Value::Text(address.into()));
            }
            "defaultIntf" | "intf" => {
                let devices = self.graphs[graph].devices(number);
                let device = text_of(first).or_else(|| devices.first().cloned());
                return device.map_or(Value::Unknown, |device| self.item(Item::Device(graph, number, device)));
            }
            "intfNames" => {
                let devices = self.graphs[graph].devices(number);
                return heap.list(devices.into_iter().map(|device| Value::Text(device.into())).collect());
            }
            _ => {}
        }
        Value::Unknown
    }
}
