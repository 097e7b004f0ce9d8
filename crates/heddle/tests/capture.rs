//! `heddle capture`: what crosses links of a running network, with real packets.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStderr, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use live::capture::Reader;
use live::sniffer::Direction;
use live::sniffer::pcapng::{Block, Blocks};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use wire::{EthernetPacket, Ipv4Packet, ethertype, protocol};

use crate::live::{may_run, up};
use crate::program::Desk;

/// Two leaves with two hosts each, and two equal paths between them.
const LAB: &str = "\
topology: { leaf-spine: { leaves: 2, spines: 2, hosts-per-leaf: 2 } }
spread: ecmp
";

/// A link that takes its time.
const SHAPED: &str = "\
nodes: { h1: host, h2: host, s1: switch }
links:
  - { between: [h1, s1], rate: 20Mbit, delay: 1ms, queue: 50 }
  - { between: [h2, s1], rate: 20Mbit, delay: 1ms, queue: 50 }
";

/// A capture that has begun.
struct Running {
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// Where it says that it looks.
    first_line: String,
}

impl Running {
    fn start(desk: &Desk, args: &[&str]) -> Self {
        let mut command = desk.command(&[&["capture"], args].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be started");
        let mut stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut first_line = String::new();
        stderr.read_line(&mut first_line).expect("UTF-8");
        assert!(first_line.starts_with("Capturing at "), "{first_line}");
        Self { child, stderr, first_line }
    }

    fn interrupt(self, signal: Signal) -> (Vec<u8>, String) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).expect("it runs");
        self.wait()
    }

    /// What it wrote to standard output, and its last words.
    fn wait(mut self) -> (Vec<u8>, String) {
        let (mut stdout, mut said) = (Vec::new(), String::new());
        if let Some(mut out) = self.child.stdout.take() {
            out.read_to_end(&mut stdout).expect("it can be read");
        }
        self.stderr.read_to_string(&mut said).expect("UTF-8");
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}: {said}");
        (stdout, said)
    }
}

/// A frame of a capture.
#[derive(Debug)]
struct Seen {
    interface: u32,
    at_ns: u64,
    direction: Option<Direction>,
    length: u32,
    bytes: Vec<u8>,
}

impl Seen {
    /// Type and sequence number, of an echo over IPv4.
    fn echo(&self) -> Option<(u8, u16)> {
        let ethernet = EthernetPacket::new_checked(&self.bytes).ok()?;
        let ip = Ipv4Packet::new_checked(ethernet.payload()).ok().filter(|ip| ip.protocol() == protocol::ICMP)?;
        let &[kind, _, _, _, _, _, a, b] = ip.payload().first_chunk()?;
        Some((kind, u16::from_be_bytes([a, b])))
    }
}

fn read(capture: &[u8]) -> Vec<Seen> {
    let (mut blocks, mut frames) = (Blocks::default(), Vec::new());
    blocks.push(capture);
    while let Some((_, block)) = blocks.take_block().expect("it is a capture") {
        if let Block::Packet { interface, at_ns, direction, length, bytes } = block {
            frames.push(Seen { interface, at_ns, direction, length, bytes: bytes.to_vec() });
        }
    }
    // Who reads captures otherwise finds as many.
    let mut reader = Reader::new(capture).expect("it is a capture");
    let mut buffer = vec![0; 1 << 18];
    for frame in &frames {
        assert_eq!(reader.peek().expect("it is whole"), Some(frame.at_ns));
        assert_eq!(reader.read(&mut buffer).expect("it is whole"), Some(frame.bytes.len()));
    }
    assert_eq!(reader.peek().expect("it is whole"), None);
    frames
}

fn file(desk: &Desk, name: impl AsRef<Path>) -> Vec<u8> {
    std::fs::read(desk.path().join(name)).expect("it is there")
}

/// Pings over IPv4, so many times.
fn ping(desk: &Desk, from: &str, to: &str, count: &str) {
    desk.expect(0, &["exec", from, "ping", "-4", "-q", "-c", count, "-i", "0.01", "-W", "60", to]);
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_nanos() as u64
}

