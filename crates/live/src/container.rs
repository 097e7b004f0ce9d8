//! The container of an OCI bundle as a function of a chain: crun or runc runs it in the function's network.
//!
//! The runtime finds a bundle of its own in a mount namespace that nobody else sees: the configuration that is written anew, and the root file system with what is written to it kept in
//! memory. So nothing is left on a disk, and the user's bundle stays as it is. It is held by a descriptor, as the function's network is.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use serde::{Deserialize, Serialize};

use crate::bundle::{Bundle, CONFIG};
use crate::command::{KEPT, RootView};
use crate::image;
use crate::namespace::Namespace;
use crate::uplink::find_program;

/// Where control groups are.
const CGROUPS: &str = "/sys/fs/cgroup";

/// A program that runs containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    kind: RuntimeKind,
    program: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RuntimeKind {
    Crun,
    Runc,
}

impl RuntimeKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Crun => "crun",
            Self::Runc => "runc",
        }
    }

    /// What it is asked for besides.
    const fn options(self) -> &'static [&'static str] {
        match self {
            // They would have to be made and removed where an ordinary user may not, and limit nothing here.
            Self::Crun => &["--cgroup-manager=disabled"],
            Self::Runc => &[],
        }
    }
}

impl Runtime {
    /// The first that is installed.
    pub fn find() -> Option<Self> {
        let of = |kind: RuntimeKind| Some(Self { kind, program: find_program(kind.name())? });
        [RuntimeKind::Crun, RuntimeKind::Runc].into_iter().find_map(of)
    }
}

/// A container that may be run.
#[derive(Debug)]
pub struct Container {
    namespace: OwnedFd,
    inode: u64,
    runtime: Runtime,
    /// Where its bundle is, in its mount namespace.
    folder: PathBuf,
    /// What the runtime calls it.
    id: String,
    /// What it was made of.
    pub bundle: Bundle,
}

impl AsFd for Container {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }
}

impl Container {
    /// Makes one for a function called `name`. `folder` is its own, which is made for it, and `hosts_file` what is seen as `/etc/hosts`.
    ///
    /// # Errors
    /// With what could not be done.
    pub fn make(
        bundle: &Bundle,
        runtime: Runtime,
        (name, function, folder, hosts_file): (&str, &Namespace, &Path, &Path),
    ) -> Result<Self, (&'static str, io::Error)> {
        let make = || {
            function.enter().map_err(|errno| ("enter its network namespace", errno.into()))?;
            enter(bundle, runtime.kind, (name, folder, hosts_file))?;
            File::open("/proc/thread-self/ns/mnt").map_err(|error| ("open its mount namespace", error))
        };
        // The thread ends in it, and nobody else was there.
        let namespace = thread::scope(|scope| scope.spawn(make).join().expect("a container's thread does not panic"))?;
        let inode = namespace.metadata().map_err(|error| ("open its mount namespace", error))?.ino();
        let id = format!("heddle-{}-{name}", std::process::id());
        let bundle = bundle.clone();
        Ok(Self { namespace: namespace.into(), inode, runtime, folder: folder.to_owned(), id, bundle })
    }

    /// What identifies it among the mount namespaces that exist.
    pub const fn inode(&self) -> u64 {
        self.inode
    }

    /// Where its runtime is to be called.
    pub fn view(&self) -> RootView<'_> {
        RootView { namespace: self.as_fd(), folder: "/", environment: &[] }
    }

    /// The command that runs it until it ends.
    pub fn run(&self) -> Vec<String> {
        self.command(&["run", "--bundle", &self.folder.to_string_lossy(), &self.id])
    }

    /// How programs are started in it.
    pub fn entrance(&self) -> ContainerView {
        let environment = self.bundle.environment().to_vec();
        ContainerView { exec: self.command(&["exec"]), id: self.id.clone(), environment }
    }

    /// The command that ends what is left of it: all of its processes if its runtime was killed, and its control groups if there are any.
    pub fn remove(&self) -> Vec<String> {
        self.command(&["delete", "--force", &self.id])
    }

    fn command(&self, words: &[&str]) -> Vec<String> {
        let state = self.folder.join("state");
        let program = [self.runtime.program.to_string_lossy().into_owned()];
        let options = self.runtime.kind.options().iter().map(|option| (*option).to_owned());
        let state = ["--root".to_owned(), state.to_string_lossy().into_owned()];
        program.into_iter().chain(options).chain(state).chain(words.iter().map(|word| (*word).to_owned())).collect()
    }
}

