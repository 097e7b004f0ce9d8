//! A network changes again and again while packets go on: nobody's packets wait, are lost, come twice or in another order.
#![allow(unsafe_code)]

use std::process::{Child, Stdio};

use crate::bed::{self, Bed, source};
use fabric::{LinkChange, Overrides};
use live::Instance;
use live::control::Counters;
use nix::libc;

/// Two switches of two workers. `h1` and `h2` are at the first one, `h3` and `h4` at the other one, and `h5` has a bond.
const BASE: &str = "
name: changing
DEFAULTS
nodes:
  h1: { kind: host, ipv4: 10.0.0.1 }
  h2: { kind: host, ipv4: 10.0.0.2 }
  h3: { kind: host, ipv4: 10.0.0.3 }
  h4: { kind: host, ipv4: 10.0.0.4 }
  h5: { kind: host, ipv4: 10.0.0.5 }
  MORE
  s1: switch
  s2: switch
links:
  FIRST
  - { between: [h1, s1] }
  - { between: [h2, s1] }
  - { between: [h3, s2] }
  - { between: [h4, s2] }
  - { between: [s1, s2] }
  - { between: [h5, s1] }
  - { between: [h5, s1] }
  LAST
bonds:
  - { host: h5, mode: balance-rr, reorder: on }
";

/// By the first of parallel links: what is under way on a link that is removed is lost.
const SHAPED: &str = "spread: single\nlink-defaults: { rate: 100Mbit, delay: 1ms, queue: 1000 }";

/// Pairs that no change touches, in one switch, between two, and by a bond.
const PAIRS: [(&str, &str); 4] = [("h1", "h2"), ("h1", "h4"), ("h3", "h2"), ("h5", "h3")];

/// The network without anything more, and with a host, a second port of it, a link between the switches. What is first among the links changes all their
/// numbers; a host changes those of the switches.
fn variants(defaults: &str) -> Vec<String> {
    let with = |more: &str, first: &str, last: &str| {
        let text = BASE.replace("DEFAULTS", defaults).replace("MORE", more);
        text.replace("FIRST", first).replace("LAST", last)
    };
    let (host, port) = ("h6: { kind: host, ipv4: 10.0.0.6 }", "- { between: [h6, s2] }");
    vec![
        with("", "", ""),
        with(host, port, ""),
        with(host, port, "- { between: [h6, s1] }"),
        with(host, "- { between: [h6, s1] }", ""),
        with("", "- { between: [s1, s2] }", ""),
        with("", "", "- { between: [s1, s2] }"),
    ]
}