#[test]
fn pings_are_captured_in_both_directions() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    let before = now_ns();
    let link = Running::start(desk, &["h1-leaf1", "-w", "link.pcapng"]);
    assert!(
        link.first_line
            .starts_with("Capturing at h1:0 (to leaf1); Ctrl-C ends it and closes the file (--for 10s or --count 100 ")
    );
    // Another one at the same time, at a port, whose capture goes through a pipe.
    let port = Running::start(desk, &["leaf1:0", "icmp", "--name", "lab"]);
    assert!(port.first_line.contains(" as pcapng (`| tcpdump -r -`; --text for lines); "), "{}", port.first_line);
    let lines = Running::start(desk, &["leaf1:0", "icmp", "--text"]);
    assert!(lines.first_line.ends_with("; Ctrl-C ends it\n") && !lines.first_line.contains("pcapng"));
    // A file that a shell opens gets lines as well: nobody reads bytes there.
    let mut redirected = desk.command(&["capture", "leaf1:0", "icmp"]);
    let opened = std::fs::File::create(desk.path().join("lines.txt")).expect("it is new");
    let mut redirected = redirected.stdout(opened).stderr(Stdio::piped()).spawn().expect("it can be started");
    let mut stderr = BufReader::new(redirected.stderr.take().expect("it is piped"));
    let mut first_line = String::new();
    stderr.read_line(&mut first_line).expect("UTF-8");
    assert!(first_line.contains(", a line a frame (-w FILE writes pcapng); "), "{first_line}");
    ping(desk, "h1", "h3", "5");
    kill(Pid::from_raw(redirected.id().cast_signed()), Signal::SIGTERM).expect("it runs");
    assert!(redirected.wait().expect("it ends").success());
    let in_file = String::from_utf8(file(desk, "lines.txt")).expect("text");
    assert_eq!(in_file.lines().filter(|line| line.contains("ICMP")).count(), 10, "{in_file}");
    let (_, said) = link.interrupt(Signal::SIGINT);
    let (piped, _) = port.interrupt(Signal::SIGTERM);
    let (lines, _) = lines.interrupt(Signal::SIGTERM);
    let lines = String::from_utf8(lines).expect("text");
    assert_eq!(lines.lines().filter(|line| line.contains("ICMP")).count(), 10, "{lines}");
    let frames = read(&file(desk, "link.pcapng"));
    assert_eq!(said, format!("{} frames captured, 0 lost by the capture\n", frames.len()));
    assert!(frames.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns), "{frames:?}");
    assert!(frames.iter().all(|frame| (before..now_ns()).contains(&frame.at_ns)), "{frames:?}");
    assert!(frames.iter().all(|frame| frame.interface == 0 && frame.length as usize == frame.bytes.len()));
    let echoes = |frames: &[Seen], kind, direction| {
        let are = |frame: &&Seen| frame.direction == Some(direction) && frame.echo().is_some_and(|echo| echo.0 == kind);
        frames.iter().filter(are).map(|frame| frame.echo().expect("it is one").1).collect::<Vec<_>>()
    };
    let all = [1, 2, 3, 4, 5];
    assert_eq!(echoes(&frames, 8, Direction::Outbound), all);
    assert_eq!(echoes(&frames, 0, Direction::Inbound), all);
    // h1 asked who h3 is, and was answered.
    let arp = |direction| {
        let ethertype = |frame: &Seen| EthernetPacket::new_checked(&frame.bytes).map(|frame| frame.ethertype());
        frames.iter().any(|frame| frame.direction == Some(direction) && ethertype(frame) == Ok(ethertype::ARP))
    };
    assert!(arp(Direction::Outbound) && arp(Direction::Inbound), "{frames:?}");
    // From the other end of the link it is the other way round.
    let frames = read(&piped);
    assert_eq!(
        (echoes(&frames, 8, Direction::Inbound), echoes(&frames, 0, Direction::Outbound)),
        (all.into(), all.into())
    );
    assert_eq!(frames.len(), 10, "{frames:?}");
}

