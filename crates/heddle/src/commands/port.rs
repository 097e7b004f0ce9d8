//! `port`: ports of switches of a running network, that come, go and are shown.

use fabric::{AddedPort, ChangedPort, Fabric, LinkChange, find_switch};
use live::control::{Counters, PortCounters};
use live::{Error, Instance};
use miette::{Report, miette};
use serde_json::{Value, json};
use topology::{DeviceName, HostAddress, LinkId, NodeId, PortId, Side, Topology, VhostUserDevice};
use vswitch::port::PortVlans;

use super::explain;
use super::instance::{connect, definition, running};
use crate::cli::{Format, Port, PortAction, PortSet};
use crate::output::{Rows, print_json, put};

/// Adds, removes or shows ports.
pub fn port(args: &Port, format: Format) -> Result<(), Report> {
    let connect = || connect(&running(args.network.name.as_deref(), "`heddle port --name NETWORK ..`")?);
    match &args.action {
        PortAction::Add(port) => {
            let device = [format!("device={}", port.device)];
            let words: Vec<String> = device.iter().chain(&port.keys).cloned().collect();
            // What is wrong with it is wrong with any network.
            let added = AddedPort::parse(&port.switch, &port.port, &words)?;
            let instance = connect()?;
            instance.add_port(&added).map_err(explain)?;
            let topology = definition(&instance)?.topology;
            let address = topology.node(&port.port).and_then(|host| topology.address(host));
            report((&port.switch, &port.port), ("added", address), format)
        }
        PortAction::Del(port) => {
            connect()?.remove_port(&port.switch, &port.port).map_err(explain)?;
            report((&port.switch, &port.port), ("removed", None), format)
        }
        PortAction::Set(port) => {
            // What is wrong with it is wrong with any network.
            changes(port, &port.port)?;
            set(&connect()?, port, format)
        }
        PortAction::Show { switch } => show(&connect()?, switch.as_deref(), |_, _| true, format),
    }
}

/// What is said of a port with this name itself, and of its link.
fn changes(port: &PortSet, name: &str) -> Result<(ChangedPort, LinkChange), Report> {
    let is_of_link = |word: &&String| {
        let key = word.split_once('=').map_or(word.as_str(), |(key, _)| key);
        LinkChange::KEYS.iter().any(|(of_links, _)| *of_links == key.strip_prefix("back.").unwrap_or(key))
    };
    let (of_link, own): (Vec<&String>, Vec<&String>) = port.keys.iter().partition(is_of_link);
    let words = |words: Vec<&String>| words.into_iter().cloned().collect::<Vec<String>>();
    let own = ChangedPort::parse(&port.switch, name, &words(own)).map_err(with_all_keys)?;
    Ok((own, LinkChange::parse(&words(of_link))?))
}

/// What is wrong with what is said of a port; where a key is neither one of ports nor one of links, with all that there are.
fn with_all_keys(error: fabric::Error) -> Report {
    let is_strange =
        |problem: &&fabric::Problem| problem.code() == "unknown-key" && !problem.hint.starts_with("did you");
    let Some(message) = error.problems().iter().find(is_strange).map(|problem| problem.message.clone()) else {
        return Report::new(error);
    };
    let listed = |keys: &mut dyn Iterator<Item = &'static str>| {
        keys.map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
    };
    let of_links = listed(&mut LinkChange::KEYS.iter().map(|(key, _)| *key));
    let of_ports = listed(&mut ChangedPort::keys());
    miette!(help = format!("a port has {of_ports}; its link {of_links}, each also with `back.` before it"), "{message}")
}

