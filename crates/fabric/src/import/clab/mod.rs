//! Topologies of containerlab: `topology: { nodes: .., links: .. }`.

mod links;

use std::collections::BTreeSet;

use self::links::Device;
use super::network::{Network, routes_nothing, text_of};
use super::{NoteKind, ReadFile, frr, line_of, refuse_fabric};
use crate::addresses::Subnet;
use crate::error::Problems;
use crate::host_addresses::unusable;
use crate::host_routes;
use crate::model::{HostRoute, InterfaceAddress};
use crate::read::{expected, shown};
use crate::source::{Lines, Source};
use crate::tree::{self, Entry, Node, Value};

/// Words in the names of images that are routers: hosts that forward, with the routing daemons that are in the image.
const ROUTERS: [&str; 12] =
    ["frr", "bird", "quagga", "gobgp", "openbgpd", "exabgp", "vyos", "zebra", "bgpd", "ospfd", "holo", "router"];

/// Kinds of nodes that are switches there, too.
const FORWARDS: [&str; 3] = ["bridge", "ovs-bridge", "ovs"];

/// What is taken from `defaults`, `kinds` and `groups`.
const TAKEN: [&str; 2] = ["kind", "image"];

pub(super) fn read(source: &Source, file: ReadFile<'_>, problems: &mut Problems<'_>) -> Option<Network> {
    let lines = Lines::of(&source.text);
    let root = tree::read(source, problems)?;
    let mut network = Network::default();
    if let Some(Node { value: Value::Scalar(name), .. }) = get(&root, "name") {
        network.name = Some(name.clone());
    }
    if refuse_fabric(&root, source, problems) {
        return None;
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
            // `kinds` and `groups` have names of their own between.
            let of = |entry: &Entry| entries(&entry.value).iter().map(|inner| inner.key.clone()).collect::<Vec<_>>();
            let keys: Vec<String> =
                if key == "defaults" { of(entry) } else { entries(&entry.value).iter().flat_map(of).collect() };
            let others: BTreeSet<String> = keys
                .into_iter()
                .filter(|key| !TAKEN.contains(&key.as_str()))
                .map(|key| format!("`{}`", shown(&key)))
                .collect();
            if !others.is_empty() {
                let others = others.into_iter().collect::<Vec<_>>().join(", ");
                let line = Some(line_of(&lines, entry.key_place));
                let said = "only the kind and the image of nodes are taken from there: write the others at each node";
                network.note(line, format!("{others} of `{key}`: {said}"));
            }
        }
    }
    for entry in entries(&root).iter().filter(|entry| !["name", "topology"].contains(&entry.key.as_str())) {
        let line = Some(line_of(&lines, entry.key_place));
        match entry.key.as_str() {
            "mgmt" => network.note(line, format!("`mgmt`: {MANAGEMENT}")),
            key => network.note(line, format!("`{}` of the file: nothing here stands for it", shown(key))),
        }
    }
    let known = ["nodes", "links", "defaults", "kinds", "groups"];
    for entry in entries(topology).iter().filter(|entry| !known.contains(&entry.key.as_str())) {
        let said = format!("`{}` of the topology: nothing here stands for it", shown(&entry.key));
        network.note(Some(line_of(&lines, entry.key_place)), said);
    }
    let links = get(topology, "links").map(items).unwrap_or_default();
    let mut devices_of = links::devices(links);
    for entry in get(topology, "nodes").map(entries).unwrap_or_default() {
        let kind = kind_of(&entry.value, topology);
        let image = image_of(&entry.value, topology, &kind);
        let is_host = kind == "linux";
        let line = Some(line_of(&lines, entry.key_place));
        if !is_host && !FORWARDS.contains(&kind.as_str()) {
            network.leave_out(routes_nothing("the network operating system: nodes of its kind"), line, &entry.key);
        }
        if !network.add_node(&entry.key, &entry.key, is_host) {
            let said = format!("`{}` is there twice", shown(&entry.key));
            network.note_as(NoteKind::Mistake, line, &said);
        }
        let is_router = is_host && image.is_some_and(|image| ROUTERS.iter().any(|router| image.contains(router)));
        if let Some(image) = image.filter(|_| is_router) {
            network.add_key(&entry.key, "forward", "true".to_owned());
            let is_path = image.starts_with(['/', '.']) || image.contains("://");
            let image = if is_path { image.to_owned() } else { format!("docker://{image}") };
            network.add_key(&entry.key, "image", text_of(&image));
            let what = "what an image starts by itself: the host's `programs:` start its routing daemons, as in `programs: { frr: /usr/lib/frr/docker-start }`";
            network.leave_out(what, line, &entry.key);
        } else if is_host && image.is_some() && get(&entry.value, "image").is_none() {
            // It is that of its group, its kind or all nodes.
            network.leave_out(left_out("image"), line, &entry.key);
        }
        let mut own = devices_of.remove(&*entry.key).unwrap_or_default();
        let has_own = own.iter().any(|own| !own.is_empty());
        let devices: Vec<String> = own.iter().map(|own| own.name.clone()).collect();
        let is_configured = is_router && configure(&mut own, &devices, &entry.value, file);
        let mut has_devices = false;
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
                && let Some(setup) = setup(&key.value, &devices, own.clone())
            {
                for (key, value) in setup.keys {
                    has_devices |= ["interfaces", "ipv4", "ipv6", "mac"].contains(&key);
                    network.add_key(&entry.key, key, value);
                }
                let line = Some(line_of(&lines, key.key_place));
                network.convert(setup.what, line, &entry.key);
                continue;
            }
            if is_host
                && key.key == "binds"
                && let Some(value) = files(&key.value, file, if is_configured { &devices } else { &[] })
            {
                network.add_key(&entry.key, "files", value);
                continue;
            }
            if is_router && ["image", "image-pull-policy"].contains(&key.key.as_str()) {
                continue;
            }
            if !["kind", "group"].contains(&key.key.as_str()) {
                network.leave_out(left_out(&key.key), Some(line_of(&lines, key.key_place)), &entry.key);
            }
        }
        if is_host && (is_configured || has_own) && !has_devices {
            has_devices = true;
            for (key, value) in interface_keys(&own, true) {
                network.add_key(&entry.key, key, value);
            }
        }
        if is_configured {
            network.convert(CONFIGURED, line, &entry.key);
        } else if is_router && !has_devices {
            network.leave_out(NO_DEVICES, line, &entry.key);
        }
    }
    links::read(links, &lines, &mut network, problems);
    Some(network)
}

