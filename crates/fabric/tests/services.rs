//! Services in a file.

use crate::network;

const NETWORK: &str = "\
name: net
nodes: { h1: host, h2: host, h3: { kind: host, ipv4: 10.9.9.9 }, s1: switch }
links:
  - between: [h1, s1]
  - between: [h2, s1]
  - between: [h3, s1]
";

fn problems(service: &str) -> Vec<String> {
    network::problems(NETWORK, &format!("services:\n  {service}\n"))
}

#[test]
fn a_service_is_addresses_and_servers() {
    let more = "\
services:
  web:
    address: ['10.1.0.80:80', '[fd68:6564:646c::80]:80']
    servers: [h2, { host: h3, port: 8080, weight: 3, max-connections: 100 }]
    scheduler: wlc
    slow-start: 10s
  dns: { address: 10.1.0.53:53, protocol: udp, servers: [h2], forward: dr }
  far: { address: 10.1.0.54:53, protocol: udp, servers: [h2], forward: tunnel }
  full: { address: 10.1.0.81:80, servers: [h2], forward: full-nat, source: '10.1.0.200-10.1.0.203:5000-6000', at: [h1, h3], half-open: 16, vrrp: { router: 7, interval: 100ms, partners: h1 } }
";
    let fabric = network::read(NETWORK, more).expect("it is a file");
    let json = serde_json::to_value(&fabric).expect("it is data");
    insta::assert_json_snapshot!(json["services"]);
    let aliases = fabric.aliases();
    assert_eq!(aliases.len(), 6);
    assert!(aliases.iter().all(|alias| alias.mac.is_some()));
    // Whatever comes and goes, what hosts know of it holds.
    assert_eq!(aliases[0].mac, aliases[2].mac);
}

