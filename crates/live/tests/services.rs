//! Services: real connections that one of several servers gets.

use std::collections::BTreeMap;

use crate::bed::{self, Bed, Holding, Running, source};
use fabric::Overrides;
use live::Instance;
use live::control::{ServerChange, ServiceStatus};

const NETWORK: &str = "\
name: services
nodes: { h1: host, h2: host, h3: host, h4: host, s1: switch, s2: switch }
links:
  - between: [h1, s1]
  - between: [h2, s1]
  - between: [h3, s2]
  - between: [h4, s2]
  - between: [s1, s2]
services:
";

const WEB: &str =
    "  web: { address: ['10.1.0.80:80', '[fd68:6564:646c::80]:80'], servers: [h2, h3, h4], scheduler: rr }\n";
const DIRECT: &str = "  direct: { address: ['10.1.0.81:90', '[fd68:6564:646c::81]:90'], servers: [h3, h4], scheduler: rr, forward: dr }\n";

fn network(services: &[&str]) -> String {
    [NETWORK, &services.concat()].concat()
}

/// Ways to forward, each with the last number of a service's address.
const FORWARD: [(&str, u16); 4] = [("nat", 85), ("full-nat", 86), ("dr", 87), ("tunnel", 88)];

/// Who answered, how often.
fn asked(network: &Instance, host: &str, address: &str, times: &str) -> BTreeMap<String, usize> {
    count(&bed::output(network.command(host, bed::program(), ["ask", address, times])))
}

fn count(answers: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    answers.lines().for_each(|name| *counts.entry(name.to_owned()).or_insert(0) += 1);
    counts
}

fn counts(expected: &[(&str, usize)]) -> BTreeMap<String, usize> {
    expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

fn status(network: &Instance, service: &str) -> ServiceStatus {
    let services = network.counters().unwrap().services;
    services.into_iter().find(|status| status.service == service).expect("it is in the file")
}

#[test]
fn connections_are_shared_out_and_answered_by_the_service() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("services", &network(&[WEB, DIRECT]));
    let _web = ["h2", "h3", "h4"].map(|host| Running::server(&network, host, "80"));
    let _direct = ["h3", "h4"].map(|host| Running::server(&network, host, "90"));
    for address in ["10.1.0.80:80", "[fd68:6564:646c::80]:80", "web:80"] {
        assert_eq!(asked(&network, "h1", address, "6"), counts(&[("h2", 2), ("h3", 2), ("h4", 2)]), "{address}");
    }
    for address in ["10.1.0.81:90", "[fd68:6564:646c::81]:90"] {
        assert_eq!(asked(&network, "h1", address, "6"), counts(&[("h3", 3), ("h4", 3)]), "{address}");
    }
    let web = status(&network, "web");
    assert_eq!(web.servers.iter().map(|server| server.opened).sum::<u64>(), 18, "{web:?}");
    assert!(
        web.servers
            .iter()
            .all(|server| server.traffic.in_packets > 0 && server.traffic.out_packets > 0 && server.failed == 0)
    );
    // Direct connections to a server are its own, whatever services it has.
    assert_eq!(asked(&network, "h1", "h3:80", "2"), counts(&[("h3", 2)]));
    // The address is there, and says no where nobody serves.
    bed::ping(&network, "h1", &[], 2, "web");
    bed::ping(&network, "h1", &["-6"], 2, "web");
    assert_eq!(asked(&network, "h1", "web:81", "1"), counts(&[("connection refused", 1)]));
    assert!(status(&network, "web").counters.unserved > 0);
    network.down().unwrap();
}

#[test]
fn datagrams_of_a_port_stay_with_their_server() {
    let Some(bed) = Bed::new() else { return };
    let dns = "  dns: { address: '10.1.0.53:53', protocol: udp, servers: [{ host: h3, port: 5353 }, { host: h4, port: 5353 }], scheduler: rr }\n";
    let network = bed.up("datagrams", &network(&[dns]));
    let _servers = ["h3", "h4"].map(|host| Running::server(&network, host, "5353"));
    let answers = bed::output(network.command("h1", bed::program(), ["ask-udp", "10.1.0.53:53", "8"]));
    assert_eq!(count(&answers), counts(&[("h3", 4), ("h4", 4)]));
    let nobody = network.command("h1", bed::program(), ["ask-udp", "10.1.0.53:54", "1"]).unwrap().output().unwrap();
    let said = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert!(!nobody.status.success() && said.contains("Connection refused"), "{said}");
    network.down().unwrap();
}

