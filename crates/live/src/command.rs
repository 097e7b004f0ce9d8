//! Running a program in a host.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{SigSet, Signal};

use crate::Error;
use crate::files::{FileMount, lower_folders};

/// Takes possession of a descriptor that the kernel has just received for us.
pub fn own(raw: RawFd) -> OwnedFd {
    // SAFETY: recvmsg(2) made this descriptor for this process, and gave it to nobody but the caller.
    unsafe { OwnedFd::from_raw_fd(raw) }
}

/// What programs of a host see in place of files of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// As `/etc/hosts`.
    pub hosts_file: &'a str,
    /// Before that, in this order.
    pub mounts: &'a [FileMount],
    /// In place of all of the machine's files, these two included.
    pub root: Option<RootView<'a>>,
}

/// The root of a host that is an image.
#[derive(Clone, Copy, Debug)]
pub struct RootView<'a> {
    /// Its mount namespace.
    pub namespace: BorrowedFd<'a>,
    /// Where programs start.
    pub folder: &'a str,
    /// Their environment besides: `PATH=/bin`.
    pub environment: &'a [String],
}

/// What programs of an image hear of the terminal that they write to.
pub const KEPT: [&str; 3] = ["TERM", "COLORTERM", "LANG"];

/// Where programs of an image are looked for that does not say it itself.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Has `command` enter `host` before it runs. `descriptors`: the network namespace and, if there is one, the user namespace.
pub fn enter(command: &mut Command, host: &str, descriptors: Vec<OwnedFd>, seen: Seen<'_>) -> Result<(), Error> {
    let mut descriptors = descriptors.into_iter();
    let net = descriptors.next().ok_or(Error::Gone)?;
    let user = descriptors.next();
    let no_zero = |text: &str| CString::new(text).map_err(|_| Error::NotRunning(host.to_owned()));
    let (name, hosts_file) = (no_zero(host)?, no_zero(seen.hosts_file)?);
    let mounts = seen.mounts.iter().map(|mount| {
        Ok(match mount {
            FileMount::File { source, target } => Mount::File(no_zero(source)?, no_zero(target)?),
            FileMount::Folder { source, target } => {
                Mount::Folder(no_zero(&lower_folders(source, target))?, no_zero(target)?)
            }
        })
    });
    let mounts = mounts.collect::<Result<_, Error>>()?;
    let root = seen.root.map(|root| {
        // The machine's variables name folders that are not there, and may be secrets.
        command.env_clear().env("PATH", PATH).env("HOME", "/root");
        command.envs(KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.envs(root.environment.iter().filter_map(|variable| variable.split_once('=')));
        let namespace = root.namespace.try_clone_to_owned();
        let namespace = namespace.map_err(|source| Error::System { step: "copy a descriptor", source })?;
        Ok::<_, Error>((namespace, no_zero(root.folder)?))
    });
    let root = root.transpose()?;
    let namespaces = HostNamespaces { net, user, name, hosts_file, mounts, root };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; `HostNamespaces::enter` makes system calls only, with
    // strings and descriptors made above, and neither allocates nor locks.
    unsafe { command.pre_exec(move || namespaces.enter().map_err(io::Error::from)) };
    Ok(())
}

/// Has `command` find this descriptor under its number: it is closed at the exec of all others.
pub fn keep_descriptor(command: &mut Command, descriptor: OwnedFd) {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed, and this is one system call. The descriptor is the closure's own, so it is open under its number for as long
    // as the command is there.
    unsafe {
        command.pre_exec(move || match libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFD, 0) {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
}

/// Has `command` keep no descriptor but the standard ones, whatever this process was given by its own parent.
pub fn leave_descriptors(command: &mut Command) {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed, and this is one system call, which takes its arguments
    // by value. The descriptors are not closed here but by the exec, so those of the standard library stay usable until then.
    unsafe {
        command.pre_exec(|| {
            // Only kernels that cannot run the daemon at all refuse; it says so itself.
            libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
            Ok(())
        });
    }
}

/// Has `command` run with no signal blocked, though the thread that starts it blocks some: it would inherit that.
pub fn unblock_signals(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed, and these two are: they fill a set on the stack and make one system call.
    unsafe { command.pre_exec(|| SigSet::empty().thread_set_mask().map_err(io::Error::from)) }
}

/// Has the kernel end `command` when the thread that starts it ends, however that comes about. To be called after [`crate::Instance::command`]: who enters a user namespace
/// forgets it.
pub fn end_with_parent(command: &mut Command) -> &mut Command {
    let parent = nix::unistd::getpid();
    // SAFETY: between fork and exec only async-signal-safe calls are allowed, and these two are system calls that take their arguments by value.
    unsafe {
        command.pre_exec(move || {
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
            // It may have ended before.
            if nix::unistd::getppid() == parent { Ok(()) } else { Err(Errno::ESRCH.into()) }
        })
    }
}

/// Has `command` make files as its user's programs do, whatever mask the thread has that starts it.
pub fn reset_umask(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed, and umask(2) is a system call that takes its argument by value.
    unsafe {
        command.pre_exec(|| {
            nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
            Ok(())
        })
    }
}

struct HostNamespaces {
    net: OwnedFd,
    user: Option<OwnedFd>,
    name: CString,
    hosts_file: CString,
    mounts: Vec<Mount>,
    /// The mount namespace of an image, and where programs start in it.
    root: Option<(OwnedFd, CString)>,
}

/// A [`FileMount`] as the kernel takes it.
enum Mount {
    /// A file over a file.
    File(CString, CString),
    /// Options of overlayfs, and where it is mounted.
    Folder(CString, CString),
}

impl HostNamespaces {
    fn enter(&self) -> nix::Result<()> {
        if let Some(user) = &self.user {
            setns(user, CloneFlags::CLONE_NEWUSER)?;
        }
        setns(&self.net, CloneFlags::CLONE_NEWNET)?;
        if let Some((namespace, folder)) = &self.root {
            setns(namespace, CloneFlags::CLONE_NEWNS)?;
            unshare(CloneFlags::CLONE_NEWUTS)?;
            nix::unistd::sethostname(name_of(&self.name))?;
            // It may not be there; then it is the root.
            let _ = nix::unistd::chdir(&**folder);
            return Ok(());
        }
        unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS)?;
        nix::unistd::sethostname(name_of(&self.name))?;
        let nothing = None::<&CStr>;
        // What is mounted from here on is seen by this program and its children only.
        mount(nothing, c"/", nothing, MsFlags::MS_REC | MsFlags::MS_SLAVE, nothing)?;
        for covering in &self.mounts {
            match covering {
                Mount::File(source, target) => {
                    mount(Some(&**source), &**target, nothing, MsFlags::MS_BIND, nothing)?;
                }
                Mount::Folder(options, target) => {
                    mount(Some(c"heddle"), &**target, Some(c"overlay"), MsFlags::empty(), Some(&**options))?;
                }
            }
        }
        mount(Some(&*self.hosts_file), c"/etc/hosts", nothing, MsFlags::MS_BIND, nothing)?;
        // A /sys that shows this namespace's devices. Some containers forbid it; programs then see the machine's devices there, and
        // work all the same.
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        let _ = mount(Some(c"heddle"), c"/sys", Some(c"sysfs"), flags, nothing);
        Ok(())
    }
}

/// A hostname as the kernel takes it.
fn name_of(name: &CStr) -> &std::ffi::OsStr {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(name.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_blocks_no_signal_and_who_starts_it_goes_on_doing_so() {
        let blocked = || {
            let mut command = Command::new("grep");
            unblock_signals(command.args(["SigBlk", "/proc/self/status"]));
            String::from_utf8(command.output().expect("grep runs").stdout).expect("text")
        };
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGTERM);
        let (line, mask) = std::thread::spawn(move || {
            signals.thread_block().expect("it may");
            (blocked(), SigSet::thread_get_mask().expect("it may"))
        })
        .join()
        .expect("it ends");
        assert_eq!(line.trim_start_matches("SigBlk:").trim(), "0".repeat(16));
        assert!(mask.contains(Signal::SIGTERM));
    }
}
