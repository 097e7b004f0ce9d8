//! Hosts that are not made: what is behind network devices of the machine.

use std::collections::BTreeMap;

use topology::{DeviceName, NodeKind};

use crate::document::{File, NodeText, NodeWord};
use crate::error::Problems;
use crate::graph::Graph;
use crate::source::At;
use crate::vm::VmText;

/// Notes at each host the devices on which its links end. To be called when links are what they will be: bonds add some.
pub(crate) fn plug_in(file: &File, graph: &mut Graph, problems: &mut Problems<'_>) {
    let Some(nodes) = &file.nodes else { return };
    // Ports of switches and functions have theirs already.
    let devices =
        graph.topology.nodes.iter().flat_map(|node| node.devices.iter().map(move |device| (device, &node.name)));
    let single = |(device, name): (&String, &String)| {
        Some((DeviceName::parse(device).ok()?.exclusive()?.to_owned(), name.clone()))
    };
    let mut taken: BTreeMap<String, String> = devices.filter_map(single).collect();
    for (name, text) in &nodes.value.0 {
        let long = match &text.value {
            NodeText::Long(long) => Some(long),
            NodeText::Short(_) => None,
        };
        let devices = long.and_then(|long| long.devices.as_ref());
        let name = name.value.0.as_str();
        let is_vm = text.value.kind() == NodeWord::Vm;
        if !is_vm && devices.is_none() {
            continue;
        }
        let Some(node) = graph.topology.nodes.iter_mut().find(|node| node.name == name) else { continue };
        if is_vm {
            let device = long.map_or_else(|| VmText::default().device(), |long| long.vm.device());
            node.devices = vec![device; node.ports.len()];
        }
        let Some(At { value: devices, place, .. }) = devices else { continue };
        if is_vm {
            problems.add(
                *place,
                format!("`{name}` is a virtual machine: its devices are sockets that it is given"),
                "not for virtual machines",
                "remove it, or say `kind: host` and start the machine yourself",
            );
            continue;
        }
        if matches!(node.kind, NodeKind::Switch { .. }) {
            problems.add(
                *place,
                "a switch has no devices of the machine",
                "only for hosts",
                "add a host for what is behind them: `guest: { kind: host, devices: [tap0] }`, and link it to the switch",
            );
            continue;
        }
        if devices.len() != node.ports.len() {
            let links = match node.ports.len() {
                1 => "1 link".to_owned(),
                links => format!("{links} links"),
            };
            let given = if devices.len() == 1 { "1 device".to_owned() } else { format!("{} devices", devices.len()) };
            problems.add(
                *place,
                format!("`{name}` has {links} and {given}"),
                "one for each link",
                "name a device for each link, in the order of the links",
            );
        }
        for device in devices {
            if let Some(single) = DeviceName::parse(&device.value.0).ok().and_then(DeviceName::exclusive)
                && let Some(other) = taken.insert(single.to_owned(), name.to_owned())
            {
                problems.add(
                    device.place,
                    format!("`{single}` is given twice: to `{other}` and to `{name}`"),
                    "taken already",
                    "one device is the end of one link",
                );
            }
        }
        node.devices = devices.iter().map(|device| device.value.0.clone()).collect();
    }
}