/// All fragments of a datagram go to one server, and its answer comes back in fragments, whatever the way, and through balancers at hosts as well.
#[test]
fn datagrams_in_fragments_are_answered() {
    let Some(bed) = Bed::new() else { return };
    let of = |(forward, number): (&str, u16), more: &str| {
        let port = if forward == "dr" || forward == "tunnel" { "" } else { ", port: 5353" };
        format!(
            "  {forward}{number}: {{ address: ['10.1.0.{number}:5353', '[fd68:6564:646c::{number}]:5353'], protocol: udp, servers: [{{ host: h3{port} }}, {{ host: h4{port} }}], scheduler: rr, forward: {forward}{more} }}\n"
        )
    };
    let services = FORWARD.map(|way| of(way, ""));
    let at_hosts = of(("full-nat", 89), ", at: [h1, h2]");
    let network = bed.up("fragments", &network(&[&services.concat(), &at_hosts]));
    let _servers = ["h3", "h4"].map(|host| Running::server(&network, host, "5353"));
    for number in FORWARD.map(|way| way.1).into_iter().chain([89]) {
        for address in [format!("10.1.0.{number}:5353"), format!("[fd68:6564:646c::{number}]:5353")] {
            // What does not fit a tunnel of IPv6 is lost, and its sender hears what does.
            if number == 88 && address.starts_with('[') {
                continue;
            }
            let answers = bed::output(network.command("h1", bed::program(), ["ask-much-udp", &address, "4"]));
            let answered: Vec<&str> = answers.lines().collect();
            assert!(answered.len() == 4 && answered.iter().all(|line| line.ends_with(" 9000")), "{address}: {answers}");
            // Two balancers take turns by themselves.
            let is_spread = ["h3", "h4"].iter().all(|server| answers.contains(server));
            assert!(is_spread || number == 89, "{address}: {answers}");
        }
    }
    network.down().unwrap();
}

/// With full NAT servers see the balancer's own addresses, and may be their own clients.
#[test]
fn servers_see_the_balancers_own_addresses() {
    let Some(bed) = Bed::new() else { return };
    let full = "  full: { address: ['10.1.0.83:80', '[fd68:6564:646c::83]:80'], servers: [h2, h3, h4], scheduler: rr, forward: full-nat, source: ['10.1.0.200-10.1.0.201:20000-20999', 'fd68:6564:646c::200'] }\n";
    let one = "  one: { address: '10.1.0.84:80', servers: [h2], forward: full-nat, source: '10.1.0.202:20000' }\n";
    let dns =
        "  dns: { address: '10.1.0.53:53', protocol: udp, servers: [{ host: h3, port: 80 }], forward: full-nat }\n";
    let network = bed.up("full-nat", &network(&[full, one, dns]));
    let _servers = ["h2", "h3", "h4"].map(|host| Running::server(&network, host, "80"));
    for (address, from) in [
        ("10.1.0.83:80", "10.1.0.20"),
        ("[fd68:6564:646c::83]:80", "fd68:6564:646c::200"),
        ("full:80", "fd68:6564:646c::200"),
    ] {
        for client in ["h1", "h2"] {
            let answers = asked(&network, client, address, "6");
            assert_eq!(answers, counts(&[("h2", 2), ("h3", 2), ("h4", 2)]), "{client} {address}");
        }
        let seen = bed::output(network.command("h1", bed::program(), ["ask-from", address, "6"]));
        assert!(seen.lines().count() == 6 && seen.lines().all(|line| line.starts_with(from)), "{address}: {seen}");
    }
    let answers = bed::output(network.command("h1", bed::program(), ["ask-udp", "10.1.0.53:53", "4"]));
    assert_eq!(count(&answers), counts(&[("h3", 4)]));
    // That nobody listens is an error about what the server sees; its client hears of it.
    let nobody = network.command("h1", bed::program(), ["ask-udp", "10.1.0.53:54", "1"]).unwrap().output().unwrap();
    assert!(!nobody.status.success() && String::from_utf8_lossy(&nobody.stderr).contains("Connection refused"));
    // One port of the balancer's own is one connection.
    let mut held = Holding::open(&network, "h1", "one:80");
    assert_eq!(held.ask(), "h2");
    assert_eq!(asked(&network, "h1", "one:80", "2"), counts(&[("connection refused", 2)]));
    assert_eq!((status(&network, "one").counters.no_port, network.counters().unwrap().refused.no_port), (2, 2));
    assert!(held.ends());
    // It has ended, and makes room.
    bed::wait_until("there is a port again", || asked(&network, "h1", "one:80", "1") == counts(&[("h2", 1)]));
    network.down().unwrap();
}

