//! The far ends of devices of the machine, in the test's hands: it is what is behind them.

use std::process::Command;

use live::VNET_HEADER;
use live::packet::PacketPort;
use live::port::Port;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};

use crate::bed::{self, Bed};

/// Runs a test in a network namespace of its own, with pairs dev0-far0 and dev1-far1; not where this user may not.
pub fn with_far_ends(test: impl FnOnce(&Bed, [PacketPort; 2]) + Send + 'static) {
    let thread = std::thread::spawn(move || {
        if !nix::unistd::geteuid().is_root() {
            return eprintln!("SKIPPED: devices of the machine are for root");
        }
        let Some(bed) = Bed::new() else { return };
        unshare(CloneFlags::CLONE_NEWNET).expect("root may make network namespaces");
        for n in 0..2 {
            ip(&format!("link add dev{n} type veth peer name far{n}"));
            ip(&format!("link set dev{n} up"));
            ip(&format!("link set far{n} up"));
        }
        wait_until_operational(&["dev0", "far0", "dev1", "far1"]);
        test(&bed, ["far0", "far1"].map(|device| PacketPort::open(device).unwrap()));
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// The kernel gives a device its queue a while after it is up, and until then drops without a word what is sent by it.
pub fn wait_until_operational(devices: &[&str]) {
    for device in devices {
        bed::wait_until("the device is operational", || ip(&format!("-o link show {device}")).contains("state UP"));
    }
}

/// Sets something up in that namespace, or asks for it.
pub fn ip(args: &str) -> String {
    let output = Command::new("ip").args(args.split(' ')).output().expect("ip runs");
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The next frame that comes by a port.
pub fn receive(port: &mut impl Port) -> Vec<u8> {
    let mut buffer = vec![0; 70_000];
    for _ in 0..6_000 {
        if let Some(len) = port.read(&mut buffer).unwrap() {
            buffer.truncate(len);
            return buffer;
        }
        let mut ready = [PollFd::new(port.as_fd(), PollFlags::POLLIN)];
        poll(&mut ready, PollTimeout::from(10_u8)).unwrap();
    }
    panic!("nothing came within a minute");
}

/// A frame behind an empty virtio-net header.
pub fn frame(len: usize, mark: u8) -> Vec<u8> {
    let mut frame = vec![0; VNET_HEADER];
    frame.extend([0x02, 0, 0, 0, 0, 0x0b, 0x02, 0, 0, 0, 0, 0x0a, 0x88, 0xb5]);
    frame.resize(VNET_HEADER + len, mark);
    frame
}
