//! Hosts that are virtual machines, as the file has them.

use fabric::{Hypervisor, Source, Vm, parse};
use topology::VhostUserDevice;

use crate::network::said;

fn source(text: &str) -> Source {
    Source { name: "net".to_owned(), text: text.to_owned() }
}

/// A network whose node `v` is written so.
fn with(node: &str) -> Source {
    source(&format!(
        "nodes: {{ v: {node}, h: host, s: switch }}\nlinks: [{{ between: [v, s] }}, {{ between: [h, s] }}]\n"
    ))
}

fn vm(node: &str) -> Vm {
    let fabric = parse(&with(node)).unwrap_or_else(|error| panic!("{:?}", miette::Report::new(error)));
    let host = fabric.topology.node("v").expect("it is there");
    let vm = fabric.setups["v"].vm.clone().expect("it is a virtual machine");
    let devices = &fabric.topology.nodes[host].devices;
    assert_eq!(
        devices.iter().map(|device| VhostUserDevice::of(device).map(|it| it.queues)).collect::<Vec<_>>(),
        [Some(vm.queues())]
    );
    vm
}

#[test]
fn one_word_is_a_guest_that_needs_nothing() {
    let vm = vm("vm");
    assert_eq!((vm.hypervisor, vm.memory_bytes, vm.cpus), (Hypervisor::UserModeLinux, 128 << 20, 1));
    assert_eq!((vm.kernel, vm.image, vm.run), (None, None, None));
}

#[test]
fn an_image_is_qemu_s_unless_the_file_says_otherwise() {
    let is = vm("{ kind: vm, image: disk.qcow2, memory: 2G, cpus: 2 }");
    assert_eq!((is.hypervisor, is.memory_bytes, is.cpus, is.queues()), (Hypervisor::Qemu, 2 << 30, 2, 2));
    assert_eq!(vm("{ kind: vm, image: disk.qcow2, cpus: 64 }").queues(), 8);
    assert_eq!([vm("{ kind: vm, image: i, kvm: false }").kvm, vm("{ kind: vm, image: i }").kvm], [Some(false), None]);
    let is = vm("{ kind: vm, image: disk.ext4, hypervisor: user-mode-linux, append: single }");
    assert_eq!((is.hypervisor, is.append.as_deref()), (Hypervisor::UserModeLinux, Some("single")));
}

#[test]
fn what_does_not_go_together_is_refused() {
    let nodes = [
        "{ kind: host, memory: 1G }",
        "{ kind: vm, devices: [tap0] }",
        "{ kind: vm, programs: { web: sleep 5 } }",
        "{ kind: vm, memory: 1 }",
        "{ kind: vm, memory: 1KiB }",
        "{ kind: vm, memory: 16MiB }",
        "{ kind: vm, cpus: 2 }",
        "{ kind: vm, initrd: i, hypervisor: user-mode-linux }",
        "{ kind: vm, kvm: false }",
        "{ kind: vm, memory: 2TiB }",
        "{ kind: vm, memory: 2000GiB }",
        "{ kind: vm, image: 'a,b' }",
        "{ kind: vm, image: 'a b', hypervisor: user-mode-linux }",
        "{ kind: vm, image: i, run: x }",
        "{ kind: vm, image: i, append: quiet }",
        "{ kind: vm, hypervisor: qemu }",
        "{ kind: vm, hypervisor: xen }",
        "{ kind: vm, append: \"a\\nb\" }",
    ];
    let said: Vec<String> = nodes.iter().map(|node| format!("{node}\n{}\n", said(&with(node)))).collect();
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn several_links_are_a_bond() {
    let links = "links: [{ between: [v, s] }, { between: [v, t] }, { between: [h, s] }, { between: [h, t] }]\n";
    let text = format!("nodes: {{ v: vm, h: host, s: switch, t: switch }}\n{links}");
    assert!(said(&source(&text.replace("v: vm", "v: { kind: vm }"))).contains("make them one: `bonds:"), "{text}");
    let links = "links: [{ between: [v, s] }, { between: [v, s] }, { between: [h, s] }]\n";
    let text = format!("nodes: {{ v: vm, h: host, s: switch }}\n{links}bonds: [{{ host: v, mode: active-backup }}]\n");
    let fabric = parse(&source(&text)).unwrap_or_else(|error| panic!("{:?}", miette::Report::new(error)));
    let host = fabric.topology.node("v").expect("it is there");
    assert_eq!(fabric.topology.nodes[host].devices, ["vhost-user:"; 2]);
}
