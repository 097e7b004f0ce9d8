//! What runs in hosts, and what they find there.

use serde::Serialize;

/// What a host has of its own, beside its addresses. Live only.
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
    /// The machine that it is, if it is a virtual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm: Option<Vm>,
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
