//! The way out of a network: pasta(1) carries what a host sends by its device [`DEVICE`] to the machine's own network, with sockets of an ordinary user.
//!
//! It has to be started where the machine's network is, which the daemon leaves for good ([`crate::namespace::isolate`]). So a process is forked before, which stays there, and
//! starts, watches and ends what the daemon says. It ends with the daemon, however that ends: then its end of the socket is closed.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, IntoRawFd as _, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fabric::{HostFile, Program, Restart, UPLINK};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, recvmsg, sendmsg,
    socketpair,
};
use nix::unistd::{ForkResult, fork};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::command::own;
use crate::programs::{Launch, ProgramState, Programs};

/// The program.
const PASTA: &str = "pasta";

/// What the host's device is called.
pub const DEVICE: &str = UPLINK;

/// The host's address there, the next hop, and what answers queries of the DNS: of a prefix that no network of hosts has (RFC 7335).
const ADDRESS: [&str; 4] = ["192.0.0.2", "29", "192.0.0.1", NAME_SERVER];
/// Where it asks for names.
pub const NAME_SERVER: &str = "192.0.0.3";

/// The same for IPv6, in a /64 of the prefix that hosts have (RFC 4193), where this machine has a way out by that. Programs that find both prefer IPv4 then (RFC 6724).
const ADDRESS_V6: [&str; 2] = ["fd68:6564:646c:ffff::2", "fd68:6564:646c:ffff::1"];

/// Bytes of a message between the two: each uplink takes a few hundred.
const MESSAGE_MAX: usize = 128 << 10;

/// Descriptors of a message: a user namespace, and a network namespace for each uplink.
const DESCRIPTORS_MAX: usize = 1 + fabric::UPLINKS_MAX;

/// What the daemon says.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// These run from now on, and no others. Behind it come the user namespace, if there is one, and the network namespaces.
    Apply { has_user: bool, wanted: Vec<Wanted> },
    /// How they do.
    States,
}

/// The uplink of a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wanted {
    /// The host's name.
    pub host: String,
    /// What identifies its network namespace.
    pub inode: u64,
    /// Where its output goes.
    pub output: PathBuf,
}

/// The process outside.
#[derive(Debug)]
pub struct Outside {
    socket: Mutex<OwnedFd>,
    user_namespace: Option<OwnedFd>,
}

/// Where a program is, among the folders of `PATH`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}

impl Outside {
    /// Forks it, if there is something that it could start. To be called while this process has one thread, and nothing open that others wait for the end of.
    pub fn start() -> Option<Self> {
        let pasta = find_program(PASTA)?;
        let (own, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).ok()?;
        // SAFETY: the process has one thread, as its callers see to, so the child finds no lock held by another one, and may do whatever the parent may.
        match unsafe { fork() }.ok()? {
            ForkResult::Parent { .. } => Some(Self { socket: Mutex::new(own), user_namespace: None }),
            ForkResult::Child => {
                drop(own);
                let _ = serve(&pasta, theirs);
                // SAFETY: it ends the process without what the parent has arranged to be done at its own end.
                unsafe { libc::_exit(0) }
            }
        }
    }

    /// The user namespace in which hosts are.
    pub fn set_user_namespace(&mut self, user: Option<OwnedFd>) {
        self.user_namespace = user;
    }

