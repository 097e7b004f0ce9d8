//! `heddle port`, `show macs`, `flush macs`, and ports of a file.

use serde_json::Value;

use crate::json::hold;
use crate::live::{may_run, up};

const LAB: &str = "\
topology: { leaf-spine: { leaves: 2, spines: 2, hosts-per-leaf: 2 } }
flows: { leaf1: [ 'priority=10,tcp,tp_dst=80,actions=drop' ] }
switches:
  leaf2: { ports: { sink: { device: 'null:' } } }
";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn ports_come_and_go_while_the_network_runs() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    let said = |args: &[&str]| desk.expect(0, args).0;
    let ports = |switch: &str| json(&said(&["port", "show", switch, "-o", "json"]));
    let names = |ports: &Value| -> Vec<String> {
        let all = ports.as_array().expect("it is a list").iter();
        all.map(|port| format!("{}:{}:{}", port["port"], port["to"].as_str().unwrap(), port["type"].as_str().unwrap()))
            .collect()
    };
    let of_file = ["0:h3:host", "1:h4:host", "2:spine1:switch", "3:spine2:switch", "4:sink:null"];
    assert_eq!(names(&ports("leaf2")), of_file);
    // What somebody has changed, and what has been counted, stays.
    said(&["flow", "add", "leaf1", "priority=20,icmp,actions=normal"]);
    said(&["ping", "h1", "h2"]);
    let done = said(&["port", "add", "leaf1", "vm", "vhost-user:", "tag=10", "storm-control=1000/s"]);
    assert!(done.starts_with("leaf1: port vm added; others know what is behind it as 02:00:0a:"), "{done}");
    let done = said(&["port", "add", "leaf2", "drain", "null:", "-o", "json"]);
    hold("heddle port add", &done);
    let done = json(&done);
    let nodes = json(&said(&["show", "nodes", "-o", "json"]));
    let drain = nodes.as_array().and_then(|rows| rows.iter().find(|row| row["name"] == "drain")).expect("it is there");
    assert_eq!((&done["mac"], &done["done"]), (&drain["mac"], &"added".into()), "{done}");
    let added = ports("leaf1");
    assert_eq!(names(&added)[4], "4:vm:vhost-user");
    assert_eq!((&added[4]["device"], &added[4]["vlan"]), (&"vhost-user:".into(), &"access 10".into()), "{added}");
    assert_eq!((&added[4]["queues"], &added[4]["queues-used"]), (&1.into(), &0.into()), "{added}");
    assert_eq!(added[0]["queues"], Value::Null, "{added}");
    let flows = json(&said(&["flow", "show", "leaf1", "icmp", "-o", "json"]));
    assert!(flows[0]["packets"].as_u64() > Some(0), "{flows}");
    // The new port can be named at once.
    said(&["flow", "add", "leaf1", "priority=30,udp,tp_dst=9,actions=output:vm"]);
    said(&["ping", "h1", "h3"]);
    let refused = |args: &[&str]| desk.expect(2, args).1;
    let again = refused(&["port", "add", "leaf1", "vm", "null:"]);
    assert!(again.contains("there is a node vm already") && again.contains("another name"), "{again}");
    let wrong = refused(&["port", "add", "leaf1", "x", "null:", "tga=5"]);
    assert!(wrong.contains("there is no key `tga` here") && wrong.contains("did you mean `tag`?"), "{wrong}");
    let wrong = refused(&["port", "add", "leaf9", "x", "null:"]);
    assert!(wrong.contains("there is no switch `leaf9`"), "{wrong}");
    let wrong = refused(&["port", "add", "leaf1", "x", "no-such-device"]);
    assert!(wrong.contains("no-such-device"), "{wrong}");
    let wrong = refused(&["port", "add", "leaf1", "x", "vhost-user:,queues=9"]);
    assert!(wrong.contains("`9` is no number of queues"), "{wrong}");
    if cfg!(not(feature = "dpdk")) {
        let wrong = refused(&["port", "add", "leaf1", "x", "dpdk:net_null0"]);
        let words: Vec<&str> = wrong.split_whitespace().filter(|word| *word != "│").collect();
        assert!(words.join(" ").contains("was built without DPDK"), "{wrong}");
    }
    assert_eq!(ports("leaf1").as_array().map(Vec::len), Some(5), "what is refused changes nothing");
    let wrong = refused(&["port", "del", "leaf1", "h1"]);
    assert!(wrong.contains("the end of a link of the file") && wrong.contains("heddle link down leaf1 h1"), "{wrong}");
    let wrong = refused(&["port", "del", "leaf1", "drain"]);
    assert!(wrong.contains("no port of leaf1 is called drain"), "{wrong}");
    assert_eq!(said(&["port", "del", "leaf1", "vm"]), "leaf1: port vm removed\n");
    assert_eq!(said(&["port", "del", "leaf2", "sink"]), "leaf2: port sink removed\n");
    assert_eq!(names(&ports("leaf2"))[4..], ["4:drain:null"]);
    said(&["ping", "h2", "h4"]);
    // A file says all.
    said(&["up", "lab.fabric.yaml"]);
    assert_eq!(names(&ports("leaf2")), of_file);
}