/// Changes a port and its link, and shows it then.
fn set(instance: &Instance, port: &PortSet, format: Format) -> Result<(), Report> {
    let topology = definition(instance)?.topology;
    let switch = find_switch(&topology, &port.switch).map_err(|error| explain(Error::from(error)))?;
    let ports = ports_named(&topology, switch, &port.port);
    if ports.is_empty() {
        return Err(miette!(
            help = format!("`heddle port show {}` lists them", port.switch),
            "no port of {} leads to `{}`",
            port.switch,
            port.port
        ));
    }
    // By its number it is the same port as by the node that it alone leads to.
    let name = match ports[..] {
        [(only, _)] => {
            let (link, side) = topology.nodes[switch].ports[only];
            let peer = &*topology.nodes[topology.links[link].end(side.other()).node].name;
            if ports_named(&topology, switch, peer).len() == 1 { peer } else { &*port.port }
        }
        _ => &*port.port,
    };
    let (own, of_link) = changes(port, name)?;
    if !own.is_empty() {
        instance.set_port(&own).map_err(explain)?;
    }
    // From the switch to what is behind its port, as the command names them.
    for (_, link) in ports.iter().filter(|_| !of_link.is_empty()) {
        let [a, b] = [Side::A, Side::B].map(|side| topology.links[*link].end(side).node);
        let peer = &*topology.nodes[if a == switch { b } else { a }].name;
        let number = Some(topology.link_number(*link));
        instance.change_link(&port.switch, peer, number, &of_link).map_err(explain)?;
    }
    let is_it = |at: NodeId, port: PortId| at == switch && ports.iter().any(|(wanted, _)| *wanted == port);
    show(instance, Some(&port.switch), is_it, format)
}

/// The ports of a switch that lead to a node, or the one of this number, with their links.
fn ports_named(topology: &Topology, switch: NodeId, name: &str) -> Vec<(PortId, LinkId)> {
    let ports = || topology.nodes[switch].ports.iter_enumerated();
    let leads = |side: Side, link: LinkId| topology.nodes[topology.links[link].end(side.other()).node].name == name;
    let led = ports().filter(|(_, (link, side))| leads(*side, *link)).map(|(port, (link, _))| (port, *link));
    let led: Vec<(PortId, LinkId)> = led.collect();
    if !led.is_empty() {
        return led;
    }
    let number = name.parse().ok().map(PortId);
    ports().filter(|(port, _)| Some(*port) == number).map(|(port, (link, _))| (port, *link)).collect()
}

/// What has been done, and by which addresses others know the host behind a port: nobody has asked for those.
fn report(
    (switch, port): (&str, &str),
    (done, address): (&str, Option<&HostAddress>),
    format: Format,
) -> Result<(), Report> {
    let mac = address.map(|address| address.mac.map(|byte| format!("{byte:02x}")).join(":"));
    match format {
        Format::Table => {
            let known = address.zip(mac.as_ref()).map_or_else(String::new, |(address, mac)| {
                let HostAddress { ipv4, ipv4_prefix, ipv6, ipv6_prefix, .. } = address;
                format!("; others know what is behind it as {mac}, {ipv4}/{ipv4_prefix}, {ipv6}/{ipv6_prefix}, and by what is learned from it")
            });
            put(&format!("{switch}: port {port} {done}{known}\n"))
        }
        Format::Json => {
            let mut value = json!({ "switch": switch, "port": port, "done": done });
            if let Some(address) = address {
                value["mac"] = json!(mac);
                value["ipv4"] = json!(address.ipv4);
                value["ipv6"] = json!(address.ipv6);
            }
            print_json(&value)
        }
        Format::Csv => {
            let mut rows = Rows::new(&["switch", "port", "done", "mac", "ipv4", "ipv6"]);
            let [ipv4, ipv6] = [address.map(|it| json!(it.ipv4)), address.map(|it| json!(it.ipv6))];
            rows.push([json!(switch), json!(port), json!(done), json!(mac), json!(ipv4), json!(ipv6)]);
            put(&rows.render(format))
        }
    }
}

/// One row for each port of a switch, or of all, that is wanted.
fn show(
    instance: &Instance,
    switch: Option<&str>,
    is_wanted: impl Fn(NodeId, PortId) -> bool,
    format: Format,
) -> Result<(), Report> {
    let now = definition(instance)?;
    let wanted = switch.map(|name| find_switch(&now.topology, name)).transpose();
    let wanted = wanted.map_err(|error| explain(Error::from(error)))?;
    let counters = instance.counters().map_err(explain)?;
    let switches = now.topology.switches().map(|(id, _)| id);
    let mut rows = Rows::new(&[
        "switch",
        "port",
        "to",
        "type",
        "device",
        "carrier",
        "queues",
        "queues-used",
        "rate-bps",
        "vlan",
        "rx-packets",
        "rx-bytes",
        "tx-packets",
        "tx-bytes",
        "drops",
    ])
    .with_rare(&["device", "queues", "queues-used", "rate-bps", "vlan"])
    .with_spare(&["rx-bytes", "tx-bytes", "queues", "type", "rate-bps", "queues-used", "carrier", "drops"]);
    for switch in switches.filter(|id| wanted.is_none_or(|wanted| wanted == *id)) {
        for port in now.topology.nodes[switch].ports.keys().filter(|port| is_wanted(switch, *port)) {
            rows.push(row(&now, &counters, switch, port));
        }
    }
    put(&rows.render(format))
}