/// What a router has passed on is answered by that router, whichever MAC address the client has elsewhere.
#[test]
fn clients_behind_a_router_are_answered_by_it() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up(
        "routed",
        "\
name: routed
nodes:
  h1: { kind: host, ipv4: 10.0.1.1/24, routes: [default via 10.0.1.254] }
  h2: { kind: host, ipv4: 10.0.2.1/24, routes: [default via 10.0.2.254] }
  h3: { kind: host, ipv4: 10.0.2.3/24, routes: [default via 10.0.2.254] }
  lb: { kind: host, ipv4: 10.0.2.4/24 }
  r1: { kind: host, forward: true, interfaces: { s1: { ipv4: 10.0.1.254/24 }, s2: { ipv4: 10.0.2.254/24 } } }
  s1: switch
  s2: switch
links:
  - { between: [h1, s1] }
  - { between: [r1, s1] }
  - { between: [r1, s2] }
  - { between: [h2, s2] }
  - { between: [h3, s2] }
  - { between: [lb, s2] }
services:
  nat: { address: '10.0.2.85:80', servers: [h2, h3], scheduler: rr }
  full: { address: '10.0.2.86:80', servers: [h2, h3], scheduler: rr, forward: full-nat }
  kept: { address: '10.0.2.87:80', servers: [h2, h3], scheduler: rr, forward: dr }
  boxed: { address: '10.0.2.88:80', servers: [h2, h3], scheduler: rr, forward: full-nat, at: [lb] }
  dns: { address: '10.0.2.53:53', protocol: udp, servers: [{ host: h3, port: 5353 }], forward: full-nat }
",
    );
    let _servers = ["h2", "h3"].map(|host| Running::server(&network, host, "80"));
    for service in ["nat", "full", "kept", "boxed"] {
        let answers = asked(&network, "h1", &format!("{service}:80"), "4");
        assert_eq!(answers, counts(&[("h2", 2), ("h3", 2)]), "{service}");
    }
    // So is an error of a server.
    let nobody = network.command("h1", bed::program(), ["ask-udp", "10.0.2.53:53", "1"]).unwrap().output().unwrap();
    let said = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert!(!nobody.status.success() && said.contains("Connection refused"), "{said}");
    network.down().unwrap();
}

/// Packets to servers have another IP header before theirs, with the server's address, and come out of it at its host. What does not fit with it is cut as the service says.
#[test]
fn packets_go_through_tunnels() {
    let Some(bed) = Bed::new() else { return };
    let web = "  web: { address: ['10.1.0.88:80', '[fd68:6564:646c::88]:80'], servers: [h2, h3, h4], scheduler: rr, forward: tunnel }\n";
    let dns = "  dns: { address: '10.1.0.53:53', protocol: udp, servers: [h3], forward: tunnel }\n";
    let network = bed.up("tunnels", &network(&[web, dns]));
    let _servers = ["h2", "h3", "h4"].map(|host| Running::server(&network, host, "80"));
    let _dns = Running::server(&network, "h3", "53");
    for address in ["10.1.0.88:80", "[fd68:6564:646c::88]:80"] {
        assert_eq!(asked(&network, "h1", address, "6"), counts(&[("h2", 2), ("h3", 2), ("h4", 2)]), "{address}");
        let much = bed::output(network.command("h1", bed::program(), ["ask-much", address, "3"]));
        assert_eq!(much, "8000000\n8000000\n8000000\n", "{address}");
        // Full segments of the client do not fit: it hears what does, and cuts them anew.
        let before = status(&network, "web").counters.too_big;
        let long = count(&bed::output(network.command("h1", bed::program(), ["ask-long", address, "3"])));
        assert_eq!(long, counts(&[("h2", 1), ("h3", 1), ("h4", 1)]), "{address}");
        assert!(status(&network, "web").counters.too_big > before, "{address}");
    }
    let answers = bed::output(network.command("h1", bed::program(), ["ask-udp", "10.1.0.53:53", "4"]));
    assert_eq!(count(&answers), counts(&[("h3", 4)]));
    let counters = status(&network, "web").counters;
    assert_eq!((counters.invalid, counters.refused, counters.unserved), (0, 0, 0), "{counters:?}");
    network.down().unwrap();
}