#[test]
fn what_is_said_of_ports_changes_while_the_network_runs() {
    if !may_run() {
        return;
    }
    let guard = up("topology: { single: { hosts: 3 } }\n");
    let desk = &guard.0;
    let said = |args: &[&str]| desk.expect(0, args).0;
    let row = |args: &[&str]| json(&said(&[args, &["-o", "json"]].concat()))[0].clone();
    let pings = |to: &str| desk.heddle(&["exec", "h1", "--", "ping", "-4", "-c", "1", "-W", "1", to]).status.success();
    assert!(pings("h2"));
    let port = row(&["port", "set", "s1", "h1", "tag=10"]);
    assert_eq!((&port["to"], &port["vlan"]), (&"h1".into(), &"access 10".into()), "{port}");
    assert!(!pings("h2"), "they are in different VLANs");
    // By its number it is the same port.
    let port = row(&["port", "set", "s1", "1", "vlan-mode=native-untagged", "tag=10", "trunks=20"]);
    assert_eq!((&port["to"], &port["vlan"]), (&"h2".into(), &"native-untagged 10 of 10,20".into()), "{port}");
    said(&["ping", "h1", "h2"]);
    let port = row(&["port", "set", "s1", "h2", "trunks=none", "rate=10Mbit", "back.rate=5Mbit"]);
    assert_eq!((&port["vlan"], &port["rate-bps"]), (&"native-untagged 10".into(), &10_000_000.into()), "{port}");
    let link = said(&["link", "show", "h2", "s1"]);
    // A port's link begins at its switch.
    assert!(link.contains("rate=5Mbit h2 -> s1; rate=10Mbit s1 -> h2"), "{link}");
    // What the way back has stays its own.
    let link = said(&["link", "set", "h2", "s1", "rate=20Mbit"]);
    assert!(link.contains("rate=20Mbit h2 -> s1; rate=10Mbit s1 -> h2"), "{link}");
    let links = json(&said(&["show", "links", "-o", "json"]));
    assert_eq!(links[1]["back"], serde_json::json!({ "rate-bps": 10_000_000 }), "{links}");
    let refused = |args: &[&str]| desk.expect(2, args).1;
    let wrong = refused(&["port", "set", "s1", "h9", "tag=5"]);
    assert!(wrong.contains("no port of s1 leads to `h9`"), "{wrong}");
    let wrong = refused(&["port", "set", "s1", "h1", "speed=5"]);
    assert!(
        wrong.contains("there is no key `speed`") && wrong.contains("a port has") && wrong.contains("`rate`"),
        "{wrong}"
    );
    assert!(refused(&["port", "set", "s1", "h1", "tagg=5"]).contains("did you mean `tag`?"));
    let wrong = refused(&["port", "set", "s1", "h1", "device=tap0"]);
    assert!(wrong.contains("a port stays on its device"), "{wrong}");
    let wrong = refused(&["port", "set", "s1", "h1", "trunks=5"]);
    assert!(wrong.contains("native-untagged"), "{wrong}");
    // Nothing is said of them any more.
    said(&["port", "set", "s1", "h1", "tag=none"]);
    said(&["port", "set", "s1", "h2", "tag=none", "vlan-mode=none"]);
    assert_eq!(row(&["port", "show", "s1"])["vlan"], Value::Null);
    said(&["ping", "h1", "h3"]);
    // What comes to groups and to their buckets is counted.
    said(&["group", "add", "s1", "group_id=1,type=all,bucket=output:h2,bucket=output:h3"]);
    said(&["flow", "add", "s1", "priority=9,in_port=h1,udp,tp_dst=9,actions=group:1"]);
    said(&["exec", "h1", "--", "bash", "-c", "for n in 1 2 3; do echo x > /dev/udp/10.0.1.2/9; done"]);
    let rows = said(&["group", "stats", "s1", "-o", "json"]);
    hold("heddle group stats", &rows);
    let rows = json(&rows);
    let packets: Vec<u64> = rows.as_array().expect("rows").iter().filter_map(|row| row["packets"].as_u64()).collect();
    assert_eq!(packets, [3, 3, 3], "{rows}");
    let stats = said(&["group", "stats", "s1"]);
    assert!(
        stats.contains(" group_id=1,duration=") && stats.contains(",bucket1:packet_count=3,byte_count="),
        "{stats}"
    );
    // A file says all.
    said(&["port", "set", "s1", "h1", "tag=7"]);
    said(&["up", "lab.fabric.yaml"]);
    assert_eq!(row(&["port", "show", "s1"])["vlan"], Value::Null);
}

