//! From the document to a checked [`Fabric`].

use std::collections::BTreeMap;

use datapath::KernelUse;
use link::LinkSpec;
use topology::{Rerouting, TiVec};
use vswitch::Spread;

use crate::bonds::BondAxis;
use crate::document::{File, HostText, NodeLong, NodeText, NodeWord};
use crate::error::{Error, Problems};
use crate::experiment::{Block, Context, Functions};
use crate::graph::Graph;
use crate::host_addresses::{WrittenAddress, override_hosts};
use crate::links::Links;
use crate::names::nearest;
use crate::read::{Mapping, Name, Read};
use crate::source::{At, Source};
use crate::topologies::{Specs, TopologyText, explicit};
use crate::tree::{Node, Value};
use crate::vary::AxisText;
use crate::vm::VmText;
use crate::{
    Experiment, Fabric, HostSetup, PortChange, UPLINKS_MAX, bonds, chains, devices, flows, import, interfaces, links,
    port_change, rstp, services, switches, tree,
};

/// The most experiments of one file.
const MOST_EXPERIMENTS: usize = 200;
/// The MTU of Ethernet.
const DEFAULT_MTU: u32 = 1_500;

/// Reads and checks a fabric file.
///
/// # Errors
/// If anything is wrong with it. The error holds every problem that was found, with its line.
pub fn parse(source: &Source) -> Result<Fabric, Error> {
    parse_changed(source, &[])
}

/// The same with ports that were added to its switches or taken away.
///
/// # Errors
/// As [`parse`], and if a port does not fit into the network.
pub fn parse_changed(source: &Source, ports: &[PortChange]) -> Result<Fabric, Error> {
    parse_noting(source, ports, Problems::new(source))
}

/// As [`parse`], of a file that a program has made: more problems are kept.
pub(crate) fn parse_made(source: &Source) -> Result<Fabric, Error> {
    parse_noting(source, &[], Problems::of_made(source))
}

fn parse_noting(source: &Source, ports: &[PortChange], mut problems: Problems<'_>) -> Result<Fabric, Error> {
    if import::refuse_text(source, &mut problems) {
        return Err(problems.into_error());
    }
    let node = tree::read(source, &mut problems);
    if node.as_ref().is_some_and(|node| import::refuse_tree(node, source, &mut problems)) {
        return Err(problems.into_error());
    }
    match node.and_then(|node| read(&node, source, ports, &mut problems)) {
        Some(fabric) if problems.is_empty() => Ok(fabric),
        Some(_) => Err(problems.into_error()),
        None => {
            problems.leave_checks_out();
            Err(problems.into_error())
        }
    }
}

