//! Functions of chains: each is two hosts of the topology, its ingress and its egress, behind all others.

use std::collections::{BTreeMap, BTreeSet};

use link::LinkSpec;
use machine::Span;
use topology::{DeviceName, HostAddress, NodeId};
use vswitch::chain::{Function, FunctionKind};

use super::built_in::{built_in, note_keys_of_kinds};
use super::text::{BuiltInKind, FunctionText};
use crate::document::File;
use crate::error::Problems;
use crate::flows::find_switch;
use crate::graph::{Graph, address};
use crate::links::{merged, note_idle};
use crate::names::canonical;
use crate::read::Name;
use crate::source::At;
use crate::vm::FilePath;
use crate::{HostSetup, Program, Restart};

/// The most functions of a file, instances counted by themselves.
const MOST: usize = 256;

/// How long a function may give nothing back that says nothing about it.
const TIMEOUT: Span = Span::from_ms(20);

/// What passes frames on where the file names nothing else: this program itself, by this name.
pub const FORWARDER: &str = "heddle";

/// How it is called.
const FORWARD: [&str; 4] = [FORWARDER, "forward", "eth0", "eth1"];

/// The functions of a file.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    /// In the order of the file.
    pub all: Vec<Function>,
    /// What each does to packets when simulated.
    pub simulated: Vec<LinkSpec>,
    /// By name of the instance.
    pub setups: BTreeMap<String, HostSetup>,
}

/// Adds a file's functions to the network. To be called before bonds are made, whose further links come last.
pub(crate) fn add(file: &File, graph: &mut Graph, problems: &mut Problems<'_>) -> Functions {
    let mut functions = Functions::default();
    let Some(section) = &file.functions else { return functions };
    let instances = |text: &FunctionText| text.instances.as_ref().map_or(1, |instances| instances.value.get() as usize);
    let count: usize = section.value.0.iter().map(|(_, text)| instances(&text.value)).sum();
    if count > MOST {
        let message = format!("{count} functions are more than {MOST}");
        problems.add(section.place, message, "too many", "leave some out, or give them fewer instances");
        return functions;
    }
    let mut known: BTreeSet<String> = graph.topology.nodes.iter().map(|node| canonical(&node.name)).collect();
    for (name, text) in &section.value.0 {
        if let Some(kind) = &text.value.kind {
            functions.add_built_in(name, text, kind, (&*graph, &mut known), problems);
            continue;
        }
        let instances = instances(&text.value);
        let sound = note_keys_of_kinds(text, None, problems);
        let sound = sound & check(text, instances, problems);
        let Some(at) = switches(graph, text, problems).filter(|_| sound) else { continue };
        let mut ports = Vec::with_capacity(instances);
        for number in 1..=instances {
            let own = if instances == 1 { name.value.0.clone() } else { format!("{}-{number}", name.value.0) };
            if let Some(names) = names_of(&own, name, &mut known, problems) {
                ports.push(add_instance(graph, names, &at, &text.value));
                functions.setups.extend(setup(&own, text, problems));
            }
        }
        let timeout = text.value.timeout.as_ref().map_or(TIMEOUT, |timeout| timeout.value.0);
        let kind = FunctionKind::External { instances: ports, timeout };
        functions.all.push(Function { name: name.value.0.clone(), kind });
        let simulated = text.value.simulated.as_ref().map_or(LinkSpec::default(), |text| merged(&text.value, None));
        functions.simulated.push(simulated);
    }
    functions.plug_in(section.value.0.iter().map(|(name, text)| (name, &text.value)), graph, problems);
    functions
}

impl Functions {
    fn add_built_in(
        &mut self,
        name: &At<Name>,
        text: &At<FunctionText>,
        kind: &At<BuiltInKind>,
        (graph, known): (&Graph, &mut BTreeSet<String>),
        problems: &mut Problems<'_>,
    ) {
        if !known.insert(canonical(&name.value.0)) {
            let message = format!("there is a node `{}` already", name.value.0);
            problems.add(name.place, message, "there already", "give the function another name");
            return;
        }
        let built_in = built_in(graph, text, kind, problems);
        if let Some(built_in) = built_in.filter(|_| note_keys_of_kinds(text, Some(kind.value), problems)) {
            let kind = FunctionKind::BuiltIn(built_in);
            self.all.push(Function { name: name.value.0.clone(), kind });
            self.simulated.push(LinkSpec::default());
        }
    }

