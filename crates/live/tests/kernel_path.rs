//! Services whose connections are carried by the kernel.

use std::io::Read as _;

use crate::bed::{self, Bed, Holding, Running, source};
use fabric::{LinkChange, Overrides};
use live::control::{ServerChange, ServerStatus, ServiceStatus};
use live::{CaptureOptions, Instance, StartOptions};

const NETWORK: &str = "\
name: kernel-path
nodes: { h1: host, h2: host, h3: host, s1: switch, s2: switch }
links:
  - between: [h1, s1]
  - between: [h2, s1]
  - between: [h3, s2]
  - between: [s1, s2]
services:
";

/// Ways to forward, each with the last number of its addresses.
const FORWARD: [(&str, u16); 3] = [("nat", 85), ("full-nat", 86), ("dr", 87)];

fn service(forward: &str, number: u16, servers: &str, kernel: &str) -> String {
    format!(
        "  {forward}: {{ address: ['10.1.0.{number}:80', '[fd68:6564:646c::{number}]:80'], servers: {servers}, scheduler: rr, forward: {forward}, kernel: {kernel} }}\n"
    )
}

fn network(services: &[String]) -> String {
    [NETWORK, &services.concat()].concat()
}

/// A network that goes on without its starter, as users have it: in others flows are counted, and the kernel carries nothing. It ends with the test.
struct Lasting {
    network: Option<Instance>,
    _bed: Bed,
}

impl std::ops::Deref for Lasting {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        self.network.as_ref().expect("it runs until this is dropped")
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        let ended = self.network.take().map(Instance::down);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))), "{ended:?}");
    }
}

/// A network, if the kernel lets this user load programs. Root may, where it has tcx: a kernel before 6.6 has not.
fn up(name: &str, services: &[String]) -> Option<Lasting> {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED: only root loads programs for tcx");
        return None;
    }
    let bed = Bed::new()?;
    let network = Instance::start(&StartOptions { ephemeral: false, ..bed.options(name) }).unwrap();
    let network = Lasting { network: Some(network), _bed: bed };
    network.apply(&source(&self::network(services)), &Overrides::default()).unwrap();
    let path = network.counters().unwrap().services.remove(0).path;
    if path.contains("Linux 6.6") || path.contains("CAP_BPF") {
        eprintln!("SKIPPED: {path}");
        return None;
    }
    assert_eq!(path, "kernel");
    Some(network)
}

fn status(network: &Instance, service: &str) -> ServiceStatus {
    let services = network.counters().unwrap().services;
    services.into_iter().find(|status| status.service == service).expect("it is in the file")
}

/// Packets that the kernel has carried.
fn by_kernel(network: &Instance, service: &str) -> u64 {
    status(network, service).by_kernel
}

/// Packets to and from all servers, and their bytes.
fn traffic(status: &ServiceStatus) -> [u64; 4] {
    let sum = |of: fn(&ServerStatus) -> u64| status.servers.iter().map(of).sum();
    [
        sum(|server| server.traffic.in_packets),
        sum(|server| server.traffic.in_bytes),
        sum(|server| server.traffic.out_packets),
        sum(|server| server.traffic.out_bytes),
    ]
}

/// What the device of the kernel path has sent, as the kernel of a host counts it: packets and bytes.
fn sent(network: &Instance, host: &str) -> [u64; 2] {
    let text = bed::output(network.command(host, "sh", ["-c", "grep heddle-eth0 /proc/net/dev"]));
    let numbers = text.split_once(':').unwrap_or_else(|| panic!("{text}")).1;
    let number = |at: usize| numbers.split_whitespace().nth(at).unwrap().parse().unwrap();
    [number(9), number(8)]
}

/// Asks until the kernel carries both directions of a connection.
fn ask_until_carried(network: &Instance, service: &str, held: &mut Holding) {
    let before = by_kernel(network, service);
    bed::wait_until("the kernel carries it", || {
        assert!((0..20).all(|_| held.ask().starts_with('h')));
        by_kernel(network, service) >= before + 40
    });
}

