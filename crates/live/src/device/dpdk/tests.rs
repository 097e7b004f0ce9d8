//! Ports on devices of DPDK that every machine has, without a network. Each test is a process of its own, and so is DPDK in it.

use std::os::fd::AsFd as _;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};

use super::port::DpdkPort;
use super::*;
use crate::dataplane::burst_of;
use crate::packet::PacketPort;
use crate::port::Unsent;
use crate::tap::VNET_HEADER;

fn device(name: &str) -> DpdkPort {
    DpdkPort::open(DpdkDevice::parse(name).unwrap().unwrap()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn why(name: &str) -> io::Error {
    DpdkPort::open(DpdkDevice::parse(name).unwrap().unwrap()).expect_err(name)
}

/// A frame behind a header that asks for nothing.
fn frame(number: u8, len: usize) -> Vec<u8> {
    let mut frame = [&[0; VNET_HEADER], [2, 0, 0, 0, 0, 1].as_slice(), &[2, 0, 0, 0, 0, 2], &[0x88, 0xb5]].concat();
    frame.resize(VNET_HEADER + len, number);
    frame
}

fn until<T>(what: &str, mut so: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(done) = so() {
            return done;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        std::thread::yield_now();
    }
}

fn is_readable(port: &DpdkPort) -> bool {
    poll(&mut [PollFd::new(port.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO).unwrap() > 0
}

#[test]
fn net_null_forwards() {
    let (mut one, mut two) = (device("dpdk:net_null0,size=100"), device("dpdk:net_null1,no-rx=1"));
    assert!(burst_of(&mut two).is_empty());
    // More than there are buffers: each is given back.
    for _ in 0..200 {
        let burst = burst_of(&mut one);
        assert!(burst.len() == 64 && burst.iter().all(|frame| frame.len() == VNET_HEADER + 100), "{}", burst.len());
        for frame in &burst {
            assert_eq!(frame[..VNET_HEADER], [0; VNET_HEADER]);
            two.write(frame).unwrap();
        }
        assert_eq!((two.flush(), two.is_waiting()), (Unsent::default(), false));
    }
    // A device is there once, and again when it was closed.
    assert_eq!(why("dpdk:net_null0").kind(), io::ErrorKind::AlreadyExists);
    drop(one);
    assert_eq!(burst_of(&mut device("dpdk:net_null0"))[0].len(), VNET_HEADER + 64);
    assert_eq!(why("dpdk:net_nonsense0").kind(), io::ErrorKind::NotFound);
    assert!(burst_of(&mut two).is_empty());
}

#[test]
fn two_rings_give_back_what_each_was_given() {
    let mut ports = [device("dpdk:net_ring0"), device("dpdk:net_ring1")];
    let mut buffer = [0; 3_000];
    for turn in 0..100 {
        for (at, port) in ports.iter_mut().enumerate() {
            for number in 0..40 {
                port.write(&frame(2 * number + at as u8, 60 + turn)).unwrap();
            }
            assert_eq!(port.flush(), Unsent::default());
        }
        for (at, port) in ports.iter_mut().enumerate() {
            for number in 0..40 {
                let len = port.read(&mut buffer).unwrap().expect("it is there at once");
                assert_eq!(buffer[..len], frame(2 * number + at as u8, 60 + turn));
            }
            assert_eq!(port.read(&mut buffer).unwrap(), None);
        }
    }
    let [port, _] = &mut ports;
    // One that is longer than a buffer of DPDK's, or no frame, is not sent.
    assert!(port.write(&frame(1, 2_049)).is_err() && port.write(&frame(1, 13)).is_err());
    assert!(port.write(&frame(1, 2_048)).is_ok() && port.is_waiting());
    assert_eq!(port.flush(), Unsent::default());
    // One for which there is no room is lost and counted.
    assert_eq!(port.read(&mut buffer[..1_000]).unwrap(), Some(0));
    assert_eq!(port.new_losses().unwrap(), 1);
    // A ring has room for 1,023.
    let (mut taken, mut unsent) = (0, Unsent::default());
    for number in 0..1_500 {
        taken += u64::from(port.write(&frame(number as u8, 60)).is_ok());
        if number % 64 == 63 {
            let more = port.flush();
            unsent.frames += more.frames;
            unsent.bytes += more.bytes;
        }
    }
    let more = port.flush();
    unsent.frames += more.frames;
    unsent.bytes += more.bytes;
    assert_eq!((taken - unsent.frames, unsent.bytes), (1_023, 60 * unsent.frames));
}

#[test]
fn what_the_network_has_left_undone_is_finished() {
    let mut port = device("dpdk:net_ring0");
    let mut buffer = [0; 3_000];
    // The sum from byte 14 on belongs at 16.
    let mut undone = frame(0, 60);
    undone[..VNET_HEADER].copy_from_slice(&[1, 0, 0, 0, 0, 0, 14, 0, 2, 0]);
    undone[VNET_HEADER + 14..][..6].copy_from_slice(&[0x12, 0x34, 0, 0, 0x11, 0x11]);
    port.write(&undone).unwrap();
    assert_eq!(port.flush(), Unsent::default());
    let len = port.read(&mut buffer).unwrap().unwrap();
    assert_eq!((len, &buffer[..VNET_HEADER]), (undone.len(), &[0; VNET_HEADER][..]));
    assert_eq!(buffer[VNET_HEADER + 14..][..6], [0x12, 0x34, 0xdc, 0xba, 0x11, 0x11]);
    // A header that means nothing.
    undone[1] = 1;
    assert!(port.write(&undone).is_err() && !port.is_waiting());
    assert_eq!(port.read(&mut buffer).unwrap(), None);
}

#[test]
fn a_port_sleeps_for_a_moment_at_a_time_while_nothing_comes() {
    let mut port = device("dpdk:net_ring0");
    let mut buffer = [0; 2_000];
    for number in 0..3 {
        until("it sleeps", || {
            assert_eq!(port.read(&mut buffer).unwrap(), None);
            (!is_readable(&port)).then_some(())
        });
        port.write(&frame(number, 60)).unwrap();
        port.flush();
        until("it is awake", || is_readable(&port).then_some(()));
        let len = port.read(&mut buffer).unwrap().unwrap();
        assert_eq!(buffer[..len], frame(number, 60));
        assert!(is_readable(&port), "it is polled while there is work");
    }
}

#[test]
fn net_af_packet_is_one_end_of_a_veth() {
    if unshare(CloneFlags::CLONE_NEWNET).is_err() {
        eprintln!("SKIPPED: not root: no network namespace of its own");
        return;
    }
    for line in ["link add d0 type veth peer name d1", "link set d0 up", "link set d1 up"] {
        let done = Command::new("ip").args(line.split(' ')).status().expect("ip runs");
        assert!(done.success(), "ip {line}");
    }
    assert_eq!(why("dpdk:net_af_packet0,iface=d9").kind(), io::ErrorKind::NotFound);
    let (mut own, mut theirs) = (device("dpdk:net_af_packet0,iface=d0"), PacketPort::open("d1").unwrap());
    let (mut buffer, mut number) = ([0; 3_000], 0);
    for len in [60, 61, 700, 1_514] {
        number += 1;
        until("a frame has come", || {
            own.write(&frame(number, len)).unwrap();
            assert_eq!(own.flush(), Unsent::default());
            let read = theirs.read(&mut buffer).unwrap()?;
            (buffer[VNET_HEADER..read] == frame(number, len)[VNET_HEADER..]).then_some(())
        });
        until("a frame has come back", || {
            theirs.write(&frame(100 + number, len)).unwrap();
            theirs.flush();
            let read = own.read(&mut buffer).unwrap()?;
            (buffer[..read] == frame(100 + number, len)).then_some(())
        });
    }
}
