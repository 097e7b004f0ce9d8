//! Kernel network devices as ports: veth pairs in a namespace of each test's own.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::Duration;

use live::packet::{PacketCounters, PacketPort};
use live::port::Port;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};

const HEADER: usize = live::VNET_HEADER;

/// Runs a test in a network namespace of its own that has a veth pair, `left` and `right`; not where this user may not.
fn with_pair(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || {
        if unshare(CloneFlags::CLONE_NEWNET).is_err() {
            assert!(!nix::unistd::geteuid().is_root(), "root may make network namespaces");
            eprintln!("SKIPPED: only root may make network namespaces without a user namespace");
            return;
        }
        ip("link set lo up");
        ip("link add name left address 02:00:00:00:00:0a type veth peer name right address 02:00:00:00:00:0b");
        for device in ["left", "right"] {
            std::fs::write(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"), "1").unwrap();
            ip(&format!("link set {device} up"));
        }
        test();
    });
    thread.join().unwrap();
}

fn ip(args: &str) {
    let output = Command::new("ip").args(args.split(' ')).output().expect("ip runs");
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The next frame within two seconds.
fn receive(port: &mut PacketPort) -> Vec<u8> {
    let mut buffer = vec![0; 70_000];
    for _ in 0..200 {
        if let Some(len) = port.read(&mut buffer).unwrap() {
            buffer.truncate(len);
            return buffer;
        }
        let mut ready = [PollFd::new(port.as_fd(), PollFlags::POLLIN)];
        poll(&mut ready, PollTimeout::from(10_u8)).unwrap();
    }
    panic!("nothing came within two seconds");
}

/// A frame behind an empty virtio-net header.
fn frame(len: usize, mark: u8) -> Vec<u8> {
    let mut frame = vec![0; HEADER];
    frame.extend([0x02, 0, 0, 0, 0, 0x0b, 0x02, 0, 0, 0, 0, 0x0a, 0x88, 0xb5]);
    frame.resize(HEADER + len, mark);
    frame
}

#[test]
fn frames_cross_in_order_and_own_ones_are_not_heard() {
    with_pair(|| {
        let (mut a, mut b) = (PacketPort::open("left").unwrap(), PacketPort::open("right").unwrap());
        for mark in 0..200_u8 {
            a.write(&frame(60 + usize::from(mark), mark)).unwrap();
        }
        for mark in 0..200_u8 {
            assert_eq!(receive(&mut b)[HEADER..], frame(60 + usize::from(mark), mark)[HEADER..]);
        }
        let mut buffer = vec![0; 2_000];
        assert_eq!(a.read(&mut buffer).unwrap(), None);
        assert_eq!(b.counters().unwrap(), PacketCounters::default());
    });
}

#[test]
fn a_tag_that_the_kernel_took_out_is_put_back() {
    with_pair(|| {
        let (mut a, mut b) = (PacketPort::open("left").unwrap(), PacketPort::open("right").unwrap());
        let mut tagged = frame(100, 7);
        tagged.splice(HEADER + 12..HEADER + 12, [0x81, 0x00, 0x60, 0x2a]);
        a.write(&tagged).unwrap();
        assert_eq!(receive(&mut b)[HEADER..], tagged[HEADER..]);
    });
}

/// The kernel hands over TCP segments larger than the MTU, and says so in the virtio-net header.
#[test]
fn large_segments_pass_whole() {
    with_pair(|| {
        ip("addr add 10.9.0.1/24 dev left");
        ip("neigh add 10.9.0.2 lladdr 02:00:00:00:00:0b dev left");
        let mut b = PacketPort::open("right").unwrap();
        // UDP that is cut by the device, not by IP: nobody has to answer, as TCP would need.
        let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
        nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::UdpGsoSegment, &1_000).unwrap();
        socket.send_to(&vec![5; 30_000], "10.9.0.2:7").unwrap();
        let mut bytes = 0;
        while bytes < 30_000 {
            let seen = receive(&mut b);
            bytes += seen.len() - HEADER - 42;
        }
        assert_eq!(bytes, 30_000, "in one frame or in several");
    });
}

#[test]
fn a_full_ring_is_counted() {
    with_pair(|| {
        let (mut a, mut b) = (PacketPort::open("left").unwrap(), PacketPort::open("right").unwrap());
        let mut sent = 0_u64;
        for _ in 0..2_000 {
            sent += u64::from(a.write(&frame(60, 1)).is_ok());
        }
        std::thread::sleep(Duration::from_millis(50));
        let mut buffer = vec![0; 2_000];
        let mut came = 0;
        while b.read(&mut buffer).unwrap().is_some() {
            came += 1;
        }
        assert!(came >= 256, "{came} in a ring of 256");
        assert_eq!(came + b.counters().unwrap().ring_full, sent);
    });
}

#[test]
fn a_frame_beyond_the_buffer_is_counted_not_cut() {
    with_pair(|| {
        let (mut a, mut b) = (PacketPort::open("left").unwrap(), PacketPort::open("right").unwrap());
        a.write(&frame(1_000, 1)).unwrap();
        a.write(&frame(100, 2)).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let mut buffer = vec![0; 300];
        assert_eq!(b.read(&mut buffer).unwrap(), Some(HEADER + 100));
        assert_eq!(b.counters().unwrap().too_long, 1);
    });
}

#[test]
fn a_device_that_goes_down_or_is_not_there_says_so() {
    with_pair(|| {
        let missing = PacketPort::open("nobody").unwrap_err();
        assert_eq!(missing.raw_os_error(), Some(nix::libc::ENODEV), "{missing}");
        let mut a = PacketPort::open("left").unwrap();
        let mut buffer = vec![0; 2_000];
        assert_eq!(a.read(&mut buffer).unwrap(), None);
        ip("link set left down");
        let gone = a.read(&mut buffer).unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(nix::libc::ENETDOWN), "{gone}");
        assert!(matches!(a.write(&frame(60, 0)), Err(error) if error.kind() == io::ErrorKind::NetworkDown));
    });
}