/// What is said of `exec`.
const SET_UP: &str =
    "`exec` sets up a host: its addresses and routes are the host's own (`ipv4:`, `interfaces:`, `routes:`)";
const SET_UP_AND_RUN: &str = "`exec` is the program `exec` of a host, with the names that its devices have here (`eth0` is the first link's), and addresses and routes that it adds are the host's own";
const RUN: &str = "`exec` is the program `exec` of a host";

/// What is said of routers whose devices are known, and of those whose are not.
const CONFIGURED: &str = "addresses of devices in the router's configuration are `interfaces:` of the host, and its files have the names that devices have here (`eth0` is the first link's)";
const NO_DEVICES: &str = "a device for each link, with the addresses that the image's own configuration gives it: the host's `interfaces:` name them, as in `interfaces: { s1: { ipv4: 10.0.1.254/24 } }` by its neighbour; until then it has one device, `eth0`, for all links";

/// Gives devices the addresses that the configuration of their router has: in files that are bound into it, and in commands of `vtysh`. False: it has none.
fn configure(own: &mut [Device], devices: &[String], node: &Node, file: ReadFile<'_>) -> bool {
    let mut addresses = vec![Vec::new(); devices.len()];
    let all = |key: &str| get(node, key).map(items).unwrap_or_default();
    for (from, _) in all("binds").iter().filter_map(bind) {
        if let Some(text) = file(from) {
            frr::add_addresses(&text, devices, &mut addresses);
        }
    }
    let commands = all("exec").iter().filter_map(|command| words(text(Some(command))?));
    for said in commands.filter_map(|words| frr::of_command(&words)) {
        frr::add_addresses(&said, devices, &mut addresses);
    }
    let is_any = addresses.iter().any(|addresses| !addresses.is_empty());
    for (own, addresses) in own.iter_mut().zip(addresses) {
        for address in addresses {
            own.add(address);
        }
    }
    is_any
}

/// A file, and the path at which a node sees it.
fn bind(bind: &Node) -> Option<(&str, &str)> {
    let mut parts = text(Some(bind))?.split(':');
    parts.next().zip(parts.next())
}