/// Asks a server a hundred times, until services have counted just what devices of the kernel path have sent: an acknowledgement may pass between two looks.
fn ask_until_all_is_counted(network: &Instance, service: &str, server: &str, held: &mut Holding) {
    let counted = || (traffic(&status(network, service)), [sent(network, "h1"), sent(network, server)]);
    bed::wait_until("all is counted", || {
        let (before, before_sent) = counted();
        assert!((0..100).all(|_| held.ask() == server), "{service}");
        let (after, after_sent) = counted();
        let more: Vec<u64> = (0..4).map(|at| after[at] - before[at]).collect();
        let more_sent = (0..4).map(|at| after_sent[at / 2][at % 2] - before_sent[at / 2][at % 2]);
        more[0] >= 100 && more[2] >= 100 && more_sent.eq(more.iter().copied())
    });
}

/// All ways to forward, both families: what the devices of the kernel path have carried is what services have counted.
#[test]
fn connections_that_go_on_go_by_the_kernel() {
    let services = FORWARD.map(|(forward, number)| service(forward, number, "[h2, h3]", "yes"));
    let Some(network) = up("kernel", &services) else { return };
    let _servers = ["h2", "h3"].map(|host| Running::server(&network, host, "80"));
    for (name, number) in FORWARD {
        for address in [format!("10.1.0.{number}:80"), format!("[fd68:6564:646c::{number}]:80")] {
            let mut held = Holding::open(&network, "h1", &address);
            let server = held.ask();
            ask_until_carried(&network, name, &mut held);
            ask_until_all_is_counted(&network, name, &server, &mut held);
            assert!(held.ends());
            bed::wait_until("it has ended", || status(&network, name).servers.iter().all(|server| server.active == 0));
            // Segments of all sizes, which the sender's kernel has left to the card to cut.
            let before = by_kernel(&network, name);
            let much = bed::output(network.command("h1", bed::program(), ["ask-much", &address, "2"]));
            assert_eq!(much, "8000000\n8000000\n", "{address}");
            assert!(by_kernel(&network, name) > before, "{address}");
        }
        let status = status(&network, name);
        assert!(status.counters.invalid == 0 && status.servers.iter().all(|server| server.failed == 0), "{status:?}");
    }
    // What hosts and links have counted contains it.
    let counters = network.counters().unwrap();
    let of_services: Vec<[u64; 4]> = counters.services.iter().map(traffic).collect();
    let all = |at: usize| of_services.iter().map(|traffic| traffic[at]).sum::<u64>();
    let of_h1 = counters.ports.iter().find(|port| port.host == "h1").unwrap().traffic;
    let link = counters.links.iter().find(|link| link.a == "h1").unwrap();
    for (sent, received) in
        [(of_h1.sent_packets, of_h1.received_packets), (link.forward.packets, link.backward.packets)]
    {
        assert!(sent >= all(0) && received >= all(2), "{of_h1:?} {link:?}");
    }
}

/// The same of datagrams; where their server is down, those that the kernel has carried go to another.
#[test]
fn datagrams_that_go_on_go_by_the_kernel() {
    let by_udp = |(forward, number): (&str, u16)| {
        let often = "{ check: udp, send: who, expect: h, interval: 20ms, timeout: 5s, fall: 1, rise: 1 }";
        service(forward, number, "[h2, h3]", "auto").replace(" }\n", &format!(", protocol: udp, health: {often} }}\n"))
    };
    let Some(network) = up("datagrams", &FORWARD.map(by_udp)) else { return };
    let mut servers = ["h2", "h3"].map(|host| Some(Running::server(&network, host, "80")));
    let is_up = |name: &str| status(&network, name).servers.iter().all(|it| it.out.is_none());
    bed::wait_until("they are up", || FORWARD.iter().all(|(name, _)| is_up(name)));
    let ask = |name: &str, address: String| {
        let mut held = Holding::open_udp(&network, "h1", &address, "0");
        let server = held.ask();
        ask_until_carried(&network, name, &mut held);
        ask_until_all_is_counted(&network, name, &server, &mut held);
        (held, server)
    };
    for (name, number) in FORWARD {
        for address in [format!("10.1.0.{number}:80"), format!("[fd68:6564:646c::{number}]:80")] {
            assert!(ask(name, address).0.ends());
        }
    }
    let (mut held, server) = ask("full-nat", "10.1.0.86:80".to_owned());
    drop(servers[usize::from(server == "h3")].take());
    bed::wait_until("another one answers", || held.ask() != server);
    assert!(held.ends());
}