fn read(node: &Node, source: &Source, ports: &[PortChange], problems: &mut Problems<'_>) -> Option<Fabric> {
    if matches!(node.value, Value::Null) {
        problems.add(
            node.place,
            "the file says nothing",
            "empty",
            "start with `topology: { fat-tree: { k: 4 } }`, or let `heddle new` write a file",
        );
        return None;
    }
    let mut file = File::read(node, problems)?;
    port_change::apply(ports, &mut file, problems);
    let mtu = file.mtu.map_or(DEFAULT_MTU, |mtu| mtu.0);
    // A key that couldn't be read leaves a gap: what builds on the network would be reported wrongly.
    let mut graph = graph(&file, node, problems)?;
    switches::add_ports(&file, &mut graph, problems);
    interfaces::split(&file, &mut graph, problems);
    let added = chains::add_functions(&file, &mut graph, problems);
    if let Some(texts) = &file.bonds {
        bonds::bonds(texts, &varied_modes(&file), &mut graph, problems)?;
    } else if has_key(node, "bonds") {
        return None;
    }
    devices::plug_in(&file, &mut graph, problems);
    if file.shaping.is_some_and(|shaping| !shaping.0) {
        graph.topology.unshape();
    }
    let flow_tables = flows::flow_tables(&file, &graph.topology, problems);
    let switches = switches::settings(&file, &graph.topology, problems);
    rstp::check(&file, &graph.topology, problems);
    let mut setups = setups(&file, &graph, problems);
    interfaces::check(&file, &graph.topology, &setups, problems);
    setups.extend(added.setups);
    let chains = chains::chains(&file, &graph, added.all, problems);
    let services = services::services(&file, (&graph, &setups), problems);
    let names = services::names(&file, (&graph, &setups), &services, problems);
    let controllers = file.controllers.as_ref().filter(|text| text.sound);
    let controllers = controllers.and_then(|text| crate::controllers::controllers(&text.value, problems));
    let block = match &controllers {
        Some(controllers) => Block::Sound(controllers),
        None if has_key(node, "controllers") => {
            // Nothing else is held against them.
            if file.experiments.is_some() {
                problems.leave_checks_out();
            }
            Block::Unsound
        }
        None => Block::Absent,
    };
    if let Some(text) = file.kernel.as_ref().filter(|text| text.value.0 == KernelUse::Yes)
        && let Some(why) = datapath::kernel_path_refusal(graph.topology.is_shaped(), !chains.chains.is_empty())
    {
        let message = format!("the kernel carries nothing of this network: {why}");
        let hint = "take `kernel` away, or write `shaping: false`; `auto` takes it where it can be had";
        problems.add(text.place, message, "has no effect", hint);
    }
    let functions = Functions { chains: &chains, setups: &setups };
    let experiments = experiments(&file, &Context::new((&graph, mtu), &services, functions, block), problems);
    Some(Fabric {
        name: file.name.map_or_else(|| source.stem(), |name| name.value.0),
        description: file.description.map(|text| text.0).unwrap_or_default(),
        topology: graph.topology,
        bonds: graph.bonds,
        spread: file.spread.map_or(Spread::Ecmp, |spread| spread.0),
        rerouting: file.routes.map_or(Rerouting::Follow, |routes| routes.0),
        kernel: file.kernel.as_ref().map_or(KernelUse::No, |text| text.value.0),
        mtu,
        seed: file.seed.map_or(1, |seed| seed.0),
        flow_tables,
        switches,
        chains,
        simulated_functions: added.simulated,
        services,
        names,
        setups,
        controllers,
        experiments,
    })
}

/// What runs in hosts, and what they find there: of those that Heddle makes.
fn setups(file: &File, graph: &Graph, problems: &mut Problems<'_>) -> BTreeMap<String, HostSetup> {
    let of_nodes = file.nodes.iter().flat_map(|nodes| &nodes.value.0).filter_map(|(name, text)| match &text.value {
        NodeText::Long(long) => Some((name, &long.setup)),
        NodeText::Short(_) => None,
    });
    let of_hosts = file.hosts.iter().flat_map(|hosts| &hosts.value.0).map(|(name, text)| (name, &text.value.setup));
    let mut setups = vms(file, problems);
    for (name, text) in of_nodes.chain(of_hosts) {
        let (Some(place), Some(node)) = (text.place(), graph.topology.node(&name.value.0)) else { continue };
        let name = &name.value.0;
        let why = if !graph.topology.is_host(node) {
            Some((
                format!("`{name}` is a switch: programs run in hosts only"),
                "give them to a host that is linked to it",
            ))
        } else if graph.topology.nodes[node].is_external() {
            Some((
                format!("`{name}` is behind devices of the machine, and not made"),
                "start them where the host is: in the guest, or on the machine behind the cable",
            ))
        } else {
            None
        };
        match why {
            Some((message, hint)) => problems.add(place, message, "only for hosts that are made", hint),
            None => _ = setups.insert(name.clone(), text.setup(problems)),
        }
    }
    interfaces::add_setups(file, graph, &mut setups);
    add_images(file, graph, &mut setups, problems);
    let uplinks = setups.values().filter(|setup| setup.uplink.is_some()).count();
    if let Some(nodes) = file.nodes.as_ref().map(|nodes| nodes.place).or(file.hosts.as_ref().map(|hosts| hosts.place))
        && uplinks > UPLINKS_MAX
    {
        let message = format!("{uplinks} uplinks are more than {UPLINKS_MAX}");
        problems.add(nodes, message, "too many", "leave some out");
    }
    setups
}

