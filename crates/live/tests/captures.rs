//! Captures that are played into a network, and written from it.

use std::path::Path;

use crate::bed::{self, Bed, source};
use fabric::{Overrides, Source};
use live::Instance;
use live::capture::{PACKET_MAX, Reader, Recorder};

/// `replay` is behind one capture, `sink` is written into another one; `h1` is a host as usual.
const NETWORK: &str = "
name: captures
nodes:
  h1: { kind: host, mac: '02:00:00:00:00:01', ipv4: 10.0.0.1 }
  replay: { kind: host, mac: '02:00:00:00:00:02', ipv4: 10.0.0.2, devices: ['pcap:rx=in.pcap,tx=back.pcap'] }
  sink: { kind: host, mac: '02:00:00:00:00:03', ipv4: 10.0.0.3, devices: ['pcap:tx=out.pcap'] }
  s1: switch
links:
  - { between: [h1, s1] }
  - { between: [replay, s1] }
  - { between: [sink, s1] }
";

const VNET_HEADER: usize = live::VNET_HEADER;

/// A frame from a stranger to the host of this number, which carries a number.
fn frame(to: u8, number: u8) -> Vec<u8> {
    // An ethertype for experiments (IEEE 802): kernels leave it alone.
    let mut frame = [[2, 0, 0, 0, 0, to].as_slice(), &[0x52, 0x54, 0, 0, 0, 9], &[0x88, 0xb5]].concat();
    frame.resize(60, number);
    frame
}

/// Writes a capture of such frames, each 2 ms after the one before it.
fn write_capture(path: &Path, frames: &[Vec<u8>]) {
    let mut recorder = Recorder::new(std::fs::File::create(path).unwrap());
    recorder.begin();
    for (at, frame) in frames.iter().enumerate() {
        recorder.record(at as u64 * 2_000_000, &[&[0; VNET_HEADER], frame.as_slice()].concat()).unwrap();
    }
    assert_eq!(recorder.flush().frames, 0);
}

/// The packets of a capture, as far as it has been written.
fn read_capture(path: &Path) -> Vec<Vec<u8>> {
    let Ok(mut reader) = std::fs::File::open(path).map_err(|_| ()).and_then(|file| Reader::new(file).map_err(|_| ()))
    else {
        return Vec::new();
    };
    let (mut buffer, mut frames) = (vec![0; PACKET_MAX as usize], Vec::new());
    while let Ok(Some(len)) = reader.read(&mut buffer) {
        frames.push(buffer[..len].to_vec());
    }
    frames
}

/// Makes a network of a file in this folder what it says.
fn apply(network: &Instance, folder: &Path, text: &str) -> Result<live::Applied, live::Error> {
    let name = folder.join("net.fabric.yaml").display().to_string();
    network.apply(&Source { name, text: text.to_owned() }, &Overrides::default())
}

fn sent(network: &Instance, host: &str) -> u64 {
    let counters = network.counters().unwrap();
    counters.ports.iter().find(|port| port.host == host).unwrap().traffic.sent_packets
}