/// The image of a node: its own, or that of its group, its kind or the defaults.
fn image_of<'a>(node: &'a Node, topology: &'a Node, kind: &str) -> Option<&'a str> {
    let group = text(get(node, "group")).and_then(|group| get(get(topology, "groups")?, group));
    let of_kind = get(topology, "kinds").and_then(|kinds| get(kinds, kind));
    let places = [Some(node), group, of_kind, get(topology, "defaults")];
    places.into_iter().flatten().find_map(|place| text(get(place, "image")))
}

/// Sysctls of a host as the fabric file has them, if they are its own: those below `net`.
fn sysctls(node: &Node) -> Option<String> {
    let all = entries(node).iter().map(|Entry { key, value, .. }| Some((key, text(Some(value))?)));
    let all = all.collect::<Option<Vec<_>>>().filter(|all| !all.is_empty())?;
    let is_own = |(key, _): &(&String, &str)| key.starts_with("net.") || key.starts_with("net/");
    let written = |(key, value): &(&String, &str)| format!("{}: {}", text_of(key), text_of(value));
    all.iter().all(is_own).then(|| format!("{{ {} }}", all.iter().map(written).collect::<Vec<_>>().join(", ")))
}

/// Runs each of its arguments as a command of its own, says which one fails, and goes on with the next one.
const EACH: &str =
    "failed=0; for line do sh -c \"$line\" || { echo \"failed with $?: $line\" >&2; failed=1; }; done; exit $failed";

/// What commands that are run in a node once it is there come to: keys of a host, and what is said of them.
struct Setup {
    keys: Vec<(&'static str, String)>,
    what: &'static str,
}

/// Commands are run each by itself and without a shell, as there. Those that add addresses and routes give the host those, besides the ones that it has.
fn setup(node: &Node, devices: &[String], mut own: Vec<Device>) -> Option<Setup> {
    let Value::List(commands) = &node.value else { return None };
    let commands = commands.iter().map(|command| text(Some(command))).collect::<Option<Vec<_>>>()?;
    let mut is_renamed = false;
    let (mut lines, mut routes) = (Vec::new(), Vec::new());
    for command in commands.into_iter().filter(|command| !command.trim().is_empty()) {
        let words = words(command)?;
        let renamed: Vec<String> = words.iter().map(|word| renamed(word, devices)).collect();
        is_renamed |= renamed != words;
        match added_address(&renamed) {
            Some((number, address)) if number < own.len() => own[number].add(address),
            _ => match route_command(&renamed) {
                Some(RouteCommand::Add(route)) => routes.push((route, renamed)),
                // There, the management network has the default route; here it is not there.
                Some(RouteCommand::DeleteDefault) if routes.is_empty() => {}
                _ => lines.push(renamed),
            },
        }
    }
    let is_near = |(route, _): &(HostRoute, Vec<String>)| is_near(route, &own);
    // The others fail there, too, unless another command comes before them.
    let (routes, far): (Vec<_>, Vec<_>) = routes.into_iter().partition(is_near);
    lines.extend(far.into_iter().map(|(_, words)| words));
    let mut keys = interface_keys(&own, is_renamed || own.iter().any(|own| !own.is_empty()));
    if !routes.is_empty() {
        let routes: Vec<String> = routes.iter().map(|(route, _)| text_of(&route.to_string())).collect();
        keys.push(("routes", format!("[{}]", routes.join(", "))));
    }
    let what = match (lines.is_empty(), is_renamed || !keys.is_empty()) {
        (true, _) => SET_UP,
        (false, true) => SET_UP_AND_RUN,
        (false, false) => RUN,
    };
    if !lines.is_empty() {
        keys.push(("programs", program(lines)));
    }
    (!keys.is_empty()).then_some(Setup { keys, what })
}

/// The program that runs commands: one by itself, several one after the other.
fn program(mut lines: Vec<Vec<String>>) -> String {
    let run = if lines.len() == 1 {
        lines.remove(0)
    } else {
        let in_line = |words: Vec<String>| words.iter().map(|word| for_shell(word)).collect::<Vec<_>>().join(" ");
        ["sh", "-c", EACH, "exec"].map(str::to_owned).into_iter().chain(lines.into_iter().map(in_line)).collect()
    };
    let run: Vec<String> = run.iter().map(|word| text_of(word)).collect();
    format!("{{ exec: {{ run: [{}], restart: never }} }}", run.join(", "))
}

/// What a command of `ip route` does, of what a host can have by itself.
enum RouteCommand {
    Add(HostRoute),
    DeleteDefault,
}

fn route_command(words: &[String]) -> Option<RouteCommand> {
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !["-4", "-6"].contains(word)).collect();
    match words[..] {
        ["ip", "r" | "ro" | "route", "del" | "delete", "default", ..] => Some(RouteCommand::DeleteDefault),
        ["ip", "r" | "ro" | "route", "add" | "replace", ref rest @ ..] => {
            let route = host_routes::parse(&rest.join(" "))?;
            let is_subnet = host_routes::first_of(route.destination) == route.destination.address;
            // Without a next hop, `default` may be of either version.
            let is_known = route.via.is_some_and(|via| via.is_ipv4() == route.destination.address.is_ipv4());
            (is_subnet && is_known).then_some(RouteCommand::Add(route))
        }
        _ => None,
    }
}