#[test]
fn a_filter_a_count_and_a_snaplen_hold_at_all_ports_of_a_switch() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    let args = ["leaf1", "-c", "4", "src", "host", "h3", "and", "icmp", "-s", "40", "-w", "-"];
    let capture = Running::start(desk, &args);
    for port in ["leaf1:0 (to h1)", "leaf1:1 (to h2)", "leaf1:2 (to spine1)", "leaf1:3 (to spine2)"] {
        assert!(capture.first_line.contains(port), "{}", capture.first_line);
    }
    ping(desk, "h1", "h3", "5");
    let (stdout, said) = capture.wait();
    assert!(said.starts_with("4 frames captured, 0 lost"), "{said}");
    let frames = read(&stdout);
    // Each reply comes by an uplink, and goes to h1.
    let ways: Vec<_> = frames.iter().map(|frame| (frame.interface == 0, frame.direction)).collect();
    let reply = [(false, Some(Direction::Inbound)), (true, Some(Direction::Outbound))];
    assert_eq!(ways, [reply, reply].concat(), "{frames:?}");
    assert!(frames.iter().all(|frame| frame.bytes.len() == 40 && frame.length == 98), "{frames:?}");
    // Nothing is left in the way: pings go on, and another capture sees them as data.
    let capture = Running::start(desk, &["h2", "-c", "2", "icmp", "-o", "json"]);
    ping(desk, "h2", "h1", "1");
    let (stdout, _) = capture.wait();
    let rows: Vec<Value> = String::from_utf8_lossy(&stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    assert_eq!((&rows[0]["direction"], &rows[1]["direction"]), (&"out".into(), &"in".into()), "{rows:?}");
    assert!(rows[0]["summary"].as_str().is_some_and(|text| text.contains("ICMP echo request")), "{rows:?}");
    assert_eq!((&rows[0]["protocol"], &rows[0]["source-port"]), (&"icmp".into(), &Value::Null), "{rows:?}");
    assert_eq!(
        (&rows[0]["source"], &rows[1]["source"]),
        (&rows[1]["destination"], &rows[0]["destination"]),
        "{rows:?}"
    );
    assert_eq!(rows[1]["port"], "h2:0 (to leaf1)");
}

/// Nobody knew whether nothing went by, or other frames than were meant.
#[test]
fn an_empty_capture_says_what_went_by() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    let capture = Running::start(desk, &["h1", "udp", "port", "53", "-w", "none.pcapng"]);
    ping(desk, "h1", "h3", "2");
    let (_, said) = capture.interrupt(Signal::SIGINT);
    assert!(said.starts_with("0 frames captured, 0 lost"), "{said}");
    assert!(
        said.contains("Frames passed that the filter `udp port 53` does not match: ") && said.contains(" IPv4"),
        "{said}"
    );
    let (_, said) = Running::start(desk, &["h2-leaf1", "vlan", "--for", "200ms", "-w", "none.pcapng"]).wait();
    assert!(said.starts_with("0 frames captured"), "{said}");
    let refused = desk.expect(2, &["capture", "h1", "host", "h9"]).1;
    assert!(
        refused.contains("the filter can't be used at `h9`") && refused.contains("did you mean `h1`?"),
        "{refused}"
    );
}

#[test]
fn where_links_take_time_each_frame_has_its_moment() {
    if !may_run() {
        return;
    }
    let guard = up(SHAPED);
    let desk = &guard.0;
    let capture = Running::start(desk, &["s1", "icmp", "-c", "12", "-w", "s1.pcapng"]);
    ping(desk, "h1", "h2", "3");
    capture.wait();
    let frames = read(&file(desk, "s1.pcapng"));
    for seq in 1..=3 {
        let at = |kind, direction| {
            let is_it = |frame: &&Seen| frame.echo() == Some((kind, seq)) && frame.direction == Some(direction);
            frames.iter().find(is_it).unwrap_or_else(|| panic!("{seq}: {frames:?}")).at_ns
        };
        let sent_ns = 98 * 8 * 50;
        for kind in [8, 0] {
            assert!(at(kind, Direction::Outbound) - at(kind, Direction::Inbound) >= sent_ns, "{frames:?}");
        }
        // There and back over h2's link.
        assert!(at(0, Direction::Inbound) - at(8, Direction::Outbound) >= 2_000_000 + sent_ns, "{frames:?}");
    }
}

