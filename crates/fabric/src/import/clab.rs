//! Topologies of containerlab: `topology: { nodes: .., links: .. }`.

use super::network::{Link, Network, text_of};
use super::{ReadFile, line_of};
use crate::error::Problems;
use crate::read::{expected, shown};
use crate::source::{Lines, Source};
use crate::tree::{self, Entry, Node, Value};

/// Kinds of nodes that are switches or routers: they forward.
const FORWARDS: [&str; 4] = ["bridge", "ovs-bridge", "ovs", "rare"];

/// What stands in the place of a node at the end of a link, and is none.
const NO_NODES: [&str; 4] = ["host", "mgmt-net", "macvlan", "dummy"];

pub(super) fn read(source: &Source, file: ReadFile<'_>, problems: &mut Problems<'_>) -> Option<Network> {
    let lines = Lines::of(&source.text);
    let root = tree::read(source, problems)?;
    let mut network = Network::default();
    if let Some(Node { value: Value::Scalar(name), .. }) = get(&root, "name") {
        network.name = Some(name.clone());
    }
    let Some(topology) = get(&root, "topology") else {
        expected(&root, "a topology of containerlab, with `topology:`", problems);
        return None;
    };
    let kind_of = |node: &Node, topology: &Node| {
        let own = text(get(node, "kind"));
        let group = text(get(node, "group")).and_then(|group| get(get(topology, "groups")?, group));
        let default = get(topology, "defaults").and_then(|defaults| text(get(defaults, "kind")));
        own.or_else(|| text(get(group?, "kind"))).or(default).unwrap_or("linux").to_owned()
    };
    for key in ["defaults", "kinds", "groups"] {
        if let Some(entry) = entries(topology).iter().find(|entry| entry.key == key) {
            let line = Some(line_of(&lines, entry.key_place));
            network.note(line, format!("`{key}`: only the kind of nodes is taken from there"));
        }
    }
    for entry in get(topology, "nodes").map(entries).unwrap_or_default() {
        let kind = kind_of(&entry.value, topology);
        let image = text(get(&entry.value, "image")).unwrap_or_default();
        let is_host =
            kind == "linux" && !["frr", "bird", "quagga", "gobgp"].iter().any(|router| image.contains(router));
        let line = Some(line_of(&lines, entry.key_place));
        if !is_host && !FORWARDS.contains(&kind.as_str()) {
            network.leave_out(
                "the network operating system: nodes are switches that forward along shortest paths",
                line,
                &entry.key,
            );
        }
        if !network.add_node(&entry.key, &entry.key, is_host) {
            network.note(line, format!("`{}` is there twice", shown(&entry.key)));
        }
        for key in entries(&entry.value) {
            if is_host
                && key.key == "sysctls"
                && let Some(value) = sysctls(&key.value)
            {
                network.add_key(&entry.key, "sysctls", value);
                continue;
            }
            if is_host
                && key.key == "exec"
                && let Some(value) = program(&key.value)
            {
                network.add_key(&entry.key, "programs", value);
                let line = Some(line_of(&lines, key.key_place));
                network.leave_out(
                    "`exec` is the program `exec` of a host, whose links are `eth0` and so on",
                    line,
                    &entry.key,
                );
                continue;
            }
            if is_host
                && key.key == "binds"
                && let Some(value) = files(&key.value, file)
            {
                network.add_key(&entry.key, "files", value);
                continue;
            }
            if let Some(what) = left_out(&key.key) {
                network.leave_out(what, Some(line_of(&lines, key.key_place)), &entry.key);
            }
        }
    }
    let links = get(topology, "links").map_or(&[][..], |node| match &node.value {
        Value::List(items) => items.as_slice(),
        _ => &[],
    });
    for link in links {
        read_link(link, &lines, &mut network, problems);
    }
    Some(network)
}

/// Sysctls of a host as the fabric file has them, if they are its own: those below `net`.
fn sysctls(node: &Node) -> Option<String> {
    let all = entries(node).iter().map(|Entry { key, value, .. }| Some((key, text(Some(value))?)));
    let all = all.collect::<Option<Vec<_>>>().filter(|all| !all.is_empty())?;
    let is_own = |(key, _): &(&String, &str)| key.starts_with("net.") || key.starts_with("net/");
    let written = |(key, value): &(&String, &str)| format!("{}: {}", text_of(key), text_of(value));
    all.iter().all(is_own).then(|| format!("{{ {} }}", all.iter().map(written).collect::<Vec<_>>().join(", ")))
}