#[test]
fn what_cannot_be_is_said_with_its_place() {
    let all: Vec<Vec<String>> = [
        "h1: { address: 10.1.0.80:80, servers: [h2] }",
        "web: { address: 10.1.0.80, servers: [h2] }",
        "web: { address: 10.1.0.80:0, servers: [h2] }",
        "web: { address: somewhere, servers: [h2] }",
        "web: { address: 10.9.9.9:80, servers: [h2] }",
        "web: { address: 192.168.0.1:80, servers: [h2] }",
        "web: { address: ['10.1.0.80:80', '10.1.0.80:80'], servers: [h2] }",
        "web: { address: 10.1.0.80:80, servers: [] }",
        "web: { address: 10.1.0.80:80, servers: [h9] }",
        "web: { address: 10.1.0.80:80, servers: [s1] }",
        "web: { address: 10.1.0.80:80, servers: [h2, h2] }",
        "web: { address: 10.1.0.80:80, servers: [h2], scheduler: fastest }",
        "web: { address: 10.1.0.80:80, servers: [{ host: h2, weight: 70000 }] }",
        "web: { address: 10.1.0.80:80, servers: [{ host: h2, port: 81 }], forward: dr }",
        "web: { address: 10.1.0.80:80, servers: [{ host: h2, port: 81 }], forward: tunnel }",
        "web: { address: '[fd68:6564:646c::80]:80', servers: [h2], forward: tunnel }\nmtu: 1300",
        "web: { address: 10.1.0.80:80, servers: [h2], forward: ipip }",
        "web: { address: 10.1.0.80:80, servers: [h2] }\n  other: { address: 10.1.0.80:80, servers: [h3] }",
        "web: { address: 10.1.0.80:80, servers: [h2], kernel: always }",
        "web: { address: 10.1.0.80:80, servers: [h2], kernel: yes, forward: tunnel }",
        "web: { address: 10.1.0.80:80, servers: [h2], kernel: yes, scheduler: learned }",
        "web: { address: 10.1.0.80:80 }",
        "localhost: { address: 10.1.0.80:80, servers: [h2] }",
        "web: { address: 10.255.255.255:80, servers: [h2] }",
        "web: { address: 10.0.0.0:80, servers: [h2] }",
        "web: { address: 10.1.0.80:80, protocol: udp, servers: [h2], health: {} }",
        "web: { address: 10.1.0.80:80, servers: [h2], health: { path: x } }",
        "web: { address: 10.1.0.80:80, servers: [h2], health: { check: https, status: 20, path: 'a b' } }",
        "web: { address: 10.1.0.80:80, servers: [h2], health: { check: tls, ca: none, host: 'a b', send: x } }",
        "web: { address: 10.1.0.80:80, servers: [h2], health: { check: http, status: 300-200, run: 'true' } }",
        "web: { address: 10.1.0.80:80, servers: [h2], health: { check: tcp, send: '0x123', expect: 0xzz } }",
        "web: { address: 10.1.0.80:80, servers: [h2], health: { check: dns } }",
        "web: { address: 10.1.0.80:80, servers: [h2], health: { check: dns, name: 'a b\u{fc}', type: mx, answer: 10.0.0.1 } }",
        "web: { address: 10.1.0.80:80, servers: [h2], health: { check: dns, name: a, answer: somewhere } }",
        "web: { address: 10.1.0.80:80, servers: [h2], health: { check: command } }",
        "web: { address: 10.1.0.80:80, servers: [h2], health: { check: grpc, run: [], interval: 1us } }",
        "web: { address: 10.1.0.80:80, servers: [h2], health: { check: ping } }",
        "web: { address: 10.1.0.80:80, servers: [h2], allow: [10.0.0.1/8], deny: [somewhere, 10.0.0.0/40] }",
        "web: { address: 10.1.0.80:80, servers: [h2], allow: [] }",
        "web: { address: 10.1.0.80:80, servers: [h2], countries: { file: countries.csv } }",
        "web: { address: 10.1.0.80:80, servers: [h2], countries: { deny: [Germany] } }",
        "web: { address: 10.1.0.80:80, servers: [h2], agent: { port: 5555, every: 1us } }",
        "web: { address: 10.1.0.80:80, servers: [h2], at: [h1, h1, h9, s1] }",
        "web: { address: 10.1.0.80:80, servers: [h2], forward: full-nat, at: h1 }\n  other: { address: 10.1.0.80:81, servers: [h2] }",
        "web: { address: 10.1.0.80:80, servers: [h2], vrrp: { router: 0, interval: 55ms, partners: h9 } }",
        "web: { address: 10.1.0.80:80, servers: [h2], vrrp: { router: 7 } }\n  other: { address: 10.1.0.81:80, servers: [h2], forward: full-nat, source: 10.1.0.200:5000, at: [h1, h3], vrrp: { router: 7, interval: 50s } }",
        "web: { address: 10.1.0.80:80, servers: [h2], forward: full-nat, at: h1, vrrp: { router: 7 } }",
        "web: { address: 10.1.0.80:80, servers: [h2], source: 10.1.0.200 }",
        "web: { address: 10.1.0.80:80, servers: [h2], forward: full-nat, source: [10.1.0.200, 10.1.0.201, 'fd68:6564:646c::200'] }",
        "web: { address: 10.1.0.80:80, servers: [h2], forward: full-nat, source: [192.168.0.1, 10.9.9.0-10.9.9.10, nowhere] }",
        "web: { address: 10.1.0.80:80, servers: [h2], forward: full-nat, source: 10.1.0.200 }\n  other: { address: 10.1.0.200:80, servers: [h3], forward: full-nat, source: 10.1.0.80 }",
    ]
    .into_iter()
    .map(problems)
    .collect();
    insta::assert_debug_snapshot!(all);
}

/// Each kind of check, as it is written and as it is read.
#[test]
fn servers_are_probed_in_many_ways() {
    use balance::health::Check;
    let checks = [
        ("tcp", "{}"),
        ("tcp", "{ send: \"PING\\r\\n\", expect: '+PONG' }"),
        ("tls", "{ check: tls, ca: certificates/ca.pem, host: web.example }"),
        ("http", "{ check: http, path: '/health?all', status: 200, contains: fine }"),
        ("https", "{ check: https, ca: none, status: 200-299 }"),
        ("udp", "{ check: udp, send: '0x00ff', expect: '' }"),
        ("dns", "{ check: dns, name: www.example, type: aaaa, answer: 'fd68:6564:646c::7' }"),
        ("grpc", "{ check: grpc, service: web }"),
        ("command", "{ run: 'test -e /tmp/well', interval: 1s, rise: 1 }"),
        ("command", "{ run: [test, -e, /tmp/well] }"),
    ];
    let read: Vec<Check> = checks
        .into_iter()
        .map(|(name, health)| {
            let service = format!("services:\n  web: {{ address: 10.1.0.80:80, servers: [h2], health: {health} }}\n");
            let fabric = network::read(NETWORK, &service).expect(health);
            let spec = fabric.services[0].health.clone().expect("it is there");
            assert_eq!(spec.check.name(), name);
            spec.check
        })
        .collect();
    insta::assert_debug_snapshot!(read);
}