#[test]
fn a_capture_goes_on_while_the_network_changes_and_ends_with_its_link() {
    if !may_run() {
        return;
    }
    let guard = up(SHAPED);
    let desk = &guard.0;
    let capture = Running::start(desk, &["h2-s1", "icmp", "-w", "link.pcapng"]);
    ping(desk, "h1", "h2", "2");
    // All have other numbers.
    let more =
        SHAPED.replace("h1: host,", "h0: host, h1: host,").replace("links:\n", "links:\n  - between: [h0, s1]\n");
    desk.write("lab.fabric.yaml", &more);
    desk.expect(0, &["up", "lab.fabric.yaml"]);
    ping(desk, "h1", "h2", "3");
    ping(desk, "h0", "h1", "1");
    let without =
        more.replace("h2: host, ", "").replace("  - { between: [h2, s1], rate: 20Mbit, delay: 1ms, queue: 50 }\n", "");
    desk.write("lab.fabric.yaml", &without);
    desk.expect(0, &["up", "lab.fabric.yaml"]);
    let (_, said) = capture.wait();
    assert!(said.starts_with("10 frames captured") && said.contains("the link is not in it any more"), "{said}");
    let frames = read(&file(desk, "link.pcapng"));
    assert_eq!(frames.iter().filter(|frame| frame.direction == Some(Direction::Inbound)).count(), 5);
    // The older format, where the name says so: a header, and frames alone.
    let capture = Running::start(desk, &["h1", "icmp", "-c", "2", "-w", "h1.pcap"]);
    ping(desk, "h0", "h1", "1");
    capture.wait();
    let bytes = file(desk, "h1.pcap");
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    assert_eq!([number(0), number(20)], [0xa1b2_3c4d, 1]);
    let first = number(32) as usize;
    assert_eq!((first, bytes.len()), (98, 24 + 2 * (16 + first)));
    assert_eq!(u16::from_be_bytes([bytes[52], bytes[53]]), ethertype::IPV4);
    // The network's end is the end of its captures.
    let capture = Running::start(desk, &["h1", "-w", "h1.pcapng"]);
    // By the name of its file.
    desk.expect(0, &["down", "lab.fabric.yaml"]);
    let (_, said) = capture.wait();
    assert!(said.contains("captured") && said.contains("; the network has ended\n"), "{said}");
    read(&file(desk, "h1.pcapng"));
}

#[test]
fn a_capture_of_a_node_takes_up_the_links_that_it_gets() {
    if !may_run() {
        return;
    }
    let guard = up(SHAPED);
    let desk = &guard.0;
    let capture = Running::start(desk, &["s1", "icmp", "-w", "s1.pcapng"]);
    let rows = Running::start(desk, &["s1", "icmp", "-c", "6", "-o", "json"]);
    ping(desk, "h1", "h2", "1");
    let more = SHAPED.replace("h2: host,", "h2: host, h3: host,") + "  - between: [h3, s1]\n";
    desk.write("lab.fabric.yaml", &more);
    desk.expect(0, &["up", "lab.fabric.yaml"]);
    ping(desk, "h3", "h1", "1");
    let (stdout, _) = rows.wait();
    assert!(String::from_utf8_lossy(&stdout).contains("\"port\":\"s1:2 (to h3)\""));
    let (_, said) = capture.interrupt(Signal::SIGINT);
    assert_eq!(said, "8 frames captured, 0 lost by the capture\n");
    let ports: Vec<u32> = read(&file(desk, "s1.pcapng")).iter().map(|frame| frame.interface).collect();
    assert_eq!(ports.iter().filter(|port| **port == 2).count(), 2, "{ports:?}");
}

#[test]
fn a_reader_that_stands_still_keeps_no_capture_from_ending() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    let capture = Running::start(desk, &["h1"]);
    // Nobody reads the pipe: it takes 64 KiB.
    desk.expect(0, &["exec", "h1", "ping", "-q", "-c", "100", "-i", "0.002", "-s", "1400", "h2"]);
    kill(Pid::from_raw(capture.child.id().cast_signed()), Signal::SIGINT).expect("it runs");
    let Running { mut child, mut stderr, .. } = capture;
    let mut said = String::new();
    stderr.read_to_string(&mut said).expect("UTF-8");
    assert!(said.contains("lost by the capture; whoever reads them takes no more"), "{said}");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn two_captures_are_not_written_into_one_file() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    let capture = Running::start(desk, &["h1", "icmp", "-w", "a.pcapng"]);
    let (_, stderr) = desk.expect(2, &["capture", "h2", "-w", "a.pcapng"]);
    assert!(stderr.contains("another capture is being written into it"), "{stderr}");
    ping(desk, "h1", "h2", "1");
    capture.interrupt(Signal::SIGINT);
    assert_eq!(read(&file(desk, "a.pcapng")).len(), 2);
}

