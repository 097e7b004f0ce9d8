//! What runs in hosts, and what they find there.

use std::net::IpAddr;

use serde::Serialize;
use topology::VhostUserDevice;

/// What a host has of its own, beside its first addresses. Live only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostSetup {
    /// Programs that start with the network, in the order of the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Program>,
    /// Files that its programs see.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<HostFile>,
    /// Kernel parameters of its network namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sysctls: Vec<NetSysctl>,
    /// Addresses of the device besides the first one of each version.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<InterfaceAddress>,
    /// Its routes besides those to the subnets that it is in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<HostRoute>,
    /// The image of a container that is its root: a path from the folder of the file, or a name that begins with `docker://`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Of a function: the OCI bundle whose container it is, a path from the folder of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    /// How it reaches what is outside of the network, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uplink: Option<Uplink>,
    /// Whether its kernel passes on packets for others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forwards: bool,
    /// The machine that it is, if it is a virtual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm: Option<Vm>,
}

/// How a host reaches what is outside of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Uplink {
    /// As programs of the user do who has started the network, with addresses of the machine.
    Nat,
}

/// What the device of an uplink is called, and the program that carries it.
pub const UPLINK: &str = "uplink";

/// The most uplinks of a network.
pub const UPLINKS_MAX: usize = 64;

/// An address of a host's device, in a subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct InterfaceAddress {
    /// The address.
    pub address: IpAddr,
    /// Bits of the subnet's prefix.
    pub prefix: u8,
}

impl InterfaceAddress {
    /// Whether an address is in this subnet.
    pub fn has(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differs = own.to_bits() ^ other.to_bits();
                differs.checked_shr(32 - u32::from(self.prefix.min(32))).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differs = own.to_bits() ^ other.to_bits();
                differs.checked_shr(128 - u32::from(self.prefix.min(128))).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl std::fmt::Display for InterfaceAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// A route of a host, as ip-route(8) has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostRoute {
    /// Where it leads: all zeros with a prefix of no bits is the default route.
    pub destination: InterfaceAddress,
    /// The next hop; `None`: what is there is a neighbour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<IpAddr>,
    /// The device; `None`: that of the next hop's subnet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Of several to one place, the one with the lowest counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<u32>,
}

impl std::fmt::Display for HostRoute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.destination {
            InterfaceAddress { prefix: 0, .. } => f.write_str("default")?,
            destination => write!(f, "{destination}")?,
        }
        if let Some(via) = self.via {
            write!(f, " via {via}")?;
        }
        if let Some(device) = &self.device {
            write!(f, " dev {device}")?;
        }
        self.metric.map_or(Ok(()), |metric| write!(f, " metric {metric}"))
    }
}

/// A virtual machine. Files are relative to the folder of the fabric file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Vm {
    /// What runs it.
    pub hypervisor: Hypervisor,
    /// Its memory in bytes.
    pub memory_bytes: u64,
    /// Its processors.
    pub cpus: u32,
    /// Whether QEMU has KVM run it; `None`: where that can be had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kvm: Option<bool>,
    /// Its kernel, if it is not the usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// What the kernel has in memory when it starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initrd: Option<String>,
    /// Its disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// What a guest without a disk runs: a program and its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<Vec<String>>,
    /// More of the kernel's command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub append: Option<String>,
}

impl Vm {
    /// Pairs of queues that each of its network cards has: one for each processor, as far as there may be so many.
    pub fn queues(&self) -> u8 {
        VhostUserDevice::queues_of(self.cpus)
    }
}

/// What runs a virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hypervisor {
    /// A Linux kernel as an ordinary process.
    UserModeLinux,
    /// QEMU, with KVM where that works.
    Qemu,
}

impl Hypervisor {
    /// What the file calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UserModeLinux => "user-mode-linux",
            Self::Qemu => "qemu",
        }
    }
}

/// A program that starts with the network and ends with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Program {
    /// Unique in its host.
    pub name: String,
    /// The program and its arguments.
    pub run: Vec<String>,
    /// When it is started again.
    pub restart: Restart,
}

/// When a program that has ended is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// Always.
    Always,
    /// If it failed: its exit status is not zero, or a signal ended it.
    OnFailure,
    /// Never.
    Never,
}

/// A file that programs of a host see, and nobody else does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostFile {
    /// Where, from the root on.
    pub path: String,
    /// What is in it.
    pub text: String,
}

/// A kernel parameter of a host's network namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NetSysctl {
    /// Its name with slashes, as below `/proc/sys`: `net/ipv4/ip_forward`.
    pub name: String,
    /// What is written there.
    pub value: String,
}
