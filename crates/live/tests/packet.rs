//! Kernel network devices as ports: veth pairs in a namespace of each test's own.

use std::net::UdpSocket;
use std::time::Duration;

use live::packet::{PacketCounters, PacketPort};
use live::port::{Port, Unsent};
use nix::sched::{CloneFlags, unshare};

use crate::far_ends::{frame, ip, receive, wait_until_operational};

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
        wait_until_operational(&["left", "right"]);
        test();
    });
    thread.join().unwrap();
}

#[test]
fn frames_cross_in_order_and_own_ones_are_not_heard() {
    with_pair(|| {
        let (mut a, mut b) = (PacketPort::open("left").unwrap(), PacketPort::open("right").unwrap());
        for mark in 0..200_u8 {
            a.write(&frame(60 + usize::from(mark), mark)).unwrap();
        }
        assert_eq!(a.flush(), Unsent::default());
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
        assert_eq!(a.flush(), Unsent::default());
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
        sent -= a.flush().frames;
        let (mut buffer, mut came, mut dropped) = (vec![0; 2_000], 0, 0);
        let begun = std::time::Instant::now();
        // Which of them were dropped is known when all have passed.
        while came + dropped < sent && begun.elapsed() < Duration::from_secs(60) {
            while b.read(&mut buffer).unwrap().is_some() {
                came += 1;
            }
            dropped += b.counters().unwrap().ring_full;
        }
        assert!(came >= 256, "{came} in a ring of 256");
        assert_eq!(came + dropped, sent);
    });
}

#[test]
fn a_frame_beyond_the_buffer_is_counted_not_cut() {
    with_pair(|| {
        let (mut a, mut b) = (PacketPort::open("left").unwrap(), PacketPort::open("right").unwrap());
        a.write(&frame(1_000, 1)).unwrap();
        a.write(&frame(100, 2)).unwrap();
        assert_eq!(a.flush(), Unsent::default());
        let (mut buffer, begun) = (vec![0; 300], std::time::Instant::now());
        let mut read = None;
        while read.is_none() && begun.elapsed() < Duration::from_secs(60) {
            read = b.read(&mut buffer).unwrap();
        }
        assert_eq!(read, Some(HEADER + 100));
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
        for mark in 0..3 {
            a.write(&frame(60, mark)).unwrap();
        }
        assert_eq!(a.flush(), Unsent { frames: 3, bytes: 180 });
        // What is tried at once is refused at once, and what waited before it is lost with it.
        a.write(&frame(60, 3)).unwrap();
        let down = a.write(&frame(9_000, 4)).unwrap_err();
        assert_eq!(down.raw_os_error(), Some(nix::libc::ENETDOWN), "{down}");
        assert_eq!(a.flush(), Unsent { frames: 1, bytes: 60 });
        ip("link set left up");
        let mut b = PacketPort::open("right").unwrap();
        a.write(&frame(60, 5)).unwrap();
        assert_eq!(a.flush(), Unsent::default());
        assert_eq!(receive(&mut b)[HEADER..], frame(60, 5)[HEADER..], "nothing that was refused comes later");
    });
}

/// Small frames wait until they are flushed, or until they are too many; large ones go at once, and what waited goes before them.
#[test]
fn what_waits_is_sent_in_order_by_a_flush_or_by_a_large_frame() {
    with_pair(|| {
        ip("link set left mtu 9000");
        ip("link set right mtu 9000");
        let (mut a, mut b) = (PacketPort::open("left").unwrap(), PacketPort::open("right").unwrap());
        let mut buffer = vec![0; 70_000];
        let mut nothing_comes = |port: &mut PacketPort| port.read(&mut buffer).unwrap().is_none();
        let next = |port: &mut PacketPort| *receive(port).last().unwrap();
        a.write(&frame(60, 1)).unwrap();
        assert!(nothing_comes(&mut b), "it waits");
        assert_eq!(a.flush(), Unsent::default());
        assert_eq!(next(&mut b), 1);
        assert!(nothing_comes(&mut b));
        a.write(&frame(60, 2)).unwrap();
        a.write(&frame(8_000, 3)).unwrap();
        assert_eq!((next(&mut b), next(&mut b)), (2, 3));
        assert!(nothing_comes(&mut b));
        for mark in 0..=64 {
            a.write(&frame(60, mark)).unwrap();
        }
        for mark in 0..64 {
            assert_eq!(next(&mut b), mark, "no more than 64 wait");
        }
        assert!(nothing_comes(&mut b));
        assert_eq!(a.flush(), Unsent::default());
        assert_eq!(next(&mut b), 64);
        assert!(nothing_comes(&mut b));
        // Fewer of those that are larger.
        for mark in 0..60 {
            a.write(&frame(1_500, mark)).unwrap();
        }
        assert_eq!(next(&mut b), 0, "no more than 64 KiB wait");
        assert_eq!(a.flush(), Unsent::default());
        for mark in 1..60 {
            assert_eq!(next(&mut b), mark);
        }
    });
}

/// A frame that the kernel does not take is lost alone, wherever it is in a batch.
#[test]
fn a_frame_that_is_refused_does_not_take_others_with_it() {
    with_pair(|| {
        let (mut a, mut b) = (PacketPort::open("left").unwrap(), PacketPort::open("right").unwrap());
        for refused in [0, 3, 6] {
            for mark in 0..7 {
                let mut frame = frame(60, mark);
                if mark == refused {
                    // A checksum far behind the frame's end: no virtio-net header that the kernel takes.
                    (frame[0], frame[7]) = (1, 0x7f);
                }
                a.write(&frame).unwrap();
            }
            assert_eq!(a.flush(), Unsent { frames: 1, bytes: 60 });
            for mark in (0..7).filter(|mark| *mark != refused) {
                assert_eq!(receive(&mut b)[HEADER..], frame(60, mark)[HEADER..]);
            }
        }
    });
}
