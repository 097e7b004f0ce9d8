//! Switches and their ports in a file.

use fabric::Fabric;
use machine::Span;
use topology::PortId;
use vswitch::port::{PortVlans, StormLimit, VlanMode};

use crate::network;

const NETWORK: &str = "\
name: net
nodes: { h1: host, h2: host, s1: switch, s2: switch }
links:
  - between: [h1, s1]
  - between: [h2, s2]
  - between: [s1, s2]
";

fn read(more: &str) -> Result<Fabric, fabric::Error> {
    network::read(NETWORK, more)
}

fn problems(more: &str) -> Vec<String> {
    network::problems(NETWORK, more)
}

#[test]
fn ports_have_what_the_file_says() {
    let fabric = read(
        "\
switches:
  s1:
    mac-age: 1 min
    ports:
      h1: { tag: 10, storm-control: 1000/s, learning: false }
      1: { trunks: [20, 10] }
  s2:
    mac-table-size: 100
    ports:
      h2: { vlan-mode: native-untagged, tag: 10, trunks: [20], storm-control: 10 Mbit/s, flood: true }
      vm: { device: 'null:' }
",
    )
    .expect("it is a file");
    let topology = &fabric.topology;
    let of = |name: &str| &fabric.switches[&topology.node(name).expect("it is there")];
    let (s1, s2) = (of("s1"), of("s2"));
    assert_eq!((s1.mac_age, s1.mac_table_size), (Span::from_secs(60), 8_192));
    assert_eq!((s2.mac_age, s2.mac_table_size), (Span::from_secs(300), 100));
    let h1 = &s1.ports[&PortId(0)];
    assert_eq!((&h1.vlans, h1.learning, h1.flood), (&Some(PortVlans::access(10)), Some(false), None));
    assert_eq!(h1.storm_control, Some(StormLimit::FramesPerSecond(1_000)));
    assert_eq!(s1.ports[&PortId(1)].vlans, Some(PortVlans::new(VlanMode::Trunk, 0, vec![10, 20])));
    let h2 = &s2.ports[&PortId(0)];
    assert_eq!(h2.vlans.as_ref().map(PortVlans::trunks), Some(&[10, 20][..]), "its own is among them");
    assert_eq!((h2.storm_control, h2.flood), (Some(StormLimit::BitsPerSecond(10_000_000)), Some(true)));
    assert!(fabric.has_vlans() && !fabric.pipelines(1.into()).is_empty());
    let json = serde_json::to_value(&fabric).expect("it is data");
    assert_eq!(json["switches"]["s1"]["ports"]["0"]["vlans"]["mode"], "access");
    let plain = read("switches: { s1: { mac-age: 10s } }\n").expect("it is a file");
    assert!(!plain.has_vlans() && plain.pipelines(1.into()).is_empty());
}

#[test]
fn a_port_on_a_device_is_a_host_with_a_link_behind_the_others() {
    let more = "switches: { s1: { ports: { vm: { device: 'null:', tag: 5 }, tap: { device: tap0 } } } }\n";
    let fabric = read(more).expect("it is a file");
    let topology = &fabric.topology;
    let names: Vec<&str> = topology.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["h1", "h2", "vm", "tap", "s1", "s2"]);
    let links: Vec<String> = topology.links.keys().map(|link| topology.link_name(link)).collect();
    assert_eq!(links, ["h1-s1", "h2-s2", "s1-s2", "vm-s1", "tap-s1"]);
    let [vm, tap] = ["vm", "tap"].map(|name| topology.node(name).expect("it is there"));
    assert_eq!(topology.nodes[vm].devices, ["null:"]);
    // It keeps its address while others come and go.
    let alone = read("switches: { s1: { ports: { tap: { device: tap0 } } } }\n").expect("it is a file").topology;
    assert_eq!(alone.address(alone.node("tap").expect("it is there")), topology.address(tap));
    let by_rule = "topology: { leaf-spine: { leaves: 2, spines: 1, hosts-per-leaf: 1 } }\n\
        switches: { leaf1: { ports: { vm: { device: 'null:' } } } }\n";
    assert_eq!(network::read("", by_rule).expect("it is a file").topology.hosts, 3);
}

