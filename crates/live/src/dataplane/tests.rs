//! Two workers, of which one is held inside a round while the network changes: the other one goes over to it, and nothing is lost.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::TryRecvError;

use fabric::Source;
use topology::Routes;
use vswitch::Pipelines;

use super::*;
use crate::device::Device;
use crate::port::Port;
use crate::tap::VNET_HEADER;

/// What does not happen within this does not happen.
const LONG: Duration = Duration::from_secs(60);

/// What a host of a test gives to its port.
enum Given {
    /// A frame.
    Frame(Vec<u8>),
    /// The worker that reads this goes on when the other end says so, or is gone.
    Hold(Sender<()>, Receiver<()>),
}

/// A port in memory.
#[derive(Debug)]
struct TestPort {
    readable: Arc<OwnedFd>,
    given: Receiver<Given>,
    taken: Sender<u32>,
}

impl AsFd for TestPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }
}

impl Port for TestPort {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.given.try_recv() {
                Ok(Given::Frame(frame)) => {
                    buffer[..VNET_HEADER].fill(0);
                    buffer[VNET_HEADER..VNET_HEADER + frame.len()].copy_from_slice(&frame);
                    return Ok(Some(VNET_HEADER + frame.len()));
                }
                Ok(Given::Hold(is_held, release)) => {
                    is_held.send(()).unwrap();
                    let _ = release.recv();
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => {
                    let mut count = [0; 8];
                    if nix::unistd::read(&*self.readable, &mut count).is_err() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        let number = frame[VNET_HEADER + 14..].first_chunk().unwrap();
        // The test may have seen enough.
        let _ = self.taken.send(u32::from_be_bytes(*number));
        Ok(())
    }

    fn is_waiting(&self) -> bool {
        false
    }
}

/// A host, from inside.
struct TestHost {
    device: Arc<Device>,
    readable: Arc<OwnedFd>,
    give: Sender<Given>,
    taken: Receiver<u32>,
}

impl TestHost {
    fn new() -> Self {
        let flags = nix::sys::eventfd::EfdFlags::EFD_NONBLOCK;
        let readable = Arc::new(OwnedFd::from(nix::sys::eventfd::EventFd::from_flags(flags).unwrap()));
        let ((give, given), (take, taken)) = (mpsc::channel(), mpsc::channel());
        let port = TestPort { readable: Arc::clone(&readable), given, taken: take };
        Self { device: Device::of_test(Box::new(port), Arc::clone(&readable)), readable, give, taken }
    }

    fn give(&self, given: Given) {
        self.give.send(given).unwrap();
    }

    fn show(&self) {
        nix::unistd::write(&*self.readable, &1_u64.to_ne_bytes()).unwrap();
    }

    /// Holds the worker that reads this host's port, as long as what is returned is there. It has read what was given before, and nothing that is given later.
    fn hold(&self) -> Sender<()> {
        let ((held, is_held), (release, wait)) = (mpsc::channel(), mpsc::channel());
        self.give(Given::Hold(held, wait));
        self.show();
        is_held.recv_timeout(LONG).unwrap();
        release
    }

    /// The next frame that the host is handed.
    fn next(&self) -> u32 {
        self.taken.recv_timeout(LONG).expect("a frame has come")
    }
}

struct Bed {
    hosts: BTreeMap<String, TestHost>,
    plane: DataPlane,
}

fn mac(host: &str) -> [u8; 6] {
    [2, 0, 0, 0, 0, host.as_bytes()[0]]
}

fn frame(from: &str, to: &str, number: u32) -> Given {
    let bytes = [&mac(to)[..], &mac(from), &[0x88, 0xb5], &number.to_be_bytes(), &[0; 42]].concat();
    Given::Frame(bytes)
}

/// A network of hosts that are each at the switch that is named, and of two switches, each of which is a worker's.
fn plan(hosts: &[(&str, &str)], trunk: &str, before: Option<&Plan>) -> Plan {
    let node = |host: &str| {
        format!("  {host}: {{ kind: host, mac: '02:00:00:00:00:{:02x}', devices: [dev{host}] }}\n", host.as_bytes()[0])
    };
    let nodes = hosts.iter().map(|(host, _)| node(host)).collect::<Vec<_>>().concat();
    let link = |(host, switch): &(&str, &str)| format!("  - between: [{host}, {switch}]\n");
    let links = hosts.iter().map(link).collect::<Vec<_>>().concat();
    let text = format!(
        "name: two\nnodes:\n{nodes}  s1: switch\n  s2: switch\nlinks:\n{links}  - {{ between: [s1, s2]{trunk} }}\n"
    );
    let fabric = fabric::parse(&Source { name: "test".to_owned(), text }).unwrap();
    let routes = Routes::compute(&fabric.topology);
    Plan::new(fabric, routes, 2, Pipelines::default(), before)
}

/// `a` and `b` are one worker's, `c` and `d` the other's.
const FOUR: [(&str, &str); 4] = [("a", "s1"), ("b", "s1"), ("c", "s2"), ("d", "s2")];

/// Without `d`, and with two others: all nodes, ports and links have other numbers.
const OTHERS: [(&str, &str); 5] = [("e", "s1"), ("f", "s2"), ("c", "s2"), ("a", "s1"), ("b", "s1")];

impl Bed {
    fn new(trunk: &str) -> Self {
        Self::at(Clock::start(Duration::ZERO), trunk)
    }