/// Pings until so many requests are answered, all the time.
fn start_pings(network: &Instance, (from, to): (&str, &str), interval: &str, count: usize) -> Child {
    // By its address: while the file changes, the hosts' /etc/hosts is written.
    let (count, to) = (count.to_string(), format!("10.0.0.{}", &to[1..]));
    let mut ping = network.command(from, "ping", ["-4", "-n", "-i", interval, "-c", &count, "-w", "300", &to]).unwrap();
    ping.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

/// What a host was answered, in the order in which it came: all of it, once, and in order.
fn check_pings(ping: Child, count: usize, pair: (&str, &str)) {
    let output = ping.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let number = |line: &str| line.split_once("icmp_seq=")?.1.split(' ').next()?.parse::<usize>().ok();
    let numbers: Vec<usize> = text.lines().filter(|line| line.contains("bytes from")).filter_map(number).collect();
    let expected: Vec<usize> = (1..=numbers.len()).collect();
    assert!(numbers.len() >= count && numbers == expected && !text.contains("DUP"), "{pair:?}: {text}");
}

/// What has been counted about hosts and links that are always there.
fn counted(counters: &Counters) -> Vec<(String, u64)> {
    let is_kept = |name: &str| name != "h6";
    let ports = counters.ports.iter().filter(|port| is_kept(&port.host));
    let ports = ports.map(|port| (format!("{} sent", port.host), port.traffic.sent_packets));
    let links =
        counters.links.iter().filter(|link| is_kept(&link.a) && (link.a.as_str(), link.b.as_str()) != ("s1", "s2"));
    let links: Vec<_> = links.map(|link| (format!("{} - {}", link.a, link.b), link.forward.packets)).collect();
    // The two links of the bond go by one name.
    let number = |at: usize| links[..at].iter().filter(|(name, _)| *name == links[at].0).count();
    let links = links.iter().enumerate().map(|(at, (name, packets))| (format!("{name} {}", number(at)), *packets));
    let links = links.collect::<Vec<_>>().into_iter();
    let rows = counters.forwarded.iter().filter(|row| is_kept(&row.host) && is_kept(&row.switch));
    ports.chain(links).chain(rows.map(|row| (format!("{} to {}", row.switch, row.host), row.packets))).collect()
}

fn carries_on_while_it_changes(defaults: &str) {
    const COUNT: usize = 300;
    let Some(bed) = Bed::new() else { return };
    bed.with_workers(2);
    let variants = variants(defaults);
    let network = bed.up("changing", &variants[0]);
    assert_eq!(network.status().unwrap().workers, 2);
    // All know where the others are.
    for (from, to) in PAIRS {
        bed::ping(&network, from, &["-4"], 3, to);
    }
    let mut pings: Vec<Child> = PAIRS.map(|pair| start_pings(&network, pair, "0.002", COUNT)).into();
    let mut before: Vec<(String, u64)> = Vec::new();
    let mut rounds = 0;
    while rounds < 3 || pings.iter_mut().any(|ping| ping.try_wait().unwrap().is_none()) {
        for text in &variants {
            network.apply(&source(text), &Overrides::default()).unwrap();
            if text.contains("h6") {
                // Flows that come and go.
                bed::ping(&network, "h6", &["-4"], 2, "h1");
                bed::ping(&network, "h3", &["-4"], 2, "10.0.0.6");
            }
            let now = counted(&network.counters().unwrap());
            for (name, packets) in &before {
                let after = now.iter().find(|(other, _)| other == name).map_or(0, |(_, packets)| *packets);
                assert!(after >= *packets, "{name}: {packets}, then {after}\n{text}");
            }
            before = now;
        }
        rounds += 1;
    }
    for (ping, pair) in pings.into_iter().zip(PAIRS) {
        check_pings(ping, COUNT, pair);
    }
    let refused = network.counters().unwrap().refused;
    assert_eq!((refused.ring_full, refused.no_buffer), (0, 0), "{refused:?}");
}

#[test]
fn packets_go_on_while_the_network_changes() {
    carries_on_while_it_changes("");
}

#[test]
fn packets_go_on_while_a_network_with_rates_changes() {
    carries_on_while_it_changes(SHAPED);
}

/// Keys of links, as the command line has them.
fn change(words: &str) -> LinkChange {
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    LinkChange::parse(&words).unwrap()
}

/// Links of which nobody has applied a file are changed; packets go on, over these links as well.
#[test]
fn packets_go_on_while_links_are_changed() {
    const COUNT: usize = 200;
    let Some(bed) = Bed::new() else { return };
    bed.with_workers(2);
    let text = &variants(SHAPED)[0];
    let network = bed.up("changing", text);
    for (from, to) in PAIRS {
        bed::ping(&network, from, &["-4"], 3, to);
    }
    let mut pings: Vec<Child> = PAIRS.map(|pair| start_pings(&network, pair, "0.01", COUNT)).into();
    let mut rounds = 0;
    while rounds < 3 || pings.iter_mut().any(|ping| ping.try_wait().unwrap().is_none()) {
        for words in ["delay=2ms loss=0", "rate=50Mbit queue=500", "delay=none", "rate=none"] {
            assert_eq!(network.change_link("s2", "s1", None, &change(words)).unwrap(), 1, "{words}");
        }
        assert_eq!(network.change_link("s2", "s1", Some(1), &change("rate=100Mbit delay=1ms")).unwrap(), 1);
        rounds += 1;
    }
    for (ping, pair) in pings.into_iter().zip(PAIRS) {
        check_pings(ping, COUNT, pair);
    }
    let refused = network.counters().unwrap().refused;
    assert_eq!((refused.ring_full, refused.no_buffer, refused.removed), (0, 0, 0), "{refused:?}");
    // One of two, then both: the other one is different only.
    assert_eq!(network.change_link("h5", "s1", Some(2), &change("jitter=1us")).unwrap(), 1);
    assert_eq!(network.change_link("s1", "h5", None, &change("jitter=1us")).unwrap(), 1);
    let status = network.status().unwrap();
    let changed: Vec<_> = status.changed_links.iter().map(|link| (&*link.a, &*link.b, link.number)).collect();
    assert_eq!(changed, [("s1", "s2", 1), ("h5", "s1", 2), ("h5", "s1", 1)]);
    // What nobody has looked through before is refused, and changes nothing.
    let unread: LinkChange = serde_json::from_str("[\"delay=soon\"]").unwrap();
    for (number, change, said) in [
        (None, change("rate=none queue=5"), "a queue without a rate"),
        (None, unread, "expected a time"),
        (Some(2), change("delay=1s"), "have one link"),
    ] {
        let error = network.change_link("h1", "s1", number, &change).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
    assert_eq!(network.status().unwrap().changed_links, status.changed_links);
    let applied = network.apply(&source(text), &Overrides::default()).unwrap();
    assert_eq!(applied.changed, ["link h5-s1:1", "link h5-s1:2", "link s1-s2"]);
    assert_eq!(network.status().unwrap().changed_links, []);
}

/// A thread of another process that is stopped wherever it is, as long as this is there.
struct Stopped(i32);

impl Stopped {
    /// `None`, with a loud word, where this user may not stop it. Root may, or else the test fails.
    fn new(pid: i32, name: &str) -> Option<Self> {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|entry| entry.unwrap().path());
        let is_called = |path: &std::path::Path| std::fs::read_to_string(path.join("comm")).unwrap().trim() == name;
        let thread = threads.into_iter().find(|path| is_called(path)).unwrap();
        let tid: i32 = thread.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: these two requests of ptrace(2) take numbers and no addresses.
        let done = unsafe {
            [libc::PTRACE_SEIZE, libc::PTRACE_INTERRUPT].map(|request| libc::ptrace(request, tid, none, none))
        };
        if done[0] != 0 && !nix::unistd::geteuid().is_root() {
            eprintln!("SKIPPED: {}", std::io::Error::last_os_error());
            return None;
        }
        assert_eq!(done, [0, 0], "{}", std::io::Error::last_os_error());
        let stopped = Self(tid);
        stopped.wait();
        Some(stopped)
    }

    /// Waits until it has stopped, or ended.
    fn wait(&self) {
        // SAFETY: waitpid(2) may be given no place for the status.
        unsafe { libc::waitpid(self.0, std::ptr::null_mut(), libc::__WALL) };
    }
}

/// One worker stands still; the others go on, and the daemon ends when it is to.
#[test]
fn a_worker_that_stands_still_stops_nobody_else() {
    // For longer than a worker is waited for.
    const COUNT: usize = 1_000;
    let Some(bed) = Bed::new() else { return };
    bed.with_workers(2);
    let variants = variants(SHAPED);
    let network = bed.up("changing", &variants[0]);
    let pid = network.status().unwrap().pid;
    // Both are at the first worker.
    let pair = PAIRS[0];
    bed::ping(&network, pair.0, &["-4"], 3, pair.1);
    let Some(stopped) = Stopped::new(pid, "worker-1") else { return };
    let mut pings = start_pings(&network, pair, "0.02", COUNT);
    network.apply(&source(&variants[3]), &Overrides::default()).unwrap();
    bed::ping(&network, "h6", &["-4"], 3, "h1");
    assert!(pings.try_wait().unwrap().is_none(), "it was there all the time");
    check_pings(pings, COUNT, pair);
    let error = network.apply(&source(&variants[0]), &Overrides::default()).unwrap_err();
    assert!(error.to_string().starts_with("worker-1 has not gone over"), "{error}");
    let end = std::thread::spawn({
        let network = network;
        move || network.down().unwrap_err().to_string()
    });
    // The thread ends with its process, which its tracer has to see.
    stopped.wait();
    let error = end.join().unwrap();
    assert_eq!(error, "the network is down, but worker-1 had not ended: what it was at had not returned");
    assert!(!bed::alive(pid) && bed.is_empty());
}