/// The command of a runtime that starts a program in a container that runs: words, options of `exec`, the container's name, the program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerView {
    /// Up to `exec`.
    pub exec: Vec<String>,
    /// The container's name.
    pub id: String,
    /// The environment of its program, `NAME=VALUE`.
    pub environment: Vec<String>,
}

impl ContainerView {
    /// The beginning of the command: what comes behind are the program's arguments. It is at this terminal, if there is one.
    pub fn start(&self, program: &OsStr) -> Option<Command> {
        let terminal = KEPT.iter().filter_map(|name| Some(format!("{name}={}", std::env::var(name).ok()?)));
        let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        self.start_at(is_terminal.then(|| terminal.collect()), program)
    }

    /// The same; `terminal`: what a program hears of the terminal that it is at.
    fn start_at(&self, terminal: Option<Vec<String>>, program: &OsStr) -> Option<Command> {
        let (runtime, words) = self.exec.split_first()?;
        let mut command = Command::new(runtime);
        command.args(words);
        if let Some(terminal) = terminal {
            command.arg("--tty");
            // To crun, variables that are given are all that there are. Of two with one name the last one counts.
            for variable in self.environment.iter().chain(&terminal) {
                command.args(["--env", variable]);
            }
        }
        command.arg(&self.id).arg(program);
        Some(command)
    }
}

/// Has the calling thread go into a mount namespace of its own, and lays out the bundle there.
fn enter(
    bundle: &Bundle,
    runtime: RuntimeKind,
    (name, folder, hosts_file): (&str, &Path, &Path),
) -> Result<(), (&'static str, io::Error)> {
    let step = |step: &'static str| move |errno: nix::Error| (step, io::Error::from(errno));
    let nothing = None::<&Path>;
    // Root and working directory belong to all threads of a process, unless one has its own.
    unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).map_err(step("make a mount namespace"))?;
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_SLAVE, nothing)
        .map_err(step("part its mounts from the machine's"))?;
    let root = image::overlay(&bundle.root, folder)?;
    let config = bundle.config(&root, name, hosts_file);
    fs::write(folder.join(CONFIG), config).map_err(|error| ("write its configuration", error))?;
    // By this its runtime is known as one of this network's processes.
    mount(Some(hosts_file), "/etc/hosts", nothing, MsFlags::MS_BIND, nothing)
        .map_err(step("lay the hosts' names over /etc/hosts"))?;
    // crun uses none, and yet refuses to run anything where there are such of both versions.
    let is_second = || statfs(CGROUPS).is_ok_and(|found| found.filesystem_type() == CGROUP2_SUPER_MAGIC);
    if runtime == RuntimeKind::Crun && !is_second() {
        let _ = mount(Some("heddle"), CGROUPS, Some("tmpfs"), MsFlags::MS_RDONLY, nothing);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_at_a_terminal_keeps_the_environment_of_its_container() {
        let text = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let view = ContainerView {
            exec: text(&["crun", "--root", "/run/fw", "exec"]),
            id: "heddle-1-fw".to_owned(),
            environment: text(&["PATH=/bin"]),
        };
        let words = |terminal: Option<Vec<String>>| {
            let command = view.start_at(terminal, "sh".as_ref()).expect("there is a runtime");
            command.get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words(None), "--root /run/fw exec heddle-1-fw sh");
        let at_terminal = words(Some(text(&["TERM=xterm"])));
        assert_eq!(at_terminal, "--root /run/fw exec --tty --env PATH=/bin --env TERM=xterm heddle-1-fw sh");
    }
}