    /// These hosts have uplinks from now on, and no others.
    pub fn apply(&self, wanted: Vec<(Wanted, BorrowedFd<'_>)>) -> Result<(), Error> {
        let user = self.user_namespace.as_ref().map(OwnedFd::as_fd);
        let (wanted, namespaces): (Vec<Wanted>, Vec<BorrowedFd<'_>>) = wanted.into_iter().unzip();
        let descriptors: Vec<RawFd> = user.iter().chain(&namespaces).map(BorrowedFd::as_raw_fd).collect();
        self.ask::<()>(&Order::Apply { has_user: user.is_some(), wanted }, &descriptors)
    }

    /// How they do.
    pub fn states(&self) -> Vec<ProgramState> {
        self.ask(&Order::States, &[]).unwrap_or_default()
    }

    fn ask<T: for<'a> Deserialize<'a>>(&self, order: &Order, descriptors: &[RawFd]) -> Result<T, Error> {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let text = serde_json::to_vec(order).expect("orders can be written");
        let rights = [ControlMessage::ScmRights(descriptors)];
        let rights = &rights[..usize::from(!descriptors.is_empty())];
        sendmsg::<UnixAddr>(socket.as_raw_fd(), &[IoSlice::new(&text)], rights, MsgFlags::MSG_NOSIGNAL, None)
            .map_err(Error::system("ask the process that starts uplinks"))?;
        let mut buffer = vec![0; MESSAGE_MAX];
        let bytes = nix::sys::socket::recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())
            .map_err(Error::system("hear of the process that starts uplinks"))?;
        serde_json::from_slice(&buffer[..bytes]).map_err(|_| Error::Gone)
    }
}

/// What the process does that stays outside, until the daemon is gone.
fn serve(pasta: &Path, socket: OwnedFd) -> nix::Result<()> {
    // It ends when the daemon does, which whoever sends these to all of a terminal or a group means.
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        signals.add(signal);
    }
    signals.thread_block()?;
    let socket = keep_only(socket)?;
    drop_capabilities();
    let mut programs = Programs::default();
    // By host: its namespace, with what identifies it.
    let mut held: BTreeMap<String, (u64, OwnedFd)> = BTreeMap::new();
    let mut user = None;
    let mut buffer = vec![0; MESSAGE_MAX];
    loop {
        let (bytes, descriptors) = receive(&socket, &mut buffer)?;
        let reply = match serde_json::from_slice(&buffer[..bytes]) {
            // The daemon is gone: there are no bytes.
            Err(_) => break,
            Ok(Order::States) => serde_json::to_vec(&programs.states()),
            Ok(Order::Apply { has_user, wanted }) => {
                let mut descriptors = descriptors.into_iter();
                let new_user = has_user.then(|| descriptors.next()).flatten();
                user = user.or(new_user);
                for (wanted, namespace) in wanted.iter().zip(descriptors) {
                    // The same one stays under its number, which its program was started with.
                    let is_known = held.get(&wanted.host).is_some_and(|(inode, _)| *inode == wanted.inode);
                    if !is_known {
                        held.insert(wanted.host.clone(), (wanted.inode, namespace));
                    }
                }
                held.retain(|host, _| wanted.iter().any(|wanted| wanted.host == *host));
                let launches = wanted.into_iter().filter_map(|wanted| {
                    let (_, namespace) = held.get(&wanted.host)?;
                    Some(launch(pasta, wanted, namespace, user.as_ref()))
                });
                programs.apply(launches.collect());
                serde_json::to_vec(&())
            }
        };
        let reply = reply.expect("replies can be written");
        nix::sys::socket::send(socket.as_raw_fd(), &reply, MsgFlags::MSG_NOSIGNAL)?;
    }
    programs.end();
    Ok(())
}

/// A message and the descriptors that come with it.
fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> nix::Result<(usize, Vec<OwnedFd>)> {
    let mut space = nix::cmsg_space!([RawFd; DESCRIPTORS_MAX]);
    let mut parts = [IoSliceMut::new(buffer)];
    let message = recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(received) = control {
            descriptors.extend(received.into_iter().map(own));
        }
    }
    Ok((message.bytes, descriptors))
}

/// Keeps a descriptor, and none of those that the daemon was given: others may wait for the end of them.
fn keep_only(socket: OwnedFd) -> nix::Result<OwnedFd> {
    const FIRST: RawFd = 3;
    let null: OwnedFd =
        File::options().read(true).write(true).open("/dev/null").map_err(|_| nix::Error::ENODEV)?.into();
    nix::unistd::dup2_stdin(&null)?;
    nix::unistd::dup2_stdout(&null)?;
    nix::unistd::dup2_stderr(&null)?;
    // The numbers are closed below, whoever thought to own them.
    let (socket, _) = (socket.into_raw_fd(), null.into_raw_fd());
    // SAFETY: the two system calls take numbers by value. What had the number 3, and all above it, belonged to values of the daemon, none of which this process uses or drops any more: it
    // ends by `_exit`.
    unsafe {
        if socket != FIRST {
            libc::dup3(socket, FIRST, libc::O_CLOEXEC);
        }
        libc::syscall(libc::SYS_close_range, FIRST + 1, u32::MAX, 0);
    }
    Ok(own(FIRST))
}

