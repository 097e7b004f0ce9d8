//! What the name of a device stands for: a kind of port is one variant of [`DeviceName`].

use std::fmt;

use crate::{
    DpdkDevice, NotDpdk, NotPcap, NotTunnel, NotVhostUser, NullDevice, PcapDevice, TunnelDevice, VhostUserDevice,
};

/// What is at the end of a link of a host that is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceName<'a> {
    /// A network device of the machine.
    Kernel(&'a str),
    /// The same, whose driver hands its frames over before the kernel's stack sees them (`AF_XDP`).
    Xdp(&'a str),
    /// Nobody.
    Null(NullDevice),
    /// What a driver of DPDK has.
    Dpdk(DpdkDevice<'a>),
    /// Files.
    Pcap(PcapDevice<'a>),
    /// A socket.
    VhostUser(VhostUserDevice<'a>),
    /// Another machine.
    Tunnel(TunnelDevice<'a>),
}

/// What is wrong with the name of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyNot<'a> {
    /// Of a device of DPDK.
    Dpdk(NotDpdk<'a>),
    /// Of a capture.
    Pcap(NotPcap<'a>),
    /// Of a socket of vhost-user.
    VhostUser(NotVhostUser<'a>),
    /// Of a tunnel.
    Tunnel(NotTunnel<'a>),
}

impl fmt::Display for WhyNot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dpdk(why) => why.fmt(f),
            Self::Pcap(why) => why.fmt(f),
            Self::VhostUser(why) => why.fmt(f),
            Self::Tunnel(why) => why.fmt(f),
        }
    }
}

/// Why a text names no device, in the words of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotADevice<'a> {
    /// What it is not: `is no capture`.
    pub what: &'static str,
    /// What is wrong with it, where that can be said.
    pub why: Option<WhyNot<'a>>,
    /// The same in a few words, to stand under it.
    pub label: &'static str,
    /// What to write.
    pub hint: &'static str,
}

/// The longest name of a network device, in bytes: Linux's `IFNAMSIZ` less its end.
const LONGEST: usize = 15;

impl<'a> DeviceName<'a> {
    /// What a text names. No network device of Linux has a colon in its name, all others have one.
    ///
    /// # Errors
    /// If it names nothing that there is.
    pub fn parse(text: &'a str) -> Result<Self, NotADevice<'a>> {
        let (what, why, label, hint) = match text.split_once(':') {
            Some(("null", _)) => match NullDevice::of(text) {
                Some(device) => return Ok(Self::Null(device)),
                None => (
                    "is no null device",
                    None,
                    "not a length of frames",
                    "`null:` takes frames and sends none; `null:64` sends frames of 64 bytes, and any length from 60 to 1514 will do",
                ),
            },
            Some(("pcap", _)) => match PcapDevice::parse(text).transpose() {
                Ok(Some(device)) => return Ok(Self::Pcap(device)),
                failed => (
                    "is no capture",
                    failed.err().map(WhyNot::Pcap),
                    "not the name of files",
                    "`pcap:in.pcap` plays a file; `pcap:rx=in.pcap,tx=out.pcap` plays one and writes another, each of them optional; `speed=max` plays \
                     without regard to time stamps",
                ),
            },
            Some(("dpdk", _)) => match DpdkDevice::parse(text).transpose() {
                Ok(Some(device)) => return Ok(Self::Dpdk(device)),
                failed => (
                    "is no device of DPDK",
                    failed.err().map(WhyNot::Dpdk),
                    "not a device with its arguments",
                    "`dpdk:net_af_packet0,iface=eth1` is the device eth1 by DPDK's driver af_packet: the device's name and its arguments, as behind `--vdev` of DPDK's programs",
                ),
            },
            Some(("xdp", name)) if is_of_kernel(name) => return Ok(Self::Xdp(name)),
            Some(("xdp", _)) => (
                "can't be a network device",
                None,
                "no device's name behind `xdp:`",
                "`xdp:eth0` opens the device eth0 by AF_XDP: up to 15 characters without `/`, `:` and spaces, as `ip link` shows them",
            ),
            Some(("vhost-user", _)) => match VhostUserDevice::parse(text).transpose() {
                Ok(Some(device)) => return Ok(Self::VhostUser(device)),
                failed => (
                    "is no vhost-user device",
                    failed.err().map(WhyNot::VhostUser),
                    "not a socket",
                    "`vhost-user:` makes a socket in the network's runtime folder; `vhost-user:/tmp/vm1.sock` makes that one, `vhost-user:/tmp/vm1.sock,client` \
                     connects to it; `,queues=4` behind it for as many pairs of queues",
                ),
            },
            Some(("vxlan" | "geneve", _)) => match TunnelDevice::parse(text).transpose() {
                Ok(Some(device)) => return Ok(Self::Tunnel(device)),
                failed => (
                    "is no tunnel",
                    failed.err().map(WhyNot::Tunnel),
                    "not the end of a tunnel",
                    "`vxlan:192.0.2.7,vni=42` is a tunnel to that machine, `geneve:192.0.2.7,vni=42` another kind; `192.0.2.7:4790` has a port of its own, and so has \
                     `local=192.0.2.1:4790`, where datagrams come to",
                ),
            },
            _ if is_of_kernel(text) => return Ok(Self::Kernel(text)),
            _ => (
                "can't be a network device",
                None,
                "not a device's name",
                "up to 15 characters without `/`, `:` and spaces, as `ip link` shows them; `xdp:DEVICE`, the same by AF_XDP; `null:`, where nobody is; `pcap:FILE`, a capture; `vhost-user:SOCKET`, a guest; or `vxlan:ADDRESS,vni=N`, a tunnel",
            ),
        };
        Err(NotADevice { what, why, label, hint })
    }

    /// The kind of its port, in a word.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Kernel(_) => "af-packet",
            Self::Xdp(_) => "af-xdp",
            Self::Null(_) => "null",
            Self::Dpdk(_) => "dpdk",
            Self::Pcap(_) => "pcap",
            Self::VhostUser(_) => "vhost-user",
            Self::Tunnel(tunnel) => tunnel.kind.name(),
        }
    }

    /// What of it can be the end of one link only: a device of the machine, a capture that is written, a socket, a tunnel.
    pub const fn exclusive(self) -> Option<&'a str> {
        match self {
            Self::Kernel(name) | Self::Xdp(name) => Some(name),
            Self::Dpdk(device) => Some(device.name),
            Self::Pcap(capture) => capture.tx,
            Self::VhostUser(device) => device.socket,
            Self::Tunnel(device) => Some(device.name),
            Self::Null(_) => None,
        }
    }
}

/// Whether a network device of the machine can have this name: Linux's `dev_valid_name`.
fn is_of_kernel(text: &str) -> bool {
    let fits = !text.is_empty() && text.len() <= LONGEST && ![".", ".."].contains(&text);
    fits && text.chars().all(|c| !c.is_whitespace() && !c.is_control() && !"/:".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_called_as_linux_allows() {
        let is_device = |text: &str| DeviceName::parse(text).is_ok();
        assert!(
            [
                "eth0",
                "br-1.7",
                "tap@x",
                "xdp:eth0",
                "null:",
                "null:64",
                "dpdk:net_null0",
                "pcap:a/b.pcap",
                "pcap:rx=a,tx=b",
                "vhost-user:",
                "vhost-user:a,client",
                "vxlan:192.0.2.7,vni=42",
                "geneve:[::1]:7000,vni=42",
                &"x".repeat(15)
            ]
            .into_iter()
            .all(is_device)
        );
        assert!(
            ![
                "",
                ".",
                "..",
                "a/b",
                "a b",
                "a:1",
                "xdp:",
                "xdp:a/b",
                "xdp:xdp:a",
                "null:7",
                "dpdk:",
                "pcap:",
                "pcap:a,a",
                "vhost-user:a,b",
                "vxlan:192.0.2.7",
                &"x".repeat(16)
            ]
            .into_iter()
            .any(is_device)
        );
    }
}
