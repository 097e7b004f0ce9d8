//! Kernel network devices as ports by `AF_XDP`: veth pairs in a namespace of each test's own.

use std::net::UdpSocket;

use live::port::{Port, Unsent};
use live::xdp::{LONGEST_FRAME, XdpPort};
use nix::sched::{CloneFlags, unshare};

use crate::bed;
use crate::far_ends::{frame, ip, receive, wait_until_operational};

const HEADER: usize = live::VNET_HEADER;

/// Runs a test in a network namespace of its own that has a veth pair, `left` and `right`; only root may hand frames to programs. `queues` is what the devices have.
fn with_pair(queues: u32, test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || {
        if !nix::unistd::geteuid().is_root() {
            return eprintln!("SKIPPED: XDP programs are for root");
        }
        unshare(CloneFlags::CLONE_NEWNET).expect("root may make network namespaces");
        ip("link set lo up");
        let [left, right] = [("left", 0x0a), ("right", 0x0b)].map(|(name, last)| {
            format!("{name} address 02:00:00:00:00:{last:02x} numtxqueues {queues} numrxqueues {queues}")
        });
        ip(&format!("link add name {left} type veth peer name {right}"));
        for device in ["left", "right"] {
            std::fs::write(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"), "1").unwrap();
            ip(&format!("link set {device} up"));
        }
        wait_until_operational(&["left", "right"]);
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// A frame goes from one port to the other.
fn cross(from: &mut XdpPort, to: &mut XdpPort, frame: &[u8]) {
    from.write(frame).unwrap();
    assert_eq!(from.flush(), Unsent::default());
    assert_eq!(receive(to), frame);
}

#[test]
fn frames_cross_in_order_however_many_there_are() {
    with_pair(1, || {
        let (mut a, mut b) = (XdpPort::open("left").unwrap(), XdpPort::open("right").unwrap());
        assert!(a.is_native());
        // More than all chunks, so each is used again.
        for round in 0..100 {
            for mark in 0..100_u8 {
                a.write(&frame(60 + usize::from(mark), mark)).unwrap();
            }
            assert_eq!(a.flush(), Unsent::default(), "round {round}");
            for mark in 0..100_u8 {
                assert_eq!(receive(&mut b), frame(60 + usize::from(mark), mark), "round {round}");
            }
        }
        let mut buffer = vec![0; 2_000];
        assert_eq!(a.read(&mut buffer).unwrap(), None);
        assert_eq!((a.new_losses().unwrap(), b.new_losses().unwrap()), (0, 0));
    });
}

/// Whichever of several queues a frame comes by.
#[test]
fn all_queues_of_a_device_are_read() {
    with_pair(2, || {
        ip("addr add 10.9.0.1/24 dev left");
        ip("neigh add 10.9.0.2 lladdr 02:00:00:00:00:0b dev left");
        let mut b = XdpPort::open("right").unwrap();
        // The kernel spreads flows over the queues by their hash.
        let sockets: Vec<_> = (0..32).map(|_| UdpSocket::bind("10.9.0.1:0").unwrap()).collect();
        for (mark, socket) in sockets.iter().enumerate() {
            socket.send_to(&[mark as u8; 40], "10.9.0.2:7").unwrap();
        }
        let mut marks: Vec<_> = (0..32).map(|_| *receive(&mut b).last().unwrap()).collect();
        marks.sort_unstable();
        assert_eq!(marks, (0..32).collect::<Vec<_>>());
    });
}

/// A veth pair leaves checksums to whoever gets the frame: the header says so, and what is sent on is complete.
#[test]
fn a_checksum_that_was_left_undone_is_completed() {
    with_pair(1, || {
        ip("addr add 10.9.0.1/24 dev left");
        ip("neigh add 10.9.0.2 lladdr 02:00:00:00:00:0b dev left");
        let mut b = XdpPort::open("right").unwrap();
        let socket = UdpSocket::bind("10.9.0.1:7").unwrap();
        socket.send_to(b"is it right?", "10.9.0.2:7").unwrap();
        let seen = receive(&mut b);
        assert_eq!((seen[0], &seen[6..10]), (1, &[34, 0, 6, 0][..]), "{seen:02x?}");
        // Back to where it came from, with the other address and as if it had come from there: the kernel looks at the checksum.
        let mut back = seen;
        back[HEADER..HEADER + 12].rotate_left(6);
        back[HEADER + 26..HEADER + 34].rotate_left(4);
        b.write(&back).unwrap();
        assert_eq!(b.flush(), Unsent::default());
        let mut buffer = [0; 100];
        socket.set_read_timeout(Some(bed::PATIENCE)).unwrap();
        let (len, from) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..len], from.to_string().as_str()), (&b"is it right?"[..], "10.9.0.2:7"));
    });
}