/// Gives up capabilities, if it has any: pasta gives up most of its own before it opens a namespace by this process's descriptors, and may do so only for processes that have no more than
/// itself (ptrace(2)). What it starts as root has them again.
fn drop_capabilities() {
    /// `_LINUX_CAPABILITY_VERSION_3` of capset(2), and two sets of three words.
    const VERSION: u32 = 0x2008_0522;
    let header = [VERSION, 0];
    let none = [0_u32; 6];
    // SAFETY: capset(2) reads a header of two words and, in this version, six words, which live until it returns.
    unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
}

/// The program for a host.
fn launch(pasta: &Path, wanted: Wanted, namespace: &OwnedFd, user: Option<&OwnedFd>) -> Launch {
    let own = std::process::id();
    let path = |descriptor: &OwnedFd| format!("/proc/{own}/fd/{}", descriptor.as_raw_fd());
    let [address, prefix, gateway, name_server] = ADDRESS;
    let mut run: Vec<String> = vec![pasta.to_string_lossy().into_owned()];
    let words = ["--foreground", "--stderr", "--config-net", "--no-map-gw", "--no-netns-quit"];
    run.extend(words.map(str::to_owned));
    // Nobody comes in by it: no port of the machine leads to the host, and none of the host's to the machine's loopback.
    run.extend(["-t", "none", "-u", "none", "-T", "none", "-U", "none"].map(str::to_owned));
    run.extend(["-a", address, "-n", prefix, "-g", gateway, "--dns-forward", name_server].map(str::to_owned));
    let [address, gateway] = ADDRESS_V6;
    run.extend(["-a", address, "-g", gateway].map(str::to_owned));
    run.extend(["--ns-ifname", DEVICE].map(str::to_owned));
    match user {
        Some(user) => run.extend(["--userns".to_owned(), path(user)]),
        None => run.extend(["--netns-only", "--runas", "0:0"].map(str::to_owned)),
    }
    run.extend(["--netns".to_owned(), path(namespace)]);
    Launch {
        host: wanted.host,
        program: Program { name: UPLINK.to_owned(), run, restart: Restart::Always },
        namespace: None,
        root: None,
        container: None,
        hosts_file: String::new(),
        mounts: Vec::new(),
        // Another namespace may get the number of one that is gone: then it is another program.
        files: vec![HostFile { path: String::new(), text: wanted.inode.to_string() }],
        folder: PathBuf::from("/"),
        output: wanted.output,
        guest_status: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_for_as_many_as_there_can_be_fits_a_message() {
        let wanted = Wanted { host: "h".repeat(63), inode: u64::MAX, output: "/x".repeat(400).into() };
        let order = Order::Apply { has_user: true, wanted: vec![wanted; fabric::UPLINKS_MAX] };
        assert!(serde_json::to_vec(&order).unwrap().len() < MESSAGE_MAX);
    }

    #[test]
    fn nothing_leads_to_the_machines_loopback() {
        let null: OwnedFd = File::open("/dev/null").unwrap().into();
        let wanted = Wanted { host: "h1".to_owned(), inode: 7, output: PathBuf::new() };
        let run = |user: Option<&OwnedFd>| {
            launch(Path::new("/usr/bin/pasta"), wanted.clone(), &null, user).program.run.join(" ")
        };
        for (text, own) in
            [(run(None), "--netns-only --runas 0:0 --netns /proc/"), (run(Some(&null)), "--userns /proc/")]
        {
            assert!(text.contains("-t none -u none -T none -U none") && text.contains("--no-map-gw"), "{text}");
            assert!(text.contains(own), "{text}");
        }
    }
}