#[test]
fn what_is_wrong_is_shown_where_it_stands() {
    let port = |port: &str| problems(&format!("switches: {{ s1: {{ ports: {{ {port} }} }} }}\n"));
    assert_eq!(problems("switches: { s3: { mac-age: 1s } }\n"), ["7:13 there is no switch `s3` (did you mean `s1`?)"]);
    assert_eq!(port("h2: { tag: 1 }"), ["7:28 no port of the switch leads to `h2` (did you mean `h1`?)"]);
    let [message] = &port("h1: { tag: 5000 }")[..] else { panic!("one problem") };
    assert!(message.starts_with("7:39 expected a number from 1 to 4094"), "{message}");
    let [message] = &port("h1: { tag: 5, trunks: [6] }")[..] else { panic!("one problem") };
    assert!(message.contains("`vlan-mode: native-untagged`"), "{message}");
    for (text, says) in [
        ("h1: { vlan-mode: access }", "needs a VLAN of its own"),
        ("h1: { vlan-mode: trunk, tag: 5 }", "a trunk has no VLAN of its own (remove `tag`, or write"),
        ("h1: { vlan: 5 }", "did you mean `tag`?"),
        ("h1: { vlan-mode: access, tag: 5, trunks: [6] }", "an access port carries one VLAN (remove `trunks`, or"),
        ("h1: { vlan-mode: access1, tag: 5 }", "did you mean `access`?"),
        ("h1: { tag: 5 }, 0: { tag: 6 }", "something is said about port 0 already"),
        ("s2: { storm-control: 10/s }", "is for ports that lead to hosts"),
        ("h1: { storm-control: 10 }", "has no unit"),
        ("h1: { storm-control: 0/s }", "from 1 to"),
        ("h1: { device: tap0 }", "there is a node `h1` already"),
        ("vm: { tag: 5 }", "a new one needs a `device`"),
        ("a: { device: tap0 }, b: { device: tap0 }", "`tap0` is given twice"),
        ("localhost: { device: tap0 }", "no port can be called `localhost`"),
    ] {
        let found = port(text);
        assert!(found.len() == 1 && found[0].contains(says), "{text}: {found:?}");
    }
}

#[test]
fn all_switches_speak_rstp_where_one_does() {
    let more = "switches: { s1: { rstp: { priority: 4096 }, ports: { s2: { path-cost: 7, root-guard: true }, vm: { device: 'null:' } } } }\n";
    let fabric = read(more).expect("it is a file");
    let bridges = fabric.bridges();
    let [s1, s2] = ["s1", "s2"].map(|name| &bridges[&fabric.topology.node(name).expect("it is there")]);
    assert_eq!((s1.priority, s2.priority), (4_096, 32_768));
    assert_ne!(s1.address, s2.address);
    let [h1, to_s2, vm] = &s1.ports[..] else { panic!("three ports") };
    // Hosts that are made here are edges; what is behind a device is found out.
    assert!(h1.admin_edge && !to_s2.admin_edge && !vm.admin_edge && vm.auto_edge);
    assert_eq!((to_s2.cost, to_s2.root_guard, vm.cost), (7, true, 2_000));
    assert!(!fabric.pipelines(1.into()).is_empty());
    assert!(read("switches: { s1: { rstp: true } }\n").expect("it is a file").has_rstp());
    assert!(read("").expect("it is a file").bridges().is_empty());
}

#[test]
fn what_is_wrong_with_rstp_is_shown_where_it_stands() {
    for (text, says) in [
        ("rstp: yes", "7:25 expected `true`, or a map like `{ priority: 4096 }`"),
        ("rstp: { priority: 5000 }", "a multiple of 4096, and 5000 is none"),
        ("rstp: { hello-time: 10ms }", "is shorter than 1 s"),
        ("rstp: { max-age: 40s }", "don't fit each other"),
        ("rstp: { transmit-hold-count: 11 }", "from 1 to 10"),
        ("rstp: true, ports: { h1: { port-priority: 17 } }", "a multiple of 16, and 17 is none"),
        ("ports: { h1: { bpdu-guard: true } }", "for switches that speak RSTP, and none does"),
    ] {
        let found = problems(&format!("switches: {{ s1: {{ {text} }} }}\n"));
        assert!(found.len() == 1 && found[0].contains(says), "{text}: {found:?}");
    }
    let found = problems("routes: fixed\nswitches: { s1: { rstp: true } }\n");
    assert!(found.len() == 1 && found[0].contains("with `routes: fixed`"), "{found:?}");
}