/// Whoever makes up datagrams of another host does not keep that one from the service: they begin nothing.
#[test]
fn datagrams_that_others_make_up_keep_nobody_out() {
    let by_udp = service("nat", 85, "[h2]", "yes").replace(" }\n", ", protocol: udp }\n");
    let Some(network) = up("made-up", &[by_udp]) else { return };
    let _server = Running::server(&network, "h2", "80");
    let address = bed::output(network.command(
        "h1",
        "sh",
        ["-c", "ip -4 -o address show dev eth0 | awk '{ print $4 }' | cut -d/ -f1"],
    ));
    let made_up = format!(
        "ip address add {address}/32 dev lo && ip route add 10.1.0.85 dev eth0 src {address}",
        address = address.trim()
    );
    bed::output(network.command("h3", "sh", ["-c", &made_up]));
    let send = ["send-udp", "10.1.0.85:80", "5600", "50"];
    let martians = || network.counters().unwrap().refused.martian;
    bed::wait_until("they are seen", || {
        bed::output(network.command("h3", bed::program(), send));
        martians() >= 100
    });
    assert_eq!(by_kernel(&network, "nat"), 0, "nobody carries them");
    let mut held = Holding::open_udp(&network, "h1", "10.1.0.85:80", "5600");
    assert!((0..10).all(|_| held.ask() == "h2"));
    assert!(held.ends());
}

/// A server that gets no more connections goes on with those that it has.
#[test]
fn drained_servers_keep_what_the_kernel_carries() {
    let services = [service("nat", 85, "[h2, h3]", "auto")];
    let Some(network) = up("drained", &services) else { return };
    let _servers = ["h2", "h3"].map(|host| Running::server(&network, host, "80"));
    let mut held = Holding::open(&network, "h1", "10.1.0.85:80");
    let server = held.ask();
    ask_until_carried(&network, "nat", &mut held);
    network.change_server("nat", &server, ServerChange::Drain(true)).unwrap();
    ask_until_carried(&network, "nat", &mut held);
    let other = bed::output(network.command("h1", bed::program(), ["ask", "10.1.0.85:80", "1"]));
    assert_ne!(other.trim(), server);
    assert!(held.ends());
}

/// What somebody looks at, and what has no carrier, is not carried by the kernel, and all else is.
#[test]
fn captures_and_links_that_are_down_see_what_they_touch() {
    let services = [service("nat", 85, "[h2]", "yes"), service("dr", 87, "[h3]", "yes")];
    let Some(network) = up("touched", &services) else { return };
    let _servers = ["h2", "h3"].map(|host| Running::server(&network, host, "80"));
    let mut near = Holding::open(&network, "h1", "10.1.0.85:80");
    let mut far = Holding::open(&network, "h1", "10.1.0.87:80");
    ask_until_carried(&network, "nat", &mut near);
    ask_until_carried(&network, "dr", &mut far);

    let wanted = CaptureOptions { target: "s1-s2".to_owned(), filter: "tcp".to_owned(), snaplen: 128, count: None };
    let client = Instance::connect("touched").unwrap().expect("it runs");
    let mut capture = client.capture(&wanted).unwrap();
    assert_eq!(status(&network, "dr").path, "kernel (user-space where a capture looks)");
    let before = by_kernel(&network, "dr");
    assert!((0..100).all(|_| far.ask() == "h3"));
    assert_eq!(by_kernel(&network, "dr"), before);
    ask_until_carried(&network, "nat", &mut near);
    capture.stop();
    let mut seen = Vec::new();
    capture.read_to_end(&mut seen).unwrap();
    assert!(seen.len() > 200 * 60, "it has seen all questions and answers");
    bed::wait_until("nobody looks any more", || status(&network, "dr").path == "kernel");
    ask_until_carried(&network, "dr", &mut far);

    network.set_link("s1", "s2", None, false).unwrap();
    ask_until_carried(&network, "nat", &mut near);
    let before = by_kernel(&network, "dr");
    let asking = std::thread::spawn(move || (far.ask(), far));
    // The question is sent again and again.
    bed::wait_until("the question is lost", || network.counters().unwrap().refused.no_route > 0);
    assert_eq!(by_kernel(&network, "dr"), before);
    network.set_link("s1", "s2", None, true).unwrap();
    let (answer, mut far) = asking.join().unwrap();
    assert_eq!(answer, "h3");
    ask_until_carried(&network, "dr", &mut far);
    assert!(near.ends() && far.ends());
}