/// Packets that the kernel of a host has been handed, as it counts them.
fn kernel_received(network: &Instance, host: &str) -> u64 {
    let text = bed::output(network.command(host, "sh", ["-c", "grep eth0 /proc/net/dev"]));
    let numbers = text.split_once(':').unwrap_or_else(|| panic!("{text}")).1;
    numbers.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_capture_is_played_to_hosts_and_recorded_and_the_recording_is_played_again() {
    let Some(bed) = Bed::new() else { return };
    let folder = bed.folder.path();
    // To h1, to the sink, and to nobody.
    let played: Vec<_> = (0..30).map(|number| frame([1, 3, 77][usize::from(number) % 3], number)).collect();
    write_capture(&folder.join("in.pcap"), &played);
    let network = bed.up("captures", "nodes: { a: host, b: host }\nlinks: [{ between: [a, b] }]\n");
    apply(&network, folder, NETWORK).unwrap();
    bed::wait_until("all is played", || sent(&network, "replay") == 30);
    bed::wait_until("the host has its frames", || kernel_received(&network, "h1") >= 10);
    let to_sink: Vec<_> = played.iter().filter(|frame| frame[5] == 3).cloned().collect();
    let is_of_capture = |frame: &Vec<u8>| frame[12..14] == [0x88, 0xb5];
    let recorded = || -> Vec<_> { read_capture(&folder.join("out.pcap")).into_iter().filter(is_of_capture).collect() };
    bed::wait_until("the recorder has its frames", || recorded().len() >= 10);
    assert_eq!(recorded(), to_sink);
    assert_eq!(network.counters().unwrap().refused.unknown_destination, 10);
    // The same file again changes nothing: what was played is not played again.
    assert_eq!(apply(&network, folder, NETWORK).unwrap().kept, 7);
    // What was recorded is played in its turn, beside what goes on.
    let text =
        NETWORK.replace("rx=in.pcap,tx=back.pcap", "rx=out.pcap,speed=max").replace("tx=out.pcap", "tx=again.pcap");
    apply(&network, folder, &text).unwrap();
    let again = || -> Vec<_> { read_capture(&folder.join("again.pcap")).into_iter().filter(is_of_capture).collect() };
    bed::wait_until("what was recorded is played and recorded again", || again().len() >= 10);
    assert_eq!(again(), to_sink);
    assert!(bed::falls_asleep(network.status().unwrap().pid), "a capture that has been played keeps nobody awake");
    network.down().unwrap();
    assert_eq!(read_capture(&folder.join("out.pcap")).into_iter().filter(is_of_capture).collect::<Vec<_>>(), to_sink);
}

#[test]
fn a_shaped_network_plays_and_records_what_kernels_send() {
    let Some(bed) = Bed::new() else { return };
    let folder = bed.folder.path();
    write_capture(&folder.join("in.pcap"), &[frame(3, 1), frame(3, 2)]);
    let text = NETWORK.replace("links:", "link-defaults: { rate: 100Mbit, delay: 50us }\nlinks:");
    let network = bed.up("shaped", "nodes: { a: host, b: host }\nlinks: [{ between: [a, b] }]\n");
    apply(&network, folder, &text).unwrap();
    // Each is in two fragments; nobody is there to answer.
    let mut ping =
        network.command("h1", "ping", ["-c", "3", "-i", "0.02", "-W", "0.1", "-s", "2000", "10.0.0.3"]).unwrap();
    assert!(!ping.output().unwrap().status.success(), "nobody answers");
    let of_host = || {
        let is_of_host = |frame: &Vec<u8>| frame[6..12] == [2, 0, 0, 0, 0, 1] && frame[12..14] == [8, 0];
        read_capture(&folder.join("out.pcap")).iter().filter(|frame| is_of_host(frame)).count()
    };
    bed::wait_until("all fragments are recorded", || of_host() >= 6);
    let from_capture = |frame: &Vec<u8>| frame[12..14] == [0x88, 0xb5];
    bed::wait_until("both frames are recorded", || {
        read_capture(&folder.join("out.pcap")).iter().filter(|frame| from_capture(frame)).count() == 2
    });
    network.down().unwrap();
}

#[test]
fn what_can_not_be_used_is_refused_before_anything_changes() {
    let Some(bed) = Bed::new() else { return };
    let folder = bed.folder.path();
    write_capture(&folder.join("in.pcap"), &[frame(3, 1)]);
    let network = bed.up("refused", "nodes: { a: host, b: host }\nlinks: [{ between: [a, b] }]\n");
    write_capture(&folder.join("out.pcap"), &[frame(1, 7)]);
    let yesterday = std::fs::read(folder.join("out.pcap")).unwrap();
    let text = NETWORK.replace("rx=in.pcap", "rx=no.pcap");
    let Err(live::Error::Refused { message, hint, at }) = apply(&network, folder, &text) else {
        panic!("it is not there")
    };
    assert_eq!(at, ["nodes", "replay", "devices", "pcap:rx=no.pcap,tx=back.pcap"]);
    assert!(message.contains("host `replay`") && message.contains("no.pcap: it can't be read"), "{message}");
    assert!(hint.unwrap().contains("relative to the folder of the fabric file"));
    assert_eq!(std::fs::read(folder.join("out.pcap")).unwrap(), yesterday);
    assert!(!folder.join("back.pcap").exists());
    assert_eq!(network.status().unwrap().hosts, ["a", "b"]);
    // Relative to the working directory of the tests there is none of them.
    assert!(network.apply(&source(NETWORK), &Overrides::default()).is_err());
    network.down().unwrap();
}

#[test]
fn a_capture_that_is_cut_off_says_so_where_its_host_is_counted() {
    let Some(bed) = Bed::new() else { return };
    let folder = bed.folder.path();
    write_capture(&folder.join("in.pcap"), &[frame(3, 1), frame(3, 2)]);
    let whole = std::fs::metadata(folder.join("in.pcap")).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(folder.join("in.pcap")).unwrap().set_len(whole - 1).unwrap();
    let network = bed.up("cut-off", "nodes: { a: host, b: host }\nlinks: [{ between: [a, b] }]\n");
    apply(&network, folder, NETWORK).unwrap();
    let faults = || -> Vec<(String, String)> {
        let ports = network.counters().unwrap().ports;
        ports.into_iter().filter_map(|port| Some((port.host, port.fault?))).collect()
    };
    bed::wait_until("it is told", || !faults().is_empty());
    let [(host, fault)] = &faults()[..] else { panic!("one of them") };
    assert_eq!(host, "replay");
    assert!(fault.ends_with("in.pcap is played no further, after 1 packet: it is cut off: it ends behind packet 1, in the middle of what follows"), "{fault}");
    network.down().unwrap();
}
