//! Requests to a service in a file.

use fabric::RequestLoad;
use machine::Span;
use workload::service::Arrivals;

use crate::network;

const NETWORK: &str = "\
name: net
nodes: { c1: host, c2: host, h1: host, h2: host, s1: switch }
links:
  - between: [c1, s1]
  - between: [c2, s1]
  - between: [h1, s1]
  - between: [h2, s1]
services:
  web: { address: 10.1.0.80:80, servers: [h1, h2] }
  dns: { address: 10.1.0.53:53, protocol: udp, servers: [h2] }
";

fn experiment(experiment: &str) -> String {
    format!("experiments:\n  a:\n    {}\n", experiment.replace('\n', "\n    "))
}

fn load(text: &str) -> RequestLoad {
    let fabric = network::read(NETWORK, &experiment(text)).unwrap_or_else(|error| panic!("{error:?}"));
    fabric.experiments[0]
        .work
        .traffic()
        .and_then(|traffic| traffic.requests.clone())
        .map(|load| *load)
        .expect("there are requests")
}

#[test]
fn what_is_not_said_is_as_the_programs_have_it() {
    let load = load("traffic: { requests: { to: web } }");
    assert_eq!((load.from.len(), load.clients, load.rate_milli, load.new_connections), (2, 10, None, false));
    assert_eq!((load.timeout, load.servers.len(), load.servers[0].spec.queue_max), (Span::from_secs(10), 2, 1_000));
}

#[test]
fn clients_and_requests_are_divided_among_their_hosts() {
    let of = |text: &str| {
        let load = load(text);
        [0, 1].map(|host| load.clients_of(host, Span::ZERO, Span::from_secs(1)).map(|spec| spec.arrivals))
    };
    let [first, second] = of("traffic: { requests: { to: web, clients: 5 } }");
    let clients = |arrivals: Option<Arrivals>| match arrivals {
        Some(Arrivals::Closed { clients, .. }) => clients,
        other => panic!("{other:?}"),
    };
    assert_eq!((clients(first), clients(second)), (3, 2));
    assert_eq!(of("traffic: { requests: { to: web, clients: 1 } }")[1], None);
    let rates = of("traffic: { requests: { to: web, rate: 0.003/s, poisson: true } }").map(|arrivals| match arrivals {
        Some(Arrivals::Open { rate_milli, is_poisson: true, .. }) => rate_milli,
        other => panic!("{other:?}"),
    });
    assert_eq!(rates, [2, 1]);
}

#[test]
fn one_server_may_do_something_else() {
    let load = load(
        "traffic: { requests: { to: web, from: [c2], path: /work, servers: { duration: exp:2ms, at-a-time: 1 }, by-server: { h2: { duration: 10ms, slow: x2, from: 1s } } } }",
    );
    let [first, second] = [0, 1].map(|number| load.servers[number].spec);
    assert_eq!((first.at_a_time, second.at_a_time, load.from.len()), (Some(1), Some(1), 1));
    assert_ne!(first.duration, second.duration);
    assert_eq!((first.faults.slow_percent, second.faults.slow_percent), (100, 200));
    assert_eq!(second.faults.from, Span::from_secs(1));
}

/// How packets come to services that the experiment does not ask is not varied where those cannot have it so.
#[test]
fn only_the_service_that_is_asked_has_to_fit_what_is_varied() {
    let more = "  boxed: { address: 10.1.0.81:80, servers: [h1], forward: full-nat, at: [c2] }\n  moved: { address: 10.1.0.82:80, servers: [{ host: h1, port: 81 }] }\n";
    let network = format!("{NETWORK}{more}");
    let vary = |to: &str| {
        experiment(&format!(
            "traffic: {{ requests: {{ to: {to}, from: [c1] }} }}\nvary: {{ services.forward: [nat, dr] }}"
        ))
    };
    let fabric = network::read(&network, &vary("web")).unwrap_or_else(|error| panic!("{error:?}"));
    let cases = fabric.experiments[0].cases();
    let of_last = fabric.with(&cases.last().expect("there are two").overrides);
    let forward: Vec<&str> = of_last.services.iter().map(|service| service.forwarding.name()).collect();
    assert_eq!(forward, ["dr", "dr", "full-nat", "nat"]);
    for (to, expected) in [("boxed", "need full NAT"), ("moved", "servers of `moved` have ports")] {
        let problems = network::problems(&network, &vary(to));
        assert!(problems.len() == 1 && problems[0].contains(expected), "{problems:?}");
    }
}

#[test]
fn what_cannot_be_is_said_with_its_place() {
    let all: Vec<Vec<String>> = [
        "traffic: { requests: { to: mail } }",
        "traffic: { requests: { to: dns } }",
        "traffic: { requests: { to: web, from: [] } }",
        "traffic: { requests: { to: web, from: [h1] } }",
        "traffic: { requests: { to: web, from: [c1, c1] } }",
        "traffic: { requests: { to: web, clients: 3, rate: 10/s } }",
        "traffic: { requests: { to: web, rate: fast } }",
        "traffic: { requests: { to: web, workload: VSVD } }",
        "traffic: { requests: { to: web, workload: vsvd, path: /work } }",
        "traffic: { requests: { to: web, path: /nowhere } }",
        "traffic: { requests: { to: web, size: much } }",
        "traffic: { requests: { to: web, by-server: { c1: { duration: 1ms } } } }",
        "traffic: { requests: { to: web }, pattern: random }",
        "traffic: { requests: { to: web }, transport: reno }",
        "traffic: { requests: { to: web } }\nvary: { streams: [1, 2] }",
        "traffic: { requests: { to: web } }\nexpect: { goodput-mean: \">= 1 Mbit/s\" }",
        "traffic: { pattern: random }\nexpect: { response-p99: \"<= 1 s\" }",
        "traffic: { pattern: random }\nvary: { requests.clients: [1, 2] }",
    ]
    .iter()
    .map(|text| network::problems(NETWORK, &experiment(text)))
    .collect();
    insta::assert_json_snapshot!(all);
}