/// What a host sends uncut is cut here, since the device takes plain frames alone.
#[test]
fn large_segments_are_cut() {
    with_pair(1, || {
        let (mut a, mut b) = (XdpPort::open("left").unwrap(), XdpPort::open("right").unwrap());
        let payload: Vec<u8> = (0..3_500_u32).map(|n| (n % 251) as u8).collect();
        // UDP that is to be cut after 1,000 bytes (`VIRTIO_NET_HDR_GSO_UDP_L4`).
        let mut large = vec![1, 5, 42, 0, 0xe8, 3, 34, 0, 6, 0];
        large.extend([2, 0, 0, 0, 0, 0x0b, 2, 0, 0, 0, 0, 0x0a, 8, 0]);
        large.extend([0x45, 0, 0x0d, 0xc8, 0, 1, 0, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
        large.extend([0, 7, 0, 7, 0x0d, 0xb4, 0, 0]);
        large.extend(&payload);
        a.write(&large).unwrap();
        assert_eq!(a.flush(), Unsent::default());
        let pieces: Vec<_> = (0..4).map(|_| receive(&mut b)).collect();
        assert_eq!(
            pieces.iter().map(|piece| piece.len() - HEADER - 42).collect::<Vec<_>>(),
            [1_000, 1_000, 1_000, 500]
        );
        assert_eq!(pieces.iter().flat_map(|piece| &piece[HEADER + 42..]).copied().collect::<Vec<_>>(), payload);
        // Nothing is left to be done.
        assert!(pieces.iter().all(|piece| piece[..HEADER] == [0; HEADER]));
    });
}

#[test]
fn the_longest_frame_passes_and_one_byte_more_is_refused() {
    with_pair(1, || {
        let mtu = LONGEST_FRAME - 18;
        for device in ["left", "right"] {
            ip(&format!("link set {device} mtu {mtu}"));
        }
        let (mut a, mut b) = (XdpPort::open("left").unwrap(), XdpPort::open("right").unwrap());
        let longest = frame(mtu + 14, 9);
        cross(&mut a, &mut b, &longest);
        let refused = a.write(&frame(5_000, 9)).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(nix::libc::EMSGSIZE));
        // And takes nothing with it.
        cross(&mut a, &mut b, &frame(60, 1));
        // Its reader has less room than it is long.
        a.write(&frame(1_000, 2)).unwrap();
        a.write(&frame(100, 3)).unwrap();
        assert_eq!(a.flush(), Unsent::default());
        let mut buffer = vec![0; 300];
        let mut read = None;
        bed::wait_until("the short one comes", || {
            read = b.read(&mut buffer).unwrap();
            read.is_some()
        });
        assert_eq!((read, b.new_losses().unwrap(), b.new_losses().unwrap()), (Some(HEADER + 100), 1, 0));
    });
}

#[test]
fn what_finds_no_room_is_counted() {
    with_pair(1, || {
        let (mut a, mut b) = (XdpPort::open("left").unwrap(), XdpPort::open("right").unwrap());
        let mut sent = 0;
        for _ in 0..50 {
            sent += (0..100).map(|_| u64::from(a.write(&frame(60, 1)).is_ok())).sum::<u64>();
            sent -= a.flush().frames;
        }
        let (mut buffer, mut came, mut lost) = (vec![0; 2_000], 0, 0);
        bed::wait_until("each frame has come or is counted", || {
            while b.read(&mut buffer).unwrap().is_some() {
                came += 1;
            }
            lost += b.new_losses().unwrap();
            came + lost == sent
        });
        assert!(lost > 0 && came >= 2_000, "{came} came, {lost} were lost");
    });
}

#[test]
fn a_device_that_goes_down_says_so() {
    with_pair(1, || {
        let mut a = XdpPort::open("left").unwrap();
        let mut buffer = vec![0; 2_000];
        assert_eq!(a.read(&mut buffer).unwrap(), None);
        ip("link set left down");
        for mark in 0..3 {
            a.write(&frame(60, mark)).unwrap();
        }
        assert_eq!(a.flush(), Unsent { frames: 3, bytes: 180 });
        ip("link set left up");
        wait_until_operational(&["left", "right"]);
        let mut b = XdpPort::open("right").unwrap();
        // Nothing that was refused comes later.
        cross(&mut a, &mut b, &frame(60, 5));
        ip("link del left");
        let gone = a.read(&mut buffer).unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(nix::libc::ENETDOWN), "{gone}");
    });
}

#[test]
fn what_keeps_a_device_from_being_opened_is_said_in_words() {
    with_pair(1, || {
        let missing = XdpPort::open("nobody").unwrap_err();
        assert_eq!(missing.raw_os_error(), Some(nix::libc::ENODEV), "{missing}");
        let first = XdpPort::open("left").unwrap();
        let second = XdpPort::open("left").unwrap_err().to_string();
        assert_eq!(second, "another XDP program is on it");
        drop(first);
        // The program has left with the port.
        assert!(!ip("link show left").contains("xdp"), "{}", ip("link show left"));
        drop(XdpPort::open("left").unwrap());
        ip("link set left mtu 9000");
        let long = XdpPort::open("left").unwrap_err().to_string();
        assert!(long.starts_with("its MTU of 9000 bytes is more than the 3812 that an `xdp:` port takes"), "{long}");
    });
}

/// A device whose driver knows nothing of programs has it run by the kernel.
#[test]
fn a_device_without_a_driver_for_it_works_as_well() {
    with_pair(1, || {
        ip("link add br0 type bridge");
        ip("link set left master br0");
        ip("link set br0 up");
        wait_until_operational(&["br0"]);
        let (mut a, mut b) = (XdpPort::open("br0").unwrap(), XdpPort::open("right").unwrap());
        assert!(!a.is_native() && b.is_native());
        let mut to_all = frame(60, 1);
        to_all[HEADER..HEADER + 6].fill(0xff);
        cross(&mut b, &mut a, &to_all);
        cross(&mut a, &mut b, &to_all);
    });
}