/// Connections that begin with SYN cookies: their numbers are others at the server, in both directions.
#[test]
fn connections_begin_with_cookies() {
    let Some(bed) = Bed::new() else { return };
    let services = FORWARD.map(|(forward, number)| {
        format!("  {forward}: {{ address: ['10.1.0.{number}:80', '[fd68:6564:646c::{number}]:80'], servers: [h2, h3], scheduler: rr, forward: {forward}, half-open: 0 }}\n")
    });
    let network = bed.up("cookies", &network(&services.each_ref().map(String::as_str)));
    // Nobody listens: that is heard, though the service has accepted.
    assert_eq!(asked(&network, "h1", "10.1.0.85:80", "1"), counts(&[("connection reset", 1)]));
    let _servers = ["h2", "h3"].map(|host| Running::server(&network, host, "80"));
    for (name, number) in FORWARD {
        for address in [format!("10.1.0.{number}:80"), format!("[fd68:6564:646c::{number}]:80")] {
            assert_eq!(asked(&network, "h1", &address, "6"), counts(&[("h2", 3), ("h3", 3)]), "{address}");
            // Segments of all sizes, which the kernel has left to the card to cut.
            let much = bed::output(network.command("h1", bed::program(), ["ask-much", &address, "2"]));
            assert_eq!(much, "8000000\n8000000\n", "{address}");
        }
        let mut held = Holding::open(&network, "h1", &format!("10.1.0.{number}:80"));
        assert!((0..20).all(|_| held.ask().starts_with('h')) && held.ends());
        let counters = status(&network, name).counters;
        assert!(counters.cookies >= 17 && counters.by_cookie >= 17 && counters.invalid == 0, "{name}: {counters:?}");
        bed::wait_until("all have ended", || status(&network, name).servers.iter().all(|it| it.active == 0));
    }
    network.down().unwrap();
}

#[test]
fn connections_outlive_changes_of_their_service() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("changing", &network(&[DIRECT, WEB]));
    let _servers = ["h2", "h3", "h4"].map(|host| Running::server(&network, host, "80"));
    let mut held: Vec<(Holding, String)> = (0..3)
        .map(|_| {
            let mut client = Holding::open(&network, "h1", "web:80");
            let server = client.ask();
            (client, server)
        })
        .collect();
    let by_server: BTreeMap<_, _> = held.iter().map(|(_, server)| (server.clone(), 1)).collect();
    assert_eq!(by_server.len(), 3);
    // One is drained by hand: what it has goes on.
    network.change_server("web", "h3", ServerChange::Drain(true)).unwrap();
    assert_eq!(asked(&network, "h1", "web:80", "4"), counts(&[("h2", 2), ("h4", 2)]));
    network.change_server("web", "h3", ServerChange::Drain(false)).unwrap();
    network.change_server("web", "h4", ServerChange::Weight(0)).unwrap();
    assert_eq!(asked(&network, "h1", "web:80", "4"), counts(&[("h2", 2), ("h3", 2)]));
    for (service, server) in [("far", "h3"), ("web", "h1")] {
        let refused = network.change_server(service, server, ServerChange::Drain(true));
        assert!(matches!(refused, Err(live::Error::Refused { .. })), "{refused:?}");
    }
    // Another file: one server less, another scheduler, and the service before it gone.
    let other = "  web: { address: ['10.1.0.80:80', '[fd68:6564:646c::80]:80'], servers: [h4, h2], scheduler: lc }\n";
    let text = self::network(&[other]);
    network.apply(&source(&text), &Overrides::default()).unwrap();
    for (client, server) in &mut held {
        assert_eq!(client.ask(), *server);
    }
    assert!(!asked(&network, "h1", "web:80", "4").contains_key("h3"));
    let left = status(&network, "web");
    let h3 = left.servers.iter().find(|server| server.server == "h3").expect("it has a connection");
    assert_eq!((h3.active, h3.out.as_deref()), (1, Some("draining")));
    for (client, _) in held {
        assert!(client.ends());
    }
    bed::wait_until("all have ended", || status(&network, "web").servers.iter().all(|server| server.active == 0));
    network.down().unwrap();
}

