//! Guests at vhost-user sockets of a network.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::bed::guest::{EVENT_IDX, Guest, MRG_RXBUF, TRANSMITQ, VERSION_1};
use crate::bed::{self, Bed, source};
use fabric::Overrides;
use live::Instance;

/// Two guests, one of them at a socket that is named, and two hosts.
const NETWORK: &str = "
name: guests
nodes:
  h1: { kind: host, ipv4: 10.0.0.1 }
  h2: { kind: host, ipv4: 10.0.0.2 }
  vm1: { kind: host, mac: '02:00:00:00:00:11', devices: ['vhost-user:'] }
  vm2: { kind: host, mac: '02:00:00:00:00:12', devices: ['vhost-user:SOCKET'] }
  s1: switch
links:
  - { between: [h1, s1] }
  - { between: [h2, s1] }
  - { between: [vm1, s1] }
  - { between: [vm2, s1] }
";

const FEATURES: u64 = VERSION_1 | EVENT_IDX | MRG_RXBUF;

struct Guests {
    bed: Bed,
    text: String,
}

impl Guests {
    fn new() -> Option<Self> {
        let bed = Bed::new()?;
        let text = NETWORK.replace("SOCKET", &bed.folder.path().join("vm2.sock").display().to_string());
        Some(Self { bed, text })
    }

    fn socket(&self, number: u8) -> PathBuf {
        let folder = self.bed.folder.path();
        if number == 1 { folder.join("heddle/guests/vhost-user/vm1.sock") } else { folder.join("vm2.sock") }
    }

    fn attach(&self, number: u8) -> Guest {
        Guest::attach(&self.socket(number), FEATURES)
    }
}

/// A frame from one guest to the other.
fn frame(from: u8, to: u8, number: u8) -> Vec<u8> {
    let mut frame = [[2, 0, 0, 0, 0, 0x10 + to], [2, 0, 0, 0, 0, 0x10 + from]].concat();
    frame.extend([0x88, 0xb5]);
    frame.resize(60, number);
    frame
}

/// Sends frames from one guest to the other until one has come: until both have a carrier, they are lost.
fn exchange((from, sender): (u8, &mut Guest), (to, receiver): (u8, &mut Guest), number: u8) {
    bed::wait_until("a frame has come", || {
        sender.send(&frame(from, to, number));
        std::iter::from_fn(|| receiver.receive()).any(|(_, received)| received == frame(from, to, number))
    });
}

fn fault(network: &Instance, host: &str) -> Option<String> {
    network.counters().unwrap().ports.into_iter().find(|port| port.host == host).unwrap().fault
}

#[test]
fn guests_exchange_frames_go_and_come_back_and_nobody_else_notices() {
    let Some(guests) = Guests::new() else { return };
    let network = guests.bed.up("guests", &guests.text);
    let (mut one, mut two) = (guests.attach(1), guests.attach(2));
    for number in 0..3 {
        exchange((1, &mut one), (2, &mut two), number);
        exchange((2, &mut two), (1, &mut one), number);
        // Another one attaches at once.
        drop(two);
        bed::ping(&network, "h1", &[], 1, "h2");
        two = guests.attach(2);
    }
    exchange((1, &mut one), (2, &mut two), 9);
    assert_eq!(network.counters().unwrap().refused.malformed, 0);
}

#[test]
fn a_guest_that_talks_nonsense_is_cut_off_with_a_reason_until_the_next_one_comes() {
    let Some(guests) = Guests::new() else { return };
    let network = guests.bed.up("guests", &guests.text);
    let (mut one, mut two) = (guests.attach(1), guests.attach(2));
    exchange((1, &mut one), (2, &mut two), 1);
    two.make_available(TRANSMITQ, 999);
    bed::wait_until("there is a reason", || fault(&network, "vm2").is_some());
    let reason = fault(&network, "vm2").unwrap();
    assert!(reason.contains("descriptor 999 in a table of 64"), "{reason}");
    assert_eq!(fault(&network, "vm1"), None);
    bed::ping(&network, "h1", &[], 1, "h2");
    drop(two);
    let mut two = guests.attach(2);
    exchange((1, &mut one), (2, &mut two), 2);
    bed::wait_until("nothing is wrong any more", || fault(&network, "vm2").is_none());
}

#[test]
fn a_guest_whose_chains_are_no_frames_harms_nobody_where_switches_speak_rstp() {
    let Some(guests) = Guests::new() else { return };
    let network = guests.bed.up("guests", &format!("{}switches: {{ s1: {{ rstp: true }} }}\n", guests.text));
    let (mut one, mut two) = (guests.attach(1), guests.attach(2));
    for _ in 0..1_000 {
        one.send(&[]);
    }
    exchange((1, &mut one), (2, &mut two), 1);
    assert_eq!(fault(&network, "vm1"), None);
}