/// Adds the images of hosts that are no virtual machines.
fn add_images(file: &File, graph: &Graph, setups: &mut BTreeMap<String, HostSetup>, problems: &mut Problems<'_>) {
    let of_nodes = file.nodes.iter().flat_map(|nodes| &nodes.value.0).filter_map(|(name, text)| match &text.value {
        NodeText::Long(long) if long.kind.value != NodeWord::Vm => Some((name, long.vm.image.as_ref()?)),
        _ => None,
    });
    let of_hosts = file.hosts.iter().flat_map(|hosts| &hosts.value.0);
    let of_hosts = of_hosts.filter_map(|(name, text)| Some((name, text.value.image.as_ref()?)));
    for (name, image) in of_nodes.chain(of_hosts) {
        let Some(node) = graph.topology.node(&name.value.0) else { continue };
        let name = &name.value.0;
        if !graph.topology.is_host(node) || graph.topology.nodes[node].is_external() {
            let message = format!("`{name}` is not a host that is made, and has no root of its own");
            problems.add(image.place, message, "only for hosts that are made", "remove it, or say `kind: vm`");
            continue;
        }
        setups.entry(name.clone()).or_default().image = Some(image.value.path().to_owned());
    }
}

/// The virtual machines among the nodes.
fn vms(file: &File, problems: &mut Problems<'_>) -> BTreeMap<String, HostSetup> {
    let mut setups = BTreeMap::new();
    for (name, text) in file.nodes.iter().flat_map(|nodes| &nodes.value.0) {
        let name = &name.value.0;
        let written = match &text.value {
            NodeText::Long(long) => Some(&long.vm),
            NodeText::Short(_) => None,
        };
        if text.value.kind() == NodeWord::Vm {
            let vm = written.cloned().unwrap_or_default().vm(problems);
            setups.insert(name.clone(), HostSetup { vm: Some(vm), ..HostSetup::default() });
        } else if let Some(place) = written.and_then(VmText::place) {
            let message = format!("`{name}` is no virtual machine");
            problems.add(place, message, "only for virtual machines", "say `kind: vm`, or remove it");
        }
    }
    setups
}

/// The modes that experiments give to all bonds: an option that fits one of them is of use.
fn varied_modes(file: &File) -> Vec<::bond::config::Mode> {
    let experiments = file.experiments.iter().flat_map(|experiments| &experiments.value.0);
    let axes = experiments.filter_map(|(_, text)| text.value.vary.as_ref()).flat_map(|vary| &vary.axes);
    let modes =
        axes.filter_map(|axis| if let AxisText::Bond(BondAxis::Mode(modes)) = axis { Some(modes) } else { None });
    modes.flat_map(|modes| &modes.value).map(|mode| mode.value.0).collect()
}

/// Whether the file has this key, be it readable or not.
fn has_key(node: &Node, key: &str) -> bool {
    matches!(&node.value, Value::Map(entries) if entries.iter().any(|entry| entry.key == key))
}

fn experiments(file: &File, context: &Context<'_>, problems: &mut Problems<'_>) -> Vec<Experiment> {
    let Some(At { value: Mapping(all), place, .. }) = &file.experiments else { return Vec::new() };
    if all.len() > MOST_EXPERIMENTS {
        let count = all.len();
        problems.add(
            *place,
            format!("{count} experiments are more than {MOST_EXPERIMENTS}"),
            "too many",
            "use several files",
        );
        return Vec::new();
    }
    let checked: Vec<_> =
        all.iter().filter_map(|(name, text)| context.experiment(&name.value, text, problems)).collect();
    if checked.len() < all.len() {
        // Claims are held against axes and work.
        problems.leave_checks_out();
    }
    checked
}

/// Lays out the network in one of its two forms.
fn graph(file: &File, node: &Node, problems: &mut Problems<'_>) -> Option<Graph> {
    match (&file.topology, &file.nodes) {
        (Some(topology), None) => by_rule(file, topology, problems),
        (None, Some(nodes)) => spelled_out(file, nodes, problems),
        (Some(_), Some(nodes)) => {
            problems.add(
                nodes.place,
                "`topology` and `nodes` can't both describe the network",
                "besides `topology`",
                "keep one of them; `hosts:` sets addresses of a topology's hosts",
            );
            None
        }
        (None, None) => {
            // If one of them is there but couldn't be read, that has been noted.
            // So has a key that is nearly one of them.
            let forms = ["topology", "nodes"];
            let there = matches!(&node.value, Value::Map(entries)
                if entries.iter().any(|entry| nearest(&entry.key, forms).is_some()));
            let alone =
                file.links.is_none() && file.hosts.is_none() && file.link_defaults.is_none() && file.bonds.is_none();
            if has_key(node, "controllers") && alone && !there {
                return Some(Graph::default());
            }
            if !there {
                problems.add(
                    node.place,
                    "there is no network: neither `topology` nor `nodes`",
                    "needs a network",
                    "add `topology: { fat-tree: { k: 4 } }`, or `nodes:` and `links:`",
                );
            }
            None
        }
    }
}