#[test]
fn who_is_refused_hears_it() {
    let Some(bed) = Bed::new() else { return };
    let one = "  one: { address: '10.1.0.82:80', servers: [{ host: h2, max-connections: 1 }] }\n";
    let network = bed.up("refusing", &network(&[one]));
    // Nobody listens: the server's own kernel says so, as the service.
    assert_eq!(asked(&network, "h1", "one:80", "1"), counts(&[("connection refused", 1)]));
    let _server = Running::server(&network, "h2", "80");
    let mut client = Holding::open(&network, "h1", "one:80");
    assert_eq!(client.ask(), "h2");
    assert_eq!(asked(&network, "h1", "one:80", "1"), counts(&[("connection refused", 1)]));
    let one = status(&network, "one");
    assert_eq!((one.counters.refused, one.servers[0].failed, one.servers[0].active), (1, 1, 1), "{one:?}");
    assert_eq!(client.ask(), "h2");
    assert!(client.ends());
    // A server that would talk to itself is not its own.
    bed::wait_until("it has room", || status(&network, "one").servers[0].active == 0);
    assert_eq!(asked(&network, "h2", "one:80", "1"), counts(&[("connection refused", 1)]));
    assert_eq!(status(&network, "one").servers[0].failed, 1);
    network.down().unwrap();
}

/// A reset behind the answer is how some servers say good bye, and speaks against nobody.
#[test]
fn a_reset_behind_an_answer_is_no_failure() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("resetting", &network(&["  one: { address: '10.1.0.82:80', servers: [h2] }\n"]));
    let _server = Running::listening(network.command("h2", bed::program(), ["serve-once", "80"]));
    assert_eq!(asked(&network, "h1", "one:80", "7").values().sum::<usize>(), 7);
    bed::wait_until("all have ended", || status(&network, "one").servers[0].completed == 7);
    let one = status(&network, "one");
    assert_eq!((one.servers[0].failed, one.servers[0].out.as_deref()), (0, None), "{one:?}");
    network.down().unwrap();
}

/// What health checks and agents say decides who gets connections.
#[test]
fn a_server_that_is_down_or_overloaded_gets_nothing() {
    let Some(bed) = Bed::new() else { return };
    let checked = "  web: { address: '10.1.0.80:80', servers: [h2, h3, h4], scheduler: arr, report-expiry: 60min, health: { interval: 20ms, timeout: 60s, fall: 1, rise: 1 }, agent: { port: 5555, every: 20ms } }\n";
    let network = bed.up("checked", &network(&[checked]));
    let out = |server: &str| {
        let servers = status(&network, "web").servers;
        servers.iter().find(|it| it.server == server).expect("it is in the file").out.clone()
    };
    bed::wait_until("nobody is up who does not listen", || {
        ["h2", "h3", "h4"].iter().all(|server| out(server).as_deref() == Some("down"))
    });
    let _servers = ["h2", "h3"].map(|host| Running::server(&network, host, "80"));
    let fourth = Running::server(&network, "h4", "80");
    bed::wait_until("who listens is up", || ["h2", "h3", "h4"].iter().all(|server| out(server).is_none()));
    assert_eq!(asked(&network, "h1", "web:80", "6"), counts(&[("h2", 2), ("h3", 2), ("h4", 2)]));
    drop(fourth);
    bed::wait_until("who is gone is down", || out("h4").as_deref() == Some("down"));
    assert_eq!(asked(&network, "h1", "web:80", "4"), counts(&[("h2", 2), ("h3", 2)]));
    // The name of a host is no word of agents; this one's says that it has too much to do.
    let _agent = Running::start(network.command("h3", bed::program(), ["agent", "5555", "{\"cpu_utilization\": 1.0}"]));
    bed::wait_until("its agent is heard", || out("h3").as_deref() == Some("overloaded"));
    assert_eq!(asked(&network, "h1", "web:80", "3"), counts(&[("h2", 3)]));
    // What nobody says any more holds no longer.
    let unchecked = "  web: { address: '10.1.0.80:80', servers: [h2, h3, h4], scheduler: rr }\n";
    let text = self::network(&[unchecked]);
    network.apply(&source(&text), &Overrides::default()).unwrap();
    bed::wait_until("all are up", || ["h2", "h3", "h4"].iter().all(|server| out(server).is_none()));
    network.down().unwrap();
}