/// Connections outlive changes of their network: to one whose links have delays, to another service, and back.
#[test]
fn connections_outlive_changes_of_their_path() {
    let services = [service("nat", 85, "[h2, h3]", "yes")];
    let Some(network) = up("changed", &services) else { return };
    let _servers = ["h2", "h3"].map(|host| Running::server(&network, host, "80"));
    let mut held = Holding::open(&network, "h1", "10.1.0.85:80");
    let server = held.ask();
    ask_until_carried(&network, "nat", &mut held);
    let set = |words: &str| {
        let change = LinkChange::parse(&words.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap();
        network.change_link("h1", "s1", None, &change).unwrap();
    };
    set("delay=100us");
    let before = by_kernel(&network, "nat");
    assert!((0..50).all(|_| held.ask() == server));
    assert_eq!(by_kernel(&network, "nat"), before);
    assert_eq!(status(&network, "nat").path, "user-space (links have rates, delays, losses or queues)");
    set("delay=none");
    ask_until_carried(&network, "nat", &mut held);
    for (kernel, path) in [("no", "user-space"), ("auto", "kernel")] {
        let text = self::network(&[service("nat", 85, "[h2, h3]", kernel)]);
        network.apply(&source(&text), &Overrides::default()).unwrap();
        assert!((0..50).all(|_| held.ask() == server));
        assert_eq!(status(&network, "nat").path, path);
    }
    ask_until_carried(&network, "nat", &mut held);
    // One host more, which is a client, and one less.
    let before = self::network(&[service("nat", 85, "[h2, h3]", "auto")]);
    let more =
        before.replace("h3: host,", "h3: host, h4: host,").replace("links:\n", "links:\n  - between: [h4, s2]\n");
    network.apply(&source(&more), &Overrides::default()).unwrap();
    let mut other = Holding::open(&network, "h4", "10.1.0.85:80");
    ask_until_carried(&network, "nat", &mut other);
    assert!(other.ends());
    ask_until_carried(&network, "nat", &mut held);
    network.apply(&source(&before), &Overrides::default()).unwrap();
    ask_until_carried(&network, "nat", &mut held);
    assert!(held.ends());
}

/// What the kernel does not carry says why.
#[test]
fn services_say_why_the_kernel_carries_nothing() {
    let services = [
        service("nat", 85, "[h2, h3]", "yes"),
        service("tunnel", 88, "[h2, h3]", "auto"),
        "  learned: { address: '10.1.0.90:80', servers: [h2, h3], scheduler: learned, kernel: auto }\n".to_owned(),
        "  dns: { address: '10.1.0.53:53', protocol: udp, servers: [h2], kernel: auto }\n".to_owned(),
        "  plain: { address: '10.1.0.91:80', servers: [h2, h3] }\n".to_owned(),
    ];
    let Some(network) = up("refused", &services) else { return };
    let paths: Vec<String> = network.counters().unwrap().services.into_iter().map(|status| status.path).collect();
    let expected = [
        "kernel",
        "user-space (packets go through tunnels)",
        "user-space (its scheduler goes by how fast servers answer, which the kernel does not see)",
        "kernel",
        "user-space",
    ];
    assert_eq!(paths, expected);
}

/// Packets that a host's device of the kernel path has sent.
fn carried(network: &Instance, host: &str) -> u64 {
    sent(network, host)[0]
}

/// What hosts say to each other at length, without a service (`kernel: yes` of the network): both families, TCP and UDP, and large segments; what ports have counted is what devices have sent. A
/// capture sees all of it.
#[test]
fn what_hosts_say_to_each_other_goes_by_the_kernel() {
    let Some(network) = up("hosts", &[service("nat", 85, "[h2]", "yes"), "kernel: yes\n".to_owned()]) else { return };
    let _server = Running::server(&network, "h3", "80");
    let look_up = |family: &str| {
        let text = format!("getent {family} h3 | awk 'NR == 1 {{ print $1 }}'");
        bed::output(network.command("h1", "sh", ["-c", &text])).trim().to_owned()
    };
    let addresses = [format!("{}:80", look_up("ahostsv4")), format!("[{}]:80", look_up("ahostsv6"))];
    let ports = || {
        let ports = network.counters().unwrap().ports;
        let of = |host: &str| ports.iter().find(|port| port.host == host).unwrap().traffic;
        [of("h1").sent_packets, of("h3").sent_packets, of("h3").received_packets]
    };
    let devices = || [carried(&network, "h1"), carried(&network, "h3"), carried(&network, "h1")];
    let until_carried = |held: &mut Holding| {
        let before = devices();
        bed::wait_until("the kernel carries it", || {
            assert!((0..20).all(|_| held.ask() == "h3"));
            devices().iter().zip(before).all(|(after, before)| *after >= before + 40)
        });
    };
    for address in &addresses {
        for mut held in [Holding::open(&network, "h1", address), Holding::open_udp(&network, "h1", address, "0")] {
            until_carried(&mut held);
            bed::wait_until("all is counted", || {
                let (counted, gone) = (ports(), devices());
                assert!((0..100).all(|_| held.ask() == "h3"));
                let (counted_then, gone_then) = (ports(), devices());
                let more = |before: [u64; 3], after: [u64; 3]| [0, 1, 2].map(|at| after[at] - before[at]);
                more(gone, gone_then)[0] >= 100 && more(counted, counted_then) == more(gone, gone_then)
            });
            assert!(held.ends());
        }
        let before = carried(&network, "h1");
        let much = bed::output(network.command("h1", bed::program(), ["ask-much", address, "2"]));
        assert_eq!(much, "8000000\n8000000\n", "{address}");
        assert!(carried(&network, "h3") > before, "{address}");
    }

    let mut held = Holding::open(&network, "h1", &addresses[0]);
    until_carried(&mut held);
    let wanted = CaptureOptions { target: "h1".to_owned(), filter: "tcp".to_owned(), snaplen: 128, count: None };
    let client = Instance::connect("hosts").unwrap().expect("it runs");
    let mut capture = client.capture(&wanted).unwrap();
    let before = devices();
    assert!((0..100).all(|_| held.ask() == "h3"));
    assert_eq!(devices(), before);
    capture.stop();
    let mut seen = Vec::new();
    capture.read_to_end(&mut seen).unwrap();
    assert!(seen.len() > 200 * 60, "it has seen all questions and answers");
    until_carried(&mut held);

    // To a host that another address leads to now, packets go by the worker.
    let neighbour = "ip neighbour replace $1 lladdr 02:00:00:00:00:99 dev eth0 nud permanent";
    let address = look_up("ahostsv4");
    bed::output(network.command("h1", "sh", ["-c", neighbour, "sh", &address]));
    let before = carried(&network, "h1");
    let asking = std::thread::spawn(move || (held.ask(), held));
    bed::wait_until("the question is lost", || network.counters().unwrap().refused.unknown_destination > 0);
    assert_eq!(carried(&network, "h1"), before);
    bed::output(network.command("h1", "ip", ["neighbour", "del", &address, "dev", "eth0"]));
    let (answer, held) = asking.join().unwrap();
    assert_eq!(answer, "h3");
    assert!(held.ends());

    // A file without it: the worker has all of it again.
    let text = self::network(&[service("nat", 85, "[h2]", "yes")]);
    network.apply(&source(&text), &Overrides::default()).unwrap();
    let mut held = Holding::open(&network, "h1", &addresses[0]);
    let before = devices();
    assert!((0..100).all(|_| held.ask() == "h3"));
    assert_eq!(devices(), before);
    assert!(held.ends());
}
