//! The kernel's bond: made by `ip`, fed by a veth pair, listened to behind its members.
//!
//! ```text
//!   write --> in0 ==veth== in1 --tc--> bond0 --+--> b0 ==veth== p0 --> read
//!                                              +--> b1 ==veth== p1 --> read
//! ```
//!
//! A frame comes to the bond as one that is forwarded: the kernel has taken out its first tag, as a network card would.

use std::error::Error;
use std::fs;
use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

use live::VNET_HEADER;
use live::packet::PacketPort;
use live::port::{Port, Unsent};

/// How long the kernel may take to see a carrier; it looks every 10 ms.
const PATIENCE: Duration = Duration::from_secs(5);
/// The largest frame with its header.
const BUFFER: usize = 70_000;

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A bond of the kernel with its members' far ends.
pub struct Kernel {
    entrance: PacketPort,
    exits: Vec<PacketPort>,
    buffer: Vec<u8>,
}

impl Kernel {
    /// A bond with `members` members, all with carrier, and these options of `ip link add type bond`.
    pub fn new(options: &str, primary: Option<&str>, members: usize) -> Result<Self> {
        for (left, right) in [("in0", "in1")].map(|(left, right)| (left.to_owned(), right.to_owned())) {
            pair(&left, &right)?;
        }
        for member in 0..members {
            pair(&format!("b{member}"), &format!("p{member}"))?;
            ip(&format!("link set b{member} down"))?;
        }
        ip(&format!("link add bond0 type bond {options} miimon 10"))?;
        silence("bond0")?;
        for member in 0..members {
            ip(&format!("link set b{member} master bond0"))?;
        }
        if let Some(primary) = primary {
            fs::write("/sys/class/net/bond0/bonding/primary", primary)?;
        }
        ip("link set bond0 up")?;
        run("tc", "qdisc add dev in1 clsact")?;
        run("tc", "filter add dev in1 ingress matchall action mirred egress redirect dev bond0")?;
        let exits = (0..members).map(|member| PacketPort::open(&format!("p{member}"))).collect::<io::Result<_>>()?;
        let mut kernel = Self { entrance: PacketPort::open("in0")?, exits, buffer: vec![0; BUFFER] };
        for member in 0..members {
            Self::await_link(member, true)?;
        }
        kernel.drain(&mut |_, _| {})?;
        Ok(kernel)
    }

    /// Sends a frame through the bond. Bit *n* of what comes back: it left on member *n*; the second value tells whether it left unchanged.
    pub fn transmit(&mut self, frame: &[u8]) -> Result<(u32, bool)> {
        let mut whole = vec![0; VNET_HEADER];
        whole.extend(frame);
        self.entrance.write(&whole)?;
        if self.entrance.flush() != Unsent::default() {
            return Err("the device at the entrance has not taken a frame".into());
        }
        let (mut chosen, mut is_same) = (0, true);
        // All of it happens within the write: a guest has one CPU. A second look costs little.
        for _ in 0..2 {
            self.drain(&mut |member, seen| {
                chosen |= 1 << member;
                is_same &= seen == frame;
            })?;
            if chosen != 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok((chosen, is_same))
    }

    fn drain(&mut self, out: &mut impl FnMut(usize, &[u8])) -> Result<()> {
        for (member, exit) in self.exits.iter_mut().enumerate() {
            loop {
                match exit.read(&mut self.buffer) {
                    Ok(Some(len)) => out(member, &self.buffer[VNET_HEADER..len]),
                    Ok(None) => break,
                    // It went down; told once.
                    Err(error) if error.raw_os_error() == Some(nix::libc::ENETDOWN) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Takes a member's carrier away, or gives it back, and waits until the bond has seen it.
    pub fn carrier(&mut self, member: usize, up: bool) -> Result<()> {
        ip(&format!("link set p{member} {}", if up { "up" } else { "down" }))?;
        Self::await_link(member, up)?;
        self.drain(&mut |_, _| {})
    }

    fn await_link(member: usize, up: bool) -> Result<()> {
        let (file, wanted) =
            (format!("/sys/class/net/b{member}/bonding_slave/mii_status"), if up { "up" } else { "down" });
        let started = Instant::now();
        while fs::read_to_string(&file)?.trim() != wanted {
            if started.elapsed() > PATIENCE {
                return Err(format!("b{member} is not {wanted} after {PATIENCE:?}").into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // What follows from it is done by the same work item, a moment later.
        std::thread::sleep(Duration::from_millis(20));
        Ok(())
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let pairs = (0..self.exits.len()).map(|member| format!("b{member}"));
        for device in ["bond0".to_owned(), "in0".to_owned()].into_iter().chain(pairs) {
            let _ = ip(&format!("link del {device}"));
        }
    }
}

fn pair(left: &str, right: &str) -> Result<()> {
    ip(&format!("link add {left} type veth peer name {right}"))?;
    for device in [left, right] {
        silence(device)?;
        ip(&format!("link set {device} up"))?;
    }
    Ok(())
}

/// Keeps the kernel from sending frames of its own.
fn silence(device: &str) -> io::Result<()> {
    fs::write(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"), "1")
}

fn ip(args: &str) -> Result<()> {
    run("ip", args)
}

fn run(program: &str, args: &str) -> Result<()> {
    let output = Command::new(program).args(args.split_whitespace()).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} {args}: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}