    fn at(clock: Clock, trunk: &str) -> Self {
        let hosts = ["a", "b", "c", "d", "e", "f"].map(|name| (name.to_owned(), TestHost::new())).into();
        let plan = plan(&FOUR, trunk, None);
        let attached = attached(&hosts, &FOUR);
        let plane = DataPlane::start(plan, attached, clock).unwrap();
        assert_eq!(plane.workers(), 2);
        Self { hosts, plane }
    }

    fn change(&mut self, hosts: &[(&str, &str)], trunk: &str) -> Result<(), Error> {
        let plan = plan(hosts, trunk, Some(self.plane.plan()));
        self.plane.change(plan, attached(&self.hosts, hosts))
    }

    /// The same without waiting for anybody.
    fn begin_change(&mut self, hosts: &[(&str, &str)], trunk: &str) {
        self.plane.patience = Duration::ZERO;
        self.change(hosts, trunk).unwrap();
        self.plane.patience = LONG;
    }

    /// What all workers have counted, once all have gone over.
    fn counters(&mut self) -> Counters {
        let started = Instant::now();
        while !self.plane.pending.is_empty() {
            self.plane.hear_of_change(Duration::from_millis(1));
            assert!(started.elapsed() < LONG, "all have gone over");
        }
        let counters = self.plane.counters();
        assert_eq!(counters.workers.len(), 2);
        counters
    }
}

fn attached(all: &BTreeMap<String, TestHost>, hosts: &[(&str, &str)]) -> Vec<Attached> {
    hosts.iter().map(|(host, _)| Attached::Devices(vec![Arc::clone(&all[*host].device)])).collect()
}

fn send(hosts: &BTreeMap<String, TestHost>, from: &str, to: &str, number: u32) {
    hosts[from].give(frame(from, to, number));
    hosts[from].show();
}

/// Has one host send to another until something has come: at first nobody knows of it.
fn send_until_heard(hosts: &BTreeMap<String, TestHost>, from: &str, to: &str) {
    let started = Instant::now();
    loop {
        send(hosts, from, to, 0);
        if hosts[to].taken.recv_timeout(Duration::from_millis(2)).is_ok() {
            return;
        }
        assert!(started.elapsed() < LONG, "{to} has heard nothing of {from}");
    }
}

#[test]
fn a_worker_that_is_held_keeps_no_other_one_from_going_over() {
    let mut bed = Bed::new("");
    send(&bed.hosts, "a", "c", 0);
    assert_eq!(bed.hosts["c"].next(), 0);
    let release = bed.hosts["c"].hold();
    bed.begin_change(&OTHERS, "");
    let hosts = &bed.hosts;
    // The new host comes to be there, and what the other ones say to each other comes in its order all the time.
    for number in 0.. {
        send(hosts, "a", "b", number);
        assert_eq!(hosts["b"].next(), number);
        send(hosts, "a", "e", number);
        if hosts["e"].taken.recv_timeout(Duration::from_millis(1)).is_ok() {
            break;
        }
    }
    // What is for hosts of the worker that is held waits for it, by the numbers of a network that it does not know yet.
    for number in 1..100 {
        send(hosts, "a", "c", number);
        send(hosts, "a", "f", number);
        send(hosts, "a", "b", number);
        assert_eq!(hosts["b"].next(), number);
    }
    assert_eq!(hosts["c"].taken.try_recv(), Err(TryRecvError::Empty));
    drop(release);
    for number in 1..100 {
        assert_eq!((hosts["c"].next(), hosts["f"].next()), (number, number));
    }
    send_until_heard(hosts, "f", "e");
    let counters = bed.counters();
    let traffic = |host: &str| counters.ports.iter().find(|port| port.host == host).unwrap().traffic;
    // Both were counted before and after.
    assert_eq!((traffic("c").received_packets, traffic("f").received_packets), (100, 99));
    assert!(traffic("a").sent_packets >= 3 * 100);
    let link = counters.links.iter().find(|link| link.a == "c").unwrap();
    assert_eq!(link.backward.packets, 100);
    let row = counters.forwarded.iter().filter(|row| row.host == "c").map(|row| row.packets);
    assert_eq!(row.sum::<u64>(), 2 * 100, "through two switches");
    assert_eq!((counters.refused.removed, counters.refused.ring_full), (0, 0));
}

/// A datagram over IPv4, which is known by its length where it comes out.
fn datagram(from: &str, to: &str, length: u8) -> (Given, u32) {
    let mut bytes = [&mac(to)[..], &mac(from), &[0x08, 0, 0x45, 0, 0, length, 0, 0, 0, 0, 64, 17]].concat();
    bytes.resize(14 + usize::from(length), 0);
    (Given::Frame(bytes), 0x4500_0000 | u32::from(length))
}

/// What is decided about frames with the same addresses at once is decided anew behind one that says where somebody is.
#[test]
fn who_is_heard_within_a_burst_is_known_to_the_rest_of_it() {
    let bed = Bed::new("");
    let hosts = &bed.hosts;
    send_until_heard(hosts, "a", "b");
    let release = hosts["b"].hold();
    let (before, first) = datagram("z", "x", 50);
    let (behind, _) = datagram("z", "x", 51);
    let (last, end) = datagram("a", "b", 52);
    let everybody = [&[0xff; 6][..], &mac("x"), &[0x88, 0xb5], &7_u32.to_be_bytes(), &[0; 42]].concat();
    for given in [before, Given::Frame(everybody), behind, last] {
        hosts["a"].give(given);
    }
    hosts["a"].show();
    drop(release);
    let taken: Vec<u32> = hosts["b"].taken.iter().filter(|number| *number != 0).take(3).collect();
    assert_eq!(taken, [first, 7, end], "the second datagram is for somebody at the port that it has come by");
}

/// What a port gives that has no Ethernet header goes nowhere, and harms nobody.
#[test]
fn what_is_no_frame_is_refused_before_anybody_looks_at_it() {
    // Where switches speak RSTP, frames are looked at first of all.
    let mut bed = Bed::new(" }\nswitches: { s1: { rstp: true }");
    for length in 0..14 {
        bed.hosts["a"].give(Given::Frame(vec![0x01; length]));
    }
    bed.hosts["a"].show();
    let started = Instant::now();
    while bed.counters().refused.malformed < 14 {
        assert!(started.elapsed() < LONG, "they are counted");
    }
}

/// What a worker hands over that has not gone over yet is of the network before.
#[test]
fn what_comes_from_the_network_before_is_renumbered() {
    let mut bed = Bed::new("");
    let release = bed.hosts["a"].hold();
    bed.begin_change(&OTHERS, "");
    let hosts = &bed.hosts;
    send_until_heard(hosts, "c", "f");
    // The rest of a burst that has begun in the network before; `d` is not there any more.
    for number in 0..20 {
        hosts["a"].give(frame("a", "c", number));
        hosts["a"].give(frame("a", "d", number));
    }
    drop(release);
    for number in 0..20 {
        assert_eq!(hosts["c"].next(), number);
    }
    let counters = bed.counters();
    assert_eq!(counters.refused.removed, 20, "{:?}", counters.refused);
    assert_eq!(bed.hosts["d"].taken.try_recv(), Err(TryRecvError::Disconnected), "its port has been thrown away");
}

/// Workers are asked one after the other, and tell of one moment: nothing has been delivered by one of them that another has not sent yet.
#[test]
fn all_workers_are_read_at_one_moment() {
    let mut bed = Bed::new(", rate: 1Gbit, queue: 1000");
    let started = Instant::now();
    let mut read = 0;
    for number in 0.. {
        send(&bed.hosts, "a", "c", number);
        send(&bed.hosts, "d", "b", number);
        if number % 8 != 0 {
            continue;
        }
        let counters = bed.counters();
        assert!(started.elapsed() < LONG, "a worker never hears in time of the moment");
        if counters.spread > nanos::Span::ZERO {
            continue;
        }
        let port = |host: &str| counters.ports.iter().find(|port| port.host == host).unwrap().traffic;
        let trunk = counters.links.iter().find(|link| link.a == "s1").unwrap();
        assert!(port("c").received_packets <= trunk.forward.packets, "{counters:?}");
        assert!(trunk.forward.packets <= port("a").sent_packets, "{counters:?}");
        assert!(port("b").received_packets <= trunk.backward.packets, "{counters:?}");
        read += 1;
        if read == 50 {
            break;
        }
    }
}

/// At the first rate, what waits would be there after a quarter of an hour.
#[test]
fn what_another_worker_has_of_a_link_comes_at_the_links_new_rate() {
    const SLOW: &str = ", rate: 100bit, queue: 1000";
    let mut bed = Bed::new(SLOW);
    for number in 0..200 {
        send(&bed.hosts, "a", "c", number);
    }
    let carried = |bed: &mut Bed| {
        let counters = bed.plane.counters();
        counters.links.iter().find(|link| link.a == "s1").unwrap().forward.packets
    };
    let started = Instant::now();
    while carried(&mut bed) < 200 {
        assert!(started.elapsed() < LONG, "{}", carried(&mut bed));
    }
    let others = [("e", "s1"), ("a", "s1"), ("c", "s2")];
    bed.change(&others, ", rate: 1Gbit, queue: 1000").unwrap();
    for number in 200..300 {
        send(&bed.hosts, "a", "c", number);
    }
    for number in 0..300 {
        assert_eq!(bed.hosts["c"].next(), number);
    }
    assert_eq!(carried(&mut bed), 300);
}

/// From a network in which workers share switches to one in which they do not, and back: who has a link or a port changes, and counts go on.
#[test]
fn counts_go_on_where_they_change_hands() {
    let mut bed = Bed::new("");
    let mut sent = 0;
    let names = ["a", "b", "c", "d"];
    for trunk in ["", ", rate: 1Gbit, queue: 1000", "", ", rate: 2Gbit, queue: 1000"] {
        bed.change(&FOUR, trunk).unwrap();
        for from in names {
            for to in names.iter().filter(|to| **to != from) {
                send(&bed.hosts, from, to, sent);
                assert_eq!(bed.hosts[*to].next(), sent);
            }
        }
        sent += 1;
        let counters = bed.plane.counters();
        let total = u64::from(3 * sent);
        for (port, link) in counters.ports.iter().zip(&counters.links) {
            assert_eq!((port.traffic.sent_packets, port.traffic.received_packets), (total, total), "{}", port.host);
            assert_eq!((link.forward.packets, link.backward.packets), (total, total), "{}", link.a);
        }
        let row = counters.forwarded.iter().filter(|row| row.host == "d").map(|row| row.packets);
        assert_eq!(row.sum::<u64>(), u64::from(5 * sent), "d");
    }
}

/// A packet that was handed over by the clock of before is due by that of now.
#[test]
fn a_clock_is_set_back_while_a_worker_is_held() {
    let mut clock = Clock::start(crate::clock::LIMIT + Duration::from_secs(5));
    let mut bed = Bed::at(clock, ", rate: 1Gbit, delay: 1ms, queue: 1000");
    let by = clock.set_back().unwrap();
    let release = bed.hosts["a"].hold();
    bed.plane.patience = Duration::ZERO;
    bed.plane.set_back(clock, by);
    let started = Instant::now();
    while bed.plane.pending.len() > 1 {
        bed.plane.hear_of_change(Duration::from_millis(1));
        assert!(started.elapsed() < LONG, "the worker that is not held has the other clock");
    }
    let hosts = &bed.hosts;
    for number in 0..20 {
        send(hosts, "c", "d", number);
        assert_eq!(hosts["d"].next(), number);
        hosts["a"].give(frame("a", "c", number));
        send(hosts, "c", "a", number);
    }
    drop(release);
    for number in 0..20 {
        assert_eq!((hosts["c"].next(), hosts["a"].next()), (number, number));
    }
}

#[test]
fn a_worker_that_never_returns_keeps_nobody_from_ending() {
    let mut bed = Bed::new("");
    bed.plane.patience = Duration::from_millis(50);
    let release = bed.hosts["c"].hold();
    // The other one has gone over, and this one is not waited for again.
    bed.change(&OTHERS, "").unwrap();
    let error = bed.change(&FOUR, "").unwrap_err();
    assert_eq!(error.to_string().split(' ').next(), Some("worker-1"));
    send_until_heard(&bed.hosts, "a", "e");
    bed.plane.set_links(&[(LinkId(0), false), (LinkId(0), true)]);
    assert_eq!(bed.plane.counters().workers.len(), 1);
    drop(bed.plane);
    drop(release);
}

#[test]
fn a_worker_that_was_held_for_long_is_waited_for_again() {
    let mut bed = Bed::new("");
    bed.plane.patience = Duration::from_millis(50);
    let release = bed.hosts["c"].hold();
    bed.change(&OTHERS, "").unwrap();
    drop(release);
    send_until_heard(&bed.hosts, "a", "f");
    bed.plane.patience = LONG;
    bed.counters();
    bed.change(&OTHERS[1..], "").unwrap();
    send(&bed.hosts, "a", "f", 7);
    assert!(bed.hosts["f"].taken.iter().any(|number| number == 7));
}