#[test]
fn guests_stay_attached_while_the_network_changes_and_links_may_have_rates() {
    let Some(guests) = Guests::new() else { return };
    let network = guests.bed.up("guests", &guests.text);
    let (mut one, mut two) = (guests.attach(1), guests.attach(2));
    exchange((1, &mut one), (2, &mut two), 1);
    let shaped = guests.text.replace("[vm1, s1]", "[vm1, s1], rate: 1Gbit, delay: 1ms");
    network.apply(&source(&shaped), &Overrides::default()).unwrap();
    exchange((1, &mut one), (2, &mut two), 2);
    exchange((2, &mut two), (1, &mut one), 3);
    // A host of another name gets another socket, and the old one goes.
    let renamed = guests.text.replace("vm1", "vm3");
    network.apply(&source(&renamed), &Overrides::default()).unwrap();
    bed::wait_until("it is cut off", || one.is_cut_off());
    assert!(!guests.socket(1).exists() && guests.socket(1).with_file_name("vm3.sock").exists());
    drop(network);
    bed::wait_until("the network has gone", || guests.bed.is_empty());
    assert!(!guests.socket(2).exists());
}

/// A host, and a guest with two pairs of queues.
const QUEUES: &str = "
name: queues
nodes:
  h1: { kind: host, ipv4: 10.0.0.1 }
  vm1: { kind: host, ipv4: 10.0.0.2, mac: '02:00:00:00:00:11', devices: ['vhost-user:,queues=2'] }
  s1: switch
links: [{ between: [h1, s1] }, { between: [vm1, s1] }]
";

/// DPDK's testpmd behind a socket, with two pairs of queues: it sends datagrams back to where they are from.
struct Testpmd(Child);

impl Testpmd {
    fn start(socket: &Path, number: u32) -> Self {
        let device =
            format!("net_virtio_user0,path={},mac=02:00:00:00:00:11,queues=2,queue_size=256", socket.display());
        let prefix = format!("queues{}-{number}", std::process::id());
        let options = ["--no-pci", "--no-huge", "--no-shconf", "--no-telemetry", "-m", "256", "-l", "0,1"];
        let mut child = Command::new("dpdk-testpmd")
            .args(options)
            .args(["--file-prefix", &prefix, "--vdev", &device, "--", "-i", "--rxq=2", "--txq=2", "--nb-cores=1"])
            .args(["--total-num-mbufs=4096", "--forward-mode=5tswap"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.as_mut().unwrap().write_all(b"start\n").unwrap();
        Self(child)
    }

    /// Ends it; what it has said.
    fn end(mut self) -> String {
        // Whoever has ended says why.
        let _ = self.0.stdin.take().unwrap().write_all(b"show fwd stats all\nstop\nquit\n");
        let mut said = String::new();
        std::io::Read::read_to_string(&mut self.0.stdout.take().unwrap(), &mut said).unwrap();
        std::io::Read::read_to_string(&mut self.0.stderr.take().unwrap(), &mut said).unwrap();
        said
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn dpdk_uses_several_queues_and_comes_back_when_it_was_killed() {
    if Command::new("dpdk-testpmd").arg("--version").output().is_err() {
        eprintln!("dpdk-testpmd is not installed: not tried");
        return;
    }
    let Some(bed) = Bed::new() else { return };
    let network = bed.up("queues", QUEUES);
    let socket = bed.folder.path().join("heddle/queues/vhost-user/vm1.sock");
    let queues = || network.counters().unwrap().ports.into_iter().find(|port| port.host == "vm1").unwrap().queues_used;
    // Each from a port of its own, until an answer has come. Bash would read a byte of it, and lose the rest.
    let flows = "for n in $(seq 32); do until exec 3<>/dev/udp/10.0.0.2/9 && echo $n >&3 && [ \"$(timeout 1 head -n 1 <&3)\" = $n ]; do :; done; done; echo all";
    for number in 0..2 {
        let testpmd = Testpmd::start(&socket, number);
        bed::wait_until("both pairs are used", || queues() == [2]);
        assert_eq!(bed::output(network.command("h1", "bash", ["-c", flows])), "all\n");
        if number == 0 {
            // It is killed, and the next one is served.
            drop(testpmd);
            bed::wait_until("it has gone", || queues() == [0]);
            continue;
        }
        let said = testpmd.end();
        let packets = |queue: u32| {
            let at = said.find(&format!("RX Port= 0/Queue= {queue}")).unwrap_or_else(|| panic!("{said}"));
            let rest = said[at..].split_once("RX-packets:").unwrap_or_else(|| panic!("{said}")).1;
            rest.split_whitespace().next().unwrap().parse::<u64>().unwrap()
        };
        assert!(packets(0) > 0 && packets(1) > 0, "{said}");
    }
    assert_eq!(network.counters().unwrap().refused.malformed, 0);
}
