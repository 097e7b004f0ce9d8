//! The container of an OCI bundle as a function of a chain: crun or runc runs it in the function's network.
//!
//! The runtime finds a bundle of its own in a mount namespace that nobody else sees: the configuration that is written anew, and the root file system with what is written to it kept in
//! memory. So nothing is left on a disk, and the user's bundle stays as it is. It is held by a descriptor, as the function's network is.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;
use crate::bundle::{Bundle, CONFIG};
use crate::command::{self, KEPT, RootView};
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
        ContainerView { exec: self.command(&["exec"]), id: self.id.clone(), process: self.bundle.process() }
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

/// How a runtime starts a program in a container that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerView {
    /// The runtime's command, up to `exec`.
    pub exec: Vec<String>,
    /// The container's name.
    pub id: String,
    /// The `process` of its configuration. What is started gets its user, folder, environment, capabilities and limits: by options alone crun gives it root's.
    pub process: Value,
}

impl ContainerView {
    /// The command that starts a program with its arguments. It is at this terminal, if there is one.
    ///
    /// # Errors
    /// If they are no text, or the kernel has no file for them.
    pub fn start(&self, program: &[OsString]) -> Result<Command, Error> {
        let terminal = KEPT.iter().filter_map(|name| Some(format!("{name}={}", std::env::var(name).ok()?)));
        let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        let failed = |source| Error::System { step: "hand a command to the container's runtime", source };
        let process = self.process_at(is_terminal.then(|| terminal.collect()), program).map_err(failed)?;
        let (runtime, words) = self.exec.split_first().ok_or(Error::Gone)?;
        let file = memfd_create("heddle-process", MFdFlags::MFD_CLOEXEC).map_err(|errno| failed(errno.into()))?;
        let mut file = File::from(file);
        file.write_all(process.to_string().as_bytes()).map_err(failed)?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut command = Command::new(runtime);
        command.args(words).args(["--process", &path, &self.id]);
        command::keep_descriptor(&mut command, file.into());
        Ok(command)
    }

    /// What the runtime is to start; `terminal`: what a program hears of the terminal that it is at.
    fn process_at(&self, terminal: Option<Vec<String>>, program: &[OsString]) -> io::Result<Value> {
        let no_text = || io::Error::new(io::ErrorKind::InvalidInput, "it is not UTF-8");
        let words: Option<Vec<&str>> = program.iter().map(|word| word.to_str()).collect();
        let mut process = self.process.clone();
        let Some(fields) = process.as_object_mut() else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its configuration has no process"));
        };
        fields.insert("args".to_owned(), words.ok_or_else(no_text)?.into());
        fields.insert("terminal".to_owned(), terminal.is_some().into());
        // Of two variables with one name the last one counts.
        if let Value::Array(variables) = fields.entry("env").or_insert_with(|| Value::Array(Vec::new())) {
            variables.extend(terminal.into_iter().flatten().map(Value::from));
        }
        Ok(process)
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
    use std::os::unix::ffi::OsStringExt as _;

    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_started_in_a_container_is_held_as_its_process_is() {
        let view = ContainerView {
            exec: ["crun", "exec"].map(str::to_owned).into(),
            id: "heddle-1-fw".to_owned(),
            process: json!({ "user": { "uid": 1000, "gid": 7 }, "args": ["fw"], "env": ["PATH=/bin"], "cwd": "/tmp", "noNewPrivileges": true }),
        };
        let words = ["sh", "-c", "id"].map(OsString::from);
        let mut expected = view.process.clone();
        expected["args"] = json!(["sh", "-c", "id"]);
        expected["terminal"] = json!(false);
        assert_eq!(view.process_at(None, &words).unwrap(), expected);
        expected["terminal"] = json!(true);
        expected["env"] = json!(["PATH=/bin", "TERM=xterm"]);
        assert_eq!(view.process_at(Some(vec!["TERM=xterm".to_owned()]), &words).unwrap(), expected);
        let no_text = OsString::from_vec(vec![0xff]);
        assert_eq!(view.process_at(None, &[no_text]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let command = view.start(&words).unwrap();
        let given: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        assert_eq!((&*given[0], &*given[1], &*given[3]), ("exec", "--process", "heddle-1-fw"));
    }
}
