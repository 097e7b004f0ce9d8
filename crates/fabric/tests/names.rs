//! Names in a file.

use crate::network;

const NETWORK: &str = "\
name: net
nodes: { h1: host, h2: host, h3: host, s1: switch }
links:
  - between: [h1, s1]
  - between: [h2, s1]
  - between: [h3, s1]
services:
  east: { address: ['10.1.0.80:80', '10.1.0.80:81', '[fd68:6564:646c::80]:80'], servers: [h2] }
  west: { address: '10.1.0.81:80', servers: [h3], forward: full-nat, source: '10.1.0.200-10.1.0.203' }
";

#[test]
fn a_name_is_where_it_is_asked_for_and_its_sites() {
    let more = "\
names:
  WWW.example.net.:
    address: [10.0.0.53, 'fd68:6564:646c::53']
    ttl: 5s
    shed-load: 70 %
    sites:
      east: { service: east, weight: 2, clients: [10.1.0.0/16, 'fd68::/16'] }
      west: { service: west, backup: true }
  api: { address: 10.0.0.53, sites: { only: { service: west } } }
";
    let fabric = network::read(NETWORK, more).expect("it is a file");
    let json = serde_json::to_value(&fabric).expect("it is data");
    insta::assert_json_snapshot!(json["names"]);
    // Two of services, one of each address and port, the balancer's own, and the name servers'.
    let aliases = fabric.aliases();
    assert_eq!(aliases.len(), 5 + 3);
    assert!(aliases.iter().all(|alias| alias.mac == aliases[0].mac));
}

#[test]
fn what_cannot_be_is_said_with_its_place() {
    let all: Vec<Vec<String>> = [
        "www.example: { sites: { a: { service: east } } }",
        "www.example: { address: 10.0.0.53 }",
        "www.example: { address: 10.0.0.53, sites: {} }",
        "www.example: { address: 10.0.0.53:53, sites: { a: { service: east } } }",
        "www.example: { address: 192.168.0.53, sites: { a: { service: east } } }",
        "www.example: { address: 10.0.0.2, sites: { a: { service: east } } }",
        "www.example: { address: 10.1.0.81, sites: { a: { service: east } } }",
        "www.example: { address: 10.1.0.201, sites: { a: { service: east } } }",
        "www.example: { address: [10.0.0.53, 10.0.0.53], sites: { a: { service: east } } }",
        "www.example: { address: 10.0.0.53, sites: { a: { service: eats } } }",
        "www.example: { address: 10.0.0.53, sites: { a: { service: north } } }",
        "www.example: { address: 10.0.0.53, sites: { a: { service: east }, b: { service: east } } }",
        "www.example: { address: 10.0.0.53, sites: { a: { service: east, weight: 0 } } }",
        "www.example: { address: 10.0.0.53, sites: { a: { service: east, weight: 70000 } } }",
        "www.example: { address: 10.0.0.53, sites: { a: { service: east, backup: yes } } }",
        "www.example: { address: 10.0.0.53, sites: { a: { service: east, clients: [10.0.0.1/8] } } }",
        "www.example: { address: 10.0.0.53, ttl: 1500ms, sites: { a: { service: east } } }",
        "www.example: { address: 10.0.0.53, shed-load: 120 %, sites: { a: { service: east } } }",
        "www.example: { address: 10.0.0.53, shed: 50 %, sites: { a: { service: east } } }",
        "h1: { address: 10.0.0.53, sites: { a: { service: east } } }",
        "East: { address: 10.0.0.53, sites: { a: { service: east } } }",
        "localhost: { address: 10.0.0.53, sites: { a: { service: east } } }",
        "'a..b': { address: 10.0.0.53, sites: { a: { service: east } } }",
        "a.b: { address: 10.0.0.53, sites: { a: { service: east } } }\n  A.b.: { address: 10.0.0.53, sites: { a: { service: west } } }",
        "-a.b: { address: 10.0.0.53, sites: { a: { service: east } } }",
        "a.b-: { address: 10.0.0.53, sites: { a: { service: east } } }",
        "a.b: { address: 10.0.0.53, ttl: 5, sites: { a: { service: east } } }",
        "a.b: { address: 10.0.0.53, sites: [{ service: east }, { service: west }] }",
        "a.b: { address: 10.0.0.53, sites: { a: { service: east, backup: Off } } }",
        "a.b: { address: 10.0.0.53, response-limit: 2000000, sites: { a: { service: east } } }",
        // Resolvers ask three of four.
        "a.b: { address: [10.0.0.51, 10.0.0.52], sites: { a: { service: east } } }\n  a.c: { address: [10.0.0.52, 10.0.0.53, 'fd68:6564:646c::53'], sites: { a: { service: east } } }",
        // At 10.0.0.53 there is nothing below a.b.
        "a.b: { address: 10.0.0.53, sites: { a: { service: east } } }\n  x.A.b: { address: 10.0.0.54, sites: { a: { service: west } } }",
        "x.a.b: { address: 10.0.0.53, sites: { a: { service: east } } }\n  a.b: { address: [10.0.0.53, 10.0.0.54], sites: { a: { service: west } } }",
    ]
    .into_iter()
    .map(|name| network::problems(NETWORK, &format!("names:\n  {name}\n")))
    .collect();
    insta::assert_debug_snapshot!(all);
}

/// What is wrong with a service is said once.
#[test]
fn a_service_that_cannot_be_read_is_no_unknown_one() {
    let network = NETWORK.replace("servers: [h3]", "servers: [h9]");
    let said = network::problems(&network, "names:\n  a.b: { address: 10.0.0.53, sites: { a: { service: west } } }\n");
    assert!(said.len() == 1 && said[0].contains("`h9` is not a host"), "{said:?}");
}

/// Whoever asks for a name gets an answer wherever he asks: what is below another one may be known at more addresses than that.
#[test]
fn names_below_each_other_are_known_wherever_the_upper_one_is() {
    let more = "names:\n  a.b: { address: 10.0.0.53, sites: { a: { service: east } } }\n  \
                x.a.b: { address: [10.0.0.54, 10.0.0.53], sites: { a: { service: west } } }\n  \
                xa.b: { address: 10.0.0.55, sites: { a: { service: west } } }\n";
    assert!(network::read(NETWORK, more).is_ok());
}

/// A host with an uplink asks the name server behind that, too; one whose file says whom it asks asks nobody else.
#[test]
fn hosts_ask_as_many_name_servers_as_resolvers_do() {
    let two = "names:\n  a.b: { address: [10.0.0.53, 10.0.0.54, 10.0.0.55], sites: { a: { service: east } } }\n";
    let with = |host: &str| {
        let network = NETWORK.replace("h1: host", &format!("h1: {{ kind: host, {host} }}"));
        network::problems(&network, two)
    };
    let said = with("uplink: nat");
    assert!(said.len() == 1 && said[0].contains("`h1` would not ask 10.0.0.55"), "{said:?}");
    assert!(network::read(NETWORK, two).is_ok());
    let own = "uplink: nat, files: { /etc/resolv.conf: 'nameserver 10.0.0.55' }";
    let network = NETWORK.replace("h1: host", &format!("h1: {{ kind: host, {own} }}"));
    assert!(network::read(&network, two).is_ok());
}