/// Who writes into a file hears how that is ended; and a capture that is to last so long ends by itself, with a file that is whole.
#[test]
fn a_capture_lasts_as_long_as_it_is_to() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    let capture = Running::start(desk, &["h1", "icmp", "-w", "a.pcapng"]);
    assert!(capture.first_line.contains("; Ctrl-C ends it and closes the file (--for 10s or --count 100 "));
    ping(desk, "h1", "h2", "1");
    capture.interrupt(Signal::SIGINT);
    let capture = Running::start(desk, &["h1", "icmp", "-w", "b.pcapng", "--for", "300ms"]);
    assert!(capture.first_line.ends_with("; it ends by itself, or with Ctrl-C\n"), "{}", capture.first_line);
    let (_, said) = capture.wait();
    assert!(said.contains(" captured, 0 lost by the capture\n"), "{said}");
    assert_eq!((read(&file(desk, "a.pcapng")).len(), read(&file(desk, "b.pcapng")).len()), (2, 0));
}

#[test]
fn a_reader_that_goes_ends_the_capture() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    // More than there may be at one time, one after the other: each is forgotten.
    for _ in 0..20 {
        let mut capture = Running::start(desk, &["h1"]);
        drop(capture.child.stdout.take());
        let mut said = String::new();
        // Whatever its kernel says by itself would do as well.
        ping(desk, "h1", "h2", "1");
        capture.stderr.read_to_string(&mut said).expect("UTF-8");
        assert!(said.contains("captured, 0 lost by the capture\n"), "{said}");
        assert!(capture.child.wait().expect("it ends").success());
    }
    // One that is killed is forgotten, too.
    let capture = Running::start(desk, &["h1"]);
    let Running { mut child, .. } = capture;
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    ping(desk, "h1", "h2", "1");
}

/// Two cases with two runs each.
const SIMULATED: &str = "\
topology: { leaf-spine: { leaves: 2, spines: 2, hosts-per-leaf: 1 } }
links: { rate: 100Mbit, delay: 50us, queue: 50 }
experiments:
  spread:
    traffic: { pattern: { pairs: [[h1, h2]] } }
    vary: { spread: [single, packet-scatter] }
    for: 100ms
    repeat: 2
";

#[test]
fn a_simulated_run_is_captured_at_its_own_time_and_always_alike() {
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", SIMULATED);
    let capture = |args: &[&str]| desk.expect(0, &[&["capture"], args, &["--sim", "lab.fabric.yaml"]].concat());
    let (_, said) = capture(&["h1-leaf1", "-w", "a.pcapng"]);
    assert!(said.contains("Capturing at h1:0 (to leaf1) in a simulated run: spread, single, run 1"), "{said}");
    assert!(said.contains("frames captured; the run has ended"), "{said}");
    let whole = file(&desk, "a.pcapng");
    let frames = read(&whole);
    assert!(frames.len() > 500 && frames.is_sorted_by_key(|frame| frame.at_ns), "{}", frames.len());
    assert!(frames.last().is_some_and(|last| last.at_ns < 150_000_000));
    assert!(frames.iter().any(|frame| frame.length == 1_514 && frame.bytes.len() == 66));
    capture(&["h1-leaf1", "-w", "a.pcapng"]);
    assert!(file(&desk, "a.pcapng") == whole, "the same run has the same frames");

    // Another run is another one; where packets are scattered, a link has some of them.
    let other = ["--case", "packet-scatter", "--repeat", "2", "-e", "spread"];
    let (_, said) = capture(&[&["leaf1-spine1", "-w", "b.pcapng", "tcp", "and", "src", "h1"], &other[..]].concat());
    assert!(said.contains("spread, packet-scatter, run 2"), "{said}");
    let scattered = read(&file(&desk, "b.pcapng"));
    assert!(!scattered.is_empty() && scattered.iter().all(|frame| frame.direction == Some(Direction::Outbound)));

    let (_, said) = capture(&["leaf1", "src h2", "-c", "10", "-s", "100", "-w", "c.pcapng"]);
    assert!(said.ends_with("10 frames captured\n"), "{said}");
    let counted = read(&file(&desk, "c.pcapng"));
    assert!(counted.iter().all(|frame| frame.bytes.len() == 100.min(frame.length as usize)), "{counted:?}");
    assert_eq!(counted.len(), 10);

    let (_, said) = capture(&["h1-leaf1", "--for", "20ms", "-w", "d.pcapng"]);
    assert!(said.ends_with("frames captured; the time is over (`--for`)\n"), "{said}");
    let early: Vec<u64> = frames.iter().map(|frame| frame.at_ns).filter(|at| *at < 20_000_000).collect();
    assert_eq!(read(&file(&desk, "d.pcapng")).iter().map(|frame| frame.at_ns).collect::<Vec<_>>(), early);

    let (lines, _) = capture(&["h1", "-c", "3", "-o", "json"]);
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let flags: Vec<&str> = rows.iter().filter_map(|row| row["summary"].as_str()?.split(['[', ']']).nth(1)).collect();
    assert_eq!(flags, ["S", "S.", "."], "{lines}");
    assert!(!desk.path().join("results").exists(), "what it measures is not kept");
}