#[test]
fn addresses_are_shown_and_forgotten() {
    if !may_run() {
        return;
    }
    let guard = up("topology: { leaf-spine: { leaves: 2, spines: 1, hosts-per-leaf: 1 } }\n");
    let desk = &guard.0;
    let said = |args: &[&str]| desk.expect(0, args).0;
    let shown = said(&["show", "macs", "leaf1"]);
    let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0].join(" ").to_lowercase(), "switch port to vlan mac age-s", "{shown}");
    assert_eq!(lines[1], ["leaf1", "0", "h1", "0", "02:00:0a:00:01:01", "static"], "{shown}");
    said(&[
        "exec",
        "h1",
        "--",
        "ip",
        "link",
        "add",
        "link",
        "eth0",
        "name",
        "mv0",
        "address",
        "02:aa:00:00:00:01",
        "type",
        "macvlan",
    ]);
    said(&["exec", "h1", "--", "ip", "addr", "add", "192.168.9.1/24", "dev", "mv0"]);
    said(&["exec", "h1", "--", "ip", "link", "set", "mv0", "up"]);
    // It asks for somebody, whom nobody is.
    desk.heddle(&["exec", "h1", "--", "ping", "-c", "1", "-W", "1", "192.168.9.7"]);
    let all = json(&said(&["show", "macs", "-o", "json"]));
    let learned = all.as_array().expect("a list").iter().find(|entry| entry["mac"] == "02:aa:00:00:00:01");
    assert_eq!(learned.map(|entry| (&entry["to"], entry["age-s"].is_u64())), Some((&"h1".into(), true)), "{all}");
    assert_eq!(said(&["flush", "macs", "leaf2"]), "leaf2: 0 addresses forgotten\n");
    let forgotten = json(&said(&["flush", "macs", "-o", "json"]));
    assert!(forgotten["forgotten"].as_u64() > Some(0), "{forgotten}");
    let refused = desk.expect(2, &["show", "macs", "--switch", "leaf9"]).1;
    assert!(refused.contains("there is no switch `leaf9`"), "{refused}");
}