/// Checks by datagrams and by commands, which run in the server's host.
#[test]
fn servers_are_probed_by_datagrams_and_by_commands() {
    let Some(bed) = Bed::new() else { return };
    let often = "interval: 20ms, timeout: 60s, fall: 1, rise: 1";
    let by_udp = format!(
        "  echo: {{ address: '10.1.0.80:5353', protocol: udp, servers: [h2, h3], health: {{ check: udp, send: hello, expect: '', {often} }} }}\n"
    );
    // It talks, leaves a child behind that has its output, and says how it is.
    let command = "sleep 3600 & ls /sys/class/net | grep -q . && test $HEDDLE_SERVER = h4 || { echo $HEDDLE_SERVICE at $HEDDLE_ADDRESS:$HEDDLE_PORT is ill; exit 3; }";
    let by_command =
        format!("  web: {{ address: '10.1.0.81:80', servers: [h3, h4], health: {{ run: '{command}', {often} }} }}\n");
    let network = bed.up("probed", &network(&[&by_udp, &by_command]));
    let server = |service: &str, server: &str| {
        let servers = status(&network, service).servers;
        servers.into_iter().find(|it| it.server == server).expect("it is in the file")
    };
    let health = |service: &str, name: &str| server(service, name).health.expect("it is checked");
    bed::wait_until("who refuses datagrams is down", || {
        ["h2", "h3"].iter().all(|name| server("echo", name).out.as_deref() == Some("down"))
    });
    let why = health("echo", "h2");
    assert!(why.is_down && why.failures > 0 && why.failures == why.probes, "{why:?}");
    assert_eq!(why.last_failure.as_deref(), Some("connection refused"));
    let _echo = Running::server(&network, "h2", "5353");
    bed::wait_until("who answers is up", || server("echo", "h2").out.is_none() && !health("echo", "h2").is_down);
    assert!(health("echo", "h3").is_down);
    bed::wait_until("its command has said no", || server("web", "h3").out.as_deref() == Some("down"));
    bed::wait_until("its command has said yes", || health("web", "h4").probes > 1);
    let (ill, well) = (health("web", "h3"), health("web", "h4"));
    let said = ill.last_failure.expect("it said why");
    assert!(said.starts_with("its command exits with 3: web at ") && said.ends_with(":80 is ill"), "{said}");
    assert_eq!((well.failures, server("web", "h4").out), (0, None), "{well:?}");
    network.down().unwrap();
}

/// Whoever may not open connections hears nothing, and is counted.
#[test]
fn a_firewall_is_in_front() {
    let Some(bed) = Bed::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("countries.csv");
    std::fs::write(&list, "# made up\n0.0.0.0,255.255.255.255,AA\n").unwrap();
    let rules = |more: &str| {
        format!("  web: {{ address: ['10.1.0.80:80', '[fd68:6564:646c::80]:80'], servers: [h3], {more} }}\n")
    };
    let countries = format!("countries: {{ file: '{}', deny: [aa] }}", list.display());
    let network = bed.up("guarded", &network(&[&rules(&countries)]));
    let _server = Running::server(&network, "h3", "80");
    // IPv6 has no country.
    assert_eq!(asked(&network, "h1", "[fd68:6564:646c::80]:80", "1"), counts(&[("h3", 1)]));
    let silent = |host: &str| {
        let command = network.command(host, bed::program(), ["ask", "10.1.0.80:80", "1"]);
        Running::start(command)
    };
    let denied = || status(&network, "web").counters;
    let client = silent("h1");
    bed::wait_until("its country is denied", || denied().denied_country > 0);
    drop(client);
    assert_eq!((denied().denied, denied().refused), (0, 0));
    // Another list, another file.
    std::fs::write(&list, "10.0.0.0/8,BB\n").unwrap();
    network.apply(&source(&self::network(&[&rules(&countries)])), &Overrides::default()).unwrap();
    assert_eq!(asked(&network, "h1", "10.1.0.80:80", "2"), counts(&[("h3", 2)]));
    let mut held = Holding::open(&network, "h1", "10.1.0.80:80");
    assert_eq!(held.ask(), "h3");
    network.apply(&source(&self::network(&[&rules("deny: [0.0.0.0/0]")])), &Overrides::default()).unwrap();
    let _client = silent("h2");
    bed::wait_until("its address is denied", || denied().denied > 0);
    // What there was goes on.
    assert_eq!(held.ask(), "h3");
    assert!(held.ends());
    std::fs::write(&list, "10.0.0.0/8\n").unwrap();
    let wrong = network.apply(&source(&self::network(&[&rules(&countries)])), &Overrides::default());
    let said = wrong.expect_err("a line has no country").to_string();
    assert!(said.contains("countries of web") && said.contains("countries.csv: line 1: expected a prefix"), "{said}");
    network.down().unwrap();
}