#[test]
fn what_cannot_be_captured_of_simulated_runs_is_explained() {
    let controllers = "controllers: { nodes: 3 }\nexperiments: { e: { cluster: { operations: [read] } } }\n";
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", SIMULATED);
    desk.write("controllers.fabric.yaml", controllers);
    for (args, expected) in [
        (vec!["h3", "--sim", "lab.fabric.yaml"], "there is no node `h3`"),
        (vec!["h1", "host", "h3", "--sim", "lab.fabric.yaml"], "the name of a host"),
        (vec!["h1", "--sim", "lab.fabric.yaml", "-e", "sprad"], "spread"),
        (vec!["h1", "--sim", "lab.fabric.yaml", "--case", "ecmp"], "there are: single; packet-scatter"),
        (vec!["h1", "--sim", "lab.fabric.yaml", "--repeat", "3"], "it has 2"),
        (vec!["h1", "--sim", "controllers.fabric.yaml"], "nothing to capture"),
        (vec!["h1", "--sim", "lab.fabric.yaml", "-n", "lab"], "cannot be used with"),
        (vec!["h1", "--case", "single"], "--sim"),
    ] {
        let (_, stderr) = desk.expect(2, &[&["capture"], &*args].concat());
        let stderr = stderr.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
    }
}

#[test]
fn what_cannot_be_captured_is_explained() {
    if !may_run() {
        return;
    }
    let guard = up(LAB);
    let desk = &guard.0;
    for (args, expected) in [
        (vec!["h11"], vec!["there is no node `h11`", "did you mean `h1`?"]),
        (vec!["h1-leaf2"], vec!["no link between `h1` and `leaf2`", "`h1` is linked to `leaf1`"]),
        (vec!["leaf1:4"], vec!["`leaf1` has no port 4", "leaf1:0 (to h1)"]),
        (vec!["h1", "tcp", "port", "http"], vec!["`http`", "a port's number", "pcap-filter(7)"]),
        (vec!["h1", "host", "h9"], vec!["`h9`", "the name of a host"]),
        (vec!["h1", "--count", "0"], vec!["--count"]),
        (vec!["h1", "-w", "none/x.pcapng"], vec!["none/x.pcapng", "make the folder first"]),
        (vec!["h1", "-w", "lab.fabric.yaml"], vec!["would be overwritten, and is no capture"]),
        (vec!["h1", "-w", "."], vec!["it is no file on a disk"]),
    ] {
        let (_, stderr) = desk.expect(2, &[&["capture"], &*args].concat());
        // Lines are cut.
        let stderr = stderr.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        for text in expected {
            assert!(stderr.contains(text), "{args:?}: {stderr}");
        }
    }
    assert_eq!(desk.read("lab.fabric.yaml"), LAB);
    desk.expect(0, &["down"]);
    let (_, stderr) = desk.expect(2, &["capture", "h1"]);
    assert!(stderr.contains("no network is running"), "{stderr}");
}
