//! Names that name servers of the network lead to one of several services, asked by real packets.

use std::collections::BTreeMap;

use crate::bed::{self, Bed, Running};
use fabric::Overrides;
use live::Instance;
use live::control::NameStatus;

const NETWORK: &str = "\
name: names
nodes: { h1: host, h2: { kind: host, ipv4: 10.1.0.2 }, h3: host, h4: host, h5: host, s1: switch, s2: switch }
links:
  - between: [h1, s1]
  - between: [h2, s1]
  - between: [h3, s2]
  - between: [h4, s2]
  - between: [h5, s2]
  - between: [s1, s2]
services:
  web-east: { address: ['10.1.0.80:80', '[fd68:6564:646c::80]:80'], servers: [h3], health: { check: tcp, interval: 20ms, fall: 2, rise: 1 } }
  web-west: { address: '10.1.0.81:80', servers: [h4], health: { check: tcp, interval: 20ms, fall: 2, rise: 1 } }
  web-cloud: { address: '10.1.0.82:80', servers: [h5] }
names:
  www.example.net:
    address: [10.1.0.53, 'fd68:6564:646c::53']
    ttl: 0s
    sites:
      east: { service: web-east, weight: 2, clients: [10.1.0.0/16] }
      west: { service: web-west }
      cloud: { service: web-cloud, backup: true }
";

const EAST: &str = "rcode 0 10.1.0.80";
const WEST: &str = "rcode 0 10.1.0.81";
const CLOUD: &str = "rcode 0 10.1.0.82";

/// What a name server answers to so many queries of a host, how often.
fn asked(network: &Instance, host: &str, rest: &[&str]) -> BTreeMap<String, usize> {
    let (server, rest) = rest.split_first().expect("a server");
    let text = bed::output(network.command(host, bed::program(), [&["query", *server], rest].concat()));
    let mut counts = BTreeMap::new();
    text.lines().for_each(|line| *counts.entry(line.to_owned()).or_insert(0) += 1);
    counts
}

fn counts(expected: &[(&str, usize)]) -> BTreeMap<String, usize> {
    expected.iter().map(|(answer, count)| ((*answer).to_owned(), *count)).collect()
}

fn status(network: &Instance) -> NameStatus {
    network.counters().unwrap().names.into_iter().next().expect("it is in the file")
}

fn healthy(network: &Instance) -> Vec<u32> {
    status(network).sites.iter().map(|site| site.healthy).collect()
}

const NAME: &str = "www.example.net";
const SERVER: &str = "10.1.0.53:53";

#[test]
fn a_name_leads_to_sites_by_weight_prefix_and_health() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("names", NETWORK);
    let east = Running::server(&network, "h3", "80");
    let west = Running::server(&network, "h4", "80");
    bed::wait_until("both sites are up", || healthy(&network) == [1, 1, 1]);
    // By weight, and by IPv6 what there is of it.
    assert_eq!(asked(&network, "h1", &[SERVER, NAME, "a", "9"]), counts(&[(EAST, 6), (WEST, 3)]));
    let by_ipv6 = &["[fd68:6564:646c::53]:53", "WWW.Example.NET", "aaaa", "2"];
    assert_eq!(asked(&network, "h1", by_ipv6), counts(&[("rcode 0 fd68:6564:646c::80", 2)]));
    // By the client's own address, and by one that a resolver passes on.
    assert_eq!(asked(&network, "h2", &[SERVER, NAME, "a", "3"]), counts(&[(EAST, 3)]));
    assert_eq!(asked(&network, "h1", &[SERVER, NAME, "a", "3", "10.1.7.0/24"]), counts(&[(EAST, 3)]));
    assert_eq!(asked(&network, "h2", &[SERVER, NAME, "a", "3", "10.9.0.0/16"]), counts(&[(EAST, 2), (WEST, 1)]));
    // Nothing of another kind, nothing below, and nobody else's.
    assert_eq!(asked(&network, "h1", &[SERVER, NAME, "15", "1"]), counts(&[("rcode 0", 1)]));
    assert_eq!(asked(&network, "h1", &[SERVER, "a.www.example.net", "a", "1"]), counts(&[("rcode 3", 1)]));
    assert_eq!(asked(&network, "h1", &[SERVER, "example.org", "a", "1"]), counts(&[("rcode 5", 1)]));
    // Programs find it as any name, and the service behind it.
    let found = bed::output(network.command("h2", bed::program(), ["resolve", NAME]));
    assert_eq!(found, "10.1.0.80 fd68:6564:646c::80\n");
    let answered = bed::output(network.command("h2", bed::program(), ["ask", "www.example.net:80", "2"]));
    assert_eq!(answered, "h3\nh3\n");
    // The address is there, and nothing else is at it.
    bed::ping(&network, "h1", &[], 2, "10.1.0.53");
    let refused = bed::output(network.command("h1", bed::program(), ["ask", SERVER, "1"]));
    assert_eq!(refused, "connection refused\n");
    // A site whose servers have died gets nobody: the other one, then the backup, and then all count as healthy.
    drop(east);
    bed::wait_until("the first site is down", || healthy(&network) == [0, 1, 1]);
    assert_eq!(asked(&network, "h2", &[SERVER, NAME, "a", "3"]), counts(&[(WEST, 3)]));
    drop(west);
    bed::wait_until("the second site is down", || healthy(&network) == [0, 0, 1]);
    assert_eq!(asked(&network, "h2", &[SERVER, NAME, "a", "3"]), counts(&[(CLOUD, 3)]));
    let by_ipv6 = ["[fd68:6564:646c::53]:53", NAME, "aaaa", "2"];
    assert_eq!(asked(&network, "h1", &by_ipv6), counts(&[("rcode 0 fd68:6564:646c::80", 2)]));
    let now = status(&network);
    assert_eq!((now.counters.failed_over, now.counters.failed_open), (3, 2), "{now:?}");
    let servers = network.counters().unwrap().name_servers;
    assert_eq!((servers.refused, servers.name_error, servers.malformed), (1, 1, 0), "{servers:?}");
    // It comes back.
    let _east = Running::server(&network, "h3", "80");
    bed::wait_until("the first site is back", || healthy(&network) == [1, 0, 1]);
    assert_eq!(asked(&network, "h2", &[SERVER, NAME, "a", "3"]), counts(&[(EAST, 3)]));
    network.down().unwrap();
}

#[test]
fn names_change_while_the_network_runs() {
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("names", NETWORK);
    bed::wait_until("nobody serves yet", || healthy(&network) == [0, 0, 1]);
    assert_eq!(asked(&network, "h1", &[SERVER, NAME, "a", "2"]), counts(&[(CLOUD, 2)]));
    let other = NETWORK.replace("service: web-cloud, backup: true", "service: web-cloud, weight: 3, backup: true");
    let applied = network.apply(&bed::source(&other), &Overrides::default()).unwrap();
    assert_eq!(applied.changed, ["name www.example.net"], "{applied:?}");
    assert_eq!(asked(&network, "h1", &[SERVER, NAME, "a", "2"]), counts(&[(CLOUD, 2)]));
    assert_eq!(status(&network).sites[2].answers, 4);
    // Without names hosts ask as before.
    let none = NETWORK.split("names:\n  www").next().unwrap();
    network.apply(&bed::source(none), &Overrides::default()).unwrap();
    assert!(network.counters().unwrap().names.is_empty());
    network.down().unwrap();
}