/// Whether a host with these addresses reaches the next hop; one without has 10.0.0.0/8.
fn is_near(route: &HostRoute, devices: &[Device]) -> bool {
    let subnet = |own: &InterfaceAddress, address| {
        host_routes::first_of(InterfaceAddress { address, prefix: own.prefix }) == host_routes::first_of(*own)
    };
    let Some(via) = route.via else { return false };
    let addresses = devices.iter().flat_map(|device| &device.addresses);
    let mut own = addresses.filter(|own| own.address.is_ipv4() == via.is_ipv4()).peekable();
    match (own.peek(), via) {
        (None, std::net::IpAddr::V4(via)) => via.octets()[0] == 10,
        _ => own.any(|own| subnet(own, via)),
    }
}

/// Keys of a host for the addresses of its devices; with several, it has a device each, as there, where somebody speaks of them.
fn interface_keys(devices: &[Device], is_named: bool) -> Vec<(&'static str, String)> {
    if let [only] = devices {
        return device_keys(only);
    }
    let of_one = |(number, own): (usize, &Device)| {
        let keys = device_keys(own).into_iter().map(|(key, value)| format!("{key}: {value}"));
        format!("{number}: {{ {} }}", keys.collect::<Vec<_>>().join(", ")).replace("{  }", "{}")
    };
    let interfaces = devices.iter().enumerate().map(of_one).collect::<Vec<_>>().join(", ");
    is_named.then(|| ("interfaces", format!("{{ {interfaces} }}"))).into_iter().collect()
}

/// The address that `ip address add ADDRESS/PREFIX dev ethN` adds, and to which device.
fn added_address(words: &[String]) -> Option<(usize, InterfaceAddress)> {
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !["-4", "-6"].contains(word)).collect();
    let ["ip", "a" | "addr" | "address", "add" | "replace", address, "dev", device] = words[..] else { return None };
    let Subnet(address) = address.parse().ok()?;
    let number = device.strip_prefix("eth")?.parse().ok()?;
    unusable(address).is_none().then_some((number, address))
}

/// What a device has, as the fabric file has it: the first address of each version, the others, and the MAC address.
fn device_keys(Device { addresses: own, mac, .. }: &Device) -> Vec<(&'static str, String)> {
    let mut keys = Vec::new();
    let first = |is_ipv4: bool| own.iter().position(|own| own.address.is_ipv4() == is_ipv4);
    let firsts = [("ipv4", first(true)), ("ipv6", first(false))];
    for (key, at) in firsts {
        keys.extend(at.map(|at| (key, text_of(&own[at].to_string()))));
    }
    let is_first = |at: usize| firsts.iter().any(|(_, first)| *first == Some(at));
    let further: Vec<String> =
        (0..own.len()).filter(|at| !is_first(*at)).map(|at| text_of(&own[at].to_string())).collect();
    if !further.is_empty() {
        keys.push(("addresses", format!("[{}]", further.join(", "))));
    }
    keys.extend(mac.as_ref().map(|mac| ("mac", text_of(mac))));
    keys
}

