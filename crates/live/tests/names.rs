//! Names that name servers of the network lead to one of several services, asked by real packets.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::bed::{self, Bed, Running};
use datapath::Tracer;
use fabric::{Fabric, Overrides};
use live::Instance;
use live::control::NameStatus;
use topology::Routes;
use vswitch::Pipelines;
use wire::{EthernetRepr, Ipv4Repr, Pseudo, UdpRepr, ethertype, protocol};

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

/// Queries for IPv4 of a host pass a simulated network of the same file: how often each site was the answer.
fn simulated(fabric: &Fabric, queries: &[(&str, usize)]) -> Vec<u64> {
    let topology = &fabric.topology;
    let tables = fabric.tables(Pipelines::default(), 1);
    let server = Ipv4Addr::new(10, 1, 0, 53);
    let mac = tables.host_table.mac_of_alias(server.into()).expect("it is known");
    let mut tracer = Tracer::new(topology, tables, (Routes::compute(topology), &[]), (fabric.spread, 7, &[]));
    let question = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\x03net\0\0\x01\0\x01";
    for (host, count) in queries {
        let host = topology.node(host).expect("it is there");
        let own = topology.address(host).expect("it is a host");
        let mut datagram = vec![0; 8];
        UdpRepr { src_port: 5_000, dst_port: 53, payload_len: question.len() as u16 }.emit(&mut datagram);
        datagram.extend(question);
        UdpRepr::fill_checksum(&mut datagram, &Pseudo::V4 { src: own.ipv4, dst: server, protocol: protocol::UDP });
        let ip = Ipv4Repr::new(own.ipv4, server, protocol::UDP, datagram.len() as u16);
        let ethernet = EthernetRepr { dst: mac, src: own.mac, vlan: None, ethertype: ethertype::IPV4 };
        let mut frame = vec![0; ethernet.buffer_len() + ip.buffer_len()];
        ethernet.emit(&mut frame);
        ip.emit(&mut frame[ethernet.buffer_len()..]);
        frame.extend(datagram);
        for _ in 0..*count {
            tracer.send(host, &frame).expect("it is a frame");
        }
    }
    let (views, _) = tracer.names();
    views[0].sites().map(|site| site.answers).collect()
}

/// The code that answers is the same under both clocks: so are the shares.
#[test]
fn a_simulated_network_gives_the_same_shares() {
    let Some(bed) = Bed::new() else { return };
    // Nobody probes where packets are simulated.
    let text = NETWORK.replace(", health: { check: tcp, interval: 20ms, fall: 2, rise: 1 }", "");
    let fabric = fabric::parse(&bed::source(&text)).expect("it is a file");
    let network = bed.up("names", &text);
    let queries = [("h1", 7), ("h2", 4), ("h1", 6)];
    for (host, count) in queries {
        asked(&network, host, &[SERVER, NAME, "a", &count.to_string()]);
    }
    let live: Vec<u64> = status(&network).sites.iter().map(|site| site.answers).collect();
    assert_eq!(live, simulated(&fabric, &queries));
    assert_eq!(live.iter().sum::<u64>(), 17);
    assert!(live[0] > live[1] && live[1] > 0 && live[2] == 0, "{live:?}");
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

#[test]
fn a_program_goes_on_when_its_name_servers_change() {
    let Some(bed) = Bed::new() else { return };
    let text = NETWORK
        .replace("nodes: { h1: host,", "nodes: { h1: { kind: host, programs: { stays: { run: [sleep, '3600'] } } },");
    let network = bed.up("names", &text);
    let pid = || {
        let programs = network.programs().unwrap();
        programs.into_iter().find(|state| state.program == "stays").and_then(|state| state.pid)
    };
    bed::wait_until("it runs", || pid().is_some());
    let begun = pid();
    let seen = || std::fs::read_to_string(format!("/proc/{}/root/etc/resolv.conf", begun.unwrap())).unwrap();
    bed::wait_until("it sees the first ones", || seen() == "nameserver 10.1.0.53\nnameserver fd68:6564:646c::53\n");
    let other = text.replace("address: [10.1.0.53, 'fd68:6564:646c::53']", "address: 10.1.0.54");
    network.apply(&bed::source(&other), &Overrides::default()).unwrap();
    assert_eq!((pid(), seen().as_str()), (begun, "nameserver 10.1.0.54\n"));
    // What is new is seen by those that begin then.
    network.apply(&bed::source(text.split("names:\n  www").next().unwrap()), &Overrides::default()).unwrap();
    network.apply(&bed::source(&text), &Overrides::default()).unwrap();
    assert_eq!(pid(), begun);
    network.down().unwrap();
}
