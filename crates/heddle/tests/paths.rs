//! `heddle path` of files: what really becomes of packets, by the machines that carry them.

use serde_json::Value;

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
    let rows: Value = serde_json::from_str(&path(&desk, 1, &["h1", "h3", "-o", "json"])).expect("it is JSON");
    let end = &rows["end"];
    assert_eq!((&end["at"], &end["state"]), (&"s1".into(), &"lost".into()), "{rows}");
    assert!(end["why"].as_str().is_some_and(|why| why.contains("VLAN 10")), "{rows}");
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
    assert!(said.contains("It is lost at h1: wall (firewall) drops it\n"), "{said}");
    let said = path(&desk, 0, &["h1", "h2", "--port", "24", "--source-port", "4000"]);
    assert!(said.contains("h1 - s1 - s2 - h2\n") && !said.contains("answer"), "{said}");
    let said = path(&desk, 0, &["h2", "h1", "--port", "80", "--source-port", "4000"]);
    assert!(said.contains("h2 - s2 - s1 - h1\n") && !said.contains("answer"), "{said}");
    // Nobody begins a connection from there, but h1 may have.
    let said = path(&desk, 0, &["h2", "h1", "--port", "4000", "--source-port", "22"]);
    let expected = "This is an answer: what begins a connection is lost, since wall (firewall) drops it\n";
    assert!(said.contains(expected) && said.contains("h2 - s2 - s1 - h1\n"), "{said}");
    let said = path(&desk, 0, &["h2", "h1", "--protocol", "icmp"]);
    assert!(said.contains(expected), "{said}");
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
