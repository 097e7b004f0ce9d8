use super::*;
use crate::parse;

/// The fabric file's text below its name, whose network can be used, and what is said to be left out.
fn imported(name: &str, text: &str) -> (String, Vec<String>) {
    let source = Source { name: name.to_owned(), text: text.to_owned() };
    let imported = import(&source).unwrap_or_else(|error| panic!("{:?}", miette::Report::new(error)));
    let made = Source { name: "made".to_owned(), text: imported.text.clone() };
    parse(&made).unwrap_or_else(|error| panic!("{}\n{:?}", imported.text, miette::Report::new(error)));
    let notes = imported.notes.into_iter().map(|Note { line, message, .. }| match line {
        Some(line) => format!("{line}: {message}"),
        None => message,
    });
    (imported.text.split_once("nodes:\n").expect("it has nodes").1.to_owned(), notes.collect())
}

#[test]
fn a_topology_of_containerlab_is_a_network() {
    let text = "\
name: srlceos01
topology:
  defaults: { kind: linux, image: alpine, env: { A: b } }
  nodes:
    srl: { kind: nokia_srlinux, image: ghcr.io/nokia/srlinux, startup-config: srl.cfg }
    ceos: { kind: arista_ceos, image: ceos:4.32 }
    client1:
      image: alpine:3
      exec: [ip addr add 10.0.0.1/24 dev eth1, \"sh -c 'echo $PATH; sysctl net.ipv4.conf.eth2.forwarding=1'\", \"\"]
    router: { image: frrouting/frr }
  links:
    - endpoints: [\"srl:ethernet-1/1\", \"ceos:eth1\"]
    - endpoints: [\"srl:e1-2\", \"client1:eth1\"]
    - endpoints: [\"ceos:eth2\", \"router:eth1\"]
      mtu: 1500
    - type: veth
      endpoints: [{ node: ceos, interface: eth3 }, { node: client1, interface: eth2 }]
    - endpoints: [\"ceos:eth4\", \"host:ceos-eth4\"]
";
    let (made, notes) = imported("srl.clab.yml", text);
    let expected = "  srl: switch\n  ceos: switch\n  client1: { kind: host, forward: true, interfaces: { 0: { ipv4: \"10.0.0.1/24\" }, 1: {} }, programs: { exec: { run: [LINE], restart: never } } }\n  router: { kind: host, image: \"docker://frrouting/frr\" }\nlinks:\n  \
                    - { between: [srl, ceos] }\n  - { between: [srl, client1] }\n  - { between: [ceos, router] }\n  \
                    - { between: [ceos, client1] }\n";
    let line = r#""sh", "-c", "echo $PATH; sysctl net.ipv4.conf.eth1.forwarding=1""#;
    assert_eq!(made, expected.replace("LINE", line));
    let notes = notes.join("\n");
    for expected in [
        "3: `env` of `defaults`: only the kind and the image",
        "5: images: hosts have this machine's programs, unless one has an `image` (ceos, client1, srl; also in lines 6, 8)",
        "5: the network operating system: nodes of its kind are switches, which forward frames along shortest paths and route nothing; between subnets, write a host that forwards",
        "10: what an image starts by itself: the host's `programs:` start its routing daemons",
        "9: `exec` is the program `exec` of a host, with the names that its devices have here (`eth0` is the first link's), and addresses and routes",
        "15: `mtu` of links: all of a network have one",
        "18: a link to `host` of the machine",
    ] {
        assert!(notes.contains(expected), "{expected}\n{notes}");
    }
}

/// Commands are run without a shell there, and each by itself: what one of them has is not another one's.
#[test]
fn commands_of_containerlab_are_one_each() {
    let run = |exec: &str| {
        let text = format!(
            "topology:\n  nodes:\n    a: {{ kind: linux, exec: {exec} }}\n    b: {{ kind: linux }}\n  links: [{{ endpoints: [\"b:uplink\", \"a:eth7\"] }}]\n"
        );
        let source = Source { name: "two.clab.yml".to_owned(), text };
        let imported = import(&source).unwrap();
        let fabric = parse(&Source { name: "made".to_owned(), text: imported.text }).unwrap();
        let program = fabric.setups.get("a").map(|setup| setup.programs[0].run.clone());
        (program.unwrap_or_default().into_iter().skip(4).collect::<Vec<_>>(), imported.notes.len())
    };
    let (lines, _) = run(
        r#"["echo a > b; c && d | e", 'x "y z" w\ v', "ip link set eth7.5 up", "ip link set eth77 mtu 9000", "echo it''s '' \"$a\\\\ \\\"q\\\"\""]"#,
    );
    let expected = [
        "echo a '>' 'b;' c '&&' d '|' e",
        "x 'y z' 'w v'",
        "ip link set eth0.5 up",
        "ip link set eth77 mtu 9000",
        "echo its '' '$a\\ \"q\"'",
    ];
    assert_eq!(lines, expected);
    let text = "topology:\n  nodes:\n    a: { kind: linux, exec: [ip address add 192.168.1.1/24 dev eth1, ip -6 a add fd00:1::1/64 dev eth1, ip a add 10.0.0.1/32 dev eth1, ip a add 10.0.0.2/32 dev lo] }\n    b: { kind: linux }\n  links: [{ endpoints: [\"a:eth1\", \"b:eth1\"] }]\n";
    let source = Source { name: "two.clab.yml".to_owned(), text: text.to_owned() };
    let fabric = parse(&Source { name: "made".to_owned(), text: import(&source).unwrap().text }).unwrap();
    let own = fabric.topology.address(fabric.topology.node("a").unwrap()).unwrap();
    assert_eq!((own.ipv4.to_string(), own.ipv6.to_string()), ("192.168.1.1".to_owned(), "fd00:1::1".to_owned()));
    assert_eq!(fabric.setups["a"].addresses[0].to_string(), "10.0.0.1/32");
    assert_eq!(fabric.setups["a"].programs[0].run, ["ip", "a", "add", "10.0.0.2/32", "dev", "lo"]);
    // What cannot be read is left out, and said.
    let (lines, notes) = run(r#"["echo 'a"]"#);
    assert!(lines.is_empty() && notes > 0, "{lines:?}");
}

/// Routes were commands in a shell's loop, which came after programs that need them.
#[test]
fn routes_that_commands_of_containerlab_add_are_the_hosts() {
    let of = |exec: &str| {
        let text = format!(
            "topology:\n  nodes:\n    a: {{ kind: linux, exec: [{exec}] }}\n    b: {{ kind: linux }}\n  links: [{{ endpoints: [\"a:eth1\", \"b:eth1\"] }}]\n"
        );
        let (made, notes) = imported("two.clab.yml", &text);
        let a = made.lines().next().unwrap_or_default().trim().to_owned();
        (a, notes.join("\n"))
    };
    let (a, notes) = of(
        "ip addr add 10.0.1.1/24 dev eth1, ip route del default, ip route replace default via 10.0.1.254 dev eth1, ip r add 10.9.0.0/16 via 10.0.1.2, ip -6 addr add fd00:1::1/64 dev eth1, ip -6 route add default via fd00:1::9",
    );
    let routes = r#"["0.0.0.0/0 via 10.0.1.254 dev eth0", "10.9.0.0/16 via 10.0.1.2", "::/0 via fd00:1::9"]"#;
    let routes = routes.replace("0.0.0.0/0", "default").replace("::/0", "default");
    assert_eq!(a, format!("a: {{ kind: host, ipv4: \"10.0.1.1/24\", ipv6: \"fd00:1::1/64\", routes: {routes} }}"));
    assert!(notes.contains("4: `exec` is") || notes.contains("3: `exec` sets up a host"), "{notes}");
    let (a, _) = of("ip route add 10.9.0.0/16 via 10.0.0.2");
    assert_eq!(a, r#"a: { kind: host, routes: ["10.9.0.0/16 via 10.0.0.2"] }"#);
    // What the host could not have, or has to have at another time, stays a command.
    for line in [
        "ip route add default via 192.168.1.1",
        "ip route add 10.9.0.0/16 dev eth0",
        "ip route add 10.9.0.1/16 via 10.0.0.2",
        "ip route add 10.9.0.0/16 via 10.0.0.2 table 5",
    ] {
        let (a, _) = of(line);
        let words: Vec<String> = line.split(' ').map(|word| format!("\"{word}\"")).collect();
        assert_eq!(
            a,
            format!("a: {{ kind: host, programs: {{ exec: {{ run: [{}], restart: never }} }} }}", words.join(", "))
        );
    }
}

#[test]
fn files_that_a_node_of_containerlab_has_are_those_of_a_host() {
    let text = "topology:\n  nodes:\n    a: { kind: linux, binds: [\"conf/a.conf:/etc/a.conf:ro\", \"b:/etc/b\"] }\n    b: { kind: linux, binds: [\"none:/etc/c\"] }\n  links: [{ endpoints: [\"a:eth1\", \"b:eth1\"] }]\n";
    let source = Source { name: "two.clab.yml".to_owned(), text: text.to_owned() };
    let read = |path: &str| ["conf/a.conf", "b"].contains(&path).then(|| format!("text of \"{path}\"\nand more"));
    let imported = import_with(&source, None, &read).unwrap();
    let fabric = parse(&Source { name: "made".to_owned(), text: imported.text }).unwrap();
    let files: Vec<_> = fabric.setups["a"].files.iter().map(|file| (file.path.as_str(), file.text.as_str())).collect();
    assert_eq!(
        files,
        [("/etc/a.conf", "text of \"conf/a.conf\"\nand more\n"), ("/etc/b", "text of \"b\"\nand more\n")]
    );
    assert!(!fabric.setups.contains_key("b"));
    assert!(imported.notes.iter().any(|note| note.message.contains("`binds`") && note.message.ends_with("(b)")));
}

/// What routes is a host that forwards, with the image that has its daemons; and so is a host between several others.
#[test]
fn routers_of_containerlab_are_hosts_that_forward() {
    let text = "topology:\n  kinds: { linux: { image: quay.io/frrouting/frr:10.0 } }\n  nodes:\n    r1: { kind: linux, binds: [daemons:/etc/frr/daemons] }\n    r2: { kind: linux, image: /images/bird.tar }\n    r3: { kind: linux, image: alpine }\n    a: { kind: linux, image: alpine }\n  \
                links:\n    - endpoints: [\"r1:eth1\", \"r2:eth1\"]\n    - endpoints: [\"r2:eth2\", \"r3:eth1\"]\n    - endpoints: [\"r3:eth2\", \"a:eth1\"]\n";
    let (made, notes) = imported("lab.clab.yml", text);
    let nodes = "  r1: { kind: host, image: \"docker://quay.io/frrouting/frr:10.0\" }\n  \
                 r2: { kind: host, forward: true, image: \"/images/bird.tar\" }\n  r3: { kind: host, forward: true }\n  a: host\n";
    assert!(made.starts_with(nodes), "{made}");
    assert!(
        notes.join("\n").contains(
            "start its routing daemons, as in `programs: { frr: /usr/lib/frr/docker-start }` (r1, r2; also in line 5)"
        ),
        "{notes:?}"
    );
    assert!(
        notes.join("\n").contains("until then it has one device, `eth0`, for all links (r1, r2; also in line 5)"),
        "{notes:?}"
    );
}

/// The addresses of a router's devices stand in its configuration; that has the names of devices that they have here.
#[test]
fn routers_of_containerlab_have_the_devices_of_their_configuration() {
    let text = "topology:\n  kinds: { linux: { image: quay.io/frrouting/frr:10.0 } }\n  nodes:\n    r1: { kind: linux, binds: [\"r1.conf:/etc/frr/frr.conf\", \"daemons:/etc/frr/daemons\"] }\n    \
                r2: { kind: linux, exec: [\"vtysh -c 'conf t' -c 'interface eth1' -c 'ip address 10.0.12.2/30'\", ip addr add 10.0.2.254/24 dev eth2] }\n    \
                h1: { kind: linux, image: alpine, exec: [ip addr add 10.0.1.1/24 dev eth1] }\n    h2: { kind: linux, image: alpine, exec: [ip addr add 10.0.2.1/24 dev eth1] }\n  \
                links:\n    - endpoints: [\"r1:eth1\", \"r2:eth1\"]\n    - endpoints: [\"r1:eth2\", \"h1:eth1\"]\n    - endpoints: [\"r2:eth2\", \"h2:eth1\"]\n";
    let source = Source { name: "two.clab.yml".to_owned(), text: text.to_owned() };
    let read = |path: &str| {
        let conf = "interface eth1\n ip address 10.0.12.1/30\ninterface eth2\n ip address 10.0.1.254/24\n! eth3\n";
        Some(if path == "daemons" { "ospfd=yes # eth1" } else { conf }.to_owned())
    };
    let imported = import_with(&source, None, &read).unwrap();
    let fabric = parse(&Source { name: "made".to_owned(), text: imported.text.clone() }).unwrap();
    for expected in [
        "interfaces: { 0: { ipv4: \"10.0.12.1/30\" }, 1: { ipv4: \"10.0.1.254/24\" } }",
        "interfaces: { 0: { ipv4: \"10.0.12.2/30\" }, 1: { ipv4: \"10.0.2.254/24\" } }",
    ] {
        assert!(imported.text.contains(expected), "{}", imported.text);
    }
    let files: Vec<&str> = fabric.setups["r1"].files.iter().map(|file| file.text.as_str()).collect();
    assert!(files[0].starts_with("interface eth0\n ip address 10.0.12.1/30\ninterface eth1\n"), "{files:?}");
    assert!(files[1].ends_with("# eth1\n"), "{files:?}");
    let converted: Vec<&str> = imported
        .notes
        .iter()
        .filter(|note| note.kind == NoteKind::Converted)
        .map(|note| note.message.as_str())
        .collect();
    assert!(
        converted.iter().any(|note| note.starts_with("addresses of devices in the router's")
            && note.ends_with("(r1, r2; also in line 5)")),
        "{converted:?}"
    );
    assert!(
        !imported.notes.iter().any(|note| note.message.starts_with("a device for each link")),
        "{:?}",
        imported.notes
    );
}

/// What is taken from `defaults`, `kinds` and `groups` is no note, and published ports are no management network.
#[test]
fn what_is_taken_from_defaults_is_not_noted() {
    let text = |more: &str| {
        format!(
            "topology:\n  defaults: {{ kind: linux{more} }}\n  kinds: {{ linux: {{ image: alpine }} }}\n  nodes:\n    a: {{ ports: [\"8080:80\"] }}\n    b: {{}}\n  links: [{{ endpoints: ['a:eth1', 'b:eth1'] }}]\n"
        )
    };
    let (_, notes) = imported("x.clab.yml", &text(""));
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[1].starts_with("5: images: hosts have this machine's programs"), "{notes:?}");
    assert!(notes[0].starts_with("5: `ports` are not published") && notes[0].contains("uplink: nat"), "{notes:?}");
    let (_, notes) = imported("x.clab.yml", &text(", mtu: 9000, cpu: 1"));
    assert!(notes[0].starts_with("2: `cpu`, `mtu` of `defaults`: only the kind"), "{notes:?}");
}

#[test]
fn rates_of_graphs_are_in_the_unit_in_which_one_writes_them() {
    for (bps, written) in [
        ("10000000000.0", "10Gbit"),
        ("2500000000", "2.5Gbit"),
        ("155520000", "155.52Mbit"),
        ("64000", "64kbit"),
        ("999", "999bit"),
        ("1000000001", "1.000000001Gbit"),
    ] {
        let text = format!(
            "<graphml><key id='d' attr.name='LinkSpeedRaw'/><graph><node id='a'/><node id='b'/><edge source='a' target='b'><data key='d'>{bps}</data></edge></graph></graphml>"
        );
        let (made, _) = imported("x.graphml", &text);
        assert!(made.contains(&format!("rate: {written} }}")), "{bps}: {made}");
    }
}

/// `Zürich` was `Z-rich`.
#[test]
fn names_keep_their_letters_without_the_marks() {
    let text = "<graphml><graph><node id=\"Zürich\"/><node id=\"Gießen\"/><node id=\"Tromsø\"/><node id=\"東京\"/>\
                <edge source=\"Zürich\" target=\"Gießen\"/><edge source=\"Zürich\" target=\"Tromsø\"/><edge source=\"Zürich\" target=\"東京\"/></graph></graphml>";
    let (made, notes) = imported("cities.graphml", text);
    assert!(made.starts_with("  Zurich: switch\n  Giessen: switch\n  Tromso: switch\n  s: switch\n"), "{made}");
    assert!(notes.join("\n").contains("Zürich is Zurich"), "{notes:?}");
}

#[test]
fn a_graph_is_a_network_of_switches_with_a_host_each() {
    let text = r#"<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="label" attr.type="string" for="node" id="d0" />
  <key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="d1" />
  <key attr.name="Network" attr.type="string" for="graph" id="d2" />
  <graph edgedefault="undirected">
    <data key="d2">Abilene</data>
    <node id="0"><data key="d0">New York</data></node>
    <node id="1"><data key="d0">Chicago &amp; suburbs</data></node>
    <node id="2"><data key="d0">New York</data></node>
    <node id="3"><data key="d0">Hawaii</data></node>
    <edge source="0" target="1"><data key="d1">10000000000.0</data></edge>
    <edge source="1" target="2" />
    <edge source="2" target="2" />
    <edge source="2" target="9" />
  </graph>
</graphml>
"#;
    let (made, notes) = imported("abilene.graphml", text);
    let expected = "  New-York: switch\n  Chicago---suburbs: switch\n  New-York-2: switch\n  h-New-York: host\n  h-Chicago---suburbs: host\n  \
                    h-New-York-2: host\nlinks:\n  - { between: [New-York, Chicago---suburbs], rate: 10Gbit }\n  \
                    - { between: [Chicago---suburbs, New-York-2] }\n  - { between: [h-New-York, New-York] }\n  \
                    - { between: [h-Chicago---suburbs, Chicago---suburbs] }\n  - { between: [h-New-York-2, New-York-2] }\n";
    assert_eq!(made, expected);
    let notes = notes.join("\n");
    for expected in [
        "it has no hosts: each switch was given one",
        "nodes that no link joins to the others: Hawaii",
        "names that are other ones here: Chicago & suburbs is Chicago---suburbs",
        "14: an edge from a node to itself",
        "15: an edge to a node that is not there",
    ] {
        assert!(notes.contains(expected), "{expected}\n{notes}");
    }
}

#[test]
fn coordinates_are_delays() {
    // As the Internet Topology Zoo has them: New York and Chicago are 1,146 km apart, light in glass goes 199,862 km a second.
    let node = |id: &str, latitude: f64, longitude: f64| {
        format!("<node id='{id}'><data key='a'>{latitude}</data><data key='o'>{longitude}</data></node>")
    };
    let edge = |a: &str, b: &str, data: &str| format!("<edge source='{a}' target='{b}'>{data}</edge>");
    let text = [
        "<graphml><key id='a' attr.name='Latitude'/><key id='o' attr.name='Longitude'/><graph>",
        &node("ny", 40.71427, -74.00597),
        &node("chicago", 41.85003, -87.65005),
        &node("sydney", -33.86785, 151.20732),
        &node("twin", 40.71427, -74.00597),
        "<node id='nowhere'/>",
        &edge("ny", "chicago", ""),
        &edge("ny", "sydney", ""),
        &edge("ny", "twin", ""),
        &edge("ny", "nowhere", ""),
        &edge("chicago", "sydney", "<data key='delay'>3ms</data>"),
        "</graph></graphml>",
    ]
    .concat();
    let (made, notes) = imported("zoo.graphml", &text);
    let delay = |a: &str, b: &str| {
        let line = made
            .lines()
            .find(|line| line.contains(&format!("[{a}, {b}]")))
            .unwrap_or_else(|| panic!("{a} {b}: {made}"));
        line.split("delay: ").nth(1).map(|rest| rest.trim_end_matches([' ', '}']).to_owned())
    };
    assert_eq!(delay("ny", "chicago").as_deref(), Some("5733us"));
    assert_eq!(delay("ny", "sydney").as_deref(), Some("80000us"));
    assert_eq!((delay("ny", "twin"), delay("ny", "nowhere")), (None, None));
    assert_eq!(delay("chicago", "sydney").as_deref(), Some("3ms"));
    let said = "coordinates are delays of 3 links: the great circle between both ends, at two thirds of the speed of light; 1 link without, since an end has no coordinates";
    assert!(notes.iter().any(|note| note == said), "{notes:?}");
}

/// Two edges between the same nodes, one each way, were two parallel links.
#[test]
fn directed_edges_are_directions_of_a_link() {
    let edge = |a: &str, b: &str, rate: &str, more: &str| {
        format!("<edge source='{a}' target='{b}'{more}><data key='r'>{rate}</data><data key='d'>2ms</data></edge>\n")
    };
    let graph = |kind: &str, edges: &[String]| {
        let nodes = "<node id='a'/><node id='b'/><node id='c'/>";
        let text = format!(
            "<graphml><key id='r' attr.name='rate'/><key id='d' attr.name='delay'/><graph edgedefault='{kind}'>{nodes}\n{}</graph></graphml>",
            edges.concat()
        );
        let (made, notes) = imported("x.graphml", &text);
        let links = made.lines().filter(|line| line.contains("between") && !line.contains("h-"));
        (links.map(|line| line.trim().to_owned()).collect::<Vec<_>>(), notes.join("\n"))
    };
    let both = [
        edge("a", "b", "1Gbit", ""),
        edge("b", "c", "1Gbit", ""),
        edge("b", "a", "2Gbit", ""),
        edge("c", "b", "1Gbit", ""),
    ];
    let (links, notes) = graph("directed", &both);
    let expected = [
        "- { between: [a, b], rate: 1Gbit, delay: 2ms, back: { rate: 2Gbit } }",
        "- { between: [b, c], rate: 1Gbit, delay: 2ms }",
    ];
    assert_eq!(links, expected);
    assert!(notes.contains("4: edges of both directions are one link, with `back:` where the second one differs (b -> a, c -> b; also in line 5)"), "{notes}");
    assert!(!notes.contains("none back"), "{notes}");
    // Parallel ones stay so, and one alone carries both ways.
    let parallel = [
        edge("a", "b", "1Gbit", ""),
        edge("a", "b", "3Gbit", ""),
        edge("b", "a", "1Gbit", ""),
        edge("b", "c", "1Gbit", " directed='false'"),
    ];
    let (links, notes) = graph("directed", &parallel);
    let expected = [
        "- { between: [a, b], rate: 1Gbit, delay: 2ms }",
        "- { between: [a, b], rate: 3Gbit, delay: 2ms }",
        "- { between: [b, c], rate: 1Gbit, delay: 2ms }",
    ];
    assert_eq!(links, expected);
    assert!(
        notes.contains(
            "3: directions of edges that have none back: a link carries both ways, and does the same in both (a -> b)"
        ),
        "{notes}"
    );
    // Without a direction, two edges are two links.
    let (links, notes) = graph("undirected", &both);
    assert_eq!(links.len(), 4);
    assert!(!notes.contains("direction"), "{notes}");
}

#[test]
fn a_program_of_mininet_is_run_as_far_as_it_makes_a_network() {
    let text = "\
from mininet.topo import Topo; from lab import nobody

class MyTopo( Topo ):
    \"\"\"addHost('not', 'this')\"\"\"
    def build( self ):
        # Add hosts and switches: addHost('nor this')
        leftHost = self.addHost( 'h1', ip='10.0.0.1' )
        rightHost = self.addHost('h2')
        linkopts = dict(bw=10, delay='5ms', loss=2,
                        max_queue_size=1000, use_htb=True)
        self.s3 = self.addSwitch( 's3' )  # a comment
        self.addSwitch(\"s4\", dpid='4')
        self.addLink( leftHost, self.s3, **linkopts )
        self.addLink( self.s3, 's4', bw=1.5, delay=100 )
        self.addLink('s4', rightHost, 1, 2, max_queue_size=7)
        for i in range(2):
            self.addLink(rightHost, self.addHost('x%d' % i))
        self.addLink(leftHost, nobody)

topos = { 'mytopo': ( lambda: MyTopo() ) }
";
    let (made, notes) = imported("mytopo.py", text);
    let expected = "  h1: { kind: host, ipv4: \"10.0.0.1/8\" }\n  h2: { kind: host, forward: true }\n  s3: switch\n  s4: switch\n  x0: host\n  x1: host\nlinks:\n  \
                    - { between: [h1, s3], rate: 10Mbit, delay: 5ms, loss: 2%, queue: 1000 }\n  \
                    - { between: [s3, s4], rate: 1.5Mbit, delay: 100us }\n  - { between: [s4, h2] }\n  \
                    - { between: [h2, x0] }\n  - { between: [h2, x1] }\n";
    assert_eq!(made, expected.replace("10.0.0.1/8", "10.0.0.1"));
    let notes = notes.join("\n");
    for expected in [
        "12: `dpid` of switches: they are known by their names (s4)",
        "15: the queue of a link without a rate",
        "18: `self.addLink(leftHost, nobody)`: the link is left out, since its second end is no node that the file adds before",
    ] {
        assert!(notes.contains(expected), "{expected}\n{notes}");
    }
}

#[test]
fn addresses_and_sysctls_of_hosts_are_kept_if_they_fit() {
    let text = |ip: &str| {
        format!(
            "net.addHost('a', ip='{ip}/24', mac='02:00:00:00:00:07')\nfrom lab import address; net.addHost('b', ip=address)\nnet.addSwitch('s')\nnet.addLink('a', 's')\nnet.addLink('b', 's')\n"
        )
    };
    let (made, notes) = imported("x.py", &text("10.0.7.1"));
    assert!(
        made.starts_with("  a: { kind: host, ipv4: \"10.0.7.1/24\", mac: \"02:00:00:00:00:07\" }\n  b: host\n"),
        "{made}"
    );
    assert!(notes.join("\n").contains("addresses of hosts that are not known here"), "{notes:?}");
    // What `b` has by itself.
    let (made, notes) = imported("x.py", &text("10.0.0.2"));
    assert!(made.starts_with("  a: host\n"), "{made}");
    assert!(notes.join("\n").contains("of `a`, `ipv4: \"10.0.0.2/24\"`, `mac:"), "{notes:?}");
    let clab = "name: x\ntopology:\n  nodes:\n    a: { kind: linux, sysctls: { net.ipv4.ip_forward: 1 } }\n    b: { kind: linux, sysctls: { kernel.x: 1 } }\n  \
                links: [{ endpoints: ['a:eth1', 'b:eth1'] }]\n";
    let (made, notes) = imported("x.clab.yml", clab);
    assert!(made.contains("  a: { kind: host, sysctls: { \"net.ipv4.ip_forward\": \"1\" } }\n  b: host\n"), "{made}");
    assert!(notes.join("\n").contains("`sysctls` of nodes: write them"), "{notes:?}");
}

#[test]
fn comments_among_arguments_are_left_out() {
    let text = "\
a = net.addHost('h1'); b = net.addNode('h2')
net.addLink(a, b, bw=10, # core, slow
   delay=\"5ms\" # (of \"copper\"
   # and of it more,
   , loss=1,
   **dict)
";
    let (made, _) = imported("x.py", text);
    assert_eq!(made, "  h1: host\n  h2: host\nlinks:\n  - { between: [h1, h2], rate: 10Mbit, delay: 5ms, loss: 1% }\n");
    let loops = "for i in range(2):\n    net.addHost('h%d' % i)\n    net.addLink('h%d' % i, 's1')\n";
    let error = import(&Source { name: "x.py".to_owned(), text: loops.to_owned() }).expect_err("it has no network");
    assert!(error.problems()[0].hint.contains("line 3: `net.addLink"), "{error}");
}

#[test]
fn what_is_no_network_is_refused_with_its_line() {
    for (name, text, expected) in [
        ("a.clab.yml", "name: x\n", "expected a topology of containerlab"),
        ("a.clab.yml", "topology: { nodes: {} }\n", "there is no network in this file"),
        (
            "a.clab.yml",
            "topology: { nodes: { a: {} }, links: [{ endpoints: ['a:e1', 'b:e1'] }] }\n",
            "there is no node `b`",
        ),
        ("a.clab.yml", "topology: [\n", ""),
        ("a.graphml", "<graphml><graph><node></graph>", "this is no XML"),
        ("a.graphml", "<!DOCTYPE x [<!ENTITY a 'b'>]><graphml/>", "this is no XML"),
        ("a.py", "print('hello')\n", "there is no network in this file"),
        ("a.graphml", "<graphml/>", "there is no network in this file"),
    ] {
        let error = import(&Source { name: name.to_owned(), text: text.to_owned() }).expect_err(text);
        let said: Vec<&str> = error.problems().iter().map(|problem| problem.message.as_str()).collect();
        assert!(said.iter().any(|said| said.contains(expected)), "{text}: {said:?}");
    }
}

/// Who hands another tool's file to a command that wants a fabric file hears what makes one of it.
#[test]
fn another_tools_file_is_to_be_imported() {
    let clab = "name: x\ntopology:\n  nodes: { a: {} }\n";
    for (name, text, line, message, hint) in [
        ("my/x.py", "net = 1\n", 1, "this is a program of Python", "`heddle import my/x.py` makes x.fabric.yaml of it"),
        ("x", "#!/usr/bin/env python3\n", 1, "this is a program of Python", "`heddle import x` makes x.fabric.yaml"),
        ("x.clab.yml", clab, 2, "this is a topology of containerlab", "`heddle import x.clab.yml` makes x.fabric.yaml"),
        ("x.graphml", "<graphml/>", 1, "this is XML", "`heddle import x.graphml` makes x.fabric.yaml of it"),
    ] {
        let error = parse(&Source { name: name.to_owned(), text: text.to_owned() }).expect_err(name);
        let [only] = error.problems() else { panic!("{error:?}") };
        assert!(only.message.starts_with(message) && only.hint.starts_with(hint) && only.line == line, "{only:?}");
    }
}

/// It was said to be no topology of containerlab.
#[test]
fn a_fabric_file_is_not_to_be_imported() {
    let nodes = "nodes: { h1: host, h2: host }\nlinks: [{ between: [h1, h2] }]\n";
    for (name, text, line) in [
        ("my.fabric.yaml", format!("name: x\n{nodes}"), 2),
        ("my.yaml", nodes.to_owned(), 1),
        ("my.fabric.yaml", "topology: { fat-tree: { k: 4 } }\n".to_owned(), 1),
    ] {
        let error = import(&Source { name: name.to_owned(), text: text.clone() }).expect_err(name);
        let [only] = error.problems() else { panic!("{error:?}") };
        assert_eq!((only.line, only.message.as_str()), (line, "this is a fabric file already"), "{text}");
        assert!(only.hint.starts_with(&format!("`heddle up {name}`")), "{only:?}");
    }
}

/// Who writes a fabric file and puts its nodes below `topology:` has none of containerlab's.
#[test]
fn nodes_below_topology_are_to_stand_at_the_top_level() {
    let links = "links: [{ between: [h1, s1] }]";
    for text in [
        "name: x\ntopology: { nodes: { h1: host, s1: switch } }\n".to_owned(),
        "name: x\ntopology: { nodes: { h1: {}, s1: { kind: switch } } }\n".to_owned(),
        "name: x\ntopology: { nodes: { h1: {} } }\nservices: { web: {} }\n".to_owned(),
        format!("name: x\ntopology: {{ nodes: {{ h1: {{}} }}, {links} }}\n"),
    ] {
        let error = parse(&Source { name: "x.fabric.yaml".to_owned(), text: text.clone() }).expect_err("it is none");
        let [only] = error.problems() else { panic!("{error:?}") };
        assert!(only.message.starts_with("`nodes:` and `links:` stand at the top level"), "{text}: {only:?}");
        assert!(only.line == 2 && only.hint.contains("nodes: { h1: host, s1: switch }"), "{only:?}");
        assert!(only.hint.contains(links), "{only:?}");
    }
    for text in ["topology: explicit\n", "topology: { explicit: {} }\n"] {
        let error = parse(&Source { name: "x.fabric.yaml".to_owned(), text: text.to_owned() }).expect_err("it is none");
        let hint = &error.problems()[0].hint;
        assert!(hint.starts_with("leave `topology` out and write `nodes: {") && hint.contains(links), "{hint}");
    }
}

#[test]
fn a_graph_has_few_attributes_and_namespaces() {
    let many = |count: usize, one: &dyn Fn(usize) -> String| (0..count).map(one).collect::<String>();
    let attributes = |count| many(count, &|n| format!(" a{n}='{n}>'"));
    let graph = |root: &str, more: &str| {
        format!(
            "<!-- {} --><graphml{root}><graph><![CDATA[<a {}>]]>{more}<node id='a'/><node id='b'/><edge source='a' target='b'/></graph></graphml>",
            attributes(300),
            attributes(300)
        )
    };
    let read = |text: String| import(&Source { name: "a.graphml".to_owned(), text });
    let said = |text: String| read(text).expect_err("too many").problems()[0].message.clone();
    let namespaces = |count| many(count, &|n| format!(" xmlns:n{n}='urn:{n}'"));
    assert!(read(graph(&attributes(256), "")).is_ok());
    assert_eq!(said(graph(&attributes(257), "")), "more than 256 attributes of an element");
    assert!(read(graph(&namespaces(64), "")).is_ok());
    assert_eq!(said(graph(&namespaces(65), "")), "more than 64 namespaces of the document");
    // Elements that have one each, as some editors write them, the same one and others.
    let each = |count, urn: &dyn Fn(usize) -> usize| many(count, &|n| format!("<y:x xmlns:y='urn:{}'/>", urn(n)));
    assert!(read(graph("", &each(1_000, &|_| 1))).is_ok());
    assert_eq!(said(graph("", &each(1_000, &|n| n))), "more than 64 namespaces of the document");
}

#[test]
fn the_format_is_known_by_name_or_by_how_it_begins() {
    let of = |name: &str, text: &str| format(&Source { name: name.to_owned(), text: text.to_owned() });
    assert_eq!(of("x.GraphML", ""), Format::GraphMl);
    assert_eq!(of("-", "  <graphml>"), Format::GraphMl);
    assert_eq!(of("-", "net.addLink(a, b)"), Format::Mininet);
    assert_eq!(of("x.yml", "name: net.addLink("), Format::Containerlab);
    assert_eq!(of("-", "topology: {}"), Format::Containerlab);
}

proptest::proptest! {
    #[test]
    fn any_text_is_a_file_or_an_error(text in "(?s)[ -~\n<>&'\"(){}\\[\\]=,#:]{0,300}", end in "\\.(py|graphml|clab\\.yml)") {
        let _ = import(&Source { name: format!("x{end}"), text });
    }

    #[test]
    fn any_calls_are_a_network_or_an_error(calls in proptest::collection::vec("(a = |)self.add(Host|Switch|Link)\\(('a'|'b'|a|\"1\"),? ?('b'|a)?(, bw=[0-9x.]{0,3})?\\)?", 0..12)) {
        if let Ok(imported) = import(&Source { name: "x.py".to_owned(), text: calls.join("\n") }) {
            let made = Source { name: "made".to_owned(), text: imported.text };
            proptest::prop_assert!(parse(&made).is_ok(), "{}", made.text);
        }
    }
}