    /// Notes at each port the device on which it is.
    fn plug_in<'a>(
        &self,
        texts: impl Iterator<Item = (&'a At<Name>, &'a FunctionText)>,
        graph: &mut Graph,
        problems: &mut Problems<'_>,
    ) {
        let mut taken: BTreeSet<String> = BTreeSet::new();
        for (name, text) in texts {
            let Some(function) = self.all.iter().find(|function| function.name == name.value.0) else { continue };
            if let Some(vm) = &text.vm {
                for port in function.instances().iter().flatten() {
                    graph.topology.nodes[*port].devices = vec![vm.value.device()];
                }
            }
            let devices = text.devices.iter().flat_map(|devices| &devices.value);
            for (port, device) in function.instances().iter().flatten().zip(devices) {
                if let Some(single) = DeviceName::parse(&device.value.0).ok().and_then(DeviceName::exclusive)
                    && !taken.insert(single.to_owned())
                {
                    problems.add(
                        device.place,
                        format!("`{single}` is given twice"),
                        "taken already",
                        "one device is one port",
                    );
                }
                graph.topology.nodes[*port].devices = vec![device.value.0.clone()];
            }
        }
    }
}

/// Whether what a function says of itself goes together.
fn check(At { value: text, sound, .. }: &At<FunctionText>, instances: usize, problems: &mut Problems<'_>) -> bool {
    let before = problems.noted();
    check_container(text, problems);
    check_machine(text, problems);
    if let (Some(devices), Some(place)) = (&text.devices, text.setup.place()) {
        problems.add(
            place,
            "a function that is behind devices is not made",
            "besides `devices`",
            "start its programs where it is: in the guest, or on the machine",
        );
        problems.add(devices.place, "this function has programs of its own", "besides them", "keep one of the two");
    }
    if let Some(place) = text.setup.addresses_place() {
        let hint = "remove it: a function passes on frames of others";
        problems.add(place, "a function has no addresses and no routes", "only for hosts", hint);
    }
    if let Some(devices) = text.devices.as_ref().filter(|devices| devices.value.len() != 2 * instances) {
        let (given, wanted) = (devices.value.len(), 2 * instances);
        problems.add(
            devices.place,
            format!("a function has two ports an instance: {wanted} devices, of which {given} are given"),
            format!("needs {wanted}"),
            "name the device of its ingress, then that of its egress: `['vhost-user:', 'vhost-user:']`",
        );
    }
    for own in [&text.links, &text.simulated].into_iter().flatten() {
        note_idle(&own.value, merged(&own.value, None), own.sound && *sound, problems);
    }
    let timeout = text.timeout.as_ref().map_or(TIMEOUT, |timeout| timeout.value.0);
    if let Some(simulated) = &text.simulated {
        let delay = merged(&simulated.value, None).delay;
        if delay >= timeout {
            problems.add(
                simulated.place,
                format!("a function that takes {delay} looks down: it is to give something back within {timeout}"),
                "longer than its `timeout`",
                format!("give it more time, `timeout: {}`", delay * 4),
            );
        }
    }
    problems.noted() == before
}

/// A function is one thing: what is behind devices, the programs of an image, or the container of a bundle.
fn check_container(text: &FunctionText, problems: &mut Problems<'_>) {
    let (image, bundle) = (text.image.as_ref().map(|it| it.place), text.bundle.as_ref().map(|it| it.place));
    for (place, key) in [(image, "image"), (bundle, "bundle")] {
        if let Some(place) = place.filter(|_| text.devices.is_some()) {
            let message = format!("a function that is behind devices is not made, and has no `{key}`");
            problems.add(place, message, "besides `devices`", "keep one of the two");
        }
    }
    if bundle.is_none() {
        return;
    }
    if let Some(image) = image {
        let message = "a bundle has a root file system of its own";
        problems.add(image, message, "besides `bundle`", "keep one of the two");
    }
    if let Some(place) = text.setup.programs_place() {
        problems.add(
            place,
            "a bundle says itself what runs in its container, and which files are there",
            "besides `bundle`",
            "write it into the bundle's config.json and root file system",
        );
    }
}

/// A virtual machine is that alone.
fn check_machine(text: &FunctionText, problems: &mut Problems<'_>) {
    if text.vm.is_none() {
        return;
    }
    let others = [
        (text.devices.as_ref().map(|it| it.place), "devices"),
        (text.image.as_ref().map(|it| it.place), "image"),
        (text.bundle.as_ref().map(|it| it.place), "bundle"),
        (text.setup.place(), "programs"),
    ];
    for (place, key) in others.into_iter().filter_map(|(place, key)| Some((place?, key))) {
        let message = match key {
            "devices" => "a virtual machine is given sockets as its devices",
            "image" => "the disk of a virtual machine is written within `vm`",
            "bundle" => "a function is a virtual machine or a container, not both",
            _ => "what runs in a virtual machine is written within `vm`, as `run`, or is in its image",
        };
        problems.add(place, message, "besides `vm`", format!("keep one of the two: take `{key}` or `vm` away"));
    }
}

