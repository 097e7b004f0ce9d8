//! How fast frames leave by a kernel device ([`live::packet::PacketPort`]): each by a call of its own, and in batches.
//!
//! `cargo run --release -p heddle-live --example packet_rate [SECONDS]`, as root: it makes a network namespace with a veth pair, and sends
//! for one second (or SECONDS) frames of 64 bytes and TCP segments of 64 KiB that the device is to cut. Nobody is at the other end: its
//! kernel drops what comes. One thread does all of it, the receiving end's share as well.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use live::VNET_HEADER;
use live::packet::PacketPort;
use live::port::Port;
use nix::sched::{CloneFlags, unshare};

/// Frames between two flushes, as after a worker's burst.
const BURSTS: [u32; 4] = [1, 4, 16, 64];
/// Bytes of an IPv4 header without options, and of a TCP one.
const HEADERS: [usize; 2] = [20, 20];
/// The longest IPv4 packet that is a whole number of segments of 1,448 bytes.
const SEGMENT: usize = 40 + 45 * 1_448;

fn main() -> ExitCode {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1.0);
    if unshare(CloneFlags::CLONE_NEWNET).is_err() {
        eprintln!("only root may make network namespaces");
        return ExitCode::FAILURE;
    }
    ip("link add name left address 02:00:00:00:00:0a type veth peer name right address 02:00:00:00:00:0b");
    for device in ["left", "right"] {
        ip(&format!("link set {device} up"));
    }
    for (name, frame) in [("64 B", small()), ("64 KiB", segment())] {
        for burst in BURSTS {
            let (frames, lost, took) = send(&frame, burst, Duration::from_secs_f64(seconds));
            let rate = frames as f64 / took.as_secs_f64();
            let gbit = rate * (frame.len() - VNET_HEADER) as f64 * 8.0 / 1e9;
            println!("{name:>6}, flush after {burst:>2}: {:.3} Mframes/s, {gbit:.2} Gbit/s, {lost} lost", rate / 1e6);
        }
    }
    ExitCode::SUCCESS
}

/// Sends for a while: frames, frames lost, and how long it took.
fn send(frame: &[u8], burst: u32, most: Duration) -> (u64, u64, Duration) {
    let mut port = PacketPort::open("left").expect("the device is there");
    let (mut frames, mut lost) = (0, 0);
    let started = Instant::now();
    while started.elapsed() < most {
        for _ in 0..1_024 / burst {
            lost += (0..burst).map(|_| u64::from(port.write(frame).is_err())).sum::<u64>();
            lost += port.flush().frames;
            frames += u64::from(burst);
        }
    }
    (frames, lost, started.elapsed())
}

fn ethernet(ethertype: [u8; 2]) -> Vec<u8> {
    [&[0; VNET_HEADER][..], &[2, 0, 0, 0, 0, 0x0b, 2, 0, 0, 0, 0, 0x0a], &ethertype].concat()
}

/// A frame of no protocol that anybody knows.
fn small() -> Vec<u8> {
    let mut frame = ethernet([0x88, 0xb5]);
    frame.resize(VNET_HEADER + 64, 0);
    frame
}

/// A large TCP segment, whose checksum is to be filled in.
fn segment() -> Vec<u8> {
    let mut frame = ethernet([0x08, 0x00]);
    let [ip, tcp] = HEADERS;
    let start = frame.len();
    frame.resize(start + SEGMENT, 0);
    // `VIRTIO_NET_HDR_F_NEEDS_CSUM`, `VIRTIO_NET_HDR_GSO_TCPV4`, and where headers and checksum are.
    frame[..2].copy_from_slice(&[1, 1]);
    let lengths = [14 + ip + tcp, 1_448, 14 + ip, 16].map(|value| (value as u16).to_ne_bytes());
    frame[2..VNET_HEADER].copy_from_slice(lengths.as_flattened());
    let header = &mut frame[start..start + ip];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&(SEGMENT as u16).to_be_bytes());
    (header[8], header[9]) = (64, 6);
    header[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    let sum: u32 = header.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    frame[start + ip + 12] = 0x50;
    frame
}

fn ip(args: &str) {
    let output = Command::new("ip").args(args.split(' ')).output().expect("ip runs");
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
}