/// A port: where it leads, what it is, and what has passed it. To the switch, what the other end sends is received.
fn row(fabric: &Fabric, counters: &Counters, switch: NodeId, port: PortId) -> [Value; 15] {
    let topology = &fabric.topology;
    let (link, side) = topology.nodes[switch].ports[port];
    let far = topology.links[link].end(side.other());
    let peer = &topology.nodes[far.node];
    let device = peer.devices.get(usize::from(far.port.0));
    let of_link = counters.links.get(usize::from(link));
    let [received, sent] = match (of_link, side) {
        (Some(of), Side::A) => [of.backward, of.forward],
        (Some(of), Side::B) => [of.forward, of.backward],
        (None, _) => [link::Counters::default(); 2],
    };
    let of_host: Option<&PortCounters> = counters.ports.iter().find(|counted| counted.host == peer.name);
    let at_host = of_host.filter(|_| topology.is_host(far.node)).map_or(0, |counted| counted.traffic.drops);
    let queues = device.and_then(|name| VhostUserDevice::of(name)).map(|device| device.queues);
    let settings = fabric.switches.get(&switch).and_then(|switch| switch.ports.get(&port));
    [
        json!(topology.nodes[switch].name),
        json!(port.0),
        json!(peer.name),
        json!(kind(topology, far.node, device.map(String::as_str))),
        json!(device),
        json!(of_link.map(|link| if link.up { "up" } else { "down" })),
        json!(queues),
        json!(queues.and(of_host).map(|counted| counted.queues_used.get(usize::from(far.port.0)).unwrap_or(&0))),
        json!(topology.links[link].spec_from(side).rate_bps),
        json!(settings.and_then(|settings| settings.vlans.as_ref()).map(vlans)),
        json!(received.packets),
        json!(received.bytes),
        json!(sent.packets),
        json!(sent.bytes),
        json!(received.drops + sent.drops + at_host),
    ]
}

/// What is at the other end.
fn kind(topology: &Topology, peer: NodeId, device: Option<&str>) -> &'static str {
    if !topology.is_host(peer) {
        return "switch";
    }
    let Some(device) = device else { return "host" };
    DeviceName::parse(device).unwrap_or(DeviceName::Kernel(device)).kind()
}

/// `access 10`, `trunk 10,20`, `native-untagged 10 of 10,20`.
fn vlans(vlans: &PortVlans) -> String {
    let own = vlans.tag().map_or_else(String::new, |tag| format!(" {tag}"));
    let list: Vec<String> = vlans.trunks().iter().map(ToString::to_string).collect();
    let trunks = match (list.is_empty(), vlans.tag().is_some()) {
        (true, _) => String::new(),
        (false, true) => format!(" of {}", list.join(",")),
        (false, false) => format!(" {}", list.join(",")),
    };
    format!("{}{own}{trunks}", vlans.mode().name())
}

#[cfg(test)]
mod tests {
    use vswitch::port::VlanMode;

    use super::*;

    #[test]
    fn vlans_are_written_in_a_word_or_three() {
        let of = |mode, tag, trunks: &[u16]| vlans(&PortVlans::new(mode, tag, trunks.to_vec()));
        assert_eq!(of(VlanMode::Access, 10, &[]), "access 10");
        assert_eq!(of(VlanMode::Trunk, 0, &[]), "trunk");
        assert_eq!(of(VlanMode::Trunk, 0, &[20, 10]), "trunk 10,20");
        assert_eq!(of(VlanMode::NativeTagged, 5, &[]), "native-tagged 5");
        assert_eq!(of(VlanMode::NativeUntagged, 5, &[20]), "native-untagged 5 of 5,20");
    }
}