/// The switches of its ingress and its egress.
fn switches(graph: &Graph, text: &At<FunctionText>, problems: &mut Problems<'_>) -> Option<[String; 2]> {
    let Some(at) = &text.value.at else {
        // What could not be read was noted.
        if text.sound {
            problems.add(
                text.place,
                "it is neither said where the function is nor that it is built in",
                "needs `at` or `kind`",
                "add `at: SWITCH` for one with ports, or `kind: firewall`, `nat`, `rate-limit`, `mirror` or `counter`",
            );
        }
        return None;
    };
    let find = |name: &At<Name>, problems: &mut Problems<'_>| match find_switch(&graph.topology, &name.value.0) {
        Ok(_) => Some(name.value.0.clone()),
        Err(error) => {
            problems.add(name.place, error.to_string(), "unknown switch", error.hint);
            None
        }
    };
    let found: Vec<Option<String>> = at.value.0.iter().map(|name| find(name, problems)).collect();
    match <[Option<String>; 2]>::try_from(found) {
        Ok([ingress, egress]) => Some([ingress?, egress?]),
        Err(found) => match <[Option<String>; 1]>::try_from(found) {
            Ok([switch]) => switch.map(|switch| [switch.clone(), switch]),
            Err(found) => {
                let message = format!("a function has two ports, and these are {} switches", found.len());
                problems.add(
                    at.place,
                    message,
                    "one or two",
                    "write `at: s1`, or `at: [s1, s2]` for ingress and egress",
                );
                None
            }
        },
    }
}

/// The names of an instance's ports.
fn names_of(
    own: &str,
    name: &At<Name>,
    known: &mut BTreeSet<String>,
    problems: &mut Problems<'_>,
) -> Option<[String; 2]> {
    let names = [own.to_owned(), format!("{own}.out")];
    if let Some(taken) = names.iter().find(|name| !known.insert(canonical(name))) {
        problems.add(
            name.place,
            format!("there is a node `{taken}` already"),
            "there already",
            "give the function another name: its egress is called NAME.out, and its instances NAME-1, NAME-2, ..",
        );
        return None;
    }
    Some(names)
}

/// Adds an instance: its two ports, each with a link to a switch.
fn add_instance(graph: &mut Graph, names: [String; 2], at: &[String; 2], text: &FunctionText) -> [NodeId; 2] {
    let topology = &mut graph.topology;
    let used: BTreeSet<[u8; 6]> = topology.hosts().filter_map(|(id, _)| Some(topology.address(id)?.mac)).collect();
    let used_ips: BTreeSet<_> = topology.hosts().filter_map(|(id, _)| Some(topology.address(id)?.ipv4)).collect();
    let is_free = |address: &HostAddress| !used.contains(&address.mac) && !used_ips.contains(&address.ipv4);
    let all = (0..=u16::MAX).map(u16::to_be_bytes).map(|[high, low]| address([255, high, low], None));
    let mut free = all.skip(1).filter(is_free);
    let mut next = || free.next().expect("there are more addresses than functions");
    let spec = text.links.as_ref().map_or(LinkSpec::default(), |text| merged(&text.value, None));
    let addresses = [next(), next()];
    let [ingress, egress] = names;
    let [first, second] = addresses;
    let ports = topology.add_function([(ingress, first), (egress, second)]);
    for (port, switch) in ports.into_iter().zip(at) {
        let switch = topology.node(switch).expect("it was found");
        topology.connect(port, switch, spec);
        topology.nodes[port].x_permille = topology.nodes[switch].x_permille;
    }
    ports
}

/// What runs in an instance that is made.
fn setup(name: &str, text: &At<FunctionText>, problems: &mut Problems<'_>) -> Option<(String, HostSetup)> {
    if text.value.devices.is_some() {
        return None;
    }
    if let Some(vm) = &text.value.vm {
        return Some((name.to_owned(), HostSetup { vm: Some(vm.value.vm(problems)), ..HostSetup::default() }));
    }
    let mut setup = text.value.setup.setup(problems);
    let path = |path: &Option<At<FilePath>>| path.as_ref().map(|path| path.value.path().to_owned());
    (setup.image, setup.bundle) = (path(&text.value.image), path(&text.value.bundle));
    if setup.programs.is_empty() && setup.image.is_none() && setup.bundle.is_none() {
        let run = FORWARD.map(str::to_owned).into();
        setup.programs.push(Program { name: "forward".to_owned(), run, restart: Restart::Always });
    }
    Some((name.to_owned(), setup))
}

/// Whether what is in a function passes frames on, and nothing else.
pub(crate) fn only_forwards(setup: &HostSetup) -> bool {
    let is_forwarder = |program: &Program| program.run == FORWARD;
    setup.image.is_none()
        && setup.bundle.is_none()
        && setup.programs.len() == 1
        && setup.programs.iter().all(is_forwarder)
}