/// A word in which devices have the names that they have here.
fn renamed(word: &str, devices: &[String]) -> String {
    let mut text = String::new();
    let mut rest = word;
    while !rest.is_empty() {
        let is_inside = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let length = rest.find(|c| !is_inside(c)).unwrap_or(rest.len());
        if length == 0 {
            let next = rest.chars().next().map_or(1, char::len_utf8);
            text.push_str(&rest[..next]);
            rest = &rest[next..];
            continue;
        }
        match devices.iter().position(|device| *device == rest[..length]) {
            Some(number) => text.extend(["eth", &number.to_string()]),
            None => text.push_str(&rest[..length]),
        }
        rest = &rest[length..];
    }
    text
}

/// The words of a command line, by the rules of shells for quotes and backslashes; `None` if a quote is not closed.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' => loop {
                match chars.next()? {
                    '\'' => {
                        word.get_or_insert_default();
                        break;
                    }
                    other => word.get_or_insert_default().push(other),
                }
            },
            '"' => loop {
                match chars.next()? {
                    '"' => {
                        word.get_or_insert_default();
                        break;
                    }
                    '\\' => match chars.next()? {
                        escaped @ ('"' | '\\' | '$' | '`') => word.get_or_insert_default().push(escaped),
                        other => word.get_or_insert_default().extend(['\\', other]),
                    },
                    other => word.get_or_insert_default().push(other),
                }
            },
            '\\' => word.get_or_insert_default().push(chars.next()?),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Some(words)
}

/// A word as a shell reads it again.
fn for_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Files that a node sees, `FILE:PATH` or `FILE:PATH:ro` each, if all of them can be read; in what configures these devices, they have the names that they have here.
fn files(node: &Node, file: ReadFile<'_>, devices: &[String]) -> Option<String> {
    let Value::List(binds) = &node.value else { return None };
    let one = |node: &Node| {
        let (from, to) = bind(node)?;
        let text = file(from)?;
        let is_configuration = text.lines().any(|line| line.trim_start().starts_with("interface "));
        let text = if is_configuration { renamed(&text, devices) } else { text };
        Some(format!("{}: {}", text_of(to), text_of(&text)))
    };
    let all = binds.iter().map(one).collect::<Option<Vec<_>>>().filter(|all| !all.is_empty())?;
    Some(format!("{{ {} }}", all.join(", ")))
}

const MANAGEMENT: &str = "the management network: `heddle exec` and `heddle shell` reach hosts without one";

/// What is said of a node's key that is left out.
fn left_out(key: &str) -> String {
    let said = match key {
        "image" | "image-pull-policy" | "type" | "license" => {
            return "images: hosts have this machine's programs, unless one has an `image`".to_owned();
        }
        "exec" | "cmd" | "entrypoint" => "`programs:` of a host start with the network",
        "binds" => "`files:` of a host are seen by its programs",
        "sysctls" => "write them as `sysctls:` of the host",
        "startup-config" | "config" => "configurations of network operating systems",
        "startup-delay" => {
            "all nodes are there at once; a program that is to begin later waits by itself, as in `programs: { late: sleep 10; exec iperf3 -s }`"
        }
        "ports" => {
            return "`ports` are not published: nothing outside of the network reaches a host; `heddle exec HOST COMMAND` runs a client in one, and `uplink: nat` is a host's way out".to_owned();
        }
        "mgmt-ipv4" | "mgmt-ipv6" | "mgmt_ipv4" | "mgmt_ipv6" => MANAGEMENT,
        "network-mode" => "a host has the links of the file and no other network; `uplink: nat` is its way out",
        "env" | "env-files" | "user" => "environments and users of containers",
        "cpu" | "memory" | "cpu-set" => "limits of CPU and memory",
        "labels" => "nodes are known by their names alone",
        _ => "nothing here stands for it",
    };
    format!("`{}` of nodes: {said}", shown(key))
}

fn entries(node: &Node) -> &[Entry] {
    if let Value::Map(entries) = &node.value { entries } else { &[] }
}

fn get<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    entries(node).iter().find(|entry| entry.key == key).map(|entry| &entry.value)
}

fn items(node: &Node) -> &[Node] {
    if let Value::List(items) = &node.value { items } else { &[] }
}

fn text(node: Option<&Node>) -> Option<&str> {
    if let Value::Scalar(text) = &node?.value { Some(text) } else { None }
}

#[cfg(test)]
mod tests;