/// Two subnets and a router between them; h4 is in one subnet of both parts' switches.
const ROUTED: &str = "\
name: routed
nodes:
  h1: { kind: host, ipv4: 10.0.1.1/24, routes: [default via 10.0.1.254] }
  h2: { kind: host, ipv4: 10.0.2.1/24, routes: [default via 10.0.2.254] }
  h3: { kind: host, ipv4: 10.0.2.3/24 }
  h4: { kind: host, ipv4: 10.0.4.1/24 }
  h5: { kind: host, interfaces: { s1: { ipv4: 10.0.1.5/24 }, s2: { ipv4: 10.0.2.5/24 } } }
  r1: { kind: host, forward: true, interfaces: { s1: { ipv4: 10.0.1.254/24 }, s2: { ipv4: 10.0.2.254/24 } } }
  s1: switch
  s2: switch
links:
  - between: [h1, s1]
  - between: [h2, s2]
  - between: [h3, s2]
  - between: [h4, s2]
  - between: [h5, s1]
  - between: [h5, s2]
  - between: [r1, s1]
  - between: [r1, s2]
";

/// A service goes to its servers over switches; where only routers lead there, or no answer would come back, it is said what to do.
#[test]
fn servers_that_packets_cannot_reach_or_leave_are_refused() {
    let with = |service: &str| format!("services:\n  web: {{ {service} }}\n");
    let fine = [
        "address: 10.0.2.80:80, servers: [h2, h3]",
        "address: 10.0.2.80:80, servers: [h2, h3], forward: dr",
        "address: 10.0.2.80:80, servers: [h2, h5.eth1], forward: tunnel",
        "address: 10.0.1.80:80, servers: [h1, h5]",
        "address: ['10.0.1.80:80', '[fd68:6564:646c:1::80]:80'], servers: [h1]",
        "address: 10.0.2.80:80, servers: [h2], forward: full-nat, at: [h3, r1.eth1]",
        // The balancer's own addresses may be of the servers' subnet.
        "address: 10.0.2.80:80, servers: [h4], forward: full-nat, source: 10.0.4.200",
    ];
    for service in fine {
        assert!(
            network::read(ROUTED, &with(service)).is_ok(),
            "{service}\n{:?}",
            network::problems(ROUTED, &with(service))
        );
    }
    for (service, expected) in [
        (
            "address: 10.1.0.80:80, servers: [h2]",
            "no host could reach 10.1.0.80: it is not of the hosts' network (take an address of 10.0.1.0/24 or 10.0.2.0/24 or 10.0.4.0/24",
        ),
        ("address: 10.0.2.255:80, servers: [h2]", "no host could reach 10.0.2.255"),
        (
            "address: 10.0.1.80:80, servers: [h1, h2], forward: dr",
            "only routers lead from 10.0.1.0/24 to `h2`, and packets for 10.0.1.80 go to their servers over switches (give the service an address of 10.0.2.0/24",
        ),
        (
            "address: 10.0.2.80:80, servers: [h2, h5]",
            "to `h5`, and packets for 10.0.2.80 go to their servers over switches (name its interface there: `h5.eth1`",
        ),
        (
            "address: 10.0.2.80:80, servers: [h2, h4]",
            "`h4` has no route to 10.0.2.0/24, whose hosts find the service: they get no answers",
        ),
        ("address: 10.0.2.80:80, servers: [h2, h4], forward: dr", "`h4` has no route to 10.0.2.0/24"),
        (
            "address: 10.0.2.80:80, servers: [h4], forward: full-nat",
            "`h4` sees the service's connections come from 10.0.2.80, which is in no subnet of its own",
        ),
        (
            "address: 10.0.2.80:80, servers: [h2], forward: full-nat, at: [h3, h1]",
            "only routers lead from 10.0.2.0/24 to `h1`, and packets for 10.0.2.80 go to their balancers over switches",
        ),
    ] {
        let said = network::problems(ROUTED, &with(service)).join("\n");
        assert!(said.contains(expected), "{service}\n{said}");
    }
}
