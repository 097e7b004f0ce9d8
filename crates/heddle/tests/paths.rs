//! `heddle path` of files: what really becomes of packets, by the machines that carry them.

use serde_json::{Value, json};

use crate::live::{Guard, may_run, up};
use crate::program::Desk;

/// Hosts at two switches, and what else stands in the file.
fn lab(rest: &str) -> Desk {
    let desk = Desk::new();
    let text = format!(
        "\
nodes: {{ h1: host, h2: host, h3: host, s1: switch, s2: switch }}
links: [{{ between: [h1, s1] }}, {{ between: [h3, s1] }}, {{ between: [h2, s2] }}, {{ between: [s1, s2] }}]
{rest}"
    );
    desk.write("lab.fabric.yaml", &text);
    desk
}

/// What is said of packets from one host to another.
fn path(desk: &Desk, status: i32, args: &[&str]) -> String {
    desk.expect(status, &[&["path"], args, &["lab.fabric.yaml"]].concat()).0
}

#[test]
fn vlans_that_ports_do_not_carry_end_a_path() {
    let desk = lab("\
switches:
  s1: { ports: { h1: { tag: 10 }, h3: { tag: 20 }, s2: { trunks: [10, 20] } } }
  s2: { ports: { h2: { tag: 20 }, s1: { trunks: [20] } } }
");
    let said = path(&desk, 1, &["h1", "h3"]);
    assert!(said.contains("It is lost at s1: its port to h3 does not carry VLAN 10\n"), "{said}");
    let said = path(&desk, 1, &["h1", "h2"]);
    assert!(said.contains("It is lost at s2: its port to s1 admits no frames of VLAN 10\n"), "{said}");
    let said = path(&desk, 0, &["h3", "h2"]);
    assert!(said.contains("h3 - s1 - s2 - h2\n") && !said.contains("lost"), "{said}");
    let said = path(&desk, 1, &["h3", "h2", "--vlan", "20"]);
    assert!(said.contains("It is lost at s1: its port to h3 admits no frames of VLAN 20\n"), "{said}");
    // A host has its address without a tag.
    let trunk = lab("switches: { s1: { ports: { h1: { tag: 10 } } } }\n");
    let said = path(&trunk, 1, &["h1", "h3"]);
    assert!(
        said.contains("It is lost at h3: it comes with the tag of VLAN 10, and has that address without one\n"),
        "{said}"
    );
    let rows: Value = serde_json::from_str(&path(&desk, 1, &["h1", "h3", "-o", "json"])).expect("it is JSON");
    let end = &rows["end"];
    assert_eq!((&end["at"], &end["state"]), (&"s1".into(), &"lost".into()), "{rows}");
    assert!(end["why"].as_str().is_some_and(|why| why.contains("VLAN 10")), "{rows}");
}

#[test]
fn a_path_to_the_outside_names_the_uplink() {
    let desk = lab("");
    let file = desk.read("lab.fabric.yaml");
    let said = |desk: &Desk| desk.expect(2, &["path", "h1", "192.0.2.7", "lab.fabric.yaml"]).1;
    assert!(said(&desk).contains("heddle show nodes"));
    desk.write("lab.fabric.yaml", &file.replace("h1: host", "h1: { kind: host, uplink: nat }"));
    assert!(said(&desk).contains("h1 has an uplink"), "{}", said(&desk));
}

/// Behind a function that translates addresses, switches choose by the hash of what the packet is then.
#[test]
fn translated_packets_take_the_path_of_what_they_have_become() {
    let network = |host: &str, rest: &str| {
        let links =
            ["l1", "l2"].iter().flat_map(|leaf| (1..=4).map(move |spine| format!("{{ between: [{leaf}, p{spine}] }}")));
        let links = links.collect::<Vec<_>>().join(", ");
        format!(
            "nodes: {{ in: {host}, out: host, l1: switch, l2: switch, p1: switch, p2: switch, p3: switch, p4: switch }}\n\
             links: [{{ between: [in, l1] }}, {{ between: [out, l2] }}, {links}]\nspread: ecmp\n{rest}"
        )
    };
    let nat = "functions: { nat: { kind: nat, source: 10.0.9.1 } }\nchains: { all: { from: in, to: out, functions: [nat] } }\n";
    let desk = Desk::new();
    desk.write("nat.fabric.yaml", &network("host", nat));
    desk.write("own.fabric.yaml", &network("{ kind: host, ipv4: 10.0.9.1 }", ""));
    desk.write("none.fabric.yaml", &network("host", ""));
    let spine = |file: &str, source: &str| {
        let args = ["path", "in", "out", file, "--port", "80", "--source-port", source];
        let said = desk.expect(0, &args).0;
        said.lines().find(|line| line.starts_with("in - l1 - ")).unwrap_or_else(|| panic!("{said}")).to_owned()
    };
    let mut differ = 0;
    for source in (4_000..4_008).map(|port: u16| port.to_string()) {
        let translated = spine("nat.fabric.yaml", &source);
        assert_eq!(translated, spine("own.fabric.yaml", &source), "port {source}");
        differ += u32::from(translated != spine("none.fabric.yaml", &source));
    }
    assert!(differ > 0, "it is another hash");
}

#[test]
fn what_a_firewall_drops_does_not_arrive_and_answers_do() {
    let desk = lab("\
functions: { wall: { kind: firewall, outbound: [{ deny: 'tcp,tp_dst=23' }], inbound: [{ allow: 'tcp,tp_dst=80' }] } }
chains: { all: { from: h1, to: h2, functions: [wall] } }
");
    let said = path(&desk, 1, &["h1", "h2", "--port", "23", "--source-port", "4000"]);
    assert!(said.contains("It is lost at h1: wall (firewall) drops it: outbound deny tcp,tp_dst=23\n"), "{said}");
    let said = path(&desk, 0, &["h1", "h2", "--port", "24", "--source-port", "4000"]);
    assert!(said.contains("h1 - s1 - s2 - h2\n") && !said.contains("answer"), "{said}");
    let said = path(&desk, 0, &["h2", "h1", "--port", "80", "--source-port", "4000"]);
    assert!(said.contains("h2 - s2 - s1 - h1\n") && !said.contains("answer"), "{said}");
    // Nobody begins a connection from there, but h1 may have.
    let said = path(&desk, 1, &["h2", "h1", "--port", "4000", "--source-port", "22"]);
    let expected = "Only answers come through, as this one does: what begins a connection is lost, since wall (firewall) drops it: inbound deny by default\n";
    assert!(said.contains(expected) && said.contains("h2 - s2 - s1 - h1\n"), "{said}");
    let said = path(&desk, 1, &["h2", "h1", "--protocol", "icmp"]);
    assert!(said.contains(expected), "{said}");
    let data: Value =
        serde_json::from_str(&path(&desk, 1, &["h2", "h1", "--port", "443", "-o", "json"])).expect("it is JSON");
    let end =
        json!({ "state": "answers-only", "at": "h1", "why": "wall (firewall) drops it: inbound deny by default" });
    assert_eq!(data["end"], end, "{data}");
}

#[test]
fn flows_decide_where_packets_go() {
    let desk =
        lab("flows: { s1: ['priority=9,tcp,tp_dst=80,actions=drop', 'priority=9,tcp,tp_dst=81,actions=output:h3'] }\n");
    let said = path(&desk, 1, &["h1", "h2", "--port", "80", "--source-port", "4000"]);
    assert!(said.contains("It is lost at s1: a flow drops it"), "{said}");
    let said = path(&desk, 1, &["h1", "h2", "--port", "81", "--source-port", "4000"]);
    assert!(said.contains("Flows of s1 do: output:1\n") && said.contains("h3 gets it, and not h2\n"), "{said}");
    let said = path(&desk, 0, &["h1", "h2", "--port", "82", "--source-port", "4000"]);
    assert!(said.contains("h1 - s1 - s2 - h2\n") && !said.contains("Flows"), "{said}");
}

#[test]
fn a_service_is_a_destination() {
    let desk = lab("services: { web: { address: '10.0.9.80:80', servers: [h2, h3] } }\n");
    for destination in ["web", "10.0.9.80"] {
        let said = path(&desk, 0, &["h1", destination, "--port", "80", "--source-port", "4000"]);
        assert!(said.contains(&format!(" gets it, for {destination}: ")), "{said}");
    }
    let refused = desk.expect(2, &["path", "h1", "web", "lab.fabric.yaml", "--protocol", "udp"]).1;
    assert!(
        refused.contains("the service `web` has no such address") && refused.contains("it has tcp IPv4"),
        "{refused}"
    );
    let refused = desk.expect(2, &["path", "h1", "10.77.0.1", "lab.fabric.yaml"]).1;
    assert!(refused.contains("nobody has the address 10.77.0.1"), "{refused}");
}

#[test]
fn what_a_service_answers_or_refuses_itself_is_said() {
    let desk = lab("services: { web: { address: '10.1.0.80:80', servers: [h2], deny: [10.0.0.1/32] } }\n");
    let said = path(&desk, 1, &["h1", "10.1.0.80:80"]);
    assert!(said.contains("It is lost at h1: the firewall of `web` (`allow:`, `deny:`) does not let"), "{said}");
    let desk = lab("services: { web: { address: '10.1.0.80:80', servers: [h2], half-open: 0 } }\n");
    let (said, notes) = desk.expect(0, &["path", "h1", "web", "lab.fabric.yaml"]);
    assert!(said.contains("h2 gets it, for web"), "{said}");
    assert!(notes.contains("answered with a SYN cookie (`half-open: 0`), at the switch next to"), "{notes}");
    let desk = lab("services: { web: { address: '10.1.0.80:80', servers: [h2] } }\n");
    let said = path(&desk, 0, &["h1", "10.1.0.80:80"]);
    assert!(!said.contains("cookie"), "{said}");
    assert!(said.contains("h2 gets it, for 10.1.0.80:80: no other server of it gets connections now\n"), "{said}");
    let said = path(&desk, 0, &["h1", "web", "--protocol", "icmp"]);
    assert!(said.contains("The service `web` answers it itself") && !said.contains("lost"), "{said}");
    for args in [&["h1", "web", "--port", "81"][..], &["h1", "10.1.0.80:81"]] {
        let said = path(&desk, 1, args);
        assert!(said.contains("It is lost at h1: `web` refuses it: it has tcp 80, and not tcp 81\n"), "{said}");
    }
    let said = path(&desk, 1, &["h2", "web"]);
    assert!(said.contains("`web` refuses it: no server of it may have a connection of this client\n"), "{said}");
    let data = |args: &[&str]| -> Value {
        serde_json::from_str(&path(&desk, 0, &[args, &["-o", "json"]].concat())).expect("JSON")
    };
    let end = |state: &str, at: &str| serde_json::json!({ "state": state, "at": at, "why": null });
    let to_service = data(&["h1", "web"]);
    assert_eq!(to_service["end"], end("delivered", "h2"));
    let candidate =
        serde_json::json!([{ "service": "web", "server": "h2", "weight": 1, "share": null, "state": "candidate" }]);
    assert_eq!(to_service["servers"], candidate);
    assert_eq!(data(&["h1", "web", "--protocol", "icmp"])["end"], end("answered", "web"));
    assert_eq!(data(&["h1", "h2"])["end"], end("delivered", "h2"));
}

/// A name leads whoever asks to a site, and the name server's address is nobody's but the network's.
#[test]
fn names_lead_to_a_site_and_name_servers_answer_by_themselves() {
    let desk = lab("\
services:
  east: { address: 10.1.0.80:80, servers: [h2], scheduler: rr }
  west: { address: 10.1.0.81:80, servers: [h3], scheduler: rr }
names:
  www.example.net:
    address: 10.0.0.53
    sites: { far: { service: east }, near: { service: west, clients: [10.0.0.1/32] } }
");
    let of = |from: &str, args: &[&str]| desk.expect(0, &[&["path", from][..], args, &["lab.fabric.yaml"]].concat());
    let (said, notes) = of("h1", &["WWW.example.net."]);
    assert!(said.contains("h3 gets it, for WWW.example.net.: "), "{said}");
    assert!(notes.contains("`www.example.net` leads 10.0.0.1 to the site `near`: the service `west`.\n"), "{notes}");
    let (said, notes) = of("h3", &["www.example.net"]);
    assert!(said.contains("h2 gets it, for www.example.net: "), "{said}");
    assert!(notes.contains("to the site `far`: the service `east`.\n"), "{notes}");
    for args in [&["10.0.0.53", "--protocol", "udp", "--port", "53"][..], &["10.0.0.53", "--protocol", "icmp"]] {
        let (said, _) = of("h1", args);
        assert!(said.contains("the address is its name server's") && !said.contains("lost"), "{said}");
    }
    let rows: Value = serde_json::from_str(&of("h1", &["10.0.0.53", "-o", "json"]).0).expect("it is JSON");
    let end = &rows["end"];
    assert_eq!((&end["at"], &end["state"]), (&"name server".into(), &"answered".into()), "{rows}");
}

/// Two hosts, each by two links at a switch, which are one.
fn with_bonds(options: &str) -> String {
    let bond = |host: &str| format!("{{ between: [{host}, s1], members: 2, {options} }}");
    let nodes = "nodes: { h1: host, h2: host, s1: switch }\nlinks: [{ between: [h1, s1] }, { between: [h2, s1] }]";
    format!("{nodes}\nbonds: [{}, {}]\n", bond("h1"), bond("h2"))
}

fn bonded(options: &str) -> Desk {
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", &with_bonds(options));
    desk
}

/// The links by which a flow leaves h1, and what is said besides.
fn leaves(desk: &Desk, ports: &[&str]) -> (String, String) {
    let (rows, said) = desk.expect(0, &[&["path", "h1", "h2", "lab.fabric.yaml", "-o", "json"], ports].concat());
    let rows: Value = serde_json::from_str(&rows).expect("it is JSON");
    (rows["hops"][0]["by"].as_str().expect("links").to_owned(), said)
}

#[test]
fn a_path_names_the_member_that_a_hash_chooses() {
    let desk = bonded("mode: 802.3ad, xmit_hash_policy: layer3+4");
    let of_port = |port: u16| leaves(&desk, &["--port", "80", "--source-port", &port.to_string()]);
    let members: std::collections::BTreeSet<String> = (4_000..4_008).map(|port| of_port(port).0).collect();
    assert!(members.iter().eq(["h1-s1:1", "h1-s1:2"]), "{members:?}");
    assert!(!of_port(4_000).1.contains("bond"));
    let (all, said) = leaves(&desk, &[]);
    assert_eq!(all, "h1-s1:1, h1-s1:2");
    assert!(said.contains("h1-s1:1, h1-s1:2 are a bond: a hash (layer3+4) chooses one of them"), "{said}");
    // Ports have no part in this one, and turns have nothing to do with flows.
    assert!(["h1-s1:1", "h1-s1:2"].contains(&&*leaves(&bonded("mode: balance-xor"), &[]).0));
    let (all, said) = leaves(&bonded("mode: balance-rr"), &["--port", "80", "--source-port", "4000"]);
    assert_eq!(all, "h1-s1:1, h1-s1:2");
    assert!(said.contains("they take turns, packet by packet (balance-rr)"), "{said}");
}

#[test]
fn packets_take_the_member_that_a_path_names() {
    if !may_run() {
        return;
    }
    let Guard(desk) = &up(&with_bonds("mode: 802.3ad, xmit_hash_policy: layer3+4"));
    let bytes = || -> Vec<(String, u64)> {
        let rows: Value =
            serde_json::from_str(&desk.expect(0, &["show", "counters", "-o", "json"]).0).expect("it is JSON");
        let leave = rows.as_array().expect("rows").iter().filter(|row| row["from"] == "h1" && row["link"].is_string());
        leave
            .map(|row| (row["link"].as_str().unwrap_or_default().to_owned(), row["bytes"].as_u64().unwrap_or(0)))
            .collect()
    };
    for port in ["4000", "4001", "4002", "4003"] {
        let mut server = desk.command(&["exec", "h2", "iperf3", "-s", "-1"]);
        let mut server = server.stdout(std::process::Stdio::null()).spawn().expect("it starts");
        let before = bytes();
        let send = || desk.heddle(&["exec", "h1", "iperf3", "-c", "h2", "--cport", port, "-n", "2M"]).status.success();
        while !send() {}
        server.wait().expect("it ends");
        let grown = bytes().into_iter().zip(before).map(|((link, now), (_, before))| (now - before, link));
        let (_, link) = grown.max().expect("links");
        let (said, _) = desk.expect(0, &["path", "h1", "h2", "--port", "5201", "--source-port", port, "-o", "json"]);
        let said: Value = serde_json::from_str(&said).expect("it is JSON");
        assert_eq!(said["hops"][0]["by"], link, "port {port}");
    }
    // Links are known by those names elsewhere, too.
    let (bonds, _) = desk.expect(0, &["show", "bonds", "-o", "json"]);
    let bonds: Value = serde_json::from_str(&bonds).expect("it is JSON");
    let of_h1 = bonds.as_array().expect("rows").iter().filter(|row| row["node"] == "h1");
    let links: Vec<_> = of_h1.map(|row| (&row["link"], &row["state"])).collect();
    assert_eq!(links, [(&"h1-s1:1".into(), &"up".into()), (&"h1-s1:2".into(), &"up".into())]);
    let (table, _) = desk.expect(0, &["show", "counters"]);
    assert!(table.contains("h1-s1:2"), "{table}");
    desk.expect(0, &["link", "down", "h1-s1:2"]);
    for port in ["4000", "4001", "4002", "4003"] {
        let (said, _) = desk.expect(0, &["path", "h1", "h2", "--port", "5201", "--source-port", port]);
        assert!(said.contains("h1-s1:1") && !said.contains("h1-s1:2"), "{said}");
    }
    // A switch knows a bond by its first port, whichever of its links carry.
    desk.expect(0, &["link", "up", "h1-s1:2"]);
    desk.expect(0, &["link", "down", "h1-s1:1"]);
    let (said, _) = desk.expect(0, &["trace", "s1", "in_port=h1,tcp,nw_dst=h2,tp_dst=80,tp_src=4000"]);
    assert!(said.ends_with("h2 gets it\n") && !said.contains("lost"), "{said}");
    let (changed, _) = desk.expect(0, &["link", "set", "h1-s1 2", "delay=1ms"]);
    assert!(changed.contains("h1-s1:2"), "{changed}");
}