/// Commands that are run in a node once it is there, as a program of a host.
fn program(node: &Node) -> Option<String> {
    let Value::List(commands) = &node.value else { return None };
    let commands = commands.iter().map(|command| text(Some(command))).collect::<Option<Vec<_>>>()?;
    let line = commands.join("; ");
    (!line.trim().is_empty()).then(|| format!("{{ exec: {{ run: {}, restart: never }} }}", text_of(&line)))
}

/// Files that a node sees, `FILE:PATH` or `FILE:PATH:ro` each, if all of them can be read.
fn files(node: &Node, file: ReadFile<'_>) -> Option<String> {
    let Value::List(binds) = &node.value else { return None };
    let one = |bind: &Node| {
        let mut parts = text(Some(bind))?.split(':');
        let (from, to) = (parts.next()?, parts.next()?);
        Some(format!("{}: {}", text_of(to), text_of(&file(from)?)))
    };
    let all = binds.iter().map(one).collect::<Option<Vec<_>>>().filter(|all| !all.is_empty())?;
    Some(format!("{{ {} }}", all.join(", ")))
}

/// What is left out of a node's keys.
fn left_out(key: &str) -> Option<&'static str> {
    Some(match key {
        "kind" | "group" | "labels" | "position" => return None,
        "image" | "image-pull-policy" | "type" | "license" => {
            "images: hosts have this machine's programs, unless one has an `image`"
        }
        "exec" => "`exec`: `programs:` of a host start with the network",
        "cmd" | "entrypoint" => "`cmd`: `programs:` of a host start with the network",
        "binds" => "`binds`: `files:` of a host are seen by its programs",
        "sysctls" => "`sysctls`: write them as `sysctls:` of the host",
        "startup-config" | "startup-delay" | "config" => "configurations of network operating systems",
        "mgmt-ipv4" | "mgmt-ipv6" | "mgmt_ipv4" | "mgmt_ipv6" | "ports" | "network-mode" => {
            "the management network: `heddle exec` and `heddle shell` reach hosts without one"
        }
        "env" | "env-files" | "user" => "environments and users of containers",
        "cpu" | "memory" | "cpu-set" => "limits of CPU and memory",
        _ => "keys of nodes that nothing here stands for",
    })
}

/// A link in its short form, `endpoints: ["a:eth1", "b:eth1"]`, or in one of its long ones.
fn read_link(link: &Node, lines: &Lines<'_>, network: &mut Network, problems: &mut Problems<'_>) {
    let line = Some(line_of(lines, link.place));
    let kind = text(get(link, "type")).unwrap_or("veth");
    if kind != "veth" {
        return network.note(line, format!("a link of the type `{}`: its other end is none of the nodes", shown(kind)));
    }
    let ends = match get(link, "endpoints").map(|node| &node.value) {
        Some(Value::List(ends)) if ends.len() == 2 => ends,
        _ => return expected(link, "a link with `endpoints: [\"a:eth1\", \"b:eth1\"]`", problems),
    };
    let mut numbers = Vec::new();
    for end in ends {
        let name = match &end.value {
            Value::Scalar(text) => text.split(':').next().unwrap_or_default(),
            _ => text(get(end, "node")).unwrap_or_default(),
        };
        if NO_NODES.contains(&name) && network.node(name).is_none() {
            return network
                .note(line, format!("a link to `{name}` of the machine: `devices:` of a host are the machine's"));
        }
        let Some(number) = network.node(name) else {
            let message = format!("there is no node `{}`", shown(name));
            return problems.add(end.place, message, "unknown node", "it is none of `topology.nodes`");
        };
        numbers.push(number);
    }
    if numbers[0] == numbers[1] {
        return network.note(line, "a link from a node to itself");
    }
    for key in entries(link).iter().filter(|entry| !["endpoints", "type", "labels"].contains(&entry.key.as_str())) {
        network.note(Some(line_of(lines, key.key_place)), format!("`{}` of a link", shown(&key.key)));
    }
    network.add_link(Link { ends: (numbers[0], numbers[1]), keys: Vec::new() });
}

fn entries(node: &Node) -> &[Entry] {
    if let Value::Map(entries) = &node.value { entries } else { &[] }
}

fn get<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    entries(node).iter().find(|entry| entry.key == key).map(|entry| &entry.value)
}

fn text(node: Option<&Node>) -> Option<&str> {
    if let Value::Scalar(text) = &node?.value { Some(text) } else { None }
}
