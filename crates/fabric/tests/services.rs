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
";
    let fabric = network::read(NETWORK, more).expect("it is a file");
    let json = serde_json::to_value(&fabric).expect("it is data");
    insta::assert_json_snapshot!(json["services"]);
    let aliases = fabric.aliases();
    assert_eq!(aliases.len(), 3);
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
        "web: { address: 10.1.0.80:80, servers: [h2] }\n  other: { address: 10.1.0.80:80, servers: [h3] }",
        "web: { address: 10.1.0.80:80 }",
        "localhost: { address: 10.1.0.80:80, servers: [h2] }",
        "web: { address: 10.255.255.255:80, servers: [h2] }",
        "web: { address: 10.0.0.0:80, servers: [h2] }",
        "web: { address: 10.1.0.80:80, protocol: udp, servers: [h2], health: {} }",
        "web: { address: 10.1.0.80:80, servers: [h2], health: { path: x } }",
        "web: { address: 10.1.0.80:80, servers: [h2], agent: { port: 5555, every: 1us } }",
    ]
    .into_iter()
    .map(problems)
    .collect();
    insta::assert_debug_snapshot!(all);
}