fn by_rule(file: &File, topology: &At<TopologyText>, problems: &mut Problems<'_>) -> Option<Graph> {
    if let Some(defaults) = &file.link_defaults {
        problems.add(
            defaults.place,
            "`link-defaults` is for networks with `nodes`",
            "besides `topology`",
            "with a topology, `links: { rate: .., delay: .., queue: .. }` holds for all links",
        );
    }
    let specs = match &file.links {
        None => Specs::default(),
        Some(At { value: Links::Classes(classes), sound, .. }) => links::classes(classes, *sound, problems),
        Some(At { value: Links::List(_), place, .. }) => {
            problems.add(
                *place,
                "a list of links is for networks with `nodes`",
                "besides `topology`",
                "with a topology, write `links: { rate: .., delay: .., queue: .. }`",
            );
            Specs::default()
        }
    };
    let topology = topology.value.lay_out(&specs, problems)?;
    let mut graph = Graph { topology, bonds: TiVec::new() };
    if let Some(hosts) = &file.hosts {
        let written = hosts.value.0.iter().map(|(name, text)| {
            let HostText { mac, ipv4, ipv6, .. } = &text.value;
            (name.clone(), WrittenAddress { mac: mac.clone(), ipv4: ipv4.clone(), ipv6: ipv6.clone() })
        });
        override_hosts(&mut graph, &written.collect::<Vec<_>>(), problems);
    }
    Some(graph)
}

fn spelled_out(file: &File, nodes: &At<Mapping<Name, NodeText>>, problems: &mut Problems<'_>) -> Option<Graph> {
    if let Some(hosts) = &file.hosts {
        problems.add(
            hosts.place,
            "`hosts` is for networks with `topology`",
            "besides `nodes`",
            "write addresses at the node: `h1: { kind: host, ipv4: 10.0.0.7 }`",
        );
    }
    let links = match &file.links {
        None => &[],
        Some(At { value: Links::List(list), .. }) => list.as_slice(),
        Some(At { value: Links::Classes(_), place, .. }) => {
            problems.add(
                *place,
                "with `nodes`, `links` is a list",
                "a map",
                "write `links:` as `- between: [h1, s1]`, and `link-defaults:` for what holds for all",
            );
            return None;
        }
    };
    let defaults = file.link_defaults.as_ref();
    if let Some(defaults) = defaults {
        let any_rate = defaults.value.rate.is_some() || links.iter().any(|link| link.value.own.rate.is_some());
        if !any_rate {
            let sound = defaults.sound && file.links.as_ref().is_none_or(|links| links.sound);
            links::note_idle(&defaults.value, LinkSpec::default(), sound, problems);
        }
    }
    // With a node or a link missing, everything that is attached to it would seem wrong.
    if !nodes.sound || file.links.as_ref().is_some_and(|links| !links.sound) {
        return None;
    }
    let topology = explicit(nodes, links, defaults, file.bonds.as_ref(), problems)?;
    let mut graph = Graph { topology, bonds: TiVec::new() };
    let hosts = nodes.value.0.iter().filter_map(|(name, text)| match &text.value {
        NodeText::Long(long) if long.kind.value != NodeWord::Switch => {
            let NodeLong { mac, ipv4, ipv6, .. } = &**long;
            Some((name.clone(), WrittenAddress { mac: mac.clone(), ipv4: ipv4.clone(), ipv6: ipv6.clone() }))
        }
        _ => None,
    });
    override_hosts(&mut graph, &hosts.collect::<Vec<_>>(), problems);
    Some(graph)
}
